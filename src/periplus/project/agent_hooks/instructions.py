"""The instructions for agents in a project: how to use Periplus, and the most important rules and traps, within a
budget.

AGENTS.md, which is in git, has only the first part, which is the same for every state of the memory. Memory comes by
hooks, and by ``rules_text`` where there are none. Its texts were written by agents and strangers, and other programs
read them as Markdown: they cannot end our part of a file, begin a comment, or include a file.
"""

from __future__ import annotations

__all__ = ["BUDGET_TOKENS", "USE", "rules_text"]

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from periplus.base.text.token_estimate import estimate_tokens
from periplus.memory.retrieval.recall import bring_up_to_date
from periplus.memory.review import in_force

if TYPE_CHECKING:
    from periplus.journal import Entity, Journal
    from periplus.memory.code_anchors.anchors import Ground

BUDGET_TOKENS: Final = 900
_CHARACTERS_MAX: Final = 300
_MISSES_MAX: Final = 50  # after so many rules without room it is full: of thousands not all are tried
_CLOSING_TOKENS: Final = 40
_ID: Final = 12
_SEVERITIES: Final = ("critical", "high", "medium", "low")
_IMPORT: Final = re.compile(r"(?<![^\s(\[{<\"'])@")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]+")

USE: Final = """\
## Periplus

This project keeps its memory in Periplus: the command `periplus`, or the server's tools.

- Before a task: `periplus brief "TASK"`. Before you edit: `periplus check PATHS`; leave what others hold, or ask.
- Why something is as it is: `periplus recall "QUESTION"`.
- What others would have to learn again: `periplus remember "…" --type decision|constraint|trap|lesson --about PATH`.
- When you stop with work open: `periplus handoff write "…"`.
"""


def rules_text(journal: Journal, ground: Ground, *, budget_tokens: int = BUDGET_TOKENS) -> str:
    """Return the rules in whole lines, those of the greatest weight first. The same store and tree give the same
    text; rules without room are counted.
    """
    bring_up_to_date(journal)
    constraints = sorted(in_force(journal, ("constraint",)), key=_weight)
    traps = sorted(in_force(journal, ("trap",)), key=_weight)
    text, left = USE, 0
    for title, entities in (("Rules to obey", constraints), ("Traps", traps)):
        heading = f"\n### {title}\n\n"
        misses = 0
        for at, entity in enumerate(entities):
            if misses >= _MISSES_MAX:
                left += len(entities) - at
                break
            line = _line(entity, ground)
            if estimate_tokens(text + heading + line) > budget_tokens - _CLOSING_TOKENS:
                left, misses = left + 1, misses + 1
                continue
            text, heading = text + heading + line, ""
    if left:
        text += f'\n{left:,} more: `periplus recall "…" --type constraint` or `--type trap`.\n'
    return text


def _weight(entity: Entity) -> tuple[int, int, str, str]:
    value = entity.value
    confidence = value.get("confidence")
    rank = _SEVERITIES.index(_severity(entity))
    return rank, -confidence if isinstance(confidence, int) else -100, str(value.get("created", "")), entity.item_id


def _severity(entity: Entity) -> str:
    severity = entity.value.get("severity")
    return severity if isinstance(severity, str) and severity in _SEVERITIES else "medium"


def _line(entity: Entity, ground: Ground) -> str:
    value = entity.value
    severity = f"{_severity(entity)}: " if entity.item_type == "trap" else ""
    remedy = f" What to do: {_plain(value.get('remedy'))}" if value.get("remedy") else ""
    paths = [f"`{path}`" for path in _paths(entity)]
    about = f" ({', '.join(paths[:3])}{', …' if len(paths) > 3 else ''})" if paths else ""
    stale = ", perhaps stale" if ground.stale(entity) else ""
    return f"- {severity}{_plain(value.get('text'))}{remedy}{about} [{entity.item_id[:_ID]}{stale}]\n"


def _paths(entity: Entity) -> Iterator[str]:
    about = entity.value.get("about")
    for item in about if isinstance(about, list) else ():
        if isinstance(item, dict) and item.get("kind") != "entity":
            path = _plain(item.get("ref")).replace("`", "'")
            if path:
                yield path


def _plain(value: object) -> str:
    """Return one line that reads as plain text in Markdown."""
    text = " ".join(_CONTROL.sub(" ", str(value or "")).split())
    if len(text) > _CHARACTERS_MAX:
        text = text[: _CHARACTERS_MAX - 1] + "…"
    text = text.replace("<!--", "<! --").replace("-->", "-- >")
    return _IMPORT.sub(r"\\@", text)
