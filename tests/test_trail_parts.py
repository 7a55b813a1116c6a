"""Concatenation: flat, associative, in order; each part stays the trail that it was."""

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli_support import Shell, claude_session
from periplus.base.encoding.container import KIND_TRAILS, pack, unpack
from periplus.base.encoding.varint import uint_bytes
from periplus.base.errors import FormatError, NewerFormatError, UsageError
from periplus.trail import (
    Header,
    Parts,
    TrailReader,
    concat,
    encode,
    is_concatenation,
    listing,
    open_parts,
    sign,
    verify,
    withhold,
)
from periplus.trail.format import layout
from trail_samples import (
    SECRET,
    golden_trail,
    headers,
    sealed,
    sections_of,
    small_trail,
    statuses,
    steps,
    with_sections,
)

pytestmark = pytest.mark.quick

KEY = bytes(range(40, 72))


def other_trail():
    return encode(Header("b", "u"), list(TrailReader(small_trail()).steps())[:1], "error", SECRET)


def parts_sections(data):
    return {tag: data[start:end] for tag, (start, end) in unpack(data, KIND_TRAILS).items()}


def resealed(data, changed):
    return pack(KIND_TRAILS, {**parts_sections(data), **changed})


def section_of(*files):
    return uint_bytes(len(files)) + b"".join(uint_bytes(len(file)) + file for file in files)


def test_each_part_keeps_what_it_was():
    redacted = withhold(golden_trail(), lambda index, _: index % 2 == 0)
    files = [small_trail(), sign(golden_trail(), KEY), redacted, other_trail()]
    data = concat(files)
    assert is_concatenation(data)
    assert [reader.to_bytes() for reader in open_parts(data)] == files
    assert [reader.status for reader in open_parts(data)] == ["success", "partial", "partial", "error"]
    assert Parts(data).files() == files
    assert [data[Parts(data).offset(at) :][: len(file)] for at, file in enumerate(files)] == files
    (plain,) = open_parts(small_trail())
    assert plain.to_bytes() == small_trail()
    assert not is_concatenation(small_trail())


def test_the_digest_is_the_one_of_the_documentation():
    files = [small_trail(), other_trail(), golden_trail()]
    digests = b"".join(TrailReader(file).digest for file in files)
    assert Parts(concat(files)).digest == hashlib.sha256(b"PPLS/trail-parts/2\0\3" + digests).digest()


@pytest.mark.slow
@given(st.lists(st.tuples(headers, st.lists(steps(), max_size=3), statuses), min_size=1, max_size=5), st.data())
@settings(max_examples=60, deadline=None)
def test_it_is_flat_and_associative_and_order_matters(trails, data):
    files = [encode(*trail, SECRET) for trail in trails]
    whole = concat(files)
    cut = data.draw(st.integers(0, len(files)))
    groups = [group for group in (files[:cut], files[cut:]) if group]
    assert concat([concat(group) for group in groups]) == whole
    assert concat([whole]) == whole
    assert verify(whole).ok
    assert verify(whole).digest == Parts(whole).digest
    backwards = concat(files[::-1])
    digests = [TrailReader(file).digest for file in files]
    assert (Parts(backwards).digest == Parts(whole).digest) == (digests == digests[::-1])
    for form in ("text", "json"):
        assert sum(len(list(listing(reader, form))) for reader in open_parts(whole)) >= len(files)


def test_nothing_and_what_is_no_trail_are_refused():
    with pytest.raises(UsageError, match="nothing"):
        concat([])
    with pytest.raises(FormatError):
        concat([small_trail(), b"no trail"])
    with pytest.raises(UsageError, match="at most 4,096"):
        concat([small_trail()] * 4097)


def test_a_signature_covers_the_order_the_digests_and_the_times_of_the_parts():
    data = sign(concat([small_trail(), golden_trail()]), KEY)
    public = Parts(data).signature[:32]
    assert verify(data, key=public).ok
    assert not verify(concat([small_trail(), golden_trail()]), key=public).ok
    assert not verify(data, key=bytes(32)).ok
    assert Parts(data).digest == Parts(concat([data])).digest
    assert Parts(concat([data])).signature is None, "it spoke of another file"
    swapped = concat([golden_trail(), small_trail()])
    forged = resealed(swapped, {layout.TAG_SIGNATURE: Parts(data).signature})
    assert [check.name for check in verify(forged).checks if check.verdict == "error"] == ["signature"]
    times = sections_of(golden_trail())
    content = bytearray(times[layout.TAG_TIMES])
    content[-1] ^= 2
    other = with_sections(golden_trail(), {layout.TAG_TIMES: content})
    assert TrailReader(other).digest == TrailReader(golden_trail()).digest
    forged = resealed(data, {layout.TAG_PARTS: section_of(small_trail(), other)})
    assert "signature" in verify(forged).summary
    assert not verify(forged).ok


