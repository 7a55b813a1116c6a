"""Candidates (proposed memory) as documents and as text."""

from __future__ import annotations

__all__ = ["between", "candidate_out"]

from typing import TYPE_CHECKING

from periplus.cli.common.face import visible

if TYPE_CHECKING:
    from periplus.cli.memory.candidate_schemas import CandidateOut
    from periplus.journal import Entity


def candidate_out(entity: Entity) -> CandidateOut:
    from periplus.cli.memory.candidate_schemas import CandidateOut, SeenOut
    from periplus.memory.entities.types import state_of

    value = entity.value
    held, provenance = value.get("payload"), value.get("provenance")
    payload = held if isinstance(held, dict) else {}
    source = provenance if isinstance(provenance, dict) else {}
    confidence, about, evidence = payload.get("confidence"), payload.get("about"), payload.get("evidence")
    is_ours = source.get("kind") == "reflection"
    return CandidateOut(
        entity.item_id, state_of("candidate", value), str(value.get("source_store", "")),
        str(value.get("source_lineage", "")), str(value.get("item_type", "")), str(value.get("item_id", "")),
        str(value.get("version", "")), str(payload.get("text", "")), str(value.get("accepted_as", "")),
        str(source.get("kind", "other_project")), confidence if isinstance(confidence, int) else 100,
        str(source.get("name", "")) if is_ours else "", str(value.get("why", "")), str(payload.get("remedy", "")),
        str(value.get("reason", "")),
        [str(one.get("ref", "")) for one in about if isinstance(one, dict)] if isinstance(about, list) else [],
        [SeenOut(str(one.get("ref", "")), str(one.get("quote", ""))) for one in evidence if isinstance(one, dict)]
        if isinstance(evidence, list) else [],
        str(value.get("created", "")), str(payload.get("sender", "")), str(payload.get("recipient", "")),
    )  # fmt: skip


def between(one: CandidateOut) -> str:
    """Return the sender and recipient of a message from another project, as text."""
    return f", from {visible(one.sender)} to {visible(one.recipient)}" if one.type == "message" else ""
