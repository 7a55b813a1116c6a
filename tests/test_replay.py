"""Replaying trails: every world, what is compared, branches, capabilities, tests, and the replay's own trail."""

from __future__ import annotations

import hashlib
import os
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli_support import git, make_repository
from periplus.base.clock import FixedClock
from periplus.base.errors import ConfinementError, NotFoundError, RefusedError, UsageError
from periplus.base.filesystem.confined_folder import Confined
from periplus.base.text.path_globs import glob_matches
from periplus.trail import OPCODES, Digest, TrailReader, encode, verify, withhold
from periplus.trail.replay import Capabilities, Grant, MemoryFolder, PreparedResult, Replay, edited, replay_trail
from periplus.trail.replay.capability import plain_words
from periplus.trail.replay.command_runner import CommandLimits, Runner
from periplus.trail.replay.test_counts import read_junit
from replay_support import START_MS, Taped, close_worlds, dry, files_in, folder_world, memory, open_log, options, replay
from trail_samples import SECRET, golden_trail, headers
from trail_samples import steps as trail_steps

IS_OPEN = bool(Runner("/", "/", os.environ["PATH"]).why_not())  # the network cannot be kept from commands here
needs_namespaces = pytest.mark.skipif(IS_OPEN, reason="no namespaces here")


def a_run():
    """Every kind of file step."""
    return (
        Taped()
        .step("PROMPT", "write it")
        .write("src/a.py", "one\ntwo\n")
        .step("FILE_EDIT", "src/a.py", "two", "three")
        .write("src/b.py", "x = 1\nx = 1\n")
        .step("FILE_EDIT", "src/b.py", "x = 1", "x = 2", note="every occurrence")
        .step("FILE_EDIT", "src/b.py", "y", "z", outcome="failed")
        .step("FILE_MOVE", "src/b.py", "lib/c.py")
        .write("gone", "soon")
        .step("FILE_DELETE", "gone")
        .step("FILE_READ", "src/a.py", "1-1")
        .step("FILE_LIST", "src/*.py")
        .step("SEARCH_CODE", "three", "src")
        .step("FILE_EDIT", "new.txt", "", "made by an edit")
        .step("SAY", "done")
    )


A_RUN = {"src/a.py": b"one\nthree\n", "lib/c.py": b"x = 2\nx = 2\n", "new.txt": b"made by an edit"}


def test_a_run_gives_the_same_files_in_memory_and_in_a_folder(tmp_path):
    taped = a_run()
    world = memory(taped)
    one, report = replay(taped, world)
    assert (report.verdict, report.first) == ("same", None)
    assert world.files == dict(sorted(A_RUN.items()))
    assert report.states == {"done": 12, "skipped": 2}
    place = folder_world(taped, tmp_path / "r")
    two, same = replay(taped, place)
    assert same == report
    assert files_in(tmp_path / "r" / "files") == dict(sorted(A_RUN.items()))
    assert [done.result for done in one.outcomes] == [done.result for done in two.outcomes]
    place.close()


def test_dry_says_what_would_happen_and_does_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    taped = a_run()
    said = []
    one = Replay([taped.reader], dry(taped), options(), clock=_Clock(), read_content=taped.objects.get,
                 observe=lambda call, did: said.append((call.op, did.state, did.detail)))  # fmt: skip
    report = one.run()
    assert report.verdict == "same"
    assert ("FILE_WRITE", "would", "would write src/a.py: 8 bytes") in said
    assert ("FILE_MOVE", "would", "would move src/b.py to lib/c.py") in said
    assert os.listdir(tmp_path) == []


@pytest.fixture(autouse=True)
def _closed():
    yield
    close_worlds()


class _Clock:
    def now_ms(self):
        return 0


def test_every_opcode_goes_through_every_world(tmp_path):
    reader = TrailReader(golden_trail())
    taped = Taped()
    taped._reader = reader
    assert {step.code for step in reader.steps()} == {opcode.code for opcode in OPCODES}
    for world in (dry(taped), memory(taped), folder_world(taped, tmp_path / "r")):
        one, report = replay(taped, world)
        assert report.steps == reader.step_count
        assert sum(report.states.values()) == reader.step_count
        data = replay_trail([reader], reader.digest, one, report, world=world.name, secret=bytes(32),
                            put_text=lambda data: taped.objects.put(data).value)  # fmt: skip
        assert verify(data).ok


SOME_PATHS = st.sampled_from(["a", "b", "a/x", "a/b/c", "./a", "b/x", "c", "c/d", ".", "../a", "a//b", ".git/x"])
FOLDER_OPERATIONS = st.one_of(
    st.tuples(st.just("write"), SOME_PATHS, st.binary(max_size=3)),
    st.tuples(st.sampled_from(["read", "delete", "list", "stat"]), SOME_PATHS),
    st.tuples(st.just("move"), SOME_PATHS, SOME_PATHS),
)


@given(st.lists(FOLDER_OPERATIONS, max_size=12))
@settings(max_examples=60, deadline=None)
def test_a_folder_in_memory_is_as_one_on_the_disk(tmp_path_factory, operations):
    root = tmp_path_factory.mktemp("folder")
    inner = MemoryFolder()
    with Confined(os.fspath(root), is_durable=False) as disk:
        for name, *words in operations:
            found = []
            for folder in (inner, disk):
                try:
                    found.append(getattr(folder, name)(*words))
                except (ConfinementError, NotFoundError) as error:
                    found.append(type(error))
            assert found[0] == found[1], (name, words)
        assert inner.files == files_in(root)
        assert [entry.path for entry in inner.walk()] == [entry.path for entry in disk.walk()]


