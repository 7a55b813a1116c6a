"""Versions that name themselves, or each other: none of them makes an entity vanish, whoever wrote them and whoever reads them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

import reader_histories as histories
from independent_reader.lineage import FIELDS
from periplus.base.encoding.canonical import canonical
from periplus.base.errors import NotFoundError
from periplus.journal import Writer
from periplus.journal.care.doctor import examine
from periplus.journal.checkpoints.creation import make_checkpoint
from periplus.journal.history.versions import entity_at
from periplus.journal.records.record import seal_line, version_id
from sampling import sampled
from support import WRITER, item, make_store, open_journal, remove_index, segment_path
from test_hostile_records import body
from test_independent_reader import agrees_with_the_library
from test_journal_damage import acknowledged, put

pytestmark = pytest.mark.quick

PLACE = ("decision", item(50))
HOSTILE = {"text": "h"}


def sealed(**fields):
    """A record as the format has it: its fields in their order."""
    said = json.loads(body(**fields) + b"}")
    return seal_line(
        json.dumps({name: said[name] for name in FIELDS if name in said}, separators=(",", ":"))[:-1].encode()
    )


def version_of(payload, parents=()):
    return version_id(*PLACE, deleted=False, payload=canonical(payload), parents=parents)


ITSELF = version_of(HOSTILE)
ADOPTED = Writer("adopted from file", "", "", 1)
CHILD = version_of({"text": "child"}, (ITSELF,))


def stub_of_itself():
    """A stub that states that it was made from itself, and the record that names it."""
    version = "1" * 64
    stub, _leaf = sealed(payload=None, salt=None, parents=[version], leaf="2" * 64, version=version)
    digest = hashlib.sha256(stub[:-1]).hexdigest()
    said = {"lineage": "", "objects": [], "reason": "x", "records": [[6, "2" * 64, digest]]}
    return stub, lambda lineage: sealed(
        seq=7, action="redact", item_type=None, item_id=None, payload=said | {"lineage": lineage}
    )[0]


def lines(name, lineage):
    if name == "a stub of itself":
        stub, audit = stub_of_itself()
        return [stub, audit(lineage)]
    bodies = {
        "itself in after": [{"after": [ITSELF]}],
        "itself, and what is not held": [{"after": sorted([ITSELF, "0" * 64])}],
        "after its child": [
            {}, {"seq": 7, "payload": {"text": "child"}, "parents": [ITSELF]}, {"seq": 8, "after": [CHILD]}],
        "after its child, before it comes": [
            {"after": [CHILD]}, {"seq": 7, "payload": {"text": "child"}, "parents": [ITSELF]}],
        "each after the other": [
            {"after": [version_of({"text": "i"})]}, {"seq": 7, "payload": {"text": "i"}, "after": [ITSELF]}],
    }  # fmt: skip
    return [sealed(**one)[0] for one in bodies[name]]


SHOWN = {  # texts of the heads, and the revs of the entities
    "itself in after": (["h"], 1),
    "itself, and what is not held": (["h"], 1),
    "after its child": (["child"], 2),
    "after its child, before it comes": (["child"], 2),
    "each after the other": (["h", "i"], 2),
    "a stub of itself": ([None], 1),
}


def forge(root, name):
    path, _ = acknowledged(root)
    with open_journal(root) as journal:
        lineage = journal.lineage
    with path.open("ab") as file:
        file.writelines(lines(name, lineage))


def check(root, name):
    """What the store shows, with its index and without, and what the independent reader and the doctor say."""
    texts, rev = SHOWN[name]
    for _ in range(2):
        with open_journal(root) as journal:
            heads = journal.heads_of(*PLACE)
            assert sorted(json.loads(head.payload)["text"] if head.payload else None for head in heads) == texts
            entity = journal.get(*PLACE)
            assert (entity.rev if entity else 1) == rev
            assert (entity is None) == (texts == [None])
            assert [one.rev for one in heads] == [rev if len(heads) == 1 else 1] * len(heads)
            journal.project()
            assert sorted(one.version for one in journal.index.heads(*PLACE)) == sorted(one.version for one in heads)
            assert examine(journal).exit_code == 0
        remove_index(root)
    agrees_with_the_library(root)


@pytest.mark.slow
@pytest.mark.parametrize("name", sampled(SHOWN, 2))
@pytest.mark.parametrize("is_indexed", [True, False], ids=["index", "no index"])
def test_of_the_own_lineage_it_is_shown_and_written_on(tmp_path, name, is_indexed):
    root = make_store(tmp_path)
    forge(root, name)
    if not is_indexed:
        remove_index(root)
    with open_journal(root) as journal:  # what is behind the index is in memory first
        before = journal.heads_of(*PLACE)
        journal.mutate(put(9, "goes on"), WRITER)
    assert before
    check(root, name)
    with open_journal(root) as journal:
        make_checkpoint(journal, WRITER)
    check(root, name)
    with open_journal(root) as journal:
        journal.mutate(put(50, "on top"), WRITER)
        (head,) = journal.heads_of(*PLACE)
        assert set(head.parents) == {one.version for one in before}
        assert head.rev == 1 + max(one.rev for one in before)
    assert agrees_with_the_library(root).entities[PLACE].payload == {"text": "on top"}


@pytest.mark.slow
@pytest.mark.parametrize("name", sampled(SHOWN, 2))
@pytest.mark.parametrize("is_begun", [True, False], ids=["index", "no index"])
def test_of_another_lineage_it_is_shown(tmp_path, name, is_begun):
    root = make_store(tmp_path / "ada")
    other = histories.clone(root, tmp_path / "bob")
    forge(root, name)
    with open_journal(root) as journal:  # a sync of its own, behind what was forged
        journal.mutate(put(9, "goes on"), WRITER)
    if is_begun:
        with open_journal(other) as journal:
            journal.mutate(put(3, "bob's"), WRITER)
            journal.project()
    histories.exchange(other, root)
    check(other, name)


@pytest.mark.slow
def test_git_that_went_forward_and_back_between_two_clones_leaves_both_versions(tmp_path):
    """One clone saw a version come after another, the other saw it the other way; neither holds what was between."""
    ada = make_store(tmp_path / "ada")
    bob = histories.clone(ada, tmp_path / "bob")
    between = [(f"{number}" * 64,) for number in (1, 2)]
    values = [{"text": "ports start at 8000"}, {"text": "ports start at 9000"}]
    versions = [version_of(value, parents) for value, parents in zip(values, between, strict=True)]
    for root, order in ((ada, (0, 1)), (bob, (1, 0))):
        for number in order:
            with open_journal(root) as journal:
                after = tuple(head.version for head in journal.heads_of(*PLACE))
                journal.mutate(
                    lambda t, n=number, after=after: t.place("import", *PLACE, values[n], between[n], after=after),
                    ADOPTED,
                )
                assert [head.version for head in journal.heads_of(*PLACE)] == [versions[number]]
    for one, other in ((ada, bob), (bob, ada)):
        histories.exchange(one, other)
    for root in (ada, bob):
        with open_journal(root) as journal:
            shown = journal.get(*PLACE)
            assert shown is not None
            assert shown.heads == tuple(sorted(versions))
            assert shown.conflict_names == ("text",)
        agrees_with_the_library(root)
    with open_journal(ada) as journal:
        journal.mutate(put(50, "ports start at 9000"), WRITER)
        assert len(journal.heads_of(*PLACE)) == 1
    histories.exchange(bob, ada)
    with open_journal(bob) as journal:
        shown = journal.get(*PLACE)
        assert shown is not None
        assert (shown.value, shown.conflicts) == ({"text": "ports start at 9000"}, ())
    agrees_with_the_library(bob)


@pytest.mark.parametrize("name", SHOWN)
def test_what_it_was_can_be_asked(tmp_path, name):
    root = make_store(tmp_path)
    forge(root, name)
    texts, _ = SHOWN[name]
    with open_journal(root) as journal:
        journal.mutate(put(9, "a sync that covers it"), WRITER)
        end = journal.end().next_seq - 1
        if texts == [None]:
            with pytest.raises(NotFoundError, match="was redacted"):
                entity_at(journal, *PLACE, end)
            return
        then, now = entity_at(journal, *PLACE, end), journal.get(*PLACE)
        assert now is not None
        assert (then.version, then.heads, then.value) == (now.version, now.heads, now.value)


def test_what_came_after_by_way_of_what_is_not_held_was_the_only_head_then(tmp_path):
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        journal.mutate(put(50, "first"), WRITER)
        (first,) = journal.heads_of(*PLACE)
        journal.mutate(lambda t: t.place("import", *PLACE, HOSTILE, ("1" * 64,), after=(first.version,)), ADOPTED)
        journal.mutate(put(50, "last"), WRITER)
        seen = [entity_at(journal, *PLACE, seq) for seq in (1, 2, 3)]
    assert [one.value["text"] for one in seen] == ["first", "h", "last"]
    assert [len(one.heads) for one in seen] == [1, 1, 1]


def test_what_is_written_never_names_itself(tmp_path):
    root = make_store(tmp_path)
    for _ in range(2):
        with open_journal(root) as journal:
            journal.mutate(lambda t: t.place("import", *PLACE, HOSTILE, (), after=(ITSELF,)), WRITER)
            assert [head.version for head in journal.heads_of(*PLACE)] == [ITSELF]
            path = segment_path(journal)
    assert b'"after"' not in Path(path).read_bytes()
