"""Tools of Claude Code as steps.

A call with unexpected arguments becomes a TOOL_CALL with the arguments as they are, so that no action of an agent is
lost.
"""

from __future__ import annotations

__all__ = ["plan_tool", "shell_steps", "tool_call"]

from collections.abc import Callable
from typing import Final

from periplus.interop.conversion.intake import Intake, Planned
from periplus.interop.readers.json_values import integer_of, json_text, list_of, table_of, text_of
from periplus.interop.shell_commands.actions import Action, recognise

EDITS_MAX: Final = 1000
_MCP: Final = "mcp__"


def plan_tool(intake: Intake, name: str, arguments: dict[str, object], cwd: str | None) -> list[Planned]:
    """Return the steps of one call of the tool ``name``: at least one."""
    planner = _PLANNERS.get(name.lower())
    if planner is not None:
        steps = planner(intake, arguments, cwd)
        if steps:
            return steps
    if name.startswith(_MCP):
        server, _, tool = name[len(_MCP) :].partition("__")
        return [tool_call(intake, server, tool, arguments)]
    return [tool_call(intake, "", name, arguments)]


def tool_call(intake: Intake, server: str, name: str, arguments: object) -> Planned:
    text = json_text(arguments, intake.mask)
    return Planned("TOOL_CALL", [intake.mask(server), intake.mask(name), text])


def shell_steps(intake: Intake, command: str, cwd: str | None, note: str | None = None) -> list[Planned]:
    """Return the steps of a command, with its text in the note, or one COMMAND_RUN."""
    raw = intake.mask(command)
    steps = [_action(intake, action, raw, cwd) for action in recognise(command)]
    if note is not None:  # begun in the background or fed with input: the outcome of tests is unknown
        steps = [step._replace(is_hidden=True) for step in steps]
    return steps or [Planned("COMMAND_RUN", [raw, intake.mask(cwd) if cwd else None], note)]


def _action(intake: Intake, action: Action, raw: str, cwd: str | None) -> Planned:
    what = intake.mask(action.what)
    is_hidden = action.is_hidden or action.is_optional
    if action.kind == "test":
        return Planned("TEST_RUN", [what, None], raw, is_hidden, action.rivals)
    if action.kind == "search":
        where = intake.mask(action.where) if action.where else None
        return Planned("SEARCH_CODE", [what, where], raw, is_hidden, action.rivals)
    folder = action.where if action.where and action.where.startswith("/") else (cwd or action.where or "")
    repo = intake.mask(folder.rstrip("/").rsplit("/", 1)[-1])
    if action.kind == "push":
        return Planned("GIT_PUSH", [repo, what or None], raw, is_hidden, action.rivals)
    return Planned("GIT_COMMIT", [repo, what, None], raw, is_hidden, action.rivals)


def _read(intake: Intake, arguments: dict[str, object], _cwd: str | None) -> list[Planned]:
    path = (
        text_of(arguments.get("file_path")) or text_of(arguments.get("notebook_path")) or text_of(arguments.get("path"))
    )
    if not path:
        return []
    offset = integer_of(arguments.get("offset"))
    limit = integer_of(arguments.get("limit"))
    lines = None
    if offset is not None or limit is not None:
        first = max(1, offset or 1)
        lines = f"{first}-{first + limit - 1}" if limit is not None and limit > 0 else f"{first}-"
    return [Planned("FILE_READ", [intake.mask(path), lines])]


def _write(intake: Intake, arguments: dict[str, object], _cwd: str | None) -> list[Planned]:
    path, content = text_of(arguments.get("file_path")), arguments.get("content")
    if not path or not isinstance(content, str):
        return []
    return [Planned("FILE_WRITE", [intake.mask(path), intake.keep(content)])]


def _edit(intake: Intake, arguments: dict[str, object], _cwd: str | None) -> list[Planned]:
    path = text_of(arguments.get("file_path"))
    step = _replacement(intake, path, arguments) if path else None
    return [step] if step is not None else []


def _multi_edit(intake: Intake, arguments: dict[str, object], _cwd: str | None) -> list[Planned]:
    path = text_of(arguments.get("file_path"))
    edits = list_of(arguments.get("edits"))
    if not path or len(edits) > EDITS_MAX:
        return []
    steps = [_replacement(intake, path, table_of(edit)) for edit in edits]
    return [step for step in steps if step is not None] if None not in steps else []


def _replacement(intake: Intake, path: str, edit: dict[str, object]) -> Planned | None:
    old, new = edit.get("old_string"), edit.get("new_string")
    if not isinstance(old, str) or not isinstance(new, str):
        return None
    note = "every occurrence" if edit.get("replace_all") is True else None
    return Planned("FILE_EDIT", [intake.mask(path), intake.mask(old), intake.mask(new)], note)


