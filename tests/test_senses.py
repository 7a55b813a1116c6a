"""Words that mean about the same: the table, and what comes of a word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from periplus.base.text.search_terms import terms
from periplus.memory.text.synonyms import _SENSES, SENSE_MARK, synonym_groups


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
    assert {*synonym_groups([one])} & {*synonym_groups([other])}


def test_other_words_share_none_and_have_none():
    assert synonym_groups(["xyzzy", "the", ""]) == []
    assert not {*synonym_groups(["password"])} & {*synonym_groups(["invoice"])}
    assert synonym_groups(["password", "password"]) == synonym_groups(["password"])
    assert all(sense.startswith(SENSE_MARK) and terms(sense) != [sense] for sense in synonym_groups(["password"]))


@given(
    st.text(alphabet="abc deletingpasswordslow_-A1é字 .", max_size=60),
    st.text(alphabet="retry cache TTL-x", max_size=20),
)
def test_the_senses_of_a_document_are_those_of_its_terms(body, context):
    """Where the terms that the index took in serve again, and where they do not."""
    from periplus.base.text.search_terms import STOP_WORDS, expand
    from periplus.memory.fulltext.documents import Document
    from periplus.memory.fulltext.index_rows import _senses

    for times in (1, 60):
        document = Document("note", -1, "2026-01-01T00:00:00.000Z", "", body * times, (), context)
        said = terms(f"{document.body[:1000]} {document.context[:1000]}")
        expected = " ".join(synonym_groups(word for word in said if word not in STOP_WORDS))
        assert _senses("note", document, expand(document.body), expand(document.context)) == expected
        assert _senses("trail", document, expand(document.body), expand(document.context)) == ""
