"""``Project.work``: who works on what, so that agents do not get in each other's way.

All of it concerns one project and one writer; the package ``memory`` does the work.
"""

from __future__ import annotations

__all__ = ["ProjectWork"]

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import refuse_text

if TYPE_CHECKING:
    from periplus.journal import Entity
    from periplus.memory.coordination.claimed_symbols import ClaimedSymbols
    from periplus.memory.coordination.claims import Acquired, Asked
    from periplus.memory.coordination.handoffs import NewHandoff
    from periplus.memory.coordination.path_check import Checked
    from periplus.memory.coordination.plans import Made, NewStep, Taken
    from periplus.memory.coordination.sessions import NewSession, Present
    from periplus.memory.coordination.stuck_work import Idle
    from periplus.memory.writing.lifecycle import Changed
    from periplus.project.knowledge.dispatched_work import DispatchedWork
    from periplus.project.store import ProjectStore


class ProjectWork:
    """``project.work``."""

    def __init__(self, project: ProjectStore) -> None:
        self._project = project
        self._journal = project.journal

    @property
    def top(self) -> str:
        """The top of the worktree that the project was opened for work in, or the project's folder."""
        return self._project.top

    def path(self, path: str, *, cwd: str = "") -> str:
        """Return a path as the project names it: from its folder. Raises UsageError for one that lies outside of it."""
        return self._project.path(path, cwd=cwd)

    def scope(self, word: str, *, cwd: str = "") -> str:
        """Return a scope that people type in the folder ``cwd``, from the project's folder. An existing file of that
        very name is meant, whatever its characters mean in a glob. Raises UsageError.
        """
        from periplus.memory.scopes import escaped, parse_scope

        head, colon, symbol = word.rpartition(":")
        start = self._project.folder_for(cwd)
        if not word or "\0" in word:
            return word  # refused where scopes are read
        if os.path.lexists(os.path.join(start, word)):
            is_folder = os.path.isdir(os.path.join(start, word))
            scope = escaped(self.path(word, cwd=cwd))
            return parse_scope(f"{scope}/").text if is_folder else scope
        if head and os.path.isfile(os.path.join(start, head)):
            return f"{escaped(self.path(head, cwd=cwd))}{colon}{symbol}"
        inside, before = self.path(word, cwd=cwd), self.path(".", cwd=cwd)
        if before != "." and inside.startswith(f"{before}/"):
            return escaped(before) + inside[len(before) :]
        return inside

    def _up_to_date(self) -> None:
        """Read what others wrote, and what git or a person changed in the files."""
        self._project.look_if_due()
        self._journal.refresh()

    # -- claims -------------------------------------------------------------------------------------------------------

    def claim(
        self, asked: Asked, *, wait_s: float = 0, wait: Callable[[float], bool] | None = None, key: str = ""
    ) -> Acquired:
        """Claim scopes, waiting up to ``wait_s`` seconds for their holders. Raises ClaimedError."""
        refuse_text(scopes=asked.scopes)
        from periplus.memory.coordination.claims import acquire

        if wait_s > 0 and wait is not None:
            from periplus.memory.coordination.claim_queue import wait_for

            return wait_for(self._journal, self._project.writer, asked, wait_s=wait_s, wait=wait, key=key)
        return acquire(self._journal, self._project.writer, asked, key=key)

    def claims(self) -> list[Entity]:
        """Return the claims that hold now, the oldest first."""
        from periplus.memory.claim_status import live_claims

        self._journal.refresh()
        found = live_claims(self._journal, self._journal.clock.now_ms())
        return sorted(found, key=lambda claim: (str(claim.value.get("created")), claim.item_id))

    def claimed_symbols(self) -> ClaimedSymbols:
        """Return the symbols that claims name, as they stand in the worktree that is worked in."""
        from periplus.memory.coordination.claimed_symbols import ClaimedSymbols
        from periplus.project.knowledge.code import parse_of

        return ClaimedSymbols(self.top, parse_of(self._project))

    def waiting(self) -> list[Entity]:
        """Return the claims that somebody waits for now, in the order of the queue."""
        from periplus.memory.claim_status import waiting_claims

        self._journal.refresh()
        return waiting_claims(self._journal, self._journal.clock.now_ms())

    def is_own(self, claim: Entity) -> bool:
        """Return True where a claim is this writer's."""
        from periplus.memory.claim_status import holds

        return holds(self._project.writer, claim)

    def release(
        self, references: Sequence[str] = (), *, force: bool = False, reason: str = "", key: str = ""
    ) -> Changed:
        """Release claims by id; without ids all claims of the writer."""
        refuse_text(references=references)
        from periplus.memory.coordination.claims import release

        return release(self._journal, self._project.writer, references, force=force, reason=reason, key=key)

    def check(self, paths: Sequence[str]) -> Checked:
        """Return the claims on paths of the project, or on symbols (FILE:SYMBOL), and the constraints and traps about
        them.
        """
        refuse_text(paths=paths)
        from periplus.memory.coordination.path_check import check_paths

        top = self.top
        folders = frozenset(path for path in paths if os.path.isdir(os.path.join(top, path)))
        files = {
            path: head
            for path in paths
            if (head := path.partition(":")[0]) != path
            and not os.path.lexists(os.path.join(top, path)) and os.path.isfile(os.path.join(top, head))
        }  # fmt: skip
        return check_paths(self._journal, self._project.writer, paths, folders, root=top, files=files)

    def check_written(self, paths: Sequence[str]) -> Checked:
        """Return the claims on what a command would write: paths of the project, or shell patterns."""
        refuse_text(paths=paths)
        from periplus.memory.coordination.path_check import check_written

        return check_written(self._journal, self._project.writer, paths, root=self.top)

    # -- plans --------------------------------------------------------------------------------------------------------

    def make_plan(
        self, text: str, steps: Sequence[NewStep] = (), *, rationale: str = "", priority: int = 50, after: Sequence[str] = (),
        tags: Sequence[str] = (), key: str = "",
    ) -> Made:  # fmt: skip
        """Write a plan with its steps, all or nothing. Raises UsageError for steps that would wait for each other."""
        refuse_text(steps=steps, after=after, tags=tags)
        from periplus.memory.coordination.plans import make_plan

        self._up_to_date()
        return make_plan(
            self._journal, self._project.writer, text, steps, rationale=rationale, priority=priority, after=after, tags=tags,
            key=key,
        )  # fmt: skip

    def add_steps(self, plan: str, steps: Sequence[NewStep], *, key: str = "") -> Made:
        """Write more steps of a plan. Raises NotFoundError, UsageError, RefusedError for a closed plan."""
        from periplus.memory.coordination.plans import add_steps

        self._up_to_date()
        return add_steps(self._journal, self._project.writer, plan, steps, key=key)

    def plans(self) -> list[tuple[Entity, list[Entity]]]:
        """Return the open plans with their steps, the most urgent first."""
        from periplus.memory.coordination.plans import open_plans, steps_of

        self._project.look_to_answer()
        return [(plan, steps_of(self._journal, plan.item_id)) for plan in open_plans(self._journal)]

    def plan(self, reference: str) -> tuple[Entity, list[Entity]]:
        """Return a plan, open or not, with its steps. Raises NotFoundError."""
        from periplus.base.errors import NotFoundError
        from periplus.memory.coordination.plans import steps_of

        self._up_to_date()
        found = self._journal.find(reference)
        if found.item_type != "plan":
            raise NotFoundError(f"{found.item_id} is a {found.item_type}, not a plan", mend="See `periplus plan list`.")
        return found, steps_of(self._journal, found.item_id)

    def ready(self, plan: str = "") -> list[Entity]:
        """Return the steps that can be started now, the most urgent first."""
        from periplus.memory.coordination.plans import ready_steps

        self._project.look_to_answer()
        return ready_steps(self._journal, plan)

    def idle(self, plan: str = "") -> Idle:
        """Return why nothing can be started, of ``plan`` or at all. Raises NotFoundError."""
        from periplus.memory.coordination.stuck_work import idle_work

        return idle_work(self._journal, self.plan(plan)[0].item_id if plan else "")

    def waits_for(self, step: Entity) -> list[str]:
        """Return the ids of unfinished work that a step depends on."""
        from periplus.memory.coordination.plans import waits_for

        return waits_for(self._journal, step)

    def take(self, *, plan: str = "", step: str = "", ttl_s: int = 7200, key: str = "") -> Taken | None:
        """Take the next ready step, or one by its id, with a claim for it; None where nothing is ready."""
        from periplus.memory.coordination.plans import take_step

        self._up_to_date()
        return take_step(self._journal, self._project.writer, plan=plan, step=step, ttl_s=ttl_s, key=key)

    # -- handoffs, mail, sessions ---------------------------------------------------------------------------------------

    def hand_off(self, new: NewHandoff, *, corrects: str = "", key: str = "", key_ms: int | None = None) -> Entity:
        """Hand off the state of work; ``corrects`` is the handoff that this one replaces. ``key_ms``: as for
        ``Journal.mutate``.
        """
        refuse_text(files=new.files, unfinished=new.unfinished)
        from periplus.memory.coordination.handoffs import write_handoff

        self._up_to_date()
        return write_handoff(self._journal, self._project.writer, new, corrects=corrects, key=key, key_ms=key_ms)

    def accept_handoff(self, reference: str, *, key: str = "", force: bool = False) -> Entity:
        """Take over the work of a handoff; with ``force`` also one for somebody else. Raises NotFoundError,
        ConflictError, RefusedError.
        """
        from periplus.memory.coordination.handoffs import accept_handoff

        return accept_handoff(self._journal, self._project.writer, reference, key=key, force=force)

    def handoffs(self, *, with_closed: bool = False, recipient: str = "") -> list[Entity]:
        """Return handoffs, newest first."""
        from periplus.memory.coordination.handoffs import handoffs

        return handoffs(self._journal, with_closed=with_closed, recipient=recipient)

    def send(self, recipient: str, text: str, *, ref: str = "", needs_answer: bool = False, key: str = "") -> Entity:
        """Leave a message for ``recipient``, a name."""
        from periplus.memory.coordination.mail import send

        return send(self._journal, self._project.writer, recipient, text, ref=ref, needs_answer=needs_answer, key=key)

    def meant_by(self, name: str) -> str:
        """Return a known name nearly equal to ``name``, where ``name`` itself is unknown; else empty."""
        from periplus.memory.coordination.mail import meant_by

        return meant_by(self._journal, name)

    def answer(self, reference: str, text: str, *, key: str = "") -> Entity:
        """Answer a message, in its thread."""
        from periplus.memory.coordination.mail import answer

        return answer(self._journal, self._project.writer, reference, text, key=key)

    def mail(self, *, with_read: bool = False) -> list[Entity]:
        """Return the writer's mail that is unread or waits for an answer, oldest first."""
        from periplus.memory.coordination.mail import mail

        return mail(self._journal, self._project.writer.name, with_read=with_read)

    def read_mail(self, references: Sequence[str], *, key: str = "") -> Changed:
        """Note that messages were read."""
        refuse_text(references=references)
        from periplus.memory.coordination.mail import mark_read

        return mark_read(self._journal, self._project.writer, references, key=key)

    def thread(self, reference: str) -> list[Entity]:
        """Return all messages of a thread, the oldest first."""
        from periplus.memory.coordination.mail import thread_of

        return thread_of(self._journal, reference)

    def begin_session(self, new: NewSession, *, key: str = "") -> Entity:
        """Begin a session, or continue it."""
        from periplus.memory.coordination.sessions import begin_session

        return begin_session(self._journal, self._project.writer, new, key=key)

    def seen(self) -> bool:
        """Note a sign of life of the writer; see ``memory.coordination.sessions``."""
        from periplus.memory.coordination.sessions import seen

        return seen(self._journal, self._project.writer)

    def seal_session(self, name: str = "", *, key: str = "") -> Entity:
        """End a session, the writer's own by default; its claims are released."""
        from periplus.memory.coordination.sessions import seal_session

        return seal_session(self._journal, self._project.writer, name, key=key)

    def who(self) -> list[Present]:
        """Return who works here now, and on what."""
        from periplus.memory.coordination.sessions import who

        return who(self._journal)

    @property
    def dispatched(self) -> DispatchedWork:
        """The work of several agents at once."""
        from periplus.project.knowledge.dispatched_work import DispatchedWork

        return DispatchedWork(self._project)

    # -- any entity ---------------------------------------------------------------------------------------------------

    def set_fields(
        self, reference: str, fields: Mapping[str, JSONValue], *, expect: str = "", key: str = ""
    ) -> Changed:
        """Set fields of an entity; None removes one. Raises UsageError for a field that cannot be set, ConflictError
        by ``expect``.
        """
        self._up_to_date()
        root = self.top
        from periplus.memory.writing.lifecycle import update

        return update(self._journal, self._project.writer, reference, fields, expect=expect, root=root, key=key)

    def change_state(
        self, references: Sequence[str], state: str, *, reason: str = "", force: bool = False, key: str = ""
    ) -> Changed:
        """Bring entities into a state; ``force`` also for work that somebody else has claimed."""
        refuse_text(references=references)
        self._up_to_date()
        from periplus.memory.writing.lifecycle import change_state

        return change_state(
            self._journal, self._project.writer, references, state, reason=reason, force=force, key=key
        )  # fmt: skip

    def evolve(
        self, reference: str, text: str, fields: Mapping[str, JSONValue] | None = None, *, key: str = ""
    ) -> Changed:
        """Write a new text in place of an entity, which it supersedes. See ``memory.writing.lifecycle``."""
        from periplus.project.knowledge.grounds import ground_of

        self._up_to_date()
        from periplus.memory.writing.lifecycle import evolve

        return evolve(
            self._journal, self._project.writer, reference, text, fields, ground=ground_of(self._project), key=key
        )

    def merge(
        self, references: Sequence[str], text: str, fields: Mapping[str, JSONValue] | None = None, *, key: str = ""
    ) -> Changed:
        """Write one entity in place of several of one type."""
        from periplus.project.knowledge.grounds import ground_of

        refuse_text(references=references)
        self._up_to_date()
        from periplus.memory.writing.lifecycle import merge

        return merge(
            self._journal, self._project.writer, references, text, fields, ground=ground_of(self._project), key=key
        )

    def split(self, reference: str, texts: Sequence[str], *, key: str = "") -> Changed:
        """Write several entities in place of one."""
        from periplus.project.knowledge.grounds import ground_of

        refuse_text(texts=texts)
        self._up_to_date()
        from periplus.memory.writing.lifecycle import split

        return split(self._journal, self._project.writer, reference, texts, ground=ground_of(self._project), key=key)

    def link(self, reference: str, kind: str, target: str, *, key: str = "") -> Changed:
        """Add a relation from an entity to another."""
        self._up_to_date()
        from periplus.memory.writing.lifecycle import link

        return link(self._journal, self._project.writer, reference, kind, target, key=key)
