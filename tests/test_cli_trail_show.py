"""``periplus trail show`` as a person types it: choices of steps, the hex form, paging, narrow terminals."""

from __future__ import annotations

import os
import stat

import pytest

from cli_support import Shell, claude_session, codex_session
from periplus.trail import TrailReader, listing
from test_cli_terminal import HOSTILE, on_terminal, wide
from trail_samples import golden_trail


@pytest.fixture(scope="module")
def sh(tmp_path_factory):
    folder = tmp_path_factory.mktemp("show")
    for name in ("home", "project"):
        (folder / name).mkdir()
    shell = Shell(folder / "project", folder / "home")
    shell("init")
    shell("trail", "import", claude_session(folder / "one.jsonl", prompt=f"Please {HOSTILE}", steps=40))
    (folder / "project" / "golden.trail").write_bytes(golden_trail())
    return shell


def pager(folder, name, script):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return os.fspath(path)


def test_choosing_steps(sh):
    def steps(*words, code=0):
        lines = sh("trail", "show", "golden.trail", "--form", "compact", *words, code=code).lines
        return [int(line.split()[0]) for line in lines if line[0] != ";"]

    assert steps("--steps", "3:6") == [3, 4, 5]
    assert steps("--steps=-2:") == [33, 34]
    assert steps("--steps", "7") == [7]
    assert steps("--steps=-1") == [34]
    assert steps("--op", "test_run,FILE_READ", "--op", "0x9f") == [3, 4, 13, 14, 29]
    assert steps("--outcome", "failed") == [13]
    assert steps("--path", "auth.py", "--path", "docs/") == [3, 4, 7]
    assert steps("--outcome", "failed", "--path", "auth.py", code=1) == []
    assert steps("--steps", "99", code=1) == []
    done = sh("trail", "show", "golden.trail", "--op", "NOP", "--steps", ":30")
    assert done.lines[-2:] == ["; shown     1 of 35 steps; left out 5 by --steps, 29 by --op", "; end       partial"]


def test_wrong_choices(sh):
    for words, wrong in [
        (["--steps", "a:b"], "is not a range of steps"),
        (["--steps", ""], "is not a range of steps"),
        (["--steps", "1:2:3"], "is not a range of steps"),
        (["--steps", "1" * 30], "is not a range of steps"),
        (["--steps", "٣:"], "is not a range of steps"),
        (["--op", "TEST_RAN"], "Did you mean TEST_RUN?"),
        (["--op", "TEST_RUN,"], "--op: the list contains an empty name"),
        (["--op", "99"], "unknown opcode '99'"),
        (["--outcome", "happy"], "unknown outcome 'happy'"),
        (["--path", ""], "path pattern"),
        (["--path", "x" * 2000], "path pattern"),
        (["--at", "3", "--op", "NOP"], "--at cannot be combined with another"),
    ]:
        sh.fails("trail", "show", "golden.trail", *words, code=2, wrong=wrong)


def test_the_hex_form_is_the_file(sh):
    out = sh("trail", "show", "golden.trail", "--form", "hex").out
    assert out.splitlines() == list(listing(TrailReader(golden_trail()), "hex"))


def test_the_hex_form_of_a_concatenation_has_its_own_offsets(sh):
    from periplus.trail import concat
    from test_trail_selection import dumped

    whole = concat([golden_trail(), golden_trail()])
    (sh.folder / "both.trail").write_bytes(whole)
    lines = sh("trail", "show", "both.trail", "--form", "hex").lines
    assert dumped(lines) == dict(enumerate(whole))
    second = dumped(sh("trail", "show", "both.trail", "--form", "hex", "--part", "2").lines)
    assert {place: whole[place] for place in second} == second
    assert min(second) == len(whole) - 32 - 2 - 34 - len(golden_trail())
    sh.fails("trail", "show", "both.trail", "--steps", "1:2", code=2, wrong="--part")
    assert len(sh("trail", "show", "both.trail", "--form", "compact", "--op", "NOP").lines) == 6


# Paging: what the pager got is what stands in its file


def test_what_is_longer_than_the_screen_goes_through_the_pager(sh, tmp_path):
    taken = tmp_path / "taken"
    to_file = pager(tmp_path, "to file", f'printf "%s|" "$@" > "{taken}"; cat >> "{taken}"')
    raw, _ = on_terminal(sh, "trail", "show", "golden.trail", PAGER=f"'{to_file}' 'a b' $HOME;x")
    assert raw == ""
    text = taken.read_text()
    assert text.startswith("a b|$HOME;x|")  # words, and no shell
    assert "\x1b[36mNOP" in text
    whole, _ = on_terminal(sh, "trail", "show", "golden.trail", "--no-pager", PAGER=to_file)
    assert text.partition("x|")[2] == whole


def test_what_fits_the_screen_is_written(sh, tmp_path):
    broken = pager(tmp_path, "broken", "echo paged")
    _, shown = on_terminal(sh, "trail", "show", "golden.trail", "--at", "5", PAGER=broken)
    assert len(shown.splitlines()) == 7
    assert "paged" not in shown
    _, shown = on_terminal(sh, "trail", "show", "golden.trail", "--form", "compact", PAGER=broken, LINES="200")
    assert len(shown.splitlines()) == 36  # the last says that lines were cut
    assert "cut lines whole" in shown.splitlines()[-1]
    _, shown = on_terminal(sh, "trail", "show", "golden.trail", PAGER=broken, TERM="dumb")
    assert len(shown.splitlines()) > 40
    _, shown = on_terminal(sh, "trail", "show", "golden.trail", "--json", PAGER=broken)
    assert "paged" not in shown


