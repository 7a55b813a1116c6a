"""Generate docs/reference from the tables of the command line: ``python -m periplus.cli.reference FOLDER``.

A test compares the files, so that the reference is always up to date.
"""

from __future__ import annotations

__all__ = ["ALL_SCHEMAS", "cli_reference", "json_reference", "write_reference"]

import argparse
import inspect
import os
import sys
from collections.abc import Iterator
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec

from periplus.cli.agent.schemas import RUN_SCHEMAS
from periplus.cli.agent.skill_schemas import SKILL_SCHEMAS
from periplus.cli.common.examples import EXAMPLES
from periplus.cli.common.schemas import SCHEMAS
from periplus.cli.context.schemas import CONTEXT_SCHEMAS
from periplus.cli.dispatch.loop.schemas import LOOP_SCHEMAS
from periplus.cli.dispatch.schemas import DISPATCH_SCHEMAS
from periplus.cli.integration.agents_schemas import AGENTS_SCHEMAS
from periplus.cli.integration.completion_schemas import COMPLETION_SCHEMAS
from periplus.cli.integration.connection_schemas import CONNECT_SCHEMAS
from periplus.cli.integration.mcp_schemas import MCP_SCHEMAS
from periplus.cli.integration.web_schemas import WEB_SCHEMAS
from periplus.cli.journal.redaction_schemas import REDACT_SCHEMAS
from periplus.cli.main import COMMANDS, COMMON_OPTIONS, OVERVIEW, PARTS, leaves, make_parser
from periplus.cli.memory.candidate_schemas import INBOX_SCHEMAS
from periplus.cli.memory.relevance_schemas import KNOWING_SCHEMAS
from periplus.cli.memory.review_schemas import REVIEW_SCHEMAS
from periplus.cli.reference_pages.agent_table import agent_files_reference
from periplus.cli.reference_pages.entities import entity_reference
from periplus.cli.reference_pages.events import event_reference, event_schema_text
from periplus.cli.reference_pages.packages import package_reference
from periplus.cli.reference_pages.python_api import python_reference
from periplus.cli.trail.schemas import TRAIL_SCHEMAS
from periplus.cli.work.overview_schemas import OVERVIEW_SCHEMAS
from periplus.cli.work.schemas import WORK_SCHEMAS
from periplus.code.documents.schemas import CODE_SCHEMAS

ALL_SCHEMAS: Final[dict[str, type[msgspec.Struct]]] = {
    **SCHEMAS,
    **INBOX_SCHEMAS,
    **KNOWING_SCHEMAS,
    **CODE_SCHEMAS,
    **WORK_SCHEMAS,
    **OVERVIEW_SCHEMAS,
    **DISPATCH_SCHEMAS,
    **LOOP_SCHEMAS,
    **CONNECT_SCHEMAS,
    **AGENTS_SCHEMAS,
    **REVIEW_SCHEMAS,
    **RUN_SCHEMAS,
    **SKILL_SCHEMAS,
    **TRAIL_SCHEMAS,
    **CONTEXT_SCHEMAS,
    **MCP_SCHEMAS,
    **WEB_SCHEMAS,
    **COMPLETION_SCHEMAS,
    **REDACT_SCHEMAS,
}
_EXIT_CODES: Final = (
    (0, "done"),
    (1, "found a problem, or found nothing"),
    (2, "wrong usage or input"),
    (3, "a damaged store or file, or the machine refused"),
    (4, "somebody else was writing for longer than five seconds"),
    (5, "refused: a secret, a conflict, a claim of somebody else"),
    (6, "outcome unknown: repeat the command with the key that it names"),
    (7, "a run of the agent reached a limit: steps, tokens, cents, the model's window"),
    (70, "a defect of Periplus itself"),
    (130, "interrupted"),
)
_NAMES: Final = {str: "text", int: "number", float: "number with a fraction", bool: "true or false", type(None): "null"}


def cli_reference() -> str:
    """Return the text of docs/reference/cli.md."""
    return "\n".join(_cli_lines())


def _cli_lines() -> Iterator[str]:
    yield "# The command line"
    yield ""
    yield "Written by `python -m periplus.cli.reference docs/reference` from the commands themselves."
    yield ""
    yield "    periplus COMMAND [options] [arguments]"
    yield ""
    yield f"`periplus` alone, or with the options that every command takes, does not need a COMMAND: {OVERVIEW.help}."
    yield ""
    for command in COMMANDS:
        if command.name in PARTS:
            yield from ([] if command is COMMANDS[0] else [""])
            yield f"{PARTS[command.name][0].upper()}{PARTS[command.name][1:]}:"
            yield ""
        first = leaves(_subparser(command.name))[0].prog.replace(" ", "-")  # with subcommands, link to the first
        yield f"- [`{command.name}`](#{first}): {command.help}"
    yield ""
    yield "Every command takes"
    yield ""
    status = leaves(_subparser("status"))[0]
    yield from (_option_line(action) for action in status._actions if _is_common(action))  # noqa: SLF001 - no other way
    yield ""
    yield "| exit code | meaning |"
    yield "|---:|---|"
    for code, meaning in _EXIT_CODES:
        yield f"| {code} | {meaning} |"
    yield ""
    yield "An error is one or two lines on standard error: what is wrong, what is still safe, what to type next."
    yield "Set `PERIPLUS_STORE` to name a store, `PERIPLUS_AGENT` and `PERIPLUS_SESSION` to say who writes;"
    yield "`NO_COLOR` and `TERM=dumb` turn colour off, `COLUMNS` sets the width of a terminal."
    for command in COMMANDS:
        for leaf in leaves(_subparser(command.name)):
            yield ""
            yield f"## {leaf.prog}"
            yield ""
            yield str(leaf.description)
            yield ""
            actions = [action for action in leaf._actions if not _is_common(action) and action.dest != "help"]  # noqa: SLF001 - likewise
            words = [_positional(action) for action in actions if not action.option_strings]
            yield "    " + " ".join(
                [leaf.prog, *["[options]" for _ in actions[:1] if len(words) < len(actions)], *words]
            )
            if actions:
                yield ""
            yield from map(_option_line, actions)
            yield ""
            yield "```sh"
            yield from (f"periplus {one}" for one in EXAMPLES[leaf.prog.removeprefix("periplus ")])
            yield "```"
    yield ""


