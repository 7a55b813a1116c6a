"""A file that did not change is not read again when it is imported once more; whatever did change is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli_support import Shell, claude_session
from interop_samples import SAMPLES
from periplus.base.clock import SystemClock
from periplus.base.errors import FormatError, PeriplusError
from periplus.interop import import_transcripts
from periplus.interop.file_footprint import SETTLED_MS, footprint
from periplus.interop.formats import format_of
from periplus.journal import Writer
from periplus.project import Project
from periplus.project.trail_store.cards import Calls
from periplus.project.trail_store.session_import import import_sessions
from support import Stop, StoppingFiles
from test_imported_again import session_with_subagent

WRITER = Writer("ada", "who_0000000000000000", "", 1)
SECRET = "zanzibar-horse-battery"
LONG = "a long word of the engine " * 400


class Later(SystemClock):
    """Some time after the files of a test were written."""

    def __init__(self, ms=SETTLED_MS + 60_000) -> None:
        self._ms = ms

    def now_ms(self):
        return super().now_ms() + self._ms


class Importing:
    """A project, and what it reads of the files that it imports."""

    def __init__(self, folder: Path, clock=None, files=None) -> None:
        self.folder = folder
        self.clock = clock or Later()
        if not (folder / ".periplus").exists():
            folder.mkdir(exist_ok=True)
            Project.init(os.fspath(folder))
        self.project = Project(os.fspath(folder / ".periplus"), WRITER, clock=self.clock, files=files)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.project.close()

    def __call__(self, path, **how):
        """The trails, and whether the file was read for them."""
        told = []
        trails = self.project.import_transcripts(os.fspath(path), progress=lambda *at: told.append(at), **how)
        return trails, bool(told)

    @property
    def notes(self):
        return sorted((self.folder / ".periplus/cache/imports").iterdir())


@pytest.fixture
def importing(tmp_path):
    with Importing(tmp_path / "project") as one:
        yield one


def shown(trails):
    """What a command would show of them."""
    return [(one.entity, one.changed, one.withheld, one.digest, one.before, shown(one.children)) for one in trails]


def known(importing, path):
    """Import until the file is known; gives what was said of it."""
    importing(path)
    trails, was_read = importing(path)
    assert not was_read
    return shown(trails)


def objects(importing):
    return sorted(path for path in (importing.folder / ".periplus/objects").glob("??/*") if path.is_file())


# ---- what does not change


# What depends on files elsewhere, which only the session names.
READ_EACH_TIME = ("grok-build-folder",)


def is_read_each_time(name):
    """Databases are, because of their logs. Older sessions of Kilo Code, which has one, are files."""
    is_database = format_of(SAMPLES[name].format).shape == "database" and name != "kilo-code-task"
    return name in READ_EACH_TIME or is_database


@pytest.mark.parametrize("name", SAMPLES)
def test_what_is_said_of_a_file_that_did_not_change_is_what_its_import_says(importing, tmp_path, name):
    sample = SAMPLES[name]
    path = sample.write(tmp_path, sample.data)
    importing(path)
    again, was_read = importing(path)
    assert was_read == is_read_each_time(name)
    for note in importing.notes if not was_read else ():
        note.unlink()
    by_reading, was_read = importing(path)
    assert was_read
    assert shown(again) == shown(by_reading)
    assert not any(one.changed for one in again)


def test_a_session_with_subagents(importing, tmp_path):
    session, file = session_with_subagent(tmp_path)
    ((_, changed, *_, children),) = known(importing, session)
    assert (changed, len(children)) == (False, 1)
    ((alone, *_),) = known(importing, file)
    assert alone == children[0][0]
    assert not importing(session)[1]


def test_two_sessions_in_one_file(importing, tmp_path):
    path = tmp_path / ".aider.chat.history.md"
    path.write_text("".join(
        f"\n# aider chat started at 2026-03-0{day} 10:00:00\n\n#### turn the crank {day} times  \n\nDone.\n" for day in (1, 2)
    ))  # fmt: skip
    assert len(known(importing, path)) == 2


def test_the_command_says_the_same_of_it(tmp_path):
    path = claude_session(tmp_path / "session.jsonl", steps=3)
    with Importing(tmp_path / "project") as importing:
        importing(path)
    (tmp_path / "home").mkdir()
    shell = Shell(tmp_path / "project", tmp_path / "home")
    before = [shell("trail", "import", path), shell("trail", "import", path, "--json")]
    shutil.rmtree(tmp_path / "project/.periplus/cache/imports")
    assert [shell("trail", "import", path), shell("trail", "import", path, "--json")] == before
    assert "already imported, nothing changed" in before[0].out


def test_a_format_that_is_named_is_looked_at(importing, tmp_path):
    path = claude_session(tmp_path / "session.jsonl")
    before = known(importing, path)
    trails, was_read = importing(path, source_format="claude-code")
    assert (shown(trails), was_read) == (before, False)
    for wrong in ("codex", "no such format"):
        with pytest.raises(PeriplusError) as known_file:
            importing(path, source_format=wrong)
        copy = shutil.copy(path, tmp_path / "copy.jsonl")
        with pytest.raises(PeriplusError) as new_file:
            importing(copy, source_format=wrong)
        assert known_file.value.wrong == new_file.value.wrong


def test_what_was_not_taken_is_not_read_again_either(importing, tmp_path):
    """An old copy of a session that went on since: what is held goes further."""
    old = claude_session(tmp_path / "old.jsonl", steps=1)
    importing(claude_session(tmp_path / "new.jsonl", steps=3))
    ((entity, changed, _, digest, *_),) = known(importing, old)
    assert not changed
    assert digest != entity.value["digest"]
    importing(claude_session(tmp_path / "new.jsonl", steps=4))
    assert importing(old)[1]  # it was compared with another one


def test_calls_that_hooks_told_of_are_looked_for(importing, tmp_path):
    path = claude_session(tmp_path / "session.jsonl", steps=2, session="5e551011-0000-4000-8000-00000000c0de")
    known(importing, path)

    def of_hooks(told, session="5e551011-0000-4000-8000-00000000c0de"):
        return import_sessions(
            importing.project, os.fspath(path), source_format="claude-code", progress=None, only_here=False,
            session=session, told=told,
        )  # fmt: skip

    assert [one.changed for one in of_hooks(Calls(2, 0))] == [False]
    assert of_hooks(Calls(2, 0), "another") == []
    with pytest.raises(FormatError, match="it ends after 2 of the 40 calls"):
        of_hooks(Calls(40, 4_000_000_000_000))


# ---- the file


def replaced(path):
    """Another file of this name, length and time."""
    status = path.stat()
    text = path.read_text().replace("Count", "Paint")
    path.unlink()
    path.write_text(text)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def overwritten(path):
    """In its place, with its length, and its time put back."""
    status = path.stat()
    with path.open("r+") as file:
        text = file.read().replace("Count", "Paint")
        file.seek(0)
        file.write(text)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def copied_over(path):
    """As ``cp -p`` and ``rsync -t`` leave it."""
    other = claude_session(path.with_name("other"), prompt="Paint the cogs of the engine")
    shutil.copystat(path, other)
    shutil.copy2(other, path)


def grown(path):
    with path.open("a") as file:
        file.write(json.dumps({"type": "user", "uuid": "z", "parentUuid": "u3", "sessionId": "5e551011",
                               "timestamp": "2026-02-03T11:00:00.000Z", "message": {"role": "user", "content": "Paint"}}) + "\n")  # fmt: skip


@pytest.mark.parametrize("change", [grown, replaced, overwritten, copied_over])
def test_a_file_that_changed_is_read(importing, tmp_path, change):
    path = claude_session(tmp_path / "session.jsonl")
    known(importing, path)
    change(path)
    ((trail,), was_read) = importing(path)
    assert (was_read, trail.changed) == (True, True)
    with Importing(tmp_path / "fresh") as fresh:
        ((other,), _) = fresh(path)
    assert other.entity.value["source_sha256"] == trail.entity.value["source_sha256"]


def test_a_file_that_was_cut_is_read(importing, tmp_path):
    path = claude_session(tmp_path / "session.jsonl", steps=3)
    before = known(importing, path)
    os.truncate(path, path.stat().st_size // 2)
    ((trail,), was_read) = importing(path)
    assert was_read
    assert trail.digest != before[0][3]  # told as what it is: less than what is held


def test_a_file_that_was_written_just_now_is_read_again(tmp_path):
    """Within one tick of the file system's clock it may be written once more and look the same."""
    path = claude_session(tmp_path / "session.jsonl")
    with Importing(tmp_path / "project", Later(0)) as importing:
        for _ in range(3):
            assert importing(path)[1]
    with Importing(tmp_path / "project", Later(-3_600_000)) as importing:  # a clock that was set back
        assert importing(path)[1]
        assert importing(path)[1]


