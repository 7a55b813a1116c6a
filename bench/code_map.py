"""The code map: how long it takes to index, to notice a change, to answer, and how much room it takes, each beside the bare work.

* Cold: the index of a mixed repository from nothing, beside a process that reads and parses the same files and does nothing with the trees.
* Fresh: a look at a repository in which nothing changed beside ``git status``, and the whole command ``periplus code find`` after a
  change of one file beside an interpreter that does nothing.
* Asked: questions to the index as it is, beside a SELECT of one row by its name. They do not bring the view up to date first: what that
  takes is the row beside ``git status``. Each question has a view of its own, whose caches are empty.
* Map: a ranked map beside that of aider, where a program of this name is on the path.
* Memory: of all processes together; pages that they share count once.
* Size: the file of the index by its parts beside the bytes of the sources.
"""

from __future__ import annotations

__all__ = ["measure"]

import itertools
import json
import os
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from bench.code_corpus import Corpus, changed_file, mixed_corpus, module_corpus
from bench.measure import Bench, Figure, Row, figure, in_turn, pooled, row
from bench.processes import Spent, checked_run, environment, module_command, periplus_command, run_child, spend
from bench.samples import REPOSITORY
from periplus.base.clock import SystemClock
from periplus.base.files import Files
from periplus.code.code_map import CodeMap
from periplus.code.index.database import Database
from periplus.code.queries.impact import impact_of
from periplus.code.queries.references import places_of
from periplus.code.queries.symbol_lookup import symbols_named
from periplus.code.queries.symbol_search import find_symbols
from periplus.code.queries.view import CodeView
from periplus.journal import create_store
from periplus.journal.storage.layout import Layout

_PART: Final = "code-map"
_CHILD: Final = "bench.code_child"
_FUNCTIONS: Final = 20
_MB: Final = 1e6
_LOOK_S: Final = 0.02
_WAIT_S: Final = 86_400.0
_STATUS: Final = ("status", "--porcelain")
_SELECT: Final = "SELECT d.blob FROM name n JOIN definition d ON d.name = n.id WHERE n.text = ? LIMIT 1"
_PARSED: Final = "SELECT f.path, e.name FROM entry e JOIN folder f ON f.id = e.folder JOIN blob b ON b.id = e.blob WHERE b.facts IS NOT NULL"
_PARTS: Final = {
    "blob": "facts", "name": "names", "name_folded": "names", "name_unread": "names", "sqlite_autoindex_name_1": "names",
    "definition": "definitions", "mention": "mentions", "package": "definitions", "entry": "files", "entry_name": "files", "entry_blob": "files",
    "entry_state": "files", "entry_stamp": "files", "folder": "files", "folder_base": "files",
}  # fmt: skip
_SHOWN: Final = ("facts", "names", "definitions", "mentions", "files", "graph", "search for names")
# aider's map of a repository: its own classes, as its commands use them, without a model.
_AIDER: Final = """
import json, resource, sys, time
from aider.io import InputOutput
from aider.repomap import RepoMap
root, budget = sys.argv[1], int(sys.argv[2])
files = json.load(open(sys.argv[3]))
class Counter:
    info = {}
    def token_count(self, text):
        return len(text) // 4
begun, used = time.perf_counter(), time.process_time()
found = RepoMap(map_tokens=budget, root=root, main_model=Counter(), io=InputOutput(pretty=False, yes=True), map_mul_no_files=1).get_repo_map([], files)
print(json.dumps({"wall_s": time.perf_counter() - begun, "cpu_s": time.process_time() - used, "found": len(found or "")}))
"""


def measure(bench: Bench) -> Iterator[Row]:
    mixed = mixed_corpus(os.path.join(bench.folder, "mixed"), bench.size(5_000, 60))
    bench.say(f"{len(mixed.paths):,} mixed files, {mixed.size_bytes / _MB:.1f} MB")
    yield from _cold(bench, mixed)
    yield from _size(bench, mixed)
    shutil.rmtree(mixed.root)
    modules = module_corpus(os.path.join(bench.folder, "modules"), bench.size(10_000, 60), _FUNCTIONS)
    bench.say(f"{len(modules.paths):,} modules")
    store = create_store(os.path.join(modules.root, ".periplus"), Files(), SystemClock()).root
    index = Layout(store).code
    run_child("link", modules.root, index, module=_CHILD)
    yield from _unchanged(bench, modules, index)
    yield from _one_changed(bench, modules)
    yield from _map(bench, modules, index)
    if bench.is_full:
        shutil.rmtree(modules.root)
        modules = module_corpus(os.path.join(bench.folder, "many"), 50_000, _FUNCTIONS)
    index = os.path.join(bench.folder, "large", "code.sqlite")
    yield from _memory(bench, modules, index)
    yield from _asked(bench, modules, index)


