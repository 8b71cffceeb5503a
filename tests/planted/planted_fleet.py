"""`vkbench worker` for the devices named on the command line, without the command line."""

import sys

from vkbench.process import log
from vkbench.settings import settings
from vkbench_worker.service.main import serve

if __name__ == "__main__":
    log.set_up(style=settings().log_format)
    sys.exit(serve(sys.argv[1:], settings()))
