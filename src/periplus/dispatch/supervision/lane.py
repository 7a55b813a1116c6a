"""The way of one assignment, act by act.

Each state has one method. It looks at what is so (records, run folder, git) and does the next act, which ends with one change of
records. So whoever comes after a killed supervisor calls the same method on the same facts: an act whose record is missing is done
again, and every act may be done again. The order inside an act is: first what can be repeated (import, commit, merge), then the record.

    offered    the worktree is made; the setup, then the agent is started        → running
    running    the job is followed; its end is judged by evidence                → submitted, waiting, failed, timed out
    waiting    a person's answer goes to the agent                               → running
    submitted  the oracle is run in the worktree                                 → verified, or back to the author: running
    verified   a reviewer reads the diff                                         → reviewed, or back to the author: running
    reviewed   the merge queue takes it (``merge_queue``)                        → integrated, or back to the author: running
"""

from __future__ import annotations

__all__ = ["Lane"]

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import RefusedError, SecretFoundError, UsageError
from periplus.dispatch.handover.result_file import read_result
from periplus.dispatch.supervision.checkout_watch import CheckoutWatch
from periplus.dispatch.supervision.jobs import Jobs
from periplus.dispatch.supervision.kept_results import keep_result
from periplus.dispatch.supervision.life_signs import DiskUse, LifeSigns
from periplus.dispatch.supervision.merge_queue import MergeQueue
from periplus.dispatch.supervision.preparation import placed_paths, prepare
from periplus.dispatch.supervision.submission import CUT, Evidence, judged
from periplus.dispatch.supervision.texts import commit_message, plain
from periplus.dispatch.supervision.usage import Usage
from periplus.dispatch.supervision.workplace import Fields, Workplace, shape
from periplus.memory.coordination.dispatches import NewQuestion
from periplus.memory.fulltext.links import linked

if TYPE_CHECKING:
    from periplus.dispatch.processes import Ended, RunFolder
    from periplus.journal import Entity
    from periplus.memory.entities.schemas import Assignment, Attempt
    from periplus.memory.scopes import Scope

TAIL_BYTES: Final = 6_000
REMARKS_MAX: Final = 50
_NO_ROUND: Final = frozenset({"answer", "attempt"})
_OF_AGENTS: Final = frozenset({"work", "review"})
CUTS_MAX: Final = 5  # a job that is cut short again and again is given up
KILL_S: Final = 15.0  # after a polite request to stop


