"""A journal that was put back to an earlier state, or taken out of its store: the index still knows what is missing.

Nothing in the journal's own files shows it, for all of them are of that state. What was acknowledged since must not
be given up in silence, its seqs not be given away again, and the index not be thrown away that knows of it.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from cli_support import Shell
from periplus.base.errors import DamageError, EnvironmentFailure
from periplus.journal.care.doctor import examine
from periplus.journal.care.repair import repair
from support import WRITER, item, make_store, open_journal, remove_index


def put(number, text="a text"):
    return lambda transaction: transaction.put("note", item(number, "not"), {"text": text})


def put_back(earlier, journal):
    """As ``git checkout`` does: what differs is removed and written anew, the rest stays the file that it was."""
    for path in sorted(Path(earlier).rglob("*")):
        target = Path(journal, path.relative_to(earlier))
        if path.is_file() and target.read_bytes() != path.read_bytes():
            target.unlink()
            shutil.copy2(path, target)


@pytest.fixture
def store(tmp_path):
    """A store of seven records, and beside it its journal as it was after the fourth."""
    root = make_store(tmp_path)
    with open_journal(root) as journal:
        for number in range(4):
            journal.mutate(put(number), WRITER)
    shutil.copytree(Path(root, "journal"), tmp_path / "earlier")
    with open_journal(root) as journal:
        for number in range(4, 7):
            journal.mutate(put(number), WRITER)
    shutil.copytree(Path(root, "journal"), tmp_path / "later")
    return root


def check_refused(root):
    with open_journal(root) as journal:
        assert "put back to an earlier state" in str(journal.damage)
        with pytest.raises(DamageError, match="put back to an earlier state"):
            journal.mutate(put(9), WRITER)
        assert examine(journal).exit_code == 3
    with open_journal(root) as journal:
        assert journal.damage is not None, "the index was thrown away"


def check_whole(root, count=7):
    with open_journal(root) as journal:
        assert journal.damage is None
        assert len(list(journal.entities())) == count
        assert examine(journal).exit_code == 0
        return journal.mutate(put(9), WRITER)


def test_what_is_missing_is_told_and_its_seqs_are_not_given_away(store, tmp_path):
    put_back(tmp_path / "earlier", Path(store, "journal"))
    with open_journal(store) as journal:
        assert journal.damage.seq == 5
        assert [record.record.seq for _, record in journal.entries(journal.lineage)] == [1, 2, 3, 4]
    check_refused(store)
    put_back(tmp_path / "later", Path(store, "journal"))
    assert check_whole(store).first_seq == 8


def test_a_repair_restores_what_the_index_has(store, tmp_path):
    put_back(tmp_path / "earlier", Path(store, "journal"))
    with open_journal(store) as journal:
        repair(journal, WRITER)
    assert check_whole(store).first_seq > 8


def test_a_journal_that_was_taken_away_is_not_begun_anew(store, tmp_path):
    os.rename(Path(store, "journal"), tmp_path / "aside")
    check_refused(store)
    with open_journal(store) as journal, pytest.raises(DamageError, match="put back"):
        repair(journal, WRITER)
    assert not os.path.exists(Path(store, "journal")), "what is brought back would end up within it"
    os.rename(tmp_path / "aside", Path(store, "journal"))
    assert check_whole(store).first_seq == 8


def test_a_journal_that_is_gone_comes_back_from_an_exported_file(tmp_path):
    shell = Shell(tmp_path / "project", tmp_path)
    shell.folder.mkdir()
    shell("init")
    shell("remember", "Ports start at 8000", "--type", "decision")
    shell("export", tmp_path / "store.zip")
    shutil.rmtree(shell.folder / ".periplus/journal")
    told = shell.fails("doctor", "--repair", code=3, wrong="record 1 was acknowledged and is missing")
    assert "the folder `journal` of a backup, or of what `periplus import` made of an exported file" in told.err
    shell("import", tmp_path / "store.zip", tmp_path / "made")
    shutil.copytree(tmp_path / "made/.periplus/journal", shell.folder / ".periplus/journal")
    assert "Ports start at 8000" in shell("recall", "ports").out
    shell("remember", "It goes on", "--type", "note")
    assert shell.json("doctor").sound


def test_without_the_index_a_store_goes_on_as_a_fresh_clone(store):
    shutil.rmtree(Path(store, "journal"))
    check_refused(store)
    remove_index(store)
    assert check_whole(store, count=0).first_seq == 1


def test_who_has_the_store_open_is_told_too(store, tmp_path):
    with open_journal(store) as journal:
        os.rename(Path(store, "journal"), tmp_path / "aside")
        with pytest.raises((DamageError, EnvironmentFailure)):
            journal.mutate(put(9), WRITER)
    assert not any(Path(store).glob("journal/lin_*"))
    if os.path.exists(Path(store, "journal")):
        shutil.rmtree(Path(store, "journal"))
    os.rename(tmp_path / "aside", Path(store, "journal"))
    assert check_whole(store).first_seq == 8


def test_a_journal_that_is_taken_away_under_the_lock_is_told(store, tmp_path):
    with open_journal(store) as journal:
        journal.mutate(put(7), WRITER)
        with journal.writing():
            os.rename(Path(store, "journal"), tmp_path / "aside")
            with pytest.raises(EnvironmentFailure, match="no longer the store that was opened"):
                journal._own_lineage()


def test_who_has_the_store_open_does_not_write_the_lineage_of_a_copy(store, tmp_path):
    with open_journal(store) as journal:
        old = journal.mutate(put(7), WRITER)
        copy = tmp_path / "copy"
        shutil.copytree(Path(store, "journal"), copy)
        os.rename(Path(store, "journal"), tmp_path / "aside")
        os.rename(copy, Path(store, "journal"))
        with pytest.raises(EnvironmentFailure, match="no longer the store that was opened"):
            journal.mutate(put(8), WRITER)
    with open_journal(store) as journal:
        assert journal.mutate(put(8), WRITER).lineage != old.lineage


def test_an_index_that_is_damaged_besides_is_built_anew(store, tmp_path):
    put_back(tmp_path / "earlier", Path(store, "journal"))
    index = Path(store, "index.sqlite")
    with sqlite3.connect(index) as db:
        ((page, size),) = db.execute(
            "SELECT rootpage, page_size FROM sqlite_master, pragma_page_size WHERE name = 'records'"
        )
    db.close()
    whole = index.read_bytes()
    place = slice((page - 1) * size, page * size)
    index.write_bytes(whole[: place.start] + whole[place][::-1] + whole[place.stop :])
    check_whole(store, count=4)


def test_an_index_whose_rows_do_not_say_so_is_what_is_wrong(store):
    with sqlite3.connect(Path(store, "index.sqlite")) as db:
        db.execute("UPDATE watermarks SET next_seq = next_seq + 3, offset = offset + 1000")
    db.close()
    assert check_whole(store).first_seq == 8
