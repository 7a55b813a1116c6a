"""Anchors: the evidence of a memory, and the code that it is about, by which it is found to be stale.

An anchor is compared with the working tree. For a file that did not change its digest suffices. In a file that
changed, the anchored lines are searched as text (``code.regions``): where they stand unchanged anywhere in the file,
the memory is fresh. Where they do not, they were edited if the symbol that they belong to is still there; otherwise
they may have moved, and a bounded number of files of the same kind is searched. Only to tell these two cases apart a
file may have to be parsed.
"""

from __future__ import annotations

__all__ = [
    "DEEP", "QUICK", "TOLD_MAX", "Anchor", "ChangedIn", "Ground", "Reach", "Standing", "anchor_of", "evidence_of", "file_digest", "is_intact",
    "read_file", "stale_paths",
]  # fmt: skip

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from periplus.base.encoding.canonical import JSONValue
from periplus.base.encoding.digests import sha256
from periplus.base.named_tuple import NamedTuple
from periplus.code.regions import Region, find_region, line_sum, lines_of
from periplus.journal import Entity

if TYPE_CHECKING:
    from periplus.code import Symbols

_FILE_BYTES_MAX: Final = 4 << 20
TOLD_MAX: Final = 5
_TELLING_BYTES: Final = 64  # a smaller file, or fewer lines without a symbol, may equal others by chance
_TELLING_LINES: Final = 3
_LEFT_OUT: Final = frozenset({"node_modules", "__pycache__", "venv", "target", "build", "dist"})


class Reach(NamedTuple):
    """Limits of the search for lines that left their file: names listed, files and bytes read."""

    entries_max: int
    files_max: int
    bytes_max: int


QUICK: Final = Reach(4_000, 400, 8 << 20)
DEEP: Final = Reach(200_000, 20_000, 512 << 20)


class Anchor(NamedTuple):
    """The code that an entity is about, as its payload has it; ``region`` is None for a whole file."""

    ref: str
    kind: str
    path: str
    sha256: str
    name: str = ""
    file: str = ""
    region: Region | None = None
    mark: int = 0


class Standing(NamedTuple):
    """The state of an anchor in the working tree; ``path`` and ``start`` (0 for a whole file) are where it was found,
    if anywhere.
    """

    anchor: Anchor
    state: Literal["fresh", "moved", "changed", "gone"]
    path: str
    start: int = 0

    @property
    def is_stale(self) -> bool:
        return self.state in ("changed", "gone")


# Returns the commit that changed the anchored code; empty where it is not committed yet, None where unknown.
ChangedIn: TypeAlias = Callable[[Anchor], str | None]
Parse: TypeAlias = "Callable[[str, bytes], Symbols]"


def evidence_of(entity: Entity, value: Mapping[str, JSONValue] | None = None) -> tuple[str, ...]:
    """Return the evidence of an entity as text for people; ``value`` is its payload, for callers that have decoded
    it.
    """
    evidence = (entity.value if value is None else value).get("evidence")
    if not isinstance(evidence, list):
        return (f"record {entity.seq}",)
    found = [f"{item.get('kind')} {item.get('ref')}" for item in evidence if isinstance(item, dict)]
    return (*found, f"record {entity.seq}")


def anchor_of(item: JSONValue) -> Anchor | None:
    """Read one item of ``about`` as an anchor; None for an item without a digest."""
    if not isinstance(item, dict) or item.get("kind") == "entity" or not item.get("sha256"):
        return None
    ref = str(item.get("ref"))
    anchor = Anchor(ref, str(item.get("kind")), str(item.get("path") or ref), str(item["sha256"]), str(item.get("name") or ""),
                    str(item.get("file") or ""), mark=_number(item.get("mark")))  # fmt: skip
    edges = _numbers(item.get("edges"))
    length = _number(item.get("length"))
    if length < 1 or len(edges) != 2:
        return anchor
    return anchor._replace(
        region=Region(
            max(1, _number(item.get("start"))),
            length,
            anchor.sha256,
            (edges[0], edges[1]),
            _numbers(item.get("before")),
            _numbers(item.get("after")),
            max(1, _number(item.get("copies", 1))),
        )
    )


