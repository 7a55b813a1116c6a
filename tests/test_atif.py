"""ATIF: trails as trajectories and back, documents of every version, and what others make of them."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cli_support import Shell, claude_session
from interop_support import KEY, SHARED, Objects, check, named, plain, read, steps_of
from periplus.base.errors import FormatError, NotFoundError, PeriplusError
from periplus.interop import import_transcripts
from periplus.interop.exports.atif import atif_document
from periplus.interop.exports.trail_source import ExportSource
from periplus.trail import BY_CODE, Digest, Header, TrailBuilder, TrailReader, opcode_name, open_parts
from trail_samples import LONG_TEXT, SECRET, START_MS, golden_trail, headers, statuses, steps

T = "2026-03-01T10:00:0{}.000Z"
AGENT = {"name": "harbor-agent", "version": "1.2", "model_name": "m"}
TOKEN = "ghp_" + "A1b2C3d4E5" * 3 + "f6G7h8"


def document(version, *steps, **more):
    steps = [{"step_id": number, **step} for number, step in enumerate(steps, 1)]
    return {"schema_version": f"ATIF-v1.{version}", "session_id": "s1", "agent": AGENT, "steps": steps, **more}


def imported_from(tmp_path, value, objects=None):
    path = tmp_path / "trajectory.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value), "utf-8")
    if objects is None:
        return read(path)
    (found,) = import_transcripts(str(path), trail_key=KEY, put_object=objects.put)
    check(found)
    return found


def source_of(data, objects):
    def find(digest):
        if digest not in objects:
            raise NotFoundError("not at hand")
        return objects[digest]

    readers = open_parts(data)
    return ExportSource("run", data, readers, readers[0].digest, find)


def whole(imported):
    yield imported
    for child in imported.children:
        yield from whole(child)


def exported(imported, objects):
    trails = {one.trail_digest: one.trail for one in whole(imported)}

    def find(digest):
        return source_of(trails[digest], objects) if digest in trails else None

    return atif_document(source_of(imported.trail, objects), source_of=find).data


def told(trail):
    """Steps without the numbers of records, which are those of another file, and without digests of subagents."""
    steps = []
    for step in TrailReader(trail).steps():
        operands = step.operands[:2] if opcode_name(step.code) == "AGENT_SPAWN" else step.operands
        steps.append(step._replace(source=None, operands=operands))
    return steps


def assert_same(imported, back):
    before, after = TrailReader(imported.trail), TrailReader(back.trail)
    assert told(back.trail) == told(imported.trail)
    assert back.tokens == imported.tokens
    assert (after.status, after.header.started_ms) == (before.status, before.header.started_ms)
    for name in ("agent", "trail_id", "model", "title", "base"):
        assert getattr(after.header, name) == getattr(before.header, name), name
    assert back.unknown == {}
    assert len(back.children) == len(imported.children)
    for one, other in zip(imported.children, back.children, strict=True):
        assert_same(one, other)
    spawned = [step.operands[2].value for step in named(back, "AGENT_SPAWN") if step.operands[2]]
    assert {child.trail_digest for child in back.children} <= set(spawned)


# -- documents of every version ----------------------------------------------------------------------------------------

ASKED = {"source": "user", "message": "List", "timestamp": T.format(1)}
LISTED = {
    "source": "agent", "message": "I list.", "timestamp": T.format(2), "reasoning_content": "hm",
    "tool_calls": [{"tool_call_id": "c1", "function_name": "bash", "arguments": {"command": "ls"}}],
    "observation": {"results": [{"source_call_id": "c1", "content": "a"}]},
    "metrics": {"prompt_tokens": 100, "cached_tokens": 60, "completion_tokens": 7, "cost_usd": 0.0125},
}  # fmt: skip
DONE = {"source": "agent", "message": "Done.", "timestamp": T.format(4)}
BASE = [
    ("PROMPT", "List"),
    ("MODEL_CALL", "m", 40, 60, 7, 12500),
    ("COMMENT", "hm"),
    ("SAY", "I list."),
    ("FILE_LIST", "."),
    ("SAY", "Done."),
]
IMAGE = {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}}
SOUND = {"type": "audio", "source": {"media_type": "audio/wav", "path": "a.wav", "duration_sec": 1}}
# What each version added, and what the import counts of it.
VERSIONS = {
    0: ({}, {}, {}),
    1: ({}, {"extra": {"task": 7}}, {}),
    2: ({"observation": {"results": [{"content": "a"}]}}, {}, {}),
    3: ({"metrics": {**LISTED["metrics"], "completion_token_ids": [1, 2], "logprobs": [-0.1, -0.2]}}, {}, {}),
    4: ({"metrics": {**LISTED["metrics"], "prompt_token_ids": [1]}}, {}, {}),
    5: ({}, {"agent": {**AGENT, "tool_definitions": [{"type": "function"}]}}, {}),
    6: ({"observation": {"results": [{"source_call_id": "c1", "content": [{"type": "text", "text": "a"}, IMAGE]}]}}, {},
        {"content: image": 1}),
    7: ({"llm_call_count": 1}, {"trajectory_id": "t1", "continued_trajectory_ref": "more.json"},
        {"continuation in another file": 1}),
    8: ({"observation": {"results": [{"source_call_id": "c1", "content": [{"type": "text", "text": "a"}, SOUND]}]}}, {},
        {"content: audio": 1}),
}  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
def test_a_document_of_each_version_gives_the_same_steps(tmp_path, version):
    step, root, skipped = VERSIONS[version]
    imported = imported_from(tmp_path, document(version, ASKED, {**LISTED, **step}, DONE, **root))
    expected = [("FILE_LIST", ".") if entry[0] == "FILE_LIST" else entry for entry in BASE]
    found = plain(imported)
    assert [entry for entry in found if entry[0] not in ("COMMAND_RUN", "FILE_LIST")] == [
        entry for entry in expected if entry[0] != "FILE_LIST"
    ]
    (call,) = named(imported, "COMMAND_RUN", "FILE_LIST")
    assert (call.outcome, call.duration_ms) == ("ok", None)
    assert imported.unknown == {}
    assert imported.skipped == skipped
    assert (imported.tokens.fresh, imported.tokens.cached, imported.tokens.out) == (40, 60, 7)
    assert (imported.counts["tools"], imported.counts["tools_paired"]) == (1, 1)
    assert (imported.started_ms, imported.ended_ms) == (1772359201000, 1772359204000)
    assert imported.session_id == ("s1/t1" if version == 7 else "s1")
    assert (imported.agent, imported.format) == ("harbor-agent", "atif")
    assert TrailReader(imported.trail).status == "success"
    assert imported_from(tmp_path, document(version, ASKED, {**LISTED, **step}, DONE, **root)) == imported


def test_what_a_newer_version_adds_is_counted(tmp_path):
    value = document(9, {**ASKED, "mood": "good"}, {"source": "oracle", "message": "?"}, novelty=1)
    imported = imported_from(tmp_path, value)
    assert plain(imported) == [("PROMPT", "List")]
    assert imported.unknown == {
        "schema_version: ATIF-v1.9": 1, "member: novelty": 1, "step: mood": 1, "source: oracle": 1,
    }  # fmt: skip


def test_results_without_an_id_go_to_the_calls_in_their_order(tmp_path):
    calls = [{"tool_call_id": f"c{at}", "function_name": "oracle", "arguments": {"n": at}} for at in range(2)]
    results = [{"content": "one"}, {"content": "two", "extra": {"is_error": True}}]
    step = {"source": "agent", "message": "", "tool_calls": calls, "observation": {"results": results}}
    imported = imported_from(tmp_path, document(2, ASKED, step))
    assert [(step.outcome, step.result_size) for step in named(imported, "TOOL_CALL")] == [("ok", 3), ("failed", 3)]
    unclear = {**step, "observation": {"results": [{"content": "one"}]}}
    assert imported_from(tmp_path, document(2, ASKED, unclear)).skipped == {"result without its call": 1}


def test_tokens_of_the_whole_count_where_no_step_has_any(tmp_path):
    totals = {"total_prompt_tokens": 90, "total_cached_tokens": 50, "total_completion_tokens": 4, "total_cost_usd": 0.5}
    imported = imported_from(tmp_path, document(0, ASKED, DONE, final_metrics=totals))
    assert plain(imported)[-1] == ("MODEL_CALL", "m", 40, 50, 4, 500_000)
    both = document(0, ASKED, LISTED, DONE, final_metrics=totals)
    assert imported_from(tmp_path, both).tokens == (40, 60, 7)


def test_copied_steps_are_not_taken_twice(tmp_path):
    imported = imported_from(tmp_path, document(5, {**ASKED, "is_copied_context": True}, DONE))
    assert plain(imported) == [("SAY", "Done.")]
    assert imported.skipped == {"step copied from another trajectory": 1}


def test_a_step_may_have_more_calls_than_wait_at_once(tmp_path):
    calls = [{"tool_call_id": f"c{at}", "function_name": "oracle", "arguments": {}} for at in range(3000)]
    results = [{"source_call_id": f"c{at}", "content": "x"} for at in reversed(range(3000))]
    step = {"source": "agent", "message": "", "tool_calls": calls, "observation": {"results": results}}
    imported = imported_from(tmp_path, document(2, step))
    assert (imported.counts["tools"], imported.counts["tools_paired"], imported.skipped) == (3000, 3000, {})


def nested(depth):
    inner = [nested(depth - 1)] if depth else []
    return {**document(7, ASKED, DONE), "trajectory_id": f"t{depth}", "subagent_trajectories": inner}


def test_subagents_become_children_down_to_a_depth(tmp_path):
    call = {"tool_call_id": "c", "function_name": "delegate", "arguments": {"task": "Count"}}
    result = {"source_call_id": "c", "content": "3", "subagent_trajectory_ref": [{"trajectory_id": "t0"}]}
    step = {"source": "agent", "message": "", "tool_calls": [call], "observation": {"results": [result]}}
    imported = imported_from(tmp_path, document(7, ASKED, step, subagent_trajectories=[nested(0)]))
    (child,) = imported.children
    assert (child.session_id, child.agent_id) == ("s1", "t0")
    assert [step.operands[2].value for step in named(imported, "AGENT_SPAWN")] == [child.trail_digest]
    deep = imported_from(tmp_path, nested(20))
    assert len(list(whole(deep))) == 9
    assert list(whole(deep))[-1].skipped == {"subagent: too many or too deep": 1}


def test_a_document_that_was_cut_gives_its_whole_steps(tmp_path):
    text = json.dumps(document(4, ASKED, LISTED, DONE))
    imported = imported_from(tmp_path, text[: text.index("Done.")])
    assert plain(imported)[:1] == [("PROMPT", "List")]
    assert named(imported, "SAY")[0].operands == ("I list.",)
    assert TrailReader(imported.trail).status == "partial"


def test_a_huge_number_of_subagents_is_bounded(tmp_path):
    many = [{**document(7), "trajectory_id": f"t{at}"} for at in range(1005)]
    imported = imported_from(tmp_path, document(7, ASKED, DONE, subagent_trajectories=many))
    assert len(imported.children) == 1000
    assert imported.skipped == {"subagent: too many or too deep": 5}


# -- a trail and back --------------------------------------------------------------------------------------------------


def test_every_opcode_comes_back(tmp_path):
    objects = Objects()
    objects.put(LONG_TEXT)
    data = golden_trail()
    made = atif_document(source_of(data, objects))
    back = imported_from(tmp_path, made.data.decode(), Objects())
    before, after = told(data), told(back.trail)
    assert [step.code for step in after] == [step.code for step in before]
    assert after == before
    assert TrailReader(back.trail).status == TrailReader(data).status


def test_a_document_says_of_what_it_was_made():
    data = golden_trail()
    made = json.loads(atif_document(source_of(data, Objects())).data)
    facts = made["extra"]["periplus"]
    assert (made["schema_version"], facts["digest"]) == ("ATIF-v1.8", open_parts(data)[0].digest.hex())
    assert made["final_metrics"]["total_steps"] == len(made["steps"])
    assert [step["step_id"] for step in made["steps"]] == list(range(1, len(made["steps"]) + 1))
    assert atif_document(source_of(data, Objects())).data == atif_document(source_of(data, Objects())).data


def test_turns_hold_what_one_call_of_a_model_gave():
    builder = TrailBuilder(SECRET)
    for number, (op, *operands) in enumerate([
        ("PROMPT", "go"), ("MODEL_CALL", "m", 1, 2, 3), ("COMMENT", "hm"), ("SAY", "I look."), ("FILE_READ", "a"),
        ("FILE_READ", "b"), ("SAY", "Seen."), ("FILE_READ", "c"), ("MODEL_CALL", "m", 4, 5, 6), ("SAY", "Done."),
    ]):  # fmt: skip
        builder.add(op, *operands, at_ms=START_MS + number)
    data = builder.finish(Header("a", "run-1", started_ms=START_MS))
    steps = json.loads(atif_document(source_of(data, Objects())).data)["steps"]
    assert [(step["source"], step["message"], len(step.get("tool_calls", ()))) for step in steps] == [
        ("user", "go", 0), ("agent", "I look.", 2), ("agent", "Seen.", 1), ("agent", "Done.", 0),
    ]  # fmt: skip
    assert [step.get("metrics", {}).get("prompt_tokens") for step in steps] == [None, 3, 9, None]


def test_secrets_in_texts_outside_the_trail_are_masked():
    objects = Objects()
    builder = TrailBuilder(SECRET, objects.put)
    builder.add("SAY", "x" * 5000 + f" {TOKEN} ", at_ms=START_MS)
    data = builder.finish(Header("a", "run-1"))
    assert TOKEN.encode() not in atif_document(source_of(data, objects)).data


@pytest.mark.parametrize(
    "where", ["op", "outcome", "after_ms", "exit_code", "result", "digests", "text", "error", "note"]
)
@pytest.mark.parametrize("value", [None, -1, 2**62, "x", "sha256:00", [], {"a": 1}, "TOOL_CALL", "FILE_WRITE"])
def test_wrong_facts_of_our_own_do_no_harm(tmp_path, where, value):
    made = json.loads(atif_document(source_of(golden_trail(), Objects())).data)

    def spoil(table):
        for name, inner in table.items() if isinstance(table, dict) else enumerate(table):
            if name == "periplus" and isinstance(inner, dict) and "version" not in inner:
                for notes in [inner, *(one for one in inner.values() if isinstance(one, dict))]:
                    notes[where] = value
            elif isinstance(inner, (dict, list)):
                spoil(inner)

    spoil(made)
    assert imported_from(tmp_path, made, Objects()).counts["steps"] > 10


def test_facts_of_a_newer_version_are_left_alone(tmp_path):
    made = json.loads(atif_document(source_of(golden_trail(), Objects())).data)
    made["extra"]["periplus"]["version"] = 2
    imported = imported_from(tmp_path, made, Objects())
    assert imported.unknown["extra: periplus, version 2"] == 1
    assert imported.counts["prompts"] == 1


def built(header, rows, status):
    """A trail of the rows, as the strategies draw them."""
    builder = TrailBuilder(SECRET, Objects().put)
    at_ms = max(header.started_ms, 0)
    for row in rows:
        at_ms = max(0, at_ms + row.delta_ms)
        builder.add_step(row, at_ms)
    return builder.finish(header._replace(started_ms=max(header.started_ms, 0)), status)


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(header=headers, rows=st.lists(steps(), max_size=12), status=statuses)
def test_any_trail_becomes_a_document_that_can_be_read(tmp_path, header, rows, status):
    data = atif_document(source_of(built(header, rows, status), Objects())).data
    accept(data)
    back = imported_from(tmp_path, data.decode(), Objects())
    # A step that is nothing but a number, which JSON does not have, is not there.
    kept = sum(sum(map(abs, filter(is_number, row.operands))) < 2**53 for row in rows)
    assert kept <= back.counts["steps"] <= len(rows)
    assert back.unreadable_lines == []


def is_plain(value):
    """Tell whether the format can hold a value: a text that is at hand, or a number that JSON has."""
    if isinstance(value, int):
        return -(2**53) < value < 2**53
    return value is None or isinstance(value, (str, Digest))


def is_exact(row):
    values = (*row.operands, row.error, row.note)
    return row.code in BY_CODE and all(map(is_plain, values)) and sum(map(abs, filter(is_number, values))) < 2**53


def is_number(value):
    return isinstance(value, int)


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(steps().filter(is_exact), max_size=12), status=statuses)
def test_any_trail_of_plain_values_comes_back(tmp_path, rows, status):
    data = built(Header("a", "run-1", started_ms=START_MS), rows, status)
    back = imported_from(tmp_path, atif_document(source_of(data, Objects())).data.decode(), Objects())
    assert told(back.trail) == told(data)
    assert TrailReader(back.trail).status == status


FAST = ("cursor", "copilot-cli", "codex-rollout", "amp", "cline")
SLOW = ("claude-code-jsonl", "gemini-cli", "opencode", "openhands", "aider", "qwen-code", "swe-agent-traj", "otel-genai", "inspect-log",
        "droid", "pi-agent", "mini-swe-agent", "specstory-md", "agent-trajectories")  # fmt: skip


def real_sessions(folder):
    if not SHARED.is_dir():
        pytest.skip(f"real transcripts are not beside the repository: no folder {SHARED}")
    for path in sorted(path for path in (SHARED / folder).rglob("*") if path.is_file()):
        objects = Objects()
        try:
            found = list(import_transcripts(str(path), trail_key=KEY, put_object=objects.put))
        except PeriplusError:
            continue  # no session, or a part of one
        for imported in found:
            yield path, imported, objects


@pytest.mark.parametrize("folder", [*FAST, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_real_sessions_come_back_and_are_accepted(tmp_path, folder):
    seen = 0
    for _, imported, objects in real_sessions(folder):
        data = exported(imported, objects)
        back = imported_from(tmp_path, data.decode(), Objects())
        assert_same(imported, back)
        accept(data)
        seen += 1
    assert seen


# -- other programs ----------------------------------------------------------------------------------------------------


def accept(data):
    """Have the models of the package ``atif`` accept the document, where it is installed."""
    try:
        import atif
    except ImportError:
        return
    trajectory = atif.Trajectory.model_validate_json(data)
    assert trajectory.to_json_dict(exclude_none=True) == json.loads(data)


def test_the_models_accept_a_trail_of_every_opcode():
    pytest.importorskip("atif")
    accept(atif_document(source_of(golden_trail(), Objects())).data)


# Sessions that ``atif-make`` counts otherwise than we do, by the end of the path: what differs, and why.
DIFFERENT = {
    "33210c2e180b-0/full.jsonl": {"prompts": "commands of the client and their output are no prompts"},
    "5d755497c182-0/full.jsonl": {"prompts": "commands of the client and their output are no prompts"},
    "e012b8e855d7-0/full.jsonl": {"prompts": "commands of the client and their output are no prompts"},
    "claude-code-jsonl/example-claude-code.jsonl": {"prompts": "an interruption is no prompt"},
    "claude-code-jsonl/agent-sessions/large.jsonl": {"results": "the result has no id, and they leave it out"},
    "claude-code-jsonl/agent-sessions/small.jsonl": {
        "prompts": "they keep the last branch, without the first prompt and one of an image only",
        "calls": "they keep the last branch, without the call of another",
        "results": "they keep the last branch, without the result of another",
    },
    "codex-rollout/agent-sessions/large.jsonl": {
        "prompts": "they take the environment for a prompt", "calls": "they leave out a call of the kind tool_call",
        "results": "they leave out the result of that call",
    },
    "codex-rollout/agent-sessions/small.jsonl": {
        "prompts": "they leave out prompts that only events tell", "calls": "they leave out searches, pictures and undo",
        "results": "they leave out the results of these",
    },
    "019a93b9-f380-7600-98ff-940e6b99603c.jsonl": {"prompts": "they take the environment for a prompt"},
    "copilot-cli/agent-sessions/large.jsonl": {"calls": "they leave out a call of which only the beginning is recorded"},
    "copilot-cli/agent-sessions/small.jsonl": {"calls": "calls are recorded twice with one id, and they count both"},
    "cursor/agent-sessions/large.jsonl": {"results": "the ids are not those of the calls, and they leave the results out"},
    "cursor/agent-sessions/subagent/parent.jsonl": {"subagents": "they do not read the folder of subagents"},
}  # fmt: skip


def theirs_of(trajectory):
    """Counts of a trajectory that ``atif-make`` made."""
    calls = [call for step in trajectory.steps for call in step.tool_calls or ()]
    results = [one for step in trajectory.steps for one in (step.observation.results if step.observation else ())]
    metrics = [step.metrics for step in trajectory.steps if step.metrics]
    return {
        "prompts": sum(step.source == "user" for step in trajectory.steps), "calls": len(calls), "results": len(results),
        "tokens": tuple(sum(getattr(one, name) or 0 for one in metrics)
                        for name in ("prompt_tokens", "cached_tokens", "completion_tokens")),
        "subagents": len(trajectory.subagent_trajectories or ()),
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["claude-code-jsonl", "codex-rollout", "copilot-cli", "copilot-chat", "cursor"])
def test_another_converter_counts_the_same(folder):
    atif_make = pytest.importorskip("atif_make")
    compared = 0
    for path, imported, _ in real_sessions(folder):
        if "subagents" in path.parts or path.suffix != ".jsonl":
            continue
        theirs = theirs_of(atif_make.convert(path)[0])
        tokens = imported.tokens
        ours = {
            "prompts": imported.counts["prompts"], "calls": imported.counts["tools"],
            "results": imported.counts["tools_paired"],
            "tokens": (tokens.fresh + tokens.cached, tokens.cached, tokens.out), "subagents": len(imported.children),
        }  # fmt: skip
        explained = next((why for end, why in DIFFERENT.items() if str(path).endswith(end)), {})
        assert {name for name in ours if ours[name] != theirs[name]} == set(explained), path
        compared += 1
    assert compared


# -- the command line --------------------------------------------------------------------------------------------------


@pytest.fixture
def shop(tmp_path):
    shell = Shell(tmp_path / "project", tmp_path / "home")
    shell.folder.mkdir()
    shell("init")
    claude_session(shell.folder / "session.jsonl", steps=3)
    shell("trail", "import", "session.jsonl")
    (trail,) = json.loads(shell("trail", "list", "--json").out)["trails"]
    return shell, trail["id"]


def test_an_export_is_verified_against_its_trail(shop):
    shell, trail = shop
    shell("trail", "export", trail, "--format", "atif", "--out", "run.json")
    accept((shell.folder / "run.json").read_bytes())
    assert "verified" in shell("trail", "verify", "run.json", "--against", trail).out
    assert "every byte of the document" in shell("trail", "verify", "run.json").out
    value = json.loads((shell.folder / "run.json").read_text())
    (shell.folder / "short.json").write_text(json.dumps(value))
    assert "laid out anew" in shell("trail", "verify", "short.json", "--against", trail).out
    value["steps"][1]["message"] = "Something else"
    (shell.folder / "changed.json").write_text(json.dumps(value))
    assert "steps[1].message" in shell("trail", "verify", "changed.json", "--against", trail, code=3).out
    twice = (
        (shell.folder / "run.json")
        .read_text()
        .replace('"source": "user",', '"source": "user", "message": "Hidden",', 1)
    )
    (shell.folder / "twice.json").write_text(twice)
    assert "'message' twice" in shell("trail", "verify", "twice.json", "--against", trail, code=3).out
    value = json.loads((shell.folder / "run.json").read_text())
    value["extra"]["periplus"]["missing"] = 3
    (shell.folder / "missing.json").write_text(json.dumps(value))
    assert "not compared" in shell("trail", "verify", "missing.json", "--against", trail, code=1).out
    claude_session(shell.folder / "other.jsonl", steps=2, session="07e7")
    shell("trail", "import", "other.jsonl")
    trails = json.loads(shell("trail", "list", "--json").out)["trails"]
    (other,) = [one["id"] for one in trails if one["id"] != trail]
    assert "names the digest" in shell("trail", "verify", "run.json", "--against", other, code=3).out


def test_subagents_are_in_the_file_and_verified_with_it(shop):
    session = SHARED / "claude-code-jsonl" / "agent-sessions" / "subagent"
    if not session.is_dir():
        pytest.skip(f"real transcripts are not beside the repository: no folder {SHARED}")
    shell, _ = shop
    shell("trail", "import", *session.glob("*.jsonl"))
    trails = json.loads(shell("trail", "list", "--json").out)["trails"]
    (trail,) = {one["value"]["parent"] for one in trails if one["value"].get("parent")}
    shell("trail", "export", trail, "--format", "atif", "--out", "run.json")
    value = json.loads((shell.folder / "run.json").read_text())
    assert len(value["subagent_trajectories"]) == value["extra"]["periplus"]["subagents"] == 1
    assert "every byte" in shell("trail", "verify", "run.json", "--against", trail).out
    shell("trail", "import", "run.json")
    assert len(json.loads(shell("trail", "list", "--json").out)["trails"]) == len(trails) + 2


def test_a_document_is_not_verified_without_its_trail(shop, tmp_path):
    shell, trail = shop
    shell("trail", "export", trail, "--format", "atif", "--out", "run.json")
    elsewhere = Shell(tmp_path / "elsewhere", tmp_path / "home")
    elsewhere.folder.mkdir()
    assert "--against" in elsewhere("trail", "verify", shell.folder / "run.json", code=1).out
    (shell.folder / "foreign.json").write_text(json.dumps(document(7, ASKED, DONE)))
    assert "no ATIF document that Periplus wrote" in shell("trail", "verify", "foreign.json", code=3).out


def test_withheld_fields_are_not_in_the_document(shop):
    shell, trail = shop
    shell("trail", "export", trail, "--format", "atif", "--withhold", "text,command", "--out", "run.json")
    text = (shell.folder / "run.json").read_text()
    assert "Count the cogs" not in json.dumps(json.loads(text)["steps"])
    assert json.loads(text)["extra"]["periplus"]["withheld"] == ["command", "text"]
    assert "without command, text" in shell("trail", "verify", "run.json", "--against", trail).out


def test_an_export_is_imported_once(shop):
    shell, trail = shop
    shell("trail", "export", trail, "--format", "atif", "--out", "run.json")
    shell("trail", "import", "run.json")
    before = json.loads(shell("trail", "list", "--json").out)
    shell("trail", "import", "run.json")
    assert json.loads(shell("trail", "list", "--json").out) == before
    assert len(before["trails"]) == 2


def test_other_json_is_refused(tmp_path):
    with pytest.raises(FormatError, match="JSON document of another program"):
        imported_from(tmp_path, {"schema_version": "1.0", "steps": [], "agent": AGENT})
    assert steps_of(imported_from(tmp_path, document(8))) == []
