"""A folder as the older program writes it, in its own words: what has a counterpart becomes it, and every file stays what it was."""

from __future__ import annotations

import json
import os
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli_support import Shell
from periplus.base.encoding.canonical import canonical
from periplus.base.errors import PeriplusError
from periplus.base.ids import derived_id
from periplus.interop.version1.documents import parse_file, part_ids, read_entity, render_file
from periplus.journal import Writer
from periplus.memory import MEMORY_TYPES, memory_types
from periplus.memory.claim_status import holds
from periplus.memory.coordination.plans import NewStep
from periplus.project import Project
from periplus.project.migration import migrate, migration_status
from support import Stop, StoppingFiles
from v1_samples import SECRET, contents

TYPES = memory_types()
WRITER = Writer("ada", "who_0000000000000000", "ses", 1)
AT = "2026-11-01T10:00:00.000Z"
LATER = "2999-01-01T00:00:00.000Z"
BOTH = {"created_at": AT, "author": "codex", "tags": ["auth"]}
FILES = {
    "memory/decisions/dec_00000001.json": {"id": "dec_00000001", "short_label": "dec#1", "text": "Hash with argon2", "status": "approved", **BOTH, "related_paths": ["src/auth.py"]},
    "memory/decisions/dec_00000002.json": {"id": "dec_00000002", "text": "Keep sessions in Redis", "outcome": "deferred", **BOTH},
    "memory/constraints/cst_00000001.json": {"id": "cst_00000001", "text": "No plain passwords in logs", "status": "archived", "category": "security", **BOTH},
    "memory/traps/trp_00000001.json": {"id": "trp_00000001", "text": "The cache lies after a deploy", "status": "active", "severity": "high", **BOTH},
    "memory/instructions/ins_00000001.json": {"id": "ins_00000001", "layer": "project", "text": "Answer in plain English", "active": True, **BOTH},
    "coordination/plans/pln_0000abcd.json": {
        "id": "pln_0000abcd", "short_label": "pln#543", "type": "feat", "text": "Passkeys for the login", "status": "in_progress", "priority": "high",
        "assignee": "codex", "depends_on": [], "estimated_effort": 90, **BOTH, "updated_at": AT,
        "steps": [
            {"id": "stp_0000aaaa", "text": "Store the keys", "status": "done", "created_at": AT, "updated_at": AT},
            {"id": "stp_0000bbbb", "text": "Ask for them", "status": "todo", "depends_on": ["stp_0000aaaa"], "created_at": AT, "updated_at": AT},
            {"id": "stp_0000cccc", "text": "Tell people", "status": "todo", "depends_on": ["stp_0000bbbb"], "created_at": AT, "updated_at": AT},
        ],
    },
    "coordination/plans/pln_0000ffff.json": {"id": "pln_0000ffff", "type": "chore", "text": "Take passwords out", "status": "todo", "depends_on": ["pln#543"], "priority": "low", **BOTH},
    "coordination/claims/clm_00000001.json": {"id": "clm_00000001", "agent": "codex", "agent_id": "agt_1", "scope": "src/auth/", "description": "the login", "created_at": AT, "plan_id": "pln_0000abcd", "status": "active", "expires_at": LATER},
    "coordination/claims/clm_00000002.json": {"id": "clm_00000002", "agent": "claude", "scope": "docs/", "description": "the docs", "created_at": AT, "status": "active", "expires_at": "2026-11-01T12:00:00Z"},
    "coordination/handoffs/hnd_00000001.json": {"id": "hnd_00000001", "from": "codex", "to": "claude", "narrative": "The keys are stored, nothing asks for them yet", "status": "open", "plan_id": "pln#543", "snapshot": {"diff": "--- a\n+++ b"}, **BOTH},
    "coordination/inbox/claude/msg_00000001.json": {"id": "msg_00000001", "from": "codex", "to": "claude", "type": "assign", "body": "Take the second step", "requires_ack": True, "status": "pending", "created_at": AT, "ref": "pln_0000abcd"},
    "coordination/inbox/cnd_00000001.json": {"id": "cnd_00000001", "type": "trap", "text": "Tokens outlive a logout", "severity": "high", "status": "pending", **BOTH, "star_count": 2},
    "coordination/runtime/codex/rtn_00000001.json": {"id": "rtn_00000001", "agent": "codex", "text": "The tests need a running Redis", "note_type": "observation", "created_at": AT, "tags": []},
    "agents/agt_1.json": {"version": 1, "agent_id": "agt_1", "agent_name": "codex", "capabilities": ["writes Fortran"]},
}  # fmt: skip


