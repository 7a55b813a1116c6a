"""What disks do to the stores of a team: some records cannot be read any more. Another clone has them, whether or not it is asked."""

from __future__ import annotations

import os
import random
from pathlib import Path

from team_support import Clone, Team

_RECORDS_MAX = 3


def rot(team: Team, clone: Clone, chance: random.Random) -> None:
    """A repair gives up what this clone wrote, or takes it from another; whoever has it gives it back sooner or later.

    What is to be redacted some day is left out: nobody takes out what he cannot read.
    """
    if not clone.lineage or clone.lineage == clone.copied_from or not clone.is_settled or clone.is_in_the_middle():
        return
    others = [one for one in team.clones if one is not clone]
    found = [(path, line) for path in _segments(clone, clone.lineage) for line in _records(path)]
    known = {
        other.name: {line for path in _segments(other, clone.lineage) for line in _records(path)} for other in others
    }
    chosen = []
    for path, line in chance.sample(found, min(len(found), 12)):
        holders = [other for other in others if line in known[other.name]]
        if holders and b'"leaf":' not in line and b"hush" not in line and len(chosen) < _RECORDS_MAX:
            chosen.append((path, line, holders[0]))
    if not chosen:
        return
    for path, line, _ in chosen:
        path.write_bytes(path.read_bytes().replace(line, b"x" * len(line)))
    copies = [
        part for other in dict.fromkeys(other for *_, other in chosen) for part in ("--from", os.fspath(other.folder))
    ]
    team.told.append(f"    {clone.name} cannot read {len(chosen)} of its records any more")
    words = ["doctor", "--repair", *(copies if chance.random() < 0.3 else ())]
    done = team.call(clone, *words, codes=frozenset({0, 1, 3}))
    if done.code == 3:  # nothing says what stood there: then it has to be brought
        done = team.call(clone, "doctor", "--repair", *copies, codes=frozenset({0, 1, 3}))
    wrong = [one for one in done.document["problems"] if one["severity"] == "error"]
    assert all("config.toml" in one["path"] for one in wrong), done
    promised = {mark for mark in clone.holds if " " not in mark} - team.released
    clone.holds -= promised - clone.marks()


def _segments(clone: Clone, lineage: str) -> list[Path]:
    return sorted((clone.root / "journal" / lineage).glob("**/*.jsonl"))


def _records(path: Path) -> list[bytes]:
    return [line for line in path.read_bytes().split(b"\n")[1:] if line.startswith(b'{"v":')]
