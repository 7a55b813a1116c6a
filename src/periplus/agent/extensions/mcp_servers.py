"""MCP servers as an extension of a session: one small tool, a page for each server, a line of the tail.

The tools of servers never enter the front of the context one by one. They are looked up and called through ``mcp``, whose schema does not
depend on the servers.
"""

from __future__ import annotations

__all__ = ["ServerPages", "gather", "mcp_tool", "open_servers"]

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from periplus.agent.contracts import Access, Outcome, ToolResult
from periplus.agent.extensions.contract import Extension, ExtensionContext
from periplus.agent.mcpclient.server_config import Configured, configured, project_servers
from periplus.agent.mcpclient.server_entry import Problem, ServerRow
from periplus.agent.mcpclient.text_screening import clean
from periplus.agent.tape.fence import fence
from periplus.agent.tape_notes import Fact
from periplus.agent.tools.text_pages.command_output import shorten
from periplus.agent.tools.text_pages.page_source import HANDLE_PREFIX, Page, PageMatch, search_pages
from periplus.agent.tools.tool_table import Arguments, ArgumentsError, Parameter, Tool
from periplus.base.errors import NotFoundError, PeriplusError, RefusedError

if TYPE_CHECKING:
    from periplus.agent.mcpclient.call_results import Keep
    from periplus.agent.mcpclient.servers import Servers, Standing, ToolRow
    from periplus.agent.settings import Settings
    from periplus.agent.tools.text_pages.command_output import Outputs

_KeepText: TypeAlias = Callable[[str], str]
_ABOUT: Final = "Tools of MCP servers. Without server: all servers and tools. With server and tool: its description and schema; with arguments too: call it."
_PARAMETERS: Final = (
    Parameter("server", "text", most=40), Parameter("tool", "text", most=128), Parameter("arguments", "record", "{} for none"),
)  # fmt: skip
_FOLDER: Final = f"{HANDLE_PREFIX}mcp/"
_LISTED_CHARS: Final = 12_000
_FACT_CHARS: Final = 600
_SCHEMA_CHARS: Final = 8_000
_UNKNOWN: Final = (
    "It is not known whether it took effect, and it was not repeated. Check the current state before you repeat it."
)


def gather(
    settings: Settings, root: str, environment: Mapping[str, str], config: str, plugins: Iterable[ServerRow] = ()
) -> Configured:
    """All servers to use in ``root``, and the problems of others. ``config`` is the user's settings folder."""
    from periplus.agent.models.api_keys import Keys

    keys = Keys(config, environment) if config else None

    def own(name: str) -> str | None:
        if name.startswith("key:"):
            return (keys.key(name[4:]) or None) if keys is not None else None
        return environment.get(name)

    def lent(name: str) -> str | None:
        return environment.get(name) if name in settings.server_variables else None

    project = project_servers(root) if settings.trusted else Configured()
    return configured(settings.servers, project, plugins, own_lookup=own, lent=lent)


def open_servers(context: ExtensionContext) -> Extension | None:
    options = context.options
    handed = [row for one in context.brought for row in one.servers]
    found = gather(options.settings, context.root, options.environment, options.config, handed)
    said = [f"The MCP server {one.name or one.source} is not used: {one.why}" for one in found.problems]
    if not found.rows:
        return Extension(said=said) if said else None
    from periplus.agent.mcpclient.servers import Servers
    from periplus.agent.mcpclient.tool_pins import Pins

    servers = Servers(
        found.rows, environment=options.environment, folder=context.root if options.settings.trusted else options.home or context.state,
        pins=Pins(options.config or context.state),
    )  # fmt: skip

    def keep(data: bytes) -> str:
        return context.session.host.work.changes.keep(data).hex()

    def outputs() -> Outputs:
        kept = context.session.host.outputs
        assert kept is not None, "a host of a session has outputs"
        return kept

    return Extension(
        tools=[mcp_tool(servers, found.problems, keep, lambda text: outputs().keep(text))], pages={"mcp": ServerPages(servers)},
        facts=lambda: _facts(servers, found.problems), cancel=servers.cancel, close=servers.close, said=said,
    )  # fmt: skip


