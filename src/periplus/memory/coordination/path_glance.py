"""Detect within milliseconds that nothing is known about some paths, so that a hook need not open the project.

The index file is asked as it is, read only. Its answer counts where the journal has no claim or rule behind its
watermarks. In any doubt (no index, one of another version, one that is behind, one that is being written) there is no
answer, and the project is opened.
"""

from __future__ import annotations

__all__ = ["Glance", "glance", "names_above", "written_scope"]

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.named_tuple import NamedTuple
from periplus.memory.fulltext.index_version import INDEX_VERSION

if TYPE_CHECKING:
    import sqlite3

    from periplus.memory.scopes import Scope

_WAIT_S: Final = 0.05
_ROWS_MAX: Final = 5_000
_LINEAGES_MAX: Final = 1_000
_CLAIMS_MAX: Final = 1_000
_BEHIND_BYTES_MAX: Final = 1 << 18
_BEARING: Final = (b'"claim"', b'"step"', b'"constraint"', b'"trap"')
_SEGMENT_SUFFIX: Final = ".jsonl"


class Glance(NamedTuple):
    """``state`` changes as soon as anything is written. ``claimed`` are the scopes of others' claims, ``has_rules``
    says that a constraint or trap may be about one of the paths.
    """

    state: str
    claimed: tuple[str, ...]
    has_rules: bool

    def bears_on(self, names: Sequence[str], top: str) -> bool:
        """Return True where somebody else may claim one of ``names``: paths from ``top``, or shell patterns."""
        if not self.claimed or not names:
            return False
        from periplus.base.errors import UsageError
        from periplus.memory.scopes import overlap, parse_scopes

        try:
            theirs = parse_scopes(self.claimed)
        except UsageError:
            return True
        return any(overlap(written_scope(name, top), scope) for name in names for scope in theirs)


def written_scope(path: str, top: str) -> Scope:
    """Return the scope of a path of a command, which may be a pattern unless a file has that very name. A pattern
    that cannot be read stands for all of the folder where it begins.
    """
    from periplus.base.errors import UsageError
    from periplus.memory.scopes import literal_scope, parse_scope

    at = next((place for place, character in enumerate(path) if character in "*?["), -1)
    whole = os.path.join(top, path)
    if at < 0 or os.path.lexists(whole):
        return literal_scope(f"{path}/") if os.path.isdir(whole) else literal_scope(path, is_file=True)
    pattern = "".join(f"\\{one}" if one in "\\{}:" else one for one in path).replace("[^", "[!")
    try:
        return parse_scope(pattern)
    except UsageError:
        folder = os.path.dirname(path[:at])
        return literal_scope(f"{folder}/" if folder else ".")


def glance(root: str, names: Sequence[str], holder: str, session: str, top: str, now: str) -> Glance | None:
    """Ask the index of the store ``root`` about ``names``, paths from ``top``, for the writer ``holder`` in the
    session with the id ``session`` at the time ``now``; None where it cannot be asked.
    """
    import sqlite3

    path = os.path.join(root, "index.sqlite")
    escaped = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    try:
        db = sqlite3.connect(f"file:{escaped}?mode=ro", uri=True, timeout=_WAIT_S, isolation_level=None)
    except sqlite3.Error:
        return None
    try:
        db.execute("PRAGMA trusted_schema = 0")
        db.execute("BEGIN")  # one snapshot
        identity = db.execute("SELECT value FROM meta WHERE name = 'identity'").fetchone()
        if identity is None or not _is_of_this_version(str(identity[0])):
            return None
        marks = db.execute(
            "SELECT lineage, segment, offset FROM watermarks ORDER BY lineage LIMIT ?", (_LINEAGES_MAX,)
        ).fetchall()
        ends = _ends(os.path.join(root, "journal"))
        if not marks or _is_behind(
            os.path.join(root, "journal"), {str(row[0]): (row[1], row[2]) for row in marks}, ends
        ):
            return None
        return Glance(repr(sorted(ends.items())), _claimed(db, holder, session, now), _has_rules(db, names, top))
    except (sqlite3.Error, OSError, ValueError):
        return None
    finally:
        db.close()


def names_above(names: Sequence[str]) -> list[str]:
    """Return the paths and all folders that they lie in, each also with a slash behind it, as folders are written."""
    found: dict[str, None] = {}
    for name in names:
        parts = name.split("/")
        for end in range(1, len(parts) + 1):
            found["/".join(parts[:end])] = None
            found["/".join(parts[:end]) + "/"] = None
    return list(found)


