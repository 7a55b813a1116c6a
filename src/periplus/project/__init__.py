"""One project's store behind one typed object: what the command line, servers and Python programs use."""

from typing import TYPE_CHECKING

from periplus.base.lazy_package import lazily

if TYPE_CHECKING:
    from periplus.project.care.status import Status
    from periplus.project.project import Project
    from periplus.project.trail_store.cards import ImportedTrail
    from periplus.project.trail_store.lookup import TrailFile
else:
    __getattr__ = lazily(
        __name__,
        {
            "Project": "project",
            "Status": "care.status",
            "ImportedTrail": "trail_store.cards",
            "TrailFile": "trail_store.lookup",
        },
    )

__all__ = ["ImportedTrail", "Project", "Status", "TrailFile"]
