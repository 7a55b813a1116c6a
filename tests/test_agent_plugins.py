"""Plugins: the manifest, whose word turns one on, what their programs may do, and what a hostile one cannot."""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from agent_room import Place, results, system
from cli_support import git
from periplus.agent.contracts import Continue, Message, Stop, ToolCall, ToolDecision, ToolResult, Usage
from periplus.agent.hooks import SEAMS, Composite
from periplus.agent.models.scripted import answer, call
from periplus.agent.plugins.discovery import find_plugins, named_plugin
from periplus.agent.plugins.folder_copy import copy_out, read_folder
from periplus.agent.plugins.manifest import HookRow, parameters_of, read_manifest
from periplus.agent.plugins.program_hooks import hook_of
from periplus.agent.plugins.program_runner import PluginError, ProgramCancelledError, ProgramPlace, Programs
from periplus.agent.plugins.trust_list import PluginTrust, TrustedPlugin
from periplus.agent.sandbox import Unconfined, find_sandbox
from periplus.base.errors import FormatError, NotFoundError, RefusedError, UsageError
from periplus.base.files import Files
from support import Stop as StopNow
from support import StoppingFiles

PYTHON = json.dumps(sys.executable)
ECHO = """\
name = "echo"
version = "1.0"
description = "says what it is told"
skills = "skills"

[[tools]]
name = "say"
description = "Says it again."
command = [PYTHON, "say.py"]
deadline_s = 20

[tools.parameters]
type = "object"
required = ["text"]
[tools.parameters.properties]
text = { type = "string", description = "what to say", maxLength = 100 }
times = { type = "integer", minimum = 1, maximum = 3 }
"""
SAY = """\
import json, sys
asked = json.loads(sys.stdin.readline())
args = asked["args"]
print(json.dumps({"output": " ".join([args["text"]] * args.get("times", 1))}))
"""


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def plugin(place, name="echo", manifest=ECHO, files=None, *, at=None, trusted=True, unsandboxed=False):
    folder = (at or place.config / "plugins") / name
    folder.mkdir(parents=True, exist_ok=True)
    text = manifest.replace("PYTHON", PYTHON).replace('name = "echo"', f'name = "{name}"', 1)
    (folder / "plugin.toml").write_text(text)
    for path, content in (files if files is not None else {"say.py": SAY}).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(textwrap.dedent(content))
    if trusted:
        found = named_plugin(find_plugins(str(place.config), str(place.root), is_trusted=True), name)
        assert found.held is not None, found.problem
        PluginTrust(str(place.config)).give(str(folder), found.held.digest, unsandboxed=unsandboxed)
    return folder


def tool(code, *, more="", accesses=(), deadline_s=20):
    """A plugin of one tool whose program is ``code``."""
    manifest = f'name = "echo"\nversion = "1"\n[[tools]]\nname = "go"\ndescription = "Goes."\ncommand = [PYTHON, "go.py"]\naccesses = {json.dumps(list(accesses))}\ndeadline_s = {deadline_s}\n{more}'
    return {"manifest": manifest, "files": {"go.py": code}}


# -- the manifest -----------------------------------------------------------------------------------------------------------


def test_a_manifest_is_read():
    found = read_manifest(ECHO.replace("PYTHON", '"python3"').encode(), "plugin.toml")
    assert (found.name, found.version, found.skills, found.source) == ("echo", "1.0", "skills", "plugin echo")
    (row,) = found.tools
    assert [(one.name, one.kind, one.required, one.least, one.most) for one in row.parameters] == [
        ("text", "text", True, None, 100), ("times", "integer", False, 1, 3),
    ]  # fmt: skip
    servers = read_manifest(
        b'name = "a"\nversion = "1"\n[[servers]]\nname = "s"\ncommand = ["node", "{plugin}/s.js"]\nenvironment = {A = "b"}\n'
        b'[[servers]]\nname = "t"\nurl = "https://x.example/"\nheaders = {B = "c"}\n', "p",
    ).servers  # fmt: skip
    assert [
        (one.name, one.command, one.url, dict(one.environment), dict(one.headers), one.source) for one in servers
    ] == [
        ("a-s", ("node", "{plugin}/s.js"), "", {"A": "b"}, {}, "plugin a"),
        ("a-t", (), "https://x.example/", {}, {"B": "c"}, "plugin a"),
    ]