def test_a_file_that_changes_while_it_is_read_is_read_again(importing, tmp_path):
    path = claude_session(tmp_path / "session.jsonl", steps=2)
    is_first = True

    def meanwhile(*_):
        nonlocal is_first
        if is_first:
            is_first = False
            overwritten(path)

    importing.project.import_transcripts(os.fspath(path), progress=meanwhile)
    assert importing(path)[1]


@pytest.mark.parametrize("change", ["grown", "new", "gone", "kind", "link", "folder"])
def test_the_files_of_subagents_belong_to_it(importing, tmp_path, change):
    session, file = session_with_subagent(tmp_path)
    known(importing, session)
    if change == "grown":
        file.write_text(file.read_text() + "\n")
    elif change == "new":
        (file.parent / "agent-a2.jsonl").write_text(file.read_text().replace('"a1"', '"a2"'))
    elif change == "gone":
        file.unlink()
    elif change == "kind":
        file.with_name("agent-a1.meta.json").write_text('{"agentType": "Painter"}')
    elif change == "link":
        file.parent.rename(tmp_path / "elsewhere")
        file.parent.symlink_to(tmp_path / "elsewhere")
    else:
        file.unlink()
        file.mkdir()
    assert importing(session)[1]
    with Importing(tmp_path / "fresh") as fresh:
        told = fresh(session)[0][0]
    assert importing(session)[0][0].entity.value["counts"] == told.entity.value["counts"] or change in (
        "gone",
        "link",
        "folder",
    )


