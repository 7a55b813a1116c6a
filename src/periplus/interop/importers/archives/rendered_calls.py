"""Calls as SpecStory renders them: an optional summary, arguments in backticks or fences, then the result.

Each provider renders in its own way. Arguments are found by what is common to them: a label before a text in backticks,
a list of inputs, a fence with a command, a content or a patch. The result is the last fence, or the text after a label.
"""

from __future__ import annotations

__all__ = ["rendered_call"]

import re
from typing import Final, NamedTuple

from periplus.interop.conversion.conversation import Chat
from periplus.interop.conversion.tool_calls import plan_call
from periplus.interop.readers.json_values import decode_table
from periplus.trail.model import Outcome

_SUMMARY: Final = re.compile(r"(?:<details>)?<summary>(?:Tool use: \*\*[^*\n]{0,200}\*\*)?(.{0,4000}?)</summary>")
_OPENING: Final = re.compile(r"(`{3,})([\w+#.-]{0,40})")
_CODE: Final = re.compile(r"`([^`\n]{1,20000})`")
_LABELLED: Final = re.compile(r"(?:^|\s)([A-Za-z]{3,12}):? `([^`\n]{1,20000})`")
_INPUT: Final = re.compile(r"- ([A-Za-z_]\w{0,60}): `(.*)`")
_CHANGED: Final = re.compile(r"\*\*(Add|Update|Modify|Delete): `([^`\n]{1,4000})`\*\*")
_TASK: Final = re.compile("- \\[(.)\\] (?:[🔥🌡❄]\ufe0f? )?(.{0,2000})")
_RESULT: Final = re.compile(r"(?:\*\*)?(Result|Error|Output|Output \(error\)|Answer):(?:\*\*)? ?(.*)")
_EXIT: Final = re.compile(r"(?:Error: )?Exit code:? (-?\d{1,9})\b")
_UPDATED: Final = re.compile(r"The file (\S.{0,4000}?) has been (?:updated|modified)")
_CREATED: Final = re.compile(r"File created successfully at: (\S.{0,4000}?)(?: \(|$)", re.MULTILINE)
_STATES: Final = {" ": "pending", "⚡": "in_progress", "X": "completed", "x": "completed"}
_LABELS: Final = {
    "directory": "cwd", "file": "file_path", "glob": "include", "include": "include", "path": "path", "pattern": "pattern",
    "query": "query", "url": "url",
}  # fmt: skip
_SHELLS: Final = frozenset({
    "bash", "exec_command", "execute", "run_command", "run_shell_command", "run_terminal_cmd", "shell", "shell_command",
})  # fmt: skip
# The argument that stands alone in backticks, by tool; that of the others is a path.
_ALONE: Final = {
    **dict.fromkeys(_SHELLS, "command"), "fetchurl": "url", "glob": "pattern", "google_web_search": "query",
    "web_fetch": "url", "web_search": "query", "webfetch": "url", "websearch": "query",
}  # fmt: skip
_WRITERS: Final = frozenset({"create", "create_file", "write", "write_file", "write_to_file"})
_QUESTIONS: Final = frozenset({"ask_question", "askuser", "askuserquestion"})
_REFUSED: Final = "The user doesn't want to proceed"
_INTERRUPTED: Final = "[Request interrupted by user"
_TOOL_ERROR: Final = "<tool_use_error>"
_ESCAPED: Final = "\\```"


class _Fence(NamedTuple):
    language: str
    text: str


class _Body(NamedTuple):
    summary: str
    prose: list[str]
    fences: list[_Fence]


def rendered_call(chat: Chat, name: str, text: str, *, is_marked: bool) -> None:
    """Add the call ``name``, of which ``text`` is the rendering. With ``is_marked`` every failed result says so."""
    intake = chat.intake
    body = _body(text)
    result, label, prose = _labelled_result(body)
    arguments, used = _arguments(name.lower(), body, prose)
    if not result and used < len(body.fences):
        result = body.fences[-1].text
    for pattern in (_UPDATED, _CREATED):
        found = pattern.search(result[:5000]) if "file_path" not in arguments and "path" not in arguments else None
        if found is not None:
            arguments["file_path"] = found.group(1)
    arguments = {key: _relative(value) if key in ("file_path", "path") else value for key, value in arguments.items()}
    call = intake.call(plan_call(intake, name, arguments, intake.cwd))
    if not result:
        intake.release(call)
        return
    outcome, exit_code = _outcome(result, label, is_marked=is_marked)
    intake.resolve(call, outcome, result, exit_code=exit_code, is_exact=False)


def _relative(value: object) -> object:
    return value.removeprefix("./") or "." if isinstance(value, str) else value


def _body(text: str) -> _Body:
    """Split a rendering into its summary, fences, and the lines between them."""
    lines = text.split("\n")
    summary = ""
    prose: list[str] = []
    fences: list[_Fence] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        opening = _OPENING.fullmatch(line.rstrip()) if line.startswith("```") else None
        if opening is None:
            found = _SUMMARY.fullmatch(line) if not summary and not prose else None
            if found is not None:
                summary = found.group(1).strip() or " "
            elif line.strip() and line != "</details>":
                prose.append(line)
            continue
        end = _end_of_fence(lines, at, opening.group(1), is_last=opening.group(2) in ("", "text"))
        fences.append(_Fence(opening.group(2), "\n".join(lines[at:end])))
        at = end + 1
    return _Body(summary.strip(), prose, fences)


