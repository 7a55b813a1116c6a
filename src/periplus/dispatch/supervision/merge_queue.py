"""The merge queue: verified work is brought onto the target branch, one assignment at a time.

The commit that joins both sides is made without touching any checkout. In a worktree of its own the oracle is run on it, because
what passed apart may fail together. Then the branch is moved by compare-and-set, never by force. Where the branch is no longer
where this queue left it, a person is asked before anything is added.

All steps can be repeated: the same two commits give the same joint commit, and a branch that has the commit already is not moved
again.
"""

from __future__ import annotations

__all__ = ["MergeQueue"]

import time
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from periplus.base.clock import parse_ms
from periplus.base.errors import PeriplusError
from periplus.base.files import read_plain, write_atomic
from periplus.dispatch.repository import Conflict, Marks
from periplus.dispatch.supervision.preparation import link_folders
from periplus.dispatch.supervision.texts import commit_message, plain
from periplus.dispatch.supervision.workplace import Fields, Workplace, shape
from periplus.memory.coordination.assignments import is_at_work
from periplus.memory.coordination.dispatches import NewQuestion, ask_person
from periplus.memory.fulltext.links import linked

if TYPE_CHECKING:
    from periplus.dispatch.processes import Ended
    from periplus.journal import Entity
    from periplus.memory.entities.schemas import Assignment

QUEUE: Final = "merge queue"
GO_ON: Final = "go on"
STOP: Final = "stop"
_REPLACED: Final = "refs/replace/"
_SIDE_MAX: Final = 1_500
_MARKS_BYTES_MAX: Final = 64 << 20


class Author(Protocol):
    """What the queue needs of the lane of an assignment."""

    def follow(self, assignment: Entity) -> tuple[str, Ended | None] | None: ...

    def check_ended(self, assignment: Entity, how: tuple[str, Ended | None]) -> tuple[Fields, bool, str]: ...

    def give_back(self, assignment: Entity, why: str, text: str, fields: Fields | None = None) -> Entity: ...


