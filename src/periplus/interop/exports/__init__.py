"""Trails in the formats of others. One table: an exporter's module is imported when it is asked for."""

from __future__ import annotations

__all__ = ["EXPORTS", "Export"]

from typing import Final, NamedTuple


class Export(NamedTuple):
    """A format that trails can be written in: its name, what it is for, and how its files usually end."""

    name: str
    meaning: str
    suffix: str


EXPORTS: Final = (
    Export("markdown", "a report for reviewers", ".md"),
    Export("jsonl", "JSON lines: the header, each step, the end", ".jsonl"),
    Export("otel", "OpenTelemetry GenAI spans, as an OTLP document", ".json"),
    Export("agent-trace", "an Agent Trace record: which lines the agent wrote", ".json"),
    Export("in-toto", "a signed in-toto statement in a DSSE envelope", ".json"),
)
