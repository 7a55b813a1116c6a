"""The page of one entity: its text, freshness, evidence, relations, history and past, for every type."""

from __future__ import annotations

import os
import subprocess
import time

import pytest

pytest.importorskip("starlette")

from hook_support import hook
from periplus.base.clock import FixedClock, parse_ms
from periplus.base.errors import NotFoundError
from periplus.journal import ABSENT, EntityType, Journal
from periplus.memory import Memory
from periplus.memory.entities.check_results import Check, record_check
from periplus.memory.entities.types import MEMORY_TYPES
from periplus.project import Project
from periplus.web.pages.memory.entity import entity_page
from periplus.web.pages.memory.field_changes import history_of
from periplus.web.pages.memory.relations import NODES_MAX, neighbourhood_of, picture_of
from periplus.web.pages.model import Done
from reflect_support import session
from support import ADA, check_nothing
from web_memory_support import of_type, shown, write_known
from web_support import Parsed, asked


@pytest.fixture
def clock():
    return FixedClock(step_ms=1)


@pytest.fixture
def known(ada):
    write_known(ada)
    return ada


def write(project, kind, item_id, payload):
    """Write an entity as its own command would, with a payload of our choice."""
    project.journal.mutate(lambda transaction: transaction.put(kind, item_id, payload, expect=ABSENT), project.writer)
    return item_id


def test_an_entity_has_its_text_fields_and_who_set_each(known, bob):
    decision = of_type(known, "decision")
    bob.work.set_fields(decision.item_id, {"rationale": "It resists GPUs"})
    values = shown(known, decision.item_id)
    fields = {one.name: one for one in values["entity"].fields}
    assert (fields["rationale"].text, fields["rationale"].set_by) == ("It resists GPUs", "bob")
    assert fields["rationale"].record == bob.show(decision.item_id).seq
    assert (fields["created"].set_by, fields["created"].kind) == ("ada", "time")
    assert values["entity"].tags == ("auth", "security")


