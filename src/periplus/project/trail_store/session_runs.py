"""The trail of a session whose hooks are connected: first a run with a step for each prompt and call, then its trail.

A session's run is an entity whose id follows from the session, so that all hooks of the session find the same run.
The trail has the id that an import of the session would give it: hooks and imports never make two.

On sealing, the agent's own record of the session is imported where it is at hand, for it has more than hooks get: the
model's words and the cost of its calls. Otherwise the trail is made of the steps; likewise where that record ends
before calls that hooks reported, as after a move or a loss. A session may continue after its end; its run is opened
again then.
"""

from __future__ import annotations

__all__ = ["RunOfSession", "is_told_by_another", "run_id_of", "seal_session_run", "take_steps"]

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Never

from periplus.base.clock import format_ms
from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import PeriplusError
from periplus.base.files import Files
from periplus.base.ids import derived_id
from periplus.base.named_tuple import NamedTuple
from periplus.base.process.process_marks import ProcessMark, is_gone
from periplus.base.text.secrets import mask_secrets
from periplus.interop.conversion.session_titles import Done, better_title, is_meaningful
from periplus.interop.hooks.events import AGENTS, HookEvent
from periplus.journal import Entity, Journal, Transaction, Writer
from periplus.project.trail_store.cards import Calls
from periplus.trail.format.layout import SECRET_BYTES
from periplus.trail.model import STATUSES, TOOL_VERSION, Header, Status
from periplus.trail.recording.live_step import LiveStep, StepMaker, payload_of
from periplus.trail.recording.recorder import RUN_TYPE, Ended, Recorder, Run

if TYPE_CHECKING:
    from periplus.project.store import ProjectStore


class RunOfSession(NamedTuple):
    """The known facts of a session, or of a subagent in it, with an event."""

    format: str
    session: str
    agent_id: str = ""
    agent: str = ""
    cwd: str = ""
    model: str = ""
    title: str = ""
    transcript: str = ""
    process: ProcessMark | None = None  # the agent's, whose end is that of the run


_TITLE_CHARACTERS_MAX: Final = 120


def run_id_of(lineage: str, about: RunOfSession) -> str:
    return derived_id(RUN_TYPE, "hooks", lineage, about.format, about.session, about.agent_id)


def is_told_by_another(journal: Journal, event: HookEvent) -> bool:
    """Return True where another agent's hooks reported the session of ``event`` before."""
    formats = {agent.format for agent in AGENTS.values() if agent.name != event.agent}
    found = (journal.get(RUN_TYPE, run_id_of(journal.lineage, RunOfSession(name, event.session))) for name in formats)
    return any(run is not None and not run.deleted for run in found)


def take_steps(
    project: ProjectStore,
    writer: Writer,
    runs: Sequence[tuple[RunOfSession, Sequence[LiveStep]]],
    *,
    key: str,
    key_ms: int,
    patience_s: float,
) -> None:
    """Add steps to the runs of sessions, which are begun or opened again where needed; once for each ``key``, made at
    ``key_ms``.
    """
    journal = project.journal

    def write(transaction: Transaction) -> None:
        for about, steps in runs:
            run_id = run_id_of(journal.lineage, about)
            held = transaction.get(RUN_TYPE, run_id)
            if held is None or held.deleted:
                started_ms = steps[0].at_ms if steps else journal.clock.now_ms()
                payload = _opened(project, about, started_ms)
                transaction.put(RUN_TYPE, run_id, payload, summary=f"run: {about.title or run_id}")
            else:
                value = {**held.value, "state": "open"}
                if not value.get("model") and about.model:
                    value["model"] = about.model
                title = better_title(str(value.get("title", "")), about.title)
                if title:
                    value["title"] = title
                if about.transcript:  # an agent may go on with a session in another file
                    value["transcript"] = mask_secrets(about.transcript)[0]
                if about.process is not None:  # or in another process
                    value["process"] = about.process._asdict()
                elif _is_left(value, journal.files):  # or in one that has only just been started
                    del value["process"]
                if value != held.value:
                    transaction.put(RUN_TYPE, run_id, value, summary="run goes on")
            for step in steps:
                transaction.observe(payload_of(step), item_type=RUN_TYPE, item_id=run_id)

    journal.mutate(write, writer, key=key, key_ms=key_ms, project=False, patience_s=patience_s)


def _is_left(run: dict[str, JSONValue], files: Files) -> bool:
    """Test that the process that a run names is gone."""
    process = run.get("process")
    return isinstance(process, dict) and is_gone(ProcessMark(**process), files)  # type: ignore[arg-type]  # the run's schema


def _opened(project: ProjectStore, about: RunOfSession, started_ms: int) -> dict[str, JSONValue]:
    journal = project.journal
    texts: dict[str, JSONValue] = {
        name: mask_secrets(value)[0] for name, value in about._asdict().items() if isinstance(value, str) and value
    }
    return {
        "v": 1,
        "state": "open",
        "tool_version": TOOL_VERSION,
        "secret": journal.random(SECRET_BYTES).hex(),
        "started": format_ms(started_ms),
        "lineage": journal.lineage,
        "first_seq": journal.end().next_seq,
        **({"process": about.process._asdict()} if about.process is not None else {}),
        **texts,
    }


