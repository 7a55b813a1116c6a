"""Hashes are the same whoever makes them, and a short process loads no OpenSSL for them."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from periplus.base.encoding import hashing
from periplus.memory.entities.types import TYPES

pytestmark = pytest.mark.quick


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_it_is_sha256(first, second):
    made = hashing.sha256(first)
    made.update(second)
    assert made.digest() == hashlib.sha256(first + second).digest()
    assert hashing.sha256().hexdigest() == hashlib.sha256().hexdigest()


def test_few_and_small_hashes_load_no_openssl_many_or_a_large_one_do():
    code = "import sys\nfrom periplus.base.encoding import hashing\nfound = []\n{}\nprint('hashlib' in sys.modules, len({{*found}}))\n"
    assert run(code.format("for _ in range(hashing.FEW): found.append(hashing.sha256(b'a').digest())")) == [
        "False",
        "1",
    ]
    assert run(code.format("for _ in range(hashing.FEW + 9): found.append(hashing.sha256(b'a').digest())")) == [
        "True",
        "1",
    ]
    large = "hashing.sha256(memoryview(bytes(hashing.SMALL_BYTES + 1)))"
    assert run(code.format(large)) == ["True", "0"]


def test_once_openssl_is_there_it_makes_them_all():
    told = "import hashlib\nfrom periplus.base.encoding import hashing\nhashing.sha256(bytes(hashing.SMALL_BYTES + 1))\nprint(hashing.sha256 is hashlib.sha256)"
    assert run(told) == ["True"]


def test_each_type_names_a_schema_that_there_is():
    for row in TYPES:
        assert row.schema.__name__ == row.shape
        assert row.fields >= {*row.schema.__struct_fields__}
