"""A session with subagents: the real loop, tools, tape, store and trail over a repository, with models that are scripts by task."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack

from cli_support import git
from periplus.agent.assembly import SessionOptions, begin
from periplus.agent.contracts import ModelError
from periplus.agent.loop import World
from periplus.agent.models.scripted import ScriptedClient, answer, call
from periplus.agent.sandbox import Unconfined
from periplus.agent.settings import SETTINGS, Settings
from periplus.base.clock import FixedClock
from periplus.base.files import Files
from periplus.project import Project
from recorder_support import WRITER

ENVIRONMENT = {"PATH": os.environ.get("PATH", os.defpath)}


def repository(folder):
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.py").write_text("A = 1\n")
    (folder / "b.py").write_text("B = 1\n")
    (folder / ".gitignore").write_text(".periplus/\n__pycache__/\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "two files")
    return folder


def settings(**values):
    held = {setting.name: setting.default for setting in SETTINGS} | values
    return Settings(held, dict.fromkeys(held, "test"))


class Voices:
    """Models by what they were asked: ``scripts`` are lines by a word of the first request that only this one has; the rest is ``own``.

    ``asked`` holds the requests of each, by that word (``""`` for the session itself).
    """

    def __init__(self, own, **scripts):
        self.now = {}  # who was asked last, by that word
        self._lock = threading.Lock()
        self._left = {"": iter(own), **{word: iter(lines) for word, lines in scripts.items()}}
        self.asked = {word: [] for word in self._left}
        self.clients = []

    def open(self, model=""):
        client = Voice(self)
        client.model = model
        self.clients.append(client)
        return client

    def reply(self, client, messages, tools):
        first = next(message.content for message in messages if message.role == "user")
        words = [word for word in self._left if word and f"<{word}>" in first and "You are a subagent" in first]
        word = max(
            words, key=lambda word: first.rindex(f"<{word}>"), default=""
        )  # a turn of another that it recalls stands before
        with self._lock:
            self.asked[word].append((tuple(messages), tuple(tools)))
            self.now[word] = client
            line = next(self._left[word], "There is nothing left to say.")
        return line(messages, tools) if callable(line) else line

    def hanging(self, word, then=lambda: None):
        """A line that says nothing until it is stopped."""

        def line(messages, tools):
            then()
            assert self.now[word].stopped.wait(60)
            raise ModelError("stopped")

        return line


class Voice(ScriptedClient):
    def __init__(self, voices):
        super().__init__(lambda messages, tools: voices.reply(self, messages, tools))
        self.stopped = threading.Event()

    def cancel(self):
        self.stopped.set()


class Clockwork:
    """Time that passes when it is told to; who waits for it is woken then."""

    def __init__(self):
        self._moved = threading.Condition()
        self._now_s = 1_000.0

    def move(self, seconds):
        with self._moved:
            self._now_s += seconds
            self._moved.notify_all()

    def world(self):
        return World(monotonic_s=lambda: self._now_s, random=lambda: 0.0, wait=self._wait)

    def _wait(self, token, seconds):
        def wake():
            with self._moved:
                self._moved.notify_all()

        until_s = self._now_s + seconds
        with token.telling(wake), self._moved:
            assert self._moved.wait_for(lambda: token.is_cancelled or self._now_s >= until_s, 120)
        return token.is_cancelled


class Yes:
    """A person who allows everything, and keeps what was asked."""

    def __init__(self, answer="yes"):
        self.asked = []
        self._answer = answer

    def approve(self, call, decision):
        self.asked.append((call.name, decision.reason))
        return self._answer


class Head:
    """One process of the agent. Close it."""

    def __init__(
        self, folder, own, *, name="s1", files=None, scripts=None, voices=None, more=None, another=True, **begun
    ):
        self.voices = voices or Voices(own, **(scripts or {}))
        self.events = []
        self._opened = ExitStack()
        root = os.path.join(folder, ".periplus")
        if not os.path.isdir(root):
            Project.init(os.fspath(folder), store=os.fspath(folder))
        with ExitStack() as opened:
            self.project = opened.enter_context(
                Project(
                    root,
                    WRITER._replace(session=name),
                    clock=begun.get("clock") or FixedClock(step_ms=1),
                    files=files or Files(),
                )
            )
            made = SessionOptions(
                settings=settings(**{"mode": "autonomous", **(more or {})}), name=name, title="the whole", environment=ENVIRONMENT,
                home=os.fspath(folder.parent / "home"), model="scripted", emit=self.events.append, sandbox=begun.pop("sandbox", Unconfined()),
                another=self.voices.open if another else None,
            )._replace(**begun)  # fmt: skip
            self.session = opened.enter_context(begin(self.project, self.voices.open(), made))
            self._opened = opened.pop_all()

    def turn(self, text="do it", **options):
        return self.session.turn(text, **options)

    def results(self, of=None):
        """The outcomes of a session's calls, by default this one's."""
        from periplus.agent.episodes import Resulted
        from periplus.agent.persistence.run_log import StoreLog

        log = self.session.log if of is None else StoreLog(self.project, of)
        return [one.result for one in log.read() if isinstance(one, Resulted)]

    def seen(self, kind):
        return [event for event in self.events if isinstance(event, kind)]

    def close(self):
        self._opened.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def spawn(word, task="", **args):
    return call("spawn_agent", task=f"<{word}> {task}".strip(), **args)


def edit(path, old, new):
    return call("edit", edits=[{"path": path, "old": old, "new": new}])


__all__ = ["Clockwork", "Head", "Voices", "Yes", "answer", "call", "edit", "repository", "settings", "spawn"]
