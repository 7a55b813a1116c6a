"""The short way of an append, of the native build: the same bytes as the long way, and the same promises.

``tests/test_native.py`` runs this with the native build and the plugin ``quick_appends``; without them it is skipped.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from periplus.base.canonical import _is_plain, canonical
from periplus.base.clock import FixedClock
from periplus.base.errors import DamageError, EnvironmentFailure, LockTimeoutError, OutcomeUnknownError, UsageError
from periplus.base.files import Files
from periplus.base.ids import is_id, new_id
from periplus.base.locks import LOCK_PATIENCE_S, holder_of
from periplus.journal import Journal, Writer
from periplus.journal.doctor import examine
from periplus.journal.native import APPEND
from periplus.journal.overlay import names_in
from periplus.journal.record import version_id
from periplus.journal.transaction import Draft, Transaction, summary_line
from support import TYPES, WRITER, item, make_store, open_journal, segment_path

pytestmark = pytest.mark.skipif(APPEND is None, reason="test_native.py runs this, with the native build")

TESTS = str(Path(__file__).parent)
EXAMPLES = 10_000 if os.environ.get("PERIPLUS_EXHAUSTIVE") else 1_000
CHANGES = {"write": ("EIO", "ENOSPC"), "pwrite64": ("EIO",), "fdatasync": ("EIO", "ENOSPC"), "flock": ("EIO",),
           "pread64": ("EIO",), "lseek": ("EIO",), "newfstatat": ("EIO", "ENOENT"), "fstat": ("EIO",),
           "fadvise64": ("EIO",)}  # fmt: skip
CALLS = (*CHANGES, "futex")
CHILD = """
import os, sys
sys.path[:0] = sys.argv[2:]
import quick_appends
quick_appends.pytest_configure()
import time
from periplus.base.errors import PeriplusError
from support import WRITER, item, open_journal
def say(what):
    try:
        os.write(1, what)
    except OSError:
        pass  # the injected error met our own word
def put(number, text):
    return lambda transaction: transaction.put("note", item(number, "not"), {"text": text})
with open_journal(sys.argv[1]) as journal:
    journal.mutate(put(1, "first"), WRITER, project=False)
    time.sleep(0.1)
    for number in range(20):
        journal.mutate(put(1, f"before {number}"), WRITER, project=False)
    assert journal._quick is not None
    say(b"begun\\n")
    try:
        journal.mutate(put(2, "the one"), WRITER, key="k", project=False)
        say(b"ack\\n")
    except PeriplusError as error:
        say(f"refused {type(error).__name__}\\n".encode())
    os._exit(0)
