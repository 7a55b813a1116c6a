"""Walks over the links of contexts, against what a set says of the same graph."""

from __future__ import annotations

from hashlib import sha256
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from periplus.context.deltas.ancestry import CONTEXT_WEIGHT, chain, common_bases, descent, fork_of, is_ancestor
from periplus.context.model import ContextHeader, depth_over


class Headers:
    """Headers alone; counts how often one is read."""

    def __init__(self):
        self.known = {}
        self.reads = 0

    def add(self, base=None, *merged):
        digest = sha256(b"%d" % len(self.known)).digest()
        parents = [self.known[each] for each in (base, *merged) if each is not None]
        self.known[digest] = ContextHeader(
            digest, base, tuple(merged), depth_over(parents), 0, 0, 0, 0, sha256().digest(), {}
        )
        return digest

    def header(self, digest):
        self.reads += 1
        return self.known[digest]


@st.composite
def graphs(draw):
    graph = Headers()
    nodes = []
    for _ in range(draw(st.integers(2, 14))):
        base = draw(st.sampled_from([None, *nodes[-6:]])) if nodes else None
        merged = draw(st.lists(st.sampled_from(nodes[-6:]), max_size=2, unique=True)) if nodes else []
        nodes.append(graph.add(base, *sorted(each for each in merged if each != base)))
    return graph, nodes


def ancestors_of(graph, digest):
    """By definition: all that can be reached, itself included."""
    found, todo = set(), [digest]
    while todo:
        at = todo.pop()
        if at not in found:
            found.add(at)
            header = graph.known[at]
            todo += [*header.merged, *([header.base] if header.base else [])]
    return found


@given(graphs(), st.data())
def test_walks_say_what_the_graph_says(drawn, data):
    graph, nodes = drawn
    one, other = data.draw(st.sampled_from(nodes)), data.draw(st.sampled_from(nodes))
    of_one, of_other = ancestors_of(graph, one), ancestors_of(graph, other)
    assert is_ancestor(graph, one, other) == (one in of_other)
    walked = list(descent(graph, one))
    assert {header.digest for header in walked} == of_one
    assert len(walked) == len(of_one)
    assert all(newer.depth >= older.depth for newer, older in pairwise(walked))
    common = of_one & of_other
    nearest = {each for each in common if not any(each in ancestors_of(graph, more) - {more} for more in common)}
    bases = common_bases(graph, one, other)
    assert set(bases) == nearest
    assert len(bases) == len(nearest)
    assert bases == common_bases(graph, other, one)
    ours, theirs = ([header.digest for header in chain(graph, each)] for each in (one, other))
    shared = [each for each in ours if each in theirs]
    fork = fork_of(graph, one, other, weight_max=1_000)
    if not shared:
        assert fork is None
    else:
        assert fork.common == shared[0]
        assert [header.digest for header in fork.ours] == ours[: ours.index(shared[0])]
        assert [header.digest for header in fork.theirs] == theirs[: theirs.index(shared[0])]
        weight = CONTEXT_WEIGHT * (len(fork.ours) + len(fork.theirs))
        assert fork_of(graph, one, other, weight_max=weight) == fork
        assert weight == 0 or fork_of(graph, one, other, weight_max=weight - 1) is None


@pytest.mark.slow
def test_near_the_heads_of_a_long_history_little_is_read():
    graph = Headers()
    trunk = graph.add()
    for _ in range(100_000):
        trunk = graph.add(trunk)
    ours = graph.add(graph.add(trunk))
    theirs = graph.add(trunk)
    merged = graph.add(ours, theirs)
    graph.reads = 0
    assert common_bases(graph, merged, theirs) == (theirs,)
    assert common_bases(graph, ours, theirs) == (trunk,)
    assert fork_of(graph, ours, theirs, weight_max=100).common == trunk
    assert fork_of(graph, theirs, graph.add(), weight_max=1_000) is None
    assert is_ancestor(graph, trunk, merged)
    assert not is_ancestor(graph, ours, theirs)
    assert graph.reads < 200


@pytest.mark.slow
def test_a_chain_of_a_hundred_thousand_is_walked_to_its_root():
    graph = Headers()
    root = head = graph.add()
    for _ in range(100_000):
        head = graph.add(head)
    assert is_ancestor(graph, root, head)
    assert sum(1 for _ in chain(graph, head)) == 100_001
