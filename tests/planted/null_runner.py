"""The planted runner, whose jobs of the catalogue a NullDevice computes and the judge judges."""

from __future__ import annotations

import planted_runner
from vkbench.case import Case
from vkbench.job import Job, Mode, Outcome
from vkbench_shaders.bundle import packaged
from vkbench_worker.runner.execute import execute
from vkbench_worker.runtime.null import NullDevice

CASES = tuple(f"add/f32/b1_c1_h1_w{width}" for width in (1, 7, 64, 257))

_device = NullDevice()


def compute(case: Case) -> None:
    """Compute and judge a case; end the runner if that fails."""
    result = execute(_device, packaged(), Job(id=1, token=1, case=case.name, mode=Mode.CORRECTNESS))
    if result.outcome is not Outcome.PASSED:
        raise SystemExit(result.reason)


if __name__ == "__main__":
    planted_runner.ACTS["add"] = compute
    planted_runner.main()
