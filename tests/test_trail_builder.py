"""The builder: what it accepts, what it makes of times, strings and refusals."""

import hashlib

import pytest

from periplus.base.errors import UsageError
from periplus.trail import Digest, Header, Signed, TextObject, TrailBuilder, TrailReader, verify
from trail_samples import SECRET, START_MS, sha

pytestmark = pytest.mark.quick

HEADER = Header("a", "t")


def built(builder, header=HEADER):
    return TrailReader(builder.finish(header))


@pytest.mark.parametrize(
    ("arguments", "more", "message"),
    [
        (("FILE_REED", "x"), {}, "FILE_REED"),
        ((0xA0,), {}, "160"),
        (("FILE_READ",), {}, "FILE_READ: operand path: required"),
        (("FILE_READ", None, "1-2"), {}, "FILE_READ: operand path: required"),
        (("FILE_READ", "a", "b", "c"), {}, "FILE_READ: 3 operands"),
        (("FILE_READ", 5), {}, "FILE_READ: operand path: a text"),
        (("FILE_READ", ["a"]), {}, "FILE_READ: operand path: list"),
        (("FILE_WRITE", "a", "b"), {}, "FILE_WRITE: operand content: a digest"),
        (("FILE_WRITE", "a", Digest("sha256", b"")), {}, "FILE_WRITE: operand content"),
        (("FILE_WRITE", "a", Digest("md5", bytes(32))), {}, "FILE_WRITE: operand content"),
        (("FILE_READ", sha("x")), {}, "FILE_READ: operand path: a text"),
        (("FILE_READ", TextObject(bytes(32), 4096)), {}, "FILE_READ: operand path: a text object"),
        (("FILE_READ", "x" * 4097), {}, "no object store"),
        (("LEVEL_UP", -1), {}, "LEVEL_UP: operand level: -1 is below 0"),
        (("LEVEL_UP", True), {}, "LEVEL_UP: operand level: a whole number"),
        (("LEVEL_UP", 1.0), {}, "LEVEL_UP: operand level: a whole number"),
        (("LEVEL_UP", 2**62), {}, "LEVEL_UP: operand level"),
        (("TRUST_UPDATE", "x", 2**61), {}, "TRUST_UPDATE: operand delta"),
        (("TRUST_UPDATE", "x", None), {}, "TRUST_UPDATE: operand delta: required"),
        (("NOP",), {"outcome": "fine"}, "NOP: unknown outcome"),
        (("NOP",), {"exit_code": 2**53}, "NOP: exit_code"),
        (("NOP",), {"exit_code": "1"}, "NOP: exit_code"),
        (("NOP",), {"result": "x"}, "NOP: result"),
        (("NOP",), {"result_size": 1}, "NOP: result_size"),
        (("NOP",), {"result": sha("x"), "result_size": -1}, "NOP: result_size"),
        (("NOP",), {"error": 3}, "NOP: error"),
        (("NOP",), {"note": sha("x")}, "NOP: note"),
        (("NOP",), {"at_ms": 10**15}, "NOP: at_ms"),
        (("NOP",), {"at_ms": 1.5}, "NOP: at_ms"),
        (("NOP",), {"duration_ms": -1}, "NOP: duration_ms"),
        (("NOP",), {"source": 0}, "NOP: source"),
    ],
)
def test_a_refused_step_names_its_fault_and_leaves_nothing_behind(arguments, more, message):
    tried, spared = TrailBuilder(SECRET), TrailBuilder(SECRET)
    for builder in (tried, spared):
        builder.add("SAY", "before", at_ms=START_MS)
    with pytest.raises(UsageError) as caught:
        tried.add(*arguments, **{"note": "only here", **more})
    assert message in str(caught.value)
    assert tried.step_count == 1
    for builder in (tried, spared):
        builder.add("SAY", "after", at_ms=START_MS + 5)
    assert tried.finish(HEADER) == spared.finish(HEADER)


def test_a_step_refused_after_new_strings_leaves_none_of_them():
    tried, spared = TrailBuilder(SECRET), TrailBuilder(SECRET)
    with pytest.raises(UsageError):
        tried.add("GIT_COMMIT", "new repo", "lone \ud800", "no digest")
    with pytest.raises(UsageError, match="header: host"):
        tried.finish(Header("another", "one", host=5))
    assert tried.finish(HEADER) == spared.finish(HEADER)


def test_a_failing_object_store_leaves_nothing_behind():
    def full(_data):
        raise OSError("disk full")

    tried, spared = TrailBuilder(SECRET, full), TrailBuilder(SECRET)
    with pytest.raises(OSError, match="disk full"):
        tried.add("FILE_EDIT", "new.py", "old", "x" * 5000)
    assert tried.finish(HEADER) == spared.finish(HEADER)


def test_times_become_differences():
    builder = TrailBuilder(SECRET)
    for at_ms in (None, None, START_MS, None, START_MS + 700, START_MS + 600):
        builder.add("NOP", at_ms=at_ms)
    reader = built(builder)
    assert reader.header.started_ms == START_MS
    assert [step.delta_ms for step in reader.steps()] == [0, 0, 0, 0, 700, -100]


def test_a_beginning_that_is_given_comes_before_the_first_step():
    builder = TrailBuilder(SECRET)
    builder.add("NOP")
    builder.add("NOP", at_ms=START_MS)
    reader = built(builder, HEADER._replace(started_ms=START_MS - 250))
    assert reader.header.started_ms == START_MS - 250
    assert [step.delta_ms for step in reader.steps()] == [0, 250]


