"""Names as people type them, and the names of symbols that they match."""

import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from periplus.code.search.name_index import NAMES as NAME_TABLE
from periplus.code.search.name_index import SCHEMA, find_names, read_names
from periplus.code.search.name_match import (
    Grade,
    NameQuery,
    edits_allowed,
    edits_between,
    folded,
    match_name,
    name_parts,
    name_query,
    scope_distance,
)

pytestmark = pytest.mark.quick


def index_of(*names):
    db = sqlite3.connect(":memory:", isolation_level=None)
    for statement in (*NAME_TABLE, *SCHEMA):
        db.execute(statement)
    add_names(db, names)
    return db


def add_names(db, names):
    db.executemany(
        "INSERT OR IGNORE INTO name (text, folded, is_defined) VALUES (?, ?, 1)",
        [(name, folded(name)) for name in names],
    )
    read_names(db)


def found(db, query, most=20):
    return [one.name for one in find_names(db, query, most)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("parse", ("", (), "parse")),
        ("Parser.parse", ("", ("Parser",), "parse")),
        ("a::b::c", ("", ("a", "b"), "c")),
        ("A#b", ("", ("A",), "b")),
        ("(*Server).Close", ("", ("Server",), "Close")),
        ("App\\Models\\User::find", ("", ("App", "Models", "User"), "find")),
        ("obj->run()", ("", ("obj",), "run")),
        ("src/a.py:Parser.parse", ("src/a.py", ("Parser",), "parse")),
        ("./src/a.rs:a::b", ("src/a.rs", ("a",), "b")),
        ("#secret", ("", (), "secret")),
        ("", ("", (), "")),
        ("::", ("", (), "")),
    ],
)
def test_a_query_is_taken_apart(text, expected):
    assert name_query(text) == NameQuery(*expected)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("getUserName", "get user name"),
        ("get_user_name", "get user name"),
        ("HTTPServer2", "http server 2"),
        ("MAX_SIZE", "max size"),
        ("__init__", "init"),
        ("größeLesen", "grösse lesen"),
        ("_", ""),
    ],
)
def test_names_have_parts(name, parts):
    assert " ".join(name_parts(name)) == parts


@pytest.mark.parametrize(
    ("query", "name", "grade"),
    [
        ("getUser", "getUser", Grade.SAME),
        ("getuser", "getUser", Grade.SAME_FOLDED_CASE),
        ("get_user", "getUser", Grade.SAME_PARTS),
        ("get user", "getUser", Grade.SAME_PARTS),
        ("getU", "getUser", Grade.BEGINNING),
        ("getu", "getUser", Grade.BEGINNING_FOLDED),
        ("userName", "get_user_name", Grade.PARTS),
        ("name", "get_user_name", Grade.PARTS),
        ("getUsrNm", "get_user_name", Grade.ABBREVIATED),
        ("usre", "user", Grade.ONE_EDIT),
        ("connectoin_pool", "ConnectionPool", Grade.ONE_EDIT),
        ("connectoin_pol", "ConnectionPool", Grade.TWO_EDITS),
        ("nameUser", "get_user_name", None),
        ("usr", "use", None),
        ("settle", "listen", None),
    ],
)
def test_a_name_matches_at_a_grade(query, name, grade):
    match = match_name(query, name)
    assert (match and match.grade) == grade


@pytest.mark.parametrize(
    ("query", "distance"),
    [
        ("parse", 0),
        ("Parser.parse", 0),
        ("Parser::parse", 0),
        ("parser.parse", 1),
        ("yaml.Parser.parse", 0),
        ("tools.Parser.parse", 2),
        ("yaml.parse", 2),
        ("tools/yaml.py:parse", 0),
        ("yaml.py:Parser.parse", 0),
        ("aml.py:parse", None),
        ("Writer.parse", None),
        ("Parser.yaml.parse", None),
    ],
)
def test_what_a_name_stands_in_is_compared_from_the_inside_out(query, distance):
    assert scope_distance(name_query(query), "Parser.parse", "src/tools/yaml.py") == distance


def test_a_file_that_stands_for_its_folder_is_named_by_it():
    assert scope_distance(name_query("tools.run"), "run", "src/tools/__init__.py") == 0


def plain_edits(left, right):
    """Optimal string alignment by its definition."""
    rows = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for at in range(len(left) + 1):
        for place in range(len(right) + 1):
            if not at or not place:
                rows[at][place] = at + place
                continue
            same = left[at - 1] == right[place - 1]
            least = min(rows[at - 1][place] + 1, rows[at][place - 1] + 1, rows[at - 1][place - 1] + (not same))
            if at > 1 and place > 1 and left[at - 1] == right[place - 2] and left[at - 2] == right[place - 1]:
                least = min(least, rows[at - 2][place - 2] + 1)
            rows[at][place] = least
    return rows[-1][-1]


@given(st.text("abc", max_size=9), st.text("abc", max_size=9), st.integers(0, 3))
def test_edits_are_counted_up_to_a_limit(left, right, most):
    assert edits_between(left, right, most) == min(plain_edits(left, right), most + 1)


NAMES = st.text("abcdeXY_1", min_size=1, max_size=14)


@settings(max_examples=60, deadline=None)
@given(st.lists(NAMES, min_size=1, max_size=12), NAMES)
def test_the_index_finds_what_matches_and_nothing_else(names, query):
    db = index_of(*names)
    matches = {name: match_name(query, name) for name in names}
    graded = {name: match for name, match in matches.items() if match is not None}
    close = {name: match for name, match in graded.items() if match.grade <= Grade.ABBREVIATED}
    expected = sorted((match, name) for name, match in (close or graded).items())
    assert [tuple(one) for one in find_names(db, query, 100)] == expected


def test_names_are_ordered_by_grade_and_then_by_length():
    db = index_of("parse_all", "Parse", "parse", "parser", "_parse", "reparse", "do_parse", "sparse")
    assert found(db, "parse") == ["parse", "Parse", "_parse", "parser", "parse_all", "do_parse"]
    assert found(db, "parse", 2) == ["parse", "Parse"]


def test_a_misspelled_name_is_found_where_no_other_matches():
    db = index_of("connection_pool", "ConnectionPools", "collection")
    assert found(db, "connectoin_pool") == ["connection_pool", "ConnectionPools"]
    assert found(db, "gteConnection") == []


def test_a_name_is_added_once():
    db = index_of("run", "Run", "run")
    add_names(db, ["Run", "run", "ran"])
    assert sorted(found(db, "run")) == ["Run", "run"]


@pytest.mark.parametrize("query", ['"', "*", "a AND b", "NEAR(", "日本", "x" * 10_000, "-", "'; --", "\0"])
def test_no_query_is_an_error(query):
    db = index_of("alpha", "日本語", "_", "$")
    for one in find_names(db, query, 5):
        assert one.name in {"alpha", "日本語", "_", "$"}


def test_a_name_of_marks_alone_is_found():
    assert found(index_of("_", "$", "__"), "_") == ["_", "__"]


@given(st.text(max_size=40))
def test_any_text_folds_and_is_taken_apart(text):
    assert edits_allowed(folded(text)) in (0, 1, 2)
    name_query(text)
    assert all(part == part.casefold() for part in name_parts(text))
