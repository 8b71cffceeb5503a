"""Timings of whole models as llama-bench of llama.cpp prints its own: a table, JSON, SQL.

A time of llama-bench is that of all tokens of a test. A generation's time here is that of one
token, the last; so it is given as often as the test has tokens.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from statistics import mean, stdev
from typing import TYPE_CHECKING, Final

from vkbench.case import MODEL, parse
from vkbench.job import PEERS, SHARDS, JobState, Mode
from vkbench.result import MODEL_BYTES, MODEL_WEIGHTS
from vkbench.words.visible import visible
from vkbench_tables.written.interchange import Interchange, sql_literal

if TYPE_CHECKING:
    from vkbench_db.ask.model_results import ModelResult
    from vkbench_db.ask.results import ResultRow

TABLE: Final = "llama_bench"
SHA_DIGITS: Final = 12
_GIB, _MIB = 1 << 30, 1 << 20
_KINDS: Final = {"str": "TEXT", "bool": "INTEGER", "int": "INTEGER", "float": "REAL"}
_WIDTHS: Final = {  # of the table's columns; text is on the left
    "model": -30,
    "size": 10,
    "params": 10,
    "backend": -10,
    "ngl": 3,
    "type_k": 6,
    "type_v": 6,
    "dev": -12,
    "test": 15,
    "t/s": 20,
}


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A test in the fields of llama-bench, in their order."""

    build_commit: str
    build_number: int = 0
    cpu_info: str
    gpu_info: str
    backends: str = "Vulkan"
    model_filename: str
    model_type: str
    model_size: int
    model_n_params: int
    n_batch: int
    n_ubatch: int
    n_threads: int = 0
    cpu_mask: str = "0x0"
    cpu_strict: bool = False
    poll: int = 0
    type_k: str
    type_v: str
    n_gpu_layers: int = -1  # all
    n_cpu_moe: int = 0
    split_mode: str = "none"
    main_gpu: int = 0
    no_kv_offload: bool = False
    flash_attn: bool = True
    devices: str
    tensor_split: str = "0.00"
    tensor_buft_overrides: str = "none"
    use_mmap: bool = False
    embeddings: bool = False
    no_op_offload: int = 0
    no_host: bool = False
    n_prompt: int
    n_gen: int
    n_depth: int = 0
    test_time: str
    avg_ns: int
    stddev_ns: int
    avg_ts: float
    stddev_ts: float

    @property
    def test(self) -> str:
        """The test's name in the table."""
        return f"pp{self.n_prompt}" if self.n_prompt else f"tg{self.n_gen}"


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """A test with the times of its repetitions."""

    bench: Bench
    samples_ns: Sequence[int]
    samples_ts: Sequence[float]


def benches(
    results: Sequence[ResultRow], models: Mapping[int, ModelResult]
) -> tuple[list[Sampled], int]:
    """The tests that llama-bench has too, the oldest first; how many it has not.

    It has no test of several sequences at once.
    """
    timed = [row for row in results if _is_timed(row)]
    known = [row for row in timed if row.job in models and "batch" not in _params(row)]
    return [_sample_row(row, models[row.job]) for row in reversed(known)], len(timed) - len(known)


def in_markdown(tests: Sequence[Sampled]) -> str:
    """The table that llama-bench prints; several devices have a column more."""
    benches = [test.bench for test in tests]
    columns = ["model", "size", "params", "backend", "ngl"]
    if any(bench.type_k != "f16" for bench in benches):
        columns += ["type_k", "type_v"]
    if len({bench.gpu_info for bench in benches}) > 1:
        columns.append("dev")
    widths = {name: _WIDTHS[name] for name in (*columns, "test", "t/s")}
    lines = [_line({name: name for name in widths}, widths)]
    rules = (f" {'-' * (abs(width) - 1)}{'-' if width < 0 else ':'} |" for width in widths.values())
    lines.append("|" + "".join(rules))
    lines += [_line(_cells(bench), widths) for bench in benches]
    builds = dict.fromkeys(
        f"build: {bench.build_commit} ({bench.build_number})" for bench in benches
    )
    return "\n".join([*lines, "", *builds]) + "\n"


def in_json(tests: Sequence[Sampled]) -> str:
    """JSON: a list of tests with their samples."""
    objects = [
        {**asdict(test.bench), "samples_ns": test.samples_ns, "samples_ts": test.samples_ts}
        for test in tests
    ]
    return json.dumps(objects, indent=2) + "\n"


