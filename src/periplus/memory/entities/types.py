"""The table of entity types: the payload of each type, its states, and the consequences of a change of state.

One row has all about a type: its schema (``memory.entities.schemas``), the states and which may follow which, the
fields that a plain update may set, what a change of state takes with it in the same batch, and when it goes stale. A
payload is checked at every write, never trusted at a read.
"""

from __future__ import annotations

__all__ = [
    "ANCHORED",
    "CANDIDATE",
    "COMMON_FIELDS",
    "CONTEXT_REF",
    "DISPATCHED",
    "EXPIRING",
    "LIST_LENGTHS",
    "MEMORY_TYPES",
    "NOT_REMEMBERED",
    "SKILL_CANDIDATE",
    "TAG_BYTES_MAX",
    "TEXT_CHARACTERS_MAX",
    "TYPES",
    "UNSEARCHED",
    "Cascade",
    "MemoryType",
    "check_common",
    "check_said",
    "check_secrets",
    "check_tags",
    "initial_states",
    "is_ended",
    "memory_types",
    "remembered_row",
    "row_of",
    "rows_of",
    "state_of",
]

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import SecretFoundError, UsageError
from periplus.base.named_tuple import NamedTuple
from periplus.journal import EntityType, MergeRules
from periplus.memory.entities.trail_packing import TRAILS_AT_REST

if TYPE_CHECKING:
    from periplus.journal import Said
    from periplus.memory.entities.schemas import Candidate, Common

TEXT_CHARACTERS_MAX: Final = 8_000
TAG_BYTES_MAX: Final = 256  # the limit of an atom of a context
_CONTROLS: Final = frozenset(map(chr, (*range(32), *range(127, 160))))
LIST_LENGTHS: Final = {"tags": 100, "about": 100, "evidence": 100, "relations": 100}
_STAMP: Final = "updated"
_LATEST: Final = frozenset({_STAMP, "seen", "confirmed"})


_SAID: Final = {
    "summary": ("reason or name in this change", "Leave it out; if it is not a secret, insist with --insist where the command has it."),
    "key": ("key", "Choose another one: it stays in the journal."),
    "writer": ("name of who writes", "Give another with --as, or PERIPLUS_AGENT."),
    "session": ("name of the session", "Choose another one."),
}  # fmt: skip
_SAID_CHARACTERS_MAX: Final = 1_200  # a summary keeps fewer: a secret that begins within them is seen whole
_BROUGHT_IN: Final = frozenset({"import", "external_edit"})
_RECORDED: Final = frozenset({"run", "trail"})


class Cascade(NamedTuple):
    """The consequence of entering one of the states ``into``, in the same batch. It reaches the entities of type
    ``item_type`` whose field ``field`` holds this one's id or, where ``is_own`` is set, the one that this one's
    field names. Of them, those in one of ``states`` go to ``to``.
    """

    into: frozenset[str]
    item_type: str
    field: str
    states: frozenset[str]
    to: str
    is_own: bool = False


