"""Clients for the terminal: Kimi Code, Crush, Pi, OpenClaw, Hermes, gptme, aider."""

from __future__ import annotations

__all__ = ["TERMINAL_CLIENTS", "Aider", "KimiCode"]

import hashlib
import json
import os

import pytest
from msgspec.structs import replace

from client_support import INSTALLED, Client, calls, say, write

SCRIPTED = {"PROMPT": 1, "MODEL_CALL": 4, "TOOL_CALL": 1, "COMMAND_RUN": 1, "FILE_EDIT": 1, "SAY": 1}
EDITED = {"PROMPT": 1, "FILE_EDIT": 1}


def from_mark(path, mark):
    """Return the part that `connect` wrote into a file of the person, from its mark on."""
    text = path.read_text() if path.exists() else ""
    return text[text.find(mark) :] if mark in text else ""


class KimiCode(Client):
    name = "kimi-code"
    program = ".bin/kimi"
    node = 23
    tells_of_files = False
    says_end = False  # not without a person
    scope = ("--scope", "user")
    steps = SCRIPTED

    def prepare(self, shop, url):
        path = shop.home / ".kimi-code/config.toml"
        write(
            path,
            'default_model = "scripted"\ntelemetry = false\nauto_session_title = false\n'
            f'[providers.scripted]\ntype = "openai"\nbase_url = "{url}/v1"\napi_key = "test"\n'
            '[models.scripted]\nprovider = "scripted"\nmodel = "chat-test"\nmax_context_size = 200000\ncapabilities = ["tool_use"]\n'
            + from_mark(path, "# written by"),
        )
        return {"KIMI_CODE_NO_AUTO_UPDATE": "1"}

    def trust(self, shop):
        """Write the settings that its question about a folder writes when a person trusts it."""
        name = hashlib.sha256(os.fsencode(shop.folder)).hexdigest()[:12]
        path = shop.home / f".kimi-code/workspace-trust/wd_{shop.folder.name}_{name}"
        write(path, {"root": os.fspath(shop.folder), "trustedAt": 1})

    def words(self, prompt, *, goes_on):
        return [*(["--continue"] if goes_on else []), "-p", prompt]

    def read(self, shop, *paths):
        return calls(*(("Read", {"path": str(shop.folder / path)}) for path in paths))

    def edit(self, shop, path, old, new):
        return calls(("Edit", {"path": str(shop.folder / path), "old_string": old, "new_string": new}))

    def command(self, command):
        return calls(("Bash", {"command": command, "description": "As asked"}))

    def tool(self, name, args):
        return calls((f"mcp__periplus__{name}", args))


class Pi(Client):
    name = "pi"
    program = ".bin/pi"
    node = 20
    steps = SCRIPTED
    files = ((".pi/settings.json", b'{"hideThinkingBlock": true}\n'),)

    def prepare(self, shop, url):
        model = {"id": "chat-test", "contextWindow": 200_000, "maxTokens": 8_000}
        provider = {"baseUrl": f"{url}/v1", "api": "openai-completions", "apiKey": "test", "models": [model]}
        write(shop.home / ".pi/agent/models.json", {"providers": {"scripted": provider}})
        return {"PI_OFFLINE": "1", "PI_TELEMETRY": "0", "PI_SKIP_VERSION_CHECK": "1"}

    def words(self, prompt, *, goes_on):
        return [*(["--continue"] if goes_on else []), "--provider", "scripted", "--model", "chat-test", "-p", prompt]

    def read(self, shop, *paths):
        return calls(*(("read", {"path": path}) for path in paths))

    def edit(self, shop, path, old, new):
        return calls(("edit", {"path": path, "edits": [{"oldText": old, "newText": new}]}))

    def command(self, command):
        return calls(("bash", {"command": command}))

    def tool(self, name, args):
        return calls((f"periplus_{name}", args))


class PythonClient(Client):
    """In an environment of its own: ``program`` is its path among them."""

    def path(self):
        path = INSTALLED.parent / "python" / self.program
        if not path.exists():
            pytest.skip(f"{self.name} is not installed: make clients")
        return path


class Gptme(PythonClient):
    """Without a person it ends with a call of a tool of its own."""

    name = "gptme"
    program = "gptme/bin/gptme"
    has_hooks = False
    says_end = False
    steps = SCRIPTED | {"TOOL_CALL": 2}
    files = (("gptme.toml", b'files = ["README.md"]  # ours\n'),)

    def prepare(self, shop, url):
        write(
            shop.home / ".config/gptme/config.toml",
            f'[prompt]\n[env]\nMODEL = "local/chat-test"\nOPENAI_BASE_URL = "{url}/v1"\nOPENAI_API_KEY = "test"\n',
        )
        return {"GPTME_TIKTOKEN_TIMEOUT": "0"}

    def words(self, prompt, *, goes_on):
        return [*(["--resume"] if goes_on else []), "--non-interactive", "--tool-format", "tool", prompt]

    def read(self, shop, *paths):
        return calls(*(("read", {"path": path}) for path in paths))

    def edit(self, shop, path, old, new):
        patch = f"<<<<<<< ORIGINAL\n{old}\n=======\n{new}\n>>>>>>> UPDATED"
        return calls(("patch", {"path": path, "patch": patch}))

    def command(self, command):
        return calls(("shell", {"command": command}))

    def tool(self, name, args):
        return calls((f"periplus.{name}", args))

    def last(self, text):
        return replace(calls(("complete", {})), content=text)


