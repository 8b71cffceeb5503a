"""Summaries: the gravest first, what moved once, never longer than GitHub takes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vkbench.job import JobState
from vkbench.words.markdown import MOST
from vkbench_detection.regress.news import ChangedCase, PeerNews, RegressionNews, RunNews, Trouble
from vkbench_scheduler.watch.summaries import is_eventful, of_regression, of_run

CHANGE = ChangedCase(
    id=1,
    case="silu/f32/n4096",
    variant="portable",
    metric="hot",
    host="alpha",
    device="252e5e39f6aa",
    device_name="H200",
    direction="slower",
    state="confirmed",
    cause="kernel",
    ratio=1.1034,
    low=1.0987,
    high=1.1081,
    p=0.00004,
    before_bundle="a" * 64,
    after_bundle="b" * 64,
    before_driver="nvidia 570.1",
    after_driver="nvidia 570.1",
    found_at=0.0,
)
NEWS = RegressionNews(
    id=7,
    title="silu is 10 % slower",
    state="open",
    direction="slower",
    cause="kernel",
    owner="ann",
    opened_at=0.0,
    changed_at=0.0,
    note="2 changes of one kernel",
    changes=(CHANGE, replace(CHANGE, id=2, case="silu/f16/n4096", ratio=1.2)),
)
QUIET = RunNews(id=3, label="nightly", counts={JobState.PASSED: 40}, trouble=(), changes=())


def test_a_regression_has_its_evidence_and_what_moved() -> None:
    assert of_regression(NEWS) == (
        "### Regression 7: silu is 10 % slower\n\n"
        "**open**, cause: kernel, owner: ann\n\n"
        "2 changes of one kernel\n\n"
        "| case | device | metric | new / old | 95 % | p |\n"
        "| --- | --- | --- | --: | --: | --: |\n"
        "| `silu/f16/n4096 portable` | H200 | hot | 1.200 | 1.099 to 1.108 | 4e-05 |\n"
        "| `silu/f32/n4096 portable` | H200 | hot | 1.103 | 1.099 to 1.108 | 4e-05 |\n\n"
        "| what moved | before | after |\n"
        "| --- | --- | --- |\n"
        "| kernels | `aaaaaaaaaaaa` | `bbbbbbbbbbbb` |\n"
    )


@pytest.mark.parametrize("direction", ["wrong", "failed"])
def test_a_wrong_one_comes_first_and_a_driver_is_named(direction: str) -> None:
    wrong = replace(CHANGE, direction=direction, ratio=None, low=None, high=None, p=None)
    moved = replace(wrong, after_bundle="a" * 64, after_driver="nvidia 575.2")
    text = of_regression(replace(NEWS, changes=(CHANGE, moved)))
    assert text.index(f"| {direction} |") < text.index("| 1.103 |")
    assert "| driver | `nvidia 570.1` | `nvidia 575.2` |" in text


def test_a_quiet_run_is_a_line_or_nothing() -> None:
    assert of_run(QUIET) == "### Run 3 (nightly): no change\n\n40 passed\n"
    assert not is_eventful(QUIET)
    dismissed = replace(QUIET, changes=(replace(CHANGE, state="dismissed"),))
    assert not is_eventful(dismissed)
    assert of_run(dismissed) == of_run(QUIET)


def test_a_run_tells_the_gravest_first() -> None:
    wrong = Trouble(case="add/f32/n1", device_name="H200", state="wrong", reason="NMSE | 0.5")
    failed = replace(wrong, state="failed", reason="crashed")
    faster = replace(CHANGE, direction="faster", ratio=0.8)
    counts = {JobState.WRONG: 1, JobState.FAILED: 1}
    run = replace(QUIET, counts=counts, trouble=(wrong, failed), changes=(CHANGE, faster))
    text = of_run(run)
    assert text.startswith("### Run 3 (nightly): 1 wrong, 1 failed, 1 worse, 1 faster\n")
    places = [text.index(word) for word in ("Not right", "Slower, or wrong", "**Faster**")]
    assert places == sorted(places)
    assert "NMSE \\| 0.5" in text
    assert is_eventful(run)


def test_a_run_stands_beside_other_programs() -> None:
    peer = PeerNews(peer="ggml", device_name="H200", cases=12, ratio=1.234, fallen=())
    run = replace(QUIET, peers=(peer,))
    assert of_run(run).endswith(
        "**Beside other programs**\n\n"
        "| peer | device | cases | theirs / ours | fell behind |\n"
        "| --- | --- | --: | --: | --- |\n"
        "| ggml | H200 | 12 | 1.23 | none |\n"
    )
    assert not is_eventful(run)
    behind = replace(run, peers=(replace(peer, fallen=("silu/f32/n4096",)),))
    assert is_eventful(behind)
    assert "`silu/f32/n4096`" in of_run(behind)


def test_what_became_faster_has_the_largest_change_first() -> None:
    ratios = (0.9, 0.5, 0.8)
    changes = tuple(replace(CHANGE, direction="faster", ratio=ratio) for ratio in ratios)
    text = of_run(replace(QUIET, changes=changes))
    assert text.index("0.500") < text.index("0.800") < text.index("0.900")


def test_a_run_counts_those_that_it_does_not_name() -> None:
    wrong = Trouble(case="add/f32/n1", device_name="H200", state="wrong", reason="NMSE")
    counts = {JobState.WRONG: 4000, JobState.FAILED: 7}
    text = of_run(replace(QUIET, counts=counts, trouble=(wrong,) * 1000))
    assert text.startswith("### Run 3 (nightly): 4000 wrong, 7 failed\n")
    assert "… and 3957 more" in text


def test_a_flood_is_cut() -> None:
    trouble = Trouble(case="add/f32/n1", device_name="H200", state="wrong", reason="x" * 5000)
    run = replace(QUIET, trouble=(trouble,) * 1000, changes=(CHANGE,) * 1000)
    assert 10_000 < len(of_run(run)) <= MOST
    assert "cut here" in of_run(run)
    assert len(of_regression(replace(NEWS, changes=(CHANGE,) * 1000))) <= MOST
