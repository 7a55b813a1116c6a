"""What can be seen of a session: what its calls cost, what exactly the model saw, spans for a collector."""

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
