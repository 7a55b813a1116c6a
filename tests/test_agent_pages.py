"""Handles: every one that the tape shows can be read, and gives the very text; turns are found in a store and made anew."""

from __future__ import annotations

import os
import re

import pytest

from agent_drive import DictFiles, Driver
from periplus.agent.contracts import AssistantMessage, ToolCall, ToolResult
from periplus.agent.episodes import Answered, Ended, Requested, Resulted
from periplus.agent.memories import InProcessMemory, NullMemory
from periplus.agent.null_contracts import NullRetriever
from periplus.agent.perception.file_retriever import FolderRetriever
from periplus.agent.persistence.run_log import StoreLog
from periplus.agent.persistence.turn_index import StoredTurns, TurnIndex
from periplus.agent.tape.history.handle_pages import pages_of
from periplus.agent.tape.history.turn_source import KeptTurns
from periplus.agent.tape.page_table import PageTable
from periplus.agent.tools.text_pages.page_source import Pages, PageSource
from periplus.base.errors import NotFoundError, UsageError
from periplus.journal import Writer
from periplus.memory.claim_status import session_id
from periplus.project import Project
from support import Stop, StoppingFiles

CALL = re.compile(r"path=(['\"])(@periplus/.+?)\1[,)]")
INNER = re.compile(r"\[(@periplus/[^\]]+)\]")


def session_with_everything():
    lines = b"".join(b"line %d of the file\n" % number for number in range(900))
    files = DictFiles(**{"src/a.py": lines, "it's.py": b"x = 1\n"})
    driver = Driver(files, budget=9_000, fold_to=4_000)
    for number in range(24):
        driver.begin(f"request {number} " + "please " * 300)
        driver.do("read", f"output {number}\n" * 300, path="src/a.py")
        driver.write(
            "src/a.py", files.read("src/a.py").decode().replace(f"line {number * 9} of", f"line {number * 9} in")
        )
        driver.write("it's.py", "\n".join(f"x = {number} + {line}" for line in range(number * 9)))
        driver.do("shell", "boom\n" * 50, outcome="failed", exit_code=3, command="make")
        driver.end(f"answer {number} " + "said " * 400)
    driver.begin("the last one")
    for _ in range(3):
        driver.do("read", "much " * 3_000, path="src/a.py")
    while notes := driver.tape.make_room():
        driver.take(*notes)
        driver.ask()
    return driver


def handles_in(text):
    return {handle for _, handle in CALL.findall(text) if not handle.endswith("N.md")} | set(INNER.findall(text))


def read_pages(driver):
    return Pages(pages_of(KeptTurns(lambda: driver.log), driver.files.kept))


def test_every_handle_that_is_shown_is_read_and_those_within_too():
    driver = session_with_everything()
    pages = read_pages(driver)
    waiting = set()
    for messages in driver.messages:
        waiting |= handles_in("\n".join(message.content for message in messages))
    assert {"turns", "trail", "files"} <= {handle.split("/")[1] for handle in waiting}
    read = set()
    while waiting:
        handle = waiting.pop()
        read.add(handle)
        if handle.endswith("/"):
            assert pages.list(handle)
            continue
        text = pages.read(handle)
        assert text
        if "/turns/" in handle and handle.endswith(".md"):
            waiting |= handles_in(text) - read
    assert len(read) > 40


def test_a_handle_gives_the_very_text():
    driver = session_with_everything()
    pages = read_pages(driver)
    results = [one for one in driver.log if isinstance(one, Resulted)]
    for result in results:
        assert pages.read(f"@periplus/trail/{result.turn}/{result.step}.1.txt") == result.result.output
    for digest, data in driver.files.objects.items():
        if digest:
            assert pages.read(f"@periplus/files/{digest}/x").encode() == data
    page = pages.read("@periplus/turns/3.md")
    assert "request 2 please" in page
    assert "answer 2 said" in page
    assert "[@periplus/turns/3/patch/src/a.py]" in page


def test_pages_are_listed_and_searched_like_files():
    driver = session_with_everything()
    pages = read_pages(driver)
    assert isinstance(pages_of(KeptTurns(lambda: driver.log))["turns"], PageSource)
    listed = {page.handle: page.title for page in pages.list("@periplus/turns/")}
    assert len(listed) == 25
    assert listed["@periplus/turns/25.md"] == "the last one"
    assert [match.handle for match in pages.search("request 7 ", "@periplus/turns/")] == ["@periplus/turns/8.md"]
    match = pages.search("answer 7", "@periplus/turns/8.md")[0]
    assert "answer 7" in pages.read(match.handle).split("\n")[match.line - 1]
    assert pages.list("@periplus/trail/8/")[0].handle == "@periplus/trail/8/1.1.txt"
    assert len(pages.search("output 7", "@periplus/trail/8/")) == 300
    assert [page.handle for page in pages.list("@periplus/turns/8/patch/")] == [
        "@periplus/turns/8/patch/it's.py",
        "@periplus/turns/8/patch/src/a.py",
    ]


