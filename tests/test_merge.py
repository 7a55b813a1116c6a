"""The merge of several heads: what it shows, and that clones with the same records show the same."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import sqlite3
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_support import LINEAGES, PAYLOADS, change, histories
from periplus.base.errors import ConflictError, DamageError
from periplus.journal import ABSENT, EntityType, Journal, MergeRules
from periplus.journal.care.doctor import examine
from periplus.journal.index.index_file import NullIndexer
from periplus.journal.index.overlay import Overlay
from periplus.journal.index.tables import Index
from periplus.journal.projections.entity_file import render_entity
from periplus.journal.records.record import version_id
from periplus.journal.state.entity import Head, head_of
from periplus.journal.state.index_values import View
from periplus.journal.state.merge import Node, entity_of, merge_payloads, nearest_common_ancestors
from support import WRITER, calls_made, check_nothing, item, make_store

pytestmark = pytest.mark.quick

GROUP = frozenset({"object", "size"})
DATED = frozenset({"phase", "until"})
RANKS = (("level", ("high", "middle", "low")),)
SEALED = frozenset({"seal", "steps", "gone", "read"})
RULES = MergeRules(
    frozenset({"tags"}), frozenset({"updated", "until", "read"}), (GROUP, DATED, SEALED), RANKS,
    incidental=frozenset({"seal", "title"}), withheld="gone",
)  # fmt: skip
TYPES = {"decision": EntityType("decision", "dec", is_projected=True, check=check_nothing, rules=RULES)}


def merged(base, *values):
    """``(payload, {path: the values in conflict})`` of heads that descend from ``base``, the highest first."""
    bases = [orjson.dumps(one) for one in base] if isinstance(base, tuple) else [orjson.dumps(base)]
    heads = [
        Head(
            "decision",
            item(1),
            f"{9 - number}" * 64,
            (),
            9 - number,
            False,
            orjson.dumps(value),
            "",
            f"w{number}",
            "",
            "",
            1,
        )
        for number, value in enumerate(values)
    ]
    payload, conflicts = merge_payloads(heads, bases, RULES)
    texts = {
        ".".join(conflict.path): [orjson.loads(one.value) if one.value else "(absent)" for one in conflict.values]
        for conflict in conflicts
    }
    return orjson.loads(payload), texts


@pytest.mark.parametrize(
    ("base", "values", "payload", "conflicts"),
    [
        pytest.param({"a": 1, "b": 1}, [{"a": 2, "b": 1}, {"a": 1, "b": 2}], {"a": 2, "b": 2}, {}, id="two fields"),
        pytest.param({"a": 1}, [{"a": 2}, {"a": 3}], {"a": 2}, {"a": [2, 3]}, id="one field, two values"),
        pytest.param(({"a": 1, "b": 1}, {"a": 2, "b": 2}), [{"a": 3, "b": 1}, {"a": 2, "b": 2}], {"a": 3, "b": 1}, {"b": [1, 2]},
                     id="of one that says what one of two ancestors said, fields count all the same"),
        pytest.param({"a": 1}, [{"a": 1}, {"a": 3}, {"a": 2}], {"a": 3}, {"a": [3, 2]}, id="the base is no rival"),
        pytest.param({"a": 1}, [{"a": 2}, {"a": 2}], {"a": 2}, {}, id="the same change"),
        pytest.param({"a": 1}, [{}, {"a": 1}], {}, {}, id="a field removed"),
        pytest.param({"a": 1}, [{}, {"a": 2}], {}, {"a": ["(absent)", 2]}, id="a field removed and changed"),
        pytest.param({}, [{"a": 1}, {}], {"a": 1}, {}, id="a field added"),
        pytest.param({"tags": ["a", "b"]}, [{"tags": ["a", "b", "c"]}, {"tags": ["b", "d"]}], {"tags": ["b", "c", "d"]}, {},
                     id="a set"),
        pytest.param({"tags": ["a"]}, [{}, {"tags": ["a", "b"]}], {"tags": ["b"]}, {}, id="a set emptied and added to"),
        pytest.param({"tags": ["a", "b"]}, [{}, {"tags": ["a"]}], {}, {}, id="a set emptied twice"),
        pytest.param({"tags": []}, [{"tags": "x"}, {"tags": ["a"]}], {"tags": "x"}, {"tags": ["x", ["a"]]}, id="no set"),
        pytest.param({"list": ["a"]}, [{"list": ["a", "b"]}, {"list": ["a", "c"]}], {"list": ["a", "b"]},
                     {"list": [["a", "b"], ["a", "c"]]}, id="an array that is no set"),
        pytest.param({"m": {"p": 1, "q": {"r": 1}}}, [{"m": {"p": 2, "q": {"r": 1}}}, {"m": {"p": 1, "q": {"r": 2, "s": 3}}}],
                     {"m": {"p": 2, "q": {"r": 2, "s": 3}}}, {}, id="maps in maps"),
        pytest.param({"m": {"p": 1}}, [{"m": {"p": 2}}, {"m": {"p": 3, "q": 1}}], {"m": {"p": 2, "q": 1}},
                     {"m.p": [2, 3]}, id="a key of a map"),
        pytest.param({"m": {"p": 1}}, [{}, {"m": {"p": 3}}], {}, {"m": ["(absent)", {"p": 3}]}, id="a map removed"),
        pytest.param({}, [{"m": {"p": 1}}, {"m": {"q": 2}}, {}], {"m": {"p": 1, "q": 2}}, {}, id="a map made twice"),
        pytest.param({"n": {"$dec": "1"}}, [{"n": {"$dec": "2"}}, {"n": {"x": 1}}], {"n": {"$dec": "2"}},
                     {"n": [{"$dec": "2"}, {"x": 1}]}, id="a decimal is no map"),
        pytest.param(({"a": 1}, {"a": 2}), [{"a": 1}, {"a": 2}], {"a": 1}, {"a": [1, 2]}, id="crossed, nobody changed"),
        pytest.param(({"a": 1}, {"a": 2}), [{"a": 1}, {"a": 3}], {"a": 3}, {}, id="crossed, one changed"),
        pytest.param(({"tags": ["a"]}, {"tags": ["b"]}), [{"tags": ["b"]}, {"tags": ["c", "a"]}, {"tags": ["a", "d"]}],
                     {"tags": ["b", "c", "a", "d"]}, {}, id="crossed sets"),
        pytest.param({"object": 1, "size": 1}, [{"object": 2, "size": 1}, {"object": 1, "size": 1, "a": 1}],
                     {"a": 1, "object": 2, "size": 1}, {}, id="a group that one changed"),
        pytest.param({"object": 1, "size": 1}, [{"object": 2, "size": 1}, {"object": 1, "size": 2}], {"object": 2, "size": 1},
                     {"object": [2, 1], "size": [1, 2]}, id="two fields of a group are no two changes"),
        pytest.param({"object": 1, "size": 1}, [{"object": 1, "size": 1}, {"size": 2}, {"object": 3, "size": 2}], {"size": 2},
                     {"object": ["(absent)", 3]}, id="a field of a group removed, and the base is no rival"),
        pytest.param({"object": 1, "size": 1}, [{"object": 2, "size": 2}, {"object": 2, "size": 2}], {"object": 2, "size": 2}, {},
                     id="the same change of a group"),
        pytest.param({}, [{"size": {"p": 1}}, {"size": {"q": 1}}, {}], {"size": {"p": 1}}, {"size": [{"p": 1}, {"q": 1}]},
                     id="a map in a group is not merged"),
        pytest.param(({"object": 1}, {"size": 1}), [{"object": 1}, {"size": 1}], {"object": 1},
                     {"object": [1, "(absent)"], "size": ["(absent)", 1]}, id="crossed groups, nobody changed"),
        pytest.param({"updated": "1"}, [{"updated": "2"}, {"updated": "3"}], {"updated": "3"}, {}, id="the latest time"),
        pytest.param({"updated": "1"}, [{}, {"updated": "3"}], {"updated": "3"}, {}, id="a latest time removed"),
        pytest.param({"updated": "1"}, [{"updated": 2}, {"updated": 3}], {"updated": 2}, {"updated": [2, 3]},
                     id="no times where times belong"),
        pytest.param({"phase": "on"}, [{"phase": "off", "until": "3"}, {"phase": "off", "until": "4"}, {"phase": "on"}],
                     {"phase": "off", "until": "4"}, {}, id="the latest time of a group that agrees on the rest"),
        pytest.param({"phase": "on"}, [{"phase": "off"}, {"phase": "off", "until": "4"}], {"phase": "off", "until": "4"}, {},
                     id="a latest time of a group that one lacks"),
        pytest.param({"phase": "off", "until": "2"}, [{"phase": "on"}, {"phase": "off", "until": "2"}], {"phase": "on"}, {},
                     id="a latest time of a group, which the base has"),
        pytest.param({"phase": "on"}, [{"phase": "off", "until": "3"}, {"phase": "no", "until": "4"}], {"phase": "off", "until": "3"},
                     {"phase": ["off", "no"], "until": ["3", "4"]}, id="times of a group that does not agree"),
        pytest.param({"phase": "on"}, [{"phase": "off", "until": 3}, {"phase": "off", "until": 4}], {"phase": "off", "until": 3},
                     {"until": [3, 4]}, id="no times where times of a group belong"),
        pytest.param({"level": "low"}, [{"level": "middle"}, {"level": "high"}, {"level": "low"}], {"level": "high"}, {},
                     id="the first in the order"),
        pytest.param({"level": "high"}, [{"level": "low"}, {"level": "high"}], {"level": "low"}, {}, id="the base ranks below who changed it"),
        pytest.param({"level": "low"}, [{"level": "middle"}, {"level": "other"}], {"level": "middle"}, {"level": ["middle", "other"]},
                     id="what has no place in the order"),
        pytest.param({"level": "low"}, [{"level": "middle"}, {}], {"level": "middle"}, {"level": ["middle", "(absent)"]},
                     id="what is absent has no place in the order"),
        pytest.param(({"level": "low"}, {"level": "high"}), [{"level": "low"}, {"level": "high"}], {"level": "high"}, {},
                     id="crossed, nobody changed, and one is first"),
        pytest.param({}, [{"seal": 1, "gone": []}, {"seal": 2, "gone": []}], {"seal": 1, "gone": []}, {}, id="sealed twice"),
        pytest.param({}, [{"seal": 1, "steps": 3, "gone": []}, {"seal": 2, "steps": 3, "gone": [4]}], {"seal": 2, "steps": 3, "gone": [4]}, {},
                     id="sealed twice, and one took something out"),
        pytest.param({}, [{"seal": 1, "gone": [4]}, {"seal": 2, "gone": [7, 4]}, {"seal": 3, "gone": []}], {"seal": 2, "gone": [7, 4]}, {},
                     id="one took out all that the others did"),
        pytest.param({}, [{"seal": 1, "gone": [4, 7]}, {"seal": 2, "gone": [7, 4]}], {"seal": 1, "gone": [4, 7]}, {},
                     id="the same was taken out, the highest is shown"),
        pytest.param({}, [{"seal": 1, "gone": [4]}, {"seal": 2, "gone": [7]}], {"seal": 1, "gone": [4]}, {"seal": [1, 2], "gone": [[4], [7]]},
                     id="each took out another"),
        pytest.param({}, [{"seal": 1, "gone": [4]}, {"seal": 2, "gone": [7, 8]}], {"seal": 2, "gone": [7, 8]},
                     {"seal": [2, 1], "gone": [[7, 8], [4]]}, id="one took out more, and not all"),
        pytest.param({}, [{"seal": 1, "gone": [4, 4, 4]}, {"seal": 2, "gone": [7, 4]}], {"seal": 2, "gone": [7, 4]}, {},
                     id="places that are named again count once"),
        pytest.param({}, [{"seal": 1, "steps": 3, "gone": []}, {"seal": 2, "steps": 2, "gone": [4]}], {"seal": 2, "steps": 2, "gone": [4]},
                     {"seal": [2, 1], "steps": [2, 3], "gone": [[4], []]}, id="what was taken out is shown first, also where the rest differs"),
        pytest.param({}, [{"seal": 1}, {"seal": 2, "gone": []}], {"seal": 1}, {"seal": [1, 2], "gone": ["(absent)", []]},
                     id="one does not say what was taken out"),
        pytest.param({}, [{"seal": 1}, {"seal": 2, "gone": [4]}], {"seal": 2, "gone": [4]}, {"seal": [2, 1], "gone": [[4], "(absent)"]},
                     id="one does not say what was taken out, the other does"),
        pytest.param({}, [{"seal": 1}, {"seal": 2}], {"seal": 1}, {"seal": [1, 2]}, id="none says what was taken out"),
        pytest.param({}, [{"seal": 1, "gone": 4}, {"seal": 2, "gone": []}], {"seal": 1, "gone": 4}, {"seal": [1, 2], "gone": [4, []]},
                     id="what was taken out is no array"),
        pytest.param({"seal": 1, "gone": []}, [{"seal": 2, "gone": []}, {"seal": 1, "gone": []}], {"seal": 2, "gone": []}, {},
                     id="sealed anew by one"),
        pytest.param({"seal": 1, "gone": [4]}, [{"seal": 2, "gone": []}, {"seal": 1, "gone": [4]}], {"seal": 2, "gone": []}, {},
                     id="the base took out more, and is no rival"),
        pytest.param({}, [{"seal": 1, "gone": [], "title": "a"}, {"seal": 2, "gone": [4], "title": "b"}], {"seal": 2, "gone": [4], "title": "b"}, {},
                     id="made by chance outside the group, of the same head"),
        pytest.param({}, [{"seal": 1, "gone": [4], "title": "a"}, {"seal": 2, "gone": [7], "title": "b"}, {"seal": 3, "gone": [7, 8], "title": "c"}],
                     {"seal": 3, "gone": [7, 8], "title": "c"},
                     {"seal": [3, 1, 2], "gone": [[7, 8], [4], [7]], "title": ["c", "a", "b"]}, id="made by chance in a conflict, the same head first"),
        pytest.param({"title": "a"}, [{"seal": 1, "gone": [], "title": "b"}, {"seal": 2, "gone": [4], "title": "a"}],
                     {"seal": 2, "gone": [4], "title": "b"}, {}, id="made by chance, and only one changed it"),
        pytest.param({"seal": 9, "gone": [], "title": "a"}, [{"seal": n, "gone": [], "title": t} for n, t in enumerate("abc")],
                     {"seal": 0, "gone": [], "title": "a"}, {}, id="made by chance, of the head that is shown, which did not change it"),
        pytest.param({}, [{"seal": 1, "gone": [], "plain": "a"}, {"seal": 2, "gone": [4], "plain": "b"}],
                     {"seal": 2, "gone": [4], "plain": "a"}, {"plain": ["a", "b"]}, id="what is not made by chance is in conflict as ever"),
        pytest.param({}, [{"seal": 1, "gone": [], "read": "1"}, {"seal": 2, "gone": [4], "read": "3"}, {"seal": 3, "gone": [], "read": "4"}],
                     {"seal": 2, "gone": [4], "read": "4"}, {}, id="the latest time of a group that says the same"),
        pytest.param({}, [{"seal": 1, "gone": [], "title": "a"}, {"seal": 2, "title": "b"}], {"seal": 1, "gone": [], "title": "a"},
                     {"seal": [1, 2], "gone": [[], "(absent)"], "title": ["a", "b"]}, id="made by chance beside a head that does not say what was taken out"),
    ],
)  # fmt: skip
def test_field_by_field(base, values, payload, conflicts):
    assert merged(base, *values) == (payload, conflicts)


class NothingHeld:
    """A graph of which no version is held but the heads."""

    def node(self, item_type, item_id, version):
        del item_type, item_id, version

    def payload(self, item_type, item_id, version):
        del item_type, item_id, version
        return b""


@pytest.mark.parametrize(
    ("heads", "shown"),
    [
        pytest.param([("1", 2, False), ("9", 1, False)], "1", id="the higher rev, whatever the versions"),
        pytest.param([("1", 1, False), ("9", 1, False), ("5", 1, False)], "9", id="of one rev the highest version"),
        pytest.param([("1", 1, False), ("9", 5, True), ("5", 2, False)], "5", id="a deleted one takes no part"),
    ],
)
def test_in_a_conflict_the_head_with_the_highest_rev_and_version_is_shown(heads, shown):
    made = [
        Head(
            "decision",
            item(1),
            digit * 64,
            (),
            rev,
            deleted,
            b"" if deleted else orjson.dumps({"text": digit}),
            "",
            "",
            "",
            "",
            1,
        )
        for digit, rev, deleted in heads
    ]
    for order in itertools.permutations(made):
        found = entity_of(order, RULES, NothingHeld())
        assert found.value == {"text": shown}
        assert found.rev == 1 + max(rev for _, rev, _ in heads), (
            "as a write over all of them would have, deleted ones too"
        )
        (of_text,) = [one for one in found.conflicts if one.path == ("text",)]
        assert {orjson.loads(one.value) for one in of_text.values} == {
            digit for digit, _, deleted in heads if not deleted
        }
        assert of_text.values[0].version[0] == shown


PLACES = st.lists(st.integers(1, 3), max_size=3)
SEALS = st.fixed_dictionaries(
    {"gone": PLACES, "steps": st.sampled_from([1, 1, 2])},
    optional={"seal": st.integers(1, 3), "title": st.sampled_from("ab")},
)
ODD_SEALS = st.fixed_dictionaries(
    {},
    optional={"seal": st.integers(1, 3), "steps": st.integers(1, 2), "gone": st.one_of(PLACES, st.just("x"))}
    | {"read": st.sampled_from(["1", "2", 3]), "title": st.sampled_from("ab"), "plain": st.sampled_from("ab")},
)


@pytest.mark.slow
@settings(max_examples=400)
@given(st.one_of(st.just({}), SEALS, ODD_SEALS), st.lists(st.one_of(SEALS, SEALS, ODD_SEALS), min_size=2, max_size=4))
def test_what_was_taken_out_stays_out_or_is_told(base, values):
    """What is shown of the group is one head's, who took out the most; where another took out what he left in, that is in conflict."""
    payload, conflicts = merged(base, *values)
    changed = [one for one in values if part(one) != part(base)] or values
    gone = [taken_out(one) for one in changed]
    shown = next(one for one in changed if len(taken_out(one)) == max(map(len, gone)))
    assert part(payload, without="read") == part(shown, without="read")
    if not all(one <= taken_out(shown) for one in gone):
        assert "gone" in conflicts
    if not {"gone", "seal"} & {*conflicts} and len({json_of(part(one, without="read")) for one in changed}) > 1:
        said = [
            one
            for one in changed
            if json_of(part(one, without="read", also="steps")) != json_of(part(shown, without="read", also="steps"))
        ]
        assert not said or all(isinstance(one.get("gone"), list) for one in changed)
        assert not said or len({one.get("steps") for one in changed}) == 1


