"""What a shell command does, told from its text: tests, commits, pushes and searches have steps of their own.

The text is read as a shell would split it, nothing more: no expansion, no aliases. A command that is not understood
stays a command, and the raw text of one that is stays in the note of its step.
"""

from __future__ import annotations

__all__ = ["COMMAND_CHARS_MAX", "Action", "commit_digest", "passed_count", "recognise"]

import re
from typing import Final, Literal, NamedTuple

from periplus.trail.model import Digest

COMMAND_CHARS_MAX: Final = 64 << 10
_WORDS_MAX: Final = 2000
_TAIL_CHARS: Final = 64 << 10

ActionKind = Literal["test", "commit", "push", "search"]


class Action(NamedTuple):
    """``what`` is the tests' command, the commit's message, the remote pushed to or the pattern searched for;
    ``where`` the path searched or the folder given with ``git -C``.
    """

    kind: ActionKind
    what: str
    where: str | None = None


_WORTH_READING: Final = re.compile(
    r"test|spec|check|commit|push|grep|\brg\b|\bag\b|\back\b|jest|mocha|tox|nox|bats|verify|karma|cypress|jasmine|busted"
    r"|\b(?:npm|pnpm|cargo) t\b"
)
_HEREDOC: Final = re.compile(r"(?<!<)<<-?[ \t]*(['\"]?)(\w{1,64})\1")
_HEREDOCS_MAX: Final = 16
_HELD: Final = "\x00"  # stands around the number of a here-document, for no command holds a NUL
_TOKEN: Final = re.compile(
    r"(?P<redirect>\d*(?:>>?|<)&\d?-?|&>>?|\d*>>?\|?|\d*<)"
    r"|(?P<end>&&|\|\|?|;;?|&|\n|\(|\))"
    r"|(?P<space>[ \t\r]+|\\\n|(?<![^\s;|&()])\#[^\n]*)"
    r"|(?P<word>(?:[^\s'\"\\;|&()<>]|'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.)+)"
    r"|(?P<stray>.)",
    re.DOTALL,
)
_PART: Final = re.compile(r"'([^']*)'|\"((?:[^\"\\]|\\.)*)\"|\\(.)|([^'\"\\]+)", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\([\"\\$`\n])")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
_WRAPPERS: Final = frozenset({"sudo", "time", "env", "nice", "command", "exec", "xvfb-run", "then", "do", "else", "!"})
_KEYWORD: Final = re.compile(r"^(?:then|do|else|!)\s+")
_RUNNERS: Final = {
    ("uv", "run"), ("poetry", "run"), ("pipenv", "run"), ("pdm", "run"), ("hatch", "run"), ("rye", "run"),
    ("bundle", "exec"), ("npm", "exec"), ("pnpm", "exec"), ("pnpm", "dlx"), ("yarn", "dlx"),
}  # fmt: skip
_ONE_WORD_RUNNERS: Final = frozenset({"npx", "bunx", "pnpx"})
_TEST_PROGRAMS: Final = frozenset({
    "pytest", "py.test", "tox", "nox", "jest", "vitest", "mocha", "ava", "rspec", "ctest", "phpunit", "bats", "busted",
    "nosetests", "nose2", "karma", "jasmine", "gotestsum", "cargo-nextest", "runtests.py", "run_tests.sh",
})  # fmt: skip
_TEST_VERBS: Final = {
    "go": ("test",), "cargo": ("test", "nextest", "t"), "npm": ("test", "t"), "yarn": ("test",), "pnpm": ("test", "t"),
    "bun": ("test",), "deno": ("test",), "mvn": ("test", "verify"), "mvnw": ("test", "verify"), "dotnet": ("test",),
    "gradle": ("test", "check"), "gradlew": ("test", "check"), "make": ("test", "tests", "check"), "just": ("test",),
    "task": ("test",), "mix": ("test",), "swift": ("test",), "rails": ("test",), "rake": ("test", "spec"),
    "bazel": ("test",), "flutter": ("test",), "dart": ("test",), "hatch": ("test",), "playwright": ("test",),
    "cypress": ("run",), "sbt": ("test",), "lein": ("test",), "zig": ("test",), "ninja": ("test",), "meson": ("test",),
}  # fmt: skip
_SCRIPT_HOSTS: Final = frozenset({"npm", "yarn", "pnpm", "bun", "mise", "deno", "task", "poe", "composer"})
_SEARCHERS: Final = frozenset({"grep", "egrep", "fgrep", "rg", "ag", "ack"})
_VALUED: Final = frozenset({
    "-A", "-B", "-C", "-m", "-g", "-t", "-T", "-d", "-D", "-M", "-j", "--glob", "--iglob", "--type", "--type-not",
    "--max-count", "--context", "--after-context", "--before-context", "--max-depth", "--include", "--exclude",
    "--exclude-dir", "--color", "--sort", "--sortr", "--encoding",
})  # fmt: skip
_FILTERS: Final = frozenset({
    "head", "tail", "sort", "uniq", "wc", "cut", "sed", "awk", "grep", "egrep", "rg", "cat", "less", "tr", "nl",
    "column", "true", "echo", "xargs",
})  # fmt: skip
_GIT_VALUED: Final = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace"})


def recognise(command: str) -> list[Action]:
    """What ``command`` does that has a step of its own, in order; nothing where it is just a command."""
    if len(command) > COMMAND_CHARS_MAX or _WORTH_READING.search(command) is None:
        return []
    text, bodies = _without_heredocs(command) if "<<" in command else (command, [])
    found: list[Action] = []
    segments = _segments(text)
    for segment in segments:
        words = _program(segment.words)
        if not words:
            continue
        action = _test(words, segment.text) or _git(words, bodies)
        if action is not None and all(action.kind != other.kind for other in found):
            found.append(action)
    return found or _search(segments)


def _without_heredocs(command: str) -> tuple[str, list[str]]:
    """The text with a mark in place of each here-document, and their bodies."""
    out = []
    bodies: list[str] = []
    at = 0
    while len(bodies) < _HEREDOCS_MAX:
        match = _HEREDOC.search(command, at)
        line_end = command.find("\n", match.end()) if match is not None else -1
        if match is None or line_end < 0:
            break
        last = re.compile(rf"^[ \t]*{match.group(2)}[ \t]*$", re.MULTILINE).search(command, line_end + 1)
        if last is None:
            break
        out.append(f"{command[at : match.start()]}{_HELD}{len(bodies)}{_HELD}{command[match.end() : line_end]}\n")
        bodies.append(command[line_end + 1 : max(line_end + 1, last.start() - 1)])
        at = last.end() + 1
    out.append(command[at:])
    return "".join(out), bodies


class _Segment(NamedTuple):
    """One simple command: its words without quotes, and its text."""

    words: list[str]
    text: str


def _segments(text: str) -> list[_Segment]:
    segments: list[_Segment] = []
    words: list[str] = []
    start = end = 0
    count = 0
    is_target = False
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "end":
            if words:
                segments.append(_Segment(words, text[start:end].strip()))
            words = []
            is_target = False
        elif kind == "redirect":
            is_target = not match.group().endswith(("&", "-")) and not match.group()[-1].isdigit()
        elif kind == "word":
            if is_target:
                is_target = False
                continue
            if not words:
                start = match.start()
            words.append(_unquoted(match.group()))
            end = match.end()
            count += 1
            if count >= _WORDS_MAX:
                break
    if words:
        segments.append(_Segment(words, text[start:end].strip()))
    return segments


def _unquoted(word: str) -> str:
    if not ("'" in word or '"' in word or "\\" in word):
        return word
    out = []
    for single, double, escaped, plain in _PART.findall(word):
        out.append(single or (_ESCAPED.sub(r"\1", double) if double else "") or escaped or plain)
    return "".join(out)


def _program(words: list[str]) -> list[str]:
    """The words from the program on: without assignments and without what only starts another program."""
    at = 0
    while at < len(words):
        word = words[at]
        pair = tuple(words[at : at + 2])
        if _ASSIGNMENT.match(word) or word in _WRAPPERS or word in _ONE_WORD_RUNNERS:
            at += 1
        elif word == "timeout":
            at += 1
            while at < len(words) and words[at].startswith("-"):
                at += 2 if words[at] in ("-k", "-s") else 1
            at += 1
        elif pair in _RUNNERS:
            at += 2
            while at < len(words) and words[at].startswith("-"):
                at += 1
        else:
            break
    return words[at:]


def _test(words: list[str], text: str) -> Action | None:
    program = words[0].rsplit("/", 1)[-1]
    arguments = words[1:]
    is_test = program in _TEST_PROGRAMS
    if not is_test and program.startswith(("python", "pypy")) and "-m" in arguments[:3]:
        module = arguments[arguments.index("-m") + 1 : arguments.index("-m") + 2]
        is_test = bool(module) and module[0] in ("pytest", "unittest", "nose2", "tox", "nox", "doctest")
    plain = [word for word in arguments if not word.startswith(("-", "+")) and "=" not in word]
    if not is_test and plain:
        verb = plain[0].rsplit(":", 1)[-1] if program.startswith("gradle") else plain[0]
        is_test = verb in _TEST_VERBS.get(program, ())
        if not is_test and program in _SCRIPT_HOSTS:
            script = plain[1] if verb in ("run", "run-script", "task") and len(plain) > 1 else verb
            is_test = script == "test" or script.startswith(("test:", "test-", "tests:"))
        if not is_test and program in ("make", "just"):
            is_test = any(word == "test" or word.startswith(("test-", "test_")) for word in plain)
    return Action("test", _KEYWORD.sub("", text)) if is_test else None


def _git(words: list[str], bodies: list[str]) -> Action | None:
    if words[0].rsplit("/", 1)[-1] != "git":
        return None
    folder = None
    at = 1
    while at < len(words) and words[at].startswith("-"):
        if words[at] == "-C" and at + 1 < len(words):
            folder = words[at + 1]
        at += 2 if words[at] in _GIT_VALUED else 1
    verb = words[at] if at < len(words) else ""
    arguments = words[at + 1 :]
    if verb == "commit" and "--dry-run" not in arguments:
        return Action("commit", _message(arguments, bodies), folder)
    if verb == "push" and "--dry-run" not in arguments and "-n" not in arguments:
        remote = next((word for word in arguments if not word.startswith("-")), "")
        return Action("push", remote, folder)
    return None


def _message(arguments: list[str], bodies: list[str]) -> str:
    paragraphs = []
    at = 0
    while at < len(arguments):
        word = arguments[at]
        if word == "--":
            break
        if word == "--message" or re.fullmatch(r"-[a-zA-Z]*m", word):
            if at + 1 < len(arguments):
                paragraphs.append(arguments[at + 1])
            at += 1
        elif word.startswith("--message="):
            paragraphs.append(word.partition("=")[2])
        elif re.match(r"-[aqsnve]*m.", word):
            paragraphs.append(word.partition("m")[2])
        elif word in ("-F", "--file", "-F-", "--file=-"):
            paragraphs.extend(bodies[:1])
        at += 1
    return "\n\n".join(_with_bodies(paragraph, bodies) for paragraph in paragraphs)


def _with_bodies(text: str, bodies: list[str]) -> str:
    """A message written as ``$(cat <<EOF …)`` is the here-document in it."""
    start = text.find(_HELD)
    if start < 0:
        return text
    number = text[start + 1 : text.find(_HELD, start + 1)]
    return bodies[int(number)] if number.isdigit() and int(number) < len(bodies) else text.replace(_HELD, "")


def _search(segments: list[_Segment]) -> list[Action]:
    """A search is one whose first program searches and whose others only go to a folder or filter what was found."""
    commands = [words for segment in segments if (words := _program(segment.words)) and words[0] != "cd"]
    if not commands:
        return []
    first = commands[0]
    program = first[0].rsplit("/", 1)[-1]
    if program == "git" and len(first) > 1 and first[1] == "grep":
        arguments = first[2:]
    elif program in _SEARCHERS:
        arguments = first[1:]
    else:
        return []
    if any(words[0].rsplit("/", 1)[-1] not in _FILTERS for words in commands[1:]):
        return []
    pattern, paths = _pattern(arguments)
    return [Action("search", pattern, paths[0] if paths else None)] if pattern is not None else []


def _pattern(arguments: list[str]) -> tuple[str | None, list[str]]:
    pattern: str | None = None
    paths: list[str] = []
    at = 0
    only_paths = False
    while at < len(arguments):
        word = arguments[at]
        at += 1
        if only_paths or not word.startswith("-") or word == "-":
            if pattern is None:
                pattern = word
            else:
                paths.append(word)
        elif word == "--":
            only_paths = True
        elif word in ("-e", "--regexp") and at < len(arguments):
            pattern = arguments[at] if pattern is None else pattern
            at += 1
        elif word.startswith("--regexp="):
            pattern = word.partition("=")[2]
        elif word in _VALUED and at < len(arguments):
            at += 1
    return pattern, paths


_PASSED: Final = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"^test result: \w+\. (\d+) passed",  # cargo, once a crate
        r"^[ \t]*Tests:?[ \t].{0,120}?(\d+) passed",  # jest, vitest, pest
        r"\b(\d+) passed(?:,| in |\s|$)",  # pytest, playwright
        r"^[ \t]*(\d+) passing\b",  # mocha
        r"^# pass (\d+)$",  # TAP
        r"^OK \((\d+) tests?,",  # phpunit
        r"\bPassed:[ \t]*(\d+)",  # dotnet
    )
)
_PASS_MARKS: Final = ("pass", "Pass", "PASS", "Ran ", "example", "Tests run", "OK (")  # one is in each of them
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_SUMMED: Final = 1  # patterns whose every match counts
_FAILURES: Final = (
    (re.compile(r"^Ran (\d+) tests? in", re.MULTILINE), re.compile(r"(?:failures|errors|skipped)=(\d+)")),
    (re.compile(r"^(\d+) examples?,", re.MULTILINE), re.compile(r"(\d+) (?:failures?|pending)")),
    (re.compile(r"Tests run: (\d+)"), re.compile(r"(?:Failures|Errors|Skipped): (\d+)")),
)
_CTEST: Final = re.compile(r"\b(\d+) tests failed out of (\d+)")
_GO_PASS: Final = re.compile(r"^[ \t]*--- PASS:", re.MULTILINE)


