"""What every layer stands on: bytes, numbers, containers, ids, time, files, locks, tokens."""

import contextlib
import errno
import os
import random
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

import periplus.base
from periplus.base.clock import FixedClock, SystemClock, format_ms, parse_ms
from periplus.base.encoding.canonical import DEPTH_MAX, INTEGER_MAX, canonical, decode_canonical
from periplus.base.encoding.container import (
    CONTAINER_VERSION,
    KIND_CONTEXT,
    KIND_TRAIL,
    MAGIC,
    pack,
    unpack,
)
from periplus.base.encoding.digests import is_digest_text, parse_digest, sha256
from periplus.base.encoding.varint import UINT_MAX, append_uint, read_uint, uint_bytes, unzigzag, zigzag
from periplus.base.errors import (
    EnvironmentFailure,
    FormatError,
    LockTimeoutError,
    NewerFormatError,
    UsageError,
    environment_failure,
)
from periplus.base.files import Files, write_all, write_atomic
from periplus.base.ids import derived_id, is_id, new_id
from periplus.base.process.locks import Lock
from periplus.base.text.token_estimate import _of_pieces, estimate_tokens

pytestmark = pytest.mark.quick

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(periplus.base.__file__))))


# ---- canonical bytes

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
keys = st.text(st.characters(max_codepoint=0xD7FF), max_size=8)
integers = st.integers(-INTEGER_MAX, INTEGER_MAX)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), integers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(keys, inner, max_size=5)),
    max_leaves=30,
)


@given(values)
def test_canonical_bytes_are_those_of_rfc_8785(value):
    data = canonical(value)
    assert data == rfc8785.dumps(value)
    assert decode_canonical(data) == value
    assert decode_canonical(memoryview(data)) == value


def test_canonical_bytes_of_every_character_are_those_of_rfc_8785():
    text = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x11000), 0x1F600, 0x10FFFF]))
    assert canonical(text) == rfc8785.dumps(text)
    below = {chr(code): code for code in range(0xD800)}
    assert canonical(below) == rfc8785.dumps(below)


def test_a_tuple_is_written_as_a_list():
    assert canonical((1, ("a",))) == b'[1,["a"]]'


def nested(depth, leaf=0):
    value = leaf
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Mapping(dict):
    pass


class Sequence(list):
    pass


REFUSED = [
    (1.5, r"\$: a floating"),
    (1.0, "floating"),
    (float("nan"), "floating"),
    (float("inf"), "floating"),
    (2**53, r"2\^53"),
    (-(2**53), r"2\^53"),
    (10**5000, r"2\^53"),
    ({"a": [0, {"b": 2**64}]}, r"\$\.a\[1\]\.b: "),
    ("\ud800", "surrogate"),
    (["a\udfffb"], "surrogate"),
    ({"\ud800": 1}, r"U\+D800"),
    ({"\ue000": 1}, r"U\+D800"),
    ({"a\U0001f600": 1}, r"U\+D800"),
    ({1: 1}, "int, not a string"),
    ({10**5000: 1}, "int, not a string"),
    ({None: 1}, "NoneType, not a string"),
    ({b"a": 1}, "bytes, not a string"),
    ({Text("a"): 1}, "Text, not a string"),
    (Text("a"), "Text"),
    (Number(1), "Number"),
    (Mapping(a=1), "Mapping"),
    (Sequence([1]), "Sequence"),
    (b"bytes", "bytes"),
    ({1, 2}, "set"),
    (datetime(2026, 1, 1, tzinfo=UTC), "datetime"),
    (nested(DEPTH_MAX + 1), "nested deeper"),
    (nested(5000), "nested deeper"),
]


