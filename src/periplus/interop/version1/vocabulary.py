"""Vocabulary of version 1 and its meaning here: kinds by folder and id, states, priorities. Tables only.

The nearest folder with a kind decides, then the prefix of the id, and only then the type stated in the file: a plan
may state the type ``feat``, and a candidate that of its proposal.
"""

from __future__ import annotations

__all__ = [
    "BY_NAME",
    "LABEL",
    "PRIORITIES",
    "STATES",
    "Kind",
    "kind_of",
    "reference",
    "state_of_word",
    "state_word",
    "type_name",
]

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from periplus.base.encoding.canonical import JSONValue
from periplus.base.ids import derived_id, is_id
from periplus.memory.entities.types import MEMORY_TYPES


class Kind(NamedTuple):
    """A kind of entity in version 1. ``name`` and old id identify its files; here it has type ``item_type``.

    ``folders`` and ``ids`` (prefixes of ids) are in the spelling of ``type_name``.
    """

    name: str
    item_type: str
    folders: frozenset[str]
    ids: frozenset[str]

    @property
    def prefix(self) -> str:
        return MEMORY_TYPES[self.item_type].prefix


def _kind(name: str, folders: str, ids: str, item_type: str = "") -> Kind:
    return Kind(name, item_type or name, frozenset([name, *folders.split()]), frozenset([name, *ids.split()]))


_KINDS: Final = (
    _kind("decision", "", "dec"),
    _kind("constraint", "", "cst con"),
    _kind("trap", "traps_host traps_private", "trp"),
    _kind("lesson", "", "les"),
    _kind("note", "runtime_note runtime runtime_host runtime_private", "not rtn runtime_note"),
    _kind("plan", "plan_item", "pln plan_item"),
    _kind("step", "plan_step", "stp plan_step"),
    _kind("claim", "", "clm"),
    _kind("handoff", "hand_off", "hnd hof"),
    _kind("message", "inbox inbox_message", "msg inbox_message"),
    _kind("candidate", "", "cnd"),
    _kind("instruction", "", "ins", "constraint"),
)
BY_NAME: Final[dict[str, Kind]] = {name: one for one in _KINDS for name in (one.name, *sorted(one.ids | one.folders))}
_BY_FOLDER: Final[dict[str, Kind]] = {name: one for one in _KINDS for name in one.folders}
_BY_ID: Final[dict[str, Kind]] = {name: one for one in _KINDS for name in one.ids}
_DECIDED: Final = frozenset({"accepted", "rejected"})  # inbox folders of candidates
_ID: Final = re.compile(
    r"([a-z][a-z_]{1,20}?)(?:[_#-]?\d[0-9a-f]*|[_#-](?:\d[0-9a-z_-]*|[0-9a-f][0-9a-f-]{3,}|[0-9a-hjkmnp-tv-z]{16}))",
    re.IGNORECASE,
)
LABEL: Final = re.compile(r"[a-z]{2,12}#\d{1,9}")

# Their words for each state of ours; the first is the one that is written.
STATES: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "decision": {
        "proposed": ("pending", "proposed", "draft"),
        "accepted": ("approved", "accepted", "active", "adopted"),
        "rejected": ("rejected", "declined"),
        "deferred": ("deferred", "postponed"),
        "superseded": ("superseded", "replaced", "obsolete", "deprecated", "archived"),
    },
    "constraint": {
        "active": ("active",),
        "resolved": ("resolved", "archived", "inactive", "obsolete"),
        "expired": ("expired",),
    },
    "trap": {
        "active": ("active",),
        "resolved": ("resolved", "archived", "fixed", "obsolete"),
        "expired": ("expired",),
    },
    "lesson": {
        "active": ("active",),
        "superseded": ("superseded", "archived", "resolved", "expired", "obsolete"),
    },
    "plan": {
        "todo": ("todo", "pending", "open", "planned", "not_started", "backlog"),
        "doing": ("in_progress", "doing", "active", "started"),
        "blocked": ("blocked", "on_hold"),
        "review": ("review", "in_review", "testing"),
        "done": ("done", "completed", "complete", "finished"),
        "dropped": ("dropped", "cancelled", "canceled", "abandoned", "skipped"),
    },
    "claim": {
        "held": ("active", "held"),
        "waiting": ("waiting", "queued"),
        "released": ("released", "done", "completed", "closed"),
        "expired": ("stale", "expired"),
    },
    "handoff": {
        "open": ("open", "pending"),
        "accepted": ("accepted", "acknowledged", "in_progress"),
        "closed": ("closed", "done", "completed", "resolved", "archived"),
    },
    "message": {
        "sent": ("pending", "sent", "unread"),
        "read": ("read",),
        "answered": ("acknowledged", "answered", "archived"),
    },
    "candidate": {
        "pending": ("pending", "open", "proposed"),
        "accepted": ("accepted", "approved"),
        "rejected": ("rejected", "refused", "declined"),
    },
}  # fmt: skip
STATES["step"] = STATES["plan"] | {"review": ("testing", "review", "in_review")}
STATES["instruction"] = STATES["constraint"]
_STATE_OF: Final = {
    name: {word: state for state, words in rows.items() for word in words} for name, rows in STATES.items()
}
PRIORITIES: Final = {"low": 25, "medium": 50, "normal": 50, "high": 75, "critical": 100, "urgent": 100}


