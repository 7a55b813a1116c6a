"""Group commit: one sync makes durable what several processes wrote.

Theory of operation
-------------------
A mutation is written under the writers' lock and made durable outside it. ``journal/flush`` is a small file that writing
processes map into memory. It states how far was written and how far is known to be on disk. The process that gets the lock
on that file (the *leader*) notes how far was written, syncs, and states how far that reached. The others watch the mapped
word until it covers their own records. If a leader is killed its lock is released, and the next process leads.

Rules kept here:

* a record is acknowledged when a sync that *began after its write* has succeeded: the leader reads ``written`` first;
* the file is derived and volatile. Its words are checked and bound to an *epoch*. Under the writers' lock they are compared
  with the validated tail; if they differ a new epoch begins, and waiters of an older epoch ask the journal itself;
* a failed sync poisons the segment for every process, before the lock is released;
* nobody depends on a leader: a process that has waited for _PATIENCE_S, or has no map, syncs by itself. More syncs than
  needed are slow, never wrong.

Layout: 8 bytes of magic, SHA-256 over the boot's id and the lineage, and from byte 64 on words of 8 bytes (their places
below): value × 2¹⁶ + CRC-16 over the value, seeded with that of the epoch and the word's number. A word is one aligned
store, so no reader sees half of one.
"""

from __future__ import annotations

__all__ = ["EpochEndedError", "FlushMap", "Told", "Written", "durable_by_map", "is_of_earlier_start", "surely_durable"]

import hashlib
import os
import stat
import sys
import time
from binascii import crc_hqx
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from periplus.base.errors import EnvironmentFailure
from periplus.base.files import Files, read_plain
from periplus.base.filesystem.file_systems import MappingSpace
from periplus.base.named_tuple import NamedTuple
from periplus.base.process.futex_wakeup import BELL_BYTES, WAKE_ALL, FutexBell
from periplus.base.process.locks import HUNGRY_S, Lock

if TYPE_CHECKING:
    from mmap import mmap

_MAGIC: Final = b"PPLSFLU1"
_BYTES: Final = 4096
_USED: Final = 16 * 8
_VALUE_MAX: Final = 2**48 - 1
_PATIENCE_S: Final = 1.0
_PACE_US_MAX: Final = 20_000  # one stall must not make every process wait long
_POLL_MIN_S: Final = 0.00005
_POLL_MAX_S: Final = 0.002
_RING_S: Final = 0.002  # the cost of a leader that ended without waking anybody
_RING_MAX_S: Final = 0.02


_BELLS_OFFSET: Final = 2048
_NUMBER: Final = 2048 // 8 + 6  # of the running or last sync; a hint only, like the wake-up words
_COVERED: Final = 2048 // 8 + 7  # the last seq that this sync covers
_HUNGRY: Final = 2048 // 8 + 8  # when a process last reported a long wait for the writers' lock

# The places of the words.
_EPOCH: Final = 8
_SEGMENT: Final = 9
_WRITTEN: Final = 10
_DURABLE: Final = 11
_POISONED: Final = 12
_PACE_US: Final = 13  # duration of the last sync; only used to choose how long to sleep
_CROWD: Final = (
    14  # records that the last sync covered or that came during it; only used to choose how many to wait for
)
_END: Final = 15  # end of the written bytes in the segment


class Written(NamedTuple):
    """A batch that is not known to be durable: its segment, last seq, the map's epoch (0: no map) and its record count."""

    segment: int
    last_seq: int
    epoch: int
    record_count: int = 1


class Told(NamedTuple):
    """The content of the map: its epoch, the last seq written and where it ends, the last seq that is durable."""

    epoch: int
    last_seq: int
    end: int
    durable: int


class EpochEndedError(Exception):
    """The map has a new epoch: only the journal itself can say what became of a record. Internal."""