@pytest.mark.slow
def test_every_file_that_an_import_opens_is_in_its_footprint(tmp_path):
    """What an importer opens or lists is told by the interpreter itself, in a process of its own."""
    program = """
import os, sys
from periplus.interop import import_transcripts
path, form, seen = sys.argv[1], sys.argv[2], set()
def hook(event, args):
    if event in ("open", "os.listdir", "os.scandir", "sqlite3.connect") and isinstance(args[0], str):
        seen.add(os.path.abspath(args[0]).rstrip("/"))
import periplus.interop.file_footprint as module
list(import_transcripts(path, trail_key=bytes(32), put_object=lambda data: bytes(32)))
sys.addaudithook(hook)
list(import_transcripts(path, trail_key=bytes(32), put_object=lambda data: bytes(32)))
root = os.path.dirname(path)
opened, seen_by = {one for one in seen if one.startswith(root)}, set()
seen = seen_by
module.footprint(path, form)
print(sorted(one for one in opened - seen if os.path.exists(one)), len(opened))
"""
    paths = []
    for name, sample in SAMPLES.items():
        if not is_read_each_time(name):
            (tmp_path / name).mkdir()
            paths.append((sample.write(tmp_path / name, sample.data), sample.format))
    (tmp_path / "claude").mkdir()
    session, file = session_with_subagent(tmp_path / "claude")
    paths += [(session, "claude-code"), (file, "claude-code")]
    beside = tmp_path / "cursor" / "subagents"
    beside.mkdir()
    shutil.copy(tmp_path / "cursor" / "session.jsonl", beside / "one.jsonl")
    for path, form in paths:
        done = subprocess.run([sys.executable, "-c", program, path, form], capture_output=True, text=True, check=True)
        missing, count = done.stdout.rsplit(maxsplit=1)
        assert missing == "[]", (form, done.stdout)
        assert int(count) >= 1


def test_nothing_is_known_of_what_cannot_be_looked_at(tmp_path):
    path = claude_session(tmp_path / "s.jsonl")
    assert footprint(os.fspath(path), "claude-code") is not None
    assert footprint(os.fspath(path), "opencode") is None
    assert footprint(os.fspath(path), "of a later version") is None
    assert footprint(os.fspath(tmp_path / "none"), "codex") is None
    assert footprint(os.fspath(tmp_path), "codex") is None
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "subagents").symlink_to(tmp_path)
    assert footprint(os.fspath(path), "claude-code") is None
    (tmp_path / "s" / "subagents").unlink()
    (tmp_path / "s" / "subagents").mkdir()
    for number in range(4097):
        (tmp_path / "s" / "subagents" / f"{number}").touch()
    assert footprint(os.fspath(path), "claude-code") is None


# ---- the store


def test_a_trail_that_was_taken_back_comes_again(importing, tmp_path):
    path = claude_session(tmp_path / "session.jsonl")
    ((entity, *_),) = known(importing, path)
    importing.project.undo(seqs=[entity.seq])
    assert list(importing.project.trails()) == []
    ((trail,), was_read) = importing(path)
    assert (was_read, trail.changed) == (True, True)


