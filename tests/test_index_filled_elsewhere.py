"""Who opens a large store while another process fills its index waits for that, rather than hold all records in memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from periplus.base.clock import SystemClock
from periplus.base.files import Files
from periplus.journal import Layout, Writer, create_store
from periplus.project import Project

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.rebuild import write_history

COUNT = 30_000  # 25 MB
FILLS = """
import sys
from periplus.journal import Writer
from periplus.project import Project

def progress(done, total):
    print("filling", flush=True)

with Project(sys.argv[1], Writer.named("ben"), progress=progress) as project:
    assert not project.journal.unindexed()
"""


@pytest.mark.slow
def test_large_store_is_not_held_in_memory_while_another_fills_its_index(tmp_path: Path) -> None:
    store = create_store(os.path.join(tmp_path, ".periplus"), Files(), SystemClock())
    folder = Layout(store.root).lineage_folder(store.lineage)
    size = write_history(folder, store.store_id, store.lineage, COUNT, COUNT // 2)
    assert size > 16 << 20
    filling = subprocess.Popen([sys.executable, "-c", FILLS, store.root], stdout=subprocess.PIPE)
    try:
        assert filling.stdout is not None
        assert filling.stdout.readline() == b"filling\n"
        with Project(store.root, Writer.named("ann")) as project:
            assert not project.journal.unindexed()
            assert not project.journal.index.is_memory
            assert project.journal.index.counts() == {"decision": COUNT // 2}
        filling.communicate(timeout=60)
        assert filling.returncode == 0
    finally:
        filling.kill()
        filling.wait()
