"""How files stood at a checkpoint, as an object that the checkpoint's step names as its result. Pure.

The step itself names a git tree. The object says how that tree differs from the one that the run began from (``base``),
so that who checks the run can say which file differs, and has the content of files that no commit holds. ``ignored`` are files
and folders (with a slash) that git leaves out; None where there were too many to say.
"""

from __future__ import annotations

__all__ = ["Standing", "decode_standing", "encode_standing", "recorded_objects", "written_contents"]

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, cast

from periplus.base.encoding.canonical import JSONValue, canonical, decode_canonical
from periplus.base.errors import FormatError, PeriplusError, UsageError
from periplus.trail.checkpoints.git_tree import EXECUTABLE, FILE, LINK, SUBMODULE, TreeEntry
from periplus.trail.format.reader import TrailReader
from periplus.trail.model import Digest
from periplus.trail.opcodes import BY_NAME
from periplus.trail.recording.live_step import NOTE_NOT_KEPT

CHANGES_MAX: Final = 20_000
IGNORED_MAX: Final = 2_000
_KIND: Final = "periplus.standing"
_WRITE: Final = BY_NAME["FILE_WRITE"].code
_CHECKPOINT: Final = BY_NAME["CHECKPOINT"].code
_MODES: Final = frozenset({FILE, EXECUTABLE, LINK, SUBMODULE})


class Standing(NamedTuple):
    """``changed`` are the files that ``base`` has not, or otherwise; ``contents`` the SHA-256 of those that were kept."""

    base: bytes
    tree: bytes
    changed: dict[str, TreeEntry]
    removed: tuple[str, ...]
    ignored: tuple[str, ...] | None
    contents: dict[str, bytes]

    def entries(self, base: Mapping[str, TreeEntry]) -> dict[str, TreeEntry]:
        """All files as they stood, where ``base`` holds those of the base."""
        gone = set(self.removed)
        return {**{path: entry for path, entry in base.items() if path not in gone}, **self.changed}

    def ignores(self, path: str) -> bool:
        """Whether git leaves ``path`` out."""
        ignored = self.ignored or ()
        return any(path == one or (one.endswith("/") and path.startswith(one)) for one in ignored)


def encode_standing(standing: Standing) -> bytes | None:
    """The object's bytes; None where a path is no UTF-8, or there is too much to say."""
    if len(standing.changed) + len(standing.removed) > CHANGES_MAX:
        return None
    changed: list[JSONValue] = [
        [path, entry.mode, entry.blob.hex(), standing.contents.get(path, b"").hex()]
        for path, entry in sorted(standing.changed.items())
    ]
    ignored: list[JSONValue] | None = None if standing.ignored is None else [*sorted(standing.ignored)]
    try:
        return canonical(
            {
                "v": 1,
                "kind": _KIND,
                "base": standing.base.hex(),
                "tree": standing.tree.hex(),
                "changed": changed,
                "removed": [*sorted(standing.removed)],
                "ignored": ignored,
            }
        )
    except UsageError:
        return None


def decode_standing(data: bytes) -> Standing:
    """Raises FormatError for bytes that ``encode_standing`` cannot have given."""
    value = decode_canonical(data)
    try:
        found = cast("dict[str, JSONValue]", value)
        if found["kind"] != _KIND or found["v"] != 1:
            raise FormatError(f"not of the kind {_KIND}/1")
        changed: dict[str, TreeEntry] = {}
        contents: dict[str, bytes] = {}
        for row in cast("list[list[str]]", found["changed"]):
            path, mode, blob, content = row
            if mode not in _MODES:
                raise FormatError(f"{path[:80]!r} has the mode {mode[:20]!r}")
            changed[path] = TreeEntry(mode, bytes.fromhex(blob))
            if content:
                contents[path] = bytes.fromhex(content)
        ignored = cast("list[str] | None", found["ignored"])
        return Standing(
            bytes.fromhex(cast("str", found["base"])),
            bytes.fromhex(cast("str", found["tree"])),
            changed,
            tuple(str(path) for path in cast("list[str]", found["removed"])),
            tuple(str(path) for path in ignored) if ignored is not None else None,
            contents,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(f"not how files stood: {error}") from error


def written_contents(reader: TrailReader) -> set[bytes]:
    """The SHA-256 of the contents that steps wrote to files; nobody says that they were kept."""
    given = (step.operands[1] for step in reader.steps() if step.code == _WRITE)
    return {one.value for one in given if isinstance(one, Digest) and one.algorithm == "sha256"}


def recorded_objects(reader: TrailReader, lend: Callable[[bytes], bytes]) -> set[bytes]:
    """The objects beside its texts that a recorded trail was made with: contents of files, and how they stood.

    Nothing of a trail that was imported: what it names of contents nobody needs to have kept.
    """
    if reader.header.source is not None or reader.header.tool != "periplus":
        return set()
    found: set[bytes] = set()
    for step in reader.steps():
        value = step.operands[1] if step.code == _WRITE else step.result if step.code == _CHECKPOINT else None
        if not isinstance(value, Digest) or value.algorithm != "sha256":
            continue
        if step.code == _WRITE and isinstance(step.note, str) and NOTE_NOT_KEPT in step.note.split("; "):
            continue
        if step.code == _WRITE and not isinstance(step.note, str | None):
            continue  # whether it was kept is withheld
        found.add(value.value)
        if step.code == _CHECKPOINT:
            try:
                found.update(decode_standing(lend(value.value)).contents.values())
            except PeriplusError:
                continue  # it is named above; that it is not there is told by who looks for it
    return found
