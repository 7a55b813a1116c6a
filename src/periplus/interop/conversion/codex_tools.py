"""Tools of Codex as steps."""

from __future__ import annotations

__all__ = ["plan_tool"]

from typing import Final

from periplus.interop.conversion.apply_patch import find_patch
from periplus.interop.conversion.claude_tools import shell_steps, tool_call
from periplus.interop.conversion.intake import Intake, Planned
from periplus.interop.conversion.tool_calls import patch_steps
from periplus.interop.readers.json_values import decode_table, json_text, list_of, table_of, text_of

_SHELLS: Final = frozenset({
    "shell", "shell_command", "exec_command", "local_shell", "container.exec", "run_shell_command", "bash", "unified_exec",
})  # fmt: skip
_MCP: Final = "mcp__"
_SAFE: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./=:,@%+")


def plan_tool(intake: Intake, name: str, given: object, namespace: str, cwd: str | None) -> list[Planned]:
    """Return the steps of one call of the tool ``name``: at least one. ``given`` is JSON, JSON as text, or a text."""
    arguments = _table(given)
    if name == "apply_patch":
        patch = find_patch(given if isinstance(given, str) and not arguments else _patch_text(arguments))
        steps = patch_steps(intake, patch) if patch is not None else []
        if steps:
            return steps
    elif name in _SHELLS:
        steps = _shell(intake, arguments, cwd)
        if steps:
            return steps
    elif name == "update_plan":
        return [Planned("PLAN_UPDATE", [json_text(arguments or given, intake.mask)])]
    elif name == "view_image" and text_of(arguments.get("path")):
        return [Planned("FILE_READ", [intake.mask(text_of(arguments.get("path"))), None])]
    elif name == "web_search":
        steps = _web(intake, arguments)
        if steps:
            return steps
    elif name == "spawn_agent":
        task = text_of(arguments.get("message")) or text_of(arguments.get("prompt"))
        agent = text_of(arguments.get("agent_type")) or text_of(arguments.get("role")) or "agent"
        return [Planned("AGENT_SPAWN", [intake.mask(agent), intake.mask(task), None])]
    elif name == "request_user_input":
        asked = [text_of(table_of(item).get("question")) for item in list_of(arguments.get("questions"))]
        if any(asked):
            return [Planned("ASK", [intake.mask("\n".join(filter(None, asked))), None])]
    server, tool = _server(name, namespace)
    return [tool_call(intake, server, tool, arguments or given)]


def _table(given: object) -> dict[str, object]:
    if isinstance(given, dict):
        return given
    if isinstance(given, str) and given[:1] == "{":
        return decode_table(given.encode("utf-8", "replace")) or {}  # invalid JSON stays a text
    return {}


def _patch_text(arguments: dict[str, object]) -> str:
    return text_of(arguments.get("patch")) or text_of(arguments.get("input"))


def _shell(intake: Intake, arguments: dict[str, object], cwd: str | None) -> list[Planned]:
    words = arguments.get("command", arguments.get("cmd"))
    command = words if isinstance(words, str) else _command([text_of(word) for word in list_of(words)])
    if not command:
        return []
    folder = next(
        (text_of(arguments.get(key)) for key in ("workdir", "cwd", "working_directory") if arguments.get(key)), cwd
    )
    if "apply_patch" in command:
        patch = find_patch(command)
        steps = patch_steps(intake, patch) if patch is not None else []
        if steps:
            return steps
    return shell_steps(intake, command, folder)


def _command(words: list[str]) -> str:
    """Return the command of a list of words; the script of ``bash -lc SCRIPT``."""
    if len(words) == 3 and words[0].rsplit("/", 1)[-1] in ("bash", "sh", "zsh") and words[1] in ("-lc", "-c"):
        return words[2]
    if len(words) == 2 and words[0] == "apply_patch":
        return "\n".join(words)
    return " ".join(
        word if word and _SAFE.issuperset(word) else "'" + word.replace("'", "'\\''") + "'" for word in words
    )


def _web(intake: Intake, action: dict[str, object]) -> list[Planned]:
    url = text_of(action.get("url"))
    if url and action.get("type") != "search":
        pattern = text_of(action.get("pattern"))
        return [Planned("WEB_FETCH", [intake.mask(url)], intake.mask(f"looked for {pattern}") if pattern else None)]
    queries = [text_of(query) for query in list_of(action.get("queries"))]
    query = text_of(action.get("query")) or "\n".join(filter(None, queries))
    return [Planned("WEB_SEARCH", [intake.mask(query)])] if query else []


def _server(name: str, namespace: str) -> tuple[str, str]:
    """Split a name such as ``mcp__server__tool``; the server is empty for Codex's own tools."""
    if namespace.startswith(_MCP):
        return namespace[len(_MCP) :].rstrip("_"), name
    whole = name.removeprefix(_MCP)
    server, found, tool = whole.partition("__")
    return (server, tool) if found and server and tool else ("", name)
