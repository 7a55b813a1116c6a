"""The overview of the page: what waits, what is under way, what changed, what it cost."""

from __future__ import annotations

import socket

import pytest

from periplus.journal import Writer
from periplus.memory import Memory
from periplus.memory.coordination.plans import NewStep
from periplus.project import Project
from periplus.web.pages.model import Form
from periplus.web.pages.overview import due, overview, seen
from web_support import ADA, Site, asked

BEN = Writer.named("ben")


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "shop"
    made.mkdir()
    Project.init(str(made))
    return made


def test_an_empty_store(folder):
    with Site(folder) as site:
        page = site.get("/")
    assert page.status == 200
    assert "No question, mail or decision waits for you." in page.text
    assert "Nobody works here now." in page.text
    assert "No changes." in page.text


def test_what_waits_and_what_is_under_way(folder):
    with Project.open(str(folder), BEN) as project:
        project.work.send("ada", "Is the <b>limit</b> right?")
        plan = project.work.make_plan("Better slugs", [NewStep("Cut long slugs"), NewStep("Leave out punctuation")])
        project.work.take(step=plan.steps[0].item_id)
    with Site(folder) as site:
        page = site.get("/")
    headings = [one.text.split()[0] for one in page.page.all("h2")]
    assert headings[:2] == ["Waits", "Mail"]
    assert {"Plans", "Steps"} <= set(headings)
    assert "Is the <b>limit</b> right?" in page.text
    assert "0 of 2 steps" in page.text
    assert f"/work/plan/{plan.plan.item_id}" in page.page.links()


def test_changes_are_new_until_they_are_seen(folder):
    with Project.open(str(folder), BEN) as project:
        project.remember(Memory("lesson", "Run the migrations before the tests"))
    with Site(folder) as site:
        assert "Newest changes" in site.get("/").text
        said = site.post("/seen")
        assert "Noted: changes until now are seen." in said.text
        assert "No changes." in said.text
        with Project.open(str(folder), BEN) as project:
            project.remember(Memory("trap", "The clock of the build host is wrong"))
        page = site.get("/")
    assert "Changed since you looked" in page.text
    assert "The clock of the build host is wrong" in page.text
    assert "Run the migrations" not in page.text


def test_the_charts_have_tables(folder):
    with Project.open(str(folder), BEN) as project:
        project.remember(Memory("note", "a"))
        with Project.open(str(folder), ADA):
            shown = overview(asked(project, "/"))
    assert "Records by day" in shown.values["activity"]
    assert "<table" in shown.values["activity"]
    assert shown.values["spent"] is None


def test_what_is_to_be_reviewed_comes_by_itself(folder):
    (folder / "a.py").write_text("x = 1\n")
    with Project.open(str(folder), ADA) as project:
        project.remember(Memory("decision", "x is one", about=("a.py",)))
        assert due(asked(project, "/due")).values["section"].rows == ()
        (folder / "a.py").write_text("x = 2\n")
        (row,) = due(asked(project, "/due")).values["section"].rows
        assert row.item.text == "x is one"
        assert seen(asked(project, "/seen"), Form.of("")).location == "/"
    with Site(folder) as site:
        assert "x is one" in site.get("/due").text
        assert 'hx-get="/due"' in site.get("/").html


def test_a_change_before_the_stream_begins_is_told(folder):
    with Site(folder) as site:
        (live,) = [one for one in site.get("/").page.all("div") if "hx-sse:connect" in one.attributes]
        address = live.attributes["hx-sse:connect"]
        assert "changed" not in first_events(site, address)
        with Project.open(str(folder), BEN) as project:
            project.remember(Memory("lesson", "Run the migrations before the tests"))
        assert "event: changed" in first_events(site, address)


def first_events(site, address):
    """What a stream says within half a second."""
    with socket.create_connection(("127.0.0.1", site.port), timeout=10) as connection:
        cookies = "; ".join(f"{name}={value}" for name, value in site.cookies.items())
        connection.sendall(
            f"GET {address} HTTP/1.1\r\nHost: 127.0.0.1:{site.port}\r\nCookie: {cookies}\r\n\r\n".encode()
        )
        said = b""
        while b"watching" not in said:
            said += connection.recv(4096)
        connection.settimeout(0.5)
        try:
            said += connection.recv(4096)
        except TimeoutError:
            pass
    return said.decode()
