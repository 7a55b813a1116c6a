"""The codec beside version 1 written down plainly (``flux_plain``), on the same steps: encode, decode, verify, size.

Each form of the codec, plain Python and native, is measured in a process of its own, in turn with the plain
version 1 in that process; figures are processor time. Both sides go from values to the bytes of a whole file and
back, every text resolved. Ours has times, outcomes, commitments, a tree and receipts on top, which version 1 has not.
"""

from __future__ import annotations

__all__ = ["forms", "measure"]

import gzip
import hashlib
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from bench import flux_plain
from bench.flux_plain import KEYS, FluxProgram, FluxStep, Opcode
from bench.measure import Bench, Figure, Row, figure, in_turn, row
from bench.processes import Form, run_child
from bench.samples import TRANSCRIPTS, Texts
from periplus.base.files import Files
from periplus.base.speed import IS_NATIVE
from periplus.interop import import_transcript
from periplus.memory.entities.trail_packing import TRAILS_AT_REST
from periplus.objects import ObjectStore
from periplus.trail import BY_CODE, Digest, Header, Step, TextObject, TrailReader, encode, opcode_name, verify
from periplus.trail.format import layout

_BASELINE: Final = "version 1, plain"
_WORKS: Final = ("encoded", "decoded", "verified")
_BEGUN_MS: Final = 1_767_225_600_000
_REAL: Final = (TRANSCRIPTS, os.path.join(os.path.dirname(TRANSCRIPTS), "codex-rollout"))


def measure(bench: Bench) -> Iterator[Row]:
    count, rounds = bench.size(30_000, 300), bench.size(5, 1)
    real = [*_real_files()]
    materials = ["worklog", *(["real"] if real else [])]
    for form in forms(bench):
        for material in materials:
            bench.say(f"{form}, {material}: {rounds} rounds")
            found = run_child(material, str(count), str(rounds), form=form, module="bench.codec")
            if found["is_native"] != (form == "native"):
                raise RuntimeError(f"the {form} form was asked for and did not run")
            for what in _WORKS:
                label = f"{what}, {'a worklog' if material == 'worklog' else 'real sessions'}, {form}"
                ours, baseline = (figure(found[side][what]) for side in ("ours", "plain"))
                yield row("trail", label, "steps/s", ours, _BASELINE, baseline, better="higher")
    if real:
        yield from _sizes(real, os.path.join(bench.folder, "objects"))


def forms(bench: Bench) -> Iterator[Form]:
    """Plain Python, and the native form where this installation has it; quickly, plain alone."""
    yield "plain"
    if bench.is_quick:
        return
    if IS_NATIVE:
        yield "native"
    else:
        bench.say("no native form here: it was installed without a compiler")


# In the process


