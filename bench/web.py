"""The page as a browser feels it: from the start of the server to the first page, then each page of a store, beside a server of one
fixed page on the same libraries. PERIPLUS_BENCH_STORE names a project whose store is asked instead of one that is made.
"""

from __future__ import annotations

__all__ = ["measure"]

import http.client
import json
import os
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Iterator
from functools import partial
from statistics import median
from typing import Final, NamedTuple

from bench.measure import Bench, Row, figure, in_turn, row
from bench.processes import environment, periplus_command
from bench.recall import memory_store
from bench.samples import Texts

_BARE: Final = """
import asyncio, json, socket
import uvicorn
from jinja2 import Environment
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Route
template = Environment(autoescape=True).from_string("<!doctype html><title>{{ name }}</title>{% for one in rows %}<p>{{ one }}</p>{% endfor %}")
async def page(request):
    return HTMLResponse(template.render(name="bare", rows=range(200)))
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
listener.bind(("127.0.0.1", 0))
listener.listen()
print(json.dumps({"url": f"http://127.0.0.1:{listener.getsockname()[1]}/open/x"}), flush=True)
app = Starlette(routes=[Route("/{path:path}", page)])
asyncio.run(uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off")).serve(sockets=[listener]))
"""
_PAGES: Final = ("/", "/memory", "/memory?q=", "/sessions", "/journal", "/work", "/code", "/contexts", "/health")
_TIMES: Final = 7


class Felt(NamedTuple):
    """``first_ms`` is from the start to the first page; ``byte_ms`` and ``page_ms`` are of each page, in the order of ``_PAGES``."""

    first_ms: float
    byte_ms: tuple[float, ...]
    page_ms: tuple[float, ...]
    rss_mb: float


def measure(bench: Bench) -> Iterator[Row]:
    texts = Texts(17)
    given = os.environ.get("PERIPLUS_BENCH_STORE", "")
    bodies = [texts.memory() for _ in range(bench.size(10_000, 100))]
    root = given or memory_store(os.path.join(bench.folder, "web", ".periplus"), bodies, bench.say)
    pages = tuple(
        page + urllib.parse.quote(texts.question(bodies[0])) if page.endswith("=") else page for page in _PAGES
    )
    sides = {
        "periplus web": partial(_felt, [*periplus_command(), "web", "--json", "--store", root], pages),
        "bare server": partial(_felt, [sys.executable, "-c", _BARE], pages),
    }
    rounds = bench.size(5, 1)
    bench.say(f"{rounds} rounds over {given or f'{len(bodies):,} memories'}")
    found = in_turn(rounds, sides, collect=False)
    ours, bare = found["periplus web"], found["bare server"]
    name = "bare server, one page"
    yield row(
        "web",
        "start to the first page",
        "ms",
        figure([one.first_ms for one in ours]),
        name,
        figure([one.first_ms for one in bare]),
    )
    for number, page in enumerate(_PAGES):
        for what, field in (("first byte", 1), ("whole", 2)):
            mine, theirs = (figure([one[field][number] for one in side]) for side in (ours, bare))
            yield row("web", f"{page}, {what}", "ms", mine, name, theirs)
    yield row(
        "web",
        "resident after all pages",
        "MB",
        figure([one.rss_mb for one in ours]),
        name,
        figure([one.rss_mb for one in bare]),
    )


def _felt(argv: list[str], pages: tuple[str, ...]) -> Felt:
    begun = time.perf_counter()
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment()) as process:
        try:
            assert process.stdout is not None
            address = urllib.parse.urlsplit(json.loads(process.stdout.readline())["url"])
            connection = http.client.HTTPConnection("127.0.0.1", address.port or 80, timeout=120)
            connection.request("GET", address.path)
            entered = connection.getresponse()
            entered.read()
            headers = {"Cookie": (entered.getheader("set-cookie") or "").partition(";")[0]}
            _ask(connection, "/", headers)
            first = time.perf_counter() - begun
            spent = [[_ask(connection, page, headers) for _ in range(_TIMES)] for page in pages]
            connection.close()
            byte, whole = (tuple(median(one[index] for one in page) * 1e3 for page in spent) for index in (0, 1))
            return Felt(first * 1e3, byte, whole, _resident_mb(process.pid))
        finally:
            process.terminate()


def _ask(connection: http.client.HTTPConnection, page: str, headers: dict[str, str]) -> tuple[float, float]:
    """Return the seconds until the first byte of a page, and until its last."""
    begun = time.perf_counter()
    connection.request("GET", page, headers=headers)
    answer = connection.getresponse()
    first = time.perf_counter() - begun
    answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{page} was answered with {answer.status}")
    return first, time.perf_counter() - begun


def _resident_mb(pid: int) -> float:
    """Linux tells; elsewhere one is given, so that the row stands."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    except OSError:
        return 1.0
