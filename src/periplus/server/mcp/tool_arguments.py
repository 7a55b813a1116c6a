"""Arguments of each tool: a struct, which gives the JSON Schema for clients and validates their input.

Models write arguments by hand, so obvious variants are accepted (``"5"`` for a number, one word or a quoted list for a list of
words). Anything else is refused with the name of the field.
"""

from __future__ import annotations

__all__ = [
    "BriefArguments",
    "ClaimArguments",
    "CodeArguments",
    "MessageArguments",
    "NewStepArgument",
    "PlanArguments",
    "RecallArguments",
    "RememberArguments",
    "ReviseArguments",
    "ShowArguments",
    "input_schema",
    "read_arguments",
]

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import Meta

from periplus.base.errors import UsageError

BUDGET_MIN: Final = 100
BUDGET_MAX: Final = 50_000
_DEPTH_MAX: Final = 8
_TOLD: Final = 200
_UNTOLD: Final = frozenset({"title", "maxLength", "maxItems", "minLength", "minItems", "maxProperties"})

Words = Annotated[str, Meta(max_length=8_000)]
Name = Annotated[str, Meta(max_length=200)]
Ids = Annotated[tuple[Name, ...], Meta(max_length=100)]
Budget = Annotated[
    int,
    Meta(ge=BUDGET_MIN, le=BUDGET_MAX, description="At most this many tokens of answer. The rest is counted, with the call that shows it."),
]  # fmt: skip
Paths = tuple[Annotated[str, Meta(max_length=500)], ...]
Key = Annotated[
    str, Meta(max_length=200, description="Your own key for this write: a repeated call with it is written once.")
]


class _Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    pass


class BriefArguments(_Arguments, frozen=True):
    task: Annotated[str, Meta(max_length=8_000, description="What you are about to do, in a sentence.")] = ""
    paths: Annotated[
        Paths,
        Meta(max_length=200, description="Files or folders that you are about to change, relative to the project: the answer says who claims them and which rules and traps apply."),
    ] = ()  # fmt: skip
    since: Annotated[
        str,
        Meta(
            max_length=200,
            description="Also list what others changed since this time (or 2h, 3d, 1w), record or session.",
        ),
    ] = ""
    budget: Budget = 3_000


class RecallArguments(_Arguments, frozen=True):
    question: Annotated[
        str, Meta(min_length=1, max_length=8_000, description="Words, a sentence, an error message, a path or an id.")
    ]
    types: Annotated[
        tuple[Annotated[str, Meta(max_length=40)], ...],
        Meta(
            max_length=20,
            description="Only these types: decision, constraint, trap, lesson, note, plan, step, handoff, trail (an earlier session), "
            "or a type that this project declares.",
        ),
    ] = ()
    kinds: Annotated[
        tuple[Literal["prompt", "answer", "command", "commit", "session"], ...],
        Meta(max_length=5, description="Only these parts of earlier sessions and git history."),
    ] = ()
    tag: Annotated[str, Meta(max_length=200, description="Only entities with this tag.")] = ""
    author: Annotated[str, Meta(max_length=200, description="Only entries by this person or agent.")] = ""
    path: Annotated[str, Meta(max_length=500, description="Only entries about this path.")] = ""
    since: Annotated[
        str, Meta(max_length=40, description="Only newer entries: a date, an RFC 3339 time, or an age (2h, 3d, 1w).")
    ] = ""
    ended: Annotated[bool, Meta(description="Include superseded, resolved and expired entries.")] = False
    limit: Annotated[int, Meta(ge=1, le=100)] = 10
    offset: Annotated[int, Meta(ge=0, le=100_000, description="Skip the first N, to get the next page.")] = 0
    budget: Budget = 2_000


class ShowArguments(_Arguments, frozen=True):
    id: Annotated[
        str,
        Meta(min_length=1, max_length=300, description="An id or a unique prefix of it; TRAIL#N for step N of a session's trail; "
             "or a periplus:// address."),
    ]  # fmt: skip
    offset: Annotated[
        int, Meta(ge=0, le=10_000_000, description="Skip the first N entries of a long answer, to get the next page.")
    ] = 0
    budget: Budget = 3_000


