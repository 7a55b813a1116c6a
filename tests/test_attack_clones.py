"""Clones that exchange with each other while their processes are killed, and what such a moment leaves behind."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import sys
from pathlib import Path

import pytest

from periplus.base.clock import SystemClock
from periplus.base.files import Files
from periplus.journal.care.doctor import examine
from periplus.journal.care.redaction import redact
from periplus.journal.care.repair import repair
from periplus.journal.carriers import open_folder
from periplus.journal.checkpoints.creation import make_checkpoint
from periplus.journal.exchange.sync import sync
from support import WRITER, Stop, StoppingFiles, item, make_store, open_journal, remove_index

SECRET = "correct horse battery staple"


def put(number, **fields):
    return lambda t: t.put("decision", item(number), fields)


def clone(root, folder):
    path = folder / ".periplus"
    path.mkdir(parents=True)
    for name in ("config.toml", ".gitignore"):
        shutil.copy(Path(root, name), path)
    return os.fspath(path)


def exchange(root, other, files=None):
    with open_journal(root, files) as journal:
        report = sync(journal, open_folder(os.fspath(other), files or Files()))
        for error in report.refusals:
            raise error


def problems(root):
    with open_journal(root) as journal:
        found = examine(journal)
        return found.exit_code, [(one.severity, one.what) for one in found.problems]


@pytest.fixture
def ada(tmp_path):
    return make_store(tmp_path / "ada", SystemClock())


def test_a_clone_that_has_written_nothing_has_nothing_to_mend_or_to_compact(ada, tmp_path):
    bob = clone(ada, tmp_path / "bob")
    with open_journal(bob) as journal:
        assert make_checkpoint(journal, WRITER) is None
    with open_journal(bob) as journal:
        assert repair(journal, WRITER) == []
    with open_journal(bob) as journal:
        assert make_checkpoint(journal, WRITER) is None
        assert journal.mutate(put(1, text="the first"), WRITER).first_seq == 1
    assert problems(bob) == (0, [])


def test_what_another_clone_went_on_from_may_come_later(ada, tmp_path):
    """Bob had it from ada, and cleo has it from bob alone, who gives away only what he wrote himself."""
    bob, cleo = (clone(ada, tmp_path / name) for name in ("bob", "cleo"))
    with open_journal(ada) as journal:
        journal.mutate(put(1, text="ada's"), WRITER)
    exchange(bob, ada)
    with open_journal(bob) as journal:
        journal.mutate(put(1, text="bob's"), WRITER)
        own = journal.lineage
    shutil.copytree(Path(bob, "journal", own), Path(cleo, "journal", own))
    code, found = problems(cleo)
    assert code == 0
    assert [severity for severity, _ in found] == ["note"]
    assert "has not arrived yet" in found[0][1]
    exchange(cleo, ada)
    assert problems(cleo) == (0, [])


def test_a_parent_of_our_own_that_is_gone_is_an_error(ada, tmp_path):
    """What a record of our own names was held when it was written."""
    bob = clone(ada, tmp_path / "bob")
    with open_journal(ada) as journal:
        journal.mutate(put(1, text="ada's"), WRITER)
        theirs = journal.lineage
    exchange(bob, ada)
    with open_journal(bob) as journal:
        journal.mutate(put(1, text="bob's"), WRITER)
    shutil.rmtree(Path(bob, "journal", theirs))
    Path(bob, "index.sqlite").unlink()
    code, found = problems(bob)
    assert code == 3
    assert any("is a parent, but no record holds it" in what for _, what in found)


def test_an_index_from_before_a_redaction_arrived_is_no_damage(ada, tmp_path):
    """Whoever opens the store between the renames of an arrival makes one; what it says of places is of the past."""
    bob = clone(ada, tmp_path / "bob")
    with open_journal(ada) as journal:
        journal.mutate(put(0, text=SECRET), WRITER)
        journal.mutate(put(1, text="first", a=1, b=1), WRITER)
        journal.roll()
    exchange(bob, ada)
    with open_journal(ada) as journal:
        journal.mutate(put(1, text="first", a=2, b=1), WRITER)
    with open_journal(bob) as journal:
        journal.mutate(put(1, text="first", a=1, b=2), WRITER)
    exchange(bob, ada)
    shutil.copy(Path(bob, "index.sqlite"), tmp_path / "before")
    with open_journal(ada) as journal:
        redact(journal, WRITER, secret=SECRET, reason="pasted by mistake")
    exchange(bob, ada)
    remove_index(bob)
    shutil.copy(tmp_path / "before", Path(bob, "index.sqlite"))
    with open_journal(bob) as journal:
        receipt = journal.mutate(
            lambda t: t.put("decision", item(1), {**t.get("decision", item(1)).value, "c": 3}), WRITER
        )
        assert receipt.record_count == 1
        assert journal.damage is None
        assert journal.get("decision", item(1)).value == {"text": "first", "a": 2, "b": 2, "c": 3}
        journal.refresh()
    assert not any(SECRET.encode() in path.read_bytes() for path in Path(bob).rglob("*") if path.is_file())
    assert problems(bob) == (0, [])


class Ended(Files):
    """The write whose temporary file is parked ends just before."""

    def replace(self, source, target):
        if "/parked/" in target:
            os.unlink(source)
        super().replace(source, target)


def test_a_temporary_file_that_goes_while_it_is_parked_is_no_failure(ada):
    with open_journal(ada) as journal:
        journal.mutate(put(1, text="first"), WRITER)
    Path(ada, "journal", ".durable.1.abc.tmp").write_bytes(b"half")
    with open_journal(ada, Ended()) as journal:
        assert repair(journal, WRITER) == []
    assert problems(ada) == (0, [])


@pytest.mark.slow
def test_stops_in_the_making_of_a_lineage_leave_nothing_behind(ada, tmp_path):
    at = 0
    while True:
        bob = clone(ada, tmp_path / f"bob{at}")
        try:
            with open_journal(bob, StoppingFiles(at)) as journal:
                journal.mutate(put(1, text="the first"), WRITER)
                break
        except Stop:
            pass
        with open_journal(bob) as journal:
            journal.mutate(put(1, text="the second"), WRITER)
            own = journal.lineage
        lineages = {path.name for path in Path(bob, "journal").glob("lin_*")}
        assert lineages == {own}
        keys = {path.name for path in Path(bob, "journal", "keys").iterdir() if path.suffix != ".tmp"}
        assert keys == {"trail", f"{own}.private", f"{own}.public"}
        with open_journal(bob) as journal:
            repair(journal, WRITER)
        assert problems(bob) == (0, []), at
        at += 1
    assert at > 20


def test_who_forwards_waits_for_a_head_that_covers_the_redaction(ada, tmp_path):
    """Bob has it from ada's folder, her head is from before: he can give the exchange folder neither the stub nor more."""
    bob = clone(ada, tmp_path / "bob")
    with open_journal(ada) as journal:
        journal.mutate(put(0, text=SECRET), WRITER)
    exchange(ada, tmp_path / "meeting")
    with open_journal(ada) as journal:
        journal.mutate(put(0, text="none"), WRITER)
        redact(journal, WRITER, secret=SECRET, reason="pasted by mistake")
    exchange(bob, ada)
    exchange(bob, tmp_path / "meeting")
    assert any(SECRET.encode() in path.read_bytes() for path in (tmp_path / "meeting").rglob("*.jsonl"))
    exchange(ada, tmp_path / "meeting")
    assert not any(SECRET.encode() in path.read_bytes() for path in (tmp_path / "meeting").rglob("*.jsonl"))
    exchange(bob, tmp_path / "meeting")
    assert problems(ada) == problems(bob) == (0, [])


