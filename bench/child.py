"""One measurement in a process of its own, so that its memory is its own: prints seconds and peak memory as JSON."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Final


def _orjson(path: str) -> Callable[[], object]:
    import orjson

    def run() -> None:
        with open(path, "rb") as file:
            for line in file:
                orjson.loads(line)

    return run


def _json(path: str) -> Callable[[], object]:
    import json

    def run() -> None:
        with open(path, "rb") as file:
            for line in file:
                json.loads(line)

    return run


def _trail(path: str) -> Callable[[], object]:
    import hashlib

    from periplus.interop import import_transcript

    def keep(data: bytes) -> bytes:
        return hashlib.sha256(data).digest()

    return lambda: import_transcript(path, trail_key=bytes(32), put_object=keep)


def _trail_file(work: str) -> Callable[[str], Callable[[], object]]:
    """``work`` on a trail file: what modules it takes is imported by every one of them."""
    from periplus.trail import TrailReader, listing, verify

    works: dict[str, Callable[[bytes], object]] = {
        "read": len,
        "verify": lambda data: verify(data).ok or sys.exit("the trail does not verify"),
        "list": lambda data: sum(len(line) for line in listing(TrailReader(data), "compact")),
        "hold": lambda data: list(TrailReader(data).steps()),
    }

    def start(path: str) -> Callable[[], object]:
        def run() -> None:
            with open(path, "rb") as file:
                works[work](file.read())

        return run

    return start


def _store(path: str, root: str) -> Callable[[], object]:
    from periplus.journal import Writer
    from periplus.project import Project

    def run() -> None:
        with Project(root, Writer("bench", "who_0000000000000000")) as project:
            project.import_transcript(path)

    return run


def _orjson_files(folder: str) -> Callable[[], object]:
    import orjson

    def run() -> None:
        for path in _segments(folder):
            with open(path, "rb") as file:
                for line in file:
                    orjson.loads(line)

    return run


def _fold(folder: str) -> Callable[[], object]:
    from periplus.journal.records.segment import decode_header
    from periplus.journal.state.fold import Fold, without_collector
    from periplus.journal.storage.lineage import START, LineageReader

    def nothing(_: str) -> bytes:
        raise AssertionError("the history of the benchmark has no payloads in objects")

    def run() -> None:
        lineage = os.path.basename(folder)
        with open(_segments(folder)[0], "rb") as file:
            store = decode_header(file.readline())[0].store
        reader = LineageReader(folder, (store,), lineage)
        fold = Fold(nothing, lambda _, *places: reader.lines_at(*places))
        with without_collector():
            reader.read_blocks(START, lambda segment, block: fold.add(block, lineage, segment))
            for _ in fold.take_heads():
                pass

    return run


def _open(root: str) -> Callable[[], object]:
    from periplus.journal import EntityType, Journal

    types = {"decision": EntityType("decision", "dec", is_projected=False, check=lambda _: None)}
    return lambda: Journal(root, types).close()


def _segments(folder: str) -> list[str]:
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".jsonl"))


def _peak_bytes() -> int:
    """The most memory this process has had resident. What the one that started it had does not count here."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


_WORKS: Final[dict[str, Callable[..., Callable[[], object]]]] = {
    "orjson": _orjson,
    "json": _json,
    "trail": _trail,
    "store": _store,
    **{
        f"trail-{work}": (lambda path, work=work: _trail_file(work)(path))
        for work in ("read", "verify", "list", "hold")
    },
    "orjson-files": _orjson_files,
    "fold": _fold,
    "open": _open,
}


def main(what: str, *arguments: str) -> None:
    work = _WORKS[what](*arguments)
    begun, cpu = time.perf_counter(), time.process_time()
    work()
    wall_s, cpu_s = time.perf_counter() - begun, time.process_time() - cpu
    print(f'{{"wall_s": {wall_s}, "cpu_s": {cpu_s}, "peak_bytes": {_peak_bytes()}}}')


if __name__ == "__main__":
    main(*sys.argv[1:])
