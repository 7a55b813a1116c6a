"""Mail, questions, candidates and handoffs as values: all that waits for the person."""

from __future__ import annotations

__all__ = [
    "CandidateRow",
    "Candidates",
    "HandoffRow",
    "MailRow",
    "QuestionRow",
    "candidates",
    "handoff_row",
    "mail_row",
    "question_row",
]

from typing import TYPE_CHECKING, Final

from periplus.base.named_tuple import NamedTuple
from periplus.web.pages.work.entity_fields import number_of, objects_of, one_line, text_of, texts_of

if TYPE_CHECKING:
    from periplus.journal import Entity, Journal
    from periplus.project import Project

CANDIDATES_READ: Final = 2_000  # more are not put in order of time
CANDIDATES_SHOWN: Final = 20
_LISTED: Final = 50
_TEXT_CHARACTERS: Final = 8_000
_PENDING: Final = (
    "SELECT item_id FROM links WHERE item_type = 'candidate' AND field = 'state' AND value = 'pending' LIMIT ?"
)


class MailRow(NamedTuple):
    id: str
    state: str
    sender: str
    recipient: str
    text: str
    ref: str
    thread: str
    needs_answer: bool
    created: str


class QuestionRow(NamedTuple):
    """A question of an agent at work; it goes on with the answer."""

    id: str
    asker: str
    text: str
    options: tuple[str, ...]
    dispatch: str
    assignment: str
    created: str
    expires: str


class CandidateRow(NamedTuple):
    """Proposed memory. ``of`` is the store or the kind of reflection that it comes from."""

    id: str
    item_type: str
    of: str
    text: str
    remedy: str
    why: str
    about: tuple[str, ...]
    confidence: int
    sender: str
    recipient: str
    created: str


class Candidates(NamedTuple):
    """A page of open candidates, oldest first; ``is_more`` where there are more than were counted."""

    rows: tuple[CandidateRow, ...]
    total: int
    is_more: bool


class HandoffRow(NamedTuple):
    """A handoff. ``is_mine`` is True where the person may take it over without insisting."""

    id: str
    state: str
    text: str
    author: str
    recipient: str
    files: tuple[str, ...]
    tests: str
    unfinished: tuple[str, ...]
    plan: str
    trail: str
    accepted_by: str
    created: str
    is_mine: bool


def mail_row(message: Entity) -> MailRow:
    value = message.value
    return MailRow(
        message.item_id, text_of(value, "state"), text_of(value, "sender"), text_of(value, "recipient"),
        text_of(value, "text")[:_TEXT_CHARACTERS], text_of(value, "ref"), text_of(value, "thread"), value.get("needs_answer") is True,
        text_of(value, "created"),
    )  # fmt: skip


def question_row(question: Entity) -> QuestionRow:
    value = question.value
    return QuestionRow(
        question.item_id, text_of(value, "asker"), text_of(value, "text")[:_TEXT_CHARACTERS], texts_of(value, "options")[:_LISTED],
        text_of(value, "dispatch"), text_of(value, "assignment"), text_of(value, "created"), text_of(value, "expires"),
    )  # fmt: skip


def handoff_row(handoff: Entity, person: str) -> HandoffRow:
    value = handoff.value
    recipient = text_of(value, "recipient")
    return HandoffRow(
        handoff.item_id, text_of(value, "state"), text_of(value, "text")[:_TEXT_CHARACTERS], text_of(value, "author"), recipient,
        texts_of(value, "files")[:_LISTED], text_of(value, "tests")[:_TEXT_CHARACTERS], texts_of(value, "unfinished")[:_LISTED],
        text_of(value, "plan"), text_of(value, "trail"), text_of(value, "accepted_by"), text_of(value, "created"),
        recipient in ("", person),
    )  # fmt: skip


def candidates(project: Project, page: int) -> Candidates:
    """Return a page of the open candidates, of CANDIDATES_SHOWN."""
    journal = project.journal
    ids = [str(row[0]) for row in journal.index.db.execute(_PENDING, (CANDIDATES_READ + 1,))]
    ids += [one for kind, one in journal.unindexed() if kind == "candidate" and one not in ids]
    held = [entity for item_id in ids[:CANDIDATES_READ] if (entity := _open(journal, item_id)) is not None]
    held.sort(key=lambda one: (text_of(one.value, "created"), one.item_id))
    first = (page - 1) * CANDIDATES_SHOWN
    rows = tuple(_candidate(one) for one in held[first : first + CANDIDATES_SHOWN])
    return Candidates(rows, len(held), len(ids) > CANDIDATES_READ)


def _open(journal: Journal, item_id: str) -> Entity | None:
    from periplus.memory.entities.types import state_of

    found = journal.as_read("candidate", item_id)
    return found if found is not None and state_of("candidate", found.value) == "pending" else None


def _candidate(entity: Entity) -> CandidateRow:
    value = entity.value
    held, source = value.get("payload"), value.get("provenance")
    payload = held if isinstance(held, dict) else {}
    origin = source if isinstance(source, dict) else {}
    of = text_of(value, "source_store") or text_of(origin, "kind") or "another project"
    return CandidateRow(
        entity.item_id, text_of(value, "item_type"), of, text_of(payload, "text")[:_TEXT_CHARACTERS],
        one_line(text_of(payload, "remedy")), one_line(text_of(value, "why")),
        tuple(text_of(one, "ref") for one in objects_of(payload, "about")[:_LISTED]), number_of(payload, "confidence", 100),
        text_of(payload, "sender"), text_of(payload, "recipient"), text_of(value, "created"),
    )  # fmt: skip
