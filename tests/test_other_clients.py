"""Whole sessions of the clients beside Claude Code, Codex, Gemini CLI and opencode, each in a project that it is connected to."""

from __future__ import annotations

import json

import pytest

from client_contract import PROMPT, connected_shop, counts_of, keeps_the_contract, refuses_what_is_claimed
from client_support import INSTALLED, say
from clients_of_editors import EDITOR_CLIENTS, CopilotCli
from clients_of_terminals import TERMINAL_CLIENTS, Aider, KimiCode

pytestmark = [pytest.mark.rig, pytest.mark.slow]


CLIENTS = (*EDITOR_CLIENTS, *TERMINAL_CLIENTS)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_session(client, tmp_path):
    keeps_the_contract(client, tmp_path)


@pytest.mark.parametrize("client", [one for one in CLIENTS if one.has_hooks], ids=lambda client: client.name)
def test_a_claimed_file(client, tmp_path):
    refuses_what_is_claimed(client, tmp_path)


def test_kimi_has_the_server_of_a_project_that_is_trusted(tmp_path):
    client = KimiCode()
    client.scope = ()
    shop, _ = connected_shop(client, tmp_path)
    wary = client.run(shop, PROMPT, say("Done."))
    assert not client.lists_tool(wary.bodies[0], "recall")
    assert "periplus brief" in wary.said(0), "its texts are read all the same"
    client.trust(shop)
    assert client.lists_tool(client.run(shop, PROMPT, say("Done.")).bodies[0], "recall")


def test_aider(tmp_path):
    """It has a file of conventions to read, and its history is imported."""
    client = Aider()
    shop, before = connected_shop(client, tmp_path)
    run = client.run(shop, PROMPT, lambda: client.edit(shop, "src/auth.py", "hash(password)", "argon2(password)"))
    assert "periplus brief" in run.said(0)
    assert b"argon2(password)" in (shop.folder / "src/auth.py").read_bytes()
    trail = shop.sealed(client)
    assert PROMPT in trail["title"]
    assert counts_of(shop, client, trail) == client.steps
    shop("connect", "--check", client.name)
    shop("disconnect", client.name)
    after = {name: data for name, data in shop.tree().items() if name not in client.leaves}
    assert {name for name in before | after if before.get(name) != after.get(name)} == {"src/auth.py"}


def test_crush_is_not_in_its_package():
    """Its package holds a script that fetches it: when it does hold it, it is to be driven."""
    package = INSTALLED / "@charmland/crush/package.json"
    if not package.exists():
        pytest.skip("crush is not installed: make clients")
    about = json.loads(package.read_text())
    assert "install.js" in about["scripts"]["postinstall"]
    assert "optionalDependencies" not in about
    assert not [path for path in package.parent.rglob("crush*") if path.is_file() and path.suffix != ".js"]


def test_copilot_cli_runs_the_hooks_of_others_as_its_own(tmp_path):
    """It loads the files of hooks of VS Code and of Claude Code: with all three connected, its session is recorded once, and facts come once."""
    client = CopilotCli()
    shop, _ = connected_shop(client, tmp_path)
    shop("connect", "vscode", "claude-code")
    run = client.run(
        shop, PROMPT, lambda: client.edit(shop, "src/auth.py", "hash(password)", "argon2(password)"), say("Done.")
    )
    assert run.said(0).count("# Brief") == 1
    trail = shop.sealed(client)
    assert (trail["agent"], trail["status"]) == ("copilot-cli", "success")
