"""A secret in a lineage that was left: it leaves every store, by the key of the lineage, though no record may be added to it."""

from __future__ import annotations

import os
import shutil
import zlib
from pathlib import Path

import pytest

from independent_reader.store import Store
from periplus.base.clock import SystemClock
from periplus.base.errors import DamageError, RefusedError
from periplus.base.files import Files
from periplus.journal.care.doctor import examine
from periplus.journal.care.redaction import redact
from periplus.journal.care.repair import repair
from periplus.journal.carriers import open_folder
from periplus.journal.checkpoints.creation import make_checkpoint
from periplus.journal.exchange.sync import sync
from periplus.journal.records.record import decode_line
from periplus.journal.records.segment import scan
from periplus.journal.records.stub import audited_record, make_stub
from periplus.journal.storage.keys import make_keys
from periplus.journal.storage.layout import Layout
from support import WRITER, Stop, StoppingFiles, item, make_store, open_journal, settle
from test_exchange import KINDS, Medium, put, records, state
from test_rebase import clone, lineage_of, put_back

SECRET = "hunter2-is-the-secret"
LARGE = SECRET + "n" * 70_000


def holders(*folders):
    """The files that hold the secret, as it stands there or packed."""
    needles = (SECRET.encode(), zlib.compress(LARGE.encode())[:40])
    return [
        path
        for folder in folders
        for path in Path(folder).rglob("*")
        if path.is_file() and any(needle in path.read_bytes() for needle in needles)
    ]


def read(root):
    """The store as the independent reader has it."""
    return Store(Path(root), (Path(__file__).parents[1] / "docs/reference/entities.md").read_text())


def copied(root, folder):
    """A store that was copied: its next write begins a lineage of its own."""
    shutil.copytree(root, folder / ".periplus")
    return os.fspath(folder / ".periplus")


def redacted(root, **how):
    with open_journal(root) as journal:
        return redact(journal, WRITER, secret=SECRET, reason="pasted by mistake", **how)


def exchange(root, place):
    with open_journal(root) as journal:
        return sync(journal, open_folder(os.fspath(place), Files())).refusals


def is_sound(root):
    with open_journal(root) as journal:
        problems = [one for one in examine(journal).problems if one.severity != "note"]
    assert (problems, read(root).problems()) == ([], [])
    return True


@pytest.fixture
def ada(tmp_path):
    root = make_store(tmp_path / "ada", SystemClock())
    with open_journal(root) as journal:
        journal.mutate(put(1, "plain"), WRITER)
        journal.mutate(put(2, f"it is {SECRET}"), WRITER)
        journal.mutate(put(2, "it is in the vault"), WRITER)
        journal.mutate(put(3, f"now {SECRET}"), WRITER)
        journal.roll()
        journal.mutate(lambda t: t.put("note", item(4, "not"), {"text": LARGE}), WRITER)
        journal.mutate(put(5, f"{SECRET} at the end"), WRITER)
    return root


@pytest.fixture
def eve(ada, tmp_path):
    """Her store is a copy of Ada's, and she has written in it."""
    root = copied(ada, tmp_path / "eve")
    with open_journal(root) as journal:
        journal.mutate(put(6, "eve's"), WRITER)
    return root


@pytest.fixture(params=KINDS)
def medium(request, tmp_path, ada):
    return Medium(request.param, tmp_path, ada)


@pytest.mark.parametrize("has_written", [True, False])
def test_it_leaves_the_store(ada, eve, tmp_path, has_written):
    root = eve if has_written else copied(ada, tmp_path / "new")
    before = records(root)
    with open_journal(root) as journal:
        old = journal.lineage if not has_written else next(iter(journal.own.left))
        old = old or journal.copied_from
    planned = redacted(root, dry_run=True)
    assert records(root) == before
    assert {one.lineage for one in planned.records} == {old}
    assert planned.remaining == []
    done = redacted(root)
    assert done.records == planned.records
    assert sorted(one.seq for one in done.records) == [2, 4, 5, 6]
    assert done.entities == planned.entities
    assert done.remaining == []
    assert holders(root) == []
    assert records(root)[old] == before[old]
    assert is_sound(root)
    again = redacted(root)
    assert (again.records, again.entities, again.objects, again.remaining) == ([], [], [], [])
    with open_journal(root) as journal:
        assert journal.get("decision", item(2)).value == {"text": "it is in the vault"}
        assert journal.get("decision", item(3)).value == {"text": "now [redacted]"}
        journal.mutate(put(7, "goes on"), WRITER)


def test_what_no_record_holds_begins_no_lineage(ada, tmp_path):
    root = copied(ada, tmp_path / "new")
    before = Path(root, "journal/lineage.json").read_bytes()
    with open_journal(root) as journal:
        done = redact(journal, WRITER, secret="never written here", reason="why")
    assert (done.records, done.entities, done.remaining) == ([], [], [])
    assert Path(root, "journal/lineage.json").read_bytes() == before
    assert is_sound(root)


