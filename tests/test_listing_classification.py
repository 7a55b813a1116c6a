"""Files that nobody of the project wrote: by attributes as git reads them, by path, by marks in the contents."""

from __future__ import annotations

import os
import random

import pytest

from listing_support import git, write
from periplus.code.listing import Attributes, FileAttributes, state_of_contents, state_of_path
from periplus.code.listing.attributes import LOOKED_UP_MAX, PATTERN_BYTES_MAX, RULES_MAX

NAMES = ("linguist-generated", "linguist-vendored")
WORDS = ("linguist-generated", "-linguist-generated", "!linguist-generated", "linguist-generated=false", "linguist-generated=true",
         "linguist-generated=0", "linguist-vendored", "-linguist-vendored", "linguist-vendored=", "made", "-made", "text", "eol=lf")  # fmt: skip
PATTERNS = ("*", "*.js", "a.js", "/a.js", "gen/*", "gen/**", "**/gen/*.js", "gen/", "gen", "/gen", "x/**/y.js", "**/y.js", "*.min.js", "?.js",
            "[ab].js", "[!a].js", "[^a].js", "\\a.js", '"a b.js"', '"t\\tab.js"', '"\\303\\274.js"', "x/*", "x/gen/y.js", "y*", "*y*s", "**",
            "a**s", "!a.js", "#a.js", "*.j[s", "x/**", "./a.js", "gen//a.js", "\\*.js", "ü.js", "*/a.js", "**/**/y.js", "x/", ".js", "*.JS",
            "gen/**/", "**/x/**", "/**/a.js", "/*", "*.*", "*s")  # fmt: skip
PATHS = ("a.js", "b.js", "a b.js", "t\tab.js", "ü.js", "gen/a.js", "gen/y.js", "gen/deep/y.js", "x/gen/y.js", "x/y.js", "x/a/b/y.js", "gen.js",
         "x/a.min.js", "y", "gen/x/gen/y.js", "*.js", "x/.js", "#a.js", "!a.js", "a.JS", "gen", "x/x/a.js", "a.j[s", "\udcff.js")  # fmt: skip


def said_by_git(folder, paths):
    asked = b"\0".join(os.fsencode(path) for path in paths)
    said = git(folder, "check-attr", "-z", "--stdin", *NAMES, said=asked).split(b"\0")
    states = {b"set": True, b"unset": False, b"unspecified": None, b"false": False}
    found = {
        (os.fsdecode(said[at]), said[at + 1].decode()): states.get(said[at + 2], True)
        for at in range(0, len(said) - 1, 3)
    }
    return {path: FileAttributes(*(found[path, name] for name in NAMES)) for path in paths}


@pytest.mark.parametrize("seed", range(12))
def test_attributes_are_read_as_git_reads_them(tmp_path, seed):
    drawn = random.Random(seed)
    git(tmp_path, "init", "-q")
    files = {}
    for folder in drawn.sample(["", "gen/", "x/", "x/gen/"], drawn.randrange(1, 5)):
        lines = [
            f"{drawn.choice(PATTERNS)} {' '.join(drawn.sample(WORDS, drawn.randrange(1, 3)))}"
            for _ in range(drawn.randrange(1, 12))
        ]
        if drawn.random() < 0.5:
            lines.insert(drawn.randrange(len(lines)), "[attr]made linguist-generated -linguist-vendored")
        files[f"{folder}.gitattributes"] = drawn.choice(("\n", "\r\n")).join(lines).encode()
    write(tmp_path, files)
    attributes = Attributes(files)
    assert {path: attributes.of(path) for path in PATHS} == said_by_git(tmp_path, PATHS), files


def test_each_pattern_as_git_matches_it(tmp_path):
    git(tmp_path, "init", "-q")
    for pattern in PATTERNS:
        files = {".gitattributes": f"{pattern} linguist-generated\n".encode()}
        write(tmp_path, files)
        attributes = Attributes(files)
        assert {path: attributes.of(path) for path in PATHS} == said_by_git(tmp_path, PATHS), pattern


