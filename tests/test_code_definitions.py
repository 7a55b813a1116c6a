"""Definitions beside those of universal-ctags, on a sample of the installed packages."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.code_definitions import (
    CTAGS,
    KINDS_OF_DIFFERENCE,
    compare,
    ctags_program,
    default_folders,
    source_files,
    tags_of,
)

from periplus.code.languages.registry import LANGUAGE_NAMES

FILES_MAX = 300
TAGS_MIN = 200
# Percentages that are held; raised as rows grow better, never lowered.
AGREEMENT_MIN = {"c": 99.5, "cpp": 99.0, "javascript": 85.0, "python": 99.5}

needs_ctags = pytest.mark.skipif(ctags_program() is None, reason="universal-ctags is not installed")


def sample_of(paths, folder):
    """Return paths of different contents, in an order that has nothing to do with their folders."""
    ordered = sorted(paths, key=lambda path: hashlib.sha256(str(Path(path).relative_to(folder)).encode()).digest())
    seen: dict[bytes, str] = {}
    for path in ordered:
        seen.setdefault(hashlib.sha256(Path(path).read_bytes()).digest(), path)
        if len(seen) == FILES_MAX:
            break
    return list(seen.values())


@needs_ctags
@pytest.mark.slow
@pytest.mark.parametrize("language", sorted(AGREEMENT_MIN))
def test_definitions_agree_with_those_of_ctags(language):
    folder = default_folders()[0]
    paths = source_files([folder]).get(language, [])
    agreement = compare(language, sample_of(paths, folder))
    if agreement.tags < TAGS_MIN:
        pytest.skip(f"the installed packages have {agreement.tags} definitions of {language}")
    assert agreement.percentage >= AGREEMENT_MIN[language], agreement.differences


@needs_ctags
def test_what_ctags_makes_up_does_not_count_and_what_is_missing_does(tmp_path):
    path = tmp_path / "a.c"
    path.write_text("struct { int x; } a;\nint f(void) { return 1; }\nTEST_BEGIN(b) {\n}\nint g(void) { return 1; }\n")
    agreement = compare("c", [str(path)])
    assert (agreement.files, agreement.tags, agreement.found) == (1, 2, 2)
    assert {name: count for name, (count, _) in agreement.differences.items()} == {"made up": 1, "macro with a body": 1}
    assert {tag.name for tag in tags_of("c", [str(path)])} >= {"f", "g", "TEST_BEGIN"}
    path = tmp_path / "b.py"
    path.write_text("def f():\n    g = lambda: 1\n    return g\n")
    agreement = compare("python", [str(path)])
    assert (agreement.tags, agreement.found, agreement.percentage) == (2, 1, 50.0)
    assert {name: count for name, (count, _) in agreement.differences.items()} == {"lambda": 1}


def test_languages_and_kinds_are_those_of_the_table():
    assert set(AGREEMENT_MIN) <= set(CTAGS) & set(LANGUAGE_NAMES)
    for kind in KINDS_OF_DIFFERENCE:
        assert set(kind.languages) <= set(CTAGS), kind.name