@pytest.mark.slow
def test_it_leaves_every_copy(ada, eve, medium, tmp_path):
    """Bob had it from Eve when it was all there. Ada is gone."""
    bob = clone(ada, tmp_path / "bob")
    shutil.rmtree(ada)
    with open_journal(bob) as journal:
        journal.mutate(put(8, "bob's"), WRITER)
    for root in (eve, bob, eve):
        medium.exchange(root)
    with open_journal(bob) as journal:
        assert make_checkpoint(journal, WRITER)
    assert holders(bob)
    before = records(bob)
    redacted(eve)
    assert medium.exchange(bob).refusals == []
    dry = medium.exchange(eve, dry_run=True)
    assert (dry.refusals, bool(holders(bob))) == ([], True)
    for root in (eve, bob, eve):
        medium.exchange(root)
    outside = [path for path in holders(eve, bob, medium.path) if "cache" not in path.parts]
    assert outside == []
    assert state(eve) == state(bob)
    assert all(records(bob)[lineage][: len(leaves)] == leaves for lineage, leaves in before.items())
    assert is_sound(eve)
    assert is_sound(bob)
    new = clone(eve, tmp_path / "new")
    medium.exchange(new)
    assert state(new) == state(bob)
    assert is_sound(new)


def test_what_an_earlier_redaction_gave_as_its_reason(ada, tmp_path):
    """Both audit records go, that of the lineage which was left and that of the one which is written; their stubs still count."""
    with open_journal(ada) as journal:
        redact(journal, WRITER, secret="it is in the vault", reason="ann@example.org")
    carol = copied(ada, tmp_path / "carol")
    with open_journal(carol) as journal:
        redact(journal, WRITER, secret=SECRET, reason="of ann@example.org, too")
        done = redact(journal, WRITER, secret="ann@example.org", reason="a name")
        assert [one.action for one in done.records] == [
            "redact"
        ] * 3  # Ada's, and two of Carol's: signed, and of what went with it
    assert not any(b"ann@example.org" in path.read_bytes() for path in Path(carol).rglob("*") if path.is_file())
    assert is_sound(carol)
    bob = clone(ada, tmp_path / "bob")
    assert exchange(bob, carol) == []
    assert is_sound(bob)
    assert state(bob) == state(carol)


@pytest.mark.parametrize("first", ["ada", "eve"])
def test_its_owner_is_still_there_and_goes_on(ada, eve, tmp_path, first):
    """Ada has what she wrote until she redacts it herself: what she writes meanwhile comes to all, what was taken out to nobody."""
    bob = clone(ada, tmp_path / "bob")
    assert exchange(bob, ada) == []
    redacted(eve)
    assert exchange(bob, eve) == []
    assert holders(bob) == []
    with open_journal(ada) as journal:
        journal.mutate(put(9, "she goes on"), WRITER)
    for root in (bob, eve):
        assert exchange(root, ada) == []
        assert holders(root) == []
        assert is_sound(root)
    assert state(bob) == state(eve)
    with open_journal(bob) as journal:
        assert journal.get("decision", item(9)).value == {"text": "she goes on"}
    for place in (bob, eve) if first == "ada" else ():
        with open_journal(ada) as journal:
            report = sync(journal, open_folder(os.fspath(place), Files()))
        assert (report.refusals, report.emptied_there) == ([], (2, 4, 5, 6))
    assert holders(ada)
    redacted(ada)
    for _ in range(2):
        for root, place in ((ada, bob), (ada, eve), (bob, eve)):
            assert exchange(root, place) == []
    assert holders(ada, bob, eve) == []
    assert state(ada) == state(bob) == state(eve)
    assert all(map(is_sound, (ada, bob, eve)))


def test_who_holds_less_of_it_keeps_more(ada, eve, tmp_path):
    """Bob has what Ada wrote since; Eve, who has it not, takes out of the same segment what came before."""
    bob = clone(ada, tmp_path / "bob")
    with open_journal(ada) as journal:
        journal.mutate(put(9, "she went on"), WRITER)
    assert exchange(bob, ada) == []
    redacted(eve)
    assert exchange(eve, bob) == []
    assert state(eve) == state(bob)
    assert holders(eve, bob) == []
    with open_journal(eve) as journal:
        assert journal.get("decision", item(9)) is not None
    assert is_sound(eve)
    assert is_sound(bob)


