"""What holds the house up: imports go down, starting is cheap, packages say what is public."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import periplus

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "periplus"
IN_C = {"periplus.base._speed", "periplus.base._values"}  # where they were built: test_native.py has them
MODULES = sorted({module.name for module in pkgutil.walk_packages(periplus.__path__, "periplus.")} - IN_C)


ALLOWED = {
    "interop/git_history/git_process.py": "git runs in the environment of its user, less what a hook of git left in it",
    "dispatch/processes/keeper.py": "a program of its own: its environment is that of its job, which the starter chose",
}


def loaded_by(*argv):
    """The modules that a process of the command line has loaded when it is done."""
    code = (
        "import sys, os\n"
        "from periplus.cli.main import main\n"
        "out = os.dup(1); os.dup2(os.open(os.devnull, os.O_WRONLY), 1)\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "os.write(out, chr(32).join(sorted(sys.modules)).encode())\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, check=True, timeout=60)
    return set(done.stdout.decode().split())


@pytest.mark.slow
def test_layers_import_downwards_only():
    tool = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([tool, "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"Contracts: 1[5-9] kept, 0 broken", done.stdout)


@pytest.mark.slow
def test_an_import_upwards_would_be_found(tmp_path):
    """The check above must be able to fail: the same contract over a copy with one import too many."""
    import shutil

    copy = tmp_path / "src" / "periplus"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    with (copy / "merkle" / "tree.py").open("a") as file:
        file.write("\nfrom periplus.journal import Journal as _Journal\n")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    tool = Path(sys.executable).with_name("lint-imports")
    environment = {"PYTHONPATH": str(tmp_path / "src"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [tool, "--no-cache"], cwd=tmp_path, capture_output=True, text=True, timeout=120, env=environment
    )
    assert done.returncode != 0
    assert "periplus.merkle is not allowed to import periplus.journal" in done.stdout


def test_help_loads_nothing_heavy():
    modules = loaded_by("--help")
    heavy = {"msgspec", "orjson", "sqlite3", "cryptography", "json", "asyncio", "inspect", "pathlib", "subprocess"}
    assert heavy & modules == set()
    ours = {name for name in modules if name.startswith("periplus")}
    assert ours == {"periplus", "periplus.base", "periplus.base.named_tuple", "periplus.cli", "periplus.cli.main"}


def test_the_row_of_an_agent_is_loaded_when_somebody_asks_for_it():
    code = (
        "import sys\n"
        "from periplus.interop.agents import agent_named\n"
        "agent_named(sys.argv[1])\n"
        "from periplus.interop.agents import AGENT_NAMES\n"
        "rows = [name for name, one in sys.modules.items() if name.startswith('periplus.interop.agents.') and hasattr(one, 'AGENT')]\n"
        "print(len(AGENT_NAMES), *rows)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, "gemini"], capture_output=True, check=True, timeout=60)
    count, *rows = done.stdout.decode().split()
    assert int(count) > 1
    assert rows == ["periplus.interop.agents.gemini"]


def test_status_loads_no_more_than_the_store_needs(tmp_path):
    from support import make_store

    make_store(tmp_path)
    modules = loaded_by("status", "--store", str(tmp_path))
    unwanted = {"cryptography", "asyncio", "subprocess", "periplus.interop", "periplus.trail", "periplus.context", "periplus.server", "periplus.memory.fulltext.documents",
                "periplus.journal.care.doctor", "periplus.journal.proofs.proof_file"}  # fmt: skip
    assert unwanted & modules == set()
    assert "sqlite3" in modules


def test_remembering_loads_nothing_of_trails_or_checkpoints(tmp_path):
    from support import make_store

    make_store(tmp_path)
    loaded_by("remember", "The first builds the index", "--store", str(tmp_path))
    modules = loaded_by("remember", "Something else", "--store", str(tmp_path))
    unwanted = {"cryptography", "subprocess", "periplus.interop", "periplus.trail", "periplus.context", "periplus.cli.trail.schemas", "periplus.journal.checkpoints.index_filling",
                "periplus.journal.checkpoints.format", "periplus.journal.checkpoints.creation", "periplus.journal.care.doctor",
                "periplus.memory.entities.declared_types"}  # fmt: skip
    assert unwanted & modules == set()
    assert "periplus.memory.fulltext.documents" in modules


_UNUSED_BY_ALL = {"cryptography", "asyncio", "inspect", "orjson", "tomllib", "typing_extensions", "subprocess", "periplus.interop", "periplus.trail", "periplus.context", "periplus.server",
                  "periplus.journal.care.doctor", "periplus.journal.proofs.proof_file", "periplus.code.symbols", "periplus.memory.fulltext.documents", "periplus.memory.entities.declared_types"}  # fmt: skip


_PROJECTS = {"periplus.journal.storage.store_creation", "periplus.journal.projections.file_verdict", "periplus.journal.projections.entity_file", "periplus.journal.projections.git_state", "periplus.journal.projections.projector",
             "periplus.journal.projections.external_edits"}  # fmt: skip
_WRITES = _PROJECTS | {"periplus.journal.checkpoints.format", "periplus.journal.checkpoints.checkpoint_files", "periplus.journal.checkpoints.creation", "periplus.journal.storage.group_commit",
                       "periplus.journal.state.version_graph", "periplus.journal.storage.keys", "periplus.journal.state.merge", "periplus.journal.care.redaction", "periplus.journal.storage.truncation_check",
                       "periplus.journal.storage.segment_writer"}  # fmt: skip


@pytest.mark.parametrize(
    ("argv", "unwanted"),
    [
        (("check", "src/a.py"), _WRITES | {"periplus.cli.common.schemas", "periplus.cli.work.schemas", "periplus.base.encoding.container", "periplus.project.trail_store.session_import",
                                           "periplus.project.care.status", "msgspec.inspect", "msgspec.msgpack", "threading", "weakref",
                                           "hashlib", "_hashlib", "periplus.memory.entities.schemas", "periplus.memory.writing.lifecycle"}),
        (("recall", "something"), (_WRITES - _PROJECTS) | {"msgspec.inspect"}),
        (("check", "src/a.py"), {"periplus.memory.retrieval.recall", "periplus.memory.briefing.brief", "periplus.memory.retrieval.file_votes", "periplus.memory.writing.remember",
                                 "periplus.memory.retrieval.search", "periplus.base.text.search_terms", "periplus.base.text.secrets", "periplus.code"}),
        (("check", "src/a.py"), {"json", "dataclasses", "periplus.journal.checkpoints.index_filling"}),
        (("recall", "something"), {"json", "dataclasses", "periplus.journal.checkpoints.index_filling"}),
        (("recall", "something"), {"periplus.memory.briefing.brief", "periplus.memory.retrieval.file_votes", "periplus.memory.writing.remember", "periplus.memory.coordination.claims",
                                   "periplus.memory.scopes", "periplus.base.text.secrets"}),
        (("changed", "--since", "0"), {"periplus.memory.briefing.brief", "periplus.memory.retrieval.file_votes", "periplus.memory.writing.remember"}),
        ((), (_WRITES - _PROJECTS - {"periplus.journal.state.version_graph", "periplus.journal.state.merge"})
             | {"json", "dataclasses", "rich", "prompt_toolkit", "periplus.agent", "periplus.tui", "periplus.memory.briefing.brief", "periplus.memory.writing.remember",
                "periplus.project.care.status", "periplus.project.knowledge.task_brief", "periplus.base.text.secrets"}),
    ],
)  # fmt: skip
def test_what_agents_ask_often_loads_only_what_it_needs(tmp_path, argv, unwanted):
    from support import make_store

    make_store(tmp_path)
    loaded_by("remember", "The first builds the index", "--store", str(tmp_path))
    assert (unwanted | _UNUSED_BY_ALL) & loaded_by(*argv, "--store", str(tmp_path)) == set()


def test_a_hook_that_only_leaves_its_event_loads_next_to_nothing(tmp_path):
    """It runs at every call of every tool."""
    from support import make_store

    make_store(tmp_path)
    code = (
        "import sys\nfrom periplus.cli.hook_entry import tell_hook\ntell_hook(sys.argv[1:])\n"
        "sys.stdout.write(chr(32).join(sorted(sys.modules)))\n"
    )
    event = b'{"session_id": "s", "tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_response": "a"}'
    done = subprocess.run([sys.executable, "-c", code, "PostToolUse", "--store", str(tmp_path)], input=event, capture_output=True, check=True,
                          timeout=60, cwd=tmp_path)  # fmt: skip
    modules = set(done.stdout.decode().split())
    unwanted = {"argparse", "asyncio", "cryptography", "inspect", "msgspec", "orjson", "sqlite3", "subprocess", "tomllib", "periplus.journal",
                "periplus.memory", "periplus.project", "periplus.trail"}  # fmt: skip
    assert unwanted & modules == set()
    assert len(list((tmp_path / ".periplus" / "hooks" / "spool").iterdir())) == 1


@pytest.mark.parametrize("name", MODULES)
def test_all_is_sorted_and_complete(name):
    path = SOURCE.joinpath(*name.split(".")[1:])
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    tree = ast.parse(path.read_text())
    module = importlib.import_module(name)
    stated = getattr(module, "__all__", None)
    if path.name == "__init__.py":
        lazy = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
        helpers = ("__future__", "typing", "periplus.base.lazy_package") if lazy else ("__future__",)
        bound = {alias.asname or alias.name for node in (*tree.body, *(inner for one in lazy for inner in one.body))
                 if isinstance(node, ast.ImportFrom) for alias in node.names if node.module not in helpers}  # fmt: skip
        for one in lazy:  # what type checkers see and what is found at run time come of the same modules
            for node in one.body:
                for alias in node.names:
                    assert getattr(module, alias.name) is getattr(importlib.import_module(node.module), alias.name)
                    assert not path.with_name(f"{alias.name}.py").exists(), "a submodule would hide the name"
        assert stated is not None or not bound
        assert set(stated or ()) == bound
        extra = [node for node in tree.body if not isinstance(node, ast.ImportFrom | ast.Expr | ast.Assign)]
        assert extra == lazy
    else:
        assert stated is not None
        assert all(hasattr(module, public) for public in stated)
    assert len(set(stated or ())) == len(stated or ())


@pytest.mark.slow
def test_importing_has_no_side_effects():
    code = (
        "import sys, os, threading\nbefore = set(os.listdir('.'))\n"
        f"for name in {MODULES!r}:\n    __import__(name)\n"
        "assert threading.active_count() == 1\nassert set(os.listdir('.')) == before\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.fixture(scope="module")
def imports():
    """Each module with those that it imports: in functions and for annotations, too."""
    import grimp

    graph = grimp.build_graph("periplus", cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def test_no_module_imports_itself_through_others(imports):
    assert len(imports) > 800
    tuple(TopologicalSorter(imports).static_order())  # a circle raises CycleError, which names it


def test_an_import_circle_would_be_found(imports):
    changed = {**imports, "periplus.merkle.tree": {*imports["periplus.merkle.tree"], "periplus.journal.journal"}}
    with pytest.raises(CycleError):
        tuple(TopologicalSorter(changed).static_order())


def test_no_folder_holds_more_than_22_modules():
    counts = Counter(path.parent for path in SOURCE.rglob("*.py") if path.name != "__init__.py")
    assert {str(folder.relative_to(SOURCE)): count for folder, count in counts.items() if count > 22} == {}


def test_every_package_says_what_is_in_it():
    silent = [path for path in SOURCE.rglob("__init__.py") if not ast.get_docstring(ast.parse(path.read_text()))]
    assert silent == []


def test_no_file_is_longer_than_the_house_allows():
    long = {str(path.relative_to(SOURCE)): count for path in SOURCE.rglob("*.py")
            if (count := path.read_text().count("\n")) > 750}  # fmt: skip
    assert long == {}


def test_no_function_is_longer_than_the_house_allows():
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    long = {f"{path.relative_to(SOURCE)}:{node.name}": length for path in SOURCE.rglob("*.py")
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, functions) and (length := node.end_lineno - node.lineno + 1) > 70}  # fmt: skip
    assert long == {}


_REPEATED_GROUP = re.compile(r"(?<!\\)\)(?:[+*?]\+|\{[0-9]*,?[0-9]*\}\+)")


def possessive_groups(source):
    """Where a text of ``source`` repeats a group possessively."""
    for node in ast.walk(ast.parse(source)):
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        texts = [part.value if isinstance(part, ast.Constant) else "(?:)" for part in parts]
        text = "".join(one.decode("latin-1") if isinstance(one, bytes) else str(one) for one in texts)
        if _REPEATED_GROUP.search(text) and ("(?" in text or text.startswith(")")):
            yield node.lineno


@pytest.mark.slow
def test_no_group_is_repeated_possessively():
    """Python below 3.11.5 does it in a wrong way (cpython#106052, cpython#100061): an atomic group around a greedy repetition it does
    right. One character may be repeated possessively.
    """
    found = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in SOURCE.rglob("*.py")
        for line in possessive_groups(path.read_text())
    ]
    assert not found


@pytest.mark.parametrize(
    "source",
    [
        "r'(?:ab?c|d)*+'",
        "rb'(?:ab)++'",
        "rf'(?:a{x}b){{0,3}}+'",
        "rf'(?:a){x}?+'",
        "r'a(?:b' r'c)?+'",
        "r'(?:' + x + r')*+'",
    ],
)
def test_a_group_that_is_repeated_possessively_would_be_found(source):
    assert list(possessive_groups(f"x = ''\nmatch = {source}")) == [2]


@pytest.mark.slow
def test_only_faces_read_the_environment():
    """Libraries receive values: os.environ, getcwd, argv and the home folder are the command line's business."""
    readers = []
    for path in SOURCE.rglob("*.py"):
        place = path.relative_to(SOURCE)
        if place.parts[0] == "cli" or str(place) in ALLOWED:
            continue
        names = {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
        readers += [f"{place}: {name}" for name in names & {"environ", "getcwd", "expanduser", "getenv"}]
    assert readers == []


@pytest.mark.parametrize(
    "thread", ["", "threading.Thread(target=lambda: (threading.main_thread().join(), print('thread'))).start()"]
)
def test_a_command_that_is_done_leaves_at_once_and_still_does_what_was_asked_for_at_its_end(tmp_path, thread):
    """Nothing is taken apart; but what has to be done at the end is, a thread is waited for, and the output is whole."""
    code = (
        f"import atexit, sys, threading\nfrom periplus.cli import main\natexit.register(print, 'end')\n"
        "class Taken:\n    def __del__(self):\n        print('taken apart')\n"
        f"main.kept = Taken()\n{thread}\nsys.argv[1:] = ['check', 'a', '--store', {str(tmp_path)!r}]\nmain.run()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], input="", capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith("periplus: ")
    wanted = ["thread", "end", "taken apart"] if thread else ["end"]
    assert done.stdout.split("\n") == [*wanted, ""]
