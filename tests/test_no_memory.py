"""No memory is left at any call of an append or of what follows from it: nothing acknowledged is lost, and the same process goes on."""

from __future__ import annotations

import os
import shutil

import pytest

from periplus.base.clock import SystemClock
from periplus.base.errors import PeriplusError
from periplus.journal.care.doctor import examine
from support import WRITER, StoppingFiles, item, make_store, open_journal, settle


class NoMemory(StoppingFiles):
    """Call number ``at`` finds none."""

    def _count(self, name):
        if super()._count(name):
            raise MemoryError
        return False


def put(number, text):
    return lambda transaction: transaction.put("decision", item(number), {"text": text})


def told(journal):
    return {entity.item_id: entity.value["text"] for entity in journal.entities()}


@pytest.mark.slow
def test_no_memory_at_any_call(tmp_path):
    root = make_store(tmp_path / "first", SystemClock())
    with open_journal(root) as journal:
        journal.mutate(put(1, "before"), WRITER)
    failed = 0
    for at in range(200):
        here = os.fspath(tmp_path / f"{at}/.periplus")
        shutil.copytree(root, here)
        settle(here)
        files = NoMemory(at)
        state = {item(1): "before"}
        with open_journal(here, files) as journal:
            for number, text in ((2, "inline"), (3, "an object " * 10_000), (2, "again")):
                try:
                    journal.mutate(put(number, text), WRITER)
                    state[item(number)] = text
                except (MemoryError, PeriplusError):  # whether it was written is not known then
                    failed += 1
                    state.update({key: value for key, value in told(journal).items() if key == item(number)})
            is_done, files.at = at >= len(files.calls), -1
            journal.mutate(put(4, "behind"), WRITER)
            state[item(4)] = "behind"
            assert told(journal) == state, (at, files.calls)
        with open_journal(here) as journal:
            assert told(journal) == state, (at, files.calls)
            journal.project()
            assert [one for one in examine(journal).problems if one.severity == "error"] == [], (at, files.calls)
        shutil.rmtree(tmp_path / str(at))
        if is_done:
            break
    assert is_done
    assert failed > 5
