"""The published peer, driven by the same kind of editing session over a provider on loopback that speaks its wire format.

It runs as its user would run it: its own command, tasks on standard input, a home of its own. Nothing of it is
imported. The model behind it makes for each task the same moves as that of ``agent_tape``: search, read, replace, read again, answer.
"""

from __future__ import annotations

__all__ = ["PeerRun", "find_peer", "run_peer"]

import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, NamedTuple

from periplus.agent.tape.prefix_survival import common_length

_TIMEOUT_S: Final = 600


class PeerRun(NamedTuple):
    """``between`` are the survivals at the boundaries of turns; ``floor`` the characters of prompt and tools; CPU in seconds."""

    between: list[float]
    largest: int
    floor: int
    cpu_s: float
    edits: int


def find_peer() -> str:
    """The command of the peer: named by ``PERIPLUS_BENCH_PEER``, or found on the path; empty where it is not installed."""
    return os.environ.get("PERIPLUS_BENCH_PEER", "") or shutil.which("sliceagent") or ""


def run_peer(
    command: str, folder: str, turns: int, source: Callable[[int], str], files: int, functions: int
) -> PeerRun:
    home, work = os.path.join(folder, "home"), os.path.join(folder, "work")
    os.makedirs(os.path.join(work, "src"))
    os.makedirs(home)
    for number in range(files):
        with open(os.path.join(work, "src", f"part{number}.py"), "w", encoding="utf-8") as file:
            file.write(source(number))
    with open(os.path.join(work, "pyproject.toml"), "w", encoding="utf-8") as file:
        file.write("[project]\nname = 'parts'\nversion = '1'\n")
    model = _Model(work, files, functions)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(model))
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "HOME": home,
        "TERM": "dumb",
        "LLM_API_KEY": "none",
        "LLM_BASE_URL": f"http://127.0.0.1:{server.server_port}/v1",
        "AGENT_MODEL": "bench",
        "AGENT_TUI": "off",
        "AGENT_WEB": "off",
    }
    asked = "".join(
        f"In part {n % files} make step {n % functions} add {1000 + n}, and keep its name.\n"
        for n in range(1, turns + 1)
    )
    before = os.times()
    try:
        subprocess.run([command], cwd=work, env=environment, input=f"{asked}exit\n", text=True, capture_output=True,
                       timeout=_TIMEOUT_S, check=True)  # fmt: skip
    finally:
        server.shutdown()
        server.server_close()
        serving.join()
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return PeerRun(model.between, model.largest, model.floor, cpu, _edits_in(os.path.join(work, "src")))


def _edits_in(folder: str) -> int:
    """How many of the changes that were asked for lie in the files: a peer that was driven wrongly has made none."""
    texts = []
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            texts.append(file.read())
    return sum(len(re.findall(r"total = value \+ 1\d\d\d\b", text)) for text in texts)


class _Model:
    """Answers requests, and measures them as ``PrefixMeter`` does ours: tools, then messages, a line of JSON each."""

    def __init__(self, work: str, files: int, functions: int) -> None:
        self._work, self._files, self._functions = work, files, functions
        self._last = b""
        self._turn = 0
        self.between: list[float] = []
        self.largest = self.floor = 0

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        tools, messages = request.get("tools") or [], request["messages"]
        if not tools:
            return {"role": "assistant", "content": "A small change"}  # a title, or another side question
        lines = b"".join(json.dumps(one).encode() + b"\n" for one in (*tools, *messages))
        last = max(place for place, one in enumerate(messages) if one["role"] == "user")
        step = sum(one["role"] == "assistant" for one in messages[last:]) + 1
        if step == 1:
            self._turn += 1
            if self._last:
                self.between.append(common_length(lines, self._last) / len(self._last))
        self._last = lines
        self.largest = max(self.largest, len(lines))
        self.floor = sum(len(json.dumps(one)) for one in tools) + sum(
            len(str(one["content"])) for one in messages if one["role"] == "system"
        )
        return self._move(step)

    def _move(self, step: int) -> dict[str, Any]:
        path, name = f"src/part{self._turn % self._files}.py", f"step_{self._turn % self._functions}"
        moves: dict[int, tuple[str, Callable[[], dict[str, Any]]]] = {
            1: ("grep", lambda: {"pattern": f"def {name}\\(", "path": "src"}),
            2: ("read_file", lambda: {"path": path}),
            3: ("str_replace", lambda: self._edit(path, name)),
            4: ("read_file", lambda: {"path": path, "offset": 1 + 9 * (self._turn % self._functions), "limit": 20}),
        }
        if step not in moves:
            return {
                "role": "assistant",
                "content": f"{name} in {path} adds {1000 + self._turn} now; I read it again and it stands.",
            }
        tool, args = moves[step]
        call = {
            "id": f"call_{self._turn}_{step}",
            "type": "function",
            "function": {"name": tool, "arguments": json.dumps(args())},
        }
        return {"role": "assistant", "content": f"Step {step}: {tool}.", "tool_calls": [call]}

    def _edit(self, path: str, name: str) -> dict[str, Any]:
        with open(os.path.join(self._work, path), encoding="utf-8") as file:
            text = file.read()
        at = text.index(f"def {name}(")
        begin = text.index("    total = ", at)
        line = text[begin : text.index("\n", begin)]
        old = text[at : begin + len(line)]
        return {
            "path": path,
            "old_string": old,
            "new_string": old.replace(line, f"    total = value + {1000 + self._turn}"),
        }


def _handler(model: _Model) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass  # the table is what is read

        def do_GET(self) -> None:
            self._whole({"object": "list", "data": [{"id": "bench", "object": "model"}]})

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            message = model.answer(request)
            reason = "tool_calls" if "tool_calls" in message else "stop"
            usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
            head = {"id": "x", "created": 1, "model": "bench"}
            if not request.get("stream"):
                choice = {"index": 0, "message": message, "finish_reason": reason}
                self._whole({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
                return
            delta = {
                **message,
                "tool_calls": [{"index": place, **one} for place, one in enumerate(message.get("tool_calls", []))],
            }
            head["object"] = "chat.completion.chunk"
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            for choices in (
                [{"index": 0, "delta": delta, "finish_reason": None}],
                [{"index": 0, "delta": {}, "finish_reason": reason}],
            ):
                self._event({**head, "choices": choices})
            self._event({**head, "choices": [], "usage": usage})
            self.wfile.write(b"data: [DONE]\n\n")
            self.close_connection = True

        def _event(self, value: dict[str, Any]) -> None:
            self.wfile.write(b"data: " + json.dumps(value).encode() + b"\n\n")

        def _whole(self, value: dict[str, Any]) -> None:
            data = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler
