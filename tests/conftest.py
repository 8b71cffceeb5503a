"""What every test has: a data folder, the session's cache, no developer's settings, strict numpy.

A test that needs something of the machine asks `need` for it: a laptop without it skips with the
reason, a machine whose VKBENCH_REQUIRE names it (comma list: browser, gpu, swiftshader,
new-lavapipe, redis, postgres, validation, index, glslang, compose, torch, ggml) fails.
"""

from __future__ import annotations

import gc
import itertools
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from math import ceil
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from vkbench.settings import settings

pytest_plugins = ["databases", "kept_labs"]

# Tests start a thousand processes, and without bytecode files each compiles all its modules again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

REQUIRED = set(filter(None, os.environ.get("VKBENCH_REQUIRE", "").split(",")))

STARTING = ("attack", "broker", "docs", "e2e")  # folders of tests that start commands and servers

Need = Callable[[str, str], NoReturn]
GgufFile = Callable[[Mapping[str, tuple[str, np.ndarray]]], Path]


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--renew` writes stored output anew instead of comparing with it."""
    parser.addoption("--renew", action="store_true", help="write the snapshots of tests/cli anew")


@pytest.fixture
def renew(request: pytest.FixtureRequest) -> bool:
    """Whether snapshots are to be written anew."""
    return bool(request.config.getoption("--renew"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that may take long come first, so that no process ends with one while others wait.

    pytest-xdist gives each process an equal part of the list: there each begins with its share of
    them. All get whole modules: few processes make a module's fixtures, and none waits for another
    that makes what they share.
    """
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    modules: dict[Path, list[pytest.Item]] = {}
    for item in sorted(filter(_most_seconds, items), key=_most_seconds, reverse=True):
        modules.setdefault(item.path, []).append(item)
    long = list(modules.values())
    short = [item for item in items if not _most_seconds(item)]
    parts = [list(chain(*long[number::processes])) for number in range(processes)]
    size = ceil(len(items) / processes)
    for part in parts:
        room = max(size - len(part), 0)
        part += short[:room]
        del short[:room]
    items[:] = [item for part in parts for item in part]
    if os.environ.get("CI"):
        _allow_more_time(items)


def _allow_more_time(items: list[pytest.Item]) -> None:
    """A shared machine of CI may be three times as slow as one on which limits were chosen."""
    for item in items:
        default = float(item.config.getoption("timeout") or item.config.getini("timeout"))
        mark = item.get_closest_marker("timeout")
        item.add_marker(pytest.mark.timeout(3 * (mark.args[0] if mark else default)), append=False)


def pytest_collection_finish() -> None:
    """What twenty thousand tests are made of stays: garbage is not looked for in it again."""
    gc.collect()
    gc.freeze()


def _most_seconds(item: pytest.Item) -> float:
    """What a test's own mark `timeout` allows it; 0 without, if it starts no processes."""
    mark = item.get_closest_marker("timeout")
    if mark:
        return float(mark.args[0])
    return 1.0 if item.path.parent.name in STARTING else 0.0


@pytest.fixture(scope="session")
def need() -> Need:
    """`need("redis", "redis-server is not installed")` ends the test: skips it, or fails it."""

    def lacking(name: str, reason: str) -> NoReturn:
        if name in REQUIRED:
            pytest.fail(f"VKBENCH_REQUIRE names {name}, but {reason}", pytrace=False)
        pytest.skip(f"{name}: {reason}")

    return lacking


@pytest.fixture(scope="session")
def glslang(need: Need) -> None:
    """This machine compiles GLSL."""
    if not shutil.which("glslangValidator"):
        need("glslang", "glslang-tools is not installed")


@pytest.fixture(scope="session")
def new_lavapipe(need: Need) -> Path:
    """The folder of `python`, `vkbench` and `spirv-val` that run on Mesa's newer CPU driver."""
    commands = Path(sys.prefix, "new-lavapipe", "bin")
    if not (commands / "spirv-val").exists():
        need(
            "new-lavapipe",
            "it is not unpacked; `scripts/new-lavapipe .venv` does that, or says why not",
        )
    return commands


@pytest.fixture(scope="session")
def ggml_folder(need: Need) -> Path:
    """The folder of ggml's libraries that scripts/ggml unpacked."""
    return _find_ggml("ggml", need)


@pytest.fixture(scope="session")
def older_ggml_folder(need: Need) -> Path:
    """The folder of those of an older release, b7347 of 2025."""
    return _find_ggml("ggml-2025", need)


@pytest.fixture(scope="session")
def ggml_shaders(need: Need) -> Path:
    """The folder with the sources of ggml's shaders of two years, from `scripts/ggml-shaders`."""
    return _find_ggml("ggml-shaders", need)


def _find_ggml(name: str, need: Need) -> Path:
    folder = Path(sys.prefix, name)
    if sys.prefix.endswith("new-lavapipe"):  # a Python of its own, within the usual one
        folder = Path(sys.prefix).parent / name
    if not folder.exists():
        script = "ggml-shaders" if name == "ggml-shaders" else "ggml"
        need("ggml", f"it is not unpacked; `scripts/{script} .venv` does that, or says why not")
    return folder


@pytest.fixture
def gguf_file(tmp_path: Path) -> GgufFile:
    """`gguf_file({"name": ("q4_0", values)})` is a GGUF file, written by gguf, of these tensors."""
    from gguf import GGMLQuantizationType, GGUFWriter

    from vkbench_shaders.quantisers import quants

    def written(tensors: Mapping[str, tuple[str, np.ndarray]]) -> Path:
        path = tmp_path / "model.gguf"
        writer = GGUFWriter(path, "llama")
        writer.add_array("tokenizer.ggml.tokens", ["a", "bb", "ccc"])
        writer.add_array("llama.layers", [1, 2, 3])
        writer.add_float32("llama.rope.freq_base", 10000.0)
        for name, (fmt, values) in tensors.items():
            stored = quants.quantise(fmt, values)
            writer.add_tensor(name, stored, raw_dtype=GGMLQuantizationType[fmt.upper()])
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    return written


@pytest.fixture(scope="session")
def session_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache folder of all tests of a session, so that pipelines compile once.

    The Slang compiler, compiled units, names of valid ones, and what drivers have compiled, all
    named by what they hold, are the developer's.
    """
    cache = tmp_path_factory.mktemp("cache")
    for name in ("valid", "drivers"):
        (settings().cache / name).mkdir(parents=True, exist_ok=True)
    for name in ("slang-*", "spirv", "valid", "drivers"):
        for folder in settings().cache.glob(name):
            (cache / folder.name).symlink_to(folder)
    return cache


@pytest.fixture(scope="session")
def data_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Data folders, a test each, which do not exist yet: few tests need one on the disk."""
    together = tmp_path_factory.mktemp("data")
    return (together / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def _own_settings(
    monkeypatch: pytest.MonkeyPatch, data_folders: Iterator[Path], session_cache: Path
) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith("VKBENCH_")]:
        if name != "VKBENCH_REQUIRE":
            monkeypatch.delenv(name)
    monkeypatch.setenv("VKBENCH_DATA", str(next(data_folders)))
    monkeypatch.setenv("VKBENCH_CACHE", str(session_cache))
    settings.cache_clear()
    yield
    settings.cache_clear()


@pytest.fixture(autouse=True)
def _strict_numpy() -> Iterator[None]:
    # Underflow is what narrow formats do for a living; the rest is a mistake.
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        yield
