"""What ``redact`` took out does not come back: by no sync, repair, import, copy or remote that still has it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from cli_support import Shell, claude_session, git, shared_project
from periplus.base.files import Files
from periplus.journal import Writer
from periplus.journal.care.doctor import examine
from periplus.journal.care.redaction import redact as journal_redact
from periplus.journal.care.repair import repair
from periplus.journal.carriers import open_folder
from periplus.journal.exchange.sync import sync
from periplus.journal.recovery.removed_content import taken_out
from periplus.project import Project
from periplus.trail import verify
from support import WRITER, item, make_store, open_journal

SECRET = "zanzibar-horse-battery"
PROMPT = "Count the cogs of the engine. " * 200 + SECRET  # an object of its own, and nothing of it in the title
CONTENTS = (f"login = {SECRET!r}\n", "COGS = 13\n")
KEPT = f"Cogs are counted by hand, never {SECRET}. " * 3000  # a payload over what a line holds


@pytest.fixture
def people(tmp_path):
    """Three clones of one project, with a git remote."""
    return shared_project(tmp_path, "bob", "cleo")


def session(tmp_path, *, prompt=PROMPT, contents=CONTENTS, steps=2):
    """A session with a long prompt, in which a file is written for each of ``contents``."""
    path = claude_session(tmp_path / "session.jsonl", prompt=prompt, steps=steps)
    text = path.read_text()
    for number, content in enumerate(contents):
        call = f'"name": "Bash", "input": {{"command": "make cog{number}"}}'
        assert call in text
        written = json.dumps({"file_path": "cog.py", "content": content})
        text = text.replace(call, f'"name": "Write", "input": {written}')
    path.write_text(text)
    return path


def redact(shell, text=SECRET):
    return shell.json("redact", "--secret-file", "-", "--reason", "it slipped", stdin=text)


def opened(shell):
    return Project.open(os.fspath(shell.folder), Writer.named("reader"))


def objects_with(shell, text=SECRET):
    with opened(shell) as project:
        objects = project.journal.objects
        return [digest for digest in objects.digests() if text.encode() in objects.get(digest)]


def files_with(folder, text=SECRET):
    """Plain files below ``folder`` that hold the text; objects may be packed, and are for ``objects_with``."""
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def problems(shell):
    with opened(shell) as project:
        return [one.what for one in project.examine().problems if one.severity != "note"]


# -- sync ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("where", ["origin", "../stick", "../ada"])
def test_a_new_record_of_another_clone_does_not_bring_it_back(people, tmp_path, where):
    ada, bob = people["ada"], people["bob"]
    for who in (ada, bob):
        who("trail", "import", session(tmp_path))
    assert len(objects_with(bob)) == 2
    assert len(redact(bob).objects) == 2
    if where != "../ada":
        ada("sync", "--with", where)
    done = bob("sync", "--with", where)
    assert "2 left out that were redacted" in done.out
    assert objects_with(bob) == []
    assert problems(bob) == []
    for trail in bob.json("trail", "list").trails:
        assert bob.json("trail", "verify", trail.id).trails[0].ok


@pytest.mark.slow
def test_a_trail_whose_texts_were_redacted_elsewhere_verifies(people, tmp_path):
    """Bob's word of the trail stands beside Ada's, whose texts are not there: that they were redacted is told, and no error."""
    ada, bob = people["ada"], people["bob"]
    for who in (ada, bob):
        who("trail", "import", session(tmp_path))
    redact(bob)
    bob("sync", "--with", "../stick")
    ada("sync", "--with", "../stick")
    assert objects_with(ada) == []
    with opened(ada) as project:
        objects = project.journal.objects
        (trail,) = project.trails()
        heads = [json.loads(head.payload) for head in project.journal.heads_of("trail", trail.item_id)]
        assert len(heads) == 2
        gone = taken_out(project.journal)
        reports = [
            (verify(data, store=objects).ok, verify(data, store=objects, is_redacted=gone.__contains__))
            for head in heads
            for data in [objects.get(bytes.fromhex(head["object"]))]
        ]
    assert sorted(ok for ok, _ in reports) == [False, True]
    assert all(report.ok for _, report in reports)
    assert sum("1 text redacted" in check.detail for _, report in reports for check in report.checks) == 1
    assert problems(ada) == []


@pytest.mark.parametrize("where", ["origin", "../stick", "../ada"])
def test_it_leaves_the_copies_though_no_record_was_emptied(people, tmp_path, where):
    """The secret stands in objects only: the records stay as they are, and the audit record is what tells the others."""
    ada, bob = people["ada"], people["bob"]
    bob("trail", "import", session(tmp_path))
    for who in (bob, ada, bob):
        if (who, where) != (ada, "../ada"):
            who("sync", "--with", where)
    assert len(objects_with(ada)) == 2
    done = redact(bob)
    assert (len(done.records), len(done.objects)) == (0, 2)
    for who in (bob, ada):
        if (who, where) != (ada, "../ada"):
            who("sync", "--with", where)
    assert objects_with(ada) == []
    assert problems(ada) == []
    stick = tmp_path / "stick" / "objects"
    assert not any((stick / one[:2]).exists() and list((stick / one[:2]).glob(f"{one[2:]}*")) for one in done.objects)
    if where == "origin":
        git(tmp_path / "hub.git", "gc", "-q", "--prune=now")
        command = ["git", "-C", tmp_path / "hub.git", "cat-file", "--batch-all-objects", "--batch", "--buffer"]
        assert SECRET.encode() not in subprocess.run(command, check=True, capture_output=True).stdout


@pytest.mark.slow
@pytest.mark.parametrize("order", [("ada", "bob", "ada"), ("bob", "ada", "bob")])
def test_a_card_that_one_redacted_and_another_imported_anew_is_of_one_of_them(people, tmp_path, order):
    """Merged field by field it was a mixture: the digest of the trail that grew, the object of the one that was redacted."""
    ada, bob = people["ada"], people["bob"]
    bob("trail", "import", session(tmp_path))
    for who in (bob, ada, bob):
        who("sync", "--with", "../stick")
    redact(bob)
    ada("trail", "import", session(tmp_path, contents=(*CONTENTS, "COGS = 14\n"), steps=3))
    for name in (*order, *order):
        people[name]("sync", "--with", "../stick")
    shown = []
    for who in (ada, bob):
        with opened(who) as project:
            (card,) = project.trails()
            heads = [json.loads(head.payload) for head in project.journal.heads_of("trail", card.item_id)]
            told = ("digest", "object", "bytes", "counts", "source_sha256")
            assert len(heads) == 2
            assert [card.value[name] for name in told] in [[head[name] for name in told] for head in heads]
            assert {"digest", "object", "bytes"} <= set(card.conflict_names)
            shown.append(card)
        assert not [one for one in problems(who) if "digest" in one]
        assert "`periplus trail import` of its session ends it" in who("show", card.item_id).out
    assert shown[0] == shown[1]
    bob("trail", "import", session(tmp_path, contents=(*CONTENTS, "COGS = 14\n"), steps=3))
    with opened(bob) as project:
        (card,) = project.trails()
        assert (card.is_in_conflict, len(card.heads)) == (False, 1)
    assert objects_with(bob) == []


def test_the_trail_of_a_replay_does_not_bring_it_back(people, tmp_path):
    bob = people["bob"]
    bob("trail", "import", session(tmp_path))
    with opened(bob) as project:
        (card,) = project.trails()
        before = tmp_path / "before.trail"
        before.write_bytes(project.journal.objects.get(bytes.fromhex(card.value["object"])))
    redact(bob)
    said = bob.json("trail", "replay", before, "--world", "memory", "--keep")
    assert (bool(said.kept), said.withheld) == (True, 1)
    assert (
        "1 text was left out because of a redaction"
        in bob("trail", "replay", before, "--world", "memory", "--keep").out
    )
    assert objects_with(bob) == []
    assert bob.json("trail", "verify", said.kept).trails[0].ok
    assert problems(bob) == []


def audit_of(journal):
    with open_journal(journal) as found:
        return set(taken_out(found))


@pytest.fixture
def stores(tmp_path):
    """The roots of three stores of one project."""
    first = make_store(tmp_path / "ada")
    return {"ada": first, **{name: clone(first, tmp_path / name) for name in ("bob", "cleo")}}


def clone(root, folder):
    path = folder / ".periplus"
    path.mkdir(parents=True)
    (path / "config.toml").write_bytes(Path(root, "config.toml").read_bytes())
    return os.fspath(path)


def said(root, text, number=1):
    with open_journal(root) as journal:
        journal.mutate(lambda transaction: transaction.put("decision", item(number), {"text": text}), WRITER)


def emptied(root, **how):
    with open_journal(root) as journal:
        return journal_redact(journal, WRITER, reason="it slipped", **how)


def exchanged(root, other):
    with open_journal(root) as journal:
        return sync(journal, open_folder(os.fspath(other), Files()))


def wrong(journal):
    return [one for one in examine(journal).problems if one.severity == "error"]


def has_kept(root):
    with open_journal(root) as journal:
        return any(SECRET.encode() in journal.objects.get(one) for one in journal.objects.digests())


def test_a_payload_that_was_redacted_keeps_its_record_out_until_it_is_redacted_there_too(stores, tmp_path):
    ada, bob, stick = stores["ada"], stores["bob"], tmp_path / "stick"
    said(ada, KEPT)
    said(bob, KEPT)
    emptied(bob, secret=SECRET)
    assert exchanged(ada, stick).refusals == []
    (refused,) = exchanged(bob, stick).refusals
    assert refused.code == "refused"
    assert "record 1 of" in str(refused)
    assert "would bring back what was redacted" in str(refused)
    assert "Redact it there too" in refused.mend
    assert not has_kept(bob)
    emptied(ada, secret=SECRET)
    for root in (ada, bob, ada):
        assert exchanged(root, stick).refusals == []
    assert not has_kept(ada)
    assert not has_kept(bob)
    with open_journal(ada) as one, open_journal(bob) as other:
        assert one.get("decision", item(1)).payload == other.get("decision", item(1)).payload
        assert wrong(one) == wrong(other) == []


def test_who_writes_it_anew_has_it_back_and_others_take_it(stores, tmp_path):
    bob, cleo, stick = stores["bob"], stores["cleo"], tmp_path / "stick"
    said(bob, KEPT)
    emptied(bob, secret=SECRET)
    exchanged(bob, stick)
    exchanged(cleo, stick)
    said(bob, KEPT)
    assert exchanged(bob, stick).refusals == []
    assert exchanged(cleo, stick).refusals == []
    assert has_kept(cleo)
    assert audit_of(cleo) == set()
    with open_journal(cleo) as journal:
        assert journal.get("decision", item(1)).value == {"text": KEPT}
        assert wrong(journal) == []


def test_what_a_record_of_another_clone_holds_is_named_and_keeps_nothing_from_anybody(stores, tmp_path):
    """Bob cannot take out what Ada's record says: so his audit record does not say that he did, and Cleo takes both."""
    ada, bob, cleo, stick = (*stores.values(), tmp_path / "stick")
    said(ada, KEPT)
    said(bob, "Cogs are oiled.", 2)
    exchanged(ada, stick)
    exchanged(bob, stick)
    done = emptied(bob, secret=SECRET)
    assert any("redact there, then sync" in one.mend for one in done.remaining)
    assert audit_of(bob) == set()
    exchanged(bob, stick)
    assert exchanged(cleo, stick).refusals == []
    assert has_kept(cleo)
    emptied(ada, secret=SECRET)
    for root in (ada, bob, cleo):
        assert exchanged(root, stick).refusals == []
        assert not has_kept(root)


