"""Check the trails of a store, for ``doctor``."""

from __future__ import annotations

__all__ = ["TrailReadings", "trail_problems"]

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from periplus.base.errors import DamageError, PeriplusError
from periplus.journal import Entity

if TYPE_CHECKING:
    from periplus.journal.care.doctor import Problem
    from periplus.project.store import ProjectStore
    from periplus.trail import Report


class TrailReadings:
    """Facts about trails for an examination, gathered while each is unpacked once; none of them is kept.

    ``read`` are the objects that were read, ``reports`` the verification of the present trails.
    """

    def __init__(self, project: ProjectStore) -> None:
        from periplus.project.trail_store.withholding import Withholding

        self._journal = project.journal
        self._withholding = Withholding(project)
        self.read: set[bytes] = set()
        self.reports: dict[bytes, Report] = {}

    def get(self, digest: bytes) -> bytes:
        """Read an object. Raises NotFoundError, DamageError."""
        data = self._journal.objects.get(digest)
        self.read.add(digest)
        return data

    def references(self, entity: Entity) -> set[bytes]:
        """Return the objects that the trail names and that are held; see ``trail_store.objects.trail_objects``."""
        from periplus.project.trail_store.objects import trail_objects

        own = str(entity.value.get("object", ""))
        data = b""

        def lend(digest: bytes) -> bytes:
            nonlocal data
            found = self.get(digest)
            if digest.hex() == own:
                data = found
            return found

        named = trail_objects(entity, lend, holds=self._journal.objects.has)
        if data:
            self._verify(entity.item_id, own, data)
        return named

    def _verify(self, item_id: str, own: str, data: bytes) -> None:
        from periplus.trail import verify

        try:
            held = self._journal.get("trail", item_id)
            if held is not None and held.value.get("object") == own:
                self.reports[bytes.fromhex(own)] = verify(data, store=self, is_redacted=self._withholding.is_out)
        except PeriplusError:
            pass  # the error occurs again, and is reported, where the missing report is needed


def trail_problems(project: ProjectStore, reports: Mapping[bytes, Report]) -> Iterator[Problem]:
    """Yield the problems of trails whose objects are sound; the check of the objects reports the others. ``reports``
    are those that are known already, by object.
    """
    from periplus.journal.care.doctor import Problem
    from periplus.memory.fulltext.documents import object_of_card
    from periplus.project.trail_store.withholding import Withholding
    from periplus.trail import verify

    withholding = Withholding(project)
    objects = project.journal.objects
    for entity in project.journal.entities("trail"):
        try:
            own = object_of_card(entity.value)
        except DamageError as error:
            yield Problem("error", f"trail {entity.item_id}: {error.wrong}", project.root)
            continue
        report = reports.get(own)
        if report is None:
            try:
                data = objects.get(own)
            except PeriplusError:
                continue
            report = verify(data, store=objects, is_redacted=withholding.is_out)
        if not report.ok:
            yield Problem("error", f"trail {entity.item_id}: {report.summary}", project.root)
        elif report.digest.hex() != entity.value.get("digest"):
            yield Problem("error", f"trail {entity.item_id} is not the one that the journal announced", project.root)
