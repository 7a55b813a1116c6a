"""Recovery of lost content: copies of a store, what still tells of lost records, restoring segments and plain files, and content that redactions removed and that must not return.

`copies`, `store_rescue` and `segment_restoration` are its public face. Below lie the open `journal`, `history` and `carriers`.
"""
