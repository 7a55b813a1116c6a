"""References of the code map beside those of jedi, on packages of this environment: ``python -m bench.code_references_python``.

For symbols drawn at random (seeded) the lines that hold their names are asked for twice: the code map says by grade which of them refer
to the symbol, and jedi's ``goto`` (imports followed) says for each occurrence of the name where it leads. A line on which jedi leads to
the symbol is a reference; one where it leads elsewhere is none; one where it answers nothing or raises is counted apart, since it tells
nothing. The lines of the definition itself are left out. jedi is no truth either: `--disagreements` lists the lines to look at.
"""

from __future__ import annotations

__all__ = ["GRADES", "PACKAGES", "Disagreement", "Report", "measure"]

import argparse
import io
import json
import os
import random
import shutil
import sys
import tempfile
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from multiprocessing import get_context
from typing import Final, Literal, NamedTuple, TypeAlias

from periplus.code.code_map import CodeMap
from periplus.code.queries.references import places_of
from periplus.code.queries.view import CodeView, SymbolId

PACKAGES: Final = (
    "attr", "click", "hypothesis", "jedi", "jinja2", "markdown", "pluggy", "prompt_toolkit", "pygments", "rich",
)  # fmt: skip
GRADES: Final = ("proven", "likely", "named", "none")
SYMBOLS: Final = 600
LINES_MAX: Final = 25
SEED: Final = 20261
_KINDS: Final = frozenset({"function", "method", "class", "value", "field", "property", "type", "constant"})

Verdict: TypeAlias = Literal["reference", "other", "nothing", "error"]


class Disagreement(NamedTuple):
    """A line on which both sides differ; ``landed`` is where jedi leads, empty for the symbol itself."""

    symbol: str
    path: str
    line: int
    grade: str
    landed: str
    text: str


class Report(NamedTuple):
    """Lines counted by (grade of ours, verdict of jedi)."""

    symbols: int
    counts: Mapping[tuple[str, str], int]
    disagreements: Sequence[Disagreement] = ()

    def precision(self, grade: str) -> float:
        """Return the share of lines of ``grade``, in percent, among those that jedi judges."""
        right, wrong = self.counts.get((grade, "reference"), 0), self.counts.get((grade, "other"), 0)
        return 100 * right / (right + wrong) if right + wrong else 100.0

    def recall(self, *grades: str) -> float:
        """Return the share of jedi's references, in percent, that have one of ``grades``."""
        every = sum(self.counts.get((grade, "reference"), 0) for grade in GRADES)
        return 100 * sum(self.counts.get((grade, "reference"), 0) for grade in grades) / every if every else 100.0


class _Sample(NamedTuple):
    """One symbol: the lines of its definitions and those of its class (empty for none), its lines to judge with columns, and our grades."""

    symbol: SymbolId
    own_lines: frozenset[int]
    class_lines: range
    places: tuple[tuple[str, int, tuple[int, ...]], ...]
    grades: Mapping[tuple[str, int], str]


