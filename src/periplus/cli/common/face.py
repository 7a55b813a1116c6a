"""The surroundings of a command: environment, working folder, terminal, output, and the project.

Only this module reads environment, working folder, terminal and user; the layers below receive values.
"""

from __future__ import annotations

__all__ = [
    "Bar",
    "Face",
    "Palette",
    "columns",
    "counted",
    "cut_short",
    "give_up_output",
    "number",
    "plain",
    "safe_json",
    "unwritable",
    "visible",
]

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, TextIO

from periplus.base.named_tuple import NamedTuple

if TYPE_CHECKING:
    import msgspec

    from periplus.base.errors import PeriplusError
    from periplus.cli.common.schemas import RecordOut
    from periplus.journal import Journal, Writer
    from periplus.project import Project

PROGRESS_AFTER_S: Final = 1.0
_PROGRESS_EVERY_S: Final = 0.1
_BAR: Final = 24
_TOLD_MAX: Final = 800
_PAUSE_S: Final = 5.0  # a report after a longer pause belongs to the next piece of work


class Palette(NamedTuple):
    """SGR codes, or empty strings without colour."""

    bold: str = ""
    dim: str = ""
    good: str = ""
    bad: str = ""
    warn: str = ""
    name: str = ""
    end: str = ""


_COLOURS: Final = Palette("\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[31m", "\x1b[33m", "\x1b[36m", "\x1b[0m")


class Bar:
    """A progress bar as text. A long command may report several pieces of work in a row; each bar appears after a second of its own."""

    def __init__(self, label: str, now_s: float) -> None:
        self._label = label
        self._begun_s = self._heard_s = self._drawn_s = now_s
        self._done = 0

    def line(self, done: int, total: int, now_s: float, width: int) -> str:
        """Return the bar to draw now. Empty within the first second, and too soon after the last drawing."""
        if done < self._done or now_s - self._heard_s > _PAUSE_S:
            self._begun_s = self._drawn_s = now_s
        self._heard_s, self._done = now_s, done
        if now_s - self._begun_s < PROGRESS_AFTER_S or now_s - self._drawn_s < _PROGRESS_EVERY_S:
            return ""
        self._drawn_s = now_s
        share = f"{100 * done // total:3d} %" if total else f"{done:,}"
        room = min(_BAR, width - len(self._label) - len(share) - 5)
        if room < 1:
            return f"{self._label} {share}"[: max(width - 1, 0)]
        filled = room * done // total if total else 0
        return f"{self._label} [{'#' * filled}{'.' * (room - filled)}] {share}"


