"""Mutation tests: shows whether the protection by the test suite fell when the suite was reorganised.

``sample`` draws mutants once. ``reach`` runs the suite once and records which tests reach which of their functions, also in
child processes. ``run`` applies each mutant and runs tests that reach its function until one fails. ``report`` compares
two results::

    python -m bench.mutants sample --count 320 --seed 1 --out bench/data/mutants.json
    python -m bench.mutants reach --out build/reach.json -- -n 2
    python -m bench.mutants run --reach build/reach.json --out build/after.json
    python -m bench.mutants report build/before.json build/after.json

``--checkout DIR --python PATH`` measures another revision: ``reach`` and ``run`` must be given the same ones.

A test that fails on a mutant is run alone on the unchanged source before it counts; one that fails there as well is
dropped and named. Not seen by ``reach``, and therefore perhaps a survivor too many: values that a process keeps for
later tests other than in a fixture, and children in a process namespace of their own or started by none of ours.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import queue
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench import mutants_probe
from bench.mutants_overlay import Overlay
from bench.mutants_sample import PACKAGES, Mutant, Place, draw, functions, index, locate, mutated
from bench.samples import REPOSITORY

SAMPLE: Final = os.path.join(REPOSITORY, "bench", "data", "mutants.json")
_CHUNKS_S: Final = (4.0, 12.0, 36.0, 108.0)  # recorded time of the tests that are run by one process, growing
_TIMEOUT_S: Final = 30.0
_TIMEOUT_FACTOR: Final = 5.0  # of the recorded time: the machine may be busier than it was
_IMPORT_FAILED: Final = "(import)"


class Case(NamedTuple):
    id: str
    seconds: float
    cost: float  # with its part of the import of its file
    passed: bool  # on the instrumented source

    @property
    def file(self) -> str:
        return self.id.partition("::")[0]


def sample(arguments: argparse.Namespace) -> int:
    mutants = draw(os.path.join(arguments.checkout, "src", "periplus"), arguments.count, arguments.seed)
    _keep(arguments.out, {"seed": arguments.seed, "mutants": [mutant._asdict() for mutant in mutants]})
    print(f"{len(mutants)} mutants in {len({mutant.function for mutant in mutants})} functions")
    return 0


def reach(arguments: argparse.Namespace) -> int:
    """Run the suite on an instrumented copy, and write which tests reach which function."""
    names = sorted({mutant.function for mutant in _sample(arguments.sample)})
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        overlay = Overlay(folder, arguments.checkout, arguments.python)
        known, marks = index(overlay.sources), dict[str, list[tuple[int, int]]]()
        for mutant in {mutant.function: mutant for mutant in _sample(arguments.sample)}.values():
            if place := locate(mutant, known):
                marks.setdefault(place.path, []).append((place.start, names.index(mutant.function)))
        for path, places in marks.items():
            overlay.write(path, instrumented(overlay.read(path), dict(places)))
        notes = os.path.join(overlay.packages, os.path.basename(mutants_probe.FOLDER))
        os.mkdir(notes)
        Path(overlay.packages, "mutants_probe.py").write_bytes(Path(mutants_probe.__file__).read_bytes())
        with open(os.path.join(overlay.packages, "periplus.pth"), "a", encoding="utf-8") as file:
            file.write("import mutants_probe\n")
        run = overlay.pytest(arguments.arguments, is_shown=True)
        found = _merged(run.rows, _children(notes))
    _keep(arguments.out, {"functions": names, **found})
    reached = {number for test in found["tests"].values() for number in test["functions"]}
    print(f"{len(found['tests'])} tests reach {len(reached)} of {len(names)} functions")
    return 0 if run.code in (0, 1) else 1


def instrumented(source: bytes, numbers: dict[int, int]) -> bytes:
    """The source with a note as first statement of each function that starts at a key of ``numbers``."""
    edits = []
    for function in functions("", source):
        if function.start in numbers:
            body = function.node.body
            has_docstring = ast.get_docstring(function.node, clean=False) is not None
            first = body[1 if has_docstring and len(body) > 1 else 0]
            line = min(node.lineno for node in (first, *getattr(first, "decorator_list", ())))
            at = sum(map(len, source.splitlines(keepends=True)[: line - 1])) + first.col_offset
            lead = source[source.rfind(b"\n", 0, at) + 1 : at]
            note = b"%d in REACHED or REACH(%d)" % (numbers[function.start], numbers[function.start])
            edits.append((at, note + (b"; " if lead.strip() else b"\n" + lead)))
    for at, text in sorted(edits, reverse=True):
        source = source[:at] + text + source[at:]
    return source


def _children(notes: str) -> dict[str, set[int]]:
    """The functions that child processes noted, by the key of what started them."""
    found: dict[str, set[int]] = {}
    for path in Path(notes).glob("child-*"):
        for line in path.read_text(encoding="ascii").splitlines():
            key, _, number = line.partition(" ")
            if number.isdigit():
                found.setdefault(key, set()).add(int(number))
    return found


def _merged(rows: Iterable[dict[str, Any]], children: dict[str, set[int]]) -> dict[str, Any]:
    """Tests with the functions that they reach: in their process and its children, shared fixtures, the import."""
    reached: dict[str, set[int]] = {}
    imports: dict[str, set[int]] = {}
    files: dict[str, float] = {}
    ended = []
    for row in rows:
        if "key" in row:
            reached[row["key"]] = {*row["functions"], *children.get(row["key"], ())}
        if "file" in row:
            imports.setdefault(row["file"], set()).update(reached[row["key"]])
            files[row["file"]] = max(row["s"], files.get(row["file"], 0.0))
        elif "id" in row:
            ended.append(row)
    tests = {}
    for row in sorted(ended, key=lambda row: row["id"]):
        own = reached[row["key"]].union(*(reached.get(key, ()) for key in row["fixtures"]))
        own |= imports.get(row["id"].partition("::")[0], set())
        if row["outcome"] != "skipped":
            tests[row["id"]] = {
                "s": row["s"], "passed": row["outcome"] == "passed", "marks": row["marks"], "functions": sorted(own),
            }  # fmt: skip
    return {"files": files, "tests": tests}


class Runs:
    """The mutants of a sample on the tests of a suite. Results are written as they come."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self._out = arguments.out
        self._lock = threading.Lock()
        self._tier, _, marks = arguments.tier.partition("=")
        self._tests = _tests_by_function(_load(arguments.reach), marks)
        self._killers = _load(arguments.tests_from)["mutants"] if arguments.tests_from else {}
        self.result: dict[str, Any] = {"tier": self._tier, "seconds": arguments.seconds, "mutants": {}, "dropped": [], "passed": []}  # fmt: skip
        if os.path.exists(self._out):
            self.result = _load(self._out)
            if (self.result["tier"], self.result["seconds"]) != (self._tier, arguments.seconds):
                raise SystemExit(f"{self._out} has results of another tier or budget: name another file")

    def all(self) -> bool:
        """Run what has no result yet; an interrupt ends after the mutants that are being run. True if all have one."""
        only = set(self.arguments.only.split(",")) - {""}
        waiting: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
        for mutant in _sample(self.arguments.sample):
            if mutant.id not in self.result["mutants"] and (not only or mutant.id in only):
                waiting.put(mutant)
        count = len(self.result["mutants"]) + waiting.qsize()
        workers = [threading.Thread(target=self._work, args=(waiting,)) for _ in range(self.arguments.jobs)]
        for worker in workers:
            worker.start()
        try:
            for worker in workers:
                worker.join()
        except KeyboardInterrupt:
            while not waiting.empty():
                waiting.get_nowait()
            raise
        return count == len(self.result["mutants"])

    def _work(self, waiting: queue.SimpleQueue[Mutant]) -> None:
        with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
            overlay = Overlay(folder, self.arguments.checkout, self.arguments.python)
            known = index(overlay.sources)
            while not waiting.empty():
                try:
                    mutant = waiting.get_nowait()
                except queue.Empty:
                    return
                begun, place = time.monotonic(), locate(mutant, known)
                found: dict[str, Any] = {"state": "not comparable"}
                if place:
                    found = self._one(overlay, mutant, place)
                found["took_s"] = round(time.monotonic() - begun, 1)
                with self._lock:
                    self.result["mutants"][mutant.id] = found
                    _keep(self._out, self.result)
                    print(f"{mutant.id}: {found['state']} {found.get('by', '')} ({found['took_s']} s)", flush=True)

    def _one(self, overlay: Overlay, mutant: Mutant, place: Place) -> dict[str, Any]:
        tests = self._chosen(overlay, mutant)
        if not tests:
            return {"state": "not reached"}
        source = overlay.read(place.path)
        changed = mutated(mutant, source, place.start)
        done: set[str] = set()
        for chunk in _chunks(tests):
            while left := [test for test in chunk if test.id not in done and test.id not in self.result["dropped"]]:
                overlay.write(place.path, changed)
                try:
                    killer, passed, is_late = self._run(overlay, left)
                finally:
                    overlay.write(place.path, source)
                done |= passed
                if killer is None:
                    break
                if self._is_sound(overlay, killer, left):
                    return {"state": "killed", "by": killer, "tests": len(done) + 1, "is_late": is_late}
        return {"state": "survived", "tests": len(done)}

    def _chosen(self, overlay: Overlay, mutant: Mutant) -> list[Case]:
        """The tests to run, cheapest first, within the budget; before them the one that killed in another result."""
        known = self._tests.get(mutant.function, [])
        first = self._killers.get(mutant.id, {}).get("by", _IMPORT_FAILED)
        tests = [test for test in known if test.id == first] or [Case(first, 1.0, 1.0, passed=True)]
        tests += sorted((test for test in known if test.id != first), key=lambda test: (not test.passed, test.cost))
        spent, chosen = 0.0, []
        for test in tests:
            if os.path.exists(os.path.join(overlay.root, test.file)) and (spent < self.arguments.seconds):
                spent += test.seconds
                chosen.append(test)
        return chosen

    @staticmethod
    def _run(overlay: Overlay, tests: list[Case]) -> tuple[str | None, set[str], bool]:
        """The test that failed, those that passed, and whether the time was over; tests that are no more are passed."""
        plan = os.path.join(overlay.folder, "plan.json")
        _keep(plan, [test.id for test in tests])
        seconds = _TIMEOUT_S + _TIMEOUT_FACTOR * sum(test.cost for test in tests)
        files = sorted({test.file for test in tests})
        run = overlay.pytest(["-x", "--mutants-plan", plan, *files], seconds=seconds)
        passed = {str(row["id"]) for row in run.rows if "id" in row and row["outcome"] != "failed"}
        if run.code in (0, 5):  # 5: none of the tests is there
            return None, passed | {test.id for test in tests}, False
        begun = [str(row["begin"]) for row in run.rows if "begin" in row and row["begin"] not in passed]
        return begun[-1] if begun else _IMPORT_FAILED, passed, run.code is None

    def _is_sound(self, overlay: Overlay, killer: str, tests: list[Case]) -> bool:
        """A test that failed on a mutant passes on the unchanged source; else it is dropped."""
        if killer in self.result["passed"]:
            return True
        chosen = [test for test in tests if killer in (test.id, _IMPORT_FAILED)]
        failed, _, _ = self._run(overlay, chosen)
        with self._lock:
            if failed is None and killer != _IMPORT_FAILED:
                self.result["passed"].append(killer)
            elif failed is not None:
                self.result["dropped"] += [failed] if failed != _IMPORT_FAILED else [test.id for test in chosen]
        return failed is None


