"""A process that is killed in the middle of a run with a subagent, again and again, and taken up each time.

``python subagent_child.py FOLDER FIRST STEP COUNT``: for each call that changes the disk, FIRST and every STEP behind it, a fork runs the turn and
kills itself before that call; another takes it up. A line of JSON says what each came to; the last one, how many calls there are in all. With a
COUNT of 2 two subagents are at work at once, so that which call is which is anybody's guess.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

from periplus.agent.persistence.run_log import stored_sessions
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

    count = 1

    def reply(self, client, messages, tools):
        first = max(
            place for place, message in enumerate(messages) if message.role == "user" and "do it" in message.content
        )
        said = sum(message.role == "assistant" for message in messages[first:])
        if any("You are a subagent" in message.content for message in messages):
            name = next(one for one in "ab" if any(f"<{one}>" in message.content for message in messages))
            change = edit(f"{name}.py", f"{name.upper()} = 1", f"{name.upper()} = 2")
            lines = [answer("", change), answer("", call("shell", command=RUN.replace("runs", name))), "Bumped."]
        else:
            spawned = [
                spawn(name, "do it", mode="edit", paths=[f"{name}.py", f"{name}.log"]) for name in "ab"[: self.count]
            ]
            lines = [answer("", *spawned), "All done."]
        return lines[min(said, len(lines) - 1)]


def run(folder, files):
    """The turn, begun or gone on with; what is to be seen of it."""
    with Head(folder, [], voices=Fixed([]), files=files, approver=Yes()) as head:
        was_cut_off = head.session.is_interrupted
        ended = head.session.resume() if was_cut_off else head.turn("do it") if not head.session.turns else None
        spawned = [one for one in head.results() if one.spawned]
        names = "ab"[: Fixed.count]
        logs = {name: folder / f"{name}.log" for name in names}
        found = {
            "cut_off": was_cut_off, "reason": ended.reason if ended else "done before",
            "files": [(folder / f"{name}.py").read_text() for name in names],
            "runs": [log.read_text().count("ran") if log.exists() else 0 for log in logs.values()],
            "outcomes": [one.outcome for one in spawned], "sessions": [one.spawned.session for one in spawned],
            "effects": [sorted(one["path"] for one in result.effects) for result in spawned],
            "children": [[one.outcome for one in head.results(f"s1/1.1.{place}")] for place in range(1, len(names) + 1)],
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


def main(folder, first, step, count):
    Fixed.count = count
    template = repository(folder / "template")
    with Head(template, []):
        pass

    def whole():
        files = Deadly(-1)
        run(copied(template, folder / "whole"), files)
        return {"calls": files.calls}

    calls = in_a_fork(whole)["calls"]
    for at in range(first, calls, step):
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
