"""The benchmark runs from end to end and prints all of its rows. What the numbers are is no concern of a test."""

from __future__ import annotations

import json
import math
import shutil
import sqlite3
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from periplus.interop import import_transcript
from periplus.trail import TrailReader

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.measure import in_turn, quantile
from bench.samples import TRANSCRIPTS, session_file

REPOSITORY = Path(__file__).parents[1]
APPENDS = (
    ("write + fdatasync", "SQLite, WAL, FULL"),
    ("write into room + fdatasync", "SQLite, WAL, FULL"),
    ("write + fdatasync, 8 processes", "one process"),
    ("write + fdatasync, 8 processes", "SQLite, 8 processes"),
    ("one writer", "write + fdatasync"),
    ("one writer", "SQLite, WAL, FULL"),
    ("8 processes", "one writer"),
    ("8 processes", "SQLite, 8 processes"),
    ("one writer, with files and index", "write + fdatasync"),
)
REAL = ("real sessions",) if Path(TRANSCRIPTS).is_dir() else ()
CODE_SIZES = (
    "facts of files",
    "facts",
    "names",
    "definitions",
    "mentions",
    "files",
    "graph",
    "search for names",
    "with graph and both search tables",
)
HAS_SIZES = sqlite3.connect(":memory:").execute(
    "SELECT sqlite_compileoption_used('ENABLE_DBSTAT_VTAB')"
).fetchone() == (1,)
CODE_MAP = [
    *(
        (f"{what} of 60 mixed files, {kind}", "bare parse, one process")
        for what in ("cold index", "the graph")
        for kind in ("wall", "CPU")
    ),
    *((f"index, {part}", "source") for part in (CODE_SIZES if HAS_SIZES else (CODE_SIZES[0], CODE_SIZES[-1]))),
    *(
        (f"nothing changed, 62 files, {what}, {kind}", "git status")
        for what in ("a look in process", "periplus code outline")
        for kind in ("wall", "CPU")
    ),
    *((f"one of 62 files changed, periplus code find, {kind}", "python -c pass") for kind in ("wall", "CPU")),
    *((f"map of 62 files in 4,000 tokens, {kind}", "aider's map") for kind in ("wall", "CPU") if shutil.which("aider")),
    *((f"memory to {what} 62 files", "python -c pass") for what in ("index", "make the graph of")),
    *((f"memory to ask, {what}, 62 files", "python -c pass") for what in ("find", "refs", "impact")),
    *(
        (f"{what}, 1,000 symbols, {share}", "bare SELECT")
        for what in ("find", "find, its beginning", "refs", "impact")
        for share in ("p50", "p95")
    ),
]
EXPECTED = [
    *(("code-map", what, baseline) for what, baseline in CODE_MAP),
    *(
        ("code-files", f"files of the last 8 commits, {name}, Acc@{depth}", "BM25 of paths")
        for name in ("the message alone", "with recent work")
        for depth in (1, 5)
    ),
    ("dispatch", "going on with 3 steps after a kill", "what is allowed"),
    ("dispatch", "start of a lane, 50 files", "git worktree add"),
    ("dispatch", "supervisor, 8 silent lanes", "what is allowed"),
    ("dispatch", "supervisor, CPU a step of 3", "what is allowed"),
    ("dispatch", "the same beyond git worktree add, 50 files", "what is allowed"),
    ("dispatch", "the same with git and keepers, 3 steps", "what is allowed"),
    *(("append", label, baseline) for label, baseline in APPENDS),
    *(
        ("append", f"remember, {who}{suffix}", f"SQLite: row, full text, file{more}")
        for who, more in (("one writer", ""), ("8 processes", ", 8 processes"))
        for suffix in ("", ", p95")
    ),
    *(("lock", f"20 writers{suffix}", "SQLite, 20 processes") for suffix in ("", ", p50", ", p95", ", max")),
    *(("lock", f"holder killed, next goes on, {what}", "flock, waiting in the kernel") for what in ("p50", "max")),
    *(
        ("rebuild", f"2,000 records, {what}", "orjson.loads, each line")
        for label in ("state and index input", "with the index")
        for what in (label, f"{label}, peak memory")
    ),
    ("rebuild", "2,000 records, a checkpoint and 100 behind it, with the index", "all records, with the index"),
    *(
        ("read", f"{what}, {entities} entities{where}", "bare SELECT by primary key")
        for what in ("get", "refresh + get", "refresh + get again")
        for entities in ("100", "1,000")
        for where in ("", ", 200 records behind the index")
    ),
    *(
        ("read", f"{what}, 1,000 entities{where}, by size", f"{what}, 100 entities")
        for what in ("get", "refresh + get", "refresh + get again")
        for where in ("", ", 200 records behind the index")
    ),
    ("files", "a look at 200 entity files", "scandir + stat"),
    ("files", "a look at 200 entity files, the first", "scandir + stat"),
    *(
        ("import", what, f"{library}.loads, each line")
        for what in ("import to a trail", "import into a store, indexed")
        for library in ("orjson", "json")
    ),
    ("import", "import to a trail, peak memory", "orjson.loads, each line"),
    ("import", "import into a store, indexed, peak memory", "orjson.loads, each line"),
    *(
        ("code-search", f"a name, {how}, 2,000 names, p50", "bare SELECT")
        for how in ("same", "beginning", "parts", "misspelled")
    ),
    ("recall", "index of 200 memories from nothing", "bare FTS5, one transaction"),
    ("recall", "Project.recall, warm, p50", "bare FTS5, the same words"),
    ("recall", "Project.recall, warm, p95", "bare FTS5, the same words"),
    ("recall", "periplus recall, as a process, p50", "python with bare FTS5"),
    ("recall", "periplus recall, as a process, p95", "python with bare FTS5"),
    *(
        ("recall-words", f"memory questions in other words, one project, found in the first {depth}", "plain FTS5")
        for depth in (1, 5, 10)
    ),
    *(
        ("start", f"periplus {command}, {what}", "python -c pass")
        for command in ("--help", "status", "check", "recall")
        for what in ("CPU", "CPU, least", "wall", "wall, least", "modules")
    ),
    *(
        ("hooks", f"{event}, 300 records, CPU{budget}", "python -c pass")
        for event, budget in (
            ("SessionStart", ", budget 300"),
            ("UserPromptSubmit", ", budget 150"),
            ("PreToolUse", ""),
            ("PostToolUse", ", budget 120"),
            ("Stop", ""),
            ("SessionEnd", ", budget 500"),
        )
    ),
    ("select", "4,000 tokens of 2,000 atoms, the best", "all sorted, then packed"),
    ("select", "4,000 tokens of 2,000 atoms, for a question", "every text cut, all sorted"),
    ("select", "20 of 2,000 atoms, for a question", "every text cut, all sorted"),
    ("select", "20 of 200 streamed atoms, peak memory", "all held"),
    ("merkle", "tree over 2,000 leaves", "bare hashlib, as many hashes"),
    ("merkle", "inclusion proof", "RFC 9162, by its definition"),
    ("merkle", "proof verified", "bare hashlib, 11 hashes"),
    ("proofs", "tiles of 2,000 records, built", "bare read + SHA-256, each line"),
    ("proofs", "tiles, on disk", "a leaf hash"),
    *(
        ("proofs", f"proof of a record, {what}, {share}", "path alone, whole tree in memory")
        for what in ("warm", "first of a prover")
        for share in ("p50", "p95")
    ),
    *(
        ("context", what, "plain, as version 1")
        for what in (
            "serialised, 500 atoms",
            "parsed, 500 atoms",
            "serialised, bytes an atom",
            "stream of 1,000 atoms, to the bytes that travel",
            "the same, in chunks of ten atoms",
            "the same, a small delta on it",
            "the same, on the disk",
            "the same, proved and verified by its reader",
            "first chunk of 5,000 atoms",
            "the same, five large deltas on them",
            "the same, 50 small deltas on them",
            "the same, with its proof",
            "the same, from opening the store on",
            "the same, from opening the store on, small deltas on them",
            "chain of 300 deltas expanded",
            "the same, from the disk, nothing derived there",
        )
    ),
    ("context", "validated, hashed, in a tree, serialised", "plain, as version 1, nothing validated"),
    ("context", "parsed, every hash and the tree checked", "plain, as version 1, nothing checked"),
    ("context", "tree over 2,000 leaves, plain", "plain, hexadecimal nodes"),
    ("context", "proof of the last leaf, plain", "plain, the tree built for it"),
    ("trail", "written, builder.add", "orjson.dumps, each step"),
    ("trail", "sealed, builder.finish", "SHA-256, each line"),
    ("trail", "verified", "orjson.loads + SHA-256, each line"),
    ("trail", "opened and decoded", "orjson.loads, each line"),
    ("trail", "size", "lines of JSON"),
    *(
        ("trail", f"{work}, {material}, plain", "version 1, plain")
        for work in ("encoded", "decoded", "verified")
        for material in ("a worklog", *REAL)
    ),
    *(
        ("trail", f"{material}, {what}", baseline)
        for material in REAL
        for what in ("steps section with times", "whole, at rest")
        for baseline in ("lines of JSON", "lines of JSON, gzip", "version 1, texts cut at 255 bytes")
    ),
    *(
        ("scale", what + more, "all steps as objects")
        for what in ("verified", "listed, compact")
        for more in ("", ", memory beyond the file")
    ),
    *(
        ("server", what, "the store itself")
        for what in (
            "stream over a Unix socket",
            "stream over a Unix socket, asyncio",
            "stream over a Unix socket, proved",
        )
    ),
    *(
        ("mcp", what, "bare SDK server, one tool")
        for what in (
            "start to tools/list",
            "start to the first answer of a tool",
            "recall among 100, p50",
            "resident after 30 calls",
        )
    ),
    *(
        ("web", what, "bare server, one page")
        for what in (
            "start to the first page",
            *(
                f"{page}, {part}"
                for page in (
                    "/",
                    "/memory",
                    "/memory?q=",
                    "/sessions",
                    "/journal",
                    "/work",
                    "/code",
                    "/contexts",
                    "/health",
                )
                for part in ("first byte", "whole")
            ),
            "resident after all pages",
        )
    ),
    ("server", "objects pulled, verified", "a socket pair, hashed"),
    ("server", "memory for each of 100 slow readers", "the window of each"),
    ("writers", "2 processes × 20 memories", "one process, as many"),
    ("writers", "2 processes × 20 memories, there in the end", "acknowledged"),
    ("agent", "prefix survival, 30 turns of editing, without folds", "every turn sealed at its end"),
    ("agent", "the same with its 1 folds", "every turn sealed at its end"),
    ("agent", "the same at folds alone", "every turn sealed at its end"),
    ("agent", "price of the prompts (a cached byte a tenth)", "the transcript"),
    ("agent", "price of the prompts (a cached byte a tenth)", "every turn sealed at its end"),
    ("agent", "largest request in 120 turns", "in 50 turns"),
    ("agent", "CPU a turn of the host, last 12 turns", "turns 12 to 24"),
    ("agent", "system prompt and tools", "what is allowed"),
    ("agent", "CPU a turn with a store, last 4 of 40 turns", "turns 4 to 8"),
    ("agent", "disk a turn, last 4 of 40 turns", "turns 4 to 8"),
    ("agent", "start to the first prompt, CPU", "the peer, as published"),
    ("agent", "--help, CPU", "what is allowed"),
    ("agent", "an old turn of 300 by its handle", "all 300 turns read"),
    ("agent", "an old turn of 300 by its words", "all 300 turns read"),
]


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "bench", "--quick", *arguments],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def kept(folder):
    """The result, which is all that a run leaves behind."""
    (path,) = folder.iterdir()
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_a_quick_run_prints_every_row_with_its_ratio_and_keeps_the_result(tmp_path):
    done = run("--results", str(tmp_path))
    assert done.returncode == 0, done.stderr
    result = kept(tmp_path)
    assert sorted((row["part"], row["what"], row["baseline_name"]) for row in result["rows"]) == sorted(EXPECTED)
    for row in result["rows"]:
        assert math.isfinite(row["ratio"]), row
        assert row["ratio"] > 0, row
        for side in (row["ours"], row["baseline"]):
            assert 0 < side["low"] <= side["value"] <= side["high"] < math.inf, row
        assert row["ratio"] == pytest.approx(row["ours"]["value"] / row["baseline"]["value"])
    table = [line for line in done.stdout.splitlines() if line.startswith("  ")]
    printed = [
        next(
            (row for row in result["rows"] if f"  {row['what']}  " in line and line.endswith(row["baseline_name"])),
            None,
        )
        for line in table
    ]
    assert printed == result["rows"]
    assert {"cpu", "cores", "kernel", "python", "sqlite", "file_system", "commit"} <= result["machine"].keys()
    assert len(result["load_before"]) == 3
    assert any("session" in note for note in result["notes"]), "which session was imported is said"


