"""Definitions that the code map finds, beside those of universal-ctags: ``python -m bench.code_definitions [FOLDER…]``.

For each language that both know, every function, class and method of ctags counts as found where a definition of the code map has its
name and its line, whatever its kind. Without folders the packages of this environment are compared, and ``tests/node/node_modules`` where
that is installed. What is not found is told apart by `KINDS_OF_DIFFERENCE`, each with an explanation and examples; what only ctags makes
up (names for anonymous things) is counted there too, but not in the percentage.
"""

from __future__ import annotations

__all__ = ["CTAGS", "KINDS_OF_DIFFERENCE", "Agreement", "Tag", "compare", "ctags_program", "source_files", "tags_of"]

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from bench.samples import REPOSITORY
from periplus.code.extraction.parse import Parsed, parse_source
from periplus.code.languages.registry import row_of
from periplus.code.listing import state_of_contents

EXAMPLES_MAX: Final = 3
_FILES_A_RUN: Final = 500
_HEAD_BYTES: Final = 200
_SKIPPED_FOLDERS: Final = frozenset({".git", "__pycache__"})


class _Dialect(NamedTuple):
    """The parser of ctags for a language, and its kinds that are functions, classes and methods."""

    parser: str
    kinds: frozenset[str]


def _dialect(parser: str, kinds: str) -> _Dialect:
    return _Dialect(parser, frozenset(kinds.split()))


CTAGS: Final[dict[str, _Dialect]] = {
    "c": _dialect("C", "function struct union"),
    "cpp": _dialect("C++", "function class struct union"),
    "csharp": _dialect("C#", "class interface method struct"),
    "go": _dialect("Go", "func struct interface"),
    "java": _dialect("Java", "annotation class enum interface method"),
    "javascript": _dialect("JavaScript", "function class method generator getter setter"),
    "kotlin": _dialect("Kotlin", "class interface method object"),
    "php": _dialect("PHP", "class function interface trait"),
    "python": _dialect("Python", "function class member"),
    "ruby": _dialect("Ruby", "class method module singletonMethod"),
    "rust": _dialect("Rust", "function struct interface enum method"),
    "bash": _dialect("Sh", "function"),
    "typescript": _dialect("TypeScript", "function class interface method generator"),
}


class Tag(NamedTuple):
    """A definition that ctags found; ``source`` is the text of its line."""

    path: str
    name: str
    line: int
    kind: str
    source: str


class Place(NamedTuple):
    """A tag beside the facts of its file: ``lines`` of our definitions by name."""

    tag: Tag
    lines: dict[str, list[int]]
    has_errors: bool


class Kind(NamedTuple):
    """A kind of difference. ``is_made_up`` where ctags gives a name that the source does not have: it is not counted."""

    name: str
    languages: tuple[str, ...]
    is_it: Callable[[Place], bool]
    explanation: str
    is_made_up: bool = False


class Agreement(NamedTuple):
    """One language: files compared and left out by their state, tags and those found, differences by kind with examples."""

    language: str
    files: int
    left_out: dict[str, int]
    tags: int
    found: int
    differences: dict[str, tuple[int, list[Tag]]]

    @property
    def percentage(self) -> float:
        return 100 * self.found / self.tags if self.tags else 100.0


_MADE_UP: Final = re.compile(r"^__anon|^anonFunc|^anonymousFunction|^AnonymousFunction|^anonymousObject|^\$|^__unnamed")


def _is_elsewhere(place: Place) -> bool:
    return any(abs(line - place.tag.line) <= 3 for line in place.lines.get(place.tag.name, ()))


