"""Symbols whose signatures a tool is about to change, with what depends on them: said before the edit, where the code map has it at hand.

Most edits change no signature. That is seen by the text of the file and one question to the index, without loading the code map. The index
is neither made nor filled here: where it is behind by more than a few files, nothing is said.
"""

from __future__ import annotations

__all__ = ["Edit", "dependents_lines", "glance_at_edit"]

import os
from collections.abc import Sequence
from typing import Final

from periplus.base.named_tuple import NamedTuple
from periplus.interop.hooks.events import HookEvent

_FILE_BYTES_MAX: Final = 1 << 19
_LINES_MAX: Final = 3
_INDEX: Final = os.path.join("cache", "code.sqlite")


class Edit(NamedTuple):
    """An edit of the file ``path`` of the worktree ``top`` that may change a signature; ``database`` is the file of the code map."""

    database: str
    top: str
    path: str
    before: str
    after: str


def glance_at_edit(root: str, event: HookEvent, names: Sequence[str], top: str) -> Edit | None:
    """Return the edit that ``event`` announces where it may change a signature that is known in the store ``root``; ``names`` are its paths
    from the worktree's ``top``.
    """
    index = os.path.join(root, _INDEX)
    if len(names) != 1 or not os.path.exists(index):
        return None
    try:
        if os.lstat(os.path.join(top, names[0])).st_size > _FILE_BYTES_MAX:
            return None
        with open(os.path.join(top, names[0]), encoding="utf-8", newline="") as file:
            before = file.read(_FILE_BYTES_MAX)
    except (OSError, ValueError):  # not there, or no UTF-8
        return None
    from periplus.interop.hooks.edited_text import text_after

    after = text_after(event, before)
    if after is None:
        return None
    from periplus.code.index.glance import defines
    from periplus.code.queries.edited_text import changed_lines, words_near

    lines = before.split("\n")
    changed = changed_lines(lines, after.split("\n"))
    if changed is None or not defines(index, top, names[0], words_near(lines, *changed)):
        return None
    return Edit(index, top, names[0], before, after)


def dependents_lines(edit: Edit) -> list[str]:
    """Return a line for each symbol with dependents whose signature the edit changes, at most three, those with the most first."""
    import time

    from periplus.base.import_trimming import load_msgspec

    load_msgspec()
    from periplus.code.code_map import HOOK_BUDGET_S
    from periplus.code.queries.dependents import changed_heads, dependents_text, in_order
    from periplus.project.knowledge.code import fresh_view

    until = time.monotonic() + HOOK_BUDGET_S
    with fresh_view(edit.database, edit.top) as view:
        if view is None:
            return []
        found = in_order(view, changed_heads(view, edit.path, edit.before, edit.after), until)
    return [f"{one.symbol} is {dependents_text(one)}: periplus code refs {one.symbol}" for one in found[:_LINES_MAX]]
