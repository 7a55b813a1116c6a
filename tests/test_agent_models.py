"""The adapters of models: real SDKs against a provider on loopback that speaks the real wire formats."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import socket
import threading
from contextlib import ExitStack, contextmanager, suppress
from urllib.parse import urlsplit

import msgspec
import pytest
from tests.fake_provider import Broken, Failure, FakeProvider, Hanging, Raw, Reset

from periplus.agent.contracts import (
    AssistantMessage,
    ContextOverflowError,
    Image,
    LLMClient,
    Message,
    ModelError,
    StreamingClient,
    ToolCall,
    ToolSchema,
    Usage,
)
from periplus.agent.models.api_keys import Keys
from periplus.agent.models.catalogue import cost_of, facts_of, known_models
from periplus.agent.models.client_factory import (
    KINDS,
    PROVIDERS,
    ModelName,
    Provider,
    open_model,
    parse_model,
    provider_models,
)
from periplus.agent.models.conversation_replay import RecordedClient, RecordingClient
from periplus.agent.models.parts import SdkClient, missing
from periplus.agent.models.scripted import ScriptedClient
from periplus.base.errors import FormatError, RefusedError, UsageError

pytest.importorskip("anthropic")
pytest.importorskip("openai")

KEY = "k" * 20
TOOLS = (
    ToolSchema(
        name="read",
        description="Read a file.",
        parameters={"type": "object", "properties": {"path": {"type": "string"}}},
    ),
)
ASKED = (
    Message(role="system", content="Be brief.", breakpoint=True),
    Message(role="user", content="What is in a.py?"),
)
CALLS = (
    ToolCall(id="call_1", name="read", args={"path": "a.py"}),
    ToolCall(id="call_2", name="read", args={"path": "bé 🐚.py"}),
)
USAGE = Usage(prompt_tokens=1_000, completion_tokens=50, cached=800, cache_written=100)


@pytest.fixture
def client_at():
    """Makes clients, which are closed at the end."""
    with ExitStack() as opened:

        def make(url, kind, *, model="test", key=KEY, **more):
            provider = Provider(kind=kind, base_url=url if kind == "anthropic" else url + "/v1", **more)
            client = open_model(ModelName("fake", model), {"fake": provider}, key)[0]
            opened.callback(client.close)
            return client

        yield make


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_comes_in_pieces_and_whole(client_at, kind):
    answer = AssistantMessage(content="It is a shell: 🐚, said plainly.", usage=USAGE)
    with FakeProvider(answer) as fake:
        client = client_at(fake.url, kind)
        assert isinstance(client, StreamingClient)
        assert isinstance(client, LLMClient)
        events = list(client.stream(ASKED, TOOLS))
    assert "".join(event.text for event in events if event.kind == "text") == answer.content
    assert len([event for event in events if event.kind == "text"]) > 2
    message = events[-1].message
    assert (message.content, message.finish_reason) == (answer.content, "stop")
    found = message.usage
    assert (found.prompt_tokens, found.completion_tokens, found.cached, found.cache_written) == (1_000, 50, 800, 100)


@pytest.mark.parametrize("kind", KINDS)
def test_calls_come_with_their_arguments_and_go_back_with_their_results(client_at, kind):
    asks = AssistantMessage(content="I look.", tool_calls=CALLS, finish_reason="tool_calls")
    with FakeProvider(asks, AssistantMessage(content="Done.")) as fake:
        client = client_at(fake.url, kind)
        first = client.complete(ASKED, TOOLS)
        assert [(call.id, call.name, call.args, call.problem) for call in first.tool_calls] == [
            (call.id, call.name, call.args, "") for call in CALLS
        ]
        assert first.finish_reason == "tool_calls"
        results = (
            Message(role="assistant", content=first.content, tool_calls=first.tool_calls, reasoning=first.reasoning),
            Message(role="tool", tool_call_id="call_1", content="x = 1"),
            Message(role="tool", tool_call_id="call_2", content="no such file", outcome="failed"),
        )
        assert client.complete((*ASKED, *results), TOOLS).content == "Done."
        one, two = fake.bodies()
    # What was sent before is sent again as it was: a cache of prefixes lives on it.
    for name in ("messages", "input"):
        if name in one:
            assert two[name][: len(one[name])] == one[name]
    sent = json.dumps(two)
    assert sent.count('"call_1"') == 2
    if kind == "anthropic":
        assert two["messages"][-1]["content"][1] == {
            "type": "tool_result", "tool_use_id": "call_2", "is_error": True, "content": [{"type": "text", "text": "no such file"}],
        }  # fmt: skip
        assert two["system"][0]["cache_control"] == {"type": "ephemeral"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("raw", "told"),
    [
        ('{"path": "a', "not JSON"),
        ("[1]", "not an object"),
        ("nonsense", "not JSON"),
        ('{"limit": NaN}', "NaN is not a JSON number"),
        ('{"limit": 1e999}', "1e999 is too large a number"),
        ('{"a":' + "[" * 50_000 + "]" * 50_000 + "}", "nested too deep"),
    ],
    ids=["cut", "list", "text", "nan", "infinite", "deep"],
)
def test_arguments_that_cannot_be_read_are_kept_with_what_is_wrong(client_at, kind, raw, told):
    bad = AssistantMessage(tool_calls=(ToolCall(id="c", name="read", raw=raw),), finish_reason="tool_calls")
    with FakeProvider(bad, AssistantMessage(content="sorry")) as fake:
        client = client_at(fake.url, kind)
        answer = client.complete(ASKED, TOOLS)
        (call,) = answer.tool_calls
        assert told in call.problem
        assert call.args == {}
        assert raw.startswith(call.raw)
        again = (*ASKED, Message(role="assistant", tool_calls=answer.tool_calls),
                 Message(role="tool", tool_call_id="c", content=call.problem, outcome="failed"))  # fmt: skip
        assert client.complete(again, TOOLS).content == "sorry"


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_that_breaks_off_is_no_answer(client_at, kind):
    answer = AssistantMessage(content="a long answer that is cut in the middle of what it says")
    with FakeProvider(Broken(answer, 4)) as fake, pytest.raises(ModelError) as caught:
        client_at(fake.url, kind).complete(ASKED, TOOLS)
    assert caught.value.is_retryable


def chunk(delta, finish=None, **more):
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}  # fmt: skip


def test_calls_that_a_server_gives_one_index_are_calls_of_their_own(client_at):
    def called(call_id, path):
        function = {"name": "read", "arguments": json.dumps({"path": path})}
        return {"tool_calls": [{"index": 0, "id": call_id, "type": "function", "function": function}]}

    pieces = [chunk(called("a", "a.py")), chunk(called("b", "b.py")),
              chunk({"tool_calls": [{"index": 0, "function": {"arguments": " "}}]}), chunk({}, "tool_calls"), "[DONE]"]  # fmt: skip
    with FakeProvider(Raw(pieces)) as fake:
        answer = client_at(fake.url, "openai-chat").complete(ASKED, TOOLS)
    assert [(call.id, call.args, call.problem) for call in answer.tool_calls] == [
        ("a", {"path": "a.py"}, ""), ("b", {"path": "b.py"}, ""),
    ]  # fmt: skip


def test_a_chunk_without_choices_is_none_and_one_that_is_no_chunk_is_the_servers_fault(client_at):
    whole = [chunk({"content": "Fine."}), chunk({}, choices=None), chunk(None, "stop"), "[DONE]"]
    with FakeProvider(Raw(whole), Raw([chunk({}, choices=7), "[DONE]"])) as fake:
        client = client_at(fake.url, "openai-chat")
        assert client.complete(ASKED, TOOLS).content == "Fine."
        with pytest.raises(ModelError, match="fake gave an answer that cannot be read") as caught:
            client.complete(ASKED, TOOLS)
    assert caught.value.is_retryable


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_that_is_too_long_says_so(client_at, kind):
    with FakeProvider(AssistantMessage(content="half a sen", finish_reason="length")) as fake:
        assert client_at(fake.url, kind).complete(ASKED, TOOLS).finish_reason == "length"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("status", "body", "headers", "retryable", "after_s"),
    [
        (429, {"error": {"message": "slow down", "type": "rate_limit_error"}}, {"retry-after": "7"}, True, 7.0),
        (429, {"error": {"message": "slow down"}}, {"retry-after-ms": "1500"}, True, 1.5),
        (429, {"error": {"message": "slow", "type": "x"}}, {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, True, 0.0),
        (429, {"error": {"message": "slow"}}, {"retry-after": "soon"}, True, None),
        (429, {"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}, {}, False, None),
        (529, {"error": {"message": "Overloaded", "type": "overloaded_error"}}, {}, True, None),
        (500, {"error": {"message": "oops"}}, {}, True, None),
        (503, b"<html>busy</html>", {"content-type": "text/html"}, True, None),
        (401, {"error": {"message": "invalid key"}}, {}, False, None),
        (404, {"error": {"message": "no such model"}}, {}, False, None),
        (400, {"error": {"message": "tools.0.name: bad"}}, {}, False, None),
    ],
    ids=str,
)
def test_errors_of_a_provider_are_told_apart(client_at, kind, status, body, headers, retryable, after_s):
    with FakeProvider(Failure(status, body, headers)) as fake, pytest.raises(ModelError) as caught:
        client_at(fake.url, kind).complete(ASKED, TOOLS)
    error = caught.value
    assert (error.status, error.is_retryable, error.retry_after_s) == (status, retryable, after_s)
    assert not isinstance(error, ContextOverflowError)
    assert len(fake.requests) == 1  # the SDK does not try again by itself
    if status == 401:
        assert "periplus models key fake" in error.mend


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("status", "message", "code"),
    [
        (400, "prompt is too long: 210000 tokens > 200000 maximum", "invalid_request_error"),
        (400, "This model's maximum context length is 8192 tokens.", "context_length_exceeded"),
        (400, "Your input exceeds the context window of this model.", "context_length_exceeded"),
        (413, "Request exceeds the maximum size", "request_too_large"),
        (400, "the request exceeds the available context size", "exceed_context_size_error"),
        (400, "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000", "invalid_request_error"),
        (
            400,
            "This model's maximum prompt length is 131072 but the request contains 136973 tokens.",
            "invalid-argument",
        ),
        (
            400,
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            "INVALID_ARGUMENT",
        ),
        (413, "<html>413 Request Entity Too Large</html>", ""),
        (429, "Request too large for m on tokens per min (TPM): Limit 30000, Requested 45000.", "rate_limit_exceeded"),
    ],
)
def test_a_request_that_is_too_long_is_known_as_one(client_at, kind, status, message, code):
    told = Failure(status, {"error": {"message": message, "type": code, "code": code}})
    with FakeProvider(told) as fake, pytest.raises(ContextOverflowError):
        client_at(fake.url, kind).complete(ASKED, TOOLS)


@pytest.mark.parametrize("kind", KINDS)
def test_who_is_told_to_stop_stops_though_nothing_comes(client_at, kind):
    hanging = Hanging()
    with FakeProvider(hanging) as fake:
        client = client_at(fake.url, kind)
        raised = []

        def ask():
            try:
                client.complete(ASKED, TOOLS)
            except ModelError as error:
                raised.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        assert hanging.begun.wait(60)
        client.cancel()
        thread.join(60)
        hanging.over.set()
    assert "stopped" in str(raised[0])
    assert not raised[0].is_retryable


def test_nobody_who_listens_on_this_machine_is_told_at_once(client_at):
    with FakeProvider() as fake:
        url = fake.url
    for kind in KINDS:
        with (
            kept_from_others(url),
            pytest.raises(ModelError, match=f"fake: nothing listens at {url.removeprefix('http://')}") as caught,
        ):
            client_at(url, kind).complete(ASKED, TOOLS)
        assert not caught.value.is_retryable
        assert "Start the server" in caught.value.mend
        with kept_from_others(url), pytest.raises(ModelError, match="nothing listens at"):
            provider_models("fake", Provider(kind=kind, base_url=url), "")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", [AssistantMessage(content="Here."), Failure(500, {"error": {"message": "ill"}})])
def test_a_server_that_was_there_may_come_again(client_at, kind, first):
    with FakeProvider(first, Reset()) as fake:
        client = client_at(fake.url, kind)
        with suppress(ModelError):
            client.complete(ASKED, TOOLS)
        with pytest.raises(ModelError, match="cannot be reached"):
            client.complete(ASKED, TOOLS)
    with kept_from_others(fake.url), pytest.raises(ModelError, match="nothing listens at") as caught:
        client.complete(ASKED, TOOLS)
    assert caught.value.is_retryable


@contextmanager
def kept_from_others(url):
    """The port of a server that is gone, so that no other test's server gets it and what is said to it: bound, but nobody listens."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", urlsplit(url).port))
        yield


