"""Errors say one whole sentence and carry the exit code of the command that meets them."""

from __future__ import annotations

import pytest

from vkbench import errors


def test_docstring_is_the_default_message() -> None:
    assert str(errors.WaitTimeout()) == "The time limit for waiting passed; the jobs continue."
    assert str(errors.WaitTimeout("after 3 s")) == "after 3 s"


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.VkbenchError, 4),
        (errors.UsageError, 2),
        (errors.WrongResult, 3),
        (errors.WaitTimeout, 5),
        (errors.NothingToDo, 7),
        (errors.ServiceUnreachable, 8),
    ],
)
def test_exit_codes(kind: type[errors.VkbenchError], code: int) -> None:
    assert kind().exit_code == code


@pytest.mark.parametrize(
    ("near", "end"),
    [
        ((), "unknown kernel 'cpy'; `vkbench kernels` lists what there is"),
        (("copy",), "; did you mean 'copy'?"),
        (("copy", "add", "cp"), "; did you mean 'copy', 'add' or 'cp'?"),
    ],
)
def test_unknown_name_names_the_nearest(near: tuple[str, ...], end: str) -> None:
    error = errors.UnknownName("kernel", "cpy", near)
    assert str(error).endswith(end)
    assert error.exit_code == 2
