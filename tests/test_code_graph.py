"""The graph of resolved edges: how little a change has resolved again, and that circles have one answer."""

from __future__ import annotations

import ast
import itertools
import os
import pathlib
import subprocess

import pytest

import periplus.code.resolution.rules
from periplus.code.code_map import CodeMap
from periplus.code.extraction.parse import parse_source
from periplus.code.graph.encoding import asked_keys, encode_asked
from periplus.code.graph.update import GraphUpdate
from periplus.code.queries.view import SymbolId
from periplus.code.resolution.resolver import Resolver
from periplus.code.resolution.rules.table import Entity
from periplus.code.resolution.sources import MemorySources

pytestmark = pytest.mark.quick
ENVIRONMENT = {
    "PATH": os.environ.get("PATH", os.defpath),
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    **{
        f"GIT_{role}_{part}": value
        for role in ("AUTHOR", "COMMITTER")
        for part, value in (("NAME", "a"), ("EMAIL", "a@b"))
    },
}
FILES = {
    "pkg/__init__.py": "from pkg.store import Store\n",
    "pkg/store.py": "class Store:\n    def load(self):\n        return helper()\n\ndef helper():\n    return 1\n",
    "pkg/app.py": "from pkg import Store\n\ndef main():\n    store = Store()\n    store.load()\n",
    "pkg/other.py": "from pkg.store import helper\n\ndef other():\n    return helper()\n",
    "tests/test_app.py": "from pkg.app import main\n\ndef test_main():\n    main()\n",
}


def write(folder, files):
    for path, text in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)


@pytest.fixture
def worktree(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    write(folder, FILES)
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run(["git", "-C", str(folder), *words], check=True, env=ENVIRONMENT)
    return folder


def opened(worktree, tmp_path, **more):
    more = {"budget_s": 60, **more}
    return CodeMap(str(worktree), str(tmp_path / "cache" / "code.sqlite"), environment=ENVIRONMENT, **more)


def stale_after(code_map, worktree, tmp_path, changes):
    """Return the files that are resolved again after ``changes``."""
    code_map.graph()
    write(worktree, changes)
    with opened(worktree, tmp_path, budget_s=5) as other:
        view = other.view()
        update = GraphUpdate(view.database, view.id, str(worktree))
        update.note_changes()
        return [path for _, path in update.store.stale()]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"pkg/store.py": FILES["pkg/store.py"].replace("return 1", "return 1 + 1\n\n")}, ["pkg/store.py"]),
        ({"pkg/store.py": f"def first():\n    pass\n\n{FILES['pkg/store.py']}"}, ["pkg/store.py"]),
        ({"pkg/store.py": FILES["pkg/store.py"].replace("helper", "keeper")}, ["pkg/other.py", "pkg/store.py"]),
        ({"pkg/store.py": FILES["pkg/store.py"].replace("load", "store")}, ["pkg/app.py", "pkg/store.py"]),
        ({"pkg/new.py": "def fresh():\n    pass\n"}, ["pkg/new.py"]),
        ({"notes.txt": "words"}, []),
    ],
)
def test_a_change_resolves_only_what_asked_for_it(worktree, tmp_path, changes, expected):
    with opened(worktree, tmp_path) as code_map:
        assert stale_after(code_map, worktree, tmp_path, changes) == expected


def test_settings_that_change_lead_elsewhere(tmp_path):
    folder = tmp_path / "shop"
    settings = '{"autoload": {"psr-4": {"A\\\\": "%s/"}}}'
    write(
        folder,
        {
            "x.php": "<?php\nnamespace A;\nfunction f() { new C(); }\n",
            "lib/C.php": "<?php\nnamespace A;\nclass C {}\n",
            "old/C.php": "<?php\nnamespace A;\nclass C {}\n",
            "y.go": 'package main\n\nimport "example.com/shop/lib"\n\nfunc f() { lib.Run() }\n',
            "lib/run.go": "package lib\n\nfunc Run() {}\n",
            "old/lib/run.go": "package lib\n\nfunc Run() {}\n",
            "composer.json": settings % "lib",
            "go.mod": "module example.com/shop\n",
        },
    )
    with opened(folder, tmp_path) as code_map:

        def targets(path):
            return sorted(one.target for one in code_map.graph().edges if one.source == f"{path}:f")

        assert (targets("x.php"), targets("y.go")) == (["lib/C.php:C"], ["lib/run.go:Run"])
        write(
            folder,
            {
                "composer.json": settings % "old",
                "go.mod": "module example.com\n",
                "old/go.mod": "module example.com/shop\n",
            },
        )
        assert (targets("x.php"), targets("y.go")) == (["old/C.php:C"], ["old/lib/run.go:Run"])


