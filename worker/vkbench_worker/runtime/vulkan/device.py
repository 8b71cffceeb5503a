"""An open Vulkan device: makes buffers, pipelines and recordings, and runs them one at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, Self

from vkbench.device import DeviceFacts, Environment
from vkbench.process import system
from vkbench.result import Statistic
from vkbench.selector import best, one
from vkbench.settings import Settings
from vkbench_worker.closing import Closing
from vkbench_worker.protocol import PROCESSOR
from vkbench_worker.runtime import fragments, gauge, packing
from vkbench_worker.runtime.device import Buffer, Part, Recording, Step, as_own
from vkbench_worker.runtime.discovery.instance import Instance
from vkbench_worker.runtime.discovery.physical import Physical, candidates
from vkbench_worker.runtime.load import Load
from vkbench_worker.runtime.program import Image, Program
from vkbench_worker.runtime.vulkan import statistics, strangers
from vkbench_worker.runtime.vulkan.buffer import VulkanBuffer
from vkbench_worker.runtime.vulkan.flight import VulkanFlight
from vkbench_worker.runtime.vulkan.logical import Logical
from vkbench_worker.runtime.vulkan.memory import UNIFIED, Memory
from vkbench_worker.runtime.vulkan.pipeline import VulkanPipeline, checks_each
from vkbench_worker.runtime.vulkan.pipeline_cache import PipelineCache
from vkbench_worker.runtime.vulkan.pipelines import Pipelines
from vkbench_worker.runtime.vulkan.recording import VulkanRecording
from vkbench_worker.runtime.vulkan.transfers import Transfers

_MOST_THREADS: Final = 12  # that make pipelines ahead


class VulkanDevice(Closing):
    """One device of this host, open for computing; a context manager."""

    @classmethod
    def open(
        cls,
        selector: str,
        settings: Settings,
        prelude: Callable[[DeviceFacts], None] = lambda facts: None,
        pipelines: Path | None = None,
    ) -> Self:
        """The one device that a selector means (vkbench.selector); "" is the fastest kind.

        `prelude` is called when it is known and not yet created: to take a lock, for instance.
        Its `pipelines` are kept in that folder, or where those of the host's own drivers are.
        """
        instance = Instance(settings)
        try:
            devices = candidates(instance, settings.host)
            facts = [candidate.facts for candidate in devices]
            chosen = one(selector, facts, settings.host) if selector else best(facts)
            prelude(chosen)
            physical = next(c.physical for c in devices if c.facts.key == chosen.key)
            return cls(instance, physical, chosen, settings, pipelines)
        except BaseException:
            instance.close()
            raise

    def __init__(
        self,
        instance: Instance,
        physical: Physical,
        facts: DeviceFacts,
        settings: Settings,
        pipelines: Path | None = None,
    ) -> None:
        self.instance = instance
        self.physical = physical
        self.facts = facts
        self.pci_address: str = physical.pci_address
        self.environment: Environment = physical.environment()
        self.checks_each = checks_each(physical)  # bounds, of one pipeline and not of another
        self.checks_bounds = settings.robust and not self.checks_each  # of all pipelines
        if self.checks_bounds:
            physical.features.check_bounds()
        self.logical = Logical(physical, facts)
        self.memory = Memory(self.logical)
        self.transfers = Transfers(self.logical)
        self.cache = PipelineCache(self.logical, pipelines or settings.cache / "pipelines")
        self._pipelines = Pipelines(self._make_pipeline, _threads(facts, settings))
        self.makes_ahead = self._pipelines.makes_ahead
        # of every pipeline, beside the program's own
        self.constants: tuple[tuple[int, int], ...] = ()
        self.constants = (
            (packing.CONSTANT, int(packing.rounds_to_nearest(self))),
            (fragments.CONSTANT, fragments.order(self)),
        )
        self.load = Load(gauge.of(self))

    def close(self) -> None:
        """Save the pipeline cache and free everything; closing twice is fine."""
        if self.logical.handle is None or self.logical.hangs:  # waiting for it would hang as well
            return
        self._pipelines.stop_making()
        self.logical.wait_idle()
        self.cache.save()
        self._pipelines.close()
        self.cache.close()
        self.transfers.close()
        self.memory.close()
        self.logical.close()
        self.instance.close()

    @property
    def clock(self) -> str:
        """Which clock times recordings: gpu or host."""
        return self.logical.clock

    @property
    def tick_seconds(self) -> float:
        """Seconds of one tick of the GPU's clock."""
        return self.logical.tick_seconds

    @property
    def live(self) -> Counter[str]:
        """How many handles of each kind are open."""
        return self.logical.live

    @property
    def patience_seconds(self) -> float:
        """Longest wait for one submission."""
        return self.logical.patience_seconds

    @patience_seconds.setter
    def patience_seconds(self, seconds: float) -> None:
        self.logical.patience_seconds = seconds

    @property
    def hardware(self) -> str:
        """What other devices of this host may be too, under another driver; "" if unknown."""
        return PROCESSOR if self.facts.type == "cpu" else self.pci_address

    def memory_left(self) -> int:
        """Bytes of device memory that may still be allocated."""
        return self.memory.left_bytes

    def memory_of_others(self) -> int | None:
        """Bytes of device memory that other processes hold; None where nobody says."""
        return None if self.facts.type in UNIFIED else self.physical.memory_of_others()

    def buffer(self, size: int) -> VulkanBuffer:
        """A new buffer of `size` bytes."""
        return VulkanBuffer(self.logical, self.memory, self.transfers, size)

    def pipeline(self, program: Program) -> VulkanPipeline:
        """The pipeline of a program; the device keeps and closes it."""
        return self._pipelines.get(program)

    def make_ahead(self, program: Program) -> None:
        """Begin to make a pipeline that will be asked for soon; errors wait until then."""
        self._pipelines.make_ahead(program)

    def held_pipelines(self) -> AbstractContextManager[None]:
        """Pipelines that are asked for in this context stay until its end."""
        return self._pipelines.hold()

    def stop_making(self) -> None:
        """Have nothing made ahead any more, until more is asked for."""
        self._pipelines.stop_making()

    def record(self, steps: Sequence[Step]) -> VulkanRecording:
        """Steps ready to be run."""
        return VulkanRecording(self.logical, self.transfers, steps)

    def flight(self, parts: Sequence[Part], depth: int) -> VulkanFlight:
        """Parts ready to be submitted, of which so many are in flight at once."""
        return VulkanFlight(self.logical, self.transfers, parts, depth, self.record)

    def images(self, whole: Sequence[Buffer], guards: Sequence[Buffer] = ()) -> list[Image]:
        """What buffers hold now, guard bands included; of the second ones only the guard bands."""
        whole_ones = [(as_own(VulkanBuffer, buffer), True) for buffer in whole]
        buffers = [*whole_ones, *((as_own(VulkanBuffer, buffer), False) for buffer in guards)]
        spans = [span for buffer, data in buffers for span in buffer.spans(data=data)]
        parts = iter(self.transfers.read(spans))
        return [
            Image(next(parts), next(parts), next(parts), poison=buffer.poison)
            for buffer, _ in buffers
        ]

    def list_statistics(self, programs: Sequence[Program]) -> list[Statistic]:
        """What the driver says of the pipelines of programs, made once more for that."""
        physical = Physical(self.instance, self.physical.handle, self.physical.index)
        if self.checks_bounds:
            physical.features.check_bounds()
        return [
            *statistics.measure_binaries(self.logical, programs, self.constants),
            *statistics.ask_driver(physical, self.facts, programs, self.constants),
        ]

    def time_submission(self, recording: Recording) -> float:
        """Run a recording: the host's seconds until the driver has taken it."""
        return self.logical.submit([as_own(VulkanRecording, recording).commands])

    def save_cache(self) -> None:
        """Keep the pipelines made so far for later processes."""
        self.cache.save()

    def raise_messages(self) -> None:
        """Raise what the validation layer had to say since the last call."""
        self.instance.raise_messages()

    def _make_pipeline(self, program: Program) -> VulkanPipeline:
        strangers.check(program)
        return VulkanPipeline(self.logical, self.cache, program, self.constants)


def _threads(facts: DeviceFacts, settings: Settings) -> int:
    """How many threads make pipelines ahead.

    CPU drivers compile when a pipeline is first launched. What the validation layer says of a
    pipeline has to be said to its own job.
    """
    if facts.type == "cpu" or settings.validation:
        return 0
    return min(_MOST_THREADS, system.usable_processors() - 1)
