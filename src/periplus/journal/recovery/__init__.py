"""Recovery of lost content: copies of a store, traces of lost records, restoration of segments and plain files, and content removed by
redactions, which must not return.

`copies`, `store_rescue` and `segment_restoration` are its public face. Below lie the open `journal`, `history` and `carriers`.
"""
