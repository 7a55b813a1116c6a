"""Connect agents to a project, or to all projects of a person: plan the changes, apply them, check that they work.

``Connecting`` is one place with its files; ``ProjectConnecting`` makes it for a project, ``for_person`` without one.
The faces pass in home, settings and the command: see ``Machine``.
"""

from __future__ import annotations

__all__ = [
    "PART_KINDS",
    "Connecting",
    "Finding",
    "Machine",
    "ProjectConnecting",
    "find_agents",
    "for_person",
    "machine_in",
]

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.errors import NotAStoreError, PeriplusError, environment_failure
from periplus.base.files import Files, read_plain
from periplus.base.filesystem.store_location import project_root
from periplus.base.named_tuple import NamedTuple
from periplus.interop.agents import GREETING, Agent, Site, all_agents
from periplus.interop.agents.config_files import (
    FILE_BYTES_MAX,
    Change,
    Keeping,
    apply,
    is_connected,
    located,
    plan_connect,
    plan_disconnect,
    read_held,
)
from periplus.interop.agents.config_parts import BlockPart, JsonPart, Part, WholePart, standing, starts
from periplus.journal import find_root
from periplus.journal.projections.git_state import is_busy
from periplus.project.agent_hooks.instructions import USE

if TYPE_CHECKING:
    from periplus.interop.agents.connection_probe import Probed
    from periplus.project.store import ProjectStore

KEEPING_FOLDER: Final = "connections"
PART_KINDS: Final = ("server", "hooks", "instructions", "skill")


class Machine(NamedTuple):
    """``config`` is the folder of people's settings, ``codex`` that of Codex; ``path`` are the folders of programs."""

    home: str
    config: str
    codex: str
    is_mac: bool
    path: tuple[str, ...]
    command: tuple[str, ...]
    environment: Mapping[str, str]


def machine_in(environment: Mapping[str, str], home: str, command: str, *, is_mac: bool) -> Machine:
    """Return the facts about a machine from the environment of a person's programs."""
    config = environment.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    codex = environment.get("CODEX_HOME") or os.path.join(home, ".codex")
    path = tuple(environment.get("PATH", "").split(os.pathsep))
    return Machine(home, config, codex, is_mac, path, (command,), environment)


class Finding(NamedTuple):
    """The result of one check of an agent: ``wrong`` is empty where it works, ``mend`` says what to do where it does
    not. ``is_old``: it works, and an earlier version of this program wrote it; ``mend`` brings it up to date.
    """

    agent: str
    what: str
    path: str
    says: str
    wrong: str
    mend: str
    is_old: bool = False


class Connecting:
    """The agents of one place: a project, or a person's own folders."""

    def __init__(self, site: Site, keeping: Keeping) -> None:
        self.site = site
        self.keeping = keeping

    def connected(self) -> tuple[Agent, ...]:
        return tuple(agent for agent in all_agents() if is_connected(self.site, agent))

    def plan(self, agents: Sequence[Agent]) -> list[Change]:
        """Return the changes of connecting. Raises FormatError and RefusedError for a file that cannot be changed."""
        return plan_connect(self.site, agents, self.keeping)

    def plan_removal(self, agents: Sequence[Agent]) -> list[Change]:
        """Return the changes of disconnecting."""
        others = [agent for agent in all_agents() if agent not in agents]
        return plan_disconnect(self.site, agents, others, self.keeping)

    def apply(self, changes: Sequence[Change]) -> None:
        apply(changes, self.keeping)

    def plan_refresh(self) -> list[Change]:
        """Return the changes that bring existing instructions up to date; none are added."""
        connected = self.connected()
        changes: dict[str, Change] = {}
        for agent in (*connected, *(agent for agent in all_agents() if agent not in connected)):
            for part in agent.parts(self.site):
                if not isinstance(part, BlockPart) or part.unless:
                    continue
                real = located(self.site, part.path)[0]
                if standing(part, read_held(part.path, real), part.path) not in ("older", "edited"):
                    continue
                if real in changes:
                    more = (agent.name,) if agent in connected else ()
                    changes[real] = changes[real]._replace(agents=(*changes[real].agents, *more))
                    continue
                (change,) = plan_connect(self.site, [agent._replace(parts=_only(part))], self.keeping)
                changes[real] = change if agent in connected else change._replace(agents=())
        return list(changes.values())

    def check(self, agents: Sequence[Agent], machine: Machine, scratch: str) -> list[Finding]:
        """Check that the parts for ``agents`` are there and work. ``scratch`` is an empty folder of no project."""
        servers: dict[tuple[str, ...], Probed] = {}
        return [finding for agent in agents for finding in _check(self, agent, machine, scratch, servers)]