def _end_of_fence(lines: list[str], at: int, mark: str, *, is_last: bool) -> int:
    """Return the line that closes a fence. That of a result is not sized to its content: it ends where the call ends."""
    if is_last:
        return next((end for end in range(len(lines) - 1, at - 1, -1) if lines[end].rstrip() == mark), len(lines))
    return next((end for end in range(at, len(lines)) if lines[end].rstrip() == mark), len(lines))


def _labelled_result(body: _Body) -> tuple[str, str, list[str]]:
    """Return the result behind a label, the label, and the other lines."""
    for at, line in enumerate(body.prose):
        found = _RESULT.fullmatch(line.strip())
        if found is not None:
            inline = "\n".join(filter(None, (found.group(2), *body.prose[at + 1 :])))
            is_fenced = not found.group(2) and bool(body.fences)
            return body.fences[-1].text if is_fenced else inline, found.group(1), body.prose[:at]
    return "", "", body.prose


def _arguments(name: str, body: _Body, prose: list[str]) -> tuple[dict[str, object], int]:
    """Return the arguments that the rendering shows, and the number of fences that they take."""
    arguments: dict[str, object] = {}
    if body.fences and name == "apply_patch":
        return _patch(body, prose)
    if name in _QUESTIONS:
        return {"question": "\n".join(line.strip("*") if line.startswith("**") else line for line in prose)}, 0
    inputs = {found.group(1): found.group(2) for line in prose if (found := _INPUT.fullmatch(line)) is not None}
    tasks = [found.groups() for line in prose if (found := _TASK.fullmatch(line)) is not None]
    if tasks and not inputs:
        return {"todos": [{"content": what, "status": _STATES.get(state, "pending")} for state, what in tasks]}, 0
    arguments.update(inputs)
    rest = []
    for line in (body.summary, *prose):
        labelled = [
            (_LABELS[word.lower()], value) for word, value in _LABELLED.findall(line) if word.lower() in _LABELS
        ]
        for key, value in labelled:
            arguments.setdefault(key, value)
        alone = _CODE.search(line) if not labelled and line.strip().startswith("`") else None
        if alone is not None:
            arguments.setdefault(_ALONE.get(name, "file_path"), alone.group(1))
        elif not labelled and line.strip(" •*") and not _INPUT.fullmatch(line) and line != "**Input:**":
            rest.append(line.strip())
    used = _fenced(name, body, arguments)
    if rest and name not in _SHELLS:
        arguments.setdefault("description", "\n".join(rest))
    return arguments, used


def _fenced(name: str, body: _Body, arguments: dict[str, object]) -> int:
    """Add the arguments that a fence holds; return the number of fences taken."""
    first = body.fences[0] if body.fences else None
    if first is None:
        return 0
    if name in _SHELLS and "command" not in arguments and first.language in ("bash", "sh"):
        arguments["command"] = first.text
    elif name in _WRITERS and (first.language not in ("", "text") or len(body.fences) > 1):
        if _ESCAPED not in first.text:  # else it is not the content as it was
            arguments["content"] = first.text
    elif first.language == "diff" and first.text.startswith("--- "):
        lines = first.text.split("\n")
        changed = lines[2:]
        if all(line[:1] in ("-", "+") for line in changed):
            arguments.setdefault("file_path", lines[0][4:])
            arguments["old_string"] = "\n".join(line[1:] for line in changed if line[0] == "-")
            arguments["new_string"] = "\n".join(line[1:] for line in changed if line[0] == "+")
    elif first.language == "json" and (table := decode_table(first.text.encode("utf-8", "replace"))) is not None:
        arguments.update(table)
    else:
        return 0
    return 1


def _patch(body: _Body, prose: list[str]) -> tuple[dict[str, object], int]:
    """Put a patch together again from its headings and its fences."""
    lines = ["*** Begin Patch"]
    fences = iter(body.fences)
    used = 0
    for line in prose:
        found = _CHANGED.fullmatch(line.strip())
        if found is None:
            continue
        kind, path = found.groups()
        lines.append(f"*** {'Update' if kind == 'Modify' else kind} File: {path}")
        fence = next(fences, None) if kind != "Delete" else None
        if fence is not None:
            lines.append(fence.text)
            used += 1
    return ({"input": "\n".join((*lines, "*** End Patch"))}, used) if used else ({}, 0)


def _outcome(result: str, label: str, *, is_marked: bool) -> tuple[Outcome, int | None]:
    start = result.lstrip()[:200]
    found = _EXIT.match(start)
    exit_code = int(found.group(1)) if found is not None else None
    if start.startswith(_REFUSED):
        return "denied", None
    if start.startswith(_INTERRUPTED):
        return "cancelled", None
    if start.startswith(_TOOL_ERROR) or label in ("Error", "Output (error)") or exit_code:
        return "failed", exit_code
    return ("ok" if is_marked or label or exit_code == 0 else "unknown"), exit_code
