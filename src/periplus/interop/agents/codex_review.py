"""Check in Codex's own state that it runs our hooks.

Codex runs a hook only after a person reviewed it, and a project's hooks only in a trusted project.

``config.toml`` in Codex's folder has both: ``[projects."FOLDER"] trust_level``, and
``[hooks.state."FILE:EVENT:GROUP:HANDLER"]`` with ``trusted_hash``, the digest of the reviewed hook, and perhaps
``enabled = false``. The digest is SHA-256 over the JSON of event, matcher and command, with sorted keys. In a
linked worktree of git the hooks of the main one count. As in openai/codex,
``codex-rs/hooks/src/engine/discovery.rs``, ``codex-rs/config/src/fingerprint.rs`` and ``codex-rs/config/src/loader``.
Pure, except for the given ``read``.
"""

from __future__ import annotations

__all__ = ["Review", "hook_hash", "reviews"]

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from periplus.base.encoding.digests import sha256
from periplus.interop.agents.agent_model import Site
from periplus.interop.agents.config_parts import JsonPart, hook_places
from periplus.interop.agents.editing.jsonc_editing import Json, parse
from periplus.interop.agents.editing.toml_editing import parse_toml

_TIMEOUT_S: Final = 600  # default of a hook
_WITHOUT_MATCHER: Final = frozenset({"user_prompt_submit", "stop", "interrupt"})
_SHOWN_MAX: Final = 10


class Review(NamedTuple):
    """A question that Codex asks the person. ``wrong`` is empty where the answer lets our hooks run."""

    what: str
    path: str
    says: str
    wrong: str
    mend: str


def reviews(site: Site, hooks: JsonPart, main: str, read: Callable[[str], bytes | None]) -> Iterator[Review]:
    """Yield what keeps the hooks written for ``site`` from running. ``main`` is the project's main worktree; ``read``
    returns the bytes of a file, None where there is none. Raises FormatError, and what ``read`` raises.
    """
    path = os.path.join(site.codex, "config.toml")
    config = parse_toml(read(path) or b"", path).value
    if any(_table(config.get("features")).get(name) is False for name in ("hooks", "codex_hooks")):
        yield Review(
            "hooks reviewed",
            path,
            "",
            "Codex's hooks are switched off",
            f"Remove hooks = false from [features] in {path}.",
        )
        return
    where = "" if site.scope == "user" else f" in {site.folder}"
    if site.scope == "project":
        yield _of_project(site, config, path, main)
    file = os.path.join(main, os.path.relpath(hooks.path, site.folder)) if site.scope == "project" else hooks.path
    data = read(file)
    if data is None and file != hooks.path:
        yield Review("hooks reviewed", file, "", "Codex runs the hooks of the main worktree, which has none",
                     f"In {main}, run: periplus connect codex")  # fmt: skip
    if data is None:
        return
    state = _table(_table(config.get("hooks")).get("state"))
    found = list(_states(hooks._replace(path=file), data, state))
    lacking = [(event, why) for event, why in found if why]
    if not found:
        return
    if not lacking:
        yield Review("hooks reviewed", path, f"all {len(found)} were reviewed", "", "")
        return
    by_reason: dict[str, list[str]] = {}
    for event, why in lacking:
        by_reason.setdefault(why, []).append(event)
    names = "; ".join(f"{why}: {', '.join(events[:_SHOWN_MAX])}" for why, events in by_reason.items())
    some = "none of them runs" if len(lacking) == len(found) else f"{len(lacking)} of {len(found)} do not run"
    mend = (
        f"Start codex{where}, type /hooks, and trust them there; `codex exec` silently skips unreviewed hooks. "
        "Import runs without hooks with: periplus trail import --all"
    )
    yield Review("hooks reviewed", path, "", f"Codex runs only hooks that a person reviewed: {some} ({names})", mend)


def hook_hash(event: str, matcher: str | None, handler: Mapping[str, Json]) -> str:
    """Return the digest by which Codex recognises a hook of ``event`` (such as ``pre_tool_use``)."""
    timeout = handler.get("timeout", _TIMEOUT_S)
    normal: dict[str, Json] = {
        "type": "command", "command": handler.get("command"), "async": handler.get("async", False),
        "timeout": max(timeout, 1) if isinstance(timeout, int) else timeout,
    }  # fmt: skip
    if "statusMessage" in handler:
        normal["statusMessage"] = handler["statusMessage"]
    whole: dict[str, Json] = {"event_name": event, "hooks": [normal]}
    if matcher is not None and event not in _WITHOUT_MATCHER:
        whole["matcher"] = matcher
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{sha256(text.encode('utf-8', 'replace')).hex()}"


def _of_project(site: Site, config: Mapping[str, object], path: str, main: str) -> Review:
    projects = _table(config.get("projects"))
    for folder in dict.fromkeys(_both(site.folder) + _both(main)):
        level = _table(projects.get(folder)).get("trust_level")
        if level is not None:
            break
    else:
        level = None
    if level == "trusted":
        return Review("project trusted", path, "Codex trusts this project", "", "")
    mend = f"Start codex in {site.folder}, and trust the project when it asks."
    if level is not None:
        mend = f'In {path}, set trust_level = "trusted" for this project, or remove that line, start codex, and trust the project when it asks.'
    wrong = "Codex does not trust this project: it reads neither its server nor its hooks"
    return Review("project trusted", path, "", wrong, mend)


def _states(hooks: JsonPart, data: bytes, state: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield the events of our hooks, each with the reason why it does not run, empty where it does."""
    for event, group_at, handler_at, group, handler in hook_places(hooks, parse(data, hooks.path)):
        label = re.sub(r"(?<!^)(?=[A-Z])", "_", event).lower()
        matcher = group.get("matcher")
        wanted = hook_hash(label, matcher if isinstance(matcher, str) else None, handler)
        held = [_table(state.get(f"{path}:{label}:{group_at}:{handler_at}")) for path in _both(hooks.path)]
        if any(one.get("enabled") is False for one in held):
            yield event, "switched off"
        elif any(one.get("trusted_hash") == wanted for one in held):
            yield event, ""
        else:
            yield event, "changed since" if any("trusted_hash" in one for one in held) else "not reviewed"


def _both(path: str) -> list[str]:
    """Return a path as named and with links resolved: Codex may have been started by either."""
    return list(dict.fromkeys((path, os.path.realpath(path))))


def _table(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}
