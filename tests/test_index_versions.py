"""Programs of several versions use one store: each finds an index of its own version, and none throws another's away."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing, contextmanager

import pytest

from cli_support import Shell, fill
from hook_support import hook
from periplus.journal import Writer
from periplus.journal.index import index_file
from periplus.journal.index import tables as index_module
from periplus.journal.index.index_file import INDEX_VERSION, other_indexes
from periplus.memory import Memory
from periplus.memory.fulltext.indexer import MemoryIndexer
from periplus.project import Project

BELOW = INDEX_VERSION - 1
VERSION = MemoryIndexer.version
OLDER = f"index.sqlite.{BELOW}.{VERSION}"


WRITER = Writer("ada", "who_0000000000000000", "", 1)


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path / "pump", tmp_path)
    shell.folder.mkdir()
    fill(shell, "The pump stops at four bar")
    return shell


@pytest.fixture
def folder(shell):
    return shell.folder


def opened(folder, **how):
    return Project.open(os.fspath(folder), WRITER, **how)


def remember(project, text):
    project.remember(Memory("note", text))


@contextmanager
def of_version(monkeypatch, number):
    """Within it this process is one whose index has another version, as a program before or behind this one."""
    before = index_file.INDEX_VERSION
    for module in (index_module, index_file):
        monkeypatch.setattr(module, "INDEX_VERSION", number)
    yield
    for module in (index_module, index_file):
        monkeypatch.setattr(module, "INDEX_VERSION", before)


def names(folder):
    return sorted(name for name in os.listdir(folder / ".periplus") if name.startswith("index.") and name[-4:-3] != "-")


def identity(path):
    with closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT value FROM meta WHERE name = 'identity'").fetchone()[0].split()[0]


def titles(project):
    return sorted(str(entity.value["text"]) for entity in project.journal.entities("note"))


def inode(folder, name="index.sqlite"):
    return os.stat(folder / ".periplus" / name).st_ino


def test_an_older_program_has_an_index_of_its_own_beside_the_newer_ones(folder, monkeypatch):
    kept = inode(folder)
    with of_version(monkeypatch, BELOW), opened(folder) as project:
        assert titles(project) == ["The pump stops at four bar"]
        remember(project, "Valves open to the left")
        assert os.path.basename(project.journal.index.path) == OLDER
    assert names(folder) == ["index.sqlite", OLDER]
    own = inode(folder, OLDER)
    for _ in range(3):  # each by turns
        with opened(folder) as project:
            assert len(titles(project)) == 2
            assert project.journal.index.path == os.fspath(folder / ".periplus/index.sqlite")
        with of_version(monkeypatch, BELOW), opened(folder) as project:
            assert len(titles(project)) == 2
            assert project.recall("valves")
    assert (inode(folder), inode(folder, OLDER)) == (kept, own)
    assert identity(folder / ".periplus/index.sqlite") == f"{INDEX_VERSION}.{VERSION}"
    assert identity(folder / ".periplus" / OLDER) == f"{BELOW}.{VERSION}"


def test_a_newer_program_takes_the_name_and_an_older_one_that_has_it_open_goes_beside(folder, monkeypatch):
    (folder / ".periplus/index.sqlite").unlink()
    with of_version(monkeypatch, BELOW):
        server = opened(folder)  # begun before the upgrade
        assert titles(server) == ["The pump stops at four bar"]
    assert identity(folder / ".periplus/index.sqlite") == f"{BELOW}.{VERSION}"
    with opened(folder) as project:
        remember(project, "Valves open to the left")
        taken = inode(folder)
        with of_version(monkeypatch, BELOW):
            server.journal.refresh()
            assert len(titles(server)) == 2
            remember(server, "Seals are green")
            server.close()
        project.journal.refresh()
        assert len(titles(project)) == 3
    assert names(folder) == ["index.sqlite", OLDER]
    assert inode(folder) == taken


def test_an_older_version_of_the_memory_counts_too_and_other_settings_do_not(folder, monkeypatch):
    kept = inode(folder)
    monkeypatch.setattr(MemoryIndexer, "version", VERSION - 1)
    with opened(folder) as project:
        assert len(titles(project)) == 1
    assert names(folder) == ["index.sqlite", f"index.sqlite.{INDEX_VERSION}.{VERSION - 1}"]
    assert inode(folder) == kept
    (folder / ".periplus" / f"index.sqlite.{INDEX_VERSION}.{VERSION - 1}").unlink()
    monkeypatch.setattr(MemoryIndexer, "version", VERSION + (1 << 20))  # types that are not to be found by their words
    with opened(folder) as project:
        assert len(titles(project)) == 1
    assert names(folder) == ["index.sqlite"]
    assert identity(folder / ".periplus/index.sqlite") == f"{INDEX_VERSION}.{VERSION + (1 << 20)}"


def test_what_is_redacted_is_in_no_versions_index(shell, folder, monkeypatch):
    secret = "hunter2-never-again"
    with opened(folder) as project:
        remember(project, f"The password is {secret}")
    with of_version(monkeypatch, BELOW):
        old = opened(folder)
        assert any(secret in title for title in titles(old))
    shell("redact", "--secret-file", "-", "--reason", "a password", stdin=secret)
    holders = [
        path for path in (folder / ".periplus").rglob("*") if path.is_file() and secret.encode() in path.read_bytes()
    ]
    assert holders == []
    with of_version(monkeypatch, BELOW):
        old.journal.refresh()
        assert not any(secret in title for title in titles(old))
        old.close()
    assert not [
        path for path in (folder / ".periplus").rglob("*") if path.is_file() and secret.encode() in path.read_bytes()
    ]


def test_a_repair_leaves_no_version_an_index_of_what_was(shell, folder, monkeypatch):
    with of_version(monkeypatch, BELOW), opened(folder):
        pass
    assert OLDER in names(folder)
    shell("doctor", "--repair")
    assert names(folder) == ["index.sqlite"]


def test_an_index_that_nobody_writes_to_goes_with_a_checkpoint(shell, folder, monkeypatch):
    with of_version(monkeypatch, BELOW), opened(folder):
        pass
    store = folder / ".periplus"
    told = shell.json("doctor")
    assert [problem for problem in told.problems if "another version" in problem.what]
    shell("doctor", "--compact")
    assert OLDER in names(folder)  # it is in use
    long_ago = time.time() - 31 * 86_400
    for path in store.glob(OLDER + "*"):
        os.utime(path, (long_ago, long_ago))
    shell("remember", "Something new")
    shell("doctor", "--compact")
    assert names(folder) == ["index.sqlite"]


def test_a_name_is_an_indexs_only_where_numbers_stand_behind_it(tmp_path):
    for name in (
        "index.sqlite",
        "index.sqlite.5.9",
        "index.sqlite.5.9-wal",
        "index.sqlite.4.9-shm",
        "index.sqlite.5.9.next",
        "index.sqlite.bak",
        "index.sqlite.5",
        "index.sqlite.5.9.1",
        "index.sqlite-wal",
        "index.sqlite.next",
    ):
        (tmp_path / name).write_bytes(b"")

    def others(name):
        return [os.path.basename(path) for path in other_indexes(os.fspath(tmp_path / name))]

    assert others("index.sqlite") == ["index.sqlite.4.9", "index.sqlite.5.9", "index.sqlite.5.9.next"]
    assert others("index.sqlite.5.9") == ["index.sqlite", "index.sqlite.4.9", "index.sqlite.next"]


def test_a_hook_does_not_wait_for_an_index_that_must_be_made_first(folder, tmp_path, monkeypatch):
    """Of another version, or empty as that which somebody fills."""

    def asked():
        event = {
            "hook_event_name": "UserPromptSubmit",
            "session_id": "s1",
            "cwd": os.fspath(folder),
            "prompt": "Why does the pump stop at four bar?",
        }
        return hook(
            "UserPromptSubmit", event, cwd=folder, environment={"XDG_STATE_HOME": os.fspath(tmp_path / "state")}
        )

    assert b"four bar" in asked().stdout
    with closing(sqlite3.connect(folder / ".periplus/index.sqlite")) as db, db:
        (name,) = db.execute("SELECT value FROM meta WHERE name = 'identity'").fetchone()
        db.execute("UPDATE meta SET value = ? WHERE name = 'identity'", (f"{BELOW}.{name.partition('.')[2]}",))
    kept = inode(folder)
    done = asked()
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert inode(folder) == kept
    with opened(folder):
        pass
    assert b"four bar" in asked().stdout
    with closing(sqlite3.connect(folder / ".periplus/index.sqlite")) as db, db:
        db.execute("DELETE FROM watermarks")
    done = asked()
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
