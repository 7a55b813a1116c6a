"""The tape: a fold over episodes whose front never changes, that gives the files, and that loses nothing silently."""

from __future__ import annotations

import json
import re
import string
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_drive import DictFiles, Driver, digest
from periplus.agent.contracts import AssistantMessage, Message, ToolCall, ToolResult, TurnContext
from periplus.agent.episodes import Answered, Ended, Noted, Requested, Resulted
from periplus.agent.persistence.episode_codec import decode_episode, encode_episode
from periplus.agent.tape.compiler import Tape
from periplus.agent.tape.entries import (
    BaseEntry,
    CommitmentsEntry,
    EpochEntry,
    OutsideEntry,
    PatchEntry,
    TurnEntry,
)
from periplus.agent.tape.fence import fence
from periplus.agent.tape.patches import apply_diff, diff_texts
from periplus.agent.tape_notes import (
    Anchor,
    Fact,
    FilePatch,
    FoldNote,
    Known,
    OpenNote,
    SealNote,
    SliceNote,
    TailNote,
    TopicNote,
    UnfoldNote,
    note_in,
)
from periplus.agent.tape_notes import noted as as_noted
from periplus.base.encoding.canonical import canonical
from periplus.base.errors import FormatError, NotFoundError, UsageError

LINES = st.lists(
    st.sampled_from(["a", "b", "c", "@@ -1,2 +3,4 @@", "\\ No newline at end of file", "", "-x", "\r", "é"]),
    max_size=20,
).map("\n".join)
SMALL = {"budget": 900, "fold_to": 500}


# -- patches --------------------------------------------------------------------------------------------------------------


@given(LINES, LINES)
def test_a_diff_laid_on_the_text_before_gives_the_text_after(before, after):
    diff = diff_texts(before, after)
    assert apply_diff(before, diff.text) == after
    assert (diff.text == "") == (before == after)


def test_a_diff_of_very_much_text_is_exact_too():
    before = "".join(f"line {number}\n" for number in range(6_000))
    after = before.replace("line 10\n", "ten\n").replace("line 5990\n", "")
    diff = diff_texts(before, after)
    assert apply_diff(before, diff.text) == after


def test_a_diff_that_does_not_fit_is_refused():
    with pytest.raises(FormatError, match="line 2"):
        apply_diff("a\nB\n", diff_texts("a\nb\n", "a\nc\n").text)


# -- sessions made up -----------------------------------------------------------------------------------------------------

PATHS = ("a.py", "b/c.txt", "new.md")
TEXTS = st.lists(st.text(string.ascii_lowercase + " ", min_size=1, max_size=30), max_size=12).map("\n".join)
ACTS = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(PATHS), TEXTS),
    st.tuples(st.just("remove"), st.sampled_from(PATHS)),
    st.tuples(st.just("read"), st.integers(1, 1_500)),
    st.tuples(st.just("outside"), st.sampled_from(PATHS), st.none() | TEXTS),
    st.tuples(st.just("rule"), st.text(string.ascii_letters, min_size=1, max_size=12)),
    st.tuples(st.just("open"), st.text(string.ascii_letters, min_size=1, max_size=12)),
    st.tuples(st.just("make_room")),
    st.tuples(st.just("again")),
)
TURNS = st.lists(st.lists(ACTS, max_size=5), min_size=1, max_size=14)


def drive(turns, before_turn=lambda driver: None, **options):
    driver = Driver(DictFiles(**{"a.py": b"one\ntwo\n"}), **(options or SMALL))
    for number, acts in enumerate(turns, 1):
        before_turn(driver)
        driver.begin(f"request {number}")
        for act in acts:
            driver = acted(driver, act)
        driver.end(f"answer {number}")
    return driver


