r"""The log of a replay, step by step, in an append-only file, from which a paused or crashed replay is resumed.

::

    CRC32 JSON\n        each line; the checksum is over the JSON, as eight hexadecimal digits
    {"version":1,…}     the first: of which trail, and under which settings
    {"kind":"intent",…} a step that changes something is about to be carried out, and what it is to change
    {"kind":"outcome",…} what became of a step, and which step is next

An intent is durable before its step begins, an outcome of such a step before the next step begins. An incomplete last
line is the trace of a crash and is removed when the log is opened. Any other malformed line is damage. See
docs/decisions/0041-replay.md.
"""

from __future__ import annotations

__all__ = ["Intent", "Log", "LogHeader", "MemoryLog", "Outcome", "ReplayLog"]

import os
import zlib
from typing import Final, Protocol

import msgspec

from periplus.base.errors import ConflictError, DamageError, NewerFormatError, RefusedError, environment_failure
from periplus.base.files import Files, read_plain, write_all, write_atomic
from periplus.base.process.locks import Lock
from periplus.trail.model import Outcome as StepOutcome
from periplus.trail.replay.values import State

LOG_BYTES_MAX: Final = 1 << 30
_VERSION: Final = 1
_LINE_BYTES_MAX: Final = 1 << 20
_CRC_CHARS: Final = 8


class LogHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``settings`` (world, range, capabilities, base) must be unchanged for the replay to be resumed."""

    version: int
    trail: str
    settings: dict[str, str]


class Intent(msgspec.Struct, frozen=True, tag_field="kind", tag="intent", forbid_unknown_fields=True):
    """The ``number``-th executed step, from 0, is step ``index`` of the trail."""

    number: int
    index: int
    foreseen: dict[str, str]


class Outcome(msgspec.Struct, frozen=True, tag_field="kind", tag="outcome", forbid_unknown_fields=True):
    """``register`` is register 0 after the step, ``next`` the step to continue with; ``result`` is hexadecimal, or
    empty.
    """

    number: int
    index: int
    next: int
    register: int
    state: State
    outcome: StepOutcome
    exit_code: int | None = None
    error: str = ""
    result: str = ""
    size: int = 0
    differs: tuple[str, str, str] | None = None
    at_ms: int = 0
    duration_ms: int = 0


class Log(Protocol):
    """The interface of a log; ``intent`` is the intent without an outcome."""

    outcomes: list[Outcome]
    intent: Intent | None

    def intend(self, intent: Intent) -> None: ...
    def settle(self, outcome: Outcome, *, is_durable: bool) -> None: ...


class MemoryLog:
    """A log for a replay that is not resumed."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []
        self.intent: Intent | None = None

    def intend(self, intent: Intent) -> None:
        self.intent = intent

    def settle(self, outcome: Outcome, *, is_durable: bool) -> None:
        del is_durable
        self.intent = None
        self.outcomes.append(outcome)


