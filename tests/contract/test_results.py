"""The page of measured figures is what its files say, and all of them can be imported."""

import subprocess
import sys
from pathlib import Path

from vkbench_shaders.catalogue import problem

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"
FILES = sorted(RESULTS.glob("h200-*.jsonl"))


def test_the_page_is_made_of_its_files() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "quant_table.py")]
    made = subprocess.run(
        [*command, RESULTS / "ggml-vulkan-h200.csv", *FILES],
        capture_output=True,
        text=True,
        check=True,
    )
    assert made.stdout == (RESULTS / "h200-quant-perf.md").read_text()


def test_the_files_can_be_imported_twice(tmp_path: Path) -> None:
    said = []
    for file in (FILES[-1], FILES[-1]):
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
