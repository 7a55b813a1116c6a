"""Records of Claude Code's session files, with the fields that steps need.

All else is left as bytes or ignored.
"""

from __future__ import annotations

__all__ = [
    "NO_MESSAGE", "REFUSED", "Attachment", "Facts", "Message", "Record", "decode_anything", "decode_attachment",
    "decode_facts", "decode_record",
]  # fmt: skip

from typing import Any, Final

import msgspec

_NO_BYTES: Final = msgspec.Raw(b"")


class Message(msgspec.Struct):
    id: Any = None
    model: Any = None
    content: Any = None
    usage: Any = None
    stop_reason: Any = None


class Record(msgspec.Struct, rename="camel"):
    type: Any = None
    subtype: Any = None
    uuid: Any = None
    parent_uuid: Any = None
    timestamp: Any = None
    session_id: Any = None
    agent_id: Any = None
    cwd: Any = None
    git_branch: Any = None
    version: Any = None
    is_meta: Any = None
    is_sidechain: Any = None
    is_compact_summary: Any = None
    is_api_error_message: Any = None
    tool_denial_kind: Any = None
    source_tool_assistant_uuid: Any = msgspec.field(default=None, name="sourceToolAssistantUUID")
    message: Message | None = None
    tool_use_result: msgspec.Raw = _NO_BYTES
    attachment: msgspec.Raw = _NO_BYTES


class Attachment(msgspec.Struct, rename="camel"):
    type: Any = None
    prompt: Any = None
    command_mode: Any = None
    origin: Any = None


class Facts(msgspec.Struct, rename="camel"):
    """Members of ``toolUseResult`` beyond the text that the model saw."""

    interrupted: Any = None
    is_error: Any = msgspec.field(default=None, name="is_error")
    exit_code: Any = None
    agent_id: Any = None
    answers: Any = None
    stdout: Any = None
    stderr: Any = None


NO_MESSAGE: Final = Message()
decode_record: Final = msgspec.json.Decoder(Record).decode
decode_attachment: Final = msgspec.json.Decoder(Attachment).decode
decode_facts: Final = msgspec.json.Decoder(Facts).decode
decode_anything: Final = msgspec.json.Decoder().decode
REFUSED: Final = (msgspec.MsgspecError, ValueError, RecursionError)
