"""Contexts in a browser: refs, the graph of commits, expansions within a budget, comparisons, and who holds what."""

from __future__ import annotations

import re
import shutil

import pytest

from periplus.context.model import Atom, atom_digest
from periplus.journal import Writer
from periplus.memory.coordination.sessions import NewSession, begin_session
from periplus.project import Project
from periplus.project.agent_hooks.told_facts import Told
from periplus.project.context_store.lines import GivenAtom
from periplus.web.pages.contexts.comparison import compare
from periplus.web.pages.contexts.expansion import COPIED_CHARACTERS_MAX, SHOWN_MAX, expand
from periplus.web.pages.contexts.graph import ROWS, commit, graph
from periplus.web.pages.contexts.refs import contexts
from web_support import Site, asked

HOSTILE = '<script>alert(1)</script>\u202egnp.exe\x1b[31m"><img src=x onerror=alert(1)>'
ADA = Writer.named("ada", session="ada-1")
BEN = Writer.named("ben", session="ben-1")
T = 1_790_000_000_000


def opened(folder, writer=ADA):
    return Project.open(str(folder), writer)


def given(text, relevance=500_000, time_ms=T, source="", tags=()):
    made = Atom(text, "Fact", time_ms, relevance, source, tags)
    return GivenAtom(atom_digest(made), made)


def commit_to(project, *atoms, ref="main", message="", **more):
    return project.contexts.commit(
        [one if isinstance(one, GivenAtom) else given(one) for one in atoms], ref=ref, message=message, **more
    )


@pytest.fixture
def folder(tmp_path):
    """Two lines: main has a third commit, which try does not, and try one that main does not."""
    Project.init(str(tmp_path))
    with opened(tmp_path) as project:
        commit_to(project, given("the first fact", 900_000), given("the second fact", 800_000), message="what we know")
        second = commit_to(project, given(HOSTILE, 100_000), message=HOSTILE)
        project.contexts.set_ref("try", second.digest)
        commit_to(project, "only in main", message="main goes on")
        commit_to(project, "only in try", ref="try", message="try goes on")
    return tmp_path


@pytest.fixture
def site(folder):
    with Site(folder) as site:
        yield site


def test_refs_are_listed_with_their_contexts(folder):
    with opened(folder) as project:
        page = contexts(asked(project, "/contexts")).values["page"]
        assert [(one.name, one.live, one.commit.message) for one in page.refs] == [
            ("main", 4, "main goes on"),
            ("try", 4, "try goes on"),
        ]
        assert {(one.ref, one.is_own, one.standing) for one in page.clones} == {
            ("main", True, "the same"),
            ("try", True, "the same"),
        }


def test_a_store_without_contexts_says_how_to_make_one(tmp_path):
    Project.init(str(tmp_path))
    with Site(tmp_path) as site:
        for path in ("/contexts", "/contexts/graph"):
            response = site.get(path)
            assert response.status == 200
            assert "periplus context commit --from memory" in response.text
        assert site.get("/contexts/expand").status == 404


def test_the_graph_has_each_commit_once_after_its_descendants(folder):
    with opened(folder) as project:
        project.contexts.merge("try", ref="main", message="both")
        page = graph(asked(project, "/contexts/graph")).values["page"]
        messages = [row.message.split("\n")[0] for row in page.rows]
        assert messages[0] == "both"
        assert messages[-2:] == [HOSTILE, "what we know"]
        assert sorted(messages[1:3]) == ["main goes on", "try goes on"]
        assert page.rows[0].is_merge
        assert str(page.picture).count("<circle") == 5
        assert "<script>" not in str(page.picture)


def test_a_long_history_is_paged_without_loss(folder):
    with opened(folder) as project:
        for number in range(ROWS):
            commit_to(project, f"fact {number}", message=f"step {number}")
        seen = []
        query = {}
        for _ in range(5):
            page = graph(asked(project, "/contexts/graph", **query)).values["page"]
            assert len(page.rows) <= ROWS
            seen += [row.digest for row in page.rows]
            if not page.older:
                break
            query = {"from_": re.search(r"from=([^&]+)", page.older)[1].replace("%2C", ",")}
        assert len(seen) == len(set(seen)) == ROWS + 4


def test_one_commit_shows_its_delta(site, folder):
    with opened(folder) as project:
        view = commit(asked(project, "/contexts/show", ref="main"))
        page = view.values["page"]
        assert [atom.content for atom in page.atoms] == ["only in main"]
        assert view.command == f"periplus context show {page.row.short}"
    response = site.get("/contexts/show?ref=main~1")
    assert response.status == 200
    assert "<script>alert" not in response.html
    assert site.get("/contexts/show?ref=nobody").status == 404
    assert site.get("/contexts/show?ref=main~99").status == 404
    assert site.get("/contexts/graph?from=../../etc").status == 400


