"""The contract suite: what every implementation of each contract of the agent must do, whatever stands behind it.

A test file has a class for an implementation, derives it from the suite of its contract and says how one is made. Tests named
``test_…`` here run for each of them. Where an implementation keeps nothing, ``keeps`` is false and it must say so everywhere.
"""

from __future__ import annotations

import msgspec
import pytest

from periplus.agent.contracts import (
    AssistantMessage,
    Consolidation,
    LLMClient,
    Memory,
    Message,
    Oracle,
    PageRef,
    Retriever,
    TaskState,
    ToolCall,
    ToolHost,
    ToolResult,
)
from periplus.agent.episodes import Answered, Resulted
from periplus.base.errors import NotFoundError, PeriplusError, UsageError

OUTCOMES = {"ok", "failed", "cancelled", "denied", "indeterminate"}


class MemorySuite:
    keeps = True

    def make(self, tmp_path):
        raise NotImplementedError

    @pytest.fixture
    def memory(self, tmp_path):
        memory = self.make(tmp_path)
        yield memory
        if hasattr(memory, "close"):
            memory.close()

    def test_it_is_a_memory_and_says_whether_it_lasts(self, memory):
        assert isinstance(memory, Memory)
        assert memory.is_durable is self.keeps

    def test_what_is_remembered_is_recalled_by_its_words(self, memory):
        first = memory.remember("Passwords are hashed with argon2id", "", "decision", ["auth"])
        memory.remember("The build needs node 20", "", "lesson")
        found = memory.recall("how are passwords hashed?")
        if not self.keeps:
            assert (first, tuple(found)) == ("", ())
            return
        assert first
        assert all(isinstance(page, PageRef) for page in found)
        assert "argon2id" in found[0].preview
        assert found[0].handle == f"@periplus/memory/{first}.md"
        assert found[0].untrusted
        assert [page.score for page in found] == sorted((page.score for page in found), reverse=True)

    def test_it_gives_no_more_than_was_asked_for(self, memory):
        for number in range(5):
            memory.remember(f"Deployment rule number {number}: say {number * 7}", "", "note")
        assert len(memory.recall("deployment rule", k=2)) == (2 if self.keeps else 0)
        assert tuple(memory.recall("deployment rule", k=0)) == ()
        assert tuple(memory.recall("zebra quagga okapi")) == ()

    def test_the_same_said_twice_is_one_memory(self, memory):
        said = ("Tabs in Makefiles", "style", "note")
        assert memory.remember(*said) == memory.remember(*said)

    def test_a_title_is_recalled_with_what_it_names(self, memory):
        memory.remember("because the driver leaks", "Restart workers nightly", "note")
        found = memory.recall("restart the workers")
        assert bool(found) is self.keeps
        if self.keeps:
            assert "Restart workers nightly" in found[0].preview
            assert "driver leaks" in found[0].preview

    def test_nothing_is_nothing_to_remember(self, memory):
        if not self.keeps:
            return
        with pytest.raises(UsageError):
            memory.remember("   ", "", "note")

    def test_episodes_come_back_in_their_order_session_by_session(self, memory):
        records = [{"kind": "x", "n": number, "deep": {"a": [1, None, "é"]}} for number in range(4)]
        ids = [memory.append_episode("s1", "t", number + 1, record) for number, record in enumerate(records)]
        memory.append_episode("s2", "t", 1, {"n": 99})
        if not self.keeps:
            assert set(ids) == {""}
            assert tuple(memory.read_episodes("s1")) == ()
            return
        assert len(set(ids)) == 4
        assert list(memory.read_episodes("s1")) == records
        assert list(memory.read_episodes("s1", 2)) == records[2:]
        assert list(memory.read_episodes("s2")) == [{"n": 99}]
        assert list(memory.read_episodes("nobody")) == []
        assert list(memory.read_episodes("s1", 0)) == []

    def test_episodes_are_found_by_their_words_within_a_session_or_without(self, memory):
        memory.append_episode("s1", "t", 1, {"said": "the flaky websocket test"})
        memory.append_episode("s2", "t", 3, {"said": "a websocket that closes"})
        memory.append_episode("s2", "t", 4, {"said": "something about bread"})

        def found(**options):
            return [page.preview for page in memory.search_episodes("websocket", **options)]

        if not self.keeps:
            assert found() == []
            return
        assert len(found()) == 2
        assert len(found(limit=1)) == 1
        assert ["flaky" in text for text in found(only_session="s1")] == [True]
        assert ["closes" in text for text in found(exclude_session="s1")] == [True]
        assert found(only_session="nobody") == []

    def test_a_task_goes_on_from_its_newest_checkpoint(self, memory):
        state = TaskState(
            task_id="s1/main",
            session="s1",
            title="Fix it",
            goal="no more failures",
            findings=(("observed", "it fails on Mondays"),),
            requirements=(("green", False),),
            plan=(("look", "done"), ("mend", "open")),
            anchors=(("a.py", "@@ -1,2 +1,2 @@"),),
        )
        memory.checkpoint_task(TaskState(task_id="s1/main", session="s1", title="Older"))
        memory.checkpoint_task(state)
        memory.checkpoint_task(TaskState(task_id="s1/docs", session="s1", title="Manual", status="parked"))
        memory.checkpoint_task(TaskState(task_id="s2/main", session="s2", title="Elsewhere"))
        assert memory.load_task("s1/main") == (state if self.keeps else None)
        assert memory.load_task("s9/main") is None
        listed = [(one.task_id, one.title, one.status) for one in memory.list_session_tasks("s1")]
        assert listed == ([("s1/main", "Fix it", "active"), ("s1/docs", "Manual", "parked")] if self.keeps else [])
        assert list(memory.list_session_tasks("nobody")) == []

    def test_use_is_counted(self, memory):
        item = memory.remember("Ports begin at 4000", "", "note")
        memory.mark_used(item)
        memory.mark_used(item)
        if self.keeps:
            assert memory.uses(item) == 2
            with pytest.raises(NotFoundError):
                memory.mark_used("not_0000000000000000")

    def test_what_was_learned_is_counted_and_never_made_up(self, memory):
        found = memory.consolidate("nobody")
        assert isinstance(found, Consolidation)
        assert (found.lessons, found.skills, found.skills_rejected) == (0, 0, 0)
        assert found.errors  # nothing was learned, and it says why
        if self.keeps:
            with pytest.raises(UsageError):
                memory.consolidate("nobody", mode="magic")

    def test_what_worked_again_and_again_is_a_skill_to_look_at_once(self, memory):
        def turn(session, number, *commands):
            calls = tuple(
                ToolCall(id=f"{session}{number}.{at}", name="shell", args={"command": text})
                for at, (text, _) in enumerate(commands)
            )
            episodes = [Answered(turn=number, step=1, message=AssistantMessage(tool_calls=calls))]
            for call, (_, code) in zip(calls, commands, strict=True):
                result = ToolResult(outcome="failed" if code else "ok", exit_code=code)
                episodes.append(Resulted(turn=number, step=1, call_id=call.id, name="shell", result=result))
            for episode in episodes:
                memory.append_episode(session, "t", number, msgspec.to_builtins(episode))

        works = (("make build", 0), ("pytest -q tests", 0))
        turn("s1", 1, *works)
        assert memory.consolidate("s1").skills == 0  # seen once: nothing to go by
        turn("s2", 1, ("make build", 0), ("pytest -q tests", 1))
        assert memory.consolidate("s2").skills == 0  # it failed
        turn("s2", 2, *works)
        found = memory.consolidate("s2")
        assert (found.skills, found.skills_rejected) == (int(self.keeps), 0)
        assert memory.consolidate("s2").skills == 0  # it is known by now

    def test_what_takes_away_is_no_skill(self, memory):
        for number in (1, 2):
            call = ToolCall(id=f"c{number}", name="shell", args={"command": "git push --force"})
            clean = ToolCall(id=f"d{number}", name="shell", args={"command": "make all"})
            memory.append_episode("s1", "t", number, msgspec.to_builtins(
                Answered(turn=number, step=1, message=AssistantMessage(tool_calls=(call, clean)))))  # fmt: skip
            for one in (call, clean):
                memory.append_episode("s1", "t", number, msgspec.to_builtins(
                    Resulted(turn=number, step=1, call_id=one.id, name="shell", result=ToolResult(outcome="ok", exit_code=0))))  # fmt: skip
        found = memory.consolidate("s1")
        assert (found.skills, found.skills_rejected) == (0, int(self.keeps))


