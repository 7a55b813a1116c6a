"""Loops from their opening to their end: scripted agents, real dispatches, and gates that only evidence opens."""

from __future__ import annotations

import sys

import pytest

from dispatch_support import Yard, git
from periplus.agent.sandbox import Unconfined
from periplus.base.errors import NotFoundError, RefusedError, UsageError
from periplus.dispatch.loops.runner import LoopOrder, LoopRunner, open_loop, shape_of
from periplus.memory.coordination.loops import close_loop, find_loop
from periplus.memory.fulltext.links import linked

MEAN = "def mean(numbers):\n    total = sum(numbers)\n    return total / len(numbers)\n"
MENDED = "def mean(numbers):\n    total = sum(numbers)\n    return total / len(numbers) if numbers else 0\n"
USE = "import sys\nsys.dont_write_bytecode = True\nsys.path.insert(0, '.')\nimport mean\nprint(mean.mean([]))\n"
FAILS = [sys.executable, "use.py"]
QUESTIONS = ["Which function divides by the count of numbers?", "What does the shop's readme promise its customers?"]
PROPOSALS = (
    ("Cache in memory", "Keep every parsed price list inside one process wide dictionary, keyed by supplier name, and drop entries after ten minutes; restarts lose everything, which costs one slow request each."),
    ("Write snapshots", "Serialise finished catalogues into versioned files on disk under an exclusive lock, so later starts load them instantly; stale snapshots get detected through checksums of their sources."),
    ("Ask suppliers less", "Negotiate conditional requests with entity tags against remote servers, storing validators beside rows of our database; unchanged answers then transfer nothing but headers."),
)  # fmt: skip
CRITIQUES = (
    "Memory grows without any bound during sales weeks, when hundreds of suppliers appear at once.",
    "An exclusive lock stalls readers whenever somebody publishes, and network drives ignore such locks.",
    "Half of the remote servers send no validators at all, therefore nothing would be saved there.",
)


@pytest.fixture
def yard(tmp_path):
    return Yard(tmp_path, files={"mean.py": MEAN, "README.md": "# Shop\n\nPrices are even numbers.\n"})


def hands_in(artifact, *acts, **more):
    return [*acts, {"result": {"status": "done", "summary": "done", "artifact": artifact, **more}}]


def opened(yard, project, kind, text="Means of nothing [script it]", agents=("scripted",), **more):
    limits = {"retries": 0, "rounds": 3, "wall_s": 60, "oracle_s": 60, **more.pop("limits", {})}
    order = LoopOrder(kind, text, agents, limits=limits, **more)
    return open_loop(project, order, yard.options)


def runner(yard, project, loop):
    return LoopRunner(project, loop.item_id, yard.options, sandbox=Unconfined())


def through(yard, project, loop):
    """All phases until the loop is closed or a gate stays shut; the turns."""
    turns = []
    while not turns or turns[-1].outcome == "opened":
        turns.append(runner(yard, project, loop).phase())
    return [(turn.phase, turn.outcome) for turn in turns], turns[-1]


def debugs(yard):
    yard.script(
        "it.reproduce1",
        hands_in({"argv": FAILS, "symptom": "ZeroDivisionError"}, {"write": {"use.py": USE}}, {"commit": "Reproduce"}),
    )
    causes = [
        {"cause": "An empty sequence is divided by its length", "test": "Call mean with an empty list and watch the division"},
        {"cause": "Summing overflows somewhere in arithmetic", "test": "Compare totals of huge integers against exact decimals"},
    ]  # fmt: skip
    yard.script("it.hypotheses1", hands_in({"hypotheses": causes}))
    yard.script(
        "it.isolate1",
        hands_in({"place": "mean.py:3", "hypothesis": 1, "reason": "The traceback ends in that division"}),
    )
    yard.script(
        "it.fix1",
        hands_in(
            {"reason": "An empty sequence has the mean zero now"}, {"write": {"mean.py": MENDED}}, {"commit": "Mend"}
        ),
    )