@pytest.mark.parametrize("harm", ["gone", "changed", "cut", "replaced"])
def test_an_object_that_was_lost_or_damaged_is_healed(importing, tmp_path, harm):
    path = claude_session(tmp_path / "session.jsonl", prompt=LONG, steps=3)
    known(importing, path)
    before = {file: file.read_bytes() for file in objects(importing)}
    assert len(before) >= 2
    for file, data in before.items():
        if harm == "gone":
            file.unlink()
        elif harm == "cut":
            file.write_bytes(data[:-1])
        elif harm == "changed":
            file.write_bytes(bytes([data[0] ^ 1]) + data[1:])
        else:
            file.write_bytes(b"something else")
        assert importing(path)[1]
        assert {one: one.read_bytes() for one in objects(importing)} == before
        assert not importing(path)[1]


def test_what_was_redacted_stays_out(importing, tmp_path):
    path = claude_session(tmp_path / "session.jsonl", prompt=f"log in with {SECRET}", steps=2)
    known(importing, path)
    importing.project.redact(secret=SECRET, reason="it slipped")
    (by_reading, was_read) = importing(path)
    assert (was_read, by_reading[0].withheld) == (True, 1)
    again, was_read = importing(path)
    assert (shown(again), was_read) == (shown(by_reading), False)
    assert not [
        one
        for one in (tmp_path / "project/.periplus").rglob("*")
        if one.is_file() and SECRET.encode() in one.read_bytes()
    ]


def test_a_large_text_that_was_redacted_stays_out(importing, tmp_path):
    path = claude_session(tmp_path / "session.jsonl", prompt=f"{LONG} {SECRET}", steps=2)
    known(importing, path)
    importing.project.redact(secret=SECRET, reason="it slipped")
    before = objects(importing)
    assert importing(path)[1]
    assert not importing(path)[1]
    assert objects(importing) == before


def test_a_store_that_was_put_back_is_asked_itself(tmp_path):
    """A backup without the trail, and today's notes: they speak of a trail that is not there."""
    store = tmp_path / "project/.periplus"
    path = claude_session(tmp_path / "session.jsonl")
    with Importing(tmp_path / "project"):
        pass
    shutil.copytree(store, tmp_path / "backup")
    with Importing(tmp_path / "project") as importing:
        known(importing, path)
    shutil.copytree(store / "cache", tmp_path / "backup/cache")
    shutil.rmtree(store)
    shutil.copytree(tmp_path / "backup", store)
    with Importing(tmp_path / "project") as importing:
        ((trail,), was_read) = importing(path)
        assert (was_read, trail.changed) == (True, True)


def test_a_copy_of_the_store_agrees(tmp_path):
    path = claude_session(tmp_path / "session.jsonl")
    with Importing(tmp_path / "project") as importing:
        before = known(importing, path)
    shutil.copytree(tmp_path / "project", tmp_path / "copy")
    with Importing(tmp_path / "copy") as copied:
        trails, _ = copied(path)
        assert shown(trails) == before
        importing_again = copied(claude_session(path, steps=5))
        assert importing_again[0][0].changed


# ---- the notes


@pytest.mark.slow
def test_a_note_that_is_damaged_or_of_another_store_is_none(importing, tmp_path):
    path = claude_session(tmp_path / "session.jsonl")
    before = known(importing, path)
    (note,) = importing.notes
    data = note.read_bytes()
    changed = [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(0, len(data), 7)]
    with Importing(tmp_path / "other") as other:
        other(path)
        changed.append(other.notes[0].read_bytes())
    for wrong in (b"", data[:-1], data + b" ", data[:64], *changed):
        note.write_bytes(wrong)
        trails, was_read = importing(path)
        assert (shown(trails), was_read) == (before, True)
        assert note.read_bytes() == data


@pytest.mark.parametrize("what", ["folder", "pipe", "link"])
def test_something_else_where_a_note_belongs_is_none(importing, tmp_path, what):
    path = claude_session(tmp_path / "session.jsonl")
    before = known(importing, path)
    (note,) = importing.notes
    note.unlink()
    (tmp_path / "kept").write_text("kept")
    if what == "folder":
        note.mkdir()
    elif what == "pipe":
        os.mkfifo(note)
    else:
        note.symlink_to(tmp_path / "kept")
    for was_read in (True, what == "folder"):
        trails, found = importing(path)
        assert (shown(trails), found) == (before, was_read)
    assert (tmp_path / "kept").read_text() == "kept"


