"""What `vkbench bisect` refuses: options that do not go together, or name nothing to search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vkbench.case import program_of
from vkbench.errors import UsageError
from vkbench_cli.options.bisect_drivers import check_drivers

if TYPE_CHECKING:
    from vkbench_cli.options.bisect_options import BisectOptions


def check(options: BisectOptions) -> None:
    """UsageError unless the options name a case and one order of candidates."""
    if not options.case:
        raise UsageError("--case NAME is missing: give the full name of the case")
    if options.metric not in ("hot", "cold"):
        raise UsageError(f"--metric is hot or cold, not '{options.metric}'")
    is_of_others = bool(options.bundles or options.builds or options.kernel_file)
    if options.program and is_of_others:
        raise UsageError(
            "--program is built from --revisions: leave out --bundles, --builds and --kernel-file"
        )
    orders = [options.bundles, options.builds, options.drivers, options.revisions]
    orders = list(filter(None, orders))
    if len(orders) > 1:
        raise UsageError("give one of --bundles, --builds, --drivers and --revisions")
    _check_builds(options)
    if options.drivers:
        others = (options.good, options.bad, options.kernel_file, options.program)
        is_mixed = any((*others, options.driver_file))
        check_drivers("--drivers", options.case, options.metric, is_mixed)
    elif options.driver_file:
        is_mixed = is_of_others or bool(options.program or options.sources)
        check_drivers("--driver-file", options.case, options.metric, is_mixed)
    if (program := program_of(options.case)) and not (options.builds or options.program):
        raise UsageError(f"{options.case} is a case of the program {program}: give --builds of it")
    if not orders and not (options.good and options.bad):
        raise UsageError(
            "nothing to search: give --bundles SHA,SHA,..., --builds NAME,NAME,..., --drivers "
            "NAME,NAME,... or --revisions GOOD..BAD"
        )
    if options.bundles and not all(options.names):
        raise UsageError(f"--bundles has an empty name: '{options.bundles}'")


def _check_builds(options: BisectOptions) -> None:
    word = "--builds" if options.builds else "--program"
    is_of_program = bool(options.builds or options.program)
    if is_of_program and (options.variant != "auto" or options.metric != "hot"):
        raise UsageError(f"{word} has no code paths and times hot: leave out --variant, --metric")
    if options.builds and (options.good or options.bad or options.kernel_file):
        raise UsageError(
            "--builds begins with the good one and ends with the bad one: leave out --good, --bad "
            "and --kernel-file"
        )
