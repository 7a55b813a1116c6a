"""The end of a turn or a session: its trail is sealed, reflected on, and handed off.

The end of a turn brings the trail up to date, at most every few minutes, for the whole session is read again for it.
The end of a session does all of it. The changes of a session are handed off to the next agent; an earlier automatic
handoff that nobody accepted is replaced.
"""

from __future__ import annotations

__all__ = ["seal_abandoned_sessions", "settle_session"]

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from periplus.base.errors import EnvironmentFailure, FormatError, NotFoundError, PeriplusError
from periplus.base.ids import derived_id
from periplus.interop.hooks.events import AGENTS, HookEvent
from periplus.journal import Entity
from periplus.project.trail_store.session_runs import RunOfSession, run_id_of, seal_session_run
from periplus.trail.model import Status
from periplus.trail.recording.recorder import RUN_TYPE, Run, run_of

if TYPE_CHECKING:
    from periplus.project.store import ProjectStore

Note: TypeAlias = Callable[[str, str], object]
_FILES_MAX: Final = 50
_FILES_NAMED: Final = 5
_UNFINISHED_MAX: Final = 20
_CHARACTERS_MAX: Final = 300
_HANDED_OFF: Final = "Where the work stands after"  # the beginning of an automatic handoff
_CHANGES: Final = frozenset({"FILE_WRITE", "FILE_EDIT", "FILE_DELETE", "FILE_MOVE"})
_DONE: Final = frozenset({"completed", "done", "cancelled", "canceled"})


def settle_session(project: ProjectStore, event: HookEvent, *, is_over: bool, again_ms: int, note: Note) -> list[str]:
    """Do what ``event``, the last one of its session, entails; returns the ids of trails. Raises what stops all of
    it.
    """
    from periplus.project.knowledge.work import ProjectWork

    if not is_over and not _is_due(project, event, again_ms):
        return []
    trails = []
    status: Status = "success" if is_over else "partial"
    for run in _runs(project, event):
        entity, trouble = seal_session_run(project, run, is_over=is_over, status=status)
        if trouble is not None:
            note(event.name, f"the record {run.transcript} was not imported: {trouble}")
        if entity is not None:
            trails.append(entity.item_id)
    if is_over:
        own = derived_id("trl", AGENTS[event.agent].format, event.session, "")
        if project.journal.get("trail", own) is not None:  # also where the process that sealed it was stopped then
            _learn(project, own, event.session, event.cwd, note)
        ProjectWork(project).seal_session(event.session)
        _refresh_instructions(project, event, note)
    return trails


def _refresh_instructions(project: ProjectStore, event: HookEvent, note: Note) -> None:
    """Bring the instructions in AGENTS.md up to date, where an agent was connected."""
    from periplus.project.agent_hooks.connection import ProjectConnecting

    try:
        ProjectConnecting(project, project.beside).refresh(start=event.cwd)
    except PeriplusError as error:
        note(event.name, f"the instructions were not brought up to date: {error}")


def seal_abandoned_sessions(project: ProjectStore, note: Note) -> None:
    """Make trails of the runs that were left without an end, reflect on them, and end their sessions."""
    from periplus.project.knowledge.work import ProjectWork
    from periplus.project.trail_store.recording import seal_abandoned

    for one in seal_abandoned(project):
        if one.sealed is not None and one.run.format and not one.run.agent_id:
            _learn(project, one.sealed.entity.item_id, one.run.session, one.run.facts.cwd, note)
            try:
                ProjectWork(project).seal_session(one.run.session)
            except NotFoundError:
                pass  # it was never begun


def _is_due(project: ProjectStore, event: HookEvent, again_ms: int) -> bool:
    """Return True where the session's trail is old enough to be made again, or missing."""
    from periplus.base.clock import parse_ms

    held = project.journal.get("trail", derived_id("trl", AGENTS[event.agent].format, event.session, ""))
    if held is None or held.deleted:
        return True
    return event.at_ms - (parse_ms(held.ts) or 0) >= again_ms


def _runs(project: ProjectStore, event: HookEvent) -> list[Run]:
    """Return the open run of the session, after those of its subagents with new events."""
    journal = project.journal
    journal.refresh()
    kind = AGENTS[event.agent].format
    own = run_id_of(journal.lineage, RunOfSession(kind, event.session))
    known = journal.own
    mine = {journal.lineage} | ({known.previous, *known.left} if known is not None else set())
    found = [run_of(one) for one in journal.entities(RUN_TYPE) if _is_of(one, kind, event.session)]
    found = [
        run for run in found if run.lineage in mine
    ]  # the long texts of other clones' steps come with their trails
    return sorted(found, key=lambda run: (run.id == own, run.started_ms, run.id))


def _is_of(entity: Entity, kind: str, session: str) -> bool:
    value = entity.value
    return value.get("format") == kind and value.get("session") == session and value.get("state") != "sealed"


def _learn(project: ProjectStore, trail: str, session: str, cwd: str, note: Note) -> None:
    """Reflect on a session that is over, and hand off its changes. Failures are noted: the trail is there all the
    same.
    """
    from periplus.project.knowledge.reflection import ProjectReflection

    try:
        ProjectReflection(project).reflect([trail])
    except PeriplusError as error:
        note("session end", f"{trail} was not reflected on: {error}")
    try:
        _hand_off(project, trail, session, cwd)
    except PeriplusError as error:
        note("session end", f"{trail} was not handed off: {error}")


