"""Wrong input to every command: one clear error, the right exit code, and nothing changed.

Everything here goes over all rows of the table of commands: a new command without a line in ``RIGHT`` and ``WRONG``
fails the test, and a new option is tried with absurd values without being named here.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path

import pytest

from cli_support import claude_session, make_repository
from dispatch_records import Order
from periplus.agent.skills.candidates import propose
from periplus.agent.skills.command_mining import Draft
from periplus.base.process.locks import Lock
from periplus.cli.main import COMMANDS, leaves, main, make_parser
from periplus.journal import Writer
from periplus.memory import Memory
from periplus.memory.coordination.dispatches import NewQuestion, open_questions
from periplus.memory.coordination.loops import NewLoop, close_loop, open_loop
from periplus.project import Project
from sampling import sampled
from v1_samples import make_v1

# What each command does when it is typed rightly: "reads" a store, "writes" to it, "makes" one, or needs "none".
# The words hold the names of things that the fixture made.
RIGHT = {
    "init": ("makes", []),
    "tour": ("none", ["--keep", "{folder}"]),
    "status": ("reads", []),
    "completion": ("none", ["bash"]),
    "remember": ("writes", ["A new thing is known"]),
    "recall": ("reads", ["thing"]),
    "brief": ("reads", ["count the things"]),
    "related": ("reads", ["src/a.py", "--task", "count the things"]),
    "code find": ("none", ["count"]),
    "code show": ("none", ["src/a.py"]),
    "code outline": ("none", ["src/a.py"]),
    "code refs": ("none", ["src/a.py"]),
    "code calls": ("none", ["src/a.py"]),
    "code impact": ("none", ["src/a.py"]),
    "code map": ("none", ["count the things"]),
    "code export": ("none", []),
    "code search": ("none", ["count the things"]),
    "code status": ("none", []),
    "code index": ("none", []),
    "changed": ("reads", ["--since", "0"]),
    "show": ("reads", ["{note}"]),
    "log": ("reads", []),
    "blame": ("reads", ["{note}"]),
    "undo": ("writes", ["--seq", "1"]),
    "set": ("writes", ["{note}", "tags=cogs"]),
    "state": ("writes", ["{trap}", "resolved"]),
    "evolve": ("writes", ["{note}", "Thing number two"]),
    "merge": ("writes", ["{note}", "{another_note}", "--text", "Two things"]),
    "split": ("writes", ["{note}", "Thing number 2a", "Thing number 2b"]),
    "link": ("writes", ["{note}", "references", "{trap}"]),
    "claim take": ("writes", ["src"]),
    "claim list": ("reads", []),
    "claim release": ("writes", []),
    "check": ("reads", ["src/a.py"]),
    "plan make": ("writes", ["Oil it", "--step", "Buy oil", "--step", "1< Pour it"]),
    "plan add": ("writes", ["{plan}", "Wipe it", "--scope", "src"]),
    "plan list": ("reads", []),
    "plan show": ("reads", ["{plan}"]),
    "plan ready": ("reads", []),
    "plan next": ("writes", []),
    "plan done": ("writes", ["{step}"]),
    "plan block": ("writes", ["{step}"]),
    "plan drop": ("writes", ["{step}"]),
    "dispatch start": ("reads", ["{plan}", "--agent", "periplus", "--no-oracle", "--dry-run"]),
    "dispatch watch": ("reads", ["--once"]),
    "dispatch drop": ("reads", ["{failed}"]),
    "dispatch agents": ("none", []),
    "dispatch standing": ("reads", []),
    "dispatch list": ("reads", []),
    "dispatch show": ("reads", []),
    "dispatch answer": ("writes", ["{question}", "Blue"]),
    "dispatch retry": ("writes", ["{failed}"]),
    "dispatch stop": ("writes", []),
    "loop open": ("writes", ["debug", "It fails", "--agent", "periplus"]),
    "loop next": ("reads", ["{loop}", "--dry-run"]),
    "loop list": ("reads", []),
    "loop show": ("reads", ["{loop}"]),
    "loop close": ("writes", ["{loop}"]),
    "handoff write": ("writes", ["Half of it is done"]),
    "handoff list": ("reads", []),
    "handoff accept": ("writes", ["{handoff}"]),
    "handoff close": ("writes", ["{handoff}"]),
    "session begin": ("writes", ["another"]),
    "session end": ("writes", ["morning"]),
    "who": ("reads", []),
    "inbox mail": ("reads", []),
    "inbox send": ("writes", ["bob", "Mind the cogs"]),
    "inbox read": ("writes", ["{message}"]),
    "inbox answer": ("writes", ["{message}", "I do"]),
    "review": ("reads", []),
    "confirm": ("writes", ["{note}"]),
    "probe": ("reads", []),
    "mcp": ("none", []),
    "web": ("none", []),
    "connect": ("reads", ["codex", "--dry-run"]),
    "disconnect": ("reads", ["--dry-run"]),
    "agents": ("reads", []),
    "trail compile": ("none", ["{worklog}", "--out", "{work}/compiled.pplt"]),
    "trail concat": ("reads", ["{trail}", "{trail}", "--out", "{work}/both.pplt"]),
    "trail decode": ("reads", ["{trail}"]),
    "trail encode": ("reads", ["{trail}", "--out", "{work}/encoded.pplt"]),
    "trail export": ("reads", ["{trail}"]),
    "trail import": ("writes", ["{session}"]),
    "trail list": ("reads", []),
    "trail record": ("writes", ["--no-checkpoints"]),
    "trail seal": ("reads", []),
    "trail prove": ("reads", ["{trail}", "--step", "0", "--out", "{work}/step.proof"]),
    "trail diff": ("reads", ["{trail}", "{trail}"]),
    "trail redact": ("reads", ["{trail}", "--text", "cog0", "--out", "{work}/redacted.trail"]),
    "trail replay": ("reads", ["{trail}"]),
    "trail show": ("reads", ["{trail}"]),
    "trail sign": ("reads", ["{trail}", "--out", "{work}/signed.pplt"]),
    "trail verify": ("reads", []),
    "context commit": ("writes", ["{more_atoms}"]),
    "context log": ("reads", []),
    "context show": ("reads", []),
    "context diff": ("reads", ["main~1"]),
    "context merge": ("writes", ["branch"]),
    "context blame": ("reads", ["{atom}"]),
    "context bisect": ("reads", ["--has", "teeth"]),
    "context expand": ("reads", []),
    "context select": ("reads", ["--query", "cogs"]),
    "context stream": ("reads", []),
    "context refs": ("reads", []),
    "context push": ("reads", ["{clone}"]),
    "context pull": ("writes", ["{clone}", "ahead"]),
    "context clone": ("none", ["{project}", "{folder}"]),
    "context serve": ("reads", ["--stats"]),
    "context gc": ("reads", []),
    "prove": ("reads", ["1"]),
    "head": ("reads", []),
    "verify": ("none", ["{proof}"]),
    "redact": ("writes", ["--secret-file", "{secret}", "--reason", "it was told in confidence"]),
    "migrate": ("writes", ["--from", "{v1}", "--to", "dual"]),
    "export": ("reads", ["{work}/whole.zip"]),
    "import": ("none", ["{package}", "{folder}"]),
    "sync": ("writes", ["--with", "{clone}"]),
    "reflect": ("reads", []),
    "candidates list": ("reads", []),
    "candidates show": ("reads", ["{candidate}"]),
    "candidates accept": ("writes", ["{candidate}"]),
    "candidates refuse": ("writes", ["{candidate}"]),
    "inbox list": ("reads", []),
    "inbox accept": ("writes", ["{candidate}"]),
    "inbox refuse": ("writes", ["{candidate}"]),
    "hook": ("none", ["SessionStart"]),
    "doctor": ("reads", []),
    "run": ("reads", ["Oil the cogs", "--dry-run"]),
    "setup": ("none", ["--show"]),
    "models list": ("none", []),
    "models key": ("none", ["local"]),
    "servers list": ("none", []),
    "servers check": ("none", []),
    "servers accept": ("none", ["nobody"]),
    "trust list": ("none", []),
    "trust give": ("none", []),
    "trust withdraw": ("none", []),
    "skills list": ("reads", []),
    "skills show": ("reads", ["{skill}"]),
    "skills accept": ("writes", ["{skill}"]),
    "skills refuse": ("writes", ["{skill}"]),
    "skills mine": ("reads", []),
    "plugins list": ("none", []),
    "plugins trust": ("none", ["{plugin}"]),
    "plugins untrust": ("none", ["{plugin}"]),
}

WRITES_A_FILE = (
    "trail compile",
    "trail concat",
    "trail encode",
    "trail prove",
    "trail redact",
    "trail sign",
)  # also of a damaged store, where what it needs is sound

# A row of WRONG is what is typed wrongly, the exit code, and a part of what is said. These rows count for several commands.
EXTRA_WORD = (["x"], 2, "unrecognized arguments: x")
UNKNOWN_ID = (["nothing_like_it"], 1, "nothing has an id")


def missing(argument=None):
    return [], 2, f"required: {argument}" if argument else "required"


def no_trail(*words):
    return [missing(), (["trl_nothing", *words], 1, "trl_nothing"), (["{file}", *words], 2, "not a trail")]


def wrong_out(*words):
    return [
        ([*words, "--out", "{folder}"], 2, "is a folder"),
        ([*words, "--out", "{absent}/x/y"], 2, "{absent}"),
    ]


def wrong_credentials(*words):
    return [
        ([*words, "--token-file", "{absent}"], 1, "there is no file"),
        ([*words, "--token-file", "{empty}"], 2, "holds no token"),
        ([*words, "--fingerprint", "ab"], 2, "fingerprint"),
    ]


NO_HANDOFF = [missing("ID"), (["{note}"], 1, "is a note, not a handoff")]
NO_CANDIDATE = [missing("ID"), (["nothing"], 1, "nothing"), ([""], 2, "id")]
WRONG_PLACES = [
    missing("WHERE"),
    (["{absent}"], 2, "is not a place to exchange contexts with"),
    ([""], 2, "is not a place"),
    (["{folder}"], 2, "there is no store in"),
    (["udp://x:1"], 2, "is not a place"),
    (["tcp://x"], 2, "is not the address"),
    (["unix:{absent}"], 3, "cannot reach the context server"),
    (["tcp://127.0.0.1:1"], 3, "cannot reach the context server"),
]

WRONG = {
    "init": [
        (["{absent}"], 2, "is not a folder"),
        (["{file}"], 2, "is not a folder"),
        (["a", "b"], 2, "unrecognized arguments: b"),
        (["--connect", "--no-connect"], 2, "not allowed"),
    ],
    "connect": [
        (["codeine"], 2, "unknown agent 'codeine'"),
        ([""], 2, "unknown agent"),
        (["codex", "--all"], 2, "AGENT and --all cannot be combined"),
        (["--scope", "world"], 2, "invalid choice"),
        (["--check", "--dry-run"], 2, "not allowed"),
        (["codex", "--command", ""], 2, "--command"),
        (["codex", "--command", "a\nb"], 2, "--command"),
        (["codex", "--command", "/usr/bin/other"], 2, "could not be recognized later"),
    ],
    "disconnect": [
        (["codeine"], 2, "unknown agent 'codeine'"),
        (["codex", "--all"], 2, "AGENT and --all cannot be combined"),
        (["--check"], 2, "unrecognized arguments: --check"),
    ],
    "agents": [
        (["codex"], 2, "unrecognized arguments: codex"),
        (["--scope", "user"], 2, "unrecognized arguments"),
    ],
    "tour": [
        (["--repository", "{absent}"], 2, "{absent}"),
        (["--transcript", "{absent}"], 1, "{absent}"),
        (["--keep", "{file}"], 2, "{file}"),
    ],
    "run": [
        ([], 2, "the task is missing"),
        (["  "], 2, "the task is missing"),
        (["x"], 2, "no model is chosen"),
        (["x", "--model", "gpt"], 2, "is not a valid model name"),
        (["x", "--model", "nobody/x"], 2, "there is no provider 'nobody'"),
        (["x", "--model", "anthropic/x"], 2, "there is no key for anthropic"),
        (["x", "--mode", "wild"], 2, "invalid choice"),
        (["x", "--max-steps", "0"], 2, "0 is not between"),
        (["x", "--allow", "shell("], 2, "is not a permission rule"),
        (["x", "--play", "{absent}"], 1, "{absent}"),
        (["--resume", "nobody"], 1, "no such session"),
        (["--stats", "nobody"], 1, "the agent has no session"),
        (["--monitor", "--session", "nobody"], 1, "the agent has no session"),
        (["x", "--port", "8080"], 2, "needs --monitor"),
        (["x", "--monitor", "--port", "0"], 2, "0 is not between"),
    ],
    "setup": [
        ([], 2, "no provider is given"),
        (["--provider", "nobody"], 2, "unknown provider 'nobody'"),
        (["--provider", "anthropic"], 2, "there is no key for anthropic"),
        (["--provider", "local", "--no-test"], 2, "no model is given"),
    ],
    "models list": [(["--ask", "nobody"], 2, "unknown provider")],
    "models key": [missing("PROVIDER"), (["Big Co"], 2, "is not a valid provider name")],
    "servers list": [(["x"], 2, "unrecognized arguments")],
    "servers check": [(["nobody"], 1, "there is no server 'nobody'")],
    "servers accept": [missing("NAME"), (["nobody"], 1, "there is no server 'nobody'")],
    "trust list": [(["x"], 2, "unrecognized arguments")],
    "trust give": [(["{absent}"], 1, "there is no folder")],
    "trust withdraw": [(["{folder}"], 1, "is not trusted")],
    "skills list": [EXTRA_WORD],
    "skills show": [
        missing("NAME"),
        ([""], 2, "empty"),
        UNKNOWN_ID,
        (["{note}"], 2, "not a skill candidate"),
    ],
    "skills accept": [
        missing("ID"),
        UNKNOWN_ID,
        (["{note}"], 2, "not a skill candidate"),
        (["{skill}", "--name", "../x"], 2, "is not a valid skill name"),
        (["{skill}", "--name", "Oil It"], 2, "is not a valid skill name"),
    ],
    "skills refuse": [
        missing("ID"),
        UNKNOWN_ID,
        (["{skill}", "--reason", " "], 2, "--reason is empty"),
    ],
    "skills mine": [(["nobody"], 1, "has no session 'nobody'")],
    "plugins list": [EXTRA_WORD],
    "plugins trust": [missing("NAME"), ([""], 2, "empty"), (["nobody"], 1, "there is no plugin 'nobody'")],
    "plugins untrust": [
        missing("NAME"),
        (["nobody"], 1, "there is no plugin 'nobody'"),
        (["{plugin}"], 1, "is not trusted"),
    ],
    "status": [(["everything"], 2, "unrecognized arguments: everything")],
    "completion": [
        missing("SHELL"),
        (["powershell"], 2, "invalid choice: 'powershell'"),
        (["bash", "zsh"], 2, "unrecognized arguments: zsh"),
    ],
    "remember": [
        missing("TEXT"),
        ([""], 2, "text"),
        (["   "], 2, "text"),
        (["x" * 300_000], 2, "text"),
        (["half \udcff"], 2, "not UTF-8"),
        (["x", "--type", "rumour"], 2, "unknown type 'rumour'"),
        (["x", "--confidence", "-1"], 2, "-1 is not between"),
        (["x", "--severity", "dreadful"], 2, "invalid choice"),
        (["x", "--expires", "soon"], 2, "is not a time"),
        (["x", "--evidence", "hearsay"], 2, "is not evidence"),
        (["x", "--supersedes", "not_0000000000000000"], 1, "not_0000000000000000"),
        (["x", "--key", "clé"], 2, "ASCII"),
        (["AKIAIOSFODNN7ABCDEFG is the key"], 5, "secret"),
    ],
    "recall": [
        missing("QUESTION"),
        ([""], 2, "question"),
        (["x", "--since", "yesterday"], 2, "is not a time"),
        (["x", "--limit", "0"], 2, "0 is too small"),
        (["x", "--type", "rumour"], 2, "unknown type"),
        (["x", "--offset", "-1"], 2, "-1"),
    ],
    "brief": [missing("TASK"), ([""], 2, "task"), (["x", "--budget", "-5"], 2, "-5")],
    "related": [
        ([], 2, "neither files nor a task"),
        (["--task", " "], 2, "neither files nor a task"),
        (["/etc/passwd"], 2, "outside"),
        (["x", "--limit", "0"], 2, "0 is too small"),
    ],
    "code find": [
        missing("NAME"),
        (["x", "--limit", "0"], 2, "0 is too small"),
        (["x", "--path", "/etc"], 2, "outside"),
    ],
    "code show": [missing("SYMBOL"), (["no_such_symbol"], 1, "no_such_symbol")],
    "code outline": [missing("FILE"), (["nowhere.py"], 1, "nowhere.py"), (["../x.py"], 2, "outside")],
    "code refs": [
        missing("SYMBOL"),
        (["no_such_symbol"], 1, "no_such_symbol"),
        (["x", "--grade", "sure"], 2, "invalid choice"),
    ],
    "code calls": [missing("SYMBOL"), (["no_such_symbol"], 1, "no_such_symbol")],
    "code impact": [
        ([], 2, "nothing was named"),
        (["src/a.py", "--diff"], 2, "not both"),
        (["--diff", "no-such-revision"], 2, "git"),
        (["no_such_symbol"], 1, "no_such_symbol"),
    ],
    "code map": [(["x", "--budget", "0"], 2, "0 is too small"), (["x", "y"], 2, "needs quotes")],
    "code export": [(["--format", "png"], 2, "invalid choice"), (["--around", "no_such_symbol"], 1, "no_such_symbol")],
    "code search": [missing("WORDS"), (["x", "--limit", "0"], 2, "0 is too small")],
    "code status": [EXTRA_WORD],
    "code index": [EXTRA_WORD],
    "changed": [
        (["--since", "yesterday"], 1, "neither a record, a time nor a known session"),
        (["--since", "9" * 30], 2, "no record"),
        (["--budget", "-5"], 2, "-5"),
        (["x"], 2, "unrecognized arguments"),
    ],
    "show": [
        missing("ID"),
        UNKNOWN_ID,
        ([""], 2, "id"),
        (["{note}", "--at", "99"], 1, "there is no record 99"),
        (["{note}", "--at", "0"], 1, "no record 0"),
    ],
    "log": [
        (["--limit", "0"], 2, "0 is too small"),
        (["--before", "x"], 2, "'x'"),
        (["--action", "dance"], 2, "invalid choice: 'dance'"),
        (["--since", "soon"], 2, "is not a time"),
        (["--lineage", "lin_0000000000000000"], 1, "lin_0000000000000000"),
        (["--reader", "../../etc"], 2, "../../etc"),
        (["--since-seq", "-3"], 2, "-3"),
        (["--follow", "--before", "3"], 2, "--follow"),
    ],
    "blame": [missing("ID"), UNKNOWN_ID, ([""], 2, "id")],
    "undo": [
        ([], 2, "--seq"),
        (["--seq", "99"], 1, "there is no record 99"),
        (["--seq", "2-1"], 2, "2-1"),
        (["--seq", "1", "--session", "s"], 1, "changed nothing among those records"),
        (["--seq", "1", "--session", ""], 2, "--session is empty"),
        (["--session", "nobody's"], 1, "changed nothing"),
        (["--seq", "1", "--lineage", "lin_0000000000000000"], 1, "lin_0000000000000000"),
    ],
    "set": [
        missing("ID"),
        (["{note}"], 2, "required: FIELD=VALUE"),
        (["{note}", "tags"], 2, "is not FIELD=VALUE"),
        (["{note}", "rank=3"], 2, "rank of a note cannot be set"),
        (["{note}", "state=done"], 2, "by its own command"),
        (["{note}", "confidence=much"], 2, "confidence cannot be read"),
        (["{note}", "confidence=[1]"], 2, "is a whole number"),
        (["{note}", "confidence=101"], 2, "is not between"),
        (["{note}", "tags=[1]"], 2, "tags"),
        (["{note}", "tags=[" * 5_000], 2, "tags cannot be read"),
        (["{note}", "text="], 2, "text"),
        (["{note}", "tags=a", "--expect", "0" * 64], 5, "changed since you read it"),
        (["{note}", "tags=a", "tags=b"], 2, "set twice"),
        (["nothing_like_it", "tags=a"], 1, "nothing has an id"),
    ],
    "web": [
        EXTRA_WORD,
        (["--port", "70000"], 2, "70000 is not between"),
        (["--port", "9", "--socket", "{absent}"], 2, "--port and --socket exclude each other"),
        (["--socket", "{absent}", "--open"], 2, "no browser opens a Unix socket"),
        (["--socket", "{file}"], 5, "exists and is no socket"),
    ],
    "mcp": [
        EXTRA_WORD,
        (["--port", "9"], 2, "--port is for --http"),
        (["--token-file", "{file}"], 2, "--token-file is for --http"),
        (["--http", "--port", "70000"], 2, "70000 is not between"),
        (["--http", "--port", "0", "--token-file", "{absent}"], 1, "{absent}"),
        (["--http", "--port", "0", "--token-file", "{file}"], 5, "may be read by others"),
    ],
    "review": [EXTRA_WORD],
    "confirm": [
        missing("ID"),
        UNKNOWN_ID,
        (["{trail}"], 2, "a trail is not confirmed"),
        (["{note}", "{trap}", "--about", "{note}"], 2, "one entity at a time"),
        (["{trap}", "--expires", "2030-01-01"], 2, "a trap does not expire"),
        (["{note}", "--expires", "soon"], 2, "is not a time"),
    ],
    "probe": [
        UNKNOWN_ID,
        (["{note}"], 2, "has no check"),
        (["{trap}", "--timeout", "0"], 2, "0 is not between"),
    ],
    "state": [
        missing(),
        (["done"], 2, "an id and a state"),
        (["{note}", "done"], 2, "a note has no states"),
        (["{trap}", "done"], 2, "is active and cannot become done"),
        (["nothing_like_it", "done"], 1, "nothing has an id"),
    ],
    "evolve": [
        (["{note}"], 2, "required: TEXT"),
        (["{note}", " "], 2, "text"),
        (["{note}", "x", "--set", "state=done"], 2, "cannot be given state"),
        (["{trail}", "x"], 2, "cannot be replaced"),
    ],
    "merge": [
        (["{note}"], 2, "--text"),
        (["{note}", "{note}", "--text", "x"], 2, "two or more entities"),
        (["{note}", "{trap}", "--text", "x"], 2, "not all of one type"),
    ],
    "split": [
        (["{note}"], 2, "required: TEXT"),
        (["{note}", "a"], 2, "two or more texts"),
        (["{note}", "a", ""], 2, "text"),
    ],
    "link": [
        (["{note}"], 2, "required"),
        (["{note}", "likes", "{trap}"], 2, "invalid choice: 'likes'"),
        (["{note}", "references", "{note}"], 2, "no relation to itself"),
        (["{note}", "references", "nothing_like_it"], 1, "nothing has an id"),
    ],
    "claim take": [
        missing("SCOPE"),
        ([""], 2, "is empty"),
        (["../other"], 2, "lies outside of the project"),
        (["/etc/passwd"], 2, "lies outside of the project"),
        (["src/[ab"], 2, "is not closed"),
        (["src", "--ttl", "1"], 2, "is not between"),
        (["src", "--wait", "-1"], 2, "-1"),
        (["src", "--key", "clé"], 2, "ASCII"),
        (["docs/a.md", "--as", "eve"], 5, "is claimed by ada"),
    ],
    "claim list": [EXTRA_WORD],
    "claim release": [
        UNKNOWN_ID,
        (["{note}"], 1, "is a note, not a claim"),
        (["{claim}", "--as", "eve"], 5, "is a claim of ada"),
    ],
    "check": [
        missing("PATH"),
        (["../other"], 2, "nothing was changed. name a path"),
        (["../other", "/"], 2, "'/' lies outside"),
        ([""], 2, "empty"),
        (["src/a.py", ""], 2, "empty"),
        (["x" * 501], 2, "501 characters"),
    ],
    "plan make": [
        missing("TEXT"),
        ([" "], 2, "text"),
        (["x", "--step", "2< a", "--step", "1< b"], 2, "wait for each other"),
        (["x", "--step", "3< a"], 2, "cannot wait for step 3"),
        (["x", "--step", ""], 2, "text"),
        (["x", "--priority", "101"], 2, "101 is not between"),
        (["x", "--after", "nothing_like_it"], 1, "nothing has an id"),
    ],
    "plan add": [
        (["{plan}"], 2, "required: TEXT"),
        (["{step}", "x"], 1, "is a step, not a plan"),
        (["{plan}", "x", "--scope", "../x"], 2, "outside of the project"),
        (["{plan}", "x", "--after", "{note}"], 2, "which no step can wait for"),
    ],
    "plan list": [EXTRA_WORD],
    "plan show": [missing("PLAN"), (["{note}"], 1, "is a note, not a plan")],
    "plan ready": [(["{note}"], 1, "is a note, not a plan"), UNKNOWN_ID],
    "plan next": [
        (["--step", "{plan}"], 1, "is a plan, not a step"),
        (["--plan", "{step}"], 1, "is a step, not a plan"),
        (["--ttl", "1"], 2, "is not between"),
    ],
    "plan done": [
        missing("ID"),
        (["{note}"], 1, "not a plan or step"),
        UNKNOWN_ID,
    ],
    "plan block": [missing("ID"), (["{note}"], 1, "not a plan or step")],
    "plan drop": [missing("ID"), (["{step}", "{trap}"], 1, "not a plan or step")],
    "dispatch start": [
        ([], 2, "a plan or a task is missing"),
        (["x"], 2, "is neither the id of a plan nor a task in words"),
        (["do it"], 2, "no agent is named"),
        (["do it", "--agent", "codex"], 2, "no command is known that tells whether work is good"),
        (["do it", "--agent", "codex", "--oracle", "pytest 'x"], 2, "cannot be split into words"),
        (["do it", "--agent", "codex", "--oracle", "true", "--no-oracle"], 2, "not allowed with"),
        (["do it", "--agent", "nobody", "--no-oracle"], 2, "there is no agent 'nobody'"),
        (["do it", "--agent", "codex", "--no-oracle", "--role", "king"], 2, "there is no role 'king'"),
        (["do it", "--agent", "codex", "--no-oracle", "--target", "nowhere"], 1, "there is no branch 'nowhere'"),
        (["do it", "--agent", "codex", "--no-oracle", "--link", "../x"], 2, "is not a folder of the checkout"),
        (["pln_nothing", "--agent", "codex", "--no-oracle"], 1, "pln_nothing"),
        (["do it", "--lanes", "0"], 2, "0 is not between"),
        (["do it", "--resume"], 2, "--resume cannot be combined with PLAN"),
        (["--resume", "{note}"], 1, "is a note, not a dispatch"),
    ],
    "dispatch watch": [UNKNOWN_ID, (["{note}"], 1, "is a note, not a dispatch")],
    "dispatch drop": [missing("ID"), UNKNOWN_ID, (["{offered}"], 5, "an agent may be at work in its worktree")],
    "dispatch agents": [(["nobody"], 1, "there is no agent 'nobody'")],
    "dispatch standing": [EXTRA_WORD],
    "dispatch list": [EXTRA_WORD, (["--limit", "0"], 2, "0 is not between")],
    "dispatch show": [UNKNOWN_ID, (["{note}"], 1, "is a note, not an assignment")],
    "dispatch answer": [
        missing("ID"),
        (["{note}", "x"], 1, "is a note, not a question"),
        (["{question}", " "], 2, "the answer is empty"),
    ],
    "dispatch retry": [
        missing("ID"),
        UNKNOWN_ID,
        (["{note}"], 1, "is a note, not an assignment"),
        (["{offered}"], 5, "there is nothing to try again"),
    ],
    "dispatch stop": [UNKNOWN_ID, (["{note}"], 1, "is a note, not a dispatch")],
    "loop open": [
        missing("KIND"),
        (["chat", "x"], 2, "invalid choice: 'chat'"),
        (["debug", "x"], 2, "no agent is named"),
        (["debug", " ", "--agent", "periplus"], 2, "the text is empty"),
        (["debug", "x", "--agent", "nobody"], 2, "there is no agent 'nobody'"),
        (["debug", "x", "--agent", "periplus", "--branch", "gone"], 1, "there is no branch or commit 'gone'"),
        (["review", "x", "--agent", "periplus"], 2, "there is no change to review"),
        (["debug", "x", "--agent", "periplus", "--command", "pytest 'x"], 2, "cannot be split into words"),
        (["debug", "x", "--agent", "periplus", "--rounds", "-1"], 2, "-1 is not between"),
    ],
    "loop next": [UNKNOWN_ID, (["{note}"], 1, "is a note, not a loop"), (["{closed_loop}"], 5, "is closed: ")],
    "loop list": [EXTRA_WORD],
    "loop show": [UNKNOWN_ID, (["{note}"], 1, "is a note, not a loop")],
    "loop close": [UNKNOWN_ID, (["{note}"], 1, "is a note, not a loop")],
    "handoff write": [
        missing("TEXT"),
        ([" "], 2, "text"),
        (["x", "--file", "/etc/passwd"], 2, "outside of the project"),
        (["x", "--plan", "{note}"], 1, "not a plan"),
        (["x", "--corrects", "{note}"], 1, "not a handoff"),
    ],
    "handoff list": [EXTRA_WORD],
    "handoff accept": NO_HANDOFF,
    "handoff close": NO_HANDOFF,
    "session begin": [
        missing("NAME"),
        ([" "], 2, "is not a valid session name"),
        (["x" * 201], 2, "is not a valid session name"),
    ],
    "session end": [([], 2, "no session is named"), (["never begun"], 1, "there is no session")],
    "who": [EXTRA_WORD],
    "inbox mail": [EXTRA_WORD],
    "inbox send": [
        (["bob"], 2, "required: TEXT"),
        (["", "x"], 2, "not a valid name"),
        (["bob", ""], 2, "needs a text"),
        (["bob", "x" * 8_001], 2, "8,001 characters"),
        (["bob", "AKIAIOSFODNN7ABCDEFG"], 5, "secret"),
        (["bob", "x", "--ref", "nothing_like_it"], 1, "nothing has an id"),
    ],
    "inbox read": [
        missing("ID"),
        (["{note}"], 1, "is a note, not a message"),
        (["{message}", "--as", "eve"], 5, "not to eve"),
    ],
    "inbox answer": [
        (["{message}"], 2, "required: TEXT"),
        (["{message}", " "], 2, "needs a text"),
        (["{message}", "x", "--as", "eve"], 5, "was sent to ada, not to eve"),
    ],
    "trail compile": [
        missing(),
        (["{absent}"], 1, "there is no file"),
        (["{file}"], 2, "{file}"),
        (["{worklog}", "--secret", "{absent}"], 1, "{absent}"),
        (["{worklog}", "--status", "well"], 2, "invalid choice"),
    ],
    "trail decode": [
        missing(),
        (["trl_nothing"], 1, "trl_nothing"),
        (["{file}"], 2, "{file}"),
        (["{trail}", "--v1"], 2, "version 1"),
        (["{trail}", "--out", "{folder}"], 2, "is a folder"),
    ],
    "trail encode": [
        missing(),
        (["{trail}"], 2, "--out"),
        (["trl_nothing", "--out", "{work}/encoded.pplt"], 1, "trl_nothing"),
        (["{file}", "--out", "{work}/encoded.pplt"], 2, "{file}"),
    ],
    "trail replay": [
        *no_trail(),
        (["{trail}", "--world", "moon"], 2, "invalid choice"),
        (["{trail}", "--in", "{folder}"], 2, "--in needs --world folder"),
        (["{trail}", "--timeout", "0"], 2, "0"),
    ],
    "trail concat": [
        missing(),
        (["{trail}", "trl_nothing", "--out", "{work}/both.pplt"], 1, "trl_nothing"),
        (["{trail}", "{file}", "--out", "{work}/both.pplt"], 2, "not a trail"),
    ],
    "trail export": [
        *no_trail(),
        (["{trail}", "--format", "pdf"], 2, "invalid choice"),
        (["{trail}", "--content"], 2, "--content is for --format otel"),
        (["{trail}", "--revision", "HEAD"], 2, "--revision is for --format agent-trace"),
        (["{trail}", "--with-trail"], 2, "--with-trail is for --format html"),
        (["{trail}", "--format", "html", "--withhold", "shoe"], 2, "no field 'shoe'"),
        (["{trail}", "--format", "html", "--withhold", "text,"], 2, "a name is empty"),
        (["{trail}", "--withhold", "text"], 2, "--withhold is for --format html and atif"),
        (["{trail}", "--format", "atif", "--withhold", "shoe"], 2, "no field 'shoe'"),
        (["{trail}", "--format", "atif", "--out", "{folder}"], 2, "is a folder"),
        (["--all", "{folder}"], 2, "--all is for --format html"),
        (["--all", "--format", "html"], 2, "required"),
        (["--all", "--format", "html", "{file}"], 2, "is not a folder"),
        (["--all", "--format", "html", "{folder}", "--out", "x.html"], 2, "--all writes a folder"),
        (["{trail}", "--out", "{folder}"], 2, "is a folder"),
    ],
    "trail import": [
        ([], 2, "nothing to import"),
        (["{absent}"], 1, "there is no file"),
        (["{folder}"], 2, "is a folder"),
        (["{file}"], 2, "{file}"),
        (["--git", "{folder}"], 2, "{folder}"),
        (["--kept", "{folder}"], 2, "{folder}"),
        (["--kept", "{absent}"], 1, "no folder"),
        (["--kept", "--follow"], 2, "not for --kept"),
        (["--git", "--max-commits", "0"], 2, "0 is too small"),
    ],
    "trail list": [EXTRA_WORD],
    "trail record": [
        EXTRA_WORD,
        (["--run", "run_0000000000000000"], 1, "run_0000000000000000"),
        (["--run", "{trail}"], 1, "there is no run"),
        (["--run", "run_0", "--title", "x"], 2, "has its agent"),
        (["--status", "fine"], 2, "invalid choice"),
        (["--pid", "0"], 2, "too small"),
    ],
    "trail seal": [
        (["run_0000000000000000"], 1, "run_0000000000000000"),
        (["{trail}"], 1, "there is no run"),
        (["--status", "fine"], 2, "invalid choice"),
    ],
    "trail prove": [
        *no_trail("--step", "0"),
        (["{trail}", "--step", "99999"], 1, "no step 99999"),
        (["{trail}", "--step", "-1"], 2, "-1"),
        (["{trail}", "--step", "0", "--withhold", "path"], 2, "nothing called 'path'"),
        (["{trail}", "--step", "0", "--withhold", "text,"], 2, "a name is empty"),
        (["{trail}", "--step", "0", "--header", "hat"], 2, "unknown field 'hat'"),
        (["{trail}", "--step", "0", "--part", "2"], 1, "no part 2"),
        *wrong_out("{trail}", "--step", "0"),
        (["{trail}", "--step", "0", "--out", "{file}"], 5, "is there already"),
    ],
    "trail diff": [
        missing(),
        (["{trail}"], 2, "required: B"),
        (["{trail}", "trl_nothing"], 1, "trl_nothing"),
        (["{trail}", "{file}"], 2, "not a trail"),
        (["{trail}", "{trail}", "--context", "-1"], 2, "-1"),
        (["{trail}", "{trail}", "--op", "FILE_RAED"], 2, "Did you mean FILE_READ"),
        (["{trail}", "{trail}", "--path", ""], 2, "path pattern"),
    ],
    "trail redact": [
        missing(),
        (["{trail}", "--out", "{absent}"], 2, "nothing is selected"),
        (["{trail}", "--out", "{absent}", "--text", ""], 2, "--text is empty"),
        (["{trail}", "--out", "{absent}", "--text-file", "{empty}"], 2, "is empty"),
        (["{trail}", "--out", "{absent}", "--text-file", "{absent}"], 1, "there is no file"),
        (["{trail}", "--out", "{absent}", "--pattern", "("], 2, "the pattern"),
        (["{trail}", "--out", "{absent}", "--pattern", ""], 2, "a pattern has 1 to"),
        (["{trail}", "--out", "{absent}", "--path", ""], 2, "path pattern"),
        (["{trail}", "--out", "{absent}", "--step", "99999"], 1, "no step 99,999"),
        (["{trail}", "--out", "{absent}", "--step", "0", "--part", "2"], 1, "no part 2"),
        (["{trail}", "--out", "{absent}", "--header", "hat"], 2, "unknown field 'hat'"),
        (["trl_nothing", "--out", "{absent}", "--secrets"], 1, "trl_nothing"),
        (["{file}", "--out", "{absent}", "--secrets"], 2, "not a trail"),
        (["{trail}", "--out", "{folder}", "--secrets"], 2, "is a folder"),
        (["{trail}", "--out", "{absent}/x/y", "--secrets"], 2, "{absent}"),
        (["{trail}", "--out", "{file}", "--text", "cog0"], 5, "is there already"),
    ],
    "trail show": [
        missing(),
        (["trl_nothing"], 1, "trl_nothing"),
        (["{trail}", "--at", "99999"], 1, "99,999"),
        (["{trail}", "--form", "verse"], 2, "invalid choice"),
        (["{trail}", "--steps", "a:b"], 2, "is not a range of steps"),
        (["{trail}", "--op", "FILE_RAED"], 2, "Did you mean FILE_READ"),
        (["{trail}", "--outcome", "happy"], 2, "unknown outcome 'happy'"),
        (["{trail}", "--path", ""], 2, "path pattern"),
        (["{trail}", "--at", "1", "--steps", "2:3"], 2, "--at cannot be combined"),
    ],
    "trail sign": [
        *no_trail("--out", "{work}/signed.pplt"),
        (["{trail}", "--out", "{work}"], 2, "is a folder"),
    ],
    "trail verify": [
        (["trl_nothing"], 1, "trl_nothing"),
        (["--key", "x"], 2, "not a public key"),
        (["--salvage", "x"], 2, "one TRAIL"),
        (["--repository", "{folder}"], 2, "--repository needs --effects"),
        (["--effects", "--repository", "{absent}"], 1, "there is no folder"),
        (["--against", "{trail}"], 2, "--against takes one file"),
        (["{file}", "--against", "trl_nothing"], 1, "trl_nothing"),
        (["{trail}", "--against", "{trail}"], 2, "is no trajectory in ATIF"),
    ],
    "context commit": [
        ([], 2, "nothing to commit"),
        (["{absent}"], 1, "there is no file"),
        (["{folder}"], 2, "is a folder"),
        (["{file}"], 2, "line 1: not JSON"),
        (["{binary}"], 2, "line 1"),
        (["--from", "hearsay"], 2, "is not a source of atoms"),
        (["--from", "trail"], 2, "is not a source of atoms"),
        (["--from", "trail", "trl_nothing"], 1, "trl_nothing"),
        (["--remove", "abcd"], 1, "no atom"),
        (["--remove", "a"], 2, "is not the beginning of a digest"),
        (["{atoms}", "--molecules", "{absent}"], 1, "there is no file"),
        (["{atoms}", "--molecules", "{file}"], 2, "line 1: not JSON"),
        (["{more_atoms}", "--ref", "a..b"], 2, "name"),
        (["{more_atoms}", "--base", "nothing"], 1, "no context is called 'nothing'"),
        (["{more_atoms}", "--base", "none"], 5, "stands at"),
        (["{more_atoms}", "--base", "main~1"], 5, "does not descend from"),
        (["{more_atoms}", "-m", "AKIAIOSFODNN7ABCDEFG"], 5, "secret"),
        (["{secret_atoms}"], 5, "line 1, content: what looks like a secret"),
    ],
    "context log": [
        (["nothing"], 1, "no context is called 'nothing'"),
        (["main~9"], 1, "stands on 1 context"),
        (["--limit", "0"], 2, "0 is too small"),
        (["other", "--ref-moves"], 1, "has never been a ref"),
    ],
    "context show": [(["nothing"], 1, "nothing"), (["abc"], 1, "abc"), (["main", "x"], 2, "unrecognized arguments: x")],
    "context diff": [missing("A"), (["nothing"], 1, "nothing"), (["main", "nothing"], 1, "nothing")],
    "context merge": [
        ([], 2, "nothing to merge"),
        (["nothing"], 1, "nothing"),
        (["branch", "--ref", "other"], 1, "no ref 'other'"),
        (["branch", "--ours", "abcd", "--theirs", "abcd"], 2, "both --ours and --theirs"),
        (["branch", "--ours", "abcd"], 2, "of the atoms in conflict"),
        (["branch", "--favour", "mine"], 2, "invalid choice"),
    ],
    "context blame": [
        missing("ATOM"),
        (["abcd"], 1, "no atom"),
        (["{atom}", "nothing"], 1, "nothing"),
        (["ab" * 32], 1, "never had atom"),
    ],
    "context bisect": [
        ([], 2, "one of the arguments"),
        (["--has", ""], 2, "empty"),
        (["--atom", "abcd"], 1, "no atom"),
        (["--has", "teeth", "--lacks", "main"], 2, "lacks"),
        (["--run"], 2, "the command is missing"),
        (["--run", "{absent}"], 2, "cannot be run"),
    ],
    "context expand": [(["nothing"], 1, "nothing"), (["--limit", "0"], 2, "0 is too small")],
    "context select": [
        (["nothing"], 1, "nothing"),
        (["--budget", "0"], 2, "0 is not between"),
        (["--type", "List["], 2, "--type 'List[' is not a type"),
        (["--relevance", "NaN"], 2, "NaN"),
        (["--relevance", "2"], 2, "not between 0 and 1"),
        (["--since", "soon"], 2, "is not a time"),
        (["--tag", ""], 2, "tags"),
        (["--matching"], 2, "--matching goes with --query"),
    ],
    "context stream": [
        (["nothing"], 1, "nothing"),
        (["--atoms", "0"], 2, "0 is too small"),
        (["--resume", "99"], 2, "99"),
    ],
    "context refs": [
        (["--set", "name"], 2, "expected 2 arguments"),
        (["--set", "a..b", "main"], 2, "a..b"),
        (["--set", "other", "nothing"], 1, "nothing"),
        (["--set", "main", "main~1"], 5, "does not descend from"),
        (["--end", "nothing"], 1, "no ref"),
        (["--force"], 2, "--force goes with"),
    ],
    "context push": [
        *WRONG_PLACES,
        *wrong_credentials("{clone}"),
        (["{clone}", "nothing"], 1, "no context is called 'nothing'"),
        (["{clone}", "main~1"], 2, "is not a ref"),
        (["{clone}", "--to", "a..b"], 2, "a..b"),
        (["{clone}", "main~1", "--to", "main"], 5, "does not descend from"),
    ],
    "context pull": [
        *WRONG_PLACES,
        *wrong_credentials("{clone}"),
        (["{clone}", "nothing"], 1, "has no ref 'nothing'"),
        (["{clone}", "--to", "a..b"], 2, "a..b"),
    ],
    "context clone": [
        *WRONG_PLACES,
        *wrong_credentials("{project}", "{folder}"),
        (["{project}", "{absent}"], 2, "is not a folder"),
    ],
    "context serve": [
        EXTRA_WORD,
        (["--tcp", "nowhere"], 2, "is not HOST:PORT"),
        (["--tcp", "127.0.0.1:0", "--tls-cert", "{absent}"], 1, "there is no file"),
        (["--tcp", "127.0.0.1:0", "--tls-cert", "{file}"], 2, "TLS needs two files"),
        (["--tcp", "0.0.0.0:0"], 5, "token"),
        (["--token-file", "{secret}"], 2, "--token-file is for --tcp"),
    ],
    "context gc": [(["--prune", "0"], 2, "0 is not between"), (["--grace", "-1"], 2, "-1")],
    "prove": [
        ([], 2, "give either SEQ"),
        (["0"], 2, "0 is too small"),
        (["99"], 1, "99"),
        (["-1"], 2, "-1"),
        (["1", "2"], 2, "give either SEQ"),
        (["--from", "2", "--to", "1"], 2, "--to 1 comes before --from 2"),
        (["--from", "99"], 1, "99"),
        *wrong_out("1"),
        (["--bundle"], 2, "--bundle"),
        (["--bundle", *map(str, range(1, 100))], 1, "in this store's own lineage; it has 1 to"),
    ],
    "head": wrong_out(),
    "verify": [
        missing("PROOF"),
        (["{absent}"], 1, "there is no file"),
        (["{folder}"], 2, "is a folder"),
        (["{proof}", "--key", "abc"], 2, "not a public key"),
        (["{proof}", "--head", "abc"], 2, "is not a tree head"),
        (["{proof}", "--head", "9:zz"], 2, "digest"),
        (["{proof}", "--trail-digest", "ab"], 2, "--trail-digest goes with"),
    ],
    "redact": [
        ([], 2, "name the secret with --secret-file"),
        (["--reason", "why"], 2, "--secret-file"),
        (["--secret-file", "{secret}"], 2, "Add --reason"),
        (["--seq", "99", "--reason", "why"], 1, "99"),
        (["--secret-file", "{absent}", "--reason", "why"], 1, "there is no file"),
        (["--secret-file", "{folder}", "--reason", "why"], 2, "is a folder"),
        (["--secret-file", "{empty}", "--reason", "why"], 2, "is empty"),
        (["--secret-file", "{binary}", "--reason", "why"], 2, "UTF-8"),
        (["--seq", "1", "--reason", ""], 2, "reason"),
    ],
    "migrate": [
        (["--from", "{v1}"], 2, "--from needs --to dual"),
        (["--from", "{absent}", "--to", "dual"], 1, "{absent}"),
        (["--from", "{file}", "--to", "dual"], 2, "{file}"),
        (["--to", "dual"], 2, "--from"),
        (["--to", "primary"], 2, "dual"),
        (["--to", "sideways"], 2, "invalid choice"),
        (["--take", "files"], 2, "no folder to migrate is named"),
        (["--heal"], 2, "no folder to migrate is named"),
    ],
    "export": [
        (["{file}"], 5, "is there already"),
        (["{folder}"], 5, "is there already"),
        (["{absent}/x/y.zip"], 2, "{absent}"),
        (["--markdown", "{file}"], 2, "is not a folder"),
        (["--markdown", "{absent}/x"], 2, "there is no folder"),
        (["--markdown", ""], 2, "is empty"),
        (["x.zip", "--markdown", "book"], 2, "FILE and --markdown cannot be combined"),
        (["--force"], 2, "is for --markdown"),
        (["--damaged", "--markdown", "book"], 2, "is for a file"),
        (["{file}", "--damaged"], 5, "is there already"),
    ],
    "import": [
        missing("FILE"),
        (["{absent}", "{folder}"], 1, "{absent}"),
        (["{folder}", "{folder}"], 2, "is a folder"),
        (["{file}", "{folder}"], 2, "{file}"),
        (["{empty}", "{folder}"], 2, "{empty}"),
        (["{package}", "{file}"], 2, "is not a folder"),
        (["{package}", "{file}/x"], 2, "is not a folder"),
        (["{package}", "{project}"], 5, "has a store"),
        (["{package}", "{project}/.periplus"], 5, "is a store, or is inside one"),
        (["{package}", "{project}/.periplus/x"], 5, "is a store, or is inside one"),
        (["{file}", "{folder}", "--damaged"], 2, "{file}"),
        (["{package}", "{project}", "--damaged"], 5, "has a store"),
    ],
    "sync": [
        ([], 2, "required: --with"),
        (["--with", ""], 2, "is not a folder or git remote"),
        (["--with", "--upload-pack=x"], 2, "--with"),
        (["--with", "-x"], 2, "--with"),
        (["--with", "{file}"], 2, "{file}"),
        (["--with", "https://127.0.0.1:1/none.git"], 3, "127.0.0.1"),
    ],
    "reflect": [
        (["nothing"], 1, "no trail"),
        ([""], 2, "TRAIL is empty"),
        (["--since", "soon"], 2, "--since 'soon' is not a time"),
        (["--all", "--since", "2026-01-01"], 2, "TRAIL, --all and --since cannot be combined"),
        (["{trail}", "--all"], 2, "TRAIL, --all and --since cannot be combined"),
        (["{note}"], 1, "no trail"),
    ],
    "candidates list": [EXTRA_WORD],
    "candidates show": [missing("ID"), (["nothing"], 1, "nothing"), (["{note}"], 2, "not a candidate")],
    "candidates accept": [
        missing("ID"),
        (["nothing"], 1, "nothing"),
        (["{candidate}", "--type", "plan"], 2, "invalid choice"),
        (["{candidate}", "--text", " "], 2, "--text is empty"),
        (["{candidate}", "--text", "x" * 9000], 2, "limit is 8,000"),
        (["{candidate}", "--text", "AKIAIOSFODNN7ABCDEFG"], 5, "looks like a secret"),
        (["{note}"], 2, "not a candidate"),
    ],
    "candidates refuse": [
        missing("ID"),
        (["nothing"], 1, "nothing"),
        (["{candidate}", "--reason", ""], 2, "--reason is empty"),
        (["{candidate}", "--reason", "AKIAIOSFODNN7ABCDEFG"], 5, "looks like a secret"),
        (["{note}"], 2, "not a candidate"),
    ],
    "inbox list": [EXTRA_WORD],
    "inbox accept": NO_CANDIDATE,
    "inbox refuse": NO_CANDIDATE,
    "hook": [missing("EVENT"), (["Stop", "again"], 2, "unrecognized arguments: again")],
    "doctor": [
        (["--from", "{folder}"], 2, "--from goes with --repair"),
        (["--repair", "--from", "{absent}"], 2, "is neither a folder nor"),
        (["--repair", "--from", "{file}"], 2, "not an exported store"),
        (["--fix"], 2, "unrecognized arguments: --fix"),
    ],
}

COMMANDS_SAMPLED = 12  # of each matrix over all commands, in `make test`

ABSURD = [
    "--",
    "",
    "\0",
    "a\0b",
    "\udcff",
    "-1",
    "9" * 30,
    "x" * 5_000,
    "/dev/null/x",
    "\x1b[2J\r\n",
    "٣",
    "1e9",
    "NaN",
]

# Derived, or a courtesy: what may differ when nothing was changed.
DERIVED = ("index.sqlite", "index.sqlite-shm", "index.sqlite-wal", "lock", "projection.lock", "flush", "flush.lock")


class Place:
    """A store with something of everything, and the words of the tables filled in for it."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.project = work / "project"
        self.words = {"work": work, "project": self.project, "absent": work / "absent"}

    def fill(self, words):
        return [word.format(**self.words) if "{" in word else word for word in words]

    def snapshot(self):
        found = {}
        top = os.fspath(self.work)
        for folder, folders, names in os.walk(top):
            folders[:] = [name for name in folders if name not in {*DERIVED, "cache", "tree", "remotes", "peers"}]
            for name in folders:
                found[os.path.relpath(os.path.join(folder, name), top)] = b"a folder"
            for name in names:
                path = os.path.join(folder, name)
                if name not in DERIVED:
                    found[os.path.relpath(path, top)] = Path(path).read_bytes() if os.path.isfile(path) else b"a folder"
        return found

    def run(self, *words, stdin=""):
        """Exit code, standard output and standard error of ``main``, as ``periplus`` runs it."""
        streams = sys.stdin, sys.stdout, sys.stderr
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", errors="backslashreplace") for _ in range(2))
        sys.stdin, sys.stdout, sys.stderr = io.TextIOWrapper(io.BytesIO(stdin.encode())), out, err
        try:
            code = main(list(words))
        except SystemExit as left:
            code = left.code
        finally:
            sys.stdin, sys.stdout, sys.stderr = streams
        texts = []
        for stream in (out, err):
            stream.flush()
            texts.append(stream.buffer.getvalue().decode())
        return (code, *texts)

    def fails(self, words, code, wrong=""):
        before = self.snapshot()
        found, out, err = self.run(*words)
        told = f"{words}: exit {found}\n{out[:500]}{err[:1500]}"
        assert found == code, told
        assert out == "", told
        check_told(err, told)
        assert wrong.lower() in err.lower(), told
        assert self.snapshot() == before, f"{words} changed something"
        found, out, _ = self.run(*words, "--json")
        document = json.loads(out)
        assert (document["schema"], document["exit_code"], found) == ("periplus.error/1", code, code), out
        assert self.snapshot() == before, f"{words} --json changed something"

    def restore(self, before):
        """Everything as it was, in place: a store whose files are others is a copy."""
        now = self.snapshot()
        if now == before:
            return
        for name in sorted(now.keys() - before.keys()):
            path = self.work / name
            if path.is_dir():
                shutil.rmtree(path)
            elif path.exists():
                path.unlink()
        for name, data in before.items():
            path = self.work / name
            if now.get(name) == data:
                continue
            if data == b"a folder":
                path.mkdir(parents=True)
            else:
                path.write_bytes(data)
        for path in self.work.rglob("*"):
            if path.name in DERIVED and path.name != "lock":
                path.unlink()


