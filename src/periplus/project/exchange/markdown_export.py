"""Write the memory of a project as a folder of Markdown (``memory.markdown_export``), replacing only earlier exports.

``periplus-export.json`` in the folder names the files that are ours, with the digests of what was written. A file
that exists and is not ours, or was changed since, ends the export before anything is written. The list is written
first, with the new digest of each file: after an interruption the next export knows the files as its own.
"""

from __future__ import annotations

__all__ = ["MANIFEST", "MarkdownExport", "export_markdown"]

import json
import os
import stat
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from periplus.base.encoding.digests import sha256
from periplus.base.errors import DamageError, RefusedError, UsageError, environment_failure
from periplus.base.files import Files, read_plain, write_atomic
from periplus.base.named_tuple import NamedTuple

if TYPE_CHECKING:
    from periplus.memory.markdown_export import Page
    from periplus.project.store import ProjectStore

MANIFEST: Final = "periplus-export.json"
_FORMAT: Final = 1
_MANIFEST_BYTES_MAX: Final = 1 << 26
_FILE_BYTES_MAX: Final = 1 << 26
_SAFE: Final = "Nothing was written."


class MarkdownExport(NamedTuple):
    """The numbers of files that were written, were up to date, and were removed because their entities are gone."""

    folder: str
    entities: int
    written: int
    unchanged: int
    removed: int


def export_markdown(
    project: ProjectStore, folder: str, *, force: bool = False, progress: Callable[[int, int], None] = lambda _done, _total: None
) -> MarkdownExport:  # fmt: skip
    """Write the memory into ``folder``, which is made where it is missing. ``force``: also over files of ours that
    somebody changed. Raises RefusedError for files that are not ours, UsageError for what is not a folder.
    """
    from periplus.memory.entities.types import rows_of
    from periplus.memory.markdown_export import markdown_pages

    folder = os.path.abspath(folder)
    pages = _pages(project, progress)
    texts = markdown_pages(os.path.basename(project.folder) or "this project", pages, rows_of(project.types))
    files = {path: text.encode() for path, text in texts.items()}
    digests = {path: sha256(data).hex() for path, data in files.items()}
    _check_folder(folder)
    ours = _read_manifest(folder)
    held = {path: _held(folder, path) for path in sorted({*files, *ours})}
    for path, digest in held.items():
        if digest and path not in ours:
            raise RefusedError(f"{os.path.join(folder, path)} exists and was not written by an export", safe=_SAFE,
                               mend="Move it aside, or name another folder.")  # fmt: skip
        if digest and digest not in (*ours.get(path, ()), digests.get(path, "")) and not force:
            raise RefusedError(f"{os.path.join(folder, path)} was changed since it was written", safe=_SAFE,
                               mend="Move it aside, or write over it with --force.")  # fmt: skip
    write, disk = [path for path in files if held[path] != digests[path]], project.journal.files
    gone = [path for path in held if path not in files and held[path]]
    if write or gone or set(ours) != set(files):
        _make_folders(disk, folder, files)
        claimed = {
            path: sorted({*ours.get(path, ()), *filter(None, (held[path], digests.get(path, "")))}) for path in held
        }
        _write_manifest(disk, folder, claimed)
        for path in write:
            write_atomic(disk, os.path.join(folder, path), files[path], durable=False)
        for path in gone:
            _remove(disk, folder, path)
        for path in {os.path.dirname(path) for path in ours} - {os.path.dirname(path) for path in files} - {""}:
            _remove_folder(disk, os.path.join(folder, path))
    settled = {path: [digest] for path, digest in digests.items()}
    if settled != ours:
        _write_manifest(disk, folder, settled)
    return MarkdownExport(folder, len(pages), len(write), len(files) - len(write), len(gone))


