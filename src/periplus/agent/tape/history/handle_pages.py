"""Pages behind handles: contents that left the tape, for the ordinary file tools to read, list and search.

    @periplus/turns/12.md                a turn: request, answers, calls, changes
    @periplus/turns/12/patch/src/a.py    its change of a file
    @periplus/trail/12/3.1.txt           the exact output of the first call of its third step
    @periplus/files/<sha256>/src/a.py    a file as it was
    @periplus/memory/<id>.md             a memory of the project
    @periplus/sessions/<id>/turns/3.md   a turn of another session, and its trail likewise

Each is a ``PageSource`` (``agent.tools.text_pages.page_source``). Every handle that the tape shows can be read.
"""

from __future__ import annotations

__all__ = ["FilePages", "MemoryPages", "OtherPages", "TrailPages", "TurnPages", "pages_of"]

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from periplus.agent.episodes import Noted
from periplus.agent.tape.entries import ROOT, call_handle, patch_handle, turn_handle
from periplus.agent.tape.history.turn_pages import call_text, patch_text, turn_text
from periplus.agent.tape.history.turn_source import Turns
from periplus.agent.tape_notes import SealNote, note_in
from periplus.agent.tools.text_pages.page_source import Page, PageMatch, PageSource
from periplus.base.errors import NotFoundError, PeriplusError

if TYPE_CHECKING:
    from periplus.project import Project

_TURN: Final = re.compile(r"turns/(\d{1,9})\.md")
_PATCH: Final = re.compile(r"turns/(\d{1,9})/patch/(.+)")
_CALL: Final = re.compile(r"trail/(\d{1,9})/(\d{1,9})\.(\d{1,9})\.txt")
_IN_TURN: Final = re.compile(r"(?:turns|trail)/(\d{1,9})/")
_OTHER: Final = re.compile(r"@periplus/sessions/(ses_[0-9A-Za-z]+)/")
_FILE: Final = re.compile(r"@periplus/files/([0-9a-f]{64})/(.+)")
_MEMORY: Final = re.compile(r"@periplus/memory/([a-z]+_[0-9A-Za-z]+)\.md")
_LISTED_MAX: Final = 1_000


def pages_of(
    turns: Turns,
    kept: Callable[[str], bytes | None] | None = None,
    project: Project | None = None,
    turns_of: Callable[[str], Turns] | None = None,
) -> dict[str, PageSource]:
    """The page sources of a session by folder, as ``tools.text_pages.page_source.Pages`` takes them."""
    found: dict[str, PageSource] = {"turns": TurnPages(turns), "trail": TrailPages(turns)}
    if kept is not None:
        found["files"] = FilePages(kept)
    if turns_of is not None:
        found["sessions"] = OtherPages(turns_of)
    if project is not None:
        found["memory"] = MemoryPages(project)
    return found


def _matches(pattern: str, texts: Iterable[tuple[str, str]]) -> list[PageMatch]:
    from periplus.agent.tools.text_pages.pattern_matching import match_texts
    from periplus.agent.tools.text_pages.search_patterns import Pattern

    return [PageMatch(one.name, one.line, one.text) for one in match_texts(Pattern.parse(pattern), texts)]


def _no_page(handle: str) -> NotFoundError:
    return NotFoundError(f"no page {handle}", mend="list(path='@periplus/turns/') shows the turns of this session.")


class TurnPages:
    def __init__(self, turns: Turns, root: str = ROOT) -> None:
        self._turns = turns
        self._root = root

    def list(self, prefix: str) -> Sequence[Page]:
        match = _IN_TURN.match(prefix.removeprefix(self._root))
        if match is None:
            found = [Page(turn_handle(turn, self._root), title) for turn, title in self._turns.titles()]
            return [page for page in found if page.handle.startswith(prefix)]
        turn = int(match[1])
        found = [
            Page(patch_handle(turn, patch.path, self._root), f"+{patch.added} -{patch.removed}")
            for episode in self._turns.episodes(turn)
            if isinstance(episode, Noted)
            for note in [note_in(episode)]
            if isinstance(note, SealNote)
            for patch in (*note.patches, *note.outside)
        ]
        return [page for page in dict.fromkeys(found) if page.handle.startswith(prefix)]

    def read(self, handle: str) -> str:
        if match := _TURN.fullmatch(handle.removeprefix(self._root)):
            return turn_text(self._turns.episodes(int(match[1])), self._root)
        if match := _PATCH.fullmatch(handle.removeprefix(self._root)):
            return patch_text(self._turns.episodes(int(match[1])), match[2])
        raise _no_page(handle)

    def search(self, pattern: str, prefix: str) -> Sequence[PageMatch]:
        return _matches(pattern, self._texts(prefix))

    def _texts(self, prefix: str) -> Iterator[tuple[str, str]]:
        if _IN_TURN.match(prefix.removeprefix(self._root)):
            yield from ((page.handle, self.read(page.handle)) for page in self.list(prefix))
            return
        for turn, text in self._turns.texts():
            if turn_handle(turn, self._root).startswith(prefix):
                yield turn_handle(turn, self._root), text


