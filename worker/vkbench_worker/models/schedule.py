"""A graph's launches in an order with few barriers, and which of its values share a buffer.

Launches that wait for nothing of each other are of one level and run beside each other; a barrier
stands between two levels.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vkbench.device import DeviceFacts
from vkbench.job import AUTO
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.kernel import Array
from vkbench_shaders.launch import PackedLaunch
from vkbench_shaders.models.graph import Graph, Step
from vkbench_worker.models.levels import Levels, use_of
from vkbench_worker.models.repeats import Repeats
from vkbench_worker.runner.variants import Choice, LaunchPlan, choose, plan
from vkbench_worker.runtime.program import Program


@dataclass(frozen=True, kw_only=True)
class Pass:
    """One launch of a step."""

    step: Step
    choice: Choice
    program: Program
    launch: PackedLaunch
    values: tuple[str, ...]  # what its buffers are, in the order of their binding numbers
    is_ahead: bool = False  # of its level, it comes last, and prepares a later one


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """All launches of a graph."""

    graph: Graph
    levels: Sequence[Sequence[Pass]]
    sizes: Mapping[str, int]  # bytes of the values that need memory for a while only
    spans: Mapping[str, tuple[int, int]]  # the first and last level at which each is used
    tables: Mapping[str, Array]  # lookup tables of formats, by the value's name
    counters: Mapping[str, int]  # how many there are, by the value's name; zero before each run
    choices: Sequence[Choice]  # of each step

    def slots(self) -> tuple[dict[str, int], list[int]]:
        """Which slot each value has, and the slots' sizes: no two at a time in one slot."""
        slots: list[int] = []
        ends: list[int] = []
        places: dict[str, int] = {}
        for name in sorted(self.sizes, key=lambda name: (self.spans[name][0], -self.sizes[name])):
            first, last = self.spans[name]
            free = [at for at, end in enumerate(ends) if end < first]
            if not free:
                free = [len(slots)]
                slots.append(0)
                ends.append(-1)
            at = min(free, key=lambda at: _misfit(slots[at], self.sizes[name]))
            slots[at], ends[at] = max(slots[at], self.sizes[name]), last
            places[name] = at
        return places, slots


def _misfit(has: int, needs: int) -> tuple[bool, int]:
    """Sort key of slots: the best fit first, else the one that grows least."""
    return (has < needs, abs(has - needs))


def schedule(graph: Graph, bundle: Bundle, device: DeviceFacts, *, checked: bool) -> Schedule:
    """The launches of a graph by the code paths that a device should run fastest.

    `checked`: whether the device checks bounds.
    """
    planner = _Planner(bundle, device, checked)
    levels: dict[int, list[Pass]] = defaultdict(list)
    order, repeats = Levels({*graph.weights}), Repeats()
    sizes: dict[str, int] = {}
    tables: dict[str, Array] = {}
    counters: dict[str, int] = {}
    choices = []
    for number, step in enumerate(graph.steps):
        choice, planned = planner.plan_step(step)
        choices.append(choice)
        scratch = {f"{number}.scratch.{at}": size for at, size in enumerate(planned.scratch)}
        values = [*(step.bound[b.name] for b in step.problem.kernel.bindings), *scratch]
        if planned.counters:
            counters[name := f"{number}.counters"] = planned.counters
            values.append(name)
        if planned.table is not None:
            name = f"table {planned.table.size} {hash(planned.table.tobytes())}"
            tables[name] = planned.table
            values.append(name)
            order.constant.add(name)
        passes, values = repeats.drop_repeats(planned.passes, values, step.writes, scratch)
        sizes |= {name: size for name, size in scratch.items() if name in values}
        # of sizes, scratch is all so far
        changed = {*step.writes, *(sizes.keys() & values), *(counters.keys() & values)}
        uses = [use_of(program, values, changed) for program, _ in passes]
        for (program, launch), place in zip(passes, order.place(uses), strict=True):
            levels[place.level].append(
                Pass(
                    step=step,
                    choice=choice,
                    program=program,
                    launch=launch,
                    values=tuple(values),
                    is_ahead=place.is_ahead,
                )
            )
    last = len(levels)
    lasting = {*graph.inputs, *graph.caches}
    sizes |= {name: size for name, size in graph.sizes.items() if name not in lasting}
    spans = {name: order.span(name) for name in sizes}
    spans |= dict.fromkeys(graph.kept, (0, last))  # alone, so that poison shows what is unwritten
    return Schedule(
        graph=graph,
        levels=[
            sorted(levels[level], key=lambda launch_pass: launch_pass.is_ahead)
            for level in range(last)
        ],
        sizes=sizes,
        spans=spans,
        tables=tables,
        counters=counters,
        choices=choices,
    )


class _Planner:
    """Plans each case once: the layers of a model have the same ones."""

    def __init__(self, bundle: Bundle, device: DeviceFacts, checked: bool) -> None:
        self._bundle, self._device, self._checked = bundle, device, checked
        self._known: dict[tuple[str, str], tuple[Choice, LaunchPlan]] = {}

    def plan_step(self, step: Step) -> tuple[Choice, LaunchPlan]:
        key = step.problem.case.name, step.variant
        if key not in self._known:
            choice = choose(step.problem, step.variant or AUTO, self._device)
            planned = plan(self._bundle, choice, self._device, checked=self._checked)
            self._known[key] = choice, planned
        return self._known[key]