@pytest.mark.parametrize("kind", KINDS)
def test_a_connection_that_is_cut_is_worth_another_try(client_at, kind):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def cut():
            server.accept()[0].close()

        thread = threading.Thread(target=cut)
        thread.start()
        with pytest.raises(ModelError, match="cannot be reached") as caught:
            client_at(f"http://127.0.0.1:{server.getsockname()[1]}", kind).complete(ASKED, TOOLS)
        thread.join(60)
    assert caught.value.is_retryable


def test_a_key_that_a_provider_repeats_is_not_repeated(client_at):
    key = "sk-ant-api03-" + "Zq7" * 31
    with FakeProvider(Failure(401, {"error": {"message": f"invalid x-api-key: {key}"}})) as fake:
        with pytest.raises(ModelError) as caught:
            client_at(fake.url, "anthropic", key=key).complete(ASKED, ())
        assert key in json.dumps(fake.requests[0][1])
    assert key not in str(caught.value)


def test_thoughts_go_back_as_they_came(client_at):
    thoughts = (
        {"type": "thinking", "thinking": "First I think, then I look.", "signature": "c2lnbmVk"},
        {"type": "redacted_thinking", "data": "AAAA"},
    )
    asks = AssistantMessage(content="So.", reasoning=thoughts, tool_calls=CALLS[:1], finish_reason="tool_calls")
    with FakeProvider(asks, AssistantMessage(content="Done.")) as fake:
        client = client_at(fake.url, "anthropic")
        events = list(client.stream(ASKED, TOOLS))
        first = events[-1].message
        assert first.reasoning == thoughts
        assert "".join(event.text for event in events if event.kind == "reasoning") == thoughts[0]["thinking"]
        back = Message(role="assistant", content=first.content, tool_calls=first.tool_calls, reasoning=first.reasoning)
        client.complete((*ASKED, back, Message(role="tool", tool_call_id="call_1", content="x")), TOOLS)
        assert fake.bodies()[1]["messages"][1]["content"][:2] == list(thoughts)


