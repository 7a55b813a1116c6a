"""A trail as values to bytes and back.

Reading is ``TrailReader``. For a whole trail ``encode(reader.header, reader.steps(), reader.status, reader.secret)`` gives the bytes that the
reader was made of, and what a reader gives of encoded steps are those steps. The builder is the streaming way in.
"""

from __future__ import annotations

__all__ = ["encode"]

from collections.abc import Callable, Iterable, Mapping

from periplus.base.errors import UsageError
from periplus.trail.builder import TrailBuilder
from periplus.trail.model import Digest, Header, Status, Step, Withheld
from periplus.trail.opcodes import BY_CODE


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
        add = builder.add if step.code in BY_CODE else builder.add_unknown
        add(
            step.code,
            *step.operands,
            outcome=step.outcome,
            exit_code=step.exit_code,
            error=step.error,
            result=_whole(step.result),
            result_size=step.result_size,
            note=step.note,
            at_ms=at_ms,
            duration_ms=step.duration_ms,
            source=step.source,
        )
    return builder.seal(header, status, header.started_ms, extra)


def _whole(result: Digest | Withheld | None) -> Digest | None:
    if isinstance(result, Withheld):
        raise UsageError("result: withheld; only a whole trail can be written")
    return result
