"""A store that was copied, moved or restored is told from the one that writes, and never writes its lineage."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from periplus.base.clock import SystemClock
from periplus.base.errors import DamageError, NotFoundError
from periplus.base.files import Files
from periplus.journal import create_store
from periplus.journal.care.doctor import examine
from periplus.journal.care.repair import repair
from periplus.journal.checkpoints.creation import WEIGHT_MIN, make_checkpoint, work_due
from periplus.journal.recovery.store_rescue import rescue
from periplus.journal.storage.keys import sign
from support import WRITER, Stop, StoppingFiles, item, make_store, open_journal


def put(number, text):
    return lambda t: t.put("decision", item(number), {"text": text})


@pytest.fixture
def original(tmp_path):
    root = make_store(tmp_path / "original", SystemClock())
    with open_journal(root) as journal:
        for number in range(5):
            journal.mutate(put(number, f"text {number}"), WRITER)
    return root


def copy(root, to):
    shutil.copytree(root, to / ".periplus")
    return os.fspath(to / ".periplus")


def lineage_of(root):
    return json.loads(Path(root, "journal/lineage.json").read_text())["lineage"]


def test_a_copy_begins_a_lineage_before_its_first_write_and_not_sooner(tmp_path, original):
    root = copy(original, tmp_path / "copy")
    before = Path(root, "journal/lineage.json").read_bytes()
    old = lineage_of(root)
    with open_journal(root) as journal:
        assert (journal.lineage, journal.copied_from) == ("", old)
        assert [entity.value["text"] for entity in journal.entities()] == [f"text {number}" for number in range(5)]
        assert Path(root, "journal/lineage.json").read_bytes() == before
        segment = Path(root, "journal", old, "000000000001.jsonl").read_bytes()
        receipt = journal.mutate(put(0, "changed in the copy"), WRITER)
        assert (receipt.first_seq, receipt.lineage == old) == (1, False)
        assert Path(root, "journal", old, "000000000001.jsonl").read_bytes() == segment
        assert journal.get("decision", item(0)).rev == 2
        severities = {problem.severity for problem in examine(journal).problems}
        assert "error" not in severities
    with open_journal(root) as journal:
        assert journal.lineage == receipt.lineage
        assert journal.own.previous == old
        assert journal.mutate(put(1, "again"), WRITER).first_seq == 2
    with open_journal(original) as journal:
        assert journal.lineage == old
        assert journal.mutate(put(1, "in the original"), WRITER).first_seq == 6


def test_the_key_of_the_copied_lineage_is_put_out_of_use(tmp_path, original):
    root = copy(original, tmp_path / "copy")
    old = lineage_of(root)
    with open_journal(root) as journal:
        journal.mutate(put(0, "changed"), WRITER)
        with pytest.raises(NotFoundError):
            sign(journal.layout, old, b"in the name of another")
        assert sign(journal.layout, journal.lineage, b"in our own")
    kept = Path(root, "journal/keys", f"{old}.private.retired")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    with open_journal(original) as journal:
        assert sign(journal.layout, old, b"by its owner")


@pytest.mark.parametrize("field", ["host", "device", "inode", "generation", "file_system"])
def test_host_device_and_inode_each_tell_a_copy(original, field):
    path = Path(original, "journal/lineage.json")
    own = json.loads(path.read_text())
    if field == "generation" and not own[field]:
        pytest.skip("the file system does not tell an inode from a later one of its number")
    others = {"host": "elsewhere", "file_system": "0123456789abcdef"}
    other = {field: others.get(field) or own[field] + 1} | ({"boot": "another start"} if field == "host" else {})
    path.write_text(json.dumps(own | other))
    with open_journal(original) as journal:
        assert journal.copied_from == own["lineage"]
        assert journal.mutate(put(0, "changed"), WRITER).lineage != own["lineage"]


@pytest.mark.parametrize("what", ["the same", "another inode", "no generation", "another generation", "no boot"])
def test_another_name_of_the_machine_is_no_other_machine_as_long_as_it_runs(original, what):
    """As a container sees a folder of its host, or a laptop whose name follows its network."""
    path = Path(original, "journal/lineage.json")
    own = json.loads(path.read_text())
    if not own["generation"]:
        pytest.skip("the file system does not tell an inode from a later one of its number")
    changed = {
        "another inode": {"inode": own["inode"] + 1},
        "no generation": {"generation": 0},
        "another generation": {"generation": own["generation"] ^ 1},
        "no boot": {"boot": ""},
    }
    path.write_text(json.dumps(own | {"host": "elsewhere"} | changed.get(what, {})))
    with open_journal(original) as journal:
        receipt = journal.mutate(put(0, "changed"), WRITER)
        assert (receipt.lineage == own["lineage"]) is (what == "the same")


def may_name_a_machine():
    return (
        shutil.which("unshare") is not None
        and subprocess.run(["unshare", "--uts", "true"], check=False, capture_output=True).returncode == 0
    )


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="a machine's name is changed by root only")
def test_containers_of_one_machine_write_one_store_together(tmp_path, original):
    if (
        not json.loads(Path(original, "journal/lineage.json").read_text())["generation"]
        or shutil.which("unshare") is None
    ):
        pytest.skip("needs unshare, and a file system that tells an inode from a later one of its number")
    writer = tmp_path / "writer.py"
    writer.write_text(WRITES)
    own = lineage_of(original)
    processes = [
        subprocess.Popen(
            ["unshare", "--uts", sys.executable, writer, original, name],
            env=os.environ | {"PYTHONPATH": os.fspath(Path(__file__).parent)},
        )
        for name in ("box1", "box2")
    ]
    assert [process.wait(60) for process in processes] == [0, 0]
    with open_journal(original) as journal:
        assert journal.lineage == own
        assert journal.end().next_seq - 1 == 5 + 2 * 20
        assert not [problem for problem in examine(journal).problems if problem.severity == "error"]


WRITES = """
import socket, sys
from support import WRITER, item, open_journal
root, name = sys.argv[1:]
socket.sethostname(name)
for number in range(20):
    with open_journal(root) as journal:
        journal.mutate(lambda t: t.put("decision", item(100 + number), {"text": name}), WRITER)
