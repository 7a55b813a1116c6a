"""Clients for the terminal: Kimi Code, Crush, Pi, OpenClaw, Droid, Hermes, gptme, aider."""

from __future__ import annotations

__all__ = ["TERMINAL_CLIENTS"]

from client_support import Client, calls, write

SCRIPTED = {"PROMPT": 1, "MODEL_CALL": 4, "TOOL_CALL": 1, "COMMAND_RUN": 1, "FILE_EDIT": 1, "SAY": 1}


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


TERMINAL_CLIENTS: tuple[Client, ...] = (Pi(),)
