"""Teams: clones of one repository in which everybody does everything, in any order, with crashes in between.

Commits, pulls with conflicts, rebases, stashes, old commits, edits of files by hand, every command that writes, redactions
while others edit, exchange by folders and a git remote, copies of a clone, worktrees, stores that were made apart, kills and
errors of the disk. What must hold is said in ``team_support``, what is done in ``team_deeds``.

``PERIPLUS_TEAMS`` says how many teams more there are, each of another seed; ``PERIPLUS_TEAM_SEED`` names one, or where
they begin; ``PERIPLUS_TEAM_STEPS`` how many steps a team does, or which (``3,17,20``). With ``PERIPLUS_TEAM_SHRINK=1`` a
team that fails is told with the fewest steps by which it fails.
"""

from __future__ import annotations

import os
import random

import pytest

from team_deeds import DEEDS
from team_support import fresh, run_team, shortest

STEPS = os.environ.get("PERIPLUS_TEAM_STEPS", "60")
FIXED = ("one", "two", "three")
CHOSEN = os.environ.get("PERIPLUS_TEAM_SEED", "")


def steps_of(text):
    return [int(part) for part in text.split(",") if part] if "," in text else list(range(int(text)))


def run(folder, seed, steps):
    chance = random.Random(f"{seed} kind")
    return run_team(
        fresh(folder), seed, DEEDS, steps, is_tracked=chance.random() < 0.8, is_apart=chance.random() < 0.25
    )


def play(folder, seed):
    steps = steps_of(STEPS)
    try:
        team = run(folder / "team", seed, steps)
    except AssertionError as error:
        if "PERIPLUS_TEAM_SHRINK" not in os.environ:
            raise
        first = error.__cause__

        def fails_so(fewer):
            try:
                run(folder / "team", seed, fewer)
            except AssertionError as other:
                return type(other.__cause__) is type(first) and str(other.__cause__)[:25] == str(first)[:25]
            return False

        fewest = "".join(f"{number}," for number in shortest(fails_so, steps))
        raise AssertionError(f"PERIPLUS_TEAM_SEED={seed} PERIPLUS_TEAM_STEPS={fewest}") from error
    print(f"team {seed}: {len(team.clones)} clones, exit codes {team.codes}")
    return team


@pytest.mark.slow
@pytest.mark.parametrize("seed", [CHOSEN] if CHOSEN else FIXED)
def test_a_team_loses_nothing_and_comes_to_one_state(tmp_path, seed):
    play(tmp_path, seed)


@pytest.mark.slow
@pytest.mark.skipif("PERIPLUS_TEAMS" not in os.environ, reason="PERIPLUS_TEAMS says how many")
def test_many_teams(tmp_path):
    failed = []
    for number in range(int(os.environ["PERIPLUS_TEAMS"])):
        seed = f"{CHOSEN or 'team'}-{number}"
        try:
            play(tmp_path, seed)
        except AssertionError as error:
            print(f"team {seed} failed: {error}: {error.__cause__}"[:3000])
            failed.append(seed)
    assert failed == []
