"""The table of entity types: what an entity of each type holds, the states it passes through, how it is called.

A payload is a JSON object with ``v`` (its shape's version) and the fields below; fields that this version does not
know are kept where an entity is updated. Checked at every write, never trusted at a read.
"""

from __future__ import annotations

__all__ = [
    "CANDIDATE",
    "MEMORY_TYPES",
    "NOT_REMEMBERED",
    "PAYLOAD_VERSION",
    "TEXT_CHARACTERS_MAX",
    "TYPES",
    "UNSEARCHED",
    "About",
    "Agent",
    "Candidate",
    "Constraint",
    "Decision",
    "Evidence",
    "Lesson",
    "MemoryType",
    "Message",
    "Note",
    "Process",
    "Provenance",
    "Relation",
    "RunCard",
    "TrailCard",
    "Trap",
    "memory_types",
]

from collections.abc import Callable
from typing import Final, Literal, NamedTuple

import msgspec

from periplus.base.canonical import JSONValue
from periplus.base.errors import SecretFoundError, UsageError
from periplus.base.secrets import find_secrets
from periplus.journal import EntityType, MergeRules

PAYLOAD_VERSION: Final = 1
TEXT_CHARACTERS_MAX: Final = 8_000
_LIST_MAX: Final = 100
_LATEST: Final = frozenset({"updated"})


