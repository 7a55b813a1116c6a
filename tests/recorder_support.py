"""Runs of real agents' shape in real repositories, for the tests of recording and of effects."""

from __future__ import annotations

import os

from cli_support import git
from periplus.base.clock import SystemClock
from periplus.base.files import Files
from periplus.base.text.secrets import mask_secrets
from periplus.journal import Writer
from periplus.project import Project
from periplus.project.trail_store.fleet_records import fleet_observers
from periplus.project.trail_store.recording import _announced
from periplus.trail.recording.live_step import StepMaker
from periplus.trail.recording.recorder import Recorder

WRITER = Writer("ada", "who_0000000000000000", "", 1)
SECRET = "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"


def open_project(folder, *, clock=None, files=None):
    """The project of ``folder``, its store made where there is none."""
    root = os.path.join(os.fspath(folder), ".periplus")
    if not os.path.isdir(root):
        Project.init(os.fspath(folder), store=os.fspath(folder), clock=clock)
    return Project(root, WRITER, clock=clock or SystemClock(), files=files or Files())


def recorder_of(project: Project) -> Recorder:
    """The recorder as the project makes it, for the calls that no face offers."""
    maker = StepMaker(mask_secrets, project.journal.objects.put)
    return Recorder(project.journal, project.writer, maker, lambda ended: _announced(project, ended), fleet_observers())


def maker_of(project: Project) -> StepMaker:
    return StepMaker(mask_secrets, project.journal.objects.put)


def repository(folder):
    """A repository with nested folders, a program, a link, Windows line endings, names of all scripts, and bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    files = {
        "engine.py": b"revision = 0\nsteam = True\n",
        "src/gears/cog.py": b"TEETH = 12\n",
        "src/gears/crown.py": b"TEETH = 24\n",
        "bin/start": b"#!/bin/sh\necho start\n",
        "docs/windows.txt": b"one\r\ntwo\r\nthree\r\n",
        "docs/\u00fcbersicht \u6f22\u5b57.md": "# \u00dcbersicht\n".encode(),
        "assets/logo.bin": bytes(range(256)) * 4,
        ".gitignore": b"build/\n*.log\n",
    }
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    (folder / "bin/start").chmod(0o755)
    (folder / "latest").symlink_to("src/gears")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "Build the engine")
    return folder


class Agent:
    """An agent that changes files and records what it does, step by step."""

    def __init__(self, folder, run) -> None:
        self.folder = folder
        self.run = run

    def write(self, path, data, *, content=None, mode=None):
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_bytes(data)
        if mode is not None:
            (self.folder / path).chmod(mode)
        return self.run.step("FILE_WRITE", path=path, content=data if content is None else content)

    def edit(self, path, old, new):
        data = (self.folder / path).read_bytes()
        assert data.count(old.encode()) == 1
        after = data.replace(old.encode(), new.encode())
        (self.folder / path).write_bytes(after)
        return self.run.step("FILE_EDIT", path=path, old=old, new=new, after=after)

    def delete(self, path):
        (self.folder / path).unlink()
        return self.run.step("FILE_DELETE", path=path)

    def move(self, source, target):
        (self.folder / target).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / source).rename(self.folder / target)
        return self.run.step("FILE_MOVE", source=source, target=target)

    def read(self, path):
        data = (self.folder / path).read_bytes()
        return self.run.step("FILE_READ", path=path, result=data)
