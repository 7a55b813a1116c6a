"""Proofs over the Merkle tree of a lineage: the tree in tiles, the tree heads seen, and proof files that can be checked without the store.

`heads` and `proof_file` are its public face. Below lies `storage`.
"""
