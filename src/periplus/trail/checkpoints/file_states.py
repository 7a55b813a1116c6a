"""File states at a checkpoint, stored as an object that the step of the checkpoint names as its result.

The step itself names a git tree. The object lists how that tree differs from the tree with which the run began
(``base``), so that a verifier can tell which file differs, and has the content of files that no commit holds.
``ignored`` are files and folders (with a slash) that git ignores; None if there were too many.
"""

from __future__ import annotations

__all__ = ["FileStates", "decode_file_states", "encode_file_states", "recorded_objects", "written_contents"]

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


class FileStates(NamedTuple):
    """``changed`` are the files that ``base`` lacks or has otherwise; ``contents`` has the SHA-256 of the files that
    were kept.
    """

    base: bytes
    tree: bytes
    changed: dict[str, TreeEntry]
    removed: tuple[str, ...]
    ignored: tuple[str, ...] | None
    contents: dict[str, bytes]

    def entries(self, base: Mapping[str, TreeEntry]) -> dict[str, TreeEntry]:
        """Return all files of the checkpoint, given those of the base."""
        gone = set(self.removed)
        return {**{path: entry for path, entry in base.items() if path not in gone}, **self.changed}

    def ignores(self, path: str) -> bool:
        """Return whether git ignores ``path``."""
        ignored = self.ignored or ()
        return any(path == one or (one.endswith("/") and path.startswith(one)) for one in ignored)


def encode_file_states(standing: FileStates) -> bytes | None:
    """Return the bytes of the object; None if a path is not UTF-8 or there are too many files."""
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


def decode_file_states(data: bytes) -> FileStates:
    """Decode the object. Raises FormatError for bytes that ``encode_file_states`` cannot have returned."""
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
        return FileStates(
            bytes.fromhex(cast("str", found["base"])),
            bytes.fromhex(cast("str", found["tree"])),
            changed,
            tuple(str(path) for path in cast("list[str]", found["removed"])),
            tuple(str(path) for path in ignored) if ignored is not None else None,
            contents,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(f"not a record of file states: {error}") from error


def written_contents(reader: TrailReader) -> set[bytes]:
    """Return the SHA-256 of the contents that steps wrote to files; they need not have been kept."""
    given = (step.operands[1] for step in reader.steps() if step.code == _WRITE)
    return {one.value for one in given if isinstance(one, Digest) and one.algorithm == "sha256"}


def recorded_objects(reader: TrailReader, lend: Callable[[bytes], bytes]) -> set[bytes]:
    """Return the objects that a recorded trail was made with beside its texts: contents of files, and file states.

    The result is empty for an imported trail, because nothing has kept the contents that it names.
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
            continue  # the note that tells whether it was kept is withheld
        found.add(value.value)
        if step.code == _CHECKPOINT:
            try:
                found.update(decode_file_states(lend(value.value)).contents.values())
            except PeriplusError:
                continue  # its digest was added above, so its absence is reported elsewhere
    return found
