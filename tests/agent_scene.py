"""A scene: a repository, a store, and the agent as a face assembles it; the model is a script, or a provider on loopback behind its real SDK.

Whatever is asked of the model is kept as it was asked, and ``prefix_faults`` says where a request does not begin with the one before it
although nothing says that it may not.
"""

from __future__ import annotations

import itertools
import json
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.cli_support import age, git
from tests.fake_provider import FakeProvider

from agent_support import Waits
from agent_tools_support import PATH
from periplus.agent.assembly import SessionOptions, begin
from periplus.agent.contracts import AssistantMessage, ToolCall, Usage
from periplus.agent.extensions.standard import STANDARD
from periplus.agent.models.client_factory import ModelName, Provider, open_model
from periplus.agent.models.scripted import ScriptedClient
from periplus.agent.sandbox import find_sandbox
from periplus.agent.settings import load_settings
from periplus.agent.tape.prefix_survival import common_length, serialised
from periplus.journal import Writer
from periplus.project import Project

CALC = "def add(a, b):\n    return a - b\n"
CHECK = "import calc\nassert calc.add(1, 2) == 3, calc.add(1, 2)\nprint('all is well')\n"
RUN = "python3 -B check.py"  # the mended file may have the size and the second of the broken one: a kept .pyc would pass for it
_IDS = itertools.count(1)


def says(text="", *calls, finish=None, usage=None, reasoning=()):
    """An answer; a call is ``(name, args)``, or a ToolCall as it is."""
    made = tuple(
        one if isinstance(one, ToolCall) else ToolCall(id=f"call_{next(_IDS)}", name=one[0], args=one[1])
        for one in calls
    )
    return AssistantMessage(
        content=text, tool_calls=made, finish_reason=finish or ("tool_calls" if made else "stop"),
        usage=usage or Usage(prompt_tokens=1_000, completion_tokens=50, cached=800), reasoning=tuple(reasoning),
    )  # fmt: skip


def edit(old, new, path="calc.py"):
    return ("edit", {"edits": [{"path": path, "old": old, "new": new}]})


def shell(command, **more):
    return ("shell", {"command": command, **more})


def read(path, **more):
    return ("read", {"path": path, **more})


MENDS = edit("a - b", "a + b")


@cache
def sandbox():
    return find_sandbox(PATH)


@dataclass
class Asked:
    """A request, as the loop made it: the first ``front`` lines are tools and prompt. Where ``breaks`` is as in the one before it, it begins with that."""

    front: int
    lines: list[bytes]
    breaks: tuple


class Watched:
    """A client between the loop and the model; it keeps what is asked."""

    def __init__(self, client, scene):
        self.client, self.scene = client, scene
        self.is_retryable = getattr(client, "is_retryable", None)
        if self.is_retryable is None:
            del self.is_retryable

    def complete(self, messages, tools):
        self.scene.asked(messages, tools)
        return self.client.complete(messages, tools)

    def stream(self, messages, tools):
        self.scene.asked(messages, tools)
        yield from self.client.stream(messages, tools)

    def cancel(self):
        getattr(self.client, "cancel", lambda: None)()


