"""The agent's part of the environment: the user's configuration folder, and a PATH without relative folders."""

from __future__ import annotations

__all__ = ["leave_out_relative_folders", "user_folder"]

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from periplus.cli.common.face import Face


def leave_out_relative_folders() -> None:
    """A PATH with ``.`` in it would find programs in the folder that is worked in, which may be anybody's: libraries run some
    by name (an SDK runs ``uname``).
    """
    folders = [one for one in os.environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(one)]
    os.environ["PATH"] = os.pathsep.join(folders) or os.defpath


def user_folder(face: Face) -> str:
    """The user's configuration of Periplus (XDG base directory specification)."""
    base = face.environment.get("XDG_CONFIG_HOME", "")
    return os.path.join(base if os.path.isabs(base) else os.path.join(face.home, ".config"), "periplus")
