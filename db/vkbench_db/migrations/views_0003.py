"""The views of series and regressions, as schema 0003 made them; a later one makes them anew."""

from __future__ import annotations

SERIES = """
    SELECT
        series.id AS series,
        host.name AS host,
        device.key AS device,
        device.name AS device_name,
        kernel_case.name AS case_name,
        kernel_case.kernel AS kernel,
        kernel_case.format AS format,
        series.variant AS variant,
        series.metric AS metric,
        series.environment_class AS environment_class,
        series.track AS track,
        (SELECT count(*) FROM measurement WHERE measurement.series_id = series.id) AS results,
        (SELECT max(measurement.measured_at) FROM measurement
            WHERE measurement.series_id = series.id) AS newest_at,
        series.sigma AS sigma,
        series.noise_kind AS noise_kind,
        series.autocorrelation AS autocorrelation,
        series.smallest_effect AS smallest_effect
    FROM series
    JOIN device ON device.id = series.device_id
    JOIN host ON host.id = device.host_id
    JOIN kernel_case ON kernel_case.id = series.case_id
"""

REGRESSIONS = """
    SELECT
        regression.id AS regression,
        regression.state AS state,
        regression.direction AS direction,
        regression.cause AS cause,
        regression.title AS title,
        regression.owner AS owner,
        regression.opened_at AS opened_at,
        regression.changed_at AS changed_at,
        change_point.id AS change,
        change_point.series_id AS series,
        host.name AS host,
        device.key AS device,
        device.name AS device_name,
        kernel_case.name AS case_name,
        kernel_case.kernel AS kernel,
        kernel_case.format AS format,
        series.variant AS variant,
        series.metric AS metric,
        change_point.ratio AS ratio,
        change_point.low AS low,
        change_point.high AS high,
        change_point.p AS p,
        change_point.method AS method,
        change_point.before_job AS before_job,
        change_point.after_job AS after_job,
        change_point.before_kernel AS before_kernel,
        change_point.after_kernel AS after_kernel,
        change_point.before_bundle AS before_bundle,
        change_point.after_bundle AS after_bundle,
        before.driver AS before_driver,
        after.driver AS after_driver,
        before.driver_version AS before_driver_version,
        after.driver_version AS after_driver_version,
        change_point.found_at AS found_at
    FROM regression
    JOIN regression_member ON regression_member.regression_id = regression.id
    JOIN change_point ON change_point.id = regression_member.change_point_id
    JOIN series ON series.id = change_point.series_id
    JOIN device ON device.id = series.device_id
    JOIN host ON host.id = device.host_id
    JOIN kernel_case ON kernel_case.id = series.case_id
    LEFT JOIN environment AS before ON before.hash = change_point.before_environment
    LEFT JOIN environment AS after ON after.hash = change_point.after_environment
"""
