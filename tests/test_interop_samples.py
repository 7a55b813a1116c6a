"""What must hold for every importer: secrets are masked wherever they stand, and anything may stand anywhere."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from interop_samples import SAMPLES, changed, places
from interop_support import KEY, Objects, check
from periplus.base.errors import FormatError
from periplus.interop import import_transcripts
from periplus.interop.conversion.source import Head
from periplus.interop.format_detection import detect_format
from periplus.interop.transcripts import session_ids
from periplus.project import Project
from periplus.trail.format.reader import TrailReader
from sampling import sampled
from support import WRITER


def everything(project):
    """The bytes of the journal and the objects: what importing again must not change."""
    root = Path(project.root)
    return {path: path.read_bytes() for path in [*root.glob("journal/lin_*/*"), *root.glob("objects/*/*")]}


SECRET = "ghp_" + "A1b2C3d4E5" * 3 + "f6G7h8"
# These write dozens of files for each change, of records that a sibling of theirs has in one.
SLOW = () if os.environ.get("PERIPLUS_EXHAUSTIVE") else ("opencode-files", "openhands-1-folder", "openhands-0-list")
STRIDE = 1 if os.environ.get("PERIPLUS_EXHAUSTIVE") else 4
EVERY = pytest.mark.parametrize("name", sorted(SAMPLES))
HALF = pytest.mark.parametrize("name", sampled(sorted(SAMPLES), len(SAMPLES) // 2))
SOME = pytest.mark.parametrize("name", sampled(sorted(SAMPLES), 4))


def take(path, objects=None):
    """Everything that the file gives, checked; None where it is refused with an error that names it."""
    objects = Objects() if objects is None else objects
    try:
        found = list(import_transcripts(str(path), trail_key=KEY, put_object=objects.put))
    except FormatError as error:
        assert str(path.parent) in str(error)  # noqa: PT017 - either is right
        return None
    for imported in found:
        check(imported)
        for child in imported.children:
            check(child)
    return found


@EVERY
def test_a_sample_is_of_its_format(name, tmp_path):
    sample = SAMPLES[name]
    path = sample.write(tmp_path, sample.data)
    assert detect_format(Head.of(str(path))).name == sample.format
    (imported,) = take(path)
    assert imported.format == sample.format
    assert imported.counts["prompts"] >= (name != "gemini-lines")
    assert sum(imported.unknown.values()) + sum(sum(c.unknown.values()) for c in imported.children) >= (
        name != "swe-agent"
    )
    assert take(path) == [imported]


@HALF
def test_a_secret_is_masked_wherever_it_stands(name, tmp_path):
    sample = SAMPLES[name]
    planted = 0
    texts = [(at, value) for at, value in places(sample.data) if isinstance(value, str)]
    for at, value in texts[:: 4 if name in SLOW else 1]:
        for text in (f"{value} {SECRET}", SECRET):
            path = sample.write(tmp_path, changed(sample.data, at, text))
            objects = Objects()
            found = take(path, objects)
            planted += 1
            for imported in found or ():
                _has_no_secret(imported, objects, at)
    assert planted > 20
    assert planted >= 2 * (len(texts) // 4)


def _has_no_secret(imported, objects, at):
    for one in (imported, *imported.children):
        assert SECRET.encode() not in one.trail, at
        assert SECRET not in repr(one._replace(trail=b"")), at
    assert not any(SECRET.encode() in data for data in objects.values()), at


@EVERY
def test_a_secret_as_a_name_is_masked(name, tmp_path):
    sample = SAMPLES[name]
    for at, value in list(places(sample.data))[:: 4 if name in SLOW else 1]:
        if isinstance(value, dict):
            objects = Objects()
            for imported in (
                take(sample.write(tmp_path, changed(sample.data, at, {**value, SECRET: "x"})), objects) or ()
            ):
                _has_no_secret(imported, objects, at)


DEEP: object = "end"
for _ in range(300):
    DEEP = [DEEP]
OTHERS = (None, True, -1, 1e308, 2**70, "", "\ud83d", [], {}, [[]], {"text": 1}, [None, {"type": {}}], DEEP)


@SOME
def test_any_value_may_be_of_any_type(name, tmp_path):
    sample = SAMPLES[name]
    for number, (at, _) in enumerate(list(places(sample.data))[:: 4 if name in SLOW else 1]):
        if len(at) < 2 and name.startswith(("opencode", "openhands-1-folder")):
            continue  # those names are the test's, not the format's
        for other in OTHERS[number % STRIDE :: STRIDE]:  # some of them, and at the next place others
            take(sample.write(tmp_path, changed(sample.data, at, other)))


@EVERY
def test_lists_of_records_may_be_empty(name, tmp_path):
    sample = SAMPLES[name]
    data = sample.data
    for at, value in places(sample.data):
        if isinstance(value, list) and not (len(at) < 2 and name.startswith(("opencode", "openhands-1-folder"))):
            take(sample.write(tmp_path, changed(sample.data, at, [])))
            if len(at) == 1:
                data = changed(data, at, [])
    take(sample.write(tmp_path, data))


@HALF
def test_any_member_may_be_missing(name, tmp_path):
    sample = SAMPLES[name]
    for at, value in places(sample.data):
        if isinstance(value, dict) and not (name.startswith("op") and len(at) < 2):
            for key in list(value)[len(at) % STRIDE :: STRIDE] if name.startswith("opencode") else value:
                take(sample.write(tmp_path, changed(sample.data, at, {k: v for k, v in value.items() if k != key})))


@EVERY
def test_a_file_that_was_cut_gives_what_is_whole_and_says_so(name, tmp_path):
    sample = SAMPLES[name]
    path = sample.write(tmp_path, sample.data)
    whole = path.read_bytes()
    (full,) = take(path)
    steps = 0
    for end in range(1, len(whole) - 2, max(1, len(whole) // 150)):
        path.write_bytes(whole[:end])
        found = take(path)
        if not found:
            continue
        (imported,) = found
        assert imported.counts["steps"] <= full.counts["steps"] + 2
        steps = max(steps, imported.counts["steps"])
        is_told = imported.unreadable_lines or any("cut off" in kind or "rest of" in kind for kind in imported.skipped)
        is_between = whole[end - 1 : end] == b"\n" or whole[end : end + 1] == b"\n"
        status = TrailReader(imported.trail).status
        assert is_told or is_between, (end, imported)
        assert status != "success" or is_between or imported.unreadable_lines
    assert steps > 3 or name.endswith(("files", "folder", "database"))


@EVERY
def test_two_sessions_in_one_file_are_no_disaster(name, tmp_path):
    """Mixed files: each other's records behind one's own are counted, and what was good stays."""
    sample = SAMPLES[name]
    path = sample.write(tmp_path, sample.data)
    whole = path.read_bytes()
    (full,) = take(path)
    for rubbish in (
        b'{"a": 1}\n',
        b"[1, 2]\n",
        b"plain text\n",
        b'{"type": "brand new", "uuid": "u"}\n',
        b"\xff\xfe\n",
        b"\0\n",
    ):
        path.write_bytes(whole + rubbish)
        found = take(path)
        if name.startswith("opencode"):
            continue
        assert found, rubbish
        first = found[0]
        assert first.counts["prompts"] == full.counts["prompts"]
        if sample.write.__name__ == "as_document":
            assert any("rest of the document" in kind for kind in first.skipped)
        elif name.endswith("lines"):
            assert first.unreadable_lines or first.unknown != full.unknown


@EVERY
def test_the_same_ids_everywhere(name, tmp_path):
    sample = SAMPLES[name]
    data = sample.data
    for at, value in places(sample.data):
        if at[-1] in ("id", "callID", "tool_call_id", "action_id", "uuid", "cause") and isinstance(value, (str, int)):
            data = changed(data, at, "same" if isinstance(value, str) else 4)
    take(sample.write(tmp_path, data))


@EVERY
def test_records_a_hundred_times_over(name, tmp_path):
    """As of a session that was resumed and repeats itself: bounded, sound, and no result is counted twice."""
    sample = SAMPLES[name]
    if sample.write.__name__ == "as_lines" or isinstance(sample.data, list):
        data = sample.data * 100
    else:
        data = {key: value * 100 if isinstance(value, list) and key in ("messages", "trajectory", "history") else value
                for key, value in sample.data.items()}  # fmt: skip
    found = take(sample.write(tmp_path, data))
    for imported in found:
        assert imported.counts["tools_paired"] <= imported.counts["tools"]


@pytest.mark.slow
def test_texts_of_two_hundred_kilobytes_take_linear_time(tmp_path):
    """What the importers look for in texts, repeated: a search that begins anew at each of them would take minutes."""
    hostile = [
        "```bash\n" * 25_000, "<think>" * 30_000, "(Open file: " * 17_000, "Exit Code: " * 18_000,
        "<returncode>" * 17_000, '\\"' * 100_000, "*** Begin Patch\n" * 13_000, "https://" * 25_000, " " * 200_000,
    ]  # fmt: skip
    for name in ("gemini-lines", "mini-swe-agent", "swe-agent-history", "openhands-0-lines", "openhands-1-lines"):
        sample = SAMPLES[name]
        texts = [at for at, value in places(sample.data) if isinstance(value, str) and " " in value]
        for text in hostile:
            data = sample.data
            for at in texts:
                data = changed(data, at, text)
            take(sample.write(tmp_path, data))


def test_a_document_deeper_than_any_decoder_goes(tmp_path):
    path = tmp_path / "deep.json"
    deep = b"[" * 100_000 + b"]" * 100_000
    path.write_bytes(
        b'{"sessionId": "s", "projectHash": "0", "messages": [{"type": "user", "content": "go"}, ' + deep + b"]}"
    )
    (imported,) = take(path)
    assert imported.counts["prompts"] == 1
    assert imported.skipped == {"rest of the document: nested too deep": 1}


@pytest.mark.slow
def test_an_element_over_the_limit_is_refused(tmp_path):
    path = tmp_path / "long.json"
    with path.open("wb") as file:
        file.write(b'{"trajectory": [], "info": {}, "history": [{"role": "user", "content": "')
        file.truncate(100 << 20)
    with pytest.raises(FormatError, match="32 MiB") as caught:
        list(import_transcripts(str(path), trail_key=KEY, put_object=Objects().put))
    assert caught.value.offset == json.dumps({"trajectory": [], "info": {}, "history": [1]}).index("1")


@EVERY
def test_importing_twice_changes_nothing_in_a_store(name, tmp_path):
    sample = SAMPLES[name]
    folder, store = tmp_path / "given", tmp_path / "store"
    folder.mkdir()
    store.mkdir()
    path = sample.write(folder, sample.data)
    Project.init(str(store))
    with Project.open(str(store), WRITER) as project:
        (first,) = project.import_transcripts(str(path))
        before = everything(project)
        (again,) = project.import_transcripts(str(path))
        assert (first.changed, again.changed) == (True, False)
        assert everything(project) == before


@pytest.mark.parametrize(
    "name", ["mini-swe-agent", "swe-agent", "gemini-document", "openhands-0-list", "openhands-evaluation"]
)
def test_a_run_that_was_written_further_is_the_same_trail(name, tmp_path):
    """Documents are written anew after each step; the run stays one trail, and another run of the task is another."""
    sample = SAMPLES[name]
    folder, store = tmp_path / "given", tmp_path / "store"
    folder.mkdir()
    store.mkdir()

    def cut(data):
        if isinstance(data, list) and name == "openhands-evaluation":
            return [{**data[0], "history": data[0]["history"][:6]}]
        if isinstance(data, list):
            return data[:6]
        return {key: value[:3] if isinstance(value, list) else value for key, value in data.items()}

    def other(data):
        if isinstance(data, list) and "history" in data[0]:
            return [{**data[0], "history": other(data[0]["history"])}]
        if isinstance(data, list):
            return [{**data[0], "timestamp": "2026-04-01T00:00:00"}, *data[1:]]
        if "sessionId" in data:
            return {**data, "sessionId": "another"}
        return {
            key: [*value[:1], {**value[1], "content": "else", "observation": "else"}, *value[2:]]
            if key in ("messages", "history") else value for key, value in data.items()
        }  # fmt: skip

    Project.init(str(store))
    with Project.open(str(store), WRITER) as project:
        (part,) = project.import_transcripts(str(sample.write(folder, cut(sample.data))))
        (whole,) = project.import_transcripts(str(sample.write(folder, sample.data)))
        (another,) = project.import_transcripts(str(sample.write(folder, other(sample.data))))
    assert part.entity.item_id == whole.entity.item_id
    assert whole.changed
    assert another.entity.item_id != whole.entity.item_id


@pytest.mark.parametrize("name", [name for name in sorted(SAMPLES) if name.endswith("-database")])
def test_the_sessions_of_a_database_can_be_listed_without_an_import(name, tmp_path):
    sample = SAMPLES[name]
    path = sample.write(tmp_path, sample.data)
    assert session_ids(str(path), sample.format, ()) == [imported.session_id for imported in take(path)]
    assert session_ids(str(path), sample.format, ("/no/such/folder",)) == []
    path.write_bytes(b"{}")
    assert session_ids(str(path), sample.format, ()) is None
