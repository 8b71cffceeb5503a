"""A worker that waits half a second for a bundle."""

import vkbench_worker.bundles
from vkbench_worker.service import main

if __name__ == "__main__":
    vkbench_worker.bundles.PATIENCE_SECONDS = 0.5
    main()
