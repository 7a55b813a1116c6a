"""The archive is on another disk: who needs what lies in it is told what is missing, what is safe, and what helps."""

from __future__ import annotations

import os
import shutil

import pytest

from cli_support import Shell, shared_project
from periplus.base.errors import DamageError
from periplus.journal import Writer
from periplus.memory import Memory
from periplus.project import Project
from periplus.project.care.checkup import check_up_if_due
from support import remove_index

ADA = Writer("ada", "who_0000000000000000", "", 1)


def write_much(shell, name):
    """Records over several segments, and a checkpoint behind them."""
    with Project.open(os.fspath(shell.folder), ADA) as project:
        for number in range(6):
            project.remember(Memory("lesson", f"What {name} says of boiler number {number}, at some length"))
        project.compact()


@pytest.fixture
def place(tmp_path):
    """``(ada's shell, the entity that two clones changed, where the archive was, where it is)``: what they changed is archived."""
    return lived(tmp_path, lambda _ada, _one: None)


@pytest.fixture
def unkept(tmp_path):
    """As ``place``; ada changed it before the checkpoints, so that none keeps what both made it from."""
    return lived(tmp_path, lambda ada, one: ada("set", one, "text=The boiler is green"))


def lived(tmp_path, change):
    shells = shared_project(tmp_path, "bob")
    ada, bob = shells["ada"], shells["bob"]
    config = ada.folder / ".periplus" / "config.toml"
    config.write_text(config.read_text().replace("[journal]", "[journal]\nsegment_bytes = 1500\nlive_segments = 1"))
    ada("remember", "The boiler is red", "--type", "decision", "--tag", "boiler")
    one = ada.json("log").records[0].id
    bob("sync", "--with", "../ada")
    bob("set", one, "text=The boiler is blue")
    change(ada, one)
    for name in ("winter", "spring", "summer"):
        write_much(ada, name)
    [archive] = ada.folder.glob(".periplus/journal/lin_*/archive")
    assert (archive / "000000000001.jsonl").exists()
    return ada, one, archive, tmp_path / "away"


def take_away(ada, archive, away, *, is_index_there):
    archive.rename(away)
    if not is_index_there:
        remove_index(ada.folder / ".periplus")


def take_archive_and_index_away(place):
    """Return the oldest segment that is left, and its bytes."""
    ada, _, archive, away = place
    take_away(ada, archive, away, is_index_there=False)
    oldest = min(archive.parent.glob("*.jsonl"))
    return oldest, oldest.read_bytes()


def check_told(done, seq):
    """It says which record is not here and what helps, and does not say that anything is damaged."""
    assert f"seq {seq}: " in done.err
    assert "neither here nor in archive/" in done.err
    assert "put it back" in done.err.lower()
    assert "periplus doctor --repair --from" in done.err
    assert "is not what was written" not in done.err
    assert "before this place" not in done.err


def test_what_two_clones_changed_is_written_on_where_a_checkpoint_keeps_what_both_made_it_from(place):
    ada, one, archive, away = place
    ada("set", one, "text=The boiler is green")
    ada("sync", "--with", "../bob")
    shown = ada("show", one).out
    archive.rename(away)
    said = ada("show", one)
    assert (said.out, said.err) == (shown, "")
    assert "in conflict: text" in said.out
    ada("set", one, "text=The boiler is grey")
    assert "conflict" not in ada("show", one).out
    for segment in away.iterdir():
        archive.mkdir(exist_ok=True)
        segment.rename(archive / segment.name)
    ada("doctor")


def test_what_two_clones_changed_can_be_written_on_once_it_is_back(unkept):
    ada, one, archive, away = unkept
    assert "conflict" in ada("sync", "--with", "../bob").out
    archive.rename(away)
    for words in (("evolve", one, "All boilers are grey"), ("set", one, "text=The boiler is grey")):
        check_told(ada.fails(*words, code=3), 1)
    said = ada("show", one)
    assert "in conflict: text" in said.out
    assert "neither here nor in archive/" in said.err
    ada("remember", "What has nothing to do with it is written", "--type", "note")
    away.rename(archive)
    assert "in conflict: text" in ada("show", one).out
    ada("evolve", one, "All boilers are grey")
    ada("doctor")