def is_intact(anchor: Anchor, data: bytes) -> bool:
    """Return True where the anchored code stands unchanged in ``data``, a version of its file."""
    if (anchor.region is None or anchor.file) and _File(anchor.path, data).has(anchor.file or anchor.sha256):
        return True
    return anchor.region is not None and find_region(lines_of(data), anchor.region) > 0


class _File:
    """A file of the project that was read. Each fact about it is computed once, for many anchors may point into it."""

    def __init__(self, path: str, data: bytes, parse: Parse | None = None) -> None:
        self.path = path
        self.data = data
        self._parse = parse

    @cached_property
    def digest(self) -> str:
        return sha256(self.data).hex()

    @cached_property
    def _digest_of_other_line_ends(self) -> str:
        """Return the digest of the file with the line ends that git may check out on another system."""
        is_crlf = b"\r\n" in self.data
        return sha256(self.data.replace(b"\r\n", b"\n") if is_crlf else self.data.replace(b"\n", b"\r\n")).hex()

    def has(self, digest: str) -> bool:
        """Return True where ``digest`` is that of the file, with any line ends."""
        if digest == self.digest:
            return True
        return digest == self._digest_of_other_line_ends

    @cached_property
    def lines(self) -> list[bytes]:
        return lines_of(self.data)

    @cached_property
    def sums(self) -> list[int]:
        return [line_sum(line) for line in self.lines]

    @cached_property
    def symbols(self) -> Symbols:
        if self._parse is not None:
            return self._parse(self.path, self.data)
        from periplus.code import symbols_of

        return symbols_of(self.path, self.data)