@pytest.mark.parametrize(("value", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_has_no_canonical_form_is_refused(value, message):
    with pytest.raises(UsageError, match=message):
        canonical(value)


def test_a_value_that_holds_itself_is_refused():
    value = []
    value.append(value)
    with pytest.raises(UsageError, match="nested deeper"):
        canonical(value)


def test_the_limits_are_within():
    assert canonical([INTEGER_MAX, -INTEGER_MAX]) == b"[9007199254740991,-9007199254740991]"
    assert decode_canonical(canonical(nested(DEPTH_MAX))) == nested(DEPTH_MAX)
    assert canonical({"\ud7ff": 1}) == '{"\ud7ff":1}'.encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b'{"a":1,"a":1}',
        b'{"a":1,"a":2}',
        b'{"b":1,"a":2}',
        b'{"a": 1}',
        b"[1, 2]",
        b" 1",
        b"1\n",
        b"1.0",
        b"1e0",
        b"-0",
        b"0.5",
        b"01",
        b"NaN",
        b"Infinity",
        b"9007199254740992",
        b"1" * 400,
        b'"\\u0041"',
        b'"\\/"',
        b'"\\u000a"',
        b'"\\u001F"',
        b'"\\ud83d\\ude00"',
        b'"\\ud800"',
        b'"\x7f\x01"',
        b'"\xff"',
        b'"\xed\xa0\x80"',
        b'{"\xf0\x9f\x98\x80":1}',
        b"\xef\xbb\xbf1",
        b"[" * 65 + b"]" * 65,
        b"[" * 100_000,
        b"[" * 900 + b"]" * 900,
        b"[1",
        b"1 2",
        b"{1:2}",
        b"'a'",
        b"True",
    ],
)
def test_what_is_not_its_own_canonical_form_is_refused(data):
    with pytest.raises(FormatError, match="not canonical"):
        decode_canonical(data)


@given(st.binary(max_size=40))
def test_bytes_decode_to_what_encodes_to_them_or_not_at_all(data):
    with contextlib.suppress(FormatError):
        assert canonical(decode_canonical(data)) == data


# ---- digests and varints


def test_a_digest_as_text_is_64_small_hexadecimal_digits_and_nothing_else():
    text = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert sha256(b"").hex() == text
    assert parse_digest(text) == sha256(b"")
    for wrong in ("", text[1:], text + "0", text.upper(), "g" + text[1:], " " + text[1:]):
        assert not is_digest_text(wrong)
        with pytest.raises(UsageError):
            parse_digest(wrong)


@given(st.integers(0, UINT_MAX), st.binary(max_size=4), st.binary(max_size=4))
@example(0, b"", b"")
@example(UINT_MAX, b"\xff", b"\xff")
def test_varints_round_trip_wherever_they_lie(value, before, after):
    data = uint_bytes(value)
    assert len(data) == max(1, -(-value.bit_length() // 7))
    whole = bytearray(before)
    append_uint(whole, value)
    whole += after
    end = len(before) + len(data)
    assert read_uint(bytes(whole), len(before), len(whole)) == (value, end)
    assert read_uint(memoryview(whole), len(before), end) == (value, end)
    for cut in range(len(before), end):
        with pytest.raises(FormatError, match="cut off") as caught:
            read_uint(bytes(whole), len(before), cut)
        assert caught.value.offset == len(before)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x80\x00", "shortest"),
        (b"\xff\x00", "shortest"),
        (b"\x80\x80\x80\x00", "shortest"),
        (b"\x80" * 9 + b"\x00", "shortest"),
        (b"\xff" * 9 + b"\x02", "64 bits"),
        (b"\x80" * 9 + b"\x7f", "64 bits"),
        (b"\x80" * 10 + b"\x01", "10 bytes"),
        (b"\xff" * 500, "10 bytes"),
        (b"", "cut off"),
        (b"\x80" * 9, "cut off"),
    ],
)
def test_wrong_varints_are_refused_at_their_offset(data, message):
    with pytest.raises(FormatError, match=message) as caught:
        read_uint(b"abc" + data, 3, 3 + len(data))
    assert caught.value.offset == 3


@given(st.integers(-(2**63), 2**63 - 1))
def test_zigzag_round_trips_within_64_bits(value):
    assert unzigzag(zigzag(value)) == value
    assert 0 <= zigzag(value) <= UINT_MAX


def test_zigzag_counts_from_zero_outwards():
    assert [zigzag(value) for value in (0, -1, 1, -2, 2)] == [0, 1, 2, 3, 4]


# ---- the container

