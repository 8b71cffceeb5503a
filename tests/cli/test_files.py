"""Files appear whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from vkbench.errors import UsageError, VkbenchError
from vkbench_cli.files import check_readable, check_writable, whole_file


def test_a_file_appears_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with whole_file(path) as file:
        file.write(b"half")
        assert not path.exists()
        file.write(b" and half")
    assert path.read_bytes() == b"half and half"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")

    def interrupted() -> None:
        with whole_file(path) as file:
            file.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_is_said_with_the_name_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "out"

    def filled() -> None:
        with whole_file(path) as file:
            file.write(bytes(1000))

    with pytest.raises(VkbenchError, match=f"cannot write {path}: File too large"):
        filled()
    assert not list(tmp_path.iterdir())


def test_an_error_of_another_file_keeps_its_name(tmp_path: Path) -> None:
    def copied() -> None:
        with whole_file(tmp_path / "out") as file:
            file.write((tmp_path / "source").read_bytes())

    with pytest.raises(FileNotFoundError, match="source"):
        copied()


def test_where_nothing_can_be_written_is_said_before(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="it is a folder"):
        check_writable(tmp_path)
    with pytest.raises(UsageError, match="there is no folder"):
        check_writable(tmp_path / "no" / "out")
    with pytest.raises(UsageError, match="cannot read"):
        check_readable(tmp_path / "no")