def test_reasoning_items_of_responses_go_back_and_nothing_is_stored(client_at):
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "AAAA"}
    asks = AssistantMessage(reasoning=(item,), tool_calls=CALLS[:1], finish_reason="tool_calls")
    with FakeProvider(asks, AssistantMessage(content="Done.")) as fake:
        client = client_at(fake.url, "openai-responses")
        first = client.complete(ASKED, TOOLS)
        assert first.reasoning == (item,)
        back = Message(role="assistant", tool_calls=first.tool_calls, reasoning=first.reasoning)
        client.complete((*ASKED, back, Message(role="tool", tool_call_id="call_1", content="x")), TOOLS)
        one, two = fake.bodies()
    assert one["store"] is False
    assert two["input"][2] == item
    assert two["input"][3]["type"] == "function_call"


def test_an_item_of_reasoning_that_led_to_nothing_does_not_go_back(client_at):
    """An answer that its length limit cut off while the model still thought: the provider refuses its item on its own."""
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "AAAA"}
    thought = AssistantMessage(reasoning=(item,), finish_reason="length")
    with FakeProvider(thought, AssistantMessage(content="Done.")) as fake:
        client = client_at(fake.url, "openai-responses")
        first = client.complete(ASKED, TOOLS)
        back = Message(role="assistant", content=first.content, reasoning=first.reasoning)
        client.complete((*ASKED, back, Message(role="user", content="Go on.")), TOOLS)
        _, two = fake.bodies()
    assert [one["type"] for one in two["input"]] == ["message", "message", "message"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_session_goes_on_with_a_model_of_another_provider(client_at, kind):
    """What one provider wants back of its thoughts is refused by every other one."""
    thoughts = (
        {"type": "thinking", "thinking": "So so.", "signature": "c2lnbmVk"},
        {"type": "redacted_thinking", "data": "AAAA"},
    )
    items = ({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "AAAA"},)
    messages = (
        *ASKED,
        Message(role="assistant", content="By one.", reasoning=thoughts),
        Message(role="user", content="And you?"),
        Message(role="assistant", content="By another.", reasoning=items),
        Message(role="user", content="And now?"),
    )
    with FakeProvider(AssistantMessage(content="ok")) as fake:
        client_at(fake.url, kind).complete(messages, TOOLS)
        (body,) = fake.bodies()
    sent = json.dumps(body.get("input") or body["messages"])
    assert ("c2lnbmVk" in sent) == (kind == "anthropic")
    assert ("rs_1" in sent) == (kind == "openai-responses")


@pytest.mark.parametrize("kind", KINDS)
def test_pictures_go_to_the_model(client_at, kind):
    image = Image(media_type="image/png", data=b"\x89PNG\r\n")
    asked = (
        Message(role="user", content="What is this?", images=(image,)),
        Message(role="assistant", tool_calls=CALLS),
        Message(role="tool", tool_call_id="call_1", content="", images=(image,)),
        Message(role="tool", tool_call_id="call_2", content="nothing"),
    )
    with FakeProvider(AssistantMessage(content="A shell.")) as fake:
        assert client_at(fake.url, kind).complete(asked, ()).content == "A shell."
        (body,) = fake.bodies()
    assert json.dumps(body).count("iVBORw0K") == 2
    if kind == "openai-chat":
        assert [turn["role"] for turn in body["messages"]] == ["user", "assistant", "tool", "tool", "user"]


def test_four_marks_of_the_cache_at_most_the_first_and_the_last(client_at):
    messages = [Message(role="system", content="rules", breakpoint=True)]
    messages += [
        Message(role="user" if at % 2 else "assistant", content=f"turn {at}", breakpoint=True) for at in range(1, 9)
    ]
    with FakeProvider(AssistantMessage(content="ok")) as fake:
        client_at(fake.url, "anthropic").complete(messages, ())
        (body,) = fake.bodies()
    assert "cache_control" in body["system"][0]
    marked = [block["text"] for turn in body["messages"] for block in turn["content"] if "cache_control" in block]
    assert marked == ["turn 6", "turn 7", "turn 8"]


def test_ids_of_calls_that_no_provider_takes_are_made_ones_that_all_take(client_at):
    odd = ToolCall(id="read:0/ü" * 20, name="read", args={})
    messages = (
        *ASKED,
        Message(role="assistant", tool_calls=(odd,)),
        Message(role="tool", tool_call_id=odd.id, content="x"),
    )
    with FakeProvider(AssistantMessage(content="ok")) as fake:
        client_at(fake.url, "anthropic").complete(messages, ())
        (body,) = fake.bodies()
    made = body["messages"][1]["content"][0]["id"]
    assert made == body["messages"][2]["content"][0]["tool_use_id"]
    assert len(made) < 64
    assert made.isascii()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["multi_tool_use.parallel", "", "read file", "r" * 200, "lésen"])
