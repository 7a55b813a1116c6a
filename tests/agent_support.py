"""What tests of the agent's loop need: a host over a folder whose file steps can be judged, time that jumps, a session in one call."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path

from periplus.agent.contracts import Access, ToolResult, ToolSchema
from periplus.agent.loop import Limits, World
from periplus.agent.models.scripted import ScriptedClient
from periplus.agent.persistence.run_log import MemoryLog
from periplus.agent.session import Parts, Session
from periplus.agent.tape.compiler import Tape
from periplus.agent.transcript import TranscriptContext
from periplus.base.clock import FixedClock
from periplus.base.errors import NotFoundError, UsageError

SYSTEM = "You work."
TEXT = {"type": "string"}


def schema(name, *parameters):
    return ToolSchema(
        name=name,
        description=f"does {name}",
        parameters={"type": "object", "properties": dict.fromkeys(parameters, TEXT), "required": list(parameters)},
    )


class FolderHost:
    """``read``, ``write``, ``append`` (done twice it shows), ``shell`` (a callable in ``commands``), and whatever ``more`` has."""

    def __init__(self, folder: Path, more: dict[str, Callable[..., ToolResult]] | None = None) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.more = more or {}
        self.ran: list[tuple[str, dict]] = []
        self.commands: dict[str, Callable[[], ToolResult]] = {}
        self.accessed: dict[str, list[Access]] = {}
        self._lock = threading.Lock()

    def schemas(self):
        own = [schema("read", "path"), schema("write", "path", "content"), schema("append", "path", "text"),
               schema("shell", "command")]  # fmt: skip
        return [*own, *(schema(name) for name in self.more)]

    def accesses(self, name, args):
        if name in self.accessed:
            return self.accessed[name]
        if name == "read":
            return [Access(resource=f"file:{args['path']}", mode="read")]
        if name in ("write", "append"):
            return [Access(resource=f"file:{args['path']}", mode="write")]
        return [Access(resource="*", mode="write")]

    def plan(self, name, args):
        if name not in ("write", "append"):
            return ()
        before = self._bytes(args["path"])
        after = self._after(name, args, before)
        return [{"path": args["path"], "before": _digest(before), "after": _digest(after)}]

    def digest(self, path):
        return _digest(self._bytes(path))

    def read_text(self, path):
        data = self._bytes(path)
        if data is None:
            raise NotFoundError(f"there is no file {path}")
        return data.decode()

    def run(self, name, args):
        with self._lock:
            self.ran.append((name, dict(args)))
        if name in self.more:
            return self.more[name](**args)
        if name == "read":
            return ToolResult(outcome="ok", output=self.read_text(args["path"]))
        if name == "shell":
            command = self.commands.get(args["command"])
            return command() if command is not None else ToolResult(outcome="ok", output="", exit_code=0)
        if "path" not in args:
            raise UsageError("path: required", mend="Name a file.")
        effects = tuple(self.plan(name, args))
        data = self._after(name, args, self._bytes(args["path"]))
        (self.folder / args["path"]).write_bytes(data)
        return ToolResult(outcome="ok", output=f"{name} {args['path']}", effects=effects, untrusted=False)

    def tree(self):
        return {path.name: path.read_bytes() for path in sorted(self.folder.iterdir()) if path.is_file()}

    def _bytes(self, path):
        full = self.folder / path
        return full.read_bytes() if full.exists() else None

    def _after(self, name, args, before):
        return args["content"].encode() if name == "write" else (before or b"") + args["text"].encode()


def _digest(data):
    return hashlib.sha256(data).hexdigest() if data is not None else None


def transcript(host):
    return TranscriptContext(SYSTEM, host.schemas())


def tape(host):
    """The tape over the host's folder, with a budget that it passes now and then."""
    return Tape(SYSTEM, host.schemas(), session="s1", budget=4000, fold_to=1000)


class Waits:
    """Time that passes only when somebody waits, and says how long."""

    def __init__(self, random: float = 0.0) -> None:
        self.now_s = 0.0
        self.waited: list[float] = []
        self.chance = random
        self.on_wait: Callable[[int], None] = lambda _: None

    def world(self):
        return World(monotonic_s=lambda: self.now_s, random=lambda: self.chance, wait=self._wait)

    def _wait(self, token, seconds):
        self.waited.append(seconds)
        self.now_s += seconds
        self.on_wait(len(self.waited))
        return token.is_cancelled


class Bench:
    """A session with everything at hand. ``again`` gives a second one over what the first has written down."""

    def __init__(
        self,
        folder,
        script=(),
        *,
        hooks=(),
        log=None,
        host=None,
        approver=None,
        limits=None,
        client=None,
        context=None,
        emit=None,
    ):
        self.folder = Path(folder)
        self.host = host or FolderHost(self.folder / "work")
        self.client = client or ScriptedClient(script)
        self.log = log if log is not None else MemoryLog()
        self.context = (context or transcript)(self.host)
        self.make_context = context
        self.events = []
        self.waits = Waits()
        self.hooks = tuple(hooks)
        self.approver = approver
        self.limits = limits or Limits()
        self.session = Session(
            Parts(client=self.client, host=self.host, context=self.context, log=self.log, hooks=self.hooks, approver=approver,
                  emit=emit or self.events.append, limits=self.limits, world=self.waits.world(), clock=FixedClock(step_ms=1))
        )  # fmt: skip

    def again(self, script=(), *, log=None, host=None, client=None):
        return Bench(self.folder, script, hooks=self.hooks, log=log if log is not None else self.log, host=host or self.host,
                     approver=self.approver, limits=self.limits, client=client, context=self.make_context)  # fmt: skip

    def turn(self, text="do it", **options):
        return self.session.turn(text, **options)

    def of(self, kind):
        """The episodes of a kind."""
        return [episode for episode in self.log.read() if isinstance(episode, kind)]

    def seen(self, kind):
        """The events of a kind."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def results(self):
        """What the model was told of the calls in its last request, in order."""
        messages, _ = self.client.requests[-1]
        return [message for message in messages if message.role == "tool"]
