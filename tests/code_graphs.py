"""Graphs for the tests of exports: a small one of real shape, and hostile ones."""

from hypothesis import strategies as st

from periplus.code.exports import Graph, GraphEdge, GraphFile, GraphPlace, GraphSymbol, node_id

KINDS = [
    "function",
    "method",
    "class",
    "interface",
    "type",
    "enum",
    "field",
    "value",
    "module",
    "route",
    "test",
    "macro",
    "?",
]


def symbol(path, name, kind, start, end, **more):
    given = {"signature": "", "doc": "", "exported": not name.startswith("_"), **more}
    return GraphSymbol(path, name, kind, start, end, **given)


SMALL = Graph(
    "shop",
    (
        GraphFile("src/cart.py", "python"),
        GraphFile("src/price.py", "python"),
        GraphFile("tests/test_cart.py", "python"),
    ),
    (
        symbol("src/price.py", "Price", "class", 1, 6, signature="class Price:", doc="An amount of money.",
               place=GraphPlace(1, 6, 11), end_column=20),
        symbol("src/price.py", "Price.plus", "method", 3, 6, signature='def plus(self, other: "Price") -> "Price":',
               place=GraphPlace(3, 8, 12), start_column=4, end_column=20),
        symbol("src/price.py", "Price.plus", "method", 8, 9, ordinal=1),
        symbol("src/price.py", "Net", "class", 11, 12, signature="class Net(Price):", place=GraphPlace(11, 6, 9)),
        symbol("src/cart.py", "total", "function", 4, 9, signature="def total(prices):", doc="Sum & round <all> of them."),
        symbol("src/cart.py", "RATE", "value", 2, 2, signature="RATE = 0.19"),
        symbol("tests/test_cart.py", "test_total", "test", 3, 5),
    ),
    (
        GraphEdge("imports", "src/cart.py", "src/price.py", "proven", (1,)),
        GraphEdge("imports", "src/cart.py", "requests", "proven", (1,), external=True),
        GraphEdge("calls", "src/cart.py:total", "src/price.py:Price.plus", "likely", (6, 7),
                  places=(GraphPlace(6, 12, 16), GraphPlace(7, 12, 16))),
        GraphEdge("references", "src/cart.py:total", "src/cart.py:RATE", "proven", (8,), places=(GraphPlace(8, 11, 15),)),
        GraphEdge("calls", "src/cart.py:total", "src/price.py:Price.plus#2", "named", (6,)),
        GraphEdge("extends", "src/price.py:Net", "src/price.py:Price", "proven", (11,), places=(GraphPlace(11, 10, 15),)),
        GraphEdge("tests", "tests/test_cart.py:test_total", "src/cart.py:total", "proven", (4,)),
    ),
)  # fmt: skip

_NASTY = st.sampled_from(
    ['"', "\\", "\\u0041", "`", "``", "\n", "\r\n", "\t", "\x00", "\x1b", "\x7f", "\x85", "\ud800", "\udcff", "\ufffe", "\u2028",
     "#", "#2", ":", ".", "..", "/", "//", "<b>", "&amp;", "&#10;", "]]>", "%%", "-->", "end", "|", "{", "}", "[", "(", ")", " ", "é",
     "𝒳", "$", "+", "u", "\\l", "\\N"]
)  # fmt: skip
PIECES = _NASTY | st.text(st.characters(exclude_categories=()), max_size=4) | st.text("abXY_1", min_size=1, max_size=3)
NAMES = st.lists(PIECES, min_size=1, max_size=6).map("".join).filter(bool)
TEXTS = st.lists(PIECES, max_size=4).map("".join)
LINES = st.integers(1, 50)
PLACES = st.builds(lambda line, column, width: GraphPlace(line, column, column + width), LINES, LINES, LINES)


def _id(identity):
    return node_id(*identity)


@st.composite
def graphs(draw):
    """Graphs with any names whose ids are distinct."""
    paths = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    identities = draw(st.lists(st.tuples(st.sampled_from(paths), NAMES, st.integers(0, 2)), max_size=6, unique_by=_id))
    identities = [one for one in identities if node_id(*one) not in paths]
    symbols = [
        symbol(path, name, draw(st.sampled_from(KINDS)), start, start + draw(st.integers(0, 3)), ordinal=ordinal,
               signature=draw(TEXTS), doc=draw(TEXTS), place=draw(st.just(GraphPlace(0)) | PLACES))
        for path, name, ordinal in identities
        for start in [draw(LINES)]
    ]  # fmt: skip
    ids = [*paths, *(node_id(*one) for one in identities)]
    edges = draw(
        st.lists(
            st.builds(
                GraphEdge,
                st.sampled_from(["imports", "references", "calls", "extends", "tests"]),
                st.sampled_from(ids),
                st.sampled_from(ids) | NAMES,
                st.sampled_from(["proven", "likely", "named"]),
                st.lists(LINES, max_size=2).map(tuple),
                st.booleans(),
                st.lists(PLACES, max_size=2).map(tuple),
            ),
            max_size=8,
        )
    )
    return Graph(draw(TEXTS), [GraphFile(path, "python") for path in paths], symbols, edges)


def shuffled(draw, graph):
    """The same graph in another order."""
    return graph._replace(
        files=draw(st.permutations(graph.files)),
        symbols=draw(st.permutations(graph.symbols)),
        edges=draw(st.permutations(graph.edges)),
    )
