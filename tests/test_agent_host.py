"""The host as a whole: what its tools cost as they are sent, programs in the sandbox, memory, the plan, questions."""

from __future__ import annotations

import json
import os
import threading
from contextlib import contextmanager

import pytest

from agent_tools_support import HOST_ENVIRONMENT, PATH
from periplus.agent.contracts import Cancellable, PageRef, PlanningHost, ToolHost
from periplus.agent.sandbox import Unconfined, find_sandbox
from periplus.agent.tools import HostParts, notes_of_plan, open_host
from periplus.base.errors import PeriplusError
from support import Stop, StoppingFiles

SCHEMA_CHARACTERS_MAX = 8_500
SANDBOXES = [Unconfined(), *(found for layer in ("bubblewrap", "landlock")
                             if (found := find_sandbox(PATH, layers=(layer,))).layer == layer)]  # fmt: skip
every_layer = pytest.mark.parametrize("sandbox", SANDBOXES, ids=lambda one: one.layer)


class Shelf:
    """A memory of one session, in a list."""

    is_durable = False

    def __init__(self):
        self.held = []

    def remember(self, content, title, scope, tags=(), paths=()):
        self.held.append((content, title, scope, tuple(tags), tuple(paths)))
        return f"dec_{len(self.held)}"

    def recall(self, query, k=6, paths=None):
        return [
            PageRef(handle=f"@periplus/memory/dec_{number}.md", kind=tags[0], preview=f"{title}: {content}", score=1.0)
            for number, (content, title, _, tags, _) in enumerate(self.held, 1)
            if query in content
        ][:k]


@contextmanager
def opened(tmp_path, **more):
    (tmp_path / "work").mkdir(exist_ok=True)
    parts = {"environment": HOST_ENVIRONMENT, "consent": lambda wish, what: True, "memory": Shelf()} | more
    host = open_host(HostParts(root=str(tmp_path / "work"), state=str(tmp_path / "state"), **parts))
    try:
        yield host
    finally:
        host.close()


def test_the_schemas_as_they_are_sent_are_short(tmp_path):
    with opened(tmp_path, sandbox=SANDBOXES[-1], authorize=lambda name, args: "") as host:
        sent = [
            {
                "type": "function",
                "function": {"name": one.name, "description": one.description, "parameters": one.parameters},
            }
            for one in host.schemas()
        ]
        assert len(json.dumps(sent, separators=(",", ":"))) <= SCHEMA_CHARACTERS_MAX
        assert isinstance(host, ToolHost)
        assert isinstance(host, PlanningHost)
        assert isinstance(host, Cancellable)
        assert len(sent) == 13


def test_schemas_are_json_schemas_and_what_fits_them_is_taken(tmp_path):
    jsonschema = pytest.importorskip("jsonschema")
    with opened(tmp_path) as host:
        for one in host.schemas():
            jsonschema.Draft202012Validator.check_schema(one.parameters)


@every_layer
def test_a_program_uses_tools_as_functions(tmp_path, sandbox):
    with opened(tmp_path, sandbox=sandbox) as host:
        (tmp_path / "work" / "a.txt").write_text("one\ntwo\n")
        source = (
            "rows = read('a.txt').split('\\n')\nprint(len(rows))\nfound = search(pattern='tw', path='.')\n"
            "try:\n    read('nowhere')\nexcept ToolError as error:\n    print(error.outcome)\nfound.split('\\n')[0]"
        )
        done = host.run("code", {"source": source})
        assert done.outcome == "ok", done.output
        assert done.output.split("\n")[1:] == ["3", "failed", "a.txt:", ""]
        assert "3 calls" in done.output.split("\n")[0]
        bad = host.run("code", {"source": "1/0"})
        assert (bad.outcome, bad.exit_code) == ("failed", 1)
        assert "ZeroDivisionError" in bad.output
        assert "SyntaxError" in host.run("code", {"source": "def"}).output


@every_layer
def test_a_program_is_in_the_sandbox_and_sees_nothing_of_the_host(tmp_path, sandbox):
    with opened(tmp_path, sandbox=sandbox) as host:
        out = host.run("code", {"source": "import os\nprint(sorted(os.environ))\nopen('made','w').write('x')"}).output
        assert "SECRET_OF_HOST" not in out
        assert (tmp_path / "work" / "made").read_text() == "x"
        host.run("code", {"source": f"open({str(tmp_path / 'outside')!r}, 'w').write('x')"})
        assert (tmp_path / "outside").exists() is (sandbox.layer == "none")


