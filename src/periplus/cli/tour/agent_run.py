"""The last part of the tour: the agent fixes a small bug in a scratch repository. Everything is real except for the model, which is a recording."""

from __future__ import annotations

__all__ = ["mend"]

import os
from collections.abc import Callable
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from periplus.agent.events import Event
    from periplus.cli.common.face import Face

_FILES: Final = {
    "slug.sh": "#!/bin/sh\n# Prints its words in lower case, joined by hyphens.\nprintf '%s\\n' \"$*\" | tr 'A-Z' 'a-z' | tr ' ' '_'\n",
    "test.sh": "#!/bin/sh\ngot=$(sh slug.sh Set Sail At Dawn)\n"
    'if [ "$got" != set-sail-at-dawn ]; then\n  echo "wanted set-sail-at-dawn, got $got"\n  exit 1\nfi\necho passed\n',
}
_TASK: Final = "make test.sh pass"
_CHECK: Final = "sh test.sh"
_TALK: Final = "tour_talk.jsonl"


def mend(face: Face, folder: str, tell: Callable[[str], None]) -> dict[str, Any]:
    """Run the agent; return the results for --json. ``ok`` says whether everything is as expected, None if it could not be tried."""
    from periplus.agent.assembly import SessionOptions, begin
    from periplus.agent.models.conversation_replay import RecordedClient
    from periplus.agent.sandbox import find_sandbox
    from periplus.agent.settings import load_settings
    from periplus.cli.tour.scratch_repository import commit_all
    from periplus.project import Project
    from periplus.project.trail_store.git_effects import trail_effects
    from periplus.trail import verify

    sandbox = find_sandbox(face.environment.get("PATH", os.defpath))
    if sandbox.layer == "none":
        tell(f"skipped: commands cannot be sandboxed on this machine ({sandbox.about})")
        return {"ok": None, "sandbox": sandbox.layer}
    os.makedirs(folder)
    for name, text in _FILES.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    if not commit_all(folder, "Slugs"):
        tell("skipped: git is not installed")
        return {"ok": None, "sandbox": sandbox.layer}
    Project.init(folder)
    flags = {"mode": "autonomous", "oracle": _CHECK, "model": "recorded"}
    settings = load_settings(os.path.join(folder, "nobody"), folder, trusted=False, environment={}, flags=flags)
    tell(f"“{_TASK}”, commands in the sandbox {sandbox.layer}")
    with (
        Project.open(folder, face.writer(), store=folder) as project,
        as_file(files(__package__).joinpath(_TALK)) as talk,
    ):
        begun = SessionOptions(
            settings=settings, name="tour", title=_TASK, environment=face.environment, home=face.home, model="recorded",
            sandbox=sandbox, emit=_Lines(tell),
        )  # fmt: skip
        with begin(project, RecordedClient(str(talk), strict=False), begun) as session:
            ended = session.turn(_TASK)
        found = project.trail_bytes(session.trail_id)
        report = verify(found.data, store=project.journal.objects)
        parts = [part.effects for part in trail_effects(found.data, folder, project.journal.objects, folder)]
        steps = sum(len(part.steps) for part in parts)
    is_shown = report.ok and all(part.verdict == "verified" for part in parts)
    tell(f"— {ended.reason}{': ' + ended.note if ended.note else ''}")
    verdicts = ", ".join(sorted({part.verdict for part in parts}))
    tell(
        f"{session.trail_id}: {'sound' if report.ok else 'NOT sound'}; its effects on the files: {verdicts}, {steps} judged"
    )
    return {"ok": ended.reason == "done" and is_shown, "sandbox": sandbox.layer, "trail": session.trail_id,
            "reason": ended.reason, "effects": verdicts}  # fmt: skip


class _Lines:
    """A sink that prints the events of a run as lines of the tour."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def __call__(self, event: Event) -> None:
        from periplus.agent.events import AnswerCompleted, ToolEnded, ToolStarted

        if isinstance(event, AnswerCompleted) and event.text:
            self._tell(event.text)
        elif isinstance(event, ToolStarted):
            edits = event.args.get("edits") or [{}]
            self._tell(
                f"· {event.name} {event.args.get('path') or event.args.get('command') or edits[0].get('path', '')}"
            )
        elif isinstance(event, ToolEnded) and event.outcome != "ok":
            self._tell(f"    {event.outcome}: {' '.join(event.output.split())}")
