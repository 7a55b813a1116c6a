"""``set``, ``state``, ``evolve``, ``merge``, ``split``, ``link``: change existing entities."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from typing import TYPE_CHECKING, Final

from periplus.cli.common.changes import add_insist, changed, check_typed
from periplus.cli.common.face import Face

if TYPE_CHECKING:
    from periplus.base.encoding.canonical import JSONValue
    from periplus.memory.writing.lifecycle import Changed
    from periplus.project import Project
    from periplus.project.knowledge.work import ProjectWork

_LISTS: Final = frozenset({"tags", "about", "evidence", "relations", "alternatives", "depends_on"})
_NUMBERS: Final = frozenset({"priority", "confidence", "place"})
_RELATIONS: Final = ("supersedes", "contradicts", "caused", "resolves", "depends_on", "part_of", "references")
_FIELD: Final = "a field and its value; lists as JSON or with commas; an empty value removes the field"


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    add = parser.add_argument
    if command in ("set", "evolve", "split", "link"):
        add("id", metavar="ID", help="an id, or a unique prefix of it")
    if command == "set":
        add("fields", nargs="+", metavar="FIELD=VALUE", help=_FIELD)
        add("--expect", default="", metavar="VERSION", help="only if this is still the current version")
    elif command == "state":
        add(
            "words",
            nargs="+",
            metavar="ID… STATE",
            help="ids, or unique prefixes of them, and then the new state",
        )
        add("--reason", default="", metavar="TEXT", help="why")
        add("--force", action="store_true", help="also if somebody else works on it; the record says that you did")
    elif command == "evolve":
        add("text", metavar="TEXT", help="the new text")
        add("--set", action="append", default=[], dest="fields", metavar="FIELD=VALUE", help=f"{_FIELD} (repeatable)")
    elif command == "merge":
        add("ids", nargs="+", metavar="ID", help="two or more ids of one type, or unique prefixes of them")
        add("--text", required=True, metavar="TEXT", help="the text of the entity that replaces them")
        add("--set", action="append", default=[], dest="fields", metavar="FIELD=VALUE", help=f"{_FIELD} (repeatable)")
    elif command == "split":
        add("texts", nargs="+", metavar="TEXT", help="the text of each new entity: two or more")
    else:
        add(
            "kind",
            choices=_RELATIONS,
            metavar="KIND",
            help=f"the relation of the first to the second: {', '.join(_RELATIONS)}",
        )
        add("target", metavar="TARGET", help="the id of the second, or a unique prefix of it")
    add(
        "--key",
        default="",
        metavar="KEY",
        help="repeat a write with an unknown outcome under its key; it is written at most once",
    )
    add_insist(parser)


def execute(face: Face, arguments: argparse.Namespace) -> int:
    check_typed(arguments)
    with face.open(allow_secrets=arguments.insist) as project:
        words = getattr(arguments, "fields", [])
        done = _done(project.work, arguments, _about_typed(face, project, arguments, _fields(words)))
    return changed(face, done)


def _about_typed(
    face: Face, project: Project, arguments: argparse.Namespace, fields: dict[str, JSONValue]
) -> dict[str, JSONValue]:
    """Resolve paths in ``fields`` against the working folder, as ``remember --about`` does; for a step these are scopes."""
    about = fields.get("about")
    if not isinstance(about, list):
        return fields
    from periplus.cli.memory.knowledge import about_typed

    is_step = arguments.command == "set" and project.show(arguments.id).item_type == "step"

    def named(word: JSONValue) -> JSONValue:
        if not isinstance(word, str):
            return word
        return project.work.scope(word, cwd=face.cwd) if is_step else about_typed(face, word)

    return {**fields, "about": [named(word) for word in about]}


def _done(work: ProjectWork, arguments: argparse.Namespace, fields: dict[str, JSONValue]) -> Changed:
    key = arguments.key
    if arguments.command == "set":
        return work.set_fields(arguments.id, fields, expect=arguments.expect, key=key)
    if arguments.command == "state":
        *ids, state = arguments.words
        if not ids:
            from periplus.base.errors import UsageError

            raise UsageError("an id and a state are needed", safe="Nothing was written.",
                             mend="Write: periplus state ID STATE.")  # fmt: skip
        return work.change_state(ids, state, reason=arguments.reason, force=arguments.force, key=key)
    if arguments.command == "evolve":
        return work.evolve(arguments.id, arguments.text, fields, key=key)
    if arguments.command == "merge":
        return work.merge(arguments.ids, arguments.text, fields, key=key)
    if arguments.command == "split":
        return work.split(arguments.id, arguments.texts, key=key)
    return work.link(arguments.id, arguments.kind, arguments.target, key=key)


def _fields(words: list[str]) -> dict[str, JSONValue]:
    from periplus.base.errors import UsageError

    found: dict[str, JSONValue] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name:
            raise UsageError(
                f"{word[:80]!r} is not FIELD=VALUE", safe="Nothing was written.", mend="Write FIELD=VALUE."
            )
        if name in found:
            raise UsageError(f"the field {name!r} is set twice", safe="Nothing was written.")
        found[name] = _value(name, text)
    return found


def _value(name: str, text: str) -> JSONValue:
    from periplus.base.errors import UsageError

    if not text:
        return None
    if name not in _LISTS | _NUMBERS:
        return text
    if name in _LISTS and text[0] != "[":
        return [word.strip() for word in text.split(",") if word.strip()]
    import json

    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} cannot be read: {text[:60]!r}", safe="Nothing was written.",
                         mend='Write a number, words with commas, or JSON: tags=["a", "b"].') from error  # fmt: skip
    if not isinstance(value, list if name in _LISTS else int) or isinstance(value, bool):
        wanted = "a list" if name in _LISTS else "a whole number"
        raise UsageError(f"{name} is {wanted}, not {text[:60]!r}", safe="Nothing was written.")
    return value
