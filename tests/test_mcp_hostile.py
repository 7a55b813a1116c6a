"""What no client should send, and what happens to the machine meanwhile: the server answers, and stays."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli_support import PERIPLUS
from mcp_support import PATIENCE_S, Raw, Served, run, text_of
from periplus.base.errors import UsageError
from periplus.base.process.locks import Lock
from periplus.journal import Layout
from periplus.server.mcp.catalogue import HANDSHAKE_VERSIONS, TOOLS
from periplus.server.mcp.message_lines import MESSAGE_BYTES_MAX, LineReader, id_in
from periplus.server.mcp.tool_arguments import read_arguments
from periplus.server.mcp.tool_calls import agent_name


@pytest.fixture
def served(tmp_path):
    return Served(tmp_path)


MB = "x" * 1_000_000
HOSTILE = [  # a tool, its arguments, what is said
    ("remember", {"text": MB}, "text: "),
    ("remember", {"text": "a\0b"}, "text contains a NUL character"),
    ("remember", {"text": ["x"]}, "text: expected `str`"),
    ("remember", {"text": {"a": {"b": 1}}}, "text: expected `str`"),
    ("remember", {}, "text is missing"),
    ("remember", {"text": "x", "colour": "red"}, "unknown argument colour"),
    ("remember", {"text": "x", MB: "red"}, "unknown argument xxx"),
    ("remember", {"text": "x", "type": "rumour"}, "unknown type 'rumour'"),
    ("remember", {"text": "x", "confidence": "much"}, "confidence: expected `int`"),
    ("remember", {"text": "x", "confidence": 1e300}, "confidence: expected `int`"),
    ("remember", {"text": "x", "about": ["../../etc/passwd"]}, "outside of the project"),
    ("remember", {"text": "x", "about": ["/etc/passwd"]}, "outside of the project"),
    ("remember", {"text": "x", "about": ["src/auth.py:nothing_of_that_name"]}, "src/auth.py"),
    ("remember", {"text": "x", "tags": ["t"] * 10_000}, "tags: expected `array` of length <= 100"),
    ("remember", {"text": "x", "evidence": ["hearsay"]}, "is not evidence"),
    ("remember", {"text": "x", "expires": "soon"}, "is not a time"),
    ("remember", {"text": "x", "supersedes": ["not_0000000000000000"]}, "nothing has an id"),
    ("remember", {"text": "x", "key": "clé"}, "ASCII"),
    ("recall", {"question": ""}, "question: "),
    ("recall", {"question": "  "}, "question is empty"),
    ("recall", {"question": MB}, "question: "),
    ("recall", {"question": "x", "limit": 10**30}, "limit: "),
    ("recall", {"question": "x", "limit": -1}, "limit: expected `int` >= 1"),
    ("recall", {"question": "x", "budget": 1}, "budget: expected `int` >= 100"),
    ("recall", {"question": "x", "since": "yesterday"}, "is no time"),
    ("recall", {"question": "x", "types": "rumour"}, "unknown type 'rumour'"),
    ("brief", {}, "neither task nor paths"),
    ("brief", {"paths": ["../other"]}, "outside of the project"),
    ("brief", {"paths": ["x" * 600]}, "paths[0]: "),
    ("brief", {"paths": [""]}, "is empty"),
    ("show", {"id": "nothing_like_it"}, "nothing has an id"),
    ("show", {"id": "periplus://proof/1"}, "as a resource"),
    ("show", {"id": "x#y"}, "is not a step"),
    ("revise", {"ids": [], "action": "confirm"}, "ids: "),
    ("revise", {"ids": ["nothing_like_it"], "action": "state", "state": "done"}, "nothing has an id"),
    ("revise", {"ids": ["a", "b"], "action": "set", "fields": {"tags": "a"}}, "takes one id"),
    ("revise", {"ids": ["a"], "action": "set"}, "needs `fields`"),
    ("revise", {"ids": ["a"], "action": "set", "fields": {"tags": {"a": 1}}}, "nothing has an id"),
    ("revise", {"ids": ["a"], "action": "state"}, "needs `state`"),
    ("claim", {"action": "take"}, "needs `paths`"),
    ("claim", {"paths": ["src"]}, "list takes no `paths`"),  # who forgot the action is told, not shown a list
    ("plan", {"text": "x", "steps": [{"text": "a"}]}, "list takes no `text`"),
    ("message", {"to": "bob", "text": "x"}, "inbox takes no `text`"),
    ("claim", {"action": "take", "paths": ["../x"]}, "outside of the project"),
    ("claim", {"action": "take", "paths": ["src/[ab"]}, "is not closed"),
    ("claim", {"action": "release", "ids": ["nothing_like_it"]}, "nothing has an id"),
    ("plan", {"action": "make", "text": "x", "steps": [{"text": "a", "after": [2]}, {"text": "b", "after": [1]}]}, "wait for each other"),
    ("plan", {"action": "make", "text": "x", "steps": [{"word": "a"}]}, "steps[0]"),
    ("plan", {"action": "make", "text": "x", "steps": "a, b"}, "steps[0]: expected `object`"),
    ("plan", {"action": "done"}, "needs `ids`"),
    ("message", {"action": "send", "text": "x"}, "needs `to`"),
    ("message", {"action": "read", "id": "nothing_like_it"}, "nothing has an id"),
    ("message", {"action": "handoff", "text": "x", "files": ["/etc/passwd"]}, "outside of the project"),
    ("nothing", {}, "unknown tool 'nothing'"),
]  # fmt: skip


def deep(count):
    return b'{"a":' * count + b"1" + b"}" * count


@pytest.mark.slow
def test_no_argument_harms_the_server(served):
    with Raw(served) as raw:
        raw.shake_hands()
        for number, (tool, arguments, said) in enumerate(HOSTILE):
            result = raw.call(number, tool, arguments)
            assert result["isError"], (tool, str(arguments)[:200], result)
            (content,) = result["content"]
            assert said in content["text"], (tool, str(arguments)[:200], content["text"])
            assert len(content["text"]) < 2_000
            assert "structuredContent" not in result
        for number, arguments in enumerate(([1], "text", 5)):
            assert (
                raw.ask(f"odd{number}", "tools/call", {"name": "recall", "arguments": arguments})["error"]["code"]
                == -32602
            )
        assert raw.call("after", "remember", {"text": "It goes on"})["isError"] is False
        assert raw.end()[0] == 0
    with served.project() as project:
        assert [one.value["text"] for one in project.journal.entities("note")] == ["It goes on"]
        assert not list(project.journal.entities("plan"))
        assert [one.seq for one in project.journal.entities("note")] == [1], "what was refused begins no session"


@pytest.mark.slow
def test_no_line_harms_the_server(served):
    def call(number, arguments):
        return b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"recall","arguments":%s}}' % (
            number,
            arguments,
        )

    lines = [  # a line, the id of its answer, the code of the error
        (b"{", None, -32700),
        (b"\xff\xfe\xfd", None, -32700),
        (b"[]", None, -32600),
        (b'"text"', None, -32600),
        (b'{"jsonrpc":"1.0","id":7,"method":"ping"}', 7, -32600),
        (b'{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}', None, -32600),
        (call(8, deep(100_000)), 8, -32700),
        (b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"recall","arguments":' + deep(100_000) + b'},"id":"nine"}', "nine", -32700),
        (call(10, b'{"question":"' + b"x" * MESSAGE_BYTES_MAX + b'"}'), 10, -32600),
        (call(11, b'{"question":"\\ud800"}'), 11, -32700),
        (b'{"jsonrpc":"2.0","id":12,"method":"no/such"}', 12, -32601),
        (b'{"jsonrpc":"2.0","id":13,"method":"prompts/get","params":{"name":"nothing"}}', 13, -32602),
        (b'{"jsonrpc":"2.0","id":14,"method":"prompts/get","params":{"name":"start","arguments":{"x":"y"}}}', 14, -32602),
        (b'{"jsonrpc":"2.0","id":15,"method":"resources/read","params":{"uri":"file:///etc/passwd"}}', 15, -32002),
        (b'{"jsonrpc":"2.0","id":16,"method":"resources/read","params":{"uri":"periplus://entity/../../etc"}}', 16, -32002),
        (b'{"jsonrpc":"2.0","id":17,"method":"resources/read","params":{"uri":"periplus://proof/99999999999999999"}}', 17, -32002),
        (b'{"jsonrpc":"2.0","id":18,"method":"resources/list","params":{"cursor":"%s"}}' % (b"y" * 100_000), 18, -32602),
    ]  # fmt: skip
    for is_first in (True, False):
        with Raw(served) as raw:
            if not is_first:
                raw.shake_hands()
            for line, number, code in lines if not is_first else lines[:3]:
                raw.send(line)
                answer = raw.receive()
                assert (answer["id"], answer["error"]["code"]) == (number, code), (line[:100], answer)
            raw.send(
                b"",
                b"   ",
                b'{"jsonrpc":"2.0","method":"notifications/nothing"}',
                b'{"jsonrpc":"2.0","id":99,"result":{}}',
            )
            if is_first:
                raw.shake_hands()
            assert raw.ask("last", "ping")["result"] == {}
            assert raw.end()[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "version", HANDSHAKE_VERSIONS if os.environ.get("PERIPLUS_EXHAUSTIVE") else HANDSHAKE_VERSIONS[::3]
)
def test_each_revision_of_the_handshake(served, version):
    with Raw(served) as raw:
        assert raw.shake_hands(version)["protocolVersion"] == version
        assert "No results." in raw.call(1, "recall", {"question": "anything"})["content"][0]["text"]
        assert raw.end()[0] == 0


@pytest.mark.slow
def test_an_unknown_revision_is_offered_one_that_is_known(served):
    with Raw(served) as raw:
        assert raw.shake_hands("2031-01-01")["protocolVersion"] == HANDSHAKE_VERSIONS[-1]
        assert raw.ask(1, "ping")["result"] == {}


@pytest.mark.slow
def test_what_was_asked_is_answered_before_the_end(served):
    with Raw(served) as raw:
        raw.send(
            {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "probe", "version": "1"}}},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            *({"jsonrpc": "2.0", "id": number, "method": "tools/call",
               "params": {"name": "remember", "arguments": {"text": f"Note {number}"}}} for number in range(1, 21)),
        )  # fmt: skip
        raw.process.stdin.close()
        answers = []
        while (answer := raw.receive()) is not None:
            answers.append(answer["id"])
        assert answers == list(range(21))
        raw.process.wait(PATIENCE_S)
        assert raw.process.returncode == 0
    with served.project() as project:
        assert len(list(project.journal.entities("note"))) == 20


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=lambda number: number.name)
@pytest.mark.parametrize("when", ["at once", "after the handshake", "after a call"])
def test_a_signal_ends_it_cleanly(served, when, number):
    with Raw(served) as raw:
        if when == "at once":
            raw.send(b"")  # the SDK hears it: an empty line is nobody's
            assert raw.ask(1, "initialize", {})["error"]
        else:
            raw.shake_hands()
        if when == "after a call":
            raw.call(1, "claim", {"action": "take", "paths": ["src"]})
        raw.process.send_signal(number)
        raw.process.wait(PATIENCE_S)
        assert raw.process.returncode == 0
        assert "Traceback" not in raw.process.stderr.read().decode()
    with served.project() as project:
        assert project.work.claims() == []


@pytest.mark.slow
def test_a_terminal_that_is_closed_ends_it_over_http(served):
    async def talk(url):
        async with served.at(url) as client:
            await client.call_tool("claim", {"action": "take", "paths": ["src"]})
            os.kill(process.pid, signal.SIGHUP)

    with served.listening() as (url, process):
        with contextlib.suppress(Exception):  # the server is gone when the client says goodbye
            run(talk, url)
        assert process.wait(PATIENCE_S) == 0
    with served.project() as project:
        assert project.work.claims() == []


@pytest.mark.slow
def test_who_wants_it_to_outlive_the_terminal_says_so(served):
    words = ["sh", "-c", f"trap '' HUP; exec {shlex.quote(PERIPLUS)} mcp"]
    with Raw(served, program=words) as raw:
        raw.shake_hands()
        raw.process.send_signal(signal.SIGHUP)
        assert raw.call(1, "recall", {"question": "x"})["isError"] is False
        raw.process.send_signal(signal.SIGHUP)
        assert raw.call(2, "recall", {"question": "x"})["isError"] is False
        assert raw.end() == (0, "")


@pytest.mark.slow
def test_a_client_that_dies_ends_it(served):
    with Raw(served) as raw:
        raw.shake_hands()
        raw.call(1, "recall", {"question": "x"})
        raw.process.stdout.close()
        raw.process.stdin.close()
        assert raw.process.wait(PATIENCE_S) == 0


@pytest.mark.slow
def test_nothing_else_gets_between_the_lines(served):
    """git and other programs that the server starts, and what they print, are far from the wire."""
    subprocess.run(["rm", "-r", served.folder / ".git"], check=True)
    subprocess.run(["git", "init", "-q"], cwd=served.folder, check=True)
    with Raw(served) as raw:
        raw.shake_hands()
        raw.call(1, "remember", {"text": "Names are hashed", "about": ["src/auth.py"]})
        (served.folder / "src" / "auth.py").write_text("changed = True\n")
        result = raw.call(2, "recall", {"question": "names hashed"})
        assert "stale" in result["content"][0]["text"]
        assert raw.end()[0] == 0


@pytest.mark.slow
def test_a_locked_store_is_said(served):
    with Raw(served) as raw:
        raw.shake_hands()
        raw.call(1, "remember", {"text": "Before"})
        with Lock(Layout(os.fspath(served.folder / ".periplus")).lock).holding():
            raw.send(*({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
                       for number, tool, arguments in ((2, "remember", {"text": "Meanwhile"}), (3, "recall", {"question": "before"}))),
                     {"jsonrpc": "2.0", "id": 4, "method": "ping"})  # fmt: skip
            answers = {}
            while len(answers) < 3:
                answer = raw.receive()
                answers[answer["id"]] = answer["result"]
                if answer["id"] == 4:
                    assert list(answers) == [4], "a ping does not wait for the store"
        assert answers[2]["isError"]
        assert "being written by" in answers[2]["content"][0]["text"]
        assert "Repeat the call" in answers[2]["content"][0]["text"]
        assert "Before" in answers[3]["content"][0]["text"]
        assert raw.call(5, "remember", {"text": "Meanwhile"})["isError"] is False


@pytest.mark.slow
def test_many_servers_beside_the_command_line(served):
    """Three servers and four commands write at once: nothing is lost, and no step is taken twice."""
    with served.project() as project:
        from periplus.memory.coordination.plans import NewStep

        project.work.make_plan("Many", [NewStep(f"Step {number}") for number in range(12)])
    servers = [Raw(served) for _ in range(3)]
    try:
        for number, raw in enumerate(servers):
            raw.shake_hands(name=f"agent-{number}")
        taken = []
        for turn in range(4):
            for number, raw in enumerate(servers):
                raw.send(*({"jsonrpc": "2.0", "id": at, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
                           for at, tool, arguments in (
                               (f"{turn}a", "remember", {"text": f"Note {turn} of agent {number}"}),
                               (f"{turn}b", "plan", {"action": "next"}))))  # fmt: skip
            command = served.shell.start("remember", f"Note {turn} of a person", stdout=subprocess.DEVNULL)
            for raw in servers:
                answers = {}
                for _ in range(2):
                    answer = raw.receive()
                    answers[answer["id"]] = answer["result"]
                assert not any(result["isError"] for result in answers.values()), answers
                step = answers[f"{turn}b"]["structuredContent"]["step"]
                taken += [step] if step else []
            assert command.wait(PATIENCE_S) == 0
        assert len(taken) == len(set(taken)) == 12
        for raw in servers:
            assert raw.end()[0] == 0
    finally:
        for raw in servers:
            raw.__exit__()
    with served.project() as project:
        assert len(list(project.journal.entities("note"))) == 16
        assert project.examine().problems == []


@pytest.mark.slow
def test_http_is_for_this_machine_alone(served):
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "probe", "version": "1"}}}  # fmt: skip
    usual = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    with served.listening() as (url, _), httpx2.Client(timeout=PATIENCE_S) as client:
        port = int(url.split(":")[2].partition("/")[0])
        assert client.post(url, json=hello, headers=usual).status_code == 200
        assert client.post(url, json=hello, headers={**usual, "host": "evil.example.com"}).status_code == 421
        assert (
            client.post(url, json=hello, headers={**usual, "host": f"127.0.0.1.evil.example.com:{port}"}).status_code
            == 421
        )
        assert client.post(url, json=hello, headers={**usual, "origin": "https://evil.example.com"}).status_code == 403
        assert client.post(url, json=hello, headers={**usual, "origin": f"http://localhost:{port}"}).status_code == 200
        assert client.post(url, json=hello, headers={**usual, "content-type": "text/plain"}).status_code == 400
        assert client.post(url, content=b"x" * (MESSAGE_BYTES_MAX + 1), headers=usual).status_code == 413
        assert client.post(url, content=deep(50_000), headers=usual).status_code == 400
        assert client.post(url, content=b"\xff", headers=usual).status_code == 400
        assert client.get(url.replace("/mcp", "/")).status_code == 404
        assert client.post(url, json=hello, headers={**usual, "mcp-session-id": "x" * 5_000}).status_code in (400, 404)
        assert (
            client.post(
                url, json={**hello, "method": "tools/call"}, headers={**usual, "mcp-protocol-version": "2031-01-01"}
            ).status_code
            == 400
        )
        with socket.socket() as slow:  # a client that never ends its request keeps nobody waiting
            slow.connect(("127.0.0.1", port))
            slow.sendall(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n")
            assert client.post(url, json=hello, headers=usual).status_code == 200
        address = next(
            iter(
                {one[4][0] for one in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
                - {"127.0.0.1", "127.0.1.1"}
            ),
            None,
        )
        if address is not None:
            with socket.socket() as other:
                assert other.connect_ex((address, port)) != 0


@pytest.mark.slow
def test_http_with_a_token(served):
    token = "secret-of-this-test-0123456789"
    with served.listening(env={"PERIPLUS_MCP_TOKEN": token}) as (url, _):
        assert httpx2.post(url, json={}).status_code == 401
        assert httpx2.post(url, json={}, headers={"authorization": f"Bearer {token}x"}).status_code == 401
        assert httpx2.post(url, json={}, headers={"authorization": f"Basic {token}"}).status_code == 401

        async def talk():
            async with (
                httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=PATIENCE_S) as http_client,
                served.at(url, http_client=http_client) as client,
            ):
                return text_of(await client.call_tool("recall", {"question": "x"}))

        assert "No results." in run(talk)


@pytest.mark.slow
def test_a_port_that_is_taken_is_said(served):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        served.shell.fails("mcp", "--http", "--port", str(port), code=3, wrong=f"127.0.0.1:{port}")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@settings(max_examples=300)
@given(st.sampled_from(TOOLS).flatmap(
    lambda tool: st.tuples(st.just(tool), st.dictionaries(st.sampled_from([*tool.arguments.__struct_fields__, "else"]), JSON, max_size=4) | JSON)
))  # fmt: skip
def test_arguments_are_read_or_refused(case):
    tool, arguments = case
    try:
        found = read_arguments(tool.arguments, arguments)
    except UsageError as error:
        told = str(error)
    else:
        assert isinstance(found, tool.arguments)
        return
    assert len(told) < 1_000


@given(st.lists(st.binary(max_size=50).map(lambda data: data.replace(b"\n", b" ")), max_size=5), st.binary(max_size=20))
def test_lines_are_read_as_they_were_written(lines, rest):
    source, sink = os.pipe()
    rest = rest.replace(b"\n", b"")
    os.write(sink, b"".join(line + b"\n" for line in lines) + rest)
    os.close(sink)
    reader = LineReader(source)
    found = []
    while (line := reader.read()) is not None:
        assert line.is_whole
        found.append(line.data)
    os.close(source)
    assert found == [*lines, *([rest] if rest else [])]


@given(st.integers(-(2**53), 2**53) | st.text(max_size=20).filter(lambda text: text.isascii()), JSON)
def test_the_id_of_what_cannot_be_read_is_found(number, params):
    for message in (
        {"jsonrpc": "2.0", "id": number, "params": params},
        {"params": {"id": "no", "in": [params]}, "id": number},
    ):
        text = json.dumps(message, allow_nan=True).encode()
        assert id_in(text) == number
        id_in(text[: len(text) // 2])


@pytest.mark.parametrize(("client", "agent"), [
    ("claude-code", "claude-code"), ("codex-mcp-client", "codex"), ("cursor-vscode", "cursor"), ("Visual Studio Code", "vscode"),
    ("gemini-cli-mcp-client", "gemini"), ("opencode", "opencode"), ("", "mcp-client"), ("../../etc", "etc"), ("\x1b[31mred", "31mred"),
    ("x" * 500, "x" * 60), ("é", "mcp-client"),
])  # fmt: skip
def test_names_of_agents(client, agent):
    assert agent_name(client) == agent


def test_it_is_ready_in_time(served):
    """Within the two seconds of the specification, counted in the time of its own processor: others may be busy."""
    with Raw(served) as raw:
        raw.shake_hands()
        raw.ask(1, "tools/list")
        raw.process.kill()
        _, status, usage = os.wait4(raw.process.pid, 0)
        raw.process.returncode = os.waitstatus_to_exitcode(status)
    assert usage.ru_utime + usage.ru_stime < 2.0
