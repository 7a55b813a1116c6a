"""Mutants: small faults in functions of ``periplus``, drawn by a seed, as edits of the source text.

A mutant names its function by path, qualified name and digest of the text, and its place by an offset within that
text. It applies to each revision in which the text of the function is the same, also after a move to another file.

Not mutated: code outside functions, annotations, decorators, assertions, the texts of errors, f-strings, ``__repr__``.
"""

from __future__ import annotations

__all__ = [
    "EXCLUDED",
    "PACKAGES",
    "Function",
    "Mutant",
    "Place",
    "draw",
    "functions",
    "index",
    "is_different",
    "locate",
    "mutants_of",
    "mutated",
]

import ast
import glob
import hashlib
import itertools
import os
import random
import re
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

PACKAGES: Final = ("journal", "trail", "agent/policies", "context")
EXCLUDED: Final = ("journal/quick.py", "journal/native.py", "journal/journal.py")  # at odds with a rewrite under way
_PER_FUNCTION_MAX: Final = 2
_COMPARISONS: Final[dict[type[ast.cmpop], tuple[str, str]]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"),
}  # fmt: skip
_ARITHMETIC: Final[dict[type[ast.operator], tuple[str, str]]] = {ast.Add: ("+", "-"), ast.Sub: ("-", "+")}
Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class Mutant(NamedTuple):
    id: str
    path: str  # below src/periplus
    qualname: str
    line: int  # in the file from which it was drawn
    col: int
    operator: str
    before: str
    after: str
    at: int  # bytes from the start of the function's text
    sha256: str  # of the function's text

    @property
    def package(self) -> str:
        return package_of(self.path)

    @property
    def function(self) -> str:
        return f"{self.path}:{self.qualname}"


class Function(NamedTuple):
    path: str
    qualname: str
    start: int  # bytes from the start of the file, decorators excluded
    text: bytes
    node: Definition

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text).hexdigest()


class Place(NamedTuple):
    path: str
    start: int


class Edit(NamedTuple):
    operator: str
    start: int
    end: int
    after: str


def package_of(path: str) -> str:
    return next((name for name in PACKAGES if path.startswith(name + "/")), path.partition("/")[0])


