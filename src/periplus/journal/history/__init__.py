"""History of a journal: the log and its pages, versions of an entity with the author of each field, readers' cursors, following, activity by day, and undo.

`log`, `versions`, `undo` and `cursors` are its public face. Below lies the open `journal`.
"""
