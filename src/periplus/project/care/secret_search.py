"""Search a store for secrets by today's rules: report the place and kind of each, never its text.

Texts are masked before they are stored, by the rules of that time; secrets that those rules did not know are still
there. The search covers the records of all lineages, objects (each text of trails), entity files, index, spools,
caches and all other files of the store, and the copies of git remotes that it was exchanged with.
"""

from __future__ import annotations

__all__ = ["FoundSecret", "Place", "find_in_store"]

import hashlib
import hmac
import json
import os
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from periplus.base.errors import PeriplusError
from periplus.base.files import read_plain
from periplus.base.named_tuple import NamedTuple
from periplus.base.text.secrets import find_secrets
from periplus.journal.care.redaction import files_below, segment_again
from periplus.journal.care.text_removal import SECRET_BYTES_MAX, SECRET_BYTES_MIN
from periplus.journal.storage.lineage import START

if TYPE_CHECKING:
    from periplus.project.store import ProjectStore

_PIECE_BYTES: Final = 4 << 20
_OVERLAP_BYTES: Final = 128 << 10  # overlap of pieces of a file: no secret is longer
_TEXT_IN_BINARY: Final = re.compile(rb"[\t\n\r\x20-\x7e]{8,}")
_ESCAPES: Final = re.compile(r"\\(?:[\"\\/bfnrt]|u[0-9a-fA-F]{4})")
_BLOBS_AT_ONCE: Final = 200
_ID_DIGITS: Final = 8
_SECRETS_MAX: Final = 10_000
_PLACES_MAX: Final = 10_000


class Place(NamedTuple):
    """``kind`` is record, object, trail, entity, index, spool, cache, git or file; ``where`` names it for people."""

    kind: str
    where: str


class FoundSecret(NamedTuple):
    """``id`` identifies it in this clone without revealing its text: a keyed hash, whose key does not leave the
    clone. ``text`` is never to be shown or written. ``place_count`` counts all its places, ``places`` has the
    first of them.
    """

    id: str
    kind: str
    text: str
    places: tuple[Place, ...]
    place_count: int

    @property
    def can_go(self) -> bool:
        """Return True where ``redact`` takes such a text: not one so short that half of all records have it."""
        return SECRET_BYTES_MIN <= len(self.text.encode("utf-8", "surrogatepass")) <= SECRET_BYTES_MAX


class _Gathered:
    def __init__(self, key: bytes) -> None:
        self._key = key
        self._kinds: dict[str, str] = {}
        self._places: dict[str, dict[Place, None]] = {}
        self._counts: dict[str, int] = {}

    def take(self, text: str, place: Place, *, is_json: bool = False) -> None:
        for one in find_secrets(text):
            said = text[one.start : one.end]
            if is_json:
                said = _unescaped(said)
            if said not in self._kinds and len(self._kinds) >= _SECRETS_MAX:
                continue
            self._kinds.setdefault(said, one.kind)
            places = self._places.setdefault(said, {})
            if place not in places:
                self._counts[said] = self._counts.get(said, 0) + 1
                if len(places) < _PLACES_MAX:
                    places[place] = None

    def take_bytes(self, data: bytes, place: Place, *, is_json: bool = False) -> None:
        try:
            self.take(data.decode(), place, is_json=is_json)
        except UnicodeDecodeError:
            # A text follows its length, which may look like a letter of it.
            for match in _TEXT_IN_BINARY.finditer(data):
                run = match.group().decode("ascii")
                self.take(run, place)
                self.take(run[1:], place)

    def found(self) -> list[FoundSecret]:
        return [
            FoundSecret(self._id(text), kind, text, tuple(self._places[text]), self._counts[text])
            for text, kind in self._kinds.items()
        ]

    def _id(self, text: str) -> str:
        return hmac.new(self._key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:_ID_DIGITS]


def find_in_store(project: ProjectStore, progress: Callable[[int, int], None]) -> list[FoundSecret]:
    """Return every secret that the store holds, those in records first. Raises EnvironmentFailure for what cannot be
    listed.
    """
    project.journal.refresh()
    gathered = _Gathered(_key_of(project))
    _in_records(project, gathered, progress)
    _in_objects(project, gathered, progress)
    _in_files(project, gathered, progress)
    _in_git(project, gathered, progress)
    return gathered.found()


def _key_of(project: ProjectStore) -> bytes:
    """Derive the key from the private keys of this clone: ids stay the same from call to call, and nobody else can
    try texts against them.
    """
    folder = project.journal.layout.keys
    parts = []
    for path in sorted(files_below(folder)) if os.path.isdir(folder) else ():
        try:
            parts.append(read_plain(path, 1 << 16))
        except OSError:
            continue
    return hashlib.sha256(b"ids of secrets\0" + b"\0".join(parts)).digest()


