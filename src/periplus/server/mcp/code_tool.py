"""The tool ``code``: questions about the project's code. Its entries are the rows of the documents that ``periplus code ACTION --json`` gives; those of a map are
shorter.
"""

from __future__ import annotations

__all__ = ["run_code"]

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from periplus.base.errors import UsageError
from periplus.code.documents import values
from periplus.server.mcp.tool_results import Answer, Entry
from periplus.server.mcp.tool_wording import call_of

if TYPE_CHECKING:
    from periplus.code.code_map import CodeMap
    from periplus.code.documents import schemas
    from periplus.project import Project
    from periplus.server.mcp.tool_arguments import CodeArguments

_USES_SHOWN: Final = 20
_TESTS_SHOWN: Final = 20


def run_code(project: Project, given: CodeArguments) -> Answer:
    """Return the answer to one question about the code."""
    code_map = project.code
    asked = tuple(_place(project, one) for one in given.of if one.strip())
    answer = _RUN[given.action](project, code_map, given, asked)
    waiting = code_map.freshness.waiting
    notes = [f"{waiting:,} files that changed are not in this answer yet: repeat the call."] if waiting else []
    notes += [code_map.freshness.why] if code_map.freshness.why else []
    return answer._replace(foot="\n".join([*filter(None, [answer.foot]), *notes]))


def _place(project: Project, typed: str) -> str:
    """Return a symbol or path with its path from the project's folder, where it is absolute."""
    typed = typed.strip()
    path, colon, name = typed.rpartition(":")
    if os.path.isabs(path if colon else typed):
        return f"{project.path(path)}:{name}" if colon else project.path(typed)
    return typed


def _one(asked: Sequence[str], what: str) -> str:
    if len(asked) != 1:
        raise UsageError(
            f"{'nothing' if not asked else 'more than one thing'} is named in `of`", safe="Nothing was changed.", mend=f"Give {what}."
        )  # fmt: skip
    return asked[0]


def _find(project: Project, code_map: CodeMap, given: CodeArguments, asked: Sequence[str]) -> Answer:
    name = _one(asked, "one name")
    path = _folder(project, given.path)
    found = code_map.find(name, kind=given.kind, path=path, limit=given.limit, offset=given.offset)
    result = values.find_out(code_map, name, found)
    entries = [Entry(_symbol_text(one), _plain(one)) for one in result.symbols]
    left_out = max(0, result.matched - given.offset - len(entries))
    foot = "" if entries else f"No symbol is called {name}, or like it."
    return Answer("", tuple(entries), _head(result, "symbols"), left_out, _next(given), foot)


def _search(project: Project, code_map: CodeMap, given: CodeArguments, asked: Sequence[str]) -> Answer:
    question = _one(asked, "words")
    # One more than is shown tells that there are more: a search does not count all.
    found = code_map.search(
        question, kind=given.kind, path=_folder(project, given.path), limit=given.limit + 1, offset=given.offset
    )
    result = values.search_out(code_map, question, found)
    entries = [Entry(_symbol_text(one.symbol), _plain(one)) for one in result.hits[: given.limit]]
    foot = f"{result.unsearchable:,} files cannot be searched yet: repeat the call." if result.unsearchable else ""
    foot = foot if entries or foot else "No symbol matches these words."
    return Answer("", tuple(entries), _head(result, "hits"), len(found) - len(entries), _next(given), foot)


def _outline(project: Project, code_map: CodeMap, given: CodeArguments, asked: Sequence[str]) -> Answer:
    if not asked:
        _one(asked, "one or more files")
    result = values.outline_out(code_map, [code_map.outline(project.path(path)) for path in asked])
    entries: list[Entry] = []
    for file in result.files:
        if not file.symbols:
            entries.append(Entry(f"{file.path}: {_state_text(file)}", _plain(file)))
        title = f"{file.path}\n" if len(result.files) > 1 else ""
        for one in file.symbols:
            depth = "  " * one.name.count(".")
            entries.append(Entry(f"{title}{one.line:5d}  {depth}{one.signature or one.name}", _plain(one)))
            title = ""
    return Answer("", _page(entries, given), _head(result, "files"), 0, _next(given))