@pytest.mark.parametrize(
    "handle",
    [
        "@periplus/turns/99.md",
        "@periplus/turns/x.md",
        "@periplus/turns/1/patch/none.py",
        "@periplus/trail/1/9.9.txt",
        "@periplus/trail/1/1.0.txt",
        "@periplus/files/00/x",
        "@periplus/files/" + "0" * 64 + "/x",
        "@periplus/none/1",
    ],
)
def test_what_is_not_there_is_said(handle):
    with pytest.raises(NotFoundError):
        read_pages(session_with_everything()).read(handle)


# -- in a store -----------------------------------------------------------------------------------------------------------


def opened(tmp_path, session="talk", **options):
    if not (tmp_path / ".periplus").exists():
        Project.init(str(tmp_path))
    writer = Writer("agent", "agt_test", session)
    return Project(str(tmp_path / ".periplus"), writer, **options)


def turn_of(number, said="", output="out"):
    call = ToolCall(id=f"c{number}", name="read", args={"path": "a", "share": 0.5})
    return (
        Requested(turn=number, text=f"request {number} about {said}"),
        Answered(turn=number, step=1, message=AssistantMessage(tool_calls=(call,))),
        Resulted(turn=number, step=1, call_id=call.id, name="read", result=ToolResult(outcome="ok", output=output)),
        Answered(turn=number, step=2, message=AssistantMessage(content=f"answer {number}")),
        Ended(turn=number, step=2, reason="done", text=f"answer {number}"),
    )


def test_turns_of_a_store_are_found_and_read_by_another_process(tmp_path):
    with opened(tmp_path) as project:
        log = StoreLog(project, "talk", checkpoints=False)
        kept = {}
        for number, said in ((1, "zebras"), (2, "bread"), (3, "the zebra's stripes")):
            kept[number] = log.append(*turn_of(number, said, "x" * 10_000))
        log.close("done")
    with opened(tmp_path, "other") as project:
        index = TurnIndex(project)
        turns = StoredTurns(index, session_id("talk"))
        assert {found.turn for found in index.search("zebra", 5)} == {1, 3}
        assert index.search("zebra", 5, but=session_id("talk")) == []
        assert index.search("zebra", 0) == []
        assert [turn for turn, _ in turns.titles()] == [1, 2, 3]
        for number, episodes in kept.items():
            assert tuple(turns.episodes(number)) == tuple(episodes)
        pages = Pages(pages_of(turns, turns_of=lambda item_id: StoredTurns(index, item_id), project=project))
        assert pages.read("@periplus/trail/2/1.1.txt") == "x" * 10_000
        handle = f"@periplus/sessions/{session_id('talk')}/turns/2.md"
        inner = INNER.findall(pages.read(handle))
        assert [pages.read(one) for one in inner] == ["x" * 10_000]
        assert [match.handle for match in pages.search("bread", "@periplus/turns/")] == ["@periplus/turns/2.md"]
        index.close()