@pytest.mark.slow
def test_debugging_ends_with_a_repair_that_the_supervisor_saw(yard):
    debugs(yard)
    with yard.open() as project:
        loop = opened(yard, project, "debug", command=(sys.executable, "check.py"))
        turns, last = through(yard, project, loop)
        assert turns == [("reproduce", "opened"), ("hypotheses", "opened"), ("isolate", "opened"), ("fix", "closed")]
        held = shape_of(last.loop)
        assert [(one.phase, list(one.argv[1:]), one.code) for one in held.checks] == [
            ("reproduce", ["use.py"], 1), ("fix", ["use.py"], 0), ("fix", ["check.py"], 0),
        ]  # fmt: skip
        tip = git(yard.folder, "rev-parse", held.branch)
        assert [one.tip == tip for one in held.checks] == [False, True, True]
        assert git(yard.folder, "show", f"{held.branch}:mean.py").endswith("if numbers else 0")
        assert git(yard.folder, "rev-list", "--count", "main") == "1"
        assert "ZeroDivisionError" in yard.prompt("it.fix1")
        assert "mean.py:3 (hypothesis 1)" in yard.prompt("it.fix1")
        assert [one.agent for one in held.artifacts] == ["scripted"] * 4
        assert project.work.claims() == []
        assert [one.value["state"] for one in project.journal.entities("plan")] == ["done"] * 4


@pytest.mark.slow
def test_a_command_that_does_not_fail_reproduces_nothing(yard):
    passes = hands_in({"argv": [sys.executable, "-c", "print('ZeroDivisionError')"], "symptom": "ZeroDivisionError"})
    debugs(yard)
    good = yard.scripts / "it.reproduce1"
    good.rename(yard.scripts / "kept")
    yard.script("it.reproduce1", passes)
    with yard.open() as project:
        loop = opened(yard, project, "debug", limits={"rounds": 2})
        turn = runner(yard, project, loop).phase()
        assert (turn.phase, turn.outcome) == ("reproduce", "shut")
        assert "the command passes" in turn.missing
        assert yard.times("it.reproduce1") == 2
        assert "- the command passes" in yard.prompt("it.reproduce1", 1)
        held = shape_of(turn.loop)
        assert (held.phase, held.tries, [one.refused for one in held.artifacts]) == ("reproduce", 2, [True, True])
        (yard.scripts / "kept").rename(good)
        turn = runner(yard, project, loop).turn()
        assert (turn.outcome, shape_of(turn.loop).phase, shape_of(turn.loop).missing) == ("opened", "hypotheses", ())


def ideates(yard):
    for slot, (title, text) in enumerate(PROPOSALS, 1):
        yard.script(f"it.proposals{slot}", hands_in({"title": title, "text": text}))
        others = [one for one in (1, 2, 3) if one != slot]
        yard.script(
            f"it.critiques{slot}",
            hands_in({"critiques": [{"proposal": one, "text": CRITIQUES[one - 1]} for one in others]}),
        )
    uses = [
        {"proposal": 1, "use": "left", "reason": "Unbounded memory is the worst of its faults"},
        {"proposal": 2, "use": "taken", "reason": "Snapshots survive restarts of the process"},
        {"proposal": 3, "use": "left", "reason": "Most servers send no validators today"},
    ]
    text = "Write versioned snapshots to local disks, publish them by renaming instead of locking, verify checksums while loading, and refresh them nightly from suppliers."
    yard.script("it.synthesis1", hands_in({"text": text, "uses": uses}))


@pytest.mark.slow
def test_ideas_are_had_apart_judged_by_others_and_brought_together(yard):
    ideates(yard)
    with yard.open() as project:
        loop = opened(yard, project, "ideation", agents=("scripted", "other", "scripted"))
        turns, last = through(yard, project, loop)
        assert turns == [("proposals", "opened"), ("critiques", "opened"), ("synthesis", "closed")]
        for slot in (1, 2, 3):
            proposing, judging = yard.prompt(f"it.proposals{slot}"), yard.prompt(f"it.critiques{slot}")
            for number, (title, _) in enumerate(PROPOSALS, 1):
                assert title not in proposing
                assert (f"{number}. {title}" in judging) == (number != slot)
            assert not any(one in judging for one in CRITIQUES)
        assert all(one in yard.prompt("it.synthesis1") for one in CRITIQUES)
        held = shape_of(last.loop)
        assert (held.state, len(held.artifacts), held.checks) == ("closed", 7, ())
        assert git(yard.folder, "rev-parse", held.branch) == git(yard.folder, "rev-parse", "main")
        with pytest.raises(RefusedError, match="is closed"):
            runner(yard, project, loop).turn()


