"""What an importer is given: the head of a file to tell what it is, and the file with what a trail needs."""

from __future__ import annotations

__all__ = ["LISTS", "Head", "HeadOfDocument", "LineImporter", "Source", "is_within", "status_of"]

import os
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from periplus.interop.readers.json_values import decode_table
from periplus.interop.readers.line_reader import HEAD_BYTES, LineReader, read_head

if TYPE_CHECKING:
    from periplus.interop.conversion.intake import Intake
    from periplus.interop.model import Imported
    from periplus.trail.model import Digest, Status

_LINES_PROBED_MAX: Final = 64
_START_BYTES: Final = 8192
LISTS: Final = ("events", "history", "messages", "samples", "trajectory")  # of records, as formats call them
_COUNTED: Final = ("prompts", "says", "comments", "tools", "tools_paired", "model_calls", "duplicates", "labels")


class HeadOfDocument(NamedTuple):
    """The names of the root's members; those that are whole, decoded, of lists of records the first of them; where the
    root is a list, its first elements.
    """

    names: tuple[str, ...]
    members: dict[str, object]
    elements: list[object]


class Head:
    """The beginning of a file: ``HEAD_BYTES`` of it at most, all of it where it is shorter."""

    def __init__(self, data: bytes, path: str) -> None:
        self.data = data
        self.path = path

    @classmethod
    def of(cls, path: str) -> Head:
        """Raises FormatError where the file is empty or no file, EnvironmentFailure where it cannot be read."""
        return cls(read_head(path), path)

    @cached_property
    def records(self) -> list[dict[str, object]]:
        """The first lines that are JSON objects, decoded. None of a document that is written over several lines."""
        lines = self.data.split(b"\n", _LINES_PROBED_MAX)[:_LINES_PROBED_MAX]
        return [record for line in lines if (record := decode_table(line)) is not None]

    @cached_property
    def document(self) -> HeadOfDocument:
        """What the head shows of it where the file is one JSON document."""
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
        """Where the first record is longer than the head, so that it cannot be decoded, how it begins."""
        return self.data[:_START_BYTES] if len(self.data) >= HEAD_BYTES and b"\n" not in self.data else b""


class LineImporter(Protocol):
    """Takes the records of a file of lines, one after the other."""

    def feed(self, number: int, line: bytes) -> bool:
        """Take the record on line ``number``; False where it is none."""

    def finish(self) -> Status:
        """Give up waiting, and say how the run ended as far as the file tells."""


class Source:
    """A file to import, and what its trail needs: a key, a place for large texts. ``progress`` gets the bytes read and
    the bytes in all. Of a file that holds the sessions of many folders, those outside of ``folders`` are left out before
    anything of them is kept, where any are given.
    """

    def __init__(
        self,
        path: str,
        trail_key: bytes,
        put_object: Callable[[bytes], bytes],
        progress: Callable[[int, int], None] | None = None,
        folders: tuple[str, ...] = (),
    ) -> None:
        self.path = path
        self.folders = folders
        self.put_object = put_object
        self.progress = progress
        self._trail_key = trail_key

    def beside(self, path: str) -> Source:
        """Another file of the same import, whose reading is no progress of its own."""
        return Source(path, self._trail_key, self.put_object)

    def is_elsewhere(self, folder: object) -> bool:
        """Whether a session that was held in ``folder`` is one to leave out; so is one of which that is not known."""
        if not self.folders:
            return False
        return not isinstance(folder, str) or not any(is_within(folder, outer) for outer in self.folders)

    def secret(self, digest: bytes) -> bytes:
        """The secret of the trail of a source with this SHA-256."""
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
        """The end: a trail of the format ``name`` whose source has this SHA-256."""
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
        """Every line to the importer; gives the file's SHA-256, and how the run ended."""
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


def is_within(folder: str, outer: str) -> bool:
    """Whether ``folder`` is ``outer`` or lies in it."""
    try:
        return (os.path.realpath(folder) + os.sep).startswith(os.path.realpath(outer).rstrip(os.sep) + os.sep)
    except ValueError:  # a NUL in what a file says
        return False


def status_of(intake: Intake, status: Status, *, is_torn: bool) -> Status:
    return intake.partial("its record is cut off") if is_torn and status == "success" else status