def type_name(kind: str) -> str:
    """Normalise a type name from files or events: lower case, singular, underscores."""
    name = re.sub(r"[^a-z0-9]+", "_", kind.strip().lower()).strip("_")[:40]
    if name.endswith("ies") and len(name) > 4:
        return f"{name[:-3]}y"
    if name.endswith("s") and not name.endswith(("ss", "us", "is")) and len(name) > 2:
        return name[:-1]
    return name or "entity"


def kind_of(folder: str, old_id: str, stated: str, keys: Mapping[str, object]) -> Kind | None:
    """Return the kind of a file in ``folder`` (with slashes) that has the keys ``keys``; None where there is no
    counterpart here.
    """
    names = [type_name(name) for name in folder.split("/")] if folder else []
    found = next((_BY_FOLDER[name] for name in reversed(names) if name in _BY_FOLDER), None)
    if found is not None and found.name == "message":
        return _of_inbox(names[-1], old_id, stated, keys)
    return found or _of_id(old_id) or (BY_NAME.get(type_name(stated)) if stated else None)


def _of_inbox(folder: str, old_id: str, stated: str, keys: Mapping[str, object]) -> Kind:
    """Return the kind of a file in an inbox, which holds messages, and candidates that wait for a decision."""
    by_id = _of_id(old_id)
    if by_id is not None and by_id.name in ("candidate", "message"):
        return by_id
    proposes = BY_NAME.get(type_name(stated)) if stated else None
    has_recipient = any(key in keys for key in ("to", "recipient", "body", "requires_ack"))
    is_proposal = proposes is not None and proposes.name != "message" and not has_recipient
    return BY_NAME["candidate"] if folder in _DECIDED or is_proposal else BY_NAME["message"]


def _of_id(old_id: str) -> Kind | None:
    found = _ID.fullmatch(old_id)
    return None if found is None else _BY_ID.get(found[1].lower())


def state_of_word(name: str, word: str) -> str:
    """Return our state for a word of theirs; empty where there is none."""
    return _STATE_OF[name].get(re.sub(r"[\s-]+", "_", word.strip().lower()), "")


def state_word(name: str, key: str, before: JSONValue, state: str) -> str:
    """Return the word for our state under ``key``, where ``before`` stands: our own word, if the file uses our words."""
    words = STATES[name].get(state)
    if words is None or key == "state":
        return state
    was = before.strip().lower() if isinstance(before, str) else ""
    return state if was in STATES[name] and STATES[name][was][0] != was else words[0]


def reference(raw: JSONValue, names: Mapping[str, str], default: str = "") -> str:
    """Return our id for ``raw``: an id of ours, a label in ``names``, or an old id; one without a prefix is of kind
    ``default``. Empty where it names nothing.
    """
    if not isinstance(raw, str) or not raw.strip():
        return ""
    raw = raw.strip()
    if is_id(raw):
        return raw
    if raw in names:
        return names[raw]
    kind = _of_id(raw) or BY_NAME.get(default)
    return derived_id(kind.prefix, "v1", kind.name, raw) if kind is not None else ""