@pytest.fixture
def store(tmp_path):
    (tmp_path / "project").mkdir()
    Project.init(os.fspath(tmp_path / "project"))
    return os.fspath(tmp_path / "project" / ".periplus")


@pytest.fixture
def older(tmp_path):
    folder = tmp_path / "older"
    for path, value in FILES.items():
        write(folder, path, value)
    return folder


def write(folder, path, value):
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(value, indent=2))


def opened(store):
    return Project(store, WRITER)


def to(store, mode, source=None, **how):
    with opened(store) as project:
        return migrate(project, mode, source=os.fspath(source) if source else "", **how)


def all_of(store):
    with opened(store) as project:
        return {one.value["text"]: one for one in project.journal.entities() if "text" in one.value}


def our_id(prefix, name, *old_id):
    return derived_id(prefix, "v1", name, *old_id)


def test_each_kind_becomes_its_counterpart(older, store):
    before = contents(older)
    done = to(store, "dual", older)
    assert contents(older) == before, "the folder was changed"
    assert (done.counts["entities"], done.counts["kept_foreign"]) == (len(FILES), 1)
    found = all_of(store)
    kinds = {text: (one.item_type, one.value.get("state")) for text, one in found.items()}
    assert kinds == {
        "Hash with argon2": ("decision", "accepted"),
        "Keep sessions in Redis": ("decision", "deferred"),
        "No plain passwords in logs": ("constraint", "resolved"),
        "The cache lies after a deploy": ("trap", "active"),
        "Answer in plain English": ("constraint", "active"),
        "Passkeys for the login": ("plan", "doing"),
        "Take passwords out": ("plan", "todo"),
        "Store the keys": ("step", "done"),
        "Ask for them": ("step", "todo"),
        "Tell people": ("step", "todo"),
        "the login": ("claim", "held"),
        "the docs": ("claim", "expired"),
        "The keys are stored, nothing asks for them yet": ("handoff", "open"),
        "Take the second step": ("message", "sent"),
        "The tests need a running Redis": ("note", None),
    }
    plan = our_id("pln", "plan", "pln_0000abcd")
    assert found["Hash with argon2"].value["about"] == [{"kind": "path", "ref": "src/auth.py"}]
    assert (found["Passkeys for the login"].item_id, found["Passkeys for the login"].value["priority"]) == (plan, 75)
    assert found["Passkeys for the login"].value["fields"]["type"] == "feat"
    assert found["Ask for them"].value["depends_on"] == [found["Store the keys"].item_id]
    assert found["Take passwords out"].value["depends_on"] == [plan]
    handoff = found["The keys are stored, nothing asks for them yet"].value
    assert (handoff["author"], handoff["recipient"], handoff["plan"]) == ("codex", "claude", plan)
    assert handoff["fields"]["snapshot"] == {"diff": "--- a\n+++ b"}
    message = found["Take the second step"].value
    assert (message["sender"], message["recipient"], message["needs_answer"], message["ref"]) == (
        "codex",
        "claude",
        True,
        plan,
    )
    claim = found["the login"].value
    assert (claim["scopes"], claim["holder"], claim["expires"]) == (["src/auth/"], "codex", LATER)
    assert claim["about"] == [{"kind": "path", "ref": "src/auth/"}]
    assert claim["relations"] == [{"kind": "part_of", "target": plan}]
    with opened(store) as project:
        (candidate,) = project.journal.entities("candidate")
        assert (candidate.value["state"], candidate.value["item_type"]) == ("pending", "trap")
        assert candidate.value["payload"]["text"] == "Tokens outlive a logout"
        assert project.examine().exit_code == 0