# Comparing


@pytest.mark.parametrize(
    ("build", "files", "what", "expected", "found"),
    [
        (lambda t: t.step("FILE_EDIT", "a", "x", "y"), {"a": b"z"}, "outcome", "ok", "failed: the old text is not in the file"),
        (lambda t: t.step("FILE_EDIT", "a", "x", "y"), {"a": b"xx"}, "outcome", "ok", "failed: the old text is in the file 2 times"),
        (lambda t: t.step("FILE_EDIT", "a", "x", "y", outcome="failed"), {"a": b"x"}, "outcome", "failed", "ok"),
        (lambda t: t.step("FILE_READ", "a"), {}, "outcome", "ok", "failed: no file a"),
        (lambda t: t.step("FILE_DELETE", "a"), {}, "outcome", "ok", "failed: no file a"),
        (lambda t: t.step("FILE_MOVE", "a", "b"), {"a": b"", "b": b""}, "outcome", "ok", "denied: path 'b' is refused: there is something of that name already"),
        (lambda t: t.step("FILE_LIST", "none"), {"a": b""}, "outcome", "ok", "failed: no folder none"),
        (lambda t: t.step("FILE_READ", "../a"), {}, "outcome", "ok", "denied: path '../a' is refused: it leads upwards"),
        (lambda t: t.step("COMMAND_RUN", "make", exit_code=0), {}, "outcome", "ok", "failed"),
        (lambda t: t.step("COMMAND_RUN", "make", outcome="failed", exit_code=1), {}, "exit code", "1", "2"),
        (lambda t: t.step("TEST_RUN", "tests", 3), {}, "tests passed", "3", "2"),
        (lambda t: t.step("BRANCH", 1, "none"), {}, "outcome", "ok", "failed: there is no label 'none' among the steps"),
        (lambda t: t.step("CHECKPOINT", Digest("sha256", bytes(32))), {"a": b"1"}, "files", "as recorded", "a"),
    ],
)  # fmt: skip
def test_the_first_difference_is_told(build, files, what, expected, found):
    taped = build(Taped().step("PROMPT", "go")).step("FILE_READ", "nowhere")
    canned = {"make": PreparedResult(2), "tests": PreparedResult(0, passed=2)}
    states = {"sha256:" + "00" * 32: {"a": b"2"}}
    _, report = replay(taped, memory(taped, files, canned, states), registers={1: 1})
    assert report.verdict == "diverged"
    assert report.first[0] == 1
    assert report.first[2:] == (what, expected, found)
    assert report.difference_count == 2


def test_what_agrees_is_no_difference():
    taped = (
        Taped()
        .step("COMMAND_RUN", "make", outcome="failed", exit_code=2)
        .step("TEST_RUN", "tests", 2, exit_code=0)
        .step("TEST_RUN", "tests", None)
        .step("FILE_READ", "none", outcome="failed")
        .step("FILE_READ", "none", outcome="unknown")
        .step("FILE_READ", "/etc/passwd", outcome="denied")
        .step("COMMAND_RUN", "rm -rf /", outcome="cancelled")
        .step("CHECKPOINT", Digest("sha256", bytes(32)))
        .step("WEB_FETCH", "https://example.org/", result=Digest("sha256", bytes(32)), result_size=9)
        .step("WEB_SEARCH", "said before")
    )
    canned = {
        "make": PreparedResult(2),
        "tests": PreparedResult(0, passed=2),
        "said before": PreparedResult(output=b"hits"),
    }
    world = memory(taped, {"a": b"2"}, canned, {"sha256:" + "00" * 32: {"a": b"2"}})
    _, report = replay(taped, world)
    assert (report.verdict, report.differences) == ("same", ())
    assert world.ran == ["make", "tests", "tests", "said before"]
    assert report.states == {"done": 7, "skipped": 3}
    assert report.denied == 0


def test_results_are_compared_when_asked_for():
    taped = Taped()
    right, wrong = (taped.objects.put(text) for text in ("is", "was"))
    taped.step("FILE_READ", "a", result=right, result_size=2).step("FILE_READ", "a", result=wrong, result_size=3)
    assert replay(taped, memory(taped, {"a": b"is"}))[1].verdict == "same"
    _, report = replay(taped, memory(taped, {"a": b"is"}), is_strict=True)
    assert report.first[:3] == (1, "FILE_READ", "result")


def test_the_file_after_an_edit_is_compared_where_the_record_has_it():
    taped = Taped()
    right, wrong = (taped.objects.put(text) for text in ("y y", "y"))
    note = "every occurrence; result: the file afterwards"
    taped.step("FILE_EDIT", "a", "x", "y", note=note, result=right, result_size=3)
    taped.step("FILE_EDIT", "b", "x", "y", note=note, result=wrong, result_size=1)
    taped.step("FILE_EDIT", "c", "x", "y", result=wrong, result_size=1)  # of an import: what the tool said
    one, report = replay(taped, memory(taped, dict.fromkeys("abc", b"x x") | {"c": b"x"}))
    assert [(one.at, one.what) for one in report.differences] == [(1, "file")]
    assert one.outcomes[0].result == right.value.hex()
    assert one.outcomes[2].result == ""


