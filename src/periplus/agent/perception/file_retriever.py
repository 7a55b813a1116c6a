"""Search for pieces of the project's files by the words of a query, without an index and within limits.

Files are walked as the tools walk them (ignored files are left out). Each is scored by how many of the query's words are in its path and in
its best window of lines; rare words count more than common ones.
"""

from __future__ import annotations

__all__ = ["FolderRetriever"]

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from periplus.agent.contracts import Snippet
from periplus.base.errors import PeriplusError
from periplus.base.filesystem.confined_folder import Confined
from periplus.base.text.search_terms import query_terms, rough_stem, terms

FILES_MAX: Final = 2_000
FILE_BYTES_MAX: Final = 256 << 10
BYTES_MAX: Final = 16 << 20
SECONDS_MAX: Final = 2.0
_OWN: Final = "periplus:"
_WINDOW_LINES: Final = 14
_TRIED_MAX: Final = 50
_WORD_CHARACTERS: Final = 80
_BEFORE_LINES: Final = 3
_PATH_WEIGHT: Final = 2.0
_HIDDEN: Final = frozenset({"node_modules", "__pycache__", "dist", "build", "target"})


class FolderRetriever:
    """Satisfies ``contracts.Retriever`` for the files below ``root``, without those that ``unread`` keeps back."""

    def __init__(self, root: str, unread: Callable[[str], bool] = lambda _: False) -> None:
        self._root = root
        self._unread = unread

    def retrieve(self, query: str, k: int = 6) -> Sequence[Snippet]:
        asked = {rough_stem(term) for term in query_terms(query)}
        if not asked or k <= 0:
            return ()
        seen: dict[str, int] = dict.fromkeys(asked, 0)
        held: list[tuple[str, str, set[str], set[str]]] = []
        count = 0
        for path, text in self._texts():
            count += 1
            named = asked & {rough_stem(term) for term in terms(path)}
            low = text.lower()
            near = [word for word in asked if word in low]
            found = {word for word in near if _stands(word, low, text if len(text) == len(low) else low)}
            for word in found | named:
                seen[word] += 1
            if found or named:
                held.append((path, text, found, named))
        weights = {word: math.log(1 + count / (1 + number)) for word, number in seen.items()}
        scored = sorted(((self._score(one, weights), one[0], one) for one in held), key=lambda row: (-row[0], row[1]))
        return tuple(Snippet(path=path, text=_window(one[1], one[2]), score=score) for score, path, one in scored[:k])

    @staticmethod
    def _score(one: tuple[str, str, set[str], set[str]], weights: dict[str, float]) -> float:
        return sum(weights[word] for word in one[2]) + _PATH_WEIGHT * sum(weights[word] for word in one[3])

    def _texts(self) -> Iterator[tuple[str, str]]:
        deadline = time.monotonic() + SECONDS_MAX
        folder = Confined(self._root)
        try:
            room = BYTES_MAX
            for path in self._paths():
                if time.monotonic() > deadline:
                    return
                try:
                    entry = folder.stat(path)
                    if entry is None or entry.kind != "file" or entry.size > min(FILE_BYTES_MAX, room):
                        continue
                    data = folder.read(path)
                except (OSError, PeriplusError):
                    continue  # gone meanwhile, or not readable
                room -= len(data)
                if b"\0" not in data[:4096]:
                    text = _without_own_part(data.decode("utf-8", "replace"), path)
                    if text.strip():
                        yield path, text
        finally:
            folder.close()

    def _paths(self) -> Iterator[str]:
        number = 0
        for folder, names, files in os.walk(self._root):
            names[:] = sorted(name for name in names if not name.startswith(".") and name not in _HIDDEN)
            for name in sorted(files):
                if name.startswith("."):
                    continue
                number += 1
                if number > FILES_MAX:
                    return
                path = os.path.relpath(os.path.join(folder, name), self._root)
                if not self._unread(path):
                    yield path


def _without_own_part(text: str, path: str) -> str:
    """Remove the part that ``periplus connect`` maintains, since memory says the same. Changes made by a person stay."""
    if _OWN not in text:
        return text
    from periplus.interop.agents.editing.markdown_block import find_block, is_intact, is_sealed, remove_block

    try:
        block = find_block(text, path)
    except PeriplusError:
        return text  # our part cannot be recognised
    if block is not None:
        return text if block.is_edited else remove_block(text, path)
    return "" if is_sealed(text) and is_intact(text) else text


def _stands(stem: str, low: str, text: str) -> bool:
    """Return whether a term of that stem is in the text; ``low`` is the text in lower case. Only words that contain the stem are analysed:
    analysing all would take a second for each thousand pages.
    """
    at, tried = low.find(stem), 0
    while at >= 0 and tried < _TRIED_MAX:
        first, last = at, at + len(stem)
        while first > max(0, at - _WORD_CHARACTERS) and (text[first - 1].isalnum() or text[first - 1] in "_-"):
            first -= 1
        while last < min(len(text), at + _WORD_CHARACTERS) and (text[last].isalnum() or text[last] in "_-"):
            last += 1
        if stem in {rough_stem(term) for term in terms(text[first:last])}:
            return True
        at, tried = low.find(stem, last), tried + 1
    return False


def _window(text: str, words: set[str]) -> str:
    """The lines in which most of the words occur together."""
    lines = text.split("\n")
    marks = [len(words & {rough_stem(term) for term in terms(line)}) if line.strip() else 0 for line in lines]
    best, at, held = -1, 0, 0
    for place, mark in enumerate(marks):
        held += mark - (marks[place - _WINDOW_LINES] if place >= _WINDOW_LINES else 0)
        if held > best:
            best, at = held, max(0, place - _WINDOW_LINES + 1)
    first = next((place for place in range(at, min(len(lines), at + _WINDOW_LINES)) if marks[place]), at)
    at = max(0, first - _BEFORE_LINES)
    return "\n".join(lines[at : at + _WINDOW_LINES])