def test_it_is_shown_and_found_as_of_here(tmp_path, older, store):
    to(store, "dual", older)
    shell = Shell(tmp_path / "project", tmp_path)
    shown = shell("plan", "list").out
    assert "Passkeys for the login" in shown
    ready = shell("plan", "ready").out
    assert "Ask for them" in ready
    assert "Tell people" not in ready
    assert "Hash with argon2" in shell("recall", "argon2").out
    assert "Passkeys" in shell("recall", "passkeys").out
    assert "src/auth" in shell("who").out
    assert "Take the second step" in shell("inbox", "mail", "--as", "claude").out
    assert "Tokens outlive a logout" in shell("candidates", "list").out
    assert "Passkeys for the login" in shell("show", "pln#543").out
    assert "Passkeys for the login" in shell("show", "pln_0000abcd").out
    assert "Passkeys for the login" in shell("recall", "pln#543").out
    assert "Store the keys" in shell("plan", "show", "pln#543").out
    assert "argon2" in shell("recall", "what did we say in dec#1?").out
    assert "codex" in shell("recall", "fortran").out, "what is foreign is found as well"


def test_a_step_is_written_into_its_plans_file(older, store):
    to(store, "dual", older)
    path = older / "coordination" / "plans" / "pln_0000abcd.json"
    was = json.loads(path.read_text())
    with opened(store) as project:
        step = next(one for one in project.journal.entities("step") if one.value["text"] == "Ask for them")
        taken = project.work.take(step=step.item_id)
        assert taken is not None
        assert taken.step.value["state"] == "doing"
        assert project.keeper.failure == ""
    now = json.loads(path.read_text())
    assert now["steps"][1]["status"] == "in_progress"
    assert now["steps"][1] == was["steps"][1] | {
        "status": "in_progress",
        "assignee": "ada",
        "updated_at": now["steps"][1]["updated_at"],
    }
    was["steps"][1] = now["steps"][1]
    assert now == was, "only that step changed"
    assert not (older / "steps").exists()


def test_what_the_older_program_does_to_a_plan_is_taken_in(older, store):
    to(store, "dual", older)
    path = older / "coordination" / "plans" / "pln_0000abcd.json"
    value = json.loads(path.read_text())
    value["steps"][1]["status"] = "testing"
    del value["steps"][2]
    value["steps"].append({"id": "stp_0000dddd", "text": "Ask the old hands", "status": "todo"})
    path.write_text(json.dumps(value, indent=2))
    found = all_of(store)  # opening is enough
    assert found["Ask for them"].value["state"] == "review"
    assert "Tell people" not in found
    assert found["Ask the old hands"].value["plan"] == our_id("pln", "plan", "pln_0000abcd")
    assert json.loads(path.read_text()) == value
    with opened(store) as project:
        assert migration_status(project).counts["conflicts"] == 0


def test_steps_made_here_and_deleted_here(older, store):
    to(store, "dual", older)
    path = older / "coordination" / "plans" / "pln_0000abcd.json"
    with opened(store) as project:
        plan = our_id("pln", "plan", "pln_0000abcd")
        made = project.work.add_steps(plan, [NewStep("Write the changelog")])
        gone = next(one for one in project.journal.entities("step") if one.value["text"] == "Tell people")
        project.journal.mutate(lambda tx: tx.delete("step", gone.item_id), WRITER)
        project.keeper.after_change()
        assert project.keeper.failure == ""
    steps = json.loads(path.read_text())["steps"]
    assert [one["text"] for one in steps] == ["Store the keys", "Ask for them", "Write the changelog"]
    assert (steps[2]["id"], steps[2]["status"]) == (made.steps[0].item_id, "todo")
    value = json.loads(path.read_text())
    value["steps"][2]["status"] = "done"
    path.write_text(json.dumps(value, indent=2))
    assert all_of(store)["Write the changelog"].value["state"] == "done"
    assert all_of(store)["Write the changelog"].item_id == made.steps[0].item_id
    assert contents(older)["coordination/plans/pln_0000abcd.json"][1] == path.read_bytes()


def test_both_sides_changed_a_plan(older, store):
    to(store, "dual", older)
    path = older / "coordination" / "plans" / "pln_0000abcd.json"
    value = json.loads(path.read_text())
    with opened(store) as project:
        value["steps"][1]["status"] = "blocked"
        path.write_text(json.dumps(value, indent=2))
        step = next(one for one in project.journal.entities("step") if one.value["text"] == "Tell people")
        project.journal.mutate(lambda tx: tx.put("step", step.item_id, step.value | {"state": "dropped"}), WRITER)
        project.keeper.after_change()
        assert [one.kind for one in migration_status(project).findings if one.kind != "other"][:1] == ["conflict"]
    to(store, "dual", take="files")
    assert all_of(store)["Ask for them"].value["state"] == "blocked"
    assert all_of(store)["Tell people"].value["state"] == "todo"
    assert json.loads(path.read_text()) == value