def test_a_command_of_the_background_is_not_waited_for(tmp_path):
    taped = Taped().step("COMMAND_RUN", "sleep 1000", note="in the background")
    assert replay(taped, memory(taped, None, {"sleep 1000": PreparedResult(1)}))[1].states == {"skipped": 1}


def test_stop_pause_and_range():
    taped = Taped().write("a", "1").step("FILE_READ", "none").write("b", "2").write("c", "3")
    world = memory(taped)
    assert replay(taped, world, is_stopping=True)[1][4:] == (
        1,
        ((1, "FILE_READ", "outcome", "ok", "failed: no file none"),),
        2,
    )
    assert list(world.files) == ["a"]
    world = memory(taped)
    _, report = replay(taped, world, pause_after=3)
    assert (report.verdict, report.next, list(world.files)) == ("paused", 3, ["a", "b"])
    world = memory(taped)
    _, report = replay(taped, world, first=2, end=3)
    assert (report.verdict, report.steps, list(world.files)) == ("same", 1, ["b"])
    assert replay(taped, memory(taped), first=-1)[1].steps == 1


def test_recorded_paths_are_made_local():
    taped = (
        Taped()
        .write("/home/ada/engine/src/a", "1")
        .step("FILE_LIST", "/home/ada/engine")
        .step("FILE_READ", "/home/ada/enginex")
    )
    world = memory(taped)
    _, report = replay(taped, world, recorded_root="/home/ada/engine/")
    assert list(world.files) == ["src/a"]
    assert [one.at for one in report.differences] == [2]
    assert "absolute" in report.first.found


# Branches


def test_a_branch_goes_to_its_label_when_the_register_is_not_zero():
    taped = (
        Taped()
        .step("COMMAND_RUN", "fails", outcome="failed", exit_code=3)
        .step("COMMENT", "does not touch the register")
        .step("BRANCH", 0, "mend")
        .write("skipped", "1")
        .step("LABEL", "mend")
        .write("mended", "1")
        .step("BRANCH", 0, "nowhere")
        .step("LABEL", "mend")
    )
    world = memory(taped, None, {"fails": PreparedResult(3)})
    one, report = replay(taped, world)
    assert (report.verdict, list(world.files)) == ("same", ["mended"])
    assert [done.index for done in one.outcomes] == [0, 1, 2, 4, 5, 6, 7]


def test_a_loop_ends_with_its_condition_or_with_the_budget():
    taped = Taped().step("LABEL", "again").step("COMMAND_RUN", "try", outcome="unknown").step("BRANCH", 0, "again")

    class Tries(type(memory(taped))):
        left = 5

        def run_command(self, command, cwd, form):
            self.left -= 1
            self._canned = {command: PreparedResult(int(self.left > 0))}
            return super().run_command(command, cwd, form)

    world = Tries(taped.objects.get)
    _, report = replay(taped, world)
    assert (report.verdict, report.steps, world.left) == ("same", 15, 0)
    _, report = replay(taped, memory(taped, None, {"try": PreparedResult(1)}), steps_max=1000)
    assert (report.verdict, report.steps) == ("limit", 1003)


def test_jumps_over_a_long_trail_cost_no_more_than_the_budget():
    taped = Taped()
    for _ in range(20_000):
        taped.step("NOP")
    taped.step("LABEL", "end").step("BRANCH", 1, "end")
    begun = time.monotonic()
    _, report = replay(taped, memory(taped), registers={1: 1}, steps_max=10_000)
    assert report.verdict == "limit"
    assert time.monotonic() - begun < 30


# Capabilities


def test_what_is_not_allowed_is_denied_before_the_world_is_asked():
    taped = (
        Taped().write("src/a", "1").write("etc/a", "1").step("FILE_DELETE", "src/a").step("COMMAND_RUN", "make")
        .step("TEST_RUN", "tests").step("GIT_COMMIT", "r", "m").step("FILE_MOVE", "src/a", "src/b").step("SEARCH_CODE", "x")
    )  # fmt: skip
    world = memory(taped, {"src/a": b""}, {"make": PreparedResult(), "tests": PreparedResult()})
    one, report = replay(taped, world, capabilities=Capabilities.of("write:src/**", "read"))
    assert [done.state for done in one.outcomes] == ["done"] + ["denied"] * 7
    assert {done.outcome for done in one.outcomes[1:]} == {"denied"}
    assert report.denied == 7
    assert (world.files, world.ran) == ({"src/a": b"1"}, [])
    assert report.first.found == "denied: write is not allowed on etc/a"


def test_a_command_under_a_scope_runs_without_a_shell(tmp_path):
    taped = (
        Taped().step("COMMAND_RUN", "echo 'a b' c").step("COMMAND_RUN", "echo $HOME").step("COMMAND_RUN", "echo a; id")
    )
    taped.step("COMMAND_RUN", "echox").step("COMMAND_RUN", "id")
    with_network = {"allow_commands": True, "allow_network": True}
    world = folder_world(taped, tmp_path / "r", **with_network)
    outputs = []
    one = Replay([taped.reader], world, options(capabilities=Capabilities.of("command:echo", "network")), clock=_Clock(),
                 read_content=taped.objects.get, put_output=outputs.append)  # fmt: skip
    one.run()
    assert [done.state for done in one.outcomes] == ["done"] + ["denied"] * 4
    assert outputs == [b"a b c\n"]


PATHS = st.lists(st.sampled_from(["a", "b", "src", "x.py"]), min_size=1, max_size=4).map("/".join)
GLOBS = st.lists(st.sampled_from(["a", "*", "**", "src", "*.py", "?"]), min_size=1, max_size=4).map("/".join)
GRANTS = st.lists(
    st.builds(Grant, st.sampled_from(["read", "write", "delete", "commit"]), st.just("") | GLOBS), max_size=4
)  # fmt: skip


