"""Secrets in text: known key shapes, credentials in URLs, and random values beside words such as ``password``.

Theory of operation
-------------------
Every rule begins at a literal that its secrets cannot do without (``ghp_``, ``://``, ``token``); it is looked for with
``str.find``, which costs next to nothing where it is absent, and only where it stands a regular expression is matched
at that very place. No expression is ever searched with. Their repetitions are possessive or bounded by a small number,
and a rule goes on behind what it has looked at, so that the time is linear in the text whatever the text is.

A key shape is a secret wherever it stands, unless it is a stand-in for one (``xxxx``, ``your-key``). A value beside a
key word is one only if it looks drawn at random: ``max_tokens=4096``, ``token = tokenizer.encode(x)`` and
``api_key=os.environ["X"]`` are code and stay as they are. Digests, UUIDs and base64 without a key word are none.
"""

from __future__ import annotations

__all__ = ["Secret", "find_secrets", "mask_secrets", "may_hold_secret"]

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from periplus.base.speed import IS_NATIVE, needle_plan, needles_in
from periplus.base.tuples import NamedTuple


class Secret(NamedTuple):
    """Where a secret stands: characters ``start`` to ``end`` (exclusive) of the text."""

    kind: str
    start: int
    end: int


class _Shape(NamedTuple):
    kind: str
    pattern: str  # matched where the trigger stands; group 1, where there is one, is the secret


# Not in the middle of a word; the n of a "\n" that was escaped once more is no part of one.
_EDGE: Final = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
_URL_SAFE_EDGE: Final = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt]))"

