"""The files of a store beside its records, changed at any byte: what others left for it, what is kept of others, what is made anew.

As ``test_every_file``, for hooks, connections, copies of git remotes, runs of contexts and the turns of sessions.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from cli_support import Shell, git
from hook_support import hook
from periplus.agent.persistence.run_log import StoreLog
from periplus.agent.persistence.turn_index import StoredTurns, TurnIndex
from periplus.base.files import Files
from periplus.base.filesystem.failure_notes import Note, leave_note, read_notes
from periplus.base.filesystem.spool import Spool
from periplus.interop.hooks.events import HookEvent
from periplus.journal.care.index_check import check_file
from periplus.memory import Memory
from periplus.memory.claim_status import session_id
from periplus.project import Project
from periplus.project.agent_hooks.duplicate_events import DuplicateEvents
from support import WRITER
from test_agent_pages import opened, turn_of

FLIPS = 60


def places(path, chance, count=FLIPS):
    """Bytes of a file to change: all where it is small."""
    size = path.stat().st_size
    return range(size) if size <= count else sorted({0, size - 1, *chance.sample(range(size), count)})


def flipped(data, at, chance):
    changed = bytearray(data)
    changed[at] ^= 1 << chance.randrange(8)
    return bytes(changed)


# -- hooks -------------------------------------------------------------------------------------------------------------


def test_an_event_that_a_hook_left_is_taken_as_it_is_or_told(tmp_path):
    from periplus.base.errors import FormatError

    spool = Spool(os.fspath(tmp_path))
    said = b'{"kind":"prompt","text":"Hash passwords with argon2"}'
    spool.leave(said, 5)
    (name,) = spool.waiting()
    path = tmp_path / name
    for at in range(len(said)):
        for bit in range(8):
            changed = bytearray(said)
            changed[at] ^= 1 << bit
            path.write_bytes(changed)
            with pytest.raises(FormatError, match="checksum") as caught:
                spool.read(name)
            assert caught.value.path == os.fspath(path)
    for cut in range(1, len(said)):
        path.write_bytes(said[:cut])
        with pytest.raises(FormatError):
            spool.read(name)
    path.write_bytes(said)
    assert spool.read(name) == said


def test_what_an_earlier_version_left_is_read(tmp_path):
    (tmp_path / f"{7:020d}-12-ab.json").write_bytes(b"{}")
    (tmp_path / f"{7:020d}-12-ab.json").chmod(0o600)  # as every version leaves it
    spool = Spool(os.fspath(tmp_path))
    assert spool.read(spool.waiting()[0]) == b"{}"


@pytest.mark.slow
def test_a_changed_event_is_noted_and_the_others_are_taken_in(tmp_path):
    project = tmp_path / "engine"
    project.mkdir()
    shell = Shell(project, tmp_path)
    shell("init")
    for number in range(3):
        told = {
            "session_id": f"5e55101{number}",
            "cwd": os.fspath(project),
            "prompt": f"Count the cogs of wheel {number}",
        }
        hook("UserPromptSubmit", told | {"hook_event_name": "UserPromptSubmit"}, cwd=project, words=())
    waiting = sorted((project / ".periplus/hooks/spool").glob("*.json"))
    assert len(waiting) == 3
    data = waiting[1].read_bytes()
    waiting[1].write_bytes(flipped(data, data.index(b"wheel"), random.Random(1)))
    shell("status")
    done = shell("doctor")
    assert waiting[1].name in done.out
    assert "checksum" in done.out
    kept = waiting[1].parent / "aside" / waiting[1].name  # nothing is thrown away
    assert kept.read_bytes() == flipped(data, data.index(b"wheel"), random.Random(1))
    with Project.open(os.fspath(project), WRITER) as opened:
        assert len(list(opened.journal.entities("session"))) == 2


@pytest.mark.slow
def test_the_list_of_what_is_taken_in_is_as_it_was_written_or_told(tmp_path):
    from periplus.base.errors import FormatError

    spool = Spool(os.fspath(tmp_path))
    for number in range(3):
        spool.leave(b'{"n":%d}' % number, number)
    group = spool.begin(2, 1 << 20)
    assert len(group.names) == 2
    spool.leave(b"later", 1, mark="0")  # before the second one: a list that was made anew would be another
    path = tmp_path / "group"
    data = path.read_bytes()
    for at in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[at] ^= 1 << bit
            path.write_bytes(changed)
            with pytest.raises(FormatError, match="checksum") as caught:
                spool.begin(2, 1 << 20)
            assert caught.value.path == os.fspath(path)
    for cut in range(1, len(data)):
        path.write_bytes(data[:cut])
        with pytest.raises(FormatError):
            spool.begin(2, 1 << 20)
    path.write_bytes(data.partition(b"\n")[2])  # as an earlier version wrote it
    assert spool.begin(2, 1 << 20) == group
    path.write_bytes(data)
    assert spool.begin(2, 1 << 20) == group
    for number in range(2):
        path.write_bytes(b"changed %d" % number)
        kept = spool.set_aside("group")
        assert Path(kept).read_bytes() == b"changed %d" % number
    assert spool.begin(2, 1 << 20) != group


def test_a_changed_list_is_noted_and_what_it_named_is_taken_in(tmp_path):
    project = tmp_path / "engine"
    project.mkdir()
    shell = Shell(project, tmp_path)
    shell("init")
    for number in range(3):
        told = {"session_id": f"s-{number}", "cwd": os.fspath(project), "prompt": "Mend the wheel"}
        hook("UserPromptSubmit", told | {"hook_event_name": "UserPromptSubmit"}, cwd=project, words=())
    folder = project / ".periplus/hooks/spool"
    Spool(os.fspath(folder)).begin(10, 1 << 20)  # and stopped there
    changed = flipped((folder / "group").read_bytes(), 30, random.Random(1))
    (folder / "group").write_bytes(changed)
    shell("status")
    done = shell("doctor")
    assert "its checksum does not match" in done.out
    assert (folder / "aside/group").read_bytes() == changed
    assert Spool(os.fspath(folder)).waiting() == []
    with Project.open(os.fspath(project), WRITER) as opened:
        assert len(list(opened.journal.entities("session"))) == 3


def test_what_was_told_of_late_is_known_as_it_was_or_not_at_all(tmp_path):
    path = tmp_path / "recent"

    def doubles():
        return DuplicateEvents(os.fspath(path), Files(), lambda _: False)

    first = [HookEvent("prompt", "claude-code", f"s-{number}", 1_767_225_600_000 + number) for number in range(3)]
    told = doubles()
    assert told.without(first) == first
    told.save()
    assert doubles().without(first) == []
    data = path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(flipped(data, at, random.Random(at)))
        assert doubles().without(first) == first, at


def test_a_note_is_told_as_it_was_written_or_as_one_that_is_not(tmp_path):
    path = tmp_path / "notes"
    notes = [Note(f"2026-01-0{day}T00:00:00Z", "take in", "/engine", f"wheel {day} is gone") for day in (1, 2, 3)]
    for note in notes:
        assert leave_note(os.fspath(path), note)
    assert read_notes(os.fspath(path)) == notes
    data = path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(flipped(data, at, random.Random(at)))
        found = read_notes(os.fspath(path))
        assert len(found) >= 1
        wrong = [note for note in found if note not in notes]
        assert all("a damaged note" in note.what for note in wrong), at
        assert wrong or (found == notes and data[at : at + 1] == b"\n"), at
    old = b'{"at": "2026-01-01T00:00:00Z", "source": "a", "folder": "b", "what": "c"}\n'
    path.write_bytes(old)
    assert read_notes(os.fspath(path)) == [Note("2026-01-01T00:00:00Z", "a", "b", "c")]


# -- turns of sessions -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_turns_of_sessions_are_served_as_they_are_whatever_byte_of_their_file_changes(tmp_path):
    """Whether a word leads to a turn is SQLite's to know: which turns are found may differ where doctor tells of the file, what is
    found in them may not.
    """
    with opened(tmp_path) as project:
        log = StoreLog(project, "talk", checkpoints=False)
        for number, said in ((1, "zebras"), (2, "bread"), (3, "the zebra's stripes")):
            log.append(*turn_of(number, said, f"the answer to {said}"))
        log.close("done")
    path = tmp_path / ".periplus/turns.sqlite"

    def asked():
        with opened(tmp_path, "other") as project:
            index = TurnIndex(project)
            turns = StoredTurns(index, session_id("talk"))
            served = (
                list(turns.titles()),
                list(turns.texts()),
                [tuple(turns.episodes(number)) for number in (1, 2, 3)],
            )
            found = {one.turn: one.text for one in index.search("zebra", 5)}
            index.close()
        with sqlite3.connect(path) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.close()
        return served, found

    before, found = asked()
    assert set(found) == {1, 3}
    data, chance = path.read_bytes(), random.Random(11)
    for at in places(path, chance, 250):
        path.write_bytes(flipped(data, at, chance))
        is_told = bool(check_file(os.fspath(path)))
        served, again = asked()
        assert served == before, at
        assert is_told or again == found, at
        assert all(found.get(turn, dict(before[1])[turn]) == text for turn, text in again.items()), at
    for cut in (0, 1, 99, 4096, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:cut])
        assert asked()[0] == before, cut


def test_doctor_tells_of_words_of_turns_that_are_not_theirs(tmp_path):
    with opened(tmp_path) as project:
        log = StoreLog(project, "talk", checkpoints=False)
        log.append(*turn_of(1, "zebras", "they are striped"))
        log.close("done")
        index = TurnIndex(project)
        assert [one.turn for one in index.search("zebras", 5)] == [1]
        index.close()
    shell, path = Shell(tmp_path, tmp_path), tmp_path / ".periplus/turns.sqlite"
    shell("doctor")
    with sqlite3.connect(path) as db:
        db.execute("UPDATE words_content SET c0 = replace(c0, 'zebras', 'camels')")
    db.close()
    assert "turns.sqlite" in shell("doctor", code=1).out
    mended = shell("doctor", "--repair")
    assert "turns was removed" in mended.out
    assert not path.exists()
    shell("doctor")
    with opened(tmp_path, "other") as project:
        index = TurnIndex(project)
        assert [one.turn for one in index.search("zebras", 5)] == [1]
        index.close()


# -- copies of git remotes ---------------------------------------------------------------------------------------------


def clone(folder, config=None):
    folder.mkdir()
    git(folder, "init", "-q")
    if config is not None:
        (folder / ".periplus").mkdir()
        shutil.copy(config, folder / ".periplus/config.toml")
    Project.init(os.fspath(folder))
    return folder


@pytest.mark.slow
def test_what_is_kept_of_a_git_remote_is_made_anew_where_it_is_broken(tmp_path):
    git(tmp_path, "init", "-q", "--bare", "hub.git")
    ada = clone(tmp_path / "ada")
    bob = clone(tmp_path / "bob", ada / ".periplus/config.toml")

    def remember(folder, text):
        with Project.open(os.fspath(folder), WRITER) as project:
            project.remember(Memory("note", text))

    def sync(folder):
        environment = {"PATH": os.environ["PATH"], "HOME": os.fspath(tmp_path)}
        with Project.open(os.fspath(folder), WRITER) as project:
            done = project.sync(os.fspath(tmp_path / "hub.git"), cwd=os.fspath(folder), environment=environment)
            return done.report.refusals, {str(one.value["text"]) for one in project.journal.entities("note")}

    for number in range(2):
        for folder in (ada, bob):
            remember(folder, f"note {number} of {folder.name}")
            sync(folder)
    sync(ada)
    remember(bob, "what ada has not got yet")
    sync(bob)
    good, chance = tmp_path / "good", random.Random(4)
    shutil.copytree(ada, good)
    kept = [path.relative_to(good) for path in (good / ".periplus/remotes").rglob("*") if path.is_file()]
    assert len(kept) > 10
    for name in kept:
        for how in ("flip", "truncate", "remove"):
            for part in ("remotes", "objects", "journal"):
                shutil.rmtree(ada / ".periplus" / part, ignore_errors=True)
                if (good / ".periplus" / part).exists():
                    shutil.copytree(good / ".periplus" / part, ada / ".periplus" / part)
            path = ada / name
            path.chmod(0o644)
            data = path.read_bytes()
            if how == "remove" or not data:
                path.unlink()
            else:
                path.write_bytes(
                    flipped(data, chance.randrange(len(data)), chance) if how == "flip" else data[: len(data) // 2]
                )
            refusals, texts = sync(ada)
            assert refusals == [], (name, how)
            assert "what ada has not got yet" in texts, (name, how)
