"""Events that agents send to their hooks, as one closed set, and the answers in each agent's form.

Pure: a decoded document in, an event out. An event has what trails and memory need, without secrets, bounded, and in
the same form for each agent. Event names are those of the agents; an unknown one is refused by name, never guessed.

This module is loaded at every tool call: it imports nothing expensive.
"""

from __future__ import annotations

__all__ = [
    "AGENTS", "DOUBLE_MS", "FACTS_CHARACTERS_MAX", "KINDS", "Answer", "HookAgent", "HookEvent", "HookKind", "command_of", "decode_event", "encode_event",
    "folder_of", "identity_of", "is_reading", "kind_of", "mark_of", "named_files", "patched_paths", "read_event", "reply_to", "touched_paths",
]  # fmt: skip

import json
import os
from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias, cast

from periplus.base.errors import FormatError, UsageError
from periplus.base.named_tuple import NamedTuple
from periplus.interop.conversion.hook_blocks import strip_hook_blocks

HookKind: TypeAlias = Literal[
    "session-start", "prompt", "before-tool", "after-tool", "subagent-end", "compact", "turn-end", "session-end"
]
KINDS: Final[tuple[HookKind, ...]] = (
    "session-start", "prompt", "before-tool", "after-tool", "subagent-end", "compact", "turn-end", "session-end",
)  # fmt: skip
FACTS_CHARACTERS_MAX: Final = 10_000
DOUBLE_MS: Final = 2_000  # a repetition within this time is suppressed
_ANSWER_CHARACTERS_MAX: Final = 1 << 20
_SHORT_CHARACTERS_MAX: Final = 4096
_DEPTH_MAX: Final = 32
_VALUES_MAX: Final = 20_000
_PATHS_MAX: Final = 50

# Copies of whole files in some answers, which no step needs.
_BULKY: Final = frozenset({
    "originalFile", "originalFileContents", "structuredPatch", "oldString", "newString", "oldTodos", "newTodos", "edits", "base64",
})  # fmt: skip


class HookAgent(NamedTuple):
    """An agent with supported hooks. ``format`` is the name of its session format in ``trail import``; ``dialect``
    the form of its answers. ``tells`` are the kinds of events whose answer may carry facts for the model; ``asks``
    means that a tool call may be put before the person.
    """

    name: str
    format: str
    dialect: Literal["claude", "gemini", "cursor", "kimi", "hermes", "crush", "copilot"]
    tells: frozenset[HookKind]
    asks: bool


_TELLS: Final[frozenset[HookKind]] = frozenset({"session-start", "prompt", "before-tool"})
AGENTS: Final[dict[str, HookAgent]] = {
    row.name: row
    for row in (
        HookAgent("claude-code", "claude-code", "claude", _TELLS, asks=True),
        HookAgent("codex", "codex", "claude", _TELLS, asks=False),
        HookAgent("cursor", "cursor", "cursor", frozenset({"session-start"}), asks=True),
        HookAgent("vscode", "copilot-chat", "claude", _TELLS, asks=True),
        HookAgent("gemini", "gemini-cli", "gemini", frozenset({"session-start", "prompt", "after-tool"}), asks=False),
        HookAgent("opencode", "opencode", "claude", _TELLS, asks=False),
        HookAgent("qwen-code", "qwen-code", "claude", frozenset({"session-start", "prompt", "after-tool"}), asks=True),
        HookAgent("pi", "pi-agent", "claude", _TELLS, asks=True),
        HookAgent("kimi-code", "kimi-code", "kimi", frozenset({"prompt"}), asks=False),
        HookAgent("kilo-code", "kilo-code", "claude", _TELLS, asks=False),
        HookAgent("grok-build", "grok-build", "gemini", frozenset(), asks=False),
        HookAgent("hermes", "hermes", "hermes", frozenset({"prompt"}), asks=False),
        HookAgent("droid", "droid", "claude", frozenset({"session-start", "prompt"}), asks=True),
        HookAgent("crush", "crush", "crush", frozenset({"before-tool"}), asks=False),
        HookAgent("cline", "cline", "claude", _TELLS, asks=False),
        HookAgent(
            "copilot-cli", "copilot-cli", "copilot", frozenset({"session-start", "prompt", "after-tool"}), asks=True
        ),
    )
}
_NAMES: Final[dict[HookKind, str]] = {
    "session-start": "sessionstart onsessionstart",
    "prompt": "userpromptsubmit beforesubmitprompt beforeagent prellmcall",
    "before-tool": "pretooluse beforetool beforeshellexecution beforemcpexecution beforereadfile pretoolcall",
    "after-tool": "posttooluse posttoolusefailure aftertool aftershellexecution aftermcpexecution afterfileedit posttoolcall",
    "subagent-end": "subagentstop",
    "compact": "precompact precompress",
    "turn-end": "stop afteragent onsessionend",
    "session-end": "sessionend onsessionfinalize",
}
_KIND_BY_NAME: Final = {name: kind for kind, names in _NAMES.items() for name in names.split()}
# Events of Cursor that name no tool, and their tools.
_TOOLS_BY_NAME: Final = {
    "beforeshellexecution": "Shell", "aftershellexecution": "Shell", "beforereadfile": "Read", "afterfileedit": "Edit",
}  # fmt: skip
_BARE_FIELDS: Final = ("command", "cwd", "file_path", "edits")  # of those events


