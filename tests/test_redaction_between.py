"""A redaction that is stopped, an exchange with what is there, and the redaction again: the secret is nowhere in the end."""

from __future__ import annotations

import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from periplus.base.clock import SystemClock
from periplus.base.encoding.canonical import canonical
from periplus.base.errors import EnvironmentFailure, LockTimeoutError, PeriplusError
from periplus.base.files import Files
from periplus.base.process.locks import holder_of
from periplus.journal.care.doctor import examine
from periplus.journal.care.redaction import files_below, redact
from periplus.journal.carriers import FolderCarrier, open_folder
from periplus.journal.exchange.sync import sync
from periplus.journal.recovery.removed_content import TakenOut
from periplus.journal.storage.layout import Layout
from periplus.journal.storage.settings import read_settings
from periplus.objects.redaction_barrier import door_of
from support import WRITER, Stop, StoppingFiles, item, make_store, open_journal, settle
from test_exchange import clone, put

SECRET = "hunter2-is-the-secret"
LONG_SECRET = {"text": "secret " * 20_000}  # so long that it is an object


def exchange(root, place):
    with open_journal(root) as journal:
        return sync(journal, open_folder(os.fspath(place), Files())).refusals


def write_and_replace_secret(journal):
    """Write a note whose content is an object, then other content. Return the first record's seq and the object's digest."""
    seq = journal.mutate(lambda t: t.put("note", item(1, "not"), LONG_SECRET), WRITER).first_seq
    journal.mutate(lambda t: t.put("note", item(1, "not"), {"text": "harmless"}), WRITER)
    (digest,) = journal.objects.digests()
    return seq, digest


def write_secret_again(transaction):
    transaction.put("note", item(2, "not"), LONG_SECRET)


class DoingBeforeItCommits(Files):
    """Somebody else does something when all that comes is set aside, and is to be renamed into place."""

    def __init__(self, folder, do):
        super().__init__()
        self.folder = folder
        self.do = do
        self.times = 0

    def make_folder(self, path, mode=0o700):
        super().make_folder(path, mode)
        if path == self.folder:
            self.times += 1
            self.do()


class WritingMeanwhile(Files):
    """Another process writes the secret while the first file of an entity is made anew."""

    def __init__(self, root):
        super().__init__()
        self.root = root
        self.is_armed = False

    def replace(self, source, target):
        if self.is_armed and f"{os.sep}entities{os.sep}" in target:
            self.is_armed = False
            with open_journal(self.root) as other:
                other.mutate(put(8, f"once more {SECRET}"), WRITER, project=False)
        super().replace(source, target)


def test_what_somebody_writes_meanwhile_is_told_and_the_same_command_takes_it_out(tmp_path):
    """It was said that nothing takes it out, and of the entity's file that it is to be edited or removed."""
    root = make_store(tmp_path)
    files = WritingMeanwhile(root)
    with open_journal(root, files) as journal:
        journal.mutate(put(1, f"first {SECRET}"), WRITER)
        files.is_armed = True
        left = redact(journal, WRITER, secret=SECRET, reason="a secret").remaining
        assert not files.is_armed
        told = {one.mend for one in left if not one.where.startswith(journal.layout.index)}
        assert told == {"Somebody wrote it meanwhile: repeat the same command."}
        assert redact(journal, WRITER, secret=SECRET, reason="a secret").remaining == []
    assert not [path for path in Path(root).rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["store", "folder"])
