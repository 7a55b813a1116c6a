"""Names of shells resolved: what the file sources, directly or not, else the only definition in the project.

``./x`` lies beside the script, ``$DIR/x`` below a folder that only a run knows: it is looked for beside the script, at the root, then by
the end of the path. A script also sees what those define that source it; such a name is likely where one file defines it.
"""

from __future__ import annotations

__all__ = ["RULES"]

import posixpath
from typing import Final

from periplus.code.model import Import
from periplus.code.resolution.rules.table import EXTERNAL, UNKNOWN, Entity, Lookup, Outcome, Rules
from periplus.code.resolution.sources import KnownFile

_SOURCED_MAX: Final = 200


def _imported(lookup: Lookup, file: KnownFile, one: Import) -> Outcome:
    folder = file.path.rpartition("/")[0]
    sources = lookup.sources
    if one.module.startswith("."):
        for base in (folder, ""):  # a path may also be relative to the folder in which scripts are run
            path = posixpath.normpath(posixpath.join(base, one.module))
            if not path.startswith("..") and sources.exists(path):
                return Outcome((Entity(path, -1),), is_proven=base == folder)
        return UNKNOWN
    module = one.module.partition("/")[2] if one.module.startswith("$") else one.module
    for base in (folder, ""):
        path = posixpath.normpath(posixpath.join(base, module))
        if not path.startswith(("..", "/")) and sources.exists(path):
            return Outcome((Entity(path, -1),), is_proven=False)
    ends = [path for path in sources.with_name(module.rpartition("/")[2]) if path.endswith(f"/{module.lstrip('./')}")]
    return Outcome((Entity(ends[0], -1),), is_proven=False) if len(ends) == 1 else EXTERNAL


def _sourced(lookup: Lookup, file: KnownFile) -> dict[str, bool]:
    """Return the files that ``file`` sources, directly or not, and True where each path to it is certain."""
    found: dict[str, bool] = {}
    waiting = [(file, True)]
    while waiting and len(found) < _SOURCED_MAX:
        at, is_certain = waiting.pop(0)
        for one in at.facts.imports:
            outcome = _imported(lookup, at, one)
            for entity in outcome.found:
                other = lookup.sources.file(entity.path)
                if other is not None and entity.path not in found and entity.path != file.path:
                    found[entity.path] = is_certain and outcome.is_proven
                    waiting.append((other, found[entity.path]))
    return found


def _free(lookup: Lookup, file: KnownFile, name: str) -> Outcome:
    is_variable = name.startswith("$")
    bare = name.removeprefix("$")
    places: dict[str, list[Entity]] = {}
    for path, index in lookup.sources.defining(bare):
        other = lookup.sources.file(path)
        if other is None or other.facts.language != "bash":
            continue
        one = other.definitions[index]
        is_local = one.parent >= 0 and other.definitions[one.parent].kind == "test"
        if (one.kind == "value") == is_variable and one.kind != "test" and not is_local:
            places.setdefault(path, []).append(Entity(path, index))
    if not places:
        return EXTERNAL
    sourced = _sourced(lookup, file)
    reached = [path for path in sourced if path in places]
    if reached:
        return Outcome(
            tuple(one for path in reached for one in places[path]), is_proven=len(reached) == 1 and sourced[reached[0]]
        )
    if len(places) == 1:
        return Outcome(tuple(next(iter(places.values()))), is_proven=False)
    return EXTERNAL if is_variable else UNKNOWN


RULES: Final = Rules("bash", _imported, _free)
