"""The contract of context stores, on those that need nothing else."""

from __future__ import annotations

from context_contract import ContextContract
from periplus.context.disk import DiskStore
from periplus.context.memory import MemoryStore


class TestMemoryStore(ContextContract):
    def make_store(self, tmp_path):
        return MemoryStore()


class TestDiskStore(ContextContract):
    def make_store(self, tmp_path):
        return DiskStore(str(tmp_path / "store"))
