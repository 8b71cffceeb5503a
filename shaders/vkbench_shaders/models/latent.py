"""Steps of latent attention: keys and values of all heads are made of one short vector.

Only that vector lies in the cache, behind a part that is turned. Queries are brought to it by each
head's own matrix, and what attention makes is brought to values by another. So attention itself has
one head of keys, whose values are the keys without the turned part.
"""

from __future__ import annotations

import numpy as np

from vkbench_shaders.models.building import Due
from vkbench_shaders.models.forwarding import Forwarding
from vkbench_shaders.models.graph import HEADS, Part, Weight


class Latent(Forwarding):
    """Builds the heads of latent attention."""

    def latent_heads(self, y: str) -> tuple[str, str, str]:
        """Queries, keys and values as attention takes them: the part that is turned comes first."""
        hyper, latent = self.hyper, self.hyper.latent
        assert latent
        parts = latent.nope, latent.turned
        asked, name = self.asked(y)
        size = sum(parts)
        plain = self.of_heads("attn_q_plain", name, asked, 0, parts[0], size)
        turned = self.of_heads("attn_q_turned", name, asked, parts[0], parts[1], size)
        brought = self.of_experts("attn_k_b", plain, self.numbers(), "expert", hyper.heads)
        q = self.joined("attn_q", turned, brought, self.count * hyper.heads)
        ends = self.product("attn_kv_a_mqa", y, latent.rank, latent.turned)
        short = self.product("attn_kv_a_mqa", y, 0, latent.rank)
        v = self.normalise_rows("attn_kv_a_norm", short, width=latent.rank)[1]
        return q, self.joined("attn_k", ends, v, self.count), v

    def asked(self, y: str) -> tuple[str, str]:
        """Vectors, and the name of the matrix that makes queries of them."""
        latent = self.hyper.latent
        assert latent
        if not latent.query_rank:
            return y, "attn_q"
        short = self.product("attn_q_a", y)
        width, readers = latent.query_rank, self.of_layer("attn_q_b")
        return self.normalise_rows("attn_q_a_norm", short, width=width, readers=readers)[1], (
            "attn_q_b"
        )

    def of_heads(self, label: str, name: str, x: str, first: int, rows: int, size: int) -> str:
        """Products with so many rows of each head's part of a matrix."""
        whole = self.whole_tensor(tensor := f"blk.{self.layer}.{name}.weight")
        parts = tuple(
            Part(tensor=tensor, first=head * size + first, rows=rows)
            for head in range(self.hyper.heads)
        )
        return self.multiply_by(label, x, Weight(parts=parts, format=whole.format))

    def joined(self, label: str, a: str, b: str, rows: int) -> str:
        """Vectors behind others."""
        widths = (self.sizes[part] // 4 // rows for part in (a, b))
        return self.step(f"{label}_joined", "concat", (1, 1, rows, *widths), a=a, b=b)["y"]

    def numbers(self) -> str:
        """The numbers of heads, for each token: a head's matrix is as an expert's."""
        heads = self.hyper.heads
        name = self.input(HEADS, "i32", self.count * heads)
        self.constants[name] = np.tile(np.arange(heads, dtype=np.int32), self.count)
        return name

    def values_of(self, attended: str) -> str:
        """Each head's values of what attention made."""
        return self.of_experts("attn_v_b", attended, self.numbers(), "expert", self.hyper.heads)

    def latent_output(self, attended: str) -> str | Due:
        """What the last matrix of attention makes of those values."""
        return self.postpone_product("attn_output", self.values_of(attended))
