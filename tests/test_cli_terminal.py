"""What a person sees: colour and cuts on a terminal, whole lines in a pipe, and nothing of a stranger's escapes."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import unicodedata

import pytest

from cli_support import PERIPLUS, Shell, claude_session, read_to_the_end
from periplus.cli.common.face import Bar, columns, visible

ESCAPE = re.compile(r"\x1b\[[0-9;]*[mK]")
HOSTILE = "Look \x1b]0;owned\x07 \x1b[2J\x1b[31mred \x9b1m \x08\x08 \u202eback \u2066in\u2069 \ufeff\u061c end"


@pytest.fixture(scope="module")
def sh(tmp_path_factory):
    folder = tmp_path_factory.mktemp("terminal")
    (folder / "home").mkdir()
    (folder / "project").mkdir()
    shell = Shell(folder / "project", folder / "home")
    shell("init")
    shell("remember", "The engine turns " + "very " * 60 + "slowly", "--type", "trap")
    shell("remember", "歯車は三百枚あります " * 20, "--type", "decision")
    shell("remember", HOSTILE, "--tag", "hostile", "--as", "eve\x1b[2J")
    path = claude_session(folder / "one.jsonl", prompt=f"Please {HOSTILE}", steps=3)
    shell("trail", "import", path)
    return shell


def on_terminal(shell, *words, width=80, code=0, **env):
    """What a terminal of ``width`` columns gets, and what it shows without the colours."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    environment = shell.environment(TERM="xterm-256color", PAGER="cat") | env
    process = subprocess.Popen(
        [PERIPLUS, *words], cwd=shell.folder, env=environment, stdin=slave, stdout=slave, stderr=slave
    )
    os.close(slave)
    out = read_to_the_end(master)
    os.close(master)
    assert process.wait(60) == code, out
    raw = out.decode().replace("\r\n", "\n")
    return raw, ESCAPE.sub("", raw)


def wide(text):
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


@pytest.mark.parametrize(
    "words", [["log"], ["recall", "engine 歯車 look"], ["trail", "list"], ["trail", "show", "trl_"]]
)
@pytest.mark.parametrize("width", [40, pytest.param(100, marks=pytest.mark.slow)])
def test_a_terminal_has_colour_and_lines_that_fit(sh, words, width):
    raw, shown = on_terminal(sh, *words, width=width)
    assert "\x1b[" in raw
    assert [line for line in shown.splitlines() if wide(line) > width] == []
    assert "…" in shown


def test_a_pipe_has_neither_colour_nor_cuts(sh):
    for words in (["log"], ["trail", "list"], ["recall", "engine"]):
        out = sh(*words).out
        assert "\x1b" not in out
    assert "very " * 60 + "slowly" in " ".join(sh("show", "trp_").out.split())
    assert "very " * 60 + "slowly" in sh("recall", "engine").out
    assert len(sh("log").lines[-1]) > 200
    assert "\x1b[" in sh("log", "--color", "always").out


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_terminal_without_colour(sh, env):
    raw, shown = on_terminal(sh, "log", **env)
    assert "\x1b" not in raw
    assert all(wide(line) <= 80 for line in shown.splitlines())
    assert "\x1b[" in on_terminal(sh, "log", "--color", "always", **env)[0]
    assert "\x1b" not in on_terminal(sh, "status", "--color", "never")[0]


def test_errors_on_a_terminal(sh):
    raw, _ = on_terminal(sh, "show", "dec_\x1b[2Jx", code=1)
    assert raw == "periplus: nothing has an id that begins with 'dec_\\x1b[2Jx'\nLook with `periplus log`.\n"
    raw, _ = on_terminal(sh, "status", "--\x1b[2J", code=2)
    assert "\x1b" not in raw


