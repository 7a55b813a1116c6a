"""Plugin for opencode and programs based on it. They have no hooks, and run functions of plugins at the same events."""

from __future__ import annotations

__all__ = ["plugin"]

from typing import Final

from periplus.interop.agents.agent_model import HOOK_SECONDS, Site
from periplus.interop.agents.config_parts import WholePart
from periplus.interop.agents.plugin_script import plugin_part

_PLUGIN: Final = """\
const FACTS_MAX = 50

export const Periplus = async ({ directory }) => {
  const facts = new Map() // by session, all facts that it was told: each call to the model needs them, and titles are calls, too
  const begun = new Map() // by session, the hook of its start: opencode does not wait for events, and has none for a resumed session

  const ask = async (name, session_id, payload = {}) => {
    const said = (await tell(name, directory, { session_id, ...payload }))?.hookSpecificOutput ?? {}
    if (said.additionalContext) {
      const [first, ...others] = [...(facts.get(session_id) ?? []), said.additionalContext]
      facts.set(session_id, [first, ...others.slice(1 - FACTS_MAX)])
    }
    return said
  }

  const begin = (session_id, source) => {
    if (!begun.has(session_id)) begun.set(session_id, ask("SessionStart", session_id, { source }))
    return begun.get(session_id)
  }

  return {
    event: async ({ event }) => {
      const info = event.properties?.info
      if (event.type === "session.created") await begin(info?.id, "startup")
      if (event.type === "session.idle") await ask("Stop", event.properties?.sessionID)
      if (event.type === "session.deleted") {
        await ask("SessionEnd", info?.id)
        facts.delete(info?.id)
        begun.delete(info?.id)
      }
    },
    "chat.message": async (input, output) => {
      const prompt = output.parts.filter((part) => part.type === "text").map((part) => part.text).join("\\n")
      await begin(input.sessionID, "compact")
      await ask("UserPromptSubmit", input.sessionID, { prompt })
    },
    "experimental.chat.system.transform": async (input, output) => {
      output.system.push(...(facts.get(input.sessionID) ?? []))
    },
    "tool.execute.before": async (input, output) => {
      if (!["edit", "write", "patch", "multiedit", "apply_patch", "read", "bash", "shell"].includes(input.tool)) return
      const call = { tool_name: input.tool, tool_input: output.args, tool_use_id: input.callID }
      const said = await ask("PreToolUse", input.sessionID, call)
      if (said.permissionDecision === "deny") throw new Error(said.permissionDecisionReason ?? "refused by Periplus")
    },
    "tool.execute.after": async (input, output) => {
      const call = { tool_name: input.tool, tool_input: input.args, tool_use_id: input.callID }
      await ask("PostToolUse", input.sessionID, { ...call, tool_response: output.output })
    },
    "experimental.session.compacting": async (input) => {
      await ask("PreCompact", input.sessionID)
    },
  }
}
"""


def plugin(site: Site, agent: str, folder: str) -> WholePart:
    """Return the plugin of ``agent`` in its ``folder`` of plugins."""
    return plugin_part(site, agent, folder, _PLUGIN, limit_ms=HOOK_SECONDS * 1_000)
