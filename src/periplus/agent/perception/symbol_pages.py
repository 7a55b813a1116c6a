"""Definitions and uses of a name, as pages: ``@periplus/symbols/RateLimiter.allow.md``.

Where the code map of the project is at hand, the page is made of it: uses have grades. Otherwise definitions come from the parsers
(``periplus.code``), or without one from lines that look like a definition, marked as such, and uses are lines that contain the name as a
word; text alone cannot tell more. A page is made when it is read; every limit is a number here, and the page says what was not looked at.
"""

from __future__ import annotations

__all__ = ["SYMBOLS_ROOT", "SearchBounds", "SymbolPages"]

import posixpath
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from periplus.agent.perception.graded_uses import DEFINITIONS_MAX, USES_MAX, USES_OF_FILE_MAX, CodeAtHand, graded_page
from periplus.agent.perception.project_files import Bounds, is_kept_back, look_at
from periplus.agent.tape.fence import left_out, one_line
from periplus.agent.tools.text_pages.page_source import Page, PageMatch
from periplus.base.errors import NotFoundError, PeriplusError
from periplus.base.filesystem.confined_folder import Confined

if TYPE_CHECKING:
    from periplus.code import Symbol

SYMBOLS_ROOT: Final = "@periplus/symbols/"
NAMES_MAX: Final = 500
LINE_CHARACTERS: Final = 160
_NAME_CHARACTERS_MAX: Final = 200
_NAME: Final = re.compile(r"[\w$][\w$.:#<>~!?@-]{0,199}")
_PROSE: Final = (
    ".md",
    ".mdx",
    ".rst",
    ".txt",
    ".json",
    ".yaml",
    ".yml",
    ".toml",
    ".html",
    ".xml",
    ".csv",
    ".log",
    ".lock",
)
_LOOKS: Final = (
    r"(?:def|class|func|fn|function|struct|interface|type|enum|trait|impl|const|let|var|val|module|mod|namespace|union|record|object|"
    r"macro_rules!|\#define|sub|proc|package)[ \t]{1,8}(?:\([^)\n]{0,120}\)[ \t]{0,4})?"
)


class SearchBounds(NamedTuple):
    """Limits of one page beside the walk: bytes read, of one file and in total, and seconds, of reading and of parsing."""

    file_bytes: int = 1 << 20
    bytes: int = 32 << 20
    seconds: float = 4.0
    parse_seconds: float = 2.0
    walk: Bounds = Bounds()


@dataclass(slots=True)
class _Looked:
    """Counts of what was looked at and what was not."""

    files: int = 0
    notes: list[str] = field(default_factory=list)
    large: int = 0


class _Source(NamedTuple):
    path: str
    data: bytes


