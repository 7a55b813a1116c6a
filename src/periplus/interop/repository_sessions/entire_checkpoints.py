"""Sessions in the checkpoints of Entire: the newest transcript of each.

Layout of the ref: a folder ``ab/cdef012345`` for each checkpoint, in it a folder ``0``, ``1``, … for each session (older
ones have one session and no such folder), with ``metadata.json`` and ``full.jsonl``. That is the agent's own record up to
the commit, in the agent's format, with secrets replaced; over 50 MB it goes on in ``full.jsonl.001``. Records of subagents
are in ``tasks/ID/agent-ID.jsonl`` of the checkpoint.

A session has a transcript in each of its checkpoints, each longer than the one before. So only the newest that the
repository has is imported; the number of the others is told.
"""

from __future__ import annotations

__all__ = ["CheckpointSession", "sessions_in_checkpoints"]

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from periplus.interop.readers.json_values import Moment, decode_table, text_of
from periplus.interop.repository_sessions.ref_listing import KeptFile, files_of

if TYPE_CHECKING:
    from periplus.interop.git_history.git_output import BlobReader

SESSIONS_MAX: Final = 100_000
TRANSCRIPT_BYTES_MAX: Final = 512 << 20
CARD_BYTES_MAX: Final = 1 << 20
_CARDS_READ_MAX: Final = 20_000
_SUBAGENTS_MAX: Final = 1000
_FILE: Final = re.compile(r"([0-9a-f]{2}/[0-9a-f]{6,62})/(?:(\d{1,4})/)?(metadata\.json|full\.jsonl(?:\.\d{3})?)")
_SUBAGENT: Final = re.compile(r"([0-9a-f]{2}/[0-9a-f]{6,62})/tasks/[^/]{1,200}/(agent-[A-Za-z0-9_-]{1,100}\.jsonl)")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d-(?=[0-9a-f]{8}-)")
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,150}", re.ASCII)
_CARD: Final = "metadata.json"


class CheckpointSession(NamedTuple):
    """A session: its id (empty if unknown), its transcripts from the newest to the oldest, each in parts, and the records
    of its subagents by name.
    """

    session_id: str
    transcripts: tuple[tuple[KeptFile, ...], ...]
    subagents: tuple[KeptFile, ...]


class _Copy(NamedTuple):
    created_ms: int
    size: int
    parts: tuple[KeptFile, ...]
    subagents: tuple[KeptFile, ...]


def sessions_in_checkpoints(repo: str, refs: list[str], blobs: BlobReader) -> list[CheckpointSession]:
    """Return the sessions in the checkpoints of ``refs``, the newest first. Raises FormatError where git fails."""
    folders: dict[tuple[str, str, str], list[KeptFile]] = {}
    tasks: dict[tuple[str, str], list[KeptFile]] = {}
    for ref in refs:
        for file in files_of(repo, ref):
            if (found := _FILE.fullmatch(file.path)) is not None:
                key = ref, found.group(1), found.group(2) or ""
                if key in folders or len(folders) < SESSIONS_MAX:
                    folders.setdefault(key, []).append(file)
            elif (found := _SUBAGENT.fullmatch(file.path)) is not None:
                beside = tasks.setdefault((ref, found.group(1)), [])
                if len(beside) < _SUBAGENTS_MAX:
                    beside.append(file)
    copies: dict[str, list[_Copy]] = {}
    seen: set[str] = set()
    moment = Moment()
    for number, ((ref, checkpoint, _), files) in enumerate(folders.items()):
        parts = tuple(sorted(file for file in files if not file.path.endswith(_CARD)))
        if not parts or not parts[0].path.endswith("full.jsonl"):
            continue
        card = next((file for file in files if file.path.endswith(_CARD)), None)
        members = _read(blobs, card) if card is not None and number < _CARDS_READ_MAX else {}
        session = _session_id(members) or f"{ref}:{parts[0].path}"
        mark = "".join((session, *(part.blob for part in parts)))
        if mark not in seen:
            seen.add(mark)
            created_ms = moment.read(members.get("created_at")) or 0
            size = sum(blobs.size(part.blob) or 0 for part in parts)
            copy = _Copy(created_ms, size, parts, tuple(tasks.get((ref, checkpoint), ())))
            copies.setdefault(session, []).append(copy)
    ordered = [(session, sorted(found, key=_age, reverse=True)) for session, found in copies.items()]
    ordered.sort(key=lambda one: (-one[1][0].created_ms, one[0]))
    return [
        CheckpointSession(
            session if _ID.fullmatch(session) else "", tuple(copy.parts for copy in found), found[0].subagents
        )
        for session, found in ordered
    ]


def _age(copy: _Copy) -> tuple[int, int]:
    return copy.created_ms, copy.size


def _read(blobs: BlobReader, card: KeptFile) -> dict[str, object]:
    data = blobs.read(card.blob, CARD_BYTES_MAX)
    return (decode_table(data) or {}) if data is not None else {}


def _session_id(members: dict[str, object]) -> str:
    """Return the agent's id of the session: Entire once put the date before it."""
    session = text_of(members.get("session_id"))
    return _DATE.sub("", session, count=1) if _ID.fullmatch(session) else ""
