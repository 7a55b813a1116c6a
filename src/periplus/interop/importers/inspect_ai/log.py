"""Importer of Inspect logs: one JSON document (``.json``) or a zip archive (``.eval``); a trail for every sample.

An archive is untrusted: it is read by its own directory and from its own descriptor, never unpacked to the disk;
member names are compared and never used as paths; the unpacked size is limited, for each member and in total, before
anything is decoded.
"""

from __future__ import annotations

__all__ = ["DIRECTORY_BYTES_MAX", "MEMBER_BYTES_MAX", "UNPACKED_BYTES_MAX", "is_mine", "read"]

import hashlib
import os
import re
import struct
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Final, NamedTuple

from periplus.base.errors import FormatError, environment_failure
from periplus.interop.importers.inspect_ai.samples import SampleImporter
from periplus.interop.readers.json_stream import JsonReader
from periplus.interop.readers.json_values import Moment, decode_loosely, integer_of, optional_text, table_of, text_of
from periplus.interop.readers.line_reader import LINE_BYTES_MAX, open_regular

if TYPE_CHECKING:
    import zipfile

    from periplus.interop.conversion.intake import Intake
    from periplus.interop.conversion.source import Head, Source
    from periplus.interop.model import Imported

MEMBER_BYTES_MAX: Final = LINE_BYTES_MAX
UNPACKED_BYTES_MAX: Final = 8 << 30
DIRECTORY_BYTES_MAX: Final = 8 << 20
_ZIP: Final = b"PK\x03\x04"
_SAMPLE_NAME: Final = re.compile(r"samples/[^/\\\x00]{1,400}\.json")
_HEADERS: Final = ("header.json", "_journal/start.json")  # an interrupted run has only the second
_JOURNAL: Final = ("_journal/", "summaries.json", "reductions.json", *_HEADERS)
_END_RECORD: Final = struct.Struct("<4s4H2LH")
_END_LOCATOR: Final = struct.Struct("<4sLQL")
_END_RECORD_64: Final = struct.Struct("<4sQ2H2L4Q")
_COMMENT_BYTES_MAX: Final = 1 << 16


def is_mine(head: Head) -> bool:
    data = head.data
    if data.startswith(_ZIP):
        name = data[30:430]
        return name.startswith((b"_journal/", b"header.json", b"samples/"))
    start = data[:8192].lstrip()
    return start.startswith(b"{") and b'"eval"' in start and b'"run_id"' in start and b'"task"' in start


def read(source: Source) -> Iterator[Imported]:
    with open_regular(source.path) as fd:
        is_archive = os.pread(fd, len(_ZIP), 0) == _ZIP
    log = _Log(source)
    yield from _read_archive(source, log) if is_archive else _read_document(source, log)
    if not log.sample_count:
        raise FormatError(
            f"no readable sample{log.why()}", path=source.path, safe="Nothing was imported.",
            mend="Inspect writes the samples unless log_samples is off.",
        )  # fmt: skip


class _Eval(NamedTuple):
    """Facts of the whole run."""

    run_id: str = ""
    task: str = ""
    model: str | None = None
    version: str | None = None
    created_ms: int | None = None


class _Log:
    """Samples of one log. Each is held until the next one is read, so that the last one reports errors behind it."""

    def __init__(self, source: Source) -> None:
        self.sample_count = 0
        self._source = source
        self._eval = _Eval()
        self._waiting: tuple[Intake, SampleImporter, dict[str, object], bytes] | None = None
        self._troubles: dict[str, int] = {}

    def learn(self, data: bytes) -> None:
        table = _decoded(data)
        packages = table_of(table.get("packages"))
        self._eval = _Eval(
            run_id=text_of(table.get("eval_id")) or text_of(table.get("run_id")),
            task=text_of(table.get("task")),
            model=optional_text(table.get("model")),
            version=optional_text(packages.get("inspect_ai")),
            created_ms=Moment().read(table.get("created")),
        )

    def note_trouble(self, what: str) -> None:
        self._troubles[what] = self._troubles.get(what, 0) + 1

    def why(self) -> str:
        return ": " + ", ".join(self._troubles) if self._troubles else ""

    def add(self, data: bytes) -> Iterator[Imported]:
        """Add a sample; yield the one before it."""
        sample = _decoded(data)
        if "id" not in sample or not ({"messages", "events", "input"} & sample.keys()):
            self.note_trouble("sample that is none")
            return
        yield from self.flush()
        intake = self._source.intake()
        importer = SampleImporter(intake)
        importer.feed(sample)
        self._waiting = (intake, importer, sample, hashlib.sha256(data).digest())

    def flush(self) -> Iterator[Imported]:
        if self._waiting is None:
            return
        (intake, importer, sample, digest), self._waiting = self._waiting, None
        for what, number in self._troubles.items():
            intake.skip(what, number)
        self._troubles.clear()
        self.sample_count += 1
        about = self._eval
        intake.model = intake.model or about.model
        intake.version = about.version
        if intake.started_ms is None:
            intake.note_time(about.created_ms)
        name = sample.get("id")
        sample_id = intake.mask(name) if isinstance(name, str) else str(integer_of(name))
        intake.session_id = (
            f"{about.run_id or digest.hex()[:16]}/{sample_id[:200]}/{integer_of(sample.get('epoch')) or 1}"
        )
        yield intake.finish(
            "inspect",
            secret=self._source.secret(digest),
            source=digest,
            agent=f"inspect/{about.task}" if about.task else "inspect",
            trail_id=intake.session_id,
            status=importer.finish(),
            tool="inspect",
        )