class Face:
    """One call of the command line."""

    def __init__(
        self, stdout: TextIO, stderr: TextIO, environment: Mapping[str, str], cwd: str, *, as_json: bool, store: str | None,
        color: str, name: str | None,
    ) -> None:  # fmt: skip
        self.stdout = stdout
        self.stderr = stderr
        self.environment = environment
        self.cwd = cwd
        self.as_json = as_json
        self.store_option = store or None
        self.store = store or environment.get("PERIPLUS_STORE") or None
        self.color = color
        self._name = name
        self._is_bar_drawn = False
        self.draws_bars = True  # False while a person types in a line at the bottom
        self._is_warned = False
        self.is_unheard = (
            getattr(stdout, "name", "") == os.devnull
        )  # the caller closed it: see ``main._prepare_streams``
        self.code = 0  # the exit code, once it is known
        self._project: Project | None = None

    @property
    def palette(self) -> Palette:
        if self.color == "never" or (self.color == "auto" and not self._may_colour()):
            return Palette()
        return _COLOURS

    @property
    def width(self) -> int | None:
        """Columns of the terminal; None for a file or a pipe, where lines are not cut."""
        if not self.stdout.isatty():
            return None
        try:
            return max(20, int(self.environment.get("COLUMNS", "")))
        except ValueError:
            pass
        try:
            return max(20, os.get_terminal_size(self.stdout.fileno()).columns)
        except OSError:
            return 80

    @property
    def height(self) -> int | None:
        """Rows of the terminal; None for a file or a pipe, or if unknown."""
        if not self.stdout.isatty():
            return None
        try:
            return max(1, int(self.environment.get("LINES", "")))
        except ValueError:
            pass
        try:
            return os.get_terminal_size(self.stdout.fileno()).lines or None
        except OSError:
            return None

    @property
    def home(self) -> str:
        return self.environment.get("HOME") or os.path.expanduser("~")

    def path(self, name: str) -> str:
        """Return the absolute path of a file named on the command line. ``..`` is resolved, so that messages show a readable path."""
        path = os.path.join(self.cwd, name)
        if os.pardir not in path.split(os.sep):
            return os.path.normpath(path)
        above, last = os.path.split(path.rstrip(os.sep))
        return os.path.realpath(path) if last in (os.curdir, os.pardir) else os.path.join(os.path.realpath(above), last)

    def open(self, *, allow_secrets: bool = False, in_hurry: bool = False) -> Project:
        """Open the project of the working folder, or the one named by --store."""
        from periplus.project import Project

        self._project = Project.open(
            self.cwd,
            self.writer(),
            store=self.store,
            allow_secrets=allow_secrets,
            progress=self.progress("rebuilding the index"),
            in_hurry=in_hurry,
            embeddings=os.path.expanduser(self.environment.get("PERIPLUS_EMBEDDINGS", "")),
        )
        return self._project

    def warn_of_folder(self) -> None:
        """Warn on standard error that a mirrored folder of version 1 is not up to date; the journal is complete."""
        keeper = self._project.keeper if self._project is not None else None
        if keeper is not None and keeper.failure:
            self.stderr.write(
                f"periplus: the version 1 folder is not up to date: {visible(keeper.failure)}\nSee `periplus migrate`.\n"
            )

    def discard_index(self, error: Exception) -> bool:
        """Delete the index if ``error`` means that it is damaged (it is derived); return whether that was done."""
        sqlite3 = sys.modules.get("sqlite3")
        if sqlite3 is None or not isinstance(error, sqlite3.DatabaseError):
            return False
        from periplus.base.errors import EnvironmentFailure
        from periplus.journal.index.connection import index_failure
        from periplus.project import Project

        is_foreign = "malformed" in str(error) or str(error).startswith("no such")  # tables of another version
        if isinstance(error, sqlite3.OperationalError) and not is_foreign:
            raise index_failure(error, "Repeat the command.") from error
        try:
            Project.discard_index(self.cwd, store=self.store)
        except OSError as trouble:
            raise EnvironmentFailure(
                f"the index is damaged, and deleting it failed: {trouble.strerror} ({trouble.filename})",
                safe="The journal is intact, and the index is derived from it.",
                mend="Delete that file; the next command rebuilds it.",
            ) from error
        return True

    def writer(self) -> Writer:
        """Return the writer: --as, PERIPLUS_AGENT, or the user's login name."""
        from periplus.journal import Writer

        name = _whole(self._name or self.environment.get("PERIPLUS_AGENT") or self._login())
        return Writer.named(name, session=_whole(self.environment.get("PERIPLUS_SESSION", "")))

    def out(self, text: str = "", end: str = "\n") -> None:
        try:
            self.stdout.write(text + end)
        except OSError as error:
            raise unwritable(error) from error

    def flush(self) -> None:
        """Flush standard output. Raises BrokenPipeError, EnvironmentFailure."""
        try:
            self.stdout.flush()
        except OSError as error:
            raise unwritable(error) from error

    def emit(self, result: msgspec.Struct, lines: Callable[[], Iterable[str]], code: int = 0) -> int:
        """Print the result as one JSON document, or as lines for people; return ``code``.

        ``code`` is kept in the face, so that the command exits with it even if the reader closes the pipe early.
        """
        self.code = code
        if self.as_json:
            import msgspec

            try:
                text = msgspec.json.encode(result).decode()
            except UnicodeEncodeError:  # a path whose bytes are no UTF-8: its lone surrogates stay escapes
                import json

                text = json.dumps(msgspec.to_builtins(result))
            self.out(safe_json(text))
            return code
        for line in lines():
            self.out(line if line.isprintable() else self._harmless(line))
        return code

    def _harmless(self, line: str) -> str:
        """Escape terminal control characters in ``line``, except our own colours: ids and types from elsewhere may be any text."""
        codes = [code for code in self.palette if code]
        if not codes:
            return _with_breaks(line)
        import re

        parts = re.split(f"({'|'.join(map(re.escape, codes))})", line)
        return "".join(part if part in codes else _with_breaks(part) for part in parts)

    def tell_terminal(self, text: str) -> None:
        """Tell a person at a terminal what the command waits for. Programs get no such line."""
        if self.stderr.isatty():
            self.clear_progress()
            self.stderr.write(f"({text})\n")
            self.stderr.flush()

    def tell_reading(self, what: str) -> None:
        if sys.stdin is not None and sys.stdin.isatty():
            self.tell_terminal(f"reading {what} from the terminal; Ctrl-D ends it")

    def wait(self, seconds: float) -> bool:
        """Sleep; return True at once if the reader of our output is gone."""
        import select

        poll = select.poll()
        poll.register(self.stdout.fileno(), 0)
        return bool(poll.poll(1000 * seconds))

    def warn(self, damage: Exception | None) -> None:
        """Warn on standard error that the store is damaged and only its intact part was read."""
        if damage is not None and not self._is_warned:
            self._is_warned = True
            self.stderr.write(
                f"periplus: {visible(str(damage))}\nOnly the intact part was read. Run `periplus doctor`.\n"
            )

    def warn_of_search(self, journal: Journal) -> None:
        """Warn on standard error about entities that a search cannot see yet: the index is busy or read-only, or their write is
        not synced. Then ``warn``.
        """
        self.warn(journal.damage)
        count = len(journal.unindexed())
        if count:
            what = "1 entity that was" if count == 1 else f"{count:,} entities that were"
            if journal.damage is None and journal.durable_end() < journal.end().next_seq - 1:
                self.stderr.write(f"periplus: {what} written last cannot be searched yet: the write may not be on disk, because its process was stopped.\n"
                                  "The next write completes it; `periplus show ID` works now.\n")  # fmt: skip
                return
            self.stderr.write(f"periplus: {what} written just now cannot be searched yet: another process is updating the index.\n"
                              "The results shown are correct. Repeat the command in a moment; `periplus show ID` works now.\n")  # fmt: skip

    @property
    def damage(self) -> Exception | None:
        """The damage found in the project's journal, if a project was opened."""
        return self._project.journal.damage if self._project is not None else None

    def progress(self, label: str) -> Callable[[int, int], None]:
        """Return a callback ``(done, total)`` that draws a bar on a terminal once the work takes longer than a second."""
        bar = Bar(label, time.monotonic())

        def report(done: int, total: int) -> None:
            if not self.draws_bars or not self.stderr.isatty():
                return
            line = bar.line(done, total, time.monotonic(), os.get_terminal_size(self.stderr.fileno()).columns or 80)
            if not line:
                return
            self._is_bar_drawn = True
            self.stderr.write(f"\r{line}\x1b[K")
            self.stderr.flush()
            if total and done >= total:
                self.clear_progress()

        return report

    def clear_progress(self) -> None:
        if self._is_bar_drawn:
            self.stderr.write("\r\x1b[K")
            self._is_bar_drawn = False

    def _may_colour(self) -> bool:
        environment = self.environment
        return self.stdout.isatty() and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"

    def _login(self) -> str:
        for variable in ("LOGNAME", "USER"):
            if self.environment.get(variable):
                return self.environment[variable]
        import pwd

        try:
            return pwd.getpwuid(os.getuid()).pw_name
        except KeyError:
            return f"uid {os.getuid()}"


