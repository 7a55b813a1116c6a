"""Every real file is imported, or refused with a sentence that names the file to give instead."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase

import pytest

from interop_support import KEY, SHARED, Objects, check
from periplus.base.errors import FormatError
from periplus.interop import import_transcripts

pytestmark = pytest.mark.quick

IMPORTED = "imported"
STORED = "storage_v2/session/proj_test/ses_s_stage0_{}.json"
# The first pattern of a file's name → what the refusal says, in this order; or that the file is imported.
OUTCOMES = {
    # Sessions that other tools kept
    "specstory-md/*.md": IMPORTED,
    "claude-code-jsonl/*-0/full.jsonl": IMPORTED,
    "claude-code-jsonl/*-0/*metadata.json": ("a checkpoint of Entire", "periplus trail import {folder}/full.jsonl;", "--kept"),
    "claude-code-jsonl/*-0/content_hash.txt": ("the digest of a transcript", "import {folder}/full.jsonl;", "--kept"),
    "claude-code-jsonl/*-0/context.md": ("only the prompts", "import {folder}/full.jsonl;", "--kept"),
    "claude-code-jsonl/*-0/prompt.txt": ("only the prompts", "import {folder}/full.jsonl;", "--kept"),
    "claude-code-jsonl/*-0/linked-commits.json": ("a list of commits", "import {folder}/full.jsonl"),
    "git-ai-notes/6fbf51af*.note": ("lines that people typed: no session", "the session's own file"),
    "git-ai-notes/0c65b9a9*.note": ("holds no messages", "claude in session 4ea70ef1-", "import ~/.claude/projects/*/4ea70ef1-"),
    "git-ai-notes/4f77175b*.note": ("holds no messages", "claude in session 4ea70ef1-", "import ~/.claude/projects/*/4ea70ef1-"),
    "git-ai-notes/*.note": ("holds no messages", "codex in session 019", "import ~/.codex/sessions/*/*/*/rollout-*-019"),
    "agent-trajectories/index.json": ("the index of", "import {folder}/traj_cuuwpd2q5rr4.json"),
    "agent-trajectories/*.md": ("the summary of", "import {folder}/traj_cuuwpd2q5rr4.json"),
    "agent-trajectories/traj_*.json": IMPORTED,
    "agent-trace/*-1.json": (
        "an Agent Trace record", "the conversation https://api.cursor.com/v1/conversations/12345 itself",
        "import ~/.cursor/projects/*/agent-transcripts/*/*.jsonl",
    ),
    "agent-trace/*-2.json": ("an Agent Trace record", "Give the file of the conversation itself"),
    # Files beside sessions of agents
    "beads-jsonl/*": ("issues of Beads", "no session", "Give the session file of the agent"),
    "*/subagents/*.meta.json": ("the card of a subagent", "/subagents/agent-a0ad4f44468bdf20d.jsonl"),
    "opencode/schema.sql": ("the schema of a database", "import {folder}/opencode.db"),
    "opencode/*/storage_legacy/part/*": ("a part of a session of opencode", "storage/session/PROJECT/", "opencode.db"),
    "opencode/*/storage_v2/migration": ("the version of opencode's storage", STORED.format("large"), STORED.format("small")),
    "opencode/*/message/s_stage0_small/*": ("a message of a session", STORED.format("small")),
    "opencode/*/message/s_stage0_large/*": ("a message of a session", STORED.format("large")),
    "opencode/*/part/*small*/*": ("a part of a session of opencode", STORED.format("small")),
    "opencode/*/part/*": ("a part of a session of opencode", STORED.format("large")),
    # Sessions of agents whose format is not imported yet
    "antigravity/*/small.md": ("documents of Antigravity", ".system_generated/logs/transcript.jsonl", "import {folder}/cli_small.jsonl"),
    "grok-build/*/summary.json": ("the summary of a session of Grok Build", "import {folder}/chat_history.jsonl"),
    "kimi-code/*/state.json": ("the state of a session of Kimi Code", "agents/main/wire.jsonl", "import {folder}/small.jsonl"),
    "*": IMPORTED,
}  # fmt: skip


def files():
    if not SHARED.is_dir():
        return []
    return sorted(path for path in SHARED.rglob("*") if path.is_file() and path.name != "README.md")


def outcome_of(path):
    """The sessions in the file, or the refusal as a person reads it."""
    try:
        return list(import_transcripts(str(path), trail_key=KEY, put_object=Objects().put))
    except FormatError as error:
        assert error.safe == "Nothing was imported."  # noqa: PT017 - either is right
        return f"{error} {error.mend}"


@pytest.mark.skipif(not files(), reason="real transcripts are not beside the repository")
@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(SHARED)))
def test_a_file_is_imported_or_its_refusal_names_another(path):
    name = str(path.relative_to(SHARED))
    expected = next(outcome for pattern, outcome in OUTCOMES.items() if fnmatchcase(name, pattern))
    found = outcome_of(path)
    if expected == IMPORTED:
        assert isinstance(found, list), found
        assert found
        for imported in found:
            check(imported)
        return
    assert isinstance(found, str), "it is imported: say so in the table"
    words = [re.escape(word.format(folder=path.parent)) for word in expected]
    assert re.search(".*".join(words), found, re.DOTALL), found
    assert str(path) in found


def test_every_row_of_the_table_is_of_a_file():
    names = [str(path.relative_to(SHARED)) for path in files()]
    if not names:
        pytest.skip("real transcripts are not beside the repository")
    assert len(names) > 130
    used = {next(pattern for pattern in OUTCOMES if fnmatchcase(name, pattern)) for name in names}
    assert used == {*OUTCOMES}


def test_a_named_file_can_be_given():
    """A file that a refusal names is imported: the test types the command in the sentence."""
    given = 0
    for path in files():
        found = outcome_of(path)
        if isinstance(found, list) or "Give the session instead: " not in found:
            continue
        words = found.partition("periplus trail import ")[2].partition(";")[0].split()
        assert words, found
        assert all(isinstance(outcome_of(word), list) for word in words), found
        given += 1
    assert given > 30 or not files()


def test_a_path_with_spaces_is_named_as_a_shell_takes_it(tmp_path):
    folder = tmp_path / "my sessions"
    folder.mkdir()
    (folder / "full.jsonl").write_text(
        '{"type":"user","uuid":"u","sessionId":"s","message":{"role":"user","content":"go"}}\n'
    )
    (folder / "content_hash.txt").write_text("sha256:" + "0" * 64)
    (folder / "other.txt").write_text("nothing")
    for name in ("content_hash.txt", "other.txt"):
        assert f"Give the session instead: periplus trail import '{folder}/full.jsonl'" in outcome_of(folder / name)


def test_what_is_beside_through_a_link_is_not_named(tmp_path):
    real, folder = tmp_path / "real", tmp_path / "folder"
    real.mkdir()
    folder.mkdir()
    (real / "full.jsonl").write_text(
        '{"type":"user","uuid":"u","sessionId":"s","message":{"role":"user","content":"go"}}\n'
    )
    (folder / "full.jsonl").symlink_to(real / "full.jsonl")
    (folder / "content_hash.txt").write_text("sha256:" + "0" * 64)
    (folder / "other.txt").write_text("nothing")
    assert "Give full.jsonl of the checkpoint" in outcome_of(folder / "content_hash.txt")
    assert "Sessions of these can be imported: " in outcome_of(folder / "other.txt")


def test_an_index_names_no_file_outside_of_its_folder(tmp_path):
    folder = tmp_path / "outer" / ".trajectories"
    folder.mkdir(parents=True)
    (tmp_path / "outer" / "other.json").write_text("{}")
    listed = {"t1": {"path": "../other.json"}}
    (folder / "index.json").write_text(json.dumps({"version": 1, "trajectories": listed}))
    said = outcome_of(folder / "index.json")
    assert "it is the index of agent-trajectories" in said
    assert "other.json" not in said
