"""Trails at rest: the file that a row of columns stands for (docs/formats/trail.md, At rest)."""

import binascii
import hashlib
import hmac
import lzma
from pathlib import Path

from .forms import leaf_hash, need, tree_root, varint

PRIMED = Path(__file__).parents[2] / "src" / "periplus" / "base" / "primed.lzma"
_KNOWN_BYTES = 48_143
_DIGEST_BYTES = {2: 32, 3: 20, 4: 32}
_ERROR, _RESULT, _NOTE, _EXIT = 0x10, 0x20, 0x40, 0x08


def number(value: int) -> bytes:
    """A LEB128 number."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


class _Columns:
    """The columns, read from the front."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def number(self) -> int:
        value, self.at = varint(self.data, self.at)
        return value

    def numbers(self, count: int) -> list[int]:
        return [self.number() for _ in range(count)]


class _Strings:
    """The string table as it grows: the kind of each entry."""

    def __init__(self) -> None:
        self.kinds: list[int] = []

    def new(self, kind: int) -> int:
        self.kinds.append(kind)
        return len(self.kinds) - 1

    def ago(self, back: int) -> int:
        need(0 < back <= len(self.kinds), "a string before the first")
        return len(self.kinds) - back


def _columns(data: bytes) -> tuple[int, bytes, bytes, bytes]:
    form = data[0]
    checked = data[3:]
    need(
        binascii.crc_hqx(checked, form ^ len(checked) & 0xFFFF) == int.from_bytes(data[1:3], "big"),
        "the checksum is another",
    )
    length, at = varint(data, 3)
    columns, at = varint(data, at)
    packed, at = varint(data, at)
    secret, at = data[at : at + 32], at + 32
    stream, raw = data[at : at + packed], data[at + packed :]
    window = {1: 1 << 18, 2: 1 << 22}[form]
    opened = lzma.LZMADecompressor(
        lzma.FORMAT_RAW, filters=[{"id": lzma.FILTER_LZMA1, "dict_size": window, "lc": 3, "lp": 0, "pb": 0}]
    )
    known = _KNOWN_BYTES if form == 1 else 0
    front = PRIMED.read_bytes()[13:19_580] if form == 1 else b""
    plain = opened.decompress(front + stream, max_length=known + columns)
    need(len(plain) == known + columns, "the columns are cut short")
    return length, plain[known:], secret, raw


def unrest(data: bytes) -> bytes:
    """The trail file that lies in `objects/` as *data*."""
    length, columns, secret, raw = _columns(data)
    trail = _Trail(_Columns(columns), secret, raw)
    found = trail.file()
    need(len(found) == length, "the trail has another length")
    return found


