"""Reflection: derive proposals from the steps of sessions by rules that anybody can check; no model, disk or clock.

The same sessions give the same proposals. Four rules look for what is worth keeping:

- ``failed-then-passed``: a command failed, and later it, or a similar one, passed; the changes between are the lesson.
- ``failed-again``: the same command failed with the same words in several sessions; a trap.
- ``correction``: after the agent had acted, its person said what is always, never, or instead to be done; a constraint.
- ``routine``: the commands that sessions run here to test, lint, build and format; a lesson.

Each proposal says why it is made and names the steps it rests on. The rules rather miss than err: a person who has to
judge many poor proposals soon judges none. Other proposals, of a model for instance, come from a ``Proposer`` that
the caller hands in, and are held to the same bounds.
"""

from __future__ import annotations

__all__ = ["CONFIDENCE_MIN", "acts_of_trail", "bounded", "reflect"]

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import UsageError
from periplus.memory.reflection.proposal import Act, ActKind, Proposal, SessionActs

if TYPE_CHECKING:
    from periplus.journal import Entity


CONFIDENCE_MIN: Final = 30
TEXT_CHARACTERS_MAX: Final = 600
WHY_CHARACTERS_MAX: Final = 300
QUOTE_CHARACTERS_MAX: Final = 240
SEEN_MAX: Final = 8
ABOUT_MAX: Final = 8
SUBJECT_PARTS_MAX: Final = 4
OF_A_SESSION_MAX: Final = 5
ACT_CHARACTERS_MAX: Final = 4_000
_TYPES: Final = ("constraint", "lesson", "trap")
_OWN_FOLDER: Final = ".periplus/"
_KINDS: Final[dict[str, ActKind]] = {
    "PROMPT": "prompt", "SAY": "say", "COMMAND_RUN": "command", "TEST_RUN": "test", "FILE_WRITE": "change",
    "FILE_EDIT": "change", "FILE_DELETE": "change", "FILE_MOVE": "change",
}  # fmt: skip


def reflect(sessions: Sequence[SessionActs], beside: Sequence[SessionActs] = ()) -> list[Proposal]:
    """Return the proposals of ``sessions``, the surest first. ``beside`` are other sessions of the project: they show
    what recurs, and nothing is proposed for them alone.
    """
    from periplus.memory.reflection.command_rules import failures, routines
    from periplus.memory.reflection.correction_rules import corrections

    found = [*failures(sessions, beside), *corrections(sessions, beside), *routines(sessions, beside)]
    best: dict[tuple[str, ...], Proposal] = {}
    for one in sorted((bounded(one) for one in found), key=_order):
        best.setdefault(one.subject, one)
    counts: dict[str, int] = {}
    kept = []
    for one in best.values():
        trail = one.seen[0].trail
        counts[trail] = counts.get(trail, 0) + 1
        if one.confidence >= CONFIDENCE_MIN and counts[trail] <= OF_A_SESSION_MAX:
            kept.append(one)
    return kept


def bounded(one: Proposal) -> Proposal:
    """Return the proposal within its bounds and without secrets. Raises UsageError for a proposal that cannot become
    an entity.
    """
    from periplus.base.text.secrets import mask_secrets

    if one.item_type not in _TYPES:
        raise UsageError(f"a proposal of type {one.item_type!r}", mend=f"Known are: {', '.join(_TYPES)}.")
    if not (one.rule and one.subject and one.text.strip() and one.why.strip() and one.seen):
        raise UsageError("a proposal needs a rule, a subject, a text, a reason, and a step that it rests on")
    if not 0 <= one.confidence <= 100:
        raise UsageError(f"confidence {one.confidence} is not between 0 and 100")

    def said(text: str, most: int) -> str:
        return _cut(mask_secrets(" ".join(text.split()))[0], most)

    return one._replace(
        subject=tuple(part[:QUOTE_CHARACTERS_MAX] for part in one.subject[:SUBJECT_PARTS_MAX]),
        text=said(one.text, TEXT_CHARACTERS_MAX),
        why=said(one.why, WHY_CHARACTERS_MAX),
        seen=tuple(seen._replace(quote=said(seen.quote, QUOTE_CHARACTERS_MAX)) for seen in one.seen[:SEEN_MAX]),
        about=tuple(path for path in one.about[:ABOUT_MAX] if len(path) <= QUOTE_CHARACTERS_MAX),
        remedy=said(one.remedy, TEXT_CHARACTERS_MAX) if one.item_type == "trap" else "",
    )


def acts_of_trail(entity: Entity, read: Callable[[bytes], bytes]) -> SessionActs:
    """Read the acts of a trail by its card; ``read`` fetches an object by its digest. Raises what reading a damaged
    trail raises.
    """
    from periplus.memory.fulltext.documents import object_of_card
    from periplus.trail import BY_CODE, TrailReader

    card = entity.value
    cwd = _text(card.get("cwd")).rstrip("/")
    reader = TrailReader(read(object_of_card(card)))
    acts = []
    for index, step in enumerate(reader.steps()):
        opcode = BY_CODE.get(step.code)
        kind = _KINDS.get(opcode.name if opcode is not None else "")
        if kind is None or not step.operands:
            if opcode is not None and opcode.name in ("TOOL_CALL", "AGENT_SPAWN", "SEARCH_CODE", "FILE_READ"):
                acts.append(Act(index, "other", "", step.outcome))
            continue
        at = 1 if opcode is not None and opcode.name == "FILE_MOVE" else 0
        text = _operand(step.operands[at], read)
        if kind == "change":
            text = text[len(cwd) + 1 :] if cwd and text.startswith(cwd + "/") else text
            if text.startswith(_OWN_FOLDER):
                continue
        outcome = "failed" if step.exit_code not in (None, 0) and step.outcome == "ok" else step.outcome
        acts.append(Act(index, kind, text, outcome, _operand(step.error, read)))
    return SessionActs(entity.item_id, tuple(acts), by_person=not card.get("parent"))


def _operand(value: object, read: Callable[[bytes], bytes]) -> str:
    if value is None or isinstance(value, str):
        return (value or "")[:ACT_CHARACTERS_MAX]
    from periplus.trail import TextObject

    if isinstance(value, TextObject):
        return read(value.sha256).decode("utf-8", "replace")[:ACT_CHARACTERS_MAX]
    return ""


def _order(one: Proposal) -> tuple[int, str, str]:
    return -one.confidence, one.rule, one.text


def _cut(text: str, most: int) -> str:
    """Cut a text that is too long to whole words and an ellipsis."""
    if len(text) <= most:
        return text
    kept = text[: most - 1]
    whole, _, last = kept.rpartition(" ")
    return (whole if whole and len(last) < most // 2 else kept) + "…"


def _text(value: JSONValue) -> str:
    return value if isinstance(value, str) else ""