def test_the_payload_of_a_record_named_by_its_seq_is_named_by_the_audit_record(stores, tmp_path):
    bob, stick = stores["bob"], tmp_path / "stick"
    said(bob, KEPT)
    said(bob, "Cogs are counted.")
    shutil.copytree(bob, tmp_path / "before")
    exchanged(bob, stick)
    emptied(bob, seqs=[1])
    (gone,) = audit_of(bob)
    assert gone
    exchanged(bob, stick)
    assert not (stick / "objects" / gone.hex()[:2]).exists() or not list((stick / "objects" / gone.hex()[:2]).iterdir())


# -- repair ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_repair_does_not_bring_objects_back_from_a_copy(people, tmp_path):
    ada, bob = people["ada"], people["bob"]
    for who in (ada, bob):
        who("trail", "import", session(tmp_path))
    redact(bob)
    bob("sync", "--with", "../ada")
    ada("trail", "import", session(tmp_path))
    shutil.copytree(ada.folder / ".periplus", tmp_path / "copy")
    with opened(ada) as project:
        project.journal.objects.put(PROMPT.encode())  # as a copy has it that was made before
        shutil.copytree(ada.folder / ".periplus" / "objects", tmp_path / "copy" / "objects", dirs_exist_ok=True)
    with opened(bob) as project:
        (trail,) = project.journal.entities("trail")
        project.journal.objects.remove(bytes.fromhex(trail.value["object"]))
    done = bob("doctor", "--repair", "--from", tmp_path / "copy")
    assert "the object is restored from a copy" in done.out  # what is missing otherwise
    assert objects_with(bob) == []
    assert problems(bob) == []


