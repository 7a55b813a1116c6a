"""Session files of Claude Code.

`files` is the importer and finds the files of subagents, `session` turns the records of one file into steps, `records` decodes
them.
"""
