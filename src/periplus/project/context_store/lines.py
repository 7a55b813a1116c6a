"""Atoms and molecules as people and programs write them: one JSON object a line.

An atom is ``{"content": …}``, with ``type``, ``relevance`` (0 to 1), ``timestamp`` (RFC 3339, or milliseconds),
``source`` and ``tags`` where they are known. Fields that a line leaves out stay as they are where the atom is known
already, so that the same file twice changes nothing.

A molecule is ``{"atoms": […], "relations": {name: [[i, j], …]}, "type": …, "metadata": {…}}``; an atom in it is its
digest, or the number of its line in the file of atoms.
"""

from __future__ import annotations

__all__ = ["LINES_MAX", "LINE_BYTES_MAX", "GivenAtom", "check_no_secret", "read_atoms", "read_molecules"]

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

import msgspec

from periplus.base.encoding.canonical import JSONValue
from periplus.base.encoding.digests import is_digest_text
from periplus.base.errors import SecretFoundError, UsageError
from periplus.base.named_tuple import NamedTuple
from periplus.base.text.secrets import find_secrets
from periplus.context.model import STRING_TYPE, Atom, Molecule, atom_digest

LINE_BYTES_MAX: Final = 16 << 20
LINES_MAX: Final = 10_000_000
_SAFE: Final = "Nothing was committed."
_PLACE: Final = re.compile(r" - at `\$\.?(.*)`\Z")
_FIELD: Final = re.compile(r"field `(.*)`\Z")
_T = TypeVar("_T", bound=msgspec.Struct)


class GivenAtom(NamedTuple):
    """An atom to commit, and the fields of its annotation that were given; ``where`` it was read, for people."""

    digest: bytes
    atom: Atom
    said: frozenset[str] = frozenset({"relevance", "time_ms", "source", "tags"})
    where: str = ""

    def over(self, held: Atom | None) -> Atom:
        """Return the atom with the missing fields of ``held``."""
        if held is None or len(self.said) == 4:
            return self.atom
        kept = {
            name: getattr(held, name) for name in ("relevance", "time_ms", "source", "tags") if name not in self.said
        }
        return msgspec.structs.replace(self.atom, **kept)


class _AtomLine(msgspec.Struct, forbid_unknown_fields=True):
    content: str
    type: str = STRING_TYPE
    relevance: float | None = None
    timestamp: str | int | None = None
    source: str | None = None
    tags: tuple[str, ...] | None = None


class _MoleculeLine(msgspec.Struct, forbid_unknown_fields=True):
    atoms: tuple[str | int, ...]
    relations: dict[str, tuple[tuple[int, int], ...]] = {}
    type: str = "Molecule"
    metadata: dict[str, Any] = {}