def _main(material: str, count: str, rounds: str) -> None:
    steps = _worklog(int(count)) if material == "worklog" else _reduced(_real_files())
    times = 1 if material == "worklog" else -(-int(count) // (10 * len(steps)))
    program = FluxProgram(1, "trail", _BEGUN_MS // 1000, steps)
    header = Header("agent", "trail", started_ms=_BEGUN_MS)
    ours = [_step(step) for step in steps]
    their_bytes = flux_plain.encode(program)
    our_bytes = encode(header, ours, "success", bytes(32))
    if flux_plain.decode(their_bytes) != program or flux_plain.verify(their_bytes):
        raise RuntimeError("the plain version 1 lost something")
    if list(TrailReader(our_bytes).steps()) != ours or not verify(our_bytes).ok:
        raise RuntimeError("our codec lost something")
    works: dict[str, dict[str, Callable[[], object]]] = {
        "ours": {
            "encoded": lambda: encode(header, ours, "success", bytes(32)),
            "decoded": lambda: list(TrailReader(our_bytes).steps()),
            "verified": lambda: verify(our_bytes),
        },
        "plain": {
            "encoded": lambda: flux_plain.encode(program),
            "decoded": lambda: flux_plain.decode(their_bytes),
            "verified": lambda: flux_plain.verify(their_bytes),
        },
    }

    def speed(work: Callable[[], object]) -> float:
        begun = time.process_time()
        for _ in range(times):
            work()
        return times * len(steps) / (time.process_time() - begun)

    found: dict[str, Any] = {"is_native": IS_NATIVE, "ours": {}, "plain": {}}
    for what in _WORKS:
        turns = in_turn(int(rounds), {side: partial(speed, works[side][what]) for side in works})
        for side, values in turns.items():
            found[side][what] = values
    print(json.dumps(found))


def _step(step: FluxStep) -> Step:
    """The same step in version 2: half a second after the one before it."""
    row_of = BY_CODE[step.op]
    values: list[Any] = []
    for operand, value in zip(row_of.operands, step.arguments.values(), strict=False):
        if operand.kind == "digest":
            values.append(Digest("sha256", hashlib.sha256(str(value).encode()).digest()))
        else:
            values.append(str(value) if operand.kind in ("str", "path") else value)
    values += [None] * (len(row_of.operands) - len(values))
    return Step(step.op, tuple(values), delta_ms=500)


def _worklog(count: int) -> list[FluxStep]:
    """What a fleet writes down: files read and changed, searches, tests, messages."""
    texts, chosen = Texts(7), random.Random(8)
    paths = [texts.path() for _ in range(400)]
    words = [texts.sentence(3, 8)[:200] for _ in range(2_000)]

    def values(op: int) -> Iterator[str | int]:
        for key, kind in KEYS[op]:
            if kind == "number":
                yield chosen.randrange(30)
            else:
                yield chosen.choice(paths) if key == "path" else "bob" if key == "target" else chosen.choice(words)

    ops = [Opcode.FILE_READ, Opcode.FILE_READ, Opcode.FILE_WRITE, Opcode.FILE_EDIT, Opcode.TEST_RUN,
           Opcode.SEARCH_CODE, Opcode.COMMENT, Opcode.BOTTLE_DROP, Opcode.TRUST_UPDATE]  # fmt: skip
    return [
        FluxStep(op, dict(zip([key for key, _ in KEYS[op]], values(op), strict=True)))
        for op in chosen.choices(ops, k=count)
    ]


# Real sessions


class _Session(NamedTuple):
    reader: TrailReader
    objects: dict[bytes, bytes]


def _real_files() -> Iterator[str]:
    for top in _REAL:
        for folder, _, names in sorted(os.walk(top)):
            yield from (os.path.join(folder, name) for name in sorted(names) if name.endswith(".jsonl"))


def _sessions(paths: Sequence[str] | Iterator[str]) -> Iterator[_Session]:
    for path in paths:
        objects: dict[bytes, bytes] = {}

        def put(data: bytes, kept: dict[bytes, bytes] = objects) -> bytes:
            digest = hashlib.sha256(data).digest()
            kept[digest] = data
            return digest

        imported = import_transcript(path, trail_key=bytes(32), put_object=put)
        yield _Session(TrailReader(imported.trail), objects)


def _reduced(paths: Iterator[str]) -> list[FluxStep]:
    """The steps of real sessions as far as version 1 can carry them: at most three texts, of at most 255 bytes."""
    by_texts = {0: Opcode.NOP, 1: Opcode.COMMENT, 2: Opcode.CAP_ISSUE, 3: Opcode.FILE_EDIT}
    found = []
    for session in _sessions(paths):
        for step in session.reader.steps():
            texts = [_short(value, session) for value in step.operands if value is not None]
            op = by_texts[min(len(texts), 3)]
            found.append(FluxStep(op, dict(zip([key for key, _ in KEYS[op]], texts[:3], strict=True))))
    return found


def _short(value: object, session: _Session) -> str:
    if isinstance(value, TextObject):
        value = session.objects[value.sha256].decode()
    text = value.value.hex() if isinstance(value, Digest) else str(value)
    return text.encode()[:255].decode(errors="ignore")


def _sizes(paths: Sequence[str], folder: str) -> Iterator[Row]:
    """Bytes a step: of the steps section with its times, and of the files in which an object store keeps the whole."""
    steps = section = rest = 0
    lines: list[bytes] = []
    for number, (reader, objects) in enumerate(_sessions(paths)):
        steps += reader.step_count
        section += sum(len(reader.view(tag)) for tag in (layout.TAG_STEPS, layout.TAG_TIMES))
        rest += _at_rest(reader, objects, os.path.join(folder, str(number)))
        lines.append(_lines(reader, objects))
    whole = sum(map(len, lines))
    packed = sum(len(gzip.compress(text)) for text in lines)
    flux = flux_plain.encode(FluxProgram(1, "trail", 0, _reduced(iter(paths))))

    def of(size: int) -> Figure:
        return figure([size / steps])

    for what, size in (("steps section with times", section), ("whole, at rest", rest)):
        for name, baseline in (
            ("lines of JSON", whole),
            ("lines of JSON, gzip", packed),
            ("version 1, texts cut at 255 bytes", len(flux)),
        ):
            yield row("trail", f"real sessions, {what}", "bytes a step", of(size), name, of(baseline))


def _at_rest(reader: TrailReader, objects: dict[bytes, bytes], folder: str) -> int:
    """The bytes of the files in which an object store keeps the trail and its long texts."""
    store = ObjectStore(folder, Files(), packing=TRAILS_AT_REST)
    kept = {store.put(data) for data in (reader.to_bytes(), *(objects[text.sha256] for text in reader.text_objects()))}
    paths = [path for digest in kept for path in store.paths_of(digest)]
    if set(store.digests()) != kept or store.get(store.put(reader.to_bytes())) != reader.to_bytes():
        raise RuntimeError("the object store lost something")
    return sum(os.stat(path).st_size for path in paths)


def _lines(reader: TrailReader, objects: dict[bytes, bytes]) -> bytes:
    """The steps as lines of JSON with name, arguments and time."""
    out = []
    now = reader.header.started_ms
    for step in reader.steps():
        now += step.delta_ms
        found: dict[str, object] = {"name": opcode_name(step.code)}
        for operand, value in zip(BY_CODE[step.code].operands, step.operands, strict=False):
            if isinstance(value, TextObject):
                found[operand.name] = objects[value.sha256].decode()
            elif value is not None:
                found[operand.name] = value.value.hex() if isinstance(value, Digest) else value
        out.append(json.dumps({**found, "time": now}, ensure_ascii=False, separators=(",", ":")))
    return "".join(f"{line}\n" for line in out).encode()


if __name__ == "__main__":
    _main(*sys.argv[1:])
