"""Shell commands in transcripts: the actions that a command line performs, the test runners among them, and the outcome of each part by its output.

Pure; it stands on `trail.model` only.
"""
