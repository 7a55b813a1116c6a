"""Assembly of a session over a project's store: model, tools, tape, memory, log and policy. Every face begins a session here."""

from __future__ import annotations

__all__ = ["STATE", "AgentSession", "SessionOptions", "begin", "refuse_check_that_cannot_run"]

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, Self

from periplus.agent.contracts import Answer, Approver, LLMClient, Memory, ToolCall, ToolDecision
from periplus.agent.episodes import RUN_TOPIC, Ended, Noted
from periplus.agent.events import Learned, Noticed, RunStarted
from periplus.agent.execution.cancellation import CancelToken
from periplus.agent.extensions.contract import Extension, ExtensionContext, SessionOptions
from periplus.agent.extensions.standard import STANDARD
from periplus.agent.hooks import Composite, Hook
from periplus.agent.loop import Limits
from periplus.agent.persistence.run_log import STATE, StoreLog
from periplus.agent.persistence.task_checkpoints import TaskKeeper
from periplus.agent.persistence.turn_index import StoredTurns, TurnIndex
from periplus.agent.policies.budget import Budget
from periplus.agent.policies.guardrail import Guardrail
from periplus.agent.policies.oracle import CommandOracle, OraclePolicy
from periplus.agent.policies.permission import Mode, Permission, PermissionApprover, idle_rules
from periplus.agent.policies.selfcheck import SelfCheck
from periplus.agent.session import Parts, Session
from periplus.agent.settings import Settings
from periplus.agent.tape import Tape, prompt_for
from periplus.agent.tape.fence import one_line, plain_name
from periplus.agent.tape.folder_view import FolderView
from periplus.agent.tape.history.handle_pages import pages_of
from periplus.agent.tape.page_table import PageTable
from periplus.agent.tape_notes import Fact, TopicNote, noted
from periplus.agent.tools.files.read_restrictions import ReadRestrictions
from periplus.agent.tools.local_host import HostParts, open_host
from periplus.agent.tools.shell.commands import ConsentKind
from periplus.agent.tools.text_pages.page_source import Pages
from periplus.base.clock import Clock, format_ms
from periplus.base.errors import NotFoundError, PeriplusError, RefusedError

if TYPE_CHECKING:
    from periplus.agent.memories.store import StoreMemory
    from periplus.agent.sandbox import Sandbox
    from periplus.agent.tape_notes import SliceNote
    from periplus.agent.tools.files.change_log import Undone
    from periplus.agent.tools.tool_host import LocalToolHost
    from periplus.project import Project

_TITLE_CHARACTERS: Final = 80


