"""The brief: what an agent should know before a task, most important first, within a budget of tokens.

Each section takes what applies to the words and paths of the task. Lines are taken in turn, the best of each section
first in the order of ``_SECTIONS``, as long as they fit with the headings and the closing count. What was left out is
counted, with the command that shows it. The same store, task and budget give the same text.
"""

from __future__ import annotations

__all__ = ["Brief", "brief"]

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.errors import DamageError, UsageError
from periplus.base.named_tuple import NamedTuple
from periplus.base.text.token_estimate import estimate_tokens
from periplus.journal import Journal, Writer
from periplus.journal.index.record_lookup import one_question
from periplus.memory.briefing.brief_lines import BriefLine, BriefSection
from periplus.memory.code_anchors.anchors import Ground
from periplus.memory.entities.types import is_ended
from periplus.memory.entities.validity import holds, standing
from periplus.memory.retrieval.file_votes import Signal, likely_files
from periplus.memory.retrieval.recall import SURROUNDINGS, Hit, bring_up_to_date, cut_to_tokens, hit_of, recall
from periplus.memory.retrieval.search import Filters
from periplus.memory.text.named_paths import NamedPath, about_named, named_paths

if TYPE_CHECKING:
    from periplus.memory.briefing.recent_changes import ChangedItem

BUDGET_MIN: Final = 100
_LINE_CHARACTERS_MAX: Final = 600
_CLOSING_TOKENS: Final = 40
_FILES_MAX: Final = 10
_TESTED_MAX: Final = 3  # likely files whose tests are named
_TEST_FILES_MAX: Final = 5
_WORK_HITS_MAX: Final = 50
_CHANGES_MAX: Final = 8
_CHANGES_READ_MAX: Final = 4 * _CHANGES_MAX
_TASK_PATHS_MAX: Final = 50
_CHANGED_RECORDS_MAX: Final = 2_000
_CHANGED_TITLE: Final = "Changed since your last session"
_RULES: Final = 2  # number of the sections below before which the work of others is placed
_SECTIONS: Final = (
    ("Rules to obey", "constraint", 8),
    ("Traps", "trap", 8),
    ("Decisions", "decision", 8),
    ("Lessons", "lesson", 6),
    ("Notes", "note", 4),
)
_WORD: Final = re.compile(r"\w+")
_WORK: Final = Filters(kinds=("commit", "prompt", "session"), with_rewritten=False)
_JOINERS: Final = frozenset("\u00a0\u202f\u3000\u200d")  # typographic spaces and the emoji joiner


class _Code(NamedTuple):
    """See ``brief``."""

    names: Collection[str] = ()
    more: Sequence[Signal] = ()
    tests_of: Callable[[Sequence[str]], Sequence[str]] | None = None


class Brief(NamedTuple):
    """``text`` is the whole brief and ``tokens`` its estimate, never over ``budget``. ``cut`` counts the lines that a
    larger budget has room for.
    """

    task: str
    budget: int
    tokens: int
    text: str
    sections: tuple[BriefSection, ...]
    left_out: int
    cut: int = 0


def brief(
    journal: Journal,
    task: str,
    *,
    now_ms: int,
    root: str = "",
    ground: Ground | None = None,
    budget_tokens: int = 4_000,
    writer: Writer | None = None,
    names: Collection[str] = (),
    more: Sequence[Signal] = (),
    tests_of: Callable[[Sequence[str]], Sequence[str]] | None = None,
) -> Brief:
    """Compile the brief for ``task``. With ``writer`` it also has the claims of others, mail, handoffs, ready steps
    and what changed since the writer's last session. ``names`` are the files that exist, ``more`` signals for
    files of what memory does not know; ``tests_of`` returns the tests (PATH:NAME) of files. Raises UsageError for a
    budget under BUDGET_MIN.
    """
    if budget_tokens < BUDGET_MIN:
        raise UsageError(f"a brief needs a budget of at least {BUDGET_MIN} tokens, not {budget_tokens}",
                         mend=f"Say --budget {BUDGET_MIN} or more.")  # fmt: skip
    with one_question(journal):
        candidates = _candidates(journal, task, now_ms, ground or Ground(root), writer, _Code(names, more, tests_of))
    candidates = [one._replace(lines=tuple(map(_in_one_line, one.lines))) for one in candidates]
    title = f"# Brief: {' '.join(task.split())}" if task.strip() else "# Brief"
    if estimate_tokens(title) > budget_tokens // 3:
        title = "# Brief"
    chosen = _fit([section for section in candidates if section.lines or section.left_out], title, budget_tokens)
    text = _render(title, chosen)
    while estimate_tokens(text) > budget_tokens and any(section.lines for section in chosen):
        chosen = _without_last_line(chosen)
        text = _render(title, chosen)
    text = cut_to_tokens(text, budget_tokens)
    left_out = sum(section.left_out for section in chosen)
    cut = sum(len(section.lines) for section in candidates) - sum(len(section.lines) for section in chosen)
    return Brief(task, budget_tokens, estimate_tokens(text), text, tuple(chosen), left_out, cut)


