"""``migrate``: take a folder of the notification log (v1) through the modes off, dual and primary, and back.

Every step is made of parts that can be repeated: an existing backup is not made twice, an entity that the journal
holds is not imported again, the counts are noted under a key of their own, and the mode is written last. After an
interruption the same command, run again, comes to the same end.
"""

from __future__ import annotations

__all__ = ["Migration", "migrate", "migration_status"]

import os
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from periplus.base.clock import format_ms
from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import NotFoundError, RefusedError, UsageError, environment_failure
from periplus.base.named_tuple import NamedTuple
from periplus.interop.version1.folder import Finding, LogCounts, V1Folder, list_folder, read_log
from periplus.journal import Transaction
from periplus.project.v1_folder.folder_keeper import (
    Keeper,
    Kept,
    MigrationPlaces,
    Mode,
    ModeFile,
    Take,
    read_mode,
    write_mode,
)
from periplus.project.v1_folder.migration_archive import back_up, park_logs, restore_logs

if TYPE_CHECKING:
    from periplus.project.store import ProjectStore

Progress = Callable[[int, int], None]
_DONE: Final = frozenset({"imported", "taken_in", "written", "parked", "history"})
_PROBLEMS: Final = frozenset({"duplicate", "unreadable", "refused", "conflict", "edited", "missing", "deleted"})


class Migration(NamedTuple):
    """The result of a step, or with ``is_dry`` its plan; ``counts`` adds up: candidates = entities + duplicates +
    unreadable + refused. ``backup`` is the folder with the earlier v1 folder; empty where none was made.
    """

    mode: Mode
    source: str
    backup: str
    is_dry: bool
    counts: dict[str, int]
    findings: list[Finding]

    @property
    def has_problems(self) -> bool:
        return any(one.kind in _PROBLEMS for one in self.findings)


def migration_status(project: ProjectStore) -> Migration:
    """Return the mode, and how folder and journal compare; nothing is changed."""
    mode = read_mode(project.root)
    if not mode.source or (mode.mode == "off" and not os.path.isdir(mode.source)):
        return Migration(mode.mode, mode.source, "", True, {}, [])
    kept = _keeper(project, mode, allow_secrets=False).run(is_dry=True)
    return _result(project, mode.mode, mode.source, "", kept, is_dry=True)


def migrate(
    project: ProjectStore,
    to: Mode | Literal[""] = "",
    *,
    source: str = "",
    take: Take = "",
    heal: bool = False,
    is_dry: bool = False,
    allow_secrets: bool = False,
    progress: Progress = lambda _done, _total: None,
) -> Migration:
    """Take the v1 folder ``source`` (or the previous one) to the mode ``to``; without a mode, only bring both up to
    date.

    Raises UsageError for an impossible step, RefusedError where ``primary`` would leave something behind,
    EnvironmentFailure where folder or store cannot be written.
    """
    before = read_mode(project.root)
    target = to or before.mode
    mode = _with_source(project, before, source, target)
    if target == "primary" and before.mode == "off":
        raise UsageError("the way from off to primary goes through dual", safe="Nothing was changed.",
                         mend=f"First: periplus migrate --from {mode.source} --to dual")  # fmt: skip
    if target == "off" and before.mode == "off" and (take or heal):
        raise UsageError(f"in the mode off the folder is not touched: {'--take' if take else '--heal'} has no effect",
                         safe="Nothing was changed.", mend=f"First: periplus migrate --from {mode.source} --to dual")  # fmt: skip
    if project.journal.damage is not None:
        raise project.journal.damage
    keeper = _keeper(project, msgspec.structs.replace(mode, mode=target), allow_secrets=allow_secrets)
    heal = heal or target == "primary" or (target == "off" and before.mode != "off")
    if is_dry:
        return _result(project, target, mode.source, "", keeper.run(take=take, heal=heal, is_dry=True), is_dry=True)
    if target == "off" and before.mode == "off":
        return migration_status(project)
    keeper.check_place()
    project.hold()  # the keeper that follows each change stays out of the way of this one
    try:
        backup, kept = _step(project, before, mode, keeper, take=take, heal=heal, progress=progress)
    finally:
        project.keep(read_mode(project.root))
    return _result(project, target, mode.source, backup, kept, is_dry=False)


def _step(
    project: ProjectStore,
    before: ModeFile,
    mode: ModeFile,
    keeper: Keeper,
    *,
    take: Take,
    heal: bool,
    progress: Progress,
) -> tuple[str, Kept]:
    """Make the backup and one pass over folder and journal, and write the mode last."""
    target, backup = keeper.mode.mode, ""
    if target != before.mode:
        backup = back_up(project.journal.files, mode.source, project.root, progress)
        mode = msgspec.structs.replace(mode, backups=(*[one for one in mode.backups if one != backup], backup))
        keeper.mode = msgspec.structs.replace(mode, mode=target)
    if target == "dual":
        restore_logs(project.journal.files, mode.source, project.root)
    kept = keeper.run(take=take, heal=heal)
    _finish(project, before.mode, keeper, kept, backup)
    return backup, kept


