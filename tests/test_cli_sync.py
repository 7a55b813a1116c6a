"""``sync`` and ``inbox`` as a person types them; the page about them is run."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from cli_support import SECRET, Shell, claude_session, git, shared_project
from periplus.journal import Writer
from periplus.project import Project
from support import item, settle

GUIDES = Path(__file__).resolve().parents[1] / "docs" / "guides"
PAGE = GUIDES / "sync.md"
PROBLEMS = GUIDES / "sync-problems.md"


@pytest.fixture
def people(tmp_path):
    """Ada's project in git with a remote, Bob's clone of it, and Eve's other project."""
    shells = shared_project(tmp_path, "bob")
    shells["eve"] = Shell(tmp_path / "eve", tmp_path / "home")
    (tmp_path / "eve").mkdir()
    shells["eve"]("init")
    return shells


def plain(text):
    text = re.sub(r"\b([a-z]{3})_[0-9a-z]{16}\b", r"\1_ID", text)
    text = re.sub(r"\b20\d\d-\d\d-\d\d\b", "DATE", text)
    return re.sub(r"\([\d,]+ bytes\)", "(SIZE)", text)


def run_blocks(text, people, tmp_path):
    """Run what a part of the page shows, and compare; gives how many commands that were."""
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    commands: list[tuple[str, str, list[str]]] = []
    for line in "".join(blocks).splitlines():
        found = re.fullmatch(r"(ada|bob|eve)\$ periplus (.*)", line)
        if found:
            commands.append((found[1], found[2], []))
        else:
            commands[-1][2].append(line)
    for who, words, shown in commands:
        done = people[who](*shlex.split(words))
        place = plain(
            done.out.replace(str(tmp_path / "stick"), "../stick").replace(str(tmp_path / "bob/.periplus"), "../bob")
        )
        assert sorted(place.splitlines()) == sorted(shown), words  # lineages are told in the order of their ids
        assert done.err == ""
    return len(commands)


def test_the_page_is_run(people, tmp_path):
    assert run_blocks(PAGE.read_text(), people, tmp_path) >= 11


def test_the_fork_of_the_page_is_settled(people, tmp_path):
    ada, bob = people["ada"], people["bob"]
    store, backup = ada.folder / ".periplus", tmp_path / "backup"
    for number in range(15):
        if number == 5:
            shutil.copytree(store, backup)
        if number == 9:
            bob("sync", "--with", "../ada")
            shutil.rmtree(store)
            shutil.copytree(backup, store)
            settle(str(store))
        ada("remember", f"Cog {number} has {number + 8} teeth", "--insist")
    refused = ada("sync", "--with", "../bob", code=5)
    assert "--rebase` takes theirs" in refused.out
    assert refused.out.count("has forked") == 1
    assert run_blocks(PROBLEMS.read_text(), people, tmp_path) == 2
    for shell in (ada, bob):
        assert len(shell.json("recall", "cog", "--limit", "20").hits) == 15
        assert shell.json("sync", "--with", "../bob" if shell is ada else "../ada").refused == []
        assert [one.severity for one in shell.json("doctor").problems if one.severity != "note"] == []
    (note,) = [one for one in ada.json("log", "--lineage", "all").records if one.action == "note"]
    assert "6 records behind record 5 gave way" in note.summary


def test_git_sees_nothing_of_it(people, tmp_path):
    ada, bob = people["ada"], people["bob"]
    ada("remember", "Ports start at 8000", "--type", "decision")
    bob("remember", "Never on Fridays", "--type", "constraint")
    before = {name: (git(tmp_path / name, "for-each-ref"), git(tmp_path / name, "status", "--porcelain"))
              for name in ("ada", "bob")}  # fmt: skip
    for who in (ada, bob, ada):
        who("sync", "--with", "origin", env={"GIT_DIR": "/nonexistent", "GIT_INDEX_FILE": "/nonexistent"})
    for name, (refs, status) in before.items():
        assert git(tmp_path / name, "for-each-ref") == refs
        new = set(git(tmp_path / name, "status", "--porcelain").splitlines()) - set(status.splitlines())
        assert all("entities/" in line or ".periplus/" in line for line in new)
    refs = git(tmp_path / "hub.git", "for-each-ref", "--format=%(refname)").split()
    assert [ref for ref in refs if not ref.startswith("refs/periplus/lin_")] == ["refs/heads/main"]
    assert len(refs) == 3
    assert [one.text for one in ada.json("recall", "fridays").hits] == ["Never on Fridays"]


