"""Exports of the code graph as SCIP, decoded by the protobuf library, its symbols read by their grammar."""

import re
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from code_graphs import SMALL, graphs, shuffled, symbol
from periplus.base.errors import UsageError
from periplus.code.exports import Graph, GraphEdge, GraphFile, GraphPlace, encode_scip, node_id
from periplus.code.exports.text_escapes import unicode_text

pytest.importorskip("google.protobuf", reason="needs the protobuf library")
from scip_messages import Index

GOLDEN = Path(__file__).parent / "golden" / "code-graphs"
DEFINITION, IMPORT, TEST = 1, 2, 0x20

_NAME = r"(?:[\w+$-]+|`(?:[^`]|``)+`)"
_PACKAGE = r"(?:[^ ]|  )+ "
_DESCRIPTOR = rf"(?:{_NAME}(?:[/#.:!]|\([\w+$-]*\)\.))"
_SYMBOL = re.compile(rf"{_PACKAGE}{_PACKAGE}{_PACKAGE}{_PACKAGE}(?P<descriptors>{_DESCRIPTOR}+)", re.ASCII)


def encoded(graph, **more):
    return b"".join(encode_scip(graph, project_root="file:///home/user/shop", version="2.0", **more))


def decoded(graph, **more):
    data = encoded(graph, **more)
    index = Index.FromString(data)
    assert index.SerializeToString(deterministic=True) == data  # nothing that the library does not know, and its form
    return index


def descriptors(text):
    """The names and suffixes of a symbol of SCIP."""
    found = _SYMBOL.fullmatch(text)
    assert found, text
    parts = re.findall(rf"({_NAME})([/#.:!]|\([\w+$-]*\)\.)", found["descriptors"], re.ASCII)
    assert "".join(map("".join, parts)) == found["descriptors"]
    return [(name[1:-1].replace("``", "`") if name[0] == "`" else name, suffix) for name, suffix in parts]


def document(index, path):
    return next(one for one in index.documents if one.relative_path == path)


def test_the_golden_index_is_what_is_written():
    assert encoded(SMALL) == (GOLDEN / "small.scip").read_bytes()


def test_metadata_name_the_tool_and_the_root():
    metadata = decoded(SMALL).metadata
    assert (metadata.tool_info.name, metadata.tool_info.version) == ("periplus", "2.0")
    assert (metadata.project_root, metadata.text_document_encoding) == ("file:///home/user/shop", 1)


def test_documents_have_definitions_with_what_is_known_of_them():
    index = decoded(SMALL)
    assert [one.relative_path for one in index.documents] == ["src/cart.py", "src/price.py", "tests/test_cart.py"]
    assert {(one.language, one.position_encoding) for one in index.documents} == {("Python", 1)}
    price = document(index, "src/price.py")
    here = "periplus . shop . src/`price.py`/"
    assert [(one.symbol, one.display_name, one.kind) for one in price.symbols] == [
        (here, "price.py", 16),
        (f"{here}Net#", "Net", 7),
        (f"{here}Price#", "Price", 7),
        (f"{here}Price#plus().", "plus", 26),
        (f"{here}Price#plus(+1).", "plus", 26),
    ]
    assert price.symbols[2].documentation == ["An amount of money."]
    signature = price.symbols[2].signature_documentation
    assert (signature.language, signature.text) == ("Python", "class Price:")
    assert [(one.symbol, one.is_implementation) for one in price.symbols[1].relationships] == [(f"{here}Price#", True)]
    places = {
        one.symbol: (list(one.range), list(one.enclosing_range))
        for one in price.occurrences
        if one.symbol_roles == DEFINITION
    }
    assert places == {
        here: ([0, 0, 0], []),
        f"{here}Net#": ([10, 6, 9], [10, 0, 12, 0]),
        f"{here}Price#": ([0, 6, 11], [0, 0, 5, 20]),
        f"{here}Price#plus().": ([2, 8, 12], [2, 4, 5, 20]),
        f"{here}Price#plus(+1).": ([7, 0, 0], [7, 0, 9, 0]),
    }
    test = document(index, "tests/test_cart.py")
    assert [one.symbol_roles for one in test.occurrences if one.symbol.endswith("test_total().")] == [DEFINITION | TEST]


def test_edges_are_occurrences_in_the_file_of_their_source():
    index = decoded(SMALL)
    found = [(list(one.range), one.symbol, one.symbol_roles) for one in document(index, "src/cart.py").occurrences]
    assert [one for one in found if not one[2] & DEFINITION] == [
        ([0, 0, 0], "periplus . shop . src/`price.py`/", IMPORT),
        ([0, 0, 0], "periplus external requests . requests/", IMPORT),
        ([5, 12, 16], "periplus . shop . src/`price.py`/Price#plus().", 0),
        ([6, 12, 16], "periplus . shop . src/`price.py`/Price#plus().", 0),
        ([7, 11, 15], "periplus . shop . src/`cart.py`/RATE.", 0),
    ]
    assert [(one.symbol, one.display_name, one.kind) for one in index.external_symbols] == [
        ("periplus external requests . requests/", "requests", 35)
    ]
    assert TEST in [one.symbol_roles for one in document(index, "tests/test_cart.py").occurrences]


