"""Git's ids and paths in the form of trails."""

from __future__ import annotations

__all__ = ["git_digest", "git_path"]

from typing import TYPE_CHECKING

from periplus.base.errors import FormatError

if TYPE_CHECKING:
    from periplus.interop.conversion.intake import Intake
    from periplus.trail.model import Digest


def git_digest(name: str) -> Digest:
    """Return the digest for an id in hexadecimal. Raises FormatError."""
    from periplus.trail.model import Digest

    try:
        value = bytes.fromhex(name)
    except ValueError as error:
        raise FormatError(f"not an object id from git: {name[:80]!r}") from error
    return Digest("git-sha1" if len(value) == 20 else "git-sha256", value)


def git_path(intake: Intake, path: bytes) -> str:
    """Return a path as text: secrets masked, invalid UTF-8 escaped."""
    return intake.mask(path.decode("utf-8", "backslashreplace"))
