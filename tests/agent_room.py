"""A whole session of the agent over a real store, with a scripted model: for tests of what joins a session beside its core."""

from __future__ import annotations

import os
from contextlib import contextmanager

from agent_tools_support import HOST_ENVIRONMENT
from periplus.agent.assembly import SessionOptions, begin
from periplus.agent.models.scripted import ScriptedClient
from periplus.agent.settings import SETTINGS, Settings
from periplus.journal import Writer
from periplus.project import Project


def settings_of(*, trusted=False, **more):
    values = {setting.name: setting.default for setting in SETTINGS} | {"mode": "autonomous"} | more
    return Settings(values, dict.fromkeys(values, "test"), trusted=trusted)


class Place:
    """A project folder with a store and a user's folder of settings beside it."""

    def __init__(self, tmp_path):
        self.root, self.config, self.home = tmp_path / "project", tmp_path / "config", tmp_path / "home"
        for folder in (self.root, self.config, self.home):
            folder.mkdir(exist_ok=True)
        if not (self.root / ".periplus").exists():
            Project.init(os.fspath(self.root), store=os.fspath(self.root))

    def project(self, session="s1"):
        return Project.open(os.fspath(self.root), Writer("agent", "agt_test", session))

    @contextmanager
    def session(self, script=(), *, trusted=False, name="s1", client=None, settings=None, **more):
        client = client or ScriptedClient(script)
        with self.project(name) as project:
            begun = SessionOptions(
                settings=settings or settings_of(trusted=trusted), name=name, title="a test", environment=HOST_ENVIRONMENT,
                home=os.fspath(self.home), model="scripted", hidden=(os.fspath(self.config),), config=os.fspath(self.config), **more,
            )  # fmt: skip
            with begin(project, client, begun) as session:
                session.client = client
                yield session

    def skill(self, name, body="Do it well.", *, at=None, description="Says how it is done.", head=""):
        folder = (at or self.config / "skills") / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {description}\n{head}---\n{body}\n")
        return folder


def results(session):
    """What the model was told of its calls in its last request, in order."""
    messages, _ = session.client.requests[-1]
    return [message for message in messages if message.role == "tool"]


def system(session, at=0):
    return session.client.requests[at][0][0].content
