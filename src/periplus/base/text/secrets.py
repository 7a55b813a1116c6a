"""Secrets in text: known key shapes, credentials in URLs, and random values beside words such as ``password``.

Theory of operation
-------------------
Every rule begins at a literal that its secrets contain (``ghp_``, ``://``, ``token``). ``str.find`` looks for the literal
at almost no cost where it is absent; only where it is found a regular expression is matched, at that place. No
expression is ever searched with. Repetitions are possessive or bounded by a small number, and a rule continues behind
the text it has checked, so the time is linear in the text for every input.

A key shape is a secret anywhere, unless it is a placeholder (``xxxx``, ``your-key``). A value beside a
key word is a secret only if it looks random: ``max_tokens=4096``, ``token = tokenizer.encode(x)`` and
``api_key=os.environ["X"]`` are code. Digests, UUIDs and base64 without a key word are no secrets.
"""

from __future__ import annotations

__all__ = ["Secret", "find_secrets", "mask_secrets", "may_hold_secret"]

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from periplus.base.named_tuple import NamedTuple
from periplus.base.speed import IS_NATIVE, needle_plan, needles_in
from periplus.base.text.secret_shapes import OWNERS, SHAPES


class Secret(NamedTuple):
    """Place of a secret: characters ``start`` to ``end`` (exclusive) of the text."""

    kind: str
    start: int
    end: int


# A repeated group is atomic and bounded: each repetition takes memory until the end of the group.
_PEM_BODY: Final = r"[A-Za-z0-9+/=\s\\:,.\"']*+"
_PEM: Final = (
    r"-----BEGIN [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)?-----"
    rf"({_PEM_BODY}(?>(?:-(?!-){_PEM_BODY}){{0,1000}}))"
    r"(?>(-----END [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)?-----)?)"
)
_PEM_CUT_OFF: Final = r"(?>(?:(?>(?:\s++|\\[nrt]){0,1000})[A-Za-z0-9+/=]{16,}+){1,10000})"
_LONGEST: Final = 400  # for patterns that begin before the trigger
_PUTTY: Final = r"PuTTY-User-Key-File-\d[^\0]{0,20000}?\nPrivate-Lines: \d{1,4}\s{1,4}((?>(?:[A-Za-z0-9+/=]{1,128}(?:\r?\n|\\n|$)){1,400}))"
_PUTTY_MAX: Final = 64 * 1024
_SESSION_NAMES: Final = (
    r"sess|sid\b|\bsid|token|auth|jwt|login|remember|identity|connect\.|csrf|xsrf|laravel|asp\.net|__host|__secure"
)
# The rest of the name, then an assignment; sums of go.sum (h1:) and digests of other files are no keys.
_OWNED_BY: Final = (
    r"""(?>[\w.-]{0,30}+)(?<![ .-]h1)(?>[\s'"\]]{0,3}+)(?>=>|:=|\?=|\|\||[=:,>])(?>[`'"\s=]{0,5}+)(?!sha\d|md5)"""
)
_OWNED_END: Final = r"""(?=[`'"\s;,)}\]&]|\\|$)"""
_OF_DOCS: Final = frozenset({"password", "passwd", "secret", "mypassword", "pwd"})
_HOSTS_OF_DOCS: Final = (
    r"@(?:localhost|127\.0\.0\.1|\[::1\]|(?:[\w-]{1,63}\.){0,4}example(?:\.\w{2,8})?|host(?:name)?)(?![\w.-])"
)
_BEARER: Final = r"bearer\s{1,8}+([A-Za-z0-9._~+/-]{20,}+={0,2}+)"


class _Command(NamedTuple):
    """Command that takes a secret as an argument: after one of ``flags``, or ``joined`` to a flag."""

    kind: str
    before: str  # allowed between the last blank and the trigger, matched backwards: "sudo /usr/bin/"
    flags: frozenset[str]
    joined: str = ""  # "-p" of mysql, whose password follows without a blank
    is_pair: bool = False  # name:password; the password is the secret
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
_PEM_IN_BASE64: Final = "LS0tLS1CRUdJTi"  # the same in base64
_JWT_IN_BASE64: Final = "ZXlK"
_PUTTY_START: Final = "PuTTY-User-Key"
_BEARER_WORD: Final = "bearer"
_COOKIE_WORD: Final = "cookie"
_EXACT_NEEDLES: Final = (*SHAPES, *_COMMANDS, _PEM_START, _PEM_IN_BASE64, _JWT_IN_BASE64, _PUTTY_START)
_FOLDED_NEEDLES: Final = (_BEARER_WORD, _COOKIE_WORD, *_WORDS, *OWNERS)  # in either case
_NEEDLES_AT_ONCE: Final = 64  # as many as one plan takes


