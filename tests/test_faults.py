"""The forty faults of docs/internals/faults.md: what no other test shows, and whether each test that the page names is there."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from periplus.base.clock import FixedClock
from periplus.base.errors import ConflictError, DamageError, EnvironmentFailure, PeriplusError, UsageError
from periplus.base.filesystem.file_systems import file_system_in
from periplus.journal.care.doctor import NETWORK_SYSTEMS, examine
from periplus.journal.care.repair import repair
from periplus.journal.records.segment import decode_header, scan
from support import WRITER, item, let_everybody_in, make_store, open_journal, remove_index, segment_path, settle
from test_attack_journal import child, ended
from test_journal_damage import acknowledged, put, reset_durable, three

SOURCES = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "src")]


def told(journal):
    return {entity.item_id: entity.value["text"] for entity in journal.entities()}


def refused(root, *, where=""):
    """The damage that is told; nothing is written to such a store, and reading goes on."""
    remove_index(root)
    with open_journal(root) as journal:
        assert journal.damage is not None, "damage to acknowledged data was not noticed"
        assert where in str(journal.damage)
        assert journal.damage.safe
        assert journal.damage.mend
        before = {path: path.read_bytes() for path in Path(root, "journal").glob("lin_*/*")}
        with pytest.raises(DamageError):
            journal.mutate(put(9, "refused"), WRITER)
        assert {path: path.read_bytes() for path in Path(root, "journal").glob("lin_*/*")} == before
        assert examine(journal).exit_code == 3
        return journal.damage


def goes_on(root, state, next_seq):
    """What is there is what was acknowledged; the next mutation needs nobody's help."""
    remove_index(root)
    shutil.rmtree(Path(root, "entities"))  # of what was never durable there are no files
    with open_journal(root) as journal:
        assert journal.damage is None, journal.damage
        assert told(journal) == state
        assert journal.mutate(put(9, "goes on"), WRITER).first_seq == next_seq
        assert examine(journal).exit_code == 0


@pytest.fixture
def root(tmp_path):
    return make_store(tmp_path)


@pytest.fixture
def torn(root):
    """A segment with five records on the disk and a batch of three behind them that need not be: path, state, bytes."""
    path, state = acknowledged(root)
    before = path.read_bytes()
    with open_journal(root) as journal:
        journal.mutate(three, WRITER)
    reset_durable(root, before)
    return path, state, before, path.read_bytes()


@pytest.fixture
def many(tmp_path):
    """Several segments of a few records each."""
    root = make_store(tmp_path)
    config = Path(root, "config.toml")
    config.write_text(config.read_text() + "segment_bytes = 1200\n")
    with open_journal(root) as journal:
        for number in range(12):
            journal.mutate(put(number, f"text {number}"), WRITER)
    assert len(segments(root)) >= 3
    return root


def segments(root):
    return sorted(Path(root, "journal").glob("lin_*/0*.jsonl"))


# -- 5, 6, 10: what a torn write leaves ------------------------------------------------------------------------------


