"""Prepared cases: those used lately, and those of coming jobs, which other processes prepare."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Final

from vkbench.job import Source
from vkbench.process import system
from vkbench_shaders.kernel import Problem
from vkbench_worker.judging.preparation import EXACT, Prepared, for_path, prepare
from vkbench_worker.judging.preparer import Preparer, Request
from vkbench_worker.phases import phase

SHELF_BYTES: Final = 1 << 30
AHEAD_BYTES: Final = 1 << 30  # of cases that are being prepared, or wait for their jobs


@dataclass(frozen=True, kw_only=True)
class Need:
    """What a job asks for: a case, with the arithmetic path that will compute it."""

    problem: Problem
    source: Source | None = None
    path: str = EXACT

    @property
    def key(self) -> str:
        """The key of the case that is needed."""
        return key_of(self.problem)


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
        self._needs: dict[str, Need] = {}  # by key: its case and those of coming jobs, in order

    @contextmanager
    def helped_by(self, processes: int) -> Iterator[None]:
        """Have so many processes prepare cases of coming jobs; they start when one comes."""
        self._most = processes
        try:
            yield
        finally:
            self._most = 0
            for preparer in self.preparers:
                preparer.close()
            self.preparers.clear()
            self.ahead.clear()
            self._needs.clear()

    @property
    def is_helped(self) -> bool:
        """Whether preparers help, so that `expect` does anything."""
        return self._most > 0

    def expect(self, due: Need | None, coming: Sequence[Need]) -> None:
        """Have the cases of coming jobs prepared, the first one first; others are forgotten.

        The one that is due now is not: asking for it would only delay it.
        """
        if not self._most:
            return
        self._due = due.key if due else ""
        coming = [need for need in coming if not need.problem.kernel.content]  # these take no time
        self._needs = {need.key: need for need in (*([due] if due else []), *coming)}
        self.ahead = {name: made for name, made in self.ahead.items() if name in self._needs}
        if coming and not self.preparers:
            # with a thread for each processor, all of them would be in each other's way
            threads = max(1, system.usable_processors() // self._most)
            self.preparers = [Preparer(threads) for _ in range(self._most)]
        self._turn()

    def get(self, problem: Problem, source: Source | None = None, path: str = EXACT) -> Prepared:
        """A case, made ready for an arithmetic path."""
        name = key_of(problem)
        known = self._kept.pop(name, None)
        self.nbytes -= known.nbytes if known else 0
        prepared = known or self._take_prepared(name) or prepare(problem, source, path)
        self._kept[name] = prepared = for_path(problem, prepared, path)
        self.nbytes += prepared.nbytes
        while self.nbytes > self._limit and len(self._kept) > 1:
            self.nbytes -= self._kept.popitem(last=False)[1].nbytes
        return prepared

    @contextmanager
    def pause_preparing(self) -> Iterator[None]:
        """Have no case prepared within this context."""
        try:
            for preparer in self.preparers:
                preparer.stop()
            yield
        finally:
            for preparer in self.preparers:
                preparer.go_on()

    def _take_prepared(self, name: str) -> Prepared | None:
        """A case that was prepared ahead; waits if it is being prepared."""
        self._turn()
        made = self.ahead.pop(name, None)
        for preparer in self.preparers:
            if preparer.making == name:
                with phase("awaited"):
                    made = preparer.answer(wait=True)
        return made

    def _turn(self) -> None:
        """Take cases that preparers have made, and have more made."""
        for preparer in self.preparers:
            if not preparer.is_idle and not preparer.is_gone:
                self._take(preparer)
        for preparer in self.preparers:
            if preparer.is_idle:
                self._ask(preparer)

    def _take(self, preparer: Preparer) -> None:
        name, made = preparer.making, preparer.answer()
        if made and name in self._needs:
            self.ahead[name] = made
        elif name and not preparer.making:  # it could not: the job's own turn says why
            self._needs.pop(name, None)

    def _ask(self, preparer: Preparer) -> None:
        there = {self._due, *self.ahead, *(other.making for other in self.preparers)}
        for name, need in self._needs.items():
            if name not in there and name not in self._kept:
                if self._is_room_for(need.problem):
                    case = need.problem.case.name
                    preparer.ask(Request(case=case, source=need.source, path=need.path))
                return

    def _is_room_for(self, problem: Problem) -> bool:
        made = sum(prepared.nbytes for prepared in self.ahead.values())
        making = [preparer.making for preparer in self.preparers if preparer.making]
        problems = [self._needs[name].problem for name in making if name in self._needs]
        return made + sum(map(_bytes_of, [*problems, problem])) <= AHEAD_BYTES


def key_of(problem: Problem) -> str:
    """Problems of one key have the same inputs and the same reference."""
    return "#".join(filter(None, (problem.case.name, problem.kernel.content)))


def _bytes_of(problem: Problem) -> int:
    """About as much as a prepared case holds."""
    names = [binding.name for binding in problem.kernel.bindings]
    return sum(prod(problem.array_shape(name)) * problem.item_bytes(name) for name in names)


SHELF: Final = Shelf(SHELF_BYTES)