class _Trail:
    def __init__(self, columns: _Columns, secret: bytes, raw: bytes) -> None:
        self.secret, self.raw, self.raw_at = secret, raw, 0
        self.flags, self.status = columns.byte(), columns.byte()
        self.steps = columns.number()
        self.strings = _Strings()
        shapes = self._shapes(columns)
        self.bodies = self._bodies(columns, shapes)
        self.times = number(columns.number())
        halved = 1 if self.flags & 8 else 2
        differences = [one * halved for one in columns.numbers(self.steps)]
        durations = columns.numbers(self.steps)
        self.times += b"".join(number(d) + number(t) for d, t in zip(differences, durations, strict=True))
        self.sources = b"".join(map(number, columns.numbers(self.steps))) if self.flags & 1 else b""
        self.header = self._header(columns)
        objects = iter(columns.numbers(self.strings.kinds.count(1)))
        self.receipts = self._take(96) if self.flags & 4 else b""
        self.signature = self._take(96) if self.flags & 2 else b""
        texts = iter(columns.data[columns.at :].split(b"\xff"))
        self.table = [self._entry(kind, texts, objects) for kind in self.strings.kinds]

    def _take(self, size: int) -> bytes:
        self.raw_at += size
        return self.raw[self.raw_at - size : self.raw_at]

    def _shapes(self, columns: _Columns) -> list[tuple[int, int, list[int], list[int]]]:
        known: list[tuple[int, int, list[int], list[int]]] = []
        shapes = []
        for _ in range(self.steps):
            which = columns.number()
            if which == len(known):
                opcode, meta, count = columns.byte(), columns.byte(), columns.byte()
                uses = [columns.byte() for _ in range(count)]
                known.append((opcode, meta, uses, [columns.byte() for flag in (_ERROR, _RESULT, _NOTE) if meta & flag]))
            shapes.append(known[which])
        return shapes

    def _bodies(
        self, columns: _Columns, shapes: list[tuple[int, int, list[int], list[int]]]
    ) -> list[tuple[int, list[object]]]:
        """Of each step the opcode and the parts of its body: bytes, and (entry, is operand) for refs."""
        uses = [use for _, _, operands, others in shapes for use in (*operands, *others)]
        old = iter(columns.numbers(uses.count(1)))
        count = sum(sum(use in (2, 3) for use in operands) + bool(meta & _EXIT) for _, meta, operands, _ in shapes)
        numbers = iter(columns.numbers(count))
        sizes = iter(columns.numbers(sum(bool(meta & _RESULT) for _, meta, _, _ in shapes)))
        bodies = []
        for opcode, meta, operands, others in shapes:
            body: list[object] = [bytes([meta]), number(len(operands))]
            for use in operands:
                if use in (0, 2, 3):
                    body.append((use, next(numbers) if use else 0))
                else:
                    body.append((1, self._used(use, old)))
            if meta & _EXIT:
                body.append(number(next(numbers)))
            left = iter(others)
            for flag in (_ERROR, _RESULT, _NOTE):
                if meta & flag:
                    body.append((None, self._used(next(left), old)))
                if meta & flag & _RESULT:
                    body.append(number(next(sizes)))
            bodies.append((opcode, body))
        return bodies

    def _used(self, use: int, old: object) -> int:
        return self.strings.ago(next(old)) if use == 1 else self.strings.new(use - 4)  # type: ignore[call-overload]

    def _header(self, columns: _Columns) -> list[object]:
        def ref() -> tuple[None, int]:
            said = columns.number()
            return None, self.strings.ago(said - 4) if said > 4 else self.strings.new(said)

        parts: list[object] = [number(columns.number()), *(ref() for _ in range(4))]
        present = columns.number()
        parts += [number(present), *(ref() for bit in range(5) if present >> bit & 1)]
        parents = columns.number()
        return [*parts, number(parents), *(ref() for _ in range(parents))]

    def _entry(self, kind: int, texts: object, objects: object) -> tuple[int, bytes, bytes]:
        """The form of an entry, its bytes in the table, and its content."""
        if kind == 0:
            text: bytes = next(texts)  # type: ignore[call-overload]
            return 0, number(len(text)) + text, text
        if kind == 1:
            digest, size = self._take(32), next(objects)  # type: ignore[call-overload]
            return 1, digest + number(size), digest + size.to_bytes(8, "big")
        content = bytes([kind - 1]) + self._take(_DIGEST_BYTES[kind])
        return 2, content, content

    # -- the file ---------------------------------------------------------------------------------------------------

    def _plain(self, parts: list[object]) -> bytes:
        out = b""
        for part in parts:
            if isinstance(part, bytes):
                out += part
            else:
                wire, value = part  # type: ignore[misc]
                out += number(value if wire is None else value << 2 | wire)
        return out

    def _committed(self, parts: list[object]) -> bytes:
        out = b""
        for part in parts:
            if isinstance(part, bytes):
                out += part
                continue
            wire, value = part  # type: ignore[misc]
            out += b"" if wire is None else bytes([wire])
            if wire in (None, 1):
                out += self.commitments[value]
            elif wire:
                out += number(value)
        return out

    def _made_receipts(self) -> bytes:
        self.commitments = []
        for i, (form, _, content) in enumerate(self.table):
            salt = hmac.digest(self.secret, i.to_bytes(8, "big"), "sha256")
            self.commitments.append(hashlib.sha256(salt + bytes([form]) + content).digest())
        leaves = [leaf_hash(b"PPLT" + bytes([opcode]) + self._committed(body)) for opcode, body in self.bodies]
        receipt = bytes(32)
        for leaf, (_, body) in zip(leaves, self.bodies, strict=True):
            outcome = body[0][0] & 7  # type: ignore[index]
            receipt = hashlib.sha256(b"PPLR" + receipt + leaf + bytes([outcome])).digest()
        root = tree_root(leaves)
        said = self._committed(self.header) + number(self.steps) + root + receipt + bytes([self.status])
        return root + receipt + hashlib.sha256(b"PPLS/trail/2\0" + said).digest()

    def file(self) -> bytes:
        """The bytes of the trail file."""
        steps = number(self.steps)
        for opcode, parts in self.bodies:
            body = self._plain(parts)
            steps += bytes([opcode]) + number(len(body)) + body
        table = b"".join(bytes([form]) + entry for form, entry, _ in self.table)
        found = {
            1: self._plain(self.header),
            2: b"\0" + self.secret + number(len(self.table)) + table,
            3: steps,
            4: self.times,
            5: self.sources if self.flags & 1 else None,
            6: bytes([self.status]) + (self.receipts or self._made_receipts()),
            7: self.signature or None,
        }
        out = b"PPLS\x02\x01"
        for tag, part in found.items():
            out += bytes([tag]) + number(len(part)) + part if part is not None else b""
        out += b"\xff\x20"
        return out + hashlib.sha256(out).digest()