def _in_records(project: ProjectStore, gathered: _Gathered, progress: Callable[[int, int], None]) -> None:
    journal = project.journal
    lineages = journal.lineages()
    for number, lineage in enumerate(lineages):
        progress(number, len(lineages))
        reader = journal.reader(lineage)
        for chunk in reader.read_from(START, salvage=True):
            data = segment_again(reader, chunk)
            # One search clears nearly every segment; the others are searched record by record.
            if not find_secrets(data.decode("utf-8", "replace")):
                continue
            for entry in chunk.entries:
                record = entry.record
                line = data[entry.offset : entry.offset + entry.length]
                of = f"{record.action} {record.item_type} {record.item_id}".strip()
                whose = "" if lineage == journal.lineage else f" of {lineage}"
                gathered.take_bytes(line, Place("record", f"record {record.seq}{whose}: {of}"), is_json=True)


def _in_objects(project: ProjectStore, gathered: _Gathered, progress: Callable[[int, int], None]) -> None:
    from periplus.trail.format.concatenation import open_parts

    journal = project.journal
    trails = {str(one.value.get("object", "")): one.item_id for one in journal.entities() if one.item_type == "trail"}
    held = list(journal.objects.digests())
    for number, digest in enumerate(held):
        progress(number, len(held))
        try:
            data = journal.objects.get(digest)
        except PeriplusError:
            continue  # damaged: doctor reports it; nobody can read it
        name = trails.get(digest.hex())
        if name is None:
            gathered.take_bytes(data, Place("object", f"object {digest.hex()}"))
            continue
        place = Place("trail", f"trail {name}")
        try:
            texts = [reader.string(at) for reader in open_parts(data) for at in range(len(reader.strings))]
        except PeriplusError:
            gathered.take_bytes(data, place)
            continue
        for text in texts:
            if isinstance(text, str):
                gathered.take(text, place)


def _in_files(project: ProjectStore, gathered: _Gathered, progress: Callable[[int, int], None]) -> None:
    """Search the files of the store besides records and objects."""
    layout = project.journal.layout
    apart = (layout.objects + os.sep, layout.keys + os.sep, os.path.join(project.root, "remotes") + os.sep)
    lineages = tuple(layout.lineage_folder(name) + os.sep for name in project.journal.lineages())
    paths = sorted(path for path in files_below(layout.root) if not path.startswith((*apart, *lineages)))
    for number, path in enumerate(paths):
        progress(number, len(paths))
        name = os.path.relpath(path, project.root)
        place = Place(_kind_of(name), name)
        for piece in _pieces(path):
            gathered.take_bytes(piece, place, is_json=name.endswith((".json", ".jsonl")))


def _kind_of(name: str) -> str:
    top = name.split(os.sep, maxsplit=1)[0]
    if top == "entities":
        return "entity"
    if top == "hooks":
        return "spool"
    if top.startswith("index.sqlite"):
        return "index"
    return "cache" if top in ("cache", "turns.sqlite") else "file"


def _pieces(path: str) -> Iterator[bytes]:
    offset = 0
    while True:
        try:
            piece = read_plain(path, _PIECE_BYTES + _OVERLAP_BYTES, offset)
        except OSError:
            return  # gone since it was listed
        if not piece:
            return
        yield piece
        if len(piece) <= _PIECE_BYTES:
            return
        offset += _PIECE_BYTES


def _in_git(project: ProjectStore, gathered: _Gathered, progress: Callable[[int, int], None]) -> None:
    """Search the copies of git remotes that this store is exchanged through."""
    from periplus.interop.git_history.git_process import ask
    from periplus.project.worktree import read_blobs

    folder = os.path.join(project.root, "remotes")
    names = sorted(name for name in os.listdir(folder) if name.endswith(".git")) if os.path.isdir(folder) else []
    for name in names:
        path = os.path.join(folder, name)
        rows = [line.split(b" ", 1) for line in ask(path, "rev-list", "--objects", "--all").splitlines()]
        blobs = {row[0]: row[1].decode("utf-8", "replace") for row in rows if len(row) == 2 and row[1]}
        wanted = list(blobs)
        for begin in range(0, len(wanted), _BLOBS_AT_ONCE):
            progress(begin, len(wanted))
            for blob, data in read_blobs(
                path, [bytes.fromhex(one.decode()) for one in wanted[begin : begin + _BLOBS_AT_ONCE]]
            ).items():
                where = f"{blobs[blob.hex().encode()]} in the copy of the git remote {os.path.join('remotes', name)}"
                gathered.take_bytes(data, Place("git", where), is_json=True)


def _unescaped(text: str) -> str:
    """Return the text as it would stand between the quotes of JSON, unescaped."""
    if "\\" not in text or _ESCAPES.search(text) is None:
        return text
    try:
        found = json.loads(f'"{text}"')
    except ValueError:
        return text
    return found if isinstance(found, str) else text
