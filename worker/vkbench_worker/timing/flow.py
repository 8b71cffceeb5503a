"""Times launches that are submissions of their own, with their copies, by the host's clock.

It counts from the first submission to the end of the last, uploads and read-backs included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from vkbench.result import Timing
from vkbench_shaders.kernel import Flow
from vkbench_worker.judging.judge import Images
from vkbench_worker.phases import phase
from vkbench_worker.runtime.device import Device, Dispatch, Flight, Part, Piece
from vkbench_worker.runtime.program import POISON_A
from vkbench_worker.timing.bench import Bench
from vkbench_worker.timing.measure import SampleBounds, Visit, Visitor

METRICS: Final = ("hot", "cold")


def flight_of(device: Device, bench: Bench, flow: Flow, metric: str) -> Flight:
    """All submissions of a problem: hot with several in flight, cold one by one."""
    return device.flight(_parts(bench, flow), 1 if metric == "cold" else flow.in_flight)


def _parts(bench: Bench, flow: Flow) -> list[Part]:
    """A submission for each launch, with its share of the arrays where those are moved too."""
    count = len(bench.work.passes)
    made = []
    for number, (pipeline, launch) in enumerate(bench.work.passes):
        steps = [Dispatch(pipeline, bench.work.bound(bench.buffers), launch.groups, launch.push)]
        uploads = [_share(bench, name, number, count) for name in _inputs(bench)]
        reads = [_share(bench, name, number, count) for name in bench.outputs]
        moved = (uploads, reads) if flow.moves else ((), ())
        made.append(Part(steps=steps, uploads=moved[0], reads=moved[1]))
    return made


def _share(bench: Bench, name: str, number: int, count: int) -> Piece:
    """What one of so many launches has of an array: an equal part, in order."""
    buffer = bench.buffer(name)
    size = buffer.size // count
    data = bench.storages.get(name)
    if data is not None:
        data = data.reshape(-1).view(np.uint8)[number * size : (number + 1) * size]
    return Piece(buffer, number * size, size, data)


def _inputs(bench: Bench) -> list[str]:
    return [binding.name for binding in bench.problem.kernel.bindings if binding.access == "in"]


def poison(bench: Bench, flow: Flow) -> None:
    """Overwrite all that the flight shall bring."""
    bench.reset(POISON_A)
    if flow.moves:
        for name in _inputs(bench):
            bench.buffer(name).fill(POISON_A)


def measure_flight(
    device: Device, bench: Bench, flight: Flight, metric: str, bounds: SampleBounds
) -> Timing:
    """How long a flight takes, from its first submission to the end of its last."""
    visitor = flight_visitor(device, bench, flight)
    with phase(metric):
        visit = visitor.visit(bounds)
    return flights_summed_up(visitor, metric, [visit])


def flight_visitor(device: Device, bench: Bench, flight: Flight) -> Visitor:
    """A flight to be sampled again and again; each is a sample."""
    return Visitor(device=device, work=bench.work, recordings=[flight], launches=1)


def flights_summed_up(visitor: Visitor, metric: str, visits: Sequence[Visit]) -> Timing:
    """One timing of several visits of flights, which the host timed."""
    return replace(visitor.summed_up(metric, visits, ()), clock="host")


def misread(bench: Bench, images: Images, flight: Flight) -> int:
    """Bytes that a flight read back and that differ from the outputs of a checked launch."""
    count = len(bench.work.passes)
    outputs = [images[name].data.reshape(count, -1) for name in bench.outputs]
    expected = [output[number] for number in range(count) for output in outputs]
    return sum(
        int(np.count_nonzero(arrived != right))
        for arrived, right in zip(flight.bytes_read(), expected, strict=False)
    )