def test_who_looks_at_everything_from_time_to_time_calls_it_no_damage(place):
    ada, _, archive, away = place
    archive.rename(away)
    ada("doctor", code=3)
    with Project.open(os.fspath(ada.folder), ADA) as project:
        assert check_up_if_due(project).told == ()
    assert ada.json("status").found == ""


@pytest.mark.parametrize("is_index_there", [True, False])
def test_what_needs_the_past_says_what_is_missing(place, is_index_there):
    ada, one, archive, away = place
    take_away(ada, archive, away, is_index_there=is_index_there)
    check_told(ada.fails("undo", "--seq", "1", code=3), 1)
    check_told(ada.fails("show", one, "--at", "1", code=3), 1)
    away.rename(archive)
    assert "The boiler is red" in ada("show", one, "--at", "1").out


@pytest.mark.parametrize("is_index_there", [True, False])
def test_a_proof_of_what_is_not_here_names_no_file_that_never_was(place, is_index_there):
    ada, _, archive, away = place
    take_away(ada, archive, away, is_index_there=is_index_there)
    for seq in ("1", "4"):
        done = ada.fails("prove", seq, code=3)
        check_told(done, seq)
        assert "000000000000" not in done.err
    away.rename(archive)
    ada("prove", "1")


@pytest.mark.parametrize("is_index_there", [True, False])
def test_blame_says_what_it_can_and_that_older_records_are_not_here(place, is_index_there):
    ada, one, archive, away = place
    before = {field.name: field.origins[0].record.seq for field in ada.json("blame", one).fields}
    assert set(before.values()) == {1}
    take_away(ada, archive, away, is_index_there=is_index_there)
    told = ada.json("blame", one)  # nobody has changed it since: the record that says what it is is not here
    assert [field.value for field in told.fields if field.name == "text"] == ["The boiler is red"]
    origins = [origin for field in told.fields for origin in field.origins]
    assert all(origin.record.seq == 1 for origin in origins)
    assert bool(origins) == is_index_there
    done = ada("blame", one)
    assert "older records are missing or unreadable" in done.out or is_index_there
    ada("set", one, "rationale=It was painted")
    told = {field.name: field.origins for field in ada.json("blame", one).fields}
    assert told["rationale"][0].record.summary.endswith("rationale")
    assert told["text"][0].record == told["rationale"][0].record
    assert not told["text"][0].certain
    done = ada("blame", one)
    assert "or earlier (older records cannot be read)" in done.out
    assert "older records are missing or unreadable" in done.lines[-1]
    away.rename(archive)
    told = {field.name: field.origins for field in ada.json("blame", one).fields}
    assert told["text"][0].record.seq == 1
    assert told["text"][0].certain
    assert "older records" not in ada("blame", one).out


def test_a_repair_leaves_a_header_alone_whose_past_is_not_here(place):
    ada, _, archive, away = place
    oldest, before = take_archive_and_index_away(place)
    told = ada("doctor", "--repair", code=3).out
    assert "the header is written" not in told
    assert oldest.read_bytes() == before
    away.rename(archive)
    ada("doctor", "--compact")


def test_a_header_that_is_damaged_is_made_again_though_its_past_is_not_here(place):
    ada, _, archive, away = place
    oldest, before = take_archive_and_index_away(place)
    oldest.write_bytes(before.replace(b'"segment":2', b'"segment":3', 1))
    assert "the header is written anew" in ada("doctor", "--repair", code=3).out
    away.rename(archive)
    ada("doctor", "--repair")
    assert oldest.read_bytes() == before


def test_a_repair_of_a_record_leaves_a_header_alone_whose_past_is_not_here(place):
    ada, _, _, _ = place
    oldest, before = take_archive_and_index_away(place)
    oldest.write_bytes(before.replace(b"boiler number", b"boiler nvmber", 1))
    ada("doctor", "--repair", code=3)
    assert oldest.read_bytes() == before


