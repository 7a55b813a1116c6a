"""Trails as bytes: round trips, the one canonical form, limits."""

import hashlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from periplus.base.encoding.container import CONTAINER_BYTES_MAX
from periplus.base.encoding.varint import uint_bytes, zigzag
from periplus.base.errors import FormatError, NewerFormatError, UsageError
from periplus.trail import Digest, Header, Signed, Step, TextObject, TrailBuilder, TrailReader, Withheld, encode, verify
from periplus.trail.format import layout
from trail_samples import (
    SECRET,
    START_MS,
    golden_trail,
    headers,
    oracle_digest,
    sealed,
    sections_of,
    sha,
    small_trail,
    statuses,
    steps,
    with_sections,
)

pytestmark = pytest.mark.quick

HEAD = b"\x02\x00\x01\x02\x03\x00\x00"  # a header of entries 0 … 3


def strings(*entries, mode=0):
    secret = SECRET if mode == 0 else b""
    return bytes((mode,)) + secret + uint_bytes(len(entries)) + b"".join(entries)


def text(value):
    return b"\0" + uint_bytes(len(value.encode())) + value.encode()


def digest(value=bytes(32)):
    return b"\2\1" + value


def crafted(steps_bytes=b"\0", entries=None, head=HEAD, times=b"\0", **more):
    """A trail of handmade sections, around which everything but the receipts is right."""
    entries = [text(letter) for letter in "abcd"] if entries is None else entries
    tags = {"strings": layout.TAG_STRINGS, "sources": layout.TAG_SOURCES, "receipts": layout.TAG_RECEIPTS}
    sections = {layout.TAG_HEADER: head, layout.TAG_STEPS: steps_bytes, layout.TAG_TIMES: times}
    sections[layout.TAG_STRINGS] = entries if isinstance(entries, bytes) else strings(*entries)
    sections.update({tags[name]: content for name, content in more.items()})
    return with_sections(small_trail(), {layout.TAG_SOURCES: None, **sections})


def one_step(*body, code=0xAC):
    return b"\1" + bytes((code, len(body), *body))


def refusal(data):
    with pytest.raises(FormatError) as caught:
        TrailReader(data)
    assert caught.value.offset is not None
    assert 0 <= caught.value.offset <= len(data)
    return str(caught.value)


@pytest.mark.slow
@given(headers, st.lists(steps(), max_size=12), statuses, st.binary(min_size=32, max_size=32))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_values_and_bytes_are_each_others_inverse(header, trail_steps, status, secret):
    data = encode(header, trail_steps, status, secret)
    reader = TrailReader(data)
    assert (reader.header, reader.status, reader.secret) == (header, status, secret)
    assert reader.step_count == len(trail_steps)
    found = list(reader.steps())
    assert found == trail_steps
    assert [type(value) for step in found for value in step.operands] == [
        type(value) for step in trail_steps for value in step.operands
    ]
    assert encode(reader.header, found, reader.status, reader.secret) == data == reader.to_bytes()
    assert reader.digest == reader.computed_identity().digest == oracle_digest(header, trail_steps, status, secret)
    assert verify(data).ok


def test_builder_and_encode_write_the_same_bytes():
    data = golden_trail()
    reader = TrailReader(data)
    assert encode(reader.header, reader.steps(), reader.status, SECRET) == data


def test_empty_trail_has_the_empty_root():
    reader = TrailReader(TrailBuilder(SECRET).finish(Header("a", "t")))
    assert reader.step_count == 0
    assert reader.stored_identity.root == hashlib.sha256(b"").digest()
    assert verify(reader.to_bytes()).ok


def test_crafted_trail_is_read_as_it_stands():
    reader = TrailReader(crafted())
    assert reader.header == Header("a", "b", "c", "d")
    said = TrailReader(crafted(one_step(0, 1, 1), times=b"\0\0\0"))
    assert list(said.steps()) == [Step(0xAC, ("a",))]