class Ground:
    """The working tree in ``root`` as one question sees it: each file is read once. With an empty ``root`` nothing is
    compared. ``changed_in`` is asked for the commit of at most ``told_max`` stale anchors. Code that no commit of
    this worktree changed may never have been in it: ``others`` are the folders of the other worktrees of the
    project, where it may stand. ``parse`` returns the symbols of a file, as ``symbols_of`` does.
    """

    def __init__(
        self, root: str, *, changed_in: ChangedIn | None = None, others: Callable[[], Sequence[str]] | None = None,
        reach: Reach = QUICK, told_max: int = TOLD_MAX, parse: Parse | None = None,
    ) -> None:  # fmt: skip
        self.root = root
        self._changed_in = changed_in
        self._others = others
        self._commits: dict[Anchor, str | None] = {}
        self._besides: dict[Anchor, str] = {}
        self._reach = reach
        self._read: dict[str, _File | None] = {}
        self._listed: list[str] | None = None
        self._standings: dict[tuple[str, str, str], tuple[Standing, ...]] = {}
        self._told_max = told_max
        self._parse = parse

    def standings(self, entity: Entity) -> tuple[Standing, ...]:
        """Return the state of each anchor of the entity."""
        key = (entity.item_type, entity.item_id, entity.version)
        if key not in self._standings:
            about = entity.value.get("about")
            anchors = [anchor_of(item) for item in about] if self.root and isinstance(about, list) else []
            self._standings[key] = tuple(self.judge(anchor) for anchor in anchors if anchor is not None)
        return self._standings[key]

    def stale(self, entity: Entity) -> tuple[str, ...]:
        """Return the anchors of the entity whose code changed since it was written."""
        return tuple(one.anchor.ref for one in self.standings(entity) if one.is_stale)

    def differs(self, entity: Entity) -> bool:
        """Return True where some of the code that the entity is about changed, moved to another file or is gone. Neither
        other files nor a parser are asked, so that it costs no more than reading the files of the anchors.
        """
        about = entity.value.get("about")
        anchors = [anchor_of(item) for item in about] if self.root and isinstance(about, list) else []
        return any(anchor is not None and self._intact(anchor) is None for anchor in anchors)

    @property
    def bytes_read(self) -> int:
        """The size of the files of the project that were read so far."""
        return sum(len(file.data) for file in self._read.values() if file is not None)

    def told(self, entity: Entity) -> tuple[str, ...]:
        """Return the stale anchors as text, with the commit that changed each where it is known."""
        return tuple(self._words(one) for one in self.standings(entity) if one.is_stale)

    def judge(self, anchor: Anchor) -> Standing:
        found = self._in_place(anchor) or self._elsewhere(anchor)
        # Lines without a symbol are never reported as gone: what stands in their place may be their new version.
        is_gone = self._file(anchor.path) is None or anchor.name
        return found or Standing(anchor, "gone" if is_gone else "changed", anchor.path)

    def _in_place(self, anchor: Anchor) -> Standing | None:
        """Return the state of the anchored code in its own file; None where it left that file."""
        file = self._file(anchor.path)
        if file is None:
            return None
        intact = self._intact(anchor)
        if intact is None and (anchor.region is None or _is_still_there(anchor, file)):
            return Standing(anchor, "changed", anchor.path)
        return intact

    def _intact(self, anchor: Anchor) -> Standing | None:
        """Return the place of the anchored code where it stands unchanged in its own file; else None."""
        file = self._file(anchor.path)
        if file is None:
            return None
        if anchor.region is None:
            return Standing(anchor, "fresh", anchor.path) if file.has(anchor.sha256) else None
        if anchor.file and file.digest == anchor.file:
            return Standing(anchor, "fresh", anchor.path, anchor.region.start)
        at = find_region(file.lines, anchor.region, file.sums)
        return Standing(anchor, "fresh", anchor.path, at) if at else None

    def has_moved_to(self, anchor: Anchor, path: str) -> bool:
        """Return True where the anchored code left its file and stands unchanged in ``path``, a file of the same
        kind; no other file is searched.
        """
        is_other = path != anchor.path and os.path.splitext(path)[1] == os.path.splitext(anchor.path)[1]
        file = self._file(path) if is_other else None
        return file is not None and _found_in(anchor, file) is not None and self._in_place(anchor) is None

    def read(self, path: str) -> bytes | None:
        """Return the contents of a file of the project; None where there is none that may be read."""
        file = self._file(path)
        return file.data if file is not None else None

    def _file(self, path: str) -> _File | None:
        if path not in self._read:
            data = read_file(self.root, path)
            self._read[path] = _File(path, data, self._parse) if data is not None else None
        return self._read[path]

    def is_beside(self, entity: Entity) -> bool:
        """Return True where all stale anchors of the entity are intact in other worktrees, and no commit of this one
        shows that they were here.
        """
        stale = [one.anchor for one in self.standings(entity) if one.is_stale]
        return bool(stale) and all(self._beside(one) and one in self._commits for one in stale)

    def _words(self, one: Standing) -> str:
        ref, what = one.anchor.ref, "is gone" if one.state == "gone" else "changed"
        beside = self._beside(one.anchor)
        if beside:
            return f"{ref} is {'not' if one.state == 'gone' else 'otherwise'} here, but as this was written in {beside}"
        commit = self._commit(one.anchor)
        if commit:
            return f"{ref} {what} {'since' if one.state == 'gone' else 'in'} {commit[:12]}"
        if commit is not None:
            return f"{ref} {what}, which is not committed"
        return f"{ref} {what}" + ("" if one.state == "gone" else " since this was written")

    def _commit(self, anchor: Anchor) -> str | None:
        """Return the commit that changed the anchored code; None where it is unknown, or where the limit is reached."""
        if anchor not in self._commits and self._changed_in is not None and len(self._commits) < self._told_max:
            self._commits[anchor] = self._changed_in(anchor)
        return self._commits.get(anchor)

    def _beside(self, anchor: Anchor) -> str:
        """Return the worktree, relative to this one, in which the anchored code is intact; empty for none, and where
        a commit of this worktree removed it.
        """
        if anchor not in self._besides:
            self._besides[anchor] = ""
            if self._others is not None and self._commit(anchor) is None:
                for folder in self._others():
                    data = read_file(folder, anchor.path)
                    if data is not None and is_intact(anchor, data):
                        self._besides[anchor] = os.path.relpath(folder, self.root)
                        break
        return self._besides[anchor]

    def _elsewhere(self, anchor: Anchor) -> Standing | None:
        """Return the place in another file, of the same name if there is one, where code that left its file stands
        unchanged.
        """
        if not _is_telling(anchor):
            return None
        base = os.path.basename(anchor.path)
        extension = os.path.splitext(base)[1]
        likely = [path for path in self._files() if os.path.splitext(path)[1] == extension and path != anchor.path]
        left = self._reach.bytes_max
        for path in sorted(likely, key=lambda path: (os.path.basename(path) != base, path))[: self._reach.files_max]:
            data = read_file(self.root, path)  # not cached: they may be many
            if data is None:
                continue
            left -= len(data)
            if left < 0:
                break
            found = _found_in(anchor, _File(path, data))
            if found is not None:
                return found
        return None

    def _files(self) -> list[str]:
        if self._listed is None:
            self._listed = list(_walk(self.root, self._reach.entries_max))
        return self._listed