def taken_out(value):
    return set(value["gone"]) if isinstance(value.get("gone"), list) else set()


def part(value, **without):
    return {name: value[name] for name in SEALED.difference(without.values()) if name in value}


def json_of(value):
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


class Fold:
    """The history that a set of changes is, from the definitions."""

    def __init__(self, changes):
        self.changes = {(*key_of(one), one.version): one for one in changes}

    def node(self, item_type, item_id, version):
        found = self.changes.get((item_type, item_id, version))
        if found is None:
            return None
        nodes = [self.node(item_type, item_id, parent) for parent in found.parents]
        return Node(found.parents, 1 + max((node.rev for node in nodes if node), default=0))

    def payload(self, item_type, item_id, version):
        found = self.changes.get((item_type, item_id, version))
        return b"" if found is None else found.payload

    def ancestors(self, key, version):
        node = self.node(*key, version)
        below = [self.ancestors(key, parent) for parent in node.parents] if node else []
        return {version}.union(*below)

    def entities(self, rules=RULES):
        found = {}
        for key in {key_of(one) for one in self.changes.values()}:
            mine = [one for one in self.changes.values() if key_of(one) == key]
            named = {parent for one in mine for parent in one.parents}
            heads = [head_of(one, self.node(*key, one.version).rev) for one in mine if one.version not in named]
            found[key] = entity_of(heads, rules, self)
        return found


