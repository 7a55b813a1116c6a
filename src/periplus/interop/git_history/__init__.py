"""Git history as a trail, and git as a child process.

`history_import` is the importer, `git_process` runs git safely on any repository and is used by other layers too.
"""
