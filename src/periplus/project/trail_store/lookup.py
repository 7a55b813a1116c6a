"""Find a trail by id, digest or path, and read its bytes."""

from __future__ import annotations

__all__ = ["TRAIL_FILE_BYTES_MAX", "TrailFile", "calls_in", "calls_of", "find_trail", "trail_bytes"]

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from periplus.base.errors import DamageError, NotFoundError, PeriplusError, UsageError, environment_failure
from periplus.base.ids import typed_id
from periplus.base.named_tuple import NamedTuple
from periplus.journal import Entity
from periplus.project.trail_store.cards import Calls

if TYPE_CHECKING:
    from periplus.project.store import ProjectStore

TRAIL_FILE_BYTES_MAX: Final = 1 << 30


class TrailFile(NamedTuple):
    """The bytes of a trail, and the name by which it was found."""

    name: str
    data: bytes


def calls_of(project: ProjectStore, trail: Entity) -> Calls:
    """Return the calls of a trail that is held; none where it cannot be read."""
    try:
        return calls_in(trail_bytes(project, trail.item_id, remains=False).data)
    except PeriplusError:
        return Calls(0, 0)


def calls_in(data: bytes) -> Calls:
    from periplus.trail.format.reader import TrailReader

    reader = TrailReader(data)
    at_ms = reader.header.started_ms

    def times() -> Iterator[tuple[int, int]]:
        nonlocal at_ms
        for step in reader.steps():
            at_ms += step.delta_ms
            yield step.code, at_ms

    return Calls.of(times())


def trail_bytes(project: ProjectStore, reference: str, *, remains: bool) -> TrailFile:
    """See ``Project.trail_bytes``."""
    from periplus.memory.fulltext.documents import object_of_card

    if os.path.isfile(reference):
        return TrailFile(reference, _read_file(reference))
    project.journal.refresh()
    entity = find_trail(project, reference)
    objects = project.journal.objects
    name = object_of_card(entity.value)
    trouble = objects.check(name) if remains else None
    try:
        data = objects.remains(name) if trouble is not None else objects.get(name)
    except NotFoundError as error:
        raise DamageError(
            f"nothing of trail {entity.item_id} can be read: {error.wrong}", safe="Other trails are not affected.",
            mend="Run `periplus doctor --repair --from PATH` where a backup or another clone is, or import the session anew.",
        ) from error  # fmt: skip
    if trouble is not None and not data:
        raise DamageError(
            f"nothing of trail {entity.item_id} can be read: {trouble}", safe="The file was only read; other trails are not affected.",
            mend="Run `periplus doctor --repair` (it mends one changed byte), with --from PATH where a backup or another clone is, or import the session anew.",
        )  # fmt: skip
    return TrailFile(entity.item_id, data)


def find_trail(project: ProjectStore, reference: str) -> Entity:
    """Return a trail's entity by id or digest, each may be cut short, or by the run that it was recorded of. Raises
    NotFoundError.
    """
    typed, reference = reference, typed_id(reference)
    if reference.startswith("trl_"):
        entity = project.journal.find(reference)
        if entity.item_type == "trail":
            return entity
    if reference.startswith("run_"):
        return _trail_of_run(project, project.journal.find(reference))
    found = [trail for trail in project.trails() if str(trail.value.get("digest", "")).startswith(reference)]
    if len(found) == 1 and len(reference) >= 4:
        return found[0]
    if len(found) > 1:
        raise UsageError(f"{len(found)} trails have a digest that begins with {reference!r}", mend="Type more of it.")
    raise NotFoundError(f"no trail or file is called {typed!r}", mend="See `periplus trail list`.")


def _trail_of_run(project: ProjectStore, run: Entity) -> Entity:
    trail_id = run.value.get("trail")
    trail = project.journal.get("trail", trail_id) if isinstance(trail_id, str) and trail_id else None
    if trail is not None and not trail.deleted:
        return trail
    raise NotFoundError(f"run {run.item_id} has no trail yet", safe="Its steps are durable.",
                        mend=f"End it with `periplus trail seal {run.item_id}`.")  # fmt: skip


def _read_file(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read(TRAIL_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise environment_failure(error, "read", path) from error
    if len(data) > TRAIL_FILE_BYTES_MAX:
        raise UsageError(f"{path} is over {TRAIL_FILE_BYTES_MAX:,} bytes")
    return data
