"""A lineage that two stores wrote: one side gives way, and nothing that either of them acknowledged is lost."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from periplus.base.clock import SystemClock
from periplus.base.errors import ForkError, RefusedError
from periplus.base.files import Files
from periplus.journal import Writer
from periplus.journal.care.doctor import examine
from periplus.journal.care.redaction import redact
from periplus.journal.carriers import open_folder
from periplus.journal.checkpoints.creation import make_checkpoint
from periplus.journal.exchange.rebase import rebase
from periplus.journal.exchange.sync import sync
from periplus.journal.history.cursors import Reader
from periplus.journal.storage.tree_head import read_peer
from sampling import sampled
from support import WRITER, item, make_store, open_journal, settle
from test_exchange import KINDS, Medium, files_of, put, records, state, stopped_at_every_call, tree
from test_exchange import clone as bare_clone

EVE = Writer("eve", "who_0000000000000eve", "ses-1", 7)


def texts(root):
    with open_journal(root) as journal:
        return {one.item_id: one.value["text"] for kind in ("decision", "note") for one in journal.entities(kind)}


def clone(root, folder):
    found = bare_clone(root, folder)
    shutil.copy(Path(root, ".gitignore"), found)
    return found


def clone_of_all(root, folder):
    """A copy of the whole store, which has not written."""
    shutil.copytree(root, folder / ".periplus")
    return os.fspath(folder / ".periplus")


def put_back_beside(root, lineage, folder):
    """A store that writes ``lineage`` as ``root`` holds it: the other of two that were started from one image."""
    found = clone_of_all(root, folder)
    with open_journal(found) as journal:
        journal.mutate(put(88, "before it was another's"), WRITER)
    path = Path(found, "journal/lineage.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"lineage": lineage}))
    settle(found)
    for name in ("journal/durable", "index.sqlite"):
        Path(found, name).unlink()
    return found


def lineage_of(root):
    with open_journal(root) as journal:
        return journal.lineage


def put_back(root, backup):
    """The store as it was when ``backup`` was made, where it lies: no inode tells."""
    shutil.rmtree(root)
    shutil.copytree(backup, root)
    settle(root)


def is_sound(root):
    with open_journal(root) as journal:
        return [one for one in examine(journal).problems if one.severity != "note"]


@pytest.fixture
def ada(tmp_path):
    """Her store was put back from a backup and she went on: six records are common, three are lost, four are new."""
    root = make_store(tmp_path / "ada", SystemClock())
    with open_journal(root) as journal:
        for number in range(4):
            journal.mutate(put(number, f"common {number}"), WRITER)
        journal.mutate(lambda t: [t.put("note", item(n, "not"), {"text": "n" * 70_000}) for n in (1, 2)], WRITER)
    shutil.copytree(root, tmp_path / "backup")
    with open_journal(root) as journal:
        for number in range(5, 8):
            journal.mutate(put(number, f"before {number}"), WRITER, key=f"key-before-{number}")
    return root


@pytest.fixture(params=KINDS)
def medium(request, tmp_path, ada):
    return Medium(request.param, tmp_path, ada)


def go_on(root):
    """Every kind of record: a change of what is common, a batch, a deletion, a payload of its own, an observation."""
    with open_journal(root) as journal:
        journal.mutate(put(1, "changed after"), EVE, key="key-change")
        big = {"text": "b" * 90_000}
        journal.mutate(lambda t: [t.put("note", item(n, "not"), big) for n in (3, 4)], WRITER, key="key-batch")
        journal.mutate(lambda t: t.delete("decision", item(2)), WRITER)
        journal.mutate(lambda t: t.observe({"happened": "twice"}), WRITER, key="key-seen")


@pytest.fixture
def forked(ada, medium, tmp_path):
    medium.exchange(ada)
    bob = clone(ada, tmp_path / "bob")
    with open_journal(bob) as journal:
        journal.mutate(put(9, "bob's"), WRITER)
    medium.exchange(bob)
    put_back(ada, tmp_path / "backup")
    go_on(ada)
    return ada, bob, medium


def everything():
    found = {item(n): f"common {n}" for n in (0, 3)} | {item(1): "changed after", item(9): "bob's"}
    found |= {item(n): f"before {n}" for n in (5, 6, 7)}
    return found | {item(n, "not"): "n" * 70_000 for n in (1, 2)} | {item(n, "not"): "b" * 90_000 for n in (3, 4)}


def test_it_is_told_with_the_command_that_settles_it(forked):
    ada, _, medium = forked
    before = tree(ada, without=(".json",))
    with pytest.raises(ForkError) as caught:
        medium.exchange(ada)
    assert "--rebase" in caught.value.mend
    assert caught.value.differs_at == 7
    after = tree(ada, without=(".json",))
    assert {name: digest for name, digest in after.items() if name in before} == before


def test_a_dry_run_says_what_would_happen_and_changes_nothing(forked, tmp_path):
    ada, _, medium = forked
    with open_journal(ada) as journal:
        journal.project()
        carrier = medium.carrier(journal, name=os.fspath(tmp_path / "aside"))
        before = tree(ada)
        report = sync(journal, carrier, dry_run=True, rebases=True)
    assert tree(ada) == before
    assert report.refusals == []
    assert [(one.at, one.cut, one.written, one.into) for one in report.rebased] == [(6, 5, 5, "")]


def test_nothing_of_either_side_is_lost(forked):
    ada, bob, medium = forked
    old = lineage_of(ada)
    with open_journal(ada) as journal:
        ours = [entry.record for _, entry in journal.entries(old)][6:]
        size = journal.end().next_seq - 1
    report = medium.exchange(ada, rebases=True)
    assert report.left == old
    new = lineage_of(ada)
    assert [(one.lineage, one.at, one.cut, one.written, one.into) for one in report.rebased] == [(old, 6, 5, 5, new)]
    with open_journal(ada) as journal:
        again = [entry.record for _, entry in journal.entries(new)]
        same = ("ts", "writer", "writer_id", "session", "pid", "action", "item_type", "item_id", "parents", "key", "txn",
                "payload", "payload_ref", "deleted")  # fmt: skip
        for mine, theirs in zip(again, ours, strict=False):
            assert [getattr(mine, name) for name in same] == [getattr(theirs, name) for name in same]
        assert again[-1].action == "note"
        assert f'"at":6,"lineage":"{old}"' in bytes(again[-1].payload).decode()
        assert f'"size":{size}' in bytes(again[-1].payload).decode()
        assert journal.mutate(put(8, "not again"), WRITER, key="key-batch").repeated
        assert journal.mutate(put(8, "not again"), WRITER, key="key-before-6").repeated
    medium.exchange(bob)
    medium.exchange(ada)
    assert texts(ada) == texts(bob) == everything()
    assert state(ada) == state(bob)
    assert files_of(ada) == files_of(bob)
    assert records(ada) == records(bob)
    assert is_sound(ada) == is_sound(bob) == []
    assert any(path.suffix == ".jsonl" for path in Path(ada, "parked").rglob("*"))
    assert medium.exchange(ada, rebases=True).rebased == ()


def test_the_other_side_can_give_way_too(ada, tmp_path):
    bob = clone(ada, tmp_path / "bob")
    with open_journal(bob) as journal:
        journal.mutate(put(9, "bob's"), WRITER)
        sync(journal, open_folder(ada, Files()))
    old = lineage_of(ada)
    put_back(ada, tmp_path / "backup")
    go_on(ada)
    with open_journal(bob) as journal:
        own = journal.lineage
        report = sync(journal, open_folder(ada, Files()), rebases=True)
        assert report.refusals == []
        assert [(one.lineage, one.cut, one.written, one.into) for one in report.rebased] == [(old, 3, 3, own)]
    assert lineage_of(ada) == old, "she goes on with it"
    assert texts(ada) == texts(bob) == everything()
    assert state(ada) == state(bob)
    assert records(ada) == records(bob)
    assert is_sound(ada) == is_sound(bob) == []


@pytest.mark.slow
def test_who_holds_both_pasts_by_others_comes_to_the_same(forked, tmp_path):
    """Carol met only the store that was put back; Bob met it before. She gives way when they meet."""
    ada, bob, medium = forked
    carol = clone(ada, tmp_path / "carol")
    with open_journal(carol) as journal:
        sync(journal, open_folder(ada, Files()))
    medium.exchange(ada, rebases=True)
    with pytest.raises(ForkError):
        medium.exchange(carol)
    report = medium.exchange(carol, rebases=True)
    assert [(one.cut, one.written) for one in report.rebased] == [(5, 0)], "Ada brings the same"
    for root in (ada, bob, carol, ada, bob):
        medium.exchange(root)
    assert texts(ada) == texts(bob) == texts(carol) == everything()
    assert state(ada) == state(bob) == state(carol)
    assert is_sound(carol) == []


def test_from_the_first_record_on(tmp_path):
    ada = make_store(tmp_path / "ada", SystemClock())
    lineage = lineage_of(ada)
    with open_journal(ada) as journal:
        journal.mutate(lambda _: None, WRITER)
        lineage = journal.lineage
    shutil.copytree(ada, tmp_path / "empty")
    with open_journal(ada) as journal:
        journal.mutate(lambda t: [t.put("decision", item(n), {"text": f"before {n}"}) for n in (1, 2)], WRITER)
    bob = clone(ada, tmp_path / "bob")
    with open_journal(bob) as journal:
        sync(journal, open_folder(ada, Files()))
    put_back(ada, tmp_path / "empty")
    with open_journal(ada) as journal:
        journal.mutate(put(3, "after"), WRITER)
        assert journal.lineage == lineage
        report = sync(journal, open_folder(bob, Files()), rebases=True)
        assert report.refusals == []
        assert [(one.at, one.cut, one.written) for one in report.rebased] == [(0, 1, 1)]
    assert texts(ada) == texts(bob) == {item(1): "before 1", item(2): "before 2", item(3): "after"}
    assert is_sound(ada) == is_sound(bob) == []


@pytest.mark.slow
@pytest.mark.parametrize("is_archived", [False, True])
def test_over_segments_checkpoints_and_an_archive(ada, tmp_path, is_archived):
    bob = clone(ada, tmp_path / "bob")
    with open_journal(bob) as journal:
        sync(journal, open_folder(ada, Files()))
    put_back(ada, tmp_path / "backup")
    config = Path(ada, "config.toml")
    config.write_text(
        config.read_text().replace("[journal]\n", f"[journal]\nlive_segments = {1 if is_archived else 99}\n")
    )
    with open_journal(ada) as journal:
        for number in range(20, 32):
            journal.mutate(put(number, f"after {number}"), WRITER)
            if number % 3 == 0:
                journal.roll()
                make_checkpoint(journal, WRITER)
        archive = Path(journal.layout.lineage_folder(journal.lineage), "archive")
        assert archive.exists() == is_archived
    with open_journal(ada) as journal:
        report = sync(journal, open_folder(bob, Files()), rebases=True)
        assert report.refusals == []
        (done,) = report.rebased
        assert (done.at, done.written) == (6, 12), "announcements of checkpoints are of the past"
        assert done.cut > 12
        make_checkpoint(journal, WRITER)
    with open_journal(ada) as journal:
        sync(journal, open_folder(bob, Files()))
    assert len(texts(ada)) == 4 + 2 + 3 + 12
    assert texts(ada) == texts(bob)
    assert state(ada) == state(bob)
    assert is_sound(ada) == is_sound(bob) == []


def test_who_took_content_out_behind_the_fork_does_not_give_way(ada, tmp_path):
    """What was taken out of common records would come back with the other side's."""
    bob = clone(ada, tmp_path / "bob")
    with open_journal(bob) as journal:
        sync(journal, open_folder(ada, Files()))
    put_back(ada, tmp_path / "backup")
    with open_journal(ada) as journal:
        journal.mutate(put(8, "hunter2"), WRITER)
        redact(journal, WRITER, secret="common 3", reason="a secret")
    before = tree(ada, without=(".json",))
    with open_journal(ada) as journal:
        (refused,) = sync(journal, open_folder(bob, Files()), rebases=True).refusals
        assert isinstance(refused, RefusedError)
        assert "--rebase on the other side" in refused.mend
    assert {n: d for n, d in tree(ada, without=(".json",)).items() if n in before} == before
    with open_journal(bob) as journal:
        assert sync(journal, open_folder(ada, Files()), rebases=True).refusals == []
    for root in (ada, bob):
        assert "common 3" not in texts(root).values()
        assert {"hunter2", "before 5", "before 7"} <= set(texts(root).values())
        assert is_sound(root) == []
    assert state(ada) == state(bob)