class About(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a memory is about. ``sha256`` is that of the file when it was written, by which it is seen to be stale."""

    kind: Literal["path", "symbol", "entity"]
    ref: str
    sha256: str = ""


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where it is written down: a journal record (seq), a step (trail id ``#`` index) or a commit."""

    kind: Literal["record", "step", "commit"]
    ref: str
    quote: str = ""


class Relation(msgspec.Struct, frozen=True):
    kind: Literal["supersedes", "contradicts", "caused", "resolves", "depends_on", "part_of", "references"]
    target: str


class Provenance(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who says so: a person, an agent, reflection over a trail, an import, a merge, or another project."""

    kind: Literal["person", "agent", "reflection", "import", "merge", "other_project"]
    name: str = ""
    source: str = ""


class Common(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    v: int = PAYLOAD_VERSION
    text: str
    tags: tuple[str, ...] = ()
    about: tuple[About, ...] = ()
    author: str = ""
    session: str = ""
    evidence: tuple[Evidence, ...] = ()
    confidence: int = 100
    created: str = ""
    updated: str = ""
    relations: tuple[Relation, ...] = ()
    provenance: Provenance = Provenance("person")


class Decision(Common, frozen=True, omit_defaults=True, kw_only=True):
    state: Literal["proposed", "accepted", "rejected", "deferred", "superseded"] = "accepted"
    rationale: str = ""
    alternatives: tuple[str, ...] = ()


class Constraint(Common, frozen=True, omit_defaults=True, kw_only=True):
    state: Literal["active", "resolved", "expired"] = "active"
    check: str = ""


class Trap(Common, frozen=True, omit_defaults=True, kw_only=True):
    state: Literal["active", "resolved", "expired"] = "active"
    severity: Literal["low", "medium", "high", "critical"] = "medium"
    remedy: str = ""
    check: str = ""


class Lesson(Common, frozen=True, omit_defaults=True, kw_only=True):
    state: Literal["active", "superseded"] = "active"


class Note(Common, frozen=True, omit_defaults=True, kw_only=True):
    expires: str = ""


class TrailCard(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What the journal says of a trail: which object it is and what it holds. ``digest`` is the trail's own."""

    v: int = PAYLOAD_VERSION
    digest: str
    object: str
    bytes: int
    format: str
    agent: str
    session_id: str
    source_sha256: str
    title: str = ""
    cwd: str = ""
    model: str = ""
    started: str = ""
    ended: str = ""
    status: str = "success"
    counts: dict[str, int] = {}
    skipped: dict[str, int] = {}
    unknown: dict[str, int] = {}
    masked: int = 0
    files: tuple[str, ...] = ()
    parent: str = ""


class Candidate(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An entity of another project as it was there; ``accepted_as`` is the id of ours that was made of it."""

    v: int = PAYLOAD_VERSION
    state: Literal["open", "accepted", "refused"] = "open"
    source_store: str
    source_lineage: str
    item_type: str
    item_id: str
    version: str
    rev: int
    payload: dict[str, object]
    created: str = ""
    accepted_as: str = ""
    provenance: Provenance = Provenance("other_project")


class Process(msgspec.Struct, frozen=True):
    """Which process carries a run; see ``periplus.base.processes``."""

    pid: int
    started: str
    boot: str
    host: str
    space: str


class RunCard(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A run that is or was recorded; its steps are observations of it. ``secret`` goes into the trail that it becomes."""

    v: int = PAYLOAD_VERSION
    state: Literal["open", "ended", "sealed"]
    agent: str
    title: str = ""
    model: str = ""
    host: str = ""
    cwd: str = ""
    base: str = ""
    parents: tuple[str, ...] = ()
    tool_version: str
    secret: str = ""
    started: str
    lineage: str
    first_seq: int
    process: Process | None = None
    session: str = ""
    status: Literal["success", "error", "partial", "cancelled"] = "partial"
    trail: str = ""
    digest: str = ""


class Message(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What one agent left for another. ``object`` is the SHA-256 of a text too long to stand here."""

    v: int = PAYLOAD_VERSION
    state: Literal["sent", "read", "answered"] = "sent"
    sender: str
    recipient: str
    text: str
    object: str = ""
    created: str
    run: str = ""
    step: int = 0
    session: str = ""


class Agent(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Who works here, by name: the sum of changes of trust, the level reached, permissions granted, the room entered."""

    v: int = PAYLOAD_VERSION
    state: Literal["active", "retired"] = "active"
    name: str
    trust: int = 0
    level: int = 0
    room: str = ""
    capabilities: tuple[str, ...] = ()
    created: str
    updated: str
    run: str = ""
    step: int = 0


class MemoryType(NamedTuple):
    """A row of the table. ``weight`` is in hundredths: how much a hit of this type counts beside others in recall.

    ``sets`` names the arrays that merge by element where clones wrote apart; what is added in both is kept.
    """

    name: str
    prefix: str
    schema: type[msgspec.Struct]
    is_projected: bool
    default_state: str
    ended_states: frozenset[str]
    weight: int
    meaning: str
    sets: frozenset[str] = frozenset({"tags", "about", "evidence", "relations"})


CANDIDATE: Final = "candidate"
UNSEARCHED: Final = frozenset({CANDIDATE, "agent", "message", "run"})  # recall finds none of these
NOT_REMEMBERED: Final = frozenset({*UNSEARCHED, "trail"})  # not written by remembering
TYPES: Final[tuple[MemoryType, ...]] = (
    MemoryType("agent", "agt", Agent, False, "active", frozenset({"retired"}), 0, "who works here, with trust and level",
               frozenset({"capabilities"})),
    MemoryType(CANDIDATE, "cnd", Candidate, False, "open", frozenset({"accepted", "refused"}), 0,
               "what another project knows, to accept or refuse"),
    MemoryType("constraint", "con", Constraint, True, "active", frozenset({"resolved", "expired"}), 130, "a rule to obey"),
    MemoryType("decision", "dec", Decision, True, "accepted", frozenset({"rejected", "superseded"}), 125,
               "a choice, with rationale and alternatives",
               frozenset({"tags", "about", "evidence", "relations", "alternatives"})),
    MemoryType("lesson", "les", Lesson, True, "active", frozenset({"superseded"}), 115, "how something is done here"),
    MemoryType("message", "msg", Message, False, "sent", frozenset({"answered"}), 0, "what one agent left for another",
               frozenset()),
    MemoryType("note", "not", Note, False, "", frozenset(), 100, "an observation"),
    MemoryType("run", "run", RunCard, False, "open", frozenset({"sealed"}), 0, "a run that is or was recorded",
               frozenset()),
    MemoryType("trail", "trl", TrailCard, False, "", frozenset(), 100, "the record of one agent run, or of git history",
               frozenset()),
    MemoryType("trap", "trp", Trap, True, "active", frozenset({"resolved", "expired"}), 130,
               "a pitfall, with severity and what to do"),
)  # fmt: skip

MEMORY_TYPES: Final[dict[str, MemoryType]] = {row.name: row for row in TYPES}


def memory_types(*, allow_secrets: bool = False) -> dict[str, EntityType]:
    """The table as the journal wants it. ``allow_secrets`` for a person who insists."""
    return {
        row.name: EntityType(
            row.name, row.prefix, row.is_projected, _checker(row, allow_secrets), MergeRules(row.sets, _LATEST)
        )
        for row in TYPES
    }


def _checker(row: MemoryType, allow_secrets: bool) -> Callable[[dict[str, JSONValue]], None]:  # noqa: FBT001 - inner
    def check(payload: dict[str, JSONValue]) -> None:
        try:
            value = msgspec.convert(payload, row.schema)
        except msgspec.ValidationError as error:
            raise UsageError(f"not a {row.name}: {error}", safe="Nothing was written.") from error
        if isinstance(value, Common):
            _check_common(row.name, value)
        if isinstance(value, Common | Candidate) and not allow_secrets:
            _check_secrets(row.name, payload)

    return check


def _check_common(name: str, value: Common) -> None:
    if not value.text.strip():
        raise UsageError(f"a {name} needs a text", safe="Nothing was written.")
    if len(value.text) > TEXT_CHARACTERS_MAX:
        raise UsageError(
            f"the text has {len(value.text):,} characters; the limit is {TEXT_CHARACTERS_MAX:,}",
            safe="Nothing was written.",
            mend="Say it shorter, and name a file that says the rest.",
        )
    if not 0 <= value.confidence <= 100:
        raise UsageError(f"confidence {value.confidence} is not between 0 and 100", safe="Nothing was written.")
    for field in ("tags", "about", "evidence", "relations"):
        if len(getattr(value, field)) > _LIST_MAX:
            raise UsageError(f"more than {_LIST_MAX} {field}", safe="Nothing was written.")


def _check_secrets(name: str, payload: dict[str, JSONValue]) -> None:
    for field, text in _texts(payload, ""):
        found = find_secrets(text)
        if found:
            secret = found[0]
            raise SecretFoundError(
                f"the {name}'s {field} holds what looks like a secret ({secret.kind}, characters {secret.start} to {secret.end})",
                safe="Nothing was written.",
                mend="Leave it out, or insist with --allow-secret if it is none.",
            )


def _texts(value: JSONValue, path: str) -> list[tuple[str, str]]:
    if isinstance(value, str):
        return [(path, value)]
    if isinstance(value, dict):
        return [pair for key, item in value.items() for pair in _texts(item, f"{path}.{key}" if path else key)]
    if isinstance(value, list | tuple):
        return [pair for index, item in enumerate(value) for pair in _texts(item, f"{path}[{index}]")]
    return []
