"""One project's store behind one typed object: what the command line, servers and Python programs use."""

from periplus.project.project import ImportedTrail, Project, Status, TrailFile

__all__ = ["ImportedTrail", "Project", "Status", "TrailFile"]
