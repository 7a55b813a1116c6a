"""Verifying, signing, redacting and proving; every changed byte is found."""

import hashlib
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from periplus.base.encoding.container import KIND_TRAIL, unpack
from periplus.base.errors import DamageError, FormatError, NewerFormatError, NotFoundError, UsageError
from periplus.merkle import root_of, verify_inclusion
from periplus.trail import (
    Digest,
    Header,
    TextObject,
    TrailBuilder,
    TrailReader,
    Withheld,
    encode,
    holds,
    listing,
    sign,
    step_proof,
    verify,
    withhold,
)
from periplus.trail.format import layout
from trail_samples import (
    LONG_TEXT,
    SECRET,
    START_MS,
    golden_trail,
    headers,
    sealed,
    sections_of,
    sha,
    small_trail,
    statuses,
    steps,
    with_sections,
)

KEY = bytes(range(100, 132))
UNSIGNED_TAGS = {layout.TAG_TIMES, layout.TAG_SOURCES}


class Objects:
    """The part of the object store that a verifier uses."""

    def __init__(self, *contents, damaged=()):
        self.contents = {hashlib.sha256(content).digest(): content for content in contents}
        self.damaged = {hashlib.sha256(content).digest() for content in damaged}

    def get(self, digest):
        if digest in self.damaged:
            raise DamageError("bytes changed")
        if digest not in self.contents:
            raise NotFoundError("no such object")
        return self.contents[digest]


def check(report, name):
    (found,) = [one for one in report.checks if one.name == name]
    return found


def never_ok(data):
    """Neither the reader nor the verifier takes ``data``, and both only in the ways that they promise."""
    report = verify(data)
    assert not report.ok
    assert report.offset is not None
    assert 0 <= report.offset <= len(data)
    try:
        reader = TrailReader(data)
    except (FormatError, NewerFormatError):
        return
    for step in reader.steps():
        assert step.outcome


@pytest.mark.parametrize("make", [small_trail, golden_trail])
def test_every_changed_byte_is_found(make):
    data = make()
    for place in range(len(data)):
        for change in (0x01, 0x80, 0xFF):
            changed = bytearray(data)
            changed[place] ^= change
            with pytest.raises(FormatError) as caught:
                TrailReader(bytes(changed))
            assert caught.value.offset is not None
        never_ok(bytes(changed))


@pytest.mark.parametrize("make", [small_trail, golden_trail])
def test_every_truncation_is_found(make):
    data = make()
    for length in range(len(data)):
        with pytest.raises(FormatError) as caught:
            TrailReader(data[:length])
        assert caught.value.offset is not None
        assert caught.value.offset <= length
    never_ok(data[:-1])
    never_ok(data + b"\0")


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes", [(1, 2, 4, 8, 16, 32, 64, 128), pytest.param(range(1, 256), marks=pytest.mark.slow)]
)
def test_every_byte_of_a_small_trail_changed_and_sealed_again(changes):
    """The container's digest is made right, so that the trail's own checks have to find it."""
    data = sign(small_trail(), KEY)
    public = TrailReader(data).signature[:32]
    for place in range(6, len(data) - 34):
        for change in changes:
            changed = sealed(data[:place] + bytes((data[place] ^ change,)) + data[place + 1 :])
            assert not verify(changed, key=public).ok, (place, change)


def test_a_changed_byte_of_a_larger_trail_sealed_again_is_found_but_in_times():
    data = golden_trail()
    places = unpack(data, KIND_TRAIL)
    free = {place for tag in UNSIGNED_TAGS for place in range(*places[tag])}
    for place in range(6, len(data) - 34):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        changed = sealed(bytes(changed))
        if place in free:  # outside the identity: a well-formed other time is another file of the same trail
            verify(changed)
        else:
            never_ok(changed)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_spans_cut_out_doubled_or_zeroed_are_found(data):
    whole = golden_trail()
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, len(whole)))
    piece = data.draw(st.sampled_from([b"", whole[start:end] * 2, bytes(end - start), whole[start:end][::-1]]))
    changed = whole[:start] + piece + whole[end:]
    if changed != whole:
        never_ok(changed)


