"""The page of measured figures is what its files say, and all of them can be imported."""

import subprocess
import sys
from pathlib import Path

import pytest

from vkbench_shaders.catalogue import problem

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"
FILES = sorted(RESULTS.glob("h200-*.jsonl"))


TRANSFORMER = sorted(RESULTS.glob("transformer-h200-*.jsonl"))
PAGES = {
    "h200-quant-perf.md": ("quant_table.py", "ggml-vulkan-h200.csv", FILES),
    "h200-transformer-perf.md": ("transformer_table.py", "peers-h200.csv", TRANSFORMER),
}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_made_of_its_files(page: str) -> None:
    script, others, files = PAGES[page]
    command = [sys.executable, str(ROOT / "benchmarks" / script)]
    made = subprocess.run(
        [*command, RESULTS / others, *files], capture_output=True, text=True, check=True
    )
    assert made.stdout == (RESULTS / page).read_text()


@pytest.mark.parametrize("last", [FILES[-1], TRANSFORMER[-1]], ids=lambda file: file.stem)
def test_the_files_can_be_imported_twice(tmp_path: Path, last: Path) -> None:
    said = []
    for file in (last, last):
        command = [sys.executable, "-c", "from vkbench_cli.main import main; main()", "import"]
        done = subprocess.run(
            [*command, str(file), "--database", str(tmp_path / "results.db")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        said.append(done.stdout + done.stderr)
    assert said[0] != said[1]


def test_every_measured_type_is_at_least_half_as_fast_as_ggml() -> None:
    """With the faster kind of vectors, at n 1."""
    page = (RESULTS / "h200-quant-perf.md").read_text().splitlines()
    start = page.index("## mul_mat_vec, m 4096 n 1 k 14336")
    rows = [line.strip("| ").split(" | ") for line in page[start + 4 : page.index("", start + 2)]]
    rows = [row for row in rows if len(row) == 9]
    ratios = {row[0]: float(row[-1]) for row in rows if row[-1]}
    assert len(ratios) == 27
    assert min(ratios.values()) >= 0.5, ratios
    assert all(problem(f"mul_mat_vec/{name}/m4096_n1_k14336") for name in ratios)


def test_softmax_and_argmax_are_at_least_as_fast_as_torch() -> None:
    page = (RESULTS / "h200-transformer-perf.md").read_text().splitlines()
    rows = [line.strip("| ").split(" | ") for line in page if " | torch | " in line]
    ratios = {row[0].partition("/")[0]: float(row[-1]) for row in rows}
    assert {"softmax", "argmax", "argsort", "rms_norm", "layer_norm"} <= set(ratios)
    for kernel in ("softmax", "argmax", "argsort", "rms_norm", "layer_norm"):
        assert ratios[kernel] >= 1, ratios
