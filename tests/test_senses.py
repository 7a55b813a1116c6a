"""Words that mean about the same: the table, and what comes of a word."""

from __future__ import annotations

import pytest

from periplus.base.analysis import terms
from periplus.memory.senses import _SENSES, SENSE_MARK, senses_of


def test_every_line_is_a_sense_of_two_words_or_more_that_the_analysis_leaves_whole():
    lines = _SENSES.strip().splitlines()
    assert len(lines) > 200
    for line in lines:
        words = line.split()
        assert len(words) > 1, line
        assert line == line.lower(), line
        for word in words:
            assert word in terms(word) or "-" in word or "_" in word, word


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("delete", "removed"),
        ("deleting", "erase"),
        ("credentials", "password"),
        ("slow", "latency"),
        ("retries", "again"),
    ],
)
def test_words_that_mean_about_the_same_share_a_sense(one, other):
    assert {*senses_of([one])} & {*senses_of([other])}


def test_other_words_share_none_and_have_none():
    assert senses_of(["xyzzy", "the", ""]) == []
    assert not {*senses_of(["password"])} & {*senses_of(["invoice"])}
    assert senses_of(["password", "password"]) == senses_of(["password"])
    assert all(sense.startswith(SENSE_MARK) and terms(sense) != [sense] for sense in senses_of(["password"]))
