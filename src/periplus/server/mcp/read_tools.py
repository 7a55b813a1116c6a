"""The read-only tools: ``brief``, ``recall``, ``show``."""

from __future__ import annotations

__all__ = ["run_brief", "run_recall", "run_show", "step_entries"]

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from periplus.base.errors import NotFoundError, UsageError
from periplus.base.text.token_estimate import estimate_tokens
from periplus.memory import Filters
from periplus.server.mcp.tool_arguments import BUDGET_MAX, BriefArguments, RecallArguments, ShowArguments
from periplus.server.mcp.tool_results import Answer, Entry
from periplus.server.mcp.tool_wording import call_of, for_tools, one_line

if TYPE_CHECKING:
    from periplus.base.encoding.canonical import JSONValue
    from periplus.journal import Entity
    from periplus.memory import Hit
    from periplus.memory.briefing.brief_lines import BriefSection
    from periplus.memory.coordination.path_check import Applying, Checked
    from periplus.project import Project

_CHANGES_MAX: Final = 30
_CHANGE_TOKENS: Final = 20  # the least that a change takes
_GUESSES: Final = 10
_RULES: Final = {"Rules to obey": "constraint", "Traps": "trap"}
_SHOWS: Final = ("recall(", "plan(", "message(", "claim(")
_FILES_MAX: Final = 8
SCHEME: Final = "periplus://"
_BRIEF_MIN: Final = 100
_STEP_CHARACTERS: Final = 20_000


