"""ggml's libraries are found, and its outputs read in our order; tests/gpu/test_ggml.py runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from math import prod
from pathlib import Path

import numpy as np
import pytest

from vkbench.settings import settings
from vkbench_shaders.catalogue import kernel_named, problem
from vkbench_shaders.tolerance import limits_of
from vkbench_worker.peers.library import CannotDo
from vkbench_worker.peers.llama_cpp.api import Api, find_libraries
from vkbench_worker.peers.llama_cpp.operations.chains import CHAINS
from vkbench_worker.peers.llama_cpp.operations.signatures import FUNCTIONS, GATED
from vkbench_worker.peers.llama_cpp.operations.table import LACKS, ROWS
from vkbench_worker.peers.llama_cpp.program import places_read

Build = Callable[..., Path]


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    """`build("bin", "lib/libggml-base.so")` is the folder `bin` beside that file."""

    for name in ("GGML_VK_VISIBLE_DEVICES", "GGML_NO_BACKTRACE"):  # which loading sets
        monkeypatch.setenv(name, "0")

    def made(folder: str, *files: str) -> Path:
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        for name in files:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).touch()
        return tmp_path / folder

    return made


@pytest.mark.parametrize(
    ("base", "vulkan"),
    [
        ("bin/libggml-base.so", "bin/libggml-vulkan.so"),
        ("lib/libggml-base.so.0.9.4", "lib/libggml-vulkan.so"),
        (
            "lib/x86_64-linux-gnu/libggml-base.so.0",
            "lib/x86_64-linux-gnu/ggml/backends0/libggml-vulkan.so",
        ),
        ("bin/ggml-base.dll", "bin/ggml-vulkan.dll"),
        ("lib/libggml-base.0.dylib", "lib/libggml-vulkan.0.dylib"),
    ],
)
def test_libraries_lie_by_the_programs_or_near_them(
    build: Build, tmp_path: Path, base: str, vulkan: str
) -> None:
    folder = build("bin", base, vulkan)
    found = [path.resolve() for path in find_libraries(str(folder))]
    assert found == [tmp_path / base, tmp_path / vulkan]


def test_without_a_folder_the_programs_of_the_path_lead_there(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = build("bin", "lib/libggml-base.so", "lib/libggml-vulkan.so")
    monkeypatch.setenv("PATH", f"/nowhere:{programs}")
    assert find_libraries("")[1].name == "libggml-vulkan.so"


@pytest.mark.parametrize("is_named", [True, False])
def test_a_contained_peer_reads_them_wherever_they_lie(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_named: bool
) -> None:
    programs = build("mine/bin", "mine/lib/libggml-base.so", "store/1/libggml-vulkan.so.1")
    (tmp_path / "mine/lib/libggml-vulkan.so").symlink_to(tmp_path / "store/1/libggml-vulkan.so.1")
    monkeypatch.setenv("PATH", f"/nowhere:{programs}")
    places = places_read(replace(settings(), ggml=str(programs) if is_named else ""))
    assert {tmp_path / "mine/bin", tmp_path / "mine/lib", tmp_path / "store/1"} <= set(places)
    monkeypatch.setenv("PATH", "/nowhere")
    assert places_read(replace(settings(), ggml="")) == []


def test_where_there_are_no_libraries_the_setting_is_named(build: Build) -> None:
    folder = build("bin", "bin/libggml-base.so", "bin/libggml-vulkan.so.txt")
    with pytest.raises(CannotDo) as refused:
        find_libraries(str(folder))
    assert str(refused.value) == (
        f"ggml's libraries are not in {folder}: VKBENCH_GGML names their folder"
    )


def test_files_that_are_no_libraries_are_the_reason(build: Build) -> None:
    folder = build("bin", "bin/libggml-base.so", "bin/libggml-vulkan.so")
    with pytest.raises(CannotDo, match=r"cannot load ggml's libraries: .*libggml-base\.so"):
        Api(str(folder), 0)


def test_a_build_without_a_function_is_the_reason(build: Build) -> None:
    folder, other = build("bin"), find_spec("msgspec._core")
    assert other
    assert other.origin
    for name in ("libggml-base.so", "libggml-vulkan.so"):
        (folder / name).symlink_to(other.origin)
    with pytest.raises(CannotDo, match="this build of ggml has no ggml_init"):
        Api(str(folder), 0)


@pytest.mark.parametrize("name", ROWS)
def test_each_row_names_a_function_and_limits(name: str) -> None:
    row = ROWS[name]
    assert row.function in FUNCTIONS.keys() ^ CHAINS.keys()
    if name in GATED:
        assert f"{row.function}_swapped" in FUNCTIONS
    for case in kernel_named(name).timed:
        path = row.path if isinstance(row.path, str) else row.path(problem(case.name))
        assert not path or limits_of(path)


def test_what_ggml_lacks_is_a_kernel_without_a_row() -> None:
    assert not LACKS.keys() & ROWS.keys()
    assert all(kernel_named(name) for name in LACKS)


@pytest.mark.parametrize("name", ROWS)
def test_parameters_of_rows_are_the_kernels(name: str) -> None:
    assert ROWS[name].params <= kernel_named(name).params.keys()


def test_heads_of_a_query_become_queries_of_a_head() -> None:
    posed = problem("flash_attn/f16/s2_h6_g2_q3_n64_d64_e32")
    shape = posed.layout("y").shape
    ours = np.arange(prod(shape), dtype=np.float32).reshape(shape)
    theirs = np.ascontiguousarray(ours.transpose(0, 2, 1, 3)).reshape(shape)
    found = ROWS["flash_attn"].order["y"](posed, theirs, lambda name: theirs)
    assert np.array_equal(found, ours)


@pytest.mark.parametrize("order", ["ascending", "descending"])
def test_equal_numbers_come_in_the_order_of_their_places(order: str) -> None:
    posed = problem(f"argsort/f32/h1_w6/order={order}")
    x = np.array([[2, 1, 2, -0.0, 1e-40, 0]], np.float32)  # the last three: zeros to some devices
    rising = [[5, 3, 4, 1, 2, 0]]
    theirs = np.array(rising if order == "ascending" else [rising[0][::-1]], np.int32)
    found = ROWS["argsort"].order["y"](posed, theirs, lambda name: x)
    [wanted] = ([3, 5, 4, 1, 0, 2],) if order == "ascending" else ([0, 2, 1, 4, 3, 5],)
    assert found.tolist() == [wanted]


@pytest.mark.parametrize("wrong", [[1, 0, 2], [0, 0, 2], [7, 0, 2]])
def test_numbers_out_of_order_stay_so(wrong: list[int]) -> None:
    x = np.array([[1, 2, 3]], np.float32)
    y = np.array([wrong], np.int32)
    found = ROWS["argsort"].order["y"](problem("argsort/f32/h1_w3"), y, lambda name: x)
    assert found.tolist() == [wrong]


def test_the_first_of_the_largest_numbers_counts() -> None:
    x = np.array([[[[1, 5, 5, 2]]]], np.float32)
    to_first = ROWS["argmax"].order["y"]
    found = [
        to_first(problem("argmax/f32/b1_c1_h1_w4"), np.array([[[[at]]]], np.int32), lambda name: x)
        for at in (2, 1, 3, 9)  # of the largest, another number, and none
    ]
    assert [int(each.squeeze()) for each in found] == [1, 1, 3, 9]
    assert {each.dtype for each in found} == {np.dtype(np.int32)}