@pytest.mark.parametrize(
    ("crafting", "reason"),
    [
        (crafted(one_step(0, 1, 5), times=b"\0\0\0"), "order of first use"),
        (crafted(entries=[text(letter) for letter in "abcde"]), "never used"),
        (crafted(entries=[text(letter) for letter in "abca"]), "twice"),
        (crafted(entries=[text(letter) for letter in "abc"]), "order of first use"),
        (crafted(head=b"\x02\x01\x00\x02\x03\x00\x00"), "order of first use"),
        (crafted(head=b"\x02\x80\x00\x01\x02\x03\x00\x00"), "shortest"),
        (crafted(head=HEAD + b"\0"), "after the header"),
        (crafted(head=HEAD[:-1]), "cut off"),
        (crafted(head=HEAD[:-2] + b"\x20\0"), "flags"),
        (crafted(head=HEAD[:-1] + b"\x05"), "parents"),
        (crafted(head=HEAD[:-2] + b"\x08\0\0"), "wrong form"),
        (crafted(head=HEAD[:-1] + b"\x01\x00"), "wrong form"),
        (crafted(head=b"\x01" + HEAD[1:]), "format 1"),
        (crafted(b"\x80\x00"), "shortest"),
        (crafted(b"\0\0"), "after the last step"),
        (crafted(b"\x05"), "room"),
        (crafted(one_step(0x80, 1, 1), times=b"\0\0\0"), "flags"),
        (crafted(one_step(5, 1, 1), times=b"\0\0\0"), "outcome"),
        (crafted(one_step(0, 2, 1, 0), times=b"\0\0\0"), "2 operands"),
        (crafted(one_step(0, 0, 0), times=b"\0\0\0"), "0 operands"),
        (crafted(one_step(0, 1, 6), times=b"\0\0\0"), "wrong kind"),
        (crafted(one_step(0, 1, 1, 0), times=b"\0\0\0"), "long as it says"),
        (crafted(one_step(0, 1, 0x81), times=b"\0\0\0"), ""),
        (crafted(one_step(0, 1, 0x81, 0), times=b"\0\0\0"), "shortest"),
        (crafted(b"\1\xac\x83\x00\0\1\1", times=b"\0\0\0"), "shortest"),
        (crafted(one_step(0, 1, 4, code=0x77), times=b"\0\0\0"), "absent operand with a number"),
        (crafted(one_step(0, 1, 0, code=0x77), times=b"\0\0\0"), "absent operand at the end"),
        (crafted(one_step(0, 2, 1, 0, code=0x96), times=b"\0\0\0"), "absent operand at the end"),
        (crafted(one_step(0, 0, code=0xA0), times=b"\0\0\0"), "opcode 0xa0 is not a step"),
        (crafted(one_step(0, 0, code=0xA1), times=b"\0\0\0"), "opcode 0xa1 is not a step"),
        (crafted(one_step(8, 0, code=0x9F), times=b"\0\0\0"), "cut off"),
        (crafted(one_step(8, 0, 1, 1, code=0x9F), times=b"\0\0\0"), "longer"),
        (crafted(one_step(0x20, 0, 0, 0, code=0x9F), times=b"\0\0\0"), "wrong form"),
        (crafted(one_step(0x20, 0, 0, code=0x9F), entries=[digest(), *map(text, "abcd")], times=b"\0\0\0"), "cut off"),
        (crafted(one_step(0, 1, 1), entries=[digest(), *map(text, "abcd")], times=b"\0\0\0"), "wrong kind"),
        (crafted(one_step(8, 0, *uint_bytes(2**55), code=0x9F), times=b"\0\0\0"), "exit code"),
        (crafted(times=b""), "cut off"),
        (crafted(times=b"\0\0"), "two each"),
        (crafted(times=b"\0\0\0"), "times of 0 steps"),
        (crafted(times=uint_bytes(zigzag(layout.CLOCK_MS_MAX + 1))), "years"),
        (crafted(one_step(0, 0, code=0x9F), times=b"\0" + uint_bytes(2**62) + b"\0"), "outside its bounds"),
        (crafted(one_step(0, 0, code=0x9F), times=b"\0\0" + uint_bytes(2**60)), "outside its bounds"),
        (crafted(one_step(0, 0, code=0x9F), times=b"\0\0\0", sources=b"\0"), "without any"),
        (crafted(one_step(0, 0, code=0x9F), times=b"\0\0\0", sources=b"\1"), "source number -1"),
        (crafted(one_step(0, 0, code=0x9F), times=b"\0\0\0", sources=b"\2\2"), "sources of 2"),
        (crafted(sources=b""), "without any"),
        (crafted(entries=b""), "mode"),
        (crafted(entries=b"\2" + bytes(40)), "mode"),
        (crafted(entries=b"\0" + bytes(20)), "secret"),
        (crafted(entries=strings(b"\0\xff")), "cut off"),
        (crafted(entries=strings(*map(text, "abcd")) + b"\0"), "after the last string"),
        (crafted(entries=[b"\0\1\xff", *map(text, "bcd")]), "UTF-8"),
        (crafted(entries=[b"\0\3\xed\xa0\x80", *map(text, "bcd")]), "UTF-8"),
        (crafted(entries=[b"\3" + bytes(32), *map(text, "bcd")]), "form 3"),
        (crafted(entries=[b"\4" + bytes(32), *map(text, "bcd")]), "form 4"),
        (crafted(entries=[b"\2\4" + bytes(32), *map(text, "bcd")]), "algorithm 4"),
        (crafted(entries=[b"\1" + bytes(32) + uint_bytes(4096), *map(text, "bcd")]), "4,096"),
        (crafted(entries=[text("x" * 4097), *map(text, "bcd")]), "4,097"),
        (crafted(receipts=bytes(96)), "receipts"),
        (crafted(receipts=b"\4" + bytes(96)), "status 4"),
        (with_sections(small_trail(), {layout.TAG_TIMES: None}), "missing"),
        (with_sections(small_trail(), {layout.TAG_SIGNATURE: bytes(95)}), "signature"),
        (small_trail()[:5] + b"\2" + small_trail()[6:], "kind 2"),
        (b"", "PPLS"),
        (b"PPLS", "cut off"),
    ],
)  # fmt: skip
def test_bytes_that_are_not_canonical_are_refused(crafting, reason):
    assert reason in refusal(crafting)


