"""What formats and models lost, and the public view of it."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, ForeignKey, Named, Table, Text

from vkbench_db.schema.metadata import TABLES, VIEWS, Columns, Moment


class LossColumns(Columns):
    """What was lost. The fields of vkbench.accuracy.Accuracy have columns of the same names."""

    subject: Named[str] = Column(Text)
    model: Named[str] = Column(Text)
    weights: Named[str] = Column(Text)
    format: Named[str] = Column(Text)
    bits: Named[float] = Column(Float)
    bytes: Named[int | None] = Column(BigInteger)
    quantiser: Named[str] = Column(Text)
    output_error: Named[float | None] = Column(Float)
    weight_error: Named[float | None] = Column(Float)
    perplexity: Named[float | None] = Column(Float)
    perplexity_error: Named[float | None] = Column(Float)
    base: Named[str] = Column(Text)
    base_format: Named[str] = Column(Text)
    loss: Named[float | None] = Column(Float)
    loss_error: Named[float | None] = Column(Float)
    text_sha: Named[str] = Column(Text)
    context: Named[int]
    windows: Named[int]
    tokens: Named[int] = Column(BigInteger)
    cache: Named[str] = Column(Text)
    variant: Named[str] = Column(Text)
    tokens_per_second: Named[float | None] = Column(Float)
    host: Named[str] = Column(Text)
    device_name: Named[str] = Column(Text)
    measured_at: Named[float] = Column(Moment)


class AccuracyColumns(LossColumns):
    """A row of an accuracy run, which has no jobs."""

    run_id: Named[int] = Column(ForeignKey("run.id"), primary_key=True)
    position: Named[int] = Column(primary_key=True)  # in its run


accuracy = Table("accuracy", TABLES, AccuracyColumns)


class EveryAccuracyColumns(LossColumns):
    """Every row of every accuracy run."""

    run: Named[int]
    run_uuid: Named[str] = Column(Text)
    run_label: Named[str] = Column(Text)
    position: Named[int]


v_accuracy = Table("v_accuracy", VIEWS, EveryAccuracyColumns)
