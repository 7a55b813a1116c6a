"""Calls of tools that a model writes as XML within its text: a tag for the tool, and one in it for each argument.

The text is not valid XML, because the contents of files are not escaped. So an argument with the content of a file ends
at the last closing tag before the end of the call; all others end at the first one. A call without a closing tag ends
with the text.
"""

from __future__ import annotations

__all__ = ["TOOLS", "Part", "parts_of"]

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

TOOLS: Final = frozenset({
    "access_mcp_resource", "apply_diff", "apply_patch", "ask_followup_question", "attempt_completion", "browser_action",
    "codebase_search", "condense", "edit_file", "execute_command", "explain_changes", "fetch_instructions", "focus_chain",
    "generate_explanation", "generate_image", "insert_content", "list_code_definition_names", "list_files",
    "load_mcp_documentation", "new_rule", "new_task", "plan_mode_respond", "act_mode_respond", "read_file",
    "replace_in_file", "report_bug", "run_slash_command", "search_and_replace", "search_files", "skill", "summarize_task",
    "switch_mode", "update_todo_list", "use_mcp_tool", "use_skill", "use_subagents", "web_fetch", "web_search",
    "write_to_file",
})  # fmt: skip
_ARGUMENTS: Final = (
    "action", "absolutePath", "additional_context", "api_request_output", "args", "arguments", "command", "content",
    "context", "coordinate", "cwd", "diff", "end_line", "file_pattern", "files", "follow_up", "image", "input", "line",
    "line_count", "message", "mode", "mode_slug", "needs_more_exploration", "operations", "options", "path", "prompt",
    "query", "question", "reason", "recursive", "regex", "replace", "requires_approval", "response", "result", "search",
    "server_name", "size", "skill", "skill_name", "start_line", "steps_to_reproduce", "task", "task_progress", "text",
    "timeout", "title", "todos", "tool_name", "uri", "url", "use_regex", "ignore_case", "what_happened", "prompt_1",
    "prompt_2", "prompt_3", "prompt_4", "prompt_5", "allowed_domains", "blocked_domains",
)  # fmt: skip
_OPENING: Final = re.compile(f"<({'|'.join(sorted(TOOLS))}|thinking)>")
_ARGUMENT: Final = re.compile(rf"\s*<({'|'.join(_ARGUMENTS)})>")
_CLOSING: Final = re.compile(r"\s*</")
_CALLS_MAX: Final = 256


class Part(NamedTuple):
    """A text of the model, with an empty ``name``; a thought, with the name ``thinking``; or a call."""

    name: str
    text: str
    arguments: dict[str, object]


def parts_of(text: str) -> Iterator[Part]:
    """Yield the parts of a model's text in their order."""
    begin = at = 0
    for _ in range(_CALLS_MAX):
        match = _OPENING.search(text, at)
        if match is None:
            break
        name, at = match.group(1), match.end()
        closing = f"</{name}>"
        end = text.find(closing, at)
        if name == "thinking":
            if end >= 0:
                yield Part("", text[begin : match.start()], {})
                yield Part(name, text[at:end], {})
                begin = at = end + len(closing)
            continue
        if _ARGUMENT.match(text, at) is None and _CLOSING.match(text, at) is None:
            continue  # the name of a tool within a sentence
        arguments, stop = _arguments(text, at, end if end >= 0 else len(text))
        yield Part("", text[begin : match.start()], {})
        yield Part(name, "", arguments)
        end = text.find(closing, stop)
        begin = at = end + len(closing) if end >= 0 else len(text)
    yield Part("", text[begin:], {})


def _arguments(text: str, start: int, end: int) -> tuple[dict[str, object], int]:
    """Return the arguments of the call that begins at ``start``, and the place behind the last one."""
    arguments: dict[str, object] = {}
    at = start
    while (match := _ARGUMENT.match(text, at)) is not None and match.group(1) not in arguments:
        name, begin = match.group(1), match.end()
        closing = f"</{name}>"
        stop = text.rfind(closing, begin, end) if name in ("content", "diff") else text.find(closing, begin)
        if stop < 0:
            stop = text.find(closing, begin)
        if stop < 0:  # the model was cut off in the middle of an argument
            arguments[name] = _trimmed(name, text[begin:])
            return arguments, len(text)
        arguments[name] = _trimmed(name, text[begin:stop])
        at = stop + len(closing)
    return arguments, at


def _trimmed(name: str, value: str) -> str:
    return value.removeprefix("\n").removesuffix("\n") if name in ("content", "diff") else value.strip()
