"""Clients of the makers of editors: Cline, Kilo Code, Continue, Copilot CLI, Qwen Code."""

from __future__ import annotations

__all__ = ["EDITOR_CLIENTS", "Cline", "Continue", "CopilotCli", "KiloCode", "QwenCode"]

import json
import os
from collections.abc import Mapping

from client_support import NODE_MAJOR, Client, Opencode, calls, write


class QwenCode(Client):
    """It tells the model of a server's tools by name and beginning, and of their arguments when it asks for them."""

    name = "qwen-code"
    says_end = False  # not without a terminal
    program = ".bin/qwen"
    node = 22
    reads_first = True
    told_times = 2
    steps: Mapping[str, int] = {
        "PROMPT": 1,
        "MODEL_CALL": 5,
        "TOOL_CALL": 1,
        "COMMAND_RUN": 1,
        "FILE_READ": 1,
        "FILE_EDIT": 1,
        "SAY": 1,
    }
    files = ((".qwen/settings.json", b'{\n  // ours\n  "ui": { "hideTips": true },\n  "$version": 4\n}\n'),)

    def prepare(self, shop, url):
        settings = {
            "security": {"auth": {"selectedType": "openai"}},
            "privacy": {"usageStatisticsEnabled": False},
            "general": {"enableAutoUpdate": False},
            "memory": {"enableManagedAutoMemory": False},
        }
        write(shop.home / ".qwen/settings.json", settings)
        return {"OPENAI_API_KEY": "test", "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": "chat-test"}

    def words(self, prompt, *, goes_on):
        return [*(["--continue"] if goes_on else []), "--yolo", "-p", prompt]

    def read(self, shop, *paths):
        return calls(*(("read_file", {"file_path": os.fspath(shop.folder / path)}) for path in paths))

    def edit(self, shop, path, old, new):
        return calls(("edit", {"file_path": os.fspath(shop.folder / path), "old_string": old, "new_string": new}))

    def command(self, command):
        return calls(("run_shell_command", {"command": command, "is_background": False}))

    def tool(self, name, args):
        return calls((f"mcp__periplus__{name}", args))

    def lists_tool(self, body, name):
        return f"mcp__periplus__{name}" in json.dumps(body["messages"][:2])


class KiloCode(Opencode):
    """Made from opencode."""

    name = "kilo-code"
    program = "@kilocode/cli-*/bin/kilo"
    files = (
        ("kilo.jsonc", b'{\n  "$schema": "https://app.kilo.ai/config.json",\n  // ours\n  "username": "ada",\n}\n'),
    )
    leaves = (".kilo", ".kilo/.gitignore")
    steps: Mapping[str, int] = {
        "PROMPT": 1,
        "MODEL_CALL": 4,
        "TOOL_CALL": 1,
        "COMMAND_RUN": 1,
        "FILE_EDIT": 1,
        "SAY": 1,
    }

    def prepare(self, shop, url):
        super().prepare(shop, url)
        settings = shop.home / ".config/opencode/opencode.json"
        write(shop.home / ".config/kilo/kilo.json", settings.read_text())
        off = (
            "AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "SESSION_INGEST", "SHARE", "PRESENCE", "DEFAULT_PLUGINS", "CODEBASE_INDEXING",
        )  # fmt: skip
        return dict.fromkeys((f"KILO_DISABLE_{name}" for name in off), "1") | {
            "KILO_TELEMETRY_LEVEL": "off", "KILO_EXPERIMENTAL_DISABLE_FILEWATCHER": "1", "npm_config_offline": "true",
        }  # fmt: skip


