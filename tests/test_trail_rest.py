"""Trails as the object store keeps them: taken apart and put together, in hostile hands, and in a store's folder."""

import hashlib
import lzma
import os
import random
import subprocess
import sys
import zlib
from binascii import crc_hqx
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import periplus.base
from cli_support import Shell, claude_session
from periplus.base import lzma_preset
from periplus.base.encoding.container import KIND_CONTEXT, KIND_TRAIL, pack, unpack
from periplus.base.encoding.varint import uint_bytes
from periplus.base.errors import DamageError, EnvironmentFailure, FormatError
from periplus.base.files import Files
from periplus.memory.entities.trail_packing import TRAILS_AT_REST
from periplus.objects import ObjectStore
from periplus.trail import Header, TrailBuilder, TrailReader, concat, encode, salvage, sign, verify
from periplus.trail.columns import packed_trail
from periplus.trail.columns.column_writer import ColumnWriter
from support import PEAK, Stop, StoppingFiles
from trail_samples import (
    SECRET,
    START_MS,
    golden_trail,
    headers,
    sections_of,
    small_trail,
    statuses,
    steps,
    with_sections,
)

GOLDEN = Path(__file__).parent / "golden"
TEXT_LENGTH = 48143
TEXT_SHA256 = "4e499134cde26c7abb5ae97f68c5783b31197e955f24879fb4272a61158a2955"
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(periplus.base.__file__))))


def long_trail(count, text="step {} of the many, {}"):
    builder = TrailBuilder(SECRET)
    chosen = random.Random(5)
    for number in range(count):
        words = text.format(number, chosen.randrange(10**9))
        builder.add("COMMAND_RUN", words, exit_code=number % 3, at_ms=START_MS + 700 * number, source=number + 1)
    return builder.finish(Header("agent", "long", tool_version="0.1.0"))


def sealed(form, body):
    """A file of this form whose checksum is right."""
    return bytes((form,)) + crc_hqx(body, form ^ len(body) & 0xFFFF).to_bytes(2, "big") + body


def filed(columns, raw, length, form=1):
    stream = lzma_preset.pack_with_preset(columns) if form == 1 else lzma_preset.pack_alone(columns)
    sizes = uint_bytes(length) + uint_bytes(len(columns)) + uint_bytes(len(stream))
    return sealed(form, sizes + raw[:32] + stream + raw[32:])


# Taken apart and put together


@pytest.mark.slow
@given(headers, st.lists(steps(), max_size=12), statuses, st.binary(min_size=32, max_size=32))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_every_trail_is_given_back(header, trail_steps, status, secret):
    data = encode(header, trail_steps, status, secret)
    assert packed_trail.unpack(packed_trail.pack(data)) == data


@pytest.mark.parametrize("name", ["primed-v1.t", "alone-v1.t"])
def test_golden_files_are_read(name):
    assert (
        packed_trail.unpack((GOLDEN / "rest" / name).read_bytes())
        == (GOLDEN / "trail-v2.bin").read_bytes()
        == golden_trail()
    )


def test_the_text_known_before_is_a_promise():
    with open(os.path.join(os.path.dirname(lzma_preset.__file__), "primed.lzma"), "rb") as file:
        text = lzma.decompress(file.read(), lzma.FORMAT_ALONE)
    assert (len(text), hashlib.sha256(text).hexdigest()) == (TEXT_LENGTH, TEXT_SHA256)


def test_what_is_packed_is_small():
    for data, most in ((golden_trail(), 0.60), (small_trail(), 0.50), (long_trail(300), 0.16)):
        assert len(packed_trail.pack(data)) < most * len(data)
        assert len(packed_trail.pack(data)) < len(zlib.compress(data, 9))


def test_signed_long_and_lying_trails_keep_what_cannot_be_computed():
    signed = sign(golden_trail(), b"k" * 32)
    many = long_trail(1025)
    receipts = sections_of(small_trail())[6]
    lying = with_sections(small_trail(), {6: receipts[:-1] + bytes((receipts[-1] ^ 1,))})
    assert not verify(lying).ok
    for data in (signed, many, lying, long_trail(4000)):
        assert packed_trail.unpack(packed_trail.pack(data)) == data
    assert len(packed_trail.pack(lying)) > len(packed_trail.pack(small_trail())) + 90