class FlushMap:
    """The file ``path`` as mapped by one process, for the records of ``lineage``."""

    def __init__(self, path: str, lineage: str, files: Files) -> None:
        self._path = path
        self._lineage = lineage
        self._files = files
        self._is_told = False  # whether an older map was invalidated by a writer without one
        self._identity = _identity(files.boot_id(), lineage)
        self._lock = Lock(path, is_guard=False)
        self._room = MappingSpace(os.path.dirname(path))
        self._fd = -1
        self._map: mmap | None = None
        self._words: memoryview = memoryview(b"")
        self._seeds: tuple[int, dict[int, int]] = (0, {})
        self._agreed_bytes: tuple[bytes, tuple[int, int, int], tuple[int, int]] = (b"", (0, 0, 0), (0, 0))
        self._left: tuple[bytes, Written, int] = (
            b"",
            Written(0, 0, 0),
            0,
        )  # the words after our write, the batch, what was durable before it
        self._crowd = 0  # the last value that this process wrote
        self._bells: list[FutexBell] = []  # for the writers' lock, for even syncs, for odd syncs
        self._read: dict[int, tuple[int, int, int]] = {}  # by word: epoch, raw word, its value

    def close(self) -> None:
        self._lock.close()
        self._unmap()

    # -- under the writers' lock -------------------------------------------------------------------------------------

    def attach(self, segment: int, written: int, durable: int) -> tuple[int, int]:
        """Compare the map with the validated tail, the record ``written`` in ``segment``; return ``(epoch, durable)``.

        ``durable`` is what the caller knows to be on disk. Epoch 0 means there is no map and every process syncs for itself.
        """
        if self.is_agreed((segment, written, durable), self._agreed_bytes[2][0]):
            return self._agreed_bytes[2]
        if not self.is_mapped() and not self._open():
            return self._unmapped(durable)
        known = self._agreed(segment, written)
        if known is None and not self._is_current():
            if not self._open():
                return self._unmapped(durable)
            known = self._agreed(segment, written)
        if known is None:
            return self._begin_epoch(segment, written, min(durable, written)), durable
        epoch, found = known
        if durable > found:
            self._put(_DURABLE, durable, epoch)
        return epoch, max(durable, found)

    def is_agreed(self, place: tuple[int, int, int], epoch: int) -> bool:
        """Return True if the map is as this process last left it, at ``place`` (segment, written, durable).

        Then no process wrote, led or failed since.
        """
        words, agreed_place, agreed = self._agreed_bytes
        is_same = agreed_place == place and agreed[0] == epoch > 0
        return is_same and self.is_mapped() and self._map is not None and self._map[:_USED] == words

    def _agreed(self, segment: int, written: int) -> tuple[int, int] | None:
        """Return ``(epoch, durable)`` if the map is of this boot and lineage and ends where the journal does, else None."""
        epoch = self._epoch()
        if not epoch or self._map is None or self._map[: len(self._identity)] != self._identity:
            return None
        if self._get(_WRITTEN, epoch) != written or self._get(_SEGMENT, epoch) != segment:
            return None
        durable = self._get(_DURABLE, epoch)
        if durable is None or durable > written or self._get(_POISONED, epoch) is None:
            return None
        return epoch, durable

    def end_epoch(self) -> None:
        """End the epoch before records are withdrawn: waiters ask the journal itself from now on."""
        if self.is_mapped():
            self._words[_EPOCH] = 0

    def rolled(self, segment: int, durable: int, epoch: int) -> None:
        """Note that a new segment begins; everything before it is durable."""
        if epoch:
            self._put(_DURABLE, durable, epoch)
            self._put(_SEGMENT, segment, epoch)

    def told(self, segment: int) -> Told | None:
        """Under the lock: return what the last writer stated of ``segment``; None if that is not the newest or is unreliable.

        Only the file itself shows whether the writer was interrupted.
        """
        epoch = self._epoch() if self.is_mapped() else 0
        if not epoch or self._get(_SEGMENT, epoch) != segment or self._get(_POISONED, epoch) != 0:
            return None
        written, end, durable = (self._get(word, epoch) for word in (_WRITTEN, _END, _DURABLE))
        if not written or not end or durable is None or durable > written:
            return None
        return Told(epoch, written, end, durable)

    def wrote(self, batch: Written, end: int) -> bool:
        """Note a written batch. Return True if everything before it is durable and nobody wrote, led or failed since."""
        epoch = batch.epoch
        if not epoch or not self.is_mapped():
            return False
        words, place, agreed = self._agreed_bytes
        is_agreed = agreed[0] == epoch and place[0] == batch.segment and self._map is not None
        is_agreed = is_agreed and self._map is not None and self._map[:_USED] == words
        self._put(_END, end, epoch)
        self._put(_WRITTEN, batch.last_seq, epoch)
        if is_agreed:
            words = _with_word(_with_word(words, _END, self._read[_END][1]), _WRITTEN, self._read[_WRITTEN][1])
            self._left = (words, batch, agreed[1])
        return is_agreed and self.is_alone(batch)

    def is_alone(self, batch: Written) -> bool:
        """Return True if everything before ``batch`` is durable and nobody wrote, led or failed since it was written."""
        words, left, durable = self._left
        is_all = left is batch and durable == batch[1] - batch[3]
        return is_all and self._map is not None and self._map[:_USED] == words

    # -- without it --------------------------------------------------------------------------------------------------

    def durable(self, epoch: int) -> int | None:
        """Return the highest seq known to be durable; None if the map has another epoch by now."""
        return self._get(_DURABLE, epoch) if epoch and self._map is not None and self._epoch() == epoch else None

    def is_poisoned(self, segment: int, epoch: int) -> bool:
        """Return True if a sync of the segment failed."""
        return bool(epoch and segment) and self._map is not None and self._get(_POISONED, epoch) == segment

    def poison(self, segment: int, epoch: int) -> None:
        if epoch and self.is_mapped() and self._epoch() == epoch:
            self._put(_POISONED, segment, epoch)

    def exclusively(self, work: Callable[[], None]) -> None:
        """Do ``work`` while no process leads; without that guarantee if one goes on leading for too long."""
        until_s = time.monotonic() + _PATIENCE_S
        while not self._try_lead():
            if time.monotonic() >= until_s:
                work()
                return
            time.sleep(_POLL_MAX_S)
        try:
            work()
        finally:
            self._lock.release()

    def wait(self, batch: Written, sync: Callable[[int], None]) -> tuple[int, bool]:
        """Wait until ``batch`` is durable, leading if nobody else does; return ``(durable, whether we led)``.

        ``sync`` gets the highest seq durable before; it makes the batch's segment durable or raises, which ends the wait. Raises
        EpochEndedError.
        """
        if not batch.epoch:
            sync(0)
            return batch.last_seq, True
        if self.is_alone(batch) and self._try_lead():
            try:
                return self._sync(batch, self._left[2], batch.last_seq, sync), True
            finally:
                self._lock.release()
                place = (batch.segment, batch.last_seq, batch.last_seq)
                if self._agreed_bytes[1] != place:  # other processes wrote meanwhile, or the sync failed
                    self._ring_done()
        until_s, heard, bell = 0.0, 0, None
        while True:
            if not self.is_mapped():
                raise EpochEndedError
            durable = self._reached(batch)
            if durable >= batch.last_seq:
                return durable, False
            if self._try_lead():
                try:
                    return self._lead(batch, sync)
                finally:
                    self._lock.release()
                    self._ring_done()
            now_s = time.monotonic()
            until_s = until_s or now_s + _PATIENCE_S
            if now_s >= until_s:
                return self._lead(batch, sync)
            if bell is not None:
                bell.sleep(heard, min(max(self._pace_s(batch.epoch) * 4, _RING_S), _RING_MAX_S))
                if not self.is_mapped():
                    raise EpochEndedError
            bell = self._bells[1 + self._sync_of(batch) % 2]
            heard = bell.listen()  # then check again before sleeping

    def _sync_of(self, batch: Written) -> int:
        """Return the number of the sync that ``batch`` waits for: the running one or the next."""
        number: int = self._words[_NUMBER]
        return number if self._words[_COVERED] >= batch.last_seq else number + 1

    def _ring_done(self) -> None:
        """Wake all processes whose batches the finished sync covered, and one of the others to lead the next."""
        if self.is_mapped():
            number: int = self._words[_NUMBER]
            self._bells[1 + number % 2].ring(WAKE_ALL)
            self._bells[1 + (number + 1) % 2].ring()

    # -- as the bell of the writers' lock

    def listen(self) -> int | None:
        return self._bells[0].listen() if self.is_mapped() else None

    def sleep(self, heard: int, seconds: float) -> None:
        if self._bells:
            self._bells[0].sleep(heard, seconds)

    def ring(self) -> None:
        if self.is_mapped():
            self._bells[0].ring()

    def say_hungry(self) -> None:
        if self.is_mapped():
            self._words[_HUNGRY] = time.monotonic_ns()

    def is_anybody_hungry(self) -> bool:
        return self.is_mapped() and 0 <= time.monotonic_ns() - self._words[_HUNGRY] < HUNGRY_S * 1e9

    def _reached(self, batch: Written) -> int:
        durable = self.durable(batch.epoch)
        if durable is None:
            durable = self.durable(batch.epoch)  # read again: the epoch may have changed during the first read
        written = self._get(_WRITTEN, batch.epoch) or 0
        if durable is None or durable > written:  # impossible: durable beyond written
            raise EpochEndedError
        return durable

    def _lead(self, batch: Written, sync: Callable[[int], None]) -> tuple[int, bool]:
        if self.is_mapped() and self.is_alone(batch):
            before, written = self._left[2], batch.last_seq
        else:
            before = self._reached(batch)
            if before >= batch.last_seq:
                return before, False
            self._gather(batch, before)
            # Read ``written`` before the segment: a roll updates ``durable`` first and the segment after it.
            found = self._get(_WRITTEN, batch.epoch)
            if found is None or found < batch.last_seq or self._get(_SEGMENT, batch.epoch) != batch.segment:
                before = self._reached(batch)
                if before >= batch.last_seq:
                    return before, False
                raise EpochEndedError
            written = found
        return self._sync(batch, before, written, sync), True

    def _sync(self, batch: Written, before: int, written: int, sync: Callable[[int], None]) -> int:
        """As the leader, make what is ``written`` durable and note it in the map."""
        begun_ns = time.monotonic_ns()
        if not self.is_alone(batch) and self.is_mapped():
            self._words[_COVERED], self._words[_NUMBER] = written, (self._words[_NUMBER] + 1) & _VALUE_MAX
        sync(before)
        pace_us = min((time.monotonic_ns() - begun_ns) // 1000, _PACE_US_MAX)
        if not self.is_mapped():
            return written
        if self._crowd <= batch.record_count and self.is_alone(batch):  # no other process did anything meanwhile
            self._put(_DURABLE, written, batch.epoch)
            words = _with_word(self._left[0], _DURABLE, self._read[_DURABLE][1])
            self._agreed_bytes = (words, (batch.segment, written, written), (batch.epoch, written))
        elif self._epoch() == batch.epoch:
            known = self._get(_DURABLE, batch.epoch) or 0
            self._put(_DURABLE, max(written, known), batch.epoch)
            if not pace_us / 2 < (self._get(_PACE_US, batch.epoch) or 0) < pace_us * 2:
                self._put(_PACE_US, pace_us, batch.epoch)
            crowd = max((self._get(_WRITTEN, batch.epoch) or 0) - before, 1)
            if crowd != self._get(_CROWD, batch.epoch):
                self._put(_CROWD, crowd, batch.epoch)
            self._crowd = crowd
            is_all = self._get(_WRITTEN, batch.epoch) == written > known
            if is_all and self._map is not None and not self.is_poisoned(batch.segment, batch.epoch):
                # The state that this process expects if it is the next to write.
                self._agreed_bytes = (self._map[:_USED], (batch.segment, written, written), (batch.epoch, written))
        return written

    def _gather(self, batch: Written, before: int) -> None:
        """If other processes write too, wait a little until those released by the last sync have written their next batches.

        A lone writer does not wait, and nobody waits long for a writer that does not return.
        """
        crowd = self._get(_CROWD, batch.epoch) or 0
        if crowd <= batch.record_count:
            return
        pace_s = self._pace_s(batch.epoch)
        until_s = time.monotonic() + pace_s / 2
        while time.monotonic() < until_s and (self._get(_WRITTEN, batch.epoch) or crowd) - before < crowd:
            time.sleep(max(pace_s / 16, _POLL_MIN_S))

    def _pace_s(self, epoch: int) -> float:
        return min(self._get(_PACE_US, epoch) or 0, _PACE_US_MAX) / 1e6

    def _try_lead(self) -> bool:
        try:
            return self._lock.try_take()
        except EnvironmentFailure:
            return True  # without a lock every process leads

    # -- the words ---------------------------------------------------------------------------------------------------

    def _epoch(self) -> int:
        return self._get(_EPOCH, 0) or 0

    def _get(self, word: int, epoch: int) -> int | None:
        raw: int = self._words[word]
        known = self._read.get(word)
        if known is not None and known[1] == raw and known[0] == epoch:
            return known[2]
        value = raw >> 16
        if raw != _sealed(value, self._seed(word, epoch)):
            return None
        self._read[word] = (epoch, raw, value)
        return value

    def _put(self, word: int, value: int, epoch: int) -> None:
        assert 0 <= value <= _VALUE_MAX
        seeds = self._seeds
        seed = seeds[1][word] if seeds[0] == epoch and word != _EPOCH else self._seed(word, epoch)
        raw = value << 16 | crc_hqx(value.to_bytes(6, "little"), seed)
        self._words[word] = raw
        self._read[word] = (epoch, raw, value)

    def _seed(self, word: int, epoch: int) -> int:
        if word == _EPOCH:
            return _EPOCH  # the epoch word is bound to no epoch
        if self._seeds[0] != epoch:
            data = epoch.to_bytes(6, "little")
            self._seeds = (epoch, {number: crc_hqx(data, number) for number in range(_SEGMENT, _END + 1)})
        return self._seeds[1][word]

    def _begin_epoch(self, segment: int, written: int, durable: int) -> int:
        assert self._map is not None
        epoch = int.from_bytes(os.urandom(6), "little") or 1
        self._words[_EPOCH] = 0  # readers stop here
        self._map[: len(self._identity)] = self._identity
        for word, value in ((_SEGMENT, segment), (_WRITTEN, written), (_DURABLE, durable),
                            (_POISONED, 0), (_PACE_US, 0), (_CROWD, 0), (_END, 0)):  # fmt: skip
            self._put(word, value, epoch)
        self._put(_EPOCH, epoch, 0)
        return epoch

    # -- the file ----------------------------------------------------------------------------------------------------

    def is_mapped(self) -> bool:
        """Return True if there is a map whose file is still whole and the disk has room.

        Touching a truncated part of the file, or writing to it on a full disk, would end the process.
        """
        try:
            is_whole = self._map is not None and os.lseek(self._fd, 0, os.SEEK_END) >= _BYTES
        except OSError:
            return False
        return is_whole and self._room.is_enough()

    def _open(self) -> bool:
        self._unmap()
        if not self._room.is_enough():
            return False
        import mmap

        try:
            self._fd = self._files.open(self._path, os.O_RDWR | os.O_CREAT)
            status = os.fstat(self._fd)
            if not stat.S_ISREG(status.st_mode):
                return self._no_map()
            if (
                status.st_size < _BYTES
            ):  # written rather than truncated: a page without a block could not be stored on a full disk
                self._files.pwrite(self._fd, bytes(_BYTES - status.st_size), status.st_size)
            mapped = mmap.mmap(self._fd, _BYTES)
        except (OSError, ValueError):
            return self._no_map()  # a full disk, or a folder in its place: every process syncs for itself
        self._words = memoryview(mapped).cast("Q")
        self._bells = [FutexBell(mapped, _BELLS_OFFSET + at * BELL_BYTES) for at in range(3)]
        self._map = mapped  # set last: a signal handler may raise before, and a map needs words and bells
        return True

    def _unmapped(self, durable: int) -> tuple[int, int]:
        """Return epoch 0; invalidate a map of an earlier boot, which would claim that nobody has written since."""
        if not self._is_told:
            self._is_told = True
            if is_of_earlier_start(self._path, self._lineage, self._files):
                try:
                    fd = self._files.open(self._path, os.O_WRONLY)
                    try:
                        self._files.pwrite(fd, bytes(len(_MAGIC)), 0)
                    finally:
                        os.close(fd)
                except OSError:
                    pass  # it is trusted until there is room again
        return 0, durable

    def _no_map(self) -> bool:
        self._unmap()
        return False

    def _is_current(self) -> bool:
        try:
            mine, there = os.fstat(self._fd), os.stat(self._path)
        except OSError:
            return False
        return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)

    def _unmap(self) -> None:
        mapped, self._map = self._map, None  # cleared first, as it is set last in _open
        self._words = memoryview(b"")
        for bell in self._bells:
            bell.close()
        self._bells = []
        if mapped is not None:
            try:
                mapped.close()
            except BufferError:
                pass  # another thread sleeps on it; it is closed when that thread wakes
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


