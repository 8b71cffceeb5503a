"""Heads of queries, keys and values: norms, rotary positions, and the caches that they go to."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from vkbench.case import Value
from vkbench_shaders.formats import format_named
from vkbench_shaders.gguf_file import GgufFile
from vkbench_shaders.kernels.attention.flash_plan import EIGHT
from vkbench_shaders.kernels.attention.token_reference import pairs
from vkbench_shaders.kernels.rowwise import rope_normed, rope_rows
from vkbench_shaders.models.building import Builder
from vkbench_shaders.models.graph import PAIRS, POSITIONS, ROWS, Phase
from vkbench_shaders.models.hyper import Hyper
from vkbench_shaders.models.keys import Rope


class HeadParts(Builder):
    """Builds what is done to heads before attention."""

    def __init__(self, file: GgufFile, hyper: Hyper, phase: Phase) -> None:
        super().__init__(file, hyper, phase)
        self.cosines: dict[Rope, str] = {}  # of a token: the values that have them

    def turns(self, rope: Rope) -> str:
        """The cosines and sines of the token's position, which layers share."""
        if rope not in self.cosines:
            batch, size = self.phase.batch, self.hyper.key_size
            turned = np.zeros((batch, size), np.float32)
            turned[:, pairs(rope.n_dims, rope.mode)[0]] = 1
            self.constants[self.input(PAIRS, "f32", batch * size)] = turned
            params, bound = self.turning(rope)
            with self.in_layer(-1):
                made = self.step("turns", "rope", (batch, 1, 1, size), params, x=PAIRS, **bound)
            self.cosines[rope] = made["y"]
        return self.cosines[rope]

    def head_norm(self, label: str, x: str, heads: int) -> str:
        """Each head normalised, where the model does that."""
        name = f"attn_{label}_norm"
        if not self.has(f"{name}.weight"):
            return x
        return self.normalise_rows(name, x, rows=self.count * heads, width=self.hyper.key_size)[1]

    def turn_heads(self, label: str, x: str, heads: int, norm: str = "") -> str:
        """Heads that are turned, and normalised before by a norm that this step has besides."""
        if not (rope := self.hyper.rope_of(self.layer)):
            return x
        params, bound = self.turning(rope)
        shape = (self.phase.batch, self.phase.tokens, heads, self.hyper.key_size)
        if norm:
            params |= {"eps": self.hyper.eps}
            bound |= {"weights": self.weight(f"blk.{self.layer}.{norm}.weight", "f32")}
        kernel = "rms_norm_rope" if norm else "rope"
        return self.step(f"rope_{label}", kernel, shape, params, x=x, **bound)["y"]

    def norm_and_turn(self, label: str, x: str, heads: int) -> str:
        """Heads that are normalised where the model does that, and turned: by one step at best."""
        norm = f"attn_{label}_norm"
        if self.norms_and_turns(norm):
            return self.turn_heads(label, x, heads, norm)
        return self.turn_heads(label, self.head_norm(label, x, heads), heads)

    def norms_and_turns(self, norm: str) -> bool:
        """Whether heads have a norm that is made by the step that turns them."""
        rope, size = self.hyper.rope_of(self.layer), self.hyper.key_size
        if not rope or not self.has(f"{norm}.weight"):
            return False
        is_rms = self.hyper.architecture.norm == "rms_norm"
        return is_rms and size <= rope_normed.MOST and size % EIGHT == rope.n_dims % EIGHT == 0

    def turning(self, rope: Rope) -> tuple[dict[str, Value], dict[str, str]]:
        """Parameters of rope, and what it is given beside heads."""
        params: dict[str, Value] = {k: v for k, v in asdict(rope).items() if k != "factors"}
        if rope.n_dims == self.hyper.key_size:
            del params["n_dims"]
        factors = self.unread_input()
        if rope.factors:
            params["factors"] = "given"
            factors = self.weight(rope.factors, "f32")
        positions = self.input(POSITIONS, "i32", self.phase.tokens)
        return params, {"positions": positions, "factors": factors}

    def turns_into_cache(self) -> bool:
        """Whether one step turns keys and stores them."""
        rope = self.hyper.rope_of(self.layer)
        if not rope or self.phase.cache not in rope_rows.TYPES:
            return False
        return self.hyper.key_size % EIGHT == rope.n_dims % EIGHT == 0

    def turn_into_cache(self, x: str) -> str:
        """The cache of keys with these heads in it: normalised where the model does that, turned.

        By one step where heads are normalised by the step that turns them.
        """
        phase, rope, norm = self.phase, self.hyper.rope_of(self.layer), "attn_k_norm"
        assert rope
        params, bound = self.turning(rope)
        kernel = "rope_set_rows"
        if self.norms_and_turns(norm):
            kernel = "rms_norm_rope_set_rows"
            params["eps"] = self.hyper.eps
            bound["weights"] = self.weight(f"blk.{self.layer}.{norm}.weight", "f32")
        else:
            x = self.head_norm("k", x, self.hyper.groups)
        rows, cache = self.cache("k", self.hyper.key_size)
        shape = (rows, phase.batch, phase.tokens, self.hyper.groups, self.hyper.key_size)
        ids = self.input(ROWS, "i32", self.count)
        types = {"y": phase.cache}
        self.step("cache_k", kernel, shape, params, types, x=x, ids=ids, y=cache, **bound)
        return cache

    def store_vectors(self, name: str, x: str, size: int) -> str:
        """The cache of keys or values, with these vectors in it."""
        rows, cache = self.cache(name, size)
        ids = self.input(ROWS, "i32", self.count)
        shape = (rows, self.count, self.hyper.groups * size)
        types = {"y": self.phase.cache}
        self.step(f"cache_{name}", "set_rows", shape, {}, types, y=cache, x=x, ids=ids)
        return cache

    def cache(self, name: str, size: int) -> tuple[int, str]:
        """Rows and name of this layer's cache of keys or values, of so many numbers a head."""
        phase, fmt = self.phase, format_named(self.phase.cache)
        rows = phase.batch * phase.room
        cache = f"cache.{name}.{self.layer}"
        self.caches.append(cache)
        self.sizes[cache] = rows * fmt.items(self.hyper.groups * size) * fmt.dtype.itemsize
        return rows, cache
