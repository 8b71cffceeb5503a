"""A worker that waits half a second for a bundle."""

import vkbench_worker.service.bundles
from vkbench_worker.service.main import main

if __name__ == "__main__":
    vkbench_worker.service.bundles.PATIENCE_SECONDS = 0.5
    main()
