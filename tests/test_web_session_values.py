"""A session as values: the items of its timeline, its overview, its diffs, a search in it."""

from __future__ import annotations

import pytest

from periplus.base.errors import NotFoundError
from periplus.web.sessions.diffs import diff_of
from periplus.web.sessions.memory_calls import memory_command
from periplus.web.sessions.overview import MARKS_MAX, overview_of
from periplus.web.sessions.plans import plan_steps
from periplus.web.sessions.search import search
from periplus.web.sessions.timeline import step_item, timeline
from periplus.web.sessions.values import IN_PAGE, DiffRow, Limits
from session_support import HOSTILE, STARTED_MS, built, hostile, long_trail, small, source_of


@pytest.fixture(scope="module")
def made():
    return source_of(*built(small))


def items_of(source, limits=IN_PAGE, *window):
    return list(timeline(source, limits, *window))


def test_each_step_is_an_item_of_its_kind(made):
    kinds = [item.kind for item in items_of(made)]
    assert kinds == [
        "prompt", "thought", "model", "words", "read", "search", "edit", "edit", "edit", "command", "test", "test", "test",
        "plan", "memory", "call", "agent", "question", "commit", "edit", "edit", "web", "other", "words",
    ]  # fmt: skip
    assert [item.number for item in items_of(made)] == list(range(24))
    assert items_of(made)[0].at_ms == STARTED_MS


def test_paths_are_relative_to_the_folder_of_the_session(made):
    items = items_of(made)
    assert (items[4].head, items[4].detail) == ("src/engine.py", "1-40")
    assert items[9].detail == "", "the folder of a command is said only where it is another"


def test_an_edit_shows_the_lines_that_changed(made):
    edit = items_of(made)[8].diff
    assert edit.rows == (
        DiffRow(" ", "a"), DiffRow("-", "b"), DiffRow("+", "B"), DiffRow(" ", "c"), DiffRow("+", "d"),
    )  # fmt: skip
    assert (edit.added, edit.removed) == (2, 1)


def test_a_file_written_again_is_compared_with_what_was_written_before(made):
    first, second = items_of(made)[6:8]
    assert (first.diff.added, first.diff.removed) == (3, 0)
    assert [row.mark for row in second.diff.rows] == [" ", "-", "+", " "]


def test_an_edit_in_between_makes_the_earlier_content_unknown():
    def fill(builder, objects):
        builder.add("FILE_WRITE", "a.py", objects.digest("one\n"))
        builder.add("FILE_EDIT", "a.py", "one", "two")
        builder.add("FILE_WRITE", "a.py", objects.digest("one\nmore\n"))

    last = items_of(source_of(*built(fill)))[2]
    assert (last.diff.added, last.diff.removed) == (2, 0)


def test_a_failure_has_exit_code_error_and_duration(made):
    item = items_of(made)[9]
    assert (item.outcome, item.exit_code, item.error.text, item.duration_ms, item.is_wrong) == (
        "failed",
        2,
        "no rule",
        1_200,
        True,
    )


def test_tokens_cost_plan_commit_and_child(made):
    items = items_of(made)
    usage = items[2].usage
    assert (usage.given, usage.cached_percent, usage.out, usage.cost) == (10_000, 90, 250, 12_500)
    assert [(step.text, step.state) for step in items[13].plan] == [("count", "completed"), ("test", "pending")]
    assert items[18].commit == "0a" * 20
    assert items[16].child == "07" * 32


def test_a_window_has_only_its_steps_and_knows_what_was_written_before_it(made):
    assert [item.number for item in items_of(made, IN_PAGE, 7, 9)] == [7, 8]
    assert [row.mark for row in items_of(made, IN_PAGE, 7, 8)[0].diff.rows] == [" ", "-", "+", " "]


def test_a_step_by_its_number(made):
    assert step_item(made, 3, IN_PAGE).head == "I read the engine."
    with pytest.raises(NotFoundError, match="0 to 23"):
        step_item(made, 24, IN_PAGE)