def durable_by_map(path: str, lineage: str, files: Files, segment: int) -> int:
    """Return the highest seq that the map's file states as durable; 0 if it states nothing. For processes that only read.

    A sync also covers what other processes wrote meanwhile, but its leader marks only its own: until the next sync only the map
    knows the rest.
    """
    told = _told_by_map(path, lineage, files)
    if not told or told[_SEGMENT] != segment or told[_POISONED] != 0:
        return 0
    return told[_DURABLE] if 0 < told[_DURABLE] <= told[_WRITTEN] else 0


def surely_durable(path: str, lineage: str, files: Files) -> int | None:
    """Return up to where the map's file states records as durable; None if there is no map of this boot and lineage.

    0 if nothing is durable yet or the map states nothing, as after a writer that was killed while it left a poisoned segment:
    something was written in this boot.
    """
    told = _told_by_map(path, lineage, files)
    if told is None:
        return None
    return told[_DURABLE] if told and 0 <= told[_DURABLE] <= told[_WRITTEN] else 0


def is_of_earlier_start(path: str, lineage: str, files: Files) -> bool:
    """Return True if the map's file is of an earlier boot: nobody has written here since, so what is read was on disk."""
    boot = files.boot_id()
    try:
        data = read_plain(path, _BYTES)
    except OSError:
        return False
    # On macOS the boot id is a time, which moves when the clock is set.
    is_map = len(data) >= _USED and data.startswith(_MAGIC) and not boot.startswith(("unknown", "started"))
    return is_map and not data.startswith(_identity(boot, lineage))


