"""A damaged store: what is left of it is read, written to a file, and completed elsewhere; nothing passes for whole."""

from __future__ import annotations

import json
import os
import re
import shutil
import zipfile

import pytest

from cli_support import Shell, claude_session, fill
from periplus.base.errors import FormatError, RefusedError
from periplus.journal import Writer
from periplus.journal.exchange.package import MANIFEST
from periplus.project import Project
from test_package import rewritten

RECORD = re.compile(rb'\{"v":\d+,"seq":(\d+),')


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store of five segments, two of them in the archive, two checkpoints, a trail with its objects; and a sound copy."""
    top = tmp_path_factory.mktemp("made")
    home, folder = top / "home", top / "engine"
    home.mkdir()
    folder.mkdir()
    shell = Shell(folder, home)
    fill(shell)
    config = folder / ".periplus/config.toml"
    config.write_text(config.read_text() + "segment_bytes = 4000\nlive_segments = 1\n")

    def compact():
        with Project.open(os.fspath(folder), Writer("ada", "who_0000000000000000", "", 1)) as project:
            project.compact()

    fill(shell, *(f"note number {number} about the engine" for number in range(18)))
    claude_session(folder / "run.jsonl", steps=3)
    shell("trail", "import", "run.jsonl")
    compact()
    fill(shell, *(f"note number {number} about the engine" for number in range(18, 24)))
    compact()
    fill(shell, *(f"note number {number} about the engine" for number in range(24, 34)))
    assert "sound" in shell("doctor").out
    return folder


def segments(root):
    found = sorted((root / ".periplus/journal").glob("lin_*/**/0*.jsonl"), key=lambda path: path.name)
    assert len(found) >= 5
    return found


def placed(made, tmp_path):
    """The store itself in another place, not a copy of it: the file that tells one from the other is the same."""
    folder = tmp_path / "engine"
    shutil.copytree(made, folder)
    identity = folder / ".periplus/journal/lineage.json"
    identity.unlink()
    os.link(made / ".periplus/journal/lineage.json", identity)
    (tmp_path / "home").mkdir()
    return Shell(folder, tmp_path / "home")


def lines_in(data):
    """The records whose bytes are whole, by seq: found by themselves, with no help of what is tested."""
    from periplus.base.errors import FormatError
    from periplus.journal.records.record import decode_line

    found = {}
    for line in data.split(b"\n"):
        mark = RECORD.match(line)
        if mark:
            try:
                decode_line(line)
            except FormatError:
                continue
            found[int(mark[1])] = line
    return found


def changed(path, at, count=1):
    data = bytearray(path.read_bytes())
    for place in range(at, at + count):
        data[place] ^= 1
    path.write_bytes(data)


def cut_in_the_middle(path):
    data = path.read_bytes()
    end = data.index(b"\n", len(data) // 2)
    path.write_bytes(data[: end - 40] + data[end:])


def newest_object(root):
    return max((root / ".periplus/objects").glob("??/*"), key=lambda path: path.stat().st_size)


# What is done to the store, and whether records are missing then.
DAMAGE = {
    "first segment": (lambda root: segments(root)[0].unlink(), True),
    "middle segment": (lambda root: segments(root)[2].unlink(), True),
    "newest segment": (lambda root: segments(root)[-1].unlink(), True),
    "archive": (lambda root: shutil.rmtree(segments(root)[0].parent), True),
    "every segment": (lambda root: [path.unlink() for path in segments(root)], True),
    "the lineage": (lambda root: [shutil.rmtree(path) for path in (root / ".periplus/journal").glob("lin_*")], True),
    "record cut": (lambda root: cut_in_the_middle(segments(root)[2]), True),
    "newest cut short": (lambda root: os.truncate(segments(root)[-1], segments(root)[-1].stat().st_size * 2 // 3), True),
    "byte flipped": (lambda root: changed(segments(root)[-2], 2000), True),
    "header flipped": (lambda root: changed(segments(root)[3], 20), False),
    "two places": (lambda root: [changed(segments(root)[at], 2000, 3) for at in (0, 3)], True),
    "object missing": (lambda root: newest_object(root).unlink(), False),
    "object flipped": (lambda root: changed(newest_object(root), 60, 2), False),
}  # fmt: skip
DERIVED = {
    "checkpoints": lambda root: shutil.rmtree(root / ".periplus/journal/checkpoints"),
    "newest checkpoint flipped": lambda root: changed(max((root / ".periplus/journal/checkpoints").iterdir()), 500),
    "index": lambda root: (root / ".periplus/index.sqlite").write_bytes(b"x" * 9000),
    "durable mark": lambda root: (root / ".periplus/journal/durable").unlink(),
}


def told_ranges(document):
    return sorted({seq for one in document.missing for seq in range(one.first_seq, one.last_seq + 1)})


def test_status_names_the_newest_segment_where_it_is_gone(made, tmp_path):
    shell = placed(made, tmp_path)
    newest = segments(shell.folder)[-1]
    newest.unlink()
    told = shell.json("status", code=3)
    assert not told.sound
    assert os.fspath(newest) in told.damage


@pytest.mark.parametrize("index", ["index", pytest.param("no index", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", DAMAGE)
def test_what_is_left_is_read_and_saved_and_completed(made, tmp_path, kind, index):
    damage, is_missing = DAMAGE[kind]
    shell = placed(made, tmp_path)
    root = shell.folder
    all_of_it = {seq: line for path in segments(root) for seq, line in lines_in(path.read_bytes()).items()}
    damage(root)
    if index == "no index":
        (root / ".periplus/index.sqlite").unlink()
    paths = list((root / ".periplus/journal").glob("lin_*/**/0*.jsonl"))
    standing = {seq: line for path in paths for seq, line in lines_in(path.read_bytes()).items()}
    missing = sorted(all_of_it.keys() - standing.keys())
    assert bool(missing) == is_missing

    # Plain reading serves the rest.
    for seq, line in list(standing.items())[:: max(1, len(standing) // 3)]:
        held = json.loads(line)
        if held["action"] == "create":
            assert held["payload"]["text"] in shell("show", held["item_id"]).out, seq
    if any(b"note number" in line for line in standing.values()):
        assert "note number" in shell("recall", "engine").out
    logged = {record.seq for record in shell.json("log", "--limit", "1000", "--lineage", "all").records}
    assert standing.keys() <= logged

    # Plain export refuses and names the option; the option writes every sound record as it is.
    assert "export --damaged" in shell.fails("export", "x.zip", code=3, wrong="Nothing was written.").err
    assert not (root / "x.zip").exists()
    document = shell.json("export", "left.zip", "--damaged", code=3)
    assert told_ranges(document) == missing
    assert document.missing or document.flaws
    with zipfile.ZipFile(root / "left.zip") as archive:
        names = archive.namelist()
        held = {seq: line for name in names if name.endswith(".jsonl") and "/lin_" in name
                for seq, line in lines_in(archive.read(name)).items()}  # fmt: skip
        assert held == standing
        manifest = json.loads(archive.read("periplus/" + MANIFEST))
    assert manifest["format"] == 2
    assert document.records == len(standing)
    assert "private" not in "".join(names)

    # Nothing is made of it that was not asked for; what is shows the same damage.
    other = tmp_path / "other"
    refused = shell.fails("import", "left.zip", other, code=5, wrong="only the remains of a damaged store")
    assert "--damaged" in refused.err
    assert f"`periplus doctor --repair --from {shell.folder / 'left.zip'}`" in refused.err
    assert not other.exists()
    assert "nothing was created" in shell("import", "left.zip", other, "--damaged", "--dry-run", code=3).out
    assert not other.exists()
    assert told_ranges(shell.json("import", "left.zip", other, "--damaged", code=3)) == missing
    found = shell.json("doctor", cwd=other, code=3)
    assert any(problem.severity == "error" for problem in found.problems)
    if missing:
        status = shell.json("status", cwd=other, code=3)
        assert not status.sound
    for held in map(json.loads, standing.values()):
        if held["action"] == "create" and held["seq"] % 7 == 0:
            assert held["payload"]["text"] in shell("show", held["item_id"], cwd=other).out

    # Another copy completes it.
    assert "sound" in shell("doctor", "--repair", "--from", made, cwd=other).out
    assert shell.json("status", cwd=other).sound
    now = {
        seq: line
        for path in (other / ".periplus/journal").glob("lin_*/**/0*.jsonl")
        for seq, line in lines_in(path.read_bytes()).items()
    }
    assert now == all_of_it
    shell("remember", "it goes on", "--type", "note", cwd=other)
    shell("export", "whole.zip", cwd=other)


@pytest.mark.parametrize("kind", DERIVED)
def test_what_is_derived_may_be_gone(made, tmp_path, kind):
    shell = placed(made, tmp_path)
    DERIVED[kind](shell.folder)
    assert "note number 3 " in shell("recall", "note number 3").out
    shell("log")
    shell("export", "whole.zip")
    assert "intact: " in shell("import", "whole.zip", tmp_path / "other", "--dry-run").out
    document = shell.json("export", "left.zip", "--damaged", code=3 if "flipped" in kind else 0)
    assert not document.missing
    assert [flaw.path.split("/")[1] for flaw in document.flaws] == ["checkpoints"] * len(document.flaws)
    assert bool(document.flaws) == ("flipped" in kind)
    shell.json("import", "left.zip", tmp_path / "other", "--damaged", code=3 if "flipped" in kind else 0)
    assert shell.json("status", cwd=tmp_path / "other").sound


@pytest.mark.parametrize("data", [b"", b'{"lin', b"\0" * 300])
def test_who_writes_here_cannot_be_read_and_all_else_can(made, tmp_path, data):
    shell = placed(made, tmp_path)
    path = shell.folder / ".periplus/journal/lineage.json"
    path.unlink()
    path.write_bytes(data)
    assert "note number 3 " in shell("recall", "note number 3").out
    assert len(shell.json("log", "--limit", "1000", "--lineage", "all").records) == 37
    status = shell("status", code=3)
    assert "damaged" in status.out
    assert "lineage.json" in status.out
    shell.fails("remember", "nothing is written", code=3, wrong="lineage.json")
    shell.fails("sync", "--with", tmp_path / "home", code=3, wrong="lineage.json")
    assert path.read_bytes() == data
    assert "export --damaged" in shell.fails("export", "x.zip", code=3, wrong="lineage.json").err
    document = shell.json("export", "left.zip", "--damaged", code=3)
    assert (document.missing, document.records) == ([], 37)
    assert any("lineage.json" in flaw.path or "lineage.json" in flaw.what for flaw in document.flaws)
    shell("import", "left.zip", tmp_path / "other", "--damaged", code=3)
    assert "sound" in shell("doctor", cwd=tmp_path / "other").out
    shell("doctor", "--repair", code=1)
    shell("remember", "it goes on", "--type", "note")


def test_a_sound_store_is_written_whole_in_any_case(made, tmp_path):
    shell = placed(made, tmp_path)
    document = shell.json("export", "all.zip", "--damaged")
    assert (document.missing, document.flaws) == ([], [])
    with zipfile.ZipFile(shell.folder / "all.zip") as archive:
        manifest = json.loads(archive.read("periplus/" + MANIFEST))
    assert sorted(manifest) == ["files", "format", "heads", "lineage", "made", "store"]
    assert manifest["format"] == 1
    shell("import", "all.zip", tmp_path / "other")


@pytest.mark.slow
def test_two_rests_complete_each_other(made, tmp_path):
    shell = placed(made, tmp_path)
    root = shell.folder
    whole = segments(root)[1].read_bytes()
    kept = tmp_path / "first"
    shutil.move(segments(root)[0], kept)
    shell("export", "one.zip", "--damaged", code=3)
    place = root / ".periplus/journal" / next((root / ".periplus/journal").glob("lin_*")).name
    shutil.move(kept, place / "archive" / "000000000001.jsonl")
    changed(segments(root)[1], 2000, 3)
    changed(newest_object(root), 60, 2)
    shell("export", "two.zip", "--damaged", code=3)
    shell("import", "two.zip", tmp_path / "other", "--damaged", code=3)

    # Without the other: what can be read stays so, nothing is given up, and again what is left can be written.
    alone = shell("doctor", "--repair", cwd=tmp_path / "other", code=3)
    assert "cannot be read" in alone.out
    again = shell.json("export", "again.zip", "--damaged", cwd=tmp_path / "other", code=3)
    assert told_ranges(again) == told_ranges(
        shell.json("import", "two.zip", tmp_path / "x", "--damaged", "--dry-run", code=3)
    )
    shell("doctor", "--repair", "--from", root / "one.zip", cwd=tmp_path / "other")
    assert "sound" in shell("doctor", cwd=tmp_path / "other").out
    assert segments(tmp_path / "other")[1].read_bytes() == whole
    assert not list((tmp_path / "other").glob("**/*.tmp"))

    # And the store that the damage is in.
    assert "sound" in shell("doctor", "--repair", "--from", "one.zip").out
    assert segments(root)[1].read_bytes() == whole
    assert shell.json("status").copied_from == ""
    assert not list(root.glob("**/*.tmp"))


def test_what_is_missing_is_remembered_until_it_is_there(made, tmp_path):
    """What is cut off a lineage's end leaves no gap: the statement of the file stands in for it."""
    shell, other = placed(made, tmp_path), tmp_path / "other"
    segments(shell.folder)[-1].unlink()
    shell("export", "left.zip", "--damaged", code=3)
    shell("import", "left.zip", other, "--damaged", code=3)
    statement = next(other.glob(".periplus/journal/lin_*/missing.json"))
    said = json.loads(statement.read_bytes())
    assert (said["size"], said["missing"]) == (37, [[32, 37]])
    assert "32" in shell("status", cwd=other, code=3).out
    shell.fails("remember", "not beside what is missing", cwd=other, code=3, wrong="missing")
    for at in range(0, statement.stat().st_size, 7):
        before = statement.read_bytes()
        changed(statement, at)
        found = shell.json("doctor", cwd=other, code=1) if at % 35 == 0 else None
        assert found is None or os.fspath(statement) in [problem.path for problem in found.problems]
        statement.write_bytes(before)
    done = shell("doctor", "--repair", "--from", made, cwd=other)
    assert "no record is missing any more" in done.out
    assert not statement.exists()


