"""The page of measured figures is what its files say, and all of them can be imported."""

import json
import lzma
import runpy
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"
RESULT_PAGES = runpy.run_path(str(ROOT / "benchmarks/results/result_pages.py"))
PAGES: Mapping[str, Sequence[str]] = RESULT_PAGES["PAGES"]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_made_of_its_files(page: str) -> None:
    assert RESULT_PAGES["make_page"](page) == (RESULTS / page).read_text()


def test_exports_are_small() -> None:
    exports = {path.name: path.stat().st_size for path in RESULTS.glob("*.jsonl*")}
    assert set(exports) == {word for words in PAGES.values() for word in words if ".jsonl" in word}
    assert sum(exports.values()) < 3_000_000


@pytest.mark.slow
@pytest.mark.parametrize(
    "last", [RESULTS / "h100-torch.jsonl.xz", RESULTS / "h100-models.jsonl.xz"], ids=str
)
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


def test_every_type_is_at_least_half_as_fast_as_ggml() -> None:
    """At n 1, from f32 vectors to the result, by what `auto` takes and by name."""
    rows = rows_under("h100-ggml.md", "# Beside ggml")
    ratios = {
        row[0].split("/")[1]: float(row[3]) for row in rows if row[0].startswith("mul_mat_vec/")
    }
    assert len(ratios) == 27
    assert min(ratios.values()) >= 0.5, ratios
    named = {row[0]: float(row[3]) for row in rows_under("h100-ggml.md", "## By name")}
    assert min(named.values()) >= 1, named


def test_softmax_and_argmax_are_at_least_as_fast_as_torch() -> None:
    rows = rows_under("h100-torch.md", "# Beside torch")
    ratios: dict[str, list[float]] = {}
    for row in rows:
        if row[3] != "too noisy":
            ratios.setdefault(row[0].partition("/")[0], []).append(float(row[3]))
    assert {"softmax", "argmax", "argsort", "rms_norm", "layer_norm"} <= set(ratios)
    for kernel in ("softmax", "argmax", "argsort", "rms_norm", "layer_norm"):
        assert min(ratios[kernel]) >= 1, ratios


VECTOR = "mul_mat_vec/q4_0:x=q8_1/m4096_n1_k14336"
PLAIN = "mul_mat_vec/q4_0/m4096_n1_k14336"
QUANTISING = "quantize/q8_1/b1_m1_k14336"


def test_a_product_of_q8_1_vectors_counts_with_quantising_them(tmp_path: Path) -> None:
    export = planted(tmp_path / "one.jsonl", {PLAIN: 23e-6, VECTOR: 10e-6, QUANTISING: 4e-6})
    assert whole_on_page(export) == "14.0"  # 10 + 4


@pytest.mark.parametrize("elsewhere", [False, True], ids=["never", "in another export"])
def test_without_the_time_of_quantising_there_is_no_whole(tmp_path: Path, elsewhere: bool) -> None:
    exports = [planted(tmp_path / "product.jsonl", {PLAIN: 23e-6, VECTOR: 10e-6})]
    if elsewhere:
        exports.insert(0, planted(tmp_path / "earlier.jsonl", {QUANTISING: 4e-6}))
    assert whole_on_page(*exports) == ""


def test_the_page_counts_quantising() -> None:
    for heading in ("## mul_mat_vec from f32 vectors", "## mul_mat from f32 vectors"):
        rows = rows_under("h100-quant-perf.md", heading)
        assert any(whole for *_, whole in rows)
        for _, _, _, alone, quantising, whole in rows:
            if whole:
                assert float(whole) == pytest.approx(float(alone) + float(quantising), abs=0.11)


def test_a_row_of_an_older_build_names_it(tmp_path: Path) -> None:
    """A file's name says nothing: the run that began last is of the newest build."""
    newer = planted(tmp_path / "a.jsonl", {PLAIN: 23e-6}, bundle="new" * 20, at=86400.0 * 9)
    older = planted(tmp_path / "b.jsonl", {QUANTISING: 4e-6}, bundle="old" * 20, at=86400.0)
    said = page_of(newer).replace("\n", " ")
    assert "Our kernels are those of bundle newnewne of 1970-01-10" in said
    page = page_of(newer, older)
    assert "column `older build`" in page.replace("\n", " ")
    [row] = [line for line in page.splitlines() if line.startswith(f"| {QUANTISING} |")]
    assert row.endswith("| oldoldol of 1970-01-02 |")
    [row, *_] = [line for line in page.splitlines() if line.startswith("| q4_0 | 23.0 |")]
    assert "1970" not in row


BF16 = "mul_mat/bf16/m4096_n512_k14336"


