"""What can be seen of a session: what each call of the model cost, its sums, and the table that a person reads."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fake_provider import FakeProvider
from tests.test_cli_run import CHECK, CHECKS, MENDS, READS, says, shell, use  # noqa: F401 - shell is a fixture

from agent_support import Bench, FolderHost, tape
from periplus.agent.contracts import AssistantMessage, Message, ModelError, StreamEvent, ToolResult, Usage
from periplus.agent.episodes import Answered, Ended, Noted, Requested, Resulted
from periplus.agent.hooks import Functions
from periplus.agent.models.scripted import ScriptedClient, answer, call
from periplus.agent.observation import Ledger, RequestHistory, Spending, cost_text, kept_characters
from periplus.agent.tape.prefix_survival import serialised
from periplus.base.errors import DamageError

DOCS = Path(__file__).resolve().parents[1] / "docs"


def ledger_of(episodes):
    ledger = Ledger()
    for episode in episodes:
        ledger.take(episode)
    return ledger


def costing(text, cost, *calls, prompt=100, cached=0):
    usage = Usage(prompt_tokens=prompt, cached=cached, completion_tokens=10, cost=cost)
    return AssistantMessage(
        content=text, tool_calls=calls, usage=usage, finish_reason="tool_calls" if calls else "stop", model="m"
    )


def test_every_call_of_a_session_is_weighed_and_summed_for_its_turn_and_all(tmp_path):
    script = [
        costing("I look.", 300, call("shell", command="ls")),
        costing("Done.", 200, prompt=150, cached=100),
        costing("Again.", 0, prompt=400, cached=300),
    ]
    bench = Bench(tmp_path, script, context=tape)
    bench.turn("First")
    bench.turn("Second")
    ledger = ledger_of(bench.log.read())
    assert [(one.turn, one.step, one.fresh, one.cached, one.output, one.cost) for one in ledger.calls] == [
        (1, 1, 100, 0, 10, 300), (1, 2, 50, 100, 10, 200), (2, 1, 100, 300, 10, None),
    ]  # fmt: skip
    first, second = ledger.turns
    assert (first.request, first.reason, first.tools, first.totals.cost, first.totals.unpriced) == (
        "First", "done", 1, 500, 0,
    )  # fmt: skip
    assert (second.totals.cost, second.totals.unpriced) == (0, 1)
    assert (ledger.totals.calls, ledger.totals.fresh, ledger.totals.cached, ledger.totals.cost) == (3, 250, 400, 500)
    assert [one.survival for one in ledger.calls] == [None, 1_000_000, 1_000_000]
    assert ledger.survival == 1_000_000


def test_the_time_to_the_first_token_is_that_of_the_try_that_came_through(tmp_path):
    class Slow(ScriptedClient):
        """Its first stream breaks off behind a word; time passes before each word of the second."""

        tries = 0

        def stream(self, messages, tools):
            self.tries += 1
            bench.waits.now_s += 2
            yield StreamEvent(kind="text", text="Hm")
            if self.tries == 1:
                raise ModelError("cut", is_retryable=True)
            bench.waits.now_s += 3
            yield StreamEvent(kind="message", message=costing("Hm.", 0))

    bench = Bench(tmp_path, client=Slow([]))
    bench.turn("Think")
    (one,) = ledger_of(bench.log.read()).calls
    waited = sum(bench.waits.waited)
    assert one.retries == 1
    assert one.first_token_ms == round(1000 * (4 + waited))
    assert one.latency_ms == round(1000 * (7 + waited))


@pytest.mark.parametrize(
    ("cost", "unpriced", "calls", "text"),
    [
        (0, 0, 0, "nothing"),
        (0, 3, 3, "price not known"),
        (12_345, 0, 2, "$0.0123"),
        (12_345, 1, 2, "$0.0123 and 1 call of unknown price"),
        (12_345, 2, 4, "$0.0123 and 2 calls of unknown price"),
    ],
)
def test_a_price_that_is_not_known_is_not_nought(cost, unpriced, calls, text):
    assert cost_text(cost, unpriced, calls) == text


counts = st.integers(0, 10**9)
usages = st.builds(Usage, prompt_tokens=counts, completion_tokens=counts, cached=counts, cost=counts)


@pytest.mark.slow
@given(st.lists(st.lists(usages, max_size=4), max_size=4))
def test_sums_of_turns_are_the_sum_of_all(turns):
    episodes = []
    for number, found in enumerate(turns, 1):
        episodes.append(Requested(turn=number, text="x" * 1000))
        episodes += [
            Answered(turn=number, step=step, message=AssistantMessage(usage=usage), measures={})
            for step, usage in enumerate(found, 1)
        ]
        episodes.append(Ended(turn=number, reason="done"))
    ledger = ledger_of(episodes)
    for name in ledger.totals.__struct_fields__:
        assert getattr(ledger.totals, name) == sum(getattr(one.totals, name) for one in ledger.turns)
    assert ledger.totals.unpriced == sum(usage.cost == 0 for found in turns for usage in found)
    assert ledger.totals.cost == sum(usage.cost for found in turns for usage in found)
    assert all(len(one.request) <= 200 for one in ledger.turns)


@pytest.mark.slow
def test_a_run_tells_what_it_cost_as_a_table_and_as_json(shell):  # noqa: F811 - the fixture
    pytest.importorskip("openai")
    with FakeProvider(says("I look.", READS), says("Wrong.", MENDS), says("", CHECKS), says("It adds now.")) as fake:
        use(shell, fake)
        told = shell(
            "run",
            "make it\x1b[31m add",
            "--session",
            "one",
            "--allow",
            "shell(python3 -c)",
            "--oracle",
            CHECK,
            "--json",
        )
    checker = jsonschema.Draft202012Validator(json.loads((DOCS / "reference/events.schema.json").read_text()))
    for line in told.lines:
        checker.validate(json.loads(line))
    assert json.loads(told.lines[-1])["event"] == "turn_ended"
    told = shell("run", "--stats")
    assert "\x1b" not in told.out
    assert max(map(len, told.lines)) <= 78, told.out
    assert "price not known" in told.out
    assert "$0" not in told.out, "a local server has no price list"
    assert "All: 4,000 tokens fresh, 12,000 cached, 200 out\n75 % of the prompt tokens came from the cache." in told.out
    out = shell.json("run", "--stats", "one")
    assert (out.session, out.totals.calls, out.totals.unpriced, out.totals.cost) == ("one", 4, 4, 0)
    assert [one.step for one in out.calls] == [1, 2, 3, 4]
    assert all(one.first_token_ms is not None and one.first_token_ms <= one.latency_ms for one in out.calls)
    assert (out.turns[0].reason, out.turns[0].tools, out.turns[0].tools_failed) == ("done", 3, 0)
    shell.fails("run", "--stats", "two", code=1, wrong="the agent has no session 'two'")


def test_what_failed_is_counted(tmp_path):
    bench = Bench(tmp_path, [costing("", 0, call("nothing")), "Oh."])
    bench.turn("Try")
    (turn,) = ledger_of(bench.log.read()).turns
    assert (turn.tools, turn.tools_failed) == (1, 1)
    assert len([one for one in bench.log.read() if isinstance(one, Resulted)]) == 1


class Wiretap(ScriptedClient):
    """A scripted model that keeps every request as it came."""

    def __init__(self, script):
        super().__init__(script)
        self.seen = []

    def stream(self, messages, tools):
        self.seen.append((tuple(tools), [msgspec.structs.replace(one, breakpoint=False) for one in messages]))
        yield from super().stream(messages, tools)


def sent_and_seen(bench, client):
    """Every request as it was sent, beside what the episodes say of it: through the book as they come, and found later."""
    episodes = bench.log.read()
    book, answered = RequestHistory(1000), [one for one in episodes if isinstance(one, Answered)]
    for episode in episodes:
        book.take(episode)
    assert len(answered) == len(client.seen)
    for one, (tools, messages) in zip(answered, client.seen, strict=True):
        for found in (book.get(one.turn, one.step), RequestHistory.find(episodes, one.turn, one.step)):
            assert found.tools == tools
            assert list(found.messages) == messages
            assert found.answered == one
            assert found.is_as_sent is True
            yield found


def test_what_the_model_saw_is_made_again_from_the_episodes_through_folds_and_all(tmp_path):
    script = []
    for number in range(12):
        script += [
            answer(f"Part {number}. " * 40, call("append", path="log.txt", text=f"{number}\n" * 200)),
            f"Done {number}.",
        ]
    client = Wiretap(script)
    bench = Bench(tmp_path, client=client, context=tape)
    for number in range(12):
        bench.turn(f"Go on with {number}")
    seen = list(sent_and_seen(bench, client))
    assert any(one.answered.measures["is_fold"] for one in seen), "a fold lay in between"
    assert {len(one.results) for one in seen} == {0, 1}
    assert isinstance(seen[-1].then[-1], Ended)


@pytest.mark.parametrize("size", [1, 3, 25, 10_000])
def test_the_newest_requests_are_the_same_when_a_session_is_read_in_pieces(tmp_path, size):
    script = [
        one for number in range(15) for one in (answer("I write.", call("append", path="a", text=f"{number}")), "Done.")
    ]
    bench = Bench(tmp_path, script, context=tape)
    for number in range(15):
        bench.turn(f"Go on with {number}")
    episodes = list(bench.log.read())
    each, pieces = RequestHistory(4), RequestHistory(4)
    for episode in episodes:
        each.take(episode)
    for start in range(0, len(episodes), size):
        pieces.take_all(episodes[start : start + size])
    answered = [one for one in episodes if isinstance(one, Answered)]
    for one in answered[-4:]:
        found, wanted = (book.get(one.turn, one.step) for book in (pieces, each))
        for name in ("tools", "messages", "before", "tools_are_kept", "answered", "results", "decided", "then"):
            assert getattr(found, name) == getattr(wanted, name), name
        assert found.kept() == wanted.kept()
    assert pieces.get(answered[-5].turn, answered[-5].step) is None, "older ones are not kept"
    assert (pieces.phase, pieces.pending()) == (each.phase, each.pending())


def test_a_session_that_cannot_be_read_to_its_end_is_taken_as_far_as_it_goes(tmp_path):
    bench = Bench(tmp_path, ["One.", "Two."], context=tape)
    bench.turn("First")
    bench.turn("Second")

    def damaged():
        yield from bench.log.read()
        raise DamageError("a record is damaged")

    book = RequestHistory()
    with pytest.raises(DamageError):
        book.take_all(damaged())
    assert book.get(2, 1).answered.message.content == "Two."


def test_what_is_kept_of_the_request_before_is_what_was_measured(tmp_path):
    client = Wiretap([answer("I write.", call("write", path="a", content="x")), "Done.", "Again."])
    bench = Bench(tmp_path, client=client, context=tape)
    bench.turn("First")
    bench.turn("Second")
    found = list(sent_and_seen(bench, client))[::2]
    assert [set(one.kept()) for one in found] == [{0}, {-1, 0}, {-1, 0}]
    for one in found[1:]:
        kept = sum(len(serialised(message)) for message, count in zip(one.messages, one.kept(), strict=True) if count)
        tools = sum(len(serialised(tool)) for tool in one.tools)
        assert tools + kept == one.answered.measures["common_bytes"]


def test_a_hook_that_changes_the_request_on_its_way_is_told_of(tmp_path):
    def shout(messages):
        return [msgspec.structs.replace(one, content=one.content.upper() + "!") for one in messages]

    bench = Bench(tmp_path, ["Done."], context=tape, hooks=[Functions("shout", {"prepare_messages": shout})])
    bench.turn("First")
    assert RequestHistory.find(bench.log.read(), 1, 1).is_as_sent is False


def test_a_session_without_a_note_of_its_tools_says_that_they_are_not_known(tmp_path):
    bench = Bench(tmp_path, ["Done."], context=tape)
    bench.turn("First")
    old = [one for one in bench.log.read() if not (isinstance(one, Noted) and one.topic == "tools")]
    found = RequestHistory.find(old, 1, 1)
    assert (found.tools, found.is_as_sent) == (None, None)
    assert RequestHistory.find(old, 1, 2) is None
    assert RequestHistory.find(old, 7, 1) is None


def test_the_tools_are_noted_once_and_again_when_they_change(tmp_path):
    bench = Bench(tmp_path, ["One.", "Two."], context=tape)
    bench.turn("First")
    bench.turn("Second")
    more = {"extra": lambda: ToolResult(outcome="ok")}
    other = Bench(tmp_path, ["Three."], context=tape, log=bench.log, host=FolderHost(tmp_path / "work", more))
    other.turn("Third")
    notes = [one for one in bench.log.read() if isinstance(one, Noted) and one.topic == "tools"]
    assert [one.turn for one in notes] == [1, 3]
    third = RequestHistory.find(bench.log.read(), 3, 1)
    assert [tool.name for tool in third.tools][-1] == "extra"
    assert set(third.kept()) == {0}, "the tools stand in front: nothing behind them is kept"


def test_what_is_asked_next_is_seen_before_the_answer_is_there(tmp_path):
    bench = Bench(tmp_path, ["Done."], context=tape)
    bench.turn("First")
    episodes = bench.log.read()
    book = RequestHistory()
    pending = []
    for episode in episodes:
        book.take(episode)
        if book.pending() is not None:
            pending.append(book.pending())
    assert (pending[-1].turn, pending[-1].step, pending[-1].answered) == (1, 1, None)
    assert pending[-1].messages == book.get(1, 1).messages
    assert book.pending() is None


@given(st.lists(st.text("ab", max_size=5), max_size=5), st.lists(st.text("ab", max_size=5), max_size=5))
def test_what_is_kept_is_a_prefix(before, now):
    made = [[Message(role="user", content=text) for text in one] for one in (before, now)]
    kept = kept_characters(*made)
    whole = [count for count in kept if count == -1]
    assert kept[: len(whole)] == whole
    assert all(one == other for one, other in zip(before[: len(whole)], now, strict=False))
    rest = kept[len(whole) :]
    assert not any(rest[1:])
    if rest and len(before) > len(whole):
        one, other, count = before[len(whole)], now[len(whole)], rest[0]
        assert one[:count] == other[:count]
        assert one[count : count + 1] != other[count : count + 1]


def test_what_is_spent_is_told_while_it_is_spent(tmp_path):
    spending = Spending()
    assert (spending.short(), spending.lines()[-1]) == ("0 tokens", "cost: nothing")
    bench = Bench(tmp_path, [costing("One.", 12_000, cached=50), costing("Two.", 0, cached=90)], context=tape)
    bench.turn("First")
    for event in bench.events:
        spending.take(event)
    assert spending.short() == "110 tokens · 50 % cached · $0.0120"
    bench.events.clear()
    bench.turn("Second")
    for event in bench.events:
        spending.take(event)
        spending.take(msgspec.structs.replace(event, agent="s1/spy"))
    assert spending.short() == "330 tokens · 76 % cached · over $0.0120"
    assert spending.lines() == [
        "3 calls of the model, 0.0 s, 0 retried",
        "tokens: 70 fresh, 230 from the cache (76 % of the prompt), 30 out",
        "cost: $0.0120 and 2 calls of unknown price",
        "of that subagents: 1 calls, price not known",
        "prefix that survived from turn to turn: 100.0 % on the average",
    ]
