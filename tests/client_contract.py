"""Contract of a client that can be connected: a whole session with a scripted model, in a project with Periplus."""

from __future__ import annotations

__all__ = [
    "DECISION",
    "LESSON",
    "PROMPT",
    "connected_shop",
    "counts_of",
    "keeps_the_contract",
    "refuses_what_is_claimed",
]

import os
import shutil

import pytest

from client_support import Client, Shop

PROMPT = "Harden the password check: are passwords hashed with argon2id?"
DECISION = "Passwords are hashed with argon2id"
LESSON = "Mails go out through the queue of the shop"
_LAST = "The check uses argon2 now."


def connected_shop(client: Client, folder) -> tuple[Shop, dict[str, bytes | None]]:
    """A project that the client is connected to, and its files as they were before."""
    if shutil.which("git") is None:
        pytest.skip("git is not there")
    client.path()
    shop = Shop(folder, client.files)
    shop("init")
    shop("remember", DECISION, "--type", "decision", "--about", "src/auth.py")
    shop("remember", LESSON, "--type", "lesson", "--about", "src/mail.py")
    client.use_before(shop)
    before = shop.tree()
    shop("connect", client.name, *client.scope)
    return shop, before


def keeps_the_contract(client: Client, folder) -> None:
    """The server's tools are listed and answer, hooks' facts reach the model, the session becomes a trail with the counts of the
    script, and disconnecting leaves no byte.
    """
    shop, before = connected_shop(client, folder)
    run = client.run(
        shop,
        PROMPT,
        client.tool("recall", {"question": "How do mails go out?"}),
        client.command("cat src/mail.py"),
        *([client.read(shop, "src/auth.py")] if client.reads_first else []),
        lambda: client.edit(shop, "src/auth.py", "hash(password)", "argon2(password)"),
        client.last(_LAST),
    )
    assert _LAST in run.out
    assert client.lists_tool(run.bodies[0], "recall")
    assert run.news(1, LESSON) >= 1
    assert b"argon2(password)" in (shop.folder / "src/auth.py").read_bytes()
    if client.has_hooks:
        assert DECISION in run.said(0)

    trail = shop.sealed(client)
    assert trail["status"] == "success"
    assert PROMPT in trail["title"]
    assert "auth.py" in {os.path.basename(path) for path in trail["files"]}
    assert "What this project's memory says" not in shop("trail", "show", trail["id"], "--json").out
    assert counts_of(shop, client, trail) == client.steps

    shop("connect", "--check", client.name, *client.scope)
    shop("disconnect", client.name, *client.scope)
    after = {name: data for name, data in shop.tree().items() if name not in client.leaves}
    assert {name for name in before | after if before.get(name) != after.get(name)} == {"src/auth.py"}


def counts_of(shop: Shop, client: Client, trail) -> dict[str, int]:
    """How many steps the trail has of each kind that the client names."""
    shown = shop("trail", "show", trail["id"]).lines
    kinds = [next((kind for kind in client.steps if f" {kind} " in f" {line} "), "") for line in shown]
    return {kind: kinds.count(kind) for kind in client.steps}


def refuses_what_is_claimed(client: Client, folder) -> None:
    """An edit of a file that somebody else claims does not happen, and the model reads why."""
    shop, before = connected_shop(client, folder)
    shop("claim", "take", "src/mail.py", "--as", "bob", "--text", "New mailer")
    run = client.run(
        shop,
        PROMPT,
        client.read(shop, "src/mail.py", *(["src/auth.py"] if client.reads_first else [])),
        lambda: client.edit(shop, "src/mail.py", "return to", "return to.lower()"),
        lambda: client.edit(shop, "src/auth.py", "hash(password)", "argon2(password)"),
        client.last(_LAST),
    )
    assert run.news(2, "src/mail.py is claimed: exclusive by bob") >= 1
    assert (shop.folder / "src/mail.py").read_bytes() == before["src/mail.py"]
    assert b"argon2(password)" in (shop.folder / "src/auth.py").read_bytes()
