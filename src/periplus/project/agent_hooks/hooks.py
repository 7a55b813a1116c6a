"""``Project.hooks``: import the events of agents' hooks, and answer hooks.

A hook in a hurry only leaves its event in the spool; see ``periplus.cli.hook_entry``. Events are imported by a
command that opens the project, or by a process that a hook leaves behind. Each event counts once, in the order of
their times; an interrupted import is repeated under the same keys, and writes nothing twice.
"""

from __future__ import annotations

__all__ = ["ProjectHooks", "TakenIn"]

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.errors import (
    EnvironmentFailure,
    FormatError,
    LockTimeoutError,
    PeriplusError,
    RefusedError,
    UsageError,
)
from periplus.base.filesystem.failure_notes import Note, leave_note, read_notes
from periplus.base.filesystem.spool import Group, Spool
from periplus.base.ids import derived_id
from periplus.base.named_tuple import NamedTuple
from periplus.base.process.locks import Lock
from periplus.interop.hooks.events import AGENTS, Answer, HookEvent, decode_event
from periplus.journal import Writer

if TYPE_CHECKING:
    from periplus.journal.care.doctor import Problem
    from periplus.project.agent_hooks.duplicate_events import DuplicateEvents
    from periplus.project.agent_hooks.said_tokens import SaidTokens
    from periplus.project.agent_hooks.told_facts import Told
    from periplus.project.store import ProjectStore
    from periplus.project.trail_store.session_runs import RunOfSession
    from periplus.trail.recording.live_step import LiveStep

_GROUP_FILES_MAX: Final = 200
_GROUP_BYTES_MAX: Final = 8 << 20
_GROUPS_MAX: Final = 100
_NOTES_SHOWN_MAX: Final = 5
_SEAL_AGAIN_MS: Final = 600_000
_TITLE_CHARACTERS_MAX: Final = 120


class TakenIn(NamedTuple):
    """The number of events that were imported, and the trails that were made or brought up to date."""

    events: int
    trails: tuple[str, ...]


