"""Configuration of MCP servers: from the user's settings, from a trusted project, and from plugins.

The user's servers are tables ``[servers.NAME]`` of ``agent.toml``. Values of ``environment`` and ``headers`` may contain ``${VARIABLE}``,
and ``${key:NAME}`` for a key that ``periplus models key NAME`` stored. A project's servers are those of ``.mcp.json``, in the form that
other agents read as well. A project has no access to the user's secrets: its ``${VARIABLE}`` works only for variables that the user lists
in ``server_variables``, and ``${key:NAME}`` never does. An error in the user's file is raised; a wrong entry of a project or plugin is left
out and reported.
"""

from __future__ import annotations

__all__ = [
    "PROJECT_SERVERS",
    "Configured",
    "Lookup",
    "configured",
    "project_servers",
    "user_servers",
    "variables_lent",
    "with_values",
]

import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias

from periplus.agent.mcpclient.server_entry import CALL_SECONDS, CALL_SECONDS_MAX, Problem, ServerRow
from periplus.agent.mcpclient.tool_names import lookalike
from periplus.base.errors import PeriplusError, UsageError
from periplus.base.files import read_plain

PROJECT_SERVERS: Final = ".mcp.json"
SERVERS_MAX: Final = 32
_FILE_BYTES_MAX: Final = 256 * 1024
_ITEMS_MAX: Final = 100
_TEXT_MAX: Final = 8_000
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_STANDS_FOR: Final = re.compile(r"\$\{([^{}]{0,200})\}")
_OWN_HEADERS: Final = frozenset(
    {"accept", "accept-encoding", "connection", "content-length", "content-type", "host", "mcp-protocol-version",
     "mcp-session-id", "te", "transfer-encoding", "upgrade"}
)  # fmt: skip
_USER_FIELDS: Final = ("command", "url", "environment", "pass", "headers", "timeout_s", "allow", "deny")
_PROJECT_FIELDS: Final = ("command", "args", "env", "url", "type", "headers")
_KINDS: Final = ("stdio", "http", "streamable-http", "streamableHttp")

Lookup: TypeAlias = Callable[[str], str | None]
"""The value of ``${…}``; None if there is none or it may not be used."""


class Configured(NamedTuple):
    rows: tuple[ServerRow, ...] = ()
    problems: tuple[Problem, ...] = ()


def user_servers(value: Any, where: str) -> tuple[ServerRow, ...]:
    """Read the server tables of the user's settings, with values as written. Raises UsageError."""
    if not isinstance(value, dict):
        raise UsageError(f"{where}: servers is a table of tables", safe="Nothing was run.")
    if len(value) > SERVERS_MAX:
        raise UsageError(f"{where}: {len(value)} servers, at most {SERVERS_MAX}", safe="Nothing was run.")
    rows: list[ServerRow] = []
    for name, table in value.items():
        try:
            rows.append(_user_row(name, table, where))
        except UsageError as error:
            raise UsageError(
                f"{where}: servers.{str(name)[:60]}: {error}", safe="Nothing was run.", mend=error.mend
            ) from error
    return tuple(rows)


def variables_lent(value: Any, where: str) -> tuple[str, ...]:
    """Read the names of variables that servers of projects and plugins may use. Raises UsageError."""
    if (
        not isinstance(value, list)
        or len(value) > _ITEMS_MAX
        or not all(isinstance(one, str) and _VARIABLE.fullmatch(one) for one in value)
    ):
        raise UsageError(
            f"{where}: server_variables is a list of up to {_ITEMS_MAX} names of variables", safe="Nothing was run."
        )
    return tuple(value)


def _user_row(name: str, table: Any, where: str) -> ServerRow:
    _check_fields(table, _USER_FIELDS)
    passed = _texts(table, "pass")
    for one in passed:
        if not _VARIABLE.fullmatch(one):
            raise UsageError(f"pass: {one[:60]!r} is not a valid variable name")
    environment = {one: "${" + one + "}" for one in passed} | _pairs(table, "environment")
    timeout = table.get("timeout_s", CALL_SECONDS)
    if type(timeout) is not int or not 1 <= timeout <= CALL_SECONDS_MAX:
        raise UsageError(f"timeout_s is a whole number from 1 to {CALL_SECONDS_MAX:,}, not {timeout!r:.40}")
    row = ServerRow(
        name, _texts(table, "command"), _text(table, "url"), environment, _pairs(table, "headers"), where, timeout,
        _texts(table, "allow"), _texts(table, "deny"),
    )  # fmt: skip
    _check_row(row)
    return row