# ---- from nothing


def _cold(bench: Bench, corpus: Corpus) -> Iterator[Row]:
    numbers = itertools.count()
    first = os.path.join(bench.folder, "cold", "code.sqlite")
    run_child(
        "index", corpus.root, first, module=_CHILD
    )  # which files are parsed; it also brings all of them into the page cache
    database = sqlite3.connect(first)
    parsed = sorted(f"{folder}/{name}" for folder, name in database.execute(_PARSED))
    database.close()
    listed = os.path.join(bench.folder, "parsed.json")
    with open(listed, "w", encoding="utf-8") as file:
        json.dump(parsed, file)

    def indexed() -> dict[str, Any]:
        folder = os.path.join(bench.folder, f"cold{next(numbers)}")
        try:
            return run_child("index", corpus.root, os.path.join(folder, "code.sqlite"), module=_CHILD)
        finally:
            shutil.rmtree(folder)

    def linked() -> dict[str, Any]:
        folder = os.path.join(bench.folder, f"cold{next(numbers)}")
        place = os.path.join(folder, "code.sqlite")
        try:
            os.mkdir(folder)
            shutil.copyfile(first, place)
            return run_child("link", corpus.root, place, module=_CHILD)
        finally:
            shutil.rmtree(folder)

    bare = partial(run_child, "parse", corpus.root, listed, module=_CHILD)
    found = in_turn(bench.size(3, 1), {"index": indexed, "graph": linked, "bare": bare}, collect=False)
    for what, key in (("wall", "wall_s"), ("CPU", "cpu_s")):
        for side, label in (("index", "cold index"), ("graph", "the graph")):
            ours, bare_s = (figure([one[key] for one in found[name]]) for name in (side, "bare"))
            yield row(
                _PART,
                f"{label} of {len(corpus.paths):,} mixed files, {what}",
                "s",
                ours,
                "bare parse, one process",
                bare_s,
            )


def _size(bench: Bench, corpus: Corpus) -> Iterator[Row]:
    index = os.path.join(bench.folder, "cold", "code.sqlite")
    plain = _file_size(index)
    run_child("link", corpus.root, index, module=_CHILD)
    with CodeMap(corpus.root, index, environment=environment()) as code_map:
        code_map.find("anything")
    database = sqlite3.connect(index)
    sizes = dict.fromkeys(_SHOWN, 0)
    try:
        for name, size in database.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name"):
            sizes[_part(name)] += size
    except sqlite3.OperationalError:
        bench.say("sizes of parts left out: this SQLite has no dbstat")
        sizes.clear()
    database.close()
    with CodeMap(corpus.root, index, environment=environment(), budget_s=_WAIT_S) as code_map:
        code_map.search("anything at all")
    whole = _file_size(index)
    totals = {
        "index, facts of files": plain,
        **{f"index, {part}": size for part, size in sizes.items()},
        "index, with graph and both search tables": whole,
    }
    for what, size in totals.items():
        yield row(_PART, what, "MB", _alone(size / _MB), "source", _alone(corpus.size_bytes / _MB))


def _part(table: str) -> str:
    """Return the part of the index that a table or index of SQLite belongs to; the rest of them is the graph's."""
    if table.startswith(("sqlite_", "view", "searchable", "symbol_words")) and table not in _PARTS:
        return "files"
    return _PARTS.get(table, "search for names" if table.startswith("symbol_name") else "graph")


def _file_size(index: str) -> int:
    return sum(os.path.getsize(index + ending) for ending in ("", "-wal") if os.path.exists(index + ending))


def _alone(value: float) -> Figure:
    return Figure(value, value, value)


# ---- as it is, and with one change


