"""The brief: what an agent should know before a task, most important first, within a budget of tokens.

Each section takes what applies to the task's words and paths. Lines are taken in turn, best of each section first in
the order of ``_SECTIONS``, as long as they fit with the headings and the closing count; what was left out is counted,
with the call that shows it. The same store, task and budget give the same text.
"""

from __future__ import annotations

__all__ = ["Brief", "BriefLine", "BriefSection", "brief"]

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from periplus.base.errors import UsageError
from periplus.base.tokens import estimate_tokens
from periplus.journal import Journal
from periplus.memory.recall import SURROUNDINGS, Filters, Hit, hit_of, recall, stale_paths

BUDGET_MIN: Final = 100
_LINE_CHARACTERS_MAX: Final = 600
_CLOSING_TOKENS: Final = 40
_SECTIONS: Final = (
    ("Rules to obey", ("constraint",), 8),
    ("Traps", ("trap",), 8),
    ("Decisions", ("decision",), 8),
    ("How it is done here", ("lesson",), 6),
    ("Notes", ("note",), 4),
)
_PATH: Final = re.compile(r"[\w.\-]+(?:/[\w.\-]+)+|\b[\w\-]+\.[a-z]{1,5}\b")


class BriefLine(NamedTuple):
    text: str
    source: str


class BriefSection(NamedTuple):
    title: str
    lines: tuple[BriefLine, ...]
    left_out: int
    more: str


class Brief(NamedTuple):
    """``text`` is the whole; ``tokens`` its estimate, never over ``budget``."""

    task: str
    budget: int
    tokens: int
    text: str
    sections: tuple[BriefSection, ...]
    left_out: int


def brief(journal: Journal, task: str, *, now_ms: int, root: str = "", budget_tokens: int = 4_000) -> Brief:
    """What the store says that an agent should know before ``task``. Raises UsageError for a budget under BUDGET_MIN."""
    if budget_tokens < BUDGET_MIN:
        raise UsageError(f"a brief needs a budget of at least {BUDGET_MIN} tokens, not {budget_tokens}")
    candidates = _memory_sections(journal, task, now_ms, root)
    candidates.append(_sessions(journal, task, now_ms))
    candidates.append(_files(journal, task, now_ms))
    title = f"# Brief: {' '.join(task.split())}"
    if estimate_tokens(title) > budget_tokens // 3:
        title = "# Brief"
    chosen = _fit([section for section in candidates if section.lines or section.left_out], title, budget_tokens)
    text = _render(title, chosen)
    tokens = estimate_tokens(text)
    assert tokens <= budget_tokens, (tokens, budget_tokens)
    return Brief(task, budget_tokens, tokens, text, tuple(chosen), sum(section.left_out for section in chosen))


def _memory_sections(journal: Journal, task: str, now_ms: int, root: str) -> list[BriefSection]:
    paths = set(_PATH.findall(task))
    sections = []
    for title, types, most in _SECTIONS:
        found = recall(journal, task, now_ms=now_ms, root=root, limit=most * 4, filters=Filters(types=types))
        hits = {
            hit.item_id: hit for hit in found.hits if hit.state not in ("resolved", "expired", "superseded", "rejected")
        }
        for entity in journal.entities(types[0]):
            if entity.item_id not in hits and _applies(entity.value, paths):
                hits[entity.item_id] = hit_of(entity, 0, ("about a path of the task",), stale_paths(entity, root))
        lines = [BriefLine(_line(hit), hit.item_id) for hit in hits.values()]
        more = f'periplus recall "{_short(task)}" --type {types[0]}'
        sections.append(BriefSection(title, tuple(lines[:most]), max(0, len(lines) - most), more))
    return sections


def _applies(value: Mapping[str, object], paths: set[str]) -> bool:
    about = value.get("about")
    refs = [str(item.get("ref")) for item in about if isinstance(item, dict)] if isinstance(about, list) else []
    return any(
        path == ref or path.startswith(ref.rstrip("/") + "/") or ref.endswith("/" + path)
        for ref in refs
        for path in paths
    )


def _line(hit: Hit) -> str:
    text = " ".join(hit.text.split())
    if len(text) > _LINE_CHARACTERS_MAX:
        text = text[: _LINE_CHARACTERS_MAX - 1] + "…"
    stale = f" (stale: {', '.join(hit.stale)} changed since)" if hit.stale else ""
    return f"- {text}{stale} [{hit.item_id}]"


def _sessions(journal: Journal, task: str, now_ms: int) -> BriefSection:
    found = recall(journal, task, now_ms=now_ms, limit=40, filters=Filters(kinds=("commit", "prompt", "session")))
    lines: list[BriefLine] = []
    for hit in found.hits:
        if hit.why == SURROUNDINGS:
            continue  # its neighbours speak of the task, it does not
        where = hit.item_id if hit.part < 0 else f"{hit.item_id}#{hit.part}"
        what = "commit" if hit.kind == "commit" else "session" if hit.kind == "session" else "asked before"
        lines.append(BriefLine(f"- {what}, {hit.ts[:10]}: {_short(hit.text, 160)} [{where}]", where))
    return BriefSection("Work like this", tuple(lines[:6]), max(0, len(lines) - 6), f'periplus recall "{_short(task)}"')


def _files(journal: Journal, task: str, now_ms: int) -> BriefSection:
    """Files that the sessions and commits most like this task touched."""
    found = recall(journal, task, now_ms=now_ms, limit=30, filters=Filters(kinds=("commit", "session")))
    votes: Counter[str] = Counter()
    said: dict[str, str] = {}
    for rank, hit in enumerate(found.hits):
        rows = journal.index.db.execute(
            "SELECT path FROM touched WHERE item_type = ? AND item_id = ? AND part = ? ORDER BY path LIMIT 200",
            (hit.item_type, hit.item_id, hit.part),
        ).fetchall()
        for (path,) in rows:
            votes[path] += 1_000_000 // ((rank + 2) * max(1, len(rows)))
            said.setdefault(path, hit.item_id if hit.part < 0 else f"{hit.item_id}#{hit.part}")
    ranked = sorted(votes, key=lambda path: (-votes[path], path))
    lines = [BriefLine(f"- {path} [{said[path]}]", said[path]) for path in ranked]
    return BriefSection(
        "Files likely to change", tuple(lines[:10]), max(0, len(lines) - 10), f'periplus recall "{_short(task)}"'
    )


def _short(text: str, most: int = 60) -> str:
    line = " ".join(text.split()).replace('"', "'")
    return line if len(line) <= most else line[: most - 1] + "…"


def _fit(sections: list[BriefSection], title: str, budget: int) -> list[BriefSection]:
    """Take lines, the best of every section first, while the rendered whole stays within the budget."""
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