def test_trails_go_along_with_their_texts(people, tmp_path):
    ada, bob = people["ada"], people["bob"]
    ada("trail", "import", claude_session(tmp_path / "session.jsonl", steps=5, prompt="Count the cogs " * 3000))
    ada("sync", "--with", "origin")
    done = bob.json("sync", "--with", "origin")
    (came,) = [one for one in done.transfers if one.records]
    assert (came.direction, came.records) == ("in", 1)
    assert came.objects >= 1
    (trail,) = bob.json("trail", "list").trails
    assert bob.json("trail", "verify", trail.id).trails[0].ok
    bob("doctor", code=0)


def writes(tmp_path, content):
    """A session in which a file is written twice: an import keeps both contents, as objects of their own."""
    path = claude_session(tmp_path / "session.jsonl", steps=2)
    text = path.read_text()
    for number, told in enumerate(content):
        call = f'"name": "Bash", "input": {{"command": "make cog{number}"}}'
        assert call in text
        written = json.dumps({"file_path": "cog.py", "content": told})
        text = text.replace(call, f'"name": "Write", "input": {written}')
    path.write_text(text)
    return path


@pytest.mark.parametrize("where", ["origin", "../stick"])
def test_what_an_import_kept_of_files_goes_along(people, tmp_path, where):
    contents = ["COGS = 12\n", "COGS = 13\n" * 2000]
    ada, bob = people["ada"], people["bob"]
    ada("trail", "import", writes(tmp_path, contents))
    digests = [hashlib.sha256(content.encode()).digest() for content in contents]
    ada("sync", "--with", where)
    (came,) = [one for one in bob.json("sync", "--with", where).transfers if one.records]
    assert (came.direction, came.objects_missing) == ("in", 0)
    with Project.open(bob.folder, Writer.named("bob")) as project:
        assert [project.journal.objects.get(one).decode() for one in digests] == contents
        assert project.examine().problems == []


@pytest.mark.parametrize("where", ["origin", "../stick"])
def test_what_nobody_kept_of_files_keeps_nothing_from_coming(people, tmp_path, where):
    """One content is gone at ada's, another is not what its name says: the trail comes, with what is sound, and nothing is missing."""
    contents = ["COGS = 12\n", "COGS = 13\n"]
    ada, bob = people["ada"], people["bob"]
    ada("trail", "import", writes(tmp_path, contents))
    gone, broken = (hashlib.sha256(content.encode()).digest() for content in contents)
    with Project.open(ada.folder, Writer.named("ada")) as project:
        objects = project.journal.objects
        os.unlink(objects.path_of(gone))
        with open(objects.path_of(broken), "wb") as file:
            file.write(b"another")
    ada("sync", "--with", where)
    (came,) = [one for one in bob.json("sync", "--with", where).transfers if one.records]
    assert (came.direction, came.objects, came.objects_missing) == ("in", 1, 0)
    with Project.open(bob.folder, Writer.named("bob")) as project:
        assert not any(map(project.journal.objects.has, (gone, broken)))
        assert project.examine().problems == []


def test_what_was_taken_out_of_files_does_not_come_back(people, tmp_path):
    contents = ["the cogs are zanzibar\n", "COGS = 13\n"]
    ada, bob = people["ada"], people["bob"]
    for who in (ada, bob):
        who("trail", "import", writes(tmp_path, contents))
    secret, other = (hashlib.sha256(content.encode()).digest() for content in contents)
    bob("redact", "--secret-file", "-", "--reason", "it slipped", stdin="zanzibar\n")
    with Project.open(bob.folder, Writer.named("bob")) as project:
        assert not project.journal.objects.has(secret)
        project.journal.objects.remove(other)
    ada("sync", "--with", "../stick")
    bob("sync", "--with", "../stick")
    with Project.open(bob.folder, Writer.named("bob")) as project:
        assert [project.journal.objects.has(one) for one in (secret, other)] == [False, True]


