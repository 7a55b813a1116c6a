"""Tools of agents as steps, by the names that most agents share.

Agents call the same few tools by several names, with several names for each argument. A call with unexpected
arguments becomes a TOOL_CALL with the arguments as they are, so that no action of an agent is lost.
"""

from __future__ import annotations

__all__ = ["patch_steps", "plan_call"]

from collections.abc import Callable
from typing import Final

from periplus.interop.conversion.apply_patch import Change, find_patch, parse_patch
from periplus.interop.conversion.claude_tools import shell_steps, tool_call
from periplus.interop.conversion.intake import Intake, Planned
from periplus.interop.readers.json_values import decode_table, integer_of, json_text, list_of, table_of, text_of

_EDITS_MAX: Final = 1000
_PATHS_MAX: Final = 1000
_PATH: Final = (
    "file_path", "filePath", "path", "absolute_path", "absolutePath", "target_file", "filename", "file_name", "file",
    "notebook_path", "filepath",
)  # fmt: skip
_FOLDER: Final = (
    "path",
    "dir_path",
    "directory",
    "dir",
    "target_directory",
    "absolute_path",
    "folder",
    "DirectoryPath",
)
_OLD: Final = ("old_string", "oldString", "old_str", "oldStr", "old_text", "oldText", "search")
_NEW: Final = ("new_string", "newString", "new_str", "newStr", "new_text", "newText", "replace")
_CONTENT: Final = ("content", "contents", "file_text", "fileText", "text", "code_edit")
_COMMAND: Final = ("command", "cmd", "CommandLine", "script")
_CWD: Final = ("cwd", "workdir", "directory", "dir_path", "working_directory", "workingDirectory", "Cwd", "working_dir")
_PATTERN: Final = ("pattern", "regex", "query", "search_term", "searchTerm", "regex_pattern")
_TASK: Final = ("prompt", "task", "message", "query", "objective", "task_description", "goal")
_AGENT: Final = ("subagent_type", "subagentType", "agent_name", "agent_type", "agent", "name", "subagent_name")

_Arguments = dict[str, object]
_Planner = Callable[[Intake, _Arguments, "str | None"], list[Planned]]


def plan_call(intake: Intake, name: str, arguments: object, cwd: str | None, server: str = "") -> list[Planned]:
    """Return the steps of one call of the tool ``name``: at least one. ``arguments`` is an object, or its JSON text."""
    table = _table(arguments)
    if isinstance(arguments, str) and not table and _PLANNERS.get(name.lower()) is _patch:
        table = {"input": arguments}
    if not server:
        planner = _PLANNERS.get(name.lower())
        steps = planner(intake, table, cwd) if planner is not None else []
        if steps:
            return steps
        if name.startswith("mcp__") and name.count("__") > 1:
            server, _, name = name[len("mcp__") :].partition("__")
    return [tool_call(intake, server, name, table or arguments)]


def _table(arguments: object) -> _Arguments:
    if isinstance(arguments, str) and arguments.lstrip()[:1] == "{":
        return decode_table(arguments.encode("utf-8", "replace")) or {}  # invalid JSON stays a text
    return table_of(arguments)


def _first(arguments: _Arguments, names: tuple[str, ...]) -> str:
    return next((value for name in names if (value := text_of(arguments.get(name)))), "")


def _given(arguments: _Arguments, names: tuple[str, ...]) -> str | None:
    """Return the first of the named arguments that is a text, even an empty one."""
    return next((value for name in names if isinstance(value := arguments.get(name), str)), None)


def _shell(intake: Intake, arguments: _Arguments, cwd: str | None) -> list[Planned]:
    words = [text_of(word) for word in list_of(arguments.get("command"))]
    command = " ".join(filter(None, words)) or _first(arguments, _COMMAND)
    if not command:
        return []
    note = None
    if arguments.get("is_input") in (True, "true"):
        note = "typed into a running command"
    elif arguments.get("run_in_background") is True or arguments.get("is_background") is True:
        note = "in the background"
    return shell_steps(intake, command, _first(arguments, _CWD) or cwd, note)


def _read(intake: Intake, arguments: _Arguments, _cwd: str | None) -> list[Planned]:
    path = _first(arguments, _PATH)
    return [Planned("FILE_READ", [intake.mask(path), _lines(arguments)])] if path else []


