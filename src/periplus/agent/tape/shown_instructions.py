"""Instructions that the model was shown, and folders that work has entered: a fold over episodes."""

from __future__ import annotations

__all__ = ["Instructions"]

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from periplus.agent.tape.entries import InstructionsEntry
from periplus.agent.tape_notes import InstructionFile, InstructionsNote

if TYPE_CHECKING:
    from periplus.agent.tape.placed_turns import PlacedTurn

FOLDERS_MAX: Final = 128
FILES_MAX: Final = 128
_CHARACTERS_MAX: Final = 2_048
_OF_FOLDERS: Final = frozenset({"list", "search"})  # tools whose path may name a folder itself
_PATHS: Final = ("path", "file", "file_path")


@dataclass(slots=True)
class Instructions:
    """State of the instructions. ``live`` are the shown files by path, as last shown; ``folders`` are those that calls touched, the newest
    last, as the calls spelled them.
    """

    live: dict[str, InstructionFile] = field(default_factory=dict)
    folders: dict[str, None] = field(default_factory=dict)
    is_trusted: bool = False

    def copied(self) -> Instructions:
        return Instructions(dict(self.live), dict(self.folders), self.is_trusted)

    def take(self, note: InstructionsNote) -> None:
        self.is_trusted = note.is_trusted
        for one in note.files:
            self.live.pop(one.path, None)
            if one.sha256:
                self.live[one.path] = one
        while len(self.live) > FILES_MAX:
            del self.live[next(iter(self.live))]

    def enter(self, name: str, args: Mapping[str, Any]) -> None:
        """Note the folder that a successful call touched."""
        for key in _PATHS:
            path = args.get(key)
            if isinstance(path, str):
                self._enter(path) if name in _OF_FOLDERS else self.enter_file(path)
        edits = args.get("edits")
        for edit in edits if isinstance(edits, list) else ():
            path = edit.get("path") if isinstance(edit, dict) else None
            if isinstance(path, str):
                self.enter_file(path)
        if isinstance(args.get("cwd"), str):
            self._enter(args["cwd"])

    def enter_file(self, path: str) -> None:
        self._enter(path.rpartition("/")[0])

    def entries(
        self, turn: int, sealed: Sequence[PlacedTurn] | None, placed: Sequence[PlacedTurn]
    ) -> tuple[InstructionsEntry, ...]:
        """Instructions that a fold has to repeat: those shown by the turns that go (None: by any turn), except those that remaining turns
        show.
        """
        shown = {(one.path, one.sha256) for turn_in_place in placed for one in turn_in_place.instructions}
        gone = None if sealed is None else {(one.path, one.sha256) for old in sealed for one in old.instructions}
        files = tuple(
            one
            for path, one in self.live.items()
            if one.text and (path, one.sha256) not in shown and (gone is None or (path, one.sha256) in gone)
        )
        return (InstructionsEntry(turn=turn, files=files, is_trusted=self.is_trusted),) if files else ()

    def _enter(self, folder: str) -> None:
        if not folder.strip("./") or folder.startswith("@") or len(folder) > _CHARACTERS_MAX:
            return
        self.folders.pop(folder, None)
        self.folders[folder] = None
        while len(self.folders) > FOLDERS_MAX:
            del self.folders[next(iter(self.folders))]
