"""Values of ``trail.checkpoints.effects``: the sources of files, and the verdicts."""

from __future__ import annotations

__all__ = ["EffectSources", "EffectVerdict", "Effects", "StepEffect"]

from collections.abc import Iterable
from typing import Literal, NamedTuple, Protocol, TypeAlias

from periplus.trail.checkpoints.git_tree import TreeEntry
from periplus.trail.model import Digest

EffectVerdict: TypeAlias = Literal["right", "wrong", "not judged", "outside", "start"]


class EffectSources(Protocol):
    """The source of files. Its answers are hashed before they are believed."""

    def entries(self, state: Digest) -> dict[str, TreeEntry] | None:
        """Return the files of a git tree or commit, without the folder of the store; None if it is not available."""
        ...

    def blob(self, name: bytes) -> bytes | None:
        """Return the content of a git blob."""
        ...

    def object(self, digest: bytes) -> bytes | None:
        """Return the object with this SHA-256."""
        ...

    def expect(self, blobs: Iterable[bytes]) -> None:
        """Announce that these blobs will be asked for."""
        ...


class StepEffect(NamedTuple):
    """The verdict on a step: a file step, a checkpoint, or a command because of which other steps were not judged."""

    at: int
    op: str
    verdict: EffectVerdict
    detail: str


class Effects(NamedTuple):
    """``missing`` lists what the trail or the repository lacks for more steps to be judged."""

    verdict: Literal["verified", "wrong", "not shown"]
    summary: str
    steps: tuple[StepEffect, ...]
    missing: tuple[str, ...]

    @property
    def first_wrong(self) -> StepEffect | None:
        return min((step for step in self.steps if step.verdict == "wrong"), default=None)