SAMPLE_SECTIONS = {1: b"one", 7: b"", 0x80: bytes(range(130)), 254: b"last"}
SAMPLE = pack(KIND_TRAIL, SAMPLE_SECTIONS)


@given(st.dictionaries(st.integers(0, 254), st.binary(max_size=300), max_size=6), st.integers(0, 255))
def test_containers_round_trip_with_tags_that_nobody_knows(sections, kind):
    data = pack(kind, dict(reversed(list(sections.items()))))
    assert data == pack(kind, sections)
    places = unpack(data, kind)
    assert list(places) == sorted(sections)
    assert {tag: data[start:end] for tag, (start, end) in places.items()} == sections


def test_every_changed_byte_of_a_container_is_refused():
    for place in range(len(SAMPLE)):
        for change in range(1, 256):
            data = bytearray(SAMPLE)
            data[place] ^= change
            with pytest.raises(FormatError) as caught:
                unpack(bytes(data), KIND_TRAIL)
            assert 0 <= caught.value.offset <= len(SAMPLE)


def test_every_truncation_and_every_tail_of_a_container_is_refused():
    for length in range(len(SAMPLE)):
        with pytest.raises(FormatError) as caught:
            unpack(SAMPLE[:length], KIND_TRAIL)
        assert 0 <= caught.value.offset <= length
    for tail in (b"\0", SAMPLE):
        with pytest.raises(FormatError) as caught:
            unpack(SAMPLE + tail, KIND_TRAIL)
        assert caught.value.offset is not None


@given(st.one_of(st.binary(max_size=90), st.binary(max_size=90).map(lambda tail: SAMPLE[:6] + tail)))
def test_hostile_containers_raise_nothing_else(data):
    with pytest.raises(FormatError):
        unpack(data, KIND_TRAIL)


def sealed(body):
    return body + b"\xff\x20" + sha256(body + b"\xff\x20")


@pytest.mark.parametrize(
    ("body", "offset", "message"),
    [
        (b"\x05\x00\x05\x00", 8, "out of order"),
        (b"\x05\x00\x04\x00", 8, "out of order"),
        (b"\x05\x80\x00", 7, "shortest"),
        (b"\x05\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 6, "cut off"),
        (b"\xff\x20" + b"0" * 32, 40, "after the digest"),
    ],
)
def test_a_container_with_a_right_digest_must_still_be_well_formed(body, offset, message):
    with pytest.raises(FormatError, match=message) as caught:
        unpack(sealed(SAMPLE[:6] + body), KIND_TRAIL)
    assert caught.value.offset == offset


def test_another_kind_and_a_later_version():
    with pytest.raises(FormatError, match="kind 1 where kind 2") as caught:
        unpack(SAMPLE, KIND_CONTEXT)
    assert caught.value.offset == 5
    later = sealed(MAGIC + bytes((CONTAINER_VERSION + 1, KIND_TRAIL)) + b"whatever it holds")
    with pytest.raises(NewerFormatError) as newer:
        unpack(later, KIND_TRAIL)
    assert newer.value.mend == "Update Periplus."
    with pytest.raises(FormatError, match="version 1 unknown"):
        unpack(sealed(MAGIC + bytes((1, KIND_TRAIL))), KIND_TRAIL)


# ---- ids


def test_new_ids_differ_and_are_ids():
    ids = {new_id("dec") for _ in range(200)}
    assert len(ids) == 200
    assert all(map(is_id, ids))
    assert new_id("dec", bytes(10)) == "dec_" + "0" * 16
    assert new_id("a_b", b"\xff" * 10) == "a_b_" + "z" * 16


@given(st.lists(st.text(st.characters(), max_size=5), max_size=4), st.lists(st.text(max_size=5), max_size=4))
@example(["ab", "c"], ["a", "bc"])
@example(["a"], ["a", ""])
@example(["\ud800"], ["?"])
def test_derived_ids_are_equal_for_equal_parts_only(one, two):
    assert is_id(derived_id("x", *one))
    assert (derived_id("x", *one) == derived_id("x", *two)) == (one == two)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "_",
        "dec",
        "dec_",
        "_0123456789abcdef",
        "dec_0123456789abcde",
        "dec_0123456789abcdefg",
        "dec_0123456789abcdei",
        "dec_0123456789ABCDEF",
        "Dec_0123456789abcdef",
        "../x_0123456789abcdef",
        "a/b_0123456789abcdef",
        "é_0123456789abcdef",
        "a" * 33 + "_0123456789abcdef",
        "dec_0123456789abcdef\n",
        "\x00_0123456789abcdef",
    ],
)
def test_what_is_no_id(text):
    assert not is_id(text)


