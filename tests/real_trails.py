"""A hundred real trails: the sessions that stand beside the repository, cut into pieces that are small enough to try everything on."""

from __future__ import annotations

import functools

import pytest

from interop_support import KEY, SHARED, Objects
from periplus.base.errors import PeriplusError
from periplus.interop import import_transcript
from periplus.trail import Step, TrailReader, encode

COUNT = 100


def sessions():
    """The trail of each real session, children included, in an order that is the same everywhere."""
    if not SHARED.is_dir():
        pytest.skip(f"real transcripts are not beside the repository: no folder {SHARED}")
    found = []
    for path in sorted(SHARED.rglob("*")):
        if not path.is_file() or path.suffix == ".md":
            continue
        try:
            imported = import_transcript(str(path), trail_key=KEY, put_object=Objects().put)
        except PeriplusError:
            continue  # no session, or of a format that is not read
        found += trails_of(imported)
    return found


def trails_of(imported):
    return [imported.trail, *(trail for child in imported.children for trail in trails_of(child))]


@functools.cache
def hundred():
    """A hundred pieces of real sessions, each a trail of its own with the header and the secret of its session."""
    readers = [TrailReader(data) for data in sessions()]
    size = max(1, sum(reader.step_count for reader in readers) // (COUNT + len(readers)))
    pieces = [
        encode(reader.header, piece, reader.status, reader.secret)
        for reader in readers
        for piece in _pieces(list(reader.steps()), size)
    ]
    chosen = pieces[:: max(1, len(pieces) // COUNT)][:COUNT]
    assert len(chosen) == COUNT
    return chosen


def _pieces(steps: list[Step], size: int):
    return [steps[start : start + size] for start in range(0, len(steps), size)]