class ProjectHooks:
    def __init__(self, project: ProjectStore) -> None:
        self._project = project
        self._folder = project.journal.layout.hooks
        self.spool = Spool(os.path.join(self._folder, "spool"), project.journal.files)
        self.notes_file = os.path.join(self._folder, "notes")

    def notes(self) -> list[Note]:
        """Return the errors of hooks of this project, the oldest first."""
        return read_notes(self.notes_file)

    def note(self, source: str, what: str) -> bool:
        from periplus.base.clock import format_ms

        journal = self._project.journal
        note = Note(format_ms(journal.clock.now_ms()), source, self._project.folder, what)
        return leave_note(self.notes_file, note, journal.files)

    def said(self) -> dict[str, SaidTokens]:
        """Return the tokens that hooks of this store said on this machine, by agent."""
        from periplus.project.agent_hooks.said_tokens import read_said

        return read_said(self._folder)

    def problems(self) -> list[Problem]:
        """Return problems for ``doctor``: events that wait, and the newest notes."""
        from periplus.journal.care.doctor import Problem
        from periplus.project.agent_hooks.pending_events import waiting_events

        found = waiting_events(self.spool)
        notes = self.notes()
        found += [_told(note, self.notes_file) for note in notes[-_NOTES_SHOWN_MAX:]]
        if len(notes) > _NOTES_SHOWN_MAX:
            found.append(
                Problem("note", f"and {len(notes) - _NOTES_SHOWN_MAX:,} older notes of hooks", self.notes_file)
            )
        return found

    # -- what agents told ----------------------------------------------------------------------------------------------

    @property
    def has_events(self) -> bool:
        return bool(self.spool.waiting())

    def take_in(self, *, patience_s: float = 5.0) -> TakenIn:
        """Import the events that hooks left. Raises LockTimeoutError where another process imports for longer than
        ``patience_s``, and what ``Journal.mutate`` raises: events that were not imported stay in the spool.
        """
        if not self.has_events:
            return TakenIn(0, ())
        from periplus.journal.storage.settings import read_settings

        count = 0
        trails: dict[str, None] = {}
        with Lock(os.path.join(self._folder, "lock"), is_guard=False).holding(patience_s):
            for _ in range(_GROUPS_MAX):
                try:
                    group = self.spool.begin(_GROUP_FILES_MAX, _GROUP_BYTES_MAX)
                except FormatError as error:
                    kept = self.spool.set_aside(os.path.basename(error.path or ""))
                    self.note("take in", f"{error}; its events are imported again, perhaps twice ({kept})")
                    continue
                if group is None:
                    break
                doubles = self._doubles()
                read = self._read(group.names)
                names = {id(event): name for name, event in read}
                events = doubles.without([event for _, event in read])
                by_session: dict[tuple[str, str, str], list[HookEvent]] = {}
                for event in events:
                    by_session.setdefault((event.agent, event.session, event.writer), []).append(event)
                for told in by_session.values():
                    try:
                        trails.update(dict.fromkeys(self._take(told, group, patience_s)))
                    except (UsageError, RefusedError) as error:
                        # It raises where the store, not the event, is at fault.
                        read_settings(self._project.journal.layout)
                        aside = [self.spool.set_aside(names[id(event)]) for event in told]
                        what = f"{len(told):,} events of session {told[0].session} were set aside: {error}"
                        self.note(told[0].name, f"{what} (kept in {os.path.dirname(aside[0])})")
                count += len(events)
                doubles.save()
                self.spool.finish(group)
        return TakenIn(count, tuple(trails))

    def _doubles(self) -> DuplicateEvents:
        from periplus.project.agent_hooks.duplicate_events import DuplicateEvents
        from periplus.project.trail_store.session_runs import is_told_by_another

        journal = self._project.journal
        return DuplicateEvents(
            os.path.join(self._folder, "recent"), journal.files, lambda event: is_told_by_another(journal, event)
        )

    def _read(self, names: Sequence[str]) -> list[tuple[str, HookEvent]]:
        found = []
        for name in names:
            try:
                data = self.spool.read(name)
                if data:
                    found.append((name, decode_event(data)))
            except FormatError as error:
                self.note("take in", f"{error} (kept as {self.spool.set_aside(name)})")
        return found

    def _take(self, events: list[HookEvent], group: Group, patience_s: float) -> list[str]:
        """Import the events of one session: steps, signs of life, and the consequences of its end; returns the
        trails.
        """
        project, first = self._project, events[0]
        name = first.writer or first.agent
        writer = Writer(name, derived_id("who", name, os.uname().nodename), first.session, os.getpid())
        was, project.writer = project.writer, writer
        try:
            key = f"{group.key}.{derived_id('e', first.agent, first.session, first.writer)}"
            self._take_steps(events, key, group.oldest_ms, patience_s)
            self._keep_session(events)
            return self._settle(events)
        finally:
            project.writer = was

    def _take_steps(self, events: list[HookEvent], key: str, key_ms: int, patience_s: float) -> None:
        from periplus.project.trail_store.session_runs import take_steps

        steps: dict[str, list[LiveStep]] = {}
        about: dict[str, RunOfSession] = {}
        for event in events:
            about[event.sub] = _about(event, about.get(event.sub))
        for event, step in self._made(events):
            steps.setdefault(event.sub, []).append(step)
        runs = [(about[sub], found) for sub, found in steps.items()]
        if "" in about and "" not in steps and any(event.kind == "session-start" for event in events):
            runs.insert(0, (about[""], []))  # the run begins with the session, before there is a step
        if runs:
            take_steps(self._project, self._project.writer, runs, key=key, key_ms=key_ms, patience_s=patience_s)

    def _made(self, events: list[HookEvent]) -> list[tuple[HookEvent, LiveStep]]:
        """Make steps of events. An event of which no step can be made is noted and left out, so that it does not
        block the others.
        """
        from periplus.interop.hooks.steps import steps_of
        from periplus.project.trail_store.withholding import Withholding

        put = Withholding(self._project).put
        try:
            return [(events[place], step) for place, step in steps_of(events, put)]
        except EnvironmentFailure:
            raise
        except Exception as error:  # noqa: BLE001 - what a foreign program says may be anything; it is tried alone
            if len(events) > 1:
                return [pair for event in events for pair in self._made([event])]
            self.note(events[0].name, f"no step could be made of it: {type(error).__name__}: {error}")
            return []

    def _keep_session(self, events: list[HookEvent]) -> None:
        from periplus.memory.claim_status import session_id
        from periplus.memory.coordination.sessions import NewSession
        from periplus.project.knowledge.work import ProjectWork

        project, last = self._project, events[-1]
        project.journal.refresh()
        held = project.journal.get("session", session_id(last.session))
        if held is None or (held.value.get("state") != "open" and last.kind != "session-end"):
            model = next((event.model for event in events if event.model), "")
            ProjectWork(project).begin_session(NewSession(last.session, model, last.agent, _title(events)))
        else:
            ProjectWork(project).seen()

    # -- the end of a turn, of a session -------------------------------------------------------------------------------

    def _settle(self, events: list[HookEvent]) -> list[str]:
        from periplus.project.agent_hooks.session_end import settle_session

        kinds = [event.kind for event in events]
        since_end = kinds[len(kinds) - kinds[::-1].index("session-end") :] if "session-end" in kinds else []
        is_over = "session-end" in kinds and not {"prompt", "after-tool"} & {*since_end}
        if not is_over and not {"turn-end", "compact", "subagent-end"} & {*kinds}:
            return []
        try:
            again_ms = 0 if "compact" in kinds else _SEAL_AGAIN_MS  # what is compacted is recorded nowhere else
            return settle_session(self._project, events[-1], is_over=is_over, again_ms=again_ms, note=self.note)
        except PeriplusError as error:
            if isinstance(error, LockTimeoutError):
                raise
            self.note(events[-1].name, f"the trail of session {events[-1].session} was not sealed: {error}")
            return []

    def answer(self, event: HookEvent, *, home: str = "", told: Told | None = None) -> Answer:
        """Return the answer to ``event``, without lines that ``told`` has; nothing is written. ``home`` is where
        ``~`` leads in its commands. See ``periplus.project.agent_hooks.hook_answers``.
        """
        from periplus.project.agent_hooks.hook_answers import answer_to

        return answer_to(self._project, event, home, told)


