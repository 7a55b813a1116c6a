"""The errors of Periplus: one tree, each leaf says who is to blame.

::

    PeriplusError
    ├── UsageError            the caller: wrong arguments, wrong input, not a store        exit 2
    │   ├── NotAStoreError        no store where one was looked for
    │   ├── FormatError           input that is not of the format it claims to be
    │   └── NotFoundError         the thing asked for does not exist                       exit 1
    ├── DamageError           stored data is not what was written (file, offset, seq)      exit 3
    │   └── NewerFormatError      data of a later version of Periplus than this one
    ├── EnvironmentFailure    the machine: disk full, no permission, I/O error             exit 3
    │   └── OutcomeUnknownError   a write whose fate is not known; retry with its key      exit 6
    ├── LockTimeoutError      somebody else is writing, longer than the caller would wait  exit 4
    └── RefusedError          policy: a conflict, a secret, a claim of somebody else       exit 5
        ├── ClaimedError          somebody else works on that now
        ├── ConfinementError      a path that leads out of a confined folder, or may
        ├── ConflictError         the entity is no longer what the caller had read
        ├── RedactedError         what was taken out on purpose would come back
        ├── ForkError             two writers wrote different records under one lineage's seqs
        └── SecretFoundError      a secret in what was to be stored

An error carries up to three sentences: what is wrong, what is still safe, what to type next. Translate
foreign errors at the seam where they enter, with ``raise … from``.
"""

from __future__ import annotations

__all__ = [
    "ClaimedError",
    "ConfinementError",
    "ConflictError",
    "DamageError",
    "EnvironmentFailure",
    "ForkError",
    "FormatError",
    "LockTimeoutError",
    "NewerFormatError",
    "NotAStoreError",
    "NotFoundError",
    "OutcomeUnknownError",
    "PeriplusError",
    "RedactedError",
    "RefusedError",
    "SecretFoundError",
    "UsageError",
    "environment_failure",
    "refuse_text",
    "room_advice",
]

import errno
import os


class PeriplusError(Exception):
    """What is wrong, and where the caller gives them, what is still safe and what to type next."""

    exit_code = 1
    code = "error"

    def __init__(self, wrong: str, *, safe: str = "", mend: str = "") -> None:
        super().__init__(wrong)
        self.wrong = wrong
        self.safe = safe
        self.mend = mend

    def __str__(self) -> str:
        return self.wrong

    def __reduce__(self) -> tuple[object, ...]:
        # As it is, and not as its class is called: a worker's error that its parent cannot make again hangs or breaks the pool.
        return _as_it_was, (type(self), self.args), self.__dict__


def _as_it_was(kind: type[PeriplusError], given: tuple[object, ...]) -> PeriplusError:
    return kind.__new__(kind, *given)


class UsageError(PeriplusError):
    exit_code = 2
    code = "usage"


class NotAStoreError(UsageError):
    code = "not_a_store"


class NotFoundError(UsageError):
    exit_code = 1
    code = "not_found"


class FormatError(UsageError):
    """Bytes that are not of the format they claim to be. ``offset`` is in bytes from the start of ``path``."""

    code = "format"

    def __init__(
        self,
        wrong: str,
        *,
        path: str | None = None,
        offset: int | None = None,
        line: int | None = None,
        safe: str = "",
        mend: str = "",
    ) -> None:
        super().__init__(wrong, safe=safe, mend=mend)
        self.path = path
        self.offset = offset
        self.line = line

    def __str__(self) -> str:
        return _placed(self.wrong, self.path, self.offset, None, self.line)


class DamageError(PeriplusError):
    """Stored bytes that are not what was written. ``offset`` in bytes, ``seq`` of the first record lost."""

    exit_code = 3
    code = "damage"

    def __init__(
        self,
        wrong: str,
        *,
        path: str | None = None,
        offset: int | None = None,
        seq: int | None = None,
        safe: str = "",
        mend: str = "",
    ) -> None:
        super().__init__(wrong, safe=safe, mend=mend)
        self.path = path
        self.offset = offset
        self.seq = seq

    def __str__(self) -> str:
        return _placed(self.wrong, self.path, self.offset, self.seq, None)


class NewerFormatError(DamageError):
    code = "newer_format"


class EnvironmentFailure(PeriplusError):  # noqa: N818 - an "EnvironmentError" is already something else in Python
    exit_code = 3
    code = "environment"