@pytest.mark.parametrize(
    ("path", "value", "item_type", "state"),
    [
        ("x.json", {"id": "dec12", "text": "a", "outcome": "rejected"}, "decision", "rejected"),
        ("x.json", {"id": "pln#7", "type": "fix", "text": "a", "status": "completed"}, "plan", "done"),
        ("old/plans/archive/x.json", {"type": "spike", "title": "a", "status": "cancelled"}, "plan", "dropped"),
        ("x.json", {"id": "clm_0badf00d", "agent": "b", "scope": ["src/**"], "status": "stale", "created_at": AT}, "claim", "expired"),
        ("claims/x.json", {"agent": "b", "scope": "src/**", "status": "active", "created_at": AT}, "claim", "expired"),
        ("memory/traps/x.json", {"type": "constraint", "text": "a", "status": "resolved", "severity": "low"}, "trap", "resolved"),
        ("memory/lessons/x.json", {"text": "a", "status": "archived"}, "lesson", "superseded"),
        ("memory/instructions/x.json", {"text": "a", "active": False, "layer": "agent", "scope": "codex"}, "constraint", "resolved"),
        ("coordination/handoffs/x.json", {"from": "a", "to": "b", "narrative": "c", "status": "acknowledged"}, "handoff", "accepted"),
        ("inbox/messages/x.json", {"from": "a", "to": "b", "body": "c", "status": "acknowledged", "created_at": AT}, "message", "answered"),
        ("coordination/inbox/b/msg_00000001.json", {"from": "a", "text": "c", "status": "read", "created_at": AT}, "message", "read"),
        ("coordination/inbox/rejected/cnd_1.json", {"id": "cnd_1", "type": "decision", "text": "c", "status": "rejected"}, "candidate", "rejected"),
        ("candidates/x.json", {"type": "lesson", "text": "c", "status": "accepted"}, "candidate", "accepted"),
        ("elsewhere/x.json", {"id": "A-1", "type": "decision", "text": "c", "status": "deferred"}, "decision", "deferred"),
        ("decisions/x.json", {"text": "a", "status": "approved", "related_paths": []}, "decision", "accepted"),
        ("plans/x.json", {"text": "a", "status": "In Progress"}, "plan", "doing"),
        ("claims/x.json", {"scope": "src/**", "status": "active", "plan_id": "pln#5", "expires_at": LATER}, "claim", "held"),
        ("coordination/inbox/messages/x.json", {"body": "c", "requires_ack": True, "status": "pending"}, "message", "sent"),
        ("candidates/x.json", {"type": "decision", "payload": {"text": "c"}, "status": "pending"}, "candidate", "pending"),
        ("plans/x.json", {"text": "a", "status": "parked"}, "v1_plan", None),
        ("sessions/x.json", {"id": "ses_1", "text": "a", "type": "review"}, "v1_review", None),
    ],
)  # fmt: skip
def test_kinds_and_states(path, value, item_type, state):
    data = json.dumps(value).encode()
    text, document = parse_file(data)
    entity = read_entity(text, document, path, TYPES, now_ms=1_800_000_000_000)
    assert (entity.item_type, entity.payload.get("state")) == (item_type, state)
    assert render_file(entity.item_type, entity.item_id, entity.payload) == data