def _finish(project: ProjectStore, before: Mode, keeper: Keeper, kept: Kept, backup: str) -> None:
    files, mode = project.journal.files, keeper.mode
    target = mode.mode
    if target == "primary":
        left = [one.path for one in kept.findings if one.kind in ("conflict", "edited", "deleted")]
        if left:
            raise RefusedError(
                f"{len(left)} file{'s' if len(left) > 1 else ''} of {mode.source} and the journal say different things, "
                f"the first is {left[0]}",
                safe=f"The mode is still {before}.",
                mend="See `periplus migrate`; decide with --take files or --take journal.",
            )
        park_logs(files, mode.source, project.root)
    elif target == "off":
        restore_logs(files, mode.source, project.root)
    elif backup and (kept.imported or not mode.genesis):
        counts = _counts(kept, _log_of(mode.source, kept.folder)[0])
        counts = {name: count for name, count in counts.items() if name not in _DONE}  # an interrupted run did a part
        _note(project, mode.source, backup, counts)
        mode = msgspec.structs.replace(mode, genesis=mode.genesis or counts)
    folders = _folders(kept.folder) or mode.folders
    types = tuple(sorted(name for name in project.types if name.startswith("v1_")))
    since = mode.since if before == target else format_ms(project.journal.clock.now_ms())
    mode = msgspec.structs.replace(mode, mode=target, folders=folders, types=types, since=since)
    if mode != read_mode(project.root):
        write_mode(project.root, files, mode)


def _note(project: ProjectStore, source: str, backup: str, counts: dict[str, int]) -> None:
    folder = os.fsencode(os.path.basename(source)).decode("utf-8", "backslashreplace")
    payload: dict[str, JSONValue] = {"migration": "v1", "folder": folder, "backup": backup, "counts": dict(counts)}

    def write(transaction: Transaction) -> None:
        transaction.meta("note", payload, summary=f"v1: {counts['entities']} entities of {folder}")

    project.journal.mutate(write, project.writer, key=f"migrate-{os.path.basename(backup)}")


def _with_source(project: ProjectStore, mode: ModeFile, source: str, target: Mode) -> ModeFile:
    """Return the mode with the folder to work on, which exists and lies apart from the store."""
    if not source and not mode.source:
        raise UsageError("no folder to migrate is named", safe="Nothing was changed.",
                         mend="Name it: periplus migrate --from DIR --to dual")  # fmt: skip
    if not source:
        return mode
    found = os.path.realpath(source)
    try:
        status = os.stat(found)
    except OSError as error:
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            raise NotFoundError(
                f"there is no folder {source}", safe="Nothing was changed.", mend="Check the name."
            ) from error
        raise environment_failure(error, "read the v1 folder", source) from error
    if not os.path.isdir(found):
        raise UsageError(f"{source} is not a folder", safe="Nothing was changed.")
    root = os.path.realpath(project.root)
    if os.path.commonpath([found, root]) in (found, root):
        raise UsageError(
            f"{source} and the store {project.root} lie within each other", safe="Nothing was changed.",
            mend="Name the folder that holds the entity files; move it out of the store, or the store out of it.",
        )  # fmt: skip
    if mode.mode != "off" and found != mode.source and os.path.isdir(mode.source):
        raise UsageError(f"this store is migrated from {mode.source}", safe="Nothing was changed.",
                         mend="Leave that one first: periplus migrate --to off")  # fmt: skip
    if target == "off":
        raise UsageError("--from needs --to dual", safe="Nothing was changed.",
                         mend=f"periplus migrate --from {source} --to dual")  # fmt: skip
    genesis = mode.genesis if found == mode.source else {}
    return msgspec.structs.replace(mode, source=found, place=(status.st_dev, status.st_ino), genesis=genesis)


def _keeper(project: ProjectStore, mode: ModeFile, *, allow_secrets: bool) -> Keeper:
    MigrationPlaces(project.root).refuse_links()
    return Keeper(project.journal, project.types, mode, project.writer, allow_secrets=allow_secrets)


def _folders(folder: V1Folder) -> dict[str, str]:
    """Return for each type the folder with most of its files."""
    counts: dict[str, Counter[str]] = {}
    for item_type, item_id in sorted(folder.files):
        path = folder.files[item_type, item_id].path
        counts.setdefault(item_type, Counter())[path.rpartition("/")[0]] += 1
    return {item_type: min(found, key=lambda one: (-found[one], one)) for item_type, found in counts.items()}


def _log_of(source: str, folder: V1Folder) -> tuple[LogCounts, list[Finding]]:
    return read_log(source, list_folder(source).logs, folder)


def _result(project: ProjectStore, mode: Mode, source: str, backup: str, kept: Kept, *, is_dry: bool) -> Migration:
    log, findings = _log_of(source, kept.folder)
    keys = {file.path: key for key, file in kept.folder.files.items()}
    findings = [one for one in findings if one.kind != "unnamed_file" or not _is_of_here(project, keys[one.path])]
    return Migration(mode, source, backup, is_dry, _counts(kept, log), kept.findings + findings)


def _is_of_here(project: ProjectStore, key: tuple[str, str]) -> bool:
    """Return True where an entity's file was made by us: we do not write to the log, so it cannot be named there."""
    entity = project.journal.get(*key)
    return entity is not None and not entity.deleted and not isinstance(entity.value.get("v1"), dict)


def _counts(kept: Kept, log: LogCounts) -> dict[str, int]:
    kinds = Counter(one.kind for one in kept.findings)
    counts = {
        "candidates": kept.folder.candidates,
        "entities": len(kept.folder.files),
        "duplicates": kinds["duplicate"],
        "unreadable": kinds["unreadable"],
        "refused": kinds["refused"],
        "kept_foreign": sum(item_type.startswith("v1_") for item_type, _ in kept.folder.files),
        "others": kinds["other"],
        "imported": kept.imported,
        "taken_in": kept.taken_in,
        "written": kept.written,
        "parked": kept.parked,
        "history": kept.history,
        "conflicts": kinds["conflict"] + kinds["edited"] + kinds["deleted"],
        "missing": kinds["missing"],
        "log_lines": log.lines,
        "log_torn": log.torn,
        "log_repeated": log.repeated,
        "log_out_of_order": log.backwards,
        "orphan_events": log.orphans,
    }
    assert counts["candidates"] == sum(counts[name] for name in ("entities", "duplicates", "unreadable", "refused"))
    return counts
