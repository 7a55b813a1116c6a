"""MCP servers of a session: started on demand, their tools screened and pinned, their calls answered.

Theory of operation
-------------------
All state belongs to the asyncio thread; the tools submit work and wait. A server that fails to start is not tried again before a pause that
doubles. One whose connection ended is restarted at its next use. Each start lists the tools again, and so does a notification that they
changed. A tool that differs from its pin is hidden from the model, description and all, until the person agrees.
"""

from __future__ import annotations

__all__ = ["Servers", "Standing", "ToolRow", "server_environment"]

import asyncio
import fnmatch
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from periplus.agent.mcpclient.connections import START_SECONDS, Answer, Asked, Link, LinkError, LinkThread, ToolListing
from periplus.agent.mcpclient.server_entry import ServerRow
from periplus.agent.mcpclient.text_screening import clean, digest_of_tool, screen_about, screen_schema
from periplus.agent.mcpclient.tool_names import is_tool_name, lookalike
from periplus.agent.mcpclient.tool_pins import Pins
from periplus.base.errors import NotFoundError, PeriplusError, RefusedError

_PAUSE_S: Final = 2.0
_PAUSE_S_MAX: Final = 300.0
_SCHEMA_CHARS_MAX: Final = 32_000
_GIVEN: Final = ("PATH", "HOME", "LANG")


class ToolRow(NamedTuple):
    """A tool that may be shown. ``is_read`` is the server's claim: enough to run the tool beside others, never to allow it."""

    name: str
    about: str
    schema: Mapping[str, Any]
    is_read: bool
    notes: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        first = " ".join(self.about.split("\n\n")[0].split())
        return f"{self.name}: {first[:117] + '…' if len(first) > 118 else first}" if first else self.name


@dataclass(slots=True)
class Standing:
    """Status of a server. ``withheld`` are tools that cannot be used, and why; ``changed`` those that differ from their pin."""

    row: ServerRow
    state: str = "not started"
    error: str = ""
    server: str = ""
    start_ms: int = 0
    tools: dict[str, ToolRow] = field(default_factory=dict)
    withheld: dict[str, str] = field(default_factory=dict)
    changed: tuple[str, ...] = ()
    proposed: dict[str, str] = field(default_factory=dict)
    """Present descriptions of the changed tools: for the person, never for the model."""
    new: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    asked_for: tuple[str, ...] = ()


class _Held:
    """A server with its state; belongs to the asyncio thread."""

    def __init__(self, row: ServerRow) -> None:
        self.standing = Standing(row)
        self.link: Link | None = None
        self.digests: dict[str, str] = {}
        self.failures = 0
        self.retry_at = 0.0
        self.lock: asyncio.Lock | None = None


