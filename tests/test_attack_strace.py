"""Every system call of a mutation, killed or failed by strace: the same promises as in test_journal_damage.py, kept by
the kernel's own calls and not by a layer of ours in between. Then those of other operations, with the promises, the
table and the stores of test_fault_matrix.py.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from periplus.base.files import Files
from periplus.journal.doctor import examine
from periplus.journal.takein import take_in
from support import WRITER, item, make_store, open_journal
from test_fault_matrix import OPERATIONS, check_sound, check_survival, fresh, known
from test_journal_damage import acknowledged, check_recovery, put

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
CHILD = """
import os, sys
sys.path[:0] = sys.argv[3:]
from periplus.base.errors import PeriplusError
from support import WRITER, open_journal
from test_journal_damage import three
import ctypes, importlib, json, mmap, orjson, pkgutil, sqlite3, tomllib, periplus.journal
for module in pkgutil.iter_modules(periplus.journal.__path__, "periplus.journal."):
    importlib.import_module(module.name)  # all that is imported late
def say(what):
    try:
        os.write(1, what)
    except OSError:
        pass  # the injected error met our own word

try:
    with open_journal(sys.argv[1]) as journal:
        journal.mutate(three, WRITER, key=sys.argv[2])
        say(b"ack\\n")
except (PeriplusError, sqlite3.DatabaseError) as error:  # the command line throws a damaged index away, and repeats
    say(f"refused {type(error).__name__}\\n".encode())
os._exit(0)
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.rig,
    pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed"),
]


def strace(root, log, *options, key="k"):
    command = ["strace", "-f", "-qq", "-o", os.fspath(log), *options, sys.executable, "-c", CHILD, root, key, *sys.path]
    return subprocess.run(command, capture_output=True, timeout=120, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Which call, counted by its kind, is the first that touches the store, and how many there are."""
    folder = tmp_path_factory.mktemp("dry")
    root = make_store(folder)
    acknowledged(root)
    strace(root, folder / "log", f"-etrace={','.join(CALLS)}")  # fills the caches of the interpreter
    shutil.rmtree(root)
    root = make_store(folder)
    acknowledged(root)
    done = strace(root, folder / "log", f"-etrace={','.join(CALLS)}")
    if b"ptrace" in done.stderr.lower():
        pytest.skip("strace may not trace here")
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


def test_kill_9_at_every_system_call_of_a_mutation(tmp_path, places):
    """Every call that changes the disk, and one in eight of those that do not (with PERIPLUS_EXHAUSTIVE all of them)."""
    cases = 0
    for call, (first, last) in places.items():
        for number in range(first, last + 1, 1 if call in CHANGING or os.environ.get("PERIPLUS_EXHAUSTIVE") else 8):
            root = make_store(tmp_path / f"{call}-{number}")
            _, state = acknowledged(root)
            done = strace(root, tmp_path / "log", f"-einject={call}:signal=SIGKILL:when={number}", f"-etrace={call}")
            killed = (-9, 137) if call in CHANGING else (-9, 137, 0)  # of those that only look there may be fewer
            assert done.returncode in killed, (call, number, done)
            receipt = object() if done.stdout == b"ack\n" else None
            check_recovery(root, state, receipt)
            shutil.rmtree(tmp_path / f"{call}-{number}")
            cases += 1
    assert cases > 40


@pytest.mark.parametrize("call", sorted(ERRORS))
def test_an_error_of_every_system_call_of_a_mutation(tmp_path, places, call):
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
            done = strace(root, tmp_path / "log", f"-einject={call}:error={error}:when={number}", f"-etrace={call}")
            where = (call, error, number, Path(tmp_path / "log").read_text(errors="replace")[-600:])
            assert done.returncode == 0, (where, done.stderr.decode()[-1500:])
            try:
                survivors(root, state, done, "k")
            except AssertionError as problem:
                raise AssertionError(where) from problem
            shutil.rmtree(tmp_path / f"{error}-{number}")


OPERATION = """
import os, sys
sys.path[:0] = sys.argv[3:]
from pathlib import Path
from periplus.base.errors import PeriplusError
from periplus.base.files import Files
from test_fault_matrix import OPERATIONS, Place
import ctypes, json, mmap, orjson, sqlite3, tomllib, zipfile, zlib
def say(what):
    try:
        os.write(1, what)
    except OSError:
        pass  # the injected error met our own word

(operation,) = [one for one in OPERATIONS if one.name == sys.argv[2]]
try:
    for step in operation.steps:
        step(Place(Path(sys.argv[1])), Files())
        say(b"ack\\n")
except (PeriplusError, sqlite3.DatabaseError) as error:  # the command line throws a damaged index away, and repeats
    say(f"refused {type(error).__name__}\\n".encode())
os._exit(0)
"""
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


def operate(operation, place, log, *options):
    command = ["strace", "-f", "-qq", "-o", os.fspath(log), *options, sys.executable, "-c", OPERATION,
               os.fspath(place.folder), operation.name, *sys.path]  # fmt: skip
    return subprocess.run(command, capture_output=True, timeout=120, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})


def places_of(operation, made, factory):
    """``(call, number)`` of each call that changes the disk, where nothing goes wrong; numbers count from the start."""
    place = fresh(made.template, factory.mktemp("dry"))
    log = place.folder / "log"
    done = operate(operation, place, log, f"-etrace={','.join(['openat', *CHANGES])}")
    if b"ptrace" in done.stderr.lower():
        pytest.skip("strace may not trace here")
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


@pytest.mark.parametrize("name", OPERATED)
def test_kill_9_at_system_calls_of_other_operations(tmp_path_factory, name):
    (operation,) = (one for one in OPERATIONS if one.name == name)
    made = known(operation, tmp_path_factory)
    places, killed = places_of(operation, made, tmp_path_factory), 0
    for call, number in places:
        place = fresh(made.template, tmp_path_factory.mktemp("kill"))
        done = operate(operation, place, os.devnull, f"-einject={call}:signal=SIGKILL:when={number}", f"-etrace={call}")
        assert done.returncode in (-9, 137, 0), (call, number, done)  # 0: there are fewer calls this time
        killed += done.returncode != 0
        check_case(operation, made, place, done, (call, number))
        shutil.rmtree(place.folder)
    assert killed >= len(places) - 2


@pytest.mark.parametrize("name", OPERATED)
def test_errors_of_system_calls_of_other_operations(tmp_path_factory, name):
    (operation,) = (one for one in OPERATIONS if one.name == name)
    made = known(operation, tmp_path_factory)
    for turn, (call, number) in enumerate(places_of(operation, made, tmp_path_factory)):
        error = CHANGES[call][turn % len(CHANGES[call])]
        place = fresh(made.template, tmp_path_factory.mktemp("error"))
        done = operate(operation, place, os.devnull, f"-einject={call}:error={error}:when={number}", f"-etrace={call}")
        assert done.returncode == 0, (call, error, number, done)
        check_case(operation, made, place, done, (call, error, number, done.stdout))
        shutil.rmtree(place.folder)
