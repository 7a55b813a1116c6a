"""What doctor says of the surroundings: who holds the lock, which keys fit, what has taken a file's place, how much it needs."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from periplus.base.clock import SystemClock
from periplus.base.errors import DamageError, OutcomeUnknownError
from periplus.base.files import Files
from periplus.base.ids import new_id
from periplus.base.process.locks import Lock, holder_of, sign
from periplus.journal.care.doctor import examine
from periplus.journal.care.repair import repair
from periplus.journal.projections.external_edits import take_in
from periplus.journal.proofs.proof_file import prove_record
from periplus.journal.records.record import decode_line, encode_line
from periplus.journal.recovery.store_rescue import rescue
from periplus.journal.storage.lineage import encode_durable
from support import PEAK, WRITER, FailingFiles, Stop, item, make_store, open_journal, segment_path


class LaterClock(SystemClock):
    """A minute ahead."""

    def now_ms(self) -> int:
        return super().now_ms() + 61_000


def put(journal, number):
    journal.mutate(lambda t: t.put("decision", item(number), {"text": f"number {number}"}), WRITER)


@pytest.fixture
def root(tmp_path):
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        put(journal, 1)
    return root


def test_who_holds_the_lock_for_long_is_named(root):
    path = os.path.join(root, "journal", "lock")
    assert holder_of(path) is None
    with Lock(path).holding():
        with open_journal(root) as journal:
            assert examine(journal).problems == []  # a moment is what a write takes
        with open_journal(root, clock=LaterClock()) as journal:
            (found,) = examine(journal).problems
    assert (found.severity, found.path) == ("warning", path)
    assert str(os.getpid()) in found.what
    with open_journal(root, clock=LaterClock()) as journal:
        assert examine(journal).problems == []
    assert holder_of(os.path.join(root, "nothing")) is None


def test_who_keeps_everybody_from_keeping_objects_is_named(root):
    path = os.path.join(root, "objects", "door.lock")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(fd, fcntl.LOCK_EX)
    sign(fd)
    with open_journal(root) as journal:
        assert examine(journal).problems == []
    with open_journal(root, clock=LaterClock()) as journal:
        (found,) = examine(journal).problems
    assert (found.severity, found.path) == ("warning", path)
    assert found.what.startswith(f"objects are being removed by {os.getpid()} ")
    os.close(fd)
    with open_journal(root, clock=LaterClock()) as journal:
        assert examine(journal).problems == []


def test_a_version_that_no_record_holds_is_told_where_one_was_made_from_it(root):
    """A record of ours, its checksum right, that names what never was."""
    with open_journal(root) as journal:
        put(journal, 1)
        path = segment_path(journal)
    record, _ = decode_line(path.read_bytes().splitlines()[-1])
    forged = msgspec.structs.replace(record, seq=3, durable=2, parents=("0" * 64,), key="")
    with path.open("ab") as file:
        file.write(encode_line(forged)[0])
    with open_journal(root) as journal:
        found = examine(journal)
    (told,) = [one for one in found.problems if one.severity == "error"]
    assert told.what == "version 000000000000 is a parent, but no record holds it"
    assert (told.path, told.seq, found.exit_code) == (str(path), 3, 3)


def test_a_private_key_that_is_not_this_lineages_is_told(root):
    path = next(Path(root, "journal", "keys").glob("*.private"))
    public = path.with_suffix(".public").read_bytes()
    path.write_text("11" * 32 + "\n")
    with open_journal(root) as journal:
        told = [one.path for one in examine(journal).problems]
    assert told == [os.fspath(path)]
    path.unlink()
    with open_journal(root) as journal:
        assert [one.path for one in examine(journal).problems] == [os.fspath(path)]
    assert path.with_suffix(".public").read_bytes() == public


def test_a_private_key_that_others_can_read_is_told(root):
    path = next(Path(root, "journal", "keys").glob("*.private"))
    for mode in (0o640, 0o604):
        path.chmod(mode)
        with open_journal(root) as journal:
            (told,) = examine(journal).problems
        assert (told.severity, told.what, told.path) == (
            "warning",
            "a private key that others can read",
            os.fspath(path),
        )
        assert told.mend == f"chmod 600 {path}"
    path.chmod(0o600)
    path.with_suffix(".public").chmod(0o644)
    with open_journal(root) as journal:
        assert examine(journal).problems == []


def test_a_signature_tells_which_key_is_right(root):
    path = next(Path(root, "journal", "keys").glob("*.public"))
    good = path.read_bytes()
    with open_journal(root) as journal:
        prove_record(journal, 1)
    path.write_text("11" * 32 + "\n")
    with open_journal(root) as journal:
        assert [one.path for one in examine(journal).problems] == [os.fspath(path)]
    assert len(rescue(root, Files(), SystemClock())) == 1
    assert path.read_bytes() == good
    with open_journal(root) as journal:
        assert examine(journal).problems == []


def test_what_a_killed_write_left_is_told_wherever_it_lies(root):
    left = [
        Path(root, folder, ".name.json.1.01234567.tmp")
        for folder in ("journal", "entities/decision", "cursors", "objects/ab")
    ]
    for path in left:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"half")
    with open_journal(root) as journal:
        found = examine(journal)
    assert {(one.severity, one.what, one.path) for one in found.problems} == {
        ("note", "a temporary file of an interrupted write; it is not used", os.fspath(path)) for path in left
    }
    assert found.exit_code == 0


def test_a_mark_of_another_record_than_the_one_that_is_there_is_told(root):
    """The last record was exchanged for one whose checksum holds: what was acknowledged is gone."""
    with open_journal(root) as journal:
        path, end = segment_path(journal), journal.end()
        mark = encode_durable(journal.lineage, end, b"\1" * 32)
    Path(root, "journal", "durable").write_bytes(mark)
    with open_journal(root) as journal:
        found = examine(journal)
    (told,) = [one for one in found.problems if one.severity == "error"]
    assert (told.what, told.path, told.seq) == (
        "the last durable record differs from the one acknowledged",
        os.fspath(path),
        1,
    )
    assert path.read_bytes()[told.offset :].startswith(b'{"v":2,"seq":1,')
    assert found.exit_code == 3


@pytest.mark.rig
@pytest.mark.skipif(
    sys.platform != "linux" or os.getuid() != 0, reason="a table of mounts of its own has root only, and on Linux"
)
@pytest.mark.parametrize(("kind", "code"), [("nfs4", 1), ("fuse.sshfs", 1), ("ext4", 0)])
def test_a_network_file_system_is_warned_of(root, tmp_path, kind, code):
    """As the system would tell it: nothing of the network is mounted here."""
    table = tmp_path / "mountinfo"
    table.write_text(f"1 1 0:1 / / rw shared:1 - {kind} source rw\n")
    script = 'mount --make-rprivate / && mount --bind "$0" /proc/$$/mountinfo && exec "$@"'
    command = [
        "unshare",
        "-m",
        "sh",
        "-c",
        script,
        table,
        sys.executable,
        "-m",
        "periplus",
        "doctor",
        "--json",
        "--store",
        root,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:
        pytest.skip(f"no mounts may be made here: {done.stderr.strip()}")
    told = [one["what"] for one in json.loads(done.stdout)["problems"]]
    assert (done.returncode, told) == (
        code, [f"the store lies on a network file system ({kind}): locks may not hold between machines"] * code
    )  # fmt: skip


def test_a_segment_whose_sync_failed_is_told_until_another_was_begun_and_after(root):
    with open_journal(root, FailingFiles("sync_data", errno.EIO)) as journal:
        with pytest.raises(OutcomeUnknownError):
            put(journal, 2)
        marker = f"{segment_path(journal)}.poisoned"
    what = "a sync of this segment failed: nothing is written to it any more, a new one"
    with open_journal(root) as journal:
        (told,) = [one for one in examine(journal).problems if one.severity != "note"]
        assert (told.severity, told.what, told.path, told.mend) == (
            "warning", f"{what} is begun by the next write", marker, "Check the disk.",
        )  # fmt: skip
        put(journal, 3)
        found = examine(journal)
        assert [(one.severity, one.what, one.path) for one in found.problems] == [("note", f"{what} was begun", marker)]
        assert found.exit_code == 0
        assert [journal.get("decision", item(number)) is not None for number in (1, 2, 3)] == [True] * 3


class KilledBeforeSync(Files):
    def sync_data(self, fd):
        raise Stop


def test_what_killed_writers_had_not_synced_makes_no_file_wrong(root):
    """`doctor` ended with 1 for files that "hold an older version", and said that `status` would write them anew, which waits for the sync."""
    with open_journal(root) as journal:
        put(journal, 2)
        paths = [journal.layout.entity_file("decision", item(number)) for number in (1, 2, 3)]
    for change in (
        lambda t: t.put("decision", item(1), {"text": "changed"}),
        lambda t: t.delete("decision", item(2)),
        lambda t: t.put("decision", item(3), {"text": "new"}),
    ):
        with open_journal(root, KilledBeforeSync()) as journal, pytest.raises(Stop):
            journal.mutate(change, WRITER)
    what = "the file lacks changes that are not known to be durable yet"
    with open_journal(root) as journal:
        found = examine(journal)
        assert {one.path: one.what for one in found.problems if one.path in paths} == dict.fromkeys(paths, what)
        assert (found.exit_code, {one.severity for one in found.problems}) == (0, {"note"})
        Path(paths[0]).write_text("{}")
        assert [one.path for one in examine(journal).problems if one.severity == "warning"] == paths[:1]
        Path(paths[0]).unlink()
        assert [one.path for one in examine(journal).problems if one.severity == "warning"] == paths[:1]
        put(journal, 4)
        take_in(journal)
        assert examine(journal).problems == []
        assert [os.path.exists(path) for path in paths] == [True, False, True]


def test_repair_writes_no_header_for_settings_of_another_store(root):
    config = Path(root, "config.toml")
    with open_journal(root) as journal:
        own, segment = journal.store_id, segment_path(journal)
    data = segment.read_bytes()
    config.write_text(config.read_text().replace(own, new_id("str")))
    with open_journal(root) as journal:
        assert examine(journal).problems[0].severity == "error"
        with pytest.raises(DamageError, match="the settings name store"):
            repair(journal, WRITER)
    assert segment.read_bytes() == data
    assert [one.path for one in rescue(root, Files(), SystemClock())] == [os.fspath(config)]
    with open_journal(root) as journal:
        assert journal.store_id == own
        assert examine(journal).exit_code == 0


def test_a_bare_pipe_in_a_files_place_is_parked(root):
    path = Path(root, "journal", "durable")
    path.unlink()
    os.mkfifo(path)
    with open_journal(root) as journal:
        assert os.fspath(path) in {one.path for one in examine(journal).problems}
    rescue(root, Files(), SystemClock())
    with open_journal(root) as journal:
        repair(journal, WRITER)
        assert examine(journal).problems == []
        put(journal, 2)
    assert path.is_file()


MEASURE = """
import sys
sys.path[:0] = sys.argv[2:]
from support import open_journal
from periplus.journal.care.doctor import examine
from periplus.journal.storage.lineage import encode_durable
with open_journal(sys.argv[1]) as journal:
    examine(journal)
