"""The contract of context stores, on those that need nothing else."""

from __future__ import annotations

from context_contract import ContextContract
from periplus.context.stores.disk_store import DiskStore
from periplus.context.stores.memory_store import MemoryStore


class TestMemoryStore(ContextContract):
    def make_store(self, tmp_path):
        return MemoryStore()


class TestDiskStore(ContextContract):
    EXAMPLES = 20

    def make_store(self, tmp_path):
        return DiskStore(str(tmp_path / "store"))


class TestDiskStoreThatKeepsWhateverItCan(ContextContract):
    """Deltas count as large from a weight of four: what small stores never come to is done at every turn."""

    EXAMPLES = 30

    def make_store(self, tmp_path):
        return DiskStore(str(tmp_path / "store"), large_weight=4)


class TestDiskStoreWithoutACache(ContextContract):
    """Where the cache cannot be written, nothing is missing but speed."""

    EXAMPLES = 10

    def make_store(self, tmp_path):
        folder = tmp_path / "store"
        folder.mkdir()
        (folder / "cache").write_text("in the way")
        return DiskStore(str(folder), large_weight=4)