def test_present_state_that_a_checkpoint_has_is_served(made, tmp_path):
    shell, other = placed(made, tmp_path), tmp_path / "other"
    entities = shell.json("status").entities
    shutil.rmtree(segments(shell.folder)[0].parent)
    shell("export", "left.zip", "--damaged", code=3)
    shell("import", "left.zip", other, "--damaged", code=3)
    status = shell.json("status", cwd=other, code=3)
    assert status.entities == entities
    assert not status.sound
    assert "1 to " in status.damage
    assert "note number 3 " in shell("recall", "note number 3", cwd=other).out


@pytest.mark.parametrize("which", [1, 3, -1])
def test_what_the_disk_does_not_give_back(made, tmp_path, which, monkeypatch):
    from test_bad_sectors import BadDisk

    shell = placed(made, tmp_path)
    path = segments(shell.folder)[which]
    sound = lines_in(path.read_bytes())
    bad = range(1024, 1536)
    (shell.folder / ".periplus/index.sqlite").unlink()
    BadDisk(path, bad, monkeypatch)
    with Project.open(os.fspath(shell.folder), Writer("ada", "who_0000000000000000", "", 1)) as project:
        found = project.export(os.fspath(shell.folder / "left.zip"), damaged=True)
    told = {seq for one in found.missing for seq in range(one.first_seq, one.last_seq + 1)}
    assert told
    assert told <= sound.keys()
    assert {"Input/output error" in one.why for one in found.missing} == {True}
    with zipfile.ZipFile(shell.folder / "left.zip") as archive:
        name = next(name for name in archive.namelist() if name.endswith(path.name) and "lin_" in name)
        assert lines_in(archive.read(name)) == {seq: line for seq, line in sound.items() if seq not in told}