def _identity(boot: str, lineage: str) -> bytes:
    return _MAGIC + hashlib.sha256(f"{boot}\0{lineage}".encode()).digest()


def _told_by_map(path: str, lineage: str, files: Files) -> dict[int, int] | None:
    """Return the words of the map's file, −1 for a corrupt one; empty between two epochs; None if it is of another boot or lineage."""
    try:
        data = read_plain(path, _BYTES)
    except OSError:
        return None
    if len(data) < _USED or not data.startswith(_identity(files.boot_id(), lineage)):
        return None
    words = memoryview(data[:_USED]).cast("Q")

    def value(word: int, epoch: int) -> int:
        seed = _EPOCH if word == _EPOCH else crc_hqx(epoch.to_bytes(6, "little"), word)
        return words[word] >> 16 if words[word] == _sealed(words[word] >> 16, seed) else -1

    epoch = value(_EPOCH, 0)
    return {word: value(word, epoch) for word in (_SEGMENT, _WRITTEN, _DURABLE, _POISONED)} if epoch > 0 else {}


def _sealed(value: int, seed: int) -> int:
    return value << 16 | crc_hqx(value.to_bytes(6, "little"), seed)


def _with_word(words: bytes, word: int, raw: int) -> bytes:
    """Return ``words`` with the word at one place replaced."""
    return words[: word * 8] + raw.to_bytes(8, sys.byteorder) + words[word * 8 + 8 :]
