"""Being connected costs a session little: what real clients are sent before the first prompt is counted, and kept within a budget."""

from __future__ import annotations

import json

import msgspec
import pytest

from mcp_support import Raw, Served
from periplus.base.errors import UsageError
from periplus.base.text.token_estimate import estimate_tokens
from periplus.context.selection.token_counters import BpeCounter
from periplus.interop.agents import GREETING, Site, all_agents
from periplus.interop.agents.config_parts import BlockPart, WholePart, put
from periplus.project.agent_hooks.instructions import USE
from periplus.server.mcp.catalogue import TOOLS
from periplus.server.mcp.connection_cost import connection_cost, largest_cost
from periplus.server.mcp.tool_arguments import input_schema, read_arguments

TOKENS_MAX = 2_500
SITES = tuple(
    Site(scope, "/shop", "/home/ada", "/home/ada/.config", "/home/ada/.codex", False, ("periplus",), USE, GREETING)
    for scope in ("project", "user")
)
# Accepted, and not in the list that models read: argument and a value that it takes.
UNLISTED = {
    "recall": {"kinds": ["commit"], "tag": "auth", "author": "ada", "limit": 5},
    "code": {"grade": "proven", "depth": 3, "limit": 5},
    "remember": {"alternatives": ["bcrypt"], "severity": "high", "expires": "2030-01-01", "evidence": ["record:1"], "confidence": 80, "key": "k"},
    "revise": {"key": "k"},
    "claim": {"minutes": 5, "budget": 500, "key": "k"},
    "plan": {"rationale": "It is slow", "budget": 500, "key": "k"},
    "message": {"ref": "dec_1", "plan": "pln_1", "corrects": "hof_1", "budget": 500, "key": "k"},
}  # fmt: skip
REQUIRED = {
    "recall": {"question": "x"},
    "remember": {"text": "x"},
    "revise": {"ids": ["dec_1"], "action": "confirm"},
    "show": {"id": "x"},
}


@pytest.fixture(scope="module")
def sent(tmp_path_factory):
    """Return the tools, as a model gets them, and the instructions that the server sends over standard input and output."""
    with Raw(Served(tmp_path_factory.mktemp("cost"))) as raw:
        instructions = raw.shake_hands()["instructions"]
        tools = raw.ask(2, "tools/list")["result"]["tools"]
    given = [{name: tool[name] for name in ("name", "description", "inputSchema")} for tool in tools]
    return json.dumps(given, ensure_ascii=False, separators=(",", ":")), instructions


def in_files(agent, site):
    """Return the texts of our files that an agent reads at the start: blocks, and the name and description of a skill."""
    for part in agent.parts(site):
        if isinstance(part, BlockPart):
            yield put(part, None, part.path).decode()
        elif isinstance(part, WholePart) and part.what == "skill":
            head = part.text.split("---\n")[1].splitlines()
            yield "\n".join(line.partition(": ")[2] for line in head)


def test_no_agent_spends_more_than_the_budget_before_the_first_prompt(sent):
    tools, instructions = sent
    assert '"name":"code"' in tools
    for agent in all_agents():
        for site in SITES:
            parts = agent.parts(site)
            has_server = any(part.what == "server" for part in parts)
            texts = [*(sent if has_server else ()), *in_files(agent, site)]
            assert sum(map(estimate_tokens, texts)) <= TOKENS_MAX, (agent.name, site.scope)
            cost = connection_cost(parts)
            assert cost.total == sum(map(estimate_tokens, texts)), (agent.name, site.scope)
            assert (cost.tools > 0) is (cost.instructions > 0) is has_server
    assert largest_cost().tools == estimate_tokens(tools)
    assert largest_cost().instructions == estimate_tokens(instructions)


def test_the_estimate_is_not_below_the_count_of_a_vocabulary(sent):
    (claude_code,) = (agent for agent in all_agents() if agent.name == "claude-code")
    texts = [*sent, *in_files(claude_code, SITES[0])]
    for encoding in ("o200k_base", "cl100k_base"):
        counted = sum(map(BpeCounter(encoding).count, texts))
        assert 0.7 * TOKENS_MAX < counted <= sum(map(estimate_tokens, texts)) <= TOKENS_MAX


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_arguments_that_are_not_listed_are_accepted(tool):
    fields = {field.encode_name for field in msgspec.structs.fields(tool.arguments)}
    listed = set(input_schema(tool.arguments)["properties"])
    unlisted = UNLISTED.get(tool.name, {})
    assert fields - listed == set(unlisted)
    given = read_arguments(tool.arguments, {**REQUIRED.get(tool.name, {}), **unlisted})
    for name, value in unlisted.items():
        held = getattr(given, name)
        assert (list(held) if isinstance(held, tuple) else held) == value


@pytest.mark.parametrize(("tool", "arguments", "said"), [
    ("brief", {"budget": 99}, ">= 100"),
    ("brief", {"budget": 50_001}, "<= 50000"),
    ("recall", {"question": ""}, "length >= 1"),
    ("recall", {"question": "x", "limit": 101}, "<= 100"),
    ("code", {"grade": "sure"}, "Allowed: likely, named, proven."),
    ("code", {"depth": 0}, ">= 1"),
    ("remember", {"text": "x" * 8_001}, "length <= 8000"),
    ("remember", {"text": "x", "severity": "dire"}, "Allowed: critical, high, low, medium."),
    ("claim", {"minutes": 0}, ">= 1"),
    ("claim", {"why": "x"}, "Arguments: action, paths, text, shared, minutes, ids, budget, key."),
    ("plan", {"steps": [{"text": "x", "why": "x"}]}, "unknown field"),
])  # fmt: skip
def test_limits_that_are_not_listed_are_enforced(tool, arguments, said):
    (kind,) = (one.arguments for one in TOOLS if one.name == tool)
    with pytest.raises(UsageError) as refused:
        read_arguments(kind, arguments)
    assert said in f"{refused.value} {refused.value.mend}"