def test_json_dry_run_and_nothing_new(people, tmp_path):
    ada, bob = people["ada"], people["bob"]
    ada("remember", "Ports start at 8000", "--type", "decision")
    planned = ada.json("sync", "--with", "../stick", "--dry-run")
    assert planned.dry_run
    assert not (tmp_path / "stick").exists()
    done = ada.json("sync", "--with", "../stick")
    assert planned.transfers == done.transfers
    assert bob.json("sync", "--with", tmp_path / "stick").transfers[0].records == 1
    assert "Nothing new" in bob("sync", "--with", tmp_path / "stick").out


@pytest.mark.slow
def test_conflicts_are_named(people):
    ada, bob = people["ada"], people["bob"]
    ada("remember", "Ports start at 8000", "--type", "decision")
    item = ada.json("recall", "ports").hits[0].id
    for who in (ada, bob):
        who("sync", "--with", "origin")
    for who, state in ((ada, "rejected"), (bob, "deferred")):
        path = who.folder / ".periplus" / "entities" / "decision" / f"{item}.json"
        document = json.loads(path.read_text())
        document["entity"]["state"] = state
        path.write_text(json.dumps(document, indent=2))
        who("status")
    ada("sync", "--with", "origin")
    done = bob("sync", "--with", "origin")
    assert f"conflict  decision {item}" in done.out
    assert ada.json("sync", "--with", "origin").conflicts == [f"decision/{item}"]


@pytest.mark.slow
def test_of_very_many_conflicts_and_candidates_some_are_told_and_the_rest_counted(people):
    ada, bob, eve = people["ada"], people["bob"], people["eve"]

    def put(shell, ids, text):
        writer = Writer.named(text)
        with Project.open(str(shell.folder), writer) as project:
            value = {"v": 1, "author": "ada", "created": "2026-01-01T00:00:00.000Z", "updated": "2026-01-01T00:00:00.000Z",
                     "provenance": {"kind": "person", "name": "ada"}, "confidence": 100}  # fmt: skip
            project.journal.mutate(
                lambda t: [t.put("note", one, {**value, "text": f"{text} of {one}"}) for one in ids], writer
            )

    ids = [item(number, "not") for number in range(60)]
    put(ada, ids, "first")
    ada("sync", "--with", "origin")
    bob("sync", "--with", "origin")
    put(ada, ids[:23], "ada")
    put(bob, ids[:23], "bob")
    ada("sync", "--with", "origin")
    told = [line for line in bob("sync", "--with", "origin").lines if line.startswith("conflict")]
    assert told == [
        *(f"conflict  note {one}: periplus show {one}" for one in ids[:20]),
        "conflict  … and 3 more: periplus status --json names them",
    ]
    assert bob.json("status").conflicts == ids[:23]
    eve("sync", "--with", "../bob", "--candidates")
    listed = eve("inbox", "list").lines
    assert (len(listed), listed[100:]) == (102, [
        "… and 10 more: periplus inbox list --limit 60, or --json", "Next: periplus inbox accept ID, or refuse ID",
    ])  # fmt: skip
    assert (len(eve("inbox", "list", "--limit", "60").lines), len(eve.json("inbox", "list").candidates)) == (121, 60)
    assert eve.json("status").candidates == 60
    assert eve("status").lines[-1] == "memory   60 candidates to accept or refuse: periplus candidates list"


def test_a_fork_is_refused_with_code_5(people, tmp_path):
    from support import settle

    ada, bob = people["ada"], people["bob"]
    ada("remember", "Ports start at 8000")
    shutil.copytree(tmp_path / "ada", tmp_path / "twin")
    settle(os.fspath(tmp_path / "twin" / ".periplus"))
    twin = Shell(tmp_path / "twin", tmp_path / "home")
    ada("remember", "The owner goes on")
    twin("remember", "The twin goes on")
    ada("sync", "--with", "origin")
    bob("sync", "--with", "origin")
    done = twin("sync", "--with", "origin", code=5)
    assert "has forked: record 2 is" in done.out
    document = twin.json("sync", "--with", "origin", code=5)
    assert [one.error for one in document.refused] == ["fork"]
    assert [one.text for one in bob.json("recall", "goes on").hits] == ["The owner goes on"]


