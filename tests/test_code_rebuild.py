"""A long-lived code map beside one that is built from zero, after each of many changes to a real repository."""

from __future__ import annotations

import os
import random
import shutil
import subprocess

import pytest

from periplus.code.code_map import CodeMap
from periplus.code.queries.impact import impact_of
from periplus.code.queries.references import places_of
from periplus.code.queries.view import SymbolId

ENVIRONMENT = {
    "PATH": os.environ.get("PATH", os.defpath),
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ALLOW_PROTOCOL": "file",
    **{
        f"GIT_{role}_{part}": value
        for role in ("AUTHOR", "COMMITTER")
        for part, value in (("NAME", "a"), ("EMAIL", "a@b"))
    },
}
FOLDERS = ("", "pkg", "pkg/inner", "lib", "tests")
STEMS = ("store", "app", "core", "test_app", "__init__")
CLASSES = ("Store", "Base", "Thing")
FUNCTIONS = ("load", "save", "helper", "main", "test_main")
KNOWN_MAX = 20
# {0} and {1} are functions, {2} and {3} classes, {4} a module.
OTHERS = {
    ".ts": (
        "import {{ {0} }} from './{4}';\nexport function {1}() {{ return {0}(); }}\n"
        "export class {2} {{ {1}() {{ return this.{0}(); }} }}\n"
    ),
    ".go": (
        'package {4}\n\nimport "example.com/work/pkg"\n\ntype {2} struct {{ kept {3} }}\n\nfunc (s *{2}) {0}() {{ s.{1}(); s.kept.{0}() }}\n'
        "func {1}() {{ {0}(); pkg.{0}() }}\n"
    ),
    ".rs": (
        "mod {4};\nuse crate::{4}::{2};\nuse super::{3};\npub struct {2} {{}}\nimpl {2} {{ pub fn {0}(&self) {{ self.{1}(); {4}::{0}(); }} }}\n"
        "pub fn {1}() {{ {0}(); let x = {2} {{}}; x.{0}(); }}\n"
    ),
    ".php": (
        "<?php\nnamespace App\\{4};\nuse App\\core\\{3};\nclass {2} extends {3} {{ function {0}() {{ $this->{1}(); (new {3})->{0}(); }} }}\n"
        "function {1}() {{ {0}(); }}\n"
    ),
    ".rb": (
        "require_relative '{4}'\nmodule App\n  class {2} < {3}\n    def {0}\n      {1}\n      {3}.new.{0}\n    end\n  end\nend\ndef {1}\n  {0}\nend\n"
    ),
    ".c": '#include "{4}.h"\n#include "pkg/{4}.c"\nstruct {2} {{ struct {3} *kept; }};\nvoid {0}(void);\nvoid {1}(void) {{ {0}(); }}\n',
    ".cpp": (
        '#include "{4}.cpp"\nclass {2} : public {3} {{ void {0}(); }};\nvoid {2}::{0}() {{ {1}(); }}\nvoid {1}() {{ {2} x; x.{0}(); }}\n'
    ),
    ".sh": ". ./{4}.sh\n{0}() {{\n  {1}\n}}\n{1}\n",
    ".java": (
        "package {4};\nimport core.{3};\nimport app.*;\nclass {2} extends {3} {{ {3} kept; {2} {0}() {{ {1}(); kept.{0}(); return new {2}(); }} }}\n"
        "interface {3} {{ {2} {1}(); }}\n"
    ),
    ".kt": (
        "package {4}\nimport core.{0}\nimport app.*\nopen class {2} : {3}() {{ val kept = {3}(); fun {0}() = kept.{1}() }}\n"
        "fun {3}.{1}() = {0}()\nfun {0}(): {2} = {2}().apply {{ {1}() }}\n"
    ),
    ".cs": (
        "using core;\nusing static app.{3};\nnamespace {4};\npartial class {2} : {3} {{ {3} kept; {2} {0}() {{ {1}(); kept.{0}(); return this; }} }}\n"
        "static class {3} {{ public static void {1}(this {2} one) {{ one.{0}(); }} }}\n"
    ),
    ".swift": "import {4}\nclass {2}: {3} {{ func {0}() {{ {1}(); {3}().{0}() }} }}\nfunc {1}() {{ {0}() }}\n",
}
SETTINGS = {
    "go.mod": ("module example.com/work\n", "module example.com/other\n"),
    "Cargo.toml": ('[package]\nname = "work"\n[lib]\npath = "core.rs"\n', '[package]\nname = "pkg"\n'),
    "composer.json": (
        '{"autoload": {"psr-4": {"App\\\\": ""}}}',
        '{"autoload": {"psr-4": {"App\\\\": "lib"}}}',
        "no settings",
    ),
    "Package.swift": ('.target(name: "core", path: "pkg")\n', '.target(name: "store", path: "lib")\n'),
    "notes.txt": ("words\n", "more words\n"),
}


