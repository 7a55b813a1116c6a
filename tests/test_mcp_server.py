"""``periplus mcp`` through the SDK's own client, over stdio and HTTP, in both generations of the protocol."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil

import pytest
from mcp.shared.exceptions import MCPDeprecationWarning

from cli_support import SECRET, claude_session
from mcp_support import MODES, Served, run, text_of
from periplus.base.text.token_estimate import estimate_tokens
from periplus.memory import Memory
from periplus.project import Project

DECLARED = """\
[types.risk]
prefix = "rsk"
meaning = "what may go wrong"

[types.risk.schema]
type = "object"
properties = { owner = { type = "string" }, costs = { type = "array", items = { type = "integer" } } }
"""
ID = re.compile(r"[a-z]{3}_[0-9a-z]{16}")


@pytest.fixture
def served(tmp_path):
    return Served(tmp_path)


async def call(client, tool, **arguments):
    return await client.call_tool(tool, arguments)


async def told(client, tool, **arguments):
    """The answer of a call that has to succeed, as text and as data."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text_of(result)
    return text_of(result), result.structured_content


async def refused(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert result.is_error, text_of(result)
    return text_of(result)


async def the_whole_story(client, mode):
    """Everything that a session does, from the list of tools to its last word."""
    assert client.protocol_version == {"legacy": "2025-11-25", "auto": "2026-07-28"}[mode]
    assert client.instructions.startswith("Periplus is the memory of this project")
    tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == [
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
    assert [tool.name for tool in tools if tool.annotations.read_only_hint] == ["brief", "recall", "show", "code"]
    assert all(tool.annotations.destructive_hint is (tool.name == "revise") for tool in tools)

    assert "No results." in (await told(client, "recall", question="how are passwords hashed"))[0]
    text, data = await told(client, "remember", type="decision", text="Passwords are hashed with argon2id",
                            rationale="bcrypt cuts at 72 bytes", about=["src/auth.py"], tags="auth")  # fmt: skip
    decision = data["id"]
    assert data["new"] is True
    assert decision in text
    text, data = await told(client, "remember", type="decision", text="Passwords are hashed with argon2id")
    assert (data["id"], data["new"]) == (decision, False)
    text, data = await told(client, "recall", question="what do we hash passwords with?")
    assert data["entries"][0]["id"] == decision
    assert "argon2id" in text
    assert "near" not in data
    text, data = await told(client, "recall", question="argom2id")
    assert text.startswith("Nothing is found for argom2id; one edit away: argon2id.")
    assert data["near"] == [{"asked": "argom2id", "found": ["argon2id"]}]
    text, data = await told(client, "show", id=decision[:10])
    assert "bcrypt cuts at 72 bytes" in text
    assert data["id"] == decision

    trap = (await told(client, "remember", type="trap", text="Login is called twice by the proxy", about=["src/auth.py"],
                       severity="high", remedy="make it idempotent"))[1]["id"]  # fmt: skip
    text, data = await told(client, "brief", paths=["src/auth.py"])
    assert "make it idempotent" in text
    assert data["blocked"] is False
    text, _ = await told(client, "brief", task="add rate limiting to login")
    assert "Login is called twice by the proxy" in text
    text, data = await told(
        client, "revise", ids=[trap], action="state", state="resolved", reason="the proxy was mended"
    )
    assert "(resolved)" in text
    text, _ = await told(client, "recall", question="twice by the proxy", types=["trap"])
    assert text.startswith("No current results; 1 superseded, resolved or expired ones with ended=true.")
    text, data = await told(client, "revise", ids=decision, action="replace", text="Passwords are hashed with scrypt")
    assert data["entries"][0]["text"] == "Passwords are hashed with scrypt"

    text, data = await told(client, "claim", action="take", paths=["src"], text="rate limits")
    claim = data["entries"][0]["id"]
    assert data["entries"][0]["own"] is True
    text, data = await told(client, "claim")
    assert claim in text
    text, data = await told(client, "plan", action="make", text="Rate limits", steps=[
        {"text": "Count requests", "paths": ["src/auth.py"]}, {"text": "Refuse", "after": [1]}])  # fmt: skip
    plan = data["id"]
    assert [entry["state"] for entry in data["entries"]] == ["todo", "todo"]
    step = (await told(client, "plan", action="next", plan=plan))[1]["step"]
    assert ID.fullmatch(step)
    assert "No step can be started" in (await told(client, "plan", action="next", plan=plan))[0]
    await told(client, "plan", action="done", ids=[step])
    assert "Refuse" in (await told(client, "plan"))[0]
    message = (await told(client, "message", action="send", to="ada", text="Mind the proxy", needs_answer=True))[1][
        "id"
    ]
    assert message.startswith("msg_")
    text, data = await told(client, "message", action="handoff", text="Counting is done", files=["src/auth.py"],
                            tests="none yet", unfinished=["refusing"], plan=plan)  # fmt: skip
    assert "to do: refusing" in text
    assert "handoff" in (await told(client, "message"))[0]
    await told(client, "claim", action="release", ids=[claim])

    templates = (await client.list_resource_templates()).resource_templates
    assert [one.uri_template for one in templates] == [
        "periplus://entity/{id}",
        "periplus://trail/{id}",
        "periplus://proof/{seq}",
    ]
    listed = (await client.list_resources()).resources
    assert f"periplus://entity/{plan}" in [str(one.uri) for one in listed]
    (content,) = (await client.read_resource(f"periplus://entity/{decision}")).contents
    assert json.loads(content.text)["value"]["state"] == "superseded"
    (content,) = (await client.read_resource("periplus://proof/1")).contents
    proof = base64.b64decode(content.blob)
    prompts = (await client.list_prompts()).prompts
    assert [one.name for one in prompts] == ["start", "end"]
    start = (await client.get_prompt("start", {"task": "log in faster"})).messages[0].content.text
    assert start.startswith("The task: log in faster")
    end = (await client.get_prompt("end")).messages[0].content.text
    assert "remember(" in end
    if mode == "legacy":
        with pytest.warns(MCPDeprecationWarning):  # it is of the older generation alone
            await client.send_ping()
    return proof


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_a_session_over_stdio(served, mode, tmp_path):
    async def talk():
        async with served.client(mode, name="claude-code") as client:
            return await the_whole_story(client, mode)

    proof = run(talk)
    (tmp_path / "one.proof").write_bytes(proof)
    assert served.shell("verify", tmp_path / "one.proof").lines
    with served.project() as project:
        (found,) = [one for one in project.journal.entities("decision") if one.value["state"] == "accepted"]
        assert found.writer == "claude-code"
        (first,) = [one for one in project.journal.entities("decision") if one.value["state"] == "superseded"]
        assert first.value["provenance"]["kind"] == "agent"
        assert first.value["author"] == "claude-code"
        (session,) = project.journal.entities("session")
        assert (session.value["agent"], session.value["state"], session.value["tool"]) == (
            "claude-code",
            "sealed",
            "mcp",
        )
        assert project.work.claims() == []  # the session's end let go of the step's claim
        (mail,) = project.journal.entities("message")
        assert mail.value["recipient"] == "ada"


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_a_session_over_http(served, mode):
    async def talk(url):
        async with served.at(url, mode, name="codex-mcp-client") as client:
            await the_whole_story(client, mode)

    with served.listening() as (url, process):
        run(talk, url)
    assert process.returncode == 0
    with served.project() as project:
        assert {one.writer for one in project.journal.entities("decision")} == {"codex"}
        (session,) = project.journal.entities("session")
        assert session.value["state"] == "sealed"


@pytest.mark.slow
def test_a_session_that_its_client_ends_lets_go_at_once(served):
    async def talk(url):
        async with served.at(url, name="cursor-vscode") as other:
            async with served.at(url, name="claude-code") as one:
                await told(one, "claim", action="take", paths=["src/auth.py"])
                await refused(other, "claim", action="take", paths=["src"])
            await told(other, "claim", action="take", paths=["src"])

    with served.listening() as (url, _):
        run(talk, url)
    with served.project() as project:
        assert [one.value["state"] for one in project.journal.entities("session")] == ["sealed", "sealed"]


def ended_by_another(served):
    with served.project() as project:
        (name,) = [one.session.value["name"] for one in project.work.who()]
    served.shell("session", "end", name)


def made_anew(served):
    shutil.rmtree(served.folder / ".periplus")
    served.shell("init")


@pytest.mark.slow
@pytest.mark.parametrize("meanwhile", [ended_by_another, made_anew])
def test_what_is_taken_after_its_session_was_ended_is_let_go_of_too(served, meanwhile):
    async def talk():
        async with served.client(name="claude-code") as client:
            await told(client, "claim", action="take", paths=["src/auth.py"])
            meanwhile(served)
            await told(client, "claim", action="take", paths=["src/other.py"])
            await told(client, "plan", action="make", text="Rate limits", steps=[{"text": "Count", "paths": ["src/a"]}])
            await told(client, "plan", action="next")
            with served.project() as project:
                (present,) = project.work.who()
                assert present.session is not None
                assert len(present.claims) == 2

    run(talk)
    with served.project() as project:
        assert project.work.who() == []
        assert [one.value["state"] for one in project.journal.entities("step")] == ["todo"]
        assert {one.value["state"] for one in project.journal.entities("session")} == {"sealed"}


@pytest.mark.slow
def test_two_agents_are_kept_apart(served):
    async def talk():
        async with served.client(name="claude-code") as one, served.client("auto", name="cursor-vscode") as other:
            await told(one, "claim", action="take", paths=["src/auth.py"], text="rate limits")
            said = await refused(other, "claim", action="take", paths=["src"])
            assert "claimed by claude-code" in said
            assert "--" not in said
            text, data = await told(other, "brief", paths=["src/auth.py"])
            assert text.startswith("STOP")
            assert data["blocked"] is True
            await told(other, "message", action="send", to="claude-code", text="Are you done?", needs_answer=True)
            text, data = await told(one, "message")
            (mail,) = data["entries"]
            assert mail["from"] == "cursor"
            await told(one, "message", action="answer", id=mail["id"], text="Now")
            await told(one, "claim", action="release")
            await told(other, "claim", action="take", paths=["src"])
            assert "Now" in (await told(other, "message"))[0]
            served.shell("remember", "Written beside two servers")
            assert "beside two servers" in (await told(one, "recall", question="written beside servers"))[0]

    run(talk)


@pytest.mark.slow
def test_who_it_was_started_for_writes(served):
    async def talk():
        async with served.client(name="probe", words=("--as", "grace"), env={"PERIPLUS_SESSION": "morning"}) as client:
            await told(client, "remember", text="The cache is warm at nine")

    run(talk)
    with served.project() as project:
        (note,) = project.journal.entities("note")
        assert (note.writer, note.value["session"]) == ("grace", "morning")
        (session,) = project.journal.entities("session")
        assert session.value["state"] == "open", "who began it elsewhere ends it there"


BUDGETS = (100, 250, 1_000, 4_000)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES if os.environ.get("PERIPLUS_EXHAUSTIVE") else MODES[:1])
def test_answers_keep_their_budget(served, mode):
    with served.project() as project:
        for number in range(40):
            project.remember(
                Memory(
                    "decision", f"Cog number {number} turns the wheel {number + 1}, " + "and so on " * (number % 7 * 20)
                )
            )
        project.remember(Memory("note", "A very long note about wheels: " + "word " * 1_500, about=("src/auth.py",)))
        project.remember(Memory("trap", "The wheel of src/auth.py squeaks", about=("src/auth.py",)))

    async def talk():
        async with served.client(mode) as client:
            long = (await told(client, "recall", question="very long note"))[1]["entries"][0]["id"]
            for budget in BUDGETS:
                for tool, arguments in (
                    ("recall", {"question": "which cog turns the wheel", "limit": 50}),
                    ("recall", {"question": "very long note", "limit": 1}),
                    ("brief", {"task": "turn the wheel with a cog"}),
                    ("brief", {"paths": ["src/auth.py"]}),
                    ("show", {"id": long}),
                ):
                    text, data = await told(client, tool, budget=budget, **arguments)
                    assert estimate_tokens(text) <= budget, (tool, arguments)
                    assert estimate_tokens(json.dumps(data, ensure_ascii=False)) <= budget, (tool, arguments)
            text, data = await told(client, "recall", question="which cog turns the wheel", budget=300)
            assert data["left_out"] > 0
            assert data["more"] in text
            seen = [entry["id"] for entry in data["entries"]]
            offset = int(re.search(r"offset=(\d+)", data["more"])[1])
            assert offset == len(seen)
            following = (await told(client, "recall", question="which cog turns the wheel", budget=300, offset=offset))[
                1
            ]
            assert not set(seen) & {entry["id"] for entry in following["entries"]}

    run(talk)


@pytest.mark.slow
def test_a_trail_is_shown_and_paged(served):
    claude_session(served.home / "s.jsonl", cwd=os.fspath(served.folder), steps=60)
    served.shell("trail", "import", served.home / "s.jsonl")

    async def talk():
        async with served.client() as client:
            text, data = await told(client, "recall", question="count the cogs", types=["trail"])
            trail = data["entries"][0]["id"].partition("#")[0]
            steps, offset = [], 0
            while True:
                text, data = await told(client, "show", id=trail, offset=offset, budget=400)
                steps += [entry["step"] for entry in data["entries"]]
                if not data["left_out"]:
                    break
                offset = int(re.search(r"offset=(\d+)", data["more"])[1])
            assert steps == list(range(data["steps"]))
            text, _ = await told(client, "show", id=f"{trail}#0")
            assert "Count the cogs of the engine" in text
            assert "no step" in await refused(client, "show", id=f"{trail}#9999")
            (content,) = (await client.read_resource(f"periplus://trail/{trail}")).contents
            assert "make cog59" in content.text

    run(talk)


@pytest.mark.slow
def test_types_may_name_parts_of_trails(served):
    """Memories of any named type and any named part are found; ``kinds`` beside ``types`` demands both."""
    claude_session(served.home / "s.jsonl", cwd=os.fspath(served.folder), steps=2)
    served.shell("trail", "import", served.home / "s.jsonl")
    served.shell("remember", "Make a cog only once", "--type", "trap")

    async def talk():
        async with served.client() as client:

            async def kinds_of(**filters):
                return {
                    one["kind"] for one in (await told(client, "recall", question="make cog", **filters))[1]["entries"]
                }

            assert await kinds_of(types=["command"]) == await kinds_of(kinds=["command"]) == {"command"}
            assert await kinds_of(types=["trap", "command"]) == {"trap", "command"}
            assert await kinds_of(types=["trail"]) > {"command"}
            assert await kinds_of(types=["trail", "command", "trap"]) == await kinds_of(types=["trail"]) | {"trap"}
            assert await kinds_of(types=["trail"], kinds=["command"]) == {"command"}

    run(talk)


@pytest.mark.slow
def test_resources_are_listed_page_by_page(served):
    with served.project() as project:
        for number in range(120):
            project.remember(Memory("note", f"Note {number} of many"))
        project.remember(Memory("decision", "All wheels are round"))

    async def talk():
        async with served.client() as client:
            found, cursor = [], None
            while True:
                page = await client.list_resources(cursor=cursor)
                assert len(page.resources) <= 100
                found += [str(one.uri) for one in page.resources]
                cursor = page.next_cursor
                if cursor is None:
                    break
            assert len(found) == len(set(found)) == 121
            for wrong in ("x", "!!", base64.urlsafe_b64encode(b"99/zzz").decode(), "é"):
                with pytest.raises(Exception, match="is not a cursor of this list"):
                    await client.list_resources(cursor=wrong)

    run(talk)


@pytest.mark.slow
def test_secrets_are_refused(served):
    async def talk():
        async with served.client() as client:
            trap = (await told(client, "remember", type="trap", text="Mind the proxy"))[1]["id"]
            for tool, arguments in (
                ("remember", {"text": f"The key is {SECRET}"}),
                ("remember", {"text": "x", "rationale": f"as {SECRET} says", "type": "decision"}),
                ("message", {"action": "send", "to": "ada", "text": f"use {SECRET}"}),
                ("plan", {"action": "make", "text": f"rotate {SECRET}"}),
                ("remember", {"text": "x", "key": SECRET}),
                ("revise", {"ids": [trap], "action": "state", "state": "resolved", "reason": f"{'so ' * 61}{SECRET}"}),
                ("revise", {"ids": [trap], "action": "state", "state": "resolved", "key": f"k-{SECRET}"}),
            ):
                said = await refused(client, tool, **arguments)
                assert "secret" in said
                assert SECRET not in said

    run(talk)
    assert not any(SECRET.encode() in path.read_bytes() for path in served.folder.rglob("*") if path.is_file())


@pytest.mark.slow
def test_the_store_may_come_later_and_be_another(tmp_path):
    served = Served(tmp_path, store=False)

    async def talk():
        async with served.client() as client:
            said = await refused(client, "recall", question="anything")
            assert "periplus init" in said
            with pytest.raises(Exception, match="periplus init"):
                await client.list_resources()
            Project.init(os.fspath(served.folder))
            await told(client, "remember", text="The first store")
            os.rename(served.folder / ".periplus", served.home / "old")
            assert "periplus init" in await refused(client, "recall", question="store")
            Project.init(os.fspath(served.folder))
            assert "No results." in (await told(client, "recall", question="store"))[0]
            await told(client, "remember", text="The second store")

    run(talk)


@pytest.mark.slow
def test_a_journal_whose_place_a_copy_took_is_told_and_the_next_call_opens_it(served):
    async def talk():
        async with served.client() as client:
            await told(client, "remember", text="Kept in the journal")
            journal = served.folder / ".periplus/journal"
            shutil.copytree(journal, served.home / "copy")
            os.rename(journal, served.home / "aside")
            os.rename(served.home / "copy", journal)
            assert "no longer the store" in await refused(client, "recall", question="kept journal")
            assert "Kept in the journal" in (await told(client, "recall", question="kept journal"))[0]

    run(talk)


@pytest.mark.slow
def test_a_damaged_index_is_built_anew(served):
    async def talk():
        async with served.client() as client:
            await told(client, "remember", text="Kept in the journal")
            (index,) = served.folder.glob(".periplus/**/index.sqlite")
            for path in index.parent.glob("index.sqlite-*"):
                path.unlink()
            index.write_bytes(b"no database " * 1_000)
            assert "Kept in the journal" in (await told(client, "recall", question="kept journal"))[0]

    run(talk)


def declare(served, text):
    with (served.folder / ".periplus" / "config.toml").open("a") as file:
        file.write(f"\n{text}")


@pytest.mark.slow
def test_it_works_in_the_session_that_the_agents_hooks_tell_of(served):
    """Else its hook would refuse an edit because of the agent's own claim."""

    def hook(event, **more):
        document = {"session_id": "5e551011", "cwd": os.fspath(served.folder), "hook_event_name": event, **more}
        return served.shell("hook", event, stdin=json.dumps(document)).out

    declare(served, '[hooks]\nclaimed = "deny"\n')
    hook("SessionStart", source="startup")
    edit = {
        "tool_name": "Write",
        "tool_input": {"file_path": os.fspath(served.folder / "src" / "auth.py"), "content": "x"},
    }

    async def talk():
        async with served.client(name="claude-code") as client, served.client(name="codex-mcp-client") as other:
            _, data = await told(client, "claim", action="take", paths=["src/auth.py"])
            assert data["entries"][0]["own"] is True
            assert "deny" not in hook("PreToolUse", **edit)
            await told(client, "claim", action="release")
            await told(other, "claim", action="take", paths=["src"])
            assert "claimed by codex" in await refused(client, "claim", action="take", paths=["src/auth.py"])
            assert "deny" in hook("PreToolUse", **edit)

    run(talk)
    with served.project() as project:
        sessions = {one.value["name"]: one.value for one in project.journal.entities("session")}
        assert sessions["5e551011"]["state"] == "open", "the hooks' session is ended by its hook"
        assert sorted(one["agent"] for one in sessions.values()) == ["claude-code", "codex"]


@pytest.mark.slow
def test_a_claim_that_may_be_its_own_refuses_no_session_of_the_agent(served):
    """With several sessions open nobody can say which of them a connection serves."""

    def hook(event, session, **more):
        document = {"session_id": session, "cwd": os.fspath(served.folder), "hook_event_name": event, **more}
        return served.shell("hook", event, stdin=json.dumps(document)).out

    edit = {
        "tool_name": "Write",
        "tool_input": {"file_path": os.fspath(served.folder / "src" / "auth.py"), "content": "x"},
    }
    declare(served, '[hooks]\nclaimed = "deny"\n')
    for session in ("5e551011", "5e551012"):
        hook("SessionStart", session, source="startup")

    async def talk():
        async with served.client(name="claude-code") as client, served.client(name="codex-mcp-client") as other:
            await told(client, "claim", action="take", paths=["src/auth.py"])
            for session in ("5e551011", "5e551012"):
                said = hook("PreToolUse", session, **edit)
                assert "is claimed: exclusive by claude-code" in said
                assert "perhaps by you" in said
                assert "permissionDecision" not in said
            await told(client, "claim", action="release")
            await told(other, "claim", action="take", paths=["src"])
            said = hook("PreToolUse", "5e551011", **edit)
            assert "perhaps by you" not in said
            assert '"permissionDecision": "deny"' in said

    run(talk)


@pytest.mark.slow
def test_types_that_the_project_declares(served):
    async def talk():
        async with served.client() as client:
            said = await refused(client, "remember", type="risk", text="The cache may fill")
            assert "unknown type 'risk'" in said
            declare(served, DECLARED)
            _, data = await told(
                client, "remember", type="risk", text="The cache may fill", fields={"owner": "ada", "costs": [300]}
            )
            assert data["type"] == "risk"
            assert "The cache may fill" in (await told(client, "recall", question="cache", types=["risk"]))[0]
            assert f"periplus://entity/{data['id']}" in [
                str(one.uri) for one in (await client.list_resources()).resources
            ]

    run(talk)


async def all_there_is(client, **asked):
    """The ids that ``brief`` and the calls that it names as ``more`` show, until nothing is left out; each call shows something new."""
    seen: set[str] = set()
    tool = "brief"
    while True:
        _, data = await told(client, tool, **asked)
        found = {entry["id"].partition("#")[0] for entry in data["entries"] if entry.get("id")}
        assert found - seen, f"{tool}({asked}) shows nothing new"
        seen |= found
        if not data["left_out"]:
            return seen
        tool, words = re.fullmatch(r"(\w+)\((.*)\)", data["more"]).groups()
        asked = {name: json.loads(value) for name, value in re.findall(r'(\w+)=(\[.*?\]|".*?"|\d+)(?:, |$)', words)}


@pytest.mark.slow
def test_what_a_brief_leaves_out_is_shown_by_the_call_that_it_names(served):
    with served.project() as project:
        traps = {
            project.remember(Memory("trap", f"The zebra bites, number {number}", about=("src/auth.py",))).entity.item_id
            for number in range(60)
        }

    async def talk():
        async with served.client() as client:
            _, data = await told(client, "brief", task="zebra")
            assert data["more"] == 'recall(question="zebra", types=["trap"])'
            assert len(data["entries"]) + data["left_out"] == len(traps)
            _, data = await told(client, "brief", paths=["src/auth.py"])
            assert len(data["entries"]) + data["left_out"] == len(traps), "each trap is counted once"
            for asked in (
                {"task": "zebra", "budget": 200},
                {"paths": ["src/auth.py"]},
                {"since": "2020-01-01", "budget": 100},
            ):
                assert await all_there_is(client, **asked) == traps, asked
            _, data = await told(client, "brief", since="2020-01-01", task="zebra", budget=200)
            assert data["more"] == 'brief(task="zebra", since="2020-01-01", budget=400)'

    run(talk)


@pytest.mark.slow
def test_what_names_no_file_is_told(served):
    (served.folder / "src" / "b.py").write_text("x = 1\n")

    async def talk():
        async with served.client() as client:
            text, data = await told(client, "remember", type="trap", text="Mind b", about=["b.py", "src/b.py"])
            (note,) = data["notes"]
            assert note.startswith("b.py does not exist (paths lead from the project's folder)")
            assert note in text
            text, data = await told(client, "revise", ids=[data["id"]], action="set", fields={"about": ["c.py"]})
            assert data["notes"][0].startswith("c.py does not exist")
            assert data["notes"][0] in text
            text, data = await told(client, "claim", action="take", paths=["b.py", "src/b.py:x", "docs/*.md"])
            assert data["notes"] == ["b.py does not exist yet (paths lead from the project's folder)"]
            assert data["notes"][0] in text
            text, data = await told(client, "remember", text="Seen twice", evidence=["record:999", "record:1"])
            assert data["notes"] == ["there is no record 999 here: it is kept as evidence all the same"]
            (about,) = [
                tool.input_schema["properties"]["about"]
                for tool in (await client.list_tools()).tools
                if tool.name == "remember"
            ]
            assert "from the project's folder" in about["description"]

    run(talk)


@pytest.mark.slow
def test_refusals_name_calls_of_these_tools(served):
    async def talk():
        async with served.client(name="claude-code") as client, served.client(name="codex") as other:
            await told(other, "claim", action="take", paths=["src"])
            said = await refused(client, "claim", action="take", paths=["src/auth.py"])
            assert 'ask the holder (message(action="send", to="codex", …))' in said
            await told(client, "claim", action="take", paths=["docs"])
            strange = await refused(other, "claim", action="take", paths=["docs/index.md"])
            assert 'message(action="send", to="claude-code", …)' in strange
            message = (await told(client, "message", action="send", to="ada", text="Mind the proxy"))[1]["id"]
            said = await refused(client, "message", action="read", id=message)
            assert f'show(id="{message}")' in said
            assert "--" not in said
            assert "periplus" not in await refused(client, "show", id="trp_0000000000000000")
            assert "periplus" not in await refused(client, "brief", since="yesterday evening")
            said = await refused(client, "plan", action="finish")
            assert said.endswith("Allowed: add, block, done, drop, list, make, next, reopen, show.")
            said = await refused(client, "recall", question="x", kinds=["rumour"])
            assert said.endswith("Allowed: answer, command, commit, prompt, session.")
            for tool, asked in (
                ("recall", {"question": "x", "types": ["rumour"]}),
                ("recall", {"question": "x", "path": "../x"}),
                ("brief", {"paths": ["../x"]}),
            ):
                assert "Nothing was changed." in await refused(client, tool, **asked)
            long = "proxy " * 2_000
            start = (await client.get_prompt("start", {"task": long})).messages[0].content.text
            assert start.startswith(f"The task: {long.strip()}")

    run(talk)


@pytest.mark.slow
def test_nothing_that_others_changed_is_said(served):
    served.shell("remember", "The harbour opens at nine")

    async def talk():
        async with served.client() as client:
            assert (await told(client, "brief", since="2099-01-01"))[0] == "No changes by others since 2099-01-01."
            text, _ = await told(client, "brief", since="2099-01-01", task="harbour")
            assert "opens at nine" in text
            assert text.endswith("No changes by others since 2099-01-01.")

    run(talk)


@pytest.mark.slow
def test_what_changed_since_is_told(served):
    served.shell("remember", "Ada was here")

    async def talk():
        async with served.client() as client:
            text, data = await told(client, "brief", since="2020-01-01")
            assert "Ada was here" in text
            assert data["entries"][0]["section"] == "changed"
            assert "brief(since" not in await refused(client, "brief", since="whenever")

    run(talk)


@pytest.mark.slow
def test_a_rule_whose_code_moved_is_told_at_its_new_path(served):
    async def talk():
        async with served.client(name="claude-code") as client:
            for number in range(20):
                with (served.folder / "src/auth.py").open("a") as file:
                    file.write(f"\n\ndef step_{number}(name):\n    return name + str({number})\n")
            trap = (await told(client, "remember", type="trap", text="Login is called twice", about=["src/auth.py"]))[
                1
            ]["id"]
            (served.folder / "src/auth.py").rename(served.folder / "src/login.py")
            text, data = await told(client, "brief", paths=["src/login.py"])
            assert (
                f"- trap about src/login.py: Login is called twice (written for src/auth.py, which moved here) [{trap}]"
                in text
            )
            assert [one["moved_from"] for one in data["entries"] if one["id"] == trap] == ["src/auth.py"]

    run(talk)


@pytest.mark.slow
def test_who_writes_to_a_name_that_nearly_somebody_has_is_told(served):
    async def talk():
        async with served.client(name="codex") as other, served.client(name="claude-code") as client:
            await told(other, "remember", text="The proxy calls twice")
            text, data = await told(client, "message", action="send", to="Codex", text="Which one?")
            [note] = data["notes"]
            assert note.startswith("Nobody here is called Codex, but somebody is called codex, who does not get this.")
            assert note.endswith('If codex is meant, repeat the call with to="codex"')
            assert note in text
            text, data = await told(client, "message", action="handoff", to="codez", text="The rest is yours")
            assert 'repeat the call with to="codex"' in text
            assert len(data["notes"]) == 1
            for name in ("codex", "", "somebody"):
                if name:
                    assert (await told(client, "message", action="send", to=name, text="Hello"))[1]["notes"] == []
                assert (await told(client, "message", action="handoff", to=name, text="On"))[1]["notes"] == []

    run(talk)
