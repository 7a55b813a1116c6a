"""Encode a whole trail from values.

``TrailReader`` decodes. ``encode(reader.header, reader.steps(), reader.status, reader.secret)`` returns the bytes that
the reader was made from, and a reader of encoded steps returns those steps. ``TrailBuilder`` is the streaming encoder.
"""

from __future__ import annotations

__all__ = ["encode"]

from collections.abc import Callable, Iterable, Mapping

from periplus.trail.format.builder import TrailBuilder
from periplus.trail.model import Header, Status, Step


def encode(
    header: Header,
    steps: Iterable[Step],
    status: Status,
    secret: bytes,
    *,
    put_text: Callable[[bytes], bytes] | None = None,
    extra: Mapping[int, bytes] | None = None,
) -> bytes:
    """Return the bytes of a trail; ``extra`` holds sections of other tags: a signature, or sections of a newer version.

    Raises UsageError for values that cannot be written: a value that the table does not allow, or a withheld one.
    """
    builder = TrailBuilder(secret, put_text)
    at_ms = header.started_ms
    for step in steps:
        at_ms += step.delta_ms
        builder.add_step(step, at_ms)
    return builder.seal(header, status, header.started_ms, extra)