def seal_session_run(
    project: ProjectStore, run: Run, *, is_over: bool, status: Status = "success"
) -> tuple[Entity | None, PeriplusError | None]:
    """Bring the trail of a session up to date, and where it ``is_over`` close its run; also returns the error that
    prevented the import of the agent's own record, if any. None where there is nothing to make a trail of: a run
    that is over is removed then.
    """
    told = _told(project, run)
    entity, trouble = _from_transcript(project, run, told)
    if entity is not None:
        status = _status_of(entity, status)
    else:
        with project.journal.objects.keeping():  # its steps are read, its trail kept and announced
            entity = _from_steps(project, run, status, told)
    if entity is None:
        if is_over:
            _forget(project, run)
        return None, trouble
    item_id, digest = entity.item_id, str(entity.value.get("digest", ""))

    def write(transaction: Transaction) -> None:
        held = transaction.get(RUN_TYPE, run.id)
        if held is None or held.deleted:
            return
        value = {**held.value, "trail": item_id, "digest": digest, "status": status}
        if is_over:
            value["state"] = "sealed"
        if value != held.value:
            action = "transition" if value["state"] != held.value.get("state") else "update"
            transaction.put(RUN_TYPE, run.id, value, action=action, summary=f"run sealed: {status}")

    if is_over:
        project.journal.mutate(write, project.writer, project=False)
    return entity, trouble


def _status_of(entity: Entity, status: Status) -> Status:
    """Return the end status of a run by the agent's own record; ``status`` where that has none."""
    found = entity.value.get("status")
    return next((one for one in STATUSES if one == found), status)


def _forget(project: ProjectStore, run: Run) -> None:
    """Remove the run of a session in which nothing was done."""

    def write(transaction: Transaction) -> None:
        held = transaction.get(RUN_TYPE, run.id)
        if held is not None and not held.deleted:
            transaction.delete(RUN_TYPE, run.id, summary="nothing was done in this run")

    project.journal.mutate(write, project.writer, project=False)


def _told(project: ProjectStore, run: Run) -> Calls:
    """The calls that hooks reported."""
    steps = Recorder(
        project.journal, project.writer, StepMaker(mask_secrets, project.journal.objects.put), _never
    ).steps(run)
    return Calls.of((live.step.code, live.at_ms) for live in steps)


def _from_transcript(project: ProjectStore, run: Run, told: Calls) -> tuple[Entity | None, PeriplusError | None]:
    """Return the trail of the agent's own record, where that is a plain file of the agent's format and of this very
    session, with no fewer calls than ``told``.
    """
    from periplus.interop.formats import format_names
    from periplus.project.trail_store.session_import import import_sessions

    path = run.transcript
    if run.agent_id or not os.path.isabs(path) or run.format not in format_names() or not _is_plain(path):
        return None, None
    try:
        found = import_sessions(
            project, path, source_format=run.format, progress=None, only_here=False, session=run.session, told=told
        )
    except PeriplusError as error:
        return None, error
    return (found[0].entity if found else None), None


def _is_plain(path: str) -> bool:
    import stat

    try:
        return "\0" not in path and stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _from_steps(project: ProjectStore, run: Run, status: Status, told: Calls) -> Entity | None:
    """Return the trail made of the steps of the run, announced like an import of the session."""
    from periplus.project.trail_store.cards import card_of_run, is_later
    from periplus.project.trail_store.lookup import calls_of
    from periplus.project.trail_store.withholding import Withholding
    from periplus.trail.format.builder import TrailBuilder

    withholding = Withholding(project)
    recorder = Recorder(project.journal, project.writer, StepMaker(mask_secrets, withholding.put), _never)
    builder = TrailBuilder(run.secret, withholding.put)
    steps: list[LiveStep] = []
    for live in recorder.steps(run):
        live.add_to(builder)
        steps.append(live)
    if not steps:
        return None
    facts = run.facts
    title = facts.title if is_meaningful(facts.title) else _done(steps, facts.cwd) or facts.title
    run = run._replace(facts=facts._replace(title=title))
    header = Header(
        agent=facts.agent,
        trail_id=f"{run.session}/{run.agent_id}" if run.agent_id else run.session,
        tool=run.format,
        tool_version=run.tool_version,
        model=facts.model or None,
        title=title or None,
        started_ms=run.started_ms,
    )
    data = builder.finish(header, status)
    ended_ms = max(live.at_ms + (live.step.duration_ms or 0) for live in steps)
    card = card_of_run(Ended(run._replace(status=status), data, tuple(live.step for live in steps), ended_ms))
    item_id = derived_id("trl", run.format, run.session, run.agent_id)
    card |= {"format": run.format, "session_id": run.session}
    if run.agent_id:
        card["parent"] = derived_id("trl", run.format, run.session, "")
    goes_beyond = False

    def keep(before: Entity | None) -> Callable[[Transaction], None]:
        nonlocal goes_beyond
        has_source = before is not None and bool(before.value.get("source_sha256"))
        goes_beyond = before is not None and has_source and told.goes_beyond(calls_of(project, before))
        withholding.put_trail(card, data, before)
        return write

    def write(transaction: Transaction) -> None:
        held = transaction.get("trail", item_id)
        if held is None or held.deleted or is_later(card, held.value) or goes_beyond:
            transaction.put("trail", item_id, card, action="import", summary=f"trail: {card['title'] or run.session}")

    withholding.announce(item_id, keep)
    return project.journal.get("trail", item_id)


def _done(steps: Sequence[LiveStep], folder: str) -> str:
    """Return what the steps did, as a title."""
    from periplus.trail.opcodes import BY_CODE

    done = Done()
    for live in steps:
        done.note(BY_CODE[live.step.code].name, live.step.operands)
    return done.title(folder)[:_TITLE_CHARACTERS_MAX]


def _never(_: Ended) -> Never:
    raise AssertionError("a run of hooks is sealed here, not by the recorder")