def test_who_gave_way_in_a_fork_takes_it_out_too(ada, tmp_path):
    """Her store was put back from a backup and went on. Nobody writes the lineage any more; what gave way lies parked."""
    bob = clone(ada, tmp_path / "bob")
    shutil.copytree(ada, tmp_path / "backup")
    with open_journal(ada) as journal:
        journal.mutate(put(7, f"{SECRET} before"), WRITER)
    assert exchange(bob, ada) == []
    put_back(ada, tmp_path / "backup")
    with open_journal(ada) as journal:
        old = journal.lineage
        journal.mutate(put(8, f"{SECRET} after"), WRITER)
    with open_journal(ada) as journal:
        assert sync(journal, open_folder(bob, Files()), rebases=True).refusals == []
        assert journal.lineage != old
    done = redacted(ada)
    assert {one.lineage for one in done.records} == {old, lineage_of(ada)}
    parked = os.path.join(ada, "parked")
    assert all(one.where.startswith(parked) for one in done.remaining)
    shutil.rmtree(parked)
    assert exchange(bob, ada) == []
    assert state(ada) == state(bob)
    assert holders(ada, bob) == []
    assert is_sound(ada)
    assert is_sound(bob)


def stubbed(root, lineage, seq):
    """Put a stub in the place of a record, as a redaction does; gives what an audit record has to say of it."""
    (path,) = [
        one for one in Path(root, "journal", lineage).glob("*.jsonl") if f'"seq":{seq},'.encode() in one.read_bytes()
    ]
    lines = path.read_bytes().split(b"\n")
    at = next(at for at, line in enumerate(lines) if f'"seq":{seq},'.encode() in line)
    leaf = decode_line(lines[at])[1]
    lines[at] = make_stub(lines[at], leaf, "0" * 64)[:-1]
    path.write_bytes(b"\n".join(lines))
    return audited_record(lines[at], leaf, seq)


@pytest.mark.parametrize("how", ["unsigned", "of another", "of other records"])
def test_what_its_key_did_not_sign_counts_for_nothing(ada, tmp_path, how):
    from periplus.journal.records.stub import audit_message
    from periplus.journal.storage.keys import sign

    eve, bob = clone(ada, tmp_path / "eve"), clone(ada, tmp_path / "bob")
    for root in (eve, bob):
        assert exchange(root, ada) == []
    with open_journal(ada) as journal:
        lineage = journal.lineage
    audit = stubbed(eve, lineage, 1)
    said = {"lineage": lineage, "records": [list(audit)], "reason": "x"}
    with open_journal(eve) as journal:
        journal.mutate(put(6, "eve's"), WRITER)
        if how == "of another":
            said["signature"] = sign(journal.layout, journal.lineage, audit_message(lineage, [audit])).hex()
        if how == "of other records":
            wrong = audit._replace(seq=2)
            said["signature"] = sign(Layout(ada), lineage, audit_message(lineage, [wrong])).hex()
        journal.mutate(lambda t: t.meta("redact", said), WRITER)
    before = records(bob)[lineage]
    (refused,) = exchange(bob, eve)
    assert isinstance(refused, DamageError)
    assert "no record says so" in str(refused)
    assert records(bob)[lineage] == before
    with open_journal(bob) as journal:
        assert journal.get("decision", item(1)).value == {"text": "plain"}
    with open_journal(eve) as journal:
        assert any("no audit record names" in one.what for one in examine(journal).problems)
    assert any("no audit record names" in one for one in read(eve).problems())


def test_the_lineage_that_says_so_has_to_come_along(eve, ada, tmp_path):
    """What is taken out counts by a record of Eve's lineage: where that cannot be had, nothing of it is taken."""
    bob = clone(ada, tmp_path / "bob")
    assert exchange(bob, eve) == []
    before = records(bob)
    redacted(eve)
    with open_journal(eve) as journal:
        mine, old = journal.lineage, next(iter(journal.own.left))
    with open_journal(bob) as journal:  # another key was seen for it before
        (Path(bob) / f"journal/peers/{mine}.json").unlink()
        Path(bob, f"journal/keys/{mine}.public").unlink()
        make_keys(journal.layout, Files(), mine)
    refused = exchange(bob, eve)
    assert any(isinstance(one, RefusedError) and f"of {old} were redacted" in str(one) for one in refused)
    assert records(bob) == before
    assert holders(bob)


def test_a_store_without_its_key_says_so(ada, tmp_path):
    root = copied(ada, tmp_path / "eve")
    with open_journal(ada) as journal:
        old = journal.lineage
    for path in Path(root, "journal/keys").glob("*.private"):
        path.unlink()
    with open_journal(root) as journal:
        journal.mutate(put(6, "eve's"), WRITER)
    done = redacted(root)
    assert {one.lineage for one in done.records} == set()
    assert done.remaining
    assert all(
        old in one.where and "the key to redact it with is not here" in one.mend
        for one in done.remaining
        if old in one.where
    )
    assert any(old in one.where for one in done.remaining)