_SHAPES: Final = {
    "AKIA": _Shape("aws_key", _EDGE + r"AKIA[A-Z0-9]{16}(?![A-Za-z0-9])"),
    "ASIA": _Shape("aws_key", _EDGE + r"ASIA[A-Z0-9]{16}(?![A-Za-z0-9])"),
    "ghp_": _Shape("github_token", _EDGE + r"ghp_[A-Za-z0-9]{20,}+"),
    "gho_": _Shape("github_token", _EDGE + r"gho_[A-Za-z0-9]{20,}+"),
    "ghs_": _Shape("github_token", _EDGE + r"ghs_[A-Za-z0-9]{20,}+"),
    "ghu_": _Shape("github_token", _EDGE + r"ghu_[A-Za-z0-9]{20,}+"),
    "ghr_": _Shape("github_token", _EDGE + r"ghr_[A-Za-z0-9]{20,}+"),
    "github_pat_": _Shape("github_token", _EDGE + r"github_pat_[A-Za-z0-9_]{22,}+"),
    "glpat-": _Shape("gitlab_token", _EDGE + r"glpat-[A-Za-z0-9_-]{20,}+"),
    "sk-ant-": _Shape("anthropic_key", _EDGE + r"sk-ant-[A-Za-z0-9_-]{16,}+"),
    "sk-": _Shape("openai_key", _EDGE + r"sk-(?:(?:proj|svcacct|admin|or-v1)-[A-Za-z0-9_-]{16,}+|[A-Za-z0-9]{20,}+)"),
    "xox": _Shape("slack_token", _EDGE + r"xox[abeoprs]-[A-Za-z0-9-]{10,}+"),
    "sk_live_": _Shape("stripe_key", _EDGE + r"sk_live_[A-Za-z0-9]{16,}+"),
    "rk_live_": _Shape("stripe_key", _EDGE + r"rk_live_[A-Za-z0-9]{16,}+"),
    "npm_": _Shape("npm_token", _EDGE + r"npm_[A-Za-z0-9]{30,}+"),
    "pypi-": _Shape("pypi_token", _EDGE + r"pypi-[A-Za-z0-9_-]{32,}+"),
    "hf_": _Shape("huggingface_token", _EDGE + r"hf_[A-Za-z0-9]{30,}+"),
    "gsk_": _Shape("groq_key", _EDGE + r"gsk_[A-Za-z0-9]{40,}+"),
    "shpat_": _Shape("shopify_token", _EDGE + r"shpat_[a-fA-F0-9]{32}(?![A-Za-z0-9])"),
    "dckr_pat_": _Shape("docker_token", _EDGE + r"dckr_pat_[A-Za-z0-9_-]{20,}+"),
    "dop_v1_": _Shape("digitalocean_token", _EDGE + r"dop_v1_[a-f0-9]{64}(?![A-Za-z0-9])"),
    "hvs.": _Shape("vault_token", _EDGE + r"hvs\.[A-Za-z0-9_-]{24,}+"),
    "SG.": _Shape("sendgrid_key", _EDGE + r"SG\.[A-Za-z0-9_-]{16,}+\.[A-Za-z0-9_-]{16,}+"),
    "ya29.": _Shape("google_token", _EDGE + r"ya29\.[A-Za-z0-9_-]{20,}+"),
    "slack.com/ser": _Shape("slack_webhook", r"slack\.com/services/(T[A-Z0-9]{6,}+/B[A-Z0-9]{6,}+/[A-Za-z0-9]{16,}+)"),
    "AIza": _Shape("google_key", _EDGE + r"AIza[A-Za-z0-9_-]{32,}+"),
    "eyJ": _Shape(
        "jwt",
        _URL_SAFE_EDGE + r"eyJ[A-Za-z0-9_-]{8,}+\.eyJ[A-Za-z0-9_-]{4,}+\.[A-Za-z0-9_-]{10,}+",
    ),
    "://": _Shape(
        "url_password",
        r"""(?<=[A-Za-z0-9])://[^\s:/@"'`<>\\?#]{0,128}+:([^\s/"'`<>\\?#]{1,256})@(?=[\w\[{$])""",
    ),
}
_UNDERSCORED: Final = ("hf_", "gsk_", "shpat_", "dckr_pat_", "dop_v1_")
# What stands in several triggers is looked for once; a test holds that each trigger is looked for.
_SHARED_TRIGGERS: Final = (
    ("_", ("ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_", "npm_", "sk_live_", "rk_live_", *_UNDERSCORED)),
    ("sk-", ("sk-ant-", "sk-")),
)
_LONELY_TRIGGERS: Final = (
    "AKIA",
    "ASIA",
    "glpat-",
    "xox",
    "pypi-",
    "hvs.",
    "SG.",
    "ya29.",
    "slack.com/ser",
    "AIza",
    "eyJ",
    "://",
)
_TRIGGER_ORDER: Final = {trigger: place for place, trigger in enumerate(_SHAPES)}
_KEBAB_KINDS: Final = frozenset({"anthropic_key", "openai_key", "slack_token", "gitlab_token", "pypi_token"})

# A group that is repeated is an atomic group and bounded: each repetition is kept in memory until the group's end.
_PEM_BODY: Final = r"[A-Za-z0-9+/=\s\\:,.\"']*+"
_PEM: Final = (
    r"-----BEGIN [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)?-----"
    rf"({_PEM_BODY}(?>(?:-(?!-){_PEM_BODY}){{0,1000}}))"
    r"(?>(-----END [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)?-----)?)"
)
_PEM_CUT_OFF: Final = r"(?>(?:(?>(?:\s++|\\[nrt]){0,1000})[A-Za-z0-9+/=]{16,}+){1,10000})"
_BEARER: Final = r"bearer\s{1,8}+([A-Za-z0-9._~+/-]{20,}+={0,2}+)"


class _Command(NamedTuple):
    """A command that takes a secret as a word: behind one of ``flags``, or ``joined`` to the letter of one."""

    kind: str
    before: str  # what may stand between the last blank and the trigger, matched backwards: "sudo /usr/bin/"
    flags: frozenset[str]
    joined: str = ""  # "-p" of mysql, whose password follows at once
    is_pair: bool = False  # name:password, of which the password is the secret
    has_kin: bool = False  # mysqldump, mariadb-admin


