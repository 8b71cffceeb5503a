"""Runs llama.cpp's llama-bench on a model's file: a prompt, or the token at the end of others."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from vkbench.device import DeviceFacts
from vkbench.job import Job
from vkbench.settings import Settings
from vkbench_shaders.models.cases import GENERATE, ModelCase, named
from vkbench_worker.peers.library import CannotDo
from vkbench_worker.peers.llama_cpp.llama_bench_file import PeerTest, read_tests
from vkbench_worker.peers.llama_cpp.program import PROCESSOR, backend_of, environ, program, run

BENCH: Final = "llama-bench"
REPETITIONS: Final = 5  # of a test, each a sample
_ALL_LAYERS: Final = "999"
_LISTED: Final = re.compile(r"\s+(\w+): (.*) \(\d+ MiB, \d+ MiB free\)")
_ANSWER_SECONDS: Final = 60.0  # to list devices


class LlamaBench:
    """The program on one device."""

    def __init__(self, facts: DeviceFacts, settings: Settings) -> None:
        self._path = program(BENCH, settings)
        self._environ = environ(facts)
        listed = run([self._path, "--list-devices"], self._environ, _ANSWER_SECONDS)
        lines = filter(None, map(_LISTED.fullmatch, listed.splitlines()))
        backends = {line[1]: line[2] for line in lines}
        self.backend = backend_of(facts, {**backends, PROCESSOR: ""})

    def timed(self, job: Job, seconds: float) -> PeerTest:
        """What it found of a model's case, within so many seconds."""
        if job.source is None:
            raise CannotDo(f"{BENCH} needs the file of the model")
        command = [self._path, "-m", job.source.path, *self._test(named(job.case)), "-o", "json"]
        said = run(command, self._environ, seconds)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, f"{BENCH}.json")
            file.write_text(said)
            [test] = read_tests(file)
        return test

    def _test(self, case: ModelCase) -> Sequence[str]:
        """The options of a case: of a generation the last token, as ours is timed."""
        if case.batch > 1:
            raise CannotDo(f"{BENCH} has no batch of sequences")
        if case.context:
            raise CannotDo(f"{BENCH} has caches of the tokens it reads, and of no other size")
        last = ("-p", "0", "-n", "1", "-d", str(case.tokens - 1))
        tokens = last if case.phase == GENERATE else ("-p", str(case.tokens), "-n", "0")
        on_gpu = self.backend != PROCESSOR
        where = ("-ngl", _ALL_LAYERS, "-dev", self.backend) if on_gpu else ("-ngl", "0")
        caches = ("-ctk", case.cache, "-ctv", case.cache)
        return (*tokens, *caches, *where, "-r", str(REPETITIONS))
