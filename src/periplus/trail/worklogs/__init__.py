"""Worklogs, which are JSON entries that describe a run: their JSON text, the values of their entries, and the compiler that makes a program of them.

The public face is `compiler.compile_worklog`. It lies above `trail.program` and `trail.v1`.
"""