class Person:
    """Who is asked: gives the answers one after another, and keeps what was asked."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    def approve(self, call, decision):
        self.asked.append((call.name, dict(call.args), decision.reason))
        return self.answers.pop(0)

    def ask(self, question, options):
        self.asked.append((question, tuple(options)))
        return self.answers.pop(0)


class Scene:
    """``wire``: the kind of provider on loopback; empty is a script. Open a session with ``open``; ``again`` is another process."""

    def __init__(self, place, wire=""):
        self.place, self.wire = Path(place), wire
        self.folder = self.place / "project"
        self.folder.mkdir()
        (self.place / "home").mkdir()
        git(self.folder, "init", "-q", "-b", "main")
        age(self.file("calc.py", CALC))
        self.file("check.py", CHECK)
        self.file(".gitignore", ".periplus/\n__pycache__/\n")
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "-q", "-m", "a calculator")
        Project.init(str(self.folder), store=str(self.folder))
        self.requests: dict[str, list[Asked]] = {}
        self.messages = []
        self.bodies: dict[str, list] = {}
        self.events = []
        self.emit = self.events.append
        self.extensions = STANDARD
        self.config = self.place / "config"
        self.is_trusted = False
        self.others = []  # what the models of subagents say
        self.waits = Waits()
        self.world = self.waits.world()
        self.session = None
        self._opened = ExitStack()
        self._options = {}

    # -- the repository

    def file(self, path, text):
        full = self.folder / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_bytes(text if isinstance(text, bytes) else text.encode())
        return full

    def text(self, path="calc.py"):
        return (self.folder / path).read_text()

    # -- the session

    def open(
        self,
        *replies,
        name="s1",
        mode="autonomous",
        rules=(),
        person=None,
        asker=None,
        hooks=(),
        verifies=False,
        **flags,
    ):
        """A process of the agent, whose model gives ``replies``."""
        self.close()
        flags = {"mode": mode, "rules": list(rules) or None, "model": "fake/test", **flags}
        settings = load_settings(
            str(self.config), str(self.folder), trusted=self.is_trusted, environment={}, flags=flags
        )
        self._options = {"name": name, "mode": mode, "rules": rules, "person": person, "asker": asker, "verifies": verifies, "hooks": hooks,
                         **{key: value for key, value in flags.items() if key not in ("mode", "rules", "model")}}  # fmt: skip
        project = self._opened.enter_context(Project.open(str(self.folder), Writer("agent", "agt_test", name)))
        client = self._client(replies)
        begun = SessionOptions(
            settings=settings, name=name, title="a scene", environment={"PATH": PATH, "LC_ALL": "C.UTF-8"}, home=str(self.place / "home"),
            model="fake/test", approver=person, asker=asker.ask if asker else None, emit=self.emit, sandbox=sandbox(),
            verifies=verifies, hooks=hooks, extensions=self.extensions, another=self._another, config=str(self.config), world=self.world, clock=self.clock(),
        )  # fmt: skip
        self.session = self._opened.enter_context(begin(project, Watched(client, self), begun))
        return self.session

    def again(self, *replies, **changed):
        """Another process that takes the same session up."""
        options = self._options | changed
        return self.open(*replies, **options)

    def clock(self):
        from periplus.base.clock import SystemClock

        return SystemClock()

    def close(self):
        if self.session is not None:
            self._episodes = list(self.session.log.read())
        self.session = None
        self._opened.close()

    def turn(self, text="do it", **options):
        return self.session.turn(text, **options)

    def _client(self, replies):
        if not self.wire:
            self.script = ScriptedClient(replies[0] if len(replies) == 1 and callable(replies[0]) else replies)
            return self.script
        self.fake = self._opened.enter_context(FakeProvider(*replies))
        client = self._opened_client(self.fake)
        bodies = self.bodies.setdefault(self._options["name"], [])
        self._opened.callback(lambda fake=self.fake: bodies.extend(fake.bodies()))
        return client

    def _another(self, model):
        """A model for a subagent: another client, of the same kind."""
        if not self.wire:
            return ScriptedClient(self.others)
        return self._opened_client(self._opened.enter_context(FakeProvider(*self.others)))

    def _opened_client(self, fake):
        base = fake.url if self.wire == "anthropic" else fake.url + "/v1"
        client = open_model(ModelName("fake", "test"), {"fake": Provider(kind=self.wire, base_url=base)}, "k" * 20)[0]
        self._opened.callback(client.close)
        return client

    def setting(self, path, text):
        """A file of the user's own folder of settings."""
        full = self.config / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text)
        full.chmod(0o600)

    # -- what came of it

    def episodes(self, kind=None):
        found = list(self.session.log.read()) if self.session is not None else self._episodes
        return found if kind is None else [one for one in found if isinstance(one, kind)]

    def seen(self, kind):
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def outcomes(self):
        """How the calls ended, as they did: what is refused comes first, reads end in any order."""
        from periplus.agent.episodes import Resulted

        return [one.result.outcome for one in self.episodes(Resulted)]

    @property
    def outputs(self):
        """What the calls gave, in the order of ``outcomes``."""
        from periplus.agent.episodes import Resulted

        return [one.result.output for one in self.episodes(Resulted)]

    @property
    def results(self):
        """What became of the calls, in the order in which the model asked."""
        from periplus.agent.episodes import Answered, Resulted

        asked = [call.id for one in self.episodes(Answered) for call in one.message.tool_calls]
        return sorted(self.episodes(Resulted), key=lambda one: asked.index(one.call_id))

    @property
    def sent(self):
        """The last request, as text."""
        return "\n".join(message.content for message in self.messages[-1])

    # -- the prefix

    def asked(self, messages, tools):
        state = self.session.tape.state if self.session is not None else None
        breaks = (state.fold, state.fold_above) if state is not None else ()
        front = [serialised(tool) for tool in tools]
        lines = [*front, *map(serialised, messages)]
        self.messages.append(tuple(messages))
        row = Asked(len(front) + 1, lines, breaks)
        self.requests.setdefault(self._options["name"], []).append(row)

    def prefix_faults(self):
        """Requests that do not begin with the one before of their session, with no fold between them; and those in which even tools and
        prompt differ.
        """
        faults = []
        for name, requests in self.requests.items():
            for number, (one, other) in enumerate(itertools.pairwise(requests), 2):
                before, after = b"".join(one.lines), b"".join(other.lines)
                common = common_length(before, after)
                if common < len(b"".join(one.lines[: one.front])):
                    faults.append(f"{name}: request {number} has another front")
                elif common < len(before) and one.breaks == other.breaks:
                    left, taken = before[common - 80 : common + 80], after[common - 80 : common + 80]
                    faults.append(
                        f"{name}: request {number} leaves the one before it at byte {common}: {left!r} is {taken!r}"
                    )
            faults += wire_faults(self.bodies.get(name, ()), requests)
        return faults


def wire_faults(bodies, requests):
    """The same of what went over the wire, where the marks of the cache are no part of what is compared."""
    folds = sum(one.breaks != other.breaks for one, other in itertools.pairwise(requests))
    breaks = 0
    faults = []
    for number, (one, other) in enumerate(itertools.pairwise([tuple(flat(body)) for body in bodies]), 2):
        if other[: len(one)] != one:
            breaks += 1
            if other[:2] != one[:2]:
                faults.append(f"body {number} has another front")
    if breaks > folds:
        faults.append(f"{breaks} bodies leave the one before them, and there are {folds} folds")
    return faults


def flat(body):
    """A body as a row of what a provider compares: tools, system, then block by block."""
    body = json.loads(json.dumps(body), object_hook=lambda one: {k: v for k, v in one.items() if k != "cache_control"})
    yield json.dumps(body.get("tools"))
    system = body.get("system")
    if system is not None:
        yield json.dumps(system)
    for message in body.get("messages") or body.get("input"):
        content = message.get("content")
        if isinstance(content, list) and "role" in message:
            for block in content:
                yield json.dumps([message["role"], block])
        else:
            yield json.dumps(message)