"""


def put(number, text="a text", **options):
    return lambda transaction: transaction.put("note", item(number, "not"), {"text": text}, **options)


@pytest.fixture
def quick(tmp_path):
    """A journal whose next mutation takes the short way."""
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        journal.mutate(put(1), WRITER, project=False)
        time.sleep(0.05)
        for number in (2, 3):
            journal.mutate(put(number), WRITER, project=False)
        assert journal._quick is not None
        yield journal


def took_it(journal, work):
    """Do ``work`` and say whether it went the short way to its end."""
    before = journal._quick
    count = Path(os.environ["QUICK_APPENDS_LOG"]).stat().st_size
    work()
    return journal._quick is before and Path(os.environ["QUICK_APPENDS_LOG"]).stat().st_size > count


def check_sound(root, count):
    with open_journal(root) as journal:
        assert journal.damage is None
        assert [entry.record.seq for _, entry in journal.entries(journal.lineage)] == list(range(1, count + 1))
        assert examine(journal).exit_code in (0, 1)


# -- the same bytes

TEXTS = st.text(max_size=300) | st.text(alphabet=' \t\n\x0b\x1c\x1f"\\a\x7fé', max_size=500)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | TEXTS | st.floats(),
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner) | st.tuples(inner),
    max_leaves=30,
)
PAYLOADS = st.dictionaries(st.text(max_size=20), VALUES, max_size=8)
VERSIONS = st.text(alphabet="0123456789abcdef", min_size=64, max_size=64)


@settings(max_examples=EXAMPLES, deadline=None)
@given(PAYLOADS | st.none(), TEXTS, st.text(max_size=12), st.lists(VERSIONS, max_size=10))
def test_a_draft_is_that_of_the_long_way(payload, summary, item_type, parents):
    parents = tuple(sorted(parents))
    found = APPEND.draft(Draft, "update", item_type, item(1), parents, payload, summary)
    if found is None:
        return
    assert payload is None or _is_plain(payload, 0)
    text = None if payload is None else canonical(payload)
    version = version_id(item_type, item(1), deleted=payload is None, payload=text, parents=parents)
    assert found == Draft("update", item_type, item(1), parents, text, payload is None, summary_line(summary), version)
    assert type(found) is Draft


def test_usual_drafts_are_made_the_short_way():
    payload = {"v": 1, "text": 'an é and a " and a \n', "tags": ["a", "b"], "of": {"n": -3, "yes": True, "no": None}}
    for summary in (
        "a line",
        "two\nlines",
        "a\tb",
        "x\x1fy",
        "two\nlines  and  spaces ",
        " x",
        "x" * 300,
        "x" * 200,
        "",
    ):
        found = APPEND.draft(Draft, "create", "note", item(1), (), payload, summary)
        assert found.summary == summary_line(summary)
    assert APPEND.draft(Draft, "update", "note", item(1), ("a" * 64,), payload, "a line") is not None


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.text(max_size=60) | st.from_regex(r"[a-z_]{0,34}_[0-9a-z]{15,17}", fullmatch=True))
def test_an_id_has_the_same_shape(text):
    prefix, found, tail = text.rpartition("_")
    is_shape = bool(found) and re.fullmatch("[a-z0-9_]{1,32}", prefix) and re.fullmatch("[0-9a-hjkmnp-tv-z]{16}", tail)
    assert is_id(text) == bool(is_shape)
    assert is_id(new_id("dec"))


PIECES = st.lists(
    st.sampled_from([b'"item_id"', b'"item_id":"a"', b'"item_id":"', b'"', b":", b"\\", b"\\u", b"x", b'"item_id":""'])
)


@settings(max_examples=EXAMPLES, deadline=None)
@given(PIECES)
def test_the_same_names_are_found_in_lines(pieces):
    data = b"".join(pieces)
    short = names_in(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("periplus.journal.overlay.APPEND", None)
        assert names_in(data) == short


class SameFiles(Files):
    """Another class, so that the long way is taken."""


def test_both_ways_write_the_same_lines(tmp_path):
    """The same mutations with the same chance and clock: line for line, but for when what was durable was known."""
    written = []
    for name, files in (("short", None), ("long", SameFiles())):
        folder = tmp_path / name
        folder.mkdir()
        root = make_store(folder)
        with open_journal(root):
            pass
        time.sleep(0.05)
        chance = random.Random(7)
        writer = Writer('a "name" of é\n', "who_0000000000000000", "ses\t", 7)
        with Journal(root, TYPES, files=files, clock=FixedClock(step_ms=1), random=chance.randbytes) as journal:
            journal.mutate(put(1), writer, project=False)
            time.sleep(0.05)
            for number in range(60):
                held = journal.get("note", item(number % 10, "not"))
                version = held.version if held is not None and number % 3 == 0 else None
                text = chance.choice(("", "plain", 'é "\\ \x01 \x7f \n\t', "€" * 200, "x" * 3_000))
                change = put(number % 10, text, expect=version, summary=text) if number != 1 else put(77, text)
                if number % 13 == 12:
                    change = lambda t, number=number: t.delete("note", item(number % 10, "not"))  # noqa: E731
                if number % 17 == 16:
                    change = lambda t: t.observe({"some": "thing"})  # noqa: E731
                key = f"key {number} é"[: -1 if number % 2 else -2].strip() if number % 5 == 0 else ""
                journal.mutate(change, writer, key=key, project=False)
            assert (journal._quick is not None) == (name == "short")
            written.append(segment_path(journal).read_bytes().splitlines()[1:])
    assert len(written[0]) == 61
    assert written[0] == written[1]


def test_what_is_not_usual_goes_the_long_way(quick):
    root = quick.layout.root
    for change, kind in (
        (put(5, "\ud800"), UsageError),
        (put(5, summary="\udfff"), UsageError),
        (lambda t: t.put("note", item(5, "not"), {"x": 1.5}), UsageError),
        (lambda t: t.put("note", item(5, "not"), {"x": 2**60}), UsageError),
    ):
        with pytest.raises(kind):
            quick.mutate(change, WRITER, project=False)
    quick.mutate(put(5, "x" * 100_000), WRITER, project=False)  # its payload is an object
    quick.mutate(lambda t: [put(6)(t), put(7)(t)], WRITER, project=False)
    quick.mutate(lambda t: t.observe({"a": 1}), WRITER, project=False)
    assert quick.mutate(lambda _: None, WRITER, project=False).record_count == 0
    assert took_it(quick, lambda: quick.mutate(put(8), WRITER, project=False))
    assert quick.get("note", item(5, "not")).value == {"text": "x" * 100_000}
    check_sound(root, 8)


def test_a_key_that_was_written_is_a_repetition(quick):
    assert took_it(quick, lambda: quick.mutate(put(4), WRITER, key="once", project=False))
    again = quick.mutate(put(5), WRITER, key="once", project=False)
    assert again.repeated
    assert (again.first_seq, again.key) == (4, "once")
    with open_journal(quick.layout.root) as other:
        assert other.mutate(put(5), WRITER, key="once").repeated
        other.mutate(put(6), WRITER, key="of another")
    assert quick.mutate(put(7), WRITER, key="of another", project=False).repeated
    check_sound(quick.layout.root, 5)


def test_long_and_short_ways_write_one_journal(quick, tmp_path):
    root = quick.layout.root
    with Journal(root, TYPES, files=SameFiles()) as plain, open_journal(root) as third:
        for number in range(120):
            mine = (quick, plain, third)[number * 7 % 3]
            receipt = mine.mutate(put(number % 5, f"{number}"), WRITER, project=number % 20 == 0)
            assert receipt.first_seq == 4 + number
            others = [one for one in (quick, plain, third) if one is not mine]
            for one in others[: number % 3]:
                one.refresh()
                assert one.get("note", item(number % 5, "not")).value == {"text": f"{number}"}
        assert plain._quick is None
    check_sound(root, 123)


# -- locks, threads, processes


def test_who_holds_the_lock_is_named_and_waited_for(quick):
    root = quick.layout.root
    with open_journal(root) as other:

        def hold(transaction):
            put(5)(transaction)
            assert holder_of(quick.layout.lock).text.startswith(f"{os.getpid()} ")
            with pytest.raises(LockTimeoutError, match=str(os.getpid())):
                other.mutate(put(6), WRITER, patience_s=0.2)

        assert took_it(quick, lambda: quick.mutate(hold, WRITER, project=False))
        assert other.mutate(put(6), WRITER).first_seq == 5


def test_a_mutation_that_raises_gives_the_lock_back(quick):
    def fail(transaction):
        put(5)(transaction)
        raise KeyError("no")

    for _ in range(3):
        with pytest.raises(KeyError):
            quick.mutate(fail, WRITER, project=False)
    with open_journal(quick.layout.root) as other:
        assert other.mutate(put(6), WRITER, patience_s=0.5).first_seq == 4
    assert took_it(quick, lambda: quick.mutate(put(7), WRITER, project=False))
    check_sound(quick.layout.root, 5)


def test_a_mutation_within_a_mutation_is_refused(quick):
    def nest(transaction):
        put(5)(transaction)
        quick.mutate(put(6), WRITER, patience_s=0.1)

    with pytest.raises(LockTimeoutError):
        quick.mutate(nest, WRITER, project=False)
    assert quick.mutate(put(7), WRITER, project=False).first_seq == 4


def test_a_forked_child_keeps_no_lock(quick):
    reader, writer = os.pipe()
    children = []

    def fork(transaction):
        put(5)(transaction)
        pid = os.fork()
        if pid == 0:
            os.read(reader, 1)  # for as long as the parent likes
            os._exit(0)
        children.append(pid)

    try:
        quick.mutate(fork, WRITER, project=False)
        begun_s = time.monotonic()
        with open_journal(quick.layout.root) as other:
            assert other.mutate(put(6), WRITER, patience_s=30).first_seq == 5
        assert quick.mutate(put(7), WRITER, project=False).first_seq == 6
        assert time.monotonic() - begun_s < 15
    finally:
        os.write(writer, b".")
        for pid in children:
            os.waitpid(pid, 0)
        os.close(reader)
        os.close(writer)
    check_sound(quick.layout.root, 6)


def test_a_forked_child_writes_by_the_long_way_and_anew(quick):
    pid = os.fork()
    if pid == 0:
        try:
            with open_journal(quick.layout.root) as own:
                own.mutate(put(5), WRITER)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    assert took_it(quick, lambda: quick.mutate(put(6), WRITER, project=False)) or quick.end().next_seq == 6
    check_sound(quick.layout.root, 5)


def test_threads_with_journals_of_their_own_wait_for_each_other(tmp_path):
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        journal.mutate(put(1), WRITER)
    time.sleep(0.05)
    failed = []

    def write(number):
        try:
            with open_journal(root) as journal:
                for turn in range(60):
                    journal.mutate(put(number, f"{turn}"), WRITER, project=False)
        except BaseException as error:  # told by the thread that waits
            failed.append(error)
            raise

    threads = [threading.Thread(target=write, args=(number,)) for number in range(2, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failed
    check_sound(root, 241)


def test_a_holder_that_is_killed_is_followed_at_once(quick):
    root = quick.layout.root
    ready, say = os.pipe()
    pid = os.fork()
    if pid == 0:
        with open_journal(root) as own:
            for number in range(3):
                own.mutate(put(5 + number), WRITER, project=False)
            own.mutate(lambda _: (os.write(say, b"."), time.sleep(60)), WRITER, project=False)
        os._exit(0)
    os.read(ready, 1)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    begun_s = time.monotonic()
    assert quick.mutate(put(9), WRITER, project=False, patience_s=60).first_seq == 7
    assert time.monotonic() - begun_s < 10
    os.close(ready)
    os.close(say)


# -- what goes wrong


def test_a_segment_that_is_replaced_before_the_sync_is_not_acknowledged(quick):
    root, path = quick.layout.root, segment_path(quick)
    way = quick._quick

    class Replacing:
        def __getattr__(self, name):
            return getattr(way_native, name)

        def finish(self):
            aside = path.with_suffix(".aside")
            shutil.copy2(path, aside)
            os.replace(aside, path)
            return way_native.finish()

    way_native, way.native = way.native, Replacing()
    with pytest.raises(OutcomeUnknownError, match="replaced"):
        quick.mutate(put(5), WRITER, key="k", project=False)
    assert quick._quick is not way
    assert quick.mutate(put(6), WRITER, key="k", project=False).repeated
    check_sound(root, 4)


def test_a_full_disk_is_told_and_nothing_is_half_there(quick):
    import resource

    root, path = quick.layout.root, segment_path(quick)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 100, hard))
        with pytest.raises(EnvironmentFailure, match="only 100 bytes"):
            quick.mutate(put(5), WRITER, project=False)
        with pytest.raises(EnvironmentFailure):
            quick.mutate(put(5), WRITER, project=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert quick.mutate(put(6), WRITER, project=False).first_seq == 4
    check_sound(root, 4)


def test_bytes_that_come_during_a_mutation_are_not_written_behind(quick):
    """Of somebody who asks for no lock: nothing is acknowledged, and nothing stands behind them."""
    root, path = quick.layout.root, segment_path(quick)

    def write(transaction):
        put(5)(transaction)
        with path.open("ab") as file:
            file.write(b'{"v":2,"seq":4,"garbage')

    with pytest.raises(DamageError, match="changed while the lock was held"):
        quick.mutate(write, WRITER, project=False)
    assert quick.mutate(put(6), WRITER, project=False).first_seq == 4
    check_sound(root, 4)


@pytest.mark.parametrize("moment", ["enter", "append", "finish"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError])
def test_an_exception_of_a_signals_handler_leaves_no_lock_and_no_mark(quick, moment, error):
    root, way = quick.layout.root, quick._quick
    native = way.native

    class Interrupted:
        def __getattr__(self, name):
            return getattr(native, name)

    def interrupted(*given):
        getattr(native, moment)(*given)
        raise error("a handler's")

    way.native = Interrupted()
    setattr(way.native, moment, interrupted)
    with pytest.raises((error, EnvironmentFailure)):
        quick.mutate(put(5), WRITER, project=False)
    way.native = native
    with open_journal(root) as other:
        seq = other.mutate(put(6), WRITER, patience_s=0.5).first_seq
    assert quick.mutate(put(7), WRITER, project=False).first_seq == seq + 1
    assert not list(Path(root, "journal").glob("lin_*/*.poisoned"))
    check_sound(root, seq + 1)


def test_a_stranger_gives_nothing_back(quick):
    def write(transaction):
        put(5)(transaction)
        quick._quick.native.let_go(object())
        with open_journal(quick.layout.root) as other, pytest.raises(LockTimeoutError):
            other.mutate(put(6), WRITER, patience_s=0.1)

    assert quick.mutate(write, WRITER, project=False).first_seq == 4


@pytest.mark.parametrize("size", [0, 100])
def test_a_map_that_is_cut_during_a_mutation_ends_no_process(quick, size):
    path = Path(quick.layout.root, "journal", "flush")

    def write(transaction):
        put(5)(transaction)
        os.truncate(path, size)

    assert quick.mutate(write, WRITER, project=False).first_seq == 4
    assert quick.mutate(put(6), WRITER, project=False).first_seq == 5
    check_sound(quick.layout.root, 5)


def test_patience_is_that_of_the_caller(quick):
    with open_journal(quick.layout.root) as other, other.writing():
        begun_s = time.monotonic()
        with pytest.raises(LockTimeoutError):
            quick.mutate(put(5), WRITER, project=False, patience_s=0)
        assert time.monotonic() - begun_s < LOCK_PATIENCE_S  # which it would wait without it


def strace(root, log, *options):
    command = ["strace", "-f", "-qq", "-o", os.fspath(log), *options, sys.executable, "-c", CHILD, root, *sys.path]
    env = {name: value for name, value in os.environ.items() if name != "QUICK_APPENDS_LOG"}
    return subprocess.run(command, capture_output=True, timeout=120, check=False, env=env)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Which calls, counted by their kind, are those of the last mutation."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    folder = tmp_path_factory.mktemp("dry")
    strace(
        make_store(folder / "first"), folder / "log", f"-etrace={','.join(CALLS)}"
    )  # fills the caches of the interpreter
    root = make_store(folder)
    done = strace(root, folder / "log", f"-etrace={','.join(CALLS)}")
    if b"ptrace" in done.stderr.lower():
        pytest.skip("strace may not trace here")
    assert done.stdout == b"begun\nack\n", done.stderr.decode()
    counts = dict.fromkeys(CALLS, 0)
    first: dict[str, int] = {}
    begun = False
    for line in (folder / "log").read_text(errors="replace").splitlines():
        name = re.sub(r"^\d+ +", "", line).partition("(")[0]
        if '"begun' in line:
            begun = True
            counts[name] += 1
            continue
        if '"ack' in line:
            break
        if name in counts:
            counts[name] += 1
            if begun:
                first.setdefault(name, counts[name])
    found = {name: (first[name], counts[name]) for name in first}
    assert found["fdatasync"][0] == found["fdatasync"][1], "one sync"
    assert found["write"][0] == found["write"][1], "one write"
    return found


def check_after(root, done):
    """What must hold whatever happened to the last mutation."""
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    with open_journal(root) as journal:
        assert journal.damage is None
        if b"begun" in done.stdout:
            assert journal.get("note", item(1, "not")).value == {"text": "before 19"}
        one = journal.get("note", item(2, "not"))
        assert one is None or one.value == {"text": "the one"}
        if b"ack" in done.stdout:
            assert one is not None, "what was acknowledged is there"
        again = journal.mutate(put(2, "again"), WRITER, key="k")
        assert again.repeated == (one is not None)
        journal.mutate(put(3, "the next writer goes on"), WRITER)
        seqs = [entry.record.seq for _, entry in journal.entries(journal.lineage)]
        assert seqs == list(range(1, len(seqs) + 1))
        found = examine(journal)
        assert found.exit_code in (0, 1), found.problems
        assert all(p.severity == "note" or p.path.endswith(".poisoned") for p in found.problems), found.problems


@pytest.mark.slow
@pytest.mark.rig
def test_kill_9_at_every_system_call_of_it(tmp_path, places):
    cases = 0
    for call, (first, last) in places.items():
        for number in range(first, last + 1):
            folder = tmp_path / f"{call}-{number}"
            root = make_store(folder)
            done = strace(root, tmp_path / "log", f"-einject={call}:signal=SIGKILL:when={number}", f"-etrace={call}")
            was_killed = done.returncode in (-9, 137)
            assert was_killed or done.stdout == b"begun\nack\n", (
                call,
                number,
                done,
            )  # there were fewer calls this time
            check_after(root, done)
            shutil.rmtree(folder)
            cases += was_killed and b"begun" in done.stdout
    assert cases > 10


@pytest.mark.slow
@pytest.mark.rig
@pytest.mark.parametrize("call", sorted(CHANGES))
def test_an_error_of_every_system_call_of_it(tmp_path, places, call):
    first, last = places.get(call, (1, 0))
    for error in CHANGES[call]:
        for number in range(first, last + 1):
            folder = tmp_path / f"{error}-{number}"
            root = make_store(folder)
            done = strace(root, tmp_path / "log", f"-einject={call}:error={error}:when={number}", f"-etrace={call}")
            log = (tmp_path / "log").read_text(errors="replace")[-600:]
            assert done.returncode == 0, (call, error, number, done.stderr.decode()[-1500:])
            try:
                check_after(root, done)
            except AssertionError as problem:
                raise AssertionError((call, error, number, done.stdout, log)) from problem
            if call == "fdatasync":
                assert done.stdout == b"begun\nrefused OutcomeUnknownError\n"
                assert list(Path(root, "journal").glob("lin_*/*.poisoned"))
            shutil.rmtree(folder)


def test_a_transaction_without_the_native_build_is_the_same(monkeypatch):
    """The plain form of ``put`` gives the draft that the native one gives."""
    drafts = []
    for native in (APPEND, None):
        monkeypatch.setattr("periplus.journal.transaction.APPEND", native)
        transaction = Transaction(TYPES, lambda *_: [], lambda *_: None)
        transaction.put("note", item(1, "not"), {"b": "é", "a": [1, None, True]}, summary=" two  words ")
        drafts.append(transaction.drafts)
    assert drafts[0] == drafts[1]
