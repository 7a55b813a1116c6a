"""Create anchors from what a person names: ``src/auth.py``, ``src/auth.py:10-20``, ``src/auth.py:hash_password``."""

from __future__ import annotations

__all__ = ["Anchored", "about_lines", "about_symbol", "anchored", "split_ref"]

import os
import re
from collections.abc import Callable, Sequence
from typing import Final

from periplus.base.encoding.canonical import JSONValue
from periplus.base.encoding.digests import sha256
from periplus.base.errors import UsageError
from periplus.base.filesystem.store_location import name_in
from periplus.base.ids import is_id
from periplus.base.named_tuple import NamedTuple
from periplus.code import lines_of, region_of, symbols_of
from periplus.code.regions import line_sum
from periplus.memory.code_anchors.anchors import read_file

_LINES: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_NAMED_MAX: Final = 5
_SAFE: Final = "Nothing was written."


class Anchored(NamedTuple):
    """An item of ``about``; ``note`` says where the anchor is weaker than what was asked for."""

    about: dict[str, JSONValue]
    note: str = ""


def split_ref(ref: str, is_file: Callable[[str], bool]) -> tuple[str, str]:
    """Split ``ref`` into a path and the lines or symbol behind the colon; all of it is the path where no file is
    named.
    """
    if not is_file(ref):
        at = ref.find(":")
        while at > 0:
            if is_file(ref[:at]) and ref[at + 1 :]:
                return ref[:at], ref[at + 1 :]
            at = ref.find(":", at + 1)
    return ref, ""


def anchored(ref: str, root: str, *, with_digest: bool = True) -> Anchored:
    """Return ``ref`` as an anchor, with a digest unless the type never goes stale. Raises UsageError for lines or a
    symbol that the file does not have.
    """
    if is_id(ref):
        return Anchored({"kind": "entity", "ref": ref})
    path, inside = split_ref(ref, lambda path: bool(root) and _is_file(root, path))
    path = _project_path(path, root)
    whole = f"{path}:{inside}" if inside else path
    if not with_digest:
        return Anchored({"kind": "path", "ref": whole})
    data = read_file(root, path) if root else None
    if data is None:
        note = f"{path} is too large, or not a file of the project: it is never checked for staleness"
        return Anchored({"kind": "path", "ref": whole}, note if inside else "")
    if not inside:
        return Anchored({"kind": "path", "ref": path, "sha256": sha256(data).hex()})
    lines = _LINES.fullmatch(inside)
    if lines is not None:
        return Anchored(about_lines(path, data, int(lines[1]), int(lines[2] or lines[1])))
    return about_symbol(path, data, inside)


def about_lines(path: str, data: bytes, start: int, end: int) -> dict[str, JSONValue]:
    """Anchor lines ``start`` to ``end`` of a file. Raises UsageError where the file has no such lines."""
    lines = lines_of(data)
    count = len(lines) - (not lines[-1])
    if not 1 <= start <= end <= count:
        raise UsageError(
            f"{path} has no lines {start}-{end}", safe=_SAFE, mend=f"It has {count:,} lines: name FIRST-LAST of them."
        )
    about = _region(lines, start, end)
    if about is None:
        raise UsageError(f"lines {start}-{end} of {path} are blank", safe=_SAFE, mend="Name lines that are not blank.")
    said = f"{start}-{end}" if end > start else f"{start}"
    return {"kind": "range", "ref": f"{path}:{said}", "path": path, "file": sha256(data).hex(), **about}


def about_symbol(path: str, data: bytes, name: str) -> Anchored:
    """Anchor the symbol ``name`` of a file, or the whole file where its symbols cannot be read. Raises UsageError
    where there is no such symbol.
    """
    symbols = symbols_of(path, data)
    digest = sha256(data).hex()
    about: dict[str, JSONValue] = {"kind": "symbol", "ref": f"{path}:{name}", "path": path, "name": name}
    if symbols.why_not:
        note = f"{path} is anchored as a whole, because its symbols cannot be read: {symbols.why_not}"
        return Anchored({**about, "sha256": digest}, note)
    found = symbols.named(name)
    if len(found) != 1:
        if found:
            places = ", ".join(f"{path}:{one.start_line}-{one.end_line}" for one in found[:_NAMED_MAX])
            raise UsageError(f"{path} defines {name} {len(found)} times", safe=_SAFE, mend=f"Say which: {places}.")
        raise UsageError(
            f"{path} defines no {name}", safe=_SAFE, mend=_guess([one.name for one in symbols.found], name)
        )
    symbol = found[0]
    lines = lines_of(data)
    region = _region(lines, symbol.start_line, symbol.end_line)
    assert region is not None, "a definition is never blank"
    last = symbol.name.rpartition(".")[2].encode()
    mark = next((line for line in lines[symbol.start_line - 1 : symbol.end_line] if last in line), b"")
    return Anchored(
        {**about, "ref": f"{path}:{symbol.name}", "name": symbol.name, "file": digest, **region, "mark": line_sum(mark)}
    )


def _region(lines: Sequence[bytes], start: int, end: int) -> dict[str, JSONValue] | None:
    region = region_of(lines, start, end)
    if region is None:
        return None
    about: dict[str, JSONValue] = {
        "sha256": region.sha256, "start": region.start, "length": region.length, "edges": list(region.edges),
        "before": list(region.before), "after": list(region.after),
    }  # fmt: skip
    return about | ({"copies": region.copies} if region.copies > 1 else {})


def _guess(names: list[str], name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, names, _NAMED_MAX)
    if near:
        return f"Did you mean {', '.join(near)}?"
    some = ", ".join(names[:_NAMED_MAX])
    return f"It defines {some}{', …' if len(names) > _NAMED_MAX else ''}." if names else "It defines nothing."


def _is_file(root: str, path: str) -> bool:
    try:
        return os.path.isfile(os.path.join(root, path))
    except ValueError:
        return False  # a NUL


def _project_path(ref: str, root: str) -> str:
    """Return a path relative to the top of its worktree, normalised; any other text is returned unchanged."""
    if root and os.path.isabs(ref) and "\0" not in ref:
        return name_in(root, os.path.normpath(ref)) or ref
    is_detour = ref.startswith("./") or "//" in ref or "/./" in ref or "/../" in ref
    return os.path.normpath(ref) + ("/" if ref.endswith("/") else "") if is_detour and "://" not in ref else ref
