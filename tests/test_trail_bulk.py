"""What reads many steps at once finds what the loops find that read one after the other, or leaves it to them."""

import hashlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from periplus.base.encoding.varint import read_uint, uint_bytes
from periplus.base.errors import FormatError
from periplus.trail import Digest, Header, Step, TrailReader, encode, withhold
from periplus.trail.format import identity, layout, steps_section
from periplus.trail.format.batch_decoding import (
    BatchDecodingError,
    are_sound_sources,
    are_sound_times,
    entries_of_sound_steps,
    made_steps,
)
from periplus.trail.format.string_table import StringTable
from periplus.trail.format.varint_vectors import count_numbers, decode_chunk, flat_numbers
from test_attack_trail import mutated
from trail_samples import golden_trail

pytestmark = pytest.mark.quick

ROUNDS = 1_500
SIZES = (0, 1, 63, 64, 127, 128, 8_191, 8_192, 16_383, 16_384, 2**21 - 1, 2**21, 2**28 - 1, 2**28, 2**40, 2**53 - 1)


def many_steps(count, texts):
    chance = random.Random(count)
    found = []
    for index in range(count):
        text = f"text {chance.randrange(texts)}" + "é" * chance.randrange(2)
        digest = Digest("sha256", bytes([chance.randrange(256)]) * 32)
        code, *operands = chance.choice([
            (0x92, text, None), (0x93, text, digest), (0x94, text, "a", f"{index}"), (0x95, text, chance.choice(SIZES[:15])),
            (0x9C, text, -chance.choice(SIZES[:15])), (0x9F,), (0xAD, text, 1, 300, 70_000, None), (0x91, "a", "b" * 4_096),
        ])  # fmt: skip
        tail = {}
        if index % 3 == 0:
            tail = {
                "outcome": "failed",
                "exit_code": -chance.choice(SIZES[:15]),
                "error": text,
                "note": f"n{index % 7}",
            }
        if index % 4 == 0:
            tail |= {"result": digest, "result_size": chance.choice(SIZES[:15])}
        delta, duration = chance.choice(SIZES[:13]), chance.choice([None, *SIZES[:15]])
        found.append(
            Step(
                code,
                tuple(operands),
                delta_ms=delta - (index % 2),
                duration_ms=duration,
                source=index // 2 or None,
                **tail,
            )
        )
    return found


@pytest.fixture(scope="module")
def trails():
    header = Header("agent", "trail", started_ms=1_700_000_000_000)
    made = [
        encode(header, many_steps(*size), "success", bytes(32))
        for size in ((0, 1), (30, 9), (2_500, 40), (2_000, 6_000))
    ]
    return [golden_trail(), *made, withhold(made[1], lambda index, _: index % 2 == 0)]


@given(st.lists(st.sampled_from(SIZES) | st.integers(0, 2**64 - 1) | st.integers(0, 300), max_size=60))
def test_numbers_of_any_size_are_read_at_once(numbers):
    written = [uint_bytes(number) for number in numbers]
    assert decode_chunk(b"".join(written)) == numbers
    longest = max(map(len, written), default=1)
    assert count_numbers(b"".join(written)) == (len(numbers), min(longest, 5))


@given(st.lists(st.sampled_from(SIZES), max_size=3_000))
def test_numbers_are_taken_in_chunks_that_end_between_them(numbers):
    data = b"".join(map(uint_bytes, numbers))
    assert list(flat_numbers(b"\x80" + data + b"\x80", 1, len(data) + 1)) == numbers