def check_told(err, told):
    lines = err.splitlines()
    assert 1 <= len(lines) <= 2, told
    assert lines[0].startswith("periplus: "), told
    assert all(len(line) < 1_000 for line in lines), told
    assert "Traceback" not in err, told
    assert "defect" not in err, told
    assert not {"\x1b", "\0"} & set(err), told


def make_place(work: Path) -> Place:
    place = Place(work)
    for name in ("project", "folder", "home"):
        (work / name).mkdir()
    place.words |= {
        "folder": work / "folder",
        "file": work / "file.txt",
        "empty": work / "empty",
        "binary": work / "binary",
    }
    (work / "file.txt").write_text("no transcript, no proof, no package\n")
    (work / "empty").write_bytes(b"")
    (work / "secret").write_text("Thing number 1")
    place.words["secret"] = work / "secret"
    (work / "binary").write_bytes(bytes(range(256)))
    place.words["session"] = claude_session(work / "another.jsonl", session="5e551012")
    make_v1(work / "v1", count=20)
    place.words["v1"] = work / "v1"
    other = make_repository(work / "other")
    Project.init(os.fspath(other))
    with Project.open(os.fspath(other), Writer("bob", "who_0000000000000001", "", 1)) as project:
        project.remember(Memory("lesson", "Another project learned this"))
    make_repository(place.project)
    Project.init(os.fspath(place.project))
    with Project.open(os.fspath(place.project), Writer("ada", "who_0000000000000000", "", 1)) as project:
        notes = [project.remember(Memory("note", f"Thing number {number}")).entity.item_id for number in (1, 2, 3)]
        place.words |= {"note": notes[1], "another_note": notes[2]}
        place.words["trap"] = project.remember(
            Memory("trap", "A thing may bite", extra={"check": "true"})
        ).entity.item_id
        draft = Draft("routine", "oil-it", "Oils it", "Oil it.", ("oil --all", "run"), ("s1#1", "s1#2"))
        place.words["skill"] = propose(project.journal, project.writer, [(draft, "rule")]).new[0]
    place.words["plugin"] = work / "home" / ".config" / "periplus" / "plugins" / "oily"
    place.words["plugin"].mkdir(parents=True)
    (place.words["plugin"] / "plugin.toml").write_text('name = "oily"\nversion = "1"\n')
    os.chdir(place.project)
    trail = place.run("trail", "import", os.fspath(claude_session(work / "one.jsonl")), "--json")
    assert trail[0] == 0, trail
    place.words["trail"] = json.loads(place.run("trail", "list", "--json")[1])["trails"][0]["id"]
    for name, texts in (("atoms", ["Cogs have teeth"]), ("branch_atoms", ["Wheels are round"]), ("more_atoms", ["Oil is wet"]),
                        ("secret_atoms", ["AKIAIOSFODNN7ABCDEFG"])):  # fmt: skip
        place.words[name] = work / f"{name}.jsonl"
        place.words[name].write_text("".join(json.dumps({"content": text}) + "\n" for text in texts))
    assert place.run("context", "commit", "--from", "memory")[0] == 0
    assert place.run("context", "refs", "--set", "branch", "main")[0] == 0
    assert place.run("context", "commit", os.fspath(place.words["atoms"]))[0] == 0
    assert place.run("context", "commit", os.fspath(place.words["branch_atoms"]), "--ref", "branch")[0] == 0
    assert place.run("context", "gc")[0] == 0
    place.words["atom"] = json.loads(place.run("context", "expand", "--limit", "1", "--json")[1].splitlines()[0])[
        "atom"
    ]["digest"]
    claim = place.run("claim", "take", "docs", "--json")
    assert claim[0] == 0, claim
    place.words["claim"] = json.loads(claim[1])["claim"]["id"]
    made = json.loads(place.run("plan", "make", "Count the cogs", "--step", "Find them", "--json")[1])
    place.words |= {"plan": made["plan"]["id"], "step": made["steps"][0]["id"]}
    with Project.open(os.fspath(place.project), Writer("ada", "who_0000000000000000", "", 1)) as project:
        order = Order(project)
        offered, failed = order.offer(1), order.start(0)
        order.change(failed, "failed", reason="it gave up", question=NewQuestion("Which colour?", order.id))
        (question,) = open_questions(project.journal)
        found = [
            open_loop(
                project.journal, project.writer, NewLoop("debug", text, "reproduce", ("periplus",), "1" * 40, "1" * 40)
            )
            for text in ("It is slow", "It is wrong", "It is over")
        ]
        close_loop(project.journal, project.writer, found[2], "settled")
    place.words |= {
        "dispatch": order.id,
        "loop": found[0].item_id,
        "closed_loop": found[2].item_id,
        "offered": offered.item_id,
        "failed": failed.item_id,
        "question": question.item_id,
    }
    place.words["handoff"] = json.loads(place.run("handoff", "write", "Two cogs", "--json")[1])["handoff"]["id"]
    sent = place.run("inbox", "send", "ada", "How many?", "--as", "bob", "--json")
    place.words["message"] = json.loads(sent[1])["messages"][0]["id"]
    assert place.run("session", "begin", "morning")[0] == 0
    place.words["worklog"] = work / "worklog.json"
    place.words["worklog"].write_text('[{"op":"FILE_READ","path":"a.txt"}]')
    assert place.run("sync", "--with", os.fspath(other), "--candidates")[0] == 0
    place.words["candidate"] = json.loads(place.run("inbox", "list", "--json")[1])["candidates"][0]["id"]
    place.words |= {"proof": work / "record.proof", "package": work / "store.zip", "clone": work / "clone"}
    assert place.run("prove", "1", "--out", os.fspath(work / "record.proof"))[0] == 0
    assert place.run("export", os.fspath(work / "store.zip"))[0] == 0
    (work / "clone").mkdir()
    assert place.run("import", os.fspath(work / "store.zip"), os.fspath(work / "clone"))[0] == 0
    assert place.run("context", "push", os.fspath(work / "clone"))[0] == 0
    os.chdir(work / "clone")
    assert place.run("context", "refs", "--set", "ahead", "main")[0] == 0
    assert place.run("context", "commit", os.fspath(work / "branch_atoms.jsonl"), "--ref", "ahead")[0] == 0
    os.chdir(place.project)
    return place


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    here = os.getcwd()
    kept = dict(os.environ)
    work = tmp_path_factory.mktemp("wrong")
    os.environ.update(HOME=os.fspath(work / "home"), LOGNAME="ada", GIT_CONFIG_NOSYSTEM="1")
    for name in ("PERIPLUS_STORE", "PERIPLUS_AGENT", "PERIPLUS_SESSION", "PERIPLUS_TRACEBACK"):
        os.environ.pop(name, None)
    yield make_place(work)
    os.environ.clear()
    os.environ.update(kept)
    os.chdir(here)