def acted(driver, act):
    match act:
        case ("write", path, text):
            driver.write(path, text)
        case ("remove", path):
            driver.do("shell", effects=[driver.files.write(path, None)], command=f"rm {path}")
        case ("read", size):
            driver.do("read", "word " * size, path="a.py")
        case ("outside", path, text):
            driver.files.put(path, None if text is None else text.encode())
        case ("rule", text):
            noted(driver, SliceNote(field="rules", op="add", value=text))
        case ("open", text):
            noted(driver, SliceNote(field="requirements", op="add", value=text))
        case ("make_room",):
            driver.take(*driver.tape.make_room())
        case ("again",):
            other = driver.again()
            assert other.bytes() == driver.bytes()
            other.requests, other.messages, other.measures = driver.requests, driver.messages, driver.measures
            other.ask()
            return other
    return driver


def noted(driver, note):
    try:
        episode = driver.tape.change(note)
    except UsageError:
        return
    driver.take(episode)


@pytest.mark.slow
@settings(max_examples=60)
@given(TURNS)
def test_the_same_episodes_give_the_same_bytes(turns):
    driver = drive(turns)
    other = driver.again()
    assert other.bytes() == driver.bytes()
    assert other.tape.state.tokens == driver.tape.state.tokens
    driver.begin("one more")
    other.begin("one more")
    assert other.bytes() == driver.bytes()


@pytest.mark.slow
@settings(max_examples=60)
@given(TURNS)
def test_a_request_begins_with_the_one_before_unless_a_fold_lies_between(turns):
    """And at a fold of turns what stood in front of them stays: entries once written are never written otherwise."""
    driver = Driver(DictFiles(), **SMALL)
    last, batches, fold = b"", (), 0
    for number, acts in enumerate(turns, 1):
        driver.begin(f"request {number}")
        for act in acts:
            if act[0] != "again":
                acted(driver, act)
            state = driver.tape.state
            now = driver.bytes()
            if state.fold == fold:
                assert now.startswith(last)
                assert state.batches == batches
            else:
                whole = any(note_in(note).whole for note in driver.notes("fold")[-(state.fold - fold) :])
                assert whole or state.batches[: len(batches)] == batches
            last, batches, fold = now, state.batches, state.fold
        driver.end(f"answer {number}")
        if driver.tape.state.fold != fold:
            last, batches, fold = driver.bytes(), driver.tape.state.batches, driver.tape.state.fold


@settings(max_examples=60)
@given(TURNS)
def test_base_and_later_patches_are_the_file(turns):
    """In the entries up to where they go, and with the turns in place up to now."""
    driver = drive(turns)
    state = driver.tape.state
    texts = {}
    for entry in state.entries:
        match entry:
            case BaseEntry(anchor=anchor):
                texts[anchor.path] = "".join(text for _, text in anchor.shown) if anchor.is_whole else None
                assert not anchor.is_whole or digest(texts[anchor.path].encode()) == anchor.sha256
            case PatchEntry(patch=patch) | OutsideEntry(patch=patch):
                held = texts.get(patch.path) if patch.before else ""
                if held is not None and digest(held.encode()) == (patch.before or digest(b"")):
                    texts[patch.path] = apply_diff(held, patch.diff) if patch.after else None
                    assert not patch.after or digest(texts[patch.path].encode()) == patch.after
                else:
                    texts[patch.path] = None
    for path, base in state.bases.items():
        if texts.get(path) is not None:
            assert digest(texts[path].encode()) == base.sha256
    for path, known in state.known.items():  # as the last seal found it
        assert digest(driver.files.read(path)) == known


@pytest.mark.slow
@settings(max_examples=60)
@given(TURNS)
def test_a_fold_that_is_taken_back_leaves_what_was_there(turns):
    driver = drive(turns)
    before = driver.bytes()
    try:
        fold = driver.tape.fold()
    except UsageError:
        return
    driver.take(fold)
    folded = driver.bytes()
    assert driver.tape.state.last_fold
    driver.take(driver.tape.unfold())
    assert driver.bytes() == before
    assert driver.again().bytes() == before
    driver.begin("and on")
    assert driver.bytes().startswith(before)
    assert folded != before