class Cline(Client):
    name = "cline"
    says_end = False
    continues = False
    told_times = 2
    program = "@cline/cli-*/bin/cline"
    scope = ("--scope", "user")
    steps: Mapping[str, int] = {
        "PROMPT": 1,
        "MODEL_CALL": 4,
        "TOOL_CALL": 1,
        "COMMAND_RUN": 1,
        "FILE_EDIT": 1,
        "SAY": 1,
    }

    def prepare(self, shop, url):
        settings = {"provider": "openai-compatible", "apiKey": "test", "model": "chat-test", "baseUrl": f"{url}/v1"}
        provider = {"settings": settings, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
        kept = {
            "version": 1,
            "lastUsedProvider": "openai-compatible",
            "modes": {},
            "providers": {"openai-compatible": provider},
        }
        write(shop.home / ".cline/data/settings/providers.json", kept)
        return {"CLINE_NO_AUTO_UPDATE": "1", "CLINE_NO_INTERACTIVE": "1"}

    def words(self, prompt, *, goes_on):
        return [prompt]

    def read(self, shop, *paths):
        return calls(("read_files", {"files": [{"path": os.fspath(shop.folder / path)} for path in paths]}))

    def edit(self, shop, path, old, new):
        return calls(("editor", {"path": os.fspath(shop.folder / path), "old_text": old, "new_text": new}))

    def command(self, command):
        return calls(("run_commands", {"commands": [command]}))

    def tool(self, name, args):
        return calls((f"periplus__{name}", args))


class Continue(Client):
    """Its terminal client takes servers from a person's own configuration only, where the person names ours."""

    name = "continue"
    has_hooks = False
    says_end = False
    program = ".bin/cn"
    node = NODE_MAJOR
    reads_first = True
    steps: Mapping[str, int] = {
        "PROMPT": 1,
        "TOOL_CALL": 1,
        "COMMAND_RUN": 1,
        "FILE_READ": 1,
        "FILE_EDIT": 1,
        "SAY": 1,
        "MODEL_CALL": 1,
    }

    def prepare(self, shop, url):
        model = f"{{name: Scripted, provider: openai, model: chat-test, apiBase: {url}/v1, apiKey: test, roles: [chat], capabilities: [tool_use]}}"
        server = "{name: periplus, command: periplus, args: [mcp]}"
        config = f"name: Test\nversion: 1.0.0\nschema: v1\nmodels:\n  - {model}\nmcpServers:\n  - {server}\n"
        write(shop.home / ".continue/config.yaml", config)
        return {
            "CONTINUE_TELEMETRY_ENABLED": "0",
            "CONTINUE_METRICS_ENABLED": "0",
            "CONTINUE_CLI_DISABLE_COMMIT_SIGNATURE": "1",
        }

    def words(self, prompt, *, goes_on):
        return [*(["--resume"] if goes_on else []), "--auto", "-p", prompt]

    def read(self, shop, *paths):
        return calls(*(("Read", {"filepath": path}) for path in paths))

    def edit(self, shop, path, old, new):
        return calls(("Edit", {"file_path": os.fspath(shop.folder / path), "old_string": old, "new_string": new}))

    def command(self, command):
        return calls(("Bash", {"command": command}))

    def tool(self, name, args):
        return calls((name, args))

    def lists_tool(self, body, name):
        return name in {tool["function"]["name"] for tool in body["tools"]}  # it leaves the server out of the name


class CopilotCli(Client):
    """Without an account: it takes another model provider, and in this mode asks GitHub for nothing."""

    name = "copilot-cli"
    told_times = 2
    program = "@github/copilot-linux-*/copilot"
    steps: Mapping[str, int] = {
        "PROMPT": 1,
        "MODEL_CALL": 4,
        "TOOL_CALL": 1,
        "COMMAND_RUN": 1,
        "FILE_EDIT": 1,
        "SAY": 1,
    }

    def prepare(self, shop, url):
        write(shop.home / ".copilot/config.json", {"trustedFolders": [os.fspath(shop.folder)]})
        return {
            "COPILOT_OFFLINE": "true", "COPILOT_PROVIDER_BASE_URL": f"{url}/v1", "COPILOT_PROVIDER_API_KEY": "test",
            "COPILOT_MODEL": "gpt-4.1", "COPILOT_AUTO_UPDATE": "false",
        }  # fmt: skip

    def words(self, prompt, *, goes_on):
        return [*(["--continue"] if goes_on else []), "--allow-all-tools", "-p", prompt]

    def read(self, shop, *paths):
        return calls(*(("view", {"path": os.fspath(shop.folder / path)}) for path in paths))

    def edit(self, shop, path, old, new):
        return calls(("edit", {"path": os.fspath(shop.folder / path), "old_str": old, "new_str": new}))

    def command(self, command):
        return calls(("bash", {"command": command, "description": "As asked"}))

    def tool(self, name, args):
        return calls((f"periplus-{name}", args))

    def lists_tool(self, body, name):
        return any(tool["function"]["name"] == f"periplus-{name}" for tool in body["tools"])


EDITOR_CLIENTS: tuple[Client, ...] = (QwenCode(), KiloCode(), Cline(), Continue(), CopilotCli())
