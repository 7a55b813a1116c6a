"""One project's store behind one typed object: what the command line, servers and Python programs use."""

from typing import TYPE_CHECKING

from periplus.base.lazy import lazily

if TYPE_CHECKING:
    from periplus.project.project import Project
    from periplus.project.status import Status
    from periplus.project.trails import ImportedTrail, TrailFile
else:
    __getattr__ = lazily(
        __name__, {"Project": "project", "Status": "status", **dict.fromkeys(("ImportedTrail", "TrailFile"), "trails")}
    )

__all__ = ["ImportedTrail", "Project", "Status", "TrailFile"]
