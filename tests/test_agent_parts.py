"""The parts of the loop for themselves: the schedule, retries, the token, episodes as records, events as lines."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from periplus.agent import events
from periplus.agent.contracts import (
    Access,
    AssistantMessage,
    ContextOverflowError,
    Image,
    LLMClient,
    ModelError,
    StreamingClient,
    ToolCall,
    ToolResult,
    Usage,
)
from periplus.agent.episodes import (
    Answered,
    Decided,
    Ended,
    Episode,
    Fed,
    HookFailed,
    Intended,
    Noted,
    Requested,
    Resulted,
    Resumed,
)
from periplus.agent.execution.call_checks import ARGUMENT_BYTES_MAX, bounded_result, with_valid_calls
from periplus.agent.execution.cancellation import CancelToken
from periplus.agent.execution.retry import Gone, Retrying, retry_wait_s, with_retries
from periplus.agent.execution.scheduler import is_bound, is_read, meet, run_wave, waves
from periplus.agent.execution.turn_state import Turn
from periplus.agent.models.scripted import ScriptedClient, ScriptEndedError, answer, call
from periplus.agent.persistence.episode_codec import decode_episode, encode_episode, masked_episode
from periplus.base.encoding.canonical import canonical
from periplus.base.errors import DamageError, NewerFormatError
from periplus.base.text.secrets import mask_secrets

GOLDEN = Path(__file__).parent / "golden" / "agent" / "episodes-v1.jsonl"
SECRET = "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"

# -- the schedule

RESOURCES = st.sampled_from(
    ["file:", "file:src", "file:src/a.py", "file:./src//b.py", "file:lib", "process:1", "network:x", "person:", "*"]
)
ACCESSES = st.lists(
    st.builds(
        lambda resource, mode: Access(resource=resource, mode=mode), RESOURCES, st.sampled_from(["read", "write"])
    ),
    max_size=3,
)


@given(st.lists(ACCESSES, max_size=12))
def test_a_schedule_keeps_every_order_that_can_be_seen(calls):
    planned = waves(calls)
    assert sorted(place for wave in planned for place in wave.places) == list(range(len(calls)))
    at = {place: number for number, wave in enumerate(planned) for place in wave.places}
    for second in range(len(calls)):
        for first in range(second):
            both_write = not is_read(calls[first]) and not is_read(calls[second])
            is_met = (
                not calls[first] or not calls[second] or any(meet(a, b) for a in calls[first] for b in calls[second])
            )
            if both_write or is_met:
                assert at[first] < at[second]
    for wave in planned:
        assert wave.is_read == all(is_read(calls[place]) for place in wave.places)
        assert wave.is_read or len(wave.places) == 1
        assert list(wave.places) == sorted(wave.places)


@given(st.integers(1, 30))
def test_reads_alone_are_one_wave(count):
    assert len(waves([[Access(resource="file:a", mode="read")]] * count)) == 1


@pytest.mark.parametrize(
    ("one", "other", "met"),
    [
        ("file:src", "file:src/a.py", True), ("file:src", "file:srcs", False), ("file:", "file:x", True), ("*", "person:", True),
        ("file:./src/", "file:src", True), ("process:", "network:", False), ("network:a", "network:b", True), ("file:a", "file:b", False),
    ],
)  # fmt: skip
def test_two_accesses_meet_where_one_writes_what_the_other_touches(one, other, met):
    for first, second in ((one, other), (other, one)):
        assert meet(Access(resource=first, mode="read"), Access(resource=second, mode="write")) is met
        assert not meet(Access(resource=first, mode="read"), Access(resource=second, mode="read"))


def test_a_wave_gives_results_in_the_order_of_its_jobs():
    gates = [threading.Event() for _ in range(4)]

    def job(place):
        if place < 3:
            assert gates[place + 1].wait(30)  # each waits for the one behind it: they end in the order 3, 2, 1, 0
        gates[place].set()
        return place

    assert run_wave([lambda place=place: job(place) for place in range(4)]) == [0, 1, 2, 3]


def test_what_is_bound_runs_where_it_was_asked_for_beside_the_others():
    met = threading.Barrier(2, timeout=30)
    jobs = [lambda: (met.wait(), threading.get_ident())[1]] * 2
    first, second = run_wave(jobs, [True, False])
    assert first == threading.get_ident() != second
    assert run_wave([threading.get_ident] * 2, [True, True]) == [threading.get_ident()] * 2
    assert is_bound([Access(resource="file:a", mode="read"), Access(resource="page:@periplus/x", mode="read")])
    assert not is_bound([Access(resource="file:a", mode="read"), Access(resource="network:", mode="read")])


def test_one_job_runs_where_it_was_asked_for():
    assert run_wave([threading.get_ident]) == [threading.get_ident()]


# -- retries


def test_waits_double_and_are_bounded():
    assert [retry_wait_s(attempt, None, 0.0) for attempt in range(1, 9)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert retry_wait_s(3, None, 1.0) == 2.0


@given(st.integers(1, 30), st.one_of(st.none(), st.floats(0, 300)), st.floats(0, 1))
def test_a_wait_is_never_less_than_what_was_asked_for(attempt, asked, random):
    wait_s = retry_wait_s(attempt, asked, random)
    assert (asked or 0.0) <= wait_s <= (60.0 if asked is None else asked + 1.0)


@pytest.mark.parametrize("asked", [float("nan"), float("inf"), float("-inf"), -5.0])
def test_nonsense_from_a_provider_is_no_wait(asked):
    waited = []
    errors = iter([ModelError("busy", is_retryable=True, retry_after_s=asked)])

    def attempt():
        for error in errors:
            raise error
        return "came"

    retrying = Retrying(lambda: 0.0, lambda seconds: waited.append(seconds) or False, lambda *_: None)
    assert with_retries(ScriptedClient([]), attempt, retrying) == ("came", 1)
    assert waited == [1.0]


def test_retries_end_by_their_total():
    waited = []

    def attempt():
        raise ModelError("busy", is_retryable=True, retry_after_s=200)

    retrying = Retrying(lambda: 0.0, lambda seconds: waited.append(seconds) or False, lambda *_: None)
    with pytest.raises(ModelError):
        with_retries(ScriptedClient([]), attempt, retrying)
    assert waited == [200.0] * 4


def test_an_overflow_is_not_retried_and_a_cancelled_wait_is_told():
    def overflow():
        raise ContextOverflowError("long", is_retryable=True)

    def busy():
        raise ModelError("busy", is_retryable=True)

    retrying = Retrying(lambda: 0.0, lambda _: True, lambda *_: None)
    with pytest.raises(ContextOverflowError):
        with_retries(ScriptedClient([]), overflow, retrying)
    assert isinstance(with_retries(ScriptedClient([]), busy, retrying), Gone)


# -- the token


def test_a_token_tells_everybody():
    token, told = CancelToken(), []

    def broken():
        told.append("broken")
        raise OSError("gone")

    with token.telling(lambda: told.append("left")):
        pass
    with (
        token.telling(broken),
        token.telling(lambda: told.append("second")),
        token.child() as child,
        child.child() as grandchild,
    ):
        with pytest.raises(OSError, match="gone"):
            token.cancel("enough")
        assert child.is_cancelled
        assert grandchild.is_cancelled
        assert grandchild.reason == "enough"
        told.clear()
        with pytest.raises(OSError, match="gone"):
            token.cancel("again")  # whoever came late is told now
        assert told == ["broken", "second"]
        assert token.reason == "enough"
    assert told == ["broken", "second"]
    with token.telling(lambda: told.append("late")):
        assert told[-1] == "late"
    assert token.wait(0)


def test_a_child_ends_alone():
    token = CancelToken()
    with token.child() as child:
        child.cancel()
        assert child.is_cancelled
    assert not token.is_cancelled


# -- calls


def test_calls_get_what_they_lack():
    message = AssistantMessage(
        tool_calls=(call("a"), call("b", "x"), call("c", "x"), ToolCall(id="y", name="d", args=["no"]))
    )
    made = with_valid_calls(message, 3).tool_calls
    assert [one.id for one in made] == ["call_3_1", "x", "call_3_3", "y"]
    assert made[3].problem == "The arguments are not a JSON object but list."
    assert with_valid_calls(with_valid_calls(message, 3), 3) == with_valid_calls(message, 3)


def test_calls_that_are_too_many_to_be_shown_are_counted():
    made = with_valid_calls(
        AssistantMessage(tool_calls=tuple(call(str(at), str(at)) for at in range(300))), 1
    ).tool_calls
    assert [bool(one.problem) for one in made] == [False] * 64 + [True] * 64
    assert "172 more calls" in made[-1].problem
    assert not [one for one in made[:-1] if "behind it" in one.problem]


@pytest.mark.parametrize("size", [ARGUMENT_BYTES_MAX - 100, ARGUMENT_BYTES_MAX + 100])
def test_the_bound_of_arguments(size):
    (made,) = with_valid_calls(AssistantMessage(tool_calls=(call("a", content="x" * size),)), 1).tool_calls
    assert bool(made.problem) == (size > ARGUMENT_BYTES_MAX)


def test_an_output_without_end_is_cut_with_a_count():
    cut = bounded_result(ToolResult(outcome="ok", output="x" * 4_000_100))
    assert cut.output.endswith("… 100 characters left out; the output was longer than the limit")
    whole = ToolResult(outcome="ok", output="x")
    assert bounded_result(whole) is whole


# -- the scripted model


def test_a_script_is_a_list_or_a_callable():
    client = ScriptedClient(["one", answer("two"), lambda messages, tools: "three", ModelError("four")])
    assert isinstance(client, LLMClient)
    assert isinstance(client, StreamingClient)
    assert [client.complete([], []).content for _ in range(3)] == ["one", "two", "three"]
    with pytest.raises(ModelError, match="four"):
        client.complete([], [])
    with pytest.raises(ScriptEndedError, match="answer 5 was asked for"):
        client.complete([], [])
    pieces = list(ScriptedClient(["a\nb"]).stream([], []))
    assert [piece.text for piece in pieces] == ["a\n", "b", ""]
    assert pieces[-1].message.content == "a\nb"


# -- episodes

JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.one_of(st.text(max_size=5), st.sampled_from(["$dec", "$json", "\ue000"])), inner, max_size=4)),
    max_leaves=20,
)  # fmt: skip
SAMPLES: list[Episode] = [
    Requested(turn=1, text="Oil the engine", topic="engine", at_ms=1_767_225_600_000),
    Noted(turn=1, topic="tail", data={"cwd": "/x", "score": 0.5, "big": 2**60, "$odd": {"\ue000": 1}}),
    Answered(
        turn=1, step=1, latency_ms=900, retries=2, measures={"prefix": 12}, masked=("c1",),
        message=AssistantMessage(
            content="I will.", model="m", finish_reason="tool_calls", reasoning=({"type": "thinking", "signature": "AbC="},),
            usage=Usage(prompt_tokens=10, completion_tokens=5, cached=4, cost=7),
            tool_calls=(ToolCall(id="c1", name="edit", args={"path": "a", "ratio": 0.25}), ToolCall(id="c2", name="x", raw="{", problem="torn")),
        ),
    ),
    Decided(turn=1, step=1, call_id="c1", answer="always", reason="it writes"),
    Intended(turn=1, step=1, call_id="c1", name="edit", plan=({"path": "a", "before": None, "after": "00"},)),
    Intended(turn=1, step=1, call_id="c2", name="x", is_read=True),
    Resulted(
        turn=1, step=1, call_id="c1", name="edit", duration_ms=3,
        result=ToolResult(outcome="ok", output="done", images=(Image(media_type="image/png", data=b"\x89PNG"),), handle="@periplus/x",
                          untrusted=False, exit_code=0, effects=({"path": "a", "before": None, "after": "00"},)),
    ),
    Resulted(turn=1, step=1, call_id="c2", name="x", result=ToolResult(outcome="denied", output="no"), counts_as_stuck=True, is_judged=True),
    Fed(turn=1, step=1, source="person", text="use oil"),
    HookFailed(turn=1, step=1, hook="mine", seam="after_step", error="RuntimeError: broken", is_closed=True),
    Resumed(turn=1, step=1, at_ms=1_767_225_600_001),
    Ended(turn=1, step=1, reason="budget", note="Spent.", text="I will.", usage=Usage(prompt_tokens=10)),
]  # fmt: skip


def test_every_kind_of_episode_has_a_sample():
    assert {type(sample) for sample in SAMPLES} == set(Episode.__args__)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: type(sample).__name__)
def test_an_episode_comes_back_as_it_was(sample):
    payload = json.loads(canonical(encode_episode(sample)))
    assert decode_episode(payload) == sample
    assert canonical(encode_episode(decode_episode(payload))) == canonical(encode_episode(sample))


def test_golden_episodes():
    """What was written by this version stays readable, and is written in the same bytes."""
    lines = GOLDEN.read_bytes().splitlines()
    assert [decode_episode(json.loads(line)) for line in lines] == SAMPLES
    assert [canonical(encode_episode(sample)) for sample in SAMPLES] == lines


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4))
def test_whatever_a_model_sends_can_be_written(args):
    sample = Answered(turn=1, step=1, message=AssistantMessage(tool_calls=(ToolCall(id="1", name="x", args=args),)))
    assert decode_episode(json.loads(canonical(encode_episode(sample)))) == sample


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4))
def test_what_is_gone_on_with_is_what_comes_back(args):
    """Byte for byte, the order of keys too: else a session that was taken up again would send other requests."""
    reasoning = ({"type": "x", "b": 1, "a": {"d": 1, "c": 2}},)
    message = AssistantMessage(tool_calls=(ToolCall(id="1", name="x", args=args),), reasoning=reasoning)
    sample = masked_episode(Answered(turn=1, step=1, message=message), mask_secrets)
    assert repr(decode_episode(json.loads(canonical(encode_episode(sample))))) == repr(sample)
    noted = masked_episode(Noted(turn=1, topic="x", data={"b": {"z": args, "a": 1}, "a": 1}), mask_secrets)
    assert repr(decode_episode(json.loads(canonical(encode_episode(noted))))) == repr(noted)


def test_a_deep_value_can_be_written():
    deep = {"a": 1}
    for _ in range(100):
        deep = {"a": [deep]}
    sample = Noted(turn=1, topic="x", data=deep)
    assert decode_episode(json.loads(canonical(encode_episode(sample)))) == sample


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"v": 1},
        {"v": 1, "kind": "other"},
        {"v": 1, "kind": "fed", "turn": "x"},
        {"v": 1, "kind": "noted", "turn": 1, "topic": {"$dec": "x"}},
    ],
)
def test_a_record_that_holds_no_episode_is_damage(payload):
    with pytest.raises(DamageError, match="does not contain a valid episode"):
        decode_episode(payload)


def test_a_record_of_a_later_version_is_told_as_that():
    with pytest.raises(NewerFormatError, match="version 2"):
        decode_episode({"v": 2, "kind": "fed"})
    assert decode_episode({"v": 1, "kind": "fed", "turn": 1, "source": "x", "text": "y", "later": 1}).text == "y"


def test_secrets_are_masked_and_nothing_else():
    for sample in SAMPLES:
        kept = masked_episode(sample, mask_secrets)
        assert kept == sample or kept.masked == ("c1",)
    args = {"max_tokens": 4096, "content": "max_tokens=4096", "env": {"API_KEY": SECRET}, "list": [f"x {SECRET}"]}
    told = AssistantMessage(content=f"the key {SECRET}", tool_calls=(ToolCall(id="1", name="x", args=args), ToolCall(id="2", name="y")),
                            reasoning=({"text": SECRET}, {"text": "fine"}))  # fmt: skip
    masked = masked_episode(Answered(turn=1, step=1, message=told), mask_secrets)
    assert SECRET not in repr(masked)
    assert masked.masked == ("1",)
    assert masked.message.tool_calls[0].args["max_tokens"] == 4096
    assert masked.message.tool_calls[0].args["content"] == "max_tokens=4096"
    assert masked.message.reasoning == ({"text": "fine"},)
    output = Resulted(turn=1, step=1, call_id="1", name="x", result=ToolResult(
        outcome="ok", output=f"DATABASE_URL=postgres://ada:{SECRET}@db/x", images=(Image(media_type="image/png", data=b"\x00"),)))  # fmt: skip
    masked = masked_episode(output, mask_secrets)
    assert SECRET not in repr(masked)
    assert masked.result.images == output.result.images


def test_a_value_is_masked_by_the_name_beside_it():
    value = "hunter2-Xq9vLw3!"
    args = {"password": value, "note": "hunter"}
    sample = Answered(turn=1, step=1, message=AssistantMessage(tool_calls=(ToolCall(id="1", name="x", args=args),)))
    masked = masked_episode(sample, mask_secrets).message.tool_calls[0].args
    assert value not in repr(masked)
    assert masked["note"] == "hunter"


@given(st.lists(st.sampled_from(SAMPLES), max_size=30))
def test_a_turn_can_be_folded_from_anything(episodes):
    """What a damaged or foreign log holds does not break the fold; the loop decides by what is left."""
    turn = Turn()
    for episode in episodes:
        turn.take(episode)
    assert turn.phase in ("idle", "ask", "act", "settle")


# -- events

EVENTS = [
    events.RunStarted(
        turn=0, session="s", model="m", mode="default", sandbox="none", sandbox_about="a", is_trusted=False
    ),
    events.TurnStarted(turn=1, request="x"),
    events.SessionResumed(turn=1, step=2, indeterminate=("c1",)),
    events.StepStarted(turn=1, step=1, messages=2, characters=100),
    events.TextGrown(turn=1, step=1, text="a"),
    events.ReasoningGrown(turn=1, step=1, text="a"),
    events.AnswerRestarted(turn=1, step=1),
    events.RetryScheduled(turn=1, step=1, attempt=1, wait_ms=1000, error="busy"),
    events.AnswerCompleted(
        turn=1, step=1, text="a", calls=1, usage=Usage(prompt_tokens=1), finish_reason="stop", latency_ms=5
    ),
    events.PermissionAsked(turn=1, step=1, call_id="c", name="x", args={"a": 0.5}, reason="r"),
    events.PermissionDecided(turn=1, step=1, call_id="c", answer="no"),
    events.ToolStarted(turn=1, step=1, call_id="c", name="x", args={}),
    events.ToolEnded(turn=1, step=1, call_id="c", name="x", outcome="ok", output="o", effects=({"path": "a"},)),
    events.AgentStarted(turn=1, step=1, session="s/1.1.1", name="n", mode="read-only", task="t"),
    events.AgentEnded(turn=1, step=1, session="s/1.1.1", name="n", outcome="done", steps=2, usage=Usage()),
    events.FeedbackGiven(turn=1, step=1, agent="s/1.1.1", source="oracle", text="t"),
    events.HookRaised(turn=1, step=1, hook="h", seam="after_step", error="e", is_closed=False),
    events.ContextFolded(turn=1, step=1),
    events.Learned(turn=1, lessons=1, skills=2),
    events.Noticed(turn=1, text="git is not installed: the state of the files is not recorded"),
    events.TurnEnded(turn=1, step=1, reason="done", note="", text="t", usage=Usage()),
]


@pytest.mark.slow
def test_every_event_is_a_line_of_the_documented_schema():
    assert {type(event) for event in EVENTS} == set(events.Event.__args__)
    schema = events.event_schema()
    names = set()
    for event in EVENTS:
        line = events.encode_event(event)
        assert b"\n" not in line
        document = json.loads(line)
        jsonschema.validate(document, schema)
        names.add(document["event"])
        assert msgspec.json.decode(line, type=events.Event) == event
    assert len(names) == len(EVENTS)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"event": "other", "turn": 1}, schema)


def test_the_old_name_of_the_session_options_warns_and_works():
    from periplus.agent import assembly

    with pytest.warns(DeprecationWarning, match="SessionOptions since 0.2"):
        assert assembly.Begun is assembly.SessionOptions
    with pytest.raises(AttributeError, match="no attribute 'Other'"):
        _ = assembly.Other
