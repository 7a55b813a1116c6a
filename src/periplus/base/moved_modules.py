"""Modules that the documentation of 0.1 named, under their names of 0.2.

Importing an old name gives the module of the new name and a ``DeprecationWarning``. The old names end with 0.3: this module and its
caller in ``periplus/__init__.py`` are removed then.
"""

from __future__ import annotations

__all__ = ["MOVED", "find_moved"]

import sys
import warnings
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

# Old name to new name, both relative to ``periplus``.
MOVED: Final = {
    "agent.runlog": "agent.persistence.run_log",
    "context.address": "context.remotes.address",
    "context.client": "context.remotes.async_client",
    "context.record": "context.records.record",
    "context.remote": "context.remotes.remote_store",
    "context.select": "context.selection.search",
    "journal.checkpointing": "journal.checkpoints.creation",
    "journal.connection": "journal.index.connection",
    "journal.doctor": "journal.care.doctor",
    "journal.follow": "journal.history.follow",
    "journal.package": "journal.exchange.package",
    "journal.proof": "journal.proofs.proof_file",
    "journal.redaction": "journal.care.redaction",
    "journal.repair": "journal.care.repair",
    "journal.rescue": "journal.recovery.store_rescue",
    "journal.standing": "journal.storage.store_identity",
    "memory.candidates": "memory.reflection.candidates",
    "memory.claims": "memory.coordination.claims",
    "memory.handoffs": "memory.coordination.handoffs",
    "memory.lifecycle": "memory.writing.lifecycle",
    "memory.plans": "memory.coordination.plans",
    "memory.reflect": "memory.reflection.reflect",
    "memory.sessions": "memory.coordination.sessions",
    "project.connecting": "project.agent_hooks.connection",
    "project.contexts": "project.context_store.contexts",
    "project.hooks": "project.agent_hooks.hooks",
    "project.markdown": "project.exchange.markdown_export",
    "project.recording": "project.trail_store.recording",
    "project.reflecting": "project.knowledge.reflection",
    "project.reviewing": "project.knowledge.review",
    "project.syncing": "project.exchange.sync",
    "project.work": "project.knowledge.work",
}


def find_moved(name: str) -> ModuleSpec | None:
    """Return a spec that loads the moved module, or None if ``name`` (absolute) is no old name."""
    new = MOVED.get(name.removeprefix("periplus."))
    if new is None:
        return None
    warnings.warn(f"{name} is periplus.{new} since 0.2; the old name ends with 0.3", DeprecationWarning, stacklevel=3)
    return ModuleSpec(name, _Loader(f"periplus.{new}"))


class _Loader(Loader):
    def __init__(self, new: str) -> None:
        self._new = new

    def create_module(self, _: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        # The import system returns what ``sys.modules`` holds after this call, so both names are one module.
        sys.modules[module.__name__] = import_module(self._new)