def _chunks(tests: list[Case]) -> Iterator[list[Case]]:
    sizes, chunk = iter(_CHUNKS_S), list[Case]()
    room = next(sizes)
    for test in tests:
        chunk.append(test)
        room -= test.cost
        if room <= 0:
            yield chunk
            chunk, room = [], next(sizes, _CHUNKS_S[-1])
    if chunk:
        yield chunk


def _tests_by_function(reached: dict[str, Any], marks: str) -> dict[str, list[Case]]:
    from _pytest.mark.expression import Expression

    is_chosen = Expression.compile(marks).evaluate if marks else lambda _: True
    found: dict[str, list[Case]] = {}
    rows = [
        (name, name.partition("::")[0], row)
        for name, row in reached["tests"].items()
        if is_chosen(lambda mark, row=row, **_: mark in row["marks"])
    ]
    sizes = Counter((file, number) for _, file, row in rows for number in row["functions"])
    for name, file, row in rows:
        for number in row["functions"]:
            cost = row["s"] + reached["files"].get(file, 0.0) / sizes[file, number]
            found.setdefault(reached["functions"][number], []).append(Case(name, row["s"], cost, row["passed"]))
    return found


def run(arguments: argparse.Namespace) -> int:
    runs = Runs(arguments)
    is_complete = runs.all()
    states = Counter(row["state"] for row in runs.result["mutants"].values())
    print(", ".join(f"{count} {state}" for state, count in sorted(states.items())))
    for name in runs.result["dropped"]:
        print(f"dropped, fails on the unchanged source: {name}")
    return 0 if is_complete else 1


