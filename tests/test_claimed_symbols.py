"""Claims on symbols: their lines in the file as it is now, and what is said where there is no such symbol."""

from __future__ import annotations

import os

import pytest

from cli_support import Shell
from periplus.code import symbols_of
from periplus.memory.coordination.claimed_symbols import ClaimedSymbols
from periplus.memory.scopes import parse_scope
from periplus.project import Project
from periplus.server.mcp.tool_calls import Caller, Desk

AUTH = """\
import hashlib


@cached
def check(name):
    return name


class Login:
    def check(self):
        return 1

    def verify(self):
        return 2


class Other:
    def verify(self):
        return 3
"""


@pytest.fixture
def sh(tmp_path):
    (tmp_path / "home").mkdir()
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "auth.py").write_text(AUTH)
    (folder / "src" / "notes.txt").write_text("check\n")
    shell = Shell(folder, tmp_path / "home")
    shell("init")
    return shell


@pytest.mark.parametrize(
    ("scope", "lines"),
    [
        ("src/auth.py:check", (4, 6)),
        ("src/auth.py:Login", (9, 14)),
        ("src/auth.py:Login.check", (10, 11)),
        ("src/auth.py:Login::check", (10, 11)),
        ("src/auth.py:verify", None),  # of two classes
        ("src/auth.py:nothing", None),
        ("src/auth.py", None),
        ("src/*.py:check", None),
        ("src/notes.txt:check", None),
        ("src/gone.py:check", None),
    ],
)
def test_a_scope_knows_the_lines_of_its_symbol(sh, scope, lines):
    assert ClaimedSymbols(os.fspath(sh.folder), symbols_of).lines(parse_scope(scope)) == lines


def test_lines_of_a_claim_move_with_its_symbol(sh):
    taken = sh.json("claim", "take", "src/auth.py:check", "src/notes.txt")
    assert taken.claim.lines == [[4, 6], None]
    (sh.folder / "src" / "auth.py").write_text("# a line more\n" + AUTH)
    (claim,) = sh.json("claim", "list").claims
    assert claim.lines == [[5, 7], None]
    assert "src/auth.py:check (lines 5-7), src/notes.txt" in sh("claim", "list").out
    (checked,) = sh.json("check", "src/auth.py").claims
    assert checked.claim.lines == [[5, 7], None]
    (sh.folder / "src" / "auth.py").unlink()
    (claim,) = sh.json("claim", "list").claims
    assert claim.lines == [None, None]


def test_a_symbol_that_does_not_exist_is_claimed_with_a_warning(sh):
    done = sh("claim", "take", "src/auth.py:Login.chek", "src/auth.py:VERIFY", "src/gone.py:x")
    first, second = done.err.splitlines()
    assert first.startswith("periplus: src/auth.py defines no Login.chek; the nearest names: Login.check, ")
    assert second.startswith("periplus: src/auth.py defines no VERIFY; the nearest names: ")
    assert "verify" in second
    assert len(sh.json("claim", "list").claims) == 1
    assert sh("claim", "take", "src/auth.py:check").err == ""


def test_the_mcp_tool_says_the_same(sh):
    desk = Desk(lambda writer: Project.open(os.fspath(sh.folder), writer), host="here")
    try:
        paths = ["src/auth.py:check", "src/auth.py:chek"]
        reply = desk.call(Caller("probe", "one"), "claim", {"action": "take", "paths": paths})
    finally:
        desk.close()
    assert reply.data["entries"][0]["lines"] == [[4, 6], None]
    assert reply.data["notes"] == ["src/auth.py defines no chek; the nearest names: check"]
    assert "src/auth.py:check (lines 4-6)" in reply.text
