"""The files of a project as a tree of folders with sums, and a part of it as tiles."""

from __future__ import annotations

__all__ = [
    "Amount",
    "Child",
    "Folder",
    "children_of",
    "folder_at",
    "folder_tree",
    "greatest_value",
    "levelled",
    "sums_by_folder",
    "tiles_of",
]

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from periplus.code.queries.file_sizes import FileSize
from periplus.web.rendering.treemap import Tile

Amount: TypeAlias = Literal["lines", "bytes"]
ValueOf: TypeAlias = Callable[[str], int]
_INNER_MAX: Final = 340
_GROUP: Final = 0.02
"""Share of the picture from which a folder is drawn as a group of what is in it."""
_LARGE: Final = 0.012
"""Share of the picture from which a folder within a group is divided further."""


class Folder:
    """A folder with the sums of everything below it. ``path`` is empty for the whole project."""

    __slots__ = ("bytes", "files", "files_below", "folders", "lines", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.folders: dict[str, Folder] = {}
        self.files: list[FileSize] = []
        self.files_below = self.lines = self.bytes = 0

    def amount(self, of: Amount) -> int:
        return self.lines if of == "lines" else self.bytes


class Child(NamedTuple):
    """A file or folder in a list. ``name`` is relative to the folder that lists it; ``state`` says why a file is not parsed."""

    path: str
    name: str
    is_folder: bool
    files: int
    lines: int
    bytes: int
    value: int
    state: str = ""


def folder_tree(files: Iterable[FileSize]) -> Folder:
    """Return the folder of all ``files``."""
    root = Folder("")
    folders = {"": root}
    for file in files:
        folder = _folder(folders, file.path.rpartition("/")[0])
        folder.files.append(file)
        folder.files_below += 1
        folder.lines += file.lines
        folder.bytes += file.bytes
    for path in sorted(folders, key=lambda path: -path.count("/")):
        if path:
            one, outer = folders[path], folders[path.rpartition("/")[0]]
            outer.files_below += one.files_below
            outer.lines += one.lines
            outer.bytes += one.bytes
    return root


def _folder(folders: dict[str, Folder], path: str) -> Folder:
    known = folders.get(path)
    if known is None:
        outer, _, name = path.rpartition("/")
        known = folders[path] = Folder(path)
        _folder(folders, outer).folders[name] = known
    return known


def folder_at(root: Folder, path: str) -> Folder | None:
    """Return the folder ``path``; None where there is none with files."""
    at: Folder | None = root
    for name in path.split("/") if path else ():
        at = at.folders.get(name) if at is not None else None
    return at


def sums_by_folder(values: Mapping[str, int], *, is_sum: bool) -> dict[str, int]:
    """Return for each path of ``values`` and each folder around it the sum of the values in it, or the greatest."""
    found: dict[str, int] = {}
    for path, value in values.items():
        at = path.rstrip("/")
        while True:
            before = found.get(at, 0)
            found[at] = before + value if is_sum else max(before, value)
            if not at:
                break
            at = at.rpartition("/")[0]
    return found


def children_of(folder: Folder, value_of: ValueOf) -> list[Child]:
    """Return folders and files directly in ``folder``; a folder that holds only another is shown as both."""
    found = []
    for inner in folder.folders.values():
        end = _end_of_chain(inner)
        name = f"{_below(end.path, folder.path)}/"
        found.append(Child(end.path, name, True, end.files_below, end.lines, end.bytes, value_of(inner.path)))
    for file in folder.files:
        name = _below(file.path, folder.path)
        found.append(Child(file.path, name, False, 1, file.lines, file.bytes, value_of(file.path), file.state))
    return found


def tiles_of(
    folder: Folder,
    value_of: ValueOf,
    of: Amount,
    told: Callable[[str, int, int], str],
    link: Callable[[str, bool], str],
) -> list[Tile]:
    """Return ``folder`` as tiles: a group for each large folder in it and one for its own files, in which large folders are divided further.

    The level of a tile is the value of its path, for ``levelled``. ``told`` gives the title of a path with its amount and value, ``link`` the
    address of a path.
    """
    total = max(1, folder.amount(of))

    def leaf(part: Folder | FileSize, around: str) -> Tile:
        is_folder = isinstance(part, Folder)
        amount = part.amount(of) if isinstance(part, Folder) else _amount(part, of)
        value = value_of(part.path)
        title = told(f"{part.path}/" if is_folder else part.path, amount, value)
        return Tile(_below(part.path, around), amount, value, link(part.path, is_folder), title)

    tiles: list[Tile] = []
    for name, inner in sorted(folder.folders.items()):
        end = _end_of_chain(inner)
        if end.amount(of) < total * _GROUP:
            tiles.append(leaf(end, folder.path))
            continue
        room = max(4, round(_INNER_MAX * end.amount(of) / total))
        parts = tuple(leaf(part, end.path) for part in _divided(end, of, total, room))
        title = told(f"{end.path}/", end.amount(of), value_of(end.path))
        tiles.append(Tile(f"{name}{end.path[len(inner.path) :]}/", 0, 0, link(end.path, True), title, parts))
    own = tuple(leaf(file, folder.path) for file in folder.files)
    if any(tile.tiles for tile in tiles) and own:
        return [*tiles, Tile("files here", 0, 0, "", "the files directly in this folder", own)]
    return [*tiles, *own]


def greatest_value(tiles: Sequence[Tile]) -> int:
    """Return the greatest value of a tile that is drawn with a colour."""
    return max((greatest_value(tile.tiles) if tile.tiles else tile.level for tile in tiles), default=0)


def levelled(tiles: Sequence[Tile], level_of: Callable[[int], int]) -> tuple[Tile, ...]:
    """Return ``tiles`` with colours for their values."""
    return tuple(
        tile._replace(tiles=levelled(tile.tiles, level_of)) if tile.tiles else tile._replace(level=level_of(tile.level))
        for tile in tiles
    )


def _divided(folder: Folder, of: Amount, total: int, count_max: int) -> list[Folder | FileSize]:
    """Return the parts of ``folder``; large folders among them are replaced by their own parts, the largest first."""
    parts: list[Folder | FileSize] = [*map(_end_of_chain, folder.folders.values()), *folder.files]
    while True:
        large = [
            part for part in parts
            if isinstance(part, Folder) and part.amount(of) > total * _LARGE and len(part.folders) + len(part.files) > 1
        ]  # fmt: skip
        if not large:
            return parts
        largest = max(large, key=lambda part: (part.amount(of), part.path))
        inner: Sequence[Folder | FileSize] = [*map(_end_of_chain, largest.folders.values()), *largest.files]
        if len(parts) + len(inner) > count_max:
            return parts
        parts.remove(largest)
        parts += inner


def _end_of_chain(folder: Folder) -> Folder:
    """Return the first folder below ``folder`` that holds more than one other folder, or itself."""
    while len(folder.folders) == 1 and not folder.files:
        folder = next(iter(folder.folders.values()))
    return folder


def _amount(file: FileSize, of: Amount) -> int:
    return file.lines if of == "lines" else file.bytes


def _below(path: str, folder: str) -> str:
    return path[len(folder) + 1 :] if folder else path
