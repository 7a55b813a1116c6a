"""Editing of hooks in a YAML file: of the mapping ``hooks``, lists of commands by event.

An event without hooks gets a list in brackets; a block list gets ours as its first element. A list of others that is written
in brackets is refused. After each change the text is parsed again, and must have exactly the expected value.
"""

from __future__ import annotations

__all__ = ["HookItems", "hooks_of", "put_hooks", "remove_hooks"]

from collections.abc import Callable, Mapping
from typing import TypeAlias

from periplus.base.errors import FormatError, RefusedError
from periplus.interop.agents.editing.yaml_editing import entry_at, flow_mapping, line_break, put_entry, remove_entry
from periplus.interop.agents.editing.yaml_parsing import YamlNode, YamlText, parse_yaml

HookItems: TypeAlias = Mapping[str, Mapping[str, str | int]]
IsOurs: TypeAlias = Callable[[object], bool]
_KEY = "hooks"


def hooks_of(held: YamlText, is_ours: IsOurs) -> dict[str, list[object]]:
    """Return our hooks by event."""
    entry = entry_at(held, (_KEY,))
    table = entry.node.value if entry is not None else None
    found = {}
    for event, items in table.items() if isinstance(table, dict) else ():
        ours = [one for one in items if is_ours(one)] if isinstance(items, list) else []
        if ours:
            found[str(event)] = ours
    return found


def put_hooks(held: YamlText, items: HookItems, is_ours: IsOurs) -> YamlText:
    """Return the text in which each event of ``items`` has its hook, and no other event one of ours."""
    wanted = {event: [dict(item)] for event, item in items.items()}
    there = hooks_of(held, is_ours)
    if there == wanted:
        return held
    stale = [event for event, ours in there.items() if ours != wanted.get(event)]
    held = _without(held, stale, is_ours, kept=len(there) > len(stale))
    for event, item in reversed(list(items.items())):  # each becomes the first one
        if there.get(event) != wanted[event]:
            held = _with(held, event, item)
    return held


def remove_hooks(held: YamlText, is_ours: IsOurs, *, kept: bool) -> YamlText:
    """Return the text without our hooks; ``kept``: the mapping itself is of somebody else, and stays when it is empty."""
    return _without(held, list(hooks_of(held, is_ours)), is_ours, kept=kept)


def _with(held: YamlText, event: str, item: Mapping[str, str | int]) -> YamlText:
    node = _node(held, event)
    if node is None or node.value in (None, []):
        return put_entry(held, (_KEY,), {event: (dict(item),)})
    if node.kind != "sequence" or node.is_marked or not isinstance(node.value, list):
        raise _refused(held, event)
    first = node.entries[0].start
    start = held.text.rfind("\n", 0, first) + 1
    line = f"{' ' * (first - start)}- {flow_mapping(item)}{line_break(held.text)}"
    return _checked(held, held.text[:start] + line + held.text[start:], event, [dict(item), *node.value])


def _without(held: YamlText, events: list[str], is_ours: IsOurs, *, kept: bool) -> YamlText:
    for event in events:
        node = _node(held, event)
        if node is None or not isinstance(node.value, list):
            continue
        rest = [one for one in node.value if not is_ours(one)]
        if not rest:
            held = remove_entry(held, (_KEY, event), kept=1 if kept else 0)
            continue
        if node.kind != "sequence":
            raise _refused(held, event)
        text = held.text
        for one in reversed([one for one in node.entries if is_ours(one.node.value)]):
            text = text[: text.rfind("\n", 0, one.start) + 1] + text[one.end :]
        held = _checked(held, text, event, rest)
    return held


def _node(held: YamlText, event: str) -> YamlNode | None:
    entry = entry_at(held, (_KEY, event))
    return entry.node if entry is not None else None


def _checked(held: YamlText, text: str, event: str, items: list[object]) -> YamlText:
    try:
        found = parse_yaml((held.mark + text).encode(), held.path, held.mend)
    except FormatError as error:
        raise _refused(held, event) from error
    before = held.root.value if held.root is not None else None
    table = before.get(_KEY) if isinstance(before, dict) else None
    if not isinstance(before, dict) or not isinstance(table, dict) or found.root is None:
        raise _refused(held, event)
    if found.root.value != {**before, _KEY: {**table, event: items}}:
        raise _refused(held, event)
    return found


def _refused(held: YamlText, event: str) -> RefusedError:
    return RefusedError(
        f"{held.path}: to change the list {_KEY}.{event} would alter other parts of the file", safe="Nothing was changed.",
        mend="Write the list with a line and a dash for each hook, then repeat the command.",
    )  # fmt: skip
