"""Versions as a graph: heads and revs are the same whatever the order in which records come, in index and overlay."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from graph_support import LINEAGES, change, histories
from periplus.journal.graph import Growth
from periplus.journal.index import Index
from periplus.journal.index_file import NullIndexer
from periplus.journal.overlay import Overlay
from periplus.journal.state import Change
from support import item


def folded(changes: list[Change]) -> dict[str, dict[str, tuple[int, str, int]]]:
    """From the definitions: rev, lineage and seq of each head, by item and version."""
    heads: dict[str, dict[str, tuple[int, str, int]]] = {}
    for item_id in {one.entry.record.item_id for one in changes}:
        mine = [one for one in changes if one.entry.record.item_id == item_id]
        parents = {one.version: one.parents for one in mine}

        def rev(version: str, parents=parents) -> int:
            return 1 + max((rev(parent) for parent in parents[version]), default=0) if version in parents else 0

        named = {parent for one in mine for parent in one.parents}
        for one in sorted(mine, key=lambda one: (one.entry.record.ts, one.lineage, one.entry.record.seq), reverse=True):
            if one.version not in named:
                heads.setdefault(item_id, {})[one.version] = (rev(one.version), one.lineage, one.entry.record.seq)
    return heads


def shown(heads_of) -> dict[str, dict[str, tuple[int, str, int]]]:
    found = {item_id: {head.version: (head.rev, head.lineage, head.seq) for head in heads_of("decision", item_id)}
             for item_id in (item(1), item(2))}  # fmt: skip
    return {item_id: heads for item_id, heads in found.items() if heads}


@given(histories(), st.randoms(use_true_random=False), st.integers(0, 14), st.integers(1, 5))
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
    growth = Growth(_Nothing())
    for version, parent in ("ab", "bc", "ca", "ab"):
        growth.add(change(LINEAGES[0], 1, item(1), (parent * 64,), b"{}")._replace(version=version * 64))
    assert not growth.heads(("decision", item(1)), [])


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