def source(rng):
    """Return a random module: imports that may or may not lead anywhere, classes with bases, values and calls."""
    lines = []
    for _ in range(rng.randrange(4)):
        module = rng.choice(
            ("pkg.store", "pkg", "pkg.inner.core", "lib.app", ".store", ".", "..core", "core", "os.path")
        )
        what = rng.choice(("*", *CLASSES, *FUNCTIONS, "store", "core"))
        alias = rng.choice(("", "", " as other", " as load"))
        lines.append(f"from {module} import {what}{'' if what == '*' else alias}")
    for name in rng.sample(CLASSES, rng.randrange(3)):
        lines += [f"class {name}{rng.choice(('', '(Base)', '(Store)', '(other)'))}:"]
        for method in rng.sample(FUNCTIONS, rng.randrange(1, 3)):
            body = rng.choice(
                ("self.kept = Store()", "self.kept.load()", "return helper()", "return self.save()", "super().load()")
            )
            lines += [f"    def {method}(self):", f"        {body}"]
    for name in rng.sample(FUNCTIONS, rng.randrange(4)):
        returned = rng.choice(("", " -> Store", " -> 'Thing'"))
        body = rng.choice(
            (
                "Store().load()",
                "helper()",
                "thing = Thing()\n    thing.save()",
                "main().load()",
                "other()",
                "store.load()",
            )
        )
        lines += [f"def {name}(){returned}:", f"    {body}"]
    lines += [f"value = {rng.choice(FUNCTIONS)}"] * rng.randrange(2)
    return "\n".join(lines) + "\n"


class Repository:
    """The worktree that is changed, with what git says of it."""

    def __init__(self, folder, rng, endings):
        self.folder = folder
        self.endings = endings
        self.rng = rng
        self.branches = 0
        folder.mkdir()
        self.git("init", "-q", "-b", "main")
        for _ in range(8):
            self.add()
        self.git("add", "-A")
        self.git("commit", "-qm", "first")

    def git(self, *words, check=True):
        done = subprocess.run(["git", "-C", str(self.folder), *words], env=ENVIRONMENT, capture_output=True, text=True)
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def sources(self):
        return sorted(
            path
            for path in self.folder.rglob("*")
            if path.suffix in self.endings and path.name not in SETTINGS and path.is_file() and ".git" not in path.parts
        )

    def place(self):
        return self.folder / self.rng.choice(FOLDERS) / f"{self.rng.choice(STEMS)}{self.rng.choice(self.endings)}"

    def write(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def text(self, path):
        if path.suffix == ".py":
            return source(self.rng)
        functions, classes = self.rng.sample(FUNCTIONS, 2), self.rng.sample(CLASSES, 2)
        return OTHERS[path.suffix].format(*functions, *classes, self.rng.choice(STEMS))

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-qm", "more", "--allow-empty")

    # -- changes -----------------------------------------------------------------------------------------------------------

    def add(self):
        path = self.place()
        self.write(path, self.text(path))

    def edit(self):
        path = self.rng.choice(self.sources())
        self.write(path, self.text(path))

    def settle(self):
        """Change, add or remove settings of the project."""
        name = self.rng.choice(sorted(SETTINGS))
        place = self.folder / self.rng.choice(("", "", "pkg")) / name
        text = self.rng.choice((*SETTINGS[name], None))
        if text is not None:
            self.write(place, text)
        else:
            place.unlink(missing_ok=True)

    def shift(self):
        """Put a definition before all others."""
        path = self.rng.choice(self.sources())
        if path.suffix == ".py":
            self.write(path, f"def {self.rng.choice(FUNCTIONS)}():\n    pass\n" + path.read_text(errors="replace"))

    def lengthen(self):
        """Change nothing but lines."""
        path = self.rng.choice(self.sources())
        self.write(path, "\n\n" + path.read_text(errors="replace"))

    def delete(self):
        if len(self.sources()) > 4:
            self.rng.choice(self.sources()).unlink()

    def move(self):
        path, to = self.rng.choice(self.sources()), self.place()
        to.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == to.suffix:
            path.rename(to)

    def move_by_git(self):
        self.commit()
        path, to = self.rng.choice(self.sources()), self.place()
        to.parent.mkdir(parents=True, exist_ok=True)
        if not to.exists():
            self.git("mv", str(path.relative_to(self.folder)), str(to.relative_to(self.folder)), check=False)

    def break_syntax(self):
        path = self.rng.choice(self.sources())
        lines = path.read_text(errors="replace").split("\n")
        lines.insert(len(lines) // 2, "def (((:")
        self.write(path, "\n".join(lines))

    def become_binary(self):
        path = self.rng.choice(self.sources())
        path.write_bytes(path.read_bytes() + b"\0\xff")

    def branch(self):
        self.commit()
        self.branches += 1
        self.git("checkout", "-q", "-b", f"branch{self.branches}")
        self.edit()
        self.add()
        self.commit()

    def switch(self):
        self.commit()
        self.git(
            "checkout",
            "-q",
            self.rng.choice(self.git("for-each-ref", "--format=%(refname:short)", "refs/heads").split()),
        )

    def rebase(self):
        self.commit()
        if self.git("rebase", "-q", "main", check=False) or "rebase-merge" in os.listdir(self.folder / ".git"):
            self.git("rebase", "--abort", check=False)

    def stash(self):
        self.edit()
        self.git("stash", "-q", "--include-untracked", check=False)

    def unstash(self):
        if self.git("stash", "list"):
            self.git("stash", "pop", "-q", check=False)
            self.git("add", "-A")  # what conflicts is kept as it is, with its marks

    def submodule(self):
        other = self.folder.parent / "other"
        if other.exists() or (self.folder / "module").exists():
            return
        other.mkdir()
        subprocess.run(["git", "-C", str(other), "init", "-q", "-b", "main"], check=True, env=ENVIRONMENT)
        (other / "core.py").write_text(source(self.rng))
        subprocess.run(["git", "-C", str(other), "add", "-A"], check=True, env=ENVIRONMENT)
        subprocess.run(["git", "-C", str(other), "commit", "-qm", "first"], check=True, env=ENVIRONMENT)
        self.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other), "module", check=False)


