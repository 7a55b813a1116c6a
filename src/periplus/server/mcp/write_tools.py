"""The writing tools: ``remember``, ``revise``, ``claim``, ``plan``, ``message``."""

from __future__ import annotations

__all__ = ["run_claim", "run_message", "run_plan", "run_remember", "run_revise"]

import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from periplus.base.errors import NotFoundError, RefusedError, UsageError
from periplus.server.mcp.tool_arguments import (
    ClaimArguments,
    MessageArguments,
    NewStepArgument,
    PlanArguments,
    RememberArguments,
    ReviseArguments,
)
from periplus.server.mcp.tool_results import Answer, Entry
from periplus.server.mcp.tool_wording import call_of, one_line

if TYPE_CHECKING:
    from periplus.base.encoding.canonical import JSONValue
    from periplus.journal import Entity
    from periplus.memory.writing.lifecycle import Changed
    from periplus.project import Project
    from periplus.project.knowledge.dispatched_work import StepWork
    from periplus.project.knowledge.work import ProjectWork

_STATES: Final = {"done": "done", "block": "blocked", "drop": "dropped", "reopen": "todo"}
_EVIDENCE: Final = ("record", "step", "commit")
_FROM: Final = "paths lead from the project's folder"


def run_remember(project: Project, given: RememberArguments) -> Answer:
    from periplus.memory import Memory

    extra: dict[str, JSONValue] = {
        name: value
        for name in ("rationale", "severity", "remedy", "check")
        if (value := getattr(given, name))
    }  # fmt: skip
    if given.alternatives:
        extra["alternatives"] = list(given.alternatives)
    if given.expires:
        extra["expires"] = _time(given.expires, "expires")
    extra |= given.fields
    missing = _check_about(project, given.about)
    memory = Memory(
        given.type, given.text, tags=given.tags, about=given.about, evidence=tuple(map(_evidence, given.evidence)),
        confidence=given.confidence, extra=extra, provenance=("agent", ""), supersedes=given.supersedes,
    )  # fmt: skip
    done = project.remember(memory, key=given.key)
    entity, near = done.entity, done.near
    notes = [*missing, *done.notes] if done.is_new else list(done.notes)
    data = {"id": entity.item_id, "type": entity.item_type, "new": done.is_new, "near": list(near), "notes": notes}
    if not done.is_new:
        known = f"Already known as {entity.item_id} ({entity.ts[:10]}); nothing was written."
        return Answer("\n".join([known, *(f"{note}: revise it for that." for note in done.notes)]), (), data)
    lines = [f"Remembered the {entity.item_type} {entity.item_id}."]
    lines += [f"{note}." for note in notes]
    lines += [f'{one} is similar. If this replaces it: revise(action="state" or "replace"), or remember with '
              f'supersedes=["{one}"].' for one in near]  # fmt: skip
    return Answer("\n".join(lines), (), data)


def _is_id(ref: str) -> bool:
    from periplus.base.ids import is_id

    return is_id(ref)


def _check_about(project: Project, refs: Sequence[str]) -> list[str]:
    """Return notes about ``refs`` that name no file. Raises UsageError for a path outside of the project."""
    from periplus.memory.code_anchors.anchor_creation import split_ref

    notes = []
    for ref in refs:
        if _is_id(ref) or "://" in ref:
            continue
        project.work.path(ref, cwd=project.work.top)
        path, _ = split_ref(ref, lambda path: os.path.isfile(os.path.join(project.work.top, path)))
        if not os.path.lexists(os.path.join(project.work.top, path)):
            notes.append(f"{path} does not exist ({_FROM}); saved anyway, but it cannot become stale")
    return notes


def _time(text: str, field: str) -> str:
    from periplus.base.clock import format_ms, parse_ms

    found = parse_ms(text)
    if found is None:
        raise UsageError(f"{field}: {text!r} is not a time", safe="Nothing was written.",
                         mend="Give a date, or a time as 2026-01-31T09:30:00Z.")  # fmt: skip
    return format_ms(found)


def _evidence(word: str) -> tuple[str, str]:
    kind, found, ref = word.partition(":")
    if not found or kind not in _EVIDENCE or not ref:
        raise UsageError(f"{word[:80]!r} is not evidence", safe="Nothing was written.",
                         mend="Write record:SEQ, step:TRAIL#N or commit:ID.")  # fmt: skip
    return kind, ref


