"""Results that an agent handed in, as records: what it says, its artifact, its findings, and candidates of what it proposes.

All of it can be kept again: an object is named by its content, and a candidate by its text. Evidence of a proposal that nobody can
look up is left out, and a proposal without any is not kept: the files and commits that it names are looked for in the commit that the
agent worked on.
"""

from __future__ import annotations

__all__ = ["artifact_bytes", "keep_result"]

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from periplus.base.encoding.canonical import JSONValue
from periplus.base.named_tuple import NamedTuple
from periplus.dispatch.handover.named_places import parse_place
from periplus.dispatch.supervision.texts import plain

if TYPE_CHECKING:
    from periplus.dispatch.handover.result_file import Proposal, Result
    from periplus.dispatch.supervision.workplace import Workplace
    from periplus.memory.entities.schemas import Assignment

LESSONS_MAX: Final = 20
FINDINGS_MAX: Final = 100
TEXT_MAX: Final = 2_000
PROPOSAL_CONFIDENCE: Final = 50
_COMMIT: Final = re.compile(r"(?:commit )?([0-9a-f]{7,64})\b")
# Faults come back, and dead code or stale memory is an observation until somebody has removed it.
_TYPES: Final = {
    "constraint": "constraint", "decision": "decision", "lesson": "lesson", "note": "note", "trap": "trap", "fault": "trap",
    "dead_code": "note", "stale_memory": "note",
}  # fmt: skip
_LEADS: Final = {"dead_code": "Dead code: ", "stale_memory": "Stale memory: "}


class _Found(NamedTuple):
    proposal: Proposal
    about: tuple[str, ...]
    evidence: tuple[tuple[str, str], ...]


def keep_result(at: Workplace, value: Assignment, result: Result, remarks: list[JSONValue]) -> dict[str, JSONValue]:
    """Keep what was handed in; return the fields that tell of it. What was left out is added to ``remarks``."""
    fields: dict[str, JSONValue] = {
        "summary": plain(result.summary),
        "lessons": [plain(one, 500) for one in result.lessons[:LESSONS_MAX]],
    }
    if result.verdict:
        findings = msgspec.to_builtins(result.findings[:FINDINGS_MAX])
        fields |= {"verdict": result.verdict, "findings": findings}
    if at.order.loop:
        data = artifact_bytes(result)
        fields["artifact"] = at.journal.objects.put(data).hex() if data else ""
    if result.proposals:
        _propose(at, value, result.proposals, remarks)
    remarks += [plain(one, 300) for one in result.notes]
    return fields


def artifact_bytes(result: Result) -> bytes:
    """Return the artifact of a result as it is kept: its text, of a review also verdict and findings; empty for none."""
    if not result.verdict:
        return result.artifact.encode()
    whole = {"verdict": result.verdict, "findings": result.findings, "artifact": result.artifact}
    return msgspec.json.encode(whole)


def _propose(at: Workplace, value: Assignment, given: Sequence[Proposal], remarks: list[JSONValue]) -> None:
    """Record proposals as candidates, for a person to accept; known ones are not written again."""
    from periplus.memory.reflection import proposal as reflected
    from periplus.memory.reflection.proposal_records import record_proposals

    found = list(_found(at, value, given))
    proposals = [
        reflected.Proposal(
            "handed in", _TYPES[one.kind], ("handed in", one.kind, one.text), _LEADS.get(one.kind, "") + plain(one.text, TEXT_MAX),
            plain(one.reason, TEXT_MAX) or f"{value.agent} proposes it as {value.kind}", (), PROPOSAL_CONFIDENCE,
            about=about, commits=evidence,
        )
        for one, about, evidence in found
    ]  # fmt: skip
    recorded = record_proposals(at.journal, proposals, at.writer)
    told = [f"{len(recorded.written):,} of {len(given):,} proposals are new candidates"]
    if len(found) < len(given):
        told.append(f"{len(given) - len(found):,} proposals name nothing that can be looked up, and are left out")
    told += [f"a proposal was not kept: {plain(one.reason, 200)}" for one in recorded.skipped[:3]]
    remarks += told


def _found(at: Workplace, value: Assignment, given: Sequence[Proposal]) -> Iterator[_Found]:
    """Return each proposal that has evidence, with the paths that it is about and that there are."""
    places = {place[0] for one in given for text in one.evidence if (place := parse_place(text))}
    lines = at.repository.line_counts(value.base, places | {_path(name) for one in given for name in one.about})
    for one in given:
        evidence: list[tuple[str, str]] = []
        for text in one.evidence:
            place, commit = parse_place(text), _COMMIT.match(text)
            if place is not None and place[1] <= lines.get(place[0], 0):
                evidence.append((value.base, text))
            elif commit is not None and (whole := at.repository.commit(commit[1])):
                evidence.append((whole, text))
        if evidence:
            yield _Found(one, tuple(path for name in one.about if (path := _path(name)) in lines), tuple(evidence))


def _path(name: str) -> str:
    return name.strip().removeprefix("./").rstrip("/")
