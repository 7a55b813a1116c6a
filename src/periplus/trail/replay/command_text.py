"""Rewrite the text of a recorded command for a replay.

``rebased`` replaces the folder in which the command was recorded by the replay's folder, so that ``cd /home/ada/shop &&
pytest`` tests the files of the replay and not ada's; ``rebased_word`` does so for a word that no shell reads. A ``cd``
that plainly leads elsewhere is refused. ``part_for_tests`` keeps of a command that became several steps the part of one step:
tests are not run twice, and a commit that has a GIT_COMMIT step is not made by the shell as well.

Words are split by ``trail.shell_words``, nothing is expanded, and an unclear word stays unchanged: this is no sandbox
(docs/decisions/0041-replay.md), it keeps honest commands in their folder.
"""

from __future__ import annotations

__all__ = ["Chosen", "Sibling", "chosen_tests", "part_for_tests", "rebased", "rebased_word"]

import posixpath
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from periplus.base.errors import ConfinementError
from periplus.trail.shell_words import (
    Segment,
    blank_heredocs,
    place_of_text,
    program_of,
    redirect_targets,
    split_segments,
)

_TEXT_CHARS_MAX: Final = 64 << 10
_DEPTH_MAX: Final = 3
_GOING: Final = frozenset({"cd", "pushd"})
_CONTEXT: Final = frozenset({
    "cd", "pushd", "popd", "export", "set", "source", ".", "alias", "unset", "ulimit", "umask", "trap", "shopt", "exit",
})  # fmt: skip
_KEYWORDS: Final = frozenset({
    "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "select", "function", "{", "}", "!",
})  # fmt: skip
_GIT_VALUED: Final = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env"})
_QUIET: Final = frozenset({"-q", "-v", "-vv", "-x", "-s", "--verbose", "--quiet", "--no-header", "-ra", "-rA"})
_RUNNING: Final = frozenset({"pytest", "unittest", "nose2"})
_STACK_MAX: Final = 64
# Text that may precede a path in a word: the name of an assignment or an option. An assignment may hold a list of paths.
_BEGINNING: Final = re.compile(r"['\"]?(?:-[A-Za-z](?=['\"]?/)|(-{0,2}[A-Za-z_][\w.-]*\+?=))?['\"]?")
_NEXT: Final = re.compile(r":['\"]?")

_Change = tuple[int, int, str]


class Sibling(NamedTuple):
    """Another step of the same command: its opcode, its first operand, and whether it failed."""

    op: str
    what: str
    has_failed: bool


class Chosen(NamedTuple):
    """The tests in a folder that a command ran: ``paths`` in it, none for all of them. ``is_exact`` if nothing else in
    the command may have chosen among them.
    """

    folder: str
    paths: tuple[str, ...]
    is_exact: bool


# Folders


def rebased(command: str, recorded: str, root: str, cwd: str = ".") -> str:
    """Return the command with ``root`` in place of the folder ``recorded`` (empty: unknown), at the beginning of a word
    or of the value of an assignment or option. It starts in ``cwd``, below the root. Raises ConfinementError if it goes
    to a folder outside.
    """
    if len(command) > _TEXT_CHARS_MAX:
        return command
    return _Rebasing(recorded.rstrip("/"), root, posixpath.normpath(cwd)).text(command, _DEPTH_MAX)


def rebased_word(word: str, recorded: str, root: str) -> str:
    """Rebase one word that is an argument without a shell."""
    return _moved(word, recorded.rstrip("/"), lambda _quote: root)


