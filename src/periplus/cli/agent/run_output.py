"""Output of a run at a terminal: events as lines, questions, and Ctrl-C, which stops the turn and not the program."""

from __future__ import annotations

__all__ = ["ConsolePerson", "EventLines", "going_on", "in_words", "interrupting"]

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, TextIO

from periplus.cli.agent.call_results import (
    OUTPUT_LINES,
    diff_rows,
    number_columns,
    painted,
    printed,
    readable,
    shortened,
    unified,
    width_of,
)
from periplus.cli.agent.markdown_output import Block, Blocks, can_render, render
from periplus.cli.common.face import Face, give_up_output, visible

if TYPE_CHECKING:
    from types import FrameType

    from periplus.agent.contracts import Answer, ToolCall, ToolDecision
    from periplus.agent.episodes import Ended
    from periplus.agent.events import Event
    from periplus.agent.execution.cancellation import CancelToken

_ARGUMENT_COLUMNS: Final = 100
_WIDTH: Final = 80  # if the terminal does not tell
_COMMANDS: Final = frozenset({"shell", "process", "code"})
_BESIDE: Final = frozenset({"text_grown", "reasoning_grown", "agent_started", "agent_ended", "noticed", "learned"})
"""Events that may come while an answer is being given, and do not end it."""
_LOOK_S: Final = 0.1
_KEPT_MAX: Final = 100  # complete diffs and outputs that can be shown again
_NUMBERED_COLUMNS: Final = 60  # a narrower terminal shows changed lines without line numbers and context
_PIECE_BYTES: Final = 1 << 16
_BY_MODE: Final = " is asked for in mode "  # what a rule of the user could allow
_RULES_SHOWN: Final = 3
_TELLING: Final = ("command", "path", "query", "pattern", "task", "url", "question", "title", "action")