def _lines(arguments: _Arguments) -> str | None:
    """Return the requested lines of a file: from an offset and a limit, a range, or a first and a last line."""
    ends = [integer_of(value) for value in list_of(arguments.get("view_range"))]
    first, last = (ends[0], ends[1]) if len(ends) == 2 else (None, None)
    for name in ("start_line", "startLine", "line_start"):
        first = integer_of(arguments.get(name)) if first is None else first
    for name in ("end_line", "endLine", "line_end"):
        last = integer_of(arguments.get(name)) if last is None else last
    offset, limit = integer_of(arguments.get("offset")), integer_of(arguments.get("limit"))
    if first is None and last is None and (offset is not None or limit is not None):
        first = max(1, offset or 1)
        last = first + limit - 1 if limit is not None and limit > 0 else None
    if first is None and last is None:
        return None
    first = max(1, first or 1)
    return f"{first}-{last}" if last is not None and last >= first else f"{first}-"


def _read_many(intake: Intake, arguments: _Arguments, _cwd: str | None) -> list[Planned]:
    found = list_of(arguments.get("paths")) or list_of(arguments.get("include")) or list_of(arguments.get("file_paths"))
    paths = [text_of(path) for path in found[:_PATHS_MAX]]
    if not paths or not all(paths) or len(found) > _PATHS_MAX:
        return []
    steps = []
    for path in paths:
        masked = intake.mask(path)
        steps.append(Planned("FILE_LIST", [masked]) if "*" in path else Planned("FILE_READ", [masked, None]))
    return steps


def _write(intake: Intake, arguments: _Arguments, _cwd: str | None) -> list[Planned]:
    path, content = _first(arguments, _PATH), _given(arguments, _CONTENT)
    return [Planned("FILE_WRITE", [intake.mask(path), intake.keep(content)])] if path and content is not None else []


def _edit(intake: Intake, arguments: _Arguments, _cwd: str | None) -> list[Planned]:
    path = _first(arguments, _PATH)
    edits = list_of(arguments.get("edits"))
    if not path or len(edits) > _EDITS_MAX:
        return []
    steps = [_replacement(intake, path, table_of(edit)) for edit in edits or [arguments]]
    return [step for step in steps if step is not None] if None not in steps else []


def _replacement(intake: Intake, path: str, edit: _Arguments) -> Planned | None:
    old, new = _given(edit, _OLD), _given(edit, _NEW)
    if old is None or new is None:
        return None
    is_every = edit.get("replace_all") is True or edit.get("replaceAll") is True
    note = "every occurrence" if is_every else None
    return Planned("FILE_EDIT", [intake.mask(path), intake.mask(old), intake.mask(new)], note)


def _editor(intake: Intake, arguments: _Arguments, cwd: str | None) -> list[Planned]:
    """Plan a call of the editor with a ``command``: one tool for reading, writing and replacing."""
    command = text_of(arguments.get("command"))
    if command == "view":
        return _read(intake, arguments, cwd)
    if command == "create":
        return _write(intake, arguments, cwd)
    if command == "str_replace":
        edit = arguments if _given(arguments, _NEW) is not None else {**arguments, "new_str": ""}
        return _edit(intake, edit, cwd)
    return []


def _patch(intake: Intake, arguments: _Arguments, cwd: str | None) -> list[Planned]:
    text = _first(arguments, ("patchText", "patch", "input", "diff"))
    patch = find_patch(text) if text else None
    return patch_steps(intake, patch) if patch is not None else _edit(intake, arguments, cwd)


def patch_steps(intake: Intake, patch: str) -> list[Planned]:
    """Return the steps of a patch (see ``apply_patch``), one for each change."""
    return [_change(intake, change) for change in parse_patch(patch)]


def _change(intake: Intake, change: Change) -> Planned:
    path = intake.mask(change.path)
    if change.kind == "write":
        return Planned("FILE_WRITE", [path, intake.keep(change.new)])
    if change.kind == "delete":
        return Planned("FILE_DELETE", [path])
    if change.kind == "move":
        return Planned("FILE_MOVE", [path, intake.mask(change.target)])
    return Planned("FILE_EDIT", [path, intake.mask(change.old), intake.mask(change.new)])


def _delete(intake: Intake, arguments: _Arguments, _cwd: str | None) -> list[Planned]:
    path = _first(arguments, _PATH)
    return [Planned("FILE_DELETE", [intake.mask(path)])] if path else []


def _search(intake: Intake, arguments: _Arguments, _cwd: str | None) -> list[Planned]:
    pattern = _first(arguments, _PATTERN)
    if not pattern:
        return []
    path, glob = _first(arguments, (*_FOLDER, *_PATH)), _first(arguments, ("include", "glob", "file_pattern"))
    return [Planned("SEARCH_CODE", [intake.mask(pattern), intake.mask(path) if path else None],
                    intake.mask(f"in {glob}") if glob else None)]  # fmt: skip


