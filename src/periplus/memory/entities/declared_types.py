"""Types that a project declares: tables under ``[types]`` in ``config.toml``, read as rows like those of
``memory.entities.types``.

A type whose declaration is not valid is an unknown type: its entities are read, shown, searched, synced and kept like
those of a later Periplus, and none can be written until a person has corrected the file. Writers of the type and
``doctor`` report what is wrong. The schema itself is checked when an entity of the type is written
(``memory.entities.declared_schemas``), for only then the schema library is needed.
"""

from __future__ import annotations

__all__ = ["DECLARED_MAX", "Declaration", "DeclaredEntity", "DeclaredTypes", "coerced", "read_declared"]

import os
import re
from collections.abc import Callable, Mapping
from typing import Final, Literal, cast

import msgspec

from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import PeriplusError, UsageError
from periplus.base.files import read_plain
from periplus.base.named_tuple import NamedTuple
from periplus.journal import EntityType, MergeRules
from periplus.memory.entities.schemas import Common
from periplus.memory.entities.types import (
    ANCHORED,
    COMMON_FIELDS,
    EXPIRING,
    LIST_LENGTHS,
    MEMORY_TYPES,
    MemoryType,
    check_common,
    check_secrets,
)

DECLARED_MAX: Final = 50
_STATES_MAX: Final = 20
_CONFIG_BYTES_MAX: Final = 1 << 20
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")
_NAMES_MAX: Final = 32
_PREFIX: Final = re.compile(r"[a-z]{2,8}")
_STATE: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_FIELD: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_RESERVED: Final = frozenset({"conflict", "context", "lineage", "record", "store", "trail", "all"})
_PREFIXES_RESERVED: Final = frozenset({"who", "lin", "str", "obj", "cfl", "ctx"})
_SAFE: Final = "Entities of this type are kept and can be read; none can be written until this is fixed."
_LATEST: Final = frozenset({"updated", "seen", "confirmed"})


class DeclaredEntity(Common, frozen=True, omit_defaults=True, kw_only=True):
    """The fields of every entity of a declared type; its own fields stand beside them, as its schema says."""

    state: str = ""
    reason: str = ""
    expires: str = ""