def test_a_repair_takes_it_out_of_the_folder_that_it_was_moved_to(place):
    ada, one, archive, away = place
    held = {path.name: path.read_bytes() for path in archive.iterdir()}
    archive.rename(away)
    remove_index(ada.folder / ".periplus")
    said = ada("doctor", code=3).out
    assert "Put the archive back" in said
    assert "note " not in said
    ada("doctor", "--repair", "--from", os.fspath(away))
    ada("doctor")
    folder = archive.parent
    assert {name: (folder / name if (folder / name).exists() else archive / name).read_bytes() for name in held} == held
    assert {path.name: path.read_bytes() for path in away.iterdir()} == held
    assert "The boiler is red" in ada("show", one, "--at", "1").out


@pytest.fixture
def history(tmp_path):
    """``(ada's shell, an entity, what it said in each of its versions, where the archive was, where it is)``."""
    ada = shared_project(tmp_path)["ada"]
    config = ada.folder / ".periplus" / "config.toml"
    config.write_text(config.read_text().replace("[journal]", "[journal]\nsegment_bytes = 1500\nlive_segments = 1"))
    texts = [f"The boiler has colour {number}" for number in range(13)]
    ada("remember", texts[0], "--type", "decision")
    one = ada.json("log").records[0].id
    for number, text in enumerate(texts[1:], 1):
        ada("set", one, f"text={text}")
        if number % 4 == 0:
            ada("doctor", "--compact")
    [archive] = ada.folder.glob(".periplus/journal/lin_*/archive")
    assert len(list(archive.iterdir())) > 1
    return ada, one, texts, archive, tmp_path / "away"


def all_said(ada):
    return b"".join(
        path.read_bytes() for path in sorted(ada.folder.glob(".periplus/journal/lin_*/**/*.jsonl"))
    ).decode()


@pytest.mark.slow
@pytest.mark.parametrize("is_index_there", [True, False])
def test_a_repair_gives_up_nothing_that_a_checkpoint_stands_for(history, is_index_there):
    ada, one, texts, archive, away = history
    take_away(ada, archive, away, is_index_there=is_index_there)
    for words in (("doctor",), ("doctor", "--repair")):
        said = ada(*words, code=3).out
        assert "are missing" in said
        assert said.count("error ") == 1  # what follows from it is no second thing that is wrong
        assert all(word in said for word in ("Put the archive back", "--from PATH", "--archive-lost"))
        assert "lost, its place" not in said
    ada("set", one, "text=The boiler is green")
    away.rename(archive)
    ada("doctor")
    assert all(f'"text":"{text}"' in all_said(ada) for text in texts)
    assert not list(ada.folder.glob(".periplus/journal/lin_*/*.parked"))


@pytest.mark.slow
def test_a_part_of_the_archive_may_be_elsewhere(history):
    """A hole in the middle: the same as where the beginning is missing."""
    ada, one, texts, archive, away = history
    away.mkdir()
    second = sorted(archive.iterdir())[1]
    second.rename(away / second.name)
    for words in (("doctor",), ("doctor", "--repair")):
        said = ada(*words, code=3).out
        assert said.count("error ") == 1
        assert all(word in said for word in ("records are missing", "Put the archive back", "--archive-lost"))
        assert "warning" not in said
    assert texts[-1] in ada("show", one).out
    ada("set", one, "text=The boiler is green")
    before = checkpoints(ada)
    ada.fails("redact", "--secret-file", "-", "--reason", "a secret", code=3, stdin=texts[-1])
    assert checkpoints(ada) == before
    ada("doctor", "--repair", "--from", os.fspath(away))
    ada("doctor")
    assert all(f'"text":"{text}"' in all_said(ada) for text in texts)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["put back", "--from"])
