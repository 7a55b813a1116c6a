"""Chat histories of aider: Markdown files in the project folder that hold one session after the other.

`history` is the importer; `edit_blocks` finds the edits in an answer.
"""
