"""The loop, driven by a scripted model and tools over a real folder: what becomes of a turn, whatever model and tools do."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
import threading

import pytest

from agent_support import Bench, FolderHost
from periplus.agent import loop
from periplus.agent.contracts import (
    Access,
    AssistantMessage,
    ContextOverflowError,
    Continue,
    Message,
    ModelError,
    Stop,
    StreamEvent,
    ToolCall,
    ToolDecision,
    ToolResult,
    Usage,
)
from periplus.agent.episodes import Answered, Decided, Ended, Fed, Intended, Noted, Requested, Resulted
from periplus.agent.events import (
    AnswerRestarted,
    ContextFolded,
    FeedbackGiven,
    PermissionAsked,
    RetryScheduled,
    TextGrown,
    ToolEnded,
    ToolStarted,
    TurnEnded,
)
from periplus.agent.hooks import Functions
from periplus.agent.loop import Limits
from periplus.agent.models.scripted import ScriptedClient, answer, call
from periplus.base.errors import RefusedError, UsageError


def test_a_word_and_done(tmp_path):
    bench = Bench(tmp_path, ["All is well."])
    ended = bench.turn("How is it?")
    assert (ended.reason, ended.text, ended.note, ended.step) == ("done", "All is well.", "", 1)
    messages, tools = bench.client.requests[0]
    assert [(message.role, message.content) for message in messages] == [
        ("system", "You work."),
        ("user", "How is it?"),
    ]
    assert [tool.name for tool in tools] == ["read", "write", "append", "shell"]
    assert [type(episode) for episode in bench.log.read()] == [Requested, Answered, Ended]
    assert bench.seen(TurnEnded)[0].text == "All is well."


def test_turns_follow_one_another(tmp_path):
    bench = Bench(tmp_path, ["One.", answer("", call("read", path="a")), "Two."])
    (bench.host.folder / "a").write_text("A")
    assert bench.turn("first").turn == 1
    ended = bench.turn("second")
    assert (ended.turn, ended.step, ended.text) == (2, 2, "Two.")
    roles = [message.role for message in bench.client.requests[-1][0]]
    assert roles == ["system", "user", "assistant", "user", "assistant", "tool"]
    assert ended.usage.prompt_tokens > 0


def test_reads_run_beside_each_other_and_writes_in_order(tmp_path):
    meeting = threading.Barrier(3, timeout=20)
    order = []

    def look(at):
        meeting.wait()  # nobody comes through before all three are here
        return ToolResult(outcome="ok", output=f"saw {at}")

    def change(at):
        order.append(at)
        return ToolResult(outcome="ok", output=f"changed {at}")

    host = FolderHost(tmp_path / "work", {"look": look, "change": change})
    host.accessed = {
        "look": [Access(resource="file:src", mode="read")],
        "change": [Access(resource="file:lib", mode="write")],
    }
    calls = [call("look", at=1), call("change", at=2), call("look", at=3), call("change", at=4), call("look", at=5)]
    bench = Bench(tmp_path, [answer("", *calls), "done"], host=host)
    assert bench.turn().reason == "done"
    assert [message.content for message in bench.results] == ["saw 1", "changed 2", "saw 3", "changed 4", "saw 5"]
    assert order == [2, 4]
    assert [message.tool_call_id for message in bench.results] == [f"call_1_{place}" for place in range(1, 6)]


def test_a_read_behind_a_write_of_the_same_file_sees_it(tmp_path):
    calls = [call("read", path="a"), call("write", path="a", content="new"), call("read", path="a")]
    bench = Bench(tmp_path, [answer("", *calls), "done"])
    (bench.host.folder / "a").write_text("old")
    bench.turn()
    assert [message.content for message in bench.results] == ["old", "write a", "new"]


def test_arguments_that_are_no_json_are_answered(tmp_path):
    broken = ToolCall(id="x", name="write", raw='{"path": "a', problem="the arguments are no JSON: unterminated string")
    bench = Bench(tmp_path, [answer("", broken, call("write", path="b", content="B")), "done"])
    assert bench.turn().reason == "done"
    first, second = bench.results
    assert first.outcome == "failed"
    assert "unterminated string" in first.content
    assert second.outcome == "ok"
    assert bench.host.tree() == {"b": b"B"}
    assert bench.of(Answered)[0].message.tool_calls[0].raw == '{"path": "a'


def test_a_tool_that_is_none_is_answered_with_those_that_are(tmp_path):
    bench = Bench(tmp_path, [answer("", call("raed", path="a")), "done"])
    assert bench.turn().reason == "done"
    (told,) = bench.results
    assert told.outcome == "failed"
    assert "no tool 'raed'. Did you mean read or append?" in told.content
    assert "append, read, shell, write" in told.content
    assert bench.host.ran == []


def test_an_argument_of_a_megabyte_is_answered_and_not_kept(tmp_path):
    bench = Bench(tmp_path, [answer("", call("write", path="a", content="x" * (1 << 20))), "done"])
    assert bench.turn().reason == "done"
    (told,) = bench.results
    assert told.outcome == "failed"
    assert "1,048," in told.content
    assert "at most 524,288" in told.content
    assert bench.host.tree() == {}
    assert bench.of(Answered)[0].message.tool_calls[0].args == {}


def test_arguments_nested_without_end_are_answered(tmp_path):
    deep = []
    for _ in range(100_000):
        deep = [deep]
    bench = Bench(tmp_path, [answer("", call("write", path="a", content=deep), usage=Usage(prompt_tokens=1)), "done"])
    assert bench.turn().reason == "done"
    assert "nested deeper" in bench.results[0].content


def test_half_characters_are_replaced(tmp_path):
    bench = Bench(tmp_path, [answer("so \ud800", call("write", path="a", content="\udfff!")), "done"])
    assert bench.turn().reason == "done"
    assert bench.host.tree() == {"a": "\ufffd!".encode()}


def test_more_calls_than_are_taken_are_answered(tmp_path):
    bench = Bench(tmp_path, [answer("", *(call("append", path="a", text=".") for _ in range(70))), "done"])
    assert bench.turn().reason == "done"
    assert bench.host.tree() == {"a": b"." * 64}
    assert [one.outcome for one in bench.results] == ["ok"] * 64 + ["failed"] * 6


def test_two_calls_of_one_id_get_an_id_each(tmp_path):
    twice = [ToolCall(id="same", name="append", args={"path": "a", "text": text}) for text in "xy"]
    bench = Bench(tmp_path, [answer("", *twice), "done"])
    bench.turn()
    assert [message.tool_call_id for message in bench.results] == ["same", "call_1_2"]
    assert bench.host.tree() == {"a": b"xy"}


def test_an_id_that_is_made_is_none_that_the_model_gave(tmp_path):
    """A server that leaves ids out, and gives some in the form of those that are made here."""
    calls = [
        ToolCall(id="call_1_2", name="append", args={"path": "a", "text": "1"}),
        ToolCall(id="", name="append", args={"path": "a", "text": "2"}),
        ToolCall(id="call_1_2", name="append", args={"path": "a", "text": "3"}),
        ToolCall(id="call_1_2_", name="append", args={"path": "a", "text": "4"}),
    ]
    bench = Bench(tmp_path, [AssistantMessage(tool_calls=tuple(calls), finish_reason="tool_calls"), "done"])
    assert bench.turn().reason == "done"
    assert bench.host.tree() == {"a": b"1234"}
    assert len({message.tool_call_id for message in bench.results}) == 4


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (ValueError("no good"), "ValueError: no good"),
        (UsageError("path: wrong", safe="Nothing was written.", mend="Name a file."), "path: wrong. Nothing was written. Name a file."),
    ],
)  # fmt: skip
def test_a_tool_that_raises_is_an_outcome(tmp_path, raised, said):
    def break_down():
        raise raised

    host = FolderHost(tmp_path / "work", {"fragile": break_down})
    bench = Bench(tmp_path, [answer("", call("fragile"), call("append", path="a", text="on")), "done"], host=host)
    assert bench.turn().reason == "done"
    assert [(one.outcome, one.content) for one in bench.results] == [("failed", said), ("ok", "append a")]


def test_a_tool_that_gives_no_result_is_an_outcome(tmp_path):
    host = FolderHost(tmp_path / "work", {"odd": lambda: "just text"})
    bench = Bench(tmp_path, [answer("", call("odd")), "done"], host=host)
    assert bench.turn().reason == "done"
    assert bench.results[0].outcome == "failed"
    assert "it gave str" in bench.results[0].content


def test_the_limit_of_steps_parks(tmp_path):
    bench = Bench(
        tmp_path, lambda messages, tools: answer("", call("append", path="a", text=".")), limits=Limits(steps=7)
    )
    ended = bench.turn()
    assert (ended.reason, ended.step) == ("steps", 7)
    assert ended.note == "The step limit is reached. 7 steps stand; the task is not finished."
    assert bench.host.tree() == {"a": b"." * 7}


@pytest.mark.parametrize(
    ("finish", "reason", "note"),
    [("filter", "filter", "filter stopped"), ("refusal", "filter", "refused"), ("error", "error", "broke off")],
)
@pytest.mark.parametrize("calls", [(), (call("write", path="a", content="x"),)])
def test_an_answer_that_is_none_parks(tmp_path, finish, reason, note, calls):
    bench = Bench(tmp_path, [answer("I will not.", *calls, finish=finish)])
    ended = bench.turn()
    assert ended.reason == reason
    assert note in ended.note
    assert ended.text == "I will not."
    assert bench.host.tree() == {}
    assert [one.result.outcome for one in bench.of(Resulted)] == ["cancelled"] * len(calls)


def test_an_answer_that_is_cut_off_goes_on_three_times(tmp_path):
    parts = [answer(f"part {number} ", finish="length") for number in range(3)]
    bench = Bench(tmp_path, [*parts, "and the end."])
    ended = bench.turn()
    assert (ended.reason, ended.text) == ("done", "part 0 part 1 part 2 and the end.")
    assert [one.source for one in bench.of(Fed)] == ["length"] * 3
    assert bench.client.requests[-1][0][-1].content.startswith("Your answer was cut off")


def test_an_answer_that_is_cut_off_for_ever_parks(tmp_path):
    bench = Bench(tmp_path, lambda messages, tools: answer("on and on ", finish="length"))
    ended = bench.turn()
    assert (ended.reason, ended.step) == ("length", 4)
    assert ended.text == "on and on " * 4


def test_calls_of_an_answer_that_is_cut_off_are_run_as_far_as_they_can_be_read(tmp_path):
    torn = ToolCall(id="2", name="write", raw='{"path": "b", "con', problem="cut off by the length limit")
    bench = Bench(tmp_path, [answer("", call("write", path="a", content="A"), torn, finish="length"), "done"])
    assert bench.turn().reason == "done"
    assert [one.outcome for one in bench.results] == ["ok", "failed"]


def test_empty_answers_are_asked_about_and_then_park(tmp_path):
    bench = Bench(tmp_path, ["", "Sorry: done."])
    assert bench.turn().reason == "done"
    assert [one.source for one in bench.of(Fed)] == ["empty"]
    silent = Bench(tmp_path / "silent", lambda messages, tools: " ", host=FolderHost(tmp_path / "work"))
    ended = silent.turn()
    assert (ended.reason, ended.step) == ("stuck", 3)


def test_an_overflow_folds_and_goes_on(tmp_path):
    big = answer("", call("read", path="big"))
    bench = Bench(tmp_path, [big, ContextOverflowError("too long"), "done"])
    (bench.host.folder / "big").write_text("x" * 5000)
    assert bench.turn().reason == "done"
    assert len(bench.of(Noted)) == len(bench.seen(ContextFolded)) == 1
    assert "4,800 characters left out" in bench.results[0].content


def test_an_overflow_with_nothing_to_leave_out_parks_and_the_session_lives(tmp_path):
    bench = Bench(tmp_path, [ContextOverflowError("window of 100 tokens"), "back again"])
    ended = bench.turn()
    assert ended.reason == "overflow"
    assert "window of 100 tokens" in ended.note
    assert bench.turn("once more").text == "back again"


def test_an_overflow_that_no_fold_ends_parks(tmp_path):
    reads = answer("", *(call("read", path="big") for _ in range(16)))
    bench = Bench(tmp_path, [reads, *(ContextOverflowError("still too long") for _ in range(4))])
    (bench.host.folder / "big").write_text("x" * 500)
    assert bench.turn().reason == "overflow"
    assert len(bench.of(Noted)) == 4


@pytest.mark.parametrize("status", [429, 529])
def test_a_storm_passes_and_retry_after_is_kept(tmp_path, status):
    storm = [ModelError(f"HTTP {status}", is_retryable=True, status=status) for _ in range(4)]
    storm.insert(2, ModelError(f"HTTP {status}", is_retryable=True, status=status, retry_after_s=37.0))
    bench = Bench(tmp_path, [*storm, "through"])
    assert bench.turn().text == "through"
    assert bench.waits.waited == [1.0, 2.0, 37.0, 8.0, 16.0]
    assert [event.wait_ms for event in bench.seen(RetryScheduled)] == [1000, 2000, 37000, 8000, 16000]
    assert bench.of(Answered)[0].retries == 5
    assert bench.of(Answered)[0].latency_ms == 64000


def test_a_storm_without_end_parks(tmp_path):
    bench = Bench(tmp_path, lambda messages, tools: ModelError("HTTP 529: overloaded", is_retryable=True, status=529))
    ended = bench.turn()
    assert ended.reason == "error"
    assert ended.note == (
        "Something failed. HTTP 529: overloaded. 10 attempts within 5 min failed; try again later. Nothing was done yet."
    )
    assert len(bench.client.requests) == 10


@pytest.mark.parametrize(("asked_s", "told"), [(3600, "60 min"), (301, "6 min"), (86_400, "24.0 h")])
def test_an_hour_of_retry_after_is_told_and_not_waited_for(tmp_path, asked_s, told):
    bench = Bench(tmp_path, [ModelError("come back later", is_retryable=True, retry_after_s=asked_s)])
    ended = bench.turn()
    assert (ended.reason, bench.waits.waited) == ("error", [])
    assert ended.note == (
        f"Something failed. come back later. The provider asks to wait {told}; try again then. Nothing was done yet."
    )


def test_an_error_that_waiting_does_not_mend_parks_at_once(tmp_path):
    bench = Bench(tmp_path, [ModelError("the key is wrong", mend="Run `periplus setup`.", status=401), "fine"])
    ended = bench.turn()
    assert (ended.reason, bench.waits.waited) == ("error", [])
    assert "the key is wrong. Run `periplus setup`." in ended.note
    assert bench.turn("again").reason == "done"


def test_foreign_errors_are_judged_by_the_client(tmp_path):
    class Foreign(ScriptedClient):
        def is_retryable(self, error):
            return isinstance(error, TimeoutError)

        def retry_after(self, error):
            return 5

    bench = Bench(tmp_path, client=Foreign([TimeoutError("slow"), "came"]))
    assert bench.turn().text == "came"
    assert bench.waits.waited == [5.0]
    bench = Bench(tmp_path / "other", client=Foreign([KeyError("odd")]), host=bench.host)
    assert bench.turn().reason == "error"


def test_cancelled_while_it_waits_to_try_again(tmp_path):
    bench = Bench(tmp_path, [ModelError("busy", is_retryable=True), "never"])
    bench.waits.on_wait = lambda _: bench.session.cancel()
    ended = bench.turn()
    assert ended.reason == "aborted"
    assert ended.note == "Stopped by request. Nothing was done yet."


def test_cancelled_in_the_model_call(tmp_path):
    class Blocking:
        def __init__(self):
            self.asked, self.stopped = threading.Event(), threading.Event()

        def complete(self, messages, tools):
            self.asked.set()
            assert self.stopped.wait(30), "cancel did not come"
            raise ConnectionError("closed")

        def cancel(self):
            self.stopped.set()

    client = Blocking()
    bench = Bench(tmp_path, client=client)
    canceller = threading.Thread(target=lambda: client.asked.wait(30) and bench.session.cancel("enough"))
    canceller.start()
    ended = bench.turn()
    canceller.join(30)
    assert ended.reason == "aborted"
    assert ended.note == "Stopped by request. enough. Nothing was done yet."
    assert [type(episode) for episode in bench.log.read()] == [Requested, Ended]


def test_cancelled_in_a_tool_stops_the_tool_and_the_calls_behind_it(tmp_path):
    class Host(FolderHost):
        def cancel(self):
            stopped.set()

    started, stopped = threading.Event(), threading.Event()

    def sleep():
        started.set()
        assert stopped.wait(30), "cancel did not come"
        return ToolResult(outcome="cancelled", output="half way")

    host = Host(tmp_path / "work", {"sleep": sleep})
    calls = [call("append", path="a", text="1"), call("sleep"), call("append", path="a", text="2")]
    bench = Bench(tmp_path, [answer("", *calls), "never"], host=host)
    canceller = threading.Thread(target=lambda: started.wait(30) and bench.session.cancel())
    canceller.start()
    ended = bench.turn()
    canceller.join(30)
    assert ended.reason == "aborted"
    assert [one.result.outcome for one in bench.of(Resulted)] == ["ok", "cancelled", "cancelled"]
    assert bench.of(Resulted)[1].result.output == "half way"
    assert host.tree() == {"a": b"1"}
    assert bench.turn("go on").reason == "done"


class Streaming(ScriptedClient):
    """Streams pieces that are given beside the answers; ``cut`` are the requests that end before the answer does."""

    def __init__(self, script, cut=()):
        super().__init__(script)
        self.cut = cut
        self.closed = 0

    def stream(self, messages, tools):
        try:
            for piece in super().stream(messages, tools):
                if piece.kind != "message" or len(self.requests) not in self.cut:
                    yield piece
        finally:
            self.closed += 1


def test_a_stream_is_shown_as_it_comes_and_one_that_breaks_off_comes_anew(tmp_path):
    bench = Bench(tmp_path, client=Streaming(["one\ntwo\n", "one\ntwo\n"], cut={1}))
    assert bench.turn().text == "one\ntwo\n"
    assert [event.text for event in bench.seen(TextGrown)] == ["one\n", "two\n"] * 2
    assert len(bench.seen(AnswerRestarted)) == 1
    assert bench.of(Answered)[0].retries == 1
    assert bench.client.closed == 2


def test_cancelled_in_a_stream(tmp_path):
    class Cancelling(Streaming):
        def stream(self, messages, tools):
            yield StreamEvent(kind="text", text="o")
            bench.session.cancel()
            yield from super().stream(messages, tools)

    bench = Bench(tmp_path, client=Cancelling(["one two three"]))
    ended = bench.turn()
    assert ended.reason == "aborted"
    assert len(bench.seen(TextGrown)) == 2


def test_authorised_before_any_runs_and_denials_are_answered(tmp_path):
    asked = []

    def authorize(name, args):
        asked.append((name, bench.host.tree()))
        return ToolDecision(allow=name != "shell", reason="no commands here")

    bench = Bench(
        tmp_path,
        [answer("", call("append", path="a", text="1"), call("shell", command="rm")), "done"],
        hooks=[Functions("rules", {"authorize_tool": authorize})],
    )
    assert bench.turn().reason == "done"
    assert asked == [("append", {}), ("shell", {})]
    assert [(one.outcome, one.content) for one in bench.results] == [
        ("ok", "append a"),
        ("denied", "Denied: no commands here"),
    ]
    assert [one.counts_as_stuck for one in bench.of(Resulted)] == [True, False]  # the denial is written first


def test_denied_again_and_again_is_stuck(tmp_path):
    deny = Functions("rules", {"authorize_tool": lambda name, args: ToolDecision(allow=False, reason="never")})
    bench = Bench(tmp_path, lambda messages, tools: answer("", call("shell", command="rm")), hooks=[deny])
    ended = bench.turn()
    assert (ended.reason, ended.step) == ("stuck", 5)
    advice = Functions("rules", {"authorize_tool": lambda name, args: ToolDecision(allow=False, counts_as_stuck=False)})
    bench = Bench(tmp_path / "x", lambda messages, tools: answer("", call("shell", command="rm")), hooks=[advice],
                  host=bench.host, limits=Limits(steps=9))  # fmt: skip
    assert bench.turn().reason == "steps"


@pytest.mark.parametrize(("said", "outcome"), [("yes", "ok"), ("always", "ok"), ("no", "denied")])
def test_a_person_is_asked(tmp_path, said, outcome):
    class Person:
        def approve(self, wanted, decision):
            self.asked = (wanted.name, wanted.args, decision.reason)
            return said

    person = Person()
    ask = Functions("rules", {"authorize_tool": lambda name, args: ToolDecision(allow=False, ask=True, reason="sure?")})
    bench = Bench(tmp_path, [answer("", call("write", path="a", content="A")), "done"], hooks=[ask], approver=person)
    bench.turn()
    assert person.asked == ("write", {"path": "a", "content": "A"}, "sure?")
    assert bench.results[0].outcome == outcome
    assert [one.answer for one in bench.of(Decided)] == [said]
    assert len(bench.seen(PermissionAsked)) == 1


def test_with_nobody_to_ask_it_is_denied(tmp_path):
    ask = Functions("rules", {"authorize_tool": lambda name, args: ToolDecision(allow=True, ask=True, reason="sure?")})
    bench = Bench(tmp_path, [answer("", call("write", path="a", content="A")), "done"], hooks=[ask])
    bench.turn()
    assert (bench.results[0].outcome, bench.host.tree()) == ("denied", {})
    assert "nobody can be asked" in bench.results[0].content


def test_a_spent_budget_stops_before_the_calls_of_the_answer_run(tmp_path):
    spent = Functions(
        "purse", {"record_step_usage": lambda usage: Stop(reason="budget", note="All 10 tokens are gone.")}
    )
    bench = Bench(tmp_path, [answer("", call("write", path="a", content="A"))], hooks=[spent])
    ended = bench.turn()
    assert ended.reason == "budget"
    assert "All 10 tokens are gone." in ended.note
    assert bench.host.tree() == {}
    assert [one.result.outcome for one in bench.of(Resulted)] == ["cancelled"]


def test_a_hook_goes_on_after_done_and_what_it_says_is_heard(tmp_path):
    more = iter([Continue(feedback="Are you sure?", source="doubt"), None])
    hook = Functions("doubt", {"should_continue_after_stop": lambda stop: next(more)})
    bench = Bench(tmp_path, ["Done.", "Yes, done."], hooks=[hook])
    assert bench.turn().text == "Yes, done."
    assert [(one.source, one.text) for one in bench.of(Fed)] == [("doubt", "Are you sure?")]
    assert bench.client.requests[1][0][-1] == Message(role="user", content="Are you sure?")


@pytest.mark.parametrize("reason", ["budget", "error", "steps"])
def test_a_hook_cannot_talk_away_a_limit(tmp_path, reason):
    hook = Functions(
        "eager",
        {
            "should_continue_after_stop": lambda stop: Continue(feedback="on!"),
            "before_step": lambda step: Stop(reason=reason) if step == 2 else None,
        },
    )
    bench = Bench(tmp_path, ["one", "two"], hooks=[hook])
    assert bench.turn().reason == reason
    assert len(bench.client.requests) == 1


def test_after_step_may_park_what_would_be_done(tmp_path):
    seen = []

    def after(step, usage, stop_reason):
        seen.append((step, stop_reason))
        return Stop(reason="stuck", note="In circles.") if step == 2 else None

    hook = Functions("watch", {"after_step": after})
    bench = Bench(tmp_path, [answer("", call("append", path="a", text=".")), "done"], hooks=[hook])
    ended = bench.turn()
    assert ended.reason == "stuck"
    assert seen == [(1, None), (2, "done")]


def test_the_person_steers_while_it_runs(tmp_path):
    host = FolderHost(tmp_path / "work", {"nudge": lambda: bench.session.steer("use oil") or ToolResult(outcome="ok")})
    bench = Bench(tmp_path, [answer("", call("nudge")), "oiled"], host=host)
    assert bench.turn().text == "oiled"
    assert bench.client.requests[1][0][-1].content == "use oil"
    assert [one.source for one in bench.of(Fed)] == ["person"]


def test_what_the_person_says_at_the_last_moment_is_heard(tmp_path):
    def speak(messages, tools):
        bench.session.steer("one more thing")
        return "done"

    bench = Bench(tmp_path, [speak, "that too"])
    assert bench.turn().text == "that too"


def test_every_call_is_shown_begun_and_ended(tmp_path):
    bench = Bench(tmp_path, [answer("", call("append", path="a", text="1"), call("read", path="a")), "done"])
    bench.turn()
    assert [event.name for event in bench.seen(ToolStarted)] == ["append", "read"]
    assert [(event.name, event.outcome, event.output) for event in bench.seen(ToolEnded)] == [
        ("append", "ok", "append a"), ("read", "ok", "1"),
    ]  # fmt: skip


def test_an_intent_is_written_before_its_call_runs(tmp_path):
    seen = {}

    class Host(FolderHost):
        def run(self, name, args):
            seen[name] = [one.call_id for one in bench.of(Intended)], [one.call_id for one in bench.of(Resulted)]
            return super().run(name, args)

    host = Host(tmp_path / "work")
    calls = [call("write", "1", path="a", content="A"), call("shell", "2", command="make")]
    bench = Bench(tmp_path, [answer("", *calls), "done"], host=host)
    bench.turn()
    assert seen == {"write": (["1"], []), "shell": (["1", "2"], ["1"])}
    assert bench.of(Intended)[0].plan[0]["before"] is None
    assert bench.of(Intended)[1].plan == ()


def test_a_turn_is_not_begun_over_one_that_was_cut_off(tmp_path):
    bench = Bench(tmp_path, ["done"])
    bench.log.append(Requested(turn=1, text="before"))
    second = bench.again(["done"])
    assert second.session.is_interrupted
    with pytest.raises(RefusedError, match="turn 1 of this session was cut off"):
        second.turn()
    ended = second.session.drop()
    assert (ended.reason, ended.turn) == ("aborted", 1)
    assert second.turn().turn == 2
    assert second.session.resume() is None
    assert second.session.drop() is None


def test_the_usage_of_a_turn_is_summed_and_begins_anew(tmp_path):
    spend = Usage(prompt_tokens=100, completion_tokens=10, cached=60, cost=7)
    script = [
        answer("", call("append", path="a", text="."), usage=spend),
        answer("done", usage=spend),
        answer("x", usage=spend),
    ]
    bench = Bench(tmp_path, script)
    assert bench.turn().usage == spend + spend
    assert bench.turn().usage == spend


def test_the_log_that_cannot_be_written_ends_the_run(tmp_path):
    bench = Bench(tmp_path, [answer("", call("write", path="a", content="A")), "done"])
    append = bench.log.append

    def refuse(*episodes, durable=True):
        if any(isinstance(episode, Intended) for episode in episodes):
            raise OSError("disk full")
        return append(*episodes, durable=durable)

    bench.log.append = refuse
    with pytest.raises(OSError, match="disk full"):
        bench.turn()
    assert bench.host.tree() == {}  # a step that is not written down is not taken


def test_what_is_shown_of_a_step_is_what_is_kept_of_it(tmp_path):
    """Events go to terminals, and with --json into the logs of others."""
    secret = "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"
    check = Functions(
        "check", {"should_continue_after_stop": lambda stop: Continue(feedback=secret, quoted=secret, source="check")}
    )
    host = FolderHost(tmp_path / "work")
    (host.folder / "held").write_text(f"token {secret}\n")
    steps = [
        answer(
            "", call("read", path="held"), call("write", path="a", content=f"token {secret}"), call("nope", at=secret)
        )
    ]
    bench = Bench(tmp_path, [*steps, "done", *["done"] * 9], host=host, hooks=[check], limits=Limits(steps=3))
    bench.turn()
    assert [event.name for event in bench.seen(ToolStarted)] == ["read", "write"]
    assert "masked" in next(event for event in bench.seen(ToolEnded) if event.name == "read").output
    assert bench.seen(FeedbackGiven)
    assert secret not in repr(bench.events)


def test_a_secret_reaches_the_tool_and_not_the_log(tmp_path):
    secret = "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"
    bench = Bench(tmp_path, [answer("", call("write", path="a", content=f"token {secret}")), "done"])
    bench.turn(f"put {secret} there")
    assert bench.host.tree() == {"a": f"token {secret}".encode()}
    assert secret not in repr(bench.log.read())
    assert secret not in repr(bench.client.requests)
    assert bench.of(Answered)[0].masked == ("call_1_1",)


def test_the_loop_fits_one_screen_and_imports_contracts_only():
    lines = inspect.getsource(loop.run_turn).splitlines()
    assert len(lines) <= 60
    tree = ast.parse(inspect.getsource(loop))
    ours = {
        node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.startswith("periplus")
    }
    assert ours == {
        "periplus.agent.execution.call_checks",
        "periplus.agent.execution.cancellation",
        "periplus.agent.contracts",
        "periplus.agent.episodes",
        "periplus.agent.events",
        "periplus.agent.hooks",
        "periplus.agent.execution.loop_messages",
        "periplus.agent.execution.retry",
        "periplus.agent.execution.scheduler",
        "periplus.agent.execution.turn_state",
    }
    code = (
        "import sys, periplus.agent.loop\nprint(*sorted(name for name in sys.modules if name.startswith('periplus')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    loaded = {*ours, "periplus.agent.loop", "periplus.agent.messages", "periplus.base.errors"}
    packages = {name.rsplit(".", number)[0] for name in loaded for number in range(1, name.count(".") + 1)}
    assert set(done.stdout.split()) == loaded | packages


def test_an_answer_is_a_value(tmp_path):
    assert answer("x", call("read", path="a")) == AssistantMessage(
        content="x", tool_calls=(ToolCall(id="", name="read", args={"path": "a"}),), finish_reason="tool_calls"
    )