def _candidates(
    journal: Journal, task: str, now_ms: int, ground: Ground, writer: Writer | None, code: _Code
) -> list[BriefSection]:
    """Return the sections with all lines that any budget has room for."""
    found = [_memory_section(journal, task, now_ms, ground, *section) for section in _SECTIONS]
    if writer is not None:
        from periplus.memory.briefing.work_sections import work_sections

        found[_RULES:_RULES] = work_sections(journal, writer, now_ms, task)
    if task.strip():
        found.append(_sessions(journal, task, now_ms))
        found += _files(journal, task, ground.root, code)
    return found + _changes_or_why_not(journal, writer) if writer is not None else found


def _in_one_line(line: BriefLine) -> BriefLine:
    """Return the line without line breaks: names, states and paths of others may hold any text, and must not begin a
    section.
    """
    if line.text.isprintable():
        return line
    kept = "".join(one if one.isprintable() or one in _JOINERS else " " for one in line.text)
    return line._replace(text=" ".join(kept.split()))


def _memory_section(
    journal: Journal, task: str, now_ms: int, ground: Ground, title: str, item_type: str, most: int
) -> BriefSection:
    """Return memory about a path of the task first, then what its words find. Without a task: the memory in force
    with the greatest weight, the newest of equals.
    """
    if not task.strip():
        return _standing_section(journal, now_ms, ground, title, item_type, most)
    filters = Filters(types=(item_type,))
    hits: dict[str, Hit] = {}
    for item_id in _about_paths(journal, item_type, named_paths(task, ground.root, _TASK_PATHS_MAX)):
        entity = journal.get(item_type, item_id)
        if entity is not None and holds(journal, entity, now_ms):
            hits[item_id] = hit_of(journal, entity, 0, ("about a path of the task",), ground, now_ms)
    found = recall(journal, task, now_ms=now_ms, ground=ground, limit=most + len(hits), filters=filters)
    for hit in found.hits:
        hits.setdefault(hit.item_id, hit)
    lines = [BriefLine(_line(hit), hit.item_id) for hit in hits.values()]
    left_out = max(0, len(lines) - most) + found.left_out
    return BriefSection(title, tuple(lines[:most]), left_out, f'periplus recall "{_short(task)}" --type {item_type}')


def _standing_section(
    journal: Journal, now_ms: int, ground: Ground, title: str, item_type: str, most: int
) -> BriefSection:
    bring_up_to_date(journal)
    found = standing(journal, item_type, most, now_ms)
    entities = [entity for item_id in found.ids if (entity := journal.get(item_type, item_id)) is not None]
    hits = [hit_of(journal, one, 0, ("in force",), ground, now_ms) for one in entities if holds(journal, one, now_ms)]
    lines = tuple(BriefLine(_line(hit), hit.item_id) for hit in hits)
    return BriefSection(title, lines, found.total - len(found.ids), f'periplus recall "" --type {item_type}')


def _about_paths(journal: Journal, item_type: str, named: list[NamedPath]) -> list[str]:
    """Return the ids of the memories about one of the paths, about a folder that holds it, or about a file of that
    name, newest first.
    """
    found: dict[str, str] = {}
    about = [item_id for kind, item_id in about_named(journal, named, item_type) if kind == item_type]
    rows = journal.index.db.execute(
        "SELECT item_id, ts FROM documents WHERE item_type = ? AND item_id IN (SELECT value FROM json_each(?))",
        (item_type, "[" + ",".join(f'"{item_id}"' for item_id in about) + "]"),
    )
    found.update(rows.fetchall())
    for one in named:
        tail = one.path.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        rows = journal.index.db.execute(
            "SELECT item_id, ts FROM touched WHERE item_type = ? AND path LIKE ? ESCAPE '\\'", (item_type, f"%/{tail}")
        )
        found.update(rows.fetchall())
    return sorted(sorted(found), key=lambda item_id: found[item_id], reverse=True)