@pytest.fixture(autouse=True)
def in_project(place):
    os.chdir(place.project)


def all_leaves():
    """``(name, parser)`` of everything that can be typed."""
    for command in COMMANDS:
        parser = make_parser(command.name)
        (actions,) = (action for action in parser._actions if hasattr(action, "choices") and action.dest == "command")
        for leaf in leaves(actions.choices[command.name]):
            yield leaf.prog.removeprefix("periplus "), leaf


LEAVES = dict(all_leaves())


def right_words(place, name):
    return [*name.split(), *place.fill(RIGHT[name][1])]


def with_effect(*effects):
    return [name for name, (effect, _) in RIGHT.items() if effect in effects]


def test_no_command_is_left_out():
    assert sorted(RIGHT) == sorted(WRONG) == sorted(LEAVES)


@pytest.mark.parametrize("name", sampled(sorted(WRONG), COMMANDS_SAMPLED))
def test_wrong_arguments(place, name):
    for words, code, wrong in WRONG[name]:
        place.fails([*name.split(), *place.fill(words)], code, wrong.format(**place.words) if "{" in wrong else wrong)


@pytest.mark.parametrize("name", sampled(sorted(LEAVES), COMMANDS_SAMPLED))
def test_wrong_options_of_all_commands(place, name):
    right = right_words(place, name)
    place.fails([*right, "--frobnicate"], 2, "--frobnicate")
    place.fails([*right, "--color", "mauve"], 2, "mauve")
    place.fails([*right, "--color=--"], 2, "'--'")
    for option in ("--store", "--as", "--color"):
        place.fails([*right, option], 2, "expected one argument")
    if name not in ("init", "tour"):
        effect, _ = RIGHT[name]
        for wrong in (place.words["absent"], place.words["file"], place.words["folder"]):
            if effect in ("reads", "writes"):
                place.fails([*right, "--store", os.fspath(wrong)], 2, "store")


