"""Token counters: one protocol, and the counters that ship with Periplus.

A budget is kept exactly *under the chosen counter*. Each counter states how far it may be from the count of a model:

* ``EstimateCounter`` (the default) needs no vocabulary. ``ESTIMATE_SHARES`` states, by kind of text, its count as a share of the
  counts of two common byte-pair vocabularies (``o200k_base`` and ``cl100k_base``), for texts of at least 500 characters (CJK:
  100); a test checks it. For other kinds it can count too little: for base64 two thirds, for rare Chinese characters two fifths.
* ``BpeCounter`` counts with one of these two vocabularies: exactly for models that use it. It needs the extra ``tokens``.
* ``CalibratedCounter`` scales another counter so that it covers the charges of a provider for known texts. It counts none of those
  requests lower than the permitted share; for other texts it promises nothing.

The sum of the counts of parts is not the count of the whole: tokens may cross the seam of two texts. In practice joined
texts take fewer tokens.
"""

from __future__ import annotations

__all__ = [
    "BPE_ENCODINGS",
    "CALIBRATION_PAIRS_MAX",
    "ESTIMATE",
    "ESTIMATE_SHARES",
    "BpeCounter",
    "CalibratedCounter",
    "EstimateCounter",
    "TokenCounter",
    "Usage",
    "calibrate",
]

from collections.abc import Callable, Sequence
from functools import cache
from typing import Final, NamedTuple, Protocol

from periplus.base.errors import UsageError
from periplus.base.text.token_estimate import estimate_tokens

BPE_ENCODINGS: Final = ("cl100k_base", "o200k_base")
CALIBRATION_PAIRS_MAX: Final = 10_000
_MILLION: Final = 1_000_000
_FACTOR_MAX: Final = 1_000 * _MILLION

# Kind of text: lowest and highest estimate, as shares of the count of either vocabulary.
ESTIMATE_SHARES: Final[dict[str, tuple[float, float]]] = {
    "code": (0.85, 1.60),
    "prose": (0.85, 1.35),
    "cjk": (0.80, 1.50),
    "emoji": (0.90, 1.60),
}


class TokenCounter(Protocol):
    """Count the tokens of one text: never negative, the same number for the same text."""

    @property
    def name(self) -> str:
        """The name of the counter for people."""
        ...

    @property
    def request_tokens(self) -> int:
        """The tokens of a request beyond its texts, 0 if unknown; subtracted from a budget once."""
        ...

    def count(self, text: str, /) -> int: ...


class EstimateCounter:
    """Estimate tokens by kinds of bytes (``base.tokens``), without a vocabulary."""

    name: Final = "estimate"
    request_tokens: Final = 0

    def count(self, text: str, /) -> int:
        return estimate_tokens(text)


ESTIMATE: Final[TokenCounter] = EstimateCounter()


class BpeCounter:
    """Count with a byte-pair vocabulary. Raises UsageError if it is unknown or the extra ``tokens`` is not installed."""

    request_tokens: Final = 0

    def __init__(self, encoding: str = "o200k_base") -> None:
        self._count = _bpe(encoding)
        self.name = encoding

    def count(self, text: str, /) -> int:
        return self._count(text)


@cache
def _bpe(encoding: str) -> Callable[[str], int]:
    if encoding not in BPE_ENCODINGS:
        raise UsageError(f"encoding: no vocabulary {encoding!r}; there are {' and '.join(BPE_ENCODINGS)}")
    try:
        from rs_bpe.bpe import openai
    except ImportError as error:
        raise UsageError(
            f"tokens by {encoding} cannot be counted: the package rs-bpe is not installed",
            safe="the default counter estimates and needs no vocabulary",
            mend="pip install 'periplus[tokens]'",
        ) from error
    count: Callable[[str], int] = getattr(openai, encoding)().count
    return count


class Usage(NamedTuple):
    """The charge of a provider for one request; ``counted`` is the sum of the base counter over its texts."""

    counted: int
    charged: int


class CalibratedCounter:
    """Scale ``base``: a request takes ``request_tokens``, and for each text ``factor`` millionths of its count, rounded
    up.
    """

    def __init__(self, base: TokenCounter, factor: int, request_tokens: int, *, allowed: float, pairs: int) -> None:
        self.name = f"{base.name} calibrated by {pairs} requests, at most {allowed:.1%} under"
        self.request_tokens = request_tokens
        self.factor = factor
        self.allowed = allowed
        self._base = base

    def count(self, text: str, /) -> int:
        return -(-self._base.count(text) * self.factor // _MILLION)


def calibrate(pairs: Sequence[Usage], *, base: TokenCounter = ESTIMATE, allowed: float = 0.0) -> CalibratedCounter:
    """Return a counter that for each of ``pairs`` counts at least the charge less the share ``allowed`` of it.

    The slope is that of least squares; the constant is then the least that covers all pairs, so an outlier raises the
    constant of a request and not the slope. If all requests have one size, the slope is their ratio. Raises UsageError
    that names the pair.
    """
    if not 0 <= allowed < 1:
        raise UsageError(f"allowed: {allowed} is not a share from 0 to under 1")
    if not 1 <= len(pairs) <= CALIBRATION_PAIRS_MAX:
        raise UsageError(f"pairs: {len(pairs)} are not 1 to {CALIBRATION_PAIRS_MAX:,}")
    for place, pair in enumerate(pairs):
        if pair.counted < 1 or pair.charged < 1:
            raise UsageError(
                f"pairs[{place}]: {pair.counted} counted and {pair.charged} charged are not both at least 1"
            )
    factor = _slope(pairs)
    allowed_millionths = int(allowed * _MILLION)
    request_tokens = 0
    for counted, charged in pairs:
        least = -(-charged * (_MILLION - allowed_millionths) // _MILLION)
        request_tokens = max(request_tokens, least - counted * factor // _MILLION)
    return CalibratedCounter(base, factor, request_tokens, allowed=allowed, pairs=len(pairs))


def _slope(pairs: Sequence[Usage]) -> int:
    """Return the tokens charged for one more counted, in millionths, by least squares in integers; at least a
    thousandth.
    """
    number = len(pairs)
    counted = sum(pair.counted for pair in pairs)
    charged = sum(pair.charged for pair in pairs)
    across = number * sum(pair.counted * pair.charged for pair in pairs) - counted * charged
    along = number * sum(pair.counted**2 for pair in pairs) - counted**2
    slope = _MILLION * across // along if along else -(-_MILLION * charged // counted)
    return min(max(slope, _MILLION // 1_000), _FACTOR_MAX)