def test_what_was_given_up_as_lost_comes_back_when_the_archive_turns_up(history, way):
    ada, one, texts, archive, away = history
    archive.rename(away)
    said = ada("doctor", "--repair", "--archive-lost").out
    assert "its content is lost, its place is kept" in said
    ada("doctor")
    lost = [text for text in texts if f'"text":"{text}"' not in all_said(ada)]
    assert len(lost) > 2
    assert ada("show", one).out.count(texts[-1]) == 1
    if way == "put back":
        archive.mkdir(exist_ok=True)
        for path in away.iterdir():
            path.rename(archive / path.name)
        assert "is here and in the archive" in ada("doctor", code=1).out
        again = ada.json("doctor", "--repair").mended
    else:
        again = ada.json("doctor", "--repair", "--from", os.fspath(away)).mended
    assert sum(done.what == "the content of a lost record is written again" for done in again) >= len(lost)
    ada("doctor")
    assert all(f'"text":"{text}"' in all_said(ada) for text in texts)
    assert ada("show", one).out.count(texts[-1]) == 1
    assert "mended" not in ada("doctor", "--repair", "--from", os.fspath(away) if way == "--from" else ".").out


@pytest.mark.slow
def test_what_was_redacted_since_does_not_come_back(history):
    ada, _, texts, archive, away = history
    archive.rename(away)
    ada("doctor", "--repair", "--archive-lost")
    ada("doctor", "--repair", "--from", os.fspath(away))
    ada("redact", "--secret-file", "-", "--reason", "a secret", stdin=texts[2])
    ada("doctor", "--repair", "--from", os.fspath(away))
    assert texts[2] not in all_said(ada)
    assert texts[3] in all_said(ada)


def test_archive_lost_goes_with_repair(history):
    assert "--archive-lost goes with --repair" in history[0].fails("doctor", "--archive-lost", code=2).err


