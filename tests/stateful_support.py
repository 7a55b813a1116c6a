"""Settings of the tests that drive whole stores through random steps."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings


def stateful_settings(*, examples: int, steps: int) -> settings:
    """Return settings with the same examples in each run; PERIPLUS_EXAMPLES looks for that many new ones instead of ``examples``."""
    return settings(
        max_examples=int(os.environ.get("PERIPLUS_EXAMPLES", examples)),
        stateful_step_count=steps,
        derandomize="PERIPLUS_EXAMPLES" not in os.environ,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
        report_multiple_bugs=False,
        phases=[Phase.explicit, Phase.generate],
    )
