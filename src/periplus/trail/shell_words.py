"""Split a shell command into commands and words, as far as this is possible without a shell.

The text is split where a shell would split it: no expansion, no aliases. Here-documents are taken out first, so that
their lines are never read as commands. All functions take time linear in the text.
"""

from __future__ import annotations

__all__ = [
    "HELD",
    "SURE",
    "Segment",
    "blank_heredocs",
    "extract_heredocs",
    "flattened",
    "place_of_text",
    "program_of",
    "redirect_targets",
    "segments_of",
    "split_segments",
]

import re
from typing import Final, NamedTuple

from periplus.shell.command_words import unwrap

_WORDS_MAX: Final = 2000
_HEREDOC: Final = re.compile(r"(?<!<)<<-?[ \t]*(?:'([^'\n]{1,64})'|\"([^\"\n]{1,64})\"|\\?([\w.+-]{1,64}))")
_HEREDOCS_MAX: Final = 16
_PARENTHESES_MAX: Final = 32
HELD: Final = "\x00"  # encloses the number of a here-document; no command holds a NUL
_TOKEN: Final = re.compile(
    r"(?P<redirect>\d*(?:>>?|<)&\d?-?|&>>?|\d*>>?\|?|\d*<)"
    r"|(?P<end>&&|\|\|?|;;?|&|\n|\(|\))"
    r"|(?P<space>[ \t\r]+|\\\n|(?<![^\s;|&()])\#[^\n]*)"
    r"|(?P<word>(?:[^\s'\"\\;|&()<>]|'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.)+)"
    r"|(?P<stray>.)",
    re.DOTALL,
)
_QUOTES: Final = ("'", '"')
_PART: Final = re.compile(r"'([^']*)'|\"((?:[^\"\\]|\\.)*)\"|\\(.)|([^'\"\\]+)", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\([\"\\$`\n])")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*\+?=")

_SHELLS: Final = frozenset({"bash", "sh", "zsh", "dash", "ksh"})
_TURNING: Final = frozenset(
    {"!", "if", "elif", "while", "until"}
)  # a failure behind these words is no failure of the whole
_CLOSING: Final = frozenset({"fi", "}", "esac"})
# Programs that do not fail if the given file or folder exists.
SURE: Final = frozenset({
    "cd", "pushd", "popd", "set", "export", "pwd", "source", ".", "unset", "alias", "trap", "shopt", "ulimit", "echo",
    "printf", "true", ":", "exit", "head", "tail", "wc", "sort", "uniq", "tee", "sleep", "date", "clear", "fi", "done",
    "esac", "}",
})  # fmt: skip
_SHELLS_DEPTH_MAX: Final = 3
_OPENING: Final = frozenset({"if", "for", "while", "until", "case", "select"})
_ENDING: Final = frozenset({"fi", "done", "esac"})
_BRANCHES: Final = frozenset({"then", "do", "else", "elif"})
_LEADING: Final = _TURNING | _BRANCHES | {"{"}
_GIVING_UP: Final = frozenset({"exit", "false", "return"})


class Segment(NamedTuple):
    """One simple command: its words without quotes, its text, and whether a pipe feeds it.

    ``is_hidden``: it may have failed although the whole ended well, as in ``pytest | tail`` and ``pytest; date``.
    ``is_optional``: it may not have run although the whole ended well, as in ``make || pytest``, ``if …; then pytest;
    fi`` and ``exit 0; pytest``. ``shells`` are the enclosing parentheses, each by its offset in the text.
    """

    words: list[str]
    text: str
    is_piped: bool = False
    is_hidden: bool = False
    is_optional: bool = False
    places: tuple[tuple[int, int], ...] = ()
    end: int = 0
    shells: tuple[int, ...] = ()


class _Heredoc(NamedTuple):
    """The offsets of ``<<`` with its word, and of the body with the line that ends it."""

    start: int
    end: int
    body: int
    last: int
    stop: int


def _heredocs(command: str) -> list[_Heredoc]:
    """Return the here-documents of a text. A look-alike such as ``$((1<<2))`` has no line that ends it."""
    found: list[_Heredoc] = []
    at = missed = 0
    while len(found) < _HEREDOCS_MAX and missed < _HEREDOCS_MAX:
        match = _HEREDOC.search(command, at)
        line_end = command.find("\n", match.end()) if match is not None else -1
        if match is None or line_end < 0:
            break
        body = line_end + 1
        while match is not None and len(found) < _HEREDOCS_MAX:  # several may begin on one line
            word = next(filter(None, match.groups()))
            last = re.compile(rf"^[ \t]*{re.escape(word)}[ \t]*\r?$", re.MULTILINE).search(command, body)
            if last is None:
                missed += 1
            else:
                found.append(_Heredoc(match.start(), match.end(), body, last.start(), last.end()))
                body = last.end() + 1
            match = _HEREDOC.search(command, match.end(), line_end) if missed < _HEREDOCS_MAX else None
        at = max(line_end, body - 1)
    return found


def extract_heredocs(command: str) -> tuple[str, list[str]]:
    """Return the text with a mark in place of each here-document, and their bodies."""
    out: list[str] = []
    found = _heredocs(command)
    pieces = [(one.start, one.end, f"{HELD}{number}{HELD}") for number, one in enumerate(found)]
    at = 0
    for start, end, instead in sorted([*pieces, *((one.body, one.stop + 1, "") for one in found)]):
        out += [command[at:start], instead]
        at = end
    bodies = [command[one.body : max(one.body, one.last - 1)] for one in found]
    return "".join([*out, command[at:]]), bodies


def blank_heredocs(command: str) -> tuple[str, list[tuple[int, int, int]]]:
    """Return the text with blanks in place of the bodies of here-documents, and the offset of ``<<`` and the span of
    each body.
    """
    out: list[str] = []
    at = 0
    found = _heredocs(command)
    for one in found:
        out += [command[at : one.body], " " * (one.stop - one.body)]
        at = one.stop
    out.append(command[at:])
    return "".join(out), [(one.start, one.body, one.stop) for one in found]


def split_segments(text: str) -> list[Segment]:
    """Return the simple commands of a text without here-documents, those in parentheses included."""
    segments: list[Segment] = []
    enders: list[set[str]] = []  # separators between each segment and the next
    words: list[str] = []
    places: list[tuple[int, int]] = []
    shells: tuple[int, ...] = ()
    start = end = stop = 0
    count = 0
    is_target = is_piped = will_be_piped = False
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "end":
            if words:
                segments.append(_segment(text[start:end], words, places, stop, shells, is_piped=is_piped))
                enders.append(set())
                will_be_piped = False
            if enders:
                enders[-1].add(match.group())
            words, places = [], []
            shells = _around(shells, match)
            is_target = False
            will_be_piped = match.group() == "|" or (will_be_piped and match.group() in ("(", "\n"))
            is_piped = will_be_piped
        elif kind == "redirect":
            is_target = not match.group().endswith(("&", "-")) and not match.group()[-1].isdigit()
            stop = match.end()
        elif kind == "word":
            stop = match.end()
            if is_target:
                is_target = False
                continue
            if not words:
                start = match.start()
            words.append(_unquoted(match.group()))
            places.append(match.span())
            end = match.end()
            count += 1
            if count >= _WORDS_MAX:
                break
        elif kind == "stray" and match.group() in _QUOTES:
            break  # an unclosed text extends to the end
    if words:
        segments.append(_segment(text[start:end], words, places, stop, shells, is_piped=is_piped))
        enders.append(set())
    return _with_hidden(segments, enders)


def _segment(
    text: str, words: list[str], places: list[tuple[int, int]], end: int, shells: tuple[int, ...], *, is_piped: bool
) -> Segment:
    return Segment(words, text.strip(), is_piped, places=tuple(places), end=end, shells=shells)


def _around(shells: tuple[int, ...], match: re.Match[str]) -> tuple[int, ...]:
    """Return the parentheses open behind ``match``; those of a ``case`` open nothing."""
    if match.group() == "(":
        return (*shells, match.start()) if len(shells) < _PARENTHESES_MAX else shells
    return shells[:-1] if match.group() == ")" else shells


def redirect_targets(text: str) -> list[tuple[int, int]]:
    """Return the spans of the words that redirections name, in a text without here-documents: ``a`` of ``make > a``."""
    goals: list[tuple[int, int]] = []
    is_goal = False
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "redirect":
            is_goal = not match.group().endswith(("&", "-")) and not match.group()[-1].isdigit()
        elif kind == "word":
            if is_goal:
                goals.append(match.span())
            is_goal = False
        elif kind == "end":
            is_goal = False
        elif kind == "stray" and match.group() in _QUOTES:
            break
    return goals


def _with_hidden(segments: list[Segment], enders: list[set[str]]) -> list[Segment]:
    """Mark the segments whose outcome a later segment hides."""
    options = {word for segment in segments if segment.words[0] == "set" for word in segment.words[1:]}
    pipes_fail = "pipefail" in options
    stops = "errexit" in options or any(re.fullmatch(r"-[a-z]*e[a-z]*", word) for word in options)
    optional = _optional(segments, enders)
    marked: list[Segment] = []
    is_overruled = False  # by a later command of a list
    following: list[str] = []
    for segment, ender, is_optional in zip(reversed(segments), reversed(enders), reversed(optional), strict=True):
        if "||" in ender:
            is_overruled |= following[:1] == [] or following[0] not in _GIVING_UP or following[1:2] == ["0"]
        elif "&" in ender and "|" not in ender:
            is_overruled = True
        elif following and following[0] not in _CLOSING and not stops:
            is_overruled |= not ender.isdisjoint((";", ";;")) or ("\n" in ender and ender.isdisjoint(("&&", "|")))
        is_hidden = is_overruled or ("|" in ender and not pipes_fail) or segment.words[0] in _TURNING
        marked.append(segment._replace(is_hidden=is_hidden, is_optional=is_optional))
        following = segment.words
    return marked[::-1]


def _optional(segments: list[Segment], enders: list[set[str]]) -> list[bool]:
    """Return for each segment whether it runs only after a failure, under a condition, or unless the shell exited
    before.
    """
    marks: list[bool] = []
    left: set[tuple[int, ...]] = set()  # parentheses around each place at which the shell may have exited
    depth = 0
    is_condition = is_after_or = False
    for segment, ender in zip(segments, enders, strict=True):
        for word in segment.words:
            if word in _OPENING:
                depth += 1
                is_condition = depth == 1
            elif word in _BRANCHES:
                is_condition = False
            elif word in _ENDING:
                depth -= 1
            else:
                break
        is_within = depth > 0 and not is_condition
        is_behind = bool(left) and any(segment.shells[: len(one)] == one for one in left)
        marks.append(is_within or is_behind or (is_after_or and not segment.is_piped))
        if _may_leave(segment.words, is_after_failure=is_after_or):
            left.add(segment.shells)
        is_after_or = "||" in ender
    return marks


def _may_leave(words: list[str], *, is_after_failure: bool) -> bool:
    """Return whether a segment may end the shell with success: ``exit`` keeps the status of the command before it."""
    at = next((at for at, word in enumerate(words) if word not in _LEADING), len(words))
    name, value = "".join(words[at : at + 1]), "".join(words[at + 1 : at + 2])
    if name == "exit":
        return value == "0" or (not value and not is_after_failure)
    return (name == "exec" and bool(value)) or (name == "trap" and "exit" in value)


def segments_of(words: list[str]) -> list[Segment] | None:
    """Return the commands within ``bash -c '…'`` and the like; None for another program."""
    at = place_of_text(words)
    return split_segments(words[at]) if at else None


def place_of_text(words: list[str]) -> int:
    """Return the index of the word of ``bash -c '…'`` and the like that is the text to run; 0 for another program."""
    if not words or words[0].rsplit("/", 1)[-1] not in _SHELLS:
        return 0
    for at, word in enumerate(words[1:5], 1):
        if word.startswith("-") and not word.startswith("--") and word.endswith("c") and at + 1 < len(words):
            return at + 1
        if not word.startswith("-"):
            return 0
    return 0


def flattened(segments: list[Segment], depth: int = _SHELLS_DEPTH_MAX) -> list[Segment]:
    """Return the commands, with a shell replaced by the commands that it is given."""
    flat: list[Segment] = []
    for segment in segments:
        words = program_of(segment.words)
        inner = segments_of(words) if words and depth else None
        if inner is None:
            flat.append(segment)
        else:
            within = flattened(inner, depth - 1)
            flat += [
                one._replace(
                    is_hidden=one.is_hidden or segment.is_hidden, is_optional=one.is_optional or segment.is_optional
                )
                for one in within
            ]
    return flat


def program_of(words: list[str]) -> list[str]:
    """Return the words from the program on, without assignments and without wrappers that start another program."""
    rest = words
    while True:
        begin = next((at for at, word in enumerate(rest) if not _ASSIGNMENT.match(word)), len(rest))
        layers = unwrap(rest[begin:]).layers
        if not layers or (layers[-1].wrapper is not None and layers[-1].program != "command"):
            return []
        if len(layers) == 1:
            return rest[begin:]
        rest = list(layers[-1].words)


def _unquoted(word: str) -> str:
    if not ("'" in word or '"' in word or "\\" in word):
        return word
    out = []
    for single, double, escaped, plain in _PART.findall(word):
        out.append(single or (_ESCAPED.sub(r"\1", double) if double else "") or escaped or plain)
    return "".join(out)
