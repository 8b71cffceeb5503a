"""The planted runner of a host whose device 0 is its CPU; the others are GPUs."""

from __future__ import annotations

import sys

import planted_runner
from vkbench_worker.protocol import PROCESSOR

if __name__ == "__main__":
    number = sys.argv[sys.argv.index("--device") + 1]
    planted_runner.hardware = PROCESSOR if number == "0" else f"0000:0{number}:00.0"
    planted_runner.main()
