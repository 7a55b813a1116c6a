"""Incremental readers of an agent's output: session, usage, last words, and what the agent needs a person for.

A reader is fed bytes as they come, cut anywhere; standard error is among them. Lines that are not of the agent's format are text. What
the output holds is a claim of the agent: numbers are bounded, texts are cut, and no line makes a reader fail.
"""

from __future__ import annotations

__all__ = ["JsonLines", "Reading", "Spent", "Wants", "count", "members", "millionths", "text", "wants_of"]

import math
import re
from typing import Final, Literal, NamedTuple, TypeAlias

Wants: TypeAlias = Literal["", "login", "limit", "permission", "network"]

LINE_BYTES_MAX: Final = 8 << 20
TEXT_MAX: Final = 4_000
COUNT_MAX: Final = 1 << 40
_SESSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_UNSEEN: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SIGNS: Final[tuple[tuple[Wants, re.Pattern[str]], ...]] = (
    ("login", re.compile(r"\b401\b|unauthorized|not logged in|/login|log ?in again|authenticat|api[ _]key|auth method", re.IGNORECASE)),
    ("limit", re.compile(r"\b429\b|quota|rate.?limit|usage limit|credit balance|maximum budget|billing|too many requests", re.IGNORECASE)),
    ("network", re.compile(r"cannot connect|unable to connect|connection (failed|refused)|waiting for network|ENOTFOUND|ECONNREFUSED", re.IGNORECASE)),
)  # fmt: skip


class Spent(NamedTuple):
    """Tokens and cost: ``cached`` of ``tokens_in`` came from the provider's cache; the cost is in millionths of a dollar, 0 if unknown."""

    tokens_in: int = 0
    cached: int = 0
    out: int = 0
    cost_millionths: int = 0

    def __add__(self, other: Spent) -> Spent:  # type: ignore[override]  # a sum of counts, not a longer tuple
        return Spent(*(mine + its for mine, its in zip(self, other, strict=True)))

    def __sub__(self, other: Spent) -> Spent:
        return Spent(*(max(0, mine - its) for mine, its in zip(self, other, strict=True)))


class Reading:
    """State of one run as its output tells it.

    ``session`` is the agent's own id; ``spent`` is that of this run so far; ``last_text`` are the last words of the agent, ``last_line``
    is the last line that is not of its format, such as an error. ``ended`` is the agent's word on its end. ``wants`` says what only a
    person can give, ``problem`` why, in words.
    """

    def __init__(self, before: Spent = Spent()) -> None:  # noqa: B008 - a frozen value
        self.before = before
        self.session = ""
        self.spent = Spent()
        self.last_text = ""
        self.last_line = ""
        self.ended: Literal["", "done", "failed"] = ""
        self.wants: Wants = ""
        self.problem = ""
        self._rest = bytearray()
        self._is_too_long = False

    @property
    def tokens_in(self) -> int:
        return self.spent.tokens_in

    @property
    def cached(self) -> int:
        return self.spent.cached

    @property
    def out(self) -> int:
        return self.spent.out

    @property
    def cost_millionths(self) -> int:
        return self.spent.cost_millionths

    def feed(self, data: bytes) -> None:
        """Read the next bytes. A line longer than LINE_BYTES_MAX is left out."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._rest += line
            if not self._is_too_long and len(self._rest) <= LINE_BYTES_MAX:
                self._take(bytes(self._rest))
            self._rest.clear()
            self._is_too_long = False
        self._rest += rest
        if len(self._rest) > LINE_BYTES_MAX:
            self._rest.clear()
            self._is_too_long = True

    def close(self) -> None:
        """Read a last line without a line end."""
        if self._rest:
            self.feed(b"\n")

    def line(self, line: str) -> None:
        """Read a line of text."""
        shown = _UNSEEN.sub("", line).strip()
        if shown:
            self.last_line = shown[:TEXT_MAX]

    def say(self, words: str) -> None:
        shown = _UNSEEN.sub("", words).strip()
        if shown:
            self.last_text = shown[:TEXT_MAX]

    def begin(self, session: str) -> None:
        """Note the session that the output names first."""
        if not self.session and _SESSION.fullmatch(session):
            self.session = session

    def fail(self, problem: str, wants: Wants = "") -> None:
        shown = _UNSEEN.sub("", problem).strip()[:TEXT_MAX]
        self.problem = shown or self.problem
        self.wants = wants or wants_of(shown) or self.wants

    def _take(self, line: bytes) -> None:
        self.line(line.decode("utf-8", "replace"))


class JsonLines(Reading):
    """A reader of JSON objects, one a line."""

    def _take(self, line: bytes) -> None:
        import orjson

        start = line.strip()
        if start.startswith(b"{"):
            try:
                value = orjson.loads(start)
            except ValueError:
                value = None
            if isinstance(value, dict):
                self.event(value)
                return
        super()._take(line)

    def event(self, event: dict[str, object]) -> None:
        """Read one object."""
        raise NotImplementedError


def wants_of(problem: str) -> Wants:
    """Return what a person has to give, by the words of an error."""
    return next((wants for wants, sign in _SIGNS if sign.search(problem)), "")


def members(value: object, *names: str) -> dict[str, object]:
    """Return the object at ``names``, empty where there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def text(value: object) -> str:
    return value if isinstance(value, str) else ""


def count(value: object) -> int:
    """Return a number of tokens; 0 for what is none."""
    return value if type(value) is int and 0 <= value <= COUNT_MAX else 0


def millionths(dollars: object) -> int:
    """Return dollars in millionths; 0 for what is no amount."""
    if type(dollars) not in (int, float):
        return 0
    amount = float(dollars)  # type: ignore[arg-type]  # one of the two
    return round(amount * 1e6) if math.isfinite(amount) and 0 <= amount <= COUNT_MAX / 1e6 else 0
