"""Names of Python resolved to their definitions, by grade, across small projects."""

from __future__ import annotations

import pytest

from periplus.code.extraction.parse import parse_source
from periplus.code.languages.python_types import named_type
from periplus.code.model import CALL, LIST
from periplus.code.resolution.resolver import Resolver
from periplus.code.resolution.sources import MemorySources

pytestmark = pytest.mark.quick

STORE = (
    "class Row:\n    size: int = 0\n    def save(self): pass\n    @property\n    def owner(self) -> 'Owner': ...\n"
    "class Owner:\n    def greet(self): pass\n    def __enter__(self): return self\n"
    "class Box:\n    def __enter__(self) -> Row: ...\n    def __getitem__(self, key) -> Row: ...\n    def __iter__(self) -> 'Iterator[Row]': ...\n"
    "def rows() -> list[Row]: ...\ndef by_name() -> dict[str, Row]: ...\ndef _hidden(): pass\n"
)


def answers(files: dict[str, str], path: str) -> dict[tuple[int, str], str]:
    """Return for each line and name of ``path`` where it leads and how sure that is."""
    facts = {}
    for name, text in files.items():
        parsed = parse_source(name, text.encode())
        assert parsed.facts is not None
        facts[name] = parsed.facts
    sources = MemorySources(facts)
    resolver = Resolver(sources)
    found = {}
    for reference in facts[path].references():
        target = facts[path].targets[reference.target]
        resolution = resolver.resolve(path, target)
        places = []
        for one in resolution.found:
            if one.symbol < 0:
                places.append(one.path)
            elif (file := sources.file(one.path)) is not None:
                places.append(f"{one.path}:{file.definitions[one.symbol].qualified}")
        told = " ".join(
            (*dict.fromkeys(places), resolution.grade or ("external" if resolution.is_external else "none"))
        )
        found[reference.line, facts[path].final_name(target)] = told
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f(a: Row):\n    a.save()", "s.py:Row.save likely"),
        ("def f(a: 'Row'):\n    a.save()", "s.py:Row.save likely"),
        ("def f(a: Optional[Row]):\n    a.save()", "s.py:Row.save likely"),
        ("def f(a: None | s.Row):\n    a.save()", "s.py:Row.save likely"),
        ("def f(a: 'Union[None, Row]' = None):\n    a.save()", "s.py:Row.save likely"),
        ("def f(*, a: type[Row]):\n    a().save()", "s.py:Row.save likely"),
        ("def f(xs: list[Row]):\n    for x in xs: x.save()", "s.py:Row.save likely"),
        ("def f(xs: 'Sequence[Row]'):\n    return [x.save() for x in xs]", "s.py:Row.save likely"),
        ("def f(xs: list[Row]):\n    xs[0].save()", "s.py:Row.save likely"),
        ("def f(xs: list[Row]):\n    xs.pop().save()", "s.py:Row.save likely"),
        ("def f(xs: dict[str, Row]):\n    xs['a'].save()", "s.py:Row.save likely"),
        ("def f(xs: dict[str, Row]):\n    for x in xs.values(): x.save()", "s.py:Row.save likely"),
        ("def f(xs: dict[str, Row]):\n    for x in xs: x.save()", "s.py:Row.save likely"),  # by its name alone
        ("for x in rows(): x.save()", "s.py:Row.save likely"),
        ("by_name().get(1).save()", "s.py:Row.save likely"),
        ("with Owner() as x: x.greet()", "s.py:Owner.greet likely"),
        ("with Box() as x: x.save()", "s.py:Row.save likely"),
        ("Box()[1].save()", "s.py:Row.save likely"),
        ("for x in Box(): x.save()", "s.py:Row.save likely"),
        ("def f(x: Row): x.owner.greet()", "s.py:Owner.greet likely"),
        ("def f(q):\n    if isinstance(q, Row): q.save()", "s.py:Row.save likely"),
        ("def f(q):\n    return isinstance(q, Row) and q.save()", "s.py:Row.save likely"),
        ("def f(q):\n    assert isinstance(q, Row)\n    q.save()", "s.py:Row.save likely"),
        ("if (x := Row()): x.save()", "s.py:Row.save likely"),
        ("x = None or Row()\nx.save()", "s.py:Row.save likely"),
        ("x = Row() if 1 else None\nx.save()", "s.py:Row.save likely"),
        ("match 1:\n    case Row() as x: x.save()", "s.py:Row.save likely"),
        ("try: pass\nexcept Row as x: x.save()", "s.py:Row.save likely"),
        ("f = functools.partial(rows)", "s.py:rows proven"),
        ("@rows\ndef f(): pass", "s.py:rows proven"),
        ("x = lambda a=rows: a", "s.py:rows proven"),
        ("def f():\n    global rows\n    rows()", "s.py:rows proven"),
    ],
    ids=lambda value: value[:50],
)  # fmt: skip
def test_the_class_of_a_value_is_known_where_the_code_tells_it(text, expected):
    # `save` and `greet` of other classes, so that the name alone decides nothing
    if "for x in xs: x.save()" in text and "dict" in text:
        others = ""
    else:
        others = "class Other:\n    def save(self): pass\n    def greet(self): pass\n"
    files = {"s.py": STORE, "o.py": others, "a.py": f"import s\nfrom s import Box, Owner, Row, by_name, rows\n{text}\n"}
    found = {name: told for (line, name), told in answers(files, "a.py").items() if line > 2}
    assert found[expected.partition(" ")[0].rpartition(":")[2].rpartition(".")[2]] == expected