def visible(text: str, width: int | None = None, *, lines: bool = False) -> str:
    """Make stored text safe for a terminal: escape control characters, and cut it at ``width`` columns.

    Texts in a store come from agents and strangers; they must not move the cursor or set the window's title.
    """
    shown = text if text.isprintable() else "".join(_shown(character, lines=lines) for character in text)
    if width is not None and columns(shown) > width:
        room, end = max(1, width) - 1, 0
        while (room := room - columns(shown[end])) >= 0:
            end += 1
        return shown[:end] + "…"
    return shown


def _with_breaks(text: str) -> str:
    return "\t".join(visible(part, lines=True) for part in text.split("\t"))


def cut_short(text: str) -> str:
    """Cut a long text in the middle: typed text may have any length, and the end of a path says most."""
    return text if len(text) <= _TOLD_MAX else f"{text[: _TOLD_MAX // 2]} … {text[-_TOLD_MAX // 2 :]}"


def _shown(character: str, *, lines: bool) -> str:
    if character.isprintable() or character in _HARMLESS or (lines and character == "\n"):
        return character
    if character in "\n\t":
        return " "
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_HARMLESS: Final = frozenset("\u00a0\u202f\u3000\u200d")  # typographic spaces, and the joiner within an emoji


def safe_json(text: str) -> str:
    """Escape terminal control characters in a JSON text; the document stays the same."""
    return text if text.isprintable() else "".join(c if c.isprintable() else _json_escape(c) for c in text)


