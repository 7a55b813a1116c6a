"""Actions of a shell command by its text: tests, commits, pushes and searches have steps of their own.

The text is split like a shell would, without expansion and aliases. An unknown command stays a command; a known one
keeps its raw text in the note of its step.
"""

from __future__ import annotations

__all__ = [
    "COMMAND_CHARS_MAX",
    "Action",
    "commit_digest",
    "git_ending",
    "passed_count",
    "recognise",
    "runner_ending",
    "unreached_error",
]

import re
from typing import Final, Literal, NamedTuple

from periplus.interop.shell_commands.test_runners import OUTPUT_CHARS_MAX, is_test, passed_count, runner_ending
from periplus.trail.model import Digest, Outcome
from periplus.trail.shell_words import (
    HELD,
    SURE,
    Segment,
    extract_heredocs,
    flattened,
    program_of,
    split_segments,
)

COMMAND_CHARS_MAX: Final = 64 << 10
SEARCHES_MAX: Final = 16
ACTIONS_MAX: Final = 16

ActionKind = Literal["test", "commit", "push", "search"]


class Action(NamedTuple):
    """``what`` is the command of the tests, the message of the commit, the remote pushed to or the pattern searched
    for; ``where`` the path searched or the folder of ``git -C``. In a successful command a hidden action may have
    failed, and an optional one may not have run; ``rivals`` counts other parts that may be the cause of a failure.
    """

    kind: ActionKind
    what: str
    where: str | None = None
    is_hidden: bool = False
    is_optional: bool = False
    rivals: int = 0


_WORTH_READING: Final = re.compile(
    r"test|spec|unit|check|commit|push|grep|find|verify|\b(?:rg|ag|ack|fd|fdfind|ugrep|jest|mocha|tox|nox|bats|karma|cypress"
    r"|jasmine|busted|behave|cucumber|prove|pest|ava|trial|ward|ginkgo|stestr|behat|codecept|robot|slash|green|tarpaulin"
    r"|llvm-cov|tst|(?:npm|pnpm|cargo) t)\b"
)
_KEYWORD: Final = re.compile(r"^(?:(?:then|do|else|elif|if|while|until|!|\{)\s+)+")
_SEARCHERS: Final = frozenset({"grep", "egrep", "fgrep", "rg", "ag", "ack", "ugrep", "zgrep", "ripgrep"})
_VALUED: Final = frozenset({
    "-A", "-B", "-C", "-m", "-g", "-t", "-T", "-d", "-D", "-M", "-j", "--glob", "--iglob", "--type", "--type-not",
    "--max-count", "--context", "--after-context", "--before-context", "--max-depth", "--include", "--exclude",
    "--exclude-dir", "--color", "--sort", "--sortr", "--encoding", "--max-columns", "--threads", "--ignore", "--ignore-dir",
})  # fmt: skip
_FINDERS: Final = frozenset({"fd", "fdfind"})
_FINDER_VALUED: Final = frozenset({
    "-e", "-t", "-d", "-E", "-x", "-X", "-c", "-S", "-o", "-j", "--extension", "--type", "--max-depth", "--min-depth",
    "--exclude", "--size", "--changed-within", "--changed-before",
})  # fmt: skip
_FIND_NAMES: Final = frozenset({"-name", "-iname", "-path", "-ipath", "-regex", "-iregex", "-wholename", "-iwholename"})
_FIND_CHANGES: Final = frozenset({"-delete", "-ok", "-okdir", "-fprint", "-fprintf", "-fls"})
_FIND_RUNS: Final = frozenset({"-exec", "-execdir"})
_FILTERS: Final = frozenset({
    "head", "tail", "sort", "uniq", "wc", "cut", "sed", "awk", "grep", "egrep", "fgrep", "rg", "cat", "less", "tr", "nl",
    "column", "true", "echo", "tac", "basename", "dirname", "jq", "printf", "ls", ":", "exit",
})  # fmt: skip
_MOVERS: Final = frozenset({"cd", "pushd", "popd", "set", "export", "pwd", "source", "."})
_GIT_VALUED: Final = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env"})
_GIT_HELP: Final = frozenset({"--dry-run", "--help", "-h"})


