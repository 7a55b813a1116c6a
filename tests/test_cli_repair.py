"""``periplus doctor --repair`` as a person types it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil

import pytest

from cli_support import Shell, claude_session, fill, git, shared_project
from periplus.journal import Writer
from periplus.project import Project


@pytest.fixture
def shell(tmp_path):
    home, folder = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    folder.mkdir()
    shell = Shell(folder, home)
    fill(shell, *(f"note number {number} about the engine" for number in range(5)))
    return shell


def segment(shell):
    return next((shell.folder / ".periplus").glob("journal/lin_*/*.jsonl"))


def test_one_byte_is_mended(shell):
    path = segment(shell)
    good = path.read_bytes()
    path.write_bytes(good[:900] + b"#" + good[901:])
    assert "damage to acknowledged data" in shell("doctor", code=3).out
    done = shell("doctor", "--repair")
    assert "mended   one byte corrected by its checksum" in done.out
    assert "sound" in done.lines[-1]
    assert path.read_bytes() == good
    assert shell.json("doctor", "--repair").mended == []


def test_a_backup_brings_records_back(shell, tmp_path):
    shutil.copytree(shell.folder / ".periplus", tmp_path / "backup")
    path = segment(shell)
    good = path.read_bytes()
    path.write_bytes(good[:500])
    (shell.folder / ".periplus/index.sqlite").unlink()
    told = shell("doctor", "--repair", code=3).out
    assert "`periplus doctor --repair --from PATH`" in told
    assert "`periplus doctor --repair`" not in told  # which was just done
    assert "`periplus doctor --repair`" in shell("doctor", code=3).out
    document = shell.json("doctor", "--repair", "--from", tmp_path / "backup")
    assert document.sound
    assert len([one for one in document.mended if one.what == "restored from a copy"]) == 5
    assert path.read_bytes() == good


def test_records_in_a_row_and_files_alike_are_told_as_one(shell, tmp_path):
    shutil.copytree(shell.folder / ".periplus", tmp_path / "backup")
    path = segment(shell)
    path.write_bytes(path.read_bytes()[:500])
    (shell.folder / ".periplus/index.sqlite").unlink()
    done = shell("doctor", "--repair", "--from", tmp_path / "backup")
    at = done.lines.index("mended   restored from a copy")
    assert re.fullmatch(r" {9}journal/lin_\w+/000000000001\.jsonl, seq 1 to 5", done.lines[at + 1])
    assert done.out.count("restored from a copy") == 1
    for number in range(13):
        shell("remember", f"lesson number {number}", "--type", "lesson")
    shutil.rmtree(shell.folder / ".periplus/entities/lesson")
    out = shell("doctor", code=1)
    assert out.out.count("entities/lesson/les_") == 10
    assert out.lines[-2] == "warning  the entity's file is missing: 3 more of these (see --json)"
    assert len(shell.json("doctor", code=1).problems) == 13


@pytest.mark.parametrize("content", [None, b"[store\n", b'[store]\nid = "nonsense"\nformat = 2\n'])
def test_settings_that_are_gone(shell, content):
    path = shell.folder / ".periplus/config.toml"
    good = path.read_bytes()
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    shell("doctor", code=2)
    told = shell("doctor", "--repair").out
    assert "the settings are made anew" in told
    assert path.read_bytes() == good
    if content is not None:
        parked = re.search(r"; copy the other settings from (parked/\S+)", told)[1]
        assert (path.parent / parked).read_bytes() == content
    assert "note number 3" in shell("recall", "engine").out


def test_an_identity_that_cannot_be_read(shell):
    path = shell.folder / ".periplus/journal/lineage.json"
    path.write_bytes(b"{}")
    shell("remember", "cannot be written", "--type", "note", code=3)
    told = shell("doctor", "--repair", code=1).out
    assert "begins a new lineage" in told
    assert "Continue: nothing is lost." in told
    assert "--damaged" not in told
    shell("remember", "can be written", "--type", "note")
    found = shell("recall", "engine").out
    assert "note number 3" in found
    assert "sound" in shell("doctor").out


def test_a_cursor_that_cannot_be_read_is_begun_anew_as_doctor_says(shell):
    shell("log", "--reader", "me", "--limit", "1")
    (shell.folder / ".periplus/cursors/me.json").write_text('{"format":1')
    [problem] = shell.json("doctor", code=1).problems
    [command] = re.findall("`periplus (.*?)`", problem.next)
    shell(*command.split())
    assert shell.json("doctor").problems == []


def test_wrong_input(shell):
    shell.fails("doctor", "--from", ".", code=2, wrong="--from goes with --repair")
    shell.fails("doctor", "--repair", "--from", "absent", code=2, wrong="'absent' is neither a folder nor")


def test_broken_objects_are_parked_but_for_those_that_a_trail_names(shell, tmp_path):
    path = claude_session(tmp_path / "session.jsonl", steps=1)
    text = path.read_text().replace('"name": "Bash", "input": {"command": "make cog0"}',
                                    '"name": "Write", "input": {"file_path": "cog.py", "content": "COGS = 12\\n"}')  # fmt: skip
    path.write_text(text)
    shell("trail", "import", path)
    content = hashlib.sha256(b"COGS = 12\n").hexdigest()
    (kept,) = (shell.folder / ".periplus/objects" / content[:2]).glob(content[2:] + "*")
    stray = shell.folder / ".periplus/objects/ab" / f"{5:062}"
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(b"x")
    shell("doctor", code=1)
    shell("doctor", "--repair")
    assert not stray.exists()
    assert "verified" in shell("export", tmp_path / "store.zip").out
    stray.write_bytes(b"x")
    kept.write_bytes(b"y")
    shell("doctor", "--repair", code=3)
    assert kept.exists(), "the trail names it, and a copy may have it"
    assert not stray.exists()


def test_no_store_at_all(shell):
    shutil.rmtree(shell.folder / ".periplus")
    done = shell.fails("doctor", "--repair", code=2, wrong="no segment that names the store")
    assert "`periplus init`" in done.err
    assert not (shell.folder / ".periplus").exists()


def test_settings_that_nothing_else_names_the_store_of_are_to_be_mended(tmp_path):
    shell = Shell(tmp_path, tmp_path / "home")
    shell("init")
    config = tmp_path / ".periplus" / "config.toml"
    config.write_text(config.read_text() + "\n[journal]\n")
    done = shell.fails("doctor", "--repair", code=2, wrong="no segment that names the store")
    assert f"Mend {config}, or restore it" in done.err
    assert config.read_text().endswith("\n[journal]\n")


def test_what_an_import_kept_of_files_is_named_by_its_trail(shell, tmp_path):
    path = claude_session(tmp_path / "session.jsonl", steps=1)
    text = path.read_text().replace('"name": "Bash", "input": {"command": "make cog0"}',
                                    '"name": "Write", "input": {"file_path": "cog.py", "content": "COGS = 12\\n"}')  # fmt: skip
    path.write_text(text)
    shell("trail", "import", path)
    content = hashlib.sha256(b"COGS = 12\n").hexdigest()
    with Project.open(shell.folder, Writer.named("ada")) as project:
        assert project.journal.objects.get(bytes.fromhex(content)) == b"COGS = 12\n"
        stray = project.journal.objects.put(b"left behind").hex()
    said = shell("doctor").out
    assert content[2:] not in said
    assert said.count("an object that nothing names") == 1
    assert stray[2:] in said
    (kept,) = (shell.folder / ".periplus/objects" / content[:2]).glob(content[2:] + "*")
    kept.unlink()
    assert "missing" not in shell("doctor").out, "no trail needs it"


def test_a_repair_with_another_clone_takes_over_nothing_that_only_the_other_has_seen(tmp_path):
    """It was told of a lineage that it never had: "seen with 2 records, but only 0 are here"."""
    shells = shared_project(tmp_path, "bob", "carol")
    ada, bob, carol = shells.values()
    ada("remember", "The boiler is red", "--type", "decision")
    carol("remember", "The pump is green", "--type", "decision")
    bob("sync", "--with", "../ada")
    for number in range(2):
        carol("remember", f"The pump has number {number}", "--type", "decision")
        bob("sync", "--with", "../carol")
        ada("sync", "--with", "../bob") if number == 0 else None
    carol("sync", "--with", "origin")  # so there is a head that she remembers to have signed
    [path] = ada.folder.glob(f".periplus/journal/peers/{lineage_of(carol)}.json")
    path.write_bytes(path.read_bytes()[:-9])
    for other in (bob, carol):
        ada("doctor", "--repair", "--from", os.fspath(other.folder))
        ada("doctor")
    dan = shells["bob"].folder.parent / "dan"
    git(tmp_path, "clone", "-q", "-b", "main", tmp_path / "hub.git", "dan")
    shell = Shell(dan, tmp_path / "home")
    shell("remember", "The tank is blue", "--type", "decision")
    shell("doctor", "--repair", "--from", os.fspath(bob.folder))
    shell("doctor")
    assert len(list(dan.glob(".periplus/journal/lin_*"))) == 1
    assert len(list(dan.glob(".periplus/journal/keys/*.public"))) == 1
    shell("sync", "--with", "../bob")
    shell("doctor")


def lineage_of(shell):
    return json.loads((shell.folder / ".periplus/journal/lineage.json").read_text())["lineage"]


@pytest.mark.parametrize("changed", [lambda store: store[:-1], lambda store: store[:-1] + ("7" if store[-1] != "7" else "8")],
                         ids=["a character less", "another character"])  # fmt: skip
def test_an_identity_with_another_store_is_what_is_wrong_and_not_the_settings(shell, changed):
    shell("remember", "The tide turns twice a day", "--type", "note")
    path = shell.folder / ".periplus/journal/lineage.json"
    own = json.loads(path.read_text())
    config = (shell.folder / ".periplus/config.toml").read_bytes()
    path.write_text(path.read_text().replace(own["store"], changed(own["store"])))
    said = shell("doctor", code=3)
    assert "lineage.json" in said.out + said.err
    assert "init --join" not in said.out + said.err
    shell("doctor", "--repair", code=1)  # the next write begins a lineage
    assert (shell.folder / ".periplus/config.toml").read_bytes() == config
    assert len(shell.json("recall", "tide").hits) == 1
    shell("remember", "And goes on", "--type", "note")
    assert "sound" in shell("doctor").out


def test_a_log_without_knowing_who_writes_here_does_not_say_that_nobody_has(shell):
    (shell.folder / ".periplus/journal/lineage.json").write_text("garbage")
    said = shell("log")
    assert said.out == "The lineage of this clone is unknown. To list all records: periplus log --lineage all\n"
    assert len(shell("log", "--lineage", "all").out.splitlines()) == 5
    journal = shell("status", code=3).lines[1]
    assert journal == "journal  5 records; the lineage of this clone is unknown: periplus log --lineage all"
