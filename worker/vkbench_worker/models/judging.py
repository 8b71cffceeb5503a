"""Are a model's logits right? Judged against float64: whole where it is small, else in parts.

In parts, some layers work out in float64 what the device made of the very vectors that it gave
them, at some positions, with the keys and values in its cache; and the output matrix some of the
logits. Errors of a layer are relative to what it adds to its input. So each layer is held to the
limit of its own arithmetic, and nothing that a layer before it rounded counts. The logits as a
whole, where they can be had, are those of all layers one behind the other: rounding grows on the
way, most of all in models of random weights, so that their limits are wide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vkbench.result import Verdict
from vkbench_shaders.formats import format_named
from vkbench_shaders.gguf_file import GgufFile
from vkbench_shaders.kernel import Array
from vkbench_shaders.models.encoding.reference import pool_rows
from vkbench_shaders.models.recurrent.memory import SLOTS
from vkbench_shaders.models.recurrent.sizes import States
from vkbench_shaders.models.reference import Cache, Reference
from vkbench_shaders.models.reference_weights import Floats
from vkbench_shaders.quantisers import quants
from vkbench_worker.judging.poison import guard_changes, poison_of
from vkbench_worker.models.trial import Ids, Left, Trial
from vkbench_worker.runtime.program import Image

# Largest NMSE of a layer, and of the logits of a whole model, by the least exact arithmetic.
_LIMITS: Final[Mapping[str, tuple[float, float]]] = {
    "int8": (2e-2, 1e-1),
    "bf16_inputs": (1e-3, 2e-2),
    "f16_accumulation": (1e-3, 2e-2),
    "f16_inputs": (1e-4, 1e-2),
    "f16_attention": (1e-4, 1e-2),
    "f32": (1e-6, 1e-3),
}
# What rounding keys and values to a format may change of them, and of the logits.
_STORED: Final[Mapping[str, tuple[float, float]]] = {
    "f16": (1e-6, 0.0),
    "bf16": (1e-5, 0.0),
    "q8_0": (1e-3, 1e-2),
    "q4_0": (5e-2, 1e-1),
}
_CLEAR: Final = 4.0  # RMS errors by which a token has to be ahead, so that it must be the same
_WORK: Final = 2e10  # weights times tokens up to which a model is judged whole: seconds
_LAYERS: Final = 3  # that are judged of a larger one
_ROWS: Final = 8  # tokens, and
_WORDS: Final = 2048  # words of the vocabulary


@dataclass
class Findings:
    """Errors counted so far in a model's values."""

    path: str
    compared: int = 0
    nmse: float = 0.0  # nearest to its limit, or farthest past it
    limit: float = 0.0
    complaint: str = ""
    counts: Counter[str] = field(default_factory=Counter)

    def compare(self, what: str, made: Array, expected: Floats, limit: float, base: float) -> None:
        """Hold numbers against the reference; errors are relative to `base`, a sum of squares."""
        self.compared += expected.size
        error = float(np.square(made.astype(np.float64) - expected).sum())
        nmse = error / base if base else float(error > 0)
        if not np.isfinite(nmse):
            self.complain("nonfinite", int((~np.isfinite(made)).sum()), f"{what} are NaN or Inf")
            return
        if nmse / limit >= self.nmse / (self.limit or 1):
            self.nmse, self.limit = nmse, limit
        if nmse > limit:
            self.complain("", 0, f"NMSE of {what} is {nmse:.3g}, the limit is {limit:.3g}")

    def complain(self, count: str, number: int, reason: str) -> None:
        if count:
            self.counts[count] += number
        self.complaint = self.complaint or reason


def is_small(file: GgufFile, tokens: int) -> bool:
    """Whether all of a model can be worked out in float64 in seconds."""
    return sum(prod(tensor.shape) for tensor in file.tensors.values()) * tokens <= _WORK


def judged_layers(file: GgufFile, layers: int, tokens: int) -> tuple[int, ...]:
    """The layers that are judged one by one: all of a small model, else some, the first too."""
    count = layers if is_small(file, tokens) else min(_LAYERS, layers)
    return _spread(layers, count)