def test_a_program_changes_files_only_where_somebody_authorises_it(tmp_path):
    with opened(tmp_path) as host:
        assert "NameError" in host.run("code", {"source": "write('a', 'x')"}).output
    asked = []

    def authorize(name, args):
        asked.append((name, dict(args)))
        return "not that one" if args.get("path") == "b" else ""

    with opened(tmp_path, authorize=authorize) as host:
        host.begin_turn("7")
        done = host.run("code", {"source": "print(write('a', 'x'))\nwrite('b', 'y')"})
        assert done.outcome == "failed"
        assert "denied: not that one" in done.output
        assert [one["path"] for one in done.effects] == ["a"]
        assert asked == [("write", {"path": "a", "content": "x"}), ("write", {"path": "b", "content": "y"})]
        assert sorted(os.listdir(tmp_path / "work")) == ["a"]
        assert host.undo("7") == ("a",)


def test_what_a_program_says_over_the_pipe_is_not_believed(tmp_path):
    """It may send anything: what is no call, a tool it was not given, too much."""
    source = (
        "import os, sys\nask = int(sys.argv[2])\nanswers = read.__closure__\n"
        'for row in (b\'garbage\\n\', b\'[]\\n\', b\'{"name": "shell", "args": {"command": "touch made"}}\\n\','
        ' b\'{"name": "code", "args": {}}\\n\', b\'{"name": "read", "args": 3}\\n\'):\n    os.write(ask, row)\n'
        "lines = [cell.cell_contents for cell in answers if hasattr(cell.cell_contents, 'readline')][0]\n"
        "for _ in range(5):\n    print(lines.readline())"
    )
    with opened(tmp_path) as host:
        done = host.run("code", {"source": source})
        assert done.output.count("no call") == 3, done.output
        assert "shell cannot be called" in done.output
        assert "code cannot be called" in done.output
        assert not (tmp_path / "work" / "made").exists()
        long = host.run("code", {"source": "import os, sys\nos.write(int(sys.argv[2]), b'x' * 100)\nprint('fine')"})
        assert "fine" in long.output


def test_a_call_that_is_too_long_is_refused_and_the_program_goes_on(tmp_path):
    source = (
        "try:\n    search(pattern='x' * 9_000_000)\nexcept ToolError as error:\n    print(error)\nprint(read('a.txt'))"
    )
    with opened(tmp_path) as host:
        (tmp_path / "work" / "a.txt").write_text("one\n")
        done = host.run("code", {"source": source})
        assert done.outcome == "ok", done.output
        assert "failed: a call of over 8 MB" in done.output
        assert "1\tone" in done.output


@pytest.mark.slow
def test_a_program_ends_at_its_deadline_and_when_it_is_cancelled(tmp_path):
    with opened(tmp_path) as host:
        late = host.run("code", {"source": "import threading\nthreading.Event().wait()", "deadline_s": 1})
        assert late.outcome == "failed"
        assert "its time is over" in late.output
        found = []
        ready = tmp_path / "work" / "ready"
        os.mkfifo(ready)
        source = "open('ready','w').close()\nimport threading\nthreading.Event().wait()"
        thread = threading.Thread(target=lambda: found.append(host.run("code", {"source": source})))
        thread.start()
        ready.open().close()
        host.cancel()
        thread.join(60)
        assert found[0].outcome == "cancelled"


def test_a_large_program_and_a_large_answer_go_through(tmp_path):
    with opened(tmp_path) as host:
        (tmp_path / "work" / "big.txt").write_text("x" * 1000 + "\n" + "y\n" * 20_000)
        source = f"data = {'z' * 150_000!r}\nprint(len(data), len(read('big.txt', count=4000)))"
        done = host.run("code", {"source": source})
        assert done.outcome == "ok", done.output
        assert done.output.split("\n")[1].startswith("150000 ")


