"""Branches of a transcript, which is a tree written to one file.

Each record names its parent. A second record that continues the same message or prompt begins a branch; a sidechain is
the branch of a subagent. ``BranchTracker`` returns the lane (branch) of a record, and the LABEL for a change of lane. It also
detects repeated records, because a resumed session repeats its history.

Memory: two tables of numbers under the hashes of the names, in two generations of ``RECORDS_MAX`` each: about 250
bytes for each of the newest records and nothing for older ones.
"""

from __future__ import annotations

__all__ = ["NO_PARENT", "RECORDS_MAX", "BranchTracker", "Parent"]

from typing import Final, TypeAlias

RECORDS_MAX: Final = 200_000
LANES_MAX: Final = 4096
_STEP_BITS: Final = 32
_LANE_BITS: Final = 16
_PLACE_BITS: Final = _STEP_BITS + _LANE_BITS
_STEP_MASK: Final = (1 << _STEP_BITS) - 1
_LANE_MASK: Final = (1 << _LANE_BITS) - 1
_PLACE_MASK: Final = (1 << _PLACE_BITS) - 1
_MAIN: Final = 0


# The parent of a record: its hashed name (None: it has none), and its place.
Parent: TypeAlias = tuple[int | None, int | None]
NO_PARENT: Final[Parent] = (None, None)


class BranchTracker:
    def __init__(self) -> None:
        # uuid → fingerprint, lane, steps up to it on its lane; and the generation before
        self._records: dict[int, int] = {}
        self._old_records: dict[int, int] = {}
        # uuid of a parent → its continuer; and the generation before
        self._continued: dict[int, int] = {}
        self._old_continued: dict[int, int] = {}
        self._names: list[str] = ["main", "sidechains"]
        self._is_side: list[bool] = [False, True]
        self._sidechains: dict[str, int] = {}
        self._used_names: dict[str, int] = {}
        self._entered: set[int] = set()  # labelled branches
        self._current: int | None = None  # the lane of the last record with a step
        self._last_main = _MAIN

    def find(self, uuid: object) -> Parent:
        if type(uuid) is not str or not uuid:
            return NO_PARENT
        key = hash(uuid)
        known = self._records.get(key)
        return key, known if known is not None else self._old_records.get(key)

    def is_repeated(self, uuid: str, fingerprint: int) -> bool:
        """Test that the record ``uuid`` was seen before with the same content."""
        known = self.find(uuid)[1]
        return known is not None and known >> _PLACE_BITS == fingerprint

    def inherit(self, uuid: str, parent: object) -> bool:
        """Give a record that is no message the place of its parent; return False where that is unknown."""
        known = self.find(parent)[1]
        if known is None:
            return False
        self._put(uuid, known & _PLACE_MASK)
        return True

    def note(self, uuid: str, fingerprint: int, lane: int, parent: Parent, steps: int, *, is_step: bool) -> None:
        """Remember a record and the number of steps before it. A record without a step takes the place of its parent."""
        if not is_step and parent[1] is not None:
            steps = parent[1] & _STEP_MASK
        self._put(uuid, (fingerprint << _LANE_BITS | lane & _LANE_MASK) << _STEP_BITS | steps & _STEP_MASK)

    def place(self, parent: Parent, *, is_side: bool, side_id: str, continuer: str | None) -> int:
        """Return the lane of a record. ``continuer`` names the message or prompt it belongs to, None for other
        records, which never branch; ``side_id`` is the sidechain that it would begin.
        """
        key, known = parent
        lane = known >> _STEP_BITS & _LANE_MASK if known is not None else None
        branches = continuer is not None and key is not None and self._is_branch(key, continuer)
        if is_side:
            if lane is None or not self._is_side[lane]:
                lane = self._sidechain(side_id)
                branches = False
        elif lane is None or self._is_side[lane]:
            branches = branches and lane is None
            lane = self._last_main
        if branches:
            steps = known & _STEP_MASK if known is not None else 0
            lane = self._open(f"branch from step {steps - 1}" if steps else "branch from the start", is_side=is_side)
        return lane

    def enter(self, lane: int) -> str | None:
        """Return the LABEL for a change to ``lane``; None where the lane stays the same."""
        before = self._current
        if before == lane:
            return None
        self._current = lane
        if not self._is_side[lane]:
            self._last_main = lane
        if before is None:
            return None
        name = self._names[lane]
        if not name.startswith("branch "):
            return name
        was_left = lane in self._entered
        self._entered.add(lane)
        return f"back to {name}" if was_left else name

    def _put(self, uuid: str, value: int) -> None:
        if len(self._records) >= RECORDS_MAX:
            self._old_records, self._records = self._records, {}
        self._records[hash(uuid)] = value

    def _is_branch(self, key: int, continuer: str) -> bool:
        mark = hash(continuer)
        before = self._continued.get(key)
        if before is None:
            before = self._old_continued.get(key)
        if before == mark:
            return False
        if len(self._continued) >= RECORDS_MAX:
            self._old_continued, self._continued = self._continued, {}
        self._continued[key] = mark
        return before is not None

    def _sidechain(self, side_id: str) -> int:
        lane = self._sidechains.get(side_id)
        if lane is None:
            lane = self._open(f"sidechain {side_id[:80]}", is_side=True)
            if len(self._sidechains) < LANES_MAX:
                self._sidechains[side_id] = lane
        return lane

    def _open(self, name: str, *, is_side: bool) -> int:
        if len(self._names) >= LANES_MAX:  # a hostile file: further branches share the first lane of their kind
            return self._is_side.index(is_side)
        times = self._used_names[name] = self._used_names.get(name, 0) + 1
        self._names.append(name if times == 1 else f"{name} ({times})")
        self._is_side.append(is_side)
        return len(self._names) - 1