def test_a_long_trail_is_packed_alone():
    assert [packed_trail.pack(long_trail(count))[0] for count in (300, 6000)] == [1, 2]


def test_what_is_no_whole_trail_of_this_version_is_left_to_others():
    trail = golden_trail()
    for data in (
        b"",
        b"PPLS",
        trail[:-1],
        trail[:-1] + bytes((trail[-1] ^ 1,)),
        redacted(),
        concat([trail, small_trail()]),
        pack(KIND_CONTEXT, {1: b"atoms"}),
        with_sections(trail, {9: b"of a newer version"}),
        with_sections(trail, {1: b"\x03" + sections_of(trail)[1][1:]}),
        b"a text of some length, that is no trail at all" * 100,
    ):
        assert packed_trail.pack(data) is None


def redacted():
    return (GOLDEN / "trails" / "redacted.bin").read_bytes()


def test_a_trail_beyond_the_limit_is_left_to_others():
    huge = pack(KIND_TRAIL, {1: bytes(packed_trail.RESTED_BYTES_MAX)})
    assert packed_trail.pack(huge) is None
    assert TRAILS_AT_REST.bytes_max == packed_trail.RESTED_BYTES_MAX


# Damaged and hostile files


def test_every_cut_and_every_changed_byte_is_found():
    for data in (golden_trail(), small_trail()):
        packed = packed_trail.pack(data)
        for at in range(len(packed)):
            for value in (1, 0x80, 0xFF):
                with pytest.raises(FormatError):
                    packed_trail.unpack(packed[:at] + bytes((packed[at] ^ value,)) + packed[at + 1 :])
            with pytest.raises(FormatError):
                packed_trail.unpack(packed[:at])
        for more in (b"\0", b"\xff" * 9, packed):
            with pytest.raises(FormatError):
                packed_trail.unpack(packed + more)


