"""Agents of this machine beside this project: found, connected, heard through hooks, with sessions that wait for import."""

from __future__ import annotations

__all__ = ["Surveyed", "program_versions", "survey"]

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.errors import PeriplusError
from periplus.base.named_tuple import NamedTuple
from periplus.interop.agents import Agent, all_agents
from periplus.interop.agents.config_files import is_connected
from periplus.interop.formats import format_of
from periplus.interop.transcripts import session_ids
from periplus.journal.projections.git_state import project_folders
from periplus.project.agent_hooks.connection import PART_KINDS, Connecting, Machine, find_agents, program_path

if TYPE_CHECKING:
    from periplus.interop.agents.config_parts import Part
    from periplus.interop.model import FoundSession
    from periplus.project.store import ProjectStore


_PROGRAMS_AT_ONCE: Final = 8


class Surveyed(NamedTuple):
    """``program`` is the path of its program, empty where it was found by a folder or not at all. ``scopes`` are those
    that it is connected in. ``heard`` is the time of the last sign of life of a session that its hooks began here, empty
    where there is none. ``parts`` are the kinds of what it gets in a project or for a person. ``waiting`` counts its
    sessions here without a trail, None where its sessions cannot be read. ``set_up`` are its parts in the scopes that it
    is connected in.
    """

    agent: Agent
    program: str
    is_found: bool
    scopes: tuple[str, ...]
    parts: tuple[str, ...]
    heard: str
    waiting: int | None
    set_up: tuple[Part, ...]


def survey(
    project: ProjectStore, places: Sequence[Connecting], machine: Machine, sessions: Iterable[FoundSession]
) -> list[Surveyed]:
    """Return all known agents in the order of listing. ``places`` are the project and the person's own folders;
    ``sessions`` are the files of sessions of this project that were found.

    A file counts as imported where the name of its session occurs in its path, as agents name their files: none is read. Of a
    database the ids of its sessions are read.
    """
    found = {agent.name for agent in find_agents(machine, places[0].site.folder)}
    waiting, heard = _waiting(project, sessions), _heard(project)
    rows = []
    for agent in all_agents():
        programs = (program_path(program, machine.path) for program in agent.programs)
        connected = [place.site for place in places if is_connected(place.site, agent)]
        count = waiting[agent.format] if agent.format else None
        kinds = {part.what for place in places for part in agent.parts(place.site)}
        parts = tuple(kind for kind in PART_KINDS if kind in kinds)
        rows.append(Surveyed(
            agent, next(filter(None, programs), ""), agent.name in found, tuple(site.scope for site in connected), parts,
            heard.get(agent.name, ""), count, tuple(part for site in connected for part in agent.parts(site)),
        ))  # fmt: skip
    return rows


def program_versions(rows: Sequence[Surveyed], machine: Machine, folder: str) -> dict[str, str]:
    """Return the versions of the programs that were found, by agent. A program without a known version is left out.

    Most versions are read from the program's package; the other programs are started with ``--version``, several at once.
    A program in the project ``folder`` is neither read nor started, because the repository may contain it.
    """
    from concurrent.futures import ThreadPoolExecutor

    from periplus.interop.agents.connection_probe import program_version

    real = os.path.join(os.path.realpath(folder), "")
    programs = {row.agent.name: row.program for row in rows if row.program}
    trusted = {
        name: path
        for name, path in programs.items()
        if os.path.isabs(path) and not os.path.realpath(path).startswith(real) and not path.startswith(real)
    }

    def version(path: str) -> str:
        return program_version(path, cwd=machine.home, environment=machine.environment)

    with ThreadPoolExecutor(_PROGRAMS_AT_ONCE) as pool:
        found = zip(trusted, pool.map(version, trusted.values()), strict=True)
        return {name: text for name, text in found if text}


def _heard(project: ProjectStore) -> dict[str, str]:
    heard: dict[str, str] = {}
    for session in project.journal.entities("session"):
        tool, seen = str(session.value.get("tool", "")), str(session.value.get("seen", ""))
        if not session.deleted:
            heard[tool] = max(heard.get(tool, ""), seen)
    return heard


def _waiting(project: ProjectStore, sessions: Iterable[FoundSession]) -> Counter[str]:
    held: dict[str, set[str]] = {}
    for trail in project.journal.entities("trail"):
        name = str(trail.value.get("session_id", ""))
        if name:
            held.setdefault(str(trail.value.get("format", "")), set()).add(name)
    folders = tuple(project_folders(project.root))
    waiting: Counter[str] = Counter()
    for one in sessions:
        names = held.get(one.format, set())
        if format_of(one.format).shape == "database":
            waiting[one.format] += _waiting_in_database(one, names, folders)
        elif not _is_held(one.path, names):
            waiting[one.format] += 1
    return waiting


def _waiting_in_database(one: FoundSession, names: set[str], folders: tuple[str, ...]) -> int:
    try:
        ids = session_ids(one.path, one.format, folders)
    except PeriplusError:
        return 1  # an import says what is wrong with it
    if ids is None:
        return int(not _is_held(one.path, names))
    return sum(name not in names for name in ids)


def _is_held(path: str, names: set[str]) -> bool:
    stem = os.path.basename(path).partition(".")[0]
    folders = os.path.dirname(path).split(os.sep)
    return stem in names or not names.isdisjoint(folders) or any(name in stem for name in names)