class RetrieverSuite:
    finds = True

    def make(self, tmp_path):
        raise NotImplementedError

    def test_it_finds_the_piece_that_answers(self, tmp_path):
        (tmp_path / "src").mkdir()
        (tmp_path / "src" / "auth.py").write_text(
            "import x\n" * 40 + "def hash_password(text):\n    return argon2(text)\n"
        )
        (tmp_path / "readme.md").write_text("A program about bread.\n")
        retriever = self.make(tmp_path)
        assert isinstance(retriever, Retriever)
        found = retriever.retrieve("hash the password", 2)
        if not self.finds:
            assert tuple(found) == ()
            return
        assert found[0].path == "src/auth.py"
        assert "argon2" in found[0].text
        assert found[0].text in (tmp_path / "src" / "auth.py").read_text()
        assert tuple(retriever.retrieve("hash", 0)) == ()
        assert tuple(retriever.retrieve("", 3)) == ()
        assert tuple(retriever.retrieve("zebra quagga", 3)) == ()
        assert retriever.retrieve("hash the password", 2) == found


class OracleSuite:
    is_right = True

    def make(self, tmp_path):
        raise NotImplementedError

    def test_it_says_whether_and_what(self, tmp_path):
        oracle = self.make(tmp_path)
        assert isinstance(oracle, Oracle)
        ok, output = oracle.verify()
        assert isinstance(ok, bool)
        assert isinstance(output, str)
        assert ok is self.is_right
        assert ok or output.strip()


