"""The shared file of a session as a download, its other forms, and the verification of its trail."""

from __future__ import annotations

__all__ = ["shared_file", "verification"]

from typing import TYPE_CHECKING

from periplus.base.errors import PeriplusError, UsageError
from periplus.base.named_tuple import NamedTuple
from periplus.web.pages.model import Asked, Download, View
from periplus.web.pages.sessions.opened import Opened, opened, overview
from periplus.web.sessions.cleaning import NAMES
from periplus.web.sessions.facts import title_of
from periplus.web.sessions.shared_file import FileOptions, make_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from periplus.trail import Check


class Verified(NamedTuple):
    id: str
    title: str
    is_sound: bool
    summary: str
    digest: str
    checks: tuple[Check, ...]


def shared_file(asked: Asked) -> Download:
    """Return the file of a session; ``?trail=1`` carries the trail, ``?withhold=NAME,NAME`` leaves fields out."""
    one = _sealed(asked)
    names = frozenset(filter(None, (name.strip() for name in asked.query.text("withhold").split(","))))
    wrong = sorted(names - set(NAMES))
    if wrong:
        raise UsageError(f"there is no field {wrong[0][:40]!r} to withhold", mend=f"Fields: {', '.join(NAMES)}.")
    options = FileOptions(asked.query.flag("trail"), names)
    data = asked.project.trail_bytes(one.id).data
    made = make_file(data, one.source.object, options, trail_of=_trail_of(asked))
    return Download(f"{one.id}.html", "text/html; charset=utf-8", made.data)


def verification(asked: Asked) -> View:
    """Verify the trail of a session byte by byte, against this store."""
    from periplus.trail import verify

    one = _sealed(asked)
    data = asked.project.trail_bytes(one.id).data
    report = verify(
        data,
        store=asked.project.journal.objects,
        parent_of=_trail_of(asked),
        is_redacted=lambda digest: digest in asked.project.taken_out.now(),
    )
    title = title_of(one.source, overview(asked, one))
    values = Verified(one.id, title, report.ok, report.summary, report.digest.hex(), report.checks)
    return View("sessions/verified.html", f"Verified: {title}" if report.ok else f"Wrong: {title}", {"page": values},
                f"periplus trail verify {one.id}")  # fmt: skip


def _sealed(asked: Asked) -> Opened:
    one = opened(asked, asked.path["id"])
    if one.is_live:
        raise UsageError("this session is being recorded and has no trail yet", safe="Its steps are durable.",
                         mend=f"End it first: periplus trail seal {one.id}")  # fmt: skip
    return one


def _trail_of(asked: Asked) -> Callable[[bytes], bytes | None]:
    """Return the function that finds a trail by its digest: that of a parent or of a subagent."""
    from periplus.project.trail_store.lookup import find_trail

    def find(digest: bytes) -> bytes | None:
        try:
            return asked.project.trail_bytes(find_trail(asked.project, digest.hex()).item_id).data
        except PeriplusError:
            return None  # not here, or damaged: it is said to be missing

    return find
