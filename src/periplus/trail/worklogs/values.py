"""Values of a worklog's entries: each is read as the kind in the table, or refused with its place.

A lenient compile guesses instead of refusing if it can, and reports each guess.
"""

from __future__ import annotations

__all__ = ["SAFE", "TOLD_MAX", "Fields", "WorklogValues", "hexadecimal", "name_of", "whole_number"]

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from periplus.base.errors import FormatError
from periplus.trail.format import layout
from periplus.trail.model import Digest, DigestAlgorithm, TextObject
from periplus.trail.v1.conversion import digest_of_text
from periplus.trail.worklogs.json_text import TEXT_OBJECT, WITHHELD

TOLD_MAX: Final = 1000
SAFE: Final = "Nothing was written."
_DIGITS_MAX: Final = 21
_WHOLE: Final = re.compile(r"[+-]?[0-9]+(?:_[0-9]+)*")  # numbers as version 1 read them
_JSON_DEPTH_MAX: Final = 64
_BARE_DIGESTS: Final[dict[int, DigestAlgorithm]] = {64: "sha256", 40: "git-sha1"}


class Fields:
    """The keys of one object, each taken once; the remaining ones are unknown."""

    def __init__(self, values: dict[str, object], prefix: str) -> None:
        self.values = values
        self._prefix = prefix
        self._taken: set[str] = set()

    def take(self, key: str) -> object:
        self._taken.add(key)
        return self.values.get(key)

    def first(self, keys: tuple[str, ...]) -> tuple[str, object]:
        """Return the first of ``keys`` that has a value, and that value; the last of them and None if none has."""
        self._taken.update(keys)
        for key in keys:
            if self.values.get(key) is not None:
                return key, self.values[key]
        return keys[0], None

    def where(self, key: str) -> str:
        return f"{self._prefix}{key}"

    def rest(self) -> list[str]:
        return [key for key in self.values if key not in self._taken]


