"""Entity files that nobody but who wrote them may change: what looks like ours, or like nothing, and is a person's."""

from __future__ import annotations

from periplus.journal.care.doctor import examine
from periplus.journal.projections.external_edits import take_in
from support import WRITER, item
from test_edits import path_of, put, shown


def test_an_edit_that_was_saved_as_utf_16_stays_and_is_told(journal):
    """It is full of NUL bytes, and so is what a power cut leaves: only what we wrote ourselves is taken for that."""
    journal.mutate(put(1, "abc"), WRITER)
    whole = path_of(journal).read_text()
    for encoding in ("utf-16", "utf-16-le", "utf-16-be"):
        path_of(journal).write_bytes(whole.replace("abc", "xyz").encode(encoding))
        edited = path_of(journal).read_bytes()
        (left,) = take_in(journal).left
        assert "UTF-16" in left.what
        journal.mutate(put(2, "another"), WRITER)
        assert path_of(journal).read_bytes() == edited
        assert shown(journal) == {"text": "abc"}
    path_of(journal).write_bytes(edited.decode("utf-16-be").encode())
    assert len(take_in(journal).edited) == 1


def test_a_copy_of_a_file_under_another_id_is_another_entity(journal):
    """Who writes by hand begins with a copy: it was removed, for the text in it was held, of the entity that it was copied from."""
    journal.mutate(put(1, "abc"), WRITER)
    copy = path_of(journal, 2)
    copy.write_bytes(path_of(journal).read_bytes().replace(item(1).encode(), item(2).encode()))
    assert [one.item_id for one in take_in(journal).edited] == [item(2)]
    assert shown(journal) == shown(journal, 2) == {"text": "abc"}
    assert examine(journal).problems == []


def test_what_is_left_of_a_file_that_nothing_is_known_of_stays(journal):
    journal.mutate(put(1, "abc"), WRITER)
    whole = path_of(journal).read_bytes().replace(item(1).encode(), item(2).encode())
    for data in (b"", bytes(9), whole[:-60], whole[:60] + bytes(len(whole) - 60)):
        path_of(journal, 2).write_bytes(data)
        assert len(take_in(journal).left) == 1
        assert path_of(journal, 2).read_bytes() == data


def test_line_ends_of_others_stay_until_there_is_something_to_write(journal):
    journal.mutate(put(1, "abc"), WRITER)
    data = path_of(journal).read_bytes().replace(b"\n", b"\r\n")
    path_of(journal).write_bytes(data)
    for _ in range(2):
        found = take_in(journal)
        assert (found.edited, found.adopted, found.left) == ((), (), ())
        assert path_of(journal).read_bytes() == data
        assert examine(journal).problems == []
    journal.mutate(put(1, "xyz"), WRITER)
    assert path_of(journal).read_bytes().count(b"\r") == 0
