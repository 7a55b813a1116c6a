"""`periplus` alone, as a person types it: what waits, at a terminal and in a pipe, with a store and without one."""

from __future__ import annotations

import os

import pytest

from cli_support import Shell
from periplus.journal import Writer
from periplus.memory import Memory
from periplus.project import Project
from test_cli_terminal import HOSTILE, on_terminal, wide


@pytest.fixture
def sh(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "engine").mkdir()
    return Shell(tmp_path / "engine", tmp_path / "home")


@pytest.fixture
def busy(sh):
    """A store in which others left mail, a handoff and memory for ada, and a plan is under way."""
    Project.init(os.fspath(sh.folder))
    for name in ("bob", f"eve {HOSTILE}"):
        with Project.open(os.fspath(sh.folder), Writer.named(name)) as project:
            project.work.send("ada", f"Which salt? {HOSTILE}", needs_answer=True)
            project.remember(Memory("decision", f"Tokens end after a day, says {name} and {'very ' * 60}long"))
    sh("handoff", "write", "Counting works", "--as", "codex")
    sh("plan", "make", "Rate limits", "--step", "Count", "--step", "1< Refuse")
    sh("claim", "take", "src/limit.py", "--as", "codex")
    return sh


def test_without_a_store_it_says_how_to_begin(sh):
    said = sh()
    assert said.lines[0].startswith("Periplus is not in use here yet: no store in ")
    assert "This folder is in no git project." in said.out
    assert "  periplus init    make the store of this project" in said.lines
    os.mkdir(sh.folder / ".git")
    assert "in no git project" not in sh().out
    found = sh.json()
    assert (found.root, found.waiting, [one.command for one in found.next]) == (
        "",
        False,
        ["periplus init", "periplus tour", "periplus --help"],
    )
    assert not (sh.folder / ".periplus").exists()


def test_in_a_new_store_nothing_waits(sh):
    sh("init")
    said = sh()
    assert said.lines[0] == "Nothing waits for ada."
    assert said.lines[1] == "Next"
    assert any(line.startswith('  periplus brief "…"') for line in said.lines)


def test_what_waits_stands_first_and_the_commands_last(busy):
    said = busy()
    assert said.lines[:2] == ["Waiting for ada", "  2 messages: periplus inbox mail"]
    (asked, _), (handed,) = [
        [line for line in said.lines if word in line] for word in ("Which salt?", "Counting works (codex)")
    ]
    assert asked.lstrip().startswith("msg_")
    assert handed.lstrip().startswith("hof_")
    assert any(line.endswith(": 0 of 2 steps done: Rate limits") for line in said.lines)
    assert "  steps: 1 ready: periplus plan ready" in said.lines
    assert "  here now: codex (1 claim)" in said.lines
    assert "  claimed: codex: src/limit.py" in said.lines
    assert said.lines[-5].split() == ["periplus", "inbox", "mail", "read", "your", "mail"]
    found = busy.json()
    assert (found.waiting, found.mail.count, found.handoffs.count, found.name) == (True, 2, 1, "ada")
    assert found.mail.first[0].command == f'periplus inbox answer {found.mail.first[0].id} "…"'
    assert busy.json("--as", "bob").mail.count == 0
    assert busy(cwd=busy.home, env={"PERIPLUS_STORE": os.fspath(busy.folder)}).out == busy().out


@pytest.mark.parametrize("width", [40, pytest.param(100, marks=pytest.mark.slow)])
def test_at_a_terminal_it_is_coloured_and_cut_but_for_commands(busy, width):
    raw, shown = on_terminal(busy, width=width)
    assert "\x1b[1mWaiting for ada\x1b[0m" in raw
    commands = [line for line in shown.splitlines() if "periplus " in line]
    assert [line for line in shown.splitlines() if wide(line) > width and line not in commands] == []
    assert not any("…" in line for line in commands if '"…"' not in line)
    assert "\x1b]" not in raw
    assert all(character.isprintable() or character == "\n" for character in shown)


def test_a_pipe_gets_whole_lines_and_nothing_hostile(busy):
    out = busy().out
    assert "\x1b" not in out
    assert "very " * 20 in out
    assert all(character.isprintable() or character == "\n" for character in out)
    assert "\x1b[" in busy("--color", "always").out


def test_changes_are_told_once_at_a_terminal_and_a_pipe_does_not_count(busy):
    assert "Newest changes of others" in busy().out
    _, first = on_terminal(busy, width=200)
    assert "Newest changes of others" in first
    _, second = on_terminal(busy, width=200)
    assert "nothing changed" in second
    busy("remember", "The clock is UTC", "--type", "trap", "--as", "bob")
    for _ in range(2):  # in a pipe it is no look
        assert "1 changed: periplus changed --since 20" in busy().out
    _, third = on_terminal(busy, width=200)
    assert "trap The clock is UTC (new, by bob)" in third
    assert "nothing changed" in on_terminal(busy, width=200)[1]
    command = next(line for line in third.splitlines() if "changed --since" in line).partition(": periplus ")[2]
    assert "The clock is UTC" in busy(*command.split()).out


@pytest.mark.slow
def test_a_store_that_cannot_be_written_is_shown_all_the_same(busy):
    cursors = busy.folder / ".periplus" / "cursors"
    cursors.write_text("not a folder")
    _, shown = on_terminal(busy)
    assert "Waiting for ada" in shown


def test_wrong_usage_and_a_named_place_without_a_store(sh):
    assert "periplus COMMAND --json" in sh("--json", "status", code=2).err
    sh.fails("--color", "red", code=2, wrong="invalid choice: 'red'")
    sh.fails("--store", "nowhere", code=2, wrong="no store at")
    sh.fails("--store", "", code=2, wrong="--store is empty")
    sh.fails("--store", code=2, wrong="expected one argument")
    assert sh.json("--store", "nowhere", code=2).error == "not_a_store"


def test_a_store_without_its_settings_is_no_place_to_begin(sh):
    sh("init")
    (sh.folder / ".periplus" / "config.toml").unlink()
    sh.fails(code=2, wrong="its config.toml is gone")
