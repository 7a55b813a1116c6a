"""Surroundings of a dispatch: the user's folders and agents, roles, and the command that starts Periplus."""

from __future__ import annotations

__all__ = ["Surroundings", "found_program", "oracle_of", "own_command", "state_folder", "surroundings_of", "words_of"]

import os
import shlex
import sys
from typing import TYPE_CHECKING

from periplus.base.named_tuple import NamedTuple
from periplus.cli.agent.environment import leave_out_relative_folders, user_folder
from periplus.cli.common.face import Face, visible

if TYPE_CHECKING:
    from periplus.agent.settings import Settings
    from periplus.dispatch.adapters import Adapter
    from periplus.dispatch.supervision import SupervisorOptions
    from periplus.project import Project


class Surroundings(NamedTuple):
    settings: Settings
    options: SupervisorOptions
    is_trusted: bool


def surroundings_of(face: Face, project: Project) -> Surroundings:
    """Return what a supervisor is given. Settings and roles of the project count only where the user trusts its folder."""
    from periplus.agent.settings import load_settings
    from periplus.agent.trust import Trust
    from periplus.dispatch.adapters import adapters_with
    from periplus.dispatch.roles.roles import find_roles, places_of
    from periplus.dispatch.supervision import SupervisorOptions

    leave_out_relative_folders()
    config = user_folder(face)
    state = Trust(config).state(project.folder)
    if state == "changed":
        face.stderr.write("periplus: the settings of this folder changed since you trusted it, and are ignored.\n"
                          "Review them, then run `periplus trust give`.\n")  # fmt: skip
    is_trusted = state == "trusted"
    settings = load_settings(config, project.folder, trusted=is_trusted, environment=face.environment, flags={})
    roles = find_roles(places_of(config, project.folder, is_trusted=is_trusted))
    for problem in roles.problems:
        face.stderr.write(f"periplus: {visible(problem.file)} gives no role: {visible(problem.text)}\n")
    options = SupervisorOptions(
        state_folder(face), face.environment, face.home, config, own_command(face), adapters_with(settings.agents),
        {role.name: role for role in roles.roles}, sys.platform == "darwin",
    )  # fmt: skip
    return Surroundings(settings, options, is_trusted)


def state_folder(face: Face) -> str:
    """Return the user's state folder of Periplus."""
    from periplus.dispatch.places import state_folder_of

    return state_folder_of(face.environment, face.home)


def own_command(face: Face) -> tuple[str, ...]:
    """Return the words that start this program, from any folder."""
    typed = os.path.join(face.cwd, sys.argv[0]) if os.sep in sys.argv[0] else ""
    if os.path.basename(typed) == "periplus" and os.access(typed, os.X_OK):
        return (os.path.abspath(typed),)
    return (sys.executable, "-P", "-m", "periplus")


def oracle_of(settings: Settings, typed: str | None, *, is_without: bool) -> tuple[str, ...]:
    """Return the command that decides, as words. Raises UsageError where none is known and that was not asked for."""
    from periplus.base.errors import UsageError

    if is_without:
        return ()
    words = words_of(typed if typed is not None else settings.text("oracle"), "--oracle")
    if not words:
        what = "--oracle is empty" if typed is not None else "no command is known that tells whether work is good"
        raise UsageError(what, safe="Nothing was started.",
                         mend="Name one: --oracle 'pytest -q', or do without: --no-oracle")  # fmt: skip
    return words


def words_of(text: str, option: str) -> tuple[str, ...]:
    """Return the words of a command as a shell would split it. Raises UsageError."""
    from periplus.base.errors import UsageError

    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"{option} {text[:80]!r} cannot be split into words: {error}", safe="Nothing was started.",
                         mend=f"Quote it as in a shell: {option} 'pytest -q'") from error  # fmt: skip


def found_program(face: Face, adapter: Adapter) -> str:
    """Return the path of an agent's program; empty where it is not found."""
    from periplus.dispatch.adapters.environment import program_folders
    from periplus.project.agent_hooks.connection import program_path

    folders = program_folders(face.environment)
    names = adapter.programs or own_command(face)[:1]
    return next((path for name in names if (path := program_path(name, folders))), "")
