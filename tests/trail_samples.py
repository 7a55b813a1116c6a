"""Trails for the tests: a fixed one, strategies for any other, and tools to tamper with their bytes."""

import functools
import hashlib
import hmac

from hypothesis import strategies as st

from periplus.base.encoding.container import KIND_TRAIL, pack, unpack
from periplus.base.encoding.varint import uint_bytes, zigzag
from periplus.merkle import leaf_hash, root_of
from periplus.trail import (
    BY_CODE,
    OPCODES,
    OUTCOMES,
    STATUSES,
    Digest,
    Header,
    Signed,
    Step,
    TextObject,
    TrailBuilder,
)

SECRET = hashlib.sha256(b"the secret of the trails in the tests").digest()
START_MS = 1_767_225_600_000
LONG_TEXT = ("a line of a long answer\n" * 300).encode()


def sha(text):
    return Digest("sha256", hashlib.sha256(text.encode()).digest())


@functools.cache
def golden_trail(**header):
    """Every opcode, every outcome, every optional part."""
    builder = TrailBuilder(SECRET, lambda data: hashlib.sha256(data).digest())
    commit = Digest("git-sha1", bytes(range(20)))
    add = builder.add
    add("PROMPT", "make the test pass\nand nothing else", at_ms=START_MS, source=1)
    add("MODEL_CALL", "model-1", 1200, 800, 96, 4210, at_ms=START_MS + 40, duration_ms=1800, source=2)
    add("SAY", LONG_TEXT.decode(), at_ms=START_MS + 1840, source=2)
    add("FILE_READ", "src/auth.py", "1-80", result=sha("auth"), result_size=4, at_ms=START_MS + 1900, source=3)
    add("FILE_READ", "src/auth.py", None, outcome="denied", error="not allowed", source=4)
    add("FILE_LIST", "src/*.py", source=5)
    add("SEARCH_CODE", "def hash_password", "src", at_ms=START_MS + 2500, duration_ms=12, source=6)
    add("FILE_EDIT", "src/auth.py", "md5(", "scrypt(", at_ms=START_MS + 2600, source=7)
    add("FILE_WRITE", "src/new.py", sha("new"), source=8)
    add("FILE_MOVE", "src/new.py", "src/neuer.py", source=9)
    add("FILE_DELETE", "src/alt.py", source=10)
    add("COMMAND_RUN", "rm -rf build", "/srv/projekt", outcome="cancelled", note="stopped by the person", source=11)
    add("COMMAND_RUN", "printf '\x1b[2J'", None, exit_code=0, at_ms=START_MS + 9000, duration_ms=0, source=12)
    add("TEST_RUN", "tests/test_auth.py", 3, outcome="failed", exit_code=1, error="1 failed", source=13)
    add("TEST_RUN", "tests/test_auth.py", None, outcome="unknown", exit_code=-9)
    add("GIT_COMMIT", "projekt", "Hash passwords with scrypt ✓", commit, at_ms=START_MS + 20_000, source=15)
    add("GIT_PUSH", "projekt", "origin")
    add("WEB_FETCH", "https://example.org/")
    add("WEB_SEARCH", "scrypt parameters")
    add("TOOL_CALL", "tracker", "close", '{"id":7}')
    add("SPELL_CAST", "review", None)
    add("BOTTLE_DROP", "bob", "done")
    add("BOTTLE_READ", "bob")
    add("ROOM_ENTER", "worktree-2")
    add("TRUST_UPDATE", "bob", -3)
    add("CAP_ISSUE", "write", "bob")
    add("LEVEL_UP", 2)
    add("LABEL", "again")
    add("BRANCH", 0, "again")
    add("NOP")
    add("COMMENT", "日本語 and \u202e reversed")
    add("AGENT_SPAWN", "helper", "count the tests", sha("child"))
    add("PLAN_UPDATE", '["one","two"]')
    add("ASK", "which one?", None)
    add("CHECKPOINT", Digest("git-sha256", bytes(range(32))), at_ms=START_MS + 19_000)
    known = {
        "base": Digest("git-sha1", bytes(20)),
        "model": "model-1",
        "host": "host-1",
        "source": sha("the session file"),
        "title": "Hash passwords",
        "parents": (sha("parent"),),
    }
    return builder.finish(Header("agent-1", "run-1", tool_version="0.1.0", **{**known, **header}), "partial")


@functools.cache
def small_trail():
    builder = TrailBuilder(SECRET)
    builder.add("PROMPT", "fix it", at_ms=START_MS)
    builder.add("COMMAND_RUN", "make", outcome="failed", exit_code=2, result=sha("out"), result_size=90, duration_ms=40)
    builder.add("TRUST_UPDATE", "bob", -300, note="fix it")
    return builder.finish(Header("a", "t", tool_version="1"))


def sections_of(data):
    return {tag: data[start:end] for tag, (start, end) in unpack(data, KIND_TRAIL).items()}


def with_sections(data, changed):
    """``data`` with other sections, sealed again; None takes a section away."""
    sections = {**sections_of(data), **changed}
    return pack(KIND_TRAIL, {tag: content for tag, content in sections.items() if content is not None})


def sealed(data):
    """``data`` with the container's digest made right."""
    return data[:-32] + hashlib.sha256(data[:-32]).digest()


# Strategies

