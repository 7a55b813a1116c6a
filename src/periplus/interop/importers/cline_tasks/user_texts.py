"""Texts in messages of the user: words of the person, results of calls, and additions of the editor.

A result begins with a line such as ``[read_file for 'a.py'] Result:``; its text follows there or in the next block.
"""

from __future__ import annotations

__all__ = [
    "Result",
    "exit_code_of",
    "feedback_in",
    "folder_in",
    "outcome_of",
    "result_header",
    "typed_texts",
    "without_details",
]

import re
from typing import Final, NamedTuple

from periplus.interop.readers.json_values import decode_table, optional_text, text_of
from periplus.trail.model import Outcome

_DETAILS: Final = ("<environment_details>", "</environment_details>")
_FOLDER: Final = re.compile(r"# Current (?:Working|Workspace) Directory \(((?:/|[A-Za-z]:)[^\n]{0,4096}?)\) Files")
_HEADER_CHARS_MAX: Final = 20_000
_RESULT: Final = "] Result:"
_NAME: Final = re.compile(r"\[([a-zA-Z0-9_.-]{1,200})[\] ]")
_TAGS: Final = ("task", "feedback", "user_message", "answer")
_OWN: Final = (
    "[ERROR]", "[TASK RESUMPTION]", "[Continue assisting", "[NOTE]", "[[NOTE]", "Skipping tool ", "Tool [", "Tool was not executed",
    "<explicit_instructions", "# task_progress", "# TODO LIST", "[Response interrupted", "The previous tool", "You seem to be having",
)  # fmt: skip
_EXIT_CODE: Final = re.compile(r"[Ee]xit(?:ed with)?(?: code)?:? (-?\d{1,9})\b")
_EXIT_CHARS: Final = 600


class Result(NamedTuple):
    name: str
    text: str


def without_details(text: str) -> tuple[str, list[str]]:
    """Return the text without what the editor added about its state, and these additions."""
    found = []
    while (start := text.find(_DETAILS[0])) >= 0:
        end = text.find(_DETAILS[1], start)
        if end < 0:
            break
        found.append(text[start:end])
        text = text[:start] + text[end + len(_DETAILS[1]) :]
        if len(found) > 16:
            break
    return text, found


def folder_in(details: str) -> str | None:
    """Return the folder of the session that the editor names."""
    match = _FOLDER.search(details)
    return match.group(1) if match is not None else None


def result_header(text: str) -> Result | None:
    """Return the tool's name and the beginning of its result, if the text is one."""
    match = _NAME.match(text)
    end = text.find(_RESULT, 0, _HEADER_CHARS_MAX) if match is not None else -1
    if match is None or end < 0:
        return None
    return Result(match.group(1), text[end + len(_RESULT) :].lstrip("\n"))


def typed_texts(text: str, *, is_result: bool = False) -> list[str] | None:
    """Return the words of the person in a text, None for a text of the program. In a result, tags mark these words."""
    found: list[str] = []
    for tag in _TAGS[: 3 if is_result else 4]:
        at = 0
        while (start := text.find(f"<{tag}>", at)) >= 0 and len(found) < 16:
            end = text.find(f"</{tag}>", start)
            if end < 0 or (start and text[start - 1] != "\n"):
                break
            found.append(text[start + len(tag) + 2 : end].strip())
            at = end
    if found or is_result:
        return found
    return None if text.lstrip().startswith(_OWN) else [text]


def outcome_of(text: str) -> tuple[Outcome, int | None]:
    """Return how a call ended, by the text of its result."""
    start = text.lstrip()[:_EXIT_CHARS]
    told = decode_table(text.encode("utf-8", "replace")) if start.startswith('{"status"') else None
    status = optional_text((told or {}).get("status"))
    if status == "denied" or start.startswith("The user denied this operation"):
        return "denied", None
    if status == "error" or start.startswith("The tool execution failed"):
        return "failed", None
    return "ok", None


def exit_code_of(text: str) -> int | None:
    """Return the exit code that the result of a command begins with."""
    match = _EXIT_CODE.search(text[:_EXIT_CHARS])
    return int(match.group(1)) if match is not None else None


def feedback_in(text: str) -> list[str]:
    """Return what the person said about a call, in the call's result."""
    start = text.lstrip()
    if start.startswith('{"status"'):
        said = text_of((decode_table(text.encode("utf-8", "replace")) or {}).get("feedback"))
        return [said] if said else []
    return (
        typed_texts(text, is_result=True) or []
        if start.startswith(("The user ", "<user_message>", "<feedback>"))
        else []
    )
