"""Mining of skills from past turns: commands that worked here again and again. Pure and deterministic.

There are two rules; both need commands that were *seen to work* in at least two turns:

* **routine**: the same commands in the same order, all successful, with no failure between them;
* **detour**: a command that failed in two turns and never worked, and another of the same program that worked after it in both.

The result is a candidate: a name, its purpose, the commands, the turns in which they worked, how often its first commands failed. Commands
that delete things, leave the sandbox or cannot be judged before they run are never proposed, and neither are secrets.
"""

from __future__ import annotations

__all__ = ["Draft", "Mined", "Run", "TurnRuns", "mine", "refusal", "runs_of"]

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from periplus.agent.skills.injection_screening import injection_phrases
from periplus.agent.skills.skill import NAME_MAX
from periplus.base.text.secrets import mask_secrets
from periplus.shell.judgement import judge

SEEN_MIN: Final = 2
LENGTH_MAX: Final = 6
DRAFTS_MAX: Final = 20
RUNS_MAX: Final = 200
_COMMAND_MAX: Final = 300
_SEEN_KEPT: Final = 20
_LOOKING: Final = frozenset(
    {"cat", "cd", "echo", "env", "file", "find", "grep", "head", "ls", "pwd", "rg", "sed", "sleep", "stat", "tail", "test", "tree", "true", "wc", "which"}
)  # fmt: skip
_LOOKING_AT: Final = frozenset({("git", "status"), ("git", "diff"), ("git", "log"), ("git", "show"), ("git", "branch")})
_TWO_WORDS: Final = frozenset({"cargo", "docker", "git", "go", "just", "make", "npm", "pnpm", "poetry", "uv", "yarn"})


class Run(NamedTuple):
    """A command that ended; ``worked`` tells its success by exit code."""

    command: str
    worked: bool


class TurnRuns(NamedTuple):
    session: str
    turn: int
    runs: tuple[Run, ...]

    @property
    def ref(self) -> str:
        return f"{self.session}#{self.turn}"


class Draft(NamedTuple):
    """A candidate in the words of the rule. ``seen`` are turns, as ``session#turn``, the newest last."""

    rule: str
    name: str
    description: str
    body: str
    commands: tuple[str, ...]
    seen: tuple[str, ...]
    failed: int = 0


class Mined(NamedTuple):
    drafts: tuple[Draft, ...]
    refused: tuple[tuple[str, str], ...]
    """Findings that may not become a skill: name and reason."""


def runs_of(session: str, records: Iterable[Mapping[str, Any]]) -> list[TurnRuns]:
    """The commands of a session's turns, from its episodes as plain values; other episodes are skipped."""
    commands: dict[str, str] = {}
    turns: dict[int, list[Run]] = {}
    for record in records:
        turn = record.get("turn")
        if not isinstance(turn, int):
            continue
        if record.get("kind") == "answered":
            message = record.get("message")
            calls = message.get("tool_calls", ()) if isinstance(message, Mapping) else ()
            commands |= {
                str(call.get("id")): " ".join(str(call["args"]["command"]).split())
                for call in calls
                if isinstance(call, Mapping) and call.get("name") == "shell" and _is_plain(call.get("args"))
            }
        elif record.get("kind") == "resulted":
            result = record.get("result")
            command = commands.pop(str(record.get("call_id")), "")
            if command and isinstance(result, Mapping) and isinstance(result.get("exit_code"), int):
                turns.setdefault(turn, []).append(
                    Run(command, result["exit_code"] == 0 and result.get("outcome") == "ok")
                )
    return [TurnRuns(session, turn, tuple(runs[:RUNS_MAX])) for turn, runs in sorted(turns.items())]


def mine(turns: Sequence[TurnRuns], session: str = "") -> Mined:
    """Mine the turns, earlier ones first; with ``session`` only candidates that involve one of its turns."""
    works = [turn._replace(runs=tuple(run for run in turn.runs if not _is_looking(run.command))) for turn in turns]
    found = [*_routines(works), *_detours(works)]
    mine_ = [one for one in found if not session or any(ref.rpartition("#")[0] == session for ref in one.seen)]
    drafts: list[Draft] = []
    refused: list[tuple[str, str]] = []
    for one in mine_[: DRAFTS_MAX * 2]:
        why = refusal(one.name, one.description, one.body, one.commands)
        if why:
            refused.append((one.name, why))
        elif len(drafts) < DRAFTS_MAX:
            drafts.append(one)
    return Mined(tuple(drafts), tuple(refused))


def refusal(name: str, description: str, body: str, commands: Sequence[str]) -> str:
    """The reason why a candidate may not be proposed; empty if it may."""
    for command in commands:
        judgement = judge(command, workspace="/project", home="/home/nobody")
        if judgement.level != "plain":
            return f"`{command[:80]}`: {judgement.reason}"
        if "```" in command:
            return f"`{command[:80]}` cannot be written down as it is"
    for text in (name, description, body, *commands):
        if mask_secrets(text)[1]:
            return "it holds what looks like a secret"
        said = injection_phrases(text)
        if said:
            return f"it says {', '.join(said)}"
    return ""


# -- the rules -------------------------------------------------------------------------------------------------------------