def _line(hit: Hit) -> str:
    text = " ".join(hit.text.split())
    if len(text) > _LINE_CHARACTERS_MAX:
        text = text[: _LINE_CHARACTERS_MAX - 1] + "…"
    state = f" ({hit.state})" if hit.state in ("proposed", "deferred") or is_ended(hit.item_type, hit.state) else ""
    stale = f" (stale: {', '.join(hit.standing)})" if hit.standing else ""
    checked = f" ({hit.checked})" if hit.checked.startswith("check failed") else ""
    conflict = f" (in conflict: {', '.join(hit.conflicts)})" if hit.conflicts else ""
    apart = f" (competes with {', '.join(hit.rivals)}: periplus review)" if hit.rivals else ""
    return f"- {text}{state}{conflict}{apart}{stale}{checked} [{hit.item_id}]"


def _sessions(journal: Journal, task: str, now_ms: int) -> BriefSection:
    found = recall(journal, task, now_ms=now_ms, limit=_WORK_HITS_MAX, filters=_WORK)
    spoken = [hit for hit in found.hits if hit.why != SURROUNDINGS]  # otherwise only its neighbours match the task
    lines = [_work_line(hits) for hits in _requests(spoken)]
    return BriefSection(
        "Similar past work",
        tuple(lines[:6]),
        max(0, len(lines) - 6) + found.left_out,
        f'periplus recall "{_short(task)}"',
    )


def _requests(hits: Sequence[Hit]) -> list[list[Hit]]:
    """Group hits of the same request, however many sessions it came in; in the order of the best of each."""
    found: dict[str, list[Hit]] = {}
    for hit in sorted(hits, key=lambda one: one.kind != "prompt"):
        key = _request(hit.text)
        if hit.kind == "commit":
            key = f"{hit.item_id}#{hit.part}"
        elif hit.kind == "session" and key not in found and hit.text.endswith("…"):  # a title is cut, a prompt is not
            key = next((other for other in found if other.startswith(key)), key)
        found.setdefault(key, []).append(hit)
    ranks = {(hit.item_id, hit.part): rank for rank, hit in enumerate(hits)}
    return sorted(found.values(), key=lambda group: min(ranks[hit.item_id, hit.part] for hit in group))


def _request(text: str) -> str:
    """Return the words of a request, by which two requests are recognised as the same."""
    return " ".join(_WORD.findall(text.casefold())) or text


def _work_line(hits: Sequence[Hit]) -> BriefLine:
    prompts = [hit for hit in hits if hit.kind == "prompt"]
    sessions = len({hit.item_id for hit in hits})
    last = max(prompts or hits, key=lambda hit: hit.ts)
    what = "asked before" if prompts else last.kind
    if len(prompts) > sessions or (sessions == 1 and len(prompts) > 1):
        what += f" {len(prompts)} times"
    if sessions > 1:
        what = f"{what} in {sessions} sessions" if prompts else f"{sessions} sessions"
    where = last.item_id if last.part < 0 else f"{last.item_id}#{last.part}"
    return BriefLine(f"- {what}, {_days(hit.ts for hit in hits)}: {_short(last.text, 160)} [{where}]", where)


def _days(times: Iterable[str]) -> str:
    days = sorted({ts[:10] for ts in times})
    return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"


def _files(journal: Journal, task: str, root: str, code: _Code) -> list[BriefSection]:
    """Return files that earlier work and the code predict, and their tests; files that are gone are left out where any is there."""

    def is_there(path: str) -> bool:
        return os.path.lexists(os.path.join(root, path.replace("\0", "")))

    votes = likely_files(
        journal, task, names=code.names, is_there=is_there if root else None, most=4 * _FILES_MAX, more=code.more
    )
    asked = {path for signal in code.more for path in signal.votes}
    votes = [vote for vote in votes if vote.source or vote.path in asked]
    lines = [BriefLine(f"- {vote.path}{f' [{vote.source}]' if vote.source else ''}", vote.source) for vote in votes]
    left_out = max(0, len(lines) - _FILES_MAX)
    more = f'periplus related --task "{_short(task)}"'
    found = [BriefSection("Files likely to change", tuple(lines[:_FILES_MAX]), left_out, more)]
    if code.tests_of is not None and votes:
        found.append(_tests(code.tests_of([vote.path for vote in votes[:_TESTED_MAX]]), more))
    return found


def _tests(tests: Sequence[str], more: str) -> BriefSection:
    """Return the files of tests with the number of their tests, those with the most first."""
    counts = Counter(test.partition(":")[0] for test in tests)
    rows = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    lines = [
        BriefLine(f"- {path}: {count} of its tests name what the likeliest files define", "") for path, count in rows
    ]
    return BriefSection("Tests to run", tuple(lines[:_TEST_FILES_MAX]), max(0, len(lines) - _TEST_FILES_MAX), more)


