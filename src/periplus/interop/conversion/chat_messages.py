"""Messages in the form of chat completions, which many agents store as they send them."""

from __future__ import annotations

__all__ = ["Asked", "answer", "prompt"]

from typing import Final, NamedTuple

from periplus.interop.conversion.conversation import Chat, blocks_of, text_of_blocks
from periplus.interop.conversion.intake import Call
from periplus.interop.readers.json_values import table_of, text_of

_MEDIA: Final = frozenset(
    {"audio", "file", "image", "image_url", "input_audio", "input_file", "input_image", "video_url"}
)
_TEXTS: Final = frozenset({"input_text", "output_text", "text"})


class Asked(NamedTuple):
    """A call of the model as its message has it, and its steps."""

    call_id: str
    name: str
    arguments: object
    call: Call


def prompt(chat: Chat, content: object) -> None:
    """Add the prompt of a person: a text or a list of parts."""
    kinds = [text_of(block.get("type")) for block in blocks_of(content)]
    for kind in kinds:
        if kind not in _TEXTS and kind not in _MEDIA:
            chat.intake.note_unknown(f"block: {kind or 'unnamed'}")
    has_media = any(kind in _MEDIA for kind in kinds)
    chat.prompt(text_of_blocks(content), "with a file" if has_media else None)


def answer(chat: Chat, message: dict[str, object]) -> list[Asked]:
    """Add the reasoning, the text and the calls of a model's message; return the calls."""
    thought = text_of(message.get("reasoning_content")) or text_of(message.get("reasoning"))
    if thought:
        chat.think(thought)
    for block in blocks_of(message.get("content")):
        kind = text_of(block.get("type"))
        text = text_of(block.get("text"))
        if kind in _TEXTS:
            if text:  # a message with calls alone has an empty one
                chat.say(text)
        elif kind in ("think", "thinking"):
            chat.think(text_of(block.get(kind)))
        elif kind in _MEDIA:
            chat.intake.skip(f"block: {kind}")
        else:
            chat.intake.note_unknown(f"block: {kind or 'unnamed'}")
    asked = []
    for item in blocks_of(message.get("tool_calls")):
        function = table_of(item.get("function"))
        call_id, name, arguments = text_of(item.get("id")), text_of(function.get("name")), function.get("arguments")
        asked.append(Asked(call_id, name, arguments, chat.call(call_id, name, arguments)))
    return asked
