"""Connecting agents: their config files, as people have them, get our part and nothing else, and lose it again without a trace."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from periplus.base.errors import ConflictError, FormatError, RefusedError
from periplus.interop.agents import AGENT_NAMES, Site, agent_named, all_agents
from periplus.interop.agents.config_files import Keeping, apply, plan_connect, plan_disconnect
from periplus.interop.agents.editing.jsonc_editing import parse
from periplus.interop.formats import format_names
from periplus.interop.hooks.events import AGENTS as HOOK_AGENTS
from periplus.interop.hooks.events import kind_of, read_event
from support import Stop, StoppingFiles

RULES = "## Periplus\n\n- Ask `periplus brief`.\n"
NAMES = AGENT_NAMES


def site_of(folder, scope="project", command=("periplus",), rules=RULES):
    """A project and a home folder beside each other."""
    project, home = folder / "project", folder / "home"
    project.mkdir(exist_ok=True)
    home.mkdir(exist_ok=True)
    paths = [os.fspath(path) for path in (project, home, home / ".config", home / ".codex")]
    return Site(scope, *paths, False, command, rules, "## Periplus\n\nElsewhere.\n")


class Place:
    def __init__(self, folder, scope="project", **more):
        self.folder = folder
        self.site = site_of(folder, scope, **more)
        self.base = folder / ("project" if scope == "project" else "home")
        self.keeping = Keeping(os.fspath(folder / "kept"))

    def connect(self, *names, files=None):
        agents = [agent_named(name) for name in names or NAMES]
        changes = plan_connect(self.site, agents, self.keeping)
        apply(changes, Keeping(self.keeping.folder, files) if files else self.keeping)
        return changes

    def disconnect(self, *names, files=None):
        agents = [agent_named(name) for name in names or NAMES]
        others = [agent for agent in all_agents() if agent not in agents]
        changes = plan_disconnect(self.site, agents, others, self.keeping)
        apply(changes, Keeping(self.keeping.folder, files) if files else self.keeping)
        return changes

    def snapshot(self):
        return {
            os.fspath(path.relative_to(self.base)): path.read_bytes() if path.is_file() else b"a folder"
            for path in sorted(self.base.rglob("*"))
        }


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


# -- the table -------------------------------------------------------------------------------------------------------

SERVERS = """{
  "mcpServers": {
    "github": {
      "type": "http",
      "url": "https://api.example.org/mcp/",
      "headers": {"Authorization": "Bearer ${GITHUB_TOKEN}"}
    },
    "files": {"command": "npx", "args": ["-y", "some-server", "/a b"]}
  }
}
"""
CLAUDE_SETTINGS = """{
    "permissions": {
        "allow": ["Bash(npm run test:*)", "Read(~/.zshrc)"],
        "deny": [
            "Read(./.env)"
        ]
    },
    "hooks": {
        "PostToolUse": [
            {
                "matcher": "Edit|Write",
                "hooks": [{"type": "command", "command": "npx prettier --write"}]
            }
        ],
        "Notification": [{"hooks": [{"type": "command", "command": "notify-send hi"}]}]
    },
    "model": "opus"
}"""
CURSOR_HOOKS = """{
\t"version": 1,
\t"hooks": {
\t\t"afterFileEdit": [ { "command": "./format.sh" } ],
\t\t"stop": [
\t\t\t{ "command": "./audit.sh" }
\t\t]
\t}
}
"""
VSCODE_MCP = """// servers of this workspace
{
  /* asked once */
  "inputs": [
    { "type": "promptString", "id": "key", "description": "Key", "password": true }, // kept by VS Code
  ],
  "servers": {
    // the browser
    "playwright": {
      "command": "npx",
      "args": ["-y", "@playwright/mcp@latest"], // newest
    }, // and no more
  },
}
"""
GEMINI = """{
  "theme": "GitHub", // light
  "context": { "fileName": ["GEMINI.md"] },
  "mcpServers": {},
  "hooks": {"BeforeTool": []}
}
"""
OPENCODE = """{
  "$schema": "https://opencode.ai/config.json",
  // "model": "anthropic/claude",
  "mcp": { "jira": { "type": "remote", "url": "https://jira.example.com/mcp", "enabled": true } },
  "permission": { "bash": { "git push *": "ask", "*": "allow" } }
}
"""
CODEX = '''# my settings
model = "gpt-5-codex"
approval_policy = "on-request"   # ask

[features]
web_search = true

[mcp_servers.docs]
command = "npx"
args = [
  "-y", # yes
  "docs-mcp",
]
env = { "TOKEN" = "x" }

[mcp_servers.docs.tools.search]
approval_mode = "approve"

[[rules]]
text = """
[mcp_servers.periplus]
not = "a table"
"""

[projects."/home/ada/shop"]
trust_level = "trusted"
'''
ZED = """// Zed settings
{
  "tab_size": 2, // as everywhere
  "context_servers": {
    "docs": { "command": "npx", "args": ["-y", "docs-mcp"], "env": {} }, // kept
  },
}
"""
AMP = """{
  // costs are ours to see
  "amp.showCosts": true,
  "amp.mcpServers": {
    "playwright": { "command": "npx", "args": ["-y", "@playwright/mcp@latest"] } // newest
  }
}
"""
VIBE = """# Vibe
active_model = "devstral-small"   # cheap

