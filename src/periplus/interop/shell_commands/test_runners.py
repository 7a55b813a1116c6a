"""Test runners: detection of commands that run tests, and parsing of their output."""

from __future__ import annotations

__all__ = ["OUTPUT_CHARS_MAX", "is_test", "passed_count", "runner_ending"]

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from periplus.trail.model import Outcome
from periplus.trail.shell_words import program_of

OUTPUT_CHARS_MAX: Final = 64 << 10
_COUNT_MAX: Final = 10**9
_COUNT_DIGITS: Final = 12

# Programs that only run tests.
_PROGRAMS: Final = frozenset({
    "pytest", "py.test", "unittest", "tox", "nox", "jest", "vitest", "mocha", "ava", "rspec", "ctest", "phpunit", "pest",
    "paratest", "bats", "busted", "nosetests", "nose2", "karma", "jasmine", "gotestsum", "cargo-nextest", "runtests.py",
    "run_tests.sh", "runtests.sh", "run-tests.sh", "run_tests.py", "stestr", "behave", "cucumber", "prove", "richgo",
    "ginkgo", "codecept", "behat", "kahlan", "zunit", "shellspec", "trial", "ward", "doctest", "playwright",
    "cypress", "xctest", "minitest",
})  # fmt: skip
_NEED_A_VERB: Final = {"playwright": "test", "cypress": "run"}
_MODULES: Final = frozenset({
    "pytest", "unittest", "nose", "nose2", "tox", "nox", "doctest", "test", "twisted.trial", "behave", "stestr", "robot",
    "green", "testtools.run", "zope.testrunner", "xdoctest", "slash",
})  # fmt: skip
# Programs with many uses, and their words for running tests.
_VERBS: Final = {
    "go": ("test",), "cargo": ("test", "nextest", "t", "llvm-cov", "tarpaulin"), "npm": ("test", "t", "tst"),
    "yarn": ("test", "jest", "vitest", "mocha"), "pnpm": ("test", "t", "jest", "vitest", "mocha"),
    "bun": ("test",), "deno": ("test",), "mvn": ("test", "verify"), "mvnw": ("test", "verify"),
    "mvnd": ("test", "verify"), "dotnet": ("test", "vstest"), "gradle": ("test", "check"),
    "gradlew": ("test", "check"), "make": ("test", "tests", "check"), "gmake": ("test", "tests", "check"),
    "just": ("test", "tests"), "task": ("test", "tests"), "mix": ("test",), "swift": ("test",), "rails": ("test", "spec"),
    "rake": ("test", "spec"), "bazel": ("test",), "bazelisk": ("test",), "buck2": ("test",), "flutter": ("test",),
    "dart": ("test",), "hatch": ("test", "tests"), "sbt": ("test",), "lein": ("test",), "zig": ("test",),
    "ninja": ("test", "check"), "meson": ("test",), "xcodebuild": ("test",), "stack": ("test",), "cabal": ("test",),
    "dune": ("test", "runtest"), "artisan": ("test",), "manage.py": ("test",), "setup.py": ("test", "pytest"),
    "inv": ("test", "tests"), "invoke": ("test", "tests"), "nx": ("test",), "ng": ("test", "e2e"), "forge": ("test",),
    "hardhat": ("test",), "truffle": ("test",), "anchor": ("test",), "react-scripts": ("test",), "vue-cli-service": ("test:unit",),
    "moon": ("test",), "pants": ("test",), "scons": ("test", "check"), "waf": ("test", "check"), "gleam": ("test",),
    "crystal": ("spec",), "shards": ("test",), "nimble": ("test",), "tap": ("run",), "mage": ("test",), "earthly": ("+test",),
    "nix": ("check",),
}  # fmt: skip
_COVERERS: Final = frozenset({"c8", "nyc"})  # measure the coverage of another program
_MANY_GOALS: Final = frozenset({
    "gradle", "gradlew", "mvn", "mvnw", "mvnd", "make", "gmake", "just", "ninja", "task", "rake", "inv", "invoke", "mage",
})  # fmt: skip
_ANY_PLACE: Final = frozenset({"nx", "zig", "xcodebuild", "sbt", "scons"})
_DEPTH_MAX: Final = 4
_SCRIPT_HOSTS: Final = frozenset({
    "npm", "yarn", "pnpm", "bun", "mise", "deno", "task", "poe", "composer", "turbo", "lerna", "nx", "pdm", "rush",
    "rushx", "wireit", "pixi", "hatch", "rye",
})  # fmt: skip
_SCRIPT_VERBS: Final = frozenset({"run", "run-script", "task", "workspaces", "foreach"})
_SCRIPT_PREFIXES: Final = ("test:", "test-", "tests:", "test_")
# Options that take a value and may precede the verb.
_VALUED: Final = frozenset({
    "-C", "-f", "-pl", "-p", "-w", "--prefix", "--workspace", "--filter", "--manifest-path", "--project", "--dir", "--cwd",
    "-F", "-s", "--settings", "-b", "--config", "-c", "--build-file", "--directory", "-D", "--file", "--scope", "-scheme",
    "-workspace", "-project", "-destination", "--package-path", "--env",
})  # fmt: skip
# With one of these no tests run: they are listed or only built, or the program describes itself.
_DRY: Final = frozenset({
    "--help", "--version", "--collect-only", "--co", "--fixtures", "--no-run", "--list-tests", "--listTests", "--dry-run",
    "--just-print", "--showconfig", "--notest", "--list-sessions", "--setup-plan",
})  # fmt: skip
_DRY_OF: Final = {
    "pytest": ("-h", "-V"), "ctest": ("-N", "--show-only"), "tox": ("-l", "-a", "-h"), "nox": ("-l",), "make": ("-n",),
    "gmake": ("-n",), "go": ("-list", "-c"), "dotnet": ("-t", "--list-tests"), "mocha": ("-h",), "jest": ("-h",),
}  # fmt: skip