class MergeQueue:
    """The queue of one dispatch; the journal knows who is in it."""

    def __init__(self, workplace: Workplace, author: Author) -> None:
        self._at, self._author = workplace, author

    @property
    def branch(self) -> str:
        """The branch that work is integrated on."""
        return self._at.order.branch

    def advance(self, assignment: Entity) -> Entity | None:
        """Do the next act for work that is verified, and reviewed where that is asked for."""
        value = shape(assignment)
        last = value.runs[-1]
        if last.purpose == "queue" and not last.ended:
            return self._follow(assignment, value)
        tip = self._at.repository.tip(self.branch)
        if value.tip == value.base or self._at.repository.merge_base(value.tip, tip) == value.tip:
            return self._integrated(assignment, tip if value.tip != value.base else "")
        if self._is_taken(assignment) or self.is_held(tip):
            return None
        author = (f"{value.agent} (periplus)", self._at.email)
        made = self._at.repository.merge(tip, value.tip, commit_message(value), author, at_s=_seconds(value.created))
        if isinstance(made, Conflict):
            return self._conflict(assignment, value, made)
        if not self._at.order.oracle:
            return self._move(self._at.change(assignment, {"merged": made.commit}), tip)
        path = self._at.places.queue(self._at.dispatch_id)
        self._at.repository.remove_worktree(path, keep_branch=True, force=True)
        self._at.repository.add_worktree(path, "", made.commit)
        link_folders(self._at, path)
        return self._at.begin_run(assignment, "queue", QUEUE, {"merged": made.commit})

    def _follow(self, assignment: Entity, value: Assignment) -> Entity | None:
        how = self._author.follow(assignment)
        if how is None:
            return None
        fields, is_passed, text = self._author.check_ended(assignment, how)
        changed = self._at.change(assignment, fields)
        if not is_passed:
            why = f"It passes apart, and fails merged with {self.branch}. Merge {self.branch} into your branch and mend it.\n{text}"
            return self._author.give_back(changed, "queue", why, {"merged": ""})
        return self._move(changed, self._at.repository.parent(value.merged))

    def _move(self, assignment: Entity, old: str) -> Entity:
        """Move the branch to the joint commit; where somebody moved it since it was made, the queue begins again."""
        merged = shape(assignment).merged
        tip = self._at.repository.tip(self.branch)
        if tip != merged and not self._is_moved(merged, old):
            return self._at.change(assignment, {"merged": ""})
        self.accept()
        return self._integrated(assignment, merged)

    def _is_moved(self, merged: str, old: str) -> bool:
        checkouts = self._at.repository.checkouts(self.branch)
        if not checkouts:
            return self._at.repository.move(f"refs/heads/{self.branch}", merged, old)
        if not self._at.order.updates_checkout:
            self._ask(
                f"{self.branch} is checked out in {checkouts[0]}, so it is not moved. Check out another branch there."
            )
            return False
        why = self._at.repository.fast_forward(checkouts[0], merged, self.branch)
        if why:
            self._ask(f"{checkouts[0]} cannot be updated to {merged[:12]}: {why}")
        return not why

    def _integrated(self, assignment: Entity, merged: str) -> Entity:
        value = shape(assignment)
        changed = self._at.change(assignment, {"merged": merged}, state="integrated")
        self._at.keep_lessons(value)
        self.clean(value)
        return changed

    def clean(self, value: Assignment) -> None:
        """Remove the worktree of integrated work and its branch; what cannot be removed stays, and is told."""
        try:
            self._at.repository.remove_worktree(self._at.worktree(value), keep_branch=False, force=True)
        except PeriplusError as error:
            self._at.remark(f"{value.worktree} was not removed: {error}")

    def tidy(self) -> None:
        """Remove the worktree of the queue."""
        self._at.repository.remove_worktree(self._at.places.queue(self._at.dispatch_id), keep_branch=True, force=True)

    def _conflict(self, assignment: Entity, value: Assignment, conflict: Conflict) -> Entity:
        """Give work that conflicts back to its author, once; then a person is asked."""
        paths = ", ".join(conflict.paths[:20])
        if any(one.why == "conflict" for one in value.returns):
            text = f"The work on “{plain(value.text, 200)}” conflicts with {self.branch} again, in {paths}. What should be done?"
            question = NewQuestion(text, self._at.dispatch_id, assignment.item_id, QUEUE)
            return self._at.change(assignment, state="waiting", question=question)
        both = f"On {self.branch}:\n{plain(conflict.ours, _SIDE_MAX)}\n\nOn your branch:\n{plain(conflict.theirs, _SIDE_MAX)}"
        text = f"Your branch conflicts with {self.branch} in {paths}. Merge {self.branch} into your branch and keep what both sides are for.\n{both}"
        return self._author.give_back(assignment, "conflict", text)

    def _is_taken(self, assignment: Entity) -> bool:
        """Return True where another assignment is being integrated, or has been waiting for longer."""
        for other in self._at.assignments():
            if other.item_id == assignment.item_id or not is_at_work(other):
                continue
            value = shape(other)
            if value.runs and value.runs[-1].purpose == "queue" and not value.runs[-1].ended:
                return True
        return False

    # -- what nobody else should have changed -----------------------------------------------------------------------------

    def is_held(self, tip: str) -> bool:
        """Return True while a person has to look at something before the queue goes on. Asks where nobody was asked yet."""
        for question in linked(self._at.journal, "question", "dispatch", self._at.dispatch_id):
            if question.value.get("assignment", "") == "" and question.value.get("state") == "open":
                return True
        found = self.found_changes(tip)
        if not found:
            return False
        if self._is_answered(found):
            self.accept()
            return False
        self._ask("; ".join(found), found)
        return True

    def found_changes(self, tip: str) -> list[str]:
        """Return what was changed in git beside the work: settings, hooks, replacements, history of the target, the branch of
        this queue. New commits, branches and tags of others are no reason to wait.
        """
        before = self._marks()
        if before is None:
            self.accept()
            return []
        now = self._at.repository.marks()
        others = {name: commit for name, commit in now.refs.items() if not name.startswith(_REPLACED)}
        replaced = {name: commit for name, commit in before.refs.items() if name.startswith(_REPLACED)}
        found = self._at.repository.tampered(before._replace(refs={**others, **replaced}, head=now.head))
        target = f"refs/heads/{self._at.order.target}"
        old, new = before.refs.get(target, ""), now.refs.get(target, "")
        if old and old != new and not (new and self._at.repository.merge_base(old, new) == old):
            found.append(f"{self._at.order.target} no longer has the commit {old[:12]}")
        known = {self._at.order.base, *(str(one.value.get("merged", "")) for one in self._at.assignments())}
        if self.branch != self._at.order.target and tip not in known:
            found.append(f"{self.branch} was moved to {tip[:12]} by somebody else than the merge queue")
        return found

    def begin(self) -> None:
        """Take git's settings for the right ones where nothing has been done yet."""
        if self._marks() is None:
            self.accept()

    def accept(self) -> None:
        """Take git's settings as they are now for the right ones."""
        data = msgspec.json.encode(self._at.repository.marks()._asdict())
        write_atomic(self._at.journal.files, self._at.places.marks(self._at.dispatch_id), data, mode=0o600)

    def _marks(self) -> Marks | None:
        try:
            data = read_plain(self._at.places.marks(self._at.dispatch_id), _MARKS_BYTES_MAX)
        except FileNotFoundError:
            return None
        return Marks(**msgspec.json.decode(data))

    def _is_answered(self, found: list[str]) -> bool:
        text = _held_text("; ".join(found))
        asked = [
            one
            for one in linked(self._at.journal, "question", "dispatch", self._at.dispatch_id)
            if one.value.get("text") == text
        ]
        if any(str(one.value.get("answer", "")).strip().lower() == STOP for one in asked):
            self._at.stop("a person stopped it: " + "; ".join(found))
            return False
        return bool(asked) and all(one.value.get("state") == "answered" for one in asked)

    def _ask(self, what: str, found: list[str] | None = None) -> None:
        text = _held_text(what) if found else what
        options = (GO_ON, STOP) if found else (GO_ON,)
        ask_person(
            self._at.journal,
            self._at.writer,
            NewQuestion(plain(text), self._at.dispatch_id, asker=QUEUE, options=options),
        )


def _held_text(what: str) -> str:
    return plain(f"While agents worked, something else changed: {what}. Look at it; go on when it is as it should be.")


def _seconds(created: str) -> int:
    return (parse_ms(created) or int(time.time() * 1000)) // 1000
