"""The page of ``periplus run --monitor``: what it tells, whom it tells nothing, what a reader can cost, and how it is in a real browser."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request

import pytest
from tests.fake_provider import FakeProvider, Hanging
from tests.test_cli_run import MENDS, READS, says, shell, use  # noqa: F401 - shell is a fixture

from agent_support import Bench, tape
from browser_support import MISSING, Browser
from cli_support import SECRET
from periplus.agent.contracts import AssistantMessage, ToolCall, ToolResult, Usage
from periplus.agent.episodes import Answered, Ended, Requested, Resulted
from periplus.agent.events import AnswerCompleted, TextGrown
from periplus.agent.models.scripted import ScriptedClient, answer, call
from periplus.agent.persistence.run_log import StoreLog
from periplus.base.errors import EnvironmentFailure
from periplus.project import Project
from periplus.server.monitor import Desk, Monitor
from periplus.server.monitor.http_server import CONNECTIONS_MAX
from recorder_support import WRITER

HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">\u202edaeh\u2066\x1b[31m"
browser = pytest.mark.skipif(bool(MISSING), reason=MISSING)


class Place:
    """A store with a session in it, and the page that shows it."""

    def __init__(self, folder):
        self.root = folder / "project"
        self.root.mkdir(parents=True)
        self.folder = folder
        Project.init(os.fspath(self.root), store=os.fspath(self.root))
        self.project = Project(os.fspath(self.root / ".periplus"), WRITER)
        self.opened = contextlib.ExitStack()
        self.opened.callback(self.project.close)
        self.log = StoreLog(self.project, "s1", title="Oil the engine", model="scripted", checkpoints=False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.opened.close()

    def bench(self, script=(), **more):
        return Bench(self.folder, script, log=self.log, context=tape, **more)

    def show(self, **more):
        opening = lambda: Project(os.fspath(self.root / ".periplus"), WRITER)  # noqa: E731 - one line says it
        monitor = Monitor(
            Desk(
                opening, "s1", title=more.pop("title", "Oil the engine"), model="m", is_live=more.pop("is_live", False)
            ),
            **more,
        )
        self.opened.enter_context(monitor)
        return monitor


@pytest.fixture
def place(tmp_path):
    with Place(tmp_path) as made:
        yield made


def get(monitor, path="", *, headers=None, method="GET", url=None, **query):
    """Status, headers and body, whatever the answer is."""
    target = (url or monitor.url + path) + ("?" + urllib.parse.urlencode(query) if query else "")
    request = urllib.request.Request(target, headers=headers or {}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as done:
            return done.status, dict(done.headers), done.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read()


def told(monitor, path, **query):
    status, _, body = get(monitor, path, **query)
    assert status == 200, body
    return json.loads(body)


class Wiretap(ScriptedClient):
    def __init__(self, script):
        super().__init__(script)
        self.seen = []

    def stream(self, messages, tools):
        self.seen.append((list(tools), list(messages)))
        yield from super().stream(messages, tools)


def test_it_tells_every_request_as_it_was_sent_with_what_was_there_before(place):
    client = Wiretap([answer("I write.", call("write", path="a", content="x" * 5000)), "Done.", answer(HOSTILE)])
    bench = place.bench(client=client)
    bench.turn("First")
    bench.turn("Second " + HOSTILE)
    monitor = place.show()
    session = told(monitor, "api/session")
    keys = [(row["metrics"]["turn"], row["metrics"]["step"]) for row in session["steps"]]
    assert keys == [(1, 1), (1, 2), (2, 1)]
    assert session["steps"][0]["tools"] == ["write"]
    assert (session["cost"], session["phase"], session["left"]) == ("price not known", "idle", 0)
    for (turn, step), (tools, messages) in zip(keys, client.seen, strict=True):
        found = told(monitor, "api/step", turn=turn, step=step)
        assert [one["name"] for one in found["tools"]] == [one.name for one in tools]
        assert [json.loads(one["parameters"]) for one in found["tools"]] == [one.parameters for one in tools]
        assert [one["role"] for one in found["messages"]] == [one.role for one in messages]
        for one, message in zip(found["messages"], messages, strict=True):
            text = one["text"]
            while len(text) < len(text) + one["left"]:
                part = told(
                    monitor, "api/part", turn=turn, step=step, what="message", place=one["place"], start=len(text)
                )
                text, one["left"] = text + part["text"], part["left"]
            assert text == message.content
            assert [json.loads(asked["args"]) for asked in one["calls"]] == [asked.args for asked in message.tool_calls]
        assert found["as_sent"] is True
    first, second = (told(monitor, "api/step", turn=1, step=step) for step in (1, 2))
    assert {one["kept"] for one in first["messages"]} == {0}
    assert [one["kept"] for one in second["messages"]] == [-1] * len(first["messages"]) + [0, 0]
    (outcome,) = first["outcomes"]
    assert (outcome["call"]["name"], outcome["outcome"], outcome["effects"]) == ("write", "ok", ["a"])


def test_a_text_of_megabytes_comes_in_pieces_and_whole(place):
    text = "".join(f"{number:07}é\n" for number in range(90_000))
    bench = place.bench([answer("I see.", call("big")), "Done."])
    bench.host.more["big"] = lambda: ToolResult(outcome="ok", output=text)
    bench.turn("Look")
    kept = next(one for one in bench.log.read() if isinstance(one, Resulted)).result.output
    monitor = place.show()
    told(monitor, "api/session")
    status, _, body = get(monitor, "api/step", turn=1, step=1)
    assert (status, len(body) < 200_000) == (200, True)
    (outcome,) = json.loads(body)["outcomes"]
    found, left, asked = outcome["text"], outcome["left"], 0
    while left:
        part = told(monitor, "api/part", turn=1, step=1, what="output", place=0, start=len(found))
        found, left, asked = found + part["text"], part["left"], asked + 1
    assert found == kept
    assert asked == -(-(len(kept) - len(outcome["text"])) // 200_000)


def test_who_does_not_have_the_address_learns_nothing(place):
    place.bench(["Done."]).turn("A secret plan")
    monitor = place.show()
    port = urllib.parse.urlsplit(monitor.url).port
    own = f"127.0.0.1:{port}"
    refused = [
        (404, {"url": f"http://{own}/"}),
        (404, {"url": f"http://{own}/{'x' * 32}/api/session"}),
        (404, {"url": monitor.url.rstrip("/")}),
        (404, {"path": "api/session/.."}),
        (404, {"path": "../../etc/passwd"}),
        (404, {"path": "monitor.py"}),
        (403, {"path": "api/session", "headers": {"Host": f"evil.example:{port}"}}),
        (403, {"path": "api/session", "headers": {"Host": "127.0.0.1"}}),
        (403, {"path": "api/session", "headers": {"Origin": "http://evil.example"}}),
        (403, {"path": "api/session", "headers": {"Origin": "null"}}),
        (403, {"path": "api/session", "headers": {"Sec-Fetch-Site": "cross-site"}}),
        (403, {"path": "", "headers": {"Sec-Fetch-Site": "same-site"}}),
        (405, {"path": "api/session", "method": "POST"}),
        (405, {"path": "api/session", "method": "OPTIONS", "headers": {"Origin": f"http://{own}"}}),
        (405, {"path": "api/session", "headers": {"Content-Length": "5"}}),
        (405, {"path": "api/session", "headers": {"Transfer-Encoding": "chunked"}}),
    ]  # fmt: skip
    for code, how in refused:
        status, headers, body = get(monitor, **how)
        assert status == code, (how, status)
        assert b"secret" not in body
        assert not [name for name in headers if name.lower().startswith("access-control")]
    for path, kind in (
        ("", "text/html"),
        ("monitor.js", "text/javascript"),
        ("monitor.css", "text/css"),
        ("api/session", "application/json"),
    ):
        status, headers, body = get(monitor, path)
        assert (status, headers["Content-Type"].split(";")[0]) == (200, kind)
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self';")
        assert "unsafe" not in policy
        assert (headers["X-Content-Type-Options"], headers["Cache-Control"], headers["Referrer-Policy"]) == (
            "nosniff",
            "no-store",
            "no-referrer",
        )
        assert not [name for name in headers if name.lower().startswith("access-control")]
        assert not re.search(rb"https?://(?!www\.w3\.org/2000/svg)", body), "nothing comes from elsewhere"
    assert get(monitor, "", method="HEAD")[2] == b""
    assert len(urllib.parse.urlsplit(monitor.url).path.strip("/")) >= 32
    assert place.show().url.split("/")[3] != monitor.url.split("/")[3]


@pytest.mark.parametrize(
    ("path", "code", "wrong"),
    [
        ("api/step?turn=x", 400, "turn must be a number"),
        ("api/step?turn=-1&step=1", 400, "turn must be a number"),
        ("api/step?turn=1&step=99999999999999999999", 400, "step must be a number"),
        ("api/step?turn=7&step=1", 404, "no step 7.1"),
        ("api/part?turn=1&step=1&what=secrets", 400, "has no 'secrets'"),
        ("api/part?turn=1&step=1&what=output&place=9", 404, "no output 9"),
        ("api/part?turn=1&step=1&what=message&place=0&start=999999", 200, ""),
        ("api/session?first=999999", 200, ""),
        ("api/nothing", 404, "no such page"),
    ],
)
def test_a_wrong_question_is_answered(tmp_path, path, code, wrong):
    with Place(tmp_path) as place:
        place.bench(["Done."]).turn("First")
        monitor = place.show()
        told(monitor, "api/session")
        status, _, body = get(monitor, path)
        assert (status, wrong in body.decode()) == (code, True), body


@pytest.mark.parametrize(
    "head",
    [b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/1.1 x\r\n\r\n", b"GET / SPDY/3\r\n\r\n", b"GET x HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nHost\r\n\r\n",
     b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"\xff\xfe / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 5000 + b"\r\n", b"\x16\x03\x01\x02"],
    ids=range(10),
)  # fmt: skip
def test_what_is_no_request_is_hung_up_on(tmp_path, head):
    with Place(tmp_path) as place:
        place.bench(["Done."]).turn("First")
        monitor = place.show()
        port = urllib.parse.urlsplit(monitor.url).port
        with socket.create_connection(("127.0.0.1", port), timeout=30) as one, contextlib.suppress(ConnectionError):
            one.sendall(head)
            one.shutdown(socket.SHUT_WR)
            said = one.recv(1 << 16)
            assert said == b"" or said.startswith((b"HTTP/1.1 400", b"HTTP/1.1 403"))
        assert told(monitor, "api/session")["steps"]


@pytest.mark.slow
def test_a_hundred_slow_readers_keep_neither_the_run_nor_its_end(place):
    bench = place.bench([answer("I write.", call("write", path="a", content="x")), "Done."])
    monitor = place.show(is_live=True)
    parts = urllib.parse.urlsplit(monitor.url)
    with contextlib.ExitStack() as held:
        for number in range(100):
            one = held.enter_context(socket.create_connection(("127.0.0.1", parts.port), timeout=30))
            with contextlib.suppress(ConnectionError):  # the later ones are hung up on
                one.sendall(
                    f"GET {parts.path}events HTTP/1.1\r\nHost: {parts.netloc}\r\n{'' if number % 2 else chr(13) + chr(10)}".encode()
                )
        session = bench.session
        session._parts = session._parts._replace(emit=lambda event: (bench.events.append(event), monitor.tell(event)))
        assert session.turn("Go on").reason == "done"
        assert len(monitor._tasks) <= CONNECTIONS_MAX + 1
    monitor.close()
    monitor.tell(bench.events[-1])  # nobody listens: nothing happens
    assert not monitor._thread.is_alive()


@pytest.mark.slow
def test_a_reader_that_does_not_read_is_hung_up_on_and_the_others_are_served(place):
    text = "x" * 5_000_000
    bench = place.bench([answer(text), "Done."])
    bench.turn("Look")
    monitor = place.show(deadline_s=1.0)
    parts = urllib.parse.urlsplit(monitor.url)
    told(monitor, "api/session")
    lazy = socket.socket()
    with lazy:
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.connect(("127.0.0.1", parts.port))
        for _ in range(40):  # more than the buffers of both sides take
            with contextlib.suppress(ConnectionError):
                lazy.sendall(
                    f"GET {parts.path}api/part?turn=1&step=1&what=answer HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode()
                )
        assert told(monitor, "api/session")["steps"]
        done = threading.Event()
        for _ in range(300):
            if not monitor._tasks:
                break
            done.wait(0.1)
        assert not monitor._tasks, "nobody is held"


@pytest.mark.slow
def test_who_watches_is_told_that_something_is_new(place):
    bench = place.bench(["Done.", "Again."])
    bench.turn("First")
    monitor = place.show()
    request = urllib.request.Request(monitor.url + "events")
    with urllib.request.urlopen(request, timeout=60) as events:
        assert events.headers["Content-Type"] == "text/event-stream"

        def told_of(count):
            for line in events:
                if line.startswith(b"data: ") and len(told(monitor, "api/session")["steps"]) == count:
                    return True
            return False

        assert told_of(1)
        bench.turn("Second")  # another program's, for all that the page knows: it finds out by itself
        assert told_of(2)


def test_an_answer_that_grows_shows_no_secret_and_no_more_than_its_end(place):
    monitor = place.show(is_live=True, title=f"deploy with {SECRET}")
    told(monitor, "api/session")
    for piece in ("x" * 9_000, " The key is ", SECRET[:8], SECRET[8:], " and ", "so o"):
        monitor.tell(TextGrown(turn=1, step=1, text=piece))
        monitor.tell(TextGrown(turn=1, step=1, text="another's ", agent="s1/spy"))
        found = told(monitor, "api/session")
        assert SECRET[:8] not in found["growing"]
        assert SECRET not in found["title"]
        assert "another" not in found["growing"]
    assert found["growing"].endswith(" and so ")
    assert len(found["growing"]) <= 8_000
    monitor.tell(AnswerCompleted(turn=1, step=1, text="", calls=0, usage=Usage(), finish_reason="stop", latency_ms=1))
    assert told(monitor, "api/session")["growing"] == ""
    place.bench([answer(f"The key is {SECRET}", call("write", path="a", content=SECRET)), "Done."]).turn(
        f"Use {SECRET}"
    )
    for path in ("api/session", "api/step?turn=1&step=1", "api/step?turn=1&step=2"):
        assert SECRET.encode() not in get(monitor, path)[2]


def test_the_port_that_is_taken_is_told_and_nothing_is_left_behind(place):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(EnvironmentFailure, match="listen on"):
            place.show(port=taken.getsockname()[1])


def test_a_store_that_cannot_be_opened_is_said_on_the_page(tmp_path):
    with Monitor(Desk(lambda: Project(os.fspath(tmp_path / "none"), WRITER), "s1")) as monitor:
        found = told(monitor, "api/session")
        assert found["problem"]
        assert found["steps"] == []


def long_session(place, steps, turns):
    """Written at once: what a session of this length is in the store."""
    episodes = []
    for turn in range(1, turns + 1):
        episodes.append(Requested(turn=turn, text=f"Part {turn}"))
        for step in range(1, steps // turns + 1):
            made = (ToolCall(id=f"c{turn}.{step}", name="read", args={"path": f"f{step}.py"}),)
            usage = Usage(prompt_tokens=1000 + step, cached=900, completion_tokens=20, cost=100)
            episodes.append(
                Answered(
                    turn=turn,
                    step=step,
                    message=AssistantMessage(content=f"Step {turn}.{step}", tool_calls=made, usage=usage),
                )
            )
            episodes.append(
                Resulted(
                    turn=turn,
                    step=step,
                    call_id=made[0].id,
                    name="read",
                    result=ToolResult(outcome="ok", output=f"text {turn}.{step}\n" * 20),
                )
            )
        episodes.append(Ended(turn=turn, reason="done"))
    place.log.append(*episodes)


@pytest.mark.slow
def test_a_step_of_any_age_is_found_and_the_list_comes_in_pieces(place):
    long_session(place, 600, 60)
    monitor = place.show()
    first, rows = 0, []
    while True:
        found = told(monitor, "api/session", first=first)
        rows += found["steps"]
        first += len(found["steps"])
        if not found["left"]:
            break
    assert [(row["metrics"]["turn"], row["metrics"]["step"]) for row in rows] == [
        (1 + n // 10, 1 + n % 10) for n in range(600)
    ]
    assert found["totals"]["cost"] == 60_000
    for turn, step in ((1, 1), (31, 7), (60, 10)):
        seen = told(monitor, "api/step", turn=turn, step=step)
        assert seen["answer"] == f"Step {turn}.{step}"
        assert seen["outcomes"][0]["text"].startswith(f"text {turn}.{step}\n")


# -- the command line ------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def started(shell, *words):  # noqa: F811 - the fixture's value
    """A process of the command line, which does not outlive the test whatever happens."""
    how = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with shell.start(*words, **how) as process:
        try:
            yield process
        finally:
            process.kill()


def address(stream):
    for line in stream:
        found = re.search(r"http://127\.0\.0\.1:\d+/\S+/", line)
        if found:
            return found.group()
    raise AssertionError("no address was told")


@pytest.mark.slow
def test_a_run_is_shown_while_the_model_is_asked_and_the_request_is_the_providers(shell):  # noqa: F811 - the fixture
    pytest.importorskip("openai")
    hanging = Hanging()
    with FakeProvider(says("I look.", READS), says("Wrong.", MENDS), hanging) as fake:
        use(shell, fake)
        with started(shell, "run", "make it add", "--session", "one", "--monitor") as run:
            url = address(run.stderr)
            assert hanging.begun.wait(60)
            found = json.loads(get(None, url=url + "api/session")[2])
            assert found["is_live"]
            assert found["pending"] == [1, 3]
            sent = fake.bodies()[-1]
            step = json.loads(get(None, url=url + "api/step?turn=1&step=3")[2])
            assert [one["role"] for one in step["messages"]] == [one["role"] for one in sent["messages"]]
            assert [one["name"] for one in step["tools"]] == [one["function"]["name"] for one in sent["tools"]]
            outputs = [one["content"] for one in sent["messages"] if one["role"] == "tool"]
            assert [one["text"] for one in step["messages"] if one["role"] == "tool"] == outputs
            hanging.over.set()
            run.send_signal(signal.SIGINT)
            assert run.wait(60) == 130
    # What is over is shown from the store, by a program of its own.
    with started(shell, "run", "--monitor", "--session", "one", "--json") as look:
        out = json.loads(look.stdout.readline())
        assert (out["schema"], out["session"]) == ("periplus.run.monitor/1", "one")
        again = json.loads(get(None, url=out["url"] + "api/session")[2])
        assert len(again["steps"]) == 2
        assert not again["is_live"]
        look.send_signal(signal.SIGTERM)
        assert look.wait(60) == 0


# -- a real browser ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@browser
def test_hostile_texts_are_texts(tmp_path, place):
    bench = place.bench([answer(HOSTILE, call("write", path="<b>x</b>", content=HOSTILE)), HOSTILE])
    bench.turn(HOSTILE)
    monitor = place.show(title=HOSTILE)
    with Browser(tmp_path) as page:
        page.go(monitor.url)
        page.until("return document.body.dataset.shown === '1.2'")
        text = page.text()
        assert "<script>document.title='owned'</script>" in text
        assert page.run("return document.title") != "owned"
        assert (
            page.run("return document.querySelectorAll('article img, article script, article b > *, nav img').length")
            == 0
        )
        assert "⟦U+202E⟧daeh⟦U+2066⟧⟦U+001B⟧[31m" in text
        assert not set(text) & set("\u202e\u2066\x1b")
        assert page.complaints() == []
        # Nothing that got in could call home, nor read the page from elsewhere.
        page.run("fetch('http://127.0.0.1:9/').then(() => window.got = 'in', () => window.got = 'kept out')")
        page.until("return window.got === 'kept out'")
        page.run(
            "const one = document.createElement('script'); one.textContent = 'window.ran = 1'; document.body.append(one)"
        )
        assert page.run("return window.ran === undefined")


@pytest.mark.slow
@browser
@pytest.mark.parametrize(
    ("width", "dark"), [(1280, False), (1280, True), (360, False)], ids=["light", "dark", "narrow"]
)
def test_it_can_be_read_and_used_by_the_keyboard(tmp_path, width, dark):
    with Place(tmp_path / "place") as place:
        bench = place.bench([answer("I look.", call("read", path="none")), "Done.", "x" * 3000])
        bench.turn("First, " + "a long request " * 20)
        bench.turn("Second")
        monitor = place.show()
        with Browser(tmp_path, width=width, dark=dark) as page:
            page.go(monitor.url)
            page.until("return document.body.dataset.shown === '2.1'")
            assert page.run("return document.documentElement.scrollWidth") <= width
            assert page.run("return matchMedia('(prefers-color-scheme: dark)').matches") is dark
            page.run("document.querySelector('.step[tabindex=\"0\"]').focus()")
            assert page.run("return document.querySelectorAll('.step[tabindex=\"0\"]').length") == 1
            page.keys("\ue011")  # Home
            page.keys("\ue015")  # down
            assert page.run("return document.activeElement.dataset.key") == "1.2"
            page.keys("\ue013\ue007")  # up, Enter
            page.until("return document.body.dataset.shown === '1.1'")
            assert page.run("return document.querySelector('[aria-current]').dataset.key") == "1.1"
            assert "1 failed" in page.text("nav")
            # Words stand out from what is behind them (WCAG 2: 4.5 to 1).
            for selector in (
                "body",
                ".hint",
                "dt",
                ".step .cost",
                ".failed",
                ".message .head",
                ".message pre",
                ".pill",
                "#about",
                ".kept pre",
            ):
                assert page.run(CONTRAST, selector) >= 4.5, selector
            names = page.run(
                "return [...document.querySelectorAll('button, input, summary, nav, article, svg')].filter(one => !(one.textContent.trim() || one.getAttribute('aria-label') || one.labels?.length)).length"
            )
            assert names == 0, "everything that can be used has a name"
            assert page.complaints() == []


CONTRAST = """
const one = document.querySelector(arguments[0]);
if (!one) return 21;
const parts = (text) => text.match(/[\\d.]+/g).map(Number);
let behind = one, back = [0, 0, 0, 0];
while (behind && (back.length === 4 && back[3] === 0)) { back = parts(getComputedStyle(behind).backgroundColor); behind = behind.parentElement; }
const light = (color) => { const [r, g, b] = color.map((c) => { c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const [a, b] = [light(parts(getComputedStyle(one).color)), light(back)];
return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
"""


@pytest.mark.slow
@browser
def test_what_happens_is_followed_as_it_happens_and_the_end_is_told(tmp_path, place):
    asked, go_on = threading.Event(), threading.Event()

    def second(_messages, _tools):
        asked.set()
        assert go_on.wait(60)
        return answer("It is oiled.")

    bench = place.bench([answer("I look.", call("write", path="a", content="x")), "One.", second])
    monitor = place.show(is_live=True)
    bench.session._parts = bench.session._parts._replace(emit=monitor.tell)
    bench.turn("First")
    with Browser(tmp_path) as page:
        page.go(monitor.url)
        page.until("return document.body.dataset.shown === '1.2'")
        assert page.run("return document.getElementById('follow').checked")
        # The store belongs to the thread that opened it: the browser is driven by another.
        seen = []

        def look():
            assert asked.wait(60)
            seen.append(
                page.until(
                    "return document.body.dataset.shown === '2.1' && document.getElementById('detail').innerText.includes('No answer yet')"
                )
            )
            go_on.set()

        looking = threading.Thread(target=look)
        looking.start()
        bench.turn("Second")
        looking.join()
        assert seen == [True]
        page.until("return document.getElementById('detail').innerText.includes('It is oiled.')")
        monitor.close()
        page.until("return document.getElementById('state').innerText === 'the program has ended'")
        assert "It is oiled." in page.text("#detail"), "what was loaded stays"


@pytest.mark.slow
@browser
def test_two_thousand_steps_and_a_text_of_megabytes_are_shown(tmp_path, place):
    long_session(place, 2000, 50)
    text = "".join(f"line {number:06}\n" for number in range(400_000))
    place.log.append(
        Requested(turn=51, text="Big"),
        Answered(
            turn=51, step=1, message=AssistantMessage(content=text, usage=Usage(prompt_tokens=1, completion_tokens=1))
        ),
        Ended(turn=51, reason="done"),
    )
    monitor = place.show()
    with Browser(tmp_path) as page:
        page.go(monitor.url)
        page.until("return document.body.dataset.steps === '2001'")
        page.until("return document.body.dataset.shown === '51.1'")
        assert page.run("return document.querySelectorAll('svg rect').length") <= 3 * 120
        before = page.run("return document.querySelector('.message.output pre').textContent.length")
        assert before < 20_000
        page.click(".message.output .more")
        page.until("return document.querySelector('.message.output pre').textContent.length > arguments[0]", before)
        found = page.run("return document.querySelector('.message.output pre').textContent")
        assert found == text[: len(found)]
        page.run("document.querySelector('.step[data-key=\"1.1\"]').click()")
        page.until("return document.body.dataset.shown === '1.1'")
        assert "Step 1.1" in page.text("#detail")
        assert page.complaints() == []
