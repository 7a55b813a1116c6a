"""A trail as values to bytes and back.

Reading is ``TrailReader``. For a whole trail ``encode(reader.header, reader.steps(), reader.status, reader.secret)`` gives the bytes that the
reader was made of, and what a reader gives of encoded steps are those steps. The builder is the streaming way in.
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
    """The bytes of a trail; ``extra`` are sections of other tags, a signature or those of a newer version.

    Raises UsageError for what cannot be written: a value against the table, a withheld one.
    """
    builder = TrailBuilder(secret, put_text)
    at_ms = header.started_ms
    for step in steps:
        at_ms += step.delta_ms
        builder.add_step(step, at_ms)
    return builder.seal(header, status, header.started_ms, extra)
