"""Observers of a run: the page of ``--monitor`` and the telemetry of ``--otel``, both only on request."""

from __future__ import annotations

__all__ = ["look_at", "observing"]

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from periplus.cli.common.face import Face

if TYPE_CHECKING:
    import argparse
    from types import FrameType

    from periplus.agent.events import Event, Sink
    from periplus.agent.observation.spans import Spans
    from periplus.agent.settings import Settings
    from periplus.project import Project
    from periplus.server.monitor import Desk


@contextmanager
def observing(
    face: Face, arguments: argparse.Namespace, settings: Settings, emit: Sink, session: str, title: str, model: str
) -> Iterator[Sink]:
    """Return the sink for the events of the run: ``emit``, and the observers. Raises EnvironmentFailure if the page's port is not available."""
    with ExitStack() as opened:
        sinks = [emit]
        if arguments.monitor:
            from periplus.server.monitor import Monitor

            desk = _desk(face, session, title=title, model=model, is_live=True)
            monitor = opened.enter_context(Monitor(desk, port=arguments.port or 0))
            _tell(face, monitor.url)
            sinks.append(monitor.tell)
        if settings.flag("telemetry"):
            from periplus.agent.observation.spans import open_spans

            spans = open_spans(session, model)
            opened.callback(_close_spans, face, spans)
            sinks.append(spans)

        def all_of_them(event: Event) -> None:
            for sink in sinks:
                sink(event)

        yield emit if len(sinks) == 1 else all_of_them


def look_at(face: Face, name: str, port: int) -> int:
    """Show a stored session until Ctrl-C, by default the last one. Additions by other processes are shown, too."""
    from periplus.cli.agent.schemas import RunMonitorOut
    from periplus.cli.agent.stats import stored_session
    from periplus.server.monitor import Monitor

    with face.open() as project:
        session = stored_session(project, name)
    over = threading.Event()

    def stop(_: int, __: FrameType | None) -> None:
        over.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with Monitor(_desk(face, session.name, title=session.title, model=session.model), port=port) as monitor:
            if face.as_json:
                face.emit(RunMonitorOut(session.name, monitor.url), lambda: ())
                face.stdout.flush()  # do not keep readers waiting until the end
            else:
                _tell(face, monitor.url)
            over.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 0


def _desk(face: Face, session: str, *, title: str, model: str, is_live: bool = False) -> Desk:
    """Answer requests of the page from a store of its own, opened by the thread that uses it."""
    from periplus.server.monitor import Desk

    def opening() -> Project:
        from periplus.project import Project

        return Project.open(face.cwd, face.writer(), store=face.store)

    return Desk(opening, session, title=title, model=model, is_live=is_live)


def _close_spans(face: Face, spans: Spans) -> None:
    left = spans.close()
    if left or spans.is_broken:
        what = f"{left} spans did not reach the collector" if left else "the SDK failed, so later spans are missing"
        face.stderr.write(f"periplus: {what}; the run is not affected.\n")


def _tell(face: Face, url: str) -> None:
    face.stderr.write(f"Page, for this user and until the command ends: {url}\n")
    face.stderr.flush()
