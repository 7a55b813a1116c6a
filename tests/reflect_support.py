"""Sessions of Claude Code in which something happens, written as it writes them."""

from __future__ import annotations

import json

CWD = "/home/ada/engine"


def session(path, *events, name="5e551012", cwd=CWD):
    """Write a session: ``("prompt", text)``, ``("say", text)``, ``("run", command, error or "")``, ``("edit", path)``,
    ``("refused", command, what the person said)``.
    """
    rows = []

    def add(kind, message, **more):
        number = len(rows)
        rows.append({
            "type": kind, "uuid": f"{name}{number}", "parentUuid": f"{name}{number - 1}" if number else None, "sessionId": name,
            "cwd": cwd, "version": "2.0.0", "timestamp": f"2026-02-03T10:{number // 60:02d}:{number % 60:02d}.000Z",
            "message": message, **more,
        })  # fmt: skip

    def tool(name, inputs, text, *, is_error):
        number = len(rows)
        call = {"type": "tool_use", "id": f"t{number}", "name": name, "input": inputs}
        add("assistant", {"id": f"m{number}", "role": "assistant", "model": "model-1", "content": [call]})
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": text, "is_error": is_error}
        add("user", {"role": "user", "content": [result]})

    for what, text, *rest in events:
        if what == "prompt":
            add("user", {"role": "user", "content": text})
        elif what == "say":
            block = {"type": "text", "text": text}
            add("assistant", {"id": f"m{len(rows)}", "role": "assistant", "model": "model-1", "content": [block]})
        elif what == "run":
            error = rest[0] if rest else ""
            tool("Bash", {"command": text}, f"Exit code 1\n{error}" if error else "done", is_error=bool(error))
        elif what == "edit":
            inputs = {"file_path": f"{cwd}/{text}", "old_string": "a", "new_string": "b"}
            tool("Edit", inputs, "The file has been updated.", is_error=False)
        else:
            assert what == "refused"
            said = (
                "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string "
                f"was NOT written to the file). To tell you how to proceed, the user said:\n{rest[0]}"
            )
            tool("Bash", {"command": text}, said, is_error=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
