"""Reader of a version 1 folder: every entry is accounted for; links are not followed and nothing is changed.

An entry is a file of an entity, a duplicate, an unreadable file, a refused file, the log, or another entry. The log
is unreliable: its lines name entities and prove nothing. A journal of segments, as the next version writes it
(``events/seg-*.jsonl``), is a log too; its statements about entities are their history.
"""

from __future__ import annotations

__all__ = [
    "FOLDERS_DEEP_MAX",
    "Finding",
    "FindingKind",
    "Listing",
    "LogCounts",
    "Stat",
    "V1File",
    "V1Folder",
    "Was",
    "list_folder",
    "read_as",
    "read_folder",
    "read_history",
    "read_log",
]

import json
import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from periplus.base.encoding.digests import sha256
from periplus.base.errors import FormatError, PeriplusError, UsageError, environment_failure
from periplus.base.files import read_plain
from periplus.interop.version1.documents import (
    FILE_BYTES_MAX,
    V1Entity,
    id_in,
    label_of,
    parse_file,
    read_entity,
    type_name,
)
from periplus.interop.version1.json_text import Style, dump
from periplus.interop.version1.vocabulary import BY_NAME
from periplus.journal import EntityType

_LINE_BYTES_MAX: Final = 1 << 20
FOLDERS_DEEP_MAX: Final = 16
_ENTRIES_MAX: Final = 200_000
_TORN_LISTED_MAX: Final = 20
_SEGMENT: Final = re.compile(r"events/seg-\d{1,20}\.jsonl")
_ENDS: Final = ("delete", "deleted", "tombstone")
_WAS_MAX: Final = 20  # number of earlier versions per entity, the last ones
_WAS_BYTES_MAX: Final = 1 << 18
_NOTHING: Final[Mapping[str, str]] = {}

FindingKind: TypeAlias = Literal[
    "duplicate", "unreadable", "refused", "other", "kept_foreign", "torn_line", "orphan_event", "unnamed_file",
    "conflict", "edited", "missing", "deleted",
]  # fmt: skip
Stat: TypeAlias = tuple[int, int, int]
Progress: TypeAlias = Callable[[int, int], None]


class Finding(NamedTuple):
    """A problem: ``path`` within the folder (or a line of the log), the reason, and the other file of a pair."""

    kind: FindingKind
    path: str
    why: str
    other: str = ""


class V1File(NamedTuple):
    """The file of an entity; ``stat`` is (mtime_ns, size, inode) from before it was read."""

    path: str
    stat: Stat
    digest: bytes
    text: str
    entity: V1Entity


class Listing(NamedTuple):
    """Entries of a folder: candidates for entities, logs, and findings about other or unreadable entries."""

    candidates: dict[str, Stat]
    logs: dict[str, Stat]
    findings: list[Finding]


class LogCounts(NamedTuple):
    lines: int = 0
    torn: int = 0
    repeated: int = 0
    backwards: int = 0
    orphans: int = 0


class Was(NamedTuple):
    """An earlier version of an entity in a journal of segments: its text, empty where it was deleted."""

    seq: int
    ts: str
    agent: str
    action: str
    text: str


class V1Folder(NamedTuple):
    """``files`` by (item type, id), one for each entity. ``candidates`` is the number of all that were found."""

    files: dict[tuple[str, str], V1File]
    candidates: int
    findings: list[Finding]


def list_folder(root: str) -> Listing:
    """List all entries below ``root``. Raises EnvironmentFailure where the folder itself cannot be listed."""
    listing = Listing({}, {}, [])
    pending = [("", 0)]
    while pending:
        folder, depth = pending.pop()
        try:
            with os.scandir(os.path.join(root, folder)) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            if not folder:
                raise environment_failure(error, "list", root) from error
            listing.findings.append(Finding("unreadable", folder, f"the folder cannot be listed: {error.strerror}"))
            continue
        has_segments = folder == "events" and any(_SEGMENT.fullmatch(f"events/{entry.name}") for entry in entries)
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if _list_entry(listing, entry, path, is_log=has_segments) and depth < FOLDERS_DEEP_MAX:
                pending.append((path, depth + 1))
        if len(listing.candidates) + len(listing.findings) > _ENTRIES_MAX:
            raise UsageError(f"{root} has more than {_ENTRIES_MAX:,} entries", safe="Nothing was changed.",
                             mend="Name the folder that holds the entity files.")  # fmt: skip
    return listing


