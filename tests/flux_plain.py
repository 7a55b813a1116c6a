"""Version 1 once more, written from its description alone: a plain encoder and a plain decoder.

Nothing here is of the package, so that an error of one is found by the other. A trail is ``(begin, steps, status)``:
``begin`` is ``(agent, trail_id, ts)``, a step is ``(name, value, value …)`` with texts and numbers in the order of the
table, and ``status`` is the number.
"""

import hashlib

# Of each step its code, and what it carries: s a text, n a number, d a number with a sign.
STEPS = {
    "GIT_COMMIT": (0x90, "ns"),
    "GIT_PUSH": (0x91, "n"),
    "FILE_READ": (0x92, "s"),
    "FILE_WRITE": (0x93, "ss"),
    "FILE_EDIT": (0x94, "sss"),
    "TEST_RUN": (0x95, "sn"),
    "SEARCH_CODE": (0x96, "s"),
    "BOTTLE_DROP": (0x97, "ss"),
    "BOTTLE_READ": (0x98, "s"),
    "LEVEL_UP": (0x99, "n"),
    "SPELL_CAST": (0x9A, "s"),
    "ROOM_ENTER": (0x9B, "s"),
    "TRUST_UPDATE": (0x9C, "sd"),
    "CAP_ISSUE": (0x9D, "ss"),
    "BRANCH": (0x9E, "n"),
    "NOP": (0x9F, ""),
    "COMMENT": (0xA2, "s"),
    "LABEL": (0xA3, "s"),
}
SLOTS = {"n": 1, "d": 1, "s": 2}
NAMES = {code: name for name, (code, _) in STEPS.items()}


def u16(number):
    return bytes((number & 0xFF, number >> 8 & 0xFF))


def u32(number):
    return u16(number >> 16) + u16(number)


def key(text):
    first = hashlib.sha256(text.encode()).digest()[:4]
    return first[0] << 24 | first[1] << 16 | first[2] << 8 | first[3]


def agent_byte(agent):
    return hashlib.sha256(agent.encode()).digest()[0]


def encode_table(strings):
    """``strings`` as ``(key, bytes)``, in their order."""
    out = b"\xb0" + u16(len(strings))
    for number, text in strings:
        out += u32(number) + bytes((len(text) & 0xFF,)) + text
    return out


def encode_step(name, *values):
    code, kinds = STEPS[name]
    if name == "NOP":
        return bytes((code,))
    out = bytes((code, sum(SLOTS[kind] for kind in kinds)))
    for kind, value in zip(kinds, values, strict=True):
        out += u32(key(value)) if kind == "s" else u16(value & 0xFFFF)
    return out


def encode(begin, steps, status, drawn=None):
    agent, trail_id, ts = begin
    texts = {agent, trail_id}
    out = bytes((0xA0, agent_byte(agent) if drawn is None else drawn))
    out += (u32(key(trail_id)) if trail_id else bytes(4)) + u32(ts)
    for step in steps:
        out += encode_step(*step)
        kinds = STEPS[step[0]][1]
        texts |= {value for kind, value in zip(kinds, step[1:], strict=True) if kind == "s"}
    out += b"\xa1" + u16(len(steps) + 2) + bytes((status,))
    return out + encode_table(sorted((key(text), text.encode()) for text in texts))


def decode(data):
    """Of sound bytes ``(agent byte, trail id, ts, steps, total, status, texts)``."""
    at = 0

    def take(count):
        nonlocal at
        at += count
        assert at <= len(data)
        return data[at - count : at]

    def number():
        low, high = take(2)
        return low | high << 8

    def long():
        high = number()
        return high << 16 | number()

    assert take(1) == b"\xa0"
    agent, id_key, ts = take(1)[0], long(), long()
    raw = []
    while (code := take(1)[0]) != 0xA1:
        raw.append((NAMES[code], [] if code == 0x9F else [number() for _ in range(take(1)[0])]))
    total, status = number(), take(1)[0]
    assert take(1) == b"\xb0"
    texts = {}
    for _ in range(number()):
        place = long()
        texts[place] = take(take(1)[0]).decode()
    assert at == len(data)
    steps = []
    for name, numbers in raw:
        values, slots = [], numbers
        for kind in STEPS[name][1]:
            if kind == "s":
                values.append(texts[slots[0] << 16 | slots[1]])
            else:
                values.append(slots[0] - 0x10000 if kind == "d" and slots[0] > 0x7FFF else slots[0])
            slots = slots[SLOTS[kind] :]
        assert not slots
        steps.append((name, *values))
    return agent, texts[id_key] if id_key else "", ts, steps, total, status, texts