_COMMANDS: Final = {
    "curl": _Command("password", "", frozenset({"-u", "--user", "-U", "--proxy-user"}), is_pair=True),
    "mysql": _Command("password", "", frozenset(), joined="-p", has_kin=True),
    "mariadb": _Command("password", "", frozenset(), joined="-p", has_kin=True),
    "sshpass": _Command("password", "", frozenset({"-p"}), joined="-p"),
    "redis-cli": _Command("password", "", frozenset({"-a", "--pass"})),
    " login": _Command("password", "docker podman nerdctl buildah skopeo registry", frozenset({"-p", "--password"})),
}


class _Word(NamedTuple):
    kind: str
    pattern: str  # the whole key word, to its end; matched in lower case


_WORDS: Final = {
    "passw": _Word("password", r"passw(?:or)?d\d{0,2}+(?![a-z0-9_])"),
    "passphrase": _Word("password", r"passphrase(?![a-z0-9_])"),
    "_pass": _Word("password", r"_pass(?![a-z0-9_])"),  # DB_PASS, SMTP_PASS
    "pwd": _Word("password", r"pwd(?![a-z0-9_])"),
    "secret": _Word("secret", r"secret(?>(?:_?value)?)(?![a-z0-9_])"),
    "token": _Word("token", r"token(?>(?:_?value)?)(?![a-z0-9_])"),
    "key": _Word("key", r"key(?>(?:_?base64)?)(?![a-z0-9_])"),
    "auth": _Word("auth", r"auth(?>(?:orization)?)(?![a-z0-9_])"),
    "credential": _Word("credential", r"credentials?+(?![a-z0-9_])"),
}
_KEY_OWNERS: Final = (
    "api",
    "access",
    "account",
    "auth",
    "client",
    "encryption",
    "master",
    "private",
    "secret",
    "service",
)
_KEY_BEFORE: Final = tuple(
    owner + between for owner in (*_KEY_OWNERS, "shared", "signing", "storage", "webhook") for between in ("", "_", "-")
)
_PEM_START: Final = "-----BEGIN "
_BEARER_WORD: Final = "bearer"
_FOLDED_NEEDLES: Final = (_BEARER_WORD, *_WORDS)  # in either case, the others as they stand
_NEEDLES: Final = (*_SHAPES, *_COMMANDS, _PEM_START, *_FOLDED_NEEDLES)
_PLAN: Final = needle_plan((*_SHAPES, *_COMMANDS, _PEM_START), _FOLDED_NEEDLES) if IS_NATIVE else None
_LENIENT_KINDS: Final = frozenset({"password", "secret"})

# From the end of a key word to the value: a closing quote or bracket, then = or : or => (with a type between).
_ASSIGNED: Final = (
    r"""(?>(?:\\{0,4}+["'`])?)\]?+[ \t]{0,8}+"""
    r"""(?::[ \t]{0,4}+[A-Za-z][\w.\[\]| ]{0,40}+=(?=[ \t]{0,8}+[^\s=,;])|:=|=>|={1,3}+|:)[ \t]{0,8}+"""
)
_VALUE: Final = (
    r"""(?>(?:[bfru]{1,2}(?=["']))?)(?>(\\{0,4}+["'`])?)(?>(?:(?:[Bb]asic|[Bb]earer|[Tt]oken) {1,4}+)?)"""
    r"""(?:(?(1)([^\s"'`\\]{8,4096}+)(?=\\{0,4}+["'`])|([A-Za-z0-9+/_.~!@#$%^*-]{8,4096}+={0,2}+)(?![\w(\[{<>=])))"""
)
_CHARS_MIN: Final = 9  # the shortest URL with a password
_AFTER_WORD: Final = frozenset("\"'`\\] \t:=")

_STAND_INS: Final = (
    "your",
    "xxxx",
    "****",
    "...",
    "…",
    "placeholder",
    "changeme",
    "change-me",
    "change_me",
    "redacted",
    "masked",
    "replace",
    "insert",
    "dummy",
)