def key_of(one):
    return one.entry.record.item_type, one.entry.record.item_id


def first_of_each_version(changes):
    """Of the records that hold one version, the one that speaks for it."""
    order = sorted(changes, key=lambda one: (one.entry.record.ts, one.lineage, one.entry.record.seq), reverse=True)
    return list({(*key_of(one), one.version): one for one in order}.values())


@pytest.mark.slow
@given(histories())
def test_nearest_common_ancestors_are_what_the_definition_says(changes):
    fold = Fold(changes)
    for entity in fold.entities().values():
        key = (entity.item_type, entity.item_id)
        for count in range(2, len(entity.heads) + 1):
            for heads in itertools.combinations(entity.heads, count):
                common = set.intersection(*(fold.ancestors(key, head) for head in heads))
                nearest = {
                    one for one in common if not any(one in fold.ancestors(key, other) - {other} for other in common)
                }
                nodes = {head: fold.node(*key, head) for head in heads}
                assert nearest_common_ancestors(nodes, lambda version, key=key: fold.node(*key, version)) == sorted(
                    nearest
                )


def test_a_circle_of_ancestors_ends():
    nodes = {"a": Node(("b",), 5), "b": Node(("c",), 4), "c": Node(("b",), 3), "d": Node(("c",), 5)}
    assert nearest_common_ancestors({"a": nodes["a"], "d": nodes["d"]}, nodes.get) == ["c"]


