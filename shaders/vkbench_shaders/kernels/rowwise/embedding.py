"""timestep_embedding: numbers such as timesteps as cosines and sines, each of another frequency.

Angles are fractions of a turn in integers, as those of rope are: large timesteps lose no accuracy.
"""

from __future__ import annotations

from math import log, pi

import numpy as np

from vkbench.case import parse
from vkbench.device import DeviceFacts
from vkbench_shaders.binding import declare_input, declare_output
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import (
    MOST_GROUPS,
    Array,
    Arrays,
    Check,
    Forms,
    Kernel,
    Launch,
    Param,
    Problem,
    Push,
    Work,
    too_large,
)
from vkbench_shaders.kernels.shared.portable import portable

THREADS = 128
_EACH = 2  # timesteps of a thread
_MOST_TURNS = 1 << 64  # one past the largest fraction of a turn
_MOST = 1000.0  # timestep of a case


def _split(fraction: int) -> tuple[int, int]:
    """A fraction of a turn, as the shader has it: the upper word, the lower one."""
    return fraction >> 32, fraction & 0xFFFFFFFF


def launch(problem: Problem, device: DeviceFacts) -> Launch:
    n, d = problem.shape.values()
    half = d // 2
    ratio = int(problem.params["max_period"]) ** (-1 / max(half, 1))
    push: Push = {
        "rate": _split(round(_MOST_TURNS / (2 * pi))),
        "ratio": _split(min(round(_MOST_TURNS * ratio), _MOST_TURNS - 1)),
        "rows": n,
        "half_columns": half,
        "columns": d,
    }
    groups = (-(-(d - half) // THREADS), -(-n // _EACH), 1)
    return Launch(groups=groups, push=push, constants={"THREADS": THREADS})


def refuses(problem: Problem, device: DeviceFacts) -> str | None:
    if problem.shape["n"] > MOST_GROUPS * _EACH:
        return f"x has {problem.shape['n']} timesteps, the kernel takes {MOST_GROUPS * _EACH}"
    return too_large(problem, device)


def embed(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    x = inputs["x"].astype(np.float64) if rows is None else inputs["x"][rows].astype(np.float64)
    d, period = problem.shape["d"], int(problem.params["max_period"])
    half = d // 2
    angles = x[:, None] * np.exp(-log(period) / max(half, 1) * np.arange(half))
    return {"y": np.hstack([np.cos(angles), np.sin(angles), np.zeros((len(x), d % 2))])}


def inputs(problem: Problem) -> dict[str, Array]:
    """Timesteps of all sizes, whole and not, 0 and negative ones among them."""
    x = data.uniform(problem, "x", 0.0, _MOST)
    x[1::3] = np.floor(x[1::3])
    x[2::5] *= np.float32(-1 / 4096)
    x[3::11] = 0
    return {"x": x}


_CASES = (
    "n1_d2",
    "n5_d64",
    "n3_d7",
    "n17_d321",
    "n13_d33/max_period=100",
    "n9_d256/max_period=1000000",
    "n0_d8",
)

TIMESTEP_EMBEDDING = Kernel(
    name="timestep_embedding",
    description="Turns timesteps into cosines, then sines, of frequencies from 1 down to one in"
    " max_period; a last odd number is 0.",
    group="embedding",
    dims=("n", "d"),
    bindings=(
        declare_input("x", ("f32",), ("n",), "timesteps, whole or not, below 2^24 in magnitude"),
        declare_output("y", ("f32",), ("n", "d"), "a row for each timestep"),
    ),
    params={
        "max_period": Param(default=10000, least=2, description="timesteps of the longest period")
    },
    forms=Forms(empty=("n",)),
    variants=(portable("timestep_embedding", launch, "f32", refuses=refuses),),
    inputs=inputs,
    check=Check(reference=embed, rows="n"),
    work=Work(flops=lambda problem: problem.shape["n"] * problem.shape["d"]),
    cases=CaseList(lambda: (parse(f"timestep_embedding/f32/{shape}") for shape in _CASES)),
    timed=CaseList(
        lambda: (parse(f"timestep_embedding/f32/{shape}") for shape in ("n512_d320", "n65536_d320"))
    ),
)