@pytest.mark.parametrize(
    ("where", "code", "wrong"),
    [
        ("orgin", 2, "not a folder, remote or URL"),
        ("", 2, "is not a folder or git remote"),
        ("--upload-pack=touch x", 2, "is not a folder or git remote"),
        ("../nowhere/stick", 2, "there is no folder"),
        ("file:///nonexistent.git", 3, "git cannot reach"),
        ("ext::sh -c touch% x", 3, "git cannot reach"),
        ("../home", 2, "neither a store nor an exchange folder"),
        (".", 2, "this very store"),
        ("../eve", 5, "another project"),
    ],
)
def test_what_is_no_place_is_one_clear_error(people, tmp_path, where, code, wrong):
    (tmp_path / "home" / "letter.txt").write_text("")
    people["ada"].fails("sync", "--with", where, code=code, wrong=wrong)
    assert not list(tmp_path.rglob("x"))


def test_who_names_a_new_folder_without_a_path_is_told_how(people):
    ada = people["ada"]
    ada("remember", "Ports start at 8000")
    told = ada.fails("sync", "--with", "my stick", code=2, wrong="not a folder, remote or URL").err
    command = re.search(r"periplus (sync .*)$", told, re.MULTILINE)[1]
    assert "/my stick (" in ada(*shlex.split(command)).out
    assert list((ada.folder / "my stick").iterdir())


@pytest.mark.parametrize("where", ["../bob", "../bob/.periplus"])
def test_a_clone_whose_settings_git_took_is_no_git_remote(people, tmp_path, where):
    ada, bob = people["ada"], people["bob"]
    ada("remember", "Ports start at 8000")
    bob("remember", "Never on Fridays")
    git(bob.folder, "checkout", "-q", "HEAD~1")
    assert not (bob.folder / ".periplus" / "config.toml").exists()
    ada.fails("sync", "--with", where, code=2, wrong="has a journal, but its config.toml is gone")
    assert "refs/periplus" not in git(bob.folder, "for-each-ref")
    git(bob.folder, "checkout", "-q", "main")
    ada("sync", "--with", "../bob")
    assert bob.json("recall", "ports").hits


def test_a_remote_whose_folder_is_gone_is_told_with_where_it_leads(people, tmp_path):
    """A disk that is not mounted; it was said that there is no such remote."""
    git(people["ada"].folder, "remote", "add", "stick", os.fspath(tmp_path / "unmounted"))
    people["ada"].fails(
        "sync", "--with", "stick", code=2, wrong=f"points to {tmp_path / 'unmounted'}, which is not a folder"
    )


def test_without_git_it_is_said(people, tmp_path):
    people["ada"].fails("sync", "--with", "../hub.git", code=3, wrong="git is not installed",
                        env={"PATH": os.fspath(tmp_path)})  # fmt: skip


def test_without_git_an_exchange_folder_is_made_where_a_path_can_be_nothing_else(people, tmp_path):
    ada, without = people["ada"], {"PATH": os.fspath(tmp_path)}
    ada("remember", "Ports start at 8000")
    for number, place in enumerate(["../new", "./new", os.fspath(tmp_path / "newer")]):
        ada("sync", "--with", place, env=without)
        assert (ada.folder / place / "exchange.json").exists(), number
    for place in ("other", "team/new", "git@host:new", "https://host/new"):  # each may be a remote
        ada.fails("sync", "--with", place, code=3, wrong="git is not installed", env=without)


def test_a_remote_that_refuses_the_push_is_told(people, tmp_path):
    hook = tmp_path / "hub.git" / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho no such refs here >&2\nexit 1\n")
    hook.chmod(0o755)
    people["ada"]("remember", "Ports start at 8000")
    done = people["ada"]("sync", "--with", "origin", code=3)
    assert "rejected the push" in done.out
    assert "refs/periplus" not in git(tmp_path / "hub.git", "for-each-ref")