@pytest.mark.slow
def test_padding_and_copies_open_no_gate_and_who_handed_in_nothing_is_asked_again(yard):
    ideates(yard)
    title, text = PROPOSALS[0]
    yard.script(
        "it.proposals1", hands_in({"title": "", "text": "todo todo todo"}), hands_in({"title": title, "text": text})
    )
    yard.script(
        "it.proposals2", hands_in("no such shape"), hands_in({"title": PROPOSALS[1][0], "text": PROPOSALS[1][1]})
    )
    with yard.open() as project:
        loop = opened(yard, project, "ideation")
        turn = runner(yard, project, loop).turn()
        assert turn.outcome == "shut"
        assert any(one.startswith("agent 2: artifact") for one in turn.missing)
        assert "2 of 3 different agents that propose" in turn.missing
        turn = runner(yard, project, loop).turn()  # agent 2 alone
        assert [yard.times(f"it.proposals{slot}") for slot in (1, 2, 3)] == [1, 2, 1]
        assert (turn.outcome, turn.missing) == (
            "shut",
            ("2 of 3 proposals of substance", "proposals 1 and 2 say the same"),
        )
        turn = runner(yard, project, loop).turn()  # all of them
        assert [yard.times(f"it.proposals{slot}") for slot in (1, 2, 3)] == [2, 3, 2]
        assert (turn.outcome, shape_of(turn.loop).phase) == ("opened", "critiques")
        kept = [one.by for one in shape_of(turn.loop).artifacts if not one.refused]
        assert kept == ["agent 1", "agent 2", "agent 3"]


@pytest.mark.slow
def test_research_rests_on_sources_that_exist(yard):
    yard.script("it.questions1", hands_in({"questions": QUESTIONS}))
    found = [
        {"question": 1, "claim": "The function mean divides its total", "sources": ["mean.py:3"]},
        {"question": 2, "claim": "Prices are always even numbers", "sources": ["README.md:3"]},
    ]
    invented = [{**found[0], "sources": ["mean.py:300"]}, found[1]]
    yard.script("it.findings1", hands_in({"findings": invented}), hands_in({"findings": found}))
    yard.script("it.findings2", hands_in({"findings": found[1:]}))
    report = [
        {"question": 1, "text": "It is mean, in its last line", "findings": [1]},
        {"question": 2, "text": "Even prices, and nothing more", "findings": [2]},
    ]
    yard.script("it.synthesis1", hands_in({"conclusions": report}))
    with yard.open() as project:
        loop = opened(yard, project, "research", agents=("scripted", "other"))
        assert runner(yard, project, loop).turn().outcome == "opened"
        turn = runner(yard, project, loop).turn()
        assert turn.missing == ("finding 1: the source mean.py:300 is no place that exists and no address",)
        turns, _ = through(yard, project, loop)
        assert turns == [("findings", "opened"), ("synthesis", "closed")]
        assert f"1. {QUESTIONS[0]}" in yard.prompt("it.findings1")


def change_under_review(yard):
    git(yard.folder, "checkout", "-q", "-b", "work")
    (yard.folder / "n/b").write_text("4")
    (yard.folder / "mean.py").write_text(MEAN.replace("total", "whole"))
    git(yard.folder, "add", ".")
    git(yard.folder, "commit", "-qm", "Rename")
    git(yard.folder, "checkout", "-q", "main")


FINDING = {"severity": "blocking", "path": "mean.py", "line": 3, "text": "An empty sequence still divides by zero"}


def reviews(yard, verdict="approve"):
    change_under_review(yard)
    yard.script("it.findings1", hands_in({}, verdict="changes", findings=[FINDING]))
    answer = {"answers": [{"finding": 1, "answer": "fixed", "text": "An empty sequence gives zero now"}]}
    yard.script(
        "it.answer1",
        hands_in(answer, {"write": {"mean.py": MENDED}}, {"commit": "Mend"}),
        hands_in(answer, {"append": {"mean.py": "# again\n"}}, {"commit": "Again"}),
    )
    looked = {"settled": [1], "examined": ["n/b:1", "mean.py:3"]}
    refused = [] if verdict == "approve" else [FINDING]
    yard.script("it.verdict1", hands_in(looked, verdict=verdict, findings=refused))


@pytest.mark.slow
def test_a_review_ends_with_an_approval_by_somebody_else_who_looked_at_the_change(yard):
    reviews(yard)
    with yard.open() as project:
        loop = opened(
            yard, project, "review", agents=("scripted", "other"), branch="work", command=(sys.executable, "check.py")
        )
        turns, last = through(yard, project, loop)
        assert turns == [("findings", "opened"), ("answer", "opened"), ("verdict", "closed")]
        held = shape_of(last.loop)
        assert [(one.by, one.agent) for one in held.artifacts] == [
            ("reviewer 1", "other"), ("author", "scripted"), ("reviewer 1", "other"),
        ]  # fmt: skip
        assert "+    whole = sum(numbers)" in yard.prompt("it.findings1")
        assert "divides by zero" in yard.prompt("it.answer1")
        assert "fixed: An empty sequence gives zero now" in yard.prompt("it.verdict1")
        assert git(yard.folder, "rev-list", "--count", f"work..{held.branch}") == "2"


