"""The agent's part of the environment: the user's configuration folder, and a PATH without relative folders."""

from __future__ import annotations

__all__ = ["leave_out_relative_folders", "user_folder"]

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from periplus.cli.common.face import Face


def leave_out_relative_folders() -> None:
    """Remove relative folders from PATH: ``.`` would find programs in the working folder, and libraries run some by name (an SDK runs ``uname``)."""
    folders = [one for one in os.environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(one)]
    os.environ["PATH"] = os.pathsep.join(folders) or os.defpath


def user_folder(face: Face) -> str:
    """Return the user's configuration folder of Periplus."""
    from periplus.agent.settings import settings_folder

    return settings_folder(face.environment, face.home)
