"""A record that one clone lost to damage: others keep what it said, and give it back."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from cli_support import Shell, shared_project
from periplus.base.clock import SystemClock
from periplus.base.files import Files
from periplus.journal.care.repair import repair
from periplus.journal.carriers import open_folder
from periplus.journal.exchange.sync import sync
from periplus.journal.proofs.tiles import LineageTree
from periplus.journal.state.entity import change_of
from support import WRITER, item, make_store, open_journal, settle
from test_exchange import put, records, state, stopped_at_every_call
from test_rebase import clone, is_sound, lineage_of

TEXTS = [f"The boiler has colour {number}" for number in range(5)]


def segments(shell, lineage):
    return sorted((shell.folder / ".periplus" / "journal").glob(f"{lineage}/**/*.jsonl"))


def said(shell, lineage):
    return b"".join(path.read_bytes() for path in segments(shell, lineage)).decode()


def files(shell):
    folder = shell.folder / ".periplus" / "entities"
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.json")}


def damage(shell, lineage, seq):
    """Nothing is left of the record's line, nor anywhere else in the store."""
    start = re.compile(rb'\n(\{"v":2,"seq":%d,[^\n]*)' % seq)
    [path] = (path for path in segments(shell, lineage) if start.search(path.read_bytes()))
    [line] = start.findall(path.read_bytes())
    path.write_bytes(path.read_bytes().replace(line, b"x" * len(line)))


@pytest.fixture
def place():
    """Where all of a team exchange before one of them loses something; empty for nowhere."""
    return ""


@pytest.fixture
def team(tmp_path, place):
    """``(shells of ada, bob and carol, ada's lineage, the entity)``: bob has all that ada wrote, and ada lost three of five records."""
    shells = shared_project(tmp_path, "bob", "carol")
    ada, bob, _ = shells.values()
    ada("remember", TEXTS[0], "--type", "decision")
    one = ada.json("log").records[0].id
    for text in TEXTS[1:]:
        ada("set", one, f"text={text}")
    [lineage] = (path.name for path in (ada.folder / ".periplus" / "journal").glob("lin_*"))
    if place:
        ada("sync", "--with", place)
    bob("sync", "--with", place or "../ada")
    for seq in (1, 2, 4):
        damage(ada, lineage, seq)
    mended = ada.json("doctor", "--repair").mended
    assert [done.seq for done in mended if "its content is lost, its place is kept" in done.what] == [1, 2, 4]
    ada("doctor")
    assert TEXTS[1] not in said(ada, lineage)
    return shells, lineage, one


def check_whole(shells, lineage, *names):
    for name in names:
        shells[name]("doctor")
        assert all(f'"text":"{text}"' in said(shells[name], lineage) for text in TEXTS), name


@pytest.mark.slow
def test_who_has_what_another_lost_keeps_it(team):
    shells, lineage, _ = team
    ada, bob, carol = shells.values()
    ada("remember", "Something that goes on behind it", "--type", "note")
    carol("sync", "--with", "../ada")
    assert TEXTS[1] not in said(carol, lineage)
    before = said(bob, lineage)
    for _ in range(2):
        assert "restored" not in bob("sync", "--with", "../ada").out
    assert said(bob, lineage).startswith(before)
    check_whole(shells, lineage, "bob")
    carol("sync", "--with", "../bob")
    check_whole(shells, lineage, "carol")
    assert files(ada) == files(bob) == files(carol)


@pytest.mark.slow
def test_who_lost_it_has_it_again_with_the_next_sync(team):
    shells, lineage, one = team
    ada, bob, carol = shells.values()
    told = ada("sync", "--with", "../bob", "--dry-run")
    assert "would be restored from" in told.out
    assert TEXTS[1] not in said(ada, lineage)
    done = json.loads(ada("sync", "--with", "../bob", "--json").out)
    assert done["returned"] == 3
    check_whole(shells, lineage, "ada")
    assert "restored from" not in ada("sync", "--with", "../bob").out
    for name in ("bob", "carol"):
        shells[name]("sync", "--with", "../ada")
        check_whole(shells, lineage, name)
    carol("sync", "--with", "../bob")
    assert files(ada) == files(bob) == files(carol)
    assert all(shell("show", one).out.count(TEXTS[-1]) == 1 for shell in shells.values())