def test_many_hostile_lines_cost_a_bounded_time():
    lines = [f"{'*a' * 100}{number} linguist-generated" for number in range(RULES_MAX // 2 + 5)]
    lines += [f"{'**/a*/' * 40}{number} linguist-generated" for number in range(RULES_MAX // 2)]
    lines += [f"name{number} linguist-generated" for number in range(LOOKED_UP_MAX + 7)]
    lines += [f"{'*' * PATTERN_BYTES_MAX}a linguist-generated"]
    attributes = Attributes({".gitattributes": "\n".join(lines).encode(), "x/.gitattributes": b"\xff\0\n" * 100_000})
    assert attributes.left_out == 5 + 7 + 1
    for path in ("a" * 255, "x/" + "a" * 254, "a/" * 2_000 + "b"):  # hours, where stars are tried in all ways
        assert attributes.of(path) == FileAttributes()
    assert attributes.of("name7") == FileAttributes(True, None)


@pytest.mark.parametrize(
    ("path", "state"),
    [
        ("src/a.py", ""), ("build/a.py", ""), ("dist/a.js", ""), ("lib/vendor.py", ""), ("src/generated.py", ""), ("bin/compile", ""),
        ("node_modules/a/b.js", "vendored"), ("go/vendor/x/y.go", "vendored"), ("a/Third_Party/b.c", "vendored"), ("gradlew", "vendored"),
        ("js/jquery-3.7.1.js", "vendored"), ("js/jquery.form.js", ""), ("static/app.min.js", "minified"), ("static/app-min.css", "minified"),
        ("a.pb.go", "generated"), ("p/x_pb2.py", "generated"), ("Cargo.lock", "generated"), ("package-lock.json", "generated"),
        ("Form1.Designer.cs", "generated"), ("a/__generated__/q.ts", "generated"), ("moc_window.cpp", "generated"), ("admin.js", ""),
    ],
)  # fmt: skip
def test_paths(path, state):
    assert state_of_path(path, 100, "known") == state


def test_attributes_count_more_than_conventions():
    assert state_of_path("vendor/a.py", 1, "python", FileAttributes(is_vendored=False)) == ""
    assert state_of_path("a_pb2.py", 1, "python", FileAttributes(is_generated=False)) == ""
    assert state_of_path("a.min.js", 1, "javascript", FileAttributes(is_generated=False)) == ""
    assert state_of_path("a.py", 1, "python", FileAttributes(is_generated=True)) == "generated"
    assert state_of_path("a.py", 1, "python", FileAttributes(is_vendored=True)) == "vendored"
    assert state_of_contents("a.py", b"# @generated\n", FileAttributes(is_generated=False)) == ""


def test_sizes_and_languages():
    assert state_of_path("a.py", (2 << 20) + 1, "python") == "too_large"
    assert state_of_path("a.py", 2 << 20, "python") == ""
    assert state_of_path("a.py", None, "python") == ""
    assert state_of_path("a.xyz", 100 << 20, "") == "unsupported"
    assert state_of_contents("a.py", b" " * ((2 << 20) + 1)) == "too_large"


@pytest.mark.parametrize(
    "head",
    [
        b"// Code generated by protoc-gen-go. DO NOT EDIT.\n", b"# -*- coding: utf-8 -*-\n# @generated\n", b"/**\n * @generated SignedSource<<1>>\n */",
        b"//----\n// <auto-generated>\n", b"# Generated by the protocol buffer compiler.  DO NOT EDIT!\n", b"/* Generated by Cython 3.0 */\n",
        b"/* A Bison parser, made by GNU Bison 3.8.  */\n", b"-- This file is auto-generated, do not modify\n",
        b'"""Automatically generated by x. Do not edit."""\n', b"// Generated from Expr.g4 by ANTLR 4.9\n",
    ],
)  # fmt: skip
def test_marks_of_generators(head):
    assert state_of_contents("a.go", head + b"package x\n") == "generated"


@pytest.mark.parametrize(
    "data",
    [
        b"# Ids are generated here.\n", b'MARK = "@generated"\n', b"\n" * 100 + b"# @generated\n", b"def f():\n    return 'Code generated by x. DO NOT EDIT.'\n",
        b"", b"# Code generated for tests may be edited\n",
    ],
)  # fmt: skip
def test_what_is_no_mark_of_a_generator(data):
    assert state_of_contents("a.py", data) == ""


def test_lines_of_minified_files():
    assert state_of_contents("a.js", b"var a=1;" * 200) == "minified"
    assert state_of_contents("a.js", b"a()\n" * 5_000 + b"x" * 5_001) == "minified"
    assert state_of_contents("a.js", b"a()\n" * 5_000) == ""
    assert state_of_contents("a.js", b"module.exports = " + b"x" * 200) == ""
    assert state_of_contents("a.py", b"x = 1;" * 2_000) == ""
    assert state_of_contents("a.css", b"a{b:c}" * 400) == "minified"


def test_what_is_no_text():
    assert state_of_contents("a.py", b"a\0b") == "not_text"
    assert state_of_contents("a.py", b"\xff\xfe not UTF-8 but text") == ""
