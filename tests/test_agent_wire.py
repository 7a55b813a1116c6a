"""The loop over the real SDKs, against a provider on loopback that speaks the real wire formats and has bad days."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest
from tests.fake_provider import Broken, Failure, FakeProvider, Hanging

from agent_support import Bench, tape
from periplus.agent.contracts import AssistantMessage, ToolCall, Usage
from periplus.agent.episodes import Answered, Fed, Noted
from periplus.agent.models.client_factory import KINDS, ModelName, Provider, open_model

pytest.importorskip("anthropic")
pytest.importorskip("openai")

EVERY_KIND = pytest.mark.parametrize("kind", KINDS)
OVERFLOW = {
    "anthropic": {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000"}},
    "other": {"error": {"code": "context_length_exceeded", "message": "maximum context length is 8192 tokens", "type": "invalid_request_error"}},
}  # fmt: skip


def asks(*calls, text=""):
    made = tuple(ToolCall(id=f"c{number}", name=name, args=args) for number, (name, args) in enumerate(calls))
    return AssistantMessage(content=text, tool_calls=made, finish_reason="tool_calls")


def says(text, finish="stop"):
    return AssistantMessage(content=text, finish_reason=finish, usage=Usage(prompt_tokens=100, completion_tokens=5))


def busy(status, **headers):
    return Failure(status, {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, headers)


@pytest.fixture
def talk(tmp_path):
    """A session over a provider that gives these replies."""
    with ExitStack() as opened:

        def make(kind, *replies, **options):
            fake = opened.enter_context(FakeProvider(*replies))
            provider = Provider(kind=kind, base_url=fake.url if kind == "anthropic" else fake.url + "/v1")
            client = open_model(ModelName("fake", "test"), {"fake": provider}, "k" * 20)[0]
            opened.callback(client.close)
            bench = Bench(tmp_path, client=client, context=tape, **options)
            bench.fake = fake
            return bench

        yield make


@EVERY_KIND
def test_calls_and_their_outcomes_go_there_and_back(talk, kind):
    bench = talk(
        kind, asks(("write", {"path": "a", "content": "A"}), ("read", {"path": "a"}), text="I write."), says("Done.")
    )
    ended = bench.turn()
    assert (ended.reason, ended.text) == ("done", "Done.")
    assert bench.host.tree() == {"a": b"A"}
    assert "write a" in str(bench.fake.requests[1][2])


@EVERY_KIND
def test_storms_of_429_and_529_pass(talk, kind):
    storm = [busy(529), busy(429, **{"retry-after": "7"}), busy(529), busy(503)]
    bench = talk(kind, *storm, says("Through."))
    assert bench.turn().text == "Through."
    assert bench.waits.waited == [1.0, 7.0, 4.0, 8.0]
    assert bench.of(Answered)[0].retries == 4
    assert len(bench.fake.requests) == 5  # the SDK has no retries of its own


@EVERY_KIND
def test_a_stream_that_breaks_off_comes_anew(talk, kind):
    bench = talk(kind, Broken(says("a long answer that is cut in the middle of what it says"), 4), says("Whole."))
    assert bench.turn().text == "Whole."
    assert bench.of(Answered)[0].retries == 1


@EVERY_KIND
def test_a_hostile_model_is_answered(talk, kind):
    torn = AssistantMessage(
        tool_calls=(ToolCall(id="t", name="write", raw='{"path": "a", "con'),), finish_reason="tool_calls"
    )
    bench = talk(kind, torn, asks(("raed", {"path": "a"})), says("Sorry."))
    assert bench.turn().reason == "done"
    assert bench.host.ran == []
    sent = str(bench.fake.requests[-1][2])
    assert "not JSON" in sent
    assert "There is no tool" in sent


@EVERY_KIND
def test_an_endless_loop_is_ended(talk, kind):
    from periplus.agent.policies.guardrail import Guardrail

    bench = talk(kind, *[asks(("read", {"path": "nowhere"})) for _ in range(20)], hooks=[Guardrail()])
    assert bench.turn().reason == "stuck"
    assert len(bench.fake.requests) == 9


@EVERY_KIND
def test_a_request_that_is_too_long_is_folded(talk, kind):
    told = Failure(400, OVERFLOW.get(kind, OVERFLOW["other"]))
    bench = talk(kind, asks(("read", {"path": "big"})), told, says("Now it fits."))
    (bench.host.folder / "big").write_text("line\n" * 4000)
    assert bench.turn().text == "Now it fits."
    assert [one.topic for one in bench.of(Noted)].count("fold") == 1
    first, second = (len(str(body)) for _, _, body in bench.fake.requests[1:])
    assert second < first / 2


@EVERY_KIND
def test_an_answer_that_is_cut_off_goes_on(talk, kind):
    bench = talk(kind, says("One, two, ", "length"), says("three."))
    assert bench.turn().text == "One, two, three."
    assert [one.source for one in bench.of(Fed)] == ["length"]


@EVERY_KIND
def test_a_key_that_is_wrong_is_told_at_once(talk, kind):
    bench = talk(kind, Failure(401, {"error": {"message": "invalid x-api-key", "type": "authentication_error"}}))
    ended = bench.turn()
    assert (ended.reason, bench.waits.waited) == ("error", [])
    assert "Give a valid key" in ended.note


@EVERY_KIND
def test_a_server_that_nobody_started_is_told_at_once(talk, kind):
    bench = talk(kind)
    bench.fake.__exit__()
    ended = bench.turn()
    assert (ended.reason, bench.waits.waited) == ("error", [])
    assert " on this machine. Start the server of the model" in ended.note


@EVERY_KIND
def test_stopped_while_nothing_comes(talk, kind):
    hanging = Hanging()
    bench = talk(kind, hanging, says("Later."))
    stopper = threading.Thread(target=lambda: hanging.begun.wait(60) and bench.session.cancel())
    stopper.start()
    ended = bench.turn()
    stopper.join(60)
    hanging.over.set()
    assert ended.reason == "aborted"
    assert bench.turn("And now?").text == "Later."
