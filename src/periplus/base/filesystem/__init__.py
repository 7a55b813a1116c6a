"""Folders and small files: a folder that no path leads out of, properties of file systems, the spool of hooks, notes of failures, the settings of git, and the place of the store.

It stands on `base.files`.
"""
