"""Attempts by who has a file read: small ones that would fill the memory, or never come to an end.

Each is refused in a sentence, by bounds and before its memory is taken.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

import bombs
from planted_own import CASE as OWN_CASE
from planted_own import built_own, write_own
from vkbench.errors import UsageError, VkbenchError
from vkbench_cli.arrays import read_arrays
from vkbench_db.errors import ImportRefused
from vkbench_db.transfer import transcript
from vkbench_shaders.archive import from_archive
from vkbench_shaders.bundle import MANIFEST, CorruptBundle, packaged
from vkbench_shaders.gguf_file import BadGguf, open_gguf
from vkbench_shaders.kernel import Problem
from vkbench_shaders.own import declaration
from vkbench_shaders.own.building import build
from vkbench_shaders.own.posing import pose_case
from vkbench_shaders.own.records import UnfitDeclaration
from vkbench_shaders.own.references import from_npz

VKBENCH = Path(sys.executable).with_name("vkbench")
MB = 1 << 20
MOST_BYTES = 200 * MB  # that reading any of these may take
ADDRESS_SPACE = 2 << 20  # KiB that a command may have
CASE = "shape = { m = 3, k = 96 }"


@contextmanager
def refused(error: type[VkbenchError]) -> Iterator[None]:
    """A file is refused by this error in one line, and in little memory."""
    tracemalloc.start()
    try:
        with pytest.raises(error) as caught:
            yield
        said, (_, most) = str(caught.value), tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert said
    assert "\n" not in said
    assert len(said) < 500
    assert most < MOST_BYTES


@pytest.fixture(scope="module")
def own_problem(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    """A case of a user's kernel, which an npz file may bring arrays of."""
    return pose_case(built_own(tmp_path_factory.mktemp("own")).bundle, OWN_CASE)


@pytest.mark.parametrize("name", bombs.NPZ)
def test_arrays_of(name: str, own_problem: Problem, tmp_path: Path) -> None:
    path = tmp_path / "in.npz"
    path.write_bytes(bombs.NPZ[name]())
    assert path.stat().st_size < 4 * MB
    with refused(UsageError):
        read_arrays(path)
    with refused(UnfitDeclaration):
        from_npz(path, own_problem)


def test_arrays_from_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "in.npz")
    with refused(UsageError):
        read_arrays(tmp_path / "in.npz")


@pytest.mark.parametrize(
    "words",
    [
        ["exec", "softmax", "--output", "out.npz", "--input", "x.npz"],
        ["kernel", "check", "rms_quant.toml"],
        ["import", "x.npz"],
    ],
)
def test_a_command_that_has_little_memory(words: list[str], tmp_path: Path) -> None:
    write_own(tmp_path, {CASE: f"{CASE}\nnpz = 'x.npz'"})
    (tmp_path / "x.npz").write_bytes(bombs.zeros())
    limited = f'ulimit -v {ADDRESS_SPACE}; exec "$@"'
    done = subprocess.run(
        ["bash", "-c", limited, "bash", str(VKBENCH), *words],
        cwd=tmp_path,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "VKBENCH_DATA": str(tmp_path / "data")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (UsageError.exit_code, ImportRefused.exit_code), done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "internal error" not in done.stderr
    assert "allocate" not in done.stderr


KERNEL = '{"name":"a","variants":[],"cases":[]}'
MANIFESTS: Mapping[str, Callable[[], bytes]] = {
    "a million kernels": lambda: bombs.manifest(packaged().text, KERNEL),
    "brackets": lambda: b"[" * (31 * MB),
    "kernels that nest": lambda: bombs.manifest(packaged().text, '{"a":' * 100_000),
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_bundle_with_a_manifest_of(name: str) -> None:
    archive = bombs.zipped({MANIFEST: MANIFESTS[name]()}, zipfile.ZIP_DEFLATED)
    assert len(archive) < MB
    with refused(CorruptBundle):
        from_archive(archive)


DECLARATIONS: Mapping[str, str] = {
    "a name of many parts": f"a{'.a' * 400_000} = 1",
    "arrays that nest": "a = " + "[" * 1_000_000,
    "tables that nest": "a = " + "{a=" * 300_000,
    "a number of many digits": f"a = {'9' * 900_000}",
    "a formula of many digits": f"flops = '{'9' * 900_000}'",
    "a formula that nests": f"flops = '{'(' * 190}'",
}


@pytest.mark.parametrize("name", DECLARATIONS)
def test_a_declaration_with(name: str, tmp_path: Path) -> None:
    text = DECLARATIONS[name]
    path = write_own(tmp_path)
    kept = path.read_text()
    line = next(line for line in kept.splitlines() if line.startswith("flops"))
    path.write_text(kept.replace(line, text) if text.startswith("flops") else text)
    with refused(UsageError):
        declaration.read(path, "somebody")
        build(path, "somebody")


LINES: Mapping[str, str] = {
    "brackets": "[" * 1_000_000,
    "objects that nest": '{"header":' * 100_000,
    "a value that nests": '{"header":' + '{"a":' * 200_000,
    "a number of many digits": f'{{"header":{{"version":{"9" * 900_000}}}}}',
    "many numbers": f'{{"header":{{"x":[{"0," * 450_000}0]}}}}',
    "a run of many tags": f'{{"run":{{"tags":{{"x":[{"{}," * 300_000}0]}}}}}}',
}


@pytest.mark.parametrize("name", LINES)
def test_an_import_with(name: str) -> None:
    with refused(ImportRefused):
        list(transcript.read_records([LINES[name]]))


def string(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def gguf(tensors: int, keys: int, rest: bytes) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, keys) + rest


ARRAYS = string(b"a") + struct.pack("<IIQ", 9, 9, 2**60) + struct.pack("<IQ", 0, 0) * 80_000
WORDS = string(b"tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 2**62) + bytes(MB)
SIZES = string(b"a") + struct.pack("<IQQQQIQ", 4, *[2**62] * 4, 0, 0)
MODELS: Mapping[str, bytes] = {
    "2^63 tensors": gguf(2**63, 0, bytes(MB)),
    "2^63 keys": gguf(0, 2**63, bytes(MB)),
    "2^60 arrays in an array": gguf(0, 1, ARRAYS),
    "2^62 words": gguf(0, 1, WORDS),
    "a tensor of 2^248": gguf(1, 0, SIZES),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_with(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(MODELS[name])
    with refused(BadGguf):
        open_gguf(path)