BASE = 'name = "a"\nversion = "1"\n'
TOOL = f'{BASE}[[tools]]\nname = "t"\ndescription = "d"\ncommand = ["x"]\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('version = "1"', "name: it is missing"),
        ('name = "A"\nversion = "1"', "name: 'A' is not a name"),
        ('name = "a"', "version: it is missing"),
        (f"{BASE}tolls = []", "tolls: unknown field"),
        (f"{BASE}skills = '../x'", "is not a folder of the plugin"),
        (f"{BASE}tools = 3", "tools: it must be up to 12 tables"),
        (f"{TOOL}comand = 1", "tools[0].comand: unknown field"),
        (f"{BASE}[[tools]]\nname = 't'\ncommand = ['x']", "tools[0].description: it is missing"),
        (f"{BASE}[[tools]]\nname = 't'\ndescription = 'd'", "tools[0].command: it must be a list of words"),
        (TOOL.replace('["x"]', '"rm -rf /"'), "tools[0].command: it must be a list"),
        (TOOL.replace('["x"]', '["../x"]'), "is neither a file of the plugin"),
        (f'{TOOL}accesses = ["everything"]', "tools[0].accesses: 'everything' is not one of them"),
        (f"{TOOL}deadline_s = 0", "tools[0].deadline_s: it must be a number of seconds, up to 600"),
        (f"{TOOL}[[tools]]\nname = 't'\ndescription = 'd'\ncommand = ['x']", "two of them are named 't'"),
        (f"{TOOL}parameters = {{type = 'object', properties = {{a = {{type = 'strng'}}}}}}", "tools[0].parameters.a.type: it is one of"),
        (f"{TOOL}parameters = {{properties = {{}}, patternProperties = 1}}", "patternProperties: this key is not supported"),
        (f"{TOOL}parameters = {{properties = {{}}, required = ['b']}}", "required: it must name properties that exist"),
        (f"{BASE}[[hooks]]\nseam = 'authorise_tool'\ncommand = ['x']", "hooks[0].seam: there is no seam"),
        (f"{BASE}[[hooks]]\nseam = 'before_step'\ncommand = ['x']\ntools = ['read']", "before_step is not about a call"),
        (f"{BASE}[[servers]]\nname = 's'", "a server has one of them"),
        (f"{BASE}[[servers]]\nname = 's'\nurl = 'x'\ncommand = ['y']", "a server has one of them"),
        ("name = ", "it is not valid TOML"),
        ("x = " + "[" * 5_000, "it is not valid TOML"),
    ],
)  # fmt: skip
def test_what_is_no_manifest_is_told_with_its_field(text, said):
    with pytest.raises(FormatError) as caught:
        read_manifest(text.encode(), "/some/plugin.toml")
    assert said in str(caught.value)
    assert "/some/plugin.toml" in str(caught.value)


def test_a_slip_is_met_with_what_is_meant():
    with pytest.raises(FormatError) as caught:
        read_manifest(f"{BASE}[[hooks]]\nseam = 'authorise_tool'\ncommand = ['x']".encode(), "p")
    assert "authorize_tool" in caught.value.mend
    with pytest.raises(FormatError) as caught:
        read_manifest(f"{BASE}tolls = []".encode(), "p")
    assert "'tools'" in caught.value.mend


def test_a_schema_becomes_parameters():
    schema = {"type": "object", "properties": {
        "rows": {"type": "array", "maxItems": 2, "items": {"type": "object", "properties": {"a": {"type": "boolean"}}}},
        "names": {"type": "array", "items": {"type": "string"}}, "how": {"type": "string", "enum": ["x", "y"]}, "any": {"type": "object"},
    }}  # fmt: skip
    rows, names, how, anything = parameters_of(schema, "p", "w")
    assert (rows.kind, rows.most, rows.fields[0].kind) == ("list", 2, "flag")
    assert (names.kind, names.fields, how.choices, anything.kind) == ("list", (), ("x", "y"), "record")


# -- whose word it needs ----------------------------------------------------------------------------------------------------


