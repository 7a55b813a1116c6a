"""What a page gets and gives: a question of a browser, and a view, a message or a file.

Pages are synchronous functions that run in a worker thread with an open project of its own. They raise the errors of the house; the
application shows them.
"""

from __future__ import annotations

__all__ = ["Act", "Asked", "Context", "Done", "Download", "Form", "Page", "Query", "View"]

import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from periplus.base.errors import UsageError
from periplus.base.named_tuple import NamedTuple
from periplus.web.background import Background
from periplus.web.cache import Cache

if TYPE_CHECKING:
    from periplus.journal import Writer
    from periplus.project import Project

VALUE_CHARACTERS_MAX: Final = 4_000  # of one value in an address
FIELDS_MAX: Final = 64
FORM_CHARACTERS_MAX: Final = 1 << 20
_NUMBER_DIGITS_MAX: Final = 15


class LiveRun(Protocol):
    """A run of our own agent in this process, whose unfinished answer the page of its session shows."""

    session: str

    def growing_text(self) -> str: ...


class Context(NamedTuple):
    """What all pages share: who writes, what is allowed, and what is kept between requests.

    ``environment``, ``home`` and ``cwd`` are those of the command that started the server.
    """

    writer: Writer
    is_read_only: bool
    now_ms: Callable[[], int]
    environment: Mapping[str, str]
    home: str
    cwd: str
    cache: Cache
    background: Background
    run: LiveRun | None = None


class Query:
    """The query part of an address. The last of several values of a name counts."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self._pairs = tuple((name, value[:VALUE_CHARACTERS_MAX]) for name, value in pairs[:FIELDS_MAX])
        self._values = dict(self._pairs)

    @classmethod
    def of(cls, text: str) -> Query:
        """Parse the text after the question mark. Raises UsageError for too many fields."""
        return cls(_pairs(text, FIELDS_MAX))

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        return self._pairs

    def text(self, name: str, default: str = "") -> str:
        return self._values.get(name, default).strip()

    def flag(self, name: str) -> bool:
        return self._values.get(name, "") not in ("", "0")

    def number(self, name: str, default: int, *, least: int = 0, most: int = 2**53 - 1) -> int:
        """Return a whole number, moved into its limits. Raises UsageError for another text."""
        text = self._values.get(name, "").strip()
        if not text:
            return default
        if not text.isascii() or not text.isdigit() or len(text) > _NUMBER_DIGITS_MAX:
            raise UsageError(f"{name} must be a whole number, not {text[:40]!r}")
        return min(max(int(text), least), most)

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """Return one of ``choices``, by default the first. Raises UsageError for another text."""
        text = self._values.get(name, "") or choices[0]
        if text not in choices:
            raise UsageError(f"{name} must be one of {', '.join(one for one in choices if one)}, not {text[:40]!r}")
        return text


class Form(Query):
    """Fields that a browser posted; longer than those of an address, and none is stripped or cut."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        super().__init__(())
        self._pairs = tuple(pairs)
        self._values = dict(pairs)

    @classmethod
    def of(cls, text: str) -> Form:
        """Parse a body of the type application/x-www-form-urlencoded."""
        if len(text) > FORM_CHARACTERS_MAX:
            raise UsageError(f"the form is larger than {FORM_CHARACTERS_MAX:,} characters", safe="Nothing was changed.")
        return cls([(name, value.replace("\r\n", "\n")) for name, value in _pairs(text, 4 * FIELDS_MAX)])

    def all(self, name: str) -> tuple[str, ...]:
        """Return every value of a name, as of check boxes."""
        return tuple(value for one, value in self._pairs if one == name)


class Asked(NamedTuple):
    """A request for a page. ``project`` belongs to the calling thread; ``path`` has the named parts of the address, ``base`` is the
    address without its query.
    """

    project: Project
    path: Mapping[str, str]
    query: Query
    base: str
    context: Context

    def link(self, **changes: object) -> str:
        """Return the address of this page with some of its query changed; None removes a name."""
        return link(self.base, self.query, **changes)


def link(base: str, query: Query, **changes: object) -> str:
    """Return the address of ``base`` with the fields of ``query``, some of them changed; None or an empty text removes a name."""
    kept = [(name, value) for name, value in dict(query.pairs).items() if name not in changes and value]
    kept += [(name, str(value)) for name, value in changes.items() if value is not None and value != ""]
    return f"{base}?{urllib.parse.urlencode(kept)}" if kept else base


class View(NamedTuple):
    """A page to show: its template, the title of its tab, its values, and the command line that tells the same."""

    template: str
    title: str
    values: Mapping[str, object]
    command: str = ""
    status: int = 200


class Done(NamedTuple):
    """A write that was done: where the browser goes, and what it says there."""

    location: str
    message: str


class Download(NamedTuple):
    """A file to save."""

    name: str
    media_type: str
    data: bytes


Page: TypeAlias = Callable[[Asked], View | Download | Done]
Act: TypeAlias = Callable[[Asked, Form], Done]


def _pairs(text: str, most: int) -> list[tuple[str, str]]:
    try:
        return urllib.parse.parse_qsl(text, keep_blank_values=True, max_num_fields=most, errors="replace")
    except ValueError as error:
        raise UsageError(f"more than {most} fields", safe="Nothing was changed.") from error