@pytest.mark.slow
@given(st.data())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_hostile_columns_give_a_trail_or_the_one_error(data):
    columns, raw = map(bytearray, ColumnWriter(golden_trail() if data.draw(st.booleans()) else small_trail()).columns())
    for part in (columns, raw):
        for _ in range(data.draw(st.integers(0, 4))):
            at = data.draw(st.integers(0, len(part) - 1)) if part else 0
            part[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    length = data.draw(st.sampled_from([len(golden_trail()), len(small_trail()), 200, 1 << 22]))
    try:
        found = packed_trail.unpack(
            filed(bytes(columns), bytes(raw), max(length, len(columns)), data.draw(st.sampled_from([1, 2])))
        )
    except FormatError:
        return
    assert unpack(found, KIND_TRAIL)


@given(st.binary(max_size=300), st.sampled_from([0, 1, 2, 3]))
@settings(max_examples=200, deadline=None)
def test_any_bytes_give_a_trail_or_the_one_error(body, form):
    with pytest.raises(FormatError):
        packed_trail.unpack(sealed(form, body))
    assert isinstance(packed_trail.readable_part(sealed(form, body)), bytes)


def test_steps_that_grow_are_stopped():
    shape = bytes((0xA4, 0, 32)) + b"\x00" * 32  # thirty-five bytes a step out of one
    columns = b"\0\0" + uint_bytes(100_000) + b"\0" + shape + bytes(99_999) + bytes(200_000)
    with pytest.raises(FormatError, match="more steps than the trail has room for"):
        packed_trail.unpack(filed(columns, bytes(32), len(columns)))


@pytest.mark.slow
def test_sizes_are_checked_before_memory_is_taken(tmp_path):
    zeros = bytes(1 << 20)
    row = {"id": lzma.FILTER_LZMA1, "preset": 2, "lc": 3, "lp": 0, "pb": 0, "dict_size": 1 << 22}
    packer = lzma.LZMACompressor(lzma.FORMAT_ALONE, filters=[row])
    bomb = packer.compress(zeros)[13:] + b"".join(packer.compress(zeros) for _ in range(511)) + packer.flush()
    for name, length in (("told", 512 << 20), ("untold", 8 << 20)):
        (tmp_path / name).write_bytes(sealed(2, uint_bytes(length) * 2 + uint_bytes(len(bomb)) + bytes(32) + bomb))
    script = """
import sys
from periplus.base.errors import FormatError
from periplus.trail.columns.packed_trail import unpack
before = peak_bytes()
for path in sys.argv[1:]:
    try:
        unpack(open(path, "rb").read())
    except FormatError as error:
        print(type(error).__name__)
assert peak_bytes() - before < 64 << 20, peak_bytes() - before
"""
    ran = subprocess.run(
        [sys.executable, "-c", PEAK + script, str(tmp_path / "told"), str(tmp_path / "untold")],
        env={**os.environ, "PYTHONPATH": SOURCE}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ran.stdout, ran.stderr) == ("FormatError\nFormatError\n", "")


def test_packing_takes_memory_by_what_is_packed():
    """A window of 4 MiB has 8 MB of tables, which 200 KB touch all over."""
    script = """
import lzma, random
from periplus.base.lzma_preset import pack_alone, unpack_alone
data = random.Random(1).randbytes(200_000)
before = peak_bytes()
packed = pack_alone(data)
assert peak_bytes() - before < 5_000_000, peak_bytes() - before
assert unpack_alone(packed, len(data)) == data
"""
    ran = subprocess.run(
        [sys.executable, "-c", PEAK + script], env={**os.environ, "PYTHONPATH": SOURCE}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.stderr == ""


@pytest.mark.parametrize("length", [1, 40_000, 1 << 20, (1 << 20) + 1, (1 << 22) + 1])
def test_whatever_its_length_what_is_packed_alone_is_given_back(length):
    data = (random.Random(length).randbytes(1 + length // 2) * 2)[:length]
    packed = lzma_preset.pack_alone(data)
    assert lzma_preset.unpack_alone(packed, length) == data


def test_what_is_left_of_a_damaged_file_has_its_steps():
    data = long_trail(200)
    packed = packed_trail.pack(data)
    for damaged in (packed[: len(packed) * 9 // 10], packed[:-200] + bytes(200), packed[:-1]):
        saved = salvage(packed_trail.readable_part(damaged))
        kept = TrailReader(saved.data)
        assert verify(saved.data).ok
        assert 100 < kept.step_count <= 201
        assert [step.operands for step, _ in zip(kept.steps(), range(100), strict=False)] == [
            step.operands for step, _ in zip(TrailReader(data).steps(), range(100), strict=False)
        ]
    assert packed_trail.readable_part(packed) == data or verify(salvage(packed_trail.readable_part(packed)).data).ok
    assert packed_trail.readable_part(b"") == packed_trail.readable_part(packed[:20]) == b""


# In a folder of objects


def store_in(folder, files=None):
    return ObjectStore(str(folder), files or Files(), packing=TRAILS_AT_REST)


def names_in(folder):
    return sorted(path.relative_to(folder).as_posix() for path in Path(folder).rglob("*") if path.is_file())


def test_a_trail_lies_packed_and_all_else_as_before(tmp_path):
    store = store_in(tmp_path)
    text = b"the same line again and again\n" * 100
    digests = [store.put(data) for data in (golden_trail(), text, b"short", redacted())]
    assert [os.path.splitext(store.path_of(digest))[1] for digest in digests] == [".t", ".z", "", ""]
    assert list(store.digests()) == sorted(digests)
    trail = digests[0]
    assert list(store.digests_like(trail.hex()[:6])) == [trail]
    assert store.get(trail) == store.remains(trail) == golden_trail()
    assert store.head(trail, 6) == golden_trail()[:6]
    assert (store.has(trail), store.check(trail)) == (True, None)
    assert store.size_on_disk() == sum((tmp_path / name).stat().st_size for name in names_in(tmp_path))
    before = os.stat(store.path_of(trail))
    assert store.put(golden_trail()) == trail
    store.settle(digests)
    assert os.stat(store.path_of(trail)).st_ino == before.st_ino
    store.rewrite(trail)
    assert (store.check(trail), store.paths_of(trail)) == (None, [store.path_of(trail)])
    assert store.remove(trail)
    assert not store.has(trail)
    assert not store.remove(trail)


def test_a_trail_that_an_older_version_wrote_stays_as_it_is(tmp_path):
    digest = ObjectStore(str(tmp_path), Files()).put(golden_trail())
    store = store_in(tmp_path)
    names = names_in(tmp_path)
    assert names[0].endswith(".z")
    assert store.get(store.put(golden_trail())) == golden_trail()
    assert (names_in(tmp_path), store.check(digest)) == (names, None)


@pytest.mark.parametrize("damage", ["cut", "changed", "emptied", "longer", "folder"])
def test_a_damaged_file_is_told_and_healed(tmp_path, damage):
    store = store_in(tmp_path)
    digest = store.put(golden_trail())
    path = Path(store.path_of(digest))
    whole = path.read_bytes()
    path.chmod(0o644)
    if damage == "folder":
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes(
            {"cut": whole[:-3], "changed": whole[:99] + b"?" + whole[100:], "emptied": b"", "longer": whole + b"\0"}[
                damage
            ]
        )
    with pytest.raises(DamageError) as caught:
        store.get(digest)
    for found in (store.check(digest), caught.value):
        assert isinstance(found, DamageError)
        assert found.path == str(path)
    if damage == "folder":
        path.rmdir()
    store.put(golden_trail())
    assert (path.read_bytes(), store.check(digest), store.get(digest)) == (whole, None, golden_trail())


def test_another_trail_under_its_name_is_damage(tmp_path):
    store = store_in(tmp_path)
    digest = store.put(golden_trail())
    path = Path(store.path_of(digest))
    path.chmod(0o644)
    path.write_bytes(packed_trail.pack(small_trail()))
    with pytest.raises(DamageError, match="do not match its name"):
        store.get(digest)


def test_a_sound_form_beside_a_damaged_one_is_read(tmp_path):
    digest = ObjectStore(str(tmp_path), Files()).put(golden_trail())
    store = store_in(tmp_path)
    packed = Path(store.path_of(digest)).with_suffix(".t")
    packed.write_bytes(b"damaged")
    assert store.get(digest) == golden_trail()
    assert store.check(digest).path == str(packed)
    store.put(golden_trail())
    assert (store.check(digest), packed_trail.unpack(packed.read_bytes())) == (None, golden_trail())
    other = store.put(b"short")
    stray = Path(f"{store.path_of(other)}.t")
    stray.write_bytes(b"damaged")
    store.put(b"short")
    assert (store.check(other), stray.exists()) == (None, False)


def test_who_does_not_know_the_form_says_so_and_touches_nothing(tmp_path):
    digest = store_in(tmp_path).put(golden_trail())
    plain = ObjectStore(str(tmp_path), Files())
    for call in (plain.get, plain.check, lambda _: plain.put(golden_trail())):
        with pytest.raises(EnvironmentFailure, match="was not given"):
            call(digest)
    assert list(plain.digests()) == [digest]
    assert store_in(tmp_path).check(digest) is None


def test_a_large_file_is_refused_before_it_is_read(tmp_path):
    store = store_in(tmp_path)
    digest = store.put(golden_trail())
    path = store.path_of(digest)
    os.chmod(path, 0o644)
    os.truncate(path, 1 << 40)
    with pytest.raises(DamageError, match=r"no file of this form has over 8,388,608"):
        store.get(digest)


def test_a_stop_at_every_call_leaves_the_trail_or_none(tmp_path):
    limit = 0
    while True:
        folder = tmp_path / str(limit)
        files = StoppingFiles(limit)
        try:
            store_in(folder, files).put(golden_trail())
        except Stop:
            pass
        else:
            break
        digest = hashlib.sha256(golden_trail()).digest()
        store = store_in(folder)
        assert store.check(digest) is None or not store.has(digest)
        assert store.get(store.put(golden_trail())) == golden_trail()
        limit += 1
    assert limit > 4


# In a store


def test_a_store_moves_mends_and_shares_its_trails(tmp_path):
    (tmp_path / "home").mkdir()
    ours, other, third = (tmp_path / name for name in ("ours", "other", "third"))
    for folder in (ours, other, third):
        folder.mkdir()
    sh = Shell(ours, tmp_path / "home")
    sh("init")
    sh("trail", "import", claude_session(ours / "one.jsonl", steps=20))
    card = sh.json("trail", "list").trails[0]
    text = card.value["object"]
    name = f"objects/{text[:2]}/{text[2:]}.t"
    assert (ours / ".periplus" / name).is_file()
    shown = sh("trail", "show", card.id).out
    sh("export")
    sh("import", ours / "ours-periplus.zip", other)
    assert (other / ".periplus" / name).is_file()
    sh("sync", "--with", tmp_path / "exchange", cwd=ours)
    path = ours / ".periplus" / name
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-9])
    assert path.name in sh("doctor", code=3).out
    sh("doctor", "--repair", "--from", other)
    assert sh("trail", "show", card.id).out == shown
    sh("doctor")
    assert sh("trail", "verify", card.id).out


# -- a byte that was changed ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [small_trail(), long_trail(40)], ids=["small", "longer"])
def test_one_changed_byte_anywhere_is_worked_out(data):
    packed = packed_trail.pack(data)
    chance = random.Random(len(data))
    places = {0, 1, 2, 3, 4, 5, len(packed) - 1, *chance.choices(range(len(packed)), k=24)}
    for at in sorted(places):
        damaged = bytearray(packed)
        damaged[at] ^= chance.randrange(1, 256)
        with pytest.raises(FormatError):
            packed_trail.unpack(bytes(damaged))
        assert data in packed_trail.repair_candidates(bytes(damaged)), at


def test_what_is_no_single_byte_mends_into_nothing_that_has_the_name():
    packed = bytearray(packed_trail.pack(long_trail(40)))
    packed[30] ^= 1
    packed[90] ^= 1
    assert long_trail(40) not in packed_trail.repair_candidates(bytes(packed))
    assert list(packed_trail.repair_candidates(b"")) == list(packed_trail.repair_candidates(b"\x01\0\0")) == []
    assert list(packed_trail.repair_candidates(bytes(1 << 17))) == []


def test_a_damaged_beginning_is_told_with_what_heals_it_and_repair_mends_a_byte(tmp_path):
    shell = Shell(tmp_path / "project", tmp_path)
    shell.folder.mkdir()
    shell("init")
    claude_session(tmp_path / "s.jsonl", cwd=os.fspath(shell.folder), steps=12, session="5e551011")
    shell("trail", "import", tmp_path / "s.jsonl")
    [path] = (shell.folder / ".periplus" / "objects").glob("*/*.t")
    good = path.read_bytes()
    trail = shell.json("trail", "list").trails[0].id
    for at in (60, 61, 62):  # the first bytes of the packed numbers
        data = bytearray(path.read_bytes())
        data[at] ^= 0x5A
        path.write_bytes(data)
    done = shell("trail", "show", trail, "--salvage", code=3)
    assert "14 of 14 steps" in done.err
    assert "doctor --repair" in done.err
    assert "doctor --repair" in shell("doctor", code=3).out
    shell("trail", "import", tmp_path / "s.jsonl")  # as it says, too
    assert path.read_bytes() == good
    path.write_bytes(good[:60] + bytes((good[60] ^ 0x5A,)) + good[61:])
    assert "one byte of its file had changed" in shell("doctor", "--repair").out
    assert path.read_bytes() == good
    shell("trail", "verify", trail)