def is_test(words: Sequence[str], depth: int = 0) -> bool:
    """Test whether a command, given as words from the program on, runs tests."""
    if depth > _DEPTH_MAX or not words:
        return False
    program = words[0].replace("\\", "/").rsplit("/", 1)[-1]
    program = program.removesuffix(".cmd").removesuffix(".bat").removesuffix(".exe")
    arguments = list(words[1:])
    end = arguments.index("--") if "--" in arguments else len(arguments)
    dry = _DRY_OF.get(program, ())
    if any(word in _DRY or word in dry for word in arguments[:end]):
        return False
    if program in _NEED_A_VERB:
        return _NEED_A_VERB[program] in arguments
    if program in _PROGRAMS:
        return True
    if program in _COVERERS:
        return is_test(program_of(arguments), depth + 1)
    if program.startswith(("python", "pypy")):
        return _is_python_test(arguments, depth)
    if program == "node":
        return "--test" in arguments[:end]
    if program == "php":
        return is_test([word for word in arguments if not word.startswith("-")], depth + 1)
    if program == "ruby":
        return any(word.startswith(("test/", "spec/")) or word == "-Itest" for word in arguments)
    if program == "cmake":
        return "--target" in arguments and arguments[-1] in ("test", "check")
    return _has_verb(program, arguments, depth)


def _is_python_test(arguments: list[str], depth: int) -> bool:
    at = 0
    while at < len(arguments) and arguments[at].startswith("-"):
        if arguments[at] == "-c":
            return False
        if arguments[at] == "-m":
            module = "".join(arguments[at + 1 : at + 2])
            if module == "coverage":
                return is_test(program_of(["coverage", *arguments[at + 2 :]]), depth + 1)
            return module in _MODULES
        at += 2 if arguments[at] in ("-W", "-X") else 1
    script = arguments[at].rsplit("/", 1)[-1] if at < len(arguments) else ""
    return script in _PROGRAMS or _has_verb(script, arguments[at + 1 : at + 2], depth)


