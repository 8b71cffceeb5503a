"""What an accuracy run may have found."""

from __future__ import annotations

from vkbench.accuracy import Accuracy, Subject

MODEL = "tiny-f16-0123456789ab"


def of_model(format: str, loss: float | None = None, **changes: object) -> Accuracy:
    """A model in a format; without a loss it is the one that others are held against."""
    values: dict[str, object] = {
        "subject": Subject.MODEL,
        "model": MODEL,
        "format": format,
        "bits": 16.0,
        "bytes": 1 << 33,
        "quantiser": "" if loss is None else "vkbench",
        "perplexity": 10 * (1 + (loss or 0.0)),
        "perplexity_error": 0.5,
        "base": "" if loss is None else MODEL,
        "base_format": "" if loss is None else "f16",
        "loss": loss,
        "loss_error": None if loss is None else 0.001,
        "text_sha": "ab" * 32,
        "context": 512,
        "windows": 4,
        "tokens": 1020,
        "cache": "f16",
        "variant": "mixed",
        "tokens_per_second": 1000.0,
        "host": "here",
        "device_name": "Planted 9000",
        "measured_at": 1_700_000_000.0,
    }
    return Accuracy(**values | changes)  # type: ignore[arg-type]


def of_products(format: str, error: float, weights: str = "normal") -> Accuracy:
    """A format of some seeded weights."""
    return Accuracy(
        subject=Subject.PRODUCTS,
        weights=weights,
        format=format,
        bits=4.5,
        quantiser="gguf",
        output_error=error,
        weight_error=error,
        host="here",
        measured_at=1_700_000_000.0,
    )
