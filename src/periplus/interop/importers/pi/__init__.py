"""Sessions of Pi, and of OpenClaw which is based on it.

`session` reads their records from a file of lines, `openclaw` those in the database that OpenClaw has kept them in since 2026.
"""
