"""What the published conformance suite wants to find in a server, beside what ours offers: its named tools, resources and prompts.

It stands on the same code: our handlers, our SDK server, our HTTP transport. ``python mcp_conformance_server.py FOLDER`` serves the project
there and prints the address.
"""

from __future__ import annotations

import json
import struct
import sys
import zlib
from base64 import b64encode

from periplus.project import Project
from periplus.server.mcp.http import serve_http
from periplus.server.mcp.sdk_server import Answers, DeskThread, make_server
from periplus.server.mcp.tool_calls import Desk


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


PNG = b64encode(
    b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    + chunk(b"IDAT", zlib.compress(b"\0\xff\0\0")) + chunk(b"IEND", b"")
).decode()  # fmt: skip
WAV = b64encode(b"RIFF" + struct.pack("<I", 38) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 16000, 2, 16)
                + b"data" + struct.pack("<I", 2) + b"\0\0").decode()  # fmt: skip


def text(said):
    return {"type": "text", "text": said}


def embedded(uri, said, mime_type="text/plain"):
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": said}}


IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}
TOOLS = {
    "test_simple_text": [text("This is a simple text response for testing.")],
    "test_image_content": [IMAGE],
    "test_audio_content": [{"type": "audio", "data": WAV, "mimeType": "audio/wav"}],
    "test_embedded_resource": [embedded("test://embedded-resource", "This is an embedded resource content.")],
    "test_multiple_content_types": [
        text("Multiple content types test:"), IMAGE,
        embedded("test://mixed-content-resource", json.dumps({"test": "data", "value": 123}), "application/json"),
    ],
}  # fmt: skip
SCHEMA_TOOL = {
    "name": "json_schema_2020_12_tool",
    "description": "A tool whose schema uses JSON Schema 2020-12",
    "inputSchema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}
        },
        "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
        "additionalProperties": False,
    },
}


def prompts(given):
    return {
        "test_simple_prompt": [text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments": [
            text(f"Prompt with arguments: arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'")
        ],
        "test_prompt_with_embedded_resource": [
            embedded(given.get("resourceUri", ""), "Embedded resource content for testing."),
            text("Please process the embedded resource above."),
        ],
        "test_prompt_with_image": [IMAGE, text("Please analyze the image above.")],
    }


class Fixture(Answers):
    """Ours, and the suite's."""

    async def list_tools(self, context, params):
        import mcp_types

        ours = await super().list_tools(context, params)
        theirs = [
            {"name": name, "description": "As the suite wants it.", "inputSchema": {"type": "object"}} for name in TOOLS
        ]
        return mcp_types.ListToolsResult(
            tools=[*ours.tools, *map(mcp_types.Tool.model_validate, [*theirs, SCHEMA_TOOL])]
        )

    async def call_tool(self, context, params):
        import mcp_types

        if params.name in TOOLS:
            return mcp_types.CallToolResult.model_validate({"content": TOOLS[params.name]})
        return await super().call_tool(context, params)

    async def read_resource(self, context, params):
        import mcp_types

        uri = str(params.uri)
        found = {
            "test://static-text": {
                "mimeType": "text/plain",
                "text": "This is the content of the static text resource.",
            },
            "test://static-binary": {"mimeType": "image/png", "blob": PNG},
        }
        if uri.startswith("test://template/"):
            number = uri.split("/")[3]
            said = {"id": number, "templateTest": True, "data": f"Data for ID: {number}"}
            found[uri] = {"mimeType": "application/json", "text": json.dumps(said)}
        if uri in found:
            return mcp_types.ReadResourceResult.model_validate({"contents": [{"uri": uri, **found[uri]}]})
        return await super().read_resource(context, params)

    async def get_prompt(self, context, params):
        import mcp_types

        theirs = prompts(params.arguments or {}).get(params.name)
        if theirs is None:
            return await super().get_prompt(context, params)
        messages = [{"role": "user", "content": one} for one in theirs]
        return mcp_types.GetPromptResult.model_validate({"messages": messages})


def main(folder):
    desk = Desk(lambda writer: Project.open(folder, writer), host="here")
    thread = DeskThread(desk)
    try:
        serve_http(make_server(Fixture(thread, "conformance")), 0, lambda url: print(url, flush=True))
    finally:
        thread.close()


if __name__ == "__main__":
    main(sys.argv[1])
