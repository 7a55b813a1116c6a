"""What is not the bytes that were written is refused: each truncation and each changed bit of a hundred real trails, and whatever
else a fuzzer makes of trails, with one kind of error, a place, and in memory and time that the input bounds.

``PERIPLUS_EXHAUSTIVE=1`` tries every bit and every length; ``PERIPLUS_FUZZ_INPUTS=1000000`` as many inputs.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import time
import tracemalloc

import pytest

from fuzz_trail import corpus, dictionary, read_everything
from periplus.base.encoding.container import KIND_TRAIL, KIND_TRAILS, pack, unpack
from periplus.base.encoding.varint import uint_bytes
from periplus.base.errors import FormatError, NewerFormatError
from periplus.trail import (
    OPCODES,
    Header,
    Parts,
    TrailBuilder,
    TrailReader,
    concat,
    is_concatenation,
    listing,
    open_parts,
    salvage,
    sign,
    verify,
    withhold,
)
from periplus.trail.format import layout
from real_trails import COUNT, hundred, sessions
from test_attack_trail import TAGS, checked, mutated
from trail_samples import SECRET, golden_trail, sealed, sections_of, small_trail

pytestmark = pytest.mark.quick

EXHAUSTIVE = bool(os.environ.get("PERIPLUS_EXHAUSTIVE"))
FUZZ_INPUTS = int(os.environ.get("PERIPLUS_FUZZ_INPUTS", "3000"))
PATIENCE_S = 20
SIGNING_KEY = bytes(range(32))
GROWTH_BYTES_MAX = 1 << 30
FIXED_BYTES_MAX = 1_000_000  # what a listing keeps of values that it has made lately
MULTIPLE_MAX = 12


@pytest.fixture(autouse=True)
def patience():
    """No input may keep a reader for long: the alarm is set anew for each."""
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it does not come to an end"))
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


def refused(data):
    """``data`` is refused, by the one error, with an offset within it."""
    with pytest.raises(FormatError) as caught:
        TrailReader(data)
    assert type(caught.value) is FormatError
    assert caught.value.wrong
    assert 0 <= caught.value.offset <= len(data)


def places(count, most, chance):
    return range(count) if EXHAUSTIVE else sorted(chance.sample(range(count), min(most, count)))


@pytest.mark.parametrize("part", range(4))
def test_every_truncation_and_every_changed_bit_of_a_hundred_real_trails(part):
    trails = hundred()
    tried = 0
    for number in range(part, COUNT, 4):
        data, chance = trails[number], random.Random(number)
        signal.alarm(PATIENCE_S * 100)
        for length in places(len(data), 40, chance):
            refused(data[:length])
            tried += 1
        for bit in places(8 * len(data), 120, chance):
            changed = bytearray(data)
            changed[bit >> 3] ^= 1 << (bit & 7)
            refused(bytes(changed))
            tried += 1
    assert tried >= COUNT // 4 * 160
    print(f"\n{tried:,} changed trails refused")


@pytest.mark.parametrize("part", range(4))
def test_every_changed_bit_of_a_signed_trail_is_found_where_the_container_is_sealed_again(part):
    """Whoever can compute a SHA-256 still changes nothing that the signature does not tell."""
    trails = hundred()
    public = TrailReader(sign(trails[0], SIGNING_KEY)).signature[:32]
    tried = 0
    for number in range(part, COUNT, 4):
        data, chance = sign(trails[number], SIGNING_KEY), random.Random(number)
        signal.alarm(PATIENCE_S * 100)
        for bit in places(8 * len(data) - 8 * 34, 24, chance):
            changed = bytearray(data)
            changed[bit >> 3] ^= 1 << (bit & 7)
            changed = sealed(bytes(changed))
            report = verify(changed, key=public)
            assert not report.ok, bit
            assert report.offset is not None
            tried += 1
    print(f"\n{tried:,} changed and sealed trails found")


def test_the_real_trails_are_trails_as_the_format_says():
    trails = hundred()
    assert len(set(trails)) > COUNT * 0.9
    for data in trails:
        assert checked(data)
        assert verify(sign(data, SIGNING_KEY)).ok


# Fuzzing


def seeds():
    real = hundred()
    whole = [golden_trail(), small_trail(), *real[::4]]
    redacted = [withhold(data, lambda index, _: index % 3 == 0) for data in whole[:12]]
    signed = [sign(data, SIGNING_KEY) for data in whole[:6]]
    both = [concat([whole[1], redacted[1]]), sign(concat([signed[0], whole[5], whole[1]]), SIGNING_KEY)]
    return [*whole, *redacted, *signed], both


def hostile_trail(trails, chance):
    """A trail with sections changed, exchanged or left out, sealed again; now and then only bytes of the file changed."""
    base = sections_of(chance.choice(trails))
    if chance.random() < 0.1:
        data = bytearray(chance.choice(trails))
        for _ in range(chance.randrange(1, 5)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        whole = bytes(data[: chance.randrange(len(data) + 1)] if chance.random() < 0.3 else data)
        return whole if chance.random() < 0.5 or len(whole) < 40 else sealed(whole)
    others = list(base.values())
    for _ in range(chance.choice([1, 1, 2, 3])):
        tag = chance.choice([tag for tag in base if tag in (*TAGS, layout.TAG_RECEIPTS, layout.TAG_SIGNATURE)])
        kind = chance.random()
        if kind < 0.85:
            base[tag] = mutated(base[tag], chance, others)
        elif kind < 0.95:
            base[tag] = sections_of(chance.choice(trails)).get(tag, b"")
        else:
            base[chance.randrange(255)] = chance.randbytes(chance.randrange(20))
    return pack(KIND_TRAIL, base)


def hostile_parts(trails, both, chance):
    """A concatenation of such trails, or with the section of its parts changed."""
    if chance.random() < 0.5:
        files = [hostile_trail(trails, chance) if chance.random() < 0.5 else chance.choice(trails) for _ in range(3)]
        section = uint_bytes(len(files)) + b"".join(uint_bytes(len(file)) + file for file in files)
    else:
        whole = chance.choice(both)
        section = mutated(whole[slice(*unpack(whole, KIND_TRAILS)[layout.TAG_PARTS])], chance, [whole])
    sections = {layout.TAG_PARTS: section, layout.TAG_DIGEST: chance.randbytes(32)}
    return pack(KIND_TRAILS, sections)


def survives(data, *, is_thorough):
    """Everything that reads trails takes ``data`` or refuses it as it promises; whether it was taken."""
    try:
        readers = open_parts(data)
    except (FormatError, NewerFormatError) as error:
        if error.offset is None or not 0 <= error.offset <= len(data):
            raise AssertionError("an error without a place") from error
        readers = ()
    for reader in readers:
        assert checked(reader.to_bytes()) if is_thorough else all(True for _ in listing(reader, "compact"))
    if is_concatenation(data) and readers:
        assert concat([data]) == Parts(data).with_files(Parts(data).files()) or Parts(data).signature
    if is_thorough or (readers and not is_concatenation(data)):
        report = verify(data)
        assert report.ok <= bool(readers)
        assert report.ok or report.offset is not None
    if is_thorough:
        try:
            kept = salvage(data)
        except (FormatError, NewerFormatError) as error:
            if error.offset is None:
                raise AssertionError("an error without a place") from error
        else:
            assert verify(kept.data).ok
            assert kept.lost or kept.data == data
    return bool(readers)


def fuzz(seed, count):
    chance = random.Random(seed)
    trails, both = seeds()
    taken = 0
    slowest = 0.0
    for number in range(count):
        data = hostile_parts(trails, both, chance) if number % 5 == 0 else hostile_trail(trails, chance)
        signal.alarm(PATIENCE_S)
        begun = time.process_time()
        try:
            is_taken = survives(data, is_thorough=number % 8 < 2)
        except Exception as error:  # any other than the promised ones is the finding
            raise AssertionError(f"seed {seed}, input {number} of {len(data):,} bytes") from error
        slowest = max(slowest, time.process_time() - begun)
        taken += is_taken
        if is_taken and len(trails) < 500 and len(data) < 5000 and not is_concatenation(data):
            trails.append(data)
    return taken, slowest


@pytest.mark.slow
def test_hostile_inputs_give_only_the_one_error():
    """The process may not grow beyond what it has by more than a bound that no input here justifies."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm" if os.path.exists("/proc/self/statm") else os.devnull, encoding="ascii") as file:
        pages = int((file.read().split() or ["0"])[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + GROWTH_BYTES_MAX, hard))
    try:
        taken, slowest = fuzz(int(os.environ.get("PERIPLUS_FUZZ_SEED", "20260131")), FUZZ_INPUTS)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert taken > FUZZ_INPUTS // 100
    print(f"\n{FUZZ_INPUTS:,} inputs, {taken:,} of them trails, the slowest {slowest:.3f} s")


