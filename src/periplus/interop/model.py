"""What an import gives back: the trail and what a person wants to know about where it came from."""

from __future__ import annotations

__all__ = ["FoundSession", "Imported", "SourceFormat", "Tokens"]

from typing import NamedTuple, TypeAlias

SourceFormat: TypeAlias = str  # the name of a row of ``formats.FORMATS``, or ``git``


class Tokens(NamedTuple):
    """Tokens of all model calls: read fresh (cache writes included), read from a cache, written."""

    fresh: int = 0
    cached: int = 0
    out: int = 0


class Imported(NamedTuple):
    """One foreign record as a trail.

    ``counts`` has ``steps`` and ``files`` always; of a transcript also ``lines``, ``prompts``, ``says``, ``comments``,
    ``tools`` (calls), ``tools_paired`` (calls whose result was found), ``model_calls`` and ``duplicates``; of a history
    ``commits``. ``skipped`` counts records, by kind, that are known and are no steps; ``unknown`` counts kinds that this
    version does not know; ``unreadable_lines`` has the numbers of the first lines that are no records at all. ``ending`` says
    why the run is ``partial``, where that is known, ``left_out`` how many older commits a history has.
    """

    trail: bytes
    trail_digest: bytes
    format: SourceFormat
    agent: str
    session_id: str
    agent_id: str | None
    cwd: str | None
    started_ms: int | None
    ended_ms: int | None
    model: str | None
    title: str | None
    source_sha256: bytes
    counts: dict[str, int]
    skipped: dict[str, int]
    unknown: dict[str, int]
    unreadable_lines: list[int]
    masked: int
    tokens: Tokens = Tokens()
    files: tuple[str, ...] = ()
    children: tuple[Imported, ...] = ()
    ending: str = ""
    left_out: int = 0


class FoundSession(NamedTuple):
    """A transcript that an agent left on this machine."""

    path: str
    format: SourceFormat
    mtime_ms: int
    size: int
    cwd: str | None
