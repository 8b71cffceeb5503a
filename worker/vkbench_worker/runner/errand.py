"""What one-shot processes on a device share: its lock, and answers as lines of JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from vkbench.errors import VkbenchError
from vkbench.process import system
from vkbench.settings import Settings
from vkbench_shaders.bundle import Bundle, kept_bundles
from vkbench_worker import policy
from vkbench_worker.protocol import lock_path

Answer = Mapping[str, object]


def answer_errand(work: Callable[[], Iterable[Answer]]) -> int:
    """Do the work, print each thing that it says as a line of JSON, and return the exit status."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # drivers talk on stdout
    try:
        for answer in work():
            print(json.dumps(answer), file=answers, flush=True)
    except VkbenchError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


@contextmanager
def hold_device(settings: Settings, device: str) -> Iterator[None]:
    """Hold a device's lock: no measurement runs there meanwhile."""
    path = lock_path(settings, device)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as lock:
        system.lock(lock)
        yield


def take_bundle(sha: str, settings: Settings) -> Bundle:
    """A bundle of this host, if its policy lets it run."""
    bundle = kept_bundles(settings).get(sha)
    policy.check(settings.bundles, bundle.sha)
    return bundle