def test_a_name_that_is_no_tools_goes_back_as_one_that_providers_take(client_at, kind, name):
    """They refuse a request with another one in it, and so would each that follows in the session."""
    messages = (
        *ASKED,
        Message(role="assistant", tool_calls=(ToolCall(id="call_1", name=name, args={}),)),
        Message(role="tool", tool_call_id="call_1", content="There is no such tool.", outcome="failed"),
    )
    with FakeProvider(AssistantMessage(content="ok")) as fake:
        client_at(fake.url, kind).complete(messages, TOOLS)
        (body,) = fake.bodies()
    if kind == "anthropic":
        sent = body["messages"][1]["content"][0]["name"]
    elif kind == "openai-chat":
        sent = body["messages"][2]["tool_calls"][0]["function"]["name"]
    else:
        sent = body["input"][2]["name"]
    assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", sent)


# -- names, keys, prices ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "gpt", "/x", "x/", "a/b\n", "x/" + "y" * 300])
def test_what_is_no_name_of_a_model_is_refused(text):
    with pytest.raises(UsageError, match="not a valid model name"):
        parse_model(text)
    assert parse_model("local/org/model:7b") == ModelName("local", "org/model:7b")


@pytest.mark.parametrize(
    ("address", "key", "told"),
    [
        ("http://example.org/v1", KEY, "without TLS"),
        ("https://user:pass@example.org", KEY, "is not a valid provider address"),
        ("ftp://example.org", KEY, "is not a valid provider address"),
        ("file:///etc/passwd", "", "is not a valid provider address"),
        ("https://[::1", KEY, "is not a valid provider address"),
        ("https://example.org/?key=1", "", "is not a valid provider address"),
    ],
)
def test_a_key_goes_nowhere_that_is_not_safe(address, key, told):
    provider = Provider(kind="openai-chat", base_url=address, needs_key=False)
    with pytest.raises(UsageError, match=told):
        open_model(ModelName("x", "m"), {"x": provider}, key)
    with pytest.raises(UsageError, match="no key for"):
        open_model(ModelName("anthropic", "m"), PROVIDERS, "")
    with pytest.raises(UsageError, match="no provider"):
        open_model(ModelName("nobody", "m"), PROVIDERS, "")