class MemoryType(NamedTuple):
    """A row of the table.

    ``weight`` is in hundredths: the weight of a hit of this type beside others in recall. ``sets`` names the arrays
    that merge by element where separate clones wrote; an element added in both is kept. ``transitions`` says which
    states may follow a state, ``touchable`` which fields a plain update may set. ``replaced_state`` is the state of a
    superseded entity, empty where it keeps its own. ``linked`` names the fields by which entities are found
    (``memory.fulltext.links``). ``old_states`` maps names of states in earlier versions to the present ones. For a
    declared type (``memory.entities.declared_types``) ``own`` are its own fields, ``own_schema`` their JSON Schema.

    The others are rules for merging what separate clones wrote (see ``journal.state.entity.MergeRules``): the fields
    of each of ``groups`` are one value and come from one clone; of ``latest``, times besides those of every type, the
    greatest holds, and of a field in ``ranks`` the first of its values; where they agree on all else of a group,
    nothing in ``incidental`` is in conflict, and the value with the most in ``withheld`` is shown.
    """

    name: str
    prefix: str
    shape: type[msgspec.Struct] | str
    is_projected: bool
    default_state: str
    ended_states: frozenset[str]
    weight: int
    meaning: str
    sets: frozenset[str] = frozenset({"tags", "about", "evidence", "relations"})
    transitions: Mapping[str, frozenset[str]] = {}
    touchable: frozenset[str] = frozenset()
    cascades: tuple[Cascade, ...] = ()
    replaced_state: str = ""
    stale_when: str = ""
    linked: frozenset[str] = frozenset()
    reads_through: bool = False
    old_states: Mapping[str, str] = {}
    own: frozenset[str] = frozenset()
    own_schema: Mapping[str, JSONValue] | None = None
    is_recalled: bool = True
    groups: tuple[frozenset[str], ...] = ()
    latest: frozenset[str] = frozenset()
    ranks: tuple[tuple[str, tuple[str, ...]], ...] = ()
    incidental: frozenset[str] = frozenset()
    withheld: str = ""

    @property
    def schema(self) -> type[msgspec.Struct]:
        """Return the payload shape: ``shape``, or the shape of that name in ``memory.entities.schemas``, which
        readers do not load.
        """
        if not isinstance(self.shape, str):
            return self.shape
        from periplus.memory.entities import schemas

        found: type[msgspec.Struct] = getattr(schemas, self.shape)
        return found

    @property
    def may_expire(self) -> bool:
        """Return True where an entity of this type may have an expiry (``expires``)."""
        return self.stale_when == EXPIRING

    @property
    def fields(self) -> frozenset[str]:
        """Return the names of all fields that an entity of this type may have."""
        return frozenset(self.schema.__struct_fields__) | self.own


def _states(text: str) -> dict[str, frozenset[str]]:
    """Parse ``a > b c; b > d`` to a mapping of a state to those that may follow it."""
    found: dict[str, frozenset[str]] = {}
    for part in text.split(";"):
        state, _, following = part.partition(">")
        found[state.strip()] = frozenset(following.split())
    return found


COMMON_FIELDS: Final = frozenset({"text", "tags", "about", "evidence", "confidence", "relations"})
ANCHORED: Final = "what it is about changed since"
EXPIRING: Final = f"{ANCHORED}, or its time is over"
_RULE_STATES: Final = _states("active > resolved expired; resolved > active; expired > active")
_WORK_STATES: Final = _states(
    "todo > doing blocked review done dropped; doing > todo blocked review done dropped; blocked > todo doing dropped;"
    " review > doing done dropped; done > review; dropped > todo"
)
_WORK_ENDED: Final = frozenset({"done", "dropped"})
_WORK_OPEN: Final = frozenset({"todo", "doing", "blocked", "review"})
_WORK_FIELDS: Final = COMMON_FIELDS | {"priority", "assignee", "depends_on", "reason"}
_ASSIGNMENT_OPEN: Final = frozenset({"offered", "running", "waiting", "submitted", "verified", "reviewed"})
_ASSIGNMENT_LEFT: Final = frozenset({"failed", "cancelled", "timed_out"})
_ASSIGNMENT_STATES: Final = _states(
    "offered > running failed cancelled; running > waiting submitted failed cancelled timed_out;"
    " waiting > running failed cancelled timed_out; submitted > verified running waiting failed cancelled;"
    " verified > reviewed integrated running waiting failed cancelled; reviewed > integrated running waiting failed cancelled;"
    " failed > offered cancelled; timed_out > offered cancelled; cancelled > offered; integrated >"
)
_STATE_AND_REASON: Final = frozenset({"state", "reason"})
_WORK_SETS: Final = frozenset({"tags", "about", "evidence", "relations", "depends_on"})

_PROPOSED: Final = frozenset(
    {"source_store", "source_lineage", "item_type", "item_id", "version", "rev", "payload", "why", "subject"}
)
_SKILL: Final = frozenset({"name", "description", "body", "rule", "commands", "wording"})
_TRAIL: Final = frozenset(
    {
        "digest",
        "object",
        "bytes",
        "source_sha256",
        "counts",
        "skipped",
        "unknown",
        "unreadable_lines",
        "masked",
        "started",
        "ended",
        "status",
        "ending",
        "withheld",
        "rewritten",
    }
)  # fields about the bytes of a trail
_SEALED_ANEW: Final = frozenset(
    {"digest", "object", "bytes", "title", "cwd", "branch", "model", "files"}
)  # differs in each clone that imports the same: by salts, names of folders, redactions