def test_what_a_clone_gives_back_was_said_by_whom_and_when_it_was(team):
    shells, lineage, one = team
    ada, bob, _ = shells.values()
    ada("sync", "--with", "../bob", "--as", "somebody else")
    told = {row.version: (row.writer, row.ts) for row in bob.json("log", "--lineage", lineage, "--id", one).records}
    again = [row for row in ada.json("log", "--id", one).records if "restored" in row.summary]
    assert len(again) == 3
    assert [(row.writer, row.ts) for row in again] == [told[row.version] for row in again]


def test_what_the_index_gives_back_was_said_by_whom_and_when_it_was(tmp_path):
    """A version in conflict shows in its file who said it when: the clone that lost it shows what all others show."""
    ada, bob = shared_project(tmp_path, "bob").values()
    ada("remember", TEXTS[0], "--type", "decision")
    one = ada.json("log").records[0].id
    [lineage] = (path.name for path in (ada.folder / ".periplus" / "journal").glob("lin_*"))
    bob("sync", "--with", "../ada")
    ada("set", one, f"text={TEXTS[1]}", "--as", "agnes")
    bob("set", one, f"text={TEXTS[2]}")
    bob("sync", "--with", "../ada")
    written = next(row for row in ada.json("log").records if row.seq == 2 and row.lineage == lineage)
    assert written.writer == "agnes"
    damage(ada, lineage, 2)
    ada("doctor", "--repair")
    again = next(row for row in ada.json("log").records if row.lineage == lineage and "restored" in row.summary)
    assert (again.writer, again.ts) == (written.writer, written.ts)
    bob("sync", "--with", "../ada")
    [shown] = files(ada).values()
    assert b'"conflicts"' in shown
    assert b'"agnes"' in shown
    assert files(ada) == files(bob)
    for shell in (ada, bob):
        shell("doctor")


def test_a_repair_takes_it_from_another_clone(team):
    shells, lineage, _ = team
    shells["ada"]("doctor", "--repair", "--from", os.fspath(shells["bob"].folder))
    check_whole(shells, lineage, "ada", "bob")
    assert "restored from" not in shells["ada"]("sync", "--with", "../bob").out


@pytest.mark.slow
@pytest.mark.parametrize("place", ["../shared", "origin"])
def test_it_comes_back_from_where_all_exchange(team, place):
    shells, lineage, _ = team
    ada, bob, carol = shells.values()
    assert "restored from" in ada("sync", "--with", place).out
    for name in ("carol", "bob", "ada"):
        shells[name]("sync", "--with", place)
        check_whole(shells, lineage, name)
    assert "restored from" not in ada("sync", "--with", place).out
    bob("sync", "--with", "../carol")
    assert files(ada) == files(bob) == files(carol)


@pytest.mark.slow
def test_what_is_redacted_on_purpose_goes_from_those_who_kept_it(team):
    shells, lineage, _ = team
    ada, bob, _ = shells.values()
    bob("sync", "--with", "../ada")
    assert TEXTS[1] in said(bob, lineage)
    ada("redact", "--seq", "2", "--reason", "a secret")
    bob("sync", "--with", "../ada")
    assert TEXTS[1] not in said(bob, lineage)
    assert TEXTS[0] in said(bob, lineage)
    bob("doctor")
    assert json.loads(ada("sync", "--with", "../bob", "--json").out)["returned"] == 2
    assert TEXTS[1] not in said(ada, lineage)
    ada("doctor", "--repair", "--from", os.fspath(bob.folder))
    assert TEXTS[1] not in said(ada, lineage)
    ada("doctor")


def test_who_redacts_is_told_of_records_whose_content_nobody_here_knows(team, tmp_path):
    """A text that only a lost record said would come back with the next sync."""
    shells, lineage, _ = team
    ada = shells["ada"]
    secret = tmp_path / "secret"
    secret.write_text(TEXTS[1])
    told = ada("redact", "--secret-file", str(secret), "--reason", "leaked", code=1)
    assert f"not reached the content of records 1, 2, 4 of {lineage}, lost here by damage" in told.out
    assert "repeat this" in told.out
    ada("sync", "--with", "../bob")
    told = ada("redact", "--secret-file", str(secret), "--reason", "leaked")
    assert "lost here" not in told.out
    shells["bob"]("sync", "--with", "../ada")
    assert not any(TEXTS[1] in said(shells[name], lineage) for name in ("ada", "bob"))


