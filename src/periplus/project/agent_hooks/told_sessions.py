"""Sessions of agents that were told of a memory: their hooks keep a digest of each line about a file that they gave."""

from __future__ import annotations

__all__ = ["ToldSession", "sessions_told"]

import os
from typing import TYPE_CHECKING, Final

from periplus.base.named_tuple import NamedTuple
from periplus.memory.coordination.path_check import Applying
from periplus.project.agent_hooks.hook_answers import rule_line
from periplus.project.agent_hooks.told_facts import FOLDER, Told

if TYPE_CHECKING:
    from periplus.journal import Entity
    from periplus.project.store import ProjectStore

SESSIONS_MAX: Final = 500  # the newest; notes are kept for a week
_PATHS_MAX: Final = 20
_TOLD: Final = ("constraint", "trap")


class ToldSession(NamedTuple):
    """A session of ``agent`` that was told of a memory when it touched ``path``. ``last_ms`` is when it was last told of anything: the
    time of each line is not kept.
    """

    session_id: str
    agent: str
    path: str
    last_ms: int


def sessions_told(project: ProjectStore, entity: Entity) -> tuple[ToldSession, ...]:
    """Return the sessions whose hooks gave this memory, in its present words, with a file that it is about.

    Subagents keep notes of their own, under names that the store does not know; they are not found.
    """
    hooks = project.journal.layout.hooks
    lines = {path: rule_line(Applying(path, entity)) for path in _paths_of(entity)} if entity.item_type in _TOLD else {}
    try:
        names = frozenset(os.listdir(os.path.join(hooks, FOLDER))) if lines else frozenset()
    except OSError:
        names = frozenset()  # no hook told anything here
    if not names:
        return ()
    rows = project.journal.index.db.execute(
        "SELECT item_id FROM heads WHERE item_type = 'session' AND deleted = 0 ORDER BY ts DESC LIMIT ?",
        (SESSIONS_MAX,),
    ).fetchall()
    found = []
    for (item_id,) in rows:
        session = project.journal.as_read("session", str(item_id))
        if session is None:
            continue
        agent, name = str(session.value.get("tool", "")), str(session.value.get("name", ""))
        told = Told(hooks, agent, name)
        if os.path.basename(told.path) in names:
            path = next((path for path, line in lines.items() if not told.fresh([line])), "")
            if path:
                found.append(
                    ToldSession(
                        str(item_id), str(session.value.get("agent", "")) or agent, path, _changed_ms(told.path)
                    )
                )
    return tuple(found)


def _paths_of(entity: Entity) -> tuple[str, ...]:
    about = entity.value.get("about")
    items = (
        [one for one in about if isinstance(one, dict) and one.get("kind") != "entity"]
        if isinstance(about, list)
        else []
    )
    return tuple(dict.fromkeys(str(one.get("path") or one.get("ref")) for one in items[:_PATHS_MAX]))


def _changed_ms(path: str) -> int:
    try:
        return os.lstat(path).st_mtime_ns // 1_000_000
    except OSError:
        return 0  # removed meanwhile