@pytest.mark.parametrize(
    ("name", "value", "state", "written"),
    [
        ("plan", {"status": "in_progress"}, "done", {"status": "done"}),
        ("plan", {"status": "todo"}, "doing", {"status": "in_progress"}),
        ("plan", {"status": "doing"}, "todo", {"status": "todo"}),
        ("plan", {"state": "todo"}, "doing", {"state": "doing"}),
        ("decision", {"status": "approved"}, "deferred", {"status": "deferred"}),
        ("decision", {"outcome": "pending"}, "accepted", {"outcome": "approved"}),
        ("decision", {"status": "proposed"}, "accepted", {"status": "accepted"}),
        ("instruction", {"active": True}, "resolved", {"active": False}),
        ("instruction", {"active": True}, "expired", {"active": False, "periplus_state": "expired"}),
        ("decision", {"created_at": AT}, "superseded", {"status": "superseded", "created_at": AT}),
    ],
)
def test_a_state_is_written_in_their_words(name, value, state, written):
    value = {"text": "a", **value}
    text, document = parse_file(json.dumps(value).encode())
    entity = read_entity(text, document, f"{name}s/x.json", TYPES)
    data = render_file(entity.item_type, entity.item_id, entity.payload | {"state": state})
    assert json.loads(data) == {"text": "a", **written}
    again = read_entity(*parse_file(data), f"{name}s/x.json", TYPES)
    assert again.payload["state"] == state, "it is read as what was written"


STATED = st.sampled_from(["todo", "in_progress", "testing", "blocked", "done", "parked", 7, None])
ELEMENTS = st.lists(
    st.fixed_dictionaries(
        {"text": st.sampled_from(["a", "b", "", "ü"])},
        optional={"id": st.sampled_from(["stp_1", "stp_2", "stp_00000000000000aa", "", 3]), "status": STATED, "done": st.booleans(),
                  "depends_on": st.lists(st.sampled_from(["stp_1", "stp_2", 1, 2, "x"]), max_size=2), "priority": st.sampled_from(["low", 3, 300])},
    )
    | st.sampled_from(["just a text", 4, None, [], {"n": 1}]),
    max_size=5,
)  # fmt: skip


KEYS = st.sampled_from(
    "id text title body narrative status state outcome active priority tags related_paths scope scopes files agent author from to recipient holder plan_id"
    " depends_on steps expires_at created_at updated_at requires_ack thread_id ref short_label type severity periplus_state periplus_about fields v1".split()
)
LEAVES = st.none() | st.booleans() | st.integers(-1, 2**60) | st.floats() | st.sampled_from(
    ["", "a", "ü", "\ud800", "src/a.py", "src/{a,b}/", "pln#1", "pln_1", "active", "approved", "in_progress", "done", "held", "trap", "low", AT, LATER]
)  # fmt: skip
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6
)
FOLDERS = [
    "decisions",
    "instructions",
    "plans",
    "steps",
    "claims",
    "handoffs",
    "inbox/ada",
    "inbox",
    "candidates",
    "runtime",
    "sessions",
]


@pytest.mark.slow
@given(
    st.dictionaries(KEYS, VALUES, max_size=9),
    st.sampled_from(FOLDERS),
    st.sampled_from(["done", "held", "accepted", "read", "closed"]),
)
@settings(max_examples=600, deadline=None)
def test_whatever_it_says_it_comes_back(document, folder, state):
    data = json.dumps(document).encode()
    path = f"{folder}/x.json"
    try:
        one = read_entity(
            *parse_file(data),
            path,
            TYPES,
            allow_secrets=True,
            names={"pln#1": "pln_0000000000000001"},
            present=(),
            now_ms=1_800_000_000_000,
        )
    except PeriplusError:
        return
    payload = json.loads(canonical(one.payload))
    held = {part.item_id: part.payload for part in one.parts}
    assert render_file(one.item_type, one.item_id, payload, held) == data
    if one.item_type in TYPES and state in MEMORY_TYPES[one.item_type].transitions:
        changed = render_file(one.item_type, one.item_id, payload | {"state": state}, held)
        again = read_entity(*parse_file(changed), path, TYPES, allow_secrets=True)
        assert again.payload["state"] == state
        before, after = json.loads(data), json.loads(changed)
        differ = {key for key in before.keys() | after.keys() if repr(before.get(key)) != repr(after.get(key))}
        assert differ <= {"state", "status", "outcome", "active", "periplus_state"}