LONG = f"Please read {'all of ' * 2_000}this\nto its end"


@pytest.mark.parametrize("width", [40, pytest.param(100, marks=pytest.mark.slow)])
def test_what_a_listing_cuts_is_counted_and_shown_whole_by_full(tmp_path, width):
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    sh = Shell(tmp_path / "project", tmp_path / "home")
    sh("init")
    told = sh("trail", "import", claude_session(tmp_path / "long.jsonl", prompt=LONG, steps=2)).out
    trail = told.split()[0]

    def seen(*words):
        return on_terminal(sh, "trail", "show", trail, "--no-pager", *words, width=width)[1].splitlines()

    lines = seen()
    assert all(wide(line) <= width for line in lines)
    cut = [line for line in lines if line.endswith("…")]
    count = int(lines[-1].removeprefix("; --full shows ").split()[0])
    assert 1 <= count <= len(cut)
    assert "to its end" not in "".join(lines)
    for form in ("text", "verbose", "compact"):
        whole = seen("--form", form, "--full")
        assert "this\\nto its end" in "".join(whole) or "    | to its end" in whole
        assert not any("cut line" in line for line in whole)
    assert seen("--limit", "2")[-2:] != lines[-2:]
    assert seen("--limit", "2")[2] == "; omit --limit for what follows"
    assert not any("--limit" in line for line in seen("--limit", "1000"))
    # A pipe gets no remarks on itself.
    piped = sh("trail", "show", trail, "--limit", "2").lines
    assert len(piped) == 2
    assert not any("--full" in line for line in sh("trail", "show", trail).lines)
    assert "to its end" in sh("trail", "show", trail, "--full").out
    assert "to its end" in sh("trail", "show", trail, "--full", "--json").out


def test_nothing_is_paged_in_a_pipe(sh, tmp_path):
    broken = pager(tmp_path, "broken", "echo paged")
    assert "paged" not in sh("trail", "show", "golden.trail", env={"PAGER": broken}).out


@pytest.mark.parametrize("named", ["no-such-pager-here", "'unclosed", "/", "cat", ""])
def test_a_pager_that_is_not_there_keeps_nothing_back(sh, tmp_path, named):
    (tmp_path / "bin").mkdir()
    raw, shown = on_terminal(sh, "trail", "show", "golden.trail", PAGER=named, PATH=os.fspath(tmp_path / "bin"))
    whole, _ = on_terminal(sh, "trail", "show", "golden.trail", "--no-pager")
    assert raw.endswith(whole)
    is_told = named not in ("cat", "")
    assert ("there is no such program" in shown) == is_told


def test_a_pager_that_cannot_be_started(sh, tmp_path):
    path = tmp_path / "bad"
    path.write_bytes(b"\x7fELF nothing")
    path.chmod(0o755)
    raw, shown = on_terminal(sh, "trail", "show", "golden.trail", PAGER=os.fspath(path), PATH="")
    assert "does not start" in shown
    assert raw.count("; end") == 1


def test_a_pager_that_is_left_early_is_no_error(sh, tmp_path):
    first = pager(tmp_path, "first", "head -n 1")
    _, shown = on_terminal(sh, "trail", "show", "golden.trail", "--form", "verbose", PAGER=first)
    assert len(shown.splitlines()) == 1
    _, shown = on_terminal(
        sh, "trail", "show", "golden.trail", "--form", "hex", PAGER=pager(tmp_path, "none", "exit 3")
    )
    assert shown == ""


# Terminals


@pytest.mark.parametrize("width", [20, 40, 80])
@pytest.mark.parametrize("form", ["text", "compact", "hex"])
def test_lines_fit_the_terminal(sh, form, width):
    for name in ("golden.trail", "trl_"):
        raw, shown = on_terminal(sh, "trail", "show", name, "--form", form, "--no-pager", width=width)
        assert [line for line in shown.splitlines() if wide(line) > width] == []
        assert "\x1b[36m" in raw
        plain, same = on_terminal(sh, "trail", "show", name, "--form", form, "--no-pager", width=width, NO_COLOR="1")
        assert "\x1b" not in plain
        assert [line.rstrip() for line in shown.splitlines()] == same.splitlines()


@pytest.mark.parametrize("form", ["text", "hex", "verbose", "compact", "json"])
def test_nothing_of_a_strangers_escapes_reaches_the_terminal(sh, form):
    raw, shown = on_terminal(sh, "trail", "show", "trl_", "--form", form, "--no-pager")
    assert not {"\x1b", "\x07", "\x9b", "\u202e", "\u2066"} & set(shown)
    assert "\x1b]" not in raw


def test_a_codex_session_in_a_pager_of_a_narrow_terminal(sh, tmp_path):
    taken = tmp_path / "taken"
    trail = sh.json("trail", "import", codex_session(tmp_path / "two.jsonl", prompt="Öl 歯車 " * 100)).trails[0]
    on_terminal(
        sh,
        "trail",
        "show",
        trail.id,
        "--form",
        "verbose",
        width=40,
        LINES="5",
        PAGER=pager(tmp_path, "p", f'cat > "{taken}"'),
    )
    assert "歯車" in taken.read_text()