def _has_verb(program: str, arguments: list[str], depth: int) -> bool:
    plain = _plain(program, arguments)
    if not plain:
        return False
    verbs = _VERBS.get(program, ())
    if program in _MANY_GOALS:
        return any(_is_goal(word, verbs) for word in plain)
    if plain[0] in verbs or (program in _ANY_PLACE and not set(plain).isdisjoint(verbs)):
        return True
    if program == "cargo" and plain[0] in ("miri", "hack", "watch"):
        return "test" in plain[1:] or "nextest" in plain[1:]
    return program in _SCRIPT_HOSTS and (_has_script(plain) or _runs_another(arguments, depth))


def _plain(program: str, arguments: list[str]) -> list[str]:
    """Return the words that are neither options nor their values nor settings."""
    plain = []
    at = 0
    while at < len(arguments) and arguments[at] != "--":
        word = arguments[at]
        if word.startswith("-"):
            at += 2 if word in _VALUED else 1
            continue
        if "=" not in word and (not word.startswith("+") or program == "earthly"):
            plain.append(word)
        at += 1
    return plain


def _has_script(plain: list[str]) -> bool:
    """Detect ``npm run test:unit``, ``yarn workspace web test``, ``mise run test``."""
    at = 0
    if plain[0] in ("workspace", "workspaces") and len(plain) > 2:
        at = 2
    while at < len(plain) - 1 and plain[at] in _SCRIPT_VERBS:
        at += 1
    return plain[at] in ("test", "tests") or plain[at].startswith(_SCRIPT_PREFIXES)


def _runs_another(arguments: list[str], depth: int) -> bool:
    """Detect ``pdm run python -m pytest``."""
    if "run" not in arguments:
        return False
    at = arguments.index("run") + 1
    while at < len(arguments) and arguments[at].startswith("-"):
        at += 2 if arguments[at] in _VALUED else 1
    return is_test(program_of(arguments[at:]), depth + 1)


def _is_goal(word: str, verbs: tuple[str, ...]) -> bool:
    """Test whether a build goal runs tests: ``test``, ``test-unit``, ``:app:testDebugUnitTest``."""
    task = word.rsplit(":", 1)[-1]
    return (
        word in verbs
        or task in verbs
        or word.startswith(("test-", "test_", "test:", "tests-", "test.", "check-"))
        or task.endswith("Test")
        or (task.startswith("test") and task[4:5].isupper())
    )


# ---- output


class _Rule(NamedTuple):
    """``mark`` occurs in every output that ``pattern`` matches, and is searched first. ``is_summed`` where the runner
    prints one line for each part of the run; else the last line counts.
    """

    mark: str
    pattern: re.Pattern[str]
    is_summed: bool = False


def _rule(mark: str, pattern: str, *, is_summed: bool = False) -> _Rule:
    return _Rule(mark, re.compile(pattern, re.MULTILINE), is_summed)


_PASSED: Final = (
    _rule("test result:", r"^test result: \w+\. (\d+) passed", is_summed=True),  # cargo, once a crate
    _rule("tests run:", r"^ *Summary .{0,80}?\d+ tests? run: (\d+) passed"),  # cargo nextest
    _rule("Tests", r"^[ \t]*Tests:?[ \t].{0,120}?(\d+) passed"),  # jest, vitest, pest
    _rule("passed", r"\b(\d+) passed(?:,|;| in |\s|$)"),  # pytest, playwright
    _rule("passed", r"^(?:ok|FAILED) \| (\d+) passed"),  # deno
    _rule("passing", r"^[ \t]*(\d+) passing\b"),  # mocha
    _rule("pass", r"^(?:#|ℹ) pass +(\d+)$"),  # TAP, node
    _rule("pass", r"^ *(\d+) pass$"),  # bun
    _rule("OK (", r"^OK \((\d+) tests?,"),  # phpunit
    _rule("Passed", r"\bPassed:[ \t]*(\d+)", is_summed=True),  # dotnet, once a project
    _rule("scenarios", r"^\d+ scenarios? \(.{0,60}?(\d+) passed"),  # cucumber
    _rule("Specs", r"^Ran \d+ of \d+ Specs[^\n]*\n[^\n]{0,80}?(\d+) Passed"),  # ginkgo
)


