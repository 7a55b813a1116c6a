"""Values of JSON as indented, coloured text."""

from __future__ import annotations

__all__ = ["JSON_CHARACTERS_MAX", "json_lines", "json_markup"]

import json
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from periplus.web.rendering.text import visible

if TYPE_CHECKING:
    from markupsafe import Markup

    from periplus.base.encoding.canonical import JSONValue

JSON_CHARACTERS_MAX: Final = 60_000


def json_lines(value: JSONValue) -> str:
    """Return a value as indented JSON, its fields in their order."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def json_markup(value: JSONValue) -> Markup:
    """Return a value as markup for a ``<pre>``: visible, with classes for colours, cut at JSON_CHARACTERS_MAX."""
    from markupsafe import Markup
    from pygments import highlight

    text = json_lines(value)
    lexer, formatter = _tools()
    found = Markup(highlight(visible(text[:JSON_CHARACTERS_MAX]), lexer, formatter))  # noqa: S704 - the formatter escapes every token
    if len(text) > JSON_CHARACTERS_MAX:
        found += Markup('<span class="cut">… {:,} more characters</span>').format(len(text) - JSON_CHARACTERS_MAX)
    return found


@cache
def _tools() -> tuple[Any, Any]:
    from pygments.formatters.html import HtmlFormatter
    from pygments.lexers.data import JsonLexer

    return JsonLexer(stripnl=False, ensurenl=False), HtmlFormatter(nowrap=True)