def recognise(command: str) -> list[Action]:
    """Return the actions of ``command`` that have steps of their own, in order; empty for other commands."""
    if len(command) > COMMAND_CHARS_MAX or _WORTH_READING.search(command) is None:
        return []
    text, bodies = extract_heredocs(command) if "<<" in command else (command, [])
    segments = flattened(split_segments(text))
    found: list[Action] = []
    deciding: list[tuple[str, str]] = []  # possible causes of a failure: actions, and placeholders for other parts
    for segment in segments:
        words = program_of(segment.words)
        if not words:
            continue
        action = _test(words) or _git(words, bodies)
        if action is not None and action.kind == "test":
            action = action._replace(what=_KEYWORD.sub("", segment.text))
        if not segment.is_hidden and words[0].rsplit("/", 1)[-1] not in SURE:
            deciding.append(_identity(action) if action is not None else ("", ""))
        if (
            action is not None
            and len(found) < ACTIONS_MAX
            and all(_identity(action) != _identity(other) for other in found)
        ):
            found.append(action._replace(is_hidden=segment.is_hidden, is_optional=segment.is_optional))
    if not found:
        return _searches(segments)
    others, own = deciding.count(("", "")), {*deciding} - {("", "")}
    return [action._replace(rivals=others + len(own - {_identity(action)})) for action in found]


def _identity(action: Action) -> tuple[str, str]:
    """Return the key of an action: each run of other tests is a step, of the other kinds only the first."""
    return action.kind, action.what if action.kind == "test" else ""


def _test(words: list[str]) -> Action | None:
    return Action("test", "") if is_test(words) else None


def _git(words: list[str], bodies: list[str]) -> Action | None:
    folder, verb, arguments = _git_verb(words)
    if _GIT_HELP.intersection(arguments):
        return None
    if verb == "commit":
        return Action("commit", _message(arguments, bodies), folder)
    if verb == "push" and "-n" not in arguments:
        remote = next((word for word in arguments if not word.startswith("-")), "")
        return Action("push", remote, folder)
    return None


def _git_verb(words: list[str]) -> tuple[str | None, str, list[str]]:
    """Return the folder, the verb and its arguments; no verb for other programs than git."""
    if words[0].rsplit("/", 1)[-1] != "git":
        return None, "", []
    folder = None
    at = 1
    while at < len(words) and words[at].startswith("-"):
        if words[at] == "-C" and at + 1 < len(words):
            folder = words[at + 1]
        at += 2 if words[at] in _GIT_VALUED else 1
    return folder, words[at] if at < len(words) else "", words[at + 1 :]


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
    """Replace a message written as ``$(cat <<EOF …)`` by its here-document."""
    start = text.find(HELD)
    if start < 0:
        return text
    number = text[start + 1 : text.find(HELD, start + 1)]
    return bodies[int(number)] if number.isdigit() and int(number) < len(bodies) else text.replace(HELD, "")


# ---- searches


def _searches(segments: list[Segment]) -> list[Action]:
    """Detect a command that only changes the folder, searches, and filters the result."""
    found: list[Action] = []
    for segment in segments:
        words = program_of(segment.words)
        program = words[0].rsplit("/", 1)[-1] if words else ""
        if not words or (program in _MOVERS and not segment.is_piped):
            continue
        action = _narrowed(words, found[-1]) if segment.is_piped and found else _search(words)
        if action is not None:
            if segment.is_piped and found:
                found[-1] = action
            elif len(found) < SEARCHES_MAX and action not in found:
                found.append(action)
        elif program not in _FILTERS or not found:
            return []
        if segment.is_piped or action is found[-1]:  # a search is its whole pipe, which ends like its last part
            found[-1] = found[-1]._replace(is_hidden=segment.is_hidden, is_optional=segment.is_optional)
    rivals = sum(not action.is_hidden for action in found) - 1
    return [action._replace(rivals=max(0, rivals)) for action in found]


def _search(words: list[str]) -> Action | None:
    return _find(words[1:]) if words[0].rsplit("/", 1)[-1] == "find" else _search_in_files(words)


def _search_in_files(words: list[str]) -> Action | None:
    program = words[0].rsplit("/", 1)[-1] if words else ""
    folder = None
    if program == "git":
        folder, verb, arguments = _git_verb(words)
        if verb != "grep":
            return None
    elif program in _SEARCHERS:
        arguments = words[1:]
    elif program in _FINDERS:
        pattern, paths = _pattern(words[1:], _FINDER_VALUED)
        is_run = not {"-x", "-X", "--exec", "--exec-batch"}.isdisjoint(words)
        return Action("search", pattern, paths[0] if paths else None) if pattern and not is_run else None
    else:
        return None
    pattern, paths = _pattern(arguments, _VALUED)
    return Action("search", pattern, paths[0] if paths else folder) if pattern is not None else None