KINDS_OF_DIFFERENCE: Final[tuple[Kind, ...]] = (
    Kind("made up", (), lambda at: _MADE_UP.match(at.tag.name) is not None, "ctags names what has no name", is_made_up=True),
    Kind(
        "macro with a body", ("c", "cpp"),
        lambda at: re.match(rf"\s*{re.escape(at.tag.name)}\s*\(", at.tag.source) is not None and at.tag.name.upper() == at.tag.name,
        "a call of a macro before a block defines no function of that name; of those of tests the code map makes tests",
        is_made_up=True,
    ),
    Kind(
        "lambda", ("python",), lambda at: re.search(r"=\s*(?:\(\s*)?lambda\b", at.tag.source) is not None,
        "a lambda in a function is the value of a local variable, which is no definition",
    ),
    Kind(
        "word of Cython", ("python",), lambda at: re.search(r"\bc(?:p?def|class)\b", at.tag.source) is not None,
        "ctags reads a variable called cdef as the word of Cython",
        is_made_up=True,
    ),
    Kind(
        "object as a class", ("javascript", "typescript"),
        lambda at: at.tag.kind == "class" and re.search(r"\bclass\b", at.tag.source) is None,
        "ctags takes an object of a literal, and a function that it sees called with new, for a class",
        is_made_up=True,
    ),
    Kind("line near", (), _is_elsewhere, "the same definition, whose name ctags places in another line"),
    Kind("around a syntax error", (), lambda at: at.has_errors, "the grammar cannot read the file here, ctags guesses"),
    Kind("unexplained", (), lambda _: True, "not looked into"),
)  # fmt: skip


def source_files(folders: Iterable[str]) -> dict[str, list[str]]:
    """Return the files below ``folders`` by their language, as far as both know it; links are not followed."""
    found: dict[str, list[str]] = defaultdict(list)
    for folder in folders:
        for where, inside, files in os.walk(folder):
            inside[:] = sorted(name for name in inside if name not in _SKIPPED_FOLDERS)
            for name in sorted(files):
                path = os.path.join(where, name)
                if os.path.islink(path):
                    continue
                row = row_of(name, b"" if "." in name else _read(path)[:_HEAD_BYTES])
                if row is None:
                    continue
                if row.choose is not None:
                    row = row.choose(_read(path))
                if row.name in CTAGS:
                    found[row.name].append(path)
    return dict(found)


def ctags_program() -> str | None:
    """Return the path of universal-ctags; None where it is not installed, or cannot write JSON."""
    program = shutil.which("ctags")
    if program is None:
        return None
    features = subprocess.run([program, "--list-features"], capture_output=True, encoding="utf-8", check=False).stdout
    return program if re.search(r"^json\b", features, re.MULTILINE) is not None else None


def tags_of(language: str, paths: Sequence[str]) -> Iterator[Tag]:
    """Iterate over the functions, classes and methods that ctags finds in ``paths``."""
    dialect = CTAGS[language]
    program = ctags_program()
    assert program is not None, "universal-ctags is not installed"
    command = [program, "--options=NONE", "--output-format=json", "--fields=+nK-z", f"--language-force={dialect.parser}", "--sort=no", "-L", "-", "-f", "-"]  # fmt: skip
    for at in range(0, len(paths), _FILES_A_RUN):
        listed = "\n".join(paths[at : at + _FILES_A_RUN])
        done = subprocess.run(
            command, input=listed, capture_output=True, encoding="utf-8", errors="replace", check=True
        )
        for line in done.stdout.splitlines():
            tag = _tag(line)
            if tag is not None and tag.kind in dialect.kinds:
                yield tag


def _tag(line: str) -> Tag | None:
    try:
        read: dict[str, Any] = json.loads(line)
    except ValueError:
        return None  # a pattern that is no UTF-8
    if read.get("_type") != "tag" or "line" not in read:
        return None
    return Tag(read["path"], _plain(read["name"]), read["line"], read["kind"], read.get("pattern", "")[2:-2])


def _plain(name: str) -> str:
    """Return a name without the blanks that both write differently in operators of C++."""
    return "".join(name.split())