def test_long_texts_are_cut_and_say_how_much_is_left_out(made):
    cut = items_of(made, Limits(100, 5, 5))[23].passages[0]
    assert (len(cut.text), cut.left_out, cut.size) == (100, 4_900, 5_000)


def test_many_short_lines_are_cut_by_lines():
    data, objects = built(lambda builder, _: builder.add("SAY", "\n" * 3_000))
    passage = items_of(source_of(data, objects))[0].passages[0]
    assert passage.text.count("\n") < IN_PAGE.lines
    assert passage.size == 3_000


def test_texts_that_are_not_here_are_said_to_be_missing():
    def fill(builder, objects):
        builder.add("FILE_WRITE", "a", objects.digest("x"))
        builder.add("SAY", "y" * 9_000)

    write, say = items_of(source_of(built(fill)[0]))
    assert write.passages[0].missing == "not here"
    assert "9,000 bytes" in say.passages[0].missing


def test_the_outline_has_prompts_and_turning_points(made):
    overview = overview_of(made)
    assert [(mark.number, mark.kind) for mark in overview.marks] == [
        (0, "prompt"), (9, "command"), (10, "test"), (11, "test"), (13, "plan"), (14, "memory"), (16, "agent"), (17, "question"), (18, "commit"),
    ]  # fmt: skip
    assert overview.marks[1].text == "make lint: no rule"
    assert (overview.totals.passed, overview.totals.failed, overview.totals.wrong) == (2, 1, 2)
    assert dict(overview.files)["src/cogs.py"] == 3


def test_a_long_session_has_a_bounded_outline_and_bins_of_costs():
    overview = overview_of(source_of(*long_trail(6_000)))
    assert len(overview.marks) <= MARKS_MAX
    assert sum(mark.kind == "prompt" for mark in overview.marks) == 120
    assert overview.left_out > 0
    assert sum(one.usage.cost for one in overview.costs) == overview.totals.usage.cost == 600 * 12_000


def test_a_search_finds_steps_with_all_words(made):
    found = search(made, "ENGINE  Read")
    assert [hit.number for hit in found.hits] == [3]
    assert (found.hits[0].word, found.hits[0].after) == ("engine", ".")
    assert search(made, "   ").hits == ()
    assert search(made, "o", most=2).more


def test_diffs_leave_out_equal_lines_far_from_changes():
    old = "".join(f"{number}\n" for number in range(100))
    found = diff_of(old, old.replace("50\n", "fifty\n"), IN_PAGE)
    assert [row.text for row in found.rows] == ["47", "48", "49", "50", "fifty", "51", "52", "53"]
    found = diff_of(old, old.replace("20\n", "x\n").replace("80\n", "y\n"), IN_PAGE)
    assert [row.mark for row in found.rows].count("@") == 1
    assert diff_of("a\n", "a\n", IN_PAGE).rows == ()


def test_a_diff_is_bounded():
    found = diff_of("", "x" * 10_000_000 + "\n" + "y\n" * 5_000, IN_PAGE)
    assert len(found.rows) == IN_PAGE.diff_rows
    assert max(len(row.text) for row in found.rows) < 1_000
    assert found.added == 5_001
    assert found.left_out == 5_001 - IN_PAGE.diff_rows


@pytest.mark.parametrize("text", ["", "[]", "null", "{}", "[1]", '[{"x":1}]', "[" * 100_000, '{"a":' * 50_000])
def test_what_is_no_plan_gives_no_steps(text):
    assert plan_steps(text) == ()


def test_calls_of_memory_at_the_command_line():
    assert memory_command("cd /p && periplus recall 'x'") == "recall"
    assert memory_command("periplus --version") == ""
    assert memory_command("echo periplus") == ""


def test_hostile_texts_make_items():
    items = items_of(source_of(*built(hostile)))
    assert len(items) % len(HOSTILE) == 0
    assert all(len(item.head) <= 300 for item in items)