def stale_paths(entity: Entity, root: str) -> tuple[str, ...]:
    """Return the anchors of the entity whose code changed since it was written."""
    return Ground(root).stale(entity)


def file_digest(root: str, path: str) -> str:
    """Return the SHA-256 of a file of the project in hexadecimal; empty where there is none that may be read."""
    data = read_file(root, path)
    return sha256(data).hex() if data is not None else ""


def read_file(root: str, path: str) -> bytes | None:
    """Return the contents of a file of the project; None where there is none that may be read, or it is too large."""
    try:
        base = os.path.realpath(root)
        whole = os.path.realpath(os.path.join(base, path))
        if os.path.commonpath([base, whole]) != base:
            return None  # a path of a memory never leads out of the project
        if not os.path.isfile(whole) or os.path.getsize(whole) > _FILE_BYTES_MAX:
            return None
        with open(whole, "rb") as file:
            return file.read(_FILE_BYTES_MAX)
    except (OSError, ValueError):  # ValueError: a NUL or half a character in a hostile path
        return None


def _is_telling(anchor: Anchor) -> bool:
    """Return True where equal lines elsewhere are likely to be the anchored ones."""
    return anchor.region is None or bool(anchor.name) or anchor.region.length >= _TELLING_LINES


def _found_in(anchor: Anchor, file: _File) -> Standing | None:
    """Return the place in ``file`` where code that left its file stands unchanged, if it does."""
    if anchor.region is None:
        is_it = len(file.data) >= _TELLING_BYTES and file.has(anchor.sha256)
        return Standing(anchor, "moved", file.path) if is_it else None
    if not _is_telling(anchor) or anchor.name.rpartition(".")[2].encode() not in file.data:
        return None
    at = find_region(file.lines, anchor.region, file.sums)
    return Standing(anchor, "moved", file.path, at) if at else None


def _is_still_there(anchor: Anchor, file: _File) -> bool:
    """Return True where the symbol that the lines belong to is still in the file: they were edited and did not move."""
    assert anchor.region is not None
    if not anchor.name:
        return anchor.region.edges[0] in file.sums
    if anchor.name.rpartition(".")[2].encode() not in file.data:
        return False
    return anchor.mark in file.sums or bool(file.symbols.why_not or file.symbols.named(anchor.name))


def _walk(root: str, entries_max: int) -> Iterator[str]:
    """Yield the files of the project by folder, those near the top first; links are not followed, hidden folders not
    entered.
    """
    waiting = [""]
    left = entries_max
    for folder in waiting:  # the file grew while it was read
        try:
            with os.scandir(os.path.join(root, folder)) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            continue  # folders that cannot be listed are not searched
        left -= len(entries)
        if left < 0:
            return
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir(follow_symlinks=False):
                if not entry.name.startswith(".") and entry.name not in _LEFT_OUT:
                    waiting.append(path)
            elif entry.is_file(follow_symlinks=False):
                yield path


def _number(value: JSONValue) -> int:
    return value if isinstance(value, int) else 0


def _numbers(value: JSONValue) -> tuple[int, ...]:
    return tuple(item for item in value if isinstance(item, int)) if isinstance(value, list | tuple) else ()
