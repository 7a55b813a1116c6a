"""Waiting: everything in a store that waits for a person, beside the work in progress and what others changed.

It is the first thing that a person sees, so it has to be fast for any store: entities are counted in the index and only
the first of each kind are decoded, each count ends at a limit, and ``is_more`` says where it did.
"""

from __future__ import annotations

__all__ = [
    "NextCommand",
    "PlanProgress",
    "Waiting",
    "WaitingGroup",
    "WaitingItem",
    "note_look",
    "review_of",
    "waiting_of",
]

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.errors import PeriplusError
from periplus.base.named_tuple import NamedTuple
from periplus.memory.fulltext.links import linked_ids, open_states

if TYPE_CHECKING:
    from periplus.journal import Entity, Journal
    from periplus.memory.coordination.dispatch_overview import DispatchProgress
    from periplus.project.store import ProjectStore

COUNT_MAX: Final = 10_000
FIRST_MAX: Final = 5  # items of each group
_DECODED_MAX: Final = 200  # of a group whose members must be decoded to be counted
_TEXT_CHARACTERS: Final = 300
_WORK_MAX: Final = 2_000  # open sessions, or steps to do, above which they are not looked at one by one
_CHANGES_MAX: Final = 8
_COMMANDS_MAX: Final = 5


class WaitingItem(NamedTuple):
    """An entity, its ``text`` on one line, a ``note`` (who sent it, why it waits), and the command for it."""

    item_type: str
    item_id: str
    text: str
    note: str
    command: str


class WaitingGroup(NamedTuple):
    """All of one kind: their number, ``is_more`` where counting ended before it, the first ones (mostly those written last),
    and the command that lists them.
    """

    number: int = 0
    is_more: bool = False
    first: tuple[WaitingItem, ...] = ()
    command: str = ""

    def words(self) -> str:
        """Return the number as text: ``3``, ``more than 10,000``; ``many`` where none was counted."""
        if self.is_more and not self.number:
            return "many"
        return f"more than {self.number:,}" if self.is_more else f"{self.number:,}"


class PlanProgress(NamedTuple):
    """An open plan, and how many of its steps are done."""

    plan: WaitingItem
    done: int
    steps: int


class NextCommand(NamedTuple):
    """A command to type, and the reason."""

    command: str
    reason: str


class Waiting(NamedTuple):
    """Everything that waits for the writer of the project, work in progress, and changes of others since the reader
    looked (``looked_at``; empty for a reader who never did, for whom ``changes`` are the newest).
    """

    root: str
    name: str
    records: int
    damage: str
    questions: WaitingGroup
    mail: WaitingGroup
    handoffs: WaitingGroup
    candidates: WaitingGroup
    skills: WaitingGroup
    conflicts: WaitingGroup
    review: WaitingGroup  # stale, expired, failing, replaced apart, or stuck: ``periplus review`` tells more
    present: WaitingGroup
    claims: WaitingGroup
    at_work: WaitingGroup  # assignments of dispatches, in all clones
    doing: WaitingGroup  # steps
    ready: WaitingGroup  # steps that can be started now
    plans: tuple[PlanProgress, ...]
    plans_open: WaitingGroup
    dispatches: tuple[DispatchProgress, ...]
    changes: WaitingGroup
    looked_at: str
    next: tuple[NextCommand, ...]

    @property
    def for_person(self) -> tuple[WaitingGroup, ...]:
        """The groups that wait for a decision of the person, the most urgent first."""
        return self.questions, self.mail, self.conflicts, self.handoffs, self.candidates, self.skills, self.review

    @property
    def is_anything(self) -> bool:
        """True where anything waits for the person."""
        return bool(self.damage) or any(group.number or group.is_more for group in self.for_person)


