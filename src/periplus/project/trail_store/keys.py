"""The key and the secrets with which this store seals trails."""

from __future__ import annotations

__all__ = ["project_trail_key", "trail_secret"]

from typing import TYPE_CHECKING

from periplus.journal import create_store

if TYPE_CHECKING:
    from periplus.project.store import ProjectStore


def trail_secret(project: ProjectStore, source_sha256: bytes) -> bytes:
    """See ``Project.trail_secret``."""
    import hashlib
    import hmac

    return hmac.digest(project_trail_key(project), source_sha256, hashlib.sha256)


def project_trail_key(project: ProjectStore) -> bytes:
    from periplus.journal.storage.keys import trail_key

    journal = project.journal
    if journal.own is None:
        create_store(project.root, journal.files, journal.clock)
    return trail_key(journal.layout)
