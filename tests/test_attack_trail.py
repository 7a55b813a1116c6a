"""Structure-aware fuzzing of the trail reader: sections are changed where it hurts and the file is sealed again, receipts
and all, so that nothing but the readers of the sections stands in the way.
"""

from __future__ import annotations

import os
import random
import time

import pytest

from periplus.base.encoding.container import KIND_TRAIL, pack
from periplus.base.encoding.varint import uint_bytes
from periplus.base.errors import FormatError, NewerFormatError, PeriplusError
from periplus.trail import TrailReader, encode, listing, verify
from periplus.trail.format import layout
from trail_samples import golden_trail, sections_of, small_trail

EXTREMES = [0, 1, 2, 3, 127, 128, 2**14, 2**24 - 1, 2**24, 2**24 + 1, 2**31, 2**53 - 1, 2**53, 2**62 - 1, 2**62, 2**63 - 1, 2**63,
            2**64 - 1]  # fmt: skip
TAGS = [layout.TAG_HEADER, layout.TAG_STRINGS, layout.TAG_STEPS, layout.TAG_TIMES, layout.TAG_SOURCES]


def mutated(content, chance, others):
    out = bytearray(content)
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        at = chance.randrange(len(out) + 1)
        kind = chance.randrange(8)
        if kind == 0 and out:
            out[at % len(out)] ^= 1 << chance.randrange(8)
        elif kind == 1:
            out[at : at + chance.randrange(1, 4)] = (
                uint_bytes(chance.choice(EXTREMES))
                if chance.random() < 0.9
                else chance.choice([b"\x80\x00", b"\xff" * 10, b"\xff" * 9 + b"\x02"])
            )
        elif kind == 2:
            out[at:at] = uint_bytes(chance.choice(EXTREMES))
        elif kind == 3:
            del out[at : at + chance.randrange(1, 20)]
        elif kind == 4:
            start = chance.randrange(len(out) + 1)
            out[at:at] = out[start : start + chance.randrange(1, 60)]
        elif kind == 5:
            other = chance.choice(others)
            start = chance.randrange(len(other) + 1)
            out[at:at] = other[start : start + chance.randrange(1, 40)]
        elif kind == 6 and out:
            out[at % len(out)] = chance.choice(b"\x00\x01\x02\x03\x04\x7f\x80\xff\x90\xa0\xa1\xc1")
        elif out:
            out[at % len(out)] = (out[at % len(out)] + chance.choice([1, 255])) % 256
    return bytes(out)


def checked(data):
    """What must hold of whatever the reader accepts; True where it does."""
    try:
        reader = TrailReader(data)
    except (FormatError, NewerFormatError):
        return False
    assert reader.to_bytes() == data
    steps = list(reader.steps())
    assert len(steps) == reader.step_count
    report = verify(data)
    for form in ("text", "json"):
        assert "\x1b" not in "".join(listing(reader, form))
    if reader.secret is None:
        return True
    try:
        again = encode(reader.header, steps, reader.status, reader.secret, extra=reader.extra)
    except PeriplusError as error:
        raise AssertionError(f"what was read cannot be written: {error}") from error
    theirs, ours = sections_of(data), sections_of(again)
    for tag in TAGS:
        assert theirs.get(tag) == ours.get(tag), f"section {tag}: two forms of one trail"
    if theirs[layout.TAG_RECEIPTS] == ours[layout.TAG_RECEIPTS]:
        assert report.ok or layout.TAG_SIGNATURE in theirs
    else:
        assert not report.ok
    # With the receipts that it should have, it is a trail like any other.
    whole = pack(KIND_TRAIL, {**theirs, layout.TAG_RECEIPTS: ours[layout.TAG_RECEIPTS]})
    assert verify(whole).digest == TrailReader(again).digest
    return True


def fuzz(seed, seconds=0.0, rounds=0):
    chance = random.Random(seed)
    seeds = [golden_trail(), small_trail()]
    end = time.monotonic() + seconds
    accepted = tried = 0
    while tried < rounds or time.monotonic() < end:
        base = sections_of(chance.choice(seeds))
        others = list(base.values())
        for _ in range(chance.choice([1, 1, 2])):
            tag = chance.choice([tag for tag in base if tag in TAGS])
            base[tag] = mutated(base[tag], chance, others)
        data = pack(KIND_TRAIL, base)
        tried += 1
        try:
            is_accepted = checked(data)
        except Exception as error:
            raise AssertionError(f"seed {seed}, round {tried}: {data.hex()}") from error
        if is_accepted:
            accepted += 1
            if len(seeds) < 400 and len(data) < 5000:
                seeds.append(data)
    return tried, accepted


def test_what_the_reader_accepts_has_one_form_and_nothing_but_its_errors_comes_out():
    tried, accepted = fuzz(1, rounds=3000)
    assert accepted > tried // 50


@pytest.mark.slow
def test_the_same_for_as_long_as_is_asked_for():
    seed = int(os.environ.get("PERIPLUS_FUZZ_SEED", "20260131"))
    _, accepted = fuzz(seed, seconds=float(os.environ.get("PERIPLUS_FUZZ_SECONDS", "20")))
    assert accepted > 100