def _subparser(name: str) -> argparse.ArgumentParser:
    parser = make_parser(name)
    for action in parser._actions:  # noqa: SLF001 - argparse offers no other way to its subparsers
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - likewise
            found: argparse.ArgumentParser = action.choices[name]
            return found
    raise LookupError(name)


def _is_common(action: argparse.Action) -> bool:
    return not set(action.option_strings).isdisjoint(COMMON_OPTIONS)


def _positional(action: argparse.Action) -> str:
    name = str(action.metavar)
    return {"?": f"[{name}]", "*": f"[{name} …]"}.get(str(action.nargs), name)


def _option_line(action: argparse.Action) -> str:
    assert action.help, f"{action.dest} has no help"
    if not action.option_strings:
        return f"- `{_positional(action)}`: {action.help}"
    value = action.metavar or ("|".join(map(str, action.choices)) if action.choices else "")
    if isinstance(action.metavar, tuple):
        value = " ".join(action.metavar)
    if action.nargs == 0:
        value = ""
    if action.nargs == "?":
        value = f"[{value}]"
    names = "`, `".join(action.option_strings)
    return f"- `{' '.join([names, *([str(value)] if value else [])])}`: {action.help}"


def json_reference() -> str:
    """Return the text of docs/reference/json.md."""
    return "\n".join(_json_lines())


def _json_lines() -> Iterator[str]:
    yield "# What `--json` prints"
    yield ""
    yield "Written by `python -m periplus.cli.reference docs/reference` from `periplus.cli.common.schemas`."
    yield ""
    yield "One document on one line, in UTF-8, whose `schema` names its shape and version. Within a version fields are"
    yield "added, never renamed or removed: ignore those that you do not know. Times are RFC 3339 in UTC, digests"
    yield "hexadecimal. An error prints `periplus.error/1` in place of the result, and the same in words on standard"
    yield "error; wrong usage and an interrupt (exit code 130) too. `trail show --json` prints a document for each line, as described in"
    yield "[the format of trails](../formats/trail.md); `context expand` one for each atom, `context stream` one for each chunk."
    parts: dict[str, type[msgspec.Struct]] = {}
    for command, schema in ALL_SCHEMAS.items():
        yield ""
        yield f"## {command}"
        yield ""
        yield from _described(schema)
        yield "| field | value |"
        yield "|---|---|"
        yield f"| `schema` | `{schema.__struct_config__.tag}` |"
        yield from _fields(schema, parts)
    yield ""
    yield "## Parts"
    done: set[str] = set()
    while todo := [name for name in parts if name not in done]:
        name = todo[0]
        done.add(name)
        yield ""
        yield f"### {name}"
        yield ""
        yield from _described(parts[name])
        yield "| field | value |"
        yield "|---|---|"
        yield from _fields(parts[name], parts)
    yield ""


def _described(schema: type[msgspec.Struct]) -> Iterator[str]:
    text = schema.__doc__
    if text and not text.startswith(schema.__name__):
        yield inspect.cleandoc(text).replace("``", "`")
        yield ""


def _fields(schema: type[msgspec.Struct], parts: dict[str, type[msgspec.Struct]]) -> Iterator[str]:
    for name, hint in get_type_hints(schema).items():
        if name in schema.__struct_fields__:
            yield f"| `{name}` | {_type_text(hint, parts)} |"


def _type_text(hint: Any, parts: dict[str, type[msgspec.Struct]]) -> str:
    if hint in _NAMES:
        return _NAMES[hint]
    if hint is Any:
        return "any value"
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        name = hint.__name__.removesuffix("Out").lower()
        parts.setdefault(name, hint)
        return f"[{name}](#{name})"
    if get_origin(hint) is list:
        return f"list of {_type_text(get_args(hint)[0], parts)}"
    if get_origin(hint) is dict:
        return f"object: name to {_type_text(get_args(hint)[1], parts)}"
    if get_origin(hint) is Literal:
        return " or ".join(f"`{one}`" for one in get_args(hint))
    return " or ".join(_type_text(part, parts) for part in get_args(hint))


def write_reference(folder: str) -> None:
    """Write the pages into ``folder``."""
    os.makedirs(folder, exist_ok=True)
    files = {
        "cli.md": cli_reference(), "json.md": json_reference(), "entities.md": entity_reference(), "python.md": python_reference(),
        "events.md": event_reference(), "events.schema.json": event_schema_text(), "packages.md": package_reference(),
        "agent-files.md": agent_files_reference(),
    }  # fmt: skip
    for name, text in files.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    write_reference(sys.argv[1])
