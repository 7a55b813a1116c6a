"""Real transcripts, where they stand beside the repository: counted here with plain json, and compared."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from interop_support import named, read, shared_files, steps_of
from periplus.trail.opcodes import opcode_name

pytestmark = pytest.mark.quick

NO_PROMPTS = ("<local-command-", "Caveat: The messages below", "[Request interrupted by user")
NO_CODEX_PROMPTS = ("<environment_context>", "# AGENTS.md", "<user_instructions>")


def records_of(path):
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def claude_counts(path):
    """Prompts, says, comments, calls, steps but for labels, calls with a result: by an independent reading."""
    last = {}  # uuid → what was last seen under it; in sanitised files many records share one
    counts = Counter()
    messages, call_ids, result_ids = set(), [], set()
    bare_calls = bare_results = 0
    for record in records_of(path):
        message = record.get("message") or {}
        content = message.get("content")
        copy = json.dumps([record["type"], record.get("timestamp"), message.get("id"), content])
        if record["type"] in ("user", "assistant") and last.get(record.get("uuid")) == copy:
            counts["duplicates"] += 1
            continue
        last[record.get("uuid")] = copy
        if record["type"] == "attachment":
            attachment = record["attachment"]
            is_typed = attachment["type"] == "queued_command" and attachment.get("commandMode") == "prompt"
            counts["prompts"] += is_typed and (attachment.get("origin") or {}).get("kind") in (None, "human")
            continue
        if record["type"] not in ("user", "assistant"):
            continue
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        kinds = [block["type"] for block in blocks]
        if record["type"] == "user":
            for block in blocks:
                if block["type"] == "tool_result":
                    result_ids.add(block.get("tool_use_id"))
                    bare_results += "tool_use_id" not in block
            texts = [block["text"] for block in blocks if block["type"] == "text"]
            if "tool_result" in kinds or record.get("isMeta") or all(text.startswith(NO_PROMPTS) for text in texts):
                continue
            counts["comments" if record.get("isCompactSummary") else "prompts"] += 1
            continue
        counts["says"] += kinds.count("text")
        counts["comments"] += kinds.count("thinking")
        if message.get("usage") and message["model"] != "<synthetic>" and "id" in message:
            messages.add(message["id"])
        for block in blocks:
            if block["type"] == "tool_use":
                call_ids.append(block.get("id"))
                bare_calls += "id" not in block
                counts["edits"] += len(block["input"]["edits"]) - 1 if block["name"] == "MultiEdit" else 0
    counts["tools"] = len(call_ids)
    counts["model_calls"] = len(messages)
    counts["paired"] = sum(call is not None and call in result_ids for call in call_ids) + min(bare_calls, bare_results)
    names = ("prompts", "says", "comments", "tools", "model_calls", "edits")
    counts["steps"] = sum(counts[name] for name in names)
    return counts


def codex_counts(path):
    counts = Counter()
    seen = set()
    prompts, said, says, spoken = [], [], [], []
    calls, outputs = Counter(), Counter()
    thoughts = Counter()
    total = None
    for record in records_of(path):
        text = json.dumps(record)
        if text in seen:
            continue
        seen.add(text)
        payload = record["payload"]
        kind = (record["type"], payload.get("type"))
        if kind == ("response_item", "message"):
            text = "\n".join(part["text"] for part in payload["content"] if "text" in part)
            if payload["role"] == "user" and not text.startswith(NO_CODEX_PROMPTS):
                prompts.append(text)
            elif payload["role"] == "assistant":
                says.append(text)
        elif kind == ("event_msg", "user_message"):
            said.append(payload["message"])
        elif kind == ("event_msg", "agent_message"):
            spoken.append(payload["message"])
        elif kind == ("event_msg", "agent_reasoning"):
            thoughts["event", payload["text"]] += 1
        elif kind == ("response_item", "reasoning"):
            for part in payload["summary"]:
                thoughts["item", part["text"]] += 1
        elif kind == ("event_msg", "token_count") and payload["info"]:
            usage = payload["info"]["total_token_usage"]
            if usage != total:
                total = usage
                counts["model_calls"] += any(payload["info"]["last_token_usage"].values())
        elif kind[0] == "response_item" and kind[1].endswith("_call"):
            counts["tools"] += 1
            if kind[1] in ("web_search_call", "image_generation_call"):
                counts["paired"] += 1
            else:
                calls[payload.get("call_id")] += 1
        elif kind[0] == "response_item" and (kind[1].endswith("_output") or kind[1] == "tool_result"):
            outputs[payload.get("call_id")] += 1
    counts["prompts"] = sum((Counter(prompts) | Counter(said)).values())
    counts["says"] = sum((Counter(says) | Counter(spoken)).values())
    texts = {text for _, text in thoughts}
    counts["comments"] = sum(max(thoughts["event", text], thoughts["item", text]) for text in texts)
    counts["paired"] += sum((calls & outputs).values())
    return counts


@pytest.mark.parametrize(("folder", "count"), [("claude-code-jsonl", claude_counts), ("codex-rollout", codex_counts)])
def test_counts_agree_with_an_independent_reading(folder, count):
    for path in shared_files(folder):
        imported = read(path)
        expected = count(path)
        for name in ("prompts", "says", "comments", "tools", "model_calls"):
            assert imported.counts[name] == expected[name], (path.name, name)
        ops = Counter(opcode_name(step.code) for step in steps_of(imported))
        assert ops["PROMPT"] == expected["prompts"]
        assert ops["MODEL_CALL"] == expected["model_calls"]
        if folder == "claude-code-jsonl":
            assert imported.counts["steps"] == expected["steps"] + ops["LABEL"], path.name
        assert imported.unreadable_lines == []
        assert imported.unknown == {}


def test_at_least_99_of_100_calls_find_their_result():
    paired = expected = 0
    for folder, count in (("claude-code-jsonl", claude_counts), ("codex-rollout", codex_counts)):
        for path in shared_files(folder):
            paired += read(path).counts["tools_paired"]
            expected += count(path)["paired"]
    assert expected > 130
    assert paired >= 0.99 * expected


@pytest.mark.parametrize("folder", ["claude-code-jsonl", "codex-rollout"])
def test_importing_twice_gives_the_same(folder):
    for path in shared_files(folder):
        assert read(path) == read(path)


def test_the_subagent_of_a_real_session_is_its_child():
    for path in shared_files("claude-code-jsonl"):
        if path.parent.name == "subagent":
            imported = read(path)
            (child,) = imported.children
            assert (child.agent, child.agent_id) == ("claude-code/general-purpose", "a0ad4f44468bdf20d")
            (spawn,) = named(imported, "AGENT_SPAWN")
            assert spawn.operands[2].value == child.trail_digest
            return
    pytest.fail("no session with a subagent among the real transcripts")


def test_usage_is_that_of_the_last_record_of_each_message():
    for path in shared_files("claude-code-jsonl"):
        usage = {}
        for record in records_of(path):
            message = record.get("message") or {}
            if record["type"] == "assistant" and message.get("usage") and message["model"] != "<synthetic>":
                usage[message["id"]] = message["usage"]
        out = sum(one["output_tokens"] for one in usage.values())
        assert read(path).tokens.out == out
