"""A folder of shared files with an index, which any file server serves: every session of a store.

A session's file has the name of its trail. The folder has a manifest of what was written, by which an unchanged session
is not written again, and by which the file of a session that the store no longer has is removed. A folder with anything
else in it that the manifest does not know is refused at the first export.
"""

from __future__ import annotations

__all__ = ["MANIFEST", "Session", "SiteFiles", "SiteWritten", "write_site"]

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

import msgspec

from periplus.base.errors import DamageError, UsageError, environment_failure
from periplus.base.files import Files, write_atomic
from periplus.web.sessions.file_notes import Link
from periplus.web.sessions.file_rendering import PROGRAM, css_sha256, engine, renderer_id, style
from periplus.web.sessions.shared_file import FileOptions, MadeFile, make_file

MANIFEST: Final = "periplus-site.json"
ROWS_MAX: Final = 500  # of one page of the index
MANIFEST_BYTES_MAX: Final = 64 << 20
_ORDERS: Final = (("day", "index"), ("agent", "by-agent"))
_ID: Final = re.compile(r"[a-z0-9_]{1,64}")


class Session(NamedTuple):
    """A session to write: the card of its trail. ``key`` changes with its bytes."""

    id: str
    digest: str
    key: str
    title: str
    agent: str
    started: str
    steps: int
    status: str
    is_subagent: bool = False

    @property
    def file(self) -> str:
        return f"{self.id}.html"

    @property
    def day(self) -> str:
        return self.started[:10] or "unknown day"

    @property
    def time(self) -> str:
        return self.started[11:16]


class SiteFiles(NamedTuple):
    """Access to trails by id, to trails by digest, and to objects."""

    trail: Callable[[str], bytes]
    read_object: Callable[[bytes], bytes | None]


class SiteWritten(NamedTuple):
    """Counts; ``failed`` are sessions that cannot be read, with the reason."""

    written: int
    unchanged: int
    removed: int
    failed: tuple[tuple[str, str], ...]
    bytes: int


class _Entry(msgspec.Struct):
    file: str
    key: str
    bytes: int


class _Manifest(msgspec.Struct):
    program: str = PROGRAM
    sessions: list[_Entry] = []
    indexes: list[str] = []
    v: int = 1


class Group(NamedTuple):
    name: str
    rows: tuple[Session, ...]


