"""Which cases of a try-out get their next pairs, where the time may be over at any of them."""

from __future__ import annotations

from vkbench_detection.compare.tryouts import DECIDED_TOGETHER, choose_next
from vkbench_detection.confirm.pairs import PairedCase, PairResults
from vkbench_detection.statistics.pairs import FEWEST_PAIRS


def test_the_slowest_are_decided_before_others_get_more_pairs() -> None:
    ratios = {f"case{place}": 1.5 - place / 100 for place in range(30)}  # 1.5 to 1.21
    key = {name: PairedCase(device="a", case=name) for name in ratios}
    pairs = dict.fromkeys(ratios, 1)
    decided: list[str] = []
    while len(decided) < 2 * DECIDED_TOGETHER:
        results = {key[name]: _pairs_of(ratios[name], pairs[name]) for name in ratios}
        chosen = [one.case for one in choose_next(results)]
        assert len(chosen) <= DECIDED_TOGETHER
        for name in chosen:
            pairs[name] += 1
            if pairs[name] == FEWEST_PAIRS:
                decided.append(name)
    assert decided == list(ratios)[: 2 * DECIDED_TOGETHER]
    assert set(list(pairs.values())[2 * DECIDED_TOGETHER :]) == {1}


def test_each_device_has_cases_of_its_own_decided() -> None:
    keys = [PairedCase(device=device, case=f"case{place}") for device in "ab" for place in range(9)]
    chosen = choose_next({key: _pairs_of(1.3, 1) for key in keys})
    assert [key.device for key in chosen].count("a") == DECIDED_TOGETHER
    assert [key.device for key in chosen].count("b") == DECIDED_TOGETHER


def _pairs_of(ratio: float, count: int) -> PairResults:
    old = tuple(1 + place % 3 / 1000 for place in range(count))
    new = tuple(ratio * seconds for seconds in old)
    return PairResults(old=old, new=new, old_wrong="", new_wrong="", failed="", pending=0)
