"""Claims as rows, and as a tree of the files that they cover."""

from __future__ import annotations

__all__ = ["CLAIMS_SHOWN", "ClaimRow", "ClashRow", "TreeRow", "claim_row", "clash_rows", "tree_rows"]

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from periplus.base.named_tuple import NamedTuple
from periplus.web.pages.work.entity_fields import one_line, text_of, texts_of

if TYPE_CHECKING:
    from periplus.journal import Entity
    from periplus.project import Project

CLAIMS_SHOWN: Final = 300
DEPTH_MAX: Final = 12  # deeper folders are shown as one name
_WILD: Final = re.compile(r"[*?\[{\\]")
_SCOPES_SHOWN: Final = 40


class ClaimRow(NamedTuple):
    """A claim. ``minutes_left`` is None for one that waits; ``theirs`` is True where another clone wrote it."""

    id: str
    state: str
    mode: str
    scopes: tuple[str, ...]
    holder: str
    is_own: bool
    theirs: bool
    text: str
    step: str
    session: str
    created: str
    expires: str
    minutes_left: int | None


class TreeRow(NamedTuple):
    """A path of the tree, ``depth`` levels down, with the claims on it itself."""

    depth: int
    name: str
    path: str
    claims: tuple[ClaimRow, ...]


class ClashRow(NamedTuple):
    """Two claims that exclude each other, taken by clones that did not know of each other."""

    mine: ClaimRow
    other: ClaimRow
    scope: str
    other_scope: str
    dispatch: str


@dataclass(slots=True)
class _Node:
    claims: list[ClaimRow] = field(default_factory=list)
    below: dict[str, _Node] = field(default_factory=dict)


def claim_row(project: Project, claim: Entity, now_ms: int) -> ClaimRow:
    from periplus.base.clock import parse_ms

    value = claim.value
    state, expires = text_of(value, "state"), text_of(value, "expires")
    left_ms = max(0, (parse_ms(expires) or now_ms) - now_ms)
    return ClaimRow(
        claim.item_id, state, text_of(value, "mode") or "exclusive", texts_of(value, "scopes")[:_SCOPES_SHOWN],
        text_of(value, "holder"), project.work.is_own(claim), claim.lineage != project.journal.lineage,
        one_line(text_of(value, "text")), text_of(value, "step"), text_of(value, "session"), text_of(value, "created"), expires,
        left_ms // 60_000 if state == "held" else None,
    )  # fmt: skip


def clash_rows(project: Project, now_ms: int) -> tuple[ClashRow, ...]:
    """Return the pairs of claims that exclude each other."""
    from periplus.memory.coordination.claims import clashes

    return tuple(
        ClashRow(
            claim_row(project, one.mine, now_ms), claim_row(project, one.other, now_ms), one.scope, one.other_scope, one.dispatch
        )
        for one in clashes(project.journal, now_ms)[:CLAIMS_SHOWN]
    )  # fmt: skip


def tree_rows(claims: Sequence[ClaimRow]) -> tuple[TreeRow, ...]:
    """Return the claimed paths in the order of a tree; folders with one entry and no claim are joined with it."""
    root = _Node()
    for claim in claims:
        for scope in claim.scopes:
            node = root
            for name in _names(scope):
                node = node.below.setdefault(name, _Node())
            node.claims.append(claim)
    rows = [TreeRow(0, "the whole project", ".", tuple(root.claims))] if root.claims else []
    waiting = [(0, name, name, root.below[name]) for name in sorted(root.below, reverse=True)]
    while waiting:
        depth, name, path, node = waiting.pop()
        while not node.claims and len(node.below) == 1:
            ((inner, node),) = node.below.items()
            name, path = f"{name}{inner}", f"{path}{inner}"
        rows.append(TreeRow(depth, name, path, tuple(node.claims)))
        waiting += [
            (min(depth + 1, DEPTH_MAX), one, f"{path}{one}", node.below[one])
            for one in sorted(node.below, reverse=True)
        ]
    return tuple(rows)


def _names(scope: str) -> list[str]:
    """Return the folders of a scope, each with its ``/``, then its file or the pattern that begins with a wild name."""
    if scope in ("", "."):
        return []
    wild = _WILD.search(scope)
    end = scope.rfind("/", 0, wild.start() if wild else len(scope)) + 1
    folders = scope[:end].split("/")[: DEPTH_MAX - 1]
    names = [f"{one}/" for one in folders if one]
    rest = scope[len("".join(names)) :]
    head, colon, symbol = rest.partition(":") if not wild else (rest, "", "")
    return [*names, *([head] if head else []), *([f"{colon}{symbol}"] if colon else [])]
