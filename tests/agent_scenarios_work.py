"""Scenarios of work: editing, checking, going back, commands, what others change meanwhile."""

from __future__ import annotations

import re
import threading

import pytest

from agent_scenario import scenario, shown_by
from agent_scene import CALC, MENDS, RUN, Person, edit, read, says, shell
from cli_support import git
from periplus.agent.episodes import Answered, Fed, Noted, Resulted
from periplus.agent.events import SessionResumed
from periplus.agent.tape_notes import FoldNote, SliceNote, note_in
from support import Stop

FILE_PAGE = re.compile(r"@periplus/files/[0-9a-f]{64}/calc\.py")
LONG = "what was found and why it matters, said at some length so that it fills the tape a little; " * 30


@scenario(
    "three turns change a file and make another; the tree is as said, and each request begins with the one before",
    "anthropic",
)
def edits_over_several_turns(scene):
    scene.open(
        says("I look.", read("calc.py")), says("", MENDS), says("It adds."),
        says("", edit("def add", "def plus"), ("edit", {"edits": [{"path": "check.py", "old": "calc.add", "new": "calc.plus", "every": True}]})),
        says("Renamed."),
        says("", ("write", {"path": "NOTES.md", "content": "plus adds\n"})), says("Noted."),
    )  # fmt: skip
    assert [scene.turn(text).text for text in ("mend it", "call it plus", "write it down")] == [
        "It adds.",
        "Renamed.",
        "Noted.",
    ]
    assert scene.text() == "def plus(a, b):\n    return a + b\n"
    assert "calc.plus(1, 2) == 3" in scene.text("check.py")
    assert git(scene.folder, "status", "--porcelain").split() == ["M", "calc.py", "M", "check.py", "??", "NOTES.md"]


@scenario("the test is seen to fail, the code is mended, the test is seen to pass", "openai-chat")
def failing_test_then_mended(scene):
    scene.open(
        says("", shell(RUN)), says("A sign.", read("calc.py")), says("", MENDS), says("", shell(RUN)), says("Mended.")
    )
    assert scene.turn("make the check pass").reason == "done"
    codes = [one.result.exit_code for one in scene.episodes(Resulted) if one.name == "shell"]
    assert codes == [1, 0]
    assert "AssertionError: -1" in scene.outputs[0]


@scenario("an old version of a file is found by its handle and put back, byte for byte", "openai-responses")
def revert_by_reference(scene):
    found = []

    def look(body):
        found.append(FILE_PAGE.search(str(body))[0])
        return says("", read(found[0]))

    scene.open(
        says("", read("calc.py")), says("", MENDS), says("Done."), says("", edit("a + b", "a * b")), says("Times."),
        says("", read("@periplus/turns/1.md")), look, says("", ("write", {"path": "calc.py", "content": CALC})), says("As it was."),
    )  # fmt: skip
    for text in ("add", "no, times", "put it back as it was at first"):
        scene.turn(text)
    assert scene.text() == CALC
    assert git(scene.folder, "status", "--porcelain") == ""
    assert "return a - b" in scene.outputs[-2]


@scenario("several reads of one answer come back in the order of the calls, whichever was done first", "anthropic")
def reads_beside_each_other(scene):
    names = [f"part{number}.txt" for number in range(6)]
    for name in names:
        scene.file(name, f"this is {name}\n" * (1 if name != names[0] else 5_000))
    scene.open(says("", *(read(name, count=3) for name in names)), says("All read."))
    scene.turn("read them")
    told = [message.content for message in scene.messages[-1] if message.role == "tool"]
    assert [name in text for name, text in zip(names, told, strict=True)] == [True] * 6


