"""Decoding of configuration files, within a limit."""

from __future__ import annotations

__all__ = ["decode_text", "split_mark"]

from typing import Final

from periplus.base.errors import FormatError

_MARK: Final = "\ufeff"
_UNCHANGED: Final = "Nothing was changed."


def decode_text(data: bytes, path: str, *, bytes_max: int) -> str:
    """Return the UTF-8 text of the file ``path``. Raises FormatError for over ``bytes_max`` bytes and for invalid
    UTF-8.
    """
    if len(data) > bytes_max:
        raise FormatError(f"{len(data):,} bytes; at most {bytes_max:,} are read", path=path, safe=_UNCHANGED)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise FormatError(
            "not UTF-8", path=path, offset=error.start, safe=_UNCHANGED, mend="Save the file as UTF-8."
        ) from error


def split_mark(text: str) -> tuple[str, str]:
    """Split a text into its byte order mark (empty where there is none) and the rest."""
    mark = _MARK if text.startswith(_MARK) else ""
    return mark, text[len(mark) :]
