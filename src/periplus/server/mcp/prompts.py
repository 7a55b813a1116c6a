"""The prompts ``start`` and ``end``, with what the project knows now."""

from __future__ import annotations

__all__ = ["prompt_text"]

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from periplus.base.errors import NotFoundError, UsageError
from periplus.server.mcp.catalogue import PROMPTS
from periplus.server.mcp.tool_arguments import BriefArguments, ClaimArguments, MessageArguments, read_arguments
from periplus.server.mcp.tool_results import fit

if TYPE_CHECKING:
    from periplus.project import Project

_BUDGET: Final = 3_000
_PART: Final = 600
_TASK_CHARACTERS_MAX: Final = 8_000  # characters used for the search; the prompt contains all


def prompt_text(project: Project, name: str, arguments: Mapping[str, str] | None) -> str:
    """Return the text of a prompt. Raises NotFoundError, UsageError."""
    row = next((row for row in PROMPTS if row["name"] == name), None)
    if row is None:
        raise NotFoundError(f"unknown prompt {name[:60]!r}", mend="Prompts: start, end.")
    given = dict(arguments or {})
    unknown = sorted(set(given) - {one["name"] for one in row["arguments"]})
    if unknown:
        raise UsageError(f"the prompt {name} has no argument {unknown[0][:60]!r}")
    return _start(project, given) if name == "start" else _end(project)


def _start(project: Project, given: dict[str, str]) -> str:
    from periplus.server.mcp.read_tools import run_brief

    task = given.get("task", "").strip()
    searched = task[:_TASK_CHARACTERS_MAX] or "what is going on in this project"
    asked = read_arguments(BriefArguments, {"task": searched, "budget": _BUDGET})
    known = fit(run_brief(project, asked), _BUDGET).text
    about = f"The task: {task}\n\n" if task else ""
    return (
        f"{about}This is what the project's memory knows, to begin with:\n\n{known}\n\n"
        "Obey the rules, mind the traps, and do not undo a decision without saying so. Before you change files, call "
        "brief(paths=[…]); claim what you change if others are at work. Ask recall(question=…) when something puzzles you. Write down "
        "what the next one has to know with remember(…), when you learn it."
    )


def _end(project: Project) -> str:
    from periplus.server.mcp.write_tools import run_claim, run_message

    claims = fit(run_claim(project, ClaimArguments()), _PART).text
    mail = fit(run_message(project, MessageArguments()), _PART).text
    return (
        "The session ends. Before you leave:\n"
        "1. What did you learn that the next one has to know? Choices and why, corrections by the user, what cost you time: "
        "remember(type=…, text=…, about=[…]) each that is not known yet.\n"
        "2. What turned out to be outdated? revise(…) it.\n"
        '3. Is something unfinished? message(action="handoff", text=…, files=[…], tests=…, unfinished=[…]).\n'
        '4. Steps that are done: plan(action="done", ids=[…]). Claims: claim(action="release").\n\n'
        f"Who is here and holds what:\n{claims}\n\nWhat waits for you:\n{mail}"
    )
