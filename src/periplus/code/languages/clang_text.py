"""C and C++ before the grammar reads it: what only the preprocessor understands is blanked, and all offsets stay.

The grammars read a file as if there were no preprocessor. Two things then cost definitions far beyond the line they stand in:

* conditional groups that split a block or an expression between their branches. Of such a group the first branch stays (the longest, where
  one is very long), and the directives and the other branches are blanked; so is ``extern "C" {`` for C++ alone;
* macros that expand to attributes, keywords or whole declarations (``class EXPORT A : B {``). They are told by their capitals and their
  place, and the names in them are noted as references.
"""

from __future__ import annotations

__all__ = ["blank_unreadable"]

import re
from itertools import pairwise
from typing import Final, NamedTuple

_DEPTH_MAX: Final = 200
_SPLIT_BYTES_MAX: Final = 20_000
_WORD_BYTES_MAX: Final = 64
_LINE_BYTES_MAX: Final = 400
_DIRECTIVE: Final = re.compile(
    rb"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|elifdef|else|endif)\b(?:\\\r?\n|[^\n])*", re.MULTILINE
)
_EXTERN: Final = re.compile(rb"\s*(?:extern\s*\"C(?:\+\+)?\"\s*\{?|\}\s*(?:/\*[^*]*\*/|//[^\n]*)?\s*;?)\s*")
_TEXTS: Final = re.compile(rb"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|/\*.*?(?:\*/|\Z)|//[^\n]*", re.DOTALL)
_LONG_MACRO: Final = re.compile(rb"^[ \t]*#[ \t]*define\b(?:[^\n]*\\\r?\n)+[^\n]*", re.MULTILINE)
_COMMENT: Final = re.compile(rb"/\*.*?(?:\*/|\Z)", re.DOTALL)
_NOT_BLANK: Final = re.compile(rb"[^\s]")
_NOT_BLANK_OR_JOINED: Final = re.compile(rb"(?!\\\r?\n)[^\s]")
_LABEL: Final = re.compile(rb"(?:case\b.*|[\w\s]+):")
_BOUNDARIES: Final = b';{},)>/"\\'

_NAME: Final = re.compile(rb"\b[A-Za-z_]\w*")
_CAPITALS: Final = r"[A-Z_][A-Z0-9_]{2,}"
_CALL: Final = r"(?:\((?:[^()\n]|\([^()\n]*\))*\))?"
_LONG_CALL: Final = r"(?:\((?:[^(){};#]|\([^(){};#]*\))*\))?"
_KEYWORD: Final = (
    r"(?:auto|void|int|char|bool|static|inline|constexpr|explicit|virtual|unsigned|signed|long|short|float|double|struct|class|enum|union"
    r"|operator|template|typename|extern|friend|size_t|ssize_t|\w+_t|const\s+\w|~\w|using|namespace)"
)


def _pattern(text: str) -> re.Pattern[bytes]:
    """Return a pattern in which CAPITALS, CALL and KEYWORD stand for those above. A literal first byte lets it be searched fast."""
    for name, value in (("LONGCALL", _LONG_CALL), ("CALL", _CALL), ("CAPITALS", _CAPITALS), ("KEYWORD", _KEYWORD)):
        text = text.replace(name, value)
    return re.compile(text.encode())


# enum { #define X(a) A_##a, … #undef X }
_ENUM: Final = re.compile(rb"\benum\b[^{};()\n]{0,200}\s{0,200}\{[^{}]*\}")
_IN_ENUM: Final = _pattern(
    r"\n[ \t]*(?P<macro>#[ \t]*(?:define|undef)\b(?:\\\r?\n|[^\n])*|CAPITALS\([^()\n]*\)(?=[ \t]*\r?\n))"
)
# class EXPORT Name : Base {
_IN_CLASS: Final = _pattern(
    r"\b(?:class|struct|union)[ \t]+(?P<macro>CAPITALSCALL(?:[ \t]+CAPITALSCALL)*)\s+"
    r"(?=(?:\w+::)*[A-Za-z_]\w*\s*(?:<[^;{}()]*>\s*)?(?:final\b\s*)?[:{])"
)
# static INLINE int f(…), INLINE Name(…) where a class is called so
_BEFORE: Final = _pattern(
    r"\n[ \t]*(?:(?:static|inline|extern|constexpr|virtual|explicit|friend|const|template\s*<[^<>\n]*>)\s+)*"
    r"(?P<macro>CAPITALSCALL(?:[ \t]+CAPITALSCALL)*)[ \t]+"
    r"(?=KEYWORD\b|(?P<made>\w+)\s*\(|(?:\w+::)*\w+(?:<[^<>;{}()\n]*>)?[ \t*&]+(?:\w[\w:]*\s*\(|\(\*))"
)
# __must_check int f(…)
_UNDERSCORES: Final = _pattern(r"\n(?P<macro>__[a-z]\w*)[ \t]+(?=\w+(?:\([^()\n]*\))?[ \t*]+\w)")
# static lower_case_macro Type, and the name in the next line
_LOWER: Final = _pattern(
    r"\nstatic[ \t]+(?P<macro>(?!KEYWORD\b|const\b)\w+(?:[ \t]+(?!KEYWORD\b|const\b)\w+)*)[ \t]+(?:const[ \t]+)?\w+[ \t*]*(?=\r?\n\w+\s*\()"
)
# #if __has_cpp_attribute(gnu::name)
_ATTRIBUTE: Final = re.compile(rb"__has_(?:cpp_|c_)attribute\s*\(\s*\w+(?P<macro>::\w+)")
# BEGIN_NAMESPACE, DECLARE_FUNCTIONS(Name)
_ALONE: Final = _pattern(
    r"\n[ \t]*(?P<macro>CAPITALSLONGCALL)[ \t]*(?=\r?\n\s*(?:[#}/:~]|CAPITALS\s*\(|(?!\w+\s*[\n(])[A-Za-z_]))"
)
# f() const MARK {
_BEHIND: Final = _pattern(
    r"\)\s*(?:(?:const|noexcept|override|final)\s+)*(?P<macro>CAPITALSCALL(?:\s+CAPITALSCALL)*)\s*(?=\{)"
)
# "text" MACRO("x")
_TEXT: Final = _pattern(r"\"[ \t]*(?P<macro>CAPITALS\([^()\n]*\))(?=[ \t]*[\",);])")
# int x GUARDED_BY(mutex);
_MARK: Final = re.compile(rb"GUARDED_BY|LOCKS_|_ATTR|NORETURN|NOEXCEPT|REQUIRES|DEPRECATED")
_MARKED: Final = _pattern(r"(?P<macro>CAPITALSCALL)\s*(?=[;{=])")
_WORD_BEFORE: Final = re.compile(rb"[\w)\]]\s+(\w*)$")
_CLASS: Final = _pattern(r"\b(?:class|struct)\s+(?:CAPITALSCALL\s+)?(\w+)")


