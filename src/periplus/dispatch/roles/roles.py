"""Roles from three places: those that ship, then the user's, then a trusted project's. A later one replaces an earlier one of its name.

Nothing of an untrusted project is opened, and no link is followed within a place. A file that cannot be used is reported with its line and
affects no other: the earlier role of its name stays. A project's role is screened like a project's skill, and withheld where it tries to
take over its reader.
"""

from __future__ import annotations

__all__ = [
    "PROJECT_FOLDER",
    "USER_FOLDER",
    "FoundRoles",
    "RolePlace",
    "RoleProblem",
    "find_roles",
    "places_of",
    "shipped_roles",
]

import os
from collections.abc import Sequence
from typing import Final, NamedTuple

from periplus.base.errors import NotFoundError, PeriplusError
from periplus.base.filesystem.confined_folder import Confined, Limits
from periplus.dispatch.roles.role_files import FILE_BYTES_MAX, Role, Source, is_role_name, parse_role

SHIPPED: Final = ("doctor", "implementer", "janitor", "onboarder", "reviewer", "tester")
USER_FOLDER: Final = "roles"
PROJECT_FOLDER: Final = ".agents/roles"
ROLES_MAX: Final = 100
_SUFFIX: Final = ".md"
_LIMITS: Final = Limits(file_bytes_max=FILE_BYTES_MAX, entries_max=1_000)


class RolePlace(NamedTuple):
    """A place of roles: files in ``folder`` below ``root``, which we may open."""

    root: str
    folder: str
    source: Source


class RoleProblem(NamedTuple):
    """A file that gives no role, and why."""

    file: str
    source: Source
    text: str


class FoundRoles(NamedTuple):
    """Roles by name, ``replaced`` with those that a later one took the place of, and problems for people."""

    roles: tuple[Role, ...]
    replaced: tuple[Role, ...]
    problems: tuple[RoleProblem, ...]

    def named(self, name: str) -> Role:
        """Return a role. Raises NotFoundError, which names those there are."""
        found = next((one for one in self.roles if one.name == name), None)
        if found is None:
            raise NotFoundError(
                f"no role {name[:80]!r}", mend=f"There are {', '.join(one.name for one in self.roles)}."
            )
        return found


def places_of(config: str, root: str, *, is_trusted: bool) -> list[RolePlace]:
    """Return the user's place below the settings folder ``config``, and that of a trusted project with its top at ``root``."""
    places = [RolePlace(config, USER_FOLDER, "user")] if config else []
    return [*places, RolePlace(root, PROJECT_FOLDER, "project")] if is_trusted and root else places


def shipped_roles() -> tuple[Role, ...]:
    """Return the roles that ship, by name."""
    from importlib.resources import files

    folder = files(__package__)
    return tuple(
        parse_role(folder.joinpath(name + _SUFFIX).read_bytes(), name, "shipped", name + _SUFFIX) for name in SHIPPED
    )


def find_roles(places: Sequence[RolePlace]) -> FoundRoles:
    """Find the roles that ship and those of ``places``, in order: a later one replaces an earlier one of its name."""
    held = {one.name: one for one in shipped_roles()}
    replaced: list[Role] = []
    problems: list[RoleProblem] = []
    for place in places:
        for one in _of_place(place):
            if isinstance(one, RoleProblem):
                problems.append(one)
            elif one.held:
                problems.append(RoleProblem(one.file, one.source, f"it is withheld: it says {', '.join(one.held)}"))
            else:
                if one.name in held:
                    replaced.append(held[one.name])
                held[one.name] = one
    return FoundRoles(tuple(held[name] for name in sorted(held)), tuple(replaced), tuple(problems))


def _of_place(place: RolePlace) -> list[Role | RoleProblem]:
    shown = os.path.join(place.root, place.folder)
    try:
        with Confined(place.root, limits=_LIMITS) as confined:
            return _listed(confined, place, shown)
    except NotFoundError:
        return []
    except PeriplusError as error:
        return [RoleProblem(shown, place.source, str(error))]


def _listed(confined: Confined, place: RolePlace, shown: str) -> list[Role | RoleProblem]:
    held = confined.stat(place.folder)
    if held is None:
        return []
    if held.kind != "folder":
        return [RoleProblem(shown, place.source, f"it is a {held.kind}, not a folder: links are not followed")]
    found: list[Role | RoleProblem] = []
    for entry in confined.list(place.folder):
        base = entry.path.rpartition("/")[2]
        if base.startswith(".") or not base.endswith(_SUFFIX):
            continue
        if len(found) >= ROLES_MAX:
            found.append(RoleProblem(shown, place.source, f"more than {ROLES_MAX} roles: the rest is left out"))
            break
        path = os.path.join(place.root, entry.path)
        name = base.removesuffix(_SUFFIX)
        if entry.kind != "file":
            found.append(RoleProblem(path, place.source, f"it is a {entry.kind}, not a plain file"))
        elif not is_role_name(name):
            wanted = "up to 40 small letters, digits and single hyphens between them"
            found.append(RoleProblem(path, place.source, f"its name is none of a role: {wanted}"))
        else:
            found.append(_read(confined, place, entry.path, name))
    return found


def _read(confined: Confined, place: RolePlace, path: str, name: str) -> Role | RoleProblem:
    file = os.path.join(place.root, path)
    try:
        return parse_role(confined.read(path), name, place.source, file)
    except PeriplusError as error:
        return RoleProblem(file, place.source, f"{error}{f' {error.mend}' if error.mend else ''}")
