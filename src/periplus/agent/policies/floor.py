"""The catastrophic floor: what no permission allows, decided by what a shell would run and not by how it is spelled. See ``shell.judgement``."""

from __future__ import annotations

__all__ = ["Judgement", "Level", "judge"]

from periplus.shell.judgement import Judgement, Level, judge
