"""Exports of the code graph that draw it: DOT read by Graphviz, Mermaid, and GraphML read by an XML parser."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from code_graphs import NAMES, SMALL, graphs, shuffled, symbol
from periplus.base.errors import UsageError
from periplus.code.exports import (
    MERMAID_CHARACTERS_MAX,
    MERMAID_EDGES_MAX,
    Graph,
    GraphEdge,
    GraphFile,
    encode_dot,
    encode_graphml,
    encode_mermaid,
    node_id,
)
from periplus.code.exports.node_index import NodeIndex
from periplus.code.exports.text_escapes import plain_text, xml_text

GOLDEN = Path(__file__).parent / "golden" / "code-graphs"
DOT = shutil.which("dot")
needs_graphviz = pytest.mark.skipif(DOT is None, reason="needs dot of Graphviz")
LONG = "x" * 100_000
HOSTILE = [
    '"',
    '\\"',
    "\\",
    'a\\"; b -> c; "',
    "a\nb",
    "a\r\n\tb",
    "\x00",
    "\udcff",
    "&lt;&#10;",
    "\\N\\G\\l",
    "<b>x</b>",
    LONG,
    "`**b**`",
    "#quot;",
    "é𝒳",
    "%3",
    "𝒳" * 9_000,
]


def text(encode, graph):
    return b"".join(encode(graph)).decode()


def hostile_graph():
    files = [GraphFile(name, "go") for name in HOSTILE]
    symbols = [symbol(name, name, "class", 1, 2, signature=name) for name in HOSTILE]
    edges = [GraphEdge("calls", name, node_id(name, name), "proven") for name in HOSTILE]
    return Graph(
        'my "root"\\', files, symbols, [*edges, GraphEdge("imports", '"', "out\nside", "named", external=True)]
    )


@pytest.mark.parametrize(
    ("encode", "name"), [(encode_dot, "small.dot"), (encode_mermaid, "small.mmd"), (encode_graphml, "small.graphml")]
)
def test_the_golden_drawing_is_what_is_written(encode, name):
    assert b"".join(encode(SMALL)) == (GOLDEN / name).read_bytes()


@settings(max_examples=25)
@given(st.data(), st.sampled_from([encode_dot, encode_mermaid, encode_graphml]))
def test_a_graph_in_another_order_is_drawn_the_same(data, encode):
    graph = data.draw(graphs())
    assert text(encode, graph) == text(encode, shuffled(data.draw, graph))


@pytest.mark.parametrize("encode", [encode_dot, encode_mermaid, encode_graphml])
def test_two_nodes_of_one_identity_are_refused(encode):
    with pytest.raises(UsageError, match="two files of the graph are called a"):
        text(encode, Graph("", [GraphFile("a", "go"), GraphFile("a", "rust")], [], []))


# --- DOT

_STRING = r'"(?:[^"\\\n]|\\["\\n])*"'


def dot_name(name):
    """Name of a node as Graphviz reports it: it keeps a pair of backslashes, and reads a quote without its own."""
    return re.sub("^%", r"\\u0025", plain_text(name)).replace("\\", "\\\\")


def read_by_graphviz(document):
    done = subprocess.run([DOT, "-Tdot_json"], input=document.encode(), capture_output=True, check=True, timeout=60)
    assert done.stderr == b""
    return json.loads(done.stdout, strict=False)


@needs_graphviz
def test_graphviz_reads_the_names_that_were_written():
    graph = hostile_graph()
    found = read_by_graphviz(text(encode_dot, graph))
    names = {node["_gvid"]: node["name"] for node in found["objects"]}
    wanted = {*HOSTILE, *(node_id(name, name) for name in HOSTILE), "out\nside"}
    assert set(names.values()) == {dot_name(name) for name in wanted}
    edges = sorted((names[edge["tail"]], names[edge["head"]], edge["label"], edge["style"]) for edge in found["edges"])
    styles = {"proven": "solid", "named": "dotted"}
    assert edges == sorted(
        (dot_name(one.source), dot_name(one.target), one.kind, styles[one.grade]) for one in graph.edges
    )


@needs_graphviz
@pytest.mark.slow
def test_graphviz_draws_hostile_labels_as_they_are():
    names = [name for name in HOSTILE if len(name) < 100]
    graph = Graph("r", [GraphFile(name, "go") for name in names], [], [])
    done = subprocess.run(
        [DOT, "-Tsvg"], input=text(encode_dot, graph).encode(), capture_output=True, check=True, timeout=60
    )
    drawn = {"".join(one.itertext()) for one in ET.fromstring(done.stdout).iter("{http://www.w3.org/2000/svg}text")}
    assert drawn == {plain_text(name) for name in names}


@needs_graphviz
@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(graphs())
def test_graphviz_reads_any_graph(graph):
    found = read_by_graphviz(text(encode_dot, graph))
    ids = {file.path for file in graph.files} | {node_id(one.path, one.name, one.ordinal) for one in graph.symbols}
    ids |= {end for edge in graph.edges for end in (edge.source, edge.target)}
    assert {node["name"] for node in found["objects"]} == {dot_name(one) for one in ids}
    assert len(found.get("edges", [])) == len(graph.edges)


@settings(max_examples=25)
@given(graphs())
def test_each_line_of_dot_is_one_statement(graph):
    attributes = rf"\[\w+=(?:\w+|{_STRING})(?:, \w+=(?:\w+|{_STRING}))*\]"
    first, *lines, last = text(encode_dot, graph).splitlines()
    assert re.fullmatch(rf"digraph {_STRING} \{{", first)
    assert last == "}"
    for line in lines:
        assert re.fullmatch(rf"  (?:(?:graph|node|{_STRING})|{_STRING} -> {_STRING}) {attributes};", line), line


# --- Mermaid

_LABEL = r'"(?:[\w ./:,=-]|[^\x00-\x9f]|#\d+;)*"'


@settings(max_examples=25)
@given(graphs())
def test_each_line_of_mermaid_is_one_statement_without_markup(graph):
    index = NodeIndex(graph)
    first, *lines = text(encode_mermaid, graph).split("\n")[:-1]
    assert first == "flowchart LR"
    nodes, edges = lines[: len(index)], lines[len(index) :]
    for at, line in enumerate(nodes):
        assert re.fullmatch(rf"  n{at}(?:\[{_LABEL}\]|\({_LABEL}\)|\[\[{_LABEL}\]\])", line), line
    wanted = [(index.position(one.source), one.kind, index.position(one.target)) for one in sorted(graph.edges)]
    found = [re.fullmatch(r"  n(\d+) (?:-->|-\.->|-\.-)\|(\w+)\| n(\d+)", line) for line in edges]
    assert [(int(one[1]), one[2], int(one[3])) for one in found] == wanted


@given(NAMES)
def test_a_label_of_mermaid_is_its_name(name):
    line = text(encode_mermaid, Graph("", [GraphFile(name, "")], [], [])).splitlines()[1]
    shown = re.sub(r"#(\d+);", lambda found: chr(int(found[1])), line[6:-2])
    assert shown == plain_text(name)


@pytest.mark.parametrize(
    "name", ["__init__.py", "_private", "1. one", "- one", "---", "    code", "fa:fa-user", "https://example.org"]
)
def test_a_label_of_mermaid_is_no_markdown(name):
    label = text(encode_mermaid, Graph("", [GraphFile(name, "")], [], [])).splitlines()[1][6:-2]
    assert label != name
    assert MarkdownIt("gfm-like", {"linkify": False}).render(label) == f"<p>{label}</p>\n"


def test_a_long_label_of_mermaid_keeps_its_ends():
    line = text(encode_mermaid, Graph("", [GraphFile(f"src/{LONG}.py", "")], [], [])).splitlines()[1]
    assert line == f'  n0["src/{"x" * 56}…{"x" * 57}.py"]'


def test_a_graph_that_mermaid_would_not_draw_is_refused_with_advice():
    files = [GraphFile("a", "go"), GraphFile("b", "go")]
    edges = [GraphEdge("calls", "a", "b", "proven", (line,)) for line in range(MERMAID_EDGES_MAX + 1)]
    text(encode_mermaid, Graph("", files, [], edges[1:]))
    with pytest.raises(UsageError, match="501 edges") as caught:
        encode_mermaid(Graph("", files, [], edges))
    assert "--around" in caught.value.mend
    many = [GraphFile(f"{n:0100}", "go") for n in range(MERMAID_CHARACTERS_MAX // 100)]
    with pytest.raises(UsageError, match="50,000 characters") as caught:
        encode_mermaid(Graph("", many, [], []))
    assert "--around" in caught.value.mend


# --- GraphML

_XMLNS = "{http://graphml.graphdrawing.org/xmlns}"


def data(element):
    return {one.get("key"): one.text or "" for one in element.findall(f"{_XMLNS}data")}


@settings(max_examples=25)
@given(graphs())
def test_graphml_has_what_the_graph_has(graph):
    found = ET.fromstring(b"".join(encode_graphml(graph)))
    drawn = found.find(f"{_XMLNS}graph")
    nodes = {one.get("id"): data(one) for one in drawn.findall(f"{_XMLNS}node")}
    keys = {one.get("id"): one.get("attr.type") for one in found.findall(f"{_XMLNS}key")}
    assert all(keys.keys() >= one.keys() for one in nodes.values())
    assert data(drawn) == {"root": xml_text(graph.root)}
    files = [(one["path"], one["language"]) for one in nodes.values() if one["node"] == "file"]
    assert sorted(files) == sorted((xml_text(one.path), one.language) for one in graph.files)
    fields = ("path", "name", "kind", "signature", "doc", "start_line", "end_line")
    symbols = [tuple(one[field] for field in fields) for one in nodes.values() if one["node"] == "symbol"]
    assert sorted(symbols) == sorted(
        tuple(xml_text(str(getattr(one, field))) for field in fields) for one in graph.symbols
    )
    edges = [
        (
            values["relation"],
            nodes[one.get("source")]["id"],
            nodes[one.get("target")]["id"],
            values["grade"],
            values["lines"],
        )
        for one in drawn.findall(f"{_XMLNS}edge")
        for values in [data(one)]
    ]
    wanted = [
        (one.kind, xml_text(one.source), xml_text(one.target), one.grade, " ".join(map(str, one.lines)))
        for one in graph.edges
    ]
    assert sorted(edges) == sorted(wanted)


def test_graphml_holds_hostile_names():
    found = ET.fromstring(b"".join(encode_graphml(hostile_graph())))
    ids = [one.text for one in found.iterfind(f".//{_XMLNS}node/{_XMLNS}data[@key='id']")]
    assert {xml_text(name) for name in HOSTILE} < set(ids)
    assert len(ids) == 2 * len(HOSTILE) + 1
