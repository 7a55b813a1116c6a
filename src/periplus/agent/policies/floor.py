"""Catastrophic commands, which no permission allows, judged by what a shell would run and not by spelling. See ``shell.judgement``."""

from __future__ import annotations

__all__ = ["Judgement", "Level", "judge"]

from periplus.shell.judgement import Judgement, Level, judge
