"""``periplus redact`` as a person types it."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from cli_support import Shell, claude_session, git, make_repository

SECRET = "correct-horse-battery"


@pytest.fixture
def told(tmp_path):
    """A store with the secret in the present of one entity, and in a trail."""
    home, folder = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    folder.mkdir()
    shell = Shell(folder, home)
    shell("init")
    shell("remember", f"the staging login is {SECRET}", "--type", "trap", "--tag", "login")
    session = claude_session(folder / "run.jsonl", prompt=f"log in with {SECRET}", steps=3)
    shell("trail", "import", "run.jsonl")
    session.unlink()
    return shell


def test_a_secret_from_standard_input(told):
    done = told("redact", "--secret-file", "-", "--reason", "pasted by mistake", stdin=SECRET + "\n")
    assert "redacted" in done.out
    assert SECRET not in done.out
    shown = told("recall", "staging login").out
    assert "[redacted]" in shown
    assert SECRET not in shown
    assert "sound" in told("doctor").out
    told("trail", "verify", "trl_")
    for path in (told.folder / ".periplus").rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path


@pytest.mark.parametrize("has_written", [True, False])
def test_a_copy_takes_out_what_came_before_it(told, has_written):
    """The clone that it was copied from takes what the copy says, but keeps its own until it redacts itself."""
    original, told.folder = told.folder, told.folder.parent / "copy"
    shutil.copytree(original, told.folder)
    if has_written:
        told("remember", "written in the copy")
    else:
        dry = told("redact", "--secret-file", "-", "--reason", "why", "--dry-run", stdin=SECRET)
        assert dry.lines[0] == "2 records would be redacted"
        assert "copied from, if it still writes lineage lin_" in dry.out
    done = told("redact", "--secret-file", "-", "--reason", "pasted by mistake", stdin=SECRET)
    assert ", which is no longer written" in done.out
    assert "copied from, if it still writes lineage lin_" in done.out
    assert SECRET not in told("recall", "staging login").out
    assert "sound" in told("doctor").out
    for path in (told.folder / ".periplus").rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path
    told("sync", "--with", original)
    assert "[redacted]" in told("recall", "staging login", cwd=original).out
    taken = told("sync", "--with", told.folder, cwd=original)
    assert "2 records of this clone lost their content" in taken.out
    command = next(line.split() for line in taken.lines if line.split()[:2] == ["periplus", "redact"])
    command[command.index("TEXT")] = "here too"
    told(*command[1:], cwd=original)
    assert "lost" not in told("sync", "--with", told.folder, cwd=original).out
    for path in (original / ".periplus").rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path


def test_a_dry_run_says_what_would_go(told):
    (told.folder / "secret").write_text(SECRET)
    document = told.json("redact", "--secret-file", "secret", "--reason", "why", "--dry-run")
    assert document.dry_run is True
    assert len(document.records) == 2
    assert len(document.entities) == 2
    assert SECRET in told("recall", "staging login").out


@pytest.mark.parametrize(
    ("words", "stdin", "code", "wrong"),
    [
        (["--reason", "why"], "", 2, "name the secret with --secret-file, or records with --seq"),
        (["--secret-file", "-", "--reason", "why"], "", 2, "the text to redact is empty"),
        (["--secret-file", "-", "--reason", "why"], b"\xff\xfe", 2, "not UTF-8"),
        (["--secret-file", "absent", "--reason", "why"], "", 1, "there is no file"),
        (["--secret-file", "-", "--reason", ""], SECRET, 2, "a redaction needs a reason"),
        (["--secret-file", "-", "--reason", f"it was {SECRET}"], SECRET, 2, "repeats the secret"),
        (["--seq", "999", "--reason", "why"], "", 1, "there is no record 999"),
        (["--seq", "1", "--reason", "why"], "", 5, "is the present version of trap trp_"),
    ],
)
def test_what_cannot_be_redacted(told, words, stdin, code, wrong):
    before = told.json("log")
    told.fails("redact", *words, code=code, wrong=wrong, stdin=stdin)
    assert told.json("log") == before


def test_a_text_that_is_nowhere(told):
    before = told.json("log")
    done = told("redact", "--secret-file", "-", "--reason", "why", code=1, stdin="never written here")
    assert done.out == "0 records redacted: no record, object or entity contains it\n"
    assert told.json("log") == before


def test_a_dry_run_does_not_complain_of_files_that_would_be_rewritten(told):
    told("doctor", "--compact")
    done = told.json("redact", "--secret-file", "-", "--reason", "why", "--dry-run", stdin=SECRET)
    assert [one.where for one in done.not_reached] == ["the agent's own record of session 5e551011 (claude-code)"]


@pytest.mark.slow
def test_what_a_redaction_cannot_reach_is_told_with_how_to_purge_it(told, tmp_path):
    make_repository(told.folder)
    hub = tmp_path / "hub.git"
    git(tmp_path, "init", "-q", "--bare", "hub.git")
    told("sync", "--with", hub)
    found = told.json("redact", "--secret-file", "-", "--reason", "why", stdin=SECRET).not_reached
    assert len(found) == 4, found
    history, transcript, synced, remote = found
    assert transcript.where == "the agent's own record of session 5e551011 (claude-code)"
    assert history.where.startswith("git's history of .periplus/entities/trap/")
    assert "sync --with" in synced.next
    assert "gc --prune=now" in remote.next
    cache = remote.where.partition(",")[0]

    def holds(folder):
        command = ["git", "-C", folder, "cat-file", "--batch-all-objects", "--batch", "--buffer"]
        return SECRET.encode() in subprocess.run(command, check=True, capture_output=True).stdout

    assert (holds(hub), holds(cache)) == (True, True)
    told("sync", "--with", hub)  # as the advice says
    assert (holds(hub), holds(cache)) == (True, False)
    git(hub, "gc", "-q", "--prune=now")
    assert (holds(hub), holds(cache)) == (False, False)


def test_a_v1_folder_that_is_left_alone_is_told_with_the_files_that_hold_it(told, tmp_path):
    old = tmp_path / "old log"
    (old / "notes").mkdir(parents=True)
    for name, text in (("N-1", f"The login is {SECRET}"), ("N-2", "The cache lies")):
        note = {"id": name, "type": "note", "content": text}
        (old / "notes" / f"{name}.json").write_text(json.dumps(note))
    told("migrate", "--from", old, "--to", "dual", "--allow-secret")
    told("migrate", "--to", "off")
    found = told.json("redact", "--secret-file", "-", "--reason", "why", stdin=SECRET).not_reached
    (folder,) = [one for one in found if "v1 folder" in one.where]
    holders = sorted(str(path.relative_to(old)) for path in old.rglob("*.json") if SECRET in path.read_text())
    assert "notes/N-1.json" in holders
    assert folder.where == f"the v1 folder {old}, which is left alone while the migration is off: {', '.join(holders)}"
    assert f"grep -rlF -f FILE '{old}'" in folder.next
    for name in holders:
        (old / name).unlink()
    assert "v1 folder" not in told("redact", "--secret-file", "-", "--reason", "why", stdin=SECRET, code=1).out
