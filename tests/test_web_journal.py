"""The journal in a browser: records, the past, proofs, and undo as it was shown."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from periplus.journal import Writer
from periplus.journal.proofs.proof_file import verify_proof
from periplus.memory.writing.remember import Memory
from periplus.project import Project
from periplus.web.pages.journal.field_differences import LINE_CHARACTERS_MAX, LINES_MAX, field_differences
from periplus.web.pages.journal.past import difference, past
from periplus.web.pages.journal.record import record
from periplus.web.pages.journal.records import ROWS, journal
from periplus.web.pages.journal.undo import undo_plan
from periplus.web.rendering.json_text import JSON_CHARACTERS_MAX, json_markup
from web_support import Site, asked

HOSTILE = '<script>alert(1)</script>\u202egnp.exe\x1b[31m"><img src=x onerror=alert(1)> javascript:alert(1) \x00'
ADA = Writer.named("ada", session="first")
BEN = Writer.named("ben", session="second")


def opened(folder, writer=ADA):
    return Project.open(str(folder), writer)


def remember(project, text, item_type="decision"):
    return project.remember(Memory(item_type, text)).entity.item_id


@pytest.fixture
def folder(tmp_path):
    """Two sessions: the first remembers three things, the second changes one of them and adds one."""
    Project.init(str(tmp_path))
    with opened(tmp_path) as project:
        remember(project, "Passwords are hashed")
        remember(project, "Never log a token", "constraint")
        remember(project, HOSTILE, "note")
    with opened(tmp_path, BEN) as project:
        held = next(one for one in project.journal.entities("constraint"))
        project.journal.mutate(
            lambda t: t.put("constraint", held.item_id, {**held.value, "text": "Never log a hash"}), BEN
        )
        remember(project, "Tests run twice")
    return tmp_path


@pytest.fixture
def site(folder):
    with Site(folder) as site:
        yield site


def rows(view):
    return [(row.seq, row.writer) for row in view.values["page"].rows]


def test_records_come_newest_first_and_are_filtered(folder):
    with opened(folder) as project:
        assert rows(journal(asked(project, "/journal"))) == [(5, "ben"), (4, "ben"), (3, "ada"), (2, "ada"), (1, "ada")]
        assert rows(journal(asked(project, "/journal", type="constraint"))) == [(4, "ben"), (2, "ada")]
        assert rows(journal(asked(project, "/journal", by="ada", before=3))) == [(2, "ada"), (1, "ada")]
        assert rows(journal(asked(project, "/journal", session="second"))) == [(5, "ben"), (4, "ben")]
        assert rows(journal(asked(project, "/journal", show="observations"))) == []
        day = project.journal.index.records("seq = ?", (1,), 1)[0].ts[:10]
        assert len(rows(journal(asked(project, "/journal", since=day, until=day)))) == 5
        assert rows(journal(asked(project, "/journal", until="2001-01-01"))) == []
        view = journal(asked(project, "/journal", type="note", by="ada", session="first"))
        assert view.command == "periplus log --type note --writer ada --session first"


def test_pages_of_records_continue_where_the_last_ended(folder):
    with opened(folder) as project:

        def many(transaction):
            for at in range(ROWS):
                transaction.put(
                    "note",
                    f"not_{at:016d}".replace("1", "z"),
                    {"v": 1, "text": f"number {at}", "created": "2026-11-28T09:30:00.000Z"},
                )

        project.journal.mutate(many, ADA)
        first = journal(asked(project, "/journal")).values["page"]
        before = re.search(r"before=([^&]+)", first.older)[1].replace("%3A", ":")
        second = journal(asked(project, "/journal", before=before)).values["page"]
        assert [row.seq for row in (*first.rows, *second.rows)] == list(range(ROWS + 5, 0, -1))
        assert second.older == ""


@pytest.mark.parametrize("query", ["before=x", "before=-1", "since=yesterday", "show=everything", "before=" + "9" * 40])
def test_wrong_filters_are_told(site, query):
    response = site.get(f"/journal?{query}")
    assert response.status == 400
    assert "Not understood" in response.text


def test_one_record_shows_its_fields_its_neighbours_and_its_entity(site, folder):
    response = site.get("/journal/4")
    assert response.status == 200
    links = response.page.links()
    with opened(folder) as project:
        row = project.journal.index.records("seq = ?", (4,), 1)[0]
    assert {
        "/journal/3",
        "/journal/5",
        "/journal/2",
        f"/memory/{row.item_id}",
        f"/memory/{row.item_id}?at=4",
        "/journal/proof?seq=4",
    } <= set(links)
    assert row.leaf.hex() in response.text
    assert "Never log a hash" in response.text
    assert site.get("/journal/2").page.all("a", href="/journal/4")
    assert site.get("/journal/6").status == 404
    assert site.get("/journal/0").status == 404
    assert site.get("/journal/" + "9" * 60).status == 404
    assert site.get("/journal/1?lineage=lin_nobody").status == 404


def test_hostile_texts_are_shown_and_do_nothing(site):
    for path in ("/journal", "/journal/3", "/journal/at", "/journal/difference?from=0", "/journal/undo?session=first"):
        response = site.get(path)
        assert response.status == 200, path
        assert "<script>alert" not in response.html
        assert "<img src=x" not in response.html
        assert not any(one in response.html for one in ("\u202e", "\x1b", "\x00"))
        assert "[U+202E]" in response.text, path
        assert not [link for link in response.page.links() if link.startswith("javascript:")]


def test_memory_is_shown_as_it_was(folder):
    with opened(folder) as project:
        then = past(asked(project, "/journal/at", seq=3)).values["page"]
        assert [(one.row.item_type, one.is_as_now) for one in then.entities] == [
            ("note", True),
            ("constraint", False),
            ("decision", True),
        ]
        assert then.entities[1].text == "Never log a token"
        assert {(one.item_type, one.total) for one in then.counts} == {("note", 1), ("constraint", 1), ("decision", 1)}
        now = past(asked(project, "/journal/at", type="decision")).values["page"]
        assert [one.text for one in now.entities] == ["Tests run twice", "Passwords are hashed"]
        assert {one.item_type: one.states for one in now.counts}["decision"] == (("accepted", 2),)


def test_the_slider_works_without_a_script(site):
    page = site.get("/journal/at?seq=2").page
    slider = page.all("input", type="range")[0].attributes
    assert (slider["name"], slider["min"], slider["max"], slider["value"]) == ("seq", "1", "5", "2")
    assert page.all("button")
    assert site.get("/journal/at?seq=99999").status == 200


def test_what_changed_between_two_records_is_told_by_entity(folder):
    with opened(folder) as project:
        page = difference(asked(project, "/journal/difference", from_=3, to=5)).values["page"]
    assert [(one.outcome, one.row.item_type) for one in page.entities] == [
        ("created", "decision"),
        ("changed", "constraint"),
    ]
    changed = page.entities[1].fields
    assert [field.name for field in changed] == ["text"]
    assert [(line.mark, line.text) for line in changed[0].lines] == [
        ("-", "Never log a token"),
        ("+", "Never log a hash"),
    ]


def test_differences_are_bounded_whatever_they_compare():
    old, new = {"text": "a\n" * 100_000}, {"text": "x" * 10_000_000, **{f"field{at}": at for at in range(1_000)}}
    found = field_differences(old, new)
    assert all(len(field.lines) <= LINES_MAX for field in found)
    assert max(len(line.text) for field in found for line in field.lines) <= LINE_CHARACTERS_MAX + 1
    assert len(found) <= 40
    assert next(field for field in field_differences(old, None) if field.name == "text").cut > 90_000


def test_large_json_is_cut_and_says_so():
    shown = str(json_markup({"text": "<b>" * JSON_CHARACTERS_MAX}))
    assert "<b>" not in shown
    assert "more characters" in shown


def test_the_tree_head_and_its_proofs_can_be_checked_elsewhere(site, folder):
    page = site.get("/journal/head")
    with opened(folder) as project:
        key, root = project.public_key(), project.prover().head().head.root
    assert root in page.text
    assert key.hex() in page.text
    for path, kind in (("?seq=3", "record-3"), ("?from=2&to=4", "growth-2-4"), ("", "head")):
        response = site.get(f"/journal/proof{path}")
        assert f"{kind}.proof" in response.headers["content-disposition"]
        verdict = verify_proof(response.body, key=key)
        assert verdict.holds, verdict.reason
    assert site.get("/journal/proof?seq=77").status == 404


def test_an_undo_does_what_it_showed(site, folder):
    shown = site.get("/journal/undo?session=second")
    assert "1 deleted" in shown.text
    assert "1 restored" in shown.text
    fields = {row.attributes["name"]: row.attributes["value"] for row in shown.page.all("input", type="hidden")}
    with opened(folder) as project:
        assert project.journal.end().next_seq - 1 == 5  # nothing was written yet
    done = site.post(
        "/journal/undo", **{name: fields[name] for name in ("session", "record", "lineage", "plan", "key")}
    )
    assert "Undone by record 6-7" in done.text
    assert "periplus undo --seq 6-7" in done.text
    again = site.post(
        "/journal/undo",
        follow=False,
        **{name: fields[name] for name in ("session", "record", "lineage", "plan", "key")},
    )
    assert again.status == 409
    with opened(folder) as project:
        assert [one.value["text"] for one in project.journal.entities("constraint")] == ["Never log a token"]
        assert [one.value["text"] for one in project.journal.entities("decision")] == ["Passwords are hashed"]
        assert project.journal.end().next_seq - 1 == 7
        assert project.journal.index.records("seq = ?", (7,), 1)[0].writer == "ada"


def test_an_undo_that_would_do_something_else_by_now_is_refused(site, folder):
    shown = site.get("/journal/undo?record=2")
    fields = {row.attributes["name"]: row.attributes["value"] for row in shown.page.all("input", type="hidden")}
    assert "in conflict" in shown.text  # the second session changed it
    fields = {
        **fields,
        "plan": "0" * 32,
        "key": "0" * 20,
        "record": "1",
        "session": "",
        "lineage": "",
    }
    response = site.post("/journal/undo", follow=False, **{k: v for k, v in fields.items() if k != "form_token"})
    assert response.status == 409
    assert "has changed since it was shown" in response.text
    with opened(folder) as project:
        assert project.journal.end().next_seq - 1 == 5


@pytest.mark.parametrize("query", ["record=abc", "record=5-2", "record=1-99999999", "session=nobody", "record=77"])
def test_undo_of_nothing_is_told(site, query):
    assert site.get(f"/journal/undo?{query}").status in (400, 404)


def test_undo_is_offered_to_nobody_where_nothing_may_be_written(folder):
    with Site(folder, is_read_only=True) as site:
        shown = site.get("/journal/undo?session=second")
        assert not shown.page.all("form", method="post")
        assert site.post("/journal/undo", follow=False, session="second").status == 409
    with opened(folder) as project:
        assert project.journal.end().next_seq - 1 == 5


def test_damage_is_told_and_the_sound_part_is_shown(folder):
    with opened(folder) as project:
        path = Path(project.journal.reader(project.journal.lineage).path_of(1))
    path.write_bytes(path.read_bytes().replace(b"Passwords are hashed", b"Xasswords are hashed"))
    with Site(folder) as site:
        response = site.get("/journal")
        assert response.status == 200
        assert "The journal is damaged" in response.text
        assert "doctor" in response.text


def test_records_of_another_clone_are_named(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (other / ".periplus").mkdir()
    shutil.copy(folder / ".periplus" / "config.toml", other / ".periplus" / "config.toml")
    with opened(other, BEN) as project:
        remember(project, "From the other clone", "note")
        theirs = project.journal.lineage
    with opened(folder) as project:
        project.sync(str(other), cwd=str(folder), environment={})
        page = journal(asked(project, "/journal", lineage="all")).values["page"]
        assert [row.of for row in page.rows if row.of] == [theirs]
        assert len(page.rows) == 6
        view = record(asked(project, "/journal/1", {"seq": "1"}, lineage=theirs))
        assert "From the other clone" in str(view.values["page"].payload)
        assert not view.values["page"].is_own
        assert undo_plan(asked(project, "/journal/undo", record="1", lineage=theirs)).values["page"].is_anything_written


def test_records_from_before_a_checkpoint_are_read_where_somebody_asks(folder):
    with opened(folder) as project:
        project.compact()
    Project.discard_index(str(folder))
    with Site(folder) as site:
        assert "not in the index yet" in site.get("/journal/at?seq=2").text
        assert site.get("/journal/2").status == 404
        response = site.get("/journal?history=1")
        while "Reading the records" in response.text:
            response = site.get("/journal?history=1")
        assert "not in the index yet" not in response.text
        assert site.get("/journal/2").status == 200
        assert "Never log a token" in site.get("/journal/at?seq=2").text


def test_in_a_long_journal_an_undo_is_planned_and_done_beside_the_page(folder):
    with opened(folder) as project:
        project.compact()
    Project.discard_index(str(folder))  # the index begins at the checkpoint: older records have to be read
    with Site(folder) as site:
        shown = site.get("/journal/undo?session=second")
        while "Looking for the records" in shown.text:
            shown = site.get("/journal/undo?session=second")
        Project.discard_index(str(folder))
        fields = {row.attributes["name"]: row.attributes["value"] for row in shown.page.all("input", type="hidden")}
        response = site.post(
            "/journal/undo",
            follow=False,
            **{name: fields[name] for name in ("session", "record", "lineage", "plan", "key")},
        )
        address = response.location
        assert re.fullmatch(r"/journal/(undo\?doing=[0-9a-f]{20}|7)", address)
        while "doing=" in address:
            response = site.get(address)
            address = response.location or address
        assert address == "/journal/7"
        assert "Undone by record 7-8" in site.get(address).text
    with opened(folder) as project:
        assert [one.value["text"] for one in project.journal.entities("constraint")] == ["Never log a token"]


def test_an_undo_that_nobody_began_is_not_found(site):
    assert site.get("/journal/undo?doing=nothing").status == 404