class Lines:
    """Byte offsets in a file for the lines and columns of its syntax tree."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def start(self, node: ast.expr | ast.stmt) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.expr | ast.stmt) -> str:
        return self.source[self.start(node) : self.end(node)].decode()


def functions(path: str, source: bytes) -> list[Function]:
    """Every function of a file, those within functions and classes included."""
    lines, found = Lines(source), []

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, Definition):
                start, name = lines.start(child), prefix + child.name
                found.append(Function(path, name, start, source[start : lines.end(child)], child))
                visit(child, f"{name}.<locals>.")
            else:
                visit(child, f"{prefix}{child.name}." if isinstance(child, ast.ClassDef) else prefix)

    visit(ast.parse(source), "")
    return found


def mutants_of(function: Function, source: bytes, lines: Lines | None = None) -> Iterator[Mutant]:
    """The mutants of a function; those of functions within it are their own."""
    lines, digest = lines or Lines(source), function.sha256
    for statement in function.node.body if function.node.name != "__repr__" else ():
        for edit in _edits(statement, lines):
            line = source.count(b"\n", 0, edit.start) + 1
            col = edit.start - (source.rfind(b"\n", 0, edit.start) + 1)
            before, at = source[edit.start : edit.end].decode(), edit.start - function.start
            yield Mutant("", function.path, function.qualname, line, col, edit.operator, before, edit.after, at, digest)


def mutated(mutant: Mutant, source: bytes, start: int) -> bytes:
    """The source with ``mutant`` in its function, which begins at ``start``. Raises ValueError where it does not fit."""
    at, before = start + mutant.at, mutant.before.encode()
    if source[at : at + len(before)] != before:
        raise ValueError(f"{mutant.id} does not fit at {at}")
    return source[:at] + mutant.after.encode() + source[at + len(before) :]


def is_different(source: bytes, changed: bytes) -> bool:
    """Tells that a changed module compiles, to another tree."""
    try:
        compile(changed, "", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source))


def _edits(node: ast.AST, lines: Lines) -> Iterator[Edit]:
    if isinstance(node, Definition | ast.ClassDef | ast.Assert | ast.JoinedStr):
        return
    if isinstance(node, ast.stmt):
        yield from _statement_edits(node, lines)
    elif isinstance(node, ast.expr):
        yield from _expression_edits(node, lines)
    if isinstance(node, ast.Raise):
        return
    for field, value in ast.iter_fields(node):
        if field not in ("annotation", "op", "ops", "ctx"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _edits(child, lines)


def _statement_edits(node: ast.stmt, lines: Lines) -> Iterator[Edit]:
    start, end = lines.start(node), lines.end(node)
    match node:
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield Edit("return None", lines.start(value), lines.end(value), "None")
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield Edit("call removed", start, end, "pass")
        case ast.Assign(targets=[ast.Attribute()]):
            yield Edit("assignment removed", start, end, "pass")
        case ast.AugAssign(target=target, op=operator, value=value) if type(operator) in _ARITHMETIC:
            yield from _token("arithmetic", lines, target, value, *_ARITHMETIC[type(operator)])
        case ast.Break():
            yield Edit("break to continue", start, end, "continue")
        case ast.Continue():
            yield Edit("continue to break", start, end, "break")
        case ast.Raise():
            yield Edit("raise removed", start, end, "pass")
        case ast.If(test=test):
            for value in ("True", "False"):
                yield Edit("condition", lines.start(test), lines.end(test), value)
        case _:
            return


def _expression_edits(node: ast.expr, lines: Lines) -> Iterator[Edit]:
    start, end = lines.start(node), lines.end(node)
    match node:
        case ast.Compare():
            for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
                yield from _token("comparison", lines, left, right, *_COMPARISONS[type(operator)])
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _ARITHMETIC:
            if not any(_is_text(side) for side in (left, right)):  # else the sum of texts only fails
                yield from _token("arithmetic", lines, left, right, *_ARITHMETIC[type(operator)])
        case ast.BoolOp(op=operator, values=values):
            words = ("and", "or") if isinstance(operator, ast.And) else ("or", "and")
            for left, right in itertools.pairwise(values):
                yield from _token("boolean", lines, left, right, *words)
        case ast.UnaryOp(op=ast.Not()):
            yield Edit("not removed", start, end, lines.text(node).removeprefix("not").lstrip())
        case ast.Constant(value=bool() as value):
            yield Edit("truth", start, end, str(not value))
        case ast.Constant(value=int() as value):
            yield Edit("constant", start, end, str(value + 1))
        case ast.Slice(lower=lower, upper=upper):
            for bound in (lower, upper):
                if bound is not None and not isinstance(bound, ast.Constant):
                    for sign in "+-":
                        yield Edit("slice bound", lines.start(bound), lines.end(bound), f"({lines.text(bound)}) {sign} 1")  # fmt: skip
        case _:
            return


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def _token(name: str, lines: Lines, left: ast.expr, right: ast.expr, before: str, after: str) -> Iterator[Edit]:
    """An operator between two operands; none where a comment stands between them."""
    start = lines.end(left)
    gap = lines.source[start : lines.start(right)].decode()
    pattern = r"\s+".join(map(re.escape, before.split()))
    found = re.search(rf"\b{pattern}\b" if before[0].isalpha() else pattern, gap)
    if found and "#" not in gap:
        yield Edit(name, start + found.start(), start + found.end(), after)


def draw(sources: str, count: int, seed: int) -> list[Mutant]:
    """So many mutants of the tree ``sources``, evenly over the packages, at most two of a function."""
    chance, drawn = random.Random(seed), []
    for number, package in enumerate(PACKAGES):
        wanted = count * (number + 1) // len(PACKAGES) - count * number // len(PACKAGES)
        everything: list[tuple[Mutant, int, bytes]] = []
        for path in _paths(sources, package):
            if path not in EXCLUDED:
                source = _read(sources, path)
                lines = Lines(source)
                for function in functions(path, source):
                    everything += [(mutant, function.start, source) for mutant in mutants_of(function, source, lines)]
        chance.shuffle(everything)
        taken: Counter[str] = Counter()
        chosen: list[Mutant] = []
        for mutant, start, source in everything:
            is_wanted = len(chosen) < wanted and taken[mutant.function] < _PER_FUNCTION_MAX
            if is_wanted and is_different(source, mutated(mutant, source, start)):
                taken[mutant.function] += 1
                chosen.append(mutant)
        chosen.sort(key=lambda one: (one.path, one.line, one.col, one.after))
        name = package.rpartition("/")[2]
        drawn += [mutant._replace(id=f"{name}-{at:03}") for at, mutant in enumerate(chosen, 1)]
    return drawn


def index(sources: str) -> dict[tuple[str, str], list[Place]]:
    """The functions of a tree by qualified name and digest."""
    found: dict[tuple[str, str], list[Place]] = {}
    for path in _paths(sources):
        for function in functions(path, _read(sources, path)):
            key = function.qualname, function.sha256
            found.setdefault(key, []).append(Place(path, function.start))
    return found


def locate(mutant: Mutant, known: dict[tuple[str, str], list[Place]]) -> Place | None:
    """The function of ``mutant`` in another revision: in the same file, or the only one with its name and text."""
    places = known.get((mutant.qualname, mutant.sha256), [])
    same = [place for place in places if place.path == mutant.path]
    return same[0] if same else places[0] if len(places) == 1 else None


def _paths(sources: str, package: str = "") -> list[str]:
    found = glob.glob(os.path.join(glob.escape(os.path.join(sources, package)), "**", "*.py"), recursive=True)
    return sorted(os.path.relpath(path, sources) for path in found)


def _read(sources: str, path: str) -> bytes:
    with open(os.path.join(sources, path), "rb") as file:
        return file.read()
