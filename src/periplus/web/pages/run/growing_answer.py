"""The answer in progress of a run in this process, from its events."""

from __future__ import annotations

__all__ = ["GrowingAnswer"]

import threading
from collections import deque
from typing import TYPE_CHECKING, Final

from periplus.base.text.secrets import mask_secrets

if TYPE_CHECKING:
    from periplus.agent.events import Event

GROWING_CHARACTERS: Final = 8_000
_ENDS: Final = ("step_started", "answer_completed", "answer_restarted", "turn_ended")


class GrowingAnswer:
    """Takes the events of a run. It never makes the run wait or fail, and its memory is bounded."""

    def __init__(self, session: str) -> None:
        self.session = session
        self._lock = threading.Lock()
        self._pieces: deque[str] = deque()
        self._characters = 0

    def take(self, event: Event) -> None:
        if event.agent:
            return  # of a subagent, which has its own session
        kind = event.__struct_config__.tag
        with self._lock:
            if kind in _ENDS:
                self._pieces.clear()
                self._characters = 0
            elif kind == "text_grown":
                text: str = event.text  # type: ignore[union-attr]  # it is a TextGrown
                self._pieces.append(text[-2 * GROWING_CHARACTERS :])
                self._characters += len(self._pieces[-1])
                while self._characters - len(self._pieces[0]) >= 2 * GROWING_CHARACTERS:
                    self._characters -= len(self._pieces.popleft())

    def growing_text(self) -> str:
        """The end of the text, up to the last complete word: a secret is masked only when complete, and before the text is cut."""
        with self._lock:
            text = "".join(self._pieces)
        whole = text[: max(text.rfind(" "), text.rfind("\n")) + 1]
        return mask_secrets(whole)[0][-GROWING_CHARACTERS:]