def test_a_redacted_concatenation_keeps_digest_and_signature():
    data = sign(concat([small_trail(), golden_trail(), small_trail()]), KEY)
    redacted = withhold(data, lambda _, value: value == "fix it")
    assert b"fix it" in data
    assert b"fix it" not in redacted
    assert Parts(redacted).digest == Parts(data).digest
    assert verify(redacted, key=Parts(data).signature[:32]).ok
    assert [reader.is_redacted for reader in open_parts(redacted)] == [True, True, True]
    with pytest.raises(UsageError, match="other trails"):
        Parts(data).with_files([golden_trail()])


def test_a_wrong_part_is_named():
    receipts = bytearray(sections_of(small_trail())[layout.TAG_RECEIPTS])
    receipts[40] ^= 1
    wrong = with_sections(small_trail(), {layout.TAG_RECEIPTS: receipts})
    data = concat([golden_trail(), wrong])
    report = verify(data)
    assert [check.name for check in report.checks if check.verdict == "error"] == ["part 2"]
    assert report.offset == Parts(data).offset(1) + unpack(wrong, 1)[layout.TAG_RECEIPTS][0] + 33
    assert "part 2" in report.summary
    with pytest.raises(FormatError, match="does not match its digest"):
        sign(data, KEY)


def test_what_is_in_the_place_of_a_part_must_be_a_trail():
    whole = concat([small_trail(), other_trail()])
    for inner in (b"", b"PPLS", whole, small_trail()[:-1]):
        data = resealed(whole, {layout.TAG_PARTS: section_of(small_trail(), inner)})
        with pytest.raises(FormatError, match="part 2") as caught:
            open_parts(data)
        assert caught.value.offset >= Parts(data).offset(1)
        assert next(check.name for check in verify(data).checks if check.verdict == "error") == "part 2"
        assert verify(data).digest == b""


@pytest.mark.parametrize(
    ("section", "wrong"),
    [
        (b"", "cut off"),
        (b"\0", "nothing"),
        (b"\xff\xff\xff\x7f", "announced"),
        (b"\x02\x01", "announced"),
        (b"\x01\x7fabc", "part 1 is cut off"),
        (b"\x80\x00", "shortest form"),
        (section_of(small_trail()) + b"\0", "after the last part"),
    ],
)
def test_a_section_of_parts_that_is_none(section, wrong):
    data = resealed(concat([small_trail()]), {layout.TAG_PARTS: section})
    with pytest.raises(FormatError, match=wrong) as caught:
        open_parts(data)
    assert caught.value.offset is not None
    assert not verify(data).ok
    assert verify(data).offset is not None


def test_sections_of_other_sizes_and_missing_ones():
    whole = concat([small_trail()])
    for changed in ({layout.TAG_DIGEST: b"short"}, {layout.TAG_SIGNATURE: bytes(95)}):
        with pytest.raises(FormatError, match="size"):
            Parts(resealed(whole, changed))
    for tag in (layout.TAG_DIGEST, layout.TAG_PARTS):
        sections = parts_sections(whole)
        del sections[tag]
        with pytest.raises(FormatError, match="missing"):
            Parts(pack(KIND_TRAILS, sections))
    lying = resealed(whole, {layout.TAG_DIGEST: bytes(32)})
    with pytest.raises(FormatError, match="digest"):
        open_parts(lying)
    assert [check.name for check in verify(lying).checks if check.verdict == "error"] == ["digest"]
    extra = resealed(whole, {0x40: b"later"})
    assert verify(extra).ok
    assert Parts(extra).extra == {0x40: b"later"}
    assert Parts(sign(extra, KEY)).extra == {0x40: b"later"}
    assert not Parts(withhold(extra, lambda *_: False)).extra
    newer = sealed(whole[:4] + b"\3" + whole[5:])
    with pytest.raises(NewerFormatError):
        Parts(newer)
    assert not verify(newer).ok


def test_every_changed_byte_and_every_truncation_is_found():
    data = sign(concat([small_trail(), withhold(small_trail(), lambda index, _: index == 1)]), KEY)
    public = Parts(data).signature[:32]
    for place in range(len(data)):
        changed = data[:place] + bytes((data[place] ^ 1 << place % 8,)) + data[place + 1 :]
        for one in (changed, data[:place]):
            with pytest.raises(FormatError) as caught:
                open_parts(one)
            assert 0 <= caught.value.offset <= len(one)
            assert not verify(one).ok
        if 6 <= place < len(data) - 34:
            assert not verify(sealed(changed), key=public).ok, place


