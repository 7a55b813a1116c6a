"""Changes of memory through the page: the rules and messages of the commands, stale forms, and what strangers wrote."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("starlette")

from cli_support import shared_project
from periplus.base.errors import ConflictError, RefusedError, SecretFoundError, UsageError
from periplus.memory import Memory
from periplus.memory.coordination.plans import NewStep
from periplus.memory.reflection.candidates import record_candidates
from periplus.project import Project
from periplus.web.pages.memory import acts
from support import ADA, record_count
from web_memory_support import do, form_of, is_harmless, remembered, shown, write_hostile
from web_support import Site

DECLARED = """
[types.runbook]
prefix = "rbk"
meaning = "what to do when"
[types.runbook.schema]
type = "object"
properties = { steps = { type = "array", items = { type = "string" } }, minutes = { type = "integer" } }
"""
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture
def decision(ada):
    """A decision about a file of the project."""
    with open(os.path.join(ada.folder, "auth.py"), "w", encoding="utf-8") as file:
        file.write("def hash_password(text):\n    return text\n")
    memory = Memory("decision", "Passwords are hashed with argon2id", tags=("auth",), about=("auth.py",))
    return ada.remember(memory).entity.item_id


@pytest.fixture
def candidate(ada, tmp_path):
    """A lesson of another project that waits for a decision."""
    other = tmp_path / "other"
    other.mkdir()
    Project.init(os.fspath(other))
    with Project.open(os.fspath(other), ADA) as project:
        project.remember(Memory("lesson", "Run the migrations first"))
        record_candidates(ada.journal, "elsewhere", list(project.journal.entities("lesson")), ada.writer)
    [found] = ada.inbox()
    return found.item_id


# -- what is done ------------------------------------------------------------------------------------------------------


def test_confirming_anchors_it_anew(ada, decision):
    with open(os.path.join(ada.folder, "auth.py"), "a", encoding="utf-8") as file:
        file.write("# more\n")
    assert ada.ground().stale(ada.show(decision))
    done = do(ada, acts.confirm, decision)
    entity = ada.show(decision)
    assert done == (f"/memory/{decision}", f"Confirmed {decision}, record {entity.seq}.")
    assert not ada.ground().stale(entity)
    assert entity.value["confirmed"].endswith(" ada")


def test_confirming_with_new_anchors_and_a_new_end(ada, decision):
    os.rename(os.path.join(ada.folder, "auth.py"), os.path.join(ada.folder, "login.py"))
    with open(os.path.join(ada.folder, "login.py"), "w", encoding="utf-8") as file:
        file.write("entirely = 'another'\n")
    with pytest.raises(UsageError, match="cannot be found again"):
        do(ada, acts.confirm, decision)
    do(ada, acts.confirm, decision, about="login.py\n")
    assert [one["ref"] for one in ada.show(decision).value["about"]] == ["login.py"]
    note = ada.remember(
        Memory("note", "The port is taken", extra={"expires": "2001-01-01T00:00:00.000Z"})
    ).entity.item_id
    do(ada, acts.confirm, note, expires="2030-01-31")
    assert ada.show(note).value["expires"] == "2030-01-31T00:00:00.000Z"
    with pytest.raises(UsageError, match="is not a time"):
        do(ada, acts.confirm, note, expires="tomorrow")
    with pytest.raises(UsageError, match="does not expire"):
        do(ada, acts.confirm, decision, expires="2030-01-31")


def test_changing_the_state_says_what_changed_with_it(ada):
    made = ada.work.make_plan("Move", [NewStep("Dig"), NewStep("Fill")])
    done = do(ada, acts.change_state, made.plan.item_id, state="dropped", reason="not worth it")
    assert done.message.startswith(f"{made.plan.item_id} is dropped now, records ")
    assert done.message.endswith("2 other entities changed with it.")
    assert ada.show(made.plan.item_id).value["reason"] == "not worth it"


def test_superseding_leads_to_the_new_entity(ada, decision):
    done = do(ada, acts.evolve, decision, text="Passwords are hashed with argon2id in 64 MiB")
    [new] = [one for one in ada.journal.entities("decision") if one.item_id != decision]
    assert done.location == f"/memory/{new.item_id}"
    assert f"{decision} was superseded by {new.item_id}, records " in done.message
    assert ada.show(decision).value["state"] == "superseded"
    assert new.value["tags"] == ["auth"]


def test_setting_fields_writes_only_what_the_form_changed(ada, decision):
    before = ada.show(decision).value
    unchanged = {
        "field__text": before["text"],
        "field__tags": "auth",
        "field__about": "auth.py",
        "field__confidence": "100",
    }
    count = record_count(ada)
    assert do(ada, acts.set_fields, decision, **unchanged).message == "Nothing changed."
    assert record_count(ada) == count
    done = do(
        ada,
        acts.set_fields,
        decision,
        **{**unchanged, "field__tags": "auth, crypto", "field__rationale": "It resists\r\nGPUs"},
    )
    entity = ada.show(decision)
    assert done.message == f"Set rationale, tags of {decision}, record {entity.seq}."
    assert entity.value["tags"] == ["auth", "crypto"]
    assert entity.value["about"] == before["about"]
    fields = {
        "field__confidence": "60",
        "field__alternatives": "bcrypt\nscrypt\n",
        "field__evidence": "commit:abc123\nrecord:1",
    }
    do(ada, acts.set_fields, decision, **fields)
    value = ada.show(decision).value
    assert (value["confidence"], value["alternatives"]) == (60, ["bcrypt", "scrypt"])
    assert [(one["kind"], one["ref"]) for one in value["evidence"]] == [("commit", "abc123"), ("record", "1")]
    do(ada, acts.set_fields, decision, field__rationale="", field__tags=" ")
    assert not {"rationale", "tags"} & ada.show(decision).value.keys()


def test_the_quote_of_evidence_stays_where_another_is_added(ada):
    payload = {"v": 1, "text": "Seen", "evidence": [{"kind": "commit", "ref": "abc", "quote": "as it said"}]}
    ada.journal.mutate(lambda transaction: transaction.put("note", "not_0000000000000001", payload), ada.writer)
    do(ada, acts.set_fields, "not_0000000000000001", field__evidence="commit:abc\nrecord:1")
    assert ada.show("not_0000000000000001").value["evidence"] == [*payload["evidence"], {"kind": "record", "ref": "1"}]


def test_a_field_that_cannot_be_set_is_no_part_of_the_form(ada, decision):
    forged = {"field__state": "superseded", "field__author": "bob", "field__created": "", "field__relations": "[]"}
    assert do(ada, acts.set_fields, decision, **forged).message == "Nothing changed."
    assert ada.show(decision).value["author"] == "ada"


def test_fields_of_a_declared_type_are_set_as_its_schema_has_them(folder):
    with open(folder / ".periplus/config.toml", "a", encoding="utf-8") as file:
        file.write(DECLARED)
    with Project.open(os.fspath(folder), ADA) as project:
        item_id = project.remember(Memory("runbook", "Restart the queue", extra={"minutes": "5"})).entity.item_id
        do(project, acts.set_fields, item_id, field__minutes="7", field__steps='["stop", "start"]')
        value = project.show(item_id).value
        assert (value["minutes"], value["steps"]) == (7, ["stop", "start"])
        with pytest.raises(UsageError, match="not of type 'integer'"):
            do(project, acts.set_fields, item_id, field__minutes="many")
        unchanged = {f"field__{one.name}": one.value for one in shown(project, item_id)["forms"].inputs}
        assert do(project, acts.set_fields, item_id, **unchanged).message == "Nothing changed."


def test_linking_has_its_consequences(ada, decision):
    other = ada.remember(Memory("decision", "Passwords are hashed with scrypt")).entity.item_id
    done = do(ada, acts.link, decision, kind="supersedes", target=other)
    assert done.message.endswith("1 other entity changed with it.")
    assert ada.show(other).value["state"] == "superseded"
    assert do(ada, acts.link, decision, kind="supersedes", target=other).message == "Nothing changed."


def test_a_candidate_is_accepted_as_it_is_or_in_other_words(ada, candidate):
    done = do(ada, acts.accept, candidate, text="Run the migrations first", type="lesson")
    [lesson] = ada.journal.entities("lesson")
    assert done == (f"/memory/{lesson.item_id}", f"Accepted as lesson {lesson.item_id}, record {lesson.seq}.")
    assert lesson.value["provenance"]["kind"] == "other_project"
    with pytest.raises(ConflictError, match="was accepted already"):
        do(ada, acts.accept, candidate)


def test_a_candidate_becomes_another_type_in_other_words(ada, candidate):
    do(ada, acts.accept, candidate, text="Migrations run before tests", type="constraint")
    [rule] = ada.journal.entities("constraint")
    assert rule.value["text"] == "Migrations run before tests"


def test_a_candidate_is_refused_with_its_reason(ada, candidate):
    done = do(ada, acts.refuse, candidate, reason="not ours", back="1")
    assert done.location == "/memory?type=candidate&state=pending"
    assert ada.show(candidate).value["reason"] == "not ours"
    assert ada.inbox() == []


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("act", "fields"),
    [
        (acts.confirm, {}), (acts.change_state, {"state": "deferred"}), (acts.evolve, {"text": "Otherwise"}),
        (acts.set_fields, {"field__text": "Otherwise"}), (acts.link, {"kind": "references", "target": "dec_0000000000000001"}),
    ],
)  # fmt: skip
def test_a_form_of_an_older_version_is_refused_with_what_changed(ada, bob, decision, act, fields):
    version = ada.show(decision).version
    bob.work.set_fields(decision, {"rationale": "It resists GPUs"})
    count = record_count(ada)
    with pytest.raises(ConflictError, match=rf"changed since this page was made: rationale by bob \(record {count}\)"):
        do(ada, act, decision, version=version, **fields)
    with pytest.raises(UsageError, match="does not say which version"):
        do(ada, act, decision, version="", **fields)
    with pytest.raises(ConflictError):
        do(ada, act, decision, version="0" * 64, **fields)
    assert record_count(ada) == count


@pytest.mark.parametrize("act", [acts.accept, acts.refuse])
def test_a_candidate_that_somebody_decided_on_meanwhile_is_left(ada, bob, candidate, act):
    version = ada.show(candidate).version
    bob.refuse(candidate)
    with pytest.raises(ConflictError, match="state by bob"):
        do(ada, act, candidate, version=version)


def test_a_field_that_was_removed_meanwhile_is_named(ada, bob, decision):
    version = ada.show(decision).version
    bob.work.set_fields(decision, {"tags": None})
    with pytest.raises(ConflictError, match="tags was removed"):
        do(ada, acts.confirm, decision, version=version)


@pytest.mark.parametrize(
    ("act", "fields", "said"),
    [
        (acts.change_state, {"state": "resolved"}, "cannot become|can become"),
        (acts.change_state, {"state": ""}, "choose a state"),
        (acts.evolve, {"text": ""}, "needs a text"),
        (acts.set_fields, {"field__text": " "}, "needs a text"),
        (acts.set_fields, {"field__confidence": "many"}, "whole number"),
        (acts.set_fields, {"field__confidence": "101"}, "not between 0 and 100"),
        (acts.set_fields, {"field__tags": "x" * 300}, "limit is 256"),
        (acts.set_fields, {"field__text": "x" * 8_001}, "limit is 8,000"),
        (acts.set_fields, {"field__evidence": "hearsay"}, "is not evidence"),
        (acts.link, {"kind": "references", "target": ""}, "name the id"),
        (acts.link, {"kind": "loves", "target": "dec_0000000000000001"}, "not a relation"),
        (acts.link, {"kind": "references", "target": "dec_0000000000000001"}, "nothing has an id"),
    ],
)  # fmt: skip
def test_what_the_commands_refuse_is_refused_with_their_words(ada, decision, act, fields, said):
    count = record_count(ada)
    with pytest.raises(UsageError, match=said):
        do(ada, act, decision, **fields)
    assert record_count(ada) == count


def test_a_secret_is_not_written_by_any_form(ada, decision, candidate):
    count = record_count(ada)
    for act, item_id, fields in (
        (acts.evolve, decision, {"text": f"The token is {SECRET}"}),
        (acts.set_fields, decision, {"field__rationale": f"The token is {SECRET}"}),
        (acts.change_state, decision, {"state": "deferred", "reason": f"The token is {SECRET}"}),
        (acts.accept, candidate, {"text": f"The token is {SECRET}", "type": "lesson"}),
        (acts.refuse, candidate, {"reason": f"The token is {SECRET}"}),
    ):
        with pytest.raises(SecretFoundError):
            do(ada, act, item_id, **fields)
    assert record_count(ada) == count


def test_what_ended_is_not_confirmed_and_others_work_is_left_unless_it_is_forced(ada, bob, decision):
    ada.work.change_state([decision], "superseded")
    with pytest.raises(UsageError, match="no longer in force"):
        do(ada, acts.confirm, decision)
    step = ada.work.make_plan("Move", [NewStep("Dig")]).steps[0].item_id
    bob.work.take(step=step)
    with pytest.raises(RefusedError, match="bob"):
        do(ada, acts.change_state, step, state="done")
    do(ada, acts.change_state, step, state="done", force="1")
    assert ada.show(step).value["state"] == "done"


def test_work_of_a_dispatch_is_not_changed_by_hand(ada):
    payload = {"v": 1, "text": "Do it all", "state": "open"}
    ada.journal.mutate(lambda transaction: transaction.put("dispatch", "dsp_0000000000000001", payload), ada.writer)
    with pytest.raises(UsageError, match="changes by the work"):
        do(ada, acts.change_state, "dsp_0000000000000001", state="done")


# -- in a browser's words ----------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """A project of its own, that no test has open beside the server."""
    place = tmp_path / "project"
    place.mkdir()
    Project.init(os.fspath(place))
    return place


def test_every_form_of_the_page_works_as_a_browser_sends_it(folder):
    [item_id] = remembered(
        folder,
        Memory(
            "decision",
            'Passwords are <hashed> with "argon2id" & salt',
            tags=("a b",),
            extra={"rationale": "first\nsecond"},
        ),
    )
    base = f"/memory/{item_id}"
    with Site(folder) as site:
        page = site.get(base)
        unchanged = form_of(page, f"{base}/set")
        assert unchanged["field.text"] == 'Passwords are <hashed> with "argon2id" & salt'
        assert "Nothing changed." in site.post(f"{base}/set", **unchanged).text
        answer = site.post(f"{base}/set", **{**unchanged, "field.rationale": "third"})
        assert "Set rationale of" in answer.page.all("p", class_="message")[0].text
        answer = site.post(f"{base}/confirm", **form_of(site.get(base), f"{base}/confirm"))
        assert f"Confirmed {item_id}, record 3." in answer.text
        stale = form_of(page, f"{base}/state")
        refused = site.post(f"{base}/state", **stale)
        assert refused.status == 409
        assert (
            "changed since this page was made: confirmed by ada (record 3), rationale by ada (record 2)" in refused.text
        )
        answer = site.post(
            f"{base}/evolve", **{**form_of(site.get(base), f"{base}/evolve"), "text": "Passwords are peppered, too"}
        )
        assert "was superseded by" in answer.text
        assert "Passwords are peppered, too" in answer.page.all("h1")[0].text


def test_a_read_only_page_has_no_forms_and_takes_none(folder):
    [item_id] = remembered(folder, Memory("decision", "Ports start at 8000"))
    with Project.open(os.fspath(folder), ADA) as project:
        version = project.show(item_id).version
    with Site(folder, is_read_only=True) as site:
        page = site.get(f"/memory/{item_id}")
        assert (page.status, page.page.all("form", method="post")) == (200, [])
        assert "Change it" not in page.text
        assert site.post(f"/memory/{item_id}/confirm", version=version).status == 409
    with Project.open(os.fspath(folder), ADA) as project:
        assert project.show(item_id).version == version


def test_a_conflict_of_clones_is_shown_with_both_values_and_what_ends_it(tmp_path):
    people = shared_project(tmp_path, "bob")
    ada, bob = people["ada"], people["bob"]
    old = ada.json("remember", "--type", "decision", "Ports start at 8000").entity.id
    bob("sync", "--with", ada.folder)
    ada("set", old, "text=Ports start at 8100")
    bob("set", old, "text=Ports start at 8200", "--as", "bob")
    ada("sync", "--with", bob.folder)
    with Site(ada.folder) as site:
        page = site.get(f"/memory/{old}")
        assert page.status == 200
        [said] = page.page.all("section", class_="problem")
        assert "In conflict: text." in said.text
        assert "Ports start at 8100" in said.text
        assert "Ports start at 8200" in said.text
        assert f"periplus set {old} text=VALUE" in said.text
        assert "joined from" in page.text
        assert "of another clone" in page.text
        fields = form_of(page, f"/memory/{old}/set")
        answer = site.post(f"/memory/{old}/set", **{**fields, "field.text": "Ports start at 8300"})
        assert answer.page.all("section", class_="problem") == []


# -- what strangers wrote ----------------------------------------------------------------------------------------------


def test_hostile_text_in_every_field_is_shown_and_does_nothing(folder):
    ids = write_hostile(folder)
    with Site(folder) as site:
        for item_id in ids:
            for address in (f"/memory/{item_id}", f"/memory/{item_id}?at=12"):
                page = site.get(address)
                assert page.status in (200, 404)
                assert is_harmless(page)
