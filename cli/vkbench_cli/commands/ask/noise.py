"""`vkbench noise`: the noise of each series, and the smallest change visible in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Annotated

from typer import Option

from vkbench_cli.options.records import Devices, Store
from vkbench_cli.show.printing import Limit, Output, show
from vkbench_cli.show.progress import CountedProgress
from vkbench_cli.show.telling import tell
from vkbench_cli.store import is_unmade, open_database, reading
from vkbench_tables.series import MEASURED
from vkbench_tables.table import Column, Rank, Table, ValueKind

if TYPE_CHECKING:
    from vkbench_detection.series.profiles import NoiseRow


class Sort(StrEnum):
    """What series are ordered by."""

    SIGMA = "sigma"  # the noisiest first
    CASE = "case"
    DEVICE = "device"


COLUMNS = (
    *MEASURED,
    Column(key="environment_class", heading="clocks", lifted=True),
    Column(key="track", heading="track", lifted=True),
    Column(key="sigma", heading="sigma", kind=ValueKind.PERCENT, rank=Rank.KEY),
    Column(key="noise_kind", heading="kind"),
    Column(key="autocorrelation", heading="resembles the last", kind=ValueKind.NUMBER, hidden=True),
    Column(
        key="smallest_effect", heading="cannot see below", kind=ValueKind.PERCENT, rank=Rank.KEY
    ),
    Column(key="profiled_at", heading="until", kind=ValueKind.TIME, hidden=True),
    Column(key="series", heading="series", kind=ValueKind.VALUE, rank=Rank.KEY),
)


def noise(
    *,
    device: Devices = [],  # noqa: B006
    kernel: Annotated[
        str,
        Option("--kernel", "-k", metavar="GLOB", help="Only series of kernels whose name matches."),
    ] = "",
    case: Annotated[
        str, Option(metavar="GLOB", help="Only series of cases whose name matches.")
    ] = "",
    sort: Annotated[
        Sort, Option(help="Sort by sigma (largest first), case or device.", case_sensitive=False)
    ] = Sort.SIGMA,
    refresh: Annotated[
        bool,
        Option(
            "--refresh",
            help="First update the profiles from results newer than last night's update.",
        ),
    ] = False,
    limit: Limit = None,
    store: Store,
    output: Output,
) -> None:
    """Show the noise of each series, and the smallest change visible in it.

    The kind of noise is normal, skewed (outliers to one side), modal (two levels) or drifting
    (each result resembles the one before). `cannot see below` is the smallest change that a
    confirmation by 12 pairs can detect.

    \b
    vkbench noise --device H200 --kernel 'mul_mat*' --sort sigma
    """
    from vkbench_db.blank import is_blank
    from vkbench_detection.series import profiles

    settings = store.settings()
    ask = partial(profiles.noise, devices=device, kernel=kernel, case=case)
    if refresh and not is_unmade(settings):
        with open_database(settings) as database, database.transaction() as tx:
            series = [row.series for row in ask(tx)]
            with CountedProgress("series", len(series)) as progress:
                profiles.refresh(tx, progress.over(series))
    with reading(settings) as tx:
        profile_rows = [] if is_blank(tx) else ask(tx)
    known = sorted((row for row in profile_rows if row.sigma is not None), key=_ORDERS[sort])
    shown = known[: output.most(limit)]
    rows = [vars(row) for row in shown]
    show(Table(columns=COLUMNS, rows=rows, nothing=_nothing(len(profile_rows))), output)
    if shown:
        tell(_summary(known, shown, len(profile_rows)))


def _nothing(series: int) -> str:
    if not series:
        return "no series yet: each timing of `vkbench run` joins one"
    return (
        f"none of {series} series has enough results for a profile; --refresh looks at the newest"
    )


_ORDERS: Mapping[Sort, Callable[[NoiseRow], tuple[object, ...]]] = {
    Sort.SIGMA: lambda row: (-(row.sigma or 0), row.series),
    Sort.CASE: lambda row: (row.case_name, row.metric, row.variant, row.device),
    Sort.DEVICE: lambda row: (row.host, row.device, row.case_name, row.metric),
}


def _summary(known: Sequence[NoiseRow], shown: Sequence[NoiseRow], series: int) -> str:
    sigma = median(row.sigma or 0 for row in known)
    effect = median(row.smallest_effect or 0 for row in known)
    words = [
        f"{len(known)} of {series} series have a profile",
        f"half of them a sigma over {sigma:.2%}",
        f"half cannot see changes below {effect:.1%}",
    ]
    if len(shown) < len(known):
        words.append(f"{len(shown)} shown (--limit 0 shows all)")
    return ", ".join(words)
