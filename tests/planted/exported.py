"""Exported runs, changed and closed again as only a forger would."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence


def sealed(lines: Sequence[str]) -> list[str]:
    """The lines with an end that fits them."""
    body = [line for line in lines if not line.startswith('{"end"')]
    jobs = sum(line.startswith('{"job"') for line in body)
    sha = hashlib.sha256("".join(body).encode()).hexdigest()
    return [*body, json.dumps({"end": {"jobs": jobs, "sha256": sha}}) + "\n"]
