"""Discovery of plugins of the user and of a trusted project, and the state of each."""

from __future__ import annotations

__all__ = ["FoundPlugin", "PluginState", "find_plugins", "named_plugin"]

import os
from typing import Final, Literal, NamedTuple, TypeAlias

from periplus.agent.plugins.folder_copy import PluginBytes, read_folder
from periplus.agent.plugins.manifest import MANIFEST, Manifest, read_manifest
from periplus.agent.plugins.trust_list import PluginTrust
from periplus.base.errors import FormatError, NotFoundError, PeriplusError
from periplus.base.filesystem.confined_folder import Confined

PROJECT_PLUGINS: Final = ".periplus-plugins"
_USER_PLUGINS: Final = "plugins"
_PLUGINS_MAX: Final = 100

PluginState: TypeAlias = Literal["trusted", "changed", "unknown", "broken"]


class FoundPlugin(NamedTuple):
    """A plugin that was found. ``path`` is its folder; ``source`` is ``user`` or ``project``. A broken one has a ``problem`` and no
    manifest.
    """

    name: str
    path: str
    source: str
    state: PluginState
    held: PluginBytes | None = None
    manifest: Manifest | None = None
    unsandboxed: bool = False
    problem: str = ""

    @property
    def is_on(self) -> bool:
        return self.state == "trusted"


def find_plugins(config: str, root: str, *, is_trusted: bool) -> list[FoundPlugin]:
    """Find the plugins. Nothing of an untrusted project is opened. Of two with one name the user's wins.

    Raises like ``PluginTrust``.
    """
    trust = PluginTrust(config)
    found: list[FoundPlugin] = []
    places = [(config, _USER_PLUGINS, "user")] if config else []
    places += [(root, PROJECT_PLUGINS, "project")] if is_trusted else []
    for base, folder, source in places:
        for one in _of_place(base, folder, source, trust):
            is_second = one.manifest is not None and any(
                held.name == one.name and held.manifest is not None for held in found
            )
            why = f"there is another plugin {one.name!r}, which takes precedence"
            found.append(one._replace(state="broken", manifest=None, problem=why) if is_second else one)
    return found


def named_plugin(found: list[FoundPlugin], name: str) -> FoundPlugin:
    """Find a plugin by its name or its folder's path. Raises NotFoundError."""
    path = os.path.realpath(name)
    for one in sorted(found, key=lambda one: one.manifest is None):
        if one.name == name or os.path.realpath(one.path) == path:
            return one
    names = ", ".join(one.name for one in found) or "none"
    raise NotFoundError(f"there is no plugin {name[:80]!r}", safe="Nothing was changed.", mend=f"There are: {names}.")


def _of_place(base: str, folder: str, source: str, trust: PluginTrust) -> list[FoundPlugin]:
    try:
        with Confined(base) as confined:
            held = confined.stat(folder)
            if held is None:
                return []
            if held.kind != "folder":
                return [_broken(folder, os.path.join(base, folder), source, f"it is a {held.kind}, not a folder")]
            entries = [one for one in confined.list(folder) if not one.path.rpartition("/")[2].startswith(".")]
    except NotFoundError:
        return []
    except PeriplusError as error:
        return [_broken(folder, os.path.join(base, folder), source, str(error))]
    return [
        _found(base, one.path, one.kind, source, trust)
        for one in entries[:_PLUGINS_MAX]
        if one.kind in ("folder", "link")
    ]


def _found(base: str, folder: str, kind: str, source: str, trust: PluginTrust) -> FoundPlugin:
    name, path = folder.rpartition("/")[2], os.path.join(base, folder)
    if kind == "link":
        return _broken(name, path, source, "it is a link, which is not followed")
    try:
        held = read_folder(base, folder)
        if MANIFEST not in held.files:
            raise NotFoundError(f"there is no {MANIFEST} in it")
        manifest = read_manifest(held.files[MANIFEST][0], os.path.join(path, MANIFEST))
        if manifest.name != name:
            raise FormatError(
                f"name: it is {manifest.name!r}, and its folder {name!r}", path=os.path.join(path, MANIFEST)
            )
    except PeriplusError as error:
        return _broken(name, path, source, " ".join(part for part in (str(error), error.mend) if part))
    given = trust.get(path)
    state: PluginState = "unknown" if given is None else "trusted" if given.digest == held.digest else "changed"
    return FoundPlugin(name, path, source, state, held, manifest, unsandboxed=given is not None and given.unsandboxed)


def _broken(name: str, path: str, source: str, problem: str) -> FoundPlugin:
    return FoundPlugin(name, path, source, "broken", problem=problem)
