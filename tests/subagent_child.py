"""A process that is killed in the middle of a run with a subagent, again and again, and taken up each time.

``python subagent_child.py FOLDER FIRST STEP LAST``: for each call that changes the disk, FIRST and every STEP behind it up to LAST, a fork runs the turn
and kills itself before that call; another takes it up. A line of JSON says what each came to. Two calls are told of by the last line: how
many there are in all.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

from periplus.agent.runlog import stored_sessions
from periplus.base.files import Files
from subagent_support import Head, Voices, Yes, answer, call, edit, repository, spawn

RUN = "echo ran >> runs.log"


class Deadly(Files):
    """Kills the process before call number ``at`` that writes or makes durable; ``calls`` counts them."""

    def __init__(self, at):
        self.at, self.calls = at, 0

    def _count(self):
        if self.calls == self.at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.calls += 1

    def write(self, fd, data):
        self._count()
        return super().write(fd, data)

    def pwrite(self, fd, data, offset):
        self._count()
        return super().pwrite(fd, data, offset)

    def sync_data(self, fd):
        self._count()
        super().sync_data(fd)

    def sync(self, fd):
        self._count()
        super().sync(fd)

    def replace(self, source, target):
        self._count()
        super().replace(source, target)


class Fixed(Voices):
    """Says what follows from what it sees, whoever asks in whichever process."""

    def reply(self, client, messages, tools):
        first = max(
            place for place, message in enumerate(messages) if message.role == "user" and "do it" in message.content
        )
        said = sum(message.role == "assistant" for message in messages[first:])
        if any("You are a subagent" in message.content for message in messages):
            lines = [answer("", edit("a.py", "A = 1", "A = 2")), answer("", call("shell", command=RUN)), "Bumped."]
        else:
            lines = [answer("", spawn("bump", "do it", mode="edit", paths=["a.py", "runs.log"])), "All done."]
        return lines[min(said, len(lines) - 1)]


def run(folder, files):
    """The turn, begun or gone on with; what is to be seen of it."""
    with Head(folder, [], voices=Fixed([]), files=files, approver=Yes()) as head:
        was_cut_off = head.session.is_interrupted
        ended = head.session.resume() if was_cut_off else head.turn("do it") if not head.session.turns else None
        spawned = [one for one in head.results() if one.spawned]
        log = folder / "runs.log"
        found = {
            "cut_off": was_cut_off, "reason": ended.reason if ended else "done before",
            "a": (folder / "a.py").read_text(), "runs": log.read_text().count("ran") if log.exists() else 0,
            "outcomes": [one.outcome for one in spawned], "sessions": sorted(one.spawned.session for one in spawned),
            "effects": sorted(one["path"] for result in spawned for one in result.effects),
            "child": [one.outcome for one in head.results("s1/1.1.1")],
            "claims": len(head.project.work.claims()), "stored": sorted(one.name for one in stored_sessions(head.project)),
        }  # fmt: skip
    with Head(folder, [], voices=Fixed([])) as head:
        found["trails"] = len(list(head.project.journal.entities("trail")))
        found["open_runs"] = sum(one.value.get("state") != "sealed" for one in head.project.journal.entities("run"))
        found["undone"] = sorted(head.session.undo()) if head.session.host.work.changes.turns() else []
    return found


def in_a_fork(work):
    """What ``work`` gives, as another process says it; None where that was killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        code = 1
        try:
            os.write(writing, json.dumps(work()).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with open(reading, "rb") as file:
        said = file.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return None
    assert status == 0, said
    return json.loads(said)


def main(folder, first, step, last):
    template = repository(folder / "template")
    with Head(template, []):
        pass

    def whole():
        files = Deadly(-1)
        run(copied(template, folder / "whole"), files)
        return {"calls": files.calls}

    calls = in_a_fork(whole)["calls"]
    for at in range(first, min(calls, last), step):
        place = copied(template, folder / str(at))
        in_a_fork(lambda at=at, place=place: run(place, Deadly(at)))
        found = in_a_fork(lambda place=place: run(place, Files()))
        print(json.dumps({"at": at, **found}), flush=True)
        shutil.rmtree(place)
    print(json.dumps({"calls": calls}))


def copied(template, place):
    shutil.copytree(template, place, symlinks=True)
    return place


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:5]))
