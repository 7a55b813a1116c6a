"""A class of ours that names its fields is in every way one of ``typing``, but for what it costs to make it."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import typing

import msgspec
import pytest

from periplus.base.named_tuple import NamedTuple

pytestmark = pytest.mark.quick


class Ours(NamedTuple):
    """What it is."""

    name: str
    count: int = 3
    parts: tuple[str, ...] = ()

    @property
    def is_many(self) -> bool:
        return self.count > 1

    @classmethod
    def plain(cls) -> Ours:
        return cls("plain")


class Theirs(typing.NamedTuple):
    name: str
    count: int = 3
    parts: tuple[str, ...] = ()


class Shown(NamedTuple):
    value: int

    def __repr__(self) -> str:
        return "shown"


class Nothing(NamedTuple):
    pass


class Derived(Ours):
    def __new__(cls, name: str) -> typing.Self:
        return super().__new__(cls, name.upper(), 9)


@pytest.mark.parametrize(
    "do",
    [
        lambda kind: tuple(kind("a")), lambda kind: tuple(kind("a", parts=("x",))), lambda kind: tuple(kind(count=1, name="b")),
        lambda kind: kind._fields, lambda kind: kind._field_defaults, lambda kind: kind.__match_args__, lambda kind: kind.__bases__,
        lambda kind: tuple(kind._make(["a", 1, ()])), lambda kind: tuple(kind("a")._replace(count=7)),
        lambda kind: kind("a")._asdict(), lambda kind: repr(kind("a")).partition("(")[2], lambda kind: kind("a").count,
        lambda kind: (kind("a") == ("a", 3, ()), hash(kind("a")) == hash(("a", 3, ()))),
        lambda kind: msgspec.json.encode(kind("a")), lambda kind: msgspec.json.decode(b'["a", 4]', type=kind)[:],
        typing.get_type_hints, lambda kind: tuple(pickle.loads(pickle.dumps(kind("a")))),
        lambda kind: type(copy.deepcopy(kind("a"))) is kind, lambda kind: kind.__slots__, lambda kind: kind.__module__,
    ],
)  # fmt: skip
def test_it_is_as_that_of_typing(do):
    assert do(Ours) == do(Theirs)


@pytest.mark.parametrize(
    "do",
    [
        lambda kind: kind(), lambda kind: kind("a", 1, (), 2), lambda kind: kind("a", other=1), lambda kind: kind._make(["a"]),
        lambda kind: kind("a")._replace(other=1), lambda kind: setattr(kind("a"), "name", "b"), lambda kind: setattr(kind("a"), "new", 1),
        lambda kind: msgspec.json.decode(b'["a", "b"]', type=kind),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_as_by_typing(do):
    with pytest.raises(Exception) as theirs:
        do(Theirs)
    with pytest.raises(type(theirs.value)):
        do(Ours)


def test_methods_of_the_class_are_kept():
    assert Ours.plain() == ("plain", 3, ())
    assert Ours("a").is_many
    assert Ours.__doc__ == "What it is."
    assert (repr(Shown(1)), Shown(value=1).value) == ("shown", 1)
    assert Nothing() == ()


def test_one_that_is_derived_makes_its_values_itself():
    assert Derived("a") == ("A", 9, ())
    assert type(Derived("a")._replace(count=1)) is Derived
    assert type(Ours("a")) is Ours


@pytest.mark.parametrize("body", ["a: int = 1\n    b: int", "_a: int", "a: int\n    def _replace(self): ..."])
def test_a_class_that_cannot_be_is_refused(body):
    with pytest.raises(TypeError):
        exec(f"class X(NamedTuple):\n    {body}\n", {"NamedTuple": NamedTuple, "__name__": "m"})


def test_the_first_value_of_a_class_may_be_made_by_any_thread(tmp_path):
    code = (
        "import threading, sys\nsys.setswitchinterval(1e-6)\nfrom periplus.base.named_tuple import NamedTuple\n"
        "class A(NamedTuple):\n    a: int\n    b: int\n"
        "found = []\n"
        "threads = [threading.Thread(target=lambda: found.append(A(1, b=2))) for _ in range(8)]\n"
        "[one.start() for one in threads]; [one.join() for one in threads]\n"
        "assert found == [(1, 2)] * 8, found\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