@given(st.lists(GRANTS, min_size=2, max_size=4), st.sampled_from(["read", "write", "delete"]), PATHS)
def test_delegation_never_widens(layers, action, path):
    held = Capabilities(layers[0])
    for layer in layers[1:]:
        inner = held.narrowed(layer)
        assert not inner.allows(action, path) or (
            held.allows(action, path) and Capabilities(layer).allows(action, path)
        )
        assert inner.command_form("command", "x y") == "denied" or held.command_form("command", "x y") != "denied"
        held = inner


def test_steps_cannot_widen_what_a_replay_may():
    taped = (
        Taped().step("CAP_ISSUE", "write:src/**", "bob").step("CAP_ISSUE", "command", "bob").step("CAP_ISSUE", "fly", "bob")
        .step("CAP_ISSUE", "command", "agent-1").step("AGENT_SPAWN", "bob", "do it").step("COMMAND_RUN", "make").write("a", "1")
    )  # fmt: skip
    world = memory(taped, None, {"make": PreparedResult()})
    one, _ = replay(taped, world, capabilities=Capabilities.of("write"))
    assert [done.state for done in one.outcomes] == ["done", "denied", "skipped", "denied", "skipped", "denied", "done"]
    assert world.ran == []
    bob = one.delegated("bob")
    assert bob.allows("write", "src/x")
    assert not bob.allows("write", "a")
    assert bob.command_form("command", "make") == "denied"
    assert not one.delegated("eve").allows("write", "src/x")


@pytest.mark.parametrize("text", ["fly", "", "commit:x", "command:a;b", "command:-x", "write:" + "x" * 2000, "Write"])
def test_a_grant_that_is_none_is_refused(text):
    with pytest.raises(UsageError):
        Capabilities.of(text)


@given(PATHS, GLOBS)
def test_globs_match_as_their_definition_says(path, glob):
    def matches(names, patterns):
        if not patterns:
            return not names
        if patterns[0] == "**":
            return any(matches(names[at:], patterns[1:]) for at in range(len(names) + 1))
        if not names:
            return False
        head = patterns[0]
        fits = {"*": True, "?": len(names[0]) == 1, "*.py": names[0].endswith(".py")}.get(head, head == names[0])
        return fits and matches(names[1:], patterns[1:])

    assert glob_matches(path, glob) == matches(path.split("/"), glob.split("/"))


def test_a_hostile_glob_takes_no_time():
    begun = time.process_time()
    assert not glob_matches("/".join(["a" * 50] * 40), "/".join(["**", "*a*a*a*a*a*a*a*b"] * 20))
    assert (
        time.process_time() - begun < 60
    )  # tens of milliseconds; to try all ways would take longer than anybody lives


@pytest.mark.parametrize(
    ("text", "words"),
    [("make -j2 all", ["make", "-j2", "all"]), ("echo 'a b'", ["echo", "a b"]), ("a; b", None), ("a && b", None), ("a | b", None),
     ("a > b", None), ("a $b", None), ("a `b`", None), ("a\nb", None), ("a \\b", None), ("~/x", None), ("a *", None), ("A=1 b", None),
     ("-x", None), ("", None), ("'", None), ("a 'b", None), ("a #b", None), ("a (b)", None), ("!a", None), ("a {b,c}", None)],
)  # fmt: skip
def test_only_a_command_without_shell_syntax_has_plain_words(text, words):
    assert plain_words(text) == words


def test_a_world_that_reaches_the_network_needs_that_it_is_allowed(tmp_path):
    taped = Taped().step("COMMAND_RUN", "echo x")
    world = folder_world(taped, tmp_path / "r", allow_commands=True, allow_network=True)
    with pytest.raises(RefusedError, match="network"):
        replay(taped, world, capabilities=Capabilities.of("command"))
    assert replay(taped, world, capabilities=Capabilities.of("command", "network"))[1].states == {"done": 1}


# Commands


def test_commands_are_not_run_without_consent(tmp_path):
    taped = Taped().step("COMMAND_RUN", "touch made").step("TEST_RUN", "t", note="touch made")
    _, report = replay(taped, folder_world(taped, tmp_path / "r"))
    assert report.states == {"skipped": 2}
    assert report.verdict == "same"
    assert files_in(tmp_path / "r" / "files") == {}


@pytest.fixture
def run(tmp_path):
    """Runs the text of a command as a step of a trail: its outcome, and what it said."""

    def run(text, *, cwd=None, allow_network=False, **limits):
        taped = Taped().step("COMMAND_RUN", text, cwd)
        more = {"limits": CommandLimits(**limits)} if limits else {}
        world = folder_world(taped, tmp_path / "r", allow_commands=True, allow_network=allow_network or IS_OPEN, **more)
        outputs = []
        one = Replay(
            [taped.reader], world, options(), clock=_Clock(), read_content=taped.objects.get, put_output=outputs.append
        )
        one.run()
        world.close()
        return one.outcomes[0], b"".join(outputs).decode()

    return run