def project_servers(root: str) -> Configured:
    """Read the servers of the project's file. Call it only for a folder that the user trusts."""
    path = os.path.join(root, PROJECT_SERVERS)
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return Configured((), (Problem("", path, "it is no file"),))
        data = read_plain(path, _FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return Configured()
    except OSError as error:
        return Configured((), (Problem("", path, f"it cannot be read: {error.strerror or error}"),))
    try:
        found = _servers_in(data)
    except UsageError as error:
        return Configured((), (Problem("", path, str(error)),))
    rows, problems = [], []
    for name, table in list(found.items())[:SERVERS_MAX]:
        try:
            rows.append(_project_row(name, table, path))
        except UsageError as error:
            problems.append(Problem(name[:60], path, str(error), error.mend))
    if len(found) > SERVERS_MAX:
        problems.append(
            Problem("", path, f"it names {len(found['mcpServers']):,} servers; {SERVERS_MAX} are looked at")
        )
    return Configured(tuple(rows), tuple(problems))


def _servers_in(data: bytes) -> dict[str, Any]:
    if len(data) > _FILE_BYTES_MAX:
        raise UsageError(f"it has more than {_FILE_BYTES_MAX:,} bytes")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"it is not valid JSON: {str(error)[:200]}") from error
    servers: dict[str, Any] | None = found.get("mcpServers") if isinstance(found, dict) else None
    if not isinstance(servers, dict):
        raise UsageError('it has no object "mcpServers"')
    return servers


def _project_row(name: str, table: Any, where: str) -> ServerRow:
    _check_fields(table, _PROJECT_FIELDS)
    kind = table.get("type", "stdio" if "command" in table else "http")
    if kind not in _KINDS:
        why = "; the older SSE transport is not supported" if kind == "sse" else ""
        raise UsageError(f"type is stdio or http, not {kind!r:.40}{why}")
    command = (_text(table, "command"), *_texts(table, "args")) if "command" in table else ()
    row = ServerRow(name, command, _text(table, "url"), _pairs(table, "env"), _pairs(table, "headers"), where)
    _check_row(row)
    return row


def configured(
    own: Sequence[ServerRow],
    project: Configured,
    plugins: Iterable[ServerRow] = (),
    *,
    own_lookup: Lookup,
    lent: Lookup,
) -> Configured:
    """All servers with their values filled in: the user's first, then the project's, then those of plugins. A name that is taken, or that
    could be confused with a taken one, is left out.
    """
    rows: list[ServerRow] = []
    problems = list(project.problems)
    taken: dict[str, ServerRow] = {}
    for row in (*own, *project.rows, *plugins):
        is_own = any(row is one for one in own)
        try:
            _check_row(row)
            before = taken.get(lookalike(row.name))
            if before is not None:
                raise UsageError(
                    f"its name looks like that of {before.name}, which {before.source or 'somebody else'} gave"
                )
            if len(rows) >= SERVERS_MAX:
                raise UsageError(f"there are {SERVERS_MAX} servers already")
            taken[lookalike(row.name)] = row
            rows.append(with_values(row, own_lookup if is_own else lent))
        except PeriplusError as error:
            problems.append(Problem(row.name[:60], row.source, str(error), error.mend))
    return Configured(tuple(rows), tuple(problems))


