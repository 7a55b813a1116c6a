"""The tree head of the journal, and proofs to save."""

from __future__ import annotations

__all__ = ["HeadPage", "head", "proof"]

from typing import TYPE_CHECKING, Final

from periplus.base.named_tuple import NamedTuple
from periplus.journal.storage.keys import fingerprint
from periplus.web.pages.model import Asked, Download, View

if TYPE_CHECKING:
    from collections.abc import Callable

    from periplus.journal.proofs.proof_file import SignedHead
    from periplus.project import Project
    from periplus.web.background import Job

PROOF_TYPE: Final = "application/octet-stream"
READ_AT_ONCE: Final = (
    20_000  # records beyond the tree on the disk that are read within a request; more in the background
)
_JOB: Final = "tree head"


class HeadPage(NamedTuple):
    """The newest signed head; None while its records are read in the background (``job``), or before somebody asks for that.

    ``unread`` counts the records that have to be read.
    """

    head: SignedHead | None
    key: str
    fingerprint: str
    unread: int
    job: Job | None


def head(asked: Asked) -> View:
    """Show the newest tree head of our own lineage, and offer proofs."""
    project = asked.project
    project.journal.refresh()
    unread = _unread(project)
    job = asked.context.background.job(_JOB)
    if unread > READ_AT_ONCE and asked.query.flag("read") and (job is None or not job.is_running):
        job = asked.context.background.start(_JOB, _read)
    if unread > READ_AT_ONCE:
        if job is not None and job.error is not None:
            raise job.error
        signed: SignedHead | None = job.result if job is not None and not job.is_running else None  # type: ignore[assignment]
    else:
        signed = project.prover().head()
    key = signed.key if signed is not None else b""
    shown = HeadPage(
        signed, key.hex(), fingerprint(key) if key else "", unread, job if job is not None and job.is_running else None
    )
    return View("journal/head.html", "Tree head", {"page": shown}, "periplus head")


def proof(asked: Asked) -> Download:
    """Give a proof of one record (``seq``), of the growth between two sizes (``from``, ``to``), or the signed head alone."""
    project, query = asked.project, asked.query
    prover = project.prover()
    if query.text("seq"):
        seq = query.number("seq", 0)
        return Download(f"record-{seq}.proof", PROOF_TYPE, prover.record(seq))
    if query.text("from"):
        first, second = query.number("from", 0), query.number("to", 0) or None
        return Download(f"growth-{first}-{second or 'now'}.proof", PROOF_TYPE, prover.growth(first, second))
    return Download("head.proof", PROOF_TYPE, prover.head_file())


def _unread(project: Project) -> int:
    """Return how many records a tree head has to read: those beyond the tiles on the disk."""
    from periplus.journal.proofs.tiles import read_tile_head

    journal = project.journal
    kept = read_tile_head(journal, journal.lineage) if journal.lineage else None
    return max(0, journal.end().next_seq - 1 - (kept.size if kept is not None else 0))


def _read(project: Project, progress: Callable[[int, int], None]) -> SignedHead:
    return project.prover(progress).head()