def _facts(servers: Servers, problems: Sequence[Problem]) -> list[Fact]:
    said = []
    for name in servers.names():
        one = servers.seen(name)
        more = f", {len(one.tools)} tools" if one.state == "ready" else f": {one.error}" if one.error else ""
        changed = f", {len(one.changed)} of them changed and withheld" if one.changed else ""
        said.append(f"{name} ({one.state}{more}{changed})"[:200])
    said += [f"{one.name or one.source} (not used: {one.why})"[:200] for one in problems]
    return [Fact("mcp servers", " ".join(", ".join(said).split())[:_FACT_CHARS])]


# -- the tool ----------------------------------------------------------------------------------------------------------


def mcp_tool(servers: Servers, problems: Sequence[Problem], keep: Keep, keep_text: _KeepText) -> Tool:
    """Build the tool ``mcp``. ``keep`` stores bytes as an object and returns the digest; ``keep_text`` stores a long text and returns its
    handle.
    """
    return Tool(
        "mcp", _ABOUT, _PARAMETERS, lambda args: _run(servers, problems, keep, keep_text, args),
        lambda args: _accesses(servers, args),
    )  # fmt: skip


def _accesses(servers: Servers, args: Arguments) -> Sequence[Access]:
    if not args.has("arguments"):
        return (Access(resource="network:mcp", mode="read"),)
    if _is_read(servers, args.text("server"), args.text("tool")):
        return (Access(resource="network:mcp", mode="read"),)
    return (Access(resource="*", mode="write"),)


def _is_read(servers: Servers, server: str, tool: str) -> bool:
    try:
        row = servers.seen(server).tools.get(tool)
    except NotFoundError:
        return False
    return row is not None and row.is_read


def _run(
    servers: Servers, problems: Sequence[Problem], keep: Keep, keep_text: _KeepText, args: Arguments
) -> ToolResult:
    from concurrent.futures import CancelledError

    server, tool = args.text("server"), args.text("tool")
    if (tool or args.has("arguments")) and not server:
        raise ArgumentsError("mcp: server is missing", safe="Nothing was called.", mend="mcp() lists the servers.")
    if args.has("arguments") and not tool:
        raise ArgumentsError(
            "mcp: tool is missing", safe="Nothing was called.", mend=f"mcp(server={server!r}) lists them."
        )
    try:
        if args.has("arguments"):
            return _called(servers, server, tool, args.record("arguments"), keep, keep_text)
        if tool:
            return ToolResult(outcome="ok", output=_described(servers.standing(server), tool))
        if server:
            return _listed([servers.standing(server)], ())
        return _listed(servers.all_standing(), problems)
    except CancelledError:
        more = f" If it was called already: {_UNKNOWN}" if args.has("arguments") else ""
        return ToolResult(outcome="cancelled", output=f"Cancelled.{more}", untrusted=False)


def _called(
    servers: Servers, server: str, tool: str, arguments: Mapping[str, object], keep: Keep, keep_text: _KeepText
) -> ToolResult:
    from periplus.agent.mcpclient.call_results import rendered
    from periplus.agent.mcpclient.connections import AnswerLostError

    try:
        answer = servers.call(server, tool, arguments)
    except AnswerLostError as error:
        is_read = _is_read(servers, server, tool)
        said = clean(str(error))[0]
        return ToolResult(
            outcome="failed" if is_read else "indeterminate",
            output=f"{server}: {said}." + ("" if is_read else f" {_UNKNOWN}"),
        )
    except PeriplusError as error:
        outcome: Outcome = "denied" if isinstance(error, RefusedError) else "failed"
        rows = [f"{server}: {error}", error.safe, error.mend]
        return ToolResult(outcome=outcome, output=clean("\n".join(row for row in rows if row))[0])
    found = rendered(answer, keep)
    asked = servers.seen(server).asked_for
    notes = [
        *found.notes,
        *([f"the server asked for {', '.join(asked)}, which is not supported here"] if asked else []),
    ]
    head = "".join(f"note: {note}\n" for note in notes)
    handle = ""
    text = found.text or "(nothing)"
    short = shorten(text, "")
    if short is not text:
        handle = keep_text(text)
        text = shorten(text, handle)
    return ToolResult(
        outcome="failed" if answer.is_error else "ok", output=head + text, images=found.images, handle=handle
    )