def _notebook_edit(intake: Intake, arguments: dict[str, object], _cwd: str | None) -> list[Planned]:
    path = text_of(arguments.get("notebook_path"))
    if not path:
        return []
    cell = text_of(arguments.get("cell_id")) or str(integer_of(arguments.get("cell_number")) or "")
    note = " ".join(("cell", *filter(None, (cell, text_of(arguments.get("edit_mode"))))))
    new = text_of(arguments.get("new_source"))
    return [Planned("FILE_EDIT", [intake.mask(path), "", intake.mask(new)], intake.mask(note))]


def _bash(intake: Intake, arguments: dict[str, object], cwd: str | None) -> list[Planned]:
    command = text_of(arguments.get("command"))
    if not command:
        return []
    note = "in the background" if arguments.get("run_in_background") is True else None
    return shell_steps(intake, command, cwd, note)


def _grep(intake: Intake, arguments: dict[str, object], _cwd: str | None) -> list[Planned]:
    pattern = arguments.get("pattern")
    if not isinstance(pattern, str):
        return []
    path, glob = text_of(arguments.get("path")), text_of(arguments.get("glob"))
    note = intake.mask(f"in {glob}") if glob else None
    return [Planned("SEARCH_CODE", [intake.mask(pattern), intake.mask(path) if path else None], note)]


def _glob(intake: Intake, arguments: dict[str, object], _cwd: str | None) -> list[Planned]:
    pattern, path = text_of(arguments.get("pattern")), text_of(arguments.get("path"))
    whole = f"{path.rstrip('/')}/{pattern}" if path and pattern else pattern or path
    return [Planned("FILE_LIST", [intake.mask(whole)])] if whole else []


def _fetch(intake: Intake, arguments: dict[str, object], _cwd: str | None) -> list[Planned]:
    url, prompt = text_of(arguments.get("url")), text_of(arguments.get("prompt"))
    return [Planned("WEB_FETCH", [intake.mask(url)], intake.mask(prompt) if prompt else None)] if url else []


def _web_search(intake: Intake, arguments: dict[str, object], _cwd: str | None) -> list[Planned]:
    query = text_of(arguments.get("query"))
    return [Planned("WEB_SEARCH", [intake.mask(query)])] if query else []


def _spawn(intake: Intake, arguments: dict[str, object], _cwd: str | None) -> list[Planned]:
    kind = text_of(arguments.get("subagent_type"))
    prompt, description = text_of(arguments.get("prompt")), text_of(arguments.get("description"))
    if not (kind or prompt or description):
        return []
    note = intake.mask(description) if prompt and description else None
    return [Planned("AGENT_SPAWN", [intake.mask(kind or "agent"), intake.mask(prompt or description), None], note)]


def _plan(intake: Intake, arguments: dict[str, object], _cwd: str | None) -> list[Planned]:
    return [Planned("PLAN_UPDATE", [json_text(arguments, intake.mask)])]


def _todos(intake: Intake, arguments: dict[str, object], _cwd: str | None) -> list[Planned]:
    todos = arguments.get("todos")
    return [Planned("PLAN_UPDATE", [json_text(todos if isinstance(todos, list) else arguments, intake.mask)])]


def _skill(intake: Intake, arguments: dict[str, object], _cwd: str | None) -> list[Planned]:
    name = text_of(arguments.get("skill")) or text_of(arguments.get("command"))
    if not name:
        return []
    rest = {key: value for key, value in arguments.items() if key not in ("skill", "command")}
    return [Planned("SPELL_CAST", [intake.mask(name), json_text(rest, intake.mask) if rest else None])]


def _ask(intake: Intake, arguments: dict[str, object], _cwd: str | None) -> list[Planned]:
    questions = [text_of(table_of(item).get("question")) for item in list_of(arguments.get("questions"))]
    text = "\n".join(filter(None, questions)) or text_of(arguments.get("question"))
    return [Planned("ASK", [intake.mask(text), None])] if text else []


_Planner = Callable[[Intake, dict[str, object], str | None], list[Planned]]
_PLANNERS: Final[dict[str, _Planner]] = {
    "read": _read,
    "notebookread": _read,
    "write": _write,
    "edit": _edit,
    "multiedit": _multi_edit,
    "notebookedit": _notebook_edit,
    "bash": _bash,
    "grep": _grep,
    "glob": _glob,
    "ls": _glob,
    "webfetch": _fetch,
    "websearch": _web_search,
    "web_search": _web_search,
    "task": _spawn,
    "agent": _spawn,
    "todowrite": _todos,
    "taskcreate": _plan,
    "taskupdate": _plan,
    "exitplanmode": _plan,
    "skill": _skill,
    "slashcommand": _skill,
    "askuserquestion": _ask,
}
