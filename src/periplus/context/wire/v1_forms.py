"""The JSON forms of version 1, to and from values of version 2.

Values that version 1 allowed and version 2 does not are converted and counted, never dropped silently: times without a
zone are read as UTC, a relevance outside 0…1 is clamped; fractions in metadata become ``{"$dec": "1.5"}``. Any other
fault is a FormError with the path of the field, which is all that the peer learns of it.
"""

from __future__ import annotations

__all__ = [
    "FormError",
    "Notes",
    "atom_form",
    "chunk_atom_form",
    "read_push",
    "read_query",
    "read_target",
    "tokens_of",
]

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from periplus.base.encoding.canonical import INTEGER_MAX, JSONValue, check
from periplus.base.errors import UsageError
from periplus.context.model import RELEVANCE_MAX, TIME_MS_MAX, TIME_MS_MIN, Atom
from periplus.context.types import Kind, TypeSignature, parse
from periplus.context.v1_names import atom_alias, is_alias
from periplus.context.wire.payloads import Filter
from periplus.context.wire.v1_payloads import V1Molecule, V1Push, V1Query

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_METADATA_DEPTH_MAX: Final = 32

Form: TypeAlias = Mapping[str, object]


class FormError(Exception):
    """A fault in a form; ``field`` is its path. Never leaves the machine."""

    def __init__(self, field: str) -> None:
        super().__init__(field)
        self.field = field


class Notes:
    """Counts of the converted values of one request."""

    __slots__ = ("clamped", "naive")

    def __init__(self) -> None:
        self.clamped = 0
        self.naive = 0

    def as_metadata(self) -> dict[str, JSONValue]:
        """Return the counts that are not zero."""
        found: dict[str, JSONValue] = {}
        if self.clamped:
            found["v1_relevance_clamped"] = self.clamped
        if self.naive:
            found["v1_times_without_zone"] = self.naive
        return found


def tokens_of(content: str) -> int:
    """Count tokens like version 1: thirteen for ten words."""
    return len(content.split()) * 13 // 10


# Writing


def atom_form(atom: Atom) -> dict[str, object]:
    """Return an atom in full."""
    return {
        "content": atom.content,
        "type_sig": _type_form(parse(atom.type)),
        "timestamp": (_EPOCH + _MILLISECOND * atom.time_ms).isoformat(timespec="milliseconds"),
        "source_hash": atom.source,
        "relevance_score": atom.relevance / RELEVANCE_MAX,
    }


def chunk_atom_form(atom: Atom) -> dict[str, object]:
    """Return an atom in the form of chunks."""
    return {
        "content": atom.content,
        "type": atom.type,
        "relevance": atom.relevance / RELEVANCE_MAX,
        "hash": atom_alias(atom),
    }


def _type_form(signature: TypeSignature) -> dict[str, object]:
    return {
        "name": signature.name,
        "kind": signature.kind.name,
        "parameters": [_type_form(parameter) for parameter in signature.parameters],
        "constraints": list(signature.constraints),
    }


# Reading


def read_target(form: object, *, atoms_max: int) -> tuple[str | V1Push, int]:
    """Read the target of EXPAND and STREAM: the short hash of a context, or a delta, and the least relevance in
    millionths.
    """
    body = _map(form, "request")
    given = body.get("context")
    context = _delta(given, "context.", atoms_max) if isinstance(given, dict) else _alias(given, "context")
    return context, _share(body.get("relevance_threshold", 0.0), "relevance_threshold")


def read_query(form: object) -> V1Query:
    body = _map(form, "request")
    age = body.get("max_age_seconds")
    limit = body.get("limit", 100)
    if age is not None and (isinstance(age, bool) or not isinstance(age, int | float) or not 0 <= age <= 1e12):
        raise FormError("max_age_seconds")
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= 1_000:
        raise FormError("limit")
    context = body.get("context")
    return V1Query(
        Filter(
            _type(body["type"], "type") if body.get("type") is not None else "",
            _share(body.get("min_relevance", 0.0), "min_relevance"),
            max_age_ms=None if age is None else int(age * 1_000),
        ),
        _text(body.get("text") or "", "text"),
        limit,
        "" if context is None else _alias(context, "context"),
    )


def read_push(form: object, *, atoms_max: int) -> V1Push:
    return _delta(_map(form, "request"), "", atoms_max)


def _delta(body: Form, path: str, atoms_max: int) -> V1Push:
    """Read a delta; ``path`` precedes the names of its fields in errors."""
    notes = Notes()
    base = body.get("base_hash")
    forms = _list(body.get("delta_atoms", []), f"{path}delta_atoms")
    molecules = _list(body.get("delta_molecules", []), f"{path}delta_molecules")
    removed = _list(body.get("removed_hashes", []), f"{path}removed_hashes")
    if len(forms) + len(molecules) > atoms_max:
        raise FormError(f"{path}delta_atoms")
    return V1Push(
        None if base is None else _alias(base, f"{path}base_hash"),
        tuple(_atom(one, f"{path}delta_atoms[{place}]", notes) for place, one in enumerate(forms)),
        tuple(_molecule(one, f"{path}delta_molecules[{place}]", notes) for place, one in enumerate(molecules)),
        tuple(_alias(one, f"{path}removed_hashes[{place}]") for place, one in enumerate(removed)),
        _metadata(body.get("compression_metadata") or {}, f"{path}compression_metadata"),
        notes.as_metadata(),
    )


