"""Steps for the tools of VS Code: those that other agents have under other names, and those of VS Code alone."""

from __future__ import annotations

__all__ = ["plan_tool", "tool_name"]

from collections.abc import Callable
from typing import Final

from periplus.interop.conversion.intake import Intake, Planned
from periplus.interop.conversion.tool_calls import plan_call
from periplus.interop.readers.json_values import decode_table, list_of, table_of, text_of

_PARTS_MAX: Final = 1000
_Arguments = dict[str, object]

# Names of the tools in a stored response, and their names for the model.
_CONTRIBUTED: Final = {
    "copilot_applyPatch": "apply_patch", "copilot_createDirectory": "create_directory", "copilot_createFile": "create_file",
    "copilot_fetchWebPage": "fetch_webpage", "copilot_findFiles": "file_search", "copilot_findTextInFiles": "grep_search",
    "copilot_insertEdit": "insert_edit_into_file", "copilot_listDirectory": "list_dir",
    "copilot_multiReplaceString": "multi_replace_string_in_file", "copilot_readFile": "read_file",
    "copilot_replaceString": "replace_string_in_file", "copilot_searchCodebase": "semantic_search",
    "vscode_fetchWebPage_internal": "fetch_webpage",
}  # fmt: skip
# Names of the tools in the table that all agents share.
_SHARED: Final = {
    "file_search": "glob", "insert_edit_into_file": "edit", "manage_todo_list": "update_plan", "replace_string_in_file": "edit",
    "runSubagent": "task", "search_subagent": "task", "execution_subagent": "task", "semantic_search": "search_code",
    "test_search": "glob", "vscode_askQuestions": "ask_user", "view_image": "read",
}  # fmt: skip


def tool_name(identifier: str) -> str:
    """Return the model's name of the tool that a response calls ``identifier``."""
    return _CONTRIBUTED.get(identifier, identifier)


def plan_tool(intake: Intake, name: str, given: object, server: str = "") -> list[Planned]:
    """Return the steps of one call: at least one. ``given`` is an object, or its JSON text."""
    arguments = table_of(given)
    if isinstance(given, str) and given.lstrip()[:1] == "{":
        arguments = decode_table(given.encode("utf-8", "replace")) or {}
    if server or not arguments:
        return plan_call(intake, name, given, intake.cwd, server)
    planner = _PLANNERS.get(name)
    steps = planner(intake, arguments) if planner is not None else []
    if steps:
        return steps
    steps = plan_call(intake, _SHARED.get(name, name), _renamed(name, arguments), intake.cwd)
    if steps[0].op == "TOOL_CALL":  # under the tool's own name, with its own arguments
        return plan_call(intake, name, arguments, intake.cwd)
    return steps


def _renamed(name: str, arguments: _Arguments) -> _Arguments:
    """Return the arguments by the names that other agents use."""
    if name in ("file_search", "test_search"):
        return {"pattern": arguments.get("query")}
    if name == "manage_todo_list":
        return {"todos": arguments.get("todoList")}
    if name == "grep_search":
        return {**arguments, "include": arguments.get("includePattern")}
    if name == "run_in_terminal":
        return {**arguments, "is_background": arguments.get("isBackground")}
    if name == "runSubagent":
        return {**arguments, "agent": arguments.get("agentName")}
    return arguments


def _insert_edit(intake: Intake, arguments: _Arguments) -> list[Planned]:
    """Plan an edit whose text another model merges into the file."""
    path, code = text_of(arguments.get("filePath")), arguments.get("code")
    if not path or not isinstance(code, str):
        return []
    return [Planned("FILE_EDIT", [intake.mask(path), "", intake.mask(code)], "merged into the file")]


def _replace_several(intake: Intake, arguments: _Arguments) -> list[Planned]:
    edits = [table_of(item) for item in list_of(arguments.get("replacements"))]
    if not edits or len(edits) > _PARTS_MAX:
        return []
    steps = []
    for edit in edits:
        path, old, new = text_of(edit.get("filePath")), edit.get("oldString"), edit.get("newString")
        if not path or not isinstance(old, str) or not isinstance(new, str):
            return []
        steps.append(Planned("FILE_EDIT", [intake.mask(path), intake.mask(old), intake.mask(new)]))
    return steps


def _fetch(intake: Intake, arguments: _Arguments) -> list[Planned]:
    urls = [text_of(url) for url in list_of(arguments.get("urls"))[: _PARTS_MAX + 1]]
    if not urls or len(urls) > _PARTS_MAX or not all(urls):
        return []
    query = text_of(arguments.get("query"))
    note = intake.mask(f"looked for {query}") if query else None
    return [Planned("WEB_FETCH", [intake.mask(url)], note) for url in urls]


_PLANNERS: Final[dict[str, Callable[[Intake, _Arguments], list[Planned]]]] = {
    "insert_edit_into_file": _insert_edit,
    "multi_replace_string_in_file": _replace_several,
    "fetch_webpage": _fetch,
}
