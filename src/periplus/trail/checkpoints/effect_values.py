"""What judging the effects of a trail takes and gives; see ``trail.effects``."""

from __future__ import annotations

__all__ = ["EffectSources", "EffectVerdict", "Effects", "StepEffect"]

from collections.abc import Iterable
from typing import Literal, NamedTuple, Protocol, TypeAlias

from periplus.trail.checkpoints.git_tree import TreeEntry
from periplus.trail.model import Digest

EffectVerdict: TypeAlias = Literal["right", "wrong", "not judged", "outside", "start"]


class EffectSources(Protocol):
    """Where files come from. Nothing that they give is believed before it was hashed."""

    def entries(self, state: Digest) -> dict[str, TreeEntry] | None:
        """The files of a git tree or commit, without the store's own folder; None where it is not at hand."""
        ...

    def blob(self, name: bytes) -> bytes | None:
        """The content of a git blob."""
        ...

    def object(self, digest: bytes) -> bytes | None:
        """The object with this SHA-256."""
        ...

    def expect(self, blobs: Iterable[bytes]) -> None:
        """These blobs will be asked for."""
        ...


class StepEffect(NamedTuple):
    """What was found out about a step: file steps, checkpoints, and commands that may be why others were not judged."""

    at: int
    op: str
    verdict: EffectVerdict
    detail: str


class Effects(NamedTuple):
    """``missing`` says what the trail or the repository lacks for more to be judged."""

    verdict: Literal["verified", "wrong", "not shown"]
    summary: str
    steps: tuple[StepEffect, ...]
    missing: tuple[str, ...]

    @property
    def first_wrong(self) -> StepEffect | None:
        return min((step for step in self.steps if step.verdict == "wrong"), default=None)
