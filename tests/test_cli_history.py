"""``log``, ``blame``, ``undo`` and ``show --at`` as a person types them."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest

from cli_support import Shell, decoded, fill
from test_cli_terminal import on_terminal, wide


@pytest.fixture
def sh(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    shell = Shell(tmp_path / "project", tmp_path / "home")
    fill(shell, "one", "two", "three")
    return shell


def seqs(document):
    return [record.seq for record in document.records]


# -- log ---------------------------------------------------------------------------------------------------------------


def test_a_reader_sees_what_is_new_since_its_last_look(sh):
    first = sh.json("log", "--reader", "me")
    assert (seqs(first), first.reader, first.more, first.gaps) == ([1, 2, 3], "me", False, [])
    assert first.seen == {first.lineage: 3}
    assert sh("log", "--reader", "me").out == "Nothing new.\n"
    sh("remember", "four", "--type", "trap")
    assert "trap: four" in sh("log", "--reader", "me").lines[0]
    assert seqs(sh.json("log", "--reader", "me")) == []
    assert seqs(sh.json("log", "--reader", "you", "--limit", "1")) == [1]
    assert sh("log", "--reader", "you", "--limit", "1").lines[-1] == "more: periplus log --reader you"
    assert seqs(sh.json("log", "--reader", "you", "--since-seq", "1", "--limit", "1")) == [2]
    assert seqs(sh.json("log", "--reader", "you")) == [3, 4]


def test_a_reader_whose_output_could_not_be_written_sees_it_again(sh):
    with open("/dev/full", "w") as full:
        process = sh.start("log", "--reader", "me", stdout=full, stderr=subprocess.PIPE)
        assert b"No space left" in process.communicate(timeout=60)[1]
    assert process.returncode == 3
    assert seqs(sh.json("log", "--reader", "me")) == [1, 2, 3]


def test_what_came_behind_a_seq(sh):
    assert seqs(sh.json("log", "--since-seq", "1")) == [2, 3]
    assert sh("log", "--since-seq", "3").out == "No such records.\n"
    limited = sh("log", "--since-seq", "0", "--limit", "2")
    assert limited.lines[-1] == "more: periplus log --since-seq 2"
    lineage = sh.json("log").lineage
    assert seqs(sh.json("log", "--since-seq", f"{lineage}:2", "--lineage", "all")) == [3]


@pytest.mark.parametrize(
    ("words", "code", "wrong"),
    [
        (["--since-seq", "9"], 2, "there is no record 9: the newest of lin_"),
        (["--reader", "../x"], 2, "'../x' is no name of a reader"),
        (["--reader", "me", "--before", "2"], 2, "--before goes back"),
        (["--follow", "--before", "2"], 2, "--before goes back"),
        (["--since-seq", "x"], 2, "'x' is not a whole number"),
        (["--before", "nobody:2"], 2, "'nobody:2' is not LINEAGE:SEQ"),
        (["--since", "yesterday"], 2, "--since 'yesterday' is no time"),
        (["--until", "soon"], 2, "--until 'soon' is no time"),
        (["--lineage", "lin_zzzz"], 1, "the store holds no lineage 'lin_zzzz'"),
        (["--action", "explode"], 2, "invalid choice: 'explode'"),
        (["--writer", "\udc80"], 2, "--writer is not UTF-8"),
    ],
)
def test_wrong_input_is_said(sh, words, code, wrong):
    sh.fails("log", *words, code=code, wrong=wrong)
    assert not (sh.folder / ".periplus" / "cursors").exists()


def test_filters(sh):
    sh("remember", "mine", "--as", "grace", env={"PERIPLUS_SESSION": "s-1"})
    grace = sh.json("log", "--writer", "grace")
    assert [record.summary for record in grace.records] == ["note: mine"]
    assert sh.json("log", "--session", "s-1").records == grace.records
    assert sh.json("log", "--session", "s-2").records == []
    assert len(sh.json("log", "--action", "create").records) == 4
    assert sh("log", "--action", "delete").out == "No such records.\n"
    one = grace.records[0]
    assert sh.json("log", "--id", one.id[:12]).records == [one]
    assert sh.json("log", "--since", one.ts, "--writer", "grace").records == [one]
    assert sh.json("log", "--until", one.ts, "--writer", "grace").records == []
    assert sh.json("log", "--since", "2020-01-01", "--until", "2020-12-31").records == []
    page = sh("log", "--limit", "1", "--type", "note", "--writer", "ada", "--writer", "gr ace")
    assert page.lines[-1] == "older: periplus log --before 3 --type note --writer ada --writer 'gr ace'"
    assert (one.rev, one.conflict, one.lineage) == (1, False, grace.lineage)


def test_a_narrow_terminal_and_a_wide_one(sh):
    sh("remember", "歯車は三百枚あります " * 20, "--type", "decision")
    for width in (20, 40, 75, 76, 100):
        for words in (["log"], ["log", "--reader", f"w{width}"], ["log", "--since-seq", "0"]):
            _, shown = on_terminal(sh, *words, width=width)
            # below 40 columns ids are cut; the line that names the next command is never
            assert [line for line in shown.splitlines() if wide(line) > max(width, 40)] == []


# -- following ---------------------------------------------------------------------------------------------------------


def following(sh, *words):
    return sh.start("log", "--follow", *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_following_prints_a_line_for_each_record_until_ctrl_c(sh):
    process = following(sh, "--json", "--limit", "1")
    lines = [decoded(process.stdout.readline())]
    sh("remember", "four")
    lines.append(decoded(process.stdout.readline()))
    assert [line.record.summary for line in lines] == ["note: three", "note: four"]
    assert [line.gap for line in lines] == [None, None]
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, b"", b"")


def test_following_ends_when_nobody_reads_any_more_even_if_nothing_comes(sh):
    process = following(sh)
    assert b"note: one" in process.stdout.readline()
    process.stdout.close()
    assert process.wait(30) == 0
    assert process.stderr.read() == b""
    process.stderr.close()


def test_following_as_a_reader_moves_its_cursor(sh):
    process = following(sh, "--json", "--reader", "me")
    assert [json.loads(process.stdout.readline())["record"]["seq"] for _ in range(3)] == [1, 2, 3]
    sh("remember", "four")
    assert json.loads(process.stdout.readline())["record"]["seq"] == 4
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    left = seqs(sh.json("log", "--reader", "me"))
    assert left in ([], [4])  # the last one again, where it was stopped before its cursor moved


def test_following_an_empty_store_sees_the_first_record(tmp_path):
    (tmp_path / "home").mkdir()
    shell = Shell(tmp_path, tmp_path / "home")
    shell("init")
    process = following(shell, "--json")
    shell("remember", "first")
    assert json.loads(process.stdout.readline())["record"]["summary"] == "note: first"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_reader_of_a_store_that_may_only_be_read_is_told(sh):
    store = sh.folder / ".periplus"
    os.chmod(store, 0o555)
    try:
        done = sh("log", "--reader", "me", code=3)
        assert "note: one" in done.out
        assert "cursors" in done.err
    finally:
        os.chmod(store, 0o755)