class EventLines:
    """A sink of events: lines of JSON with --json, otherwise the model's text and a line for each call."""

    def __init__(self, face: Face, *, by_line: bool = False, is_full: bool = False) -> None:
        """``by_line``: the output stands above an input line, so only whole lines are written. ``is_full`` shows complete diffs and outputs."""
        self._face = face
        self._by_line = by_line
        self._is_full = is_full
        self._content: Callable[[str], bytes | None] = lambda _: None
        self._page: Callable[[str], str | None] = lambda _: None
        self._shown: dict[int, Callable[[], list[str]]] = {}  # complete diffs and outputs, by their numbers from 1
        self._number = 0  # of the last one
        self._answer = Blocks() if _renders(face) else None
        self._is_within_answer = False  # whether a block of the answer was shown
        self._held = ""
        self._at_start = True
        self._waits_for = ""  # the last error of the provider
        self._has_grown = False  # whether part of the current answer was shown
        self._names: dict[str, str] = {}  # texts and names of subagents, by session
        self._begun: dict[tuple[str, str], str] = {}  # the line of each running call, by session and call id
        self._last_begun: dict[str, str] = {}  # the id of the call whose line is the last, by session
        self.gone: Callable[[], None] = lambda: None  # called once the reader of the output is gone
        self._unasked: list[str] = []  # rules that would have allowed the denied calls
        self._unruled: list[str] = []  # reasons of denied calls that no rule allows

    @property
    def _stdout(self) -> TextIO:
        """Standard output, looked up at each use: an input line replaces it while it is active."""
        return sys.stdout if self._by_line else self._face.stdout

    def __call__(self, event: Event) -> None:
        try:
            self._tell(event)
        except BrokenPipeError:
            self._lost()

    def look_up(self, content: Callable[[str], bytes | None], page: Callable[[str], str | None]) -> None:
        """Set the sources: ``content`` returns the bytes of a file by digest, ``page`` the text of a handle; None if not available."""
        self._content, self._page = content, page

    def complete(self, number: int = 0) -> list[str]:
        """Return the lines of the complete diff or output with that number, by default of the last one; or the reason why there
        are none.
        """
        shown = self._shown.get(number or self._number)
        if shown is not None:
            return shown()
        if not self._number:
            return ["(nothing was edited, and no command printed anything)"]
        if number > self._number:
            return [f"(there is no {number:,}; the last is {self._number:,})"]
        return [f"({number:,} is no longer kept; the trail of the session has it: periplus trail list)"]

    def show(self, number: int = 0, *, paged: bool = False) -> None:
        """Print the result of ``complete``; with ``paged`` through a pager, where it is longer than the terminal."""
        lines = self.complete(number)
        if paged and (self._face.height or len(lines)) <= len(lines):
            from periplus.cli.common.pager import page

            self._stdout.flush()
            page(self._face, lines)
            return
        self._stdout.write("".join(f"{line}\n" for line in lines))
        self._stdout.flush()

    def _keep(self, lines: Callable[[], list[str]]) -> None:
        self._number += 1
        self._shown[self._number] = lines
        self._shown.pop(self._number - _KEPT_MAX, None)

    def _lost(self) -> None:
        """Stop writing: the reader closed the output, as `| head` does."""
        give_up_output()
        self.gone()

    def _tell(self, event: Event) -> None:
        if self._face.as_json:
            from periplus.agent.events import encode_event

            self._stdout.write(encode_event(event).decode() + "\n")
            self._stdout.flush()
            return
        kind = str(event.__struct_config__.tag)
        if event.agent:
            self._of_agent(kind, event)
            self._stdout.flush()
            return
        if kind not in _BESIDE:
            self._end_answer()
        show = getattr(self, "_" + kind, None)
        if show is not None:
            show(event)
            self._stdout.flush()

    def say(self, text: str) -> None:
        """Print a line that is not an event."""
        try:
            if not self._face.as_json:
                self._end_answer()
                self._new_line()
            (self._face.stderr if self._face.as_json else self._stdout).write(visible(text) + "\n")
        except BrokenPipeError:
            self._lost()

    def finish(self, ended: Ended, name: str, trail: str) -> None:
        if self._face.as_json:
            return
        self._end_answer()
        self._new_line()
        usage = ended.usage
        share = (
            f", {100 * usage.cached // usage.prompt_tokens} % of the prompt from the cache"
            if usage.prompt_tokens
            else ""
        )
        cost = f", ${usage.cost / 1e6:.4f}" if usage.cost else ""
        self._face.out(f"— {ended.reason}{': ' + visible(ended.note) if ended.note else ''}")
        self._face.out(f"  {usage.prompt_tokens:,} tokens in, {usage.completion_tokens:,} out{share}{cost}")
        if self._unasked:
            rules = " ".join(f"--allow '{rule}'" for rule in dict.fromkeys(self._unasked[:_RULES_SHOWN]))
            self._face.out(
                f"  {_calls(self._unasked)} denied, because nobody could be asked; to allow such calls: {visible(rules)}"
            )
        if self._unruled:
            reasons = "; ".join(dict.fromkeys(self._unruled[:_RULES_SHOWN]))
            alone = (
                "" if any("outside of the sandbox" in why for why in self._unruled) else ", or use --mode autonomous"
            )
            self._face.out(
                f"  {_calls(self._unruled)} denied, because no rule allows them ({visible(reasons)}): run at a terminal{alone}"
            )
        self._face.out(f"  session {visible(name)}" + (f"; what it did: periplus trail show {trail}" if trail else ""))
        if ended.reason != "done":
            self._face.out(f"  to continue: {visible(going_on(name))}")

    # -- subagents ----------------------------------------------------------------------------------------------------

    def _of_agent(self, kind: str, event: Any) -> None:
        """Print events of a subagent, indented after its name; its text appears when it is complete."""
        label = self._names.get(event.agent, event.agent.partition("/")[2])
        if kind == "answer_completed" and event.text.strip():
            first, *more = event.text.strip().splitlines()
            said = f"{first[:_ARGUMENT_COLUMNS]}{'…' if more or len(first) > _ARGUMENT_COLUMNS else ''}"
            self._line(f"    {label}: {said}")
        elif kind == "tool_started":
            self._call_begins(event, f"    {label} · ")
        elif kind == "tool_ended":
            whose = self._call_ends(event, f"    {label} · ")
            if event.outcome != "ok":
                self._line(f"    {label}   {whose}{event.outcome}: {self._outcome_lines(event)[0]}")
        elif kind in ("agent_started", "agent_ended", "retry_scheduled", "hook_raised"):
            getattr(self, "_" + kind)(event)

    def _agent_started(self, event: Any) -> None:
        own = event.session.rpartition("/")[2]
        self._names[event.session] = f"{event.name} {own}" if event.name else own
        self._line(f"  ↳ {self._names[event.session]} begins ({event.mode})")

    def _agent_ended(self, event: Any) -> None:
        label = self._names.get(event.session, event.session)
        tokens = event.usage.prompt_tokens + event.usage.completion_tokens
        self._line(f"  ↳ {label}: {event.outcome}, {event.steps} step{'s' * (event.steps != 1)}, {tokens:,} tokens")

    # -- by the event's name ------------------------------------------------------------------------------------------

    def _run_started(self, event: Any) -> None:
        if not self._by_line:
            self._line(f"(mode {event.mode}; commands: {event.sandbox_about})")

    def _text_grown(self, event: Any) -> None:
        self._has_grown = True
        text = "".join(line if line in "\n\t" else visible(line) for line in event.text)
        if self._answer is not None:
            for block in self._answer.feed(text):
                self._show_block(block)
            return
        self._grow(text)

    def _grow(self, text: str) -> None:
        if self._by_line:
            whole, newline, self._held = (self._held + text).rpartition("\n")
            text = whole + newline
        self._stdout.write(text)
        self._at_start = text.endswith("\n") if text else self._at_start

    def _show_block(self, block: Block) -> None:
        text = block.text
        if not block.is_raw:
            try:
                text = render(text, self._face.width or _WIDTH, is_coloured=bool(self._face.palette.bold))
            except Exception:  # noqa: BLE001 - untrusted text in other libraries: show the text itself if rendering fails
                text = block.text
            text += "\n"
        if not block.goes_on:
            self._new_line()
            text = f"\n{text}" if self._is_within_answer else text
        self._grow(text)
        self._is_within_answer = True

    def _end_answer(self) -> None:
        if self._answer is not None:
            for block in self._answer.end():
                self._show_block(block)
            self._is_within_answer = False

    def _answer_restarted(self, _: Any) -> None:
        if self._has_grown:
            self._line("(the answer was interrupted and starts again)")
        self._has_grown = False

    def _retry_scheduled(self, event: Any) -> None:
        from periplus.agent.execution.retry import ATTEMPTS_MAX

        wait_s = max(1, round(event.wait_ms / 1000))
        why = "" if event.error == self._waits_for else f": {event.error}"  # print it once
        self._waits_for = event.error
        self._line(f"(attempt {event.attempt} of {ATTEMPTS_MAX} failed; next one in {wait_s} s{why})")

    def _tool_started(self, event: Any) -> None:
        self._call_begins(event, "· ")

    def _tool_ended(self, event: Any) -> None:
        whose = self._call_ends(event, "· ")
        is_command = event.name in _COMMANDS and bool(event.handle)
        if event.outcome != "ok":
            first, *more = self._outcome_lines(event)
            self._line(f"  {whose}{event.outcome}: {first}")
            if not is_command:
                self._show_failure(event, more)
        if is_command:
            self._show_output(event, whose if event.outcome == "ok" else "")
        elif event.outcome == "ok" and event.effects:
            self._show_diff(event, whose)

    def _show_failure(self, event: Any, more: Sequence[str]) -> None:
        """Print further lines of a failed call that is no command; at an input line the rest can be shown."""
        for line in more:
            self._line(f"    {line}")
        whole = event.output.strip().splitlines()
        left = len(whole) - 1 - len(more)
        if left > 0 and self._by_line:
            self._keep(lambda: [readable(line, None) for line in whole])
            self._line(f"    {self._folded(left)}")

    def _show_output(self, event: Any, whose: str) -> None:
        page = self._page  # of this session; another may follow
        lines, notes = printed(event.output, event.handle, page)
        if not lines and not notes:
            return
        if lines:
            self._keep(lambda: [readable(line, None) for line in printed(event.output, event.handle, page)[0]])
        if whose:
            self._line(f"  {whose}printed:")
        if len(lines) > OUTPUT_LINES and not self._is_full:
            told = f"(the last {OUTPUT_LINES} of {len(lines):,} lines; all: --full)"
            self._line(f"    {self._folded(len(lines) - OUTPUT_LINES, 'above') if self._by_line else told}")
            lines = lines[-OUTPUT_LINES:]
        width = None if self._is_full else width_of(self._face.width, 4)
        for line in (*lines, *notes):
            self._stdout.write(f"    {readable(line, width)}\n")

    def _show_diff(self, event: Any, whose: str) -> None:
        palette, rows = self._face.palette, diff_rows(event.effects, self._content)
        if not rows:
            return
        digits = number_columns(rows) if (self._face.width or 0) >= _NUMBERED_COLUMNS else 0
        self._keep(lambda: [painted(row, palette, None, digits) for row in rows])
        if whose:
            self._line(f"  {whose}changed:")
        shown, left = (rows, 0) if self._is_full else unified(rows) if digits else shortened(rows)
        width = None if self._is_full else width_of(self._face.width, 4)
        self._new_line()
        for row in shown:
            self._stdout.write(f"    {painted(row, palette, width, digits)}\n")
        if left:
            told = f"… {left:,} more line{'s' * (left != 1)}; all: --full"
            self._line(f"    {self._folded(left) if self._by_line else told}")

    def _folded(self, left: int, where: str = "") -> str:
        """Return the line that stands for the lines left out of the last diff or output."""
        what = f"more line{'s' * (left != 1)}{f' {where}' if where else ''}"
        return f"… {left:,} {what}; /show {self._number} shows {'them' if left != 1 else 'it'}"

    def _call_begins(self, event: Any, before: str) -> None:
        line = self._begun[event.agent, event.call_id] = _call_line(event)
        self._last_begun[event.agent] = event.call_id
        self._line(f"{before}{line}")

    def _call_ends(self, event: Any, before: str) -> str:
        """Name the call whose outcome follows: not if its line is the last one; a call that never started gets its line now."""
        line = self._begun.pop((event.agent, event.call_id), None)
        if line is None and event.outcome != "ok":
            self._call_begins(event, before)
            del self._begun[event.agent, event.call_id]
        return f"{line} " if line is not None and self._last_begun[event.agent] != event.call_id else ""

    def _outcome_lines(self, event: Any) -> list[str]:
        """Return the first lines of a call's result. Denied calls without a person to ask are remembered for the end."""
        from periplus.agent.execution.loop_messages import DENIED, NOBODY

        if event.outcome == "denied" and event.output.endswith(NOBODY):
            why = event.output.strip().removeprefix(DENIED).removesuffix(NOBODY)
            if _BY_MODE in why:
                self._unasked.append(_rule_for(event))
            else:
                self._unruled.append(why)
        lines = event.output.strip().removeprefix(DENIED).splitlines()
        return lines[:OUTPUT_LINES] or [""]

    def _feedback_given(self, event: Any) -> None:
        if event.source == "person":
            return
        self._line(f"({event.source or 'a hook'} asks for more work)")
        for line in [line for line in event.quoted.splitlines() if line.strip()][-OUTPUT_LINES:]:
            self._line(f"    {line}")

    def _hook_raised(self, event: Any) -> None:
        self._line(f"(the hook {getattr(event, 'hook', '')} failed: {getattr(event, 'error', '')})")

    def _turn_ended(self, _: Any) -> None:
        self._new_line()

    def _learned(self, event: Any) -> None:
        if event.error:
            self._line(f"(lessons of the session could not be saved: {event.error})")
            return
        seen = ((event.lessons, "lesson", "candidates"), (event.skills, "skill", "skills"))
        for count, what, command in seen:
            if count:
                self._line(f"({count} {what}{'s' * (count != 1)} to review: periplus {command} list)")

    def _noticed(self, event: Any) -> None:
        self._line(f"({event.text})")

    def _context_folded(self, _: Any) -> None:
        self._line("(earlier turns were condensed)")

    def _line(self, text: str) -> None:
        self._new_line()
        self._stdout.write(visible(text) + "\n")

    def _new_line(self) -> None:
        if self._held:
            self._stdout.write(self._held + "\n")
            self._held, self._at_start = "", True
        if not self._at_start:
            self._stdout.write("\n")
            self._at_start = True


