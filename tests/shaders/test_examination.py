"""A stranger's module is what its bundle says and no more, or no driver sees it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from vkbench_shaders.bundle import Bundle, Entry
from vkbench_shaders.compile.examination import UnfitSpirv, examine
from vkbench_shaders.compile.spirv import Instruction, Op, read, write
from vkbench_shaders.launch import Interface

KEY = "copy/copy"
Change = Callable[[list[Instruction]], Iterable[Instruction]]


def changed(code: bytes, change: Change, header: dict[int, int] | None = None) -> bytes:
    """A module with other instructions before its functions."""
    words, instructions, body = read(code)
    told = [(header or {}).get(at, word) for at, word in enumerate(words)]
    return write(told, change(instructions)) + body


def say(bundle: Bundle, code: bytes, **entry: object) -> str:
    """Why a module is refused in place of KEY's; "" if it is not."""
    told: Entry = replace(bundle.entry(KEY), **{"bytes": len(code), **entry})  # type: ignore[arg-type]
    try:
        examine(code, told, bundle.interface(KEY))
    except UnfitSpirv as error:
        return str(error)
    return ""


@pytest.mark.slow
def test_every_packaged_module_is_what_its_manifest_says(bundle: Bundle) -> None:
    for key in list(bundle.entries)[::8]:
        used = examine(bundle.code(key), bundle.entry(key), bundle.interface(key))
        assert used <= set(range(16))


def test_every_cut_is_refused(bundle: Bundle) -> None:
    code = bundle.code(KEY)
    for length in range(0, len(code), 4):
        assert say(bundle, code[:length]), length
    assert say(bundle, code + b"\0" * 4)
    assert say(bundle, code + b"\0")


@pytest.mark.parametrize(
    ("header", "complaint"),
    [
        ({0: 0}, "no module"),
        ({1: 0x20000}, "version is 0x20000"),
        ({1: 0x10900}, "version is"),
        ({3: 0}, "0 numbers"),
        ({3: 1 << 31}, "2147483648 numbers"),
        ({3: 5}, "beyond the bound"),
        ({4: 1}, "no module"),
    ],
)
def test_a_header_that_lies_is_refused(
    bundle: Bundle, header: dict[int, int], complaint: str
) -> None:
    words = list(struct.unpack_from("<5I", code := bundle.code(KEY)))
    for at, word in header.items():
        words[at] = word
    assert complaint in say(bundle, struct.pack("<5I", *words) + code[20:])


def other(op: int, at: int, old: int, new: int) -> Change:
    """Another operand in the instructions that have `old` there."""

    def change(instructions: list[Instruction]) -> Iterable[Instruction]:
        for kind, operands in instructions:
            if kind == op and operands[at] == old:
                operands = (*operands[:at], new, *operands[at + 1 :])
            yield kind, operands

    return change


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda all: [(Op.CAPABILITY, (4,)), *all], "needs capability 4, which no kernel"),
        (lambda all: [(Op.CAPABILITY, (10,)), *all], "its capabilities: ('Float64', 'Shader')"),
        (lambda all: [*all, all[-1]], "is made twice"),
        (lambda all: [each for each in all if each[0] != 15], "not one compute shader"),
        (other(15, 0, 5, 4), "not one compute shader"),
        (other(14, 0, 0, 5348), "it follows addresses of buffers"),
        (other(59, 2, 12, 0), "storage class 0"),
        (other(59, 2, 12, 2), "binding 0 is of another kind than its pointer"),
        (other(71, 1, 34, 33), "no block in set 0"),
        (other(71, 1, 1, 2), "constants"),
        (other(72, 2, 35, 36), "cannot be understood"),
        (other(21, 1, 32, 64), "push constants"),
        (lambda all: [each for each in all if each[0] != Op.TYPE_POINTER], "refused"),
        (lambda all: [each for each in all if each[0] != Op.SPEC_CONSTANT], "is no constant"),
    ],
)
def test_what_is_not_as_the_manifest_says_is_refused(
    bundle: Bundle, change: Change, complaint: str
) -> None:
    assert complaint in say(bundle, changed(bundle.code(KEY), change))


def test_the_manifest_s_own_words_are_checked(bundle: Bundle) -> None:
    code = bundle.code(KEY)
    assert not say(bundle, code)
    assert "its bytes" in say(bundle, code, bytes=8)
    assert "its workgroup size" in say(bundle, code, local_size=(1, 1, 1))
    assert "its capabilities" in say(bundle, code, capabilities=())
    with pytest.raises(UnfitSpirv, match="its push constants"):
        examine(code, bundle.entry(KEY), Interface())