def test_others_take_what_is_there_in_between(tmp_path, way):
    bob = make_store(tmp_path / "bob", SystemClock())
    with open_journal(bob) as journal:
        for number in range(3):
            journal.mutate(put(number, f"plain {number}"), WRITER)
        journal.mutate(put(4, SECRET), WRITER)
        journal.mutate(lambda t: t.put("note", item(5, "not"), {"text": SECRET + "n" * 70_000}), WRITER)
        journal.roll()
        journal.mutate(put(6, f"and {SECRET} again"), WRITER)
    ada = clone(bob, tmp_path / "ada")
    with open_journal(ada) as journal:
        journal.mutate(put(9, "ada's"), WRITER)
    assert exchange(ada, bob) == []
    for at in range(300):
        here, there = (os.fspath(tmp_path / f"{at}/{name}/.periplus") for name in ("bob", "ada"))
        stick = tmp_path / f"{at}/stick"
        for source, target in ((bob, here), (ada, there)):
            shutil.copytree(source, target)
            settle(target)
        is_done = True
        try:
            with open_journal(here, StoppingFiles(at, share=0.5)) as journal:
                redact(journal, WRITER, secret=SECRET, reason="a secret")
        except Stop:
            is_done = False
        if way == "store":
            exchange(there, here)
        else:
            exchange(here, stick)
            exchange(there, stick)
        try:
            with open_journal(here) as journal:
                redact(journal, WRITER, secret=SECRET, reason="a secret")
        except PeriplusError:
            assert is_done
        for _ in range(2):
            for root in (here, there):
                refused = exchange(root, stick if way == "folder" else there if root == here else here)
                assert refused == [], at
        for root in (here, there, *([os.fspath(stick)] if way == "folder" else [])):
            found = [path for path in Path(root).rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
            assert found == [], (at, found)
        shutil.rmtree(tmp_path / str(at))
        if is_done:
            assert at > 30
            return
    pytest.fail("there is no end to the calls")


@pytest.mark.slow
def test_segments_that_go_to_the_archive_meanwhile_are_written_anew_there(tmp_path):
    """What a segment is to be is worked out without the lock, so it may lie elsewhere before it is written."""
    for at in range(100):
        root = make_store(tmp_path / str(at), SystemClock())
        with open_journal(root) as journal:
            for number in range(3):
                journal.mutate(put(number, f"{number} {SECRET}"), WRITER)
                journal.roll()
            calls = 0

            def archive(_done, _total, journal=journal, at=at):
                nonlocal calls
                calls += 1
                if calls - 1 != at:
                    return
                reader = journal.reader(journal.lineage)
                for first in reader.segments()[:2]:
                    target = reader.archived_path(first)
                    os.makedirs(os.path.dirname(target), exist_ok=True)
                    os.replace(reader.path_of(first), target)

            left = redact(journal, WRITER, secret=SECRET, reason="a secret", progress=archive).remaining
            assert left == [], at
            assert journal.damage is None
        found = [path for path in Path(root).rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
        assert found == [], at
        if calls <= at:
            assert at > 6
            return
    pytest.fail("there is no end to the calls")


@pytest.mark.parametrize("is_needed", [True, False], ids=["a payload", "a mention"])
def test_an_object_that_is_redacted_while_a_sync_takes_others_does_not_come_with_them(tmp_path, is_needed):
    """What was redacted was asked once, at the first object that came."""
    bob = make_store(tmp_path / "bob", SystemClock())
    ada = clone(bob, tmp_path / "ada")
    with open_journal(ada) as journal:
        seq, digest = write_and_replace_secret(journal)
    with open_journal(bob) as journal:
        journal.mutate(lambda t: t.put("note", item(2, "not"), {"text": "long " * 20_000}), WRITER)
        if is_needed:
            journal.mutate(lambda t: t.put("note", item(3, "not"), LONG_SECRET), WRITER)
        else:
            journal.objects.put(canonical(LONG_SECRET))
            journal.mutate(put(4, "it mentions the object"), WRITER)
    asked = []

    def references(entity, _lend):
        if not asked and entity.item_id in (item(3, "not"), item(4)):
            asked.append(entity.item_id)
            with open_journal(ada) as journal:
                redact(journal, WRITER, seqs=[seq], reason="a secret")
        return {digest} if entity.item_id == item(4) else set()

    with open_journal(ada) as journal:
        report = sync(journal, open_folder(bob, Files()), references=references, takes_only=True)
    assert asked
    assert any("would bring back" in str(one) for one in report.refusals) == is_needed
    with open_journal(ada) as journal:
        assert not journal.objects.has(digest)
        assert journal.damage is None
        assert journal.get("note", item(1, "not")).value == {"text": "harmless"}


@pytest.mark.parametrize("is_held", [True, False], ids=["held here", "brought along"])
def test_an_object_that_is_redacted_between_the_last_look_and_the_records_is_not_named_by_them(tmp_path, is_held):
    """The records came after that look without another: one of them named what was gone by then."""
    bob = make_store(tmp_path / "bob", SystemClock())
    ada = clone(bob, tmp_path / "ada")
    with open_journal(ada) as journal:
        seq, digest = write_and_replace_secret(journal)
        if not is_held:
            journal.objects.remove(digest)
    with open_journal(bob) as journal:
        journal.mutate(lambda t: t.put("note", item(3, "not"), LONG_SECRET), WRITER)
        lineage = journal.lineage

    def take_out():
        with open_journal(ada) as journal:
            redact(journal, WRITER, seqs=[seq], reason="a secret")

    files = DoingBeforeItCommits(os.path.join(ada, "journal", lineage), take_out)
    with open_journal(ada, files) as journal:
        report = sync(journal, open_folder(bob, Files()), takes_only=True)
    assert files.times == 1
    assert ["would bring back" in str(one) for one in report.refusals] == [True]
    with open_journal(ada) as journal:
        assert not journal.objects.has(digest)
        assert journal.damage is None
        assert journal.end(lineage).next_seq == 1
        assert [one for one in examine(journal).problems if one.severity == "error"] == []


def test_what_others_write_between_the_last_look_and_the_records_keeps_nothing_out(tmp_path):
    bob = make_store(tmp_path / "bob", SystemClock())
    ada = clone(bob, tmp_path / "ada")
    with open_journal(bob) as journal:
        journal.mutate(put(1, "bob's"), WRITER)
        lineage = journal.lineage

    def write():
        with open_journal(ada) as journal:
            journal.mutate(put(2, 'her own, of {"action":"redact"}'), WRITER)

    files = DoingBeforeItCommits(os.path.join(ada, "journal", lineage), write)
    with open_journal(ada, files) as journal:
        assert sync(journal, open_folder(bob, Files()), takes_only=True).refusals == []
        assert files.times == 1
        assert [journal.get("decision", item(number)).value["text"][:3] for number in (1, 2)] == ["bob", "her"]


class CutOff(Files):
    """A process that is killed in the middle of its second line."""

    is_armed = False

    def write(self, fd, data):
        if not self.is_armed or b'"txn":[2,2]' not in bytes(data):
            return super().write(fd, data)
        os.write(fd, bytes(data)[: bytes(data).index(b"\n") + 30])
        raise Stop


@pytest.mark.parametrize("is_given_up", [False, True], ids=["voided", "in a segment that was given up"])
def test_a_write_that_was_cut_off_keeps_no_object(tmp_path, is_given_up):
    """Its first line names the payload, and is no record: the secret stayed, and was said to be another clone's."""
    root = make_store(tmp_path)
    files = CutOff()

    def write(transaction):
        transaction.put("note", item(1, "not"), {"text": SECRET + "n" * 70_000})
        transaction.put("note", item(2, "not"), {"text": "short"})

    with open_journal(root, files) as journal:
        journal.mutate(put(1, "plain"), WRITER)
        files.is_armed = True
        with pytest.raises(Stop):
            journal.mutate(write, WRITER)
    with open_journal(root) as journal:
        (digest,) = journal.objects.digests()
        if is_given_up:
            journal.roll()
        assert redact(journal, WRITER, secret=SECRET, reason="a secret").remaining == []
        assert not journal.objects.has(digest)
        assert [one for one in examine(journal).problems if one.severity == "error"] == []


class WritingBeforeItGoes(Files):
    """Another process writes when an object is to be removed; nobody lets it where the writers' lock is held."""

    def __init__(self, root, digest, do):
        super().__init__()
        self.root = root
        self.path = os.path.join(root, "objects", digest.hex()[:2], digest.hex()[2:])
        self.do = do
        self.told = []

    def unlink(self, path):
        if path.startswith(self.path) and not self.told:
            with open_journal(self.root) as other:
                try:
                    self.told.append(other.mutate(self.do, WRITER, patience_s=0.0))
                except LockTimeoutError as error:
                    self.told.append(error)
        super().unlink(path)


@pytest.mark.slow
def test_who_writes_what_is_about_to_go_has_it(tmp_path):
    """What records name was looked at before, without the lock under which they are written: a payload went that was acknowledged."""
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        seq, digest = write_and_replace_secret(journal)
    files = WritingBeforeItGoes(root, digest, write_secret_again)
    with open_journal(root, files) as journal:
        redact(journal, WRITER, seqs=[seq], reason="a secret")
    assert len(files.told) == 1
    with open_journal(root) as journal:
        assert [one for one in examine(journal).problems if one.severity == "error"] == []
        assert (journal.get("note", item(2, "not")) is not None) == (not isinstance(files.told[0], LockTimeoutError))
        journal.mutate(write_secret_again, WRITER)
        assert journal.get("note", item(2, "not")).value == LONG_SECRET


def test_who_writes_what_a_sync_is_about_to_remove_has_it(tmp_path):
    bob = make_store(tmp_path / "bob", SystemClock())
    ada = clone(bob, tmp_path / "ada")
    with open_journal(bob) as journal:
        seq, digest = write_and_replace_secret(journal)
    assert exchange(ada, bob) == []
    with open_journal(bob) as journal:
        redact(journal, WRITER, seqs=[seq], reason="a secret")
    files = WritingBeforeItGoes(ada, digest, write_secret_again)
    with open_journal(ada, files) as journal:
        assert sync(journal, open_folder(bob, Files()), takes_only=True).refusals == []
    assert len(files.told) == 1
    with open_journal(ada) as journal:
        assert [one for one in examine(journal).problems if one.severity == "error"] == []
        journal.mutate(write_secret_again, WRITER)
        assert journal.get("note", item(2, "not")).value == LONG_SECRET


@pytest.mark.parametrize("is_named", [True, False])
def test_what_was_written_since_the_look_keeps_its_payload(tmp_path, is_named):
    """Between the look at all records and the first removal somebody wrote; what is about to go is not looked for anew by reading all."""
    root = make_store(tmp_path)
    content = {"text": "long " * 20_000}
    with open_journal(root) as journal:
        journal.mutate(put(1, "plain"), WRITER)
        digest = journal.objects.put(canonical(content))
        gone = TakenOut(journal)
        assert not list(gone.now())
        if is_named:
            with open_journal(root) as other:
                other.mutate(lambda t: t.put("note", item(2, "not"), content), WRITER)
        gone.remove([digest], journal.objects, journal.writing)
        assert journal.objects.has(digest) == is_named


def test_a_folder_that_goes_while_all_is_searched_is_no_failure(tmp_path):
    """A sync sweeps git's cache; the redaction had done all, and ended with the error of a disk."""
    top = tmp_path / "store"
    for name in ("a", "b"):
        (top / name).mkdir(parents=True)
        (top / name / "file").write_text("x")
    (top / "file").write_text("x")
    found = files_below(os.fspath(top))
    assert next(found) == os.fspath(top / "file")
    for name in ("a", "b"):
        shutil.rmtree(top / name)
    assert list(found) == []
    with pytest.raises(EnvironmentFailure):
        next(files_below(os.fspath(tmp_path / "none")))


class RedactedMeanwhile(FolderCarrier):
    """A clone in whose other clone somebody redacts while the first object is read here."""

    def __init__(self, root, do):
        super().__init__(root, Files(), store=read_settings(Layout(root)).store, is_store=True)
        self.do = do

    def object(self, lineage, digest):
        data = super().object(lineage, digest)
        do, self.do = self.do, None
        if do is not None:
            do()
        return data


class KilledBeforeItRemoves(Files):
    def unlink(self, path):
        if f"{os.sep}objects{os.sep}" in path:
            raise Stop
        super().unlink(path)


def test_a_sync_that_is_killed_leaves_nothing_that_was_redacted_meanwhile(tmp_path):
    """It put what came, and looked then whether that had been taken out."""
    bob = make_store(tmp_path / "bob", SystemClock())
    ada = clone(bob, tmp_path / "ada")
    with open_journal(ada) as journal:
        seq, digest = write_and_replace_secret(journal)
    with open_journal(bob) as journal:
        journal.objects.put(canonical(LONG_SECRET))
        journal.mutate(put(4, "it mentions the object"), WRITER)
    with open_journal(ada) as journal:
        journal.objects.remove(digest)  # it was lost here, so it would come

    def redacting():
        with open_journal(ada) as journal:
            journal.objects.put(canonical(LONG_SECRET))  # as a repair does beside us
            redact(journal, WRITER, seqs=[seq], reason="a secret")

    with open_journal(ada, files=KilledBeforeItRemoves()) as journal:
        try:
            report = sync(journal, RedactedMeanwhile(bob, redacting), references=lambda one, _: {digest} if one.item_id == item(4) else set(),
                          takes_only=True)  # fmt: skip
        except Stop:
            pass
        else:
            assert sum(one.objects_left_out for one in report.transfers) == 1
    with open_journal(ada) as journal:
        assert not journal.objects.has(digest)
        assert journal.damage is None


class KilledBeforeItLooks(DoingBeforeItCommits):
    """As that, and killed once all has its name."""

    is_killed = False

    def replace(self, source, target):
        super().replace(source, target)
        if self.is_killed and target.endswith(".jsonl"):
            raise Stop


@pytest.mark.parametrize("is_killed", [False, True])
def test_what_is_kept_while_the_record_comes_that_it_was_taken_out_goes_again(tmp_path, is_killed):
    """An import beside the sync could not know, and the sync had looked before: the object stayed for good."""
    ada = make_store(tmp_path / "ada", SystemClock())
    bob = clone(ada, tmp_path / "bob")
    kept = canonical({"text": "harmless " * 20_000})
    with open_journal(ada) as journal:
        seq, digest = write_and_replace_secret(journal)
        redact(journal, WRITER, seqs=[seq], reason="a secret")
        lineage = journal.lineage
    with open_journal(bob) as journal:
        journal.mutate(put(4, "bob's"), WRITER)
        before = os.stat(Layout(bob).index)

    def keep():
        with open_journal(bob) as other, other.objects.keeping():
            assert digest not in TakenOut(other).now()
            assert other.objects.put(canonical(LONG_SECRET)) == digest
            other.objects.put(kept)

    files = KilledBeforeItLooks(os.path.join(bob, "journal", lineage), keep)
    files.is_killed = is_killed
    with open_journal(bob, files) as journal:
        try:
            assert sync(journal, open_folder(ada, Files()), takes_only=True).refusals == []
        except Stop:
            assert is_killed
    assert files.times == 1
    with open_journal(bob) as journal:
        assert journal.objects.has(digest) == is_killed
        assert sync(journal, open_folder(ada, Files()), takes_only=True).refusals == []
        assert [journal.objects.get(one) for one in journal.objects.digests()] == [kept]
        assert not os.path.exists(journal.layout.emptying_file(lineage))
        assert journal.get("decision", item(4)) is not None
    assert is_killed or os.stat(Layout(bob).index).st_ino == before.st_ino, (
        "no index is made anew where no record changes"
    )


def test_who_keeps_an_object_while_the_record_comes_that_it_was_taken_out_is_waited_for(tmp_path):
    ada = make_store(tmp_path / "ada", SystemClock())
    bob = clone(ada, tmp_path / "bob")
    with open_journal(ada) as journal:
        seq, digest = write_and_replace_secret(journal)
        redact(journal, WRITER, seqs=[seq], reason="a secret")
        lineage = journal.lineage
    looked, put_by = threading.Event(), []

    def keep():
        with open_journal(bob) as other, other.objects.keeping():
            assert digest not in TakenOut(other).now()
            looked.set()
            while holder_of(door_of(other.objects.root)) is None:
                time.sleep(0.001)
            put_by.append(other.objects.put(canonical(LONG_SECRET)))

    keeper = threading.Thread(target=keep, daemon=True)

    def begin():
        keeper.start()
        assert looked.wait(60)

    with open_journal(bob, DoingBeforeItCommits(os.path.join(bob, "journal", lineage), begin)) as journal:
        assert sync(journal, open_folder(ada, Files()), takes_only=True).refusals == []
        keeper.join(60)
        assert put_by == [digest]
        assert not journal.objects.has(digest)


class RedactedWhileItPuts(Files):
    """Somebody redacts when an object is about to get its name; then this process is gone."""

    redactor: threading.Thread | None = None
    is_gone = False

    def __init__(self, objects, redact):
        super().__init__()
        self.objects, self.redact = objects, redact

    def replace(self, source, target):
        if target.startswith(self.objects) and self.redactor is None:
            self.redactor = threading.Thread(target=self.redact, daemon=True)
            self.redactor.start()
            while self.redactor.is_alive() and holder_of(door_of(self.objects)) is None:
                time.sleep(0.001)
            super().replace(source, target)
            self.is_gone = True
            raise Stop
        super().replace(source, target)

    def unlink(self, path):
        if not self.is_gone:
            super().unlink(path)


def test_a_redaction_waits_for_the_object_that_a_sync_is_at(tmp_path):
    """Whoever is killed behind it leaves nothing that was redacted."""
    bob = make_store(tmp_path / "bob", SystemClock())
    ada = clone(bob, tmp_path / "ada")
    with open_journal(ada) as journal:
        seq, digest = write_and_replace_secret(journal)
        journal.objects.remove(digest)  # it was lost here, so it would come
    with open_journal(bob) as journal:
        journal.objects.put(canonical(LONG_SECRET))
        journal.mutate(put(4, "it mentions the object"), WRITER)

    def redacting():
        with open_journal(ada) as journal:
            gone = TakenOut(journal)
            said = {"lineage": journal.lineage, "records": [], "objects": [digest.hex()], "reason": f"what {seq} says"}
            journal.mutate(lambda t: t.meta("redact", said), WRITER)
            gone.remove([digest], journal.objects, journal.writing)

    files = RedactedWhileItPuts(Layout(ada).objects, redacting)
    with open_journal(ada, files=files) as journal, pytest.raises(Stop):
        sync(journal, open_folder(bob, Files()), references=lambda one, _: {digest} if one.item_id == item(4) else set(),
             takes_only=True)  # fmt: skip
    assert files.redactor is not None
    files.redactor.join(60)
    with open_journal(ada) as journal:
        assert digest not in journal.objects.digests()
