"""Many tests at once: which of them to believe."""

from __future__ import annotations

from collections.abc import Sequence

FALSE_SHARE = 0.05  # of those believed


def believe_which(p_values: Sequence[float], false_share: float = FALSE_SHARE) -> list[bool]:
    """Benjamini and Hochberg: of those believed, at most this share is chance on average."""
    from scipy.stats import false_discovery_control

    if not p_values:
        return []
    return [bool(p <= false_share) for p in false_discovery_control(list(p_values))]
