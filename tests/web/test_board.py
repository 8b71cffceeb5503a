"""`vkbench board build`: many labs' exports as pages that ask nothing of any server."""

from __future__ import annotations

import gzip
import hashlib
import json
import runpy
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from browser import DESKTOP, PHONE, Scheme, visiting
from commands import run_command
from exported import sealed
from ssh_keys import new_ssh_key
from vkbench.programs.ssh_keygen import sign_text
from vkbench_db.transfer.lines import NAMESPACE, End
from vkbench_web.board.building import build_board
from vkbench_web.board.names import case_path, file_name
from vkbench_web.board.site import Site

BENCHMARK = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks/board.py"))
Captured = pytest.CaptureFixture[str]
EVIL = "<script>alert(1)</script>\"'><img src=http://evil.example/x>"
CASE = "dequantize/q4_0/m4096_k4096"


def lines_of_lab(number: int, results: int = 4) -> list[str]:
    """An export of real shape: of a device `Device 0` if the number is a multiple of ten."""
    return list(BENCHMARK["make_export"](number, results))


def write(path: Path, lines: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines))


def changed(lines: Sequence[str], old: str, new: str) -> list[str]:
    """The lines with another text in all jobs and devices, closed again as a forger would."""
    assert any(old in line for line in lines)
    return sealed([line.replace(old, new) for line in lines])


def signed(lines: Sequence[str], key: Path) -> list[str]:
    end = End(**json.loads(lines[-1])["end"])
    made = sign_text(end.statement, key, NAMESPACE, "it")
    return [*lines, json.dumps({"signature": {"signature": made}}) + "\n"]


@pytest.fixture
def exports(tmp_path: Path) -> Path:
    """A folder of the exports of three labs, two of them with one class of devices."""
    for number in (0, 10, 11):
        write(tmp_path / "exports" / f"lab-{number}.jsonl", lines_of_lab(number))
    return tmp_path / "exports"


def build(capsys: Captured, exports: Path, *words: str) -> tuple[str, str]:
    """Build the board beside the exports; what it says, and what it complains of."""
    return run_command(capsys, "board", "build", str(exports), str(exports.parent / "site"), *words)


def read(exports: Path, path: str) -> str:
    return (exports.parent / "site" / path).read_text()


def read_case(exports: Path, device: str = "Device 0", case: str = CASE) -> str:
    return read(exports, f"{case_path(device, case)}.html")


def test_each_class_and_case_has_a_page_and_a_badge(exports: Path, capsys: Captured) -> None:
    out, complaints = build(capsys, exports, "--title", "Labs of <ann>")
    assert "3 files read, 0 known, 0 gone, 0 left out; 8 pages written" in out
    assert not complaints
    page = read_case(exports)
    assert "2 timings on 2 devices" in page
    assert "Labs of &lt;ann&gt;" in page
    for word in ("percentiles", "NVIDIA 580.", "lab-0.jsonl", "lab-10.jsonl", "Not held against"):
        assert word in page
    assert "lab-11" not in page
    assert CASE in read(exports, f"{case_path('Device 1', CASE)}.svg")
    assert f'href="{file_name("Device 1")}/index.html"' in read(exports, "index.html")
    kernel = f"{file_name('Device 1')}/{file_name('dequantize')}/index.html"
    assert CASE in read(exports, kernel)


