"""The object store on real files, with real processes beside it, and with every kind of damage."""

import hashlib
import os
import random
import stat
import subprocess
import sys
import zlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import periplus.base
from periplus.base.errors import DamageError, EnvironmentFailure, NotFoundError, UsageError
from periplus.base.files import Files
from periplus.objects import OBJECT_BYTES_MAX, ObjectStore
from support import PEAK

pytestmark = pytest.mark.quick

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(periplus.base.__file__))))
NOISE = random.Random(7).randbytes(5000)
TEXT = b"the same line again and again\n" * 100


@pytest.fixture
def store(tmp_path):
    return ObjectStore(str(tmp_path / "objects"), Files())


def files_below(folder):
    return sorted(os.path.join(at, name) for at, _, names in os.walk(folder) for name in names)


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def read(path):
    with open(path, "rb") as file:
        return file.read()


class CountingFiles(Files):
    """Real files that keep a list of the calls that reach the disk."""

    def __init__(self):
        self.calls = []

    def sync(self, fd):
        self.calls.append("sync")
        super().sync(fd)

    def sync_folder(self, path):
        self.calls.append(f"folder {os.path.basename(path)}")
        super().sync_folder(path)

    def replace(self, source, target):
        self.calls.append("rename")
        super().replace(source, target)


class ReadOnlyFiles(Files):
    """A file system mounted read-only, also for root."""

    def open(self, path, flags, mode=0o644):
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(30, "Read-only file system")
        return super().open(path, flags, mode)

    def refuse(self, *arguments):
        raise OSError(30, "Read-only file system")

    replace = unlink = make_folder = refuse


class FullFiles(Files):
    """A disk on which nothing more can be written."""

    def write(self, fd, data):
        raise OSError(28, "No space left on device")


def test_layout_and_round_trip(store, tmp_path):
    digest = store.put(b"hello")
    text = hashlib.sha256(b"hello").hexdigest()
    assert digest.hex() == text
    path = str(tmp_path / "objects" / text[:2] / text[2:])
    assert files_below(tmp_path) == [path]
    assert read(path) == b"hello"
    assert store.path_of(digest) == path
    assert store.get(digest) == b"hello"
    assert store.has(digest)
    assert store.check(digest) is None
    assert list(store.digests()) == [digest]
    assert store.size_on_disk() == 5


def test_the_folder_is_made_by_the_first_put_only(store, tmp_path):
    absent = bytes(32)
    assert not store.has(absent)
    assert list(store.digests()) == []
    assert store.size_on_disk() == 0
    with pytest.raises(NotFoundError, match="00" * 32):
        store.get(absent)
    assert isinstance(store.check(absent), NotFoundError)
    assert os.listdir(tmp_path) == []
    store.put(b"")
    assert os.listdir(tmp_path) == ["objects"]
    assert store.get(hashlib.sha256().digest()) == b""


@pytest.mark.parametrize(
    ("data", "is_compressed"),
    [
        (b"a" * 511, False),
        (b"a" * 512, True),
        (NOISE, False),
        (NOISE + bytes(400), False),
        (NOISE + bytes(700), True),
        (TEXT, True),
    ],
)
def test_compressed_from_512_bytes_where_it_saves_a_tenth(store, data, is_compressed):
    digest = store.put(data)
    path = store.path_of(digest)
    assert path.endswith(".z") == is_compressed
    assert read(path) == (zlib.compress(data) if is_compressed else data)
    assert store.get(digest) == data
    assert store.size_on_disk() == os.path.getsize(path)
    if is_compressed:
        assert os.path.getsize(path) <= 0.9 * len(data)
    elif len(data) >= 512:
        assert len(zlib.compress(data)) > 0.9 * len(data)


