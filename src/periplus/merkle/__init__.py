"""Merkle trees of RFC 9162: a tree that proves, and a verifier that shares no code with it."""

from periplus.merkle.tree import (
    EMPTY_ROOT,
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
    "PATH_NODES_MAX",
    "Tree",
    "consistency_path",
    "inclusion_path",
    "leaf_hash",
    "node_hash",
    "root_of",
    "verify_consistency",
    "verify_inclusion",
]
