"""Manifest of a plugin (``plugin.toml``). One table lists the allowed fields; any other field is an error.

Reading a manifest has no effects. A command is a list of words, never a shell line; ``{plugin}`` in it stands for the plugin's folder.
"""

from __future__ import annotations

__all__ = ["MANIFEST", "HookRow", "Manifest", "ToolRow", "parameters_of", "read_manifest"]

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

from periplus.agent.hooks import SEAMS
from periplus.agent.mcpclient.server_entry import ServerRow
from periplus.agent.tools.tool_table import Kind, Parameter
from periplus.base.errors import FormatError

MANIFEST: Final = "plugin.toml"
MANIFEST_BYTES_MAX: Final = 64 * 1024
TOOLS_MAX: Final = 12
HOOKS_MAX: Final = 16
SERVERS_MAX: Final = 8
DEADLINE_S_MAX: Final = 600
_DESCRIPTION_MAX: Final = 500
_WORDS_MAX: Final = 50
_DEPTH_MAX: Final = 4
_FIELDS_MAX: Final = 30
_PLUGIN_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_TOOL_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")

Reach: TypeAlias = Literal["read", "write", "network"]
"""Reach of a tool's program: read the project's files, change them, or use the network."""

_PLUGIN: Final = ("name", "version", "description", "skills", "tools", "hooks", "servers")
_TOOL: Final = ("name", "description", "command", "parameters", "accesses", "deadline_s")
_HOOK: Final = ("seam", "command", "tools", "deadline_s")
_SERVER: Final = ("name", "command", "url", "environment", "headers")
_SCHEMA: Final = (
    "type",
    "description",
    "properties",
    "required",
    "items",
    "enum",
    "minimum",
    "maximum",
    "maxLength",
    "maxItems",
)
_KINDS: Final[Mapping[str, Kind]] = {
    "string": "text", "integer": "integer", "number": "number", "boolean": "flag", "array": "list", "object": "record",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ToolRow:
    """A tool of the manifest. ``parameters`` are like those of our own tools, so that calls are checked before the program sees them."""

    name: str
    description: str
    command: tuple[str, ...]
    parameters: tuple[Parameter, ...] = ()
    accesses: tuple[Reach, ...] = ()
    deadline_s: float = 30.0


@dataclass(frozen=True, slots=True)
class HookRow:
    """A hook of the manifest. ``tools``: at seams of calls, only these tools (globs) are passed on; empty for all."""

    seam: str
    command: tuple[str, ...]
    tools: tuple[str, ...] = ()
    deadline_s: float = 5.0


@dataclass(frozen=True, slots=True)
class Manifest:
    name: str
    version: str
    description: str = ""
    skills: str = ""
    """Subfolder of the plugin with its skills; empty for none."""
    tools: tuple[ToolRow, ...] = ()
    hooks: tuple[HookRow, ...] = ()
    servers: tuple[ServerRow, ...] = ()

    @property
    def source(self) -> str:
        return f"plugin {self.name}"


def read_manifest(data: bytes, path: str) -> Manifest:
    """Parse a manifest. Raises FormatError that names the field."""
    import tomllib

    if len(data) > MANIFEST_BYTES_MAX:
        raise FormatError(f"it has more than {MANIFEST_BYTES_MAX:,} bytes", path=path)
    try:
        table = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise FormatError(f"it is not valid TOML: {error}", path=path) from error
    return _Reader(path).manifest(table)


class _Reader:
    """Reads the fields of a table; every error names the file and the field."""

    def __init__(self, path: str) -> None:
        self._path = path

    def manifest(self, table: Mapping[str, Any]) -> Manifest:
        self._known(table, _PLUGIN, "")
        name = self._name(table, "name", "", _PLUGIN_NAME, "small letters, digits and single hyphens between them")
        tools = tuple(self._tool(row, f"tools[{at}].") for at, row in self._rows(table, "tools", TOOLS_MAX))
        hooks = tuple(self._hook(row, f"hooks[{at}].") for at, row in self._rows(table, "hooks", HOOKS_MAX))
        servers = tuple(
            self._server(row, f"servers[{at}].", name) for at, row in self._rows(table, "servers", SERVERS_MAX)
        )
        for what, names in (("tools", [one.name for one in tools]), ("servers", [one.name for one in servers])):
            twice = next((one for at, one in enumerate(names) if one in names[:at]), None)
            if twice is not None:
                raise self._wrong(f"{what}: two of them are named {twice!r}")
        skills = self._text(table, "skills", "", most=200)
        if skills and (skills.startswith(("/", "-", "~")) or ".." in skills.split("/")):
            raise self._wrong(f"skills: {skills!r} is not a folder of the plugin")
        return Manifest(
            name, self._text(table, "version", "", most=40, least=1), self._text(table, "description", "", most=_DESCRIPTION_MAX),
            skills.rstrip("/"), tools, hooks, servers,
        )  # fmt: skip

    def _tool(self, row: Mapping[str, Any], where: str) -> ToolRow:
        self._known(row, _TOOL, where)
        reached = self._texts(row, "accesses", where, most=3)
        for one in reached:
            if one not in get_args(Reach):
                raise self._wrong(
                    f"{where}accesses: {one!r} is not one of them", f"There are {', '.join(get_args(Reach))}."
                )
        schema = row.get("parameters", {})
        if not isinstance(schema, dict):
            raise self._wrong(f"{where}parameters: it must be the JSON Schema of an object, as a table")
        return ToolRow(
            self._name(row, "name", where, _TOOL_NAME, "small letters, digits and underscores"),
            self._text(row, "description", where, most=_DESCRIPTION_MAX, least=1), self._command(row, where),
            parameters_of(schema, self._path, f"{where}parameters") if schema else (),
            tuple(reach for reach in get_args(Reach) if reach in reached), self._seconds(row, where, 30.0, DEADLINE_S_MAX),
        )  # fmt: skip

    def _hook(self, row: Mapping[str, Any], where: str) -> HookRow:
        self._known(row, _HOOK, where)
        seam = self._text(row, "seam", where, most=60, least=1)
        if seam not in SEAMS:
            raise self._wrong(f"{where}seam: there is no seam {seam!r}", _meant(seam, SEAMS))
        tools = self._texts(row, "tools", where, most=50)
        if tools and seam not in ("authorize_tool", "transform_tool_result"):
            raise self._wrong(f"{where}tools: {seam} is not about a call")
        return HookRow(seam, self._command(row, where), tools, self._seconds(row, where, 5.0, 60))

    def _server(self, row: Mapping[str, Any], where: str, plugin: str) -> ServerRow:
        self._known(row, _SERVER, where)
        name = self._name(row, "name", where, _PLUGIN_NAME, "small letters, digits and single hyphens between them")
        url = self._text(row, "url", where, most=2_000)
        if bool(url) == ("command" in row):
            raise self._wrong(f"{where}command, {where}url: a server has one of them")
        command = () if url else self._command(row, where)
        return ServerRow(
            name=f"{plugin}-{name}", command=command, url=url, environment=self._names(row, "environment", where),
            headers=self._names(row, "headers", where), source=f"plugin {plugin}",
        )  # fmt: skip

    # -- fields --------------------------------------------------------------------------------------------------------

    def _known(self, table: Mapping[str, Any], names: Iterable[str], where: str) -> None:
        for name in table:
            if name not in names:
                raise self._wrong(f"{where}{name[:60]}: unknown field", _meant(name, names))

    def _rows(self, table: Mapping[str, Any], name: str, most: int) -> Iterable[tuple[int, Mapping[str, Any]]]:
        rows = table.get(name, [])
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows) or len(rows) > most:
            raise self._wrong(f"{name}: it must be up to {most} tables, each written [[{name}]]")
        return enumerate(rows)

    def _text(self, table: Mapping[str, Any], name: str, where: str, *, most: int, least: int = 0) -> str:
        value = table.get(name, "")
        if not isinstance(value, str):
            raise self._wrong(f"{where}{name}: it must be text")
        if len(value.strip()) < least:
            raise self._wrong(f"{where}{name}: it is {'empty' if name in table else 'missing'}")
        if len(value) > most or any(ord(one) < 32 or ord(one) == 127 for one in value):
            raise self._wrong(f"{where}{name}: it has more than {most} characters, or invisible ones")
        return value.strip()

    def _name(self, table: Mapping[str, Any], name: str, where: str, fits: re.Pattern[str], how: str) -> str:
        value = self._text(table, name, where, most=40, least=1)
        if not fits.fullmatch(value):
            raise self._wrong(f"{where}{name}: {value!r} is not a name", f"Write {how}.")
        return value

    def _texts(self, table: Mapping[str, Any], name: str, where: str, *, most: int) -> tuple[str, ...]:
        value = table.get(name, [])
        if not isinstance(value, list) or len(value) > most or not all(isinstance(one, str) and one for one in value):
            raise self._wrong(f"{where}{name}: it must be a list of up to {most} texts")
        return tuple(value)

    def _command(self, table: Mapping[str, Any], where: str) -> tuple[str, ...]:
        words = self._texts(table, "command", where, most=_WORDS_MAX)
        if not words or any(len(word) > 4_000 or "\0" in word for word in words):
            raise self._wrong(
                f"{where}command: it must be a list of words, the program first", 'As ["python3", "tool.py"].'
            )
        if words[0].startswith(("~", "-")) or ".." in words[0].split("/"):
            raise self._wrong(f"{where}command: {words[0]!r} is neither a file of the plugin nor the name of a program")
        return words

    def _names(self, table: Mapping[str, Any], name: str, where: str) -> dict[str, str]:
        value = table.get(name, {})
        if (
            not isinstance(value, dict)
            or len(value) > _FIELDS_MAX
            or not all(isinstance(one, str) for one in value.values())
        ):
            raise self._wrong(f"{where}{name}: it must be a table of up to {_FIELDS_MAX} texts")
        return value

    def _seconds(self, table: Mapping[str, Any], where: str, default: float, most: int) -> float:
        value = table.get("deadline_s", default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
            raise self._wrong(f"{where}deadline_s: it must be a number of seconds, up to {most}")
        return float(value)

    def _wrong(self, what: str, mend: str = "") -> FormatError:
        return FormatError(what, path=self._path, mend=mend)


def parameters_of(schema: Mapping[str, Any], path: str, where: str, depth: int = 0) -> tuple[Parameter, ...]:
    """Parse the parameters of a JSON Schema object, limited to what tool calls need. Raises FormatError."""
    _check_schema(schema, path, where)
    fields = schema.get("properties", {})
    if (
        schema.get("type", "object") != "object"
        or not isinstance(fields, dict)
        or len(fields) > _FIELDS_MAX
        or depth > _DEPTH_MAX
    ):
        raise FormatError(
            f"{where}: it is an object with up to {_FIELDS_MAX} properties, {_DEPTH_MAX} levels deep", path=path
        )
    required = schema.get("required", [])
    if not isinstance(required, list) or any(one not in fields for one in required):
        raise FormatError(f"{where}.required: it must name properties that exist", path=path)
    found = []
    for name, one in fields.items():
        inner = f"{where}.{name[:60]}"
        if not isinstance(one, dict) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,39}", name):
            raise FormatError(f"{inner}: it must be a name with a schema", path=path)
        found.append(_parameter(name, one, path, inner, is_required=name in required, depth=depth))
    return tuple(found)