@pytest.mark.parametrize("wrong", [b"\x80\x00", b"\x81\x80\x00", b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x02"])
def test_a_number_that_is_not_sound_is_an_error(wrong):
    with pytest.raises(FormatError):
        decode_chunk(b"\x05" + wrong + b"\x05")


def test_steps_are_judged_and_made_as_the_loops_do(trails):
    for data in trails:
        reader = TrailReader(data)
        start, end = reader.span(layout.TAG_STEPS)
        count, at = read_uint(data, start, end)
        forms = reader.strings.forms
        check = steps_section._StepsCheck(data, at, end, forms)
        check.pass_over(count)
        used = entries_of_sound_steps(data, at, end, count, forms)
        assert used == (None if reader.unknown_opcodes else check.used)
        if reader.unknown_opcodes:
            continue
        sources = reader._sections.get(layout.TAG_SOURCES)
        spans = (start, end), reader.span(layout.TAG_TIMES), sources
        made = list(made_steps(data, *spans, reader.strings))
        assert made == list(steps_section.decode_steps(data, *spans, reader.strings))
        assert {type(step) for step in made} <= {Step}
        assert len(made) == count


def test_a_number_of_over_seven_bytes_is_left_to_the_loop():
    step = Step(0xA2, ("a",), "failed", exit_code=2**53 - 1)
    reader = TrailReader(encode(Header("a", "t"), [step], "success", bytes(32)))
    start, end = reader.span(layout.TAG_STEPS)
    assert entries_of_sound_steps(reader.to_bytes(), start + 1, end, 1, reader.strings.forms) is None
    assert list(reader.steps()) == [step]


def test_only_what_the_loops_accept_is_found_sound(trails):
    chance = random.Random(5)
    sound = 0
    for index in range(ROUNDS):
        data = trails[(0, 2, 2, 5)[index % 4]]
        reader = TrailReader(data)
        forms = reader.strings.forms
        program = mutated(bytes(reader.view(layout.TAG_STEPS)), chance, [b"\x9f\x02\x00\x00", b"\xa2\x03\x00\x01\x01"])
        try:
            count, at = read_uint(program, 0, len(program))
            used = entries_of_sound_steps(program, at, len(program), count, forms)
        except FormatError:
            continue
        check = steps_section._StepsCheck(program, at, len(program), forms)
        try:
            check.pass_over(count)
            is_sound = check.at == len(program)
        except (FormatError, IndexError):
            is_sound = False
        assert used is None or (is_sound and used == check.used), program.hex()
        sound += used is not None
    assert sound > ROUNDS // 200


def test_only_times_and_sources_that_the_loops_accept_are_found_sound(trails, monkeypatch):
    chance = random.Random(6)
    sound = [0, 0]
    cases = []
    for index in range(ROUNDS):
        reader = TrailReader(trails[(0, 2, 5)[index % 3]])
        times, sources = (
            mutated(bytes(reader.view(tag)), chance, [b"\0\0"]) for tag in (layout.TAG_TIMES, layout.TAG_SOURCES)
        )
        cases.append((times, sources, reader.step_count + chance.choice([-1, 0, 0, 0, 1])))
    for times, sources, count in cases:
        with monkeypatch.context() as patched:
            for name in ("are_sound_times", "are_sound_sources"):
                patched.setattr(steps_section, name, lambda *_: False)  # so that the loop has to find out
            loops = [
                accepts(steps_section.check_times, times, count),
                accepts(steps_section.check_sources, sources, count),
            ]
        found = [accepts(steps_section.check_times, times, count), accepts(steps_section.check_sources, sources, count)]
        assert found == loops, (times.hex(), sources.hex())
        try:
            started, at = read_uint(times, 0, len(times))
        except FormatError:
            continue
        in_bulk = [
            are_sound_times(times, at, len(times), started // 2, count),
            are_sound_sources(sources, 0, len(sources), count),
        ]
        sound = [before + one for before, one in zip(sound, in_bulk, strict=True)]
        assert in_bulk[1] <= (loops[1] is None)
    assert min(sound) > ROUNDS // 100


def accepts(check, section, count):
    try:
        check(section, 0, len(section), count)
    except FormatError as error:
        return str(error), error.offset
    return None


def test_a_time_that_leaves_the_years_on_the_way_is_left_to_the_loop():
    far = uint_bytes(2 * layout.CLOCK_MS_MAX) + b"\x02\x00\x01\x00"
    _, at = read_uint(far, 0, len(far))
    assert not are_sound_times(far, at, len(far), layout.CLOCK_MS_MAX, 2)
    with pytest.raises(FormatError, match="outside the years"):
        steps_section.check_times(far, 0, len(far), 2)


def test_leaves_and_receipts_are_hashed_as_the_loop_does(trails):
    for data in trails:
        reader = TrailReader(data)
        start, end = reader.span(layout.TAG_STEPS)
        _, at = read_uint(data, start, end)
        commitments = reader.commitments()
        leaves = list(identity.step_leaves(data, start, end, commitments))
        receipt = bytes(32)
        for leaf, step in zip(leaves, reader.steps(), strict=True):
            outcome = bytes((steps_section.OUTCOMES.index(step.outcome),))
            receipt = hashlib.sha256(b"PPLR" + receipt + leaf + outcome).digest()
        try:
            root, last = identity._hashed_in_bulk(data, at, end, commitments)
        except BatchDecodingError:
            assert min(reader.unknown_opcodes) < 0x80
            continue
        assert (root, last) == (identity.root_of(leaves), receipt)


def test_entries_are_read_at_once_as_one_by_one(trails):
    chance = random.Random(7)
    at_once = 0
    for index in range(ROUNDS):
        reader = TrailReader(trails[(0, 2)[index % 2]])
        table = mutated(
            bytes(reader.view(layout.TAG_STRINGS)), chance, [b"\0\1\xc3", b"\0\1\xa9", b"\0\1a", b"\2\2" + bytes(20)]
        )
        is_bulk, found = read_table(StringTable, table)
        _, one_by_one = read_table(OneByOne, table)
        assert found == one_by_one, table.hex()
        at_once += is_bulk
    assert at_once > ROUNDS // 100


class OneByOne(StringTable):
    def _read_sound_entries(self, start, count, forms):
        return None


def read_table(kind, data):
    """Whether the table was read at once, and what it says or its fault."""
    try:
        table = kind(data, 0, len(data))
    except FormatError as error:
        return False, (str(error), error.offset)
    values = [table.value(index) for index in range(len(table))]
    assert table.values(0, len(table) + 9) == values
    return not table.is_redacted, (bytes(table.forms), list(table.contents), values)