def judge(trial: Trial, first: Left, second: Left) -> Verdict:
    """The verdict on two runs of a case, each over memory with another poison.

    Between them another prompt went through the caches.
    """
    findings = Findings(path=_path(trial))
    _judge_memory(findings, trial, first, second)
    _judge_neighbours(findings, trial, first)
    if not findings.complaint:
        if is_small(trial.model.file, trial.case.tokens * trial.case.batch):
            _judge_whole(findings, trial, first)
        for sequence in sorted({0, trial.case.batch - 1}):
            _judge_parts(findings, trial, first, sequence)
    return Verdict(
        passed=not findings.complaint,
        reason=findings.complaint,
        path=findings.path,
        nmse=findings.nmse,
        nmse_limit=findings.limit,
        max_abs=None,
        max_abs_limit=0.0,
        compared=findings.compared,
        total=trial.run.last.graph.sizes[trial.makes] // 4,
        nonfinite=findings.counts["nonfinite"],
        unwritten=findings.counts["unwritten"],
        guard_bytes=findings.counts["guard_bytes"],
        unrepeated=findings.counts["unrepeated"],
    )


def _path(trial: Trial) -> str:
    parts = trial.run.parts
    used = {choice.variant.arithmetic for part in parts for choice in part.schedule.choices}
    steps = (step for part in parts for step in part.graph.steps)
    if "q8_1" in {fmt for step in steps for fmt in step.problem.types.values()}:
        used.add("int8")
    return next((path for path in _LIMITS if path in used), "f32")


def _judge_memory(findings: Findings, trial: Trial, first: Left, second: Left) -> None:
    """Judge guards, poison and counters, and whether both runs left the same."""
    for left in (first, second):
        for name, image in left.guards:
            if changed := guard_changes(image):
                findings.complain("guard_bytes", changed, f"{changed} bytes outside {name} changed")
    for part, one, other in zip(trial.run.parts, first.values, second.values, strict=True):
        for name in one:
            if name not in part.counters:
                _judge_repeated(findings, name, one[name], other[name])
            elif one[name].data.any() or other[name].data.any():
                findings.complain("", 0, f"{name} are not zero after a run")


def _judge_repeated(findings: Findings, name: str, one: Image, other: Image) -> None:
    bits = [image.data.view(np.uint32) for image in (one, other)]
    poisons = [poison_of(image, bits[0].dtype) for image in (one, other)]
    unwritten = int(((bits[0] == poisons[0]) & (bits[1] == poisons[1])).sum())
    if unwritten:
        findings.complain("unwritten", unwritten, f"{unwritten} of {name} were never written")
    if differing := int((bits[0] != bits[1]).sum()):
        findings.complain("unrepeated", differing, f"{differing} of {name} differ on a second run")


def _judge_neighbours(findings: Findings, trial: Trial, left: Left) -> None:
    """Judge whether a sequence's logits are the same bits beside other sequences."""
    if trial.beside_others is None:
        return
    made = left.numbers(-1, left.makes, trial.case.batch)
    alone = (trial.chosen_logits[-1] if trial.generates else made)[0]
    changed = int((alone.view(np.uint32) != trial.beside_others.view(np.uint32)).sum())
    if changed:
        reason = f"{changed} of the {left.makes} of a sequence change with its neighbours"
        findings.complain("unrepeated", changed, reason)


def _judge_whole(findings: Findings, trial: Trial, left: Left) -> None:
    """Judge logits of the last token, and of the steps before it, by a reference of all layers.

    Then those behind caches whose older half was dropped, by the reference's own that were cut so.
    """
    case, model = trial.case, trial.model
    stored = _STORED[case.cache][1]
    limit = max(_LIMITS[findings.path][1], stored)
    last, shifted = left.numbers(-1, left.makes, case.batch), trial.shifted_logits()
    for sequence in range(case.batch):
        reference = Reference(file=model.file, hyper=model.hyper, cache_format=case.cache)
        if model.hyper.architecture.encodes:
            _judge_embedding(findings, last[sequence], reference, trial.tokens[sequence], limit)
            continue
        expected = reference.logits(trial.tokens[sequence])
        rows = [step[sequence] for step in trial.chosen_logits[:-1]]
        logits = np.array([*rows, last[sequence]])
        expected = expected[-len(logits) :]
        findings.compare("logits", logits, expected, limit, float(np.square(expected).sum()))
        best = np.sort(expected, axis=-1)
        clear = best[:, -1] - best[:, -2] > _CLEAR * np.sqrt(limit) * expected.std()
        other = clear & (logits.argmax(axis=-1) != expected.argmax(axis=-1))
        if other.any():
            findings.complain("", 0, f"{other.sum()} of {len(other)} tokens are not the likeliest")
        if shifted is not None:
            reference.shift(trial.dropped)
            expected = reference.logits(trial.tokens[sequence, :1])[0]
            base = float(np.square(expected).sum())
            findings.compare("logits of a shifted cache", shifted[sequence], expected, limit, base)


