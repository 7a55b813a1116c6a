"""Trails for the pages of sessions: a small one with every kind of step, one of hostile texts, one of any length."""

from __future__ import annotations

import hashlib
import html.parser
import json
import random

from periplus.base.errors import NotFoundError
from periplus.interop.exports.trail_source import ExportSource
from periplus.trail import BY_NAME, Digest, Header, TrailBuilder, open_parts

STARTED_MS = 1_700_000_000_000
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</pre></details></script><svg onload=alert(1)>",
    "javascript:alert(1) [x](javascript:alert(1)) <a href='javascript:alert(1)'>x</a>",
    "{{ 7*7 }}{% raw %}${7*7}",
    "a\u202egnp.exe\u2066b\u2069 \u200b\u00ad\ufeff",
    "nul \x00 esc \x1b[31m bell \x07 c1 \x9b line \u2028 end",
    "&lt;b&gt; &amp;&#x3c; <!-- --> <![CDATA[ ]]>",
    "' onmouseover='alert(1)' style='x",
)


class Objects(dict):
    """An object store in memory."""

    def put(self, data):
        digest = hashlib.sha256(data).digest()
        self[digest] = data
        return digest

    def digest(self, text):
        return Digest("sha256", self.put(text.encode()))


def built(fill, *, title="Oil the wheels", agent="codex", secret=bytes(32)):
    """A trail, and the objects that it refers to."""
    objects = Objects()
    builder = TrailBuilder(secret, objects.put)
    fill(builder, objects)
    header = Header(agent, "session-1", model="model-x", title=title, started_ms=STARTED_MS)
    return builder.finish(header), objects


def source_of(data, objects=None):
    readers = open_parts(data)

    def read(name):
        if name not in (objects or {}):
            raise NotFoundError("no such object")
        return objects[name]

    return ExportSource("session", data, readers, readers[0].digest, read)


def small(builder, objects):
    at = iter(range(STARTED_MS, STARTED_MS + 10**9, 2_000))
    add = builder.add
    add("PROMPT", "Make the engine count its cogs\nand test it", at_ms=next(at))
    add("COMMENT", "First I look at the code.", at_ms=next(at))
    add("MODEL_CALL", "model-x", 1_000, 9_000, 250, 12_500, at_ms=next(at))
    add("SAY", "I read the engine.", at_ms=next(at))
    add("FILE_READ", "/p/src/engine.py", "1-40", at_ms=next(at))
    add("SEARCH_CODE", "def cogs", "/p/src", at_ms=next(at))
    add("FILE_WRITE", "/p/src/cogs.py", objects.digest("one\ntwo\nthree\n"), at_ms=next(at))
    add("FILE_WRITE", "/p/src/cogs.py", objects.digest("one\n2\nthree\n"), at_ms=next(at))
    add("FILE_EDIT", "/p/src/engine.py", "a\nb\nc\n", "a\nB\nc\nd\n", at_ms=next(at))
    add(
        "COMMAND_RUN",
        "make lint",
        "/p",
        outcome="failed",
        exit_code=2,
        error="no rule",
        at_ms=next(at),
        duration_ms=1_200,
    )
    add("TEST_RUN", "pytest -q", 3, outcome="failed", exit_code=1, at_ms=next(at))
    add("TEST_RUN", "pytest -q", 4, at_ms=next(at))
    add("TEST_RUN", "pytest -q", 4, at_ms=next(at))
    add(
        "PLAN_UPDATE",
        json.dumps([{"content": "count", "status": "completed"}, {"content": "test", "status": "pending"}]),
        at_ms=next(at),
    )
    add("TOOL_CALL", "periplus", "recall", '{"question":"cogs"}', at_ms=next(at))
    add("TOOL_CALL", "github", "create_issue", '{"title":"x"}', at_ms=next(at))
    add("AGENT_SPAWN", "explore", "find the cogs", Digest("sha256", b"\x07" * 32), at_ms=next(at))
    add("ASK", "May I push?", "yes", at_ms=next(at))
    add("GIT_COMMIT", "p", "engine: count cogs\n\nbody", Digest("git-sha1", b"\x0a" * 20), at_ms=next(at))
    add("FILE_MOVE", "/p/src/cogs.py", "/p/src/gear.py", at_ms=next(at))
    add("FILE_DELETE", "/p/src/old.py", at_ms=next(at))
    add("WEB_FETCH", "https://example.org/x", at_ms=next(at))
    add("TRUST_UPDATE", "bob", -2, at_ms=next(at))
    add("SAY", "x" * 5_000, at_ms=next(at))