def test_a_report_says_what_was_looked_at():
    report = verify(golden_trail())
    assert report.ok
    assert report.digest == TrailReader(golden_trail()).digest
    assert report.offset is None
    assert report.summary == "sound: 35 steps, status partial, not signed"
    assert [(one.name, one.verdict) for one in report.checks] == [
        ("framing", "ok"),
        ("strings", "ok"),
        ("steps", "ok"),
        ("header", "ok"),
        ("times", "ok"),
        ("tree", "ok"),
        ("receipts", "ok"),
        ("digest", "ok"),
        ("signature", "skipped"),
        ("parents", "skipped"),
        ("objects", "skipped"),
    ]


@pytest.mark.parametrize(("at", "name"), [(1, "tree"), (33, "receipts"), (65, "digest")])
def test_a_wrong_hash_is_named(at, name):
    receipts = bytearray(sections_of(small_trail())[layout.TAG_RECEIPTS])
    receipts[at] ^= 1
    data = with_sections(small_trail(), {layout.TAG_RECEIPTS: receipts})
    report = verify(data)
    assert [one.name for one in report.checks if one.verdict == "error"] == [name]
    assert report.offset == unpack(data, KIND_TRAIL)[layout.TAG_RECEIPTS][0] + at
    assert name in report.summary


@pytest.mark.parametrize(
    ("tag", "content", "name"),
    [
        (layout.TAG_STRINGS, b"\7", "strings"),
        (layout.TAG_STEPS, b"\7", "steps"),
        (layout.TAG_HEADER, b"\2\7", "header"),
        (layout.TAG_TIMES, b"\0", "times"),
        (layout.TAG_SOURCES, b"\0\0\0", "times"),
        (layout.TAG_RECEIPTS, b"\7", "receipts"),
        (layout.TAG_SIGNATURE, b"\7", "signature"),
    ],
)
def test_a_trail_that_does_not_parse_names_the_section(tag, content, name):
    report = verify(with_sections(small_trail(), {tag: content}))
    assert [one.name for one in report.checks if one.verdict == "error"] == [name]
    assert report.digest == b""
    assert "at byte" in report.summary


# Signatures


def test_a_signature_holds_for_its_key_alone():
    data = sign(golden_trail(), KEY)
    public = TrailReader(data).signature[:32]
    assert verify(data).ok
    assert check(verify(data, key=public), "signature").verdict == "ok"
    assert check(verify(data, key=bytes(32)), "signature").verdict == "error"
    assert check(verify(golden_trail(), key=public), "signature").verdict == "error"
    assert sign(data, KEY) == data
    assert sign(sign(golden_trail(), bytes(32)), KEY) == data
    assert TrailReader(data).digest == TrailReader(golden_trail()).digest


def test_a_signature_covers_times_and_sources():
    data = sign(golden_trail(), KEY)
    for tag in (layout.TAG_TIMES, layout.TAG_SOURCES):
        content = bytearray(sections_of(data)[tag])
        content[-1] ^= 2
        for unsigned in (False, True):
            changed = with_sections(data, {tag: content, **({layout.TAG_SIGNATURE: None} if unsigned else {})})
            assert verify(changed).ok == unsigned
    without = with_sections(data, {layout.TAG_SOURCES: None})
    assert check(verify(without), "signature").verdict == "error"


def test_signing_refuses_a_wrong_trail_and_a_wrong_key():
    with pytest.raises(UsageError, match="32 bytes"):
        sign(golden_trail(), b"short")
    receipts = bytearray(sections_of(small_trail())[layout.TAG_RECEIPTS])
    receipts[70] ^= 1
    with pytest.raises(FormatError, match="digest"):
        sign(with_sections(small_trail(), {layout.TAG_RECEIPTS: receipts}), KEY)
    with pytest.raises(FormatError):
        sign(b"nothing", KEY)