def _judge_embedding(
    findings: Findings, made: Array, reference: Reference, tokens: Ids, limit: float
) -> None:
    """Judge what an encoder made of a sequence, by a reference of all layers."""
    expected = reference.embedding(tokens)
    base = float(np.square(expected).sum())
    findings.compare("the embedding of a sequence", made, expected, limit, base)


class _Sampled(Reference):
    """A reference of some positions, whose caches are the device's."""

    made: dict[int, tuple[Floats, Floats]]

    def append_positions(self, layer: int, k: Floats, v: Floats) -> Cache:
        """The device's cache; what the reference would put there is kept to be compared."""
        self.made = {layer: (k, v)}
        return self.caches[layer]


def _judge_parts(findings: Findings, trial: Trial, left: Left, sequence: int) -> None:
    """Judge the embedding, some layers and some logits of some tokens of a sequence."""
    model, case = trial.model, trial.case
    encodes = model.hyper.architecture.encodes
    count = case.timed if encodes else max(_ROWS, len(trial.run.parts))
    rows = np.array(_spread(case.timed, min(count, case.timed)))
    positions = trial.start + rows
    reference = _Sampled(file=model.file, hyper=model.hyper, cache_format=case.cache)
    limit = _LIMITS[findings.path][0]

    def stream(layer: int) -> Floats:
        return _layer_inputs(trial, left, layer, sequence, rows)

    for layer in trial.kept:
        if layer == 0:
            expected = reference.embed_tokens(trial.given[sequence][rows], positions)
            findings.compare(
                "the embedding of tokens",
                stream(layer),
                expected,
                1e-10,
                float(np.square(expected).sum()),
            )
        recurs = model.hyper.recurs(layer)
        judge_layer = _judge_recurrent_layer if recurs else _judge_cached_layer
        if encodes:
            judge_layer = _judge_encoder_layer
        judge_layer(findings, Place(trial, left, sequence, rows), reference, layer, limit)
    if encodes:
        expected = pool_rows(model.hyper.pooling, stream(model.hyper.layers))
        made = left.numbers(-1, left.makes, case.batch)[sequence]
        findings.compare("what is pooled", made, expected, limit, float(np.square(expected).sum()))
        return
    words = np.array(_spread(model.hyper.vocabulary, min(_WORDS, model.hyper.vocabulary)))
    expected = reference.head(stream(model.hyper.layers)[-1:], words)
    logits = left.numbers(-1, left.makes, case.batch)[sequence : sequence + 1, words]
    findings.compare("the output", logits, expected, limit, float(np.square(expected).sum()))


@dataclass(frozen=True)
class Place:
    """What a run left of some tokens of a sequence."""

    trial: Trial
    left: Left
    sequence: int
    rows: NDArray[np.integer]  # of those tokens

    def stream(self, layer: int, rows: NDArray[np.integer] | None = None) -> Floats:
        """What went into a layer."""
        rows = self.rows if rows is None else rows
        return _layer_inputs(self.trial, self.left, layer, self.sequence, rows)


def _judge_encoder_layer(
    findings: Findings, place: Place, reference: _Sampled, layer: int, limit: float
) -> None:
    """Judge all tokens behind a layer in which each sees all others."""
    before, after = place.stream(layer), place.stream(layer + 1)
    expected = reference.layer(layer, before, place.rows)
    added = float(np.square(expected - before).sum())
    findings.compare(f"layer {layer}", after, expected, limit, added)


def _judge_cached_layer(
    findings: Findings, place: Place, reference: _Sampled, layer: int, limit: float
) -> None:
    """Judge some tokens behind a layer of attention, and what they left in its caches."""
    trial, positions = place.trial, place.trial.start + place.rows
    before, after = place.stream(layer), place.stream(layer + 1)
    keys, values = (
        _cached_values(trial, name, layer, place.sequence, int(positions[-1]) + 1) for name in "kv"
    )
    reference.caches[layer] = Cache(keys=keys, values=values)
    expected = reference.layer(layer, before, positions)
    added = float(np.square(expected - before).sum())
    findings.compare(f"layer {layer}", after, expected, limit, added)
    stored = limit + _STORED[trial.case.cache][0]
    for name, made, kept in zip(
        ("keys", "values"), reference.made[layer], (keys, values), strict=True
    ):
        cached = kept[positions].reshape(made.shape)
        base = float(np.square(made).sum())
        findings.compare(f"{name} of layer {layer}", cached, made, stored, base)


