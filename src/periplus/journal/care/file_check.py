"""Check of the entity files against the records, as part of an examination; nothing is changed."""

from __future__ import annotations

__all__ = ["check_files"]

import os
from collections.abc import Callable, Collection, Iterator
from typing import Final, TypeAlias, assert_never

from periplus.base.errors import FormatError
from periplus.base.files import is_temporary
from periplus.journal.care.problem import Problem, Severity, byte_in
from periplus.journal.index.tables import Index
from periplus.journal.journal import Journal
from periplus.journal.projections.entity_file import has_file, is_same_text, read_stamped, render_entity
from periplus.journal.projections.git_state import is_busy

Progress: TypeAlias = Callable[[int, int], None]
_STEP_MASK: Final = 0xFF
_REWRITE: Final = "`periplus status` writes it anew."
_TAKE_IN: Final = "`periplus status` imports it; until then the journal's version is used."
_TAKE_IN_THERE: Final = "This user may not write the store: run `periplus status` as one who may, to import it; until then the journal's version is used."
_KEEP: Final = "Keep it: once the journal is repaired `periplus status` imports it, unless the journal has it again."
_WRITTEN_AGAIN: Final = (
    "Keep it: `periplus doctor --repair` writes it into the journal again where no copy has the record."
)
_CHECKPOINTED: Final = (
    "Keep it: a checkpoint has the same content, which is used; a copy of the record is restored by"
    " `periplus doctor --repair --from PATH`."
)

_BEHIND: Final = Problem(
    "note",
    "the file lacks changes that are not known to be durable yet",
    "",
    mend="The next write updates it.",
)


def check_files(
    journal: Journal, served: Index, live: int, read: Collection[str], progress: Progress, *, is_whole: bool
) -> Iterator[Problem]:
    """Yield the entity files that differ from the records. ``read`` are the versions that could be read: all if ``is_whole``.

    Changes made since the records were read are left to the next examination.
    """
    is_known = is_whole and served is not journal.index  # otherwise a version may be lost or elsewhere
    if is_known:
        journal.refresh()  # records written meanwhile may already be in files
    found = list(_suspects(journal, served, live, read, progress))
    if found and is_known:
        journal.refresh()
    behind = frozenset(journal.unindexed() if found and is_known else ())
    for problem in found:
        if is_known and _is_written_since(journal, problem.path, read):
            continue
        yield _BEHIND._replace(path=problem.path) if _is_behind(journal, problem.path, behind) else problem


def _is_behind(journal: Journal, path: str, behind: Collection[tuple[str, str]]) -> bool:
    """Return True if the file lacks only records not known to be durable, as after writers were killed."""
    folder, name = os.path.split(path)
    key = os.path.basename(folder), name.removesuffix(".json")
    if key not in behind or journal.index.is_memory:
        return False
    entity = journal.index.entity(*key)
    wanted = render_entity(entity) if entity is not None and not entity.deleted else None
    try:
        found, _ = read_stamped(path)
    except FileNotFoundError:
        return wanted is None
    except OSError:
        return False
    return wanted is not None and is_same_text(found, wanted)


def _is_written_since(journal: Journal, path: str, read: Collection[str]) -> bool:
    folder, name = os.path.split(path)
    heads = journal.heads_of(os.path.basename(folder), name.removesuffix(".json"))
    return any(head.version and head.version not in read for head in heads)


def _suspects(
    journal: Journal, served: Index, live: int, read: Collection[str], progress: Progress
) -> Iterator[Problem]:
    layout = journal.layout
    expected: set[str] = set()  # below their folder
    is_waiting = is_busy(layout.root)
    if is_waiting:
        yield Problem(
            "note", "git has something in progress: the entity files stay as they are until it is done", layout.entities
        )
    for number, entity in enumerate(served.entities()):
        key = (entity.item_type, entity.item_id)
        if not number & _STEP_MASK:
            progress(number, live)
        if entity.deleted or not has_file(journal.types, *key):
            continue
        path = layout.entity_file(*key)
        expected.add(os.path.relpath(path, layout.entities))
        try:
            found, _ = read_stamped(path)
        except FileNotFoundError:
            yield Problem("note" if is_waiting else "warning", "the entity's file is missing", path, mend=_REWRITE)
            continue
        except OSError as error:
            yield Problem("warning", f"the entity's file cannot be read: {error.strerror}", path)
            continue
        if not is_same_text(found, render_entity(entity)):
            yield _differing(journal, path, found, read, is_waiting=is_waiting)
    for folder, _, names in os.walk(layout.entities):
        below = os.path.relpath(folder, layout.entities)
        for name in sorted(names):
            if os.path.normpath(os.path.join(below, name)) not in expected and not is_temporary(name):
                yield _stray(journal, os.path.join(folder, name), read)


