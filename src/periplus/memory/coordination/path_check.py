"""Check paths before they are touched: claims in the way, and rules about them. For hooks, in milliseconds.

Claims come from the few that hold now; constraints and traps from the index's table of the paths that a memory is
about, asked for each path and its folders, and from records behind the index. The code that a rule is about may have
left its file: it is then searched in the files that are asked for, and in no others. Those files are read only where
a rule's own file is gone, or where they define a symbol that a rule is about. Nothing is written.
"""

from __future__ import annotations

__all__ = ["PATHS_MAX", "WRITTEN_MAX", "Applying", "Checked", "check_paths", "check_written"]

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import UsageError
from periplus.base.named_tuple import NamedTuple
from periplus.journal import Entity, Journal, Writer
from periplus.memory.claim_status import holds, live_claims, scopes_of
from periplus.memory.coordination.path_glance import names_above, written_scope
from periplus.memory.entities.types import MEMORY_TYPES
from periplus.memory.scopes import Scope, escaped, literal_scope, overlap, parse_scope

if TYPE_CHECKING:
    from periplus.memory.code_anchors.anchors import Ground

PATHS_MAX: Final = 200
WRITTEN_MAX: Final = 1_000
_RULES: Final = ("constraint", "trap")
_FOUND_MAX: Final = 100
_ROWS_MAX: Final = 5_000  # anchors of rules that may have moved, the newest
_MOVED_MAX: Final = 100  # rules whose anchors are compared


class Applying(NamedTuple):
    """A claim, constraint or trap about a path. ``is_own`` is for claims; ``moved_from`` for rules about code that
    stood elsewhere when they were written, and stands in ``path`` now.
    """

    path: str
    entity: Entity
    is_own: bool = False
    moved_from: str = ""


class Checked(NamedTuple):
    """``claims`` are the present claims of others and of the writer; ``left_out`` counts further rules."""

    paths: tuple[str, ...]
    claims: tuple[Applying, ...]
    rules: tuple[Applying, ...]
    left_out: int

    @property
    def blocked(self) -> tuple[Applying, ...]:
        """Return the exclusive claims of others."""
        return tuple(one for one in self.claims if not one.is_own and one.entity.value.get("mode") != "shared")


def check_paths(
    journal: Journal, writer: Writer, paths: Sequence[str], folders: frozenset[str] = frozenset(), *, root: str,
    files: Mapping[str, str] | None = None,
) -> Checked:  # fmt: skip
    """Return the claims on ``paths`` and the rules about them. ``paths`` lead from the project's folder and are no
    globs; those in ``folders`` are folders, and those in ``files`` symbols (FILE:SYMBOL) of the file given there: the
    claims are those on the symbol, the rules those about its file. ``root`` is the project's folder, in which moved code is searched.
    """
    if len(paths) > PATHS_MAX:
        raise UsageError(f"{len(paths):,} paths; the limit is {PATHS_MAX}", mend="Ask for fewer at once.")
    files = files or {}
    scopes = [_scope(path, folders, files) for path in paths]
    plain = ["/".join(name for name in scope.paths[0] if isinstance(name, str)) for scope in scopes]
    named = [path if path in files else name for path, name in zip(paths, plain, strict=True)]
    journal.refresh()
    claims = _claims_on(journal, writer, list(zip(named, scopes, strict=True)))
    plain = list(dict.fromkeys(plain))
    rules = _in_order(_rules(journal, plain) + _moved(journal, [path for path in plain if path not in folders], root))
    return Checked(tuple(named), tuple(claims), tuple(rules[:_FOUND_MAX]), max(0, len(rules) - _FOUND_MAX))


def _scope(path: str, folders: frozenset[str], files: Mapping[str, str]) -> Scope:
    if path in folders:
        return literal_scope(f"{path}/")
    if path not in files:
        return literal_scope(path, is_file=True)
    try:
        return parse_scope(f"{escaped(files[path])}:{path.removeprefix(files[path])[1:]}")
    except UsageError:  # what follows the colon is no symbol
        return literal_scope(files[path], is_file=True)


def check_written(journal: Journal, writer: Writer, paths: Sequence[str], *, root: str) -> Checked:
    """Return the claims on what a command would write: ``paths`` from the project's folder, shell patterns among
    them. Rules are not searched.
    """
    if len(paths) > WRITTEN_MAX:
        raise UsageError(f"{len(paths):,} paths; the limit is {WRITTEN_MAX}", mend="Ask for fewer at once.")
    journal.refresh()
    claims = _claims_on(journal, writer, [(path, written_scope(path, root)) for path in paths])
    return Checked(tuple(paths), tuple(claims), (), 0)


def _claims_on(journal: Journal, writer: Writer, asked: Sequence[tuple[str, Scope]]) -> list[Applying]:
    held = [(claim, scopes_of(claim)) for claim in live_claims(journal, journal.clock.now_ms())]
    return [
        Applying(path, claim, holds(writer, claim))
        for path, scope in asked
        for claim, theirs in held
        if any(overlap(scope, one) for one in theirs)
    ]


