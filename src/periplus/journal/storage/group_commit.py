"""Group commit: one sync makes durable what several processes wrote.

Theory of operation
-------------------
A mutation is written under the writers' lock and made durable outside it. ``journal/flush`` is a small file that the
processes which write map into memory: how far was written, how far it is known to be on disk. Whoever gets the lock on
that file (the *leader*) notes how far was written, syncs, and says how far that reached; the others watch the mapped
word until it covers their own records. A leader that is killed lets go of the lock, and the next who asks leads.

Rules kept here:

* a record is acknowledged when a sync that *began after its write* has ended well: the leader reads ``written`` first;
* the file is derived and volatile. Its words are checked and bound to an *epoch*; under the writers' lock they are
  compared with the validated tail, and where they say anything else a new epoch begins. Whoever still waits in an
  older one asks the journal itself;
* a sync that fails poisons the segment for everybody, before the lock is let go;
* nobody depends on a leader: who has waited for _PATIENCE_S, or has no map, syncs by himself. More syncs than needed
  are slow, never wrong.

Layout: 8 bytes of magic, SHA-256 over the boot's id and the lineage, from byte 64 on words of 8 bytes (their
places below): value × 2¹⁶ + CRC-16 over the value, begun with that of the epoch and the word's number. A word is one
aligned store, so that no reader sees half of one.
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
_PACE_US_MAX: Final = 20_000  # by one stall nobody learns to wait long
_POLL_MIN_S: Final = 0.00005
_POLL_MAX_S: Final = 0.002
_RING_S: Final = 0.002  # what the end of a leader who does not ring costs
_RING_MAX_S: Final = 0.02


_BELLS_OFFSET: Final = 2048
_NUMBER: Final = 2048 // 8 + 6  # of the sync that runs, or ran last; beside the bells, for it decides nothing either
_COVERED: Final = 2048 // 8 + 7  # up to where that one reaches
_HUNGRY: Final = 2048 // 8 + 8  # when somebody said last that he has waited for the writers' lock for long

# The words, by their place.
_EPOCH: Final = 8
_SEGMENT: Final = 9
_WRITTEN: Final = 10
_DURABLE: Final = 11
_POISONED: Final = 12
_PACE_US: Final = 13  # what the last sync took: how long to sleep, no more
_CROWD: Final = 14  # how many records the last sync covered or came during it: how many to wait for, no more
_END: Final = 15  # where in the segment what was written ends


class Written(NamedTuple):
    """A batch that is not known to be durable: where it lies, its last seq, the map's epoch (0: without one), its size."""

    segment: int
    last_seq: int
    epoch: int
    record_count: int = 1


class Told(NamedTuple):
    """What the map says: its epoch, the last seq that was written and where it ends, the last one that is durable."""

    epoch: int
    last_seq: int
    end: int
    durable: int


class EpochEndedError(Exception):
    """The map is another one by now: only the journal itself can say what became of a record. Internal."""