class CodeArguments(_Arguments, frozen=True):
    action: Annotated[
        Literal["find", "search", "show", "outline", "refs", "calls", "impact", "map", "status"],
        Meta(description="find: definitions by name (exact, a beginning, parts, misspelled). search: definitions by what they do, in words. show: a symbol with its text, its users, tests, memory about it. outline: the symbols of files. refs: the places that name a symbol. calls: what a symbol uses. impact: what depends on files or symbols, and the tests to run. map: the files for a task with their signatures, within the budget. status: languages and sizes."),
    ] = "find"  # fmt: skip
    of: Annotated[
        Paths,
        Meta(max_length=100, description="A symbol: FILE:Class.method, a qualified name or the end of one; or a file. For find a name, for search words, for map the task (none: the whole repository). For impact several; none for your uncommitted changes."),
    ] = ()  # fmt: skip
    kind: Annotated[str, Meta(max_length=40, description="For find and search: function, method, class, test, …")] = ""
    path: Annotated[str, Meta(max_length=500, description="For find and search: only in this file or folder.")] = ""
    grade: Annotated[
        Literal["proven", "likely", "named"],
        Meta(description="For refs: the least certain places to list; named: only the name agrees."),
    ] = "named"
    revision: Annotated[
        str, Meta(max_length=200, description="For impact: changes since this commit or branch (default: HEAD).")
    ] = ""
    depth: Annotated[int, Meta(ge=1, le=1_000, description="For impact: at most so many steps away.")] = 100
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 30
    offset: Annotated[int, Meta(ge=0, le=10_000_000, description="Skip the first N.")] = 0
    budget: Budget = 3_000


class RememberArguments(_Arguments, frozen=True):
    text: Annotated[
        str,
        Meta(min_length=1, max_length=8_000, description="The fact to save, worded so that a stranger understands it."),
    ]
    type: Annotated[
        str,
        Meta(
            max_length=40,
            description="decision: a choice and why. constraint: a rule to obey. trap: a pitfall and what to do. lesson: how something is "
            "done here. note: an observation. Or a type that this project declares.",
        ),
    ] = "note"
    about: Annotated[
        Paths,
        Meta(max_length=100, description="What it is about: FILE, FILE:10-20 or FILE:SYMBOL, from the project's folder, or an id. When that code changes, "
             "the memory is shown as stale."),
    ] = ()  # fmt: skip
    tags: Annotated[tuple[Name, ...], Meta(max_length=100, description="Tags to find it by.")] = ()
    rationale: Annotated[str, Meta(max_length=8_000, description="For a decision: the reason.")] = ""
    alternatives: Annotated[
        tuple[Words, ...], Meta(max_length=100, description="For a decision: alternatives that were not chosen.")
    ] = ()
    severity: Annotated[Literal["", "low", "medium", "high", "critical"], Meta(description="For a trap.")] = ""
    remedy: Annotated[str, Meta(max_length=8_000, description="For a trap: what to do.")] = ""
    check: Annotated[
        str,
        Meta(max_length=8_000, description="For a constraint or trap: a shell command that fails if it is violated."),
    ] = ""
    expires: Annotated[
        str, Meta(max_length=40, description="For a note: when it expires, a date or an RFC 3339 time.")
    ] = ""
    evidence: Annotated[
        tuple[Annotated[str, Meta(max_length=300)], ...],
        Meta(max_length=100, description="Its evidence: record:SEQ, step:TRAIL#N or commit:ID."),
    ] = ()
    fields: Annotated[
        dict[str, Any],
        Meta(max_length=50, description="Fields of a type that this project declares."),
    ] = msgspec.field(default_factory=dict)
    confidence: Annotated[int, Meta(ge=0, le=100, description="How sure you are.")] = 100
    supersedes: Annotated[Ids, Meta(description="Ids of entities that this replaces.")] = ()
    key: Key = ""


class ReviseArguments(_Arguments, frozen=True):
    ids: Annotated[Ids, Meta(min_length=1, description="Ids, or unique prefixes of them.")]
    action: Annotated[
        Literal["state", "replace", "split", "set", "link", "confirm"],
        Meta(description="state: change the state. replace: replace these by `text` (several are merged). split: replace one by each of `texts`. set: set `fields`. link: relate to `target`. confirm: it still holds; anchor it to the current code."),
    ]  # fmt: skip
    state: Annotated[
        str,
        Meta(max_length=40, description="For state: decision proposed, accepted, rejected, deferred; constraint and trap active, "
             "resolved, expired; plan and step todo, doing, blocked, review, done, dropped."),
    ] = ""  # fmt: skip
    reason: Annotated[str, Meta(max_length=2_000, description="Why the state changes.")] = ""
    text: Annotated[str, Meta(max_length=8_000, description="For replace.")] = ""
    texts: Annotated[tuple[Words, ...], Meta(max_length=100, description="For split: two or more.")] = ()
    fields: Annotated[
        dict[str, Any],
        Meta(max_length=20, description="For set: tags, confidence, priority, assignee, rationale, remedy, …"),
    ] = msgspec.field(default_factory=dict)
    relation: Annotated[
        Literal["", "contradicts", "caused", "resolves", "depends_on", "part_of", "references"],
        Meta(description="For link."),
    ] = ""
    target: Annotated[str, Meta(max_length=200, description="For link: an id.")] = ""
    key: Key = ""


