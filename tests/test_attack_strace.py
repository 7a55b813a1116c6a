"""Every system call of a mutation, killed or failed by strace: the same promises as in test_journal_damage.py, kept by
the kernel's own calls and not by a layer of ours in between. Then those of other operations, with the promises, the
table and the stores of test_fault_matrix.py.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from pathlib import Path

import pytest

from periplus.base.files import Files
from periplus.journal.care.doctor import examine
from periplus.journal.projections.external_edits import take_in
from support import WRITER, item, make_store, open_journal
from test_fault_matrix import OPERATIONS, check_sound, check_survival, fresh, known
from test_journal_damage import acknowledged, check_recovery, put
from traced_children import Children, NotTracedError

CHANGING = ("write", "pwrite64", "fdatasync", "fsync", "rename", "mkdir", "unlink", "ftruncate")
READING = ("openat", "flock", "read", "pread64", "close", "newfstatat", "getdents64", "fcntl", "mmap")
CALLS = (*CHANGING, *READING)
ERRORS = {
    "openat": ("EIO", "EMFILE", "EACCES", "ENOMEM", "EINTR"),
    "write": ("EIO", "ENOSPC", "EINTR"),
    "pwrite64": ("EIO", "ENOSPC", "EINTR"),
    "fdatasync": ("EIO", "ENOSPC", "EINTR"),
    "fsync": ("EIO", "EINTR"),
    "rename": ("EIO", "ENOSPC"),
    "ftruncate": ("EIO", "ENOSPC"),
    "mkdir": ("EIO", "ENOSPC"),
    "unlink": ("EIO",),
    "flock": ("EIO", "EINTR"),
    "read": ("EIO", "EINTR"),
    "pread64": ("EIO", "EINTR"),
    "newfstatat": ("EIO", "EACCES"),
    "getdents64": ("EIO", "ENOMEM"),
    "fcntl": ("EIO",),
    "mmap": ("ENOMEM",),
}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.rig,
    pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed"),
]


@pytest.fixture(scope="module")
def children():
    with contextlib.closing(Children()) as children:
        yield children


def strace(children, root, log, *options, key="k"):
    return children.run("mutation", root, key, log=os.fspath(log), options=list(options))


@pytest.fixture(scope="module")
def places(tmp_path_factory, children):
    """Which call, counted by its kind, is the first that touches the store, and how many there are."""
    folder = tmp_path_factory.mktemp("dry")
    root = make_store(folder)
    acknowledged(root)
    try:
        done = strace(children, root, folder / "log", f"-etrace={','.join(CALLS)}")
    except NotTracedError as error:
        pytest.skip(f"strace may not trace here: {error}")
    assert done.stdout == b"ack\n", done.stderr.decode()
    counts = dict.fromkeys(CALLS, 0)
    first: dict[str, int] = {}
    begun = False
    for line in (folder / "log").read_text(errors="replace").splitlines():
        begun = begun or f"{root}/config.toml" in line
        name = re.sub(r"^\d+ +", "", line).partition("(")[0]
        if name in counts:
            counts[name] += 1
            if begun:
                first.setdefault(name, counts[name])
    return {name: (first[name], counts[name]) for name in first}


def survivors(root, state, done, key):
    """What must hold after any failure; gives the revisions of the three entities of the batch."""
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    said = done.stdout.decode().split()
    with open_journal(root) as journal:
        assert journal.damage is None
        now = {entity.item_id: entity.value["text"] for entity in journal.entities()}
        assert now == {**state, **{item(n): f"batch {n}" for n in (1, 2, 3)}}
        revs = [journal.get("decision", item(number)).rev for number in (1, 2, 3)]
        assert revs in ([1, 1, 1], [2, 2, 2]), "a batch is there whole or not at all"
        if said[:1] == ["ack"]:
            assert revs == [2, 2, 2], "what was acknowledged is there"
        before = journal.end().next_seq
        again = journal.mutate(put(9, "a repetition"), WRITER, key=key)
        assert again.repeated == (revs == [2, 2, 2])
        journal.mutate(put(8, "the next writer goes on"), WRITER)
        assert journal.end().next_seq == before + (1 if again.repeated else 2)
        seqs = [entry.record.seq for _, entry in journal.entries(journal.lineage)]
        assert seqs == list(range(1, len(seqs) + 1))
    with open_journal(root) as journal:
        take_in(journal)  # the next look writes anew what of the entity files could not be read or written
        found = examine(journal)
        assert found.exit_code in (0, 1), found.problems
        assert all(p.severity == "note" or p.path.endswith(".poisoned") for p in found.problems), found.problems
    return revs


@pytest.mark.slow
def test_kill_9_at_every_system_call_of_a_mutation(tmp_path, children, places):
    """Every call that changes the disk, and one in eight of those that do not (with PERIPLUS_EXHAUSTIVE all of them)."""
    cases = 0
    for call, (first, last) in places.items():
        for number in range(first, last + 1, 1 if call in CHANGING or os.environ.get("PERIPLUS_EXHAUSTIVE") else 8):
            root = make_store(tmp_path / f"{call}-{number}")
            _, state = acknowledged(root)
            done = strace(
                children, root, tmp_path / "log", f"-einject={call}:signal=SIGKILL:when={number}", f"-etrace={call}"
            )
            killed = (-9, 137) if call in CHANGING else (-9, 137, 0)  # of those that only look there may be fewer
            assert done.returncode in killed, (call, number, done)
            receipt = object() if done.stdout == b"ack\n" else None
            check_recovery(root, state, receipt)
            shutil.rmtree(tmp_path / f"{call}-{number}")
            cases += 1
    assert cases > 40


@pytest.mark.slow
@pytest.mark.parametrize("call", sorted(ERRORS))
def test_an_error_of_every_system_call_of_a_mutation(tmp_path, children, places, call):
    """Each place that changes the disk with one of its errors in turn, of the others some; with PERIPLUS_EXHAUSTIVE all."""
    first, last = places.get(call, (1, 0))
    kinds = ERRORS[call]
    for turn, error in enumerate(kinds):
        for number in range(first, last + 1):
            is_chosen = (number - first) % (len(kinds) * (8 if call in READING else 1)) == turn
            if not is_chosen and not os.environ.get("PERIPLUS_EXHAUSTIVE"):
                continue
            root = make_store(tmp_path / f"{error}-{number}")
            _, state = acknowledged(root)
            done = strace(
                children, root, tmp_path / "log", f"-einject={call}:error={error}:when={number}", f"-etrace={call}"
            )
            where = (call, error, number, Path(tmp_path / "log").read_text(errors="replace")[-600:])
            assert done.returncode == 0, (where, done.stderr.decode()[-1500:])
            try:
                survivors(root, state, done, "k")
            except AssertionError as problem:
                raise AssertionError(where) from problem
            shutil.rmtree(tmp_path / f"{error}-{number}")


OPERATED = (
    "roll",
    "checkpoint and archive",
    "give and take",
    "redact",
    "repair",
    "mutation that rolls",
    "undo",
    "take in files",
    "take and merge",
    "migrate",
)
CHANGES = {
    "write": ("EIO", "ENOSPC"),
    "pwrite64": ("EIO", "ENOSPC"),
    "fdatasync": ("EIO", "ENOSPC"),
    "fsync": ("EIO", "ENOSPC"),
    "rename": ("EIO", "ENOSPC"),
    "mkdir": ("ENOSPC",),
    "unlink": ("EIO",),
    "rmdir": ("EIO",),
    "ftruncate": ("EIO", "ENOSPC"),
}
PLACES_MAX = 7  # of each operation, spread over it; with PERIPLUS_EXHAUSTIVE all


def operate(children, operation, place, log, *options):
    return children.run("operation", os.fspath(place.folder), operation.name, log=os.fspath(log), options=list(options))


def places_of(children, operation, made, factory):
    """``(call, number)`` of each call that changes the disk, where nothing goes wrong; numbers count from the start."""
    place = fresh(made.template, factory.mktemp("dry"))
    log = place.folder / "log"
    try:
        done = operate(children, operation, place, log, f"-etrace={','.join(['openat', *CHANGES])}")
    except NotTracedError as error:
        pytest.skip(f"strace may not trace here: {error}")
    assert done.stdout == b"ack\n" * len(operation.steps), done
    counts, found, begun = dict.fromkeys(CHANGES, 0), [], False
    for line in log.read_text(errors="replace").splitlines():
        begun = begun or f"{place.here}/config.toml" in line
        name = re.sub(r"^\d+ +", "", line).partition("(")[0]
        if name in counts:
            counts[name] += 1
            if begun:
                found.append((name, counts[name]))
    step = 1 if os.environ.get("PERIPLUS_EXHAUSTIVE") else -(-len(found) // PLACES_MAX)
    return found[::step]


def check_case(operation, made, place, done, where):
    assert b"Traceback" not in done.stderr, (where, done.stderr.decode())
    acknowledged = done.stdout.count(b"ack")
    try:
        check_survival(operation, made, place, acknowledged, raised=acknowledged < len(operation.steps))
        for step in operation.steps:
            step(place, Files())
    except AssertionError as problem:
        raise AssertionError(where) from problem
    with operation.open(place) as journal:
        check_sound(journal)


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATED)
def test_kill_9_at_system_calls_of_other_operations(tmp_path_factory, children, name):
    (operation,) = (one for one in OPERATIONS if one.name == name)
    made = known(operation, tmp_path_factory)
    places, killed = places_of(children, operation, made, tmp_path_factory), 0
    for call, number in places:
        place = fresh(made.template, tmp_path_factory.mktemp("kill"))
        done = operate(
            children, operation, place, os.devnull, f"-einject={call}:signal=SIGKILL:when={number}", f"-etrace={call}"
        )
        assert done.returncode in (-9, 137, 0), (call, number, done)  # 0: there are fewer calls this time
        killed += done.returncode != 0
        check_case(operation, made, place, done, (call, number))
        shutil.rmtree(place.folder)
    assert killed >= len(places) - 2


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATED)
def test_errors_of_system_calls_of_other_operations(tmp_path_factory, children, name):
    (operation,) = (one for one in OPERATIONS if one.name == name)
    made = known(operation, tmp_path_factory)
    for turn, (call, number) in enumerate(places_of(children, operation, made, tmp_path_factory)):
        error = CHANGES[call][turn % len(CHANGES[call])]
        place = fresh(made.template, tmp_path_factory.mktemp("error"))
        done = operate(
            children, operation, place, os.devnull, f"-einject={call}:error={error}:when={number}", f"-etrace={call}"
        )
        assert done.returncode == 0, (call, error, number, done)
        check_case(operation, made, place, done, (call, error, number, done.stdout))
        shutil.rmtree(place.folder)