class FlushMap:
    """The file ``path`` as one process sees it, for the records of ``lineage``."""

    def __init__(self, path: str, lineage: str, files: Files) -> None:
        self._path = path
        self._lineage = lineage
        self._files = files
        self._is_told = False  # to who reads an earlier map that somebody writes without one
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
        )  # our words, what we wrote, durable before it
        self._crowd = 0  # as this process said it last
        self._bells: list[FutexBell] = []  # of the writers' lock; of the syncs with an even and with an odd number
        self._read: dict[int, tuple[int, int, int]] = {}  # by word: epoch, what was read, the value that it stood for

    def close(self) -> None:
        self._lock.close()
        self._unmap()

    # -- under the writers' lock -------------------------------------------------------------------------------------

    def attach(self, segment: int, written: int, durable: int) -> tuple[int, int]:
        """Compare the map with the validated tail, the record ``written`` in ``segment``; gives ``(epoch, durable)``.

        ``durable`` is what the caller knows to be on disk. Epoch 0 where there can be no map: then everybody syncs
        for himself.
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
        """Whether the map says of ``place`` (segment, written, durable) what it said when this process last wrote.

        Then nobody wrote, led or failed since.
        """
        words, agreed_place, agreed = self._agreed_bytes
        is_same = agreed_place == place and agreed[0] == epoch > 0
        return is_same and self.is_mapped() and self._map is not None and self._map[:_USED] == words

    def _agreed(self, segment: int, written: int) -> tuple[int, int] | None:
        """``(epoch, durable)`` where the map is of this boot and lineage and ends where the journal does."""
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
        """Before records are taken back: who waits for one of this epoch asks the journal itself from now on."""
        if self.is_mapped():
            self._words[_EPOCH] = 0

    def rolled(self, segment: int, durable: int, epoch: int) -> None:
        """A new segment begins; all before it is durable."""
        if epoch:
            self._put(_DURABLE, durable, epoch)
            self._put(_SEGMENT, segment, epoch)

    def told(self, segment: int) -> Told | None:
        """Under the lock: what the last writer says of ``segment``; None where it is not the newest, or not to be relied on.

        Only who looks at the file knows whether he was stopped in the middle.
        """
        epoch = self._epoch() if self.is_mapped() else 0
        if not epoch or self._get(_SEGMENT, epoch) != segment or self._get(_POISONED, epoch) != 0:
            return None
        written, end, durable = (self._get(word, epoch) for word in (_WRITTEN, _END, _DURABLE))
        if not written or not end or durable is None or durable > written:
            return None
        return Told(epoch, written, end, durable)

    def wrote(self, batch: Written, end: int) -> bool:
        """Say so. Gives whether all before ``batch`` is durable, and nobody wrote, led or failed since that was written."""
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
        """Whether all before ``batch`` is durable, and nobody wrote, led or failed since that was written."""
        words, left, durable = self._left
        is_all = left is batch and durable == batch[1] - batch[3]
        return is_all and self._map is not None and self._map[:_USED] == words

    # -- without it --------------------------------------------------------------------------------------------------

    def durable(self, epoch: int) -> int | None:
        """The highest seq known to be durable; None where there is no map of that epoch any more."""
        return self._get(_DURABLE, epoch) if epoch and self._map is not None and self._epoch() == epoch else None

    def is_poisoned(self, segment: int, epoch: int) -> bool:
        """Whether a sync of the segment failed."""
        return bool(epoch and segment) and self._map is not None and self._get(_POISONED, epoch) == segment

    def poison(self, segment: int, epoch: int) -> None:
        if epoch and self.is_mapped() and self._epoch() == epoch:
            self._put(_POISONED, segment, epoch)

    def exclusively(self, work: Callable[[], None]) -> None:
        """Do ``work`` while nobody leads; also without that, where somebody goes on leading for too long."""
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
        """Wait until ``batch`` is durable, leading where nobody else does; gives ``(durable, whether we led)``.

        ``sync`` gets the highest seq durable before, makes the batch's segment durable or raises; what it raises ends
        the wait. Raises EpochEndedError.
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
                if self._agreed_bytes[1] != place:  # others came, or it failed
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
            heard = bell.listen()  # and look again, before any sleep

    def _sync_of(self, batch: Written) -> int:
        """The number of the sync that ``batch`` waits for: the one that runs, or the next."""
        number: int = self._words[_NUMBER]
        return number if self._words[_COVERED] >= batch.last_seq else number + 1

    def _ring_done(self) -> None:
        """Wake those whom the sync that is over has covered, and one of the others, who leads the next."""
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
            durable = self.durable(batch.epoch)  # a second look: the first may have met a change of the epoch
        written = self._get(_WRITTEN, batch.epoch) or 0
        if durable is None or durable > written:  # nothing is durable that was not written
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
            # ``written`` before the segment: a roll says what is durable before it changes the segment, and that first.
            found = self._get(_WRITTEN, batch.epoch)
            if found is None or found < batch.last_seq or self._get(_SEGMENT, batch.epoch) != batch.segment:
                before = self._reached(batch)
                if before >= batch.last_seq:
                    return before, False
                raise EpochEndedError
            written = found
        return self._sync(batch, before, written, sync), True

    def _sync(self, batch: Written, before: int, written: int, sync: Callable[[int], None]) -> int:
        """As the leader: make durable what is ``written``, and say so."""
        begun_ns = time.monotonic_ns()
        if not self.is_alone(batch) and self.is_mapped():
            self._words[_COVERED], self._words[_NUMBER] = written, (self._words[_NUMBER] + 1) & _VALUE_MAX
        sync(before)
        pace_us = min((time.monotonic_ns() - begun_ns) // 1000, _PACE_US_MAX)
        if not self.is_mapped():
            return written
        if self._crowd <= batch.record_count and self.is_alone(batch):  # nobody did anything meanwhile
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
                # As it should be found again by whoever writes next, if that is us.
                self._agreed_bytes = (self._map[:_USED], (batch.segment, written, written), (batch.epoch, written))
        return written

    def _gather(self, batch: Written, before: int) -> None:
        """Where others write too, let those whom the last sync set free write what this one covers.

        Whoever is alone waits for nobody, and nobody waits for long for one who does not come back.
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
            return True  # no lock, no sharing: lead without it

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
            return _EPOCH  # it is bound to no other
        if self._seeds[0] != epoch:
            data = epoch.to_bytes(6, "little")
            self._seeds = (epoch, {number: crc_hqx(data, number) for number in range(_SEGMENT, _END + 1)})
        return self._seeds[1][word]

    def _begin_epoch(self, segment: int, written: int, durable: int) -> int:
        assert self._map is not None
        epoch = int.from_bytes(os.urandom(6), "little") or 1
        self._words[_EPOCH] = 0  # from here on nobody reads on
        self._map[: len(self._identity)] = self._identity
        for word, value in ((_SEGMENT, segment), (_WRITTEN, written), (_DURABLE, durable),
                            (_POISONED, 0), (_PACE_US, 0), (_CROWD, 0), (_END, 0)):  # fmt: skip
            self._put(word, value, epoch)
        self._put(_EPOCH, epoch, 0)
        return epoch

    # -- the file ----------------------------------------------------------------------------------------------------

    def is_mapped(self) -> bool:
        """Whether there is a map whose file is still whole: touching what was cut off would end the process, as would writing
        to it where the disk has no room left.
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
            if status.st_size < _BYTES:  # written, not cut to size: a page without a block could not be stored later
                self._files.pwrite(self._fd, bytes(_BYTES - status.st_size), status.st_size)
            mapped = mmap.mmap(self._fd, _BYTES)
        except (OSError, ValueError):
            return self._no_map()  # a full disk, a folder in its place: everybody syncs for himself
        self._words = memoryview(mapped).cast("Q")
        self._bells = [FutexBell(mapped, _BELLS_OFFSET + at * BELL_BYTES) for at in range(3)]
        self._map = mapped  # last, for a signal's handler may raise before: who is mapped has words and bells
        return True

    def _unmapped(self, durable: int) -> tuple[int, int]:
        """Epoch 0; and a map of an earlier start of the machine says no more that nobody has written since."""
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
                    pass  # it is believed until there is room again
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
        mapped, self._map = self._map, None  # first, as it is last in _open
        self._words = memoryview(b"")
        for bell in self._bells:
            bell.close()
        self._bells = []
        if mapped is not None:
            try:
                mapped.close()
            except BufferError:
                pass  # another thread sleeps on it: it is closed when that one wakes
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


def durable_by_map(path: str, lineage: str, files: Files, segment: int) -> int:
    """The highest seq that is durable by the map's file as it is now, for who only reads; 0 where it says nothing.

    A sync covers what others wrote meanwhile, and its leader marks no more than his own: until the next one only the map knows.
    """
    told = _told_by_map(path, lineage, files)
    if not told or told[_SEGMENT] != segment or told[_POISONED] != 0:
        return 0
    return told[_DURABLE] if 0 < told[_DURABLE] <= told[_WRITTEN] else 0


def surely_durable(path: str, lineage: str, files: Files) -> int | None:
    """Up to where the map's file says that records are durable; None where there is no map of this boot and lineage.

    0 for none yet, and where it says nothing, as after a writer who was killed while he left a segment whose sync had failed: somebody has
    written since the machine was started.
    """
    told = _told_by_map(path, lineage, files)
    if told is None:
        return None
    return told[_DURABLE] if told and 0 <= told[_DURABLE] <= told[_WRITTEN] else 0


def is_of_earlier_start(path: str, lineage: str, files: Files) -> bool:
    """Whether the map's file is from before the machine was started: nobody has written here since, and what is read was on the disk."""
    boot = files.boot_id()
    try:
        data = read_plain(path, _BYTES)
    except OSError:
        return False
    # macOS tells a time, which moves when the clock is set.
    is_map = len(data) >= _USED and data.startswith(_MAGIC) and not boot.startswith(("unknown", "started"))
    return is_map and not data.startswith(_identity(boot, lineage))


def _identity(boot: str, lineage: str) -> bytes:
    return _MAGIC + hashlib.sha256(f"{boot}\0{lineage}".encode()).digest()


def _told_by_map(path: str, lineage: str, files: Files) -> dict[int, int] | None:
    """What the words of the map's file say, −1 where one is not what was put there, nothing between two epochs; None where it is no map of
    this boot and lineage.
    """
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
    """The map's ``words`` with another in one place."""
    return words[: word * 8] + raw.to_bytes(8, sys.byteorder) + words[word * 8 + 8 :]
