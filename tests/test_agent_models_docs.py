"""The adapter of docs/guides/agent/models.md is run: alone, under the suite of every client, and as the model of a session over a store."""

from __future__ import annotations

import json
import re
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest

from agent_contracts import LLMClientSuite
from periplus.agent.contracts import ContextOverflowError, Message, ModelError
from periplus.agent.models.client_factory import PROVIDERS
from periplus.agent.tools.web.web_search import SearchService
from periplus.project import Project

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "guides" / "agent" / "models.md").read_text()
ADAPTER, SESSION = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
WRITES = {"id": "c1", "name": "write", "arguments": json.dumps({"path": "oil.txt", "content": "oil\n"})}


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_POST(self):
        house = self.server
        house.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        status, body = house.answers.pop(0)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def house():
    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.asked, made.answers = [], [(200, {"text": "hello", "read": 3, "wrote": 1})]
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


def client(house):
    values = {}
    exec(compile(ADAPTER, "docs/guides/agent/models.md", "exec"), values)
    return values["HouseClient"](f"http://127.0.0.1:{house.server_port}/answer")


class TestHouse(LLMClientSuite):
    @pytest.fixture(autouse=True)
    def _at_hand(self, house):
        self.house = house

    def make(self, tmp_path):
        return client(self.house)


@pytest.mark.parametrize(
    ("status", "body", "kind", "again"),
    [
        (503, b"", ModelError, True),
        (400, b"", ModelError, False),
        (413, b"", ContextOverflowError, None),
        (200, b"{", ModelError, True),
    ],
)
def test_what_the_house_refuses_is_told_as_the_loop_takes_it(house, status, body, kind, again):
    house.answers = [(status, body)]
    with pytest.raises(kind) as raised:
        client(house).complete((Message(role="user", content="hi"),), ())
    assert again is None or raised.value.is_retryable is again


def test_arguments_that_are_no_json_are_kept_with_what_is_wrong(house):
    house.answers = [(200, {"calls": [{"id": "c1", "name": "read", "arguments": "{"}]})]
    (call,) = client(house).complete((Message(role="user", content="hi"),), ()).tool_calls
    assert "not JSON" in call.problem


@pytest.mark.slow
def test_the_session_of_the_page(house, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "work").mkdir()
    Project.init("work")
    house.answers = [(503, b""), (200, {"calls": [WRITES]}), (200, {"text": "Oiled."})]
    exec(
        compile(ADAPTER + SESSION, "docs/guides/agent/models.md", "exec"),
        {"url": f"http://127.0.0.1:{house.server_port}/answer"},
    )
    assert capsys.readouterr().out == "done\n"
    assert (tmp_path / "work" / "oil.txt").read_text() == "oil\n"
    assert house.asked[-1]["messages"][-1]["of"] == "c1"


def test_the_tables_of_the_page_are_those_of_the_code():
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE) == list(PROVIDERS)
    service = msgspec.convert(
        tomllib.loads(re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)[1])["search"], SearchService
    )
    assert service.key_header == "X-Subscription-Token"