# -- other projects --------------------------------------------------------------------------------------------------


@pytest.fixture
def eve(people):
    ada = people["ada"]
    (ada.folder / "auth.py").write_text("argon2\n")
    ada("remember", "Ports start at 8000", "--type", "decision", "--about", "auth.py", "--rationale", "by hand")
    ada("remember", "Never on Fridays", "--type", "constraint")
    return people["eve"]


@pytest.mark.parametrize("place", ["../stick", "origin"])
def test_what_a_restored_store_holds_of_before_goes_on_to_others(people, tmp_path, place):
    ada, bob = people["ada"], people["bob"]
    for number in range(3):
        ada("remember", f"Port {number} is taken", "--type", "note")
    ada("export", "../ada.zip")
    shutil.rmtree(ada.folder / ".periplus/journal")  # the disk of Ada's machine is gone, and her key with it
    ada("import", "../ada.zip", "../restored")
    restored = Shell(tmp_path / "restored", ada.home)
    git(tmp_path / "restored", "init", "-q")
    git(tmp_path / "restored", "remote", "add", "origin", "../hub.git")
    restored("remember", "Port 9 is free", "--type", "note")
    gone = restored.json("sync", "--with", place).transfers
    assert sorted(one.records for one in gone if one.direction == "out") == [1, 3]
    assert sorted(one.records for one in bob.json("sync", "--with", place).transfers if one.direction == "in") == [1, 3]
    assert len(bob.json("recall", "port").hits) == 4
    assert "Nothing new" in restored("sync", "--with", place).out
    assert bob.json("doctor").problems == restored.json("doctor").problems == []


def test_records_of_another_project_are_not_missed_here(eve, people, tmp_path):
    people["ada"]("sync", "--with", "../stick")  # what lies there is signed, so that its head is remembered
    assert len(eve.json("sync", "--with", "../stick", "--candidates").candidates) == 2
    assert list((tmp_path / "eve/.periplus/journal/peers").iterdir())
    assert eve.json("doctor").problems == []
    assert eve.json("export", "left.zip", "--damaged").missing == []
    eve("export", "whole.zip")


def test_candidates_wait_and_are_found_by_nobody(eve):
    first = eve.json("sync", "--with", "../ada", "--candidates", "--dry-run")
    assert len(first.candidates) == 2
    eve("inbox", "list", code=1)
    assert eve.json("sync", "--with", "../ada", "--candidates").candidates == first.candidates
    assert eve.json("sync", "--with", "../ada", "--candidates").candidates == []
    waiting = eve.json("inbox", "list").candidates
    assert [one.text for one in waiting] == sorted(["Never on Fridays", "Ports start at 8000"]) or len(waiting) == 2
    assert eve.json("recall", "ports", code=1).hits == []
    assert "Fridays" not in eve("brief", "what about ports and fridays").out
    assert not list((eve.folder / ".periplus" / "entities").rglob("*.json"))
    eve("doctor")


def test_accepting_makes_it_ours_and_says_where_it_came_from(eve, people):
    eve("sync", "--with", "../ada", "--candidates")
    mine = next(one for one in eve.json("inbox", "list").candidates if one.type == "decision")
    done = eve.json("inbox", "accept", mine.id)
    assert (done.state, done.type, done.new) == ("accepted", "decision", True)
    assert done.id != mine.source_id
    value = eve.json("show", done.id).entity.value
    assert value["text"] == "Ports start at 8000"
    assert value["rationale"] == "by hand"
    assert value["provenance"] == {
        "kind": "other_project",
        "name": mine.store,
        "source": f"{mine.lineage} {mine.source_id}",
    }
    assert value["about"] == [{"kind": "path", "ref": "auth.py"}]
    assert [one.text for one in eve.json("recall", "ports").hits] == ["Ports start at 8000"]
    eve.fails("inbox", "accept", mine.id, code=5, wrong="accepted already")
    assert [one.accepted_as for one in eve.json("inbox", "list", "--all").candidates if one.id == mine.id] == [done.id]


