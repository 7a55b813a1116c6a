"""Hooks of one session in two clones of a project: each seals what it heard itself."""

from __future__ import annotations

import json

import pytest

from cli_support import shared_project


def told(shell, event, **fields):
    common = {"session_id": "5e551011", "cwd": str(shell.folder), "transcript_path": "", "hook_event_name": event}
    shell("hook", "--wait", event, stdin=json.dumps(common | fields))


@pytest.mark.slow
def test_the_end_of_a_session_seals_no_run_of_another_clone(tmp_path):
    """The other clone's run was sealed, too: its long texts are only there, and the trail named objects that were missing."""
    people = shared_project(tmp_path, "bob")
    ada, bob = people["ada"], people["bob"]
    told(bob, "UserPromptSubmit", prompt="Count the cogs. " * 600)
    for who in (bob, ada):
        who("sync", "--with", "../stick")
    told(ada, "UserPromptSubmit", prompt="Oil the wheels")
    told(ada, "SessionEnd", reason="exit")
    assert ada.json("doctor").sound
    assert [trail.value["counts"]["prompts"] for trail in ada.json("trail", "list").trails] == [1]
    ada("export", tmp_path / "all.zip")
    told(bob, "SessionEnd", reason="exit")
    for who in (bob, ada, bob):
        who("sync", "--with", "../stick")
    assert ada.json("doctor").sound
    assert bob.json("doctor").sound
