"""Sessions of Pi, and of OpenClaw which is based on it.

`session` reads their records from a file of lines. `openclaw` reads them from a database, where OpenClaw has kept them
since 2026.
"""
