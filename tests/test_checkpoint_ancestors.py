"""What a checkpoint keeps of versions that stand beside each other: whoever begins there merges them as who has read everything."""

from __future__ import annotations

import json
from collections import Counter

import msgspec
import orjson
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from graph_support import LINEAGES, PAYLOADS, change, histories, stated_histories
from periplus.base.errors import FormatError
from periplus.journal.checkpoints.ancestors import heads_to_keep, kept_of
from periplus.journal.checkpoints.format import CheckpointHeader, KeyLine, decode_checkpoint, encode_checkpoint
from periplus.journal.index.index_file import NullIndexer
from periplus.journal.index.overlay import Overlay
from periplus.journal.index.tables import Index
from periplus.journal.records.record import LINE_BYTES_MAX, SUM_TRAILER_BYTES, seal_line
from periplus.journal.state.entity import Ancestor, MergeRules
from periplus.journal.state.index_values import HistoryNeededError, View
from periplus.journal.state.merge import Node, ancestry
from support import item

HEADER = CheckpointHeader(2, 1, "str_0", LINEAGES[0], 1, "", {}, "")
RULES = {"decision": MergeRules(sets=frozenset({"tags"}))}
A, B, C = LINEAGES


class History:
    """Changes as they are made, and indexes of them."""

    def __init__(self, changes=()):
        self.changes = list(changes)
        self.taken = Counter(one.lineage for one in changes)

    def made(self, lineage, value, *parents, after=()):
        """A further change, made from these."""
        self.taken[lineage] += 1
        payload = None if value is None else orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        of = tuple(sorted(one.version for one in parents))
        found = change(lineage, self.taken[lineage], item(1), of, payload, after=tuple(one.version for one in after))
        self.changes.append(found)
        return found

    def empty(self):
        said = {(one.lineage, one.entry.record.seq): one.payload for one in self.changes}
        index = Index(None, "", NullIndexer(), View(RULES, lambda record: said[record.lineage, record.seq]))
        index.begin_write()
        return index

    def index(self, changes=None):
        index = self.empty()
        take(index, self.changes if changes is None else changes)
        return index

    def carried(self, index):
        """What is made of a checkpoint of ``index``. Raises HistoryNeededError as who loads it does."""
        found = self.empty()
        for one in decode_checkpoint(lines_of(index), no_object):
            assert not isinstance(one, KeyLine)
            found.add_ancestors([one]) if isinstance(one, Ancestor) else found.add_heads([one])
        for lineage in LINEAGES:
            found.set_floor(lineage, 1_000)
        if not found.can_merge_all():
            raise HistoryNeededError
        return found


def no_object(_):
    raise AssertionError


def lines_of(index):
    return list(encode_checkpoint(HEADER, heads_to_keep(index), (), no_object))


def take(index, changes):
    for one in changes:
        index.apply([(one.entry, one)], one.lineage, 1)


def shown(index):
    return list(index.entities())


def shown_over(index, changes):
    """What an overlay shows, into which the changes came, and the index below stays as it is."""
    overlay = Overlay(index, no_object)
    for one in changes:
        overlay.add(one.entry, one.lineage, 1)
    return [entity for number in (1, 2) if (entity := overlay.entity("decision", item(number))) is not None]


@st.composite
def clones(draw):
    """Three clones that write an entity from all the heads that they know, and tell each other now and then."""
    history, known = History(), {lineage: [] for lineage in LINEAGES}
    for _ in range(draw(st.integers(2, 16))):
        lineage, other = draw(st.sampled_from(LINEAGES)), draw(st.sampled_from(LINEAGES))
        if (lineage != other and draw(st.booleans())) or (not known[lineage] and history.changes):
            told = known[other] or history.changes[:1]
            known[lineage] += [one for one in told if one not in known[lineage]]
            continue
        named = {parent for one in known[lineage] for parent in one.parents}
        heads = [one for one in known[lineage] if one.version not in named]
        value = draw(st.one_of(PAYLOADS, PAYLOADS, PAYLOADS, st.none()))
        known[lineage].append(history.made(lineage, value and orjson.loads(value), *heads))
    return history.changes