def waiting_of(project: ProjectStore, reader: str = "", *, with_review: bool = True) -> Waiting:
    """Return what waits for the project's writer; ``reader`` names the cursor of this person's looks, see
    ``note_look``. What is to be reviewed takes three quarters of the time in a large store: ``review_of`` tells it alone.
    """
    from periplus.memory.retrieval.recall import bring_up_to_date
    from periplus.project.checkup_report import told_of_damage

    project.look_to_answer()
    journal, name = project.journal, project.writer.name
    bring_up_to_date(journal)
    changes, looked_at = _changes(project, reader)
    plans = _group(journal, "plan", {"state": open_states("plan")}, _plan, "periplus plan list")
    found = Waiting(
        root=project.root,
        name=name,
        records=journal.end().next_seq - 1,
        damage=str(journal.damage) if journal.damage is not None else told_of_damage(project.root),
        questions=_questions(journal),
        mail=_mail(journal, name),
        handoffs=_group(
            journal, "handoff", {"state": ["open"], "recipient": ["", name]}, _handoff, "periplus handoff list"
        ),
        candidates=_group(journal, "candidate", {"state": ["pending"]}, _candidate, "periplus candidates list"),
        skills=_group(journal, "skill_candidate", {"state": ["pending"]}, _skill, "periplus skills list"),
        conflicts=_conflicts(journal),
        review=review_of(project) if with_review else WaitingGroup(),
        present=_present(journal),
        claims=_claims(journal),
        at_work=_at_work(journal),
        doing=_group(journal, "step", {"state": ["doing"]}, _step, "periplus plan list"),
        ready=_ready(journal),
        plans=_plans(journal, plans),
        plans_open=plans,
        dispatches=_dispatches(journal),
        changes=changes,
        looked_at=looked_at,
        next=(),
    )
    return found._replace(next=tuple(_commands(found)[:_COMMANDS_MAX]))


def note_look(project: ProjectStore, reader: str) -> None:
    """Store that ``reader`` has seen all records that are indexed now. Raises EnvironmentFailure where that cannot be
    written, and UsageError for a name that cannot be that of a reader.
    """
    from periplus.journal.history.cursors import write_cursor

    journal = project.journal
    write_cursor(journal, reader, {name: place.next_seq - 1 for name, place in journal.index.watermarks().items()})


# -- groups --------------------------------------------------------------------------------------------------------------


def _group(
    journal: Journal, item_type: str, fields: Mapping[str, Sequence[str]], item: Callable[[Entity], WaitingItem], command: str
) -> WaitingGroup:  # fmt: skip
    """Return the entities with such fields as a group, the newest first: only the first ones are decoded."""
    ids = linked_ids(journal, item_type, fields, COUNT_MAX + 1)
    held = [one for item_id in ids[:FIRST_MAX] if (one := journal.as_read(item_type, item_id)) is not None]
    return WaitingGroup(min(len(ids), COUNT_MAX), len(ids) > COUNT_MAX, tuple(map(item, held)), command)


def _decoded(
    journal: Journal, item_type: str, ids: Sequence[str], is_wanted: Callable[[Entity], bool]
) -> tuple[list[Entity], bool]:
    """Return the wanted among the first ``ids``, and True where others were not looked at."""
    held = [one for item_id in ids[:_DECODED_MAX] if (one := journal.as_read(item_type, item_id)) is not None]
    return [one for one in held if is_wanted(one)], len(ids) > _DECODED_MAX


def _made(
    found: Sequence[Entity], item: Callable[[Entity], WaitingItem], command: str, *, is_more: bool
) -> WaitingGroup:
    return WaitingGroup(len(found), is_more, tuple(map(item, found[:FIRST_MAX])), command)


def _questions(journal: Journal) -> WaitingGroup:
    from periplus.base.clock import format_ms

    now = format_ms(journal.clock.now_ms())
    ids = linked_ids(journal, "question", {"state": ["open"]}, COUNT_MAX)
    found, is_more = _decoded(journal, "question", ids, lambda one: str(one.value.get("expires", now)) >= now)
    found.sort(key=lambda one: (str(one.value.get("created", "")), one.item_id))
    return _made(found, _question, "periplus inbox mail", is_more=is_more)


def _mail(journal: Journal, name: str) -> WaitingGroup:
    """Return unread messages, with those that were read and wait for an answer."""
    unread = _group(journal, "message", {"recipient": [name], "state": ["sent"]}, _message, "periplus inbox mail")
    ids = linked_ids(journal, "message", {"recipient": [name], "state": ["read"]}, COUNT_MAX)
    owed, _ = _decoded(journal, "message", ids, lambda one: one.value.get("needs_answer") is True)
    first = (*unread.first, *map(_message, owed))[:FIRST_MAX]
    return unread._replace(number=unread.number + len(owed), first=first)


def _conflicts(journal: Journal) -> WaitingGroup:
    keys = sorted({*journal.index.contested(), *journal.unindexed()}, key=lambda key: key[1], reverse=True)
    held = [one for key in keys[:_DECODED_MAX] if (one := journal.as_read(*key)) is not None and one.is_in_conflict]
    return _made(held, _conflict, "periplus status", is_more=len(keys) > _DECODED_MAX)


