"""Exports of the code graph: the values, the neighbourhood of a node, escapes, and JSON."""

import json
import re
from collections import defaultdict
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from code_graphs import NAMES, SMALL, graphs, shuffled, symbol
from periplus.base.errors import UsageError
from periplus.code.exports import GRAPH_SCHEMA, Graph, GraphEdge, GraphFile, around, encode_json, node_id
from periplus.code.exports.node_index import NodeIndex
from periplus.code.exports.text_escapes import plain_text, unicode_text, xml_text

GOLDEN = Path(__file__).parent / "golden" / "code-graphs"


def test_a_node_is_called_as_anchors_call_it():
    assert node_id("a/b.py") == "a/b.py"
    assert node_id("a/b.py", "C.d") == "a/b.py:C.d"
    assert node_id("a/b.py", "C.d", 1) == "a/b.py:C.d#2"


# --- the index of nodes


def test_nodes_are_found_by_ids_with_colons_in_path_and_name():
    symbols = [
        symbol("a:b", "c:d", "class", 1, 1),
        symbol("a", "x#2", "class", 1, 1),
        symbol("a", "x", "class", 1, 1, ordinal=2),
    ]
    graph = Graph("", [GraphFile("a", ""), GraphFile("a:b", "")], symbols, [GraphEdge("calls", "a", "b:c", "named")])
    index = NodeIndex(graph)
    assert index.find("a:b") == graph.files[1]
    assert index.find("a:b:c:d") == symbols[0]
    assert index.find("a:x#2") == symbols[1]
    assert index.find("a:x#3") == symbols[2]
    assert index.find("a:x") is None
    assert index.find("b:c") is None
    assert index.outside == ["b:c"]


def test_a_name_of_colons_takes_no_square_time():
    name = ":" * 200_000
    graph = Graph("", [], [symbol("a", name, "class", 1, 1)], [GraphEdge("calls", f"b:{name}", f"a:{name}", "named")])
    index = NodeIndex(graph)
    assert index.find(f"a:{name}") == graph.symbols[0]
    assert index.outside == [f"b:{name}"]


@settings(max_examples=25)
@given(graphs())
def test_each_node_has_its_own_position(graph):
    index = NodeIndex(graph)
    ids = {file.path for file in graph.files} | {node_id(one.path, one.name, one.ordinal) for one in graph.symbols}
    ends = {end for edge in graph.edges for end in (edge.source, edge.target)}
    assert set(index.outside) == ends - ids
    assert sorted(index.position(one) for one in ids | ends) == list(range(len(index)))
    for file in graph.files:
        assert index.find(file.path) == file
        assert sorted(index.symbols_in(file.path)) == sorted(one for one in graph.symbols if one.path == file.path)
    for one in graph.symbols:
        assert index.find(node_id(one.path, one.name, one.ordinal)) == one
        assert index.symbol(one.path, one.name, one.ordinal) == one


@pytest.mark.parametrize(
    "graph",
    [
        Graph("", [GraphFile("a", "go"), GraphFile("a", "rust")], [], []),
        Graph("", [], [symbol("a", "f", "function", 1, 2), symbol("a", "f", "method", 5, 6)], []),
    ],
)
def test_two_nodes_of_one_identity_are_refused(graph):
    with pytest.raises(UsageError, match="of the graph are called a"):
        list(encode_json(graph))


# --- escapes