@pytest.mark.parametrize("kept", [KEPT, f"never {SECRET}"], ids=["object", "line"])
def test_a_damaged_stub_is_restored_from_a_copy_as_the_stub(stores, tmp_path, kept):
    bob = stores["bob"]
    said(bob, kept)
    said(bob, "Cogs are counted.")
    shutil.copytree(bob, tmp_path / "before")
    emptied(bob, secret=SECRET)
    segment = next(path for path in sorted(Path(bob).rglob("*.jsonl")) if path.name == "000000000001.jsonl")
    data = segment.read_bytes()
    at = data.index(b'"leaf":')
    segment.write_bytes(data[:at] + b"XXXXXXXXXXXX" + data[at + 12 :])
    with open_journal(bob) as journal:
        assert [one.what for one in repair(journal, WRITER, sources=[os.fspath(tmp_path / "before")])] == [
            "restored from a copy"
        ]
    assert segment.read_bytes() == data
    with open_journal(bob) as journal:
        assert wrong(journal) == []
    assert SECRET.encode() not in segment.read_bytes()
    assert not has_kept(bob)


# -- import ----------------------------------------------------------------------------------------------------------


def test_an_import_of_the_same_session_leaves_it_out(people, tmp_path):
    bob = people["bob"]
    bob("trail", "import", session(tmp_path))
    redact(bob)
    before = bob.json("trail", "list").trails[0].value
    done = bob.json("trail", "import", session(tmp_path))
    assert (done.trails[0].changed, done.trails[0].withheld) == (False, 1)
    assert "1 text was left out because of a redaction" in bob("trail", "import", session(tmp_path)).out
    assert bob.json("trail", "list").trails[0].value == before
    assert objects_with(bob) == []
    assert bob.json("doctor").problems == []  # no leftovers either