def test_swapped_entries_are_refused():
    sections = sections_of(small_trail())
    content = sections[layout.TAG_STRINGS]
    first, second = text("fix it"), text("make")
    assert first + second in content
    swapped = content.replace(first + second, second + first)
    steps_bytes = sections[layout.TAG_STEPS].replace(b"\x01\x01", b"\x01\x05", 1)
    assert "order of first use" in refusal(
        with_sections(small_trail(), {layout.TAG_STRINGS: swapped, layout.TAG_STEPS: steps_bytes})
    )


def test_limits_are_checked_before_memory_is_taken():
    huge = uint_bytes(layout.STEPS_MAX + 1)
    assert "room" in refusal(crafted(huge))
    assert "room" in refusal(crafted(entries=b"\0" + SECRET + uint_bytes(2**60)))
    assert "room" in refusal(crafted(head=HEAD[:-1] + uint_bytes(2**60)))
    long_step = b"\1\x77" + uint_bytes(layout.STEP_BYTES_MAX + 1) + bytes(layout.STEP_BYTES_MAX + 1)
    assert "513 bytes" in refusal(crafted(long_step))
    many = one_step(0, layout.OPERANDS_MAX + 1, *[2] * (layout.OPERANDS_MAX + 1), code=0x77)
    assert "33 operands" in refusal(crafted(many))
    endless = b"\1\x77\x0e\0\1" + b"\xff" * 12
    assert "10 bytes" in refusal(crafted(endless))
    assert CONTAINER_BYTES_MAX == 1 << 30


def test_a_long_run_of_continuation_bytes_is_refused_at_once():
    run = b"\xff" * 2_000_000
    refusal(crafted(b"\1\x77\x7f\0\x20" + run))
    refusal(crafted(times=run))
    refusal(crafted(one_step(0, 0, code=0x9F), times=b"\0\0\0", sources=run))


