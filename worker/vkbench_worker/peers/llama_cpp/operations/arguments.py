"""What rows have in common: arrays and parameters as arguments of a function."""

from __future__ import annotations

from vkbench_shaders.kernel import Problem
from vkbench_worker.peers.library import Arguments, View, Views


def of_arrays(*names: str, to: str = "y") -> Arguments:
    """Arguments that are arrays alone."""
    return lambda problem, views: (*(views[name] for name in names), views[to])


def with_numbers(*params: str, of: tuple[str, ...] = ("x",), to: str = "y") -> Arguments:
    """Arguments that are arrays, and numbers behind them."""
    return lambda problem, views: (
        *(views[name] for name in of),
        *numbers_of(problem, *params),
        views[to],
    )


def numbers_of(problem: Problem, *params: str) -> tuple[float, ...]:
    """The values of parameters as floating point numbers."""
    return tuple(float(problem.params[name]) for name in params)


def view_if(problem: Problem, views: Views, name: str) -> View:
    """An array that the case reads, or None."""
    return views[name] if problem.reads(name) else None