class AgentSession:
    """A running session. Closing it seals its trail."""

    def __init__(self, project: Project, client: LLMClient, options: SessionOptions) -> None:
        from periplus.agent.sandbox import find_sandbox

        settings, under = options.settings, options.under
        root = project.top
        _refuse_own_settings(root, options.hidden)
        project.writer = project.writer._replace(
            session=options.name
        )  # everything written from here on belongs to this session
        self.project = project
        self._options, self._is_told, self._is_without_git = options, False, False
        self._ended: Ended | None = None
        self._granted = ""  # the command that the person just allowed to leave the sandbox
        with ExitStack() as opened:
            self.sandbox = options.sandbox or find_sandbox(options.environment.get("PATH", os.defpath))
            if options.under is None:
                refuse_check_that_cannot_run(options.settings, self.sandbox, can_ask=options.approver is not None)
            memory = self._open_memory(opened)
            self.permission = under.permission if under is not None else Permission(
                settings.mode, settings.rules, home=options.home, workspace=root
            )  # fmt: skip
            state = os.path.join(project.journal.layout.root, STATE, self.log.item_id)
            brought: list[Extension] = []
            self._extend(ExtensionContext(project, client, options, self, begin, root, state, brought), brought, opened)
            self.brought: Sequence[Extension] = brought
            self.host = self._open_host(memory, brought, state)
            self.said = (*(line for one in brought for line in one.said), *self._idle_rules())
            opened.callback(self.host.close)
            for extension in brought:
                self.host.watch(on_cancel=extension.cancel)
            self.tape = self._open_tape(memory, brought)
            self.budget = Budget(
                tokens=settings.number("budget_tokens") or None, cost=settings.number("budget_cents") * 10_000 or None,
                parent=under.budget if under is not None else None,
            )  # fmt: skip
            self._judges = Composite(
                [self.permission, *(hook for one in brought for hook in one.hooks), *options.hooks]
            )
            approver = options.approver
            self._session = Session(
                Parts(
                    client=client, host=self.host, context=self.tape, log=self.log, hooks=self._hooks(brought),
                    approver=PermissionApprover(self.permission, _Remembering(self, approver)) if approver is not None else None,
                    emit=options.emit, limits=Limits(steps=settings.number("max_steps")), world=options.world, clock=options.clock,
                )
            )  # fmt: skip
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_interrupted(self) -> bool:
        return self._session.is_interrupted

    @property
    def turns(self) -> int:
        """The number of turns that were begun."""
        return self._session.turns

    @property
    def trail_id(self) -> str:
        """The trail of the session's last run once that is closed; empty before."""
        return self.log.trail_id

    def turn(self, request: str, *, token: CancelToken | None = None) -> Ended:
        self._tell_run()
        self._ended = self._session.turn(request, token=token)
        self._tasks.keep(self.tape.state.topics)
        return self._ended

    def resume(self, *, token: CancelToken | None = None) -> Ended | None:
        if self.is_interrupted:
            self._tell_run()
        ended = self._session.resume(token=token)
        self._ended = ended or self._ended
        self._tasks.keep(self.tape.state.topics)
        return ended

    def undo(self) -> tuple[str, ...]:
        """Undo the last turn that changed files, with the changes of its commands, and return the paths. Raises ConflictError,
        NotFoundError, and ClaimedError for files that another agent claims by now.
        """
        return self.take_back(with_seen=True).paths

    def take_back(self, *, with_seen: bool, is_merging: bool = False) -> Undone:
        """Undo the last turn that changed files; see ``Workspace.undo``."""
        turns = self.host.work.changes.turns()
        if not turns:
            raise NotFoundError("no turn of this session changed a file", safe="Nothing was changed.")
        return self.host.work.undo(turns[-1], with_seen=with_seen, is_merging=is_merging)

    def granted(self, call: ToolCall | None) -> None:
        """Remember the call that the person just approved; None where they refused."""
        is_out = call is not None and call.name == "shell" and call.args.get("unsandboxed") is True
        self._granted = str(call.args.get("command")) if call is not None and is_out else ""

    def note(self, note: SliceNote | TopicNote) -> None:
        """Change the working state, in the thread of the turn or between turns. Raises UsageError, NotFoundError for a topic."""
        if isinstance(note, TopicNote):
            self._session.note(self.tape.change(note))
            self._tasks.keep(self.tape.state.topics)
        else:
            self._session.note(noted(self._session.turns, note))

    @property
    def mode(self) -> Mode:
        """The permission mode in force."""
        return self.permission.mode

    def set_mode(self, mode: Mode) -> None:
        """Change the permission mode between turns. It is reported and recorded before the next turn."""
        self.permission.set_mode(mode)
        self._is_told = False

    def fold(self) -> None:
        """Fold the tape between turns. Raises UsageError where there is nothing to fold."""
        self._session.note(self.tape.fold())

    def unfold(self) -> None:
        """Take the last fold back. Raises UsageError where there is none."""
        self._session.note(self.tape.unfold())

    @property
    def unheard(self) -> tuple[str, ...]:
        """Words of the person that the model has not been given yet."""
        return self._session.unheard

    def steer(self, text: str) -> None:
        """Send a message to the model in the middle of a turn, from any thread. It is durable when this returns."""
        self._session.steer(text)

    def try_steer(self, text: str) -> bool:
        """Steer if a turn is in progress, else return False."""
        return self._session.try_steer(text)

    def witness(self, *notes: Noted) -> None:
        """Record notes of an extension, then apply them. Call it in the thread of the turn."""
        self._session.note(*notes)

    def cancel(self) -> None:
        self._session.cancel()

    def close(self) -> None:
        self._opened.close()

    # -- what it is made of -------------------------------------------------------------------------------------------

    def _open_memory(self, opened: ExitStack) -> StoreMemory:
        """Open the memory of the project, and with it the log, the turn index and the tasks of the session."""
        from periplus.agent.memories.store import StoreMemory

        options, project = self._options, self.project
        self._index = TurnIndex(project)
        opened.callback(self._index.close)
        memory = self._memory = StoreMemory(project, self._index)
        opened.callback(memory.close)
        self._tasks = TaskKeeper(memory, options.name)
        self.log = StoreLog(
            project, options.name, title=" ".join(options.title.split())[:_TITLE_CHARACTERS], model=options.model, agent=options.agent,
            checkpoints=options.under is None, without=self._without_git,
        )  # fmt: skip
        opened.callback(self._seal)
        return memory

    def _open_host(self, memory: Memory, brought: Sequence[Extension], state: str) -> LocalToolHost:
        from periplus.agent.tools import claims_guard
        from periplus.project.trail_store.withholding import Withholding

        options, under, index = self._options, self._options.under, self._index
        turns = StoredTurns(index, self.log.item_id)
        pages = Pages(pages_of(turns, self._kept, self.project, lambda item_id: StoredTurns(index, item_id)))
        for extension in brought:
            for folder, source in extension.pages.items():
                pages.add(folder, source)
        return open_host(
            HostParts(
                root=self.project.top, state=state, more=[tool for extension in brought for tool in extension.tools],
                environment=options.environment, home=options.home, hidden=options.hidden, sandbox=self.sandbox, memory=memory, pages=pages,
                guard=under.guard if under is not None else claims_guard(self.project),
                shared=under.work if under is not None else None, asker=options.asker,
                consent=self._consent if options.approver is not None else None, authorize=self._authorize_inner, note=self.note,
                allow_network=options.settings.flag("network"), unread=self.unread, is_out=Withholding(self.project).is_out,
            )
        )  # fmt: skip

    def _open_tape(self, memory: Memory, brought: Sequence[Extension]) -> Tape:
        from periplus.agent.perception.file_retriever import FolderRetriever

        options, under, root = self._options, self._options.under, self.project.top
        prompt = "".join([prompt_for(options.settings.text("instructions")), *(one.prompt for one in brought)])
        front = (under.prompt, under.tools) if under is not None else (prompt, self.host.schemas())
        budget = options.settings.number("context_tokens")

        def facts() -> list[Fact]:
            return [*_facts(root, options.clock), *(fact for one in brought if one.facts for fact in one.facts())]

        return Tape(
            *front, session=options.name, files=FolderView(self.host.work.folder, self._content),
            pages=PageTable(memory, FolderRetriever(root, self.unread), options.name), memory=memory, facts=facts,
            budget=budget, fold_to=budget // 3,
        )  # fmt: skip

    def _hooks(self, brought: Sequence[Extension]) -> list[Hook]:
        hooks: list[Hook] = [self.permission, self.budget, Guardrail()]
        if self._options.settings.text("oracle"):
            hooks.append(OraclePolicy(CommandOracle(self.host, self._options.settings.text("oracle"))))
        elif self._options.verifies:
            hooks.append(SelfCheck())
        return [*hooks, *(hook for one in brought for hook in one.hooks), *self._options.hooks]

    def _idle_rules(self) -> Iterator[str]:
        return (
            idle_rules(self._options.settings.rules, self.host.schemas()) if self._options.under is None else iter(())
        )

    @property
    def unread(self) -> ReadRestrictions:
        """Paths that permission rules keep from being read."""
        return ReadRestrictions(self.permission.unread("deny"), self.permission.unread("ask"))

    # -- inside -------------------------------------------------------------------------------------------------------

    def _tell_run(self) -> None:
        """Report and record the model, mode and sandbox of this process once, before its first turn."""
        if self._is_told:
            return
        self._is_told = True
        options, turn = self._options, self._session.turns + (not self.is_interrupted)
        told = RunStarted(
            turn=turn, session=options.name, model=options.model, mode=self.mode, sandbox=self.sandbox.layer,
            sandbox_about=self.sandbox.about, is_trusted=options.settings.trusted,
        )  # fmt: skip
        data = {
            "model": told.model,
            "mode": told.mode,
            "sandbox": told.sandbox,
            "about": told.sandbox_about,
            "trusted": told.is_trusted,
        }
        self._session.note(Noted(turn=turn, topic=RUN_TOPIC, data=data))
        options.emit(told)

    def _extend(self, context: ExtensionContext, brought: list[Extension], opened: ExitStack) -> None:
        openers = context.options.extensions
        for opener in STANDARD if openers is None else openers:
            extension = opener(context)
            if extension is not None:
                if extension.close is not None:
                    opened.callback(extension.close)
                brought.append(extension)

    def _seal(self) -> None:
        self.log.close(self._ended.reason if self._ended is not None else None)
        if self.log.trail_id and self._options.under is None:
            self._learn()

    def _learn(self) -> None:
        """Turn what the session teaches into candidates for a person to review. A failure here does not affect the run."""
        turn = self._session.turns
        try:
            found = self._memory.consolidate(self._options.name)
        except PeriplusError as error:
            self._options.emit(Learned(turn=turn, error=str(error)))
            return
        if found.lessons or found.skills:
            self._options.emit(Learned(turn=turn, lessons=found.lessons, skills=found.skills))

    def _without_git(self, why: PeriplusError) -> None:
        """Report once that the trail lacks the state of the files before and after."""
        if not self._is_without_git:
            self._is_without_git = True
            text = f"{why}: the state of the files is not recorded"
            self._options.emit(Noticed(turn=self._session.turns or 1, text=text))

    def _kept(self, digest: str) -> bytes | None:
        try:
            return self.host.work.changes.content(digest)
        except NotFoundError:
            return None

    def _content(self, digest: bytes) -> bytes:
        return self.host.work.changes.content(digest.hex())

    def _authorize_inner(self, name: str, args: Mapping[str, object]) -> str:
        """Judge a call made by a program like a call of the model, by permission and the hooks of extensions. Nobody is asked."""
        decision = self._judges.authorize_tool(name, args)
        if decision.allow and not decision.ask:
            return ""
        return decision.reason or "no rule allows it"

    def _consent(self, wish: ConsentKind, about: str) -> bool:
        if self._options.approver is None:
            return False
        if wish == "unsandboxed" and about == self._granted:
            return True  # permission asked already
        what = "run outside of the sandbox" if wish == "unsandboxed" else "use the network"
        call = ToolCall(id="", name="shell", args={"command": about, wish: True})
        return (
            self._options.approver.approve(call, ToolDecision(allow=True, ask=True, reason=f"it wants to {what}"))
            != "no"
        )