CANDIDATE: Final = "candidate"
CONTEXT_REF: Final = "context_ref"
SKILL_CANDIDATE: Final = "skill_candidate"
DISPATCHED: Final = frozenset({"assignment", "dispatch", "loop", "question"})  # several agents at once
UNSEARCHED: Final = DISPATCHED | frozenset(
    {CANDIDATE, CONTEXT_REF, SKILL_CANDIDATE, "agent", "claim", "message", "run", "session"}
)  # recall finds none of these
NOT_REMEMBERED: Final = frozenset({*UNSEARCHED, "trail", "plan", "step", "handoff"})  # not written by remembering
TYPES: Final[tuple[MemoryType, ...]] = (
    MemoryType("agent", "agt", "Agent", False, "active", frozenset({"retired"}), 0, "who works here, with trust and level",
               frozenset({"capabilities"}), transitions=_states("active > retired; retired > active"),
               groups=(frozenset({"run", "step"}),)),
    MemoryType("assignment", "asg", "Assignment", False, "offered", _ASSIGNMENT_LEFT | {"integrated"}, 0,
               "a step that one agent does for a dispatch", transitions=_ASSIGNMENT_STATES,
               cascades=(Cascade(_ASSIGNMENT_LEFT, "claim", "claim", frozenset({"held"}), "released", is_own=True),
                         Cascade(frozenset({"integrated"}), "step", "step", frozenset({"todo", "doing", "review"}), "done", is_own=True),
                         Cascade(_ASSIGNMENT_LEFT | {"integrated"}, "question", "assignment", frozenset({"open"}), "expired")),
               linked=frozenset({"state", "dispatch", "step"}), reads_through=True),
    MemoryType(CANDIDATE, "cnd", "Candidate", False, "pending", frozenset({"accepted", "rejected"}), 0,
               "proposed memory, of another project or of reflection, to accept or refuse",
               transitions=_states("pending > accepted rejected; rejected > pending; accepted >"), linked=frozenset({"state"}),
               old_states={"open": "pending", "refused": "rejected"},
               groups=(_STATE_AND_REASON | {"accepted_as"}, _PROPOSED)),
    MemoryType("claim", "clm", "Claim", False, "held", frozenset({"released", "expired"}), 0, "who works on which paths now",
               transitions=_states("waiting > held released expired; held > released expired; released >; expired >"),
               touchable=frozenset({"text", "tags"}),
               cascades=(Cascade(frozenset({"released", "expired"}), "step", "step", frozenset({"doing"}), "todo", is_own=True),),
               stale_when="its time is over", linked=frozenset({"state", "step", "session", "holder_id"}), reads_through=True,
               latest=frozenset({"expires"}), ranks=(("state", ("released", "held", "expired", "waiting")),)),
    MemoryType("constraint", "con", "Constraint", True, "active", frozenset({"resolved", "expired"}), 130, "a rule to obey",
               transitions=_RULE_STATES, touchable=COMMON_FIELDS | {"check"}, replaced_state="resolved", stale_when=ANCHORED),
    MemoryType(CONTEXT_REF, "ref", "ContextRef", False, "", frozenset(), 0, "a name for a context", frozenset(),
               groups=(frozenset({"target", "previous"}),), latest=frozenset({"previous"})),  # in whatever way they came to one target
    MemoryType("decision", "dec", "Decision", True, "accepted", frozenset({"rejected", "superseded"}), 125,
               "a choice, with rationale and alternatives",
               frozenset({"tags", "about", "evidence", "relations", "alternatives"}),
               transitions=_states(
                   "proposed > accepted rejected deferred superseded; accepted > deferred superseded;"
                   " deferred > proposed accepted rejected superseded; rejected > proposed superseded; superseded >"),
               touchable=COMMON_FIELDS | {"rationale", "alternatives"}, replaced_state="superseded", stale_when=ANCHORED),
    MemoryType("dispatch", "dsp", "Dispatch", False, "open", frozenset({"done", "stopped"}), 0,
               "an order to do a plan with several agents", transitions=_states("open > done stopped; stopped > open; done >"),
               cascades=(Cascade(frozenset({"stopped"}), "assignment", "dispatch", _ASSIGNMENT_OPEN, "cancelled"),),
               linked=frozenset({"state", "plan"}), reads_through=True),
    MemoryType("handoff", "hof", "Handoff", True, "open", frozenset({"closed"}), 110, "the state of work that is passed on",
               transitions=_states("open > accepted closed; accepted > closed; closed >"), replaced_state="closed",
               stale_when=ANCHORED, linked=frozenset({"state", "recipient", "plan"})),
    MemoryType("lesson", "les", "Lesson", True, "active", frozenset({"superseded"}), 115, "how something is done here",
               transitions=_states("active > superseded; superseded > active"), touchable=COMMON_FIELDS,
               replaced_state="superseded", stale_when=ANCHORED),
    MemoryType("loop", "lop", "Loop", False, "open", frozenset({"closed"}), 0, "phases of work by several agents, each with a gate",
               transitions=_states("open > closed; closed > open"), linked=frozenset({"state"})),
    MemoryType("message", "msg", "Message", False, "sent", frozenset({"answered"}), 0, "what one agent left for another",
               frozenset(), transitions=_states("sent > read answered; read > answered; answered >"),
               linked=frozenset({"state", "recipient", "thread"})),
    MemoryType("note", "not", "Note", False, "", frozenset(), 100, "an observation; may expire",
               touchable=COMMON_FIELDS | {"expires"}, stale_when=EXPIRING),
    MemoryType("plan", "pln", "Plan", True, "todo", _WORK_ENDED, 90, "work to do, in steps", _WORK_SETS,
               transitions=_WORK_STATES, touchable=_WORK_FIELDS | {"rationale"},
               cascades=(Cascade(_WORK_ENDED, "step", "plan", _WORK_OPEN, "dropped"),), replaced_state="dropped",
               stale_when=ANCHORED, linked=frozenset({"state"}), groups=(_STATE_AND_REASON,)),
    MemoryType("question", "qst", "Question", False, "open", frozenset({"answered", "expired"}), 0,
               "what an agent at work asks a person", transitions=_states("open > answered expired; answered >; expired > answered"),
               stale_when="its time is over", linked=frozenset({"state", "assignment", "dispatch"}), reads_through=True),
    MemoryType("run", "run", "RunCard", False, "open", frozenset({"sealed"}), 0, "a run that is or was recorded",
               frozenset(), transitions=_states("open > ended sealed; ended > sealed; sealed >"),
               groups=(frozenset({"state", "status", "trail", "digest"}),)),
    MemoryType("session", "ses", "Session", False, "open", frozenset({"sealed"}), 0, "who worked when",
               frozenset(), transitions=_states("open > sealed; sealed > open"),
               touchable=frozenset({"model", "title", "seen", "trail"}), linked=frozenset({"state", "name", "agent"}),
               cascades=(Cascade(frozenset({"sealed"}), "claim", "session", frozenset({"held", "waiting"}), "released"),),
               groups=(frozenset({"state", "ended"}),), latest=frozenset({"ended"})),
    MemoryType(SKILL_CANDIDATE, "skc", "SkillCandidate", False, "pending", frozenset({"accepted", "rejected"}), 0,
               "a skill that sessions of the agent suggest, for a person to accept", frozenset({"turns"}),
               transitions=_states("pending > accepted rejected; rejected > pending; accepted >"), linked=frozenset({"state"}),
               groups=(_STATE_AND_REASON | {"accepted_as"}, _SKILL)),
    MemoryType("step", "stp", "Step", False, "todo", _WORK_ENDED, 80, "a piece of a plan, for one agent", _WORK_SETS,
               transitions=_WORK_STATES, touchable=_WORK_FIELDS | {"place"},
               cascades=(Cascade(_WORK_ENDED | {"review"}, "claim", "step", frozenset({"held"}), "released"),),
               replaced_state="dropped", stale_when=ANCHORED, linked=frozenset({"state", "plan", "assignee"}), reads_through=True,
               groups=(_STATE_AND_REASON,)),
    MemoryType("trail", "trl", "TrailCard", False, "", frozenset(), 100, "the record of one agent run, or of git history",
               frozenset(), groups=(_TRAIL,), incidental=_SEALED_ANEW, withheld="withheld"),
    MemoryType("trap", "trp", "Trap", True, "active", frozenset({"resolved", "expired"}), 130,
               "a pitfall, with severity and what to do", transitions=_RULE_STATES,
               touchable=COMMON_FIELDS | {"severity", "remedy", "check"}, replaced_state="resolved", stale_when=ANCHORED,
               linked=frozenset({"severity"})),
)  # fmt: skip