@pytest.mark.slow
@pytest.mark.parametrize("name", sampled(sorted(set(LEAVES) - {"tour", "web"}), 5))  # web would serve
def test_absurd_values_of_every_argument(place, name):
    """Where it is no error, it is answered; where it is one, nothing was changed; a defect it is never."""
    right = right_words(place, name)
    before = place.snapshot()
    for action in LEAVES[name]._actions:
        if action.nargs == 0:
            continue
        for absurd in ABSURD:
            is_option = bool(action.option_strings)
            words = [*right, f"{action.option_strings[0]}={absurd}"] if is_option else [*name.split(), absurd]
            code, out, err = place.run(*words)
            told = f"{words}: exit {code}\n{out[:500]}{err[:1500]}"
            assert code in (0, 1, 2, 3, 5), told
            assert "\x1b" not in out, told
            if code == 0 or (out and not err):  # done, and perhaps with something to look at
                place.restore(before)
            else:
                check_told(err or out, told)
                assert place.snapshot() == before, told


@pytest.mark.parametrize("name", sampled(with_effect("reads", "writes"), COMMANDS_SAMPLED))
def test_where_there_is_no_store(place, name, tmp_path):
    os.chdir(tmp_path)
    place.fails(right_words(place, name), 2, "no store in")
    assert os.listdir(tmp_path) == []


