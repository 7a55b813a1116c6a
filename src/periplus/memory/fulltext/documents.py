"""Documents that recall searches, made from entities and from the steps of trails. Pure except for the objects that
it reads.

A trail gives a document for each prompt, answer, command and commit, and one for the session as a whole; each has the
words around it as context, because what people look for is often said next to where they look. Calls of Periplus
itself give no documents: the next question with the same words would find the last one.
"""

from __future__ import annotations

__all__ = [
    "Document",
    "documents_of_memory",
    "documents_of_rewritten",
    "documents_of_trail",
    "foreign_title",
    "label_of",
    "object_of_card",
]

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from periplus.base.clock import format_ms, parse_ms
from periplus.base.encoding.canonical import JSONValue
from periplus.base.encoding.digests import is_digest_text
from periplus.base.errors import DamageError
from periplus.base.named_tuple import NamedTuple
from periplus.journal import Entity
from periplus.memory.entities.schemas import Common
from periplus.memory.entities.types import MEMORY_TYPES

if TYPE_CHECKING:
    from periplus.trail import Step

BODY_CHARACTERS_MAX: Final = 4_000
CONTEXT_CHARACTERS: Final = 300
SESSION_CHARACTERS_MAX: Final = 120_000
REWRITTEN_MAX: Final = 100  # commits of one history
_NEIGHBOURS: Final = 2
_OWN_FOLDER: Final = ".periplus/"
_OWN_NAME: Final = "periplus"
_PATHS_MAX: Final = 200
_LABEL_CHARACTERS_MAX: Final = 40
_LABEL_WORDS_MAX: Final = 3
_IN_LABELS: Final = frozenset(" _-./@()+#'’")
# Words that name the kind of a text and not its subject.
_NO_LABELS: Final = frozenset(
    "build bug chore ci doc docs error example feat feature fix hint info note perf refactor release revert style test tests tip "
    "todo warning wip".split()
)
_KINDS: Final = {
    "PROMPT": "prompt",
    "SAY": "answer",
    "COMMAND_RUN": "command",
    "TEST_RUN": "command",
    "SEARCH_CODE": "command",
    "GIT_COMMIT": "commit",
    "WEB_SEARCH": "command",
    "AGENT_SPAWN": "prompt",
    "TOOL_CALL": "command",
}


_KNOWN: Final = frozenset(Common.__struct_fields__) | {
    "state",
    "rationale",
    "remedy",
    "check",
    "alternatives",
    "expires",
}


FOREIGN: Final = "v1_"  # prefix of the types of entities that were kept whole, for they have no counterpart here
_TITLES: Final = ("text", "title", "name", "goal", "summary", "description", "body", "content")
_UNSAID: Final = frozenset({"id", "uuid", "version", "schema_version", "$dec"})


class Document(NamedTuple):
    """A document of the full text. ``part`` is the step's index in its trail, −1 for an entity or a session as a
    whole, less for a commit that was rewritten.
    """

    kind: str
    part: int
    ts: str
    title: str
    body: str
    paths: tuple[str, ...]
    context: str


def documents_of_memory(entity: Entity) -> list[Document]:
    """Return the document of a decision, constraint, trap, lesson or note, or of an entity of a declared type."""
    value = entity.value
    more = [_text(value.get(name)) for name in ("rationale", "remedy", "check")]
    alternatives = value.get("alternatives")
    more += [_text(item) for item in alternatives] if isinstance(alternatives, list) else []
    if entity.item_type.startswith(FOREIGN):
        more += _foreign_texts(value.get("fields"))
    elif entity.item_type not in MEMORY_TYPES:  # declared by the project, or unknown: its own fields are searched, too
        more += [_text(value[name]) for name in sorted(value) if name not in _KNOWN]
    tags = value.get("tags")
    about = value.get("about")
    items = [item for item in about if isinstance(item, dict)] if isinstance(about, list) else []
    refs = [text for item in items for name in ("ref", "path") if (text := _text(item.get(name)))]
    body = "\n".join([_text(value.get("text")), *filter(None, more)])
    context = " ".join(_text(tag) for tag in tags) if isinstance(tags, list) else ""
    return [Document(entity.item_type, -1, entity.ts, "", body, tuple(refs), context)]


