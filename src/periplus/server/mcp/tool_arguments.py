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
# A model reads only these of a schema. The rest is checked here, and a refusal names the field and what it takes.
_LISTED: Final = frozenset({"type", "description", "enum", "items", "properties", "required"})
# Arguments with this mark are accepted and not listed: models hardly use them, and would pay for them in each session.
_UNLISTED: Final[dict[str, Any]] = {"unlisted": True}

Words = Annotated[str, Meta(max_length=8_000)]
Name = Annotated[str, Meta(max_length=200)]
Ids = Annotated[tuple[Name, ...], Meta(max_length=100)]
Budget = Annotated[int, Meta(ge=BUDGET_MIN, le=BUDGET_MAX)]  # the server's instructions say what it is
BudgetOfList = Annotated[int, Meta(ge=BUDGET_MIN, le=BUDGET_MAX, extra_json_schema=_UNLISTED)]  # a cut answer names it
Path = Annotated[str, Meta(max_length=500)]
Paths = tuple[Path, ...]
UnlistedName = Annotated[str, Meta(max_length=200, extra_json_schema=_UNLISTED)]
Key = UnlistedName  # of a write: the same key writes once


class _Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    pass


class BriefArguments(_Arguments, frozen=True):
    task: Words = ""
    paths: Annotated[Paths, Meta(max_length=200)] = ()
    since: Annotated[str, Meta(max_length=200, description="Also changes since a date, 2h, a session.")] = ""
    budget: Budget = 3_000


class RecallArguments(_Arguments, frozen=True):
    question: Annotated[str, Meta(min_length=1, max_length=8_000)]
    types: Annotated[
        tuple[Annotated[str, Meta(max_length=40)], ...],
        Meta(max_length=20, description="decision, constraint, trap, lesson, note, …; trail (a session), or of trails: prompt, answer, command, commit."),
    ] = ()  # fmt: skip
    kinds: Annotated[
        tuple[Literal["prompt", "answer", "command", "commit", "session"], ...],
        Meta(max_length=5, extra_json_schema=_UNLISTED),
    ] = ()
    tag: UnlistedName = ""
    author: UnlistedName = ""
    path: Path = ""
    since: Annotated[str, Meta(max_length=40, description="A date, 2h, 3d.")] = ""
    ended: Annotated[bool, Meta(description="With superseded, resolved, expired.")] = False
    limit: Annotated[int, Meta(ge=1, le=100, extra_json_schema=_UNLISTED)] = 10
    offset: Annotated[int, Meta(ge=0, le=100_000)] = 0
    budget: Budget = 2_000


class ShowArguments(_Arguments, frozen=True):
    id: Annotated[str, Meta(min_length=1, max_length=300)]
    offset: Annotated[int, Meta(ge=0, le=10_000_000)] = 0
    budget: Budget = 3_000


class CodeArguments(_Arguments, frozen=True):
    action: Annotated[
        Literal["find", "search", "show", "outline", "refs", "calls", "impact", "map", "status"],
        Meta(description="find, search: definitions by name, by what they do. show: a symbol's text, users, tests, memory. outline: a file's symbols. refs: its users. calls: what it uses. impact: dependents, tests to run. map: where to begin a task."),
    ] = "find"  # fmt: skip
    of: Annotated[
        Paths,
        Meta(max_length=100, description="FILE:Class.method, a name or its end, a file; for search words, for map the task."),
    ] = ()  # fmt: skip
    kind: Annotated[str, Meta(max_length=40, description="function, class, test, …")] = ""
    path: Path = ""
    grade: Annotated[Literal["proven", "likely", "named"], Meta(extra_json_schema=_UNLISTED)] = "named"
    revision: Annotated[str, Meta(max_length=200, description="For impact: changes since this commit.")] = ""
    depth: Annotated[int, Meta(ge=1, le=1_000, extra_json_schema=_UNLISTED)] = 100
    limit: Annotated[int, Meta(ge=1, le=1_000, extra_json_schema=_UNLISTED)] = 30
    offset: Annotated[int, Meta(ge=0, le=10_000_000)] = 0
    budget: Budget = 3_000


class RememberArguments(_Arguments, frozen=True):
    text: Annotated[str, Meta(min_length=1, max_length=8_000)]
    type: Annotated[
        str,
        Meta(max_length=40, description="decision, constraint (a rule to obey), trap, lesson (how it is done here), note, or one of this project."),
    ] = "note"  # fmt: skip
    about: Annotated[
        Paths,
        Meta(max_length=100, description="FILE, FILE:10-20 or FILE:SYMBOL from the project's folder, or an id."),
    ] = ()  # fmt: skip
    tags: Annotated[tuple[Name, ...], Meta(max_length=100)] = ()
    rationale: Words = ""
    alternatives: Annotated[tuple[Words, ...], Meta(max_length=100, extra_json_schema=_UNLISTED)] = ()
    severity: Annotated[Literal["", "low", "medium", "high", "critical"], Meta(extra_json_schema=_UNLISTED)] = ""
    remedy: Words = ""
    check: Annotated[str, Meta(max_length=8_000, description="A command that fails if violated.")] = ""
    expires: Annotated[str, Meta(max_length=40, extra_json_schema=_UNLISTED)] = ""
    evidence: Annotated[
        tuple[Annotated[str, Meta(max_length=300)], ...],
        Meta(max_length=100, extra_json_schema=_UNLISTED),
    ] = ()
    fields: Annotated[dict[str, Any], Meta(max_length=50, description="alternatives, severity, expires, …")] = (
        msgspec.field(default_factory=dict)
    )
    confidence: Annotated[int, Meta(ge=0, le=100, extra_json_schema=_UNLISTED)] = 100
    supersedes: Ids = ()
    key: Key = ""