def _hand_off(project: ProjectStore, trail: str, session: str, cwd: str) -> None:
    """Hand off the changes of the session, unless it did so itself."""
    from periplus.base.clock import parse_ms
    from periplus.memory.coordination.handoffs import NewHandoff
    from periplus.project.knowledge.work import ProjectWork

    entity = project.journal.get("trail", trail)
    if entity is None:
        return
    told, tests, unfinished = _stands(project, entity, cwd)
    shell = _changed_since(project, cwd, str(entity.value.get("started", "")))
    files = tuple(dict.fromkeys([*told, *shell]))[:_FILES_MAX]
    known = ProjectWork(project).handoffs(with_closed=True)
    if not files or any(one.value.get("session") == session and not _is_ours(one) for one in known):
        return
    if any(one.value.get("trail") == trail and one.value.get("files") == [*files] for one in known if _is_ours(one)):
        return  # written already, by a process that was stopped then
    before = [one for one in known if one.value.get("state") == "open" and _is_ours(one)]
    title = str(entity.value.get("title", ""))
    more = f" and {len(files) - _FILES_NAMED:,} more" if len(files) > _FILES_NAMED else ""
    text = (
        f"{_HANDED_OFF} a session of {entity.value.get('agent')}{f': {title}' if title else ''}{'' if title[-1:] in tuple('.?!…') else '.'}"
        f" It changed {', '.join(files[:_FILES_NAMED])}{more}."
    )
    new = NewHandoff(text, "", files, tests, unfinished, "", trail)
    key = f"hooks.{trail}.{str(entity.value.get('digest', ''))[:24]}"
    begun_ms = parse_ms(str(entity.value.get("started", "")))
    ProjectWork(project).hand_off(new, corrects=before[0].item_id if before else "", key=key, key_ms=begun_ms)


def _is_ours(handoff: Entity) -> bool:
    return str(handoff.value.get("text", "")).startswith(_HANDED_OFF)


def _stands(project: ProjectStore, entity: Entity, cwd: str) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    """Return the files of the project that the trail changed, its last tests, and the open items of its last plan."""
    from periplus.memory.fulltext.documents import object_of_card
    from periplus.trail.format.reader import TrailReader
    from periplus.trail.opcodes import BY_CODE

    objects = project.journal.objects
    files: dict[str, None] = {}
    tests, plan = "", ""
    for step in TrailReader(objects.get(object_of_card(entity.value))).steps():
        opcode = BY_CODE.get(step.code)
        name = opcode.name if opcode is not None else ""
        first = step.operands[0] if step.operands else None
        if name in _CHANGES and step.outcome == "ok" and isinstance(first, str):
            inside = _inside(project, first, cwd)
            if inside:
                files[inside] = None
        elif name == "TEST_RUN" and isinstance(first, str):
            passed = step.operands[1]
            tests = (
                f"{first[:_CHARACTERS_MAX]}: {step.outcome}{f', {passed} passed' if isinstance(passed, int) else ''}"
            )
        elif name == "PLAN_UPDATE" and isinstance(first, str):
            plan = first
    return tuple(files)[:_FILES_MAX], tests, _unfinished(plan)


def _changed_since(project: ProjectStore, cwd: str, started: str) -> list[str]:
    """Return the files that differ from the last commit, by git, and were written since: shell commands change files,
    too.
    """
    from periplus.base.clock import parse_ms
    from periplus.project.worktree import base_entries, standing_of, worktree_of
    from periplus.trail.checkpoints.git_tree import tree_id

    worktree = worktree_of(cwd) if cwd and os.path.isdir(cwd) else None
    began_ms = parse_ms(started)
    if worktree is None or began_ms is None:
        return []
    try:
        commit = worktree.commit()
        if commit is None:
            return []
        base = base_entries(worktree.top, commit.value) or {}
        standing = standing_of(worktree.look(), tree_id(base, worktree.algorithm), base)
    except (EnvironmentFailure, FormatError):
        return []  # a broken repository, or no git: the trail's own files have to do
    found = []
    for path in sorted(standing.changed):
        try:
            is_new = os.lstat(os.path.join(worktree.top, path)).st_mtime_ns // 1_000_000 >= began_ms
        except OSError:
            continue  # gone meanwhile
        inside = _inside(project, path, worktree.top) if is_new else ""
        found += [inside] if inside else []
    return found


def _inside(project: ProjectStore, path: str, cwd: str) -> str:
    try:
        found = project.path(path, cwd=cwd)
    except PeriplusError:
        return ""
    return "" if found == os.curdir else found


def _unfinished(plan: str) -> tuple[str, ...]:
    import orjson

    try:
        found = orjson.loads(plan)
    except ValueError:
        return ()
    items = found if isinstance(found, list) else found.get("plan") if isinstance(found, dict) else None
    texts = []
    for item in items if isinstance(items, list) else []:
        if isinstance(item, dict) and str(item.get("status", "")).lower() not in _DONE:
            text = " ".join(str(item.get("content") or item.get("step") or "").split())[:_CHARACTERS_MAX]
            texts += [text] if text else []
    return tuple(texts[:_UNFINISHED_MAX])
