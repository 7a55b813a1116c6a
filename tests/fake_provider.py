"""A provider on loopback that speaks the real wire formats to the real SDKs and clients: Anthropic messages, chat completions,
responses, and Gemini's generateContent."""

from __future__ import annotations

import itertools
import json
import socket
import struct
import sys
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from periplus.agent.contracts import AssistantMessage


class Server(ThreadingHTTPServer):
    """Says nothing of clients that go away: they run in this process at times, whose standard error is looked at."""

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


@dataclass
class Failure:
    """An answer of HTTP that is no message."""

    status: int
    body: object = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Broken:
    """The first ``events`` events of an answer, then the connection is cut."""

    answer: AssistantMessage
    events: int


@dataclass
class Raw:
    """A stream of just these events: what is sent as data, as it is or as JSON."""

    data: list


@dataclass
class Hanging:
    """Nothing at all until the test is over; ``begun`` is set when the request is there."""

    begun: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)


@dataclass
class Reset:
    """The connection is reset before there is any answer."""


class FakeProvider:
    """``replies`` are answered in order, then ``otherwise``; ``requests`` holds path, headers and body of each request."""

    def __init__(self, *replies, otherwise=None):
        self.replies = list(replies)
        otherwise = otherwise or Failure(500, {"error": {"message": "no reply left"}})
        self.requests = []
        self._lock = threading.Lock()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                owner.requests.append((self.path, dict(self.headers), None))
                data = [
                    {
                        "id": name,
                        "object": "model",
                        "type": "model",
                        "created": 1,
                        "owned_by": "x",
                        "display_name": name,
                        "created_at": "2026-01-01T00:00:00Z",
                    }
                    for name in ("b-model", "a-model")
                ]
                self.whole(200, {"data": data, "has_more": False, "object": "list"})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with owner._lock:
                    headers = {name.lower(): value for name, value in self.headers.items()}
                    owner.requests.append((self.path, headers, body))
                    reply = owner.replies.pop(0) if owner.replies else otherwise
                if callable(reply):
                    reply = reply(body)
                if isinstance(reply, Failure):
                    self.whole(reply.status, reply.body, reply.headers)
                elif isinstance(reply, Hanging):
                    reply.begun.set()
                    reply.over.wait(60)
                    self.close_connection = True
                elif isinstance(reply, Reset):
                    off = struct.pack("ii", 1, 0)  # closed with what is unread thrown away: the other side gets RST
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, off)
                    self.close_connection = True
                else:
                    self.stream(reply)

            def whole(self, status, body, headers=None):
                data = json.dumps(body).encode() if not isinstance(body, bytes) else body
                self.send_response(status)
                for name, value in {"content-type": "application/json", **(headers or {})}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def stream(self, reply):
                answer, most = (reply.answer, reply.events) if isinstance(reply, Broken) else (reply, None)
                form = next(made for path, made in _FORMS.items() if self.path.partition("?")[0].endswith(path))
                events = [("", data) for data in reply.data] if isinstance(reply, Raw) else form(answer)[:most]
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                for name, data in events:
                    text = (
                        f"event: {name}\n" if name else ""
                    ) + f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n"
                    raw = text.encode()
                    self.wfile.write(f"{len(raw):x}\r\n".encode() + raw + b"\r\n")
                if most is None:
                    self.wfile.write(b"0\r\n\r\n")
                else:
                    self.wfile.flush()
                    self.close_connection = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def bodies(self):
        return [body for _, _, body in self.requests]

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


_NUMBERS = itertools.count(1)  # clients take answers with the same id for one