class _Rebasing:
    """The state of a rebasing: the current folder ``where``, None behind an unclear ``cd``; ``found`` is the folder of
    the first part of the text that is ``target``.
    """

    def __init__(self, recorded: str, root: str, where: str, target: str = "") -> None:
        self._recorded = recorded
        self._root = root
        self._target = target
        self._stack: list[str | None] = []  # folders saved by ``pushd``
        self.where: str | None = where
        self.is_found = False

    def text(self, text: str, depth: int) -> str:
        blank, _ = blank_heredocs(text)
        changes = [
            (start, end, self._within_word(text[start:end]))
            for start, end in redirect_targets(blank)
            if self._recorded in text[start:end]
        ]
        outer: list[
            tuple[str | None, list[str | None]]
        ] = []  # for each open parenthesis, the state to restore behind it
        shells: tuple[int, ...] = ()
        for segment in split_segments(blank):
            kept = _alike(shells, segment.shells)
            if len(outer) > kept:
                self.where, self._stack = outer[kept]
                del outer[kept:]
            shells = segment.shells
            outer += [(self.where, [*self._stack])] * (len(shells) - kept)
            changes += self._segment(text, segment, depth)
            if self.is_found:
                break
        return _changed(text, changes)

    def _segment(self, text: str, segment: Segment, depth: int) -> Iterator[_Change]:
        words = program_of(segment.words)
        first = len(words) and len(segment.words) - len(words)
        place = place_of_text(words) if depth else 0
        if not place and self._target and _is_named(segment, self._target):
            self.is_found = True
            return
        behind = _behind_options(words)
        goal = first + 1 + behind if words and words[0] in _GOING else -1
        if words[:1] == ["popd"]:
            self.where = self._stack.pop() if self._stack and not words[1:] else None
        elif words[:1] == ["pushd"]:
            self._stack = [*self._stack, self.where][-_STACK_MAX:]
        if goal >= len(segment.words):
            self.where = None  # the home folder, or the swap of ``pushd``
        for at, (start, end) in enumerate(segment.places):
            raw, word = text[start:end], segment.words[at]
            if place and at == first + place:
                after = self._inner(raw, word, depth)
            else:
                after = self._gone(raw, word) if at == goal else self._within_word(raw)
            if after != raw:
                yield start, end, after

    def _inner(self, raw: str, word: str, depth: int) -> str:
        """Rebase the text given to another shell, whose ``cd`` does not affect this one."""
        held = self.where, [*self._stack]
        new = self.text(word, depth - 1)
        if not self.is_found:
            self.where, self._stack = held
        if new != word and (raw[:1] == '"' and not {"$", "`"}.isdisjoint(raw)):
            raise ConfinementError(f"{word[:200]!r} is refused: it is expanded before a shell reads it, and cannot be rewritten "
                                   "for the folder of the replay", path=word, reason="absolute")  # fmt: skip
        return shlex.quote(new) if new != word else raw

    def _gone(self, raw: str, word: str) -> str:
        """Rebase the target of a ``cd``."""
        plain = raw.split("'")[::2]  # without the parts in single quotes
        if (
            word in ("-", "")
            or raw[:1] in ("~", "+")
            or any(not {"$", "`", "*", "?"}.isdisjoint(part) for part in plain)
        ):
            self.where = None
            return self._within_word(raw)
        if word.startswith("/"):
            path = posixpath.normpath(word)
            if not self._recorded or not (path + "/").startswith(posixpath.normpath(self._recorded) + "/"):
                raise _outside(word, "an absolute path")
            self.where = posixpath.relpath(path, self._recorded)
            return shlex.quote(posixpath.normpath(posixpath.join(self._root, self.where)))
        if self.where is not None:
            self.where = posixpath.normpath(posixpath.join(self.where, word))
            if self.where.split("/")[0] == "..":
                raise _outside(word, "it leads upwards")
        return raw

    def _within_word(self, raw: str) -> str:
        return _moved(raw, self._recorded, lambda quote: _within(self._root, quote))


def _alike(one: Sequence[int], other: Sequence[int]) -> int:
    """Return the length of the common beginning."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _moved(raw: str, recorded: str, instead: Callable[[str], str]) -> str:
    """Replace the folder ``recorded`` wherever a path in the word begins; ``instead`` gives the replacement for the
    open quote.
    """
    if not recorded or recorded not in raw:
        return raw
    beginning = _BEGINNING.match(raw)
    assert beginning is not None  # it also matches the empty text
    starts = [beginning.end()]
    if beginning[1]:
        starts += [match.end() for match in _NEXT.finditer(raw, beginning.end())]
    out: list[str] = []
    at, quote = 0, ""
    for start in starts:
        if start < at or not raw.startswith(recorded, start):
            continue
        quote = _quote_behind(raw[at:start], quote)
        end = start + len(recorded)
        if raw[end : end + 1] in ("", "/", ":", quote or "/"):
            out += [raw[at:start], instead(quote)]
        else:
            out.append(raw[at:end])
        at = end
    return "".join([*out, raw[at:]])


def _quote_behind(text: str, quote: str) -> str:
    """Return the quote that is open at the end of ``text``, given the one open before it."""
    is_escaped = False
    for char in text:
        if is_escaped:
            is_escaped = False
        elif char == "\\" and quote != "'":
            is_escaped = True
        elif char in ("'", '"') and quote in ("", char):
            quote = "" if quote else char
    return quote


def _within(root: str, quote: str) -> str:
    if quote == "'":
        return root.replace("'", "'\\''")
    if quote == '"':
        return "".join(f"\\{char}" if char in '"\\$`' else char for char in root)
    return shlex.quote(root)


def _behind_options(words: Sequence[str]) -> int:
    """Return the number of options behind the first word."""
    count = 0
    for word in words[1:]:
        if word[:1] != "-" or word == "-":
            break
        count += 1
    return count


def _outside(word: str, why: str) -> ConfinementError:
    return ConfinementError(
        f"cd {word[:200]!r} is refused: {why}", path=word, reason="absolute" if word[:1] == "/" else "parent"
    )


# Parts


def part_for_tests(command: str, target: str, siblings: Sequence[Sibling]) -> str:
    """Return the part of a command to run for its tests ``target``. Parts that other steps stand for are replaced by
    commands that end as those did. A part without a step runs with the tests that follow, or with the last ones.
    """
    if not siblings or not target or len(command) > _TEXT_CHARS_MAX:
        return command
    return _Parting(command, target, siblings).text(command, _DEPTH_MAX)


class _Parting:
    def __init__(self, command: str, target: str, siblings: Sequence[Sibling]) -> None:
        self._target = target
        self._tests = {one.what: one for one in siblings if one.op == "TEST_RUN" and one.what != target}
        self._git = {
            one.op.removeprefix("GIT_").lower(): one for one in siblings if one.op in ("GIT_COMMIT", "GIT_PUSH")
        }
        self._all = list(_flat(command, _DEPTH_MAX))
        self._is_compound = any(not _KEYWORDS.isdisjoint(segment.words) for segment in self._all)
        self._owner_of = self._owners()
        self._at = -1
        self._is_out = False

    def text(self, text: str, depth: int) -> str:
        blank, bodies = blank_heredocs(text)
        changes: list[_Change] = []
        for segment in split_segments(blank):
            words = program_of(segment.words)
            place = place_of_text(words) if depth else 0
            if place:
                start, end = segment.places[len(segment.words) - len(words) + place]
                inner = self.text(words[place], depth - 1)
                is_expanded = text[start] == '"' and not {"$", "`"}.isdisjoint(text[start:end])
                if inner != words[place] and not is_expanded:
                    changes.append((start, end, shlex.quote(inner)))
                continue
            self._at += 1
            instead = self._instead(segment, words)
            if instead:
                count = next((at for at, word in enumerate(segment.words) if word not in _KEYWORDS), 0)
                start = segment.places[count][0]
                changes.append((start, segment.end, _turned(segment.words[:count], instead)))
                changes += [
                    (begin, end, "") for at, begin, end in bodies if start <= at < segment.end and begin >= segment.end
                ]
        return _changed(text, changes)

    def _instead(self, segment: Segment, words: list[str]) -> str:
        """Return the replacement of a part; empty if it stays."""
        if segment.is_piped:
            return ":" if self._is_out else ""
        self._is_out = False
        sibling = self._sibling(segment, words)
        if sibling is not None:
            self._is_out = True
            return "false" if sibling.has_failed else ":"
        if not words or words[0] in _CONTEXT or self._is_compound or self._owner_of[self._at] == self._target:
            return ""
        self._is_out = True
        return ":"

    def _sibling(self, segment: Segment, words: list[str]) -> Sibling | None:
        if _is_named(segment, self._target):
            return None
        if words[:1] == ["git"]:
            return self._git.get(_git_verb(words))
        return next((one for what, one in self._tests.items() if _is_named(segment, what)), None)

    def _owners(self) -> list[str]:
        """Return for each part the tests with which it runs if it has no step."""
        names = [self._target, *self._tests]
        named = [next((name for name in names if _is_named(segment, name)), "") for segment in self._all]
        following = next(filter(None, reversed(named)), self._target)
        owners = []
        for name in reversed(named):
            following = name or following
            owners.append(following)
        return owners[::-1]


def _flat(text: str, depth: int) -> Iterator[Segment]:
    for segment in split_segments(blank_heredocs(text)[0]):
        words = program_of(segment.words)
        place = place_of_text(words) if depth else 0
        if place:
            yield from _flat(words[place], depth - 1)
        else:
            yield segment


def _is_named(segment: Segment, target: str) -> bool:
    return bool(target) and (segment.text == target or segment.text.endswith(f" {target}"))


def _git_verb(words: Sequence[str]) -> str:
    at = 1
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in _GIT_VALUED else 1
    return words[at] if at < len(words) else ""


def _turned(keywords: Sequence[str], instead: str) -> str:
    """Make a loop that waits for a command that is not run end at once."""
    if "while" in keywords:
        return ":" if "!" in keywords else "false"
    return ":" if "until" in keywords else instead


def _changed(text: str, changes: Sequence[_Change]) -> str:
    out: list[str] = []
    at = 0
    for start, end, instead in sorted(changes):
        out += [text[at:start], instead]
        at = end
    return "".join([*out, text[at:]])


# Tests by another command


def chosen_tests(target: str, command: str, recorded: str, exists: Callable[[str], bool]) -> Chosen | None:
    """Return the tests that the part ``target`` of a recorded command ran, as far as its words tell: existing paths in
    the folder to which the command went. None for a target that is the name of tests and no part of a command. Raises
    ConfinementError like ``rebased``.
    """
    if len(command) > _TEXT_CHARS_MAX or not any(_is_named(one, target) for one in _flat(command, _DEPTH_MAX)):
        return None
    going = _Rebasing(recorded.rstrip("/"), "/", ".", target)
    going.text(command, _DEPTH_MAX)
    folder = going.where or "."
    words = program_of(next(iter(split_segments(target)), Segment([], "")).words)
    if (
        words[:1]
        and words[0].rsplit("/", 1)[-1].startswith("python")
        and words[1:2] == ["-m"]
        and words[2:3]
        and words[2] in _RUNNING
    ):
        words = words[2:]
    paths: list[str] = []
    is_exact = going.where is not None and bool(words) and words[0].rsplit("/", 1)[-1] in _RUNNING
    for word in words[1:]:
        if word[:1] != "-" and exists(
            posixpath.normpath(posixpath.join(folder, word.partition("::")[0].removesuffix("/...")))
        ):
            paths.append(word)
        elif word not in _QUIET:
            is_exact = False
    return Chosen(folder, tuple(paths), is_exact)
