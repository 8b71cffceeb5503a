"""What a program answers a case with: a line of JSON, of which nothing is believed unchecked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, Final

from vkbench.job import Outcome
from vkbench.result import HOT, Timing, Verdict
from vkbench_worker.timing.measure import few
from vkbench_worker.timing.summary import Sampling, timing_of

ITSELF: Final = "judged by the program itself"
PATH: Final = "program"  # of a verdict that no reference of ours gave
VERDICTS: Final = {
    "passed": Outcome.PASSED,
    "wrong": Outcome.WRONG,
    "skipped": Outcome.SKIPPED,
    "failed": Outcome.ERROR,
}
CLOCKS: Final = ("host", "gpu")
MOST_SAMPLES: Final = 100_000
MOST_WORDS: Final = 500  # characters of a reason
_LEAST_SECONDS: Final = 1e-12
_FIELDS: Final = ("verdict", "reason", "samples", "clock", "includes")


class BadAnswer(Exception):
    """The line is no answer; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a program says of a case."""

    outcome: Outcome
    reason: str = ""
    samples: tuple[float, ...] = ()  # seconds of one execution
    clock: str = "host"
    includes: str = ""  # what the time includes


def read_answer(line: bytes, elapsed: float) -> Answer:
    """The answer of a line that came so many seconds after the question."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        raise BadAnswer(f"it is no JSON: {_start_of(line)}") from None
    if not isinstance(fields, dict):
        raise BadAnswer(f"it is no JSON object: {_start_of(line)}")
    if unknown := [name for name in fields if name not in _FIELDS]:
        raise BadAnswer(f"it has the field {unknown[0][:40]!a}, and takes {', '.join(_FIELDS)}")
    verdict = fields.get("verdict")
    if not isinstance(verdict, str) or verdict not in VERDICTS:
        raise BadAnswer(f"its verdict is {str(verdict)[:40]!a}, none of {', '.join(VERDICTS)}")
    clock = fields.get("clock", CLOCKS[0])
    if clock not in CLOCKS:
        raise BadAnswer(f"its clock is {str(clock)[:40]!a}, neither {' nor '.join(CLOCKS)}")
    outcome, reason = VERDICTS[verdict], _words(fields, "reason")
    return Answer(
        outcome=outcome,
        reason=reason or ("" if outcome is Outcome.PASSED else "the program gives no reason"),
        samples=_samples(fields, elapsed),
        clock=clock,
        includes=_words(fields, "includes"),
    )


def own_verdict(answer: Answer) -> Verdict:
    """The verdict of a program on itself."""
    return Verdict(
        passed=answer.outcome is Outcome.PASSED,
        reason="" if answer.outcome is Outcome.PASSED else f"{answer.reason} ({ITSELF})",
        path=PATH,
        nmse=None,
        nmse_limit=0.0,
        max_abs=None,
        max_abs_limit=0.0,
        compared=0,
        total=0,
    )


def timing_told(answer: Answer, *, bytes_moved: int = 0, flops: int = 0, judged: bool) -> Timing:
    """The samples that a program told, as a timing; what it includes is said with it."""
    about = [f"the program says that this includes {answer.includes}"] if answer.includes else []
    warnings = (*about, *([] if judged else [ITSELF]), *few(len(answer.samples)))
    return timing_of(
        answer.samples,
        Sampling(
            metric=HOT,
            launches=1,
            clock=answer.clock,
            bytes_moved=bytes_moved,
            flops=flops,
            warnings=warnings,
        ),
    )


def _samples(fields: Mapping[str, Any], elapsed: float) -> tuple[float, ...]:
    samples = fields.get("samples", [])
    if not isinstance(samples, list) or len(samples) > MOST_SAMPLES:
        raise BadAnswer(f"its samples are no list of up to {MOST_SAMPLES} numbers")
    for sample in samples:
        is_number = isinstance(sample, (int, float)) and not isinstance(sample, bool)
        if not is_number or not _LEAST_SECONDS <= sample < inf:
            raise BadAnswer(f"a sample is {str(sample)[:40]!a}: seconds above 0 were asked for")
        if sample > elapsed:
            raise BadAnswer(
                f"a sample is {str(sample)[:20]} s, and the answer took {elapsed:.3g} s"
            )
    return tuple(map(float, samples))


def _words(fields: Mapping[str, Any], name: str) -> str:
    words = fields.get(name, "")
    if not isinstance(words, str) or len(words) > MOST_WORDS:
        raise BadAnswer(f"its {name} is no text of up to {MOST_WORDS} characters")
    return " ".join(words.split())


def _start_of(line: bytes) -> str:
    return ascii(line[:60].decode(errors="replace"))
