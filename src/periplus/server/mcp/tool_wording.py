"""Translation of messages from commands of a terminal to calls of the MCP tools."""

from __future__ import annotations

__all__ = ["call_of", "for_tools", "one_line", "told_error"]

import json
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from periplus.base.errors import PeriplusError

_TOLD_MAX: Final = 800
_COMMANDS: Final[tuple[tuple[re.Pattern[str], str], ...]] = tuple(
    (re.compile(pattern), said)
    for pattern, said in (
        (r"Wait with --wait SECONDS, ask (?:the holder|.+ \(`periplus inbox send (?P<who>[\w.@%+=:,/-]+) '…'`\)), or `periplus claim release \w+ --force`\.",
         r'Work on something else, ask the holder (message(action="send", to="\g<who>", …)), or try again later.'),
        (r"Wait with --wait SECONDS, ask (?P<who>.+) \(`periplus inbox send .+ '…'`\), or `periplus claim release \w+ --force`\.",
         r'Work on something else, ask \g<who> (message(action="send", to=…, …)), or try again later.'),
        (r"Say who you are with --as NAME\. To look at it: periplus show (?P<id>\w+)", r'To look at it: show(id="\g<id>").'),
        (r'periplus recall "(?P<q>[^"]*)" --type (?P<t>\w+)', r'recall(question="\g<q>", types=["\g<t>"])'),
        (r'periplus recall "(?P<q>[^"]*)"', r'recall(question="\g<q>")'),
        (r'periplus related --task "(?P<q>[^"]*)"', r'brief(task="\g<q>", budget=…)'),
        (r"periplus changed\b", "brief(since=…)"),
        (r"periplus state (?P<id>\w+) (?P<s>\w+)", r'revise(ids=["\g<id>"], action="state", state="\g<s>")'),
        (r"periplus merge (?P<a>\w+) (?P<b>\w+) --text '…'", r'revise(ids=["\g<a>", "\g<b>"], action="replace", text=…)'),
        (r"periplus evolve (?P<id>\w+) '…'", r'revise(ids=["\g<id>"], action="replace", text=…)'),
        (r"periplus trail show (?P<id>\w+) --at (?P<n>\d+)", r'show(id="\g<id>#\g<n>")'),
        (r"periplus (?:trail )?show (?P<id>\w+)", r'show(id="\g<id>")'),
        (r"periplus (?:claim list|who)\b", "claim()"),
        (r"periplus (?:inbox mail|handoff list)\b", "message()"),
        (r"periplus inbox send\b", 'message(action="send", …)'),
        (r"periplus plan (?:list|ready)\b", "plan()"),
        (r"Look with `periplus log`\.", "Look with recall(question=…)."),
        (r"a number from `periplus log`", "the number of a record, as show(id=…) lists them"),
        (r"See `periplus log`\.", "show(id=…) lists the records of one thing."),
        (r"Ask the holder, or insist with --force\.", "Ask the holder."),
        (r"Leave it out, or insist with --(?:insist|allow-secret) if it is none\.",
         "Leave it out. If it is none, a person can insist with `periplus remember … --insist`."),
        (r"insist with --insist where the command has it\.", "a person can insist with `periplus state … --insist`."),
        (r"periplus code find ['\"](?P<q>[^'\"]*)['\"]", r'code(action="find", of="\g<q>")'),
        (r"periplus code search finds\b", 'code(action="search", of=…) finds'),
        (r"periplus code find NAME\b", 'code(action="find", of=…)'),
        (r"Name a commit or a branch: --diff main", 'Name a commit or a branch: revision="main"'),
        (r"a larger --budget", "a larger budget"),
        (r"Repeat the command with --key (?P<key>\w+)", r'Repeat the call with key="\g<key>"'),
        (r"Repeat without --key, or with one of its own\.", "Repeat without key, or with one of its own."),
        (r"Repeat the command\b", "Repeat the call"),
        (r"periplus confirm (?P<id>\w+) --about (?P<at>\S+)", r"remember it anew about \g<at>, superseding \g<id>"),
        (r"--supersedes (?P<id>\w+)", r'supersedes=["\g<id>"]'),
    )
)  # fmt: skip


def for_tools(text: str) -> str:
    """Replace commands in ``text`` by equivalent calls of tools."""
    if "periplus " in text or "--" in text or "Repeat the command" in text:
        for pattern, said in _COMMANDS:
            text = pattern.sub(said, text)
    return text


def told_error(error: PeriplusError) -> str:
    """Return what is wrong, what is safe and what to do next, as one paragraph."""
    wrong = str(error)
    if len(wrong) > _TOLD_MAX:
        wrong = f"{wrong[: _TOLD_MAX // 2]} … {wrong[-_TOLD_MAX // 2 :]}"
    parts = [wrong if wrong.endswith((".", "?", "!")) else f"{wrong}.", error.safe, error.mend]
    return for_tools(" ".join(part for part in parts if part))


def one_line(text: object, most: int = 0) -> str:
    line = " ".join(str(text).split())
    return line if not most or len(line) <= most else f"{line[: most - 1]}…"


def call_of(tool: str, **arguments: object) -> str:
    """Format a call as a model would write it, without empty arguments."""
    given = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items() if value)
    return f"{tool}({given})"
