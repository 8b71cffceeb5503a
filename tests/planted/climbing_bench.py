#!/usr/bin/env python3
"""A llama-bench on a GPU whose clock climbs under load, from a fifth of its speed in 0.4 s.

A token takes 2 ms once the clock is up. What it was asked stands in the file `asked` beside it.
"""

import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
TOKEN_SECONDS, CLIMB_SECONDS = 2e-3, 0.4


def main() -> None:
    with (HERE / "asked").open("a") as asked:
        print(*sys.argv[1:], file=asked)
    if sys.argv[1] == "--list-devices":
        print("Available devices:\n  Vulkan0: a card (1024 MiB, 1024 MiB free)")
        return
    given = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
    prompt, generated = int(given["-p"]), int(given["-n"])
    load, samples = 0.0, []
    for _ in range(int(given["-r"])):
        before = load
        for _ in range(generated or 1):
            load += TOKEN_SECONDS * (5 - 4 * min(1, load / CLIMB_SECONDS))
        samples.append(round((load - before) * 1e9))
    test = {
        "model_filename": given["-m"],
        "n_prompt": prompt,
        "n_gen": generated,
        "n_depth": int(given.get("-d", 0)),
        "test_time": "2026-11-20T10:00:00Z",
        "stddev_ns": 0,
        "samples_ns": samples,
        "build_commit": "planted",
    }
    print(json.dumps([test]))


if __name__ == "__main__":
    main()