def test_a_plugin_is_off_until_its_user_trusts_it(place):
    folder = plugin(place, trusted=False)
    with place.session([answer("", call("echo_say", text="hi")), "Done."]) as session:
        session.turn("Go")
        assert results(session)[0].outcome == "failed"
        assert any("periplus plugins trust echo" in line for line in session.said)
    plugin(place)
    with place.session(
        [answer("", call("echo_say", text="hi", times=2), call("echo_say", text=3)), "Done."], name="s2"
    ) as session:
        session.turn("Go")
        good, wrong = results(session)
        assert good.content.endswith("hi hi")
        assert "text is 3, and a text is wanted" in wrong.content
        assert session.said == ()
    (folder / "say.py").write_text(SAY + "# more\n")
    with place.session(["Done."], name="s3") as session:
        assert "echo_say" not in {one.name for one in session.host.schemas()}
        assert any("was changed since you trusted it" in line for line in session.said)


def test_what_is_changed_while_a_session_runs_changes_nothing_of_it(place):
    folder = plugin(place)
    with place.session([answer("", call("echo_say", text="hi")), "Done."]) as session:
        (folder / "say.py").write_text('print(\'{"output": "taken over"}\')\n')
        session.turn("Go")
        assert results(session)[0].content.endswith("hi")


def test_a_project_that_is_not_trusted_has_no_plugins(place):
    folder = plugin(place, at=place.root / ".periplus-plugins", trusted=False)
    PluginTrust(str(place.config)).give(str(folder), read_folder(str(place.root), ".periplus-plugins/echo").digest)
    assert find_plugins(str(place.config), str(place.root), is_trusted=False) == []
    with place.session(["Done."]) as session:
        assert session.said == ()
        assert "echo_say" not in {one.name for one in session.host.schemas()}
    with place.session(["Done."], trusted=True, name="s2") as session:
        assert "echo_say" in {one.name for one in session.host.schemas()}
    (one,) = find_plugins(str(place.config), str(place.root), is_trusted=True)
    assert (one.source, one.state) == ("project", "trusted")


def test_trust_of_the_folder_is_not_trust_of_the_plugin(place):
    plugin(place, at=place.root / ".periplus-plugins", trusted=False)
    with place.session(["Done."], trusted=True) as session:
        assert "echo_say" not in {one.name for one in session.host.schemas()}
        assert any("is off until you trust it" in line for line in session.said)


def test_a_list_that_others_could_have_written_is_not_believed(place):
    plugin(place)
    held = place.config / "plugins.json"
    assert held.stat().st_mode & 0o777 == 0o600
    held.chmod(0o666)
    with pytest.raises(RefusedError, match="can be written by others"):
        find_plugins(str(place.config), str(place.root), is_trusted=False)
    held.chmod(0o600)
    held.write_text("[]")
    with pytest.raises(UsageError, match="not a list of trusted plugins"):
        find_plugins(str(place.config), str(place.root), is_trusted=False)
    held.write_text('{"/x": {"digest": "a"}}')
    trust = PluginTrust(str(place.config))
    assert trust.get("/x") == TrustedPlugin("a")
    assert (trust.take("/x"), trust.take("/x"), trust.paths()) == (True, False, [])


def test_links_and_what_is_huge_keep_a_plugin_off(place, tmp_path):
    (tmp_path / "outside").write_text("OUTSIDE")
    for name, spoil in (
        ("linked", lambda folder: (folder / "x").symlink_to(tmp_path / "outside")),
        ("piped", lambda folder: os.mkfifo(folder / "x")),
        ("huge", lambda folder: os.truncate(os.open(folder / "x", os.O_WRONLY | os.O_CREAT, 0o600), 1 << 40)),
        ("many", lambda folder: [(folder / f"{at}").touch() for at in range(2_001)]),
        ("nothing", lambda folder: (folder / "plugin.toml").unlink()),
        ("broken", lambda folder: (folder / "plugin.toml").write_text("name = 3")),
        ("other", lambda folder: (folder / "plugin.toml").write_text('name = "x"\nversion = "1"')),
    ):
        spoil(plugin(place, name, trusted=False))
    (place.config / "plugins" / "link").symlink_to(place.config / "plugins" / "linked")
    found = {one.name: one for one in find_plugins(str(place.config), str(place.root), is_trusted=False)}
    assert set(found) == {"linked", "piped", "huge", "many", "nothing", "broken", "other", "link"}
    assert all(one.state == "broken" and one.problem and one.manifest is None for one in found.values())
    assert "OUTSIDE" not in repr(found)
    with pytest.raises(NotFoundError, match="there is no plugin 'nobody'"):
        named_plugin(list(found.values()), "nobody")