texts = st.text(max_size=30) | st.builds(str.__mul__, st.sampled_from(["x", "é", "日"]), st.integers(0, 1365))
text_objects = st.builds(TextObject, st.binary(min_size=32, max_size=32), st.integers(4097, 2**53 - 1))
any_text = st.one_of(texts, texts, text_objects)
digests = st.one_of(
    st.builds(Digest, st.sampled_from(["sha256", "git-sha256"]), st.binary(min_size=32, max_size=32)),
    st.builds(Digest, st.just("git-sha1"), st.binary(min_size=20, max_size=20)),
)
uints = st.integers(0, 40) | st.integers(0, 2**62 - 1)
ints = st.integers(-40, 40) | st.integers(-(2**61), 2**61 - 1)
counts = st.integers(0, 300) | st.integers(0, 2**53 - 1)
BY_KIND = {
    "str": any_text,
    "path": any_text,
    "json": any_text,
    "bytes": any_text,
    "digest": digests,
    "uint": uints,
    "int": ints,
}


@st.composite
def steps(draw):
    """Any step as a reader gives it: absent operands as None to the end of the row."""
    if draw(st.integers(0, 9)):
        opcode = draw(st.sampled_from(OPCODES))
        code = opcode.code
        operands = []
        for operand in opcode.operands:
            values = BY_KIND[operand.kind]
            operands.append(draw(st.none() | values if operand.optional else values))
    else:
        code = draw(st.integers(0, 255).filter(lambda code: code not in BY_CODE and code not in (0xA0, 0xA1)))
        value = st.one_of(any_text, digests, uints, ints.map(Signed), st.none())
        operands = draw(st.lists(value, max_size=8))
        while operands and operands[-1] is None:
            operands.pop()
    result = draw(st.none() | digests)
    return Step(
        code,
        tuple(operands),
        draw(st.sampled_from(OUTCOMES)),
        draw(st.none() | st.integers(-300, 300) | st.integers(-(2**53 - 1), 2**53 - 1)),
        draw(st.none() | any_text),
        result,
        draw(counts) if result is not None else 0,
        draw(st.none() | any_text),
        draw(st.integers(-1000, 100_000) | st.integers(-(10**10), 10**10)),
        draw(st.none() | counts.map(lambda number: min(number, 2**53 - 2))),
        draw(st.none() | st.integers(1, 2**53 - 1)),
    )


headers = st.builds(
    Header,
    any_text,
    any_text,
    any_text,
    any_text,
    st.none() | any_text | digests,
    st.none() | any_text,
    st.none() | any_text,
    st.none() | digests,
    st.none() | any_text,
    st.lists(st.binary(min_size=32, max_size=32), max_size=4).map(
        lambda values: tuple(Digest("sha256", value) for value in values)
    ),
    st.integers(-(10**13), 10**14),
)
statuses = st.sampled_from(STATUSES)


# The identity once more, from the values and docs/formats/trail.md alone


def oracle_digest(header, trail_steps, status, secret):
    places = {}

    def commitment(value):
        place = places.setdefault(value, len(places))
        salt = hmac.new(secret, place.to_bytes(8, "big"), "sha256").digest()
        if isinstance(value, str):
            form, content = 0, value.encode()
        elif isinstance(value, TextObject):
            form, content = 1, value.sha256 + value.length.to_bytes(8, "big")
        else:
            form, content = 2, bytes((["sha256", "git-sha1", "git-sha256"].index(value.algorithm) + 1,)) + value.value
        return hashlib.sha256(salt + bytes((form,)) + content).digest()

    leaves = []
    receipt = bytes(32)
    for step in trail_steps:
        leaf = leaf_hash(b"PPLT" + bytes((step.code,)) + _committed_body(step, commitment))
        leaves.append(leaf)
        outcome = bytes((OUTCOMES.index(step.outcome),))
        receipt = hashlib.sha256(b"PPLR" + receipt + leaf + outcome).digest()
    names = (header.agent, header.trail_id, header.tool, header.tool_version)
    optional = (header.base, header.model, header.host, header.source, header.title)
    head = b"\x02" + b"".join(map(commitment, names))
    head += bytes((sum(1 << bit for bit, value in enumerate(optional) if value is not None),))
    head += b"".join(commitment(value) for value in optional if value is not None)
    head += uint_bytes(len(header.parents)) + b"".join(map(commitment, header.parents))
    whole = b"PPLS/trail/2\0" + head + uint_bytes(len(leaves)) + root_of(leaves) + receipt
    return hashlib.sha256(whole + bytes((STATUSES.index(status),))).digest()


def _committed_body(step, commitment):
    operands = list(step.operands)
    while operands and operands[-1] is None:
        operands.pop()
    row = BY_CODE.get(step.code)
    out = b""
    for place, value in enumerate(operands):
        if value is None:
            out += b"\0"
        elif isinstance(value, int):
            is_signed = row.operands[place].kind == "int" if row else isinstance(value, Signed)
            out += b"\3" + uint_bytes(zigzag(value)) if is_signed else b"\2" + uint_bytes(value)
        else:
            out += b"\1" + commitment(value)
    tail = (step.exit_code, step.error, step.result, step.note)
    meta = OUTCOMES.index(step.outcome) | sum(8 << bit for bit, value in enumerate(tail) if value is not None)
    out = bytes((meta, len(operands))) + out
    if step.exit_code is not None:
        out += uint_bytes(zigzag(step.exit_code))
    if step.error is not None:
        out += commitment(step.error)
    if step.result is not None:
        out += commitment(step.result) + uint_bytes(step.result_size)
    if step.note is not None:
        out += commitment(step.note)
    return out