def test_unknown_opcode_and_unknown_section_are_carried():
    builder = TrailBuilder(SECRET)
    operands = ("first", None, Signed(-5), 7, sha("x"))
    builder.add_unknown(0xC7, *operands, outcome="failed", note="of tomorrow", at_ms=START_MS)
    data = builder.seal(Header("a", "t"), "success", START_MS, {0x40: b"tomorrow", 0x08: b""})
    reader = TrailReader(data)
    assert reader.extra == {0x08: b"", 0x40: b"tomorrow"}
    (step,) = reader.steps()
    assert step.operands == operands
    assert step == Step(0xC7, operands, "failed", note="of tomorrow")
    assert encode(reader.header, [step], "success", SECRET, extra=reader.extra) == data
    report = verify(data)
    assert report.ok
    assert any(check.verdict == "warning" and "OP_C7" in check.detail for check in report.checks)


def test_later_format_is_told_from_damage():
    later = with_sections(small_trail(), {layout.TAG_HEADER: b"\x03" + sections_of(small_trail())[1][1:]})
    with pytest.raises(NewerFormatError):
        TrailReader(later)
    report = verify(later)
    assert not report.ok
    assert "format 3" in report.summary


def test_extra_sections_cannot_replace_those_of_the_trail():
    with pytest.raises(UsageError, match="extra section"):
        TrailBuilder(SECRET).seal(Header("a", "t"), "success", 0, {layout.TAG_SOURCES: b""})


def test_withheld_values_cannot_be_written():
    for step in (Step(0xAC, (Withheld(bytes(32)),)), Step(0x9F, (), result=Withheld(bytes(32)))):
        with pytest.raises(UsageError, match="withheld"):
            encode(Header("a", "t"), [step], "success", SECRET)


def test_strings_are_read_by_index():
    reader = TrailReader(small_trail())
    assert [reader.string(index) for index in range(3)] == ["fix it", "make", sha("out")]
    for index in (-1, len(reader.strings)):
        with pytest.raises(IndexError):
            reader.string(index)
    long = TextObject(bytes(32), 5000)
    reader = TrailReader(encode(Header("a", "t", title=long), [], "success", SECRET))
    assert list(reader.text_objects()) == [long]


@given(st.binary(max_size=300))
@settings(max_examples=300, deadline=None)
def test_garbage_is_a_format_error(garbage):
    for data in (garbage, b"PPLS\x02\x01" + garbage, sealed(b"PPLS\x02\x01" + garbage + b"\xff\x20" + bytes(32))):
        refusal(data)
        report = verify(data)
        assert not report.ok
        assert report.offset is not None


@given(st.sampled_from([layout.TAG_HEADER, layout.TAG_STRINGS, layout.TAG_STEPS, layout.TAG_TIMES, 5, 6, 7]), st.data())
@settings(max_examples=300, deadline=None)
def test_garbage_in_a_section_is_a_format_error_or_another_trail(tag, data):
    """Sealed again, so that only the section's own reader stands in the way; nothing but the two errors comes out."""
    whole = sections_of(golden_trail())[tag] if tag != layout.TAG_SIGNATURE else bytes(96)
    start = data.draw(st.integers(0, len(whole)))
    content = whole[:start] + data.draw(st.binary(max_size=12)) + whole[data.draw(st.integers(start, len(whole))) :]
    tampered = with_sections(golden_trail(), {tag: content})
    report = verify(tampered)
    if content == whole and tag != layout.TAG_SIGNATURE:
        assert report.ok
    elif tag not in (layout.TAG_TIMES, layout.TAG_SOURCES):
        assert not report.ok
    try:
        reader = TrailReader(tampered)
    except (FormatError, NewerFormatError):
        return
    for step in reader.steps():
        assert step.outcome


def test_digest_sizes_are_checked_when_written():
    with pytest.raises(UsageError, match="digest"):
        encode(Header("a", "t", base=Digest("git-sha1", bytes(32))), [], "success", SECRET)
