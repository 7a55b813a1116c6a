"""Definition of tools: a row with parameters, from which follow the schema, the check of a call, and the help.

A model's arguments are not trusted: they are checked against the parameters before anything runs, and one message names every wrong field.
Common substitutes (``"3"`` for 3, a list as its JSON text) are accepted; nothing else is guessed.
"""

from __future__ import annotations

__all__ = ["Arguments", "ArgumentsError", "Kind", "Parameter", "Tool", "check_arguments", "schema_of"]

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from periplus.agent.contracts import Access, ToolResult, ToolSchema
from periplus.base.errors import UsageError

Kind: TypeAlias = Literal["text", "integer", "number", "flag", "list", "record"]

TEXT_CHARS_MAX: Final = 4_000
ITEMS_MAX: Final = 200
_JSON_TYPES: Final[dict[Kind, str]] = {
    "text": "string", "integer": "integer", "number": "number", "flag": "boolean", "list": "array", "record": "object",
}  # fmt: skip
_WANTED: Final[dict[Kind, str]] = {
    "text": "a text", "integer": "a whole number", "number": "a number", "flag": "true or false", "list": "a list",
    "record": "an object",
}  # fmt: skip


class ArgumentsError(UsageError):
    """Invalid arguments; the message names every wrong field."""

    code = "arguments"


class Parameter(NamedTuple):
    """One parameter of a tool. ``most`` bounds a text in characters, a list in items, a number in value.

    A ``list`` holds texts, or records with ``fields`` if there are some.
    """

    name: str
    kind: Kind
    about: str = ""
    required: bool = False
    choices: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None
    fields: tuple[Parameter, ...] = ()


class Arguments:
    """The checked arguments of a call: each getter returns what was sent, or its default."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def has(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str, default: str = "") -> str:
        return str(self._values.get(name, default))

    def integer(self, name: str, default: int = 0) -> int:
        return int(self._values.get(name, default))

    def number(self, name: str, default: float = 0.0) -> float:
        return float(self._values.get(name, default))

    def flag(self, name: str, *, default: bool = False) -> bool:
        return bool(self._values.get(name, default))

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(self._values.get(name, ()))

    def records(self, name: str) -> tuple[Arguments, ...]:
        return tuple(Arguments(value) for value in self._values.get(name, ()))

    def plain(self) -> dict[str, Any]:
        """All arguments as JSON values, for a tool that passes them on."""
        return dict(self._values)

    def record(self, name: str) -> dict[str, Any]:
        """An object as it was sent, for arguments that are passed on."""
        return dict(self._values.get(name, {}))


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool. ``accesses`` declares what a call touches, so that calls without overlap may run in parallel."""

    name: str
    about: str
    parameters: tuple[Parameter, ...]
    run: Callable[[Arguments], ToolResult]
    accesses: Callable[[Arguments], Sequence[Access]]
    plan: Callable[[Arguments], Sequence[Mapping[str, Any]]] | None = None
    """Planned changes of a call, as in ``ToolResult.effects``, if they are known in advance."""
    goes_on: bool = False
    """True if an interrupted call continues where it was when it is run again, since its work is durable itself."""


def schema_of(tool: Tool) -> ToolSchema:
    """The tool as it is described to a model."""
    return ToolSchema(name=tool.name, description=tool.about, parameters=_object_schema(tool.parameters))


def _object_schema(parameters: Sequence[Parameter]) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {parameter.name: _parameter_schema(parameter) for parameter in parameters},
    }
    required = [parameter.name for parameter in parameters if parameter.required]
    if required:
        schema["required"] = required
    return schema


