"""Search for symbols by meaning: documents, ranking, and the index over them."""

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from periplus.base.text.search_terms import word_root
from periplus.code.search.documents import REST_TERMS_MAX, SymbolText, document_of
from periplus.code.search.ranking import Evidence, Hit, asked_words, rank, rarity, reranked, rough_scores
from periplus.code.search.symbol_index import SCHEMA, add_documents, delete_document, search
from periplus.code.search.vocabulary import code_words

pytestmark = pytest.mark.quick

SYMBOLS = [
    SymbolText("to_int", "to_int", "function", "conv/numbers.py", "(value)", "Convert a value to an int.", "return int(value)"),
    SymbolText("rmtree", "rmtree", "function", "fs/tree.py", "(path)", "Delete a directory tree.", "os.rmdir(path)"),
    SymbolText("read_csv", "Loader.read_csv", "method", "data/loader.py", "(self, path)", "", "# Load the table from a file.\nopen(path)"),
    SymbolText("is_str", "is_str", "function", "conv/text.py", "(value)", "Tell if a value is a str.", "return isinstance(value, str)"),
    SymbolText("DataFrame", "DataFrame", "class", "data/frame.py", "", "Columns with names.", "class DataFrame: ..."),
]  # fmt: skip


def index_of(symbols=SYMBOLS):
    db = sqlite3.connect(":memory:", isolation_level=None)
    for statement in SCHEMA:
        db.execute(statement)
    add_documents(db, enumerate(map(document_of, symbols)))
    return db


def found(db, question, most=10, standing=None):
    return [SYMBOLS[hit.row].name for hit in search(db, question, most, standing)]


def test_a_document_marks_each_word_with_its_field():
    document = document_of(SymbolText("readFile", "Disk.readFile", "method", "src/io/disk.ts", "(path: string)",
                                      "Read a file. Throws when it is missing.", "const bytes = open(path)"))  # fmt: skip
    terms = document.split()
    assert terms[:3] == ["nreadfil", "nread", "nfil"]
    assert {"sread", "sa", "sfil"} <= set(terms)
    assert {"rdisk", "rsrc", "rio", "rpath", "rstr", "rthrow", "rmis", "rbyt", "ropen"} <= set(terms)
    assert "rread" not in terms  # it is in the name
    assert "rconst" not in terms  # a word of the language
    assert len(terms) == len(set(terms))


@pytest.mark.parametrize(
    ("source", "summary"),
    [
        ("def f():\n    # Count the words.\n    pass", "scount"),
        ("func f() {\n  // Count the words.\n}", "scount"),
        ("int f() {\n  /* Count the words. */\n}", "scount"),
        ("def f():\n    '''Count the words.'''", "scount"),
        ("-- Count the words.\nlocal f", "scount"),
    ],
)
def test_without_documentation_the_first_comment_is_the_summary(source, summary):
    assert summary in document_of(SymbolText("f", source=source)).split()


def test_a_document_is_bounded():
    words = " ".join(f"word{at}x" for at in range(50_000))
    terms = document_of(SymbolText("f" * 5_000, signature=words, doc=words, source=words)).split()
    assert len(terms) <= REST_TERMS_MAX + 100


def test_what_has_members_is_not_searched_by_their_bodies():
    source = "class A:\n" + "    x = 1\n" * 100 + "    def late(self): zebra()\n"
    assert "rzebra" in document_of(SymbolText("late", kind="method", source=source)).split()
    assert "rzebra" not in document_of(SymbolText("A", kind="class", source=source)).split()


@given(st.builds(SymbolText, st.text(max_size=30), st.text(max_size=30), st.just("function"), st.text(max_size=30),
                 st.text(max_size=60), st.text(max_size=90), st.text(max_size=90)))  # fmt: skip
def test_the_index_holds_exactly_the_terms_of_a_document(symbol):
    document = document_of(symbol)
    db = index_of([symbol])
    held = {term for (term,) in db.execute("SELECT term FROM symbol_vocabulary")}
    assert held == set(document.split())


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("how to convert a string to an integer in python", "to_int"),
        ("remove a folder recursively", "rmtree"),
        ("check if a variable is a string", "is_str"),
        ("load csv table", "read_csv"),
        ("data frame", "DataFrame"),
        ("dataframe", "DataFrame"),
        ("Loader", "read_csv"),
        ("delete a directry", "rmtree"),
    ],
)
def test_a_question_finds_the_symbol_that_answers_it(question, first):
    assert found(index_of(), question)[0] == first