def _parameter(
    name: str, schema: Mapping[str, Any], path: str, where: str, *, is_required: bool, depth: int
) -> Parameter:
    _check_schema(schema, path, where)
    kind = _KINDS.get(str(schema.get("type")))
    if kind is None:
        raise FormatError(f"{where}.type: it is one of {', '.join(_KINDS)}", path=path)
    choices = schema.get("enum", [])
    if (
        not isinstance(choices, list)
        or not all(isinstance(one, str) for one in choices)
        or (choices and kind != "text")
    ):
        raise FormatError(f"{where}.enum: it must be a list of texts, for a string", path=path)
    fields: tuple[Parameter, ...] = ()
    if kind == "list":
        items = schema.get("items", {"type": "string"})
        if not isinstance(items, dict) or items.get("type") not in ("string", "object"):
            raise FormatError(f"{where}.items: they must be strings or objects", path=path)
        fields = parameters_of(items, path, f"{where}.items", depth + 1) if items["type"] == "object" else ()
    bounds = [schema.get(key) for key in ("minimum", {"text": "maxLength", "list": "maxItems"}.get(kind, "maximum"))]
    if any(one is not None and (isinstance(one, bool) or not isinstance(one, int)) for one in bounds):
        raise FormatError(f"{where}: its bounds must be whole numbers", path=path)
    about = schema.get("description", "")
    if not isinstance(about, str) or len(about) > _DESCRIPTION_MAX:
        raise FormatError(f"{where}.description: it must be a text of up to {_DESCRIPTION_MAX} characters", path=path)
    return Parameter(name, kind, about, is_required, tuple(choices), bounds[0], bounds[1], fields)


def _check_schema(schema: Mapping[str, Any], path: str, where: str) -> None:
    for key in schema:
        if key not in _SCHEMA:
            raise FormatError(f"{where}.{key[:60]}: this key is not supported", path=path,
                              mend=_meant(key, _SCHEMA))  # fmt: skip


def _meant(name: str, known: Iterable[str]) -> str:
    import difflib

    names = list(known)
    near = difflib.get_close_matches(name, names, 1)
    return f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(names)}."
