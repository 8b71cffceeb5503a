"""A whole model's cases: a prompt of so many tokens, or so many generated one by one.

    model/llama-8b-q4_K_M-0123456789ab/pp512
    model/llama-8b-q4_K_M-0123456789ab/tg128/batch=8,cache=q8_0

The hash is that of the file's keys and weights, so that a series is of one model for good.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from vkbench.case import MODEL, Case, Value, parse
from vkbench.errors import UsageError
from vkbench.words import names
from vkbench_shaders.gguf_file import GgufFile
from vkbench_shaders.models.graph import AS_NUMBERS, CACHES, Phase, Products, phase_at
from vkbench_shaders.models.hyper import Hyper, hash_of, hyper_of

PROMPT: Final = "pp"
GENERATE: Final = "tg"
HASH_DIGITS: Final = 12
PART: Final = 512  # tokens of a sequence that are read at once
# Rounding vectors that the step before did not round takes a launch more, which pays from so many
# weights of a matrix on: by an H200's times of q4_K, m 4096 k 14336.
_LARGE: Final = 8 << 20
VARIANTS: Final[Mapping[str, Products]] = {  # code paths
    "mixed": Products(rounds_from=_LARGE),
    "joined": Products(rounds_from=_LARGE, joins=True),
    "via_q8_1": Products(rounds_from=0),
    "plain": AS_NUMBERS,
}
_DEFAULTS: Final[Mapping[str, Value]] = {"batch": 1, "cache": CACHES[0], "context": 0}


@dataclass(frozen=True, kw_only=True)
class ModelCase:
    """What is done with which model."""

    model: str  # name and hash
    phase: str  # PROMPT or GENERATE
    tokens: int
    batch: int = 1  # sequences
    cache: str = CACHES[0]  # format of keys and values
    context: int = 0  # positions that the caches have room for; 0: as many as are needed

    @property
    def case(self) -> Case:
        """Under its canonical name."""
        given = {name: getattr(self, name) for name in _DEFAULTS}
        return Case(
            kernel=MODEL,
            format=self.model,
            shape={self.phase: self.tokens},
            params={name: value for name, value in given.items() if value != _DEFAULTS[name]},
        )

    @property
    def room(self) -> int:
        """Positions of the caches."""
        return self.context or self.tokens

    @property
    def timed(self) -> int:
        """Tokens of each sequence that are read while it is timed: all, or the last one."""
        return 1 if self.phase == GENERATE else self.tokens

    def timed_phases(self, variant: str) -> list[Phase]:
        """What is timed: the parts of the prompt, or the last token."""
        phases = (
            phase_at(
                until - at,
                self.tokens - self.timed + until,
                batch=self.batch,
                context=self.room,
                cache=self.cache,
                products=VARIANTS.get(variant, AS_NUMBERS),
            )
            for at, until in parts_of(self.timed)
        )
        return [replace(phase, wanted=self.batch) for phase in phases]

    def check_file(self, file: GgufFile) -> None:
        """UsageError unless the file is of the model that the case names."""
        digits = hash_of(file)[:HASH_DIGITS]
        if not self.model.endswith(f"-{digits}"):
            raise UsageError(
                f"{file.path} is another model on this host: its hash is {digits}, "
                f"the case names {self.model}"
            )

    def read_hyper(self, file: GgufFile) -> Hyper:
        """What the file says of the model; UsageError if the case cannot be run with it."""
        hyper = hyper_of(file, self.room)
        if hyper.architecture.encodes:
            self._check_encoding(file, hyper)
        if not hyper.architecture.has_attention and self.cache != CACHES[0]:
            raise UsageError(
                f"{file.path}: the model has states and no cache of keys and values: "
                "leave --cache out"
            )
        return hyper

    def _check_encoding(self, file: GgufFile, hyper: Hyper) -> None:
        """UsageError of what an encoder does not do: it has no next token, and no cache."""
        name = hyper.architecture.name
        complaint = ""
        if self.phase == GENERATE:
            complaint = "generates no tokens: leave --generate out"
        elif self.tokens > (most := min(PART, hyper.trained_context or PART)):
            complaint = f"reads a prompt at once, of {most} tokens at most, and not {self.tokens}"
        elif self.context or self.cache != CACHES[0]:
            complaint = "has no cache of keys and values: leave --context and --cache out"
        if complaint:
            raise UsageError(f"{file.path}: a model of architecture {name} {complaint}")


def parts_of(count: int) -> list[tuple[int, int]]:
    """Parts of so many tokens that are read at once: the first token of each, and the end."""
    return [(at, min(at + PART, count)) for at in range(0, count, PART)]


def model_case(name: str) -> ModelCase:
    """A model's case by its canonical name; UsageError says what it does not understand."""
    case = parse(name)
    ((phase, tokens),) = case.shape.items() if len(case.shape) == 1 else (("", 0),)
    if phase not in (PROMPT, GENERATE) or tokens < 1:
        raise UsageError(f"malformed case '{name}': a model's is pp or tg and a number of tokens")
    unknown = case.params.keys() - _DEFAULTS.keys()
    if case.kernel != MODEL or unknown:
        raise UsageError(f"malformed case '{name}': a model has {', '.join(_DEFAULTS)}")
    params = {**_DEFAULTS, **case.params}
    batch, context = params["batch"], params["context"]
    if not isinstance(batch, int) or not isinstance(context, int) or batch < 1 or context < 0:
        raise UsageError(f"malformed case '{name}': batch and context are whole numbers")
    model = ModelCase(
        model=case.format,
        phase=phase,
        tokens=tokens,
        batch=batch,
        cache=names.pick(str(params["cache"]), CACHES, "format of a cache"),
        context=context,
    )
    if context and context < tokens:
        raise UsageError(f"a context of {context} has no room for {tokens} tokens")
    return model


def name_of(file: GgufFile) -> str:
    """How a model is called in its cases: after its file, with its hash behind."""
    stem = re.sub(r"[^A-Za-z0-9_.-]+", "-", Path(file.path).stem)
    if not stem[:1].isalpha():
        stem = f"m{stem}"
    return f"{stem}-{hash_of(file)[:HASH_DIGITS]}"
