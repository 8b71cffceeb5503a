"""Shards of a case on devices: judged as one result, and timed together.

Two times are taken by the host's clock, of all shards at once: `compute`, where inputs lie on the
devices and the parts of the output stay there; and `whole`, where what is not kept on the devices
is uploaded first, and the parts of the output are read back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

import numpy as np

from vkbench.result import Verdict
from vkbench_shaders import catalogue
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.kernel import Problem
from vkbench_worker.judging.judge import Images, judge
from vkbench_worker.judging.preparation import Prepared, for_path, lay_out_array
from vkbench_worker.runner.bounds import checks_bounds
from vkbench_worker.runner.variants import LaunchPlan, choose, plan
from vkbench_worker.runtime.device import Device, Flight, Part, Piece
from vkbench_worker.runtime.errors import Unsupported
from vkbench_worker.runtime.program import POISON_A, POISON_B, Image
from vkbench_worker.shards.division import Share, division_of, gather_parts, part, shard_case
from vkbench_worker.timing.bench import Bench

LEAST_ROUNDS: Final = 5


@dataclass(frozen=True, kw_only=True)
class Spread:
    """How many shards a case is divided into, and the devices that compute them."""

    devices: Sequence[Device]  # which take turns where there are fewer than shards
    count: int  # of shards
    pieces: int = 1  # that each shard is cut into


class Shards:
    """A case divided among devices, which take turns where there are more shards than devices."""

    def __init__(
        self,
        spread: Spread,
        bundle: Bundle,
        problem: Problem,
        prepared: Prepared,
        variant: str,
        stack: ExitStack,
    ) -> None:
        devices, count, pieces = spread.devices, spread.count, spread.pieces
        self.problem, self._prepared = problem, prepared
        self._division = division_of(problem, count, pieces)
        self.pieces = pieces
        self._stack = stack
        self._flights: list[Flight] = []
        self.devices = [devices[number % len(devices)] for number in range(count)]
        posed = catalogue.problem(shard_case(problem, count, pieces).name)
        chosen = [choose(posed, variant, device.facts) for device in self.devices]
        paths = {choice.variant.arithmetic for choice in chosen}
        if len(paths) > 1:
            raise Unsupported("the devices would compute in different ways: name a variant")
        [self._path] = paths
        self.variant, self.bundle = chosen[0].name, bundle.sha
        plans = [
            plan(bundle, choice, device.facts, checked=checks_bounds(bundle))
            for device, choice in zip(self.devices, chosen, strict=True)
        ]
        self.kernel_sha = plans[0].sha
        self._shards = [self._shard(number, planned) for number, planned in enumerate(plans)]
        self._benches = [bench for pieces in self._shards for bench in pieces]

    def judge_parts(self) -> Verdict:
        """The verdict on all parts as one output, and on the guards of all buffers."""
        first, second = self._images(POISON_A), self._images(POISON_B)
        expected = for_path(self.problem, self._prepared, self._path).expected
        return judge(self.problem, self._path, first, second, expected)

    def time_shards(self, seconds: float, *, moves: bool) -> list[float]:
        """How long each round took, with uploads and read-backs or without."""
        self._flights = [
            self._flight(device, benches, moves=moves)
            for device, benches in zip(self.devices, self._shards, strict=True)
        ]
        for bench in self._benches:
            bench.reset(POISON_A)
            for name in self._inputs_moved(bench) if moves else ():
                bench.buffer(name).fill(POISON_A)
        return self._time_rounds(seconds)

    def still_right(self) -> bool:
        """Whether the last timed rounds left, and read back, what the judged ones did."""
        left = [bench.images(bench.buffers) for bench in self._benches]
        held = [_outputs(bench, images) for bench, images in zip(self._benches, left, strict=True)]
        judged = [
            _outputs(bench, images)
            for bench, images in zip(self._benches, self._judged_images, strict=True)
        ]
        arrived = [piece for flight in self._flights for piece in flight.bytes_read()]
        return all(map(np.array_equal, chain(*held), chain(*judged))) and all(
            map(np.array_equal, arrived, chain(*judged))  # without copies nothing arrived
        )

    @property
    def is_simulated(self) -> bool:
        """Whether shards share a device, so that each is timed alone and the slowest one counts."""
        return len({id(device) for device in self.devices}) < len(self.devices)

    def _shard(self, number: int, planned: LaunchPlan) -> list[Bench]:
        """The pieces of a shard, which share what is kept on its device."""
        made: list[Bench] = []
        for piece in range(self.pieces):
            share = Share(shard=number, shards=len(self.devices), piece=piece, pieces=self.pieces)
            kept = {name: made[0].buffer(name) for name in self._division.kept} if made else {}
            storages = self._storages(share, planned.problem)
            made.append(Bench(self.devices[number], planned, storages, self._stack, kept))
        return made

    def _storages(self, share: Share, posed: Problem) -> dict[str, np.ndarray]:
        """A share of each input, as it lies in memory."""
        storages = {}
        for name, storage in self._prepared.storages.items():
            array = self.problem.layout(name).view(storage)
            if self.problem.reads(name):
                array = part(self._division, name, array, share)
            storages[name] = lay_out_array(array, posed.layout(name))
        return storages

    def _images(self, poison: int) -> dict[str, Image]:
        """Outputs put together, and under names of their own the guards of all buffers."""
        self._judged_images = [bench.run(poison) for bench in self._benches]
        images = {
            f"{name} of part {number}": image
            for number, run_images in enumerate(self._judged_images)
            for name, image in run_images.items()
        }
        for name in self._benches[0].outputs:
            made = [
                bench.array(run_images, name)
                for bench, run_images in zip(self._benches, self._judged_images, strict=True)
            ]
            arrays = [made[at : at + self.pieces] for at in range(0, len(made), self.pieces)]
            whole = lay_out_array(
                gather_parts(self._division, name, arrays), self.problem.layout(name)
            )
            data = whole.reshape(-1).view(np.uint8)
            images[name] = replace(self._judged_images[0][name], data=data)
        return images

    def _flight(self, device: Device, benches: Sequence[Bench], *, moves: bool) -> Flight:
        """A shard's launches; if it moves, a submission for each piece, between its copies."""
        if moves:
            parts = [self._moving(bench) for bench in benches]
        else:
            steps = [step for bench in benches for step in bench.work.launch(bench.buffers)]
            parts = [Part(steps=steps)]
        flight = device.flight(parts, len(parts))
        self._stack.callback(flight.close)
        return flight

    def _moving(self, bench: Bench) -> Part:
        return Part(
            steps=bench.work.launch(bench.buffers),
            uploads=[
                _piece(bench, name, bench.storages[name]) for name in self._inputs_moved(bench)
            ],
            reads=[_piece(bench, name) for name in bench.outputs],
        )

    def _inputs_moved(self, bench: Bench) -> list[str]:
        """Inputs that are not kept on the devices."""
        return [name for name in bench.storages if name not in self._division.kept]

    def _time_rounds(self, seconds: float) -> list[float]:
        flights = self._flights
        for flight in flights:  # wakes the device, and has it take the poison first
            flight.run()
        started, rounds = time.perf_counter(), list[float]()
        with ThreadPoolExecutor(len(flights)) as pool:
            while len(rounds) < LEAST_ROUNDS or time.perf_counter() - started < seconds:
                rounds.append(self._round(flights, pool))
        return rounds

    def _round(self, flights: Sequence[Flight], pool: ThreadPoolExecutor) -> float:
        if self.is_simulated:
            return max(sum(flight.run()) for flight in flights)
        ready = threading.Barrier(len(flights))

        def fly(flight: Flight) -> tuple[float, float]:
            ready.wait()
            began = time.perf_counter()
            flight.run()
            return began, time.perf_counter()

        spans = list(pool.map(fly, flights))
        return max(end for _, end in spans) - min(began for began, _ in spans)


def _outputs(bench: Bench, images: Images) -> list[np.ndarray]:
    return [images[name].data for name in bench.outputs]


def _piece(bench: Bench, name: str, data: np.ndarray | None = None) -> Piece:
    buffer = bench.buffer(name)
    flat = None if data is None else data.reshape(-1).view(np.uint8)
    return Piece(buffer, 0, buffer.size, flat)
