"""Wrong kernels, built from an edited shader tree and run by a real driver, are caught."""

from __future__ import annotations

import shutil
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from vkbench.job import Job, Mode, Outcome
from vkbench.result import Result
from vkbench_shaders import compiler
from vkbench_shaders.build import TREE, tree_sha
from vkbench_shaders.bundle import Bundle, entry_key, manifest_text, unit_of
from vkbench_shaders.catalogue import kernel_named
from vkbench_worker.execute import execute
from vkbench_worker.runtime.device import Device

MILLION = "add/f32/b1_c1_h1000_w1000"
SMALL = "add/f32/b1_c1_h17_w129"
TYPES = {"a": "f32", "b": "f32", "y": "f32"}
STORE = "store<Y>(push, share, y, wide_y, results);"

# What is done to four sums before they are stored, `first` being the first one's place.
WRONG = {
    "unwritten": "if (first == 500000) sum.z = asfloat(wide_y[first / 4].z);",
    "past_the_end": "if (first == 0) y[1000000 + 5] = 1;",
    "large_only": "if (first >= 4000) sum *= 1.01;",
    "not_a_number": "if (first == 12) sum.x = asfloat(0x7f800001);",
    "imprecise": "sum *= 1.001;",
    "unrepeatable": "if (wide_y[first / 4].x == 0x7FC07FC0) sum.x *= 1.0000002;",
}


@pytest.fixture
def planted(request: pytest.FixtureRequest, tmp_path: Path, bundle: Bundle) -> Bundle:
    tree = tmp_path / "slang"
    shutil.copytree(TREE, tree)
    source = (tree / "binary.slang").read_text()
    assert STORE in source
    edit = f"float4 planted(uint first, float4 sum)\n{{\n{WRONG[request.param]}\nreturn sum;\n}}\n"
    place = "(share.first + k * share.step) * 4"
    changed = f"results.fours[k] = asuint(planted({place}, asfloat(results.fours[k])));"
    source = source.replace(STORE, f"[unroll] for (int k = 0; k < 4; k++) {changed}\n{STORE}")
    source = source.replace('[shader("compute")]', f'{edit}\n[shader("compute")]')
    (tree / "binary.slang").write_text(source)
    return with_add_of(tree, bundle)


def with_add_of(tree: Path, bundle: Bundle) -> Bundle:
    """The packaged kernels, but `add` compiled from another tree."""
    slang = compiler.find()
    add = kernel_named("add").variant("portable")
    code = slang.compile(unit_of(add, TYPES), tree)
    sha = sha256(code).hexdigest()
    entries = {
        **bundle.entries,
        entry_key(add, TYPES): replace(
            bundle.entry(entry_key(add, TYPES)), sha256=sha, bytes=len(code)
        ),
    }
    text = manifest_text(slang.version, tree_sha(tree), tuple(entries.values()))
    return Bundle(text=text, blobs={**bundle.blobs, sha: code}).check()


def run(device: Device, bundle: Bundle, case: str, mode: Mode = Mode.CORRECTNESS) -> Result:
    job = Job(id=1, token=1, case=case, mode=mode, measure_seconds=0.05)
    return execute(device, bundle, job)


@pytest.mark.parametrize(
    ("planted", "reason"),
    [
        ("unwritten", "1 of 1000000 elements of y were never written"),
        (
            "past_the_end",
            "8 guard bytes of y were overwritten, the first 20 bytes behind it",
        ),  # 4 in each run
        ("not_a_number", "1 elements of y are NaN or Inf"),
        ("imprecise", "elements of y are not exactly the reference"),
        ("unrepeatable", "elements of y differ between two runs"),
    ],
    indirect=["planted"],
)
def test_a_wrong_kernel_is_wrong(lavapipe: Device, planted: Bundle, reason: str) -> None:
    for mode in (Mode.CORRECTNESS, Mode.PERFORMANCE):
        result = run(lavapipe, planted, MILLION, mode)
        assert result.outcome is Outcome.WRONG, result.reason
        assert reason in result.reason
        assert not result.timings


@pytest.mark.parametrize("planted", ["large_only"], indirect=True)
def test_right_when_checked_and_wrong_when_timed(lavapipe: Device, planted: Bundle) -> None:
    assert run(lavapipe, planted, SMALL).outcome is Outcome.PASSED
    timed = run(lavapipe, planted, MILLION, Mode.PERFORMANCE)
    assert timed.outcome is Outcome.WRONG
    assert "elements of y are not exactly the reference" in timed.reason
    assert not timed.timings
    assert timed.verdict
    assert timed.verdict.first_bad.startswith("y[0,0,")
