"""Cards: the announcement of a trail in the journal, and the order of two trails of one session."""

from __future__ import annotations

__all__ = ["Calls", "ImportedTrail", "card_of", "card_of_run", "is_later"]

from typing import TYPE_CHECKING, Final

from periplus.base.clock import format_ms
from periplus.base.encoding.canonical import JSONValue
from periplus.base.named_tuple import NamedTuple
from periplus.journal import Entity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from periplus.interop import Imported
    from periplus.trail.recording.recorder import Ended

_FILES_LISTED_MAX: Final = 200
_SAME_MS: Final = 5_000  # within which an agent and its hooks report the same call
_NO_CALLS: Final = frozenset({"PROMPT", "SAY", "MODEL_CALL", "NOP", "COMMENT", "LABEL", "CHECKPOINT"})
_LINES_LISTED_MAX: Final = 20
_COUNTED: Final = {"prompts": "PROMPT", "commands": "COMMAND_RUN", "model_calls": "MODEL_CALL"}
_UNREADABLE: Final = "unreadable line"  # as the importers name lines beyond those that they number


class Calls(NamedTuple):
    """The number of calls of a trail, and the time of the last; 0 where it is unknown."""

    number: int
    last_ms: int

    @classmethod
    def of(cls, steps: Iterable[tuple[int, int]]) -> Calls:
        """Count calls from ``(code, time)`` of each step."""
        from periplus.trail.opcodes import BY_CODE

        times = [at_ms for code, at_ms in steps if BY_CODE[code].name not in _NO_CALLS]
        return cls(len(times), max(times, default=0))

    def goes_beyond(self, others: Calls) -> bool:
        """Return True where there are more calls, the last of them after all of ``others``."""
        return self.number > others.number and (not others.last_ms or self.last_ms > others.last_ms + _SAME_MS)


def is_later(card: dict[str, JSONValue], held: dict[str, JSONValue]) -> bool:
    """Return True where a session's trail should replace the present one: a session grows, an old copy does not.

    A trail from hooks (it has no source) gives way to the agent's own record of the session, and never the other way
    round. A rendering that another tool made of the session gives way to both.
    """
    if card["digest"] == held.get("digest"):
        return bool(card.get("parent")) and not held.get("parent")  # its parent session is now known
    if bool(card.get("original")) != bool(held.get("original")):
        return not card.get("original")
    if bool(card["source_sha256"]) != bool(held.get("source_sha256")):
        return bool(card["source_sha256"])
    if ("unreadable_lines" in card) > ("unreadable_lines" in held) and str(card.get("ended", "")) <= str(
        held.get("ended", "")
    ):
        return False  # a damaged copy of a trail that is held whole
    counted = [counts.get("steps") if isinstance(counts := one.get("counts"), dict) else 0 for one in (card, held)]
    steps = [count if isinstance(count, int) else 0 for count in counted]
    ends = [str(one.get("ended", "")) for one in (card, held)]
    if card["source_sha256"] and card["source_sha256"] == held.get("source_sha256") and held.get("parent"):
        return bool(card.get("parent"))  # the file of a subagent alone says less of it
    if card.get("keeper") and not held.get("keeper"):  # as the agent's own record, with secrets replaced
        return (ends[0], steps[0]) > (ends[1], steps[1])
    return (ends[0], steps[0]) >= (ends[1], steps[1])


def card_of(imported: Imported, parent: str) -> dict[str, JSONValue]:
    """Return the card of an imported trail; ``parent`` is the trail of the session that this one was part of."""
    from periplus.trail import TrailReader

    reader = TrailReader(imported.trail)
    card: dict[str, JSONValue] = {
        "v": 1,
        "digest": reader.digest.hex(),
        "object": "",
        "bytes": len(imported.trail),
        "format": imported.format,
        "agent": imported.agent,
        "session_id": imported.session_id,
        "source_sha256": imported.source_sha256.hex(),
        "title": imported.title or "",
        "cwd": imported.cwd or "",
        "model": imported.model or "",
        "started": format_ms(imported.started_ms) if imported.started_ms else "",
        "ended": format_ms(imported.ended_ms) if imported.ended_ms else "",
        "status": reader.status,
        "counts": dict(imported.counts),
        "skipped": dict(imported.skipped),
        "unknown": dict(imported.unknown),
        "masked": imported.masked,
        "files": list(imported.files[:_FILES_LISTED_MAX]),
    }
    if imported.original:
        card["original"] = imported.original
    if imported.keeper:
        card["keeper"] = imported.keeper
    if imported.branch:
        card["branch"] = imported.branch
    if imported.ending:
        card["ending"] = imported.ending
    if parent:
        card["parent"] = parent
    if imported.unreadable_lines:
        beyond = imported.skipped.get(_UNREADABLE, 0)
        card["skipped"] = {**imported.skipped, _UNREADABLE: len(imported.unreadable_lines) + beyond}
        card["unreadable_lines"] = list(imported.unreadable_lines[:_LINES_LISTED_MAX])
    return card


def card_of_run(ended: Ended) -> dict[str, JSONValue]:
    """Return the card of the trail of a recorded run."""
    from periplus.trail.format.reader import TrailReader
    from periplus.trail.opcodes import BY_CODE

    run, facts = ended.run, ended.run.facts
    files: dict[str, None] = {}
    counts: dict[str, JSONValue] = {"steps": len(ended.steps), **dict.fromkeys(_COUNTED, 0)}
    names = {op: name for name, op in _COUNTED.items()}
    for step in ended.steps:
        opcode = BY_CODE[step.code]
        if opcode.name in names:
            counts[names[opcode.name]] = int(str(counts[names[opcode.name]])) + 1
        if opcode.name.startswith("FILE_") and opcode.name != "FILE_LIST":
            files.update(dict.fromkeys(
                value for operand, value in zip(opcode.operands, step.operands, strict=True)
                if operand.kind == "path" and isinstance(value, str)
            ))  # fmt: skip
    counts["files"] = len(files)
    return {
        "v": 1,
        "digest": TrailReader(ended.data).digest.hex(),
        "object": "",
        "bytes": len(ended.data),
        "format": "recording",
        "agent": facts.agent,
        "session_id": run.id,
        "source_sha256": "",
        "title": facts.title,
        "cwd": facts.cwd,
        "model": facts.model,
        "started": format_ms(run.started_ms),
        "ended": format_ms(ended.ended_ms),
        "status": run.status,
        "counts": counts,
        "files": [*list(files)[:_FILES_LISTED_MAX]],
    }


class ImportedTrail(NamedTuple):
    """``entity`` announces the trail; ``changed`` is False where the store held just this one already, ``withheld``
    counts redacted texts that were left out again. ``digest`` is that of the import, another than the entity's
    where the present trail is longer; ``before`` is the replaced one. ``left_out`` counts the older commits of a
    history that were not imported. Where it ``is_settled`` another import of the same file would change nothing
    and give the same, except ``changed``.
    """

    entity: Entity
    changed: bool
    children: tuple[ImportedTrail, ...]
    withheld: int = 0
    digest: str = ""
    before: Entity | None = None
    is_settled: bool = False
    left_out: int = 0
