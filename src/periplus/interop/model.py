"""Results of an import: the trail, and facts about its source."""

from __future__ import annotations

__all__ = ["FoundSession", "Imported", "SourceFormat", "Tokens"]

from typing import NamedTuple, TypeAlias

SourceFormat: TypeAlias = str  # the name of a row of ``formats.FORMATS``, or ``git``


class Tokens(NamedTuple):
    """Tokens of all model calls: fresh input (cache writes included), cached input, output."""

    fresh: int = 0
    cached: int = 0
    out: int = 0


class Imported(NamedTuple):
    """One foreign record as a trail.

    ``counts`` always has ``steps`` and ``files``; for a transcript also ``lines``, ``prompts``, ``says``,
    ``comments``, ``tools`` (calls), ``tools_paired`` (calls with a result), ``model_calls`` and ``duplicates``; for a
    history ``commits``. ``skipped`` counts known records that are no steps, by kind; ``unknown`` counts kinds that
    this version does not know; ``unreadable_lines`` has the numbers of the first invalid lines. ``ending`` is the
    known reason for a ``partial`` run, ``left_out`` the number of older commits of a history, ``branch`` the git branch
    on which a session began. ``original`` is the format of the agent's own record, of which this one is a rendering by
    another tool. ``keeper`` names the tool in whose repository refs the record was kept, such as ``entire``.
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
    branch: str = ""
    original: SourceFormat = ""
    keeper: str = ""


class FoundSession(NamedTuple):
    """A transcript found on this machine."""

    path: str
    format: SourceFormat
    mtime_ms: int
    size: int
    cwd: str | None
