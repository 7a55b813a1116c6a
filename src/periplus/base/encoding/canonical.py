"""Canonical JSON: the same value has the same bytes on every machine.

The form is RFC 8785 (JCS), restricted so that all implementations agree:

* values are ``None``, ``bool``, ``int``, ``str``, ``list`` (or ``tuple``) and ``dict``, of exactly these types;
* integers lie within ±(2^53 − 1); there are no floats (a fraction is written as ``{"$dec": "1.5"}``);
* strings are Unicode without lone surrogates, not normalised, escaped only where JSON requires it;
* keys are strings of code points below U+D800, so that sorting by code point, by UTF-8 byte and by UTF-16
  unit agree; keys are sorted; no white space; at most ``DEPTH_MAX`` levels of nesting.

A reader hashes the bytes it received and rejects text that does not re-encode to itself. This also finds duplicate
keys, ``1.0`` for ``1``, ``-0`` and needless escapes.
"""

from __future__ import annotations

__all__ = ["DEPTH_MAX", "INTEGER_MAX", "JSONValue", "canonical", "check", "decode_canonical"]

from typing import TYPE_CHECKING, Final, TypeAlias, Union

from periplus.base.errors import FormatError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

DEPTH_MAX: Final = 64
INTEGER_MAX: Final = 2**53 - 1
_KEY_CEILING: Final = "\ud800"

JSONValue: TypeAlias = Union[None, bool, int, str, "list[JSONValue]", "tuple[JSONValue, ...]", "dict[str, JSONValue]"]

try:
    from periplus.base._values import canonical as _quickly  # present when the C part was built
except ImportError:

    def _quickly(_value: object, /) -> bytes | None:
        """Return the canonical text of a common value, None for one that needs the slow path."""
        return None


def canonical(value: JSONValue) -> bytes:
    """Return the canonical UTF-8 text of ``value``. Raises UsageError naming the first place that is not allowed."""
    text: bytes | None = _quickly(value)
    if text is not None:
        return text
    import orjson

    if not _is_plain(value, 0):
        _explain(value, "$", 0)
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER)
    except orjson.JSONEncodeError as error:  # the check above leaves only lone surrogates
        raise UsageError(f"cannot be written as canonical JSON: {error}") from error


def check(value: object, path: str = "$") -> None:
    """Raise UsageError where ``value`` is not canonical JSON; ``path`` names the place, as ``$.a[3]``."""
    if not _is_plain(value, 0):
        _explain(value, path, 0)


def _is_plain(value: object, depth: int) -> bool:
    """Test that a container is within the profile. False means that ``_explain`` must look closer."""
    if depth >= DEPTH_MAX:
        return False
    items: Iterable[object]
    if type(value) is dict:
        for key in value:
            if type(key) is not str or not key.isascii():
                return False
        items = value.values()
    elif type(value) is list or type(value) is tuple:
        items = value
    else:
        return False  # a bare scalar, or a type outside the profile
    for item in items:
        kind = type(item)
        if kind is str or kind is bool or item is None:
            continue
        if kind is int:
            if not -INTEGER_MAX <= item <= INTEGER_MAX:
                return False
        elif not _is_plain(item, depth + 1):
            return False
    return True


def _explain(value: object, path: str, depth: int) -> None:
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return
    if kind is int:
        if not -INTEGER_MAX <= value <= INTEGER_MAX:  # type: ignore[operator]  # kind says that it is an int
            raise UsageError(f"{path}: an integer outside ±(2^53 - 1)", mend="Carry a large number as text.")
        return
    if depth >= DEPTH_MAX:
        raise UsageError(f"{path}: nested deeper than {DEPTH_MAX} levels", mend="Carry deep foreign data as its text.")
    if kind is dict:
        for key, item in value.items():  # type: ignore[attr-defined]
            if type(key) is not str:
                raise UsageError(f"{path}: a key is {type(key).__name__}, not a string")
            if not key.isascii() and max(key) >= _KEY_CEILING:
                raise UsageError(f"{path}: key {key!r} has a character at or above U+D800")
            if type(item) is str:  # the most frequent case, without a call for each
                continue
            _explain(item, f"{path}.{key}", depth + 1)
        return
    if kind is list or kind is tuple:
        for index, item in enumerate(value):  # type: ignore[arg-type]
            _explain(item, f"{path}[{index}]", depth + 1)
        return
    if kind is float:
        raise UsageError(
            f"{path}: a floating-point number has no canonical form",
            mend='Scale it to an integer, or carry it as {"$dec": "1.5"}.',
        )
    raise UsageError(f"{path}: {kind.__name__} is not a JSON value")


def decode_canonical(data: bytes | memoryview) -> JSONValue:
    """Parse canonical ``data``. Raises FormatError where it is not JSON, or not in canonical form."""
    import orjson

    try:
        value: JSONValue = orjson.loads(data)
        if canonical(value) == bytes(data):
            return value
    except (orjson.JSONDecodeError, UsageError, RecursionError) as error:
        raise FormatError(f"not canonical JSON: {error}") from error
    raise FormatError("not canonical JSON: the text does not re-encode to itself")