def test_an_expansion_is_best_first_and_ends_at_its_budget(folder):
    with opened(folder) as project:
        page = expand(asked(project, "/contexts/expand", budget=8)).values["page"]
        assert [row.atom.content for row in page.rows if row.is_in] == ["the first fact", "the second fact"]
        assert page.tokens <= 8
        assert page.cut == 2
        assert page.copied == "the first fact\n\nthe second fact"
        whole = expand(asked(project, "/contexts/expand", budget=1_000)).values["page"]
        assert len(whole.rows) == 4
        assert whole.cut == -1
        found = expand(asked(project, "/contexts/expand", q="only in main", budget=5))
        assert found.values["page"].rows[0].atom.content == "only in main"
        assert found.command == "periplus context select main --query 'only in main' --budget 5 --explain"


def test_an_expansion_is_bounded(folder):
    with opened(folder) as project:
        commit_to(
            project,
            *(given(f"{'long ' * 200}{number}", 999_000) for number in range(SHOWN_MAX + 60)),
            given("huge " * 100_000, 1_000_000),
        )
        page = expand(asked(project, "/contexts/expand", budget=200_000)).values["page"]
        assert len(page.rows) <= SHOWN_MAX + 30
        assert page.rows[0].atom.cut > 400_000
        assert page.more_in > 0
        assert len(page.copied) <= COPIED_CHARACTERS_MAX


def test_two_contexts_are_compared_and_their_merge_is_previewed_without_writing(folder):
    with opened(folder) as project:
        records, refs = project.journal.end().next_seq, project.contexts.table.all()
        page = compare(asked(project, "/contexts/compare", a="main", b="try")).values["page"]
        assert [atom.content for atom in page.added] == ["only in try"]
        assert [atom.content for atom in page.removed] == ["only in main"]
        assert (page.preview.outcome, page.preview.command) == ("merged", "periplus context merge try --ref main")
        assert (project.journal.end().next_seq, project.contexts.table.all()) == (records, refs)


def test_a_merge_with_conflicts_shows_both_sides(folder):
    with opened(folder) as project:
        first = given("the first fact", 900_000)
        commit_to(project, removed=[first.digest.hex()], message="it is not so")
        commit_to(project, given("the first fact", 950_000, T + 1), ref="try", message="it is")
        page = compare(asked(project, "/contexts/compare", a="main", b="try")).values["page"]
        assert page.preview.outcome == "conflicts"
        assert page.preview.conflicts[0].ours is None
        assert page.preview.conflicts[0].theirs.content == "the first fact"
        both = compare(asked(project, "/contexts/compare", a="try~1", b="try")).values["page"]
        assert both.annotated[0].fields[0] == ("relevance", "0.90", "0.95")
        assert both.preview is None  # no ref is named


def test_hostile_texts_do_nothing(site):
    for path in (
        "/contexts",
        "/contexts/graph",
        "/contexts/expand",
        "/contexts/compare?a=main~2&b=main",
        "/contexts/show?ref=main~1",
    ):
        response = site.get(path)
        assert response.status == 200, path
        assert "<script>alert" not in response.html
        assert "<img src=x" not in response.html
        assert not any(one in response.html for one in ("\u202e", "\x1b"))


def test_where_other_clones_have_a_ref_is_told(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (other / ".periplus").mkdir()
    shutil.copy(folder / ".periplus" / "config.toml", other / ".periplus" / "config.toml")
    with opened(other, BEN) as project:
        project.sync(str(folder), cwd=str(other), environment={})
        commit_to(project, "said in the other clone", message="theirs")
        theirs = project.journal.lineage
    with opened(folder) as project:
        commit_to(project, "said here", message="ours")
        project.sync(str(other), cwd=str(folder), environment={})
        page = contexts(asked(project, "/contexts")).values["page"]
        main = next(one for one in page.refs if one.name == "main")
        assert len(main.places) == 2
        at = {(one.clone, one.ref): one.standing for one in page.clones}
        assert sorted([at[theirs, "main"], at[project.journal.lineage, "main"]]) == ["apart", "the same"]
    with Site(folder) as site:
        assert "periplus context merge --ref main" in site.get("/contexts").text


def test_sessions_that_hooks_told_facts_to_are_listed(folder):
    with opened(folder) as project:
        begin_session(project.journal, ADA, NewSession("session-7", tool="claude-code", title="a title"))
        Told(project.journal.layout.hooks, "claude-code", "session-7").add(["a fact", "another"])
        page = contexts(asked(project, "/contexts")).values["page"]
        assert [(one.name, one.tool, one.facts) for one in page.told] == [("session-7", "claude-code", 2)]


def test_a_context_that_is_not_complete_is_marked(folder):
    with opened(folder) as project:
        target = project.contexts.table.all()["main"]
    shutil.rmtree(folder / ".periplus" / "cache", ignore_errors=True)
    name = target.hex()
    (folder / ".periplus" / "objects" / name[:2] / name[2:]).unlink()
    with Site(folder) as site:
        response = site.get("/contexts")
        assert response.status == 200
        assert "incomplete" in response.text
        assert "periplus doctor" in response.text
        assert site.get("/contexts/graph").status == 200