@pytest.mark.slow
def test_what_was_signed_of_the_past_that_gave_way_is_forgotten(forked, tmp_path):
    ada, _, medium = forked
    old = lineage_of(ada)
    with open_journal(ada) as journal:
        sync(journal, open_folder(os.fspath(tmp_path / "stick"), Files()))  # signs the head, and has it remembered
        assert read_peer(journal.layout, old).seen.size == 11
    report = medium.exchange(ada, rebases=True)
    assert report.refusals == []
    assert texts(ada) == everything()
    assert is_sound(ada) == []


def test_what_is_asked_of_the_index_is_found_by_an_index(ada, tmp_path):
    """Of keys and versions there is one for those that are not empty: who does not say so has all records looked through."""
    bob = clone(ada, tmp_path / "bob")
    with open_journal(bob) as journal:
        sync(journal, open_folder(ada, Files()))
    put_back(ada, tmp_path / "backup")
    go_on(ada)
    asked = []
    with open_journal(ada) as journal:
        journal.project()
        db = journal.index.db
        db.set_trace_callback(asked.append)
        journal.mutate(put(1, "again"), EVE, key="key-change")
        rebase(journal, journal.lineage, 7, dry_run=True)
        db.set_trace_callback(None)
        wanted = [one for one in asked if "FROM records WHERE key" in one or "FROM records WHERE version" in one]
        assert len(wanted) > 4
        for one in wanted:
            plan = " ".join(row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {one}"))
            assert "SCAN records" not in plan, one


def test_readers_go_on_where_both_agreed(ada, tmp_path):
    bob = clone(ada, tmp_path / "bob")
    with open_journal(bob) as journal:
        sync(journal, open_folder(ada, Files()))
    put_back(ada, tmp_path / "backup")
    with open_journal(ada) as journal:
        Reader(journal, "slow").advance(Reader(journal, "slow").look())
    go_on(ada)
    with open_journal(ada) as journal:
        old = journal.lineage
        Reader(journal, "quick").advance(Reader(journal, "quick").look())
        report = sync(journal, open_folder(bob, Files()), rebases=True)
        new = report.rebased[0].into
        told = {
            name: [(one.lineage, one.seq) for one in Reader(journal, name).look().records] for name in ("slow", "quick")
        }
        theirs = [(old, seq) for seq in (7, 8, 9)]
        assert sorted(told["quick"]) == theirs
        assert sorted(told["slow"]) == sorted([*theirs, *((new, seq) for seq in range(1, 7))])
    assert is_sound(ada) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["exchange", "git"])