def _unchanged(bench: Bench, corpus: Corpus, index: str) -> Iterator[Row]:
    git = shutil.which("git") or "git"
    status = [git, *_STATUS]

    def look() -> Spent:
        begun, cpu = time.perf_counter(), _cpu_s()
        with CodeMap(corpus.root, index, environment=environment()) as code_map:
            code_map.view()
            assert not code_map.freshness.changed
        return Spent(time.perf_counter() - begun, _cpu_s() - cpu)

    outline = [*periplus_command(), "code", "outline", corpus.paths[-1]]
    sides: dict[str, Callable[[], Spent]] = {
        "look": look, "outline": partial(spend, outline, cwd=corpus.root), "status": partial(spend, status, cwd=corpus.root),
    }  # fmt: skip
    for side in sides.values():  # git's index is as old as its files: the first look at it reads them
        side()
    spend([git, "update-index", "--refresh"], cwd=corpus.root)
    found = in_turn(bench.size(15, 2), sides)
    for side, what in (("look", "a look in process"), ("outline", "periplus code outline")):
        for at, kind in enumerate(("wall", "CPU")):
            ours, theirs = (figure([one[at] * 1e3 for one in found[name]]) for name in (side, "status"))
            yield row(
                _PART, f"nothing changed, {len(corpus.paths):,} files, {what}, {kind}", "ms", ours, "git status", theirs
            )


def _one_changed(bench: Bench, corpus: Corpus) -> Iterator[Row]:
    find, nothing = [*periplus_command(), "code", "find"], [sys.executable, "-c", "pass"]
    numbers = itertools.count()

    def ask() -> Spent:
        return spend([*find, changed_file(corpus, next(numbers))], cwd=corpus.root)

    ask()
    found = in_turn(bench.size(15, 2), {"find": ask, "nothing": partial(spend, nothing)}, collect=False)
    for at, kind in enumerate(("wall", "CPU")):
        ours, theirs = (figure([one[at] * 1e3 for one in found[name]]) for name in ("find", "nothing"))
        yield row(
            _PART,
            f"one of {len(corpus.paths):,} files changed, periplus code find, {kind}",
            "ms",
            ours,
            "python -c pass",
            theirs,
        )


def _cpu_s() -> float:
    return sum(
        used.ru_utime + used.ru_stime
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        for used in [resource.getrusage(who)]
    )


# ---- beside aider


def _map(bench: Bench, corpus: Corpus, index: str) -> Iterator[Row]:
    aider = shutil.which("aider")
    if aider is None:
        bench.say("map left out: aider is not on the path")
        return
    listed = os.path.join(bench.folder, "files.json")
    with open(listed, "w", encoding="utf-8") as file:
        json.dump([os.path.join(corpus.root, path) for path in corpus.paths], file)
    interpreter = os.path.join(os.path.dirname(os.path.realpath(aider)), "python")

    def theirs() -> dict[str, Any]:
        done = checked_run([interpreter, "-c", _AIDER, corpus.root, "4000", listed])
        found: dict[str, Any] = json.loads(done.stdout.strip().rpartition("\n")[2])
        return found

    bench.say("aider parses the repository; what is measured comes after that")
    theirs()
    found = in_turn(
        bench.size(3, 1),
        {"ours": partial(run_child, "map", corpus.root, index, module=_CHILD), "aider": theirs},
        collect=False,
    )
    for what, key in (("wall", "wall_s"), ("CPU", "cpu_s")):
        ours, other = (figure([one[key] for one in found[side]]) for side in ("ours", "aider"))
        yield row(_PART, f"map of {len(corpus.paths):,} files in 4,000 tokens, {what}", "s", ours, "aider's map", other)


# ---- memory


def _memory(bench: Bench, corpus: Corpus, index: str) -> Iterator[Row]:
    bench.say(f"{len(corpus.paths):,} files from nothing")
    least = _alone(_peak_bytes([sys.executable, "-c", "import time; time.sleep(0.2)"], corpus.root) / _MB)
    peak = _alone(_peak_bytes(module_command(_CHILD, "index", corpus.root, index), REPOSITORY) / _MB)
    yield row(_PART, f"memory to index {len(corpus.paths):,} files", "MB", peak, "python -c pass", least)
    bench.say("its graph")
    linked = _alone(_peak_bytes(module_command(_CHILD, "link", corpus.root, index), REPOSITORY) / _MB)
    yield row(_PART, f"memory to make the graph of {len(corpus.paths):,} files", "MB", linked, "python -c pass", least)
    name = _names(index, 1)[0]
    store = os.path.join(corpus.root, ".periplus")
    place = (
        Layout(store).code if os.path.isdir(store) else Layout(create_store(store, Files(), SystemClock()).root).code
    )
    os.makedirs(os.path.dirname(place), exist_ok=True)
    shutil.copyfile(index, place)
    for words in (("find", name), ("refs", name), ("impact", name)):
        asked = _alone(_peak_bytes([*periplus_command(), "code", *words], corpus.root) / _MB)
        yield row(
            _PART, f"memory to ask, {words[0]}, {len(corpus.paths):,} files", "MB", asked, "python -c pass", least
        )


