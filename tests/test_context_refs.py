"""Refs in files: names that no file system mixes up, one change at a time, and whatever else lies there is told and not believed."""

from __future__ import annotations

import os
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from periplus.base.errors import ConflictError, DamageError, LockTimeoutError, UsageError
from periplus.base.files import Files
from periplus.base.process.locks import Lock
from periplus.context.model import Context
from periplus.context.stores.disk_store import DiskStore, FileRefs
from periplus.context.stores.refs import REF_NAME_BYTES_MAX, MemoryRefs, check_ref_name

pytestmark = pytest.mark.quick

ONE, TWO = b"\x01" * 32, b"\x02" * 32


@pytest.fixture
def refs(tmp_path):
    refs = FileRefs(str(tmp_path / "refs"), Files())
    yield refs
    refs.close()


@pytest.mark.parametrize("make", [lambda folder: MemoryRefs(), lambda folder: FileRefs(str(folder / "refs"), Files())])
def test_a_table_compares_and_sets(tmp_path, make):
    table = make(tmp_path)
    assert (table.all(), table.get("main")) == ({}, None)
    table.change("main", None, ONE)
    for old, new in ((None, TWO), (TWO, ONE), (TWO, None)):
        with pytest.raises(ConflictError, match="main stands at 0101"):
            table.change("main", old, new)
    table.change("main", ONE, TWO)
    assert table.all() == {"main": TWO}
    table.change("main", TWO, None)
    table.change("main", None, None)
    assert table.all() == {}


names = st.text(string.ascii_letters + string.digits + "._-+@=/", min_size=1, max_size=40)


@given(names)
def test_each_name_has_a_file_of_its_own_below_the_folder(name):
    try:
        check_ref_name(name)
    except UsageError:
        return
    refs = FileRefs("/nowhere/refs", Files())
    path = refs._path(name)
    assert os.path.dirname(path) == "/nowhere/refs"
    file_name = os.path.basename(path)
    assert file_name == file_name.replace("/", "").lstrip(".")
    assert all(char not in string.ascii_uppercase or before == "%" or before2 == "%"
               for before2, before, char in zip("  " + file_name, " " + file_name, file_name, strict=False))  # fmt: skip


def test_the_longest_names_have_files(refs):
    longest = ["A" * REF_NAME_BYTES_MAX, "a" * REF_NAME_BYTES_MAX, "/".join("B" * (REF_NAME_BYTES_MAX // 2))]
    for name in longest:
        refs.change(name, None, ONE)
        assert refs.get(name) == ONE
    assert refs.all() == dict.fromkeys(sorted(longest), ONE)
    refs.change(longest[0], ONE, None)
    assert refs.get(longest[0]) is None
    with pytest.raises(UsageError):
        refs.change("a" * (REF_NAME_BYTES_MAX + 1), None, ONE)


@pytest.mark.parametrize("data", [b"", b"\n", b"01" * 32, b"01" * 32 + b"\n", b"x" * 64 + b"\nmain\n", b"AB" * 32 + b"\nmain\n",
                                  b"01" * 32 + b"\nmain\n\n", b"01" * 32 + b"\n../x\n", b"\xff" * 70, b"0" * 10_000])  # fmt: skip
def test_a_damaged_ref_is_told_by_its_file(refs, tmp_path, data):
    refs.change("main", None, ONE)
    refs.change("other", None, TWO)
    (tmp_path / "refs" / "main").write_bytes(data)
    for ask in (lambda: refs.get("main"), lambda: refs.change("main", ONE, TWO)):
        with pytest.raises(DamageError, match=r"refs/main: (not the digest|the file of)"):
            ask()
    assert refs.get("other") == TWO
    assert refs.all() == {"other": TWO}
    assert [str(error).count("refs/main") for error in refs.damaged()] == [1]
    (tmp_path / "refs" / "main").unlink()
    assert refs.damaged() == []
    assert refs.all() == {"other": TWO}


def test_no_link_is_followed(refs, tmp_path):
    refs.change("main", None, ONE)
    (tmp_path / "refs" / "evil").symlink_to(tmp_path / "refs" / "main")
    with pytest.raises(DamageError, match="refs/evil"):
        refs.get("evil")
    assert refs.all() == {"main": ONE}
    assert "refs/evil" in str(refs.damaged()[0])


@pytest.mark.parametrize("name", ["Main", "a%2", "%2E%2E", "README.txt", "mein"])
def test_files_of_other_names_than_their_ref_has_are_told(refs, tmp_path, name):
    refs.change("main", None, ONE)
    (tmp_path / "refs" / name).write_text(f"{ONE.hex()}\nmain\n")
    assert refs.all() == {"main": ONE}
    assert [f"refs/{name}: the file of another ref" in str(error) for error in refs.damaged()] == [True]
    assert refs.get("main") == ONE


def test_what_a_stopped_writer_left_is_passed_over_and_swept(refs, tmp_path):
    refs.change("main", None, ONE)
    left = tmp_path / "refs" / ".main.1.abcd.tmp"
    left.write_text("half")
    assert refs.all() == {"main": ONE}
    refs.sweep()
    assert not left.exists()
    assert refs.all() == {"main": ONE}


def test_a_setter_waits_for_another_and_not_for_ever(tmp_path):
    refs = FileRefs(str(tmp_path / "refs"), Files(), patience_s=0.02)
    with Lock(str(tmp_path / "refs.lock")).holding(1), pytest.raises(LockTimeoutError):
        refs.change("main", None, ONE)
    assert refs.all() == {}
    refs.change("main", None, ONE)
    refs.close()


def test_nothing_is_collected_while_a_ref_is_damaged(tmp_path):
    """Nobody knows what it stood for."""
    store = DiskStore(str(tmp_path))
    head = store.commit(Context(metadata={"n": 1}))
    store.set_ref("main", head)
    (tmp_path / "refs" / "main").write_text("?")
    assert store.refs() == {}
    assert len(store.damaged_refs()) == 1
    with pytest.raises(DamageError, match="refs/main"):
        store.gc(grace_ms=0)
    assert store.missing([head]) == []
    store.close()