@pytest.mark.slow
def test_memory_is_a_small_multiple_of_a_hostile_input():
    """Numbers that announce much cost nothing; the memory of reading grows with the bytes that are there."""
    chance = random.Random(11)
    _, both = seeds()
    builder = TrailBuilder(SECRET)
    for number in range(6_000):  # many short strings: what costs the most memory a byte
        builder.add("SAY", f"{number:x}", source=number + 1)
    trails = [builder.finish(Header("zz", "yy")), max(sessions(), key=len)]
    read_all(trails[0])
    worst = 0.0
    for number in range(12 if not EXHAUSTIVE else 5_000):
        data = hostile_parts(trails, both, chance) if number % 5 == 0 else hostile_trail(trails, chance)
        signal.alarm(PATIENCE_S)
        tracemalloc.start()
        try:
            read_all(data)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        worst = max(worst, (peak - FIXED_BYTES_MAX) / len(data))
        assert peak < FIXED_BYTES_MAX + MULTIPLE_MAX * len(data), (number, len(data), peak)
    print(f"\nat most {worst:.1f} bytes of memory a byte of input, beyond {FIXED_BYTES_MAX:,}")


def read_all(data):
    verify(data)
    try:
        for reader in open_parts(data):
            for _ in listing(reader, "compact"):
                pass
        salvage(data)
    except (FormatError, NewerFormatError):
        pass