def with_values(row: ServerRow, lookup: Lookup) -> ServerRow:
    """Return the row with ``${…}`` replaced and its values checked. Raises UsageError."""

    def filled(text: str, what: str) -> str:
        def value(match: re.Match[str]) -> str:
            name, dash, other = match[1].partition(":-")
            found = lookup(name)
            if found is None and not dash:
                raise UsageError(
                    f"{what} asks for {match[0]}, which is not set, or not available to it", mend=_how(name)
                )
            return found if found is not None else other

        return _STANDS_FOR.sub(value, text)

    environment = {name: filled(text, f"environment {name}") for name, text in row.environment.items()}
    headers = {name: filled(text, f"header {name}").strip() for name, text in row.headers.items()}
    for name, text in headers.items():
        if not text.isascii() or not text.isprintable():
            raise UsageError(f"header {name} has a value that is not valid in a header")
    command = tuple(filled(word, "command") for word in row.command)
    full = replace(row, command=command, url=filled(row.url, "url"), environment=environment, headers=headers)
    _check_row(full, is_whole=True)
    return full


def _how(name: str) -> str:
    if name.startswith("key:"):
        return f"Keep it: periplus models key {name[4:][:60]}" if name[4:] else "Write ${key:NAME}."
    return f"Set {name[:60]}; where a project asks for it, list it in server_variables of your agent.toml as well."


def _check_fields(table: Any, fields: Sequence[str]) -> None:
    if not isinstance(table, dict):
        raise UsageError("it is no table")
    for name in table:
        if name not in fields:
            import difflib

            near = difflib.get_close_matches(str(name), fields, 1)
            raise UsageError(f"unknown field {str(name)[:60]!r}", mend=f"Did you mean {near[0]!r}?" if near else f"Known are: {', '.join(fields)}.")  # fmt: skip


def _check_row(row: ServerRow, *, is_whole: bool = False) -> None:
    if not _NAME.fullmatch(row.name):
        raise UsageError(
            f"{row.name[:60]!r} is not a valid server name", mend="Use letters, digits, - and _, at most 40."
        )
    if bool(row.command) == bool(row.url):
        raise UsageError("it has either a command or a url", mend='As command = ["npx", "-y", "some-server"].')
    if row.command and row.headers:
        raise UsageError("headers are for a url; a command has environment")
    if row.url and row.environment:
        raise UsageError("environment is for a command; a url has headers")
    if row.command and (not row.command[0].strip() or any("\0" in word for word in row.command)):
        raise UsageError("the first word of its command is not a program")
    for name, value in row.environment.items():
        if not _VARIABLE.fullmatch(name) or "\0" in value:
            raise UsageError(f"{name[:60]!r} is not a variable name")
    for name in row.headers:
        if not _HEADER.fullmatch(name) or name.lower() in _OWN_HEADERS:
            raise UsageError(f"{name[:60]!r} is not a header that can be set")
    if row.url and (is_whole or not _STANDS_FOR.search(row.url)):
        _check_url(row)


def _check_url(row: ServerRow) -> None:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(row.url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError as error:
        raise UsageError(f"its url is not valid: {error}") from error
    if (
        parts.scheme not in ("http", "https")
        or not host
        or any(ord(char) <= 32 or ord(char) == 127 for char in row.url)
    ):
        raise UsageError("its url is neither http nor https")
    if parts.username is not None or parts.password is not None:
        raise UsageError("its url has a user or a password", mend="Put it into headers.")
    if parts.scheme == "http" and row.headers and host not in ("127.0.0.1", "::1", "localhost"):
        raise UsageError("its headers would be sent unencrypted", mend="Use https.")


def _text(table: Mapping[str, Any], name: str) -> str:
    value = table.get(name, "")
    if not isinstance(value, str) or len(value) > _TEXT_MAX:
        raise UsageError(f"{name} is a text of up to {_TEXT_MAX:,} characters")
    return value


def _texts(table: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = table.get(name, [])
    if (
        not isinstance(value, list)
        or len(value) > _ITEMS_MAX
        or not all(isinstance(one, str) and len(one) <= _TEXT_MAX for one in value)
    ):
        raise UsageError(f"{name} is a list of up to {_ITEMS_MAX} texts")
    return tuple(value)


def _pairs(table: Mapping[str, Any], name: str) -> dict[str, str]:
    value = table.get(name, {})
    if (
        not isinstance(value, dict)
        or len(value) > _ITEMS_MAX
        or not all(isinstance(one, str) and len(one) <= _TEXT_MAX for one in value.values())
    ):
        raise UsageError(f"{name} is a table of up to {_ITEMS_MAX} texts")
    return dict(value)