@pytest.mark.slow
def test_a_review_that_goes_round_is_left_to_a_person(yard):
    reviews(yard, "changes")
    with yard.open() as project:
        loop = opened(yard, project, "review", agents=("scripted", "other"), branch="work", limits={"rounds": 1})
        turns, last = through(yard, project, loop)
        assert turns == [("findings", "opened"), ("answer", "opened"), ("verdict", "exhausted")]
        assert last.missing == ("no approval after 1 rounds: a person decides",)
        assert shape_of(last.loop).state == "open"


@pytest.mark.slow
def test_a_runner_that_stops_anywhere_is_followed_by_another_that_repeats_nothing(yard):
    """Before the plan, after it, after the dispatch, and once the dispatch has ended: each time a new runner goes on."""
    debugs(yard)
    with yard.open() as project:
        loop = opened(yard, project, "debug")
        made = runner(yard, project, loop)
        made._make_branch(shape_of(loop))
        key = f"{loop.item_id}/0"
        from periplus.dispatch.loops.phase_orders import plan_text, step_texts

        plan = project.work.make_plan(plan_text(shape_of(loop)), step_texts(shape_of(loop)), key=key).plan.item_id
        dispatch = runner(yard, project, loop)._dispatch(find_loop(project.journal))
        assert runner(yard, project, loop)._dispatch(find_loop(project.journal)) == dispatch
        (held,) = linked(project.journal, "dispatch", "plan", plan)
        assert held.item_id == dispatch
        assert yard.supervisor(project, held).run() == "done"
        turn = runner(yard, project, loop).turn()
        assert (turn.phase, turn.outcome, yard.times("it.reproduce1")) == ("reproduce", "opened", 1)
        assert len(list(project.journal.entities("plan"))) == 1
        stopped = runner(yard, project, loop)
        stopped.stop()
        assert stopped.turn().outcome == "interrupted"
        turns, _ = through(yard, project, loop)
        assert turns == [("hypotheses", "opened"), ("isolate", "opened"), ("fix", "closed")]


def test_what_cannot_be_a_loop_is_refused_before_anything_is_written(yard):
    with yard.open() as project:
        with pytest.raises(UsageError, match="there is no loop 'chat'"):
            opened(yard, project, "chat")
        with pytest.raises(UsageError, match="there is no agent 'nobody'"):
            opened(yard, project, "debug", agents=("nobody",))
        with pytest.raises(UsageError, match="there is no change to review"):
            opened(yard, project, "review")
        with pytest.raises(NotFoundError, match="no branch or commit 'gone'"):
            opened(yard, project, "review", branch="gone")
        with pytest.raises(UsageError, match="no agent is named"):
            opened(yard, project, "debug", agents=())
        with pytest.raises(NotFoundError, match="there is no loop"):
            find_loop(project.journal)


def test_a_loop_that_is_closed_early_stops_its_dispatch(yard):
    debugs(yard)
    with yard.open() as project:
        loop = opened(yard, project, "debug")
        made = runner(yard, project, loop)
        made._make_branch(shape_of(loop))
        dispatch = made._dispatch(loop)
        closed = close_loop(project.journal, project.writer, find_loop(project.journal), "not worth it")
        assert (closed.value["state"], closed.value["reason"]) == ("closed", "not worth it")
        assert project.journal.get("dispatch", dispatch).value["state"] == "stopped"
        assert [one.value["state"] for one in project.journal.entities("plan")] == ["dropped"]
        assert project.work.ready() == []


def test_objects_of_a_loop_are_named_by_its_records(yard):
    debugs(yard)
    with yard.open() as project:
        loop = opened(yard, project, "debug")
        runner(yard, project, loop).turn()
        runner(yard, project, loop)._dispatch(find_loop(project.journal))
        from periplus.project.exchange.named_objects import named_objects

        named = {
            kind: set().union(
                *(named_objects(one, project.journal.objects.get) for one in project.journal.entities(kind))
            )
            for kind in ("loop", "assignment", "dispatch")
        }
        assert {kind: len(found) for kind, found in named.items()} == {"loop": 2, "assignment": 1, "dispatch": 1}
        assert all(project.journal.objects.has(one) for found in named.values() for one in found)
