"""Catalogue of models: context windows, output limits and prices. The data is in ``catalogue.json``.

A model that is not in it works as well: its window is taken to be WINDOW_DEFAULT, and its cost is not known.
"""

from __future__ import annotations

__all__ = ["OUTPUT_DEFAULT", "WINDOW_DEFAULT", "ModelFacts", "as_of", "cost_of", "facts_of", "known_models"]

import functools
from typing import Final

import msgspec

from periplus.agent.contracts import Usage

WINDOW_DEFAULT: Final = 128_000
OUTPUT_DEFAULT: Final = 8_192


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of a model: ``window`` and ``output`` in tokens; prices in thousandths of a dollar for a million tokens, None if not known."""

    window: int = WINDOW_DEFAULT
    output: int = OUTPUT_DEFAULT
    price_in: int | None = msgspec.field(default=None, name="in")
    price_out: int | None = msgspec.field(default=None, name="out")
    price_read: int | None = msgspec.field(default=None, name="read")
    price_write: int | None = msgspec.field(default=None, name="write")
    long: int = 0


class _Catalogue(msgspec.Struct, frozen=True):
    as_of: str
    unit: str
    models: dict[str, ModelFacts]


@functools.cache
def _catalogue() -> _Catalogue:
    from importlib.resources import files

    return msgspec.json.decode(files(__package__).joinpath("catalogue.json").read_bytes(), type=_Catalogue)


def known_models() -> dict[str, ModelFacts]:
    """All models by ``provider/model``, in the order of the file."""
    return dict(_catalogue().models)


def as_of() -> str:
    """The month of the catalogue's data."""
    return _catalogue().as_of


def facts_of(provider: str, model: str) -> ModelFacts:
    """Look up a model; a dated name is looked up without its date. An unknown model gets the defaults."""
    models = _catalogue().models
    name = f"{provider}/{model}"
    while (
        name not in models and "-" in name and name.rpartition("-")[2].isdigit() and len(name.rpartition("-")[2]) != 1
    ):
        name = name.rpartition("-")[0]
    return models.get(name, ModelFacts())


def cost_of(facts: ModelFacts, usage: Usage) -> int:
    """Cost of a request in millionths of a dollar; 0 if the prices are not known."""
    if facts.price_in is None or facts.price_out is None:
        return 0
    read = facts.price_in if facts.price_read is None else facts.price_read
    write = facts.price_in if facts.price_write is None else facts.price_write
    plain = max(usage.prompt_tokens - usage.cached - usage.cache_written, 0)
    prompt = plain * facts.price_in + usage.cached * read + usage.cache_written * write
    out = usage.completion_tokens * facts.price_out
    if facts.long and usage.prompt_tokens > facts.long:
        prompt, out = 2 * prompt, out * 3 // 2
    return _rounded(prompt + out)


def _rounded(value: int) -> int:
    return (value + 999) // 1000