class Declaration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table under ``[types]``. The first of ``states`` is the initial one."""

    prefix: str
    meaning: str = ""
    states: tuple[str, ...] = ()
    transitions: dict[str, tuple[str, ...]] = {}
    ended: tuple[str, ...] = ()
    replaced: str = ""
    touchable: tuple[str, ...] | None = None
    projected: bool = False
    recalled: bool = True
    stale: Literal["anchors", "expires", "never"] = "anchors"
    weight: int = 100
    schema: dict[str, object] | str = {}


class DeclaredTypes(NamedTuple):
    """The types that a ``config.toml`` declares, and an error for each type that is not valid."""

    rows: Mapping[str, MemoryType]
    problems: Mapping[str, UsageError]
    path: str = ""

    def entity_types(self, *, allow_secrets: bool) -> dict[str, EntityType]:
        """Return the rows as the journal takes them."""
        return {
            row.name: EntityType(
                row.name, row.prefix, row.is_projected, self._checker(row, allow_secrets=allow_secrets),
                MergeRules(row.sets, _LATEST, stamp="updated"), declared=row, lengths=LIST_LENGTHS,
            )
            for row in self.rows.values()
        }  # fmt: skip

    def _checker(self, row: MemoryType, *, allow_secrets: bool) -> Callable[[dict[str, JSONValue]], None]:
        def check(payload: dict[str, JSONValue]) -> None:
            try:
                value = msgspec.convert(payload, DeclaredEntity)
            except msgspec.ValidationError as error:
                raise UsageError(f"not a {row.name}: {error}", safe="Nothing was written.") from error
            check_common(row.name, value)
            if value.state not in (row.transitions or {"": frozenset()}):
                raise UsageError(f"not a {row.name}: it has no state {value.state[:40]!r}", safe="Nothing was written.",
                                 mend=f"Known are: {', '.join(sorted(row.transitions))}." if row.transitions else "")  # fmt: skip
            if not allow_secrets:
                check_secrets(row.name, payload)
            if row.own_schema is not None:
                from periplus.memory.entities.declared_schemas import check_own

                own = {name: part for name, part in payload.items() if name not in DeclaredEntity.__struct_fields__}
                check_own(row.name, row.own_schema, own, f"{self.path}: types.{row.name}.schema")

        return check

    def schema_problems(self) -> list[UsageError]:
        """Return what is wrong with the schemas; empty where the schema library is not installed."""
        from periplus.memory.entities.declared_schemas import is_installed, prepared

        found = []
        for row in self.rows.values() if is_installed() else ():
            try:
                if row.own_schema is not None:
                    prepared(row.own_schema, f"{self.path}: types.{row.name}.schema")
            except UsageError as error:
                found.append(error)
        return found


def read_declared(config: str) -> DeclaredTypes:
    """Return the types that the ``config.toml`` at ``config`` declares. A file that cannot be read declares none:
    opening the store reports it.
    """
    import tomllib

    try:
        data = read_plain(config, _CONFIG_BYTES_MAX)
        if b"types" not in data:
            return DeclaredTypes({}, {}, config)
        tables = tomllib.loads(data.removeprefix(b"\xef\xbb\xbf").decode()).get("types")
    except (OSError, PeriplusError, ValueError, RecursionError):
        return DeclaredTypes({}, {}, config)
    if tables is None:
        return DeclaredTypes({}, {}, config)
    shown = os.path.join(os.path.basename(os.path.dirname(config)), os.path.basename(config))
    if not isinstance(tables, dict):
        return DeclaredTypes({}, {"types": _wrong(shown, "types", "is no table", "Write [types.NAME].")}, shown)
    rows: dict[str, MemoryType] = {}
    problems: dict[str, UsageError] = {}
    for name, table in tables.items():
        try:
            if len(rows) >= DECLARED_MAX:
                raise _wrong(shown, f"types.{name}", "is one too many", f"At most {DECLARED_MAX} can be declared.")
            row = _row(shown, name, table)
            taken = next((one for one in (*MEMORY_TYPES.values(), *rows.values()) if one.prefix == row.prefix), None)
            if taken is not None or row.prefix in _PREFIXES_RESERVED:
                whose = f"that of {taken.name}" if taken is not None else "one of Periplus itself"
                raise _wrong(
                    shown, f"types.{name}.prefix", f"{row.prefix!r} is {whose}", "Choose another: 2 to 8 letters a-z."
                )
            rows[name] = row
        except UsageError as error:
            problems[name] = error
    return DeclaredTypes(rows, problems, shown)


def coerced(row: MemoryType, fields: Mapping[str, JSONValue]) -> dict[str, JSONValue]:
    """Convert ``fields`` of a declared type, given as texts, to the numbers, lists and objects that its schema wants."""
    properties = (row.own_schema or {}).get("properties")
    found = dict(fields)
    for name in row.own:
        said = found.get(name)
        wanted = properties.get(name) if isinstance(properties, dict) else None
        kind = wanted.get("type") if isinstance(wanted, dict) else None
        if isinstance(said, str) and isinstance(kind, str) and kind != "string":
            found[name] = _typed(said, kind)
    return found


def _typed(said: str, kind: str) -> JSONValue:
    import json

    try:
        value = cast("JSONValue", json.loads(said))
    except (ValueError, RecursionError):
        value = said
    if kind == "array" and not isinstance(value, list):
        return [word.strip() for word in said.split(",") if word.strip()]
    return value


def _wrong(path: str, key: str, what: str, allowed: str) -> UsageError:
    return UsageError(f"{path}: {key} {what}", safe=_SAFE, mend=allowed)


def _row(path: str, name: str, table: object) -> MemoryType:
    key = f"types.{name}"
    if not _NAME.fullmatch(name) or len(name) > _NAMES_MAX or name.startswith("v1_"):
        raise _wrong(
            path,
            key,
            "is not a valid type name",
            f"It is at most {_NAMES_MAX} of a-z, 0-9 and single _, beginning with a letter.",
        )
    if name in MEMORY_TYPES or name in _RESERVED:
        raise _wrong(path, key, "is a type of Periplus itself", "Choose another name.")
    told = _declaration(path, key, table)
    if not _PREFIX.fullmatch(told.prefix):
        raise _wrong(path, f"{key}.prefix", f"is {told.prefix[:40]!r}", "It is 2 to 8 letters a-z.")
    if not 0 <= told.weight <= 300:
        raise _wrong(path, f"{key}.weight", f"is {told.weight}", "It is 0 to 300; a note has 100, a rule 130.")
    transitions = _transitions(path, key, told)
    schema = _schema(path, key, told.schema)
    properties = schema.get("properties") if schema is not None else {}
    if not isinstance(properties, dict):
        raise _wrong(
            path, f"{key}.schema.properties", "is no table", "Write the fields that the type has, each with its schema."
        )
    for field in properties:
        if not _FIELD.fullmatch(field) or field in DeclaredEntity.__struct_fields__:
            raise _wrong(path, f"{key}.schema.properties.{field[:64]}", "is not a valid field name",
                         f"It is of a-z, 0-9 and _, and none of: {', '.join(DeclaredEntity.__struct_fields__)}.")  # fmt: skip
    own = frozenset(properties)
    common = COMMON_FIELDS | ({"expires"} if told.stale == "expires" else set())
    if told.touchable is not None and (strange := set(told.touchable) - own - common):
        raise _wrong(path, f"{key}.touchable", f"names {', '.join(sorted(strange))[:80]}",
                     f"There are: {', '.join(sorted(own | common))}.")  # fmt: skip
    stale = {"anchors": ANCHORED, "expires": EXPIRING, "never": ""}[told.stale]
    return MemoryType(
        name, told.prefix, DeclaredEntity, told.projected, told.states[0] if told.states else "", frozenset(told.ended),
        told.weight if told.recalled else 0, told.meaning or f"a type of this project ({path})", transitions=transitions,
        touchable=frozenset(told.touchable) if told.touchable is not None else own | common, replaced_state=told.replaced,
        stale_when=stale, own=own, own_schema=schema, is_recalled=told.recalled,
    )  # fmt: skip


def _declaration(path: str, key: str, table: object) -> Declaration:
    allowed = ", ".join(Declaration.__struct_fields__)
    try:
        return msgspec.convert(table, Declaration)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        inside = where.rstrip("`") if where else ""
        raise _wrong(path, f"{key}{inside}", f"is not valid: {what}", f"A type has: {allowed}; `prefix` it must have, "
                     "`stale` is anchors, expires or never.") from error  # fmt: skip


def _transitions(path: str, key: str, told: Declaration) -> dict[str, frozenset[str]]:
    states = told.states
    wrong = [state for state in states if not _STATE.fullmatch(state)]
    if wrong or len(states) > _STATES_MAX or len(set(states)) < len(states):
        raise _wrong(path, f"{key}.states", f"holds {wrong[0][:40]!r}" if wrong else "are too many, or one is listed twice",
                     f"At most {_STATES_MAX} different ones of a-z, 0-9, _ and -.")  # fmt: skip
    for name, named in (
        ("transitions", [*told.transitions, *(state for following in told.transitions.values() for state in following)]),
        ("ended", told.ended), ("replaced", [told.replaced] if told.replaced else []),
    ):  # fmt: skip
        strange = sorted(set(named) - set(states))
        if strange:
            raise _wrong(path, f"{key}.{name}", f"names the state {strange[0][:40]!r}",
                         f"The states are: {', '.join(states)}." if states else "There are no states.")  # fmt: skip
    if told.replaced and told.replaced not in told.ended:
        raise _wrong(
            path,
            f"{key}.replaced",
            f"is {told.replaced!r}, which is not an end state",
            f"The end states are: {', '.join(told.ended)}.",
        )
    if states and states[0] in told.ended:
        raise _wrong(
            path,
            f"{key}.states",
            f"begin with {states[0]!r}, which is an end state",
            "The first state is the initial one.",
        )
    if told.transitions:
        return {state: frozenset(told.transitions.get(state, ())) for state in states}
    return {state: frozenset(states) - {state} for state in states}


def _schema(path: str, key: str, told: dict[str, object] | str) -> dict[str, JSONValue] | None:
    if isinstance(told, str):
        import json

        try:
            found = json.loads(told)
        except (ValueError, RecursionError) as error:
            raise _wrong(path, f"{key}.schema", f"is no JSON: {str(error)[:80]}",
                         "Write a JSON Schema as a TOML table, or as JSON in quotes.") from error  # fmt: skip
        if not isinstance(found, dict):
            raise _wrong(path, f"{key}.schema", "is no object", "Write a JSON Schema of an object.")
        told = found
    return cast("dict[str, JSONValue]", told) if told else None
