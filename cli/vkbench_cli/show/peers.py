"""Prints comparisons with peers, what each side's time includes, and why others are missing."""

from __future__ import annotations

from collections.abc import Sequence

from vkbench.errors import NothingToDo
from vkbench.peers import list_what_is_included
from vkbench.words.units import count_of
from vkbench_cli.show.printing import Output, show
from vkbench_cli.show.telling import tell
from vkbench_db.database import Transaction
from vkbench_detection.peers.pairs import peer_pairs, uncompared_cases
from vkbench_detection.peers.standings import standings
from vkbench_detection.statistics.ratios import TOO_WIDE
from vkbench_tables.peers import reasons, table


def show_peers(
    tx: Transaction, output: Output, peers: Sequence[str] = (), run: int | None = None
) -> bool:
    """Print the latest comparisons with peers (all if none is named), or those of a run.

    Says whether a ratio has fallen.
    """
    pairs, left = peer_pairs(tx, peers, run), uncompared_cases(tx, peers, run)
    if not (pairs or left):
        where = f"run {run} has" if run else "there is"
        make = f"`vkbench run --mode performance --peer {','.join(peers) or 'numpy'}` makes some"
        raise NothingToDo(f"{where} no comparison with {' or '.join(peers) or 'a peer'}: {make}")
    ratios = standings(tx, pairs)
    if output.json or output.csv:
        show(table(ratios, left), output)
    elif ratios:
        show(table(ratios), output)
    lines = reasons(left)
    if pairs:
        lines += list_what_is_included({pair.peer for pair in pairs})
    if noisy := sum(ratio.ratio is None for ratio in ratios):
        lines.append(
            f"{count_of(noisy, 'comparison')} too noisy for a ratio: half the interval of a "
            f"side is wider than {TOO_WIDE:.0%} of its median"
        )
    fallen = [ratio.pair for ratio in ratios if ratio.has_fallen]
    lines += [
        f"{ratio.case_name} fell behind {ratio.peer} on {ratio.device_name}" for ratio in fallen
    ]
    for line in lines:
        tell(line)
    return bool(fallen)
