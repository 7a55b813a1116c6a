"""Rules of ``memory.reflection.reflect`` about commands: those that failed and passed, failed again, or run in every
session.

Commands are compared without the folders that they change into, redirections, and filters of their output. A command
whose output went through a pipe does not prove that it passed: the shell reported the end of the pipe. The failure of
a command that only looks around (``ls``, ``cat``, ``grep``, …) teaches nothing.
"""

from __future__ import annotations

__all__ = ["failures", "routines"]

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from periplus.base.named_tuple import NamedTuple
from periplus.memory.reflection.proposal import Act, Proposal, Seen, SessionActs

_ATTEMPTS_OF_A_TRAP: Final = 4
_SESSIONS_OF_A_ROUTINE: Final = 3
_ROUTINE_SHARE: Final = 0.3
_ROUTINES_OF_A_KIND: Final = 2
_LIKE_WITHIN: Final = 6  # commands between one that failed and one like it that passed
_LIKE_SHARE: Final = 0.6
_COMMAND_CHARACTERS_MAX: Final = 160
_ERROR_CHARACTERS_MAX: Final = 140
_LINE_CHARACTERS_MAX: Final = 2_000
_CUT_CHARACTERS: Final = 2_000  # errors of this length may have been cut
_PATHS_TOLD: Final = 3
_FAILURES_OF_A_SESSION: Final = 200  # the last ones: a session may be long, and fail throughout
_ENDS_LOOKED_FOR: Final = 20

_LOOKS: Final = frozenset(
    "ls cat cd echo grep egrep rg ag find fd head tail sed awk wc which type pwd test [ [[ stat file tree less more diff cmp sort "
    "printf true false sleep kill pkill ps env printenv export set source . cp mv rm mkdir touch chmod read jq xargs du df history "
    "command man date whoami open curl wget ping".split()
)
_GIT_LOOKS: Final = frozenset(
    "log show diff status branch grep blame rev-parse ls-files fetch checkout switch stash tag".split()
)
_PART: Final = re.compile(
    r"""('[^']*'|"(?:\\.|[^"\\])*"|\\.)|(&&|\|\||;|\n|\|&?)|(\d?>>?&?\s*[^\s|;&]+|&>\s*[^\s|;&]+)""", re.DOTALL
)
_ASSIGNMENT: Final = re.compile(r"^(?:[A-Za-z_]\w*=[^\s]*\s+)+")
_TELLS: Final = re.compile(
    r"^(?:--- FAIL:|FAIL\b|\u25cf|\u2715|\u2717|\u00d7|not ok\b)|\b(?:\w*error|exception|failed|failure|fatal|cannot|can't|could not|not found|no such|unknown|undefined|denied|refused|missing"
    r"|invalid|unrecognized|timed? ?out|no module|panic)\b", re.IGNORECASE,
)  # fmt: skip
# Summary lines: the number of failures, or only that there were some, of test runners, builders, npm.
_SUMS_UP: Final = re.compile(
    r"^\W*(?:\d+ (?:\w+ )?(?:failed|failures?|errors?|passed|problems?)\b|found \d+ (?:\w+ )?(?:errors?|problems?|issues?)\b|tests?:|test suites?:"
    r"|FAIL(?:ED)?(?:$| \(|\s+\S+\s+[\d.]+m?s)|(?:\S*make\S*:? )?\*\*\*|\S*make(?:\[\d+\])?: \*\*\*|npm (?:err!|error) (?:a complete log|lifecycle|code|errno|command|path)"
    r"|ELIFECYCLE|error: (?:could not compile|aborting due|script|process completed|recipe|command|task)|test result:|exit status|(?:\w+ )?exited with"
    r"|(?:no|0) (?:errors?|failures?)\b)|\b(?:0|no) (?:errors?|failed|failures?)\W*$|previous errors?\b|\b\d+ failed(?:,| in)|command failed with exit",
    re.IGNORECASE,
)
_FRAME: Final = re.compile(
    r'^(?:File ".*", line \d+|Traceback|at \S+ ?\(|\s*[~^]+\s*$|Exit code:? \d+|Command failed|Command:|Directory:)'
)
_VARIES: Final = re.compile(r"0x[0-9a-f]+|\b[0-9a-f]{7,64}\b|\d+|/(?:tmp|var|private)/\S+|\S*/(?=\S)", re.IGNORECASE)
_MISUSED: Final = re.compile(
    r"command not found|not recognized|No module named|[Nn]o such (?:option|command|file)|unrecognized|[Uu]nknown (?:option|command|argument)"
    r"|[Mm]issing script|[Uu]sage:|invalid option|not a git|Permission denied|cannot find|could not find|[Nn]o rule to make"
)  # fmt: skip
_NETWORK: Final = re.compile(  # no change of the project mends these
    r"[Cc]ould not (?:read (?:Username|Password)|resolve host)|[Tt]emporary failure in name resolution|Connection (?:refused|reset|timed out)|ENOTFOUND|ETIMEDOUT"
)
_SETS_UP: Final = re.compile(
    r"\b(?:install|sync|ci|bootstrap|setup|up|start|migrate|generate|codegen|init|login|submodule|configure|restore|download|tidy|venv"
    r"|build|compile|link|pull)\b"
)  # fmt: skip
_KINDS: Final = (
    ("lint", re.compile(r"\b(?:lint|ruff check|eslint|flake8|pylint|clippy|golangci-lint|rubocop|vet)\b")),
    ("check types", re.compile(r"\b(?:mypy|pyright|tsc|typecheck|type-check|pytype)\b")),
    ("format", re.compile(r"\b(?:fmt|format|prettier|black|gofmt|rustfmt)\b")),
    ("build", re.compile(r"\b(?:build|make|compile|bundle)\b")),
)
_FAMILIES: Final = frozenset(
    "python python3 node npx uv poetry pipenv bundle yarn npm pnpm bun run exec sudo -m".split()
)


