"""A day of two agents in one project, with real processes: an agent with hooks, one over MCP, people on the command line, two clones."""

from __future__ import annotations

import json
import subprocess

import anyio
import pytest

from cli_support import Shell, decoded, git
from hook_support import hook
from mcp_support import Served

AUTH = """import hashlib


def hash_password(word):
    return hashlib.scrypt(word, salt=new_salt())


def close(session):
    session.open = False
"""
SHOP = "def sell(thing):\n    return thing\n"
DENY = '\n[hooks]\nclaimed = "deny"\n'


class Day:
    """The project with its store, in git, and who works in it."""

    def __init__(self, tmp_path):
        self.served = Served(tmp_path, store=False)
        self.folder, self.shell = self.served.folder, self.served.shell
        (self.folder / ".git").rmdir()
        git(self.folder, "init", "-q", "-b", "main")
        (self.folder / "src" / "auth.py").write_text(AUTH)
        (self.folder / "src" / "shop.py").write_text(SHOP)
        self.shell("init")
        with (self.folder / ".periplus" / "config.toml").open("a") as file:
            file.write(DENY)
        self.commit("begin")

    def commit(self, message):
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "-q", "-m", message)
        return subprocess.run(
            ["git", "-C", self.folder, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
        ).stdout[:12]

    def ada(self, *words, code=0):
        """The first agent's own command line, within her session."""
        done = self.shell(*words, "--json", code=code, env={"PERIPLUS_AGENT": "ada", "PERIPLUS_SESSION": "s-ada"})
        return decoded(done.out)

    def hook(self, event, session, **more):
        """What the agent of a session tells at an event, and what it is told."""
        document = {"session_id": session, "cwd": str(self.folder), "hook_event_name": event, **more}
        done = hook(event, document, cwd=self.folder,
                    environment={"HOME": str(self.served.home), "PERIPLUS_AGENT": session.removeprefix("s-")})  # fmt: skip
        assert (done.returncode, done.stderr) == (0, b""), done
        return json.loads(done.stdout)["hookSpecificOutput"] if done.stdout.strip() else {}

    def edits(self, session, path):
        return self.hook("PreToolUse", session, tool_name="Edit",
                         tool_input={"file_path": str(self.folder / path), "old_string": "a", "new_string": "b"})  # fmt: skip


@pytest.fixture
def day(tmp_path):
    return Day(tmp_path)


async def told(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content, "".join(block.text for block in result.content if block.type == "text")


async def refused(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.content
    return "".join(block.text for block in result.content if block.type == "text")


@pytest.mark.slow
def test_a_day_of_two_agents_in_one_project(day, tmp_path):
    # In the morning ada's agent decides something, and makes a plan.
    day.hook("SessionStart", "s-ada", source="startup")
    decision = day.ada(
        "remember", "Passwords are hashed with scrypt", "--type", "decision", "--about", "src/auth.py:4-5"
    ).entity.id
    plan = day.ada("plan", "make", "Hash with argon2", "--rationale", "scrypt is slow here").plan.id
    first = day.ada("plan", "add", plan, "change the hash", "--scope", "src/auth.py", "--priority", "90").steps[-1].id
    second = day.ada("plan", "add", plan, "tell the shop", "--scope", "src/shop.py").steps[-1].id
    third = day.ada("plan", "add", plan, "test it all", "--after", first, "--after", second).steps[-1].id
    assert day.ada("plan", "next", "--plan", plan).step.id == first

    async def bobs_morning():
        async with day.served.client("auto", name="bob") as bob:
            _, text = await told(bob, "brief", task="hash passwords in src/auth.py with argon2", paths=["src/auth.py"])
            assert "ada" in text
            assert "Passwords are hashed with scrypt" in text
            # What ada holds he cannot have; the next step that is ready is another.
            said = await refused(bob, "claim", action="take", paths=["src"], text="tidy up")
            assert "ada" in said
            _, text = await told(bob, "plan", action="next", plan=plan)
            assert second in text
            assert first not in text.partition("claim")[0]
            said = await refused(bob, "plan", action="done", ids=[first])
            assert "ada" in said, "a step that somebody else does is not ended under her hands"
            await told(bob, "message", action="send", to="ada", text="Does the shop have to know of the salt?",
                                    ref=first, needs_answer=True)  # fmt: skip
            await told(bob, "plan", action="done", ids=[second])
            await told(bob, "message", action="handoff", to="ada", text="The shop is told", files=["src/shop.py"],
                                    unfinished=["tell the printers"], plan=plan)  # fmt: skip

    anyio.run(bobs_morning)

    # Another agent's edit of what ada holds is refused by its hook; hers is not.
    answer = day.edits("s-eve", "src/auth.py")
    assert answer["permissionDecision"] == "deny"
    assert "ada" in answer["permissionDecisionReason"]
    assert day.edits("s-ada", "src/auth.py").get("permissionDecision") != "deny"
    assert day.edits("s-eve", "src/shop.py").get("permissionDecision") != "deny"
    blocked = decoded(day.shell("check", "src/auth.py", "--as", "eve", "--json", code=1).out)
    assert blocked.blocked

    # Ada reads her mail and the handoff, and answers.
    brief = day.ada("brief", "go on with argon2")
    assert "Does the shop have to know" in brief.text
    assert "tell the printers" in brief.text
    (mail,) = day.ada("inbox", "mail").messages
    day.ada("inbox", "answer", mail.id, "No, it is in the hash")
    (handoff,) = day.ada("handoff", "list").handoffs
    assert day.ada("handoff", "accept", handoff.id).handoff.accepted_by == "ada"
    thread = decoded(day.shell("inbox", "mail", "--as", "bob", "--json").out).messages
    assert [(one.sender, one.text) for one in thread] == [("ada", "No, it is in the hash")]

    # Eve stands in line for the file; ada changes it, and what was decided of it is stale.
    waiting = day.shell.start(
        "claim", "take", "src/auth.py", "--wait", "300", "--as", "eve", stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    while not decoded(day.shell("claim", "list", "--json").out).waiting:
        assert waiting.poll() is None, waiting.communicate()
    (day.folder / "src" / "auth.py").write_text(AUTH.replace("hashlib.scrypt(word, salt=new_salt())", "argon2(word)"))
    commit = day.commit("argon2")
    day.ada("plan", "done", first)
    out, err = waiting.communicate(timeout=120)
    assert (waiting.returncode, err) == (0, b""), out
    assert [(one.holder, one.scopes) for one in day.ada("claim", "list").claims] == [("eve", ["src/auth.py"])]
    day.shell("claim", "release", "--as", "eve")
    (hit,) = [one for one in day.ada("recall", "how are passwords hashed").hits if one.id == decision]
    assert any(commit in one for one in hit.standing), hit
    assert [one.id for one in day.ada("review", code=1).due] == [decision]
    new = day.ada("evolve", decision, "Passwords are hashed with argon2").entities[0]
    assert day.ada("review").due == []
    assert day.ada("recall", "how are passwords hashed").hits[0].id == new.id
    assert day.ada("plan", "ready").steps[0].id == third

    # At noon the other clone has its own say, and both take in what the other wrote.
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(day.folder), str(clone))
    other = Shell(clone, day.served.home)
    other("init")
    stick = tmp_path / "stick"
    stick.mkdir()
    for shell in (day.shell, other):
        shell("sync", "--with", str(stick))
    other("set", new.id, "tags=security", "--as", "dan")
    other("remember", "The printers need the old hash until May", "--type", "trap", "--as", "dan")
    day.ada("set", new.id, "tags=hash", "rationale=scrypt took 2 s")
    for shell in (other, day.shell, other):
        shell("sync", "--with", str(stick))
    merged = [shell.json("show", new.id).entity for shell in (day.shell, other)]
    assert [sorted(one.value["tags"]) for one in merged] == [["hash", "security"]] * 2
    assert [one.value["rationale"] for one in merged] == ["scrypt took 2 s"] * 2
    assert day.ada("recall", "printers old hash").hits[0].kind == "trap"

    # A session that went wrong is taken back whole: what it wrote is gone, what it changed is as it was.
    env = {"PERIPLUS_AGENT": "zoe", "PERIPLUS_SESSION": "s-zoe"}
    trap = decoded(day.shell("remember", "Never use argon2", "--type", "constraint", "--json", env=env).out).entity.id
    day.shell("set", new.id, "confidence=1", env=env)
    day.shell("state", new.id, "deferred", env=env)
    bad = decoded(day.shell("plan", "make", "Rewrite it all", "--step", "delete src", "--json", env=env).out).plan.id
    day.shell("plan", "drop", plan, env=env)
    day.shell("inbox", "send", "ada", "I fixed it", env=env)
    day.shell("claim", "take", "doc", env=env)
    undone = decoded(day.shell("undo", "--session", "s-zoe", "--json").out)
    assert all(one.outcome != "conflict" for one in undone.entities)
    now = day.shell.json("show", new.id).entity.value
    assert (now["state"], now.get("confidence", 100)) == ("accepted", 100)
    for gone in (trap, bad):
        day.shell.fails("show", gone, code=1, wrong=f"{gone} was deleted")
    assert [one.state for one in day.ada("plan", "show", plan).steps] == ["done", "done", "todo"]
    assert day.ada("inbox", "mail", code=1).messages == []
    assert day.ada("claim", "list", code=1).claims == []

    # In the evening the work is passed on, the session ends, and all is sound on both sides.
    assert day.ada("plan", "next").step.id == third
    day.ada("handoff", "write", "argon2 is in", "--unfinished", "test it all", "--plan", plan, "--file", "src/auth.py")
    day.ada("session", "end", "s-ada")
    assert day.ada("claim", "list", code=1).claims == [], "who ends lets go"
    assert day.ada("plan", "ready").steps[0].id == third

    async def bobs_evening():
        async with day.served.client("auto", name="bob") as bob:
            _, text = await told(bob, "brief", task="test the hash")
            assert "argon2 is in" in text
            assert "Passwords are hashed with argon2" in text
            assert "The printers need the old hash" in text
            _, text = await told(bob, "plan", action="next")
            assert third in text

    anyio.run(bobs_evening)
    for shell in (other, day.shell, other):
        shell("sync", "--with", str(stick))
    for shell in (day.shell, other):
        assert shell("doctor").lines[-1].startswith("sound")
