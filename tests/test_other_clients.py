"""Whole sessions of the clients beside Claude Code, Codex, Gemini CLI and opencode, each in a project that it is connected to."""

from __future__ import annotations

import pytest

from client_contract import keeps_the_contract, refuses_what_is_claimed
from clients_of_editors import EDITOR_CLIENTS
from clients_of_terminals import TERMINAL_CLIENTS

pytestmark = [pytest.mark.rig, pytest.mark.slow]


CLIENTS = (*EDITOR_CLIENTS, *TERMINAL_CLIENTS)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_session(client, tmp_path):
    keeps_the_contract(client, tmp_path)


@pytest.mark.parametrize("client", [one for one in CLIENTS if one.has_hooks], ids=lambda client: client.name)
def test_a_claimed_file(client, tmp_path):
    refuses_what_is_claimed(client, tmp_path)
