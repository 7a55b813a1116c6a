"""What a line means: a request, something said while the agent works, an answer to its question, or a command.

There is one line to write in, always. The session lives in a thread of its own, which alone touches the store; whoever reads the line hands it to
``submit`` and is never kept waiting. What is said while the agent works is written down by a second thread, and only then said to be said.
"""

from __future__ import annotations

__all__ = ["COMMANDS", "Conversation", "chosen", "meant", "mentions_in", "session_row"]

import difflib
import queue
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

from periplus.agent.contracts import Answer, ToolCall, ToolDecision
from periplus.agent.execution.cancellation import CancelToken
from periplus.agent.observation import Spending
from periplus.base.errors import PeriplusError

if TYPE_CHECKING:
    from periplus.agent.assembly import AgentSession
    from periplus.agent.episodes import Ended
    from periplus.agent.events import Event
    from periplus.agent.persistence.run_log import StoredSession

State: TypeAlias = Literal["idle", "running", "asking"]
Job: TypeAlias = Literal["turn", "resume", "command", "pick", "leave"]
COMMANDS: Final[Mapping[str, str]] = {
    "/help": "what can be typed",
    "/undo": "take back what the last turn did to files; all: also what changed while commands ran, merge: keep what was written since",
    "/topic": "another topic: new NAME, switch NAME, park, done, list",
    "/mode": "how much is asked for: ask, default, autonomous",
    "/fold": "make what the model is sent short",
    "/unfold": "take the last fold back",
    "/resume": "go on with another session, picked from a list",
    "/show": "the whole of the last diff, or of what the last command printed",
    "/stop": "stop the turn that runs (or Esc)",
    "/stats": "what the calls of the model cost: tokens, the cache, price, time",
    "/status": "what was spent, and where this session is kept",
    "/quit": "end the session (or Ctrl-D)",
}
_ALSO: Final[Mapping[str, str]] = dict.fromkeys(("/exit", "/q", "/bye", "/leave"), "/quit") | {
    "/?": "/help",
    "/cost": "/stats",
}
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # what a key or a paste left; lines and tabs stay
_MENTION: Final = re.compile(r"(?<!\S)@([^\s@][^\s]*)")


_PICKED_MAX: Final = 20
_SAID_SHOWN: Final = 200


def _nothing() -> None:
    """For who holds nothing."""


def session_row(one: StoredSession) -> str:
    """A session in a list from which a person picks."""
    turns = f"{one.turns} turn{'s' * (one.turns != 1)}{', cut off' if one.is_interrupted else ''}"
    return f"{one.name}  {one.last}  {turns}  {one.title}"


def chosen(answer: str, options: Sequence[str]) -> str:
    """The option whose number ``answer`` is; any other answer is as it was said."""
    return {str(at): option for at, option in enumerate(options, 1)}.get(answer, answer)


def meant(answer: str) -> Answer | None:
    """What somebody says who is asked whether a call may run; None where that is no answer."""
    said = {"y": "yes", "n": "no", "a": "always"}.get(answer.lower(), answer.lower())
    return cast("Answer", said) if said in ("yes", "no", "always") else None


def mentions_in(text: str) -> list[str]:
    """The files that a line points to as ``@path``; ``@periplus/…`` is a page and stays as it is."""
    found = [match.group(1).rstrip(".,;:!?)") for match in _MENTION.finditer(text)]
    return [path for path in dict.fromkeys(found) if path and not path.startswith("periplus/")]


