"""docs/guides/mcp.md is true: its example runs, its configuration starts a server, its table is the catalogue."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli_support import PERIPLUS
from mcp_support import PATIENCE_S, Raw, Served
from periplus.cli.integration.mcp import PORT
from periplus.server.mcp.catalogue import HANDSHAKE_VERSIONS, MODERN_VERSION, PROMPTS, TEMPLATES, TOOLS
from periplus.server.mcp.message_lines import MESSAGE_BYTES_MAX

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "guides" / "mcp.md").read_text()


def block(language):
    return re.search(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[1]


@pytest.mark.slow
def test_the_example_prints_what_the_page_shows(tmp_path):
    served = Served(tmp_path)
    path = os.pathsep.join((os.path.dirname(PERIPLUS), os.environ["PATH"]))
    done = subprocess.run(
        [sys.executable, "-c", block("python")], cwd=served.folder, env=served.shell.environment(PATH=path),
        capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == block("text")


def test_the_configuration_starts_a_server(tmp_path):
    server = json.loads(block("json"))["mcpServers"]["periplus"]
    assert server == {"command": "periplus", "args": ["mcp"]}
    with Raw(Served(tmp_path)) as raw:
        assert raw.shake_hands()["serverInfo"]["name"] == "periplus"


def test_the_page_says_what_there_is():
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\| (yes|no) \|$", PAGE, re.MULTILINE))
    assert rows == {tool.name: "no" if tool.is_read_only else "yes" for tool in TOOLS}
    assert list(rows) == [tool.name for tool in TOOLS]
    for template in TEMPLATES:
        assert f"`{template['uriTemplate']}`" in PAGE
    for prompt in PROMPTS:
        assert f"`{prompt['name']}`" in PAGE
    for version in (*HANDSHAKE_VERSIONS, MODERN_VERSION):
        assert version in PAGE
    assert f"port {PORT}" in PAGE
    assert MESSAGE_BYTES_MAX == 4 << 20
    assert "over 4 MiB" in PAGE