class _Branch(NamedTuple):
    """A branch of a conditional group: where its directive begins and ends."""

    start: int
    end: int
    word: bytes


def blank_unreadable(data: bytes) -> tuple[bytes, list[tuple[int, str]]]:
    """Return ``data`` with blanks for what the grammar cannot read, and the names in blanked macros with their offsets."""
    text = bytearray(data)
    _blank_groups(data, text)
    for match in _LONG_MACRO.finditer(data):
        for comment in _COMMENT.finditer(data, *match.span()):  # the grammars end the macro there
            text[slice(*comment.span())] = _NOT_BLANK_OR_JOINED.sub(b" ", comment[0])
    names: list[tuple[int, str]] = []
    classes = frozenset(_CLASS.findall(data))
    for pattern in (_ATTRIBUTE, _IN_CLASS, _UNDERSCORES, _BEFORE, _ALONE, _BEHIND, _TEXT, _LOWER):
        for match in pattern.finditer(bytes(text)):
            if pattern is _ALONE and not _is_boundary(text, match.start()):
                continue
            if pattern is _BEFORE and match["made"] is not None and match["made"] not in classes:
                continue
            _blank_macro(text, match, names)
    for enum in _ENUM.finditer(data):
        if b"#" not in enum[0]:
            continue
        for match in _IN_ENUM.finditer(bytes(text), *enum.span()):
            _blank_macro(text, match, names)
    for mark in _MARK.finditer(data):
        before = _WORD_BEFORE.search(text, max(0, mark.start() - _WORD_BYTES_MAX), mark.start())
        if before is not None and (found := _MARKED.match(text, before.start(1))) is not None:
            _blank_macro(text, found, names)
    return bytes(text), names


def _blank_macro(text: bytearray, match: re.Match[bytes], names: list[tuple[int, str]]) -> None:
    start, end = match.span("macro")
    names += [(start + name.start(), name[0].decode()) for name in _NAME.finditer(bytes(text[start:end]))]
    _blank(text, start, end)


def _blank_groups(data: bytes, text: bytearray) -> None:
    """Blank the directives, and all but one branch, of conditional groups that the grammar cannot read."""
    open_groups: list[list[_Branch]] = []
    for match in _DIRECTIVE.finditer(data):
        branch = _Branch(match.start(), match.end(), match[1])
        if branch.word.startswith(b"if"):
            open_groups.append([branch])
        elif open_groups:
            group = open_groups[-1]
            group.append(branch)
            if branch.word == b"endif":
                open_groups.pop()
                if len(open_groups) < _DEPTH_MAX:
                    _blank_group(data, text, group)


def _blank_group(data: bytes, text: bytearray, group: list[_Branch]) -> None:
    inside = [bytes(text[one.end : after.start]) for one, after in pairwise(group)]
    if len(inside) == 1 and b"__cplusplus" in data[group[0].start : group[0].end] and _EXTERN.fullmatch(inside[0]):
        _blank(text, group[0].start, group[-1].end)
        return
    if all(_is_whole(part) for part in inside) and _is_boundary(text, group[0].start):
        return
    kept = max(inside, key=len) if max(map(len, inside)) > _SPLIT_BYTES_MAX else inside[0]
    for one, part in zip(group, inside, strict=False):
        _blank(text, one.start, one.end if part is kept else one.end + len(part))
    _blank(text, group[-1].start, group[-1].end)


def _is_whole(part: bytes) -> bool:
    """Return True where what a branch opens it also closes."""
    for _ in range(2):
        if part.count(b"{") == part.count(b"}") and part.count(b"(") == part.count(b")"):
            return True
        part = _TEXTS.sub(b" ", part)
    return False


def _is_boundary(text: bytearray, at: int) -> bool:
    """Return True where a statement can begin at ``at``, as far as the line before tells."""
    before = text[max(0, at - _LINE_BYTES_MAX) : at].rstrip()
    line = before[before.rfind(b"\n") + 1 :].lstrip()
    if before[-1:] == b":":
        return _LABEL.fullmatch(line) is not None
    return not before or before[-1] in _BOUNDARIES or line.startswith((b"#", b"//", b"*")) or b"//" in line


def _blank(text: bytearray, start: int, end: int) -> None:
    text[start:end] = _NOT_BLANK.sub(b" ", text[start:end])
