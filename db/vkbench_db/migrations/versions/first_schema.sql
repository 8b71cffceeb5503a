-- The first schema, in words of PostgreSQL. It stays as it is: later migrations change it.

CREATE TABLE host (
    id SERIAL NOT NULL, name TEXT NOT NULL,
    CONSTRAINT pk_host PRIMARY KEY (id),
    CONSTRAINT uq_host_name UNIQUE (name)
);

CREATE TABLE device (
    id SERIAL NOT NULL, "key" TEXT NOT NULL, host_id INTEGER NOT NULL, name TEXT NOT NULL,
    facts JSON NOT NULL, paused BOOLEAN NOT NULL, worker TEXT NOT NULL, bundle TEXT NOT NULL,
    environment TEXT NOT NULL, last_seen TIMESTAMPTZ, last_run INTEGER NOT NULL,
    paused_reason TEXT DEFAULT '' NOT NULL, paused_by TEXT DEFAULT '' NOT NULL,
    recalled BOOLEAN DEFAULT false NOT NULL, on_trial BOOLEAN DEFAULT false NOT NULL,
    paused_at TIMESTAMPTZ, resumed_at TIMESTAMPTZ, pause_told_at TIMESTAMPTZ,
    CONSTRAINT pk_device PRIMARY KEY (id),
    CONSTRAINT fk_device_host_id_host FOREIGN KEY(host_id) REFERENCES host (id),
    CONSTRAINT uq_device_key UNIQUE ("key")
);

CREATE TABLE environment (
    hash TEXT NOT NULL, driver TEXT NOT NULL, driver_version TEXT NOT NULL, facts JSON NOT NULL,
    CONSTRAINT pk_environment PRIMARY KEY (hash)
);

CREATE TABLE bundle (
    sha TEXT NOT NULL, name TEXT NOT NULL, manifest TEXT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    CONSTRAINT pk_bundle PRIMARY KEY (sha)
);

CREATE TABLE blob (
    sha TEXT NOT NULL, data BYTEA NOT NULL,
    CONSTRAINT pk_blob PRIMARY KEY (sha)
);

CREATE TABLE bundle_blob (
    bundle TEXT NOT NULL, blob TEXT NOT NULL,
    CONSTRAINT pk_bundle_blob PRIMARY KEY (bundle, blob),
    CONSTRAINT fk_bundle_blob_blob_blob FOREIGN KEY(blob) REFERENCES blob (sha),
    CONSTRAINT fk_bundle_blob_bundle_bundle FOREIGN KEY(bundle) REFERENCES bundle (sha)
);

CREATE TABLE kernel_case (
    id SERIAL NOT NULL, name TEXT NOT NULL, kernel TEXT NOT NULL, format TEXT NOT NULL,
    types TEXT NOT NULL, shape TEXT NOT NULL, params TEXT NOT NULL,
    CONSTRAINT pk_kernel_case PRIMARY KEY (id),
    CONSTRAINT uq_kernel_case_name UNIQUE (name)
);

CREATE TABLE run (
    id SERIAL NOT NULL, uuid TEXT NOT NULL, created_at TIMESTAMPTZ NOT NULL,
    user_name TEXT NOT NULL, label TEXT NOT NULL, tags JSON NOT NULL, selection JSON NOT NULL,
    mode TEXT NOT NULL, priority INTEGER NOT NULL, idempotency_key TEXT, cancelled_at TIMESTAMPTZ,
    imported_at TIMESTAMPTZ, track TEXT DEFAULT 'main' NOT NULL,
    kind TEXT DEFAULT 'work' NOT NULL
        CONSTRAINT ck_run_kind CHECK (kind IN (
            'work', 'sweep', 'confirmation', 'bisection', 'calibration',
            'trial', 'second check', 'shard', 'accuracy', 'import'
        )),
    about JSON DEFAULT '{}' NOT NULL,
    CONSTRAINT pk_run PRIMARY KEY (id),
    CONSTRAINT uq_run_idempotency_key UNIQUE (idempotency_key),
    CONSTRAINT uq_run_uuid UNIQUE (uuid)
);

