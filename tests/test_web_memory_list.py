"""The list of memory, which is also its search: filters, facets, pages, candidates, and answers while one types."""

from __future__ import annotations

import os
import re
from urllib.parse import quote

import pytest

pytest.importorskip("starlette")

from browser_support import MISSING, Browser
from periplus.base.clock import FixedClock
from periplus.base.errors import UsageError
from periplus.memory import Memory
from periplus.memory.coordination.plans import NewStep
from periplus.memory.reflection.candidates import record_candidates
from periplus.project import Project
from periplus.web.pages.memory.listing import HITS, ROWS, memory_list
from reflect_support import session
from support import ADA
from web_memory_support import (
    HOSTILE,
    form_of,
    is_harmless,
    of_type,
    remembered,
    write_hostile,
    write_huge,
    write_known,
)
from web_support import Site, asked


def listed(project, **query):
    return memory_list(asked(project, "/memory", **query)).values["found"]


def texts(found):
    return [row.text for row in found.rows]


@pytest.fixture
def clock():
    return FixedClock(step_ms=1)  # so that the newest comes first


@pytest.fixture
def known(ada):
    write_known(ada)
    return ada


@pytest.fixture
def folder(tmp_path):
    """A project of its own, that no test has open beside the server."""
    place = tmp_path / "project"
    place.mkdir()
    Project.init(os.fspath(place))
    return place


# -- the list ----------------------------------------------------------------------------------------------------------


def test_the_list_has_the_newest_first_and_filters_by_each_field(known, bob):
    bob.remember(Memory("lesson", "Run the migrations first", tags=("tests",)))
    assert texts(listed(known)) == [
        "Run the migrations first", "Bob looks after the release", "The cache hides errors", "Never log tokens",
        "Passwords are hashed with argon2id",
    ]  # fmt: skip
    assert texts(listed(known, sort="oldest"))[0] == "Passwords are hashed with argon2id"
    assert texts(listed(known, sort="text"))[0] == "Bob looks after the release"
    assert texts(listed(known, type="trap")) == ["The cache hides errors"]
    assert texts(listed(known, state="accepted")) == ["Passwords are hashed with argon2id"]
    assert texts(listed(known, tag="security")) == ["Never log tokens", "Passwords are hashed with argon2id"]
    assert texts(listed(known, author="bob")) == ["Run the migrations first"]
    assert texts(listed(known, path_="auth.py")) == ["Never log tokens", "Passwords are hashed with argon2id"]
    assert listed(known, type="lesson", author="ada").rows == ()
    with pytest.raises(UsageError, match="sort must be one of"):
        listed(known, sort="colour")


def test_facets_count_what_the_list_has(known):
    facets = memory_list(asked(known, "/memory")).values["facets"]
    assert dict(facets.types).items() >= {"constraint": 1, "decision": 1, "note": 1, "trap": 1}.items()
    assert dict(facets.states) == {"accepted": 1, "active": 2}
    assert facets.tags == (("security", 2), ("auth", 1))
    assert facets.authors == (("ada", 4),)


def test_what_is_stale_is_said_and_can_be_asked_for(known):
    assert listed(known, stale=1).rows == ()
    with open(os.path.join(known.folder, "auth.py"), "w", encoding="utf-8") as file:
        file.write("def hash_password(text):\n    return text * 2\n\n\ndef other():\n    return 2\n")
    found = listed(known, stale=1)
    assert texts(found) == ["Never log tokens", "Passwords are hashed with argon2id"]
    assert all("auth.py" in row.stale[0] for row in found.rows)


def test_a_long_list_has_pages(known):
    for number in range(ROWS):
        known.remember(Memory("lesson", f"Lesson {number:03} is its own"))
    first, second = listed(known, type="lesson"), listed(known, type="lesson", page=2)
    assert (len(first.rows), first.has_more, first.total) == (ROWS, False, f"{ROWS} entities")
    assert second.rows == ()
    known.remember(Memory("lesson", "One more lesson"))
    assert listed(known, type="lesson").has_more
    assert texts(listed(known, type="lesson", page=2)) == ["Lesson 000 is its own"]
    assert listed(known, type="lesson", page=10**9).rows == ()


