"""How agents compare, from records and git; and the spans of a dispatch."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from cli_support import make_repository
from dispatch_records import Order
from periplus.base.clock import FixedClock, format_ms
from periplus.base.ids import new_id
from periplus.dispatch.reports.events import EventReader
from periplus.dispatch.reports.standing import UNDONE_WITHIN_MS, Standing, standings
from periplus.journal import ABSENT
from periplus.project import Project
from support import ADA

DAY_MS = 86_400_000


@pytest.fixture
def clock():
    return FixedClock(start_ms=1_767_225_600_000)


@pytest.fixture
def order(tmp_path, clock):
    make_repository(tmp_path / "shop")
    Project.init(os.fspath(tmp_path / "shop"), clock=clock)
    with Project(os.fspath(tmp_path / "shop/.periplus"), ADA, clock=clock) as project:
        yield Order(project)


def commit(order, clock, message):
    """An empty commit at the time of the clock."""
    when = f"@{clock.now_ms() // 1000} +0000"
    environment = os.environ | {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
    git = ["git", "-C", order.project.folder, "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", message], env=environment, check=True)
    return subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()


def of(order, agent, kind="implementer"):
    found = {(one.agent, one.kind): one for one in standings(order.journal, order.project.folder)}
    return found.get((agent, kind), Standing(agent, kind))


def test_what_passed_at_first_and_what_came_back(order):
    one = order.start(0)
    order.end_run(one, "submitted", tokens=(1_000, 800, 50), cost=12_345, wall_ms=95_000)
    order.integrate(one)
    other = order.start(1, run="r2")
    order.end_run(other, "submitted", tokens=(10, 0, 5), cost=1, wall_ms=2)
    order.change(other, "running", fields={"returns": [{"why": "oracle", "text": "2 failed"}]})
    order.begin_run(other, "r3")
    order.end_run(other, "submitted", tokens=(10, 0, 5), cost=1, wall_ms=2)
    order.begin_run(other, "r4", "review", "claude-code", state="verified")
    order.end_run(other, tokens=(7, 0, 3), cost=9, wall_ms=4, ending="answered")
    found = of(order, "codex")
    assert found == Standing("codex", "implementer", 2, 1, 2, 1, 1, 0, 0, 3, 1_880, 12_347, 95_004)
    assert of(order, "claude-code", "reviewer") == Standing(
        "claude-code", "reviewer", runs=1, tokens=10, cost=9, wall_ms=4
    )


def test_an_attempt_counts_for_the_agent_that_made_it(order):
    one = order.start(0)
    order.end_run(one, "timed_out", tokens=(10, 0, 5), ending="wall", reason="over an hour")
    assert (of(order, "codex").steps, of(order, "codex").failed) == (1, 1)
    again = order.offer_again(order.journal.get("assignment", one.item_id), 0, "gemini")
    order.begin_run(again, "r2")
    order.end_run(again, "submitted")
    order.integrate(again)
    first, second = of(order, "codex"), of(order, "gemini")
    assert (first.steps, first.failed, first.integrated, first.runs, first.tokens) == (1, 1, 0, 1, 15)
    assert (second.steps, second.at_first, second.integrated, second.runs) == (1, 0, 1, 1)


@pytest.mark.parametrize(("days", "undone"), [(13, 1), (15, 0)])
def test_merged_work_that_is_reverted_soon_was_undone(order, clock, days, undone):
    merged = commit(order, clock, "Hash passwords")
    one = order.start(0)
    order.end_run(one, "submitted")
    order.integrate(one, merged)
    assert of(order, "codex").undone == 0
    clock.advance(days * DAY_MS)
    commit(order, clock, f"Revert it\n\nThis reverts commit {merged}.\n")
    assert (of(order, "codex").integrated, of(order, "codex").undone) == (1, undone)


@pytest.mark.parametrize(("wait_ms", "undone"), [(UNDONE_WITHIN_MS, 1), (UNDONE_WITHIN_MS + 1, 0)])
def test_a_step_that_is_done_again_soon_was_undone(order, clock, wait_ms, undone):
    one = order.start(0)
    order.end_run(one, "submitted")
    done = order.integrate(one)
    clock.advance(wait_ms)
    value = {**done.value, "agent": "gemini", "runs": [], "merged": "d" * 40, "updated": format_ms(clock.now_ms())}
    again = new_id("asg")  # as another clone did it, before the two were joined
    order.journal.mutate(lambda transaction: transaction.put("assignment", again, value, expect=ABSENT), ADA)
    assert (of(order, "codex").undone, of(order, "gemini").undone) == (undone, 0)


# -- spans -------------------------------------------------------------------------------------------------------------


def spans_of(order):
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from periplus.dispatch.reports.spans import open_dispatch_spans

    exporter = InMemorySpanExporter()
    spans = open_dispatch_spans(order.id, exporter)
    for event in EventReader(order.journal, order.id).read():
        spans(event)
    assert spans.close() == 0
    assert not spans.is_broken
    return exporter.get_finished_spans()


def test_spans_have_the_times_of_records_and_no_text(order, clock):
    one = order.start(0)
    clock.advance(95_000)
    order.end_run(one, "submitted", tokens=(1_000, 800, 50), cost=12_345, wall_ms=95_000, summary="SECRET argon2id")
    clock.advance(1_000)
    order.integrate(one)
    other = order.start(1, "gemini", "r2")
    order.end_run(other, "failed", ending="wall", reason="SECRET")
    order.start(3, run="r3")
    made = spans_of(order)
    run = next(span for span in made if span.attributes.get("periplus.run.id") == "r1")
    assert (run.name, run.end_time - run.start_time) == ("run work", 95 * 10**9)
    assert run.attributes["gen_ai.usage.input_tokens"] == 1_800  # what came from a cache was sent, too
    assert run.attributes["periplus.cost_microdollars"] == 12_345
    assignments = [span for span in made if span.name == "assignment"]
    assert [span.attributes.get("error.type") for span in assignments] == [None, "failed", "cut_off"]
    assert assignments[0].end_time - assignments[0].start_time == 96 * 10**9
    assert run.parent.span_id == assignments[0].context.span_id
    (whole,) = (span for span in made if span.name == "dispatch")
    assert {span.parent.span_id for span in assignments} == {whole.context.span_id}
    text = json.dumps([json.loads(span.to_json()) for span in made])
    assert not any(said in text for said in ("SECRET", "hash", "argon2"))
