"""Proofs over the Merkle tree of a lineage: the tree in tiles, the signed tree heads that were seen, and proof files that a stranger can check.

`heads` and `proof_file` are its public face. Below lies `storage`.
"""
