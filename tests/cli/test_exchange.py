"""`vkbench import` of files that are something else: one line names the file and says why."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any, Literal

import pytest

from commands import run_command
from vkbench_cli import main as cli
from vkbench_db.transfer import compressed

RECORDED = Path(__file__).parents[2] / "docs/results/h100-models.jsonl.xz"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"", "the file is empty"),
        (b"\x89PNG\r\n\x1a\n", "line 1: it is no export of vkbench: malformed: "),
        (b"[1, 2]\n", "line 1: it is no export of vkbench: malformed: Expected `object`"),
        (b'{"context":1}\n', "line 1: it is no export of vkbench: unknown kind 'context'"),
        (b'{"a":1,"b":2}\n', "line 1: it is no export of vkbench: malformed: a line has one field"),
    ],
)
def test_a_file_of_another_kind_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: bytes, complaint: str
) -> None:
    file = tmp_path / "mine ü.json"
    file.write_bytes(text)
    complaint_line = run_command(capsys, "import", str(file), code=2)[1]
    assert complaint_line.startswith(f"vkbench: cannot import {file}: {complaint}")
    assert complaint_line.count("\n") == 1


@pytest.mark.parametrize(("ending", "begins"), [("gz", b"\x1f\x8b"), ("xz", b"\xfd7zXZ")])
def test_an_export_is_compressed_as_its_name_says(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    ending: str,
    begins: bytes,
) -> None:
    reads: list[Path] = []
    open_by_name = compressed.open_by_name

    def note(raw: IO[bytes], path: Path, mode: Literal["rb", "wb"]) -> Any:
        reads.extend([path] if mode == "rb" else [])
        return open_by_name(raw, path, mode)

    monkeypatch.setattr("vkbench_cli.exporting.open_by_name", note)

    def run(*words: str | Path) -> tuple[int, str, str]:
        status = cli.main([*map(str, words), "--database", str(tmp_path / "some.db")])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    assert run("import", RECORDED)[0] == 0
    plain, packed = tmp_path / "run.jsonl", tmp_path / f"run.jsonl.{ending}"
    assert [run("export", "1", "-o", path)[0] for path in (plain, packed)] == [0, 0]
    assert packed.read_bytes().startswith(begins)
    assert packed.stat().st_size < plain.stat().st_size / 2
    for path in (plain, packed):
        assert "16 known" in run("import", path)[1]
    assert reads == [RECORDED, plain, packed]  # each once: to decompress takes its time
    packed.write_bytes(packed.read_bytes()[:-9])
    complaint = f"cannot import {packed}: it is no whole {ending} file"
    assert run("import", packed) == (2, "", f"vkbench: {complaint}\n")
