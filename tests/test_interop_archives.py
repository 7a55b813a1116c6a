"""Sessions that other tools kept: SpecStory's Markdown, git-ai's notes, agent-trajectories."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections import Counter

import pytest

from interop_samples_archives import NOTE, SPECSTORY, TRAJECTORY, as_note, as_rendering, as_trajectory
from interop_support import KEY, SHARED, Objects, check, named, plain, read, steps_of
from periplus.base.clock import format_ms
from periplus.base.errors import FormatError
from periplus.interop import import_transcripts
from periplus.interop.conversion.original_records import original_of, own_file
from periplus.project import Project
from periplus.project.trail_store.cards import is_later
from periplus.trail.format.reader import TrailReader
from periplus.trail.opcodes import opcode_name
from support import PEAK, WRITER

pytestmark = pytest.mark.quick


def real(name):
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"real transcripts are not beside the repository: no file {path}")
    return path


def refused(path):
    with pytest.raises(FormatError) as caught:
        list(import_transcripts(str(path), trail_key=KEY, put_object=Objects().put))
    assert str(path) in str(caught.value)
    return caught.value


# -- SpecStory


def rendered_counts(path):
    """Messages with text, thoughts, calls by name, and times, from the lines alone."""
    counts, tools, times = Counter(), Counter(), []
    text = path.read_text("utf-8")
    for part in re.split(r"(?m)^(?=_\*\*(?:User|Agent)[^\n]*\*\*_$)", text)[1:]:
        heading, _, body = part.partition("\n")
        is_person = heading.startswith("_**User")
        times += re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", heading)
        for name in re.findall(r'(?m)^<tool-use data-tool-type="[^"]*" data-tool-name="([^"]*)">', body):
            tools[name] += 1
        counts["thoughts"] += len(re.findall(r"(?m)^<think><details>", body))
        rest = re.sub(r"(?ms)^<tool-use.*?^</details></tool-use>$|^<think>.*?^</details></think>$|^---\n*\Z", "", body)
        if rest.strip() and not (is_person and "<local-command-" in rest):
            counts["interruptions" if "[Request interrupted" in rest else "prompts" if is_person else "says"] += 1
    return counts, tools, times


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("2026-02-10_14-21-48Z-ok-read-at-docs.md", {"prompts": 14, "says": 36, "tools": 44}),
        ("2026-02-20_23-42-22Z-implement-the-following-plan.md", {"prompts": 5, "says": 22, "tools": 34}),
        ("2026-07-27_15-48-50Z-we-added-an-antigravity.md", {"prompts": 2, "says": 9, "tools": 45}),
    ],
)
def test_a_real_rendering_gives_what_it_says(name, expected):
    path = real(f"specstory-md/{name}")
    imported = read(path)
    counts, tools, times = rendered_counts(path)
    assert imported.format == "specstory"
    assert (imported.agent, imported.original) == ("claude-code", "claude-code")
    assert imported.session_id == re.search(r"Claude Code Session (\S+)", path.read_text())[1]
    assert imported.counts["prompts"] == counts["prompts"]
    assert imported.counts["says"] == counts["says"]
    assert imported.counts["comments"] == counts["thoughts"]
    assert imported.counts["tools"] == sum(tools.values())
    assert expected.items() <= imported.counts.items()
    assert imported.unknown == {}
    names = [(opcode_name(step.code), step) for step in steps_of(imported)]
    ops = Counter(step.operands[1] if op == "TOOL_CALL" else op for op, step in names)
    assert ops["FILE_READ"] == tools["Read"]
    assert ops["SEARCH_CODE"] + ops["FILE_LIST"] >= tools["Grep"] + tools["Glob"]
    assert ops["Edit"] == tools["Edit"]  # their texts are not in the rendering
    first, last = (format_ms(at_ms)[:19].replace("T", " ") for at_ms in (imported.started_ms, imported.ended_ms))
    assert (first, last) == (min(times), max(times))


def test_a_rendering_becomes_the_steps_that_it_shows(tmp_path):
    imported = read(as_rendering(tmp_path, SPECSTORY))
    assert (imported.session_id, imported.original) == ("42a344c9-1ba3-453e-88d2-7aecf158d2af", "claude-code")
    assert (imported.model, imported.title) == ("claude-opus-5", "Please fix the parser. --- # Plan 1. read")
    assert plain(imported) == [
        ("PROMPT", "Please fix the parser.\n\n---\n\n# Plan\n\n1. read"),
        ("COMMENT", "It may be the lexer."),
        ("SAY", "I read it."),
        ("FILE_READ", "src/parser.py", None),
        ("TEST_RUN", "pytest -q", 3),
        ("COMMAND_RUN", "cat <<EOF\nx\nEOF", None),
        ("SEARCH_CODE", "def \\w+", "src"),
        ("TOOL_CALL", "", "Edit", '{"file_path":"/w/src/parser.py"}'),
        ("FILE_WRITE", "/w/src/new.py", "sha256:9e26bf36"),
        ("PLAN_UPDATE", ('[{"content":"read","status":"completed"},{"content":"fix","status":"in_progress"},'
                        '{"content":"test","status":"pending"}]')),
        ("ASK", "Which one?\nOptions:\n- **A** - first\n- **B**", None),
        ("AGENT_SPAWN", "agent", "Look at the lexer", None),
        ("LABEL", "sidechain"),
        ("PROMPT", "Look at the lexer"),
        ("SAY", "It is fine."),
        ("LABEL", "main"),
        ("FILE_EDIT", "a.py", "a", "b"),
        ("FILE_DELETE", "b.py"),
        ("TOOL_CALL", "", "oracle", '{"question":"why","times":"3"}'),
        ("COMMAND_RUN", "ls", "/w"),
        ("COMMAND_RUN", "ls b*", None),
        ("SAY", "All is fixed."),
    ]  # fmt: skip
    ended = {step.outcome: step.exit_code for step in named(imported, "TEST_RUN", "TOOL_CALL") if step.outcome != "ok"}
    assert ended == {"failed": None}
    assert [step.exit_code for step in named(imported, "TEST_RUN")] == [1]
    assert imported.unknown == {"role: Critic": 1}
    assert imported.skipped == {"text of an unknown role": 1, "user: written by the program": 1}


def test_an_element_without_its_end_does_not_take_the_session(tmp_path):
    path = as_rendering(tmp_path, SPECSTORY)
    text = path.read_text().replace("</details></tool-use>", "", 1).replace("</details></think>", "", 1)
    path.write_text(text)
    imported = read(path)
    assert imported.counts["prompts"] == 2
    assert imported.counts["tools"] == 12  # of 13: the call behind the open one is lost with it
    assert imported.counts["says"] == 2  # of 3: the first was in the open thought
    path.write_text(path.read_text().rpartition("</details></tool-use>")[0])
    cut = read(path)
    assert TrailReader(cut.trail).status == "partial"
    assert cut.skipped["rest of the message: it has no end"] == 1


def test_the_headings_of_other_versions(tmp_path):
    path = tmp_path / "s.md"
    path.write_text(
        "<!-- Generated by SpecStory -->\n\n<!-- Codex CLI Session 019a (2026-03-01 10:00:00+0100) -->\n\n"
        '### <span style="color:#2563eb">👤 User (2026-03-01 10:00:00+0100)</span>\n<!-- message-id: u1 -->\n\n'
        "<command-message>review</command-message>\n<command-name>/review</command-name>\n"
        "<command-args>12</command-args>\n\n---\n\n"
        "_**🤖 Agent (gpt-5)**_\n\n_**Important**_\n\nDone.\n\n_**Assistant**_\n\nReally.\n"
    )
    imported = read(path)
    assert plain(imported) == [("PROMPT", "/review 12"), ("SAY", "_**Important**_\n\nDone."), ("SAY", "Really.")]
    assert (imported.agent, imported.original, imported.model) == ("codex", "codex", "gpt-5")
    assert imported.started_ms == 1772355600000


# -- git-ai


def test_a_note_with_messages_is_a_session_for_each_prompt(tmp_path):
    path = as_note(tmp_path, NOTE)
    imported = read(path)
    assert (imported.session_id, imported.agent) == ("4ea70ef1-2c5c-40ef-aa41-022a6e9e541d", "claude-code")
    assert (imported.original, imported.model) == ("claude-code", "claude-opus-4-6")
    assert plain(imported) == [
        ("PROMPT", "Make it faster"),
        ("COMMENT", "Where is it slow?"),
        ("SAY", "I look."),
        ("COMMENT", "1. measure"),
        ("TEST_RUN", "pytest -q", None),
        ("FILE_EDIT", "/w/src/a.py", "a", "b"),
        ("TOOL_CALL", "srv", "ask", '{"q":[1,{"a":null}]}'),
        ("SAY", "It is faster."),
    ]
    assert {step.outcome for step in named(imported, "TEST_RUN", "FILE_EDIT")} == {"unknown"}
    assert imported.skipped == {"line of the commit": 4}
    two = json.loads(json.dumps(NOTE))
    prompts = two["document"]["prompts"]
    prompts["a" * 16] = {**prompts["4ba2ad79974ff636"], "agent_id": {"tool": "oracle", "id": "o1"}}
    prompts["b" * 16] = {**prompts["4ba2ad79974ff636"], "messages": []}
    found = list(import_transcripts(str(as_note(tmp_path, two)), trail_key=KEY, put_object=Objects().put))
    assert [(one.session_id[:4], one.agent, one.original) for one in found] == [
        ("4ea7", "claude-code", "claude-code"),
        ("o1", "oracle", ""),
    ]


@pytest.mark.parametrize(
    ("document", "wrong", "mend"),
    [
        ({"prompts": {}, "humans": {"h_1": {"author": "Ada"}}}, "lines that people typed", "another commit"),
        ({"prompts": {}}, "no lines of an agent", "another commit"),
        (
            {"sessions": {"s_1": {"agent_id": {"tool": "oracle", "id": "o"}}}},
            "oracle in session o wrote",
            "as the agent",
        ),
        (
            {"sessions": {f"s_{n}": {"agent_id": {"tool": "codex", "id": f"019{n}"}} for n in range(9)}},
            "codex in session 0190, codex in session 0191, codex in session 0192 and 6 more wrote",
            "import ~/.codex/sessions/*/*/*/rollout-*-0190.jsonl ~/",
        ),
        ({"sessions": {"s": {"agent_id": {"tool": "claude", "id": "; rm -rf /"}}}}, "claude", "projects/*/*.jsonl"),
    ],
)
def test_a_note_without_messages_names_its_sessions(tmp_path, document, wrong, mend):
    note = {"lines": {}, "document": {"schema_version": "authorship/3.0.0", **document}}
    error = refused(as_note(tmp_path, note))
    assert wrong in str(error)
    assert mend in error.mend


def test_a_note_with_long_attributions_is_known(tmp_path):
    path = as_note(tmp_path, NOTE)
    lines = "".join(f"src/{n}.py\n  4ba2ad79974ff636 1-10,20\n" for n in range(60_000))
    path.write_text(lines + path.read_text())
    assert path.stat().st_size > 2 << 20
    assert read(path).skipped == {"line of the commit": 60_000 * 11 + 4}


def test_a_note_that_attributes_more_lines_than_there_can_be_is_imported(tmp_path):
    path = as_note(tmp_path, NOTE)
    lines = f"a.py\n  4ba2ad79974ff636 {','.join(['1-99999999999999999'] * 400)}\n"
    path.write_text(lines + path.read_text())
    assert read(path).skipped == {"line of the commit": 1_000_000_000}


# -- agent-trajectories


def test_a_real_trajectory(tmp_path):
    path = real("agent-trajectories/traj_cuuwpd2q5rr4.json")
    document = json.loads(path.read_text())
    imported = read(path)
    assert plain(imported) == [
        ("PROMPT", document["task"]["title"]),
        ("LABEL", "Initial work (Multi-agent swarm)"),
        ("COMMENT", document["retrospective"]["approach"]),
        ("SAY", document["retrospective"]["summary"]),
    ]
    reader = TrailReader(imported.trail)
    assert reader.status == "success"
    assert reader.header.base.value.hex() == document["_trace"]["startRef"]
    assert (imported.agent, imported.session_id, imported.cwd) == (
        "Multi-agent swarm",
        document["id"],
        document["projectId"],
    )
    assert imported.unknown == {}


def test_a_trajectory_becomes_the_steps_that_it_tells(tmp_path):
    imported = read(as_trajectory(tmp_path, TRAJECTORY))
    assert plain(imported) == [
        ("PROMPT", "Add a cache\n\nIt is slow."),
        ("LABEL", "Look (lead agent)"),
        ("PROMPT", "Begin."),
        ("COMMENT", "Where?"),
        ("TEST_RUN", "pytest -q", 4),
        ("TOOL_CALL", "", "tool", '{"content":"read a.py"}'),
        ("COMMENT", "LRU: bounded\n\nIt is bounded."),
        ("COMMENT", "It is called twice."),
        ("COMMENT", "later"),
        ("COMMENT", "timeout"),
        ("SAY", "Please review."),
        ("COMMENT", "Fine."),
        ("LABEL", "Write (writer)"),
        ("GIT_COMMIT", "", "", "git-sha1:b6b6b6b6"),
        ("COMMENT", "Measure first"),
        ("COMMENT", '{"question":"Which?","chosen":"LRU","reasoning":"bounded","alternatives":[]}'),
        ("COMMENT", "keys"),
        ("COMMENT", "measure"),
        ("COMMENT", "more"),
        ("SAY", "There is a cache now."),
    ]
    assert imported.files == ("src/cache.py",)
    assert [step.outcome for step in named(imported, "TOOL_CALL")] == ["failed"]
    assert imported.unknown == {"event: hologram": 1, "chapter: novelty": 1, "member: novelty": 1}
    assert imported.ended_ms - imported.started_ms == 9000


@pytest.mark.parametrize(
    ("status", "ended"), [("active", "partial"), ("abandoned", "cancelled"), ("completed", "success")]
)
def test_how_a_trajectory_ended(tmp_path, status, ended):
    imported = read(as_trajectory(tmp_path, {**TRAJECTORY, "status": status}))
    assert TrailReader(imported.trail).status == ended


# -- a copy and the agent's own record


def test_a_copy_gives_way_to_the_agents_own_record(tmp_path):
    session = SPECSTORY["facts"]["id"]
    own = tmp_path / "own.jsonl"
    own.write_text("".join(json.dumps({**record, "sessionId": session, "timestamp": "2026-03-01T09:00:00.000Z"}) + "\n" for record in (
        {"type": "user", "uuid": "u", "message": {"role": "user", "content": "Please fix the parser."}},
        {"type": "assistant", "uuid": "v", "parentUuid": "u", "message": {"role": "assistant", "content": "Done."}},
    )))  # fmt: skip
    copy = as_rendering(tmp_path, SPECSTORY)
    for first, second in ((own, copy), (copy, own)):
        store = tmp_path / f"store-{first.stem}"
        store.mkdir()
        Project.init(str(store))
        with Project.open(str(store), WRITER) as project:
            (one,) = project.import_transcripts(str(first))
            (two,) = project.import_transcripts(str(second))
            assert one.entity.item_id == two.entity.item_id
            assert two.changed == (second == own)
            assert two.entity.value["format"] == "claude-code"
            assert "original" not in two.entity.value
            (again,) = project.import_transcripts(str(copy))
            assert not again.changed
            assert again.entity.value["format"] == "claude-code"


def test_a_copy_alone_says_of_what_it_is_one(tmp_path):
    Project.init(str(tmp_path))
    with Project.open(str(tmp_path), WRITER) as project:
        (one,) = project.import_transcripts(str(as_rendering(tmp_path, SPECSTORY)))
        assert (one.entity.value["format"], one.entity.value["original"]) == ("specstory", "claude-code")
        (two,) = project.import_transcripts(str(as_rendering(tmp_path, SPECSTORY)))
        assert not two.changed


@pytest.mark.parametrize(
    ("agent", "session", "file"),
    [
        ("Claude Code", "a-b", "~/.claude/projects/*/a-b.jsonl"),
        ("claude", "$(id)", "~/.claude/projects/*/*.jsonl"),
        ("Codex CLI", "019", "~/.codex/sessions/*/*/*/rollout-*-019.jsonl"),
        ("Gemini CLI", "x", "~/.gemini/tmp/*/chats/session-*.json"),
        ("oracle", "x", ""),
        ("", "", ""),
    ],
)
def test_the_place_of_an_agents_own_record(agent, session, file):
    assert own_file(agent, session) == file
    assert (original_of(agent) is None) == (file == "")


def test_every_own_record_is_of_a_format():
    from periplus.interop.conversion.original_records import _ORIGINALS
    from periplus.interop.formats import format_names, format_of

    assert {one.format for one in _ORIGINALS.values()} <= {*format_names()}
    for one in _ORIGINALS.values():  # in a place where sessions of the format are searched
        folders = ["/".join(("~", *place.folder)) for place in format_of(one.format).places]
        start = one.file.partition("*")[0].partition("{")[0]
        assert any(start.startswith(folder.partition("*")[0]) or folder.startswith(start) for folder in folders), one


@pytest.mark.parametrize(
    ("card", "held", "is_new"),
    [
        ({"original": "claude-code"}, {}, False),
        ({"original": "claude-code"}, {"source_sha256": ""}, False),  # a trail from hooks
        ({"source_sha256": ""}, {"original": "claude-code"}, True),
        ({}, {"original": "claude-code", "ended": "2026-09-01T00:00:00.000Z"}, True),
        ({"original": "claude-code"}, {"original": "claude-code", "counts": {"steps": 4}}, False),
        ({"original": "claude-code", "counts": {"steps": 4}}, {"original": "claude-code"}, True),
        ({"keeper": "entire"}, {}, False),
        ({"keeper": "entire", "counts": {"steps": 4}}, {}, True),
        ({}, {"keeper": "entire"}, True),
        ({"keeper": "entire"}, {"keeper": "entire"}, True),
    ],
)
def test_the_order_of_copies_and_own_records(card, held, is_new):
    def whole(digest, facts):
        same = {"source_sha256": digest, "ended": "2026-03-01T10:00:00.000Z", "counts": {"steps": 3}}
        return {"digest": digest, **same, **facts}

    assert is_later(whole("a", card), whole("b", held)) is is_new


# -- hostile files


WRITERS = {"specstory": (as_rendering, SPECSTORY), "git-ai": (as_note, NOTE), "trajectory": (as_trajectory, TRAJECTORY)}


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITERS)
def test_any_bytes_in_a_kept_session(tmp_path, name):
    write, data = WRITERS[name]
    path = write(tmp_path, data)
    whole = path.read_bytes()
    dice = random.Random(7)
    pieces = [b"\0", b"\xff", b"{", b"]", b'"', b"```\n", b"\n", b"\n---\n", b"</details></tool-use>\n", b"\n\n_**User**_\n\n",
              b"<think><details><summary>Thought Process</summary>\n", b"9" * 30, b"\\ud83d", "\u2028é".encode()]  # fmt: skip
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(dice.randrange(1, 6)):
            at = dice.randrange(len(data))
            data[at : at + dice.choice([0, 1, 30, 300])] = dice.choice(pieces)
        path.write_bytes(data)
        try:
            for imported in import_transcripts(str(path), trail_key=KEY, put_object=Objects().put):
                check(imported)
        except FormatError as error:
            assert str(path) in str(error)  # noqa: PT017 - either is right


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "head", "repeated", "tail"),
    [
        ("calls.md", "", "_**Agent (m 2026-03-01 10:00:00Z)**_\n\nwords of it\n\n" + '<tool-use data-tool-type="read" '
         'data-tool-name="Read"><details>\n `a`\n\n```text\n' + "x" * 900 + "\n```\n</details></tool-use>\n\n", ""),
        ("call.md", '_**Agent**_\n\n<tool-use data-tool-type="a" data-tool-name="Read"><details>\n', "line `a` of it\n", ""),
        ("fences.md", '_**Agent**_\n\n<tool-use data-tool-type="a" data-tool-name="Bash"><details>\n', "```\n````x\n", ""),
        ("text.md", "_**User**_\n\n", "<command-args> <command-name>\n", ""),
        ("commands.md", "_**User**_\n\n<command-name>", "<command-args> \n", ""),
    ],
)  # fmt: skip
def test_eight_megabytes_take_bounded_memory_and_linear_time(tmp_path, name, head, repeated, tail):
    path = tmp_path / name
    with path.open("w") as file:
        file.write(f"<!-- Generated by SpecStory -->\n\n{head}")
        for _ in range((8 << 20) // len(repeated)):
            file.write(repeated)
        file.write(tail)
    program = PEAK + (
        "import hashlib, sys\nfrom periplus.interop import import_transcripts\n"
        "put = lambda data: hashlib.sha256(data).digest()\n"
        "found = list(import_transcripts(sys.argv[1], trail_key=bytes(32), put_object=put))\n"
        "print(len(found), peak_bytes())\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    count, peak = map(int, done.stdout.split())
    assert count == 1
    assert peak < 150_000_000