# The command line


@pytest.fixture
def two(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    sh = Shell(tmp_path / "project", tmp_path / "home")
    sh("init")
    for name, steps_count in (("one", 2), ("two", 3)):
        session = claude_session(sh.folder / f"{name}.jsonl", steps=steps_count, session=f"5e55{name}", prompt=name)
        sh("trail", "import", session)
    return sh


def test_concat_on_the_command_line(two):
    cards = two.json("trail", "list").trails
    names = [card.id for card in cards]
    done = two("trail", "concat", *names, "--out", "both.trail")
    assert done.lines[1].split()[:2] == ["part", "1"]
    data = (two.folder / "both.trail").read_bytes()
    assert [reader.digest.hex() for reader in open_parts(data)] == [card.value["digest"] for card in cards]
    result = two.json("trail", "concat", "both.trail", names[0], "--out", "three.trail", "--sign")
    assert (result.signed, len(result.parts)) == (True, 3)
    key = two.json("head").key
    assert "verified" in two("trail", "verify", "three.trail", "--key", key).out
    two("trail", "verify", "both.trail", "--key", key, code=3)
    shown = two("trail", "show", "three.trail").lines
    assert [line for line in shown if line.startswith("; part")] == [f"; part {at} of 3" for at in (1, 2, 3)]
    assert two("trail", "show", "three.trail", "--part", "2").lines == two("trail", "show", names[1]).lines
    rows = two("trail", "show", "three.trail", "--json").out
    assert rows.count('"kind":"trail"') == 3
    two.fails("trail", "show", "three.trail", "--part", "4", code=1, wrong="it has 3")
    two.fails("trail", "show", "three.trail", "--at", "1", code=2, wrong="3 parts")
    assert two("trail", "show", "three.trail", "--at", "1", "--part", "2").lines


def test_concat_of_what_is_no_trail_changes_nothing(two):
    (two.folder / "both.trail").write_bytes(b"kept")
    two.fails("trail", "concat", "one.jsonl", "--out", "both.trail", code=2, wrong="not a trail of Periplus")
    two.fails("trail", "concat", "nowhere", "--out", "both.trail", code=1, wrong="nowhere")
    two.fails("trail", "concat", "one.jsonl", code=2, wrong="--out")
    (two.folder / "cut.trail").write_bytes(small_trail()[:-40])
    two.fails("trail", "concat", "cut.trail", "--out", "both.trail", code=3, wrong="cut.trail")
    assert (two.folder / "both.trail").read_bytes() == b"kept"
    two.fails("trail", "concat", "cut.trail", "--out", "no/where.trail", code=2, wrong="no folder")


def test_sign_on_the_command_line(two):
    card = two.json("trail", "list").trails[0]
    done = two.json("trail", "sign", card.id, "--out", "signed.trail")
    assert done.digest == card.value["digest"]
    assert "sound, by the key" in two("trail", "verify", "signed.trail", "--key", done.key).out
    two("trail", "verify", card.id, "--key", done.key, code=3)
    assert done.key in two("trail", "sign", "signed.trail", "--out", "again.trail").lines[-1]
    assert (two.folder / "again.trail").read_bytes() == (two.folder / "signed.trail").read_bytes()
    receipts = bytearray(sections_of(small_trail())[layout.TAG_RECEIPTS])
    receipts[40] ^= 1
    (two.folder / "wrong.trail").write_bytes(with_sections(small_trail(), {layout.TAG_RECEIPTS: receipts}))
    for command in (["sign", "wrong.trail"], ["concat", "wrong.trail", "--sign"]):
        two.fails("trail", *command, "--out", "x.trail", code=3, wrong="does not match its digest")
    two.fails("trail", "sign", "one.jsonl", "--out", "x.trail", code=2, wrong="not a trail")
    assert not (two.folder / "x.trail").exists()


def test_a_store_that_has_no_records_yet_can_sign(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    sh = Shell(tmp_path / "project", tmp_path / "home")
    sh("init")
    (sh.folder / "one.trail").write_bytes(small_trail())
    done = sh.json("trail", "sign", "one.trail", "--out", "signed.trail")
    assert verify((sh.folder / "signed.trail").read_bytes(), key=bytes.fromhex(done.key)).ok
    sh.fails("trail", "sign", "one.trail", "--out", "x", "--store", "nowhere", code=2)