def test_memory_is_kept_and_found(tmp_path):
    memory = Shelf()
    with opened(tmp_path, memory=memory) as host:
        done = host.run(
            "remember", {"title": "Cache", "content": "the cache is cleared by hand", "kind": "trap", "paths": ["a.py"]}
        )
        assert done.output == "remembered as dec_1"
        assert memory.held == [("the cache is cleared by hand", "Cache", "project", ("trap",), ("a.py",))]
        assert host.run("recall", {"query": "cleared"}).output.split("\n")[0] == "@periplus/memory/dec_1.md (trap)"
        assert host.run("recall", {"query": "nothing such"}).output == "nothing was found"
        assert "one of decision" in host.run("remember", {"title": "x", "content": "y", "kind": "rumour"}).output
    with opened(tmp_path, memory=None) as host:
        assert "recall" not in {one.name for one in host.schemas()}


def test_the_person_is_asked_or_the_call_is_denied(tmp_path):
    with opened(tmp_path) as host:
        assert host.run("ask_user", {"question": "which?"}).outcome == "denied"
    with opened(tmp_path, asker=lambda question, options: None) as host:
        assert host.run("ask_user", {"question": "which?"}).outcome == "denied"
    with opened(tmp_path, asker=lambda question, options: f"{question} {options[1]}") as host:
        done = host.run("ask_user", {"question": "which?", "options": ["a", "b"]})
        assert (done.outcome, done.output) == ("ok", "which? b")


def test_a_plan_is_notes_of_the_working_state(tmp_path):
    args = {
        "steps": [{"text": "look", "state": "done"}, {"text": "mend"}], "requirements": [{"text": "tests pass", "done": True}],
        "findings": [{"text": "off by one", "source": "observed"}], "mission": "mend it",
    }  # fmt: skip
    noted = []
    with opened(tmp_path, note=noted.append) as host:
        assert host.run("plan", args).output == "noted; 1 steps are open"
        assert host.run("plan", {}).outcome == "failed"
    assert noted == notes_of_plan(args)
    from periplus.agent.tape.slice import Slice

    state = Slice("topic")
    for note in noted:
        state.change(note)
    assert state.plan == {"look": "done", "mend": "open"}
    assert state.requirements == {"tests pass": True}
    assert state.findings == {"off by one": "observed"}
    assert state.mission == "mend it"
    assert notes_of_plan({"steps": "nonsense"}) == []


def test_what_was_stopped_in_the_middle_is_finished_when_the_host_is_opened(tmp_path):
    class AfterOne(StoppingFiles):
        def replace_at(self, *args):
            super().replace_at(*args)
            raise Stop

    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a").write_text("one")
    (tmp_path / "work" / "b").write_text("one")
    edits = {"edits": [{"path": path, "old": "one", "new": "two"} for path in "ab"]}
    with pytest.raises(Stop), opened(tmp_path, files=AfterOne(10_000)) as host:
        host.run("edit", edits)
    assert (tmp_path / "work" / "b").read_text() == "one"
    with opened(tmp_path) as host:
        assert host.recovered.finished == ("a", "b")
        assert (tmp_path / "work" / "b").read_text() == "two"
        host.undo("0")
        assert (tmp_path / "work" / "a").read_text() == "one"


def test_a_log_that_is_damaged_is_told_and_nothing_is_done(tmp_path):
    with opened(tmp_path) as host:
        host.run("write", {"path": "a", "content": "x"})
    log = tmp_path / "state" / "changes.jsonl"
    log.write_bytes(b'{"kind":"what"}\n' + log.read_bytes())
    with pytest.raises(PeriplusError, match="not a line of a change log") as caught, opened(tmp_path):
        pass
    assert caught.value.safe


def test_a_tool_of_somebody_else_that_breaks_is_told(tmp_path):
    from periplus.agent.contracts import Access
    from periplus.agent.tools import Parameter, Tool

    def broken(args):
        raise KeyError("missing")

    tool = Tool(
        "broken", "Breaks.", (Parameter("x", "integer"),), broken, lambda _: (Access(resource="*", mode="write"),)
    )
    with opened(tmp_path, more=[tool]) as host:
        assert "broken has a defect: KeyError" in host.run("broken", {"x": 1}).output
        with pytest.raises(PeriplusError, match="two tools named"):
            host.add(tool)
