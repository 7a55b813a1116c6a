"""``periplus code ACTION``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import contextlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from periplus.base.errors import NotAStoreError, UsageError
from periplus.cli.code.export import FORMATS
from periplus.cli.code.opening import open_map, warn_of_freshness
from periplus.cli.common.face import Face, number

if TYPE_CHECKING:
    from periplus.code.code_map import CodeMap
    from periplus.project import Project
    from periplus.project.knowledge.code import SymbolKnowledge

_WAIT_MAX_S: Final = 86_400
_WAIT_S: Final = 5
_SYMBOL: Final = "PATH:NAME as in src/auth.py:Login.check, a qualified name or the end of one, or a file"
_ACTIONS: Final[dict[str, str]] = {
    "find": "find definitions by name: exact, beginning, parts of it, misspelled",
    "show": "show a symbol: its text, who uses it, what it uses, tests that reach it, memory about it",
    "outline": "list the symbols of files",
    "refs": "list the places that name a symbol, by grade: proven, likely, named",
    "calls": "list what a symbol uses",
    "impact": "list what depends on files, symbols or your changes, and the tests to run",
    "map": "list the files that a task concerns, with the signatures of what matters in them, within a token budget",
    "export": "write the graph of files and symbols for other tools",
    "search": "search symbols by what they do, in words",
    "status": "show languages, symbols and files that are not parsed",
    "index": "bring the index up to date, however long that takes",
}


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    del command
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    made = {
        name: actions.add_parser(name, help=what, description=what[0].upper() + what[1:] + ".", allow_abbrev=False)
        for name, what in _ACTIONS.items()
    }
    for name, one in made.items():
        if name != "index":
            one.add_argument("--wait", type=number(0, _WAIT_MAX_S), default=_WAIT_S, metavar="SECONDS",
                             help="parse what changed for at most this long before answering (default: 5)")  # fmt: skip
    made["find"].add_argument("name", metavar="NAME", help="a name, `Class.method`, `path:name`, or parts of one")
    made["search"].add_argument("question", metavar="WORDS", help="what the code does, in words")
    for name in ("find", "search"):
        made[name].add_argument(
            "--kind", default="", metavar="KIND", help="only this kind: function, method, class, test, …"
        )
        made[name].add_argument("--path", default="", metavar="PATH", help="only in this file or folder")
        made[name].add_argument("--language", default="", metavar="LANGUAGE", help="only in this language")
    for name in ("show", "refs", "calls"):
        made[name].add_argument("symbol", metavar="SYMBOL", help=_SYMBOL)
    made["refs"].add_argument("--grade", choices=("proven", "likely", "named"), default="named",
                              help="only places of this grade or a better one (default: named, which is all)")  # fmt: skip
    made["outline"].add_argument("files", nargs="+", metavar="FILE", help="a file of the worktree (repeatable)")
    made["impact"].add_argument("targets", nargs="*", metavar="PATH|SYMBOL", help="files or symbols; none with --diff")
    made["impact"].add_argument("--diff", nargs="?", const="HEAD", default="", metavar="REV",
                                help="the symbols in which the worktree differs from REV; without REV from HEAD")  # fmt: skip
    made["impact"].add_argument(
        "--depth", type=number(1), default=100, metavar="N", help="at most N steps away (default: 100)"
    )
    for name in ("find", "refs", "impact", "search"):
        made[name].add_argument(
            "--limit", type=number(1), default=30, metavar="N", help="at most N lines (default: 30)"
        )
        made[name].add_argument("--offset", type=number(0), default=0, metavar="N", help="leave out the first N")
    made["map"].add_argument(
        "task",
        nargs="?",
        default="",
        metavar="TASK",
        help="the task, in a sentence; without one the map is of the whole repository",
    )
    made["map"].add_argument(
        "--budget", type=number(1), default=4_000, metavar="TOKENS", help="at most this many tokens (default: 4000)"
    )
    made["export"].add_argument("--format", choices=FORMATS, default="json", help="the format (default: json)")
    made["export"].add_argument("--output", metavar="FILE", help="write this file instead of standard output")
    made["export"].add_argument(
        "--around", default="", metavar="SYMBOL", help="only what lies around this symbol or file"
    )
    made["export"].add_argument(
        "--depth", type=number(1, 16), default=2, metavar="N", help="with --around: at most N edges away (default: 2)"
    )
    made["index"].add_argument("--quiet", action="store_true", help="print nothing")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    run = _RUN[arguments.action]
    with open_map(face, float(arguments.wait) if arguments.action != "index" else float(_WAIT_MAX_S)) as code_map:
        code = run(face, code_map, arguments)
        if arguments.action != "index":
            warn_of_freshness(face, code_map.freshness)
        return code


def path_typed(face: Face, code_map: CodeMap, typed: str) -> str:
    """Return a path typed on the command line relative to the root of the worktree. Raises UsageError where it lies outside."""
    inside = os.path.relpath(os.path.realpath(face.path(typed)), code_map.root)
    if inside.startswith(".."):
        raise UsageError(
            f"{typed} lies outside of {code_map.root}", safe="Nothing was changed.", mend="Name a file of the worktree."
        )
    return inside


def symbol_typed(face: Face, code_map: CodeMap, typed: str) -> str:
    """Return a symbol with its path relative to the root of the worktree, where it was typed relative to the working folder."""
    path, colon, name = typed.rpartition(":")
    candidate = path if colon and path and not path.endswith(":") else typed if not colon else ""
    if candidate and os.path.exists(face.path(candidate)):
        found = path_typed(face, code_map, candidate)
        return f"{found}:{name}" if colon else found
    return typed


def _find(face: Face, code_map: CodeMap, arguments: argparse.Namespace) -> int:
    from periplus.cli.code import answers

    path = path_typed(face, code_map, arguments.path) if arguments.path else ""
    found = code_map.find(
        arguments.name, kind=arguments.kind, path="" if path == "." else path, language=arguments.language, limit=arguments.limit,
        offset=arguments.offset,
    )  # fmt: skip
    return answers.find(face, code_map, arguments.name, found)


def _search(face: Face, code_map: CodeMap, arguments: argparse.Namespace) -> int:
    from periplus.cli.code import answers

    path = path_typed(face, code_map, arguments.path) if arguments.path else ""
    found = code_map.search(
        arguments.question, kind=arguments.kind, path="" if path == "." else path, language=arguments.language, limit=arguments.limit,
        offset=arguments.offset,
    )  # fmt: skip
    return answers.search(face, code_map, arguments.question, found)


def _show(face: Face, code_map: CodeMap, arguments: argparse.Namespace) -> int:
    from periplus.cli.code import answers

    found = code_map.show(symbol_typed(face, code_map, arguments.symbol))
    with contextlib.ExitStack() as stack:
        try:
            project: Project | None = stack.enter_context(face.open(in_hurry=True))
        except NotAStoreError:
            project = None
        known_of = project.known_of_symbol if project is not None else _nothing_known
        return answers.show(face, code_map, found, known_of)


def _nothing_known(_path: str, _name: str = "") -> SymbolKnowledge:
    from periplus.project.knowledge.code import SymbolKnowledge

    return SymbolKnowledge((), (), "")


def _outline(face: Face, code_map: CodeMap, arguments: argparse.Namespace) -> int:
    from periplus.cli.code import answers

    return answers.outline(
        face, code_map, [code_map.outline(path_typed(face, code_map, one)) for one in arguments.files]
    )


def _refs(face: Face, code_map: CodeMap, arguments: argparse.Namespace) -> int:
    from periplus.cli.code import answers

    found = code_map.references(symbol_typed(face, code_map, arguments.symbol))
    return answers.refs(face, code_map, found, arguments.grade, (arguments.offset, arguments.limit))


def _calls(face: Face, code_map: CodeMap, arguments: argparse.Namespace) -> int:
    from periplus.cli.code import answers

    return answers.calls(face, code_map, code_map.calls(symbol_typed(face, code_map, arguments.symbol)))


def _impact(face: Face, code_map: CodeMap, arguments: argparse.Namespace) -> int:
    from periplus.cli.code import answers

    if bool(arguments.targets) == bool(arguments.diff):
        raise UsageError(
            "name files or symbols, or --diff, and not both" if arguments.diff else "nothing was named",
            safe="Nothing was changed.", mend="periplus code impact src/auth.py, or: periplus code impact --diff main",
        )  # fmt: skip
    if arguments.diff:
        found = code_map.impact_of_diff(arguments.diff, depth_max=arguments.depth)
    else:
        targets = [symbol_typed(face, code_map, one) for one in arguments.targets]
        found = code_map.impact(targets, depth_max=arguments.depth)
    return answers.impact(face, code_map, found, (arguments.offset, arguments.limit))


def _map(face: Face, code_map: CodeMap, arguments: argparse.Namespace) -> int:
    from periplus.cli.code import answers

    seeds: dict[str, float] = {}
    if arguments.task:
        try:
            with face.open(in_hurry=True) as project:
                seeds = project.code_seeds(arguments.task)
        except NotAStoreError:
            pass
    found = code_map.map(arguments.task, arguments.budget, seeds)
    return answers.repository_map(face, code_map, arguments.task, arguments.budget, found)


def _export(face: Face, code_map: CodeMap, arguments: argparse.Namespace) -> int:
    from periplus.cli.code.export import export

    return export(face, code_map, arguments, symbol_typed(face, code_map, arguments.around) if arguments.around else "")


def _status(face: Face, code_map: CodeMap, arguments: argparse.Namespace) -> int:
    from periplus.cli.code import answers

    del arguments
    return answers.status(face, code_map, code_map.status())


def _index(face: Face, code_map: CodeMap, arguments: argparse.Namespace) -> int:
    from periplus.cli.code import answers

    code_map.view(with_graph=True)
    return 0 if arguments.quiet else answers.status(face, code_map, code_map.status())


_RUN: Final[dict[str, Callable[[Face, CodeMap, argparse.Namespace], int]]] = {
    "find": _find, "show": _show, "outline": _outline, "refs": _refs, "calls": _calls, "impact": _impact, "map": _map, "export": _export, "search": _search, "status": _status, "index": _index,
}  # fmt: skip
