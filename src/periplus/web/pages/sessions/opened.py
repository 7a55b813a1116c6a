"""A session that a page shows: a trail of the store, or the steps that an open run has by now."""

from __future__ import annotations

__all__ = ["WINDOW_STEPS", "Opened", "RecentTrails", "address_of", "number_in", "opened", "overview", "window_start"]

import threading
import urllib.parse
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from periplus.base.errors import DamageError, FormatError, NotFoundError
from periplus.base.named_tuple import NamedTuple
from periplus.interop.exports.trail_source import ExportSource
from periplus.trail import Parts, is_concatenation, open_parts
from periplus.web.pages.model import Asked
from periplus.web.sessions.overview import Overview, overview_of

if TYPE_CHECKING:
    from periplus.journal import Entity

WINDOW_STEPS: Final = 200
RECENT_BYTES_MAX: Final = 16 << 20
_SEALED: Final = "sealed"


class RecentTrails:
    """The bytes of the trails that were looked at last: in the store a trail is packed, and unpacking a long one takes
    most of the time of a page.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: OrderedDict[str, bytes] = OrderedDict()

    def get(self, mark: str, read: Callable[[], bytes]) -> bytes:
        with self._lock:
            if mark in self._held:
                self._held.move_to_end(mark)
                return self._held[mark]
        data = read()
        with self._lock:
            self._held[mark] = data
            while len(self._held) > 1 and sum(map(len, self._held.values())) > RECENT_BYTES_MAX:
                self._held.popitem(last=False)
            if len(data) > RECENT_BYTES_MAX:
                del self._held[mark]
        return data


class Opened(NamedTuple):
    """``trail`` is the card of the trail, None for a run that is being recorded. ``mark`` changes with the steps."""

    id: str
    source: ExportSource
    trail: Entity | None
    mark: str

    @property
    def is_live(self) -> bool:
        return self.trail is None

    @property
    def parent(self) -> str:
        return str(self.trail.value.get("parent", "")) if self.trail is not None else ""


def address_of(item_id: str) -> str:
    return f"/sessions/{urllib.parse.quote(item_id, safe='')}"


def window_start(number: int) -> int:
    """Return the first step of the window that shows step ``number``."""
    return number // WINDOW_STEPS * WINDOW_STEPS


def opened(asked: Asked, reference: str) -> Opened:
    """Return the session. Raises NotFoundError, DamageError."""
    from periplus.project.trail_store.lookup import find_trail

    project = asked.project
    project.journal.refresh()
    if reference.startswith("run_"):
        run = project.journal.find(reference)
        if run.value.get("state") != _SEALED:
            return _open_run(asked, run.item_id)
    trail = find_trail(project, reference)
    mark = str(trail.value.get("object", ""))
    recent = asked.context.cache.get(("recent trails",), RecentTrails)
    data = recent.get(mark, lambda: project.trail_bytes(trail.item_id).data)
    source = _source(trail.item_id, data, project.journal.objects.get)
    return Opened(trail.item_id, source, trail, mark)


def _open_run(asked: Asked, run_id: str) -> Opened:
    from periplus.project.trail_store.recording import run_so_far

    found = run_so_far(asked.project, run_id)
    held = asked.project.journal.objects

    def read(name: bytes) -> bytes:
        return found.objects[name] if name in found.objects else held.get(name)

    source = _source(run_id, found.data, read)
    return Opened(run_id, source, None, f"{run_id} {source.step_count}")


def _source(name: str, data: bytes, read: Callable[[bytes], bytes]) -> ExportSource:
    try:
        readers = open_parts(data)
        digest = Parts(data).digest if is_concatenation(data) else readers[0].digest
        return ExportSource(name, data, readers, digest, read)
    except FormatError as error:
        raise DamageError(error.wrong, path=name, offset=error.offset, safe="Other sessions are not affected.",
                          mend="Run `periplus doctor --repair`.") from error  # fmt: skip


def overview(asked: Asked, session: Opened) -> Overview:
    """Return the overview of a session, kept until its steps change."""
    return asked.context.cache.get(("session overview", session.mark), lambda: overview_of(session.source))


def number_in(asked: Asked, name: str) -> int:
    """Return a number of the address. Raises NotFoundError for another text."""
    text = asked.path.get(name, "")
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise NotFoundError(f"{text[:40]!r} is not the number of a step")
    return int(text)
