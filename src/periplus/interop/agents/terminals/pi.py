"""Pi: two extensions in place of a server and of hooks, ``AGENTS.md``, skills in ``.pi/skills``.

Pi has no MCP servers. Its extensions are TypeScript files that register tools and listen to events; Pi loads each file
of its folder of extensions. Ours start ``periplus`` without a shell, and do nothing where it is not installed.
"""

from __future__ import annotations

__all__ = ["AGENT"]

import json
import os
from typing import Final

from periplus.interop.agents.agent_model import HOOK_SECONDS, Agent, Site
from periplus.interop.agents.config_parts import Part, WholePart
from periplus.interop.agents.editing.markdown_block import OPEN_SEAL
from periplus.interop.agents.plugin_script import plugin_part
from periplus.interop.agents.shared_parts import instructions, skill

NAME: Final = "pi"
LIST_SECONDS: Final = 10  # Pi waits for extensions before it begins

# Speaks MCP with `periplus mcp`, and registers each tool of the server as a tool of Pi. Pi can end while the server runs.
_SERVER: Final = """\
// Written by `periplus connect pi`; `periplus disconnect pi` removes it. ({seal})
import {{ spawn }} from "node:child_process"

const COMMAND = {command}
const LIST_MS = {limit}

class Server {{
  #child = null
  #waiting = new Map()
  #number = 0
  #rest = ""

  async start() {{
    if (this.#child) return
    const child = spawn(COMMAND[0], [...COMMAND.slice(1), "mcp"], {{ stdio: ["pipe", "pipe", "ignore"] }})
    this.#child = child
    this.#hold("unref")
    child.on("error", () => this.#end(child))
    child.on("close", () => this.#end(child))
    child.stdin.on("error", () => {{}})
    child.stdout.setEncoding("utf8").on("data", (data) => this.#hear(data))
    const client = {{ protocolVersion: "2025-06-18", capabilities: {{}}, clientInfo: {{ name: "pi", version: "1" }} }}
    await this.#request("initialize", client, LIST_MS)
    this.#send({{ method: "notifications/initialized" }})
  }}

  async request(method, params, limit, signal) {{
    await this.start()
    return this.#request(method, params, limit, signal)
  }}

  stop() {{
    this.#child?.kill()
  }}

  // Pi is kept alive only while an answer is waited for.
  #hold(way) {{
    for (const one of [this.#child, this.#child?.stdin, this.#child?.stdout]) one?.[way]?.()
  }}

  #send(message) {{
    this.#child?.stdin.write(JSON.stringify({{ jsonrpc: "2.0", ...message }}) + "\\n")
  }}

  #request(method, params, limit, signal) {{
    const id = ++this.#number
    return new Promise((resolve, reject) => {{
      const cancel = (why) => {{
        this.#send({{ method: "notifications/cancelled", params: {{ requestId: id }} }})
        done(new Error(why))
      }}
      const timer = limit ? setTimeout(() => cancel("Periplus did not answer in time"), limit) : null
      const abort = () => cancel("cancelled")
      const done = (error, result) => {{
        clearTimeout(timer)
        signal?.removeEventListener("abort", abort)
        this.#waiting.delete(id)
        if (this.#waiting.size === 0) this.#hold("unref")
        if (error) reject(error)
        else resolve(result)
      }}
      this.#waiting.set(id, done)
      signal?.addEventListener("abort", abort)
      this.#hold("ref")
      if (this.#child) this.#send({{ id, method, params }})
      else done(new Error("Periplus is not running"))
    }})
  }}

  #hear(data) {{
    const lines = (this.#rest + data).split("\\n")
    this.#rest = lines.pop()
    for (const line of lines) {{
      let said
      try {{
        said = JSON.parse(line)
      }} catch {{
        continue
      }}
      if (said?.method === undefined) this.#waiting.get(said?.id)?.(said.error && new Error(said.error.message), said.result)
      else if (said.id !== undefined) this.#send({{ id: said.id, error: {{ code: -32601, message: "not known to Pi" }} }})
    }}
  }}

  #end(child) {{
    if (this.#child !== child) return
    this.#child = null
    this.#rest = ""
    for (const done of [...this.#waiting.values()]) done(new Error("Periplus has ended"))
  }}
}}

export default async function (pi) {{
  const server = new Server()
  pi.on("session_shutdown", () => server.stop())
  let tools = []
  try {{
    tools = (await server.request("tools/list", {{}}, LIST_MS)).tools
  }} catch {{
    server.stop()
  }}
  for (const tool of tools) {{
    pi.registerTool({{
      name: `periplus_${{tool.name}}`,
      label: `Periplus ${{tool.name}}`,
      description: tool.description ?? "",
      parameters: tool.inputSchema,
      async execute(_id, params, signal) {{
        const said = await server.request("tools/call", {{ name: tool.name, arguments: params }}, 0, signal)
        const texts = said.content.filter((block) => block.type === "text")
        if (said.isError) throw new Error(texts.map((block) => block.text).join("\\n"))
        return {{ content: texts.map(({{ type, text }}) => ({{ type, text }})), details: {{}} }}
      }},
    }})
  }}
}}
"""

