"""Tokens and money of the model calls in a trail."""

from __future__ import annotations

__all__ = ["ModelCosts", "plus_call"]

from typing import TYPE_CHECKING, Final

from periplus.base.named_tuple import NamedTuple
from periplus.trail.opcodes import BY_NAME

if TYPE_CHECKING:
    from periplus.trail.model import Step

_MODEL_CALL: Final = BY_NAME["MODEL_CALL"].code


class ModelCosts(NamedTuple):
    """Sums over model calls: fresh, cached and written tokens, and cost in millionths of a dollar."""

    tokens_in: int = 0
    cached: int = 0
    out: int = 0
    cost: int = 0


def plus_call(costs: ModelCosts, step: Step) -> ModelCosts:
    """Return ``costs`` with those of a step, if it is a model call; a call without a known cost adds none."""
    if step.code != _MODEL_CALL:
        return costs
    fresh, cached, out, cost = (operand if isinstance(operand, int) else 0 for operand in step.operands[1:5])
    return ModelCosts(costs.tokens_in + fresh, costs.cached + cached, costs.out + out, costs.cost + cost)