@pytest.mark.parametrize(
    ("files", "line", "name", "expected"),
    [
        ({"p/__init__.py": "__all__ = ['a']\n__all__ += ['_b']\ndef a(): pass\ndef _b(): pass\ndef c(): pass\n",
          "u.py": "from p import *\na()\n_b()\nc()\n"}, 2, "a", "p/__init__.py:a proven"),
        ({"p/__init__.py": "__all__ = ['a']\n__all__ += ['_b']\ndef a(): pass\ndef _b(): pass\ndef c(): pass\n",
          "u.py": "from p import *\n\n_b()\nc()\n"}, 3, "_b", "p/__init__.py:_b proven"),
        ({"p.py": "__all__ = ['a']\ndef a(): pass\ndef c(): pass\n", "q.py": "def c(): pass\n",
          "u.py": "from p import *\nfrom q import *\nc()\n"}, 3, "c", "q.py:c proven"),
        ({"p.py": "__all__ = ['a', *more]\ndef a(): pass\ndef c(): pass\n",
          "u.py": "from p import *\nc()\n"}, 2, "c", "p.py:c proven"),
        ({"p.py": "def _c(): pass\n", "u.py": "from p import *\n_c()\n"}, 2, "_c", "p.py:_c named"),
        ({"fast.py": "def f(): pass\n", "slow.py": "def f(): pass\n",
          "u.py": "try:\n    from fast import f\nexcept ImportError:\n    from slow import f\nf()\n"},
         5, "f", "fast.py:f slow.py:f likely"),
        ({"slow.py": "def f(): pass\n",
          "u.py": "try:\n    from fast import f\nexcept ImportError:\n    from slow import f\nf()\n"}, 5, "f", "slow.py:f likely"),
        ({"m.py": "class A:\n    def go(self): pass\n",
          "u.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from m import A\ndef f(a: 'A'): a.go()\n"},
         4, "go", "m.py:A.go likely"),
        ({"p/__init__.py": "from . import m\nm.f()\n", "p/m.py": "def f(): pass\n", "u.py": ""}, 2, "f", "p/m.py:f proven"),
        ({"p/__init__.py": "from p import m\nfrom p.n import g\n", "p/m.py": "from p import g\ng()\n",
          "p/n.py": "from p import m\ndef g(): pass\n", "u.py": ""}, 2, "g", "p/n.py:g proven"),
        ({"src/p/__init__.py": "from .m import f as g\n", "src/p/m.py": "def f(): pass\n",
          "tests/test_p.py": "from p import g\ng()\n"}, 2, "g", "src/p/m.py:f proven"),
        ({"n/a/m.py": "def f(): pass\n", "u.py": "import n.a.m\nn.a.m.f()\n"}, 2, "f", "n/a/m.py:f proven"),
        ({"m.py": "def f(): pass\n", "m.pyi": "def f() -> int: ...\n", "u.py": "import m\nm.f()\n"}, 2, "f", "m.py:f proven"),
        ({"m.pyi": "def f() -> int: ...\n", "u.py": "import m\nm.f()\n"}, 2, "f", "m.pyi:f proven"),
        ({"m.py": "if 1:\n    def f(): pass\nelse:\n    def f(): pass\n", "u.py": "from m import f\nf()\n"},
         2, "f", "m.py:f proven"),
        ({"conftest.py": "import pytest\n@pytest.fixture\ndef shop(): pass\n", "t/test_a.py": "def test_x(shop): pass\n"},
         1, "shop", "conftest.py:shop likely"),
    ],
    ids=lambda value: str(value)[:30],
)  # fmt: skip
def test_a_name_of_another_file_is_found(files, line, name, expected):
    path = next(path for path in files if path in ("u.py", "tests/test_p.py", "t/test_a.py"))
    if not files[path]:
        path = next(
            one
            for one, text in files.items()
            if len(text.split("\n")) > line and f"{name}()" in text.split("\n")[line - 1]
        )
    assert answers(files, path)[line, name] == expected


