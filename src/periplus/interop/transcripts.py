"""Importing the session files of agents: which format a file has, and its sessions as trails."""

from __future__ import annotations

__all__ = ["import_transcript", "import_transcripts"]

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from periplus.base.errors import FormatError, UsageError
from periplus.interop.formats import format_names, importer_of

if TYPE_CHECKING:
    from periplus.interop.model import Imported


def import_transcripts(
    path: str,
    *,
    trail_key: bytes,
    put_object: Callable[[bytes], bytes],
    format: str | None = None,  # noqa: A002 - the word that the command line has
    progress: Callable[[int, int], None] | None = None,
    folders: tuple[str, ...] = (),
    detected: Callable[[str], object] | None = None,
) -> Iterator[Imported]:
    """The sessions in the file ``path`` as trails, one after the other as they are read: one, but of a database; with
    the subagents that have records of their own as children.

    ``trail_key`` makes the trail's secret (HMAC-SHA-256 of the source's SHA-256); ``put_object`` keeps a text over 4,096
    bytes, or the content of a file, and gives its SHA-256; ``format`` is a name of ``formats.FORMATS`` where the caller
    knows; ``progress`` gets the bytes read and the bytes in all; ``folders`` leave out, of a file that holds the sessions
    of many folders, those that were held outside of them; ``detected`` is told the format before anything is read but the head.

    Raises FormatError, naming file and line or offset, for what is no transcript; EnvironmentFailure for what cannot be
    read.
    """
    from periplus.interop.conversion.source import Head, Source
    from periplus.interop.format_detection import detect_format

    if format is not None and format not in format_names():
        raise UsageError(f"unknown format {format!r}", mend=f"One of: {', '.join(format_names())}.")
    found = detect_format(Head.of(path))
    if format is not None and format != found.name:
        raise FormatError(f"a transcript of {found.name}, not of {format}", path=path, mend="Leave the format out.")
    if detected is not None:
        detected(found.name)
    yield from importer_of(found).read(Source(path, trail_key, put_object, progress, folders))


def import_transcript(
    path: str,
    *,
    trail_key: bytes,
    put_object: Callable[[bytes], bytes],
    format: str | None = None,  # noqa: A002
    progress: Callable[[int, int], None] | None = None,
) -> Imported:
    """The one session in the file ``path``; see ``import_transcripts``. Raises UsageError where it holds several."""
    sessions = import_transcripts(path, trail_key=trail_key, put_object=put_object, format=format, progress=progress)
    first = next(sessions, None)
    if first is None:
        raise FormatError("no session in it", path=path, safe="Nothing was imported.")
    if next(sessions, None) is not None:
        raise UsageError(f"{path} holds several sessions", mend="Import them all.")
    return first
