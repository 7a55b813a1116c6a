"""Events of hooks that are large: what they say is kept, and of what is too large that it was left out."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hook_support import hook
from periplus.base.filesystem.spool import SPOOLED_FILE_BYTES_MAX
from periplus.interop.hooks.events import HookEvent, decode_event, encode_event
from periplus.interop.hooks.size_limit import encode_within
from periplus.interop.hooks.steps import steps_of
from periplus.journal import Writer
from periplus.project import Project
from periplus.trail import Digest, TrailReader, opcode_name

WRITER = Writer("ada", "who_0000000000000000", "", 1)
EVENT = HookEvent("after-tool", "claude-code", "s-1", 1_700_000_000_000, "PostToolUse", "/w", tool="Write")


def steps(folder, *events):
    """The steps of a session that was told just these, as ``(op, operands, outcome)``."""
    Project.init(str(folder))
    for name, fields in [*events, ("SessionEnd", {})]:
        document = {"session_id": "s-1", "cwd": str(folder), **fields}
        done = hook(name, json.dumps(document, ensure_ascii=False).encode(), cwd=folder)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    with Project.open(str(folder), WRITER) as project:
        assert not project.hooks.has_events
        assert [note.what for note in project.hooks.notes()] == []
        (trail,) = project.trails()
        found = TrailReader(project.trail_bytes(trail.item_id).data).steps()
        return [(opcode_name(step.code), step.operands, step.outcome) for step in found]


def call(content, **more):
    return ("PostToolUse", {"tool_name": "Write", "tool_use_id": f"t-{len(content)}", "tool_input": {"file_path": "/w/a.txt", "content": content},
                            "tool_response": {"filePath": "/w/a.txt"}, **more})  # fmt: skip


def test_three_megabytes_of_cyrillic_are_kept_whole(tmp_path):
    (step,) = steps(tmp_path, call("\u044f" * 1_500_000))
    assert step[0] == "FILE_WRITE"
    assert isinstance(step[1][1], Digest)


@pytest.mark.slow
def test_of_what_is_too_large_all_but_the_long_text_is_kept(tmp_path):
    failed = {"tool_use_id": "t-2", "error": "no room"}
    one, other = steps(tmp_path, call("x" * 9_000_000), ("PostToolUseFailure", {**call("y" * 9_000_000)[1], **failed}))
    for step, outcome in ((one, "ok"), (other, "failed")):
        assert (step[0], step[1][1], step[2]) == ("TOOL_CALL", "Write", outcome)
        assert json.loads(step[1][2]) == {"file_path": "/w/a.txt", "content": {"left_out": "9,000,000 characters"}}


@pytest.mark.slow
def test_a_prompt_that_is_too_large_says_what_it_lacks(tmp_path):
    (step,) = steps(tmp_path, ("UserPromptSubmit", {"prompt": "\u0436" * 6_000_000}))
    assert step[0] == "PROMPT"
    event = decode_event(
        encode_within(EVENT._replace(kind="prompt", prompt="\u0436" * 6_000_000), SPOOLED_FILE_BYTES_MAX)
    )
    assert event.prompt.endswith("4,951,424 characters are left out here: the event was too large to be kept")


def test_a_long_answer_goes_before_what_was_asked():
    event = EVENT._replace(arguments={"file_path": "/w/a", "content": "x" * 900_000}, response={"stdout": "y" * 900_000, "exitCode": 2, "interrupted": False})  # fmt: skip
    found = decode_event(encode_within(event, 1 << 20))
    assert found.arguments == event.arguments
    assert found.response == {"exitCode": 2, "interrupted": False}


@pytest.mark.parametrize(
    "response", [{"stdout": "x" * 1_100_000, "stderr": "warned"}, {"stdout": "", "stderr": "x" * 1_100_000}]
)
def test_an_answer_of_which_half_is_left_out_has_no_digest(tmp_path, response):
    """That of the other half would be the digest of what the model did not see."""
    from periplus.base.text.secrets import mask_secrets
    from periplus.interop.hooks.events import read_event

    document = {"session_id": "s-1", "tool_name": "Bash", "tool_input": {"command": "make"}, "tool_response": response}
    event = read_event("claude-code", "PostToolUse", document, 1_700_000_000_000, mask_secrets)
    ((_, live),) = steps_of([event], lambda data: bytes(32))
    assert live.step.result is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(st.characters(exclude_categories=())) | st.just("\0" * 300_000),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4), max_leaves=20,
)  # fmt: skip


@pytest.mark.slow
@given(prompt=st.text(st.characters(exclude_categories=())), arguments=VALUES, response=VALUES)
@settings(deadline=None, max_examples=60)
def test_an_event_fits_and_is_the_same_where_it_fits(prompt, arguments, response):
    event = EVENT._replace(prompt=prompt, arguments=arguments, response=response)
    assert decode_event(encode_event(event)) == event
    data = encode_within(event, 1 << 20)
    assert len(data) <= 1 << 20
    found = decode_event(data)
    assert found._replace(prompt="", arguments=None, response=None) == event._replace(
        prompt="", arguments=None, response=None
    )


def test_arguments_of_many_texts_are_left_out_together():
    event = EVENT._replace(arguments={f"{number:05d}" * 40: "x" * 250 for number in range(5_000)})
    assert decode_event(encode_within(event, 1 << 20)).arguments == {"left_out": "all, of an event of 2,280,148 bytes"}
