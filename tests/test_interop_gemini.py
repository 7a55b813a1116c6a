from __future__ import annotations

import pytest

from interop_support import plain, read, steps_of, write_lines

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("said", "outcome"),
    [("Tool execution blocked: keel.py is claimed.", "denied"), ("Failed to edit, 0 occurrences found.", "failed")],
)
def test_a_call_that_a_hook_blocked_was_denied(tmp_path, said, outcome):
    call = {
        "id": "c", "name": "replace", "args": {"file_path": "keel.py", "old_string": "k", "new_string": "K"}, "status": "error",
        "result": [{"functionResponse": {"id": "c", "name": "replace", "response": {"error": said}}}],
    }  # fmt: skip
    lines = [
        {"sessionId": "g", "projectHash": "0" * 64, "startTime": "2026-03-01T10:00:00Z", "lastUpdated": ""},
        {"id": "1", "timestamp": "2026-03-01T10:00:01Z", "type": "gemini", "content": "", "toolCalls": [call]},
    ]
    imported = read(write_lines(tmp_path / "s.jsonl", lines))
    (edit,) = steps_of(imported)
    assert (plain(imported)[0][:2], edit.outcome, edit.error) == (("FILE_EDIT", "keel.py"), outcome, said)
