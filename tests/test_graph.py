"""Versions as a graph: heads and revs are the same whatever the order in which records come, in index and overlay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_support import LINEAGES, change, histories, stated_histories
from periplus.journal.index.index_file import NullIndexer
from periplus.journal.index.overlay import Overlay
from periplus.journal.index.tables import Index
from periplus.journal.state.entity import Change
from periplus.journal.state.version_graph import RAISED_MAX, VersionGraph
from support import item

pytestmark = pytest.mark.quick


def folded(changes: list[Change]) -> dict[str, dict[str, tuple[int, str, int]]]:
    """From the definitions: rev, lineage and seq of each head, by item and version."""
    heads: dict[str, dict[str, tuple[int, str, int]]] = {}
    for item_id in {one.entry.record.item_id for one in changes}:
        mine = [one for one in changes if one.entry.record.item_id == item_id]
        stated = {one.version: {*one.parents} for one in mine}
        for one in mine:
            stated[one.version] |= {*one.entry.record.after}

        def above(version: str, seen: set[str], stated=stated) -> set[str]:
            for one in stated.get(version, ()):
                if one not in seen:
                    seen.add(one)
                    above(one, seen)
            return seen

        counted = {one.version: {*one.parents} for one in mine}
        for version, names in stated.items():
            counted[version] |= {name for name in names if version not in above(name, {name})}

        def rev(version: str, counted=counted) -> int:
            return 1 + max((rev(parent) for parent in counted[version]), default=0) if version in counted else 0

        named = {name for names in counted.values() for name in names}
        for one in sorted(mine, key=lambda one: (one.entry.record.ts, one.lineage, one.entry.record.seq), reverse=True):
            if one.version not in named:
                heads.setdefault(item_id, {})[one.version] = (rev(one.version), one.lineage, one.entry.record.seq)
    return heads


def shown(heads_of) -> dict[str, dict[str, tuple[int, str, int]]]:
    found = {item_id: {head.version: (head.rev, head.lineage, head.seq) for head in heads_of("decision", item_id)}
             for item_id in (item(1), item(2))}  # fmt: skip
    return {item_id: heads for item_id, heads in found.items() if heads}


@pytest.mark.slow
@given(
    st.one_of(histories(), stated_histories()), st.randoms(use_true_random=False), st.integers(0, 14), st.integers(1, 5)
)
def test_heads_and_revs_do_not_depend_on_the_order_of_records(changes, random, behind, chunk):
    wanted = folded(changes)
    order = changes[:]
    random.shuffle(order)
    index = Index(None, "", NullIndexer())
    index.begin_write()
    split = len(order) - min(behind, len(order))
    for start in range(0, split, chunk):
        for one in order[start : min(start + chunk, split)]:
            index.apply([(one.entry, one)], one.lineage, 1) if chunk == 1 else None
        for lineage in LINEAGES if chunk > 1 else ():
            part = [one for one in order[start : min(start + chunk, split)] if one.lineage == lineage]
            index.apply(((one.entry, one) for one in part), lineage, 1)
    overlay = Overlay(index, lambda _: b"")
    for one in order[split:]:
        overlay.add(one.entry, one.lineage, 1)
    assert shown(overlay.heads_of) == wanted
    for one in order[split:]:
        index.apply([(one.entry, one)], one.lineage, 1)
    assert shown(index.heads) == wanted
    revs = {(row.item_id, row.version): row.rev for row in index.records("version <> ''", (), -1)}
    for item_id, heads in wanted.items():
        assert {version: revs[item_id, version] for version in heads} == {
            version: rev for version, (rev, *_) in heads.items()
        }
    assert {row.version: row.parents for row in index.records("1", (), -1)} == {
        one.version: one.parents for one in order
    }
    index.close()


class _Nothing:
    def rev_of(self, item_type, item_id, version):
        return None

    def children_of(self, item_type, item_id, version):
        return []


def test_a_circle_of_forged_versions_ends():
    """A stub states its version itself, so a forger can let two be each other's parents."""
    growth = VersionGraph(_Nothing())
    for version, parent in ("ab", "bc", "ca", "ab"):
        growth.add(change(LINEAGES[0], 1, item(1), (parent * 64,), b"{}")._replace(version=version * 64))
    assert growth.entities["decision", item(1)].is_circular


def test_versions_that_are_each_others_parents_are_all_heads_until_one_names_them():
    """In index and overlay, wherever the circle is closed."""
    forged = [
        change(LINEAGES[0], seq, item(1), (parent * 64,), b"{}")._replace(version=version * 64)
        for seq, (version, parent) in enumerate(("ab", "bc", "ca", "dd", "ed"), 1)
    ]
    for behind in range(len(forged) + 1):
        index = Index(None, "", NullIndexer())
        index.begin_write()
        for one in forged[:behind]:
            index.apply([(one.entry, one)], one.lineage, 1)
        later = forged[behind:]
        index.apply(((one.entry, one) for one in later), LINEAGES[0], 1)
        heads = {head.version[0]: head.rev for head in index.heads("decision", item(1))}
        assert heads == {"a": 1, "b": 1, "c": 1, "e": 2}
        assert {row.version[0]: row.rev for row in index.records("1", (), -1)} == heads | {"d": 1}
        above = change(LINEAGES[1], 1, item(1), ("a" * 64, "b" * 64, "c" * 64, "e" * 64), b"{}")
        overlay = Overlay(index, lambda _: b"")
        overlay.add(above.entry, LINEAGES[1], 1)
        assert [(head.version, head.rev) for head in overlay.heads_of("decision", item(1))] == [(above.version, 3)]
        index.apply([(above.entry, above)], LINEAGES[1], 1)
        assert [(head.version, head.rev) for head in index.heads("decision", item(1))] == [(above.version, 3)]
        assert index.circular() == {("decision", item(1))}
        index.clear()
        assert index.circular() == set()
        index.close()


