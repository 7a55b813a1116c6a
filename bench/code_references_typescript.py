"""References of JavaScript and TypeScript beside those that TypeScript's own language service finds.

``python -m bench.code_references_typescript FOLDER… --typescript PATH`` samples symbols of each folder and compares places (file and
line). A place counts for a symbol once, with its best grade. Precision: places of a grade that the language service gives for the same symbol
(those it gives for a member of another type that the symbol implements or overrides are counted apart, as related). Recall: of the places
of the language service, those that we give. The definition's own lines are left out on both sides.

TypeScript 5 is needed: later versions have no language service for JavaScript programs. Nothing is downloaded.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from periplus.code.extraction.parse import parse_source
from periplus.code.languages.registry import row_of
from periplus.code.model import Facts
from periplus.code.resolution.resolver import Grade, Resolver
from periplus.code.resolution.sources import MemorySources

LANGUAGES: Final = ("javascript", "typescript")
GRADES: Final[tuple[Grade, ...]] = ("proven", "likely", "named")
SIZE_BYTES_MAX: Final = 500_000
ORACLE_S_MAX: Final = 1_800
_SETTINGS: Final = (".json", ".yaml")


class Place(NamedTuple):
    path: str
    line: int


class Asked(NamedTuple):
    """A sampled symbol: its file, the indices of all definitions with its qualified name, its kind."""

    path: str
    indices: tuple[int, ...]
    kind: str
    qualified: str


class View(NamedTuple):
    facts: dict[str, Facts]
    others: dict[str, bytes]
    texts: dict[str, bytes]


class _Indexed(MemorySources):
    """Sources in memory that look names up in a table, as the index does."""

    def __init__(self, view: View) -> None:
        super().__init__(view.facts, view.others)
        self._by_name: dict[str, list[tuple[str, int]]] = defaultdict(list)
        for path, facts in sorted(view.facts.items()):
            for index, one in enumerate(facts.definitions()):
                self._by_name[one.name].append((path, index))

    def defining(self, name: str) -> Sequence[tuple[str, int]]:
        return self._by_name.get(name, ())


def read_view(root: Path) -> View:
    """Return facts and settings of the files below ``root``; links, dot folders and what is installed are left out."""
    view = View({}, {}, {})
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(one for one in folders if one != "node_modules" and not one.startswith("."))
        for name in sorted(names):
            path = Path(folder, name)
            relative = path.relative_to(root).as_posix()
            if path.is_symlink() or path.stat().st_size > SIZE_BYTES_MAX:
                continue
            if name.endswith(_SETTINGS):
                view.others[relative] = path.read_bytes()
                continue
            row = row_of(relative)
            if row is None or row.name not in LANGUAGES or name.endswith(".min.js"):
                continue
            data = path.read_bytes()
            parsed = parse_source(relative, data, limit_s=30)
            if parsed.facts is not None:
                view.facts[relative] = parsed.facts
                view.texts[relative] = data
    return view


def our_references(view: View) -> tuple[dict[tuple[str, int], dict[Place, Grade]], Counter[str]]:
    """Return the places of references by path and index of a definition, and the number of references by grade."""
    resolver = Resolver(_Indexed(view))
    found: dict[tuple[str, int], dict[Place, Grade]] = defaultdict(dict)
    counts: Counter[str] = Counter()
    for path, facts in view.facts.items():
        known = {}
        for reference in facts.references():
            if reference.target not in known:
                known[reference.target] = resolver.resolve(path, facts.targets[reference.target])
            resolution = known[reference.target]
            grade = resolution.grade
            counts[grade or ("external" if resolution.is_external else "unknown")] += 1
            if grade is None:
                continue
            place = Place(path, reference.line)
            for entity in resolution.found:
                places = found[entity.path, entity.symbol]
                if place not in places or GRADES.index(grade) < GRADES.index(places[place]):
                    places[place] = grade
    return found, counts


def sample(view: View, count: int, seed: int) -> list[Asked]:
    """Return symbols drawn at random: one for each qualified name of a file, no tests and no routes."""
    every: list[Asked] = []
    for path, facts in sorted(view.facts.items()):
        groups: dict[str, list[int]] = defaultdict(list)
        definitions = facts.definitions()
        for index, one in enumerate(definitions):
            if one.kind not in ("test", "route") and one.name not in ("constructor", "default", "exports"):
                groups[one.qualified].append(index)
        every += [
            Asked(path, tuple(indices), definitions[indices[0]].kind, qualified)
            for qualified, indices in groups.items()
        ]
    random.Random(seed).shuffle(every)
    return every[:count]


def ask_oracle(
    root: Path, view: View, asked: Sequence[Asked], typescript: Path, node: str
) -> list[tuple[set[Place], set[Place]] | None]:
    """Return own and related places of each symbol by TypeScript's language service; None where it knows none."""
    symbols = []
    for one in asked:
        definitions = view.facts[one.path].definitions()
        lines = view.texts[one.path].split(b"\n")
        own = [definitions[index].line for index in one.indices]
        for index in one.indices:
            definition = definitions[index]
            line = lines[definition.line - 1]
            column = len(line[: definition.column].decode("utf-8", "replace").encode("utf-16-le")) // 2
            quoted = line[definition.column : definition.column + 1] in (b'"', b"'")
            symbols.append({"path": one.path, "line": definition.line, "column": column + quoted, "lines": own})
    request = {"root": str(root), "typescript": str(typescript), "files": sorted(view.facts), "symbols": symbols}
    script = Path(__file__).with_name("typescript_references.js")
    done = subprocess.run(
        [node, "--max-old-space-size=4096", str(script)],
        input=json.dumps(request), capture_output=True, text=True, check=True, timeout=ORACLE_S_MAX,
    )  # fmt: skip
    said = iter([json.loads(text) for text in done.stdout.splitlines()])
    answers: list[tuple[set[Place], set[Place]] | None] = []
    for one in asked:
        known = [answer for answer in (next(said) for _ in one.indices) if answer is not None and "error" not in answer]
        own_places = {Place(*place) for answer in known for place in answer["own"]}
        related = {Place(*place) for answer in known for place in answer["related"]}
        answers.append((own_places, related) if known else None)
    return answers