def _plans() -> list[tuple[bytes, tuple[str, ...]]]:
    """Return the search plans for all needles, each with its needles."""
    parted = [(one, False) for one in _EXACT_NEEDLES] + [(one, True) for one in _FOLDED_NEEDLES]
    plans = []
    for begin in range(0, len(parted), _NEEDLES_AT_ONCE):
        part = parted[begin : begin + _NEEDLES_AT_ONCE]
        exact = tuple(one for one, is_folded in part if not is_folded)
        folded = tuple(one for one, is_folded in part if is_folded)
        plans.append((needle_plan(exact, folded), exact + folded))
    return plans


_PLANS: Final = _plans() if IS_NATIVE else []
# The plain form searches for most needles only in runs without blanks, where a key may stand.
_ANYWHERE: Final = ("://", "sig=", *_EXACT_NEEDLES[len(SHAPES) :], _BEARER_WORD, _COOKIE_WORD, *_WORDS)
_BY_MARK: Final[dict[str, tuple[str, ...]]] = {
    mark: tuple(
        one for one in SHAPES if one not in _ANYWHERE and next((sign for sign in "_-.~/:=" if sign in one), "") == mark
    )
    for mark in ("_", "-", ".", "~", "/", ":", "=", "")
}
_RUN: Final = r"[A-Za-z0-9_.+/=~:|%-]{12,}+"
_RUN_OF_KEY: Final = r"[^0-9]*+[0-9]|.*?(?:[a-z][A-Z]|[A-Za-z]{17})"
_OWNER_BEFORE: Final = 72  # at most so far before its key
_ORDER: Final = {needle: place for place, needle in enumerate((*_EXACT_NEEDLES, *_FOLDED_NEEDLES))}
_ORDER_FOLDED: Final = frozenset(_FOLDED_NEEDLES)
_LENIENT_KINDS: Final = frozenset({"password", "secret"})

