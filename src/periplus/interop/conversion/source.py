"""Input of an importer: the head of a file for detection, and the file with the means to make a trail."""

from __future__ import annotations

__all__ = ["LISTS", "Head", "HeadOfDocument", "LineImporter", "Source", "is_within", "status_of"]

import os
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from periplus.interop.readers.json_values import decode_table
from periplus.interop.readers.line_reader import HEAD_BYTES, LineReader, read_head

if TYPE_CHECKING:
    from periplus.interop.conversion.intake import Intake
    from periplus.interop.model import Imported
    from periplus.interop.readers.json_stream import Element
    from periplus.trail.model import Digest, Status

_LINES_PROBED_MAX: Final = 64
_START_BYTES: Final = 8192
LISTS: Final = (
    "events",
    "history",
    "messages",
    "requests",
    "samples",
    "trajectory",
)  # lists of records, by their names in the formats
_COUNTED: Final = ("prompts", "says", "comments", "tools", "tools_paired", "model_calls", "duplicates", "labels")


class HeadOfDocument(NamedTuple):
    """Names of the root's members; the complete members, decoded, with lists of records cut to the first ones; the
    first elements of a root that is a list.
    """

    names: tuple[str, ...]
    members: dict[str, object]
    elements: list[object]


class Head:
    """The beginning of a file, at most ``HEAD_BYTES``."""

    def __init__(self, data: bytes, path: str) -> None:
        self.data = data
        self.path = path

    @classmethod
    def of(cls, path: str) -> Head:
        """Read the head of ``path``. Raises FormatError where it is empty or no file, EnvironmentFailure where it
        cannot be read.
        """
        return cls(read_head(path), path)

    @cached_property
    def records(self) -> list[dict[str, object]]:
        """The first lines that are JSON objects, decoded. None for a document over several lines."""
        lines = self.data.split(b"\n", _LINES_PROBED_MAX)[:_LINES_PROBED_MAX]
        return [record for line in lines if (record := decode_table(line)) is not None]

    @cached_property
    def document(self) -> HeadOfDocument:
        """The parts of a JSON document that the head shows."""
        import io

        import orjson

        from periplus.interop.readers.json_stream import JsonWalker

        walker = JsonWalker(io.BytesIO(self.data).read, self.path, [(name,) for name in LISTS])
        members: dict[str, object] = {}
        lists: dict[str, list[object]] = {}
        elements: list[object] = []
        for element in walker:
            try:
                value: object = orjson.loads(element.data)
            except ValueError:
                value = decode_table(element.data)
            if element.path:
                records = lists.setdefault(str(element.path[0]), [])
                if len(records) < _LINES_PROBED_MAX:
                    records.append(value)
            elif element.name:
                members[element.name] = value
            else:
                elements.append(value)
            if len(members) + len(elements) >= _LINES_PROBED_MAX:
                break
        return HeadOfDocument(tuple(walker.names), {**members, **lists}, elements)

    @property
    def start_of_large_record(self) -> bytes:
        """Beginning of a first record that is longer than the head and cannot be decoded."""
        return self.data[:_START_BYTES] if len(self.data) >= HEAD_BYTES and b"\n" not in self.data else b""


class LineImporter(Protocol):
    """Takes the records of a file of lines, or of a list in a document, one after the other."""

    def feed(self, number: int, line: bytes) -> bool:
        """Read the record on line ``number``, or at that place of the list; return False where it is invalid."""

    def finish(self) -> Status:
        """Give up waiting calls, and return the end of the run as far as the file tells."""