def _narrowed(words: list[str], found: Action) -> Action | None:
    """Recognise ``find … | xargs grep PATTERN``: a search for the pattern in the folder of ``find``."""
    if words[0].rsplit("/", 1)[-1] != "xargs":
        return None
    at = 1
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in ("-n", "-I", "-P", "-L", "-d", "-s", "-E") else 1
    inner = _search_in_files(words[at:])
    return inner._replace(where=found.where) if inner is not None else None


def _find(arguments: list[str]) -> Action | None:
    """Recognise ``find`` by name. It is a plain command if it changes files, or runs anything but a search on them."""
    where = arguments[0] if arguments and not arguments[0].startswith(("-", "(", "!", ",")) else None
    pattern: str | None = None
    at = 0
    while at < len(arguments):
        word = arguments[at]
        if word in _FIND_CHANGES:
            return None
        if word in _FIND_RUNS:
            inner = _search_in_files(arguments[at + 1 :])
            return Action("search", inner.what, where) if inner is not None else None
        if word in _FIND_NAMES and at + 1 < len(arguments):
            is_excluded = arguments[at - 1] in ("!", "-not") if at else False
            if pattern is None and not is_excluded:
                pattern = arguments[at + 1]
            at += 1
        at += 1
    return Action("search", pattern, where) if pattern is not None else None


def _pattern(arguments: list[str], valued: frozenset[str]) -> tuple[str | None, list[str]]:
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
        elif word in ("-e", "--regexp") and "-e" not in valued and at < len(arguments):
            pattern = arguments[at] if pattern is None else pattern
            at += 1
        elif word.startswith("--regexp="):
            pattern = word.partition("=")[2]
        elif word in valued and at < len(arguments):
            at += 1
    return pattern, paths


_FULL_ID: Final = re.compile(r"^(\[[^\]\n]{0,200} )?([0-9a-f]{64}|[0-9a-f]{40})(?(1)\][^\n]*|)$", re.MULTILINE)
_SHOWS_AN_ID: Final = ("rev-parse", "%H")


_COMMITTED: Final = re.compile(r"^\[[^\]\n]{1,200} [0-9a-f]{7,64}\]|^ ?\d{1,9} files? changed\b", re.MULTILINE)
_PUSHED: Final = re.compile(r"^[ *+=-]? ?.{0,200} -> \S|^Everything up-to-date", re.MULTILINE)
_GIT_FAILED: Final = re.compile(
    r"^(?:fatal: |error: | ! \[(?:remote )?rejected\]|nothing to commit|no changes added to commit|Aborting commit)[^\n]{0,200}",
    re.MULTILINE,
)


_NOT_REACHED: Final = re.compile(
    r"^(?:[^\s:]{1,80}: )?(?:line )?(?:\d{1,9}: )?(?:zsh:)?(?:cd|pushd)(?::\d{1,9})?: [^\n]{0,200}", re.MULTILINE
)


def unreached_error(output: str) -> str | None:
    """Return the line that reports that a command did not enter its folder, and so did not continue."""
    found = _NOT_REACHED.search(output[-OUTPUT_CHARS_MAX:])
    return found.group().strip() if found is not None else None


def git_ending(kind: str, output: str) -> tuple[Outcome, str | None]:
    """Return the outcome of a commit or push from git's output, where a pipe or a later part hides the exit code."""
    text = output[-OUTPUT_CHARS_MAX:]
    failure = _GIT_FAILED.search(text)
    if kind == "commit" and _COMMITTED.search(text):
        return "ok", None  # a later status may report that there is nothing to commit
    if failure is not None:
        return "failed", failure.group().strip()
    return "ok" if kind == "push" and _PUSHED.search(text) else "unknown", None


def commit_digest(output: str, command: str) -> Digest | None:
    """Return the commit that was made, if the output shows exactly one full id; a short id is no digest."""
    is_asked_for = any(command.rfind(word) > command.rfind("commit") for word in _SHOWS_AN_ID)
    ids = {name for bracket, name in _FULL_ID.findall(output[-OUTPUT_CHARS_MAX:]) if bracket or is_asked_for}
    if len(ids) != 1:
        return None
    value = bytes.fromhex(ids.pop())
    return Digest("git-sha1" if len(value) == 20 else "git-sha256", value)