@given(
    st.lists(
        st.one_of(st.binary(max_size=50), st.builds(lambda b, n: b * n, st.binary(max_size=9), st.integers(0, 900)))
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
def test_many_objects_against_a_dict(tmp_path_factory, contents):
    store = ObjectStore(str(tmp_path_factory.mktemp("store") / "objects"), Files())
    model = {}
    for data in contents:
        digest = store.put(data, durable=False)
        assert digest == hashlib.sha256(data).digest()
        model[digest] = data
    assert list(store.digests()) == sorted(model)
    assert {digest: store.get(digest) for digest in store.digests()} == model
    assert not any(store.check(digest) for digest in model)


def test_either_form_is_read_and_counts_once(store):
    digest = store.put(TEXT)
    packed = store.path_of(digest)
    write(packed.removesuffix(".z"), TEXT)
    assert store.get(digest) == TEXT
    assert list(store.digests()) == [digest]
    assert store.size_on_disk() == len(TEXT) + os.path.getsize(packed)
    os.unlink(packed)
    assert store.get(digest) == TEXT
    assert store.put(TEXT) == digest
    assert not os.path.exists(packed)


def test_put_again_writes_nothing(store):
    digest = store.put(NOISE)
    path = store.path_of(digest)
    before = os.stat(path)
    assert store.put(NOISE) == digest
    after = os.stat(path)
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


@pytest.mark.parametrize("digest", [b"", b"x" * 31, b"x" * 33])
def test_what_is_no_digest_is_a_usage_error(store, digest):
    for call in (store.get, store.has, store.check, store.path_of):
        with pytest.raises(UsageError, match="32 bytes"):
            call(digest)


# ---- durability


def test_a_durable_put_syncs_file_then_name_then_every_folder(tmp_path):
    files = CountingFiles()
    store = ObjectStore(str(tmp_path / "objects"), files)
    folder = hashlib.sha256(b"one").hexdigest()[:2]
    store.put(b"one")
    assert files.calls == ["sync", "rename", f"folder {folder}", "folder objects", f"folder {tmp_path.name}"]


def test_an_object_that_is_there_is_synced_before_it_is_called_durable(tmp_path):
    root = str(tmp_path / "objects")
    ObjectStore(root, Files()).put(b"one", durable=False)
    files = CountingFiles()
    folder = hashlib.sha256(b"one").hexdigest()[:2]
    ObjectStore(root, files).put(b"one")
    assert files.calls == ["sync", f"folder {folder}", "folder objects", f"folder {tmp_path.name}"]


def test_a_folder_made_again_is_synced_again(tmp_path):
    files = CountingFiles()
    store = ObjectStore(str(tmp_path / "objects"), files)
    path = store.path_of(store.put(b"one"))
    first = list(files.calls)
    os.unlink(path)
    os.rmdir(os.path.dirname(path))
    files.calls.clear()
    store.put(b"one")
    assert files.calls == first


def test_without_durable_nothing_is_synced(tmp_path):
    files = CountingFiles()
    store = ObjectStore(str(tmp_path / "objects"), files)
    store.put(TEXT, durable=False)
    store.put(TEXT, durable=False)
    assert files.calls == ["rename"]


def test_a_full_disk_is_said_and_leaves_nothing_behind(tmp_path):
    store = ObjectStore(str(tmp_path / "objects"), FullFiles())
    with pytest.raises(EnvironmentFailure, match="No space left"):
        store.put(b"one")
    assert files_below(tmp_path) == []
    assert not store.has(hashlib.sha256(b"one").digest())


# ---- damage


def test_one_changed_byte_anywhere_in_a_plain_object_is_found_and_healed(store):
    data = bytes(range(40))
    digest = store.put(data)
    path = store.path_of(digest)
    for place in range(len(data)):
        for change in (0x01, 0x80, 0xFF):
            changed = bytearray(data)
            changed[place] ^= change
            write(path, changed)
            with pytest.raises(DamageError) as caught:
                store.get(digest)
            assert caught.value.path == path
            problem = store.check(digest)
            assert isinstance(problem, DamageError)
            assert problem.path == path
    assert store.put(data) == digest
    assert read(path) == data
    assert store.check(digest) is None


def test_one_changed_byte_anywhere_in_a_compressed_object_is_found_or_harmless(store):
    digest = store.put(TEXT)
    path = store.path_of(digest)
    packed = read(path)
    paths = []
    for place in range(len(packed)):
        for change in (0x01, 0x80, 0xFF):
            changed = bytearray(packed)
            changed[place] ^= change
            write(path, changed)
            try:
                assert store.get(digest) == TEXT
                assert store.check(digest) is None
            except DamageError as error:
                paths += [error.path, getattr(store.check(digest), "path", None)]
    assert set(paths) == {path}
    assert len(paths) > 5 * len(packed)
    write(path, changed)
    store.put(TEXT)
    assert read(path) == packed


@pytest.mark.parametrize("data", [NOISE[:300], TEXT], ids=["plain", "compressed"])
def test_every_truncation_and_every_tail_is_found(store, data):
    digest = store.put(data)
    path = store.path_of(digest)
    whole = read(path)
    for changed in [*(whole[:length] for length in range(len(whole))), whole + b"\0", whole + whole]:
        write(path, changed)
        with pytest.raises(DamageError) as caught:
            store.get(digest)
        assert caught.value.path == path
        assert isinstance(store.check(digest), DamageError)
    store.put(data)
    assert read(path) == whole


def test_a_sound_form_is_read_in_place_of_a_damaged_one(store):
    digest = store.put(TEXT)
    packed = store.path_of(digest)
    plain = packed.removesuffix(".z")
    write(plain, b"wrong")
    assert store.get(digest) == TEXT
    problem = store.check(digest)
    assert isinstance(problem, DamageError)
    assert problem.path == plain
    assert packed in problem.safe
    store.put(TEXT)
    assert read(plain) == TEXT
    assert store.check(digest) is None


def test_whether_an_object_is_in_one_file(store):
    digest = store.put(TEXT)
    assert store.is_in_one_file(digest)
    write(store.path_of(digest).removesuffix(".z"), TEXT)
    assert not store.is_in_one_file(digest)
    assert not store.is_in_one_file(bytes(32))


def test_both_forms_damaged_are_both_healed(store):
    digest = store.put(TEXT)
    packed = store.path_of(digest)
    plain = packed.removesuffix(".z")
    write(plain, b"wrong")
    write(packed, b"wrong too")
    with pytest.raises(DamageError):
        store.get(digest)
    store.put(TEXT)
    assert (read(plain), zlib.decompress(read(packed))) == (TEXT, TEXT)
    assert store.check(digest) is None


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_what_is_not_a_file_is_damage_and_holds_nobody_up(store, make):
    digest = store.put(b"one")
    path = store.path_of(digest)
    os.unlink(path)
    make(path)
    with pytest.raises(DamageError, match="not a file"):
        store.get(digest)
    assert isinstance(store.check(digest), DamageError)


def test_stray_files_are_ignored(store, tmp_path):
    digest = store.put(b"one")
    path = store.path_of(digest)
    folder, name = os.path.split(path)
    for stray in (f".{name}.12.0.tmp", f"{name}.tmp", name[:-1], name.upper() + ".z", f"{name}.z.z", "README"):
        write(os.path.join(folder, stray), b"stray")
    write(str(tmp_path / "objects" / ".note.tmp"), b"stray")
    write(str(tmp_path / "objects" / "ff"), b"a file where a folder could be")
    write(str(tmp_path / "objects" / "tmp" / "x"), b"stray")
    write(str(tmp_path / "objects" / "zz" / name), b"stray")
    assert list(store.digests()) == [digest]
    assert store.size_on_disk() == 3
    assert store.get(digest) == b"one"
    assert not store.has(b"\xff" * 32)
    with pytest.raises(NotFoundError):
        store.get(b"\xff" * 32)


# ---- limits


@pytest.mark.slow
def test_a_decompression_bomb_is_stopped_at_the_limit(tmp_path):
    script = """
import sys
from periplus.base.errors import DamageError
from periplus.base.files import Files
from periplus.objects import ObjectStore
store = ObjectStore(sys.argv[1], Files(), bytes_max=1 << 20)
digest = next(store.digests())
before = peak_bytes()
try:
    store.get(digest)
except DamageError as error:
    print(error.wrong)
print(type(store.check(digest)).__name__)
assert peak_bytes() - before < 32 << 20
"""
    bytes_bomb = 256 << 20
    stream = zlib.compressobj()
    state = hashlib.sha256()
    packed = b""
    for _ in range(bytes_bomb >> 20):
        packed += stream.compress(bytes(1 << 20))
        state.update(bytes(1 << 20))
    text = state.hexdigest()
    write(str(tmp_path / text[:2] / f"{text[2:]}.z"), packed + stream.flush())
    ran = run(PEAK + script, str(tmp_path))
    assert ran.communicate() == ("holds more than 1,048,576 bytes\nDamageError\n", "")


def test_the_limit_holds_for_plain_files_and_for_put(tmp_path):
    store = ObjectStore(str(tmp_path), Files(), bytes_max=100)
    assert store.get(store.put(b"x" * 100)) == b"x" * 100
    with pytest.raises(UsageError, match="at most 100"):
        store.put(b"x" * 101)
    digest = ObjectStore(str(tmp_path), Files()).put(b"x" * 101)
    with pytest.raises(DamageError, match="more than 100"):
        store.get(digest)
    assert OBJECT_BYTES_MAX == 1 << 30


# ---- others beside us


def run(script, *arguments):
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


PUT_200 = """
import sys
from periplus.base.files import Files
from periplus.objects import ObjectStore
store = ObjectStore(sys.argv[1], Files())
print("ready", flush=True)
sys.stdin.readline()
for number in range(200):
    digest = store.put(b"%d " % number * (number + 1))
    assert store.get(digest) == b"%d " % number * (number + 1)
print("done")
"""


def test_two_processes_put_the_same_objects_at_once(tmp_path):
    root = str(tmp_path / "objects")
    writers = [run(PUT_200, root), run(PUT_200, root)]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        assert writer.communicate() == ("done\n", "")
        assert writer.returncode == 0
    store = ObjectStore(root, Files())
    expected = {hashlib.sha256(b"%d " % number * (number + 1)).digest() for number in range(200)}
    assert set(store.digests()) == expected
    assert not any(store.check(digest) for digest in expected)
    assert len(files_below(root)) == 200


def test_reading_needs_no_write_permission(store, tmp_path):
    digest = store.put(TEXT)
    folders = [os.path.dirname(store.path_of(digest)), str(tmp_path / "objects")]
    for folder in folders:
        os.chmod(folder, 0o555)
    try:
        reader = ObjectStore(str(tmp_path / "objects"), ReadOnlyFiles())
        before = files_below(tmp_path)
        assert reader.get(digest) == TEXT
        assert reader.check(digest) is None
        assert reader.put(TEXT) == digest
        with pytest.raises(EnvironmentFailure, match="Read-only"):
            reader.put(b"something new")
        assert list(reader.digests()) == [digest]
        assert files_below(tmp_path) == before
        assert stat.S_IMODE(os.stat(folders[0]).st_mode) == 0o555
    finally:
        for folder in folders:
            os.chmod(folder, 0o755)


def test_what_remains_of_a_broken_object_is_its_beginning(store):
    data = b"".join(b"line %d of a long text\n" % number for number in range(3000))
    digest = store.put(data)
    assert store.remains(digest) == data
    path = store.path_of(digest)
    packed = read(path)
    half = len(packed) // 2
    for broken in (packed[:half], packed[:half] + bytes(40) + packed[half + 40 :]):
        write(path, broken)
        left = store.remains(digest)
        assert len(left) > len(data) // 4
        assert left[: len(data) // 4] == data[: len(data) // 4]
        with pytest.raises(DamageError):
            store.get(digest)
    with pytest.raises(NotFoundError):
        store.remains(bytes(32))
