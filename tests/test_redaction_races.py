"""Others at work while a redaction runs: what they say stays, and what they keep does not bring the secret back."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from pathlib import Path

import pytest

from cli_support import claude_session, shared_project
from periplus.base.errors import LockTimeoutError
from periplus.base.files import Files
from periplus.base.process.locks import Lock
from periplus.journal import Writer
from periplus.journal.care import redaction
from periplus.journal.care.doctor import examine
from periplus.journal.care.redaction import redact
from periplus.journal.checkpoints import creation
from periplus.journal.checkpoints.creation import make_checkpoint
from periplus.memory import Memory
from periplus.objects import ObjectStore
from periplus.project import Project
from periplus.project.care.redaction import redact_project
from periplus.project.trail_store.withholding import Withholding
from support import WRITER, item, make_store, open_journal
from test_exchange import put
from test_redacted_stays_out import files_with

SECRET = "zanzibar-horse-battery"
LARGE = f"{SECRET} " + "a large text that is an object. " * 400


def another(project):
    return Project(project.root, Writer("bob", "who_0000000000000001", "", 2))


@pytest.fixture
def project(tmp_path):
    with Project(Project.init(os.fspath(tmp_path)).root, WRITER) as found:
        yield found


def is_kept(project, digest):
    return project.journal.objects.has(digest)


def test_what_somebody_writes_of_an_entity_that_is_being_cleaned_stays(tmp_path):
    """The version without the secret was written over what it had become since: an acknowledged write was gone from what is shown."""
    root = make_store(tmp_path)
    with open_journal(root) as journal, open_journal(root) as other:
        journal.mutate(put(1, f"first {SECRET}"), WRITER)
        times = 0

        def meanwhile(_entity, _objects):
            nonlocal times
            times += 1
            if times == 1:
                other.mutate(lambda t: t.put("decision", item(1), {"text": f"second {SECRET}", "of": "bob"}), WRITER)

        done = redact(journal, WRITER, secret=SECRET, reason="a secret", rewrite=meanwhile)
        assert journal.get("decision", item(1)).value == {"text": "second [redacted]", "of": "bob"}
        assert (len(done.records), done.remaining) == (2, [])
        assert examine(journal).exit_code == 0
    assert not [path for path in Path(root).rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


def test_who_asked_before_a_redaction_and_puts_behind_it_brings_nothing_back(project):
    """An import that was at it asked by what it knew before; nothing was looked at again until the whole redaction was done."""
    digest = project.journal.objects.put(LARGE.encode())
    with another(project) as other:
        importing = Withholding(other)
        assert not importing.is_out(digest)
        redact_project(project, secret=SECRET, reason="a secret")
        assert importing.put(LARGE.encode()) == digest
        assert not is_kept(project, digest)


class DoingWhenItRemoved(Files):
    """Somebody else does something each time that an object was removed."""

    def __init__(self, do):
        super().__init__()
        self.do = do
        self.times = 0

    def unlink(self, path):
        super().unlink(path)
        if f"{os.sep}objects{os.sep}" in path:
            self.times += 1
            self.do()


def test_an_import_that_puts_while_objects_are_removed_brings_nothing_back(project):
    digests = [project.journal.objects.put(f"{number} {LARGE}".encode()) for number in range(3)]
    with another(project) as other:
        importing = Withholding(other)
        assert not any(map(importing.is_out, digests))

        def put_all():
            for number in range(3):
                importing.put(f"{number} {LARGE}".encode())

        files = DoingWhenItRemoved(put_all)
        with Project(project.root, WRITER, files=files) as redacting:
            redact_project(redacting, secret=SECRET, reason="a secret")
        assert files.times == 3
        assert not any(is_kept(project, digest) for digest in digests)


def test_a_first_redaction_is_seen_while_it_is_at_it_by_who_asks_first_then(project):
    """Hooks asked for the mark that a redaction leaves when it is done."""
    digest = project.journal.objects.put(LARGE.encode())
    with another(project) as other:
        seen = []
        files = DoingWhenItRemoved(lambda: seen.append(Withholding(other).put(LARGE.encode())))
        with Project(project.root, WRITER, files=files) as redacting:
            redact_project(redacting, secret=SECRET, reason="a secret")
        assert seen == [digest]
    assert not is_kept(project, digest)


def is_waited_for(project):
    """Whether somebody waits for those who keep objects."""
    fd = os.open(os.path.join(project.journal.objects.root, "door.lock"), os.O_RDWR)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def test_a_redaction_waits_for_who_looked_and_has_not_put_yet(project):
    digest = project.journal.objects.put(LARGE.encode())
    has_looked, said = threading.Event(), []

    def importing():
        try:
            with another(project) as other, other.journal.objects.keeping():
                said.append(Withholding(other).is_out(digest))
                has_looked.set()
                while is_kept(other, digest) and not is_waited_for(other):
                    time.sleep(0.001)  # between two looks at what the redaction does: it ends by that, not by time
                said.append(other.journal.objects.put(LARGE.encode()))
        finally:
            has_looked.set()

    beside = threading.Thread(target=importing)
    beside.start()
    has_looked.wait()
    redact_project(project, secret=SECRET, reason="a secret")
    beside.join()
    assert said == [False, digest]
    assert not is_kept(project, digest)


@pytest.mark.parametrize("steps", [2, 4], ids=["as it was", "grown"])
def test_a_session_that_is_redacted_while_it_is_imported_again_stays_without_it(tmp_path, steps):
    """Its trail was compared with the one of before, and kept; one that had grown even took its place."""
    bob = shared_project(tmp_path, "bob")["bob"]
    path = claude_session(tmp_path / "session.jsonl", prompt=f"log in with {SECRET}", steps=2)
    bob("trail", "import", path)
    path = claude_session(path, prompt=f"log in with {SECRET}", steps=steps)
    root = os.fspath(bob.folder / ".periplus")
    done = []

    def meanwhile(_done, _total):
        if not done:
            with Project(root, WRITER) as other:
                done.append(redact_project(other, secret=SECRET, reason="a secret"))

    with Project(root, WRITER) as project:
        project.journal.refresh()
        (trail,) = project.import_transcripts(os.fspath(path), progress=meanwhile)
        assert len(done) == 1
        assert (trail.changed, trail.withheld > 0) == (steps > 2, True)
        held = [project.journal.objects.get(one) for one in project.journal.objects.digests()]
        assert not [one for one in held if SECRET.encode() in one]
    assert files_with(Path(root)) == []
    assert bob.json("doctor").problems == []


def test_what_a_session_of_the_agent_keeps_packed_is_told(project):
    """What it changed lies in objects of its own, which were searched as they lie: of a packed one nothing was said."""
    changes = ObjectStore(os.path.join(project.root, "agent", "ses_0000000000000001", "objects"), Files())
    digest = changes.put(LARGE.encode())
    assert changes.path_of(digest).endswith(".z")
    project.remember(Memory("note", f"The password is {SECRET}"))
    (told,) = [
        one
        for one in redact_project(project, secret=SECRET, reason="a secret").remaining
        if one.where.startswith(project.root)
    ]
    assert told.where == changes.path_of(digest)
    assert "remove it" in told.mend


def test_an_object_that_nobody_named_yet_is_told_as_what_came_meanwhile(project):
    """It was said that a record of another clone names it."""
    project.remember(Memory("note", f"The password is {SECRET}"))

    with another(project) as other:
        files = DoingWhenItRemoved(lambda: Withholding(other).put(f"and {LARGE}".encode()))
        first = project.journal.objects.put(LARGE.encode())
        with Project(project.root, WRITER, files=files) as redacting:
            left = redact_project(redacting, secret=SECRET, reason="a secret").remaining
            assert ["repeat the same command" in one.mend for one in left if "/objects/" in one.where] == [True]
            left = redact_project(redacting, secret=SECRET, reason="a secret").remaining
            files.do = lambda: None
            assert not [one for one in left if "/objects/" in one.where]
    assert not is_kept(project, first)


class TakingTheLockOfCheckpoints(Files):
    """Somebody begins to make a checkpoint when the index was made anew."""

    def __init__(self, root):
        super().__init__()
        self.lock = Lock(os.path.join(root, "journal", "checkpoint.lock"))
        self.is_had = False

    def replace(self, source, target):
        super().replace(source, target)
        if os.path.basename(target) == "index.sqlite":
            self.is_had = self.lock.try_take()


def test_a_redaction_beside_who_makes_a_checkpoint_is_done(project, monkeypatch):
    """It was said that nothing was changed, and what sessions' turns said stayed in their file."""
    monkeypatch.setattr(redaction, "PATIENCE_S", 0.0)
    project.remember(Memory("note", f"The password is {SECRET}"))
    assert make_checkpoint(project.journal, WRITER) is not None
    files = TakingTheLockOfCheckpoints(project.root)
    try:
        with Project(project.root, WRITER, files=files) as redacting:
            done = redact_project(redacting, secret=SECRET, reason="a secret")
        assert files.is_had
    finally:
        if files.is_had:
            files.lock.release()
    assert (len(done.records), [one for one in done.remaining if project.root in one.where]) == (1, [])


def test_where_the_checkpoints_cannot_go_for_long_it_says_what_was_done(project, monkeypatch):
    """It said that nothing was changed, of entities that it had written anew."""
    monkeypatch.setattr(creation, "PATIENCE_S", 0.0)
    project.remember(Memory("note", f"The password is {SECRET}"))
    assert make_checkpoint(project.journal, WRITER) is not None
    lock = Lock(project.journal.layout.checkpoint_lock)
    with lock.holding(0.0), pytest.raises(LockTimeoutError) as told:
        redact_project(project, secret=SECRET, reason="a secret")
    lock.close()
    assert "some files still do" in told.value.safe
    assert [one for one in project.journal.entities("note") if SECRET in str(one.value)] == []
    done = redact_project(project, secret=SECRET, reason="a secret")
    assert (len(done.records), [one for one in done.remaining if project.root in one.where]) == (1, [])