def _listed(standings: Sequence[Standing], problems: Sequence[Problem]) -> ToolResult:
    rows: list[str] = []
    size = 0
    for one in standings:
        rows.append(_head(one))
        tools = [f"  {tool.line}" for tool in one.tools.values()]
        shown = 0
        for row in tools:
            if size + len(row) > _LISTED_CHARS:
                break
            rows.append(row)
            size += len(row) + 1
            shown += 1
        if shown < len(tools):
            rows.append(f"  … {len(tools) - shown:,} tools left out; read(path={_FOLDER + one.row.name + '.md'!r})")
        rows += _withheld(one)
    rows += [f"{one.name or one.source}: not used: {one.why}" for one in problems]
    failed = bool(standings) and all(one.state == "failed" for one in standings)
    return ToolResult(outcome="failed" if failed else "ok", output="\n".join(rows) or "There is no server.")


def _head(one: Standing) -> str:
    name = one.row.name
    if one.state != "ready":
        return f"{name}: {one.state}{': ' + one.error if one.error else ''}"
    return f"{name} ({one.server or 'no name given'}): {len(one.tools)} tools"


def _withheld(one: Standing) -> list[str]:
    rows = [f"  withheld: {clean(name)[0][:80]}: {why}" for name, why in list(one.withheld.items())[:20]]
    rows += [f"  new since the last use: {', '.join(one.new[:20])}"] if one.new else []
    return [*rows, *(f"  note: {note}" for note in one.notes)]


def _described(one: Standing, tool: str) -> str:
    row = one.tools.get(tool)
    if row is not None:
        return "\n".join([f"{one.row.name}/{tool}", *_description(row), f"Call it: mcp(server={one.row.name!r}, tool={tool!r}, arguments={{…}})"])  # fmt: skip
    if tool in one.withheld:
        raise RefusedError(
            f"{tool[:80]} of {one.row.name} cannot be used: {one.withheld[tool]}", safe="Nothing was called."
        )
    why = f" ({one.error})" if one.error else ""
    raise NotFoundError(
        f"{one.row.name} has no tool {tool[:80]!r}{why}", mend=f"mcp(server={one.row.name!r}) lists them."
    )


def _description(row: ToolRow) -> list[str]:
    schema = json.dumps(row.schema, ensure_ascii=False, indent=1)
    if len(schema) > _SCHEMA_CHARS:
        schema = json.dumps(row.schema, ensure_ascii=False)
    hint = ["Declared as read-only."] if row.is_read else []
    return [*(f"note: {note}" for note in row.notes), row.about or "(no description)", *hint, f"arguments: {schema}"]


class ServerPages:
    """One page for each server, with its tools and their schemas. Reading a page starts the server; searching does not."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    def list(self, prefix: str) -> Sequence[Page]:
        pages = [Page(f"{_FOLDER}{name}.md", f"MCP server {name}") for name in self._servers.names()]
        return [page for page in pages if page.handle.startswith(prefix) or prefix == HANDLE_PREFIX[:-1]]

    def read(self, handle: str) -> str:
        name = handle.removeprefix(_FOLDER)
        if not name.endswith(".md") or name[:-3] not in self._servers.names():
            raise NotFoundError(f"no page {handle}")
        return _page(self._servers.standing(name[:-3]))

    def search(self, pattern: str, prefix: str) -> Sequence[PageMatch]:
        return search_pages(_Seen(self._servers, self), pattern, prefix)


class _Seen:
    """The pages as they are known now, without starting a server."""

    def __init__(self, servers: Servers, pages: ServerPages) -> None:
        self._servers, self._pages = servers, pages

    def list(self, prefix: str) -> Sequence[Page]:
        return self._pages.list(prefix)

    def read(self, handle: str) -> str:
        return _page(self._servers.seen(handle.removeprefix(_FOLDER)[:-3]))

    def search(self, pattern: str, prefix: str) -> Sequence[PageMatch]:
        return search_pages(self, pattern, prefix)


def _page(one: Standing) -> str:
    rows = [f"# {_head(one)}", *_withheld(one)]
    for tool in one.tools.values():
        rows += ["", f"## {tool.name}", fence("\n".join(_description(tool)), f"mcp server {one.row.name}")]
    return "\n".join(rows) + "\n"