MEMORY_TYPES: Final[dict[str, MemoryType]] = {row.name: row for row in TYPES}


def state_of(item_type: str, value: Mapping[str, JSONValue], default: str = "") -> str:
    """Return the state in a payload, by its present name; empty where a type has none."""
    row = MEMORY_TYPES.get(item_type)
    state = value.get("state", row.default_state if row is not None else default)
    said = state if isinstance(state, str) else ""
    return said if row is None else row.old_states.get(said, said)


def row_of(types: Mapping[str, EntityType], name: str) -> MemoryType | None:
    """Return the row of a type, one of ours or a declared one; ``types`` is the table that its journal was opened
    with.
    """
    row = MEMORY_TYPES.get(name)
    if row is None and name in types:
        declared = types[name].declared
        return declared if isinstance(declared, MemoryType) else None
    return row


def rows_of(types: Mapping[str, EntityType]) -> dict[str, MemoryType]:
    """Return all rows by name: ours, then the declared ones."""
    declared = {name: row for name in sorted(types) if (row := row_of(types, name)) is not None}
    return MEMORY_TYPES | declared


def remembered_row(types: Mapping[str, EntityType], item_type: str) -> MemoryType:
    """Return the row of a type that ``remember`` writes. Raises UsageError for any other."""
    row = row_of(types, item_type)
    if row is None or row.name in NOT_REMEMBERED:
        names = ", ".join(name for name in rows_of(types) if name not in NOT_REMEMBERED)
        raise UsageError(f"unknown type {item_type!r}", safe="Nothing was written.", mend=f"Known are: {names}.")
    return row


