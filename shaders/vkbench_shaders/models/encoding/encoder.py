"""Steps of an encoder: norms behind each part, and attention that nothing is hidden from.

There are no caches: keys and values are those of the very tokens that are read.
"""

from __future__ import annotations

import numpy as np

from vkbench_shaders.models.building import Due
from vkbench_shaders.models.encoding.pooling import LAST, MEAN, NONE, NORMS
from vkbench_shaders.models.graph import EMBEDDING, TOKENS, Part, Weight
from vkbench_shaders.models.heads import HeadParts
from vkbench_shaders.models.layer_parts import LayerParts


class EncoderParts(HeadParts, LayerParts):
    """Builds a model that makes one vector of a sequence."""

    def encode(self) -> None:
        """All steps, from tokens to the vectors of their sequences."""
        x = self.embed_typed_tokens()
        for layer in range(self.hyper.layers):
            self.layer = layer
            self.streams.append(x)
            x = self.encoder_layer(x)
        self.layer = -1
        self.streams.append(x)
        self.pool_rows(x)

    def embed_typed_tokens(self) -> str:
        """Rows of the embedding, plus those of positions and of the first type, normalised."""
        x = self.rows("token_embd.weight", TOKENS, self.count)
        if "token_types.weight" in self.file.tensors:
            first = Weight(parts=(Part(tensor="token_types.weight", rows=1),), format="f32")
            bound = {"a": x, "b": self.use_weight(first)}
            shape = self.grid(self.hyper.width)
            x = self.step("token_types", "add", shape, {"broadcast": "row"}, **bound)["y"]
        return self.normalise_rows("token_embd_norm", self.add_positions(x))[1]

    def encoder_layer(self, x: str) -> str:
        """What a layer makes of the vectors of all tokens."""
        behind_attention, behind_all = NORMS
        x = self.normalise_rows(behind_attention, x, self.attend_to_all(x))[1]
        return self.normalise_rows(behind_all, x, self.forward(x))[1]

    def attend_to_all(self, x: str) -> Due:
        """What attention makes of vectors, each of which sees all of its sequence."""
        hyper, phase = self.hyper, self.phase
        q, k, v = self.project_heads(x)
        q, k = self.turn_heads("q", q, hyper.heads), self.turn_heads("k", k, hyper.groups)
        unread = self.unread_input()
        attended = self.step(
            "attention",
            "flash_attn",
            (
                *(phase.batch, hyper.heads, hyper.groups, phase.tokens, phase.tokens),
                *(hyper.key_size, hyper.value_size),
            ),
            {"layout": "cache", **self.score_params()},
            {"k": "f32", "v": "f32"},
            q=q,
            k=k,
            v=v,
            mask=unread,
            sinks=unread,
        )["y"]
        return self.postpone_product("attn_output", attended)

    def pool_rows(self, x: str) -> None:
        """The vector of each sequence, as the file says: their mean, one token's, or all."""
        batch, tokens, width = self.phase.batch, self.phase.tokens, self.hyper.width
        pooling = self.hyper.pooling
        if pooling == MEAN:
            shape = (1, batch, tokens, width)
            self.step("pool", "mean", shape, {"axes": "h"}, result=EMBEDDING, x=x)
            return
        rows = np.arange(self.count).reshape(batch, tokens)
        if pooling != NONE:
            rows = rows[:, -1 if pooling == LAST else 0]
        bound = {"table": x, "ids": self.fixed_ids("pool", rows)}
        chosen = (self.count, rows.size, width)
        self.step("pool", "get_rows", chosen, {}, {"table": "f32"}, result=EMBEDDING, **bound)
