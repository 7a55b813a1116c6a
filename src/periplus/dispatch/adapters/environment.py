"""Environment of an agent, built from nothing: what every program needs, what the adapter names, and who writes."""

from __future__ import annotations

__all__ = ["COMMON", "built_environment", "program_folders"]

import os
from collections.abc import Mapping, Sequence
from typing import Final

COMMON: Final = (
    "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR",
    # Folders of settings and data, which git and the agents' hooks look up as well.
    "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "PERIPLUS_STORE",
    # The way to the network, and the certificates of a proxy that reads along.
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE",
)  # fmt: skip
_LOCALE: Final = "LC_"
_ADDRESS: Final = "periplus@localhost"


def built_environment(
    person: Mapping[str, str], named: Sequence[str], constants: Mapping[str, str], *,
    agent: str, session: str, run: str, email: str = "", excludes: str = "",
) -> dict[str, str]:  # fmt: skip
    """Return the environment of one run.

    Of the ``person``'s only COMMON, the locale and the ``named`` variables are in it. Git commits as the agent under the ``email`` of
    the person, never asks at a terminal, and leaves out what the file ``excludes`` lists.
    """
    made = {name: person[name] for name in (*COMMON, *named) if name in person}
    made |= {name: value for name, value in person.items() if name.startswith(_LOCALE)}
    made |= constants
    author, address = f"{agent} (periplus)", email or _ADDRESS
    made |= {
        "PATH": os.pathsep.join(program_folders(person)), "TERM": "dumb", "PERIPLUS_AGENT": agent, "PERIPLUS_SESSION": session,
        "PERIPLUS_RUN": run, "GIT_AUTHOR_NAME": author, "GIT_AUTHOR_EMAIL": address, "GIT_COMMITTER_NAME": author,
        "GIT_COMMITTER_EMAIL": address, "GIT_TERMINAL_PROMPT": "0",
    }  # fmt: skip
    if excludes:
        made |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.excludesFile", "GIT_CONFIG_VALUE_0": excludes}
    return made


def program_folders(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the absolute folders of PATH: others would find programs in the working folder."""
    folders = environment.get("PATH", os.defpath).split(os.pathsep)
    return tuple(folder for folder in folders if os.path.isabs(folder))