# From the end of a key word to the value: a closing quote or bracket, then = or : or => (with a type between).
_ASSIGNED: Final = (
    r"""(?>(?:\\{0,4}+["'`])?)\]?+[ \t]{0,8}+"""
    r"""(?:value[ \t]{0,4}+=|:[ \t]{0,4}+[A-Za-z][\w.\[\]| ]{0,40}+=(?=[ \t]{0,8}+[^\s=,;])|:=|=>|={1,3}+|:)[ \t]{0,8}+"""
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
    """Return the secrets in ``text``, in order and without overlap."""
    found: list[Secret] = []
    if len(text) < _CHARS_MIN:
        return found
    present = _needles_in(text)
    if not present:
        return found
    lower = ""
    for needle in present:
        if needle in SHAPES:
            _find_shape(text, needle, found)
        elif needle in _COMMANDS:
            _find_in_commands(text, needle, found)
        elif needle == _PEM_START:
            _find_private_keys(text, found)
        elif needle in (_PEM_IN_BASE64, _JWT_IN_BASE64):
            _find_in_base64(text, needle, found)
        elif needle == _PUTTY_START:
            _find_putty_keys(text, found)
        else:
            lower = lower or _lower(text)
            if needle == _BEARER_WORD:
                _find_bearers(text, lower, found)
            elif needle == _COOKIE_WORD:
                _find_cookies(text, lower, found)
            elif needle in OWNERS:
                _find_owned(text, lower, needle, found)
            else:
                _find_assigned(text, lower, needle, found)
    return _apart(found) if len(found) > 1 else found


def may_hold_secret(text: str) -> bool:
    """Return True where ``text`` contains the literal of any rule. Several texts may be joined for one check."""
    return bool(_needles_in(text))


def _needles_in(text: str) -> list[str]:
    """Return the literals of rules that occur in the text, in the order of the rules."""
    if _PLANS:
        present = []
        for plan, needles in _PLANS:
            bits = needles_in(plan, text)
            if bits:
                present += [needle for number, needle in enumerate(needles) if bits >> number & 1]
        return present
    lower = _lower(text)
    present = [one for one in _ANYWHERE if one in (lower if one in _ORDER_FOLDED else text)]
    runs = [match.span() for match in _compiled(_RUN).finditer(text)]
    is_of_key = _compiled(_RUN_OF_KEY).match
    kept = [text[start:end] for start, end in runs if is_of_key(text, start, end)]
    for mark, needles in _BY_MARK.items():
        joined = "\n".join([one for one in kept if mark in one])
        present += [one for one in needles if one in joined]
    has_digit = _compiled("[0-9]").search
    before = "\n".join(
        lower[max(0, start - _OWNER_BEFORE) : min(end, start + _OWNER_BEFORE)]
        for start, end in runs
        if end - start >= 15 and has_digit(text, start, end)
    )
    present += [one for one in OWNERS if one in before]
    return sorted(present, key=_ORDER.__getitem__) if len(present) > 1 else present


def mask_secrets(text: str) -> tuple[str, int]:
    """Replace each secret by ``[masked:<kind>]``; return the text and the number of secrets."""
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
    return re.compile(pattern)  # at first use: most processes meet no secret


def _lower(text: str) -> str:
    """Return ``text`` with ASCII letters in lower case and all characters at their places."""
    if text.isascii():
        return text.lower()
    return text.encode("latin-1", "replace").lower().decode("latin-1")  # ten times faster than str.lower here


def _apart(found: list[Secret]) -> list[Secret]:
    """Sort by place and merge overlapping secrets; the merged one has the kind that was found first."""
    rank = {secret: place for place, secret in reversed(list(enumerate(found)))}
    merged: list[Secret] = []
    for secret in sorted(found, key=lambda secret: secret.start):
        if merged and secret.start < merged[-1].end:
            last = merged.pop()
            union = Secret(min(last, secret, key=rank.__getitem__).kind, last.start, max(last.end, secret.end))
            rank.setdefault(union, min(rank[last], rank[secret]))
            secret = union  # noqa: PLW2901 - the merged secret
        merged.append(secret)
    return merged


# ---- shapes


def _find_shape(text: str, trigger: str, found: list[Secret]) -> None:
    kind, source, back, _ = SHAPES[trigger]
    pattern = _compiled(source)
    at = text.find(trigger)
    while at >= 0:
        if back:
            match = pattern.search(text, max(0, at - back), at + _LONGEST)
            match = match if match is not None and match.start() < at < match.end() else None
        else:
            match = pattern.match(text, at)
        if match is None:
            at = text.find(trigger, at + len(trigger))
            continue
        start, end = match.span(match.lastindex or 0)
        if _is_real(text[start:end], kind, trigger) and not (kind == "url_password" and _is_of_docs(text, start, end)):
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
    if not SHAPES[trigger].is_wordy or any(len(run) >= 20 or (run.isdigit() and len(run) >= 10) for run in _runs(body)):
        return True
    # Words in kebab case are names: sk-ant-in-the-docs, pypi-publish-on-every-tag.
    return any(map(str.isdigit, body)) and _pieces_length(body) <= 2.5


def _is_of_docs(text: str, start: int, end: int) -> bool:
    """Detect ``user:password@localhost``, as in manuals."""
    return text[start:end].lower() in _OF_DOCS and _compiled(_HOSTS_OF_DOCS).match(text, end) is not None


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


def _find_in_base64(text: str, trigger: str, found: list[Secret]) -> None:
    """Find a private key or JWT that is base64-encoded as a whole, as ``client-key-data`` of a kubeconfig."""
    import binascii

    at = text.find(trigger)
    while at >= 0:
        match = _compiled(r"[A-Za-z0-9+/_-]{40,}+={0,2}+").match(text, at)
        if match is None:
            at = text.find(trigger, at + len(trigger))
            continue
        head = match.group()[: 80 if trigger == _PEM_IN_BASE64 else 400]
        try:
            plain = binascii.a2b_base64(head[: len(head) // 4 * 4].replace("-", "+").replace("_", "/")).decode(
                "latin-1"
            )
        except ValueError:
            plain = ""
        if trigger == _PEM_IN_BASE64 and _compiled(r"-----BEGIN [A-Z0-9 ]{0,40}?PRIVATE KEY").match(plain):
            found.append(Secret("private_key", *match.span()))
        elif trigger == _JWT_IN_BASE64 and _compiled(r"eyJ[A-Za-z0-9_-]{8,}+\.eyJ").match(plain):
            found.append(Secret("jwt", *match.span()))
        at = text.find(trigger, match.end())


def _find_putty_keys(text: str, found: list[Secret]) -> None:
    at = text.find(_PUTTY_START)
    while at >= 0:
        match = _compiled(_PUTTY).match(text, at, at + _PUTTY_MAX)
        if match is not None:
            found.append(Secret("private_key", *match.span(1)))
        at = text.find(_PUTTY_START, at + len(_PUTTY_START) if match is None else match.end())


def _find_cookies(text: str, lower: str, found: list[Secret]) -> None:
    """Find values of a ``Cookie:`` header that name a session or look random."""
    at = lower.find(_COOKIE_WORD)
    while at >= 0:
        behind = at + len(_COOKIE_WORD)
        header = _compiled(r"""["']?(?::|=| )[ \t]{0,8}+["']?""").match(text, behind)
        if header is not None and (header.group().strip() or lower.endswith("--", 0, at)):
            stop = _compiled(r"""[^\r\n"'\\]{0,8192}+""").match(text, header.end())
            assert stop is not None
            for pair in _compiled(r"([\w.!#$%&*+^`|~-]{1,128}+)=([^;,\s\"']{8,4096}+)").finditer(
                text, header.end(), stop.end()
            ):
                name, value = pair.group(1).lower(), pair.group(2)
                is_session = (
                    len(value) >= 12
                    and _compiled(_SESSION_NAMES).search(name) is not None
                    and any(map(str.isdigit, value))
                )
                if (is_session or _is_random(value)) and not _is_stand_in(value):
                    found.append(Secret("cookie", *pair.span(2)))
            behind = stop.end()
        at = lower.find(_COOKIE_WORD, behind)


def _find_owned(text: str, lower: str, owner: str, found: list[Secret]) -> None:
    """Find values with the alphabet and length of a service's keys, assigned to a name that contains the service."""
    pattern = _compiled(_OWNED_BY + f"({OWNERS[owner]})" + _OWNED_END)
    at = lower.find(owner)
    while at >= 0:
        behind = at + len(owner)
        match = pattern.match(text, behind)
        if match is not None:
            value = match.group(1)
            if _entropy_bits(value) >= 2.5 and any(map(str.isdigit, value)) and not _is_stand_in(value):
                found.append(Secret("service_token", *match.span(1)))
                behind = match.end(1)
        at = lower.find(owner, behind)


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
    """Test that a word begins at ``at``, or that a path ends in it; for a subcommand, that its program stands before
    it.
    """
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
    """Yield the secret in a word: without quotes, and of a pair the part behind the name."""
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
    """Look for a value behind the key word that ends at ``after``; return the place to go on from."""
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
    """Return the start of a flag's value, as in ``--token VALUE``; −1 where this is no flag."""
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
    """Detect a placeholder: a variable, a template, a word such as "yours"."""
    if value[0] in "${<[(*" or (value[0] == "%" and not _compiled(r"%[0-9A-Fa-f]{2}").match(value)):
        return True
    lower = value.lower()
    return "{" in value or "<" in value or any(word in lower for word in _STAND_INS) or set(lower) <= {"x", "-", "_"}


def _runs(value: str) -> list[str]:
    return _compiled(r"[A-Za-z0-9]+").findall(value)


def _is_mixed(run: str) -> bool:
    """Detect letters and digits in one run of at least 8 that does not read as words with a number."""
    digits = sum(map(str.isdigit, run))
    if len(run) < 8 or digits in (0, len(run)):
        return False
    return digits >= 4 or _pieces_length(run) <= 3


def _pieces_length(run: str) -> float:
    """Return the average length of the words and numbers in ``run``: about 4 and more in names, under 2.5 in random
    text.
    """
    return len(run) / len(_compiled(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+|.").findall(run))


def _is_random(value: str) -> bool:
    """Test whether a value of 16 characters or more looks random rather than written."""
    if len(value) < 16 or "://" in value or value[0] in "/.~" or _entropy_bits(value) < 3.0:
        return False
    for run in _runs(value):
        if _is_mixed(run):
            return True
        if len(run) >= 16 and _pieces_length(run) <= 2.5 and not run.isupper():
            return True
    return False


def _is_forty(value: str) -> bool:
    """Detect the secret access keys of AWS: 40 characters of base64, which may begin with a slash."""
    if _compiled(r"[A-Za-z0-9/+]{40}").fullmatch(value) is None:
        return False
    return any(map(str.islower, value)) and any(map(str.isupper, value)) and any(map(str.isdigit, value))


def _is_password(value: str) -> bool:
    """Test whether a value of 8 characters or more reads as a carefully chosen password."""
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
    """Return the Shannon entropy in bits per character."""
    from math import log2

    length = len(value)
    return -sum(count / length * log2(count / length) for count in map(value.count, set(value)))


def _is_basic(value: str) -> bool:
    """Detect ``user:password`` in base64, as HTTP's basic scheme sends it."""
    import binascii

    try:
        plain = binascii.a2b_base64(value, strict_mode=True)
    except ValueError:
        return False
    return b":" in plain[1:] and plain.isascii() and plain.decode().isprintable()