def run_brief(project: Project, given: BriefArguments) -> Answer:
    """Return what is known about a task and its paths; obstacles come first."""
    task = given.task.strip()
    if not task and not given.paths and not given.since:
        raise UsageError(
            "neither task nor paths is given", safe="Nothing was changed.", mend="Say what you are about to do."
        )
    work = project.work
    checked = work.check([work.path(path) for path in given.paths]) if given.paths else None
    entries = list(_check_entries(checked)) if checked is not None else []
    hidden = checked.left_out if checked is not None else 0
    foot, unseen = "", 0
    if given.since:
        changes, unseen = _change_entries(project, given.since, max(_CHANGES_MAX, given.budget // _CHANGE_TOKENS))
        entries += changes
        hidden += unseen
        foot = "" if changes else f"No changes by others since {given.since}."
    is_blocked = checked is not None and bool(checked.blocked)
    head = "STOP: somebody else holds what you are about to change." if is_blocked else ""
    known = _Known(project, task or " ".join(given.paths), given.budget, checked)
    entries += known.entries
    hidden += known.left_out
    if given.paths and not task:
        entries += _file_entries(project, checked.paths if checked is not None else ())
    if not entries:
        return Answer(foot=foot or "Nothing is known about this yet.", data={"blocked": False})

    def more(shown: int) -> str:
        """Return the call with a larger budget if that shows more, otherwise calls for the parts that no brief includes."""
        if given.budget < BUDGET_MAX and (shown < len(entries) or unseen or known.has_more):
            return _larger("brief", given.budget, task=given.task, paths=list(given.paths), since=given.since)
        return known.beyond or "ask about less at once"

    return Answer(head, tuple(entries), {"blocked": is_blocked}, hidden, more, foot)


class _Known:
    """The brief of a task as entries. Rules that were ``checked`` for the paths are not repeated."""

    def __init__(self, project: Project, task: str, budget: int, checked: Checked | None) -> None:
        self.entries: list[Entry] = []
        self.left_out = 0
        self._more: list[tuple[int, str]] = []
        self.has_more = (
            False  # whether a larger budget would show more: the number of lines of a section is limited, too
        )
        if not task:
            return
        told = {one.entity.item_id for one in checked.rules} if checked is not None else set()
        # The lines fit the whole budget, the best of each section first; what exceeds the rest is dropped from the end.
        known = project.brief(task, budget_tokens=max(_BRIEF_MIN, budget))
        self.has_more = known.cut > 0
        for section in known.sections:
            lines = [line for line in section.lines if line.source not in told]
            call = for_tools(section.more)
            is_guess = call.startswith("brief(task=")  # files: the best are shown, and no tool has more
            left_out = 0 if is_guess and len(section.lines) >= _GUESSES else self._not_told(section, checked)
            self.left_out += left_out
            self._more.append((left_out, call))
            for at, line in enumerate(lines):
                title = f"## {section.title}\n" if at == 0 else ""
                is_last = at == len(lines) - 1
                more = f"\n- {left_out} more: {call}" if is_last and left_out else ""
                data = {"section": section.title, "id": line.source, "text": line.text.removeprefix("- ")}
                self.entries.append(Entry(f"{title}{line.text}{more}", data))

    def _not_told(self, section: BriefSection, checked: Checked | None) -> int:
        """Count what a section leaves out, except rules about the paths, which are listed or counted separately."""
        if checked is None or section.title not in _RULES:
            return section.left_out
        shown = {line.source for line in section.lines}
        others = {one.entity.item_id for one in checked.rules if one.entity.item_type == _RULES[section.title]} - shown
        return max(0, section.left_out - len(others) - checked.left_out)

    @property
    def beyond(self) -> str:
        """Return the call that shows most of what no brief includes; empty if there is none."""
        calls = [(left_out, call) for left_out, call in self._more if left_out and call.startswith(_SHOWS)]
        return max(calls)[1] if calls else ""


def _file_entries(project: Project, paths: Sequence[str]) -> Iterator[Entry]:
    """Return files that are likely to change with ``paths``."""
    for file in project.related(paths, limit=_FILES_MAX).files:
        why = f" ({'; '.join(file.why)})" if file.why else ""
        yield Entry(
            f"- changes with it: {file.path}{why}",
            {"section": "changes with it", "path": file.path, "text": "; ".join(file.why)},
        )


def _change_entries(project: Project, since: str, limit: int) -> tuple[list[Entry], int]:
    """Return changes by others, at most ``limit`` entities and files each, and the number of further ones."""
    found = project.changed(since, limit=limit)
    entries: list[Entry] = []
    for item in found.items:
        by = f" by {', '.join(item.by)}" if item.by else ""
        text = f"{item.what} {item.ts[:16]}Z{by}: {item.item_type}{f' ({item.state})' if item.state else ''}: {one_line(item.text, 300)}"
        entries.append(Entry(f"- {text} [{item.item_id}]", {"section": "changed", "id": item.item_id, "text": text}))
    for file in found.files[:limit]:
        text = f"{file.path} was touched {file.times} times, last {file.ts[:16]}Z"
        data = {"section": "changed", "id": file.source, "path": file.path, "text": text}
        entries.append(Entry(f"- {text} [{file.source}]", data))
    return entries, found.left_out + len(found.files[limit:])


def _larger(tool: str, budget: int, **arguments: object) -> str:
    return call_of(tool, **arguments, budget=min(50_000, budget * 2))


def _check_entries(checked: Checked) -> Iterator[Entry]:
    for one in checked.claims:
        yield _claim_entry(one)
    for one in checked.rules:
        value = one.entity.value
        kind = one.entity.item_type
        remedy = f" To do: {one_line(value.get('remedy'))}" if value.get("remedy") else ""
        text = f"{one_line(value.get('text', ''))}{remedy}"
        moved = f" (written for {one_line(one.moved_from)}, which moved here)" if one.moved_from else ""
        yield Entry(f"- {kind} about {one.path}: {text}{moved} [{one.entity.item_id}]",
                    {"section": kind, "id": one.entity.item_id, "path": one.path, "text": text,
                     **({"moved_from": one.moved_from} if moved else {})})  # fmt: skip


def _claim_entry(one: Applying) -> Entry:
    value = one.entity.value
    whose = "you hold" if one.is_own else f"{value.get('holder')} holds"
    said = one_line(value.get("text", ""), 300)
    until = str(value.get("expires", ""))[:16]
    text = f"{whose} {one.path} ({value.get('mode', 'exclusive')}, until {until}Z){': ' + said if said else ''}"
    return Entry(f"- {text} [{one.entity.item_id}]",
                 {"section": "claim", "id": one.entity.item_id, "path": one.path, "own": one.is_own, "text": text})  # fmt: skip


def run_recall(project: Project, given: RecallArguments) -> Answer:
    from periplus.memory.retrieval.spelling import near_words_text

    if not given.question.strip() and not given.types:
        raise UsageError("the question is empty", safe="Nothing was changed.", mend="Say it in words.")
    types, kinds = _types_and_kinds(given)
    filters = Filters(types, kinds, given.tag, given.author, given.path, given.since, given.ended)
    found = project.recall(given.question, limit=given.limit, offset=given.offset, filters=filters)
    if not found.hits and found.matched:
        return Answer(foot=f"There are only {found.matched:,} results.")
    if not found.hits:
        over = 0
        if not given.ended:
            over = project.recall(given.question, limit=1, filters=filters._replace(with_ended=True)).matched
        return Answer(foot=f"No current results; {over:,} superseded, resolved or expired ones with ended=true." if over
                      else "No results.")  # fmt: skip

    def more(shown: int) -> str:
        return call_of(
            "recall", question=one_line(given.question, 200) or " ", types=list(given.types), kinds=list(given.kinds), tag=given.tag,
            author=given.author, path=given.path, since=given.since, ended=given.ended, offset=given.offset + shown,
        )  # fmt: skip

    near = {"near": [{"asked": asked, "found": list(forms)} for asked, forms in found.near]} if found.near else {}
    return Answer(near_words_text(found.near), tuple(map(_hit_entry, found.hits)), near, found.left_out, more)


def _types_and_kinds(given: RecallArguments) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the filters of a question whose ``types`` may name parts of trails beside types: what is of either answers."""
    from periplus.memory.retrieval.search import TRAIL_KINDS

    parts = [name for name in given.types if name in TRAIL_KINDS]
    types = [name for name in given.types if name not in TRAIL_KINDS]
    if not parts or not types:
        return tuple(types), (*given.kinds, *parts)
    whole = TRAIL_KINDS if "trail" in types else ()
    return (*types, "trail"), (*types, *given.kinds, *parts, *whole)


def _hit_entry(hit: Hit) -> Entry:
    where = hit.item_id if hit.part < 0 else f"{hit.item_id}#{hit.part}"
    state = f", {hit.state}" if hit.state else ""
    lines = [f"{hit.kind} {where} ({hit.ts[:10]}{state})", f"  {one_line(hit.text)}"]
    lines += [f"  in conflict: {', '.join(hit.conflicts)}"] if hit.conflicts else []
    lines += [f"  competing: another clone replaced the same entity by {', '.join(hit.rivals)}"] if hit.rivals else []
    lines += [f"  stale: {one}" for one in hit.standing]
    lines += [f"  {hit.checked}"] if hit.checked else []
    why = "; ".join((*hit.why, *hit.evidence))
    lines += [f"  why: {why}"] if why else []
    data: dict[str, Any] = {"id": where, "kind": hit.kind, "when": hit.ts[:10], "text": hit.text, "why": list(hit.why)}
    extra = {
        "state": hit.state, "stale": list(hit.standing), "evidence": list(hit.evidence), "checked": hit.checked,
        "conflicts": list(hit.conflicts), "rivals": list(hit.rivals),
    }  # fmt: skip
    return Entry("\n".join(lines), data | {name: value for name, value in extra.items() if value})


def run_show(project: Project, given: ShowArguments) -> Answer:
    """Return an entity with its history, or a session's trail with its steps."""
    reference = given.id.strip()
    if reference.startswith(SCHEME):
        kind, _, reference = reference.removeprefix(SCHEME).partition("/")
        if kind not in ("entity", "trail"):
            raise NotFoundError(f"{given.id[:80]} cannot be shown by this tool", mend="Read it as a resource.")
    reference, mark, part = reference.partition("#")
    if mark and not (part.isascii() and part.isdigit() and len(part) < 9):
        raise UsageError(f"{given.id[:80]!r} is not a step", mend="A step is TRAIL#NUMBER.")
    entity = project.show(reference)
    if entity.item_type == "trail":
        return _show_trail(project, entity, given, int(part) if mark else None)
    return _show_entity(project, entity, given)


def _more_of(reference: str, given: ShowArguments) -> Callable[[int], str]:
    def more(shown: int) -> str:
        if shown == 0:
            return _larger("show", given.budget, id=reference, offset=given.offset)
        return call_of("show", id=reference, offset=given.offset + shown)

    return more


def _show_entity(project: Project, entity: Entity, given: ShowArguments) -> Answer:
    from periplus.memory.entities.validity import expired_text
    from periplus.memory.succession.successors import rivals_of

    now_ms = project.journal.clock.now_ms()
    standing = project.ground().told(entity) + expired_text(project.types, entity, now_ms)
    entries = [Entry(f"  {name}: {_text_of(value)}", {"field": name, "text": _text_of(value)})
               for name, value in entity.value.items() if name != "v"]  # fmt: skip
    entries += [Entry(f"  stale: {one}", {"field": "stale", "text": one}) for one in standing]
    for item_id in rivals_of(project.journal, entity):
        text = f"another clone replaced the same entity by {item_id}"
        entries.append(Entry(f"  competing: {text}", {"field": "apart", "id": item_id, "text": text}))
    for conflict, name in zip(entity.conflicts, entity.conflict_names, strict=True):
        for rival in conflict.values:
            text = f"{rival.version[:12]} by {rival.writer}, {rival.ts[:19]}: {_text_of(rival.value)}"
            entries.append(Entry(f"  in conflict: {name}: {text}", {"field": "conflict", "of": name, "text": text}))
    for record in project.history(entity):
        text = f"{record.action} by {record.writer}, {record.ts[:19]}"
        entries.append(Entry(f"  record {record.seq}: {text}", {"record": record.seq, "text": text}))
    if project.journal.index.has_floors:  # after ``history``, which reads all of them
        text = "older records are missing: see `periplus status`"
        entries.append(Entry(f"  {text}", {"field": "history", "text": text}))
    total = len(entries)
    entries = entries[given.offset :]
    if given.offset and not entries:
        raise UsageError(f"there are only {total} entries", mend="Ask with a smaller offset.")
    head = f"{entity.item_type} {entity.item_id}, rev {entity.rev}"
    data = {"id": entity.item_id, "type": entity.item_type, "rev": entity.rev, "version": entity.version}
    return Answer(head, tuple(entries), data, 0, _more_of(entity.item_id, given))


def _text_of(value: JSONValue | bytes) -> str:
    import json

    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _show_trail(project: Project, entity: Entity, given: ShowArguments, step: int | None) -> Answer:
    from periplus.trail import TrailReader

    card = entity.value
    reader = TrailReader(project.trail_bytes(entity.item_id).data)
    count = reader.step_count
    begin = given.offset if step is None else step
    if begin >= count:
        raise NotFoundError(
            f"{entity.item_id} has {count:,} steps, and no step {begin:,}", mend="They are counted from 0."
        )
    title = f": {one_line(card.get('title'), 200)}" if card.get("title") else ""
    head = f"trail {entity.item_id} of {card.get('agent')}, {str(card.get('started'))[:16]}, {count:,} steps, {reader.status}{title}"
    data = {
        "id": entity.item_id,
        "type": "trail",
        "agent": str(card.get("agent", "")),
        "steps": count,
        "status": reader.status,
    }
    entries = step_entries(project, reader, begin, given.budget, whole=step is not None)
    more = 0 if step is not None else count - begin - len(entries)
    return Answer(head, tuple(entries), data, more, _more_of(entity.item_id, given))


def step_entries(project: Project, reader: Any, begin: int, budget: int, *, whole: bool) -> list[Entry]:
    """Return the steps from ``begin`` that may fit ``budget``. ``whole``: only that step, complete."""
    from itertools import islice

    from periplus.base.errors import PeriplusError
    from periplus.trail.listings.selection import Selection, Sieve
    from periplus.trail.listings.step_listing import listing, step_lines
    from periplus.trail.listings.value_text import View

    def read(digest: bytes) -> bytes | None:
        try:
            return project.journal.objects.get(digest)
        except PeriplusError:
            return None  # the listing shows the reference; doctor explains the damage

    if whole:
        one = next(islice(reader.steps(), begin, None))
        text = "\n".join(step_lines(begin, one, View(None, False, read, _STEP_CHARACTERS)))
        return [Entry(text, {"step": begin, "text": text})]
    sieve = Sieve(Selection(first=begin), reader.step_count)
    entries: list[Entry] = []
    spent = 0
    for at, line in enumerate(listing(reader, "compact", read_text=read, sieve=sieve, is_bare=True)):
        spent += estimate_tokens(line)
        entries.append(Entry(line, {"step": begin + at, "text": line.partition(" ")[2]}))
        if spent > budget:
            break
    return entries