class Score:
    """Sums over the symbols of one folder."""

    def __init__(self) -> None:
        self.symbols = 0
        self.right: Counter[str] = Counter()
        self.related: Counter[str] = Counter()
        self.wrong: Counter[str] = Counter()
        self.expected = 0
        self.shares: list[float] = []
        self.missed = 0
        self.examples: list[str] = []
        self.missed_kinds: Counter[str] = Counter()
        self.expected_kinds: Counter[str] = Counter()

    def add(self, one: Asked, ours: dict[Place, Grade], own: set[Place], related: set[Place], at: set[Place]) -> None:
        self.symbols += 1
        for place, grade in ours.items():
            if place in at:
                continue
            if place in own:
                self.right[grade] += 1
            elif place in related:
                self.related[grade] += 1
            else:
                self.wrong[grade] += 1
                if grade != "named":
                    self.examples.append(f"wrong ({grade}) {one.path}:{one.qualified} <- {place.path}:{place.line}")
        if expected := own - at:
            self.shares.append(sum(ours.get(place) in ("proven", "likely") for place in expected) / len(expected))
        for place in expected:
            self.expected += 1
            self.expected_kinds[one.kind] += 1
            if ours.get(place) not in ("proven", "likely"):
                self.missed += 1
                self.missed_kinds[one.kind] += 1
                grade = ours.get(place, "nothing")
                self.examples.append(
                    f"missed ({grade}) {one.kind} {one.path}:{one.qualified} <- {place.path}:{place.line}"
                )

    def lines(self, title: str) -> Iterable[str]:
        found = self.expected - self.missed
        yield f"{title}: {self.symbols} symbols, {self.expected} places of the oracle"
        for grade in GRADES:
            right, related, wrong = self.right[grade], self.related[grade], self.wrong[grade]
            total = right + related + wrong
            share = 100 * right / total if total else 100.0
            yield f"  {grade:8} {total:6} places: {share:6.2f} % right, {related} of related members, {wrong} wrong"
        share = 100 * found / self.expected if self.expected else 100.0
        mean = 100 * sum(self.shares) / len(self.shares) if self.shares else 100.0
        yield f"  recall of proven and likely: {share:.2f} % of the places, {mean:.2f} % on average of a symbol"
        kinds = ", ".join(
            f"{kind} {count - self.missed_kinds[kind]}/{count}" for kind, count in self.expected_kinds.most_common()
        )
        yield f"  found by kind: {kinds}"


def measure(root: Path, count: int, seed: int, typescript: Path, node: str) -> Score:
    """Return the score of a sample of ``count`` symbols of the folder ``root``."""
    view = read_view(root)
    begun = time.monotonic()
    ours, counts = our_references(view)
    print(f"{root.name}: {len(view.facts)} files, {dict(counts)}, resolved in {time.monotonic() - begun:.1f} s")
    asked = sample(view, count, seed)
    score = Score()
    for one, answer in zip(asked, ask_oracle(root, view, asked, typescript, node), strict=True):
        if answer is None:
            continue
        definitions = view.facts[one.path].definitions()
        at = {Place(one.path, definitions[index].line) for index in one.indices}
        places: dict[Place, Grade] = {}
        for index in one.indices:
            places.update(ours.get((one.path, index), {}))
        score.add(one, places, *answer, at)
    return score


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.code_references_typescript")
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument(
        "--typescript", required=True, type=Path, help="the folder of the package `typescript`, version 5"
    )
    parser.add_argument("--node", default="node")
    parser.add_argument("--symbols", type=int, default=500, help="symbols to sample in each folder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--examples", type=int, default=0, help="differences to print for each folder")
    given = parser.parse_args(arguments)
    for folder in given.folders:
        score = measure(folder.resolve(), given.symbols, given.seed, given.typescript.resolve(), given.node)
        print("\n".join(score.lines(folder.name)))
        for line in score.examples[: given.examples]:
            print(f"    {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
