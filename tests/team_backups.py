"""What the people of a team do with backups: they keep one, put it back in place, and settle the forks that come of it.

A backup comes back only where all that was acknowledged since came to another clone, and nothing was taken out meanwhile.
"""

from __future__ import annotations

import os
import random
import shutil
from typing import NamedTuple

from periplus.base.errors import EnvironmentFailure
from periplus.journal import Writer
from periplus.project import Project
from support import settle
from team_support import Clone, Team, entities_of, is_forked


class Backup(NamedTuple):
    """What the clone held when it was made, and how much had been taken out anywhere by then."""

    holds: frozenset[str]
    copied_from: str
    released: int


def keep_backup(team: Team, clone: Clone, chance: random.Random) -> None:
    del chance
    if not clone.lineage or not clone.is_settled or team.is_archive_away:
        return
    place = team.folder / "backups" / clone.name
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(clone.root, place, symlinks=True)
    team.backups[clone.name] = Backup(frozenset(clone.holds), clone.copied_from, team.releases)
    team.told.append(f"    {clone.name} keeps a backup of {clone.lineage}")


def put_back(team: Team, clone: Clone, chance: random.Random) -> None:
    """No inode tells, or all of them do: then it counts as a copy."""
    backup = team.backups.get(clone.name)
    others = [one for one in team.clones if one is not clone and one.lineage and one.is_settled]
    if backup is None or backup.released != team.releases or clone.is_in_the_middle() or not others:
        return
    other = chance.choice(others)
    done = team.exchange(clone, f"../{other.name}")
    if done.code != 0 or done.document["waiting"] or not _has_all(other, clone) or backup.released != team.releases:
        return
    shutil.rmtree(clone.root)
    shutil.copytree(team.folder / "backups" / clone.name, clone.root, symlinks=True)
    clone.seen.clear()
    clone.holds, clone.copied_from = set(backup.holds), backup.copied_from
    if clone.lineage == clone.copied_from or any(
        clone.lineage == one.lineage for one in team.clones if one is not clone
    ):
        is_in_place = False
    else:
        is_in_place = chance.random() < 0.85
    if is_in_place:
        settle(os.fspath(clone.root))
    else:
        clone.copied_from = clone.lineage
    team.told.append(f"    {clone.name} puts its backup of {clone.lineage} back, in place: {is_in_place}")
    for _ in range(chance.randrange(4)):
        mark = team.mark()
        words = ["remember", f"The backup {mark}", "--type", chance.choice(("decision", "trap", "note"))]
        team.acknowledge(clone, team.call(clone, *words), mark)


def _has_all(other: Clone, clone: Clone) -> bool:
    held = {(lineage, seq) for lineage, seq, _ in other.lines()}
    return held.issuperset((lineage, seq) for lineage, seq, _ in clone.lines() if seq)


def give_way(team: Team, clone: Clone, where: str, chance: random.Random) -> None:
    """Now and then it is looked at first, or somebody has the store open meanwhile and goes on with it."""
    if chance.random() < 0.3:
        held = {path.name: path.read_bytes() for path in clone.root.glob("journal/lin_*/*.jsonl")}
        team.call(clone, "sync", "--with", where, "--rebase", "--dry-run")
        assert held == {path.name: path.read_bytes() for path in clone.root.glob("journal/lin_*/*.jsonl")}
    if chance.random() < 0.6:
        team.exchange(clone, where, "--rebase")
        return
    writer = Writer.named("other")
    mark, later = team.mark(), chance.random() < 0.5
    with team.as_if_in(clone), Project.open(os.fspath(clone.folder), writer) as project:
        if later:
            project.journal.mutate(lambda one: one.observe({"seen": "before"}), writer)
        else:
            entities_of(project.journal)
        before = clone.lineage
        team.exchange(clone, where, "--rebase")
        with Project.open(os.fspath(clone.folder), writer) as fresh:
            wanted = entities_of(fresh.journal)
        project.journal.refresh()
        assert entities_of(project.journal) == wanted, (
            f"who had it open while {clone.name} gave way sees something else"
        )
        try:
            project.journal.mutate(lambda one: one.observe({"seen": mark}), writer)
        except EnvironmentFailure:
            assert clone.lineage != before, "who had it open is refused only where its own lineage was left"
            return
    clone.holds.add(mark)


def sync(team: Team, clone: Clone, chance: random.Random) -> None:
    """A fork that it tells of is settled here, or left to others."""
    where = chance.choice(team.places(clone))
    if chance.random() < 0.1:
        team.call(clone, "sync", "--with", where, "--dry-run")
    done = team.exchange(clone, where)
    if is_forked(done) and chance.random() < 0.5:
        give_way(team, clone, where, chance)