class OutcomeUnknownError(EnvironmentFailure):
    """A write that may or may not have reached the disk. Repeat it with the same ``key`` to find out."""

    exit_code = 6
    code = "outcome_unknown"

    def __init__(self, wrong: str, *, key: str, safe: str = "", mend: str = "") -> None:
        super().__init__(wrong, safe=safe, mend=mend)
        self.key = key


class LockTimeoutError(PeriplusError):
    exit_code = 4
    code = "lock_timeout"


class RefusedError(PeriplusError):
    exit_code = 5
    code = "refused"


class ClaimedError(RefusedError):
    """What is asked for is somebody else's now; ``claims`` are the ids of the claims in the way."""

    code = "claimed"

    def __init__(self, wrong: str, *, claims: tuple[str, ...], safe: str = "", mend: str = "") -> None:
        super().__init__(wrong, safe=safe, mend=mend)
        self.claims = claims


class ConfinementError(RefusedError):
    """A path that a confined folder refuses; ``path`` as it was given, ``reason`` in one word of ``base.confined``."""

    code = "confinement"

    def __init__(
        self, wrong: str, *, path: str, reason: str, safe: str = "Nothing was changed.", mend: str = ""
    ) -> None:
        super().__init__(wrong, safe=safe, mend=mend)
        self.path = path
        self.reason = reason


class ConflictError(RefusedError):
    code = "conflict"


class ForkError(RefusedError):
    """Two stores wrote one lineage; ``differs_at`` is the first of its records that differs, 0 where that is not known."""

    code = "fork"
    differs_at = 0


class RedactedError(RefusedError):
    code = "redacted"


class SecretFoundError(RefusedError):
    code = "secret"


def _placed(wrong: str, path: str | None, offset: int | None, seq: int | None, line: int | None) -> str:
    places = []
    if path is not None:
        places.append(path)
    if line is not None:
        places.append(f"line {line}")
    if offset is not None:
        places.append(f"byte {offset}")
    if seq is not None:
        places.append(f"seq {seq}")
    return f"{', '.join(places)}: {wrong}" if places else wrong


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_DENIED = frozenset({errno.EACCES, errno.EPERM})
_LIMITS = {
    errno.EMFILE: "Close files, or raise the limit (ulimit -n), then repeat the command.",
    errno.ENFILE: "Have other programs close files, then repeat the command.",
    errno.EFBIG: "Raise the limit of a file's size (ulimit -f), then repeat the command.",
}


def environment_failure(error: OSError, doing: str, path: str | os.PathLike[str] | None = None) -> EnvironmentFailure:
    """The error of the field for a system call that failed while ``doing`` something to ``path``."""
    where = f" {os.fspath(path)}" if path is not None else ""
    reason = error.strerror or str(error) or type(error).__name__  # a socket with too long a name has no strerror
    wrong = f"cannot {doing}{where}: {reason}"
    if error.errno in _FULL:
        return EnvironmentFailure(
            wrong,
            safe="Nothing that was acknowledged is lost; reading goes on.",
            mend=room_advice(path),
        )
    if error.errno == errno.EROFS:
        return EnvironmentFailure(
            wrong,
            safe="Nothing was changed; reading goes on.",
            mend="Write where the file system is not mounted read-only.",
        )
    if error.errno in _DENIED:
        return EnvironmentFailure(
            wrong,
            safe="Nothing was changed.",
            mend="Check the owner and the mode of that path, then repeat the command.",
        )
    mend = _LIMITS.get(error.errno, "") if error.errno is not None else ""
    return EnvironmentFailure(wrong, safe="Nothing that was acknowledged is lost.", mend=mend)


def room_advice(path: str | os.PathLike[str] | None) -> str:
    """What is to be done on the disk of ``path``, there or not, that is said to be full: of bytes, or of names for files alone."""
    place = os.path.abspath(path) if path is not None else ""
    while place and not os.path.exists(place):
        place = os.path.dirname(place)
    try:
        disk = os.statvfs(place) if place else None
    except OSError:
        disk = None  # the advice is the usual one
    if disk is not None and disk.f_files > 0 and disk.f_favail == 0 and disk.f_bavail > 0:  # Btrfs counts none
        import shlex  # only where it is said

        return f"It has room, but no inode for one more file: remove files there (df -i {shlex.quote(place)}), then repeat the command."
    return "Free some space, then repeat the command."


def refuse_text(**several: object) -> None:
    """Raises UsageError for one text where several are meant: a text is a sequence of texts, its letters, to type checkers too."""
    for name, value in several.items():
        if isinstance(value, (str, bytes)):
            raise UsageError(
                f"{name} are several, and {value!r} is one text",
                safe="Nothing was changed.",
                mend="Give a list or a tuple, also of one.",
            )