@pytest.mark.slow
@settings(max_examples=60)
@given(TURNS)
def test_rules_and_what_is_open_stand_word_for_word_after_every_fold(turns):
    driver = drive(turns)
    topics = driver.tape.state.topics
    driver.begin("what holds?")
    seen = driver.bytes().decode()
    for rule in topics.rules:
        assert f"- {rule}" in seen
    for text, done in topics.current.requirements.items():
        assert f"- [{'x' if done else ' '}] {text}" in seen


@pytest.mark.slow
@settings(max_examples=40)
@given(TURNS)
def test_the_tape_stays_within_what_was_given_to_it(turns):
    """The budget, and what one turn adds; a fold takes it well below, so that the next is far."""
    driver = Driver(DictFiles(), budget=4_000, fold_to=2_000)
    for number in range(40):
        driver.begin(f"request {number}")
        for act in turns[number % len(turns)]:
            if act[0] != "again":
                acted(driver, act)
        driver.end("answer")
        assert driver.tape.state.tokens <= 4_000
    folds = [note_in(note) for note in driver.notes("fold")]
    assert all(note.tokens > 4_000 for note in folds if note.why == "budget")


# -- single things --------------------------------------------------------------------------------------------------------


def test_a_turn_that_ended_is_the_front_of_the_next_whole():
    driver = Driver(DictFiles(**{"a.py": b"x = 1\n"}))
    driver.begin("change it")
    driver.do("read", "x = 1\n", path="a.py")
    driver.write("a.py", "x = 2\n")
    driver.end()
    driver.begin("and again")
    driver.ask()
    assert driver.requests[-1].startswith(driver.requests[-2])
    assert driver.measures[-1]["is_boundary"] == 1
    assert driver.measures[-1]["survival_millionths"] == 1_000_000


def test_results_stand_in_the_order_of_the_calls_whatever_came_first():
    driver = Driver()
    driver.begin("two reads")
    calls = tuple(ToolCall(id=name, name="read", args={"path": name}) for name in ("one", "two"))
    driver.take(Answered(turn=1, step=1, message=AssistantMessage(tool_calls=calls)))
    for name in ("two", "one"):
        result = ToolResult(outcome="ok", output=name)
        driver.take(Resulted(turn=1, step=1, call_id=name, name="read", result=result))
    assert [message.content for message in driver.tape.messages()[-2:]] == ["one", "two"]


def test_a_call_that_never_ran_has_an_answer_all_the_same():
    """A provider takes no call without one."""
    driver = Driver()
    driver.begin("go")
    call = ToolCall(id="x", name="shell", args={})
    driver.take(Answered(turn=1, step=1, message=AssistantMessage(tool_calls=(call,))))
    driver.end(reason="aborted", note="Stopped by the person.")
    driver.begin("next")
    told = [message for message in driver.tape.messages() if message.tool_call_id == "x"]
    assert [message.outcome for message in told] == ["cancelled"]


def test_a_turn_that_a_crash_cut_off_is_ended_by_the_next():
    driver = Driver()
    driver.begin("first")
    driver.do("read", "x")
    driver.begin("second")
    assert driver.tape.state.turns[0].ended.reason == "aborted"
    assert driver.again().bytes() == driver.bytes()


def test_what_another_changed_is_told_with_the_change():
    driver = Driver(DictFiles(**{"a.py": b"x = 1\n"}))
    driver.begin("change it")
    driver.write("a.py", "x = 2\n")
    driver.end()
    driver.files.put("a.py", b"x = 3\n")
    driver.begin("go on")
    tail = driver.tape.messages()[-1].content
    assert "a.py (changed outside, seen in turn 2, +1 -1)" in tail
    assert "-x = 2\n+x = 3\n" in tail
    driver.end()
    driver.begin("nothing new")
    assert "changed outside" not in driver.tape.messages()[-1].content


def test_what_lies_otherwise_at_the_seal_is_told_in_the_next_tail():
    driver = Driver()
    driver.begin("write it")
    driver.write("a.py", "x = 2\n")
    driver.files.put("a.py", None)
    driver.end()
    driver.begin("go on")
    assert "a.py (changed outside, seen in turn 2): the file is gone" in driver.tape.messages()[-1].content
    assert driver.tape.state.known == {}