CREATE TABLE job (
    id SERIAL NOT NULL, run_id INTEGER NOT NULL, position INTEGER NOT NULL,
    device_id INTEGER NOT NULL, case_id INTEGER NOT NULL, mode TEXT NOT NULL,
    variant TEXT NOT NULL, bundle TEXT NOT NULL, limit_seconds FLOAT NOT NULL,
    measure_seconds FLOAT NOT NULL, noise FLOAT NOT NULL, estimate_seconds FLOAT NOT NULL,
    state TEXT NOT NULL, token INTEGER NOT NULL, tries INTEGER NOT NULL,
    dispatches INTEGER NOT NULL, dispatched_at TIMESTAMPTZ, finished_at TIMESTAMPTZ,
    settled_token INTEGER, cause TEXT NOT NULL, reason TEXT NOT NULL, source JSON,
    against TEXT DEFAULT '' NOT NULL, metric TEXT DEFAULT '' NOT NULL,
    new_first BOOLEAN DEFAULT false NOT NULL,
    CONSTRAINT pk_job PRIMARY KEY (id),
    CONSTRAINT fk_job_case_id_kernel_case FOREIGN KEY(case_id) REFERENCES kernel_case (id),
    CONSTRAINT fk_job_device_id_device FOREIGN KEY(device_id) REFERENCES device (id),
    CONSTRAINT fk_job_run_id_run FOREIGN KEY(run_id) REFERENCES run (id),
    CONSTRAINT uq_job_run_id_position UNIQUE (run_id, position)
);
CREATE INDEX ix_job_device_finished ON job (device_id, finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX ix_job_device_id_state_run_id_id ON job (device_id, state, run_id, id);
CREATE INDEX ix_job_finished ON job (finished_at, id) WHERE finished_at IS NOT NULL;
CREATE INDEX ix_job_run_finished ON job (run_id, finished_at, id) WHERE finished_at IS NOT NULL;
CREATE INDEX ix_job_run_id_state ON job (run_id, state);
CREATE INDEX ix_job_series
    ON job (case_id, device_id, mode, variant, finished_at, id) WHERE finished_at IS NOT NULL;

CREATE TABLE latest (
    device_id INTEGER NOT NULL, case_id INTEGER NOT NULL, mode TEXT NOT NULL,
    variant TEXT NOT NULL, job_id INTEGER NOT NULL, state TEXT NOT NULL,
    finished_at TIMESTAMPTZ NOT NULL,
    CONSTRAINT pk_latest PRIMARY KEY (device_id, case_id, mode, variant),
    CONSTRAINT fk_latest_device_id_device FOREIGN KEY(device_id) REFERENCES device (id),
    CONSTRAINT fk_latest_case_id_kernel_case FOREIGN KEY(case_id) REFERENCES kernel_case (id),
    CONSTRAINT fk_latest_job_id_job FOREIGN KEY(job_id) REFERENCES job (id)
);
CREATE INDEX ix_latest_case_id ON latest (case_id);
CREATE INDEX ix_latest_finished_at_job_id ON latest (finished_at, job_id);

CREATE TABLE attempt (
    job_id INTEGER NOT NULL, token INTEGER NOT NULL, outcome TEXT NOT NULL, reason TEXT NOT NULL,
    variant TEXT NOT NULL, kernel_sha TEXT NOT NULL, environment TEXT NOT NULL,
    worker TEXT NOT NULL, started_at TIMESTAMPTZ, seconds FLOAT NOT NULL, telemetry JSON NOT NULL,
    recorded_at TIMESTAMPTZ NOT NULL, bundle TEXT DEFAULT '' NOT NULL,
    settings TEXT DEFAULT '' NOT NULL, memory_bytes FLOAT,
    CONSTRAINT pk_attempt PRIMARY KEY (job_id, token),
    CONSTRAINT fk_attempt_job_id_job FOREIGN KEY(job_id) REFERENCES job (id)
);
CREATE INDEX ix_attempt_bundle ON attempt (bundle);
CREATE INDEX ix_attempt_environment ON attempt (environment);
CREATE INDEX ix_attempt_unpassed ON attempt (recorded_at) WHERE outcome <> 'passed';

CREATE TABLE verdict (
    job_id INTEGER NOT NULL, token INTEGER NOT NULL, passed BOOLEAN NOT NULL,
    reason TEXT NOT NULL, path TEXT NOT NULL, nmse FLOAT, nmse_limit FLOAT NOT NULL,
    max_abs FLOAT, max_abs_limit FLOAT NOT NULL, compared BIGINT NOT NULL, total BIGINT NOT NULL,
    nonfinite BIGINT NOT NULL, unwritten BIGINT NOT NULL, guard_bytes BIGINT NOT NULL,
    unrepeated BIGINT NOT NULL, first_bad TEXT NOT NULL, wrong_arm TEXT DEFAULT 'none' NOT NULL,
    CONSTRAINT pk_verdict PRIMARY KEY (job_id),
    CONSTRAINT fk_verdict_job_id_token_attempt FOREIGN KEY(job_id, token)
        REFERENCES attempt (job_id, token)
);

CREATE TABLE series (
    id SERIAL NOT NULL, device_id INTEGER NOT NULL, case_id INTEGER NOT NULL,
    variant TEXT NOT NULL, metric TEXT NOT NULL, environment_class TEXT NOT NULL,
    track TEXT NOT NULL, screened_at TIMESTAMPTZ, screened_job INTEGER, screen JSON, sigma FLOAT,
    noise_kind TEXT NOT NULL, autocorrelation FLOAT, smallest_effect FLOAT,
    profiled_at TIMESTAMPTZ, scan_due_at TIMESTAMPTZ, side TEXT DEFAULT 'ours' NOT NULL,
    CONSTRAINT pk_series PRIMARY KEY (id),
    CONSTRAINT fk_series_device_id_device FOREIGN KEY(device_id) REFERENCES device (id),
    CONSTRAINT fk_series_case_id_kernel_case FOREIGN KEY(case_id) REFERENCES kernel_case (id),
    CONSTRAINT uq_series_identity
        UNIQUE (case_id, device_id, variant, metric, side, environment_class, track)
);
CREATE INDEX ix_series_device_id ON series (device_id);
CREATE INDEX ix_series_scan_due_at ON series (scan_due_at);

CREATE TABLE measurement (
    job_id INTEGER NOT NULL, metric TEXT NOT NULL, token INTEGER NOT NULL, seconds FLOAT NOT NULL,
    mad FLOAT NOT NULL, low FLOAT NOT NULL, high FLOAT NOT NULL, confidence FLOAT NOT NULL,
    best FLOAT NOT NULL, count INTEGER NOT NULL, launches INTEGER NOT NULL, stop TEXT NOT NULL,
    clock TEXT NOT NULL, bytes_moved BIGINT NOT NULL, flops BIGINT NOT NULL,
    warnings JSON NOT NULL, samples BYTEA NOT NULL, series_id INTEGER, measured_at TIMESTAMPTZ,
    roof_fraction FLOAT, flag TEXT DEFAULT '' NOT NULL, path_fraction FLOAT,
    side TEXT DEFAULT 'ours' NOT NULL,
    CONSTRAINT pk_measurement PRIMARY KEY (job_id, metric, side),
    CONSTRAINT fk_measurement_job_id_token_attempt FOREIGN KEY(job_id, token)
        REFERENCES attempt (job_id, token),
    CONSTRAINT fk_measurement_series_id_series FOREIGN KEY(series_id) REFERENCES series (id)
);
CREATE INDEX ix_measurement_history ON measurement (series_id, measured_at, job_id, seconds, flag);

CREATE TABLE fresh (
    job_id INTEGER NOT NULL,
    CONSTRAINT pk_fresh PRIMARY KEY (job_id),
    CONSTRAINT fk_fresh_job_id_job FOREIGN KEY(job_id) REFERENCES job (id)
);

CREATE TABLE change_point (
    id SERIAL NOT NULL, series_id INTEGER NOT NULL, method TEXT NOT NULL, direction TEXT NOT NULL,
    before_job INTEGER NOT NULL, after_job INTEGER NOT NULL, before_kernel TEXT NOT NULL,
    after_kernel TEXT NOT NULL, before_bundle TEXT NOT NULL, after_bundle TEXT NOT NULL,
    before_environment TEXT NOT NULL, after_environment TEXT NOT NULL,
    found_at TIMESTAMPTZ NOT NULL, ratio FLOAT, low FLOAT, high FLOAT, p FLOAT,
    state TEXT NOT NULL, cause TEXT NOT NULL,
    CONSTRAINT pk_change_point PRIMARY KEY (id),
    CONSTRAINT fk_change_point_after_job_job FOREIGN KEY(after_job) REFERENCES job (id),
    CONSTRAINT fk_change_point_before_job_job FOREIGN KEY(before_job) REFERENCES job (id),
    CONSTRAINT fk_change_point_series_id_series FOREIGN KEY(series_id) REFERENCES series (id),
    CONSTRAINT uq_change_point_series_id_after_job_direction
        UNIQUE (series_id, after_job, direction)
);
CREATE INDEX ix_change_point_state ON change_point (state);

CREATE TABLE change_point_event (
    id SERIAL NOT NULL, change_point_id INTEGER NOT NULL, at TIMESTAMPTZ NOT NULL,
    state TEXT NOT NULL, note TEXT NOT NULL,
    CONSTRAINT pk_change_point_event PRIMARY KEY (id),
    CONSTRAINT fk_change_point_event_change_point_id_change_point FOREIGN KEY(change_point_id)
        REFERENCES change_point (id)
);
CREATE INDEX ix_change_point_event_change_point_id ON change_point_event (change_point_id);

CREATE TABLE confirmation (
    id SERIAL NOT NULL, change_point_id INTEGER NOT NULL, run_id INTEGER NOT NULL,
    created_at TIMESTAMPTZ NOT NULL, finished_at TIMESTAMPTZ, pairs INTEGER NOT NULL, ratio FLOAT,
    low FLOAT, high FLOAT, p FLOAT, verdict TEXT NOT NULL,
    CONSTRAINT pk_confirmation PRIMARY KEY (id),
    CONSTRAINT fk_confirmation_change_point_id_change_point FOREIGN KEY(change_point_id)
        REFERENCES change_point (id),
    CONSTRAINT fk_confirmation_run_id_run FOREIGN KEY(run_id) REFERENCES run (id),
    CONSTRAINT uq_confirmation_run_id UNIQUE (run_id)
);
CREATE INDEX ix_confirmation_change_point_id ON confirmation (change_point_id);
CREATE INDEX ix_confirmation_finished_at ON confirmation (finished_at);

CREATE TABLE regression (
    id SERIAL NOT NULL, group_key TEXT NOT NULL, direction TEXT NOT NULL, cause TEXT NOT NULL,
    title TEXT NOT NULL, state TEXT NOT NULL, opened_at TIMESTAMPTZ NOT NULL,
    changed_at TIMESTAMPTZ NOT NULL, owner TEXT NOT NULL,
    CONSTRAINT pk_regression PRIMARY KEY (id)
);
CREATE INDEX ix_regression_group_key ON regression (group_key);
CREATE INDEX ix_regression_state_opened_at ON regression (state, opened_at);

CREATE TABLE regression_member (
    change_point_id INTEGER NOT NULL, regression_id INTEGER NOT NULL,
    CONSTRAINT pk_regression_member PRIMARY KEY (change_point_id),
    CONSTRAINT fk_regression_member_change_point_id_change_point FOREIGN KEY(change_point_id)
        REFERENCES change_point (id),
    CONSTRAINT fk_regression_member_regression_id_regression FOREIGN KEY(regression_id)
        REFERENCES regression (id)
);
CREATE INDEX ix_regression_member_regression_id ON regression_member (regression_id);

CREATE TABLE regression_event (
    id SERIAL NOT NULL, regression_id INTEGER NOT NULL, at TIMESTAMPTZ NOT NULL,
    state TEXT NOT NULL, user_name TEXT NOT NULL, note TEXT NOT NULL,
    CONSTRAINT pk_regression_event PRIMARY KEY (id),
    CONSTRAINT fk_regression_event_regression_id_regression FOREIGN KEY(regression_id)
        REFERENCES regression (id)
);
CREATE INDEX ix_regression_event_at ON regression_event (at);
CREATE INDEX ix_regression_event_regression_id ON regression_event (regression_id);

CREATE TABLE accuracy (
    run_id INTEGER NOT NULL, position INTEGER NOT NULL, subject TEXT NOT NULL,
    model TEXT NOT NULL, weights TEXT NOT NULL, format TEXT NOT NULL, quantiser TEXT NOT NULL,
    base TEXT NOT NULL, base_format TEXT NOT NULL, text_sha TEXT NOT NULL, bits FLOAT NOT NULL,
    bytes BIGINT, output_error FLOAT, weight_error FLOAT, perplexity FLOAT,
    perplexity_error FLOAT, loss FLOAT, loss_error FLOAT, tokens_per_second FLOAT,
    context INTEGER NOT NULL, windows INTEGER NOT NULL, tokens BIGINT NOT NULL,
    cache TEXT NOT NULL, variant TEXT NOT NULL, host TEXT NOT NULL, device_name TEXT NOT NULL,
    measured_at TIMESTAMPTZ NOT NULL,
    CONSTRAINT pk_accuracy PRIMARY KEY (run_id, position),
    CONSTRAINT fk_accuracy_run_id_run FOREIGN KEY(run_id) REFERENCES run (id)
);

CREATE TABLE alert_delivery (
    regression_id INTEGER NOT NULL, state TEXT NOT NULL, channel TEXT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL, tries INTEGER NOT NULL, next_try_at TIMESTAMPTZ NOT NULL,
    delivered_at TIMESTAMPTZ, error TEXT NOT NULL,
    CONSTRAINT pk_alert_delivery PRIMARY KEY (regression_id, state, channel),
    CONSTRAINT fk_alert_delivery_regression_id_regression FOREIGN KEY(regression_id)
        REFERENCES regression (id)
);
CREATE INDEX ix_alert_delivery_delivered_at_next_try_at
    ON alert_delivery (delivered_at, next_try_at);

CREATE TABLE baseline (
    id SERIAL NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL, value TEXT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL, user_name TEXT NOT NULL,
    CONSTRAINT pk_baseline PRIMARY KEY (id),
    CONSTRAINT uq_baseline_name UNIQUE (name)
);

CREATE TABLE bisection (
    id SERIAL NOT NULL, created_at TIMESTAMPTZ NOT NULL, user_name TEXT NOT NULL,
    regression_id INTEGER, devices JSON NOT NULL, case_name TEXT NOT NULL, variant TEXT NOT NULL,
    metric TEXT NOT NULL, measure_seconds FLOAT NOT NULL, bundles JSON NOT NULL,
    state TEXT NOT NULL, low INTEGER NOT NULL, high INTEGER NOT NULL, finished_at TIMESTAMPTZ,
    note TEXT NOT NULL,
    CONSTRAINT pk_bisection PRIMARY KEY (id),
    CONSTRAINT fk_bisection_regression_id_regression FOREIGN KEY(regression_id)
        REFERENCES regression (id)
);
CREATE INDEX ix_bisection_state ON bisection (state);

CREATE TABLE bisection_step (
    bisection_id INTEGER NOT NULL, position INTEGER NOT NULL, run_id INTEGER NOT NULL,
    created_at TIMESTAMPTZ NOT NULL, finished_at TIMESTAMPTZ, pairs INTEGER NOT NULL, ratio FLOAT,
    low FLOAT, high FLOAT, p FLOAT, verdict TEXT NOT NULL, note TEXT NOT NULL,
    CONSTRAINT pk_bisection_step PRIMARY KEY (bisection_id, position),
    CONSTRAINT fk_bisection_step_bisection_id_bisection FOREIGN KEY(bisection_id)
        REFERENCES bisection (id),
    CONSTRAINT fk_bisection_step_run_id_run FOREIGN KEY(run_id) REFERENCES run (id)
);

CREATE TABLE calibration (
    id SERIAL NOT NULL, device_id INTEGER NOT NULL, environment TEXT NOT NULL,
    measured_at TIMESTAMPTZ NOT NULL, run_id INTEGER NOT NULL, read_bytes FLOAT, copy_bytes FLOAT,
    fma_f32 FLOAT, fma_f16 FLOAT, dot_i8 FLOAT, matrices JSON NOT NULL, launch_seconds FLOAT,
    tick_seconds FLOAT, noise FLOAT,
    CONSTRAINT pk_calibration PRIMARY KEY (id),
    CONSTRAINT fk_calibration_device_id_device FOREIGN KEY(device_id) REFERENCES device (id),
    CONSTRAINT fk_calibration_run_id_run FOREIGN KEY(run_id) REFERENCES run (id),
    CONSTRAINT uq_calibration_run_id_device_id UNIQUE (run_id, device_id)
);
CREATE INDEX ix_calibration_device_id_environment_measured_at
    ON calibration (device_id, environment, measured_at);

CREATE TABLE canary (
    id SERIAL NOT NULL, device_id INTEGER NOT NULL, environment TEXT NOT NULL,
    measured_at TIMESTAMPTZ NOT NULL, seconds FLOAT NOT NULL, deviation FLOAT,
    is_off BOOLEAN NOT NULL,
    CONSTRAINT pk_canary PRIMARY KEY (id),
    CONSTRAINT fk_canary_device_id_device FOREIGN KEY(device_id) REFERENCES device (id),
    CONSTRAINT uq_canary_device_id_measured_at UNIQUE (device_id, measured_at)
);
CREATE INDEX ix_canary_device_id_environment_measured_at
    ON canary (device_id, environment, measured_at);

CREATE TABLE peer_standing (
    job_id INTEGER NOT NULL, has_fallen BOOLEAN NOT NULL, judged_at TIMESTAMPTZ NOT NULL,
    told_at TIMESTAMPTZ,
    CONSTRAINT pk_peer_standing PRIMARY KEY (job_id),
    CONSTRAINT fk_peer_standing_job_id_job FOREIGN KEY(job_id) REFERENCES job (id)
);

CREATE TABLE refused (
    id SERIAL NOT NULL, received_at TIMESTAMPTZ NOT NULL, job_id BIGINT, reason TEXT NOT NULL,
    body BYTEA NOT NULL,
    CONSTRAINT pk_refused PRIMARY KEY (id)
);

CREATE TABLE schedule (
    id SERIAL NOT NULL, name TEXT NOT NULL, cron TEXT NOT NULL, selection JSON NOT NULL,
    is_enabled BOOLEAN NOT NULL, created_at TIMESTAMPTZ NOT NULL, user_name TEXT NOT NULL,
    CONSTRAINT pk_schedule PRIMARY KEY (id),
    CONSTRAINT uq_schedule_name UNIQUE (name)
);

CREATE TABLE schedule_slot (
    schedule_id INTEGER NOT NULL, slot TIMESTAMPTZ NOT NULL, run_id INTEGER, note TEXT NOT NULL,
    CONSTRAINT pk_schedule_slot PRIMARY KEY (schedule_id, slot),
    CONSTRAINT fk_schedule_slot_run_id_run FOREIGN KEY(run_id) REFERENCES run (id),
    CONSTRAINT fk_schedule_slot_schedule_id_schedule FOREIGN KEY(schedule_id)
        REFERENCES schedule (id)
);

CREATE TABLE scheduler (
    name TEXT NOT NULL, seen_at TIMESTAMPTZ NOT NULL,
    CONSTRAINT pk_scheduler PRIMARY KEY (name)
);

CREATE TABLE token (
    id SERIAL NOT NULL, name TEXT NOT NULL, prefix TEXT NOT NULL, sha256 TEXT NOT NULL,
    scopes JSON NOT NULL, created_at TIMESTAMPTZ NOT NULL, expires_at TIMESTAMPTZ,
    revoked_at TIMESTAMPTZ, last_used_at TIMESTAMPTZ,
    CONSTRAINT pk_token PRIMARY KEY (id),
    CONSTRAINT uq_token_name UNIQUE (name),
    CONSTRAINT uq_token_prefix UNIQUE (prefix),
    CONSTRAINT uq_token_sha256 UNIQUE (sha256)
);

CREATE TABLE tuned (
    id SERIAL NOT NULL, run_id INTEGER NOT NULL, device_id INTEGER NOT NULL,
    case_id INTEGER NOT NULL, driver TEXT NOT NULL, driver_version TEXT NOT NULL,
    configuration TEXT NOT NULL, seconds FLOAT NOT NULL, estimated TEXT NOT NULL,
    estimated_seconds FLOAT NOT NULL, measured_at TIMESTAMPTZ NOT NULL,
    CONSTRAINT pk_tuned PRIMARY KEY (id),
    CONSTRAINT fk_tuned_run_id_run FOREIGN KEY(run_id) REFERENCES run (id),
    CONSTRAINT fk_tuned_device_id_device FOREIGN KEY(device_id) REFERENCES device (id),
    CONSTRAINT fk_tuned_case_id_kernel_case FOREIGN KEY(case_id) REFERENCES kernel_case (id),
    CONSTRAINT uq_tuned_run_id_device_id_case_id UNIQUE (run_id, device_id, case_id)
);
CREATE INDEX ix_tuned_device_id_case_id_measured_at ON tuned (device_id, case_id, measured_at);

CREATE VIEW v_results AS
    SELECT
        host.name AS host,
        device.key AS device,
        device.name AS device_name,
        environment.driver AS driver,
        environment.driver_version AS driver_version,
        attempt.environment AS environment,
        kernel_case.name AS case_name,
        kernel_case.kernel AS kernel,
        kernel_case.format AS format,
        kernel_case.types AS types,
        kernel_case.shape AS shape,
        kernel_case.params AS params,
        job.mode AS mode,
        job.variant AS variant,
        attempt.variant AS variant_run,
        attempt.kernel_sha AS kernel_sha,
        job.bundle AS bundle,
        run.id AS run,
        run.uuid AS run_uuid,
        run.label AS run_label,
        run.track AS track,
        job.id AS job,
        job.state AS state,
        job.cause AS cause,
        job.reason AS reason,
        job.tries AS tries,
        verdict.path AS path,
        verdict.nmse AS nmse,
        verdict.max_abs AS max_abs,
        measurement.metric AS metric,
        measurement.seconds AS seconds,
        measurement.mad AS mad,
        measurement.low AS low,
        measurement.high AS high,
        measurement.best AS best,
        measurement.count AS count,
        measurement.stop AS stop,
        measurement.bytes_moved / NULLIF(measurement.seconds * 1e9, 0) AS gb_per_second,
        measurement.flops / NULLIF(measurement.seconds * 1e9, 0) AS gflop_per_second,
        measurement.roof_fraction AS roof_fraction,
        measurement.warnings AS warnings,
        measurement.flag AS flag,
        measurement.series_id AS series,
        job.finished_at AS finished_at,
        measurement.path_fraction AS path_fraction,
        attempt.settings AS settings,
        attempt.memory_bytes AS memory_bytes,
        measurement.side AS side
    FROM job
    JOIN run ON run.id = job.run_id
    JOIN device ON device.id = job.device_id
    JOIN host ON host.id = device.host_id
    JOIN kernel_case ON kernel_case.id = job.case_id
    LEFT JOIN attempt ON attempt.job_id = job.id AND attempt.token = job.settled_token
    LEFT JOIN environment ON environment.hash = attempt.environment
    LEFT JOIN verdict ON verdict.job_id = job.id
    LEFT JOIN measurement ON measurement.job_id = job.id
    WHERE job.finished_at IS NOT NULL;

CREATE VIEW v_latest AS
    SELECT v_results.* FROM latest JOIN v_results ON v_results.job = latest.job_id;

CREATE VIEW v_series AS
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
        series.smallest_effect AS smallest_effect,
        series.side AS side
    FROM series
    JOIN device ON device.id = series.device_id
    JOIN host ON host.id = device.host_id
    JOIN kernel_case ON kernel_case.id = series.case_id;

CREATE VIEW v_regressions AS
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
    LEFT JOIN environment AS after ON after.hash = change_point.after_environment;

CREATE VIEW v_accuracy AS
    SELECT
        accuracy.subject AS subject,
        accuracy.model AS model,
        accuracy.weights AS weights,
        accuracy.format AS format,
        accuracy.bits AS bits,
        accuracy.bytes AS bytes,
        accuracy.quantiser AS quantiser,
        accuracy.output_error AS output_error,
        accuracy.weight_error AS weight_error,
        accuracy.perplexity AS perplexity,
        accuracy.perplexity_error AS perplexity_error,
        accuracy.base AS base,
        accuracy.base_format AS base_format,
        accuracy.loss AS loss,
        accuracy.loss_error AS loss_error,
        accuracy.text_sha AS text_sha,
        accuracy.context AS context,
        accuracy.windows AS windows,
        accuracy.tokens AS tokens,
        accuracy.cache AS cache,
        accuracy.variant AS variant,
        accuracy.tokens_per_second AS tokens_per_second,
        accuracy.host AS host,
        accuracy.device_name AS device_name,
        accuracy.measured_at AS measured_at,
        accuracy.run_id AS run,
        run.uuid AS run_uuid,
        run.label AS run_label,
        accuracy.position AS position
    FROM accuracy
    JOIN run ON run.id = accuracy.run_id;
