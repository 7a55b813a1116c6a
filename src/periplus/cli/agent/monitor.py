"""Observers of a run: the page of ``--monitor`` and the telemetry of ``--otel``, both only on request."""

from __future__ import annotations

__all__ = ["look_at", "need_page", "observing"]

import signal
import threading
import urllib.parse
from collections.abc import Callable, Iterator
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
    from periplus.web.pages.model import LiveRun
    from periplus.web.server import WebServer


def need_page() -> None:
    """Raise UsageError where the packages of the page are not installed."""
    from periplus.web.server import missing_extra

    missing = missing_extra()
    if missing is not None:
        raise missing


@contextmanager
def observing(
    face: Face, arguments: argparse.Namespace, settings: Settings, emit: Sink, session: str, model: str
) -> Iterator[Sink]:
    """Return the sink for the events of the run: ``emit``, and the observers. Raises EnvironmentFailure if the page's port is not available."""
    with ExitStack() as opened:
        sinks = [emit]
        if arguments.monitor:
            from periplus.web.pages.run.growing_answer import GrowingAnswer

            growing = GrowingAnswer(session)
            server = opened.enter_context(_server(face, arguments.port or 0, growing))
            _tell(face, server.address(_page(session)))

            def monitor(event: Event) -> None:
                growing.take(event)
                server.wake()

            sinks.append(monitor)
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

    with face.open() as project:
        session = stored_session(project, name)
    over = threading.Event()

    def stop(_: int, __: FrameType | None) -> None:
        over.set()

    servers: list[WebServer] = []

    def told(_: str) -> None:
        if not face.as_json:
            face.tell_terminal(f"a browser has entered; for another one: {servers[0].address(_page(session.name))}")

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with _server(face, port, None, told) as server:
            servers.append(server)
            url = server.address(_page(session.name))
            if face.as_json:
                face.emit(RunMonitorOut(session.name, url), lambda: ())
                face.stdout.flush()  # do not keep readers waiting until the end
            else:
                _tell(face, url)
            over.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 0


def _server(face: Face, port: int, run: LiveRun | None, told: Callable[[str], None] = lambda _: None) -> WebServer:
    """Return a server of pages that only read, with projects of its own, opened by the threads that use them."""
    from periplus import __version__
    from periplus.base.filesystem.store_location import find_root
    from periplus.web.server import WebOptions, WebServer

    writer = face.writer()

    def opening() -> Project:
        from periplus.project import Project

        return Project.open(face.cwd, writer, store=face.store)

    def on_defect(error: BaseException) -> None:
        face.stderr.write(f"periplus: a defect of the page: {type(error).__name__}: {error}\n")

    return WebServer(WebOptions(
        opening, find_root(face.cwd, face.store), writer, __version__, face.environment, face.home, face.cwd, told, on_defect,
        port=port, is_read_only=True, run=run,
    ))  # fmt: skip


def _page(session: str) -> str:
    return f"/run/{urllib.parse.quote(session)}"


def _close_spans(face: Face, spans: Spans) -> None:
    left = spans.close()
    if left or spans.is_broken:
        what = f"{left} spans did not reach the collector" if left else "the SDK failed, so later spans are missing"
        face.stderr.write(f"periplus: {what}; the run is not affected.\n")


def _tell(face: Face, url: str) -> None:
    face.stderr.write(f"Page, for one browser and until the command ends: {url}\n")
    face.stderr.flush()