def test_a_change_whose_bytes_nobody_kept_is_no_guess():
    driver = Driver()
    driver.begin("write it")
    driver.do("write", effects=[{"path": "a", "before": "00" * 32, "after": digest(b"x")}], path="a")
    driver.files.put("a", b"x")
    driver.end()
    patch = note_in(driver.notes("seal")[0]).patches[0]
    assert (patch.diff, patch.note) == ("", "its content before is not kept")


def test_a_binary_file_is_named_and_not_shown():
    driver = Driver(budget=600, fold_to=300)
    driver.begin("write it")
    driver.write("a.bin", b"\0\xff" * 9)
    driver.end()
    driver.take(driver.tape.fold())
    assert any("no text, or too much of it: 0 to 18 bytes" in message.content for message in driver.tape.messages())


def long_session(turns=30, **options):
    files = DictFiles(**{"a.py": b"".join(b"line %d\n" % number for number in range(40))})
    driver = Driver(files, **(options or {"budget": 6_000, "fold_to": 3_000}))
    driver.take(driver.tape.change(SliceNote(field="rules", op="add", value="never touch schema.sql")))
    for number in range(turns):
        driver.begin(f"request {number}: " + "please " * 30)
        driver.do("read", "text " * 600, path="a.py")
        driver.write(
            "a.py", files.read("a.py").decode().replace(f"line {number % 40}\n", f"line {number % 40} changed\n")
        )
        driver.do("shell", "1 passed", command="pytest -q", exit_code=0)
        driver.end(f"changed line {number}")
    return driver


def test_folds_are_rare_and_leave_digests_patches_and_the_rules():
    driver = long_session()
    folds = [note_in(note) for note in driver.notes("fold")]
    assert 2 <= len(folds) <= 12
    assert any(note.whole for note in folds)
    assert any(not note.whole for note in folds)
    kinds = {type(entry) for entry in driver.tape.state.entries}
    assert {TurnEntry, BaseEntry, CommitmentsEntry, EpochEntry} <= kinds
    seen = driver.bytes().decode()
    assert "- never touch schema.sql" in seen
    assert "`pytest -q` exit 0" in seen


CUT = re.compile(
    r"… ([\d,]+) (characters|lines|turns|pictures) left out; (read|list)\(path='(@periplus/[^']+)'(, start=\d+)?\)"
)


def test_nothing_is_cut_without_its_count_and_a_call():
    driver = long_session(40)
    driver.begin("z" * 9_000)
    driver.end("y" * 5_000)
    driver.begin("one more")
    driver.end()
    driver.take(driver.tape.fold())
    seen = "\n".join(message.content for message in driver.tape.messages())
    assert len(CUT.findall(seen)) >= 3
    for line in seen.split("\n"):
        if "left out" in line:
            assert CUT.search(line), line


def test_a_request_that_is_too_long_finds_room_until_there_is_none():
    driver = Driver(budget=50_000, fold_to=10_000)
    driver.begin("first")
    driver.do("read", "word " * 2_000)
    driver.end()
    driver.begin("second")
    for _ in range(4):
        driver.do("read", "word " * 2_000)
    sizes = [len(driver.bytes())]
    while notes := driver.tape.make_room():
        driver.take(*notes)
        sizes.append(len(driver.bytes()))
        assert driver.again().bytes() == driver.bytes()
    assert sizes == sorted(sizes, reverse=True)
    assert len(sizes) >= 3
    assert sizes[-1] < 6_000
    assert "@periplus/trail/2/1.1.txt" in driver.bytes().decode()
    driver.take(driver.tape.unfold())
    assert len(driver.bytes()) == sizes[-2]