class HookEvent(NamedTuple):
    """An event of an agent. ``arguments`` and ``response`` are masked JSON values; ``sub`` is the subagent it
    happened in, ``at_ms`` the time of its report.
    """

    kind: HookKind
    agent: str
    session: str
    at_ms: int
    name: str = ""
    cwd: str = ""
    transcript: str = ""
    sub: str = ""
    sub_kind: str = ""
    source: str = ""
    model: str = ""
    prompt: str = ""
    tool: str = ""
    call: str = ""
    arguments: object = None
    response: object = None
    is_failed: bool = False
    error: str = ""
    duration_ms: int = -1
    version: str = ""
    writer: str = ""  # who writes, where given; else the agent
    client: str = ""  # the process that the hook was started for: ``base.process.process_marks.text_of_mark``


_TYPES: Final[dict[str, type]] = {
    name: {"at_ms": int, "duration_ms": int, "is_failed": bool}.get(name, str)
    for name in HookEvent._fields
    if name not in ("arguments", "response")  # these may be any JSON value
}


class Answer(NamedTuple):
    """``facts`` are for the model; ``decision`` on a tool call with its ``reason``, empty for none. ``told`` are the
    lines of ``facts`` that need not be repeated in the same session.
    """

    facts: str = ""
    decision: Literal["", "ask", "deny"] = ""
    reason: str = ""
    told: tuple[str, ...] = ()


def kind_of(name: str) -> HookKind:
    """Return the kind of the event that an agent calls ``name``. Raises UsageError."""
    kind = _KIND_BY_NAME.get(_plain(name))
    if kind is None:
        raise UsageError(f"unknown event {name[:60]!r}", mend=f"Known events: {', '.join(_KIND_BY_NAME)}.")
    return kind


def folder_of(document: Mapping[str, object]) -> str:
    """Return the working folder of the session, empty where it is not given."""
    roots = document.get("workspace_roots")
    first = roots[0] if isinstance(roots, list) and roots else ""
    for value in (first, document.get("cwd")):
        if isinstance(value, str) and value.startswith("/") and "\0" not in value:
            return value[:_SHORT_CHARACTERS_MAX]
    return ""