class Piece(NamedTuple):
    """A command of a line: its text without redirections; ``is_piped`` where its output went into another."""

    text: str
    is_piped: bool


class _Failure(NamedTuple):
    key: str
    error_key: str
    told: str
    session: SessionActs
    act: Act
    at: int


class _Passed(NamedTuple):
    """The end of a failure: ``how`` is what was done, ``command`` the one that passed where it was another."""

    how: str
    command: str
    about: tuple[str, ...]
    act: Act
    attempts: int
    confidence: int


def pieces(command: str) -> list[Piece]:
    """Split a line of shell into commands, in order; of a pipe only its source."""
    found: list[Piece] = []
    text, at, feeds = "", 0, True
    for match in _PART.finditer(command):
        text += command[at : match.start()]
        at = match.end()
        quoted, mark = match.group(1), match.group(2)
        if quoted is not None:
            text += quoted
        elif mark is not None:
            is_pipe = mark in ("|", "|&")
            if feeds and text.strip():
                found.append(Piece(_plain(text), is_pipe))
            text, feeds = "", not is_pipe
    text += command[at:]
    if feeds and text.strip():
        found.append(Piece(_plain(text), False))
    return [
        piece for piece in found if piece.text and _program(piece.text) not in ("cd", "set", "export", "source", ".")
    ]


def failures(sessions: Sequence[SessionActs], beside: Sequence[SessionActs]) -> Iterator[Proposal]:
    """Yield the proposals of the rules ``failed-then-passed`` and ``failed-again``."""
    ours = {session.trail for session in sessions}
    same: dict[tuple[str, str], list[_Failure]] = {}
    for session in {one.trail: one for one in (*beside, *sessions)}.values():
        for failure in _failures_of(session):
            same.setdefault((failure.key, failure.error_key), []).append(failure)
    for subject, found in same.items():
        mine = [one for one in found if one.session.trail in ours]
        if not mine:
            continue
        trails = list(dict.fromkeys(one.session.trail for one in found))
        ended = next((end for one in found[: -_ENDS_LOOKED_FOR - 1 : -1] if (end := _ended(one, found))), None)
        if len(trails) > 1:
            yield _again(subject, mine, found, trails, ended)
        elif ended is not None and ended.confidence:
            yield _then_passed(subject, mine, ended)


