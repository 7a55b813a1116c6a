"""Impact of a change: everything that depends on the symbols that a diff touches, as a graph and a table, with the tests to run."""

from __future__ import annotations

__all__ = ["impact"]

import shlex
from typing import TYPE_CHECKING, Final, NamedTuple

from periplus.base.errors import UsageError
from periplus.web.pages.code.opening import Lacks, code_map, command_line, lacks_of
from periplus.web.pages.code.symbol import id_address
from periplus.web.pages.model import Asked, View
from periplus.web.rendering.graphs import Link, Node, layered_graph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markupsafe import Markup

    from periplus.code.code_map import CodeMap, ImpactAnswer
    from periplus.code.queries.view import SymbolId

ROWS_PER_PAGE: Final = 100
NODES_MAX: Final = 120
SEEDS_MAX: Final = 40
CHANGED_SHOWN_MAX: Final = 200
_REVISION_CHARACTERS_MAX: Final = 250


class DependentRow(NamedTuple):
    """A symbol that depends on a changed one through ``via``, at ``line`` of its file."""

    name: str
    path: str
    address: str
    depth: int
    grade: str
    via: str
    via_address: str
    line: int
    is_test: bool


class Ends(NamedTuple):
    """A symbol that was changed or removed."""

    name: str
    path: str
    address: str


class Command(NamedTuple):
    """A command that runs some of the tests."""

    text: str
    tests: int


def impact(asked: Asked) -> View:
    """Show what depends on the changes since a revision (by default those that are not committed), or on one symbol or file."""
    of, since = asked.query.text("of"), asked.query.text("since")
    if len(since) > _REVISION_CHARACTERS_MAX:
        raise UsageError(
            "the name of a revision is not that long", safe="Nothing was changed.", mend="Name a commit or a branch."
        )
    page = asked.query.number("page", 1, least=1, most=10_000)
    with code_map(asked) as opened:
        lacks = lacks_of(opened)
        try:
            answer = _answer(opened, of, since, lacks)
            problem = ""
        except UsageError as error:
            if of or since:
                raise
            answer, problem = None, str(error)  # a repository without a commit, for one
        lacks = lacks_of(opened)
    command = (
        command_line("code", "impact", of)
        if of
        else command_line("code", "impact", "--diff", *([since] if since else []))
    )
    values = {"of": of, "since": since, "lacks": lacks, "problem": problem, "page": page, "answer": answer}
    return View("code/impact.html", "Impact", values | _shown(answer, page), command if answer is not None else "")


def _answer(opened: CodeMap, of: str, since: str, lacks: Lacks) -> ImpactAnswer | None:
    if of:
        return opened.impact([of])
    return opened.impact_of_diff(since or "HEAD") if lacks.has_git else None


def _shown(answer: ImpactAnswer | None, page: int) -> dict[str, object]:
    if answer is None:
        return {}
    dependents = answer.impact.dependents
    first = (page - 1) * ROWS_PER_PAGE
    changed = (
        answer.impact.seeds[: len(answer.impact.seeds) - len(answer.removed)] if answer.removed else answer.impact.seeds
    )
    return {
        "picture": _picture(answer) if dependents else "",
        "changed": [_ends(one) for one in changed[:CHANGED_SHOWN_MAX]],
        "changed_total": len(changed),
        "removed": [_ends(one) for one in answer.removed[:CHANGED_SHOWN_MAX]],
        "rows": [
            DependentRow(
                one.symbol.name or "the file", one.symbol.path, id_address(one.symbol), one.depth, one.grade, one.via.name or one.via.path,
                id_address(one.via), one.line, one.is_test,
            )
            for one in dependents[first : first + ROWS_PER_PAGE]
        ],
        "total": len(dependents),
        "is_cut": answer.impact.is_cut,
        "named": answer.impact.named,
        "has_more": len(dependents) > first + ROWS_PER_PAGE,
        "tests": len(answer.tests),
        "commands": [Command(shlex.join(one.words), one.tests) for one in answer.commands],
    }  # fmt: skip


def _ends(id_: SymbolId) -> Ends:
    return Ends(id_.name or "the file", id_.path, id_address(id_))


def _picture(answer: ImpactAnswer) -> Markup:
    """Return the changed symbols and what depends on them, the nearest first."""
    removed = frozenset(answer.removed)
    ends = {one.via for one in answer.impact.dependents}
    seeds: Sequence[SymbolId] = [one for one in answer.impact.seeds if one in ends]
    nodes = [_node(one, "blocked" if one in removed else "changed") for one in seeds[:SEEDS_MAX]]
    known = {node.id for node in nodes}
    links = []
    for one in answer.impact.dependents:
        via = str(one.via)
        if via not in known and one.depth == 1 and len(nodes) < NODES_MAX:
            nodes.append(_node(one.via, "changed"))  # a member of what was changed
            known.add(via)
        if str(one.symbol) not in known:
            nodes.append(_node(one.symbol, "test" if one.is_test else "plain"))
            known.add(str(one.symbol))
        links.append(
            Link(via, str(one.symbol), "plain" if one.grade == "proven" else "weak", f"{one.grade}, line {one.line}")
        )
    label = "What depends on the changed symbols, from left to right"
    return layered_graph(nodes, links, label=label, nodes_max=NODES_MAX)


def _node(id_: SymbolId, kind: str) -> Node:
    return Node(
        str(id_),
        id_.name or id_.path.rpartition("/")[2],
        id_.path if id_.name else "file",
        id_address(id_),
        kind,
        str(id_),
    )
