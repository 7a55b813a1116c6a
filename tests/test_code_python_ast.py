"""Python without its parser: the module ``ast`` gives the same facts as tree-sitter, and says why where it cannot."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from periplus.code.extraction.extractor import extract
from periplus.code.extraction.grammar import BrokenSource, Grammar
from periplus.code.extraction.parse import parse_source
from periplus.code.extraction.python_ast import tree_of
from periplus.code.extraction.python_nodes import KIND_NUMBERS
from periplus.code.languages.python import PYTHON
from periplus.code.model import Facts
from test_code_index import git, write

SOURCES = Path(__file__).resolve().parent.parent / "src" / "periplus"
GRAMMAR = Grammar(PYTHON, KIND_NUMBERS)


def facts_of_ast(data: bytes) -> Facts:
    return extract(GRAMMAR, tree_of(data), data, time.monotonic() + 60)


def facts_of_parser(data: bytes) -> Facts:
    facts = parse_source("a.py", data).facts
    assert facts is not None
    return facts


def references(facts: Facts) -> Counter:
    return Counter((one.line, one.owner, one.role, facts.targets[one.target]) for one in facts.references())


def compare(paths: list[Path]) -> tuple[int, int]:
    """Return how many references are the same, and how many there are; all else must be the same."""
    same = every = 0
    for path in paths:
        data = path.read_bytes()
        own, other = facts_of_ast(data), facts_of_parser(data)
        assert own.definitions() == other.definitions(), path
        assert own.imports == other.imports, path
        assert (own.types, own.bases, own.exports) == (other.types, other.bases, other.exports), path
        ours, theirs = references(own), references(other)
        same += (ours & theirs).total()
        every += max(ours.total(), theirs.total())
    return same, every


def test_sampled_files_have_the_facts_that_the_parser_finds():
    paths = sorted(SOURCES.rglob("*.py"))[::60]
    assert len(paths) > 5
    same, every = compare(paths)
    assert every > 500
    assert same >= 0.98 * every


@pytest.mark.slow
def test_all_files_have_the_facts_that_the_parser_finds():
    same, every = compare(sorted(SOURCES.rglob("*.py")))
    assert every > 50_000
    assert same >= 0.99 * every


SNIPPETS = {
    "names behind keywords": "async  def \\\n  f(): pass\nclass   A : pass\n",
    "decorators": "@a.b(1)\n# why\n@c\nclass A(B, metaclass=M):\n    @property\n    def f(self): return self.g\n",
    "comments": "# one\n# two\ndef f():\n    pass\n    # inside\n\n    # too\n\n# outside\nx = 1  # behind\ny = 2\n",
    "letters": "é = 1\ndef ñandú(größe=é): return größe.länge + é\nclass Ä(é.ö): pass\n",
    "byte order mark": "\ufeffimport a\ndef f(): return a.b\n",
    "carriage returns": "import a\r\n\r\ndef f():\r\n    return a.b\r\n",
    "chains": "a = b.c = d = e()\nx = y or z.w or v()\nif p and q and r.s: t()\n",
    "brackets": "from m import A, B\nx = (A() or B())\nx.y\nz = (A())\nz.w\n",
    "patterns": "import m, q\nmatch f():\n    case m.A(x, y=m.B) | [*x, y] if x.z: q.a(y)\n    case {'k': v, **rest}: q.b(v, rest)\n"
    "    case m.C() as c: c.d()\n    case m.E.F: pass\n    case _: pass\n",
    "handlers": "import m\ntry: m.a()\nexcept (m.A, m.B) as e: e.args\nexcept m.C: pass\nelse: m.d\nfinally: m.e()\n",
    "with": "import m\nasync def f():\n    async with m.a() as x, m.b() as (y, z): x.c(y, z)\n    with (m.d() as w, m.e): w.g()\n",
    "imports": "from . import a\nfrom .. b import (c as d, # e\n  f)\nfrom .g.h import *\nimport i.j, k.l as m\nfrom __future__ import annotations\n",
    "outer names": "import m\nx = 1\ndef f():\n    global x\n    x = m.a\n    def g():\n        nonlocal_ = 1\n        return x\n",
    "types": "from typing import Literal\nimport m\ndef f(a: 'm.A', *b: m.B, c: m.C = m.d, **e: Literal['m.X']) -> list[m.F | None]: return a.g(c.h)\n",
    "comprehensions": "import m\n[x.a for x in m.b if m.c(x)]\n{k: m.v for k, (m2, *r) in m.d}\nf(w for w in m.z)\n",
    "strings": "import m\nf'{m.a!r:>{m.w}} {{m.no}} {m.b[\"c\"]} {m.d != 1} {m.e=}' \"{m.no}\" # it's\nx = ('a' # it's\n  f'{m.g}')\n"
    "f'''{\n  m.h(\n  1)}\n'''\n",
    "lambdas": "import m\nf = lambda x, *y, z=m.a: x.b(y, z, m.c)\n",
    "subscripts": "import m\nm.a[m.b, 1:m.c] = m.d\nm.e[m.f] += m.g\ndel m.h[0]\n",
    "exports": "__all__ = ['a', 'b']\n__all__ += ['c']\na = b = 1\ndef c(): pass\ndef d(): pass\n",
    "narrowing": "import m\ndef f(x):\n    if isinstance(x, m.A): x.b()\n    elif x and isinstance(x, m.C): x.d()\n    else: x.e()\n"
    "    assert isinstance(x, m.F)\n    return isinstance(x, m.A) and x.g\n",
    "walrus": "import m\nif (x := m.a()): x.b()\nwhile y := m.c(): y.d\n",
}


@pytest.mark.parametrize("name", SNIPPETS)
def test_a_snippet_has_the_facts_that_the_parser_finds(name):
    data = SNIPPETS[name].encode()
    own, other = facts_of_ast(data), facts_of_parser(data)
    assert own.definitions() == other.definitions()
    assert own.imports == other.imports
    assert (own.types, own.bases, own.exports, own.attributes) == (
        other.types,
        other.bases,
        other.exports,
        other.attributes,
    )
    assert references(own) == references(other)
    assert own.definitions() or own.imports


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"x = 1\n\ndef f(:\n", "it is not valid Python (line 3)"),
        (b"print 'a'\n", "it is not valid Python (line 1)"),
        (b"a" + b".a" * 50_000, "it nests too deeply"),
        (b"x = " + b"-" * 50_000 + b"1\n", "it nests too deeply"),
        (b"x = " + b"(" * 50_000, "it is not valid Python (line 1)"),
        (b"x = 1\n" + b" " * 9_000 + b"\0", "it is not valid Python (line 1)"),
    ],
)
def test_what_is_not_python_is_not_guessed_at(data, why):
    with pytest.raises(BrokenSource) as caught:
        tree_of(data)
    assert str(caught.value) == why


@pytest.mark.parametrize(
    "data",
    [
        b"a = " * 5_000 + b"1\n",
        b"x = " + b"a or " * 300 + b"a\n",
        b"try: pass\n" + b"except A: pass\n" * 10_000,
        b"x = (a # " + b"b" * 500_000 + b"\n  .c)\n",
        b"def f(): pass\n" + b"    # c\n" * 50_000,
        b"f'" + b"{a:{b}}" * 500 + b"'\n",
    ],
    ids=["assignments", "alternatives", "handlers", "comment", "comments", "interpolations"],
)
def test_a_hostile_file_takes_bounded_time(data):
    begun = time.process_time()
    facts = facts_of_ast(data)
    assert time.process_time() - begun < 10
    assert facts.targets or facts.names


PROGRAM = """
import json, os, sys
sys.modules["tree_sitter"] = None
from periplus.code.code_map import CodeMap
from periplus.code.extraction.parse import parse_source
from periplus.code.index.parsing import extractor_version
from periplus.code.languages.go import GO
from periplus.code.languages.python import PYTHON