def test_no_link_is_followed_to_where_notes_would_lie(importing, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (importing.folder / ".periplus/cache").mkdir()
    (importing.folder / ".periplus/cache/imports").symlink_to(tmp_path / "elsewhere")
    path = claude_session(tmp_path / "session.jsonl")
    assert importing(path)[1]
    assert importing(path)[1]
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_notes_say_no_text_of_a_session_and_not_where_it_lies(importing, tmp_path):
    path = claude_session(tmp_path / "private-name.jsonl", prompt=SECRET)
    known(importing, path)
    (note,) = importing.notes
    assert note.stat().st_size < 2000
    for text in (SECRET, "private-name", "5e551011"):
        assert text not in note.name
        assert text.encode() not in note.read_bytes()


@pytest.mark.slow
def test_another_version_of_the_importers_reads_again(tmp_path):
    """One more comment in one module is another version: nobody has to raise a number."""
    import periplus

    tree = tmp_path / "tree"
    shutil.copytree(Path(periplus.__path__[0]), tree / "periplus", ignore=shutil.ignore_patterns("__pycache__"))
    path = claude_session(tmp_path / "session.jsonl")
    program = f"""
import sys
sys.path[:0] = [{os.fspath(tree)!r}, {os.fspath(Path(__file__).parent)!r}]
from pathlib import Path
from test_import_notes import Importing
import periplus
assert periplus.__path__[0].startswith({os.fspath(tree)!r})
with Importing(Path({os.fspath(tmp_path / "project")!r})) as importing:
    trails, was_read = importing({os.fspath(path)!r})
    print(was_read, [one.changed for one in trails])
"""

    def run():
        return subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        ).stdout.strip()

    assert [run(), run()] == ["True [True]", "False [False]"]
    with (tree / "periplus/interop/importers/claude_code/session.py").open("a") as file:
        file.write("# changed\n")
    assert [run(), run()] == ["True [False]", "False [False]"]


@pytest.mark.slow
def test_a_stop_at_every_call(tmp_path):
    """Whenever an import of a session that has grown is stopped: the next one has all of it, and the one after reads nothing."""
    path = claude_session(tmp_path / "session.jsonl", prompt=LONG)
    with Importing(tmp_path / "start") as importing:
        known(importing, path)
    claude_session(path, prompt=LONG, steps=2)
    at, is_done = 0, False
    while not is_done:
        folder = tmp_path / f"project{at}"
        shutil.copytree(tmp_path / "start", folder)
        with Importing(folder, files=StoppingFiles(at)) as importing:
            try:
                importing(path)
                is_done = True
            except Stop:
                pass
        with Importing(folder) as importing:
            (trail,), _ = importing(path)
            assert trail.entity.value["counts"]["tools"] == 2
            (trail,), was_read = importing(path)
            assert (was_read, trail.entity.value["counts"]["tools"]) == (False, 2)
        shutil.rmtree(folder)
        at += 1
    assert at > 10


@pytest.mark.slow
def test_many_at_once(tmp_path):
    """Processes that import files which change between their imports: in the end each file is known, and as it is."""
    with Importing(tmp_path / "project"):
        pass
    program = f"""
import sys
sys.path[:0] = [{os.fspath(Path(__file__).parent)!r}]
from pathlib import Path
from cli_support import claude_session
from periplus.base.errors import EnvironmentFailure, FormatError
from test_import_notes import Importing
number = int(sys.argv[1])
with Importing(Path({os.fspath(tmp_path / "project")!r})) as importing:
    for turn in range(6):
        claude_session(Path({os.fspath(tmp_path)!r}) / f"s{{number}}.jsonl", session=f"session-{{number}}", steps=turn + 1)
        for other in range(3):
            path = Path({os.fspath(tmp_path)!r}) / f"s{{other}}.jsonl"
            try:
                importing(path)
            except (FormatError, EnvironmentFailure):
                pass  # not there yet, or nothing is in it at this moment
"""
    running = [subprocess.Popen([sys.executable, "-c", program, str(number)]) for number in range(3)]
    assert [process.wait(100) for process in running] == [0, 0, 0]
    with Importing(tmp_path / "project") as importing:
        for number in range(3):
            path = tmp_path / f"s{number}.jsonl"
            (trail,), _ = importing(path)
            assert trail.entity.value["counts"]["tools"] == 6
            (sole,) = import_transcripts(os.fspath(path), trail_key=bytes(32), put_object=lambda _: bytes(32))
            assert trail.entity.value["source_sha256"] == sole.source_sha256.hex()
            assert not importing(path)[1]