def _refs(_project: Project, code_map: CodeMap, given: CodeArguments, asked: Sequence[str]) -> Answer:
    found = code_map.references(_one(asked, "one symbol"))
    result, left = values.refs_out(code_map, found, given.grade, (given.offset, given.limit))
    entries = [
        Entry(_place_text(place), {"of": one.symbol, **_plain(place)}) for one in result.symbols for place in one.places
    ]
    data = _head(result, "symbols") | {"counts": {one.symbol: one.counts for one in result.symbols}}
    head = "\n".join(f"{one.symbol}: {_counts_text(one.counts)}" for one in result.symbols)
    return Answer(head, tuple(entries), data, left, _next(given))


def _calls(_project: Project, code_map: CodeMap, given: CodeArguments, asked: Sequence[str]) -> Answer:
    result = values.calls_out(code_map, code_map.calls(_one(asked, "one symbol")))
    entries = [Entry(_use_text(use), {"of": one.symbol, **_plain(use)}) for one in result.symbols for use in one.uses]
    head = "\n".join(one.symbol for one in result.symbols)
    return Answer(head, _page(entries, given), _head(result, "symbols"), 0, _next(given), "" if entries else "Nothing.")


def _show(project: Project, code_map: CodeMap, given: CodeArguments, asked: Sequence[str]) -> Answer:
    typed = _one(asked, "one symbol")
    result = values.show_out(code_map, code_map.show(typed), project.known_of_symbol)
    entries = [Entry(text, data) for one in result.symbols for text, data in _shown(one)]
    return Answer("", _page(entries, given), _head(result, "symbols"), 0, _next(given))


def _impact(_project: Project, code_map: CodeMap, given: CodeArguments, asked: Sequence[str]) -> Answer:
    if asked and given.revision:
        raise UsageError("both `of` and `revision` are given", safe="Nothing was changed.", mend="Give one of them.")
    found = code_map.impact(asked, depth_max=given.depth) if asked else code_map.impact_of_diff(
        given.revision or "HEAD", depth_max=given.depth
    )  # fmt: skip
    result = values.impact_out(code_map, found, (given.offset, given.limit))
    entries = [
        Entry(f"{one.depth:3d}  {one.symbol}{' (test)' if one.test else ''}  {one.grade}, uses {one.via} at line {one.line}",
              _plain(one)) for one in result.dependents
    ]  # fmt: skip
    dependents = len(found.impact.dependents)
    head = (
        f"{'at least ' if result.cut else ''}{dependents:,} dependents of {len(result.of):,} symbols, {len(result.tests):,} tests"
        + (f"; {result.named:,} further places with the same name" if result.named else "")
    )
    data = _head(result, "dependents") | {
        "of": result.of[:_USES_SHOWN], "dependents": dependents, "tests": result.tests[:_TESTS_SHOWN],
        "commands": [shlex.join(one.words) for one in result.commands],
    }  # fmt: skip
    head = "\n".join([head, *(f"run: {command}" for command in data["commands"])])
    return Answer(head, tuple(entries), data, max(0, dependents - given.offset - len(entries)), _next(given))


def _map(_project: Project, code_map: CodeMap, given: CodeArguments, asked: Sequence[str]) -> Answer:
    """Return the map; an entry has the signatures as text, which takes a part of the room of the rows of the document."""
    task = " ".join(asked)
    result = values.map_out(code_map, task, given.budget, code_map.map(task, given.budget))
    entries = []
    for one in result.files[given.offset :]:
        text = "\n".join(
            f"  {'  ' * symbol.name.count('.')}{symbol.line}: {symbol.signature}" for symbol in one.symbols
        )
        data = {"path": one.path, "score": round(one.score, 4), "left_out": one.left_out, "text": text}
        entries.append(Entry(f"{one.path}\n{text}" if text else one.path, data))
    head = {"schema": "periplus.code.map/1", "task": task, "files_total": result.files_total}
    return Answer("", tuple(entries), head, 0, _next(given), "" if entries else "There is no code.")