@pytest.mark.slow
@settings(max_examples=300)
@given(
    st.one_of(histories(), stated_histories()),
    st.randoms(use_true_random=False),
    st.integers(0, 14),
    st.integers(0, 14),
)
def test_what_is_shown_is_what_the_whole_history_shows_or_the_history_is_asked_for(changes, random, first, second):
    order = changes[:]
    random.shuffle(order)
    check_that_nothing_is_shown_otherwise(changes, order, *sorted((first, second)))


@pytest.mark.slow
@settings(max_examples=300)
@given(clones(), st.integers(0, 14), st.integers(0, 14))
def test_what_clones_show_is_what_the_whole_history_shows(changes, first, second):
    check_that_nothing_is_shown_otherwise(changes, changes, *sorted((first, second)))


def check_that_nothing_is_shown_otherwise(changes, order, first, second):
    history = History(changes)
    try:
        once = history.carried(history.index(order[:first]))
        assert shown(once) == shown(history.index(order[:first]))
        over = shown_over(once, order[first:second])
        assert over == shown(history.index(order[:second]))
        take(once, order[first:second])
        assert shown(once) == over
        twice = history.carried(once)
        assert shown(twice) == over
        take(twice, order[second:])
        assert shown(twice) == shown(history.index(order))
        event("the checkpoint was enough")
        event(f"merged {max((len(entity.heads) for entity in shown(twice)), default=0)}")
    except HistoryNeededError:
        event("history was needed")


@pytest.fixture
def history():
    return History()


def same_after(history, at, *, times=1):
    """An index that began at a checkpoint behind change ``at``, and took in the rest; it shows what the whole history does."""
    index = history.index(history.changes[:at])
    for _ in range(times):
        index = history.carried(index)
    assert shown(index) == shown(history.index(history.changes[:at]))
    assert shown_over(index, history.changes[at:]) == shown(history.index())
    take(index, history.changes[at:])
    assert shown(index) == shown(history.index())
    return index


def test_two_that_were_made_from_one(history):
    base = history.made(A, {"text": "red", "tags": ["a", "b"], "why": 1})
    history.made(A, {"text": "grey", "tags": ["b"], "why": 1}, base)
    history.made(B, {"text": "red", "tags": ["a", "b", "c"], "why": 2}, base)
    index = same_after(history, 3, times=3)
    [entity] = shown(index)
    assert entity.value == {"text": "grey", "tags": ["b", "c"], "why": 2}
    assert not entity.conflicts


def test_two_that_were_made_since_from_the_only_one_that_there_was(history):
    first = history.made(A, {"text": "green", "why": 0})
    base = history.made(A, {"text": "red", "why": 1}, first)
    history.made(A, {"text": "grey", "why": 1}, base)
    history.made(B, {"text": "red", "why": 2}, base)
    for times in (1, 3):
        index = same_after(history, 2, times=times)
        assert shown(index)[0].value == {"text": "grey", "why": 2}
    again = history.carried(index)
    assert shown(again) == shown(history.index())


def test_a_third_that_was_made_from_what_the_two_were_made_from(history):
    base = history.made(A, {"a": 0, "b": 0, "c": 0})
    history.made(A, {"a": 1, "b": 0, "c": 0}, base)
    between = history.made(B, {"a": 0, "b": 1, "c": 0}, base)
    history.made(B, {"a": 0, "b": 2, "c": 0}, between)
    history.made(C, {"a": 0, "b": 0, "c": 1}, base)
    index = same_after(history, 4, times=2)
    assert shown(index)[0].value == {"a": 1, "b": 2, "c": 1}
    history.made(C, {"a": 0, "b": 1, "c": 5}, between)  # also one from a version between
    same_after(history, 4, times=2)