def _differing(
    journal: Journal, path: str, found: bytes, read: Collection[str], *, is_waiting: bool = False
) -> Problem:
    """Return the problem of a file that differs from the journal, which takes precedence in any case."""
    from periplus.journal.checkpoints.offline_archive import absent
    from periplus.journal.projections.file_verdict import judge, unless_older
    from periplus.journal.recovery.lost_records import tile_leaves

    folder, name = os.path.split(path)
    key = os.path.basename(folder), name.removesuffix(".json")
    verdict = judge(journal, *key, found)
    severity: Severity = "note" if is_waiting else "warning"
    take_in = _KEEP if journal.damage is not None else _TAKE_IN if journal.index.is_writable else _TAKE_IN_THERE
    older = Problem(severity, "the file holds an older version, or is formatted differently", path, mend=_REWRITE)
    if verdict.kind != "held" and _is_read(*key, found, read):  # from before the index's checkpoint
        return older
    if absent(journal):
        verdict = unless_older(journal, verdict)
    match verdict.kind:
        case "held" if lost := _version_lost(journal, *key, found, read):
            is_placed = journal.index.records("version = ? AND version <> ''", (lost,), 1) or tile_leaves(
                journal, journal.lineage
            )
            mend = _WRITTEN_AGAIN if is_placed else _CHECKPOINTED
            return Problem("note", "the file holds the content of a record that cannot be read", path, mend=mend)
        case "held":
            return older
        case "torn":
            return Problem(severity, "the file is left by an interrupted write", path, mend=_REWRITE)
        case "adopt":
            return Problem(severity, "the file holds a version that is not in the journal yet", path, mend=take_in)
        case "edit":
            return Problem(severity, "the file has an edit that is not in the journal yet", path, mend=take_in)
        case "left":
            return Problem(severity, f"the file differs from the journal and is left alone: {verdict.what}", path,
                           byte_in(verdict.what), mend=verdict.mend)  # fmt: skip
    assert_never(verdict.kind)


def _is_read(item_type: str, item_id: str, data: bytes, read: Collection[str]) -> bool:
    """Return True if the file holds a version that was read from a record."""
    from periplus.journal.projections.file_verdict import read_document

    try:
        document = read_document(data, item_type, item_id)
    except FormatError:
        return False
    return document.version == document.content_version and document.version in read


def _version_lost(journal: Journal, item_type: str, item_id: str, data: bytes, read: Collection[str]) -> str:
    """Return the file's version if the index has it but its record could not be read; else empty."""
    from periplus.journal.projections.file_verdict import read_document

    try:
        document = read_document(data, item_type, item_id)
    except FormatError:
        return ""
    version = document.version
    if version != document.content_version or document.is_view or version in read:
        return ""
    return version if journal.holds(item_type, item_id, version, durably=True) else ""


def _stray(journal: Journal, path: str, read: Collection[str]) -> Problem:
    """Return the problem of a file below ``entities/`` without a live entity in the journal."""
    folder, name = os.path.split(path)
    is_place = os.path.dirname(folder) == journal.layout.entities and name.endswith(".json")
    if is_place and has_file(journal.types, os.path.basename(folder), name.removesuffix(".json")):
        try:
            return _differing(journal, path, read_stamped(path)[0], read)
        except OSError as error:
            return Problem("warning", f"a file that cannot be read: {error.strerror}", path)
    return Problem("warning", "a file without an entity in the journal", path)
