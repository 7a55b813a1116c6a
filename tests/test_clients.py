"""Whole sessions of real clients in a connected project: what reaches the model, what is refused, what is kept, what disconnecting leaves."""

from __future__ import annotations

import os
import re
import shutil

import pytest

from client_support import CLIENTS, FILES, ClaudeCode, Codex, Shop, say
from clients_of_editors import EDITOR_CLIENTS
from clients_of_terminals import TERMINAL_CLIENTS

pytestmark = [pytest.mark.rig, pytest.mark.slow]

PROMPT = "Harden the password check"
DECISION = "Passwords are hashed with argon2id"
TRAP = "The billing worker calls check at night"
LESSON = "Mails go out through the queue of the shop"
HOOKED = (*CLIENTS, *(client for client in (*EDITOR_CLIENTS, *TERMINAL_CLIENTS) if client.has_hooks))


@pytest.fixture
def shop_of(tmp_path):
    """Makes the project for a client, connects the two, and gives it with what it was before."""
    if shutil.which("git") is None:
        pytest.skip("git is not there")

    def make(client):
        client.path()
        shop = Shop(tmp_path, client.files)
        shop("init")
        shop("remember", DECISION, "--type", "decision", "--about", "src/auth.py")
        shop("claim", "take", "src/mail.py", "--as", "bob", "--text", "New mailer")
        before = shop.tree()
        shop("connect", client.name, *client.scope)
        assert (shop.tree() != before) == (not client.scope)
        return shop, before

    return make


@pytest.mark.parametrize("client", [one for one in HOOKED if one.tells_of_files], ids=lambda client: client.name)
def test_a_session(client, shop_of):
    shop, before = shop_of(client)

    def read_what_is_news():
        """Somebody remembers something of a file while the session goes on."""
        shop("remember", TRAP, "--type", "trap", "--about", "src/auth.py", is_process=True)
        shop("remember", LESSON, "--type", "lesson", is_process=True)
        return client.read(shop, "src/auth.py", "src/mail.py")

    run = client.run(
        shop,
        PROMPT,
        read_what_is_news,
        lambda: client.edit(shop, "src/mail.py", "return to", "return to.lower()"),
        client.command("sed -i s/to/from/ src/mail.py"),
        client.tool("recall", {"question": "How do mails go out?"}),
        lambda: client.edit(shop, "src/auth.py", "hash(password)", "argon2(password)"),
        say("The check uses argon2 now."),
    )
    assert "The check uses argon2 now." in run.out

    # The brief is there with the first request, what is known of a file with what was read.
    assert DECISION in run.said(0)
    assert TRAP not in run.said(0)
    assert run.news(1, TRAP) == 1

    # What bob claims is changed by no tool and no command, and the model knows why.
    assert run.news(2, "src/mail.py is claimed: exclusive by bob") >= 1
    assert run.news(3, "src/mail.py is claimed: exclusive by bob") >= 1
    assert (shop.folder / "src/mail.py").read_bytes() == FILES["src/mail.py"]

    # The server answers, and nothing that was told is lost.
    assert run.news(4, LESSON) == client.told_times
    assert b"argon2(password)" in (shop.folder / "src/auth.py").read_bytes()
    for told in (DECISION, TRAP, LESSON):
        assert told in run.said(5)

    trail = shop.sealed(client)
    assert trail["status"] == "success"
    assert PROMPT in trail["title"]
    assert {os.path.basename(path) for path in trail["files"]} == {"auth.py", "mail.py"}
    shown = shop("trail", "show", trail["id"]).lines
    (refused,) = (line for line in shown if "FILE_EDIT" in line and "mail.py" in line)
    (made,) = (line for line in shown if "FILE_EDIT" in line and "auth.py" in line)
    assert re.search(r"\[(denied|failed)\]", refused)
    assert not re.search(r"\[\w+\]", made)
    assert any("SAY" in line and "The check uses argon2 now." in line for line in shown)

    shop("connect", client.name, *client.scope, "--check")
    shop("disconnect", client.name, *client.scope)
    after = {name: data for name, data in shop.tree().items() if name not in client.leaves}
    changed = {name for name in before | after if before.get(name) != after.get(name)}
    assert changed == {"src/auth.py"}


def test_codex_whose_hooks_nobody_reviewed(shop_of):
    """It has the instructions and the server, and the session is imported all the same."""
    client = Codex(is_reviewed=False)
    shop, _ = shop_of(client)
    run = client.run(
        shop,
        PROMPT,
        client.tool("brief", {"task": PROMPT}),
        lambda: client.edit(shop, "src/auth.py", "hash(password)", "argon2(password)"),
        say("The check uses argon2 now."),
    )
    assert "This project keeps its memory in Periplus" in run.said(0)
    assert DECISION not in run.said(0)
    assert run.news(1, DECISION) == 1
    assert shop.json("trail", "list").trails == []
    trail = shop.sealed(client)
    assert (trail["status"], trail["title"]) == ("success", PROMPT)
    assert "/hooks" in shop("connect", "codex", "--check", code=1).out


def test_a_client_that_was_killed(shop_of):
    """What it did is kept, and nobody takes it for done."""
    client = ClaudeCode()
    shop, _ = shop_of(client)
    client.killed(
        shop,
        PROMPT,
        client.read(shop, "src/auth.py"),
        lambda: client.edit(shop, "src/auth.py", "hash(password)", "argon2(password)"),
    )
    assert b"argon2(password)" in (shop.folder / "src/auth.py").read_bytes()
    shop("trail", "import", "--all")
    (trail,) = shop.json("trail", "list").trails
    assert trail.value["status"] == "partial"
    assert any("FILE_EDIT" in line and "auth.py" in line for line in shop("trail", "show", trail.id).lines)


@pytest.mark.parametrize("client", [one for one in HOOKED if one.continues], ids=lambda client: client.name)
def test_a_session_that_goes_on(client, shop_of):
    """Its model has the brief again, and its trail both prompts."""
    shop, _ = shop_of(client)
    client.run(shop, PROMPT, say("The check is hard."))
    run = client.run(shop, "Now the mails", say("The mails are hard."), goes_on=True)
    assert "The check is hard." in run.said(0)
    assert DECISION in run.said(0)
    trail = shop.sealed(client)
    assert trail["status"] == "success"
    shown = shop("trail", "show", trail["id"]).out
    assert PROMPT in shown
    assert "Now the mails" in shown
