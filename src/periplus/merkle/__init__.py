"""Merkle trees of RFC 9162: provers in memory and on tiles, and a verifier that shares no code with them."""

from periplus.merkle.multiproof import PagedTree, prove, prove_indices
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
from periplus.merkle.verify_multi import verify_indices, verify_range

__all__ = [
    "EMPTY_ROOT",
    "HASH_BYTES",
    "PATH_NODES_MAX",
    "TILE_WIDTH",
    "Frontier",
    "PagedTree",
    "Prover",
    "TiledTree",
    "Tree",
    "consistency_path",
    "inclusion_path",
    "leaf_hash",
    "node_hash",
    "prove",
    "prove_indices",
    "root_of",
    "verify_consistency",
    "verify_inclusion",
    "verify_indices",
    "verify_range",
]
