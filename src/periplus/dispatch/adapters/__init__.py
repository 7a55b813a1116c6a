"""Agents that can be started without a person: how each is found, started, resumed, given permissions and read."""

from __future__ import annotations

__all__ = [
    "ADAPTERS",
    "Adapter",
    "Command",
    "Explanation",
    "Reading",
    "Sought",
    "Spent",
    "Start",
    "Wants",
    "adapter_named",
    "adapters_with",
    "check",
    "command_adapter",
]

from periplus.dispatch.adapters.command import command_adapter
from periplus.dispatch.adapters.installation import check
from periplus.dispatch.adapters.model import Adapter, Command, Explanation, Sought, Start
from periplus.dispatch.adapters.output import Reading, Spent, Wants
from periplus.dispatch.adapters.table import ADAPTERS, adapter_named, adapters_with