def review_of(project: ProjectStore) -> WaitingGroup:
    """Return the memory that is to be reviewed, as far as a glance tells."""
    from periplus.journal.projections.git_state import project_folders
    from periplus.memory.review import due_at_a_glance
    from periplus.project.knowledge.grounds import ground_of

    # Only beside other worktrees does it take git's history to tell whether the code was ever here.
    is_alone = all(folder == project.top for folder in project_folders(project.root))
    ground = ground_of(project, with_commits=not is_alone)
    found = due_at_a_glance(project.journal, ground, has_others=not is_alone)
    first = tuple(_due(entity, reason) for entity, reason in found.due[:FIRST_MAX])
    return WaitingGroup(len(found.due), found.is_more, first, "periplus review")


def _changes(project: ProjectStore, reader: str) -> tuple[WaitingGroup, str]:
    from periplus.journal.history.cursors import read_cursor
    from periplus.memory.briefing.unread_changes import unread_changes

    journal = project.journal
    try:
        cursor = read_cursor(journal.layout, reader) if reader else None
    except PeriplusError:
        cursor = None  # a damaged cursor is written again at the next look
    seen, at = (cursor.last_seq, cursor.read_at) if cursor is not None else ({}, "")
    found = unread_changes(journal, project.writer, seen, _CHANGES_MAX)
    first = tuple(_item(one.entity, f"{'new, ' if one.is_new else ''}by {one.by}") for one in found.first)
    return WaitingGroup(found.number, found.is_more, first, "periplus changed"), at


# -- work in progress ----------------------------------------------------------------------------------------------------


def _present(journal: Journal) -> WaitingGroup:
    from periplus.memory.coordination.sessions import who

    if len(linked_ids(journal, "session", {"state": ["open"]}, _WORK_MAX + 1)) > _WORK_MAX:
        return WaitingGroup(is_more=True, command="periplus who")  # sessions that nobody ended
    found = who(journal)
    items = []
    for one in found[:FIRST_MAX]:
        tool = str(one.session.value.get("tool") or one.session.value.get("model") or "") if one.session else ""
        claims = f"{len(one.claims):,} claim{'s' if len(one.claims) > 1 else ''}" if one.claims else ""
        note = ", ".join(part for part in (tool, claims) if part)
        items.append(WaitingItem("session", one.session.item_id if one.session else "", one.name, note, "periplus who"))
    return WaitingGroup(len(found), False, tuple(items), "periplus who")


def _claims(journal: Journal) -> WaitingGroup:
    from periplus.memory.claim_status import is_live

    now_ms = journal.clock.now_ms()
    ids = linked_ids(journal, "claim", {"state": ["held"]}, COUNT_MAX)
    found, is_more = _decoded(journal, "claim", ids, lambda one: is_live(journal, one, now_ms))
    return _made(found, _claim, "periplus claim list", is_more=is_more)


def _at_work(journal: Journal) -> WaitingGroup:
    from periplus.memory.coordination.assignments import OPEN_STATES
    from periplus.memory.coordination.dispatch_overview import assignment_words

    def item(one: Entity) -> WaitingItem:
        return _item(one, assignment_words(journal, one))

    def is_carried(one: Entity) -> bool:
        dispatch = journal.as_read("dispatch", str(one.value.get("dispatch", "")))
        return dispatch is not None and dispatch.value.get("state") == "open"

    ids = linked_ids(journal, "assignment", {"state": sorted(OPEN_STATES)}, COUNT_MAX)
    found, is_more = _decoded(journal, "assignment", ids, is_carried)
    return _made(found, item, "periplus who", is_more=is_more)


def _dispatches(journal: Journal) -> tuple[DispatchProgress, ...]:
    """Return the progress of the open dispatches; of those that nobody ended the limit is that of plans."""
    from periplus.memory.coordination.dispatch_overview import open_progress

    if not linked_ids(journal, "dispatch", {"state": ["open"]}, 1):
        return ()
    return tuple(open_progress(journal)[:FIRST_MAX])


def _ready(journal: Journal) -> WaitingGroup:
    from periplus.memory.coordination.plans import ready_steps

    waiting = linked_ids(journal, "step", {"state": ["todo"]}, _WORK_MAX + 1)
    if len(waiting) > _WORK_MAX:
        return WaitingGroup(is_more=True, command="periplus plan ready")
    return _made(ready_steps(journal) if waiting else [], _step, "periplus plan ready", is_more=False)


