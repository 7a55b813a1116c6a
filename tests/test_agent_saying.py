"""What a person says while a turn runs is durable when it is accepted, whatever becomes of the process: the model hears it once, in order."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path

import pytest

from agent_support import Bench, FolderHost, tape, transcript
from periplus.agent.contracts import ToolResult
from periplus.agent.episodes import SAID_TOPIC, Ended, Fed, Noted, Requested
from periplus.agent.events import FeedbackGiven
from periplus.agent.execution.turn_state import Turn, said
from periplus.agent.hooks import Functions
from periplus.agent.models.scripted import answer, call
from periplus.agent.persistence.run_log import MemoryLog, stored_sessions
from periplus.base.errors import EnvironmentFailure
from periplus.tui.conversation import Conversation
from support import Stop
from test_agent_resume import Dying, open_store, store_log

CONTEXTS = pytest.mark.parametrize("context", [transcript, tape])
WORDS = ["use oil", "not water", "and wipe it off"]


def heard(bench):
    """What the model was told of the person's words, in its order."""
    return [one.text for one in bench.of(Fed) if one.source == "person"]


def noted(bench):
    return [one.data["text"] for one in bench.of(Noted) if one.topic == SAID_TOPIC]


def shown(bench):
    """The words among the messages of the last request."""
    messages, _ = bench.client.requests[-1]
    return [message.content for message in messages if message.role == "user" and message.content in WORDS]


class Mouth:
    """A tool in which the person speaks: ``words`` were accepted."""

    def __init__(self, words=WORDS):
        self.left, self.accepted = list(words), []
        self.session = None

    def __call__(self):
        while self.left:
            self.session.steer(word := self.left.pop(0))
            self.accepted.append(word)
        return ToolResult(outcome="ok", output="there was time")


def talking(tmp_path, mouth, *, log=None, context=None):
    host = FolderHost(tmp_path / "work", {"wait": mouth})
    steps = [answer("", call("wait", "c1")), answer("", call("append", "c2", path="a", text=".")), "done"]

    def speak(messages, tools):
        return steps[sum(message.role == "assistant" for message in messages)]

    bench = Bench(tmp_path, speak, log=log, host=host, context=context)
    mouth.session = bench.session
    bench.speak = speak
    return bench


@CONTEXTS
def test_several_words_are_heard_in_order_and_once(tmp_path, context):
    bench = talking(tmp_path, Mouth(), context=context)
    assert bench.turn().reason == "done"
    assert noted(bench) == heard(bench) == shown(bench) == WORDS
    assert [one.said for one in bench.of(Fed)] == [1, 2, 3]
    assert [one.text for one in bench.seen(FeedbackGiven)] == WORDS
    assert bench.session.unheard == ()
    again = bench.again(["again"])  # the next process, which has another request
    assert again.session.unheard == ()
    again.turn("more")
    assert heard(again) == WORDS


def test_words_are_in_the_log_before_the_person_is_told(tmp_path):
    seen = []

    def speak(messages, tools):
        bench.session.steer("use oil")
        seen.append((noted(bench), heard(bench), bench.session.unheard))
        return "done"

    bench = Bench(tmp_path, [speak, "oiled"])
    assert bench.turn().text == "oiled"
    assert seen == [(["use oil"], [], ("use oil",))]


def test_words_said_while_a_check_is_run_are_heard_in_that_turn(tmp_path):
    """The check found all well, and the turn ended: the words were told to nobody until another request came."""
    spoken = []

    def check(stop):
        if not spoken:
            bench.session.steer("use oil")
            spoken.append(stop.reason)

    bench = Bench(tmp_path, ["done", "oiled"], hooks=[Functions("check", {"should_continue_after_stop": check})])
    assert bench.turn().text == "oiled"
    assert (spoken, heard(bench), bench.session.unheard) == (["done"], ["use oil"], ())


class AtTheEnd(MemoryLog):
    """Somebody speaks when the end of a turn is about to be written."""

    def __init__(self, speak):
        super().__init__()
        self.speak = speak

    def append(self, *notes, durable=True):
        if any(isinstance(one, Ended) for one in notes):
            self.speak()
        return super().append(*notes, durable=durable)


def test_words_come_while_a_turn_may_hear_them_or_are_not_taken(tmp_path):
    taken = []

    def speak():
        speaker = threading.Thread(target=lambda: taken.append(bench.session.try_steer("use oil")))
        speaker.start()
        speaker.join(0.2)  # it would be over long since, were the end not written by itself
        speakers.append(speaker)

    speakers = []
    bench = Bench(tmp_path, [lambda *_: bench.session.try_steer("not water") and "done", "done"], log=AtTheEnd(speak))
    assert not bench.session.try_steer("before the first turn")
    assert bench.turn().reason == "done"
    (speaker,) = speakers
    speaker.join()
    assert (taken, noted(bench), heard(bench), bench.session.unheard) == ([False], ["not water"], ["not water"], ())


