"""The stock of seeded models: made once, whole or not at all, and never in vain."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from vkbench.job import Job, Mode, Outcome, Source
from vkbench.settings import Settings, settings
from vkbench_shaders.gguf_file import open_gguf
from vkbench_shaders.models.cases import model_case
from vkbench_shaders.models.making import making
from vkbench_shaders.models.making.seeded import SEEDED, Seeded
from vkbench_worker.owner import stock
from vkbench_worker.owner.stock import Stock
from vkbench_worker.protocol import Stage

TINY = next(model for model in SEEDED if model.is_tiny)
LARGE = max(SEEDED, key=lambda model: model.plan.size)
PLENTY = 1 << 40


@pytest.fixture
def ours(tmp_path: Path) -> Settings:
    return replace(settings(), cache=tmp_path / "cache", data=tmp_path / "data")


def job(case: str, source: Source | None = None) -> Job:
    return Job(id=1, token=1, case=case, mode=Mode.CORRECTNESS, source=source)


OURS = [job(f"model/{TINY.name}/pp4"), job(f"model/{TINY.name}/tg4")]


class Taken:
    """What a stock gave, told and refused."""

    def __init__(self, ours: Settings) -> None:
        self.stages: list[Stage] = []
        self.refused: list[tuple[str, Outcome, str]] = []
        self.stock = Stock(ours, self.stages.append)

    def parts(
        self,
        jobs: list[Job],
        memory: int | None = PLENTY,
        is_over: Callable[[Job], bool] = lambda job: False,
    ) -> list[list[Job]]:
        def refuse(job: Job, outcome: Outcome, reason: str) -> None:
            self.refused.append((job.case, outcome, reason))

        return list(self.stock.parts(jobs, memory, is_over, refuse))


def files(ours: Settings) -> list[Path]:
    return [path for path in ours.cache.rglob("*") if path.is_file()]


def test_jobs_get_the_file_that_their_case_names(ours: Settings) -> None:
    other = job("model/mine-0123456789ab/pp4", Source(path="/mine.gguf", tensor=""))
    kernel = job("copy/f32/n1")
    taken = Taken(ours)
    first, second, third = taken.parts([kernel, kernel, *OURS, other])
    assert first == [kernel, kernel]
    assert third == [other]
    (source,) = {each.source for each in second}
    assert source
    assert [each.case for each in second] == [each.case for each in OURS]
    file = open_gguf(Path(source.path))
    model_case(OURS[0].case).check_file(file)
    assert files(ours) == [file.path]
    assert taken.stages[-1] == Stage(
        what=f"making {TINY.stem}.gguf", done=TINY.plan.size, total=TINY.plan.size
    )


def test_a_file_is_made_once(ours: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by several workers of one host at once."""
    made: list[str] = []
    real = making.make

    def noted(*given: object) -> None:
        made.append("")
        real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(making, "make", noted)
    threads = [Thread(target=Taken(ours).parts, args=(OURS,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    Taken(ours).parts(OURS)
    assert len(made) == 1
    assert len(files(ours)) == 1


def test_what_does_not_fit_is_skipped_before_it_is_made(
    ours: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = Taken(ours)
    large = job(f"model/{LARGE.name}/pp512")
    assert taken.parts([large], memory=1000) == [[]]
    free = shutil.disk_usage(os.sep)._replace(free=4000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: free)
    assert taken.parts([large, *OURS]) == [[], []]
    assert files(ours) == []
    assert {outcome for _, outcome, _ in taken.refused} == {Outcome.SKIPPED}
    reasons = [reason for _, _, reason in taken.refused]
    assert reasons[0].endswith("bytes of device memory; the device has 1,000")
    assert f"{LARGE.plan.size:,}" in reasons[0]
    assert "bytes of disk in" in reasons[1]
    assert reasons[1].endswith("; 4,000 are free")
    assert len(taken.refused) == 4


def small(name: str) -> Seeded:
    """A model of the tiny one's size under another hash."""
    return replace(TINY, hash=hashlib.sha256(name.encode()).hexdigest()[:12])


def test_files_that_were_not_used_for_long_make_room(
    ours: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One megabyte holds a tiny model; what jobs use stays, however old."""
    first, second, third = (small(name) for name in "abc")
    models = {each.name: each for each in (first, second, third)}
    monkeypatch.setattr(stock, "seeded_of", lambda case: models.get(case.split("/")[1]))
    plenty = Stock(replace(ours, model_megabytes=2), lambda stage: None)
    bounded = Stock(replace(ours, model_megabytes=1), lambda stage: None)

    def given(by: Stock, *wanted: Seeded) -> Iterator[list[Job]]:
        jobs = [job(f"model/{each.name}/pp4") for each in wanted]
        return by.parts(jobs, PLENTY, lambda job: False, lambda *said: None)

    def there() -> set[str]:
        return {path.parent.name for path in files(ours)}

    assert all(given(plenty, first, second))
    assert there() == {first.hash, second.hash}
    os.utime(ours.data / "locks" / f"{first.hash}.model", (1, 1))
    assert all(given(plenty, first))  # used again: the second is the oldest now
    os.utime(ours.data / "locks" / f"{second.hash}.model", (1, 1))
    used = given(bounded, second)
    assert next(used)  # a job uses it now
    assert all(given(bounded, third))
    assert there() == {second.hash, third.hash}
    assert list(used) == []
    assert all(given(bounded, first))
    assert there() == {first.hash}
    [[again]] = given(bounded, second)  # and is made again when a job needs it
    assert again.source
    assert Path(again.source.path).stat().st_size == TINY.plan.size
    assert there() == {second.hash}


def test_nobody_waits_for_a_file_that_is_not_wanted_any_more(ours: Settings) -> None:
    taken = Taken(ours)
    assert taken.parts(OURS, is_over=lambda job: True) == [[]]
    assert taken.refused == []
    assert files(ours) == []


def test_a_folder_that_takes_no_file_is_an_error(ours: Settings) -> None:
    ours.cache.mkdir()
    (ours.cache / "models").write_text("no folder")
    taken = Taken(ours)
    assert taken.parts(OURS[:1]) == [[]]
    ((_, outcome, reason),) = taken.refused
    assert outcome is Outcome.ERROR
    assert reason.startswith("cannot make ")