def test_the_users_plugin_comes_before_the_projects(place):
    plugin(place)
    plugin(place, at=place.root / ".periplus-plugins", trusted=False)
    mine, theirs = find_plugins(str(place.config), str(place.root), is_trusted=True)
    assert (mine.source, mine.state, theirs.source, theirs.state) == ("user", "trusted", "project", "broken")


def test_a_digest_is_of_names_bytes_and_modes(tmp_path):
    (tmp_path / "p" / "a").mkdir(parents=True)
    seen = {read_folder(str(tmp_path), "p").digest}
    for change in (
        lambda: (tmp_path / "p" / "x").write_text("1"), lambda: (tmp_path / "p" / "x").write_text("2"),
        lambda: (tmp_path / "p" / "x").chmod(0o755), lambda: (tmp_path / "p" / "x").rename(tmp_path / "p" / "a" / "x"),
        (tmp_path / "p" / "a" / "y").touch,
    ):  # fmt: skip
        change()
        seen.add(read_folder(str(tmp_path), "p").digest)
    assert len(seen) == 6


def test_a_copy_that_was_cut_off_anywhere_is_made_whole(tmp_path):
    (tmp_path / "p" / "a").mkdir(parents=True)
    (tmp_path / "p" / "run").write_text("one")
    (tmp_path / "p" / "run").chmod(0o755)
    (tmp_path / "p" / "a" / "b").write_text("two")
    held = read_folder(str(tmp_path), "p")
    at = 0
    while True:
        at += 1
        target = tmp_path / f"copies{at}"
        target.mkdir()
        try:
            copy_out(held, str(target), "p", StoppingFiles(at))
        except StopNow:
            whole = copy_out(held, str(target), "p", Files())
            assert read_folder(str(target), os.path.basename(whole)).digest == held.digest
            continue
        break
    assert at > 3
    whole = Path(copy_out(held, str(target), "p", Files()))
    (whole / "run").write_text("spoiled")
    (whole / "more").write_text("more")
    assert read_folder(str(target), os.path.basename(copy_out(held, str(target), "p", Files()))).digest == held.digest


# -- programs ---------------------------------------------------------------------------------------------------------------