def test_what_is_typed_when_the_turn_is_ending_is_the_next_request(tmp_path):
    """It was taken for that turn, of which no step came, and the person waited for an answer."""
    is_spoken = threading.Event()

    def speak():
        if not is_spoken.is_set():
            is_spoken.set()
            conversation.submit("and now?")

    is_ready = threading.Event()
    is_asked_again = threading.Event()
    conversation = Conversation(lambda line: line.startswith("(ready") and is_ready.set(), lambda _: False, "m", "default", "s",
                                lambda *_: nullcontext(bench.session))  # fmt: skip
    conversation.tells_state = True
    bench = Bench(
        tmp_path, ["done", lambda *_: is_asked_again.set() or "yes"], log=AtTheEnd(speak), emit=conversation.heard
    )
    conversation.begin()
    try:
        assert is_ready.wait(60)
        conversation.submit("first")
        assert is_asked_again.wait(60)
    finally:
        conversation.leave()
    assert [one.text for one in bench.of(Requested)] == ["first", "and now?"]
    assert (noted(bench), bench.session.unheard) == ([], ())


@pytest.mark.parametrize("opens", [True, False])
def test_what_is_typed_while_the_session_is_being_opened_is_kept_for_it(tmp_path, opens):
    """It was passed over, and whoever typed at once waited for an answer."""
    may_open, is_asked, said = threading.Event(), threading.Event(), []
    bench = Bench(tmp_path, [lambda *_: is_asked.set() or "yes"])

    def opening(*_):
        assert may_open.wait(60)
        if not opens:
            raise EnvironmentFailure("the disk is full")
        return nullcontext(bench.session)

    conversation = Conversation(said.append, lambda _: False, "m", "default", "s", opening)
    conversation.begin()
    conversation.submit("first")
    while not said:
        time.sleep(0.001)
    may_open.set()
    if opens:
        assert is_asked.wait(60)
        conversation.leave()
    else:
        with pytest.raises(EnvironmentFailure):
            conversation.leave()
        assert said[-1] == "(the session could not be opened; not sent: first)"
    assert [one.text for one in bench.of(Requested)] == ["first"] * opens
    assert said[0].startswith("(the session is being opened")


def test_words_that_cannot_be_written_were_not_said(tmp_path):
    class Full(MemoryLog):
        def append_aside(self, *notes):
            raise EnvironmentFailure("the disk is full")

    def speak(messages, tools):
        with pytest.raises(EnvironmentFailure):
            bench.session.steer("use oil")
        return "done"

    bench = Bench(tmp_path, [speak], log=Full())
    assert bench.turn().text == "done"
    assert (bench.session.unheard, heard(bench)) == ((), [])


class Cut(Dying):
    """Words are an append like any other."""

    def append_aside(self, *notes):
        return self.append(*notes)


APPENDS = 15


def test_the_talk_has_as_many_boundaries_as_are_tried(tmp_path):
    log = Cut(0, is_written=False)
    assert talking(tmp_path, Mouth(), log=log).turn().reason == "done"
    assert log.count == APPENDS


@CONTEXTS
@pytest.mark.parametrize("is_written", [False, True])
@pytest.mark.parametrize("at", range(2, APPENDS + 1))
def test_killed_at_every_boundary_what_was_accepted_is_heard_once(tmp_path, at, is_written, context):
    mouth = Mouth()
    log = Cut(at, is_written=is_written)
    bench = talking(tmp_path, mouth, log=log, context=context)
    with pytest.raises(Stop):
        bench.turn()
    before = noted(bench)
    assert before[: len(mouth.accepted)] == mouth.accepted
    assert len(before) - len(mouth.accepted) in (0, 1)  # one may be written of which nobody was told
    again = bench.again(bench.speak, log=log.inner)
    mouth.session = again.session
    was_open = again.session.is_interrupted
    assert list(again.session.unheard) == before[len(heard(bench)) :]
    if was_open:
        assert again.session.resume().reason == "done"
    assert heard(again) == noted(again)
    assert heard(again)[: len(before)] == before
    assert len(again.of(Ended)) == 1
    if was_open and again.client.requests:
        assert shown(again) == heard(again)
    other = context(again.host)
    for episode in again.log.read():
        other.take(episode)
    assert list(other.messages()) == list(again.context.messages())


