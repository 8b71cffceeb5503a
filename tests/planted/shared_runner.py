"""The planted runner of devices that all are the same hardware."""

from __future__ import annotations

import planted_runner

if __name__ == "__main__":
    planted_runner.hardware = "0000:01:00.0"
    planted_runner.main()
