"""Merkle trees of RFC 9162: trees that prove, in memory and from tiles, and a verifier that shares no code with them."""

from periplus.merkle.tiles import HASH_BYTES, TILE_WIDTH, Frontier, TiledTree
from periplus.merkle.tree import (
    EMPTY_ROOT,
    Prover,
    Tree,
    consistency_path,
    inclusion_path,
    leaf_hash,
    node_hash,
    root_of,
)
from periplus.merkle.verify import PATH_NODES_MAX, verify_consistency, verify_inclusion

__all__ = [
    "EMPTY_ROOT",
    "HASH_BYTES",
    "PATH_NODES_MAX",
    "TILE_WIDTH",
    "Frontier",
    "Prover",
    "TiledTree",
    "Tree",
    "consistency_path",
    "inclusion_path",
    "leaf_hash",
    "node_hash",
    "root_of",
    "verify_consistency",
    "verify_inclusion",
]