def test_a_circle_of_thousands_is_settled_without_recursion():
    chain = [change(LINEAGES[0], 1, item(1), (), b"{}")]
    for seq in range(2, 3_000):
        chain.append(change(LINEAGES[0], seq, item(1), (chain[-1].version,), b'{"a":%d}' % seq))
    closing = change(LINEAGES[1], 1, item(1), (), b"{}", after=(chain[-1].version,))
    index = Index(None, "", NullIndexer())
    index.begin_write()
    index.apply(((one.entry, one) for one in chain), LINEAGES[0], 1)
    index.apply([(closing.entry, closing)], LINEAGES[1], 1)
    assert [(head.version, head.rev) for head in index.heads("decision", item(1))] == [(chain[-1].version, 2_999)]
    index.close()


def test_a_parent_that_comes_late_raises_all_that_descend_from_it():
    first = change(LINEAGES[1], 1, item(1), (), b'{"a":0}')
    chain = [change(LINEAGES[0], 1, item(1), (first.version,), b'{"a":1}')]
    for seq in range(2, 500):
        chain.append(change(LINEAGES[0], seq, item(1), (chain[-1].version,), b'{"a":%d}' % seq))
    index = Index(None, "", NullIndexer())
    index.begin_write()
    index.apply(((one.entry, one) for one in chain), LINEAGES[0], 1)
    assert [head.rev for head in index.heads("decision", item(1))] == [499]
    index.apply([(first.entry, first)], LINEAGES[1], 1)
    assert [head.rev for head in index.heads("decision", item(1))] == [500]
    assert [row.rev for row in index.records("lineage = ? ORDER BY seq", (LINEAGES[0],), -1)] == list(range(2, 501))
    index.close()


def reversed_chain(count):
    """Versions that were each made from the one before, the last one first."""
    chain = [change(LINEAGES[0], 1, item(1), (), b"{}")]
    for number in range(1, count):
        chain.append(change(LINEAGES[0], number + 1, item(1), (chain[-1].version,), b'{"a":%d}' % number))
    return chain[::-1]


class _Counted(_Nothing):
    calls = 0

    def children_of(self, item_type, item_id, version):
        self.calls += 1
        return []


def test_what_comes_the_wrong_way_round_is_not_handed_on_without_end():
    """Each of n records raised all that came before it: a sync of 4,000 of them took three minutes, of 8,000 twelve."""
    base = _Counted()
    growth = VersionGraph(base)
    for one in reversed_chain(1_000):
        growth.add(one)
    assert growth.entities["decision", item(1)].is_unsettled
    assert not growth.entities["decision", item(1)].is_circular
    assert base.calls < 3 * RAISED_MAX


@pytest.mark.slow
def test_what_comes_the_wrong_way_round_is_settled_as_a_whole():
    """In the index, in chunks, and in the overlay; and what comes behind it is added as ever."""
    changes = reversed_chain(600)
    for behind in (0, 250, 600):
        index = Index(None, "", NullIndexer())
        index.begin_write()
        for start in range(0, behind, 200):
            index.apply(((one.entry, one) for one in changes[start : min(start + 200, behind)]), LINEAGES[0], 1)
        overlay = Overlay(index, lambda _: b"")
        for one in changes[behind:]:
            overlay.add(one.entry, LINEAGES[0], 1)
        wanted = [(changes[0].version, 600)]
        assert [(head.version, head.rev) for head in overlay.heads_of("decision", item(1))] == wanted
        index.apply(((one.entry, one) for one in changes[behind:]), LINEAGES[0], 1)
        assert [(head.version, head.rev) for head in index.heads("decision", item(1))] == wanted
        assert sorted(row.rev for row in index.records("1", (), -1)) == list(range(1, 601))
        assert index.circular() == set()
        above = change(LINEAGES[1], 1, item(1), (changes[0].version,), b"{}")
        index.apply([(above.entry, above)], LINEAGES[1], 1)
        assert [(head.version, head.rev) for head in index.heads("decision", item(1))] == [(above.version, 601)]
        index.close()


def test_what_rises_is_handed_on_in_the_order_of_ranks_whatever_the_versions_are_called():
    """By a short way and by a long one: taken up before what it comes after, a version would look as if it were in a circle."""
    count = 0

    def made(*parents):
        nonlocal count
        count += 1
        return change(LINEAGES[0], count, item(1), tuple(sorted(one.version for one in parents)), b'{"n":%d}' % count)

    for _ in range(40):
        before = [made()]
        for _ in range(8):
            before.append(made(before[-1]))
        top = made(before[-1])
        first = made(top)
        second = made(first)
        both = made(top, second)
        last = made(both)
        growth = VersionGraph(_Nothing())
        for one in (*before, first, second, both, last, top):
            growth.add(one)
        found = growth.entities["decision", item(1)]
        assert not found.is_circular
        assert [found.revs[one.version] for one in (top, first, second, both, last)] == [10, 11, 12, 13, 14]
