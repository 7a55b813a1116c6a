"""``periplus trail export --format html``: one session as one file, or all sessions as a folder."""

from __future__ import annotations

__all__ = ["export_html", "withheld_names"]

import argparse
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from periplus.cli.common.face import Face, counted, visible
from periplus.cli.trail.inputs import TrailsByDigest, named_trail, reading, trail_readers

if TYPE_CHECKING:
    from periplus.journal import Entity
    from periplus.project import Project
    from periplus.web.sessions.shared_file import FileOptions, MadeFile
    from periplus.web.sessions.site import Session


def export_html(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.web.sessions.shared_file import FileOptions

    options = FileOptions(arguments.with_trail, withheld_names(arguments.withhold))
    if arguments.all:
        return _export_all(face, arguments, options)
    return _export_one(face, arguments, options)


def withheld_names(text: str | None) -> frozenset[str]:
    from periplus.base.errors import UsageError
    from periplus.web.sessions.cleaning import NAMES

    names = frozenset(word.strip() for word in text.split(",")) if text is not None else frozenset[str]()
    if "" in names:
        raise UsageError("--withhold: a name is empty", safe="Nothing was written.", mend="Separate names by commas.")
    wrong = sorted(names - set(NAMES))
    if wrong:
        raise UsageError(f"--withhold: there is no field {wrong[0][:40]!r}", safe="Nothing was written.",
                         mend=f"Fields: {', '.join(NAMES)}.")  # fmt: skip
    return names


# One session


def _export_one(face: Face, arguments: argparse.Namespace, options: FileOptions) -> int:
    from periplus.base.errors import DamageError, FormatError, UsageError
    from periplus.base.files import Files, write_atomic
    from periplus.cli.common.inputs import check_target
    from periplus.cli.trail.schemas import TrailExportOut
    from periplus.web.sessions.shared_file import make_file

    if arguments.out is not None:
        check_target(os.path.join(face.cwd, arguments.out))
    elif arguments.json:
        raise UsageError("a page cannot be printed as JSON", safe="Nothing was written.",
                         mend="Name a file with --out, or use --format jsonl.")  # fmt: skip
    found, store = named_trail(face, arguments.trail)
    trail_readers(found)  # its errors say more
    try:
        made = make_file(found.data, reading(store), options, trail_of=TrailsByDigest(face))
    except FormatError as error:
        raise DamageError(error.wrong, path=found.name, offset=error.offset, safe="Nothing was written.",
                          mend="See `periplus trail verify`.") from error  # fmt: skip
    if arguments.out is None:
        face.out(made.data.decode(), end="")
        return 0
    path = face.path(arguments.out)
    write_atomic(Files(), path, made.data)
    result = TrailExportOut(path, "html", made.notes.digest, len(made.data), False)
    return face.emit(result, lambda: _told(path, made))


def _told(path: str, made: MadeFile) -> Iterator[str]:
    import shlex

    with_trail = " with the trail itself" if made.notes.has_trail else ""
    yield f"Wrote {visible(path)} ({len(made.data):,} bytes): html of trail {made.notes.digest[:16]}{with_trail}"
    if made.notes.parts:
        yield f"  with {counted(len(made.notes.parts), 'trails')} of its subagents"
    if made.withheld:
        yield f"  {counted(made.withheld, 'texts')} {'are' if made.withheld > 1 else 'is'} withheld"
    if made.left_out:
        yield f"  {counted(made.left_out, 'steps')} at the end left out of the page"
    yield f"  texts of over {made.notes.characters:,} characters are cut"
    yield f"To check it: periplus trail verify {visible(shlex.quote(os.path.basename(path)))}"


# All sessions


def _export_all(face: Face, arguments: argparse.Namespace, options: FileOptions) -> int:
    from periplus.base.errors import UsageError
    from periplus.cli.trail.schemas import TrailSiteOut
    from periplus.web.sessions.site import SiteFiles, write_site

    if arguments.out is not None:
        raise UsageError("--all writes a folder, not a file", safe="Nothing was written.",
                         mend="Omit --out, and name the folder.")  # fmt: skip
    folder = face.path(arguments.trail)
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise UsageError(f"{folder} is not a folder", safe="Nothing was written.", mend="Name another.")
    with face.open() as project:
        sessions = [_session(trail) for trail in project.trails() if trail.value.get("format") != "git"]
        files = SiteFiles(_trail_of(project), reading(project.journal.objects))
        done = write_site(folder, sessions, files, options, face.progress("writing pages"))
    face.clear_progress()
    failed = [f"{name}: {why}" for name, why in done.failed]
    result = TrailSiteOut(folder, done.written, done.unchanged, done.removed, done.bytes, failed)

    def lines() -> Iterator[str]:
        sessions_count = done.written + done.unchanged
        yield f"{visible(folder)}: {counted(sessions_count, 'sessions')}, {done.bytes:,} bytes; {done.written:,} written, {done.unchanged:,} unchanged, {done.removed:,} removed"
        for one in failed:
            yield f"  {face.palette.bad}not written{face.palette.end}  {visible(one)}"
        yield f"Open {visible(os.path.join(folder, 'index.html'))}, or serve the folder."

    return face.emit(result, lines, 1 if failed else 0)


def _session(trail: Entity) -> Session:
    from periplus.web.sessions.site import Session

    card = trail.value
    counts = card.get("counts")
    steps = counts.get("steps") if isinstance(counts, dict) else 0

    def text(name: str) -> str:
        return str(card.get(name, "") or "")

    title = " ".join(text("title").split())[:200] or trail.item_id
    return Session(
        trail.item_id, text("digest"), text("object"), title, text("agent")[:100], text("started"),
        steps if isinstance(steps, int) else 0, text("status")[:40], bool(card.get("parent")),
    )  # fmt: skip


def _trail_of(project: Project) -> Callable[[str], bytes]:
    return lambda name: project.trail_bytes(name).data