class ReviseArguments(_Arguments, frozen=True):
    ids: Annotated[Ids, Meta(min_length=1)]
    action: Annotated[
        Literal["state", "replace", "split", "set", "link", "confirm"],
        Meta(description="replace: by `text`; several become one. split: into `texts`. confirm: it still holds."),
    ]  # fmt: skip
    state: Annotated[
        str,
        Meta(max_length=40, description="decision: accepted, rejected, deferred. constraint, trap: active, resolved, expired. step: todo, doing, blocked, done, dropped."),
    ] = ""  # fmt: skip
    reason: Annotated[str, Meta(max_length=2_000)] = ""
    text: Words = ""
    texts: Annotated[tuple[Words, ...], Meta(max_length=100)] = ()
    fields: Annotated[dict[str, Any], Meta(max_length=20)] = msgspec.field(default_factory=dict)
    relation: Literal["", "contradicts", "caused", "resolves", "depends_on", "part_of", "references"] = ""
    target: Name = ""
    key: Key = ""


class ClaimArguments(_Arguments, frozen=True):
    action: Literal["list", "take", "release"] = "list"
    paths: Annotated[Paths, Meta(max_length=100, description="Files, folders, globs or FILE:SYMBOL.")] = ()
    text: Annotated[str, Meta(max_length=2_000, description="What for.")] = ""
    shared: bool = False
    minutes: Annotated[int, Meta(ge=1, le=10_080, extra_json_schema=_UNLISTED)] = 120
    ids: Ids = ()
    budget: BudgetOfList = 1_500
    key: Key = ""


# Listed as text: not all clients pass on a choice of two types.
_Place = Annotated[int | Name, Meta(extra_json_schema={"type": "string"})]


class NewStepArgument(_Arguments, frozen=True):
    text: Annotated[str, Meta(min_length=1, max_length=8_000)]
    after: Annotated[tuple[_Place, ...], Meta(max_length=100, description="Numbers here from 1, or ids.")] = ()
    paths: Annotated[Paths, Meta(max_length=100)] = ()
    priority: Annotated[int, Meta(ge=0, le=100, extra_json_schema=_UNLISTED)] = 50


class PlanArguments(_Arguments, frozen=True):
    action: Annotated[
        Literal["list", "show", "make", "add", "next", "done", "block", "drop", "reopen"],
        Meta(description="next: take a step that is ready, with a claim on its paths. done, block, drop, reopen: `ids`."),
    ] = "list"  # fmt: skip
    plan: Name = ""
    text: Words = ""
    rationale: Annotated[str, Meta(max_length=8_000, extra_json_schema=_UNLISTED)] = ""
    steps: Annotated[tuple[NewStepArgument, ...], Meta(max_length=200)] = ()
    ids: Ids = ()
    reason: Annotated[str, Meta(max_length=2_000)] = ""
    budget: BudgetOfList = 2_000
    key: Key = ""


class MessageArguments(_Arguments, frozen=True):
    action: Annotated[
        Literal["inbox", "send", "answer", "read", "handoff", "accept", "close"],
        Meta(description="answer, read: the message `id`. handoff: what was done, and what is `unfinished`. accept, close: the handoff `id`."),
    ] = "inbox"  # fmt: skip
    id: Name = ""
    to: Annotated[str, Meta(max_length=100)] = ""
    text: Words = ""
    ref: UnlistedName = ""
    needs_answer: bool = False
    files: Annotated[Paths, Meta(max_length=200)] = ()
    tests: Annotated[str, Meta(max_length=2_000)] = ""
    unfinished: Annotated[tuple[Words, ...], Meta(max_length=100)] = ()
    plan: UnlistedName = ""
    corrects: UnlistedName = ""
    budget: BudgetOfList = 2_000
    key: Key = ""


_T = TypeVar("_T", bound=msgspec.Struct)


def input_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON Schema of a tool's arguments for the list of tools, which models read in each session.

    It is short: limits, defaults and the ban of unknown fields are left out, and enforced all the same. It has no
    references, because some clients do not resolve them.
    """
    _, components = msgspec.json.schema_components([kind], ref_template="#/{name}")
    schema = _listed(components[kind.__name__], components)
    assert isinstance(schema, dict)
    return {"type": "object", "properties": {}, **schema}


def _listed(schema: Mapping[str, Any], components: Mapping[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        return _listed(components[schema["$ref"][2:]], components)
    kept = {name: value for name, value in schema.items() if name in _LISTED and value}
    if "properties" in kept:
        fields = kept["properties"].items()
        kept["properties"] = {name: _listed(inner, components) for name, inner in fields if "unlisted" not in inner}
    if "items" in kept:
        kept["items"] = _listed(kept["items"], components)
    if "enum" in kept:  # some clients need a type beside it, and no empty value
        kept = {"type": "string", **kept, "enum": [word for word in kept["enum"] if word]}
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
    _, components = msgspec.json.schema_components([kind])
    schema = components[kind.__name__]["properties"][found[1]]
    return f"Allowed: {', '.join(filter(None, schema.get('items', schema).get('enum', ())))}."


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