def _decoded(data: bytes) -> dict[str, object]:
    import orjson

    try:
        return table_of(orjson.loads(data))
    except (ValueError, RecursionError):
        mended = decode_loosely(data, {})
    return table_of(orjson.loads(mended)) if mended is not None else {}


def _read_document(source: Source, log: _Log) -> Iterator[Imported]:
    reader = JsonReader(source.path, [("samples",)], source.progress)
    for element in reader:
        if element.path == ("samples",):
            yield from log.add(element.data)
        elif element.name == "eval":
            log.learn(element.data)
    if reader.broken is not None:
        log.note_trouble("document cut off")
    yield from log.flush()


def _read_archive(source: Source, log: _Log) -> Iterator[Imported]:
    import zipfile

    with open_regular(source.path) as fd, os.fdopen(os.dup(fd), "rb") as file:
        _check_directory(file, source.path)
        try:
            archive = zipfile.ZipFile(file)
        except _zip_errors() as error:
            raise FormatError(
                f"the archive cannot be read: {error}", path=source.path, safe="Nothing was imported.",
                mend="Was it copied whole?",
            ) from error  # fmt: skip
        with archive:
            yield from _read_members(source, log, archive)


def _read_members(source: Source, log: _Log, archive: zipfile.ZipFile) -> Iterator[Imported]:
    members = {member.filename: member for member in archive.infolist()}
    size = os.path.getsize(source.path)
    done = 0
    for name in _HEADERS:
        data = _unpacked(archive, members[name], source.path) if name in members else None
        table = _decoded(data) if data is not None else {}
        if "eval" in table:
            import orjson

            log.learn(orjson.dumps(table["eval"]))
            break
    if "header.json" not in members:
        log.note_trouble("log without an end")
    unpacked_bytes = 0
    for member in members.values():
        if not _SAMPLE_NAME.fullmatch(member.filename):
            if not member.filename.startswith(_JOURNAL):
                log.note_trouble("member of the archive that is no sample")
            continue
        unpacked_bytes += min(member.file_size, MEMBER_BYTES_MAX)
        if unpacked_bytes > UNPACKED_BYTES_MAX:
            raise FormatError(f"the archive holds over {UNPACKED_BYTES_MAX >> 30} GiB", path=source.path)
        data = _unpacked(archive, member, source.path)
        if data is None:
            log.note_trouble("sample that cannot be unpacked")
        else:
            yield from log.add(data)
        done = min(size, done + member.compress_size)
        if source.progress is not None:
            source.progress(done, max(size, 1))
    yield from log.flush()


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: str) -> bytes | None:
    """Return the bytes of the member, None where they are damaged. Unpacks no more than the limit, whatever size the
    member claims.

    Only stored and deflated members: with other methods ``zipfile`` unpacks a whole chunk at once, whatever its size.
    """
    if member.compress_type not in (0, 8):  # stored, deflated
        return None
    try:
        with archive.open(member) as stream:
            data = stream.read(MEMBER_BYTES_MAX + 1)
    except _zip_errors():
        return None
    except OSError as error:
        raise environment_failure(error, "read", path) from error
    if len(data) > MEMBER_BYTES_MAX:
        raise FormatError(
            f"a member of the archive has over {MEMBER_BYTES_MAX >> 20} MiB",
            path=path,
            safe="What was imported before it is whole.",
            mend="Is it a log of Inspect?",
        )
    return data


def _zip_errors() -> tuple[type[Exception], ...]:
    """Return all exceptions that zipfile raises for archives that are damaged, encrypted or packed by an unknown
    method.
    """
    import zipfile
    import zlib
    from lzma import LZMAError

    return (
        zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, LZMAError, NotImplementedError, RuntimeError, EOFError,
        ValueError, KeyError, IndexError, OverflowError, struct.error,
    )  # fmt: skip


def _check_directory(file: IO[bytes], path: str) -> None:
    """Refuse a directory that would take too much memory, before zipfile reads it."""
    size = file.seek(0, os.SEEK_END)
    start = max(0, size - _COMMENT_BYTES_MAX - _END_RECORD.size)
    file.seek(start)
    tail = file.read(size - start)
    at = tail.rfind(b"PK\x05\x06")
    if 0 <= at <= len(tail) - _END_RECORD.size:
        directory_bytes = _END_RECORD.unpack_from(tail, at)[5]
        if at >= _END_LOCATOR.size and tail[at - _END_LOCATOR.size :].startswith(b"PK\x06\x07"):
            offset = _END_LOCATOR.unpack_from(tail, at - _END_LOCATOR.size)[2]
            file.seek(min(offset, size))
            record = file.read(_END_RECORD_64.size)
            known = len(record) == _END_RECORD_64.size
            directory_bytes = _END_RECORD_64.unpack(record)[8] if known else DIRECTORY_BYTES_MAX + 1
            before = start + at - _END_LOCATOR.size - _END_RECORD_64.size
            if before >= 0:  # the place where zipfile looks for it, whatever the locator says
                file.seek(before)
                record = file.read(_END_RECORD_64.size)
                if record.startswith(b"PK\x06\x06"):
                    directory_bytes = max(directory_bytes, _END_RECORD_64.unpack(record)[8])
        if directory_bytes > DIRECTORY_BYTES_MAX:
            raise FormatError(
                f"the directory of the archive has over {DIRECTORY_BYTES_MAX >> 20} MiB",
                path=path,
                safe="Nothing was imported.",
                mend="No log of Inspect has so many samples in one file.",
            )
    file.seek(0)
