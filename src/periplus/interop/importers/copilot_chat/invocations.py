"""Calls of tools as a stored response shows them, and results of calls as the model saw them.

An invocation in a response is written for display: its arguments are there for few tools only. So the rounds of the
request, which hold each call as the model made it, are read where a session has them, and invocations tell what rounds
do not: refusals, exit codes, times, and the calls of subagents.
"""

from __future__ import annotations

__all__ = ["Invocation", "file_edits", "invocation_of", "name_of_reference", "result_text"]

from typing import Final, NamedTuple

from periplus.interop.conversion.intake import Intake, Planned
from periplus.interop.importers.copilot_chat.tools import tool_name
from periplus.interop.readers.json_values import integer_of, list_of, natural_of, path_of_url, table_of, text_of
from periplus.trail.model import Outcome

_DENIED: Final = (0, 5)  # how a call was confirmed: refused, skipped
_NODES_MAX: Final = 100_000
_EDITS_MAX: Final = 1000
_TEXT_CHARS_MAX: Final = 8 << 20


class Invocation(NamedTuple):
    """``outcome`` is None for a call that did not end; ``parent`` is the call of the subagent that made this one."""

    call_id: str
    name: str
    server: str
    arguments: object
    outcome: Outcome | None
    exit_code: int | None
    duration_ms: int | None
    text: str
    parent: str


def invocation_of(part: dict[str, object]) -> Invocation:
    data, details = table_of(part.get("toolSpecificData")), part.get("resultDetails")
    state = table_of(data.get("terminalCommandState"))
    exit_code = integer_of(state.get("exitCode"))
    source = table_of(part.get("source"))
    server = text_of(source.get("serverLabel")) or text_of(source.get("label")) if source.get("type") == "mcp" else ""
    name = tool_name(text_of(part.get("toolId")))
    confirmed = part.get("isConfirmed")
    outcome: Outcome | None = "ok"
    if confirmed is False or integer_of(table_of(confirmed).get("type")) in _DENIED:
        outcome = "denied"
    elif part.get("isComplete") is not True:
        outcome = None
    elif table_of(details).get("isError") is True or exit_code:
        outcome = "failed"
    return Invocation(
        text_of(part.get("toolCallId")), name, server, _arguments(part, name, data, table_of(details)), outcome,
        exit_code, natural_of(state.get("duration")) or None, _shown(part, data, details),
        text_of(part.get("subAgentInvocationId")) or ("a subagent" if part.get("fromSubAgent") is True else ""),
    )  # fmt: skip


def _arguments(part: dict[str, object], name: str, data: dict[str, object], details: dict[str, object]) -> object:
    """Return the arguments as far as the response shows them; else the words that it shows."""
    kind = text_of(data.get("kind"))
    if kind == "terminal":
        line = table_of(data.get("commandLine"))
        words = [line.get(name) for name in ("toolEdited", "userEdited", "original")]
        command = next(filter(None, map(text_of, words)), text_of(data.get("command")))
        return {"command": command, "cwd": path_of_url(table_of(data.get("cwd")).get("path"))}
    if kind == "input":
        return data.get("rawInput")
    if kind == "todoList":
        return {"todoList": data.get("todoList")}
    if kind == "subagent":
        return {key: data.get(key) for key in ("agentName", "description", "prompt") if data.get(key)}
    if isinstance(details.get("input"), str):
        return details["input"]
    message = part.get("invocationMessage")
    uris = table_of(table_of(message).get("uris"))
    if name == "read_file" and len(uris) == 1:
        return {"filePath": path_of_url(table_of(next(iter(uris.values()))).get("path"))}
    shown = text_of(message) or text_of(table_of(message).get("value"))
    return {"shown": shown} if shown else {}


def _shown(part: dict[str, object], data: dict[str, object], details: object) -> str:
    """Return the result as far as the response shows it."""
    output = table_of(data.get("terminalCommandOutput"))
    if output:
        return text_of(output.get("text"))
    if data.get("kind") == "subagent":
        return text_of(data.get("result"))
    inner = table_of(details).get("output")
    texts = (
        [text_of(inner)]
        if isinstance(inner, str)
        else [text_of(table_of(item).get("value")) for item in list_of(inner)]
    )
    for item in list_of(details):
        table = table_of(item)
        texts.append(text_of(table.get("path")) or text_of(table_of(table.get("uri")).get("path")))
    text = "\n".join(filter(None, texts))
    if text:
        return text
    message = part.get("pastTenseMessage")
    return text_of(message) or text_of(table_of(message).get("value"))


def result_text(result: object) -> tuple[str, bool]:
    """Return the text of a call's result, and whether it is exact: a tree of nodes is cut to fit when it is sent."""
    texts, is_exact = [], True
    for item in list_of(table_of(result).get("content")):
        value = table_of(item).get("value")
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, dict):
            is_exact = False
            texts.append(_text_of_tree(table_of(value.get("node"))))
    return "\n".join(texts), is_exact


def _text_of_tree(root: dict[str, object]) -> str:
    texts: list[str] = []
    left, size = [root], 0
    for _ in range(_NODES_MAX):
        if not left or size > _TEXT_CHARS_MAX:
            break
        node = left.pop()
        text = text_of(node.get("text"))
        if text:
            if texts and node.get("lineBreakBefore") in (True, 1) and not texts[-1].endswith("\n"):
                texts.append("\n")
            texts.append(text)
            size += len(text)
        left += [table_of(child) for child in reversed(list_of(node.get("children")))]
    return "".join(texts)


def file_edits(intake: Intake, part: dict[str, object]) -> list[Planned]:
    """Return the edits of one file that a response applied: the new texts, for the old ones are not in it."""
    path = path_of_url(table_of(part.get("uri")).get("path"))
    if not path:
        return []
    steps = []
    for group in list_of(part.get("edits"))[:_EDITS_MAX]:
        for edit in list_of(group)[:_EDITS_MAX]:
            place = table_of(table_of(edit).get("range"))
            first, last = natural_of(place.get("startLineNumber")), natural_of(place.get("endLineNumber"))
            text = intake.mask(text_of(table_of(edit).get("text")))
            steps.append(Planned("FILE_EDIT", [intake.mask(path), "", text], f"of lines {first} to {last}"))
            if len(steps) >= _EDITS_MAX:
                return steps
    return steps


def name_of_reference(part: dict[str, object]) -> str:
    """Return the words for a file or symbol within a sentence."""
    target = table_of(part.get("inlineReference"))
    uri = table_of(target.get("uri")) or table_of(table_of(target.get("location")).get("uri")) or target
    name = text_of(part.get("name")) or text_of(target.get("name"))
    return name or text_of(uri.get("path")).rstrip("/").rpartition("/")[2]