@pytest.mark.slow
def test_only_some_parts_as_json_or_markdown(tmp_path):
    done = run("--only", "merkle", "--json", "--results", str(tmp_path / "json"))
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document == kept(tmp_path / "json")
    assert {row["part"] for row in document["rows"]} == {"merkle"}
    done = run("--only", "merkle", "--only", "trail", "--markdown", "--results", str(tmp_path / "markdown"))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "# Benchmarks"
    assert [line for line in lines if line.startswith("## ")] == ["## Merkle", "## Trail", "## Measured on"]
    rows = [line for line in lines if line.startswith("| ") and not line.startswith("| what ")]
    assert len(rows) == len([part for part, _, _ in EXPECTED if part in ("merkle", "trail")])


def test_without_transcripts_at_hand_a_session_is_made_that_can_be_imported(tmp_path):
    session = session_file(str(tmp_path), 300_000, str(tmp_path / "none"))
    assert session.source == "a made session"
    assert session.size_bytes == Path(session.path).stat().st_size >= 300_000
    imported = import_transcript(session.path, trail_key=bytes(32), put_object=lambda data: sha256(data).digest())
    lines = Path(session.path).read_bytes().count(b"\n")
    assert imported.counts["prompts"] == imported.counts["tools_paired"] == imported.counts["says"] == lines // 4
    assert imported.counts["lines"] == lines
    assert not imported.unknown
    assert not imported.unreadable_lines


