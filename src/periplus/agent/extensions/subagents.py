"""The tool ``spawn_agent``: a child session for a task, run to its end in the thread of the call, over a store of its own.

Theory of operation
-------------------
A subagent is a session like any other: its episodes are durable, it has a trail, and it continues after a crash. Its name follows from the
place of its call. So an interrupted call that is run again finds its session: if that has ended, the report is made from its episodes; if
it was interrupted, it continues; if it never began, it begins. Nothing is done twice in any of these cases.

A store's handles belong to a thread, and parallel calls have threads of their own. So a subagent opens the project for itself and shares
with its parent only what can be shared: the folder's changes, policy, budget, the person, and the front of its requests.
"""

from __future__ import annotations

__all__ = ["DEADLINE_S", "IDLE_S", "STEPS", "open_subagents"]

import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec

from periplus.agent.contracts import Access, LLMClient, Outcome, Spawned, ToolResult
from periplus.agent.episodes import Answered, Ended, Episode
from periplus.agent.events import AgentEnded, AgentStarted, Event
from periplus.agent.execution.call_checks import CALLING, Calling
from periplus.agent.execution.cancellation import CancelToken
from periplus.agent.extensions.contract import Extension, ExtensionContext, ParentSession, SessionOptions
from periplus.agent.subagents.claims import ChildClaims
from periplus.agent.subagents.deadlines import Late, Watch
from periplus.agent.subagents.report import changes_in, report_of, usage_of
from periplus.agent.subagents.session_names import child_name, lineage_of
from periplus.agent.subagents.shared_resources import Person, ReadOnlyHook, SharedHook, shared_client
from periplus.agent.tools.tool_table import Arguments, Parameter, Tool
from periplus.base.errors import ClaimedError, RefusedError, UsageError
from periplus.base.text.secrets import mask_secrets

if TYPE_CHECKING:
    from periplus.project import Project

STEPS: Final = 60
DEADLINE_S: Final = 3_600
IDLE_S: Final = 900  # more than a command may take in the foreground
_DEADLINE_S_MAX: Final = 4 * 3_600
_CLAIM_S_MORE: Final = 60
_NAME: Final = "spawn_agent"
_SHOWN: Final = 60
_TASK_CHARACTERS_MAX: Final = 50_000
_NAME_CHARACTERS_MAX: Final = 200
_OUTCOMES: Final[dict[str, Outcome]] = {"done": "ok", "cancelled": "cancelled"}
_ABOUT: Final = (
    "Give a task to a subagent: it has your tools, knows nothing of this talk, and its last answer comes back. "
    "Several run side by side where paths that are edited do not meet."
)
_PARAMETERS: Final = (
    Parameter("task", "text", "all it has to know, and what to report", required=True, most=_TASK_CHARACTERS_MAX),
    Parameter("name", "text", most=_SHOWN),
    Parameter("mode", "text", "default read-only", choices=("read-only", "edit")),
    Parameter("paths", "list", "the only ones it may edit", most=40),
    Parameter("budget_tokens", "integer", least=1),
    Parameter("max_steps", "integer", least=1),
    Parameter("deadline_s", "integer", least=1, most=_DEADLINE_S_MAX),
    Parameter("idle_s", "integer", least=1, most=_DEADLINE_S_MAX),
)
_TOLD: Final = (
    "You are a subagent: another agent gave you the task below and waits for your report. {mode} "
    "Your last answer is the report. Put in it all that was asked for, with what you saw and where (paths, lines); what is not in it is lost.\n\n{task}"
)
_MODES: Final = {
    "read-only": "You only read: say what you would change, change nothing.",
    "edit": "You may change files{where}; others may be at work elsewhere in the folder.",
}


class _Task(NamedTuple):
    session: str
    name: str
    text: str
    mode: str
    paths: tuple[str, ...]
    max_steps: int
    budget_tokens: int
    deadline_s: int
    idle_s: int

    @property
    def reads(self) -> bool:
        return self.mode == "read-only"

    @property
    def who(self) -> str:
        return f"the subagent {self.name} ({self.session})" if self.name else f"the subagent {self.session}"

    @property
    def request(self) -> str:
        where = f" in {', '.join(self.paths)} and nowhere else" if self.paths else ""
        return _TOLD.format(mode=_MODES[self.mode].format(where=where), task=self.text)