@pytest.mark.slow
def test_a_redaction_that_arrives_and_is_stopped_is_told_as_that(ada, tmp_path):
    """Wherever it stops: nothing acknowledged counts as damaged, what is left is named, and the next sync ends it."""
    bob = clone(ada, tmp_path / "bob")
    with open_journal(ada) as journal:
        journal.mutate(put(0, text=SECRET), WRITER)
        journal.mutate(lambda t: t.put("note", item(0, "not"), {"text": SECRET + "n" * 70_000}), WRITER)
        journal.mutate(put(1, text="first", a=1), WRITER)
        journal.roll()
        journal.mutate(put(1, text="second", a=1), WRITER)
    exchange(bob, ada)
    with open_journal(ada) as journal:
        redact(journal, WRITER, secret=SECRET, reason="pasted by mistake")
    at, told = 0, 0
    while True:
        root = os.fspath(shutil.copytree(Path(bob).parent, tmp_path / f"bob{at}") / ".periplus")
        try:
            exchange(root, ada, StoppingFiles(at))
            break
        except Stop:
            pass
        with open_journal(root) as journal:
            assert journal.damage is None
        code, found = problems(root)
        assert code == any("redacted elsewhere" in what for _, what in found)
        assert "error" not in {severity for severity, _ in found}
        told += code
        exchange(root, ada)
        assert not any(SECRET.encode() in path.read_bytes() for path in Path(root).rglob("*") if path.is_file())
        assert not list(Path(root).glob("journal/*/emptying"))
        at += 1
    assert told > 2


