"""What is left of a lineage whose making was stopped before ``lineage.json`` named it: an empty folder, keys nobody saw.

Nothing ever asks for it again, and `doctor` would miss a key of it for good. Whoever makes the next lineage parks it.
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
    """Park it; the caller holds the writers' lock. ``previous`` is the lineage that was written here before.

    A lineage that has a file, or a head that was signed or seen, was begun. Raises OSError, EnvironmentFailure.
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