def read_event(
    agent: str, name: str, document: object, now_ms: int, mask: Callable[[str], tuple[str, int]]
) -> HookEvent:
    """Parse the event ``name`` of ``agent`` from the input of its hook. Raises UsageError, FormatError naming the
    field.
    """
    kind = kind_of(name)
    if agent not in AGENTS:
        raise UsageError(f"unknown agent {agent[:60]!r}", mend=f"One of: {', '.join(AGENTS)}.")
    if not isinstance(document, dict):
        raise FormatError(f"{name}: a JSON object was expected, not {type(document).__name__}")
    fields = cast("dict[str, object]", document)
    if AGENTS[agent].dialect == "hermes":
        fields = _spread(fields)
    session = _first(fields, "session_id", "sessionId", "conversation_id")
    if not session or len(session) > 200:
        raise FormatError(f"{name}: session_id: {'missing' if not session else 'too long'}")
    prompt = _text_of(fields.get("prompt"))
    if kind == "prompt" and prompt is None:
        raise FormatError(f"{name}: prompt: a text was expected")
    tool, arguments, response = _call(fields, _plain(name))
    if kind in ("before-tool", "after-tool") and not tool:
        raise FormatError(f"{name}: tool_name: missing")
    cleaner = _Cleaner(mask)
    duration = fields.get("duration_ms", fields.get("durationMs", fields.get("duration")))
    failure = _failure(response)
    return HookEvent(
        kind,
        agent,
        cleaner.short(session),
        now_ms,
        name[:60],
        cleaner.short(folder_of(fields)),
        _first(fields, "transcript_path", "agent_transcript_path")[:_SHORT_CHARACTERS_MAX],
        cleaner.short(_first(fields, "agent_id", "agentId", "subagentId")),
        cleaner.short(_first(fields, "agent_type", "subagent_type", "subagentType")),
        cleaner.short(_first(fields, "source", "trigger", "reason")),
        cleaner.short(_first(fields, "model")),
        cleaner.text(strip_hook_blocks(prompt)[0]) if kind == "prompt" and prompt else "",
        cleaner.short(tool),
        cleaner.short(_first(fields, "tool_use_id", "toolUseId", "tool_call_id") or _moment_of(agent, fields)),
        cleaner.value(arguments, 0),  # never shortened: a step must not report another action
        cleaner.value(response, 0, is_response=True) if kind == "after-tool" else None,
        is_failed=kind == "after-tool" and (_plain(name) == "posttoolusefailure" or bool(failure)),
        error=cleaner.text(_first(fields, "error", "error_message") or failure or _failure(fields))[
            :_SHORT_CHARACTERS_MAX
        ],
        duration_ms=int(duration) if isinstance(duration, int | float) and 0 <= duration < 1 << 40 else -1,
        version=cleaner.short(_first(fields, "cursor_version", "version")),
    )


def mark_of(event: HookEvent) -> str:
    """Return the mark by which the spool detects a repeated event, as with hooks set both for the person and for the
    project.
    """
    return identity_of(event)[:16]