def test_a_medium_gives_way_where_all_that_it_has_is_held(ada, tmp_path, kind):
    """Nobody can run anything there: whoever has the key replaces what it has, once that is written again elsewhere."""
    medium = Medium(kind, tmp_path, ada)
    bob = clone(ada, tmp_path / "bob")
    with open_journal(bob) as journal:
        sync(journal, open_folder(ada, Files()))
    put_back(ada, tmp_path / "backup")
    go_on(ada)
    medium.exchange(ada)
    with open_journal(ada) as journal:
        assert sync(journal, open_folder(bob, Files()), rebases=True).refusals == []
    with pytest.raises(ForkError):
        medium.exchange(ada)
    with pytest.raises(ForkError) as caught:
        medium.exchange(bob, rebases=True)
    assert "its owner" in caught.value.mend
    own = lineage_of(ada)
    assert medium.exchange(ada, rebases=True).rebased == ()
    assert lineage_of(ada) == own
    carol = clone(ada, tmp_path / "carol")
    for root in (ada, bob, carol, ada):
        medium.exchange(root)
    wanted = everything()
    del wanted[item(9)]
    assert texts(ada) == texts(bob) == texts(carol) == wanted
    assert state(ada) == state(bob) == state(carol)
    assert records(ada) == records(bob) == records(carol)
    assert is_sound(ada) == is_sound(bob) == is_sound(carol) == []


