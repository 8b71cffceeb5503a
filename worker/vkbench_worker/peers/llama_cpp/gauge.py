"""How fast a GPU's clock runs just now, by a build of ggml: seconds of a fixed number of sorts.

Sorts of short rows keep a GPU's arithmetic busy, and its memory hardly. ggml tells no time of the
GPU, so there are enough of them for the host's clock, which sees a graph begin and end. Where one
sort takes less than 1 ms, sorts have more rows: otherwise the host's cost of a launch, which is
larger in builds of 2024 and 2025, would be most of the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from math import ceil
from typing import Final

import numpy as np

from vkbench_shaders.formats import format_named
from vkbench_shaders.kernel import Layout
from vkbench_worker.peers.llama_cpp.arrays import GgmlArray
from vkbench_worker.peers.llama_cpp.launches import Graph, Launch, Maker
from vkbench_worker.runtime.load import WARM_SECONDS

_ROWS, _MORE_ROWS, _COLUMNS = 512, 8192, 1024
_SHORT_SECONDS: Final = 1e-3  # of a sort, as the host's clock sees it
_GRAPH_SECONDS: Final = 10e-3  # at the full clock; to begin and end one takes 0.1 ms
_MOST_LAUNCHES: Final = 1000
_GRAPHS: Final = 3  # the fastest one counts: a GPU that slept begins late


def make_gauge(maker: Maker) -> Callable[[], float]:
    """A function that gives the seconds of a graph of sorts; CannotDo if the build has no sort.

    The GPU is warmed here, so that the graph fits its full clock and nothing is compiled later.
    """
    launch = _make_sort(maker, _ROWS)
    launch()  # compiles it
    began = time.perf_counter()
    once = _seconds_of(launch)
    while time.perf_counter() - began < WARM_SECONDS:
        once = _seconds_of(launch)
    if once < _SHORT_SECONDS:
        launch = _make_sort(maker, _MORE_ROWS)
    graph, seconds = _make_graph(maker, launch, 1)
    while seconds < _GRAPH_SECONDS / 2 and (count := len(graph)) < _MOST_LAUNCHES:
        count = min(_MOST_LAUNCHES, ceil(count * _GRAPH_SECONDS / seconds))
        graph, seconds = _make_graph(maker, launch, count)
    return lambda: _least_seconds(graph)


def _make_graph(maker: Maker, launch: Launch, count: int) -> tuple[Graph, float]:
    """A graph of so many launches, and what it takes."""
    graph = Graph(maker, [launch] * count)
    graph()  # its first launch may compile, or record
    return graph, _least_seconds(graph)


def _least_seconds(graph: Graph) -> float:
    return min(_seconds_of(graph) for _ in range(_GRAPHS))


def _make_sort(maker: Maker, rows: int) -> Launch:
    """A sort of rows of random numbers."""
    numbers, places = (
        GgmlArray(
            memory=maker.memory(rows * _COLUMNS * 4),
            offset=0,
            format=format_named(name),
            layout=Layout.contiguous((rows, _COLUMNS)),
        )
        for name in ("f32", "i32")
    )
    values = np.random.default_rng(1).random((rows, _COLUMNS), np.float32)
    maker.write(numbers.memory, 0, values)
    return Launch(maker, "argsort", (numbers, 0, places))


def _seconds_of(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