class _Difference(NamedTuple):
    """Total less lost tests; ``lost`` is searched in the line of ``total`` and shortly behind it."""

    mark: str
    total: re.Pattern[str]
    lost: re.Pattern[str]
    behind_chars: int = 400


_RAN: Final = (
    _Difference(
        "Ran ", re.compile(r"^Ran (\d+) tests? in", re.MULTILINE), re.compile(r"(?:failures|errors|skipped)=(\d+)")
    ),
    _Difference(
        "example", re.compile(r"^(\d+) examples?,", re.MULTILINE), re.compile(r"(\d+) (?:failures?|pending|errors?)"), 80
    ),
    _Difference(
        "Tests run", re.compile(r"Tests run: (\d+)"), re.compile(r"(?:Failures|Errors|Skipped): (\d+)"), 80
    ),  # maven
    _Difference(
        "Assertions:", re.compile(r"^Tests: (\d+), Assertions:", re.MULTILINE),
        re.compile(r"(?:Failures|Errors|Skipped|Incomplete|Risky): (\d+)"), 160,
    ),  # phpunit
    _Difference(
        "tests completed", re.compile(r"^(\d+) tests completed", re.MULTILINE), re.compile(r"(\d+) (?:failed|skipped)"), 60
    ),  # gradle
    _Difference(
        "Executed ", re.compile(r"Executed (\d+) tests?,"), re.compile(r"with (\d+) failures?|(\d+) tests? skipped"), 80
    ),  # xctest
    _Difference(
        "assertions", re.compile(r"^(\d+) (?:runs|tests), \d+ assertions", re.MULTILINE),
        re.compile(r"(\d+) (?:failures|errors|skips|pendings)"), 100,
    ),  # minitest
    _Difference(
        "failure", re.compile(r"^(?:(\d+) doctests?, )?(\d+) tests?, \d+ failures?", re.MULTILINE),
        re.compile(r"(\d+) (?:failures?|skipped|excluded|invalid)"), 80,
    ),  # mix, bats
)  # fmt: skip
_CTEST: Final = re.compile(r"\b(\d+) tests failed out of (\d+)")
_GO_PASS: Final = re.compile(r"^[ \t]*--- PASS:", re.MULTILINE)
# Lines that report failures; the output of a test itself should hardly look like one.
_FAILED: Final = re.compile(
    r"^[ \t=]*+(?:"
    r"(?:\d+ \w+,? ){0,4}[1-9]\d* (?:failed|errors?)(?:,| in |$| out of |[ \t=]*$)[^\n]{0,200}"  # pytest, playwright, gradle
    r"|(?:Tests|Test Files|Test Suites):?[ \t][^\n]{0,80}?\b[1-9]\d* failed[^\n]{0,200}"  # jest, vitest, pest
    r"|[1-9]\d* failing\b[^\n]{0,80}"  # mocha
    r"|test result: FAILED[^\n]{0,200}"  # cargo
    r"|Summary [^\n]{0,120}\b[1-9]\d* failed[^\n]{0,80}"  # cargo nextest
    r"|(?:--- FAIL: |FAIL\t|FAIL! )[^\n]{0,200}"  # go, ginkgo
    r"|FAILED \((?:failures|errors)=[^\n]{0,80}"  # unittest
    r"|FAILED \| [^\n]{0,80}"  # deno
    r"|FAILURES!|BUILD FAIL(?:ED|URE)\b[^\n]{0,80}"  # phpunit, gradle, maven
    r"|(?:#|ℹ) fail +[1-9]\d*|[1-9]\d* fail$"  # TAP, node, bun
    r"|\d+ (?:examples?|tests?|runs|scenarios?|doctests?)\b[^\n]{0,120}?\b[1-9]\d* (?:failures?|errors?|failed)\b[^\n]{0,80}"  # rspec, mix, minitest, cucumber
    r"|(?:\[\w+\] )?Tests run: [^\n]{0,80}?(?:Failures|Errors): [1-9][^\n]{0,80}"  # maven
    r"|Failed!? [^\n]{0,20}- Failed: +[1-9][^\n]{0,120}|Failed: +[1-9]\d*$"  # dotnet
    r"|\d+% tests passed, [1-9]\d* tests failed[^\n]{0,80}"  # ctest
    r"|Executed \d+ tests?, with [1-9]\d* failures?[^\n]{0,80}"  # xctest
    r")",
    re.MULTILINE,
)
# A test may print these as well: they count where no summary gives the passed tests.
_FAILED_PERHAPS: Final = re.compile(r"^[ \t]*+(?:FAIL(?: [^\n]{1,200}|$)|not ok \d[^\n]{0,200})", re.MULTILINE)
_SUCCEEDED: Final = re.compile(r"^(?:ok[ \t]+\S{1,200}[ \t]|\[INFO\] BUILD SUCCESS$|BUILD SUCCESSFUL\b)", re.MULTILINE)
_MARKS: Final = ("pass", "Pass", "PASS", "OK (", *dict.fromkeys(rule.mark for rule in _RAN))
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")