def read_atoms(
    lines: Iterable[bytes], name: str, *, now_ms: int, allow_secrets: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> list[GivenAtom]:  # fmt: skip
    """Read the atoms of a file that is called ``name``, with the present time where a line gives none. Raises
    UsageError that names line and field, SecretFoundError likewise.
    """
    from periplus.context.records.record import atom

    found: list[GivenAtom] = []
    first: dict[bytes, int] = {}
    for number, line in _decoded(lines, name, msgspec.json.Decoder(_AtomLine)):
        where = f"{name}, line {number}"
        time = now_ms if line.timestamp is None else line.timestamp
        relevance = 0.5 if line.relevance is None else line.relevance
        try:
            made = atom(line.content, type=line.type, relevance=relevance, timestamp=time, source=line.source or "",
                        tags=line.tags or ())  # fmt: skip
        except UsageError as error:
            raise UsageError(f"{where}, {error}", safe=_SAFE, mend=error.mend) from error
        if not allow_secrets:
            check_no_secret(made, where)
        digest = atom_digest(made)
        if first.setdefault(digest, number) != number:
            raise UsageError(
                f"{where}: the same content and type as line {first[digest]}", safe=_SAFE, mend="Keep one of the two."
            )
        given = {"relevance": line.relevance, "time_ms": line.timestamp, "source": line.source, "tags": line.tags}
        found.append(
            GivenAtom(digest, made, frozenset(name for name, value in given.items() if value is not None), where)
        )
        if progress is not None and not len(found) % 1_000:
            progress(len(found), 0)
    return found


def read_molecules(
    lines: Iterable[bytes], name: str, atoms: Sequence[GivenAtom], *, allow_secrets: bool = False
) -> list[Molecule]:
    """Read the molecules of a file; ``atoms`` are those that line numbers refer to. Raises what ``read_atoms`` does."""
    by_line = {int(given.where.rpartition(" ")[2]): given.digest for given in atoms if given.where}
    found = []
    for number, line in _decoded(lines, name, msgspec.json.Decoder(_MoleculeLine)):
        where = f"{name}, line {number}"
        digests = []
        for place, named in enumerate(line.atoms):
            digest = (
                by_line.get(named)
                if isinstance(named, int)
                else bytes.fromhex(named)
                if is_digest_text(named)
                else None
            )
            if digest is None:
                said = (
                    f"no atom in line {named}"
                    if isinstance(named, int)
                    else f"{named[:80]!r} is not a digest of an atom"
                )
                raise UsageError(f"{where}, atoms[{place}]: {said}", safe=_SAFE,
                                 mend="Give 64 hexadecimal digits, or the number of a line of the file of atoms.")  # fmt: skip
            digests.append(digest)
        made = Molecule(tuple(digests), line.relations, line.type, line.metadata)
        if not allow_secrets:
            parts: dict[str, JSONValue] = {"type": line.type, "relations": [*line.relations], "metadata": line.metadata}
            for part, value in parts.items():
                for field, text in _texts(value, part):
                    _refuse_secret(text, f"{where}, {field}")
        found.append(made)
    return found


def check_no_secret(atom: Atom, where: str) -> None:
    """Raise SecretFoundError where content, type, source or a tag looks like a secret, without repeating it."""
    for field in ("content", "type", "source"):
        _refuse_secret(getattr(atom, field), f"{where}, {field}")
    for text in atom.tags:
        _refuse_secret(text, f"{where}, tags")


def _refuse_secret(text: str, where: str) -> None:
    found = find_secrets(text) if text else []
    if found:
        secret = found[0]
        raise SecretFoundError(
            f"{where}: what looks like a secret ({secret.kind}, characters {secret.start} to {secret.end})",
            safe=_SAFE,
            mend="Leave it out, or insist with --insist if it is not a secret.",
        )


def _decoded(lines: Iterable[bytes], name: str, decoder: msgspec.json.Decoder[_T]) -> Iterator[tuple[int, _T]]:
    for number, line in enumerate(lines, 1):
        if number > LINES_MAX:
            raise UsageError(f"{name}: over {LINES_MAX:,} lines", safe=_SAFE, mend="Commit it in parts.")
        if len(line) > LINE_BYTES_MAX:
            raise UsageError(f"{name}, line {number}: over {LINE_BYTES_MAX:,} bytes", safe=_SAFE)
        line = line.removeprefix(BOM_UTF8) if number == 1 else line  # editors of some systems put it there  # noqa: PLW2901
        if not line.strip():
            continue
        try:
            value = decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UsageError(f"{name}, line {number}{_told(line, error)}", safe=_SAFE) from error
        twice = _said_twice(line, value.__struct_fields__)
        if twice:
            raise UsageError(
                f"{name}, line {number}, {twice}: given twice", safe=_SAFE, mend="Keep the one that is meant."
            )
        yield number, value


def _told(line: bytes, error: Exception) -> str:
    """Return what is wrong with a line, with the field where it concerns one."""
    text = str(error)
    place = _PLACE.search(text)
    if place is not None:
        return f", {place[1]}: {text[: place.start()]}" if place[1] else f": {text[: place.start()]}"
    field = _FIELD.search(text)
    if field is not None:
        return f", {field[1]}: {'there is none' if 'missing' in text else 'no such field'}"
    if text.startswith("Expected"):
        return f": {text}"
    found = _not_a_number(line)
    return f", {found}: neither NaN nor Infinity is a number of JSON" if found else f": not JSON: {text}"


def _said_twice(line: bytes, fields: Sequence[str]) -> str:
    """Return the field that a JSON object has twice, of which a reader would silently take the last; "" for none."""
    if b"\\u" not in line and all(line.count(b'"%s"' % field.encode()) < 2 for field in fields):
        return ""  # nearly always: a closer check costs as much as the rest
    import json

    found: list[str] = []

    def keep(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            found.append(next(name for name in names if names.count(name) > 1)[:80])
        return dict(pairs)

    json.loads(line, object_pairs_hook=keep)
    return found[-1] if found else ""


def _not_a_number(line: bytes) -> str:
    """Return the field that holds NaN or Infinity, which are not JSON."""
    import json
    import math

    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return ""
    pairs = value.items() if isinstance(value, dict) else ()
    return next((str(name) for name, one in pairs if isinstance(one, float) and not math.isfinite(one)), "")


def _texts(value: JSONValue, field: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield field, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield field, name  # before it is part of a field's name
            yield from _texts(inner, f"{field}.{name}")
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from _texts(inner, f"{field}[{place}]")