def apart(snapshot):
    """Without what is written before a record is: objects, which no record names then, and a migration's backup."""
    return {
        name: data for name, data in snapshot.items() if not {"objects", "archive", "migration"} & set(name.split("/"))
    }


@pytest.mark.parametrize("name", sampled(["init", *with_effect("reads", "writes")], COMMANDS_SAMPLED))
def test_a_store_of_a_newer_format(place, name):
    config = place.project / ".periplus/config.toml"
    text = config.read_text()
    config.write_text(text.replace("format = 2", "format = 3"))
    try:
        place.fails(right_words(place, name), 3, "the store has format 3; this Periplus reads up to 2")
    finally:
        config.write_text(text)


@pytest.mark.parametrize("name", sampled(with_effect("reads", "writes"), COMMANDS_SAMPLED))
def test_a_damaged_store_is_not_written_to(place, name):
    (segment,) = (place.project / ".periplus/journal").glob("lin_*/0*.jsonl")
    before = place.snapshot()
    sound = segment.read_bytes()
    bad = bytearray(sound)
    bad[sound.rindex(b'"sum":"') + 8] ^= 1
    segment.write_bytes(bad)
    damaged = place.snapshot()
    try:
        code, out, err = place.run(*right_words(place, name))
        told = f"{name}: exit {code}\n{out}{err}"
        after = place.snapshot()
        if name.startswith(("inbox accept", "inbox refuse", "candidates ")) and not name.endswith(" list"):
            assert code in (1, 3), told  # the candidate may have been in the damaged record
            assert out == "", told
            assert "The store is damaged" in err or "checksum" in err, told
        elif RIGHT[name][0] == "writes":
            assert (code, out) == (3, ""), told
            check_told(err, told)
            assert "seq" in err, told
            assert "doctor" in err, told
        else:
            assert code in (0, 1, 3), told
            assert "damage" in out + err or "doctor" in out + err or "checksum" in out + err, told
        for made in {word for word in right_words(place, name) if name in WRITES_A_FILE}:
            after.pop(os.path.basename(made), None)  # from what is sound
        assert apart(after) == apart(damaged), told
    finally:
        place.restore(before)
    assert segment.read_bytes() == sound