def check_tags(tags: JSONValue | tuple[str, ...]) -> None:
    """Raise UsageError for tags that nobody could search. Checked for new tags only: existing ones stay."""
    for tag in tags if isinstance(tags, (list, tuple)) else ():
        if not isinstance(tag, str):
            continue  # what the schema refuses
        size = len(tag.encode("utf-8", "surrogatepass"))
        if not tag.strip():
            wrong = "a tag is empty"
        elif size > TAG_BYTES_MAX:
            wrong = f"the tag {tag[:40]!r}… has {size:,} bytes; the limit is {TAG_BYTES_MAX}"
        elif not _CONTROLS.isdisjoint(tag):
            wrong = f"the tag {tag[:80]!r} has control characters"
        else:
            continue
        raise UsageError(
            wrong, safe="Nothing was written.", mend="A tag is a word or a few words, to find the entity again."
        )


def is_ended(item_type: str, state: object, types: Mapping[str, EntityType] | None = None) -> bool:
    """Return True where an entity in this state is no longer in force."""
    row = row_of(types or {}, item_type)
    return row is not None and isinstance(state, str) and state in row.ended_states


def initial_states(row: MemoryType) -> frozenset[str]:
    """Return the states in which a new entity may be written: all but those that only another entity leads to."""
    return frozenset(row.transitions) - ({row.replaced_state} if row.replaced_state == "superseded" else set())