def test_a_command_has_an_environment_of_its_own(run, tmp_path, monkeypatch):
    for name in ("AWS_SECRET_ACCESS_KEY", "GIT_DIR", "LD_PRELOAD", "PYTHONPATH", "SSH_AUTH_SOCK"):
        monkeypatch.setenv(name, "leaked")
    done, said = run("env; pwd; cat")
    names = {line.partition("=")[0] for line in said.splitlines() if "=" in line}
    assert names - {"PWD", "OLDPWD", "SHLVL", "_"} == {"PATH", "HOME", "TMPDIR", "LANG", "TERM"}
    assert "leaked" not in said
    assert f"HOME={tmp_path}/r/home" in said
    assert said.endswith(f"{tmp_path}/r/files\n")
    assert done.exit_code == 0


def test_exit_codes_and_folders(run, tmp_path):
    (tmp_path / "r").mkdir()
    assert run("mkdir sub; exit 3")[0].exit_code == 3
    assert run("pwd", cwd="sub")[1] == f"{tmp_path}/r/files/sub\n"
    assert run("kill -9 $$")[0].exit_code == 137
    assert run("-x")[0].exit_code == 127
    assert run("pwd", cwd="none")[0].outcome == "failed"
    assert run("pwd", cwd="..")[0].outcome == "denied"


def test_a_command_that_does_not_end_is_ended_with_all_it_began(run, tmp_path):
    begun = time.monotonic()
    done, _ = run("echo $$; (setsid sleep 1000 &) ; sleep 1000", seconds_max=0.5)
    assert (done.outcome, done.error) == ("cancelled", "it took over 0.5 s")
    done, said = run("yes", output_bytes_max=10_000)
    assert (done.outcome, len(said)) == ("cancelled", 10_000)
    done, _ = run("sleep 1000 & echo begun", seconds_max=300)
    assert done.outcome == "ok", "what it left behind was waited for until it took too long"
    assert time.monotonic() - begun < 900  # nobody waited for any of the sleeps


def test_what_a_command_writes_is_bounded(run, tmp_path):
    done, _ = run("head -c 100000 /dev/zero > big", file_bytes_max=4096)
    assert done.outcome == "failed"
    assert (tmp_path / "r" / "files" / "big").stat().st_size <= 4096


@needs_namespaces
def test_a_command_has_no_network(run):
    _, said = run("cat /proc/net/dev | wc -l")
    assert int(said) <= 3  # two lines of heading, and a loopback that is down
    assert run("cat /proc/net/dev | wc -l", allow_network=True)[0].outcome == "ok"


def test_without_namespaces_a_command_is_refused_unless_the_network_is_allowed(tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("sh", "git", "echo"):
        (tools / tool).symlink_to(
            next(f"{place}/{tool}" for place in ("/bin", "/usr/bin") if os.path.exists(f"{place}/{tool}"))
        )
    taped = Taped().step("COMMAND_RUN", "echo hello")
    world = folder_world(taped, tmp_path / "a", path=os.fspath(tools), allow_commands=True, allow_network=True)
    assert replay(taped, world)[1].states == {"done": 1}
    with pytest.raises(RefusedError, match="network"):
        folder_world(taped, tmp_path / "b", path=os.fspath(tools), allow_commands=True)
    assert not (tmp_path / "b").exists()


# Tests and their reports


def test_a_test_run_is_counted_by_its_report(tmp_path):
    script = "import sys, pathlib\npathlib.Path(sys.argv[2]).write_text(f'<testsuite>{sys.argv[1] * 1}</testsuite>')\n"
    cases = "<testcase/><testcase><failure/></testcase><testcase/>"
    taped = Taped().write("run.py", script.replace("{sys.argv[1] * 1}", cases))
    taped.step("TEST_RUN", "tests", 2).step("TEST_RUN", "tests", 3).step("TEST_RUN", "--collect-only", 2)
    world = folder_world(taped, tmp_path / "r", allow_commands=True, allow_network=True,
                         test_command=("python3", "run.py", "{target}", "{report}"))  # fmt: skip
    one, report = replay(taped, world)
    assert [done.state for done in one.outcomes] == ["done", "done", "done", "denied"]
    assert [done.outcome for done in one.outcomes[:3]] == ["ok", "ok", "failed"]
    assert report.first[2:] == ("tests passed", "3", "2")
    assert os.listdir(tmp_path / "r" / "tmp") == []


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("<testsuites><testsuite><testcase/><testcase><skipped/></testcase></testsuite></testsuites>", (1, 2)),
        ("<testsuite><testcase><error/><failure/></testcase></testsuite>", (0, 1)),
        ("<testsuite/>", (0, 0)),
        ("<html/>", None),
        ("", None),
        ("<testsuite>", None),
        ('<!DOCTYPE x [<!ENTITY a "b">]><testsuite><testcase/></testsuite>', None),
    ],
)
def test_a_junit_report_is_counted_and_what_is_none_is_refused(text, counts):
    assert read_junit(text.encode()) == counts