class _Remembering:
    """An approver that remembers leave to run outside of the sandbox, so that the tool does not ask a second time."""

    def __init__(self, session: AgentSession, approver: Approver) -> None:
        self._session, self._approver = session, approver

    def approve(self, call: ToolCall, decision: ToolDecision) -> Answer:
        answer = self._approver.approve(call, decision)
        self._session.granted(call if answer != "no" else None)
        return answer


def begin(project: Project, client: LLMClient, options: SessionOptions) -> AgentSession:
    """Begin or continue a session. Raises RefusedError if another process runs it, if the folder contains a hidden one, or if its check
    could never run.
    """
    return AgentSession(project, client, options)


def refuse_check_that_cannot_run(settings: Settings, sandbox: Sandbox, *, can_ask: bool) -> None:
    """Refuse a run whose check nobody could allow, before a model is paid. Raises RefusedError."""
    if sandbox.layer == "none" and not can_ask and settings.text("oracle"):
        raise RefusedError(
            f"the check of the result can never run: there is {sandbox.about}, so each command needs a person's consent,"
            " and nobody can be asked",
            safe="Nothing was sent.",
            mend='Install bubblewrap (`apt install bubblewrap`), or start at a terminal, where you can be asked, or run without the check: --oracle ""',
        )


def _refuse_own_settings(root: str, hidden: Sequence[str]) -> None:
    """Refuse a folder that contains the user's keys and settings, since file tools can read and change everything in it."""
    real = os.path.realpath(root).rstrip("/") + "/"
    for folder in hidden:
        if (os.path.realpath(folder) + "/").startswith(real):
            raise RefusedError(f"{root} holds {folder}, which has your own settings and keys", safe="Nothing was sent.",
                               mend="Work in a subfolder with its own store (periplus init), or set XDG_CONFIG_HOME to another folder.")  # fmt: skip


def _facts(root: str, clock: Clock) -> list[Fact]:
    """First lines of the tail: the time and the folder."""
    return [Fact("time", format_ms(clock.now_ms())), Fact("folder", one_line(plain_name(os.path.basename(root)), 200))]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Return ``SessionOptions`` under its name of 0.1, which ends with 0.3."""
        if name != "Begun":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import warnings

        text = f"{__name__}.Begun is SessionOptions since 0.2; the old name ends with 0.3"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return SessionOptions