def test_refusing_puts_it_away_until_it_says_something_else(eve, people):
    eve("sync", "--with", "../ada", "--candidates")
    mine = next(one for one in eve.json("inbox", "list").candidates if one.type == "decision")
    assert eve.json("inbox", "refuse", mine.id).state == "rejected"
    assert eve.json("sync", "--with", "../ada", "--candidates").candidates == []
    people["ada"]("remember", "Ports start at 9000", "--type", "decision", "--supersedes", mine.source_id)
    again = eve.json("sync", "--with", "../ada", "--candidates").candidates
    assert mine.id in again
    assert len(again) == 2


def test_what_we_know_already_is_not_written_twice(eve):
    held = eve.json("remember", "Ports  start at 8000", "--type", "decision").entity.id
    eve("sync", "--with", "../ada", "--candidates")
    mine = next(one for one in eve.json("inbox", "list").candidates if one.type == "decision")
    done = eve.json("inbox", "accept", mine.id)
    assert (done.id, done.new) == (held, False)


def test_a_secret_of_another_project_is_skipped_and_not_stored(eve, people):
    people["ada"]("remember", f"The key is {SECRET}", "--type", "note", "--allow-secret")
    done = eve.json("sync", "--with", "../ada", "--candidates")
    assert len(done.candidates) == 2
    assert [one.type for one in done.skipped] == ["note"]
    stored = b"".join(path.read_bytes() for path in (eve.folder / ".periplus").rglob("*") if path.is_file())
    assert SECRET.encode() not in stored


def test_mail_of_another_project_to_who_writes_here_waits_to_be_accepted(eve, people):
    ada = people["ada"]
    eve("remember", "Kites are red", "--as", "eve")
    sent = (
        ada.json("inbox", "send", "eve", "The port of the shop is 8000", "--needs-answer", "--as", "bo").messages[0].id
    )
    ada("inbox", "send", "carol", "Of nobody's concern here", "--as", "bo")
    ada("inbox", "send", "eve", f"The key is {SECRET}", "--as", "bo", "--insist")
    done = eve.json("sync", "--with", "../ada", "--candidates")
    assert [(one.type, SECRET in one.reason) for one in done.skipped] == [("message", False)]
    mine = next(one for one in eve.json("inbox", "list").candidates if one.type == "message")
    assert (mine.source_id, mine.sender, mine.recipient, mine.state) == (sent, "bo", "eve", "pending")
    assert len(eve.json("inbox", "list").candidates) == 3
    assert f"{mine.id}  message of {mine.store}, from bo to eve" in eve("inbox", "list").lines
    assert f"{mine.id}  message, pending, of {mine.store}, from bo to eve" in eve("candidates", "show", mine.id).lines
    assert eve.json("inbox", "mail", "--as", "eve", code=1).messages == []  # nobody accepted it
    assert "8000" not in eve("brief", "anything", "--as", "eve").out
    eve.fails("candidates", "accept", mine.id, "--type", "note", code=2, wrong="a message is accepted unchanged")
    done = eve.json("inbox", "accept", mine.id)
    assert (done.type, done.new) == ("message", True)
    (message,) = eve.json("inbox", "mail", "--as", "eve").messages
    assert message.id == done.id != sent
    assert "The port of the shop is 8000" in eve("brief", "anything", "--as", "eve").out
    value = eve.json("show", done.id).entity.value
    assert (value["sender"], value["needs_answer"], value["thread"]) == (f"bo@{mine.store}", False, done.id)
    eve.fails("inbox", "answer", done.id, "Thanks", "--as", "eve", code=2, wrong="came from another project")
    eve("inbox", "read", done.id, "--as", "eve")
    assert eve.json("sync", "--with", "../ada", "--candidates").candidates == []
    eve.fails("inbox", "accept", mine.id, code=5, wrong="accepted already")