@pytest.mark.parametrize(
    ("command", "target", "recorded", "ended", "why"),
    [
        ("exit 3", "exit 3", "failed", ("failed", 3, 0), ""),
        ("sh -c 'test -e none' | tail -5", "test -e none", "failed", ("unknown", None, 0), "hide how the tests ended"),
        ("test -e none; true", "test -e none", "failed", ("unknown", None, 0), "hide how the tests ended"),
        ("test -e none | cat", "test -e none", "ok", ("unknown", None, 0), "hide how the tests ended"),
        ("test -e none && make", "test -e none", "ok", ("unknown", None, 0), "another part"),
        ("test -d . && make none", "test -d .", "ok", ("unknown", None, 0), "another part"),
        ("cd sub && test -e none", "test -e none", "ok", ("failed", 1, 1), ""),
        ("test -d . || test -e none", "test -e none", "failed", ("unknown", None, 0), "whether the command ran"),
        ("test -e other || exit 0; test -e none", "test -e none", "failed", ("unknown", None, 0), "whether the command ran"),
        ("exec true; test -e none", "test -e none", "failed", ("unknown", None, 0), "whether the command ran"),
        ("trap 'exit 0' EXIT; test -e none", "test -e none", "failed", ("unknown", None, 0), "whether the command ran"),
        ("trap 'rm -f x' EXIT; cd . || exit 1; exec test -d .", "test -d .", "ok", ("ok", 0, 0), ""),
        ("test -d . && echo good", "test -d .", "ok", ("ok", 0, 0), ""),
        ("test -d . && echo good", "test -d .", "failed", ("ok", 0, 1), ""),
        ("test -d .", "tests", "ok", ("ok", 0, 0), ""),
        ("test -d . | cat", "tests", "ok", ("unknown", None, 0), "hide how the tests ended"),
    ],
)  # fmt: skip
def test_tests_whose_exit_code_is_of_something_else_are_compared_with_nothing(
    tmp_path, command, target, recorded, ended, why
):
    """That of ``tail`` was taken for theirs: tests that failed again differed, and tests that did no more were the same."""
    taped = Taped().write("sub/x", "1").step("TEST_RUN", target, None, note=command, outcome=recorded)
    said = []
    world = folder_world(taped, tmp_path / "r", allow_commands=True, allow_network=True)
    one = Replay([taped.reader], world, options(is_strict=True), clock=FixedClock(START_MS, 1), read_content=taped.objects.get,
                 observe=lambda _, did: said.append(did.detail))  # fmt: skip
    report = one.run()
    done = one.outcomes[-1]
    assert (done.outcome, done.exit_code, report.difference_count) == ended
    assert why in said[-1]
    assert bool(why) == said[-1].startswith("nothing is compared: ")


def test_what_tests_print_is_not_compared(tmp_path):
    result = Digest("sha256", hashlib.sha256(b"3 passed in 0.1s").digest())
    taped = Taped().step("TEST_RUN", "echo", None, note="echo 3 passed in 0.2s", result=result, result_size=16)
    world = folder_world(taped, tmp_path / "r", allow_commands=True, allow_network=True)
    assert replay(taped, world, is_strict=True)[1].verdict == "same"


# Git


def test_a_commit_starts_two_processes_and_no_more(tmp_path):
    """Twelve were started for each, which was most of the time that a history took."""
    repository = make_repository(tmp_path / "source")
    commit = Digest("git-sha1", bytes.fromhex(git(repository, "rev-parse", "HEAD").strip()))
    taped = Taped().write("engine.py", "revision = 1\n")
    for _ in range(10):
        taped.step("GIT_COMMIT", "engine", "again", commit)
    world = folder_world(taped, tmp_path / "r", repository=os.fspath(repository))
    started = []
    sys.addaudithook(lambda event, words: started.append(words[0]) if event == "subprocess.Popen" else None)
    report = replay(taped, world)[1]
    count = len(started)
    assert report.verdict == "same"
    assert 20 <= count <= 23  # two asked for what there was in the beginning
    assert git(tmp_path / "r" / "files", "rev-list", "--count", "HEAD") == "11\n"


@pytest.mark.slow
def test_a_file_that_is_too_large_is_noted_and_its_tree_compared(tmp_path):
    """It was left out, and with it each tree that has it was another."""
    repository = make_repository(tmp_path / "source")
    with (repository / "large").open("wb") as file:
        file.truncate((64 << 20) + 1)
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "large")
    ids = dict(
        zip(("engine.py", "large"), git(repository, "rev-parse", "HEAD:engine.py", "HEAD:large").split(), strict=True)
    )
    engine, large = (Digest("git-sha1", bytes.fromhex(one)) for one in ids.values())
    commit = Digest("git-sha1", bytes.fromhex(git(repository, "rev-parse", "HEAD").strip()))
    taped = (
        Taped()
        .step("FILE_WRITE", "engine.py", engine)
        .step("FILE_WRITE", "large", large)
        .step("GIT_COMMIT", "x", "m", commit)
    )
    taped.step("FILE_MOVE", "large", "a/larger").step("FILE_MOVE", "a/larger", "large").step("CHECKPOINT", commit)
    world = folder_world(taped, tmp_path / "r", repository=os.fspath(repository))
    report = replay(taped, world)[1]
    assert (report.verdict, report.states) == ("same", {"done": 5, "skipped": 1})
    assert world.left_out == ("large",)