# -- random histories of three clones, whose processes are killed ------------------------------------------------------


def work(step, root, others, dice, name, say):
    """One command of a clone; what it acknowledged is said."""
    with open_journal(root) as journal:
        if step == "write":
            for number in range(dice.randint(1, 5)):
                key, chosen = f"{name}-{number}", dice.randrange(5)
                held = journal.get("decision", item(chosen))
                fields = {
                    **(held.value if held is not None else {}),
                    dice.choice("abc"): dice.randrange(5),
                    "text": key,
                }
                fields["secret"] = f"{SECRET} {dice.randrange(3)}" if dice.random() < 0.2 else ""
                receipt = journal.mutate(put(chosen, **fields), WRITER, key=key, project=dice.random() < 0.5)
                say(receipt.lineage, receipt.first_seq, key)
        elif step == "sync":
            sync(journal, open_folder(os.fspath(dice.choice(others)), Files()))
        elif step == "redact" and journal.lineage:
            redact(journal, WRITER, secret=f"{SECRET} {dice.randrange(3)}", reason="pasted by mistake")
        elif step == "roll" and journal.lineage:
            journal.roll()
        elif step == "compact":
            make_checkpoint(journal, WRITER)
        elif step == "repair":
            repair(journal, WRITER)


def in_child(kill_at, *given):
    """Run ``work`` in a process that is killed at its call of that number into C; gives what was said, and the calls."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        status, count = 1, 0

        def counted(frame, event, argument):
            nonlocal count
            count += event == "c_call"
            if count == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.setprofile(counted)
            work(*given, lambda *said: os.write(writer, json.dumps(said).encode() + b"\n"))
            sys.setprofile(None)
            os.write(writer, json.dumps(["calls", count, ""]).encode() + b"\n")
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with open(reader, "rb") as pipe:
        said = [json.loads(line) for line in pipe]
    status = os.waitpid(pid, 0)[1]
    assert status == 0 or os.WTERMSIG(status) == signal.SIGKILL, given
    return {(lineage, seq): key for lineage, seq, key in said if key}, [seq for what, seq, key in said if not key]


def whole(root):
    with open_journal(root) as journal:
        journal.project(patience_s=5)
        assert journal.damage is None
        keys = {
            (one, entry.record.seq): entry.record.key for one in journal.lineages() for _, entry in journal.entries(one)
        }
        files = {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in Path(root, "entities").rglob("*.json")
        }
        return keys, files, [(one.item_id, one.version, one.heads, one.payload) for one in journal.entities()]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8 if os.environ.get("PERIPLUS_EXHAUSTIVE") else 4))
def test_random_histories_of_clones_that_are_killed_end_the_same_everywhere(tmp_path, seed):
    dice = random.Random(seed)
    ada = make_store(tmp_path / "ada", SystemClock())
    config = Path(ada, "config.toml")
    size = f"segment_bytes = {dice.choice([1500, 4000])}\nlive_segments = 1\n"
    config.write_text(config.read_text().replace("[journal]\n", "[journal]\n" + size) if "[journal]" in config.read_text()
                      else config.read_text() + "\n[journal]\n" + size)  # fmt: skip
    roots = [ada, *(clone(ada, tmp_path / name) for name in ("bob", "cleo"))]
    meeting = tmp_path / "meeting"
    acknowledged, calls, kills = {}, {}, 0
    steps = ("write", "sync", "redact", "roll", "compact", "repair")
    for number in range(80):
        step, root = dice.choices(steps, (8, 6, 1, 1, 2, 1))[0], dice.choice(roots)
        others = [meeting, *(one for one in roots if one != root)]
        kill_at = dice.randint(1, calls.get(step, 2000)) if dice.random() < 0.6 else -1
        said, counts = in_child(kill_at, step, root, others, random.Random(f"{seed} {number}"), f"{seed}-{number}")
        assert all(acknowledged.setdefault(at, key) == key for at, key in said.items())
        acknowledged |= said
        kills += not counts
        calls.update((step, count) for count in counts)
    for number, root in enumerate(roots * 3):
        in_child(-1, "write" if number < 3 else "repair", root, [], random.Random(number), f"{seed}-last-{number}")
        exchange(root, meeting)
    for root in roots:
        exchange(root, meeting)
    found = [whole(root) for root in roots]
    assert found[0] == found[1] == found[2]
    assert found[0][0].items() >= acknowledged.items()
    assert kills > 20
    for root in roots:
        assert problems(root)[0] == 0
        for path in [*Path(root).glob("index.sqlite*"), *Path(root, "journal", "checkpoints").glob("*")]:
            path.unlink()
        assert whole(root) == found[0]