@pytest.mark.slow
@given(ELEMENTS, st.data())
@settings(max_examples=300, deadline=None)
def test_a_plan_and_its_steps_come_back(elements, data):
    whole = json.dumps({"id": "pln_1", "text": "a plan", "steps": elements, "rest": [1.50]}).encode()
    plan = read_entity(*parse_file(whole), "plans/pln_1.json", TYPES)
    held = {part.item_id: part.payload for part in plan.parts}
    assert render_file("plan", plan.item_id, plan.payload, held) == whole
    assert part_ids(plan.item_id, plan.payload) == list(held)
    if not held:
        return
    one = data.draw(st.sampled_from(sorted(held)))
    state = data.draw(st.sampled_from(["todo", "doing", "blocked", "review", "done", "dropped"]))
    held[one] = held[one] | {"state": state}
    changed = render_file("plan", plan.item_id, plan.payload, held)
    again = read_entity(*parse_file(changed), "plans/pln_1.json", TYPES)
    assert {part.item_id: part.payload["state"] for part in again.parts} == {
        key: step["state"] for key, step in held.items()
    }
    gone = render_file("plan", plan.item_id, plan.payload, held | {one: None})
    assert len(json.loads(gone)["steps"]) == len(elements) - 1


@pytest.mark.parametrize(
    ("command", "path", "written"),
    [
        (("inbox", "read", "msg_00000001", "--as", "claude"), "coordination/inbox/claude/msg_00000001.json", {"status": "read"}),
        (("inbox", "answer", "msg_00000001", "On it", "--as", "claude"), "coordination/inbox/claude/msg_00000001.json", {"status": "acknowledged"}),
        (("handoff", "accept", "hnd_00000001", "--as", "claude"), "coordination/handoffs/hnd_00000001.json", {"status": "accepted", "accepted_by": "claude"}),
        (("candidates", "refuse", "cnd_00000001"), "coordination/inbox/cnd_00000001.json", {"status": "rejected"}),
        (("claim", "release", "clm_00000001", "--as", "codex"), "coordination/claims/clm_00000001.json", {"status": "released"}),
        (("set", "pln_0000ffff", "priority=90"), "coordination/plans/pln_0000ffff.json", {"priority": "critical", "periplus_priority": 90}),
        (("state", "dec#1", "superseded"), "memory/decisions/dec_00000001.json", {"status": "superseded"}),
    ],
)  # fmt: skip
def test_what_is_done_here_is_written_in_the_file(tmp_path, older, store, command, path, written):
    to(store, "dual", older)
    before = contents(older)
    Shell(tmp_path / "project", tmp_path)(*command)
    after = contents(older)
    assert {name for name in before if before[name] != after[name]} == {path}
    was, now = (json.loads(found[path][1]) for found in (before, after))
    assert {key: now[key] for key in now if now[key] != was.get(key) and key != "updated_at"} == written


def test_nobody_waits_for_what_is_nowhere(tmp_path, older, store):
    """The older program takes what is done out of its folder."""
    path = "coordination/plans/pln_0000eeee.json"
    value = {
        "id": "pln_0000eeee",
        "text": "Next",
        "status": "todo",
        "depends_on": ["pln_archived1", "pln#1", "pln_0000abcd"],
        **BOTH,
    }
    value["steps"] = [{"id": "stp_1", "text": "one", "status": "todo", "depends_on": ["stp_gone"]}]
    write(older, path, value)
    text = (older / path).read_bytes()
    to(store, "dual", older)
    found = all_of(store)
    assert found["Next"].value["depends_on"] == [our_id("pln", "plan", "pln_0000abcd")]
    assert "depends_on" not in found["one"].value
    with opened(store) as project:
        assert project.keeper.render(found["Next"]) == text
        project.journal.mutate(
            lambda tx: tx.put("plan", found["Next"].item_id, found["Next"].value | {"state": "doing"}), WRITER
        )
        project.keeper.after_change()
    assert json.loads((older / path).read_text()) == value | {"status": "in_progress"}


def test_a_claim_of_before_is_its_holders_own(older, store):
    to(store, "dual", older)
    claim = all_of(store)["the login"]
    assert holds(Writer.named("codex", session="another"), claim)
    assert not holds(Writer.named("claude"), claim)


def test_scopes_in_one_text():
    value = {"agent": "b", "scope": "src/a.py, src/{b,c}/", "status": "active", "created_at": AT}
    assert read_entity(*parse_file(json.dumps(value).encode()), "claims/x.json", TYPES).payload["scopes"] == [
        "src/a.py, src/{b,c}/"
    ]
    value["scope"] = "src/a.py, docs/"
    assert read_entity(*parse_file(json.dumps(value).encode()), "claims/x.json", TYPES).payload["scopes"] == [
        "src/a.py",
        "docs/",
    ]
    long = {"text": "a", "scope": "/" * 3_000_000 + ":"}
    assert "about" not in read_entity(*parse_file(json.dumps(long).encode()), "notes/x.json", TYPES).payload