# ---- the clock

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_MS, LAST_MS = (
    (moment - EPOCH) // timedelta(milliseconds=1)
    for moment in (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
)


def datetime_text(ms):
    return (EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@given(st.integers(FIRST_MS, LAST_MS))
@example(FIRST_MS)
@example(LAST_MS)
@example(-1)
@example(951_782_400_000)  # 29 February 2000
def test_moments_are_written_as_datetime_writes_them(ms):
    assert format_ms(ms) == datetime_text(ms)
    assert parse_ms(format_ms(ms)) == ms


@pytest.mark.slow
def test_every_day_of_four_centuries_is_written_as_datetime_writes_it():
    for day in range(-100_000, 50_000):
        assert format_ms(day * 86_400_000 - 1) == datetime_text(day * 86_400_000 - 1)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T01:30:00+01:30", 0),
        ("1969-12-31T23:59:59.999999Z", -1),
        ("2026-01-31T09:30:00.25Z", 1_769_851_800_250),
        ("2026-01-31T09:30:00", 1_769_851_800_000),
        ("2026-02-30T00:00:00Z", None),
        ("yesterday", None),
        ("", None),
        ("\ud800", None),
        ("10000-01-01T00:00:00Z", None),
    ],
)
def test_moments_are_read_in_any_offset_and_precision(text, ms):
    assert parse_ms(text) == ms


def test_a_fixed_clock_steps_and_the_systems_clock_is_the_time():
    clock = FixedClock(1000, step_ms=5)
    assert [clock.now_ms(), clock.now_ms()] == [1000, 1005]
    clock.advance(90)
    assert clock.now_ms() == 1100
    assert abs(SystemClock().now_ms() - datetime.now(UTC).timestamp() * 1000) < 60_000


# ---- files


class FailingFiles(Files):
    """Real files of which one call fails."""

    def __init__(self, call, number=28):
        self.call = call
        self.number = number

    def fail(self, call):
        if call == self.call:
            raise OSError(self.number, os.strerror(self.number))

    def open(self, path, flags, mode=0o644):
        self.fail("open")
        return super().open(path, flags, mode)

    def write(self, fd, data):
        if self.call == "second write":
            self.call = "write"
            return super().write(fd, data[:3])
        self.fail("write")
        return super().write(fd, data)

    def sync(self, fd):
        self.fail("sync")
        super().sync(fd)

    def replace(self, source, target):
        self.fail("replace")
        super().replace(source, target)

    def sync_folder(self, path):
        self.fail("sync_folder")
        super().sync_folder(path)


class SlowFiles(Files):
    """Each write takes one byte, as a system may."""

    def write(self, fd, data):
        return super().write(fd, data[:1])


class StuckFiles(Files):
    """Writes that take nothing and do not say why."""

    def write(self, fd, data):
        return 0


@pytest.mark.parametrize("call", ["open", "write", "second write", "sync", "replace"])
@pytest.mark.parametrize(("number", "advice"), [(28, "Free some space"), (13, "owner and the mode"), (5, "")])
def test_a_write_that_fails_leaves_the_old_bytes_and_no_temporary_file(tmp_path, call, number, advice):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(EnvironmentFailure, match=os.strerror(number)) as caught:
        write_atomic(FailingFiles(call, number), str(path), b"new bytes")
    assert advice in caught.value.mend
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_folder_that_cannot_be_synced_is_not_kept_quiet(tmp_path):
    path = tmp_path / "file"
    with pytest.raises(EnvironmentFailure):
        write_atomic(FailingFiles("sync_folder"), str(path), b"new")
    assert path.read_bytes() == b"new"
    write_atomic(FailingFiles("sync_folder"), str(path), b"newer", durable=False)
    assert path.read_bytes() == b"newer"


