"""Begin a lineage of this clone: ``lineage.json``, its keys, and how many records of the lineages before it were durable."""

from __future__ import annotations

__all__ = ["create_lineage", "left_behind", "restate_left"]

import os
from typing import Final

import msgspec

from periplus.base.clock import Clock, format_ms
from periplus.base.errors import (
    DamageError,
    environment_failure,
)
from periplus.base.files import Files, generation_of, write_all
from periplus.base.filesystem.file_systems import file_system_id
from periplus.base.ids import new_id
from periplus.journal.storage.layout import Layout
from periplus.journal.storage.settings import (
    LineageFile,
    Settings,
    read_lineage,
    read_settings,
)

_LEFT_MAX: Final = 1_000


def create_lineage(layout: Layout, files: Files, clock: Clock, store_id: str, *, previous: str = "") -> LineageFile:
    """Begin a lineage of this clone, with its keys; the caller holds the lock.

    ``previous`` is the lineage that it wrote before. Its records stay and its private key is retired: it is used once more, to
    sign the records that were durable by now.
    """
    from periplus.journal.storage.keys import make_keys, retire_key
    from periplus.journal.storage.unused_lineage import park_unused_lineage

    lineage = new_id("lin")
    try:
        park_unused_lineage(layout, files, clock, previous)
        left = left_behind(layout, previous)
        files.make_folder(layout.lineage_folder(lineage))
        make_keys(layout, files, lineage)
        created = format_ms(clock.now_ms())
        found = _write_lineage(layout, files, LineageFile(lineage, store_id, "", created, 0, 0, previous, left=left))
        files.sync_folder(layout.root)  # the folders of journal and store may be new
        files.sync_folder(os.path.dirname(layout.root))
        if previous:
            retire_key(layout, files, previous)
    except OSError as error:
        raise environment_failure(error, "write", layout.lineage) from error
    return found


def restate_left(layout: Layout, files: Files, own: LineageFile, lineage: str, records: int) -> LineageFile:
    """Change in ``lineage.json``, which is ``own``, how many ``records`` of the earlier ``lineage`` count as acknowledged.

    The caller holds the lock. Raises EnvironmentFailure.
    """
    try:
        return _write_lineage(layout, files, msgspec.structs.replace(own, left={**own.left, lineage: records}))
    except OSError as error:
        raise environment_failure(error, "write", layout.lineage) from error


def _write_lineage(layout: Layout, files: Files, own: LineageFile) -> LineageFile:
    """Write ``own`` as ``lineage.json`` of this machine, with the file's own inode in it."""
    # The file contains its own inode number, so it is created first and filled under its temporary name.
    temporary = f"{layout.lineage}.{os.getpid()}.tmp"
    fd = files.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        status = os.fstat(fd)
        found = msgspec.structs.replace(
            own,
            host=os.uname().nodename,
            device=status.st_dev,
            inode=status.st_ino,
            generation=generation_of(fd),
            boot=files.boot_id(),
            file_system=file_system_id(temporary),
        )
        write_all(files, fd, msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")
        files.sync(fd)
    finally:
        files.close(fd)
    files.replace(temporary, layout.lineage)
    files.sync_folder(layout.journal)
    return found


def left_behind(layout: Layout, previous: str) -> dict[str, int]:
    """Return ``LineageFile.left`` for the lineage that follows ``previous``."""
    from periplus.journal.storage.lineage import read_durable

    try:
        own = read_lineage(layout)
    except DamageError:
        own = None
    left = dict(own.left) if own is not None else {}
    mark = read_durable(layout.durable)
    if previous and mark is not None and mark.lineage == previous:
        left[previous] = mark.seq
    settings = read_settings(layout)
    if previous and settings.journal.sync == "never":
        left[previous] = max(left.get(previous, 0), _held(layout, settings, previous))
    elif previous:
        from periplus.journal.storage.group_commit import surely_durable

        mapped = surely_durable(layout.flush, previous, Files()) or 0
        if mapped > left.get(previous, 0):  # a leader's mark covers only its own records
            left[previous] = max(left.get(previous, 0), min(mapped, _held(layout, settings, previous, is_synced=True)))
    return dict(list(left.items())[-_LEFT_MAX:])


def _held(layout: Layout, settings: Settings, lineage: str, *, is_synced: bool = False) -> int:
    """Return how many records of ``lineage`` are here; without syncs and without a mark these are what was acknowledged."""
    from periplus.journal.storage.lineage import LineageReader
    from periplus.journal.storage.truncation_check import sound_end

    reader = LineageReader(layout.lineage_folder(lineage), settings.store.ids, lineage, is_synced=is_synced)
    end = sound_end(layout, reader, 0)
    return end.next_seq - 1 if end is not None else 0
