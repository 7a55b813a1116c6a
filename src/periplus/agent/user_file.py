"""Small JSON files in the user's settings folder (trust, pins, keys), shared by several processes.

A file is replaced whole (mode 0600) and read without a lock. A writer holds the folder's lock from reading to replacing, so of two
concurrent changes neither is lost. A file that others can write, or that is invalid, is never used and never overwritten: the error names
it, and how to fix it.
"""

from __future__ import annotations

__all__ = ["LOCK_NAME", "UserFile", "Words"]

import json
import os
import shlex
import stat
from collections.abc import Callable
from typing import Any, Final, Generic, NamedTuple, TypeVar

from periplus.base.errors import LockTimeoutError, RefusedError, UsageError, environment_failure
from periplus.base.files import Files, read_plain, write_atomic
from periplus.base.process.locks import LOCK_PATIENCE_S, Lock

LOCK_NAME: Final = ".lock"
_Held = TypeVar("_Held")


class Words(NamedTuple):
    """Messages for a person: what the file is ("not a list of trusted folders"), what it means that others can write it, what is safe, how
    to fix it.
    """

    isnt: str
    unbelieved: str
    safe: str
    mend: str


class UserFile(Generic[_Held]):
    """The file ``folder/name``. ``decode`` takes the JSON value and raises ValueError if it is invalid; without a file it gets None.
    ``is_secret``: nobody else may read it either.
    """

    def __init__(
        self, folder: str, name: str, decode: Callable[[Any], _Held], encode: Callable[[_Held], Any], words: Words,
        *, bytes_max: int, is_secret: bool = False, files: Files | None = None,
    ) -> None:  # fmt: skip
        self._folder, self.path = folder, os.path.join(folder, name)
        self._decode, self._encode, self._words = decode, encode, words
        self._bytes_max, self._is_secret, self._files = bytes_max, is_secret, files or Files()

    def read(self) -> _Held:
        """Read the file. Raises RefusedError if others can write the file (or read a secret one), UsageError if it is invalid."""
        words = self._words
        try:
            status = os.lstat(self.path)
            theirs = 0o077 if self._is_secret else 0o022
            if not stat.S_ISREG(status.st_mode) or status.st_mode & theirs or status.st_uid != os.geteuid():
                mend = f"Review its contents, then run `chmod 600 {shlex.quote(self.path)}`."
                if self._is_secret:
                    mend = f"Run `chmod 600 {shlex.quote(self.path)}`; where others use this machine, take new keys."
                raise RefusedError(f"{self.path} {words.unbelieved}", safe=words.safe, mend=mend)
            if status.st_size > self._bytes_max:
                raise self._odd(f"it has over {self._bytes_max:,} bytes")
            return self._decode(json.loads(read_plain(self.path, self._bytes_max)))
        except FileNotFoundError:
            return self._decode(None)
        except OSError as error:
            raise environment_failure(error, "read", self.path) from error
        except json.JSONDecodeError as error:
            raise self._odd(f"line {error.lineno}: {error.msg}") from error
        except (ValueError, RecursionError) as error:
            raise self._odd("" if isinstance(error, RecursionError) else str(error)) from error

    def change(self, edit: Callable[[_Held], _Held | None]) -> _Held:
        """Read, edit and replace the file under the lock. ``edit`` returns None to leave it unchanged. Returns the new content.

        Raises what ``read`` and ``edit`` raise, LockTimeoutError, UsageError if it grows too large, EnvironmentFailure; the file is
        unchanged then.
        """
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
        except OSError as error:
            raise environment_failure(error, "make the folder", self._folder) from error
        lock = Lock(os.path.join(self._folder, LOCK_NAME))
        try:
            mutex, _ = lock.take(LOCK_PATIENCE_S, None)
        except LockTimeoutError as error:
            raise LockTimeoutError(
                f"another process is changing {self.path}; it was not done within {LOCK_PATIENCE_S:g} s",
                safe="Nothing was changed.", mend="Repeat the command when that process is done.",
            ) from error  # fmt: skip
        try:
            return self._changed(edit)
        finally:
            lock.give(mutex)
            lock.close()

    def _changed(self, edit: Callable[[_Held], _Held | None]) -> _Held:
        held = self.read()
        changed = edit(held)
        if changed is None:
            return held
        data = json.dumps(self._encode(changed), indent=1, sort_keys=True).encode() + b"\n"
        if len(data) > self._bytes_max:
            raise UsageError(f"{self.path} would have more than {self._bytes_max:,} bytes", safe="Nothing was changed.",
                             mend=self._words.mend)  # fmt: skip
        write_atomic(self._files, self.path, data, mode=0o600)
        return changed

    def _odd(self, why: str) -> UsageError:
        return UsageError(
            f"{self.path} is {self._words.isnt}{f' ({why})' if why else ''}",
            safe=self._words.safe,
            mend=self._words.mend,
        )