def _parameter_schema(parameter: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": _JSON_TYPES[parameter.kind]}
    if parameter.choices:
        schema["enum"] = list(parameter.choices)
    if parameter.kind == "list":
        schema["items"] = _object_schema(parameter.fields) if parameter.fields else {"type": "string"}
    if parameter.about:
        schema["description"] = parameter.about
    return schema


def check_arguments(tool: Tool, values: Mapping[str, Any]) -> Arguments:
    """Check and convert the arguments. Raises ArgumentsError that names all that is wrong."""
    wrong: list[str] = []
    taken = _check_fields(tool.parameters, values, "", wrong)
    if wrong:
        raise ArgumentsError(f"{tool.name}: {'; '.join(wrong)}", safe="Nothing was done.", mend="Send the call again.")
    return Arguments(taken)


def _check_fields(
    parameters: Sequence[Parameter], values: Mapping[str, Any], where: str, wrong: list[str]
) -> dict[str, Any]:
    known = {parameter.name: parameter for parameter in parameters}
    wrong += [
        f"no argument {where}{str(name)[:60]!r}{_suggestion(str(name), known)}" for name in values if name not in known
    ]
    taken = {}
    for parameter in parameters:
        value = values.get(parameter.name)
        if value is None:
            if parameter.required:
                wrong.append(f"{where}{parameter.name} is missing")
            continue
        try:
            taken[parameter.name] = _check_value(parameter, value, f"{where}{parameter.name}", wrong)
        except _WrongError as error:
            wrong.append(f"{where}{parameter.name} {error}")
    return taken


class _WrongError(Exception):
    pass


def _check_value(parameter: Parameter, value: Any, where: str, wrong: list[str]) -> Any:
    kind = parameter.kind
    if kind == "text":
        return _check_text(parameter, value)
    if kind == "flag":
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if not isinstance(value, bool):
            raise _unfit(kind, value)
        return value
    if kind in ("integer", "number"):
        return _check_number(parameter, value)
    if isinstance(value, str):
        value = _parsed(value)
    if kind == "record":
        if not isinstance(value, dict):
            raise _unfit(kind, value)
        return value
    return _check_list(parameter, value, where, wrong)


def _check_text(parameter: Parameter, value: Any) -> str:
    if not isinstance(value, str):
        raise _unfit("text", value)
    most = parameter.most or TEXT_CHARS_MAX
    if len(value) > most:
        raise _WrongError(f"has {len(value):,} characters, at most {most:,}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise _WrongError(f"has half a character at {error.start:,}, which cannot be stored in a file") from error
    if parameter.choices and value not in parameter.choices:
        raise _WrongError(f"is {value[:60]!r}, and one of {', '.join(parameter.choices)} is wanted")
    return value


def _check_number(parameter: Parameter, value: Any) -> int | float:
    number: int | float
    if isinstance(value, str) and len(value) <= 20:
        try:
            value = float(value) if "." in value else int(value)
        except ValueError:
            raise _unfit(parameter.kind, value) from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _unfit(parameter.kind, value)
    if parameter.kind == "integer":
        if value != value or value in (float("inf"), float("-inf")) or int(value) != value:  # noqa: PLR0124 - not a number
            raise _unfit("integer", value)
        number = int(value)
    else:
        number = value
    if not (parameter.least is None or number >= parameter.least) or not (
        parameter.most is None or number <= parameter.most
    ):
        raise _WrongError(f"is {number}, and {_span(parameter)} is wanted")
    return number


def _check_list(parameter: Parameter, value: Any, where: str, wrong: list[str]) -> list[Any]:
    if not isinstance(value, list):
        raise _unfit("list", value)
    most = parameter.most or ITEMS_MAX
    if len(value) > most:
        raise _WrongError(f"has {len(value):,} items, at most {most:,}")
    if parameter.required and not value:
        raise _WrongError("is empty")
    taken: list[Any] = []
    for place, item in enumerate(value):
        if not parameter.fields:
            taken.append(_check_text(Parameter(parameter.name, "text", choices=parameter.choices), item))
        elif isinstance(item, dict):
            taken.append(_check_fields(parameter.fields, item, f"{where}[{place}].", wrong))
        else:
            raise _WrongError(f"[{place}] is not an object")
    return taken


def _parsed(text: str) -> Any:
    """Decode a list or an object that a model sent as JSON text."""
    import json

    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _unfit(kind: Kind, value: Any) -> _WrongError:
    shown = repr(value)
    return _WrongError(f"is {shown if len(shown) <= 60 else shown[:60] + '…'}, and {_WANTED[kind]} is wanted")


def _span(parameter: Parameter) -> str:
    if parameter.least is not None and parameter.most is not None:
        return f"{parameter.least:,} to {parameter.most:,}"
    return f"at least {parameter.least:,}" if parameter.least is not None else f"at most {parameter.most:,}"


def _suggestion(name: str, known: Mapping[str, Parameter]) -> str:
    import difflib

    near = difflib.get_close_matches(name, known, 1, 0.6)
    return f" (is {near[0]} meant?)" if near else f" (there are {', '.join(known)})" if known else ""
