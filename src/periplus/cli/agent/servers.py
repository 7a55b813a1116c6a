"""``servers``: list the agent's MCP servers, check them, and accept changed tools."""

from __future__ import annotations

__all__ = ["configure", "execute", "gathered"]

import argparse
import os
from typing import TYPE_CHECKING

from periplus.cli.agent.environment import leave_out_relative_folders, user_folder
from periplus.cli.common.face import Face, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from periplus.agent.mcpclient.server_config import Configured
    from periplus.agent.mcpclient.server_entry import ServerRow
    from periplus.agent.mcpclient.servers import Servers, Standing
    from periplus.agent.settings import Settings
    from periplus.cli.agent.schemas import ServerOut, ServersOut

_ABOUT_CHARACTERS = 400


def configure(parser: argparse.ArgumentParser, command: str) -> None:  # noqa: ARG001 - the signature of all commands
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)

    def action(name: str, what: str) -> argparse.ArgumentParser:
        return actions.add_parser(name, help=what, description=what[0].upper() + what[1:] + ".", allow_abbrev=False)

    action("list", "list the servers of your settings and of this project, without starting any")
    check = action("check", "start servers; report which work, their start time, and what changed")
    check.add_argument("names", nargs="*", metavar="NAME", help="the server (default: all)")
    accept = action("accept", "accept changed tools of a server")
    accept.add_argument("name", metavar="NAME", help="the server")
    accept.add_argument("tools", nargs="*", metavar="TOOL", help="the tools (default: all that changed)")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.agent.assembly import STATE
    from periplus.base.errors import NotAStoreError

    state = ""
    try:
        with face.open() as project:
            root, state = project.folder, os.path.join(project.journal.layout.root, STATE)
    except NotAStoreError:
        root = face.cwd  # servers need no store, except those of plugins, which run from copies in it
    folder = user_folder(face)
    settings = _settings(face, folder, root)
    found = gathered(face, settings, root, folder, state)
    if arguments.action == "list":
        return _list(face, found, _untrusted(settings, root))
    return _started(face, arguments, settings, found, root, folder)


def _settings(face: Face, folder: str, root: str) -> Settings:
    from periplus.agent.settings import load_settings
    from periplus.agent.trust import Trust

    trusted = Trust(folder).state(root) == "trusted"
    return load_settings(folder, root, trusted=trusted, environment=face.environment, flags={})


def gathered(face: Face, settings: Settings, root: str, folder: str, state: str) -> Configured:
    """Return all servers of a session in ``root``. ``state`` is the agent's folder in the store, empty without a store."""
    from periplus.agent.extensions.mcp_servers import gather
    from periplus.agent.extensions.plugins import plugin_servers
    from periplus.agent.sandbox import find_sandbox

    def has_sandbox() -> bool:
        return find_sandbox(face.environment.get("PATH", os.defpath)).layer != "none"

    plugins = plugin_servers(folder, root, state, is_trusted=settings.trusted, has_sandbox=has_sandbox) if state else ()
    return gather(settings, root, face.environment, folder, plugins)


def _untrusted(settings: Settings, root: str) -> list[str]:
    """Return the names of the project's servers if its folder is not trusted."""
    from periplus.agent.mcpclient.server_config import project_servers

    return [] if settings.trusted else [row.name for row in project_servers(root).rows]


def _list(face: Face, found: Configured, untrusted: Sequence[str]) -> int:
    from periplus.cli.agent.schemas import ServerOut

    rows = [ServerOut(row.name, row.source, _how(row), "not started") for row in found.rows]
    _show(face, _out(rows, found, untrusted))
    return 0 if rows else 1


def _started(
    face: Face, arguments: argparse.Namespace, settings: Settings, found: Configured, root: str, folder: str
) -> int:
    from periplus.agent.mcpclient.servers import Servers
    from periplus.agent.mcpclient.tool_pins import Pins

    leave_out_relative_folders()
    servers = Servers(
        found.rows, environment=face.environment, folder=root if settings.trusted else face.home, pins=Pins(folder)
    )
    try:
        if arguments.action == "accept":
            standings = [servers.agree(arguments.name, arguments.tools)]
        else:
            standings = _checked(servers, arguments.names)
    finally:
        servers.close()
    rows = [_row(one) for one in standings]
    is_whole = arguments.action == "check" and not arguments.names
    out = _out(rows, found if is_whole else found._replace(problems=()), _untrusted(settings, root) if is_whole else [])
    _show(face, out)
    return 0 if rows and all(row.state == "ready" and not row.changed for row in rows) else 1


def _checked(servers: Servers, names: Sequence[str]) -> list[Standing]:
    for name in names:
        servers.seen(name)  # check all names before starting a server
    return [servers.standing(name) for name in dict.fromkeys(names)] if names else servers.all_standing()


def _row(one: Standing) -> ServerOut:
    from periplus.agent.mcpclient.text_screening import clean
    from periplus.cli.agent.schemas import ServerOut

    withheld = {clean(name)[0][:120]: why for name, why in one.withheld.items()}
    return ServerOut(
        one.row.name, one.row.source, _how(one.row), one.state, server=one.server, start_ms=one.start_ms, tools=sorted(one.tools),
        withheld=withheld, changed={name: one.proposed.get(name, "")[:_ABOUT_CHARACTERS] for name in one.changed}, error=one.error,
    )  # fmt: skip


def _how(row: ServerRow) -> str:
    """Return the command or address of a server; never its environment, headers or query."""
    from periplus.base.text.secrets import mask_secrets

    return mask_secrets(" ".join(row.command) if row.command else row.url.partition("?")[0])[0]


def _out(rows: list[ServerOut], found: Configured, untrusted: Sequence[str]) -> ServersOut:
    from periplus.cli.agent.schemas import ServerProblemOut, ServersOut

    problems = [ServerProblemOut(one.name, one.source, one.why, one.mend) for one in found.problems]
    return ServersOut(rows, problems, list(untrusted))


def _show(face: Face, out: ServersOut) -> None:
    def lines() -> Iterator[str]:
        for row in out.servers:
            works = f"works, {row.start_ms:,} ms, {len(row.tools)} tools" if row.state == "ready" else row.state
            yield f"{visible(row.name)}: {works}{': ' + visible(row.error) if row.error else ''}"
            yield f"  {visible(row.about)}  ({visible(row.source)})"
            for name, why in row.withheld.items():
                if name not in row.changed:
                    yield f"  withheld: {visible(name)}: {visible(why)}"
            for name, about in row.changed.items():
                yield f"  changed: {visible(name)}, new description: {visible(' '.join(about.split()))}"
                yield f"    to accept: periplus servers accept {visible(row.name)} {visible(name)}"
        for problem in out.problems:
            yield f"{visible(problem.name or os.path.basename(problem.source))}: not used: {visible(problem.why)}"
            if problem.mend:
                yield f"  {visible(problem.mend)}"
        if out.untrusted:
            yield f"This project configures {', '.join(map(visible, out.untrusted))}; not used until you trust the folder: periplus trust give"
        if not (out.servers or out.problems or out.untrusted):
            yield "There are no servers. Add [servers.NAME] to your agent.toml."

    face.emit(out, lines)
