"""Claims of a subagent: the paths that it alone may change.

With given paths it claims them before its first step, and its file tools change nothing else. Without, it claims each file just before
changing it. Claims of the sessions above it are lent to it and need no claim of its own. All claims are released at its end, and expire by
themselves if its process is killed.
"""

from __future__ import annotations

__all__ = ["ChildClaims"]

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.errors import ClaimedError, RefusedError

if TYPE_CHECKING:
    from periplus.project import Project

_CHECKED_AT_ONCE: Final = 200
_SHOWN: Final = 10


class ChildClaims:
    """The claims of the writer of ``project``, which is the subagent; ``above`` are the names of its parent sessions."""

    def __init__(
        self, project: Project, *, reads: bool, paths: Sequence[str], above: Sequence[str], about: str, ttl_s: int
    ) -> None:
        from periplus.memory.claim_status import session_id

        self._project, self._reads, self._paths = project, reads, tuple(paths)
        self._above = frozenset(session_id(name) for name in above)
        self._about, self._ttl_s = about, ttl_s
        self._held: list[str] = []

    def begin(self) -> None:
        """Claim the given paths. Raises ClaimedError, which names the holder; nothing is claimed then."""
        if self._reads:
            return
        try:
            for path in self._paths:
                self._claim(path)
        except BaseException:  # for any exception: release what was claimed so far
            self.end()
            raise

    def guard(self, paths: Sequence[str]) -> None:
        """Check paths that are about to be changed. Raises RefusedError for paths outside its task, ClaimedError for claims of others."""
        if self._reads:
            raise RefusedError(
                "this subagent only reads", safe="Nothing was changed.", mend="Report what you would change."
            )
        outside = [path for path in paths if self._paths and not _lies_in(path, self._paths)]
        if outside:
            raise RefusedError(
                f"not among the paths that this subagent was given: {', '.join(outside[:_SHOWN])}", safe="Nothing was changed.",
                mend=f"It may change {', '.join(self._paths[:_SHOWN])}; report what else would have to be changed.",
            )  # fmt: skip
        self._refuse_claimed(paths)
        for path in paths:
            if not _lies_in(path, self._held):
                self._claim(path)

    def end(self) -> None:
        """Release all claims."""
        if self._held:
            self._held.clear()
            self._project.work.release(reason="the subagent ended")

    # -- inside --------------------------------------------------------------------------------------------------------

    def _refuse_claimed(self, paths: Sequence[str]) -> None:
        for begin in range(0, len(paths), _CHECKED_AT_ONCE):
            for one in self._project.work.check(paths[begin : begin + _CHECKED_AT_ONCE]).blocked:
                value = one.entity.value
                if str(value.get("session", "")) not in self._above:
                    raise ClaimedError(
                        f"{one.path} is claimed by {value.get('holder')} until {value.get('expires')}: "
                        f"{str(value.get('text', ''))[:80]} [{one.entity.item_id}]",
                        claims=(one.entity.item_id,), safe="Nothing was changed.", mend="Leave it alone, and report it.",
                    )  # fmt: skip

    def _claim(self, path: str) -> None:
        from periplus.memory.coordination.claims import Asked
        from periplus.memory.scopes import escaped

        is_folder = os.path.isdir(os.path.join(self._project.top, path))
        scope = path if path == "." else f"{escaped(path)}/" if is_folder else escaped(path)
        try:
            self._project.work.claim(Asked((scope,), text=self._about, ttl_s=self._ttl_s))
        except ClaimedError as error:
            if not all(self._is_lent(claim) for claim in error.claims):
                raise
        self._held.append(path)

    def _is_lent(self, claim_id: str) -> bool:
        claim = self._project.journal.get("claim", claim_id)
        return claim is not None and str(claim.value.get("session", "")) in self._above


def _lies_in(path: str, folders: Sequence[str]) -> bool:
    return any(folder in (".", path) or path.startswith(f"{folder}/") for folder in folders)