def identity_of(event: HookEvent) -> str:
    """Return a digest that is equal for two reports of the same event: it covers the agent, not the time."""
    import hashlib

    said: list[object] = [event.agent, event.session, event.kind, event.sub, event.call, event.tool, event.arguments]
    if (
        not event.call
    ):  # with an id, the id and the call identify it: model servers number the calls of each answer alike
        said += [event.name, event.source, event.prompt, event.error, event.response]
    data = json.dumps(said, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(data.encode("utf-8", "replace")).hexdigest()[:32]


def encode_event(event: HookEvent) -> bytes:
    """Encode the event as one JSON document; ``decode_event`` restores it."""
    fields = {name: value for name, value in event._asdict().items() if not _is_default(name, value)}
    return json.dumps({"v": 1, **fields}, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _is_default(name: str, value: object) -> bool:
    default = HookEvent._field_defaults.get(name, HookEvent)  # a required field is never left out
    return type(value) is type(default) and value == default


def decode_event(data: bytes) -> HookEvent:
    """Parse the output of ``encode_event``. Raises FormatError for other data."""
    try:
        fields = json.loads(data)
        if fields.pop("v") != 1 or fields["kind"] not in KINDS or fields["agent"] not in AGENTS:
            raise FormatError("an event of another version")
        event = HookEvent(**fields)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise FormatError(f"not an event: {error}") from error
    if any(type(value) is not _TYPES.get(name, type(value)) for name, value in event._asdict().items()):
        raise FormatError("not an event: a field has the wrong type")
    return event


def touched_paths(event: HookEvent) -> tuple[list[str], bool]:
    """Return the paths that a tool is about to touch, as it names them, and whether it changes them."""
    arguments = _arguments(event)
    tool = _plain(event.tool)
    if tool in ("applypatch", "patch"):
        named = _named(arguments) if isinstance(arguments, dict) else []
        return _patched(arguments) or named, True
    if not isinstance(arguments, dict) or tool in _SHELLS:
        return [], False
    changes = any(word in tool for word in _CHANGING) and "todo" not in tool
    paths = _named(arguments)
    for value in arguments.values():  # edits of several files in one call
        for one in value[:_PATHS_MAX] if isinstance(value, list) else ():
            paths += _named(one) if isinstance(one, dict) else []
    return list(dict.fromkeys(paths))[:_PATHS_MAX], changes


def command_of(event: HookEvent) -> tuple[str, str]:
    """Return the command that a tool gives to a shell, and its working folder; empty for other tools."""
    arguments = _arguments(event)
    if _plain(event.tool) not in _SHELLS or not isinstance(arguments, dict):
        return "", ""
    folder = os.path.join(event.cwd, _first(arguments, *_FOLDER_FIELDS))
    for name in _COMMAND_FIELDS:
        value = arguments.get(name)
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            import shlex

            return shlex.join(value), folder
        if isinstance(value, str) and value:
            return value, folder
    return "", ""


def named_files(command: str, folder: str) -> list[str]:
    """Return the words of a command that name existing files in ``folder``: those that it may read. Words are split
    in a simple way.
    """
    found: dict[str, None] = {}
    word: list[str] = []
    quote = ""
    for character in f"{command[:_COMMAND_CHARACTERS_MAX]}\n":
        if quote or character in "'\"":
            quote = "" if character == quote else quote or character
            word += [character] if quote and character != quote else []
        elif character in " \t\n;|&<>()=":
            found["".join(word)] = None
            word = []
        else:
            word.append(character)
        if len(found) > _WORDS_MAX:
            break
    words = [
        one for one in found if one and not one.startswith("-") and "\0" not in one and len(one) < _SHORT_CHARACTERS_MAX
    ]
    return [one for one in words if os.path.isfile(os.path.join(folder, one))][:_PATHS_MAX]


def is_reading(command: str) -> bool:
    """Test for a command that certainly writes nothing: plain words, the first of which is a reading program. Covers
    most commands without parsing.
    """
    return (
        len(command) < _SHORT_CHARACTERS_MAX
        and command.partition(" ")[0] in _READERS
        and all(character.isalnum() or character in " _./-=:,@%+" for character in command)
    )


def patched_paths(command: str, folder: str) -> list[str]:
    """Return the files named by a patch within a command, as some agents pass it to their shell."""
    return [os.path.join(folder, path) for path in _patched(command)] if _PATCH_BEGIN in command else []


def _arguments(event: HookEvent) -> object:
    """Return the arguments of a call; some agents send them as a JSON text."""
    arguments = event.arguments
    if isinstance(arguments, str) and arguments.lstrip().startswith("{"):
        try:
            return cast("object", json.loads(arguments))
        except (ValueError, RecursionError):
            return None
    return arguments


def _named(arguments: Mapping[str, object]) -> list[str]:
    paths: list[str] = []
    for name in _PATH_FIELDS:
        value = arguments.get(name)
        values = value if isinstance(value, list) else [value]
        paths += [one for one in values if isinstance(one, str) and one]
    return paths


_PATH_FIELDS: Final = (
    "file_path", "filePath", "absolute_path", "notebook_path", "target_file", "relative_path", "path", "paths", "files", "filename", "file",
    "source", "destination", "old_path", "new_path",
)  # fmt: skip
_SHELLS: Final = frozenset({
    "bash", "shell", "localshell", "shellcommand", "containerexec", "execcommand", "runshellcommand", "runcommand", "runinterminal",
    "runterminalcommand", "runterminalcmd", "terminal", "runcommands",
})  # fmt: skip
_COMMAND_CHARACTERS_MAX: Final = 1 << 16
_WORDS_MAX: Final = 500
_READERS: Final = frozenset(
    {"cat", "du", "echo", "file", "grep", "head", "ls", "nl", "pwd", "stat", "tail", "wc", "which"}
)
_PATCH_BEGIN: Final = "*** Begin Patch"
_COMMAND_FIELDS: Final = ("command", "cmd", "script")
_FOLDER_FIELDS: Final = ("workdir", "cwd", "dir_path", "directory", "working_directory")
_CHANGING: Final = ("edit", "write", "replace", "create", "delete", "rename", "move", "insert")
_PATCH_MARKS: Final = ("*** Update File: ", "*** Add File: ", "*** Delete File: ", "*** Move to: ")


def _patched(arguments: object) -> list[str]:
    texts = list(arguments.values()) if isinstance(arguments, dict) else [arguments]
    paths: dict[str, None] = {}
    for text in texts:
        for line in text.splitlines() if isinstance(text, str) else ():
            mark = next((mark for mark in _PATCH_MARKS if line.startswith(mark)), None)
            if mark is not None and len(paths) < _PATHS_MAX:
                paths[line.removeprefix(mark).strip()] = None
    return list(paths)


def reply_to(event: HookEvent, answer: Answer) -> dict[str, object] | None:
    """Return the answer in the form of the agent; None for no answer."""
    agent = AGENTS[event.agent]
    facts = answer.facts if event.kind in agent.tells else ""
    decision = answer.decision if event.kind == "before-tool" else ""
    if decision == "ask" and not agent.asks:
        decision = ""  # it cannot ask anybody; that is no refusal
    if not facts and not decision:
        return None
    if agent.dialect == "cursor":
        if decision:
            return {"permission": decision, "user_message": answer.reason, "agent_message": answer.reason}
        return {"additional_context": facts}
    if agent.dialect == "crush":
        told = {"context": facts} if facts else {}
        return {**told, "decision": "deny", "reason": answer.reason} if decision else {**told}
    if agent.dialect == "hermes":
        return {"decision": "block", "reason": answer.reason} if decision else {"context": facts}
    if agent.dialect == "kimi" and facts:
        return {"message": facts}
    if agent.dialect == "gemini" and decision:
        return {"decision": decision, "reason": answer.reason}
    output: dict[str, object] = {} if agent.dialect == "copilot" else {"hookEventName": event.name}
    if facts:
        output["additionalContext"] = facts
    if decision:
        output |= {"permissionDecision": decision, "permissionDecisionReason": answer.reason}
    return output if agent.dialect == "copilot" else {"hookSpecificOutput": output}


def _call(fields: dict[str, object], name: str) -> tuple[str, object, object]:
    """Return the tool, its arguments and its answer."""
    tool = _first(fields, "tool_name", "toolName") or _TOOLS_BY_NAME.get(name, "")
    arguments = fields.get("tool_input", fields.get("toolInput"))
    if arguments is None and tool:
        arguments = {key: fields[key] for key in _BARE_FIELDS if key in fields}
    if fields.get("toolInputTruncated") is True:
        arguments = None  # what is left may be another action
    for key in ("tool_response", "toolResponse", "toolResult", "tool_result", "tool_output", "result_json", "output"):
        if key in fields:
            return tool, arguments, fields[key]
    return tool, arguments, None


def _spread(fields: dict[str, object]) -> dict[str, object]:
    """Return the fields of an event of Hermes with those that it keeps under ``extra``, by the names of others."""
    extra = fields.get("extra")
    found = {**extra, **fields} if isinstance(extra, dict) else fields
    found |= {"prompt": found.get("user_message"), "tool_response": found.get("result")}
    if found.get("status") in ("error", "blocked"):
        found["tool_response"] = {"error": _first(found, "error_message", "result")}
    return found


def _moment_of(agent: str, fields: dict[str, object]) -> str:
    """Return what identifies an event of Copilot CLI, which names no calls: its files of hooks are told of it with the same time."""
    return _first(fields, "timestamp") if agent == "copilot-cli" else ""


def _text_of(prompt: object) -> str | None:
    """Return the text of a prompt, which may be given in parts; None where there is none."""
    if isinstance(prompt, list):
        return "\n".join(
            _first(part, "text") for part in prompt if isinstance(part, dict) and part.get("type") == "text"
        )
    return prompt if isinstance(prompt, str) else None


def _failure(response: object) -> str:
    """Return the error in the answer of a tool."""
    error = response.get("error") if isinstance(response, dict) else None
    if isinstance(error, dict):
        error = error.get("message")
    return error if isinstance(error, str) else ""


def _first(fields: Mapping[str, object], *names: str) -> str:
    return next((value for name in names if isinstance(value := fields.get(name), str) and value), "")


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


class _Cleaner:
    """Removes secrets, lone surrogates and excess from values."""

    def __init__(self, mask: Callable[[str], tuple[str, int]]) -> None:
        self._mask = mask
        self._room = _VALUES_MAX

    def text(self, text: str) -> str:
        return self._mask(text if text.isascii() else _whole(text))[0]

    def short(self, text: str) -> str:
        return self.text(text[:_SHORT_CHARACTERS_MAX]) if text else ""

    def value(self, value: object, depth: int, *, is_response: bool = False) -> object:
        self._room -= 1
        if isinstance(value, str):
            return None if is_response and len(value) > _ANSWER_CHARACTERS_MAX else self.text(value)
        if depth >= _DEPTH_MAX or self._room < 0:
            return None if isinstance(value, dict | list) else value
        if isinstance(value, dict):
            return {
                self.short(str(key)): self.value(one, depth + 1, is_response=is_response)
                for key, one in value.items()
                if not (is_response and key in _BULKY)
            }
        if isinstance(value, list):
            return [self.value(one, depth + 1, is_response=is_response) for one in value]
        return value


def _whole(text: str) -> str:
    """Replace lone surrogates by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