@pytest.mark.slow
@given(histories(), st.randoms(use_true_random=False), st.lists(st.integers(0, 14), min_size=2, max_size=3))
def test_the_same_records_show_the_same_whatever_the_clone_and_the_order(changes, random, splits):
    wanted = Fold(first_of_each_version(changes)).entities()
    files = {key: render_entity(entity) for key, entity in wanted.items()}
    payloads = {(one.lineage, one.entry.record.seq): one.payload for one in changes}
    for split in splits:  # each a clone that got the records in an order of its own, so many of them in its index
        order = changes[:]
        random.shuffle(order)
        view = View({"decision": RULES}, lambda record: payloads[record.lineage, record.seq])
        index = Index(None, "", NullIndexer(), view)
        index.begin_write()
        for one in order[:split]:
            index.apply([(one.entry, one)], one.lineage, 1)
        overlay = Overlay(index, lambda _: b"")
        for one in order[split:]:
            overlay.add(one.entry, one.lineage, 1)
        shown = {key: overlay.shown(key[0], overlay.heads_of(*key)) for key in wanted}
        assert shown == wanted
        assert {key: render_entity(entity) for key, entity in shown.items()} == files
        for one in order[split:]:
            index.apply([(one.entry, one)], one.lineage, 1)
        assert {(entity.item_type, entity.item_id): entity for entity in index.entities()} == wanted
        assert {*index.contested()} == {key for key, entity in wanted.items() if len(entity.heads) > 1}
        index.close()