def checkpoints(ada):
    return sorted(path.name for path in (ada.folder / ".periplus" / "journal" / "checkpoints").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("is_index_there", [True, False])
def test_redact_does_not_remove_what_stands_for_it(history, is_index_there):
    """It removed the checkpoints first, and then said that nothing was changed: nothing was served any more until the archive was back."""
    ada, one, texts, archive, away = history
    take_away(ada, archive, away, is_index_there=is_index_there)
    before = checkpoints(ada)
    for words in (("--secret-file", "-"), ("--seq", "2")):
        done = ada.fails("redact", *words, "--reason", "a secret", code=3, stdin=texts[-1])
        assert "neither here nor in archive/" in done.err
    assert checkpoints(ada) == before
    assert texts[-1] in ada("show", one).out
    ada("remember", "It is written on", "--type", "note")
    ada("doctor", "--compact", code=3)
    for path in away.iterdir():
        path.rename(archive / path.name)  # where more of it is by now
    ada("redact", "--secret-file", "-", "--reason", "a secret", stdin=texts[1])
    assert texts[1] not in all_said(ada)
    ada("doctor")


@pytest.mark.slow
@pytest.mark.parametrize("who", ["ada", "bob"])
def test_a_redaction_from_elsewhere_waits_until_it_is_back(place, who):
    ada, _, archive, away = place
    bob = Shell(ada.folder.parent / "bob", ada.home)
    bob("remember", "Bob's password is hunter2hunter2", "--type", "note")
    ada("sync", "--with", "../bob")
    bob("redact", "--secret-file", "-", "--reason", "a secret", stdin="hunter2hunter2")
    archive.rename(away)
    before = checkpoints(ada)
    shell, other = {"ada": (ada, "../bob"), "bob": (bob, "../ada")}[who]
    done = shell("sync", "--with", other, code=3)
    assert "neither here nor in archive/" in done.out + done.err
    assert checkpoints(ada) == before
    ada("remember", "It is written on", "--type", "note")
    assert "The boiler" in ada("recall", "boiler").out
    away.rename(archive)
    ada("sync", "--with", "../bob")
    assert b"hunter2hunter2" not in b"".join(
        path.read_bytes() for path in ada.folder.glob(".periplus/**/*") if path.is_file()
    )
    ada("doctor")


@pytest.mark.slow
def test_redact_does_not_remove_what_stands_for_damage_in_the_archive(history):
    ada, one, texts, archive, _ = history
    path = min(archive.iterdir())
    data = bytearray(path.read_bytes())
    data[600:700] = b"x" * 100
    path.write_bytes(data)
    before = checkpoints(ada)
    done = ada.fails("redact", "--secret-file", "-", "--reason", "a secret", code=3, stdin=texts[-1])
    assert "doctor" in done.err
    assert checkpoints(ada) == before
    assert texts[-1] in ada("show", one).out
    ada("doctor", "--repair")
    ada("redact", "--secret-file", "-", "--reason", "a secret", stdin=texts[1])
    ada("doctor")


@pytest.mark.slow
def test_a_repair_keeps_what_only_the_index_says(history):
    """With the checkpoints damaged, too. It made the index anew of what was left: what had been served was gone."""
    ada, one, texts, archive, away = history
    ada("remember", "What nobody has said since", "--type", "note")
    ada("doctor", "--compact")
    archive.rename(away)
    for path in (ada.folder / ".periplus" / "journal" / "checkpoints").iterdir():
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2] + b"XXXX" + data[len(data) // 2 + 4 :])
    for _ in range(2):
        ada("doctor", "--repair", code=3)
        assert texts[-1] in ada("show", one).out
        assert "What nobody has said since" in ada("recall", "nobody has said since").out
    ada("doctor", "--repair", "--archive-lost")
    ada("doctor")
    assert texts[-1] in ada("show", one).out
    assert "What nobody has said since" in ada("recall", "nobody has said since").out


@pytest.mark.slow
@pytest.mark.parametrize("is_folder_there", [True, False])
def test_all_records_of_a_lineage_are_gone(history, is_folder_there):
    """With its folder, nothing was restored by a repair, not from a copy either; without, the index was made anew of what was left."""
    ada, one, texts, archive, away = history
    ada("remember", "What nobody has said since", "--type", "note")
    folder = archive.parent
    folder.rename(away)
    if is_folder_there:
        folder.mkdir()
    assert "--from PATH" in ada("doctor", code=3).out
    for _ in range(2):
        assert "--archive-lost" in ada("doctor", "--repair", code=3).out
        assert texts[-1] in ada("show", one).out
        assert "What nobody has said since" in ada("recall", "nobody has said since").out
    ada("doctor", "--repair", "--archive-lost")
    ada("doctor")
    assert texts[-1] in ada("show", one).out
    assert "What nobody has said since" in ada("recall", "nobody has said since").out
    ada("doctor", "--repair", "--from", os.fspath(away))
    assert all(f'"text":"{text}"' in all_said(ada) for text in texts)
    ada("doctor")


@pytest.mark.parametrize("owner", ["ada", "bob"])
def test_a_lineage_whose_folder_is_gone_is_restored_from_a_copy(tmp_path, owner):
    shells = shared_project(tmp_path, "bob")
    ada, bob = shells.values()
    for name, shell in shells.items():
        shell("remember", f"This is the word of {name}", "--type", "note")
    for _ in range(2):
        bob("sync", "--with", "../ada")
    [mine] = {record.lineage for record in ada.json("log").records}
    [theirs] = {record.lineage for record in bob.json("log").records}
    shutil.rmtree(ada.folder / ".periplus" / "journal" / {"ada": mine, "bob": theirs}[owner])
    assert "doctor --repair" in ada("doctor", code=3).out
    assert "restored from a copy" in ada("doctor", "--repair", "--from", os.fspath(bob.folder)).out
    ada("doctor")
    said = ada("recall", "the word of").out
    assert all(f"the word of {name}" in said for name in shells)
    ada("remember", "It goes on", "--type", "note")


def put_a_file_for(place, away):
    if place.exists():
        place.rename(away)
    place.write_text("somebody's")


def parked(ada):
    found = [path for path in ada.folder.glob(".periplus/parked/**/*") if path.is_file()]
    return [path.name for path in found if path.read_text() == "somebody's"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["journal", "journal/keys", "journal/{}"])
def test_a_file_in_place_of_a_folder_of_the_journal_is_told_and_parked(history, name):
    """It was told as 'Not a directory', and no repair did anything about it."""
    ada, one, texts, archive, away = history
    place = ada.folder / ".periplus" / name.format(archive.parent.name)
    put_a_file_for(place, away)
    for words in (("show", one), ("doctor",), ("set", one, "text=The boiler is green")):
        said = ada.fails(*words, code=3, wrong="not a folder, but a folder belongs here").err
        assert "doctor --repair" in said
    ada("doctor", "--repair", "--from", os.fspath(away), code=3 if name == "journal" else 0)
    assert parked(ada) == [place.name]
    if name == "journal":  # nobody takes a whole journal for a part of another
        away.rename(place)
    assert texts[-1] in ada("show", one).out
    ada("set", one, "text=The boiler is green")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["entities", "entities/decision", "objects"])
