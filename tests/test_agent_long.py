"""A thousand turns in one session, through the store: what a turn costs does not depend on how many there were before."""

from __future__ import annotations

import gc
import os
import time
from itertools import pairwise
from statistics import median

import pytest

from agent_scene import Scene, edit, read, says
from periplus.agent.episodes import Ended

TURNS = 3_000 if os.environ.get("PERIPLUS_EXHAUSTIVE") else 1_000
WINDOWS = 10
FILES, FUNCTIONS = 3, 12


class Person:
    """Asks for one change after another in small files; the model reads, edits, and says so."""

    def __init__(self, scene):
        self.scene = scene
        self.turn = self.step = 0
        self.sizes = []  # of the requests of a turn, the largest
        for number in range(FILES):
            scene.file(
                f"part{number}.py",
                "".join(f"def step_{one}(value):\n    return value + {one}\n\n\n" for one in range(FUNCTIONS)),
            )
        scene.asked = self.asked
        scene.emit = lambda _: None
        scene.extensions = ()

    def asked(self, messages, tools):
        self.sizes[-1] = max(self.sizes[-1], sum(len(message.content) for message in messages))

    def answer(self, messages, tools):
        self.scene.script.requests.clear()  # thousands of them would be the memory that is measured
        self.step += 1
        path, name = f"part{self.turn % FILES}.py", f"step_{self.turn % FUNCTIONS}"
        if self.step == 1:
            return says("I look.", read(path))
        if self.step == 2:
            text = self.scene.text(path)
            at = text.index(f"def {name}(")
            new = f"def {name}(value):\n    return value + {1000 + self.turn}"
            return says("I change it.", edit(text[at : text.index("\n\n", at)], new, path))
        return says(f"{name} in {path} adds {1000 + self.turn} now.")

    def ask(self):
        self.turn += 1
        self.step = 0
        self.sizes.append(0)
        ended = self.scene.turn(
            f"In part {self.turn % FILES} make step {self.turn % FUNCTIONS} add {1000 + self.turn}."
        )
        assert (ended.reason, ended.step) == ("done", 3)


def held_bytes():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def kept_bytes(scene):
    """On the disk; the logs of SQLite, which it writes over again and again, are what they are."""
    files = [path for path in (scene.folder / ".periplus").rglob("*") if path.is_file()]
    return sum(path.stat().st_size for path in files if not path.name.endswith(("-wal", "-shm")))


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="memory is read from /proc")
def test_what_a_turn_costs_is_flat(tmp_path):
    scene = Scene(tmp_path)
    person = Person(scene)
    scene.open(person.answer)
    length = TURNS // WINDOWS
    cpu_s, held, kept = [], [], [kept_bytes(scene)]
    try:
        for _ in range(WINDOWS):
            spent = []
            for _ in range(length):
                begun = time.process_time()
                person.ask()
                spent.append(time.process_time() - begun)
            cpu_s.append(median(spent))
            held.append(held_bytes())
            kept.append(kept_bytes(scene))
    finally:
        scene.close()
    requests = [max(person.sizes[at : at + length]) for at in range(0, TURNS, length)]
    disk = [after - before for before, after in pairwise(kept)]
    told = f"requests {requests}, CPU {[round(1e3 * one, 1) for one in cpu_s]} ms, memory {held}, disk {disk}"
    assert len([one for one in scene.episodes(Ended) if one.reason == "done"]) == TURNS
    assert max(requests) <= 1.1 * max(requests[: max(1, WINDOWS // 20) + 1]), told
    assert median(cpu_s[-3:]) <= 1.5 * median(cpu_s[1:4]), (
        told
    )  # what grows with the turns would be three times and more
    assert held[-1] - held[2] <= 0.25 * held[2], told
    assert sum(disk[-3:]) <= 1.5 * sum(disk[1:4]), told
