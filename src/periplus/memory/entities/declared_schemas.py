"""JSON Schemas of declared types, bounded before use: ``config.toml`` comes with a clone and may have been written by
anybody.

Only the keywords below (of draft 2020-12) are accepted. ``$ref`` leads within the schema only and is expanded;
nothing is fetched, and a reference to itself is refused by the limit on depth. The expanded schema is walked once for
a value whose parts are counted, so that the cost is the product of the two; patterns are matched in a process of
their own with a time limit (docs/decisions/0003-regular-expressions.md).
"""

from __future__ import annotations

__all__ = ["DEPTH_MAX", "NODES_MAX", "check_own", "is_installed", "prepared"]

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import RefusedError, UsageError

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

NODES_MAX: Final = 2_000
DEPTH_MAX: Final = 32
_PARTS_MAX: Final = 2_000
_PATTERN_CHARACTERS_MAX: Final = 200
_PATTERN_SECONDS: Final = 2.0
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_ONE: Final = frozenset({"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"})
_MANY: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_NAMED: Final = frozenset({"properties", "$defs", "definitions"})
_PLAIN: Final = frozenset(
    {
        "type", "enum", "const", "required", "minItems", "maxItems", "uniqueItems", "minLength", "maxLength", "minimum", "maximum",
        "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "pattern", "minProperties", "maxProperties", "dependentRequired",
        "minContains", "maxContains", "title", "description", "default", "examples", "deprecated", "format", "$comment", "$schema",
        "$ref",
    }
)  # fmt: skip
_SAFE: Final = "Nothing was written; nothing was fetched."


def is_installed() -> bool:
    import importlib.util

    try:
        return importlib.util.find_spec("jsonschema") is not None
    except ImportError:
        return False


def prepared(schema: Mapping[str, JSONValue], where: str) -> dict[str, Any]:
    """Return ``schema`` with its references expanded. Raises UsageError, naming the place, for what is not a schema
    or has no bounds.
    """
    if not is_installed():
        raise UsageError("the fields of this type cannot be checked: jsonschema is not installed",
                         safe="Nothing was written; existing entities can still be read.", mend="pip install 'periplus[schema]'")  # fmt: skip
    whole: dict[str, Any] = _Written(schema, where).out(schema, "", 0)
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        Draft202012Validator.check_schema(whole)
    except SchemaError as error:
        place = "".join(f".{part}" for part in error.absolute_path)
        raise UsageError(f"{where}{place}: {error.message[:160]}", safe=_SAFE, mend="Correct the schema.") from error
    return whole


def check_own(name: str, schema: Mapping[str, JSONValue], own: dict[str, JSONValue], where: str) -> None:
    """Raise UsageError for fields that the schema of a type does not allow, naming them."""
    if _parts(own, 0) > _PARTS_MAX:
        raise UsageError(f"the fields of this {name} have over {_PARTS_MAX:,} parts", safe="Nothing was written.")
    validator = _validator(prepared(schema, where))
    error = min(validator.iter_errors(own), key=lambda one: [str(part) for part in one.absolute_path], default=None)
    if error is not None:
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)
        raise UsageError(f"not a {name}: {place.lstrip('.') or 'its fields'}: {error.message[:200]}", safe="Nothing was written.",
                         mend=f"See {where}.")  # fmt: skip


