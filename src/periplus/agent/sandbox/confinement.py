"""Confinement of a command: the paths and network that it may use, in terms that every layer can enforce."""

from __future__ import annotations

__all__ = ["HIDDEN_FILES", "PROTECTED_NAMES", "Confinement", "Layer", "Sandbox", "home_tool_folders"]

import os
from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

Layer: TypeAlias = Literal["bubblewrap", "landlock", "none"]

PROTECTED_NAMES: Final = (".git", ".periplus")
HIDDEN_FILES: Final = ("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d")
_KEPT_OF_HOME: Final = (
    ".cargo/bin", ".rustup", ".local/bin", ".local/lib", ".local/share/uv", ".pyenv", ".nvm", ".volta", ".sdkman",
    "go/pkg/mod", ".bun/bin", ".deno/bin",
)  # fmt: skip


class Confinement(NamedTuple):
    """Limits of a command. All paths are absolute, without links, and exist.

    ``root`` and ``writable`` may be written, except ``protected`` below them; ``hidden`` may not even be read, except ``kept`` below them.
    Everything else may be read where the person may read it. ``temporary`` is what the command sees as ``/tmp``, if the layer supports it.
    """

    root: str
    temporary: str
    writable: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    allow_network: bool = False

    @classmethod
    def of(
        cls, root: str, temporary: str, home: str, *, writable: Iterable[str] = (), kept: Iterable[str] = (),
        hidden: Iterable[str] = (), allow_network: bool = False,
    ) -> Confinement:  # fmt: skip
        """Confinement of a working folder: git's and the store's folders are protected; the home folder, except for tools, and ``hidden``
        are hidden.
        """
        root = os.path.realpath(root)
        protected = [path for name in PROTECTED_NAMES if os.path.lexists(path := os.path.join(root, name))]
        real_home = os.path.realpath(home) if home else ""
        own = [os.path.realpath(path) for path in hidden if os.path.exists(path)]
        hidden = [path for path in HIDDEN_FILES if os.path.exists(path)]
        if real_home and os.path.isdir(real_home) and real_home != "/":
            if _is_within(real_home, root):  # the home folder itself is worked in: hide known secrets only
                hidden += [path for name in _SECRETS_OF_HOME if os.path.exists(path := os.path.join(real_home, name))]
            else:
                hidden.append(real_home)
        hidden += [path for path in own if not any(_is_within(path, one) for one in hidden)]
        return cls(
            root=root, temporary=os.path.realpath(temporary), writable=tuple(map(os.path.realpath, writable)),
            protected=tuple(protected), hidden=tuple(hidden), kept=(*home_tool_folders(real_home), *kept), allow_network=allow_network,
        )  # fmt: skip


_SECRETS_OF_HOME: Final = (
    ".ssh", ".aws", ".gnupg", ".azure", ".kube", ".docker", ".config", ".netrc", ".npmrc", ".pypirc", ".git-credentials",
    ".password-store", ".mozilla", ".bash_history", ".zsh_history",
)  # fmt: skip


def home_tool_folders(home: str) -> tuple[str, ...]:
    """Folders of tools in a home folder, which contain no secrets."""
    if not home:
        return ()
    return tuple(
        path for name in _KEPT_OF_HOME if os.path.isdir(path := os.path.join(home, name)) and not os.path.islink(path)
    )


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


class Sandbox(Protocol):
    """A layer that was shown to work. ``wrap`` returns the words that start ``words`` within ``confinement``."""

    @property
    def layer(self) -> Layer: ...

    @property
    def about(self) -> str: ...

    def wrap(self, words: Sequence[str], cwd: str, confinement: Confinement) -> list[str]: ...
