"""Mutated frames lead to errors of the protocol and to nothing else. ``PERIPLUS_EXHAUSTIVE=1`` tries a million."""

from __future__ import annotations

import os

import pytest

from fuzz_wire import REACHED, fuzz
from periplus.context.wire.events import Event

COUNT = 250_000 if os.environ.get("PERIPLUS_EXHAUSTIVE") else 12_000


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_mutated_frames_give_only_errors_of_the_protocol(seed):
    REACHED.clear()
    assert fuzz(COUNT, seed) >= COUNT
    everything = {kind.__name__ for kind in Event.__args__} - {"ShuttingDown", "V1Requested"}
    assert everything <= set(REACHED), everything - set(REACHED)
    assert min(REACHED[kind] for kind in everything) > COUNT // 1_000, REACHED
