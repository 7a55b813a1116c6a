"""The page of a session of our own agent: every request as it was sent, its cost, and the answer while it grows."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.parse

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
from periplus.base.errors import NotFoundError, UsageError
from periplus.journal import Writer
from periplus.project import Project
from periplus.web.pages.run.growing_answer import GrowingAnswer
from periplus.web.pages.run.session import STEPS_SHOWN, run
from periplus.web.pages.run.session_reader import READERS_MAX, SessionReader, SessionReaders
from periplus.web.pages.run.step_values import MESSAGES_SHOWN, PART_CHARACTERS
from periplus.web.pages.run.token_chart import BARS_MAX
from web_support import Site, asked, context

HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">\u202edaeh\u2066\x1b[31m"
browser = pytest.mark.skipif(bool(MISSING), reason=MISSING)


class Place:
    """A store with a session in it, and the page that shows it."""

    def __init__(self, folder, title="Oil the engine"):
        self.folder, self.root = folder, folder / "project"
        self.root.mkdir(parents=True)
        self.store = Project.init(os.fspath(self.root), store=os.fspath(self.root)).root
        self.opened = contextlib.ExitStack()
        writer = Writer.named("ada", session="s1")
        self.project = self.opened.enter_context(Project(self.store, writer))
        self.log = StoreLog(self.project, "s1", title=title, model="scripted", checkpoints=False)
        self.reader = SessionReader("s1")

    def bench(self, script=(), **more):
        return Bench(self.folder, script, log=self.log, context=tape, **more)

    def serve(self, *, is_live=False, **more):
        growing = GrowingAnswer("s1") if is_live else None
        return self.opened.enter_context(Site(self.root, run=growing, is_read_only=True, **more))

    def page(self, **query):
        """The values of the page, from its function alone."""
        kept = query.pop("context", None) or context()
        question = asked(self.project, "/run/s1", {"session": query.pop("session", "s1")}, **query)._replace(
            context=kept
        )
        return run(question).values

    def step(self, turn, step):
        self.reader.refresh(self.project)
        return self.reader.step(self.project, turn, step)

    def whole(self, turn, step, text):
        """A text of a step with the pieces that the page leaves to be asked for."""
        found, left = text.kept + text.fresh, text.left
        while left:
            part = self.reader.part(self.project, turn, step, text.what, text.place, len(found))
            found, left = found + part.text, part.left
        return found


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path)
    with made.opened:
        yield made


class Wiretap(ScriptedClient):
    def __init__(self, script):
        super().__init__(script)
        self.seen = []

    def stream(self, messages, tools):
        self.seen.append((list(tools), list(messages)))
        yield from super().stream(messages, tools)


def long_session(place, steps, turns):
    """Written at once: what a session of this length is in the store."""
    episodes = []
    for turn in range(1, turns + 1):
        episodes.append(Requested(turn=turn, text=f"Part {turn}"))
        for step in range(1, steps // turns + 1):
            made = (ToolCall(id=f"c{turn}.{step}", name="read", args={"path": f"f{step}.py"}),)
            usage = Usage(prompt_tokens=1000 + step, cached=900, completion_tokens=20, cost=100)
            message = AssistantMessage(content=f"Step {turn}.{step}", tool_calls=made, usage=usage)
            result = ToolResult(outcome="ok", output=f"text {turn}.{step}\n" * 20)
            episodes.append(Answered(turn=turn, step=step, message=message))
            episodes.append(Resulted(turn=turn, step=step, call_id=made[0].id, name="read", result=result))
        episodes.append(Ended(turn=turn, reason="done"))
    place.log.append(*episodes)


# -- the values ------------------------------------------------------------------------------------------------------------


def test_it_has_every_request_as_it_was_sent_with_what_was_there_before(place):
    client = Wiretap([answer("I write.", call("write", path="a", content="x" * 5000)), "Done.", answer(HOSTILE)])
    bench = place.bench(client=client)
    bench.turn("First")
    bench.turn("Second " + HOSTILE)
    page = place.page()["page"]
    keys = [(turn.turn, row.metrics.step) for turn in page.session.turns for row in turn.steps]
    assert keys == [(1, 1), (1, 2), (2, 1)]
    assert page.session.turns[0].steps[0].tools == ("write",)
    assert (page.session.cost, page.state, page.session.title, page.session.model) == (
        "price not known",
        "from the store",
        "Oil the engine",
        "scripted",
    )
    for (turn, step), (tools, messages) in zip(keys, client.seen, strict=True):
        found = place.step(turn, step)
        assert [one.name for one in found.tools] == [one.name for one in tools]
        assert [json.loads(one.parameters) for one in found.tools] == [one.parameters for one in tools]
        assert [one.role for one in found.messages] == [one.role for one in messages]
        for one, message in zip(found.messages, messages, strict=True):
            assert place.whole(turn, step, one.text) == message.content
            assert [json.loads(place.whole(turn, step, asked.args)) for asked in one.calls] == [
                asked.args for asked in message.tool_calls
            ]
        assert found.as_sent is True
    first, second = place.step(1, 1), place.step(1, 2)
    assert (first.is_first, first.kept, second.is_first, second.kept) == (True, 0, False, len(first.messages))
    assert [one.is_kept for one in second.messages] == [True] * len(first.messages) + [False, False]
    (outcome,) = first.outcomes
    assert (outcome.call.name, outcome.outcome, outcome.effects) == ("write", "ok", ("a",))


def test_a_text_of_megabytes_comes_in_pieces_and_whole(place):
    text = "".join(f"{number:07}é\n" for number in range(90_000))
    bench = place.bench([answer("I see.", call("big")), "Done."])
    bench.host.more["big"] = lambda: ToolResult(outcome="ok", output=text)
    bench.turn("Look")
    kept = next(one for one in bench.log.read() if isinstance(one, Resulted)).result.output
    (outcome,) = place.step(1, 1).outcomes
    assert len(outcome.text.fresh) < 20_000
    assert place.whole(1, 1, outcome.text) == kept
    site = place.serve()
    page = site.get("/run/s1?step=1.1")
    assert (page.status, len(page.body) < 100_000) == (200, True)
    start = outcome.text.start
    more = next(link for link in page.page.links() if "what=output" in link)
    part = site.get(more)
    assert part.status == 200
    (shown,) = part.page.all("pre", id="text")
    assert shown.text == kept[start : start + PART_CHARACTERS]
    assert any(f"start={start + PART_CHARACTERS}" in link for link in part.page.links())


def test_a_step_of_any_age_is_found_and_the_list_comes_in_pages(place):
    long_session(place, 600, 60)
    rows, first, kept = [], 0, context()
    while first < 600:
        held = place.page(**{"from": first}, context=kept)["page"].session
        rows += [(turn.turn, row.metrics.step) for turn in held.turns for row in turn.steps]
        assert held.end - held.first == STEPS_SHOWN
        first = held.end
    assert rows == [(1 + n // 10, 1 + n % 10) for n in range(600)]
    assert held.totals.cost == 60_000
    for turn, step in ((1, 1), (31, 7), (60, 10)):
        values = place.page(step=f"{turn}.{step}", context=kept)["page"]
        assert place.whole(turn, step, values.step.answer) == f"Step {turn}.{step}"
        assert values.step.outcomes[0].text.fresh.startswith(f"text {turn}.{step}\n")
        assert (turn, step) in [(one.turn, row.metrics.step) for one in values.session.turns for row in one.steps]
    newest = place.page(context=kept)["page"]
    assert (newest.chosen, newest.is_followed) == ((60, 10), True)
    assert len(newest.chart.bars) == 3 * BARS_MAX


def test_a_request_of_many_messages_is_shown_in_pages(place):
    long_session(place, 100, 1)
    kept = context()
    newest = place.page(context=kept)["page"].step
    assert (newest.total, newest.first, len(newest.messages)) == (1 + 2 * 99 + 1, 200 - MESSAGES_SHOWN, MESSAGES_SHOWN)
    found = []
    for earlier in range(-(-newest.total // MESSAGES_SHOWN)):
        found[:0] = place.page(step="1.100", earlier=earlier, context=kept)["page"].step.messages
    assert [one.text.place for one in found] == list(range(newest.total))
    answers = [one for one in found if one.calls]
    for number, one in enumerate(answers):
        assert one.calls[0].args.place == number, "the rest of its arguments is found by this number"
    assert place.page(step="1.100", earlier=99, context=kept)["page"].step.messages == ()
    site = place.serve()
    page = site.get("/run/s1?step=1.100")
    assert len(page.body) < 200_000
    assert any("earlier=1" in link for link in page.page.links())


@pytest.mark.parametrize(
    ("query", "error", "said"),
    [
        ({"step": "x"}, UsageError, "must be TURN.STEP"),
        ({"step": "-1.1"}, UsageError, "must be TURN.STEP"),
        ({"step": "1.99999999999999999999"}, UsageError, "must be TURN.STEP"),
        ({"step": "1.\u0661"}, UsageError, "must be TURN.STEP"),
        ({"step": "7.1"}, NotFoundError, "no step 7.1"),
        ({"from": "x"}, UsageError, "must be a whole number"),
        ({"what": "output"}, UsageError, "must be TURN.STEP"),
        ({"step": "1.1", "what": "secrets"}, UsageError, "has no 'secrets'"),
        ({"step": "1.1", "what": "output", "place": "9"}, NotFoundError, "no output 9"),
        ({"session": "nobody"}, NotFoundError, "the agent has no session 'nobody'"),
    ],
)
def test_a_wrong_question_is_answered(tmp_path, query, error, said):
    place = Place(tmp_path)
    with place.opened:
        place.bench(["Done."]).turn("First")
        with pytest.raises(error, match=re.escape(said)):
            place.page(**query)
        assert place.page(**{"from": 999_999})["page"].session.end == 1
        assert place.page(step="1.1", what="message", place=0, start=999_999)["part"].text == ""


def test_readers_are_kept_and_bounded(place):
    place.bench(["Done."]).turn("First")
    readers = SessionReaders()
    first = readers.reader(place.project.journal.lineage, "s1")
    assert first.refresh(place.project)
    assert readers.reader(place.project.journal.lineage, "s1") is first
    for number in range(READERS_MAX):
        readers.reader(place.project.journal.lineage, f"other {number}")
    assert readers.reader(place.project.journal.lineage, "s1") is not first


def test_threads_with_projects_of_their_own_share_a_reader(place):
    long_session(place, 100, 10)
    failed = []

    def look():
        with Project(place.store, Writer.named("eve")) as project:
            for step in range(1, 11):
                place.reader.refresh(project)
                if place.reader.step(project, 5, step).answer.fresh != f"Step 5.{step}":
                    failed.append(step)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert place.reader.overview(STEPS_SHOWN, None, None).total == 100, "no episode is counted twice"


def test_an_answer_that_grows_shows_no_secret_and_no_more_than_its_end(tmp_path):
    place = Place(tmp_path, title=f"deploy with {SECRET}")
    with place.opened:
        growing = GrowingAnswer("s1")
        for piece in ("x" * 9_000, " The key is ", SECRET[:8], SECRET[8:], " and ", "so o"):
            growing.take(TextGrown(turn=1, step=1, text=piece))
            growing.take(TextGrown(turn=1, step=1, text="another's ", agent="s1/spy"))
            assert SECRET[:8] not in growing.growing_text()
            assert "another" not in growing.growing_text()
        assert growing.growing_text().endswith(" and so ")
        assert len(growing.growing_text()) <= 8_000
        growing.take(
            AnswerCompleted(turn=1, step=1, text="", calls=0, usage=Usage(), finish_reason="stop", latency_ms=1)
        )
        assert growing.growing_text() == ""
        place.bench([answer(f"The key is {SECRET}", call("write", path="a", content=SECRET)), "Done."]).turn(
            f"Use {SECRET}"
        )
        site = place.serve(is_live=True)
        for path in ("/run/s1", "/run/s1?step=1.1", "/run/s1?step=1.2"):
            page = site.get(path)
            assert page.status == 200
            assert SECRET not in page.html


def test_a_live_session_without_a_record_has_a_page(place):
    site = place.serve(is_live=True)
    page = site.get("/run/s1")
    assert (page.status, "No step yet" in page.text) == (200, True)
    assert site.get("/run/another").status == 404


# -- the page --------------------------------------------------------------------------------------------------------------


def test_the_address_leads_to_the_page_once_and_to_no_other_site(place):
    place.bench(["Done."]).turn("A secret plan")
    site = place.serve()
    for target, leads in (
        ("/run/s1", "/run/s1"),
        ("//evil.example/", "/evil.example/"),
        ("/\\evil.example", "/%5Cevil.example"),
    ):
        path = urllib.parse.urlsplit(site.server.address(target)).path
        entered = site.ask("GET", path, with_cookie=False)
        assert (entered.status, entered.location) == (303, leads)
        again = site.ask("GET", path, with_cookie=False)
        assert (again.status, b"secret" in again.body) == (403, False)
    refused = site.ask("GET", "/run/s1", with_cookie=False)
    assert (refused.status, b"secret" in refused.body) == (403, False)
    assert "A secret plan" in site.get("/run/s1").text


def test_hostile_texts_are_texts_and_the_names_of_sessions_too(tmp_path):
    place = Place(tmp_path, title=HOSTILE)
    with place.opened:
        bench = place.bench([answer(HOSTILE, call("write", path="<b>x</b>", content=HOSTILE)), HOSTILE])
        bench.turn(HOSTILE)
        site = place.serve()
        for path in (
            "/run/s1",
            "/run/s1?step=1.1",
            "/run/s1?step=1.1&what=answer",
            "/run/s1?step=1.2&what=message&place=1",
        ):
            page = site.get(path)
            assert page.status == 200, path
            assert not page.page.all("img")
            assert not page.page.all("b", onclick=None) or "<b>x</b>" not in page.html
            assert not set(page.html) & set("\u202e\u2066\x1b")
            assert "document.title='owned'" in page.text
            assert "[U+202E]" in page.text
        for name in ("..%2f..%2fetc", "%3Cscript%3E", "a%3Fb", "%00", "x" * 3_000):
            missing = site.get(f"/run/{name}")
            assert missing.status == 404, name
            assert "<script>alert" not in missing.html


def test_a_session_whose_name_has_every_kind_of_character_has_an_address(tmp_path):
    name = "a/b ?#%é&x=1"
    place = Place(tmp_path)
    with place.opened:
        log = StoreLog(place.project, name, title="Odd", model="scripted", checkpoints=False)
        Bench(tmp_path, ["Done."], log=log, context=tape).turn("First")
        site = place.serve()
        page = site.get(f"/run/{urllib.parse.quote(name)}?step=1.1")
        assert (page.status, "Turn 1, step 1" in page.text) == (200, True)
        newest = page.page.links()[[one.text for one in page.page.all("a")].index("follow the newest")]
        assert "Turn 1, step 1" in site.get(newest).text


def test_a_store_that_was_removed_is_said_on_the_page(place):
    import shutil

    place.bench(["Done."]).turn("First")
    site = place.serve()
    assert site.get("/run/s1").status == 200
    shutil.rmtree(place.store)
    page = site.get("/run/s1")
    assert page.status in (500, 503)
    assert "Traceback" not in page.html


@pytest.mark.slow
def test_a_hundred_slow_readers_keep_neither_the_run_nor_its_end(place):
    bench = place.bench([answer("I write.", call("write", path="a", content="x")), "Done."])
    site = place.serve(is_live=True)
    growing = site.options.run
    cookie = "; ".join(f"{key}={value}" for key, value in site.cookies.items())
    with contextlib.ExitStack() as held:
        for number in range(100):
            one = held.enter_context(socket.create_connection(("127.0.0.1", site.port), timeout=30))
            with contextlib.suppress(ConnectionError):  # the later ones are hung up on
                end = "" if number % 2 else "\r\n"
                one.sendall(f"GET /live HTTP/1.1\r\nHost: 127.0.0.1:{site.port}\r\nCookie: {cookie}\r\n{end}".encode())
        session = bench.session

        def emit(event):
            bench.events.append(event)
            growing.take(event)
            site.server.wake()

        session._parts = session._parts._replace(emit=emit)
        assert session.turn("Go on").reason == "done"
        site.server.__exit__(None, None, None)
    site.server.wake()  # nobody listens: nothing happens
    assert not site.server._thread.is_alive()


@pytest.mark.slow
def test_while_one_does_not_read_the_others_are_served(place):
    place.bench([answer("x" * 5_000_000), "Done."]).turn("Look")
    site = place.serve()
    cookie = "; ".join(f"{key}={value}" for key, value in site.cookies.items())
    with socket.socket() as lazy:
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.connect(("127.0.0.1", site.port))
        for _ in range(40):  # more than the buffers of both sides take
            with contextlib.suppress(ConnectionError):
                lazy.sendall(
                    f"GET /run/s1?step=1.1&what=answer HTTP/1.1\r\nHost: 127.0.0.1:{site.port}\r\nCookie: {cookie}\r\n\r\n".encode()
                )
        for _ in range(3):
            assert site.get("/run/s1").status == 200


@pytest.mark.slow
def test_who_watches_is_told_that_something_is_new(place):
    import http.client

    bench = place.bench(["Done.", "Again."])
    bench.turn("First")
    site = place.serve()
    cookie = "; ".join(f"{key}={value}" for key, value in site.cookies.items())
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=60)
    connection.request("GET", "/live", headers={"Cookie": cookie})
    events = connection.getresponse()
    assert events.getheader("Content-Type").startswith("text/event-stream")
    assert next(line for line in events if line.startswith(b"event")) == b"event: watching\n"
    bench.turn("Second")  # another program's, for all that the page knows: it finds out by itself
    assert next(line for line in events if line.startswith(b"event")) == b"event: changed\n"
    assert "Second" in site.get("/run/s1").text
    connection.close()


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


class Visitor:
    """A browser of one address: it enters and keeps the cookie."""

    def __init__(self, url):
        import http.cookiejar
        import urllib.request

        self.base = "{0.scheme}://{0.netloc}".format(urllib.parse.urlsplit(url))
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
        self.first = self._read(url)

    def get(self, path):
        return self._read(self.base + path)

    def _read(self, url):
        with self._opener.open(url, timeout=30) as answer:
            return answer.geturl(), answer.read().decode()


def address(stream):
    for line in stream:
        found = re.search(r"http://127\.0\.0\.1:\d+/open/\S+", line)
        if found:
            return found.group()
    raise AssertionError("no address was told")


@pytest.mark.slow
def test_a_run_is_shown_while_the_model_is_asked_and_the_request_is_the_providers(shell):  # noqa: F811 - the fixture
    pytest.importorskip("openai")
    hanging = Hanging()
    with FakeProvider(says("I look.", READS), says("Wrong.", MENDS), hanging) as fake:
        use(shell, fake)
        with started(shell, "run", "make it add", "--session", "one", "--monitor") as process:
            visitor = Visitor(address(process.stderr))
            assert hanging.begun.wait(60)
            where, html = visitor.get("/run/one")
            assert where.endswith("/run/one")
            assert "the model is asked" in html
            assert "No answer yet" in html
            sent = fake.bodies()[-1]
            reader = SessionReader("one")
            with Project.open(os.fspath(shell.folder), Writer.named("eve")) as project:
                reader.refresh(project)
                step = reader.step(project, *reader.newest())
            assert (step.turn, step.step) == (1, 3)
            assert [one.role for one in step.messages] == [one["role"] for one in sent["messages"]]
            assert [one.name for one in step.tools] == [one["function"]["name"] for one in sent["tools"]]
            outputs = [one["content"] for one in sent["messages"] if one["role"] == "tool"]
            assert [one.text.kept + one.text.fresh for one in step.messages if one.role == "tool"] == outputs
            assert "make it add" in visitor.get("/run/one?step=1.1")[1]
            hanging.over.set()
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
    # What is over is shown from the store, by a program of its own, and nothing can be written there.
    with started(shell, "run", "--monitor", "--session", "one", "--json") as look:
        out = json.loads(look.stdout.readline())
        assert (out["schema"], out["session"]) == ("periplus.run.monitor/1", "one")
        where, html = Visitor(out["url"]).first
        assert where.endswith("/run/one")
        assert "make it add" in html
        assert "the model is asked" not in html
        assert "read-only" in html
        look.send_signal(signal.SIGTERM)
        assert look.wait(60) == 0


def test_a_port_that_is_taken_and_packages_that_are_missing_are_told_before_the_run(shell):  # noqa: F811 - the fixture
    with FakeProvider() as fake, socket.socket() as taken:
        use(shell, fake)
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        shell.fails("run", "make it add", "--monitor", "--port", port, code=3, wrong=f"listen on 127.0.0.1:{port}")
        hidden = (
            "import sys; sys.modules['jinja2'] = None; from periplus.cli.main import main; sys.exit(main(sys.argv[1:]))"
        )
        bare = subprocess.run(
            [sys.executable, "-c", hidden, "run", "make it add", "--monitor"], cwd=shell.folder, env=shell.environment(),
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert bare.returncode == 2
        assert "periplus[web]" in bare.stderr
        assert fake.bodies() == []


# -- a real browser ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@browser
def test_nothing_of_a_hostile_session_runs(tmp_path):
    place = Place(tmp_path / "place", title=HOSTILE)
    with place.opened, Browser(tmp_path) as page:
        bench = place.bench([answer(HOSTILE, call("write", path="<b>x</b>", content=HOSTILE)), HOSTILE])
        bench.turn(HOSTILE)
        site = place.serve()
        page.go(site.server.address("/run/s1"))
        page.until("return document.querySelector('#run-now').dataset.chosen === '1.2'")
        text = page.text()
        assert "<script>document.title='owned'</script>" in text
        assert not page.run("return document.title").startswith("owned")
        assert (
            page.run("return document.querySelectorAll('article img, article script, article b > *, nav img').length")
            == 0
        )
        assert "[U+202E]daeh[U+2066]" in text
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
    place = Place(tmp_path / "place")
    with place.opened:
        bench = place.bench([answer("I look.", call("read", path="none")), "Done.", "x" * 3000])
        bench.turn("First, " + "a long request " * 20)
        bench.turn("Second")
        site = place.serve()
        with Browser(tmp_path, width=width, dark=dark) as page:
            page.go(site.server.address("/run/s1"))
            page.until("return document.querySelector('#run-now').dataset.chosen === '2.1'")
            assert page.run("return document.documentElement.scrollWidth") <= width
            assert page.run("return matchMedia('(prefers-color-scheme: dark)').matches") is dark
            page.keys("jj")
            assert page.run("return document.activeElement.querySelector('b').textContent") == "2 · Done."
            page.keys("k\ue007")  # up, Enter
            page.until("return document.querySelector('#run-now')?.dataset.chosen === '1.1'")
            assert "step=1.1" in page.run(
                "return document.querySelector('.run-steps [aria-current]').getAttribute('href')"
            )
            assert "1 failed" in page.text(".run-steps")
            # Words stand out from what is behind them (WCAG 2: 4.5 to 1).
            for selector in (
                "body",
                ".quiet",
                ".measures dt",
                ".turns .row .quiet",
                ".failed",
                ".said .head",
                ".said pre",
                ".badge",
                ".kept pre",
            ):
                assert page.run(CONTRAST, selector) >= 4.5, selector
            names = page.run(
                "return [...document.querySelectorAll('main a, button, input, summary, nav, article, main svg')].filter(one => !(one.textContent.trim() || one.getAttribute('aria-label') || one.labels?.length)).length"
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
def test_what_happens_is_followed_as_it_happens_and_the_end_is_told(tmp_path):
    asked_now, go_on = threading.Event(), threading.Event()

    def second(_messages, _tools):
        asked_now.set()
        assert go_on.wait(60)
        return answer("It is oiled.")

    place = Place(tmp_path / "place")
    with place.opened:
        bench = place.bench([answer("I look.", call("write", path="a", content="x")), "One.", second])
        site = place.serve(is_live=True)
        growing = site.options.run

        def emit(event):
            growing.take(event)
            site.server.wake()

        bench.session._parts = bench.session._parts._replace(emit=emit)
        bench.turn("First")
        with Browser(tmp_path) as page:
            page.go(site.server.address("/run/s1"))
            page.until("return document.querySelector('#run-now').dataset.chosen === '1.2'")
            page.until("return document.getElementById('live-state').textContent.startsWith('live')")
            # The store belongs to the thread that opened it: the browser is driven by another.
            seen = []

            def look():
                try:
                    assert asked_now.wait(60)
                    seen.append(
                        page.until(
                            "return document.querySelector('#run-now').dataset.chosen === '2.1' && document.getElementById('step').innerText.includes('No answer yet')"
                        )
                    )
                    emit(TextGrown(turn=2, step=1, text="It is being "))
                    seen.append(
                        page.until("return document.querySelector('.growing')?.innerText.includes('It is being')")
                    )
                finally:
                    go_on.set()

            looking = threading.Thread(target=look)
            looking.start()
            bench.turn("Second")
            looking.join()
            assert seen == [True, True]
            page.until("return document.getElementById('step').innerText.includes('It is oiled.')")
            site.server.__exit__(None, None, None)
            page.until("return !document.getElementById('live-state').textContent.startsWith('live')")
            assert "It is oiled." in page.text("#step"), "what was loaded stays"


@pytest.mark.slow
@browser
def test_two_thousand_steps_and_a_text_of_megabytes_are_shown(tmp_path):
    place = Place(tmp_path / "place")
    with place.opened:
        long_session(place, 2000, 50)
        text = "".join(f"line {number:06}\n" for number in range(400_000))
        message = AssistantMessage(content=text, usage=Usage(prompt_tokens=1, completion_tokens=1))
        place.log.append(
            Requested(turn=51, text="Big"), Answered(turn=51, step=1, message=message), Ended(turn=51, reason="done")
        )
        site = place.serve()
        with Browser(tmp_path) as page:
            page.go(site.server.address("/run/s1"))
            page.until("return document.querySelector('#run-now').dataset.chosen === '51.1'")
            assert page.run("return document.querySelector('#run-now').dataset.count") == "2001"
            assert page.run("return document.querySelectorAll('svg.tokens rect').length") <= 3 * BARS_MAX
            assert page.run("return document.querySelector('.said.answer pre').textContent.length") < 20_000
            page.click(".said.answer .tight a")
            page.until("return document.getElementById('text')?.textContent.includes('line 00')")
            found = page.run("return document.getElementById('text').textContent")
            assert found in text
            page.go(f"http://127.0.0.1:{site.port}/run/s1?step=1.1")
            page.until("return document.querySelector('#run-now').dataset.chosen === '1.1'")
            assert "Step 1.1" in page.text("#step")
            assert page.complaints() == []