def _status(_project: Project, code_map: CodeMap, _given: CodeArguments, _asked: Sequence[str]) -> Answer:
    result = values.status_out(code_map, code_map.status())
    entries = [
        Entry(f"{one.language}: {one.files:,} files, {one.lines:,} lines, {one.symbols:,} symbols", _plain(one))
        for one in sorted(result.languages, key=lambda one: -one.lines)
    ]
    head = f"{result.root}: {result.files:,} files"
    unparsed = ", ".join(f"{count:,} {state}" for state, count in result.unparsed.items())
    return Answer(
        head, tuple(entries), _head(result, "languages"), 0, None, f"not parsed: {unparsed}" if unparsed else ""
    )


_RUN: Final[dict[str, Callable[[Project, CodeMap, CodeArguments, Sequence[str]], Answer]]] = {
    "find": _find, "search": _search, "show": _show, "outline": _outline, "refs": _refs, "calls": _calls, "impact": _impact, "map": _map, "status": _status,
}  # fmt: skip


def _folder(project: Project, typed: str) -> str:
    path = project.path(typed) if typed else ""
    return "" if path == "." else path


def _shown(one: schemas.ShownSymbolOut) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the symbol with its text, then everything about it, the most telling first."""
    yield f"{_symbol_text(one.symbol)}\n{one.text}", {**_plain(one.symbol), "text": one.text}
    yield f"used by: {_counts_text(one.counts)}", {"field": "used by", "counts": one.counts}
    for text in one.memory:
        yield f"  memory: {text}", {"field": "memory", "text": text}
    for text in one.claims:
        yield f"  claimed: {text}", {"field": "claim", "text": text}
    for place in one.callers[:_USES_SHOWN]:
        yield f"  {_place_text(place)}", {"field": "caller", **_plain(place)}
    for name in one.tests[:_TESTS_SHOWN]:
        yield f"  test: {name}", {"field": "test", "text": name}
    for use in one.uses[:_USES_SHOWN]:
        yield f"  uses {_use_text(use)}", {"field": "uses", **_plain(use)}
    if one.changed_by:
        yield f"  changed last: {one.changed_by}", {"field": "changed last", "text": one.changed_by}


def _symbol_text(one: schemas.SymbolOut) -> str:
    said = one.doc or one.signature
    return f"{one.path}:{one.line}  {one.kind} {one.name}{f'  {said}' if said else ''}"


def _place_text(one: schemas.PlaceOut) -> str:
    return f"{one.path}:{one.line} {one.grade}  {one.text}"


def _use_text(one: schemas.EdgeOut) -> str:
    lines = ", ".join(map(str, one.lines[:4])) + ("…" if len(one.lines) > 4 else "")
    return f"{one.symbol}  {one.role}, {one.grade}, line {lines}"


def _counts_text(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {grade}" for grade, count in counts.items() if count) or "no places"


def _state_text(file: schemas.OutlineFileOut) -> str:
    return "no symbols" if file.state == "parsed" else file.state.replace("_", " ")


def _plain(value: msgspec.Struct) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(value)
    return found


def _head(result: msgspec.Struct, rows: str) -> dict[str, Any]:
    """Return the document without its lists, which are the entries."""
    found = _plain(result)
    found.pop(rows)
    return {name: value for name, value in found.items() if not isinstance(value, list)}


def _page(entries: Iterable[Entry], given: CodeArguments) -> tuple[Entry, ...]:
    return tuple(entries)[given.offset :]


def _next(given: CodeArguments) -> Callable[[int], str]:
    def more(shown: int) -> str:
        grade = given.grade if given.grade != "named" else ""
        return call_of(
            "code", action=given.action, of=list(given.of), kind=given.kind, path=given.path, grade=grade, revision=given.revision,
            offset=given.offset + shown,
        )  # fmt: skip

    return more
