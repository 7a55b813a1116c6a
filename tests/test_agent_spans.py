"""OpenTelemetry spans of a run: what they say, what they never say, and that the run goes on without a collector."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec
import pytest
from tests.fake_provider import FakeProvider
from tests.test_cli_run import MENDS, READS, says, shell, use  # noqa: F401 - shell is a fixture

from agent_support import Bench, tape
from periplus.agent.contracts import AssistantMessage, ModelError, ToolResult, Usage
from periplus.agent.events import AgentEnded, AgentStarted, TextGrown, ToolStarted, TurnEnded, TurnStarted
from periplus.agent.models.scripted import call

pytest.importorskip("opentelemetry.sdk")
pytest.importorskip("opentelemetry.exporter.otlp.proto.http")

from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from periplus.agent.observation.spans import open_spans


@pytest.fixture(autouse=True)
def nobodys_environment(monkeypatch):
    for name in ("OTEL_SERVICE_NAME", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_SAMPLER", "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)


def spans_of(*events):
    exporter = InMemorySpanExporter()
    spans = open_spans("s1", "anthropic/claude-x", exporter)
    for event in events:
        spans(event)
    assert spans.close() == 0
    assert not spans.is_broken
    return exporter.get_finished_spans()


def test_a_turn_its_calls_of_the_model_and_of_tools_are_spans_with_the_attributes_of_the_conventions(tmp_path):
    usage = Usage(prompt_tokens=100, cached=60, cache_written=20, completion_tokens=10, reasoning=4, cost=1234)
    script = [
        AssistantMessage(content="SECRET one", tool_calls=(call("write", path="SECRET", content="SECRET"), call("none")), usage=usage, finish_reason="tool_calls"),
        ModelError("busy", is_retryable=True),
        AssistantMessage(content="SECRET two", usage=msgspec.structs.replace(usage, cost=0)),
    ]  # fmt: skip
    bench = Bench(tmp_path, script, context=tape)
    bench.turn("SECRET request")
    made = spans_of(*bench.events)
    assert "SECRET" not in json.dumps([json.loads(span.to_json()) for span in made])
    turn = made[-1]
    assert [span.name for span in made] == [
        "chat claude-x",
        "execute_tool none",
        "execute_tool write",
        "chat claude-x",
        "invoke_agent periplus",
    ]
    assert all(span.parent.span_id == turn.context.span_id for span in made[:-1])
    assert all(span.attributes["gen_ai.conversation.id"] == "s1" for span in made)
    assert all(span.attributes["gen_ai.provider.name"] == "anthropic" for span in made)
    first, none, write, second, _ = made
    said = dict(first.attributes)
    assert said["gen_ai.operation.name"] == "chat"
    assert said["gen_ai.request.model"] == "claude-x"
    assert [
        said[f"gen_ai.usage.{name}"]
        for name in (
            "input_tokens",
            "output_tokens",
            "cache_read.input_tokens",
            "cache_creation.input_tokens",
            "reasoning.output_tokens",
        )
    ] == [100, 10, 60, 20, 4]
    assert said["gen_ai.response.finish_reasons"] == ("tool_calls",)
    assert said["periplus.cost_microdollars"] == 1234
    assert "gen_ai.response.time_to_first_chunk" in said
    assert first.kind.name == "CLIENT"
    assert "periplus.cost_microdollars" not in second.attributes, "a price that is not known is not nought"
    assert second.attributes["periplus.retries"] == 1
    assert [one.name for one in second.events] == ["retry"]
    assert second.attributes["periplus.prefix_survival"] == 1.0
    assert (write.attributes["gen_ai.tool.name"], write.attributes["periplus.outcome"], write.status.is_ok) == (
        "write",
        "ok",
        True,
    )
    assert (none.attributes["error.type"], none.status.is_ok) == ("failed", False)
    assert turn.attributes["gen_ai.usage.input_tokens"] == 200
    assert turn.attributes["periplus.reason"] == "done"
    assert turn.resource.attributes["service.name"] == "periplus"


def test_a_subagent_lies_below_the_call_that_it_works_for_and_what_was_cut_off_says_so():
    made = spans_of(
        TurnStarted(turn=1, request="x"),
        ToolStarted(turn=1, step=1, call_id="c1", name="spawn_agent", args={}),
        AgentStarted(turn=1, step=1, session="s1/spy", name="spy", mode="read", task="look"),
        TurnStarted(turn=1, request="look", agent="s1/spy"),
        TurnEnded(turn=1, reason="budget", note="", text="", usage=Usage(), agent="s1/spy"),
        AgentEnded(turn=1, step=1, session="s1/spy", name="spy", outcome="parked", steps=1, usage=Usage()),
    )
    child, tool, turn = made
    assert (child.name, tool.name, turn.name) == (
        "invoke_agent spy",
        "execute_tool spawn_agent",
        "invoke_agent periplus",
    )
    assert child.parent.span_id == tool.context.span_id
    assert child.attributes["gen_ai.conversation.id"] == "s1/spy"
    assert child.attributes["error.type"] == "budget"
    assert (tool.attributes["error.type"], turn.attributes["error.type"]) == ("cut_off", "cut_off")


def test_a_collector_that_fails_is_counted_and_a_broken_sdk_is_left_alone(tmp_path):
    class Failing(InMemorySpanExporter):
        def export(self, spans):
            return SpanExportResult.FAILURE

    spans = open_spans("s1", "m", Failing())
    bench = Bench(tmp_path, ["Done."])
    bench.turn("Go")
    for event in bench.events:
        spans(event)
    assert spans.close() == 2
    broken = open_spans("s1", "m", InMemorySpanExporter())
    broken._tracer = None
    broken(TurnStarted(turn=1, request="x"))
    broken(TextGrown(turn=1, text="x"))
    assert broken.is_broken
    broken.close()


class Collector:
    """A collector on loopback: what it was sent, decoded with the published messages of the protocol."""

    def __init__(self):
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        self.requests, owner = [], self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_POST(self):
                import gzip

                data = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    data = gzip.decompress(data)
                owner.requests.append(
                    (self.path, self.headers["Content-Type"], ExportTraceServiceRequest.FromString(data))
                )
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)

    def __enter__(self):
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def spans(self):
        return [
            span
            for _, _, request in self.requests
            for one in request.resource_spans
            for scope in one.scope_spans
            for span in scope.spans
        ]


@pytest.mark.slow
def test_a_run_sends_its_spans_where_the_user_says_and_only_when_asked(shell):  # noqa: F811 - the fixture
    pytest.importorskip("openai")
    with Collector() as collector:
        where = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
        with FakeProvider(
            says("I look.", READS), says("Wrong.", MENDS), says("It adds now."), *[says("Yes.")] * 4
        ) as fake:
            use(shell, fake)
            shell("run", "make it add", "--otel", "--session", "one", env=where)
        assert {(path, kind) for path, kind, _ in collector.requests} == {("/v1/traces", "application/x-protobuf")}
        names = [span.name for span in collector.spans()]
        assert names.count("invoke_agent periplus") == 1
        assert {"chat m", "execute_tool read", "execute_tool edit"} <= set(names)
        assert len({span.trace_id for span in collector.spans()}) == 1
        collector.requests.clear()
        (shell.folder / "periplus.toml").write_text("telemetry = true\n")
        shell("trust", "give")
        shell.fails("run", "x", env=where, code=5, wrong="only the user can")
        (shell.folder / "periplus.toml").unlink()
        with FakeProvider(*[says("Nothing to do.")] * 5) as fake:
            use(shell, fake)
            shell("run", "again", env=where)
        assert collector.requests == [], "nobody asked for it"
    with FakeProvider(*[says("Nothing to do.")] * 5) as fake:
        use(shell, fake, telemetry=True)
        done = shell("run", "again", env=where)  # the collector is gone
    assert "spans did not reach the collector; the run is not affected" in done.err


def test_a_tool_that_is_denied_is_a_span_of_its_own():
    from periplus.agent.events import ToolEnded

    (one, _) = spans_of(
        TurnStarted(turn=1, request="x"),
        ToolEnded(
            turn=1, step=1, call_id="c", name="shell", outcome=ToolResult(outcome="denied").outcome, output="Denied"
        ),
        TurnEnded(turn=1, reason="done", note="", text="", usage=Usage()),
    )
    assert (one.name, one.attributes["error.type"]) == ("execute_tool shell", "denied")