def test_a_run_on_a_base_is_compared_with_recorded_commits(tmp_path):
    repository = make_repository(tmp_path / "source")
    (repository / "link").symlink_to("engine.py")
    (repository / "ignored.log").write_text("tracked all the same\n")
    (repository / ".gitignore").write_text("*.log\n")
    (repository / "tool").write_text("#!/bin/sh\n")
    (repository / "tool").chmod(0o755)
    git(repository, "add", "-A", "-f")
    git(repository, "commit", "-q", "-m", "base")
    base = git(repository, "rev-parse", "HEAD").strip()
    (repository / "engine.py").write_text("revision = 7\n")
    git(repository, "commit", "-q", "-am", "seven")
    commit = Digest("git-sha1", bytes.fromhex(git(repository, "rev-parse", "HEAD").strip()))
    tree = Digest("git-sha1", bytes.fromhex(git(repository, "rev-parse", "HEAD^{tree}").strip()))
    before = files_in(repository)

    def taped(new):
        return (
            Taped(base=Digest("git-sha1", bytes.fromhex(base)))
            .step("FILE_EDIT", "engine.py", "revision = 1", new)
            .step("GIT_COMMIT", "engine", "-m", commit)
            .step("CHECKPOINT", tree)
            .step("CHECKPOINT", commit)
        )

    plan = {"base": base, "repository": os.fspath(repository)}
    good = taped("revision = 7")
    world = folder_world(good, tmp_path / "good", **plan)
    _, report = replay(good, world)
    assert (report.verdict, report.differences, report.states) == ("same", (), {"done": 4})
    assert world.left_out == ("link",)
    assert os.access(tmp_path / "good" / "files" / "tool", os.X_OK)
    assert git(tmp_path / "good" / "files", "log", "--format=%s").split() == ["-m", "base"]
    bad = taped("revision = 8")
    _, report = replay(bad, folder_world(bad, tmp_path / "bad", **plan))
    assert [(one.at, one.what) for one in report.differences] == [(1, "tree"), (2, "tree"), (3, "tree")]
    with pytest.raises(NotFoundError, match="no commit"):
        folder_world(bad, tmp_path / "none", base="f" * 40, repository=os.fspath(repository))
    assert files_in(repository) == before
    assert git(repository, "status", "--porcelain") == ""


def test_a_base_with_a_store_in_it_is_replayed_without_it(tmp_path):
    """What is committed of a store is no file of the run, and checkpoints have none of it."""
    repository = make_repository(tmp_path / "source")
    bare = Digest("git-sha1", bytes.fromhex(git(repository, "rev-parse", "HEAD^{tree}").strip()))
    (repository / ".periplus").mkdir()
    (repository / ".periplus" / "config.toml").write_text("v = 2\n")
    git(repository, "add", "-A", "-f")
    git(repository, "commit", "-q", "-m", "a store")
    base = git(repository, "rev-parse", "HEAD").strip()
    (repository / "engine.py").write_text("revision = 7\n")
    git(repository, "commit", "-q", "-am", "seven")
    commit = Digest("git-sha1", bytes.fromhex(git(repository, "rev-parse", "HEAD").strip()))
    taped = (
        Taped()
        .step("CHECKPOINT", bare)
        .step("CHECKPOINT", Digest("git-sha1", bytes.fromhex(base)))
        .step("FILE_EDIT", "engine.py", "revision = 1", "revision = 7")
        .step("GIT_COMMIT", "engine", "seven", commit)
        .step("CHECKPOINT", commit)
    )
    world = folder_world(taped, tmp_path / "r", base=base, repository=os.fspath(repository))
    _, report = replay(taped, world)
    assert (report.verdict, report.differences, report.states) == ("same", (), {"done": 5})
    assert not (tmp_path / "r" / "files" / ".periplus").exists()
    (repository / "part" / ".periplus").mkdir(parents=True)
    (repository / "part" / ".periplus" / "config.toml").write_text("v = 2\n")
    git(repository, "add", "-A", "-f")
    git(repository, "commit", "-q", "-m", "a store of a part")
    commit = Digest("git-sha1", bytes.fromhex(git(repository, "rev-parse", "HEAD").strip()))
    taped = Taped().step("CHECKPOINT", commit)
    world = folder_world(taped, tmp_path / "p", base=commit.value.hex(), repository=os.fspath(repository))
    _, report = replay(taped, world)
    assert (report.verdict, world.left_out) == ("same", ("part/.periplus/config.toml",))


