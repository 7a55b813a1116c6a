"""Names of our own in an ATIF document: what the format has no place for lies in ``extra``, under ``periplus``.

The root holds the trail's digest, its end and its header. A step holds the facts of the trail's steps that became its
message, its reasoning and its metrics; a call holds the facts of its step, and its result those of the outcome. Facts
with the usual value are left out: a step that succeeded has no ``outcome``. Times are counted from the ``timestamp`` of the
document's step.
"""

from __future__ import annotations

__all__ = ["EXTRA", "EXTRA_VERSION", "MARKS", "MESSAGE", "MODEL_CALL", "REASONING", "SCHEMA_VERSION"]

from typing import Final

SCHEMA_VERSION: Final = "ATIF-v1.8"
EXTRA: Final = "periplus"
EXTRA_VERSION: Final = 1
MESSAGE: Final = "message"
REASONING: Final = "reasoning"
MODEL_CALL: Final = "model_call"
# Steps of a trail that are neither said nor called: system steps of the document.
MARKS: Final = frozenset({"BRANCH", "CHECKPOINT", "LABEL", "LEVEL_UP", "NOP", "TRUST_UPDATE"})