def passed_count(output: str) -> int | None:
    """How many tests passed, where the output of a known runner says so."""
    if not any(mark in output for mark in _PASS_MARKS):
        return None
    text = _COLOUR.sub("", output[-_TAIL_CHARS:]) if "\x1b" in output else output[-_TAIL_CHARS:]
    for at, pattern in enumerate(_PASSED):
        found = pattern.findall(text)
        if found:
            return _bounded(sum(_bounded(int(number[:12])) for number in (found if at < _SUMMED else found[-1:])))
    for total, lost in _FAILURES:
        matches = list(total.finditer(text))
        if matches:
            rest = text[matches[-1].start() : matches[-1].start() + 400]
            failed = sum(_bounded(int(number[:12])) for number in lost.findall(rest))
            return max(0, _bounded(int(matches[-1].group(1)[:12])) - failed)
    ctest = _CTEST.search(text)
    if ctest is not None:
        return max(0, _bounded(int(ctest.group(2)[:12])) - _bounded(int(ctest.group(1)[:12])))
    return len(_GO_PASS.findall(text)) or None


def _bounded(number: int) -> int:
    return min(number, 10**9)


_FULL_ID: Final = re.compile(r"^(\[[^\]\n]{0,200} )?([0-9a-f]{64}|[0-9a-f]{40})(?(1)\][^\n]*|)$", re.MULTILINE)


def commit_digest(output: str, command: str) -> Digest | None:
    """The commit that was made, where the output shows one whole id; a short id is no digest."""
    is_asked_for = command.rfind("rev-parse") > command.rfind("commit")
    ids = {name for bracket, name in _FULL_ID.findall(output[-_TAIL_CHARS:]) if bracket or is_asked_for}
    if len(ids) != 1:
        return None
    value = bytes.fromhex(ids.pop())
    return Digest("git-sha1" if len(value) == 20 else "git-sha256", value)
