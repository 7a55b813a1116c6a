"""The page of the protocol says what the tables say, and its bytes are what the machines write and read."""

from __future__ import annotations

import hashlib
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from periplus.cli.wire_reference import EXAMPLES, main, rewritten
from periplus.context.wire import ERRORS, FRAMES, Closed, CreditCame, Policy, Requested, ServerMachine, token_authority
from periplus.context.wire.frames import COUNTED, HEADER_BYTES, OPENERS, FrameType, read_header
from periplus.context.wire.payload_codec import Codec
from periplus.context.wire.payloads import Hello, Request, StreamRequest
from wire_support import Answerer, chunk

pytestmark = pytest.mark.quick

PAGE = Path(__file__).resolve().parents[1] / "docs/formats/context-wire.md"
SPECIFIED = {
    "HELLO": 0x00, "WELCOME": 0x80, "EXPAND_REQUEST": 0x01, "EXPAND_RESPONSE": 0x81, "STREAM_REQUEST": 0x02, "STREAM_CHUNK": 0x82,
    "STREAM_END": 0x83, "QUERY_REQUEST": 0x03, "QUERY_RESPONSE": 0x84, "PUSH_CONTEXT": 0x04, "ACK": 0x85, "CREDIT": 0x05, "CANCEL": 0x06,
    "HAVE": 0x07, "WANT": 0x86, "OBJECTS": 0x08, "OBJECTS_SENT": 0x87, "PROVE": 0x09, "PROOF": 0x88, "REFS": 0x0A, "REFS_RESPONSE": 0x89,
    "WATCH": 0x0B, "CHANGED": 0x8A, "PING": 0x0C, "PONG": 0x8B, "ERROR": 0xFF,
}  # fmt: skip


def test_the_page_is_current(tmp_path):
    copy = tmp_path / "page.md"
    copy.write_text(PAGE.read_text().replace("| `streams` |", "| `currents` |"))
    assert rewritten(PAGE.read_text()) == PAGE.read_text(), f"run: python -m periplus.cli.wire_reference {PAGE}"
    main(str(copy))
    assert copy.read_text() == PAGE.read_text()


def test_the_codes_are_those_of_the_specification():
    assert {kind.name: kind.value for kind in FrameType} == SPECIFIED
    assert set(FRAMES) == set(SPECIFIED.values()) == set(EXAMPLES)
    assert {
        FrameType.STREAM_CHUNK,
        FrameType.WANT,
        FrameType.OBJECTS,
        FrameType.OBJECTS_SENT,
        FrameType.CHANGED,
    } == COUNTED
    assert len(OPENERS) == 9
    for row in FRAMES.values():
        assert row.help
        for answer in row.answers:
            assert FRAMES[answer].place == "continues"
            assert FRAMES[answer].sender == "server"
        assert bool(row.answers) is (row.type in OPENERS)
    assert {
        struct for kind in OPENERS for struct in getattr(FRAMES[kind].payload, "__args__", (FRAMES[kind].payload,))
    } == set(Request.__args__)


def test_the_bytes_of_the_page_are_read_as_what_they_are_said_to_be():
    text = PAGE.read_text()
    found = re.findall(r"\n(\w+) on stream (\d+), (\d+) bytes of payload:\n\n```\n(.*?)\n```", text, re.DOTALL)
    assert len(found) == len(EXAMPLES)
    for (name, stream, size, block), (kind, (number, value)) in zip(found, EXAMPLES.items(), strict=True):
        data = bytes.fromhex("".join(line[:71].split("   ")[0] for line in block.splitlines()))
        header = read_header(data)
        assert (FRAMES[header.kind].name, header.kind, header.stream, header.length) == (name, kind, number, int(size))
        assert header.stream == int(stream)
        codec = Codec()
        if kind not in (FrameType.HELLO, FrameType.WELCOME):
            codec.agree("msgpack", unpacks=False, packs=False)
        assert codec.value(kind, data[HEADER_BYTES:]) == value
        assert codec.frame(kind, number, codec.payload(value)) == data


def test_the_page_has_every_code_and_every_field():
    text = PAGE.read_text()
    for code, row in ERRORS.items():
        assert f"| `{code}` |" in text
        assert row.message in text
    for field in Hello.__struct_fields__:
        assert f"| `{field}` |" in text


def test_the_client_of_thirty_lines_streams_from_a_server():
    """As it stands on the page, in a process of its own, over TCP; more chunks than its window has frames."""
    page = PAGE.read_text().split("## A client in thirty lines")[1]
    code = page.split("```python\n")[1].split("```")[0]
    assert len([line for line in code.split("\n\n\nif __name__")[0].splitlines() if line.strip()]) <= 30
    context = hashlib.sha256(b"context").hexdigest()
    asked = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        command = [sys.executable, "-c", code, "127.0.0.1", str(listener.getsockname()[1]), context, "secret"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as client:
            listener.settimeout(60)
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(60)
                machine = ServerMachine(0.0, authority=token_authority("secret"), policy=Policy(handshake_s=1e6))
                answerer = Answerer(chunks=50)
                while data := connection.recv(65_536):
                    for event in machine.receive(data, 0.0):
                        assert not isinstance(event, Closed), event
                        asked.append(event)
                        answerer(machine, event)
                    connection.sendall(machine.data_to_send())
            printed, complaints = client.communicate(timeout=60)
    assert (client.returncode, complaints) == (0, "")
    assert printed.splitlines() == [entry.atom.content for number in range(50) for entry in chunk(number).entries]
    assert asked[1] == Requested(1, StreamRequest(bytes.fromhex(context)))
    assert CreditCame(1) in asked
