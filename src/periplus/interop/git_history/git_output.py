"""Output of git read piece by piece: tokens of a listing, contents of objects."""

from __future__ import annotations

__all__ = ["TOKEN_BYTES_MAX", "BlobReader", "GitTokens"]

from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Final, Self

from periplus.base.errors import FormatError
from periplus.interop.git_history.git_process import cannot_run, command, environment

if TYPE_CHECKING:
    import subprocess

TOKEN_BYTES_MAX: Final = 32 << 20
_CHUNK_BYTES: Final = 1 << 16
_ERROR_BYTES_MAX: Final = 4096
_HEADER_BYTES_MAX: Final = 400
_RESTARTS_MAX: Final = 10_000


class GitTokens:
    """Context manager over the NUL-separated tokens that git prints; raises FormatError where git fails."""

    def __init__(self, repo: str, *arguments: str) -> None:
        self._repo = repo
        self._arguments = arguments

    def __enter__(self) -> Iterator[bytes]:
        import subprocess
        import tempfile

        self._errors = tempfile.TemporaryFile()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - a list of arguments, no shell
                command(self._repo, self._arguments),
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._errors,
            )
        except OSError as error:
            self._errors.close()
            raise cannot_run(error) from error
        assert self._process.stdout is not None
        return _tokens(self._process.stdout)

    def __exit__(self, kind: object, *_: object) -> None:
        assert self._process.stdout is not None
        if kind is not None:
            self._process.kill()
        self._process.stdout.close()
        code = self._process.wait()
        self._errors.seek(0)
        said = self._errors.read(_ERROR_BYTES_MAX).decode("utf-8", "replace").strip()
        self._errors.close()
        if kind is None and code:
            last = said.splitlines()[-1] if said else f"exit code {code}"
            raise FormatError(f"git could not read the history: {last}", path=self._repo, safe="Nothing was imported.")


def _tokens(stream: IO[bytes]) -> Iterator[bytes]:
    parts: list[bytes] = []
    size = 0
    while chunk := stream.read(_CHUNK_BYTES):
        tokens = chunk.split(b"\0")
        parts.append(tokens[0])
        size += len(tokens[0])
        if size > TOKEN_BYTES_MAX:
            raise FormatError(f"a commit's message or a name has over {TOKEN_BYTES_MAX >> 20} MiB")
        if len(tokens) > 1:
            yield b"".join(parts)
            yield from tokens[1:-1]
            parts, size = [tokens[-1]], len(tokens[-1])
    if any(parts):
        yield b"".join(parts)


class BlobReader:
    """Context manager over two processes ``git cat-file``, one for sizes and one for contents. No filter and no text
    conversion is applied, and an object that is too large is never asked for.
    """

    def __init__(self, repo: str) -> None:
        self._repo = repo
        self._restarts = 0
        self._sizes: subprocess.Popen[bytes]
        self._contents: subprocess.Popen[bytes]

    def __enter__(self) -> Self:
        self._sizes = self._started("--batch-check")
        self._contents = self._started("--batch")
        return self

    def __exit__(self, *_: object) -> None:
        _end(self._sizes)
        _end(self._contents)

    def size(self, name: str) -> int | None:
        """Return the size of the blob ``name`` (a full id); None where the repository does not have it, or it is no
        blob. Raises FormatError where git fails again and again.
        """
        header = self._header(self._sizes, name)
        if not header and self._restarts < _RESTARTS_MAX:  # before 2.45, git ends at an object that it may not fetch
            self._restarts += 1
            _end(self._sizes)
            self._sizes = self._started("--batch-check")
            return None
        if not header:
            raise self._failure()
        return int(header[2]) if len(header) == 3 and header[1] == b"blob" and header[2].isdigit() else None

    def copy(self, name: str, target: IO[bytes], most: int) -> bool:
        """Write the blob to ``target``. Return False, and write nothing, where ``size`` is None or over ``most``."""
        size = self.size(name)
        if size is None or size > most:
            return False
        header = self._header(self._contents, name)
        if header[1:] != [b"blob", b"%d" % size]:
            raise self._failure()
        assert self._contents.stdout is not None
        left = size
        while left > 0:
            chunk = self._contents.stdout.read(min(left, _CHUNK_BYTES))
            if not chunk:
                raise self._failure()
            left -= len(chunk)
            target.write(chunk)
        self._contents.stdout.read(1)  # the end of the line
        return True

    def read(self, name: str, most: int) -> bytes | None:
        """Return the blob; None where ``copy`` returns False."""
        import io

        target = io.BytesIO()
        return target.getvalue() if self.copy(name, target, most) else None

    def _started(self, mode: str) -> subprocess.Popen[bytes]:
        import subprocess

        try:
            return subprocess.Popen(  # noqa: S603 - a list of arguments, no shell
                command(self._repo, ("cat-file", mode)),
                env=environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except OSError as error:
            raise cannot_run(error) from error

    def _header(self, process: subprocess.Popen[bytes], name: str) -> list[bytes]:
        """Ask for the object ``name``; return the words of the answer's first line, none where git has ended."""
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(name.encode("ascii", "replace") + b"\n")
            process.stdin.flush()
            return process.stdout.readline(_HEADER_BYTES_MAX).split()
        except OSError:
            return []  # it has ended

    def _failure(self) -> FormatError:
        return FormatError("git could not read its objects", path=self._repo, safe="Nothing was imported.",
                           mend="See what `git fsck` says of the repository.")  # fmt: skip


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.kill()  # it has written what was asked for, or is of no use any more
    process.stdout.close()
    try:
        process.stdin.close()
    except OSError:
        pass  # it has ended already
    process.wait()