print(peak_bytes())
"""


@pytest.mark.slow
def test_examining_does_not_hold_the_payloads(tmp_path):
    """Two stores of as many records and entities, one with fifteen times the content: the peaks differ by far less than that."""
    peaks, sizes = [], []
    for size in (200, 6_000):
        root = make_store(tmp_path / str(size))
        config = Path(root, "config.toml")
        config.write_text(config.read_text() + "segment_bytes = 500000\n")
        with open_journal(root) as journal:
            for number in range(100):
                journal.mutate(
                    lambda t, number=number, size=size: [
                        t.put("note", item(n, "not"), {"text": f"{number}".ljust(size, "x")}) for n in range(50)
                    ],
                    WRITER,
                    project=False,
                )
        sizes.append(sum(path.stat().st_size for path in Path(root).rglob("*.jsonl")))
        command = [sys.executable, "-c", PEAK + MEASURE, root, *sys.path]
        peaks.append(int(subprocess.run(command, capture_output=True, check=True, text=True).stdout))
    assert sizes[1] - sizes[0] > 25_000_000
    assert peaks[1] - peaks[0] < (sizes[1] - sizes[0]) // 2


def test_what_is_written_meanwhile_is_no_difference_between_files_and_journal(root):
    """The file of what was remembered while doctor read was "a version that is not in the journal yet", with exit code 1."""
    with open_journal(root) as journal, open_journal(root) as other:
        for number in range(2, 8):
            put(other, number)
        left = iter(range(2, 8))

        def write(*_):
            number = next(left, None)
            if number is not None:  # changed, removed, made
                other.mutate(lambda t: t.put("decision", item(number), {"text": f"again {number}"}), WRITER)
                other.mutate(lambda t: t.delete("decision", item(number - 1)), WRITER)
                put(other, number + 100)

        found = examine(journal, progress=write)
        assert [one for one in found.problems if one.severity != "note"] == []
        assert journal.get("decision", item(102)) is not None
        Path(journal.layout.entity_file("decision", item(102))).write_text("{}")
        assert [one.path for one in examine(journal).problems] == [journal.layout.entity_file("decision", item(102))]


def test_what_is_wrong_with_what_is_remembered_of_a_clone_is_told_once(root):
    lineage = new_id("lin")
    path = Path(root, "journal", "peers", f"{lineage}.json")
    path.parent.mkdir(exist_ok=True)
    path.write_text("x")
    with open_journal(root) as journal:
        told = [one.what for one in examine(journal).problems if one.path == os.fspath(path)]
    assert told == ["not a valid peer file"]