def _changes_or_why_not(journal: Journal, writer: Writer) -> list[BriefSection]:
    """Return ``_changes``, or a line that says that they are unknown where older records cannot be read or lie
    elsewhere: the rest of a brief does not need them.
    """
    try:
        return _changes(journal, writer)
    except DamageError:
        line = BriefLine(
            "- changes by others are unknown: some records are damaged or archived elsewhere; see `periplus doctor`", ""
        )
        return [BriefSection(_CHANGED_TITLE, (line,), 0, "periplus doctor")]  # fmt: skip


def _changes(journal: Journal, writer: Writer) -> list[BriefSection]:
    """Return what others did since the writer's last session; nothing for a writer without one, for whom everything
    would be new.
    """
    from periplus.memory.briefing.recent_changes import changed_since, origin_of

    bring_up_to_date(journal)
    origin = origin_of(journal, writer, "")
    if not origin.session:
        return []
    where = "SELECT COUNT(*) FROM (SELECT 1 FROM records WHERE lineage = ? AND seq > ? LIMIT ?)"
    row = journal.index.db.execute(where, (journal.lineage, origin.seq, _CHANGED_RECORDS_MAX)).fetchone()
    if row[0] >= _CHANGED_RECORDS_MAX:  # weighing them all takes longer than a brief may
        line = BriefLine(f"- more than {_CHANGED_RECORDS_MAX:,} records; see `periplus changed`", "")
        return [BriefSection(_CHANGED_TITLE, (line,), 0, "periplus changed")]
    found = changed_since(journal, writer, limit=_CHANGES_READ_MAX)
    groups: dict[tuple[str, ...], list[ChangedItem]] = {}
    for one in found.items:
        same = (one.item_type, one.what, *one.by, _request(one.text)) if one.item_type == "trail" else (one.item_id,)
        groups.setdefault(same, []).append(one)
    lines = [_changed_line(items) for items in groups.values()]
    left_out = found.left_out + sum(map(len, list(groups.values())[_CHANGES_MAX:]))
    return [BriefSection(_CHANGED_TITLE, tuple(lines[:_CHANGES_MAX]), left_out, "periplus changed")]


def _changed_line(items: Sequence[ChangedItem]) -> BriefLine:
    """Return one line about the changes of an entity, or about the sessions of one request."""
    one = items[0]
    what = f"{one.item_type} {one.what}" if len(items) == 1 else f"{len(items)} {one.item_type}s {one.what}"
    by = f" by {one.by[0]}" if one.by else ""
    return BriefLine(
        f"- {what}{by}, {_days(item.ts for item in items)}: {_short(one.text, 160)} [{one.item_id}]", one.item_id
    )


def _short(text: str, most: int = 60) -> str:
    line = " ".join(text.split()).replace('"', "'")
    return line if len(line) <= most else line[: most - 1] + "…"


def _fit(sections: list[BriefSection], title: str, budget: int) -> list[BriefSection]:
    """Take lines, the best of every section first, while the rendered text stays within the budget."""
    taken: list[list[BriefLine]] = [[] for _ in sections]
    spent = estimate_tokens(title) + _CLOSING_TOKENS
    for depth in range(max((len(section.lines) for section in sections), default=0)):
        for index, section in enumerate(sections):
            if depth >= len(section.lines):
                continue
            line = section.lines[depth]
            cost = estimate_tokens(line.text) + 2
            if not taken[index]:
                cost += estimate_tokens(f"\n\n## {section.title}\n") + estimate_tokens(_more(section, 999)) + 4
            if spent + cost <= budget:
                taken[index].append(line)
                spent += cost
    fitted = []
    for section, lines in zip(sections, taken, strict=True):
        left_out = section.left_out + len(section.lines) - len(lines)
        fitted.append(section._replace(lines=tuple(lines), left_out=left_out))
    return fitted


def _without_last_line(sections: list[BriefSection]) -> list[BriefSection]:
    """``sections`` without the last line of the longest, of the least important among equals."""
    at = max(range(len(sections)), key=lambda index: (len(sections[index].lines), index))
    cut = sections[at]
    return [*sections[:at], cut._replace(lines=cut.lines[:-1], left_out=cut.left_out + 1), *sections[at + 1 :]]


def _more(section: BriefSection, left_out: int) -> str:
    return f"- {left_out} more: {section.more}"


def _render(title: str, sections: list[BriefSection]) -> str:
    parts = [title]
    for section in sections:
        if section.lines:
            lines = [line.text for line in section.lines]
            lines += [_more(section, section.left_out)] if section.left_out else []
            parts.append(f"## {section.title}\n" + "\n".join(lines))
    hidden = sum(section.left_out for section in sections if not section.lines)
    if hidden:
        parts.append(f"{hidden} more did not fit: ask for a larger --budget.")
    if len(parts) == 1:
        parts.append("Nothing is known about this yet.")
    return "\n\n".join(parts) + "\n"