class WorklogValues:
    """Read values; ``told`` lists the guesses, ``masked`` counts the secrets that were masked."""

    def __init__(self, *, lenient: bool, mask: bool) -> None:
        self.lenient = lenient
        self.told: list[str] = []
        self.masked = 0
        self._mask: Callable[[str], tuple[str, int]] | None = None
        if mask:
            from periplus.base.text.secrets import mask_secrets

            self._mask = mask_secrets

    def text(self, value: object, where: str) -> str | TextObject:
        if isinstance(value, dict) and TEXT_OBJECT in value:
            return self._text_object(value, where)
        if not isinstance(value, str):
            if isinstance(value, dict) and WITHHELD in value:
                raise FormatError(f"{where}: withheld; only a whole trail can be written", safe=SAFE)
            self.guess(f"{where}: a text was expected, not {name_of(value)}", "written out")
            value = self.json(value, where) if isinstance(value, (dict, list)) else str(value)
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                self.guess(f"{where}: a lone surrogate (half of a character)", "U+FFFD stands in its place")
                value = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return self._masked_text(value)

    def _masked_text(self, text: str) -> str:
        if self._mask is None:
            return text
        text, found = self._mask(text)
        self.masked += found
        return text

    def optional_text(self, value: object, where: str) -> str | TextObject | None:
        return None if value is None else self.text(value, where)

    def _text_object(self, value: Mapping[str, object], where: str) -> TextObject:
        digest = self.digest(value[TEXT_OBJECT], where)
        length = value.get("bytes")
        if digest.algorithm != "sha256" or not isinstance(length, int) or isinstance(length, bool):
            raise FormatError(f"{where}: a text object has a SHA-256 and its number of bytes", safe=SAFE)
        if not layout.INLINE_TEXT_BYTES_MAX < length <= layout.INTEGER_MAX:
            raise FormatError(f"{where}: a text object has over 4,096 bytes, not {length}", safe=SAFE)
        return TextObject(digest.value, length)

    def digest(self, value: object, where: str) -> Digest:
        if isinstance(value, str):
            text = value.strip().lower()
            bare = _BARE_DIGESTS.get(len(text))
            found = digest_of_text(text) or (digest_of_text(f"{bare}:{text}") if bare is not None else None)
            if found is not None:
                return found
        if isinstance(value, dict) and WITHHELD in value:
            raise FormatError(f"{where}: withheld; only a whole trail can be written", safe=SAFE)
        wrong = f"{where}: a digest was expected, such as sha256: and 64 hexadecimal digits, not {name_of(value)}"
        if not self.lenient:
            raise FormatError(wrong, safe=SAFE)
        self.guess(wrong, "the SHA-256 of that text is taken")
        return Digest("sha256", hashlib.sha256(str(value).encode("utf-8", "replace")).digest())

    def number(self, value: object, where: str, *, is_signed: bool) -> int:
        number = value if isinstance(value, int) and not isinstance(value, bool) else None
        if number is None:
            self.guess(f"{where}: a whole number was expected, not {name_of(value)}", "read as a number, or 0")
            number = whole_number(value) or 0
        most = layout.OPERAND_NUMBER_MAX >> is_signed
        if not (-most if is_signed else 0) <= number <= most:
            self.guess(
                f"{where}: {number} is {'below 0' if not is_signed and number < 0 else 'over 62 bits'}", "masked"
            )
            number &= 0xFFFF
        return number

    def integer(self, fields: Fields, key: str, least: int, most: int = layout.INTEGER_MAX) -> int | None:
        value = fields.take(key)
        if value is None:
            return None
        where = fields.where(key)
        number = value if isinstance(value, int) and not isinstance(value, bool) else None
        if number is None or not least <= number <= most:
            bounds = f"{least} to 2^53 - 1" if most == layout.INTEGER_MAX else f"{least} to {most}"
            self.guess(f"{where}: a whole number from {bounds} was expected", "left out")
            return None
        return number

    def moment(self, fields: Fields, keys: tuple[str, ...]) -> int | None:
        """Return milliseconds since 1970, from ``at_ms`` or from one of ``keys`` in seconds."""
        exact = fields.take("at_ms")
        key, value = fields.first(keys)
        where = fields.where(key)
        if exact is not None:
            if type(exact) is int and layout.CLOCK_MS_MIN <= exact <= layout.CLOCK_MS_MAX:
                return exact
            self.guess(f"{fields.where('at_ms')}: milliseconds within the years 1 to 9999 were expected", "left out")
            return None
        if value is None:
            return None
        if (type(value) is int or type(value) is float) and layout.CLOCK_MS_MIN <= 1000 * value <= layout.CLOCK_MS_MAX:
            return round(1000 * value)
        wrong = f"{where}: seconds since 1970 were expected, not {name_of(value)}"
        seconds = None if isinstance(value, float) else whole_number(value)
        if seconds is not None and layout.CLOCK_MS_MIN <= 1000 * seconds <= layout.CLOCK_MS_MAX:
            self.guess(wrong, f"{seconds} is taken")
            return 1000 * seconds
        self.guess(wrong, "left out")
        return None

    def choice(self, fields: Fields, key: str, known: tuple[Any, ...], default: Any) -> Any:
        value = fields.take(key)
        if value is None:
            return default
        found = next((one for one in known if isinstance(value, str) and one == value.strip().lower()), None)
        if found is None:
            self.guess(f"{fields.where(key)}: one of {', '.join(known)} was expected, not {name_of(value)}", "unknown")
            return "unknown"
        return found

    def json(self, value: object, where: str) -> str:
        import orjson

        try:
            return orjson.dumps(self._copied(value, where, 0)).decode()
        except (TypeError, ValueError) as error:
            raise FormatError(f"{where}: cannot be stored as JSON: {str(error)[:80]}", safe=SAFE) from error

    def _copied(self, value: object, where: str, depth: int) -> object:
        if isinstance(value, str):
            return self.text(value, where)
        if depth >= _JSON_DEPTH_MAX and isinstance(value, (dict, list)):
            raise FormatError(f"{where}: nested over {_JSON_DEPTH_MAX} deep", safe=SAFE)
        if isinstance(value, list):
            return [self._copied(item, where, depth + 1) for item in value]
        if isinstance(value, dict):
            return {self.text(key, where): self._copied(item, where, depth + 1) for key, item in value.items()}
        return value

    def guess(self, wrong: str, instead: str, mend: str = "Correct the worklog, or compile with --lenient.") -> None:
        """Raise FormatError; in a lenient compile, report what is used instead."""
        if not self.lenient:
            raise FormatError(wrong, safe=SAFE, mend=mend)
        if len(self.told) < TOLD_MAX:
            self.told.append(f"{wrong}; {instead}")


def hexadecimal(value: object, where: str, size: int | None) -> bytes:
    try:
        found = bytes.fromhex(value) if isinstance(value, str) else None
    except ValueError:
        found = None
    if found is None or (size is not None and len(found) != size):
        count = "" if size is None else f"{2 * size} "
        raise FormatError(f"{where}: {count}hexadecimal digits were expected", safe=SAFE)
    return found


def whole_number(value: object) -> int | None:
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float) and abs(value) < 2**63:
        return int(value)
    if isinstance(value, str):
        text = value.strip()
        if len(text) <= _DIGITS_MAX and _WHOLE.fullmatch(text):
            return int(text)
    return None


def name_of(value: object) -> str:
    """Return the description of an unexpected value for an error."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        from periplus.base.text.secrets import mask_secrets

        value, _ = mask_secrets(value)  # an error is shown and logged, and the value may be a secret in the wrong place
        return repr(value if len(value) <= 40 else value[:39] + "…")
    if isinstance(value, (int, float)):
        return str(value)[:40]
    return "an array" if isinstance(value, list) else "an object"