def _renders(face: Face) -> bool:
    """Return whether answers are rendered: not for programs, pipes and terminals without colour."""
    is_terminal = face.stdout.isatty() and not face.as_json and face.environment.get("TERM") != "dumb"
    return is_terminal and can_render()


def _call_line(event: Any) -> str:
    """Format a call as one line: its tool and its most telling argument."""
    said = next((event.args[name] for name in _TELLING if event.args.get(name)), "")
    edits = event.args.get("edits")
    if isinstance(edits, list):
        said = ", ".join(sorted({str(one.get("path")) for one in edits if isinstance(one, dict)}))
    text = " ".join(str(said).split())
    return f"{event.name} {text[:_ARGUMENT_COLUMNS]}{'…' if len(text) > _ARGUMENT_COLUMNS else ''}".rstrip()


def going_on(name: str) -> str:
    """Return the command that continues a session."""
    import shlex

    return f'periplus run --session {shlex.quote(name)} "…"'


def _calls(denied: Sequence[str]) -> str:
    return f"{len(denied)} call{'s were' if len(denied) > 1 else ' was'}"


def _rule_for(event: Any) -> str:
    """Return the rule that would allow calls like this one; for a command, with the words that say what runs."""
    from periplus.shell.command_words import names_what_runs

    words = str(event.args.get("command", "")).split()
    if event.name != "shell" or not words or not words[0].replace("-", "").isalnum():
        return str(event.name)
    return f"shell({' '.join(words[: names_what_runs(words)])})"