def original(text):
    """The text that an escape stands for."""

    def one(found):
        half = "\\" * (len(found[1]) // 2)
        return half + (chr(int(found[2], 16)) if len(found[1]) % 2 else "u" + (found[2] or ""))

    return re.sub(r"(\\+)u([0-9a-f]{4})?", one, text)


@given(st.lists(st.sampled_from(["\\", "\\\\", "u", "u0041", "\ud800", "\x01", "\n", "x"]) | NAMES).map("".join))
def test_an_escape_leads_back_to_its_text(text):
    for escape in (unicode_text, xml_text, plain_text):
        assert original(escape(text)) == text
    unicode_text(text).encode()
    assert re.fullmatch(r"[^\x00-\x1f\x7f-\x9f]*", plain_text(text))


def test_long_runs_of_backslashes_take_no_square_time():
    text = "\\" * 200_000
    assert plain_text(text) == text
    assert len(plain_text(text + "u")) == 400_001


def test_what_needs_no_escape_stays():
    assert unicode_text("App\\Models\\Cart") == "App\\Models\\Cart"
    assert xml_text("é\n𝒳\t") == "é\n𝒳\t"


# --- JSON


def document(graph):
    return json.loads(b"".join(encode_json(graph)))


def test_the_golden_document_is_what_is_written():
    assert b"".join(encode_json(SMALL)) == (GOLDEN / "small.json").read_bytes()


@settings(max_examples=25)
@given(st.data())
def test_a_graph_in_another_order_has_the_same_document(data):
    graph = data.draw(graphs())
    assert b"".join(encode_json(graph)) == b"".join(encode_json(shuffled(data.draw, graph)))


@settings(max_examples=25)
@given(graphs())
def test_the_document_has_what_the_graph_has(graph):
    found = document(graph)
    jsonschema.validate(found, GRAPH_SCHEMA)
    assert {original(one["path"]): one["language"] for one in found["files"]} == {
        one.path: one.language for one in graph.files
    }
    symbols = {(original(one["path"]), original(one["name"]), one["ordinal"]): one for one in found["symbols"]}
    assert len(symbols) == len(graph.symbols)
    for one in graph.symbols:
        written = symbols[one.path, one.name, one.ordinal]
        assert original(written["id"]) == node_id(one.path, one.name, one.ordinal)
        assert (written["kind"], written["start_line"], written["end_line"]) == (one.kind, one.start_line, one.end_line)
        assert (original(written["doc"]), original(written["signature"])) == (one.doc, one.signature)
        assert written["exported"] is one.exported
    edges = [(one["kind"], original(one["source"]), original(one["target"]), one["grade"], tuple(one["lines"]), one["external"])
             for one in found["edges"]]  # fmt: skip
    assert sorted(edges) == sorted(one[:6] for one in graph.edges)


def test_the_schema_is_one_and_refuses_other_documents():
    jsonschema.Draft202012Validator.check_schema(GRAPH_SCHEMA)
    good = document(SMALL)
    for path, value in [
        (("version",), 2),
        (("files", 0, "path"), 1),
        (("edges", 0, "grade"), "sure"),
        (("symbols", 0, "start_line"), 0),
    ]:
        broken = json.loads(json.dumps(good))
        at = broken
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = value
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, GRAPH_SCHEMA)


def test_an_empty_graph_is_a_document():
    assert document(Graph("", [], [], [])) == {
        "format": "periplus-code-graph", "version": 1, "root": "", "files": [], "symbols": [], "edges": []
    }  # fmt: skip


# --- neighbourhood


def provider(edges):
    by_node = defaultdict(list)
    for edge in edges:
        by_node[edge.source].append(edge)
        if edge.target != edge.source:
            by_node[edge.target].append(edge)
    return lambda node: by_node[node]


def test_depth_zero_is_the_node_itself():
    assert around(provider(SMALL.edges), "src/cart.py:total", 0) == (("src/cart.py:total",), (), False)


def test_the_nearest_come_first_in_both_directions():
    found = around(provider(SMALL.edges), "src/cart.py:total", 1)
    assert found.nodes == (
        "src/cart.py:total",
        "src/cart.py:RATE", "src/price.py:Price.plus", "src/price.py:Price.plus#2", "tests/test_cart.py:test_total",
    )  # fmt: skip
    assert found.edges == tuple(
        sorted(edge for edge in SMALL.edges if "src/cart.py:total" in (edge.source, edge.target))
    )


def test_an_external_node_leads_nowhere():
    edges = [GraphEdge("imports", f"{n}.py", "requests", "proven", external=True) for n in range(5)]
    assert around(provider(edges), "0.py", 3).nodes == ("0.py", "requests")


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30, unique=True), st.integers(0, 4))
def test_the_walk_equals_distances_by_definition(pairs, depth):
    edges = [GraphEdge("calls", str(a), str(b), "proven") for a, b in pairs]
    within = {"0"}
    for _ in range(depth):
        within |= {b for edge in edges for a, b in [edge[1:3], edge[2:0:-1]] if a in within}
    found = around(provider(edges), "0", depth)
    assert set(found.nodes) == within
    assert found.edges == tuple(sorted(edge for edge in edges if {edge.source, edge.target} <= within))
    assert not found.is_cut


def test_limits_cut_and_say_so():
    star = [GraphEdge("calls", f"{n:04}", "hub", "proven") for n in range(100)]
    found = around(provider(star), "hub", 2, nodes_max=11)
    assert found.nodes == ("hub", *(f"{n:04}" for n in range(10)))
    assert len(found.edges) == 10
    assert found.is_cut
    assert around(provider(star), "hub", 2, edges_max=7).is_cut
    assert not around(provider(star), "hub", 2, nodes_max=101, edges_max=100).is_cut


@pytest.mark.parametrize("depth", [-1, 17])
def test_a_depth_out_of_range_is_refused(depth):
    with pytest.raises(UsageError, match="from 0 to 16"):
        around(provider([]), "a", depth)