def _list_entry(listing: Listing, entry: os.DirEntry[str], path: str, *, is_log: bool) -> bool:
    """Classify one entry; return True for a folder to descend into. Beside segments only their own files are
    expected.
    """
    is_json = entry.name.endswith(".json") and not entry.name.startswith(".") and not is_log
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError as error:
        listing.findings.append(Finding("unreadable", path, error.strerror or "it cannot be read"))
        return False
    if stat.S_ISDIR(status.st_mode):
        if is_json:
            listing.findings.append(Finding("unreadable", path, "a folder where a file is expected"))
        elif entry.name == ".git":
            listing.findings.append(Finding("other", path, "git's own folder"))
            return False
        if is_log:
            listing.findings.append(Finding("other", path, "it belongs to the log"))
        return not is_log
    if not stat.S_ISREG(status.st_mode):
        what = "a link, which is not followed" if stat.S_ISLNK(status.st_mode) else "no plain file"
        listing.findings.append(Finding("unreadable" if is_json else "other", path, what))
    elif not _is_text(path):
        listing.findings.append(Finding("refused" if is_json else "other", path, "its name is not UTF-8"))
    elif is_json:
        listing.candidates[path] = _stat(status)
    elif ("/" not in path and entry.name.startswith("events") and ".jsonl" in entry.name) or _SEGMENT.fullmatch(path):
        listing.logs[path] = _stat(status)
    else:
        listing.findings.append(Finding("other", path, "neither an entity nor a log"))
    return False


def read_folder(
    root: str,
    types: Mapping[str, EntityType],
    *,
    listing: Listing | None = None,
    known: Mapping[str, str] = _NOTHING,
    names: Mapping[str, str] = _NOTHING,
    present: Collection[str] = (),
    now_ms: int = 0,
    allow_secrets: bool = False,
    progress: Progress = lambda _done, _total: None,
) -> V1Folder:
    """Read all candidates below ``root``. ``known`` has the paths that were entities before, with their digests;
    ``names`` the labels of existing entities with their ids; ``present`` the ids of all existing ones.

    Among several files of one entity a known one wins; a secret in an unchanged known file was allowed before.
    """
    listing = listing or list_folder(root)
    findings = list(listing.findings)
    parsed: list[_Parsed] = []
    for read, path in enumerate(sorted(listing.candidates)):
        progress(read, len(listing.candidates))
        one = _parse(root, path, listing.candidates[path])
        if isinstance(one, Finding):
            findings.append(one)
        else:
            parsed.append(one)
    names, ids = dict(names), set(present)
    for each in reversed(parsed):
        if item_id := id_in(each.path, each.document):
            ids.add(item_id)
            names[label_of(each.document)] = item_id
    names.pop("", None)
    found: dict[tuple[str, str], list[V1File]] = {}
    names_of: dict[tuple[str, str], tuple[str, str]] = {}
    for each in parsed:
        file = _read(each, types, known.get(each.path, ""), names, ids, now_ms, allow_secrets=allow_secrets)
        if isinstance(file, Finding):
            findings.append(file)
            continue
        # By the name in version 1: two files of one entity may differ in whether they fit our schema.
        key = names_of.setdefault((file.entity.name, file.entity.old_id), (file.entity.item_type, file.entity.item_id))
        found.setdefault(key, []).append(file)
    files: dict[tuple[str, str], V1File] = {}
    for several in found.values():
        best, *others = sorted(several, key=lambda one: _preference(one, known), reverse=True)
        files[best.entity.item_type, best.entity.item_id] = best
        for other in others:
            same = "the same bytes" if other.digest == best.digest else "other content"
            findings.append(
                Finding("duplicate", other.path, f"{best.entity.name} {best.entity.old_id}, {same}", best.path)
            )
        if best.entity.misfit:
            findings.append(Finding("kept_foreign", best.path, best.entity.misfit))
    candidates = len(listing.candidates) + sum(one.kind in ("unreadable", "refused") for one in listing.findings)
    return V1Folder(files, candidates, findings)


