"""Every table fits the terminal that it is printed on, and says what it leaves out.

The terminal is a real one, a pseudo-terminal of some width; commands run in this process.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from sqlalchemy import insert, select

from planted_history import Plan, Step, file_lines
from vkbench.device import DeviceFacts, Environment
from vkbench.job import Job, Mode, Outcome, PlannedJob
from vkbench.result import Result
from vkbench.settings import settings
from vkbench.wire import Announcement
from vkbench_cli import main as cli
from vkbench_cli.exporting import import_file
from vkbench_cli.show import layout
from vkbench_cli.table import COMMANDS
from vkbench_db import schema
from vkbench_db.database import Database
from vkbench_db.upkeep import bisections
from vkbench_db.upkeep.tuning import SWEEP
from vkbench_db.work import store
from vkbench_detection.compare.baselines import pin
from vkbench_detection.compare.references import ReferenceKind
from vkbench_detection.steps import detect
from vkbench_local.peers import cpu

pytestmark = pytest.mark.slow

WIDTHS = (80, 100, 120)
LONG_CASE = "flash_attn/f16:k=q4_0,v=q4_0/s2_h32_g8_q512_n4096_d128_e128/mask=causal,sinks=on"
LONG_LABEL = "what the compiler of next month does to attention, measured over night in the lab"
LONG_DEVICE = "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition (engineering sample)"

WORDS = {
    "kernels": ["kernels"],
    "kernels --grid": ["kernels", "--grid"],
    "kernels --formats": ["kernels", "--formats"],
    "kernels --rocm": ["kernels", "--rocm"],
    "devices": ["devices"],
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
    "report targets": ["report", "targets"],
    "query": ["query", "SELECT * FROM v_results LIMIT 20"],
    "schedule ls": ["schedule", "ls"],
    "schedule show": ["schedule", "show", "nightly"],
    "calibrate": ["calibrate", "--show"],
    "tune": ["tune", "--show"],
    "tune --run": ["tune", "--run", "sweep"],
    "jobs": ["jobs"],
    "jobs RUN": ["jobs", "long", "--limit", "0"],
    "bundle ls": ["bundle", "ls"],
    "doctor": ["doctor"],
    "selftest detector": ["selftest", "detector", "--streams", "1"],
}
ALIKE = {"run": "results", "submit": "results", "bisect": "bisect show"}  # print the same tables


@dataclass
class Terminal:
    """A pseudo-terminal that commands print on."""

    text: str = ""
    pieces: list[bytes] = field(default_factory=list)

    def read(self, end: int) -> None:
        """Take what comes until the other end is closed."""
        while True:
            try:
                piece = os.read(end, 65536)
            except OSError:  # how Linux says that it is closed
                piece = b""
            if not piece:
                break
            self.pieces.append(piece)
        self.text = b"".join(self.pieces).decode().replace("\r\n", "\n")


@contextmanager
def terminal(columns: int, patch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """Stdout is a terminal of so many columns; what was printed is there afterwards."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    found = Terminal()
    reader = threading.Thread(target=found.read, args=(ours,))
    reader.start()
    try:
        with os.fdopen(theirs, "w") as stream, patch.context() as patched:
            patched.delenv("COLUMNS", raising=False)
            patched.setattr(sys, "stdout", stream)
            patched.setattr(sys, "__stdout__", stream)
            yield found
    finally:
        reader.join()
        os.close(ours)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a database with everything in it that any table can show."""
    folder = tmp_path_factory.mktemp("lab")
    steps = (
        Step(case=0, run=25, factor=1.1, cause="kernel"),
        Step(case=1, run=30, factor=0.9, cause="environment"),
        Step(case=2, run=38, factor=0.0, cause="kernel"),
    )
    history = folder / "history.jsonl"
    history.write_text("".join(file_lines(Plan(cases=4, runs=40, steps=steps))))
    with Database.open(f"sqlite:///{folder}/lab.db", create=True) as database:
        import_file(database, history)
        detect(database, time.time(), all_at_once=True)
        _add_long_names(database)
        _add_the_rest(database)
    return folder / "lab.db"


def _add_long_names(database: Database) -> None:
    facts = DeviceFacts(
        key="fedcba987654",
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
        store.register_device(tx, announced, time.time())
        for label in (LONG_LABEL, "long"):
            run = store.create_run(
                tx, mode=Mode.PERFORMANCE, selection={}, now=time.time(), label=label, user="lab"
            )
            store.add_jobs(tx, run.id, [planned] * 3)
        first, *_ = store.pick(tx, facts.key, 6, time.time())
        sweep = store.create_run(
            tx, mode=Mode.PERFORMANCE, selection={}, now=time.time(), label="sweep", track="",
            tags={SWEEP: {}},
        )  # fmt: skip
        names = [f"portable:threads={threads}" for threads in (256, 128, 64, 512, 1024)]
        store.add_jobs(tx, sweep.id, [replace(planned, variant=name) for name in names])
        reason = (
            "largest error 123456.75 at element 1234567890 is over 1e-10 " + "of its limit " * 9
        )
        store.record(tx, [_failed(first.job, reason, environment.hash)], time.time())


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


def _add_the_rest(database: Database) -> None:
    now = time.time()
    with database.transaction() as tx:
        device = tx.execute(select(schema.device.c.id)).scalars().first()
        run = tx.execute(select(schema.run.c.id)).scalars().first()
        change = tx.execute(select(schema.change_point)).first()
        assert change
        values = change._asdict() | {"state": "suspected"}
        values.pop("id")
        tx.execute(insert(schema.change_point).values(**values | {"after_job": change.before_job}))
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
                matrices={"f16_f16": 6e14, "f16_f32": 6e14, "bf16_f32": 5.9e14, "s8_s32": 1.2e15},
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
                devices={"keys": ["fedcba987654"]},
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


@pytest.fixture(autouse=True)
def _in_the_lab(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKBENCH_DATABASE", f"sqlite:///{lab}")
    monkeypatch.setattr(cpu, "SECONDS", 0.001)
    settings.cache_clear()


def reading_commands() -> Mapping[str, object]:
    """Every command that prints a table, by its words."""
    found = {}
    for row in COMMANDS:
        command = cli.load(row)
        for name, one in getattr(command, "commands", {}).items() or [("", command)]:
            found[f"{row.name} {name}".strip()] = one
        found.setdefault(row.name, command)
    return {name: one for name, one in found.items() if any(p.name == "json" for p in one.params)}


def test_every_command_with_a_table_is_tried() -> None:
    assert set(reading_commands()) <= {*WORDS, *ALIKE}
    assert set(ALIKE.values()) <= set(WORDS)


@pytest.mark.parametrize("name", WORDS)
def test_no_line_is_wider_than_the_terminal(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for columns in WIDTHS[:1] if name.startswith(SLOW) else WIDTHS:
        with terminal(columns, monkeypatch) as screen:
            assert cli.main(WORDS[name]) in (0, 1, 4)
        said = capsys.readouterr().err
        lines = screen.text.splitlines()
        assert len(lines) > 1, said
        assert max(map(len, lines)) <= columns, max(lines, key=len)
        assert ("not shown at" in said) == (f"not shown at {columns} columns: " in said)


SLOW = ("selftest", "report", "kernels --grid", "doctor")
NUMBERS = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)+(?:e[-+]\d+)?%?(?![\w.])")


@pytest.mark.parametrize("name", ["results --history", "calibrate", "noise", "compare"])
def test_numbers_are_whole(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with terminal(2000, monkeypatch) as whole:
        cli.main([*WORDS[name], "--wide"])
    known = set(NUMBERS.findall(whole.text))
    assert known
    for columns in (40, 60, 80):
        with terminal(columns, monkeypatch) as screen:
            cli.main(WORDS[name])
        assert set(NUMBERS.findall(screen.text)) <= known
        assert max(map(len, screen.text.splitlines())) <= columns


def test_what_is_left_out_is_named_and_wide_shows_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with terminal(80, monkeypatch) as narrow:
        cli.main(WORDS["results --history"])
    said = capsys.readouterr().err
    assert "not shown at 80 columns: " in said
    assert "(--wide or --json shows all)" in said
    assert "cold_spread" in said  # its heading is a sign that another column has too
    with terminal(80, monkeypatch) as wide:
        cli.main([*WORDS["results --history"], "--wide"])
    assert "not shown" not in capsys.readouterr().err
    assert "cold" in wide.text
    assert "cold" not in narrow.text
    assert max(map(len, wide.text.splitlines())) > 80


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("short", 5, ["short"]),
        ("two words", 6, ["two", "words"]),
        ("mul_mat_vec/q4_0/m1_n1_k256", 15, ["mul_mat_vec/", "q4_0/m1_n1_k256"]),
        ("q4_0, q8_0, iq2_xxs", 12, ["q4_0, q8_0,", "iq2_xxs"]),
        ("m4096_n1_k14336", 10, ["m4096_n1_", "k14336"]),
        ("host-of-a.lab.example", 12, ["host-of-a.", "lab.example"]),
        ("1.3.275.1 -5", 9, ["1.3.275.1", "-5"]),
        ("0123456789abcdef", 6, ["012345", "6789ab", "cdef"]),
    ],
)
def test_text_breaks_where_it_has_joints(text: str, width: int, lines: list[str]) -> None:
    assert layout.wrapped(text, width) == lines


def test_an_interval_is_left_out_whole() -> None:
    def number(name: str, *, is_joined: bool = False) -> layout.Strip:
        cells = ["1.2345"]
        return layout.Strip(
            name=name, heading=name, cells=cells, is_rigid=True, is_joined=is_joined
        )

    minor = layout.Rank.MINOR
    strips = [
        number("ratio"),
        replace(number("from"), rank=minor),
        number("to", is_joined=True),
        replace(number("p"), rank=minor),
    ]
    assert layout.fitted(strips, 30).left_out == []
    assert layout.fitted(strips, 22).left_out == ["p"]
    assert layout.fitted(strips, 21).left_out == ["from", "to"]  # p fits where both do not
    assert layout.fitted(strips, 6).left_out == ["from", "to", "p"]
    assert layout.fitted(strips, 5).left_out == ["from", "to", "p"]  # its number is not cut
    assert list(layout.lines(layout.fitted(strips, 5))) == ["ratio", "1.2345"]


def test_a_long_table_takes_no_longer_a_line() -> None:
    def work(rows: int) -> int:
        reads = 0

        class Cells(list[str]):
            def __iter__(self) -> Iterator[str]:
                nonlocal reads
                reads += 1
                return super().__iter__()

        cells = Cells(["a name of some words"] * rows)
        strips = [layout.Strip(name=str(n), heading=str(n), cells=cells) for n in range(40)]
        layout.fitted(strips, 80)
        return reads

    assert work(1000) == work(10) <= 40 * 3  # the cells of a column are looked at a few times


def test_a_table_of_lifted_columns_alone_has_no_lines() -> None:
    assert list(layout.lines(layout.fitted([], 80))) == []


def test_a_file_gets_whole_lines_whatever_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert cli.main(WORDS["results"]) == 0
    said = capsys.readouterr()
    assert LONG_CASE in said.out
    assert "not shown" not in said.err


def test_a_terminal_is_as_wide_as_columns_says(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(200, monkeypatch) as screen:
        monkeypatch.setenv("COLUMNS", "60")
        cli.main(WORDS["jobs"])
    assert 40 < max(map(len, screen.text.splitlines())) <= 60


def test_the_command_itself_fits_a_terminal(start: Callable[..., str]) -> None:
    for line in start("jobs", "long", columns=60).splitlines():
        assert len(line) <= 60


@pytest.fixture
def start() -> Callable[..., str]:
    """Runs `vkbench` as a shell does, on a terminal of its own."""
    import subprocess

    code = "import sys; from vkbench_cli.main import main; sys.exit(main())"

    def started(*words: str, columns: int) -> str:
        with pytest.MonkeyPatch.context() as patch, terminal(columns, patch) as screen:
            command = [sys.executable, "-c", code, *words]
            subprocess.run(command, stdout=sys.stdout, check=True)
        return screen.text

    return started