@pytest.mark.slow
@given(histories())
def test_writing_what_is_shown_makes_the_version_that_was_shown_and_ends_the_conflict(changes):
    for entity in Fold(first_of_each_version(changes)).entities().values():
        payload = None if entity.deleted else entity.payload
        if len(entity.heads) == 1:
            continue
        written = change("lin_9999999999999999", 1, entity.item_id, entity.heads, payload)
        after = Fold([*first_of_each_version(changes), written]).entities()[entity.item_type, entity.item_id]
        assert (after.version, after.parents, after.rev) == (entity.version, entity.parents, entity.rev)
        assert (after.payload, after.deleted, after.conflicts) == (entity.payload, entity.deleted, ())


@given(PAYLOADS, st.lists(PAYLOADS, min_size=2, max_size=4), st.randoms(use_true_random=False))
def test_no_value_of_a_head_is_lost(base, payloads, random):
    """Every value that a head changed is in the merged content, or in a conflict, or in a set by its elements."""
    root = change(LINEAGES[0], 1, item(1), (), base)
    changes = [root] + [change(LINEAGES[1], 1 + at, item(1), (root.version,), one) for at, one in enumerate(payloads)]
    random.shuffle(changes)
    entity = Fold(changes).entities()["decision", item(1)]
    listed = {}
    for conflict in entity.conflicts:
        listed.setdefault(conflict.path[0], []).extend(
            orjson.loads(one.value) if one.value else None for one in conflict.values
        )
    ground = orjson.loads(base)
    for payload in payloads:
        for name, value in orjson.loads(payload).items():
            if value == ground.get(name) or value in [*listed.get(name, []), entity.value.get(name)]:
                continue
            if name == "tags" and isinstance(value, list):
                assert all(part in entity.value.get("tags", []) or part in ground["tags"] for part in value)
            else:
                assert isinstance(value, dict), (name, value)


