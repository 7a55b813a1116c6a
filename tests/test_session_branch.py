"""The branch on which a session began is kept with its trail, and sessions are listed by it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from periplus.journal import Writer
from periplus.project import Project
from periplus.project.trail_store.session_list import SessionFilter

ANN = Writer.named("ann")
DAY = "2026-03-01T12:00:0"


def claude(*branches: str | None) -> list[dict[str, object]]:
    return [
        {
            "type": "user", "uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number else None, "sessionId": "s1", "cwd": "/srv/shop",
            "version": "2.1.17", "timestamp": f"{DAY}{number}.000Z", "message": {"role": "user", "content": f"do {number}"},
            **({} if branch is None else {"gitBranch": branch}),
        }
        for number, branch in enumerate(branches)
    ]  # fmt: skip


def codex(branch: str) -> list[dict[str, object]]:
    meta = {
        "id": "s2",
        "cwd": "/srv/shop",
        "cli_version": "0.50.0",
        "originator": "codex_cli_rs",
        "git": {"branch": branch},
    }
    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "do it"}]}
    return [
        {"timestamp": f"{DAY}0.000Z", "type": "session_meta", "payload": meta},
        {"timestamp": f"{DAY}1.000Z", "type": "response_item", "payload": said},
    ]


def card_of(tmp_path: Path, records: list[dict[str, object]]) -> dict[str, object]:
    Project.init(str(tmp_path))
    path = tmp_path / "session.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    with Project.open(str(tmp_path), ANN) as project:
        return dict(project.import_transcript(str(path)).entity.value)


@pytest.mark.parametrize(
    ("records", "branch"),
    [
        (claude("rate-limits", "main"), "rate-limits"),
        (claude(None, "main"), "main"),
        (claude("", "main"), "main"),
        (claude("x" * 500), "x" * 200),
        (codex("fix/tokens"), "fix/tokens"),
    ],
)
def test_card_has_the_first_branch(tmp_path: Path, records: list[dict[str, object]], branch: str) -> None:
    assert card_of(tmp_path, records)["branch"] == branch


def test_card_of_a_session_without_a_branch_says_nothing_of_it(tmp_path: Path) -> None:
    assert "branch" not in card_of(tmp_path, claude(None))


def test_branch_that_is_no_text_is_left_out(tmp_path: Path) -> None:
    records = [{**record, "gitBranch": ["main"]} for record in claude(None)]
    assert "branch" not in card_of(tmp_path, records)


def test_sessions_are_listed_by_branch(tmp_path: Path) -> None:
    card_of(tmp_path, claude("rate-limits"))
    with Project.open(str(tmp_path), ANN) as project:
        assert [row.branch for row in project.session_page(SessionFilter(branches=("rate-limits",))).rows] == [
            "rate-limits"
        ]
        assert not project.session_page(SessionFilter(branches=("main",))).rows
