"""Rows of the memory's tables in the index, made from entities and documents. Pure."""

from __future__ import annotations

__all__ = [
    "EXPIRES",
    "SUPERSEDES",
    "TABLES",
    "Pending",
    "Rows",
    "document_row",
    "kind_token",
    "links_of",
    "names_of",
    "superseded_in",
    "supersedes_of",
    "text_digest",
    "touched_rows",
    "words_row",
]

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.encoding import hashing
from periplus.base.named_tuple import NamedTuple
from periplus.journal import Entity
from periplus.memory.entities.types import MEMORY_TYPES, UNSEARCHED

if TYPE_CHECKING:
    from periplus.memory.fulltext.documents import Document

TABLES: Final = ("words", "session_words")
TEXT_CHARACTERS: Final = 400
_SENSES_OF_CHARACTERS: Final = 1_000
REWRITTEN: Final = "rewritten"  # state of a commit that no ref reaches any more
SUPERSEDES: Final = "supersedes"  # in ``links``, beside the fields: what an entity says that it supersedes
EXPIRES: Final = "expires"  # likewise: the expiry, in UTC
NAMES: Final = "v1"  # likewise: the names of an imported entity in its v1 folder
_NAME_CHARACTERS_MAX: Final = 200


def text_digest(item_type: str, text: str) -> bytes:
    """Return the digest by which an exact duplicate is found: of the type and the text, without white space."""
    return hashing.sha256(f"{item_type}\0{' '.join(text.split())}".encode()).digest()


def links_of(entity: Entity) -> list[tuple[str, str]]:
    """Return the fields by which an entity is found, with their values."""
    relations = [(SUPERSEDES, target) for target in supersedes_of(entity)]
    if entity.item_type not in UNSEARCHED and (ends := _end_of(entity)):
        relations.append((EXPIRES, ends))
    relations += [(NAMES, name) for name in names_of(entity)]
    row = MEMORY_TYPES.get(entity.item_type)
    if row is None or not row.linked:
        return relations
    value = entity.value
    found = [(field, held) for field in sorted(row.linked) if isinstance(held := value.get(field, ""), str)]
    if row.old_states:
        found = [(field, row.old_states.get(held, held) if field == "state" else held) for field, held in found]
    return found + relations


def names_of(entity: Entity) -> list[str]:
    """Return the id and label of an entity in the folder that it was imported from, in lower case."""
    origin = entity.value.get(NAMES)
    if not isinstance(origin, dict):
        return []
    said = (origin.get("id"), origin.get("label"))
    return sorted({one.lower() for one in said if isinstance(one, str) and 0 < len(one) <= _NAME_CHARACTERS_MAX})


def _end_of(entity: Entity) -> str:
    """Return the expiry of an entity in the form in which the index compares times."""
    said = entity.value.get("expires")
    if not isinstance(said, str) or not said:
        return ""
    from periplus.base.clock import format_ms, parse_ms

    ends = parse_ms(said)
    return "" if ends is None else format_ms(ends)


def supersedes_of(entity: Entity) -> list[str]:
    """Return the ids that an entity supersedes, each once."""
    relations = entity.value.get("relations")
    if not isinstance(relations, list):
        return []
    said = [
        one["target"]
        for one in relations
        if isinstance(one, dict) and one.get("kind") == SUPERSEDES and "target" in one
    ]
    return sorted({target for target in said if isinstance(target, str)})


def kind_token(kind: str) -> str:
    """Return the token of a document's kind among its words: no text has it, for it begins with a private character."""
    return f"\ue000{kind}"


class Pending(NamedTuple):
    """A document with its columns; ``id`` is its row number, unless another row has it."""

    id: int
    key: tuple[str, str]
    document: Document
    state: str
    confidence: int
    anchored: bool


class Rows(NamedTuple):
    """The rows of an entity: ``digest`` of its text, if it has one; the ids that it supersedes; of a session its row
    in ``sessions``.
    """

    documents: Sequence[Pending] = ()
    digest: bytes = b""
    replaced: tuple[str, ...] = ()
    fault: str = ""
    session: tuple[object, ...] = ()


def superseded_in(relations: object) -> list[str]:
    if not isinstance(relations, list):
        return []
    pairs = [(item.get("kind"), item.get("target")) for item in relations if isinstance(item, dict)]
    return [target for kind, target in pairs if kind == "supersedes" and isinstance(target, str)]


def _senses(item_type: str, document: Document, body: str, context: str) -> str:
    """Return the synonym groups of a memory's words; a session or a commit has none. ``body`` and ``context`` are the
    texts as the index has them.
    """
    from periplus.base.text.search_terms import STOP_WORDS, terms

    if item_type == "trail":
        return ""
    from periplus.memory.text.synonyms import synonym_groups

    first, second = document.body, document.context
    if max(len(first), len(second)) <= _SENSES_OF_CHARACTERS and first.isascii() and second.isascii():
        said = [*body.split(), *context.split()]  # the same terms, for a fifth of the work
    else:
        said = terms(f"{first[:_SENSES_OF_CHARACTERS]} {second[:_SENSES_OF_CHARACTERS]}")
    return " ".join(synonym_groups(word for word in said if word not in STOP_WORDS))


def document_row(item: Pending) -> tuple[object, ...]:
    """Return the row of ``documents`` without its number, followed by the text for ``passages``."""
    from periplus.memory.fulltext.documents import label_of

    document = item.document
    return (*item.key, document.kind, document.part, document.ts, item.state, item.confidence, int(item.anchored),
            label_of(document), (document.title or document.body)[:TEXT_CHARACTERS])  # fmt: skip


def words_row(item: Pending) -> tuple[str, tuple[str, ...]]:
    """Return the table of words for a document, and its row there."""
    from periplus.base.text.search_terms import expand

    document = item.document
    body, context = _spelled(expand(document.body)), _spelled(expand(document.context))
    title, paths = _spelled(expand(document.title)), _spelled(expand(" ".join(document.paths)))
    row = (body, title, paths, context, expand(document.ts[:10]),
           kind_token(document.kind), _senses(item.key[0], document, body, context))  # fmt: skip
    return "session_words" if document.kind == "session" else "words", row


def _spelled(words: str) -> str:
    """Return words as ``expand`` gives them, in both spellings."""
    if words.isascii():
        return words
    from periplus.base.text.search_terms import add_spellings

    return " ".join(add_spellings(words.split(" ")))


def touched_rows(item: Pending) -> list[tuple[object, ...]]:
    """Return the rows of ``touched``: one path may occur twice."""
    document = item.document
    if document.part < -1 or (document.kind not in ("session", "commit") and document.part >= 0):
        return []
    return [(path, *item.key, document.part, document.ts) for path in document.paths]