def run_revise(project: Project, given: ReviseArguments) -> Answer:
    work, ids, key = project.work, given.ids, given.key
    if given.action == "confirm":
        return _changed(project.reviewing.confirm(ids, key=key))
    if given.action == "state":
        _need(given.state, "state", "state")
        return _changed(work.change_state(ids, given.state, reason=given.reason, key=key))
    if given.action == "replace":
        _need(given.text.strip(), "text", "replace")
        if len(ids) > 1:
            return _changed(work.merge(ids, given.text, key=key))
        return _changed(work.evolve(ids[0], given.text, key=key))
    if len(ids) != 1:
        raise UsageError(f"{given.action} takes one id, not {len(ids)}", safe="Nothing was written.")
    if given.action == "split":
        return _changed(work.split(ids[0], given.texts, key=key))
    if given.action == "link":
        _need(given.relation, "relation", "link")
        _need(given.target, "target", "link")
        return _changed(work.link(ids[0], given.relation, given.target, key=key))
    if not given.fields:
        _need("", "fields", "set")
    fields, missing = _about_named(project, ids[0], given.fields)
    return _changed(work.set_fields(ids[0], fields, key=key), missing)


def _about_named(project: Project, reference: str, fields: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return ``fields`` with ``about`` normalized as ``plan`` does for steps, and notes about names without a file."""
    about = fields.get("about")
    if not isinstance(about, list):
        return fields, []
    if project.show(reference).item_type == "step":
        named = [project.work.scope(one, cwd=project.work.top) if isinstance(one, str) else one for one in about]
        return {**fields, "about": named}, []
    return fields, _check_about(project, [one for one in about if isinstance(one, str)])


def _need(value: str, field: str, action: str) -> None:
    if not value:
        raise UsageError(f"{action} needs `{field}`", safe="Nothing was written.", mend=f"Give {field}.")


def _idle(action: str, said: Mapping[str, object], meant: str) -> None:
    """Explain that ``action`` is missing, so that a list is not mistaken for a write."""
    for field, value in said.items():
        if value:
            raise UsageError(
                f"{action} takes no `{field}`", safe="Nothing was written.", mend=f"Say what to do with it: {meant}."
            )


def _changed(done: Changed, told: Sequence[str] = ()) -> Answer:
    entries = tuple(map(_entity_entry, done.entities))
    notes = [*told, *done.notes] if done.receipt else []
    near = [f"{one} is similar" for one in done.near]
    lines = ["" if done.receipt else "Nothing changed.", *(f"{note}." for note in [*notes, *near])]
    data = {"changed": done.receipt is not None, "notes": notes, "near": list(done.near)}
    return Answer("\n".join(line for line in lines if line), entries, data,
                  more=lambda shown: call_of("show", id=done.entities[min(shown, len(done.entities) - 1)].item_id))  # fmt: skip


def _entity_entry(entity: Entity) -> Entry:
    value = entity.value
    state, text = str(value.get("state", "")), one_line(value.get("text", value.get("name", "")))
    shown = f"{entity.item_type} {entity.item_id}{f' ({state})' if state else ''}: {text}"
    return Entry(shown, {"id": entity.item_id, "type": entity.item_type, "state": state, "text": text})


# -- claims -----------------------------------------------------------------------------------------------------------


def run_claim(project: Project, given: ClaimArguments) -> Answer:
    from periplus.memory.claim_status import scopes_of
    from periplus.memory.coordination.claims import Asked

    work = project.work
    if given.action == "take":
        if not given.paths:
            raise UsageError("take needs `paths`", safe="Nothing was written.", mend="Say which files or folders.")
        scopes = tuple(work.scope(path, cwd=project.work.top) for path in given.paths)
        asked = Asked(scopes, "shared" if given.shared else "exclusive", given.text, given.minutes * 60)
        got = work.claim(asked, key=given.key)
        entry = _claim_entry(work, got.claim)
        head = "Claimed." if got.is_new else "You hold it already; the claim was renewed."
        notes = [f"{path} does not exist yet ({_FROM})" for path in given.paths if not _is_there(project, path)]
        notes += work.claimed_symbols().missing(scopes_of(got.claim)) if got.is_new else []
        return Answer(" ".join([head, *(f"{note}." for note in notes)]), (entry,), {"new": got.is_new, "notes": notes})
    if given.action == "release":
        done = work.release(given.ids, key=given.key)
        return _changed(done)
    said = {"paths": given.paths, "text": given.text}
    _idle("list", said, 'action="take"; whose paths are says brief(paths=[…])')
    entries: list[Entry] = []
    for one in work.who():
        what = "works here" if one.session is not None else "holds something"
        seen = f", last seen {str(one.session.value.get('seen', ''))[:16]}Z" if one.session is not None else ""
        entries.append(
            Entry(f"{one.name} {what}{seen}", {"who": one.name, "claims": [claim.item_id for claim in one.claims]})
        )
        entries += [_claim_entry(work, claim) for claim in one.claims]
    entries += [_agent_entry(work, one) for one in work.dispatched.at_work()]
    if not entries:
        return Answer(foot="Nobody else works here, and there are no claims.")
    return Answer(entries=tuple(entries), more=lambda _: call_of("claim", budget=min(50_000, 2 * given.budget)))


def _agent_entry(work: ProjectWork, assignment: Entity) -> Entry:
    value, paths = assignment.value, work.dispatched.paths(assignment)
    text = one_line(value.get("text", ""), 300)
    where = f" ({', '.join(paths)})" if paths else ""
    shown = f"{one_line(work.dispatched.words(assignment))}: {text}{where} [{assignment.item_id}]"
    data = {name: value.get(name, "") for name in ("agent", "state", "step", "dispatch")}
    return Entry(shown, {"id": assignment.item_id, "type": "assignment", **data, "paths": paths, "text": text,
                         "theirs": work.dispatched.is_of_another_clone(assignment)})  # fmt: skip


def _is_there(project: Project, path: str) -> bool:
    """Return whether a claimed path exists, or is a pattern."""
    names = (path, path.rpartition(":")[0])
    return any(letter in path for letter in "*?[{") or any(
        name and os.path.lexists(os.path.join(project.work.top, name)) for name in names
    )


def _claim_entry(work: ProjectWork, claim: Entity) -> Entry:
    from periplus.memory.claim_status import scopes_of

    value = claim.value
    held = value.get("scopes")
    scopes = list(map(str, held)) if isinstance(held, list) else []
    whose = "you" if work.is_own(claim) else str(value.get("holder", ""))
    symbols = work.claimed_symbols()
    lines = [symbols.lines(scope) for scope in scopes_of(claim)]
    named = [f"{one}{f' (lines {at[0]}-{at[1]})' if at else ''}" for one, at in zip(scopes, lines, strict=True)]
    what = ", ".join(named) or f"the step {value.get('step')}"
    said = one_line(value.get("text", ""), 300)
    text = f"{claim.item_id} {whose} ({value.get('mode', 'exclusive')}, until {str(value.get('expires', ''))[:16]}Z): {what}"
    data: dict[str, Any] = {
        "id": claim.item_id, "holder": str(value.get("holder", "")), "own": whose == "you", "scopes": scopes,
        "mode": str(value.get("mode", "exclusive")), "expires": str(value.get("expires", "")), "text": said,
        **({"lines": [list(at) if at else None for at in lines]} if any(lines) else {}),
    }  # fmt: skip
    return Entry(f"  {text}{' - ' + said if said else ''}", data)


# -- plans ------------------------------------------------------------------------------------------------------------


def run_plan(project: Project, given: PlanArguments) -> Answer:
    work = project.work
    if given.action == "list":
        said = {"text": given.text, "steps": given.steps, "ids": given.ids, "plan": given.plan}
        _idle("list", said, 'action="make", "add", "show", "next" or "done"')
        return _plans(work, given)
    if given.action == "show":
        reference = given.plan or (given.ids[0] if given.ids else "")
        _need(reference, "plan", "show")
        return _plan(work, *work.plan(reference), given)
    if given.action == "make":
        _need(given.text.strip(), "text", "make")
        made = work.make_plan(given.text, _new_steps(project, given.steps), rationale=given.rationale, key=given.key)
        return _plan(work, made.plan, list(made.steps), given)
    if given.action == "add":
        _need(given.plan, "plan", "add")
        if not given.steps:
            _need("", "steps", "add")
        added = work.add_steps(given.plan, _new_steps(project, given.steps), key=given.key)
        return _plan(work, added.plan, list(added.steps), given)
    if given.action == "next":
        return _next(work, given)
    if not given.ids:
        _need("", "ids", given.action)
    for one in given.ids:
        found = project.show(one)
        if found.item_type not in ("plan", "step"):
            raise NotFoundError(f"{found.item_id} is a {found.item_type}, not a plan or step", safe="Nothing was written.",
                                mend="See `periplus plan list`.")  # fmt: skip
    return _changed(work.change_state(given.ids, _STATES[given.action], reason=given.reason, key=given.key))


def _new_steps(project: Project, steps: Sequence[NewStepArgument]) -> list[Any]:
    from periplus.memory.coordination.plans import NewStep

    work, top = project.work, project.work.top

    return [
        NewStep(
            step.text,
            tuple(map(_number_or_id, step.after)),
            step.priority,
            tuple(work.scope(path, cwd=top) for path in step.paths),
        )
        for step in steps
    ]


def _number_or_id(word: int | str) -> int | str:
    return int(word) if isinstance(word, str) and word.isascii() and word.isdigit() and len(word) < 6 else word


def _plans(work: ProjectWork, given: PlanArguments) -> Answer:
    ready = {step.item_id for step in work.ready()}
    entries: list[Entry] = []
    for plan, steps in work.plans():
        dispatched = work.dispatched.of_plans([plan.item_id])
        done = sum(step.value.get("state") == "done" for step in steps)
        text = one_line(plan.value.get("text", ""))
        cost, data = _cost_of(dispatched)
        entries.append(Entry(
            f"plan {plan.item_id} ({plan.value.get('state')}, {done} of {len(steps)} steps done{cost}): {text}",
            {"id": plan.item_id, "type": "plan", "state": str(plan.value.get("state", "")), "done": done, "steps": len(steps), "text": text, **data},
        ))  # fmt: skip
        entries += [
            _step_entry(work, step, dispatched, is_ready=step.item_id in ready)
            for step in steps
            if step.item_id in ready or (step.item_id in dispatched and step.value.get("state") == "doing")
        ]
    if not entries:
        return Answer(foot='No plan is open. plan(action="make", text=…, steps=[…]) makes one.')
    return Answer(entries=tuple(entries), more=lambda _: call_of("plan", budget=min(50_000, 2 * given.budget)))


def _plan(work: ProjectWork, plan: Entity, steps: list[Entity], given: PlanArguments) -> Answer:
    value = plan.value
    dispatched = work.dispatched.of_plans([plan.item_id], with_trails=True)
    cost, spent = _cost_of(dispatched)
    head = f"plan {plan.item_id} ({value.get('state')}{cost}): {one_line(value.get('text', ''), 600)}"
    entries = tuple(_step_entry(work, step, dispatched) for step in steps)
    data = {"id": plan.item_id, "type": "plan", "state": str(value.get("state", "")), **spent}
    return Answer(head, entries, data, more=lambda _: call_of("plan", action="show", plan=plan.item_id, budget=min(50_000, 2 * given.budget)))  # fmt: skip


def _cost_of(dispatched: Mapping[str, StepWork]) -> tuple[str, dict[str, Any]]:
    """Return what the work of agents on a plan cost, as text and as data; both empty where no dispatch did any."""
    from periplus.memory.coordination.dispatch_overview import Spent

    spent = Spent()
    for one in dispatched.values():
        spent = spent.plus(one.spent)
    words = spent.words()
    return (f", cost {words}" if words else "", {"spent": spent._asdict()} if dispatched else {})


def _step_entry(
    work: ProjectWork, step: Entity, dispatched: Mapping[str, StepWork] = {}, *, is_ready: bool = False
) -> Entry:
    value = step.value
    state = str(value.get("state", ""))
    waits = [] if state in ("done", "dropped") or is_ready else work.waits_for(step)
    by = f" by {value.get('assignee')}" if value.get("assignee") and state == "doing" else ""
    after = f" (waits for {', '.join(waits)})" if waits else ""
    why = f" ({one_line(value.get('reason'))})" if value.get("reason") else ""
    text = one_line(value.get("text", ""))
    said = "ready" if is_ready else state
    shown = f"  step {step.item_id} {said}{by}: {text}{after}{why}"
    data: dict[str, Any] = {"id": step.item_id, "type": "step", "state": state, "waits_for": waits, "text": text}
    assigned = dispatched.get(step.item_id)
    if assigned is None:
        return Entry(shown, data)
    held, words = assigned.assignment, assigned.spent.words()
    shown += f"\n    {one_line(work.dispatched.words(held))}{f': {words}' if words else ''} [{held.item_id}]"
    told = {name: held.value.get(name, "") for name in ("agent", "state", "attempt", "reason", "branch")}
    return Entry(shown, data | {"assignment": {"id": held.item_id, **told, "spent": assigned.spent._asdict()}})


def _next(work: ProjectWork, given: PlanArguments) -> Answer:
    if len(given.ids) > 1:
        raise UsageError(f"next takes one step, not {len(given.ids)}", safe="Nothing was written.")
    taken = work.take(plan=given.plan, step=given.ids[0] if given.ids else "", key=given.key)
    if taken is None:
        idle = work.idle(given.plan)
        said = [*([idle.words()] if idle.counts else ()), *(one.words() for one in idle.stuck)]
        foot = f"No step can be started now{': ' if said else ''}{one_line('; '.join(said))}. See plan()."
        return Answer(foot=foot, data={"step": ""})
    entries = (_step_entry(work, taken.step), _claim_entry(work, taken.claim))
    call = call_of("plan", action="done", ids=[taken.step.item_id])
    return Answer("Yours now:", entries, {"step": taken.step.item_id, "claim": taken.claim.item_id}, foot=f"When it is done: {call}",
                  more=lambda _: call_of("show", id=taken.step.item_id))  # fmt: skip


# -- mail and handoffs ------------------------------------------------------------------------------------------------


def run_message(project: Project, given: MessageArguments) -> Answer:
    work = project.work
    if given.action == "inbox":
        said = {"text": given.text, "to": given.to, "id": given.id, "files": given.files}
        _idle("inbox", said, 'action="send", "answer", "read", "handoff" or "accept"')
        return _inbox(project, given)
    if given.action == "send":
        _need(given.to, "to", "send")
        _need(given.text.strip(), "text", "send")
        sent = work.send(given.to, given.text, ref=given.ref, needs_answer=given.needs_answer, key=given.key)
        notes = _who_is_meant(work, given.to)
        lines = [f"Sent {sent.item_id} to {given.to}.", *(f"{note}." for note in notes)]
        return Answer("\n".join(lines), (), {"id": sent.item_id, "notes": notes})
    if given.action == "handoff":
        return _hand_off(work, given)
    _need(given.id, "id", given.action)
    if given.action == "answer":
        _need(given.text.strip(), "text", "answer")
        if (asked := project.show(given.id)).item_type == "question":
            raise RefusedError(
                f"{asked.item_id} is a question to a person", safe="Nothing was written.",
                mend=f"A person answers it: periplus dispatch answer {asked.item_id} TEXT",
            )  # fmt: skip
        sent = work.answer(given.id, given.text, key=given.key)
        return Answer(f"Answered with {sent.item_id}.", (), {"id": sent.item_id})
    if given.action == "read":
        read = work.read_mail([given.id], key=given.key).entities
        thread = work.thread(read[0].item_id if read else given.id)
        return Answer(entries=tuple(map(_mail_entry, thread)),
                      more=lambda _: call_of("message", action="read", id=given.id, budget=min(50_000, 2 * given.budget)))  # fmt: skip
    if given.action == "accept":
        return Answer("Yours now:", (_handoff_entry(work.accept_handoff(given.id, key=given.key), is_whole=True),))
    found = project.show(given.id)
    if found.item_type != "handoff":
        raise NotFoundError(f"{found.item_id} is a {found.item_type}, not a handoff", safe="Nothing was written.",
                            mend="See `periplus handoff list`.")  # fmt: skip
    return _changed(work.change_state([found.item_id], "closed", key=given.key))


def _who_is_meant(work: ProjectWork, name: str) -> list[str]:
    """Return a note about a name that nobody has, if somebody has a similar one."""
    meant = work.meant_by(name) if name else ""
    said = f"Nobody here is called {one_line(name)}, but somebody is called {one_line(meant)}, who does not get this"
    return (
        [f"{said}. If {one_line(meant)} is meant, repeat the call with to={json.dumps(meant, ensure_ascii=False)}"]
        if meant
        else []
    )


def _inbox(project: Project, given: MessageArguments) -> Answer:
    work, me = project.work, project.writer.name
    passed_on = [one for one in work.handoffs(recipient=me) if one.value.get("state") in ("open", "accepted")]
    questions = map(_question_entry, work.dispatched.questions())
    entries = [*map(_mail_entry, work.mail()), *questions, *map(_handoff_entry, passed_on)]
    if not entries:
        return Answer(foot=f"There is no mail for {me}, and there are no handoffs.", data={"you": me})
    return Answer(entries=tuple(entries), data={"you": me},
                  more=lambda _: call_of("message", budget=min(50_000, 2 * given.budget)))  # fmt: skip


def _mail_entry(message: Entity) -> Entry:
    value = message.value
    wants = ", needs an answer" if value.get("needs_answer") is True and value.get("state") != "answered" else ""
    text = str(value.get("text", ""))
    shown = f"message {message.item_id} from {value.get('sender')} to {value.get('recipient')} ({str(value.get('created', ''))[:16]}Z{wants}): {text}"
    return Entry(shown, {"id": message.item_id, "type": "message", "from": str(value.get("sender", "")), "to": str(value.get("recipient", "")),
                         "state": str(value.get("state", "")), "needs_answer": value.get("needs_answer") is True, "text": text})  # fmt: skip


def _question_entry(question: Entity) -> Entry:
    value = question.value
    held = value.get("options")
    options = list(map(str, held)) if isinstance(held, list) else []
    command = f"periplus dispatch answer {question.item_id} TEXT"
    text, asker = str(value.get("text", "")), str(value.get("asker", ""))
    among = f" ({' / '.join(map(one_line, options))})" if options else ""
    about = f" about {value['assignment']}" if value.get("assignment") else ""
    shown = f"question {question.item_id} of {asker or 'a dispatch'} to a person{about} ({str(value.get('created', ''))[:16]}Z): {text}{among}"
    return Entry(f"{shown}\n  A person answers it: {command}",
                 {"id": question.item_id, "type": "question", "from": asker, "state": str(value.get("state", "")), "options": options,
                  "assignment": str(value.get("assignment", "")), "command": command, "text": text})  # fmt: skip


def _handoff_entry(handoff: Entity, *, is_whole: bool = False) -> Entry:
    value = handoff.value
    lists = {
        name: list(map(str, held)) if isinstance(held := value.get(name), list) else []
        for name in ("files", "unfinished")
    }
    text = str(value.get("text", "")) if is_whole else one_line(value.get("text", ""), 600)
    to = f" to {value.get('recipient')}" if value.get("recipient") else ""
    lines = [f"handoff {handoff.item_id} ({value.get('state')}) from {value.get('author')}{to}: {text}"]
    lines += [f"  files: {', '.join(lists['files'])}"] if lists["files"] else []
    lines += [f"  tests: {one_line(value.get('tests'))}"] if value.get("tests") else []
    lines += [f"  to do: {one_line(left)}" for left in lists["unfinished"]]
    return Entry("\n".join(lines), {
        "id": handoff.item_id, "type": "handoff", "state": str(value.get("state", "")), "from": str(value.get("author", "")),
        "files": lists["files"], "tests": str(value.get("tests", "")), "unfinished": lists["unfinished"], "text": text,
    })  # fmt: skip


def _hand_off(work: ProjectWork, given: MessageArguments) -> Answer:
    from periplus.memory.coordination.handoffs import NewHandoff

    _need(given.text.strip(), "text", "handoff")
    files = tuple(work.path(path) for path in given.files)
    new = NewHandoff(given.text, given.to, files, given.tests, given.unfinished, given.plan)
    done = work.hand_off(new, corrects=given.corrects, key=given.key)
    notes = _who_is_meant(work, given.to)
    foot = "\n".join(f"{note}." for note in notes)
    return Answer("Handed over:", (_handoff_entry(done),), {"id": done.item_id, "notes": notes}, foot=foot)
