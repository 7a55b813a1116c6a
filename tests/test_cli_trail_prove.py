"""``periplus trail prove`` and ``periplus verify`` of what it writes, as people type them."""

from __future__ import annotations

import os
import stat

import pytest

from cli_support import Shell, claude_session
from periplus.base.errors import EnvironmentFailure, RefusedError
from periplus.base.files import write_new
from periplus.trail import TrailReader, concat, sign
from support import Stop, StoppingFiles
from trail_samples import golden_trail

SIGNED = sign(golden_trail(), b"k" * 32)


@pytest.fixture
def sh(tmp_path):
    for name in ("home", "project", "elsewhere"):
        (tmp_path / name).mkdir()
    shell = Shell(tmp_path / "project", tmp_path / "home")
    shell("init")
    shell("trail", "import", claude_session(tmp_path / "one.jsonl", steps=2))
    (shell.folder / "golden.trail").write_bytes(SIGNED)
    return shell


def test_a_stranger_checks_a_step(sh, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    digest, key = TrailReader(SIGNED).digest.hex(), TrailReader(SIGNED).signature[:32].hex()
    made = sh.json("trail", "prove", "golden.trail", "--step", "13", "--out", elsewhere / "s.proof")
    assert (made.digest, made.step, made.steps, made.key, made.withheld) == (digest, 13, 35, key, 0)
    done = sh("verify", "s.proof", "--key", key, "--trail-digest", digest, cwd=elsewhere)
    assert done.lines[0] == f"holds: of the trail with the digest given, of a trail signed by key {key}"
    assert "    target     tests/test_auth.py" in done.lines
    assert "    outcome    failed, exit 1" in done.lines
    assert "host-1" not in done.out
    found = sh.json("verify", "s.proof", "--trail-digest", digest, cwd=elsewhere)
    assert found.holds
    assert found.value["operands"] == {"target": "tests/test_auth.py", "expected": 3}
    assert found.header["agent"] == "agent-1"
    assert "withheld" in found.header["host"]
    assert "its trail is unknown" in sh("verify", "s.proof", cwd=elsewhere).out
    wrong = sh("verify", "s.proof", "--trail-digest", "0" * 64, cwd=elsewhere, code=3)
    assert wrong.out == f"does not hold: it is of another trail, with digest {digest}\n"
    assert not sh.json("verify", "s.proof", "--key", "11" * 32, cwd=elsewhere, code=3).holds
    data = bytearray((elsewhere / "s.proof").read_bytes())
    data[200] ^= 1
    (elsewhere / "bad.proof").write_bytes(data)
    assert "digest does not match" in sh("verify", "bad.proof", cwd=elsewhere, code=3).out
    sh.fails(
        "verify",
        "s.proof",
        "--head",
        "1:" + "0" * 64,
        code=2,
        wrong="--head is for proofs of the journal",
        cwd=elsewhere,
    )
    sh.fails("verify", "s.proof", "--trail-digest", "xyz", code=2, wrong="not a digest", cwd=elsewhere)


def test_a_trail_of_the_store_is_recognised(sh):
    card = sh.json("trail", "list").trails[0]
    done = sh("trail", "prove", card.id, "--step", "0")
    assert done.lines[-1].endswith(f"periplus verify step-0.proof --trail-digest {card.value['digest']}")
    assert sh("verify", "step-0.proof").lines[0] == f"holds: of the trail {card.id} in this store"
    sh.fails("trail", "prove", card.id, "--step", "0", code=5, wrong="is there already")


def test_withheld_strings_and_the_header(sh):
    made = sh.json("trail", "prove", "golden.trail", "--step", "13", "--withhold", "target,error", "--header", "none")
    assert made.withheld == 2
    data = (sh.folder / "step-13.proof").read_bytes()
    assert b"test_auth" not in data
    assert b"agent-1" not in data
    out = sh("verify", "step-13.proof").out
    assert "target     <withheld" in out
    assert "2 of the step's strings are withheld" in out
    sh("trail", "prove", "golden.trail", "--step", "13", "--header", "title,host", "--out", "more.proof")
    assert "  title        Hash passwords" in sh("verify", "more.proof").out


def test_a_part_of_a_concatenation(sh):
    (sh.folder / "both.trail").write_bytes(concat([SIGNED, SIGNED]))
    sh.fails("trail", "prove", "both.trail", "--step", "1", code=2, wrong="Choose one with --part")
    made = sh.json("trail", "prove", "both.trail", "--step", "1", "--part", "2")
    assert made.digest == TrailReader(SIGNED).digest.hex()


def test_a_trail_that_lies_is_not_proved(sh):
    from trail_samples import with_sections

    receipts = TrailReader(SIGNED).section(6)
    (sh.folder / "lies.trail").write_bytes(with_sections(SIGNED, {6: receipts[:65] + b"\1" * 32}))
    sh.fails("trail", "prove", "lies.trail", "--step", "1", code=3, wrong="trail digest")
    assert not (sh.folder / "step-1.proof").exists()


# Writing a file that must not be there yet


def test_a_new_file_is_whole_or_not_there(tmp_path):
    calls = 0
    while True:
        folder = tmp_path / str(calls)
        folder.mkdir()
        try:
            write_new(StoppingFiles(calls), os.fspath(folder / "a"), b"content")
        except Stop:
            if (folder / "a").exists():
                assert (folder / "a").read_bytes() == b"content"
            write_new_or_refused(folder)
            calls += 1
            continue
        break
    assert calls >= 4
    assert os.listdir(folder) == ["a"]


def write_new_or_refused(folder):
    from periplus.base.files import Files

    try:
        write_new(Files(), os.fspath(folder / "a"), b"content")
    except RefusedError:
        pass
    assert (folder / "a").read_bytes() == b"content"


def test_nothing_takes_the_place_of_what_is_there(tmp_path):
    from periplus.base.files import Files

    path = tmp_path / "a"
    os.symlink("/nowhere/at/all", path)
    with pytest.raises(RefusedError, match="is there already"):
        write_new(Files(), os.fspath(path), b"new")
    assert path.is_symlink()
    assert os.listdir(tmp_path) == ["a"]
    closed = tmp_path / "closed"
    closed.mkdir(mode=stat.S_IRUSR | stat.S_IXUSR)
    if os.geteuid():
        with pytest.raises(EnvironmentFailure):
            write_new(Files(), os.fspath(closed / "b"), b"new")
