"""Clients for the terminal: Kimi Code, Crush, Pi, OpenClaw, Droid, Hermes, gptme, aider."""

from __future__ import annotations

__all__ = ["TERMINAL_CLIENTS"]

from client_support import Client, calls, write

SCRIPTED = {"PROMPT": 1, "MODEL_CALL": 4, "TOOL_CALL": 1, "COMMAND_RUN": 1, "FILE_EDIT": 1, "SAY": 1}


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
        hooks = path.read_text() if path.exists() else ""
        write(
            path,
            'default_model = "scripted"\ntelemetry = false\nauto_session_title = false\n'
            f'[providers.scripted]\ntype = "openai"\nbase_url = "{url}/v1"\napi_key = "test"\n'
            '[models.scripted]\nprovider = "scripted"\nmodel = "chat-test"\nmax_context_size = 200000\ncapabilities = ["tool_use"]\n'
            + hooks[hooks.find("# written by") :],
        )
        return {"KIMI_CODE_NO_AUTO_UPDATE": "1"}

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


TERMINAL_CLIENTS: tuple[Client, ...] = (KimiCode(), Pi())