class ReplayLog:
    """The log in file ``path``; close it. While it is open no other process can open it."""

    def __init__(self, path: str, header: LogHeader, files: Files, *, is_resumed: bool) -> None:
        """Begin a log, or with ``is_resumed`` continue the existing one.

        Raises ConflictError if that belongs to another trail or other settings, RefusedError if there is an unexpected
        log or none to resume, DamageError for a malformed line.
        """
        self.path = path
        self.outcomes: list[Outcome] = []
        self.intent: Intent | None = None
        self._files = files
        self._lock = Lock(path + ".lock")
        self._fd = -1
        if not self._lock.try_take():
            raise RefusedError(f"another process replays in {os.path.dirname(path)}", safe="Nothing was changed.",
                               mend="Wait until it is done, or name another folder.")  # fmt: skip
        try:
            if is_resumed:
                self._resume(header)
            else:
                self._begin(header)
            self._fd = files.open(path, os.O_WRONLY | os.O_APPEND)
        except OSError as error:
            self.close()
            raise environment_failure(error, "open", path) from error
        except BaseException:  # on any failure, release the lock
            self.close()
            raise

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self._lock.release()
        self._lock.close()

    def intend(self, intent: Intent) -> None:
        """Write an intent; it is durable when this returns."""
        self._append(intent, is_durable=True)
        self.intent = intent

    def settle(self, outcome: Outcome, *, is_durable: bool) -> None:
        self._append(outcome, is_durable=is_durable)
        self.intent = None
        self.outcomes.append(outcome)

    def _begin(self, header: LogHeader) -> None:
        if os.path.lexists(self.path):
            raise RefusedError(f"{os.path.dirname(self.path)} has a replay already", safe="Nothing was changed.",
                               mend="Continue it with --resume, or name another folder.")  # fmt: skip
        write_atomic(self._files, self.path, _line(header))

    def _resume(self, header: LogHeader) -> None:
        try:
            data = read_plain(self.path, LOG_BYTES_MAX + 1)
        except FileNotFoundError as error:
            raise RefusedError(f"there is no replay to continue in {os.path.dirname(self.path)}",
                               safe="Nothing was changed.", mend="Leave --resume out to begin one.") from error  # fmt: skip
        end = data.rfind(b"\n") + 1
        if end == 0 or len(data) > LOG_BYTES_MAX:
            raise self._damage("not the log of a replay", 0)
        start = data.index(b"\n") + 1
        try:
            held = _HEADER.decode(self._checked(data[: start - 1], 0))
        except msgspec.MsgspecError as error:
            raise self._damage(f"not the log of a replay: {error}", 0) from error
        self._check_header(held, header)
        while start < end:
            stop = data.index(b"\n", start)
            try:
                record = _RECORD.decode(self._checked(data[start:stop], start))
            except msgspec.MsgspecError as error:
                raise self._damage(f"not a record of a replay: {error}", start) from error
            self._take(record, start)
            start = stop + 1
        if end < len(data):  # a crash cut the last line: its step has an intent, or is done again
            write_atomic(self._files, self.path, data[:end])

    def _check_header(self, held: LogHeader, wanted: LogHeader) -> None:
        safe = "Nothing was changed."
        if held.version > _VERSION:
            raise NewerFormatError(f"replay log {held.version}; this Periplus reads {_VERSION}", path=self.path,
                                   safe="The file is sound.", mend="Update Periplus.")  # fmt: skip
        if held.trail != wanted.trail:
            raise ConflictError(f"{self.path} is of trail {held.trail[:16]}, not of {wanted.trail[:16]}", safe=safe,
                                mend="Name that trail, or another folder.")  # fmt: skip
        for name in sorted({*held.settings, *wanted.settings}):
            before, now = held.settings.get(name, ""), wanted.settings.get(name, "")
            if before != now:
                raise ConflictError(f"the replay was begun with {name} {before[:80]!r}, not {now[:80]!r}", safe=safe,
                                    mend="Continue with the same options.")  # fmt: skip

    def _take(self, record: Intent | Outcome, offset: int) -> None:
        if record.number != len(self.outcomes) or record.index < 0:
            raise self._damage("a step out of its order", offset)
        if isinstance(record, Intent):
            self.intent = record
            return
        if self.intent is not None and self.intent.index != record.index:
            raise self._damage("an outcome of another step than the one that began", offset)
        if (self.outcomes and self.outcomes[-1].next != record.index) or record.next < 0:
            raise self._damage("a step that does not follow the one before", offset)
        if len(record.result) not in (0, 64) or not set(record.result) <= set("0123456789abcdef") or record.size < 0:
            raise self._damage("a result that is not a digest", offset)
        self.intent = None
        self.outcomes.append(record)

    def _append(self, record: Intent | Outcome, *, is_durable: bool) -> None:
        try:
            write_all(self._files, self._fd, _line(record))
            if is_durable:
                self._files.sync_data(self._fd)
        except OSError as error:
            raise environment_failure(error, "write", self.path) from error

    def _checked(self, line: bytes, offset: int) -> bytes:
        """Return the JSON of a line."""
        data = line[_CRC_CHARS + 1 :]
        if len(line) > _LINE_BYTES_MAX or line[: _CRC_CHARS + 1] != f"{zlib.crc32(data):08x} ".encode():
            raise self._damage("a line that does not match its checksum", offset)
        return data

    def _damage(self, why: str, offset: int) -> DamageError:
        return DamageError(why, path=self.path, offset=offset, safe="Only the folder of that replay is concerned.",
                           mend="Begin the replay anew in another folder.")  # fmt: skip


_HEADER: Final = msgspec.json.Decoder(LogHeader)
_RECORD: Final = msgspec.json.Decoder(Intent | Outcome)


def _line(record: LogHeader | Intent | Outcome) -> bytes:
    data = msgspec.json.encode(record)
    return f"{zlib.crc32(data):08x} ".encode() + data + b"\n"
