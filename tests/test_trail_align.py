"""Aligning: always correct, the shortest where that is cheap, and never endless."""

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from periplus.trail.listings.sequence_alignment import align

few = st.lists(st.integers(0, 4), max_size=14)
many = st.lists(st.integers(0, 60), max_size=60)


def check(first, second, found):
    at = (0, 0)
    for a, b, length in found:
        assert length > 0
        assert a >= at[0]
        assert b >= at[1]
        assert at == (0, 0) or (a, b) != at, "two stretches meet"
        assert first[a : a + length] == second[b : b + length]
        at = (a + length, b + length)
    assert at[0] <= len(first)
    assert at[1] <= len(second)


def longest(first, second):
    """Length of the longest common subsequence, by the table."""
    row = [0] * (len(second) + 1)
    for one in first:
        corner = 0
        for place, other in enumerate(second, 1):
            corner, row[place] = row[place], corner + 1 if one == other else max(row[place], row[place - 1])
    return row[-1]


@pytest.mark.slow
@given(st.one_of(st.tuples(few, few), st.tuples(many, many)))
@settings(max_examples=400, deadline=None)
def test_what_is_common_is_common(pair):
    first, second = pair
    found = align(first, second)
    check(first, second, found)
    assert (sum(one.length for one in found) == len(first) == len(second)) == (first == second)


@given(st.lists(st.sampled_from([1, 1, 2, 2]), max_size=12), st.lists(st.sampled_from([1, 1, 2, 2]), max_size=12))
@settings(max_examples=300, deadline=None)
def test_where_nothing_is_unique_the_edit_is_the_shortest(first, second):
    first, second = [1, 2, 1, 2, *first], [2, 1, 2, 1, *second]
    found = align(first, second)
    check(first, second, found)
    assert sum(one.length for one in found) <= longest(first, second)


@given(many, st.integers(0, 60), st.lists(st.integers(100, 200), min_size=1, max_size=5))
@settings(max_examples=200, deadline=None)
def test_what_was_put_in_is_found(sequence, at, new):
    place = min(at, len(sequence))
    found = align(sequence, [*sequence[:place], *new, *sequence[place:]])
    assert sum(one.length for one in found) == len(sequence)


@pytest.mark.parametrize("kind", ["nothing in common", "two keys", "reversed", "shuffled", "nearly the same", "nested"])
def test_long_sequences_take_bounded_time(kind):
    rng = random.Random(7)
    size = 40_000
    first = list(range(size))
    second = {
        "nothing in common": lambda: list(range(size, 2 * size)),
        "two keys": lambda: [rng.randrange(2) for _ in range(size)],
        "reversed": lambda: first[::-1],
        "shuffled": lambda: rng.sample(first, size),
        "nearly the same": lambda: [key if key % 100 else -key for key in first],
        "nested": lambda: [key ^ 1 for key in first],
    }[kind]()
    if kind == "two keys":
        first = [rng.randrange(2) for _ in range(size)]
    begun = time.process_time()
    found = align(first, second)
    assert time.process_time() - begun < 60
    check(first, second, found)
    if kind == "nearly the same":
        assert sum(one.length for one in found) == size - size // 100 + 1  # all but each hundredth, and -0 is 0
