"""Prepared cases: those used lately, and those of coming jobs, which other processes prepare."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Final

from vkbench import system
from vkbench.job import Source
from vkbench_shaders.kernel import Problem
from vkbench_worker.judging.preparation import Prepared, prepare
from vkbench_worker.judging.preparer import Preparer
from vkbench_worker.phases import phase

SHELF_BYTES: Final = 1 << 30
AHEAD_BYTES: Final = 1 << 30  # of cases that are being prepared, or wait for their jobs

Posed = tuple[Problem, Source | None]  # of a job


class Shelf:
    """Prepared cases, the latest used up to a number of bytes."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._kept: OrderedDict[str, Prepared] = OrderedDict()
        self.nbytes = 0  # of all that is kept: summed up as it changes, for there are thousands
        self._most = 0  # preparers
        self.preparers: list[Preparer] = []
        self.ahead: dict[str, Prepared] = {}  # of coming jobs
        self._due = ""  # key of the case of the job at hand
        self._wanted: dict[str, Posed] = {}  # by key: its case and those of coming jobs, in order

    @contextmanager
    def helped(self, processes: int) -> Iterator[None]:
        """Cases of coming jobs are prepared by so many processes, which start when one comes."""
        self._most = processes
        try:
            yield
        finally:
            self._most = 0
            for preparer in self.preparers:
                preparer.close()
            self.preparers.clear()
            self.ahead.clear()
            self._wanted.clear()

    @property
    def is_helped(self) -> bool:
        """Whether `expect` does anything."""
        return self._most > 0

    def expect(self, due: Posed | None, coming: Sequence[Posed]) -> None:
        """Have the cases of coming jobs prepared, the first one first; others are forgotten.

        The one that is due now is not: asking for it would only delay it.
        """
        if not self._most:
            return
        self._due = key_of(due[0]) if due else ""
        coming = [posed for posed in coming if not posed[0].kernel.content]  # these take no time
        all_of_them = (*([due] if due else []), *coming)
        self._wanted = {key_of(problem): (problem, source) for problem, source in all_of_them}
        self.ahead = {name: made for name, made in self.ahead.items() if name in self._wanted}
        if coming and not self.preparers:
            # with a thread for each processor, all of them would be in each other's way
            threads = max(1, system.usable_processors() // self._most)
            self.preparers = [Preparer(threads) for _ in range(self._most)]
        self._turn()

    def get(self, problem: Problem, source: Source | None = None) -> Prepared:
        """A case, made ready."""
        name = key_of(problem)
        found = self._kept.pop(name, None)
        if found is None:
            found = self._made(name) or prepare(problem, source)
            self.nbytes += found.nbytes
        self._kept[name] = found
        while self.nbytes > self._limit and len(self._kept) > 1:
            self.nbytes -= self._kept.popitem(last=False)[1].nbytes
        return found

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Nothing is prepared meanwhile."""
        try:
            for preparer in self.preparers:
                preparer.stop()
            yield
        finally:
            for preparer in self.preparers:
                preparer.go_on()

    def _made(self, name: str) -> Prepared | None:
        """A case that was asked for ahead; waits if it is being made."""
        self._turn()
        made = self.ahead.pop(name, None)
        for preparer in self.preparers:
            if preparer.making == name:
                with phase("awaited"):
                    made = preparer.answer(wait=True)
        return made

    def _turn(self) -> None:
        """Take what was made, and ask for more."""
        for preparer in self.preparers:
            if not preparer.is_idle and not preparer.is_gone:
                self._take(preparer)
        for preparer in self.preparers:
            if preparer.is_idle:
                self._ask(preparer)

    def _take(self, preparer: Preparer) -> None:
        name, made = preparer.making, preparer.answer()
        if made and name in self._wanted:
            self.ahead[name] = made
        elif name and not preparer.making:  # it could not: the job's own turn says why
            self._wanted.pop(name, None)

    def _ask(self, preparer: Preparer) -> None:
        there = {self._due, *self.ahead, *(other.making for other in self.preparers)}
        for name, (problem, source) in self._wanted.items():
            if name not in there and name not in self._kept:
                if self._is_room_for(problem):
                    preparer.ask(problem, source)
                return

    def _is_room_for(self, problem: Problem) -> bool:
        made = sum(prepared.nbytes for prepared in self.ahead.values())
        making = [preparer.making for preparer in self.preparers if preparer.making]
        asked = sum(_bytes_of(self._wanted[name][0]) for name in making if name in self._wanted)
        return made + asked + _bytes_of(problem) <= AHEAD_BYTES


def key_of(problem: Problem) -> str:
    """Problems of one key have the same inputs and the same reference."""
    return "#".join(filter(None, (problem.case.name, problem.kernel.content)))


def _bytes_of(problem: Problem) -> int:
    """About as much as a prepared case holds."""
    names = [binding.name for binding in problem.kernel.bindings]
    return sum(prod(problem.array_shape(name)) * problem.item_bytes(name) for name in names)


SHELF: Final = Shelf(SHELF_BYTES)