HOSTILE = {
    "floods": ("import sys\nwhile True: sys.stdout.write('x' * 65536)", "printed more than"),
    "floods errors": (
        "import sys\nfor _ in range(200): sys.stderr.write('e' * 65536)\nsys.exit(3)",
        "it ended with 3 and no answer; its errors end with: eee",
    ),
    "dies": ("import os\nos.kill(os.getpid(), 9)", "and no answer"),
    "fails": ("raise SystemExit('no luck')", "it ended with 1 and no answer; its errors end with: no luck"),
    "says nothing": ("", "it ended with 0 and no answer"),
    "garbage": ("print('well')", "its answer is not JSON"),
    "deep": ("print('[' * 100000)", "its answer is not JSON"),
    "a list": ("print('[]')", "its answer is not an object"),
    "more": ('print(\'{"output": "x", "effects": []}\')', "its answer has a field 'effects'"),
    "another outcome": ('print(\'{"outcome": "denied"}\')', "an invalid outcome or output"),
    "no text": ("print('{\"output\": 3}')", "an invalid outcome or output"),
    "binary": ("import sys\nsys.stdout.buffer.write(bytes(range(256)) * 9 + b'\\n')", "its answer is not JSON"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_program_that_does_not_answer_has_failed(place, name):
    code, said = HOSTILE[name]
    plugin(place, **tool(code))
    with place.session([answer("", call("echo_go")), "Done."]) as session:
        assert session.turn("Go").reason == "done"
        (told,) = results(session)
        assert told.outcome == "failed"
        assert said in told.content
        assert len(told.content) < 4_000


@pytest.mark.slow
def test_one_that_hangs_is_ended_with_what_it_started(place):
    code = """
        import os, subprocess, sys, time
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        sys.stderr.write("waiting")
        sys.stderr.flush()
        time.sleep(600)
    """
    plugin(place, **tool(code, deadline_s=2))
    with place.session([answer("", call("echo_go")), "Done."]) as session:
        session.turn("Go")
        assert "it did not answer within 2 s; its errors end with: waiting" in results(session)[0].content
    assert _sleepers() == []


def _sleepers():
    found = []
    for entry in os.listdir("/proc"):
        try:
            line = Path(f"/proc/{entry}/cmdline").read_bytes()
        except OSError:
            continue
        if b"time.sleep(600)" in line:
            found.append(line)
    return found


def test_an_answer_is_enough_though_the_program_goes_on(place):
    plugin(place, **tool('import sys, time\nprint(\'{"output": "there"}\', flush=True)\ntime.sleep(600)'))
    with place.session([answer("", call("echo_go")), "Done."]) as session:
        session.turn("Go")
        assert results(session)[0].content.endswith("there")


def test_a_cancelled_turn_ends_the_program(place):
    plugin(
        place,
        **tool("import time\nopen('../own-echo/home/begun', 'w') if False else None\ntime.sleep(600)", deadline_s=300),
    )
    with place.session([answer("", call("echo_go")), "Well."]) as session:
        programs_run = threading.Event()
        seen = threading.Thread(target=lambda: _cancel_when_running(session, programs_run))
        seen.start()
        ended = session.turn("Go")
        programs_run.set()
        seen.join(60)
        assert ended.reason == "aborted"


def _cancel_when_running(session, given_up):
    while not given_up.wait(0.05):
        if any(b"go.py" in line for line in _commands()):
            session.cancel()
            return


def _commands():
    for entry in os.listdir("/proc"):
        try:
            yield Path(f"/proc/{entry}/cmdline").read_bytes()
        except OSError:
            continue


def test_a_long_answer_is_cut_and_kept(place):
    plugin(place, **tool("import json\nprint(json.dumps({'output': ''.join(f'line {n}\\n' for n in range(20000))}))"))
    with place.session([answer("", call("echo_go")), "Done."]) as session:
        session.turn("Go")
        (told,) = results(session)
        assert "left out; read(path='@periplus/output/" in told.content
        assert len(told.content) < 40_000


def sandboxed():
    return find_sandbox(os.environ["PATH"]).layer != "none"


REACHES = """
    import json, os, socket, sys
    asked = json.loads(sys.stdin.readline())
    root = asked["root"]
    found = {}
    def tried(name, does):
        try:
            does()
            found[name] = True
        except OSError:
            found[name] = False
    tried("read", lambda: open(root + "/a.txt").read())
    tried("write", lambda: open(root + "/made.txt", "w").write("x"))
    tried("git", lambda: open(root + "/.git/config", "a").write("x"))
    tried("store", lambda: open(root + "/.periplus/made", "w").write("x"))
    tried("config", lambda: open(%r).read())
    tried("own", lambda: open(os.environ["HOME"] + "/x", "w").write("x"))
    tried("itself", lambda: open("go.py", "a").write("x"))
    tried("network", lambda: socket.create_connection(("127.0.0.1", %d), 5).close())
    found["environment"] = "SECRET_TOKEN" in os.environ
    print(json.dumps({"output": json.dumps(found)}))
"""


@pytest.mark.skipif(not sandboxed(), reason="no sandbox works here")
@pytest.mark.parametrize(
    ("accesses", "allowed"),
    [((), set()), (("read",), {"read"}), (("write",), {"read", "write"}), (("network",), {"network"})],
)
def test_a_program_reaches_what_it_said_and_no_more(place, accesses, allowed):
    import socket

    (place.root / "a.txt").write_text("x")
    git(place.root, "init", "-q")
    before = (place.root / ".git" / "config").read_text()
    (place.config / "keys.json").write_text("{}")
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = REACHES % (str(place.config / "keys.json"), server.getsockname()[1])
        plugin(place, **tool(code, accesses=accesses))
        with place.session([answer("", call("echo_go")), "Done."]) as session:
            session.turn("Go")
            text = results(session)[0].content
            found = json.loads(text[text.index("{") : text.index("}") + 1])
            # where the project lies below /tmp the program has another /tmp: what counts is what is on the disk
            found |= {"write": (place.root / "made.txt").exists(), "store": (place.root / ".periplus" / "made").exists(),
                      "git": (place.root / ".git" / "config").read_text() != before}  # fmt: skip
            if "write" in allowed:
                assert "files changed: made.txt" in text
                assert session.undo() == ("made.txt",)
                assert not (place.root / "made.txt").exists()
    found["read"] = found["read"] or "read" not in allowed  # beside the home folder anybody may look
    assert found == {name: name in allowed or name in ("own", "read") for name in found}


def test_without_a_sandbox_a_plugin_needs_one_word_more(place):
    plugin(place)
    with place.session(["Done."], sandbox=Unconfined("none here")) as session:
        assert "echo_say" not in {one.name for one in session.host.schemas()}
        assert any("no sandbox works here" in line for line in session.said)
    plugin(place, unsandboxed=True)
    with place.session(
        [answer("", call("echo_say", text="hi")), "Done."], name="s2", sandbox=Unconfined("none here")
    ) as session:
        session.turn("Go")
        assert results(session)[0].content.endswith("hi")


# -- hooks ------------------------------------------------------------------------------------------------------------------

RULE = """
    import json, sys
    asked = json.loads(sys.stdin.readline())
    assert asked["seam"] == "authorize_tool" and asked["v"] == 1
    is_ours = asked["args"].get("path", "").startswith("vendor/")
    print(json.dumps({"decision": {"allow": False, "reason": "vendor/ is not ours"}} if is_ours else {}))
"""


def hooks(seam, code, more=""):
    return {"manifest": f'name = "echo"\nversion = "1"\n[[hooks]]\nseam = "{seam}"\ncommand = [PYTHON, "hook.py"]\n{more}',
            "files": {"hook.py": code}}  # fmt: skip


def test_a_rule_of_a_plugin_denies(place):
    plugin(place, **hooks("authorize_tool", RULE, 'tools = ["write"]\ndeadline_s = 30\n'))
    script = [
        answer(
            "",
            call("write", path="vendor/a", content="x"),
            call("write", path="b", content="x"),
            call("list", path="."),
        ),
        "Done.",
    ]
    with place.session(script) as session:
        session.turn("Go")
        assert [one.outcome for one in results(session)] == ["denied", "ok", "ok"]
        assert "vendor/ is not ours" in results(session)[0].content


def test_a_rule_that_fails_allows_nothing_and_an_observer_that_fails_is_passed_over(place):
    plugin(place, "guard", **hooks("authorize_tool", "raise SystemExit(1)"))
    with place.session([answer("", call("list", path=".")), "Done."]) as session:
        session.turn("Go")
        (told,) = results(session)
        assert told.outcome == "denied"
        assert "plugins untrust guard" in told.content or "guard" in told.content
    PluginTrust(str(place.config)).take(str(place.config / "plugins" / "guard"))
    plugin(place, "watcher", **hooks("after_step", "raise SystemExit(1)"))
    with place.session([answer("", call("list", path=".")), "Done."], name="s2") as session:
        assert session.turn("Go").reason == "done"
        assert results(session)[0].outcome == "ok"


def answers(seam, reply, row=None):
    asked = []

    def ask(question, known):
        asked.append((question, tuple(known)))
        return reply

    return Composite([hook_of("p", row or HookRow(seam, ("x",)), ask)]), asked


def test_each_seam_has_its_question_and_its_answer():
    usage = Usage(prompt_tokens=3)
    stop = {"stop": {"reason": "budget", "note": "enough"}}
    for seam, args in (("before_step", (1,)), ("record_step_usage", (usage,)), ("after_step", (1, usage, None))):
        hook, asked = answers(seam, stop)
        assert getattr(hook, seam)(*args) == Stop(reason="budget", note="enough")
        assert asked[0][0]["seam"] == seam
        assert asked[0][1] == ("stop",)
        assert getattr(answers(seam, {})[0], seam)(*args) is None
    hook, asked = answers("transform_tool_result", {"output": "hidden"})
    told = hook.transform_tool_result(
        ToolCall(id="1", name="read", args={"path": "a"}), ToolResult(outcome="ok", output="plain")
    )
    assert (told.outcome, told.output) == ("ok", "hidden")
    assert (asked[0][0]["name"], asked[0][0]["output"]) == ("read", "plain")
    hook, _ = answers("prepare_messages", {"replace": [[1, "other"]]})
    assert [
        one.content
        for one in hook.prepare_messages([Message(role="system", content="a"), Message(role="user", content="b")])
    ] == ["a", "other"]
    hook, _ = answers("should_continue_after_stop", {"continue": "run the tests"})
    assert hook.should_continue_after_stop(Stop(reason="done")) == Continue(
        feedback="The plugin p says that this is not done yet.", quoted="run the tests", source="plugin p"
    )
    hook, asked = answers("reset_for_turn", {})
    hook.reset_for_turn()
    assert asked == [({"kind": "hook", "seam": "reset_for_turn"}, ())]
    hook, asked = answers(
        "authorize_tool", {"decision": {"allow": True}}, HookRow("authorize_tool", ("x",), ("web_*",))
    )
    assert hook.authorize_tool("read", {}) == ToolDecision(allow=True)
    assert asked == []
    hook.authorize_tool("web_fetch", {"url": "x"})
    assert asked[0][0]["args"] == {"url": "x"}
    assert {row[0] for row in (("reset_for_turn",), ("before_step",), ("record_step_usage",), ("after_step",), ("authorize_tool",),
            ("transform_tool_result",), ("prepare_messages",), ("should_continue_after_stop",))} == set(SEAMS)  # fmt: skip


@pytest.mark.parametrize(
    ("seam", "reply"),
    [
        ("authorize_tool", {"decision": "yes"}), ("authorize_tool", {"decision": {"allow": "yes"}}), ("authorize_tool", {"decision": None}),
        ("transform_tool_result", {"output": 3}),
    ],
)  # fmt: skip
def test_an_answer_of_a_rule_that_is_none_fails_closed(seam, reply):
    failures = []
    hook = Composite(answers(seam, reply)[0].hooks, failures.append)
    if seam == "authorize_tool":
        assert not hook.authorize_tool("read", {}).allow
    else:
        told = hook.transform_tool_result(ToolCall(id="1", name="read"), ToolResult(outcome="ok", output="plain"))
        assert "plain" not in told.output
    assert [one.is_closed for one in failures] == [True]


def test_a_request_is_not_sent_where_a_plugin_replaces_what_is_not_there():
    with pytest.raises(Exception, match="was not sent"):
        answers("prepare_messages", {"replace": [[5, "x"]]})[0].prepare_messages([Message(role="user", content="b")])


def test_no_plugin_widens_what_may_be_done(place):
    plugin(place, **hooks("authorize_tool", 'print(\'{"decision": {"allow": true}}\')', "deadline_s = 30\n"))
    from agent_room import settings_of

    with place.session(
        [answer("", call("shell", command="touch made")), "Done."], settings=settings_of(mode="default")
    ) as session:
        session.turn("Go")
        assert results(session)[0].outcome == "denied"
    assert not (place.root / "made").exists()


# -- skills and servers -----------------------------------------------------------------------------------------------------


def test_a_plugins_skills_are_advice_from_its_copy(place):
    folder = plugin(place, trusted=False)
    place.skill("greet", "Say {plugin}.", at=folder / "skills", description="To greet.")
    plugin(place)
    with place.session([answer("", call("skill", name="greet")), "Done."]) as session:
        (folder / "skills" / "greet" / "SKILL.md").write_text("changed")
        session.turn("Go")
        assert "- greet: To greet." in system(session)
        assert 'skill greet of the plugin echo">\nSay {plugin}.' in results(session)[0].content


def test_servers_are_handed_on_from_the_copy(place):
    manifest = 'name = "echo"\nversion = "1"\n[[servers]]\nname = "s"\ncommand = ["./serve", "{plugin}/x", "--quiet"]\nenvironment = {A = "b"}\n'
    plugin(place, manifest=manifest, files={"serve": "#!/bin/sh\n"})
    brought = []
    with place.session(["Done."], extensions=(_opener(brought),)) as session:
        assert session.said == ()
    (row,) = brought[0].servers
    assert (row.name, row.source, dict(row.environment)) == ("echo-s", "plugin echo", {"A": "b"})
    assert os.path.isfile(row.command[0])
    assert row.command[1] == os.path.dirname(row.command[0]) + "/x"
    assert str(place.root / ".periplus") in row.command[0]


def _opener(brought):
    from periplus.agent.extensions.plugins import open_plugins

    def opener(room):
        brought.append(open_plugins(room))
        return brought[-1]

    return opener


def test_a_program_is_told_apart_from_what_it_says(tmp_path):
    """The runner alone: a question of a megabyte, an answer behind noise on standard error."""
    folder = tmp_path / "p"
    folder.mkdir()
    (folder / "x.py").write_text("import json, sys\nsys.stderr.write('noise' * 100000)\nasked = json.loads(sys.stdin.readline())\n"
                                 "print(json.dumps({'output': str(len(asked['args']['x']))}))\n")  # fmt: skip
    programs = Programs(
        Unconfined(), root=str(tmp_path), environment={"PATH": os.environ["PATH"]}, home="", hidden=(), files=Files()
    )
    place = ProgramPlace("p", str(folder), str(tmp_path / "own"), {"x.py"})
    try:
        found = programs.ask(
            place, [sys.executable, "x.py"], {"args": {"x": "y" * (1 << 20)}}, deadline_s=60, known=("output",)
        )
        assert found == {"output": str(1 << 20)}
        with pytest.raises(PluginError, match="cannot be started"):
            programs.ask(place, ["./nothing"], {}, deadline_s=60)
        with pytest.raises(PluginError, match="at most"):
            programs.ask(place, ["x"], {"x": "y" * (17 << 20)}, deadline_s=60)
    finally:
        programs.close()


def _runner(tmp_path, sandbox, code):
    folder = tmp_path / "p"
    folder.mkdir()
    (folder / "x.py").write_text(code)
    programs = Programs(
        sandbox, root=str(tmp_path), environment={"PATH": os.environ["PATH"]}, home="", hidden=(), files=Files()
    )
    return programs, ProgramPlace("p", str(folder), str(tmp_path / "own"), {"x.py"})


def test_what_a_program_started_ends_with_its_answer_without_a_sandbox_too(tmp_path):
    programs, place = _runner(tmp_path, Unconfined(), "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True,"
        " stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\nprint('{}', flush=True)\n")  # fmt: skip
    try:
        assert programs.ask(place, [sys.executable, "x.py"], {}, deadline_s=60) == {}
        assert _sleepers() == []
    finally:
        programs.close()


def test_a_program_that_is_cancelled_while_it_is_started_is_not_waited_for(tmp_path):
    class CancelledAtTheStart(Unconfined):
        def wrap(self, words, cwd, confinement):
            programs.cancel()
            return super().wrap(words, cwd, confinement)

    programs, place = _runner(tmp_path, CancelledAtTheStart(), "import time\ntime.sleep(600)\n")
    started = time.monotonic()
    try:
        with pytest.raises(ProgramCancelledError):
            programs.ask(place, [sys.executable, "x.py"], {}, deadline_s=60)
        assert time.monotonic() - started < 50
    finally:
        programs.close()


# -- the page ---------------------------------------------------------------------------------------------------------------

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "guides" / "agent" / "plugins.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_plugin_of_the_page_works(place):
    (manifest,), (count, rule) = blocks("toml"), blocks("python")
    plugin(place, "words", manifest, {"count.py": count, "rule.py": rule})
    (place.root / "a.txt").write_text("one two three\n")
    script = [
        answer("", call("words_count", path="a.txt"), call("words_count", path="b.txt"), call("write", path="vendor/x", content="y"),
               call("write", path="own/x", content="y")),
        "Done.",
    ]  # fmt: skip
    with place.session(script) as session:
        session.turn("Count")
        counted, absent, denied, written = results(session)
        assert counted.content.endswith("3 words")
        assert (absent.outcome, denied.outcome, written.outcome) == ("failed", "denied", "ok")
        assert "vendor/ is not ours to change" in denied.content


def test_the_table_of_the_page_has_every_seam():
    table = PAGE.split("## The protocol")[1]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(SEAMS)


# -- no way around a rule ---------------------------------------------------------------------------------------------------


def test_a_rule_holds_for_the_calls_of_a_program_too(place):
    plugin(place, **hooks("authorize_tool", RULE, 'tools = ["write"]\ndeadline_s = 30\n'))
    source = "write(path='vendor/a', content='x')"
    with place.session([answer("", call("code", source=source)), "Done."]) as session:
        session.turn("Go")
        assert not (place.root / "vendor").exists()


def test_a_rule_holds_for_a_subagent_though_its_file_was_changed_since(place):
    folder = plugin(place, **hooks("authorize_tool", RULE, 'tools = ["write"]\ndeadline_s = 30\n'))
    spawn = call("spawn_agent", task="write vendor/a")
    asked = []

    def answers_to(messages, tools):
        said = messages[-1].content
        asked.append(said)
        if len(asked) == 1:
            (folder / "hook.py").write_text("print('{}')\n")
            return answer("", spawn)
        if len(asked) == 2:
            return answer("", call("write", path="vendor/a", content="x"))
        return answer("Done.")

    with place.session([answers_to] * 6) as session:
        session.turn("Go")
        assert len(asked) >= 3
        assert "vendor/ is not ours" in asked[2]
    assert not (place.root / "vendor").exists()