class _Written:
    """A schema as it is expanded, counted as it grows."""

    def __init__(self, root: Mapping[str, JSONValue], where: str) -> None:
        self._root = root
        self._where = where
        self._nodes = 0

    def out(self, schema: JSONValue | Mapping[str, JSONValue], place: str, depth: int) -> Any:
        self._nodes += 1
        if depth > DEPTH_MAX or self._nodes > NODES_MAX:
            raise self._wrong(place, "is nested too deeply, refers to itself, or is too large with its references expanded",
                              f"At most {DEPTH_MAX} deep and {NODES_MAX:,} schemas in all.")  # fmt: skip
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, Mapping):
            raise self._wrong(place, "is not a schema", "Write a table, true or false.")
        strange = sorted(set(schema) - _ONE - _MANY - _NAMED - _PLAIN)
        if strange:
            raise self._wrong(f"{place}.{strange[0][:40]}", "is not known here",
                              f"Known are: {', '.join(sorted(_ONE | _MANY | _NAMED | _PLAIN))}.")  # fmt: skip
        if schema.get("$schema", _DIALECT) != _DIALECT:
            raise self._wrong(f"{place}.$schema", "is an unsupported dialect", f"Supported is {_DIALECT}.")
        self._check_pattern(schema.get("pattern", ""), place)
        found: dict[str, Any] = {}
        for name, part in schema.items():
            here = f"{place}.{name}"
            if name in ("$defs", "definitions", "$schema", "$ref"):
                continue
            if name in _ONE:
                found[name] = self.out(part, here, depth + 1)
            elif name in _MANY and isinstance(part, list | tuple):
                found[name] = [self.out(one, f"{here}[{at}]", depth + 1) for at, one in enumerate(part)]
            elif name in _NAMED and isinstance(part, dict):
                found[name] = {key: self.out(one, f"{here}.{key}", depth + 1) for key, one in part.items()}
            else:
                found[name] = part
        if "$ref" in schema:
            found = {"allOf": [self.out(self._target(schema["$ref"], place), place, depth + 1), found]}
        return found

    def _target(self, ref: JSONValue, place: str) -> JSONValue:
        at: Any = self._root
        names = ref.split("/") if isinstance(ref, str) else []
        if len(names) == 3 and names[0] == "#" and names[1] in ("$defs", "definitions"):
            for name in names[1:]:
                at = at.get(name) if isinstance(at, Mapping) else None
            if at is not None:
                return cast("JSONValue", at)
        raise self._wrong(
            f"{place}.$ref",
            f"leads to {str(ref)[:80]!r}",
            "A reference leads to #/$defs/NAME of the same schema; nothing is fetched.",
        )

    def _check_pattern(self, pattern: JSONValue, place: str) -> None:
        wrong = f"is not a text of at most {_PATTERN_CHARACTERS_MAX} characters"
        if isinstance(pattern, str) and len(pattern) <= _PATTERN_CHARACTERS_MAX:
            try:
                re.compile(pattern)
            except (re.error, OverflowError, RecursionError) as error:
                wrong = f"is not a valid pattern: {str(error)[:80]}"
            else:
                return
        raise self._wrong(f"{place}.pattern", wrong, "Write a pattern of Python's re module.")

    def _wrong(self, place: str, what: str, allowed: str) -> UsageError:
        return UsageError(f"{self._where}{place} {what}", safe=_SAFE, mend=allowed)


def _parts(value: JSONValue | Mapping[str, JSONValue], depth: int) -> int:
    if depth > DEPTH_MAX:
        return _PARTS_MAX + 1
    if isinstance(value, Mapping):
        return 1 + sum(_parts(one, depth + 1) for one in value.values())
    if isinstance(value, list | tuple):
        return 1 + sum(_parts(one, depth + 1) for one in value)
    return 1


def _validator(schema: dict[str, Any]) -> Validator:
    from jsonschema import Draft202012Validator, validators

    bounded = validators.extend(Draft202012Validator, {"pattern": _pattern})
    return bounded(schema)


def _pattern(_validator: Validator, pattern: str, text: object, _schema: object) -> Iterator[ValidationError]:
    from jsonschema import ValidationError

    if not isinstance(text, str):
        return
    try:
        is_found = bool(re.search(pattern, "")) if not text else _is_found(pattern, text)
    except RefusedError:
        yield ValidationError(f"{pattern!r} takes over {_PATTERN_SECONDS:g} s to match: it counts as not found")
        return
    if not is_found:
        yield ValidationError(f"{text[:80]!r} does not match {pattern!r}")


def _is_found(pattern: str, text: str) -> bool:
    from periplus.trail.redactions.regex_search import find_matches

    return bool(find_matches(f"(?s:.*?)(?:{pattern})(?s:.*)", [text], seconds=_PATTERN_SECONDS))