def test_a_batch_cut_at_every_byte_counts_for_nothing(root, torn):
    path, state, before, whole = torn
    _, start = decode_header(before)
    for length in range(len(before), len(whole)):
        found = scan(whole[start:length], base=start, next_seq=1, durable_seq=5)
        assert (found.end, found.next_seq, found.damages) == (len(before), 6, [])
        assert (found.tail is None) == (length == len(before))
    for length in range(len(before), len(whole), max((len(whole) - len(before)) // 12, 1)):
        path.write_bytes(whole[:length])
        goes_on(root, state, 6)
        reset_durable(root, before)


@pytest.mark.parametrize("kind", ["zeros", "old data", "random"])
@pytest.mark.parametrize("block", [64, 512, 4096])
def test_the_last_block_of_what_was_not_synced_is_lost(root, torn, kind, block):
    path, state, before, whole = torn
    at = max(len(whole) - block, len(before))
    lost = {"zeros": bytes, "old data": lambda n: before[-n:].rjust(n, b"#"), "random": random.Random(6).randbytes}[
        kind
    ]
    path.write_bytes(whole[:at] + lost(len(whole) - at))
    goes_on(root, state, 6)


@pytest.mark.parametrize("kind", ["zeros", "random"])
def test_the_last_block_of_what_was_synced_is_lost(root, kind):
    path, _ = acknowledged(root)
    data = path.read_bytes()
    lost = bytes(200) if kind == "zeros" else random.Random(7).randbytes(200)
    path.write_bytes(data[:-200] + lost)
    damage = refused(root)
    assert damage.seq == 5
    assert damage.path == str(path)


def test_a_hole_with_sound_records_behind_it(root):
    """Below what is known to be durable it is damage; a record behind the hole is enough to know."""
    path, _ = acknowledged(root, repeats=8)
    data = path.read_bytes()
    hole = data.index(b"\n", len(data) // 3) + 1
    path.write_bytes(data[:hole] + bytes(300) + data[hole + 300 :])
    Path(root, "journal/durable").unlink()
    refused(root, where=f"byte {hole}")


def test_a_hole_that_no_sync_covered_takes_all_behind_it(root, torn):
    path, state, before, whole = torn
    path.write_bytes(before + bytes(50) + whole[len(before) + 50 :])
    goes_on(root, state, 6)


# -- 13: a sector that cannot be read --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.rig
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_a_segment_that_the_disk_does_not_give_is_named(many):
    """Every read of one closed segment fails, as the kernel tells it: the rest is served, and doctor says which."""
    path = segments(many)[1]
    remove_index(many)
    code = "import sys; sys.argv[0] = 'periplus'; from periplus.cli.main import main; sys.exit(main(sys.argv[1:]))"

    def command(*words):
        how = ["strace", "-f", "-qq", "-o", os.devnull, "-P", str(path), "-e", "inject=read,pread64:error=EIO"]
        return subprocess.run([*how, sys.executable, "-c", code, *words, "--store", many], capture_output=True,
                              text=True, timeout=120)  # fmt: skip

    done = command("doctor")
    if "ptrace" in done.stderr:
        pytest.skip("strace may not trace here")
    assert done.returncode == 3, done
    assert str(path) in done.stdout + done.stderr
    assert "Input/output error" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    shown = command("log")
    assert shown.returncode == 0
    assert "Input/output error" in shown.stderr
    with open_journal(many) as journal:
        lost = sum(segment == int(path.name[:12]) for segment, _ in journal.entries(journal.lineage))
        assert len(shown.stdout.splitlines()) == journal.end().next_seq - 1 - lost


# -- 14 to 17: small disks, closed disks -------------------------------------------------------------------------------


@contextlib.contextmanager
def mounted(folder, *options):
    """A small file system of its own, where that is permitted."""
    folder.mkdir()
    if os.getuid() != 0:
        pytest.skip("mounting a small disk needs root")
    done = subprocess.run(["mount", *options, os.fspath(folder)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", os.fspath(folder)], check=True)


@pytest.mark.rig
def test_no_inode_is_left(tmp_path):
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "nr_inodes=60", "tmpfs") as disk:
        root = make_store(disk)
        with open_journal(root) as journal:
            journal.mutate(put(1, "before"), WRITER)
            with contextlib.suppress(OSError):
                for number in range(100):
                    (disk / f"ballast{number}").touch()
            journal.mutate(put(1, "needs no new file"), WRITER)
            with pytest.raises(EnvironmentFailure, match="No space left") as caught:
                journal.mutate(put(2, "an object " * 10_000), WRITER)
            assert "No acknowledged write is lost" in caught.value.safe
            assert "no free inode" in caught.value.mend
            assert f"df -i {disk}" in caught.value.mend
        with open_journal(root) as journal:
            assert told(journal) == {item(1): "needs no new file"}
        for path in disk.glob("ballast*"):
            path.unlink()
        with open_journal(root) as journal:
            journal.mutate(put(2, "after"), WRITER)
            assert examine(journal).exit_code in (0, 1)


@pytest.mark.rig
def test_no_byte_is_left(tmp_path):
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=512k", "tmpfs") as disk:
        root = make_store(disk)
        with open_journal(root) as journal:
            journal.mutate(put(1, "before"), WRITER)
        with (disk / "ballast").open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(1024))
        remove_index(root)
        with open_journal(root) as journal:
            state = {item(1): "before"}
            with pytest.raises(PeriplusError) as caught:  # noqa: PT012 - which write is the first that finds no room
                for number in range(2_000):
                    journal.mutate(put(2, f"{number} " * 50), WRITER)
                    state[item(2)] = f"{number} " * 50
            assert isinstance(caught.value, EnvironmentFailure)
            assert caught.value.safe
        with open_journal(root) as journal:
            assert told(journal) == state, "reading goes on with nothing free"
            assert examine(journal).exit_code in (0, 1)
        (disk / "ballast").unlink()
        with open_journal(root) as journal:
            assert told(journal) == state
            journal.mutate(put(3, "after"), WRITER)


@pytest.mark.rig
def test_the_disk_becomes_read_only_in_the_middle(tmp_path):
    with mounted(tmp_path / "disk", "-t", "tmpfs", "tmpfs") as disk:
        root = make_store(disk)
        with open_journal(root) as journal:
            journal.mutate(put(1, "before"), WRITER)
        subprocess.run(["mount", "-o", "remount,ro", os.fspath(disk)], check=True)
        with open_journal(root) as journal:
            assert told(journal) == {item(1): "before"}
            with pytest.raises(EnvironmentFailure, match="Read-only") as caught:
                journal.mutate(put(1, "refused"), WRITER)
            assert caught.value.safe
            assert told(journal) == {item(1): "before"}
            assert examine(journal).exit_code in (0, 1)
        subprocess.run(["mount", "-o", "remount,rw", os.fspath(disk)], check=True)
        with open_journal(root) as journal:
            journal.mutate(put(1, "after"), WRITER)


def test_a_folder_of_somebody_else_is_read_and_not_written(tmp_path):
    if os.getuid() != 0:
        pytest.skip("becoming another user needs root")
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        journal.mutate(put(1, "before"), WRITER)
    let_everybody_in(tmp_path)
    before = {path: path.read_bytes() for path in Path(root).rglob("*") if path.is_file()}

    def as_nobody():
        os.setgid(65534)
        os.setuid(65534)
        with open_journal(root) as journal:
            assert told(journal) == {item(1): "before"}
            with pytest.raises(EnvironmentFailure, match="Permission denied"):
                journal.mutate(put(1, "refused"), WRITER)
            assert told(journal) == {item(1): "before"}

    assert ended(child(as_nobody)) == 0
    assert {path: path.read_bytes() for path in Path(root).rglob("*") if path.is_file()} == before


# -- 18: signals -------------------------------------------------------------------------------------------------------


def test_signals_at_any_moment_double_and_lose_nothing(root):
    met = []
    old = signal.signal(signal.SIGALRM, lambda *_: met.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0007)
    try:
        with open_journal(root) as journal:
            for number in range(150):
                journal.mutate(put(number % 5, f"{number}"), WRITER)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert len(met) > 20
    with open_journal(root) as journal:
        assert journal.damage is None
        assert [entry.record.seq for _, entry in journal.entries(journal.lineage)] == list(range(1, 151))


# -- 22, 23: files that are empty or gone ------------------------------------------------------------------------------


def test_an_empty_newest_segment_has_no_records(many):
    """A name without bytes: what a power cut leaves of a segment that had just begun. Nothing was acknowledged in it."""
    with open_journal(many) as journal:
        state, next_seq = told(journal), journal.end().next_seq
        lineage = journal.lineage
    Path(many, f"journal/{lineage}/{next_seq:012d}.jsonl").write_bytes(b"")
    remove_index(many)
    with open_journal(many) as journal:
        assert told(journal) == state
        damage = journal.damage
    if damage is not None:  # a segment gets its name when it is whole, so somebody else made this one: told, and mended
        assert damage.mend
        with open_journal(many) as journal:
            repair(journal, WRITER)
    with open_journal(many) as journal:
        journal.mutate(put(9, "goes on"), WRITER)
        assert journal.end().next_seq >= next_seq + 1
        assert examine(journal).exit_code in (0, 1)


@pytest.mark.parametrize("which", [0, 1, -1])
@pytest.mark.parametrize("how", ["empty", "missing"])
def test_a_segment_that_is_empty_or_gone_is_named(many, which, how):
    path = segments(many)[which]
    with open_journal(many) as journal:
        held = [(segment, entry.record.seq) for segment, entry in journal.entries(journal.lineage)]
    rest = [seq for segment, seq in held if segment != int(path.name[:12])]
    if how == "empty":
        path.write_bytes(b"")
    else:
        path.unlink()
    before = [one.name for one in segments(many)]
    damage = refused(many)
    assert damage.path is not None
    assert damage.seq is not None
    assert [one.name for one in segments(many)] == before, "nothing is renumbered"
    with open_journal(many) as journal:
        assert [entry.record.seq for _, entry in journal.entries(journal.lineage, salvage=True)] == rest
        assert set(told(journal)) == {item(seq - 1) for seq in rest}, "the rest is served, before it and behind it"
        found = examine(journal)
        assert any(int(path.name[:12]) in (problem.seq, problem.seq + 1) or path.name in problem.path
                   for problem in found.problems if problem.severity == "error")  # fmt: skip


@pytest.mark.parametrize("name", ["durable", "flush", "lock", "projection.lock"])
@pytest.mark.parametrize("content", [b"", b"\0" * 300, b"\xff" * 4096])
def test_a_cache_that_is_empty_or_nonsense_holds_nobody_up(root, name, content):
    path, state = acknowledged(root)
    del path
    Path(root, "journal", name).write_bytes(content)
    goes_on(root, state, 6)


@pytest.mark.parametrize("name", ["lineage.json", "config.toml"])
def test_an_empty_file_of_identity_is_told_and_not_replaced_by_a_new_one(root, name):
    acknowledged(root)
    path = Path(root, name) if name == "config.toml" else Path(root, "journal", name)
    path.write_bytes(b"")
    with pytest.raises(PeriplusError) as caught, open_journal(root) as journal:
        journal.mutate(put(9, "refused"), WRITER)
    assert name in str(caught.value)
    assert path.read_bytes() == b""


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_in_the_place_of_who_writes_here_keeps_nobody_from_reading(root, make):
    """Nor does one that the disk does not give back, or that this user may not read."""
    _, state = acknowledged(root)
    path = Path(root, "journal", "lineage.json")
    path.unlink()
    make(path)
    with open_journal(root) as journal:
        assert {one.item_id: one.value["text"] for one in journal.entities()} == state
        assert "lineage.json" in str(journal.damage)
        with pytest.raises(DamageError, match=r"lineage\.json"):
            journal.mutate(put(9, "refused"), WRITER)


# -- 24, 25: seqs ------------------------------------------------------------------------------------------------------


def lines_of(path):
    return path.read_bytes().splitlines(keepends=True)


def test_a_record_twice_counts_once(root):
    path, state = acknowledged(root)
    path.write_bytes(path.read_bytes() + lines_of(path)[-1])
    goes_on(root, state, 6)


def test_another_record_with_a_seq_that_is_taken_counts_for_nothing(tmp_path):
    roots = [make_store(tmp_path / name) for name in ("one", "two")]
    for root in roots:
        path, state = acknowledged(root)
    with open_journal(roots[0]) as journal:
        journal.mutate(put(7, "another"), WRITER)
        other = lines_of(segment_path(journal))[-2]
    path.write_bytes(path.read_bytes() + other)
    goes_on(roots[1], state, 6)


@pytest.mark.parametrize("how", ["gap", "backward", "swapped"])
def test_seqs_that_do_not_follow_each_other(root, how):
    path, _ = acknowledged(root, repeats=6)
    lines = lines_of(path)
    if how == "gap":
        del lines[4]
    elif how == "backward":
        lines.insert(5, lines[2])
    else:
        lines[3], lines[4] = lines[4], lines[3]
    path.write_bytes(b"".join(lines))
    assert "was expected" in str(refused(root))


def test_a_segment_of_another_past_does_not_follow(many):
    """Its header names the checksum before it: the chain of segments holds them together."""
    _, second = segments(many)[:2]
    lines = lines_of(second)
    header, _ = decode_header(lines[0])
    lines[0] = lines[0].replace(header.prev.encode(), b"0" * 16)
    second.write_bytes(b"".join(lines))
    refused(many, where=second.name)


# -- 30: two that read the same ----------------------------------------------------------------------------------------


def test_of_two_processes_that_read_the_same_version_one_wins(root):
    with open_journal(root) as journal:
        journal.mutate(put(1, "read by both"), WRITER)
        version = journal.get("decision", item(1)).version
    results = Path(root).parent

    def write(number):
        with open_journal(root) as journal:
            try:
                journal.mutate(lambda t: t.put("decision", item(1), {"text": f"of {number}"}, expect=version), WRITER)
                (results / f"won{number}").touch()
            except ConflictError:
                (results / f"lost{number}").touch()

    children = [child(write, number) for number in range(6)]
    assert [ended(pid) for pid in children] == [0] * 6
    assert len(list(results.glob("won*"))) == 1
    assert len(list(results.glob("lost*"))) == 5
    with open_journal(root) as journal:
        assert journal.end().next_seq == 3


# -- 31 to 33: somebody put segments under git all the same --------------------------------------------------------------


def git(folder, *words, code=0):
    environment = {"PATH": os.environ["PATH"], "HOME": os.fspath(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    identity = ["-c", "user.name=ada", "-c", "user.email=ada@example.org"]
    done = subprocess.run(["git", *identity, *words], cwd=folder, env=environment, capture_output=True, text=True)
    assert code is None or done.returncode == code, done
    return done


@pytest.fixture
def tracked(tmp_path):
    """A project whose journal was forced into git; one commit with five records, one with seven."""
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    root = make_store(folder)
    acknowledged(root)
    git(folder, "add", "-f", ".periplus/journal", ".periplus/config.toml")
    git(folder, "commit", "-qm", "five")
    with open_journal(root) as journal:
        for text in ("six", "seven"):
            journal.mutate(put(6, text), WRITER)
    git(folder, "commit", "-qam", "seven")
    return root


@pytest.mark.parametrize("words", [("checkout", "-qf", "HEAD~"), ("reset", "-q", "--hard", "HEAD~"), ("stash", "-q")])
def test_git_puts_an_older_segment_under_a_writer(tracked, words):
    """Nothing is written behind records that are gone: it is told, and the file that git put there stays as it is."""
    folder = Path(tracked).parent
    with open_journal(tracked) as journal:
        journal.mutate(put(7, "eight"), WRITER)
        path = segment_path(journal)
        git(folder, *words)
        before = path.read_bytes()
        problem = receipt = None
        try:
            receipt = journal.mutate(put(7, "nine"), WRITER)
        except PeriplusError as error:
            problem = error
        if problem is not None:
            assert problem.safe
            assert path.read_bytes() == before
    with open_journal(tracked) as journal:
        entries = [entry.record.seq for _, entry in journal.entries(journal.lineage, salvage=True)]
        assert len(entries) == len(set(entries)), "no seq twice"
        if receipt is not None:  # git took its file back to an earlier state together with all that it knew of a later
            assert receipt.first_seq == entries[-1]


@pytest.mark.parametrize("strategy", ["conflict", "union"])
def test_git_merges_two_branches_of_a_segment(tracked, strategy):
    folder = Path(tracked).parent
    git(folder, "branch", "theirs")
    with open_journal(tracked) as journal:
        journal.mutate(put(7, "ours"), WRITER)
        path = segment_path(journal)
        ours = path.read_bytes()
    git(folder, "commit", "-qam", "ours")
    git(folder, "checkout", "-qf", "theirs")
    remove_index(tracked)
    shutil.rmtree(Path(tracked, "entities"))
    settle(tracked)
    path.write_bytes(git(folder, "show", "theirs:" + os.path.relpath(path, folder)).stdout.encode())
    Path(tracked, "journal/durable").unlink()
    with open_journal(tracked) as journal:
        journal.mutate(put(7, "theirs"), WRITER)
    git(folder, "commit", "-qam", "theirs")
    if strategy == "union":
        (folder / ".git/info/attributes").write_text("*.jsonl merge=union\n* merge=ours\n")
    git(folder, "merge", "-q", "main", code=None)
    settled = Path(tracked, "journal/lineage.json")
    settled.write_text(git(folder, "show", "main:.periplus/journal/lineage.json").stdout)
    settle(tracked)
    remove_index(tracked)
    merged = path.read_bytes()
    assert merged not in (ours, b"")
    with open_journal(tracked) as journal:
        seqs = [entry.record.seq for _, entry in journal.entries(journal.lineage, salvage=True)]
        assert len(seqs) == len(set(seqs)), "no seq counts twice"
        if strategy == "conflict":
            assert b"<<<<<<< " in merged
            assert "git left marks of a conflict in it" in str(journal.damage)
        else:
            texts = {entity.value["text"] for entity in journal.entities()}
            assert not {"ours", "theirs"} <= texts
        found = examine(journal)
        assert found.problems


@pytest.mark.parametrize(
    ("spoil", "cause"),
    [
        (lambda data: data.replace(b"\n", b"\r\n"), "line ends to CR LF"),
        (lambda data: b"\xef\xbb\xbf" + data, "byte order mark"),
        (lambda _: b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "git LFS put a pointer"),
        (lambda data: b"<<<<<<< HEAD\n" + data + b"=======\n>>>>>>> theirs\n", "git left marks of a conflict"),
    ],
    ids=["CR LF", "BOM", "LFS", "conflict"],
)
def test_what_other_programs_do_to_a_segment_is_told_by_its_name(root, spoil, cause):
    path, _ = acknowledged(root)
    path.write_bytes(spoil(path.read_bytes()))
    assert cause in str(refused(root))


def test_conflict_marks_behind_sound_records_are_told(root):
    path, _ = acknowledged(root)
    lines = lines_of(path)
    path.write_bytes(b"".join([*lines[:3], b"<<<<<<< HEAD\n", *lines[3:]]))
    damage = refused(root, where="git left marks of a conflict")
    assert damage.seq == 2, "the batch that it was put into"


def test_trimming_and_line_ends_that_change_nothing(root):
    """No line of ours ends in a blank, so an editor that trims changes nothing."""
    path, state = acknowledged(root)
    data = path.read_bytes()
    path.write_bytes(b"".join(line.rstrip() + b"\n" for line in data.splitlines()))
    assert path.read_bytes() == data
    goes_on(root, state, 6)


# -- 35: clocks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jump_ms", [-3_600_000, 315_000_000_000, 0], ids=["back", "forward", "frozen"])
def test_the_clock_orders_nothing(root, jump_ms):
    start = 1_900_000_000_000
    with open_journal(root, clock=FixedClock(start, step_ms=0)) as journal:
        journal.mutate(put(1, "first"), WRITER)
    with open_journal(root, clock=FixedClock(start + jump_ms, step_ms=0)) as journal:
        journal.mutate(put(1, "second"), WRITER)
        journal.mutate(put(2, "third"), WRITER)
    remove_index(root)
    with open_journal(root) as journal:
        assert told(journal) == {item(1): "second", item(2): "third"}
        assert [e.record.seq for _, e in journal.entries(journal.lineage)] == [1, 2, 3]
        assert examine(journal).exit_code == 0


# -- 37: a copy in the middle ------------------------------------------------------------------------------------------

WRITING = """
import sys
sys.path[:0] = {paths!r}
from support import WRITER, item, open_journal
from test_journal_damage import put
with open_journal({root!r}) as journal:
    print("begun", flush=True)
    for number in range(100_000):
        journal.mutate(put(number % 20, str(number)), WRITER)
"""


@pytest.mark.slow
def test_copies_made_while_it_is_written_are_prefixes(many, tmp_path):
    writing = subprocess.Popen([sys.executable, "-c", WRITING.format(paths=SOURCES, root=many)], stdout=subprocess.PIPE)
    try:
        assert writing.stdout.readline() == b"begun\n"
        copies = [tmp_path / f"copy{number}/.periplus" for number in range(4)]
        for copy in copies:
            copy.parent.mkdir()
            subprocess.run(["cp", "-r", many, os.fspath(copy)], check=False, capture_output=True)
    finally:
        writing.kill()
        writing.communicate()
    with open_journal(many) as journal:
        whole = [entry.leaf for _, entry in journal.entries(journal.lineage)]
        lineage = journal.lineage
    for copy in copies:
        for name in copy.glob("index.sqlite*"):
            name.unlink()  # SQLite's own files, copied one after the other, need not fit together
        with open_journal(os.fspath(copy)) as journal:
            held = [entry.leaf for _, entry in journal.entries(lineage, salvage=True)]
            assert held == whole[: len(held)]
            assert len(held) >= 12
            journal.mutate(put(99, "its own"), WRITER)
            assert journal.lineage != lineage
            assert "error" not in {problem.severity for problem in examine(journal).problems}


# -- 38: file systems --------------------------------------------------------------------------------------------------


def test_network_file_systems_are_told_from_others():
    table = "\n".join(
        f"{number} 1 0:{number} / {point} rw,relatime shared:1 - {kind} source rw"
        for number, (point, kind) in enumerate(
            [("/", "overlay"), ("/home", "ext4"), ("/home/ada/net\\040share", "nfs4"), ("/home/ada/win", "cifs")]
        )
    )
    assert file_system_in(table, "/home/ada/net share/p/.periplus") in NETWORK_SYSTEMS
    assert file_system_in(table, "/home/ada/win/.periplus") in NETWORK_SYSTEMS
    assert file_system_in(table, "/home/ada/windows/.periplus") == "ext4"
    assert file_system_in(table, "/srv/.periplus") == "overlay"
    assert not {"overlay", "ext4", "xfs", "btrfs", "tmpfs"} & NETWORK_SYSTEMS


def test_ids_that_differ_in_case_only_cannot_be(root):
    with open_journal(root) as journal, pytest.raises(UsageError):
        journal.mutate(lambda t: t.put("decision", "dec_ABCDEFGHJKMNPQRS", {"text": "a"}), WRITER)


# -- 39: readers -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_hundred_readers_while_it_is_written_and_rolled(many):
    """Each sees a prefix, and each look no less than the one before."""
    stop = threading.Event()
    problems = []

    def read():
        seen = 0
        while not stop.is_set():
            with open_journal(many) as journal:
                seqs = [entry.record.seq for _, entry in journal.entries(journal.lineage)]
                if seqs != list(range(1, len(seqs) + 1)) or len(seqs) < seen or journal.damage is not None:
                    problems.append((seqs[-3:], seen, journal.damage))
                seen = len(seqs)
            if done.is_set():
                return

    done = threading.Event()
    readers = [threading.Thread(target=read) for _ in range(100)]
    for reader in readers:
        reader.start()
    with open_journal(many) as journal:
        for number in range(30):
            journal.mutate(put(number % 5, f"{number}"), WRITER)
            if number % 7 == 0:
                journal.roll()
    done.set()
    for reader in readers:
        reader.join(120)
    stop.set()
    assert problems == []


# -- 40: hostile input ---------------------------------------------------------------------------------------------------


def ascii_head(text):
    return ascii(text[:20])


def nested(depth):
    value = {}
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "payload",
    [
        nested(10_000),
        {"text": "\ud800"},
        {"\ud800": 1},
        {"text": float("nan")},
        {"text": 1.5},
        {"text": 2**63},
        {"text": b"bytes"},
        {1: "no text"},
    ],
    ids=["deep", "surrogate", "surrogate key", "NaN", "fraction", "2^63", "bytes", "number as key"],
)
def test_what_cannot_be_stored_is_refused_before_anything_is_written(root, payload):
    path, state = acknowledged(root)
    before = path.read_bytes()
    with open_journal(root) as journal:
        with pytest.raises(UsageError):
            journal.mutate(lambda t: t.put("decision", item(9), payload), WRITER)
        assert told(journal) == state
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "text", ["", "\0", "a\nb\r\n\u2028", "\U0001f6a2" * 9, '"sum":"0123456789abcdef"}', "x" * 200_000]
)
def test_any_text_comes_back_as_it_was(root, text):
    with open_journal(root) as journal:
        journal.mutate(put(1, text), WRITER)
    remove_index(root)
    with open_journal(root) as journal:
        assert told(journal) == {item(1): text}