class ProjectConnecting:
    """Connect agents to one project."""

    def __init__(self, project: ProjectStore, opened_in: Sequence[str]) -> None:
        self._project = project
        self._opened_in = opened_in

    def here(self, machine: Machine | None = None, *, start: str = "", files: Files | None = None) -> Connecting:
        """Return the place of the worktree that the project was opened in."""
        project = self._project
        folder = self.folder(start)
        keeping = Keeping(os.path.join(project.root, KEEPING_FOLDER), files)
        return Connecting(_site("project", folder, machine or _NO_MACHINE, USE), keeping)

    def folder(self, start: str = "") -> str:
        """Return the worktree of this project that ``start`` lies in, or that it was opened in; its main one where
        that is none of its own.
        """
        for place in (start, *self._opened_in) if start else self._opened_in:
            at = place
            while not os.path.lexists(os.path.join(at, ".git")) and os.path.dirname(at) != at:
                at = os.path.dirname(at)
            try:
                if find_root(at) == self._project.root:
                    return at
            except NotAStoreError:
                continue
        return self._project.folder

    def refresh(self, *, start: str = "", files: Files | None = None) -> list[Change]:
        """Bring existing instructions of this project up to date, and return the changes. For automatic use, as at
        the end of a session: parts that somebody edited are left, and nothing is done while git is in the middle
        of an operation in this worktree. Raises what planning and writing raise.
        """
        if is_busy(self._project.root):
            return []
        connecting = self.here(start=start, files=files)
        changes = [change for change in connecting.plan_refresh() if not change.edited]
        connecting.apply(changes)
        return changes


def for_person(machine: Machine, keeping_folder: str, *, files: Files | None = None) -> Connecting:
    """Return the place of a person's own folders, for all projects."""
    return Connecting(_site("user", "", machine, ""), Keeping(keeping_folder, files))


def find_agents(machine: Machine, folder: str = "") -> tuple[Agent, ...]:
    """Return the agents that are installed on a machine, or that the project in ``folder`` has settings for."""
    return tuple(agent for agent in all_agents() if _is_found(agent, machine, folder))


def _is_found(agent: Agent, machine: Machine, folder: str) -> bool:
    if any(program_path(program, machine.path) for program in agent.programs):
        return True
    places = [
        os.path.join(machine.home, place.format(config=machine.config, codex=machine.codex)) for place in agent.folders
    ]
    if folder:
        places += [os.path.join(folder, name) for name in agent.in_project]
    return any(os.path.exists(place) for place in places)


def program_path(program: str, folders: Sequence[str]) -> str:
    """Return the path of a program, as a shell would find it; empty where there is none."""
    places = [program] if os.sep in program else [os.path.join(folder, program) for folder in folders if folder]
    return next((place for place in places if os.path.isfile(place) and os.access(place, os.X_OK)), "")


_NO_MACHINE: Final = Machine(
    "/nonexistent", "/nonexistent", "/nonexistent", is_mac=False, path=(), command=("periplus",), environment={}
)


def _site(scope: str, folder: str, machine: Machine, rules: str) -> Site:
    return Site(
        "project" if scope == "project" else "user", folder, machine.home, machine.config, machine.codex, machine.is_mac,
        machine.command, rules, GREETING,
    )  # fmt: skip


def _only(part: Part) -> Callable[[Site], tuple[Part, ...]]:
    return lambda _: (part,)


# -- checking --------------------------------------------------------------------------------------------------------


def _check(
    connecting: Connecting, agent: Agent, machine: Machine, scratch: str, servers: dict[tuple[str, ...], Probed]
) -> Iterator[Finding]:
    site = connecting.site
    scope = " --scope user" if site.scope == "user" else ""
    again = f"periplus connect {agent.name}{scope}"
    for part in sorted(agent.parts(site), key=lambda one: PART_KINDS.index(one.what)):
        yield _check_part(site, agent, part, again)
    yield from _check_review(site, agent)
    has_hooks = any(part.what == "hooks" for part in agent.parts(site))
    if has_hooks and site.scope == "project" and is_connected(_site("user", "", machine, ""), agent):
        twice = f"also connected for all your projects: each hook runs twice and counts once; to remove one: periplus disconnect {agent.name}"
        yield Finding(agent.name, "scopes", "", twice, "", "")
    command = site.command
    found = program_path(command[0], machine.path)
    if not found:
        wrong = f"{command[0]} is not found"
        mend = "Put it on the PATH of your agent, or connect with --command."
        yield Finding(agent.name, "command", "", "", wrong, mend)
        return
    yield Finding(agent.name, "command", found, f"{found} is found", "", "")
    yield from _check_runs(site, agent, machine, scratch, servers)