def routines(sessions: Sequence[SessionActs], beside: Sequence[SessionActs]) -> Iterator[Proposal]:
    """Yield the proposal of the rule ``routine``: one for the project, of what most sessions run."""
    every = list({one.trail: one for one in (*beside, *sessions)}.values())
    runs: dict[str, dict[str, dict[str, Act]]] = {}
    for session in every:
        for act in session.acts:
            if act.kind not in ("command", "test") or act.outcome in ("denied", "cancelled"):
                continue
            for piece in pieces(act.text):
                kind = _routine_kind(piece.text, is_test=act.kind == "test")
                if kind and len(piece.text) <= _COMMAND_CHARACTERS_MAX:
                    runs.setdefault(kind, {}).setdefault(piece.text, {}).setdefault(session.trail, act)
    told: list[str] = []
    seen: list[Seen] = []
    subject: list[str] = []
    most = 0
    for kind in ("test", *(name for name, _ in _KINDS)):
        commands = runs.get(kind, {})
        active = len({trail for by in commands.values() for trail in by})
        usual = [
            (command, by) for command, by in commands.items()
            if len(by) >= max(_SESSIONS_OF_A_ROUTINE, _ROUTINE_SHARE * active) and any(a.outcome == "ok" for a in by.values())
        ]  # fmt: skip
        usual.sort(key=lambda pair: (-len(pair[1]), pair[0]))
        for command, by in usual[:_ROUTINES_OF_A_KIND]:
            most = max(most, len(by))
            trail, act = next(iter(reversed(by.items())))
            seen.append(Seen(trail, act.step, command))
        subject += [command for command, _ in usual[:1]]
        if usual:
            told.append(f"{kind} with {' and '.join(f'`{command}`' for command, _ in usual[:_ROUTINES_OF_A_KIND])}")
    ours = {session.trail for session in sessions}
    if told and any(trail in ours for kind in runs.values() for by in kind.values() for trail in by):
        yield Proposal(
            "routine", "lesson", ("routine", *subject[:2]), f"What sessions run here: {'; '.join(told)}.",
            f"{most} of {len(every)} sessions ran the most usual of them", tuple(seen), min(85, 50 + 5 * most),
        )  # fmt: skip


def _routine_kind(command: str, *, is_test: bool) -> str:
    program = _program(command)
    if program in _LOOKS or program == "git" or re.search(r"[$`(){}]|<<", command):
        return ""
    for kind, words in _KINDS:
        if words.search(command):
            return kind if not (is_test and kind == "build") else "test"
    return "test" if is_test else ""


def _failures_of(session: SessionActs) -> Iterator[_Failure]:
    left = _FAILURES_OF_A_SESSION
    found = []
    for at in range(len(session.acts) - 1, -1, -1):
        act = session.acts[at]
        if act.kind in ("command", "test") and act.outcome == "failed":
            key = _key(act.text)
            told = _telling_line(act.error)
            if key and told and left:
                left -= 1
                found.append(
                    _Failure(key, _VARIES.sub("#", told).lower()[:_ERROR_CHARACTERS_MAX], told, session, act, at)
                )
    return reversed(found)


@lru_cache(maxsize=1 << 12)
def _key(command: str) -> str:
    """Return what two runs of a command have in common; empty for a command that only looks around."""
    parts = [piece.text for piece in pieces(command) if not _only_looks(piece.text)]
    key = " && ".join(parts)
    return key if len(key) <= _COMMAND_CHARACTERS_MAX and "<<" not in key else ""


def _only_looks(command: str) -> bool:
    program = _program(command)
    words = command.split()
    return program in _LOOKS or (program == "git" and len(words) > 1 and words[1] in _GIT_LOOKS)


def _telling_line(error: str) -> str:
    """Return the line that says what is wrong: the first that pytest marks, else the last that names an error and is
    not a summary, else the last. A line at which a long error was cut does not count, unless it is the only one.
    """
    lines = [" ".join(line.split()) for line in error.replace("\\n", "\n").splitlines()]
    if len(error) >= _CUT_CHARACTERS and len(lines) > 1:
        del lines[-1]
    lines = [line for line in lines if line.strip("… ") and not _FRAME.match(line)]
    telling = [line for line in lines if _TELLS.search(line)]
    naming = [line for line in telling if not _SUMS_UP.search(line)]
    asserted = [line.removeprefix("E ") for line in lines if line.startswith("E ")]  # the mark of pytest
    return _in_words(asserted[0] if asserted else (naming or telling or lines or [""])[-1])


