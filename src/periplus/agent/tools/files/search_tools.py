"""The tool ``search``: lines that match a pattern. Ripgrep, where installed, and Python give the same answer.

The choice of files, their order and the shown text are decided here for both; the engine only finds the matching lines of a file. Files
that could not be searched are named.
"""

from __future__ import annotations

__all__ = ["Engine", "find_engine", "search_tool"]

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from periplus.agent.contracts import Access, ToolResult
from periplus.agent.tools.files.folder_walk import Walk
from periplus.agent.tools.files.text_encoding import SNIFF_BYTES, is_binary
from periplus.agent.tools.files.workspace import Workspace
from periplus.agent.tools.text_pages.page_source import is_handle
from periplus.agent.tools.text_pages.pattern_matching import SEARCH_SECONDS_MAX, lines_of, matching_lines
from periplus.agent.tools.text_pages.search_patterns import Pattern
from periplus.agent.tools.tool_table import Arguments, Parameter, Tool
from periplus.base.errors import ConfinementError, EnvironmentFailure, NotFoundError, RefusedError
from periplus.base.filesystem.confined_folder import Confined, Entry

SHOWN_MAX: Final = 200
FILE_BYTES_MAX: Final = 16 << 20
_LINE_CHARS_MAX: Final = 400
_FILES_AT_ONCE: Final = 1_000
_BYTES_AT_ONCE: Final = 16 << 20
_FILE_LINES_MAX: Final = 2_000
_ANSWER_BYTES_MAX: Final = 64 << 20
_PARAMETERS: Final = (
    Parameter("pattern", "text", r"regular expression within a line; \w \d are ASCII", required=True, most=1_000),
    Parameter("path", "text", "file, folder or handle; default ."),
    Parameter("glob", "text", "only files that fit, e.g. **/*.py", most=500),
    Parameter("literal", "flag", "pattern is plain text"),
    Parameter("ignore_case", "flag"),
    Parameter("context", "integer", "lines around each match", least=0, most=10),
    Parameter("ignored", "flag", "also what .gitignore names"),
    Parameter("start", "integer", "first match", least=1),
)


class Found(NamedTuple):
    """A file and the numbers of its matching lines."""

    path: str
    lines: list[int]


Engine = Callable[[Confined, Pattern, Sequence[Entry], float], list[Found]]


def search_tool(work: Workspace, engine: Engine) -> Tool:
    def accesses(args: Arguments) -> list[Access]:
        return [Access(resource=work.resource(args.text("path", ".")), mode="read")]

    return Tool("search", "Find lines in files.", _PARAMETERS, lambda args: _search(work, engine, args), accesses)


def find_engine(path: str) -> Engine:
    """Ripgrep from the folders of ``path``, or Python."""
    import shutil

    folders = ":".join(folder for folder in path.split(":") if folder.startswith("/"))
    program = shutil.which("rg", path=folders) if folders else None
    return by_ripgrep(program) if program else by_python


def _search(work: Workspace, engine: Engine, args: Arguments) -> ToolResult:
    pattern = Pattern.parse(
        args.text("pattern"), is_literal=args.flag("literal"), ignores_case=args.flag("ignore_case")
    )
    path = args.text("path", ".") or "."
    start = args.integer("start", 1) - 1
    if is_handle(path):
        return _pages(work, pattern, path, start, args)
    name = work.path(path)
    walk = Walk(work.folder, with_ignored=args.flag("ignored"), unread=work.unread)
    notes: list[str] = []
    matches = _matches(work.folder, engine, pattern, _wanted(walk, name, args.text("glob"), notes), notes)
    shown = list(itertools.islice(matches, start, start + SHOWN_MAX + 1))
    is_cut = len(shown) > SHOWN_MAX
    rows = _rows(work.folder, shown[:SHOWN_MAX], args.integer("context"))
    notes += [f"cannot be listed: {why}" for why in walk.unread[:5]]
    notes += walk.told()
    if walk.stopped:
        notes.append(f"not everything was searched: {walk.stopped}; search a smaller folder")
    if is_cut:
        notes.append(f"… more matches left out; {_call(args, name, start + SHOWN_MAX + 1)}")
    if not rows:
        rows = ["no match" + (f" from the {start + 1}th on" if start else "")]
    return ToolResult(outcome="ok", output="\n".join([*rows, *notes]))


def _call(args: Arguments, path: str, start: int) -> str:
    said = [f"pattern={args.text('pattern')!r}", f"path={path!r}"]
    said += [f"glob={args.text('glob')!r}"] if args.has("glob") else []
    said += [f"{key}=true" for key in ("literal", "ignore_case", "ignored") if args.flag(key)]
    said += [f"context={args.integer('context')}"] if args.has("context") else []
    return f"search({', '.join(said)}, start={start})"


def _wanted(walk: Walk, name: str, glob: str, notes: list[str]) -> Iterator[Entry]:
    from periplus.base.text.path_globs import glob_matches

    too_large = 0
    for entry in walk.files(name):
        inner = entry.path if name == "." else entry.path[len(name) + 1 :]
        if glob and inner and not glob_matches(inner, glob):
            continue
        if entry.size > FILE_BYTES_MAX:
            too_large += 1
            continue
        yield entry
    if too_large:
        notes.append(f"{too_large:,} files over {FILE_BYTES_MAX >> 20} MB were not searched")


def _matches(
    folder: Confined, engine: Engine, pattern: Pattern, entries: Iterable[Entry], notes: list[str]
) -> Iterator[tuple[str, int]]:
    import time

    deadline = time.monotonic() + SEARCH_SECONDS_MAX
    for batch in _batches(entries):
        left = deadline - time.monotonic()
        if left <= 0:
            raise _too_long()
        for found in engine(folder, pattern, batch, left):
            if len(found.lines) > _FILE_LINES_MAX:
                notes.append(f"{found.path}: only its first {_FILE_LINES_MAX:,} matches are counted")
            for line in found.lines[:_FILE_LINES_MAX]:
                yield found.path, line


