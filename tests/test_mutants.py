"""Mutants are drawn, applied and compared: on a source text, and on a made suite that starts a process."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.mutants import instrumented, report_lines
from bench.mutants_sample import PACKAGES, draw, functions, index, is_different, locate, mutants_of, mutated

SOURCE = '''\
"""A module."""
LIMIT_MAX = 3


class Engine:
    def turn(self, cogs: list[int], é: str = "f") -> int:
        """Turns."""
        assert cogs, "no cogs"
        if not cogs and é == "é" or len(cogs) not in (1, 2):
            raise ValueError(f"{len(cogs) + 1} cogs")
        self.cogs = cogs[1:-len(é)]
        for cog in cogs:
            if cog is None:
                break
            cogs.append(cog - 1)
        return self.cogs

    def __repr__(self):
        return f"Engine({1 + 1})"


def oil(wheel): return wheel


def grease(wheels):
    @oil
    def one(wheel):
        return wheel < 2

    return [one(wheel) for wheel in wheels]
'''.encode()


def found(source=SOURCE):
    return {one.qualname: list(mutants_of(one, source)) for one in functions("journal/engine.py", source)}


def test_operators_change_what_they_name():
    changes = {(one.operator, one.before, one.after) for one in found()["Engine.turn"]}
    condition = 'not cogs and é == "é" or len(cogs) not in (1, 2)'
    assert changes == {
        ("condition", condition, "True"), ("condition", condition, "False"), ("condition", "cog is None", "True"),
        ("condition", "cog is None", "False"), ("boolean", "or", "and"), ("boolean", "and", "or"), ("not removed", "not cogs", "cogs"),
        ("comparison", "==", "!="), ("comparison", "not in", "in"), ("comparison", "is", "is not"), ("constant", "1", "2"),
        ("constant", "2", "3"), ("raise removed", 'raise ValueError(f"{len(cogs) + 1} cogs")', "pass"),
        ("assignment removed", "self.cogs = cogs[1:-len(é)]", "pass"), ("slice bound", "-len(é)", "(-len(é)) + 1"),
        ("slice bound", "-len(é)", "(-len(é)) - 1"), ("break to continue", "break", "continue"),
        ("call removed", "cogs.append(cog - 1)", "pass"), ("arithmetic", "-", "+"), ("return None", "self.cogs", "None"),
    }  # fmt: skip


def test_functions_have_their_own_mutants():
    by_name = found()
    assert not by_name["Engine.__repr__"]
    assert {one.operator for one in by_name["grease.<locals>.one"]} == {"return None", "comparison", "constant"}
    assert {one.operator for one in by_name["grease"]} == {"return None"}


def test_each_mutant_compiles_to_another_tree():
    starts = {one.qualname: one.start for one in functions("", SOURCE)}
    for name, mutants in found().items():
        for mutant in mutants:
            assert is_different(SOURCE, mutated(mutant, SOURCE, starts[name])), mutant
    assert not is_different(SOURCE, SOURCE + b"\n# no other tree\n")
    assert not is_different(SOURCE, b"break\n")


def tree(folder, path, source):
    place = folder / path
    place.parent.mkdir(parents=True)
    place.write_bytes(source)
    return str(folder)


def test_a_mutant_applies_to_a_moved_function_with_the_same_text(tmp_path):
    mutant = found()["Engine.turn"][0]
    moved = tree(tmp_path / "moved", "journal/parts/motor.py", b"import os\n\n" + SOURCE)
    place = locate(mutant, index(moved))
    assert place.path == "journal/parts/motor.py"
    assert b"if True:" in mutated(mutant, b"import os\n\n" + SOURCE, place.start)
    other = tree(tmp_path / "other", "journal/engine.py", SOURCE.replace(b"- 1", b"- 2"))
    assert locate(mutant, index(other)) is None
    with pytest.raises(ValueError, match="does not fit"):
        mutated(mutant, SOURCE, place.start)


def test_a_seed_draws_the_same_mutants_evenly(tmp_path):
    for package in PACKAGES:
        tree(tmp_path, f"{package}/engine.py", SOURCE)
    mutants = draw(str(tmp_path), 12, 1)
    assert mutants == draw(str(tmp_path), 12, 1) != draw(str(tmp_path), 12, 2)
    assert Counter(one.package for one in mutants) == dict.fromkeys(PACKAGES, 3)
    assert max(Counter(one.function for one in mutants).values()) <= 2
    assert len({one.id for one in mutants}) == 12


def test_an_instrumented_function_notes_that_it_was_reached():
    starts = {one.qualname: one.start for one in functions("", SOURCE)}
    numbers = {start: number for number, start in enumerate(starts.values())}
    noted = []
    scope = {"REACHED": set(), "REACH": noted.append}
    exec(compile(instrumented(SOURCE, numbers), "", "exec"), scope)
    assert scope["Engine"].turn.__doc__ == "Turns."
    assert scope["oil"](1) == 1
    assert scope["grease"]([1, 2]) == [True, False]
    names = list(starts)
    assert [names[number] for number in noted] == ["oil", "grease", "oil", "grease.<locals>.one", "grease.<locals>.one"]


def test_the_report_names_what_is_no_longer_killed(tmp_path):
    tree(tmp_path, "trail/engine.py", SOURCE)
    first, second, third = draw(str(tmp_path), 12, 1)[:3]
    killed, survived = {"state": "killed", "by": "tests/test_engine.py::test_turn"}, {"state": "survived"}
    lines, lost = report_lines(
        [first, second, third],
        {first.id: killed, second.id: killed, third.id: killed},
        {first.id: killed, second.id: survived, third.id: {"state": "not comparable"}},
    )
    assert "| trail | 2 | 2 | 1 |" in lines
    assert len(lost) == 1
    assert lost[0].startswith(second.id)
    assert f"- {third.id}" in lines
