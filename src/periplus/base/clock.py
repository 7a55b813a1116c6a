"""Clocks: the time comes into libraries as an argument, so that tests can set it."""

from __future__ import annotations

__all__ = ["STARTED_MS", "Clock", "FixedClock", "SystemClock", "format_ms", "parse_ms", "parse_past_ms"]

import functools
import time
from typing import Final, Protocol

_UNITS_MS: Final = {"m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_AGO_DIGITS_MAX: Final = 6
STARTED_MS: Final = time.time_ns() // 1_000_000  # when this process loaded its first modules


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC, without leap seconds."""
        ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class FixedClock:
    """Clock for tests. It moves by ``advance(ms)``, and by ``step_ms`` at every reading."""

    def __init__(self, start_ms: int = 1_767_225_600_000, step_ms: int = 0) -> None:
        self._now_ms = start_ms
        self._step_ms = step_ms

    def now_ms(self) -> int:
        now = self._now_ms
        self._now_ms += self._step_ms
        return now

    def advance(self, ms: int) -> None:
        self._now_ms += ms


def format_ms(ms: int) -> str:
    """Format a time as RFC 3339 in UTC with milliseconds, as ``2026-01-31T09:30:00.250Z``; years 0001 to 9999."""
    seconds, rest = divmod(ms, 1000)
    return f"{_second_text(seconds)}.{rest:03d}Z"


@functools.lru_cache(maxsize=8)
def _second_text(seconds: int) -> str:
    days, second_of_day = divmod(seconds, 86_400)
    year, month, day = _civil_from_days(days)
    hour, minute = divmod(second_of_day // 60, 60)
    return f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second_of_day % 60:02d}"


def _civil_from_days(days: int) -> tuple[int, int, int]:
    # The Gregorian calendar in eras of 400 years that begin on 1 March; datetime costs 8 ms to import.
    days += 719_468
    era, day_of_era = divmod(days, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_shifted = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_shifted + 2) // 5 + 1
    month = month_shifted + 3 if month_shifted < 10 else month_shifted - 9
    return year_of_era + era * 400 + (month <= 2), month, day


def parse_ms(text: str) -> int | None:
    """Return the milliseconds of an RFC 3339 text (any offset, any precision), None for other text."""
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    delta = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * 1000 + delta.microseconds // 1000


def parse_past_ms(text: str, now_ms: int) -> int | None:
    """Parse a time as ``parse_ms`` does, or an age: ``30m``, ``2h``, ``3d``, ``1w``. None for other text."""
    unit = text.lstrip("0123456789")
    digits = text[: len(text) - len(unit)]
    if unit in _UNITS_MS and 0 < len(digits) <= _AGO_DIGITS_MAX:
        return max(0, now_ms - int(digits) * _UNITS_MS[unit])
    return parse_ms(text)
