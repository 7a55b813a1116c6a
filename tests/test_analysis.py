"""How text is cut into terms, for the index and for questions."""

import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from periplus.base.text.search_terms import QUERY_TERMS_MAX, STOP_WORDS, expand, query_terms, terms
from periplus.memory.fulltext.index_rows import kind_token

pytestmark = pytest.mark.quick

TABLE = (
    "CREATE VIRTUAL TABLE t USING fts5(x, tokenize=\"porter unicode61 remove_diacritics 2 categories 'L* N* M* Co'\")"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hashPassword", "hashpassword hash password"),
        ("hash_password", "hashpassword hash password"),
        ("HASH_PASSWORD", "hashpassword hash password"),
        ("hash-password", "hashpassword hash password"),
        ("--dry-run", "dryrun dry run"),
        ("HTTPServer", "httpserver http server"),
        ("OAuth2Client", "oauth2client oauth auth 2 client"),
        ("URLs", "urls"),
        ("sha256", "sha256 sha 256"),
        ("__init__", "init"),
        ("847ff7d2", "847ff7d2"),
        ("src/auth/jwt_token.py", "src auth jwttoken jwt token py"),
        ("os.path.join", "os path join"),
        ("2026-03-01T09:30", "2026 march 1 t09 t 09 30"),
        ("2026/12/24", "2026 december 24"),
        ("2026-13-01", "2026 1"),
        ("日本語", "日本 本語"),
        ("日", "日"),
        ("ＡＢＣ", "abc"),
        ("e\u0301te\u0301", "été"),
        ("हिन्दी", "हिन्दी"),
        ("GrößeÄndern", "grösseändern grösse ändern"),
        ("don't", "don t"),
        ("_ - ' \x00 😀", ""),
    ],
)
def test_words_are_cut_as_the_table_says(text, expected):
    assert terms(text) == expected.split()


def test_the_index_holds_single_characters_of_unspaced_scripts_beside_their_pairs():
    assert expand("日本語") == "日本 本語 日 本 語"
    assert set(query_terms("本")) <= set(expand("日本語").split())
    assert set(query_terms("本語")) <= set(expand("日本語").split())


def test_a_name_too_long_to_be_one_word_gives_its_parts():
    name = "test_that_" * 20
    assert set(terms(name)) == {"test", "that"}
    assert terms("a" * 5_000) == ["a" * 64]


def test_a_question_loses_its_stop_words_and_its_repetitions():
    assert query_terms("How do we hash the passwords, the hash?") == ["hash", "passwords"]


def test_a_question_of_stop_words_only_keeps_them():
    assert query_terms("what is it about") == ["what", "is", "it", "about"]
    assert {"what", "about"} <= STOP_WORDS


def test_a_question_of_ten_thousand_words_is_cut():
    assert len(query_terms(" ".join(f"word{number}x" for number in range(10_000)))) == QUERY_TERMS_MAX


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.text(max_size=80))
def test_the_index_takes_every_term_as_one_token_and_finds_it(text):
    db = sqlite3.connect(":memory:")
    db.execute(TABLE)
    db.execute("INSERT INTO t VALUES (?)", (expand(text),))
    for term in query_terms(text):
        # A letter that SQLite's older Unicode tables do not know may be dropped; nothing is ever a syntax error.
        found = db.execute("SELECT 1 FROM t WHERE t MATCH ?", (f'"{term}"',)).fetchone()
        assert found or any(ord(character) > 0x2FF for character in term), term
    db.close()


@given(st.text(max_size=200))
def test_no_text_has_the_token_of_a_kind(text):
    assert not {kind_token("note"), kind_token("session")} & set(terms(f"{text} {kind_token('note')} \ue000session"))
