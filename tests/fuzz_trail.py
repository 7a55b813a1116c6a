"""Coverage-guided fuzzing of everything that reads trails, for whoever has ``atheris`` (it is no dependency):

    PYTHONPATH=src python tests/fuzz_trail.py -runs=1000000 -max_len=4096

Inputs are sealed anew before they are read, so that the container's SHA-256 does not keep the fuzzer out. What it starts from is
made of the opcode table: a step of every opcode, the tags, the extremes of numbers.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path

from periplus.base.encoding.container import MAGIC
from periplus.base.encoding.varint import uint_bytes
from periplus.base.errors import FormatError, NewerFormatError
from periplus.trail import (
    BY_CODE,
    OPCODES,
    Digest,
    Header,
    OperandKind,
    OperandValue,
    TrailBuilder,
    TrailReader,
    concat,
    listing,
    open_parts,
    salvage,
    verify,
    withhold,
)
from periplus.trail.format import layout

_VALUES: dict[OperandKind, OperandValue] = {
    "str": "text",
    "path": "src/a.py",
    "json": "{}",
    "bytes": "raw",
    "digest": Digest("sha256", bytes(32)),
    "uint": 300,
    "int": -300,
}
NUMBERS = (0, 1, 127, 128, 2**14, 2**24, 2**32, 2**53 - 1, 2**53, 2**62 - 1, 2**63, 2**64 - 1)


def dictionary() -> list[bytes]:
    """Words of the format: a step of every opcode with as many operands as it may have, tags, modes, numbers."""
    words = [MAGIC, *(uint_bytes(number) for number in NUMBERS), b"\x80\x00", b"\xff" * 10]
    words += [bytes((tag,)) for tag in sorted(layout.KNOWN_TAGS)]
    for code in BY_CODE:
        data = trail_of(code)
        words.append(data[slice(*_span(data, layout.TAG_STEPS))])
    return words


def trail_of(*codes: int) -> bytes:
    builder = TrailBuilder(bytes(32))
    for code in codes:
        builder.add(
            code, *(_VALUES[operand.kind] for operand in BY_CODE[code].operands), source=1, note="n", exit_code=1
        )
    return builder.finish(Header("a", "t"))


def corpus() -> list[bytes]:
    every = trail_of(*(opcode.code for opcode in OPCODES))
    single = [trail_of(opcode.code) for opcode in OPCODES]
    return [every, *single, withhold(every, lambda index, _: index % 2 == 0), concat([single[0], every])]


def read_everything(data: bytes) -> None:
    """Raises for whatever is not as promised."""
    report = verify(data)
    assert report.ok or report.offset is not None
    try:
        for reader in open_parts(data):
            for form in ("text", "verbose", "json"):
                for line in listing(reader, form):
                    assert "\x1b" not in line
        assert verify(salvage(data).data).ok
    except (FormatError, NewerFormatError) as error:
        if error.offset is None:
            raise AssertionError("an error without a place") from error


def _span(data: bytes, tag: int) -> tuple[int, int]:
    return TrailReader(data).span(tag)


def _sealed(data: bytes) -> bytes:
    body = data[:-34] + b"\xff\x20" if len(data) > 40 else data
    return body + hashlib.sha256(body).digest()


def main() -> None:
    import atheris

    folder = tempfile.mkdtemp(prefix="fuzz-trail-")
    for number, data in enumerate(corpus()):
        Path(folder, str(number)).write_bytes(data)
    words = Path(folder + ".dict")
    words.write_text("".join('"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n' for word in dictionary()))
    for name in [name for name in sys.modules if name.partition(".")[0] == "periplus"]:
        del sys.modules[name]
    with atheris.instrument_imports(include=["periplus"]):
        import fuzz_trail as harness  # itself once more, over modules that tell which branches are taken
    atheris.Setup([*sys.argv, f"-dict={words}", folder], lambda data: harness.read_everything(_sealed(data)))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