def _batches(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    batch: list[Entry] = []
    size = 0
    for entry in entries:
        batch.append(entry)
        size += entry.size
        if len(batch) >= _FILES_AT_ONCE or size >= _BYTES_AT_ONCE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _rows(folder: Confined, matches: Sequence[tuple[str, int]], around: int) -> list[str]:
    rows: list[str] = []
    for path, group in itertools.groupby(matches, key=lambda match: match[0]):
        wanted = [line for _, line in group]
        text = _text_of(folder, path)
        lines = lines_of(text) if text is not None else []
        rows.append(f"{path}:")
        last = 0
        for number in sorted({near for line in wanted for near in range(line - around, line + around + 1)}):
            if not 1 <= number <= len(lines):
                continue
            if around and last and number > last + 1:
                rows.append("--")
            row = lines[number - 1].rstrip("\r")
            cut = f" … {len(row) - _LINE_CHARS_MAX:,} characters more; read(path={path!r}, start={number}, count=1)"
            shown = row[:_LINE_CHARS_MAX] + (cut if len(row) > _LINE_CHARS_MAX else "")
            rows.append(f"{number}{':' if number in wanted else '-'}\t{shown.encode('utf-8', 'replace').decode()}")
            last = number
    return rows


def _pages(work: Workspace, pattern: Pattern, path: str, start: int, args: Arguments) -> ToolResult:
    found = work.pages.search(pattern.text if not args.flag("literal") else _quoted(pattern.text), path)
    shown = found[start : start + SHOWN_MAX]
    rows = [f"{match.handle}:{match.line}:\t{match.text[:_LINE_CHARS_MAX]}" for match in shown]
    left = len(found) - start - len(shown)
    if left > 0:
        rows.append(f"… {left:,} matches left out; {_call(args, path, start + SHOWN_MAX + 1)}")
    return ToolResult(outcome="ok", output="\n".join(rows) or "no match")


def _quoted(text: str) -> str:
    return "".join(f"\\{char}" if char in "\\^$.|?*+()[]{}" else char for char in text)


# The engines


def _text_of(folder: Confined, path: str) -> str | None:
    """A file as both engines see it; None if it is not text, or gone."""
    try:
        data = folder.read(path)
    except (NotFoundError, ConfinementError, EnvironmentFailure):
        return None
    return _decoded(data)


def _decoded(data: bytes) -> str | None:
    if not _is_searched(data[:SNIFF_BYTES]):
        return None
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data[2:].decode("utf-16-le" if data[0] == 0xFF else "utf-16-be", "replace")
    return data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")


def _is_searched(head: bytes) -> bool:
    if head[:4] in (b"\xff\xfe\0\0", b"\0\0\xfe\xff"):
        return False
    return head[:2] in (b"\xff\xfe", b"\xfe\xff") or (b"\0" not in head and not is_binary(head))


def by_python(folder: Confined, pattern: Pattern, entries: Sequence[Entry], seconds: float) -> list[Found]:
    """The matching lines of each file that has some."""
    texts = [(entry.path, _text_of(folder, entry.path) or "") for entry in entries]
    found = matching_lines(pattern, [text for _, text in texts], seconds=seconds)
    return [Found(path, lines) for (path, _), lines in zip(texts, found, strict=True) if lines]


def by_ripgrep(program: str) -> Engine:
    """The same with ripgrep, which gets file names and the folder to start in."""

    def engine(folder: Confined, pattern: Pattern, entries: Sequence[Entry], seconds: float) -> list[Found]:
        numbers = _asked(program, folder.root, pattern, [entry.path for entry in entries], seconds)
        found = []
        for entry in entries:
            lines = numbers.get(os.fsencode(f"./{entry.path}"))
            if lines and _text_of(folder, entry.path) is not None:
                found.append(Found(entry.path, lines))
        return found

    return engine


def _asked(program: str, root: str, pattern: Pattern, paths: Sequence[str], seconds: float) -> dict[bytes, list[int]]:
    import subprocess

    command = [
        program, "--no-config", "--text", "--line-number", "--with-filename", "--null", "--no-heading", "--color=never",
        "--max-columns=1", f"--max-count={_FILE_LINES_MAX + 1}", "--regex-size-limit=100M", "--dfa-size-limit=100M",
        "--case-sensitive", "--no-messages", "-e", pattern.rust, "--", *(f"./{path}" for path in paths),
    ]  # fmt: skip
    try:
        done = subprocess.run(  # noqa: S603 - a list of arguments, no shell
            command, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False, env={},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise _too_long() from None
    except OSError as error:
        raise EnvironmentFailure(f"cannot run ripgrep: {error.strerror}") from error
    if done.returncode not in (0, 1) and (done.stderr or done.returncode != 2):
        raise EnvironmentFailure(f"ripgrep reports: {done.stderr[:500].decode('utf-8', 'replace').strip()}")
    numbers: dict[bytes, list[int]] = {}
    for row in done.stdout[:_ANSWER_BYTES_MAX].split(b"\n"):
        path, zero, rest = row.partition(b"\0")
        number = rest.partition(b":")[0]
        if zero and number.isdigit():
            numbers.setdefault(path, []).append(int(number))
    return numbers


def _too_long() -> RefusedError:
    return RefusedError(
        f"the search took over {SEARCH_SECONDS_MAX:.0f} s", safe="Nothing was changed.",
        mend="Search a smaller folder, or with a glob.",
    )  # fmt: skip
