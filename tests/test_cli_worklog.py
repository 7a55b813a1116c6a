"""``trail compile``, ``encode`` and ``decode`` as a person types them, in both versions."""

import json
import os

import pytest

import flux_plain as plain
from cli_support import SECRET, Shell, fill
from periplus.trail import TrailReader, verify
from periplus.trail.v1.reader import FluxReader
from trail_samples import golden_trail

STEPS = [("FILE_READ", "src/engine.py"), ("NOP",), ("TEST_RUN", "tests", 12), ("BRANCH", 1)]
FLUX = plain.encode(("ada", "run-1", 1_700_000_000), STEPS, 1)
LOG = [
    {"op": "TRAIL_BEGIN", "agent": "ada", "trail_id": "run-1", "ts": 1_700_000_000},
    {"op": "file_read", "path": "src/engine.py", "desc": "look"},
    {"op": "COMMENT", "text": f"token = {SECRET}"},
    {"op": "TRAIL_END", "status": "error"},
]


@pytest.fixture
def sh(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    return Shell(tmp_path / "project", tmp_path / "home")


def put(sh, name, content):
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    (sh.folder / name).write_bytes(data)


def read(sh, name):
    return (sh.folder / name).read_bytes()


def test_a_worklog_becomes_a_trail_with_its_secrets_masked(sh):
    put(sh, "log.json", LOG)
    done = sh("trail", "compile", "log.json")
    assert "2 steps, version 2" in done.out
    assert "1 secret masked" in done.out
    data = read(sh, "log.trail")
    assert verify(data).ok
    assert SECRET.encode() not in data
    assert "src/engine.py # look" in sh("trail", "show", "log.trail").out
    result = sh.json(
        "trail", "compile", "log.json", "--no-mask", "--out", "plain.trail", "--agent", "bob", "--status", "partial"
    )
    assert (result.version, result.steps, result.masked, result.told) == (2, 2, 0, [])
    assert SECRET.encode() in read(sh, "plain.trail")
    reader = TrailReader(read(sh, "plain.trail"))
    assert (reader.header.agent, reader.status, reader.digest.hex()) == ("bob", "partial", result.digest)


def test_a_worklog_becomes_version_1_and_what_that_lacks_is_told(sh):
    put(sh, "log.json", LOG)
    done = sh("trail", "compile", "log.json", "--v1")
    assert "skipped, because version 1 cannot express it: notes (1)" in done.err
    assert FluxReader(read(sh, "log.flux")).is_sound
    result = sh.json("trail", "compile", "log.json", "--v1", "--out", "b.flux")
    assert (result.version, result.steps, result.left_out) == (1, 2, ["notes (1)"])
    assert read(sh, "b.flux") == read(sh, "log.flux")


def test_standard_input_is_a_worklog_too(sh):
    sh("trail", "compile", "-", "--out", "a.trail", stdin=json.dumps(LOG))
    assert TrailReader(read(sh, "a.trail")).step_count == 2
    sh.fails("trail", "compile", "-", code=2, wrong="has no file name", stdin=json.dumps(LOG))


def test_the_same_worklog_has_the_same_bytes_in_one_store_and_by_one_secret(sh):
    put(sh, "log.json", LOG)
    put(sh, "secret", b"00" * 32)
    for out in ("a.trail", "b.trail"):
        sh("trail", "compile", "log.json", "--out", out, "--secret", "secret")
    assert read(sh, "a.trail") == read(sh, "b.trail")
    assert TrailReader(read(sh, "a.trail")).secret == bytes(32)
    sh("trail", "compile", "log.json", "--out", "drawn.trail")
    fill(sh)
    for out in ("c.trail", "d.trail"):
        sh("trail", "compile", "log.json", "--out", out)
    assert read(sh, "c.trail") == read(sh, "d.trail") != read(sh, "drawn.trail")
    put(sh, "secret", b"zz")
    sh.fails("trail", "compile", "log.json", "--secret", "secret", code=2, wrong="does not contain a trail secret")


def test_long_texts_need_a_store(sh):
    put(sh, "log.json", [LOG[0], {"op": "SAY", "text": "line\n" * 1000}, LOG[-1]])
    sh.fails(
        "trail",
        "compile",
        "log.json",
        code=2,
        wrong="step 1: SAY: operand text: 5,000 bytes of text, and no object store",
    )
    assert not (sh.folder / "log.trail").exists()
    fill(sh)
    sh("trail", "compile", "log.json")
    assert "line\\n" in sh("trail", "show", "log.trail").out
    sh("trail", "decode", "log.trail", "--out", "back.json")
    sh("trail", "encode", "back.json", "--out", "again.trail")
    assert read(sh, "again.trail") == read(sh, "log.trail")


@pytest.mark.parametrize(
    ("content", "words", "code", "wrong"),
    [
        ([LOG[0], {"op": "FILE_READ"}, LOG[-1]], (), 2, "log.json: entries[1].path: required"),
        ([LOG[0], {"op": "COMMAND_RUN", "command": "x"}, LOG[-1]], ("--v1",), 2, "entries[1].op: version 1 has no COMMAND_RUN"),
        ([LOG[0], {"op": "FILE_READ", "path": "x" * 300}, LOG[-1]], ("--v1",), 2, "entries[1].path: 300 bytes"),
        ([LOG[0], {"op": "FILE_READ", "path": "x" * 300}, LOG[-1]], ("--v1", "--lenient"), 2, "step 1 FILE_READ: path: 300 bytes"),
        (b"{", (), 2, "log.json, byte 1: not JSON"),
        (b"[" * 100_000, (), 2, "not JSON"),
        (LOG, ("--out", "log.json"), 2, "is the input file"),
        (LOG, ("--out", "."), 2, "is a folder"),
        (LOG, ("--out", "none/a"), 2, "there is no folder"),
        (LOG, ("--store", "none"), 2, "none"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_and_nothing_is_written(sh, content, words, code, wrong):
    put(sh, "log.json", content)
    before = read(sh, "log.json")
    sh.fails("trail", "compile", "log.json", *words, code=code, wrong=wrong)
    assert os.listdir(sh.folder) == ["log.json"]
    assert read(sh, "log.json") == before


def test_leniently_guesses_are_told(sh):
    put(sh, "log.json", [{"op": "FILE_READ"}])
    done = sh("trail", "compile", "log.json", "--lenient")
    assert "log.json: entries[0].path: required; an empty text is taken" in done.err
    assert len(sh.json("trail", "compile", "log.json", "--lenient").told) == 4


def test_version_1_is_decoded_and_encoded_to_the_same_bytes(sh):
    put(sh, "a.flux", FLUX)
    done = sh("trail", "decode", "a.flux", "--v1")
    assert done.err == ""
    entries = json.loads(done.out)
    assert [entry["op"] for entry in entries] == ["TRAIL_BEGIN", "FILE_READ", "NOP", "TEST_RUN", "BRANCH", "TRAIL_END"]
    assert entries[3] == {"op": "TEST_RUN", "test_path": "tests", "count": 12}
    put(sh, "a.json", done.out.encode())
    sh("trail", "encode", "a.json", "--v1", "--out", "b.flux")
    assert read(sh, "b.flux") == FLUX
    document = sh.json("trail", "decode", "a.flux", "--out", "c.json")
    assert (document.entries, document.version, document.faults) == (entries, 1, [])
    assert json.loads(read(sh, "c.json")) == entries


def test_version_1_becomes_version_2_and_comes_back(sh):
    put(sh, "a.flux", FLUX)
    result = sh.json("trail", "encode", "a.flux", "--out", "a.trail")
    assert result.version == 2
    assert "The labels of 1 branches are lost." in result.told
    sh("trail", "verify", "a.trail")
    assert "Converted from version 1" in sh("trail", "show", "a.trail").out
    sh("trail", "encode", "a.trail", "--v1", "--out", "b.flux")
    assert read(sh, "b.flux") == FLUX


def test_version_2_is_decoded_and_encoded_to_the_same_bytes(sh):
    put(sh, "a.trail", golden_trail())
    sh("trail", "decode", "a.trail", "--out", "a.json")
    sh("trail", "encode", "a.json", "--out", "b.trail")
    assert read(sh, "b.trail") == golden_trail()
    sh.fails("trail", "decode", "a.trail", "--v1", code=2, wrong="is not a trail of version 1")
    sh.fails("trail", "encode", "a.trail", "--v1", "--out", "b.flux", code=2, wrong="version 1 has no such opcode")
    assert not (sh.folder / "b.flux").exists()
    log = [LOG[0], {"op": "COMMAND_RUN", "command": "make"}, {"op": "FILE_READ", "path": "a", "range": "1-80"}, LOG[-1]]
    put(sh, "log.json", log)
    sh.fails(
        "trail",
        "encode",
        "log.json",
        "--v1",
        "--out",
        "b.flux",
        code=2,
        wrong="entries[1].op: version 1 has no COMMAND_RUN",
    )
    assert len(sh.json("trail", "encode", "log.json", "--v1", "--lenient", "--out", "b.flux").left_out) == 2
    assert [step.code for step in FluxReader(read(sh, "b.flux")).steps()] == [0xA0, 0x9F, 0x92, 0xA1]
    put(sh, "nothing", b"nothing")
    sh.fails("trail", "decode", "nothing", code=2, wrong="not a trail")
    sh.fails("trail", "encode", "nothing", "--out", "x", code=2, wrong="not a worklog")


def test_damage_of_version_1_is_told_with_its_offsets(sh):
    put(sh, "bad.flux", FLUX[:-1] + b"!")
    done = sh("trail", "decode", "bad.flux", code=3)
    assert "periplus: bad.flux: damage at byte" in done.err
    assert json.loads(done.out)[0]["op"] == "TRAIL_BEGIN"
    document = sh.json("trail", "decode", "bad.flux", code=3)
    assert [fault.kind for fault in document.faults] == ["key"]
    assert FLUX[document.faults[0].offset :].startswith(
        plain.u32(plain.key(max(plain.decode(FLUX)[6].values(), key=plain.key)))
    )
    assert sh.json("trail", "encode", "bad.flux", "--out", "bad.trail", code=3).faults == document.faults
    assert "Damage at byte" in sh("trail", "show", "bad.trail").out
    assert sh("trail", "encode", "bad.flux", "--v1", "--out", "mended.flux", code=3).err
    assert FluxReader(read(sh, "mended.flux")).is_sound
    sh.fails("trail", "decode", "bad.flux", "--out", "bad.flux", code=2, wrong="is the input file")
    put(sh, "short.flux", FLUX[:7])
    sh.fails("trail", "decode", "short.flux", code=2, wrong="short.flux, byte 7: header cut off")


def test_show_and_verify_take_version_1(sh):
    put(sh, "a.flux", FLUX)
    assert "src/engine.py" in sh("trail", "show", "a.flux").out
    assert sh("trail", "show", "a.flux", "--form", "hex").lines[1].startswith("0000000a  92 02")
    sh.fails("trail", "show", "a.flux", "--form", "hex", "--at", "1", code=2, wrong="always lists every step")
    assert "sound: 6 steps, version 1" in sh("trail", "verify", "a.flux").out
    put(sh, "bad.flux", FLUX + b"more")
    report = sh.json("trail", "verify", "bad.flux", code=3)
    assert report.trails[0].first_bad_offset == len(FLUX)
    assert report.trails[0].checks[0].name == "trailing"
    put(sh, "short.flux", FLUX[:7])
    assert sh.json("trail", "verify", "short.flux", code=3).trails[0].first_bad_offset == 7
    sh.fails("trail", "export", "a.flux", code=2, wrong="periplus trail encode FILE")


def test_concatenation_in_the_way_of_version_1(sh):
    put(sh, "a.flux", FLUX)
    put(sh, "b.flux", plain.encode(("bob", "run-2", 5), [("LABEL", "end")], 0))
    sh("trail", "concat", "a.flux", "b.flux", "--v1", "--out", "ab.flux")
    assert read(sh, "ab.flux") == plain.encode(("ada", "run-1", 1_700_000_000), [*STEPS, ("LABEL", "end")], 0)
    put(sh, "bad.flux", FLUX + b"!")
    sh.fails(
        "trail", "concat", "a.flux", "bad.flux", "--v1", "--out", "x.flux", code=2, wrong=f"bad.flux, byte {len(FLUX)}"
    )
    sh.fails(
        "trail", "concat", "a.flux", "--v1", "--sign", "--out", "x.flux", code=2, wrong="version 1 has no signature"
    )
    sh.fails("trail", "concat", "a.flux", "b.flux", "--out", "x", code=2, wrong="periplus trail encode FILE")
    assert not (sh.folder / "x.flux").exists()