def report(arguments: argparse.Namespace) -> int:
    """The table, the survivors, and the mutants that only the earlier suite killed; fails if there are such."""
    before, after = (_load(path)["mutants"] for path in (arguments.before, arguments.after))
    mutants = _sample(arguments.sample)
    lines, lost = report_lines(mutants, before, after)
    print("\n".join(lines))
    return 1 if lost else 0


def report_lines(mutants: list[Mutant], before: dict[str, Any], after: dict[str, Any]) -> tuple[list[str], list[str]]:
    def is_killed(result: dict[str, Any], mutant: Mutant) -> bool:
        return result.get(mutant.id, {}).get("state") == "killed"

    def place(mutant: Mutant) -> str:
        texts = (" ".join(text.split())[:60].replace("|", "\\|") for text in (mutant.before, mutant.after))
        return f"{mutant.id} `{mutant.path}:{mutant.line}` {mutant.qualname}, {mutant.operator}: " + " → ".join(map("`{}`".format, texts))  # fmt: skip

    both = [one for one in mutants if all(side.get(one.id, {}).get("state", "not comparable") != "not comparable" for side in (before, after))]  # fmt: skip
    lines = ["| package | mutants | killed before | killed after |", "| --- | ---: | ---: | ---: |"]
    for package in (*PACKAGES, "all"):
        chosen = [one for one in both if package in ("all", one.package)]
        counts = (len(chosen), *(sum(is_killed(side, one) for one in chosen) for side in (before, after)))
        lines.append(f"| {package} | " + " | ".join(map(str, counts)) + " |")
    lost = [place(one) for one in both if is_killed(before, one) and not is_killed(after, one)]
    left = [f"{place(one)} ({after[one.id]['state']})" for one in both if not is_killed(after, one)]
    apart = [one.id for one in mutants if one not in both]
    for title, rows in (("Killed before, not after", lost), ("Survivors", left), ("Not comparable, or not run", apart)):
        lines += ["", f"**{title}: {len(rows)}**", "", *(f"- {row}" for row in rows)]
    return lines, lost


