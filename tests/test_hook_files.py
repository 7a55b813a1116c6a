"""What hooks say of the files that an agent reads and changes: once, when they are read, and not at all where another claims them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from hook_support import hook
from periplus.interop.hooks.events import HookEvent, command_of, is_reading, named_files, touched_paths
from periplus.journal import Writer
from periplus.journal.storage.layout import Layout
from periplus.journal.storage.settings import read_settings
from periplus.memory import Memory
from periplus.memory.coordination.claims import Asked
from periplus.memory.coordination.path_glance import glance, written_scope
from periplus.memory.scopes import overlap, parse_scope
from periplus.project import Project
from periplus.project.agent_hooks.told_facts import Told, remove_old

BOB = Writer("bob", "who_0000000000000009", "bobs", 1)
ADA = Writer("ada", "who_0000000000000000", "", 1)
EVENTS = {"gemini": "BeforeTool", "cursor": "preToolUse"}


@pytest.fixture
def place(tmp_path):
    """A project in which bob claims ``src/auth.py`` and something is known of it and of ``src/price.py``."""
    for name in ("auth.py", "price.py", "plain.py"):
        (tmp_path / "src").mkdir(exist_ok=True)
        (tmp_path / "src" / name).write_text("x = 1\n")
    Project.init(os.fspath(tmp_path))
    with Project.open(os.fspath(tmp_path), BOB) as project:
        project.work.claim(Asked(("src/auth.py",), "exclusive", "reworking it"))
        project.remember(Memory("trap", "The salt is read twice", about=("src/auth.py",)))
        project.remember(Memory("constraint", "Prices are whole cents", about=("src/price.py",)))
    return tmp_path


def told(place, tool, arguments, *, agent="claude-code", event="PreToolUse", session="mine", environment=None, **more):
    """What the real command answers to a call of a tool."""
    document = {
        "session_id": session,
        "cwd": os.fspath(place),
        "tool_name": tool,
        "tool_use_id": "t1",
        "tool_input": arguments,
        **more,
    }
    done = hook(event, document, cwd=place, agent=agent, environment=environment, words=())
    assert (done.returncode, done.stderr) == (0, b"")
    assert not list(place.rglob("notes")), [path.read_text() for path in place.rglob("notes")]
    return json.loads(done.stdout) if done.stdout else {}


def facts(answer):
    return answer.get("hookSpecificOutput", {}).get("additionalContext", "")


# -- claims of others ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agent", "tool", "arguments"),
    [
        ("claude-code", "Edit", {"file_path": "src/auth.py"}),
        ("codex", "apply_patch", {"command": "*** Begin Patch\n*** Update File: src/auth.py\n*** End Patch"}),
        ("gemini", "write_file", {"file_path": "src/auth.py"}),
        ("cursor", "Write", {"file_path": "src/auth.py"}),
        ("vscode", "multi_replace_string_in_file", {"replacements": [{"filePath": "src/auth.py"}]}),
        ("opencode", "edit", {"filePath": "src/auth.py"}),
    ],
)
def test_each_client_refuses_in_its_own_way_an_edit_of_what_another_claims(place, agent, tool, arguments):
    answer = told(place, tool, arguments, agent=agent, event=EVENTS.get(agent, "PreToolUse"))
    output = answer.get("hookSpecificOutput", answer)
    decision = output.get("permissionDecision") or output.get("permission") or output.get("decision")
    reason = output.get("permissionDecisionReason") or output.get("agent_message") or output.get("reason")
    assert decision == "deny"
    assert "src/auth.py is claimed: exclusive by bob, until 20" in reason
    assert "periplus inbox send bob" in reason


@pytest.mark.parametrize(
    "command",
    ["echo x > src/auth.py", "cd src && sed -i s/1/2/ auth.py", "rm -r src", "tee src/*.py < y", "mv src/auth.py src/old.py", "echo x >> ./src/../src/auth.py",
     "ln -sf /tmp/x src/auth.py", "apply_patch <<E\n*** Begin Patch\n*** Update File: src/auth.py\n*** End Patch\nE", "cat <<E | tee link.py\nx\nE",
     "bash -c 'echo x > src/auth.py'", "find src -name '*.py' -delete", "git checkout -- src/auth.py", "git -C src restore auth.py", "perl -pi -e s/1/2/ src/auth.py",
     "black src", "ruff format src/auth.py", "git checkout HEAD~1 ."],
)  # fmt: skip
def test_a_command_that_writes_what_another_claims_is_refused(place, command):
    (place / "link.py").symlink_to("src/auth.py")
    answer = told(place, "Bash", {"command": command})
    assert answer.get("hookSpecificOutput", {}).get("permissionDecision") == "deny", answer


@pytest.mark.parametrize(
    "command",
    [
        "cat src/auth.py",
        "grep -n x src/auth.py > found.txt",
        "sed -n 1p src/auth.py",
        "echo 'x > src/auth.py'",
        "git status",
        "rm src/plain.py",
        "git checkout -b src/new",
        "black --version",
        "prettier src/auth.py",
        "git restore --staged src/auth.py",
        "perl -ne print src/auth.py",
        "find src -name auth.py",
    ],
)
def test_a_command_that_writes_nothing_of_it_is_not_refused(place, command):
    assert "permissionDecision" not in told(place, "Bash", {"command": command}).get("hookSpecificOutput", {})


def test_a_command_in_other_words_of_its_agent_is_understood():
    def found(tool, arguments):
        return command_of(HookEvent("before-tool", "codex", "s", 0, cwd="/p", tool=tool, arguments=arguments))

    assert found("shell", {"command": ["bash", "-lc", "echo x > a.py"], "workdir": "src"}) == (
        "bash -lc 'echo x > a.py'",
        "/p/src",
    )
    assert found("exec_command", '{"cmd": "ls"}') == ("ls", "/p/")
    assert found("run_shell_command", {"command": "ls", "dir_path": "/q"}) == ("ls", "/q")
    assert found("Edit", {"command": "ls"}) == ("", "")
    assert found("Bash", {"command": ["ls", 1]}) == ("", "")
    assert touched_paths(HookEvent("before-tool", "codex", "s", 0, tool="bash", arguments={"path": "a"})) == ([], False)


def test_ones_own_claim_and_one_that_ended_stop_nothing(place):
    with Project.open(os.fspath(place), BOB) as project:
        project.work.release([])
    assert "permissionDecision" not in told(place, "Edit", {"file_path": "src/auth.py"}).get("hookSpecificOutput", {})
    words = ["-m", "periplus", "claim", "take", "src/plain.py", "--as", "claude-code"]
    environment = {**os.environ, "PERIPLUS_SESSION": "mine"}
    subprocess.run([sys.executable, *words], cwd=place, env=environment, check=True, capture_output=True)
    assert told(place, "Edit", {"file_path": "src/plain.py"}) == {}
    assert told(place, "Bash", {"command": "echo x > src/plain.py"}) == {}
    other = told(place, "Edit", {"file_path": "src/plain.py"}, session="another")
    assert other["hookSpecificOutput"]["permissionDecision"] == "deny"


@pytest.mark.parametrize(
    ("setting", "policy"),
    [("", "refuse"), ('claims = "tell"', "tell"), ('claimed = "tell"', "tell"), ('claimed = "deny"', "refuse"), ('claims = "ask"\nclaimed = "deny"', "ask")],
)  # fmt: skip
def test_the_setting_of_a_project_and_its_older_name(place, setting, policy):
    config = place / ".periplus/config.toml"
    config.write_text(f"{config.read_text()}\n[hooks]\n{setting}\n")
    assert read_settings(Layout(os.fspath(place / ".periplus"))).hooks.on_claim == policy


# -- told when it is read --------------------------------------------------------------------------------------------

READS = [
    ("claude-code", "PreToolUse", "Read", {"file_path": "src/price.py"}),
    ("claude-code", "PreToolUse", "Bash", {"command": "sed -n '1,5p' src/price.py | cat"}),
    ("codex", "PreToolUse", "Bash", {"command": "cat src/price.py"}),
    ("gemini", "AfterTool", "read_file", {"absolute_path": "src/price.py"}),
    ("vscode", "PreToolUse", "read_file", {"filePath": "src/price.py"}),
    ("opencode", "PreToolUse", "read", {"filePath": "src/price.py"}),
]


@pytest.mark.parametrize(("agent", "event", "tool", "arguments"), READS, ids=[f"{one[0]} {one[2]}" for one in READS])
def test_what_is_known_of_a_file_is_told_when_it_is_first_read(place, agent, event, tool, arguments):
    first = told(place, tool, arguments, agent=agent, event=event)
    assert "src/price.py: constraint: Prices are whole cents" in facts(first)
    assert told(place, tool, arguments, agent=agent, event=event, turn=2) == {}
    assert "whole cents" in facts(told(place, tool, arguments, agent=agent, event=event, session="another"))


@pytest.mark.slow
def test_before_an_edit_only_what_is_new_is_told(place):
    edit = {"file_path": "src/price.py", "old_string": "1", "new_string": "2"}
    assert "whole cents" in facts(told(place, "Read", {"file_path": "src/price.py"}))
    assert told(place, "Edit", edit) == {}
    with Project.open(os.fspath(place), ADA) as project:
        project.remember(Memory("trap", "Discounts are rounded down", about=("src/price.py",)))
    said = facts(told(place, "Edit", edit))
    assert "Discounts are rounded down" in said
    assert "whole cents" not in said
    assert told(place, "Edit", edit) == {}
    for event, more in (("PreCompact", {"trigger": "auto"}), ("SessionStart", {"source": "clear"})):
        hook(event, {"session_id": "mine", "cwd": os.fspath(place), **more}, cwd=place)
        said = facts(told(place, "Read", {"file_path": "src/price.py"}))
        assert "Discounts are rounded down" in said, f"after {event} the context is another"
        assert "whole cents" in said
    hook("SessionStart", {"session_id": "mine", "cwd": os.fspath(place), "source": "resume"}, cwd=place)
    assert told(place, "Read", {"file_path": "src/price.py"}) == {}
    assert "whole cents" in facts(told(place, "Read", {"file_path": "src/price.py"}, agent_id="a1")), (
        "a subagent has a context of its own"
    )


def test_reading_what_nothing_is_known_of_does_not_open_the_project(place):
    """It happens at every file that an agent reads, while a claim and rules of other files are there."""
    code = (
        "import sys\nfrom periplus.cli.hook_entry import tell_hook\ntell_hook(sys.argv[1:])\n"
        "sys.stdout.write(chr(32).join(sorted(sys.modules)))\n"
    )

    def loaded(tool, arguments):
        event = json.dumps(
            {"session_id": "s", "cwd": os.fspath(place), "tool_name": tool, "tool_input": arguments}
        ).encode()
        done = subprocess.run(
            [sys.executable, "-c", code, "PreToolUse"],
            input=event,
            cwd=place,
            capture_output=True,
            check=True,
            timeout=60,
        )
        return set(done.stdout.decode().split())

    heavy = {"msgspec", "orjson", "periplus.project.project", "periplus.journal.journal", "periplus.memory.fulltext.indexer", "periplus.memory.coordination.path_check",
             "periplus.interop.git_history.history_import", "periplus.shell.judgement", "typing_extensions", "inspect", "dataclasses"}  # fmt: skip
    assert loaded("Read", {"file_path": "src/plain.py"}) & heavy == set()
    assert loaded("Edit", {"file_path": "src/plain.py"}) & heavy == set()
    assert loaded("Bash", {"command": "ls -la src"}) & heavy == set()
    assert loaded("Bash", {"command": "cat src/plain.py"}) & heavy == set()
    assert loaded("Bash", {"command": "echo x > src/plain.py"}) & {"msgspec", "periplus.project.project"} == set()
    told(place, "Read", {"file_path": "src/price.py"}, session="s")
    assert loaded("Read", {"file_path": "src/price.py"}) & heavy == set(), "it was told, and nothing was written since"


def test_a_glance_gives_no_answer_where_the_index_may_be_behind(place):
    root = os.fspath(place / ".periplus")

    def seen():
        return glance(root, ["src/price.py"], "who_x", "", os.fspath(place), "2020-01-01T00:00:00.000Z")

    assert seen().has_rules
    assert seen().claimed == ("src/auth.py",)
    (segment,) = (place / ".periplus/journal").glob("lin_*/*.jsonl")
    sound = segment.read_bytes()
    segment.write_bytes(sound + b'{"item_type":"note"}\n')
    assert seen() is not None, "no claim and no rule"
    segment.write_bytes(sound + b'{"item_type":"trap"}\n')
    assert seen() is None
    segment.write_bytes(sound[:-1])
    assert seen() is None
    segment.write_bytes(sound)
    (place / ".periplus/index.sqlite").write_bytes(b"no database")
    assert seen() is None


def test_a_claim_that_ran_out_or_is_ones_own_is_none_at_a_glance(place):
    root = os.fspath(place / ".periplus")

    def claimed(holder, session, now):
        return glance(root, [], holder, session, os.fspath(place), now).claimed

    from periplus.memory.claim_status import session_id

    assert claimed("who_x", "", "2099-01-01T00:00:00.000Z") == ()
    assert claimed(BOB.id, session_id("bobs"), "2020-01-01T00:00:00.000Z") == ()
    assert claimed(BOB.id, session_id("another"), "2020-01-01T00:00:00.000Z") == ("src/auth.py",)


@pytest.mark.parametrize(
    ("written", "claimed", "meets"),
    [("src/*.py", "src/auth.py", True), ("src/*.js", "src/auth.py", False), ("src/[!a]*", "src/b.py", True), ("src/{a", "src/a", False),
     ("src/[", "src/auth.py", True), ("*", "src/auth.py", True), ("src", "src/auth.py:Login", True)],
)  # fmt: skip
def test_a_pattern_of_a_shell_meets_claims(tmp_path, written, claimed, meets):
    (tmp_path / "src").mkdir()
    assert overlap(written_scope(written, os.fspath(tmp_path)), parse_scope(claimed)) is meets


def test_words_of_a_command_that_are_files(tmp_path):
    (tmp_path / "a b.py").write_text("")
    (tmp_path / "c.py").write_text("")
    assert named_files("cat 'a b.py' <c.py;head nothing -n1 \"c.py\" | x=c.py", os.fspath(tmp_path)) == [
        "a b.py",
        "c.py",
    ]
    assert named_files("\0 '" + "x" * 100_000, os.fspath(tmp_path)) == []
    assert is_reading("cat a.py -n")
    assert not any(map(is_reading, ["cat a > b", "cat $(x)", "sed -i s/a/b/ x", "cat a\nrm b", "x=1 cat a", ""]))


def test_what_was_told_is_private_bounded_and_removed(tmp_path, monkeypatch):
    told_to = Told(os.fspath(tmp_path), "codex", "s")
    told_to.add(["a", "b"])
    assert Told(os.fspath(tmp_path), "codex", "s").fresh(["a", "c"]) == ["c"]
    assert Told(os.fspath(tmp_path), "codex", "s", "sub").fresh(["a"]) == ["a"]
    assert os.stat(told_to.path).st_mode & 0o777 == 0o600
    os.chmod(told_to.path, 0o644)
    assert Told(os.fspath(tmp_path), "codex", "s").fresh(["a"]) == ["a"], "others could have written it"
    os.unlink(told_to.path)
    os.symlink("/dev/zero", told_to.path)
    assert Told(os.fspath(tmp_path), "codex", "s").fresh(["a"]) == ["a"]
    with pytest.raises(OSError, match="symbolic"):
        Told(os.fspath(tmp_path), "codex", "s").add(["a"])
    os.unlink(told_to.path)
    many = [str(number) for number in range(20_000)]
    told_to = Told(os.fspath(tmp_path), "codex", "s")
    for begin in range(0, len(many), 1_000):
        told_to.add(many[begin : begin + 1_000])
    assert 0 < os.stat(told_to.path).st_size <= 1 << 18
    os.utime(told_to.path, (1, 1))
    remove_old(os.fspath(tmp_path))
    assert not os.path.exists(told_to.path)
