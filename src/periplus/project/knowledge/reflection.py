"""Reflection over a project's trails: read them, record proposals as candidates, decide on candidates.

Nothing becomes memory unless somebody accepts it, or the store's settings name a confidence from which it is accepted
(``accept_from`` under ``[reflect]`` in config.toml).
"""

from __future__ import annotations

__all__ = ["ProjectReflection", "Reflected"]

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.errors import DamageError, FormatError, refuse_text
from periplus.base.named_tuple import NamedTuple
from periplus.memory.reflection.candidates import Accepted, accept, find_candidate, inbox, refuse
from periplus.memory.reflection.proposal import Proposal, Proposer, SessionActs
from periplus.memory.reflection.proposal_records import Near, ProposedCandidate, record_proposals
from periplus.memory.reflection.reflect import CONFIDENCE_MIN, acts_of_trail, bounded, reflect

if TYPE_CHECKING:
    from periplus.base.errors import PeriplusError
    from periplus.journal import Entity
    from periplus.memory.reflection.candidates import Skipped
    from periplus.project.store import ProjectStore

Progress = Callable[[int, int], None]
BESIDE_MAX: Final = 50
OF_PROPOSERS_MAX: Final = 100


class Reflected(NamedTuple):
    """The result of a reflection: the trails, the candidates written, the proposals that were skipped and why.

    ``damaged`` are trails that could not be read; the others were reflected on.
    """

    trails: tuple[str, ...]
    written: tuple[ProposedCandidate, ...]
    known: int
    near: tuple[Near, ...]
    skipped: tuple[Skipped, ...]
    accepted: tuple[tuple[str, Accepted], ...]
    damaged: tuple[tuple[str, PeriplusError], ...]


class ProjectReflection:
    """``Project.reflection``."""

    def __init__(self, project: ProjectStore) -> None:
        self._project = project

    def reflect(
        self,
        trails: Sequence[str] = (),
        *,
        every: bool = False,
        since: str = "",
        dry_run: bool = False,
        proposers: Sequence[Proposer] = (),
        progress: Progress | None = None,
    ) -> Reflected:
        """Propose what ``trails`` teach (ids or digests, each may be cut short); with ``every`` all trails, with
        ``since`` (RFC 3339) those that began no earlier, with none of the three the newest one.

        The newest other trails are compared for what recurs. ``proposers`` are asked after the rules. Raises
        NotFoundError, and UsageError for a proposer's result that is not a proposal.
        """
        refuse_text(trails=trails)
        project = self._project
        chosen, beside = self._chosen(trails, every=every, since=since)
        damaged: list[tuple[str, PeriplusError]] = []
        total = len(chosen) + len(beside)
        acts: list[SessionActs] = []
        for at, entity in enumerate([*chosen, *beside]):
            if progress is not None:
                progress(at, total)
            try:
                acts.append(acts_of_trail(entity, project.journal.objects.get))
            except (DamageError, FormatError) as error:
                damaged.append((entity.item_id, error))
        asked = {entity.item_id for entity in chosen}
        sessions = [one for one in acts if one.trail in asked]
        found = reflect(sessions, [one for one in acts if one.trail not in asked])
        found += _of_proposers(proposers, sessions, found)
        recorded = record_proposals(project.journal, found, project.writer, dry_run=dry_run)
        accepted = () if dry_run else self._accepted(recorded.written)
        if progress is not None:
            progress(total, total)
        return Reflected(tuple(one.trail for one in sessions), recorded.written, recorded.known, recorded.near,
                         recorded.skipped, accepted, tuple(damaged))  # fmt: skip

    def candidates(self, *, with_decided: bool = False) -> list[Entity]:
        """Return the open candidates, of reflection and of other projects, the oldest first."""
        return inbox(self._project.journal, with_decided=with_decided)

    def candidate(self, reference: str) -> Entity:
        """Return a candidate by its id, or the beginning of it. Raises NotFoundError, UsageError for other entities."""
        return find_candidate(self._project.journal, reference)

    def accept(self, reference: str, *, text: str = "", item_type: str = "") -> Accepted:
        """Accept a candidate, perhaps in other words or as another type; see
        ``periplus.memory.reflection.candidates.accept``.
        """
        project = self._project
        return accept(
            project.journal, reference, project.writer, text=text, item_type=item_type, root=project.top
        )  # fmt: skip

    def refuse(self, reference: str, *, reason: str = "") -> Entity:
        """Reject a candidate for good; see ``periplus.memory.reflection.candidates.refuse``."""
        return refuse(self._project.journal, reference, self._project.writer, reason=reason)

    def _chosen(self, trails: Sequence[str], *, every: bool, since: str) -> tuple[list[Entity], list[Entity]]:
        """Return the chosen trails, the oldest first, and the newest others."""
        from periplus.project.trail_store.lookup import find_trail

        held = [
            one for one in self._project.trails() if one.value.get("format") != "git"
        ]  # git history has commits only
        held.reverse()
        named = {find_trail(self._project, reference).item_id for reference in trails}
        if every:
            chosen = held
        elif named or since:
            chosen = [
                one for one in held if one.item_id in named or (since and str(one.value.get("started", "")) >= since)
            ]
        else:
            chosen = held[-1:]
        ids = {one.item_id for one in chosen}
        return chosen, [one for one in held if one.item_id not in ids][-BESIDE_MAX:]

    def _accepted(self, written: Sequence[ProposedCandidate]) -> tuple[tuple[str, Accepted], ...]:
        from periplus.journal.storage.settings import read_settings

        least = read_settings(self._project.journal.layout).reflect.accept_from if written else 0
        return tuple(
            (one.item_id, self.accept(one.item_id)) for one in written if least and one.proposal.confidence >= least
        )


def _of_proposers(
    proposers: Sequence[Proposer], sessions: Sequence[SessionActs], found: Sequence[Proposal]
) -> list[Proposal]:
    """Return the proposals of the proposers, held to the rules' conditions: within bounds, and resting on steps that
    were given.
    """
    from periplus.base.errors import UsageError

    lengths = {one.trail: one.acts[-1].step + 1 if one.acts else 0 for one in sessions}
    more: list[Proposal] = []
    for proposer in proposers:
        for one in proposer.propose(sessions, found):
            if len(more) >= OF_PROPOSERS_MAX:
                return more
            kept = bounded(one)
            for seen in kept.seen:
                if not 0 <= seen.step < lengths.get(seen.trail, 0):
                    raise UsageError(f"{kept.rule} names {seen.trail}#{seen.step}, which is no step that it was given",
                                     safe="Nothing was written.")  # fmt: skip
            if kept.confidence >= CONFIDENCE_MIN:
                more.append(kept)
    return more