CLASSES = (
    "class A:\n    def __init__(self, given):\n        self.given = given\n        self.other = A(1)\n"
    "    def go(self):\n        self.given\n        self.other.go()\n        self.given.stop()\n"
    "    @classmethod\n    def make(cls):\n        return cls(1).go()\n    def handler(lexer): pass\n    table = [handler]\n"
    "class B(A):\n    def go(self):\n        super().go()\n        self.make()\n"
    "class C(A):\n    def __init__(self):\n        self.go = None\n    def run(self):\n        self.go()\n"
)


@pytest.mark.parametrize(
    ("line", "name", "expected"),
    [
        (6, "given", "none"),  # put into the instance here, not the field of D
        (7, "go", "c.py:A.go likely"),
        (8, "stop", "d.py:D.stop likely"),
        (11, "go", "c.py:A.go likely"),
        (13, "handler", "c.py:A.handler proven"),
        (16, "go", "c.py:A.go proven"),
        (17, "make", "c.py:A.make proven"),
        (22, "go", "none"),
    ],
)
def test_members_of_the_instance_are_those_of_its_class_and_its_bases(line, name, expected):
    files = {"c.py": CLASSES, "d.py": "class D:\n    given: int\n    def stop(self): pass\n"}
    assert answers(files, "c.py")[line, name] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A", ("A", (CALL,))),
        ("a.B", ("a.B", (CALL,))),
        ('"A"', ("A", (CALL,))),
        ("Optional['A']", ("A", (CALL,))),
        ("A | None", ("A", (CALL,))),
        ("t.Union[None, A]", ("A", (CALL,))),
        ("ClassVar[list[A]]", ("A", (CALL, LIST))),
        ("Mapping[str, A]", ("A", (CALL, LIST))),
        ("tuple[A, ...]", ("A", (CALL, LIST))),
        ("type[A]", ("A", ())),
        ("Store[int]", ("Store", (CALL,))),
        ("list[list[A]]", None),
        ("Callable[[A], B]", None),
        ("Literal['A']", None),
        ("None", None),
        ("", None),
        ("[" * 290, None),
        ("Optional[" * 20 + "A", None),
    ],
)
def test_an_annotation_names_a_class(text, expected):
    assert named_type(text) == expected


def test_names_in_strings_of_annotations_are_references_and_those_in_literals_are_not():
    text = "class A: pass\nx: 'A' = 1\ny: Optional['A']\nz: Literal['A']\ndef f() -> \"list[A]\": ...\n"
    found = answers({"a.py": text}, "a.py")
    assert [line for line, name in found if name == "A"] == [2, 3, 5]


def test_a_match_binds_bare_names_and_refers_to_dotted_ones():
    text = "class K:\n    x = 1\ndef f(v):\n    match v:\n        case K(x=q, y=[r, *s]) as t: q, r, s, t\n        case K.x | {'a': u, **w}: u, w\n"
    assert sorted({name for line, name in answers({"a.py": text}, "a.py") if line > 4}) == ["K", "x"]


def test_names_in_all_are_exported_and_no_others():
    def exported(text: str) -> set[str]:
        facts = parse_source("a.py", text.encode()).facts
        assert facts is not None
        return {one.qualified for one in facts.definitions() if one.is_exported}

    assert exported("__all__ = ('_a',)\ndef _a(): pass\nclass B:\n    def m(self): pass\n") == {"_a", "B.m"}
    assert exported("__all__ = [*x]\ndef _a(): pass\ndef b(): pass\n") == {"__all__", "b"}
    assert exported("__all__ = ['a']\n__all__.append('b')\ndef a(): pass\ndef b(): pass\n") == {"__all__", "a", "b"}


@pytest.mark.parametrize(
    "text",
    ["__all__ = " + "[" * 5_000, "x: " + "'A" * 5_000, "match x:\n case " + "A(" * 5_000, "if isinstance(" * 900],
)
def test_hostile_snippets_end(text):
    assert parse_source("a.py", text.encode()).state in ("errors", "failed", "parsed")


def test_a_long_chain_of_operands_does_not_end_the_file():
    facts = parse_source("a.py", b"def f(): pass\nx = " + b" or ".join([b"a"] * 3_000) + b"\nf()\n").facts
    assert facts is not None
    assert [one.line for one in facts.references() if one.role == "call"] == [3]