@pytest.mark.slow
def test_whoever_is_told_gives_way_and_they_come_to_an_end(ada, tmp_path):
    """Four in a ring, two of each side, and each that is told of a fork repeats it with --rebase."""
    others = [clone(ada, tmp_path / name) for name in ("bob", "cay", "dan")]
    bob, cay, dan = others

    def exchange(root, other):
        with open_journal(root) as journal:
            return sync(journal, open_folder(other, Files()), rebases=True)

    exchange(bob, ada)
    exchange(dan, bob)
    put_back(ada, tmp_path / "backup")
    go_on(ada)
    exchange(cay, ada)
    everyone = (ada, bob, cay, dan)
    for _ in range(6):
        reports = [exchange(root, everyone[number - 1]) for number, root in enumerate(everyone)]
    assert [(one.refusals, one.rebased, [two.records for two in one.transfers if two.records]) for one in reports] == [
        ([], (), [])
    ] * 4
    wanted = everything()
    del wanted[item(9)]
    assert texts(ada) == texts(bob) == texts(cay) == texts(dan) == wanted
    held = [{name: leaves for name, leaves in records(root).items() if leaves} for root in everyone]
    assert held == [held[0]] * 4


BATCH = 5


def held_by_bob(ada, tmp_path, batches):
    """Ada's past that was put back, in which she had gone on by ``batches``, and which bob has as it stood in her folder: unsigned."""
    with open_journal(ada) as journal:
        for at in range(batches):
            numbers = range(100 + BATCH * at, 100 + BATCH * (at + 1))
            journal.mutate(
                lambda t, n=numbers: [t.put("decision", item(i), {"text": f"before {i}"}) for i in n], WRITER
            )
    bob = clone(ada, tmp_path / "bob")
    with open_journal(bob) as journal:
        sync(journal, open_folder(ada, Files()))
    put_back(ada, tmp_path / "backup")
    go_on(ada)
    return bob


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["exchange", "git"])
@pytest.mark.parametrize("batches", sampled([0, 1, 3], 1))
@pytest.mark.parametrize("is_copied", [False, True], ids=["in place", "as a copy"])
def test_who_gave_way_signs_what_stands_as_far_as_it_was_taken(ada, tmp_path, kind, batches, is_copied):
    """Nobody else may be there who has the key: the side that gave way was longer, or shorter, or ends within a batch."""
    bob = held_by_bob(ada, tmp_path, batches)
    old = lineage_of(ada)
    if is_copied:  # the fork is of a lineage that was left before
        ada = clone_of_all(ada, tmp_path / "moved")
    with open_journal(ada) as journal:
        assert sync(journal, open_folder(bob, Files()), rebases=True).refusals == []
        assert journal.own.left[old] == len(records(bob)[old]) == 9 + BATCH * batches
    medium = Medium(kind, tmp_path, ada)
    assert medium.exchange(ada).unsigned == ()
    carol = clone(ada, tmp_path / "carol")
    medium.exchange(carol)
    assert records(carol) == records(ada)
    assert state(carol) == state(ada)
    assert is_sound(carol) == is_sound(ada) == []
    # What comes of it later somebody else wrote, who signs it.
    again = put_back_beside(bob, old, tmp_path / "living")
    with open_journal(again) as journal:
        journal.mutate(put(77, "written where it lives"), EVE)
    with open_journal(ada) as journal:
        assert sync(journal, open_folder(again, Files())).refusals == []
        assert journal.own.left[old] == 9 + BATCH * batches
    assert [(one.lineage, one.records) for one in medium.exchange(ada).unsigned] == [(old, 1)]


