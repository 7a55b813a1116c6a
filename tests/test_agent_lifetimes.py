"""The table of what is carried: every field's producer is driven, every reader is looked at, every lifetime is outlived."""

from __future__ import annotations

import pytest

from agent_drive import DictFiles, Driver
from periplus.agent.contracts import PageRef
from periplus.agent.tape.slice import slice_of_task
from periplus.agent.tape.slice_fields import FIELDS
from periplus.agent.tape_notes import Fact, InstructionFile, InstructionsNote, SliceNote, TopicNote, noted

MARK = "mark-of-the-field"
BY_SLICE = ("mission", "requirements", "plan", "findings", "world", "rules", "skills")


class OnePage:
    """What is known, once: the second question finds nothing."""

    def __init__(self):
        self.asked = []

    def lookup(self, focus, kind="", k=6, paths=()):
        self.asked.append((focus, tuple(paths)))
        return [PageRef(handle=f"@periplus/memory/{MARK}.md", kind="note", preview=MARK, score=1.0)] * (
            len(self.asked) == 1
        )


def driver_of(**options):
    return Driver(DictFiles(**{f"{MARK}.py": b"one\n"}), **options)


def produced(field):
    """A session in which the field was just written by its producer: in turn 1, before turn 2."""
    options = {}
    if field == "facts":
        left = [(Fact(name="clock", text=MARK),)]
        options["facts"] = lambda: left.pop() if left else ()
    if field == "knowledge":
        options["pages"] = OnePage()
    driver = driver_of(**options)
    if field == "request":
        driver.begin(MARK)
        driver.end()
        return driver
    driver.begin("first")
    if field == "instructions":
        driver.take(noted(1, InstructionsNote(files=(InstructionFile(path="AGENTS.md", sha256="ab", text=MARK),))))
    elif field in BY_SLICE:
        driver.take(driver.tape.change(SliceNote(field=field, op="add", name=f"{MARK}-name", value=MARK)))
    elif field == "active_files":
        driver.do("read", "one", path=f"{MARK}.py")
    elif field in ("edited_files", "anchors", "outside"):
        driver.write(f"{MARK}.py", "two\n")
        if field == "outside":
            driver.files.put(f"{MARK}.py", b"three\n")
    elif field == "open_report":
        driver.feed(MARK, "oracle")
        driver.end(reason="steps", note="Parked.")
        return driver
    elif field == "last_error":
        driver.do("shell", MARK, outcome="failed", command="x")
    driver.end(f"I read {MARK}." if field == "knowledge" else "Done.")
    return driver


def shown_in(driver, reader):
    """What a reader shows, as text."""
    if reader == "tail":
        first = driver.tape.state.turns[0].tail.content
        return first if MARK in first else _next_tail(driver)
    if reader in ("digest", "entries", "commitments", "anchors"):
        other = driver.again()
        other.begin("in between")
        other.end(reason="steps", note="Parked.")  # for a turn that is done has passed its check
        other.take(other.tape.fold())
        return "\n".join(batch.message.content for batch in other.tape.state.batches)
    if reader == "checkpoint":
        topics = driver.tape.state.topics
        return repr(topics.current.task("s", tuple(topics.skills)))
    assert reader == "knowledge"
    pages = OnePage()
    driver.tape._pages = pages
    driver.begin("next")
    return repr(pages.asked)


def _next_tail(driver):
    other = driver.again()
    other.begin("next")
    return other.tape.messages()[-1].content


@pytest.mark.parametrize(("field", "reader"), [(row.name, reader) for row in FIELDS for reader in row.readers])
def test_what_a_producer_writes_its_readers_show(field, reader):
    assert MARK in shown_in(produced(field), reader)
    assert MARK not in shown_in(_without(), reader)


def _without():
    driver = Driver(DictFiles())
    driver.begin("first")
    driver.write("a.py", "two\n")
    driver.end()
    return driver


@pytest.mark.parametrize("row", FIELDS, ids=lambda row: row.name)
def test_a_field_lives_as_long_as_the_table_says(row):
    """A task's fields are not those of another task, but there again when it is taken up; a session's are."""
    driver = produced(row.name)
    driver.take(driver.tape.change(TopicNote(action="new", topic="other")))
    there = _held(driver, row.name)
    assert there is (row.lifetime == "session")
    if row.lifetime == "turn":
        driver.begin("next")
        assert MARK not in driver.tape.state.turns[-1].note.__repr__() or row.name == "outside"
        driver.end()
        driver.begin("and next")
        assert MARK not in driver.tape.messages()[-1].content
        return
    driver.take(driver.tape.change(TopicNote(action="switch", topic="main")))
    assert _held(driver, row.name)


def _held(driver, field):
    topics = driver.tape.state.topics
    if field in ("rules", "skills"):
        return MARK in repr(getattr(topics, field))
    if field == "instructions":
        return MARK in repr(driver.tape.state.instructions)
    return MARK in repr(getattr(topics.current, field, ""))


def test_what_lives_for_a_turn_is_not_in_the_slice_and_all_else_is():
    driver = driver_of()
    topics = driver.tape.state.topics
    for row in FIELDS:
        carried = any(hasattr(one, row.name) for one in (topics.current, topics, driver.tape.state))
        assert carried is (row.lifetime != "turn"), row.name


def test_a_task_goes_on_in_another_process_as_it_was_left():
    driver = driver_of()
    driver.begin("first")
    for name in BY_SLICE:
        driver.take(driver.tape.change(SliceNote(field=name, op="add", name="n", value=f"{name} {MARK}")))
    driver.write(f"{MARK}.py", "two\n")
    driver.feed("it fails", "oracle")
    driver.end(reason="steps", note="Parked.")
    left = driver.tape.state.topics.current
    assert slice_of_task(left.task("talk")).task("talk") == left.task("talk")
    assert left.task("talk").task_id == "talk/main"
    assert "two" not in repr(left.task("talk")).replace("new", "")  # references, never what a file holds


def test_a_report_stands_until_the_check_is_passed():
    driver = produced("open_report")
    driver.begin("go on")
    assert MARK in driver.tape.messages()[-1].content
    driver.end()
    driver.begin("next")
    assert "open_report: none any more" in driver.tape.messages()[-1].content


def test_what_is_shown_already_is_not_said_again():
    driver = produced("mission")
    driver.begin("one")
    assert f"mission: {MARK}" in driver.tape.messages()[-1].content
    driver.end()
    driver.begin("two")
    assert "mission" not in driver.tape.messages()[-1].content


def test_a_call_of_the_plan_tool_is_the_record_of_what_it_changes():
    driver = driver_of()
    driver.begin("first")
    step = {"text": "look", "state": "done"}
    driver.do("plan", "noted", mission="ship it", steps=[step], findings=[{"text": MARK, "source": "observed"}])
    driver.do("plan", "no", outcome="failed", mission="sink it")
    driver.do("plan", "noted", wrong=1)
    now = driver.tape.state.topics.current
    assert (now.mission, now.plan, now.findings) == ("ship it", {"look": "done"}, {MARK: "observed"})
    assert driver.again().tape.state.topics.current == now
