"""Tools of Cline, Roo Code and Kilo Code as steps."""

from __future__ import annotations

__all__ = ["plan_tool"]

import re
from collections.abc import Callable
from typing import Final

from periplus.interop.conversion.intake import Intake, Planned
from periplus.interop.conversion.tool_calls import plan_call
from periplus.interop.readers.json_values import integer_of, list_of, table_of, text_of

_PARTS_MAX: Final = 1000
_SEARCH: Final = re.compile(r"(?:-{3,}|<{3,}) ?SEARCH>?")
_DIVIDER: Final = re.compile(r"={3,}")
_REPLACE: Final = re.compile(r"(?:\+{3,}|>{3,}) ?REPLACE>?")
_START: Final = ":start_line:"
_FILE: Final = re.compile(r"<path>([^<]{1,4096})</path>")
_LINES: Final = re.compile(r"<line_range>(\d{1,9})-(\d{1,9})</line_range>")
_MARKS: Final = ("0mcp0", "--")
_Arguments = dict[str, object]
_SHARED: Final = {
    "codebase_search": "search_code", "edit_file": "edit", "list_code_definition_names": "list_files", "new_task": "task",
    "search_and_replace": "edit", "search_replace": "edit", "use_skill": "skill",
}  # fmt: skip


def plan_tool(intake: Intake, name: str, given: object) -> list[Planned]:
    """Return the steps of one call: at least one."""
    arguments = table_of(given)
    server, tool = _server(name, arguments)
    if server:
        inner = arguments.get("arguments", arguments.get("uri")) if name in _OF_SERVERS else given
        return plan_call(intake, tool, inner, intake.cwd, server)
    planner = _PLANNERS.get(name)
    steps = planner(intake, arguments) if planner is not None else []
    if steps and len(steps) <= _PARTS_MAX:
        return steps
    if name == "search_files" and arguments.get("file_pattern") in ("*", ""):
        arguments = {key: value for key, value in arguments.items() if key != "file_pattern"}
    steps = plan_call(intake, _SHARED.get(name, name), arguments or given, intake.cwd)
    if steps[0].op == "TOOL_CALL":  # under the tool's own name
        return plan_call(intake, name, arguments or given, intake.cwd)
    return steps


_OF_SERVERS: Final = ("use_mcp_tool", "access_mcp_resource")


def _server(name: str, arguments: _Arguments) -> tuple[str, str]:
    """Return the server and the tool of a call of MCP; the server is empty for the agent's own tools."""
    if name in _OF_SERVERS:
        return text_of(arguments.get("server_name")), text_of(arguments.get("tool_name")) or name
    bare = name.removeprefix("mcp--")
    for mark in _MARKS:
        server, found, tool = bare.partition(mark)
        if found and server and tool and (mark != "--" or bare != name):
            return server, tool
    return "", name


def _read(intake: Intake, arguments: _Arguments) -> list[Planned]:
    """Plan a reading of several files: as objects, or as XML in ``args`` or ``files``."""
    steps = []
    for item in list_of(arguments.get("files"))[: _PARTS_MAX + 1]:
        path = text_of(item) or text_of(table_of(item).get("path"))
        ranges = list_of(table_of(item).get("line_ranges"))
        first = list_of(ranges[0]) if ranges else []
        ends = [integer_of(value) for value in first]
        lines = f"{ends[0]}-{ends[1]}" if len(ends) == 2 and None not in ends else None
        steps.append(Planned("FILE_READ", [intake.mask(path), lines]))
        if not path:
            return []
    written = text_of(arguments.get("args")) or text_of(arguments.get("files"))
    for part in written.split("</file>")[: _PARTS_MAX + 1]:
        match = _FILE.search(part)
        if match is not None:
            span = _LINES.search(part)
            steps.append(
                Planned("FILE_READ", [intake.mask(match.group(1).strip()), f"{span[1]}-{span[2]}" if span else None])
            )
    return steps


def _replace(intake: Intake, arguments: _Arguments) -> list[Planned]:
    """Plan the changes of a diff, which are blocks of text to search and to write in its place."""
    path, diff = text_of(arguments.get("path")), text_of(arguments.get("diff"))
    if not path:
        match = _FILE.search(text_of(arguments.get("args")))
        path, diff = (match.group(1).strip(), text_of(arguments.get("args"))) if match is not None else ("", "")
    return (
        [Planned("FILE_EDIT", [intake.mask(path), intake.mask(old), intake.mask(new)]) for old, new in _blocks(diff)]
        if path
        else []
    )


def _blocks(diff: str) -> list[tuple[str, str]]:
    blocks = []
    old: list[str] | None = None
    new: list[str] | None = None
    for line in diff.split("\n"):
        bare = line.strip()
        if new is not None and old is not None and _REPLACE.fullmatch(bare):
            blocks.append(("\n".join(_without_head(old)), "\n".join(new)))
            old = new = None
        elif new is not None:
            new.append(line)
        elif old is not None and _DIVIDER.fullmatch(bare):
            new = []
        elif old is not None:
            old.append(line)
        elif _SEARCH.fullmatch(bare.removeprefix("<content>").removeprefix("<![CDATA[")):
            old = []
    return blocks


def _without_head(lines: list[str]) -> list[str]:
    """Return the lines of a searched text without the numbers before it."""
    if not lines or not lines[0].startswith(_START):
        return lines
    for at, line in enumerate(lines[:4]):
        if line.startswith("---") and not line.strip("-"):
            return lines[at + 1 :]
    return lines[1:]


def _insert(intake: Intake, arguments: _Arguments) -> list[Planned]:
    path, content, line = text_of(arguments.get("path")), arguments.get("content"), text_of(arguments.get("line"))
    if not path or not isinstance(content, str):
        return []
    note = intake.mask(f"inserted at line {line}"[:100]) if line else None
    return [Planned("FILE_EDIT", [intake.mask(path), "", intake.mask(content)], note)]


def _todos(intake: Intake, arguments: _Arguments) -> list[Planned]:
    """Plan a list of tasks that is written as Markdown."""
    todos = text_of(arguments.get("todos"))
    return plan_call(intake, "update_plan", {"todos": todos.split("\n")}, None) if todos else []


_PLANNERS: Final[dict[str, Callable[[Intake, _Arguments], list[Planned]]]] = {
    "read_file": _read,
    "replace_in_file": _replace,
    "apply_diff": _replace,
    "insert_content": _insert,
    "update_todo_list": _todos,
}