@pytest.mark.parametrize("is_timed", [True, False])
def test_a_page_beside_torch_says_where_the_sides_are_unlike(
    tmp_path: Path, is_timed: bool
) -> None:
    """auto keeps x in f32 beside weights of bf16: what the path that rounds it takes is said."""
    compared = {
        "case": BF16,
        "mode": "peer",
        "variant": "torch",
        "state": "passed",
        "attempts": [{"settings": "version=2,ours=portable", "bundle": "5a" * 32}],
        "timings": [
            {"metric": metric, "seconds": seconds, "low": seconds, "high": seconds}
            for metric, seconds in (("hot", 1e-4), ("ours", 2e-3))
        ],
    }
    alike = compared | {"case": "add/f32/b1_c1_h1_w4096"}
    by_name = compared | {
        "mode": "performance",
        "variant": "coopmat_to_bf16",
        "timings": [{"metric": "hot", "seconds": 1.5e-4}],
    }
    jobs = [{"job": job} for job in (compared, alike, *([by_name] if is_timed else []))]
    export = planted(tmp_path / "torch.jsonl", {})
    export.write_text(export.read_text() + "".join(json.dumps(job) + "\n" for job in jobs))
    command = [
        sys.executable,
        str(ROOT / "benchmarks/results/peers_table.py"),
        "torch",
        str(export),
    ]
    page = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    said = page.replace("\n", " ")
    assert f"{BF16}: the two sides do not do the same. torch rounds x to bf16" in said
    assert f"{BF16} | 2000.0 | 100.0 | 0.05 | portable |" in page
    assert f"Geometric mean of 1, without {BF16}: 0.05." in page
    rounded = {row[0]: row[2] for row in rows_under("h100-quant-perf.md", "## mul_mat from")}
    time = "150.0 us here" if is_timed else f"{rounded['bf16']} us on [an H100]"
    assert f"is taken by its name alone: {time}" in said


BUILDS = str(ROOT / "benchmarks/results/builds_table.py")


def test_a_change_between_builds_says_what_pairs_made_of_it(tmp_path: Path) -> None:
    cases = ("add/f32/b1_c1_h1_w8", "exp/f32/b1_c1_h1_w8", "neg/f32/b1_c1_h1_w8")
    exports = [tmp_path / "old.jsonl", tmp_path / "new.jsonl"]
    for export, name, times in zip(
        exports, ("b1", "b2"), ((1e-5, 1e-5, 2e-5), (2e-5, 1.1e-5, 1e-5)), strict=True
    ):
        text = planted(export, dict(zip(cases, times, strict=True))).read_text()
        export.write_text(text + json.dumps({"build": {"name": name}}) + "\n")
    rows = [
        row(cases[0], "slower", 1.9, 1.8, 2.0),
        row(cases[1], "same", 1.01, None, None),
        row(cases[2], "faster", 0.5, 0.4, 0.625),
        row("sin/f32/b1_c1_h1_w8", "not reached", None, None, None),
    ]
    pairs = tmp_path / "b-pairs.jsonl.xz"
    answer = {"rows": rows, "summary": {"old": "b1", "new": "b2"}}
    pairs.write_bytes(lzma.compress(json.dumps(answer).encode()))
    command = [sys.executable, BUILDS, *map(str, exports)]
    alone = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    page = subprocess.run([*command, str(pairs)], capture_output=True, text=True, check=True).stdout
    for size, case, said in (
        ("2.00 times slower", cases[0], "confirmed by pairs: 1.90 times slower, 1.80 to 2.00"),
        ("1.10 times slower", cases[1], "not confirmed: pairs say the same (1.01 times slower)"),
        ("2.00 times faster", cases[2], "confirmed by pairs: 2.00 times faster, 1.60 to 2.50"),
    ):
        assert f"- {size}: `{case}` ({said})\n" in page
        assert f"- {size}: `{case}`\n" in alone
    assert "Where a line says *confirmed*, pairs of both builds, timed in turns" in page
    assert "`regressions confirm` time both builds in turns.\n" in alone


def row(
    case: str, verdict: str, ratio: float | None, low: float | None, high: float | None
) -> Mapping[str, object]:
    """A row of `try --json`, as much of it as the page reads."""
    bounds = {"ratio_low": low, "ratio_high": high}
    return {"case": case, "verdict": verdict, "ratio": ratio} | bounds


def rows_under(page: str, heading: str) -> list[list[str]]:
    """The cells of the first table below a heading."""
    lines = iter((RESULTS / page).read_text().splitlines())
    assert any(line.startswith(heading) for line in lines)
    assert any(line.startswith("|---") for line in lines)
    table = takewhile(lambda line: line.startswith("|"), lines)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def planted(path: Path, times: Mapping[str, float], bundle: str = "", at: float = 0.0) -> Path:
    """An export of these timings, as much of it as pages read."""
    facts = {"driver": "Planted", "driver_version": "1"}
    records: list[object] = [
        {"device": {"name": "GPU", "llc_bytes": 0}},
        {"environment": {"facts": facts}},
    ]
    records.append({"run": {"created_at": at}})
    for case, seconds in times.items():
        timings = [{"metric": metric, "seconds": seconds} for metric in ("hot", "cold")]
        attempts = [{"variant": "portable", "bundle": bundle}]
        job = {"case": case, "state": "passed", "attempts": attempts}
        records.append({"job": job | {"timings": timings}})
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def whole_on_page(*exports: Path) -> str:
    """What a page of these exports gives for quantising vectors and multiplying them."""
    page = page_of(*exports)
    [row, *_] = [line for line in page.splitlines() if line.startswith("| q4_0 | 23.0 |  | 10.0 |")]
    return row.strip("|").split("|")[-1].strip()


def page_of(*exports: Path) -> str:
    """The page of suite quant-perf that is made of these exports."""
    command = [sys.executable, str(ROOT / "benchmarks/results/quant_table.py"), *map(str, exports)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