def test_mail_of_another_project_that_was_read_or_refused_is_not_offered(eve, people):
    ada = people["ada"]
    eve("remember", "Kites are red", "--as", "eve")
    sent = ada.json("inbox", "send", "eve", "The port of the shop is 8000", "--as", "bo").messages[0].id
    ada("inbox", "read", sent, "--as", "eve")
    assert len(eve.json("sync", "--with", "../ada", "--candidates").candidates) == 2
    ada("inbox", "send", "eve", "Ports are closed on Fridays", "--as", "bo")
    eve("sync", "--with", "../ada", "--candidates")
    mine = next(one for one in eve.json("inbox", "list").candidates if one.type == "message")
    assert eve.json("inbox", "refuse", mine.id).state == "rejected"
    assert eve.json("sync", "--with", "../ada", "--candidates").candidates == []
    assert eve.json("inbox", "mail", "--as", "eve", code=1).messages == []


def test_what_is_no_candidate_is_one_clear_error(eve):
    held = eve.json("remember", "Ours").entity.id
    eve.fails("inbox", "accept", held, code=2, wrong="not a candidate")
    eve.fails("inbox", "refuse", "cnd_0000", code=1, wrong="nothing has an id")


def test_log_and_status_of_a_clone_that_has_written_nothing(people, tmp_path):
    people["ada"]("remember", "Known to the first clone")
    people["ada"]("export", tmp_path / "store.zip")
    (tmp_path / "cleo").mkdir()
    cleo = Shell(tmp_path / "cleo", tmp_path / "home")
    cleo("import", tmp_path / "store.zip")
    assert "Records of others: periplus log --lineage all" in cleo("log").out
    assert "Known to the first clone" in cleo("log", "--lineage", "all").out
    assert "         and 1 record of 1 other clone: periplus log --lineage all" in cleo("status").lines


@pytest.mark.slow
@pytest.mark.parametrize("damage", [b"", b"no key\n"], ids=["gone", "damaged"])
def test_a_private_key_that_nobody_has_any_more_ends_its_lineage_and_nothing_else(people, damage):
    ada, bob = people["ada"], people["bob"]
    ada("remember", "Ports start at 8000")
    ada("sync", "--with", "origin")
    ada("remember", "Ports end at 9000")
    (key,) = (ada.folder / ".periplus/journal/keys").glob("*.private")
    key.unlink()
    if damage:
        key.write_bytes(damage)
    assert "journal/keys/" in ada("sync", "--with", "origin", code=3 if damage else 1).out
    mended = ada("doctor", "--repair").out
    assert f"{key.stem} can no longer be signed" in mended
    assert [one.severity for one in ada.json("doctor").problems] == ["note"]
    ada("remember", "Ports are odd")
    done = ada.json("sync", "--with", "origin")
    assert [(one.lineage, one.records) for one in done.unsigned] == [(key.stem, 1)]
    assert f"1 record of {key.stem} stays here" in ada("sync", "--with", "origin", "--dry-run").out
    bob("sync", "--with", "origin")
    assert len(bob.json("recall", "ports").hits) == 2
    bob("sync", "--with", "../ada")
    assert len(bob.json("recall", "ports").hits) == 3
    assert ada("head").out.split(":")[0] == "1"


@pytest.mark.slow
@pytest.mark.parametrize("damage", [b"", b"{}", b"nonsense"])
def test_a_head_of_another_that_is_damaged_is_parked_and_the_next_sync_brings_it(people, damage):
    """No repair did anything about it without a folder that has one, and no sync took anything from anywhere."""
    ada, bob = people["ada"], people["bob"]
    for shell in (ada, bob, ada):
        shell("remember", f"Said at {shell.folder.name}", "--type", "note")
        shell("sync", "--with", "origin")
    (head,) = ada.folder.glob(".periplus/journal/lin_*/head.json")
    good = head.read_bytes()
    head.write_bytes(damage)
    assert "not a signed head" in ada("doctor", code=1).out
    assert "the next sync brings it" in ada("doctor", "--repair").out
    bob("remember", "Said later", "--type", "note")
    bob("sync", "--with", "origin")
    ada("sync", "--with", "origin")
    assert json.loads(head.read_bytes())["key"] == json.loads(good)["key"]
    assert "Said later" in ada("recall", "said later").out
    ada("doctor")