@pytest.mark.slow
def test_what_came_back_and_was_redacted_then_does_not_come_again(team):
    shells, lineage, _ = team
    ada, bob, _ = shells.values()
    ada("sync", "--with", "../bob")
    ada("redact", "--secret-file", "-", "--reason", "a secret", stdin=TEXTS[1])
    assert json.loads(ada("sync", "--with", "../bob", "--json").out)["returned"] == 0
    assert TEXTS[1] not in said(ada, lineage)
    ada("doctor", "--repair", "--from", os.fspath(bob.folder))
    assert TEXTS[1] not in said(ada, lineage)
    bob("sync", "--with", "../ada")
    assert TEXTS[1] not in said(bob, lineage)  # of the record that was lost, too
    assert TEXTS[0] in said(bob, lineage)
    for shell in (ada, bob):
        shell("doctor")


def test_what_an_earlier_version_gave_up_counts_as_taken_out(team):
    """Its audit records do not say that something was lost. Who typed that reason may have meant a secret."""
    shells, lineage, _ = team
    ada, bob, _ = shells.values()
    ada("redact", "--seq", "1", "--seq", "2", "--seq", "4", "--reason", "lost to damage")
    bob("sync", "--with", "../ada")
    assert TEXTS[1] not in said(bob, lineage)


def begun(tmp_path, *names):
    """As ``team``, with nothing lost yet."""
    shells = shared_project(tmp_path, *names)
    ada, *others = shells.values()
    ada("remember", TEXTS[0], "--type", "decision")
    one = ada.json("log").records[0].id
    for text in TEXTS[1:]:
        ada("set", one, f"text={text}")
    [lineage] = (path.name for path in (ada.folder / ".periplus" / "journal").glob("lin_*"))
    for other in others:
        other("sync", "--with", "../ada")
    return shells, lineage, one


def all_of(shell):
    return b"".join(path.read_bytes() for path in segments(shell, "lin_*")).decode()


@pytest.mark.slow
def test_what_was_redacted_does_not_come_back_when_its_stub_is_damaged(tmp_path):
    """The stub that a repair makes has other bytes than the redaction's: what was taken out is known by seq and leaf hash."""
    shells, lineage, _ = begun(tmp_path, "bob", "carol")
    ada, bob, carol = shells.values()
    ada("redact", "--seq", "2", "--reason", "a secret")
    bob("sync", "--with", "../ada")
    damage(ada, lineage, 2)
    assert "its content is lost" in ada("doctor", "--repair").out
    assert '"lost":true' not in said(ada, lineage)
    for _ in range(2):
        assert "restored" not in ada("sync", "--with", "../carol").out
        ada("doctor", "--repair", "--from", os.fspath(carol.folder))
        assert TEXTS[1] not in all_of(ada)
        carol("sync", "--with", "../ada")
        bob("sync", "--with", "../carol")
        ada("sync", "--with", "../bob")
        for shell in shells.values():
            assert TEXTS[1] not in all_of(shell)
            assert TEXTS[2] in all_of(shell)
            shell("doctor")


@pytest.mark.slow
def test_a_copy_that_redacts_what_its_original_lost_takes_it_out_everywhere(tmp_path):
    """Its stub and the one that says that the record was lost meet: the former counts, whoever goes on with the segment."""
    shells, lineage, _ = begun(tmp_path, "bob", "carol")
    ada, bob, carol = shells.values()
    copy = Shell(tmp_path / "ada2", ada.home)
    shutil.copytree(ada.folder, copy.folder)
    damage(ada, lineage, 2)
    ada("doctor", "--repair")
    carol("doctor")
    shutil.rmtree(carol.folder / ".periplus" / "journal")
    shutil.rmtree(carol.folder / ".periplus" / "entities")
    (carol.folder / ".periplus" / "index.sqlite").unlink()
    carol("sync", "--with", "../ada")
    assert TEXTS[1] not in all_of(carol)
    copy("remember", "The copy goes on", "--type", "note")
    copy("redact", "--secret-file", "-", "--reason", "a secret", stdin=TEXTS[1])
    for shell, other in (
        (carol, "ada2"),
        (carol, "bob"),
        (bob, "ada2"),
        (bob, "carol"),
        (copy, "bob"),
        (ada, "carol"),
        (ada, "bob"),
        (copy, "ada"),
    ):
        shell("sync", "--with", f"../{other}")
    for shell in (copy, bob, carol, ada):
        assert TEXTS[1] not in all_of(shell)
        assert TEXTS[2] in all_of(shell)
        shell("doctor")


