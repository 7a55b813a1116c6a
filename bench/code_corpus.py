"""Repositories of code to measure with: a mixed one of real and made files, and made ones of any size.

Real Python comes from the packages of this environment, real JavaScript and TypeScript from ``tests/node`` where that is installed. Files of
other languages are made from templates, seeded, so that every run has the same ones. All lie below ``src/``: paths by which code counts as
somebody else's are left out, since nothing would parse it.
"""

from __future__ import annotations

__all__ = ["Corpus", "changed_file", "git", "mixed_corpus", "module_corpus"]

import os
import random
import string
import subprocess
import sysconfig
from collections.abc import Iterator
from typing import Final, NamedTuple

from bench.processes import environment
from bench.samples import REPOSITORY, Texts
from periplus.code.listing.derived_paths import is_generated_path, is_minified_name, is_vendored_path

_SOURCE_BYTES_MAX: Final = 1 << 19
_PYTHON_SHARE: Final = 0.45
_SCRIPT_SHARE: Final = 0.15
_NODE: Final = os.path.join(REPOSITORY, "tests", "node", "node_modules")
_SCRIPTS: Final = (".js", ".mjs", ".cjs", ".ts", ".mts", ".tsx", ".jsx")
_IDENTITY: Final = (
    "-c",
    "user.name=Bench",
    "-c",
    "user.email=bench@example.org",
    "-c",
    "gc.auto=0",
    "-c",
    "commit.gpgSign=false",
)

# Each language: extension, what begins a file, what is repeated in it. $m $n $o are names of this file, $f $g those of others.
_TEMPLATES: Final[dict[str, tuple[str, str, str]]] = {
    "java": (".java", "package org.example.$p;\n\nimport org.example.$q.$F;\nimport java.util.List;\n\npublic class $C {\n    private final $F other = new $F();\n",
             "\n    /** $d. */\n    public int $m(int $n, List<String> $o) {\n        int found = other.$f($n);\n        for (String one : $o) {\n            if (one.length() > found) {\n                found += $g(one.length());\n            }\n        }\n        return found;\n    }\n\n    private int $g(int value) {\n        return value * 2 + other.$f(value);\n    }\n"),
    "go": (".go", 'package $p\n\nimport (\n\t"fmt"\n\t"example.org/code/$q"\n)\n\ntype $C struct {\n\tname string\n\tcount int\n}\n',
           '\n// $M $d.\nfunc (c *$C) $M($n int, $o []string) (int, error) {\n\tfound := $q.$F($n)\n\tfor _, one := range $o {\n\t\tif len(one) > found {\n\t\t\tfound += $g(len(one))\n\t\t}\n\t}\n\treturn found, fmt.Errorf("%s: %d", c.name, found)\n}\n\nfunc $g(value int) int {\n\treturn value*2 + $q.$F(value)\n}\n'),
    "c": (".c", '#include <stdio.h>\n#include "$q.h"\n\nstruct $C {\n    const char *name;\n    int count;\n};\n',
          "\n/* $d. */\nstatic int $g(int value)\n{\n    return value * 2 + $f(value);\n}\n\nint $m(struct $C *self, int $n)\n{\n    int found = $f($n);\n    for (int at = 0; at < self->count; at++) {\n        if (at > found)\n            found += $g(at);\n    }\n    return found;\n}\n"),
    "ruby": (".rb", "require_relative '$q'\n\nmodule Example\n  class $C\n    attr_reader :name\n\n    def initialize(name)\n      @other = $F.new(name)\n    end\n",
             "\n    # $d.\n    def $m($n, $o = [])\n      found = @other.$f($n)\n      $o.each do |one|\n        found += $g(one.size) if one.size > found\n      end\n      found\n    end\n\n    def $g(value)\n      value * 2 + @other.$f(value)\n    end\n"),
    "php": (".php", "<?php\n\nnamespace Example\\$P;\n\nuse Example\\$Q\\$F;\n\nclass $C\n{\n    private $$other;\n\n    public function __construct($F $$other)\n    {\n        $$this->other = $$other;\n    }\n",
            "\n    /** $d. */\n    public function $m(int $$$n, array $$$o): int\n    {\n        $$found = $$this->other->$f($$$n);\n        foreach ($$$o as $$one) {\n            if (strlen($$one) > $$found) {\n                $$found += $$this->$g(strlen($$one));\n            }\n        }\n        return $$found;\n    }\n\n    private function $g(int $$value): int\n    {\n        return $$value * 2 + $$this->other->$f($$value);\n    }\n"),
    "rust": (".rs", "use crate::$q::$F;\n\npub struct $C {\n    name: String,\n    other: $F,\n}\n",
             "\nimpl $C {\n    /// $d.\n    pub fn $m(&self, $n: i64, $o: &[String]) -> i64 {\n        let mut found = self.other.$f($n);\n        for one in $o {\n            if one.len() as i64 > found {\n                found += $g(one.len() as i64);\n            }\n        }\n        found\n    }\n}\n\nfn $g(value: i64) -> i64 {\n    value * 2 + value.abs()\n}\n"),
}  # fmt: skip
_ENDS: Final = {"java": "}\n", "ruby": "  end\nend\n", "php": "}\n"}
_UNITS: Final = 9  # repetitions in a file: about twenty symbols and four thousand bytes


class Corpus(NamedTuple):
    """A repository with one commit. ``paths`` are relative to ``root``."""

    root: str
    paths: tuple[str, ...]
    size_bytes: int


