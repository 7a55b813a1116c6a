"""``connect`` and ``disconnect``: change the config files of coding agents, after showing the changes."""

from __future__ import annotations

__all__ = ["AGENTS", "configure", "connect_found", "execute", "keeping_of", "machine_of"]

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal

from periplus.cli.common.face import Face, plain, visible

if TYPE_CHECKING:
    from periplus.cli.integration.connection_schemas import FileChangeOut
    from periplus.interop.agents import Agent
    from periplus.interop.agents.config_files import Change
    from periplus.project.agent_hooks.connection import Connecting, Machine

AGENTS: Final = (
    "claude-code", "codex", "cursor", "vscode", "gemini", "opencode", "cline", "kilo-code",
    "roo-code", "continue", "windsurf", "zed", "kiro", "antigravity", "qwen-code", "copilot-cli",
    "crush", "amp", "droid", "auggie", "kimi-code", "grok-build", "pi", "aider",
    "gptme", "mistral-vibe", "hermes", "goose", "openclaw",
)  # fmt: skip
_ALSO: Final = {
    "claude": "claude-code",
    "copilot": "vscode",
    "github-copilot": "vscode",
    "code": "vscode",
    "openai": "codex",
    "kilo": "kilo-code",
    "roo": "roo-code",
    "qwen": "qwen-code",
    "kimi": "kimi-code",
    "grok": "grok-build",
    "factory": "droid",
    "augment": "auggie",
    "vibe": "mistral-vibe",
}
_DIFF_LINES_MAX: Final = 400


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    found = "those found on this machine" if command == "connect" else "those that are connected"
    parser.add_argument("agents", nargs="*", metavar="AGENT", help=f"{', '.join(AGENTS)} (default: {found})")
    parser.add_argument("--all", action="store_true", help="all agents")
    parser.add_argument("--scope", choices=("project", "user"), default="project",
                        help="this project's shared files, or your own files for all projects (default: project)")  # fmt: skip
    if command == "connect":
        mode = parser.add_mutually_exclusive_group()
        mode.add_argument("--check", action="store_true", help="change nothing; test whether each connection works")
        mode.add_argument("--refresh", action="store_true", help="only update the instructions that are already there")
        mode.add_argument("--dry-run", action="store_true", help="show what would be changed")
        parser.add_argument("--command", dest="program", metavar="PROGRAM",
                            help="the program that agents start (default: periplus, with its full path if it is not on PATH)")  # fmt: skip
    else:
        parser.add_argument("--dry-run", action="store_true", help="show what would be changed")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    _check_typed(arguments)
    with _opened(face, arguments) as (connecting, machine):
        if arguments.command == "connect" and arguments.check:
            return _check(face, connecting, machine, _asked(arguments) or connecting.connected())
        if arguments.command == "connect" and arguments.refresh:
            return _change(face, arguments, connecting, (), connecting.plan_refresh())
        if arguments.command == "disconnect":
            asked = _asked(arguments)
            changes = connecting.plan_removal(
                asked or _all_agents()
            )  # without names, also leftovers of agents that are gone
            return _change(face, arguments, connecting, asked or connecting.connected() or _agents_in(changes), changes)
        agents = _asked(arguments) or _found(connecting, machine)
        return _change(face, arguments, connecting, agents, connecting.plan(agents))


def _check_typed(arguments: argparse.Namespace) -> None:
    from periplus.base.errors import UsageError

    if arguments.all and arguments.agents:
        raise UsageError("AGENT and --all cannot be combined", safe="Nothing was changed.")
    for name in arguments.agents:
        if name not in AGENTS:
            import difflib

            near = [_ALSO[name]] if name in _ALSO else difflib.get_close_matches(name, AGENTS, 1, 0.5)
            raise UsageError(f"unknown agent {name[:100]!r}", safe="Nothing was changed.",
                             mend=(f"Did you mean {near[0]}? " if near else "") + f"Known agents: {', '.join(AGENTS)}.")  # fmt: skip
    program = getattr(arguments, "program", None)
    if program is not None and (not plain(program, "--command").strip() or not program.isprintable()):
        raise UsageError("--command is empty", safe="Nothing was changed.", mend="Give its name, or its whole path.")
    if program is not None and "periplus" not in os.path.basename(
        program
    ):  # the mark by which `disconnect` recognizes our server
        raise UsageError(
            f"--command {program[:100]!r} could not be recognized later, so `disconnect` could not remove it",
            safe="Nothing was changed.", mend="Name a file, or a link to one, with periplus in its name.",
        )  # fmt: skip


def connect_found(face: Face, folder: str, store: str, *, is_wanted: bool | None) -> list[str]:
    """For ``init``: connect the agents found on this machine, if ``--connect`` is given or the person at the terminal agrees."""
    from periplus.project import Project
    from periplus.project.agent_hooks.connection import find_agents

    if is_wanted is False or (is_wanted is None and not _is_at_terminal(face)):
        return []
    machine = machine_of(face, "", "project")
    found = find_agents(machine, folder)
    if not found:
        return []
    names = " and ".join(agent.title for agent in found)
    if is_wanted is None and not _says_yes(face, f"Connect {names} to this project?"):
        return []
    with Project.open(folder, face.writer(), store=store) as project:
        connecting = project.connecting.here(machine)
        connecting.apply(connecting.plan(found))
    return [agent.name for agent in found]