@pytest.mark.parametrize(
    "host", ["localhost", "LocalHost:8080", "127.0.0.1:1", "127.8.9.10", "[::1]:11434", "[0:0:0:0:0:0:0:1]"]
)
def test_a_provider_on_this_machine_needs_no_key_unless_told(host):
    address = f"http://{host}/v1"
    open_model(ModelName("x", "m"), {"x": Provider(kind="openai-chat", base_url=address)}, "")
    open_model(ModelName("x", "m"), {"x": Provider(kind="openai-chat", base_url=address)}, KEY)
    with pytest.raises(UsageError, match="no key for x"):
        open_model(ModelName("x", "m"), {"x": Provider(kind="openai-chat", base_url=address, needs_key=True)}, "")


@pytest.mark.parametrize(
    "address",
    [
        "https://example.org", "https://localhost.example.org", "https://127.0.0.1.example.org", "https://localhost@example.org",
        "https://128.0.0.1", "https://10.0.0.1", "https://0.0.0.0", "https://[::2]", "https://[::1",
    ],
)  # fmt: skip
def test_a_provider_elsewhere_needs_a_key_unless_told(address):
    with pytest.raises(UsageError, match="no key for x"):
        open_model(ModelName("x", "m"), {"x": Provider(kind="openai-chat", base_url=address)}, "")