def _judge_recurrent_layer(
    findings: Findings, place: Place, reference: _Sampled, layer: int, limit: float
) -> None:
    """Judge all tokens of a run behind a layer, and the states that they left.

    The reference goes on from the device's own states of the tokens before. Those of the first
    layer are judged too, for they follow from the tokens alone.
    """
    trial, start = place.trial, place.trial.start
    rows = np.arange(trial.case.timed)
    before, after = (place.stream(at, rows) for at in (layer, layer + 1))
    slots = trial.run.parts[0].turn.source, trial.run.last.turn.target
    given, left = _read_states(trial, layer, place.sequence, slots)
    if start and not layer:
        positions = np.arange(start)
        read = reference.embed_tokens(trial.tokens[place.sequence][:start], positions)
        reference.layer(layer, read, positions)
        _compare_states(findings, "tokens before", given, reference.memory.states[layer], limit)
    if not start and any(numbers.any() for numbers in given.values()):
        findings.complain(
            "", 0, f"the states before the first token of layer {layer} are not zeros"
        )
    reference.memory.states[layer] = given
    expected = reference.layer(layer, before, start + rows)
    added = float(np.square(expected - before).sum())
    findings.compare(f"layer {layer}", after, expected, limit, added)
    _compare_states(findings, f"layer {layer}", left, reference.memory.states[layer], limit)


def _compare_states(
    findings: Findings, what: str, made: States, expected: States, limit: float
) -> None:
    """Hold states against the reference's own."""
    for name, numbers in expected.items():
        base = float(np.square(numbers).sum())
        findings.compare(f"the states {name} of {what}", made[name], numbers, limit, base)


def _read_states(trial: Trial, layer: int, sequence: int, slots: Sequence[int]) -> list[States]:
    """The states of a sequence in each of some slots of a layer."""
    model, recurrent = trial.model, trial.model.hyper.recurrent
    assert recurrent
    found: list[States] = [{} for _ in slots]
    for name, shape in recurrent.states.items():
        buffer = model.made_caches()[f"state.{name}.{layer}"]
        data = model.device.images([buffer])[0].data.view(np.float32)
        whole = data[: SLOTS * trial.case.batch * prod(shape)]
        by_slot = whole.reshape(SLOTS, trial.case.batch, *shape)
        for states, slot in zip(found, slots, strict=True):
            states[name] = by_slot[slot, sequence].astype(np.float64)
    return found


def _layer_inputs(
    trial: Trial, left: Left, layer: int, sequence: int, rows: NDArray[np.integer]
) -> Floats:
    """What went into a layer, of some tokens of a sequence, whichever part read them."""
    inputs = []
    for number, (part, (first, end)) in enumerate(
        zip(trial.run.parts, trial.run.places, strict=True)
    ):
        here = rows[(first <= rows) & (rows < end)] - first
        kept = left.numbers(number, part.graph.streams[layer], part.graph.phase.count)
        inputs.append(kept[sequence * (end - first) + here])
    return np.concatenate(inputs).astype(np.float64)


def _cached_values(
    trial: Trial, name: str, layer: int, sequence: int, count: int
) -> NDArray[np.float64]:
    """Keys or values of a sequence's first positions: (positions, groups, size)."""
    model = trial.model
    buffer = model.made_caches()[f"cache.{name}.{layer}"]
    fmt = format_named(trial.case.cache)
    data = model.device.images([buffer])[0].data.view(fmt.dtype)
    rows = data.reshape(trial.case.batch, model.options.context, -1)[sequence, :count]
    return quants.dequantise(fmt.name, rows).reshape(count, model.hyper.groups, -1)


def _spread(count: int, most: int) -> tuple[int, ...]:
    """So many numbers below a count, evenly, the first and the last among them."""
    places: Iterable[float] = np.linspace(0, count - 1, most) if most > 1 else [count - 1]
    return tuple(sorted({round(place) for place in places}))
