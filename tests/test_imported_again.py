"""A session that is imported again says nothing new: by another clone, and where the file of its subagent is named alone."""

from __future__ import annotations

import json

import pytest

from cli_support import claude_session, git, shared_project

SECRET = "zanzibar-horse-battery"


def session_with_subagent(folder):
    """A session, and the file of a subagent that it sent."""
    call = {"type": "tool_use", "id": "t", "name": "Task", "input": {"subagent_type": "Explore", "prompt": "Find cogs"}}
    base = {"sessionId": "5e551011-0000-4000-8000-00000000c0de", "cwd": "/w", "timestamp": "2026-03-01T10:00:00.000Z"}
    own = [
        base | {"type": "user", "uuid": "u", "message": {"role": "user", "content": "Ask somebody for cogs"}},
        base | {"type": "assistant", "uuid": "a", "parentUuid": "u", "message": {"id": "m", "content": [call]}},
    ]
    side = base | {"isSidechain": True, "agentId": "a1"}
    theirs = [
        side | {"type": "user", "uuid": "s", "message": {"role": "user", "content": "Find cogs"}},
        side | {"type": "assistant", "uuid": "b", "parentUuid": "s", "message": {"id": "n", "content": "Found 13"}},
    ]
    beside = folder / "session" / "subagents"
    beside.mkdir(parents=True)
    for path, records in ((folder / "session.jsonl", own), (beside / "agent-a1.jsonl", theirs)):
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
    (beside / "agent-a1.meta.json").write_text('{"agentType": "Explore"}')
    return folder / "session.jsonl", beside / "agent-a1.jsonl"


def trails_of(shell):
    return {trail.id: trail.value for trail in shell.json("trail", "list").trails}


@pytest.mark.parametrize("with_meta", [True, False])
def test_the_file_of_a_subagent_is_one_trail_however_it_is_named(tmp_path, with_meta):
    """What ``trail import **/*.jsonl`` did: session and file took each other's place at every import, and the child lost whose it was."""
    shell = shared_project(tmp_path)["ada"]
    session, file = session_with_subagent(tmp_path)
    if not with_meta:
        file.with_name("agent-a1.meta.json").unlink()
    shell("trail", "import", file)
    shell("trail", "import", session)
    before = trails_of(shell)
    (child,) = [value for value in before.values() if value.get("parent")]
    assert child["parent"] in before
    assert child["agent"] == ("claude-code/Explore" if with_meta else "claude-code")
    for name in (file, session, file):
        assert not any(trail.changed for trail in shell.json("trail", "import", name).trails)
        assert trails_of(shell) == before
    with file.open("a") as more:
        more.write(json.dumps({"type": "assistant", "uuid": "c", "parentUuid": "b", "isSidechain": True, "agentId": "a1",
                               "sessionId": child["session_id"], "message": {"id": "o", "content": "and one more"}}) + "\n")  # fmt: skip
    (grown,) = shell.json("trail", "import", file).trails
    assert (grown.changed, grown.value["parent"]) == (True, child["parent"])


@pytest.mark.slow
def test_two_clones_that_import_one_session_agree(tmp_path):
    """Each seals it with a secret of its own; what the other sealed of the same file says the same, and stays."""
    people = shared_project(tmp_path, "bob")
    ada, bob = people["ada"], people["bob"]
    session, file = session_with_subagent(tmp_path)
    ada("trail", "import", file)  # alone, before its session
    for who in (ada, bob):
        who("sync", "--with", "../stick")
    assert [trail.changed for trail in bob.json("trail", "import", session).trails] == [True]
    assert [bool(value.get("parent")) for value in trails_of(bob).values()].count(True) == 1
    for who in (bob, ada):
        who("sync", "--with", "../stick")
    ada("trail", "import", session, claude_session(tmp_path / "other.jsonl", prompt="Oil it", steps=2))
    ada("sync", "--with", "../stick")
    bob("sync", "--with", "../stick")
    before = trails_of(bob)
    for path in (session, tmp_path / "other.jsonl"):
        done = bob("trail", "import", path)
        assert "already imported, nothing changed" in done.out
    assert trails_of(bob) == before == trails_of(ada)
    (done,) = bob.json("trail", "import", claude_session(tmp_path / "other.jsonl", prompt="Oil it", steps=3)).trails
    assert done.changed
    bob("sync", "--with", "../stick")
    ada("sync", "--with", "../stick")
    assert not ada.json("trail", "import", tmp_path / "other.jsonl").trails[0].changed
    assert trails_of(bob) == trails_of(ada)
    assert all(trail.ok for trail in ada.json("trail", "verify", *trails_of(ada)).trails)


