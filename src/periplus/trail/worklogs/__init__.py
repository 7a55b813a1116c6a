"""Worklogs, the JSON entries that describe a run: their JSON text, the values of their entries, and the compiler.

The compiler makes a program of a worklog. The public face is `compiler.compile_worklog`. It lies above
`trail.program` and `trail.v1`.
"""
