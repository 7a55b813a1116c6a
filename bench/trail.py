"""A long trail written, sealed, verified and read, beside the same steps as lines of JSON by orjson with SHA-256."""

from __future__ import annotations

__all__ = ["measure"]

import hashlib
import random
from collections.abc import Iterator
from typing import Any

import orjson

from bench import codec
from bench.measure import Bench, Row, figure, in_turn, row, timed
from bench.samples import Texts
from periplus.trail import Digest, Header, TrailBuilder, TrailReader, verify

_Step = tuple[str, tuple[Any, ...], dict[str, Any]]


def measure(bench: Bench) -> Iterator[Row]:
    count, rounds = bench.size(100_000, 1_000), bench.size(4, 1)
    steps = _steps(count)
    plain = [[op, *(_plain(value) for value in (*operands, *more.values()))] for op, operands, more in steps]
    bench.say(f"{rounds} rounds of {count:,} steps")
    trail, lines = b"", list[bytes]()

    def add() -> tuple[float, float]:
        nonlocal trail
        builder = TrailBuilder(bytes(32), lambda data: hashlib.sha256(data).digest())

        def fill() -> None:
            for op, operands, more in steps:
                builder.add(op, *operands, **more)

        def seal() -> None:
            nonlocal trail
            trail = builder.finish(Header("bench", "run"))

        return timed(fill), timed(seal)

    def dump() -> tuple[float, float]:
        nonlocal lines
        lines = []

        def fill() -> None:
            for step in plain:
                lines.append(orjson.dumps(step))

        return timed(fill), timed(lambda: _hash(lines))

    written = in_turn(rounds, {"ours": add, "bare": dump})
    for what, name, index in (
        ("written, builder.add", "orjson.dumps, each step", 0),
        ("sealed, builder.finish", "SHA-256, each line", 1),
    ):
        mine, theirs = (figure([count / one[index] for one in written[side]]) for side in ("ours", "bare"))
        yield row("trail", what, "steps/s", mine, name, theirs, better="higher")

    def check() -> float:
        held: list[bool] = []
        spent = timed(lambda: held.append(verify(trail).ok))
        if not all(held):
            raise RuntimeError("the trail does not verify")
        return count / spent

    def decode() -> float:
        found: list[int] = []
        spent = timed(lambda: found.append(sum(1 for _ in TrailReader(trail).steps())))
        if found != [count]:
            raise RuntimeError("steps were lost")
        return count / spent

    def load() -> float:
        return count / timed(lambda: [None for line in lines if not orjson.loads(line)])

    def load_hashed() -> float:
        return count / (timed(lambda: _hash(lines)) + timed(lambda: [None for line in lines if not orjson.loads(line)]))

    read = in_turn(rounds, {"verify": check, "hashed": load_hashed, "decode": decode, "loads": load})
    for what, ours, name, other in (
        ("verified", "verify", "orjson.loads + SHA-256, each line", "hashed"),
        ("opened and decoded", "decode", "orjson.loads, each line", "loads"),
    ):
        yield row("trail", what, "steps/s", figure(read[ours]), name, figure(read[other]), better="higher")
    whole = float(sum(map(len, lines)) + count)
    size = float(len(trail))
    yield row("trail", "size", "bytes", figure([size]), "lines of JSON", figure([whole]))
    yield from codec.measure(bench)


def _hash(lines: list[bytes]) -> None:
    for line in lines:
        hashlib.sha256(line).digest()


def _plain(value: Any) -> Any:
    return value.value.hex() if isinstance(value, Digest) else value


def _steps(count: int) -> list[_Step]:
    """Steps as sessions have them: many calls of the model, files read and changed, commands, some words."""
    texts, chosen = Texts(7), random.Random(8)
    paths = [texts.path() for _ in range(400)]
    commands = [texts.sentence(2, 8) for _ in range(400)]
    now = 1_767_225_600_000
    steps: list[_Step] = []
    for number in range(count):
        now += chosen.randrange(4_000)
        at: dict[str, Any] = {"at_ms": now, "source": number + 1}
        result = Digest("sha256", number.to_bytes(32, "big"))
        of_call = {
            **at,
            "result": result,
            "result_size": chosen.randrange(20_000),
            "duration_ms": chosen.randrange(900),
        }
        path = chosen.choice(paths)
        steps.append(
            chosen.choice(
                (
                    ("MODEL_CALL", ("model", chosen.randrange(9_000), 30_000, chosen.randrange(900)), at),
                    ("FILE_READ", (path,), of_call),
                    ("FILE_EDIT", (path, f"old {number}", f"new {number}"), of_call),
                    ("COMMAND_RUN", (chosen.choice(commands), "/srv/shop"), {**of_call, "exit_code": 0}),
                    ("SAY", (texts.sentence(6, 30),), at),
                )
            )
        )
    return steps
