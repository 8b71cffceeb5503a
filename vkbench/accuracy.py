"""What a format loses of products, or a whole model of a text, as a run of accuracy found it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Subject(StrEnum):
    """What rounding made less accurate: products, or a whole model."""

    PRODUCTS = "products"  # of a matrix and vectors
    MODEL = "model"  # which read a text


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """One format of one kind of weights, or one model in one format."""

    subject: Subject
    model: str = ""  # name and hash, as in cases of the model; "" of seeded weights
    weights: str = ""  # of products: which matrix, such as attn_q.weight, or how numbers scatter
    format: str  # what was tried; of a file that was read as it is: that of most of its weights
    bits: float  # of a weight
    bytes: int | None = None  # of a model's weights
    quantiser: str = ""  # gguf | vkbench; "" where the file has this format, or it is no blocks
    output_error: float | None = None  # of products, in the length of the product
    weight_error: float | None = None
    perplexity: float | None = None  # of a model
    perplexity_error: float | None = None
    base: str = ""  # model that the loss is against; "" of that model itself
    base_format: str = ""
    loss: float | None = None  # how far the perplexity is above that of the base: 0.01 is 1 %
    loss_error: float | None = None
    text_sha: str = ""  # SHA-256 of the tokens that were read, window by window
    context: int = 0  # tokens of a window
    windows: int = 0
    tokens: int = 0  # that counted
    cache: str = ""  # format of keys and values
    variant: str = ""  # code path that ran
    tokens_per_second: float | None = None
    host: str
    device_name: str = ""  # "" of products, which the CPU works out
    measured_at: float
