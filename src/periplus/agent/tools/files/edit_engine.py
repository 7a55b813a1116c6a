"""Edit engine: find a piece of text and replace it. Pure functions over values.

The piece is searched exactly first. If that fails, whole lines are compared more and more tolerantly, and the result says what was
tolerated, since the caller's picture of the file was not quite right. At every level the piece must be found once, unless all are asked
for; a tolerant match must be the only one.

Line ends are ignored: text is compared with `` ``, and new text takes the ends of the lines that it replaces, or of their neighbours.
"""

from __future__ import annotations

__all__ = ["EditError", "Edited", "edit_lines"]

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from periplus.agent.tools.files.text_encoding import Lines, split_ends
from periplus.base.errors import UsageError

_PLACES_NAMED_MAX: Final = 8
_NUMBERED: Final = re.compile(r"[ ]{0,6}\d{1,7}(?:\||\t|│|→)")
_ALIKE: Final = str.maketrans({
    "\u2018": "'", "\u2019": "'", "\u201a": "'", "\u201b": "'", "\u201c": '"', "\u201d": '"', "\u201e": '"',
    "\u2010": "-", "\u2011": "-", "\u2012": "-", "\u2013": "-", "\u2014": "-", "\u2212": "-",
    "\u00a0": " ", "\u2007": " ", "\u202f": " ", "\u2003": " ", "\u2002": " ", "\u2009": " ",
})  # fmt: skip


class EditError(UsageError):
    """An edit that cannot be made; nothing was changed."""

    code = "edit"


@dataclass(frozen=True, slots=True)
class Edited:
    """The text after an edit. ``places`` are the lines at which pieces were replaced, from 1; ``tolerated`` says what was tolerated."""

    lines: Lines
    places: tuple[int, ...]
    tolerated: tuple[str, ...] = ()


def edit_lines(lines: Lines, old: str, new: str, *, every: bool = False) -> Edited:
    """Replace ``old`` by ``new``. Raises EditError for empty or blank ``old``, and for no match or several."""
    if not old.strip():
        raise _refusal(
            "the text to look for is empty" if not old else "the text to look for is blank",
            "Give the lines to replace as the file has them; to make or fill a file, write it.",
        )
    plain_old, plain_new = split_ends(old).text, split_ends(new).text
    tolerated = ["line ends"] if "\r" in old and "\r\n" not in lines.ends and "\r" not in lines.ends else []
    if plain_old == plain_new:
        raise _refusal("old and new are the same text: nothing would change", "Put the replacement into new.")
    spots = _exact_spots(lines.text, plain_old)
    if len(spots) > 1 and not every:
        raise _ambiguous(lines.text, spots)
    if spots:
        return _replaced(lines, [(spot, spot + len(plain_old), plain_new) for spot in spots], tolerated)
    if every:
        raise _not_found(lines.text, plain_old, "every takes exact matches only")
    match = _tolerant_match(lines.text, plain_old, plain_new)
    if match is None:
        raise _not_found(lines.text, plain_old, "")
    start, end, put, names = match
    if lines.text[start:end] == put:
        raise _refusal("the file holds new already: nothing would change", "Read the file again.")
    return _replaced(lines, [(start, end, put)], [*tolerated, *names])


def _exact_spots(text: str, old: str) -> list[int]:
    """Positions of ``old`` without overlap; two overlapping ones are ambiguous and count both."""
    spots = []
    at = text.find(old)
    while at >= 0:
        spots.append(at)
        following = text.find(old, at + 1)
        if 0 <= following < at + len(old):
            raise _refusal(
                f"old overlaps itself at line {text.count(chr(10), 0, at) + 1}: it is not clear which one is meant",
                "Include more lines around it in old.",
            )
        at = following
    return spots


def _replaced(lines: Lines, pieces: Sequence[tuple[int, int, str]], tolerated: Sequence[str]) -> Edited:
    """Replace ``pieces``: start, end and new text, in order and disjoint."""
    text, ends = lines.text, lines.ends
    out: list[str] = []
    out_ends: list[str] = []
    places = []
    at = done = 0  # characters and line ends copied so far
    for start, end, new in pieces:
        before = done + text.count("\n", at, start)
        removed = text.count("\n", start, end)
        out += [text[at:start], new]
        out_ends += ends[done:before]
        places.append(len(out_ends) + 1)
        gone = ends[before : before + removed]
        wanted = new.count("\n")
        fill = _neighbour(lines, before, gone)
        out_ends += gone[:wanted]
        out_ends += [fill] * (wanted - len(gone))
        at, done = end, before + removed
    out.append(text[at:])
    out_ends += ends[done:]
    return Edited(Lines("".join(out), tuple(out_ends)), tuple(places), tuple(tolerated))


def _neighbour(lines: Lines, place: int, gone: Sequence[str]) -> str:
    """The end for an added line: that of the last one replaced, else of the line it stands in, else of the one before."""
    if gone:
        return gone[-1]
    if place < len(lines.ends):
        return lines.ends[place]
    return lines.ends[-1] if lines.ends else "\n"


# Tolerance


