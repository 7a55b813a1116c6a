"""What stands in the way of touching some paths, and what is to be known of them: for hooks, in milliseconds.

Claims come from the few that hold now; constraints and traps from the index's table of the paths that a memory is about, asked for
each path and the folders that it lies in, and from what was written behind the index. Nothing is written and no file is read.
"""

from __future__ import annotations

__all__ = ["PATHS_MAX", "Applying", "Checked", "check_paths"]

from collections.abc import Sequence
from typing import Final

from periplus.base.errors import UsageError
from periplus.base.tuples import NamedTuple
from periplus.journal import Entity, Journal, Writer
from periplus.memory.claims import holds, live_claims, scopes_of
from periplus.memory.scopes import literal_scope, overlap
from periplus.memory.types import MEMORY_TYPES

PATHS_MAX: Final = 200
_RULES: Final = ("constraint", "trap")
_FOUND_MAX: Final = 100


class Applying(NamedTuple):
    """Something about a path: a claim, a constraint or a trap. ``is_own`` is of claims."""

    path: str
    entity: Entity
    is_own: bool = False


class Checked(NamedTuple):
    """``claims`` are those of others and one's own that hold now; ``left_out`` how many rules more there are."""

    paths: tuple[str, ...]
    claims: tuple[Applying, ...]
    rules: tuple[Applying, ...]
    left_out: int

    @property
    def blocked(self) -> tuple[Applying, ...]:
        """The claims of others that shut the writer out: the exclusive ones."""
        return tuple(one for one in self.claims if not one.is_own and one.entity.value.get("mode") != "shared")


def check_paths(
    journal: Journal, writer: Writer, paths: Sequence[str], folders: frozenset[str] = frozenset()
) -> Checked:
    """Whose claim ``paths`` (from the project's folder, as they are, no globs) are, and which rules are about them. Those of
    ``folders`` are folders, the others files.
    """
    if len(paths) > PATHS_MAX:
        raise UsageError(f"{len(paths):,} paths; the limit is {PATHS_MAX}", mend="Ask for fewer at once.")
    scopes = [literal_scope(f"{path}/") if path in folders else literal_scope(path, is_file=True) for path in paths]
    plain = ["/".join(name for name in scope.paths[0] if isinstance(name, str)) for scope in scopes]
    journal.refresh()
    held = [(claim, scopes_of(claim)) for claim in live_claims(journal, journal.clock.now_ms())]
    claims = [
        Applying(path, claim, holds(writer, claim))
        for path, scope in zip(plain, scopes, strict=True)
        for claim, theirs in held
        if any(overlap(scope, one) for one in theirs)
    ]
    rules = _rules(journal, plain)
    return Checked(tuple(plain), tuple(claims), tuple(rules[:_FOUND_MAX]), max(0, len(rules) - _FOUND_MAX))


def _rules(journal: Journal, asked: Sequence[str]) -> list[Applying]:
    """The constraints and traps in force that are about a path, a folder it lies in, or a symbol of it."""
    wholes: dict[str, None] = {}
    for path in asked:
        parts = path.split("/")
        for end in range(1, len(parts) + 1):
            wholes["/".join(parts[:end])] = None
            wholes["/".join(parts[:end]) + "/"] = None
    found: dict[tuple[str, str], None] = dict.fromkeys(key for key in journal.unindexed() if key[0] in _RULES)
    names = list(wholes)
    for begin in range(0, len(names), 400):
        some = names[begin : begin + 400]
        marks = ", ".join("?" * len(some))
        rows = journal.index.db.execute(
            f"SELECT item_type, item_id FROM touched WHERE item_type IN ('constraint', 'trap') AND path IN ({marks})",  # noqa: S608 - question marks
            some,
        )
        found.update(dict.fromkeys((str(row[0]), str(row[1])) for row in rows))
    for path in asked:  # a symbol stands in the table with its file before it
        rows = journal.index.db.execute(
            "SELECT item_type, item_id FROM touched WHERE path > ? AND path < ? AND item_type IN ('constraint', 'trap')",
            (f"{path}:", f"{path};"),
        )
        found.update(dict.fromkeys((str(row[0]), str(row[1])) for row in rows))
    rules = []
    for key in sorted(found):
        entity = journal.get(*key)
        if entity is not None and entity.value.get("state", MEMORY_TYPES[key[0]].default_state) == "active":
            rules += [Applying(path, entity) for path in asked if _is_about(entity, path)]
    order = {"critical": 0, "high": 1, "medium": 2, "low": 3}
    return sorted(rules, key=lambda one: (one.path, order.get(str(one.entity.value.get("severity", "high")), 1),
                                          one.entity.item_id))  # fmt: skip


def _is_about(entity: Entity, path: str) -> bool:
    about = entity.value.get("about")
    for item in about if isinstance(about, list) else []:
        if isinstance(item, dict) and item.get("kind") in ("path", "symbol"):
            ref = str(item.get("ref", "")).rstrip("/")
            if item.get("kind") == "symbol":
                ref = ref.partition(":")[0]
            if ref == path or path.startswith(f"{ref}/"):
                return True
    return False