@pytest.mark.parametrize("put", [os.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_what_stands_by_now_where_a_file_was_written_ends_no_session(tmp_path, put):
    with opened(tmp_path) as project:
        log = StoreLog(project, "talk", checkpoints=False)
        put(tmp_path / "made")
        call = ToolCall(id="c", name="write", args={"path": "made"})
        effects = ({"path": "made", "before": None, "after": "ab" * 32},)
        log.append(
            Requested(turn=1, text="go"), Answered(turn=1, step=1, message=AssistantMessage(tool_calls=(call,))),
            Resulted(turn=1, step=1, call_id="c", name="write", result=ToolResult(outcome="ok", output="", effects=effects)),
        )  # fmt: skip
        log.close("done")
        (trail,) = project.journal.entities("trail")
        assert trail.value["files"] == ["made"]


def test_a_turn_in_progress_is_read_and_found_when_it_is_over(tmp_path):
    with opened(tmp_path) as project:
        log = StoreLog(project, "talk", checkpoints=False)
        index = TurnIndex(project)
        episodes = turn_of(1, "zebras")
        log.append(*episodes[:2])
        assert index.search("zebra", 5) == []
        assert len(index.episodes(session_id("talk"), 1)) == 2
        log.append(*episodes[2:])
        assert len(index.search("zebra", 5)) == 1
        assert len(index.episodes(session_id("talk"), 1)) == 5
        index.close()


def test_the_file_of_turns_may_be_lost_damaged_or_of_another_version(tmp_path):
    with opened(tmp_path) as project:
        log = StoreLog(project, "talk", checkpoints=False)
        log.append(*turn_of(1, "zebras"))
        path = tmp_path / ".periplus" / "turns.sqlite"
        for harm in (path.unlink, lambda: path.write_bytes(b"no database" * 500), lambda: _version(path, 7)):
            index = TurnIndex(project)
            assert len(index.search("zebra", 5)) == 1
            index.close()
            harm()
        index = TurnIndex(project)
        assert len(index.search("zebra", 5)) == 1
        index.close()


def _version(path, number):
    import sqlite3

    db = sqlite3.connect(path)
    db.execute(f"PRAGMA user_version = {number}")
    db.close()


def test_what_is_redacted_is_gone_from_the_turns_too(tmp_path):
    with opened(tmp_path) as project:
        log = StoreLog(project, "talk", checkpoints=False)
        log.append(*turn_of(1, "the quagga's name"))
        log.append(*turn_of(2, "bread"))
        index = TurnIndex(project)
        assert len(index.search("quagga", 5)) == 1
        project.redact(secret="the quagga's name", reason="private")
        assert index.search("quagga", 5) == []
        assert len(index.search("bread", 5)) == 1
        index.close()
        for file in (tmp_path / ".periplus").glob("turns.sqlite*"):
            assert b"quagga" not in file.read_bytes()


def test_a_checkpoint_of_a_task_is_there_or_not_wherever_it_is_stopped(tmp_path):
    from periplus.agent.contracts import TaskState
    from periplus.agent.memories import StoreMemory

    at, stopped = 0, True
    while stopped:
        with opened(tmp_path) as project:
            StoreMemory(project).checkpoint_task(TaskState(task_id="t", session="talk", title=f"before {at}"))
        files = StoppingFiles(at)
        stopped = False
        try:
            with opened(tmp_path, files=files) as project:
                StoreMemory(project).checkpoint_task(TaskState(task_id="t", session="talk", title=f"after {at}"))
        except Stop:
            stopped = True
        with opened(tmp_path) as project:
            held = StoreMemory(project).load_task("t")
            assert held.title in ((f"before {at}", f"after {at}") if stopped else (f"after {at}",))
        at += 1
    assert at > 5


# -- the page table -------------------------------------------------------------------------------------------------------


def test_the_page_table_chooses_among_all_backends_in_a_total_order(tmp_path):
    (tmp_path / "ports.py").write_text("PORT = 4000  # where ports begin\n")
    memory = InProcessMemory()
    memory.remember("Ports begin at 4000", "", "constraint")
    memory.append_episode("old", "t", 4, {"said": "which ports are free?"})
    memory.append_episode("now", "t", 1, {"said": "ports again"})
    table = PageTable(memory, FolderRetriever(str(tmp_path)), session="now")
    found = table.lookup("where do ports begin?")
    assert [page.kind for page in found] == ["constraint", "code", "turn"]
    assert found == table.lookup("where do ports begin?")
    assert [page.kind for page in table.lookup("ports", "code")] == ["code"]
    assert len(table.lookup("ports", k=1)) == 1
    assert tuple(PageTable().lookup("ports")) == ()
    assert tuple(PageTable(NullMemory(), NullRetriever()).lookup("ports")) == ()
    with pytest.raises(UsageError, match="unknown kind"):
        table.lookup("ports", "music")


def test_knowledge_comes_into_the_tail_and_its_use_is_counted():
    memory = InProcessMemory()
    item = memory.remember("Ports begin at 4000; <data> never 3000", "", "constraint")
    other = memory.remember("Ports are checked by make ports", "", "lesson")
    driver = Driver(pages=PageTable(memory), memory=memory)
    driver.begin("which ports?")
    tail = driver.tape.messages()[-1].content
    assert f'<data from="@periplus/memory/{item}.md (constraint)">' in tail
    assert tail.count("<data from=") == 2
    driver.do("read", "…", path=f"@periplus/memory/{item}.md")
    driver.end("From 4000.")
    assert (memory.uses(item), memory.uses(other)) == (1, 0)
    driver.take(driver.tape.fold())
    assert f"{item}.md (knowledge used in turn 1)" in driver.bytes().decode()
