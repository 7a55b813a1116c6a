"""A damaged index: told as such by whoever reads it, and built anew by whoever looks next."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from cli_support import Shell
from periplus.base.errors import DamageError
from periplus.journal.history.log import RecordFilter
from periplus.journal.history.undo import plan_undo
from periplus.journal.index.connection import connect
from periplus.journal.index.index_file import discard_index
from periplus.journal.index.row_recovery import IndexRows
from periplus.journal.index.tables import IndexDamageError
from periplus.journal.state.transaction import Writer
from periplus.journal.storage.settings import parse_lineage
from periplus.memory import Memory
from periplus.project import Project
from support import item, make_store, open_journal

WRITER = Writer("ada", "who_0000000000000000", "s1")


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    shell = Shell(folder, tmp_path)
    shell("init")
    with Project(folder / ".periplus", WRITER) as project:
        for number in range(30):
            project.remember(Memory("note", f"The tide of day {number} turns the boats"))
    return folder


def changed(root, statement):
    """The index with one statement run on it, as a bit that fell over would have it."""
    db = sqlite3.connect(root / ".periplus" / "index.sqlite")
    with db:
        assert db.execute(statement).rowcount
    db.close()


CHANGES = {
    "a payload": "UPDATE heads SET payload = replace(payload, 'boats', 'goats') WHERE rowid = 7",
    "a version": "UPDATE heads SET version = CASE substr(version, 1, 1) WHEN 'a' THEN 'b' ELSE 'a' END || substr(version, 2) WHERE rowid = 7",
    "a number for a text": "UPDATE heads SET parents = 7 WHERE rowid = 7",
    "no text at all": "UPDATE heads SET writer = CAST(x'ff41' AS TEXT) WHERE rowid = 7",
}


@pytest.mark.parametrize("statement", CHANGES.values(), ids=CHANGES)
def test_an_entity_that_is_not_what_was_written_is_never_served(root, statement):
    changed(root, statement)
    with Project(root / ".periplus", WRITER) as project:
        with pytest.raises(DamageError) as told:
            list(project.journal.entities("note"))
        assert isinstance(told.value, IndexDamageError)
        assert isinstance(told.value, sqlite3.DatabaseError)  # who knew it as SQLite's error still does
        assert os.fspath(root / ".periplus" / "index.sqlite") in str(told.value)
        assert "journal is untouched" in told.value.safe
        project.journal.refresh()  # the next look builds it anew
        assert len(list(project.journal.entities("note"))) == 30
        assert len(project.recall("tide boats").hits) > 0
    with Project(root / ".periplus", WRITER) as project:
        assert not project.journal.index.is_memory
        assert project.journal.index.counts()["note"] == 30


def test_any_page_that_is_damaged_is_told_once_and_the_next_opening_is_whole(tmp_path):
    """By who opens the store as a library and does nothing but repeat what failed, as the error says."""
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        for number in range(60):
            journal.mutate(lambda t, n=number: t.put("note", item(n), {"text": f"{n} boats" * 20}), WRITER)
    path = tmp_path / "index.sqlite"
    shutil.copy2(os.path.join(root, "index.sqlite"), path)
    whole, kept = path.read_bytes(), segments_of(root)
    told = 0
    for page in range(len(whole) // 4096):
        discard_index(os.path.join(root, "index.sqlite"))
        with open(os.path.join(root, "index.sqlite"), "wb") as file:
            file.write(whole[: page * 4096] + b"\xff" * 4096 + whole[(page + 1) * 4096 :])
        try:
            with open_journal(root) as journal:
                assert len(list(journal.entities("note"))) == 60
        except IndexDamageError:
            told += 1
        with open_journal(root) as journal:
            assert len(list(journal.entities("note"))) == 60
            assert not journal.index.is_memory
    assert told > 0
    assert segments_of(root) == kept


def segments_of(root):
    return {path: path.read_bytes() for path in Path(root, "journal").rglob("*.jsonl")}


LOG_CHANGES = {
    "who wrote it": "UPDATE records SET writer = 'eve' WHERE seq = 20",
    "when": "UPDATE records SET ts = '2001-01-01T00:00:00.000Z' WHERE seq = 20",
    "what it says": "UPDATE records SET summary = 'nothing happened' WHERE seq = 20",
    "its version": "UPDATE records SET version = CASE substr(version, 1, 1) WHEN 'a' THEN 'b' ELSE 'a' END || substr(version, 2) WHERE seq = 20",
    "its leaf": "UPDATE records SET leaf = zeroblob(32) WHERE seq = 20",
    "of what": "UPDATE records SET item_id = replace(item_id, 'not_', 'nut_') WHERE seq = 20",
    "that it is there": "DELETE FROM records WHERE seq = 20",
}


@pytest.mark.parametrize("redacted", [False, True], ids=["as it was written", "redacted"])
@pytest.mark.parametrize("statement", LOG_CHANGES.values(), ids=LOG_CHANGES)
def test_the_log_says_what_the_journal_says(root, statement, redacted):
    with Project(root / ".periplus", WRITER) as project:
        if redacted:
            project.redact(secret=project.log(limit=100).records[-20].summary, reason="a name too many")
        before = project.log(limit=100).records
        assert [row.summary == "" for row in before if row.seq == 20] == [redacted]
    changed(root, statement)
    with Project(root / ".periplus", WRITER) as project:
        with pytest.raises(IndexDamageError):
            project.log(limit=100)
        assert project.log(limit=100).records == before


OTHER_TYPES = {
    "where reading goes on": "UPDATE watermarks SET offset = 'x'",
    "of which lineage": "UPDATE watermarks SET lineage = x'00'",
    "a record's summary": "UPDATE records SET summary = x'00' WHERE seq = 20",
    "a record's time": "UPDATE records SET ts = x'00' WHERE seq = 20",
    "a file's digest": "INSERT INTO files SELECT 'note', item_id, 7, x'', '' FROM heads",
    "when a file was looked at": "INSERT INTO files SELECT 'note', item_id, x'', 7, '' FROM heads",
}


@pytest.mark.parametrize("statement", OTHER_TYPES.values(), ids=OTHER_TYPES)
def test_a_column_of_another_type_is_damage_and_no_error_of_ours(root, statement):
    with Project(root / ".periplus", WRITER) as project:
        before = project.log(limit=100).records
    changed(root, statement)
    shell = Shell(root, root.parent)
    shell("remember", "One more tide")
    shell("log")
    with Project(root / ".periplus", WRITER) as project:
        assert project.log(limit=100).records[-30:] == before[-30:]
        assert len(list(project.journal.entities("note"))) == 31


def test_a_memory_is_kept_though_the_index_cannot_take_it(root):
    db = sqlite3.connect(root / ".periplus" / "index.sqlite")
    db.execute("DROP TABLE edges")
    db.close()
    with Project(root / ".periplus", WRITER) as project:
        kept = project.remember(Memory("note", "One more tide")).entity
        project.journal.refresh()
        assert project.journal.get("note", kept.item_id) is not None
        assert project.recall("one more").hits[0].item_id == kept.item_id
    with Project(root / ".periplus", WRITER) as project:
        assert project.journal.index.counts()["note"] == 31


def test_words_that_are_found_and_are_not_there(root):
    changed(root, "DELETE FROM words_content")  # FTS5 still finds the rows by their terms
    with Project(root / ".periplus", WRITER) as project:
        with pytest.raises(IndexDamageError):
            project.recall("tide boats")
        assert len(project.recall("tide boats").hits) > 0


def test_a_command_says_it_and_goes_on(root, tmp_path):
    changed(root, CHANGES["a payload"])
    done = Shell(root, tmp_path)("recall", "tide", "--limit", "40")
    assert "rebuilding it from the journal" in done.err
    assert done.out.count("boats") >= 10
    assert "goats" not in done.out
    assert "damaged" not in Shell(root, tmp_path)("recall", "tide").err


def test_who_may_not_write_is_served_from_memory(root):
    changed(root, CHANGES["a payload"])
    path = root / ".periplus" / "index.sqlite"
    with Project(root / ".periplus", WRITER) as project:
        project.journal.index.is_writable = False  # root may write anywhere: as a folder that may only be read has it
        with pytest.raises(IndexDamageError):
            list(project.journal.entities("note"))
        path.unlink()
        path.mkdir()
        shutil.rmtree(root / ".periplus" / "index.sqlite-wal", ignore_errors=True)
        project.journal.refresh()
        assert project.journal.index.is_memory
        assert len(list(project.journal.entities("note"))) == 30


DERIVED_CHANGES = {
    "a record's writer": "UPDATE records SET writer = 'eve' WHERE seq = 20",
    "a record that is gone": "DELETE FROM records WHERE seq = 20",
    "a record of nobody": "INSERT INTO records SELECT lineage, 7000, segment, offset, length, leaf, ts, writer, session, action, item_type,"
    " item_id, version, rev, key, summary, parents FROM records WHERE seq = 20",
    "an edge that is gone": "DELETE FROM edges",
    "an edge of nobody": "INSERT INTO edges VALUES ('a', 'b')",
    "a head that is gone": "DELETE FROM heads WHERE rowid = 7",
    "who wrote a head": "UPDATE heads SET writer = 'eve' WHERE rowid = 7",
    "a watermark": "UPDATE watermarks SET next_seq = 20",
    "what is found of it": "UPDATE passages SET text = 'something else' WHERE id = (SELECT MIN(id) FROM documents)",
    "a text that is gone": "DELETE FROM passages WHERE id = (SELECT MIN(id) FROM documents)",
    "a text of nothing": "INSERT INTO passages VALUES (7, 'kraken')",
    "who says it": "UPDATE documents SET label = 'eve' WHERE id = (SELECT MIN(id) FROM documents)",
    "how sure it is": "UPDATE documents SET confidence = 3 WHERE rowid = (SELECT MIN(id) FROM documents)",
    "when it was": "UPDATE documents SET id = id + 3276800 WHERE id = (SELECT MIN(id) FROM documents)",
    "what is found no more": "DELETE FROM documents WHERE id = (SELECT MIN(id) FROM documents)",
    "words of nothing": "INSERT INTO words (rowid, body) VALUES (7, 'kraken')",
    "other words": "UPDATE words SET body = 'kraken' WHERE rowid = (SELECT MIN(id) FROM documents)",
    "a text's digest": "UPDATE texts SET digest = zeroblob(32) WHERE item_type = 'decision'",
    "a file that was touched": "DELETE FROM touched",
    "what was replaced": "INSERT INTO replaced VALUES ('not_0000000000000000', 'note', 'not_1111111111111111')",
    "how it is found": "INSERT INTO links VALUES ('plan', 'pln_0000000000000000', 'task', 'tsk_0000000000000000')",
    "a fault of nothing": "INSERT INTO search_faults VALUES ('note', 'not_1111111111111111', 'unreadable')",
    "an index that is gone": "DROP INDEX records_by_key",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "project"
    folder.mkdir()
    Shell(folder, folder.parent)("init")
    with Project(folder / ".periplus", WRITER) as project:
        for number in range(20):
            project.remember(Memory("note", f"The tide of day {number} turns the boats"), key=f"day {number}")
        first = project.remember(Memory("decision", "Boats wait for the tide", about=("boats.md",))).entity
        project.journal.mutate(
            lambda t: t.put("decision", first.item_id, first.value | {"text": "Boats leave"}), WRITER
        )
        project.journal.project()
    with Project(folder / ".periplus", WRITER) as project:
        assert project.examine().exit_code == 0
    return folder


@pytest.mark.parametrize("statement", DERIVED_CHANGES.values(), ids=DERIVED_CHANGES)
def test_doctor_tells_what_of_the_index_the_journal_does_not_say(made, tmp_path, statement):
    root = tmp_path / "project"
    shutil.copytree(made, root)
    changed(root, statement)
    path = root / ".periplus" / "index.sqlite"
    with Project(root / ".periplus", WRITER) as project:
        told = [one for one in project.examine().problems if one.severity == "warning"]
    assert told
    assert {one.path for one in told} == {os.fspath(path)}
    path.unlink()
    with Project(root / ".periplus", WRITER) as project:
        assert project.examine().exit_code == 0


SHAPES = {
    "a writer": {"writers": ("ada",)},
    "a session": {"sessions": ("s1",)},
    "a type": {"types": ("note",)},
    "an action": {"actions": ("create",)},
    "an id": {"item_id": "not_"},
    "times": {"since": "2001-01-01", "until": "2999-01-01"},
    "several": {"types": ("trap", "note"), "since": "2001-01-01", "actions": ("create", "update")},
}
UNFOUND = {
    **{name: LOG_CHANGES[name] for name in ("who wrote it", "that it is there")},
    "in which session": "UPDATE records SET session = 's2' WHERE seq = 20",
    "when": "UPDATE records SET ts = '1999-01-01T00:00:00.000Z' WHERE seq = 20",
    "of what": "UPDATE records SET item_type = 'tide', item_id = 'x', action = 'bless' WHERE seq = 20",
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("statement", UNFOUND.values(), ids=UNFOUND)
def test_a_filter_leaves_out_nothing_that_the_journal_has(made, tmp_path, shape, statement):
    root = tmp_path / "project"
    shutil.copytree(made, root)
    wanted = RecordFilter(**shape)
    with Project(root / ".periplus", WRITER) as project:
        [lineage] = project.journal.lineages()
        before = project.log(wanted, limit=100, lineages=[lineage]).records
        assert len(before) >= 20
        pages = project.log(wanted, limit=3, lineages=[lineage])
        assert pages.records == before[:3]
        assert project.log(wanted, limit=3, before=pages.before, lineages=[lineage]).records == before[3:6]
    db = sqlite3.connect(root / ".periplus" / "index.sqlite")
    with db:
        assert db.execute(statement).rowcount == 1
    db.close()
    with Project(root / ".periplus", WRITER) as project:
        with pytest.raises(IndexDamageError):
            project.log(wanted, limit=100, lineages=[lineage])
        assert project.log(wanted, limit=100, lineages=[lineage]).records == before


@pytest.mark.parametrize("statement", [UNFOUND["in which session"], UNFOUND["that it is there"]])
def test_undo_of_a_session_leaves_no_record_out(made, tmp_path, statement):
    root = tmp_path / "project"
    shutil.copytree(made, root)
    changed(root, statement)
    with Project(root / ".periplus", WRITER) as project:
        lineage = project.journal.lineages()[0]
        with pytest.raises(IndexDamageError):
            plan_undo(project.journal, session="s1", lineage=lineage)
        assert len(plan_undo(project.journal, session="s1", lineage=lineage).seqs) == 22


def test_an_entity_that_one_way_does_not_find_is_missed_by_the_other(made, tmp_path):
    """As where the tree that leads to heads by their names has lost an entry: its key says something else."""
    root = tmp_path / "project"
    shutil.copytree(made, root)
    path = root / ".periplus" / "index.sqlite"
    db = sqlite3.connect(path)
    name = db.execute("SELECT item_id FROM heads WHERE rowid = 7").fetchone()[0]
    rootpage = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_heads_1'").fetchone()[0]
    size = db.execute("PRAGMA page_size").fetchone()[0]
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    data = bytearray(path.read_bytes())
    pages = range((rootpage - 1) * size, len(data), size)
    at = next(
        at for start in pages if data[start] in (2, 10) and (at := data.find(name.encode(), start, start + size)) >= 0
    )
    data[at + 15] ^= 1
    path.write_bytes(data)
    with Project(root / ".periplus", WRITER) as project:
        with pytest.raises(IndexDamageError):
            project.journal.get("note", name)
        project.journal.refresh()
        assert project.journal.get("note", name) is not None


@pytest.mark.slow
def test_every_bit_of_how_the_full_text_is_declared(root, tmp_path):
    """Whatever SQLite says of a declaration that was changed, it is told as damage of the index; or nothing is amiss."""
    path = root / ".periplus" / "index.sqlite"
    db = sqlite3.connect(path)
    (text,) = db.execute("SELECT sql FROM sqlite_master WHERE name = 'words'").fetchone()
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    data = path.read_bytes()
    begin = data.index(text.encode())
    told = 0
    for at in range(begin, begin + len(text)):
        for bit in range(at % 2, 8, 2):
            changed_bytes = bytearray(data)
            changed_bytes[at] ^= 1 << bit
            copy = tmp_path / "copy.sqlite"
            copy.write_bytes(changed_bytes)
            held = connect(os.fspath(copy))
            try:
                held.execute("SELECT rowid FROM words WHERE words MATCH 'boats'").fetchall()
            except IndexDamageError:
                told += 1
                assert held.is_damaged
            finally:
                held.close()
    assert told > len(text) * 2


@pytest.mark.parametrize("is_removed", [True, False])
def test_an_index_is_not_removed_while_it_is_opened_nor_opened_while_it_is_removed(tmp_path, is_removed):
    """SQLite finds a file's log by its name: one that opens between two removals would take another's."""
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        journal.mutate(lambda t: t.put("note", item(1, "not"), {"text": "a"}), WRITER)
        path, done = journal.layout.index, []

        def work():
            if is_removed:
                discard_index(path)
            else:
                open_journal(root).close()
            done.append(True)

        folder = os.open(root, os.O_RDONLY)
        fcntl.flock(folder, fcntl.LOCK_SH if is_removed else fcntl.LOCK_EX)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join(0.2)
        assert not done
        assert os.path.exists(path)
        os.close(folder)
        thread.join()
    assert os.path.exists(path) != is_removed


def test_a_lineage_that_a_damaged_index_names_is_no_place(tmp_path):
    """A byte of a name there fell over: repair looked for its records in a folder of that name."""
    Shell(tmp_path, tmp_path)("init")
    with Project(tmp_path / ".periplus", WRITER) as project:
        project.remember(Memory("note", "the build needs gcc 13"))
        index, last = project.journal.layout.index, project.journal.index.last_seq(project.journal.lineage)
        key, at = project.journal.lineage, project.journal.layout.root
    with closing(sqlite3.connect(index)) as database, database:
        database.execute("UPDATE records SET lineage = replace(lineage, 'lin_', 'lin_' || char(0)) WHERE seq = 1")
        database.execute("UPDATE records SET lineage = '../outside' WHERE seq = 2")
    assert IndexRows(index).lineages() in ([], [key])
    with Project(at, WRITER) as project:
        project.repair()
        assert project.journal.index.last_seq(key) >= last
        assert not [one for one in project.examine().problems if one.severity == "error"]


@pytest.mark.parametrize("name", ["lin_}6tsm7k3ks4szkdq", "lin_r7dy9njr strgzq6", "../outside", ""])
@pytest.mark.parametrize("field", ["left", "previous"])
def test_what_lineage_json_says_of_before_is_the_name_of_a_lineage(tmp_path, field, name):
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        journal.mutate(lambda t: t.put("note", item(1, "not"), {"text": "a"}), WRITER)
        path = journal.layout.lineage
    document = json.loads(Path(path).read_bytes())
    whole = parse_lineage(json.dumps(document).encode(), path)
    document[field] = {name: 5} if field == "left" else name
    if (field, name) == ("previous", ""):
        assert parse_lineage(json.dumps(document).encode(), path) == whole
        return
    with pytest.raises(DamageError, match="not a lineage"):
        parse_lineage(json.dumps(document).encode(), path)
