"""An exported file that is damaged itself: what of it is left completes a store, or makes one that says what it misses."""

from __future__ import annotations

import fcntl
import os
import random
import struct
import subprocess
import time
import zipfile
import zlib

import pytest

from cli_support import Shell, claude_session, decoded, fill
from periplus.base.errors import FormatError, PeriplusError
from periplus.base.files import Files
from periplus.journal.exchange.package import MANIFEST, TOP
from periplus.journal.exchange.package_salvage import salvage
from periplus.journal.storage.layout import Layout
from periplus.project import Project

NOTES = 14


@pytest.fixture(scope="module")
def origin(tmp_path_factory):
    """A store of several segments, with a checkpoint, objects and a trail, and its export."""
    folder, home = tmp_path_factory.mktemp("origin"), tmp_path_factory.mktemp("home")
    shell = Shell(folder, home)
    fill(shell)
    config = folder / ".periplus/config.toml"
    config.write_text(config.read_text() + "segment_bytes = 4000\n")
    fill(shell, *(f"note number {number} about the engine" for number in range(NOTES // 2)))
    shell("doctor", "--compact")
    fill(shell, *(f"later note number {number} about the engine" for number in range(NOTES - NOTES // 2)))
    claude_session(folder / "run.jsonl", steps=3)
    shell("trail", "import", "run.jsonl")
    shell("export", "whole.zip")
    return shell


def members(path):
    """Where each member begins and ends in the file: its header and its bytes."""
    with zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
        ends = [one.header_offset for one in infos[1:]] + [archive.start_dir]
        return {one.filename.removeprefix(TOP): (one.header_offset, end) for one, end in zip(infos, ends, strict=True)}


def flipped(data, at, bit=0x40):
    return data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]


def known(shell, cwd):
    """What a search finds, also in a store that misses something."""
    words = ("recall", "engine", "--limit", "50", "--json")
    with shell.start(*words, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        out = process.communicate(timeout=60)[0].decode()
    assert process.returncode in (0, 1, 3)
    return sorted((hit.id, hit.text) for hit in decoded(out).hits)


@pytest.fixture
def whole(origin):
    return (origin.folder / "whole.zip").read_bytes()


@pytest.mark.slow
def test_a_file_that_was_cut_short(origin, whole, tmp_path):
    places = members(origin.folder / "whole.zip")
    segment = max(name for name in places if name.endswith(".jsonl") and "checkpoints" not in name)
    start, end = places[segment]
    file = tmp_path / "cut.zip"
    file.write_bytes(whole[: (start + end) // 2])
    refused = origin.fails("import", file, tmp_path / "none", code=2, wrong="damaged")
    assert "import --damaged" in refused.err
    assert "doctor --repair --from" in refused.err
    made = origin.json("import", "--damaged", file, tmp_path / "left", code=3)
    assert any(one.path == MANIFEST for one in made.flaws)
    assert any(one.path == segment for one in made.flaws)
    assert [one.last_seq for one in made.missing] == [2 + NOTES], "the store remembers how many there were"
    left = known(origin, tmp_path / "left")
    assert left
    assert set(left) < set(known(origin, origin.folder))
    origin("doctor", code=3, cwd=tmp_path / "left")
    origin("doctor", "--repair", "--from", origin.folder / "whole.zip", cwd=tmp_path / "left")
    assert known(origin, tmp_path / "left") == known(origin, origin.folder)


def test_what_is_cut_off_first_is_what_can_be_made_anew(origin, whole, tmp_path):
    places = members(origin.folder / "whole.zip")
    kinds = [
        "checkpoints" if "checkpoints" in name else name.split("/")[0]
        for name in places
        if "/lin_" not in name or "jsonl" in name
    ]
    kinds = [kind for number, kind in enumerate(kinds) if kind not in kinds[:number]]
    assert kinds == ["config.toml", "journal", "objects", "checkpoints", MANIFEST]
    begin = min(at for name, (at, _) in places.items() if "checkpoints" in name)
    file = tmp_path / "cut.zip"
    file.write_bytes(whole[:begin])
    told = origin("import", "--damaged", file, tmp_path / "made", code=3)
    assert not [line for line in told.out.splitlines() if line.startswith("missing")]
    assert known(origin, tmp_path / "made") == known(origin, origin.folder)


def test_one_damaged_member_costs_no_other(origin, whole, tmp_path):
    """Every member, damaged where it is: all others complete a store that lost everything but its settings and identity."""
    places = members(origin.folder / "whole.zip")
    for number, (name, (start, end)) in enumerate(places.items()):
        file = tmp_path / "one.zip"
        file.write_bytes(flipped(whole, (start + 30 + len(TOP + name) + end) // 2))
        place = tmp_path / f"place{number}"
        place.mkdir()
        wreck = salvage(os.fspath(file), os.fspath(place), Files())
        assert {flaw.path for flaw in wreck.flaws} == {name}
        for other in places.keys() - {name, MANIFEST}:
            with zipfile.ZipFile(origin.folder / "whole.zip") as archive:
                assert (place / other).read_bytes() == archive.read(TOP + other), f"{other} is not that of {name}"


@pytest.mark.parametrize("part", ["signature", "flags", "method", "crc", "size", "length", "extra", "name"])
def test_a_damaged_header_costs_nothing(origin, whole, tmp_path, part):
    """The directory at the end says the same once more."""
    offset = {"signature": 0, "flags": 6, "method": 8, "crc": 14, "size": 18, "length": 26, "extra": 28, "name": 40}[
        part
    ]
    for number, (name, (start, _)) in enumerate(members(origin.folder / "whole.zip").items()):
        file, place = tmp_path / "one.zip", tmp_path / f"place{number}"
        place.mkdir()
        file.write_bytes(flipped(whole, start + offset))
        assert salvage(os.fspath(file), os.fspath(place), Files()).flaws == (), name


@pytest.mark.slow
def test_a_lost_directory_costs_nothing(origin, whole, tmp_path):
    with zipfile.ZipFile(origin.folder / "whole.zip") as archive:
        start = archive.start_dir
    file = tmp_path / "cut.zip"
    for kept in (start, start + 20, len(whole) - 1):
        file.write_bytes(whole[:kept])
        origin.fails("import", file, tmp_path / "none", code=2, wrong="damaged")
        place = tmp_path / f"store{kept}"
        made = origin.json("import", "--damaged", file, place)
        assert made.flaws == []
        assert made.missing == []
        assert known(origin, place) == known(origin, origin.folder)


def test_what_completes_a_store_is_taken_from_a_damaged_file(origin, whole, tmp_path):
    places = members(origin.folder / "whole.zip")
    segments = sorted(name for name in places if name.endswith(".jsonl") and "/lin_" in f"/{name.split('/', 1)[1]}")
    origin("import", origin.folder / "whole.zip", tmp_path / "store")
    lost, damaged = segments[0], segments[-1]
    file = tmp_path / "damaged.zip"
    file.write_bytes(flipped(whole, sum(places[damaged]) // 2))
    (tmp_path / "store/.periplus" / lost).unlink()
    done = origin("doctor", "--repair", "--from", file, cwd=tmp_path / "store")
    assert f"1 file in what was exported is damaged or missing, such as {damaged}" in done.out
    assert "sound: every checksum" in done.out
    assert known(origin, tmp_path / "store") == known(origin, origin.folder)
    assert not [name for name in os.listdir(tmp_path / "store") if name.endswith(".tmp")]


@pytest.mark.slow
def test_every_cut_and_many_a_changed_byte_make_a_store_that_can_be_completed(origin, whole, tmp_path):
    chance = random.Random(7)
    segments = min(
        end for name, (_, end) in members(origin.folder / "whole.zip").items() if name.startswith("journal/lin_")
    )
    everything = known(origin, origin.folder)
    file = tmp_path / "bad.zip"
    made = 0
    for number in range(20):
        at = chance.randrange(len(whole))
        data = whole[:at] if number % 2 else flipped(whole, at, 1 << chance.randrange(8))
        if number % 4 == 2:
            data = flipped(flipped(data, chance.randrange(len(data))), chance.randrange(len(data)))
        file.write_bytes(data)
        place = tmp_path / f"place{number}"
        place.mkdir()
        try:
            packed = Project.import_from(os.fspath(file), os.fspath(place), damaged=True)
        except PeriplusError:
            assert at < segments or number % 4 == 2, "with a whole segment there is something left"
            assert os.listdir(place) == []
            continue
        made += 1
        assert set(known(origin, place)) <= set(everything)
        if not packed.is_whole:
            origin("doctor", "--repair", "--from", origin.folder / "whole.zip", cwd=place)
        assert known(origin, place) == everything
    assert made > 14


def test_nothing_of_a_store_is_in_it(origin, tmp_path):
    file = tmp_path / "some.zip"
    (tmp_path / "store").mkdir()
    for data in (
        b"",
        b"no archive",
        b"PK\x03\x04" + bytes(60),
        b"PK\x03\x04" + bytes(26) + b"periplus/evil" + bytes(40),
    ):
        file.write_bytes(data)
        for call in (("import", file, tmp_path / "none"), ("import", "--damaged", file, tmp_path / "none")):
            assert "Take another copy" not in origin.fails(*call, code=2, wrong="exported store").err
        origin.fails("doctor", "--repair", "--from", file, code=2, wrong="exported store")
    assert not (tmp_path / "none").exists()
    segment = next((origin.folder / ".periplus/journal").glob("lin_*/*.jsonl"))
    said = origin.fails("doctor", "--repair", "--from", segment, code=2, wrong="is one segment")
    assert f"--from {segment.parent}" in said.err


def hostile(name, packed, size, crc=0, method=8):
    """A member with a header of our making and no directory."""
    encoded = (TOP + name).encode()
    head = struct.pack("<4sHHHHHLLLHH", b"PK\x03\x04", 20, 0, method, 0, 0, crc, size, size, len(encoded), 0)
    return head + encoded + packed


def test_a_hostile_file_without_a_directory(tmp_path):
    """Names that no store has, sizes over their limits, members that lie in each other: none is written, and none takes long."""
    squeezer = zlib.compressobj(9, zlib.DEFLATED, -15)
    bomb = squeezer.compress(bytes(64 << 20)) + squeezer.flush()
    key = "journal/keys/lin_0000000000000000.public"
    data = hostile(key, bomb, len(bomb)) + hostile("../../evil", b"evil", 4, method=0)
    data += hostile("journal/keys/lin_0000000000000001.public", b"", 0xFFFFFFFF)
    for number in range(3000):
        data += hostile(f"objects/ab/{number:062x}", b"", 1 << 20)
    file, place = tmp_path / "evil.zip", tmp_path / "place"
    place.mkdir()
    file.write_bytes(data + bytes(1 << 20))
    begun = time.monotonic()
    salvage(os.fspath(file), os.fspath(place), Files())
    assert time.monotonic() - begun < 20
    assert not list(tmp_path.rglob("evil"))
    assert (place / key).stat().st_size <= 1 << 20
    assert len(list((place / "objects/ab").iterdir())) < 10, "more than the file has was claimed"


def test_what_a_killed_import_left_is_swept_by_the_next(origin, tmp_path):
    left, busy = tmp_path / "place/.periplus-0123abcd.tmp", tmp_path / "place/.periplus-89abcdef.tmp"
    others = [tmp_path / "place/.periplus-mine.tmp", tmp_path / "place/.periplus-0123abcd"]
    for folder in (left, busy, *others):
        (folder / "journal").mkdir(parents=True)
    fd = os.open(busy, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        origin("import", origin.folder / "whole.zip", tmp_path / "place")
    finally:
        os.close(fd)
    assert not left.exists()
    assert busy.exists()
    assert all(one.exists() for one in others)


def test_an_empty_folder_in_the_store_s_place(origin, tmp_path):
    (tmp_path / "one/.periplus").mkdir(parents=True)
    origin("import", origin.folder / "whole.zip", tmp_path / "one")
    assert known(origin, tmp_path / "one") == known(origin, origin.folder)
    (tmp_path / "two").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "two/.periplus").symlink_to(tmp_path / "empty")
    origin.fails("import", origin.folder / "whole.zip", tmp_path / "two", code=5, wrong="has a store")


def test_the_settings_are_lost(origin, whole, tmp_path):
    """Every segment says whose it is."""
    start, end = members(origin.folder / "whole.zip")["config.toml"]
    file = tmp_path / "damaged.zip"
    file.write_bytes(whole[end:])
    made = origin.json("import", "--damaged", file, tmp_path / "left", code=3)
    assert "config.toml" in [one.path for one in made.flaws]
    assert made.missing == []
    assert known(origin, tmp_path / "left") == known(origin, origin.folder)
    assert start == 0


def test_a_manifest_of_another_program(origin, tmp_path):
    """With the manifest of a later format nothing is guessed: that file is whole, and read by its own program."""
    file = tmp_path / "later.zip"
    with zipfile.ZipFile(origin.folder / "whole.zip") as old, zipfile.ZipFile(file, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            new.writestr(name, data.replace(b'"format":1', b'"format":9') if name.endswith(MANIFEST) else data)
    with pytest.raises(FormatError, match="exported in format 9"):
        Project.import_from(os.fspath(file), os.fspath(tmp_path), damaged=True)
    assert not os.path.exists(Layout(os.fspath(tmp_path / ".periplus")).root)