def server_environment(host: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Build the environment of a server: search path, home and language of the user, and the configured variables."""
    given = {name: host[name] for name in _GIVEN if host.get(name)}
    given |= {name: value for name, value in host.items() if name.startswith("LC_")}
    folders = [one for one in given.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(one)]
    given["PATH"] = os.pathsep.join(folders) or os.defpath
    return given | dict(more)


class Servers:
    """The servers of a session. ``environment`` is the host's, of which little is passed on; ``folder`` is where servers are started;
    ``pins`` holds what the user agreed to.
    """

    def __init__(
        self, rows: Sequence[ServerRow], *, environment: Mapping[str, str], folder: str, pins: Pins, start_s: float = START_SECONDS,
        now_s: Callable[[], float] = time.monotonic, tls: Any = None,
    ) -> None:  # fmt: skip
        self._environment, self._folder, self._pins = environment, folder, pins
        self._start_s, self._now_s, self._tls = start_s, now_s, tls
        self._all = {row.name: _Held(row) for row in rows}
        self._thread = LinkThread()

    def names(self) -> list[str]:
        return list(self._all)

    def seen(self, name: str) -> Standing:
        """Return the last known status; starts nothing. Raises NotFoundError."""
        return self._held(name).standing

    def standing(self, name: str) -> Standing:
        """Start the server if needed and return its status; ``error`` says what is wrong with it. Raises NotFoundError."""
        held = self._held(name)
        return self._thread.ask(self._look(held))

    def all_standing(self) -> list[Standing]:
        return self._thread.ask(self._look_at_all())

    def call(self, name: str, tool: str, arguments: Mapping[str, Any]) -> Answer:
        """Call a tool. Raises NotFoundError, RefusedError for a withheld tool, LinkError, AnswerLostError."""
        held = self._held(name)
        return self._thread.ask(self._call(held, tool, arguments))

    def agree(self, name: str, tools: Sequence[str] = ()) -> Standing:
        """Pin the changed tools as they are now, all or those named, with the person's consent. Raises NotFoundError, LinkError."""
        held = self._held(name)
        return self._thread.ask(self._agree(held, tools))

    def cancel(self) -> None:
        """End all current requests, from any thread. The process of a server in the middle of a call is killed."""
        asked = [held.link for held in self._all.values() if held.link is not None and held.link.in_flight]
        self._thread.cancel()  # before the process ends: its end would look like a lost answer
        for link in asked:
            link.kill()
            self._thread.soon(link.finish)

    def close(self) -> None:
        if any(held.link is not None for held in self._all.values()):
            self._thread.cancel()
            self._thread.ask(self._close())
        self._thread.close()

    # -- in the thread of links ----------------------------------------------------------------------------------------

    def _held(self, name: str) -> _Held:
        held = self._all.get(name)
        if held is None:
            import difflib

            near = difflib.get_close_matches(name, self._all, 1)
            raise NotFoundError(f"there is no server {name[:60]!r}", safe="Nothing was called.",
                                mend=f"Is {near[0]} meant?" if near else f"There are {', '.join(self._all) or 'none'}.")  # fmt: skip
        return held

    async def _look_at_all(self) -> list[Standing]:
        return list(await asyncio.gather(*(self._look(held) for held in self._all.values())))

    async def _look(self, held: _Held) -> Standing:
        try:
            await self._ready(held)
        except LinkError:
            pass  # ``Standing.error`` has it
        return held.standing

    async def _ready(self, held: _Held) -> Link:
        held.lock = held.lock or asyncio.Lock()
        async with held.lock:
            link = held.link
            if link is not None and not link.is_over:
                if link.watch.is_changed:
                    self._take(held, await link.tools())
                return link
            if link is not None:
                held.standing.state = "ended"
                await link.close()
                held.link = None
            wait_s = held.retry_at - self._now_s()
            if wait_s > 0:
                raise LinkError(
                    f"{held.standing.error}; it is tried again in {wait_s:.0f} s", safe="Nothing was called."
                )
            return await self._begin(held)

    async def _begin(self, held: _Held) -> Link:
        standing = held.standing
        began = 0.0
        try:
            asked = self._asked(standing.row)
            began = time.monotonic()
            link = Link(asked)
            held.link = link
            await link.start()
            self._take(held, await link.tools())
        except PeriplusError as error:
            if held.link is not None:
                await held.link.close()
                held.link = None
            held.failures += 1
            pause = min(_PAUSE_S * 2 ** (held.failures - 1), _PAUSE_S_MAX)
            held.retry_at = self._now_s() + pause
            said, _ = clean(f"{error}{'. ' + error.mend if error.mend else ''}")
            standing.state, standing.error = "failed", said
            raise (
                error if isinstance(error, LinkError) else LinkError(str(error), safe=error.safe, mend=error.mend)
            ) from error
        except asyncio.CancelledError:
            if held.link is not None:
                held.link.kill()
                held.link.finish()
                await held.link.close()
                held.link = None
            raise
        held.failures, held.retry_at = 0, 0.0
        standing.state, standing.error = "ready", ""
        standing.server = clean(link.server)[0]
        standing.start_ms = round(1_000 * (time.monotonic() - began))
        return link

    def _asked(self, row: ServerRow) -> Asked:
        try:
            import mcp  # noqa: F401 - that it is there
        except ImportError as error:
            raise LinkError(
                f"the MCP SDK is not installed ({error.name})", mend="Install it: pip install 'periplus[mcp]'"
            ) from error
        if row.url:
            return Asked(row, (), self._folder, {}, self._start_s, self._tls)
        environment = server_environment(self._environment, row.environment)
        first, *rest = row.command
        path = os.path.join(self._folder, first) if os.sep in first else shutil.which(first, path=environment["PATH"])
        if path is None:
            raise LinkError(
                f"there is no program {first[:200]!r}",
                safe="Nothing was started.",
                mend="Install it, or fix the command.",
            )
        return Asked(row, (path, *rest), self._folder, environment, self._start_s)

    async def _call(self, held: _Held, tool: str, arguments: Mapping[str, Any]) -> Answer:
        link = await self._ready(held)
        standing = held.standing
        if tool in standing.withheld:
            raise RefusedError(
                f"{tool} of {standing.row.name} cannot be used: {standing.withheld[tool]}",
                safe="Nothing was called.",
            )
        if tool not in standing.tools:
            import difflib

            near = difflib.get_close_matches(tool, standing.tools, 1)
            raise NotFoundError(f"{standing.row.name} has no tool {tool[:60]!r}", safe="Nothing was called.",
                                mend=f"Is {near[0]} meant?" if near else f"mcp(server={standing.row.name!r}) lists them.")  # fmt: skip
        try:
            return await link.call(tool, arguments)
        finally:
            standing.asked_for = tuple(sorted(link.watch.asked_for))

    async def _agree(self, held: _Held, tools: Sequence[str]) -> Standing:
        await self._ready(held)
        standing = held.standing
        wanted = tools or standing.changed
        for name in wanted:
            if name not in standing.changed:
                raise NotFoundError(f"{name[:60]!r} of {standing.row.name} is not changed", safe="Nothing was agreed to.",
                                    mend="`periplus servers check` says which are.")  # fmt: skip
        self._pins.keep(standing.row, {name: held.digests[name] for name in wanted})
        assert held.link is not None
        self._take(held, await held.link.tools())
        return standing

    async def _close(self) -> None:
        await asyncio.gather(*(held.link.close() for held in self._all.values() if held.link is not None))
        for held in self._all.values():
            held.link = held.lock = None

    def _take(self, held: _Held, listing: ToolListing) -> None:
        """Screen the listed tools and compare them with their pins."""
        row = held.standing.row
        documents = {str(one["name"]): one for one in listing.tools}
        names = [str(one["name"]) for one in listing.tools]
        withheld = _unfit(names)
        held.digests = {name: digest_of_tool(one) for name, one in documents.items()}
        known = self._pins.held(row)
        fresh = {name: digest for name, digest in held.digests.items() if name not in known and name not in withheld}
        noted = (
            self._pins.note(row, fresh) if fresh else known
        )  # another process may have pinned them first, with other digests
        changed = tuple(name for name in documents if name in noted and noted[name] != held.digests[name])
        for name in changed:
            withheld.setdefault(
                name,
                f"it changed since it was agreed to; the person can review it with `periplus servers check {row.name}`",
            )
        tools = {}
        hidden = 0
        for name, one in documents.items():
            if any(fnmatch.fnmatchcase(name, glob) for glob in row.deny) or (
                row.allow and not any(fnmatch.fnmatchcase(name, glob) for glob in row.allow)
            ):
                withheld[name] = "the server's settings exclude it"
                hidden += 1
            elif name not in withheld:
                tool = _row_of(name, one)
                if tool is None:
                    withheld[name] = "its schema is too long"
                else:
                    tools[name] = tool
        held.standing.tools, held.standing.withheld, held.standing.changed = tools, withheld, changed
        held.standing.proposed = {
            name: screen_about(str(documents[name].get("description") or "")).text for name in changed
        }
        held.standing.new = tuple(name for name in fresh if known)
        held.standing.notes = (listing.left_out,) if listing.left_out else ()


def _unfit(names: Sequence[str]) -> dict[str, str]:
    """The names that cannot be called, and those that can be confused with each other, with reasons."""
    seen: dict[str, str] = {}
    found: dict[str, str] = {}
    for name in names:
        shown = clean(name)[0][:80]
        if not is_tool_name(name):
            found[name] = "its name may only have letters, digits, _, -, . and /"
            continue
        twin = seen.setdefault(lookalike(name), name)
        if twin == name and names.count(name) > 1:
            found[name] = "two tools have its name"
        elif twin != name:
            found[name] = f"{shown} looks like {twin}"
            found[twin] = f"{twin} looks like {shown}"
    return found


def _row_of(name: str, document: Mapping[str, Any]) -> ToolRow | None:
    import json

    about = screen_about(str(document.get("description") or document.get("title") or ""))
    schema = screen_schema(document.get("inputSchema") or {})
    if len(json.dumps(schema, ensure_ascii=False, default=str)) > _SCHEMA_CHARS_MAX:
        return None
    annotations = document.get("annotations") or {}
    is_read = annotations.get("readOnlyHint") is True and annotations.get("destructiveHint") is not True
    notes = []
    if about.unseen:
        notes.append(f"{about.unseen:,} invisible characters were removed of its description")
    if about.orders:
        notes.append(f"its description gave orders to the model ({', '.join(about.orders)}); they were removed")
    return ToolRow(name, about.text, schema, is_read, tuple(notes))
