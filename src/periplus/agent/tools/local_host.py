"""Host of all local tools."""

from __future__ import annotations

__all__ = ["HostParts", "open_host"]

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from periplus.agent.contracts import Memory
from periplus.agent.sandbox import Sandbox, Unconfined
from periplus.agent.tools.dialogue_tools import Asker, ask_tool, plan_tool, recall_tool, remember_tool
from periplus.agent.tools.files.edit_tools import edit_tool, write_tool
from periplus.agent.tools.files.list_tools import list_tool
from periplus.agent.tools.files.read_restrictions import ReadRestrictions
from periplus.agent.tools.files.read_tools import read_tool
from periplus.agent.tools.files.search_tools import Engine, find_engine, search_tool
from periplus.agent.tools.files.workspace import Guard, SharedWork, Workspace
from periplus.agent.tools.shell.code_tools import Authorize, code_tool
from periplus.agent.tools.shell.commands import Consent, Shell, process_tool, shell_tool
from periplus.agent.tools.shell.processes import Processes
from periplus.agent.tools.text_pages.command_output import Outputs
from periplus.agent.tools.text_pages.page_source import Pages, PageSource
from periplus.agent.tools.tool_host import LocalToolHost
from periplus.agent.tools.tool_table import Tool
from periplus.agent.tools.web.page_fetch import Fetcher, fetch_tool
from periplus.agent.tools.web.web_search import SearchProvider, web_search_tool
from periplus.base.files import Files

if TYPE_CHECKING:
    from periplus.agent.tape_notes import SliceNote


@dataclass(frozen=True, slots=True)
class HostParts:
    """The parts of a host. ``environment`` and ``home`` come from the face. Without a working ``sandbox`` each command needs ``consent``.
    ``unread`` are paths that rules keep from being read. ``pages`` are all handles except outputs. ``shared`` is the work of the parent
    session.
    """

    root: str
    state: str
    environment: Mapping[str, str]
    home: str = ""
    sandbox: Sandbox = field(default_factory=Unconfined)
    memory: Memory | None = None
    pages: PageSource | None = None
    guard: Guard | None = None
    shared: SharedWork | None = None
    asker: Asker | None = None
    consent: Consent | None = None
    authorize: Authorize | None = None
    fetcher: Fetcher | None = None
    search_provider: SearchProvider | None = None
    engine: Engine | None = None
    note: Callable[[SliceNote], None] | None = None
    writable: Sequence[str] = ()
    hidden: Sequence[str] = ()
    allow_network: bool = False
    unread: ReadRestrictions | None = None
    more: Sequence[Tool] = ()
    files: Files | None = None
    is_out: Callable[[bytes], bool] = lambda _digest: False


def open_host(parts: HostParts) -> LocalToolHost:
    """Open the host, with an interrupted change finished or undone (``host.recovered``). Close it."""
    files = parts.files or Files()
    files.make_folder(parts.state, 0o700)
    outputs = Outputs(os.path.join(parts.state, "output"), files)
    work = Workspace(
        parts.root, parts.state, pages=Pages({"output": outputs}, parts.pages), guard=parts.guard, files=files,
        shared=parts.shared, unread=parts.unread, is_out=parts.is_out,
    )  # fmt: skip
    recovered = work.recover()
    processes = Processes(outputs)
    shell = Shell(
        work, processes, parts.sandbox, environment=parts.environment, home=parts.home, consent=parts.consent,
        writable=parts.writable, hidden=parts.hidden, allow_network=parts.allow_network,
    )  # fmt: skip
    fetcher = parts.fetcher or Fetcher()
    engine = parts.engine or find_engine(shell.environment["PATH"])
    tools = [
        read_tool(work), list_tool(work), search_tool(work, engine), edit_tool(work), write_tool(work), shell_tool(shell),
        process_tool(processes), fetch_tool(fetcher, outputs), plan_tool(parts.note), ask_tool(parts.asker),
    ]  # fmt: skip
    if parts.memory is not None:
        tools += [remember_tool(parts.memory), recall_tool(parts.memory)]
    if parts.search_provider is not None:
        tools.append(web_search_tool(parts.search_provider))
    host = LocalToolHost(work, [*tools, *parts.more])
    host.recovered, host.outputs = recovered, outputs
    host.sandbox = parts.sandbox.about
    host.add(code_tool(host, shell, parts.authorize))
    host.watch(on_cancel=fetcher.cancel, on_close=outputs.close)
    host.watch(on_cancel=processes.cancel, on_close=processes.close)
    return host