# Store and parents


def test_objects_are_looked_for_in_the_store():
    data = golden_trail()
    sound = verify(data, store=Objects(LONG_TEXT, b"auth"))
    assert check(sound, "objects").verdict == "ok"
    assert check(sound, "objects").detail.startswith("2 objects sound")
    assert check(verify(data, store=Objects(b"auth")), "objects").verdict == "error"
    damaged = verify(data, store=Objects(LONG_TEXT, damaged=[b"auth"]))
    assert check(damaged, "objects").verdict == "error"
    lying = Objects(LONG_TEXT)
    lying.contents[hashlib.sha256(LONG_TEXT).digest()] = b"another"
    assert not verify(data, store=lying).ok


def test_a_text_object_of_another_length_is_found():
    text = TextObject(hashlib.sha256(LONG_TEXT).digest(), len(LONG_TEXT) - 1)
    builder = TrailBuilder(SECRET)
    builder.add("SAY", text)
    assert not verify(builder.finish(Header("a", "t")), store=Objects(LONG_TEXT)).ok


def test_parents_are_the_trails_that_their_digests_say():
    parent = small_trail()
    digest = TrailReader(parent).digest
    child = encode(Header("a", "t", parents=(Digest("sha256", digest),)), [], "success", SECRET)
    other = encode(Header("a", "t"), [], "success", SECRET)

    def verdict(data):
        return check(verify(child, parent_of=lambda wanted: data if wanted == digest else None), "parents").verdict

    assert verdict(parent) == "ok"
    assert verdict(None) == "warning"
    assert verdict(other) == "error"
    assert verdict(b"damaged") == "error"


def test_a_parent_that_is_no_trail_is_refused():
    with pytest.raises(UsageError, match="parents"):
        encode(Header("a", "t", parents=(Digest("git-sha1", bytes(20)),)), [], "success", SECRET)
    based = sections_of(encode(Header("a", "a", "a", "a", base=Digest("git-sha256", bytes(32))), [], "success", SECRET))
    header = based[layout.TAG_HEADER]
    assert header == b"\2\0\0\0\0\1\1\0"
    with pytest.raises(FormatError, match="parent"):
        TrailReader(with_sections(small_trail(), {5: None, **based, layout.TAG_HEADER: b"\2\0\0\0\0\0\1\1"}))


# Redaction


@pytest.mark.slow
@given(headers, st.lists(steps(), max_size=6), statuses, st.data())
@settings(max_examples=80, deadline=None)
def test_redaction_keeps_the_digest_and_takes_the_strings(header, trail_steps, status, data):
    whole = encode(header, trail_steps, status, SECRET)
    before = TrailReader(whole)
    chosen = data.draw(st.sets(st.integers(0, len(before.strings) - 1)))
    redacted = withhold(whole, lambda index, _: index in chosen)
    report = verify(redacted)
    assert report.ok, report
    assert report.digest == before.digest
    after = TrailReader(redacted)
    assert after.is_redacted
    assert after.secret is None
    assert after.step_count == before.step_count
    for index in range(len(before.strings)):
        value = after.string(index)
        assert isinstance(value, Withheld) if index in chosen else value == before.string(index)
    assert withhold(redacted, lambda *_: False) == redacted
    everything = withhold(whole, lambda *_: True)
    assert withhold(redacted, lambda *_: True) == everything
    for form in ("text", "verbose", "compact", "json"):
        assert len(list(listing(after, form))) >= len(trail_steps)


def test_what_is_withheld_is_not_in_the_file():
    signed = sign(with_sections(golden_trail(), {0x40: b"unknown: hash_password"}), KEY)
    redacted = withhold(signed, lambda _, value: isinstance(value, str) and "hash_password" in value)
    assert b"hash_password" in signed
    assert b"hash_password" not in redacted
    assert SECRET not in redacted
    assert not TrailReader(redacted).extra
    assert check(verify(redacted), "signature").verdict == "ok"
    assert "redacted" in verify(redacted).summary


