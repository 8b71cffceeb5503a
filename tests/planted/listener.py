"""A web server that stands for the receiver of alerts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from vkbench.settings import Settings, read

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@dataclass
class Listener:
    """A web server that answers as told and keeps what it hears."""

    answers: list[int] = field(default_factory=list)  # then 200
    heard: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    url: str = ""


@contextmanager
def listening(*answers: int) -> Iterator[Listener]:
    listener = Listener(answers=list(answers))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            listener.heard.append(({k.lower(): v for k, v in self.headers.items()}, body))
            self.send_response(listener.answers.pop(0) if listener.answers else 200)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *words: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        listener.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield listener
        server.shutdown()
        thread.join()


def settings_for(listener: Listener, **more: str) -> Settings:
    words = {"VKBENCH_ALERT_WEBHOOK": listener.url, "VKBENCH_ALERT_SECRET": SECRET}
    return read(words | {f"VKBENCH_{name.upper()}": text for name, text in more.items()})