def test_work_and_candidates_are_listed_when_they_are_asked_for(known):
    made = known.work.make_plan("Move to argon2id", [NewStep("Write the migration")])
    assert texts(listed(known, type="step")) == ["Write the migration"]
    assert made.plan.item_id not in {row.item_id for row in listed(known).rows}


def test_rows_link_to_what_they_are_about(known):
    row = listed(known, type="decision").rows[0]
    assert row.about == (("auth.py:hash_password", "/code/symbol?path=auth.py&name=hash_password"),)
    assert row.address == f"/memory/{row.item_id}"


# -- the search --------------------------------------------------------------------------------------------------------


def test_a_search_answers_as_recall_does_with_why_and_how_fresh(known):
    found, recalled = listed(known, q="password hashing"), known.recall("password hashing", limit=HITS)
    assert [row.item_id for row in found.rows] == [hit.item_id for hit in recalled.hits]
    assert [row.why for row in found.rows] == [hit.why for hit in recalled.hits]
    assert found.rows[0].text == "Passwords are hashed with argon2id"
    assert found.rows[0].evidence[0].startswith("record ")
    os.unlink(os.path.join(known.folder, "auth.py"))
    assert "gone" in listed(known, q="password hashing").rows[0].stale[0]


def test_a_search_takes_the_same_filters(known):
    old = of_type(known, "decision")
    known.work.evolve(old.item_id, "Passwords are hashed with argon2id in 64 MiB")
    assert texts(listed(known, q="argon2id")) == ["Passwords are hashed with argon2id in 64 MiB"]
    assert len(listed(known, q="argon2id", all=1).rows) == 2
    assert texts(listed(known, q="argon2id", state="superseded")) == ["Passwords are hashed with argon2id"]
    assert listed(known, q="argon2id", type="trap").rows == ()
    assert "Never log tokens" not in texts(listed(known, q="tokens", tag="auth"))
    assert texts(listed(known, q="tokens", tag="security"))[0] == "Never log tokens"
    assert listed(known, q="tokens", author="bob").rows == ()


def test_an_id_is_found_and_what_ended_alone_is_said(known):
    trap = of_type(known, "trap")
    assert listed(known, q=trap.item_id).rows[0].item_id == trap.item_id
    known.work.change_state([trap.item_id], "resolved")
    found = listed(known, q="cache hides errors")
    assert (found.rows, found.ended) == ((), 1)


def test_a_word_that_nothing_has_is_searched_one_edit_away_and_said(known):
    found = listed(known, q="relaese")
    assert texts(found) == ["Bob looks after the release"]
    assert "release" in found.notice


def test_a_search_has_pages_without_gap_or_repetition(ada):
    for number in range(HITS + 5):
        ada.remember(Memory("note", f"The harbour of note {number} is deep"))
    pages = [listed(ada, q="harbour", page=page) for page in (1, 2)]
    ids = [row.item_id for page in pages for row in page.rows]
    assert len(ids) == len(set(ids)) == HITS + 5
    assert [page.has_more for page in pages] == [True, False]


def test_what_a_session_said_is_found_and_leads_to_its_step(ada, tmp_path):
    trail = ada.import_transcript(
        os.fspath(
            session(tmp_path / "s.jsonl", ("prompt", "Paint the lighthouse white"), ("say", "The lighthouse is white"))
        )
    )
    rows = listed(ada, q="lighthouse").rows
    assert any(re.fullmatch(rf"/sessions/{trail.entity.item_id}\?from=\d+", row.address) for row in rows)