class _Parsed(NamedTuple):
    path: str
    stat: Stat
    digest: bytes
    text: str
    document: dict[str, Any]


def _parse(root: str, path: str, stat_: Stat) -> _Parsed | Finding:
    """Parse one candidate, or return why it cannot be parsed."""
    if stat_[1] > FILE_BYTES_MAX:
        return Finding("refused", path, f"{stat_[1]:,} bytes; the limit is {FILE_BYTES_MAX:,}")
    try:
        data = read_plain(os.path.join(root, path), FILE_BYTES_MAX + 1)
        return _Parsed(path, stat_, sha256(data), *parse_file(data))
    except OSError as error:
        return Finding("unreadable", path, error.strerror or str(error))
    except FormatError as error:
        return Finding("unreadable", path, str(error))


def _read(
    one: _Parsed, types: Mapping[str, EntityType], known: str, names: Mapping[str, str], present: Collection[str], now_ms: int, *, allow_secrets: bool
) -> V1File | Finding:  # fmt: skip
    """Return the entity of a candidate, or why it has none."""
    try:
        entity = read_entity(
            one.text, one.document, one.path, types, names=names, present=present, now_ms=now_ms,
            allow_secrets=allow_secrets or one.digest.hex() == known,
        )  # fmt: skip
    except PeriplusError as error:
        return Finding("refused", one.path, error.wrong)
    return V1File(one.path, one.stat, one.digest, one.text, entity)


def read_as(file: V1File, types: Mapping[str, EntityType], item_type: str) -> V1File:
    """Read a file again as an entity of ``item_type``. Raises like ``read_entity``."""
    document = parse_file(file.text.encode())[1]
    entity = read_entity(file.text, document, file.path, types, allow_secrets=True, as_type=item_type)
    return file._replace(entity=entity)


def _preference(one: V1File, known: Mapping[str, str]) -> tuple[bool, bool, bool, str, tuple[int, ...]]:
    """Return the sort key among several files of an entity: known before, named by the id, in its type's folder,
    latest change, first path.
    """
    folder, _, name = one.path.rpartition("/")
    return (
        one.path in known,
        name == f"{one.entity.old_id}.json",
        type_name(folder.rpartition("/")[2]) == one.entity.name if folder else False,
        one.entity.stamp,
        tuple(-ord(character) for character in one.path),
    )


# -- the log ---------------------------------------------------------------------------------------------------------


def read_log(root: str, logs: Iterable[str], folder: V1Folder) -> tuple[LogCounts, list[Finding]]:
    """Compare the log with the files: damaged and repeated lines, events without a file, files without an event."""
    files = {(one.entity.name, one.entity.old_id): one for one in folder.files.values()}
    named: set[tuple[str, str]] = set()
    deleted: set[tuple[str, str]] = set()
    lines = torn = repeated = backwards = 0
    seen: set[bytes] = set()
    findings: list[Finding] = []
    last = ""
    for log in sorted(logs):
        for number, line in _lines(os.path.join(root, log)):
            lines += 1
            event = _event(line)
            if event is None:
                torn += 1
                if torn <= _TORN_LISTED_MAX:
                    findings.append(Finding("torn_line", f"{log}:{number}", "not a JSON object"))
                continue
            digest = sha256(line)[:16]
            repeated += digest in seen
            seen.add(digest)
            backwards += bool(last and event.ts and event.ts < last)
            last = event.ts or last
            if event.item_id:
                key = (event.name, event.item_id)
                named.add(key)
                (deleted.add if event.is_end else deleted.discard)(key)
    by_id = {old_id for _, old_id in files}
    orphans = sorted(key for key in named - deleted if key not in files and (key[0] or key[1] not in by_id))
    findings += [Finding("orphan_event", f"{name or '?'} {old_id}", "the log names it, but no file has it")
                 for name, old_id in orphans]  # fmt: skip
    ids_named = {old_id for name, old_id in named if not name}
    findings += [
        Finding("unnamed_file", one.path, "the log never names it")
        for key, one in sorted(files.items())
        if lines
        and key not in named
        and key[1] not in ids_named  # without a log, which a step to primary parks, nothing is reported
    ]
    return LogCounts(lines, torn, repeated, backwards, len(orphans)), findings