CHANGES = (
    "add", "edit", "edit", "edit", "shift", "shift", "lengthen", "delete", "move", "move_by_git", "break_syntax", "become_binary",
    "branch", "switch", "switch", "settle", "settle", "rebase", "stash", "unstash", "submodule",
)  # fmt: skip


def opened(folder, index):
    return CodeMap(str(folder), str(index), environment=ENVIRONMENT, budget_s=60)


def answers(view, symbols):
    impacts = [impact_of(view, [symbol]) for symbol in symbols]
    return impacts, [places_of(view, symbol) for symbol in symbols]


def graph_of(code_map):
    graph = code_map.graph()
    return sorted(graph.files), sorted(graph.symbols), sorted(graph.edges), code_map.status().edges


def assert_equals_a_rebuild(code_map, folder, index, rng):
    """The graph of the long-lived map beside that of a new one, and its answers beside those by resolution without a graph."""
    found = graph_of(code_map)
    shutil.rmtree(index.parent, ignore_errors=True)
    with opened(folder, index) as fresh:
        view = code_map.view()
        assert view.graph is not None
        bare = fresh.view()
        bare.__dict__["graph"] = None
        symbols = [SymbolId(one.path) for one in found[0]]
        symbols += {SymbolId(one.path, one.name): None for one in found[1]}
        symbols = rng.sample(symbols, min(len(symbols), KNOWN_MAX))
        assert answers(view, symbols) == answers(bare, symbols)
        assert found == graph_of(fresh)


def run(tmp_path, seed, steps, endings):
    rng = random.Random(seed)
    repository = Repository(tmp_path / "work", rng, endings)
    index, new_index = tmp_path / "index" / "code.sqlite", tmp_path / "new" / "code.sqlite"
    done = []
    with opened(repository.folder, index) as code_map:
        for _ in range(steps):
            for _ in range(rng.choice((1, 1, 1, 2, 3))):
                if not repository.sources():
                    repository.add()
                done.append(rng.choice(CHANGES))
                getattr(repository, done[-1])()
            try:
                assert_equals_a_rebuild(code_map, repository.folder, new_index, rng)
            except AssertionError as error:
                raise AssertionError(f"seed {seed} after {done}") from error
        second = tmp_path / "second"
        repository.git("worktree", "add", "-q", "--detach", str(second))
        with opened(second, index) as other:
            assert_equals_a_rebuild(other, second, new_index, rng)
        assert_equals_a_rebuild(code_map, repository.folder, new_index, rng)


@pytest.mark.parametrize("seed", [1])
def test_a_map_equals_one_built_from_zero(tmp_path, seed):
    run(tmp_path, seed, 5, (".py", ".py", ".py", ".ts"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 110))
def test_a_map_equals_one_built_from_zero_after_many_changes(tmp_path, seed):
    run(tmp_path, seed, 30, (".py", ".py", ".py", ".ts"))


@pytest.mark.slow
@pytest.mark.parametrize("ending", sorted(OTHERS))
@pytest.mark.parametrize("seed", range(200, 203))
def test_a_map_of_another_language_equals_one_built_from_zero(tmp_path, seed, ending):
    run(tmp_path, seed, 25, (ending, ending, ".py"))