def test_candidates_are_decided_on_in_the_list(folder, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    Project.init(os.fspath(other))
    remembered(other, Memory("lesson", "Run the migrations first"), Memory("trap", "The linter lies"))
    with Project.open(os.fspath(folder), ADA) as project, Project.open(os.fspath(other), ADA) as foreign:
        found = [*foreign.journal.entities("lesson"), *foreign.journal.entities("trap")]
        record_candidates(project.journal, "elsewhere", found, ADA)
        trap = next(one.item_id for one in project.inbox() if one.value["item_type"] == "trap")
    with Site(folder) as site:
        assert "2 candidates wait for your decision" in site.get("/memory").text
        page = site.get("/memory?type=candidate&state=pending")
        assert "a trap of the project elsewhere" in page.text
        answer = site.post(f"/memory/{trap}/refuse", **form_of(page, f"/memory/{trap}/refuse"))
        assert f"Refused {trap}" in answer.text
        assert len(answer.page.all("li", class_="row ")) == 1
        lesson = re.search(r"/memory/(cnd_\w+)/accept", answer.html)[1]
        answer = site.post(f"/memory/{lesson}/accept", **form_of(answer, f"/memory/{lesson}/accept"))
        assert "Accepted as lesson" in answer.text
        assert "Run the migrations first" in answer.page.all("h1")[0].text
        assert "candidates wait" not in site.get("/memory").text


def test_links_keep_the_filters_and_pages_without_rows_say_so(folder):
    remembered(folder, Memory("decision", "Ports start at 8000", tags=("net",)), Memory("note", "The port 80 is taken"))
    with Site(folder) as site:
        links = site.get("/memory?type=decision&tag=net&sort=text").page.links()
        assert "/memory?type=decision&tag=net&sort=oldest" in links
        assert "/memory?tag=net&sort=text" in links
        assert "Nothing with these filters" in site.get("/memory?tag=none").text
        assert "No answer." in site.get("/memory?q=zebra").text
        assert "There is no page 7" in site.get("/memory?page=7").text
        assert site.get("/memory?sort=colour").status == 400
        assert site.get("/memory?page=x").status == 400
        assert site.get("/memory/dec_0000000000000000").status == 404
        assert site.get("/memory/..%2f..%2fetc%2fpasswd").status in (400, 404)
        assert 'periplus recall "" --type decision --tag net' in site.get("/memory?type=decision&tag=net").text


def test_what_strangers_wrote_or_ask_for_does_nothing_in_the_list(folder):
    write_hostile(folder)
    with Site(folder) as site:
        for address in ("/memory", "/memory?sort=text", "/memory?stale=1", "/memory?q=hidden&all=1"):
            page = site.get(address)
            assert page.status == 200
            assert is_harmless(page)
        for text in HOSTILE:
            for name in ("q", "type", "state", "tag", "path", "author"):
                page = site.get(f"/memory?{name}={quote(text)}")
                assert page.status in (200, 400)
                assert is_harmless(page)


@pytest.mark.slow
def test_huge_values_are_cut_and_said(folder):
    item_id = write_huge(folder)
    with Site(folder) as site:
        page = site.get("/memory")
        assert page.status == 200
        assert len(page.body) < 30_000
        page = site.get(f"/memory/{item_id}")
        assert page.status == 200
        assert len(page.body) < 1_000_000
        assert "more characters are not shown" in page.text


# -- in a real browser -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(bool(MISSING), reason=MISSING or "there is one")
def test_the_search_answers_while_it_is_typed_and_the_list_is_alive(folder, tmp_path):
    remembered(folder, Memory("decision", "Passwords are hashed with argon2id"), Memory("note", "The harbour is deep"))
    profile = tmp_path / "browser"
    profile.mkdir()
    with Site(folder) as site, Browser(profile) as browser:
        browser.go(site.server.url)
        browser.go(f"http://127.0.0.1:{site.port}/memory")
        assert browser.run("return document.querySelectorAll('.rows .row').length") == 2
        browser.run("document.getElementById('q').focus()")
        browser.keys("harbour")
        browser.until("return document.querySelectorAll('.rows .row').length == 1")
        assert "The harbour is deep" in browser.text("#found")
        assert browser.run("return location.search").startswith("?q=harbour")
        assert browser.run("return document.activeElement.id") == "q"
        remembered(folder, Memory("note", "The harbour is wide"))
        browser.until("return document.querySelectorAll('.rows .row').length == 2")
        assert browser.run("return document.getElementById('q').value") == "harbour"
        browser.run("document.activeElement.blur()")
        browser.keys("j")
        assert browser.run("return document.activeElement.closest('.row') !== null")
        assert browser.complaints() == []
