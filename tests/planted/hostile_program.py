"""A program of a build that does harm, as far as what contains it lets it: a case says which.

It answers each attempt by a line, `skipped` with what the kernel said where it was refused.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path


def attempt(name: str, folder: Path, port: int) -> str:
    """Try one thing; what came of it."""
    if name == "fork":
        return fork_on()
    if name == "write":
        return ", ".join(
            refusal_of(lambda path=path: path.write_bytes(b"x"))
            for path in (
                folder / "planted",
                Path(__file__),
                Path("/tmp/planted-by-a-build"),
            )
        )
    if name == "read":
        return refusal_of(lambda: (folder / "secret").read_bytes())
    if name == "connect":
        return refusal_of(lambda: socket.create_connection(("127.0.0.1", port), 2))
    if name == "leave":
        return refusal_of(os.setsid)
    if name == "kill":
        return refusal_of(lambda: os.kill(os.getppid(), signal.SIGKILL))
    return "nothing"


def refusal_of(do: object) -> str:
    """What the kernel said to an attempt."""
    try:
        do()  # type: ignore[operator]
    except OSError as error:
        return error.strerror or type(error).__name__
    return "done"


def fork_on() -> str:
    """Leave children behind that would run for ever."""
    children = 0
    try:
        for _ in range(50):
            if not os.fork():
                os.dup2(os.open("/dev/null", os.O_RDWR), 1)
                while True:
                    time.sleep(1)
            children += 1
    except OSError as error:
        return f"{children} children, then {error.strerror}"
    return f"{children} children"


def main() -> None:
    """Answer until the input ends."""
    folder, port = Path(sys.argv[1]), int(sys.argv[2])
    for line in sys.stdin:
        name = json.loads(line)["case"]
        while name == "hang":
            time.sleep(1)
        while name == "print":
            os.write(1, b"x" * (1 << 20))
        while name == "complain":
            os.write(2, b"x" * (1 << 20))
        while name == "chatter":
            os.write(1, b"{}\n" * 10_000)
        print(json.dumps({"verdict": "skipped", "reason": attempt(name, folder, port)}), flush=True)


if __name__ == "__main__":
    main()
