"""Collection of evidence: artifacts from records and objects, places and changed lines from git, outputs of commands from objects.

What agents say is read again from what they handed in at each judgement, and looked up at the commit that stands now.
"""

from __future__ import annotations

__all__ = ["HandedIn", "evidence_of", "handed_in_by", "parsed"]

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from periplus.base.errors import FormatError, PeriplusError
from periplus.base.named_tuple import NamedTuple
from periplus.dispatch.handover.result_file import Finding, Result
from periplus.dispatch.loops.artifacts import named_places, parse_artifact, review_of
from periplus.dispatch.loops.evidence import Changed, CommandRun, Evidence, Handed, Place
from periplus.dispatch.loops.phase_orders import AUTHOR, agents_apart, by_of, kind_of, present_phase
from periplus.dispatch.loops.table import Phase, phase_of
from periplus.memory.entities import schemas

if TYPE_CHECKING:
    from periplus.dispatch.loops.artifacts import Artifact
    from periplus.dispatch.repository import Repository
    from periplus.memory.entities.schemas import Assignment, Check, Loop

Load = Callable[[str], bytes]
_OF_WHOLE_CHANGE: Final = "review"
_REASON_MAX: Final = 300


class _Review(msgspec.Struct):
    verdict: Literal["approve", "changes"]
    findings: tuple[Finding, ...] = ()
    artifact: str = ""


class HandedIn(NamedTuple):
    """Result of the agent of a slot in a try: the artifact as it is recorded, and why it counts for nothing where it does not."""

    artifact: schemas.Artifact | None
    problem: str = ""


def parsed(data: bytes, phase: Phase) -> Artifact:
    """Parse an artifact as it was kept (``supervision.kept_results``). Raises FormatError."""
    if phase.answer != "review":
        return parse_artifact(data.decode("utf-8", "replace"), phase.artifact)
    try:
        held = msgspec.json.decode(data, type=_Review)
    except msgspec.DecodeError as error:
        raise FormatError(f"review: {error}") from error
    return review_of(
        Result(run="", status="done", verdict=held.verdict, findings=held.findings, artifact=held.artifact)
    )


def handed_in_by(load: Load, loop: Loop, slot: int, item_id: str, assignment: Assignment | None) -> HandedIn:
    """Return what the assignment of a slot brought."""
    by = by_of(loop, slot)
    if assignment is None or assignment.state != "integrated":
        reason = assignment.reason if assignment is not None else "it was not started"
        return HandedIn(None, f"{by} handed in nothing: {' '.join(reason.split())[:_REASON_MAX] or 'it was stopped'}")
    if not assignment.artifact:
        return HandedIn(None, f"{by} handed in no artifact")
    made = schemas.Artifact(
        phase=loop.phase,
        by=by,
        agent=assignment.agent,
        assignment=item_id,
        object=assignment.artifact,
        at=assignment.updated,
    )
    try:
        parsed(load(assignment.artifact), present_phase(loop))
    except PeriplusError as error:
        return HandedIn(msgspec.structs.replace(made, refused=True), f"{by}: {error}")
    return HandedIn(made)


def evidence_of(
    repository: Repository, load: Load, loop: Loop, artifacts: Sequence[schemas.Artifact], checks: Sequence[Check]
) -> Evidence:
    """Return all evidence of a loop, as of the tip of its branch."""
    tip = repository.tip(loop.branch) or loop.head
    kind = kind_of(loop)
    handed = tuple(
        Handed(one.phase, one.by, parsed(load(one.object), phase_of(kind, one.phase)))
        for one in artifacts
        if not one.refused
    )
    places = {place for one in handed for place in named_places(one.artifact)}
    lines = repository.line_counts(tip, {path for path, _ in places})
    begin = loop.base
    if loop.kind != _OF_WHOLE_CHANGE:
        begin = loop.began if loop.phase == "fix" else loop.base
        tip_of_change = tip if loop.phase == "fix" else loop.head
    else:
        tip_of_change = tip
    return Evidence(
        handed,
        tuple(
            CommandRun(one.phase, one.argv, one.code, load(one.output).decode("utf-8", "replace") if one.output else "", one.tip)
            for one in checks
        ),
        tuple(Place(path, line, line <= lines.get(path, 0)) for path, line in sorted(places)),
        tuple(Changed(*one) for one in repository.changed_lines(begin, tip_of_change)),
        loop.command, AUTHOR if loop.kind == "review" else "", agents_apart(loop), tip, loop.began,
    )  # fmt: skip