def test_a_session_that_has_grown_leaves_out_what_was_redacted_of_it(people, tmp_path):
    """Short texts have no digest anywhere: the trail's own commitments tell them, in its title and its paths, too."""
    bob = people["bob"]
    bob("trail", "import", session(tmp_path, prompt=f"log in with {SECRET}"))
    redact(bob)
    for steps in (4, 6):
        (done,) = bob.json("trail", "import", session(tmp_path, prompt=f"log in with {SECRET}", steps=steps)).trails
        assert (done.changed, done.value["counts"]["tools"], done.value["title"]) == (
            True,
            steps,
            "log in with [redacted]",
        )
        assert done.withheld >= 1
        assert objects_with(bob) == []
        assert files_with(bob.folder / ".periplus") == []
        assert bob.json("trail", "verify", done.id).trails[0].ok
        assert bob.json("doctor").problems == []


@pytest.mark.slow
def test_what_another_clone_redacted_stays_out_of_a_session_that_has_grown(people, tmp_path):
    """Its salts are another's, so the place tells the text: the session begins as it did."""
    ada, bob = people["ada"], people["bob"]
    bob("trail", "import", session(tmp_path, prompt=f"log in with {SECRET}"))
    found = redact(bob).not_reached
    assert any("the agent's own record" in one.where and "5e551011" in one.where for one in found)
    bob("sync", "--with", "../ada")
    for who, steps in ((ada, 4), (bob, 6), (ada, 8)):
        (done,) = who.json("trail", "import", session(tmp_path, prompt=f"log in with {SECRET}", steps=steps)).trails
        assert (done.changed, done.value["title"]) == (True, "log in with [redacted]")
        assert done.withheld >= 1
        assert objects_with(who) == []
        assert files_with(who.folder / ".periplus") == []
        bob("sync", "--with", "../ada")


