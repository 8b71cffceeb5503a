"""What can go wrong when results are judged, each said in one line."""

from __future__ import annotations

from vkbench.errors import VkbenchError


class ImpossibleTransition(VkbenchError):
    """A change point cannot go from the state that it has to the one that was asked for."""