with CodeMap(sys.argv[1], sys.argv[2], environment=dict(os.environ), budget_s=60) as code_map:
    places = code_map.references("store.py:Store.load")[0][1]
    dependents = code_map.impact(["store.py:Store.load"]).impact.dependents
    broken = parse_source("a.py", b"x = 1\\ndef f(:\\n")
    print(json.dumps({
        "references": [[one.path, one.line] for one in places],
        "dependents": len(dependents),
        "versions": [extractor_version(PYTHON), extractor_version(GO)],
        "broken": [broken.state, broken.why_not],
        "go": parse_source("a.go", b"package a").state,
    }))
"""


def test_a_project_has_references_and_impact_without_the_parsers(tmp_path):
    worktree = tmp_path / "project"
    worktree.mkdir()
    git(worktree, "init", "-q")
    write(
        worktree,
        {
            "store.py": "class Store:\n    def load(self):\n        return 1\n",
            "use.py": "from store import Store\n\n\ndef run():\n    store = Store()\n    return f'{store.load()}'\n",
            "other.go": "package a\n",
        },
    )
    command = [sys.executable, "-c", PROGRAM, str(worktree), str(tmp_path / "code.sqlite")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    found = json.loads(done.stdout)
    assert found["references"] == [["use.py", 6]]
    assert found["dependents"] >= 1
    assert found["versions"][0].endswith(f"-ast-{sys.version_info.major}.{sys.version_info.minor}")
    assert found["versions"][1].endswith("-none")
    assert found["broken"] == ["failed", "it is not valid Python (line 2)"]
    assert found["go"] == "no_parser"
