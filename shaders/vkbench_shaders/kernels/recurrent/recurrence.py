"""How recurrences over tokens are launched: recurrent.slang, whatever changes the state.

A head's state has a row for each column of its values. A column is shared by lanes, each of which
holds 16 keys in registers; a workgroup has some columns of one head and goes through all tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import ceil, prod

import numpy as np
from numpy.typing import NDArray

from vkbench.case import Case, parse
from vkbench.device import DeviceFacts
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import Array, Arrays, Binding, Launch, Problem, Variant, too_large
from vkbench_shaders.launch import divisor
from vkbench_shaders.tuning.rates import busy

KEYS = (16, 32, 64, 128, 256)  # that a head may have
_EACH = 16  # keys a lane
_DEPTH = 4  # fours that a thread stages of a chunk of tokens
_FEW = 8  # tokens
_BUSY = 0.9  # workgroups of a compute unit: 128 of them are enough for 132 units

Numbers = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Recurrence:
    """Sizes of one, as its shader sees them."""

    sequences: int
    tokens: int
    heads: int
    columns: int  # values of a head
    keys: int  # rows of its state
    key_heads: int  # heads that have keys
    vectors: int  # of keys that a token and head have
    rows: int = 1  # of values that a token and head have
    each: bool = False  # whether each key has a decay of its own
    scale: float = 1.0  # of results
    busy: int = 1  # workgroups that a device works on at a time

    @property
    def lanes(self) -> int:
        """Threads that share a column."""
        return self.keys // _EACH

    @property
    def threads(self) -> int:
        """Threads of a workgroup: few, to keep the device busy; enough to stage several tokens."""
        whole = self.columns * self.lanes
        least = 64 if self.tokens < _FEW else 128
        for threads in (256, 128, 64):
            groups = whole // threads * self.heads * self.sequences
            if whole % threads == 0 and (groups >= self.busy or threads == least):
                return threads
        return next((n for n in (16, 32, 64) if n >= max(whole, 4 * self.lanes)), 64)

    @property
    def groups(self) -> tuple[int, int, int]:
        """Parts of the columns, heads, sequences."""
        return (ceil(self.columns * self.lanes / self.threads), self.heads, self.sequences)

    @property
    def record(self) -> int:
        """Fours of a token that are staged: vectors, rows of values, numbers of the head."""
        return self.vectors * self.keys // 4 + self.rows * (self.threads // self.lanes // 4) + 1

    @property
    def chunk(self) -> int:
        """Tokens that are staged together."""
        return min(max(self.tokens, 1), _DEPTH * self.threads // self.record)

    def launch(self, subgroup: int) -> Launch:
        names = ("tokens", "heads", "key_heads", "columns", "chunk", "vectors", "rows", "scale")
        push = {**{name: getattr(self, name) for name in names}, "record": divisor(self.record)}
        constants = {
            "THREADS": self.threads,
            "LANES": self.lanes,
            "EACH": self.each,
            "JOINED": min(self.lanes, subgroup),
        }
        return Launch(groups=self.groups, push=push, constants=constants)

    def refusal(self) -> str | None:
        """Why there is no such launch, or None."""
        if self.keys not in KEYS:
            return f"a state has {', '.join(map(str, KEYS))} keys a value, not {self.keys}"
        if self.columns % 4:
            return f"heads have a multiple of 4 values, not {self.columns}"
        if self.heads % self.key_heads:
            return f"{self.heads} heads do not share {self.key_heads} heads of keys evenly"
        return None


Of = Callable[[Problem], Recurrence]


def variants(
    rule: str, of: Of, refusal: Callable[[Problem], str | None] = lambda problem: None
) -> tuple[Variant, ...]:
    """Sums over the lanes of a column by shuffles, or through shared memory."""

    def launch(problem: Problem, device: DeviceFacts) -> Launch:
        return replace(of(problem), busy=busy(device, _BUSY)).launch(device.subgroup_size)

    def refuses(problem: Problem, device: DeviceFacts) -> str | None:
        return refusal(problem) or of(problem).refusal() or too_large(problem, device)

    def variant(name: str, team: str, requires: tuple[str, ...]) -> Variant:
        return Variant(
            name=name,
            module="recurrent",
            entry="recur",
            arguments=lambda types: (rule, team),
            launch=launch,
            refuses=refuses,
            arithmetic="f32",
            requires=requires,
        )

    shuffled = variant("subgroup", "subgroups", ("subgroup_shuffle",))
    return (shuffled, variant("portable", "threads", ()))


def binding(
    name: str, dims: str, description: str, access: str = "in", fmt: str = "f32"
) -> Binding:
    """A binding of a recurrence, its dimensions by their letters."""
    return Binding(
        name=name, access=access, types=(fmt,), dims=tuple(dims), description=description
    )


def ends(values: str, state: str, what: str) -> tuple[Binding, ...]:
    """The bindings that every recurrence begins with."""
    return (
        binding("v", values, "values of each token"),
        binding("state", state, f"what is remembered before the first token: {what}"),
        binding("y", values, "results of each token", "out"),
        binding("next_state", state, "what is remembered behind the last token", "out"),
    )


def flops(problem: Problem, per_key: int) -> int:
    """Operations, so many for each number of the state and each token."""
    return per_key * prod(problem.array_shape("state")) * problem.shape["t"]


def exact(inputs: Arrays) -> dict[str, Numbers]:
    return {name: array.astype(np.float64) for name, array in inputs.items()}


def unit(problem: Problem, name: str) -> Array:
    """Random vectors of length 1, as keys have that are normalised."""
    values = data.bell(problem, name).astype(np.float64)
    size = np.sqrt((values * values).sum(axis=-1, keepdims=True))
    return np.asarray((values / np.where(size > 0, size, 1)).astype(np.float32))


# the state with keys innermost, one token's inputs -> its results, the state changed in place
Step = Callable[[Numbers, Mapping[str, Numbers]], Numbers]


def walk_tokens(step: Step, state: Numbers, inputs: Mapping[str, Numbers], tokens: int) -> Numbers:
    """Results of all tokens, one after the other; the state is changed in place."""
    results = [step(state, {n: a[:, t] for n, a in inputs.items()}) for t in range(tokens)]
    return np.stack(results, axis=1) if results else np.zeros_like(inputs["v"])


def read(state: Numbers, vector: Numbers) -> Numbers:
    """What each column of a state makes of a vector of keys."""
    return np.asarray((state @ vector[..., None])[..., 0])


def outer(value: Numbers, key: Numbers) -> Numbers:
    """What a value and a key add to a state."""
    return value[..., None] * key[..., None, :]


def cases(name: str, shapes: Iterable[str]) -> tuple[Case, ...]:
    return tuple(parse(f"{name}/f32/{shape}") for shape in shapes)
