"""Health at a glance: what is seen at once, the full examination on request, space, checkpoints, peers, hooks, and what agents spend."""

from __future__ import annotations

__all__ = ["HealthPage", "health"]

import os
import platform
import sqlite3
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.clock import format_ms
from periplus.base.errors import PeriplusError
from periplus.base.named_tuple import NamedTuple
from periplus.project.care.quick_check import quick_problems
from periplus.project.care.space import SpaceKind, measure_space
from periplus.project.checkup_report import CheckUp, last_checkup
from periplus.web.pages.journal.records import record_address
from periplus.web.pages.model import Asked, View

if TYPE_CHECKING:
    from periplus.base.filesystem.failure_notes import Note
    from periplus.journal.care.doctor import Examination
    from periplus.journal.care.problem import Problem
    from periplus.project import Project
    from periplus.project.agent_hooks.said_tokens import SaidTokens
    from periplus.server.mcp.connection_cost import ConnectionCost
    from periplus.web.background import Job

PROBLEMS_SHOWN_MAX: Final = 200
ALIKE_SHOWN_MAX: Final = 10
NOTES_SHOWN_MAX: Final = 30
CHECKPOINTS_SHOWN_MAX: Final = 20
PEERS_SHOWN_MAX: Final = 100
FILES_AT_ONCE: Final = 1_500  # of a store that is measured within a request; a larger one in the background
SPACE_AGE_S: Final = 600  # after that it is measured anew
_EXAMINATION: Final = "examination"
_SPACE: Final = "space"
_ORDER: Final = ("error", "warning", "note")


class Said(NamedTuple):
    """A piece of advice; a command is shown to be copied."""

    text: str
    is_command: bool


class ProblemRow(NamedTuple):
    """A problem and its mending command. ``more`` counts others of the same words that are not listed."""

    severity: str
    kind: str
    what: str
    place: str
    record: str
    mend: tuple[Said, ...]
    more: int


class Examined(NamedTuple):
    """A full examination: running, failed or ended. ``again`` is the address that starts another one."""

    is_running: bool
    done: int
    total: int
    error: PeriplusError | None
    at: str
    took_ms: int
    is_sound: bool
    counts: tuple[tuple[str, int], ...]
    problems: tuple[ProblemRow, ...]
    left_out: int
    again: str


class SpaceRow(NamedTuple):
    kind: SpaceKind
    share: int  # of the largest kind, in per mille


class Space(NamedTuple):
    """``rows`` is None while they are measured."""

    rows: tuple[SpaceRow, ...] | None
    total: int
    at: str


class CheckpointRow(NamedTuple):
    seq: int
    address: str
    lineage: str
    ts: str
    size_bytes: int
    root: str


class PeerRow(NamedTuple):
    """A lineage that this store holds or knows. ``lacking`` counts records of the head seen that are not here."""

    lineage: str
    name: str
    standing: str
    records: int
    address: str
    last_ts: str
    last_writer: str
    key: str
    seen: int
    lacking: int
    problem: str


class AgentRow(NamedTuple):
    """An agent that is connected, or that hooks told something. ``cost`` is what it spends before the first prompt, None where it is
    not connected; ``said`` what hooks told it, None for nothing; ``at`` when that was.
    """

    title: str
    scopes: tuple[str, ...]
    cost: ConnectionCost | None
    said: SaidTokens | None
    at: str


class HealthPage(NamedTuple):
    root: str
    is_sound: bool
    problems: tuple[ProblemRow, ...]
    checkup: CheckUp | None
    examined: Examined
    space: Space
    checkpoints: tuple[CheckpointRow, ...]
    peers: tuple[PeerRow, ...]
    notes: tuple[Note, ...]
    older_notes: int
    waiting_events: int
    agents: tuple[AgentRow, ...]
    versions: tuple[tuple[str, str], ...]


def health(asked: Asked) -> View:
    """Show how the store is, and what to type where something is wrong."""
    project = asked.project
    project.journal.refresh()
    problems = quick_problems(project)
    rows, _ = _rows(project.root, problems)
    notes, events = _hooks(project)
    shown = HealthPage(
        project.root, not any(one.severity != "note" for one in problems), rows, last_checkup(project.root), _examined(asked), _space(asked),
        _checkpoints(project), _peers(project), tuple(reversed(notes[-NOTES_SHOWN_MAX:])), max(0, len(notes) - NOTES_SHOWN_MAX), events,
        _agents(asked), _versions(),
    )  # fmt: skip
    return View("health/overview.html", "Health", {"page": shown}, "periplus doctor")


