"""Entity files to which git gives line ends of its own, as ``core.autocrlf`` has it."""

from __future__ import annotations

import os

from periplus.project.care.pull_obstacles import files_blocking_pull
from test_git_worktrees import Clone, git, origin

__all__ = ["origin"]  # a fixture


def test_git_sees_no_change_in_what_nobody_changed_and_a_pull_is_not_refused(origin, tmp_path):
    """Our own line ends were put back at the first look: git called every file changed, and pulled nothing over them."""
    entities = [origin.decide(f"Version 0 of {number}") for number in range(2)]
    origin.commit()
    git(tmp_path, "clone", "-q", "-c", "core.autocrlf=true", str(origin.folder), "clone")
    with Clone(tmp_path / "clone") as clone:
        path = clone.folder / ".periplus/entities/decision" / f"{entities[0].item_id}.json"
        assert b"\r\n" in path.read_bytes()
        assert len(clone.look().adopted) == 2
        assert clone.git("status", "--porcelain") == ""
        for number in (1, 2):
            origin.change(entities[0], text=f"Version {number}")
            origin.commit()
            clone.git("fetch", "-q")
            assert files_blocking_pull(os.fspath(clone.folder / ".periplus")) == []
            clone.git("pull", "-q", "--ff-only")
            assert len(clone.look().adopted) == 1
            assert clone.text(entities[0]) == f"Version {number}"
            assert clone.git("status", "--porcelain") == ""