def in_words(value: str) -> str:
    """Format a setting's value for people."""
    return {"": "none", "()": "none", "False": "no", "True": "yes"}.get(value, value)


class ConsolePerson:
    """The person at the terminal: questions go to standard error, answers come from standard input. A set ``token`` ends the waiting."""

    def __init__(self, face: Face, token: CancelToken | None = None) -> None:
        self._face = face
        self._token = token
        self._typed = b""  # read but not used yet

    def approve(self, call: ToolCall, decision: ToolDecision) -> Answer:
        from periplus.agent.policies.permission import asked_lines
        from periplus.tui.conversation import meant

        rows = "\n".join(map(visible, asked_lines(call, decision)))
        question = f"{rows}\nRun it? [y]es, [n]o, [a]lways: "
        while (answer := self._asked(question)) is not None:
            if (said := meant(answer)) is not None:
                return said
            question = "y, n or a: "
        return "no"

    def ask(self, question: str, options: Sequence[str]) -> str | None:
        for at, option in enumerate(options, 1):
            self._face.stderr.write(f"  {at}. {visible(option)}\n")
        answer = self._asked(f"{visible(question)} ")
        if answer is None:
            return None
        from periplus.tui.conversation import chosen

        return chosen(answer, options)

    def _asked(self, text: str) -> str | None:
        self._face.stderr.write(text)
        self._face.stderr.flush()
        line = sys.stdin.readline() if self._token is None else self._line(self._token)
        return line.strip() if line else None

    def _line(self, token: CancelToken) -> str:
        """Read a line; empty at the end of input, or once the turn is stopped. A handled Ctrl-C alone does not end a read."""
        import os
        import select

        fd = sys.stdin.fileno()
        while b"\n" not in self._typed:
            ready = select.select([fd], [], [], _LOOK_S)[0]
            if token.is_cancelled:
                self._face.stderr.write("\n")
                return ""
            try:
                piece = os.read(fd, _PIECE_BYTES) if ready else None
            except OSError:  # the terminal was closed
                piece = b""
            if piece == b"":
                break
            self._typed += piece or b""
        line, newline, self._typed = self._typed.partition(b"\n")
        return (line + newline).decode("utf-8", "replace")


@contextmanager
def interrupting(token: CancelToken) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM stop the turn: the model's call, running commands and their children. The second one ends the
    program.

    A separate thread sets the token, because a signal handler may interrupt the main thread while it holds the token's lock. A
    ``SimpleQueue`` is safe to use in a handler.
    """
    asked: list[str] = []
    reasons: SimpleQueue[str] = SimpleQueue()

    def pass_on() -> None:
        if reason := reasons.get():
            token.cancel(reason)

    def stop(number: int, _: FrameType | None) -> None:
        if asked or token.is_cancelled:
            raise KeyboardInterrupt
        asked.append("the person stopped it" if number == signal.SIGINT else "a signal asked it to end")
        reasons.put(asked[0])

    waiting = threading.Thread(target=pass_on, name="interrupting")
    waiting.start()
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        reasons.put("")
        waiting.join()
