"""A worker whose host's clock is wrong by as many seconds as a file says."""

import os
from pathlib import Path

from planted_scheduler import stepped_clock
from vkbench_worker.service.main import main

if __name__ == "__main__":
    stepped_clock(Path(os.environ["PLANTED_CLOCK"]))
    main()