def test_nothing_of_a_repository_is_run(tmp_path):
    """Hooks, filters, monitors and editors, in the source and, planted by a command, in the folder of the replay."""
    repository = make_repository(tmp_path / "source")
    mark = tmp_path / "ran"
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
    trap.chmod(0o755)
    (repository / ".gitattributes").write_text("* filter=trap diff=trap\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "attributes")
    commit = Digest("git-sha1", bytes.fromhex(git(repository, "rev-parse", "HEAD").strip()))
    settings_of_traps = ("filter.trap.clean", "filter.trap.smudge", "core.fsmonitor", "core.editor", "core.sshCommand",
                         "diff.trap.textconv", "gpg.program", "core.pager", "core.hooksPath")  # fmt: skip
    for name in settings_of_traps:
        git(repository, "config", name, os.fspath(tmp_path if name == "core.hooksPath" else trap))
    git(repository, "config", "commit.gpgSign", "true")
    for hook in ("pre-commit", "commit-msg", "post-commit", "reference-transaction", "post-index-change"):
        (tmp_path / hook).symlink_to(trap)
    plant = f"cp {repository}/.git/config .git/config; mkdir -p .git/hooks; cp {trap} .git/hooks/pre-commit"
    taped = Taped().step("COMMAND_RUN", plant).write("a", "1").step("GIT_COMMIT", "r", "m").step("CHECKPOINT", commit)
    plan = {
        "base": commit.value.hex(),
        "repository": os.fspath(repository),
        "allow_commands": True,
        "allow_network": True,
    }
    world = folder_world(taped, tmp_path / "r", **plan)
    _, report = replay(taped, world)
    assert [one.what for one in report.differences] == ["tree"]  # there is one file more than recorded
    assert not mark.exists()


def test_a_folder_that_is_something_else_is_refused(tmp_path):
    taped = a_run()
    place = tmp_path / "mine"
    (place / "files").mkdir(parents=True)
    (place / "files" / "precious").write_text("precious")
    for build in (
        lambda: None,
        lambda: (place / "made.json").write_text("what?"),
        lambda: (place / "made.json").write_text("[1]"),
    ):
        build()
        with pytest.raises(RefusedError, match="not the folder of a replay"):
            folder_world(taped, place)
        assert (place / "files" / "precious").read_text() == "precious"
    (tmp_path / "file").write_text("")
    with pytest.raises(RefusedError):
        folder_world(taped, tmp_path / "file")


def test_a_copy_of_a_folder_is_worked_on(tmp_path):
    source = tmp_path / "source"
    (source / ".git").mkdir(parents=True)
    (source / ".git" / "config").write_text("[core]\nfsmonitor = false\n")
    (source / "a").write_text("x")
    (source / "out").symlink_to("/etc/passwd")
    taped = Taped().step("FILE_EDIT", "a", "x", "y")
    world = folder_world(taped, tmp_path / "r", copied=os.fspath(source))
    assert replay(taped, world)[1].verdict == "same"
    assert files_in(tmp_path / "r" / "files") == {"a": b"y"}
    assert (source / "a").read_text() == "x"


# The replay's own trail, and redacted originals


def test_the_replay_is_a_trail_that_names_the_original():
    taped = a_run()
    one, report = replay(taped, memory(taped))
    digest = taped.reader.digest
    data = replay_trail([taped.reader], digest, one, report, world="memory", secret=bytes(32), put_text=lambda _: b"")
    assert verify(data).ok
    reader = TrailReader(data)
    assert reader.header.parents == (Digest("sha256", digest),)
    assert reader.status == "success"
    pairs = list(zip(taped.reader.steps(), reader.steps(), strict=True))
    assert all(before.code == after.code and before.operands == after.operands for before, after in pairs)
    assert [after.outcome for _, after in pairs][:3] == ["unknown", "ok", "ok"]
    assert pairs[0][1].error == "not performed"
    again = Taped()
    again._reader, again.objects = reader, taped.objects
    assert replay(again, memory(again))[1].verdict == "same"


def test_what_was_redacted_is_skipped():
    taped = Taped().write("a", "1").step("FILE_EDIT", "a", "1", "secret").write("b", "2")
    removed = ("secret", taped.objects.put("2"))
    redacted = Taped()
    redacted._reader, redacted.objects = (
        TrailReader(withhold(taped.data, lambda _, value: value in removed)),
        taped.objects,
    )
    world = memory(redacted)
    one, report = replay(redacted, world)
    assert (report.verdict, [done.state for done in one.outcomes]) == ("same", ["done", "skipped", "skipped"])
    data = replay_trail(
        [redacted.reader], bytes(32), one, report, world="memory", secret=bytes(32), put_text=lambda _: b""
    )
    assert verify(data).ok
    assert b"secret" not in data


def test_a_content_that_is_not_at_hand_is_skipped():
    taped = (
        Taped()
        .step("FILE_WRITE", "a", Digest("sha256", bytes(32)))
        .step("FILE_WRITE", "b", Digest("git-sha1", bytes(20)))
    )
    assert replay(taped, memory(taped))[1].states == {"skipped": 2}


# Edits


@given(st.binary(max_size=30), st.text("ab\n", max_size=4), st.text("ab", max_size=4), st.booleans())
@settings(max_examples=200)
def test_an_edit_is_a_replacement_or_a_reason(data, old, new, is_every):
    found = edited(data, old, new, is_every=is_every)
    count = data.count(old.encode()) if old else 0
    if not old:
        assert found == (new.encode() if not data else "the old text is empty and the file is not")
    elif count == 1 or (count and is_every):
        assert found == data.replace(old.encode(), new.encode())
    else:
        assert isinstance(found, str)


def test_an_edit_that_would_fill_the_memory_is_a_failure():
    data = b"a" * 1_000_000
    assert edited(data, "a", "b" * 100, is_every=True) == "the file would have over 67,108,864 bytes"
    assert edited(data, "a", "bb", is_every=True) == b"bb" * 1_000_000


def test_one_replay_at_a_time_in_a_folder(tmp_path):
    taped = a_run()
    log = open_log(tmp_path, taped)
    with pytest.raises(RefusedError, match="another process"):
        open_log(tmp_path, taped, is_resumed=True)
    log.close()
    with pytest.raises(RefusedError, match="has a replay already"):
        open_log(tmp_path, taped)


# Whatever a trail says


@pytest.mark.slow
@given(st.lists(trail_steps(), max_size=8), headers)
@settings(max_examples=60, deadline=None)
def test_any_trail_replays_in_every_world_without_files(recorded, header):
    taped = Taped()
    taped._reader = TrailReader(encode(header, recorded, "success", SECRET))
    taped.objects.put("a text object that nobody has")
    for world in (dry(taped), memory(taped, {"a": b"1"})):
        one, report = replay(taped, world, steps_max=50)
        assert report.steps == len(one.outcomes) == sum(report.states.values())
        assert report.verdict in ("same", "diverged", "limit")
        assert (report.difference_count > 0) == (report.first is not None)
        data = replay_trail([taped.reader], taped.reader.digest, one, report, world=world.name, secret=bytes(32),
                            put_text=lambda data: taped.objects.put(data).value)  # fmt: skip
        assert verify(data).ok
        assert TrailReader(data).step_count == report.steps