"""


def test_a_folder_renamed_on_its_own_file_system_is_no_copy(tmp_path, original):
    old = lineage_of(original)
    os.rename(tmp_path / "original", tmp_path / "renamed")
    with open_journal(os.fspath(tmp_path / "renamed/.periplus")) as journal:
        assert journal.mutate(put(0, "changed"), WRITER).lineage == old


def test_a_restored_backup_does_not_write_the_seqs_that_were_given_away_since(tmp_path, original):
    backup = copy(original, tmp_path / "backup")
    with open_journal(original) as journal:
        lost = journal.mutate(put(7, "after the backup"), WRITER)
    shutil.rmtree(original)
    shutil.copytree(backup, original)
    with open_journal(original) as journal:
        receipt = journal.mutate(put(7, "after the restoring"), WRITER)
        assert receipt.lineage != lost.lineage
        assert journal.end(lost.lineage).next_seq == lost.first_seq


def test_init_in_a_copy_begins_the_lineage_too(tmp_path, original):
    root = copy(original, tmp_path / "copy")
    old = lineage_of(root)
    created = create_store(root, Files(), SystemClock())
    assert (created.is_new, created.lineage == old) == (False, False)
    assert create_store(root, Files(), SystemClock()).lineage == created.lineage
    with open_journal(root) as journal:
        assert journal.mutate(put(0, "changed"), WRITER).lineage == created.lineage


@pytest.mark.parametrize("is_begun", [False, True], ids=["not begun", "begun by init"])
def test_a_copy_whose_records_did_not_come_along_is_damaged_as_its_original_would_be(tmp_path, original, is_begun):
    root = copy(original, tmp_path / "copy")
    old = lineage_of(root)
    for path in Path(root, "journal", old).glob("*.jsonl"):
        path.unlink()
    if is_begun:
        create_store(root, Files(), SystemClock())
    before = Path(root, "journal/lineage.json").read_bytes()
    with open_journal(root) as journal:
        assert "every segment is missing, records 1 to 5" in str(journal.damage)
        assert [entity.value["text"] for entity in journal.entities()] == [f"text {number}" for number in range(5)]
        with pytest.raises(DamageError, match="every segment is missing"):
            journal.mutate(put(0, "over it"), WRITER)
        assert Path(root, "journal/lineage.json").read_bytes() == before
        assert [one.what for one in examine(journal).problems if one.severity == "error"] == [
            "every segment is missing"
        ]
    with open_journal(root) as journal:  # and nothing is forgotten by looking
        repair(journal, WRITER)
        assert journal.damage is not None
        repair(journal, WRITER, sources=[original])
    with open_journal(root) as journal:
        assert not [one for one in examine(journal).problems if one.severity != "note"]
        journal.mutate(put(0, "changed in the copy"), WRITER)
        assert [entity.value["text"] for entity in journal.entities()][1:] == [
            f"text {number}" for number in range(1, 5)
        ]


@pytest.mark.parametrize("what", ["segment", "folder", "end", "segment and index"])
def test_what_a_copy_came_with_is_missed_when_it_is_gone_later(tmp_path, original, what):
    """In a restored store it is most of what there is. None of it is in a file of its own."""
    with open_journal(original) as journal:
        journal.mutate(lambda t: t.put("note", item(1, "not"), {"text": "in no file"}), WRITER)
    root = copy(original, tmp_path / "copy")
    old = lineage_of(root)
    with open_journal(root) as journal:
        journal.mutate(put(9, "in the copy"), WRITER)
    folder = Path(root, "journal", old)
    segment = folder / "000000000001.jsonl"
    if what == "folder":
        folder.rename(tmp_path / "away")
    elif what == "end":
        segment.write_bytes(b"".join(segment.read_bytes().splitlines(keepends=True)[:-2]))
    else:
        segment.rename(tmp_path / "away")
    if what == "segment and index":
        Path(root, "index.sqlite").unlink()
    for _ in range(2):  # and nothing is forgotten by looking
        with open_journal(root) as journal:
            assert "records 5 to 6" in str(journal.damage) if what == "end" else "records 1 to 6" in str(journal.damage)
            with pytest.raises(DamageError, match="missing"):
                journal.mutate(put(9, "over it"), WRITER)
            assert examine(journal).exit_code == 3
    with open_journal(root) as journal:
        repair(journal, WRITER, sources=[original])
    with open_journal(root) as journal:
        assert not [one for one in examine(journal).problems if one.severity != "note"]
        assert journal.get("note", item(1, "not")).value == {"text": "in no file"}
        journal.mutate(put(9, "goes on"), WRITER)


def test_a_segment_that_a_link_leads_to_is_in_its_place_when_the_link_is_parked(tmp_path, original):
    root = copy(original, tmp_path / "copy")
    segment = Path(root, "journal", lineage_of(root), "000000000001.jsonl")
    with open_journal(root) as journal:
        journal.mutate(put(9, "in the copy"), WRITER)
    segment.rename(tmp_path / "elsewhere")
    segment.symlink_to(tmp_path / "elsewhere")
    rescue(root, Files(), SystemClock())
    with open_journal(root) as journal:
        repair(journal, WRITER)
    assert not segment.is_symlink()
    assert segment.read_bytes() == (tmp_path / "elsewhere").read_bytes()
    with open_journal(root) as journal:
        assert not [one for one in examine(journal).problems if one.severity != "note"]


@pytest.mark.parametrize("cut", [1, 40, 200])
def test_a_copy_taken_while_it_was_written_is_a_valid_prefix(tmp_path, original, cut):
    """Fault 37: the mark may have been copied after records that were not."""
    root = copy(original, tmp_path / "copy")
    segment = Path(root, "journal", lineage_of(root), "000000000001.jsonl")
    segment.write_bytes(segment.read_bytes()[:-cut])
    with open_journal(root) as journal:
        assert journal.damage is None
        assert [entity.value["text"] for entity in journal.entities()] == [f"text {number}" for number in range(4)]
        journal.mutate(put(9, "goes on"), WRITER)
        assert "error" not in {problem.severity for problem in examine(journal).problems}


@pytest.mark.slow
def test_a_stop_at_every_call_of_a_copys_first_write(tmp_path, original):
    for at in range(100):
        root = copy(original, tmp_path / f"copy{at}")
        old = lineage_of(root)
        files = StoppingFiles(at)
        try:
            with open_journal(root, files) as journal:
                journal.mutate(put(0, "changed"), WRITER)
        except Stop:
            pass
        else:
            assert at > 10
            break
        with open_journal(root) as journal:
            assert journal.damage is None
            receipt = journal.mutate(put(1, "after the stop"), WRITER)
            assert receipt.lineage != old
            assert journal.end(old).next_seq == 6
            assert journal.get("decision", item(1)).value == {"text": "after the stop"}
            assert "error" not in {problem.severity for problem in examine(journal).problems}
    else:
        pytest.fail("there is no end to the calls")


FIRST_WRITE = """
import sys
sys.path[:0] = {paths!r}
from support import WRITER, item, open_journal
with open_journal({root!r}) as journal:
    print("open", flush=True)
    sys.stdin.readline()
    for number in range(20):
        print(journal.mutate(lambda t: t.put("decision", item({base} + number), {{"text": "x"}}), WRITER).lineage)
