"""The files of a store beside its records, changed at any byte: what others left for it, what is kept of others, what is made anew.

As ``test_every_file``, for hooks, connections, copies of git remotes, runs of contexts and the turns of sessions.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3

import pytest

from cli_support import Shell, git
from hook_support import hook
from periplus.agent.runlog import StoreLog
from periplus.agent.turn_index import StoredTurns, TurnIndex
from periplus.base.spool import Spool
from periplus.memory import Memory
from periplus.memory.claims import session_id
from periplus.project import Project
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
    spool = Spool(os.fspath(tmp_path))
    assert spool.read(spool.waiting()[0]) == b"{}"


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
    with Project.open(os.fspath(project), WRITER) as opened:
        assert len(list(opened.journal.entities("session"))) == 2


# -- turns of sessions -------------------------------------------------------------------------------------------------


def test_the_turns_of_sessions_are_served_as_they_are_whatever_byte_of_their_file_changes(tmp_path):
    """Whether a word leads to a turn is SQLite's to know: which turns are found may differ, what is found in them may not."""
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
        served, again = asked()
        assert served == before, at
        assert all(found.get(turn, dict(before[1])[turn]) == text for turn, text in again.items()), at
    for cut in (0, 1, 99, 4096, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:cut])
        assert asked()[0] == before, cut


# -- copies of git remotes ---------------------------------------------------------------------------------------------


def clone(folder, config=None):
    folder.mkdir()
    git(folder, "init", "-q")
    if config is not None:
        (folder / ".periplus").mkdir()
        shutil.copy(config, folder / ".periplus/config.toml")
    Project.init(os.fspath(folder))
    return folder


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