@CONTEXTS
def test_what_was_said_too_late_is_heard_in_the_next_turn(tmp_path, context):
    """Also where the turn that it was for is dropped."""
    log = Cut(5, is_written=True)  # asked, answered, intended, then two of the words
    bench = talking(tmp_path, Mouth(), log=log, context=context)
    with pytest.raises(Stop):
        bench.turn()
    again = bench.again(["at once"], log=log.inner)
    again.session.drop()
    assert again.session.unheard == ("use oil", "not water")
    assert again.turn("another thing").text == "at once"
    assert heard(again) == shown(again) == ["use oil", "not water"]
    assert {one.turn for one in again.of(Fed)} == {2}


def test_words_said_before_the_first_turn(tmp_path):
    bench = Bench(tmp_path, ["oiled"])
    bench.session.steer("use oil")
    assert not bench.session.is_interrupted
    assert bench.again().session.unheard == ("use oil",)
    assert bench.turn().text == "oiled"
    assert heard(bench) == shown(bench) == ["use oil"]


def test_a_log_from_before_words_were_noted():
    turn = Turn()
    for episode in [Requested(turn=1, text="x"), Fed(turn=1, source="person", text="use oil"), said(1, 1, "not water")]:
        turn.take(episode)
    assert [one.text for one in turn.saying.waiting()] == ["not water"]
    assert turn.saying.next_number() == 2


def test_a_secret_is_not_kept(tmp_path):
    key = "sk-ant-api03-" + "aB3" * 31
    bench = Bench(tmp_path, ["done"])
    bench.session.steer(f"the key is {key}")
    assert bench.turn().reason == "done"
    assert key not in repr(bench.log.read())
    assert len(heard(bench)) == 1


# -- a store, and real processes ---------------------------------------------------------------------------------------


def test_words_from_another_thread_over_a_store(tmp_path):
    """While the thread of the turn writes too: all are there, in order, and turn and trail are whole."""

    def speak_up():
        for number in range(20):
            bench.session.steer(f"word {number}")

    def first(messages, tools):
        speaker.start()
        return answer("", *(call("append", f"c{number}", path="a", text=".") for number in range(10)))

    def last(messages, tools):
        speaker.join()
        return "done"

    speaker = threading.Thread(target=speak_up)
    with open_store(tmp_path) as project:
        bench = Bench(tmp_path, [first, last, last], log=store_log(project))
        assert bench.turn().text == "done"
        assert heard(bench) == noted(bench) == [f"word {number}" for number in range(20)]
        turns = [one.turn for one in bench.log.read()]
        assert turns == sorted(turns)
        assert [*bench.log.read_turn(1)] == [*bench.log.read()]
        (one,) = stored_sessions(project)
        assert (one.turns, one.is_interrupted) == (1, False)
        bench.session.close()
        (trail,) = project.journal.entities("trail")
        assert trail.value["counts"]["prompts"] == 21
        assert project.examine().problems == []


SPEAKER = """
import sys, threading
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from agent_support import Bench
from test_agent_resume import open_store, store_log

def hang(messages, tools):
    def speak_up():
        for word in sys.argv[3:]:
            bench.session.steer(word)
            print(word, flush=True)
    threading.Thread(target=speak_up).start()
    threading.Event().wait()

with open_store(Path(sys.argv[1])) as project:
    bench = Bench(Path(sys.argv[1]), [hang], log=store_log(project))
    bench.turn("oil it")
"""


@pytest.mark.slow
def test_killed_between_the_words_and_the_next_step(tmp_path):
    """SIGKILL, in a process whose model never answers."""
    open_store(tmp_path).close()
    argv = [sys.executable, "-c", SPEAKER, os.fspath(tmp_path), os.fspath(Path(__file__).parent), *WORDS]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as child:
        assert [child.stdout.readline().rstrip("\n") for _ in WORDS] == WORDS
        child.kill()
        child.wait()
    with open_store(tmp_path) as project:
        bench = Bench(tmp_path, ["oiled"], log=store_log(project))
        assert (bench.session.is_interrupted, list(bench.session.unheard)) == (True, WORDS)
        assert [one.is_interrupted for one in stored_sessions(project)] == [True]
        assert bench.session.resume().text == "oiled"
        assert heard(bench) == shown(bench) == WORDS
        bench.session.close()
        assert project.examine().problems == []
    with open_store(tmp_path) as project:
        again = Bench(tmp_path, ["it is"], log=store_log(project))
        assert again.session.unheard == ()
        again.turn("is it done?")
        assert heard(again) == shown(again) == WORDS
        again.session.close()
        prompts = [one.value["counts"]["prompts"] for one in project.journal.entities("trail")]
        assert sorted(prompts) == [1, 1, 3]  # the killed run, the last one, and that which told the words
        assert project.examine().problems == []
