"""What each column of the public views holds: docs/views.md and the page of queries say it.

Meanings are Markdown whose links lead from docs/; `make pages` writes the tables of docs/views.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from re import sub

_RESULTS = {
    "host": "the machine's name",
    "device": "the device's key, 12 hex digits",
    "device_name": "as its driver names it",
    "driver": "of the attempt that settled the job; NULL where none did",
    "driver_version": "of the attempt that settled the job; NULL where none did",
    "environment": "hash of all software the attempt depended on",
    "case_name": "canonical name, `kernel/format/shape[/parameters]`",
    "kernel": "its parts, as text",
    "format": "its parts, as text",
    "types": "its parts, as text",
    "shape": "its parts, as text",
    "params": "its parts, as text",
    "mode": (
        "`correctness`, `performance`, `paired`: two bundles timed in turns, `peer`: another "
        "program and our kernel timed in turns, or `sharded`: [divided among "
        "devices](devices.md#one-case-on-several-devices)"
    ),
    "variant": (
        "the code path asked for; with the mode `peer`, the program; with `sharded`, also how "
        "the case was divided"
    ),
    "variant_run": "the code path that ran",
    "kernel_sha": "SHA-256 of the SPIR-V that ran, of a pair the new one's; of a build, its hash",
    "bundle": (
        "SHA-256 of the bundle or the build asked for, of a pair the new one; empty for the "
        "packaged bundle"
    ),
    "run": "the submission",
    "run_uuid": "the submission",
    "run_label": "the submission",
    "track": (
        "whose series its timings belong to: `main`, `shards` with the mode `sharded`, or "
        "empty for trials, pairs and bisections"
    ),
    "job": "the job's number",
    "state": "`passed`, `wrong`, `skipped` or `failed`",
    "cause": (
        "why it failed: `crashed`, `timed_out`, `device_lost`, `worker_died`, `error`, "
        "`lost`; else empty"
    ),
    "reason": (
        "the same as a sentence; of skipped and wrong ones too; of a wrong pair it begins "
        "with `old:` or `new:`"
    ),
    "tries": "attempts that ran and settled nothing",
    "path": "arithmetic path whose limits applied",
    "nmse": "error against the float64 reference",
    "max_abs": "error against the float64 reference",
    "metric": (
        "`hot`, `cold`, `compile`, `submit`; with `sharded`, `copies` includes uploads and "
        "read-backs"
    ),
    "seconds": "median of the samples, for one launch",
    "mad": "median absolute deviation, seconds",
    "low": "interval of the median, seconds",
    "high": "interval of the median, seconds",
    "best": "fastest sample, seconds",
    "count": "samples",
    "stop": "what ended the sampling: `noise` or `time`",
    "gb_per_second": "10^9 bytes moved a second, each input read and each output written once",
    "gflop_per_second": "10^9 floating-point operations a second",
    "roof_fraction": (
        "share of the fastest that the device could do, by its calibration; NULL where [no "
        "roof applies](calibration.md#of-roof-of-path)"
    ),
    "warnings": "JSON list of what makes the timing doubtful",
    "flag": "why the timing does not count in its series, empty where it does",
    "series": "number of the series that the timing is placed in",
    "finished_at": "when the result was recorded, UTC",
    "path_fraction": "share of what the code path's own arithmetic could do",
    "settings": (
        "values of the kernel's tunable parameters, named or estimated: `split=2,tile=64x64_8x8`"
    ),
    "memory_bytes": "the most device memory that a whole model took; NULL of kernels",
    "side": (
        "whose time it is: `ours`; `theirs`, with the mode `peer` and of imports another "
        "program's; of a pair, `old` or `new`"
    ),
    "program": "whose build computed it, or the new one of a pair; NULL of kernels",
    "build": "what people call that build; NULL of kernels",
}
_SERIES = {
    "series": "its number, as `v_results` gives it",
    "host": "the machine's name",
    "device": "the device's key, 12 hex digits",
    "device_name": "as its driver names it",
    "case_name": "canonical name, `kernel/format/shape[/parameters]`",
    "kernel": "its parts, as text",
    "format": "its parts, as text",
    "variant": "the code path that ran; of verdicts the one asked for",
    "metric": "`hot`, `cold`, `compile`, `submit` or `verdict`",
    "environment_class": "clock policy, and whether bounds were checked; empty of verdicts",
    "track": "`main`, or whatever a run was told",
    "results": "how many are placed in it",
    "newest_at": "when the last of them was recorded, UTC",
    "sigma": "how results scatter, relative; NULL until a profile is taken",
    "noise_kind": "`normal`, `skewed`, `modal` or `drifting`",
    "autocorrelation": "of a result with the one before",
    "smallest_effect": "relative changes below are not seen",
    "side": "`ours` or `theirs`",
}
_REGRESSIONS = {
    "regression": "its number",
    "state": "`open`, `acknowledged`, `fixed`, `verified` or `closed`",
    "direction": "`slower`, `faster`, `wrong` or `failed`",
    "cause": (
        "`kernel`, `build` (of a program), `driver`, `environment`, `host` (none of them) or "
        "`unknown` (environment and one of the others)"
    ),
    "title": (
        "in a few words; all changes that came with one bundle, build, driver or host are one "
        "regression"
    ),
    "owner": "who acknowledged it",
    "opened_at": "UTC",
    "changed_at": "UTC",
    "change": "number of the change, which is one of a series",
    "series": "the series that changed",
    "host": "where",
    "device": "where",
    "device_name": "where",
    "case_name": "what",
    "kernel": "what",
    "format": "what",
    "variant": "what",
    "metric": "what",
    "ratio": "new over old: above 1 is slower; NULL of wrong results and failed cases",
    "low": "its interval",
    "high": "its interval",
    "p": "how likely chance makes it",
    "method": "what found it: `screen`, `history`, `baseline`, `kin`, `decay` or `verdict`",
    "before_job": "the last good result and the first bad one",
    "after_job": "the last good result and the first bad one",
    "before_kernel": "SHA-256 of the SPIR-V that they ran; of a build, its hash",
    "after_kernel": "SHA-256 of the SPIR-V that they ran; of a build, its hash",
    "before_bundle": "SHA-256 of their bundles or builds",
    "after_bundle": "SHA-256 of their bundles or builds",
    "before_driver": "what they ran on",
    "after_driver": "what they ran on",
    "before_driver_version": "what they ran on",
    "after_driver_version": "what they ran on",
    "found_at": "UTC",
    "program": "whose build came with the change; NULL of kernels",
    "before_build": "what people call the builds; NULL of kernels",
    "after_build": "what people call the builds; NULL of kernels",
}
_ACCURACY = {
    "subject": "`products`: of a matrix and vectors; `model`: a whole one that read a text",
    "model": "name and hash, as `format` of its cases; empty of seeded weights",
    "weights": "of products: which matrix, or how seeded numbers scatter",
    "format": "what was tried; of a file read as it is, that of most of its weights",
    "bits": "of a weight",
    "bytes": "of a model's weights",
    "quantiser": "`gguf` or `vkbench`; empty where nothing was quantised",
    "output_error": "of products: the length of the error in the length of the product",
    "weight_error": "of products: the same of their weights",
    "perplexity": "of a model",
    "perplexity_error": "its standard error",
    "base": "the model that the loss is against; empty of that model itself",
    "base_format": "the base's format",
    "loss": "how far the perplexity is above the base's: 0.01 is one percent",
    "loss_error": "its standard error",
    "text_sha": "SHA-256 of the tokens that were read",
    "context": "tokens of a window",
    "windows": "how many were read",
    "tokens": "how many of them counted",
    "cache": "format of keys and values",
    "variant": "the code path that ran",
    "tokens_per_second": "how fast the device read",
    "host": "the machine's name",
    "device_name": "as its driver names it; empty of products, which the CPU works out",
    "measured_at": "UTC",
    "run": "the run",
    "run_uuid": "the run",
    "run_label": "the run",
    "position": "the row's place in its run",
}
_STATISTICS = {
    **{name: _RESULTS[name] for name in ("host", "device", "device_name")},
    "driver": "of the attempt that told it; NULL where it is not known",
    "driver_version": "of the attempt that told it; NULL where it is not known",
    "environment": _RESULTS["environment"],
    **{name: _RESULTS[name] for name in ("case_name", "kernel", "format")},
    "variant": "the code path asked for",
    "variant_run": _RESULTS["variant_run"],
    "kernel_sha": "SHA-256 of the SPIR-V that ran",
    "bundle": "SHA-256 of the bundle that ran",
    "run": "the submission",
    "run_label": "the submission",
    "track": "whose series the job's timings belong to",
    "job": "the job's number",
    "name": (
        "what it is: `binary`, `files of the driver`, `energy of a launch`, or in the driver's "
        "words; behind a number where several pipelines make the kernel"
    ),
    "value": "the number; NULL where there is none to be had",
    "unit": "`bytes`, `J`, or empty of counts",
    "spread": "how far readings were from it; NULL of exact numbers",
    "note": "why there is no value",
    "finished_at": "when the result was recorded, UTC",
}
MEANINGS: Mapping[str, Mapping[str, str]] = {
    "v_results": _RESULTS,
    "v_latest": _RESULTS,
    "v_series": _SERIES,
    "v_regressions": _REGRESSIONS,
    "v_accuracy": _ACCURACY,
    "v_statistics": _STATISTICS,
}
VIEWS: Mapping[str, str] = {
    "v_results": "every finished job, once for each metric and side it was timed by",
    "v_latest": "of those the newest job of each device, case, mode and variant, sweeps left out",
    "v_series": "every series of timings that are compared with each other",
    "v_regressions": "every change that belongs to a regression, improvements too",
    "v_accuracy": "what formats lost of products, and whole models of texts",
    "v_statistics": "what drivers made of kernels: registers, bytes, joules",
}


def strip_markdown(meaning: str) -> str:
    """A meaning without its Markdown, for pages that have no docs/ beside them."""
    return sub(r"\[(.*?)\]\(.*?\)", r"\1", meaning).replace("`", "")