def test_two_clones_that_import_their_history_agree(tmp_path):
    """The folders of clones have different names; that is no reason to announce the same commits over and over."""
    people = shared_project(tmp_path, "bob")
    ada, bob = people["ada"], people["bob"]
    ada("trail", "import", "--git")
    for who in (ada, bob):
        who("sync", "--with", "../stick")
    assert "already imported, nothing changed" in bob("trail", "import", "--git").out
    (bob.folder / "cog.py").write_text("COGS = 13\n")
    git(bob.folder, "add", "cog.py")
    git(bob.folder, "commit", "-q", "-m", "cogs")
    assert bob.json("trail", "import", "--git").trails[0].changed


def test_what_another_clone_redacted_of_a_session_stays_out_where_its_file_did_not_change(tmp_path):
    people = shared_project(tmp_path, "bob")
    ada, bob = people["ada"], people["bob"]
    session = claude_session(tmp_path / "session.jsonl", prompt=f"log in with {SECRET}", steps=2)
    bob("trail", "import", session)
    bob.json("redact", "--secret-file", "-", "--reason", "it slipped", stdin=SECRET)
    bob("sync", "--with", "../ada")
    assert not ada.json("trail", "import", session).trails[0].changed
    assert SECRET not in ada("trail", "show", *trails_of(ada)).out


@pytest.mark.slow
@pytest.mark.parametrize("order", [("ada", "bob", "ada"), ("bob", "ada", "bob")])
def test_two_clones_that_imported_the_same_before_they_synced_are_in_no_conflict(tmp_path, order):
    """Each sealed session and history with a secret of its own: that was a conflict in digest, object, title and folder."""
    people = shared_project(tmp_path, "bob")
    session = claude_session(tmp_path / "session.jsonl", prompt=f"log in with {SECRET}", steps=2)
    for who in people.values():
        who("trail", "import", session)
        who("trail", "import", "--git")
    for name in order:
        people[name]("sync", "--with", "../stick")
    shown = [who.json("trail", "list").trails for who in people.values()]
    assert shown[0] == shown[1]
    assert len(shown[0]) == 2
    for who in people.values():
        ids = [trail.id for trail in shown[0]]
        assert not [one for one in ids if "conflict" in who("show", one).out]
        assert all(trail.ok for trail in who.json("trail", "verify", *ids).trails)
        for one in ids:
            who("trail", "show", one)
    for trail in shown[0]:
        assert len({who("trail", "replay", trail.id).out for who in people.values()}) == 1
    people["bob"].json("redact", "--secret-file", "-", "--reason", "it slipped", stdin=SECRET)
    for name in ("bob", "ada", "bob"):
        people[name]("sync", "--with", "../stick")
    redacted = [trails_of(who) for who in people.values()]
    assert redacted[0] == redacted[1]
    for who in people.values():
        for one, card in redacted[0].items():
            assert SECRET not in who("trail", "show", one).out
            assert "conflict" not in who("show", one).out
            assert bool(card["withheld"]) == (card["format"] != "git")


def test_a_redaction_of_one_clone_is_shown_beside_what_another_imported_apart(tmp_path):
    people = shared_project(tmp_path, "bob")
    ada, bob = people["ada"], people["bob"]
    session = claude_session(tmp_path / "session.jsonl", prompt=f"log in with {SECRET}", steps=2)
    for who in (ada, bob):
        who("trail", "import", session)
    bob.json("redact", "--secret-file", "-", "--reason", "it slipped", stdin=SECRET)
    for who in (bob, ada, bob):
        who("sync", "--with", "../stick")
    for who in (ada, bob):
        ((one, card),) = trails_of(who).items()
        assert card["withheld"]
        assert SECRET not in who("trail", "show", one).out
        assert "conflict" not in who("show", one).out