def test_a_second_build_reads_new_files_alone(
    exports: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(capsys, exports)
    write(exports / "more" / "lab-20.jsonl", lines_of_lab(20))
    opened: list[str] = []
    real = Path.open

    def note(path: Path, *rest: Any, **more: Any) -> object:
        opened.extend([path.name] if path.name.startswith("lab-") else [])
        return real(path, *rest, **more)

    monkeypatch.setattr(Path, "open", note)
    out, _ = build(capsys, exports)
    assert opened == ["lab-20.jsonl"]
    assert "1 file read, 3 known, 0 gone, 0 left out; 4 pages written" in out
    assert "3 timings on 3 devices" in read_case(exports)


def test_pages_of_exports_that_are_gone_go_too(exports: Path, capsys: Captured) -> None:
    build(capsys, exports)
    (exports / "lab-11.jsonl").unlink()
    assert "1 gone, 0 left out" in build(capsys, exports)[0]
    assert not (exports.parent / "site" / file_name("Device 1")).exists()
    assert "Device 1" not in read(exports, "index.html")
    assert "2 timings" in read_case(exports)


def test_a_lost_folder_is_written_anew_and_no_other_is_overwritten(
    exports: Path, capsys: Captured
) -> None:
    build(capsys, exports)
    (exports.parent / "site").rename(exports.parent / "moved")
    assert "3 known" in build(capsys, exports)[0]
    assert "2 timings" in read_case(exports)
    (exports.parent / "mine").mkdir()
    (exports.parent / "mine" / "text").touch()
    words = ("board", "build", str(exports), str(exports.parent / "mine"))
    assert "neither empty nor a board" in run_command(capsys, *words, code=2)[1]
    inside = ("board", "build", str(exports), str(exports / "site"))
    assert "give a folder elsewhere" in run_command(capsys, *inside, code=2)[1]


def test_signed_exports_show_their_key(exports: Path, capsys: Captured) -> None:
    key = new_ssh_key(exports.parent / "ann")
    write(exports / "lab-20.jsonl", signed(lines_of_lab(20), key))
    forged = changed(lines_of_lab(30), '"position":0', '"position":7')
    write(exports / "lab-30.jsonl", [*forged, signed(lines_of_lab(30), key)[-1]])
    complaints = build(capsys, exports)[1]
    number = len(forged) + 1
    left_out = f"line {number}: the signature is not of these lines"
    assert complaints == f"left out lab-30.jsonl: {left_out}\n"
    page = read_case(exports)
    assert page.count("ED25519 SHA256:") == 1
    assert page.count('class="unsigned"') == 2
    assert left_out in read(exports, "exports.html")


def test_an_unsigned_copy_displaces_nothing_and_counts_once(
    exports: Path, capsys: Captured
) -> None:
    key = new_ssh_key(exports.parent / "ann")
    write(exports / "z-signed.jsonl", signed(lines_of_lab(20), key))
    write(exports / "a-copy.jsonl", lines_of_lab(20))
    write(exports / "b-longer.jsonl", sealed(_recounted(lines_of_lab(20, 8), 8)))
    complaints = build(capsys, exports)[1].splitlines()
    assert complaints == [
        "left out a-copy.jsonl: the same run is in z-signed.jsonl",
        "left out b-longer.jsonl: the same run is in z-signed.jsonl",
    ]
    assert "3 timings on 3 devices" in read_case(exports)
    (exports / "z-signed.jsonl").unlink()
    assert "a-copy.jsonl: the same run is in b-longer.jsonl" in build(capsys, exports)[1]
    assert "b-longer.jsonl" in read_case(exports)


def _recounted(lines: Sequence[str], jobs: int) -> list[str]:
    return [line.replace('"jobs":4', f'"jobs":{jobs}') for line in lines]


def test_what_cannot_count_is_set_apart_and_says_why(exports: Path, capsys: Captured) -> None:
    unknown = [line for line in lines_of_lab(20) if not line.startswith('{"environment"')]
    write(exports / "lab-20.jsonl", sealed(unknown))
    wrong = changed(lines_of_lab(30), '"state":"passed"', '"state":"wrong"')
    write(exports / "lab-30.jsonl", wrong)
    build(capsys, exports)
    page = read_case(exports)
    assert "Set apart" in page
    assert "unknown environment: its export does not say which driver it ran on" in page
    assert "its output is wrong" in page
    assert "2 timings on 2 devices" in page


def test_what_is_faster_than_the_device_can_be_is_set_apart(
    exports: Path, capsys: Captured
) -> None:
    rate = '"bytes_moved":1000000000,"flops":0'
    case = "read_bandwidth/u32/n1000"
    for number in (20, 30, 40):  # a calibration that lies does not lift the roof for all
        seconds = 0.001 if number < 40 else 0.000001
        lines = [_timed(line, case, rate, seconds) for line in lines_of_lab(number, 1)]
        write(exports / f"lab-{number}.jsonl", sealed(lines))
    fast = [_timed(line, CASE, rate, 0.0001) for line in lines_of_lab(50, 1)]
    write(exports / "lab-50.jsonl", sealed(fast))
    build(capsys, exports)
    page = read_case(exports)
    assert "beyond the roof: faster than this device can be" in page
    assert "lab-50.jsonl" in page.partition("Set apart")[2].partition("</table>")[0]
    assert "Timings are held against what calibrations" in page


def _timed(line: str, case: str, amounts: str, seconds: float) -> str:
    """A job's line with another case and one cold timing."""
    if not line.startswith('{"job"'):
        return line
    record = json.loads(line)["job"]
    timing = record["timings"][0] | {"metric": "cold", "seconds": seconds}
    timing |= json.loads("{%s}" % amounts)  # noqa: UP031
    attempts = [one | {"variant": "portable"} for one in record["attempts"]]
    record |= {"case": case, "timings": [timing], "attempts": attempts}
    return json.dumps({"job": record}) + "\n"


def test_wrong_files_cost_a_line_each_and_the_rest_is_built(
    exports: Path, capsys: Captured
) -> None:
    lines = lines_of_lab(20)
    write(exports / "cut.jsonl", lines[:-2])
    write(exports / "edited.jsonl", [line.replace("passed", "wrong") for line in lines])
    write(exports / "other.jsonl", ["hello\n"])
    write(exports / "empty.jsonl", [])
    (exports / "cut.jsonl.xz").write_bytes(b"\xfd7zXZ\0junk")
    (exports / "cut.jsonl.gz").write_bytes(b"\x1f\x8bjunk")
    with (exports / "huge.jsonl").open("wb") as file:
        file.truncate(100 << 20)  # one line of 100 MB, of NULs
    evil = changed(lines_of_lab(40), CASE, json.dumps(f"../../{EVIL}")[1:-1])
    write(exports / "evil.jsonl", evil)
    (exports / "link.jsonl").symlink_to("/etc/passwd")
    out, complaints = build(capsys, exports)
    told = dict(line[9:].split(": ", 1) for line in complaints.splitlines())
    assert set(told) == {
        *("cut.jsonl", "edited.jsonl", "other.jsonl", "empty.jsonl", "cut.jsonl.xz"),
        *("cut.jsonl.gz", "huge.jsonl", "evil.jsonl"),
    }
    assert "cut off after" in told["cut.jsonl"]
    assert "no whole xz file" in told["cut.jsonl.xz"]
    assert "characters or more" in told["huge.jsonl"]
    assert "malformed case" in told["evil.jsonl"]
    assert "8 left out" in out
    assert "2 timings on 2 devices" in read_case(exports)
    assert "<script" not in read(exports, "exports.html")


def test_hostile_names_stay_text_in_small_pages(exports: Path, capsys: Captured) -> None:
    name = f"../../{EVIL}" + "é" * 300
    for number in range(20, 60, 10):
        lines = [
            line.replace('"name":"Device 0"', f'"name":{json.dumps(name)}').replace(
                '"variant":"portable"', f'"variant":{json.dumps(EVIL * 6)}'
            )
            for line in lines_of_lab(number)
        ]
        write(exports / f"lab {number} {EVIL.replace('/', '_')}.jsonl", sealed(lines))
    assert not build(capsys, exports)[1]
    site = exports.parent / "site"
    pages = [path for path in site.rglob("*") if path.is_file()]
    assert {path.name for path in exports.parent.iterdir()} == {
        *("exports", "site", "site.board.sqlite"),
    }
    assert case_path(name, CASE).count("..") == 0
    text = (site / f"{case_path(name, CASE)}.html").read_text()
    assert "&lt;script&gt;" in text
    for path in pages:
        assert path.stat().st_size < 300 << 10
        if path.suffix == ".html":
            assert "<script" not in path.read_text()
            assert "<img src=http" not in path.read_text()


def test_many_exports_of_real_shape_keep_pages_small(tmp_path: Path, capsys: Captured) -> None:
    for number in range(40):
        write(tmp_path / "exports" / f"lab-{number}.jsonl", lines_of_lab(number, 12))
    assert "40 files read" in build(capsys, tmp_path / "exports")[0]
    pages = [path for path in (tmp_path / "site").rglob("*") if path.is_file()]
    assert len(pages) > 240
    assert max(path.stat().st_size for path in pages) < 300 << 10


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """A server of files alone."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(("size", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")])
def test_pages_are_readable_for_all_without_scripts(
    exports: Path, capsys: Captured, chromium: Browser, size: tuple[int, int], scheme: Scheme
) -> None:
    write(exports / "lab-20.jsonl", signed(lines_of_lab(20), new_ssh_key(exports.parent / "ann")))
    build(capsys, exports)
    device = file_name("Device 0")
    paths = ["index.html", "exports.html", f"{device}/index.html"]
    paths += [
        f"{device}/{file_name('dequantize')}/index.html",
        f"{case_path('Device 0', CASE)}.html",
    ]
    with (
        served(exports.parent / "site") as origin,
        visiting(chromium, origin, size=size, scheme=scheme) as visit,
    ):
        for path in paths:
            page = visit.open(f"/{path}")
            assert not visit.barriers(), path
            wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
            assert wide <= 0, f"{path} scrolls sideways by {wide} px"
        assert not visit.faults


def test_lines_that_are_written_otherwise_count_as_the_same(
    exports: Path, capsys: Captured
) -> None:
    build(capsys, exports)
    page = read_case(exports)
    body = [
        line.replace('{"job":', ' { "\\u006aob" : ').replace("\n", " \n")
        for line in lines_of_lab(10)[:-1]
    ]
    sha = hashlib.sha256("".join(body).encode()).hexdigest()
    end = json.dumps({"end": {"jobs": 4, "sha256": sha}}) + "\n"
    write(exports / "lab-10.jsonl", [*body, end])
    assert "1 file read, 2 known, 0 gone, 0 left out" in build(capsys, exports)[0]
    assert read_case(exports) == page


def test_several_processes_make_the_same_board(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vkbench_web.board.site.LEAST_PAGES", 2)
    monkeypatch.setattr("vkbench_web.board.building.MOST_FILES", 2)
    kinds = {0: "lab.jsonl", 10: "b.jsonl.gz", 11: "c.jsonl", 20: "d.jsonl", 21: "e.jsonl"}
    for number, name in kinds.items():
        path = tmp_path / "exports" / name
        path.parent.mkdir(exist_ok=True)
        with gzip.open(path, "wt") if name.endswith("gz") else path.open("w") as file:
            file.writelines(lines_of_lab(number))
    (tmp_path / "exports" / "f.jsonl").write_text("no export\n")
    made = []
    for cores, held in ((1, 12_000), (2, 3)):
        monkeypatch.setattr("vkbench_detection.board.reading.MOST_HELD", held)
        told: list[str] = []
        site = Site(folder=tmp_path / f"site{cores}", title="board")
        state = tmp_path / f"{cores}.sqlite"
        built = build_board(tmp_path / "exports", site, state, told.append, cores)
        pages = {path.relative_to(site.folder): path.read_bytes() for path in files_of(site)}
        made.append((built, told, pages))
        (tmp_path / "exports" / "lab.jsonl").touch()
        again = build_board(tmp_path / "exports", site, state, told.append, cores)
        assert (again.read, again.known) == (1, 5)
    assert made[0] == made[1]
    assert made[0][0].faults == 1


def files_of(site: Site) -> list[Path]:
    return sorted(path for path in site.folder.rglob("*.*") if path.suffix)