class Hermes(PythonClient):
    """Its person has approved all hooks. It writes who it is into a file at its first start."""

    name = "hermes"
    program = "hermes/bin/hermes"
    tells_of_files = False
    says_end = False
    scope = ("--scope", "user")
    steps = SCRIPTED | {"MODEL_CALL": 1}  # it keeps only sums

    def use_before(self, shop):
        write(shop.home / ".hermes/SOUL.md", "You are Hermes.\n")

    def prepare(self, shop, url):
        path = shop.home / ".hermes/config.yaml"
        write(
            path,
            f"model:\n  provider: custom\n  default: chat-test\n  base_url: {url}/v1\n  api_key: test\n  context_length: 200000\n"
            "agent:\n  verify_on_stop: false\nsecurity:\n  allow_lazy_installs: false\nlsp:\n  enabled: false\n"
            + from_mark(path, "mcp_servers:"),
        )
        return {"HERMES_ACCEPT_HOOKS": "1"}

    def words(self, prompt, *, goes_on):
        return ["chat", "--continue", "--quiet", "--query", prompt] if goes_on else ["-z", prompt]

    def read(self, shop, *paths):
        return calls(*(("read_file", {"path": path}) for path in paths))

    def edit(self, shop, path, old, new):
        return calls(("patch", {"path": path, "old_string": old, "new_string": new}))

    def command(self, command):
        return calls(("terminal", {"command": command}))

    def tool(self, name, args):
        return calls((f"mcp__periplus__{name}", args))


class OpenClaw(Client):
    """Its run of one turn keeps its sessions only where it is told of a folder of its state."""

    name = "openclaw"
    program = ".bin/openclaw"
    node = 24
    has_hooks = False
    says_end = False
    scope = ("--scope", "user")
    steps = SCRIPTED

    def prepare(self, shop, url):
        path = shop.home / ".openclaw/openclaw.json"
        model = {"id": "chat-test", "name": "Test", "contextWindow": 200_000, "maxTokens": 8_000}
        provider = {"baseUrl": f"{url}/v1", "apiKey": "test", "api": "openai-completions", "models": [model]}
        settings = {
            "models": {"mode": "merge", "providers": {"scripted": provider}},
            "agents": {"defaults": {"model": {"primary": "scripted/chat-test"}}},
            # Else the tools of servers are behind one that searches for them.
            "tools": {"toolSearch": False},
        }
        write(path, {**settings, **json.loads(path.read_text())})
        return {}

    def words(self, prompt, *, goes_on):
        return ["agent", "exec", "--state-dir", "../home/.openclaw", prompt]

    def read(self, shop, *paths):
        return calls(*(("read", {"path": path}) for path in paths))

    def edit(self, shop, path, old, new):
        return calls(("edit", {"path": path, "edits": [{"oldText": old, "newText": new}]}))

    def command(self, command):
        return calls(("exec", {"command": command}))

    def tool(self, name, args):
        return calls((f"periplus__{name}", args))


class Aider(PythonClient):
    """It has no tools: it is told of files on its command line, and its model writes edits into the answer."""

    name = "aider"
    program = "aider/bin/aider"
    has_hooks = False
    says_end = False
    steps = EDITED
    files = (("CONVENTIONS.md", b"# Conventions\n\n- Types everywhere"),)
    leaves = (".aider.chat.history.md", ".aider.input.history")

    def prepare(self, shop, url):
        return {"OPENAI_API_BASE": f"{url}/v1", "OPENAI_API_KEY": "test", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}

    def words(self, prompt, *, goes_on):
        off = ["show-model-warnings", "show-release-notes", "check-update", "gitignore", "auto-lint", "auto-commits"]
        options = ["--model", "openai/chat-test", "--edit-format", "diff", "--map-tokens", "0", "--yes-always"]
        given = ["--read", "CONVENTIONS.md", "--message", prompt, "src/auth.py"]
        return [*options, "--analytics-disable", *(f"--no-{one}" for one in off), *given]

    def edit(self, shop, path, old, new):
        text = (shop.folder / path).read_text()
        changed = f"<<<<<<< SEARCH\n{text}=======\n{text.replace(old, new)}>>>>>>> REPLACE"
        return say(f"The check uses argon2 now.\n\n{path}\n```python\n{changed}\n```\n")

    def is_of_agent(self, body):
        return True


TERMINAL_CLIENTS: tuple[Client, ...] = (KimiCode(), Pi(), Gptme(), Hermes(), OpenClaw())
