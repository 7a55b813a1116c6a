"""Generate docs/reference/entities.md from the table of types (``memory.types``) and their schemas."""

from __future__ import annotations

__all__ = ["FIELDS", "entity_reference"]

import inspect
from collections.abc import Iterator
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec

from periplus.memory.entities.schemas import About, Common, Evidence, Process, Provenance, Relation, RewrittenCommit
from periplus.memory.entities.types import NOT_REMEMBERED, TYPES, UNSEARCHED, MemoryType

FIELDS: Final[dict[str, str]] = {
    "about": "what it is about",
    "accepted_as": "the id of ours that was made of it",
    "accepted_by": "who took it over",
    "agent": "who it is of, by name",
    "agent_id": "the writer's id",
    "alternatives": "what was not chosen",
    "assignee": "who does it",
    "author": "who wrote it, by name",
    "base": "the commit that it began on",
    "body": "how it is done, as Markdown",
    "bytes": "the size of its object",
    "capabilities": "what it was permitted",
    "check": "a command that shows whether it holds; run with consent only",
    "commands": "what was seen to work, in its order",
    "confidence": "how sure it is, 0 to 100",
    "confirmed": "when somebody last said that it still holds and, behind a blank, who",
    "counts": "how many steps it has, by opcode",
    "created": "when it was first written",
    "cwd": "the folder that it ran in",
    "depends_on": "ids of work that has to be done before",
    "description": "what it is for, in a sentence",
    "digest": "the trail's own digest",
    "ended": "when it ended",
    "evidence": "where it is written down",
    "expires": "when its time is over",
    "failed": "how often a beginning of it failed",
    "files": "the files that it touched, or that were worked on",
    "first_seq": "the first record of it",
    "format": "the form that it was imported from",
    "holder": "who holds it, by name",
    "holder_id": "the id of the writer who holds it",
    "host": "the machine",
    "item_id": "the entity's id in the other project",
    "item_type": "what it would become",
    "key": "the print of its key",
    "level": "the level that it reached",
    "lineage": "the lineage that its records are in",
    "ending": "why the run is partial",
    "masked": "how many secrets were masked",
    "rewritten": "of a git history, commits that no ref reaches, the newest first: commit, ts, text, paths",
    "withheld": "the places in its string table whose texts were taken out",
    "mode": "whether others may claim the same",
    "model": "the model that worked",
    "name": "how it is called",
    "needs_answer": "whether it stays in the mail until it is answered",
    "object": "the SHA-256 of the object that holds it",
    "parent": "the trail that it came from",
    "parents": "the trails that it came from",
    "payload": "the entity as it would be written",
    "place": "its number: in its plan, or in the line",
    "plan": "the id of its plan",
    "previous": "where it stood before, empty for its first",
    "priority": "0 to 100, 100 is first",
    "process": "which process carries it",
    "provenance": "who says so",
    "rationale": "why",
    "reason": "why it is in this state",
    "recipient": "for whom it is, by name; empty for whoever comes next",
    "ref": "the id of what it is about",
    "relations": "how it is related to others",
    "remedy": "what to do",
    "rev": "which revision it was there",
    "room": "the room that it entered",
    "rule": "what found it",
    "run": "the run that wrote it",
    "scopes": "paths, globs and `path:symbol` that it covers",
    "secret": "goes into the trail that the run becomes",
    "seen": "when something was last heard of it",
    "sender": "who wrote it, by name",
    "session": "the session that it was written in",
    "session_id": "the agent's name for the session",
    "severity": "how bad it is",
    "skipped": "what the import left out, counted by why",
    "source_lineage": "the lineage that it comes from",
    "source_sha256": "the digest of the file that it was imported from",
    "source_store": "the store that it comes from",
    "started": "when it began",
    "state": "see above",
    "status": "how it ended",
    "step": "the id of the step that it is for; of what a run wrote, the number of its step",
    "subject": "what it is about, by which it is known again",
    "tags": "words to find it by",
    "target": "the context that it stands for",
    "tests": "the state of the tests",
    "text": "what it says, at most 8,000 characters",
    "thread": "the id of the first message of those that answer each other",
    "title": "what it is for",
    "tool": "the program in use",
    "tool_version": "the version of Periplus that began it",
    "trail": "the id of its trail",
    "transcript": "the file that its agent writes",
    "trust": "the sum of changes of trust",
    "ttl_s": "how many seconds it holds without a sign of its holder",
    "turns": "those in which it was seen to work, as session#turn",
    "unfinished": "what is left to do",
    "unknown": "what the import did not know, counted by name",
    "updated": "when it was last changed",
    "v": "the version of its shape",
    "version": "the version that it had there",
    "why": "what it rests on",
    "wording": "whose words it is in",
}
_NAMES: Final = {str: "text", int: "number", bool: "true or false", object: "any value"}
_PARTS: Final = (About, Evidence, Relation, Provenance, Process, RewrittenCommit)


