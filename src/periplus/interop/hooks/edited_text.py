"""Text of a file after the edit that a tool is about to make. Loaded at edits: it imports nothing expensive."""

from __future__ import annotations

__all__ = ["text_after"]

import json
from collections.abc import Mapping
from typing import Final, cast

from periplus.interop.hooks.events import HookEvent

_OLD: Final = ("old_string", "oldString", "old_str")
_NEW: Final = ("new_string", "newString", "new_str")
_ALL: Final = ("replace_all", "replaceAll")
_EDITS_MAX: Final = 100


def text_after(event: HookEvent, before: str) -> str | None:
    """Return what the file of an edit by replacement holds afterwards; None for other calls, and for an edit that does not fit."""
    arguments = event.arguments
    if isinstance(arguments, str) and arguments.lstrip().startswith("{"):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return None
    if not isinstance(arguments, dict):
        return None
    edits = arguments.get("edits")
    rows = edits[:_EDITS_MAX] if isinstance(edits, list) and edits else [arguments]
    text = before
    for row in rows:
        changed = _replaced(cast("Mapping[str, object]", row), text) if isinstance(row, dict) else None
        if changed is None:
            return None
        text = changed
    return text


def _replaced(edit: Mapping[str, object], text: str) -> str | None:
    old, new = _field(edit, _OLD), _field(edit, _NEW)
    if not isinstance(old, str) or not isinstance(new, str) or not old or old not in text:
        return None
    return text.replace(old, new) if _field(edit, _ALL) is True else text.replace(old, new, 1)


def _field(edit: Mapping[str, object], names: tuple[str, ...]) -> object:
    return next((edit[name] for name in names if name in edit), None)