def test_what_is_written_over_both_makes_an_end_of_it(history):
    base = history.made(A, {"a": 0, "b": 0})
    heads = [history.made(A, {"a": 1, "b": 0}, base), history.made(B, {"a": 0, "b": 1}, base)]
    merged = history.made(A, {"a": 1, "b": 1}, *heads)
    history.made(B, {"a": 0, "b": 2}, heads[1])
    index = same_after(history, 3, times=2)
    assert len(shown(index)[0].heads) == 2
    history.made(C, {"a": 1, "b": 2}, merged, history.changes[-1])
    index = same_after(history, 3)
    again = history.carried(index)
    assert not again.ancestors("decision", item(1)), "one head needs none"


def test_histories_that_crossed(history):
    left, right = history.made(A, {"a": 0, "b": 0}), history.made(B, {"a": 1, "b": 1})
    history.made(A, {"a": 0, "b": 2}, left, right)
    history.made(B, {"a": 3, "b": 1}, left, right)
    index = same_after(history, 4, times=3)
    kept = [one.version.version for one in index.ancestors("decision", item(1))]
    assert sorted(kept) == sorted([left.version, right.version])
    assert shown(index)[0].value == {"a": 3, "b": 2}


def test_a_way_around_the_common_ancestor(history):
    """One head was merged from a version that is older than the common ancestor: that it is older is all that is kept of it."""
    old = history.made(A, {"n": 0})
    second = history.made(A, {"n": 1}, old)
    base = history.made(A, {"n": 2}, second)
    aside = history.made(C, {"n": 9}, old)
    history.made(A, {"n": 3}, base, aside)
    history.made(B, {"n": 2, "m": 1}, base)
    index = same_after(history, 6, times=3)
    kept = {one.version.version: one.below for one in index.ancestors("decision", item(1))}
    assert kept == {base.version: (old.version,), aside.version: ()}
    last = history.made(
        C, {"n": 7}, aside
    )  # of this and the others the common ancestor is the old one, which is not kept
    with pytest.raises(HistoryNeededError):
        take(index, [last])


def test_another_record_of_a_common_ancestor_does_not_hide_the_way_around_it(history):
    """A clone adopts a version from its file, and its record comes behind the checkpoint: the whole history was asked for, and was refused
    where the archive is elsewhere.
    """
    old = history.made(A, {"n": 0})
    second = history.made(A, {"n": 1}, old)
    base = history.made(A, {"n": 2}, second)
    aside = history.made(C, {"n": 9}, old)
    history.made(A, {"n": 3}, base, aside)
    history.made(B, {"n": 2, "m": 1}, base)
    for made in ((C, {"n": 2}, second), (C, {"n": 9}, old), (B, {"n": 2}, second)):
        history.made(*made)
    index = same_after(history, 6, times=2)
    again = history.carried(index)
    assert shown(again) == shown(history.index())
    kept = {one.version.version: one.below for one in again.ancestors("decision", item(1))}
    assert kept == {base.version: (old.version,), aside.version: ()}


def test_who_reads_everything_anew_begins_with_nothing(history):
    base = history.made(A, {"n": 0})
    history.made(A, {"n": 1}, base)
    history.made(B, {"n": 2}, base)
    index = history.carried(history.index())
    take(index, [history.made(C, {"n": 3}, base)])
    index.add_kept_keys([("k", A, 1, base.version, "")])
    index.clear()
    for name in ("watermarks", "records", "edges", "heads", "ancestors", "floors", "kept_keys"):
        assert index.db.execute(f"SELECT COUNT(*) FROM {name}").fetchone() == (0,), name


def test_the_past_is_asked_for_where_a_change_was_made_from_what_is_not_kept(history):
    first = history.made(A, {"n": 0})
    base = history.made(A, {"n": 1}, first)
    history.made(A, {"n": 2}, base)
    history.made(B, {"n": 1, "m": 1}, base)
    for parents in ([first], [], [first, history.changes[2]]):
        index = history.carried(history.index(history.changes[:4]))
        late = history.made(C, {"n": 5}, *parents)
        with pytest.raises(HistoryNeededError):
            take(index, [late])
        index = history.carried(history.index(history.changes[:4]))
        with pytest.raises(HistoryNeededError):
            shown_over(index, [late])


