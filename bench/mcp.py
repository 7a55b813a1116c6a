"""The MCP server as a client feels it: from its start to the first answer, to the first call, and a call after that; beside a server
of one trivial tool on the SDK alone.
"""

from __future__ import annotations

__all__ = ["measure"]

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from bench.measure import Bench, Row, figure, in_turn, row
from bench.processes import environment, periplus_command
from bench.recall import memory_store
from bench.samples import Texts

_BARE: Final = """
import asyncio, mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
async def listed(context, params):
    return types.ListToolsResult(tools=[types.Tool(name="recall", input_schema={"type": "object"})])
async def called(context, params):
    return types.CallToolResult(content=[types.TextContent(type="text", text="nothing")])
async def main():
    server = Server("bare", on_list_tools=listed, on_call_tool=called)
    async with stdio_server() as (reads, writes):
        await server.run(reads, writes, server.create_initialization_options())
asyncio.run(main())
"""
_HELLO: Final = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
_CALLS: Final = 30


class Felt(NamedTuple):
    """``ready`` has the tools listed, ``first`` is that and a call at once, in ms since the start; ``call`` the median of those after."""

    ready: float
    first: float
    call: float
    rss_mb: float


def measure(bench: Bench) -> Iterator[Row]:
    texts = Texts(11)
    bodies = [texts.memory() for _ in range(bench.size(10_000, 100))]
    root = memory_store(os.path.join(bench.folder, "mcp", ".periplus"), bodies, bench.say)
    questions = [texts.question(body) for body in bodies[:_CALLS]]
    sides = {
        "periplus mcp": partial(_felt, [*periplus_command(), "mcp", "--store", root], questions),
        "bare SDK": partial(_felt, [sys.executable, "-c", _BARE], questions),
    }
    rounds = bench.size(9, 1)
    bench.say(f"{rounds} rounds")
    found = in_turn(rounds, sides, collect=False)
    for what, index, unit in (
        ("start to tools/list", 0, "ms"), ("start to the first answer of a tool", 1, "ms"),
        (f"recall among {len(bodies):,}, p50", 2, "ms"), ("resident after 30 calls", 3, "MB"),
    ):  # fmt: skip
        mine, theirs = (figure([one[index] for one in found[name]]) for name in sides)
        yield row("mcp", what, unit, mine, "bare SDK server, one tool", theirs)


def _felt(argv: list[str], questions: list[str]) -> Felt:
    begun = time.perf_counter()
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment()
    ) as process:
        try:
            _ask(process, 0, "initialize", _HELLO)
            _send(process, {"jsonrpc": "2.0", "method": "notifications/initialized"})
            _ask(process, 1, "tools/list", None)
            ready = time.perf_counter() - begun
            _ask(process, 2, "tools/call", {"name": "recall", "arguments": {"question": questions[0]}})
            first = time.perf_counter() - begun
            spent = []
            for number, question in enumerate(questions, 3):
                before = time.perf_counter()
                _ask(process, number, "tools/call", {"name": "recall", "arguments": {"question": question}})
                spent.append(time.perf_counter() - before)
            return Felt(ready * 1e3, first * 1e3, sorted(spent)[len(spent) // 2] * 1e3, _resident_mb(process.pid))
        finally:
            assert process.stdin is not None
            process.stdin.close()


def _send(process: subprocess.Popen[bytes], message: dict[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(message).encode() + b"\n")
    process.stdin.flush()


def _ask(process: subprocess.Popen[bytes], number: int, method: str, params: dict[str, Any] | None) -> None:
    _send(process, {"jsonrpc": "2.0", "id": number, "method": method, **({} if params is None else {"params": params})})
    assert process.stdout is not None
    answer = json.loads(process.stdout.readline())
    if answer["id"] != number or "error" in answer or answer["result"].get("isError"):
        raise RuntimeError(f"{method} was answered with {answer}")


def _resident_mb(pid: int) -> float:
    """Linux tells; elsewhere one is given, so that the row stands."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    except OSError:
        return 1.0
