"""The worker of one device, which notes for each chunk how long claim, lease and sending took."""

import json
import time
from collections.abc import Callable
from typing import Any

from vkbench.settings import settings
from vkbench_worker.service import main
from vkbench_worker.service.lease import Pulse
from vkbench_worker.service.sender import Sender

chunk: dict[str, Any] = {}


def timed(name: str, action: Callable[..., Any]) -> Callable[..., Any]:
    """The same action, its seconds added to the chunk's."""

    def act(*words: Any) -> Any:
        began = time.perf_counter()
        answer = action(*words)
        chunk[name] = chunk.get(name, 0.0) + time.perf_counter() - began
        if name == "claim":
            chunk["jobs"] = [job.id for job in answer]
        return answer

    return act


def noted(run_chunk: Callable[..., None]) -> Callable[..., None]:
    """The same, with a line about each chunk in the data folder."""

    def run(self: main.Worker, message: object) -> None:
        chunk.clear()
        run_chunk(self, message)
        with (settings().data / "chunks").open("a") as file:
            file.write(json.dumps(chunk) + "\n")

    return run


if __name__ == "__main__":
    main.claim = timed("claim", main.claim)
    Pulse.hold = timed("hold", Pulse.hold)  # type: ignore[method-assign]
    Sender.join = timed("join", Sender.join)  # type: ignore[method-assign]
    main.Worker.run_chunk = noted(main.Worker.run_chunk)  # type: ignore[method-assign]
    main.main()