def test_a_trail_without_any_time():
    builder = TrailBuilder(SECRET)
    builder.add("NOP", duration_ms=0)
    builder.add("NOP", duration_ms=500)
    reader = built(builder)
    assert reader.header.started_ms == 0
    assert [(step.delta_ms, step.duration_ms) for step in reader.steps()] == [(0, 0), (0, 500)]


def test_sources_may_begin_late_and_be_absent_between():
    numbers = [None, None, 7, None, 3, 2**53 - 1]
    builder = TrailBuilder(SECRET)
    for number in numbers:
        builder.add("NOP", source=number)
    assert [step.source for step in built(builder).steps()] == numbers


def test_long_texts_become_objects_at_4097_bytes():
    kept = {}

    def put(data):
        digest = hashlib.sha256(data).digest()
        kept[digest] = data
        return digest

    builder = TrailBuilder(SECRET, put)
    short, long = "é" * 2048, "é" * 2048 + "x"
    builder.add("SAY", short)
    builder.add("SAY", long, note=long)
    first, second = built(builder).steps()
    assert first.operands == (short,)
    assert second.operands == (second.note,) == (TextObject(hashlib.sha256(long.encode()).digest(), 4097),)
    assert list(kept.values()) == [long.encode()]


def test_lone_surrogates_are_replaced_and_pairs_are_joined():
    builder = TrailBuilder(SECRET)
    for text in ("a\ud800b", "a\ufffdb", "\ud83d\ude00", "a\ud800b", "\udc00" * 2):
        builder.add("SAY", text)
    assert [step.operands[0] for step in built(builder).steps()] == [
        "a\ufffdb", "a\ufffdb", "😀", "a\ufffdb", "\ufffd\ufffd",
    ]  # fmt: skip


def test_absent_operands_and_codes_for_names():
    by_name, by_code = TrailBuilder(SECRET), TrailBuilder(SECRET)
    assert by_name.add("SEARCH_CODE", "x", None) == 0
    assert by_name.add("MODEL_CALL", "m", 1, 2, 3) == 1
    assert by_code.add(0x96, "x") == 0
    assert by_code.add(0xAD, "m", 1, 2, 3, None) == 1
    data = by_name.finish(HEADER)
    assert data == by_code.finish(HEADER)
    assert [step.operands for step in TrailReader(data).steps()] == [("x", None), ("m", 1, 2, 3, None)]


def test_a_builder_is_used_once():
    builder = TrailBuilder(SECRET)
    with pytest.raises(UsageError, match="unknown status"):
        builder.finish(HEADER, "fine")
    builder.finish(HEADER)
    with pytest.raises(UsageError, match="finished"):
        builder.finish(HEADER)
    with pytest.raises(UsageError, match="finished"):
        builder.add("NOP")
    with pytest.raises(UsageError, match="32 bytes"):
        TrailBuilder(b"short")


def test_unknown_opcodes_have_a_door_of_their_own():
    builder = TrailBuilder(SECRET)
    for code in (0x90, 0xA0, 256, -1):
        with pytest.raises(UsageError):
            builder.add_unknown(code)
    with pytest.raises(UsageError, match="32 operands"):
        builder.add_unknown(0xC2, *[1] * 33)
    builder.add_unknown(0xC2, *[Signed(-(2**61))] * 32)
    data = builder.finish(HEADER)
    assert verify(data).ok
    assert next(TrailReader(data).steps()).operands == (-(2**61),) * 32


def test_the_secret_changes_the_digest_and_nothing_that_is_read():
    digests = set()
    for secret in (SECRET, bytes(32)):
        builder = TrailBuilder(secret)
        builder.add("SAY", "the same")
        reader = built(builder)
        assert next(reader.steps()).operands == ("the same",)
        digests.add(reader.digest)
    assert len(digests) == 2


def test_a_secret_given_at_the_end_replaces_the_first():
    first, second = TrailBuilder(SECRET), TrailBuilder(bytes(32))
    for builder in (first, second):
        builder.add("SAY", "the same")
    with pytest.raises(UsageError, match="32 bytes"):
        second.finish(HEADER, secret=b"short")
    assert second.finish(HEADER, secret=SECRET) == first.finish(HEADER)


def test_parents_have_a_limit():
    parents = tuple(Digest("sha256", number.to_bytes(32, "big")) for number in range(4097))
    with pytest.raises(UsageError, match="4,096 parents"):
        TrailBuilder(SECRET).finish(HEADER._replace(parents=parents))
    data = TrailBuilder(SECRET).finish(HEADER._replace(parents=parents[1:]))
    assert TrailReader(data).header.parents == parents[1:]


def test_many_different_strings_are_read_back():
    builder = TrailBuilder(SECRET)
    for number in range(10_000):
        builder.add("SEARCH_CODE", f"text {number}", f"text {number // 3}")
    found = [step.operands for step in built(builder).steps()]
    assert found == [(f"text {number}", f"text {number // 3}") for number in range(10_000)]


def test_an_absent_operand_between_others_is_refused_where_it_is_required():
    builder = TrailBuilder(SECRET)
    for arguments in (("BRANCH", None, "x"), ("MODEL_CALL", "m", None, 1, 1), ("FILE_EDIT", "a", None, "b")):
        with pytest.raises(UsageError, match="required"):
            builder.add(*arguments)


def test_an_error_of_the_object_store_is_not_mistaken_for_a_wrong_operand():
    def broken(_data):
        raise TypeError("a bug in the store")

    with pytest.raises(TypeError, match="a bug in the store"):
        TrailBuilder(SECRET, broken).add("SAY", "x" * 5000)