@scenario(
    "a turn whose process is gone is taken up by another: what was done is not done again, the same bytes are sent on",
    "anthropic",
)
def interrupted_and_resumed(scene):
    def dies(messages, tools=None):
        raise Stop

    scene.wire, wire = "", scene.wire
    scene.open(says("", read("calc.py")), says("", MENDS, shell("echo once >> ran.log")), dies)
    try:
        scene.turn("mend it")
    except Stop:
        pass
    scene.wire = wire
    session = scene.again(says("", shell(RUN)), says("It adds."))
    assert session.is_interrupted
    assert session.resume().text == "It adds."
    assert scene.text("ran.log") == "once\n"
    assert scene.outcomes == ["ok"] * 4
    assert scene.seen(SessionResumed)[0].indeterminate == ()


@scenario("a command whose outcome was never written is told as indeterminate, and not run again", "openai-chat")
def a_command_cut_off_between_effect_and_record(scene):
    session = scene.open(says("", shell("echo once >> ran.log")), says("Never said."))
    append = session.log.append

    def dies(*episodes, durable=True):
        if any(isinstance(one, Resulted) for one in episodes):
            raise Stop
        return append(*episodes, durable=durable)

    session.log.append = dies
    try:
        scene.turn("run it")
    except Stop:
        pass
    session.log.append = append
    again = scene.again(says("I look.", read("ran.log")), says("It ran."))
    assert again.resume().text == "It ran."
    assert scene.outcomes == ["indeterminate", "ok"]
    assert "not known, and it was not repeated" in str(scene.fake.bodies()[0])
    assert scene.text("ran.log") == "once\n"


@scenario("the next day another process begins with every byte of the last request", "openai-responses")
def gone_on_with_the_next_day(scene):
    scene.open(says("", read("calc.py")), says("", MENDS), says("Done."))
    scene.turn("mend it")
    scene.again(says("It was a sign."))
    scene.turn("what was it?")
    first, second = scene.messages[-2:]
    assert [one.content for one in second[: len(first)]] == [one.content for one in first]
    assert "a + b" in str(scene.messages[-1])


@scenario("the turn's changes of files and commands are taken back, and what was there before stands")
def undo_of_a_turn(scene):
    session = scene.open(
        says("", read("calc.py")),
        says("", MENDS, shell("echo x > made.txt; rm check.py")),
        says("Done."),
        says("I see."),
    )
    scene.turn("change things")
    assert not (scene.folder / "check.py").exists()
    assert set(session.undo()) == {"calc.py", "made.txt", "check.py"}
    assert git(scene.folder, "status", "--porcelain") == ""
    scene.turn("and now?")
    assert "calc.py (changed outside" in scene.sent


@scenario(
    "what changed while a command ran is taken back by a word of its own, for a person may have written meanwhile"
)
def undo_beside_a_person(scene):
    from periplus.base.errors import UsageError
    from periplus.tui.commands import do_command

    session = scene.open(says("", read("calc.py")), says("", MENDS, shell("echo x > made.txt")), says("Done."))
    scene.turn("change things")
    with pytest.raises(UsageError, match="/undo does not take 'everything'"):
        do_command(session, "/undo everything")
    assert do_command(session, "/undo") == [
        "restored: calc.py",
        "not restored: made.txt",
        "they changed while a command ran; /undo all restores them, too",
    ]
    assert (scene.folder / "made.txt").exists()
    assert do_command(session, "/undo all") == ["restored: made.txt"]
    assert git(scene.folder, "status", "--porcelain") == ""


@scenario("a file that another agent has claimed is not changed, and the model reads whose claim it is", "openai-chat")
def claim_of_another_agent(scene):
    from periplus.journal import Writer
    from periplus.memory.coordination.claims import Asked
    from periplus.project import Project

    with Project.open(str(scene.folder), Writer("ada", "who_ada", "hers", 1)) as project:
        project.work.claim(Asked(("calc.py",), text="rework of the signs"))
    scene.open(says("", read("calc.py")), says("", MENDS), says("It is claimed."))
    assert scene.turn("mend it").text == "It is claimed."
    assert scene.outcomes == ["ok", "denied"]
    assert "claimed by ada" in scene.outputs[-1]
    assert "rework of the signs" in scene.outputs[-1]
    assert scene.text() == CALC


