"""Trails in the formats of others: what they say, that they say the same twice, and that nothing hostile gets out of its place."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
import subprocess
import time
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from cli_support import Shell, claude_session
from periplus.base.errors import FormatError, NotFoundError
from periplus.interop.exports.agent_trace import agent_trace, last_commit
from periplus.interop.exports.in_toto import PAYLOAD_TYPE, envelope, pae, statement, verify_envelope
from periplus.interop.exports.markdown import markdown_lines
from periplus.interop.exports.otel import otel_lines
from periplus.interop.exports.trail_source import ExportSource
from periplus.journal.storage.keys import public_of_private, verify_signature
from periplus.trail import Digest, Header, TrailBuilder, TrailReader, concat, listing, open_parts, verify, withhold
from support import SHARED
from trail_samples import LONG_TEXT, SECRET, START_MS, golden_trail, sha

GOLDEN = Path(__file__).parent / "golden" / "exports"
KEY = bytes(range(32))
PUBLIC = public_of_private(KEY)


def none(_):
    raise NotFoundError("not at hand")


def source_of(data, objects=None, name="run.pplt"):
    held = {hashlib.sha256(one).digest(): one for one in objects or ()}

    def read(digest):
        if digest not in held:
            raise NotFoundError("not at hand")
        return held[digest]

    readers = open_parts(data)
    return ExportSource(name, data, readers, verify(data).digest, read)


def report(source, data):
    steps = (line for reader in source.readers for line in listing(reader, "compact", width=160))
    return "\n".join(markdown_lines(source, verify(data), steps)) + "\n"


def sign(message):
    return Ed25519PrivateKey.from_private_bytes(KEY).sign(message)


def built(*steps, title="A run", base=None):
    """A trail of ``(op, *operands)``, with the contents that its FILE_WRITE steps name."""
    objects = []
    builder = TrailBuilder(SECRET, lambda data: objects.append(data) or hashlib.sha256(data).digest())
    for number, (op, *operands) in enumerate(steps):
        outcome = operands.pop() if operands and operands[-1] in ("failed", "denied", "unknown") else "ok"
        if op == "FILE_WRITE":
            objects.append(operands[1].encode())
            operands[1] = sha(operands[1])
        builder.add(op, *operands, outcome=outcome, at_ms=START_MS + number * 1000)
    header = Header(
        "claude-code", "run-1", "claude-code", "2.1.0", base, "claude-opus-4-5", title=title, started_ms=START_MS
    )
    return builder.finish(header), objects


FORMATS = {
    "report.md": report,
    "spans.json": lambda source, _: "\n".join(otel_lines(source, with_content=True)) + "\n",
    "agent-trace.json": lambda source, _: agent_trace(source, lambda _: None, last_commit(source)).decode(),
    "statement.json": lambda source, _: statement(source).decode() + "\n",
    "envelope.json": lambda source, _: envelope(statement(source), PUBLIC, sign).decode(),
}


@pytest.mark.parametrize("name", FORMATS)
def test_each_export_is_the_golden_file(name):
    data = golden_trail()
    text = FORMATS[name](source_of(data, [LONG_TEXT]), data)
    path = GOLDEN / name
    if os.environ.get("PERIPLUS_NEW_GOLDEN") and not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


# -- Markdown ----------------------------------------------------------------------------------------------------------

NASTY = (
    "![x](https://evil.example/pixel.png)", "[click](javascript:alert(1))", "<script>alert(1)</script>", "@octocat #1 GH-2",
    "</details>", "```\n# heading\n```", "````\n~~~\n", "| a | b |", "`` ` ``", "\\`", "a\nb", "\x1b[31m\u202e", "&lt;b&gt;",
    "https://evil.example/", "<!--", "]]>", "`", "\t- x", "1. x", "> x", "---", "|", "\\|", "`|`",
)  # fmt: skip
OURS = {"<details>", "</details>", "<summary>", "</summary>"}


def rendered(text):
    return MarkdownIt("gfm-like", {"html": True, "linkify": False}).parse(text)


def check_tame(text):
    """No token of the report but ours: no link, no image, no HTML that a stranger wrote, and as many headings as we write."""
    for token in rendered(text):
        for one in (token, *(token.children or ())):
            assert one.type not in ("link_open", "image", "html_inline"), one
            if one.type == "html_block":
                for line in one.content.strip().splitlines():
                    assert line in OURS or (line.startswith("<summary>") and line.endswith("</summary>")), line
                    assert line.count("<") == line.count(">") <= 4, line


def hostile(text):
    return built(
        ("PROMPT", text), ("FILE_READ", text, None), ("FILE_WRITE", text, text), ("FILE_EDIT", text, text, text + "x"),
        ("COMMAND_RUN", text, None, "failed"), ("TOOL_CALL", text, text, text, "denied"), ("GIT_COMMIT", text, text, None),
        ("TEST_RUN", text, None), ("SAY", text), ("PLAN_UPDATE", text), ("FILE_MOVE", text, text), title=text,
    )  # fmt: skip


@pytest.mark.parametrize("text", NASTY)
def test_what_strangers_wrote_stays_text(text):
    data, objects = hostile(text)
    check_tame(report(source_of(data, objects, name=text), data))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from((*NASTY, "x", " ", "\n", "*", "_")), min_size=1, max_size=6).map("".join))
def test_nothing_gets_out_of_its_place(text):
    data, objects = hostile(text)
    found = report(source_of(data, objects, name=text), data)
    check_tame(found)
    headings = [token.content for token in rendered(found) if token.type == "inline"]
    assert sum(token.type == "heading_open" for token in rendered(found)) == 8, headings


def test_the_report_tells_what_a_reviewer_asks():
    data, objects = built(
        ("PROMPT", "Hash passwords"), ("FILE_READ", "/src/app/auth.py", None), ("FILE_WRITE", "/src/app/new.py", "a\nb\n"),
        ("FILE_EDIT", "/src/app/new.py", "b", "c\nd"), ("COMMAND_RUN", "make", "/src/app", "failed"), ("TEST_RUN", "tests", 3),
        ("MODEL_CALL", "claude-opus-4-5", 100, 900, 50, 1_230_000), ("GIT_COMMIT", "app", "Use scrypt\n\nbody", None),
        ("SAY", "Done."), ("PROMPT", "Thanks"),
    )  # fmt: skip
    text = report(source_of(data, objects), data)
    for part in (
        "# What the agent did: `A run`",
        "| changed | 1 file, +4 −1 lines |",
        "| tests | 1 ok; the last one: **ok** |",
        "| tokens | 1,000 in (900 of them cached), 50 out, 1.23 US$ |",
        "| worked in | `/src/app` |",
        "### 1. `Hash passwords`",
        "looked at files 1 time, changed `new.py`, ran 1 command, ran tests 1× (1 ok), committed `Use scrypt`",
        "### 2. `Thanks`",
        "-b\n+c\n+d",
        "| 4 | COMMAND_RUN `make` | failed |",
        "- It is intact:",
        "- Signature: not signed.",
        "periplus trail verify --effects run.pplt",
    ):
        assert part in text, part


def test_a_report_shows_what_was_asked_for_where_nobody_knows_how_it_ended():
    """Some agents keep no results: a report that left their edits out said that nothing had been changed."""
    data, objects = built(
        ("PROMPT", "go"), ("FILE_WRITE", "a.py", "one\ntwo\n", "unknown"), ("FILE_EDIT", "b.py", "x", "y", "denied")
    )
    text = report(source_of(data, objects), data)
    assert "| changed | 1 file, +2 −0 lines |" in text
    assert "Step 1: `written whole; its outcome is unknown`" in text
    assert "+two" in text
    assert "changed `a.py`, 1 step did not succeed" in text


def test_a_report_says_where_a_session_was_taken_back():
    data, objects = built(
        ("PROMPT", "first"), ("SAY", "one"), ("PROMPT", "wrong way"), ("LABEL", "branch from step 1"), ("PROMPT", "the other way"), ("SAY", "two")
    )  # fmt: skip
    text = report(source_of(data, objects), data)
    assert "### 3. `the other way`\n\nStep 4 · `branch from step 1` · 1 s, no actions." in text
    assert text.count("branch from step 1") == 2  # there, and in the list of the steps


def test_a_report_says_of_what_it_has_not_seen_that_it_has_not():
    data, objects = built(("FILE_WRITE", "a.py", "one\n"), ("FILE_WRITE", "b.py", "two\n"))
    assert "| changed | 2 files, +1 −0 lines; the content of 1 write is not available |" in report(
        source_of(data, objects[:1]), data
    )
    header = Header("git", "0" * 40, "git", "unknown", source=sha("git"), title="history of shop", started_ms=START_MS)
    builder = TrailBuilder(SECRET, lambda data: hashlib.sha256(data).digest())
    builder.add("FILE_WRITE", "a.py", Digest("git-sha1", bytes(20)), at_ms=START_MS)
    data = builder.finish(header)
    text = report(source_of(data), data)
    assert "+0 −0 lines; the content of 1 write is not available |" in text
    assert "Imported from git history" in text
    assert "session file" not in text


def test_an_edit_of_every_occurrence_is_one_of_all_of_them():
    builder = TrailBuilder(SECRET, lambda data: hashlib.sha256(data).digest())
    contents = ["a\na\n", "b\nb\n"]
    builder.add("FILE_WRITE", "x", sha(contents[0]), at_ms=START_MS)
    builder.add("FILE_EDIT", "x", "a", "b", at_ms=START_MS, note="every occurrence")
    builder.add("FILE_WRITE", "x", sha(contents[1]), at_ms=START_MS)
    data = builder.finish(Header("claude-code", "run-1", started_ms=START_MS))
    text = report(source_of(data, [one.encode() for one in contents]), data)
    assert text.split("Step 2")[1].split("</details>")[0].count("+b") == 0  # it was written as it stood


def test_a_report_of_a_damaged_trail_says_so_first():
    data = bytearray(golden_trail())
    reader = TrailReader(bytes(data))
    start, _ = reader.span(6)
    data[start + 1] ^= 1
    data[-32:] = hashlib.sha256(data[:-32]).digest()
    bad = bytes(data)
    source = ExportSource("bad", bad, (TrailReader(bad),), TrailReader(bad).digest, none)
    assert "**It does not verify**" in "\n".join(markdown_lines(source, verify(bad), ()))


def test_parts_and_redacted_trails_are_exported():
    whole, objects = built(("PROMPT", "the secret word"), ("FILE_WRITE", "a", "x\n"))
    redacted = withhold(whole, lambda _, value: value == "the secret word")
    both = concat([redacted, whole])
    source = source_of(both, objects)
    text = report(source, both)
    assert "[withheld]" in text
    assert "Some texts are withheld" in text
    for name, make in FORMATS.items():
        only = make(source_of(redacted, objects), redacted)
        assert "the secret word" not in only, name
    spans = json.loads("\n".join(otel_lines(source)))["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert sum(span["name"].startswith("invoke_agent") for span in spans) == 2


# -- OpenTelemetry -----------------------------------------------------------------------------------------------------


def spans_of(data, **how):
    document = json.loads("\n".join(otel_lines(source_of(data), **how)))
    return document["resourceSpans"][0]["scopeSpans"][0]["spans"]


def test_spans_are_a_tree_with_times_and_states():
    spans = spans_of(golden_trail())
    ids = [span["spanId"] for span in spans]
    assert len(set(ids)) == len(ids)
    roots = [span for span in spans if "parentSpanId" not in span]
    assert [span["name"] for span in roots] == ["invoke_agent tester"] or len(roots) == 1
    for span in spans:
        assert (len(span["traceId"]), len(span["spanId"])) == (32, 16)
        assert span.get("parentSpanId", roots[0]["spanId"]) == roots[0]["spanId"]
        assert 0 < int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
    failed = [span for span in spans if span["status"].get("code") == 2]
    assert {span["status"]["message"] for span in failed} >= {"1 failed", "not allowed"}
    chat = next(span for span in spans if span["name"].startswith("chat "))
    values = {one["key"]: one["value"] for one in chat["attributes"]}
    assert values["gen_ai.usage.input_tokens"] == {"intValue": "2000"}
    assert values["gen_ai.usage.output_tokens"] == {"intValue": "96"}


def test_spans_hold_no_content_unless_asked():
    data, _ = built(("PROMPT", "hidden words"), ("COMMAND_RUN", "hidden words", None), ("SAY", "hidden words"))
    assert "hidden" not in json.dumps(spans_of(data))
    assert json.dumps(spans_of(data, with_content=True)).count("hidden words") == 3


# -- Agent Trace -------------------------------------------------------------------------------------------------------


def ranges_of(record, path):
    file = next(file for file in record["files"] if file["path"] == path)
    return [(one["start_line"], one["end_line"]) for one in file["conversations"][0]["ranges"]]


def trace(data, objects, files, revision="a" * 40):
    return json.loads(agent_trace(source_of(data, objects), files.get, revision))


def test_lines_are_followed_from_step_to_step():
    data, objects = built(
        ("FILE_WRITE", "a.py", "one\ntwo\nthree\n"), ("FILE_EDIT", "a.py", "two\n", "two\nand\nmore\n"), ("FILE_MOVE", "a.py", "b.py"),
    )  # fmt: skip
    final = b"# by a person\none\ntwo\nand\nmore\nthree\n"
    record = trace(data, objects, {"b.py": final})
    assert ranges_of(record, "b.py") == [(2, 6)]
    file = record["files"][0]["conversations"][0]
    assert file["contributor"] == {"type": "ai", "model_id": "anthropic/claude-opus-4-5"}
    text = "one\ntwo\nand\nmore\nthree"
    assert file["ranges"][0]["content_hash"] == f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    assert record["vcs"] == {"type": "git", "revision": "a" * 40}


def test_lines_of_steps_that_may_not_have_taken_effect_are_those_that_the_file_has():
    """Some agents keep no results; what the file holds at the revision says whether they wrote it."""
    data, objects = built(
        ("FILE_WRITE", "a.py", "one\ntwo\n", "unknown"), ("FILE_EDIT", "b.py", "x", "fresh = 1", "unknown"), ("FILE_WRITE", "c.py", "gone\n", "unknown"),
        ("FILE_WRITE", "d.py", "denied\n", "denied"),
    )  # fmt: skip
    record = trace(data, objects, {"a.py": b"one\nours\ntwo\n", "b.py": b"head\nfresh = 1\n", "d.py": b"denied\n"})
    assert [file["path"] for file in record["files"]] == ["a.py", "b.py"]
    assert ranges_of(record, "a.py") == [(1, 1), (3, 3)]
    assert ranges_of(record, "b.py") == [(2, 2)]
    assert record["metadata"]["periplus"]["edits_not_placed"] == 1


def test_edits_of_unknown_files_are_looked_up_and_not_guessed():
    data, objects = built(
        ("FILE_EDIT", "x.py", "old", "fresh = 1\nnew = 2"), ("FILE_EDIT", "x.py", "old", "twice"), ("FILE_EDIT", "gone.py", "a", "b"),
        ("FILE_EDIT", "failed.py", "a", "b", "failed"),
    )  # fmt: skip
    record = trace(data, objects, {"x.py": b"head\nfresh = 1\nnew = 2\ntwice\ntwice\n"})
    assert ranges_of(record, "x.py") == [(2, 3)]
    assert [file["path"] for file in record["files"]] == ["x.py"]
    assert record["metadata"]["periplus"]["edits_not_placed"] == 2


@pytest.mark.parametrize("seed", range(8))
def test_lines_of_random_edits_are_those_of_a_plain_model(seed):
    """Every line is unlike any other, so that whose it is can be told from its text alone."""
    chance = random.Random(seed)
    lines = [f"<start {number}>" for number in range(8)]
    steps = [("FILE_WRITE", "f", "\n".join(lines))]
    for round_number in range(12):
        at = chance.randrange(len(lines))
        new = [f"<{round_number} {number}>" for number in range(chance.randrange(1, 4))]
        steps.append(("FILE_EDIT", "f", lines[at], "\n".join(new)))
        lines[at : at + 1] = new
    final = list(lines)
    for number in range(5):
        final.insert(chance.randrange(len(final) + 1), f"by hand {number}")
    data, objects = built(*steps)
    record = trace(data, objects, {"f": "\n".join(final).encode()})
    claimed = {number for begin, end in ranges_of(record, "f") for number in range(begin, end + 1)}
    assert claimed == {number for number, line in enumerate(final, 1) if not line.startswith("by hand")}


def test_the_record_has_the_fields_of_the_published_examples():
    folder = SHARED / "transcripts" / "agent-trace"
    if not folder.is_dir():
        pytest.skip(f"{folder} is absent")
    data, objects = built(("FILE_WRITE", "a.py", "one\n"))
    record = trace(data, objects, {})
    example = json.loads((folder / "rfc-0.1.0-example-1.json").read_text())
    assert record.keys() <= example.keys()
    assert record["files"][0].keys() <= example["files"][0].keys()
    ours, theirs = (one["files"][0]["conversations"][0] for one in (record, example))
    assert ours.keys() <= theirs.keys()
    assert ours["ranges"][0].keys() <= theirs["ranges"][0].keys()
    assert record["version"] == example["version"]


# -- in-toto -----------------------------------------------------------------------------------------------------------


def test_the_encoding_that_is_signed():
    assert pae("http://example.com/HelloWorld", b"hello world") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )


def test_subjects_are_what_the_run_made():
    commit = Digest("git-sha1", bytes(20))
    data, _ = built(
        ("FILE_WRITE", "a", "x"), ("FILE_WRITE", "b", "y"), ("FILE_EDIT", "b", "y", "z"), ("FILE_MOVE", "a", "c"),
        ("GIT_COMMIT", "repo", "m", commit), ("CHECKPOINT", Digest("git-sha1", bytes([1] * 20))), base=commit,
    )  # fmt: skip
    found = json.loads(statement(source_of(data)))
    assert {one["name"]: one["digest"] for one in found["subject"]} == {
        "run.pplt": {"sha256": hashlib.sha256(data).hexdigest()},
        "c": {"sha256": hashlib.sha256(b"x").hexdigest()},
        f"commit {'00' * 20}": {"gitCommit": "00" * 20},
        "checkpoint": {"gitTree": "01" * 20},
    }
    assert found["predicate"]["trail"]["digest"] == {"sha256": TrailReader(data).digest.hex()}
    assert found["predicate"]["base"] == {"digest": {"gitCommit": "00" * 20}}


def test_every_changed_byte_of_an_envelope_is_found():
    data = envelope(statement(source_of(built(("NOP",))[0])), PUBLIC, sign)
    assert verify_envelope(data, (PUBLIC,), verify_signature).keys == (PUBLIC,)
    assert verify_envelope(data, (bytes(32),), verify_signature).keys == ()
    whole = json.loads(data)
    key_id = data.index(whole["signatures"][0]["keyid"].encode())  # a hint by its definition, covered by nothing
    for at in range(len(data) - 1):
        changed = data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]
        try:
            found = verify_envelope(changed, (PUBLIC,), verify_signature)
        except FormatError:
            continue
        assert (
            not found.keys
            or key_id - 9 <= at < key_id + 64
            or found.statement == json.loads(base64.b64decode(whole["payload"]))
        ), at


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.one_of(st.binary(max_size=200), st.recursive(st.none() | st.text(max_size=5), lambda s: st.lists(s) | st.dictionaries(
    st.sampled_from(["payload", "payloadType", "signatures", "sig"]), s)).map(lambda value: json.dumps(value).encode())))  # fmt: skip
def test_hostile_envelopes_give_the_one_error(data):
    with pytest.raises(FormatError):
        verify_envelope(data, (PUBLIC,), verify_signature)


# -- the command line --------------------------------------------------------------------------------------------------


@pytest.fixture
def sh(tmp_path):
    shell = Shell(tmp_path / "project", tmp_path / "home")
    shell.folder.mkdir()
    shell.home.mkdir()
    return shell


def test_export_on_the_command_line(sh):
    sh("init")
    data, _ = built(("PROMPT", "hello"), ("FILE_WRITE", "a.txt", "x\n"))
    (sh.folder / "run.pplt").write_bytes(data)
    assert sh("trail", "export", "run.pplt").lines[0] == "# What the agent did: `A run`"
    done = sh.json("trail", "export", "run.pplt", "--format", "in-toto", "--out", "statement.json")
    assert done.signed
    found = sh.json("verify", "statement.json")
    assert found.holds
    assert [one.name for one in found.subjects] == ["run.pplt", "a.txt"]
    assert "holds" in sh("verify", "statement.json").out
    key = found.signer.split()[1].rstrip(",")
    outside = Shell(sh.folder.parent / "elsewhere", sh.home)
    outside.folder.mkdir()
    statement_path = sh.folder / "statement.json"
    assert "holds" in outside("verify", statement_path, "--key", key).out
    assert "there is no key" in outside("verify", statement_path, code=3).out
    assert "not signed by the key given" in outside("verify", statement_path, "--key", "00" * 32, code=3).out
    outside.fails("trail", "export", sh.folder / "run.pplt", "--format", "in-toto", code=2, wrong="no store here")
    unsigned = outside("trail", "export", sh.folder / "run.pplt", "--format", "in-toto", "--unsigned")
    assert json.loads(unsigned.out)["signatures"] == []
    assert json.loads(unsigned.out)["payloadType"] == PAYLOAD_TYPE


@pytest.mark.parametrize("words", [(), ("--format", "jsonl"), ("--format", "otel", "--content")])
def test_no_export_moves_the_terminal(sh, words):
    """A JSON document may hold all but the lowest control characters as they are: those above them begin sequences, too."""
    path = "cog\x1b[31m\x9b31m\u202e.py"
    data, _ = built(("PROMPT", f"red \x9b31m \u202e {path}"), ("FILE_WRITE", path, "x\n"), title="\x9b31m")
    sh("init")
    (sh.folder / "run.pplt").write_bytes(data)
    out = sh("trail", "export", "run.pplt", *words).out
    assert all(one.isprintable() for one in out.splitlines())
    assert "31m" in out


def test_agent_trace_reads_the_files_of_the_commit(sh):
    def git(*words):
        settings = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        return subprocess.run(
            ["git", *settings, *words], cwd=sh.folder, check=True, capture_output=True, text=True
        ).stdout

    git("init", "-q")
    (sh.folder / "a.py").write_text("# ours\nnew line\n")
    git("add", "a.py")
    git("commit", "-qm", "first")
    commit = git("rev-parse", "HEAD").strip()
    (sh.folder / "a.py").write_text("something else by now\n")
    base = Digest("git-sha1", bytes.fromhex(commit))
    data, _ = built(
        ("FILE_EDIT", "a.py", "old line", "new line"), ("FILE_EDIT", "../../etc/passwd", "a", "root"), base=base
    )
    (sh.folder / "run.pplt").write_bytes(data)
    for words in ((), ("--revision", "HEAD")):
        record = json.loads(sh("trail", "export", "run.pplt", "--format", "agent-trace", *words).out)
        assert record["vcs"]["revision"] == commit
        assert [file["path"] for file in record["files"]] == ["a.py"]
        assert ranges_of(record, "a.py") == [(2, 2)]
    sh.fails("trail", "export", "run.pplt", "--format", "agent-trace", "--revision=-x", code=1, wrong="no commit")


@pytest.mark.parametrize(
    ("words", "code", "wrong"),
    [
        (("missing",), 1, "missing"),
        (("run.pplt", "--content"), 2, "--content is for --format otel"),
        (("run.pplt", "--format", "otel", "--unsigned"), 2, "--unsigned is for --format in-toto"),
        (("run.pplt", "--out", "no/such/folder/x"), 2, "there is no folder"),
        (("text", ), 2, "not a trail"),
        (("run.pplt", "--format", "pdf"), 2, "invalid choice"),
    ],
)  # fmt: skip
def test_an_export_of_what_is_wrong_is_refused_and_writes_nothing(sh, words, code, wrong):
    sh("init")
    (sh.folder / "run.pplt").write_bytes(built(("NOP",))[0])
    (sh.folder / "text").write_text("hello")
    before = sorted(os.listdir(sh.folder))
    sh.fails("trail", "export", *words, code=code, wrong=wrong)
    assert sorted(os.listdir(sh.folder)) == before


def test_real_sessions_are_exported_in_every_format(sh):
    folder = SHARED / "transcripts"
    if not folder.is_dir():
        pytest.skip(f"{folder} is absent")
    sh("init")
    paths = [
        *sorted(folder.glob("claude-code-jsonl/*/full.jsonl"))[:2],
        *sorted(folder.glob("codex-rollout/*.jsonl"))[:1],
    ]
    found = sh.json("trail", "import", *paths)
    for trail in found.trails:
        check_tame(sh("trail", "export", trail.id).out)
        spans = json.loads(sh("trail", "export", trail.id, "--format", "otel", "--content").out)
        assert spans["resourceSpans"]
        assert json.loads(sh("trail", "export", trail.id, "--format", "agent-trace").out)["version"] == "0.1.0"
        assert sh("trail", "export", trail.id, "--format", "jsonl").lines[-1].startswith('{"kind":"end"')


def test_a_report_is_no_json_document(sh):
    sh("init")
    trail = sh.json("trail", "import", claude_session(sh.folder / "session.jsonl")).trails[0].id
    done = sh("trail", "export", trail, "--json", code=2)
    assert json.loads(done.out)["schema"] == "periplus.error/1"
    assert "--out" in done.err
    assert sh.json("trail", "export", trail, "--out", "report.md").format == "markdown"
    assert json.loads(sh("trail", "export", trail, "--json", "--format", "agent-trace").out)["version"]


def test_edits_that_are_slow_to_compare_are_reported_all_the_same():
    """The library's own comparison takes minutes for one of these."""
    old = "\n".join(f"    value_{number} = compute(alpha_{number}, beta)" for number in range(400))
    shuffled = ["abcdefghij"[number * number % 97 % 10] for number in range(20_000)]
    objects = []
    builder = TrailBuilder(SECRET, lambda data: objects.append(data) or hashlib.sha256(data).digest())
    for number in range(3):
        builder.add("FILE_EDIT", f"src/{number}.py", old, old.replace("alpha", "gamma"), outcome="ok")
    builder.add("FILE_EDIT", "src/a.txt", "\n".join(shuffled), "\n".join(reversed(shuffled)), outcome="ok")
    data = builder.finish(Header("agent", "id", "tool", "1"), "success", SECRET)
    begun = time.process_time()
    text = report(source_of(data, objects), data)
    assert time.process_time() - begun < 10
    assert "+400 −400" in text
    agent_trace(source_of(data, objects), lambda _: None, "")
