"""Submissions of two bundles in turns: as many in flight as for the metric that is compared."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, closing
from functools import partial

from vkbench.job import Job, pair_of
from vkbench.result import ARMS, Verdict
from vkbench_shaders.kernel import Flow
from vkbench_worker.phases import phase
from vkbench_worker.runtime.device import Device, Flight
from vkbench_worker.timing.bench import Bench
from vkbench_worker.timing.flow import flight_of, flight_visitor, flights_summed_up, poison
from vkbench_worker.timing.measure import SampleBounds, Visit
from vkbench_worker.timing.summary import Timed
from vkbench_worker.timing.timed import Judged, judge_flown
from vkbench_worker.timing.visits import LEAST_SAMPLES, Entrant, in_turns, rounds_of


def time_flights(
    device: Device,
    benches: Mapping[str, Bench],
    judged: Mapping[str, Judged],
    flow: Flow,
    turns: tuple[str, ...],
    job: Job,
    stack: ExitStack,
) -> Timed:
    """Timings of both arms, which were judged right, and the verdict after them.

    A flight is a sample, as in the series that the pair speaks about. Each arm has its own, which
    uploads the inputs and keeps what it read back, so that no arm has what the other brought.
    """
    whole = SampleBounds(seconds=job.measure_seconds / len(ARMS), noise=job.noise)
    metric = pair_of(job).metric
    with phase("sets"):
        flights = {
            name: stack.enter_context(closing(flight_of(device, bench, flow, metric)))
            for name, bench in benches.items()
        }
        slowest = max(seconds for flight in flights.values() for seconds in flight.run())
    entrants = {
        name: _entrant(device, bench, judged[name], flow, flights[name], metric)
        for name, bench in benches.items()
    }
    rounds = rounds_of(device, slowest * LEAST_SAMPLES, whole)
    return in_turns(device, entrants, turns, rounds, whole)


def _entrant(
    device: Device,
    bench: Bench,
    judged: Judged,
    flow: Flow,
    flight: Flight,
    metric: str,
) -> Entrant:
    visitor = flight_visitor(device, bench, flight)

    def again(visit: Visit) -> Verdict:
        return judge_flown(bench, judged, flight)

    return Entrant(
        visitor=visitor,
        poison=partial(poison, bench, flow),
        again=again,
        summed_up=partial(flights_summed_up, visitor, metric),
    )