@pytest.mark.slow
def test_what_came_back_and_is_lost_again_comes_back_again(team):
    shells, lineage, one = team
    ada, bob, _ = shells.values()
    damage(ada, lineage, 5)
    ada("doctor", "--repair")  # the index has what it says now
    for _ in range(2):
        ada("sync", "--with", "../bob")
        bob("sync", "--with", "../ada")
        newest = {record.seq for record in ada.json("log").records if record.action == "import"}
        for seq in newest:
            damage(ada, lineage, seq)
        assert "its content is lost" in ada("doctor", "--repair").out
        assert TEXTS[4] in ada("show", one).out
    assert "would be restored from" in ada("sync", "--with", "../bob", "--dry-run").out
    ada("sync", "--with", "../bob")
    assert "restored from" not in ada("sync", "--with", "../bob", "--dry-run").out
    check_whole(shells, lineage, "ada", "bob")
    assert files(ada) == files(bob)


def test_what_says_that_a_record_was_lost_may_be_lost_itself(tmp_path):
    shells, lineage, _ = begun(tmp_path, "bob")
    ada, bob = shells.values()
    damage(ada, lineage, 2)
    ada("doctor", "--repair")
    damage(ada, lineage, 6)
    assert "its content is lost" in ada("doctor", "--repair").out
    ada("doctor")
    assert "restored from" in ada("sync", "--with", "../bob").out
    bob("sync", "--with", "../ada")
    check_whole(shells, lineage, "ada", "bob")


def test_what_says_that_a_record_was_redacted_may_be_lost(tmp_path):
    shells, lineage, _ = begun(tmp_path, "bob")
    ada, bob = shells.values()
    ada("redact", "--seq", "2", "--reason", "a secret")
    [audit] = (record.seq for record in ada.json("log").records if record.action == "redact")
    damage(ada, lineage, audit)
    assert "audited again" in ada("doctor", "--repair").out
    assert "mended" not in ada("doctor", "--repair").out
    for _ in range(2):
        ada("sync", "--with", "../bob")
        bob("sync", "--with", "../ada")
    for shell in (ada, bob):
        assert TEXTS[1] not in said(shell, lineage)
        assert TEXTS[2] in said(shell, lineage)
        shell("doctor")


def test_who_gives_a_redaction_to_a_store_hears_what_is_still_to_do_there(tmp_path):
    shells, lineage, _ = begun(tmp_path, "bob")
    ada, bob = shells.values()
    ada("redact", "--secret-file", "-", "--reason", "a secret", stdin=TEXTS[4])
    done = ada("sync", "--with", "../bob")
    assert "the next command there updates its entity files" in done.out
    assert TEXTS[4] not in said(bob, lineage)
    bob("status")
    assert TEXTS[4].encode() not in b"".join(files(bob).values())
    assert json.loads(ada("sync", "--with", "../bob", "--json").out)["redacted_out"] == 0


# -- in process: payloads that lie in objects, and stops


LARGE = "l" * 70_000


def exchange(root, other, files=None):
    with open_journal(root) as journal:
        report = sync(journal, open_folder(other, files or Files()), writer=WRITER)
        assert report.refusals == []
        return report


def payloads(root, lineage):
    """What the records of a lineage say of entities, in order; None where that is lost."""
    with open_journal(root) as journal:
        changes = [
            change_of(entry, lineage, segment, journal.load_object) for segment, entry in journal.entries(lineage)
        ]
        return [one.payload or None for one in changes if one is not None]