class Lane:
    """Acts on the assignments of one dispatch; what it knows of their jobs can be lost without harm."""

    def __init__(self, workplace: Workplace) -> None:
        self._at = workplace
        self.jobs = Jobs(workplace)
        self.queue = MergeQueue(workplace, self)
        self.checkout = CheckoutWatch(workplace)
        self._signs: dict[str, LifeSigns] = {}
        self._usage: dict[str, Usage] = {}
        self._disks: dict[str, DiskUse] = {}
        self._stops: dict[str, tuple[str, float]] = {}  # why a job was asked to stop, and when
        self._ways: dict[str, Callable[[Entity], Entity | None]] = {
            "offered": self._offered, "running": self._running, "waiting": self._waiting, "submitted": self._submitted,
            "verified": self._verified, "reviewed": self.queue.advance,
        }  # fmt: skip

    def advance(self, assignment: Entity) -> bool:
        """Do the next act of an assignment at work; return True where something was written."""
        way = self._ways.get(str(assignment.value.get("state")))
        if way is None:
            return False
        try:
            return way(assignment) is not None
        except (UsageError, SecretFoundError) as error:
            self.fail(assignment, f"{error}. {error.mend}")
            return True

    def usage_of(self, run_id: str) -> Usage | None:
        """Return what a job has spent until now, as its output tells."""
        return self._usage.get(run_id)

    # -- offered, running -----------------------------------------------------------------------------------------------

    def _offered(self, assignment: Entity) -> Entity:
        value = shape(assignment)
        remarks = prepare(self._at, value, self.jobs.adapter(value.agent))
        if remarks and not set(remarks) <= set(value.remarks):
            assignment = self._at.change(assignment, {"remarks": [*dict.fromkeys((*value.remarks, *remarks))]})
        is_set_up = any(run.purpose == "setup" and run.ending == "exited" for run in value.runs)
        if self._at.order.setup and not is_set_up:
            return self._at.begin_run(assignment, "setup", "supervisor", state="running")
        return self.begin_work(assignment)

    def begin_work(self, assignment: Entity, fields: Fields | None = None) -> Entity:
        """Let the author of an assignment work, in the session it had where it can go on with that."""
        value = shape(assignment, fields)
        session = self.jobs.session_for(value, value.agent, "work")
        return self._at.begin_run(assignment, "work", value.agent, fields, state="running", session=session)

    def _running(self, assignment: Entity) -> Entity | None:
        value = shape(assignment)
        run = value.runs[-1]
        ended = self.follow(assignment)
        if ended is None:
            return None
        if run.purpose == "setup":
            return self._set_up(assignment, ended)
        return self._judge(assignment, value, run, ended)

    def follow(self, assignment: Entity) -> tuple[str, Ended | None] | None:
        """Start the present job where it was not, follow it, and return how it ended; None while it runs."""
        value = shape(assignment)
        run = value.runs[-1]
        folder = self._at.run_folder(run.id)
        standing = folder.standing()
        if standing == "absent":
            self.jobs.start(assignment)
            return None
        if standing == "starting":
            return None
        usage = self._read_output(value, run, folder)
        if standing in ("ended", "lost"):
            ended = folder.ended()
            usage.read_rest(folder)
            stopped = self._stops.pop(run.id, ("", 0.0))[0]
            ending = stopped or (ended.ending if ended is not None else "lost")
            self._signs.pop(run.id, None)
            return ending, ended
        self._limit(value, run, folder, usage)
        if run.purpose in ("work", "review") and usage.follow(self._at, run, self.jobs.folder_of(value, run)):
            runs: list[JSONValue] = msgspec.to_builtins(
                [*value.runs[:-1], msgspec.structs.replace(run, trail=usage.live_trail)]
            )
            self._at.change(assignment, {"runs": runs})
        return None

    def _read_output(self, value: Assignment, run: Attempt, folder: RunFolder) -> Usage:
        usage = self._usage.get(run.id)
        if usage is None:
            adapter = self._at.options.adapters.get(run.agent) if run.purpose in ("work", "review") else None
            before = [one for one in value.runs if one.id != run.id and one.session and one.session == run.session]
            usage = self._usage[run.id] = Usage(adapter, before)
        usage.read(folder)
        return usage

    def _limit(self, value: Assignment, run: Attempt, folder: RunFolder, usage: Usage) -> None:
        """Stop a job that is silent, or that spends more than the dispatch may; the keeper itself holds the limit of time."""
        now_s, limits = time.monotonic(), self._at.order.limits
        if run.id in self._stops:
            self.stop(run.id, self._stops[run.id][0])
            return
        signs = self._signs.setdefault(run.id, LifeSigns(now_s))
        signs.note(folder.life(), now_s)
        is_agent = run.purpose in _OF_AGENTS  # checks cost nothing, and have a limit of time alone
        if is_agent and signs.is_silent(now_s, limits.silence_s, lambda: self._searched(value, run, usage)):
            self.stop(run.id, "silence")
        if is_agent and self.is_spent():
            self.stop(run.id, "limit")
        if self._disks.setdefault(value.worktree, DiskUse(self._at.worktree(value))).is_over(limits.disk_bytes):
            self.stop(run.id, "disk")
        wall_s = limits.wall_s if is_agent else limits.oracle_s
        if folder.standing() == "orphaned" and wall_s and signs.watched_s(now_s) > wall_s:  # no keeper sees to it
            self.stop(run.id, "wall")

    def _searched(self, value: Assignment, run: Attempt, usage: Usage) -> tuple[str, ...]:
        """Return the places whose files an agent changes while it works: its worktree, and what it keeps of its session."""
        folder = self.jobs.folder_of(value, run)
        return (folder, *usage.files(run.session, folder, self._at.options.environment))

    def is_spent(self) -> bool:
        """Return True where the tokens or the money of the dispatch are spent, running work included."""
        limits = self._at.order.limits
        if not limits.tokens and not limits.cents:
            return False
        values = [shape(one) for one in self._at.assignments()]
        tokens = sum(one.tokens_in + one.cached + one.out for one in values)
        cost = sum(one.cost for one in values)
        for one in values:
            usage = self._usage.get(one.run) if one.run and not one.runs[-1].ended else None
            if usage is not None:
                tokens += usage.spent.tokens_in + usage.spent.cached + usage.spent.out
                cost += usage.spent.cost_millionths
        return bool((limits.tokens and tokens >= limits.tokens) or (limits.cents and cost >= limits.cents * 10_000))

    def stop(self, run_id: str, why: str) -> bool:
        """Ask a job to stop, and make it stop where it does not; return True once it has ended."""
        folder = self._at.run_folder(run_id)
        if folder.standing() not in ("running", "orphaned", "starting"):
            return True
        now_s = time.monotonic()
        _, asked_s = self._stops.setdefault(run_id, (why, now_s))
        if asked_s == now_s:
            folder.ask_to_stop()
        elif now_s - asked_s > KILL_S:
            folder.kill()
        return False

    def _set_up(self, assignment: Entity, how: tuple[str, Ended | None]) -> Entity:
        ending, ended = how
        is_done = ended is not None and ended.code == 0 and ending == "exited"
        run = self._at.end_run(
            assignment,
            ending=ending if is_done or ending in CUT else f"failed: {ending}",
            wall_ms=ended.wall_ms if ended is not None else 0,
        )
        if is_done:
            return self.begin_work(assignment, run)
        if self.is_cut(shape(assignment), ending):
            return self._at.begin_run(assignment, "setup", "supervisor", run)
        tail = self.tail(shape(assignment).run)
        problem = ended.problem if ended is not None else ""
        return self._at.change(
            assignment, run, state="failed", reason=plain(f"the setup failed: {tail} {problem}".strip())
        )

    @staticmethod
    def is_cut(value: Assignment, ending: str) -> bool:
        """Return True where the present job ended by no fault of its own, so that it is done again; not without end."""
        purpose = value.runs[-1].purpose
        return ending in CUT and sum(run.purpose == purpose and run.ending in CUT for run in value.runs) < CUTS_MAX

    # -- the end of a run -----------------------------------------------------------------------------------------------

    def _judge(self, assignment: Entity, value: Assignment, run: Attempt, how: tuple[str, Ended | None]) -> Entity:
        moved = self._brought_back(value)
        changed = self._judged(assignment, value, run, how, moved)
        self.checkout.accept()  # it is told now
        return changed

    def _brought_back(self, value: Assignment) -> list[str]:
        """Bring a branch back that was deleted, or that another worker moved to its own work; return what is to be told of that."""
        repository, path = self._at.repository, self._at.worktree(value)
        try:
            last, tip = repository.log_end(path), repository.tip(value.branch)
        except RefusedError:
            return []
        if not last or last == tip:
            return []
        if not tip and repository.bring_back(path, last, ""):
            return [f"its branch was deleted, and made again at {last[:12]}"]
        others = [str(one.value.get("branch", "")) for one in self._at.assignments()]
        tips = [repository.tip(name) for name in others if name != value.branch]
        is_of_another = any(other and repository.merge_base(tip, other) == tip for other in tips)
        if is_of_another and repository.bring_back(path, last, tip):
            return [
                f"its branch was moved from outside to work of another, {tip[:12]}, and brought back to {last[:12]}"
            ]
        return [f"its branch was moved from outside of its worktree, from {last[:12]} to {tip[:12]}"]

    def _judged(
        self, assignment: Entity, value: Assignment, run: Attempt, how: tuple[str, Ended | None], moved: list[str]
    ) -> Entity:
        ending, ended = how
        evidence = self._evidence(value, run, ending, ended)
        judgement = judged(evidence)
        fields = self._ended(assignment, value, run, ending, ended)
        result = evidence.handed_in.result
        tip = self._at.repository.tip(value.branch)
        remarks: list[JSONValue] = []
        remarks += dict.fromkeys((*value.remarks, *moved, *self._remarks(value, run, evidence), *self._beside(ended)))
        fields = {**fields, "tip": tip, "remarks": remarks[:REMARKS_MAX]}
        text = plain(judgement.text)
        if judgement.outcome == "cut" and self.is_cut(value, ending):
            returned: JSONValue = {"why": "attempt", "text": text, "at": self._at.now()}
            return self.begin_work(assignment, {**fields, "returns": [*msgspec.to_builtins(value.returns), returned]})
        if judgement.outcome == "question":
            assert result is not None
            question = NewQuestion(text, self._at.dispatch_id, assignment.item_id, self._at.holder(value.step, run.agent).name,
                                   tuple(plain(one) for one in result.options[:10]))  # fmt: skip
            return self._at.change(assignment, fields, state="waiting", question=question)
        if judgement.outcome == "returned":
            return self.give_back(assignment, "claim" if evidence.blocked else "result", text, fields)
        if judgement.outcome == "submitted":
            if result is not None:
                fields |= keep_result(self._at, value, result, remarks)
                fields["remarks"] = remarks[:REMARKS_MAX]
            return self._at.change(assignment, fields, state="submitted")
        state = "timed_out" if judgement.outcome == "timed_out" else "failed"
        return self._at.change(assignment, fields, state=state, reason=text)

    def _evidence(self, value: Assignment, run: Attempt, ending: str, ended: Ended | None) -> Evidence:
        """Look at what a run left; uncommitted work is committed for it."""
        repository, worktree = self._at.repository, self._at.worktree(value)
        order = self._at.order
        handed_in = read_result(worktree, run.id, order.answer)
        adapter = self.jobs.adapter(run.agent)
        usage = self._usage[run.id]
        secrets: tuple[str, ...] = ()
        unfit = ""
        if os.path.isdir(worktree) and not order.read_only:
            holder = self._at.holder(value.step, run.agent)
            author = (f"{holder.name} (periplus)", self._at.email)
            placed = placed_paths(self._at, worktree, adapter)
            try:
                repository.commit_rest(
                    worktree, commit_message(value, Run=run.id, Uncommitted="committed for the agent"), author, placed
                )
                repository.without_placed(worktree, value.base, placed, author)
            except SecretFoundError as error:
                secrets = (str(error),)
            except RefusedError as error:
                unfit = f"The work cannot be taken as it is: {error}. {error.mend}".strip()
        tip = repository.tip(value.branch)
        if not tip:
            unfit = unfit or f"The branch {value.branch} was deleted. Make it again at its last commit."
        changes = repository.changes(self._at.base_of(value, tip), tip or value.base)
        if order.read_only and changes.commits:
            unfit = f"You were to change nothing, and {value.branch} has commits. Take them back: git reset --hard {value.base}"
        self._at.make_durable()
        secrets += tuple(f"{one.path} ({one.kind})" for one in changes.secrets)
        return Evidence(
            handed_in, changes.commits, changes.paths, ending, ended.code if ended is not None else None,
            plain(usage.last_words or self.tail(run.id), 400), secrets, self._blocked(value, changes.paths), usage.spent.tokens_in,
            unfit,
        )  # fmt: skip

    def _blocked(self, value: Assignment, paths: tuple[str, ...]) -> tuple[str, ...]:
        """Return the changed paths that others have claimed for themselves."""
        from periplus.memory.coordination.claims import in_the_way

        holder, now_ms = self._at.holder(value.step, value.agent), self._at.journal.clock.now_ms()
        scopes = [scope for path in paths[:2_000] if (scope := _scope_of(path)) is not None]
        found = in_the_way(self._at.journal, holder, scopes, "exclusive", now_ms)
        return tuple(f"{one.ours} is claimed by {one.claim.value.get('holder')} [{one.claim.item_id}]" for one in found)

    def _ended(
        self, assignment: Entity, value: Assignment, run: Attempt, ending: str, ended: Ended | None
    ) -> dict[str, JSONValue]:
        """Return the fields for a run of an agent that has ended: what it spent, and its trail."""
        usage = self._usage[run.id]
        usage.close()
        trail = usage.trail(
            self._at, value, run, self.jobs.folder_of(value, run), code=ended.code if ended is not None else None
        )
        spent = trail.spent if trail is not None else usage.spent
        return self._at.end_run(
            assignment, ending=ending, session=usage.session_of(run), trail=trail.id if trail is not None else "",
            tokens_in=spent.tokens_in, cached=spent.cached, out=spent.out, cost=spent.cost_millionths,
            wall_ms=ended.wall_ms if ended is not None else 0,
        )  # fmt: skip

    def _remarks(self, value: Assignment, run: Attempt, evidence: Evidence) -> list[str]:
        found = []
        result = evidence.handed_in.result
        if evidence.handed_in.refusal not in ("", "absent"):
            found.append(evidence.handed_in.problem)
        if result is None and evidence.commits:
            found.append(f"run {value.attempt}: no result was handed in; its commits stand for it")
        explained = self.jobs.adapter(run.agent).explanation(self._usage[run.id].reading, evidence.code)
        if explained.wants:
            found.append(f"{run.agent} needs a person: {explained.text}")
        return [plain(one, 300) for one in found]

    def _beside(self, ended: Ended | None) -> list[str]:
        """Return what happened beside the work of a run: processes left behind, changes in git and in the person's checkout."""
        found = [f"while it worked: {one}" for one in self.queue.changed_beside()]
        found.append(self.checkout.changed())
        if ended is not None and ended.left_behind:
            found.append(f"{ended.left_behind} processes that it left behind were stopped")
        if ended is not None and ended.problem:
            found.append(ended.problem)
        return [plain(one, 500) for one in found if one]

    # -- returns --------------------------------------------------------------------------------------------------------

    def give_back(self, assignment: Entity, why: str, text: str, fields: Fields | None = None) -> Entity:
        """Give submitted work back to its author, with the reason; after the last round it has failed."""
        value = shape(assignment)
        rounds = self._at.order.limits.rounds
        if sum(one.why not in _NO_ROUND for one in value.returns) >= rounds * value.attempt:
            return self.fail(assignment, f"after {rounds} rounds: {text}", fields)
        returned: JSONValue = {"why": why, "text": plain(text), "at": self._at.now()}
        returns = [*msgspec.to_builtins(value.returns), returned]
        return self.begin_work(assignment, {**(fields or {}), "returns": returns, "verified": ""})

    def wind_up(self, assignment: Entity) -> bool:
        """Stop the job of an assignment that has ended, and note what it spent; its work stays where it is. Return True once that
        is written.
        """
        value = shape(assignment)
        if not value.run or not value.runs or value.runs[-1].ended:
            return False
        run = value.runs[-1]
        if not self.stop(run.id, "stopped"):
            return False
        folder = self._at.run_folder(run.id)
        ended = folder.ended()
        ending = ended.ending if ended is not None and run.id not in self._stops else "stopped"
        self._stops.pop(run.id, None)
        has_begun = folder.standing() != "absent"
        if has_begun and run.purpose in _OF_AGENTS and run.agent in self._at.options.adapters:
            self._read_output(value, run, folder).read_rest(folder)
            fields = self._ended(assignment, value, run, ending, ended)
        else:
            fields = self._at.end_run(assignment, ending=ending, wall_ms=ended.wall_ms if ended is not None else 0)
        self._at.change(assignment, fields)
        return True

    def fail(self, assignment: Entity, reason: str, fields: Fields | None = None) -> Entity:
        return self._at.change(self._at.again(assignment), fields, state="failed", reason=plain(reason))

    def _waiting(self, assignment: Entity) -> Entity | None:
        value = shape(assignment)
        questions = linked(self._at.journal, "question", "assignment", assignment.item_id)
        if not questions:
            return self.fail(assignment, "it waits for an answer, and there is no question")
        is_open = [one for one in questions if one.value.get("state") == "open"]
        if any(str(one.value.get("expires", "")) >= self._at.now() for one in is_open):
            return None
        # Not by their times alone: the clock may have been set back between two questions.
        heard = {one.text for one in value.returns if one.why == "answer"}
        answers = [
            (_answer_text(one) not in heard, str(one.value.get("created")), one.item_id, _answer_text(one))
            for one in questions
            if one.value.get("state") == "answered"
        ]
        if is_open or not answers:
            return self._at.change(assignment, state="timed_out", reason="nobody answered its question")
        answer: JSONValue = {"why": "answer", "text": max(answers)[-1], "at": self._at.now()}
        return self.begin_work(assignment, {"returns": [*msgspec.to_builtins(value.returns), answer]})

    # -- checks ---------------------------------------------------------------------------------------------------------

    def _submitted(self, assignment: Entity) -> Entity | None:
        value = shape(assignment)
        if not self._at.order.oracle or self._at.order.read_only:
            return self._at.change(assignment, {"verified": value.tip}, state="verified")
        if value.runs[-1].purpose != "oracle" or value.runs[-1].ended:
            return self._at.begin_run(assignment, "oracle", "supervisor")
        how = self.follow(assignment)
        if how is None:
            return None
        fields, is_passed, text = self.check_ended(assignment, how)
        if is_passed:
            return self._at.change(assignment, {**fields, "verified": value.tip}, state="verified")
        if self.is_cut(value, how[0]):
            return self._at.change(assignment, fields)  # it is run again
        return self.give_back(assignment, "oracle", text, fields)

    def check_ended(self, assignment: Entity, how: tuple[str, Ended | None]) -> tuple[dict[str, JSONValue], bool, str]:
        """Return the fields for a check that has ended, whether it passed, and what it said."""
        ending, ended = how
        is_passed = ended is not None and ending == "exited" and ended.code == 0
        said = ending if ending != "exited" else f"exit code {ended.code if ended is not None else '?'}"
        if ended is not None and ended.problem:
            said += f"; {plain(ended.problem, 300)}"
        text = f"$ {' '.join(self._at.order.oracle)}\n{self.tail(shape(assignment).run)}\n({said})"
        fields = self._at.end_run(
            assignment,
            ending="passed" if is_passed else ending if ending in CUT else said,
            wall_ms=ended.wall_ms if ended is not None else 0,
        )
        return fields, is_passed, text

    def _verified(self, assignment: Entity) -> Entity | None:
        """Have the work reviewed where the dispatch asks for it; else the merge queue takes it."""
        value = shape(assignment)
        reviewer = self._reviewer(value)
        if not reviewer:
            return self.queue.advance(assignment)
        last = value.runs[-1]
        if last.purpose != "review" or last.ended:
            path = self._at.places.review(value.worktree)
            self._at.repository.remove_worktree(path, keep_branch=True, force=True)
            self._at.repository.add_worktree(path, "", value.tip)
            return self._at.begin_run(
                assignment, "review", reviewer, session=self.jobs.session_for(value, reviewer, "review")
            )
        how = self.follow(assignment)
        return self._reviewed(assignment, value, last, how) if how is not None else None

    def _reviewer(self, value: Assignment) -> str:
        """Return who reviews: another agent than the author where there is one; empty where nobody does, or without a change."""
        others = [name for name in self._at.order.reviewers if name != value.agent]
        return (others or [*self._at.order.reviewers, ""])[0] if value.tip != value.base else ""

    def _reviewed(self, assignment: Entity, value: Assignment, run: Attempt, how: tuple[str, Ended | None]) -> Entity:
        path = self.jobs.folder_of(value, run)
        handed_in = read_result(path, run.id, "review")
        fields = self._ended(assignment, value, run, *how)
        result = handed_in.result
        if result is None or not result.verdict:
            if self.is_cut(value, how[0]):
                return self._at.change(assignment, fields)  # it is asked again
            failed = sum(one.purpose == "review" and one.ending not in ("answered", *CUT) for one in value.runs)
            if failed > self._at.order.limits.retries:
                return self.fail(assignment, f"{run.agent} gave no review: {handed_in.problem or how[0]}", fields)
            return self._at.change(assignment, fields)  # it is asked again
        findings: list[JSONValue] = [
            {"severity": one.severity, "text": plain(one.text), "path": one.path, "line": one.line}
            for one in result.findings[:100]
        ]
        runs = fields["runs"]
        assert isinstance(runs, list)
        assert isinstance(runs[-1], dict)
        runs[-1]["ending"] = "answered"
        fields |= {"findings": findings, "verdict": result.verdict}
        is_blocked = any(one.severity == "blocking" for one in result.findings)
        if result.verdict == "approve" and not is_blocked:
            changed = self._at.change(assignment, fields, state="reviewed")
        else:
            changed = self.give_back(assignment, "review", f"{run.agent} found {len(findings)} faults", fields)
        # After the record: the answer lies in that worktree.
        self._at.discard(path)
        return changed

    def tail(self, run_id: str) -> str:
        """Return the end of what a job printed."""
        return self._at.run_folder(run_id).tail(TAIL_BYTES).decode("utf-8", "replace").strip()


def _scope_of(path: str) -> Scope | None:
    """Return the scope of a changed file, or of its folder where the name cannot be one."""
    from periplus.memory.scopes import escaped, parse_scope

    while path:
        try:
            return parse_scope(escaped(path))
        except UsageError:
            path = os.path.dirname(path)
    return None


def _answer_text(question: Entity) -> str:
    return plain(f"{question.value.get('text')}\n{question.value.get('answer')}")
