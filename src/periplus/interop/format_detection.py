"""Detection of the format of a file from its beginning, and of other known files for a helpful error."""

from __future__ import annotations

__all__ = ["detect_format", "looks_like"]

from typing import Final

from periplus.base.errors import FormatError
from periplus.interop.conversion.source import Head
from periplus.interop.formats import FORMATS, Format, importer_of, kinds_of_files
from periplus.interop.refusals import refusal_of

_PROBE_BYTES: Final = 8192
_JSON: Final = "it looks like a JSON document of another program"
_MARKDOWN: Final = "it looks like Markdown"
_TEXT: Final = "its first lines are not JSON records"
_NAME: Final = ": name "  # begins the part of a sentence that names another file
_OF_NO_KIND: Final = (_JSON, _MARKDOWN, _TEXT)

_TASK: Final = "task of Cline, Roo Code or Kilo Code: name api_conversation_history.json, beside it"

# The first row whose marks all occur in the head of the file is taken.
_OTHERS: Final[tuple[tuple[str, tuple[bytes, ...]], ...]] = (
    ("a session of Gemini CLI", (b'"projectHash"',)),
    ("a session of Gemini CLI", (b'"type":"gemini"',)),
    ("a session of Qwen Code", (b'"parentUuid"', b'"parts"')),
    (
        "a rewritten session of Claude Code: name the agent's own file, which has a record on each line",
        (b'"uuid"', b'"sessionId"', b'"message"'),
    ),
    ("a session of Copilot", (b'"session.start"',)),
    (f"the display of a {_TASK}", (b'"type":"say"', b'"ts":')),
    (f"facts about a {_TASK}", (b'"files_in_context":', b'"model_usage":')),
    (f"facts about a {_TASK}", (b'"tokensIn":', b'"totalCost":', b'"task":')),
    ("a trace of OpenTelemetry", (b'"resourceSpans"',)),
    ("a trace of OpenTelemetry", (b'"observations"',)),
    ("a trace of OpenTelemetry", (b'"trace"', b'"projectId"')),
    ("a trajectory of SWE-agent", (b'"trajectory"',)),
    ("a trajectory of SWE-agent", (b'"history"', b'"message_type"')),
    ("a trajectory of mini-swe-agent", (b'"role"', b"THOUGHT")),
    ("a log of Inspect", (b'"eval"', b'"run_id"')),
    ("events of OpenHands", (b'"kind"', b'"source"', b'"ConversationStateUpdateEvent"')),
    ("a record of OpenHands", (b'"instance_id"', b'"test_result"')),
    ("a session of Continue", (b'"workspaceDirectory"',)),
    ("a session of Cline", (b'"session_id"', b'"started_at"')),
    ("a session of Cline", (b'"updated_at"', b'"messages"')),
    ("a thread of Amp", (b'"messageId"', b'"messages"')),
    (
        "the summary of a session of Grok Build: name chat_history.jsonl beside it",
        (b'"chat_format_version"', b'"num_chat_messages"'),
    ),
    ("a session of Hermes", (b'"session_start":', b'"message_count":')),
    ("a session of Droid", (b'"type":"session_start"',)),
    (
        "the state of a session of Kimi Code: name the main agent's own file, agents/main/wire.jsonl",
        (b'"agents":', b'"homedir":'),
    ),
    (
        "a log of the older Kimi CLI, whose sessions Kimi Code takes over by kimi migrate",
        (b'"protocol_version"', b'"payload"'),
    ),
    ("a session of Kimi Code", (b'"protocol_version"',)),
    ("a session of Cursor", (b'"role"', b'"message"', b'"content"')),
    ("a session of Pi or OpenClaw", (b'"type":"session"',)),
)


def detect_format(head: Head) -> Format:
    """Return the format of the file that begins with ``head``. Raises FormatError that names the likely kind of the
    file.
    """
    for row in FORMATS:
        if importer_of(row).is_mine(head):
            return row
    data, path = head.data, head.path
    looks = _document(path, data) or looks_like(data)
    is_beside = looks in _OF_NO_KIND or _NAME in looks
    refusal = refusal_of(head, looks if is_beside else "")
    if refusal is not None:
        raise FormatError(
            f"not an importable transcript: {refusal.what}",
            path=path,
            safe="Nothing was imported.",
            mend=refusal.instead + refusal.also,
        )
    mend = f"Sessions of these can be imported: {kinds_of_files()}."
    if b"\0" in data[:_PROBE_BYTES]:
        raise FormatError(f"not a text file: {_binary(data)}", path=path, safe="Nothing was imported.", mend=mend)
    raise FormatError(
        f"not an importable transcript: {looks}",
        path=path,
        line=1,
        safe="Nothing was imported.",
        mend=mend,
    )


def _document(path: str, data: bytes) -> str:
    """Describe a document that an agent wrote, by the folder that it is in."""
    is_there = any(part.startswith("antigravity") for part in path.split("/")[:-1])
    if path.endswith(".md") and is_there and b"\0" not in data[:_PROBE_BYTES]:
        return "it looks like Markdown, as documents of Antigravity: name .system_generated/logs/transcript.jsonl beside it"
    return ""


def looks_like(head: bytes) -> str:
    """Describe an unknown text file, as the end of a sentence."""
    try:
        head[:_PROBE_BYTES].decode()
    except UnicodeDecodeError as error:
        if error.start < min(len(head), _PROBE_BYTES) - 4:
            return f"byte {error.start} is not UTF-8"
    start = head.lstrip()
    if start[:1] in (b"{", b"["):
        packed = start[: 8 * _PROBE_BYTES].replace(b'": ', b'":')
        for name, marks in _OTHERS:
            if all(mark in packed for mark in marks):
                return f"it looks like {name}"
        return _JSON
    if start.startswith((b"#", b"---\n", b"<!--")):
        return _MARKDOWN
    if start.startswith((b"diff --git", b"--- a/")):
        return "it looks like a patch"
    if start.startswith(b"<"):
        return "it looks like HTML or XML"
    return _TEXT


def _binary(head: bytes) -> str:
    if head.startswith(b"SQLite format 3"):
        return "it looks like an SQLite database"
    if head.startswith(b"PK\x03\x04"):
        return "it looks like a ZIP archive"
    if head.startswith(b"PPLS"):
        return "it looks like a file of Periplus itself"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or head[1:8:2] == b"\0\0\0\0":
        return "it looks like UTF-16"
    return "it holds NUL bytes"
