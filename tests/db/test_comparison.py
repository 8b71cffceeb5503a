"""Two runs compare by what they both did."""

from __future__ import annotations

import pytest

from vkbench.job import Mode, Outcome, State
from vkbench_db.comparison import compare, geometric_mean


def do(lab, device: str, work: dict[str, object], **changes: object) -> int:
    """A run whose cases end as told: by an outcome, or passed in so many seconds."""
    run = lab.submit(device, list(work), **changes)
    while jobs := lab.pick(device):
        for job in jobs:
            end = work[job.case]
            is_time = isinstance(end, float)
            outcome = Outcome.PASSED if is_time else end
            lab.record(lab.answer(job, outcome, seconds=end if is_time else 1e-3))
    return run


def ask(lab, old: int, new: int):
    with lab.database.reading() as tx:
        return compare(tx, old, new)


def test_ratios_are_paired_and_averaged(lab) -> None:
    device = lab.add_device()
    old = do(lab, device, {"add/f32/h1_w1": 1e-3, "add/f32/h1_w2": 4e-3, "add/f32/h1_w3": 1.0})
    new = do(lab, device, {"add/f32/h1_w2": 8e-3, "add/f32/h1_w1": 5e-4, "add/f32/h1_w9": 1.0})
    found = ask(lab, old, new)
    assert [(p.case_name, p.metric) for p in found.pairs] == [
        ("add/f32/h1_w2", "cold"), ("add/f32/h1_w2", "hot"),
        ("add/f32/h1_w1", "cold"), ("add/f32/h1_w1", "hot"),
    ]  # fmt: skip
    assert [pair.ratio for pair in found.pairs] == pytest.approx([2, 2, 0.5, 0.5])
    assert found.geometric_mean == pytest.approx(1.0)
    assert (found.only_old, found.only_new, found.changes) == (1, 1, ())
    slow = found.pairs[1]
    assert (slow.old.seconds, slow.new.seconds, slow.new.count) == (4e-3, 8e-3, 3)
    assert (slow.host, slow.device_name, slow.mode, slow.variant) == (
        "alpha", "llvmpipe", "performance", "auto",
    )  # fmt: skip
    assert (slow.new.variant_run, slow.new.driver) == ("subgroup", "llvmpipe")
    backwards = ask(lab, new, old)
    assert backwards.pairs[0].ratio == pytest.approx(2)
    assert backwards.pairs[0].case_name == "add/f32/h1_w1"


def test_what_became_wrong_comes_first_and_is_not_timed(lab) -> None:
    device = lab.add_device()
    names = [f"add/f32/h1_w{n}" for n in range(1, 6)]
    ends = (Outcome.WRONG, Outcome.SKIPPED, Outcome.CRASHED, 1e-3, 2e-3)
    old = do(lab, device, dict.fromkeys(names, 1e-3) | {names[3]: Outcome.WRONG})
    new = do(lab, device, dict(zip(names, ends, strict=True)))
    found = ask(lab, old, new)
    assert [(c.case_name, c.old, c.new) for c in found.changes] == [
        (names[0], State.PASSED, State.WRONG),
        (names[2], State.PASSED, State.FAILED),
        (names[1], State.PASSED, State.SKIPPED),
        (names[3], State.WRONG, State.PASSED),
    ]
    assert found.changes[0].reason == "because wrong"
    assert {pair.case_name for pair in found.pairs} == {names[4]}
    assert found.geometric_mean == pytest.approx(2.0)


def test_repetitions_are_one_piece_of_work(lab) -> None:
    device = lab.add_device()
    case = "add/f32/h1_w1"
    old = lab.submit(device, [case] * 3)
    for job, seconds in zip(lab.pick(device), (1e-3, 9e-3, 2e-3), strict=True):
        lab.record(lab.answer(job, seconds=seconds))
    new = do(lab, device, {case: 4e-3})
    [cold, hot] = sorted(ask(lab, old, new).pairs, key=lambda pair: pair.metric)
    assert (hot.old.seconds, hot.old.count) == (2e-3, 9)
    assert (hot.old.low, hot.old.high) == pytest.approx((0.99e-3, 9.09e-3))
    assert hot.ratio == pytest.approx(2.0)
    assert cold.ratio == pytest.approx(2.0)


def test_other_devices_modes_and_variants_do_not_pair(lab) -> None:
    first, second = lab.add_device(), lab.add_device("SwiftShader")
    case = {"add/f32/h1_w1": 1e-3}
    old = do(lab, first, case)
    for other in (
        do(lab, second, case),
        do(lab, first, case, variant="portable"),
        do(lab, first, case, mode=Mode.CORRECTNESS),
    ):
        found = ask(lab, old, other)
        assert (found.pairs, found.only_old, found.only_new) == ((), 1, 1)
        assert found.geometric_mean is None


def test_the_geometric_mean() -> None:
    assert geometric_mean([]) is None
    assert geometric_mean([4.0, 1.0]) == pytest.approx(2.0)
    assert geometric_mean([0.1] * 1000) == pytest.approx(0.1)
