"""The contract suite, run on every implementation."""

from __future__ import annotations

import pytest

from agent_contracts import LLMClientSuite, MemorySuite, OracleSuite, RetrieverSuite, ToolHostSuite
from periplus.agent.memories import InProcessMemory, NullMemory, StoreMemory
from periplus.agent.models.scripted import ScriptedClient, answer
from periplus.agent.null_contracts import NullRetriever, NullToolHost
from periplus.agent.perception.file_retriever import FolderRetriever
from periplus.agent.policies.oracle import CommandOracle, NullOracle
from periplus.agent.tools.files.workspace import Workspace
from periplus.agent.tools.tool_host import LocalToolHost
from periplus.journal import Writer
from periplus.project import Project

pytestmark = pytest.mark.quick


class TestNullMemory(MemorySuite):
    keeps = False

    def make(self, tmp_path):
        return NullMemory()


class TestInProcessMemory(MemorySuite):
    def make(self, tmp_path):
        return InProcessMemory()


class TestStoreMemory(MemorySuite):
    @pytest.fixture
    def memory(self, tmp_path):
        Project.init(str(tmp_path))
        with Project.open(str(tmp_path), Writer("agent", "agt_test", "s1")) as project:
            memory = StoreMemory(project)
            yield memory
            memory.close()

    def test_another_process_finds_it_all(self, tmp_path):
        Project.init(str(tmp_path))
        with Project.open(str(tmp_path), Writer("agent", "agt_test", "s1")) as project:
            memory = StoreMemory(project)
            item = memory.remember("Ports begin at 4000", "", "note")
            memory.append_episode("s1", "main", 1, {"said": "a word about ports", "share": 0.5})
            memory.close()
        with Project.open(str(tmp_path), Writer("agent", "agt_test", "s2")) as project:
            memory = StoreMemory(project)
            assert memory.recall("ports")[0].handle == f"@periplus/memory/{item}.md"
            assert memory.read_episodes("s1") == ({"said": "a word about ports", "share": 0.5},)
            assert memory.search_episodes("ports", exclude_session="s2")[0].handle.endswith("/turns/1.md")
            memory.close()


class TestNullRetriever(RetrieverSuite):
    finds = False

    def make(self, tmp_path):
        return NullRetriever()


class TestFolderRetriever(RetrieverSuite):
    def make(self, tmp_path):
        return FolderRetriever(str(tmp_path))


class TestNullOracle(OracleSuite):
    def make(self, tmp_path):
        return NullOracle()


class TestCommandOracleWithoutAHost(OracleSuite):
    is_right = False

    def make(self, tmp_path):
        return CommandOracle(NullToolHost(), "true")


class TestNullToolHost(ToolHostSuite):
    def make(self, tmp_path):
        return NullToolHost()


class TestScriptedClient(LLMClientSuite):
    def make(self, tmp_path):
        return ScriptedClient([answer("hello")])


class TestLocalToolHost(ToolHostSuite):
    def make(self, tmp_path):
        from periplus.agent.tools.files.read_tools import read_tool

        work = Workspace(str(tmp_path), str(tmp_path.parent / "state"))
        host = LocalToolHost(work)
        host.add(read_tool(work))
        return host


def test_a_memory_in_process_can_say_that_it_does_not_last():
    assert InProcessMemory(is_durable=False).is_durable is False
