"""Real sessions, where they stand beside the repository: replayed dry, and in folders, with nothing outside touched."""

from __future__ import annotations

from collections import Counter

import pytest

from interop_support import KEY, shared_files
from periplus.interop import import_transcript
from periplus.trail import Digest, TrailReader, verify
from periplus.trail.opcodes import opcode_name
from periplus.trail.replay import replay_trail
from periplus.trail.replay.world import PERFORMED
from replay_support import Taped, close_worlds, dry, folder_world, memory, replay

FOLDERS = ["claude-code-jsonl", "codex-rollout"]


def sessions(folder):
    for path in shared_files(folder):
        taped = Taped()
        imported = import_transcript(
            str(path), trail_key=KEY, put_object=lambda data, taped=taped: taped.objects.put(data).value
        )
        taped._reader = TrailReader(imported.trail)
        yield taped, imported.cwd or ""


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_real_session_replays_dry(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    count = 0
    for taped, cwd in sessions(folder):
        one, report = replay(taped, dry(taped), recorded_root=cwd)
        ops = Counter(opcode_name(step.code) for step in taped.reader.steps())
        assert report.steps == taped.reader.step_count == sum(report.states.values())
        asked = sum(number for op, number in ops.items() if op in PERFORMED)
        answered = report.states.get("would", 0) + report.states.get("denied", 0)
        assert answered <= asked  # but for steps that were denied or cancelled in the session itself
        assert answered >= asked * 0.8
        assert report.states.get("done", 0) == ops["NOP"] + ops["LABEL"] + ops["COMMENT"]
        data = replay_trail([taped.reader], taped.reader.digest, one, report, world="dry", secret=bytes(32),
                            put_text=lambda data, taped=taped: taped.objects.put(data).value)  # fmt: skip
        assert verify(data).ok
        assert TrailReader(data).header.parents == (Digest("sha256", taped.reader.digest),)
        count += 1
    assert count >= 5
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_real_sessions_replay_the_same_in_memory_and_in_a_folder(folder, tmp_path):
    """Without their repositories most edits fail, and they must fail alike; what a session writes from nothing appears."""
    small = sorted(sessions(folder), key=lambda one: one[0].reader.step_count)[:4]
    for number, (taped, cwd) in enumerate(small):
        place = tmp_path / str(number) / "r"
        world = memory(taped)
        one, _ = replay(taped, world, recorded_root=cwd)
        two, _ = replay(taped, folder_world(taped, place), recorded_root=cwd)
        close_worlds()
        outcomes = [[(done.index, done.state, done.outcome) for done in each.outcomes] for each in (one, two)]
        assert outcomes[0] == outcomes[1]
        inside = {str(path.relative_to(place / "files")): path.read_bytes() for path in (place / "files").rglob("*")
                  if path.is_file() and ".git" not in path.relative_to(place / "files").parts}  # fmt: skip
        assert inside == world.files
        assert [path.name for path in (tmp_path / str(number)).iterdir()] == ["r"]
