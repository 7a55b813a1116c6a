"""Sandbox that confines commands to their folder and keeps them off the network: bubblewrap, else Landlock, chosen by a trial."""

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