# -- stores that an earlier version migrated ---------------------------------------------------------------------------


PLAN = "coordination/plans/pln_0000abcd.json"
DECISION = "memory/decisions/dec_00000001.json"


def kept_whole(older, store, path, item_type, change=lambda value: value):
    """Have a file been taken in as the first reading did it."""
    text = (older / path).read_text()
    value = json.loads(text)
    name = item_type.removeprefix("v1_")
    origin = {"id": value["id"], "type": name, "path": path, "text": text}
    payload = change({"v": 1, "fields": value, "v1": origin})
    item_id = our_id("v1", name, value["id"])
    (older / path).rename(older / "aside")
    with opened(store) as project:
        project.keeper.know(item_type)
        project.hold()
        project.journal.mutate(lambda tx: tx.put(item_type, item_id, payload), WRITER)
    (older / "aside").rename(older / path)
    return item_id


@pytest.fixture
def migrated(older, store, tmp_path):
    """A store that goes with a folder in which two files are not seen yet."""
    for path in (PLAN, DECISION):
        (older / path).rename(tmp_path / path.replace("/", "-"))
    to(store, "dual", older)
    for path in (PLAN, DECISION):
        (tmp_path / path.replace("/", "-")).rename(older / path)
    return older


def test_what_was_kept_whole_is_converted_where_nobody_changed_it(tmp_path, migrated, store):
    (migrated / DECISION).rename(tmp_path / "decision")
    was = kept_whole(migrated, store, PLAN, "v1_feat")
    (tmp_path / "decision").rename(migrated / DECISION)
    decision = kept_whole(migrated, store, DECISION, "v1_decision")
    before = contents(migrated)
    to(store, "dual")
    assert contents(migrated) == before
    found = all_of(store)
    assert (found["Passkeys for the login"].item_type, found["Hash with argon2"].value["state"]) == ("plan", "accepted")
    assert found["Ask for them"].value["plan"] == found["Passkeys for the login"].item_id
    with opened(store) as project:
        assert project.journal.get("v1_feat", was) is None
        assert project.journal.get("v1_decision", decision) is None
        assert "missing" not in [one.kind for one in migration_status(project).findings]
    done = to(store, "dual")
    assert (done.counts["imported"], done.counts["conflicts"]) == (0, 0)


def test_what_was_kept_whole_and_changed_here_stays_until_it_is_written(migrated, store):
    def change(payload):
        return payload | {"fields": payload["fields"] | {"text": "Passkeys, and nothing else"}}

    was = kept_whole(migrated, store, PLAN, "v1_feat", change)
    with opened(store) as project:
        assert project.journal.get("v1_feat", was) is not None
    assert json.loads((migrated / PLAN).read_text())["text"] == "Passkeys, and nothing else"
    to(store, "dual")
    assert all_of(store)["Passkeys, and nothing else"].item_type == "plan"


def test_what_the_first_reading_read_is_written_as_it_read_it(older, store):
    """The payload of a decision whose paths the first reading left to the other fields."""
    path = "memory/decisions/dec_00000003.json"
    value = {"id": "dec_00000003", "type": "decision", "text": "a", "status": "accepted", "related_paths": ["src/a.py"]}
    write(older, path, value)
    text = (older / path).read_text()
    payload = {
        "v": 1, "text": "a", "state": "accepted", "provenance": {"kind": "import", "name": "v1", "source": path},
        "fields": {"status": "accepted", "related_paths": ["src/a.py"]} | {}, "v1": {"id": "dec_00000003", "type": "decision", "path": path, "text": text},
    }  # fmt: skip
    payload["fields"].pop("status")
    assert render_file("decision", "dec_x", payload).decode() == text
    assert json.loads(render_file("decision", "dec_x", payload | {"state": "superseded"})) == value | {
        "status": "superseded"
    }


# -- a journal of segments ---------------------------------------------------------------------------------------------