def test_what_is_signed_of_a_lineage_that_was_left_ends_with_a_batch(ada, tmp_path):
    """Who stopped before it was cut back states how many the other side has, of what stood here."""
    old = lineage_of(ada)
    with open_journal(ada) as journal:
        journal.leave_lineage()
        journal.state_left(old, 5)  # 5 and 6 are a batch
    medium = Medium("exchange", tmp_path, ada)
    assert medium.exchange(ada).unsigned == ((old, 5),)
    carol = clone(ada, tmp_path / "carol")
    medium.exchange(carol)
    assert len(records(carol)[old]) == 4


@pytest.mark.slow
def test_a_stop_at_every_call(ada, tmp_path):
    bob = clone(ada, tmp_path / "bob")
    with open_journal(bob) as journal:
        sync(journal, open_folder(ada, Files()))
    put_back(ada, tmp_path / "backup")
    go_on(ada)
    wanted = everything()
    del wanted[item(9)]
    ours = {key: text for key, text in wanted.items() if not text.startswith("before")}

    def make(at):
        for name, root in (("ada", ada), ("bob", bob)):
            shutil.copytree(root, tmp_path / f"at{at}" / name / ".periplus")
        settle(os.fspath(tmp_path / f"at{at}/ada/.periplus"))
        return tmp_path / f"at{at}"

    def run(place, files):
        with open_journal(os.fspath(place / "ada/.periplus"), files) as journal:
            report = sync(journal, open_folder(os.fspath(place / "bob/.periplus"), Files()), rebases=True)
            assert report.refusals == []

    def check(place):
        root = os.fspath(place / "ada/.periplus")
        found = texts(root)
        assert ours.items() <= found.items(), "acknowledged here"
        with open_journal(root) as journal:
            assert journal.damage is None
            journal.mutate(put(1, "changed after"), WRITER)
        run(place, Files())
        assert texts(root) == texts(os.fspath(place / "bob/.periplus")) == wanted
        assert is_sound(root) == []
        shutil.rmtree(place)

    assert stopped_at_every_call(make, run, check) > 40