def find_secrets(text: str) -> list[Secret]:
    """The secrets in ``text``, in order and apart from each other."""
    found: list[Secret] = []
    if len(text) < _CHARS_MIN:
        return found
    present = _needles_in(text)
    if not present:
        return found
    lower = ""
    for needle in present:
        if needle in _SHAPES:
            _find_shape(text, needle, found)
        elif needle in _COMMANDS:
            _find_in_commands(text, needle, found)
        elif needle == _PEM_START:
            _find_private_keys(text, found)
        else:
            lower = lower or _lower(text)
            if needle == _BEARER_WORD:
                _find_bearers(text, lower, found)
            else:
                _find_assigned(text, lower, needle, found)
    return _apart(found) if len(found) > 1 else found


def may_hold_secret(text: str) -> bool:
    """Whether anything stands in ``text`` that a secret begins at: of several texts joined it says so of them all."""
    return bool(_needles_in(text))


def _needles_in(text: str) -> list[str]:
    """What stands in the text of all that a secret begins at, in the order of the rules."""
    if _PLAN is not None:
        bits = needles_in(_PLAN, text)
        return [needle for number, needle in enumerate(_NEEDLES) if bits >> number & 1] if bits else []
    present = _triggers_in(text)
    present += [command for command in _COMMANDS if command in text]
    if _PEM_START in text:
        present.append(_PEM_START)
    lower = _lower(text)
    present += [word for word in _FOLDED_NEEDLES if word in lower]
    return present


def _triggers_in(text: str) -> list[str]:
    """The triggers of shapes that stand in the text, in the order of the table.

    For the plain form. Nearly every text has none, and to know that is most of the work: triggers with a part in common
    are looked for by it, and that part first which is found, or not, in the fewest steps.
    """
    present = [trigger for trigger in _LONELY_TRIGGERS if trigger in text]
    for shared, triggers in _SHARED_TRIGGERS:
        if shared in text:
            present += [trigger for trigger in triggers if trigger in text]
    return sorted(present, key=_TRIGGER_ORDER.__getitem__) if len(present) > 1 else present


def mask_secrets(text: str) -> tuple[str, int]:
    """``text`` with ``[masked:<kind>]`` in place of each secret, and how many there were."""
    found = find_secrets(text)
    if not found:
        return text, 0
    parts = []
    at = 0
    for secret in found:
        parts += [text[at : secret.start], f"[masked:{secret.kind}]"]
        at = secret.end
    parts.append(text[at:])
    return "".join(parts), len(found)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)  # at first use: most runs of the program meet no secret


def _lower(text: str) -> str:
    """``text`` with its ASCII letters in lower case and every character where it was."""
    if text.isascii():
        return text.lower()
    return text.encode("latin-1", "replace").lower().decode("latin-1")  # ten times faster than str.lower here


def _apart(found: list[Secret]) -> list[Secret]:
    """In order of place; those that overlap become one, of the kind that was found first."""
    rank = {secret: place for place, secret in reversed(list(enumerate(found)))}
    merged: list[Secret] = []
    for secret in sorted(found, key=lambda secret: secret.start):
        if merged and secret.start < merged[-1].end:
            last = merged.pop()
            union = Secret(min(last, secret, key=rank.__getitem__).kind, last.start, max(last.end, secret.end))
            rank.setdefault(union, min(rank[last], rank[secret]))
            secret = union  # noqa: PLW2901 - the two are one from here on
        merged.append(secret)
    return merged


# ---- shapes


def _find_shape(text: str, trigger: str, found: list[Secret]) -> None:
    kind, source = _SHAPES[trigger]
    pattern = _compiled(source)
    at = text.find(trigger)
    while at >= 0:
        match = pattern.match(text, at)
        if match is None:
            at = text.find(trigger, at + len(trigger))
            continue
        start, end = match.span(match.lastindex or 0)
        if _is_real(text[start:end], kind, trigger):
            found.append(Secret(kind, start, end))
        at = text.find(trigger, match.end())