def foreign_title(value: Mapping[str, JSONValue]) -> str:
    """Return the title of an entity that was kept whole: the value of a key that looks like a title, else its first
    words.
    """
    fields = value.get("fields")
    if not isinstance(fields, dict):
        return ""
    texts = (text for key in _TITLES if (text := _text(fields.get(key)).strip()))
    return next(texts, next(iter(_foreign_texts(fields)), ""))


def _foreign_texts(fields: JSONValue) -> list[str]:
    """Return all texts of an entity that was kept whole, without ids and times, up to the limit of what is searched."""
    found: list[str] = []
    left = BODY_CHARACTERS_MAX
    pending: list[JSONValue] = [fields]
    while pending and left > 0:
        one = pending.pop()
        if isinstance(one, dict):
            pending += [one[key] for key in reversed(one) if not key.endswith(("_at", "_id")) and key not in _UNSAID]
        elif isinstance(one, list | tuple):
            pending += reversed(one)
        elif isinstance(one, str) and one.strip():
            found.append(one[:left])
            left -= len(one)
    return found


def object_of_card(card: Mapping[str, JSONValue]) -> bytes:
    """Return the digest of the object of a trail. Raises DamageError where the card, which anybody may have written,
    names none.
    """
    name = _text(card.get("object"))
    if not is_digest_text(name):
        raise DamageError(
            f"the card of a trail names no object: {name[:80]!r}", safe="Nothing else is touched by this."
        )
    return bytes.fromhex(name)


def documents_of_trail(
    entity: Entity, read: Callable[[bytes], bytes], saw: Callable[[Step], None] | None = None
) -> list[Document]:
    """Return the documents of a trail; ``read`` fetches an object by its digest, ``saw`` gets each step. Raises what
    reading a damaged trail raises.
    """
    from periplus.trail import BY_CODE, TrailReader  # imported here: writing a note does not need it

    card = entity.value
    reader = TrailReader(read(object_of_card(card)))
    found: list[Document] = []
    cwd = _text(card.get("cwd")).rstrip("/")
    at_ms = reader.header.started_ms
    pending_paths: list[str] = []
    all_paths: dict[str, None] = {}
    for index, step in enumerate(reader.steps()):
        at_ms += step.delta_ms
        if saw is not None:
            saw(step)
        opcode = BY_CODE.get(step.code)
        name = opcode.name if opcode is not None else ""
        path = _relative(_path(name, step), cwd)
        if path and not path.startswith(_OWN_FOLDER):
            pending_paths.append(path)
            if len(all_paths) < SESSION_CHARACTERS_MAX // 40:
                all_paths[path] = None
        kind = _KINDS.get(name)
        if kind is None:
            continue
        body = _body(name, step, read)
        if not body.strip():
            continue
        if kind == "command" and _OWN_NAME in body.lower() and not (body := _beside_own(name, step, read)).strip():
            continue
        paths = tuple(dict.fromkeys(pending_paths))[:_PATHS_MAX] if kind in ("commit", "answer") else ()
        if kind in ("commit", "answer"):
            pending_paths.clear()
        found.append(Document(kind, index, format_ms(at_ms), "", body[:BODY_CHARACTERS_MAX], paths, ""))
    found = list(_with_context(found))
    if _text(card.get("format")) != "git":
        found.append(_session(card, found, tuple(all_paths), entity.ts))
    return found


def documents_of_rewritten(entity: Entity) -> list[Document]:
    """Return the commits of a history before it was rewritten, as listed by its card, which anybody may have written."""
    told = entity.value.get("rewritten")
    rows = [row for row in told if isinstance(row, dict)] if isinstance(told, list) else []
    found: list[Document] = []
    for place, row in enumerate(rows[:REWRITTEN_MAX]):
        paths = row.get("paths")
        named = tuple(map(_text, paths[:_PATHS_MAX])) if isinstance(paths, list) else ()
        at_ms = parse_ms(_text(row.get("ts")))
        ts = entity.ts if at_ms is None else format_ms(at_ms)
        body = _text(row.get("text"))[:BODY_CHARACTERS_MAX]
        if body.strip():
            found.append(Document("commit", -2 - place, ts, "", body, named, ""))
    return found