def test_a_file_in_place_of_a_folder_keeps_nobody_from_reading_and_is_parked(history, name):
    ada, one, texts, _, away = history
    put_a_file_for(ada.folder / ".periplus" / name, away)
    assert texts[-1] in ada("show", one).out
    assert "a file where a folder belongs" in ada("doctor", code=1).out
    assert "owner" not in ada("status").out
    ada("doctor", "--repair")
    assert parked(ada) == [name.rpartition("/")[2]]
    ada("doctor")


@pytest.mark.slow
def test_a_repair_that_finds_nothing_of_anothers_records_leaves_them_to_the_index(tmp_path):
    shells = shared_project(tmp_path, "bob")
    ada, bob = shells.values()
    config = ada.folder / ".periplus" / "config.toml"
    config.write_text(config.read_text().replace("[journal]", "[journal]\nsegment_bytes = 1500"))
    for number in range(9):
        ada("remember", f"Ada's widget has number {number}", "--type", "note")
    ids = [record.id for record in ada.json("log").records if record.id.startswith("not_")]
    assert len(ids) == 9
    bob("sync", "--with", "../ada")
    [lineage] = (path.name for path in (ada.folder / ".periplus" / "journal").glob("lin_*"))
    sorted((bob.folder / ".periplus" / "journal" / lineage).glob("*.jsonl"))[-2].unlink()
    for _ in range(2):
        assert "the header is written anew" not in bob("doctor", "--repair", code=3).out
        assert all("Ada's widget has number" in bob("show", one).out for one in ids)
    bob("remember", "Bob goes on", "--type", "note")
    bob("doctor", "--repair", "--from", os.fspath(ada.folder))
    bob("doctor")


@pytest.mark.slow
def test_a_checkpoint_that_is_whole_is_kept_where_records_before_it_are_missing(tmp_path):
    """It was called damaged, and to be removed: what only it said was lost then."""
    ada = shared_project(tmp_path)["ada"]
    config = ada.folder / ".periplus" / "config.toml"
    config.write_text(config.read_text().replace("[journal]", "[journal]\nsegment_bytes = 1500"))
    for number in range(9):
        ada("remember", f"A widget has number {number}", "--type", "note")
    ids = [record.id for record in ada.json("log").records if record.id.startswith("not_")]
    ada("doctor", "--compact")
    ada("remember", "It goes on", "--type", "note")
    live = sorted(ada.folder.glob(".periplus/journal/lin_*/*.jsonl"))
    announced = next(path for path in live if b'"action":"checkpoint"' in path.read_bytes())
    live[live.index(announced) - 1].unlink()
    remove_index(ada.folder / ".periplus")
    said = ada("doctor", code=3).out
    assert "is intact and cannot be used" in said
    assert "Remove it" not in said
    ada("doctor", "--repair")
    assert all("A widget has number" in ada("show", one).out for one in ids)
    ada("doctor")


