"""Large files of a worktree: named as git names them, in pieces; what is too large is no part of the tree."""

from __future__ import annotations

import os
import resource
import subprocess

from periplus.project.worktree import worktree_of


def test_a_large_file_is_hashed_in_pieces_and_a_giant_left_out(tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    large, giant = tmp_path / "large.bin", tmp_path / "giant.bin"
    large.write_bytes(os.urandom(1 << 20) * 20 + b"end")
    with open(giant, "wb") as file:
        file.truncate(64 << 30)  # sparse: it takes no room
    tree = worktree_of(os.fspath(tmp_path))
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    looked = tree.look()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 200_000
    assert set(looked.entries) == {"large.bin"}
    told = subprocess.run(
        ["git", "hash-object", large], cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout
    assert looked.entries["large.bin"].blob.hex() == told.strip()