def test_the_environment_does_not_say_where_requests_go(client_at, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9/")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "other")
    for kind in KINDS:
        with FakeProvider(AssistantMessage(content="here")) as fake:
            assert client_at(fake.url, kind).complete(ASKED, ()).content == "here"
            headers = {name.lower(): value for name, value in fake.requests[0][1].items()}
            assert "other" not in headers.get("authorization", "")


@pytest.mark.parametrize("kind", KINDS)
def test_a_provider_says_what_it_has(kind):
    with FakeProvider() as fake:
        url = fake.url if kind == "anthropic" else fake.url + "/v1"
        assert provider_models("fake", Provider(kind=kind, base_url=url), KEY) == ["a-model", "b-model"]


def test_keys_are_the_users_alone(tmp_path):
    keys = Keys(str(tmp_path / "config"), {"OPENAI_API_KEY": "from the environment"})
    assert keys.key("anthropic") == ""
    keys.set("anthropic", KEY)
    assert os.stat(keys.path).st_mode & 0o777 == 0o600
    assert keys.key("anthropic") == KEY
    assert keys.key("openai") == "from the environment"
    assert keys.providers() == {"anthropic": "file", "openai": "environment"}
    os.chmod(keys.path, 0o644)
    with pytest.raises(RefusedError, match="nobody else may read"):
        keys.key("anthropic")
    os.chmod(keys.path, 0o600)
    keys.set("anthropic", "")
    assert keys.providers() == {"openai": "environment"}
    for name, key in (("../x", KEY), ("", KEY), ("x", "a b"), ("x", "a\nb"), ("x", "é"), ("x", "k" * 5_000)):
        with pytest.raises(UsageError):
            keys.set(name, key)
    os.unlink(keys.path)
    os.symlink("/etc/hostname", keys.path)
    with pytest.raises(RefusedError):
        keys.key("anthropic")
    os.unlink(keys.path)
    (tmp_path / "config" / "keys.json").write_text("[]")
    os.chmod(keys.path, 0o600)
    with pytest.raises(UsageError, match="not a table of keys"):
        keys.key("anthropic")


def test_what_a_request_costs():
    facts = facts_of("anthropic", "claude-sonnet-4-5-20250929")
    assert facts is known_models()["anthropic/claude-sonnet-4-5"]
    # 100 at $3, 800 read at $0.30, 100 written at $3.75, 50 out at $15, each for a million
    assert cost_of(facts, USAGE) == 300 + 240 + 375 + 750
    long = facts_of("openai", "gpt-6-astra")
    short = cost_of(long, Usage(prompt_tokens=272_000))
    assert cost_of(long, Usage(prompt_tokens=272_001)) >= 2 * short
    assert cost_of(facts_of("nobody", "nothing"), USAGE) == 0
    assert facts_of("openai", "gpt-5-2025-08-07") is known_models()["openai/gpt-5"]
    for name, held in known_models().items():
        assert held.window >= held.output > 0, name
        assert held.price_in <= held.price_out, name


# -- recordings ------------------------------------------------------------------------------------------------------------


def test_what_was_recorded_is_played_again(client_at, tmp_path):
    path = str(tmp_path / "conversation.jsonl")
    asks = AssistantMessage(content="I look.", tool_calls=CALLS, finish_reason="tool_calls", usage=USAGE)
    with FakeProvider(asks, AssistantMessage(content="Done.")) as fake:
        recording = RecordingClient(client_at(fake.url, "anthropic"), path)
        first = recording.complete(ASKED, TOOLS)
        second = [event.message for event in recording.stream((*ASKED, Message(role="user", content="go on")), TOOLS)][
            -1
        ]
        recording.close()
    assert os.stat(path).st_mode & 0o777 == 0o600
    played = RecordedClient(path)
    assert played.complete(ASKED, TOOLS) == first
    with pytest.raises(ModelError, match="request 2 differs"):
        played.complete(ASKED, TOOLS)
    assert list(RecordedClient(path, strict=False).stream((), ()))[-1].message == first
    loose = RecordedClient(path, strict=False)
    assert [loose.complete((), ()), loose.complete((), ())] == [first, second]
    with pytest.raises(ModelError, match="ends after 2"):
        loose.complete((), ())


def test_a_recording_holds_no_secret_and_is_checked(tmp_path):
    path = str(tmp_path / "conversation.jsonl")
    secret = "ghp_" + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY1z2A"
    recording = RecordingClient(ScriptedClient([f"the token is {secret}"]), path)
    assert secret in recording.complete(ASKED, ()).content
    recording.close()
    with open(path) as file:
        assert secret not in file.read()
    assert RecordedClient(path).complete(ASKED, ()).content
    for line in (
        b"nonsense",
        b"{}",
        b'{"v":1,"asked":"\xed"}',
        msgspec.json.encode({"v": 2, "asked": "", "answer": {}}),
    ):
        (tmp_path / "bad").write_bytes(line + b"\n")
        with pytest.raises(FormatError, match="line 1"):
            RecordedClient(str(tmp_path / "bad"))


@pytest.mark.parametrize("kind", ["anthropic", "openai-chat", "openai-responses"])
def test_a_client_that_was_warmed_answers_and_leaves_no_thread(kind):
    def threads():
        return [one for one in threading.enumerate() if one.name == "periplus-sdk"]

    with FakeProvider() as fake:
        url = fake.url if kind == "anthropic" else fake.url + "/v1"
        for _ in range(3):
            client, _ = open_model(
                ModelName("fake", "m"), {"fake": Provider(kind=kind, base_url=url, needs_key=False)}, ""
            )
            client.warm()
            client.warm()
            assert len(threads()) <= 1
            client.close()
            assert not threads()
        assert fake.bodies() == []  # nothing is sent by it


def test_what_goes_wrong_while_a_client_is_warmed_is_told_by_the_first_request():
    class Absent(SdkClient):
        def _open(self):
            raise missing("some-sdk")

        def stream(self, messages, tools):
            self._client.send(messages)
            yield from ()

    client = Absent("m", key="", base_url="http://127.0.0.1:9", max_tokens=1, provider="p")
    client.warm()
    with pytest.raises(UsageError, match="some-sdk"):
        client.complete((), ())
    client.close()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_stopped_while_the_sdk_is_loaded_is_not_asked_for(kind):
    with FakeProvider(Hanging()) as fake:
        url = fake.url if kind == "anthropic" else fake.url + "/v1"
        client, _ = open_model(ModelName("fake", "m"), {"fake": Provider(kind=kind, base_url=url, needs_key=False)}, "")
        load = client._open
        client._open = lambda: (client.cancel(), load())[1]
        with pytest.raises(ModelError, match="the turn was stopped"):
            client.complete((Message(role="user", content="x"),), ())
        client.close()
        assert fake.bodies() == []


@pytest.mark.parametrize(
    ("provider", "package"), [("anthropic", "anthropic"), ("openai", "openai"), ("local", "openai")]
)
def test_a_package_that_is_not_installed_is_told_before_a_session_is_begun(monkeypatch, provider, package):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else found(name))
    with pytest.raises(UsageError, match=f"need the package {package}") as caught:
        open_model(ModelName(provider, "m"), PROVIDERS, "key")
    assert caught.value.mend == f"Install it: pip install 'periplus[{package}]'"
