"""The merge queue: verified work is brought onto the target branch, one assignment at a time.

The commit that joins both sides is made without touching any checkout. In a worktree of its own the oracle is run on it, because
what passed apart may fail together. Then the branch is moved by compare-and-set, never by force. Where the branch is no longer
where this queue left it, a person is asked before anything is added.

All steps can be repeated: the same two commits give the same joint commit, and a branch that has the commit already is not moved
again.
"""

from __future__ import annotations

__all__ = ["MergeQueue"]

import os
import time
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from periplus.base.clock import parse_ms
from periplus.base.errors import PeriplusError
from periplus.base.files import read_plain, write_atomic
from periplus.dispatch.repository import BRANCH_PREFIX, Conflict, Marks
from periplus.dispatch.supervision.preparation import bring_folders
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
AGENT_MARK: Final = "(periplus)"  # at the end of the name under which an agent commits
_REPLACED: Final = "refs/replace/"
_SIDE_MAX: Final = 1_500
_MARKS_BYTES_MAX: Final = 64 << 20


class Author(Protocol):
    """The lane of an assignment, as far as the queue needs it."""

    def follow(self, assignment: Entity) -> tuple[str, Ended | None] | None: ...

    def check_ended(self, assignment: Entity, how: tuple[str, Ended | None]) -> tuple[Fields, bool, str]: ...

    def give_back(self, assignment: Entity, why: str, text: str, fields: Fields | None = None) -> Entity: ...

    def is_cut(self, value: Assignment, ending: str) -> bool: ...


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
        if value.tip == value.base:
            return self._integrated(assignment, "")
        tip = self._at.repository.tip(self.branch)
        if self._is_taken(assignment) or self.is_held(tip):
            return None
        if self._at.repository.merge_base(value.tip, tip) == value.tip:
            return self._integrated(assignment, value.merged if self._has(tip, value.merged) else tip)
        author = (f"{value.agent} (periplus)", self._at.email)
        made = self._at.repository.merge(tip, value.tip, commit_message(value), author, at_s=_seconds(value.created))
        if isinstance(made, Conflict):
            return self._conflict(assignment, value, made)
        if not self._at.order.oracle:
            return self._move(self._at.change(assignment, {"merged": made.commit}), tip)
        path = self._at.places.queue(self._at.dispatch_id)
        self._at.repository.remove_worktree(path, keep_branch=True, force=True)
        self._at.repository.add_worktree(path, "", made.commit)
        bring_folders(self._at, path)
        return self._at.begin_run(assignment, "queue", QUEUE, {"merged": made.commit})

    def _follow(self, assignment: Entity, value: Assignment) -> Entity | None:
        how = self._author.follow(assignment)
        if how is None:
            return None
        fields, is_passed, text = self._author.check_ended(assignment, how)
        if not is_passed and self._author.is_cut(value, how[0]):
            return self._at.change(assignment, fields)  # it is merged and checked again
        if not is_passed:
            why = f"It passes apart, and fails merged with {self.branch}. Merge {self.branch} into your branch and mend it.\n{text}"
            return self._author.give_back(assignment, "queue", why, {**fields, "merged": ""})
        return self._move(self._at.change(assignment, fields), self._at.repository.parent(value.merged))

    def _move(self, assignment: Entity, old: str) -> Entity:
        """Move the branch to the joint commit; where somebody moved it since it was made, the queue begins again."""
        merged = shape(assignment).merged
        tip = self._at.repository.tip(self.branch)
        if tip != merged and not self._is_moved(merged, old):
            return self._at.change(assignment, {"merged": ""})
        self._note_move(merged)
        return self._integrated(assignment, merged)

    def _has(self, tip: str, commit: str) -> bool:
        """Return True where the history of ``tip`` has the commit."""
        return bool(tip and commit) and self._at.repository.merge_base(tip, commit) == commit

    def has_merged(self, value: Assignment) -> bool:
        """Return True where the work of an assignment is on the branch already, by this queue."""
        return self._has(self._at.repository.tip(self.branch), value.merged)

    def settle(self, assignment: Entity) -> Entity:
        """Note that work is integrated which was merged before its record could be written."""
        return self._integrated(assignment, shape(assignment).merged)

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
        self._at.keep_lessons(shape(assignment))  # before: nobody would do it later
        changed = self._at.change(assignment, {"merged": merged}, state="integrated")
        return self.clean(changed)

    def clean(self, assignment: Entity) -> Entity:
        """Remove the worktree of integrated work and its branch. What is newer than the work stays, and is told."""
        value, repository = shape(assignment), self._at.repository
        path = self._at.worktree(value)
        try:
            tip = repository.tip(value.branch)
            late = f"{value.branch} has commits that came after its check" if tip not in ("", value.tip) else ""
            late = late or self._changed_late(value, path)
            if not late:
                repository.remove_worktree(path, keep_branch=True, force=True)
                repository.drop_branch(value.branch, force=True)
                return assignment
        except PeriplusError as error:
            late = str(error)
        remark = plain(f"{value.worktree} was not removed: {late}", 300)
        if remark in value.remarks:
            return assignment
        return self._at.change(assignment, {"remarks": [*value.remarks, remark]})

    def _changed_late(self, value: Assignment, path: str) -> str:
        """Return a file in the worktree that was written after the last job there, and that no commit has."""
        if not os.path.lexists(os.path.join(path, ".git")):
            return ""  # it is gone, or its removal was interrupted
        last = max(
            (parse_ms(run.ended) or 0 for run in value.runs if run.purpose in ("work", "oracle", "setup")), default=0
        )
        left = self._at.repository.describe(path)
        for name in (*left.changed, *left.untracked, *left.unmerged, *left.nested):
            try:
                is_late = os.lstat(os.path.join(path, name)).st_mtime_ns > last * 1_000_000
            except OSError:
                continue
            if is_late:
                return f"{name} was written after its check"
        return ""

    def tidy(self) -> None:
        """Remove what work that has ended left behind: worktrees of integrated work, of reviews, and that of the queue. What cannot
        be removed is told.
        """
        branches = self._at.repository.branches(BRANCH_PREFIX)
        paths = [self._at.places.queue(self._at.dispatch_id)]
        for assignment in self._at.assignments():
            value = shape(assignment)
            if is_at_work(assignment):
                continue
            if value.state == "integrated" and (os.path.lexists(self._at.worktree(value)) or value.branch in branches):
                self.clean(assignment)
            elif value.state != "integrated" and value.merged and self.has_merged(value):
                remark = f"its work is on {self.branch} already, as {value.merged}"
                if remark not in value.remarks:
                    self._at.change(assignment, {"remarks": [*value.remarks, remark]})
            if not value.runs or value.runs[-1].ended:
                paths.append(self._at.places.review(value.worktree))
        for path in paths:
            self._at.discard(path)

    def _conflict(self, assignment: Entity, value: Assignment, conflict: Conflict) -> Entity:
        """Give work that conflicts back to its author, once; then a person is asked."""
        paths = ", ".join(conflict.paths[:20])
        if any(one.why == "conflict" for one in value.returns):
            text = f"The work on “{plain(value.text, 200)}” conflicts with {self.branch} again, in {paths}. What should be done?"
            question = NewQuestion(plain(text), self._at.dispatch_id, assignment.item_id, QUEUE)
            return self._at.change(assignment, state="waiting", question=question)
        both = f"On {self.branch}:\n{plain(conflict.ours, _SIDE_MAX)}\n\nOn your branch:\n{plain(conflict.theirs, _SIDE_MAX)}"
        text = f"Your branch conflicts with {self.branch} in {paths}. Merge {self.branch} into your branch and keep what both sides are for.\n{both}"
        return self._author.give_back(assignment, "conflict", text)

    def _is_taken(self, assignment: Entity) -> bool:
        """Return True where another assignment is being integrated, or has been waiting for longer."""
        for other in self._at.assignments():
            if other.item_id == assignment.item_id:
                continue
            value = shape(other)  # also of one that has ended: its check may still run in the queue's worktree
            if value.runs and value.runs[-1].purpose == "queue" and not value.runs[-1].ended:
                return True
        return False

    # -- what nobody else should have changed -----------------------------------------------------------------------------

    def is_held(self, tip: str) -> bool:
        """Return True while a person has to look at something before the queue goes on. Asks where nobody was asked yet."""
        for question in linked(self._at.journal, "question", "dispatch", self._at.dispatch_id):
            if question.value.get("assignment", "") == "" and question.value.get("state") == "open":
                return True
        if not tip:
            self._ask(f"The branch {self.branch} is gone. Make it again: git branch {self.branch} {self._last()}")
            return True
        now = self._at.repository.marks()
        found = self.found_changes(tip, now)
        if not found:
            return False
        if self._is_answered(found):
            self._write_marks(now)
            return False
        self._ask("; ".join(found), found)
        return True

    def _last(self) -> str:
        """Return the commit at which the branch was left."""
        merged = [
            str(one.value.get("merged", "")) for one in self._at.assignments() if one.value.get("state") == "integrated"
        ]
        return next((one for one in reversed(merged) if one), self._at.order.base)

    def changed_beside(self) -> list[str]:
        """Return what was changed beside the work until now."""
        return self.found_changes(self._at.repository.tip(self.branch), self._at.repository.marks())

    def found_changes(self, tip: str, now: Marks) -> list[str]:
        """Return what was changed in git beside the work: settings, hooks, replacements, history of the target, commits of
        agents on it, the branch of this queue. New commits, branches and tags of others are no reason to wait.
        """
        before = self._marks()
        if before is None:
            self._write_marks(now)
            return []
        others = {name: commit for name, commit in now.refs.items() if not name.startswith(_REPLACED)}
        replaced = {name: commit for name, commit in before.refs.items() if name.startswith(_REPLACED)}
        found = self._at.repository.tampered(before._replace(refs={**others, **replaced}, head=now.head))
        target = f"refs/heads/{self._at.order.target}"
        old, new = before.refs.get(target, ""), now.refs.get(target, "")
        if old and old != new and not (new and self._at.repository.merge_base(old, new) == old):
            found.append(f"{self._at.order.target} no longer has the commit {old[:12]}")
        elif old and new and old != new:
            found += self._agents_commits(old, new, tip)
        known = {self._at.order.base, *(str(one.value.get("merged", "")) for one in self._at.assignments())}
        if self.branch != self._at.order.target and tip and tip not in known:
            found.append(f"{self.branch} was moved to {tip[:12]} by somebody else than the merge queue")
        return found

    def begin(self) -> None:
        """Take git's settings for the right ones where nothing has been done yet."""
        if self._marks() is None:
            self.accept()

    def accept(self) -> None:
        """Take git's settings as they are now for the right ones."""
        self._write_marks(self._at.repository.marks())

    def _agents_commits(self, old: str, new: str, tip: str) -> list[str]:
        """Return a sentence where commits of agents came upon the target by others than this queue."""
        target = self._at.order.target
        apart = () if self.branch == target else (tip,)
        found = self._at.repository.committers(new, (old, *apart))
        own = {str(one.value.get("branch", "")) for one in self._at.assignments()}
        tips = {commit for name, commit in self._at.repository.branches(BRANCH_PREFIX).items() if name in own}
        merged = {str(one.value.get("merged", "")) for one in self._at.assignments()}
        if self.branch == target and new in merged:
            return []  # moved by this queue, and killed before it noted that
        of_agents = [commit for commit, name in found.items() if name.endswith(AGENT_MARK) or commit in tips]
        return (
            [f"{target} has commits of agents that this queue did not merge, such as {of_agents[0][:12]}"]
            if of_agents
            else []
        )

    def _note_move(self, merged: str) -> None:
        """Take the move of the branch for right, and nothing else that changed meanwhile."""
        before, ref = self._marks(), f"refs/heads/{self.branch}"
        if before is not None and ref in before.refs:
            self._write_marks(before._replace(refs={**before.refs, ref: merged}))

    def _write_marks(self, marks: Marks) -> None:
        data = msgspec.json.encode(marks._asdict())
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