@scenario("what the person changes between two turns is told in the next one, as a patch", "anthropic")
def changed_outside_between_turns(scene):
    scene.open(
        says("", read("calc.py")), says("", MENDS), says("Done."), says("", edit("total", "whole")),
        says("", read("calc.py"), edit("return total", "return (total)")), says("So."),
    )  # fmt: skip
    scene.turn("mend it")
    scene.file("calc.py", "def add(a, b):\n    total = a + b\n    return total\n")
    scene.turn("call it whole")
    told = next(message.content for message in scene.messages[-1][1:] if "changed outside" in message.content)
    assert "calc.py (changed outside, seen in turn 2, +2 -1)" in told
    assert "+    total = a + b" in told
    assert scene.outcomes[2:] == ["failed", "ok", "ok"]  # what it knew is not so any more: it has to look first
    assert scene.text().endswith("    return (total)\n")


@scenario("a file that is changed beside the agent within a turn is not written over")
def changed_outside_within_a_turn(scene):
    def meddles(messages, tools):
        scene.file("calc.py", "def add(a, b):\n    return sum((a, b))\n")
        return says("", edit("a - b", "a + b"))

    scene.open(says("", read("calc.py")), meddles, says("", read("calc.py")), says("Somebody did it."))
    scene.turn("mend it")
    assert scene.outcomes == ["ok", "failed", "ok"]
    assert "was changed since it was read" in scene.outputs[1]
    assert "sum((a, b))" in scene.text()


@scenario("a file that goes away under the agent is told as gone, and can be made anew")
def deleted_under_it(scene):
    def removes(messages, tools):
        (scene.folder / "calc.py").unlink()
        return says("", MENDS)

    scene.open(
        says("", read("calc.py")),
        removes,
        says("", ("write", {"path": "calc.py", "content": "new = 1\n"})),
        says("Made anew."),
    )
    assert scene.turn("mend it").reason == "done"
    assert scene.outcomes == ["ok", "failed", "ok"]
    assert scene.text() == "new = 1\n"


@scenario("a file of another encoding is changed in that encoding, and every other byte stays")
def a_file_that_is_no_utf8(scene):
    scene.file("latin.txt", "größe = 1\nname = 'Müller'\n".encode("latin-1"))
    scene.open(says("", read("latin.txt")), says("", edit("größe = 1", "größe = 2", "latin.txt")), says("Done."))
    scene.turn("two")
    assert scene.outcomes == ["ok", "ok"]
    assert (scene.folder / "latin.txt").read_bytes() == "größe = 2\nname = 'Müller'\n".encode("latin-1")


