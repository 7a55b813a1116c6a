"""The tape: the context that a model sees, compiled from the episodes of a session."""

from __future__ import annotations

__all__ = ["SYSTEM_PROMPT", "Tape", "prompt_for"]

from periplus.agent.tape.compiler import Tape
from periplus.agent.tape.system_prompt import SYSTEM_PROMPT, prompt_for
