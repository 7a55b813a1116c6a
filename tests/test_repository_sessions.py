"""Sessions in the refs of a repository: Entire's checkpoints and git-ai's notes, in repositories made by git."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli_support import Shell
from interop_samples_archives import NOTE, as_note
from interop_support import SHARED
from periplus.base.errors import EnvironmentFailure, FormatError, NotFoundError
from periplus.interop.git_history import git_output
from periplus.interop.repository_sessions import kept_sessions, ref_listing
from periplus.interop.repository_sessions.kept_sessions import KeptSessions
from periplus.project import Project
from periplus.trail.format.reader import TrailReader
from support import PEAK, WRITER
from test_interop_git import Repository

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

ENTIRE = "refs/heads/entire/checkpoints/v1"
NOTES = "refs/notes/ai"
CHECKPOINTS = ["33210c2e180b-0", "5d755497c182-0", "e012b8e855d7-0"]


def write(repository, ref, files):
    """Make a commit of these files on the ref, in one process: path → bytes."""
    out = [b"feature done\ncommit %s\ncommitter B <b@x> 1700000000 +0000\ndata 1\nx\n" % ref.encode()]
    for path, data in files.items():
        out.append(b"M 100644 inline %s\ndata %d\n%s\n" % (json.dumps(path).encode(), len(data), data))
    done = subprocess.run(
        ["git", "fast-import", "--quiet", "--force"], cwd=repository.path, input=b"".join([*out, b"done\n"]), check=True
    )
    assert done.returncode == 0


def session(*texts, session_id="0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f", minute=0):
    """The lines of a session of Claude Code that says each of ``texts``, the first by a person."""
    lines = []
    for number, text in enumerate(texts):
        role = "assistant" if number % 2 else "user"
        lines.append({
            "type": role, "uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number else None, "sessionId": session_id,
            "timestamp": f"2026-03-01T10:{minute:02}:{number:02}.000Z", "message": {"role": role, "content": text},
        })  # fmt: skip
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def checkpoint(
    name, transcript, *, created="2026-03-01T11:00:00Z", place="0/", session_id="0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f"
):
    folder = f"{name[:2]}/{name[2:]}"
    card = {"checkpoint_id": name, "session_id": session_id, "strategy": "manual-commit", "created_at": created}
    return {
        f"{folder}/metadata.json": json.dumps({"checkpoint_id": name, "strategy": "manual-commit"}).encode(),
        f"{folder}/{place}metadata.json": json.dumps(card).encode(),
        f"{folder}/{place}full.jsonl": transcript,
        f"{folder}/{place}prompt.txt": b"go",
    }


@pytest.fixture
def repository(tmp_path):
    made = Repository(tmp_path / "shop")
    made.commit("first", a="1")
    return made


@pytest.fixture
def project(tmp_path):
    store = tmp_path / "store"
    store.mkdir()
    Project.init(str(store))
    with Project.open(str(store), WRITER) as opened:
        yield opened


def everything(project):
    """The bytes of the journal and the objects: importing again must not change them."""
    root = Path(project.root)
    return {path: path.read_bytes() for path in [*root.glob("journal/lin_*/*"), *root.glob("objects/*/*")]}


def imported(project, repository):
    """The trails by session, the refusals, and the counts."""
    imports = project.import_kept(str(repository.path))
    trails, refused = {}, {}
    for one in imports:
        if one.trouble is not None:
            refused[one.place] = one.trouble
        for trail in one.trails:
            assert trail.entity.value["session_id"] not in trails
            trails[trail.entity.value["session_id"]] = trail
    return trails, refused, imports.kept


def texts_of(project, trail):
    reader = TrailReader(project.journal.objects.get(bytes.fromhex(trail.entity.value["object"])))
    return [step.operands[0] for step in reader.steps()]


# -- Entire


def test_real_checkpoints_of_entire(project, repository, tmp_path):
    files = {}
    for name in CHECKPOINTS:
        folder = SHARED / "claude-code-jsonl" / name
        if not folder.is_dir():
            pytest.skip(f"real transcripts are not beside the repository: no folder {folder}")
        place = f"{name[:2]}/{name[2:12]}"
        files[f"{place}/metadata.json"] = (folder / "checkpoint-metadata.json").read_bytes()
        for inner in ("metadata.json", "full.jsonl", "prompt.txt", "context.md", "content_hash.txt"):
            files[f"{place}/0/{inner}"] = (folder / inner).read_bytes()
    write(repository, ENTIRE, files)
    trails, refused, kept = imported(project, repository)
    expected = {}
    for name in CHECKPOINTS:
        for line in (SHARED / "claude-code-jsonl" / name / "full.jsonl").read_text("utf-8").splitlines():
            if identity := json.loads(line).get("sessionId"):
                expected[name] = identity
                break
    assert sorted(trails) == sorted(expected.values())
    assert not refused
    assert (kept.total, kept.older, kept.unread) == (3, 0, 0)
    for name, session_id in expected.items():
        path = str(SHARED / "claude-code-jsonl" / name / "full.jsonl")
        held = trails[session_id].entity.value
        assert (held["format"], held["keeper"]) == ("claude-code", "entire")
        (own,) = project.import_transcripts(path)  # the same session, in the same trail
        assert own.entity.item_id == trails[session_id].entity.item_id
        assert (own.entity.value, own.changed) == (held, False)
    again, _, _ = imported(project, repository)
    assert not any(trail.changed for trail in again.values())
    assert {trail.entity.value["format"] for trail in again.values()} == {"claude-code"}


def test_the_newest_transcript_of_a_session_is_its_trail(project, repository):
    files = checkpoint("aa0000000001", session("go", "a"), created="2026-03-01T10:00:00Z")
    files |= checkpoint("bb0000000002", session("go", "a", "more", "b"), created="2026-03-01T12:00:00+01:00")
    files |= checkpoint(  # with the date before the id, as Entire once wrote it
        "cc0000000003", session("go", "a", "more", "b", "on", "c"), created="2026-03-01T13:00:00Z", place="",
        session_id="2026-03-01-0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f",
    )  # fmt: skip
    files |= checkpoint("ee0000000003", session("else", "d", session_id="s2"), session_id="s2", place="1/")
    write(repository, ENTIRE, files)
    trails, refused, kept = imported(project, repository)
    assert not refused
    assert {name: texts_of(project, trail) for name, trail in trails.items()} == {
        "0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f": ["go", "a", "more", "b", "on", "c"],
        "s2": ["else", "d"],
    }
    assert (kept.total, kept.older) == (2, 2)
    before = everything(project)
    again, _, _ = imported(project, repository)
    assert not any(trail.changed for trail in again.values())
    assert everything(project) == before
    write(
        repository,
        ENTIRE,
        checkpoint(
            "dd0000000004", session("go", "a", "more", "b", "on", "c", "x", "y"), created="2026-03-02T00:00:00Z"
        ),
    )
    grown, _, _ = imported(project, repository)
    (trail,) = grown.values()
    assert trail.changed
    assert trail.entity.item_id == trails["0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f"].entity.item_id


def test_an_own_record_that_is_as_long_stays(project, repository, tmp_path):
    own = tmp_path / "own.jsonl"
    own.write_bytes(session("go", "the key is opened"))
    (first,) = project.import_transcripts(str(own))
    write(repository, ENTIRE, checkpoint("aa0000000001", session("go", "the REDACTED is opened")))
    (trail,) = imported(project, repository)[0].values()
    assert not trail.changed
    assert trail.entity.value["digest"] == first.entity.value["digest"]
    write(repository, ENTIRE, checkpoint("aa0000000001", session("go", "the REDACTED is opened", "more", "b")))
    (trail,) = imported(project, repository)[0].values()
    assert trail.changed  # it goes on where the own file is gone
    own.write_bytes(session("go", "the key is opened", "more", "b"))
    (second,) = project.import_transcripts(str(own))
    assert second.changed
    assert "keeper" not in second.entity.value


def test_transcripts_in_parts_and_subagents(project, repository):
    whole = session("go", "a", "more", "b").splitlines(keepends=True)
    files = checkpoint("aa0000000001", b"".join(whole[:2]).removesuffix(b"\n"))
    files["aa/0000000001/0/full.jsonl.001"] = b"".join(whole[2:])
    side = session("look", "fine").replace(b'"type"', b'"isSidechain": true, "agentId": "a1", "type"')
    files["aa/0000000001/tasks/toolu_1/agent-a1.jsonl"] = side
    files["aa/0000000001/tasks/toolu_1/checkpoint.json"] = b"{}"
    write(repository, ENTIRE, files)
    trails, _, _ = imported(project, repository)
    (trail,) = trails.values()
    assert texts_of(project, trail) == ["go", "a", "more", "b"]
    (child,) = trail.children
    assert texts_of(project, child) == ["look", "fine"]
    assert child.entity.value["keeper"] == "entire"


def test_a_branch_that_was_only_fetched(project, repository, tmp_path):
    write(repository, ENTIRE, checkpoint("aa0000000001", session("go", "a")))
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(repository.path), str(clone)], check=True)
    trails, _, _ = imported(project, Clone(clone))
    assert len(trails) == 1


class Clone:
    def __init__(self, path):
        self.path = path


# -- git-ai


def note_of(tmp_path, *, session_id, messages):
    prompt = NOTE["document"]["prompts"]["4ba2ad79974ff636"]
    agent = {**prompt["agent_id"], "id": session_id}
    document = {
        **NOTE["document"],
        "prompts": {"4ba2ad79974ff636": {**prompt, "agent_id": agent, "messages": messages}},
    }
    return as_note(tmp_path, {**NOTE, "document": document}).read_bytes()


def test_notes_with_messages(project, repository, tmp_path):
    messages = NOTE["document"]["prompts"]["4ba2ad79974ff636"]["messages"]
    notes = {
        "aa" + "0" * 38: note_of(tmp_path, session_id="s1", messages=messages[:3]),
        "bb/" + "0" * 38: note_of(tmp_path, session_id="s1", messages=messages),
        "cc/" + "0" * 38: note_of(tmp_path, session_id="s1", messages=messages[:1]),
        "dd/" + "0" * 38: note_of(tmp_path, session_id="s2", messages=messages[:2]),
        "ee/" + "0" * 38: note_of(tmp_path, session_id="s3", messages=[]),
        "ff/" + "0" * 38: b"a note of another program",
    }
    write(repository, NOTES, notes)
    trails, refused, kept = imported(project, repository)
    assert not refused
    assert (kept.bare, kept.unread, kept.total) == (1, 1, 2)
    assert {name: trail.entity.value["counts"]["lines"] for name, trail in trails.items()} == {"s1": 9, "s2": 2}
    assert {trail.entity.value["original"] for trail in trails.values()} == {"claude-code"}
    again, _, _ = imported(project, repository)
    assert not any(trail.changed for trail in again.values())


def test_real_notes_have_no_messages(project, repository):
    folder = SHARED / "git-ai-notes"
    if not folder.is_dir():
        pytest.skip(f"real transcripts are not beside the repository: no folder {folder}")
    write(repository, NOTES, {path.stem: path.read_bytes() for path in folder.glob("*.note")})
    trails, refused, kept = imported(project, repository)
    assert (trails, refused, kept.bare) == ({}, {}, 10)


# -- hostile repositories


def test_what_is_broken_stops_nothing_else(project, repository, tmp_path):
    files = checkpoint("aa0000000001", session("go", "a"))
    files |= checkpoint("bb0000000002", b"no session\n", session_id="s-broken")
    files |= checkpoint("cc0000000003", session("else", "b", session_id="s3"), session_id="../../evil")
    files["cc/0000000003/0/metadata.json"] = files["cc/0000000003/0/metadata.json"][:-9]
    files |= checkpoint("dd0000000004", session("on", "c", session_id="s4"), session_id="../../evil")
    files |= checkpoint("ee0000000005", b"", session_id="s-empty")
    files["xx/notes.txt"] = b"1"
    write(repository, ENTIRE, files)
    write(
        repository,
        NOTES,
        {"aa" + "0" * 38: b'a.py\n  4ba2ad79974ff636 1\n---\n{"schema_version": "authorship/3.0.0", "prompts": {'},
    )
    trails, refused, _kept = imported(project, repository)
    assert set(trails) == {"0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f", "s3", "s4"}
    assert {place: type(error) for place, error in refused.items()} == {
        "entire/checkpoints/v1:bb/0000000002/0/full.jsonl": FormatError,
        "entire/checkpoints/v1:ee/0000000005/0/full.jsonl": FormatError,
    }
    for place, error in refused.items():
        assert str(error).startswith(place)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["shop", "store"]


def test_the_records_of_subagents_are_bounded_together(repository, monkeypatch):
    files = checkpoint("aa0000000001", session("go", "done"))
    for number in range(9):
        files[f"aa/0000000001/tasks/toolu_{number}/agent-a{number}.jsonl"] = b"%d" % number + b"\n" * 999
    write(repository, ENTIRE, files)
    monkeypatch.setattr(kept_sessions, "TRANSCRIPT_BYTES_MAX", 4500)
    kept = KeptSessions(str(repository.path))
    (found,) = [sorted(os.listdir(Path(one.path).with_suffix("") / "subagents")) for one in kept]
    assert found == [f"agent-a{number}.jsonl" for number in range(4)]
    assert kept.unread == 5


def test_a_huge_transcript_is_left_out_before_it_is_read(project, repository, monkeypatch):
    write(repository, ENTIRE, checkpoint("aa0000000001", session("go", "a" * 5000)) | checkpoint(
        "bb0000000002", session("else", "b", session_id="s2"), session_id="s2"))  # fmt: skip
    monkeypatch.setattr(kept_sessions, "TRANSCRIPT_BYTES_MAX", 2000)
    trails, refused, kept = imported(project, repository)
    assert (set(trails), refused, kept.unread) == ({"s2"}, {}, 1)


def test_an_older_transcript_where_the_newest_is_not_there(project, repository, tmp_path):
    """As in a clone that left out large blobs: git lists them and does not have them."""
    write(repository, ENTIRE, checkpoint("aa0000000001", session("go", "a"), created="2026-03-01T10:00:00Z") | checkpoint(
        "bb0000000002", session("go", "a", "more", "b" * 3000), created="2026-03-01T11:00:00Z"))  # fmt: skip
    repository.git("config", "uploadpack.allowFilter", "true")
    clone = tmp_path / "clone"
    url = f"file://{repository.path}"
    subprocess.run(["git", "clone", "-q", "--filter=blob:limit=2000", "--no-checkout", url, str(clone)], check=True)
    trails, refused, kept = imported(project, Clone(clone))
    assert not refused
    (trail,) = trails.values()
    assert texts_of(project, trail) == ["go", "a"]
    assert (kept.older, kept.unread) == (0, 0)


def test_links_to_files_of_this_machine_are_no_transcripts(project, repository, tmp_path):
    secret = tmp_path / "own.jsonl"
    secret.write_bytes(session("mine", "a"))
    target = str(secret).encode()
    data = b"feature done\ncommit %s\ncommitter B <b@x> 1700000000 +0000\ndata 1\nx\n" % ENTIRE.encode()
    data += b"M 120000 inline aa/0000000001/0/full.jsonl\ndata %d\n%s\ndone\n" % (len(target), target)
    subprocess.run(["git", "fast-import", "--quiet"], cwd=repository.path, input=data, check=True)
    trails, refused, kept = imported(project, repository)
    assert (trails, refused, kept.total) == ({}, {}, 0)


def test_nothing_that_the_repository_configures_is_run(project, repository, tmp_path):
    mark = tmp_path / "ran"
    write(repository, ENTIRE, checkpoint("aa0000000001", session("go", "a")))
    write(repository, NOTES, {"aa" + "0" * 38: as_note(tmp_path, NOTE).read_bytes()})
    (repository.path / ".gitattributes").write_text("* filter=bad diff=bad\n")
    for name in ("filter.bad.smudge", "filter.bad.process", "diff.bad.textconv", "core.fsmonitor", "core.pager",
                 "core.sshCommand", "core.alternateRefsCommand"):  # fmt: skip
        repository.git("config", name, f"touch {mark}")
    assert len(imported(project, repository)[0]) == 2
    assert not mark.exists()


@pytest.mark.slow
def test_ten_thousand_checkpoints_take_bounded_memory(tmp_path, repository):
    files = {}
    for number in range(10_000):
        name = f"{number:012x}"[::-1]
        text = f"{number}" * (60_000 if number % 1000 == 0 else 1)
        made = checkpoint(name, session("go", text, session_id=f"s{number % 2000}"), session_id=f"s{number % 2000}")
        files |= {path: data for path, data in made.items() if "/0/" in path and "prompt" not in path}
    write(repository, ENTIRE, files)
    program = PEAK + (
        "import sys\n"
        "from periplus.interop.repository_sessions.kept_sessions import KeptSessions\n"
        "kept = KeptSessions(sys.argv[1])\n"
        "print(sum(1 for _ in kept), kept.total, kept.older, peak_bytes())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(repository.path)], capture_output=True, text=True, timeout=300
    )
    assert done.stderr == ""
    count, total, older, peak = map(int, done.stdout.split())
    assert (count, total, older) == (2000, 2000, 8000)
    assert peak < 120_000_000


def test_listings_are_bounded(repository, monkeypatch):
    write(repository, ENTIRE, {f"aa/{number:010}/0/full.jsonl": b"1" for number in range(50)})
    monkeypatch.setattr(ref_listing, "ENTRIES_MAX", 10)
    assert len(list(ref_listing.files_of(str(repository.path), ENTIRE))) == 10


def test_what_is_no_repository(tmp_path, project):
    with pytest.raises(NotFoundError, match="no folder"):
        list(KeptSessions(str(tmp_path / "absent")))
    with pytest.raises(FormatError, match="not a git repository"):
        list(project.import_kept(str(tmp_path)))
    assert ref_listing.kept_refs(str(tmp_path)) == []


def test_without_git_the_error_says_so(repository, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFailure, match="git is not installed"):
        list(KeptSessions(str(repository.path)))
    with pytest.raises(EnvironmentFailure, match="git is not installed"), git_output.BlobReader(str(repository.path)):
        pass
    assert ref_listing.kept_refs(str(repository.path)) == []


def test_objects_that_are_missing_or_no_blobs(repository):
    head = repository.git("rev-parse", "HEAD")
    blob = repository.git("rev-parse", "HEAD:a")
    with git_output.BlobReader(str(repository.path)) as blobs:
        assert blobs.read("0" * 40, 100) is None
        assert blobs.read(head, 10_000) is None
        assert blobs.read(blob, 0) is None
        assert blobs.read("no id", 100) is None
        assert blobs.read(blob, 1) == b"1"


def test_a_damaged_repository_is_one_clear_error(repository, project):
    write(repository, ENTIRE, checkpoint("aa0000000001", session("go", "a")))
    commit = repository.git("rev-parse", ENTIRE)
    repository.git("update-ref", "refs/heads/other", commit)
    for path in Path(repository.path, ".git", "objects").rglob("*"):
        if path.is_file():
            path.chmod(0o600)
            path.write_bytes(b"rubbish")
    with pytest.raises(FormatError):
        list(project.import_kept(str(repository.path)))


# -- the command


@pytest.fixture
def store(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    shell = Shell(tmp_path / "project", tmp_path / "home")
    shell("init")
    return shell


def test_the_command(store, tmp_path):
    repository = Repository(Path(store.folder))
    write(repository, ENTIRE, checkpoint("aa0000000001", session("Please go on", "a")) | checkpoint(
        "bb0000000002", b"none\n", session_id="s2"))  # fmt: skip
    write(repository, NOTES, {"aa" + "0" * 38: note_of(tmp_path, session_id="s3", messages=[])})
    hint = store("trail", "import", "--all", code=1)
    assert "no session of" in hint.err
    assert "periplus trail import --kept" in hint.err
    found = store.json("trail", "import", "--kept", code=2)
    assert [trail.value["keeper"] for trail in found.trails] == ["entire"]
    assert [one.path for one in found.failed] == ["entire/checkpoints/v1:bb/0000000002/0/full.jsonl"]
    assert found.files[0].path == "entire/checkpoints/v1:aa/0000000001/0/full.jsonl"
    again = store("trail", "import", "--kept", store.folder, code=2)
    assert "already imported, nothing changed" in again.out
    assert "periplus: 1 note of git-ai without messages" in again.err
    own = tmp_path / "own.jsonl"
    own.write_bytes(session("x", "y", session_id="s9"))
    home = Path(store.home) / ".claude/projects/x"
    home.mkdir(parents=True)
    (home / "s9.jsonl").write_bytes(
        own.read_bytes().replace(b'"type"', b'"cwd": "%s", "type"' % os.fsencode(store.folder))
    )
    told = store("trail", "import", "--all")
    assert (
        "entire/checkpoints/v1, refs/notes/ai may keep sessions too; to import them: periplus trail import --kept"
        in told.err
    )


def test_the_command_where_nothing_is_kept(store):
    Repository(Path(store.folder))
    store.fails("trail", "import", "--kept", code=1, wrong="no session is kept in the refs of")
    store.fails("trail", "import", "--kept", "--follow", code=2, wrong="--follow is for session files, not for --kept")
