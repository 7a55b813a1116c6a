"""A store in one file: what comes out is what went in, and nothing hostile or damaged becomes a store."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import io
import json
import os
import pty
import struct
import subprocess
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from cli_support import PERIPLUS, claude_session, segmented
from periplus.base.clock import FixedClock
from periplus.base.errors import FormatError, PeriplusError, RefusedError
from periplus.base.files import Files, PassingFiles
from periplus.journal import Writer
from periplus.journal.exchange import package
from periplus.journal.exchange.package import MANIFEST, export_store
from periplus.journal.exchange.package_import import import_store
from periplus.journal.index import index_file
from periplus.project import Project
from support import Stop, StoppingFiles

SEGMENTS = 3


@pytest.fixture
def shell(tmp_path):
    shell = segmented(tmp_path, 12)
    claude_session(shell.folder / "run.jsonl", steps=3)
    shell("trail", "import", "run.jsonl")
    return shell


def told(shell, cwd):
    found = shell.json("recall", "engine", cwd=cwd)
    return sorted((hit.id, hit.text) for hit in found.hits)


def test_there_and_back(shell, tmp_path):
    (tmp_path / "other").mkdir()
    done = shell("export")
    assert "13 records" in done.out
    file = shell.folder / "engine-periplus.zip"
    assert "private" not in "".join(zipfile.ZipFile(file).namelist())
    assert "intact: 13 records" in shell("import", file, "--dry-run", cwd=tmp_path / "other").out
    assert os.listdir(tmp_path / "other") == []
    document = shell.json("import", file, tmp_path / "other")
    assert (document.records, document.objects > 0) == (13, True)
    assert told(shell, tmp_path / "other") == told(shell, shell.folder)
    assert "sound" in shell("doctor", cwd=tmp_path / "other").out
    shell("trail", "verify", "trl_", cwd=tmp_path / "other")
    shell("remember", "written in the copy", "--type", "note", cwd=tmp_path / "other")
    lineages = {path.name for path in (tmp_path / "other/.periplus/journal").glob("lin_*")}
    assert len(lineages) == 2
    old = {path.name for path in (shell.folder / ".periplus/journal").glob("lin_*")}
    assert old < lineages


@pytest.mark.slow
def test_there_and_back_through_a_pipe(shell, tmp_path):
    def run(*words, stdin=b"", cwd=None):
        with shell.start(
            *words, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            out, err = process.communicate(stdin)
        assert b"Traceback" not in err
        return process.returncode, out, err.decode()

    shell("export", "named.zip")
    code, data, err = run("export", "-")
    assert (code, err) == (0, "")
    assert zipfile.ZipFile(io.BytesIO(data)).namelist() == zipfile.ZipFile(shell.folder / "named.zip").namelist()
    code, out, err = run("export", "-", "--json")
    assert (code, json.loads(out)["exit_code"]) == (2, 2)
    assert not (shell.folder / "-").exists()

    with open("/dev/full", "wb") as full:
        refused = subprocess.run(
            [PERIPLUS, "export", "-"],
            cwd=shell.folder,
            env=shell.environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert refused.returncode == 3
    assert b"cannot write standard output: No space left on device" in refused.stderr

    ours, theirs = os.pipe()
    os.close(ours)  # as a backup over ssh whose other end died
    with open(theirs, "wb") as nobody:
        cut = subprocess.run(
            [PERIPLUS, "export", "-"],
            cwd=shell.folder,
            env=shell.environment(),
            stdout=nobody,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert cut.returncode == 3
    assert cut.stderr.decode().startswith("periplus: the reader of standard output closed it")
    assert cut.stderr.count(b"\n") == 2

    code, out, err = run("import", "-", "cut", stdin=data[: len(data) // 2], cwd=tmp_path)
    assert (code, out, (tmp_path / "cut").exists()) == (2, b"", False)
    assert "Save it to a file and import that" in err
    assert "/tmp" not in err.replace(os.fspath(tmp_path), "")
    code, out, err = run("import", "-", "other", "--json", stdin=data, cwd=tmp_path)
    assert (code, json.loads(out)["path"]) == (0, "-")
    assert told(shell, tmp_path / "other") == told(shell, shell.folder)


@pytest.mark.parametrize("words", [["export", "-"], ["import", "-", "there"]])
def test_bytes_are_not_written_to_a_terminal_nor_read_from_one(shell, words):
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    done = subprocess.run(
        [PERIPLUS, *words], cwd=shell.folder, env=shell.environment(), stdin=theirs, stdout=theirs, stderr=subprocess.PIPE,
        check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert b"terminal" in done.stderr
    with pytest.raises(BlockingIOError):
        os.read(ours, 1)
    os.close(theirs)
    os.close(ours)


def test_writing_the_file_tells_how_far_it_is(shell):
    told = []
    with Project.open(os.fspath(shell.folder), writer()) as project:
        segments = len(project.journal.reader(project.journal.lineage).segments())
        export_store(project.journal, os.fspath(shell.folder / "a.zip"), progress=lambda *one: told.append(one))
    assert segments > 1
    assert told[:segments] == [(number, segments) for number in range(segments)]


def test_the_same_store_gives_the_same_bytes(shell):
    with Project.open(os.fspath(shell.folder), writer(), clock=FixedClock()) as project:
        project.export(os.fspath(shell.folder / "a.zip"))
        project.export(os.fspath(shell.folder / "b.zip"))
    assert (shell.folder / "a.zip").read_bytes() == (shell.folder / "b.zip").read_bytes()


@pytest.mark.parametrize("gone", [(), ("durable",), ("durable", "flush")])
@pytest.mark.parametrize("sync", ["mutation", "never"])
def test_all_that_was_acknowledged_is_in_it_whoever_says_that_it_is_durable(shell, tmp_path, sync, gone):
    config = shell.folder / ".periplus/config.toml"
    config.write_text(config.read_text().replace('sync = "mutation"', f'sync = "{sync}"'))
    shell("remember", "the last note about the engine", "--type", "note")
    for name in gone:
        (shell.folder / ".periplus/journal" / name).unlink(missing_ok=True)
    done = shell.json("export", "store.zip")
    assert done.records == 14
    shell("import", "store.zip", tmp_path / "other")
    assert told(shell, tmp_path / "other") == told(shell, shell.folder)


def writer():
    from periplus.journal import Writer

    return Writer("tester", "who_0000000000000000", "", 1)


def test_what_is_there_is_not_touched(shell, tmp_path):
    shell("export", "store.zip")
    before = (shell.folder / "store.zip").read_bytes()
    shell.fails("export", "store.zip", code=5, wrong="is there already")
    assert (shell.folder / "store.zip").read_bytes() == before
    shell.fails("import", "store.zip", code=5, wrong="has a store")
    shell.fails("import", "absent.zip", tmp_path / "home", code=1, wrong="there is no file")
    shell.fails("import", "run.jsonl", tmp_path / "home", code=2, wrong="not an exported store")
    shell.fails("import", ".", tmp_path / "home", code=2, wrong="is a folder")


def test_a_folder_that_is_not_there_is_made_with_those_above_it(shell, tmp_path):
    shell("export", "store.zip")
    place = tmp_path / "far" / "away"
    assert "nothing was created" in shell("import", "store.zip", place, "--dry-run").out
    assert "nothing was created" in shell("import", "store.zip", "--dry-run", place).out
    shell.fails("import", "run.jsonl", place, code=2, wrong="not an exported store")
    shell.fails("import", "absent.zip", place, code=1, wrong="there is no file")
    assert not (tmp_path / "far").exists(), "nothing is left where nothing came of it"
    lines = shell("import", "store.zip", place).lines
    assert lines[0] == f"Made the folder {place}"
    assert lines[1].startswith(f"Made the store {place}/.periplus: ")
    assert "sound" in shell("status", cwd=place).out
    shell.fails("import", "store.zip", place, code=5, wrong="has a store")
    shell.fails("import", "store.zip", place / ".periplus", code=5, wrong="is a store, or is inside one")
    (tmp_path / "there").mkdir()
    assert "Made the folder" not in shell("import", "store.zip", tmp_path / "there").out


def test_a_file_system_without_links(shell):
    class NoLinks(Files):
        def link(self, source, target):
            raise OSError(errno.EPERM, os.strerror(errno.EPERM), target)

    path = shell.folder / "store.zip"
    with Project(os.fspath(shell.folder / ".periplus"), writer(), files=NoLinks()) as project:
        project.export(os.fspath(path))
        before = path.read_bytes()
        with pytest.raises(RefusedError, match="is there already"):
            project.export(os.fspath(path))
    assert path.read_bytes() == before
    shell("import", path, "--dry-run")


def test_a_damaged_store_is_not_exported(shell):
    path = min((shell.folder / ".periplus").glob("journal/lin_*/*.jsonl"))
    data = path.read_bytes()
    path.write_bytes(data[:900] + b"##" + data[902:])
    (shell.folder / ".periplus/index.sqlite").unlink()
    shell.fails("export", "store.zip", code=3, wrong="checksum")
    assert not (shell.folder / "store.zip").exists()


def rewritten(source: Path, target: Path, change) -> Path:
    """The archive with ``change(name, data)`` in place of each member; None leaves it out."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            data = change(name, old.read(name))
            if data is not None:
                new.writestr(name, data)
    return target