@pytest.mark.parametrize("name", ["head.json", "000000000001.jsonl", "exchange.json"])
def test_damage_in_an_exchange_folder_is_told_with_what_mends_it(people, tmp_path, name):
    """Our own doctor was named, which found nothing, or another's, where nobody can run one; for the head, our own store."""
    ada, bob = people["ada"], people["bob"]
    ada("remember", "Said by Ada", "--type", "note")
    ada("sync", "--with", "../stick")
    (folder,) = (tmp_path / "stick" / "journal").glob("lin_*")
    damaged = tmp_path / "stick" / name if name == "exchange.json" else folder / name
    damaged.write_bytes(b"")
    if name.endswith(".jsonl"):
        (held,) = ada.folder.glob(f".periplus/journal/lin_*/{name}")
        damaged.write_bytes(held.read_bytes().replace(b"Said", b"Sung"))
    for shell in (
        (bob,) if name.endswith(".jsonl") else (bob, ada)
    ):  # whoever has the first record that is damaged, mends it
        done = shell("sync", "--with", "../stick", code=3)
        said = done.out + done.err
        assert f"{tmp_path}/stick" in said
        assert name in said
        assert "doctor" not in said
        assert str(shell.folder) not in said
    if name == "exchange.json":
        assert "remove that file" in said
        damaged.unlink()
    else:
        assert f"remove {folder}" in said
        shutil.rmtree(folder)
    for shell in (ada, bob):
        shell("sync", "--with", "../stick")
    assert "Said by Ada" in bob("recall", "said by Ada").out


def test_what_was_remembered_of_a_lineage_is_begun_anew_with_its_key(people):
    ada, bob = people["ada"], people["bob"]
    ada("remember", "Ports start at 8000")
    ada("sync", "--with", "origin")
    bob("sync", "--with", "origin")
    (peer,) = (bob.folder / ".periplus/journal/peers").glob("*.json")
    held = json.loads(peer.read_text())
    peer.write_bytes(b"{")
    bob("sync", "--with", "origin", code=3)
    assert "its key was found elsewhere and is kept" in bob("doctor", "--repair").out
    assert bob.json("doctor").problems == []
    now = json.loads(peer.read_text())
    assert (now["key"], now["seen"]) == (held["key"], None)
    ada("remember", "Ports end at 9000")
    ada("sync", "--with", "origin")
    bob("sync", "--with", "origin")
    assert len(bob.json("recall", "ports").hits) == 2


def test_the_secret_of_trails_is_made_anew_where_nobody_has_it(people, tmp_path):
    ada = people["ada"]
    ada("remember", "Ports start at 8000")
    (ada.folder / ".periplus/journal/keys/trail").unlink()
    session = claude_session(tmp_path / "session.jsonl", steps=5)
    assert "doctor" in ada("trail", "import", session, code=1).err
    assert "is made anew" in ada("doctor", "--repair").out
    assert ada.json("doctor").problems == []
    ada("trail", "import", session)


@pytest.mark.slow
def test_syncs_with_a_git_remote_at_once_take_turns(people):
    ada, bob = people["ada"], people["bob"]
    running = []
    for number in range(6):
        ada("remember", f"note {number} of the tide", "--type", "note")
        running.append(ada.start("sync", "--with", "origin", stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
    for one in running:
        said, _ = one.communicate(timeout=120)
        assert one.returncode == 0, said.decode()
    bob("sync", "--with", "origin")
    assert len(bob.json("recall", "tide").hits) == 6
    assert "sound" in ada("doctor").out


@pytest.mark.parametrize("where", ["{file}", "./{file}", "{file}/sub", "/dev/null", "/dev/null/sub/below"])
def test_what_is_no_folder_is_no_place_to_sync_with(tmp_path, where):
    shell = Shell(tmp_path, tmp_path)
    shell("init")
    (tmp_path / "plain").write_text("here")
    shell.fails("sync", "--with", where.format(file="plain"), code=2, wrong="is a file, not a folder")
    assert (tmp_path / "plain").read_text() == "here"