@pytest.mark.parametrize("tag", [layout.TAG_HEADER, layout.TAG_STRINGS, layout.TAG_STEPS, "parts", "container"])
def test_what_announces_more_than_there_is_costs_no_memory(tag):
    huge = [2**24 - 1, 2**24, 2**31, 2**32 - 1, 2**53, 2**63, 2**64 - 1]
    for number in huge:
        announced = uint_bytes(number)
        sections = sections_of(golden_trail())
        if tag == "parts":
            data = pack(KIND_TRAILS, {layout.TAG_PARTS: announced + golden_trail(), layout.TAG_DIGEST: bytes(32)})
        elif tag == "container":
            data = sealed(golden_trail()[:7] + announced + golden_trail()[8:])
        else:
            mode = sections[tag][:33] if tag == layout.TAG_STRINGS else b"\2" if tag == layout.TAG_HEADER else b""
            data = pack(KIND_TRAIL, {**sections, tag: mode + announced + sections[tag][len(mode) + 1 :]})
        tracemalloc.start()
        try:
            assert not verify(data).ok
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 200_000, (tag, number, peak)


def test_what_the_guided_fuzzer_begins_with_is_sound():
    """Of every opcode in the table, which is where the fuzzer's dictionary comes from."""
    assert all(verify(data).ok for data in corpus())
    assert len(dictionary()) > len(OPCODES)
    for data in corpus():
        for word in dictionary()[::7]:
            read_everything(data[: len(data) // 2] + word + data[len(data) // 2 :])
