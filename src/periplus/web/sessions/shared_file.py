"""Make the shared file of a session: one HTML file that needs nothing else.

First, everything that should not be shared leaves the trail itself: texts that hold a secret, and the fields that the
caller names, are withheld as `periplus trail redact` does it, so the digest stays the same and a signature valid. The
page is made of that trail, and carries just that trail. Second, objects outside of the trail (long texts, written files,
results) are chosen up to a size; one that holds a secret is left out. Third, the longest text that is shown whole is
chosen so that the file keeps its size: ``BYTES_PER_STEP`` for each step, ``BYTES_LEAST`` at least.
"""

from __future__ import annotations

__all__ = ["FileOptions", "MadeFile", "make_file"]

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from periplus.trail import Digest, OperandValue, TextObject, TrailReader, opcode_name, open_parts
from periplus.web.sessions.cleaning import cleaned
from periplus.web.sessions.file_notes import FileNotes, Link
from periplus.web.sessions.file_payload import Block, blocks_of
from periplus.web.sessions.file_rendering import PROGRAM, Rendered, engine, open_source, render_file, renderer_id

ReadObject: TypeAlias = Callable[[bytes], bytes | None]

BYTES_LEAST: Final = 1_950_000
BYTES_PER_STEP: Final = 1_950
STEPS_MAX: Final = 10_000
PARTS_MAX: Final = 50
OBJECT_BYTES_MAX: Final = 200_000
OBJECTS_BYTES_MAX: Final = 800_000
_OTHERS: Final = frozenset({"AGENT_SPAWN", "CHECKPOINT", "GIT_COMMIT"})  # whose digests name no text
_CHARACTERS: Final = (16_000, 8_000, 4_000, 2_000, 1_000, 500, 250, 100)


class FileOptions(NamedTuple):
    """``withheld`` names fields of steps and of the header, of ``cleaning.NAMES``. ``home`` and ``links`` are addresses of files
    beside this one.
    """

    with_trail: bool = False
    withheld: frozenset[str] = frozenset()
    home: str = ""
    links: tuple[Link, ...] = ()


class MadeFile(NamedTuple):
    """``withheld`` counts strings that left the trails for the file, ``left_out`` steps over the limit."""

    data: bytes
    notes: FileNotes
    withheld: int
    left_out: int


def make_file(
    trail: bytes,
    read_object: ReadObject,
    options: FileOptions,
    *,
    trail_of: Callable[[bytes], bytes | None] = lambda _digest: None,
) -> MadeFile:
    """Return the file of a session. ``trail_of`` returns the trail with a digest, for subagents. Raises FormatError,
    UsageError without the extra.
    """
    engine()  # before any work: it may not be installed
    linked = {link.digest for link in options.links}
    trails, withheld = [], 0
    for data in _with_parts(trail, trail_of, linked):
        clean = cleaned(data, read_object, options.withheld)
        trails.append(clean.data)
        withheld += clean.withheld
    objects = _objects(trails, read_object)
    blocks = blocks_of(trails, objects) if options.with_trail else ()
    parts = [open_source(data, {}).digest.hex() for data in trails]
    notes = FileNotes(
        parts[0], PROGRAM, renderer_id(), _CHARACTERS[0], STEPS_MAX, options.with_trail, tuple(parts[1:]),
        tuple(name.hex() for name in sorted(objects)), tuple(sorted(options.withheld)), options.home, options.links,
    )  # fmt: skip
    notes, rendered = _fitting(trails, objects, notes, blocks)
    return MadeFile(rendered.data, notes, withheld, rendered.left_out)


def _fitting(
    trails: Sequence[bytes], objects: dict[bytes, bytes], notes: FileNotes, blocks: Sequence[Block]
) -> tuple[FileNotes, Rendered]:
    import msgspec

    steps = sum(reader.step_count for data in trails for reader in open_parts(data))
    most = max(BYTES_LEAST, BYTES_PER_STEP * min(steps, STEPS_MAX))
    place = 0
    while True:
        notes = msgspec.structs.replace(notes, characters=_CHARACTERS[place])
        rendered = render_file(trails, objects, notes, blocks)
        over = len(rendered.data) / most
        if over <= 1 or place == len(_CHARACTERS) - 1:
            return notes, rendered
        place = min(place + (2 if over > 2 else 1), len(_CHARACTERS) - 1)


def _with_parts(trail: bytes, trail_of: Callable[[bytes], bytes | None], linked: set[str]) -> Iterator[bytes]:
    """Yield a trail and those of the agents that it started, each once."""
    waiting, seen = [trail], set[bytes]()
    while waiting and len(seen) < PARTS_MAX:
        data = waiting.pop(0)
        readers = open_parts(data)
        seen.update(reader.digest for reader in readers)
        yield data
        for child in dict.fromkeys(_spawned(readers)):
            if child in seen or child.hex() in linked:
                continue
            found = trail_of(child)
            if found is not None:
                seen.add(child)
                waiting.append(found)


def _spawned(readers: Sequence[TrailReader]) -> Iterator[bytes]:
    for reader in readers:
        for step in reader.steps():
            if opcode_name(step.code) == "AGENT_SPAWN" and isinstance(step.operands[-1], Digest):
                yield step.operands[-1].value


# Objects outside of the trails


def _objects(trails: Sequence[bytes], read_object: ReadObject) -> dict[bytes, bytes]:
    """Return the objects that the page may show, in the order of the steps, up to the limits and without secrets."""
    from periplus.base.text.secrets import find_secrets

    found: dict[bytes, bytes] = {}
    seen: set[bytes] = set()
    room = OBJECTS_BYTES_MAX
    for name in (name for data in trails for reader in open_parts(data) for name in _outside(reader)):
        if name in seen:
            continue
        seen.add(name)
        data = read_object(name)
        if data is None or len(data) > min(room, OBJECT_BYTES_MAX) or find_secrets(data.decode("utf-8", "replace")):
            continue
        found[name] = data
        room -= len(data)
    return found


def _outside(reader: TrailReader) -> Iterator[bytes]:
    """Yield the names of the objects that the page may show: long texts, and the content of files and results."""
    header = reader.header
    values: tuple[OperandValue, ...] = (header.title, header.agent, header.model)
    yield from (value.sha256 for value in values if isinstance(value, TextObject))
    for step in reader.steps():
        is_of_others = opcode_name(step.code) in _OTHERS
        for value in (*step.operands, step.error, step.note, step.result):
            if isinstance(value, TextObject):
                yield value.sha256
            elif isinstance(value, Digest) and value.algorithm == "sha256" and not is_of_others:
                yield value.value