class SymbolPages:
    """Satisfies ``page_source.PageSource``."""

    def __init__(
        self, root: str, bounds: SearchBounds | None = None, *, unread: Callable[[str], bool] = lambda _: False,
        monotonic_s: Callable[[], float] = time.monotonic, code: CodeAtHand = nullcontext,
    ) -> None:  # fmt: skip
        """``code`` opens the code map of the project, or None where it is not at hand."""
        self._code = code
        self._root, self._bounds, self._monotonic_s = root, bounds or SearchBounds(), monotonic_s
        self._unread = unread

    def list(self, prefix: str) -> Sequence[Page]:
        begun = prefix.removeprefix(SYMBOLS_ROOT).removesuffix(".md")
        hint = Page(
            f"{SYMBOLS_ROOT}NAME.md", "where NAME is defined and used; put a name from the code in place of NAME"
        )
        if not prefix.startswith(SYMBOLS_ROOT) or not _NAME.fullmatch(begun):
            return [hint] if hint.handle.startswith(prefix) else []
        looked = _Looked()
        found: dict[str, Page] = {}
        for path, one in self._definitions(begun, looked):
            if one.name.startswith(begun) or one.name.rpartition(".")[2].startswith(begun):
                handle = f"{SYMBOLS_ROOT}{one.name}.md"
                found.setdefault(handle, Page(handle, f"{one.kind} in {path}:{one.start_line}"))
            if len(found) >= NAMES_MAX:
                looked.notes.append(f"over {NAMES_MAX} names begin like this")
                break
        return [*sorted(found.values()), *(Page(hint.handle, note) for note in looked.notes)]

    def read(self, handle: str) -> str:
        name = handle.removeprefix(SYMBOLS_ROOT).removesuffix(".md").replace("::", ".").replace("#", ".")
        if len(name) > _NAME_CHARACTERS_MAX or not _NAME.fullmatch(name) or name.endswith("."):
            raise NotFoundError(
                f"no page {handle}: {one_line(name, 60)!r} is not a name", mend=f"As {SYMBOLS_ROOT}Class.method.md"
            )
        graded = self._graded(name)
        if graded:
            return graded
        looked = _Looked()
        page = _PageOf(name)
        for source in self._sources(page.last.encode(), looked):
            page.add(source)
        page.parse(self._monotonic_s() + self._bounds.parse_seconds, self._monotonic_s)
        return page.text(looked)

    def _graded(self, name: str) -> str:
        """Return the page from the code map; empty where that is not at hand or does not define the name."""
        until = self._monotonic_s() + self._bounds.seconds
        with self._code() as view:
            if view is None:
                return ""
            return graded_page(
                view, name, lambda path: not is_kept_back(path, self._unread), lambda: self._monotonic_s() > until
            )

    def search(self, pattern: str, prefix: str) -> Sequence[PageMatch]:
        """Search the definitions by kind, name and place; the search tool finds uses."""
        if not prefix.startswith(SYMBOLS_ROOT):
            return []
        from periplus.agent.tools.text_pages.pattern_matching import match_texts
        from periplus.agent.tools.text_pages.search_patterns import Pattern

        begun = prefix.removeprefix(SYMBOLS_ROOT).removesuffix(".md")
        looked = _Looked()
        texts = [
            (f"{SYMBOLS_ROOT}{one.name}.md", f"{one.kind} {one.name} {path}:{one.start_line}")
            for path, one in self._definitions(begun, looked)
            if one.name.startswith(begun)
        ]
        found = [PageMatch(one.name, one.line, one.text) for one in match_texts(Pattern.parse(pattern), texts)]
        return [*found, *(PageMatch(f"{SYMBOLS_ROOT}NAME.md", 1, note) for note in looked.notes)]

    def _definitions(self, begun: str, looked: _Looked) -> Iterator[tuple[str, Symbol]]:
        """All definitions in the files that contain the beginning of a name."""
        from periplus.code import symbols_of

        for source in self._sources(begun.rpartition(".")[2].encode(), looked):
            for one in symbols_of(source.path, source.data).found:
                yield source.path, one

    def _sources(self, needle: bytes, looked: _Looked) -> Iterator[_Source]:
        """The project's texts that contain the bytes."""
        from periplus.agent.tools.files.text_encoding import is_binary

        deadline = self._monotonic_s() + self._bounds.seconds
        tree = look_at(self._root, "", self._bounds.walk, unread=self._unread, monotonic_s=self._monotonic_s)
        looked.notes += [f"not seen: {one}" for one in tree.unseen[:5]]
        if tree.stopped:
            looked.notes.append(f"not every file was seen: the walk stopped at {tree.stopped}")
        left = self._bounds.bytes
        with Confined(self._root) as held:
            for entry in tree.files:
                if posixpath.basename(entry.path).startswith("."):
                    continue  # settings and secrets, not code
                if entry.size > self._bounds.file_bytes:
                    looked.large += 1
                    continue
                if entry.size > left or self._monotonic_s() > deadline:
                    looked.notes.append(
                        f"not every file was read: {looked.files:,} of {len(tree.files):,} were; the limit of a page is reached"
                    )
                    return
                try:
                    data = held.read(entry.path)
                except PeriplusError:
                    continue  # gone meanwhile, or not readable
                looked.files += 1
                left -= len(data)
                if needle in data and not is_binary(data):
                    yield _Source(entry.path, data)


class _Seen(NamedTuple):
    """A file that contains the name: its first such lines and their number. ``is_likely``: it probably defines the name."""

    source: _Source
    lines: tuple[tuple[int, str], ...]
    total: int
    is_likely: bool