@pytest.mark.slow
@pytest.mark.parametrize("has_written", [True, False])
def test_a_stop_at_every_call_and_the_same_command_again(ada, eve, tmp_path, has_written):
    bob = clone(ada, tmp_path / "bob")
    assert exchange(bob, eve if has_written else ada) == []
    stops = 0
    for at in range(400):
        here, there = (os.fspath(tmp_path / f"{at}/{name}/.periplus") for name in ("eve", "bob"))
        for source, target in ((eve if has_written else ada, here), (bob, there)):
            shutil.copytree(source, target)
            if target == there or has_written:
                settle(target) if Path(target, "journal/lineage.json").exists() else None
        is_done = True
        try:
            with open_journal(here, StoppingFiles(at, share=0.5)) as journal:
                redact(journal, WRITER, secret=SECRET, reason="a secret")
        except Stop:
            is_done = False
            stops += 1
        assert exchange(there, here) == [], at
        redacted(here)
        assert exchange(there, here) == [], at
        assert [path for path in holders(here, there) if not path.name.endswith(".tmp")] == [], at
        assert state(here) == state(there), at
        assert is_sound(here), at
        assert is_sound(there), at
        shutil.rmtree(tmp_path / str(at))
        if is_done:
            break
    assert stops > 40


def test_a_damaged_stub_comes_back_from_a_copy(ada, eve, tmp_path):
    redacted(eve)
    backup = tmp_path / "backup"
    shutil.copytree(eve, backup / ".periplus")
    with open_journal(eve) as journal:
        old = next(iter(journal.own.left))
        path = Path(journal.reader(old).path_of(1))
    data = path.read_bytes()
    entry = next(
        one
        for one in scan(data[data.index(b"\n") + 1 :], base=data.index(b"\n") + 1, next_seq=1).entries
        if one.record.is_stub
    )
    path.write_bytes(data[: entry.offset + 20] + b"?" + data[entry.offset + 21 :])
    with open_journal(eve) as journal:
        repair(journal, WRITER, sources=[os.fspath(backup)])
    assert path.read_bytes() == data
    assert is_sound(eve)


def test_what_an_earlier_version_left_in_place_is_told(ada, eve, tmp_path):
    """An earlier version takes in the record that says so, and empties nothing: it does not know what is said of another lineage.
    So it is found where a store was there before the redaction, and has the redacting lineage since.
    """
    cay = copied(ada, tmp_path / "cay")
    with open_journal(cay) as journal:
        journal.mutate(put(7, "cay's"), WRITER)
    redacted(eve)
    new = lineage_of(eve)
    shutil.copytree(Path(eve, "journal", new), Path(cay, "journal", new))
    shutil.copytree(Path(eve, "objects"), Path(cay, "objects"), dirs_exist_ok=True)
    shutil.copy(Path(eve, "journal", "keys", f"{new}.public"), Path(cay, "journal", "keys", f"{new}.public"))

    def told():
        with open_journal(cay) as journal:
            return [one for one in examine(journal).problems if one.what.startswith("a record that was redacted")]

    assert {(one.severity, one.seq) for one in told()} == {
        ("warning", 2),
        ("warning", 4),
        ("warning", 5),
        ("warning", 6),
    }
    assert all(Path(one.path).name in {"000000000001.jsonl", "000000000005.jsonl"} for one in told())
    assert "periplus sync" in told()[0].mend
    exchange(cay, tmp_path / "eve")
    with open_journal(cay) as journal:
        journal.project(patience_s=5)
    assert told() == []
    assert holders(cay) == []
    assert is_sound(cay)


@pytest.mark.slow
def test_what_a_stop_left_in_place_behind_the_audit_record_is_told(eve, tmp_path):
    """Wherever a redaction was stopped: what it said is taken out is, or doctor says that it is not."""
    silent, seen, at = [], 0, 0
    while True:
        shutil.rmtree(tmp_path / "cut", ignore_errors=True)
        root = copied(eve, tmp_path / "cut")
        settle(root)
        files = StoppingFiles(at)
        try:
            with open_journal(root, files) as journal:
                redact(journal, WRITER, secret=SECRET, reason="pasted by mistake")
        except Stop:
            pass
        else:
            break
        is_audited = any(b'"action":"redact"' in path.read_bytes() for path in Path(root).rglob("*.jsonl"))
        is_here = any(SECRET.encode() in path.read_bytes() for path in Path(root).rglob("*.jsonl"))
        if is_audited and is_here:
            seen += 1
            with open_journal(root) as journal:
                told = [one.what for one in examine(journal).problems]
            if not any("redact" in one for one in told):
                silent.append((at, files.calls[-1], told))
        at += 1
    assert seen > 5
    assert silent == []