@pytest.mark.parametrize("who", ["ada", "bob"])
def test_a_sync_that_finds_a_hole_names_who_has_it(tmp_path, who):
    """It was the side that is whole that was to be looked at."""
    shells = shared_project(tmp_path, "bob")
    ada, bob = shells.values()
    config = ada.folder / ".periplus" / "config.toml"
    config.write_text(config.read_text().replace("[journal]", "[journal]\nsegment_bytes = 1500"))
    for number in range(9):
        ada("remember", f"A widget has number {number}", "--type", "note")
    bob("sync", "--with", "../ada")
    [lineage] = (path.name for path in (ada.folder / ".periplus" / "journal").glob("lin_*"))
    sorted((bob.folder / ".periplus" / "journal" / lineage).glob("*.jsonl"))[1].unlink()
    shell, other = {"ada": (ada, "../bob"), "bob": (bob, "../ada")}[who]
    said = shell("sync", "--with", other, code=3).out
    assert "is missing, and" in said
    assert f"doctor --repair --from {ada.folder}" in said
    assert "where it came from" not in said
    bob("doctor", "--repair", "--from", os.fspath(ada.folder))
    shell("sync", "--with", other)
    bob("doctor")


@pytest.mark.slow
def test_an_archive_that_is_copied_over_what_was_given_up(history):
    """After a checkpoint that was made without it: what doctor advises helps."""
    ada, one, texts, archive, away = history
    archive.rename(away)
    ada("doctor", "--repair", "--archive-lost")
    for text in ("orange", "green"):
        ada("set", one, f"text=The boiler is {text}")
        ada("doctor", "--compact")
    for path in away.iterdir():
        (archive / path.name).write_bytes(path.read_bytes())
    said = ada("doctor", code=1).out
    assert "move `journal/checkpoints/` away" in said
    remove_index(ada.folder / ".periplus")
    (ada.folder / ".periplus" / "journal" / "checkpoints").rename(ada.folder / "checkpoints")
    ada("doctor")
    assert "The boiler is green" in ada("show", one).out
    assert all(f'"text":"{text}"' in all_said(ada) for text in texts)


@pytest.mark.slow
@pytest.mark.parametrize("has_written", [False, True])
def test_a_copy_that_lacks_the_newest_records_says_so(history, has_written):
    ada, *_ = history
    copy = Shell(ada.folder.parent / "copy", ada.home)
    shutil.copytree(ada.folder, copy.folder)
    copy("doctor")
    live = sorted(copy.folder.glob(".periplus/journal/lin_*/*.jsonl"))
    live[-1].unlink()
    if has_written:
        copy("remember", "Written in the copy", "--type", "note")
    assert "the copy is incomplete" in copy("doctor", code=1).out
    copy("sync", "--with", "../ada")
    copy("doctor")


@pytest.mark.slow
def test_a_look_at_what_cannot_be_merged_spoils_nothing_else(unkept):
    """A process that had looked wrote nothing any more and forgot what only the archive has, also once that was back; a server does both."""
    ada, one, archive, away = unkept
    ada("sync", "--with", "../bob")
    archive.rename(away)
    with Project.open(os.fspath(ada.folder), ADA) as project:
        lessons = len(list(project.journal.entities("lesson")))
        assert len(project.show(one).heads) == 2
        assert "neither here nor in archive/" in str(project.journal.damage)
        project.remember(Memory("note", "What has nothing to do with it"))
        project.show(one)
        project.journal.project()
        assert "neither here nor in archive/" in str(project.journal.damage)
        assert len(list(project.journal.entities("lesson"))) == lessons
        with pytest.raises(DamageError):
            project.journal.mutate(
                lambda t: t.put("decision", one, {**t.get("decision", one).value, "text": "grey"}), ADA
            )
        project.remember(Memory("note", "Nor has this"))
        project.show(one)
        away.rename(archive)
        project.journal.refresh()
        assert project.journal.damage is None
        assert [conflict.path for conflict in project.show(one).conflicts] == [("text",)]
        project.remember(Memory("note", "Nor this"))
        assert len(list(project.journal.entities("lesson"))) == lessons
        assert len(list(project.journal.entities("note"))) == 3
    assert "sound" in ada("doctor").out
