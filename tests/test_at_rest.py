"""Whoever examines a store while somebody takes content out of it does not tell of damage that never was."""

from __future__ import annotations

import pytest

from periplus.journal.care.doctor import Examination, examine
from periplus.journal.care.problem import Problem
from periplus.journal.care.redaction import redact
from periplus.journal.care.stable_examination import examine_stable
from support import WRITER, item, make_store, open_journal

SECRET = "hunter2-is-the-secret"
LOOKS = 5  # how often an examination of this store tells how far it is


def store(folder):
    root = make_store(folder)
    with open_journal(root) as journal:
        for number in range(2):
            journal.mutate(
                lambda t, n=number: t.put("note", item(n, "not"), {"text": f"{SECRET} {n}" + "n" * 70_000}), WRITER
            )
            journal.mutate(lambda t, n=number: t.put("decision", item(n), {"text": f"{n} {SECRET}"}), WRITER)
            journal.roll()
    return root


def take_out(root, **named):
    with open_journal(root) as other:
        redact(other, WRITER, reason="a secret", **named)


@pytest.mark.parametrize("at", range(LOOKS))
def test_a_redaction_while_the_doctor_looks_is_no_damage(tmp_path, at):
    """An object was missed that a record had named when it was read, and the exit code was that of acknowledged data that is affected."""
    root, looks = store(tmp_path), 0

    def meanwhile(_done, _total):
        nonlocal looks
        looks += 1
        if looks - 1 == at:
            take_out(root, secret=SECRET)

    with open_journal(root) as journal:
        found = examine_stable(journal, lambda: examine(journal, progress=meanwhile))
    assert looks > at
    assert found.problems == []
    assert all(SECRET.encode() not in journal.objects.get(one) for one in journal.objects.digests())


def test_the_doctor_who_looks_while_somebody_redacts_finds_no_damaged_index(tmp_path):
    """The index is marked meanwhile, and says what is to go: it was called damaged, and was to be deleted."""
    root = store(tmp_path)
    told: list[Problem] = []

    def look(_done, _total):
        with open_journal(root) as other:
            told.extend(examine_stable(other, lambda: examine(other)).problems)

    with open_journal(root) as journal:
        redact(journal, WRITER, secret=SECRET, reason="a secret", progress=look)
        assert examine(journal).problems == []
    assert [one for one in told if one.severity != "note"] == []
    assert any("a redaction is in progress" in one.what for one in told)


def test_where_it_never_rests_that_is_told(tmp_path):
    root = store(tmp_path)
    problem = Problem("error", "an object that a record names is missing")
    secrets = iter([f"{SECRET} 0", f"{SECRET} 1", f"0 {SECRET}"])

    def look():
        take_out(root, secret=next(secrets))
        return Examination([problem], {})

    with open_journal(root) as journal:
        found = examine_stable(journal, look)
        assert next(secrets, None) is None
        assert [one.severity for one in found.problems] == ["error", "note"]
        assert "each attempt" in found.problems[1].what


def test_what_is_wrong_is_told_once_where_others_only_write(tmp_path):
    root, looks = store(tmp_path), []
    problem = Problem("error", "an object that a record names is missing")

    def look():
        looks.append(1)
        with open_journal(root) as other:
            other.mutate(lambda t: t.put("decision", item(7), {"text": "new"}), WRITER)
            other.roll()
        return Examination([problem], {})

    with open_journal(root) as journal:
        assert examine_stable(journal, look).problems == [problem]
    assert looks == [1]


def test_a_file_that_lags_behind_what_others_write_meanwhile_is_of_the_journal(tmp_path):
    """What was written and followed by more before the records were read was not in the view that its file was judged by."""
    root, looks = make_store(tmp_path), 0
    with open_journal(root) as journal:
        journal.mutate(lambda t: t.put("decision", item(1), {"text": "first"}), WRITER)
        journal.roll()  # the second segment is read when the first was told

    def meanwhile(_done, _total):
        nonlocal looks
        looks += 1
        if looks == 1:
            with open_journal(root) as other:
                other.mutate(lambda t: t.put("decision", item(1), {"text": "second"}), WRITER)
                other.mutate(lambda t: t.put("decision", item(1), {"text": "third"}), WRITER, project=False)

    with open_journal(root) as journal:
        found = examine(journal, progress=meanwhile)
    assert looks
    assert {one.what for one in found.problems if one.severity == "warning"} == {
        "the file holds an older version, or is formatted differently"
    }