def test_a_trail_that_another_clone_redacted_says_nothing_of_what_begins_otherwise(people, tmp_path):
    """Nobody but who made a trail can tell a short text by what is left of it: what an import says comes in, and is told of."""
    ada, bob = people["ada"], people["bob"]
    bob("trail", "import", session(tmp_path, prompt=f"log in with {SECRET}"))
    redact(bob)
    bob("sync", "--with", "../ada")
    file = session(tmp_path, prompt=f"log in with {SECRET}", steps=4)
    records = file.read_text().splitlines(keepends=True)
    file.write_text("".join([records[0], records[-1], *records[1:-1]]))
    (done,) = ada.json("trail", "import", file).trails
    assert done.changed
    assert done.withheld == 0


def test_a_recording_keeps_no_file_that_was_redacted(people, tmp_path):
    bob = people["bob"]
    bob("trail", "import", session(tmp_path))
    redact(bob)
    (bob.folder / "login.py").write_text(CONTENTS[0])
    (bob.folder / "cog.py").write_text("COGS = 14\n")
    with opened(bob) as project, project.record(agent="reader") as recording:
        recording.step("PROMPT", text=PROMPT)
        recording.checkpoint()
    assert objects_with(bob) == []
    assert problems(bob) == []
    assert len(objects_with(bob, "COGS = 14")) == 1


# -- copies of the store -----------------------------------------------------------------------------------------------


def test_a_store_made_of_an_older_export_or_copy_does_not_bring_it_back(people, tmp_path):
    bob = people["bob"]
    bob("trail", "import", session(tmp_path))
    bob("export", tmp_path / "before.zip")
    redact(bob)
    bob.fails("import", tmp_path / "before.zip", bob.folder, code=5, wrong="has a store")
    bob("import", tmp_path / "before.zip", tmp_path / "dora")
    dora = Shell(tmp_path / "dora", tmp_path / "home")
    assert len(objects_with(dora)) == 2
    other = session(tmp_path).read_text().replace("5e551011", "5e552022")
    (tmp_path / "other.jsonl").write_text(other)
    dora(
        "trail", "import", tmp_path / "other.jsonl"
    )  # another session that says the same, as one that was resumed does
    bob("sync", "--with", "../dora")
    assert objects_with(bob) == []
    assert objects_with(dora) == []  # and it was told
    assert problems(bob) == problems(dora) == []