def _is_of_this_version(identity: str) -> bool:
    """Compare ``JOURNAL.MEMORY …``: of the second number only the low eight bits are the version of the tables."""
    memory = identity.partition(" ")[0].partition(".")[2]
    return memory.isascii() and memory.isdigit() and int(memory) & 0xFF == INDEX_VERSION


def _ends(journal: str) -> dict[str, tuple[int, int]]:
    """Return the newest segment of each lineage and its length. Raises OSError, ValueError."""
    found = {}
    for lineage in os.listdir(journal):
        if not lineage.startswith("lin_"):
            continue
        folder = os.path.join(journal, lineage)
        newest = max((name for name in os.listdir(folder) if name.endswith(_SEGMENT_SUFFIX)), default="")
        if newest:
            size = os.lstat(os.path.join(folder, newest)).st_size
            found[lineage] = (int(newest.removesuffix(_SEGMENT_SUFFIX)), size)
    return found


def _is_behind(journal: str, marks: dict[str, tuple[int, int]], ends: dict[str, tuple[int, int]]) -> bool:
    """Return True where a claim, a rule, or a step with a claim may stand behind the index; ``marks`` and ``ends``
    are segment and offset of each lineage. Raises OSError.
    """
    if marks.keys() != ends.keys():
        return True
    for lineage, (segment, size) in ends.items():
        of_segment, offset = marks[lineage]
        if segment != of_segment or not 0 <= size - offset <= _BEHIND_BYTES_MAX:
            return True
        if size == offset:
            continue
        fd = os.open(
            os.path.join(journal, lineage, f"{segment:012d}{_SEGMENT_SUFFIX}"),
            os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW,
        )
        try:
            data = os.pread(fd, size - offset, offset)
        finally:
            os.close(fd)
        if any(kind in data for kind in _BEARING):
            return True
    return False


def _claimed(db: sqlite3.Connection, holder: str, session: str, now: str) -> tuple[str, ...]:
    """Return the scopes of the claims that others may hold at the time ``now``. Raises ValueError for what cannot be
    read.
    """
    rows = db.execute(
        "SELECT payload, stub FROM heads WHERE item_type = 'claim' AND deleted = 0 AND item_id IN ("
        "SELECT item_id FROM links WHERE item_type = 'claim' AND field = 'state' AND value = 'held') LIMIT ?",
        (_CLAIMS_MAX + 1,),
    ).fetchall()
    if len(rows) > _CLAIMS_MAX:
        raise ValueError("too many claims")
    import json

    found: dict[str, None] = {}
    for payload, stub in rows:
        value = json.loads(payload) if not stub else {}
        theirs = value.get("session", "")
        is_own = value.get("holder_id") == holder and (not theirs or not session or theirs == session)
        if not stub and (is_own or str(value.get("expires", "")) <= now):
            continue
        scopes = value.get("scopes")
        found.update(dict.fromkeys(map(str, scopes) if isinstance(scopes, list) else (".",)))
    return tuple(found)


def _has_rules(db: sqlite3.Connection, names: Sequence[str], top: str) -> bool:
    above = names_above(names)
    for begin in range(0, len(above), 400):
        some = above[begin : begin + 400]
        marks = ", ".join("?" * len(some))
        if db.execute(
            f"SELECT 1 FROM touched WHERE item_type IN ('constraint', 'trap') AND path IN ({marks}) LIMIT 1",  # noqa: S608 - question marks
            some,
        ).fetchone():
            return True
    for name in names:
        if db.execute(
            "SELECT 1 FROM touched WHERE path > ? AND path < ? AND item_type IN ('constraint', 'trap') LIMIT 1",
            (f"{name}:", f"{name};"),
        ).fetchone():
            return True
    return _may_have_moved(db, names, top)


def _may_have_moved(db: sqlite3.Connection, names: Sequence[str], top: str) -> bool:
    """Return True where a rule is about a missing file, or about lines or a symbol, of the kind of one of ``names``:
    its code may stand there now.
    """
    endings = {os.path.splitext(name)[1] for name in names}
    gone: dict[str, bool] = {}
    rows = db.execute(
        "SELECT path FROM touched WHERE item_type IN ('constraint', 'trap') ORDER BY ts DESC LIMIT ?", (_ROWS_MAX,)
    )
    for (path,) in rows:
        file, colon, _ = str(path).rpartition(":")
        file = file if colon else str(path)
        if os.path.splitext(file)[1] not in endings:
            continue
        if colon:
            return True
        if file not in gone:
            gone[file] = not os.path.exists(os.path.join(top, file))
        if gone[file]:
            return True
    return False
