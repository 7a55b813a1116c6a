"""Files of a Claude Code session: its own, and one for each subagent in a folder beside it."""

from __future__ import annotations

__all__ = ["CHILDREN_MAX", "is_mine", "read"]

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from periplus.base.errors import FormatError, PeriplusError
from periplus.interop.conversion.source import Head, Source
from periplus.interop.readers.json_values import integer_of, natural_of, table_of, text_of

if TYPE_CHECKING:
    from periplus.interop.importers.claude_code.session import Children
    from periplus.interop.model import Imported

CHILDREN_MAX: Final = 1000
_META_BYTES_MAX: Final = 64 << 10
_MARKS: Final = ("uuid", "parentUuid", "sessionId", "session_id")
_REMARKS: Final = {
    "summary": "leafUuid",
    "file-history-snapshot": "snapshot",
    "queue-operation": "sessionId",
    "custom-title": "sessionId",
    "ai-title": "sessionId",
    "agent-name": "sessionId",
    "last-prompt": "sessionId",
    "permission-mode": "permissionMode",
    "mode": "sessionId",
    "system": "parentUuid",
    "progress": "parentUuid",
    "attachment": "parentUuid",
}


def is_mine(head: Head) -> bool:
    for record in head.records:
        if _is_record(record):
            return True
        if "parts" in table_of(record.get("message")):
            return False  # the records of Qwen Code differ in little else
    start = head.start_of_large_record
    return b'"parentUuid"' in start and b'"sessionId"' in start


def _is_record(record: dict[str, object]) -> bool:
    kind = record.get("type")
    if not isinstance(kind, str):
        return False
    if kind in ("user", "assistant"):
        message = table_of(record.get("message"))
        return "content" in message and not record.keys().isdisjoint(_MARKS)
    mark = _REMARKS.get(kind)
    return mark is not None and mark in record


def read(source: Source) -> Iterator[Imported]:
    from periplus.interop.importers.claude_code.session import Children

    children = Children()
    imported: list[Imported] = []
    lost = 0
    for path, kind in _child_files(source.path):
        try:
            if not is_mine(Head.of(path)):
                raise FormatError("not of the agent of the session", path=path)
            child, prompt = _read_one(source.beside(path), children, (), kind)
        except PeriplusError:  # the session is complete without it; the count reports it
            lost += 1
            continue
        children.add(child, prompt)
        imported.append(child)
    session, _ = _read_one(source, children, tuple(imported), _kind_of(source.path), lost)
    yield session


def _kind_of(path: str) -> str | None:
    """Return the agent kind for a subagent's file that is imported alone: its trail is the same as with the session."""
    if not os.path.basename(path).startswith("agent-"):
        return None
    return text_of(_read_meta(path.removesuffix(".jsonl") + ".meta.json").get("agentType")) or None


def _read_one(
    source: Source, children: Children, imported: tuple[Imported, ...], kind: str | None, lost: int = 0
) -> tuple[Imported, str | None]:
    from periplus.interop.importers.claude_code.session import ClaudeImporter

    intake = source.intake()
    importer = ClaudeImporter(intake, children)
    digest, status = source.read_lines(importer, intake)
    if lost:
        intake.skip("file of a subagent that cannot be read", lost)
    session_id = intake.session_id or digest.hex()[:16]
    result = intake.finish(
        "claude-code",
        secret=source.secret(digest),
        source=digest,
        agent=f"claude-code/{kind}" if kind else "claude-code",
        trail_id=f"{session_id}/{intake.agent_id}" if intake.agent_id else session_id,
        status=status,
        tool="claude-code",
        children=imported,
    )
    return result, importer.first_prompt


def _child_files(path: str) -> list[tuple[str, str | None]]:
    """Return the files of a session's subagents with the kinds of the agents, parents before children."""
    folder = os.path.join(os.path.splitext(path)[0], "subagents")
    try:
        # No link is followed: a session from an untrusted source must not import other sessions of this machine.
        names = [] if os.path.islink(folder) else sorted(os.listdir(folder))
    except (OSError, ValueError):
        return []
    found = []
    for name in names:
        child = os.path.join(folder, name)
        if name.startswith("agent-") and name.endswith(".jsonl") and not os.path.islink(child):
            meta = _read_meta(child.removesuffix(".jsonl") + ".meta.json")
            found.append(
                (-natural_of(integer_of(meta.get("spawnDepth"))), child, text_of(meta.get("agentType")) or None)
            )
            if len(found) >= CHILDREN_MAX:
                break
    return [(child, kind) for _, child, kind in sorted(found, key=lambda one: one[:2])]


def _read_meta(path: str) -> dict[str, object]:
    import orjson

    from periplus.interop.readers.line_reader import open_regular

    try:
        with open_regular(path) as fd:
            return table_of(orjson.loads(os.read(fd, _META_BYTES_MAX)))
    except (PeriplusError, OSError, ValueError):
        return {}  # it only names the kind of the agent
