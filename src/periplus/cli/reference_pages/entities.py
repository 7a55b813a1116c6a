"""Generate docs/reference/entities.md from the table of types (``memory.types``) and their schemas."""

from __future__ import annotations

__all__ = ["FIELDS", "entity_reference"]

import inspect
from collections.abc import Iterator
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec

from periplus.memory.entities.schemas import (
    About,
    Artifact,
    Attempt,
    Check,
    Common,
    Evidence,
    Finding,
    Limits,
    Material,
    Process,
    Provenance,
    Relation,
    Return,
    RewrittenCommit,
)
from periplus.memory.entities.types import NOT_REMEMBERED, TYPES, UNSEARCHED, MemoryType

FIELDS: Final[dict[str, str]] = {
    "about": "what it is about",
    "accepted_as": "the id of the entity that was made of it here",
    "accepted_by": "who accepted it",
    "agent": "its author, by name",
    "agent_id": "the writer's id",
    "agents": "the agents that may do its steps",
    "alternatives": "what was not chosen",
    "answer": "what was answered; of a dispatch, the sort of result that its agents hand in",
    "answered_by": "who answered, by name",
    "artifact": "of a dispatch, what the artifact of a result has to hold; of an assignment, the SHA-256 of the artifact's object",
    "artifacts": "what its phases made: phase, by, agent, assignment, text or object, at, refused",
    "asker": "who asks, by name",
    "assignee": "who does it",
    "assignment": "the id of the assignment that it is about",
    "attempt": "the number of its attempt",
    "author": "its author, by name",
    "began": "the commit with which its phase began",
    "base": "the commit at its beginning",
    "body": "how it is done, as Markdown",
    "branch": "the branch that the work is on",
    "bytes": "the size of its object",
    "cached": "input tokens that came from a cache",
    "capabilities": "its permissions",
    "check": "a command that checks it; run only with consent",
    "checks": "commands that were run for its gates: phase, argv, tip, code, output",
    "claim": "the id of its claim",
    "command": "the command that its gates run",
    "commands": "the commands that worked, in order",
    "confidence": "how certain it is, 0 to 100",
    "confirmed": "when it was last confirmed and, after a space, by whom",
    "copies": "folders of the checkout that worktrees get as copies",
    "cost": "what it cost, in millionths of a dollar",
    "counts": "its number of steps, by opcode",
    "created": "when it was first written",
    "cwd": "the folder that it ran in",
    "depends_on": "ids of work that has to be done first",
    "description": "what it is for, in a sentence",
    "digest": "the trail's own digest",
    "dispatch": "the id of its dispatch",
    "ended": "when it ended",
    "ending": "why the run is partial",
    "evidence": "where it is written down",
    "expires": "when it expires",
    "failed": "how often it failed in part",
    "files": "the files that it touched",
    "findings": "what a review found: severity, path, line, text",
    "first_seq": "its first record",
    "format": "the format that it was imported from",
    "granted": "further attempts that a person allowed",
    "head": "the commit at which its branch began",
    "holder": "who holds it, by name",
    "holder_id": "the id of the writer who holds it",
    "host": "the machine",
    "item_id": "the entity's id in the other project",
    "item_type": "the type that it would get",
    "key": "the fingerprint of its key",
    "kind": "its kind: the role of an assignment, the row of a loop",
    "lanes": "how many agents work at once",
    "lessons": "what the agent learned",
    "level": "its level",
    "limits": "its limits; see Limits",
    "lineage": "the lineage that its records are in",
    "links": "folders of the checkout that worktrees get as links",
    "loop": "the id of the loop that it does a phase of",
    "masked": "how many secrets were masked",
    "materials": "what agents are given beside their orders: step, object",
    "merged": "the commit of the target branch that has it",
    "missing": "what the gate of its phase still lacks",
    "mode": "whether others may claim the same",
    "model": "the model that worked",
    "name": "its name",
    "needs_answer": "whether it needs an answer",
    "object": "the SHA-256 of its object",
    "options": "answers to choose from",
    "oracle": "the command that decides whether work is done, as words",
    "out": "output tokens",
    "parent": "the trail that it came from",
    "parents": "the trails that it came from",
    "payload": "the content of the proposed entity",
    "phase": "its phase",
    "place": "its number in the plan, or in the waiting line",
    "plan": "the id of its plan",
    "previous": "its previous context, empty for the first",
    "priority": "0 to 100, higher comes first",
    "process": "its process",
    "provenance": "its source",
    "rationale": "why",
    "read_only": "whether its agents change nothing",
    "reason": "why it is in this state",
    "recipient": "its recipient, by name; empty for anybody",
    "ref": "the id of what it is about",
    "relations": "its relations to others",
    "remarks": "what a person should know of it",
    "remedy": "what to do",
    "returns": "why submitted work went back to its author: why, text, at",
    "rev": "its revision there",
    "reviewers": "agents that review",
    "rewritten": "in a git history, commits that no ref reaches, the newest first: commit, ts, text, paths",
    "role": "the role of its agents",
    "room": "the room",
    "rule": "the rule or reader that found it",
    "run": "the run that wrote it",
    "runs": "its runs; see Attempt",
    "scopes": "paths, globs and `path:symbol` that it covers",
    "secret": "goes into the trail that the run becomes",
    "seen": "its last activity",
    "sender": "its author, by name",
    "session": "the session that it was written in",
    "session_id": "the agent's name for the session",
    "setup": "the command that prepares a worktree, as words",
    "severity": "its severity",
    "skipped": "what the import skipped, counted by reason",
    "source_lineage": "the lineage that it comes from",
    "source_sha256": "the digest of the file that it was imported from",
    "source_store": "the store that it comes from",
    "started": "when it began",
    "state": "see above",
    "status": "how it ended",
    "step": "the id of the step that it is for; of what a run wrote, the number of its step",
    "subject": "its topic, by which it is recognized",
    "summary": "what the agent says that it did",
    "tags": "words to find it by",
    "target": "the context that it stands for",
    "tests": "the state of the tests",
    "text": "what it says, at most 8,000 characters",
    "thread": "the id of the first message of the thread",
    "tip": "the commit that was submitted",
    "title": "what it is for",
    "tokens_in": "input tokens that came from no cache",
    "tool": "the program in use",
    "tool_version": "the version of Periplus that began it",
    "trail": "the id of its trail",
    "transcript": "the file that its agent writes",
    "tries": "how many tries at its phases were judged",
    "trust": "the sum of changes of trust",
    "ttl_s": "how many seconds it lasts without activity of its holder",
    "turns": "the turns in which it worked, as session#turn",
    "unfinished": "what is left to do",
    "unknown": "what the import did not recognize, counted by name",
    "updated": "when it was last changed",
    "updates_checkout": "whether a clean checkout of the target is updated",
    "v": "the version of its schema",
    "verdict": "what the review decided",
    "verified": "the commit that the oracle passed",
    "version": "its version there",
    "wall_ms": "how long its runs took, in milliseconds",
    "why": "its evidence",
    "withheld": "the indexes in its string table of redacted texts",
    "wording": "who chose its wording",
    "worktree": "the name of its folder",
}
_NAMES: Final = {str: "text", int: "number", bool: "true or false", object: "any value"}
_PARTS: Final = (
    About,
    Evidence,
    Relation,
    Provenance,
    Process,
    RewrittenCommit,
    Limits,
    Material,
    Attempt,
    Return,
    Finding,
    Artifact,
    Check,
)


