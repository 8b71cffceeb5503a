"""A TCP proxy whose connections can be left half open: both ends think that the other is there."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

_SLICE = 1 << 16


class HalfOpenProxy:
    """Forwards a port of its own to another port of this host, as long as it is told to."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = int(self._listening.getsockname()[1])
        self._open: set[socket.socket] = set()
        self._forgotten: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._passes = threading.Event()
        self._passes.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def silence(self) -> None:
        """Forward nothing more, and close nothing."""
        self._passes.clear()

    def forget(self) -> None:
        """Drop all that comes on the connections of now, and close none; new ones are forwarded.

        So does a firewall that was started anew, or whose entry of a connection has timed out.
        """
        with self._lock:
            self._forgotten |= self._open

    def heal(self) -> None:
        """Reset the connections of before, and forward those to come."""
        with self._lock:
            stale, self._open = self._open, set()
        for end in stale:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._passes.set()

    def close(self) -> None:
        """Listen no more."""
        self._listening.close()
        self.heal()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:  # it was closed
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:  # nobody is there
                client.close()
                continue
            with self._lock:
                self._open |= {client, server}
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._forward, args=(source, sink), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(_SLICE):
                self._passes.wait()
                if source not in self._forgotten:
                    sink.sendall(data)
        ended = {source}
        if (
            source not in self._forgotten
        ):  # or the other end is not told, and thinks it is connected
            ended.add(sink)
        for end in ended:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        with self._lock:
            self._open -= ended
            self._forgotten -= ended