class ToolHostSuite:
    def make(self, tmp_path):
        raise NotImplementedError

    @pytest.fixture
    def host(self, tmp_path):
        host = self.make(tmp_path)
        yield host
        if hasattr(host, "close"):
            host.close()

    def test_it_is_a_host_whose_schemas_stay_as_they_are(self, host):
        assert isinstance(host, ToolHost)
        schemas = list(host.schemas())
        assert list(host.schemas()) == schemas
        assert len({schema.name for schema in schemas}) == len(schemas)
        for schema in schemas:
            assert schema.description
            assert schema.parameters["type"] == "object"

    def test_whatever_a_model_sends_is_answered(self, host):
        for name, args in (("no_such_tool", {}), ("", {}), ("read", {"path": 3, "x": None}), ("read", {})):
            result = host.run(name, args)
            assert isinstance(result, ToolResult)
            assert result.outcome in OUTCOMES - {"ok"}
            assert result.output
            host.accesses(name, args)

    def test_a_file_that_is_not_there_is_an_error_of_ours(self, host):
        with pytest.raises(PeriplusError):
            host.read_text("no/such/file.txt")


class LLMClientSuite:
    """``make`` gives a client whose next answer says "hello"."""

    def make(self, tmp_path):
        raise NotImplementedError

    def test_it_answers_messages(self, tmp_path):
        client = self.make(tmp_path)
        assert isinstance(client, LLMClient)
        found = client.complete((Message(role="user", content="hi"),), ())
        assert found.content == "hello"
        assert found.finish_reason == "stop"
        assert found.tool_calls == ()