@scenario("ends of lines and the byte order mark stay as they were, though the model writes none of them")
def crlf_and_bom(scene):
    scene.file("win.txt", b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\n")
    scene.open(says("", read("win.txt")), says("", edit("one\ntwo", "one\n2\n2b", "win.txt")), says("Done."))
    scene.turn("change two")
    assert (scene.folder / "win.txt").read_bytes() == b"\xef\xbb\xbfone\r\n2\r\n2b\r\nthree\r\n"


@scenario("a patch over several files of which one part is wrong changes none of them", "openai-chat")
def a_patch_that_is_half_wrong(scene):
    before = {path: scene.text(path) for path in ("calc.py", "check.py")}
    wrong = {"edits": [{"path": "calc.py", "old": "a - b", "new": "a + b"}, {"path": "check.py", "old": "not there", "new": "x"},
                       {"path": "new.py", "create": "x = 1\n"}]}  # fmt: skip
    right = {"edits": [wrong["edits"][0], {"path": "new.py", "create": "x = 1\n"}]}
    scene.open(says("", read("calc.py"), read("check.py")), says("", ("edit", wrong)),
               lambda body: _kept(scene, before) or says("", ("edit", right)), says("Now both."))  # fmt: skip
    scene.turn("patch it")
    assert scene.outcomes == ["ok", "ok", "failed", "ok"]
    assert (scene.text(), scene.text("new.py")) == (CALC.replace("a - b", "a + b"), "x = 1\n")


def _kept(scene, before):
    assert {path: scene.text(path) for path in before} == before
    assert not (scene.folder / "new.py").exists()


@scenario("output of 2 MB is shown by head and tail with its count, and the middle is read by the handle that is named")
def huge_output(scene):
    def reads_middle(messages, tools):
        handle = re.search(r"@periplus/output/[\w.-]+", messages[-1].content)[0]
        return says("", ("search", {"pattern": "^150000$", "path": handle}))

    scene.open(says("", shell("seq 1 300000")), reads_middle, says("Found."))
    assert scene.turn("count").reason == "done"
    assert len(scene.outputs[0]) < 40_000
    assert "left out" in scene.outputs[0]
    assert scene.outputs[0].rstrip().endswith("300000")
    assert "150000" in scene.outputs[1]


@scenario(
    "bytes that are no text, in a file and from a command, are shown as what they are and end nothing", "openai-chat"
)
def binary_files_and_output(scene):
    scene.file("data.bin", bytes(range(256)) * 8)
    scene.open(says("", read("data.bin"), shell("cat data.bin"), ("search", {"pattern": "zzz"})), says("Bytes."))
    assert scene.turn("look").reason == "done"
    assert scene.outcomes == ["ok"] * 3
    assert "00 01 02 03" in scene.results[0].result.output
    assert "\ufffd" in str(scene.fake.bodies()[1])


@scenario("a command that outlives its deadline goes on, and a later turn finds its end and its output")
def detached_command_and_later_poll(scene):
    go = scene.folder / "go"

    def polls(messages, tools):
        identity = re.search(r"process\(action='poll', id='(\w+)'", str(messages))[1]
        go.write_text("")
        return says("", ("process", {"action": "poll", "id": identity, "wait_s": 30}))

    scene.open(
        says("", shell("until test -e go; do sleep 0.05; done; echo at last", deadline_s=0.2)),
        says("It runs on."),
        polls,
        says("Over."),
    )
    assert scene.turn("start it").text == "It runs on."
    assert scene.turn("is it over?").text == "Over."
    assert "at last" in scene.outputs[1]
    assert "exit 0" in scene.outputs[1]


@scenario("a program in the background is spoken to and stopped; nothing of it is left")
def background_process(scene):
    def asks(messages, tools):
        scene.id = re.search(r"id='?(\w+)", messages[-1].content)[1]
        return says("", ("process", {"action": "input", "id": scene.id, "text": "3\n"}))

    def stops(messages, tools):
        return says(
            "",
            ("process", {"action": "poll", "id": scene.id, "wait_s": 0}),
            ("process", {"action": "stop", "id": scene.id}),
        )

    command = "while read n; do echo $((n * n)); done"
    scene.open(says("", shell(command, background=True)), asks, stops, says("Nine."))
    assert scene.turn("square three").reason == "done"
    assert "9" in scene.outputs[1] + scene.outputs[2]
    assert (
        [one.is_over for one in scene.session.host._processes()] == [True]
        if hasattr(scene.session.host, "_processes")
        else True
    )
    assert scene.outcomes[:2] == ["ok", "ok"]


@scenario("what the person says in the middle is heard before the next step, and the turn goes on", "anthropic")
def steered_in_the_middle(scene):
    def meanwhile(body):
        scene.session.steer("use sum() instead")
        return says("I look.", read("calc.py"))

    scene.open(meanwhile, says("", edit("a - b", "sum((a, b))")), says("With sum."))
    assert scene.turn("mend it").text == "With sum."
    assert [(one.source, one.text) for one in scene.episodes(Fed)] == [("person", "use sum() instead")]
    assert "use sum() instead" in str(scene.fake.bodies()[1])
    assert "sum((a, b))" in scene.text()


@scenario("a stop ends the command that runs with its children, what was left is not run, and the session goes on")
def a_command_is_cancelled(scene):
    begun = scene.folder / "begun"
    over = threading.Event()

    def stops():
        while not begun.exists() and not over.wait(0.02):
            pass
        scene.session.cancel()

    scene.open(says("", shell("sleep 300 & touch begun; wait"), shell("touch never")), says("Later."))
    stopper = threading.Thread(target=stops)
    stopper.start()
    ended = scene.turn("wait")
    over.set()
    stopper.join(60)
    assert ended.reason == "aborted"
    assert scene.outcomes == ["cancelled", "cancelled"]
    assert not (scene.folder / "never").exists()
    assert scene.turn("and now?").text == "Later."


@scenario(
    "a program in the sandbox calls tools as functions; its changes are those of the turn, and are undone with it",
    "openai-chat",
)
def code_that_calls_tools(scene):
    source = "for name in ('a', 'b'):\n    write(path=f'{name}.txt', content=name * 3)\nprint(len(read(path='calc.py').splitlines()) > 1)\n"
    session = scene.open(says("", ("code", {"source": source})), says("Written."))
    assert scene.turn("write them").reason == "done"
    assert (scene.text("a.txt"), scene.text("b.txt")) == ("aaa", "bbb")
    assert "3 calls" in scene.outputs[0]
    assert "True" in scene.outputs[0]
    assert set(session.undo()) == {"a.txt", "b.txt"}


@scenario("addresses of this machine and of its network are not fetched, in any spelling", "openai-responses")
def web_fetch_of_private_addresses(scene):
    urls = [
        "http://127.0.0.1:1/",
        "http://[::1]/",
        "http://169.254.169.254/latest/meta-data/",
        "http://0x7f000001/",
        "file:///etc/passwd",
    ]
    scene.open(says("", *(("web_fetch", {"url": url}) for url in urls)), says("Refused."))
    assert scene.turn("fetch them").text == "Refused."
    assert set(scene.outcomes) <= {"failed", "denied"}
    assert len(scene.outcomes) == len(urls)


@scenario("what is remembered in one session is in the tail of another, found by its words and read by its handle")
def remembered_across_sessions(scene):
    kept = (
        "remember",
        {
            "title": "Signs of the adder",
            "content": "The adder subtracts on Tuesdays; the sign is set in calc.py.",
            "kind": "trap",
        },
    )
    scene.open(says("", kept), says("Kept."))
    scene.turn("keep that in mind")

    def reads(messages, tools):
        handle = re.search(r"@periplus/memory/\w+\.md", str(messages))[0]
        return says("", ("recall", {"query": "adder subtracts"}), read(handle))

    scene.open(reads, says("Tuesdays."), name="s2")
    assert scene.turn("why does the adder subtract?").text == "Tuesdays."
    assert "subtracts on Tuesdays" in scene.messages[-2][-1].content  # in the tail, before any tool was asked
    assert "subtracts on Tuesdays" in scene.results[-1].result.output


@scenario("plan and requirements stand word for word in the request behind a fold", "anthropic")
def plan_and_requirements_survive_a_fold(scene):
    plan = ("plan", {"steps": [{"text": "find the sign", "state": "done"}, {"text": "mend the sign", "state": "doing"}],
                     "requirements": [{"text": "add(1, 2) is 3"}, {"text": "no other file is touched"}]})  # fmt: skip
    session = scene.open(says("", plan, read("calc.py")), says(LONG), says("Still open: the sign."))
    scene.turn("plan it")
    session.tape.take(*session.log.append(session.tape.fold()))
    scene.turn("what is open?")
    folds = [note for note in map(note_in, scene.episodes(Noted)) if isinstance(note, FoldNote)]
    assert [note.why for note in folds] == ["asked"]
    for text in ("find the sign", "mend the sign", "add(1, 2) is 3", "no other file is touched"):
        assert text in scene.sent, text
    assert LONG not in scene.sent.replace("\n", " ")


@scenario("the tape is folded when it passes its budget, rarely, and rules stand behind every fold")
def folded_by_its_budget(scene):
    def speaks(messages, tools):
        return says("", read("big.txt")) if messages[-1].role == "user" else says("Read.")

    scene.file("big.txt", "a line of some length, as lines are\n" * 400)
    session = scene.open(speaks, context_tokens=8_000)
    session.tape.take(
        *session.log.append(session.tape.change(SliceNote(field="rules", op="add", value="Never touch schema.sql.")))
    )
    for number in range(12):
        scene.turn(f"read it, time {number}")
    folds = [note for note in map(note_in, scene.episodes(Noted)) if isinstance(note, FoldNote)]
    assert 1 <= len(folds) <= 6
    assert {note.why for note in folds} == {"budget"}
    assert "Never touch schema.sql." in scene.sent
    assert max(len(b"".join(one.lines)) for one in scene.requests["s1"]) < 120_000


@scenario("a picture reaches the model as a picture", "anthropic")
def a_picture_is_read(scene):
    png = b"\x89PNG\r\n\x1a\n" + bytes(64)
    scene.file("plot.png", png)
    scene.open(says("", read("plot.png")), says("A plot."))
    scene.turn("look at the plot")
    assert "image/png" in str(scene.fake.bodies()[1])


@scenario("two sessions in one repository: what one changes the other is told as changed outside")
def two_sessions_of_one_repository(scene):
    scene.open(says("", read("calc.py")), says("", MENDS), says("Done."))
    scene.turn("mend it")
    scene.open(says("", read("calc.py")), says("", edit("def add", "def plus")), says("Renamed."), name="s2")
    scene.turn("rename it")
    scene.open(says("It is called plus now."), name="s1")
    scene.turn("what is it called?")
    assert "calc.py (changed outside" in scene.sent
    assert "+def plus(a, b):" in scene.sent


@scenario("the person is asked by the model, and the answer is what the model goes by", "openai-responses")
def the_model_asks_the_person(scene):
    person = Person("the second")
    scene.open(
        says("", ("ask_user", {"question": "Which of them?", "options": ["the first", "the second"]})),
        says("The second it is."),
        asker=person,
    )
    assert scene.turn("do one of them").text == "The second it is."
    assert person.asked == [("Which of them?", ("the first", "the second"))]
    assert scene.outputs == ["the second"]
    assert len(scene.episodes(Answered)) == 2


shown_by("killed by the system in the middle", "the process is killed with SIGKILL and the run is taken up by its name",
         "test_cli_run.py::test_ctrl_c_parks_the_turn_and_killing_leaves_it_to_be_resumed", wire="openai-chat")  # fmt: skip
shown_by("a file is mentioned with @", "the mention reaches the model as the file's path, and one that is not there is told",
         "test_tui.py::test_a_session_with_a_mention_a_question_an_undo_and_its_end", wire="openai-chat")  # fmt: skip
shown_by("reads really run at the same time", "two reads that wait for each other both end",
         "test_agent_loop.py::test_reads_run_beside_each_other_and_writes_in_order")  # fmt: skip
shown_by("a task is given to a subagent", "it works with a fresh context behind the very front of its parent's requests, and its report comes back whole",
         "test_agent_subagents.py::test_a_task_is_done_by_another_and_its_report_comes_back_whole")  # fmt: skip
shown_by("two subagents at once over the wire", "both are seen behind their names, and every request of the run has one front",
         "test_agent_subagents.py::test_a_run_shows_its_subagents_and_the_wire_has_one_front", wire="openai-chat")  # fmt: skip
shown_by("subagents that edit side by side", "where their paths do not meet they work at once, and what each changed is told as its own",
         "test_agent_subagents.py::test_those_that_edit_run_beside_each_other_where_their_paths_do_not_meet")  # fmt: skip
shown_by("killed in the middle of a subagent", "the one that was cut off goes on where it was, and its first step is not asked for again",
         "test_agent_subagents.py::test_a_kill_in_the_middle_of_one_is_gone_on_from", wire="openai-chat")  # fmt: skip
