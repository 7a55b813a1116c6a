"""Pages of sessions: the list, one session in windows, a step whole, two compared, the shared file, a run that grows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from browser_support import MISSING, Browser
from cli_support import claude_session, codex_session
from periplus.base.errors import NotFoundError, UsageError
from periplus.memory import Memory
from periplus.project import Project
from periplus.trail import TrailReader
from periplus.web.pages.sessions.comparison import compare_sessions
from periplus.web.pages.sessions.files import shared_file
from periplus.web.pages.sessions.list import sessions
from periplus.web.pages.sessions.session import session
from periplus.web.pages.sessions.step import step
from periplus.web.pages.sessions.teaching import teaching
from periplus.web.sessions.verification import verify_shared_file
from session_support import HOSTILE
from web_support import ADA, Site, asked, context


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "engine"
    folder.mkdir()
    Project.init(str(folder))
    with Project.open(str(folder), ADA) as made:
        yield made


@pytest.fixture
def two(project, tmp_path):
    """Two sessions of two agents; the ids of their trails."""
    first = project.import_transcript(str(claude_session(tmp_path / "a.jsonl", steps=3)))
    second = project.import_transcript(str(codex_session(tmp_path / "b.jsonl")))
    return first.entity.item_id, second.entity.item_id


def recorded(project, count=3, **facts):
    """A recorded run of ``count`` commands; its trail."""
    with project.record(agent="gear", title="Turn", checkpoints=False, **facts) as run:
        run.step("PROMPT", text="turn the gears")
        for number in range(count):
            run.step("COMMAND_RUN", command=f"turn {number}")
    return project.trails().__next__().item_id


def page_of(project, item_id, **query):
    return session(asked(project, f"/sessions/{item_id}", {"id": item_id}, **query)).values["page"]


def test_the_list_has_all_sessions_and_filters_by_agent_and_words(project, two):
    found = sessions(asked(project, "/sessions")).values["found"]
    assert {row.id for row in found.page.rows} == set(two)
    found = sessions(asked(project, "/sessions", agent="codex")).values["found"]
    assert [row.id for row in found.page.rows] == [two[1]]
    found = sessions(asked(project, "/sessions", q="wheels")).values["found"]
    assert [row.id for row in found.page.rows] == [two[1]]
    with pytest.raises(UsageError):
        sessions(asked(project, "/sessions", sort="shoe"))


def test_a_session_is_shown_in_windows(project, tmp_path):
    item_id = project.import_transcript(str(claude_session(tmp_path / "long.jsonl", steps=450))).entity.item_id
    first = page_of(project, item_id)
    assert [item.number for item in first.items] == list(range(200))
    assert (first.earlier, first.later) == ("", f"/sessions/{item_id}?from=200")
    assert first.total > 450
    last = page_of(project, item_id, from_=first.total - 7)
    assert [item.number for item in last.items] == list(range(first.total - 7, first.total))
    assert last.later == ""
    assert page_of(project, item_id, from_=9_999).items[0].number == first.total - 1


def test_a_prefix_leads_to_the_session(project, two):
    done = session(asked(project, f"/sessions/{two[0][:8]}", {"id": two[0][:8]}))
    assert done.location == f"/sessions/{two[0]}"
    digest = TrailReader(project.trail_bytes(two[0]).data).digest.hex()
    assert session(asked(project, f"/sessions/{digest}", {"id": digest})).location == f"/sessions/{two[0]}"
    with pytest.raises(NotFoundError):
        page_of(project, "trl_nothing")


def test_search_inside_finds_steps(project):
    item_id = recorded(project, 30)
    found = page_of(project, item_id, q="turn 29").found
    assert [hit.number for hit in found.hits] == [30]


def taught_rows(project, item_id, **query):
    return teaching(asked(project, f"/sessions/{item_id}/taught", {"id": item_id}, **query)).values["page"].rows


def test_memory_that_the_session_taught_is_shown_with_its_steps(project, two):
    project.remember(Memory("lesson", "Count the cogs twice", evidence=(("step", f"{two[0]}#2"),)))
    rows = taught_rows(project, two[0])
    assert [(row.type, row.text, row.is_evidence, row.steps) for row in rows] == [
        ("lesson", "Count the cogs twice", True, (2,))
    ]
    assert taught_rows(project, two[0], step=2) == rows
    assert taught_rows(project, two[0], step=1) == ()
    assert taught_rows(project, two[1]) == ()


def test_memory_that_was_written_in_the_session_is_taught_too(project, two):
    with Project.open(project.folder, ADA.named("claude", session="5e551011")) as other:
        other.remember(Memory("note", "The cogs are of brass"))
    assert [(row.text, row.is_evidence) for row in taught_rows(project, two[0])] == [("The cogs are of brass", False)]


def test_a_step_has_its_neighbours_and_its_place(project):
    item_id = recorded(project, 12)
    page = step(asked(project, f"/sessions/{item_id}/step/11", {"id": item_id, "number": "11"})).values["page"]
    assert page.item.head == "turn 10"
    assert (page.earlier, page.later) == (f"/sessions/{item_id}/step/10", f"/sessions/{item_id}/step/12")
    assert page.place == f"/sessions/{item_id}?from=0#s11"
    assert "COMMAND_RUN" in page.raw
    for wrong in ("13", "x", "-1", "9" * 30):
        with pytest.raises(NotFoundError):
            step(asked(project, "/sessions/x", {"id": item_id, "number": wrong}))


def test_two_sessions_are_compared(project):
    first, second = recorded(project, 3), recorded(project, 5)
    page = compare_sessions(asked(project, "/sessions/compare", a=first, b=second)).values["page"]
    assert (page.same, page.added, page.removed) == (4, 2, 0)
    assert [row.text for row in page.rows if row.mark == "+"] == ['COMMAND_RUN "turn 3"', 'COMMAND_RUN "turn 4"']
    with pytest.raises(UsageError):
        compare_sessions(asked(project, "/sessions/compare", a=first))


def test_the_shared_file_is_a_download_that_verifies(project, two):
    made = shared_file(asked(project, f"/sessions/{two[0]}/file", {"id": two[0]}, trail="1"))
    assert (made.name, made.media_type) == (f"{two[0]}.html", "text/html; charset=utf-8")
    assert verify_shared_file(made.data).is_complete
    with pytest.raises(UsageError):
        shared_file(asked(project, "/sessions/x/file", {"id": two[0]}, withhold="shoe"))


def test_a_run_that_is_being_recorded_grows_on_its_page(project):
    run = project.record(agent="gear", title="Turn", checkpoints=False)
    run.step("PROMPT", text="turn")
    page = page_of(project, run.id)
    assert (page.is_live, page.total, page.items[0].head) == (True, 1, "turn")
    run.step("SAY", text="y" * 9_000)
    page = page_of(project, run.id)
    assert (page.total, page.items[1].passages[0].size) == (2, 9_000)
    assert [row.id for row in sessions(asked(project, "/sessions")).values["found"].runs] == [run.id]
    with pytest.raises(UsageError, match="being recorded"):
        shared_file(asked(project, "/x", {"id": run.id}))
    sealed = run.seal()
    assert (
        session(asked(project, f"/sessions/{run.id}", {"id": run.id})).location == f"/sessions/{sealed.entity.item_id}"
    )


def test_looking_at_a_run_writes_nothing(project):
    run = project.record(agent="gear", checkpoints=False)
    run.step("SAY", text="y" * 9_000)
    before = project.journal.end()
    page_of(project, run.id)
    assert project.journal.end() == before
    run.seal()


def test_the_pages_are_served_and_link_each_other(project, two):
    with Site(project.folder) as site:
        listed = site.get("/sessions")
        assert listed.status == 200
        assert {f"/sessions/{one}" for one in two} <= set(listed.page.links())
        shown = site.get(f"/sessions/{two[0]}")
        assert "Count the cogs of the engine" in shown.text
        for link in shown.page.links():
            if link.startswith("/sessions/"):
                assert site.get(link.partition("#")[0]).status == 200, link
        assert site.get(f"/sessions/{two[0]}/verified").text.count("verified") >= 1
        assert site.get(f"/sessions/compare?a={two[0]}&b={two[1]}").status == 200
        assert site.get("/sessions/trl_nothing").status == 404
        assert site.get(f"/sessions/{two[0]}?from=x").status == 400


def test_hostile_texts_stay_texts_on_every_page(project):
    run = project.record(agent=HOSTILE[0], title=HOSTILE[1], checkpoints=False)
    for text in HOSTILE:
        run.step("PROMPT", text=text)
        run.step("COMMAND_RUN", command=text, outcome="failed", error=text, note=text)
        run.step("FILE_EDIT", path=text, old=text, new=text + "!")
        run.step("TOOL_CALL", server=text, name=text, arguments=json.dumps({text: text}))
    item_id = run.seal().entity.item_id
    with Site(project.folder) as site:
        calm = tags_of(site.get("/sessions"))
        pages = [
            f"/sessions/{item_id}",
            f"/sessions/{item_id}?q=alert",
            f"/sessions/{item_id}/step/1",
            f"/sessions/compare?a={item_id}&b={item_id}",
        ]
        for page in pages:
            response = site.get(page)
            assert response.status == 200
            found = tags_of(response)
            assert not found & {"img", "iframe", "object", "embed", "style"}, page
            assert all(row.attributes.get("src", "").startswith("/static/") for row in response.page.all("script"))
            assert not any(name.startswith("on") or name == "style" for row in response.page.rows for name in row[1])
            assert not any(link.lower().startswith("javascript:") for link in response.page.links())
        assert "script" in calm


def tags_of(response):
    return {row[0] for row in response.page.rows}


def test_a_damaged_trail_is_said_on_its_page(project, two):
    name = project.show(two[0]).value["object"]
    path = next(path for path in Path(project.root, "objects").rglob("*") if path.is_file() and name[2:] in str(path))
    data = bytearray(path.read_bytes())
    data[20] ^= 0xFF
    path.chmod(0o600)
    path.write_bytes(data)
    with Site(project.folder) as site:
        response = site.get(f"/sessions/{two[0]}")
        assert response.status == 500
        assert "Traceback" not in response.text
        assert site.get("/sessions").status == 200


def test_a_read_only_page_shows_sessions(project, two):
    view = session(asked(project, f"/sessions/{two[0]}", {"id": two[0]})._replace(context=context(is_read_only=True)))
    assert view.values["page"].total > 0


@pytest.mark.slow
@pytest.mark.skipif(bool(MISSING), reason=MISSING)
def test_a_recorded_step_appears_without_a_reload(project, tmp_path):
    run = project.record(agent="gear", title="Turn", checkpoints=False)
    run.step("PROMPT", text="turn the gears")
    profile = tmp_path / "profile"
    profile.mkdir()
    with Site(project.folder) as site, Browser(profile) as browser:
        base = f"http://127.0.0.1:{site.port}"
        browser.go(f"{base}/static/page.css")
        for name, value in site.cookies.items():
            browser.devtools("Network.setCookie", name=name, value=value, url=base)
        browser.go(f"{base}/sessions/{run.id}")
        browser.run("window.isSame = true")
        run.step("COMMAND_RUN", command="turn one gear")
        assert browser.until(
            "return document.querySelector('#steps').innerText.includes('turn one gear') && window.isSame"
        )
        item_id = run.seal().entity.item_id
        browser.go(f"{base}/sessions/{item_id}")
        assert browser.until("return document.querySelector('#taught').innerText.includes('No memory')")
        assert [one for one in browser.complaints() if "/favicon.ico" not in one] == []


@pytest.mark.slow
@pytest.mark.skipif(bool(MISSING), reason=MISSING)
@pytest.mark.parametrize("width", [1280, 390])
def test_a_shared_file_opens_from_disk_and_prints_its_folds(project, tmp_path, two, width):
    path = tmp_path / "session.html"
    path.write_bytes(shared_file(asked(project, "/x", {"id": two[0]}, trail="1")).data)
    profile = tmp_path / "profile"
    profile.mkdir()
    with Browser(profile, width=width) as browser:
        browser.go(path.as_uri())
        assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
        assert "All cogs are counted." in browser.text()
        hidden = "return [...document.querySelectorAll('details:not([open]) > :not(summary)')].filter(one => !one.checkVisibility()).length"
        assert browser.run(hidden) > 0
        browser.devtools("Emulation.setEmulatedMedia", media="print")
        assert browser.run(hidden) == 0
        assert browser.complaints() == []
