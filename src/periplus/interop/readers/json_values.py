"""Readers of values in foreign JSON: a value of the wrong type counts as absent and never raises."""

from __future__ import annotations

__all__ = [
    "JSON_DEPTH_MAX",
    "Moment",
    "decode_loosely",
    "decode_table",
    "decode_value",
    "integer_of",
    "json_text",
    "list_of",
    "milliseconds_of",
    "natural_of",
    "optional_text",
    "path_of_url",
    "table_of",
    "text_of",
]

import re
from collections.abc import Callable
from typing import Final

JSON_DEPTH_MAX: Final = 64
_SECRET_CHARS_MAX: Final = 4096  # for values that only their key reveals as secrets
_NUMBER_MAX: Final = 2**53 - 1
_CLOCK_MS_MIN: Final = -62_135_596_800_000  # the years that a trail can hold: 1 …
_CLOCK_MS_MAX: Final = 253_402_300_799_999  # … to 9999
_STAMP: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)
_STAMP_CHARS: Final = 24
_FILE_URL: Final = "file://"
_TOO_DEEP: Final = "[nested too deep]"
_NOTHING: Final[dict[str, object]] = {}
_EMPTY: Final[list[object]] = []


def table_of(value: object) -> dict[str, object]:
    """Return ``value`` if it is a JSON object, else an empty one, which must not be changed."""
    return value if isinstance(value, dict) else _NOTHING


def list_of(value: object) -> list[object]:
    return value if isinstance(value, list) else _EMPTY


def text_of(value: object) -> str:
    return value if isinstance(value, str) else ""


def optional_text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def path_of_url(value: object) -> str | None:
    """Return the path of a ``file:`` URL; other text is a path already."""
    text = text_of(value)
    if text.startswith(_FILE_URL):
        from urllib.parse import unquote

        text = unquote(text.removeprefix(_FILE_URL))
    return text or None


def integer_of(value: object) -> int | None:
    """Return a whole number within ±(2^53 − 1), also where it is written ``12.0``."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and -_NUMBER_MAX <= value <= _NUMBER_MAX else None


def natural_of(value: object) -> int:
    """Return a count: 0 for other values and negative numbers."""
    number = integer_of(value)
    return number if number is not None and number > 0 else 0


def milliseconds_of(value: object, unit_ms: int = 1) -> int | None:
    """Return milliseconds since 1970 for a number of units of ``unit_ms``, up to the year 9999; None for others."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _CLOCK_MS_MAX // unit_ms:
        return None
    return int(value * unit_ms)


class Moment:
    """Parser of time stamps. It imports datetime at first use, because that takes milliseconds."""

    def __init__(self) -> None:
        from datetime import UTC, datetime

        self._parse = datetime.fromisoformat
        self._utc = UTC
        self._minute = ""  # the last minute read, as text, and its start
        self._minute_ms = 0

    def read(self, value: object) -> int | None:
        """Return milliseconds since 1970-01-01 UTC for an RFC 3339 text, None for other values."""
        if type(value) is str and len(value) == _STAMP_CHARS and value.startswith(self._minute) and value[-1] == "Z":
            # The form that agents write, 2026-01-31T12:34:56.789Z, mostly in the same minute as the one before.
            seconds, thousandths = value[17:19], value[20:23]
            is_plain = value.isascii() and seconds.isdecimal() and thousandths.isdecimal() and value[19] == "."
            if is_plain and seconds < "60" and self._minute:
                return self._minute_ms + 1000 * int(seconds) + int(thousandths)
        read_ms = self._read(value)
        if read_ms is not None and type(value) is str and _STAMP.fullmatch(value):
            self._minute = value[:17]
            self._minute_ms = read_ms - read_ms % 60_000
        return read_ms

    def _read(self, value: object) -> int | None:
        try:
            moment = self._parse(value)  # type: ignore[arg-type]  # other types are refused as well
            if moment.tzinfo is None:
                moment = moment.replace(tzinfo=self._utc)
            read_ms = round(moment.timestamp() * 1000)
        except (ValueError, TypeError, OverflowError):
            return None
        return read_ms if _CLOCK_MS_MIN <= read_ms <= _CLOCK_MS_MAX else None


def json_text(value: object, masked: Callable[[str], str]) -> str:
    """Return ``value`` as compact JSON text with every string ``masked``."""
    import orjson

    try:
        return orjson.dumps(_copied(value, masked, 0), option=orjson.OPT_NON_STR_KEYS).decode()
    except (TypeError, ValueError):  # a number or a string that JSON cannot hold
        return orjson.dumps(masked(repr(value))[:1000].encode("utf-8", "replace").decode()).decode()


def _copied(value: object, masked: Callable[[str], str], depth: int) -> object:
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, (dict, list)):
        if depth >= JSON_DEPTH_MAX:
            return _TOO_DEEP
        if isinstance(value, list):
            return [_copied(item, masked, depth + 1) for item in value]
        return {
            masked(key): _member(key, item, masked) if isinstance(item, str) else _copied(item, masked, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, int) and not isinstance(value, bool) and not -_NUMBER_MAX <= value <= _NUMBER_MAX:
        return str(value)  # as text, because most readers of JSON would round it
    return value


def _member(key: str, value: str, masked: Callable[[str], str]) -> str:
    """Return the text of a member, ``masked`` also where only its key reveals a secret: a password has no shape of
    its own.
    """
    text = masked(value)
    if text != value or len(value) > _SECRET_CHARS_MAX or len(key) > _SECRET_CHARS_MAX:
        return text
    before = f'"{key}": "'
    both = masked(f'{before}{value}"')
    return both[len(before) : -1] if both.startswith(before) else text


def decode_table(data: bytes) -> dict[str, object] | None:
    """Parse ``data`` as a JSON object, leniently if necessary; None for other data."""
    import orjson

    try:
        value = orjson.loads(data)
    except (ValueError, RecursionError):
        mended = decode_loosely(data, {})
        value = orjson.loads(mended) if mended is not None else None
    return value if isinstance(value, dict) else None


def decode_value(data: bytes) -> object:
    """Parse ``data`` as any JSON value, leniently if necessary; None for other data."""
    return (decode_table(b'{"v":' + data + b"}") or {}).get("v")


def decode_loosely(line: bytes, kinds: dict[str, type]) -> bytes | None:
    """Rewrite the line as JSON that every decoder accepts; None where it is no JSON object. Fields whose type differs
    from ``kinds`` are left out.

    Programs in JavaScript cut texts within a character and write half of it as an escape; numbers can be out of any
    range. The strict decoder refuses both, and this is the second attempt at such a line.
    """
    import json

    import orjson

    try:
        value = json.loads(line)
        if not isinstance(value, dict):
            return None
        for key, kind in kinds.items():
            if not isinstance(value.get(key), kind):
                value.pop(key, None)
        return orjson.dumps(_mended(value, 0))
    except (ValueError, TypeError, RecursionError):
        return None


def _mended(value: object, depth: int) -> object:
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, int) and not isinstance(value, bool):
        return value if -_NUMBER_MAX <= value <= _NUMBER_MAX else None
    if isinstance(value, (dict, list)):
        if depth >= JSON_DEPTH_MAX:
            return _TOO_DEEP
        if isinstance(value, list):
            return [_mended(item, depth + 1) for item in value]
        return {text_of(_mended(key, depth)): _mended(item, depth + 1) for key, item in value.items()}
    return value