def open_subagents(context: ExtensionContext) -> Extension | None:
    """Open the subagents; None if the settings turn them off."""
    settings = context.options.settings
    if not settings.number("subagent_depth"):
        return None
    crew = _Crew(context)
    tool = Tool(_NAME, _ABOUT, _PARAMETERS, crew.run, crew.accesses, goes_on=True)
    return Extension(tools=[tool])


class _Crew:
    """The subagents of one session."""

    def __init__(self, context: ExtensionContext) -> None:
        self._context = context
        under = context.options.under
        self._depth = under.depth if under is not None else 0
        self._telling = threading.Lock()
        self._person = threading.Lock()
        self._client = threading.Lock()
        self._hooks = threading.RLock()

    def accesses(self, args: Arguments) -> Sequence[Access]:
        mode: Literal["read", "write"] = "write" if args.text("mode") == "edit" else "read"
        work = self._context.session.host.work
        touched = [work.resource(path) for path in args.texts("paths")] or ["file:"]
        return [Access(resource="agent:", mode="read"), *(Access(resource=one, mode=mode) for one in touched)]

    def run(self, args: Arguments) -> ToolResult:
        from periplus.project import Project

        calling = CALLING.get()
        if calling is None or calling.name != _NAME:
            raise UsageError("a subagent is started by a tool call, not by a program", safe="Nothing was started.")
        task = self._task(args, calling)
        held = self._context.project
        writer = held.writer._replace(session=task.session)
        with Project(held.root, writer, clock=held.journal.clock, files=held.journal.files) as project:
            project.beside = held.beside
            return self._run(project, task, calling)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _task(self, args: Arguments, calling: Calling) -> _Task:
        context = self._context
        limit = context.options.settings.number("subagent_depth")
        if self._depth >= limit:
            raise RefusedError(
                f"subagents cannot be nested deeper than {limit}", safe="Nothing was started.",
                mend="Do it yourself, or report what is left to do.",
            )  # fmt: skip
        session = child_name(context.options.name, calling.turn, calling.step, calling.place)
        if len(session) > _NAME_CHARACTERS_MAX:
            raise RefusedError(f"the name of this session is too long for subagents: {len(context.options.name)} characters",
                               safe="Nothing was started.", mend="Do it yourself.")  # fmt: skip
        work = context.session.host.work
        return _Task(
            session=session, name=_plain(args.text("name")), text=args.text("task"), mode=args.text("mode", "read-only"),
            paths=tuple(dict.fromkeys(work.path(path) for path in args.texts("paths"))),
            max_steps=min(args.integer("max_steps", STEPS), context.options.settings.number("max_steps")),
            budget_tokens=args.integer("budget_tokens"), deadline_s=args.integer("deadline_s", DEADLINE_S),
            idle_s=args.integer("idle_s", IDLE_S),
        )  # fmt: skip

    def _run(self, project: Project, task: _Task, calling: Calling) -> ToolResult:
        options = self._context.options
        about = " ".join(mask_secrets(f"subagent {task.name}: {task.text}")[0].split())[:_SHOWN]
        claims = ChildClaims(
            project, reads=task.reads, paths=task.paths, above=lineage_of(options.name), about=about,
            ttl_s=task.deadline_s + _CLAIM_S_MORE,
        )  # fmt: skip
        try:
            claims.begin()
        except ClaimedError as error:
            return self._kept_out(project, task, error)
        told = {"session": task.session, "name": task.name}
        outcome, spawned = "failed", Spawned(session=task.session)
        self._tell(calling, AgentStarted, **told, mode=task.mode, task=task.text)
        try:
            with (
                calling.token.child() as token, self._another() as client,
                Watch(options.world, token, deadline_s=task.deadline_s, idle_s=task.idle_s) as watch,
            ):  # fmt: skip
                episodes = self._session(project, client, task, claims, watch, token)
            outcome, spawned = _outcome(episodes, watch.late), _spawned(project, task.session, episodes)
        finally:
            claims.end()
            self._tell(calling, AgentEnded, **told, outcome=outcome, steps=spawned.steps, usage=spawned.usage)
        return self._result(task, episodes, outcome, spawned)

    def _kept_out(self, project: Project, task: _Task, error: ClaimedError) -> ToolResult:
        """Handle a claim of somebody else. A subagent that had begun before a crash is reported all the same; otherwise raise ``error``."""
        from periplus.agent.persistence.run_log import StoreLog

        episodes = StoreLog(project, task.session).read()
        if not episodes:
            raise error
        is_over = _end_of(episodes) is not None
        spawned = _spawned(project, task.session, episodes)
        self._context.session.budget.add(spawned.usage)
        note = "" if is_over else f"It was interrupted, and cannot continue: {error}"
        return self._result(task, episodes, _outcome(episodes) if is_over else "parked", spawned, note)

    def _session(
        self, project: Project, client: LLMClient, task: _Task, claims: ChildClaims, watch: Watch, token: CancelToken
    ) -> Sequence[Episode]:
        """Run or continue the child session and return its episodes; its trail is sealed then."""
        with self._context.begin(project, client, self._child_options(task, claims, watch)) as session:
            if session.is_interrupted:
                session.resume(token=token)
            elif not session.turns:
                session.turn(task.request, token=token)
            else:  # it had ended before its report was recorded
                self._context.session.budget.add(usage_of(session.log.read()))
            return session.log.read()

    def _child_options(self, task: _Task, claims: ChildClaims, watch: Watch) -> SessionOptions:
        context = self._context
        options, session, settings = context.options, context.session, context.options.settings
        own = {"max_steps": task.max_steps, "budget_tokens": task.budget_tokens, "budget_cents": 0, "oracle": ""}
        person = Person(task.who, self._person, watch, options.approver, options.asker)
        hooks = [SharedHook(hook, self._hooks) for hook in options.hooks]
        return options._replace(
            settings=dataclasses.replace(settings, values={**settings.values, **own}), name=task.session, title=f"{task.name or 'subagent'}: {task.text}",
            model=settings.text("subagent_model") or options.model, approver=person if options.approver is not None else None,
            asker=person.ask if options.asker is not None else None, emit=self._heard(task.session, watch), verifies=False,
            hooks=[*([ReadOnlyHook()] if task.reads else []), *hooks],
            under=ParentSession(
                session=session, prompt=session.tape.state.system, tools=session.tape.tools(), permission=session.permission,
                budget=session.budget, work=session.host.work.shared(), guard=claims.guard, depth=self._depth + 1,
            ),
        )  # fmt: skip

    def _heard(self, name: str, watch: Watch) -> Callable[[Event], None]:
        """An event sink that forwards the subagent's events with its name on them."""

        def emit(event: Event) -> None:
            watch.heard()
            with self._telling:
                self._context.options.emit(event if event.agent else msgspec.structs.replace(event, agent=name))

        return emit

    def _tell(self, calling: Calling, event: Callable[..., Event], **fields: object) -> None:
        with self._telling:
            self._context.options.emit(event(turn=calling.turn, step=calling.step, **fields))

    @contextmanager
    def _another(self) -> Iterator[LLMClient]:
        """A client of its own, so that several can answer at once; the shared one if no other can be opened."""
        context = self._context
        if context.options.another is None:
            yield shared_client(context.client, self._client)
            return
        client = context.options.another(context.options.settings.text("subagent_model"))
        try:
            yield client
        finally:
            close = getattr(client, "close", None)
            if close is not None:
                close()

    def _result(
        self, task: _Task, episodes: Sequence[Episode], outcome: str, spawned: Spawned, note: str = ""
    ) -> ToolResult:
        from periplus.memory.claim_status import session_id

        who = task.who[0].upper() + task.who[1:]
        outputs = self._context.session.host.outputs
        text, handle = report_of(who, outcome, episodes, spawned, session_id(task.session), outputs, note)
        return ToolResult(
            outcome=_OUTCOMES.get(outcome, "failed"), output=text, handle=handle, spawned=spawned,
            effects=tuple(one.effect() for one in changes_in(episodes)),
        )  # fmt: skip


def _plain(text: str) -> str:
    """A name that is safe to print on a terminal."""
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())


def _end_of(episodes: Sequence[Episode]) -> Ended | None:
    return next((one for one in reversed(episodes) if isinstance(one, Ended)), None)


def _outcome(episodes: Sequence[Episode], late: Late = "") -> str:
    ended = _end_of(episodes)
    if ended is None or ended.reason == "aborted":
        return late or "cancelled"
    return "done" if ended.reason == "done" else "parked"


def _spawned(project: Project, name: str, episodes: Sequence[Episode]) -> Spawned:
    from periplus.agent.persistence.run_log import session_runs

    trails = [run.digest for run in session_runs(project, name) if run.digest]
    return Spawned(
        session=name, trail=trails[-1] if trails else "", usage=usage_of(episodes),
        steps=sum(isinstance(one, Answered) for one in episodes),
    )  # fmt: skip