@pytest.mark.parametrize(
    "words",
    [
        ["recall", "look red back"], ["show", "not_"], ["log"], ["brief", "look red back end"], ["trail", "list"],
        ["trail", "show", "trl_"], ["trail", "show", "trl_", "--form", "verbose"], ["trail", "show", "trl_", "--form", "compact"],
        ["trail", "show", "trl_", "--form", "json"], ["status"], ["doctor"], ["trail", "verify"],
        ["log", "--json"], ["show", "not_", "--json"], ["recall", "look red back", "--json"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_nothing_hostile_reaches_the_terminal(sh, words):
    outputs = [ESCAPE.sub("", on_terminal(sh, *words, width=300)[0])]
    if words[0] in ("recall", "show"):
        outputs.append(sh(*words).out)
    for out in outputs:
        bad = {character for character in out if unicodedata.category(character) in ("Cc", "Cf") and character != "\n"}
        assert bad == set()
        if words[0] in ("recall", "show", "log", "brief"):
            assert "owned" in out


@pytest.mark.parametrize(
    ("words", "typed", "said", "code"),
    [
        (["remember", "-"], b"Said at the terminal\n\x04", "(reading the text from the terminal; Ctrl-D ends it)", 0),
        (["context", "commit", "-"], b"\x04", "(reading atoms, one JSON object a line, from the terminal", 0),
        (["trail", "record"], b"\x04", "(reading steps, one JSON object a line, from the terminal", 0),
        (["trail", "compile", "-"], b"\x04", "(reading the worklog from the terminal", 2),
        (["redact", "--secret-file", "-", "--reason", "x"], b"\x04", "(reading the text from the terminal", 2),
        (["run", "-"], b"\x04", "(reading the task from the terminal", 2),
        (["mcp"], b"\x04", "(MCP over standard input: an agent starts this", 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_who_would_wait_for_a_person_says_so(sh, tmp_path, words, typed, said, code):
    shell = Shell(tmp_path / "project", tmp_path)
    shell.folder.mkdir()
    shell("init")
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [PERIPLUS, *words], cwd=shell.folder, env=shell.environment(), stdin=slave, stdout=slave, stderr=slave
    )
    os.close(slave)
    shown = b""
    while said.encode() not in shown:
        shown += os.read(master, 65_536)
    os.write(master, typed)
    shown += read_to_the_end(master)
    os.close(master)
    assert process.wait(60) == code, shown


@pytest.mark.slow
def test_who_waits_in_line_is_told_at_a_terminal(sh):
    sh("claim", "take", "src/wheel.py", "--as", "eve")
    _, shown = on_terminal(sh, "claim", "take", "src/wheel.py", "--wait", "1", code=5)
    assert "(somebody else holds these paths; waiting up to 1 s (see periplus claim list))" in shown
    assert "somebody else" not in sh("claim", "take", "src/wheel.py", "--wait", "1", code=5).err.partition("\n")[0]


def test_visible():
    assert visible("plain – ü 歯車 \u00a0x") == "plain – ü 歯車 \u00a0x"
    assert visible("a\nb\tc") == "a b c"
    assert visible("a\nb\tc", lines=True) == "a\nb c"
    assert visible("\x1b[2J\x9b\u202e\U000e0041\udcff") == "\\x1b[2J\\x9b\\u202e\\U000e0041\\udcff"
    assert visible("👩\u200d🔧") == "👩\u200d🔧"


@pytest.mark.parametrize("text", ["歯車は三百枚", "abcdefghijkl", "e\u0301" * 12, "aé車" * 4])
def test_visible_cuts_by_columns(text):
    for width in range(1, 13):
        shown = visible(text, width)
        assert columns(shown) <= width
        assert shown == text or shown.endswith("…")
        assert shown.removesuffix("…") == text[: len(shown.removesuffix("…"))]


def test_progress_stays_off_pipes_and_quick_work(sh, tmp_path):
    raw, _ = on_terminal(sh, "doctor")
    assert "checking" not in raw
    assert sh("doctor").err == ""


def test_each_piece_of_work_has_a_second_of_its_own_before_a_bar_is_drawn():
    bar = Bar("building", 0.0)
    assert bar.line(0, 10, 0.0, 80) == ""
    assert bar.line(3, 10, 0.9, 80) == ""
    assert bar.line(5, 10, 1.2, 80) == "building [############............]  50 %"
    assert bar.line(10, 10, 1.9, 80) == "building [########################] 100 %"
    assert bar.line(1, 2, 2.0, 80) == ""  # another piece of work
    assert bar.line(2, 2, 600.0, 80) == ""  # and one long after: it is done at once
    assert bar.line(7, 0, 600.9, 80) == ""
    assert bar.line(9, 0, 601.5, 80) == "building [........................] 9"


@pytest.mark.parametrize("width", range(50))
def test_a_bar_fits_its_terminal(width):
    bar = Bar("rebuilding the index", 0.0)
    bar.line(1, 2, 0.5, width)
    assert columns(bar.line(1, 2, 1.2, width)) <= max(width - 1, 0)