def test_another_record_of_a_version_that_is_known_changes_nothing(history):
    first = history.made(A, {"n": 0})
    base = history.made(A, {"n": 1}, first)
    heads = [history.made(A, {"n": 2}, base), history.made(B, {"n": 1, "m": 1}, base)]
    history.made(C, {"n": 1}, first)
    history.made(C, {"n": 2}, base)
    index = same_after(history, 4, times=2)
    assert {head.version for head in index.heads("decision", item(1))} == {one.version for one in heads}


@pytest.mark.parametrize("value", [{"n": 1}, None])
def test_a_tombstone_and_a_stub_are_kept_as_what_they_are(history, value):
    first = history.made(A, {"n": 0})
    base = history.made(A, value, first)
    history.made(A, {"n": 2}, base)
    history.made(B, {"n": 1, "m": 1}, base)
    index = history.index()
    [kept] = kept_of(index, index.heads("decision", item(1)))
    assert (kept.version.deleted, kept.version.is_stub) == (value is None, False)
    same_after(history, 4, times=2)


def test_nothing_is_kept_of_versions_that_are_stated_to_come_after_others(history):
    base = history.made(A, {"n": 0})
    one, other = history.made(A, {"n": 1}, base), history.made(B, {"n": 2}, base)
    history.made(C, {"n": 3}, one)
    index = history.index()
    assert kept_of(index, index.heads("decision", item(1)))
    history.made(B, {"n": 4}, other, after=[one])
    index = history.index()
    assert kept_of(index, index.heads("decision", item(1))) == []
    with pytest.raises(HistoryNeededError):
        history.carried(index)


def test_nothing_is_kept_where_a_version_on_the_way_does_not_say_what_it_is_called(history):
    """Were the others kept, who begins there would merge over a part of what there was."""
    base = history.made(A, {"n": 0})
    between = history.made(A, {"n": 1}, base)
    history.made(A, {"n": 2}, between)
    history.made(B, {"m": 0}, base)
    index = history.index()
    heads = index.heads("decision", item(1))
    assert len(kept_of(index, heads)) == 2
    sound = index.view.payload_at
    index.view = View(RULES, lambda record: b'{"n":7}' if record.version == between.version else sound(record))
    assert kept_of(index, heads) == []


def test_versions_of_before_a_checkpoint_that_are_stated_to_come_after_each_other_need_the_history(history):
    base = history.made(A, {"n": 0})
    one, other = history.made(A, {"n": 1}, base), history.made(B, {"n": 2}, base)
    history.made(C, {"n": 1}, base, after=[other])
    history.made(C, {"n": 2}, base, after=[one])
    index = history.carried(history.index(history.changes[:3]))
    with pytest.raises(HistoryNeededError):
        take(index, history.changes[3:])


@pytest.mark.parametrize(
    ("count", "size", "is_kept"), [(900, 10, True), (1_001, 10, False), (5, 60_000, False), (3, 60_000, True)]
)
def test_no_more_is_kept_than_a_line_has_room_for(history, count, size, is_kept):
    base = last = history.made(A, {"n": "x" * size})
    history.made(B, {"n": "y"}, base)
    for number in range(count):
        last = history.made(A, {"n": f"{number}" + "x" * size}, last)
    index = history.empty()
    for one in history.changes:
        index.apply([(one.entry, one)], one.lineage, 1)
    lines = lines_of(index)
    assert max(map(len, lines)) < 2 * LINE_BYTES_MAX, "readers give up a line of twice a record's length"
    if is_kept and count * 250 < LINE_BYTES_MAX:
        assert shown(history.carried(index)) == shown(index)
        return
    assert json.loads(lines[1]).get("ancestors") is None
    with pytest.raises(HistoryNeededError):
        history.carried(index)


def test_lines_in_another_order_are_not_what_was_written(history):
    history.made(A, {"n": 1})
    keys = [KeyLine(key, [(A, 1, "", "")]) for key in ("a", "b")]
    header, head, first, second, *end = encode_checkpoint(HEADER, heads_to_keep(history.index()), keys, no_object)
    assert len(list(decode_checkpoint([header, head, first, second, *end], no_object))) == 3
    with pytest.raises(FormatError, match="digest"):
        list(decode_checkpoint([header, head, second, first, *end], no_object))