class Source:
    """A file to import, with a key and a store for large texts. ``progress`` gets the bytes read and the bytes in
    all. Of a file with sessions of many folders, those outside of ``folders`` (if any are given) are left out before
    anything of them is stored. With ``listed`` a database yields no trail: it is called with the id of each session instead.
    """

    def __init__(
        self,
        path: str,
        trail_key: bytes,
        put_object: Callable[[bytes], bytes],
        progress: Callable[[int, int], None] | None = None,
        folders: tuple[str, ...] = (),
        *,
        listed: Callable[[str], object] | None = None,
    ) -> None:
        self.path = path
        self.folders = folders
        self.listed = listed
        self.put_object = put_object
        self.progress = progress
        self._trail_key = trail_key

    def beside(self, path: str) -> Source:
        """Return another file of the same import, which reports no progress."""
        return Source(path, self._trail_key, self.put_object)

    def is_elsewhere(self, folder: object) -> bool:
        """Test that a session held in ``folder`` is to be left out; so is one without a known folder."""
        if not self.folders:
            return False
        return not isinstance(folder, str) or not any(is_within(folder, outer) for outer in self.folders)

    def secret(self, digest: bytes) -> bytes:
        """Return the secret of the trail for a source with this SHA-256."""
        import hashlib
        import hmac

        return hmac.digest(self._trail_key, digest, hashlib.sha256)

    def intake(self) -> Intake:
        from periplus.interop.conversion.intake import Intake

        intake = Intake(self.put_object)
        for what in _COUNTED:
            intake.count(what, 0)
        return intake

    def trail(
        self,
        intake: Intake,
        name: str,
        digest: bytes,
        status: Status,
        trail_id: str | None = None,
        *,
        agent: str | None = None,
        base: Digest | None = None,
        children: tuple[Imported, ...] = (),
    ) -> Imported:
        """Finish a trail of the format ``name`` whose source has this SHA-256."""
        return intake.finish(
            name,
            secret=self.secret(digest),
            source=digest,
            agent=agent or name,
            trail_id=trail_id or intake.session_id or digest.hex()[:16],
            status=status,
            tool=name,
            base=base,
            children=children,
        )

    def read_lines(self, importer: LineImporter, intake: Intake) -> tuple[bytes, Status]:
        """Pass every line to the importer; return the file's SHA-256, and the end of the run."""
        reader = LineReader(self.path, self.progress)
        is_torn = False
        feed = importer.feed
        for number, line in reader:
            if feed(number, line):
                continue
            if number == reader.unterminated:
                is_torn = True
                intake.skip("last line cut off")
            else:
                intake.note_unreadable(number)
        intake.count("lines", reader.line_count)
        return reader.digest, status_of(intake, importer.finish(), is_torn=is_torn)

    def read_document(
        self,
        importer: LineImporter,
        intake: Intake,
        opened: Iterable[tuple[str, ...]] = (),
        learn: Callable[[Element], None] | None = None,
        is_record: Callable[[Element], bool] = lambda element: bool(element.path),
    ) -> tuple[bytes, Status]:
        """Pass every record to the importer and every other element to ``learn``; return the same as ``read_lines``.

        Records are by default the elements of the ``opened`` containers of the document.
        """
        from periplus.interop.readers.json_stream import JsonReader

        reader = JsonReader(self.path, opened, self.progress)
        count = 0
        for element in reader:
            if is_record(element):
                count += 1
                if not importer.feed(element.place + 1, element.data):
                    intake.note_unreadable(element.place + 1)
            elif learn is not None:
                learn(element)
        intake.count("lines", count)
        if reader.broken is not None:
            intake.skip(f"rest of the document: {reader.broken.reason}")
        return reader.digest, status_of(intake, importer.finish(), is_torn=reader.broken is not None)


def is_within(folder: str, outer: str) -> bool:
    """Test that ``folder`` is ``outer`` or lies in it."""
    try:
        return (os.path.realpath(folder) + os.sep).startswith(os.path.realpath(outer).rstrip(os.sep) + os.sep)
    except ValueError:  # a NUL in the name
        return False


def status_of(intake: Intake, status: Status, *, is_torn: bool) -> Status:
    return intake.partial("its record is cut off") if is_torn and status == "success" else status
