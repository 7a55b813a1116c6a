"""Observation of a session: the cost of its model calls, its exact requests, and OpenTelemetry spans."""

from __future__ import annotations

__all__ = [
    "CallMetrics",
    "Ledger",
    "RequestHistory",
    "Seen",
    "Spending",
    "Totals",
    "TurnMetrics",
    "call_metrics",
    "cost_text",
    "kept_characters",
]

from periplus.agent.observation.metrics import (
    CallMetrics,
    Ledger,
    Spending,
    Totals,
    TurnMetrics,
    call_metrics,
    cost_text,
)
from periplus.agent.observation.request_history import RequestHistory, Seen, kept_characters
