"""The tape in a session of the real loop, with real tools in a real folder and the log in a store."""

from __future__ import annotations

import re
import tracemalloc
from pathlib import Path

import pytest

from agent_drive import DictFiles, Driver
from agent_support import schema
from periplus.agent.loop import Limits
from periplus.agent.models.scripted import ScriptedClient, answer, call
from periplus.agent.persistence.run_log import StoreLog
from periplus.agent.persistence.turn_index import StoredTurns, TurnIndex
from periplus.agent.session import Parts, Session
from periplus.agent.tape import SYSTEM_PROMPT, Tape, prompt_for
from periplus.agent.tape.folder_view import FolderView
from periplus.agent.tape.history.handle_pages import pages_of
from periplus.agent.tape.prefix_survival import PrefixMeter, common_length, serialised
from periplus.agent.tape.slice_fields import FIELDS
from periplus.agent.tape_notes import Fact, SliceNote, note_in
from periplus.agent.tools import LocalToolHost, Pages, Workspace, edit_tool, list_tool, read_tool
from periplus.journal import Writer
from periplus.memory.claim_status import session_id
from periplus.project import Project


class Held:
    """A project with an agent in it; ``again`` is another process."""

    def __init__(self, folder, script, **options):
        self.folder = folder
        self.project = Project.open(str(folder), Writer("agent", "agt_test", "talk"))
        self.index = TurnIndex(self.project)
        pages = Pages(pages_of(StoredTurns(self.index, session_id("talk")), project=self.project))
        self.work = Workspace(str(folder / "work"), str(folder / "state"), pages=pages)
        self.host = LocalToolHost(self.work, [read_tool(self.work), edit_tool(self.work), list_tool(self.work)])
        self.tape = Tape(
            SYSTEM_PROMPT,
            self.host.schemas(),
            session="talk",
            files=FolderView(self.work.folder, self.work.changes.objects.get),
            **options,
        )
        self.log = StoreLog(self.project, "talk", checkpoints=False)
        self.client = ScriptedClient(script)
        self.session = Session(Parts(self.client, self.host, self.tape, self.log, limits=Limits(steps=20)))

    def close(self):
        self.session.close()
        self.host.close()
        self.index.close()
        self.project.close()

    def bytes(self):
        return b"".join(serialised(message) for message in self.tape.messages())


def made(tmp_path):
    Project.init(str(tmp_path))
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.py").write_text("one = 1\ntwo = 2\n")


def edited(number):
    old = 2 if number == 1 else number + 1
    edit = {"path": "a.py", "old": f"two = {old}", "new": f"two = {number + 2}"}
    return [
        answer("", call("read", path="a.py")),
        answer("", call("edit", edits=[edit])),
        answer(f"two is {number + 2}"),
    ]


def test_a_session_goes_on_in_another_process_with_the_same_bytes(tmp_path):
    made(tmp_path)
    held = Held(tmp_path, [*edited(1), *edited(2)])
    held.session.turn("make it larger")
    held.session.turn("and again")
    before = held.bytes()
    seals = [
        note
        for note in map(note_in, (one for one in held.log.read() if hasattr(one, "topic") and hasattr(one, "data")))
        if hasattr(note, "patches")
    ]
    assert [patch.diff for note in seals for patch in note.patches] == [
        "@@ -1,2 +1,2 @@\n one = 1\n-two = 2\n+two = 3\n",
        "@@ -1,2 +1,2 @@\n one = 1\n-two = 3\n+two = 4\n",
    ]
    held.close()
    (tmp_path / "work" / "a.py").write_text("one = 1\ntwo = 4\nthree = 3\n")
    other = Held(tmp_path, ["I see."])
    assert other.bytes() == before
    other.session.turn("what changed?")
    request = other.client.requests[0][0]
    assert "a.py (changed outside, seen in turn 3, +1 -0)" in request[-1].content
    assert b"".join(serialised(message) for message in request).startswith(before)
    other.close()


def test_folded_turns_are_read_by_the_model_with_the_ordinary_tool(tmp_path):
    made(tmp_path)
    held = Held(tmp_path, [*edited(1), answer("", call("read", path="@periplus/turns/1.md")), "It was 2."])
    held.session.turn("make it larger")
    held.tape.take(*held.log.append(held.tape.fold()))
    held.session.turn("what was it before?")
    request = held.client.requests[-1][0]
    assert "@periplus/turns/1.md" in request[1].content
    assert "two = 3" in request[1].content
    assert "make it larger" in request[-1].content
    assert "[@periplus/turns/1/patch/a.py]" in request[-1].content
    held.close()


