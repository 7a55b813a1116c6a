"""The front says what the SDK would say, in each revision of the protocol, and leaves everything else to it."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from periplus.journal import Writer
from periplus.project import Project
from periplus.server.mcp.catalogue import HANDSHAKE_VERSIONS, INSTRUCTIONS, MODERN_VERSION, TOOLS, tool_documents
from periplus.server.mcp.handshake import Front
from periplus.server.mcp.sdk_server import Answers, DeskThread, make_server
from periplus.server.mcp.tool_calls import Desk

CLIENT = {"name": "probe", "version": "1"}
LISTS = ("tools/list", "prompts/list", "resources/templates/list")
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN_VERSION,
    "io.modelcontextprotocol/clientInfo": CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}


def request(number, method, params=None):
    return {"jsonrpc": "2.0", "id": number, "method": method, **({"params": params} if params is not None else {})}


def handshake(version, capabilities=None):
    params = {"protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": CLIENT}
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    return [
        request("first", "initialize", params),
        ready,
        request(2, "ping"),
        *(request(10 + at, one) for at, one in enumerate(LISTS)),
    ]


def modern():
    return [request(at, method, {"_meta": META}) for at, method in enumerate(("server/discover", *LISTS))]


def said_by_sdk(messages):
    """What the SDK answers to ``messages``, by id."""
    import mcp_types
    from mcp.shared.message import SessionMessage

    def nowhere(writer: Writer) -> Project:
        raise AssertionError

    async def talk():
        thread = DeskThread(Desk(nowhere, host="here"))
        server = make_server(Answers(thread, "test"))
        to_sdk, reads = anyio.create_memory_object_stream(100)
        writes, from_sdk = anyio.create_memory_object_stream(100)
        answers = {}
        async with anyio.create_task_group() as group, from_sdk:
            group.start_soon(server.run, reads, writes, server.create_initialization_options())
            async with to_sdk:
                for message in messages:
                    line = json.dumps(message)
                    await to_sdk.send(
                        SessionMessage(mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False))
                    )
                    if "id" in message:
                        answer = json.loads(
                            (await from_sdk.receive()).message.model_dump_json(by_alias=True, exclude_unset=True)
                        )
                        answers[answer["id"]] = answer
        thread.close()
        return answers

    return anyio.run(talk)


@pytest.mark.parametrize("version", [*HANDSHAKE_VERSIONS, MODERN_VERSION])
def test_the_front_says_what_the_sdk_says(version):
    messages = modern() if version == MODERN_VERSION else handshake(version)
    front = Front()
    ours = {}
    for message in messages:
        said = front.answer(json.dumps(message).encode())
        assert said is not None, message
        if "id" in message:
            answer = json.loads(said)
            ours[answer["id"]] = answer
        else:
            assert said == b""
    assert ours == said_by_sdk(messages)
    assert [json.loads(line) for line in front.heard] == messages


def test_the_front_knows_the_revisions_that_the_sdk_knows():
    assert HANDSHAKE_PROTOCOL_VERSIONS == HANDSHAKE_VERSIONS
    assert MODERN_PROTOCOL_VERSIONS == (MODERN_VERSION,)


LEFT = {
    "no JSON": b"{",
    "no object": b"[1]",
    "no request": b'{"jsonrpc": "2.0", "id": 1, "result": {}}',
    "another version": b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}',
    "before the handshake": json.dumps(request(1, "tools/list")).encode(),
    "an unknown revision": json.dumps(request(1, "initialize", {"protocolVersion": "2030-01-01", "capabilities": {}, "clientInfo": CLIENT})).encode(),
    "no client": json.dumps(request(1, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})).encode(),
    "a modern call": json.dumps(request(1, "tools/call", {"_meta": META, "name": "recall"})).encode(),
    "an older envelope": json.dumps(request(1, "tools/list", {"_meta": {**META, "io.modelcontextprotocol/protocolVersion": "2025-11-25"}})).encode(),
    "a progress token": json.dumps(request(1, "tools/list", {"_meta": {**META, "progressToken": 1}})).encode(),
    "a depth": b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
    "half a character": b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "ping"}',
    "bytes": b"\xff\xfe",
    "nothing": b"",
}  # fmt: skip


@pytest.mark.parametrize("what", list(LEFT))
def test_all_else_is_left_to_the_sdk(what):
    front = Front()
    assert front.answer(LEFT[what]) is None
    assert front.heard == []


@given(st.binary(max_size=200) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(("jsonrpc", "id", "method", "params", "_meta")), inner),
    max_leaves=12,
).map(lambda value: json.dumps(value).encode()))  # fmt: skip
def test_nothing_that_comes_breaks_the_front(line):
    front = Front()
    for message in handshake("2025-06-18")[:2]:
        front.answer(json.dumps(message).encode())
    said = front.answer(line)
    assert said is None or json.loads(said)["jsonrpc"] == "2.0"


def test_the_catalogue_keeps_its_limits():
    documents = tool_documents()
    assert len(documents) <= 9
    assert [one["name"] for one in documents] == [
        "brief",
        "recall",
        "show",
        "code",
        "remember",
        "revise",
        "claim",
        "plan",
        "message",
    ]
    assert len(INSTRUCTIONS.encode()) < 2048
    for one in documents:
        assert len(one["description"].encode()) < 2048
        schema = json.dumps(one["inputSchema"])
        assert "$ref" not in schema
        assert "anyOf" not in one["inputSchema"]
        assert '""' not in schema, "an empty word in an enum is refused by some"
        assert not re.search(r'"(maxLength|minimum|default|additionalProperties|title|unlisted|\$schema)":', schema)
    assert {tool.name for tool in TOOLS if tool.is_read_only} == {"brief", "code", "recall", "show"}


def test_the_front_loads_neither_the_sdk_nor_the_project():
    code = (
        "import sys, os\nfrom periplus.cli.main import main\nout = os.dup(1)\nassert main(['mcp']) == 0\n"
        "os.write(out, ' '.join(sorted(sys.modules)).encode())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], input=b"", capture_output=True, check=True, timeout=60)
    loaded = set(done.stdout.decode().split())
    assert "periplus.server.mcp.handshake" in loaded
    assert loaded & {"mcp", "mcp_types", "pydantic", "anyio", "asyncio", "sqlite3", "cryptography", "subprocess", "periplus.journal",
                     "periplus.project", "periplus.memory"} == set()  # fmt: skip
