"""The code map as a page asks it: within a short time, with what is left to a job in the background."""

from __future__ import annotations

__all__ = ["Lacks", "code_map", "command_line", "lacks_of", "project_path"]

import shlex
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from periplus.base.errors import EnvironmentFailure, RefusedError, UsageError
from periplus.base.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from periplus.code.code_map import CodeMap
    from periplus.code.queries.file_sizes import FileSize
    from periplus.project import Project
    from periplus.web.pages.model import Asked

WAIT_S: Final = 0.4
_STEP_S: Final = 0.02
_WHOLE_S: Final = 3_600.0
_JOB: Final = "the index of the code"
PATH_CHARACTERS_MAX: Final = 4_000


class Lacks(NamedTuple):
    """Gaps of an answer: files that wait to be parsed, files whose parser is not installed, what git did not tell, and where
    dependents were asked for, the graph.
    """

    waiting: int = 0
    without_parser: int = 0
    why: str = ""
    has_git: bool = True
    has_graph: bool = True


@contextmanager
def code_map(asked: Asked, *, may_be_empty: bool = False) -> Iterator[CodeMap]:
    """Open the code map of the worktree. What WAIT_S does not suffice for is done in the background.

    With ``may_be_empty`` also the first look at a large project, which takes seconds: until then the map has no files, and says that they wait.
    """
    from periplus.code.code_map import CodeMap
    from periplus.journal import Layout

    project = asked.project
    place = Layout(project.root).code

    def go_on() -> None:
        _go_on(asked)

    is_hurried = may_be_empty and _is_first_look_under_way(asked, place)
    try:
        opened = CodeMap(
            project.top, place, environment=asked.context.environment, budget_s=WAIT_S, go_on=go_on,
            is_hurried=is_hurried,
        )  # fmt: skip
    except (OSError, sqlite3.OperationalError) as error:
        raise EnvironmentFailure(
            f"the index of the code map cannot be written: {error}", safe="Nothing was lost: it is derived from the files.",
            mend="Serve a copy of the store in a folder that can be written, or free some disk space.",
        ) from error  # fmt: skip
    with opened:
        yield opened


def _go_on(asked: Asked) -> bool:
    """Have the index brought up to date in the background. Return False where other long work goes first; the next look asks again."""
    try:
        asked.context.background.start(_JOB, _index)
    except RefusedError:
        return False
    return True


def _is_first_look_under_way(asked: Asked, place: str) -> bool:
    """Return True while the background looks at the worktree for the first time, and that takes longer than WAIT_S."""
    from periplus.code.index.glance import has_view

    top = asked.project.top
    if has_view(place, top) or not _go_on(asked):
        return False
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until:
        job = asked.context.background.job(_JOB)
        if job is None or not job.is_running or has_view(place, top):
            return False
        time.sleep(_STEP_S)
    return True


def _index(project: Project, progress: Callable[[int, int], None]) -> str:
    """Bring the index and its graph up to date."""
    from periplus.code.code_map import CodeMap
    from periplus.interop.git_history.git_process import environment
    from periplus.journal import Layout

    with CodeMap(
        project.top, Layout(project.root).code, environment=environment(), budget_s=_WHOLE_S, progress=progress
    ) as opened:
        opened.view(with_graph=True)
        return f"{opened.freshness.parsed:,} files parsed"


def lacks_of(opened: CodeMap, files: Sequence[FileSize] = ()) -> Lacks:
    """Return what the last answer of ``opened`` lacks."""
    from periplus.code.listing.repository import find_repository

    return Lacks(
        opened.freshness.waiting,
        sum(file.state == "no_parser" for file in files),
        opened.freshness.why,
        find_repository(opened.root) is not None,
        opened.freshness.has_graph,
    )


def command_line(*words: str) -> str:
    """Return ``periplus`` with ``words``, the last of which may be anybody's, as a shell reads them."""
    *first, last = words
    is_option_like = last.startswith("-") and last != "--diff"
    return shlex.join(["periplus", *first, *(["--"] if is_option_like else []), last])


def project_path(text: str) -> str:
    """Return a path of an address in the form of the index. Raises UsageError for one that leads out of the project."""
    path = text.strip("/")[:PATH_CHARACTERS_MAX]
    if "\0" in path or any(part in ("", ".", "..") for part in path.split("/") if path):
        raise UsageError("this path does not lie in the project", safe="Nothing was read.", mend="Begin at /code.")
    return path
