"""The pages of work: plans as boards and graphs, claims over the files, all that waits for a person, dispatches as they run."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import threading
import urllib.parse
from pathlib import Path

import pytest

from browser_support import MISSING, Browser
from cli_support import SECRET
from dispatch_records import GONE, Order
from periplus.dispatch.places import Places
from periplus.dispatch.reports.events import EventReader, newest_events
from periplus.journal import Writer
from periplus.memory.coordination.claims import Asked
from periplus.memory.coordination.dispatches import NewQuestion, ask_person
from periplus.memory.coordination.handoffs import NewHandoff
from periplus.memory.coordination.plans import NewStep
from periplus.memory.reflection.candidates import record_candidates
from periplus.memory.writing.remember import Memory
from periplus.project import Project
from periplus.web.pages.model import Form
from periplus.web.pages.work import acts
from periplus.web.pages.work.claim_tree import DEPTH_MAX, tree_rows
from periplus.web.pages.work.dispatch import dispatch
from periplus.web.pages.work.overview import PLANS_SHOWN, work
from periplus.web.pages.work.plan import CARDS_SHOWN, plan
from web_support import Site, asked

HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">\u202edaeh\u2066\x1b[31m"
browser = pytest.mark.skipif(bool(MISSING), reason=MISSING)


class Shop:
    """A store on the real clock with two people, and the page of ada."""

    def __init__(self, folder):
        self.folder = folder / "shop"
        for name in ("src/auth.py", "src/mail.py", "src/deep/er/one.py", "docs/a.md"):
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("def login():\n    pass\n")
        store = Project.init(os.fspath(self.folder), store=os.fspath(self.folder)).root
        self.opened = contextlib.ExitStack()
        self.ada = self.opened.enter_context(Project(store, Writer.named("ada", session="web-test")))
        self.bob = self.opened.enter_context(Project(store, Writer.named("bob", session="bob-1")))
        self.site = None

    def serve(self, **options):
        self.site = self.opened.enter_context(Site(self.folder, **options))
        return self.site

    def found(self, item_type, item_id):
        self.ada.journal.refresh()
        return self.ada.journal.get(item_type, item_id)


@pytest.fixture
def shop(tmp_path):
    made = Shop(tmp_path)
    with made.opened:
        yield made


def chain(project, count, text="Chain"):
    """A plan whose every step waits for the one before."""
    return project.work.make_plan(text, [NewStep(f"step {n}", (n - 1,) if n > 1 else ()) for n in range(1, count + 1)])


def overview(project, **query):
    return work(asked(project, "/work", **query)).values["work"]


# -- the values ------------------------------------------------------------------------------------------------------------


def test_open_plans_come_first_with_progress_and_ended_ones_on_request(ada):
    first = chain(ada, 3, "First")
    urgent = ada.work.make_plan("Urgent", [NewStep("now")], priority=90)
    ada.work.change_state([first.steps[0].item_id], "done")
    ended = ada.work.make_plan("Old", [NewStep("gone")])
    ada.work.change_state([ended.plan.item_id], "dropped")
    plans = overview(ada).plans
    assert [(row.text, row.done, row.steps) for row in plans.rows] == [("Urgent", 0, 1), ("First", 1, 3)]
    assert (plans.open_count, plans.ended_count) == (2, 1)
    assert [(row.id, row.state) for row in overview(ada, ended=1).plans.rows] == [(ended.plan.item_id, "dropped")]
    assert urgent.plan.item_id == plans.rows[0].id


def test_many_plans_come_in_pages(ada):
    for number in range(PLANS_SHOWN + 3):
        ada.work.make_plan(f"Plan {number}")
    first, second = overview(ada), overview(ada, page=2)
    assert (len(first.plans.rows), len(second.plans.rows), first.plans.pages) == (PLANS_SHOWN, 3, 2)
    assert {row.id for row in first.plans.rows}.isdisjoint(row.id for row in second.plans.rows)
    assert overview(ada, page=99).plans.rows == ()


def test_claims_stand_in_a_tree_of_their_paths(ada, bob):
    ada.work.claim(Asked(("src/auth.py:login", "src/deep/er/one.py"), text="logs in"))
    bob.work.claim(Asked(("docs/**/*.md",), text="writes"))
    bob.work.claim(Asked(("src/mail.py",), "shared", text="reads"))
    found = overview(ada)
    shown = [(row.depth, row.name, [claim.holder for claim in row.claims]) for row in found.tree]
    assert shown == [
        (0, "docs/**/*.md", ["bob"]),
        (0, "src/", []),
        (1, "auth.py:login", ["ada"]),
        (1, "deep/er/one.py", ["ada"]),
        (1, "mail.py", ["bob"]),
    ]
    (shared,) = found.tree[-1].claims
    assert (shared.mode, shared.is_own, shared.theirs) == ("shared", False, False)
    assert found.claims == 3


def test_a_claim_of_everything_and_paths_of_any_depth_have_their_place(ada, bob):
    deep = "/".join(f"d{n}" for n in range(60)) + "/x.py"
    beside = "/".join(f"d{n}" for n in range(59)) + "/y.py"
    ada.work.claim(Asked((".",), "shared", text="all"))
    bob.work.claim(Asked((deep, beside, "a{b/c,d}.py"), "shared", text="deep"))
    rows = overview(ada).tree
    assert rows[0].path == "."
    assert max(row.depth for row in rows) <= DEPTH_MAX
    assert {"a{b/c,d}.py", deep, beside} <= {row.path for row in rows}


def test_the_tree_of_nothing_is_empty():
    assert tree_rows([]) == ()


def test_claims_of_clones_that_exclude_each_other_are_a_conflict(tmp_path, ada, clock):
    store = tmp_path / "clone" / ".periplus"
    store.mkdir(parents=True)
    shutil.copy(Path(ada.root) / "config.toml", store)
    mine = ada.work.claim(Asked(("src",), text="here"))
    with Project(os.fspath(store), Writer.named("carol"), clock=clock) as clone:
        theirs = clone.work.claim(Asked(("src/auth.py",), text="there"))
        clone.sync(ada.folder, cwd=clone.folder, environment={})
    (clash,) = overview(ada).clashes
    assert (clash.mine.id, clash.other.id) == (mine.claim.item_id, theirs.claim.item_id)
    assert (clash.scope, clash.other_scope, clash.other.theirs) == ("src", "src/auth.py", True)


def test_the_board_has_each_step_in_the_column_of_its_state(ada, bob):
    made = ada.work.make_plan("Board", [NewStep(name, after) for name, after in (
        ("ready", ()), ("taken", ()), ("waits", (1,)), ("stuck", ()), ("checked", ()), ("over", ()), ("left out", ()),
    )])  # fmt: skip
    ids = {step.value["text"]: step.item_id for step in made.steps}
    bob.work.take(step=ids["taken"])
    for name, state in (("stuck", "blocked"), ("checked", "review"), ("over", "done"), ("left out", "dropped")):
        ada.work.change_state([ids[name]], state, reason="because")
    held = plan(asked(ada, f"/work/plan/{made.plan.item_id}", {"id": made.plan.item_id})).values["held"]
    assert {column.name: [card.text for card in column.cards] for column in held.columns} == {
        "todo": ["ready"],
        "doing": ["taken"],
        "waiting": ["waits", "stuck"],
        "review": ["checked"],
        "ended": ["over", "left out"],
    }
    cards = {card.text: card for card in held.cards}
    assert [card.text for card in held.cards if card.is_ready] == ["ready"]
    assert (cards["taken"].assignee, [claim.holder for claim in cards["taken"].claims]) == ("bob", ["bob"])
    assert cards["waits"].waits_for == (ids["ready"],)
    assert cards["stuck"].reason == "because"


def test_the_graph_puts_each_step_behind_all_that_it_waits_for(ada):
    other = ada.work.make_plan("Other", [NewStep("elsewhere")])
    made = ada.work.make_plan(
        "Graph", [NewStep("a"), NewStep("b", (1,)), NewStep("c", (1, 2)), NewStep("d", (other.steps[0].item_id,))]
    )
    graph = plan(asked(ada, "/work/plan/x", {"id": made.plan.item_id})).values["held"].graph
    at = {node.title.partition(". ")[2] or node.title: node for node in graph.nodes}
    assert at["a"].x < at["b"].x < at["c"].x
    assert at["elsewhere"].x < at["d"].x
    assert (at["elsewhere"].is_outside, at["elsewhere"].address) == (True, f"/memory/{other.steps[0].item_id}")
    assert at["b"].address == f"#{made.steps[1].item_id}"
    assert len({(node.x, node.y) for node in graph.nodes}) == len(graph.nodes)
    drawn = {(edge.source, edge.target) for edge in graph.edges}
    steps = [step.item_id for step in made.steps]
    assert drawn == {
        (steps[0], steps[1]),
        (steps[0], steps[2]),
        (steps[1], steps[2]),
        (other.steps[0].item_id, steps[3]),
    }
    assert all(edge.is_open for edge in graph.edges)
    assert max(node.x for node in graph.nodes) + graph.node_width <= graph.width


def test_steps_that_wait_for_each_other_are_drawn_and_said_to_be_stuck(ada):
    made = ada.work.make_plan("Circle", [NewStep("a"), NewStep("b", (1,))])
    first, second = (step.item_id for step in made.steps)
    held = ada.journal.get("step", first)

    def close(transaction):
        transaction.put("step", first, {**held.value, "depends_on": [second]}, expect=held.version)

    ada.journal.mutate(close, ada.writer)  # separate clones can make it so
    page = plan(asked(ada, "/work/plan/x", {"id": made.plan.item_id})).values["held"]
    assert {(edge.source, edge.target) for edge in page.graph.edges} == {(first, second), (second, first)}
    assert any("wait for each other" in words for words in page.stuck)


def test_a_plan_of_a_thousand_steps_is_listed_in_parts_and_not_drawn(ada):
    made = chain(ada, 1_000)
    page = plan(asked(ada, "/work/plan/x", {"id": made.plan.item_id})).values["held"]
    waiting = next(column for column in page.columns if column.name == "waiting")
    assert (len(waiting.cards), waiting.total, page.graph) == (CARDS_SHOWN, 999, None)
    whole = plan(asked(ada, "/work/plan/x", {"id": made.plan.item_id}, show="waiting")).values["held"]
    assert len(next(column for column in whole.columns if column.name == "waiting").cards) == 999


def test_the_board_of_a_dispatch_has_its_lanes_events_and_runs(ada):
    order = Order(ada)
    order.carry()
    done = order.start(0)
    order.end_run(done, "submitted", tokens=(1000, 4000, 200), cost=30_000, wall_ms=60_000, summary="hashes")
    order.integrate(done)
    order.start(1, "gemini", "r2")
    failed = order.start(3, "codex", "r3")
    order.end_run(failed, "failed", ending="failed", reason="no tests")
    view = dispatch(asked(ada, "/work/dispatch/x", {"id": order.id}, step=order.steps[3].item_id))
    lanes = view.values["lanes"]
    assert [row.state for row in lanes.rows] == ["integrated", "running", "ready", "failed"]
    assert (lanes.state, lanes.is_carried, lanes.done, lanes.can_stop, lanes.can_retry) == (
        "running",
        True,
        1,
        True,
        True,
    )
    assert view.values["seconds"], "while an agent works, its spending is asked for again"
    assert (lanes.chosen.row.step, lanes.chosen.one.reason) == (order.steps[3].item_id, "no tests")
    assert lanes.chosen.drop == f"periplus dispatch drop {failed.item_id}"
    said = [event.what for event in lanes.events]
    assert said[0] == "failed", "the newest comes first"
    assert said[-1] == "dispatch open"
    assert f"merged {'c' * 12}" in said
    assert newest_events(ada.journal, order.id, 1_000) == EventReader(ada.journal, order.id).read()
    assert newest_events(ada.journal, order.id, 4) == EventReader(ada.journal, order.id).read()[-4:]


def test_the_end_of_what_an_agent_printed_is_shown_and_no_other_file(ada, tmp_path):
    order = Order(ada)
    held = order.start(0, run="r1")
    context = asked(ada, "/").context._replace(home=os.fspath(tmp_path / "home"), environment={})
    places = Places.of(os.path.join(context.home, ".local", "state", "periplus"), ada.root)
    for name, text in (("r1", "compiling\n"), ("../../secret", "a secret\n")):
        folder = Path(places.run(name))
        folder.mkdir(parents=True)
        (folder / "output").write_text(text)

    def output():
        question = asked(ada, "/work/dispatch/x", {"id": order.id}, step=order.steps[0].item_id)._replace(
            context=context
        )
        return dispatch(question).values["lanes"].chosen.output

    assert output() == "compiling\n"
    order.end_run(held)
    order.begin_run(held, "../../secret")
    assert output() == ""


def test_what_an_agent_at_work_has_spent_is_added_once_from_what_it_prints(ada, tmp_path):
    order = Order(ada)
    order.carry()
    order.start(0, run="r1")
    order.start(1, run="../../r2")
    context = asked(ada, "/").context._replace(home=os.fspath(tmp_path / "home"), environment={})
    places = Places.of(os.path.join(context.home, ".local", "state", "periplus"), ada.root)

    def prints(run, *usage):
        names = ("input_tokens", "cached_input_tokens", "output_tokens")
        Path(places.run(run)).mkdir(parents=True, exist_ok=True)
        with open(os.path.join(places.run(run), "output"), "a", encoding="utf-8") as output:
            output.write(json.dumps({"type": "turn.completed", "usage": dict(zip(names, usage, strict=True))}) + "\n")

    def tokens():
        question = asked(ada, "/work/dispatch/x", {"id": order.id})._replace(context=context)
        return [row.tokens for row in dispatch(question).values["lanes"].rows[:2]]

    assert tokens() == [0, 0]
    prints("r1", 1_000, 600, 50)
    prints("../../r2", 1_000, 600, 50)
    assert tokens() == [1_050, 0], "the run of a foreign name is not looked for"
    assert tokens() == [1_050, 0]
    prints("r1", 3_000, 2_000, 90)
    assert tokens() == [3_090, 0]


# -- the page --------------------------------------------------------------------------------------------------------------


def test_a_step_is_taken_and_finished_from_its_board(shop):
    made = shop.ada.work.make_plan("Login", [NewStep("hash", about=("src/auth.py",)), NewStep("docs", (1,))])
    step = made.steps[0].item_id
    site = shop.serve()
    board = site.get(f"/work/plan/{made.plan.item_id}")
    assert (board.status, "Login" in board.text) == (200, True)
    assert {f"/work/step/{step}/take", f"/work/step/{step}/state"} <= {
        form.attributes["action"] for form in board.page.all("form", method="post")
    }
    taken = site.post(f"/work/step/{step}/take")
    assert "Taken: hash" in taken.text
    now = shop.found("step", step)
    assert (now.value["state"], now.value["assignee"]) == ("doing", "ada")
    assert [claim.value["scopes"] for claim in shop.ada.work.claims()] == [["src/auth.py"]]
    done = site.post(f"/work/step/{step}/state", state="done", reason="it hashes")
    assert f"step {step} is done" in done.text
    assert shop.found("step", step).value["reason"] == "it hashes"
    assert shop.ada.work.claims() == []
    record = shop.ada.history(shop.found("step", step))[0]
    assert (record.writer, record.session) == ("ada", "web-test"), "written as the person"


def test_work_of_others_is_refused_with_the_words_of_the_command_line(shop):
    made = shop.bob.work.make_plan(
        "Mail", [NewStep("send", about=("src/mail.py",)), NewStep("read", about=("src/mail.py",))]
    )
    first, second = (step.item_id for step in made.steps)
    claim = shop.bob.work.take(step=first).claim.item_id
    site = shop.serve()
    for path, fields, said in (
        (f"/work/step/{first}/take", {}, "bob"),
        (f"/work/step/{second}/take", {}, "claimed by bob"),
        (f"/work/step/{first}/state", {"state": "done"}, "bob"),
        (f"/work/claim/{claim}/release", {}, "Ask the holder, or insist with --force."),
    ):
        refused = site.post(path, **fields)
        assert (refused.status, said in refused.text) == (409, True), (path, refused.text)
    assert shop.found("claim", claim).value["state"] == "held"
    released = site.post(f"/work/claim/{claim}/release", force="1", reason="bob is away")
    assert released.status == 200
    assert shop.found("claim", claim).value["state"] == "released"


def test_questions_mail_handoffs_and_candidates_are_answered(shop, tmp_path):
    order = Order(shop.bob)
    held = order.start(0)
    question = ask_person(
        shop.bob.journal, shop.bob.writer, NewQuestion("May I?", order.id, held.item_id, "codex", ("yes", "no"))
    )
    mail = shop.bob.work.send("ada", "Which clock? See https://example.org/x", needs_answer=True)
    mine = shop.bob.work.hand_off(NewHandoff("It counts", unfinished=("tests",)))
    hers = shop.bob.work.hand_off(NewHandoff("For carol", "carol"))
    (tmp_path / "other").mkdir()
    other = Project(
        Project.init(os.fspath(tmp_path / "other"), store=os.fspath(tmp_path / "other")).root, Writer.named("eve")
    )
    lesson = other.remember(Memory("lesson", "Write to a file beside, then rename"))
    (candidate,) = record_candidates(shop.ada.journal, "st_other", [lesson.entity], shop.ada.writer).written
    site = shop.serve()
    page = site.get("/work")
    assert page.status == 200
    for text in ("May I?", "Which clock?", "It counts", "Write to a file beside", "codex", "Left to do"):
        assert text in page.text, text
    assert "/leave?to=https%3A%2F%2Fexample.org%2Fx" in page.page.links()
    assert "codex goes on with it" in site.post(f"/work/question/{question.item_id}/answer", text="yes").text
    assert shop.found("question", question.item_id).value["answered_by"] == "ada"
    assert site.post(f"/work/question/{question.item_id}/answer", text="no").status == 409
    site.post(f"/work/mail/{mail.item_id}/read")
    assert shop.found("message", mail.item_id).value["state"] == "read"
    assert "Answered bob" in site.post(f"/work/mail/{mail.item_id}/answer", text="The monotonic one").text
    assert [one.value["text"] for one in shop.bob.work.mail()] == ["The monotonic one"]
    assert "Taken over: It counts" in site.post(f"/work/handoff/{mine.item_id}/accept").text
    assert site.post(f"/work/handoff/{hers.item_id}/accept").status == 409
    assert "Taken over: For carol" in site.post(f"/work/handoff/{hers.item_id}/accept", force="1").text
    assert "closed" in site.post(f"/work/handoff/{mine.item_id}/close").text
    assert "Accepted as lesson" in site.post(f"/work/candidate/{candidate}/accept").text
    assert site.post(f"/work/candidate/{candidate}/refuse").status == 409
    other.close()


def test_mail_and_handoffs_are_written(shop):
    plan_id = chain(shop.ada, 2).plan.item_id
    shop.bob.work.send("ada", "I am here")
    site = shop.serve()
    assert "Sent to bob." in site.post("/work/mail", to="bob", text="Hello", needs_answer="1").text
    assert "nobody here is called bobb; bob does not get this" in site.post("/work/mail", to="bobb", text="Hello").text
    said = site.post(
        "/work/handoff",
        text="Half done",
        to="",
        files="src/auth.py\n\nsrc/mail.py",
        unfinished="tests\r\ndocs",
        plan=plan_id,
    )
    assert "Handed over as" in said.text
    (held,) = shop.ada.work.handoffs()
    assert (held.value["files"], held.value["unfinished"]) == (["src/auth.py", "src/mail.py"], ["tests", "docs"])
    assert "Half done" in site.get(f"/work/plan/{plan_id}").text
    for path, fields, status in (
        ("/work/mail", {"to": "bob", "text": " "}, 400),
        ("/work/mail", {"to": "bob", "text": f"the key is {SECRET}"}, 409),
        ("/work/handoff", {"text": "x", "files": "../../etc/passwd"}, 400),
        ("/work/step/stp_none/take", {}, 404),
        (f"/work/step/{plan_id}/state", {"state": "owned"}, 400),
        (f"/work/step/{held.item_id}/state", {"state": "done"}, 404),
    ):
        assert site.post(path, **fields).status == status, (path, fields)


def test_a_dispatch_is_stopped_and_its_step_tried_again(shop):
    order = Order(shop.bob)
    order.carry(GONE)
    failed = order.start(0)
    order.end_run(failed, "failed", ending="failed", reason="no tests")
    order.start(1, "gemini", "r2")
    site = shop.serve()
    page = site.get(f"/work/dispatch/{order.id}?step={order.steps[0].item_id}")
    assert (page.status, "open, no supervisor" in page.text) == (200, True)
    assert f"periplus dispatch start --resume {order.id}" in page.text
    assert f"periplus dispatch drop {failed.item_id}" in page.text
    again = site.post(f"/work/dispatch/{order.id}/retry", assignment=failed.item_id)
    assert "gets one more attempt. Nobody carries" in again.text
    assert shop.found("assignment", failed.item_id).value["granted"] == 2
    stopped = site.post(f"/work/dispatch/{order.id}/stop", reason="enough")
    assert "1 assignment cancelled. What their agents did stays in their worktrees." in stopped.text
    assert shop.found("dispatch", order.id).value["state"] == "stopped"
    assert "is stopped already" in site.post(f"/work/dispatch/{order.id}/stop").text
    assert site.get("/work/dispatch/dsp_none").status == 404
    assert site.get(f"/work/dispatch/{order.id}?step=nothing").status == 404


def test_who_may_only_read_sees_no_form(shop):
    made = chain(shop.ada, 2)
    order = Order(shop.bob)
    order.start(0)
    site = shop.serve(is_read_only=True)
    for path in ("/work", f"/work/plan/{made.plan.item_id}", f"/work/dispatch/{order.id}"):
        page = site.get(path)
        assert page.status == 200
        assert [form.attributes["action"] for form in page.page.all("form", method="post")] == []
    assert site.post(f"/work/step/{made.steps[0].item_id}/take").status == 409
    assert shop.found("step", made.steps[0].item_id).value["state"] == "todo"


def hostile_work(shop):
    """Every field that a stranger writes, with markup, marks of direction and terminal sequences."""
    order = Order(shop.bob)
    held = order.start(0, HOSTILE)
    order.end_run(held, "failed", ending=HOSTILE, reason=HOSTILE, summary=HOSTILE, branch=HOSTILE, worktree=HOSTILE, remarks=[HOSTILE],
                  findings=[{"severity": "blocking", "text": HOSTILE, "path": HOSTILE, "line": 3}])  # fmt: skip
    ask_person(
        shop.bob.journal, shop.bob.writer, NewQuestion(HOSTILE, order.id, held.item_id, HOSTILE, (HOSTILE, "yes"))
    )
    made = shop.bob.work.make_plan(
        HOSTILE, [NewStep(HOSTILE), NewStep("x" * 7_900, (1,))], rationale=HOSTILE, tags=["tag"]
    )
    shop.bob.work.take(step=made.steps[0].item_id)
    shop.bob.work.change_state([made.steps[1].item_id], "blocked", reason=HOSTILE)
    shop.bob.work.claim(Asked(("docs",), text=HOSTILE))
    shop.bob.work.send("ada", HOSTILE)
    shop.bob.work.hand_off(NewHandoff(HOSTILE, HOSTILE[:60], (), HOSTILE, (HOSTILE,), made.plan.item_id))
    return ["/work", f"/work/plan/{made.plan.item_id}", f"/work/dispatch/{order.id}?step={order.steps[0].item_id}"]


def test_hostile_texts_are_texts(shop):
    paths = hostile_work(shop)
    site = shop.serve()
    for path in paths:
        page = site.get(path)
        assert page.status == 200, path
        assert not page.page.all("img"), path
        assert [
            one.attributes.get("src")
            for one in page.page.all("script")
            if not one.attributes.get("src", "").startswith("/static/")
        ] == []
        assert "document.title='owned'" in page.text
        assert not set(page.html) & set("\u202e\u2066\x1b"), path
        assert "[U+202E]" in page.text
        assert not [name for row in page.page.rows for name in row[1] if name == "style" or name.startswith("on")], path
        assert not [one for one in page.page.links() if not one.startswith(("/", "#"))]


def test_forms_of_a_foreign_page_change_nothing(shop):
    step = chain(shop.ada, 1).steps[0].item_id
    site = shop.serve()
    body = urllib.parse.urlencode({"form_token": "0" * 64, "state": "done"})
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    assert site.ask("POST", f"/work/step/{step}/state", body, kind).status == 409
    assert site.ask("POST", f"/work/step/{step}/state", body, {**kind, "Origin": "http://evil.example"}).status == 403
    assert site.ask("GET", f"/work/step/{step}/take").status in (404, 405)
    assert shop.found("step", step).value["state"] == "todo"


def test_acts_are_functions_of_a_project_and_a_form(ada):
    made = chain(ada, 1)
    done = acts.change_state(asked(ada, "/", {"id": made.plan.item_id}), Form((("state", "dropped"), ("reason", "no"))))
    assert done.location == f"/work/plan/{made.plan.item_id}"
    assert done.message == f"plan {made.plan.item_id} is dropped; 1 more changed with it."


@pytest.mark.slow
@browser
def test_what_others_do_appears_without_a_reload_and_typed_words_stay(shop, tmp_path):
    made = shop.bob.work.make_plan("Board", [NewStep("first"), NewStep("second", (1,))])
    site = shop.serve()
    with Browser(tmp_path) as page:
        page.go(site.server.url)
        page.go(f"http://127.0.0.1:{site.port}/work/plan/{made.plan.item_id}")
        page.until("return document.getElementById('live-state').textContent.startsWith('live')")
        page.click("#hand-over summary")
        page.run("document.getElementById('handoff-text').focus()")
        page.keys("half a sentence")
        shop.bob.work.take(step=made.steps[0].item_id)
        page.until("return document.querySelector('#column-doing + ul')?.innerText.includes('first')")
        assert page.run("return document.getElementById('handoff-text').value") == "half a sentence"
        assert page.run("return document.getElementById('hand-over').open")
        page.run("window.before = document.querySelector('svg.plan-graph')")
        shop.bob.work.change_state([made.steps[0].item_id], "done")
        page.until("return document.querySelector('#column-ended + ul')?.innerText.includes('first')")
        page.until("return document.querySelector('#column-todo + ul')?.innerText.includes('ready')")
        assert page.complaints() == []


@pytest.mark.slow
@browser
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)], ids=["wide", "narrow"])
def test_the_pages_are_usable_by_the_keyboard_and_nothing_runs(shop, tmp_path, width, dark):
    paths = hostile_work(shop)
    made = shop.bob.work.make_plan("Board", [NewStep("first"), NewStep("second", (1,))])
    site = shop.serve()
    with Browser(tmp_path, width=width, dark=dark) as page:
        page.go(site.server.url)
        for path in paths:
            page.go(f"http://127.0.0.1:{site.port}{path}")
            page.until("return document.readyState === 'complete'")
            assert page.run("return document.title.startsWith('owned')") is False
            assert page.run("return document.documentElement.scrollWidth") <= width, path
            assert page.run("return document.querySelectorAll('main img, main script').length") == 0
        page.go(f"http://127.0.0.1:{site.port}/work/plan/{made.plan.item_id}")
        page.keys("j")
        assert page.run("return document.activeElement.textContent") == "first"
        page.run("document.querySelector('form[action$=\"/take\"] button').focus()")
        page.keys("\ue007")
        page.until("return document.querySelector('.message')?.textContent.includes('Taken: first')")
        assert page.complaints() == []


@pytest.mark.slow
def test_a_dispatch_at_work_is_asked_for_at_intervals(shop):
    order = Order(shop.bob)
    order.carry()
    held = order.start(0)
    site = shop.serve()
    section = next(
        one for one in site.get(f"/work/dispatch/{order.id}").page.all("section") if one.attributes.get("id") == "lanes"
    )
    assert "every 2s" in section.attributes["hx-trigger"]
    order.end_run(held, "failed", ending="failed", reason="x")
    section = next(
        one for one in site.get(f"/work/dispatch/{order.id}").page.all("section") if one.attributes.get("id") == "lanes"
    )
    assert "every" not in section.attributes["hx-trigger"]
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(site.get(f"/work/dispatch/{order.id}").status)) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [200] * 8