def record(seq, action, name, old_id, payload=None, **more):
    one = {
        "v": 2,
        "seq": seq,
        "ts": AT,
        "writer": "w_1-abc",
        "agent": "codex",
        "action": action,
        "item_type": name,
        "item_id": old_id,
    }
    return json.dumps(one | ({"payload": payload} if payload is not None else {}) | more) + "\n"


@pytest.fixture
def segments(older):
    decision = FILES["memory/decisions/dec_00000001.json"]
    plan = FILES[PLAN]
    (older / "events").mkdir()
    (older / "events" / "meta.json").write_text(
        '{"next_seq": 9, "active_segment": "seg-00000005.jsonl", "entity_revs": {}}'
    )
    (older / "events" / "seg-00000001.jsonl").write_text(
        json.dumps({"v": 2, "seq": 1, "ts": AT, "writer": "w", "agent": "system", "action": "journal_note", "item_type": "journal", "payload": {"kind": "genesis"}}) + "\n"
        + record(2, "backfill", "decision", "dec_00000001", decision | {"text": "Hash with bcrypt"})
        + record(3, "create", "trap", "trp_gone0001", {"id": "trp_gone0001", "text": "Bcrypt cuts at 72 bytes", "severity": "high", "status": "active", **BOTH})
        + record(4, "update", "plan", "pln_0000abcd", plan | {"status": "todo"})
    )  # fmt: skip
    (older / "events" / "seg-00000005.jsonl").write_text(
        record(5, "update", "decision", "dec_00000001", decision)
        + record(6, "delete", "trap", "trp_gone0001")
        + record(7, "create", "note", "rtn_leak0001", {"id": "rtn_leak0001", "text": f"use {SECRET}"})
        + record(8, "delete", "runtime_note", "rtn_leak0001")
        + record(9, "update", "decision", "dec_00000002", agent="\ud800")
        + record(10, ["delete"], {}, 7)
        + '{"v": 2, "seq": 9, "ts'
    )
    return older


def test_segments_are_read_as_history(tmp_path, segments, store):
    before = contents(segments)
    done = to(store, "dual", segments)
    assert contents(segments) == before
    assert (done.counts["entities"], done.counts["refused"], done.counts["history"]) == (len(FILES), 0, 3)
    assert (done.counts["log_lines"], done.counts["log_torn"], done.counts["orphan_events"]) == (11, 1, 1)
    found = all_of(store)
    assert (found["Hash with argon2"].rev, found["Passkeys for the login"].rev) == (2, 2)
    assert "Bcrypt cuts at 72 bytes" not in found
    shell = Shell(tmp_path / "project", tmp_path)
    assert "record 2" in shell("log", "--id", found["Hash with argon2"].item_id).out
    trap = our_id("trp", "trap", "trp_gone0001")
    assert shell("log", "--id", trap).out.count(trap) >= 2
    assert SECRET not in "".join(
        path.read_text() for path in (tmp_path / "project").rglob("*.jsonl") if "archive" not in path.parts
    )
    again = to(store, "dual")
    assert (again.counts["imported"], again.counts["history"]) == (0, 0)
    to(store, "primary")
    assert (segments / "events" / "seg-00000001.jsonl").exists()


# -- stopped anywhere --------------------------------------------------------------------------------------------------


def what_is_there(store):
    with opened(store) as project:
        return {(one.item_type, one.item_id): one.value for one in project.journal.entities()}


@pytest.mark.slow
def test_stopped_anywhere_and_run_again(tmp_path, segments, store):
    shutil.copytree(store, tmp_path / "fresh" / ".periplus")
    calls = StoppingFiles(-1)
    with Project(store, WRITER, files=calls) as project:
        migrate(project, "dual", source=os.fspath(segments))
    expected, files = what_is_there(store), contents(segments)
    for at in range(0, len(calls.calls), 7):
        here = os.fspath(tmp_path / f"at{at}" / ".periplus")
        shutil.copytree(tmp_path / "fresh" / ".periplus", here)
        try:
            with Project(here, WRITER, files=StoppingFiles(at, share=0.5)) as project:
                migrate(project, "dual", source=os.fspath(segments))
        except Stop:
            pass
        to(here, "dual", segments)
        assert what_is_there(here) == expected, f"stopped at call {at}: {calls.calls[at]}"
        assert contents(segments) == files
