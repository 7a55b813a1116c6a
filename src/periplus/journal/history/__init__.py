"""Questions about the past: the log and its pages, versions of an entity with the author of each field, cursors of readers, following a journal, and undo.

`log`, `versions`, `undo` and `cursors` are its public face. Below lies the open `journal`.
"""