def _is_real(secret: str, kind: str, trigger: str) -> bool:
    if kind == "url_password":
        return not _is_stand_in(secret)
    body = secret.removeprefix(trigger)
    if len(set(body)) == 1 and body[0] in "xX0":
        return False
    lower = body.lower()
    if any(word in lower for word in _STAND_INS):
        return False
    if kind not in _KEBAB_KINDS or any(len(run) >= 20 or (run.isdigit() and len(run) >= 10) for run in _runs(body)):
        return True
    # Words in kebab case are names of things: sk-ant-in-the-docs, pypi-publish-on-every-tag.
    return any(map(str.isdigit, body)) and _pieces_length(body) <= 2.5


def _find_private_keys(text: str, found: list[Secret]) -> None:
    at = text.find(_PEM_START)
    while at >= 0:
        match = _compiled(_PEM).match(text, at)
        if match is None:
            at = text.find(_PEM_START, at + 5)
            continue
        if match.group(2):
            if _compiled(r"[A-Za-z0-9+/]{16}").search(match.group(1)):
                found.append(Secret("private_key", at, match.end()))
        elif rest := _compiled(_PEM_CUT_OFF).match(text, match.start(1), match.end(1)):
            found.append(Secret("private_key", at, rest.end()))
        at = text.find(_PEM_START, match.end())


def _find_bearers(text: str, lower: str, found: list[Secret]) -> None:
    pattern = _compiled(_BEARER)
    at = lower.find("bearer")
    while at >= 0:
        match = pattern.match(lower, at)
        if match is not None:
            start, end = match.span(1)
            if _is_random(text[start:end]) and not _is_stand_in(text[start:end]):
                found.append(Secret("bearer_token", start, end))
        at = lower.find("bearer", at + 6 if match is None else match.end())


# ---- words of commands

_COMMAND_CHARACTERS_MAX: Final = 2_000
_COMMAND_END: Final = r"""(?>(?:[^\n|;&"'\\]|\\(?:.|\n)|"(?>(?:[^"\n\\]|\\.){0,1000})"?|'[^'\n]{0,1000}+'?)*)"""
_COMMAND_WORD: Final = r"""(?>(?:[^\s"'\\]|\\.|"(?>(?:[^"\n\\]|\\.)*)"?|'[^'\n]*+'?)+)"""
_NOT_JOINED: Final = frozenset({"rint", "rint0", "rune", "ath", "erm", "arents", "ort", "ipe", "rotocol", "assword"})
_NO_PASSWORDS: Final = frozenset(
    {"pass", "password", "passwd", "pwd", "secret", "token", "pw", "x-oauth-basic", "x-oauth-token", ""}
)


def _find_in_commands(text: str, trigger: str, found: list[Secret]) -> None:
    command = _COMMANDS[trigger]
    at = text.find(trigger)
    while at >= 0:
        behind = at + len(trigger)
        if (command.has_kin or not text[behind : behind + 1].isalnum()) and _is_command(text, at, command):
            line = _compiled(_COMMAND_END).match(text, behind, behind + _COMMAND_CHARACTERS_MAX)
            end = line.end() if line is not None else behind
            found += _said_in_command(text, behind, end, command)
            behind = max(behind, end)
        at = text.find(trigger, behind)


def _is_command(text: str, at: int, command: _Command) -> bool:
    """Whether a word begins at ``at``, or a path ends in it; and of a subcommand, that its program stands before it."""
    if command.before:
        program = text[max(0, at - 20) : at].split()[-1:]
        return bool(program) and program[0].rpartition("/")[2].strip("`$('\"") in command.before.split()
    before = text[at - 1] if at else " "
    return not (before.isalnum() or before in "_-.@:") and text[max(0, at - 6) : at].strip() not in ("-name", "-iname")