class _PageOf:
    """The page of one name while it is built."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._parts = tuple(part.encode() for part in name.split(".") if part)
        self.last = name.rpartition(".")[2]
        last = re.escape(self.last)
        self._word = re.compile(rf"(?<![\w$]){last}(?![\w$])")
        self._used = re.compile(rf"(?<=[.:>]){last}(?![\w$])") if len(self._parts) > 1 else self._word
        self._looks = re.compile(rf"(?<![\w$]){_LOOKS}{last}(?![\w$])")
        self._seen: list[_Seen] = []
        self._definitions: list[str] = []
        self._defined: set[tuple[str, int]] = set()
        self._unparsed = 0

    def add(self, source: _Source) -> None:
        text = source.data.decode("utf-8", "replace")
        if not self._word.search(text):
            return
        found = [(number, line) for number, line in enumerate(text.split("\n"), 1) if self._word.search(line)]
        kept = tuple((number, _line(line)) for number, line in found[: 4 * USES_OF_FILE_MAX])
        likely = any(self._looks.search(line[:2_000]) for _, line in found)
        self._seen.append(_Seen(source, kept, len(found), likely))

    def parse(self, deadline: float, monotonic_s: Callable[[], float]) -> None:
        """Find the definitions: first in files with a line that looks like one, then in the others while there is time."""
        from periplus.code import symbols_of
        from periplus.code.symbols import language_of

        for seen in sorted(self._seen, key=lambda one: not one.is_likely):
            path, data = seen.source
            if not all(part in data for part in self._parts) or path.lower().endswith(_PROSE):
                continue
            if not language_of(path):
                self._guess(seen, "no parser for its language")
                continue
            if monotonic_s() > deadline:
                self._unparsed += 1
                continue
            symbols = symbols_of(path, data)
            for one in symbols.named(self._name):
                text = next((line for number, line in seen.lines if one.start_line <= number <= one.end_line), "")
                first = next((n for n, _ in seen.lines if one.start_line <= n <= one.end_line), one.start_line)
                self._defined.add((path, first))
                self._definitions.append(f"{path}:{one.start_line}-{one.end_line} {one.kind} {one.name}\n    {text}")
            if symbols.why_not:
                self._guess(seen, symbols.why_not)

    def _guess(self, seen: _Seen, why: str) -> None:
        for number, line in seen.lines:
            if self._looks.search(line):
                self._defined.add((seen.source.path, number))
                self._definitions.append(f"{seen.source.path}:{number} looks like it ({why})\n    {line}")

    def text(self, looked: _Looked) -> str:
        if not self._seen:
            raise NotFoundError(
                f"{self._name} stands in none of the {looked.files:,} files that were read",
                mend=f"list(path='{SYMBOLS_ROOT}{self._name[:3]}') has names that begin so.",
            )
        lines = [f"# {self._name}", f"## Defined ({len(self._definitions)})", *self._definitions[:DEFINITIONS_MAX]]
        if len(self._definitions) > DEFINITIONS_MAX:
            more = len(self._definitions) - DEFINITIONS_MAX
            lines.append(
                f"… {more:,} definitions left out; read(path='{SYMBOLS_ROOT}Class.{self.last}.md') is of one class"
            )
        if self._unparsed:
            lines.append(f"({self._unparsed:,} files that have the word were not parsed, there was no time left)")
        lines += [*self._uses(), f"({looked.files:,} files were read)"]
        if looked.large:
            lines.append(f"not read: {looked.large:,} files that are too large")
        return "\n".join([*lines, *looked.notes]) + "\n"

    def _uses(self) -> list[str]:
        """Code first, then other texts; for a member, lines in which it follows something."""
        from periplus.code.symbols import language_of

        rows: list[str] = []
        shown = total = files = 0
        for seen in sorted(self._seen, key=lambda one: (not language_of(one.source.path), one.source.path)):
            path = seen.source.path
            uses = [(n, line) for n, line in seen.lines if self._used.search(line) and (path, n) not in self._defined]
            if not uses:
                continue
            count = len(uses) + (seen.total - len(seen.lines))
            total, files = total + count, files + 1
            part = uses[: min(USES_OF_FILE_MAX, USES_MAX - shown)]
            shown += len(part)
            if part:
                rows.append(f"{path} ({len(part)} of {count:,} lines)" if len(part) < count else path)
                rows += [f"  {number}: {line}" for number, line in part]
        if shown < total:
            pattern = rf"\b{re.escape(self.last)}\b"
            rows.append(left_out(total - shown, "lines", f"search(pattern={pattern!r})"))
        return [f"## Used, as a word ({_many(total, 'line')} in {_many(files, 'file')})", *rows]


def _line(text: str) -> str:
    return one_line(text[:1_000], LINE_CHARACTERS)


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"