def measure(
    packages: Sequence[str] = PACKAGES,
    *,
    symbols: int = SYMBOLS,
    lines: int = LINES_MAX,
    seed: int = SEED,
    workers: int = 2,
) -> dict[str, Report]:
    """Return a report for each package, over ``symbols`` symbols in all and at most ``lines`` lines of each."""
    share = -(-symbols // len(packages))
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        jobs = {name: pool.submit(_measure_package, name, share, lines, seed) for name in packages}
        return {name: job.result() for name, job in jobs.items()}


def _measure_package(name: str, symbols: int, lines: int, seed: int) -> Report:
    spec = find_spec(name)
    assert spec is not None, name
    assert spec.origin is not None, name
    folder = tempfile.mkdtemp(prefix="code-references-")
    try:
        root = os.path.join(folder, "root")
        shutil.copytree(
            os.path.dirname(spec.origin),
            os.path.join(root, name),
            ignore=shutil.ignore_patterns("__pycache__", "third_party"),
        )
        with CodeMap(root, os.path.join(folder, "index"), environment={}, budget_s=600) as code:
            samples = list(_samples(code.view(), root, symbols, lines, random.Random(f"{seed}:{name}")))
        return _judge(root, samples)
    finally:
        shutil.rmtree(folder)


def _samples(view: CodeView, root: str, symbols: int, lines: int, chance: random.Random) -> Iterator[_Sample]:
    occurrences = _occurrences(root)
    candidates: dict[SymbolId, set[int]] = defaultdict(set)
    for path in sorted({path for found in occurrences.values() for path, _ in found}):
        file = view.file(path)
        for one in file.definitions if file is not None else ():
            if one.kind in _KINDS and not (one.name.startswith("__") and one.name.endswith("__")):
                candidates[SymbolId(path, one.qualified)].add(one.line)
    order = sorted(candidates)
    chance.shuffle(order)
    taken = 0
    for symbol in order:
        own = candidates[symbol]
        found = occurrences.get(symbol.name.rpartition(".")[2], {})
        places = sorted(
            (*place, tuple(columns))
            for place, columns in found.items()
            if place[0] != symbol.path or place[1] not in own
        )
        if not places:
            continue
        chosen = sorted(chance.sample(places, min(lines, len(places))))
        grades: dict[tuple[str, int], str] = {}
        for place in places_of(view, symbol):
            key = (place.path, place.line)
            grades[key] = min(place.grade, grades.get(key, "none"), key=GRADES.index)
        yield _Sample(symbol, frozenset(own), _class_lines(view, symbol), tuple(chosen), grades)
        taken += 1
        if taken == symbols:
            return


def _class_lines(view: CodeView, symbol: SymbolId) -> range:
    found = view.definition(SymbolId(symbol.path, symbol.name.rpartition(".")[0]))
    return (
        range(found[2].start_line, found[2].end_line + 1)
        if found is not None and found[2].kind == "class"
        else range(0)
    )


def _occurrences(root: str) -> dict[str, dict[tuple[str, int], list[int]]]:
    """Return the columns of each name by path and line."""
    found: dict[str, dict[tuple[str, int], list[int]]] = defaultdict(lambda: defaultdict(list))
    for folder, _, names in os.walk(root):
        for name in names:
            if not name.endswith(".py"):
                continue
            whole = os.path.join(folder, name)
            with open(whole, "rb") as file:
                data = file.read()
            try:
                tokens = list(tokenize.tokenize(io.BytesIO(data).readline))
            except (tokenize.TokenError, SyntaxError):
                continue
            for before, token in pairwise(tokens):
                # An overriding method names nothing, though jedi leads from its name to the one that it overrides.
                if token.type == tokenize.NAME and before.string not in ("def", "class"):
                    found[token.string][os.path.relpath(whole, root), token.start[0]].append(token.start[1])
    return found


def _judge(root: str, samples: Sequence[_Sample]) -> Report:
    import jedi

    project = jedi.Project(root, sys_path=[root, *(path for path in sys.path if path)])
    counts: Counter[tuple[str, str]] = Counter()
    disagreements: list[Disagreement] = []
    waiting: dict[str, list[tuple[_Sample, int, tuple[int, ...]]]] = defaultdict(list)
    for sample in samples:
        for path, line, columns in sample.places:
            waiting[path].append((sample, line, columns))
    for path, asked in sorted(waiting.items()):
        script = jedi.Script(path=os.path.join(root, path), project=project)
        text = _lines_of(root, path)
        for sample, line, columns in asked:
            verdict, landed = _verdict(script, root, sample, line, columns)
            grade = sample.grades.get((path, line), "none")
            counts[grade, verdict] += 1
            if (grade in ("proven", "likely") and verdict == "other") or (
                grade in ("named", "none") and verdict == "reference"
            ):
                disagreements.append(
                    Disagreement(str(sample.symbol), path, line, grade, landed, text[line - 1].strip())
                )
    return Report(len(samples), dict(counts), tuple(disagreements))


def _verdict(script: object, root: str, sample: _Sample, line: int, columns: Sequence[int]) -> tuple[Verdict, str]:
    landed = ""
    is_error = False
    for column in columns:
        try:
            names = script.goto(line, column, follow_imports=True)  # type: ignore[attr-defined]
        except Exception:  # noqa: BLE001 - the oracle's own faults, of any kind, are counted
            is_error = True
            continue
        for name in names:
            where = os.path.relpath(str(name.module_path), root) if name.module_path else str(name.module_name)
            if where == sample.symbol.path and _is_own(root, sample, name.line):
                return "reference", ""
            landed = f"{where}:{name.line}"
    return ("other", landed) if landed else ("error" if is_error else "nothing", "")


def _is_own(root: str, sample: _Sample, line: int | None) -> bool:
    """Return True for a line that defines the symbol, or that puts a value into the attribute which the class declares."""
    if line is None or line in sample.own_lines:
        return line is not None
    name = sample.symbol.name.rpartition(".")[2]
    text = _lines_of(root, sample.symbol.path)[line - 1]
    return line in sample.class_lines and (f"self.{name}" in text or f"cls.{name}" in text)


@cache
def _lines_of(root: str, path: str) -> list[str]:
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read().split("\n")


def _total(reports: Mapping[str, Report]) -> Report:
    counts: Counter[tuple[str, str]] = Counter()
    for report in reports.values():
        counts.update(report.counts)
    return Report(sum(report.symbols for report in reports.values()), counts)


def _figures(report: Report) -> dict[str, object]:
    return {
        "symbols": report.symbols,
        "lines": sum(report.counts.values()),
        "unjudged": sum(count for (_, verdict), count in report.counts.items() if verdict in ("nothing", "error")),
        "precision": {grade: round(report.precision(grade), 2) for grade in GRADES[:3]},
        "recall": {
            "proven": round(report.recall("proven"), 2),
            "proven+likely": round(report.recall("proven", "likely"), 2),
            "any": round(report.recall("proven", "likely", "named"), 2),
        },
        "counts": {f"{grade}/{verdict}": count for (grade, verdict), count in sorted(report.counts.items())},
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.code_references_python", description="References beside jedi's."
    )
    parser.add_argument("packages", nargs="*", default=PACKAGES)
    parser.add_argument("--symbols", type=int, default=SYMBOLS)
    parser.add_argument("--lines", type=int, default=LINES_MAX, help="lines of each symbol at most")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--disagreements", action="store_true", help="list the lines on which both differ")
    parser.add_argument("--json", action="store_true")
    said = parser.parse_args()
    reports = measure(said.packages, symbols=said.symbols, lines=said.lines, seed=said.seed, workers=said.workers)
    figures = {name: _figures(report) for name, report in {**reports, "all": _total(reports)}.items()}
    if said.json:
        listed = [one._asdict() for report in reports.values() for one in report.disagreements]
        print(json.dumps({"packages": figures, "disagreements": listed}, indent=1))
        return 0
    for name, found in figures.items():
        print(f"{name:<15}", *(f"{key} {value}" for key, value in found.items() if key != "counts"))
    for report in reports.values() if said.disagreements else ():
        for one in report.disagreements:
            print(
                f"{one.grade:<7} {one.symbol}  {one.path}:{one.line}  {'jedi: ' + one.landed if one.landed else 'missed'}  {one.text}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