def hostile(builder, objects):
    """Every operand of every opcode with every hostile text; error and note too."""
    for text in HOSTILE:
        for name, row in BY_NAME.items():
            operands = []
            for operand in row.operands:
                if operand.kind in ("uint", "int"):
                    operands.append(1)
                elif operand.kind == "digest":
                    operands.append(
                        objects.digest(text)
                        if operand.name == "content"
                        else Digest("sha256", hashlib.sha256(text.encode()).digest())
                    )
                else:
                    operands.append(text)
            builder.add(
                name,
                *operands,
                outcome="failed",
                exit_code=1,
                error=text,
                note=text,
                result=objects.digest(f"{text}\n" * 3),
                result_size=9,
            )


def long_trail(count, seed=1):
    """A session of ``count`` steps with texts, edits, commands, calls and model calls in usual proportions."""
    chance = random.Random(seed)
    words = ["alpha", "beta", "gamma", "delta", "auth", "token", "cache", "index"]

    def text(lines):
        return "\n".join(" ".join(chance.choice(words) for _ in range(12)) for _ in range(lines))

    def fill(builder, objects):
        add, at = builder.add, STARTED_MS
        for number in range(count):
            at += 3_000
            kind = number % 10
            if number % 50 == 0:
                add("PROMPT", text(3), at_ms=at)
            elif kind == 1:
                add("SAY", text(8), at_ms=at)
            elif kind == 2:
                add("MODEL_CALL", "model-x", 1_000, 9_000, 300, 12_000, at_ms=at)
            elif kind == 3:
                add("FILE_EDIT", f"src/f{number % 40}.py", text(10), text(10), at_ms=at)
            elif kind == 4:
                add(
                    "COMMAND_RUN",
                    f"make check-{number}",
                    "/p",
                    outcome="failed" if number % 3 else "ok",
                    error=text(6) if number % 3 else None,
                    at_ms=at,
                )
            elif kind == 5:
                add("TEST_RUN", "pytest", number, outcome="ok" if number % 20 else "failed", at_ms=at)
            elif kind == 6:
                add("FILE_WRITE", f"src/g{number % 30}.py", objects.digest(text(60)), at_ms=at)
            elif kind == 7:
                add("TOOL_CALL", "server", "do", json.dumps({"a": [1, 2, {"b": text(2)}]}), at_ms=at)
            elif kind == 8:
                add("FILE_READ", f"src/f{number}.py", "1-100", at_ms=at)
            else:
                add("COMMENT", text(4), at_ms=at)

    return built(fill, title="A long session")


class Elements(html.parser.HTMLParser):
    """The elements of a page, with the names of their attributes, and the text that a person reads."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.addresses, self.text, self.ids = set(), set(), [], "", []
        self.styles = self.scripts = 0
        self._raw = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)
        self.addresses += [value for name, value in attrs if name in ("href", "src", "action")]
        self.ids += [value for name, value in attrs if name == "id"]
        if tag in ("script", "style"):
            self._raw = tag
        if tag == "script":
            self.scripts += dict(attrs).get("type") != "application/octet-stream"

    def handle_endtag(self, tag):
        if tag == self._raw:
            self._raw = ""

    def handle_data(self, data):
        if not self._raw:
            self.text += data