def _rows(root: str, problems: Iterable[Problem]) -> tuple[tuple[ProblemRow, ...], int]:
    """Return problems as rows, the worst first, of many alike only the first; and the number of those that are left out."""
    alike: dict[tuple[str, str, str], int] = {}
    shown: list[Problem] = []
    left_out = 0
    for one in sorted(problems, key=lambda problem: _ORDER.index(problem.severity)):
        kind = (one.severity, one.what, one.mend)
        alike[kind] = alike.get(kind, 0) + 1
        if alike[kind] <= ALIKE_SHOWN_MAX and len(shown) < PROBLEMS_SHOWN_MAX:
            shown.append(one)
        elif alike[kind] <= ALIKE_SHOWN_MAX:
            left_out += 1
    last = {(one.severity, one.what, one.mend): at for at, one in enumerate(shown)}
    rows = []
    for at, one in enumerate(shown):
        kind = (one.severity, one.what, one.mend)
        more = max(0, alike[kind] - ALIKE_SHOWN_MAX) if last[kind] == at else 0
        rows.append(_row(root, one, more))
    return tuple(rows), left_out


def _row(root: str, one: Problem, more: int) -> ProblemRow:
    place = os.path.relpath(one.path, root) if one.path.startswith(root + os.sep) else one.path
    place += f", byte {one.offset:,}" if one.offset >= 0 else ""
    kind = {"error": "bad", "warning": "warn"}.get(one.severity, "quiet")
    return ProblemRow(
        one.severity, kind, one.what, place, record_address(one.seq) if one.seq else "", _advice(one.mend), more
    )


def _advice(text: str) -> tuple[Said, ...]:
    """Split advice into its words and the commands between backticks."""
    parts = text.split("`")
    return tuple(Said(part, is_command=bool(at % 2)) for at, part in enumerate(parts) if part)


def _examined(asked: Asked) -> Examined:
    """Return the last full examination, and begin one where the address asks for it; the address of each is good for one."""
    background, query = asked.context.background, asked.query
    job = background.job(_EXAMINATION)
    ended = int(job.ended_s) + 1 if job is not None else 1
    wanted = query.number("examine", 0)
    if wanted and (job is None or (not job.is_running and ended <= wanted)):
        job = background.start(_EXAMINATION, _examine)
    again = asked.link(examine=ended)
    if job is None:
        return Examined(False, 0, 0, None, "", 0, False, (), (), 0, again)
    if job.is_running or job.error is not None:
        return Examined(job.is_running, job.done, job.total, job.error, _at(job), 0, False, (), (), 0, again)
    found: Examination = job.result  # type: ignore[assignment]  # as ``_examine`` made it
    rows, left_out = _rows(asked.project.root, found.problems)
    took_ms = int((job.ended_s - job.started_s) * 1_000)
    return Examined(
        False, 0, 0, None, _at(job), took_ms, found.exit_code == 0, tuple((name, count) for name, count in found.counts.items()), rows,
        left_out, again,
    )  # fmt: skip


def _examine(project: Project, progress: Callable[[int, int], None]) -> Examination:
    return project.examine(progress)


def _at(job: Job) -> str:
    return format_ms(int((job.ended_s or job.started_s) * 1_000))


def _space(asked: Asked) -> Space:
    """Return the space by kind: measured at once in a small store, otherwise in the background."""
    root, background = asked.project.root, asked.context.background
    kinds = measure_space(root, files_max=FILES_AT_ONCE)
    if kinds is not None:
        return _space_of(kinds, "")
    job = background.job(_SPACE)
    now_s = asked.context.now_ms() / 1_000
    if job is None or (not job.is_running and now_s - job.ended_s > SPACE_AGE_S):
        job = background.start(_SPACE, _measure)
    if job.error is not None:
        raise job.error
    found: tuple[SpaceKind, ...] | None = job.result  # type: ignore[assignment]  # as ``_measure`` made it
    return Space(None, 0, "") if found is None else _space_of(found, _at(job))


def _measure(project: Project, progress: Callable[[int, int], None]) -> tuple[SpaceKind, ...]:
    return measure_space(project.root, progress=progress) or ()