def _rules(journal: Journal, asked: Sequence[str]) -> list[Applying]:
    """Return the constraints and traps in force about a path, a folder that it lies in, or a symbol of it."""
    found: dict[tuple[str, str], None] = dict.fromkeys(key for key in journal.unindexed() if key[0] in _RULES)
    names = names_above(asked)
    for begin in range(0, len(names), 400):
        some = names[begin : begin + 400]
        marks = ", ".join("?" * len(some))
        rows = journal.index.db.execute(
            f"SELECT item_type, item_id FROM touched WHERE item_type IN ('constraint', 'trap') AND path IN ({marks})",  # noqa: S608 - question marks
            some,
        )
        found.update(dict.fromkeys((str(row[0]), str(row[1])) for row in rows))
    for path in asked:  # the table has a symbol as FILE:SYMBOL
        rows = journal.index.db.execute(
            "SELECT item_type, item_id FROM touched WHERE path > ? AND path < ? AND item_type IN ('constraint', 'trap')",
            (f"{path}:", f"{path};"),
        )
        found.update(dict.fromkeys((str(row[0]), str(row[1])) for row in rows))
    rules = []
    for key in sorted(found):
        entity = journal.get(*key)
        if entity is not None and _is_in_force(entity):
            rules += [Applying(path, entity) for path in asked if _is_about(entity, path)]
    return rules


def _in_order(rules: list[Applying]) -> list[Applying]:
    order = {"critical": 0, "high": 1, "medium": 2, "low": 3}
    return sorted(rules, key=lambda one: (one.path, order.get(str(one.entity.value.get("severity", "high")), 1),
                                          one.entity.item_id))  # fmt: skip


def _moved(journal: Journal, asked: Sequence[str], root: str) -> list[Applying]:
    """Return the rules in force whose code left its file and stands in one of ``asked`` now."""
    may_have = _may_have_moved(journal, asked, root)
    if not may_have:
        return []  # the usual case: nothing has to be loaded
    from periplus.memory.code_anchors.anchors import Ground, anchor_of

    ground = Ground(root)
    found = []
    for key in _likely(may_have, asked, ground):
        entity = journal.get(*key)
        about = entity.value.get("about") if entity is not None and _is_in_force(entity) else None
        if entity is None or not isinstance(about, list):
            continue
        anchors = [anchor for item in about if (anchor := anchor_of(item)) is not None]
        for path in asked:
            if not _is_about(entity, path):
                here = [one for one in anchors if ground.has_moved_to(one, path)]
                found += [Applying(path, entity, moved_from=here[0].ref)] if here else []
    return found


class _Held(NamedTuple):
    """Code that a rule is about: a file that is gone, or lines or a symbol ``inside`` a file that exists."""

    key: tuple[str, str]
    file: str
    inside: str
    is_gone: bool


def _may_have_moved(journal: Journal, asked: Sequence[str], root: str) -> list[_Held]:
    """Return the code of rules, in files of the kinds of ``asked``, that may have moved, as far as is known without
    reading files.
    """
    rows = journal.index.db.execute(
        "SELECT path, item_type, item_id FROM touched WHERE item_type IN ('constraint', 'trap') ORDER BY ts DESC, item_id, path LIMIT ?",
        (_ROWS_MAX,),
    )
    about: dict[tuple[str, str], list[str]] = {}
    for path, item_type, item_id in rows:
        about.setdefault((str(item_type), str(item_id)), []).append(str(path))
    found = [_Held(key, "", "", is_gone=True) for key in journal.unindexed() if key[0] in _RULES]
    there: dict[str, bool] = {}
    kinds = {os.path.splitext(path)[1] for path in asked}
    for key, paths in about.items():
        for path in paths:
            file = next(
                (one for one in paths if path.startswith(f"{one}:")), path
            )  # beside a symbol or lines stands their file
            if os.path.splitext(file)[1] not in kinds:
                continue
            if file not in there:
                there[file] = os.path.isfile(os.path.join(root, file))
            if path != file or not there[file]:
                found.append(_Held(key, file, path[len(file) + 1 :], not there[file]))
    return found


def _likely(held: Sequence[_Held], asked: Sequence[str], ground: Ground) -> list[tuple[str, str]]:
    """Return the rules to compare: first those whose file is gone, then those about symbols that one of ``asked``
    defines, then those about lines.
    """

    def rank(one: _Held) -> int:
        if one.is_gone:
            return 0
        if one.inside[:1].isdigit():
            return 2
        needle = one.inside.rpartition(".")[2].encode()
        return 1 if any(needle in (ground.read(path) or b"") for path in asked if path != one.file) else -1

    ranked = sorted(((rank(one), at, one.key) for at, one in enumerate(held)), key=lambda row: row[:2])
    return list(dict.fromkeys(key for number, _, key in ranked if number >= 0))[:_MOVED_MAX]


def _is_in_force(entity: Entity) -> bool:
    return entity.value.get("state", MEMORY_TYPES[entity.item_type].default_state) == "active"


def _is_about(entity: Entity, path: str) -> bool:
    about = entity.value.get("about")
    for item in about if isinstance(about, list) else []:
        if isinstance(item, dict) and item.get("kind") in ("path", "range", "symbol"):
            ref = _file_of(item)
            # After a colon: lines or a symbol of a file that did not exist when this was written.
            if ref == path or path.startswith(f"{ref}/") or ref.startswith(f"{path}:"):
                return True
    return False


def _file_of(item: Mapping[str, JSONValue]) -> str:
    """Return the file or folder that an item of ``about`` names or points into."""
    if item.get("path"):
        return str(item["path"])
    ref = str(item.get("ref", "")).rstrip("/")
    return ref.partition(":")[0] if item.get("kind") == "symbol" else ref
