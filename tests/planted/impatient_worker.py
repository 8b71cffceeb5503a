"""A worker that waits half a second for a bundle, and looks for it again as soon."""

from vkbench_worker.service import bundles, main

if __name__ == "__main__":
    bundles.PATIENCE_SECONDS = bundles.SHORT_PATIENCE_SECONDS = 0.5
    bundles.LACK_SECONDS = vars(main)["LACK_SECONDS"] = 0.5
    main.main()
