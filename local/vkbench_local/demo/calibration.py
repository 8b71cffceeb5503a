"""The calibrations of the demonstration's lab: what each of its devices reaches at most."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from vkbench.calibration import GPU_CANARY, SUITE
from vkbench.case import parse
from vkbench_db.transfer.lines import JobLine, RunLine
from vkbench_local.demo import nights
from vkbench_local.demo.lab import BYTES, MATRICES, RECORDED_BANDWIDTH
from vkbench_local.demo.nights import Lab
from vkbench_local.demo.recording import MOST, RecordedCase, RecordedTiming
from vkbench_shaders.catalogue import problem

TIMES = 8  # that the canary is timed, for its noise
LAUNCH_SECONDS = 2.1e-6
ALWAYS = "portable"


@dataclass(frozen=True, kw_only=True)
class Peak:
    """A rate that an H200 reaches, and the case that shows it."""

    case: str
    variant: str
    rate: float  # bytes or operations a second
    needs: str = ALWAYS  # a code path that only devices with such units have
    times: int = 1


PEAKS = (
    Peak(case="read_bandwidth/u32/n134217728_g8192", variant="portable", rate=RECORDED_BANDWIDTH),
    Peak(case="copy/f32/n67108864", variant="portable", rate=3.81e12),
    Peak(case=GPU_CANARY, variant="portable", rate=6.25e13, times=TIMES),
    Peak(case="fma/f32/n16777216_r256", variant="portable", rate=6.41e13),
    Peak(case="fma/f16/n16777216_r256", variant="pairs", rate=1.24e14),
    Peak(case="dot_i8/i32/n16777216_r64", variant="int_dot", rate=2.52e14, needs=BYTES[0]),
    *(
        Peak(case=f"matrix_rate/{case}_r128", variant=variant, rate=rate, needs=MATRICES[0])
        for case, variant, rate in (
            ("f16:x=f16/t65536_m16_n16_k16", "f16_f16", 6.38e14),
            ("f16/t65536_m16_n16_k16", "f16_f32", 6.36e14),
            ("bf16/t65536_m16_n16_k16", "bf16_f32", 6.36e14),
            ("i8:x=i32/t65536_m16_n16_k32", "i8_i32", 1.27e15),
        )
    ),
)


def run_line(lab: Lab, night: int, date: str, began: float) -> RunLine:
    """A run of the calibration suite."""
    run = nights.run_line(lab, night, "calibration", date, began)
    return replace(run, selection={"suite": SUITE})


def job_lines(lab: Lab, night: int, began: float) -> Iterator[JobLine]:
    """The jobs of a calibration run on each device."""
    cases = [_launch(), *(_case(peak) for peak in PEAKS for _ in range(peak.times))]
    return nights.job_lines(lab, night, [[case] for case in cases], began, 1)


def _launch() -> RecordedCase:
    timings = [_timing(metric, LAUNCH_SECONDS, 4, 0) for metric in ("cold", "hot")]
    return _record_case("launch/u32/n1", ALWAYS, ALWAYS, timings)


def _case(peak: Peak) -> RecordedCase:
    work = problem(parse(peak.case))
    amount = work.flops or work.bytes_moved
    timings = [
        _timing(metric, amount / peak.rate, work.bytes_moved, work.flops)
        for metric in ("cold", "hot")
    ]
    return _record_case(peak.case, peak.variant, peak.needs, timings)


def _timing(metric: str, seconds: float, bytes_moved: int, flops: int) -> RecordedTiming:
    return RecordedTiming(
        metric=metric,
        seconds=seconds,
        mad=seconds / 500,
        count=MOST,
        launches=1,
        stop="noise",
        bytes_moved=bytes_moved,
        flops=flops,
    )


def _record_case(
    case: str, variant: str, needs: str, timings: list[RecordedTiming]
) -> RecordedCase:
    return RecordedCase(
        case=case,
        variant=variant,
        path="exact",
        nmse=0.0,
        nmse_limit=0.0,
        max_abs=0.0,
        max_abs_limit=0.0,
        compared=4096,
        total=4096,
        timings=tuple(timings),
        needs=needs,
        is_exact=True,
    )