@pytest.mark.slow
@given(histories())
def test_a_group_is_shown_as_one_head_has_it(changes):
    """Of a head that changed it, if any did; the other heads that changed it to something else are all listed."""
    fold = Fold(first_of_each_version(changes))
    for entity in fold.entities().values():
        if len(entity.heads) == 1 or entity.deleted:
            continue
        key = (entity.item_type, entity.item_id)
        live = [payload for head in entity.heads if (payload := fold.payload(*key, head))]
        of_heads = [group_of(orjson.loads(payload)) for payload in live]
        assert group_of(entity.value) in of_heads
        common = set.intersection(*(fold.ancestors(key, head) for head in entity.heads))
        if not common:
            changed = {orjson.dumps(one) for one in of_heads if one}
            assert not changed or orjson.dumps(group_of(entity.value)) in changed
            is_told = any(conflict.path[:1] in (("object",), ("size",)) for conflict in entity.conflicts)
            assert is_told == (len(changed) > 1)


def group_of(value):
    return {name: value[name] for name in sorted(GROUP & set(value))}


@pytest.mark.slow
@given(histories())
def test_what_is_in_no_group_merges_as_if_there_were_none(changes):
    with_group, without = Fold(first_of_each_version(changes)), Fold(first_of_each_version(changes))
    plain = without.entities(RULES._replace(groups=()))
    for key, entity in with_group.entities().items():
        assert {**entity.value, **dict.fromkeys(GROUP)} == {**plain[key].value, **dict.fromkeys(GROUP)}
        others = [one for one in entity.conflicts if one.path[:1] not in {(name,) for name in GROUP}]
        assert others == [one for one in plain[key].conflicts if one.path[:1] not in {(name,) for name in GROUP}]