class ClaimArguments(_Arguments, frozen=True):
    action: Annotated[
        Literal["list", "take", "release"],
        Meta(description="list: who works here now, and all claims. take: claim `paths`. release: release `ids`, or all your claims."),
    ] = "list"  # fmt: skip
    paths: Annotated[
        Paths,
        Meta(
            max_length=100, description="Files, folders, globs (src/**/*.py) or FILE:SYMBOL, from the project's folder."
        ),
    ] = ()
    text: Annotated[str, Meta(max_length=2_000, description="The purpose; others read it when they are refused.")] = ""
    shared: Annotated[bool, Meta(description="Share the claim; only an exclusive claim of others is then refused.")] = (
        False
    )
    minutes: Annotated[int, Meta(ge=1, le=10_080, description="How long it lasts without activity of yours.")] = 120
    ids: Annotated[Ids, Meta(description="Claims to release.")] = ()
    budget: Budget = 1_500
    key: Key = ""


class NewStepArgument(_Arguments, frozen=True):
    text: Annotated[str, Meta(min_length=1, max_length=8_000)]
    after: Annotated[
        tuple[int | Name, ...],
        Meta(max_length=100, description="Steps that have to be done first: numbers in this call (from 1), or ids."),
    ] = ()
    paths: Annotated[Paths, Meta(max_length=100, description="Paths that it will change; claimed with the step.")] = ()
    priority: Annotated[int, Meta(ge=0, le=100)] = 50


class PlanArguments(_Arguments, frozen=True):
    action: Annotated[
        Literal["list", "show", "make", "add", "next", "done", "block", "drop", "reopen"],
        Meta(description="list: open plans. show: one plan with its steps. make: a plan of `text` and `steps`. add: `steps` to `plan`. "
             "next: take the next step that is ready (of `plan`, or `ids`), with a claim for it. done, block, drop, reopen: "
             "`ids` of steps or plans."),
    ] = "list"  # fmt: skip
    plan: Annotated[str, Meta(max_length=200, description="The id of a plan.")] = ""
    text: Annotated[str, Meta(max_length=8_000, description="For make: the goal.")] = ""
    rationale: Annotated[str, Meta(max_length=8_000, description="For make: why.")] = ""
    steps: Annotated[tuple[NewStepArgument, ...], Meta(max_length=200, description="For make and add.")] = ()
    ids: Annotated[Ids, Meta(description="Steps or plans.")] = ()
    reason: Annotated[str, Meta(max_length=2_000, description="For block and drop: why.")] = ""
    budget: Budget = 2_000
    key: Key = ""


class MessageArguments(_Arguments, frozen=True):
    action: Annotated[
        Literal["inbox", "send", "answer", "read", "handoff", "accept", "close"],
        Meta(description="inbox: your mail and open handoffs. send: `text` to `to`. answer: `text` to the message `id`. read: the message `id` with its thread. handoff: hand over the state of work. accept, close: the handoff `id`."),
    ] = "inbox"  # fmt: skip
    id: Annotated[str, Meta(max_length=200, description="A message or a handoff.")] = ""
    to: Annotated[str, Meta(max_length=100, description="The recipient; a handoff without one is for anybody.")] = ""
    text: Annotated[
        str, Meta(max_length=8_000, description="The message; for a handoff, what was done and the state of the work.")
    ] = ""
    ref: Annotated[str, Meta(max_length=200, description="For send: the id of what it is about.")] = ""
    needs_answer: Annotated[bool, Meta(description="For send.")] = False
    files: Annotated[Paths, Meta(max_length=200, description="For handoff: files that were changed.")] = ()
    tests: Annotated[str, Meta(max_length=2_000, description="For handoff: what passes and what fails.")] = ""
    unfinished: Annotated[tuple[Words, ...], Meta(max_length=100, description="For handoff: what is left to do.")] = ()
    plan: Annotated[str, Meta(max_length=200, description="For handoff: the plan it belongs to.")] = ""
    corrects: Annotated[str, Meta(max_length=200, description="For handoff: the handoff that it replaces.")] = ""
    budget: Budget = 2_000
    key: Key = ""