def write_site(
    folder: str, sessions: Sequence[Session], files: SiteFiles, options: FileOptions,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> SiteWritten:  # fmt: skip
    """Write the folder. Raises UsageError for a folder with other files, EnvironmentFailure."""
    engine()
    before = _manifest(folder)
    held = {entry.file: entry for entry in before.sessions}
    sessions = [one for one in sessions if _ID.fullmatch(one.id)]
    names = {one.digest: one.file for one in sessions}
    entries: list[_Entry] = []
    failed: list[tuple[str, str]] = []
    written = 0
    for place, session in enumerate(sessions):
        progress(place, len(sessions))
        entry = held.get(session.file)
        key = _key(session, options)
        if entry is not None and entry.key == key and _size(folder, session.file) == entry.bytes:
            entries.append(entry)
            continue
        try:
            made = _made(session, files, options, names)
        except DamageError as error:
            failed.append((session.id, error.wrong))
            if entry is not None:  # the page that was written before stays
                entries.append(entry)
            continue
        _write(folder, session.file, made.data)
        entries.append(_Entry(session.file, key, len(made.data)))
        written += 1
    progress(len(sessions), len(sessions))
    present = {entry.file for entry in entries}
    indexes = _write_indexes(folder, [one for one in sessions if one.file in present])
    removed = sum(_remove(folder, name) for name in {*held, *before.indexes} - present - set(indexes))
    manifest = _Manifest(sessions=entries, indexes=indexes)
    _write(folder, MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n")
    unchanged = len(entries) - written - sum(f"{name}.html" in held for name, _ in failed)
    return SiteWritten(written, unchanged, removed, tuple(failed), sum(entry.bytes for entry in entries))


def _key(session: Session, options: FileOptions) -> str:
    told = (session.key, renderer_id(), str(options.with_trail), *sorted(options.withheld))
    return hashlib.sha256("\0".join(told).encode()).hexdigest()[:32]


def _made(session: Session, files: SiteFiles, options: FileOptions, names: dict[str, str]) -> MadeFile:
    from periplus.trail import Digest, opcode_name, open_parts

    data = files.trail(session.id)
    spawned = {
        step.operands[-1].value.hex()
        for reader in open_parts(data)
        for step in reader.steps()
        if opcode_name(step.code) == "AGENT_SPAWN" and isinstance(step.operands[-1], Digest)
    }
    links = tuple(Link(digest, names[digest]) for digest in sorted(spawned & names.keys()))
    return make_file(data, files.read_object, options._replace(home="index.html", links=links))


def _manifest(folder: str) -> _Manifest:
    path = os.path.join(folder, MANIFEST)
    try:
        with open(path, "rb") as file:
            data = file.read(MANIFEST_BYTES_MAX)
    except FileNotFoundError:
        if os.path.isdir(folder) and os.listdir(folder):
            raise UsageError(
                f"{folder} has files that are no export of sessions", safe="Nothing was written.",
                mend="Name a new or an empty folder.",
            ) from None  # fmt: skip
        return _Manifest()
    except OSError as error:
        raise environment_failure(error, "read", path) from error
    try:
        manifest = msgspec.json.decode(data, type=_Manifest)
    except msgspec.DecodeError as error:
        raise DamageError("the manifest of this folder cannot be read", path=path, safe="Nothing was written.",
                          mend="Export to a new folder.") from error  # fmt: skip
    names = [entry.file for entry in manifest.sessions] + manifest.indexes
    if any(not re.fullmatch(r"[a-z0-9_-]{1,64}\.html", name) for name in names):
        raise DamageError("the manifest of this folder names a file outside of it", path=path, safe="Nothing was written.",
                          mend="Export to a new folder.")  # fmt: skip
    return manifest


def _size(folder: str, name: str) -> int:
    try:
        return os.lstat(os.path.join(folder, name)).st_size
    except OSError:
        return -1


def _write(folder: str, name: str, data: bytes) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise environment_failure(error, "make", folder) from error
    write_atomic(Files(), os.path.join(folder, name), data)


def _remove(folder: str, name: str) -> bool:
    try:
        os.unlink(os.path.join(folder, name))
    except FileNotFoundError:
        return False
    except OSError as error:
        raise environment_failure(error, "remove", os.path.join(folder, name)) from error
    return True


# The index


def _write_indexes(folder: str, sessions: Sequence[Session]) -> list[str]:
    names = []
    for order, stem in _ORDERS:
        ordered = sorted(sessions, key=lambda one: (one.started, one.id), reverse=True)
        if order == "agent":
            ordered.sort(key=lambda one: one.agent)
        starts = range(0, max(len(ordered), 1), ROWS_MAX)
        pages = [_page_name(stem, number) for number in range(1, len(starts) + 1)]
        for number, start in enumerate(starts, 1):
            groups = tuple(_groups(ordered[start : start + ROWS_MAX], order))
            text = engine().get_template("sessions/site.html").render(
                groups=groups, order=order, total=len(ordered), pages=pages, number=number, css=_markup(style()),
                css_sha256=css_sha256(), program=PROGRAM,
            )  # fmt: skip
            data = text.encode() + b"\n"
            if not _is_same(folder, pages[number - 1], data):
                _write(folder, pages[number - 1], data)
        names += pages
    return names


def _page_name(stem: str, number: int) -> str:
    return f"{stem}.html" if number == 1 else f"{stem}-{number}.html"


def _groups(sessions: Sequence[Session], order: str) -> Iterator[Group]:
    for name, rows in groupby(sessions, key=lambda one: one.day if order == "day" else one.agent):
        yield Group(name or "unknown", tuple(rows))


def _is_same(folder: str, name: str, data: bytes) -> bool:
    try:
        with open(os.path.join(folder, name), "rb") as file:
            return file.read(len(data) + 1) == data
    except OSError:
        return False


def _markup(css: str) -> object:
    from markupsafe import Markup

    return Markup(css)  # noqa: S704  # our own style sheet