class Conversation:
    """``say`` prints a line; ``exists`` says whether there is such a file in the project."""

    def __init__(
        self, say: Callable[[str], None], exists: Callable[[str], bool], model: str, mode: str, name: str,
        opening: Callable[[Conversation, str], AbstractContextManager[AgentSession]],
    ) -> None:  # fmt: skip
        self._say, self._exists = say, exists
        self._model, self._mode, self._name = model, mode, name
        self._opening = opening
        self._session: AgentSession | None = None
        self._opened = threading.Event()  # the session, or it failed
        self._lock = threading.Lock()
        self._state: State = "running"
        self._answered = threading.Event()
        self._answer = self._asks = ""
        self._is_yes_or_no = False  # what is asked
        self._jobs: queue.SimpleQueue[tuple[Job, str, CancelToken]] = queue.SimpleQueue()
        self._worker = threading.Thread(target=self._work, name="agent")
        self._words: queue.SimpleQueue[str | None] = queue.SimpleQueue()  # None: nobody speaks any more
        self._speaker = threading.Thread(target=self._speak, name="words")
        self._token: CancelToken | None = None
        self._is_beginning = False  # a turn: what is said meanwhile is for it
        self._late: list[str] = []  # requests that came while the turn before was ending
        self._spending = Spending()
        self._subagents: dict[str, str] = {}  # that run now: names by their sessions
        self._turns = 0
        self._is_open = False
        self.is_over = False
        self.tells_state = False  # says what would stand at the foot, where nothing can
        self.rests: Callable[[], object] = (
            _nothing  # before the person is waited for, who may think for long: in the session's thread
        )
        self.shows: Callable[[], object] = _nothing  # the whole of the last diff or output; in the thread of the line
        self.failure: Exception | None = None

    def begin(self) -> None:
        """Open the session; a turn that was cut off is gone on with."""
        self._worker.start()
        self._speaker.start()

    @property
    def name(self) -> str:
        """That of the session."""
        return self._name

    @property
    def state(self) -> State:
        with self._lock:
            return self._state

    def status(self) -> str:
        """The line at the foot, with what matters most first: it is cut where the terminal is narrow."""
        with self._lock:
            spent = self._spending.short()
            names = [name or session.rpartition("/")[2] for session, name in self._subagents.items()]
        subagents = f" · {len(names)} subagent{'s' * (len(names) != 1)}: {', '.join(names)[:60]}" if names else ""
        what = {"idle": "ready", "running": "working: type to steer, Esc stops", "asking": self._asks}[self.state]
        return f"{what} · {self._mode} · {spent}{subagents} · {self._model}"

    # -- what the person does ------------------------------------------------------------------------------------------

    def submit(self, line: str) -> None:
        text = _CONTROL.sub("", line).strip()
        state = self.state
        if (
            state == "asking"
            and _ALSO.get(text.split(maxsplit=1)[0] if text else "", text.partition(" ")[0]) in COMMANDS
        ):
            self._command(text, state)
        elif state == "asking" and self._is_yes_or_no and meant(text) is None:
            self._say("(y, n or a; Esc stops the turn)")
        elif state == "asking":
            self._answer = text
            self._answered.set()
        elif not text:
            return
        elif text.startswith("/"):
            self._command(text, state)
        elif state == "running":
            self._words.put(text)
        else:
            self._start(text)

    def stop(self) -> None:
        """Stop the turn that runs; a question is answered with no."""
        if self.state == "asking":
            self._answer = "n"
            self._answered.set()
        if self._token is not None:
            self._token.cancel("the person stopped it")

    def leave(self) -> None:
        """Stop what runs, and wait until all is written down. Raises what kept the session from being opened."""
        self.is_over = True
        self.stop()
        self._words.put(None)
        self._speaker.join()
        self._jobs.put(("leave", "", CancelToken()))
        self._worker.join()
        if self.failure is not None:
            raise self.failure

    def heard(self, event: Event) -> None:
        """What happens, for the line at the foot; from any thread."""
        from periplus.agent.events import AgentEnded, AgentStarted, TurnStarted

        with self._lock:
            self._spending.take(event)
            if isinstance(event, TurnStarted):
                self._is_beginning = False
            if isinstance(event, AgentStarted):
                self._subagents[event.session] = event.name
            elif isinstance(event, AgentEnded):
                self._subagents.pop(event.session, None)

    # -- what the agent asks, in its thread -----------------------------------------------------------------------------

    def approve(self, call: ToolCall, decision: ToolDecision) -> Answer:
        from periplus.agent.policies.permission import asked_lines

        rows = "\n".join(asked_lines(call, decision))
        self._is_yes_or_no = True
        try:
            answer = self.ask(f"{rows}\nRun it? y(es), n(o), a(lways)", (), "asks: y, n or a")
        finally:
            self._is_yes_or_no = False
        return meant(answer or "") or "no"

    def ask(self, question: str, options: Sequence[str], asks: str = "asks: your answer") -> str | None:
        """None where the person leaves; ``asks`` stands at the foot."""
        for line in question.splitlines():
            self._say(line)
        for at, option in enumerate(options, 1):
            self._say(f"  {at}. {option}")
        if self.tells_state:
            self._say(f"({asks})")
        with self._lock:
            self._state, self._asks = "asking", asks
            self._answered.clear()
        self._answered.wait()
        with self._lock:
            self._state = "running"
        answer = self._answer
        if self.is_over:
            return None
        return chosen(answer, options)

    # -- inside ---------------------------------------------------------------------------------------------------------

    def _start(self, text: str) -> None:
        named = mentions_in(text)
        for path in named:
            if not self._exists(path):
                self._say(f"(there is no file {path} here)")
        request = _MENTION.sub(lambda match: match.group(0)[1:] if match.group(1) in named else match.group(0), text)
        self._put("turn", request)

    def _put(self, job: Job, text: str = "") -> None:
        with self._lock:
            if job == "turn" and self._state != "idle":  # the one before has ended, and is not done with
                self._late.append(text)
            else:
                self._begin(job, text)

    def _begin(self, job: Job, text: str) -> None:
        """With the lock."""
        self._state = "running"
        self._is_beginning = job == "turn"
        self._token = CancelToken()
        self._jobs.put((job, text, self._token))

    def _speak(self) -> None:
        """The thread of what is said while the agent works."""
        try:
            while (text := self._words.get()) is not None:
                if (session := self._opened_session()) is None:
                    self._say(f"(the session could not be opened; not heard: {text})")
                    continue
                try:
                    is_heard = self._steer(session, text)
                except PeriplusError as error:
                    self._tell(error)
                    continue
                if is_heard:
                    self._say("(said to the agent; it hears it before its next step)")
                else:
                    self._start(text)
        except Exception as error:  # noqa: BLE001 - whatever it is, the one who reads the line is told
            self.failure = error
            self.is_over = True

    def _opened_session(self) -> AgentSession | None:
        """Waits while it is being opened; None where that failed."""
        if self._session is None and self.failure is None:
            self._say("(a moment: the session is being opened; what you say is kept for it)")
        while (session := self._session) is None and self.failure is None:
            self._opened.wait()
        return session

    def _steer(self, session: AgentSession, text: str) -> bool:
        """False where the turn is over, or what runs is none: then nothing would hear it."""
        with self._lock:
            is_beginning = self._is_beginning
        if session.try_steer(text):
            return True
        if is_beginning or self.is_over:  # nobody begins another turn for it
            session.steer(text)
            return True
        return False

    def _work(self) -> None:
        """The thread of the session, or of one after another: where one cannot be opened, the one before it is gone on with."""
        before, name = "", self._name
        try:
            while name:
                self._name, self._is_open = name, False
                try:
                    before, name = name, self._converse(name)
                except PeriplusError as error:
                    if self._is_open or not before:
                        raise
                    self._tell(error)
                    before, name = "", before
        except Exception as error:  # noqa: BLE001 - whatever it is, the one who reads the line is told
            self.failure = error
            self.is_over = True
            self._opened.set()
            self._rest()

    def _converse(self, name: str) -> str:
        """One session; gives the name of the next, empty where the person leaves."""
        from periplus.agent.tape.fence import one_line

        with self._opening(self, name) as session:
            self._session, self._is_open = session, True
            self._opened.set()
            if session.is_interrupted:
                self._say("Going on with the turn that was cut off.")
                for text in session.unheard:
                    self._say(f"(it hears now what you said: {one_line(text, _SAID_SHOWN)})")
                self._put("resume")
            else:
                self._rest()
            while True:
                self.rests()
                job, text, token = self._jobs.get()
                if job == "leave":
                    for late in self._late:
                        session.steer(late)  # who goes on with this session hears it
                    return ""
                following = self._do(session, job, text, token)
                if following:
                    self._opened.clear()
                    self._session = None
                    return following

    def _do(self, session: AgentSession, job: Job, text: str, token: CancelToken) -> str:
        """Gives the name of a session that is to be gone on with instead."""
        from periplus.tui.commands import do_command

        following = ""
        try:
            if job == "pick":
                following = self._picked(session, text)
            elif job == "command":
                for line in do_command(session, text):
                    self._say(line)
                self._mode = session.mode
            else:
                ended = session.turn(text, token=token) if job == "turn" else session.resume(token=token)
                if ended is not None:
                    self._ended(ended)
        except PeriplusError as error:
            self._tell(error)
        finally:
            if not following:
                self._rest()
        return following

    def _picked(self, session: AgentSession, name: str) -> str:
        """Another session of this project, by its name or from a list."""
        from periplus.agent.persistence.run_log import stored_sessions
        from periplus.agent.subagents.session_names import parent_of

        found = [one for one in stored_sessions(session.project) if one.name != self._name and not parent_of(one.name)]
        if name:
            if name in (one.name for one in found):
                return name
            self._say(f"there is no other session {name} here")
            return ""
        if not found:
            self._say("there is no other session here")
            return ""
        rows = {session_row(one): one.name for one in found[:_PICKED_MAX]}
        answer = self.ask("Which one? (its number; empty stays here)", list(rows))
        if answer and answer in rows:
            return rows[answer]
        self._say("still here")
        return ""

    def _tell(self, error: PeriplusError) -> None:
        self._say(f"periplus: {error}")
        self._say(f"{error.safe} {error.mend}".strip())

    def _rest(self) -> None:
        with self._lock:
            self._is_beginning = False
            if self._late and not self.is_over:
                self._begin("turn", "\n".join(self._late))
                self._late.clear()
                return
            self._state = "idle"
            self._token = None
        if self.tells_state and not self.is_over:
            self._say(f"({self.status()})")

    def _ended(self, ended: Ended) -> None:
        self._turns += 1
        if ended.reason != "done" or ended.note:
            self._say(f"— {ended.reason}{': ' + ended.note if ended.note else ''}")

    def _command(self, text: str, state: State) -> None:
        name = text.split(maxsplit=1)[0]
        name = _ALSO.get(name, name)
        if name == "/help":
            for command, what in COMMANDS.items():
                self._say(f"{command:8} {what}")
            self._say("@path    points to a file; anything else is for the agent, also while it works")
        elif name == "/quit":
            self.is_over = True
        elif name == "/stop":
            self.stop()
        elif name == "/show":
            self.shows()
        elif name == "/stats":
            with self._lock:
                lines = self._spending.lines()
            for line in lines:
                self._say(line)
        elif name == "/status":
            self._say(f"session {self._name}, {self._turns} turn{'s' * (self._turns != 1)} here · {self.status()}")
        elif name in COMMANDS:  # what changes the session, or leaves it
            if state != "idle":
                self._say("(not while the agent works; stop it first)")
            elif name == "/resume":
                self._put("pick", " ".join(text.split()[1:]))
            else:
                self._put("command", text)
        else:
            near = difflib.get_close_matches(name, COMMANDS, 1)
            guess = f"did you mean {near[0]}? " if near else ""
            self._say(f"there is no command {name}; {guess}/help has those that there are")