_T = TypeVar("_T", bound=msgspec.Struct)


def input_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON Schema of a tool's arguments, without references, because some clients do not resolve them. Length limits
    and empty defaults are left out to keep it short for models; they are still enforced.
    """
    _, components = msgspec.json.schema_components([kind], ref_template="#/{name}")
    schema = _inlined(components[kind.__name__], components)
    assert isinstance(schema, dict)
    return {"type": "object", "properties": {}, **schema}


def _inlined(value: Any, components: Mapping[str, Any]) -> Any:
    if isinstance(value, (list, tuple)):
        return [_inlined(inner, components) for inner in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        return _inlined(components[value["$ref"][2:]], components)
    kept = {
        name: {field: _inlined(schema, components) for field, schema in inner.items()}
        if name == "properties"
        else _inlined(inner, components)
        for name, inner in value.items()
        if name not in _UNTOLD and not (name == "default" and not inner)
    }
    if "enum" in kept:  # some clients need a type beside it, and no empty value
        kept = {**kept, "type": "string", "enum": [word for word in kept["enum"] if word]}
    return kept


def read_arguments(kind: type[_T], given: object) -> _T:
    """Convert ``given`` to ``kind``. Raises UsageError that names the field."""
    if given is None:
        given = {}
    if not isinstance(given, dict):
        raise _wrong("the arguments are not an object")
    _check(given, "", _DEPTH_MAX)
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    unknown = [name for name in given if name not in fields]
    if unknown:
        raise _wrong(f"unknown argument {_short(str(unknown[0]))}", f"Arguments: {', '.join(fields)}.")
    lists = {
        name for name, field in fields.items() if isinstance(field.default, tuple) or field.name in ("ids", "steps")
    }
    meant = {name: _as_list(value) if name in lists else value for name, value in given.items() if value is not None}
    try:
        return msgspec.convert(meant, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _wrong(_told(str(error)), _choices(kind, str(error))) from None


def _told(error: str) -> str:
    """Convert ``Expected `int` >= 1 - at `$.limit``` to ``limit: expected `int` >= 1``."""
    what, _, where = error.partition(" - at ")
    place = re.sub(r"^`\$\.?|`$", "", where)
    missing = re.match(r"Object missing required field `(\w+)`", what)
    if missing:
        return f"the argument {missing[1]} is missing" + (f" in {place}" if place else "")
    return f"{place or 'the arguments'}: {_short(what[:1].lower() + what[1:])}"


def _choices(kind: type[msgspec.Struct], error: str) -> str:
    """List the allowed values of a wrong one; empty if any value is allowed."""
    found = re.match(r"Invalid enum value .* - at `\$\.(\w+)", error)
    if found is None:
        return ""
    schema = input_schema(kind)["properties"][found[1]]
    return f"Allowed: {', '.join(schema.get('items', schema).get('enum', ()))}."


def _wrong(what: str, mend: str = "") -> UsageError:
    return UsageError(what, safe="Nothing was changed.", mend=mend or "See the schema of the tool.")


def _short(text: str) -> str:
    return text if len(text) <= _TOLD else f"{text[:_TOLD]}…"


def _as_list(value: object) -> object:
    """Convert one word, or a list written as text, to a list."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        try:
            found = json.loads(value)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, list):
            _check(found, "", _DEPTH_MAX)
            return found
    return [value] if value else []


def _check(value: object, place: str, depth: int) -> None:
    """Raise UsageError for lone surrogates, NUL, or deep nesting."""
    if depth == 0:
        raise _wrong(f"{_short(place)} is nested too deeply")
    if isinstance(value, str):
        if "\0" in value:
            raise _wrong(f"{_short(place)} contains a NUL character", "Remove it.")
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise _wrong(f"{_short(place)} contains a lone surrogate", "Remove it.") from None
    elif isinstance(value, dict):
        for name, inner in value.items():
            _check(str(name), "a name", depth - 1)
            _check(inner, f"{place}.{name}" if place else str(name), depth - 1)
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            _check(inner, f"{place}[{at}]", depth - 1)
