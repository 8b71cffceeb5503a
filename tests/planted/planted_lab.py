"""A lab whose tables have everything that they can show, with names as long as they get."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sqlalchemy import Text, insert, select, update

from planted_accuracy import of_model, of_products
from planted_history import Plan, Step, file_lines
from vkbench.device import DeviceFacts, Environment
from vkbench.job import Job, Mode, Outcome, PlannedJob
from vkbench.messages.wire import Announcement
from vkbench.result import Result
from vkbench.run import Purpose, RunKind, RunWords
from vkbench_cli.exporting import import_file
from vkbench_db import schema
from vkbench_db.database import Database, Transaction
from vkbench_db.upkeep import bisections, tokens
from vkbench_db.upkeep.tokens import Scope
from vkbench_db.work import store
from vkbench_db.work.runs import add_accuracies
from vkbench_detection.compare.baselines import pin
from vkbench_detection.compare.references import ReferenceKind
from vkbench_detection.steps import detect
from vkbench_shaders.own import example

LONG_CASE = "flash_attn/f16:k=q4_0,v=q4_0/s2_h32_g8_q512_n4096_d128_e128/mask=causal,sinks=on"
LONG_LABEL = "what the compiler of next month does to attention, measured over night in the lab"
LONG_DEVICE = "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition (engineering sample)"

# What prints each table, asked of this lab.
WORDS = {
    "kernels": ["kernels"],
    "kernels --grid": ["kernels", "--grid"],
    "kernels --formats": ["kernels", "--formats"],
    "kernels --classes": ["kernels", "--classes"],
    "kernels --missing": ["kernels", "--missing", "ggml"],
    "devices": ["devices"],
    "status": ["status"],
    "results": ["results", "--limit", "0"],
    "results --history": ["results", "--history", "--mode", "performance"],
    "compare": ["compare", "20", "40", "--all"],
    "baseline ls": ["baseline", "ls"],
    "noise": ["noise", "--refresh"],
    "regressions ls": ["regressions", "ls", "--all"],
    "regressions show": ["regressions", "show", "1"],
    "regressions suspected": ["regressions", "suspected"],
    "bisect ls": ["bisect", "ls"],
    "bisect show": ["bisect", "show", "1"],
    "report accuracy": ["report", "accuracy"],
    "query": ["query", "SELECT * FROM v_results LIMIT 20"],
    "schedule ls": ["schedule", "ls"],
    "token ls": ["token", "ls"],
    "schedule show": ["schedule", "show", "nightly"],
    "calibrate": ["calibrate", "--show"],
    "tune": ["tune", "--show"],
    "tune --run": ["tune", "--run", "sweep"],
    "jobs": ["jobs"],
    "jobs RUN": ["jobs", "long", "--limit", "0"],
    "bundle ls": ["bundle", "ls"],
    "doctor": ["doctor"],
    "accuracy": ["accuracy", "--format", "q8_0", "--rows", "4"],
    "model ls": ["model", "ls"],
    "program ls": ["program", "ls"],
    "program show": ["program", "show", "ggml-vulkan"],
    "try": ["try", "my-bench", "--old", "old", "--new", "new", "--budget", "60s", "--all"],
    "shard": ["shard", "--no-keep", "matmul/f32/b1_m8_n8_k8", "--seconds", "0.01"],
    "kernel check": ["kernel", "check", str(Path(example.__path__[0], "rms_quant.toml"))],
    "selftest detector": ["selftest", "detector", "--streams", "1", "--only", "noise"],
    "selftest comparisons": ["selftest", "comparisons", "--count", "2"],
}


def make_lab(folder: Path, now: float) -> Path:
    """The file of a database with everything in it that any table can show."""
    steps = (
        Step(case=0, run=25, factor=1.1, cause="kernel"),
        Step(case=1, run=30, factor=0.9, cause="environment"),
        Step(case=2, run=38, factor=0.0, cause="kernel"),
    )
    history = folder / "history.jsonl"
    history.write_text("".join(file_lines(Plan(cases=4, runs=40, steps=steps))))
    with Database.open(f"sqlite:///{folder}/lab.db", create=True) as database:
        import_file(database, history)
        detect(database, now, all_at_once=True)
        _add_long_names(database, now)
        _add_the_rest(database, now)
        _add_losses(database, now)
    return folder / "lab.db"


def _add_long_names(database: Database, now: float) -> None:
    facts = DeviceFacts(
        key="839aa817bf1b",
        host="a-host-of-a-long-name.lab.example.org",
        index=3,
        name=LONG_DEVICE,
        uuid="f" * 32,
        vendor_id=0,
        device_id=0,
        type="discrete",
        memory_bytes=96 << 30,
        subgroup_size=32,
        features=(),
        limits={},
    )
    environment = Environment(
        driver="NVIDIA",
        driver_version="580.82.07",
        driver_info="",
        api_version="1.4",
        loader="",
        os="",
        os_kernel="",
        cpu="",
        vkbench="0",
    )
    announced = Announcement(worker="w", facts=facts, environment=environment, bundle="")
    planned = PlannedJob(device=facts.key, case=LONG_CASE, mode=Mode.PERFORMANCE)
    with database.transaction() as tx:
        store.register_device(tx, announced, now)
        for label in (LONG_LABEL, "long"):
            run = store.create_run(
                tx,
                mode=Mode.PERFORMANCE,
                selection={},
                now=now,
                words=RunWords(label=label, user="lab"),
            )
            store.add_jobs(tx, run.id, [planned] * 3)
        first, *_ = store.pick(tx, facts.key, 6, now)
        sweep = store.create_run(
            tx,
            mode=Mode.PERFORMANCE,
            selection={},
            now=now,
            track="",
            words=RunWords(label="sweep", purpose=Purpose(kind=RunKind.SWEEP)),
        )
        names = [f"portable:threads={threads}" for threads in (256, 128, 64, 512, 1024)]
        store.add_jobs(tx, sweep.id, [replace(planned, variant=name) for name in names])
        reason = (
            "largest error 123456.75 at element 1234567890 is over 1e-10 " + "of its limit " * 9
        )
        store.record(tx, [_failed(first.job, reason, environment.hash)], now)


def _failed(job: Job, reason: str, environment: str) -> Result:
    return Result(
        job=job.id,
        token=job.token,
        case=job.case,
        outcome=Outcome.SKIPPED,
        reason=reason,
        variant="subgroup",
        environment=environment,
        started=1.0,
    )


def _add_the_rest(database: Database, now: float) -> None:
    with database.transaction() as tx:
        device = tx.execute(select(schema.device.c.id)).scalars().first()
        run = tx.execute(select(schema.run.c.id)).scalars().first()
        change = tx.execute(select(schema.change_point)).first()
        assert change
        values = change._asdict() | {"state": "suspected"}
        values.pop("id")
        tx.execute(insert(schema.change_point).values(**values | {"after_job": change.before_job}))
        tokens.add(tx, name="nightly-of-a-long-name", scopes=list(Scope), now=now)
        pin(tx, "release-of-a-long-name-1.2.3", ReferenceKind.RUN, str(run), now, "somebody")
        tx.execute(
            insert(schema.calibration).values(
                device_id=device,
                environment="e",
                measured_at=now,
                run_id=run,
                read_bytes=4.5e12,
                copy_bytes=1.25e12,
                fma_f32=60e12,
                fma_f16=120e12,
                dot_i8=240e12,
                matrices={"f16_f16": 6e14, "f16_f32": 6e14, "bf16_f32": 5.9e14, "i8_i32": 1.2e15},
                launch_seconds=1.7e-6,
                tick_seconds=32e-9,
                noise=0.0012,
            )
        )
        tx.execute(
            insert(schema.tuned).values(
                run_id=run,
                device_id=device,
                case_id=1,
                driver="NVIDIA",
                driver_version="580.82.07",
                configuration="portable:split=2,tile=64x64_8x8x2",
                seconds=1.25e-3,
                estimated="portable:split=1,tile=128x128_8x8",
                estimated_seconds=2.5e-3,
                measured_at=now,
            )
        )
        tx.execute(
            insert(schema.schedule).values(
                name="nightly",
                cron="*/5 0-6,18-23 1,15 * 1-5",
                selection={"kernels": ["copy"]},
                is_enabled=True,
                created_at=now,
                user_name="somebody",
            )
        )
        schedule = tx.execute(select(schema.schedule.c.id)).scalar_one()
        slot = {"slot": now, "run_id": run, "note": LONG_LABEL}
        tx.execute(insert(schema.schedule_slot).values(schedule_id=schedule, **slot))
        bundles = [{"sha": f"{n:064x}", "label": f"rev {n}: {LONG_LABEL}"} for n in range(4)]
        tx.execute(
            insert(schema.bisection).values(
                created_at=now,
                user_name="somebody",
                devices={"keys": ["839aa817bf1b"]},
                case_name=LONG_CASE,
                variant="subgroup",
                metric="hot",
                measure_seconds=1.0,
                bundles={"bundles": [each | {"note": LONG_LABEL} for each in bundles]},
                state=bisections.FOUND,
                low=2,
                high=3,
                finished_at=now,
                note=LONG_LABEL,
            )
        )


def _add_losses(database: Database, now: float) -> None:
    """An accuracy run that is not the last run."""
    name = "Meta-Llama-3.1-405B-Instruct-of-the-lab-f16-0123456789ab"
    found = (
        of_model("f16", model=name, device_name=LONG_DEVICE),
        of_model("q4_K_M", 0.0312, model=name, base=name, device_name=LONG_DEVICE),
        of_products("q4_0", 0.0888, "large columns"),
    )
    with database.transaction() as tx:
        run = store.create_run(
            tx,
            mode=Mode.ACCURACY,
            selection={},
            now=now - 1,
            track="",
            words=RunWords(label="losses"),
        )
        add_accuracies(tx, run.id, dict(enumerate(found)))


# What others may have written: a worker, a file, whoever names a token, a revision's subject.
STRANGE = {
    *("name", "user_name", "label", "reason", "path", "first_bad", "driver", "driver_version"),
    *("variant", "note", "title", "owner", "case_name", "worker", "paused_reason", "paused_by"),
    *("group_key", "before_bundle", "after_bundle", "configuration", "estimated", "channel"),
    *("error", "environment_class", "model", "weights", "device_name"),
}
STRANGE_FACTS = ("name", "host", "driver", "driver_version", "label")  # in JSON


def make_strange(tx: Transaction, mark: str) -> None:
    """Append a mark to all text in the lab that others may have written."""

    def marked(value: object, key: str = "") -> object:
        if isinstance(value, dict):
            return {name: marked(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [marked(item) for item in value]
        return f"{value}{mark}" if key in STRANGE_FACTS else value

    for column in [column for table in schema.TABLES.sorted_tables for column in table.c]:
        if isinstance(column.type, Text) and column.name in STRANGE:
            tx.execute(update(column.table).values({column: column + mark}))
    for held in (schema.device.c.facts, schema.environment.c.facts, schema.bisection.c.bundles):
        [key] = held.table.primary_key.columns
        for row in tx.execute(select(key, held)).all():
            tx.execute(update(held.table).where(key == row[0]).values({held: marked(row[1])}))