def _tolerant_match(text: str, old: str, new: str) -> tuple[int, int, str, list[str]] | None:
    """Start, end, replacement and tolerances of the one place that matches; None without one."""
    rows = text.split("\n")
    wanted, put = old.split("\n"), new.split("\n")
    is_closed = len(wanted) > 1 and wanted[-1] == ""  # old ends with a line end
    if is_closed:
        wanted.pop()
    notes: list[str] = []
    if all(_NUMBERED.match(row) for row in wanted):
        wanted = [_NUMBERED.sub("", row, count=1) for row in wanted]
        put = [_NUMBERED.sub("", row, count=1) for row in put]
        notes.append("line numbers copied from the listing")
    for normal, about in _LEVELS:
        found = _row_spots(rows, wanted, normal)
        if len(found) > 1:
            raise _refusal(
                f"old has no exact match, and matches {len(found)} places when {about} is tolerated: lines {_named(found)}",
                "Copy the lines as the file has them, with more around them.",
            )
        if found:
            return _fitted(rows, found[0], wanted, put, [*notes, *([about] if about else [])], is_closed=is_closed)
    return None


def _as_it_is(row: str) -> str:
    return row


def _without_trailing(row: str) -> str:
    return row.rstrip()


def _alike(row: str) -> str:
    return row.rstrip().translate(_ALIKE)


def _bare(row: str) -> str:
    return row.strip().translate(_ALIKE)


_LEVELS: Final[tuple[tuple[Callable[[str], str], str], ...]] = (
    (_as_it_is, ""),
    (_without_trailing, "blanks at the ends of lines"),
    (_alike, "typographic quotes, dashes and blanks"),
    (_bare, "indentation"),
)


def _row_spots(rows: Sequence[str], wanted: Sequence[str], normal: Callable[[str], str]) -> list[int]:
    """The rows at which ``wanted`` begins when both are ``normal``-ised."""
    have, want = [normal(row) for row in rows], [normal(row) for row in wanted]
    first, size = want[0], len(want)
    return [at for at in range(len(have) - size + 1) if have[at] == first and have[at : at + size] == want]


def _fitted(
    rows: Sequence[str], at: int, wanted: Sequence[str], put: Sequence[str], notes: list[str], *, is_closed: bool
) -> tuple[int, int, str, list[str]] | None:
    held = rows[at : at + len(wanted)]
    shifted = _reindented(held, wanted, put)
    if shifted is None:
        return None
    start = sum(len(row) + 1 for row in rows[:at])
    end = start + sum(len(row) + 1 for row in held) - 1
    if is_closed:
        if at + len(held) < len(rows):
            end += 1
        else:
            notes.append("the file's last line has no end")
            if shifted[-1] == "" and len(shifted) > 1:
                shifted.pop()
    return start, end, "\n".join(shifted), notes or ["the end of the last line"]


def _reindented(held: Sequence[str], wanted: Sequence[str], put: Sequence[str]) -> list[str] | None:
    """``put`` with the file's indentation where ``wanted`` was indented differently; None if the difference is not uniform."""
    pairs: dict[str, str] = {}
    for mine, theirs in zip(wanted, held, strict=True):
        if mine.strip() and pairs.setdefault(_indent(mine), _indent(theirs)) != _indent(theirs):
            return None
    if all(mine == theirs for mine, theirs in pairs.items()):
        return list(put)
    shift = _shift(pairs)
    out = []
    for row in put:
        own = _indent(row)
        if not row.strip():
            out.append(row)
        elif own in pairs:
            out.append(pairs[own] + row[len(own) :])
        else:
            moved = shift(own)
            if moved is None:
                return None
            out.append(moved + row[len(own) :])
    return out


def _shift(pairs: dict[str, str]) -> Callable[[str], str | None]:
    """Map indentations that are not among ``pairs``: as much deeper as they are than the deepest known one below; for one shallower than
    all, add or remove what all have in common.
    """
    added = {theirs.removesuffix(mine) if theirs.endswith(mine) else None for mine, theirs in pairs.items()}
    cut = {mine.removesuffix(theirs) if mine.endswith(theirs) else None for mine, theirs in pairs.items()}

    def moved(own: str) -> str | None:
        known = max((mine for mine in pairs if own.startswith(mine)), key=len, default=None)
        if known is not None:
            return pairs[known] + own[len(known) :]
        if len(added) == 1 and (more := next(iter(added))) is not None:
            return more + own
        if len(cut) == 1 and (less := next(iter(cut))) is not None and own.startswith(less):
            return own[len(less) :]
        return None

    return moved


def _indent(row: str) -> str:
    return row[: len(row) - len(row.lstrip(" \t\u00a0"))]


# Messages


def _refusal(wrong: str, mend: str) -> EditError:
    return EditError(wrong, safe="Nothing was changed.", mend=mend)


def _ambiguous(text: str, spots: Sequence[int]) -> EditError:
    places = [text.count("\n", 0, spot) for spot in spots[: _PLACES_NAMED_MAX + 1]]
    return _refusal(
        f"old is found {len(spots)} times: lines {_named(places, len(spots))}",
        "Include more lines around the right one in old, or set every=true.",
    )


def _not_found(text: str, old: str, why: str) -> EditError:
    rows = text.split("\n")
    first = next(row.strip() for row in old.split("\n") if row.strip())
    near = [at for at, row in enumerate(rows) if row.strip() == first]
    if not near and len(first) >= 8:
        near = [at for at, row in enumerate(rows) if first[:40] in row]
    hint = f"; its first line is at {_named(near)}, and what follows differs" if near else ""
    return _refusal(f"old is not in the file{hint}{'; ' + why if why else ''}", "Read those lines again and copy them.")


def _named(places: Sequence[int], count: int | None = None) -> str:
    shown = ", ".join(f"{place + 1}" for place in places[:_PLACES_NAMED_MAX])
    more = (count or len(places)) - min(len(places), _PLACES_NAMED_MAX)
    return f"{shown} and {more} more" if more > 0 else shown