def test_a_graph_has_what_tests_call_directly(worktree, tmp_path):
    with opened(worktree, tmp_path) as code_map:
        edges = {(one.kind, one.source, one.target, one.grade, one.lines) for one in code_map.graph().edges}
        assert ("tests", "tests/test_app.py:test_main", "pkg/app.py:main", "proven", (4,)) in edges
        assert ("calls", "pkg/app.py:main", "pkg/store.py:Store.load", "likely", (5,)) in edges
        assert ("imports", "pkg/other.py", "pkg/store.py", "proven", (1,)) in edges
        assert code_map.status().edges["proven"] > 5
        near = code_map.around(SymbolId("pkg/store.py", "helper"), 1)
        assert [one.name for one in near.symbols] == ["Store.load", "helper", "other"]
        assert {one.kind for one in near.edges} == {"calls", "imports"}


def test_without_time_for_a_graph_the_answer_is_the_same_and_says_so(worktree, tmp_path):
    asked = []
    with opened(worktree, tmp_path) as code_map:
        expected = code_map.impact(["pkg/store.py:helper"])
        assert code_map.freshness.has_graph
    (tmp_path / "cache" / "code.sqlite").unlink()
    with opened(worktree, tmp_path, budget_s=5) as code_map:
        code_map.status()
    with opened(worktree, tmp_path, budget_s=0.001, go_on=lambda: asked.append(1)) as code_map:
        assert code_map.impact(["pkg/store.py:helper"]) == expected
        assert (code_map.freshness.has_graph, asked) == (False, [1])
        assert code_map.status().edges == {}
    with opened(worktree, tmp_path) as code_map:
        code_map.view()
        assert code_map.status().edges["proven"] > 5


def test_circles_of_star_imports_have_one_answer_whatever_is_asked_first():
    texts = {
        "a.py": b"from b import *\nfrom c import *\n",
        "b.py": b"from a import *\nfrom d import *\n",
        "c.py": b"from b import *\ndef found():\n    pass\n",
        "d.py": b"from c import *\nfrom a import *\n",
    }
    sources = MemorySources({path: parse_source(path, text).facts for path, text in texts.items()})
    for order in itertools.permutations(texts):
        resolver = Resolver(sources)
        found = {path: resolver.member(Entity(path, -1), "found").found for path in order}
        assert found == dict.fromkeys(texts, (Entity("c.py", 0),))
        assert resolver.member(Entity(order[0], -1), "absent").found == ()


def test_keys_are_packed_and_read_again():
    for keys in (set(), {0}, {5, 70_000, 70_001, 1_048_575}, set(range(0, 1 << 20, 9_973))):
        assert keys <= set(asked_keys(encode_asked(keys)))


def test_rules_keep_nothing_of_their_own():
    """What a rule keeps is not recorded: the graph would not be told when it changes. ``Lookup.derived`` keeps and records."""
    folder = pathlib.Path(periplus.code.resolution.rules.__path__[0])
    for file in folder.glob("*.py"):
        if file.name == "registry.py":  # keeps the rules themselves
            continue
        for one in ast.walk(ast.parse(file.read_text())):
            modules = (
                [alias.name for alias in one.names] if isinstance(one, ast.Import) else [getattr(one, "module", "")]
            )
            assert not {"functools", "weakref"} & set(modules), f"{file.name} keeps values: use lookup.derived"
