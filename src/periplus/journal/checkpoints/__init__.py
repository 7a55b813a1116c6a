"""Checkpoints: all heads at one place of the journal, so that an index can be filled without the records before it.

Holds their format, their creation, filling an index from one, and what is served when older segments are not on this disk.
`creation`, `checkpoint_files` and `offline_archive` are its public face. Below lies `index`.
"""
