"""The tags and the text of an HTML page, as the HTML Standard's tokenizer (WHATWG HTML §13.2.5) tells them apart.

Pages are broken in every way, some on purpose, so two rules are kept here: no page raises, and the time is linear in the page. A
tag, a comment or a quoted value that nothing closes runs to the end of the page, as the standard says, so the end is
looked for in vain once at the most.
"""

from __future__ import annotations

__all__ = ["EndTag", "StartTag", "html_tokens"]

import html
import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

_OPEN: Final = re.compile(r"<(?=[a-zA-Z/!?])")
_TAG_NAME: Final = re.compile(r"[a-zA-Z][^\t\n\r\f />]*+")
_ATTRIBUTE: Final = re.compile(
    r"[\t\n\r\f /]*+([^\t\n\r\f />][^\t\n\r\f />=]*+)"
    r"""(?>(?:[\t\n\r\f ]*+=[\t\n\r\f ]*+(?:"([^"]*+)"|'([^']*+)'|(?!["'])([^\t\n\r\f >]*+)))?)"""
)
_UNCLOSED_VALUE: Final = re.compile(r"""[\t\n\r\f ]*+=[\t\n\r\f ]*+["']""")
_BEHIND_ATTRIBUTES: Final = re.compile(r"[\t\n\r\f /]*+")
_END_OF_COMMENT: Final = re.compile(r"--!?>")
_RAW: Final = {
    name: re.compile(rf"</{name}(?=[\t\n\r\f />])", re.IGNORECASE)
    for name in ("script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes")
}
_WITH_REFERENCES: Final = frozenset({"textarea", "title"})
_NO_CHARACTER: Final = re.compile(
    r"&#(?:[xX]0*+[0-9a-fA-F]{7,}+|0*+[0-9]{8,}+);?+"
)  # ``html.unescape`` raises for very long ones


class StartTag(NamedTuple):
    """``name`` and the names of ``attributes`` in lower case. ``is_closed``: it is written ``<name/>``."""

    name: str
    attributes: Mapping[str, str]
    is_closed: bool = False


class EndTag(NamedTuple):
    name: str


Token: TypeAlias = StartTag | EndTag | str
"""A text is ``str``, its character references resolved; one text may come in several."""


class _Inside(NamedTuple):
    """Of two ``attributes`` with one name the first is held. ``end`` is behind the ``>``."""

    attributes: dict[str, str]
    is_closed: bool
    end: int


def html_tokens(page: str) -> Iterator[Token]:
    """The tokens of ``page`` in order, without comments and declarations. Never raises."""
    at = 0
    while found := _OPEN.search(page, at):
        if found.start() > at:
            yield _resolved(page[at : found.start()])
        at = found.end()
        is_end = page.startswith("/", at)
        named = _TAG_NAME.match(page, at + is_end)
        if named is None:
            if is_end and at + 1 == len(page):
                yield "</"
                return
            at = _behind_markup(page, at)
            continue
        name = named[0].lower()
        inside = _inside(page, named.end())
        if inside is None:
            return
        at = inside.end
        if is_end:
            yield EndTag(name)
            continue
        yield StartTag(name, inside.attributes, inside.is_closed)
        if name in _RAW:
            end = _RAW[name].search(page, at)
            raw = page[at : end.start() if end is not None else len(page)]
            if raw:
                yield _resolved(raw) if name in _WITH_REFERENCES else raw
            at += len(raw)
    if at < len(page):
        yield _resolved(page[at:])


def _behind_markup(page: str, at: int) -> int:
    """The place behind the comment or declaration whose ``<`` is before ``at``; the end of the page where nothing closes it."""
    if page.startswith("!--", at):
        found = _END_OF_COMMENT.search(page, at + 1)
        return found.end() if found is not None else len(page)
    return page.find(">", at) + 1 or len(page)


def _inside(page: str, at: int) -> _Inside | None:
    """What stands in a tag from ``at`` on, behind its name; None where nothing closes the tag."""
    found: dict[str, str] = {}
    while match := _ATTRIBUTE.match(page, at):
        at = match.end()
        name, *values = match.groups()
        if values == [None, None, None] and _UNCLOSED_VALUE.match(page, at):
            return None
        found.setdefault(name.lower(), _resolved("".join(filter(None, values))))
    behind = _BEHIND_ATTRIBUTES.match(page, at)
    assert behind is not None, "it matches nothing as well"
    return _Inside(found, behind[0].endswith("/"), behind.end() + 1) if behind.end() < len(page) else None


def _resolved(text: str) -> str:
    return html.unescape(_NO_CHARACTER.sub("\ufffd", text)) if "&" in text else text
