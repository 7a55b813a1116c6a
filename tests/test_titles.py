"""Titles of sessions: the first prompt that says something, else what was done."""

from __future__ import annotations

import os

import pytest

from hook_support import hook
from interop_support import read
from periplus.interop.conversion.session_titles import better_title, says_something
from periplus.journal import Writer
from periplus.project import Project
from reflect_support import CWD, session

pytestmark = pytest.mark.quick

WRITER = Writer("ada", "who_0000000000000000", "", 1)
EDITED = [("edit", "src/auth.py"), ("run", "pytest -q tests/test_auth.py")]


@pytest.mark.parametrize(
    "prompt",
    [
        "1", "2.", "a", "b)", "yes", "yep let's do it", "ok, go ahead!", "Continue please", "LGTM :)", "👍", "…", "do it", "y", "hi", "Hello there!",
        "yes, 2 and 3", "both", "the second one", "try again", "sure, thanks", "[Image #1]", "ja, mach weiter", "oui, vas-y", "sí, dale", "继续", "はい", "да, давай",
    ],
)  # fmt: skip
def test_a_prompt_that_says_nothing_is_no_title(tmp_path, prompt):
    assert not says_something(prompt)
    events = [("prompt", prompt), ("say", "Well."), ("prompt", "Count the cogs of the engine"), ("say", "Three.")]
    assert read(session(tmp_path / "a.jsonl", *events)).title == "Count the cogs of the engine"


@pytest.mark.parametrize(
    "prompt",
    [
        "fix it",
        "Run the tests",
        "continue with the migration",
        "why 404?",
        "/home/ada/sea.py is broken",
        "下一步修复登录",
        "ok, now rename Foo",
        "push",
    ],
)
def test_a_prompt_that_says_something_is_the_title(tmp_path, prompt):
    events = [("prompt", prompt), ("say", "Well."), ("prompt", "Count the cogs of the engine"), ("say", "Three.")]
    assert read(session(tmp_path / "a.jsonl", *events)).title == prompt


@pytest.mark.parametrize(
    ("events", "title"),
    [
        ([("prompt", "1"), *EDITED], "changed src/auth.py; ran pytest -q tests/test_auth.py"),
        ([("prompt", "yep let's do it"), *(("edit", f"src/{name}.py") for name in "abcde")], "changed src/a.py, src/b.py, src/c.py and 2 more"),
        ([("prompt", "go"), ("run", "make sea")], "ran make sea"),
        ([("prompt", "go"), ("say", "Gone.")], "go"),
        ([("prompt", "/review 12"), ("say", "Fine.")], "/review 12"),
        ([("prompt", "/clear"), ("prompt", "2"), *EDITED[:1]], "changed src/auth.py"),
    ],
)  # fmt: skip
def test_else_a_title_is_what_was_done(tmp_path, events, title):
    assert read(session(tmp_path / "a.jsonl", *events)).title == title


@pytest.mark.parametrize(
    ("held", "prompt", "title"),
    [
        ("", "1", "1"),
        ("1", "fix it", "fix it"),
        ("fix it", "rename it", "fix it"),
        ("1", "2", "1"),
        ("/init", "2", "/init"),
        ("x y z", " ", "x y z"),
    ],
)
def test_a_title_gives_way_to_one_that_tells_more(held, prompt, title):
    assert better_title(held, prompt) == title


@pytest.mark.parametrize(
    ("prompts", "title"),
    [
        (["1", "Count the cogs"], "Count the cogs"),
        (["yep let's do it"], "changed src/auth.py"),
        (["Count", "the cogs"], "Count"),
    ],
)
def test_a_run_of_hooks_has_such_a_title(tmp_path, prompts, title):
    Project.init(os.fspath(tmp_path))
    common = {"session_id": "s", "cwd": os.fspath(tmp_path)}
    for prompt in prompts:
        hook("UserPromptSubmit", {**common, "prompt": prompt}, cwd=tmp_path)
    call = {
        "tool_name": "Edit",
        "tool_input": {"file_path": f"{tmp_path}/src/auth.py", "old_string": "a", "new_string": "b"},
    }
    hook("PostToolUse", {**common, **call, "tool_response": {"filePath": "x"}}, cwd=tmp_path)
    hook("SessionEnd", {**common, "reason": "exit"}, cwd=tmp_path)
    with Project.open(os.fspath(tmp_path), WRITER) as project:
        (trail,) = project.trails()
        assert trail.value["title"] == title
        assert CWD not in title
