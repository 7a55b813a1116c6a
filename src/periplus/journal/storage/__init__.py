"""The files of one store: their layout and settings, the keys, the lineages with their segments, the segment writer with its group commit, and the checks that say whose store and which lineage is in a folder.

`layout`, `settings`, `lineage` and `store_creation` are its public face; `stored_journal` states what these modules need of an
open journal. Below lie `records` and `state`.
"""
