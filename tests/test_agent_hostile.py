"""A model that sends anything: no call raises, none leaves the folder, and what is meant is done all the same."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_tools_support import edit, make_host, shell_host
from periplus.agent.sandbox import Unconfined, find_sandbox
from periplus.agent.tools.shell.commands import Shell

PATHS = st.sampled_from([
    "a", "sub/b", "../out", "/etc/passwd", "link", "link/held", "", ".", "..", "sub", ".git/config", "a/../b", "~/x", "$HOME", "-rf", "a\0b",
    "sub/../../out", "@periplus/output/1.txt", "@periplus/../x", "@periplus", "\u2024\u2024/out", "a" * 300, "*", "new", "sub/new", "pipe",
]) | st.text(max_size=10)  # fmt: skip
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | PATHS | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["path", "old", "new", "edits", "create"]), inner, max_size=4)
    ),
    max_leaves=6,
)
EDIT = st.fixed_dictionaries({"path": PATHS}, optional={
    "old": st.sampled_from(["x", "", "\n", "zzz", "é"]), "new": st.sampled_from(["y", "", "\r\n"]), "every": st.booleans(),
    "create": st.text(max_size=5), "delete": st.booleans(), "move_to": PATHS,
})  # fmt: skip
CALLS = st.one_of(
    st.tuples(st.sampled_from(["read", "list", "search", "edit", "write", "nothing"]), st.dictionaries(
        st.sampled_from(["path", "start", "count", "offset", "hex", "glob", "depth", "pattern", "edits", "content", "context"]), ANY, max_size=4)),
    st.tuples(st.just("edit"), st.fixed_dictionaries({"edits": st.lists(EDIT, min_size=1, max_size=4)})),
    st.tuples(st.just("write"), st.fixed_dictionaries({"path": PATHS, "content": st.text(max_size=10)})),
    st.tuples(st.just("read"), st.fixed_dictionaries({"path": PATHS}, optional={"start": st.integers(), "count": st.integers(1, 9)})),
    st.tuples(st.just("list"), st.fixed_dictionaries({"path": PATHS}, optional={"glob": st.text(max_size=8), "ignored": st.booleans()})),
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(CALLS, min_size=1, max_size=8))
def test_whatever_is_sent_is_answered_and_nothing_outside_is_touched(tmp_path, calls):
    place = tmp_path / os.urandom(4).hex()
    outside = place / "out"
    outside.mkdir(parents=True)
    (outside / "held").write_text("held")
    host = make_host(place)
    work = place / "work"
    (work / "sub").mkdir()
    (work / ".git").mkdir()
    (work / ".git" / "config").write_text("x")
    (work / "a").write_text("x\nx é\r\n")
    (work / "sub" / "b").write_bytes(b"\xff\0x")
    (work / "link").symlink_to(outside)
    os.mkfifo(work / "pipe")
    host.begin_turn("1")
    for name, args in calls:
        result = host.run(name, args)
        assert result.outcome in ("ok", "failed", "denied")
        host.accesses(name, args)
        host.plan(name, args)
    assert sorted(os.listdir(place)) == ["out", "state", "work"]
    assert (os.listdir(outside), (outside / "held").read_text()) == (["held"], "held")
    assert (work / ".git" / "config").read_text() == "x"
    assert os.readlink(work / "link") == str(outside)
    if "1" in host.work.changes.turns():
        host.undo("1")
        assert (work / "a").read_bytes() == "x\nx é\r\n".encode()
        assert (work / "sub" / "b").read_bytes() == b"\xff\0x"
    host.close()


def test_arguments_that_are_sent_empty_are_not_meant(tmp_path):
    host = make_host(tmp_path)
    (tmp_path / "work" / "a").write_text("one\n")
    filled = {"old": "one", "new": "two", "every": False, "create": "", "delete": False, "move_to": ""}
    assert host.run("edit", {"edits": [{"path": "a", **filled}]}).outcome == "ok"
    assert (tmp_path / "work" / "a").read_text() == "two\n"
    done = host.run("read", {"path": "a", "start": 1, "count": None, "offset": 0, "hex": False})
    assert done.output.split("\n")[1] == "1\ttwo"
    assert host.run("edit", {"edits": [{"path": "b", "create": ""}]}).outcome == "ok"
    assert (tmp_path / "work" / "b").read_text() == ""
    assert host.run("edit", {"edits": [{"path": "a", "delete": False}]}).outcome == "failed"
    assert host.run("edit", {"edits": [{"path": "a", "create": "x", "new": "y"}]}).outcome == "failed"
    assert host.run("edit", {"edits": '[{"path": "a", "old": "two", "new": "three"}]'}).outcome == "ok"


def test_the_folder_is_known_by_the_name_it_was_given(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "work").symlink_to(tmp_path / "real")
    host = make_host(tmp_path)
    for root in ("real", "work"):
        assert host.run("write", {"path": f"{tmp_path}/{root}/{root}.txt", "content": "x"}).outcome == "ok"
    assert sorted(os.listdir(tmp_path / "real")) == ["real.txt", "work.txt"]


SANDBOXES = [
    found
    for layer in ("bubblewrap", "landlock")
    if (found := find_sandbox("/usr/bin:/bin", layers=(layer,))).layer == layer
]


@pytest.mark.parametrize("sandbox", [*SANDBOXES, Unconfined()], ids=lambda one: one.layer)
def test_the_sessions_own_folders_may_lie_in_the_store(tmp_path, sandbox):
    """The store is protected, and what a command needs of its own in it is not."""
    (tmp_path / "work" / ".periplus").mkdir(parents=True)
    with shell_host(tmp_path, sandbox=sandbox) as host:
        state = tmp_path / "work" / ".periplus" / "agent"
        host.work.state = str(state)
        own = Shell(
            host.work,
            host.shell.processes,
            sandbox,
            environment={"PATH": "/usr/bin:/bin"},
            consent=lambda wish, what: True,
        )
        command = "echo x > $TMPDIR/t && echo x > $HOME/h && echo FINE; echo x > .periplus/no"
        process = own.start(own.words(command), ".", command)
        assert process.wait(60)
        assert "FINE" in process.output.text()
        assert (state / "tmp" / "t").exists()
        assert (tmp_path / "work" / ".periplus" / "no").exists() is (sandbox.layer == "none")


def test_a_command_that_changes_what_is_claimed_is_refused_or_told_so(tmp_path):
    from periplus.base.errors import ClaimedError

    def guard(paths):
        if "b" in paths:
            raise ClaimedError("b is claimed by somebody", claims=("clm_1",))

    with shell_host(tmp_path) as host:
        host.work._guard = guard
        for command in ("echo x > b", "cd . && tee ./b < a", "sed -i s/a/b/ b", "bash -c 'touch b'"):
            refused = host.run("shell", {"command": command})
            assert (refused.outcome, host.work.read("b")) == ("denied", None)
            assert "claimed by somebody" in refused.output
        # What its words do not say is told when it is done.
        assert "claimed by somebody" in host.run("shell", {"command": "printf 'echo x > b' > do.sh; sh do.sh"}).output
        assert "claimed" not in host.run("shell", {"command": "echo x > c"}).output
        assert host.run("edit", edit("b", "x", "y")).outcome == "denied"


def test_a_start_that_cannot_be_made_does_not_hold_up_the_next(tmp_path):
    with shell_host(tmp_path) as host:
        with pytest.raises(ValueError, match="null byte"):
            host.shell.start(["/bin/echo", "a\0b"], ".", "nothing")
        assert host.run("shell", {"command": "echo fine"}).outcome == "ok"