def in_sql(tests: Sequence[Sampled]) -> str:
    """Statements that make the table and fill it; none without a test."""
    if not tests:
        return ""
    kinds = {field.name: _KINDS[str(field.type)] for field in fields(Bench)}
    columns = ",\n".join(f"  {name} {kind}" for name, kind in kinds.items())
    lines = [f"CREATE TABLE IF NOT EXISTS {TABLE} (\n{columns}\n);\n"]
    for test in tests:
        values = ", ".join(_literal(value) for value in asdict(test.bench).values())
        lines.append(f"INSERT INTO {TABLE} ({', '.join(kinds)}) VALUES ({values});")
    return "\n".join(lines) + "\n"


WRITERS: Mapping[Interchange, Callable[[Sequence[Sampled]], str]] = {
    Interchange.LLAMA_BENCH: in_markdown,
    Interchange.LLAMA_BENCH_JSON: in_json,
    Interchange.LLAMA_BENCH_SQL: in_sql,
}


def _is_timed(row: ResultRow) -> bool:
    passed = row.kernel == MODEL and row.state == JobState.PASSED
    is_ours = row.mode == Mode.PERFORMANCE and row.track not in (PEERS, SHARDS)
    return passed and is_ours and row.timing_name == "hot" and bool(row.seconds)


def _params(row: ResultRow) -> Mapping[str, object]:
    return parse(row.case_name).params


def _sample_row(row: ResultRow, result: ModelResult) -> Sampled:
    from vkbench_shaders.models.cases import PART

    case = parse(row.case_name)
    prompt, generated = case.shape.get("pp", 0), case.shape.get("tg", 0)
    times = [seconds * (generated or 1) for seconds in result.samples or [row.seconds or 0.0]]
    rates = [(prompt + generated) / seconds for seconds in times]
    cache = str(case.params.get("cache", "f16"))
    model = case.format.rpartition("-")[0]
    bench = Bench(
        build_commit=result.bundle[:SHA_DIGITS],
        cpu_info=str(result.environment.get("cpu", "")),
        gpu_info=row.device_name,
        model_filename=result.path or f"{model}.gguf",
        model_type=model,
        model_size=int(result.telemetry.get(MODEL_BYTES, 0)),
        model_n_params=int(result.telemetry.get(MODEL_WEIGHTS, 0)),
        n_batch=prompt or 1,
        n_ubatch=min(prompt or 1, PART),
        type_k=cache,
        type_v=cache,
        devices=row.device_name,
        n_prompt=prompt,
        n_gen=generated,
        test_time=datetime.fromtimestamp(row.finished_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        avg_ns=round(mean(times) * 1e9),
        stddev_ns=round(_deviation(times) * 1e9),
        avg_ts=mean(rates),
        stddev_ts=_deviation(rates),
    )
    return Sampled(
        bench=bench,
        samples_ns=[round(seconds_each * 1e9) for seconds_each in times],
        samples_ts=rates,
    )


def _literal(value: object) -> str:
    return sql_literal(int(value) if isinstance(value, bool) else value)


def _deviation(values: Sequence[float]) -> float:
    return stdev(values) if len(values) > 1 else 0.0


def _cells(bench: Bench) -> dict[str, str]:
    size, count = bench.model_size, bench.model_n_params  # 0 in results of older workers
    return {
        "model": _plain_cell(bench.model_type),
        "size": f"{size / _GIB:.2f} GiB" if size >= _GIB else f"{size / _MIB:.2f} MiB",
        "params": f"{count / 1e9:.2f} B" if count >= 1e9 else f"{count / 1e6:.2f} M",
        "backend": bench.backends,
        "ngl": str(bench.n_gpu_layers),
        "type_k": bench.type_k,
        "type_v": bench.type_v,
        "dev": _plain_cell(bench.gpu_info),
        "test": bench.test,
        "t/s": f"{bench.avg_ts:.2f} ± {bench.stddev_ts:.2f}",
    }


def _plain_cell(text: str) -> str:
    """A cell's text: no bar ends it early, and a terminal shows all of it."""
    return visible(text).replace("|", "/")


def _line(cells: Mapping[str, str], widths: Mapping[str, int]) -> str:
    padded = (
        cells[name].rjust(width) if width > 0 else cells[name].ljust(-width)
        for name, width in widths.items()
    )
    return "|" + "".join(f" {cell} |" for cell in padded)