def test_there_is_no_second_fold_to_take_back():
    driver = long_session(3)
    with pytest.raises(UsageError, match="no fold"):
        driver.tape.unfold()
    driver.take(driver.tape.fold())
    driver.take(driver.tape.unfold())
    with pytest.raises(UsageError, match="no fold"):
        driver.tape.unfold()
    with pytest.raises(UsageError, match="nothing to fold"):
        Driver().tape.fold()


def test_the_prompt_of_a_session_stays_what_it_was():
    driver = Driver()
    driver.begin("hello")
    later = Tape("another version's prompt", (), files=driver.files)
    for episode in driver.log:
        later.take(episode)
    assert later.messages()[0].content == "system prompt"


def test_a_note_of_a_later_version_is_refused():
    tape = Driver().tape
    with pytest.raises(FormatError, match="version 2"):
        tape.take(Noted(turn=1, topic="tail", data={"v": 2}))
    with pytest.raises(FormatError, match="turn 1: no tail"):
        tape.take(Noted(turn=1, topic="tail", data={"v": 1, "facts": 3}))
    tape.take(Noted(turn=1, topic="somebody else's", data={"x": 1}))


@given(st.text(st.sampled_from('<>/data from="x"\n abc'), max_size=60), st.text(max_size=10))
def test_nothing_within_a_fence_ends_it(text, source):
    fenced = fence(text, source)
    assert fenced.count("</data") == 1
    assert fenced.endswith("\n</data>")
    assert fenced.count("<data") == 1
    assert "\n" not in fenced[: fenced.index(">")]


def test_where_the_cache_may_be_cut_is_marked_four_times_at_most():
    driver = long_session(30)
    driver.begin("next")
    driver.do("read", "x")
    marks = [place for place, message in enumerate(driver.tape.messages()) if message.breakpoint]
    assert marks[0] == 0
    assert marks[-1] == len(driver.tape.messages()) - 1
    assert len(marks) == 4


def test_the_tape_is_a_context_for_a_turn():
    assert isinstance(Tape("x"), TurnContext)
    with pytest.raises(UsageError, match="leaves no room"):
        Tape("x", budget=10, fold_to=10)


# -- topics ---------------------------------------------------------------------------------------------------------------


def test_a_topic_is_parked_and_taken_up_as_it_was():
    driver = Driver()
    driver.begin("main work")
    driver.take(driver.tape.change(SliceNote(field="mission", op="set", value="ship it")))
    driver.take(driver.tape.change(SliceNote(field="rules", op="add", value="be kind")))
    driver.end()
    driver.take(driver.tape.change(TopicNote(action="new", topic="docs", title="The manual")))
    driver.begin("write the manual")
    tail = driver.tape.messages()[-1].content
    assert "topic: docs (The manual)" in tail
    assert "ship it" not in tail
    assert {ref.task_id: ref.status for ref in driver.tape.state.topics.refs()} == {"main": "parked", "docs": "active"}
    driver.end()
    driver.begin("back", topic="main")
    assert "mission: ship it" in driver.tape.messages()[-1].content
    assert driver.again().bytes() == driver.bytes()


def test_wrong_commands_change_nothing():
    tape = Driver().tape
    for wrong, error in (
        (TopicNote(action="switch", topic="none"), NotFoundError),
        (TopicNote(action="new", topic="main"), UsageError),
        (SliceNote(field="mood", op="set", value="x"), UsageError),
        (SliceNote(field="edited_files", op="add", value="x"), UsageError),
        (SliceNote(field="mission", op="set", value="x" * 5_000), UsageError),
    ):
        with pytest.raises(error):
            tape.change(wrong)
    assert [ref.task_id for ref in tape.state.topics.refs()] == ["main"]


def test_a_rule_is_never_lost_for_another():
    driver = Driver()
    for number in range(40):
        driver.take(driver.tape.change(SliceNote(field="rules", op="add", value=f"rule {number}")))
    with pytest.raises(UsageError, match="none of them may be lost"):
        driver.tape.change(SliceNote(field="rules", op="add", value="one more"))
    for number in range(50):
        driver.take(driver.tape.change(SliceNote(field="requirements", op="add", value=f"item {number}")))
    driver.take(driver.tape.change(SliceNote(field="requirements", op="done", value="item 7")))
    driver.take(driver.tape.change(SliceNote(field="requirements", op="add", value="item 50")))
    held = driver.tape.state.topics.current.requirements
    assert "item 7" not in held
    assert "item 0" in held
    assert "item 50" in held