def entity_reference() -> str:
    """Return the text of docs/reference/entities.md."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "# Entities"
    yield ""
    yield "Written by `python -m periplus.cli.reference docs/reference` from the table that the program runs on. Projects declare types"
    yield "of their own beside these: [types of your own](../guides/types.md)."
    yield ""
    yield "An id is the prefix, `_` and 16 characters (80 random bits in base32); its unique beginning is accepted wherever an id is."
    yield ""
    yield "| type | prefix | for | states |"
    yield "|---|---|---|---|"
    for row in TYPES:
        states = ", ".join(f"*{state}*" if state in row.ended_states else state for state in row.transitions) or "–"
        yield f"| [{row.name}](#{row.name}) | `{row.prefix}` | {row.meaning} | {states} |"
    yield ""
    yield "States in italics are ends: what is in one of them holds no longer and is recalled with `--all` only."
    yield ""
    yield "## What all memories carry"
    yield ""
    yield from _fields(Common)
    for row in TYPES:
        yield from _type(row)
    yield ""
    yield "## Parts"
    for part in _PARTS:
        yield ""
        yield f"### {part.__name__.lower()}"
        yield ""
        if part.__doc__ and not part.__doc__.startswith(part.__name__):
            yield inspect.cleandoc(part.__doc__).replace("``", "`")
            yield ""
        yield "| field | value |"
        yield "|---|---|"
        for name, hint in get_type_hints(part).items():
            if name in part.__struct_fields__:
                yield f"| `{name}` | {_text(hint)} |"
    yield ""


def _type(row: MemoryType) -> Iterator[str]:
    yield ""
    yield f"## {row.name}"
    yield ""
    yield f"{row.meaning[0].upper()}{row.meaning[1:]}."
    doc = row.schema.__doc__
    if doc and not doc.startswith(row.schema.__name__):
        yield inspect.cleandoc(doc).replace("``", "`")
    yield ""
    for key, said in _facts(row):
        yield f"- {key}: {said}"
    if row.transitions:
        yield ""
        yield "| state | may become |"
        yield "|---|---|"
        for state, following in row.transitions.items():
            end = " (an end)" if state in row.ended_states else ""
            start = " (the first)" if state == row.default_state else ""
            yield f"| {state}{start}{end} | {', '.join(sorted(following)) or '–'} |"
    own = [
        name
        for name in row.schema.__struct_fields__
        if not issubclass(row.schema, Common) or name not in Common.__struct_fields__
    ]
    if own:
        yield ""
        yield from _fields(row.schema, own)


def _facts(row: MemoryType) -> Iterator[tuple[str, str]]:
    yield (
        "files",
        f"`entities/{row.name}/ID.json`, for git"
        if row.is_projected
        else "none; it is in the journal and its index alone",
    )
    yield "written by", "`periplus remember`" if row.name not in NOT_REMEMBERED else "commands of its own"
    yield "recalled", f"yes, with the weight {row.weight}" if row.name not in UNSEARCHED and row.weight else "no"
    if row.stale_when:
        yield "stale when", row.stale_when
    if row.touchable:
        yield "`periplus set` may touch", ", ".join(sorted(row.touchable))
    if row.replaced_state:
        yield "superseded, it becomes", row.replaced_state
    if row.old_states:
        yield "was called before", ", ".join(f"{new}: {old}" for old, new in sorted(row.old_states.items()))
    sets = sorted(row.sets & set(row.schema.__struct_fields__))
    if sets:
        yield "merged by element where clones wrote apart", ", ".join(sets)
    for group in sorted(map(sorted, row.groups)):
        yield "one value where clones wrote apart", ", ".join(group)
    if row.withheld:
        yield "what was taken out where clones wrote apart", row.withheld
    if row.incidental:
        yield "made by chance where clones wrote apart", ", ".join(sorted(row.incidental))
    for name in sorted(row.latest):
        yield "the latest where clones wrote apart", name
    for name, values in row.ranks:
        yield "the first of these where clones wrote apart", f"{name}: {', '.join(values)}"
    for one in row.cascades:
        into, states = " or ".join(sorted(one.into)), " or ".join(sorted(one.states))
        which = (
            f"the {one.item_type} that its `{one.field}` names"
            if one.is_own
            else f"each {one.item_type} whose `{one.field}` it is"
        )
        yield f"becoming {into}", f"{which}, if {states}, becomes {one.to} with it"


def _fields(schema: type[msgspec.Struct], names: list[str] | None = None) -> Iterator[str]:
    yield "| field | value | meaning |"
    yield "|---|---|---|"
    defaults = dict(zip(reversed(schema.__struct_fields__), reversed(schema.__struct_defaults__), strict=False))
    for name, hint in get_type_hints(schema, include_extras=False).items():
        if name in schema.__struct_fields__ and (names is None or name in names):
            needed = "" if defaults.get(name, msgspec.NODEFAULT) is not msgspec.NODEFAULT else "; must be there"
            yield f"| `{name}` | {_text(hint)}{needed} | {FIELDS[name]} |"


def _text(hint: Any) -> str:
    if hint in _NAMES:
        return _NAMES[hint]
    if hint is type(None):
        return "nothing"
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return f"[{hint.__name__.lower()}](#{hint.__name__.lower()})"
    parts = get_args(hint)
    if get_origin(hint) is Literal:
        return ", ".join(f"`{one}`" for one in parts)
    if get_origin(hint) is tuple:
        return f"list of {_text(parts[0])}"
    if get_origin(hint) is dict:
        return f"object: name to {_text(parts[1])}"
    return " or ".join(_text(part) for part in parts)