"""


def test_two_processes_that_opened_a_copy_begin_one_lineage(tmp_path, original):
    root = copy(original, tmp_path / "copy")
    paths = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "src")]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", FIRST_WRITE.format(paths=paths, root=root, base=base)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for base in (100, 200)
    ]  # fmt: skip
    for process in processes:
        assert process.stdout.readline() == "open\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    written = [process.communicate(timeout=60)[0].split() for process in processes]
    assert [len(lines) for lines in written] == [20, 20]
    assert len({*written[0], *written[1]}) == 1


def test_the_checkpoint_of_the_store_that_was_copied_serves_the_copy(tmp_path):
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        journal.mutate(lambda t: t.put("decision", item(1), {"text": "one"}), WRITER)
        make_checkpoint(journal, WRITER)
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    with open_journal(os.fspath(copy)) as journal:
        journal.mutate(lambda t: t.put("decision", item(2), {"text": "two"}), WRITER)
        assert not [one for one in examine(journal).problems if "checkpoint" in one.what]
        expected = [entity.payload for entity in journal.entities()]
    (copy / "index.sqlite").unlink()
    with open_journal(os.fspath(copy)) as journal:
        assert journal.index.has_floors
        assert [entity.payload for entity in journal.entities()] == expected


@pytest.fixture
def subvolumes(tmp_path):
    """A small Btrfs: its folder, and what mounts it anew."""
    if os.geteuid() != 0 or shutil.which("mkfs.btrfs") is None:
        pytest.skip("needs root and mkfs.btrfs")
    image, folder = tmp_path / "image", tmp_path / "disk"
    with image.open("wb") as file:
        file.truncate(400 << 20)
    subprocess.run(["mkfs.btrfs", "-q", os.fspath(image)], check=True, capture_output=True)
    folder.mkdir()

    def mount():
        done = subprocess.run(
            ["mount", "-o", "loop", os.fspath(image), os.fspath(folder)], capture_output=True, text=True
        )
        if done.returncode:
            pytest.skip(f"no loop device can be mounted here: {done.stderr.strip()}")

    def unmount():
        subprocess.run(["umount", os.fspath(folder)], check=True)

    def again():
        unmount()
        mount()

    mount()
    try:
        yield folder, again
    finally:
        unmount()


@pytest.mark.rig
def test_a_snapshot_is_a_copy_and_its_original_is_none_whatever_numbers_they_have(subvolumes):
    disk, mount_again = subvolumes
    original, snapshot = disk / "original", disk / "snapshot"
    subprocess.run(["btrfs", "subvolume", "create", os.fspath(original)], check=True, capture_output=True)
    root, copied = make_store(original), os.fspath(snapshot / ".periplus")
    with open_journal(root) as journal:
        journal.mutate(put(1, "before"), WRITER)
    subprocess.run(
        ["btrfs", "subvolume", "snapshot", os.fspath(original), os.fspath(snapshot)], check=True, capture_output=True
    )
    with open_journal(root) as journal:
        journal.mutate(put(2, "in the original"), WRITER)
    own = lineage_of(root)
    mount_again()
    os.listdir(
        snapshot
    )  # numbers go to who comes first: it has that of the original now, unless another disk was mounted meanwhile
    with open_journal(copied) as journal:
        assert journal.copied_from == own
        assert journal.mutate(put(2, "in the snapshot"), WRITER).lineage != own
    with open_journal(root) as journal:
        assert not journal.copied_from
        receipt = journal.mutate(put(3, "in the original"), WRITER)
        assert (receipt.lineage, receipt.first_seq) == (own, 3)
        assert examine(journal).exit_code == 0


def test_one_record_that_is_missing_is_no_range(tmp_path):
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        for number in range(2):
            journal.mutate(put(number, f"text {number}"), WRITER)
            journal.roll()
        own = journal.reader(journal.lineage)
        paths = [own.path_of(first) for first in own.segments()]
    os.unlink(paths[1])
    with open_journal(root) as journal:
        assert "missing, record 2: neither here nor in archive/" in str(journal.damage)


def test_a_copy_makes_checkpoints_of_its_own_and_begins_at_its_newest(tmp_path):
    """Those of before were counted as its own by their higher seqs: for as many records it made none."""
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        for number in range(60):
            journal.mutate(lambda t, n=number: t.put("decision", item(1), {"n": n}), WRITER, project=False)
        before = make_checkpoint(journal, WRITER)
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    with open_journal(os.fspath(copy)) as journal:
        for number in range(25):
            text = f"{number}" * 30_000
            journal.mutate(lambda t, n=number, text=text: t.put("decision", item(100 + n), {"text": text}), WRITER)
        assert work_due(journal) > WEIGHT_MIN
        made = make_checkpoint(journal, WRITER)
        assert made.seq < before.seq
        assert not work_due(journal)
        own, expected = journal.lineage, [(entity.item_id, entity.version) for entity in journal.entities()]
    (copy / "index.sqlite").unlink()
    with open_journal(os.fspath(copy)) as journal:
        assert journal.index.floors()[own] == made.seq + 1
        assert [(entity.item_id, entity.version) for entity in journal.entities()] == expected
