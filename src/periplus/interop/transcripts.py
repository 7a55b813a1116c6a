"""Importing the transcript of an agent: one pass over the file, one trail for it and one for each subagent beside it."""

from __future__ import annotations

__all__ = ["CHILDREN_MAX", "import_transcript"]

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from periplus.base.errors import FormatError, PeriplusError, UsageError
from periplus.interop.model import Imported, SourceFormat
from periplus.interop.values import integer_of, natural_of, table_of, text_of

if TYPE_CHECKING:
    from periplus.interop.claude import Children, ClaudeImporter
    from periplus.interop.codex import CodexImporter
    from periplus.interop.intake import Intake
    from periplus.interop.lines import LineReader
    from periplus.trail.model import Status

CHILDREN_MAX: Final = 1000
_META_BYTES_MAX: Final = 64 << 10
_FORMATS: Final[tuple[SourceFormat, ...]] = ("claude-code", "codex")


def import_transcript(
    path: str,
    *,
    trail_key: bytes,
    put_object: Callable[[bytes], bytes],
    format: str | None = None,  # noqa: A002 - the word that the command line has
    progress: Callable[[int, int], None] | None = None,
) -> Imported:
    """The session in the file ``path`` as a trail, with the subagents that have files beside it as children.

    ``trail_key`` makes the trail's secret (HMAC-SHA-256 of the file's SHA-256); ``put_object`` keeps a text over 4,096
    bytes, or the content of a file, and gives its SHA-256; ``format`` is ``claude-code`` or ``codex`` where the caller
    knows; ``progress`` gets the bytes read and the bytes in all.

    Raises FormatError, naming file and line, for what is no transcript; EnvironmentFailure for what cannot be read.
    """
    from periplus.interop.detect import detect_format
    from periplus.interop.lines import read_head

    if format is not None and format not in _FORMATS:
        raise UsageError(f"unknown format {format!r}", mend=f"One of: {', '.join(_FORMATS)}.")
    found = detect_format(read_head(path), path)
    if format is not None and format != found:
        raise FormatError(f"a transcript of {found}, not of {format}", path=path, mend="Leave the format out.")
    if found == "codex":
        return _import_codex(path, trail_key, put_object, progress)
    from periplus.interop.claude import Children

    children = Children()
    imported: list[Imported] = []
    lost = 0
    for child_path, kind in _child_files(path):
        try:
            if detect_format(read_head(child_path), child_path) != "claude-code":
                raise FormatError("not of the agent of the session", path=child_path)
            child, prompt = _import_claude(child_path, trail_key, put_object, None, children, (), kind)
        except PeriplusError:  # the session is whole without it; the count says that it is missing
            lost += 1
            continue
        children.add(child, prompt)
        imported.append(child)
    session, _ = _import_claude(path, trail_key, put_object, progress, children, tuple(imported), None, lost)
    return session


def _import_claude(
    path: str,
    trail_key: bytes,
    put_object: Callable[[bytes], bytes],
    progress: Callable[[int, int], None] | None,
    children: Children,
    imported: tuple[Imported, ...],
    kind: str | None,
    lost: int = 0,
) -> tuple[Imported, str | None]:
    from periplus.interop.claude import ClaudeImporter
    from periplus.interop.intake import Intake
    from periplus.interop.lines import LineReader

    intake = Intake(put_object)
    importer = ClaudeImporter(intake, children)
    reader = LineReader(path, progress)
    is_torn = _feed(importer, intake, reader)
    if lost:
        intake.skip("file of a subagent that cannot be read", lost)
    status = _status(importer.finish(), is_torn=is_torn)
    session_id = intake.session_id or reader.digest.hex()[:16]
    result = intake.finish(
        "claude-code",
        secret=_secret(trail_key, reader.digest),
        source=reader.digest,
        agent=f"claude-code/{kind}" if kind else "claude-code",
        trail_id=f"{session_id}/{intake.agent_id}" if intake.agent_id else session_id,
        status=status,
        tool="claude-code",
        children=imported,
    )
    return result, importer.first_prompt


def _import_codex(
    path: str,
    trail_key: bytes,
    put_object: Callable[[bytes], bytes],
    progress: Callable[[int, int], None] | None,
) -> Imported:
    from periplus.interop.codex import CodexImporter
    from periplus.interop.intake import Intake
    from periplus.interop.lines import LineReader

    intake = Intake(put_object)
    importer = CodexImporter(intake)
    reader = LineReader(path, progress)
    is_torn = _feed(importer, intake, reader)
    return intake.finish(
        "codex",
        secret=_secret(trail_key, reader.digest),
        source=reader.digest,
        agent="codex",
        trail_id=intake.session_id or reader.digest.hex()[:16],
        status=_status(importer.finish(), is_torn=is_torn),
        tool="codex",
        base=importer.base,
    )


def _feed(importer: ClaudeImporter | CodexImporter, intake: Intake, reader: LineReader) -> bool:
    """Every line to the importer; True where the last one was cut off."""
    is_torn = False
    feed = importer.feed
    for what in ("prompts", "says", "comments", "tools", "tools_paired", "model_calls", "duplicates", "labels"):
        intake.count(what, 0)
    for number, line in reader:
        if feed(number, line):
            continue
        if number == reader.unterminated:
            is_torn = True
            intake.skip("last line cut off")
        else:
            intake.note_unreadable(number)
    intake.count("lines", reader.line_count)
    return is_torn


def _status(status: Status, *, is_torn: bool) -> Status:
    return "partial" if is_torn and status == "success" else status


def _secret(trail_key: bytes, source: bytes) -> bytes:
    import hashlib
    import hmac

    return hmac.digest(trail_key, source, hashlib.sha256)


def _child_files(path: str) -> list[tuple[str, str | None]]:
    """The files of a session's subagents with the kinds of the agents, those that others spawned first."""
    folder = os.path.join(os.path.splitext(path)[0], "subagents")
    try:
        # No link is followed: a session that somebody sent must not take other sessions of this machine with it.
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

    from periplus.interop.lines import open_regular

    try:
        with open_regular(path) as fd:
            return table_of(orjson.loads(os.read(fd, _META_BYTES_MAX)))
    except (PeriplusError, OSError, ValueError):
        return {}  # it only names the kind of the agent
