"""The table of formats: every real file is of the format that it is of, and of no other."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from interop_support import KEY, SHARED, Objects, check
from periplus.base.errors import FormatError
from periplus.interop import find_sessions, import_transcripts
from periplus.interop.conversion.source import Head
from periplus.interop.format_detection import detect_format
from periplus.interop.formats import FORMATS, format_names, format_of, importer_of, kinds_of_files

pytestmark = pytest.mark.quick

# Folder of the real files → the format of the sessions in it.
EXPECTED = {
    "agent-trace": "agent-trace", "agent-trajectories": "agent-trajectories", "aider": "aider", "amp": "amp",
    "antigravity": "antigravity", "beads-jsonl": "beads", "claude-code-jsonl": "claude-code", "cline": "cline",
    "codex-rollout": "codex", "continue": "continue", "copilot-chat": "copilot-chat", "copilot-cli": "copilot-cli",
    "cursor": "cursor", "droid": "droid", "gemini-cli": "gemini-cli", "git-ai-notes": "git-ai", "grok-build": "grok-build",
    "hermes": "hermes", "inspect-log": "inspect", "kimi-code": "kimi-code", "mini-swe-agent": "mini-swe-agent",
    "openclaw": "pi-agent", "opencode": "opencode", "openhands": "openhands", "otel-genai": "otel",
    "pi-agent": "pi-agent", "qwen-code": "qwen-code", "specstory-md": "specstory", "swe-agent-traj": "swe-agent-traj",
    "windsurf": "windsurf",
}  # fmt: skip
# Files that lie beside sessions and are none: what tells of a session without being one, and parts of one.
NO_SESSION = re.compile(
    r"README\.md|.*/(checkpoint-metadata|linked-commits|metadata|state|summary|index)\.json|.*/(content_hash|prompt)\.txt"
    r"|.*/context\.md|traj_\w+\.md|.*\.meta\.json|opencode/schema\.sql|opencode/.*/(message|part)/.*|opencode/.*/migration"
    r"|.*/context\.md|agent-sessions/small\.md|.*\.meta\.json|opencode/schema\.sql|opencode/.*/(message|part)/.*|opencode/.*/migration"
)


def real_files():
    if not SHARED.is_dir():
        pytest.skip(f"real transcripts are not beside the repository: no folder {SHARED}")
    return sorted(path for path in SHARED.rglob("*") if path.is_file())


def found_format(path):
    try:
        return detect_format(Head.of(str(path))).name
    except FormatError as error:
        return f"{error}: {error.mend}"


def test_every_real_file_is_of_its_format_and_of_no_other():
    files = real_files()
    assert len(files) > 150
    seen = set()
    for path in files:
        name = str(path.relative_to(SHARED))
        folder = path.parts[len(SHARED.parts)]
        found = found_format(path)
        if NO_SESSION.fullmatch(name.removeprefix(f"{folder}/")) or NO_SESSION.fullmatch(name):
            assert found not in format_names(), name
        elif EXPECTED[folder] in format_names():
            assert found == EXPECTED[folder], name
            seen.add(found)
        else:
            assert found not in format_names(), name
            assert str(path) in found
            assert "Sessions of these can be imported: " in found or "Give the " in found
    assert seen == {name for name in format_names() if name in EXPECTED.values()}


@pytest.mark.parametrize(
    ("folder", "words"),
    [("cursor", "Cursor"), ("amp", "Amp"), ("droid", "Droid"), ("continue", "Continue"), ("copilot-cli", "Copilot"),
     ("kimi-code", "Kimi"), ("agent-trace", "Agent Trace"), ("opencode", "opencode")],
)  # fmt: skip
def test_what_is_not_imported_yet_is_called_by_its_name(folder, words):
    refused = []
    for path in real_files():
        name = str(path.relative_to(SHARED / path.parts[len(SHARED.parts)]))
        is_session = folder == "opencode" or not NO_SESSION.fullmatch(name)
        if folder in path.parts and path.suffix in (".json", ".jsonl") and is_session:
            found = found_format(path)
            if found not in format_names():
                refused.append(found)
    if EXPECTED[folder] in format_names() and folder != "opencode":
        assert not refused
        return
    assert refused
    assert any(words in wrong for wrong in refused)


@pytest.mark.slow
def test_every_real_session_imports_and_twice_gives_the_same():
    for path in real_files():
        if found_format(path) not in format_names() or path.suffix == ".note":
            continue  # of the notes, test_interop_every_file.py says why they are refused
        options = {"trail_key": KEY, "put_object": Objects().put}
        first = list(import_transcripts(str(path), **options))
        assert first, path
        for imported in first:
            check(imported)
            assert imported.unknown == {}, path
            assert imported.unreadable_lines == [], path
            assert imported.format == found_format(path)
        assert list(import_transcripts(str(path), **options)) == first


def test_the_table_is_whole():
    assert len(set(format_names())) == len(FORMATS)
    for row in FORMATS:
        module = importer_of(row)
        assert module.is_mine(Head(b"x", "x")) is False
        assert module.is_mine(Head(b'{"a": 1}\n{"type": 3}\n', "x")) is False
        assert callable(module.read)
        assert row.agent in kinds_of_files()
        assert row.shape in ("lines", "document", "folder", "database")
    assert format_of("codex").grows
    with pytest.raises(KeyError):
        format_of("git")


def test_every_format_is_explained():
    text = (Path(__file__).parents[1] / "docs" / "reference" / "session-formats.md").read_text("utf-8")
    for row in FORMATS:
        assert f"| {row.agent} | `{row.name}` |" in text
        for place in row.places:
            assert f"{'' if place.in_project else '~/'}{'/'.join(place.folder[:2])}" in text
    rows = [line for line in text.splitlines() if line.startswith("| ") and "`" in line and "--format" not in line]
    assert len(rows) == len(FORMATS) + 1  # and git


def test_sessions_are_found_where_the_table_says(tmp_path):
    """Every place of every row, with a file that says where it was held as the format does."""
    project = tmp_path / "shop"
    project.mkdir()
    placed = []
    for row in FORMATS:
        for place in row.places:
            root = project if place.in_project else tmp_path / "home"
            *inner, _ = place.card[0].split("/")
            folder = root.joinpath(*place.folder, *["x"] * (place.depth - len(inner)), *inner)
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / place.pattern.replace("*", "a")
            held = hashlib.sha256(str(project).encode()).hexdigest() if place.held_in == "projectHash" else str(project)
            told = f"# Current Workspace Directory ({project}) Files" if place.told_as else held
            member = place.held_in.partition("|")[0] or "a"
            path.write_text(json.dumps({member: told, "Cwd": json.dumps(str(project))}))
            if place.beside:
                (folder / place.beside).write_text(path.read_text())
            if place.card[0]:
                card = Path(str(path).removesuffix(place.card[0]) + place.card[1])
                card.write_text(path.read_text())
            placed.append((row.name, str(path)))
    found = find_sessions(str(tmp_path / "home"), str(project))
    assert sorted((one.format, one.path) for one in found) == sorted(placed)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    of_all_folders = {row.name for row in FORMATS if any(not place.held_in for place in row.places)}
    assert {one.format for one in find_sessions(str(tmp_path / "home"), str(elsewhere))} <= of_all_folders
    assert {one.format for one in find_sessions(str(tmp_path / "home"), str(elsewhere))} <= of_all_folders


def test_folders_that_are_told_as_urls_are_paths_in_the_trail(tmp_path):
    url = "file:///home/ada/my%20shop"
    said = {"role": "user", "content": [{"type": "text", "text": "go"}]}
    thread = {"id": "T", "messages": [{**said, "messageId": 0}], "env": {"initial": {"trees": [{"uri": url}]}}}
    session = {"sessionId": "s", "workspaceDirectory": url, "history": [{"message": {"role": "user", "content": "go"}}]}
    for name, document in (("T-1.json", thread), ("one.json", session)):
        (tmp_path / name).write_text(json.dumps(document))
        (imported,) = import_transcripts(str(tmp_path / name), trail_key=bytes(32), put_object=lambda _: bytes(32))
        assert imported.cwd == "/home/ada/my shop"
