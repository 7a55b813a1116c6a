"""Words of a question found in texts: the quick search finds what cutting every text finds."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from periplus.base.text.search_terms import expand, query_terms, terms
from periplus.context.selection.lexical_index import LexicalTable, Question, stem

pytestmark = pytest.mark.quick

PIECES = st.sampled_from(
    ["hash", "Hash", "_", "-", "password", "Passwords", "2026-03-01", "2026/03/01", "2026.12.24", "march", "1", "24", " ",
     " ", "/", ".", "sha256", "OAuth", "URLs", "caching", "cache", "policies", "planned", "日本語", "日", "本", "ＡＢＣ", "abc",
     "é", "e\u0301", "Straße", "ΟΔΟΣ", "ﬁle", "x" * 70, "q" * 1_100, "847ff7d2", "हिन्दी", "🎉", "İ", "\u20d0"]
)  # fmt: skip
TEXTS = st.one_of(st.lists(PIECES, max_size=12).map("".join), st.text(max_size=40))


def plain_hits(question, text):
    found = {}
    cut = expand(text).split() if any(len(term) == 1 and not term.isascii() for term in question.terms) else terms(text)
    for root in map(stem, cut):
        if root in question.terms:
            number = question.terms.index(root)
            found[number] = found.get(number, 0) + 1
    return tuple(sorted(found.items()))


@pytest.mark.slow
@given(TEXTS, st.lists(TEXTS, max_size=6))
@settings(max_examples=600, deadline=None)
def test_the_quick_search_finds_what_cutting_every_text_finds(asked, texts):
    for variant in (asked, asked.replace("_", "").replace("-", ""), asked.upper()):
        question = Question(variant)
        for text in [*texts, asked]:
            hits = question.hits(text)
            assert (hits.counts if hits else ()) == plain_hits(question, text)


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ("hashPassword", "def hash_password(x)"),
        ("hash_password", "call hashPassword here"),
        ("hashpassword", "call hash_password here"),
        ("dryrun", "with --dry-run"),
        ("how do we hash passwords", "hashing a password"),
        ("caching", "the caches are warm"),
        ("policy", "all policies"),
        ("planning", "it was planned"),
        ("what happened in march", "released 2026-03-09"),
        ("jwt", "src/auth/jwt_token.py"),
        ("日本", "日本語の知識"),
        ("知", "日本語の知識"),
        ("ＡＢＣ", "abc"),
        ("URL", "the URLs"),
    ],
)
def test_forms_of_one_word_meet(asked, text):
    assert Question(asked).hits(text) is not None


@pytest.mark.parametrize(
    ("asked", "text"), [("hash", "cash"), ("cat", "concatenate"), ("知", "日本"), ("", "text"), ("???", "???")]
)
def test_what_only_holds_the_letters_is_no_hit(asked, text):
    assert Question(asked).hits(text) is None


def test_a_stem_is_a_beginning_of_its_word():
    for word in query_terms("hashing planned policies caches running falling uses used ties dies agreed classes"):
        assert word.startswith(stem(word))
        assert len(stem(word)) >= 3
    assert stem("falling") == "fall"
    assert stem("日本") == "日本"


def scores(question, texts):
    table = LexicalTable(Question(question))
    hits = [table.add(text) for text in texts]
    found = iter(table.scores())
    return [next(found) if hit else 0.0 for hit in hits]


def test_rare_words_weigh_more_and_long_texts_less():
    texts = ["cache cache", "cache bcrypt", "cache", "cache " + "filler " * 50, "other"]
    found = scores("bcrypt cache", texts)
    assert found[1] == 1.0
    assert found[0] > found[2] > found[3] > found[4] == 0.0
    assert scores("nothing", texts) == [0.0] * 5
    assert scores("x", []) == []


@given(st.lists(TEXTS, max_size=8), TEXTS, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_scores_do_not_depend_on_the_order_of_the_texts(texts, asked, chance):
    places = list(range(len(texts)))
    chance.shuffle(places)
    straight = scores(asked, texts)
    assert scores(asked, [texts[place] for place in places]) == [straight[place] for place in places]
    assert all(0 <= score <= 1 for score in straight)
