"""Plugins of agents that load scripts in place of hooks. Each begins with a function that runs ``periplus hook``."""

from __future__ import annotations

__all__ = ["plugin_part"]

import json
import os
from typing import Final

from periplus.interop.agents.agent_model import Site
from periplus.interop.agents.config_parts import WholePart
from periplus.interop.agents.editing.markdown_block import OPEN_SEAL

# The function sends an event to `periplus hook` in the form of Claude Code's hooks. It must not fail or wait for long.
_TELL: Final = """\
// Written by `periplus connect {agent}`; `periplus disconnect {agent}` removes it. ({seal})
import {{ spawn }} from "node:child_process"

const COMMAND = {command}
const LIMIT_MS = {limit}

function tell(name, cwd, payload) {{
  return new Promise((resolve) => {{
    let out = ""
    try {{
      const child = spawn(COMMAND[0], [...COMMAND.slice(1), "hook", name, "--agent", "{agent}"], {{
        cwd,
        stdio: ["pipe", "pipe", "ignore"],
      }})
      const timer = setTimeout(() => child.kill(), LIMIT_MS)
      const end = () => {{
        clearTimeout(timer)
        try {{
          resolve(JSON.parse(out))
        }} catch {{
          resolve({{}})
        }}
      }}
      child.on("error", end)
      child.on("close", end)
      child.stdin.on("error", () => {{}})
      child.stdout.setEncoding("utf8").on("data", (data) => (out += data))
      child.stdin.end(JSON.stringify({{ ...payload, cwd, hook_event_name: name }}))
    }} catch {{
      resolve({{}})
    }}
  }})
}}
"""


def plugin_part(
    site: Site, agent: str, folder: str, script: str, *, limit_ms: int, file: str = "periplus.js"
) -> WholePart:
    """Return the plugin of ``agent``: a ``file`` in its ``folder`` of plugins.

    The file defines ``tell(name, cwd, payload)`` before ``script``. That function runs a hook, and resolves to its
    answer, or to an empty object where the hook fails or takes longer than ``limit_ms``.
    """
    start = _TELL.format(seal=OPEN_SEAL, agent=agent, command=json.dumps(list(site.command)), limit=limit_ms)
    return WholePart(os.path.join(folder, file), "hooks", f"{start}\n{script}")
