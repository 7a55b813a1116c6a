"""The tour is the first thing that a person sees: it must tell the truth, on a real repository, in seconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support import SHARED

PROGRAM = Path(sys.executable).with_name("periplus")
SESSION = SHARED / "transcripts" / "claude-code-jsonl" / "33210c2e180b-0" / "full.jsonl"


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "répo with space"
    folder.mkdir()
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_AUTHOR_DATE": "2026-01-02T03:04:05Z"}

    def git(*arguments):
        identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
        subprocess.run(["git", *identity, *arguments], cwd=folder, env=environment, check=True, capture_output=True)

    git("init", "-q")
    for number, names in enumerate((["auth.py"], ["auth.py", "db.py", "ünïcode.py"], ["auth.py"])):
        for name in names:
            (folder / name).write_text(f"number = {number}\n")
        git("add", "-A")
        git("commit", "-q", "-m", f"Change number {number}")
    return folder


def tour(folder, *arguments, home):
    begun = time.monotonic()
    environment = {**os.environ, "HOME": str(home), "COLUMNS": "100"}
    done = subprocess.run(
        [PROGRAM, "tour", *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )
    return done, time.monotonic() - begun


@pytest.mark.slow
def test_the_tour_of_a_repository(repository, tmp_path):
    before = sorted(path.name for path in repository.iterdir())
    done, seconds = tour(repository, "--json", home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    steps = json.loads(done.stdout)["steps"]
    assert steps["import"]["trails"][0]["counts"]["commits"] == 3
    assert list(steps["verify"].values()) == [True]
    assert [memory["found_first"] for memory in steps["memory"]] == [True, True]
    assert steps["brief"]["tokens"] <= steps["brief"]["budget"]
    assert "damage" in steps["tamper"]["found"][0]
    assert steps["tamper"]["original"] == 0
    assert (steps["proof"]["holds"], steps["proof"]["forged_holds"]) == (True, False)
    agent = steps["agent"]
    if agent["sandbox"] == "none":
        assert agent["ok"] is None
    else:
        assert (agent["ok"], agent["reason"], agent["effects"]) == (True, "done", "verified")
    assert sorted(path.name for path in repository.iterdir()) == before
    assert seconds < 30  # a promise to the person who waits, twenty times what it takes


@pytest.mark.slow
def test_the_tour_tells_its_story_in_text(repository, tmp_path):
    done, _ = tour(repository, home=tmp_path)
    assert done.returncode == 0
    titles = [line.partition(" ")[0] for line in done.stdout.splitlines() if line[:1].isdigit()]
    assert titles == [f"{n}." for n in range(1, 11)]
    assert "auth.py is the file that changes most often here: 3 of 3 commits" in done.stdout
    assert "\x1b" not in done.stdout
    assert "the store itself: sound" in done.stdout


@pytest.mark.slow
def test_the_tour_outside_git_and_with_a_kept_store(tmp_path):
    folder = tmp_path / "bare"
    folder.mkdir()
    done, _ = tour(folder, "--keep", "kept", home=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no git history here" in done.stdout
    status = subprocess.run(
        [PROGRAM, "status", "--store", "kept"], cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert status.returncode == 0
    again, _ = tour(folder, "--keep", "kept", home=tmp_path)
    assert again.returncode == 2


@pytest.mark.slow
@pytest.mark.skipif(not SESSION.exists(), reason="the shared transcripts are not beside this checkout")
def test_the_tour_with_a_real_session(repository, tmp_path):
    done, _ = tour(repository, "--transcript", str(SESSION), home=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "18 tools, 18 tools paired" in done.stdout
    assert "tests are failing" in done.stdout


def test_a_transcript_that_is_none_is_one_clear_error(repository, tmp_path):
    (repository / "not.jsonl").write_text("hello\n")
    done, _ = tour(repository, "--transcript", "not.jsonl", home=tmp_path)
    assert done.returncode == 2
    assert "not.jsonl" in done.stderr
    assert "Traceback" not in done.stderr
