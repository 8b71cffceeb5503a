"""`vkbench web` answers at once: nothing waits for a browser to acknowledge a part of it."""

from __future__ import annotations

import http.client
import time
from urllib.parse import urlsplit

from browser import served

DELAYED_SECONDS = 0.038  # Linux acknowledges what came alone after 40 ms


def test_an_answer_does_not_wait_for_its_head_to_be_acknowledged() -> None:
    with served() as origin:
        connection = http.client.HTTPConnection(urlsplit(origin).netloc)
        taken = []
        for _ in range(12):
            began = time.perf_counter()
            connection.request("GET", "/static/page.js")
            connection.getresponse().read()
            taken.append(time.perf_counter() - began)
        connection.close()
    assert min(taken[6:]) < DELAYED_SECONDS  # the first few are acknowledged at once anyway
