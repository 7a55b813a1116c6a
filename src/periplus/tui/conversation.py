"""The meaning of an input line: a request, a remark while the agent works, an answer to its question, or a command.

The input line is always available. The session lives in a thread of its own, which alone uses the store; the reader of the line
calls ``submit``, which never blocks. A second thread records remarks made while the agent works, and only then confirms them.
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
Job: TypeAlias = Literal["turn", "resume", "command", "list", "pick", "leave"]
Picks: TypeAlias = "Callable[[Sequence[StoredSession]], str]"
COMMANDS: Final[Mapping[str, str]] = {
    "/help": "list commands",
    "/undo": "undo the file changes of the last turn; all: include changes made while commands ran, merge: keep later changes",
    "/topic": "topics: new NAME, switch NAME, park, done, list",
    "/mode": "when to ask for permission: ask, default, autonomous",
    "/fold": "shorten the model's context",
    "/unfold": "undo the last fold",
    "/resume": "continue another session: by its name, or chosen from the list",
    "/show": "show a complete diff or output: the last one, or the one with a number, as in /show 7",
    "/sessions": "choose another session of this project from a list, to continue it",
    "/stop": "stop the running turn (or Esc)",
    "/stats": "show the cost of model calls: tokens, cache, price, time",
    "/status": "show usage and the name of this session",
    "/quit": "end the session (or Ctrl-D)",
}
_ALSO: Final[Mapping[str, str]] = dict.fromkeys(("/exit", "/q", "/bye", "/leave"), "/quit") | {
    "/?": "/help",
    "/cost": "/stats",
}
_CONTROL: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)  # control characters from keys or pastes; newlines and tabs stay
_MENTION: Final = re.compile(r"(?<!\S)@([^\s@][^\s]*)")


_PICKED_MAX: Final = 20
_LISTED_S: Final = 0.1
_NUMBER_DIGITS_MAX: Final = 10
_SAID_SHOWN: Final = 200


def _nothing(*_: object) -> None:
    """Return None: the lookup for a session without files or outputs."""


def session_row(one: StoredSession) -> str:
    """Format a session for a list to choose from."""
    turns = f"{one.turns} turn{'s' * (one.turns != 1)}{', interrupted' if one.is_interrupted else ''}"
    return f"{one.name}  {one.last}  {turns}  {one.title}"


def chosen(answer: str, options: Sequence[str]) -> str:
    """Return the option with the number ``answer``, or the answer itself."""
    return {str(at): option for at, option in enumerate(options, 1)}.get(answer, answer)


def meant(answer: str) -> Answer | None:
    """Parse the answer to the question whether a call may run; None if it is not an answer."""
    said = {"y": "yes", "n": "no", "a": "always"}.get(answer.lower(), answer.lower())
    return cast("Answer", said) if said in ("yes", "no", "always") else None


def mentions_in(text: str) -> list[str]:
    """Return the files mentioned as ``@path``; ``@periplus/…`` is a page, not a file."""
    found = [match.group(1).rstrip(".,;:!?)") for match in _MENTION.finditer(text)]
    return [path for path in dict.fromkeys(found) if path and not path.startswith("periplus/")]


class Conversation:
    """A conversation at the terminal. ``say`` prints a line; ``exists`` tells whether the project has a file."""

    def __init__(
        self, say: Callable[[str], None], exists: Callable[[str], bool], model: str, mode: str, name: str,
        opening: Callable[[Conversation, str], AbstractContextManager[AgentSession]],
    ) -> None:  # fmt: skip
        self._say, self._exists = say, exists
        self._model, self._mode, self._name = model, mode, name
        self._opening = opening
        self._session: AgentSession | None = None
        self._opened = threading.Event()  # a session, or the failure to open one
        self._lock = threading.Lock()
        self._state: State = "running"
        self._answered = threading.Event()
        self._answer = self._asks = ""
        self._is_yes_or_no = False  # the current question
        self._jobs: queue.SimpleQueue[tuple[Job, str, CancelToken]] = queue.SimpleQueue()
        self._worker = threading.Thread(target=self._work, name="agent")
        self._words: queue.SimpleQueue[str | None] = queue.SimpleQueue()  # None ends the thread
        self._speaker = threading.Thread(target=self._speak, name="words")
        self._token: CancelToken | None = None
        self._is_beginning = False  # during a turn, remarks go to it
        self._late: list[str] = []  # requests that arrived while the previous turn was ending
        self._spending = Spending()
        self._subagents: dict[str, str] = {}  # running subagents: names by session
        self._turns = 0
        self._is_open = False
        self.is_over = False
        self.tells_state = False  # prints the status where the terminal has no status line
        self.rests: Callable[[], object] = _nothing  # called in the session's thread before it waits for the person
        # Prints the complete diff or output of a number, 0 for the last; called in the thread of the input line. The flag: the
        # agent rests, so that a pager may take the terminal.
        self.shows: Callable[[int, bool], object] = _nothing
        self.picks: Picks | None = None  # lets the person choose a session where the terminal can show a list; likewise
        self._listed = threading.Event()
        self._found: list[StoredSession] = []  # the sessions to choose from
        self.failure: Exception | None = None

    def begin(self) -> None:
        """Open the session and continue an interrupted turn."""
        self._worker.start()
        self._speaker.start()

    @property
    def name(self) -> str:
        """The name of the session."""
        return self._name

    @property
    def state(self) -> State:
        with self._lock:
            return self._state

    def status(self) -> str:
        """The status line, the most important first, because a narrow terminal cuts it."""
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
        """Stop the running turn; a pending question is answered with no."""
        if self.state == "asking":
            self._answer = "n"
            self._answered.set()
        if self._token is not None:
            self._token.cancel("the person stopped it")

    def leave(self) -> None:
        """Stop running work and wait until everything is recorded. Raises the error that kept the session from opening."""
        self.is_over = True
        self.stop()
        self._words.put(None)
        self._speaker.join()
        self._jobs.put(("leave", "", CancelToken()))
        self._worker.join()
        if self.failure is not None:
            raise self.failure

    def heard(self, event: Event) -> None:
        """Update the status line from an event. Called from any thread."""
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
        """Ask the person; None if he leaves. ``asks`` is shown in the status line."""
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
            if job == "turn" and self._state != "idle":  # the previous turn has ended but is not recorded yet
                self._late.append(text)
            else:
                self._begin(job, text)

    def _begin(self, job: Job, text: str) -> None:
        """Start a turn. The caller holds the lock."""
        self._state = "running"
        self._is_beginning = job == "turn"
        self._token = CancelToken()
        self._jobs.put((job, text, self._token))

    def _speak(self) -> None:
        """Run the thread that records remarks while the agent works."""
        try:
            while (text := self._words.get()) is not None:
                if (session := self._opened_session()) is None:
                    self._say(f"(the session could not be opened; not sent: {text})")
                    continue
                try:
                    is_heard = self._steer(session, text)
                except PeriplusError as error:
                    self._tell(error)
                    continue
                if is_heard:
                    self._say("(sent to the agent, which reads it before its next step)")
                else:
                    self._start(text)
        except Exception as error:  # noqa: BLE001 - the person at the terminal is told
            self.failure = error
            self.is_over = True

    def _opened_session(self) -> AgentSession | None:
        """Wait until the session is open; None if that failed."""
        if self._session is None and self.failure is None:
            self._say("(the session is being opened; your message is kept for it)")
        while (session := self._session) is None and self.failure is None:
            self._opened.wait()
        return session

    def _steer(self, session: AgentSession, text: str) -> bool:
        """Pass a remark to the running turn. False if there is none that would read it."""
        with self._lock:
            is_beginning = self._is_beginning
        if session.try_steer(text):
            return True
        if is_beginning or self.is_over:  # no other turn would take it
            session.steer(text)
            return True
        return False

    def _work(self) -> None:
        """Run the thread of the sessions, one after another. If one cannot be opened, the previous one continues."""
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
        except Exception as error:  # noqa: BLE001 - the person at the terminal is told
            self.failure = error
            self.is_over = True
            self._opened.set()
            self._rest()

    def _converse(self, name: str) -> str:
        """Run one session; return the name of the next one, empty if the person leaves."""
        from periplus.agent.tape.fence import one_line

        with self._opening(self, name) as session:
            self._session, self._is_open = session, True
            self._opened.set()
            if session.is_interrupted:
                self._say("Continuing the interrupted turn.")
                for text in session.unheard:
                    self._say(f"(passing on your message: {one_line(text, _SAID_SHOWN)})")
                self._put("resume")
            else:
                self._rest()
            while True:
                self.rests()
                job, text, token = self._jobs.get()
                if job == "leave":
                    for late in self._late:
                        session.steer(late)  # the next run of this session reads it
                    return ""
                following = self._do(session, job, text, token)
                if following:
                    self._opened.clear()
                    self._session = None
                    return following

    def _do(self, session: AgentSession, job: Job, text: str, token: CancelToken) -> str:
        """Run a command. Return the name of a session to switch to, if any."""
        from periplus.tui.commands import do_command

        following = ""
        try:
            if job == "pick":
                following = self._picked(session, text)
            elif job == "list":
                self._found = self._others(session)
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
            if job == "list":
                self._listed.set()
        return following

    def _others(self, session: AgentSession) -> list[StoredSession]:
        """Return the other sessions of this project, without those of subagents, the newest first."""
        from periplus.agent.persistence.run_log import stored_sessions
        from periplus.agent.subagents.session_names import parent_of

        return [one for one in stored_sessions(session.project) if one.name != self._name and not parent_of(one.name)]

    def _pick(self, name: str) -> None:
        """Begin to choose another session. Where the terminal can show a list it is chosen here, in the thread of the input line,
        which has no prompt at that moment; else the session's thread asks for a number.
        """
        if name or self.picks is None:
            self._put("pick", name)
            return
        self._listed.clear()
        self._put("list")
        while not self._listed.wait(_LISTED_S):
            if not self._worker.is_alive():
                return
        if not self._found:
            self._say("there is no other session here")
        elif picked := self.picks(self._found):
            self._put("pick", picked)
        else:
            self._say("staying in this session")

    def _show(self, words: Sequence[str], state: State) -> None:
        number = words[0] if words else "0"
        is_number = number.isascii() and number.isdigit() and len(number) < _NUMBER_DIGITS_MAX
        if len(words) > 1 or not is_number:
            self._say("(/show takes the number of a diff or output, or nothing for the last one)")
            return
        self.shows(int(number), state == "idle")

    def _picked(self, session: AgentSession, name: str) -> str:
        """Choose another session of this project, by name or from a list."""
        found = self._others(session)
        if name:
            if name in (one.name for one in found):
                return name
            self._say(f"there is no other session {name} here")
            return ""
        if not found:
            self._say("there is no other session here")
            return ""
        rows = {session_row(one): one.name for one in found[:_PICKED_MAX]}
        answer = self.ask("Which one? (a number; empty to stay here)", list(rows))
        if answer and answer in rows:
            return rows[answer]
        self._say("staying in this session")
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
                self._say(f"{command:9} {what}")
            self._say("@path     names a file; anything else goes to the agent, also while it works")
        elif name == "/quit":
            self.is_over = True
        elif name == "/stop":
            self.stop()
        elif name == "/show":
            self._show(text.split()[1:], state)
        elif name == "/stats":
            with self._lock:
                lines = self._spending.lines()
            for line in lines:
                self._say(line)
        elif name == "/status":
            self._say(f"session {self._name}, {self._turns} turn{'s' * (self._turns != 1)} here · {self.status()}")
        elif name in COMMANDS:  # commands that change or leave the session
            if state != "idle":
                self._say("(not while the agent works; stop it first)")
            elif name in ("/resume", "/sessions"):
                self._pick(" ".join(text.split()[1:]))
            else:
                self._put("command", text)
        else:
            near = difflib.get_close_matches(name, COMMANDS, 1)
            guess = f"did you mean {near[0]}? " if near else ""
            self._say(f"unknown command {name}; {guess}/help lists the commands")
