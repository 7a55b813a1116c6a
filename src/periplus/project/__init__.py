"""One project's store behind one typed object: what the command line, servers and Python programs use."""

from typing import TYPE_CHECKING

from periplus.base.lazy_package import lazily

if TYPE_CHECKING:
    from periplus.project.cards import ImportedTrail
    from periplus.project.project import Project
    from periplus.project.status import Status
    from periplus.project.trail_files import TrailFile
else:
    __getattr__ = lazily(
        __name__, {"Project": "project", "Status": "status", "ImportedTrail": "cards", "TrailFile": "trail_files"}
    )

__all__ = ["ImportedTrail", "Project", "Status", "TrailFile"]
