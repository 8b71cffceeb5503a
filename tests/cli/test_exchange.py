"""`vkbench import` of files that are something else: one line names the file and says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from vkbench_cli import main as cli


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
    assert cli.main(["import", str(file)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"vkbench: cannot import {file}: {complaint}")
    assert said.count("\n") == 1