def mixed_corpus(root: str, count: int) -> Corpus:
    """Make a repository of ``count`` files, real ones as far as there are any."""
    python = list(_spread(sorted(_sources(sysconfig.get_paths()["purelib"], (".py",))), int(count * _PYTHON_SHARE)))
    scripts = list(_spread(sorted(_sources(_NODE, _SCRIPTS)), int(count * _SCRIPT_SHARE)))
    written: dict[str, bytes] = {}
    for kind, top, names in (("python", sysconfig.get_paths()["purelib"], python), ("script", _NODE, scripts)):
        for name in names:
            with open(os.path.join(top, name), "rb") as file:
                written[f"src/{kind}/{name}"] = file.read()
    texts = _Made(11)
    languages = list(_TEMPLATES)
    for number in range(count - len(written)):
        path, text = texts.file(languages[number % len(languages)], number)
        written[path] = text.encode()
    return _repository(root, written)


def module_corpus(root: str, count: int, functions: int) -> Corpus:
    """Make a repository of ``count`` modules of Python with about ``functions`` symbols each, which call each other across files."""
    made = random.Random(13)
    texts = Texts(13)

    def name(number: int) -> str:
        return f"{texts.words[number % 7_919]}_{texts.words[(number * 31 + number // 7_919) % 4_999]}"

    arguments = [word for word in texts.words if len(word) > 3]
    written: dict[str, bytes] = {"src/__init__.py": b""}
    for number in range(count):
        others = [made.randrange(max(1, number)) for _ in range(3)]
        lines = [
            f"from src.part{one // 100}.module{one} import {name(one * functions)}_{one}"
            for one in dict.fromkeys(others)
        ]
        for at in range(functions):
            other = others[at % 3]
            lines += [
                "", "", f"def {name(number * functions + at)}_{number}(value, {arguments[at]}=0):", f'    """{texts.sentence(4, 9)}."""',
                f"    found = {name(other * functions)}_{other}(value)", f"    return found + {arguments[at]}",
            ]  # fmt: skip
        written[f"src/part{number // 100}/module{number}.py"] = "\n".join([*lines, ""]).encode()
    for part in range(-(-count // 100)):
        written[f"src/part{part}/__init__.py"] = b""
    return _repository(root, written)


def changed_file(corpus: Corpus, number: int) -> str:
    """Change one file of ``corpus`` as somebody who adds a function; return the name of the function."""
    own = [path for path in corpus.paths if path.endswith(".py") and not path.endswith("__init__.py")]
    name = f"added_{number}"
    with open(os.path.join(corpus.root, own[number * 7_919 % len(own)]), "a", encoding="utf-8") as file:
        file.write(f"\n\ndef {name}(value):\n    return value\n")
    return name


def git(root: str, *words: str) -> None:
    """Run git in ``root`` without the settings of the user."""
    own = {**environment(), "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "-C", root, *_IDENTITY, *words], check=True, capture_output=True, env=own)


def _repository(root: str, files: dict[str, bytes]) -> Corpus:
    for path, data in files.items():
        place = os.path.join(root, path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "wb") as file:
            file.write(data)
    git(root, "init", "-q")
    with open(os.path.join(root, ".git", "info", "exclude"), "a", encoding="utf-8") as file:
        file.write(".periplus/\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "all")
    return Corpus(root, tuple(sorted(files)), sum(map(len, files.values())))


def _sources(top: str, extensions: tuple[str, ...]) -> Iterator[str]:
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), top)
            if name.endswith(extensions) and not (
                is_vendored_path(path) or is_generated_path(path) or is_minified_name(path)
            ):
                place = os.path.join(top, path)
                if os.path.isfile(place) and os.path.getsize(place) <= _SOURCE_BYTES_MAX:
                    yield path


def _spread(items: list[str], most: int) -> Iterator[str]:
    """Iterate over at most ``most`` of ``items``, at even distances."""
    for at in range(min(most, len(items))):
        yield items[at * len(items) // min(most, len(items))]


class _Made:
    """Files from the templates."""

    def __init__(self, seed: int) -> None:
        self._texts = Texts(seed)
        self._words = [word for word in self._texts.words if len(word) > 3]
        self._random = random.Random(seed)

    def file(self, language: str, number: int) -> tuple[str, str]:
        extension, head, unit = _TEMPLATES[language]
        package, other = (self._words[self._random.randrange(400)] for _ in range(2))
        common = {
            "p": package, "q": other, "P": package.title(), "Q": other.title(), "C": self._name().title().replace("_", ""),
            "F": self._words[self._random.randrange(2_000)].title(),
        }  # fmt: skip
        parts = [string.Template(head).substitute(common)]
        for _ in range(_UNITS):
            method, helper = self._name(), self._name()
            values = {
                **common, "m": method, "M": method.title().replace("_", ""), "g": helper, "f": self._words[self._random.randrange(2_000)],
                "n": self._words[self._random.randrange(300)], "o": f"{self._words[self._random.randrange(300)]}s",
                "d": self._texts.sentence(4, 10),
            }  # fmt: skip
            parts.append(string.Template(unit).substitute(values))
        parts.append(_ENDS.get(language, ""))
        return f"src/{language}/{package}/{other}{number}{extension}", "".join(parts)

    def _name(self) -> str:
        return "_".join(self._random.choice(self._words) for _ in range(2))