def _check_part(site: Site, agent: Agent, part: Part, again: str) -> Finding:
    try:
        real = located(site, part.path)[0]
        held = read_held(part.path, real)
        stands = standing(part, held, part.path)
        if stands in ("older", "edited") and isinstance(part, BlockPart) and _is_of_another(site, held, real):
            stands = "current"
    except PeriplusError as error:
        return Finding(agent.name, part.what, part.path, "", str(error), error.mend)
    is_old = stands == "older" and _still_works(site, part, held)
    wrong = {
        "absent": f"no {part.what} of Periplus there",
        "older": "" if is_old else "out of date",
        "edited": "edited between our lines",
        "foreign": "another entry is in our place",
        "current": "",
    }[stands]
    refresh = f"periplus connect --refresh{' --scope user' if site.scope == 'user' else ''}"
    mend = f"Run: {refresh if isinstance(part, BlockPart) and stands in ('older', 'edited') else again}"
    says = "" if wrong else "works, but was written by another version" if is_old else "is there"
    return Finding(agent.name, part.what, part.path, says, wrong, mend if wrong or is_old else "", is_old)


def _check_review(site: Site, agent: Agent) -> Iterator[Finding]:
    """Check, by the agent's own state, whether its person has approved the hooks: for Codex, which does not report
    hooks that it skips.
    """
    hooks = next((part for part in agent.parts(site) if part.what == "hooks" and isinstance(part, JsonPart)), None)
    if agent.name != "codex" or hooks is None:
        return
    from periplus.interop.agents.codex_review import reviews

    try:
        main = project_root(site.folder) if site.folder else ""
        for one in reviews(site, hooks, main, _read):
            yield Finding(agent.name, one.what, one.path, one.says, one.wrong, one.mend)
    except PeriplusError as error:
        yield Finding(agent.name, "hooks reviewed", site.codex, "", str(error), error.mend)


def _read(path: str) -> bytes | None:
    try:
        return read_plain(os.path.realpath(path), FILE_BYTES_MAX)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise environment_failure(error, "read", path) from error


def _still_works(site: Site, part: Part, held: bytes | None) -> bool:
    """Return True where a part that an earlier version wrote still works: texts always do, hooks where they start
    what they would start now.
    """
    if part.what == "hooks" and held is not None:
        return starts(part, held, site.command)
    return isinstance(part, BlockPart | WholePart)


def _is_of_another(site: Site, held: bytes | None, real: str) -> bool:
    """Return True where the block in the file ``real`` belongs to another file of instructions that is this one over
    a link: one is enough.
    """
    parts = {part for agent in all_agents() for part in agent.parts(site) if isinstance(part, BlockPart)}
    return any(os.path.realpath(part.path) == real and standing(part, held, part.path) == "current" for part in parts)


def _check_runs(
    site: Site, agent: Agent, machine: Machine, scratch: str, servers: dict[tuple[str, ...], Probed]
) -> Iterator[Finding]:
    """Start the servers and hooks of an agent. ``servers`` are those that were asked already: most agents start the
    same.
    """
    import shlex

    from periplus.interop.agents.connection_probe import ANSWER_S, probe_hook, probe_server

    cwd = site.folder or site.home
    kinds = {part.what for part in agent.parts(site)}
    if "server" in kinds:
        command = (*site.command, "mcp")
        if command not in servers:
            servers[command] = probe_server(command, cwd=cwd, environment=machine.environment)
        server = servers[command]
        said = "" if server.wrong else f"answers after {server.seconds:.1f} s"
        mend = f"Run `{shlex.join(command)}` to see what is wrong; it must answer within {ANSWER_S:g} s."
        yield Finding(agent.name, "server answers", "", said, server.wrong, mend if server.wrong else "")
    if "hooks" not in kinds:
        return
    event = "SessionStart" if agent.name != "cursor" else "sessionStart"
    command = (*site.command, "hook", event, "--agent", agent.name)
    hook = probe_hook(command, cwd=scratch, environment=machine.environment)
    mend = f"Run `{shlex.join(command)}` to see what is wrong."
    yield Finding(agent.name, "hooks run", "", "" if hook.wrong else "silent where they have nothing to say", hook.wrong,
                  mend if hook.wrong else "")  # fmt: skip