@pytest.mark.slow
def test_a_stop_at_every_call_of_replacing_what_an_exchange_folder_has(ada, tmp_path):
    bob, stick = clone(ada, tmp_path / "bob"), os.fspath(tmp_path / "stick")
    with open_journal(bob) as journal:
        sync(journal, open_folder(ada, Files()))
    put_back(ada, tmp_path / "backup")
    go_on(ada)
    with open_journal(ada) as journal:
        sync(journal, open_folder(stick, Files()))
        assert sync(journal, open_folder(bob, Files()), rebases=True).refusals == []
    wanted = everything()
    del wanted[item(9)]

    def make(at):
        place = tmp_path / f"at{at}"
        shutil.copytree(ada, place / "ada/.periplus")
        settle(os.fspath(place / "ada/.periplus"))
        shutil.copytree(stick, place / "stick")
        return place

    def run(place, files):
        with open_journal(os.fspath(place / "ada/.periplus"), files) as journal:
            report = sync(journal, open_folder(os.fspath(place / "stick"), files), rebases=True)
            assert report.refusals == []
            assert report.rebased == ()

    def check(place):
        run(place, Files())
        carol = clone(ada, place / "carol")
        with open_journal(carol) as journal:
            assert sync(journal, open_folder(os.fspath(place / "stick"), Files())).refusals == []
        assert texts(carol) == texts(os.fspath(place / "ada/.periplus")) == wanted
        assert is_sound(carol) == []
        shutil.rmtree(place)

    assert stopped_at_every_call(make, run, check) > 20