def test_short_writes_go_on_and_writes_of_nothing_do_not(tmp_path):
    path = tmp_path / "file"
    write_atomic(SlowFiles(), str(path), b"a few bytes")
    assert path.read_bytes() == b"a few bytes"
    write_atomic(Files(), str(path), b"")
    assert path.read_bytes() == b""
    with pytest.raises(EnvironmentFailure):
        write_atomic(StuckFiles(), str(path), b"more")
    assert path.read_bytes() == b""
    assert os.listdir(tmp_path) == ["file"]


def test_a_path_without_a_folder_and_the_mode(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_atomic(Files(), "file", b"x", mode=0o600)
    assert (tmp_path / "file").read_bytes() == b"x"
    assert os.stat("file").st_mode & 0o777 == 0o600


def test_leftovers_of_a_process_with_the_same_id_are_in_nobodys_way(tmp_path):
    for number in range(50):
        (tmp_path / f".file.{os.getpid()}.{number}.tmp").write_bytes(b"left")
    write_atomic(Files(), str(tmp_path / "file"), b"x")
    assert (tmp_path / "file").read_bytes() == b"x"


def test_write_all_writes_all(tmp_path):
    data = random.Random(3).randbytes(3000)
    fd = os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT)
    write_all(SlowFiles(), fd, bytearray(data))
    os.close(fd)
    assert (tmp_path / "file").read_bytes() == data


# ---- the lock

HOLD = """
import sys
from periplus.base.process.locks import Lock
with Lock(sys.argv[1]).holding():
    print("held", flush=True)
    sys.stdin.readline()
print("free", flush=True)
"""

HOLD_AND_FORK = """
import os, sys
from periplus.base.process.locks import Lock
with Lock(sys.argv[1]).holding():
    child = os.fork()
    if child:
        print(child, flush=True)
    sys.stdin.readline()
    os._exit(0)
"""

FORKED_CHILD_LEAVES_THE_BLOCK = """
import os, sys
from periplus.base.errors import LockTimeoutError
from periplus.base.process.locks import Lock
lock = Lock(sys.argv[1])
with lock.holding():
    child = os.fork()
    if child == 0:
        try:
            with lock.holding(0.0):
                os._exit(7)
        except LockTimeoutError:
            sys.exit(5)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    sys.stdin.readline()
"""


@contextlib.contextmanager
def running(script, path):
    process = subprocess.Popen(
        [sys.executable, "-c", script, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": SOURCE},
    )
    try:
        yield process
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def is_free(path):
    lock = Lock(path)
    try:
        with lock.holding(0.05):
            return True
    except LockTimeoutError:
        return False
    finally:
        lock.close()


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "lock")


def test_a_second_process_waits_in_vain_and_is_told_for_whom(path):
    with running(HOLD, path) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LockTimeoutError, match=rf"written by {holder.pid} .*not free within 0\.05 s"):
            Lock(path).holding(0.05).__enter__()
        holder.stdin.write("\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == "free\n"
        assert is_free(path)


def test_a_waiting_process_gets_the_lock_when_it_is_freed(path):
    lock = Lock(path)
    with contextlib.ExitStack() as stack:
        with lock.holding():
            waiting = stack.enter_context(running(HOLD, path))
            with pytest.raises(LockTimeoutError):
                Lock(path).holding(0.0).__enter__()
        assert waiting.stdout.readline() == "held\n"
        assert not is_free(path)


def test_a_killed_holder_frees_the_lock(path):
    with running(HOLD, path) as holder:
        assert holder.stdout.readline() == "held\n"
        assert not is_free(path)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        assert is_free(path)


def test_a_forked_child_does_not_keep_the_lock_of_its_killed_parent(path):
    with running(HOLD_AND_FORK, path) as holder:
        child = int(holder.stdout.readline())
        assert not is_free(path)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        os.kill(child, 0)  # it lives, waiting for a line
        assert is_free(path)


def test_a_forked_child_neither_holds_nor_frees_the_lock_of_its_parent(path):
    with running(FORKED_CHILD_LEAVES_THE_BLOCK, path) as holder:
        assert holder.stdout.readline() == "5\n"
        assert not is_free(path)


@pytest.mark.parametrize("is_opened_before", [False, True])
def test_a_replaced_lock_file_is_noticed(path, is_opened_before):
    lock = Lock(path)
    if is_opened_before:
        with lock.holding():
            pass
    with open(f"{path}.new", "w", encoding="utf-8"):
        pass
    os.replace(f"{path}.new", path)
    with running(HOLD, path) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LockTimeoutError, match=f" {holder.pid} "):
            lock.holding(0.05).__enter__()
    os.unlink(path)
    with lock.holding():
        assert os.path.exists(path)
        assert not is_free(path)
    lock.close()