def _plans(journal: Journal, plans: WaitingGroup) -> tuple[PlanProgress, ...]:
    found = []
    for plan in plans.first:
        steps = len(linked_ids(journal, "step", {"plan": [plan.item_id]}, _WORK_MAX))
        done = len(linked_ids(journal, "step", {"plan": [plan.item_id], "state": ["done"]}, _WORK_MAX))
        found.append(PlanProgress(plan, done, steps))
    return tuple(found)


# -- items ---------------------------------------------------------------------------------------------------------------


def _item(entity: Entity, note: str, command: str = "", text: str = "") -> WaitingItem:
    value = entity.value
    said = str(text or value.get("text") or value.get("title") or value.get("name") or "")
    line = " ".join(said[: 4 * _TEXT_CHARACTERS].split())
    short = line if len(line) <= _TEXT_CHARACTERS else f"{line[: _TEXT_CHARACTERS - 1]}…"
    return WaitingItem(entity.item_type, entity.item_id, short, note, command or f"periplus show {entity.item_id}")


def _question(one: Entity) -> WaitingItem:
    return _item(one, str(one.value.get("author", "")), f'periplus dispatch answer {one.item_id} "…"')


def _message(one: Entity) -> WaitingItem:
    is_owed = one.value.get("needs_answer") is True
    note = f"{one.value.get('sender')}{', wants an answer' if is_owed else ''}"
    return _item(
        one, note, f'periplus inbox answer {one.item_id} "…"' if is_owed else f"periplus inbox read {one.item_id}"
    )


def _handoff(one: Entity) -> WaitingItem:
    return _item(one, str(one.value.get("author", "")), f"periplus handoff accept {one.item_id}")


def _candidate(one: Entity) -> WaitingItem:
    payload = one.value.get("payload")
    text = str(payload.get("text", "")) if isinstance(payload, dict) else ""
    return _item(one, str(one.value.get("item_type", "")), f"periplus candidates accept {one.item_id}", text)


def _skill(one: Entity) -> WaitingItem:
    return _item(one, "skill", f"periplus skills accept {one.item_id}")


def _conflict(one: Entity) -> WaitingItem:
    fields = ", ".join(dict.fromkeys(str(conflict.path[0]) for conflict in one.conflicts if conflict.path))
    return _item(one, f"in conflict: {fields}" if fields else "in conflict")


def _due(one: Entity, reason: str) -> WaitingItem:
    is_work = one.item_type in ("plan", "step")
    return _item(one, reason, "" if is_work else f"periplus confirm {one.item_id}")


def _claim(one: Entity) -> WaitingItem:
    scopes = one.value.get("scopes")
    text = ", ".join(map(str, scopes[:FIRST_MAX])) if isinstance(scopes, list) else ""
    return _item(one, str(one.value.get("holder", "")), "", text)


def _step(one: Entity) -> WaitingItem:
    return _item(one, str(one.value.get("assignee", "")), "periplus plan next")


def _plan(one: Entity) -> WaitingItem:
    return _item(one, str(one.value.get("state", "")), f"periplus plan show {one.item_id}")


# -- commands ------------------------------------------------------------------------------------------------------------


def _commands(found: Waiting) -> list[NextCommand]:
    """Return commands to type next, the most urgent first."""
    said = []
    if found.damage:
        said.append(NextCommand("periplus doctor", "check the store"))
    if found.questions.first:
        said.append(NextCommand(found.questions.first[0].command, "answer the oldest question"))
    said += [
        NextCommand(
            f"periplus dispatch start --resume {one.dispatch.item_id}", "continue a dispatch that nobody carries"
        )
        for one in found.dispatches
        if one.supervisor == "gone"
    ][:1]
    listed = (
        (found.mail, "read your mail"),
        (found.conflicts, "settle what is in conflict"),
        (found.handoffs, "take over work"),
        (found.candidates, "accept or refuse proposed memory"),
        (found.skills, "accept or refuse suggested skills"),
        (found.review, "confirm or replace memory that may no longer hold"),
    )
    for group, reason in listed:
        if group.number or group.is_more:
            is_one = group is found.conflicts and bool(group.first)
            said.append(NextCommand(group.first[0].command if is_one else group.command, reason))
    if found.ready.number or found.ready.is_more:
        said.append(NextCommand("periplus plan next", "take the next step of a plan"))
    return [
        *said,
        NextCommand('periplus brief "…"', "see what is known before a task"),
        NextCommand('periplus remember "…" --type decision', "save what was decided"),
        NextCommand("periplus run", "work with the agent of Periplus"),
        NextCommand("periplus web", "look at all of it in a browser"),
    ]
