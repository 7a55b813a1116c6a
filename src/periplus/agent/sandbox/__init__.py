"""Keeping commands in their folder and from the network: bubblewrap, else Landlock, found out by trying."""

from __future__ import annotations

from periplus.agent.sandbox.bubblewrap import Bubblewrap
from periplus.agent.sandbox.confinement import Confinement, Layer, Sandbox
from periplus.agent.sandbox.landlock import Landlock
from periplus.agent.sandbox.probe import Unconfined, find_sandbox, landlock_version

__all__ = [
    "Bubblewrap",
    "Confinement",
    "Landlock",
    "Layer",
    "Sandbox",
    "Unconfined",
    "find_sandbox",
    "landlock_version",
]