def _atom(form: object, path: str, notes: Notes) -> Atom:
    body = _map(form, path)
    return Atom(
        _text(body.get("content"), f"{path}.content"),
        _type(body.get("type_sig", "String"), f"{path}.type_sig"),
        _moment(body.get("timestamp"), f"{path}.timestamp", notes),
        _share(body.get("relevance_score", 0.5), f"{path}.relevance_score", notes),
        _text(body.get("source_hash") or "", f"{path}.source_hash"),
    )


def _molecule(form: object, path: str, notes: Notes) -> V1Molecule:
    body = _map(form, path)
    atoms: list[str | Atom] = []
    for place, one in enumerate(_list(body.get("atoms"), f"{path}.atoms")):
        where = f"{path}.atoms[{place}]"
        atoms.append(_alias(one, where) if isinstance(one, str) else _atom(one, where, notes))
    relations = {}
    for name, pairs in _map(body.get("relations", {}), f"{path}.relations").items():
        rows = _list(pairs, f"{path}.relations")
        relations[_text(name, f"{path}.relations")] = tuple(
            _pair(pair, len(atoms), f"{path}.relations") for pair in rows
        )
    return V1Molecule(
        tuple(atoms),
        relations,
        _type(body.get("molecule_type", "Molecule"), f"{path}.molecule_type"),
        _metadata(body.get("metadata") or {}, f"{path}.metadata"),
    )


def _pair(value: object, count: int, path: str) -> tuple[int, int]:
    pair = _list(value, path)
    if len(pair) != 2:
        raise FormError(path)
    first, second = pair
    for place in (first, second):
        if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < count:
            raise FormError(path)
    assert isinstance(first, int)
    assert isinstance(second, int)
    return first, second


def _type(form: object, path: str) -> str:
    """Read a type, given as its old map or as its print."""
    try:
        if isinstance(form, str):
            return str(parse(form))
        return str(_signature(form, path, 1))
    except UsageError as error:
        raise FormError(path) from error


def _signature(form: object, path: str, depth: int) -> TypeSignature:
    if isinstance(form, str):
        return parse(form)
    if depth > 64:  # types.TYPE_DEPTH_MAX
        raise FormError(path)
    body = _map(form, path)
    kind = _text(body.get("kind", ""), f"{path}.kind").lower()
    known = {one.value: one for one in Kind}
    if kind and kind not in known:
        raise FormError(f"{path}.kind")
    parameters = _list(body.get("parameters") or [], f"{path}.parameters")
    constraints = _list(body.get("constraints") or [], f"{path}.constraints")
    return TypeSignature(
        _text(body.get("name"), f"{path}.name"),
        known.get(kind),  # type: ignore[arg-type]  # None asks for the default kind
        tuple(_signature(one, f"{path}.parameters", depth + 1) for one in parameters),
        tuple(_text(one, f"{path}.constraints") for one in constraints),
    )


def _moment(value: object, path: str, notes: Notes) -> int:
    """Read an RFC 3339 time, with or without a zone; a missing time is 0."""
    if value is None:
        return 0
    try:
        moment = datetime.fromisoformat(_text(value, path))
    except ValueError as error:
        raise FormError(path) from error
    if moment.tzinfo is None:
        notes.naive += 1
        moment = moment.replace(tzinfo=UTC)
    milliseconds = (moment - _EPOCH) // _MILLISECOND
    if not TIME_MS_MIN <= milliseconds <= TIME_MS_MAX:
        raise FormError(path)
    return milliseconds


def _share(value: object, path: str, notes: Notes | None = None) -> int:
    """Read a number of 0…1 as millionths; a number outside is clamped."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - NaN is not itself
        raise FormError(path)
    if not 0 <= value <= 1:
        if notes is not None:
            notes.clamped += 1
        value = 0 if value < 0 else 1
    return round(value * RELEVANCE_MAX)


def _metadata(value: object, path: str) -> dict[str, JSONValue]:
    carried = _carried(_map(value, path), path, 0)
    assert isinstance(carried, dict)
    try:
        check(carried)
    except UsageError as error:
        raise FormError(path) from error
    return carried


def _carried(value: object, path: str, depth: int) -> JSONValue:
    if depth > _METADATA_DEPTH_MAX:
        raise FormError(path)
    if isinstance(value, Mapping):
        return {_text(key, path): _carried(item, path, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_carried(item, path, depth + 1) for item in value]
    if isinstance(value, float) or (isinstance(value, int) and not -INTEGER_MAX <= value <= INTEGER_MAX):
        return {"$dec": repr(value)}
    if value is None or isinstance(value, bool | int | str):
        return value
    raise FormError(path)


def _alias(value: object, path: str) -> str:
    if not isinstance(value, str) or not is_alias(value):
        raise FormError(path)
    return value


def _text(value: object, path: str) -> str:
    if not isinstance(value, str):
        raise FormError(path)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise FormError(path) from error
    return value


def _map(value: object, path: str) -> Form:
    if not isinstance(value, dict):
        raise FormError(path)
    return value


def _list(value: object, path: str) -> list[object]:
    if not isinstance(value, list):
        raise FormError(path)
    return value