[[models]]
name = "devstral-small-latest"
provider = "mistral"

[[mcp_servers]]
name = "docs"
transport = "http"
url = "https://docs.example.org/mcp"

[mcp_servers.auth] # of docs
type = "oauth"
scopes = [
  "read", # only
]

[session_logging]
enabled = true
"""
GPTME = """# read by gptme
files = ["README.md"]

[mcp]
auto_start = true # all of them
enabled = true

[prompt]
prompt = '''
[[mcp.servers]]
name = "not one"
'''
"""
HERMES = """# Hermes
model:
  default: "anthropic/claude-opus"   # the best
  provider: auto
toolsets: [hermes-cli, "web"]
agent:
    max_turns: 90
    system_prompt: |+
      Be brief: never say
      mcp_servers:
        periplus: {}

mcp_servers:
  # the files
  files:
    command: npx
    args:
    - -y
    - some-server
    env: {A: 'b', "C": [1, 2]}
  'odd name': {url: https://x.example/mcp#c}
display: &shown
  compact: false
other: *shown
last: >-
  folded
  text
"""
GOOSE = """GOOSE_PROVIDER: "anthropic"
GOOSE_MODE: smart_approve

# what it may use
extensions:
  developer:
    bundled: true
    enabled: true
    name: developer
    timeout: 300
    type: builtin

  memory:
    enabled: false # not now
slash_commands:
- command: "run-tests"
  recipe_path: "/path/to/recipe.yaml"
GOOSE_SEARCH_PATHS:
  - "/usr/local/bin"
"""
OPENCLAW = """// my claw
{
  gateway: { port: 0x4AFA, 'bind': "loopback", ratio: .5, most: +Infinity, },
  agents: { defaults: { workspace: '~/.openclaw/"workspace"', note: 'it\\'s \\
long' } },
  mcp: {
    servers: {
      docs: { command: 'uvx', args: ['mcp-server-fetch'] }, // fetch
    },
  },
  $include: './more.json5', /* last */
}
"""
AGENTS_MD = "# Shop\n\nUse `make test`.\n\n## Style\n\n- Two spaces\n"

FILES = {
    "claude-code": {".mcp.json": SERVERS, ".claude/settings.json": CLAUDE_SETTINGS, "CLAUDE.md": "# Claude\n@docs/x.md\n"},
    "codex": {".codex/config.toml": CODEX, ".codex/hooks.json": '{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"x"}]}]}}'},
    "cursor": {".cursor/mcp.json": SERVERS, ".cursor/hooks.json": CURSOR_HOOKS},
    "vscode": {".vscode/mcp.json": VSCODE_MCP},
    "gemini": {".gemini/settings.json": GEMINI, "GEMINI.md": "Be brief."},
    "opencode": {"opencode.jsonc": OPENCODE},
    "cline": {},
    "kilo-code": {"kilo.jsonc": OPENCODE},
    "roo-code": {".roo/mcp.json": SERVERS},
    "continue": {".continue/mcpServers/periplus.json": SERVERS, ".continue/rules/periplus.md": "Be brief."},
    "windsurf": {},
    "zed": {".zed/settings.json": ZED},
    "kiro": {".kiro/settings/mcp.json": SERVERS},
    "antigravity": {".agents/mcp_config.json": SERVERS},
    "qwen-code": {".qwen/settings.json": GEMINI},
    "copilot-cli": {".github/mcp.json": SERVERS},
    "crush": {".crush.json": OPENCODE},
    "amp": {".amp/settings.jsonc": AMP},
    "droid": {".factory/mcp.json": SERVERS},
    "auggie": {".augment/settings.json": GEMINI},
    "kimi-code": {".kimi-code/mcp.json": SERVERS},
    "grok-build": {".grok/config.toml": CODEX},
    "pi": {},
    "aider": {"CONVENTIONS.md": "# Conventions\n- Types everywhere"},
    "gptme": {"gptme.toml": GPTME},
    "mistral-vibe": {".vibe/config.toml": VIBE},
    "hermes": {".hermes/config.yaml": HERMES, ".hermes/SOUL.md": "You are calm."},
    "goose": {".config/goose/config.yaml": GOOSE, ".config/goose/.goosehints": "Be brief.\n"},
    "openclaw": {".openclaw/openclaw.json": OPENCLAW, ".openclaw/workspace/AGENTS.md": "Be calm."},
}  # fmt: skip
OF_PERSONS = {"hermes", "goose", "openclaw"}  # their files above are in the home folder


def crlf(text):
    return text.replace("\n", "\r\n")


def bare(text):
    return text.rstrip("\n")


def squeezed(text):
    return re.sub(r"\s*\n\s*", " ", text) if "//" not in text and "#" not in text and "=" not in text else text


FORMS = {
    "as it is": lambda text: text,
    "crlf": crlf,
    "bom": lambda text: "\ufeff" + text,
    "no final newline": bare,
    "bom, crlf, no final newline": lambda text: "\ufeff" + crlf(bare(text)),
    "blank lines at the end": lambda text: text + "\n\n",
    "on one line": squeezed,
}


def value_of(name, data):
    if name.endswith(".toml"):
        return tomllib.loads(data.decode().removeprefix("\ufeff"))
    if name.endswith(".yaml"):
        return yaml.safe_load(data.decode().removeprefix("\ufeff"))
    if name == ".openclaw/openclaw.json":
        return parse(data, name, "json5").value
    return parse(data, name).value


def is_text(path):
    return path.endswith((".md", ".goosehints"))


def is_ours(value):
    return isinstance(value, dict) and "periplus hook" in json.dumps(value)


def without_ours(value):
    """What a config file says but for us, by other code than the one that is tested."""
    for table in ("mcpServers", "servers", "mcp", "mcp_servers", "context_servers", "amp.mcpServers", "extensions"):
        inner = value.get(table)
        if isinstance(inner, dict):
            inner.pop("periplus", None)
            if not inner:
                del value[table]
    inner = value.get("mcp", {}).get("servers")
    if isinstance(inner, dict):
        inner.pop("periplus", None)
    for table in (value, value.get("mcp", {})):  # arrays of tables
        for key, items in list(table.items()):
            if isinstance(items, list) and any(
                isinstance(one, dict) and one.get("name") == "periplus" for one in items
            ):
                table[key] = [one for one in items if one.get("name") != "periplus"]
                if not table[key]:
                    del table[key]
    hooks = value.get("hooks")
    if isinstance(hooks, dict):
        for event in list(hooks):
            hooks[event] = [one for one in hooks[event] if not is_ours(one)]
            if not hooks[event]:
                del hooks[event]
        if not hooks:
            del value["hooks"]
    return value


def is_only_added_to(before, after):
    """Whether each character of before is there, in its order."""
    rest = iter(after)
    return all(char in rest for char in before)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", FILES)
def test_only_our_part_changes_and_goes_again(tmp_path, name, form):
    place = Place(tmp_path, "user" if name in OF_PERSONS else "project")
    for path, text in {**FILES[name], "AGENTS.md": AGENTS_MD}.items():
        file = place.base / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(FORMS[form](text).encode())
        file.chmod(0o640)
    before = place.snapshot()
    place.connect(name)
    after = place.snapshot()
    changed = {path for path in before if after[path] != before[path]}
    assert {*FILES[name]} <= changed | {"CLAUDE.md"}
    assert "AGENTS.md" in changed or name in ("aider", "continue", *OF_PERSONS)
    for path in FILES[name]:
        assert stat.S_IMODE((place.base / path).stat().st_mode) == 0o640, "the mode is kept"
        assert after[path].startswith(b"\xef\xbb\xbf") == before[path].startswith(b"\xef\xbb\xbf")
        if b"\r\n" in before[path]:
            assert b"\n" not in after[path].replace(b"\r\n", b""), f"{path}: ends of lines of two kinds"
        if is_text(path):
            assert after[path].startswith(before[path]), "what people wrote stands before it, byte for byte"
            continue
        assert without_ours(value_of(path, after[path])) == without_ours(value_of(path, before[path])), path
        assert b"periplus" in after[path]
        assert is_only_added_to(before[path].decode(), after[path].decode()), path
    assert place.connect(name) == [], "a second time changes nothing"
    place.disconnect(name)
    assert place.snapshot() == before, "the bytes of before"
    assert place.disconnect(name) == []


@pytest.mark.parametrize("scope", ["project", "user"])
@pytest.mark.parametrize("name", NAMES)
def test_where_nothing_is(tmp_path, name, scope):
    place = Place(tmp_path, scope)
    changes = place.connect(name)
    kinds = {part.what for part in agent_named(name).parts(place.site)}
    assert {what for change in changes for what in change.what} == kinds
    if name in NAMES[:6]:
        assert kinds >= {"server", "hooks", "skill"}
    for path, data in place.snapshot().items():
        if path.endswith((".json", ".toml")):
            assert data.endswith(b"\n")
            assert value_of(path, data)
    assert place.connect(name) == []
    place.disconnect(name)
    assert place.snapshot() == {}, "no folder is left either"


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"\xef\xbb\xbf", b"  \r\n", b"{}", b"{ }\n", b"{\n}\n", b"// later\n", b"/* a */ {} // b"]
)
def test_a_file_with_nothing_in_it_is_filled_and_comes_back(place, data):
    for path in (".vscode/mcp.json", ".gemini/settings.json"):
        (place.base / path).parent.mkdir()
        (place.base / path).write_bytes(data)
    before = place.snapshot()
    place.connect("vscode", "gemini")
    assert place.connect("vscode", "gemini") == []
    for path in (".vscode/mcp.json", ".gemini/settings.json"):
        assert "periplus" in json.dumps(value_of(path, (place.base / path).read_bytes()))
    place.disconnect("vscode", "gemini")
    assert place.snapshot() == before


def later_table(path):
    """A table that another program adds behind ours."""
    return "mcp_servers.later" if path.startswith((".codex/", ".grok/")) else "later"


@pytest.mark.parametrize("name", FILES)
def test_what_changed_since_stays(tmp_path, name):
    """Another program writes into the same files after us: only our part goes then."""
    place = Place(tmp_path, "user" if name in OF_PERSONS else "project")
    for path, text in FILES[name].items():
        (place.base / path).parent.mkdir(parents=True, exist_ok=True)
        (place.base / path).write_text(text)
    before = {path: value_of(path, text.encode()) for path, text in FILES[name].items() if not is_text(path)}
    place.connect(name)
    for path in FILES[name]:
        file = place.base / path
        if path.endswith(".toml"):
            file.write_text('title = "new"\n' + file.read_text() + f'\n[{later_table(path)}]\ncommand = "later"\n')
        elif path.endswith(".yaml"):
            file.write_text("new: 1 # of another program\n" + file.read_text() + "later: [2]\n")
        elif is_text(path):
            file.write_text("New.\n" + file.read_text() + "\nLast.\n")
        else:
            file.write_text(file.read_text().replace("{", '{ "new": 1,', 1))
    place.disconnect(name)
    for path, text in FILES[name].items():
        now = (place.base / path).read_text()
        assert text.count("periplus") == now.count("periplus"), path
        if is_text(path):
            assert now.replace("\n\n", "\n").strip() == f"New.\n{text.strip()}\nLast."
        elif path.endswith(".toml"):
            wanted = {**before[path], "title": "new"}
            table = wanted.setdefault(later_table(path).partition(".")[0], {})
            table.update({"later": {"command": "later"}} if "." in later_table(path) else {"command": "later"})
            assert value_of(path, now.encode()) == wanted
        elif path.endswith(".yaml"):
            assert value_of(path, now.encode()) == {"new": 1, **before[path], "later": [2]}
        else:
            assert value_of(path, now.encode()) == {"new": 1, **before[path]}, path


def test_a_clone_without_what_was_kept(place):
    """A colleague has the files from git, and nothing of what was kept here."""
    for path, text in FILES["claude-code"].items():
        (place.base / path).parent.mkdir(parents=True, exist_ok=True)
        (place.base / path).write_text(text)
    before = place.snapshot()
    place.connect()
    for file in Path(place.keeping.folder).iterdir():
        file.unlink()
    assert place.connect() == []
    place.disconnect()
    after = {path: data for path, data in place.snapshot().items() if data != b"a folder"}
    assert after == {path: data for path, data in before.items() if data != b"a folder"}


def test_what_others_read_too_stays(place):
    place.connect("codex", "cursor")
    place.disconnect("codex")
    assert (place.base / "AGENTS.md").exists()
    assert (place.base / ".agents/skills/periplus/SKILL.md").exists()
    assert not (place.base / ".codex/config.toml").exists()
    place.disconnect("cursor")
    assert place.snapshot() == {}


def test_an_older_command_is_replaced_and_additions_stay(place):
    place.connect()
    config = place.base / ".codex/config.toml"
    config.write_text(
        config.read_text()
        + 'startup_timeout_sec = 20\n\n[mcp_servers.periplus.tools.recall]\napproval_mode = "approve"\n'
    )
    mcp = place.base / ".mcp.json"
    mcp.write_text(mcp.read_text().replace('"args"', '"env": {"A": "b"},\n      "args"'))
    newer = Place(place.folder, command=("/opt/my tools/periplus",))
    assert {Path(change.path).name for change in newer.connect()} >= {
        ".mcp.json",
        "config.toml",
        "settings.json",
        "hooks.json",
    }
    assert newer.connect() == []
    found = tomllib.loads(config.read_text())["mcp_servers"]["periplus"]
    assert found == {
        "command": "/opt/my tools/periplus", "args": ["mcp"], "startup_timeout_sec": 20,
        "tools": {"recall": {"approval_mode": "approve"}},
    }  # fmt: skip
    server = json.loads(mcp.read_text())["mcpServers"]["periplus"]
    assert (server["env"], server["command"]) == ({"A": "b"}, "/opt/my tools/periplus")
    hooks = json.loads((place.base / ".claude/settings.json").read_text())["hooks"]
    assert all(len(groups) == 1 for groups in hooks.values())
    assert "'/opt/my tools/periplus' hook Stop --agent claude-code" in hooks["Stop"][0]["hooks"][0]["command"]
    newer.disconnect()
    assert "periplus" not in "".join(path.read_text() for path in place.base.rglob("*") if path.is_file())


def test_a_row_says_what_it_is_made_of():
    """The first part marks the connection, so no other agent has it; nothing is said of sessions that cannot be read."""
    formats = {*format_names()}
    for scope in ("project", "user"):
        site = Site(scope, "/p", "/h", "/h/.config", "/h/.codex", False, ("periplus",), RULES, RULES)
        marked = [agent for agent in all_agents() if scope not in agent.unmarked]
        marks = [agent.parts(site)[0].path for agent in marked]
        assert len({*marks}) == len(marked)
        others = [part.path for agent in marked for part in agent.parts(site)[1:] if part.what != "hooks"]
        others += [part.path for agent in all_agents() if agent not in marked for part in agent.parts(site)]
        assert not {*marks} & {*others}
    for agent in all_agents():
        assert agent.sources, agent.name
        assert agent.format in formats | {""}, agent.name
        assert agent.programs or agent.folders
        assert all(one[0].islower() and one[-1] not in ".;" for one in agent.lacks)


# -- refused ---------------------------------------------------------------------------------------------------------


def refused(place, kind, wrong, *names):
    before = place.snapshot()
    with pytest.raises(kind) as caught:
        place.connect(*names)
    assert re.search(wrong, str(caught.value)), str(caught.value)
    assert caught.value.safe
    assert place.snapshot() == before
    assert not Path(place.keeping.folder).exists()


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        (b'{"a": 1,\n  "b": }\n', r"line 2: column 8: no value"),
        (b'{"a": 1\n "b": 2}', r"line 2: column 2: a comma or the end of the object"),
        (b'{"a": 1} x', r"line 1: column 10: something stands behind"),
        (b"{'a': 1}", r"line 1: column 2: a key in double quotes"),
        (b'{"a": "b\nc"}', r"line 1: column 7"),
        (b'{"a": NaN}', r"line 1: column 7: no value"),
        (b'{"a": [1, 2}', r"line 1: column 12"),
        (b'{"a": /* b', r"line 1: column 7: a comment that does not end"),
        (b'{"a": 1\0}', r"line 1: column 8"),
        (b'{"a": "\xff"}', r"byte 7: not UTF-8"),
        ('{"a": 1}'.encode("utf-16"), r"not UTF-8"),
        (b"[" * 100_000, r"column 101: more than 100 levels"),
        (b'{"a":' * 100_000, r"more than 100 levels"),
        (b"[]", r"the document is no object"),
        (b'{"mcpServers": []}', r"line 1: column 16: mcpServers is no object"),
        (b'{"mcpServers": {"periplus": {"command": "my-own"}}}', r"mcpServers\.periplus exists already"),
        (b" " * (16 << 20) + b"{}", r"over the limit of"),
    ],
)
def test_files_that_cannot_be_changed(place, data, wrong):
    (place.base / ".mcp.json").write_bytes(data)
    refused(place, (FormatError, RefusedError), wrong, "codex", "claude-code")


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        (b'model = "x"\nmodel = "y"\n', r"line 2: column 12"),
        (b"a = [1,\n", r"config.toml, line 2"),
        (b"a = " + b"[" * 5_000, r"nested too deeply"),
        (b"a = " + b"[" * 150 + b"]" * 150, r"more than 100 levels deep"),
        (b"a = 1\0", r"column 6"),
        (b"a = '\xff'", r"byte 5: not UTF-8"),
        (b'mcp_servers = { docs = { command = "x" } }\n', r"cannot be changed"),
        (b'[mcp_servers.periplus]\ncommand = "my-own"\n', r"mcp_servers.periplus exists already"),
    ],
)
def test_toml_that_cannot_be_changed(place, data, wrong):
    (place.base / ".codex").mkdir()
    (place.base / ".codex/config.toml").write_bytes(data)
    refused(place, (FormatError, RefusedError), wrong, "claude-code", "codex")


def test_files_that_may_not_be_changed(place):
    file = place.base / ".mcp.json"
    file.write_text("{}")
    file.chmod(0o444)
    refused(place, RefusedError, r"\.mcp\.json is read-only")
    file.chmod(0o644)
    os.link(file, place.base / "other")
    refused(place, RefusedError, "second name")
    file.unlink()
    file.mkdir()
    refused(place, RefusedError, "not a plain file")
    file.rmdir()
    os.mkfifo(file)
    refused(place, RefusedError, "not a plain file")


def test_nothing_is_written_where_one_of_the_files_cannot_be(place):
    (place.base / ".claude").write_text("x\n")
    before = place.snapshot()
    with pytest.raises(RefusedError, match=r"\.claude is a file and no folder") as caught:
        place.connect("claude-code")
    assert caught.value.safe == "Nothing was changed."
    assert place.snapshot() == before


def test_a_link_stays_a_link_and_none_leads_out_of_the_project(place):
    outside = place.folder / "outside"
    outside.mkdir()
    (outside / "mcp.json").write_text("{}")
    (place.base / ".mcp.json").symlink_to(outside / "mcp.json")
    refused(place, RefusedError, "leads out of the project through a link")
    (place.base / ".mcp.json").unlink()
    (place.base / ".claude").symlink_to(outside)
    refused(place, RefusedError, "leads out of the project through a link")
    (place.base / ".claude").unlink()
    (place.base / "configs").mkdir()
    (place.base / "configs/mcp.json").write_text(SERVERS)
    (place.base / ".mcp.json").symlink_to("configs/mcp.json")
    place.connect("claude-code")
    assert os.readlink(place.base / ".mcp.json") == "configs/mcp.json"
    assert "periplus" in (place.base / "configs/mcp.json").read_text()
    place.disconnect("claude-code")
    assert os.readlink(place.base / ".mcp.json") == "configs/mcp.json"
    assert (place.base / "configs/mcp.json").read_text() == SERVERS
    assert sorted(path.name for path in outside.iterdir()) == ["mcp.json"]


def test_links_of_a_person(tmp_path):
    """Settings that a person keeps elsewhere are written where they are."""
    place = Place(tmp_path, "user")
    (tmp_path / "dotfiles/claude").mkdir(parents=True)
    (tmp_path / "dotfiles/claude/settings.json").write_text(CLAUDE_SETTINGS)
    (tmp_path / "dotfiles/codex.toml").write_text(CODEX)
    (place.base / ".claude").symlink_to(tmp_path / "dotfiles/claude")
    (place.base / ".codex").mkdir()
    (place.base / ".codex/config.toml").symlink_to("../../dotfiles/codex.toml")
    place.connect("claude-code", "codex")
    assert (place.base / ".claude").is_symlink()
    assert (place.base / ".codex/config.toml").is_symlink()
    assert "periplus" in (tmp_path / "dotfiles/claude/settings.json").read_text()
    assert "command -v" not in (tmp_path / "dotfiles/claude/settings.json").read_text()
    place.disconnect()
    assert (tmp_path / "dotfiles/claude/settings.json").read_text() == CLAUDE_SETTINGS
    assert (tmp_path / "dotfiles/codex.toml").read_text() == CODEX


@pytest.mark.parametrize("name", ["CLAUDE.md", "GEMINI.md"])
def test_a_file_of_instructions_that_is_agents_md(place, name):
    (place.base / "AGENTS.md").write_text(AGENTS_MD)
    (place.base / name).symlink_to("AGENTS.md")
    place.connect("claude-code", "gemini")
    text = (place.base / "AGENTS.md").read_text()
    assert text.count("periplus:begin") == 1
    assert "@AGENTS.md" not in text
    place.disconnect()
    assert (place.base / name).is_symlink()
    assert (place.base / "AGENTS.md").read_text() == AGENTS_MD


def test_an_import_that_is_there_is_not_given_twice(place):
    (place.base / "CLAUDE.md").write_text("# Shop\n\n@AGENTS.md\n")
    place.connect("claude-code")
    assert (place.base / "CLAUDE.md").read_text() == "# Shop\n\n@AGENTS.md\n"


def test_an_edited_block_is_kept(place):
    place.connect("codex")
    file = place.base / "AGENTS.md"
    edited = file.read_text().replace("Ask `periplus brief`", "Ask nobody")
    file.write_text(edited)
    (change,) = place.connect("codex")
    assert change.edited
    assert Path(place.keeping.edited_path(change)).read_text() == edited
    assert stat.S_IMODE(os.stat(place.keeping.edited_path(change)).st_mode) == 0o600
    assert "Ask `periplus brief`" in file.read_text()
    assert "Ask nobody" not in file.read_text()
    place.disconnect("codex")
    assert place.snapshot() == {}


@pytest.mark.parametrize("text", ["<!-- periplus:end -->\n", "<!-- periplus:begin 0123456789ab x -->\n",
                                  "<!-- periplus:end -->\n<!-- periplus:begin 0123456789ab x -->\n"])  # fmt: skip
def test_a_block_that_is_no_pair(place, text):
    (place.base / "AGENTS.md").write_text(text)
    refused(place, RefusedError, "not one pair")


def test_a_skill_of_somebody_else(place):
    skill = place.base / ".agents/skills/periplus/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: periplus\ndescription: A voyage.\n---\n")
    refused(place, RefusedError, "exists already, and is not ours", "cursor")


def test_a_file_that_changes_meanwhile(place):
    (place.base / ".mcp.json").write_text("{}")
    changes = plan_connect(place.site, [agent_named("claude-code")], place.keeping)
    (place.base / ".mcp.json").write_text('{"theirs": 1}')
    with pytest.raises(ConflictError, match="changed by another process"):
        apply(changes, place.keeping)
    assert (place.base / ".mcp.json").read_text() == '{"theirs": 1}'


# -- stopped ---------------------------------------------------------------------------------------------------------


def prepared(folder):
    place = Place(folder)
    for name in ("codex",):
        for path, text in {**FILES[name], "AGENTS.md": AGENTS_MD}.items():
            (place.base / path).parent.mkdir(parents=True, exist_ok=True)
            (place.base / path).write_text(text)
    return place


def plain(snapshot):
    """Without what a stopped write leaves beside a file, which the next one of a living process removes."""
    return {path: data for path, data in snapshot.items() if not Path(path).name.startswith(".periplus-write.")}


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.5])
@pytest.mark.parametrize("what", ["connect", "disconnect"])
def test_stopped_at_every_call(tmp_path, what, share):
    """Each file is as it was or as it becomes; what comes next finishes it, and the bytes of before come back."""
    names = ("codex",)
    whole = prepared(tmp_path / "whole") if (tmp_path / "whole").mkdir() is None else None
    before = whole.snapshot()
    whole.connect(*names)
    connected = whole.snapshot()
    calls = StoppingFiles(-1)
    clean = prepared(tmp_path / "count") if (tmp_path / "count").mkdir() is None else None
    if what == "disconnect":
        clean.connect(*names)
    getattr(clean, what)(*names, files=calls)
    assert len(calls.calls) > 20
    for at, call in enumerate(calls.calls):
        if share and call != "write":
            continue
        folder = tmp_path / f"{at}"
        folder.mkdir()
        place = prepared(folder)
        if what == "disconnect":
            place.connect(*names)
        with pytest.raises(Stop):
            getattr(place, what)(*names, files=StoppingFiles(at, share))
        for path, data in plain(place.snapshot()).items():
            assert data in (before.get(path), connected.get(path)), (call, path)
        place.connect(*names)
        assert plain(place.snapshot()) == connected, call
        place.disconnect(*names)
        after = plain(place.snapshot())
        left = {path for path, data in after.items() if data == b"a folder"} - set(before)
        assert {path: data for path, data in after.items() if path not in left} == before, call


# -- what the agents call --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HOOK_AGENTS)
def test_every_hook_is_one_that_is_understood(tmp_path, name):
    """The events are the agents' own names, and ``periplus hook`` knows each of them, and the agent."""
    parts = agent_named(name).parts(site_of(tmp_path))
    place = Place(tmp_path, "project" if any(part.what == "hooks" for part in parts) else "user")
    place.connect(name)
    files = [path for path in place.base.rglob("*") if path.suffix in (".json", ".js", ".ts", ".toml", ".yaml")]
    text = "".join(path.read_text() for path in files)
    events = set(re.findall(r"hook ([A-Za-z_]+) --agent " + name, text))
    if name in ("opencode", "pi", "kilo-code", "cline"):
        events = set(re.findall(r'ask\("([A-Za-z]+)"', text))
    kinds = {kind_of(event) for event in events}
    told_of_all = {"session-start", "prompt", "before-tool", "after-tool", "compact", "turn-end"}
    lacking = {"hermes": {"compact"}, "cline": {"compact"}, "crush": told_of_all - {"before-tool"}}
    assert kinds >= told_of_all - lacking.get(name, set())
    assert name in HOOK_AGENTS


def test_the_plugin_of_opencode_runs(place, tmp_path):
    """As opencode calls it: what a hook says reaches the model, and a refused call of a tool does not happen."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node")
    fake = tmp_path / "a b/periplus"
    fake.parent.mkdir()
    fake.write_text(
        f"#!{sys.executable}\n"
        "import json, sys\n"
        "said = json.load(sys.stdin)\n"
        f"open({os.fspath(tmp_path / 'told')!r}, 'a').write(json.dumps([sys.argv[1:], said]) + '\\n')\n"
        "out = {}\n"
        "if sys.argv[2] == 'SessionStart': out = {'additionalContext': 'the brief'}\n"
        "if said.get('tool_name') == 'read' and sys.argv[2] == 'PreToolUse': out = {'additionalContext': 'of a.py'}\n"
        "if said.get('tool_name') == 'edit': out = {'permissionDecision': 'deny', 'permissionDecisionReason': 'claimed'}\n"
        "if sys.argv[2] == 'Stop': print('no json'); sys.exit(3)\n"
        "print(json.dumps({'hookSpecificOutput': out}))\n"
    )
    fake.chmod(0o755)
    Place(tmp_path, command=(os.fspath(fake),)).connect("opencode")
    shutil.copy(place.base / ".opencode/plugins/periplus.js", tmp_path / "plugin.mjs")
    (tmp_path / "run.mjs").write_text("""
import { Periplus } from "./plugin.mjs"
const plugin = await Periplus({ directory: process.cwd() })
plugin.event({ event: { type: "session.created", properties: { info: { id: "s1" } } } })
await plugin["chat.message"]({ sessionID: "s1" }, { parts: [{ type: "text", text: "do it" }, { type: "file" }] })
const output = { system: ["be good"] }
await plugin["experimental.chat.system.transform"]({ sessionID: "s1" }, output)
let refused = ""
await plugin["tool.execute.before"]({ tool: "todowrite", sessionID: "s1", callID: "c9" }, { args: {} })
await plugin["tool.execute.before"]({ tool: "read", sessionID: "s1", callID: "c0" }, { args: { filePath: "a.py" } })
const next = { system: [] }
await plugin["experimental.chat.system.transform"]({ sessionID: "s1" }, next)
const other = { system: [] }
await plugin["experimental.chat.system.transform"]({ sessionID: "s2" }, other)
await plugin["chat.message"]({ sessionID: "s2" }, { parts: [] })
await plugin["experimental.chat.system.transform"]({ sessionID: "s2" }, other)
try {
  await plugin["tool.execute.before"]({ tool: "edit", sessionID: "s1", callID: "c1" }, { args: { filePath: "a.py" } })
} catch (error) { refused = error.message }
await plugin["tool.execute.after"]({ tool: "bash", sessionID: "s1", callID: "c2", args: { command: "ls" } }, { output: "a.py" })
await plugin.event({ event: { type: "session.idle", properties: { sessionID: "s1" } } })
console.log(JSON.stringify([output.system, next.system, other.system, refused]))
""")
    done = subprocess.run([node, "run.mjs"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    all_told = ["the brief", "of a.py"]
    assert json.loads(done.stdout) == [["be good", "the brief"], all_told, ["the brief"], "claimed"], done.stderr
    told = [json.loads(line) for line in (tmp_path / "told").read_text().splitlines()]
    assert [words[1] for words, _ in told] == [
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "SessionStart",  # of a session that this process has not seen before
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "Stop",
    ]
    assert told[1][1]["prompt"] == "do it"
    assert (told[3][1]["session_id"], told[3][1]["source"]) == ("s2", "compact")
    assert (told[6][1]["tool_input"], told[6][1]["tool_response"]) == ({"command": "ls"}, "a.py")
    for words, said in told:
        kind = kind_of(words[1])
        assert read_event("opencode", words[1], said, 0, lambda text: (text, 0)).kind == kind
    fake.unlink()
    done = subprocess.run([node, "run.mjs"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert json.loads(done.stdout) == [["be good"], [], [], ""], "without Periplus the agent is undisturbed"


# -- what is kept ----------------------------------------------------------------------------------------------------

GOLDEN = Path(__file__).parent / "golden/connections-v1"


def test_the_receipt_is_written_as_it_was(place):
    """A promise: receipts of this version are read by every later one."""
    (place.base / ".mcp.json").write_text("{}\n")
    place.connect("claude-code")
    receipt = place.keeping.receipt(os.fspath(place.base / ".mcp.json"))
    (path,) = (file for file in Path(place.keeping.folder).glob("*.json") if ".mcp.json" in file.read_text())
    assert path.read_text().replace(os.fspath(place.base), "/home/ada/shop") == (GOLDEN / "receipt.json").read_text()
    assert (
        place.keeping.kept(os.fspath(place.base / ".mcp.json"), receipt)
        == path.with_suffix(".before").read_bytes()
        == b"{}\n"
    )


@pytest.mark.parametrize("change", [
    lambda text: text.replace("connection/1", "connection/2"),
    lambda text: text.replace('"existed": true', '"existed": 1'),
    lambda text: text.replace("/.mcp.json", "/other.json"),
    lambda text: text[:-10],
    lambda text: "[" * 10_000,
    lambda text: re.sub('"before": "....', '"before": "0000', text),
])  # fmt: skip
def test_a_receipt_that_says_something_else_counts_as_none(place, change):
    (place.base / ".mcp.json").write_text(SERVERS)
    place.connect("claude-code")
    for file in Path(place.keeping.folder).glob("*.json"):
        if ".mcp.json" in file.read_text():
            file.write_text(change(file.read_text()))
    place.disconnect("claude-code")
    assert (place.base / ".mcp.json").read_text() == SERVERS, "cut out, which comes to the same here"


@pytest.mark.slow
def test_a_receipt_with_any_byte_changed_loses_nothing(tmp_path):
    """Our part goes, and what was there before is there: its bytes, or what is left when ours is cut out."""
    chance = random.Random(5)
    place = prepared(tmp_path)
    before = place.snapshot()
    place.connect("codex")
    connected = place.snapshot()
    receipts = sorted((tmp_path / "kept").glob("*.json"))
    assert len(receipts) > 1
    brought_back = 0
    for receipt in receipts:
        sound = receipt.read_bytes()
        for at in range(chance.randrange(7), len(sound), 7):
            changed = bytearray(sound)
            changed[at] ^= 1 << chance.randrange(8)
            receipt.write_bytes(changed)
            place.disconnect("codex")
            after = place.snapshot()
            brought_back += after == before
            for path, data in before.items():
                found = after[path]
                assert found == data or found.split() == data.split(), (path, at)
            assert all(b"periplus" not in after[path] for path in after.keys() - before.keys()), at
            place.connect("codex")
            again = place.snapshot()
            assert {path: again[path].split() for path in connected} == {p: d.split() for p, d in connected.items()}, at
            receipt.write_bytes(sound)
    assert brought_back > 20


def test_a_receipt_removes_no_folder_of_others(place):
    (place.folder / "empty").mkdir()
    place.connect("codex")
    for file in Path(place.keeping.folder).glob("*.json"):
        receipt = json.loads(file.read_text())
        file.write_text(json.dumps(receipt | {"folders": [os.fspath(place.folder / "empty"), *receipt["folders"]]}))
    place.disconnect("codex")
    assert (place.folder / "empty").is_dir()
    assert place.snapshot() == {}


def test_files_of_others_do_not_keep_us_from_leaving(place):
    """What cannot be read, and holds nothing of ours, is none of our business when we go."""
    (place.base / ".vscode").mkdir()
    (place.base / ".vscode/mcp.json").write_text("{ broken")
    (place.base / ".gemini").symlink_to(place.folder)
    (place.base / "opencode.json").write_text("{}")
    (place.base / "opencode.json").chmod(0o444)
    place.connect("codex", "cursor")
    place.disconnect()
    assert not (place.base / "AGENTS.md").exists()
    place.connect("codex", "cursor")
    cursor = place.base / ".cursor/mcp.json"
    cursor.write_text(cursor.read_text()[:-4])
    place.disconnect("codex")
    assert (place.base / "AGENTS.md").exists(), "Cursor's file may hold our server: it reads that too"
    with pytest.raises(FormatError, match=r"mcp\.json, line"):
        place.disconnect()


def test_a_path_that_is_no_text(tmp_path):
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system has no such names")
    place = Place(folder)
    (place.base / ".mcp.json").write_text("{} ")
    place.connect()
    assert place.connect() == []
    place.disconnect()
    assert {path: data for path, data in place.snapshot().items() if data != b"a folder"} == {".mcp.json": b"{} "}