def _told(note: Note, path: str) -> Problem:
    from periplus.journal.care.doctor import Problem

    said = f"a hook gave no answer ({note.source}, {note.at[:16]}Z): {note.what}"
    return Problem("note", said if note.at else note.what, path)


def _about(event: HookEvent, before: RunOfSession | None) -> RunOfSession:
    """Return what is known of the run by this event and the earlier ones."""
    from periplus.base.process.process_marks import mark_of_text
    from periplus.interop.conversion.session_titles import better_title
    from periplus.project.trail_store.session_runs import RunOfSession

    kind = AGENTS[event.agent].format
    held = before or RunOfSession(
        kind, event.session, event.sub, f"{kind}/{event.sub_kind}" if event.sub_kind else kind
    )
    title = _title([event])
    return held._replace(
        cwd=held.cwd or event.cwd,
        model=held.model or event.model,
        title=better_title(held.title, title),
        transcript=event.transcript or held.transcript,
        process=mark_of_text(event.client) or held.process,
    )


def _title(events: Sequence[HookEvent]) -> str:
    """Return the first prompt with content, in one line, by which imports name a session, too."""
    from periplus.interop.conversion.session_titles import better_title

    text = ""
    for event in events:
        text = better_title(text, event.prompt) if event.kind == "prompt" else text
    line = " ".join(text[: 4 * _TITLE_CHARACTERS_MAX].split())
    return line if len(line) <= _TITLE_CHARACTERS_MAX else f"{line[: _TITLE_CHARACTERS_MAX - 1]}…"