@pytest.mark.parametrize(
    "question", ["", "   ", "?!", "zzzzzz qqqqqq", '"', "NEAR(a b)", "*", "日本語", "\0", "x " * 5_000]
)
def test_a_question_without_an_answer_has_none(question):
    assert found(index_of(), question) == []


def test_an_empty_index_answers_nothing():
    assert search(index_of([]), "read a file", 5) == []


def test_standing_leaves_out_symbols_and_puts_others_back():
    db = index_of()
    assert found(db, "value")[:2] in (["to_int", "is_str"], ["is_str", "to_int"])
    assert found(db, "value", standing=lambda rows: dict.fromkeys(rows, 1.0) | {0: 0.0}) == ["is_str"]
    assert found(db, "value", standing=lambda rows: dict.fromkeys(rows, 0.1) | {3: 1.0})[0] == "is_str"
    assert found(db, "value", standing=lambda rows: dict.fromkeys(rows, 0.1) | {0: 1.0})[0] == "to_int"
    assert found(db, "value", standing=lambda _: {}) == []


def test_many_rows_of_others_do_not_hide_those_that_stand():
    symbols = [SymbolText(f"load{at}", doc="Load a table.") for at in range(1_500)]
    db = index_of(symbols)
    hits = search(db, "load a table", 3, lambda rows: {row: 1.0 for row in rows if row >= 1_490})
    assert [hit.row for hit in hits] == [1_490, 1_491, 1_492]


def test_common_words_add_to_what_rare_words_find():
    """More symbols hold the common word than are read for it."""
    symbols = [SymbolText(f"f{at}", doc="Handle the thing." if at % 2 else "Draw the thing.") for at in range(10_400)]
    symbols[10_390] = SymbolText("g", doc="Handle the zebra and the thing.")
    symbols[10_395] = SymbolText("g", doc="Draw the zebra.")
    db = index_of(symbols)
    assert [hit.row for hit in search(db, "zebra thing", 2)] == [10_395, 10_390]
    assert [hit.row for hit in search(db, "handle zebra", 2)] == [10_390, 10_395]
    assert len(search(db, "handle thing", 5)) == 5


def test_a_deleted_document_is_not_found():
    db = index_of()
    delete_document(db, 1, document_of(SYMBOLS[1]))
    assert "rmtree" not in found(db, "delete a directory tree")
    add_documents(db, [(1, document_of(SYMBOLS[1]))])
    assert found(db, "delete a directory tree")[0] == "rmtree"


def test_asked_words_have_the_words_of_code():
    words = {one.root: one for one in asked_words("how to remove white space from a string in python")}
    assert "text" in words["str"].others  # the root of "string" is "str"
    assert "del" in words["remov"].others
    assert "whitespac" in words["whit"].others
    assert "whitespac" in words["spac"].others
    assert words["python"].weight < 1
    assert "how" not in words


def test_words_of_code_are_read_in_one_direction_and_never_name_themselves():
    assert "str" in {*code_words(word_root("text"))}
    for asked in ("string", "delete", "list", "integer", "dictionary"):
        root = word_root(asked)
        assert root not in code_words(root)
        assert len(set(code_words(root))) == len(code_words(root))


def test_ranking_adds_evidence_and_prefers_short_documents():
    found_words = [Evidence(2.0, {1: 3.0, 2: 3.0, 3: 0.8}), Evidence(1.0, {2: 2.0, 3: 3.0})]
    assert [hit.row for hit in rank(found_words, {1: 10, 2: 10, 3: 10}, 10.0)] == [2, 3, 1]
    assert [hit.row for hit in rank(found_words[:1], {1: 90, 2: 10}, 30.0)] == [2, 1]
    assert sorted(rough_scores(found_words)) == [1, 2, 3]
    assert rank([], {1: 1}, 0.0) == [Hit(1, 0.0)]


def test_a_rare_word_weighs_more():
    assert rarity(1, 1_000) > rarity(10, 1_000) > rarity(1_000, 1_000) > 0
    assert rarity(2_000, 1_000) > 0


def test_likeness_in_meaning_adds_up_to_the_score_of_the_best():
    hits = [Hit(5, 4.0), Hit(7, 3.0), Hit(9, 1.0)]
    assert reranked(hits, {}) == hits
    assert reranked(hits, {9: 1.0, 7: 0.25}) == [Hit(9, 5.0), Hit(5, 4.0), Hit(7, 4.0)]
    assert reranked([], {1: 1.0}) == []
