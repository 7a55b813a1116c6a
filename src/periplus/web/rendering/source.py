"""Source text as markup: highlighted by Pygments with classes, with numbered lines that have addresses.

Hidden characters are made visible before a lexer sees them, so code that is shown otherwise than it is read (Boucher and Anderson,
"Trojan Source", 2021) stands out. A lexer is chosen by the name of the file alone, and of a long or wide text no more is coloured than limits allow.
"""

from __future__ import annotations

__all__ = ["LINES_MAX", "Excerpt", "source_lines"]

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from periplus.web.rendering.text import visible

if TYPE_CHECKING:
    from markupsafe import Markup
    from pygments.lexer import Lexer

LINES_MAX: Final = 400
LINE_CHARACTERS_MAX: Final = 2_000
_COLOURED_CHARACTERS_MAX: Final = 200_000
_NAME_CHARACTERS_MAX: Final = 255


class Excerpt(NamedTuple):
    """``html`` shows lines from ``first_line`` on; ``left_out`` counts those behind that are not shown."""

    html: Markup
    first_line: int
    left_out: int


def source_lines(text: str, path: str, *, first_line: int = 1, lines_max: int = LINES_MAX) -> Excerpt:
    """Return ``text``, a part of the file ``path``, as at most ``lines_max`` numbered lines; each has the id ``L`` with its number."""
    from markupsafe import Markup

    lines = text.replace("\r\n", "\n").split("\n")
    if lines and not lines[-1]:
        lines.pop()
    shown = [_bounded(visible(line)) for line in lines[:lines_max]]
    html = _highlighted(shown, path)
    rows = "".join(
        f'<span class="line" id="L{number}"><a class="ln" href="#L{number}">{number}</a>{line}\n</span>'
        for number, line in enumerate(html, first_line)
    )
    block = Markup(f'<pre class="highlight source" tabindex="0"><code>{rows}</code></pre>')  # noqa: S704 - escaped by the formatter
    return Excerpt(block, first_line, max(0, len(lines) - len(shown)))


def _bounded(line: str) -> str:
    if len(line) <= LINE_CHARACTERS_MAX:
        return line
    return f"{line[:LINE_CHARACTERS_MAX]} … {len(line) - LINE_CHARACTERS_MAX:,} more characters"


def _highlighted(lines: list[str], path: str) -> list[str]:
    """Return each of ``lines`` as HTML; uncoloured where the lexer or the limits do not allow more."""
    from markupsafe import escape

    text = "\n".join(lines)
    lexer = _lexer(path.rpartition("/")[2][:_NAME_CHARACTERS_MAX]) if len(text) <= _COLOURED_CHARACTERS_MAX else None
    if lexer is not None:
        from pygments import highlight
        from pygments.formatters import HtmlFormatter

        found: list[str] = highlight(text, lexer, HtmlFormatter(nowrap=True)).split("\n")
        if len(found) == len(lines) + 1 and not found[-1]:
            return found[:-1]
    return [str(escape(line)) for line in lines]


@lru_cache(maxsize=64)
def _lexer(name: str) -> Lexer | None:
    """Return the lexer for a file of this name; None where there is none."""
    from pygments.lexers import get_lexer_for_filename
    from pygments.util import ClassNotFound

    try:
        # Nothing is stripped: a line that vanished would give the others a wrong number.
        return get_lexer_for_filename(name, stripnl=False, ensurenl=True)
    except ClassNotFound:
        return None