@pytest.mark.slow
@pytest.mark.skipif(not Path(TRANSCRIPTS).is_dir(), reason="no transcripts beside the repository")
def test_copies_of_real_sessions_repeat_no_id_and_no_long_text(tmp_path):
    def imported(size_bytes):
        session = session_file(str(tmp_path), size_bytes)
        found = import_transcript(session.path, trail_key=bytes(32), put_object=lambda data: sha256(data).digest())
        reader = TrailReader(found.trail)
        texts = [value for at in range(len(reader.strings)) if isinstance(value := reader.string(at), str)]
        return session, found.counts, sum(len(text) > 200 and " " in text for text in texts)

    session, counts, long_texts = imported(1)
    _, counts_of_three, long_texts_of_three = imported(2 * session.size_bytes + 1)
    assert counts_of_three["duplicates"] == counts["duplicates"]
    assert counts_of_three["tools_paired"] == 3 * counts["tools_paired"] > 0
    assert long_texts_of_three > 2.9 * long_texts > 0, "all but those whose end the importer cuts off"


@pytest.mark.parametrize(
    ("values", "share", "found"),
    [([3, 1, 2], 0.5, 2), ([4, 3, 2, 1], 0.5, 2), (range(1, 101), 0.95, 95), ([7], 1.0, 7)],
)
def test_a_quantile_is_one_of_the_values(values, share, found):
    assert quantile(values, share) == found


def test_sides_take_turns_at_going_first():
    went = []
    found = in_turn(3, {name: lambda name=name: went.append(name) or name for name in "abc"})
    assert "".join(went) == "abcbcacab"
    assert found == {name: [name] * 3 for name in "abc"}


def test_what_it_cannot_measure_it_refuses():
    done = run("--only", "everything")
    assert done.returncode == 2
    assert "invalid choice: 'everything'" in done.stderr