def passed_count(output: str) -> int | None:
    """Return the number of passed tests from the output of a known runner, None where it is not given."""
    text = output[-OUTPUT_CHARS_MAX:]
    if not any(mark in text for mark in _MARKS):
        return None
    if "\x1b" in text:
        text = _COLOUR.sub("", text)
    for rule in _PASSED:
        found = rule.pattern.findall(text) if rule.mark in text else ()
        if found:
            return _bounded(sum(map(_number, found if rule.is_summed else found[-1:])))
    for ran in _RAN:
        matches = list(ran.total.finditer(text)) if ran.mark in text else ()
        if matches:
            rest = text[matches[-1].start() : matches[-1].start() + ran.behind_chars]
            lost = (number for group in ran.lost.findall(rest) for number in _texts(group) if number)
            ran_count = sum(map(_number, filter(None, matches[-1].groups())))
            return max(0, _bounded(ran_count) - sum(map(_number, lost)))
    ctest = _CTEST.search(text) if "tests failed" in text else None
    if ctest is not None:
        return max(0, _number(ctest.group(2)) - _number(ctest.group(1)))
    return len(_GO_PASS.findall(text)) or None if "--- PASS:" in text else None


def runner_ending(output: str, passed: int | None) -> tuple[Outcome, str | None]:
    """Return the outcome of tests from the last output of a known runner, with the line that reports failures.

    For runs without an exit code: a pipe or a later part hides it. ``passed`` is their ``passed_count``.
    """
    text = output[-OUTPUT_CHARS_MAX:]
    if "\x1b" in text:
        text = _COLOUR.sub("", text)
    patterns = (_FAILED,) if passed is not None else (_FAILED, _FAILED_PERHAPS)
    failures = [failure.group().strip(" \t=") for pattern in patterns for failure in pattern.finditer(text)]
    if failures:
        telling = [
            line for line in failures if len(line.split()) > 1
        ]  # more than the bare FAIL at the end of go's output
        return "failed", (telling or failures)[-1]
    return "ok" if passed is not None or _SUCCEEDED.search(text) is not None else "unknown", None


def _texts(group: str | tuple[str, ...]) -> tuple[str, ...]:
    return (group,) if isinstance(group, str) else group


def _number(digits: str) -> int:
    return _bounded(int(digits[:_COUNT_DIGITS]))


def _bounded(number: int) -> int:
    return min(number, _COUNT_MAX)