LIES = {
    "less is missing than is": lambda manifest: manifest["missing"].pop(),
    "another range": lambda manifest: manifest["missing"][0].update(last_seq=manifest["missing"][0]["first_seq"]),
    "fewer records": lambda manifest: [head.update(size=head["size"] - 1) for head in manifest["heads"]],
    "it is whole": lambda manifest: manifest.update(format=1),
    "it is whole, and nothing is said": lambda manifest: (
        manifest.pop("missing"), manifest.pop("flaws"), manifest.update(format=1)),
    "not whole, and nothing is said": lambda manifest: (manifest.pop("missing"), manifest.pop("flaws")),
    "no head": lambda manifest: manifest["heads"].clear(),
    "a root": lambda manifest: [head.update(root="00" * 32) for head in manifest["heads"]],
    "a later format": lambda manifest: manifest.update(format=3),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_a_manifest_that_says_another_thing_than_the_records(made, tmp_path, lie):
    shell = placed(made, tmp_path)
    changed(segments(shell.folder)[2], 2000, 3)
    segments(shell.folder)[0].unlink()
    shell("export", "left.zip", "--damaged", code=3)

    def change(name, data):
        if not name.endswith(MANIFEST):
            return data
        manifest = json.loads(data)
        LIES[lie](manifest)
        return json.dumps(manifest, separators=(",", ":"), sort_keys=True).encode()

    bad = rewritten(shell.folder / "left.zip", tmp_path / "bad.zip", change)
    place = tmp_path / "place"
    place.mkdir()
    with pytest.raises(FormatError):
        Project.import_from(os.fspath(bad), os.fspath(place), damaged=True)
    assert os.listdir(place) == []
    with pytest.raises(RefusedError, match="remains of a damaged store"):
        Project.import_from(os.fspath(shell.folder / "left.zip"), os.fspath(place))
    assert os.listdir(place) == []