def test_messages_are_such_as_a_provider_takes():
    """Every call is answered behind the message that asked for it, and nothing answers what was not asked."""
    driver = long_session(25)
    driver.begin("x")
    waiting: list[str] = []
    for message in driver.tape.messages():
        assert isinstance(message, Message)
        if message.role == "tool":
            waiting.remove(message.tool_call_id)
            continue
        assert not waiting
        waiting = [call.id for call in message.tool_calls]
    assert not waiting


def test_requests_with_their_end_but_no_beginning_are_no_trouble():
    tape = Tape("x")
    tape.take(Ended(turn=1, reason="done"))
    tape.take(Resulted(turn=1, step=1, call_id="a", name="read", result=ToolResult(outcome="ok")))
    tape.take(Requested(turn=1, text="now"))
    assert tape.messages()[-1].content == "now"


# -- as it is kept --------------------------------------------------------------------------------------------------------

SHA = "ab" * 32
PATCH = FilePatch(path="a.py", before=SHA, after=SHA, diff="@@ -1,1 +1,1 @@\n-x\n+y\n", added=1, removed=1)
NOTES = (
    OpenNote(session="talk", budget=48_000, fold_to=16_000, prompt="You work."),
    TailNote(
        facts=(Fact(name="time", text="noon"),),
        knowledge=(Known(handle="@periplus/memory/x.md", kind="note", preview="p", score=500, untrusted=False),),
        outside=(PATCH,),
    ),
    SealNote(patches=(PATCH,), outside=(FilePatch(path="b", before=SHA),), used=("@periplus/memory/x.md",)),
    FoldNote(
        fold=1,
        why="budget",
        turns=9,
        whole=True,
        digests=12,
        anchors=(Anchor(path="a.py", sha256=SHA, lines=2, shown=((1, "y\n"),), is_whole=False),),
        tokens=50_000,
    ),
    FoldNote(fold=2, why="overflow", step=3, tokens=90_000),
    UnfoldNote(fold=2),
    SliceNote(field="findings", op="add", value="it fails on Mondays", tier="observed"),
    TopicNote(action="new", topic="docs", title="The manual"),
)


def test_notes_are_kept_as_they_always_were():
    """A golden file: what an earlier version wrote is read by this one, and this one writes it so."""
    path = Path(__file__).parent / "golden" / "agent" / "tape-notes-v1.jsonl"
    lines = path.read_bytes().splitlines()
    assert [canonical(encode_episode(as_noted(3, note, 2))) for note in NOTES] == lines
    assert [note_in(decode_episode(json.loads(line))) for line in lines] == list(NOTES)


@pytest.mark.parametrize("note", NOTES, ids=lambda note: type(note).__name__)
def test_a_note_comes_back_from_its_episode(note):
    assert note_in(as_noted(3, note)) == note


def test_a_window_that_is_smaller_than_what_a_fold_leaves_never_ends_a_session():
    """The provider refuses what is longer; each turn brings entries, and without end none of them may stay."""
    window = 3_000
    driver = Driver(budget=48_000, fold_to=16_000)
    for number in range(60):
        driver.begin(f"Look at part {number}: {'in all its details ' * 10}")
        for _ in range(3):
            while driver.tape.state.tokens > window:
                notes = driver.tape.make_room()
                assert notes, f"turn {number}: nothing more can be left out"
                driver.take(*notes)
            driver.do("read", "some words of a file\n" * 200, path=f"part{number}.txt")
        driver.write(f"part{number}.txt", f"part {number}\n" * 5)
        driver.end(f"Part {number} is as it should be. " * 5, reason="aborted")
    assert driver.again().bytes() == driver.bytes()
