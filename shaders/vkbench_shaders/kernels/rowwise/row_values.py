"""Rows in registers: how many threads hold one, and how long rows are cut; row_values.slang's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from vkbench.device import DeviceFacts
from vkbench_shaders.kernel import Arguments, Layout, Param, Problem, Settings, Stage, Tuning, grid

THREADS = 256  # a workgroup
POSSIBLE = (8, 16, 32, 64, 128, 256)
_LEAST_LONG = 64  # lanes of a long row's stretches
EACH = 32  # numbers a lane
LANES = Param(
    default=0,
    choices=(0, *POSSIBLE),
    description="threads that hold a row, or a stretch of a long one; 0: what should be fastest",
)
RAGGED = "_ragged"  # entry points for rows that begin or end anywhere
LITTLE = 4096  # numbers for which no program is made
# constants of a program for rows of any size: their Cut says how many lanes a team has
ANY_SIZE = {"LANES": 0, "HELD": EACH // 4}
BUSY = 4  # workgroups that keep a compute unit busy: fewer get shorter stretches


@dataclass(frozen=True, kw_only=True)
class Cut:
    """Rows, cut into stretches if they are long, and the threads that hold them."""

    rows: int
    columns: int
    aligned: bool
    each: int = 1  # results a word
    split: bool = True  # whether a long row is several teams': one goes from stretch to stretch
    busy: int = 1  # workgroups that keep the device busy
    asked: int = 0  # threads that hold a stretch; 0: as many as should be fastest

    @property
    def whole(self) -> bool:
        """Whether a team of lanes holds a row."""
        return self.columns <= self._most(POSSIBLE[-1])

    @property
    def lanes(self) -> int:
        """Threads that hold a stretch."""
        if self.asked in (possible := self.possible_lanes):
            return self.asked
        if self.whole:
            return possible[0]
        return next(
            (n for n in possible[::-1] if self.rows * self.stretches_of(n) >= self.busy),
            possible[0],
        )

    @property
    def possible_lanes(self) -> list[int]:
        """Numbers of threads that may hold a stretch."""
        if self.whole:
            return [n for n in POSSIBLE if self.columns <= self._most(n)]
        return [n for n in POSSIBLE if n >= _LEAST_LONG] if self.split else [POSSIBLE[-1]]

    @property
    def length(self) -> int:
        """Columns of a stretch."""
        return self.columns if self.whole else self._most(self.lanes)

    @property
    def stretches(self) -> int:
        """Stretches that a row is divided into."""
        return 1 if self.whole else self.stretches_of(self.lanes)

    @property
    def groups(self) -> tuple[int, int, int]:
        """Workgroups of several teams."""
        return grid(-(-self.rows * self._teams // (THREADS // self.lanes)))

    @property
    def push(self) -> dict[str, int]:
        """The shader's structure `Cut`."""
        return {
            "rows": self.rows,
            "columns": self.columns,
            "length": self.length,
            "stretches": self._teams,
            "lanes": self.lanes,
            "groups_x": self.groups[0],
        }

    @property
    def constants(self) -> dict[str, int]:
        """Sizes that a program is made for, unless there is little to do."""
        if not self.whole:
            return {"LANES": self.lanes, "HELD": EACH // 4}
        if self.rows * self.columns < LITTLE:
            return ANY_SIZE
        numbers = self.columns if self.aligned else self.columns + self.each - 1
        apart = self.lanes * (4 * self.each if self.aligned else 4)  # from step to step of a lane
        steps = -(-numbers // apart)
        return {"LANES": self.lanes, "HELD": steps * self.each if self.aligned else steps}

    @property
    def _teams(self) -> int:
        """Workgroups that share a row."""
        return self.stretches if self.split else 1

    def entry(self, name: str) -> str:
        """Which of the two forms of an entry point suits how rows lie."""
        return name if self.aligned else name + RAGGED

    def stretches_of(self, lanes: int) -> int:
        """Stretches of a row, each held by so many threads."""
        return -(-self.columns // self._most(lanes))

    def _most(self, lanes: int) -> int:
        """Columns that so many threads can hold: a word less where words begin before a row."""
        return lanes * EACH if self.aligned else lanes * EACH - 2


def tuning(cut: Callable[[Problem, DeviceFacts], Cut]) -> Tuning:
    """Tuning of the lanes of a problem's cut."""

    def candidates(problem: Problem, device: DeviceFacts) -> list[Settings]:
        made = cut(problem, device)
        return [
            {"lanes": lanes} for lanes in sorted(made.possible_lanes, key=lambda n: n != made.lanes)
        ]

    return Tuning(params=("lanes",), candidates=candidates)


def stages(arguments: Arguments, *names: str) -> tuple[Stage, ...]:
    """Both forms of entry points, the first one's own left out: it is the variant's."""
    entries = (name + how for name in names for how in ("", RAGGED))
    return tuple(Stage(entry=entry, arguments=arguments) for entry in entries if entry != names[0])


def are_rows_aligned(problem: Problem, bindings: Iterable[str], columns: int) -> bool:
    """Whether rows of all these arrays begin and end on 16 bytes."""
    return not any(
        number % (16 // problem.item_bytes(name))
        for name in bindings
        for number in (columns, *place(problem.layout(name)))
    )


def place(layout: Layout) -> tuple[int, int]:
    """Offset and stride of an array's rows, in items."""
    return layout.offset, layout.strides[-2] if len(layout.strides) > 1 else layout.storage