def test_two_threads_exclude_each_other(path):
    lock = Lock(path)
    inside = 0
    seen = []

    def work():
        nonlocal inside
        for _ in range(100):
            with lock.holding():
                inside += 1
                seen.append(inside)
                os.sched_yield()
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [1] * 200
    with lock.holding():
        caught = []
        thread = threading.Thread(target=lambda: caught.append(_timeout_of(lock)))
        thread.start()
        thread.join()
        assert isinstance(caught[0], LockTimeoutError)
    lock.close()


def _timeout_of(lock):
    try:
        with lock.holding(0.01):
            return None
    except LockTimeoutError as error:
        return error


def test_an_error_inside_frees_the_lock_and_the_lock_is_usable_again(path):
    lock = Lock(path)
    with pytest.raises(KeyError), lock.holding():
        raise KeyError
    assert is_free(path)
    with lock.holding():
        assert not is_free(path)
    lock.close()


def test_a_lock_that_cannot_be_opened_is_said(tmp_path):
    lock = Lock(str(tmp_path / "no" / "lock"))
    for _ in range(2):
        with pytest.raises(EnvironmentFailure, match="open the lock"):
            lock.holding().__enter__()


# ---- tokens


@given(
    st.text(alphabet=" abAB1-=\n\t\u3000\u00a0\x85漢\x1c\x00!éZ9_~\x7f", max_size=20)
    | st.text(st.characters(max_codepoint=127))
    | st.text()
)
def test_counting_kind_by_kind_is_counting_piece_by_piece(text):
    assert estimate_tokens(text) == max((_of_pieces(text) + 3) // 4, 1 if text else 0)


@given(st.text(st.characters()))
@example(" ")
@example("\x00")
@example("\u00a0")
def test_only_the_empty_text_takes_no_tokens(text):
    assert (estimate_tokens(text) == 0) == (text == "")
    assert estimate_tokens(text) <= max(1, 2 * len(text.encode("utf-8", "replace")))


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("The quick brown fox jumps over the lazy dog.", 10, 13),
        ("Hello, world!", 4, 6),
        ("def add(one, two):\n    return one + two\n", 11, 20),
        ("\u4f60\u597d\u4e16\u754c", 4, 8),
        ("1234567890", 4, 4),
        ("internationalization", 2, 6),
    ],
)
def test_estimates_lie_near_the_common_vocabularies(text, low, high):
    assert low <= estimate_tokens(text) <= high
    assert low * 100 <= estimate_tokens(" ".join([text] * 100)) <= (high + 1) * 100


def test_a_failure_of_the_system_says_its_reason_whatever_it_is_called():
    assert "AF_UNIX path too long" in str(environment_failure(OSError("AF_UNIX path too long"), "listen on", "/x"))
    assert "Is a directory" in str(environment_failure(IsADirectoryError(21, "Is a directory"), "read", "/x"))
    assert str(environment_failure(TimeoutError(), "read")) == "cannot read: TimeoutError"


@pytest.mark.parametrize(
    ("number", "option"), [(errno.EMFILE, "ulimit -n"), (errno.EFBIG, "ulimit -f"), (errno.ENFILE, "close files")]
)
def test_a_limit_that_was_met_is_said_with_what_to_raise_or_free(number, option):
    """The table of guarantees says so of descriptors, too; nothing was said to whoever ran out of them."""
    assert option in environment_failure(OSError(number, os.strerror(number)), "write to", "/x").mend
