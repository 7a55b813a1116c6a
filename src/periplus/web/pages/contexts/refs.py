"""Refs of contexts, and who holds which context: clones by what they recorded last, sessions by what they were told."""

from __future__ import annotations

__all__ = ["ClonePlace", "ContextsPage", "RefRow", "ToldSession", "contexts"]

import os
from typing import TYPE_CHECKING, Final

import msgspec

from periplus.base.clock import format_ms
from periplus.base.encoding.digests import is_digest_text
from periplus.base.errors import DamageError, NotFoundError
from periplus.base.named_tuple import NamedTuple
from periplus.context.deltas.ancestry import is_ancestor
from periplus.journal.state.entity import Head
from periplus.memory.entities.types import CONTEXT_REF
from periplus.project.agent_hooks.told_facts import Told
from periplus.project.context_store.refs import ref_id
from periplus.web.pages.contexts.values import CommitRow, commit_address, commit_row, refs_by_target, short
from periplus.web.pages.journal.records import record_address
from periplus.web.pages.model import Asked, View

if TYPE_CHECKING:
    from periplus.journal import IndexedRecord
    from periplus.project import Project
    from periplus.project.context_store.contexts import ProjectContexts, RefState

REFS_MAX: Final = 200
CLONES_MAX: Final = 50  # places shown of all refs
MOVES_LOOKED_AT: Final = 300  # records of a ref
SESSIONS_LOOKED_AT: Final = 300
SESSIONS_SHOWN_MAX: Final = 30
_TOLD_LINE_BYTES: Final = 17  # of a file of told facts: 16 digits and a line break


class Place(NamedTuple):
    """A context at which a clone left a ref."""

    short: str
    address: str
    writer: str
    ts: str


class RefRow(NamedTuple):
    """A ref. ``live`` is -1 where its context is not complete here; ``places`` has several where clones moved it apart."""

    name: str
    short: str
    address: str
    writer: str
    ts: str
    live: int
    commit: CommitRow | None
    places: tuple[Place, ...]
    is_ended_apart: bool


class ClonePlace(NamedTuple):
    """The context at which a clone had a ref when it last recorded one. ``standing`` compares it with where the ref is here."""

    ref: str
    clone: str
    is_own: bool
    short: str
    address: str
    writer: str
    ts: str
    seq: int
    record: str
    standing: str


class ToldSession(NamedTuple):
    """A session, and how many facts hooks told it so far."""

    name: str
    agent: str
    tool: str
    state: str
    facts: int
    at: str
    address: str


class ContextsPage(NamedTuple):
    refs: tuple[RefRow, ...]
    more: int
    clones: tuple[ClonePlace, ...]
    told: tuple[ToldSession, ...]


class _Session(msgspec.Struct):
    name: str = ""
    agent: str = ""
    tool: str = ""
    state: str = ""


def contexts(asked: Asked) -> View:
    """Show the refs, and who holds what."""
    project = asked.project
    found = project.contexts
    refs = found.refs()
    at = refs_by_target({one.name: one.target for one in refs})
    rows = tuple(_row(found, one, at) for one in refs[:REFS_MAX])
    shown = ContextsPage(rows, max(0, len(refs) - REFS_MAX), _clones(project, found, refs), _told(project))
    return View("contexts/refs.html", "Contexts", {"page": shown}, "periplus context refs")


def _row(found: ProjectContexts, one: RefState, refs: dict[bytes, tuple[str, ...]]) -> RefRow:
    try:
        commit = commit_row(found.library.header(one.target), refs)
    except (NotFoundError, DamageError):
        commit = None  # the page says that the context is incomplete
    places = tuple(Place(short(target), commit_address(target.hex()), writer, ts) for target, writer, ts in one.apart)
    return RefRow(
        one.name, short(one.target), commit_address(one.name), one.writer, one.ts, commit.live if commit is not None else -1, commit, places,
        one.is_ended_apart,
    )  # fmt: skip


def _clones(project: Project, found: ProjectContexts, refs: list[RefState]) -> tuple[ClonePlace, ...]:
    """Return where each clone had each ref by the last record that it wrote of it."""
    journal = project.journal
    journal.project()
    places: list[ClonePlace] = []
    for ref in refs:
        last: dict[str, Head | IndexedRecord] = {}
        where = "item_type = ? AND item_id = ? AND version <> '' ORDER BY seq DESC"
        for record in journal.index.records(where, (CONTEXT_REF, ref_id(ref.name)), MOVES_LOOKED_AT):
            last.setdefault(record.lineage, record)
        for head in journal.heads_of(
            CONTEXT_REF, ref_id(ref.name)
        ):  # known even where its record lies before a checkpoint
            if head.lineage not in last or last[head.lineage].seq <= head.seq:
                last[head.lineage] = head
        for lineage, one in sorted(last.items())[: CLONES_MAX - len(places)]:
            target = _target(one.payload if isinstance(one, Head) else journal.view.payload_at(one))
            is_own = lineage == journal.lineage
            places.append(ClonePlace(
                ref.name, lineage, is_own, short(target), commit_address(target.hex()) if target else "", one.writer, one.ts, one.seq,
                record_address(one.seq, "" if is_own else lineage), _standing(found, target, ref.target),
            ))  # fmt: skip
    return tuple(places)


def _target(payload: bytes) -> bytes:
    value = msgspec.json.decode(payload) if payload else {}
    target = value.get("target") if isinstance(value, dict) else None
    return bytes.fromhex(target) if isinstance(target, str) and is_digest_text(target) else b""


def _standing(found: ProjectContexts, target: bytes, here: bytes) -> str:
    if not target:
        return "removed it"
    if target == here:
        return "the same"
    try:
        if is_ancestor(found.library, target, here):
            return "behind"
        return "ahead" if is_ancestor(found.library, here, target) else "apart"
    except (NotFoundError, DamageError):
        return "not here"


def _told(project: Project) -> tuple[ToldSession, ...]:
    """Return the newest sessions that hooks told facts to, by the files in which hooks note that."""
    hooks = project.journal.layout.hooks
    rows = project.journal.index.db.execute(
        "SELECT item_id, payload FROM heads WHERE item_type = 'session' AND deleted = 0 ORDER BY ts DESC LIMIT ?",
        (SESSIONS_LOOKED_AT,),
    ).fetchall()
    found = []
    for item_id, payload in rows:
        try:
            session = msgspec.json.decode(payload, type=_Session)
        except msgspec.DecodeError:
            continue  # a stub, or of a foreign program
        try:
            status = os.lstat(Told(hooks, session.tool, session.name).path)
        except (OSError, ValueError):
            continue  # nothing was told
        facts = status.st_size // _TOLD_LINE_BYTES
        found.append(ToldSession(
            session.name, session.agent, session.tool, session.state, facts, format_ms(int(status.st_mtime * 1_000)), f"/memory/{item_id}"
        ))  # fmt: skip
    return tuple(sorted(found, key=lambda one: one.at, reverse=True)[:SESSIONS_SHOWN_MAX])
