"""How fast cases are beside CUDA: as `vkbench run --peer torch` found on the chosen devices.

Where it was not asked, the comparison that was recorded on one GPU stands in.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import geometric_mean

from plans.evidence import CUDA_PEER, Evidence, Find, TargetResult, met, not_measured
from plans.recorded import recorded
from vkbench.device import NVIDIA
from vkbench_detection.peers.pairs import PeerPair
from vkbench_detection.peers.standings import ratio_of


def times_cuda(cases: Sequence[str], least: float) -> Find:
    """How many times as fast as CUDA all of these cases are, by their geometric mean."""

    def find(evidence: Evidence) -> TargetResult:
        found = _in_turns(cases, evidence) or _recorded(cases)
        if not found:
            asked = "".join(f" --case {case}" for case in cases)
            command = evidence.command(f"{asked} --mode performance --peer {CUDA_PEER}")
            return not_measured(f"run {command} on a host with torch and an NVIDIA GPU")
        ratios, how = found
        mean = geometric_mean(ratios)
        return TargetResult(
            standing=met(mean >= least), measured=f"{mean:.2f} times CUDA", value=mean, how=how
        )

    return find


def _in_turns(cases: Sequence[str], evidence: Evidence) -> tuple[list[float], str] | None:
    """The ratios of the cases on the device that is fastest at the first one, and whence."""
    pairs = [pair for pair in evidence.pairs if _is_cuda(pair, evidence)]
    by_device: dict[str, dict[str, PeerPair]] = {}
    for pair in sorted(pairs, key=lambda pair: pair.ours):
        by_device.setdefault(pair.device, {})[pair.case_name] = pair
    whole = [found for found in by_device.values() if set(cases) <= found.keys()]
    if not whole:
        return None
    found = min(whole, key=lambda found: found[cases[0]].ours)
    chosen = [found[case] for case in cases]
    said = "; ".join(map(_said, chosen))
    ratios = [pair.theirs / pair.ours for pair in chosen]
    return ratios, f"in turns on {chosen[0].device_name}: {said}"


def _is_cuda(pair: PeerPair, evidence: Evidence) -> bool:
    facts = evidence.devices.get(pair.device)
    is_timed = pair.ours > 0 and pair.theirs > 0 and ratio_of(pair) is not None
    return pair.peer == CUDA_PEER and is_timed and facts is not None and facts.vendor_id == NVIDIA


def _said(pair: PeerPair) -> str:
    """Both times, in words, and what torch was given in the place of blocks."""
    times = f"{CUDA_PEER} {pair.theirs * 1e6:.4g} us, ours {pair.ours * 1e6:.4g} us"
    unlike = [each for each in pair.settings.split(",") if each.startswith("weights=")]
    return f"{pair.case_name}: {times}{f' ({CUDA_PEER}: {unlike[0]})' if unlike else ''}"


def _recorded(cases: Sequence[str]) -> tuple[list[float], str] | None:
    rows = recorded(cases, CUDA_PEER)
    if {row.case for row in rows} != set(cases):
        return None
    said = "; ".join(row.said for row in rows)
    return [row.ratio for row in rows], f"recorded on {rows[0].device}: {said}"