def _pieces(text):
    size = max(7, len(text) // 500)
    return [text[at : at + size] for at in range(0, len(text), size)]


def _raw(call):
    return call.raw if call.raw or call.problem else json.dumps(call.args)


def anthropic_events(answer):
    usage = answer.usage
    stop = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "refusal": "refusal"}[
        answer.finish_reason
    ]
    start = {
        "input_tokens": usage.prompt_tokens - usage.cached - usage.cache_written,
        "output_tokens": 1,
        "cache_read_input_tokens": usage.cached,
        "cache_creation_input_tokens": usage.cache_written,
    }
    message = {
        "id": f"msg_{next(_NUMBERS)}",
        "type": "message",
        "role": "assistant",
        "model": "claude-test",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": start,
    }
    events = [("message_start", {"type": "message_start", "message": message}), ("ping", {"type": "ping"})]

    def block(first, deltas):
        index = sum(name == "content_block_start" for name, _ in events)
        events.append(("content_block_start", {"type": "content_block_start", "index": index, "content_block": first}))
        events.extend(
            ("content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}) for delta in deltas
        )
        events.append(("content_block_stop", {"type": "content_block_stop", "index": index}))

    for thought in answer.reasoning:
        if thought["type"] == "thinking":
            block(
                {"type": "thinking", "thinking": "", "signature": ""},
                [
                    *({"type": "thinking_delta", "thinking": piece} for piece in _pieces(thought["thinking"])),
                    {"type": "signature_delta", "signature": thought["signature"]},
                ],
            )
        else:
            block(thought, [])
    if answer.content:
        block(
            {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in _pieces(answer.content)]
        )
    for call in answer.tool_calls:
        block(
            {"type": "tool_use", "id": call.id, "name": call.name, "input": {}},
            [{"type": "input_json_delta", "partial_json": piece} for piece in _pieces(_raw(call))],
        )
    return [
        *events,
        (
            "message_delta",
            {
                "type": "message_delta",
                "delta": {"stop_reason": stop, "stop_sequence": None},
                "usage": {"output_tokens": usage.completion_tokens},
            },
        ),
        ("message_stop", {"type": "message_stop"}),
    ]


def chat_events(answer):
    def chunk(delta, finish=None, usage=None, choices=True):
        made = [{"index": 0, "delta": delta, "finish_reason": finish}] if choices else []
        return "", {
            "id": "c",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "chat-test",
            "choices": made,
            "usage": usage,
        }

    events = [chunk({"role": "assistant", "content": ""})]
    events += [chunk({"content": piece}) for piece in _pieces(answer.content)]
    for index, call in enumerate(answer.tool_calls):
        events.append(
            chunk(
                {
                    "tool_calls": [
                        {
                            "index": index,
                            "id": call.id,
                            "type": "function",
                            "function": {"name": call.name, "arguments": ""},
                        }
                    ]
                }
            )
        )
        events += [
            chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}) for piece in _pieces(_raw(call))
        ]
    stop = {"stop": "stop", "tool_calls": "tool_calls", "length": "length", "filter": "content_filter"}[
        answer.finish_reason
    ]
    usage = answer.usage
    told = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": usage.cache_written},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
    return [*events, chunk({}, stop), chunk({}, None, told, choices=False), ("", "[DONE]")]


def responses_events(answer):
    usage = answer.usage
    output = [dict(item) for item in answer.reasoning]
    if answer.content:
        output.append(
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": answer.content, "annotations": []}],
            }
        )
    output += [
        {
            "type": "function_call",
            "id": f"fc_{at}",
            "call_id": call.id,
            "name": call.name,
            "arguments": _raw(call),
            "status": "completed",
        }
        for at, call in enumerate(answer.tool_calls)
    ]
    is_cut = answer.finish_reason in ("length", "filter")
    response = {
        "id": "r",
        "object": "response",
        "created_at": 1,
        "model": "responses-test",
        "output": [],
        "status": "in_progress",
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": None,
        "incomplete_details": None,
    }
    reason = (
        {"reason": "content_filter" if answer.finish_reason == "filter" else "max_output_tokens"} if is_cut else None
    )
    whole = response | {
        "output": output,
        "status": "incomplete" if is_cut else "completed",
        "incomplete_details": reason,
        "usage": {
            "input_tokens": usage.prompt_tokens,
            "output_tokens": usage.completion_tokens,
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
            "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": usage.cache_written},
            "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        },
    }
    events = [("response.created", {"type": "response.created", "response": response, "sequence_number": 0})]
    number = 0
    for at, item in enumerate(output):
        number += 1
        events.append(
            (
                "response.output_item.added",
                {"type": "response.output_item.added", "output_index": at, "item": item, "sequence_number": number},
            )
        )
        if item["type"] == "message":
            for piece in _pieces(answer.content):
                number += 1
                events.append(
                    (
                        "response.output_text.delta",
                        {
                            "type": "response.output_text.delta",
                            "item_id": "msg_1",
                            "output_index": at,
                            "content_index": 0,
                            "delta": piece,
                            "logprobs": [],
                            "sequence_number": number,
                        },
                    )
                )
        number += 1
        events.append(
            (
                "response.output_item.done",
                {"type": "response.output_item.done", "output_index": at, "item": item, "sequence_number": number},
            )
        )
    kind = "response.incomplete" if is_cut else "response.completed"
    return [*events, (kind, {"type": kind, "response": whole, "sequence_number": number + 1})]


def gemini_events(answer):
    parts = [{"text": piece} for piece in _pieces(answer.content)]
    parts += [{"functionCall": {"id": call.id, "name": call.name, "args": call.args}} for call in answer.tool_calls]
    usage = answer.usage
    told = {
        "promptTokenCount": usage.prompt_tokens,
        "candidatesTokenCount": usage.completion_tokens,
        "totalTokenCount": usage.prompt_tokens + usage.completion_tokens,
        "cachedContentTokenCount": usage.cached,
    }
    events = [{"candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}]} for part in parts]
    events[-1]["candidates"][0]["finishReason"] = "STOP"
    events[-1]["usageMetadata"] = told
    return [("", {"modelVersion": "gemini-test", "responseId": "g", **event}) for event in events]


_FORMS = {
    "/messages": anthropic_events,
    "/chat/completions": chat_events,
    "/responses": responses_events,
    ":streamGenerateContent": gemini_events,
}
