"""``periplus trail redact`` as a person types it."""

from __future__ import annotations

import os

import pytest

from cli_support import SECRET, Shell, claude_session
from periplus.trail import TrailReader, concat, sign, verify
from trail_samples import golden_trail, with_sections

SIGNED = sign(golden_trail(), b"k" * 32)


@pytest.fixture
def sh(tmp_path):
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    shell = Shell(tmp_path / "project", tmp_path / "home")
    shell("init")
    shell("trail", "import", claude_session(tmp_path / "one.jsonl", steps=3))
    (shell.folder / "golden.trail").write_bytes(SIGNED)
    return shell


def test_a_redacted_trail_is_shared(sh):
    done = sh("trail", "redact", "golden.trail", "--text", "test_auth", "--path", "new.py", "--out", "shared.trail")
    digest, key = TrailReader(SIGNED).digest.hex(), TrailReader(SIGNED).signature[:32].hex()
    assert done.lines[0].endswith(f"digest {digest} (unchanged)")
    assert "test_auth" not in done.out + done.err
    data = (sh.folder / "shared.trail").read_bytes()
    for text in (b"test_auth", b"src/new.py", b"neuer.py"):
        assert text not in data
    assert b"src/auth.py" in data
    assert "verified" in sh("trail", "verify", "shared.trail", "--key", key).out
    assert "<withheld>" in sh("trail", "show", "shared.trail", "--op", "TEST_RUN").out
    again = sh.json("trail", "redact", "shared.trail", "--step", "0", "--out", "more.trail")
    assert again.before > 0
    assert again.digest == digest


def test_a_trail_of_the_store_by_text_of_a_file(sh):
    card = sh.json("trail", "list").trails[0]
    (sh.folder / "secret.txt").write_text("Count the cogs\n")
    made = sh.json("trail", "redact", card.id, "--text-file", "secret.txt", "--out", "shared.trail")
    assert made.digest == card.value["digest"]
    assert made.chosen >= 1
    assert b"Count the cogs" not in (sh.folder / "shared.trail").read_bytes()
    assert sh.json("trail", "redact", card.id, "--text-file", "-", "--out", "b.trail", stdin="make cog1\n").chosen == 1
    found = sh("trail", "show", card.id).out
    assert "Count the cogs" in found  # the trail of the store is what it was


def test_secrets_patterns_and_parts(sh):
    from periplus.trail import Header, TrailBuilder
    from trail_samples import SECRET as TRAIL_SECRET

    builder = TrailBuilder(TRAIL_SECRET)
    builder.add("COMMAND_RUN", f"deploy --key {SECRET}")
    builder.add("COMMAND_RUN", "make build-17")
    trail = builder.finish(Header("a", "t"))
    (sh.folder / "both.trail").write_bytes(concat([SIGNED, trail]))
    made = sh.json("trail", "redact", "both.trail", "--secrets", "--pattern", r"build-\d+", "--out", "a.trail")
    assert made.chosen == 2
    data = (sh.folder / "a.trail").read_bytes()
    assert SECRET.encode() not in data
    assert b"build-17" not in data
    assert verify(data).ok
    made = sh.json("trail", "redact", "both.trail", "--step", "1", "--part", "2", "--exactly", "--out", "b.trail")
    assert (made.chosen, made.left) == (1, 0)
    sh.fails("trail", "redact", "both.trail", "--step", "1", "--out", "c.trail", code=2, wrong="--part")


def test_what_finds_nothing_writes_nothing(sh):
    done = sh("trail", "redact", "golden.trail", "--text", "no such text", "--out", "x.trail", code=1)
    assert done.lines == ["Nothing matched, so nothing was written."]
    assert not (sh.folder / "x.trail").exists()


def test_what_is_there_stays(sh):
    (sh.folder / "x.trail").write_text("mine")
    sh.fails("trail", "redact", "golden.trail", "--text", "bob", "--out", "x.trail", code=5, wrong="is there already")
    assert (sh.folder / "x.trail").read_text() == "mine"


@pytest.mark.slow
def test_a_pattern_that_hangs_is_ended(sh, tmp_path):
    from periplus.trail import Header, TrailBuilder
    from trail_samples import SECRET as TRAIL_SECRET

    builder = TrailBuilder(TRAIL_SECRET)
    builder.add("SAY", "a" * 4000)
    (sh.folder / "long.trail").write_bytes(builder.finish(Header("a", "t")))
    done = sh.fails(
        "trail", "redact", "long.trail", "--pattern", "(a+)+$b", "--out", "x.trail", code=5, wrong="still searching"
    )
    assert "--text-file" in done.err


def test_a_trail_that_lies_is_not_redacted(sh):
    receipts = TrailReader(SIGNED).section(6)
    (sh.folder / "lies.trail").write_bytes(with_sections(SIGNED, {6: receipts[:65] + b"\1" * 32}))
    sh.fails(
        "trail",
        "redact",
        "lies.trail",
        "--text",
        "bob",
        "--out",
        "x.trail",
        code=3,
        wrong="does not match its digest",
    )
    assert not (sh.folder / "x.trail").exists()
    (sh.folder / "broken.trail").write_bytes(SIGNED[:300])
    sh.fails("trail", "redact", "broken.trail", "--text", "bob", "--out", "x.trail", code=3, wrong="byte")


def test_no_pipe_or_device_is_replaced_by_a_file(sh):
    pipe = sh.folder / "pipe"
    os.mkfifo(pipe)
    for words in (["export"], ["sign"], ["redact", "--step", "0"], ["decode"]):
        sh.fails("trail", *words[:1], "golden.trail", *words[1:], "--out", "pipe", code=2, wrong="not a file")
        assert pipe.is_fifo()