def _in_words(line: str) -> str:
    """Return whole words of a long line, among them those that name the error."""
    if len(line) <= _ERROR_CHARACTERS_MAX:
        return line
    room = _ERROR_CHARACTERS_MAX - len("… ") - len(" …")
    told = _TELLS.search(line[:_LINE_CHARACTERS_MAX])
    first = 0 if told is None or told.end() <= room else line.rfind(" ", 0, max(1, told.start() - room // 3)) + 1
    words: list[str] = []
    for word in line[first : first + _LINE_CHARACTERS_MAX].split(" "):
        if len(" ".join((*words, word))) > room:
            break
        words.append(word)
    if not words:  # a word longer than the whole limit: use the text behind it, or its beginning
        rest = line[first:].partition(" ")[2]
        return f"… {_in_words(rest)}" if rest else f"{line[first : first + room]} …"
    shown = " ".join(words)
    before, behind = "… " if first else "", " …" if first + len(shown) < len(line) else ""
    return f"{before}{shown}{behind}"


def _ended(failure: _Failure, found: Sequence[_Failure]) -> _Passed | None:
    """Return how the failure ended in its own session, if it did."""
    acts = failure.session.acts
    attempts = sum(one.session.trail == failure.session.trail and one.at <= failure.at for one in found)
    changed: dict[str, None] = {}
    ran: list[str] = []
    if _NETWORK.search(failure.act.error):
        return None
    for act in acts[failure.at + 1 :]:
        if act.kind == "change" and act.outcome == "ok":
            changed[act.text] = None
        elif act.kind in ("command", "test") and act.outcome == "ok":
            key = _key(act.text)
            if key == failure.key:
                piped = pieces(act.text)[-1].is_piped
                return None if piped else _by_what_was_done(failure, act, list(changed), ran, attempts)
            if _is_like(failure, key) and len(ran) < _LIKE_WITHIN and _MISUSED.search(failure.act.error):
                return _Passed(f"`{key}` works", key, (), act, attempts, 60)
            if key:
                ran.append(key)
    return None


def _by_what_was_done(failure: _Failure, act: Act, changed: list[str], ran: list[str], attempts: int) -> _Passed:
    set_up = [key for key in ran if _SETS_UP.search(key)]
    about = tuple(path for path in changed if not path.startswith("/"))
    if not changed and set_up:
        return _Passed(f"it passes after `{set_up[-1]}`", "", (), act, attempts, 65)
    if not changed:
        return _Passed("", "", (), act, attempts, 0)  # it passed when repeated: chance, until it recurs
    before = {one.text for one in failure.session.acts[: failure.at] if one.kind == "change"}
    others = [path for path in changed if path not in before]
    told = others or changed
    names = ", ".join(told[:_PATHS_TOLD]) + (f" and {len(told) - _PATHS_TOLD} more" if len(told) > _PATHS_TOLD else "")
    own = bool(before) and not others  # the session repaired what it had just broken
    confidence = 0 if own and attempts < _ATTEMPTS_OF_A_TRAP else 45 if not before else 35
    return _Passed(f"it passed once {names} had been changed", "", about, act, attempts, confidence)


def _is_like(failure: _Failure, key: str) -> bool:
    mine, theirs = _words(failure.key), _words(key)
    return bool(mine) and key != failure.key and len(mine & theirs) >= _LIKE_SHARE * max(len(mine), len(theirs), 1)


def _words(key: str) -> set[str]:
    words = [word.rsplit("/", 1)[-1] for word in key.split()]
    return {word for word in words if word not in _FAMILIES}


def _again(
    subject: tuple[str, str], mine: list[_Failure], found: list[_Failure], trails: list[str], ended: _Passed | None
) -> Proposal:
    last = mine[-1]
    seen = [Seen(last.session.trail, last.act.step, last.told)]
    seen += [Seen(one.session.trail, one.act.step, one.told) for one in reversed(found) if one is not last]
    return Proposal(
        "failed-again", "trap", ("failure", *subject), f'`{last.key}` fails with "{last.told}".',
        f"it failed so {len(found)} times in {len(trails)} sessions", tuple(seen), min(90, 50 + 10 * len(trails)),
        ended.about if ended else (), _sentence(ended.how) if ended else "",
    )  # fmt: skip


def _then_passed(subject: tuple[str, str], mine: list[_Failure], ended: _Passed) -> Proposal:
    last = mine[-1]
    seen = [Seen(one.session.trail, one.act.step, one.told) for one in mine[-3:]]
    seen.append(Seen(last.session.trail, ended.act.step, ended.command or last.key))
    is_trap = ended.attempts >= _ATTEMPTS_OF_A_TRAP
    times = f"it failed {ended.attempts} times" if ended.attempts > 1 else "it failed"
    told = f'`{last.key}` fails with "{last.told}"'
    text = f"{told}." if is_trap else f"{told}; {ended.how}."
    return Proposal(
        "failed-then-passed", "trap" if is_trap else "lesson", ("failure", *subject), text,
        f"{times} and passed later in the same session", tuple(seen),
        min(80, ended.confidence + 5 * (ended.attempts - 1) + (10 if is_trap else 0)), ended.about,
        _sentence(ended.how),
    )  # fmt: skip


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _plain(text: str) -> str:
    return " ".join(_ASSIGNMENT.sub("", text.strip()).split()).rstrip("&").strip()


def _program(command: str) -> str:
    words = command.split()
    return words[0].rsplit("/", 1)[-1] if words else ""
