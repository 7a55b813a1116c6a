"""Source of past turns: a protocol, and an implementation over episodes in memory."""

from __future__ import annotations

__all__ = ["FoundTurn", "KeptTurns", "Turns"]

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from periplus.agent.episodes import Episode
from periplus.agent.tape.history.turn_pages import title_of, turn_text


class FoundTurn(NamedTuple):
    """A turn that matches a question. ``score`` grows with the match."""

    session: str
    turn: int
    text: str
    score: float


@runtime_checkable
class Turns(Protocol):
    """The turns of one session. ``episodes`` is empty for a turn that does not exist."""

    def episodes(self, turn: int) -> Sequence[Episode]: ...

    def titles(self) -> Sequence[tuple[int, str]]: ...

    def texts(self) -> Iterator[tuple[int, str]]: ...


class KeptTurns:
    """Turns over all episodes of a session, as ``read`` returns them."""

    def __init__(self, read: Callable[[], Sequence[Episode]]) -> None:
        self._read = read

    def episodes(self, turn: int) -> Sequence[Episode]:
        return [one for one in self._read() if one.turn == turn]

    def titles(self) -> Sequence[tuple[int, str]]:
        return [(turn, title_of(episodes)) for turn, episodes in self._grouped().items()]

    def texts(self) -> Iterator[tuple[int, str]]:
        for turn, episodes in self._grouped().items():
            yield turn, turn_text(episodes)

    def _grouped(self) -> dict[int, list[Episode]]:
        found: dict[int, list[Episode]] = {}
        for episode in self._read():
            if episode.turn > 0:
                found.setdefault(episode.turn, []).append(episode)
        return found
