"""A JSON document element by element: the same as a decoder of the whole sees, at any size, cut anywhere."""

from __future__ import annotations

import io
import json
import re
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from periplus.base.errors import FormatError
from periplus.interop.readers import json_stream, line_reader
from periplus.interop.readers.json_stream import JsonReader, JsonWalker

_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=30,
)
OPENED = (("m",), ("m", "*"), ("m", "*", "n"))


def pieces(data: bytes, size: int):
    """A reader that gives ``size`` bytes at a time, however many are asked for."""
    stream = io.BytesIO(data)
    return lambda _: stream.read(size)


def walk(data: bytes, opened=(), size: int = 1 << 20):
    walker = JsonWalker(pieces(data, size), "given", opened)
    return list(walker), walker.broken


def expected(value, opened, path=()):
    """What a walk must give, from the decoded document."""
    pattern = tuple("*" if isinstance(part, int) else part for part in path)
    if not isinstance(value, (dict, list)) or (path and pattern not in opened):
        return [(path, value)]
    items = enumerate(value) if isinstance(value, list) else value.items()
    return [found for name, inner in items for found in expected(inner, opened, (*path, name))]


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    value=_values | st.fixed_dictionaries({"m": st.lists(st.fixed_dictionaries({"n": _values}) | _values, max_size=4)}),
    size=st.integers(1, 40),
    indent=st.sampled_from([None, 1]),
    ascii_only=st.booleans(),
)
def test_elements_are_those_of_the_document(value, size, indent, ascii_only):
    data = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    elements, broken = walk(data, OPENED, size)
    assert broken is None
    wanted = expected(value, OPENED)
    assert [json.loads(element.data) for element in elements] == [inner for _, inner in wanted]
    for element, (path, _) in zip(elements, wanted, strict=True):
        assert element.path == path[:-1]
        assert not path or path[-1] in (element.name, element.place)
        assert data[element.offset : element.offset + len(element.data)] == element.data


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(value=st.fixed_dictionaries({"a": _values, "m": st.lists(_values, min_size=1)}), part=st.floats(0, 0.999),
       size=st.integers(1, 30))  # fmt: skip
def test_a_document_that_was_cut_gives_what_is_whole(value, part, size):
    data = json.dumps(value).encode()
    end = int(len(data) * part)
    whole, _ = walk(data, OPENED)
    elements, broken = walk(data[:end], OPENED, size)
    assert broken is not None
    assert broken.offset <= end
    last_may_be_a_cut_number = elements and elements[-1].offset + len(elements[-1].data) == end
    kept = elements[:-1] if last_may_be_a_cut_number else elements
    assert kept == whole[: len(kept)]
    assert len(kept) >= sum(one.offset + len(one.data) < end for one in whole) - 1


@settings(max_examples=500, deadline=None)
@given(
    data=st.binary(max_size=60) | st.text(alphabet='[]{}",:\\ 1a', max_size=60).map(str.encode), size=st.integers(1, 9)
)
def test_any_bytes_end_in_a_verdict(data, size):
    elements, broken = walk(data, OPENED, size)
    try:
        json.loads(data)
    except ValueError:
        return
    assert broken is None
    assert b"".join(one.data for one in elements) in re.sub(rb"[ ,:]", b"", data) or elements


@pytest.mark.parametrize("size", [1, 7, 1000, 1 << 20])
@pytest.mark.parametrize("wrap", ["%s", "[%s]", "[[[%s]]]", "[[[[[%s]]]]]", '{"a":{"b":[%s,1]}}'])
def test_texts_and_lists_longer_than_one_match_goes(monkeypatch, wrap, size):
    monkeypatch.setattr(JsonWalker, "_quick_end", lambda walker: 0)
    long = json.dumps('\\"\n' * 900 + "ends")
    many = ",".join(["[1]", '"]"', "2"] * 900)
    elements = [wrap % long, wrap % f"[{many}]", wrap % f"{long},[[{many},{long}]],{long}" if wrap != "%s" else "3"]
    found, broken = walk(f"[{', '.join(elements)}]".encode(), size=size)
    assert (broken, [element.data.decode() for element in found]) == (None, elements)
    found, broken = walk(f"[{elements[0]}, {elements[1][:-1]}".encode(), size=size)
    assert [element.data.decode() for element in found] == elements[:1]
    assert broken.reason == "the file ends within the document"