def test_every_changed_byte_of_a_redacted_trail_is_found():
    data = withhold(small_trail(), lambda index, _: index in (1, 3))
    public = unpack(data, KIND_TRAIL)
    free = range(*public[layout.TAG_TIMES])
    for place in range(6, len(data) - 34):
        changed = bytearray(data)
        changed[place] ^= 1
        if place not in free:
            never_ok(sealed(bytes(changed)))
        never_ok(bytes(changed))


# One step


def test_each_step_can_be_proved_alone():
    reader = TrailReader(golden_trail())
    for index, step in enumerate(reader.steps()):
        proof = step_proof(reader, index)
        assert holds(proof)
        assert proof.root == reader.stored_identity.root
        assert verify_inclusion(proof.leaf, index, reader.step_count, proof.path, proof.root)
        texts = [value.encode() for value in step.operands if isinstance(value, str)]
        assert [opening.content for opening in proof.openings][: len(texts)] == texts or step.result
        assert not holds(proof._replace(step_index=(index + 1) % reader.step_count))
        assert not holds(proof._replace(openings=(*proof.openings, None)))
        for opening in proof.openings:
            bare = [one._replace(salt=b"") if one is opening else one for one in proof.openings]
            assert not holds(proof._replace(openings=tuple(bare)))
            forged = [one._replace(content=one.content + b"!") if one is opening else one for one in proof.openings]
            assert not holds(proof._replace(openings=tuple(forged)))
    for index in (-1, reader.step_count):
        with pytest.raises(NotFoundError):
            step_proof(reader, index)


def test_a_step_of_a_redacted_trail_opens_what_is_revealed():
    whole = golden_trail()
    redacted = TrailReader(withhold(whole, lambda _, value: value == "md5("))
    proof = step_proof(redacted, 7)
    assert holds(proof)
    assert [opening and opening.content for opening in proof.openings] == [b"src/auth.py", None, b"scrypt("]
    assert proof._replace(openings=()) == step_proof(TrailReader(whole), 7)._replace(openings=())


@given(st.binary(max_size=200))
def test_a_forged_leaf_input_does_not_hold(garbage):
    proof = step_proof(TrailReader(small_trail()), 1)
    for forged in (garbage, proof.leaf_input[:8] + garbage):
        if forged != proof.leaf_input:
            assert not holds(proof._replace(leaf_input=forged))


@pytest.mark.parametrize("count", [0, 1, 2, 4095, 4096, 4097, 3 * 4096 + 5])
def test_the_tree_in_parts_is_the_tree_of_all_leaves(count):
    from periplus.trail.format.identity import step_leaves

    builder = TrailBuilder(SECRET)
    for number in range(count):
        builder.add("LEVEL_UP", number)
    reader = TrailReader(builder.finish(Header("a", "t")))
    leaves = list(step_leaves(reader.to_bytes(), *reader.span(layout.TAG_STEPS), reader.commitments()))
    assert len(leaves) == count
    assert reader.stored_identity.root == root_of(leaves)


@pytest.mark.slow
@pytest.mark.parametrize("count", [20_000, pytest.param(80_000, marks=pytest.mark.slow)])
def test_memory_of_verifying_and_listing_does_not_grow_with_the_steps(count):
    builder = TrailBuilder(SECRET)
    for number in range(count):
        builder.add(
            "SEARCH_CODE", "needle", f"src/{number % 50}.py", at_ms=START_MS + number * 10, duration_ms=3, source=1
        )
    builder.add("FILE_WRITE", "src/0.py", sha("last"))
    data = builder.finish(Header("a", "t"))
    del builder
    tracemalloc.start()
    try:
        assert verify(data).ok
        reader = TrailReader(data)
        for form in ("text", "verbose", "compact", "json"):
            assert sum(len(line) for line in listing(reader, form)) > count
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000, peak