@pytest.fixture
def stores(tmp_path):
    """``(ada's store, bob's, carol's)``: ada lost a record, and an object with the payload of another; bob has both, carol what ada has."""
    ada = make_store(tmp_path / "ada", SystemClock())
    with open_journal(ada) as journal:
        for text in ("first", "second", "third"):
            journal.mutate(put(0, text), WRITER)
        for text in (LARGE, "short"):
            journal.mutate(lambda t, text=text: t.put("note", item(7, "not"), {"text": text}), WRITER)
        journal.project()
    bob = clone(ada, tmp_path / "bob")
    exchange(bob, ada)
    path = next(Path(ada, "journal", lineage_of(ada)).glob("*.jsonl"))
    line = path.read_bytes().splitlines()[2]
    path.write_bytes(path.read_bytes().replace(line, b"x" * len(line)))
    with open_journal(ada) as journal:
        for digest in list(journal.objects.digests()):
            journal.objects.remove(digest)
        repair(journal, WRITER)
    assert is_sound(ada) == []
    assert payloads(ada, lineage_of(ada)).count(None) == 2
    carol = clone(ada, tmp_path / "carol")
    with open_journal(carol) as journal:
        journal.mutate(put(20, "carol's"), WRITER)
    exchange(carol, ada)
    return ada, bob, carol


def test_what_lay_in_an_object_is_kept_and_comes_back_too(stores):
    ada, bob, carol = stores
    lineage = lineage_of(ada)
    exchange(bob, ada)
    assert None not in payloads(bob, lineage)
    assert exchange(ada, bob).returned == 2
    assert payloads(ada, lineage).count(None) == 2
    assert any(LARGE.encode() in (one or b"") for one in payloads(ada, lineage))
    exchange(carol, bob)
    exchange(carol, ada)
    exchange(bob, ada)
    for root in stores:
        assert is_sound(root) == []
        assert state(root) == state(ada)
    assert None not in payloads(carol, lineage)


@pytest.mark.slow
@pytest.mark.parametrize("who", ["ada", "carol"])
def test_a_stop_at_every_call_of_taking_it(stores, tmp_path, who):
    roots = dict(zip(("ada", "bob", "carol"), stores, strict=True))
    lineage = lineage_of(roots["ada"])

    def make(at):
        for name in (who, "bob"):
            shutil.copytree(roots[name], tmp_path / f"{at}" / name / ".periplus")
        root = os.fspath(tmp_path / f"{at}" / who / ".periplus")
        settle(root)
        return root

    def bob_of(root):
        return os.fspath(Path(root).parents[1] / "bob" / ".periplus")

    def check(root):
        exchange(root, bob_of(root))
        assert is_sound(root) == []
        assert records(root)[lineage][:5] == records(roots["bob"])[lineage][:5]
        said = b"".join(one or b"" for one in payloads(root, lineage))
        assert said.count(b"second") == said.count(LARGE.encode()) == 1
        assert state(root) == state(bob_of(root))

    assert stopped_at_every_call(make, lambda root, files: _taken(root, bob_of(root), files), check) > 15


def _taken(root, other, files):
    with open_journal(root, files) as journal:
        sync(journal, open_folder(other, files), writer=WRITER)


def test_tiles_that_were_made_over_stubs_hold_when_what_they_stand_for_is_back(stores):
    """Lines that are shorter than their stubs move what lies behind them: the place that the tiles remember is another then."""
    ada, bob, carol = stores
    lineage = lineage_of(ada)

    def size(root):
        return sum(path.stat().st_size for path in Path(root, "journal", lineage).glob("*.jsonl"))

    with open_journal(carol) as journal:
        head = LineageTree(journal, lineage)
        made_over = head.size, head.head_root
    before = size(carol)
    exchange(carol, bob)
    assert size(carol) < before
    for _ in range(2):
        with open_journal(carol) as journal:
            tree = LineageTree(journal, lineage)
            assert (tree.size, tree.root(made_over[0])) == (max(tree.size, made_over[0]), made_over[1])
            for segment, entry in journal.entries(lineage):
                assert segment
                assert tree.inclusion(entry.leaf, entry.record.seq)
            assert tree.rebuilt == 0
        assert is_sound(carol) == []
        exchange(ada, bob)
        with open_journal(ada) as journal:
            journal.mutate(put(9, "something behind it"), WRITER)
        exchange(carol, ada)