def test_the_quick_way_is_taken_and_agrees():
    """The decoder's message names the place behind a value; a release that words it otherwise makes this slow only."""
    for text in (b'{"a": [1]} , 2', b'"te\\nxt":', b"[1]]", b"[[]]", b'{"a": 1}\n'):
        walker = JsonWalker(pieces(text, 99), "given")
        first = walker._peek()
        quick = walker._quick_end()
        assert quick == len(json.dumps(json.JSONDecoder().raw_decode(text.decode())[0]).encode())
        walker._quick_end = lambda: 0
        assert walker._end_of_value(first) == quick


def test_what_stands_between_elements_is_strict():
    for text, offset, reason in (
        (b'{"a" 1}', 5, "a colon"), (b'{"a":1 "b":2}', 7, "a comma"), (b"[1 2]", 3, "a comma"), (b"[1,]", 3, "a value"),
        (b"[1}", 2, "a comma"), (b"{1:2}", 1, "a name"), (b'{"a":}', 5, "a value"), (b"[1] []", 4, "more behind"),
        (b"  ", 2, "nothing"), (b"[1, 2", 5, "ends within"), (b'[1, "te', 7, "ends within"), (b'{"\xff":1}', 1, "a name"),
    ):  # fmt: skip
        _, broken = walk(text)
        assert broken is not None, text
        assert broken.offset == offset, text
        assert reason in broken.reason


def test_a_bad_element_costs_itself_only():
    elements, broken = walk(b'{"m": [1, {"a": tru}, nul, {"b"}, "good"]}', OPENED)
    assert [one.data for one in elements] == [b"1", b"tru", b"nul"]  # ("m", "*") is opened: {"b"} breaks the skeleton
    assert broken is not None
    elements, broken = walk(b'{"m": [1, {"a": tru}, nul, {"b"}, "good"]}', OPENED[:1])
    assert [one.data for one in elements] == [b"1", b'{"a": tru}', b"nul", b'{"b"}', b'"good"']
    assert broken is None


def test_names_are_known_also_of_what_breaks_off():
    walker = JsonWalker(pieces(b'\xef\xbb\xbf{"info": {"a": 1}, "history": [1, 2', 5), "given")
    assert [one.name for one in walker] == ["info"]
    assert walker.names == ["info", "history"]


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_nesting_is_bounded(opening):
    _, broken = walk(b"[" + opening * 100_000)
    assert broken is not None
    assert "deep" in broken.reason
    closing = b"]" if opening == b"[" else b"}"
    depth = json_stream.DEPTH_MAX - 10
    (element,), broken = walk(b"[" + opening * depth + b"1" + closing * depth + b"]")
    assert broken is None
    assert element.data.count(opening) == depth


@pytest.mark.slow
def test_an_element_without_end_is_refused_within_bounds(tmp_path):
    path = tmp_path / "long.json"
    with path.open("wb") as file:
        file.write(b'{"messages": [1, "')
        file.truncate(200 << 20)
    seen = []
    with pytest.raises(FormatError) as caught:
        list(JsonReader(str(path), [("messages",)], lambda done, _: seen.append(done)))
    assert (caught.value.path, caught.value.offset) == (str(path), 17)
    assert seen[-1] <= 2 * line_reader.LINE_BYTES_MAX + 3 * line_reader.BLOCK_BYTES


@pytest.mark.slow
def test_a_large_document_is_read_in_the_memory_of_an_element(tmp_path):
    path = tmp_path / "large.json"
    element = json.dumps({"role": "user", "content": [{"text": 'a "quoted" text ' * 60}]}).encode()
    with path.open("wb") as file:
        file.write(b'{"messages": [' + b", ".join([element] * 30_000) + b"]}")
    reader = JsonReader(str(path), [("messages",)])
    tracemalloc.start()
    count = sum(1 for one in reader if one.data == element)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 30_000
    assert reader.size == path.stat().st_size > 30 << 20
    assert peak < 8 << 20