class TrailPages:
    """Outputs of calls. They are listed and searched turn by turn, since a whole session has no bound."""

    def __init__(self, turns: Turns, root: str = ROOT) -> None:
        self._turns = turns
        self._root = root

    def list(self, prefix: str) -> Sequence[Page]:
        match = _IN_TURN.match(prefix.removeprefix(self._root))
        if match is None:
            newest = list(self._turns.titles())[-_LISTED_MAX:]
            found = [Page(f"{self._root}trail/{turn}/", title) for turn, title in newest]
            return [page for page in found if page.handle.startswith(prefix)]
        found = [Page(handle, title, len(text)) for handle, title, text in self._calls(int(match[1]))]
        return [page for page in found if page.handle.startswith(prefix)]

    def read(self, handle: str) -> str:
        match = _CALL.fullmatch(handle.removeprefix(self._root))
        if match is None:
            raise _no_page(handle)
        return call_text(self._turns.episodes(int(match[1])), int(match[2]), int(match[3]))

    def search(self, pattern: str, prefix: str) -> Sequence[PageMatch]:
        match = _IN_TURN.match(prefix.removeprefix(self._root))
        turns = [int(match[1])] if match else [turn for turn, _ in self._turns.titles()]
        texts = ((handle, text) for turn in turns for handle, _, text in self._calls(turn))
        return _matches(pattern, ((handle, text) for handle, text in texts if handle.startswith(prefix)))

    def _calls(self, turn: int) -> Iterator[tuple[str, str, str]]:
        from periplus.agent.episodes import Answered, Resulted

        episodes = self._turns.episodes(turn)
        outputs = {(one.step, one.call_id): one.result for one in episodes if isinstance(one, Resulted)}
        for episode in episodes:
            if isinstance(episode, Answered):
                for place, call in enumerate(episode.message.tool_calls, 1):
                    result = outputs.get((episode.step, call.id))
                    if result is not None:
                        yield (
                            call_handle(turn, episode.step, place, self._root),
                            f"{call.name}: {result.outcome}",
                            result.output,
                        )


class OtherPages:
    """Turns and trails of any session, below its id; ``turns_of`` returns the turns of a session."""

    def __init__(self, turns_of: Callable[[str], Turns]) -> None:
        self._turns_of = turns_of

    def list(self, prefix: str) -> Sequence[Page]:
        return [page for source in self._sources(prefix) for page in source.list(prefix)]

    def read(self, handle: str) -> str:
        for source in self._sources(handle):
            return source.read(handle)
        raise _no_page(handle)

    def search(self, pattern: str, prefix: str) -> Sequence[PageMatch]:
        return [match for source in self._sources(prefix) for match in source.search(pattern, prefix)]

    def _sources(self, handle: str) -> Iterator[PageSource]:
        match = _OTHER.match(handle)
        if match is not None:
            folder = handle[match.end() :]
            turns = self._turns_of(match[1])
            if not folder.startswith("trail"):
                yield TurnPages(turns, match[0])
            else:
                yield TrailPages(turns, match[0])


class FilePages:
    """Earlier contents of files, by the digest of their bytes. They are named where they matter and never listed."""

    def __init__(self, kept: Callable[[str], bytes | None]) -> None:
        self._kept = kept

    def list(self, prefix: str) -> Sequence[Page]:
        del prefix
        return []

    def read(self, handle: str) -> str:
        match = _FILE.fullmatch(handle)
        data = self._kept(match[1]) if match else None
        if data is None:
            raise NotFoundError(f"no page {handle}: the bytes of that digest are not kept")
        return data.decode("utf-8", "replace")

    def search(self, pattern: str, prefix: str) -> Sequence[PageMatch]:
        return _matches(pattern, [(prefix, self.read(prefix))]) if _FILE.fullmatch(prefix) else []


class MemoryPages:
    """The memory of a project, one page for each entity."""

    def __init__(self, project: Project) -> None:
        self._project = project

    def list(self, prefix: str) -> Sequence[Page]:
        from periplus.memory.entities.types import NOT_REMEMBERED

        self._project.journal.refresh()
        found = [
            Page(f"@periplus/memory/{one.item_id}.md", f"{one.item_type}: {str(one.value.get('text', ''))[:100]}")
            for one in self._project.journal.entities()
            if one.item_type not in NOT_REMEMBERED
        ]
        return sorted(page for page in found if page.handle.startswith(prefix))

    def read(self, handle: str) -> str:
        match = _MEMORY.fullmatch(handle)
        if match is None:
            raise NotFoundError(f"no page {handle}", mend="list(path='@periplus/memory/') shows what there is.")
        self._project.journal.refresh()
        try:
            entity = self._project.journal.find(match[1])
        except PeriplusError as error:
            raise NotFoundError(f"no page {handle}: {error}") from error
        return memory_text(entity.item_type, entity.item_id, entity.ts, entity.value)

    def search(self, pattern: str, prefix: str) -> Sequence[PageMatch]:
        return _matches(pattern, ((page.handle, self.read(page.handle)) for page in self.list(prefix)))


def memory_text(item_type: str, item_id: str, ts: str, value: object) -> str:
    """An entity as a page: its text, then its other fields."""
    import json

    fields = dict(value) if isinstance(value, dict) else {}
    text = str(fields.pop("text", "") or fields.get("title", ""))
    rest = "\n".join(
        f"{name}: {one if isinstance(one, str) else json.dumps(one, sort_keys=True, ensure_ascii=False)}"
        for name, one in sorted(fields.items())
        if name != "v" and one not in ("", [], None)
    )
    return f"# {item_type} {item_id} ({ts})\n{text}\n\n{rest}\n"