def test_freshness_names_the_file_that_changed_and_when(known):
    decision = of_type(known, "decision")
    fresh = shown(known, decision.item_id)
    assert (fresh["freshness"].stale, fresh["freshness"].is_anchored) == ((), True)
    assert [one.note for one in fresh["entity"].about] == ["unchanged"]
    path = os.path.join(known.folder, "auth.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write("def hash_password(text):\n    return text * 3\n")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    stale = shown(known, decision.item_id)
    [reason] = stale["freshness"].stale
    assert "auth.py:hash_password changed" in reason.reason
    assert reason.written == "2023-11-14T22:13:20.000Z"
    assert [(one.note, one.is_stale) for one in stale["entity"].about] == [("changed", True)]
    os.unlink(path)
    assert shown(known, decision.item_id)["freshness"].stale[0].written == ""


def test_a_note_that_expired_and_a_check_that_failed_are_said(ada):
    note = ada.remember(Memory("note", "The port is taken", extra={"expires": "2001-01-01T00:00:00.000Z"})).entity
    assert shown(ada, note.item_id)["freshness"].expired == "2001-01-01T00:00:00.000Z"
    rule = ada.remember(Memory("constraint", "There is a README", extra={"check": "test -f README"})).entity
    record_check(ada.journal, ada.writer, Check(rule, "test -f README"), exit_code=1, why="exit 1", took_ms=5)
    freshness = shown(ada, rule.item_id)["freshness"]
    assert freshness.is_check_failed
    assert "exit 1" in freshness.checked


def test_evidence_leads_to_trails_records_and_commits(ada, tmp_path):
    trail = ada.import_transcript(os.fspath(session(tmp_path / "s.jsonl", ("prompt", "Hello there")))).entity.item_id
    evidence = (("step", f"{trail}#0"), ("record", "1"), ("commit", "0123abcd"))
    lesson = ada.remember(Memory("lesson", "Greet first", evidence=evidence)).entity
    found = shown(ada, lesson.item_id)["entity"].evidence
    assert [(one.kind, one.address) for one in found] == [
        ("step", f"/sessions/{trail}?from=0"), ("record", "/journal/1"), ("commit", ""),
    ]  # fmt: skip
    assert found[2].command == "git show 0123abcd"


def test_history_shows_differences_by_field(known):
    decision = of_type(known, "decision")
    known.work.set_fields(
        decision.item_id, {"text": "Passwords are hashed with argon2id, never with MD5", "tags": ["auth", "crypto"]}
    )
    known.work.change_state([decision.item_id], "deferred", reason="no time")
    newest, middle, first = shown(known, decision.item_id)["history"].changes
    state = next(one for one in newest.fields if one.name == "state")
    assert [(part.kind, part.text) for part in state.parts] == [("removed", "accepted"), ("added", "deferred")]
    by_name = {one.name: one for one in middle.fields}
    assert (by_name["tags"].removed, by_name["tags"].added) == (("security",), ("crypto",))
    assert (
        "".join(part.text for part in by_name["text"].parts if part.kind != "removed")
        == "Passwords are hashed with argon2id, never with MD5"
    )
    assert [part.text for part in by_name["text"].parts if part.kind == "added"] == [", never with MD5"]
    assert first.is_first
    assert {one.kind for one in first.fields} == {"added"}
    assert newest.address == f"/journal/{newest.seq}"
    assert newest.at_address == f"/memory/{decision.item_id}?at={newest.seq}"


def test_a_long_history_has_pages(ada):
    note = ada.remember(Memory("note", "Counts")).entity
    for number in range(45):
        ada.work.set_fields(note.item_id, {"text": f"Counts {number}"})
    entity = ada.show(note.item_id)
    records = ada.history(entity)
    pages = [history_of(ada, entity, records, page) for page in (1, 2, 3, 99)]
    assert [len(page.changes) for page in pages] == [20, 20, 6, 6]
    assert (pages[0].pages, pages[3].page) == (3, 3)
    seqs = [change.seq for page in pages[:3] for change in page.changes]
    assert seqs == sorted(seqs, reverse=True)
    assert len(set(seqs)) == 46


def test_the_past_is_shown_as_it_was_without_forms(known):
    decision = of_type(known, "decision")
    first = decision.seq
    known.work.set_fields(decision.item_id, {"text": "Passwords are hashed with scrypt"})
    last = known.show(decision.item_id).seq
    values = shown(known, decision.item_id, at=first)
    assert values["entity"].heading == "Passwords are hashed with argon2id"
    assert values["steps"] == (0, last)
    assert not values["forms"].is_any
    assert shown(known, decision.item_id, at=last)["steps"] == (first, 0)
    note = of_type(known, "note")
    with pytest.raises(NotFoundError, match="did not exist"):
        shown(known, note.item_id, at=first)
    with pytest.raises(NotFoundError, match="there is no record"):
        shown(known, note.item_id, at=10**9)


def test_a_deleted_entity_keeps_its_history_and_an_unknown_one_is_not_found(known):
    note = of_type(known, "note")
    known.undo(seqs=[note.seq])
    view = entity_page(asked(known, f"/memory/{note.item_id}", {"id": note.item_id}))
    assert (view.status, view.template) == (404, "memory/deleted.html")
    assert view.values["last_address"] == f"/memory/{note.item_id}?at={note.seq}"
    assert view.values["history"].total == 2
    with pytest.raises(NotFoundError):
        shown(known, "dec_0000000000000000")


def test_the_beginning_of_an_id_leads_to_the_entity(known):
    decision = of_type(known, "decision")
    answer = entity_page(asked(known, "/memory/x", {"id": decision.item_id[:9]}))
    assert answer == Done(f"/memory/{decision.item_id}", "")


def test_relations_are_found_in_both_directions_and_drawn(known):
    old, rule, trap = (of_type(known, kind) for kind in ("decision", "constraint", "trap"))
    known.work.link(rule.item_id, "references", old.item_id)
    known.work.link(trap.item_id, "caused", rule.item_id)
    new = known.work.evolve(old.item_id, "Passwords are hashed with argon2id in 64 MiB").entities[0]
    near = shown(known, old.item_id)["near"]
    assert near.outgoing == ()
    assert {(edge.source, edge.kind) for edge, _ in near.incoming} == {
        (new.item_id, "supersedes"),
        (rule.item_id, "references"),
    }
    assert {node.item_id for node in near.nodes} == {old.item_id, new.item_id, rule.item_id, trap.item_id}
    picture = Parsed(str(shown(known, old.item_id)["picture"]))
    assert {row.attributes["href"] for row in picture.all("a")} == {
        f"/memory/{one.item_id}" for one in (new, rule, trap)
    }
    assert [row.attributes["class"] for row in picture.all("g") if "node-current" in row.attributes.get("class", "")]
    assert shown(known, new.item_id)["near"].outgoing[0][1].is_ended


def test_a_candidate_is_shown_with_what_it_proposes(ada):
    evidence = [{"kind": "commit", "ref": "abc123", "quote": "Fix the cache"}]
    payload = {
        "text": "Remove .cache",
        "remedy": "rm",
        "evidence": evidence,
        "about": [{"kind": "path", "ref": "Makefile"}],
        "tags": ["build"],
    }
    value = {
        "v": 1,
        "item_type": "trap",
        "payload": payload,
        "why": "seen twice",
        "subject": ["x"],
        "provenance": {"kind": "reflection", "name": "again"},
    }
    found = shown(ada, write(ada, "candidate", "cnd_0000000000000001", value))
    entity = found["entity"]
    assert (entity.heading, entity.tags, entity.source) == (
        "Remove .cache",
        ("build",),
        "reflection, by the rule again",
    )
    assert [(one.text, one.quote) for one in entity.evidence] == [("abc123", "Fix the cache")]
    assert [one.text for one in entity.about] == ["Makefile"]
    assert {"remedy", "why"} <= {one.name for one in entity.fields}
    assert found["forms"].candidate_types[0].value == "trap"


def test_a_relation_to_what_is_not_here_is_shown_and_not_looked_up(ada):
    gone = "dec_0000000000000009"
    note = write(
        ada,
        "note",
        "not_0000000000000001",
        {"v": 1, "text": "Alone", "relations": [{"kind": "references", "target": gone}]},
    )
    [(edge, node)] = shown(ada, note)["near"].outgoing
    assert (edge.target, node.is_here, node.item_type) == (gone, False, "")


def test_a_picture_is_bounded_however_many_relations_there_are(ada):
    centre = ada.remember(Memory("note", "The centre")).entity
    for number in range(40):
        one = ada.remember(Memory("note", f"Around it, number {number}")).entity
        ada.work.link(one.item_id, "references", centre.item_id)
    near = neighbourhood_of(ada, ada.show(centre.item_id))
    assert len(near.nodes) == NODES_MAX
    assert len(near.incoming) == 40


def test_a_circle_of_relations_is_drawn(ada):
    first, second = (ada.remember(Memory("note", text)).entity for text in ("One leads to two", "Two leads to one"))
    ada.work.link(first.item_id, "references", second.item_id)
    ada.work.link(second.item_id, "references", first.item_id)
    near = neighbourhood_of(ada, ada.show(first.item_id))
    assert len(near.edges) == 2
    assert picture_of(first.item_id, near) is not None


def test_who_was_told_by_mail_and_in_which_session(known, tmp_path):
    decision = of_type(known, "decision")
    known.work.send("bob", "Please read this", ref=decision.item_id)
    path = session(tmp_path / "s.jsonl", ("prompt", f"Follow {decision.item_id} from now on"))
    trail = known.import_transcript(os.fspath(path)).entity.item_id
    found = shown(known, decision.item_id)["deliveries"]
    assert {(one.who, one.way) for one in found} == {
        ("bob", "message from ada, not read yet"), ("claude-code", "named in a prompt"), ("claude-code", "named in a session"),
    }  # fmt: skip
    assert any(one.address.startswith(f"/sessions/{trail}") for one in found)


def test_who_was_told_by_a_hook(tmp_path):
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    Project.init(os.fspath(tmp_path))
    (tmp_path / "auth.py").write_text("def hash_password(): ...\n")
    with Project.open(os.fspath(tmp_path), ADA) as project:
        trap = project.remember(Memory("trap", "The salt is read twice", about=("auth.py",))).entity
        note = project.remember(Memory("note", "The salt is long", about=("auth.py",))).entity
    prompt = {"session_id": "5e55", "cwd": os.fspath(tmp_path), "prompt": "Read the login over"}
    assert hook("UserPromptSubmit", prompt, cwd=tmp_path).returncode == 0
    edit = {"file_path": "auth.py", "old_string": "a", "new_string": "b"}
    document = {
        "session_id": "5e55",
        "cwd": os.fspath(tmp_path),
        "tool_name": "Edit",
        "tool_use_id": "t1",
        "tool_input": edit,
    }
    assert b"The salt is read twice" in hook("PreToolUse", document, cwd=tmp_path).stdout
    with Project.open(os.fspath(tmp_path), ADA) as project:
        [one] = shown(project, trap.item_id)["deliveries"]
        assert (one.way, one.text) == ("told by a hook", "when it touched auth.py")
        assert one.who == "claude-code"
        assert one.address.startswith("/memory/ses_")
        assert abs(parse_ms(one.ts) - time.time() * 1000) < 600_000
        assert shown(project, note.item_id)["deliveries"] == ()
        project.work.set_fields(trap.item_id, {"text": "The salt is read thrice"})
        assert shown(project, trap.item_id)["deliveries"] == (), "nobody was told of these words"


REQUIRED = {
    "agent": {"name": "bot", "created": "2026-01-01T00:00:00.000Z", "updated": "2026-01-01T00:00:00.000Z"},
    "assignment": {"text": "Do it", "dispatch": "dsp_0000000000000001"},
    "candidate": {"item_type": "note", "payload": {"text": "Perhaps"}, "why": "seen twice", "subject": ["x"], "provenance": {"kind": "reflection"}},
    "claim": {"text": "mine", "holder": "ada", "holder_id": "who_0000000000000000", "ttl_s": 60, "scopes": ["src"], "expires": "2030-01-01T00:00:00.000Z"},
    "context_ref": {"name": "main", "target": "0" * 64},
    "loop": {"text": "Argue", "kind": "debate"},
    "message": {"sender": "ada", "recipient": "bob", "text": "Hello", "created": "2026-01-01T00:00:00.000Z"},
    "run": {"state": "open", "agent": "bot", "tool_version": "1", "started": "2026-01-01T00:00:00.000Z", "lineage": "lin_0000000000000001", "first_seq": 1},
    "session": {"name": "s", "agent": "ada", "started": "2026-01-01T00:00:00.000Z"},
    "skill_candidate": {"name": "fix", "description": "Fixes", "body": "Do", "rule": "r", "commands": ["make"], "turns": ["s#1"]},
    "step": {"text": "Dig", "plan": "pln_0000000000000001"},
    "trail": {"digest": "0" * 64, "object": "0" * 64, "bytes": 1, "format": "x", "agent": "bot", "session_id": "s", "source_sha256": "0" * 64, "title": "Run"},
}  # fmt: skip
OWN_PAGES = {
    "assignment": "/work/dispatch/dsp_0000000000000001", "context_ref": "/contexts/graph?ref=main", "dispatch": "/work/dispatch/dsp_0000000000000001",
    "plan": "/work/plan/pln_0000000000000001", "step": "/work/plan/pln_0000000000000001", "trail": "/sessions/trl_0000000000000001",
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(MEMORY_TYPES))
def test_an_entity_of_every_type_is_shown(ada, kind):
    row = MEMORY_TYPES[kind]
    ada.journal.check_said = None
    item_id = write(
        ada, kind, f"{row.prefix}_0000000000000001", {"v": 1, **REQUIRED.get(kind, {"text": "Says something"})}
    )
    values = shown(ada, item_id)
    assert (values["entity"].item_type, values["entity"].meaning, values["entity"].state) == (
        kind,
        row.meaning,
        values["entity"].state,
    )
    assert values["entity"].heading
    if kind in OWN_PAGES:
        assert values["entity"].own.address == OWN_PAGES[kind]
    forms = values["forms"]
    assert {one.name for one in forms.inputs} == row.touchable - {"relations"}
    assert len(values["history"].changes) == 1


def test_an_entity_of_a_type_of_another_version_is_shown(tmp_path):
    root = Project.init(os.fspath(tmp_path)).root
    types = {"gizmo": EntityType("gizmo", "gzm", is_projected=False, check=check_nothing)}
    payload = {"v": 9, "title": "A gizmo", "size": [1, {"a": 2}], "state": "spinning"}
    with Journal(root, types) as journal:
        journal.mutate(lambda transaction: transaction.put("gizmo", "gzm_0000000000000001", payload), ADA)
    with Project.open(os.fspath(tmp_path), ADA) as project:
        values = shown(project, "gzm_0000000000000001")
    entity = values["entity"]
    assert (entity.heading, entity.state, entity.meaning) == (
        "A gizmo",
        "spinning",
        "a type that this version does not know",
    )
    assert not values["forms"].is_any
    assert [one.kind for one in entity.fields if one.name == "size"] == ["json"]