class _Event(NamedTuple):
    name: str
    item_id: str
    ts: str
    is_end: bool


def read_history(root: str, logs: Iterable[str]) -> dict[tuple[str, str], list[Was]]:
    """Return the versions of entities in the segments among ``logs``, by the name of their kind and old id, in the
    order of the lines: the last versions of each, without repetitions.
    """
    found: dict[tuple[str, str], list[Was]] = {}
    for log in sorted(log for log in logs if _SEGMENT.fullmatch(log)):
        for _, line in _lines(os.path.join(root, log)):
            event = _event(line)
            one = _was(line) if event is not None and event.name and event.item_id else None
            if one is None or event is None:
                continue
            held = found.setdefault((event.name, event.item_id), [])
            if not held or held[-1].text != one.text:
                held.append(one)
            while len(held) > _WAS_MAX or (len(held) > 1 and sum(len(each.text) for each in held) > _WAS_BYTES_MAX):
                del held[0]
    return found


def _was(line: bytes) -> Was | None:
    try:
        event = parse_file(line)[1]
    except FormatError:
        return None
    action, payload, seq = event.get("action"), event.get("payload"), event.get("seq")
    is_end = action in _ENDS
    if type(seq) is not int or not isinstance(action, str) or not (is_end or isinstance(payload, dict)):
        return None
    ts, agent = (event[key] if isinstance(event.get(key), str) else "" for key in ("ts", "agent"))
    return Was(seq, _short(ts), _short(agent), _short(action), "" if is_end else dump(payload, Style()))


def _short(text: str) -> str:
    """Return the beginning of a text that may contain lone surrogates."""
    return text[:60].encode("utf-8", "replace").decode()


def _event(line: bytes) -> _Event | None:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict):
        return None
    kind = next((event[key] for key in ("item_type", "type", "entity_type") if isinstance(event.get(key), str)), "")
    item_id = next((event[key] for key in ("item_id", "id", "entity_id") if isinstance(event.get(key), str | int)), "")
    ts = next((event[key] for key in ("ts", "timestamp", "time", "created_at") if isinstance(event.get(key), str)), "")
    name = type_name(kind) if kind else ""
    name = BY_NAME[name].name if name in BY_NAME else name
    return _Event(name, str(item_id), ts, event.get("action") in _ENDS)


def _lines(path: str) -> Iterator[tuple[int, bytes]]:
    """Yield number and bytes of each line that is not blank; a line over the limit is cut, which makes it invalid."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise environment_failure(error, "read", path) from error
    with open(fd, "rb") as file:
        number = 0
        while line := file.readline(_LINE_BYTES_MAX):
            number += 1
            whole = line
            while not whole.endswith(b"\n") and (whole := file.readline(_LINE_BYTES_MAX)):
                line = b"\0"  # longer than any event
            line = line.removeprefix(b"\xef\xbb\xbf").strip()
            if line:
                yield number, line


def _stat(status: os.stat_result) -> Stat:
    return (status.st_mtime_ns, status.st_size, status.st_ino)


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
