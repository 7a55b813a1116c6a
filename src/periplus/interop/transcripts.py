"""Import of agents' session files: detects the format and yields the sessions as trails."""

from __future__ import annotations

__all__ = ["import_transcript", "import_transcripts", "session_ids"]

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from periplus.base.errors import FormatError, UsageError
from periplus.interop.formats import format_names, format_of, importer_of

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
    """Import the sessions in the file ``path`` one after the other: one, or several from a database; subagents with
    records of their own become children.

    ``trail_key`` gives the trail's secret (HMAC-SHA-256 of the source's SHA-256); ``put_object`` stores a text over
    4,096 bytes, or the contents of a file, and returns its SHA-256; ``format`` is a name of ``formats.FORMATS`` if
    known; ``progress`` gets the bytes read and the bytes in all; ``folders`` restrict a file with sessions of many
    folders to those; ``detected`` is called with the format once the head is read.

    Raises FormatError, naming file and line or offset, for other files; EnvironmentFailure for unreadable ones.
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
    """Import the one session in the file ``path``; see ``import_transcripts``. Raises UsageError where it holds
    several.
    """
    sessions = import_transcripts(path, trail_key=trail_key, put_object=put_object, format=format, progress=progress)
    first = next(sessions, None)
    if first is None:
        raise FormatError("no session in it", path=path, safe="Nothing was imported.")
    if next(sessions, None) is not None:
        raise UsageError(f"{path} holds several sessions", mend="Import them all.")
    return first


def session_ids(path: str, source_format: str, folders: tuple[str, ...]) -> list[str] | None:
    """Return the ids of the sessions held in ``folders`` that are in the database ``path``, without those of subagents; None
    for a file that is no database. Nothing is imported. Raises FormatError, EnvironmentFailure.
    """
    from periplus.interop.conversion.source import Head, Source
    from periplus.interop.readers.sqlite_reader import SQLITE_MARK

    if not Head.of(path).data.startswith(SQLITE_MARK):
        return None
    ids: list[str] = []
    source = Source(path, b"", _refused, folders=folders, listed=ids.append)
    for _ in importer_of(format_of(source_format)).read(source):
        raise AssertionError(f"{source_format} imports where it should list")
    return ids


def _refused(data: bytes) -> bytes:
    raise AssertionError(f"a listing stores {len(data)} bytes")
