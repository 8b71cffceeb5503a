"""A model's case on a device: the tokens that it reads, its runs, and what they left."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vkbench_shaders.kernel import Array
from vkbench_shaders.models.cases import GENERATE, ModelCase, parts_of
from vkbench_worker.models.model import Model
from vkbench_worker.models.passage import Passage
from vkbench_worker.runtime.program import Image

GREEDY: Final = 16  # tokens that a generation takes one by one before it is timed

Ids = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Left:
    """What a run left: of each part the values that it kept; and all guards, by a value's name."""

    makes: str  # the value that counts: logits, or an encoder's embedding
    values: Sequence[Mapping[str, Image]]
    guards: Sequence[tuple[str, Image]]

    @property
    def logits(self) -> Image:
        """The logits that the last part made, or an embedding."""
        return self.values[-1][self.makes]

    def numbers(self, part: int, name: str, rows: int) -> Array:
        """A value that a part kept, a row for each token."""
        return self.values[part][name].data.view(np.float32).reshape(rows, -1)


class Trial:
    """The phase that a case times, at the place where it is timed."""

    def __init__(
        self,
        model: Model,
        case: ModelCase,
        kept: tuple[int, ...],
        like: Trial | None = None,
    ) -> None:
        """With another bundle's trial on the same caches, `like`, go on from where that stands."""
        self.model, self.case, self.kept = model, case, kept
        self.generates = case.phase == GENERATE
        steps = min(GREEDY, case.tokens) if self.generates else 0
        self.tokens = _tokens(case, model.hyper.vocabulary)  # (batch, tokens)
        self.first = case.tokens - steps if self.generates else 0  # position of the first run
        self.chosen_logits: list[Array] = []  # of each step of a generation: (batch, vocabulary)
        self.beside_others: Array | None = (
            None  # the first sequence's logits, its neighbours others
        )
        self.run = Passage(model, self.start, case.timed, wanted=case.batch, kept=kept)
        self._follows = like is not None
        if like:
            self.tokens, self.chosen_logits = like.tokens, like.chosen_logits
        elif self.generates:
            self._generate()

    @property
    def makes(self) -> str:
        """The value that counts: logits, or an encoder's embedding."""
        return self.model.hyper.architecture.makes

    @property
    def start(self) -> int:
        """Position of the first token of the timed run."""
        return self.case.tokens - self.case.timed

    @property
    def given(self) -> Ids:
        """The tokens of the timed run."""
        return self.tokens[:, self.start :]

    def left_over(self, poison: int) -> Left:
        """What one run over memory full of poison left."""
        self.run.poison(poison)
        self.run.place(self.given)
        self.run.recording.run()
        return self.collect_left()

    def left_again(self, poison: int) -> Left:
        """As `left_over`, once another prompt went through the caches and this one was read anew.

        Of several sequences the first one stays, so that its logits tell whether others reach it.
        What follows another trial leaves the caches as those are.
        """
        if not self._follows:
            others = (self.tokens + 1) % self.model.hyper.vocabulary
            if self.case.batch > 1:
                others[0] = self.tokens[0]
            logits = self._reread(others)
            self.beside_others = logits[0] if self.case.batch > 1 else None
            self._reread(self.tokens)
        return self.left_over(poison)

    def shifted_logits(self) -> Array | None:
        """Logits of a token behind the younger half of the positions: (batch, vocabulary).

        The older half is dropped from the caches for that, which are read anew afterwards. None
        where that cannot be, or would leave another trial's caches as this one's kernels make them.
        """
        dropped = self.dropped
        if self._follows or not self.model.hyper.can_shift or not dropped:
            return None
        self.model.shift(dropped, self.case.tokens)
        at = self.case.tokens - dropped
        run = self.model.prepare_reading(1, at + 1, wanted=self.case.batch)
        logits = run.run(self.tokens[:, :1], at).reshape(self.case.batch, -1).copy()
        self._reread(self.tokens)
        return logits

    @property
    def dropped(self) -> int:
        """Positions that `shifted_logits` drops."""
        return self.case.tokens // 2

    def collect_left(self) -> Left:
        """What the last run left."""
        values, guards = self.run.images()
        return Left(makes=self.makes, values=values, guards=guards)

    def _generate(self) -> None:
        """Read random tokens, then the likeliest ones: all but the last go to `tokens`."""
        for at, logits in self._read(self.tokens):
            self.chosen_logits.append(logits.copy())
            if at + 1 < self.case.tokens:
                self.tokens[:, at + 1] = np.nan_to_num(logits).argmax(axis=-1)

    def _reread(self, tokens: Ids) -> Array:
        """Read all tokens; the logits of each sequence's last one: (batch, vocabulary)."""
        last = deque(self._read(tokens), maxlen=1)
        if last:
            return last[0][1].copy()
        return self.run.last.read(self.makes).reshape(self.case.batch, -1).copy()

    def _read(self, tokens: Ids) -> Iterator[tuple[int, Array]]:
        """Read all tokens: a prompt, then one by one what is generated, with the logits of each."""
        if not self.generates:
            self.run.place(tokens)
            self.run.recording.run()
            return
        for at, until in parts_of(self.first):
            run = self.model.prepare_reading(until - at, until, wanted=self.case.batch)
            run.run(tokens[:, at:until], at)
        for at in range(self.first, self.case.tokens):
            run = self.model.prepare_reading(1, at + 1, wanted=self.case.batch)
            yield at, run.run(tokens[:, at : at + 1], at).reshape(self.case.batch, -1)


def _tokens(case: ModelCase, vocabulary: int) -> Ids:
    """Random tokens, seeded by the case alone."""
    numbers = np.random.Generator(np.random.Philox(key=int(case.case.hash[:16], 16)))
    return numbers.integers(0, vocabulary, (case.batch, case.tokens))
