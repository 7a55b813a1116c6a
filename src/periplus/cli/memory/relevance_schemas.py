"""What ``--json`` prints of ``related`` and ``changed``. See ``cli.schemas``."""

from __future__ import annotations

__all__ = ["KNOWING_SCHEMAS", "ChangedFileOut", "ChangedItemOut", "ChangesOut", "LikelyFileOut", "RelatedOut"]

from typing import Final

import msgspec

from periplus.cli.common.schemas import HitOut


class LikelyFileOut(msgspec.Struct):
    """``source`` is the trail, or the step ``trail#index``, that speaks for it most; empty where only its path does."""

    path: str
    score: int
    why: list[str]
    source: str


class RelatedOut(msgspec.Struct, tag_field="schema", tag="periplus.related/1"):
    """Each list the likeliest first; ``left_out`` more fell to the limit or the budget."""

    paths: list[str]
    task: str
    files: list[LikelyFileOut]
    memory: list[HitOut]
    work: list[HitOut]
    left_out: int


class ChangedItemOut(msgspec.Struct):
    """An entity as it is now. ``what`` is ``created``, ``changed``, ``ended`` or ``deleted``; ``records`` how many said so."""

    type: str
    id: str
    what: str
    state: str
    text: str
    by: list[str]
    ts: str
    records: int
    more: str


class ChangedFileOut(msgspec.Struct):
    """A file that ``times`` sessions or commits touched, ``source`` the last of them."""

    path: str
    source: str
    ts: str
    times: int


class ChangesOut(msgspec.Struct, tag_field="schema", tag="periplus.changes/1"):
    """``since`` in words; it is behind record ``since_seq`` of our own lineage, of others behind ``since_ts``."""

    since: str
    since_seq: int
    since_ts: str
    items: list[ChangedItemOut]
    files: list[ChangedFileOut]
    matched: int
    left_out: int


KNOWING_SCHEMAS: Final[dict[str, type[msgspec.Struct]]] = {"related": RelatedOut, "changed": ChangesOut}
