"""Errors of Periplus: one tree, each leaf names the cause.

::

    PeriplusError
    ├── UsageError            the caller: wrong arguments, wrong input, not a store        exit 2
    │   ├── NotAStoreError        no store at the given place
    │   ├── FormatError           input that is not of the format it claims to be
    │   └── NotFoundError         the requested thing does not exist                       exit 1
    ├── DamageError           stored data is not what was written (file, offset, seq)      exit 3
    │   └── NewerFormatError      data of a later version of Periplus than this one
    ├── EnvironmentFailure    the machine: disk full, no permission, I/O error             exit 3
    │   └── OutcomeUnknownError   a write whose outcome is unknown; retry with its key     exit 6
    ├── LockTimeoutError      another process kept the lock longer than the caller waits   exit 4
    └── RefusedError          policy: a conflict, a secret, another agent's claim          exit 5
        ├── ClaimedError          another agent has claimed it
        ├── ConfinementError      a path that leads, or may lead, out of a confined folder
        ├── ConflictError         the entity changed since the caller read it
        ├── RedactedError         the write would bring back redacted content
        ├── ForkError             two writers wrote different records under one lineage's seqs
        └── SecretFoundError      the content to be stored contains a secret

An error has up to three sentences: what is wrong, what is still safe, what to type next. Translate
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
    """Base of all errors: what is wrong and, where known, what is still safe and what to type next."""

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
        # Bypasses ``__init__``: an error that a pool's parent process cannot rebuild hangs or breaks the pool.
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
    """Bytes that are not of the claimed format. ``offset`` is in bytes from the start of ``path``."""

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
    """Stored bytes that differ from what was written. ``offset`` in bytes, ``seq`` of the first record lost."""

    exit_code = 3
    code = "damage"

    # Written out like FormatError's, so that a type checker refuses the place that this kind of error does not have.
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
    """A write that may have reached the disk. Repeat it with the same ``key`` to find out."""

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
    """Work that another agent has claimed; ``claims`` are the ids of the conflicting claims."""

    code = "claimed"

    def __init__(self, wrong: str, *, claims: tuple[str, ...], safe: str = "", mend: str = "") -> None:
        super().__init__(wrong, safe=safe, mend=mend)
        self.claims = claims


class ConfinementError(RefusedError):
    """A path that a confined folder refuses; ``path`` as given, ``reason`` as in ``base.filesystem.confined_folder``."""

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
    """Two stores wrote one lineage; ``differs_at`` is the seq of the first record that differs, 0 where unknown."""

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
    """Return the error for a system call that failed while ``doing`` something to ``path``."""
    where = f" {os.fspath(path)}" if path is not None else ""
    reason = error.strerror or str(error) or type(error).__name__  # a socket with a long name has no strerror
    wrong = f"cannot {doing}{where}: {reason}"
    if error.errno in _FULL:
        return EnvironmentFailure(
            wrong,
            safe="No acknowledged write is lost; reading goes on.",
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
    return EnvironmentFailure(wrong, safe="No acknowledged write is lost.", mend=mend)


def room_advice(path: str | os.PathLike[str] | None) -> str:
    """Return advice for a full disk under ``path`` (which need not exist): whether it lacks bytes or inodes."""
    place = os.path.abspath(path) if path is not None else ""
    while place and not os.path.exists(place):
        place = os.path.dirname(place)
    try:
        disk = os.statvfs(place) if place else None
    except OSError:
        disk = None  # gives the general advice
    if disk is not None and disk.f_files > 0 and disk.f_favail == 0 and disk.f_bavail > 0:  # Btrfs reports no inodes
        import shlex  # rarely needed

        return f"The disk has space, but no free inode: remove files there (df -i {shlex.quote(place)}), then repeat the command."
    return "Free some space, then repeat the command."


def refuse_text(**several: object) -> None:
    """Raise UsageError where a list is expected and one text was given. Type checkers accept a text as a sequence of
    texts.
    """
    for name, value in several.items():
        if isinstance(value, (str, bytes)):
            raise UsageError(
                f"{name} must be a list, not the one text {value!r}",
                safe="Nothing was changed.",
                mend="Give a list or a tuple, also for one text.",
            )