def _json_escape(character: str) -> str:
    # Such characters occur only in JSON strings, where an escape means the same.
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def unwritable(error: OSError) -> OSError | PeriplusError:
    """Return the error for a standard output that cannot be written after the command was carried out."""
    from periplus.base.errors import EnvironmentFailure

    if isinstance(error, BrokenPipeError):
        return error
    return EnvironmentFailure(f"standard output cannot be written: {error.strerror or error}",
                              safe="The command itself was carried out.", mend="Check `periplus log` before you repeat it.")  # fmt: skip


def give_up_output() -> None:
    """Send all further output to nowhere, after standard output failed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def counted(count: int, name: str) -> str:
    """Format a count with its noun: ``3 model calls``, ``1 model call``."""
    words = name.replace("_", " ")
    return f"{count:,} {words.replace('tools ', 'tool ').removesuffix('s') if count == 1 else words}"


def seq_shown(record: RecordOut, own: str) -> str:
    """Format a seq: ``12``, or ``12@r7832x`` for another lineage than ``own``, with the distinctive end of its id."""
    return f"{record.seq}@{record.lineage[-6:]}" if record.lineage != own else f"{record.seq}"


def columns(text: str) -> int:
    """Return how many terminal columns ``text`` takes."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(
        0 if unicodedata.combining(character) or character == "\u200d"
        else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )  # fmt: skip


def number(least: int, most: int = 2**53 - 1) -> Callable[[str], int]:
    """Return a parser for whole numbers from ``least`` to ``most``, for argparse."""

    def read(text: str) -> int:
        from argparse import ArgumentTypeError

        try:
            found = int(text.encode("ascii")) if len(text) <= 20 else most + 1
        except ValueError:
            raise ArgumentTypeError(f"{text!r} is not a whole number") from None
        if not least <= found <= most:
            raise ArgumentTypeError(f"{text[:30]} is not between {least} and {most}" if most < 2**53 - 1 or found > least
                                    else f"{text[:30]} is too small: the least is {least}")  # fmt: skip
        return found

    return read


def plain(text: str, what: str) -> str:
    """Return ``text``. Raises UsageError if it is not UTF-8 and so cannot be stored."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        from periplus.base.errors import UsageError

        raise UsageError(
            f"{what} is not UTF-8 text (character {error.start})", safe="Nothing was changed.", mend="Convert it first."
        ) from error
    return text


def _whole(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def standard_face(*, as_json: bool, store: str | None, color: str, name: str | None) -> Face:
    """Return the face of this process. Raises UsageError if its working folder is gone."""
    try:
        cwd = os.getcwd()
    except OSError as error:
        from periplus.base.errors import UsageError

        raise UsageError(f"the working folder cannot be determined: {error.strerror}", safe="Nothing was changed.",
                         mend="Change to a folder that exists.") from error  # fmt: skip
    return Face(sys.stdout, sys.stderr, os.environ, cwd, as_json=as_json, store=store, color=color, name=name)