def _with_context(found: list[Document]) -> Iterable[Document]:
    for index, document in enumerate(found):
        near = [found[at] for at in range(max(0, index - _NEIGHBOURS), index)]
        near += found[index + 1 : index + 1 + _NEIGHBOURS]
        yield document._replace(context=" ".join(other.body[:CONTEXT_CHARACTERS] for other in near))


def _session(card: dict[str, JSONValue], found: list[Document], paths: tuple[str, ...], ts: str) -> Document:
    length = 0
    bodies = []
    for document in found:
        if length > SESSION_CHARACTERS_MAX:
            break
        bodies.append(document.body)
        length += len(document.body)
    started = _text(card.get("started")) or ts
    return Document(
        "session", -1, started, _text(card.get("title")), "\n".join(bodies)[:SESSION_CHARACTERS_MAX], paths, ""
    )


def label_of(document: Document) -> str:
    """Return the terms before the colon at the beginning of a text: the speaker or the subject (``Ann: yes``,
    ``fix(parser): tabs``). Empty where there is none, and for whole sessions and commands.
    """
    line = document.body[: _LABEL_CHARACTERS_MAX + 2].partition("\n")[0]
    head, colon, rest = line.partition(":")
    if not colon or rest[:1] not in (" ", "\t") or len(head.split()) > _LABEL_WORDS_MAX:
        return ""
    if (
        document.kind in ("session", "command")
        or ". " in head
        or any(not one.isalnum() and one not in _IN_LABELS for one in head)
    ):
        return ""
    from periplus.base.text.search_terms import STOP_WORDS, terms

    return " ".join(term for term in terms(head) if term not in STOP_WORDS and term not in _NO_LABELS)


def _path(name: str, step: Step) -> str:
    if name in ("FILE_READ", "FILE_WRITE", "FILE_EDIT", "FILE_DELETE", "FILE_LIST") and step.operands:
        return _text(step.operands[0])
    if name == "FILE_MOVE" and len(step.operands) > 1:
        return _text(step.operands[1])
    return ""


def _relative(path: str, cwd: str) -> str:
    """Return a path relative to the folder in which the session ran."""
    return path[len(cwd) + 1 :] if cwd and path.startswith(cwd + "/") else path


def _body(name: str, step: Step, read: Callable[[bytes], bytes]) -> str:
    operands = step.operands[1:] if name == "GIT_COMMIT" else step.operands
    parts = [_operand(operand, read) for operand in operands[:3]]
    if step.note is not None:
        parts.append(_operand(step.note, read))
    if step.error is not None:
        parts.append(_operand(step.error, read)[:500])
    return "\n".join(part for part in parts if part)


def _beside_own(name: str, step: Step, read: Callable[[bytes], bytes]) -> str:
    """Return the body of a command without the calls of Periplus in it; empty where nothing else is left."""
    from periplus.memory.text.own_calls import is_own_tool, without_own_commands

    parts = [_operand(operand, read) for operand in step.operands[:3]]
    if name == "TOOL_CALL":
        server, tool, arguments = (*parts, "", "", "")[:3]
        return "" if is_own_tool(server, tool, arguments) else _body(name, step, read)
    whole = parts[0] if name == "COMMAND_RUN" else _operand(step.note, read)
    rest = without_own_commands(whole)
    if rest == whole:
        return _body(name, step, read)
    if not rest.strip():
        return ""
    error = _operand(step.error, read)[:500]
    return "\n".join(filter(None, (rest, *(parts[1:] if name == "COMMAND_RUN" else parts), error)))


def _operand(value: object, read: Callable[[bytes], bytes]) -> str:
    if isinstance(value, str):
        return value
    from periplus.trail import TextObject

    if isinstance(value, TextObject):
        return read(value.sha256).decode("utf-8", "replace")[: BODY_CHARACTERS_MAX * 2]
    return ""


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