def _sample(path: str) -> list[Mutant]:
    return [Mutant(**row) for row in _load(path)["mutants"]]


def _load(path: str) -> Any:
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def _keep(path: str, document: Any) -> None:
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path + ".new", "w", encoding="utf-8") as file:
        text = json.dumps(document, ensure_ascii=False)
        for start in ('{"id": ', '"tests": ', '"dropped": '):  # a line for each mutant: for a diff
            text = text.replace(f", {start}", f",\n{start}")
        file.write(text + "\n")
    os.replace(path + ".new", path)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.mutants", description="Mutation tests of the test suite.")
    commands = parser.add_subparsers(required=True)
    for task in (sample, reach, run, report):
        command = commands.add_parser(task.__name__)
        command.set_defaults(task=task)
        if task is not sample:
            command.add_argument("--sample", default=SAMPLE, metavar="FILE", help="the mutants")
        if task is not report:
            command.add_argument("--checkout", default=REPOSITORY, metavar="DIR", help="the revision to measure")
            command.add_argument("--out", required=True, metavar="FILE")
        if task in (reach, run):
            command.add_argument("--python", default=sys.executable, metavar="PATH", help="an interpreter with the packages for it")  # fmt: skip
        if task is sample:
            command.add_argument("--count", type=int, default=320)
            command.add_argument("--seed", type=int, default=1)
        elif task is reach:
            command.add_argument("arguments", nargs="*", metavar="PYTEST-ARGUMENT", help="after --")
        elif task is run:
            command.add_argument("--reach", required=True, metavar="FILE")
            command.add_argument("--tier", default="all", metavar="NAME=EXPRESSION", help="tests with these markers")
            command.add_argument("--jobs", type=int, default=2)
            command.add_argument("--seconds", type=float, default=60.0, help="recorded time of tests for each mutant")
            command.add_argument("--only", default="", metavar="IDS", help="these mutants, with commas between them")
            command.add_argument("--tests-from", metavar="FILE", help="try first what killed in this result")
        else:
            command.add_argument("before")
            command.add_argument("after")
    arguments = parser.parse_args(words)
    result: int = arguments.task(arguments)
    return result


if __name__ == "__main__":
    sys.exit(main())