def compare(language: str, paths: Sequence[str], *, examples_max: int = EXAMPLES_MAX) -> Agreement:
    """Compare the definitions of both in ``paths``, files of one language."""
    tags: dict[str, list[Tag]] = defaultdict(list)
    for tag in tags_of(language, paths):
        tags[tag.path].append(tag)
    left_out: dict[str, int] = defaultdict(int)
    differences: dict[str, tuple[int, list[Tag]]] = {}
    files = total = found = 0
    for path in paths:
        data = _read(path)
        state = state_of_contents(path, data)  # the code map does not parse what programs wrote
        parsed = parse_source(path, data)
        if state or parsed.facts is None:
            left_out[state or parsed.state] += 1
            continue
        files += 1
        lines = _lines_by_name(parsed)
        for tag in dict.fromkeys(tags.get(path, ())):
            total += 1
            if tag.line in lines.get(tag.name, ()):
                found += 1
                continue
            kind = _kind_of(language, Place(tag, lines, parsed.state == "errors"))
            total -= kind.is_made_up
            count, examples = differences.get(kind.name, (0, []))
            differences[kind.name] = (count + 1, [*examples, tag] if len(examples) < examples_max else examples)
    return Agreement(language, files, dict(left_out), total, found, differences)


def _lines_by_name(parsed: Parsed) -> dict[str, list[int]]:
    lines: dict[str, list[int]] = defaultdict(list)
    for one in parsed.facts.definitions() if parsed.facts is not None else ():
        lines[_plain(one.name)].append(one.line)
    return dict(lines)


def _kind_of(language: str, place: Place) -> Kind:
    return next(
        kind for kind in KINDS_OF_DIFFERENCE if (not kind.languages or language in kind.languages) and kind.is_it(place)
    )


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def default_folders() -> list[str]:
    """Return the installed packages, and the modules of Node where they are installed."""
    folders = [sysconfig.get_path("purelib"), os.path.join(REPOSITORY, "tests", "node", "node_modules")]
    return [folder for folder in folders if os.path.isdir(folder)]


def _shown(agreement: Agreement) -> Iterator[str]:
    left_out = ", ".join(f"{count:,} {state}" for state, count in sorted(agreement.left_out.items()))
    yield (
        f"{agreement.language:<12}{agreement.files:>8,} files{agreement.tags:>10,} tags{agreement.percentage:>9.2f} %"
        + (f"   (left out: {left_out})" if left_out else "")
    )
    explanations = {kind.name: kind.explanation for kind in KINDS_OF_DIFFERENCE}
    for name, (count, examples) in sorted(agreement.differences.items(), key=lambda item: -item[1][0]):
        yield f"  {count:>8,} {name}: {explanations[name]}"
        for tag in examples:
            yield f"           {tag.kind} {tag.name}  {tag.path}:{tag.line}  {tag.source.strip()[:80]}"


def _to_json(agreement: Agreement) -> dict[str, Any]:
    return {
        **agreement._asdict(),
        "percentage": round(agreement.percentage, 3),
        "differences": {
            name: {"count": count, "examples": [tag._asdict() for tag in examples]}
            for name, (count, examples) in agreement.differences.items()
        },
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.code_definitions", description="Our definitions beside those of ctags."
    )
    parser.add_argument("folder", nargs="*", help="compare the files below (the installed packages)")
    parser.add_argument("--only", action="append", choices=tuple(CTAGS), help="this language (may be repeated)")
    parser.add_argument("--examples", type=int, default=EXAMPLES_MAX, metavar="N", help="of each kind of difference")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    arguments = parser.parse_args()
    if ctags_program() is None:
        print("universal-ctags is not installed (Debian: apt-get install universal-ctags)", file=sys.stderr)
        return 2
    folders = arguments.folder or default_folders()
    by_language = source_files(folders)
    wanted = arguments.only or sorted(by_language)
    agreements = [
        compare(language, by_language[language], examples_max=arguments.examples)
        for language in wanted
        if language in by_language
    ]
    if arguments.json:
        print(json.dumps({"folders": folders, "languages": [_to_json(one) for one in agreements]}, ensure_ascii=False))
    else:
        for one in agreements:
            print("\n".join(_shown(one)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