def test_named_edges_are_left_out_unless_asked_for():
    wanted = "periplus . shop . src/`price.py`/Price#plus(+1)."

    def seen(**more):
        return [one.symbol for one in document(decoded(SMALL, **more), "src/cart.py").occurrences]

    assert wanted not in seen()
    assert wanted in seen(grades=["named"])


@pytest.mark.parametrize(
    ("name", "kind", "ordinal", "end"),
    [
        ("f", "function", 0, "f()."),
        ("C.f", "method", 2, "C#f(+2)."),
        ("m.C", "class", 0, "m/C#"),
        ("m.C", "class", 1, "m/`C#2`#"),
        ("m", "module", 0, "m/"),
        ("say!", "macro", 0, "`say!`!"),
        ("C.size", "field", 0, "C#size."),
        ("`a`", "value", 0, "```a```."),
        ("a..b", "value", 0, "a#`\\u`#b."),
        ("a b", "route", 0, "`a b`."),
        ("é", "type", 0, "`é`#"),
        ("\udcff", "type", 0, "`\\udcff`#"),
        ("+a-$_9", "type", 0, "+a-$_9#"),
    ],
)
def test_descriptors_follow_the_kinds(name, kind, ordinal, end):
    around = [symbol("a", "C", "class", 1, 2), symbol("a", "m", "module", 1, 2)]
    own = symbol("a", name, kind, 1, 2, ordinal=ordinal)
    graph = Graph("r", [GraphFile("a", "go")], [*(one for one in around if one.name != name), own], [])
    assert f"periplus . r . a/{end}" in [one.symbol for one in decoded(graph).documents[0].symbols]


@pytest.mark.parametrize(
    ("root", "own"),
    [("", "."), ("my shop", "my  shop"), (" shop", "\\u0020shop"), ("shop ", "shop  "), ("\ud800", "\\ud800")],
)
def test_the_root_is_the_package(root, own):
    (found,) = decoded(Graph(root, [GraphFile("a", "go")], [], [])).documents[0].symbols
    assert found.symbol == f"periplus . {own} . a/"


def test_a_symbol_without_its_file_still_has_a_document():
    graph = Graph(
        "", [], [symbol("b.go", "f", "function", 1, 2)], [GraphEdge("calls", "b.go:f", "c.go:g", "proven", (1,))]
    )
    index = decoded(graph)
    assert [one.relative_path for one in index.documents] == ["b.go"]
    assert [one.symbol for one in index.external_symbols] == ["periplus external c.go:g . `c.go:g`/"]


def test_a_name_outside_of_its_lines_has_no_enclosing_range():
    graph = Graph("", [], [symbol("a", "f", "function", 5, 6, place=GraphPlace(4, 0, 1))], [])
    assert [list(one.enclosing_range) for one in decoded(graph).documents[0].occurrences] == [[], []]


def test_two_nodes_of_one_identity_are_refused():
    with pytest.raises(UsageError, match="two files of the graph are called a"):
        encoded(Graph("", [GraphFile("a", "go"), GraphFile("a", "rust")], [], []))


def is_tree(graph):
    """No file is a folder too, by its path or by the name of a module."""
    files = {file.path for file in graph.files}
    modules = {f"{one.path}/{one.name.replace('.', '/')}" for one in graph.symbols if one.kind == "module"}
    return not any(
        other.startswith(f"{path}/")
        for path in files
        for other in files | modules
        if other.split("/")[0] and other in files
    )


@settings(max_examples=60)
@given(graphs())
def test_an_index_is_whole_whatever_the_names_are(graph):
    assume(is_tree(graph))
    index = decoded(graph)
    known = [one.symbol for one in index.external_symbols]
    for file in index.documents:
        known += [one.symbol for one in file.symbols]
    assert len(set(known)) == len(known) == len(graph.files) + len(graph.symbols) + len(index.external_symbols)
    for text in known:
        descriptors(text)
    for file in index.documents:
        places = [(tuple(one.range), one.symbol, one.symbol_roles) for one in file.occurrences]
        assert len(set(places)) == len(places)
        assert {one[1] for one in places} <= set(known)
        assert {one[1] for one in places if one[2] & DEFINITION} == {one.symbol for one in file.symbols}
        assert {base.symbol for one in file.symbols for base in one.relationships} <= set(known)
    ids = {file.path for file in graph.files} | {node_id(one.path, one.name, one.ordinal) for one in graph.symbols}
    outside = {edge.target for edge in graph.edges if edge.source in ids and edge.grade != "named"} - ids
    assert {one.display_name for one in index.external_symbols} == {unicode_text(one) for one in outside}
    edges = {
        place
        for edge in graph.edges
        for place in edge.places or edge.lines
        if edge.source in ids and edge.grade != "named"
    }
    references = [one for file in index.documents for one in file.occurrences if not one.symbol_roles & DEFINITION]
    assert bool(edges) == bool(references)


@settings(max_examples=25)
@given(st.data())
def test_a_graph_in_another_order_has_the_same_index(data):
    graph = data.draw(graphs())
    assert encoded(graph) == encoded(shuffled(data.draw, graph))