def _said_in_command(text: str, start: int, end: int, command: _Command) -> Iterator[Secret]:
    awaits = False
    at = start
    while at < end:
        word = _compiled(_COMMAND_WORD).match(text, at, end)
        if word is None:
            at += 1
            continue
        begin, at = word.span()
        if awaits:
            awaits = False
            yield from _password_in(text, begin, at, command)
            continue
        said = word.group()
        flag, equals, _ = said.partition("=")
        short = f"-{said[-1]}"
        if said in command.flags or (
            said[:1] == "-" != said[1:2] and said[1:].isalpha() and short in command.flags and len(said) < 8
        ):
            awaits = True
        elif equals and flag in command.flags:
            yield from _password_in(text, begin + len(flag) + 1, at, command)
        elif command.is_pair and said[:2] in command.flags:
            yield from _password_in(text, begin + 2, at, command)
        elif command.joined and said.startswith(command.joined) and said[2:] not in _NOT_JOINED:
            is_port = _compiled(r"[0-9.:/]*+").fullmatch(said, 2) is not None
            yield from () if is_port else _password_in(text, begin + 2, at, command)


def _password_in(text: str, begin: int, end: int, command: _Command) -> Iterator[Secret]:
    """The secret of a word: without its quotes, and of a pair what stands behind the name."""
    if end - begin >= 2 and text[begin] in "\"'" and text[end - 1] == text[begin]:
        begin, end = begin + 1, end - 1
    else:
        end = begin + len(text[begin:end].rstrip("`),.;\"'\\"))
    if command.is_pair:
        colon = text.find(":", begin, end)
        if colon < 0 or text[begin:colon].startswith("-"):
            return
        begin = colon + 1
    said = text[begin:end]
    if said.lower() in _NO_PASSWORDS or said.startswith(("-", "/", "`")) or _is_stand_in(said):
        return
    yield Secret(command.kind, begin, end)


# ---- values beside key words


def _find_assigned(text: str, lower: str, stem: str, found: list[Secret]) -> None:
    kind, source = _WORDS[stem]
    pattern = _compiled(source)
    at = lower.find(stem)
    while at >= 0:
        after = at + len(stem)
        match = pattern.match(lower, at)
        if match is not None and text[match.end() : match.end() + 1] in _AFTER_WORD:
            after = match.end()
            if kind != "key" or lower.endswith(_KEY_BEFORE, 0, at):
                after = _assigned(text, at, after, kind, found)
        at = lower.find(stem, after)


def _assigned(text: str, word: int, after: int, kind: str, found: list[Secret]) -> int:
    """Look for a value behind the key word that ends at ``after``; gives where to go on."""
    between = _compiled(_ASSIGNED).match(text, after)
    if between is None:
        start = _flag_value(text, word, after)
        if start < 0:
            return after
    else:
        start = between.end()
    value = _compiled(_VALUE).match(text, start)
    if value is None or value.lastindex is None or value.lastindex < 2:
        return after
    secret = value.group(value.lastindex)
    if value.lastindex == 2:
        is_secret = _is_random(secret) or (kind in _LENIENT_KINDS and _is_password(secret))
    else:
        is_environment = text[word].isupper() or text[word:after].isupper()
        is_code = between is not None and between.group()[:1].isspace() and "=" in between.group()
        is_secret = _is_bare_secret(secret, kind, is_code=is_code, is_environment=is_environment)
    is_secret = is_secret or (kind == "key" and _is_forty(secret)) or (kind == "auth" and _is_basic(secret))
    if is_secret and not _is_stand_in(secret):
        found.append(Secret(kind, *value.span(value.lastindex)))
    return value.end()


def _flag_value(text: str, word: int, after: int) -> int:
    """Where the value of a command-line flag begins, as in ``--token VALUE``; −1 if this is none."""
    if text[after : after + 1] not in (" ", "\t", "\n"):
        return -1
    if text[word - 1 : word].isspace() and text[max(0, word - 160) : word].split()[-2:-1] in (["login"], ["user"]):
        return after + 1  # as in .netrc
    if text[after] != " " or text.rfind("--", max(0, word - 32), word) < 0:
        return -1
    name = text[text.rfind("--", 0, word) : word]
    return -1 if not name.replace("-", "").replace("_", "a").isalnum() and name != "--" else after + 1