def entity_reference() -> str:
    """Return the text of docs/reference/entities.md."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "# Entities"
    yield ""
    yield "Written by `python -m periplus.cli.reference docs/reference` from the program's table of types. Projects can declare types"
    yield "of their own: [types of your own](../guides/types.md)."
    yield ""
    yield "An id is the prefix, `_` and 16 characters (80 random bits in base32); a unique prefix is accepted wherever an id is."
    yield ""
    yield "| type | prefix | for | states |"
    yield "|---|---|---|---|"
    for row in TYPES:
        states = ", ".join(f"*{state}*" if state in row.ended_states else state for state in row.transitions) or "–"
        yield f"| [{row.name}](#{row.name}) | `{row.prefix}` | {row.meaning} | {states} |"
    yield ""
    yield "States in italics are final: an entity in one of them is no longer active, and `recall` finds it only with `--all`."
    yield ""
    yield "## Fields of all memories"
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
            end = " (final)" if state in row.ended_states else ""
            start = " (initial)" if state == row.default_state else ""
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
        f"`entities/{row.name}/ID.json`, for git" if row.is_projected else "none; only in the journal and its index",
    )
    yield "written by", "`periplus remember`" if row.name not in NOT_REMEMBERED else "separate commands"
    yield "recalled", f"yes, with the weight {row.weight}" if row.name not in UNSEARCHED and row.weight else "no"
    if row.stale_when:
        yield "stale when", row.stale_when
    if row.touchable:
        yield "`periplus set` can change", ", ".join(sorted(row.touchable))
    if row.replaced_state:
        yield "superseded, it becomes", row.replaced_state
    if row.old_states:
        yield "earlier names of states", ", ".join(f"{new}: {old}" for old, new in sorted(row.old_states.items()))
    sets = sorted(row.sets & set(row.schema.__struct_fields__))
    if sets:
        yield "concurrent changes are merged by element", ", ".join(sets)
    for group in sorted(map(sorted, row.groups)):
        yield "concurrent changes are merged as one value", ", ".join(group)
    if row.withheld:
        yield "redactions of all clones are kept", row.withheld
    if row.incidental:
        yield "random, so differences are no conflict", ", ".join(sorted(row.incidental))
    for name in sorted(row.latest):
        yield "of concurrent changes the latest wins", name
    for name, values in row.ranks:
        yield "of concurrent changes the first of these wins", f"{name}: {', '.join(values)}"
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
            needed = "" if defaults.get(name, msgspec.NODEFAULT) is not msgspec.NODEFAULT else "; required"
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
