"""The supervisor: what is done next for a dispatch, and how it is judged."""

from __future__ import annotations

from periplus.dispatch.supervision.orders import Order, prepare_dispatch
from periplus.dispatch.supervision.supervisor import Outcome, Supervisor
from periplus.dispatch.supervision.workplace import SupervisorOptions

__all__ = ["Order", "Outcome", "Supervisor", "SupervisorOptions", "prepare_dispatch"]