def _routines(turns: Sequence[TurnRuns]) -> list[Draft]:
    seen: dict[tuple[str, ...], dict[str, None]] = {}
    for turn in turns:
        for stretch in _stretches(turn.runs):
            for length in range(2, min(LENGTH_MAX, len(stretch)) + 1):
                for at in range(len(stretch) - length + 1):
                    commands = tuple(stretch[at : at + length])
                    if len(set(commands)) == length:
                        seen.setdefault(commands, {})[turn.ref] = None
    often = {commands: tuple(refs) for commands, refs in seen.items() if len(refs) >= SEEN_MIN}
    longest = [
        (commands, refs)
        for commands, refs in often.items()
        if not any(
            len(other) > len(commands) and _is_within(commands, other) and set(refs) <= set(held)
            for other, held in often.items()
        )
    ]
    found = []
    for commands, refs in sorted(longest, key=lambda one: (-len(one[1]), -len(one[0]), one[0])):
        failed = sum(_fails(commands, turn.runs) for turn in turns)
        if failed <= len(refs) // 2:
            found.append(_routine(commands, refs, failed))
    return found


def _routine(commands: tuple[str, ...], refs: tuple[str, ...], failed: int) -> Draft:
    first, *rest = commands
    then = "".join(f", then `{command}`" for command in rest)
    fails = f" A beginning of it was seen to fail {failed} times." if failed else ""
    body = (
        f"# {_title(commands)}\n\nSeen to work {len(refs)} times in this project, in this order:\n\n```sh\n"
        + "\n".join(commands)
        + f"\n```\n\nLook at what each says before the next. When one fails, find out why before you go on.{fails}\n"
    )
    description = f"Commands that belong together in this project: `{first}`{then}."
    return Draft("routine", _name("run", commands), _cut(description), body, commands, refs[-_SEEN_KEPT:], failed)


def _detours(turns: Sequence[TurnRuns]) -> list[Draft]:
    worked = {run.command for turn in turns for run in turn.runs if run.worked}
    seen: dict[tuple[str, str], dict[str, None]] = {}
    for turn in turns:
        for at, run in enumerate(turn.runs):
            if run.worked or run.command in worked:
                continue
            after = next(
                (
                    one.command
                    for one in turn.runs[at + 1 :]
                    if one.worked and _program(one.command) == _program(run.command)
                ),
                "",
            )
            if after:
                seen.setdefault((run.command, after), {})[turn.ref] = None
    found = []
    for (failed, after), refs in sorted(seen.items(), key=lambda one: (-len(one[1]), one[0])):
        if len(refs) >= SEEN_MIN:
            body = (
                f"# {_title((after,))}\n\nIn {len(refs)} turns in this project this failed and never worked:\n\n```sh\n{failed}\n```\n\n"
                f"and this worked in its place:\n\n```sh\n{after}\n```\n"
            )
            description = _cut(f"In this project `{after}` works where `{failed}` fails.")
            found.append(
                Draft("detour", _name("use", (after,)), description, body, (after,), tuple(refs)[-_SEEN_KEPT:])
            )
    return found


# -- words -----------------------------------------------------------------------------------------------------------------


def _stretches(runs: Sequence[Run]) -> list[list[str]]:
    """The runs of commands between failures, with immediate repetitions counted once."""
    found: list[list[str]] = [[]]
    for run in runs:
        if not run.worked:
            found.append([])
        elif not found[-1] or found[-1][-1] != run.command:
            found[-1].append(run.command)
    return [one for one in found if len(one) > 1]


def _fails(commands: Sequence[str], runs: Sequence[Run]) -> bool:
    """Return whether a turn began with these commands and one of them after the first failed."""
    for at, run in enumerate(runs):
        if run.command != commands[0] or not run.worked:
            continue
        for step, later in enumerate(runs[at + 1 : at + len(commands)], 1):
            if later.command != commands[step]:
                break
            if not later.worked:
                return True
    return False


def _is_within(inner: Sequence[str], outer: Sequence[str]) -> bool:
    return any(tuple(outer[at : at + len(inner)]) == tuple(inner) for at in range(len(outer) - len(inner) + 1))


def _is_plain(args: object) -> bool:
    if not isinstance(args, Mapping):
        return False
    command = args.get("command")
    is_short = isinstance(command, str) and 0 < len(command.strip()) <= _COMMAND_MAX and "\n" not in command.strip()
    return is_short and not args.get("background") and not args.get("unsandboxed")


def _is_looking(command: str) -> bool:
    words = tuple(command.split()[:2])
    return not words or words[0] in _LOOKING or words in _LOOKING_AT


def _program(command: str) -> str:
    words = command.split()
    return " ".join(words[: 2 if words[0] in _TWO_WORDS or words[1:2] == ["-m"] else 1])


def _name(first: str, commands: Sequence[str]) -> str:
    words = [first]
    for command in commands:
        words += [word for word in re.findall(r"[a-z0-9]+", _program(command).lower()) if word not in words]
    name = ""
    for word in words:
        if len(name) + len(word) + 1 > NAME_MAX - 8:
            break
        name = f"{name}-{word}" if name else word
    return name


def _title(commands: Sequence[str]) -> str:
    return _cut(", then ".join(commands), 100)


def _cut(text: str, most: int = 300) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"