def put(number, **fields):
    return lambda transaction: transaction.put("decision", item(number), fields)


def open_journal(root):
    return Journal(os.fspath(root), TYPES)


@pytest.fixture
def clones(tmp_path):
    """Two stores of one project that both hold the decision 1 as the first wrote it."""
    ours = Path(make_store(tmp_path / "ours"))
    theirs = tmp_path / "theirs" / ".periplus"
    (theirs / "journal").mkdir(parents=True)
    shutil.copy(ours / "config.toml", theirs)
    with open_journal(ours) as journal:
        journal.mutate(put(1, text="t", state="open", tags=["a"]), WRITER)
    exchange(ours, theirs)
    return ours, theirs


def exchange(*stores):
    """Every store gets the lineages of the others as they are now."""
    for store, other in itertools.permutations(stores, 2):
        with open_journal(other) as journal:
            own = journal.lineage
        if own:
            shutil.copytree(other / "journal" / own, store / "journal" / own, dirs_exist_ok=True)


def projected(store):
    with open_journal(store) as journal:
        assert journal.project()
    return {path.name: path.read_bytes() for path in (store / "entities").rglob("*.json")}


def test_two_clones_that_wrote_apart_show_one_thing(clones):
    ours, theirs = clones
    with open_journal(ours) as journal:
        journal.mutate(put(1, text="t", state="done", tags=["a", "ours"]), WRITER)
        read = journal.get("decision", item(1)).version
    with open_journal(theirs) as journal:
        journal.mutate(put(1, text="better", state="dropped", tags=["a", "theirs"]), WRITER._replace(name="other"))
    exchange(ours, theirs)
    assert projected(ours) == projected(theirs)
    document = orjson.loads(projected(ours)[f"{item(1)}.json"])
    assert document["entity"]["text"] == "better"
    assert sorted(document["entity"]["tags"]) == ["a", "ours", "theirs"]
    (conflict,) = document["conflicts"]
    assert conflict["path"] == ["state"]
    assert {(one["writer"], one["value"]) for one in conflict["values"]} == {("tester", "done"), ("other", "dropped")}
    assert conflict["values"][0]["value"] == document["entity"]["state"]

    with open_journal(ours) as journal:
        entity = journal.get("decision", item(1))
        assert [one.item_id for one in journal.contested()] == [item(1)]
        for stale in (read, *entity.heads, ABSENT):
            with pytest.raises(ConflictError):
                journal.mutate(lambda t, stale=stale: t.put("decision", item(1), {}, expect=stale), WRITER)
        assert not [one for one in examine(journal).problems if "differ" in one.what]
        journal.mutate(lambda t: t.put("decision", item(1), entity.value, expect=entity.version), WRITER)
        settled = journal.get("decision", item(1))
        assert (settled.version, settled.rev, settled.parents) == (entity.version, 3, entity.heads)
        assert not settled.is_in_conflict
        assert not journal.contested()
    exchange(ours, theirs)
    assert projected(ours) == projected(theirs)
    assert "conflicts" not in orjson.loads(projected(theirs)[f"{item(1)}.json"])


def test_an_update_stands_against_a_deletion(clones):
    ours, theirs = clones
    with open_journal(ours) as journal:
        journal.mutate(lambda t: t.delete("decision", item(1)), WRITER)
    with open_journal(theirs) as journal:
        journal.mutate(put(1, text="kept"), WRITER)
    exchange(ours, theirs)
    assert projected(ours) == projected(theirs)
    with open_journal(ours) as journal:
        entity = journal.get("decision", item(1))
        assert entity.value == {"text": "kept"}
        assert entity.conflict_names == ("deleted",)
        assert [orjson.loads(one.value) if one.value else None for one in entity.conflicts[0].values] == [
            {"text": "kept"},
            None,
        ]
        journal.mutate(lambda t: t.delete("decision", item(1), expect=entity.version), WRITER)
        assert journal.get("decision", item(1)) is None
        assert journal.index.counts() == {}
    exchange(ours, theirs)
    assert projected(ours) == projected(theirs) == {}


def test_a_merged_file_that_is_only_old_is_written_over(clones):
    ours, theirs = clones
    for store, text in zip(clones, ("a", "b"), strict=True):
        with open_journal(store) as journal:
            journal.mutate(put(1, text=text), WRITER)
    exchange(ours, theirs)
    old = projected(ours)
    with open_journal(ours) as journal:
        journal.mutate(put(1, text="c"), WRITER)
    new = projected(ours)
    assert new != old
    (ours / "entities" / "decision" / f"{item(1)}.json").write_bytes(old[f"{item(1)}.json"])
    (ours / "index.sqlite").unlink()
    assert projected(ours) == new