def _space_of(kinds: Sequence[SpaceKind], at: str) -> Space:
    largest = max([1, *(one.size_bytes for one in kinds)])
    rows = tuple(SpaceRow(one, one.size_bytes * 1_000 // largest) for one in kinds)
    return Space(rows, sum(one.size_bytes for one in kinds), at)


def _checkpoints(project: Project) -> tuple[CheckpointRow, ...]:
    from periplus.journal.checkpoints.checkpoint_files import checkpoint_headers

    found: list[CheckpointRow] = []
    try:
        for seq, path, header in checkpoint_headers(project.journal):
            if len(found) == CHECKPOINTS_SHOWN_MAX:
                break
            lineage = "" if header.lineage == project.journal.lineage else header.lineage
            address = record_address(seq, lineage) if header.lineage in project.journal.lineages() else ""
            found.append(CheckpointRow(seq, address, lineage, header.ts, os.path.getsize(path), header.root))
    except (OSError, PeriplusError):
        pass  # removed just now, or the folder cannot be read, which the quick check tells
    return tuple(found)


def _peers(project: Project) -> tuple[PeerRow, ...]:
    """Return the lineages held and those that are only remembered, our own first."""
    from periplus.journal.storage.tree_head import remembered

    journal = project.journal
    try:
        names = list(dict.fromkeys([*journal.lineages(), *remembered(journal.layout)]))
    except PeriplusError:
        return ()  # the quick check tells why
    return tuple(_peer(project, name) for name in names[:PEERS_SHOWN_MAX])


def _peer(project: Project, lineage: str) -> PeerRow:
    from periplus.journal.storage.keys import fingerprint
    from periplus.journal.storage.tree_head import Peer, pinned_key, read_peer

    journal = project.journal
    peer: Peer | None = None
    key = problem = ""
    try:
        peer = read_peer(journal.layout, lineage)
        pinned = pinned_key(journal.layout, lineage)
        key = fingerprint(pinned.key) if pinned is not None else ""
    except PeriplusError as error:
        problem = f"{error} {error.mend}".strip()
    held = journal.end(lineage).next_seq - 1
    own = journal.own
    is_own = lineage == journal.lineage
    standing = "this clone" if is_own else "another clone"
    if lineage == journal.copied_from:
        standing = "the store that this is a copy of"
    if not is_own and own is not None and own.wrote(lineage):
        standing = "this clone, before it was copied or restored"
    elif peer is not None and peer.store not in journal.stores:
        standing = "another project"
    last = journal.index.records("lineage = ? ORDER BY seq DESC", (lineage,), 1) if journal.damage is None else []
    seen = peer.seen.size if peer is not None and peer.seen is not None else 0
    return PeerRow(
        lineage, peer.name if peer is not None else "", standing, held, f"/journal?lineage={lineage}" if held else "", last[0].ts if last else "",
        last[0].writer if last else "", key, seen, max(0, seen - held) if standing != "another project" else 0, problem,
    )  # fmt: skip


def _hooks(project: Project) -> tuple[list[Note], int]:
    """Return the notes of hooks, oldest first, and the number of events that wait to be imported."""
    hooks = project.hooks
    try:
        waiting = len(hooks.spool.waiting())
    except PeriplusError:
        waiting = 0  # the quick check tells why
    return hooks.notes(), waiting


def _agents(asked: Asked) -> tuple[AgentRow, ...]:
    """Return what agents of this machine spend on Periplus: what is in their context at the start, and what hooks said."""
    from periplus.interop.agents import all_agents
    from periplus.interop.agents.config_files import is_connected
    from periplus.project.agent_hooks.connection import for_person, machine_in
    from periplus.server.mcp.connection_cost import connection_cost

    project, context = asked.project, asked.context
    machine = machine_in(context.environment, context.home, "periplus", is_mac=sys.platform == "darwin")
    sites = (project.connecting.here(machine).site, for_person(machine, "").site)
    told = project.hooks.said()
    rows = []
    for agent in all_agents():
        held = [site for site in sites if is_connected(site, agent)]
        said = told.get(agent.name)
        if held or said is not None:
            cost = connection_cost(part for site in held for part in agent.parts(site)) if held else None
            at = format_ms(said.last_ms) if said is not None else ""
            rows.append(AgentRow(agent.title, tuple(site.scope for site in held), cost, said, at))
    return tuple(rows)


def _versions() -> tuple[tuple[str, str], ...]:
    from periplus import __version__
    from periplus.base.speed import FORM

    return (
        ("Periplus", f"{__version__} ({FORM})"), ("Python", platform.python_version()), ("SQLite", sqlite3.sqlite_version),
        ("System", f"{platform.system()} {platform.release()}"),
    )  # fmt: skip