def _peak_bytes(argv: Sequence[str], cwd: str) -> int:
    """Return the most memory that a process and its children had at one time; what they share counts once."""
    with subprocess.Popen(argv, cwd=cwd, env=environment(), stdout=subprocess.DEVNULL) as process:
        peak = 0
        while process.poll() is None:
            held = [_resident_bytes(pid) for pid in _with_children(process.pid)]
            peak = max(peak, sum(own for own, _ in held) + max(shared for _, shared in held))
            time.sleep(_LOOK_S)
    if process.returncode:
        raise RuntimeError(f"{' '.join(argv)} ended with {process.returncode}")
    return peak or resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _with_children(pid: int) -> Iterator[int]:
    yield pid
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            inner = file.read().split()
    except OSError:
        return
    for one in inner:
        yield from _with_children(int(one))


def _resident_bytes(pid: int) -> tuple[int, int]:
    """Return the memory that a process has for itself, and the memory that it shares, as files of programs are."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            found = {words[0]: int(words[1]) * 1024 for line in file if len(words := line.split()) == 3}
    except OSError:
        return 0, 0  # it has ended
    shared = found.get("Shared_Clean:", 0) + found.get("Shared_Dirty:", 0)
    return found.get("Rss:", 0) - shared, shared


# ---- questions


def _asked(bench: Bench, corpus: Corpus, index: str) -> Iterator[Row]:
    database = Database(index)
    view_id, symbols = (
        database.execute("SELECT max(id) FROM view").fetchone()[0],
        database.execute("SELECT count(*) FROM definition").fetchone()[0],
    )
    names = _names(index, bench.size(60, 10))

    def view() -> CodeView:
        return CodeView(database, view_id, corpus.root)

    def refs(name: str) -> object:
        asked = view()
        return [places_of(asked, symbol) for symbol in symbols_named(asked, name)]

    def impact(name: str) -> object:
        asked = view()
        return impact_of(asked, symbols_named(asked, name))

    questions: dict[str, Callable[[str], object]] = {
        "find": lambda name: find_symbols(view(), name, ("", "", ""), (0, 30)),
        "find, its beginning": lambda name: find_symbols(view(), name[:-2], ("", "", ""), (0, 30)),
        "refs": refs,
        "impact": impact,
        "select": lambda name: database.execute(_SELECT, (name,)).fetchall(),
    }
    bench.say(f"{symbols:,} symbols; the first question takes their names in")
    questions["find"](names[0])
    found = in_turn(bench.size(3, 1), {what: partial(_times, ask, names) for what, ask in questions.items()})
    for what in questions:
        for share, label in ((0.5, "p50"), (0.95, "p95")) if what != "select" else ():
            ours, theirs = (pooled(found[side], share).scaled(1e3) for side in (what, "select"))
            yield row(_PART, f"{what}, {_rounded(symbols)} symbols, {label}", "ms", ours, "bare SELECT", theirs)
    database.close()


def _times(ask: Callable[[str], object], names: Sequence[str]) -> list[float]:
    found: list[float] = []
    for name in names:
        begun = time.perf_counter()
        ask(name)
        found.append(time.perf_counter() - begun)
    return found


def _names(index: str, count: int) -> list[str]:
    """Return names of symbols that other files mention."""
    database = sqlite3.connect(index)
    rows = database.execute(
        "SELECT n.text FROM name n WHERE is_defined AND EXISTS (SELECT 1 FROM mention m WHERE m.name = n.id) ORDER BY n.id"
    )
    names = [name for (name,) in rows]
    database.close()
    return random.Random(17).sample(names, min(count, len(names)))


def _rounded(count: int) -> str:
    return f"{round(count, -3) or count:,}"