def test_the_front_of_every_request_is_short():
    assert len(SYSTEM_PROMPT) <= 3_500  # with 8,500 of tools it is 12,000
    assert SYSTEM_PROMPT in prompt_for("Be brief.")
    assert prompt_for("  ") == SYSTEM_PROMPT


def test_survival_is_told_as_it_is_defined():
    tools = [schema("read", "path")]
    meter = PrefixMeter(tools)
    from periplus.agent.contracts import Message

    first = [Message(role="system", content="s"), Message(role="user", content="abc")]
    second = [first[0], Message(role="user", content="abd"), Message(role="user", content="more")]
    assert meter.take(first, 1, 0).previous_bytes == 0
    found = meter.take(second, 2, 0)
    whole = [b"".join([*map(serialised, tools), *map(serialised, messages)]) for messages in (first, second)]
    assert found.previous_bytes == len(whole[0])
    assert found.request_bytes == len(whole[1])
    assert found.common_bytes == common_length(*whole)
    assert meter.between == [found.millionths / 1e6]
    meter.take(second, 3, 1)
    assert meter.at_folds == [1.0]
    marked = Message(role="system", content="s", breakpoint=True)
    assert serialised(marked) == serialised(first[0])


def test_the_page_shows_what_is_so(capsys):
    """The example of docs/guides/agent/tape.md runs, and the table of working-state.md is that of the code."""
    page = (Path(__file__).resolve().parents[1] / "docs" / "guides" / "agent" / "tape.md").read_text()
    exec(compile(re.search(r"```python\n(.*?)```", page, re.DOTALL)[1], "docs/guides/agent/tape.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["2 0", "4 1000000"]
    assert lines[2].startswith("3 ")
    table = (Path(__file__).resolve().parents[1] / "docs" / "reference" / "working-state.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (turn|task|session) \| ([^|]+) \| ([^|]+) \|", table, re.MULTILINE)
    assert rows == [(row.name, row.lifetime, row.producer, ", ".join(row.readers)) for row in FIELDS]


def test_what_the_page_shows_is_what_is_sent():
    page = (Path(__file__).resolve().parents[1] / "docs" / "guides" / "agent" / "tape.md").read_text()
    shown = re.findall(r"```text\n(.*?)```", page, re.DOTALL)[1:3]
    text = b"FIRST = 3000\n\n\ndef free(taken):\n    port = FIRST\n    while port in taken:\n        port += 1\n    return port\n"
    facts = (Fact(name="time", text="2026-11-21 20:43 UTC"), Fact(name="git", text="main, clean"))
    driver = Driver(DictFiles(**{"src/ports.py": text}), facts=lambda: facts)
    driver.take(driver.tape.change(SliceNote(field="rules", op="add", value="Never change schema.sql.")))
    driver.begin("Ports must begin at 4000.")
    driver.do("read", text.decode(), path="src/ports.py")
    driver.write("src/ports.py", text.decode().replace("3000", "4000"))
    driver.do("shell", "2 passed in 0.03s", command="pytest -q", exit_code=0)
    driver.end("FIRST is 4000 now; the two tests pass.")
    driver.begin("Leave out 4004.")
    now = driver.files.read("src/ports.py").decode()
    driver.write("src/ports.py", now.replace("in taken:", "in taken or port == 4004:"))
    driver.end("4004 is left out. I did not run the tests.")
    driver.take(driver.tape.fold())
    driver.begin("Now run them.")
    assert [f"{message.content}\n" for message in driver.tape.messages()[1:]] == shown


@pytest.mark.slow
def test_a_long_session_is_taken_up_without_all_of_it_being_held(tmp_path):
    """Turns that were folded are behind handles; who goes on reads past them one by one."""
    made(tmp_path)
    turns, size = 40, 100_000
    with Project.open(str(tmp_path), Writer("agent", "agt_test", "talk")) as project:
        log = StoreLog(project, "talk", checkpoints=False)
        driver = Driver(budget=30_000, fold_to=10_000)
        for number in range(turns):
            driver.begin(f"Look at part {number}")
            driver.do("read", f"{number:>9}\n" * (size // 10), path="big.txt")
            driver.end()
        log.append(*driver.log)
        log.close(None)

    held = Held(tmp_path, [])
    held.close()
    tracemalloc.start()
    try:
        held = Held(tmp_path, [], budget=30_000, fold_to=10_000)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held.tape.state.turn == turns
    assert held.tape.state.tokens == driver.tape.state.tokens
    assert most < turns * size * 3 // 4
    held.close()