def memory_types(*, allow_secrets: bool = False) -> dict[str, EntityType]:
    """Return the table as the journal takes it. ``allow_secrets`` for a person who insists."""
    return {
        row.name: EntityType(
            row.name, row.prefix, row.is_projected, _checker(row, allow_secrets),
            MergeRules(row.sets, _LATEST | row.latest, row.groups, row.ranks, row.incidental, row.withheld, _STAMP),
            row.reads_through, packing=TRAILS_AT_REST if row.name == "trail" else None,
            lengths=LIST_LENGTHS,
        )
        for row in TYPES
    }  # fmt: skip


def _checker(row: MemoryType, allow_secrets: bool) -> Callable[[dict[str, JSONValue]], None]:  # noqa: FBT001 - inner
    def check(payload: dict[str, JSONValue]) -> None:
        from periplus.memory.entities.schemas import Candidate, Common, Message, Session, SkillCandidate, Work

        try:
            value = msgspec.convert(payload, row.schema)
        except msgspec.ValidationError as error:
            raise UsageError(f"not a {row.name}: {error}", safe="Nothing was written.") from error
        if isinstance(value, Common):
            check_common(row.name, value)
        if isinstance(value, Work) and not 0 <= value.priority <= 100:
            raise UsageError(f"priority {value.priority} is not between 0 and 100", safe="Nothing was written.")
        if isinstance(value, Candidate):
            _check_candidate(value)
        if isinstance(value, Common | Candidate | Session | Message | SkillCandidate) and not allow_secrets:
            check_secrets(row.name, payload)

    return check


def check_common(name: str, value: Common) -> None:
    if not value.text.strip():
        raise UsageError(f"a {name} needs a text", safe="Nothing was written.")
    if len(value.text) > TEXT_CHARACTERS_MAX:
        raise UsageError(
            f"the text has {len(value.text):,} characters; the limit is {TEXT_CHARACTERS_MAX:,}",
            safe="Nothing was written.",
            mend="Shorten it, and name a file for the rest.",
        )
    if not 0 <= value.confidence <= 100:
        raise UsageError(f"confidence {value.confidence} is not between 0 and 100", safe="Nothing was written.")


def _check_candidate(value: Candidate) -> None:
    if value.provenance.kind == "reflection":
        wanted = {"why": value.why, "subject": value.subject}
    else:
        wanted = {name: getattr(value, name) for name in ("source_store", "source_lineage", "item_id", "version")}
    missing = [name for name, held in wanted.items() if not held]
    if missing:
        raise UsageError(f"not a candidate: it lacks {', '.join(missing)}", safe="Nothing was written.")


def check_secrets(name: str, payload: dict[str, JSONValue]) -> None:
    from periplus.base.text.secrets import (
        find_secrets,
        may_hold_secret,
    )  # imported here: readers do not compile its patterns

    texts = _texts(payload, "")
    if not may_hold_secret("\n".join([text for _, text in texts])):
        return
    for field, text in texts:
        found = find_secrets(text)
        if found:
            secret = found[0]
            raise SecretFoundError(
                f"the {name}'s {field} holds what looks like a secret ({secret.kind}, characters {secret.start} to {secret.end})",
                safe="Nothing was written.",
                mend="Leave it out, or insist with --insist if it is not a secret.",
            )


def check_said(said: Said) -> None:
    """Check the texts of a record beside its payload like the payload. Raises SecretFoundError. Texts that are
    recorded or imported are masked where they are read: to refuse them here would lose them.
    """
    if not said.text or said.action in _BROUGHT_IN or said.item_type in _RECORDED:
        return
    from periplus.base.text.secrets import find_secrets

    found = find_secrets(said.text[:_SAID_CHARACTERS_MAX])
    if found:
        what, mend = _SAID[said.part]
        of = f" of the {said.item_type}" if said.item_type else ""
        raise SecretFoundError(
            f"the {what}{of} holds what looks like a secret ({found[0].kind})", safe="Nothing was written.", mend=mend
        )


def _texts(value: JSONValue, path: str) -> list[tuple[str, str]]:
    if isinstance(value, str):
        return [(path, value)]
    if isinstance(value, dict):
        return [pair for key, item in value.items() for pair in _texts(item, f"{path}.{key}" if path else key)]
    if isinstance(value, list | tuple):
        return [pair for index, item in enumerate(value) for pair in _texts(item, f"{path}[{index}]")]
    return []
