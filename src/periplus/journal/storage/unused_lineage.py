"""Remains of a lineage whose creation was interrupted before ``lineage.json`` named it: an empty folder, unused keys.

Nothing reads them again, but `doctor` would report a missing key forever. The creation of the next lineage parks them.
"""

from __future__ import annotations

__all__ = ["park_unused_lineage"]

import os

from periplus.base.clock import Clock
from periplus.base.files import Files
from periplus.base.ids import is_id
from periplus.journal.storage.layout import Layout
from periplus.journal.storage.parking import Parking


def park_unused_lineage(layout: Layout, files: Files, clock: Clock, previous: str) -> None:
    """Park the remains; the caller holds the writers' lock. ``previous`` is the lineage that was written here before.

    A lineage that has a file, or of which a head was signed or seen, was begun and is left alone. Raises OSError,
    EnvironmentFailure.
    """
    keys = [name.partition(".") for name in sorted(os.listdir(layout.keys))] if os.path.isdir(layout.keys) else []
    made = {lineage for lineage, _, kind in keys if kind == "private"}
    folders = set(os.listdir(layout.journal)) if os.path.isdir(layout.journal) else set[str]()
    yard = Parking(layout, files, clock)
    for lineage in sorted(made | folders):
        folder = layout.lineage_folder(lineage)
        if not lineage.startswith("lin_") or not is_id(lineage) or lineage == previous:
            continue
        if os.path.lexists(layout.peer_file(lineage)) or (os.path.isdir(folder) and os.listdir(folder)):
            continue
        for name in (f"{lineage}.public", f"{lineage}.private"):
            if lineage in made and os.path.lexists(os.path.join(layout.keys, name)):
                yard.move(os.path.join(layout.keys, name))
        if os.path.isdir(folder):
            files.remove_folder(folder)