def test_damage_to_what_a_merge_needs_is_reported_and_nothing_is_written_on_it(clones):
    ours, theirs = clones
    for store, fields in zip(clones, ({"text": "a", "tags": ["a"]}, {"text": "t", "tags": []}), strict=True):
        with open_journal(store) as journal:
            journal.mutate(put(1, **fields), WRITER)
    exchange(ours, theirs)
    files = projected(ours)
    with open_journal(ours) as journal:
        segment = Path(journal.reader(journal.lineage).path_of(1))
        data = segment.read_bytes()
        segment.write_bytes(data.replace(b'"state":"open"', b'"state":"oPen"', 1))
        assert journal.get("decision", item(1)) is not None
        assert journal.damage is not None
        with pytest.raises(DamageError):
            journal.mutate(put(2, text="x"), WRITER)
        segment.write_bytes(data)
    assert projected(ours) == files


def test_a_file_says_nothing_that_was_merged_while_what_it_is_merged_over_could_not_be_read(clones):
    """The index gave back what it had taken, but the file that was to be written again was there already, for people and git to see."""
    ours, theirs = clones
    for store, fields in zip(clones, ({"text": "a", "tags": ["a"]}, {"text": "t", "tags": []}), strict=True):
        with open_journal(store) as journal:
            journal.mutate(put(1, **fields), WRITER)
    exchange(ours, theirs)
    projected(ours)
    with open_journal(ours) as journal:
        path = Path(journal.layout.entity_file("decision", item(1)))
        whole = path.read_bytes()
        path.unlink()
        segment = Path(journal.reader(journal.lineage).path_of(1))
        data = segment.read_bytes()
        segment.write_bytes(data.replace(b'"state":"open"', b'"state":"oPen"', 1))
        assert not journal.project(rewrite=[("decision", item(1))])
        assert journal.damage is not None
        assert not path.exists()
        segment.write_bytes(data)
    with open_journal(ours) as journal:
        assert journal.project(rewrite=[("decision", item(1))])
        assert path.read_bytes() == whole


@pytest.mark.parametrize("has_files", [True, False])
def test_nothing_is_indexed_that_was_merged_while_what_it_is_merged_over_could_not_be_read(clones, has_files):
    ours, theirs = clones
    for store, fields in zip(clones, ({"text": "a", "tags": ["a"]}, {"text": "t", "tags": []}), strict=True):
        with open_journal(store) as journal:
            journal.mutate(put(1, **fields), WRITER)
            added = journal.lineage
    shutil.copytree(theirs / "journal" / added, ours / "journal" / added)
    types = {"decision": TYPES["decision"]._replace(is_projected=has_files)}
    with Journal(os.fspath(ours), types) as journal:
        segment = Path(journal.reader(journal.lineage).path_of(1))
        data = segment.read_bytes()
        segment.write_bytes(data.replace(b'"state":"open"', b'"state":"oPen"', 1))
        assert not journal.project()
        assert journal.damage is not None
    segment.write_bytes(data)
    with contextlib.closing(sqlite3.connect(ours / "index.sqlite")) as db:
        assert added not in {row[0] for row in db.execute("SELECT lineage FROM watermarks")}


def test_the_view_of_several_heads_is_named_like_a_write_of_it(clones):
    ours, theirs = clones
    for store, text in zip(clones, ("a", "b"), strict=True):
        with open_journal(store) as journal:
            journal.mutate(put(1, text=text), WRITER)
    exchange(ours, theirs)
    with open_journal(ours) as journal:
        entity = journal.get("decision", item(1))
    assert entity.version == version_id(
        "decision", item(1), deleted=False, payload=entity.payload, parents=entity.heads
    )
    assert entity.parents == entity.heads == tuple(sorted(entity.heads))


def test_the_merge_of_many_heads_costs_as_many_steps_and_not_their_square():
    def cost(count):
        heads = [{"tags": [f"t{number}", "same"], "text": str(number)} for number in range(count)]
        return calls_made(lambda: merged({"tags": ["same"]}, *heads))

    assert merged({"tags": ["a", "b"]}, {"tags": ["b", "x"]}, {"tags": ["a", "b", "y", "x"]})[0]["tags"] == [
        "b",
        "x",
        "y",
    ]
    assert cost(1_000) < cost(100) * 10 * 1.3