def attempt(file: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir(exist_ok=True)
    try:
        Project.import_from(os.fspath(file), os.fspath(place))
    finally:
        assert os.listdir(place) == []


HOSTILE = ["periplus/../../evil", "/etc/evil", "periplus/journal/keys/x.private", "periplus/index.sqlite", "evil",
           "periplus/journal/lin_0000000000000000/archive/../../../evil", "periplus/objects/ab/" + "g" * 62,
           "periplus/journal/checkpoints/" + "\u0661" * 12 + ".jsonl"]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_no_store_has(shell, tmp_path, name):
    shell("export", "store.zip")
    file = rewritten(shell.folder / "store.zip", tmp_path / "bad.zip", lambda _, data: data)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(name, b"evil")
    with pytest.raises(FormatError, match="not a file of a store"):
        attempt(file, tmp_path)
    assert not list(tmp_path.rglob("evil"))


def test_a_bomb_is_not_unpacked(shell, tmp_path):
    shell("export", "store.zip")
    with zipfile.ZipFile(shell.folder / "store.zip", "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("periplus/journal/keys/lin_0000000000000000.public", b"0" * (2 << 20))
    with pytest.raises(FormatError, match="2,097,152 bytes"):
        attempt(shell.folder / "store.zip", tmp_path)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_unpacks_in_one_piece_is_not_unpacked(shell, tmp_path, method):
    shell("export", "store.zip")
    bad = tmp_path / "bad.zip"
    with zipfile.ZipFile(shell.folder / "store.zip") as old, zipfile.ZipFile(bad, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name), method if name.endswith("config.toml") else zipfile.ZIP_DEFLATED)
    with pytest.raises(FormatError, match="not a file of a store"):
        attempt(bad, tmp_path)


@pytest.mark.slow
def test_a_manifest_takes_no_more_memory_than_it_says_to_have(shell, tmp_path):
    shell("export", "store.zip")
    size = 200 << 20
    bomb = rewritten(
        shell.folder / "store.zip", tmp_path / "bad.zip", lambda name, data: None if name.endswith(MANIFEST) else data
    )
    with zipfile.ZipFile(bomb, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("periplus/" + MANIFEST, bytes(size))
    data = bomb.read_bytes()
    assert data.count(struct.pack("<L", size)) == 2  # before the member and in the directory
    bomb.write_bytes(data.replace(struct.pack("<L", size), struct.pack("<L", 100)))
    tracemalloc.start()
    try:
        with pytest.raises(FormatError):
            attempt(bomb, tmp_path)
        assert tracemalloc.get_traced_memory()[1] < size // 4
    finally:
        tracemalloc.stop()


def test_files_that_are_not_as_the_manifest_says(shell, tmp_path):
    shell("export", "store.zip")
    source, bad = shell.folder / "store.zip", tmp_path / "bad.zip"
    segment = next(name for name in zipfile.ZipFile(source).namelist() if name.endswith(".jsonl"))
    for change in (
        lambda name, data: data.replace(b"engine", b"ENGINE") if name == segment else data,
        lambda name, data: None if name == segment else data,
        lambda name, data: None if name.endswith(MANIFEST) else data,
        lambda name, data: b"{}" if name.endswith(MANIFEST) else data,
        lambda name, data: data.replace(b'"format":1', b'"format":9') if name.endswith(MANIFEST) else data,
    ):
        with pytest.raises(FormatError):
            attempt(rewritten(source, bad, change), tmp_path)


def test_a_file_that_the_manifest_does_not_name(shell, tmp_path):
    """At a place that a store has: an object, a key or a lineage of somebody else would come in with the rest."""
    shell("export", "store.zip")
    file = rewritten(shell.folder / "store.zip", tmp_path / "bad.zip", lambda _, data: data)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("periplus/objects/ab/" + "0" * 62, b"not asked for")
    with pytest.raises(FormatError, match="its manifest does not name"):
        attempt(file, tmp_path)


def test_records_that_are_not_those_of_the_head_that_the_manifest_states(shell, tmp_path):
    shell("export", "store.zip")
    source = shell.folder / "store.zip"
    with zipfile.ZipFile(source) as archive:
        (head, *_) = json.loads(archive.read("periplus/" + MANIFEST))["heads"]
    other = head["root"].translate(str.maketrans("0123456789abcdef", "123456789abcdef0"))
    bad = rewritten(
        source,
        tmp_path / "bad.zip",
        lambda name, data: data.replace(head["root"].encode(), other.encode()) if name.endswith(MANIFEST) else data,
    )
    with pytest.raises(FormatError, match="do not match the manifest"):
        attempt(bad, tmp_path)


def test_a_forger_who_mends_the_manifest_is_found_by_the_records(shell, tmp_path):
    shell("export", "store.zip")
    source = shell.folder / "store.zip"
    segment = next(name for name in zipfile.ZipFile(source).namelist() if name.endswith(".jsonl"))
    forged = zipfile.ZipFile(source).read(segment).replace(b"engine", b"ENGINE")

    def change(name, data):
        if name == segment:
            return forged
        if name.endswith(MANIFEST):
            manifest = json.loads(data)
            for file in manifest["files"]:
                if name.replace(MANIFEST, file["path"]) == segment:
                    file["sha256"] = hashlib.sha256(forged).hexdigest()
            return json.dumps(manifest, separators=(",", ":"), sort_keys=True).encode()
        return data

    with pytest.raises(FormatError, match="a segment in it is damaged"):
        attempt(rewritten(source, tmp_path / "bad.zip", change), tmp_path)


@pytest.mark.slow
def test_every_cut_and_many_a_changed_byte(shell, tmp_path):
    import random

    shell("export", "store.zip")
    data = (shell.folder / "store.zip").read_bytes()
    chance = random.Random(5)
    file = tmp_path / "bad.zip"
    for at in sorted(chance.sample(range(len(data)), 60)):
        file.write_bytes(data[:at])
        with pytest.raises(PeriplusError):
            attempt(file, tmp_path)
    harmless = 0
    for at in sorted(chance.sample(range(len(data)), 60)):
        file.write_bytes(data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :])
        place = tmp_path / f"place{at}"
        place.mkdir()
        try:
            Project.import_from(os.fspath(file), os.fspath(place))
        except PeriplusError:
            assert os.listdir(place) == []
        else:
            harmless += 1  # a date, an attribute: what was unpacked was examined record by record
    assert harmless < 30


def test_a_stop_while_it_is_unpacked_leaves_no_store(shell, tmp_path):
    shell("export", "store.zip")
    source = os.fspath(shell.folder / "store.zip")
    at = stops = 0
    while True:
        place = tmp_path / f"place{at}"
        place.mkdir()
        files = StoppingFiles(at)
        try:
            import_store(source, os.fspath(place), check=lambda _: [], clock=FixedClock(), files=files)
        except Stop:
            stops += 1
            assert not (place / ".periplus").exists() or files.calls[-1].startswith("sync_folder")
        if at >= len(files.calls):
            break
        at += 3
    assert stops > 10
    assert (place / ".periplus/config.toml").exists()


def test_an_import_into_a_folder_with_a_store_is_refused_in_python_too(shell):
    shell("export", "store.zip")
    with pytest.raises(RefusedError, match="has a store"):
        Project.import_from(os.fspath(shell.folder / "store.zip"), os.fspath(shell.folder))


def test_what_lies_on_the_disk_goes_in_by_pieces_as_the_same_bytes(tmp_path):
    """A checkpoint is as large as all that the store knows: it was held whole, and once more packed."""
    data = b"".join(b"%d of many lines\n" % number for number in range(200_000))
    path = tmp_path / "large"
    path.write_bytes(data)
    aside = package._OnDisk(os.fspath(path), len(data))
    assert max(map(len, aside.pieces())) <= 1 << 20 < len(data)
    made = []
    for content in (data, aside):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            said = package._put(archive, "journal/checkpoints/000000000001.jsonl", content)
        made.append((file.getvalue(), said))
    assert made[0] == made[1]
    with pytest.raises(PeriplusError, match="a file over"):
        package._put(archive, "x", aside._replace(limit=5))


def test_only_what_is_in_the_file_is_examined(shell):
    """Index and files of entities stay out: to compare them took most of the time, and nothing came of what was found."""
    shell("remember", "a decision with a file", "--type", "decision")
    file = next((shell.folder / ".periplus/entities").rglob("*.json"))
    file.write_text("{}")
    with Project.open(os.fspath(shell.folder), Writer("me", "")) as project:
        told = [one.path for one in project.examine().problems]
        assert os.fspath(file) in told
        assert os.fspath(file) not in [one.path for one in project.examine(derived=False).problems]


@pytest.mark.slow
def test_a_dry_run_makes_no_files_of_entities_and_waits_for_no_disk(shell, tmp_path):
    shell("remember", "a decision with a file", "--type", "decision")
    shell("export", "store.zip")
    found = []

    class Looked(Project):
        def examine(self, *words, **named):
            made = sum(len(names) for _, _, names in os.walk(os.path.join(self.root, "entities")))
            found.append((made > 0, type(self.journal.files)))
            return super().examine(*words, **named)

    for dry_run in (True, False):
        place = tmp_path / f"dry {dry_run}"
        place.mkdir()
        Looked.import_from(os.fspath(shell.folder / "store.zip"), os.fspath(place), dry_run=dry_run)
    assert found == [(False, PassingFiles), (True, Files)]


def test_many_files_reach_the_disk_together(shell, tmp_path):
    """Each object is a file: to wait for the disk after each took minutes for the sessions of a few months."""
    with Project.open(os.fspath(shell.folder), Writer("me", "")) as project:
        for number in range(70):
            project.journal.objects.put(b"object %d" % number)
    shell("export", "store.zip")
    place = tmp_path / "many"
    place.mkdir()
    files = StoppingFiles(10**9)
    import_store(
        os.fspath(shell.folder / "store.zip"), os.fspath(place), check=lambda _: [], clock=FixedClock(), files=files
    )
    assert files.calls.count("sync") < 20
    assert "sync_everything" in files.calls
    assert files.calls[-1] == "sync_folder", "the name of the store, which it had got after that"


def test_what_was_unpacked_is_examined_without_waiting_for_ourselves(shell, tmp_path, monkeypatch):
    """The folder is locked so that nobody takes it for a leftover; the index in it was waited for, a second each time, behind that lock."""
    shell("export", "store.zip")
    file, place = os.fspath(shell.folder / "store.zip"), tmp_path / "place"
    place.mkdir()
    waits = []
    monkeypatch.setattr(index_file.time, "sleep", waits.append)
    fellow = place / ".periplus-00000000.tmp"
    fellow.mkdir()
    fd = os.open(fellow, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)  # as another import has its own
        Project.import_from(file, os.fspath(place))
    finally:
        os.close(fd)
    assert waits == []
    assert fellow.is_dir(), "somebody was still at it"
    Project.import_from(file, os.fspath(place), dry_run=True)
    assert not fellow.exists()


def forged(source, target, files):
    """The file ``source`` with ``files`` added, in the manifest too."""
    with zipfile.ZipFile(source) as archive, zipfile.ZipFile(target, "w") as made:
        for name in archive.namelist():
            if not name.endswith(MANIFEST) and name.removeprefix("periplus/") not in files:
                made.writestr(name, archive.read(name))
        manifest = json.loads(archive.read("periplus/" + MANIFEST))
        manifest["files"] = [one for one in manifest["files"] if one["path"] not in files]
        for path, data in files.items():
            made.writestr("periplus/" + path, data)
            manifest["files"].append({"path": path, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()})
        made.writestr("periplus/" + MANIFEST, json.dumps(manifest))
    return target


@pytest.mark.slow
def test_what_is_not_sound_in_a_whole_file_is_told_though_no_record_needs_it(shell, tmp_path):
    """It said that every one was verified, and that of bytes that are not what their name stands for."""
    shell("export", "store.zip")
    files = {"objects/ab/" + "0" * 62: b"wrong", "journal/peers/lin_aaaaaaaaaaaaaaaa.json": b"garbage"}
    file = forged(shell.folder / "store.zip", tmp_path / "forged.zip", files)
    wrong = [
        f"unsound  objects/ab/{'0' * 62}, which no record uses: object is damaged: objects/ab/{'0' * 62}: its bytes do not match its name",
        "unsound  journal/peers/lin_aaaaaaaaaaaaaaaa.json, which no record uses: not a valid peer file",
    ]
    (tmp_path / "other").mkdir()
    said = shell("import", file, "--dry-run", cwd=tmp_path / "other").out.splitlines()
    assert sorted(said[1:]) == sorted(wrong)
    document = shell.json("import", file, "--dry-run", cwd=tmp_path / "other")
    assert sorted(one.path for one in document.doubts) == sorted(files)
    made, *said = shell("import", file, cwd=tmp_path / "other").out.splitlines()
    assert made.endswith("13 records, 2 objects, every record verified")
    assert sorted(said[:-1]) == sorted(wrong)
    told = shell("doctor", code=1, cwd=tmp_path / "other").out
    assert told.count("not a valid peer file") == 1
    refused = shell("export", tmp_path / "again.zip", code=3, cwd=tmp_path / "other")
    assert "its bytes do not match its name" in refused.err
    shell("doctor", "--repair", cwd=tmp_path / "other")
    (tmp_path / "other/.periplus/journal/peers/lin_aaaaaaaaaaaaaaaa.json").write_bytes(b"garbage")
    again = shell("export", tmp_path / "again.zip", cwd=tmp_path / "other").out.splitlines()
    assert again[0].endswith("13 records, 1 object, every record verified")
    assert again[1] in wrong
