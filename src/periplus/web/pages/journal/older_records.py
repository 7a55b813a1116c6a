"""Records from before a checkpoint: an index that begins at one is filled in the background where somebody asks for them."""

from __future__ import annotations

__all__ = ["OlderRecords", "older_records"]

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from periplus.project import Project
    from periplus.web.background import Job
    from periplus.web.pages.model import Asked

_JOB: Final = "older records"


class OlderRecords(NamedTuple):
    """``floors`` are the lineages of a page whose older records are not indexed, each with its first indexed seq; ``job`` reads them."""

    floors: tuple[tuple[str, int], ...]
    job: Job | None

    @property
    def floor(self) -> int:
        return max((seq for _, seq in self.floors), default=1)


def older_records(asked: Asked, lineages: Sequence[str]) -> OlderRecords:
    """Return what is missing of ``lineages``, and with ``history`` in the query begin to read it."""
    journal, background = asked.project.journal, asked.context.background
    floors = tuple((name, seq) for name, seq in journal.index.floors().items() if name in lineages and seq > 1)
    if not floors:
        return OlderRecords((), None)
    job = background.job(_JOB)
    if asked.query.flag("history") and (job is None or (not job.is_running and job.error is None)):
        job = background.start(_JOB, _read)
    return OlderRecords(floors, job)


def _read(project: Project, _progress: Callable[[int, int], None]) -> None:
    project.journal.need_history()