def _pages(project: ProjectStore, progress: Callable[[int, int], None]) -> list[Page]:
    from periplus.memory.coordination.plans import steps_of
    from periplus.memory.entities.types import MEMORY_TYPES, rows_of
    from periplus.memory.entities.validity import expired_text
    from periplus.memory.markdown_export import BOOK_TYPES, Page
    from periplus.project.knowledge.grounds import ground_of

    project.look()
    journal, ground = project.journal, ground_of(project)
    journal.refresh()
    types = [*BOOK_TYPES, *sorted(set(rows_of(project.types)) - set(MEMORY_TYPES))]
    entities = [one for name in types for one in journal.entities(name)]
    pages, now_ms = [], journal.clock.now_ms()
    for number, entity in enumerate(entities):
        progress(number, len(entities))
        history = sorted(project.history(entity), key=lambda record: (record.ts, record.lineage, record.seq))
        steps = tuple(steps_of(journal, entity.item_id)) if entity.item_type == "plan" else ()
        standing = ground.told(entity) + expired_text(project.types, entity, now_ms)
        pages.append(Page(entity, history, standing, steps))
    progress(len(entities), max(1, len(entities)))
    return pages


def _check_folder(folder: str) -> None:
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise UsageError(f"{folder} is not a folder", safe=_SAFE, mend="Name a folder, or one that is not there yet.")
    if not os.path.isdir(os.path.dirname(folder)):
        raise UsageError(
            f"there is no folder {os.path.dirname(folder)}", safe=_SAFE, mend="Make it first, or name another."
        )


def _held(folder: str, path: str) -> str:
    """Return the digest of an existing file, empty where there is none. Raises RefusedError for what is not a plain
    file.
    """
    parent = os.path.join(folder, os.path.dirname(path))
    whole = os.path.join(folder, path)
    for place, is_right in ((parent, stat.S_ISDIR), (whole, stat.S_ISREG)):
        try:
            mode = os.lstat(place).st_mode
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise environment_failure(error, "look at", place) from error
        if not is_right(mode) and place != folder:
            raise RefusedError(f"{place} is a link, or not a file that an export writes", safe=_SAFE,
                               mend="Move it aside, or name another folder.")  # fmt: skip
    try:
        return sha256(read_plain(whole, _FILE_BYTES_MAX)).hex()
    except OSError as error:
        raise environment_failure(error, "read", whole) from error


def _read_manifest(folder: str) -> dict[str, list[str]]:
    path = os.path.join(folder, MANIFEST)
    wrong = DamageError(
        "not the list of an export's files", path=path, safe=_SAFE, mend="Restore it, or name another folder."
    )
    try:
        found = json.loads(read_plain(path, _MANIFEST_BYTES_MAX))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:
        raise wrong from error
    except OSError as error:
        raise environment_failure(error, "read", path) from error
    files = found.get("files") if isinstance(found, dict) and found.get("format") == _FORMAT else None
    if not isinstance(files, dict):
        raise wrong
    for name, digests in files.items():
        parts = name.split("/")
        if len(parts) > 2 or any(part in ("", ".", "..") or "\0" in part for part in parts) or not name.endswith(".md"):
            raise wrong
        if not isinstance(digests, list) or not all(isinstance(one, str) for one in digests):
            raise wrong
    return files


def _write_manifest(disk: Files, folder: str, files: Mapping[str, list[str]]) -> None:
    document = {"format": _FORMAT, "files": dict(sorted(files.items()))}
    data = json.dumps(document, ensure_ascii=False, indent=1).encode() + b"\n"
    write_atomic(disk, os.path.join(folder, MANIFEST), data)


def _make_folders(disk: Files, folder: str, files: Mapping[str, bytes]) -> None:
    for path in sorted({"", *(os.path.dirname(path) for path in files)}):
        whole = os.path.join(folder, path) if path else folder
        if not os.path.isdir(whole):
            try:
                disk.make_folder(whole)
            except OSError as error:
                raise environment_failure(error, "make", whole) from error


def _remove(disk: Files, folder: str, path: str) -> None:
    try:
        disk.unlink(os.path.join(folder, path))
    except FileNotFoundError:
        return
    except OSError as error:
        raise environment_failure(error, "remove", os.path.join(folder, path)) from error


def _remove_folder(disk: Files, path: str) -> None:
    try:
        disk.remove_folder(path)
    except OSError:
        return  # somebody has files in it