def test_what_is_not_as_it_is_written_is_no_checkpoint(history):
    first = history.made(A, {"n": 1})
    history.made(B, {"n": 2})
    heads = list(heads_to_keep(history.index()))
    assert len(heads) == 2
    keys = [KeyLine("a", [(A, 1, first.version, "")])]

    def lines(header=HEADER, heads=heads):
        return list(encode_checkpoint(header, heads, keys, no_object))

    def refused(found, why, *, is_known=False):
        with pytest.raises(FormatError, match=why):
            list(decode_checkpoint(found, no_object, is_known=is_known))

    whole = lines()
    end = seal_line(whole[-1][: -SUM_TRAILER_BYTES - 1].replace(b'"keys":1', b'"keys":2'))[0]
    assert len(list(decode_checkpoint(whole, no_object))) == 3
    refused(lines(heads=heads[::-1]), "out of order")
    refused([*whole[:-1], end], "counts")
    refused([*whole, whole[-2]], "after the end")
    refused([whole[0], *whole], "second header", is_known=True)
    refused(whole[:-1], "cut short")
    refused([*whole[:-1], whole[-1][:-1]], "cut short")
    refused(lines(msgspec.structs.replace(HEADER, checkpoint=2)), "not the header")
    refused([whole[0], whole[1].replace(b'"n":1', b'"n":3').replace(b'"n":2', b'"n":3'), *whole[2:]], "checksum")


def test_a_forged_ancestor_is_not_read(history):
    base = history.made(A, {"n": 0})
    between = history.made(A, {"n": 1}, base)
    history.made(A, {"n": 2}, between)
    history.made(B, {"n": 3}, base)
    index = history.index()
    good = list(heads_to_keep(index))
    at = [number for number, one in enumerate(good) if isinstance(one, Ancestor)]
    assert len(at) == 2
    swapped = good[:]
    swapped[at[0]], swapped[at[1]] = swapped[at[1]], swapped[at[0]]
    other = good[:]
    other[at[0]] = other[at[0]]._replace(version=other[at[0]].version._replace(payload=b'{"n":7}'))
    for wrong, what in ((swapped, "out of order"), (other, "does not have the version id that it states")):
        with pytest.raises(FormatError, match=what):
            list(decode_checkpoint(encode_checkpoint(HEADER, wrong, (), no_object), no_object))
    assert list(decode_checkpoint(encode_checkpoint(HEADER, good, (), no_object), no_object)) == good


def test_the_ancestry_ends_at_the_nearest_common_ancestors():
    nodes = {
        "h": Node(("b", "x"), 4),
        "i": Node(("b",), 4),
        "b": Node(("o",), 3),
        "x": Node(("o",), 3),
        "o": Node((), 2),
    }
    found = ancestry({"h": nodes["h"], "i": nodes["i"]}, nodes.get, is_for_keeping=True)
    assert found.nearest == ["b"]
    assert set(found.versions) == {"h", "i", "b", "x"}
    assert found.is_whole
    assert found.below == {"b": ["o"]}
    del nodes["x"]
    assert not ancestry({"h": nodes["h"], "i": nodes["i"]}, nodes.get).is_whole
    del nodes["o"]
    assert ancestry({"i": nodes["i"], "b": nodes["b"]}, nodes.get).is_whole, "what lies below does not matter"


def test_of_several_nearest_ones_that_one_names_what_is_below_which_descends_from_it():
    nodes = {
        "old": Node((), 1), "other": Node((), 1), "left": Node(("other",), 2), "right": Node(("old",), 2), "aside": Node(("old",), 2),
    }  # fmt: skip
    heads = {"one": Node(("aside", "left", "right"), 3), "two": Node(("left", "right"), 3)}
    found = ancestry(heads, nodes.get, is_for_keeping=True)
    assert found.nearest == ["left", "right"]
    assert found.below == {"right": ["old"]}