def here(snapshot):
    """Without the clone, which has what was sent to it, and what is known of who wrote there."""
    return {
        name: data for name, data in apart(snapshot).items()
        if data != b"a folder" and not name.startswith("clone/") and not {"keys", "peers", "sync.lock"} & set(name.split("/"))
    }  # fmt: skip


@pytest.mark.parametrize("name", sampled(with_effect("reads", "writes"), COMMANDS_SAMPLED))
def test_a_lock_that_is_held(place, name, monkeypatch):
    """Who reads is answered; who writes is told by whom the store is written, and nothing was changed."""
    holding = Lock.holding
    monkeypatch.setattr(Lock, "holding", lambda self, _patience_s=0, *more: holding(self, 0.05, *more))
    before = place.snapshot()
    with open(place.project / ".periplus/journal/lock", "r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(b"4711 far.example.org 2026-02-03T10:00:00.000Z periplus remember".ljust(199) + b"\n")
        lock.flush()
        code, out, err = place.run(*right_words(place, name))
        if name == "sync":  # what it sends has a lock of its own; what it would have taken in is told of
            assert (code, err) == (4, ""), f"{name}: exit {code}\n{out}{err}"
            assert "being written by 4711 far.example.org" in out
            assert here(place.snapshot()) == here(before)
        elif RIGHT[name][0] == "writes":
            assert (code, out) == (4, ""), f"{name}: exit {code}\n{out}{err}"
            check_told(err, err)
            assert "being written by 4711 far.example.org" in err
            assert apart(place.snapshot()) == apart(before)
        else:
            told = f"{name}: exit {code}\n{out}{err}"
            is_one = name in (
                "doctor",
                "context serve",
                "skills mine",
            )  # doctor tells of the lock; no server runs, no agent ran
            assert (code, err) == (1 if is_one else 0, ""), told
    place.restore(before)


NOBODY = 65534


@pytest.fixture(scope="module")
def public():
    """A place in a folder that everybody can reach, in which nobody may write any more."""
    work = Path(tempfile.mkdtemp(prefix="periplus-"))
    work.chmod(0o755)
    here = os.getcwd()
    made = make_place(work)
    before = made.snapshot()
    for name in RIGHT:  # everything is imported before privileges are dropped: the interpreter may not be readable then
        if name not in ("tour", "web"):
            made.run(*right_words(made, name))
            made.restore(before)
    made.run("status")
    for place, _, names in os.walk(work):
        for name in names:
            path = os.path.join(place, name)
            if not os.path.islink(path):
                os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) & ~0o222)
        os.chmod(place, 0o555)
    yield made
    os.chdir(here)
    for place, _, _ in os.walk(work):
        os.chmod(place, 0o700)
    shutil.rmtree(work)


def as_nobody(place, words):
    """``place.run`` in a child that may write nowhere."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.chdir(place.project)
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            with open(write, "w", encoding="utf-8") as pipe:
                json.dump(place.run(*words), pipe)
        finally:
            os._exit(0)
    os.close(write)
    with open(read, encoding="utf-8") as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text)


@pytest.mark.parametrize("name", sampled(["init", *with_effect("reads", "writes")], COMMANDS_SAMPLED))
def test_a_store_that_may_not_be_written(public, name):
    before = public.snapshot()
    words = right_words(public, name)
    code, out, err = as_nobody(public, words)
    told = f"{words}: exit {code}\n{out}{err}"
    if RIGHT[name][0] == "writes" or name == "export":
        assert code == 3, told
        assert "Permission denied" in out + err, told
    elif code != 0:
        assert code in (1, 3), told
        assert "Traceback" not in err, told
    assert public.snapshot() == before, told
