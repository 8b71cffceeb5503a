"""The pages, a module each."""

from vkbench_web.api import builds as api_builds
from vkbench_web.api import findings, health, history, reference
from vkbench_web.api import results as api_results
from vkbench_web.pages import (
    compare,
    fleet,
    heatmap,
    home,
    jobs,
    kernel,
    kernels,
    one_series,
    programs,
    query,
    regressions,
    results,
    roofline,
    runs,
    series,
    sign_in,
)

PAGES = (
    *(
        home,
        fleet,
        runs,
        jobs,
        heatmap,
        results,
        series,
        one_series,
        compare,
        kernels,
        kernel,
        roofline,
    ),
    *(programs, regressions, query, sign_in),
    *(api_results, api_builds, history, findings, health, reference),
)