def machine_of(face: Face, program: str, scope: str) -> Machine:
    """Read the facts about the machine from the environment."""
    from periplus.project.agent_hooks.connection import machine_in, program_path

    environment = face.environment
    folders = tuple(environment.get("PATH", "").split(os.pathsep))
    own = os.path.join(face.cwd, sys.argv[0]) if os.sep in sys.argv[0] else sys.argv[0]
    path = program_path("periplus", folders)
    command = program or (
        "periplus" if path and scope == "project" else path or program_path(own, folders) or "periplus"
    )
    plain(command, "the path of periplus")
    return machine_in(environment, face.home, command, is_mac=sys.platform == "darwin")


@contextmanager
def _opened(face: Face, arguments: argparse.Namespace) -> Iterator[tuple[Connecting, Machine]]:
    machine = machine_of(face, getattr(arguments, "program", None) or "", arguments.scope)
    if arguments.scope == "project":
        with face.open() as project:
            yield project.connecting.here(machine), machine
        return
    from periplus.project.agent_hooks.connection import for_person

    yield for_person(machine, keeping_of(face)), machine


def keeping_of(face: Face) -> str:
    """Return the folder that keeps the former contents of a person's own files."""
    state = face.environment.get("XDG_STATE_HOME") or os.path.join(face.home, ".local", "state")
    return os.path.join(state, "periplus", "connections")


def _all_agents() -> tuple[Agent, ...]:
    from periplus.interop.agents import all_agents

    return all_agents()


def _asked(arguments: argparse.Namespace) -> tuple[Agent, ...]:
    from periplus.interop.agents import agent_named

    return tuple(agent_named(name) for name in AGENTS if arguments.all or name in arguments.agents)


def _agents_in(changes: Sequence[Change]) -> tuple[Agent, ...]:
    return tuple(agent for agent in _all_agents() if any(agent.name in change.agents for change in changes))


def _found(connecting: Connecting, machine: Machine) -> tuple[Agent, ...]:
    from periplus.base.errors import NotFoundError
    from periplus.project.agent_hooks.connection import find_agents

    found = find_agents(machine, connecting.site.folder)
    if not found:
        raise NotFoundError("no coding agent was found on this machine", safe="Nothing was changed.",
                            mend=f"Name the agent you use: periplus connect {'|'.join(AGENTS)}")  # fmt: skip
    return found


def _change(
    face: Face,
    arguments: argparse.Namespace,
    connecting: Connecting,
    agents: Sequence[Agent],
    changes: Sequence[Change],
) -> int:
    from periplus.cli.integration.connection_schemas import ConnectOut

    shown = [_out(connecting, change, [agent.name for agent in agents]) for change in changes]
    is_asked = (
        not face.as_json and _is_at_terminal(face) and not arguments.yes and not arguments.dry_run and bool(changes)
    )
    if is_asked:
        for line in _lines(face, connecting, shown):
            face.out(line)
    is_done = not arguments.dry_run and (not is_asked or _says_yes(face, "Go on?"))
    if is_done:
        connecting.apply(changes)
        _tell_lacking(face, arguments, changes)
    steps = {agent.name: agent.next_step for agent in agents} if arguments.command == "connect" and changes else {}
    names = [agent.name for agent in agents]
    lacks = {agent.name: list(agent.lacks) for agent in agents if agent.name in steps and agent.lacks}
    result = ConnectOut(
        names, connecting.site.scope, is_done, shown, steps if is_done else {}, lacks if is_done else {}
    )

    def lines() -> Iterator[str]:
        if not is_asked:
            yield from _lines(face, connecting, shown)
        if not changes:
            yield _nothing(arguments, names)
        elif not is_done:
            yield "Nothing was changed."
        else:
            yield _summary(arguments, names, shown)
        for name, step in result.next_steps.items():
            yield f"  {name}: {step}"
            yield from (f"    Note: {one}." for one in result.lacks.get(name, ()))
        if result.next_steps:
            yield f"Next, test the connection: periplus connect --check{_scope(arguments)}"
            yield f"To undo all of this: periplus disconnect{_scope(arguments)}"

    face.emit(result, lines)
    return 0


def _tell_lacking(face: Face, arguments: argparse.Namespace, changes: Sequence[Change]) -> None:
    """Warn that the server cannot start: the agent itself would not say why."""
    from importlib.util import find_spec

    is_ours = arguments.command == "connect" and not arguments.program
    if is_ours and any("server" in change.what for change in changes) and find_spec("mcp") is None:
        face.stderr.write("periplus: the server cannot start: the MCP SDK is not installed\n"
                          "Everything else works. To install it: pip install 'periplus[mcp]'\n")  # fmt: skip