def _list(intake: Intake, arguments: _Arguments, _cwd: str | None) -> list[Planned]:
    pattern = _first(arguments, ("pattern", "glob_pattern", "glob", "file_name"))
    folder = _first(arguments, _FOLDER)
    whole = f"{folder.rstrip('/')}/{pattern}" if folder and pattern else pattern or folder
    return [Planned("FILE_LIST", [intake.mask(whole)])] if whole else []


def _fetch(intake: Intake, arguments: _Arguments, _cwd: str | None) -> list[Planned]:
    url, prompt = _first(arguments, ("url", "uri", "link")), _first(arguments, ("prompt",))
    if not url:
        found = [word for word in prompt.split() if word.startswith(("https://", "http://"))]
        url = found[0] if found else ""
    return [Planned("WEB_FETCH", [intake.mask(url)], intake.mask(prompt) if prompt else None)] if url else []


def _web_search(intake: Intake, arguments: _Arguments, _cwd: str | None) -> list[Planned]:
    query = _first(arguments, ("query", "search_term", "q"))
    return [Planned("WEB_SEARCH", [intake.mask(query)])] if query else []


def _plan(intake: Intake, arguments: _Arguments, _cwd: str | None) -> list[Planned]:
    for name in ("todos", "plan", "task_list", "items", "taskList"):
        if isinstance(arguments.get(name), list):
            return [Planned("PLAN_UPDATE", [json_text(arguments[name], intake.mask)])]
    return [Planned("PLAN_UPDATE", [json_text(arguments, intake.mask)])] if arguments else []


def _spawn(intake: Intake, arguments: _Arguments, _cwd: str | None) -> list[Planned]:
    task, description = _first(arguments, _TASK), _first(arguments, ("description",))
    agent = _first(arguments, _AGENT)
    if not (task or description):
        return []
    note = intake.mask(description) if task and description else None
    return [Planned("AGENT_SPAWN", [intake.mask(agent or "agent"), intake.mask(task or description), None], note)]


def _ask(intake: Intake, arguments: _Arguments, _cwd: str | None) -> list[Planned]:
    questions = [text_of(table_of(item).get("question")) for item in list_of(arguments.get("questions"))]
    text = "\n".join(filter(None, questions)) or _first(arguments, ("question", "prompt", "message"))
    return [Planned("ASK", [intake.mask(text), None])] if text else []


def _skill(intake: Intake, arguments: _Arguments, _cwd: str | None) -> list[Planned]:
    name = _first(arguments, ("name", "skill", "skill_name"))
    rest = {key: value for key, value in arguments.items() if key not in ("name", "skill", "skill_name")}
    return [Planned("SPELL_CAST", [intake.mask(name), json_text(rest, intake.mask) if rest else None])] if name else []


_NAMES: Final[dict[_Planner, str]] = {
    _shell: "bash execute shell_exec run_terminal execute_bash terminal shell run_shell_command execute_command run_command run_terminal_command "
    "run_terminal_cmd run_in_terminal local_shell shell_command exec_command exec",
    _read: "read read_file view_file cat open_file view notebookread read_notebook",
    _read_many: "read_many_files read_files",
    _write: "write write_file create_file write_to_file create",
    _edit: "edit edit_file replace str_replace multiedit multi_edit search_replace replace_in_file",
    _editor: "str_replace_editor file_editor str_replace_based_edit_tool",
    _patch: "apply_patch applypatch patch apply_diff",
    _delete: "delete delete_file remove_file",
    _search: "grep grep_search search_file_content search_files ripgrep codebase_search search_code search_dir search_file "
    "file_search_content rg",
    _list: "glob ls list list_dir list_directory list_files find_file find_files glob_file_search file_search",
    _fetch: "webfetch web_fetch fetchurl fetch fetch_url browser_navigate browse",
    _web_search: "websearch web_search google_web_search search_web",
    _plan: "todowrite todo_write write_todos update_plan task_tracker todo update_todo_list taskcreate taskupdate "
    "todos todolist",
    _spawn: "task delegate agent spawn_agent delegate_to_agent delegate_task subagent",
    _ask: "question ask_user askuserquestion ask_followup_question ask_user_question request_user_input clarify",
    _skill: "skill use_skill activate_skill invoke_skill",
}
_PLANNERS: Final[dict[str, _Planner]] = {name: planner for planner, names in _NAMES.items() for name in names.split()}