def _is_bare_secret(value: str, kind: str, *, is_code: bool, is_environment: bool) -> bool:
    if _compiled(r"[A-Za-z_$][\w$]*+(?>(?:\.[A-Za-z_$][\w$]*+)+)").fullmatch(value):
        return False  # an attribute of something
    if _is_random(value):
        return True
    if kind not in _LENIENT_KINDS or is_code:
        return False
    is_name = _compiled(r"[A-Za-z_.-]++\d{0,4}+").fullmatch(value) is not None
    return _is_password(value) and (is_environment or not is_name)


def _is_stand_in(value: str) -> bool:
    """Whether a value only holds the place of one: a variable, a template, a word for "yours"."""
    if value[0] in "${<[(*" or (value[0] == "%" and not _compiled(r"%[0-9A-Fa-f]{2}").match(value)):
        return True
    lower = value.lower()
    return "{" in value or "<" in value or any(word in lower for word in _STAND_INS) or set(lower) <= {"x", "-", "_"}


def _runs(value: str) -> list[str]:
    return _compiled(r"[A-Za-z0-9]+").findall(value)


def _is_mixed(run: str) -> bool:
    """Letters and digits in one run of at least 8 that does not read as words with a number."""
    digits = sum(map(str.isdigit, run))
    if len(run) < 8 or digits in (0, len(run)):
        return False
    return digits >= 4 or _pieces_length(run) <= 3


def _pieces_length(run: str) -> float:
    """Average length of the words and numbers in ``run``: about 4 and more in names, under 2.5 in random text."""
    return len(run) / len(_compiled(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+|.").findall(run))


def _is_random(value: str) -> bool:
    """Whether a value of 16 characters or more looks drawn at random rather than written."""
    if len(value) < 16 or "://" in value or value[0] in "/.~" or _entropy_bits(value) < 3.0:
        return False
    for run in _runs(value):
        if _is_mixed(run):
            return True
        if len(run) >= 16 and _pieces_length(run) <= 2.5 and not run.isupper():
            return True
    return False


def _is_forty(value: str) -> bool:
    """Whether this is what the secret access keys of AWS are: 40 of base64, which may begin with a slash."""
    if _compiled(r"[A-Za-z0-9/+]{40}").fullmatch(value) is None:
        return False
    return any(map(str.islower, value)) and any(map(str.isupper, value)) and any(map(str.isdigit, value))


def _is_password(value: str) -> bool:
    """Whether a value of 8 characters or more reads as a password that somebody chose with care."""
    if "://" in value or value[0] in "/.~" or "(" in value or "[" in value or _entropy_bits(value) < 2.5:
        return False
    symbols = sum(not letter.isalnum() and letter not in "-_./:,@" for letter in value)
    has_lower = any(map(str.islower, value))
    has_upper = any(map(str.isupper, value))
    has_digit = any(map(str.isdigit, value))
    if not (has_lower or has_upper):
        return False
    if has_lower + has_upper + has_digit + bool(symbols or "@" in value[1:-1]) >= 3 and (has_digit or symbols):
        return True
    is_name = any(stem in value.lower() for stem in _WORDS)
    return not is_name and any(
        len(run) >= 8 and not run.isdigit() and any(map(str.isdigit, run)) for run in _runs(value)
    )


def _entropy_bits(value: str) -> float:
    """Shannon entropy in bits per character."""
    from math import log2

    length = len(value)
    return -sum(count / length * log2(count / length) for count in map(value.count, set(value)))


def _is_basic(value: str) -> bool:
    """Whether ``value`` is ``user:password`` in base64, as HTTP's basic scheme sends it."""
    import binascii

    try:
        plain = binascii.a2b_base64(value, strict_mode=True)
    except ValueError:
        return False
    return b":" in plain[1:] and plain.isascii() and plain.decode().isprintable()
