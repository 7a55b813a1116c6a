"""Cline: servers of a person in ``~/.cline``, a plugin in place of hooks, ``AGENTS.md``, skills in ``.cline/skills``.

Cline has hooks too, which are scripts in a folder. At the start and at prompts it does not wait for them, and a hook
that refuses a call ends the whole session. It waits for plugins, and they can refuse a single call.
"""

from __future__ import annotations

__all__ = ["AGENT"]

import os
from typing import Final

from periplus.interop.agents.agent_model import Agent, Site
from periplus.interop.agents.config_parts import Part
from periplus.interop.agents.plugin_script import plugin_part
from periplus.interop.agents.shared_parts import base_of, instructions, json_server, server_entry, skill

NAME: Final = "cline"
LIMIT_MS: Final = 2_500  # Cline gives a plugin three seconds

_PLUGIN: Final = """\
import { homedir } from "node:os"
import { join } from "node:path"

const TOLD = ["editor", "apply_patch", "read_files", "run_commands"]

function transcriptOf(session_id) {
  const env = process.env
  const data = env.CLINE_DATA_DIR?.trim() || join(env.CLINE_DIR?.trim() || join(homedir(), ".cline"), "data")
  return join(env.CLINE_SESSION_DATA_DIR?.trim() || join(data, "sessions"), session_id, `${session_id}.messages.json`)
}

function promptOf(messages) {
  const last = messages.findLast((message) => message.role === "user" && message.metadata?.displayRole !== "system")
  const text = (last?.content ?? []).filter((part) => part.type === "text").map((part) => part.text).join("\\n")
  return text.replace(/^<user_input[^>]*>([^]*)<\\/user_input>$/, "$1")
}

// Several commands of one call are the lines of one script.
function argumentsOf(name, input) {
  if (name !== "run_commands" || !Array.isArray(input?.commands)) return input
  return { command: input.commands.filter((one) => typeof one === "string").join("\\n") }
}

let session = ""
let cwd = process.cwd()
let isBegun = false

async function ask(name, snapshot, payload = {}) {
  const session_id = session || snapshot.conversationId
  const agent_id = snapshot.parentAgentId ? snapshot.agentId : undefined
  const said = await tell(name, cwd, { session_id, agent_id, transcript_path: transcriptOf(session_id), ...payload })
  return said?.hookSpecificOutput ?? {}
}

const contextOf = (...said) => {
  const context = said.map((one) => one.additionalContext).filter(Boolean).join("\\n\\n")
  return context ? { appendContext: context } : undefined
}

export default {
  name: "periplus",
  manifest: { capabilities: ["hooks"] },
  setup(_api, context) {
    session = context?.session?.sessionId ?? ""
    cwd = context?.workspaceInfo?.rootPath || cwd
  },
  hooks: {
    async beforeRun({ snapshot }) {
      if (snapshot.parentAgentId) return undefined
      const messages = snapshot.messages ?? []
      const source = messages.length > 1 ? "compact" : "startup" // a resumed session needs all facts again
      const begun = isBegun ? {} : ask("SessionStart", snapshot, { source })
      isBegun = true
      return contextOf(...(await Promise.all([begun, ask("UserPromptSubmit", snapshot, { prompt: promptOf(messages) })])))
    },
    async beforeTool({ snapshot, toolCall, input }) {
      if (!TOLD.includes(toolCall.toolName)) return undefined
      const call = { tool_name: toolCall.toolName, tool_input: argumentsOf(toolCall.toolName, input) }
      const said = await ask("PreToolUse", snapshot, { ...call, tool_use_id: toolCall.toolCallId })
      if (said.permissionDecision === "deny") return { skip: true, reason: said.permissionDecisionReason, ...contextOf(said) }
      return contextOf(said)
    },
    async afterTool({ snapshot, toolCall, input, result, durationMs }) {
      const call = { tool_name: toolCall.toolName, tool_input: argumentsOf(toolCall.toolName, input) }
      const output = typeof result?.output === "string" ? result.output : JSON.stringify(result?.output ?? "")
      const more = { ...call, tool_use_id: toolCall.toolCallId, duration_ms: durationMs }
      if (result?.isError) await ask("PostToolUseFailure", snapshot, { ...more, error: output })
      else await ask("PostToolUse", snapshot, { ...more, tool_response: output })
      return undefined
    },
    async afterRun({ snapshot }) {
      if (!snapshot.parentAgentId) await ask("Stop", snapshot)
    },
  },
}
"""


def _parts(site: Site) -> tuple[Part, ...]:
    own = os.path.join(base_of(site), ".cline")
    plugin = plugin_part(site, NAME, os.path.join(own, "plugins"), _PLUGIN, limit_ms=LIMIT_MS)
    skills = skill(os.path.join(own, "skills"))
    if site.scope == "project":
        return (plugin, instructions(site, os.path.join(site.folder, "AGENTS.md")), skills)
    server = json_server(os.path.join(own, "data", "settings", "cline_mcp_settings.json"), NAME, server_entry(site))
    return (server, plugin, instructions(site, os.path.join(own, "rules", "periplus.md")), skills)


AGENT: Final = Agent(
    NAME, "Cline", ("cline",), (".cline", "{config}/Code/User/globalStorage/saoudrizwan.claude-dev"), (".clinerules", ".cline"), _parts,
    "Restart it. Its server is for all projects, and comes with --scope user.",
    tried="3.0",
    sources=("docs.cline.bot: getting-started/config, mcp", "@cline/core 0.0.86 and @cline/shared: their types of plugins"),
    lacks=("no servers of one project",),
    format="cline",
)  # fmt: skip
