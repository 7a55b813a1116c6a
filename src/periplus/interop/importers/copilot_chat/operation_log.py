"""Reader of the log in which VS Code stores a session as changes of one document.

Each line is an entry: the document (``kind`` 0, value ``v``), a value that is set (1) or deleted (3) at the path ``k``,
or elements that are added to the list there (2), after ``i`` elements where it is given.

Requests come at the end of the list and change until they are answered. So the last ones are kept, and the oldest is
given out when too many wait: memory is bounded, and a change of a request that was given out is counted.
"""

from __future__ import annotations

__all__ = ["BYTES_MAX", "REQUESTS_MAX", "REQUEST_BYTES_MAX", "OperationLog", "kind_of"]

from collections.abc import Iterator
from typing import Final, NamedTuple

from periplus.interop.readers.json_values import integer_of, list_of, table_of, text_of
from periplus.interop.readers.line_reader import LINE_BYTES_MAX

REQUESTS_MAX: Final = 256
BYTES_MAX: Final = 4 << 20  # of the waiting requests, as text
REQUEST_BYTES_MAX: Final = LINE_BYTES_MAX
_PATH_MAX: Final = 32
_INITIAL: Final = 0
_SET: Final = 1
_PUSH: Final = 2
_DELETE: Final = 3
_REQUESTS: Final = "requests"
_INPUT: Final = "inputState"
_FACTS: Final = frozenset({"creationDate", "customTitle", "sessionId", _INPUT})


def kind_of(entry: dict[str, object]) -> int | None:
    """Return the kind of an entry, None for an unknown one."""
    kind = integer_of(entry.get("kind"))
    return kind if kind in (_INITIAL, _SET, _PUSH, _DELETE) else None


class _Waiting(NamedTuple):
    line: int
    value: object


class OperationLog:
    """Takes entries, and gives requests out in their order with the number of the line they came with.

    ``facts`` are members of the document that tell of the session; ``lost`` counts changes that could not be made.
    """

    def __init__(self) -> None:
        self.facts: dict[str, object] = {}
        self.lost: dict[str, int] = {}
        self._first = 0  # the place in the list of the first waiting request
        self._waiting: list[_Waiting] = []
        self._weights: list[int] = []

    def feed(self, line: int, entry: dict[str, object], size: int) -> Iterator[tuple[int, dict[str, object]]]:
        """Apply an entry of ``size`` bytes; yield the requests that wait no longer."""
        kind, path = kind_of(entry), list_of(entry.get("k"))
        if kind is None:
            return
        if kind == _INITIAL:
            self._start(line, table_of(entry.get("v")), size)
        elif not path or len(path) > _PATH_MAX:
            self._lose("change without a place")
        elif path[0] != _REQUESTS:
            self._learn(path, kind, entry.get("v"))
        elif len(path) == 1:
            self._change_list(line, kind, entry, size)
        else:
            self._change_request(path, kind, entry, size)
        yield from self._give(self._excess())

    def finish(self) -> Iterator[tuple[int, dict[str, object]]]:
        yield from self._give(len(self._waiting))

    def _excess(self) -> int:
        """Return the number of the oldest requests that wait no longer; the last one always waits."""
        number = max(len(self._waiting) - REQUESTS_MAX, 0)
        size = sum(self._weights[number:])
        while number < len(self._waiting) - 1 and size > BYTES_MAX:
            size -= self._weights[number]
            number += 1
        return number

    def _give(self, number: int) -> Iterator[tuple[int, dict[str, object]]]:
        given = self._waiting[:number]
        del self._waiting[:number], self._weights[:number]
        self._first += number
        for line, value in given:
            yield line, table_of(value)

    def _lose(self, why: str) -> None:
        self.lost[why] = self.lost.get(why, 0) + 1

    def _start(self, line: int, document: dict[str, object], size: int) -> None:
        """Take the document; a second one replaces the first, as in a log that was written anew."""
        self.facts = {name: value for name, value in document.items() if name in _FACTS}
        requests = list_of(document.get(_REQUESTS))
        if self._first:
            self._lose("request that is told again")
        self._waiting = [_Waiting(line, value) for value in requests[self._first :]]
        self._weights = [size // max(1, len(requests))] * len(self._waiting)

    def _learn(self, path: list[object], kind: int, value: object) -> None:
        name = text_of(path[0])
        if kind != _SET or name not in _FACTS:
            return
        if len(path) == 1:
            self.facts[name] = value
        elif path[1:] == ["selectedModel"] and name == _INPUT:
            self.facts[name] = {"selectedModel": value}

    def _change_list(self, line: int, kind: int, entry: dict[str, object], size: int) -> None:
        added = list_of(entry.get("v"))
        if kind == _PUSH:
            start = integer_of(entry.get("i"))
        else:  # the whole list, whose first requests were given out
            start, added = self._first, added[self._first :]
        if start is not None:
            if 0 <= start < self._first:  # requests that were given out are taken back: the next ones have their places
                self._lose("change of a request that was read")
                self._first = start
            kept = max(start - self._first, 0)
            del self._waiting[kept:], self._weights[kept:]
        self._waiting += [_Waiting(line, value) for value in added]
        self._weights += [size // max(1, len(added))] * len(added)

    def _change_request(self, path: list[object], kind: int, entry: dict[str, object], size: int) -> None:
        number = integer_of(path[1])
        at = -1 if number is None else number - self._first
        if not 0 <= at < len(self._waiting):
            self._lose("change of a request that was read" if at < 0 and number is not None else "change of nothing")
        elif len(path) == 2:
            if kind == _SET:
                self._waiting[at] = self._waiting[at]._replace(value=entry.get("v"))
                self._weights[at] = size
            else:
                self._lose("change of nothing")
        else:
            if self._weights[at] + size > REQUEST_BYTES_MAX:
                self._weigh(at)
            if self._weights[at] + size > REQUEST_BYTES_MAX:
                self._lose("change of a request that is too large")
            else:
                self._change(self._waiting[at].value, path[2:], kind, entry)
                self._weights[at] += size

    def _weigh(self, at: int) -> None:
        """Determine the size of a request anew: values that were replaced do not count any more."""
        import orjson

        try:
            self._weights[at] = len(orjson.dumps(self._waiting[at].value))
        except (TypeError, ValueError):  # deeper than the encoder goes
            self._weights[at] = REQUEST_BYTES_MAX

    def _change(self, value: object, path: list[object], kind: int, entry: dict[str, object]) -> None:
        """Change the value at ``path`` within ``value``."""
        for name in path[:-1]:
            value = _inner(value, name)
        name = path[-1]
        if kind == _PUSH:
            self._push(value, name, entry)
        elif isinstance(value, dict) and isinstance(name, str):
            if kind == _SET:
                value[name] = entry.get("v")
            else:
                value.pop(name, None)
        elif isinstance(value, list) and (place := integer_of(name)) is not None and 0 <= place < len(value):
            value[place] = entry.get("v")
        else:
            self._lose("change of nothing")

    def _push(self, value: object, name: object, entry: dict[str, object]) -> None:
        found = _inner(value, name)
        if found is None and isinstance(value, dict) and isinstance(name, str):
            found = value[name] = []
        if not isinstance(found, list):
            self._lose("change of nothing")
            return
        start = integer_of(entry.get("i"))
        if start is not None:
            del found[max(start, 0) :]
        found += list_of(entry.get("v"))


def _inner(value: object, name: object) -> object:
    if isinstance(value, dict):
        return value.get(text_of(name))
    place = integer_of(name)
    return value[place] if isinstance(value, list) and place is not None and 0 <= place < len(value) else None
