"""What travels between two stores: which contexts, in which order, and that nothing travels twice."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from periplus.base.errors import FormatError, NotFoundError
from periplus.context.model import Context, ContextHeader, depth_over
from periplus.context.remotes.local_peer import LocalPeer
from periplus.context.remotes.transfer import between, known_below
from periplus.context.stores.library import ContextLibrary
from periplus.context.stores.memory_store import MemoryObjects, MemoryStore
from periplus.context.stores.refs import MemoryRefs


def header_of(digest, base, merged, depth):
    return ContextHeader(digest, base, merged, depth, 0, 0, 0, 0, bytes(32), {})


@st.composite
def histories(draw):
    """Contexts, bases first, each over any that came before it."""
    rows = {}
    for place in range(draw(st.integers(1, 24))):
        names = list(rows)
        parents = draw(st.lists(st.sampled_from(names), max_size=3, unique=True)) if names else []
        digest = place.to_bytes(32, "big")
        depth = depth_over(rows[parent] for parent in parents)
        rows[digest] = header_of(digest, parents[0] if parents else None, tuple(parents[1:]), depth)
    return rows


def closure(rows, heads):
    found, left = set(), [head for head in heads if head in rows]
    while left:
        digest = left.pop()
        if digest not in found:
            found.add(digest)
            left += [parent for parent in (rows[digest].base, *rows[digest].merged) if parent is not None]
    return found


def header_in(rows):
    def header(digest):
        if digest not in rows:
            raise NotFoundError("no such context")
        return rows[digest]

    return header


@settings(deadline=None)
@given(histories(), st.data())
def test_between_is_what_the_head_stands_on_less_what_the_known_stand_on(rows, data):
    head = data.draw(st.sampled_from(list(rows)))
    known = data.draw(st.lists(st.sampled_from([*rows, b"\xff" * 32]), max_size=4))
    found = between(header_in(rows), head, known)
    assert set(found) == closure(rows, [head]) - closure(rows, known)
    assert len(set(found)) == len(found)
    places = {digest: place for place, digest in enumerate(found)}
    for digest in found:
        for parent in (rows[digest].base, *rows[digest].merged):
            assert parent is None or places.get(parent, -1) < places[digest]


def test_of_a_long_history_only_the_new_end_is_read():
    rows = {}
    for place in range(5_000):
        digest = place.to_bytes(32, "big")
        rows[digest] = header_of(digest, (place - 1).to_bytes(32, "big") if place else None, (), place)
    read = []

    def header(digest):
        read.append(digest)
        return rows[digest]

    new = between(header, (4_999).to_bytes(32, "big"), [(4_989).to_bytes(32, "big")])
    assert [int.from_bytes(digest, "big") for digest in new] == list(range(4_990, 5_000))
    assert len(read) < 20


@pytest.mark.slow
@settings(deadline=None)
@given(histories(), st.data())
def test_what_the_other_side_has_may_stand_on_what_is_not_here_any_more(rows, data):
    head = data.draw(st.sampled_from(list(rows)))
    here = {digest: rows[digest] for digest in closure(rows, [head])}
    beyond = len(rows).to_bytes(32, "big")  # stands on something that is gone, and perhaps on what is here
    parents = (b"\xfe" * 32, *data.draw(st.lists(st.sampled_from(list(here)), max_size=2, unique=True)))
    here[beyond] = header_of(beyond, parents[0], parents[1:], len(rows) + 1)
    found = between(header_in(here), head, [beyond])
    assert set(found) == closure(rows, [head]) - closure(rows, parents)
    with pytest.raises(NotFoundError):
        between(header_in(here), beyond, [])


class CountedObjects(MemoryObjects):
    """Objects of which it is counted how often they are read."""

    def __init__(self):
        super().__init__()
        self.read = 0

    def get(self, digest):
        self.read += 1
        return super().get(digest)


def test_a_long_history_above_a_hole_is_walked_once_a_question():
    source = MemoryStore()
    chain = [None]
    for number in range(300):
        chain.append(source.commit(Context(chain[-1], metadata={"n": number})))
    objects = CountedObjects()
    target = LocalPeer(ContextLibrary(objects, MemoryRefs()))
    target.keep(source.objects(chain[2:]))  # all but the first
    objects.read = 0
    assert target.lacking(chain[:0:-1]) == chain[:0:-1]
    assert objects.read < 3 * len(chain)
    target.keep(source.objects(chain[1:2]))
    assert target.lacking(chain[1:]) == []


def test_a_history_that_lies_about_its_depth_is_refused():
    one, two = (1).to_bytes(32, "big"), (2).to_bytes(32, "big")
    rows = {one: header_of(one, two, (), 3), two: header_of(two, one, (), 3)}
    with pytest.raises(FormatError, match="not deeper"):
        between(header_in(rows), one, [])


class Target:
    """Answers for a store that has the ``whole`` contexts."""

    def __init__(self, whole):
        self.whole, self.asked = whole, []

    def lacking(self, digests):
        self.asked.append(list(digests))
        return [digest for digest in digests if digest not in self.whole]


class Source:
    def __init__(self, rows):
        self.header = header_in(rows)


@pytest.mark.slow
@settings(deadline=None)
@given(histories(), st.data())
def test_what_the_target_has_is_found_and_only_what_is_below_the_head(rows, data):
    head = data.draw(st.sampled_from(list(rows)))
    whole = closure(rows, data.draw(st.lists(st.sampled_from(list(rows)), max_size=3)))
    target = Target(whole)
    known = known_below(Source(rows), target, head)
    assert set(between(header_in(rows), head, known)) == closure(rows, [head]) - whole
    asked = [digest for round_ in target.asked for digest in round_]
    assert len(asked) == len(set(asked))


def test_the_end_of_a_long_common_history_is_found_in_few_questions():
    rows = {}
    for place in range(20_000):
        digest = place.to_bytes(32, "big")
        rows[digest] = header_of(digest, (place - 1).to_bytes(32, "big") if place else None, (), place)
    target = Target({place.to_bytes(32, "big") for place in range(15_000)})
    assert known_below(Source(rows), target, (19_999).to_bytes(32, "big")) == [(14_999).to_bytes(32, "big")]
    assert len(target.asked) <= 10
