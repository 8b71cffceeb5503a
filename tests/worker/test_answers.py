"""What programs answer with: read strictly, and refused in one line."""

from __future__ import annotations

import pytest

from vkbench.job import Outcome
from vkbench_worker.peers.programs.answer import BadAnswer, read_answer


def test_an_answer_is_read() -> None:
    line = b'{"verdict": "passed", "samples": [1e-3, 2], "clock": "gpu", "includes": "a \\n b"}'
    answer = read_answer(line, elapsed=5.0)
    assert (answer.outcome, answer.samples) == (Outcome.PASSED, (1e-3, 2.0))
    assert (answer.clock, answer.includes, answer.reason) == ("gpu", "a b", "")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"hello", "it is no JSON: 'hello'"),
        (b"\xff\x00", "it is no JSON: "),
        (b"", "it is no JSON: ''"),
        (b"[1]", r"it is no JSON object: '\[1\]'"),
        (b"[" * 99999, "it is no JSON"),
        (b"9" * 9999, "it is no JSON"),
        (b"{}", "its verdict is 'None', none of passed, wrong, skipped, failed"),
        (b'{"verdict": []}', "its verdict is "),
        (b'{"verdict": "passed", "seconds": 1}', "it has the field 'seconds', and takes verdict"),
        (b'{"verdict": "passed", "clock": "sun"}', "its clock is 'sun', neither host nor gpu"),
        (b'{"verdict": "passed", "clock": []}', "its clock is "),
        (b'{"verdict": "passed", "reason": 1}', "its reason is no text of up to 500"),
        (b'{"verdict": "passed", "includes": "' + b"x" * 501 + b'"}', "its includes is no text"),
    ],
)
def test_what_is_no_answer_is_refused(line: bytes, complaint: str) -> None:
    with pytest.raises(BadAnswer, match=complaint) as raised:
        read_answer(line, elapsed=5.0)
    assert len(str(raised.value)) < 200
    assert str(raised.value).isprintable()


@pytest.mark.parametrize(
    ("samples", "complaint"),
    [
        ("3", "its samples are no list"),
        (f"[{'1e-6,' * 100000}1e-6]", "its samples are no list of up to 100000 numbers"),
        *((f"[1, {bad}]", "seconds above 0") for bad in ("0", "-1", "true", '"1"', "null", "[]")),
        *((f"[{bad}]", "seconds above 0") for bad in ("NaN", "Infinity", "-Infinity", "1e999")),
        ("[1e-320]", "seconds above 0"),
        ("[5.1]", "a sample is 5.1 s, and the answer took 5 s"),
        (f"[{'9' * 400}]", "a sample is 99999999999999999999 s, and the answer took 5 s"),
    ],
)
def test_samples_are_seconds_that_can_be(samples: str, complaint: str) -> None:
    line = f'{{"verdict": "passed", "samples": {samples}}}'.encode()
    with pytest.raises(BadAnswer, match=complaint):
        read_answer(line, elapsed=5.0)