def _scope(arguments: argparse.Namespace) -> str:
    return " --scope user" if arguments.scope == "user" else ""


def _nothing(arguments: argparse.Namespace, names: Sequence[str]) -> str:
    if arguments.command == "disconnect":
        return "There is nothing to remove."
    return (
        f"Nothing to change: {', '.join(names)} {'is' if len(names) == 1 else 'are'} connected."
        if names
        else "Nothing to change."
    )


def _summary(arguments: argparse.Namespace, names: Sequence[str], shown: Sequence[FileChangeOut]) -> str:
    files = f"{len(shown)} file{'s' if len(shown) > 1 else ''}"
    if not names:
        return f"Updated: {files}."
    return f"{'Connected' if arguments.command == 'connect' else 'Disconnected'}: {', '.join(names)} ({files})."


def _out(connecting: Connecting, change: Change, named: Sequence[str]) -> FileChangeOut:
    """Build the document. ``named`` are the agents of this call; others may share a changed file."""
    from periplus.cli.integration.connection_schemas import FileChangeOut

    action = "made" if change.before is None else "removed" if change.after is None else "changed"
    if change.after is not None and change.after == change.baseline:
        action = "restored"
    kept = connecting.keeping.edited_path(change)
    agents = [name for name in change.agents if name in named] or list(change.agents)
    return FileChangeOut(change.path, action, agents, list(change.what), _diff(change), kept)


def _diff(change: Change) -> str:
    import difflib

    name = os.path.basename(change.path)
    old, new = ((data or b"").decode("utf-8", "replace").split("\n") for data in (change.before, change.after))
    lines = list(difflib.unified_diff(old, new, name, name, n=2, lineterm=""))
    if len(lines) > _DIFF_LINES_MAX:
        lines = [*lines[:_DIFF_LINES_MAX], f"… and {len(lines) - _DIFF_LINES_MAX:,} more lines"]
    return "\n".join(lines)


def _lines(face: Face, connecting: Connecting, shown: Sequence[FileChangeOut]) -> Iterator[str]:
    paint = face.palette
    base = connecting.site.folder or connecting.site.home
    for one in shown:
        path = os.path.relpath(one.path, base) if one.path.startswith(f"{base}{os.sep}") else one.path
        path = f"~/{path}" if path != one.path and not connecting.site.folder else path
        about = "; ".join(filter(None, (", ".join(one.what), ", ".join(one.agents))))
        yield f"{paint.bold}{one.action:8}{paint.end} {visible(path)}  {paint.dim}{about}{paint.end}"
        if one.action in ("changed", "restored"):
            for line in one.diff.split("\n")[2:]:
                colour = paint.good if line.startswith("+") else paint.bad if line.startswith("-") else ""
                yield f"    {colour}{visible(line)}{paint.end if colour else ''}".rstrip()
        if one.edited_kept:
            yield f"    edits inside the block of Periplus are kept in {visible(one.edited_kept)}"


def _check(face: Face, connecting: Connecting, machine: Machine, agents: Sequence[Agent]) -> int:
    import tempfile

    from periplus.cli.integration.connection_schemas import ConnectCheckOut, FindingOut

    with tempfile.TemporaryDirectory(prefix="periplus-check-") as scratch:
        found = connecting.check(agents, machine, scratch)
    rows = [
        FindingOut(one.agent, one.what, one.path, not one.wrong, one.says, one.wrong, one.mend, one.is_old)
        for one in found
    ]
    result = ConnectCheckOut(bool(rows) and all(row.works for row in rows), [agent.name for agent in agents], rows)

    def lines() -> Iterator[str]:
        paint = face.palette
        for agent in agents:
            yield f"{paint.bold}{agent.title}{paint.end}"
            for row in rows:
                if row.agent != agent.name:
                    continue
                colour, word = (
                    (paint.warn, "old  ") if row.old else (paint.good, "works") if row.works else (paint.bad, "wrong")
                )
                sign = f"{colour}{word}{paint.end}"
                yield f"  {sign}  {row.what}: {visible(row.says or row.wrong)}{f' ({visible(row.path)})' if row.path and row.path not in row.says else ''}"
                if row.mend:
                    yield f"         {visible(row.mend)}"
        if not agents:
            yield "No agent is connected. Next: periplus connect"

    return face.emit(result, lines, 0 if result.works else 1)


def _is_at_terminal(face: Face) -> bool:
    return face.stdout.isatty() and sys.stdin.isatty()


def _says_yes(face: Face, question: str) -> Literal[True, False]:
    """Ask the person at the terminal. Without a terminal the answer is no."""
    if face.as_json or not _is_at_terminal(face):
        return False
    face.stdout.flush()
    face.stderr.write(f"{question} [y/N] ")
    face.stderr.flush()
    return sys.stdin.readline(100).strip().lower() in ("y", "yes")