# The answer of a hook reaches the model as a message of ours.
_HOOKS: Final = """\
const TOLD_TOOLS = ["edit", "write", "read", "bash"]

const textOf = (content) => (content ?? []).filter((block) => block.type === "text").map((block) => block.text).join("\\n")
const messageOf = (content) => ({ customType: "periplus", content, display: false })

export default function (pi) {
  let facts = [] // for the next prompt

  const ask = async (name, ctx, payload = {}) => {
    const session = { session_id: ctx.sessionManager.getSessionId(), transcript_path: ctx.sessionManager.getSessionFile() }
    return (await tell(name, ctx.cwd, { ...session, ...payload }))?.hookSpecificOutput ?? {}
  }

  const keep = (said) => {
    if (said.additionalContext) facts.push(said.additionalContext)
  }

  pi.on("session_start", async (event, ctx) => {
    const source = { resume: "resume", reload: "resume" }[event.reason] ?? "startup"
    keep(await ask("SessionStart", ctx, { source, model: ctx.model?.id }))
  })
  pi.on("before_agent_start", async (event, ctx) => {
    keep(await ask("UserPromptSubmit", ctx, { prompt: event.prompt }))
    const told = facts.join("\\n\\n")
    facts = []
    if (told) return { message: messageOf(told) }
  })
  pi.on("tool_call", async (event, ctx) => {
    if (!TOLD_TOOLS.includes(event.toolName)) return
    const call = { tool_name: event.toolName, tool_input: event.input, tool_use_id: event.toolCallId }
    const said = await ask("PreToolUse", ctx, call)
    if (said.additionalContext) pi.sendMessage(messageOf(said.additionalContext), { deliverAs: "steer" })
    const reason = said.permissionDecisionReason ?? "refused by Periplus"
    if (said.permissionDecision === "deny") return { block: true, reason }
    if (said.permissionDecision !== "ask" || !ctx.hasUI) return
    if (!(await ctx.ui.confirm("Periplus", reason))) return { block: true, reason }
  })
  pi.on("tool_result", async (event, ctx) => {
    const call = { tool_name: event.toolName, tool_input: event.input, tool_use_id: event.toolCallId }
    const text = textOf(event.content)
    if (event.isError) await ask("PostToolUseFailure", ctx, { ...call, error: text })
    else await ask("PostToolUse", ctx, { ...call, tool_response: text })
  })
  pi.on("session_before_compact", async (_event, ctx) => {
    await ask("PreCompact", ctx)
  })
  pi.on("session_compact", async (_event, ctx) => {
    keep(await ask("SessionStart", ctx, { source: "compact" }))
  })
  pi.on("agent_end", async (_event, ctx) => {
    await ask("Stop", ctx)
  })
  pi.on("session_shutdown", async (event, ctx) => {
    if (event.reason !== "reload") await ask("SessionEnd", ctx, { reason: event.reason })
  })
}
"""


def _parts(site: Site) -> tuple[Part, ...]:
    in_project = site.scope == "project"
    folder = os.path.join(site.folder, ".pi") if in_project else os.path.join(site.home, ".pi", "agent")
    extensions = os.path.join(folder, "extensions")
    command = json.dumps(list(site.command))
    server = _SERVER.format(seal=OPEN_SEAL, command=command, limit=LIST_SECONDS * 1_000)
    return (
        WholePart(os.path.join(extensions, "periplus-server.ts"), "server", server),
        plugin_part(site, NAME, extensions, _HOOKS, limit_ms=HOOK_SECONDS * 1_000, file="periplus-hooks.ts"),
        instructions(site, os.path.join(site.folder if in_project else folder, "AGENTS.md")),
        skill(os.path.join(folder, "skills")),
    )


AGENT: Final = Agent(
    NAME, "Pi", (), (".pi/agent",), (".pi",), _parts,
    "Restart it, or type /reload.",
    tried="0.73",
    sources=("@mariozechner/pi-coding-agent 0.73.1: docs/extensions.md, skills.md",),
    format="pi-agent",
)  # fmt: skip
