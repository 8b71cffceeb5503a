"""GGUF files against gguf's own reader, and damaged ones, each with a line that says what is."""

from __future__ import annotations

import hashlib
import os
import random
import struct
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader, GGUFWriter

from vkbench.errors import UsageError
from vkbench_shaders.gguf_file import BadGguf, open_gguf, part_of, sha_of
from vkbench_shaders.quantisers import quants

Written = Callable[[Mapping[str, tuple[str, np.ndarray]]], Path]

VALUES = np.random.Generator(np.random.Philox(key=3)).standard_normal((6, 256), np.float32)
FORMATS = ("f32", "f16", "q4_0", "q5_1", "q8_0", "tq2_0", "mxfp4")


@pytest.fixture
def model(gguf_file: Written) -> Path:
    tensors = {f"blk.{fmt}.weight": (fmt, VALUES) for fmt in FORMATS}
    return gguf_file({**tensors, "experts": ("q8_0", VALUES.reshape(3, 2, 256))})


def info_at(data: bytes, name: str) -> int:
    """Where the number of dimensions of a tensor stands, after its name."""
    return data.index(struct.pack("<Q", len(name)) + name.encode()) + 8 + len(name)


def patched(path: Path, at: int, form: str, value: int) -> Path:
    data = bytearray(path.read_bytes())
    struct.pack_into(form, data, at, value)
    path.write_bytes(data)
    return path


def said(path: Path) -> str:
    """What is wrong with a file: one line that names it."""
    with pytest.raises(UsageError) as error:
        open_gguf(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_tensors_are_those_of_gguf_s_reader(model: Path) -> None:
    file = open_gguf(model)
    found = {tensor.name: tensor for tensor in GGUFReader(model).tensors}
    assert list(file.tensors) == list(found)
    for name, theirs in found.items():
        ours = file.tensor(name)
        assert ours.format
        assert ours.format.ggml == theirs.tensor_type
        assert ours.shape == tuple(reversed(theirs.shape.tolist()))
        assert (ours.offset, ours.bytes) == (theirs.data_offset, theirs.n_bytes)
        assert file.read(name).tobytes() == theirs.data.tobytes()
        assert file.sha(name) == hashlib.sha256(theirs.data.tobytes()).hexdigest()[:16]
        assert file.sha(name) == sha_of(file.read(name))


def test_keys_are_those_of_gguf_s_reader(tmp_path: Path) -> None:
    """Numbers of all kinds, texts and short arrays; long arrays and words are passed over."""
    writer = GGUFWriter(tmp_path / "keys.gguf", "llama")
    writer.add_uint8("a.u8", 200)
    writer.add_int16("a.i16", -300)
    writer.add_uint64("a.u64", 1 << 60)
    writer.add_float64("a.f64", 0.1)
    writer.add_float32("a.f32", 1e-5)
    writer.add_bool("a.bool", True)
    writer.add_string("a.text", "naïve")
    writer.add_array("a.sizes", [3, 1, 2])
    writer.add_array("a.words", ["a", "b"])
    writer.add_array("a.long", list(range(1 << 15)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found = open_gguf(tmp_path / "keys.gguf").keys
    theirs = {
        name: field.contents()
        for name, field in GGUFReader(tmp_path / "keys.gguf").fields.items()
        if not name.startswith("GGUF.")
    }
    assert found.keys() == theirs.keys()
    assert found["a.words"] is found["a.long"] is None
    for name in theirs.keys() - {"a.words", "a.long"}:
        ours = found[name]
        assert (list(ours) if isinstance(ours, tuple) else ours) == theirs[name]


@pytest.mark.parametrize("fmt", FORMATS)
def test_a_tensor_is_an_array_of_its_format(model: Path, fmt: str) -> None:
    stored = open_gguf(model).read(f"blk.{fmt}.weight")
    np.testing.assert_array_equal(stored, quants.quantise(fmt, VALUES))


def test_a_type_that_gguf_lacks_is_read(gguf_file: Written) -> None:
    path = gguf_file({"w": ("q4_0", VALUES)})  # 18 bytes a block, as q2_0
    at = info_at(path.read_bytes(), "w")
    patched(path, at + 4 + 16, "<I", 42)
    with pytest.raises(ValueError, match="42"):
        GGUFReader(path)
    tensor = open_gguf(path).tensor("w")
    assert tensor.format
    assert tensor.format.name == "q2_0"
    assert tensor.bytes == 6 * 256 // 64 * 18


def test_an_unknown_type_is_said_when_it_is_asked_for(gguf_file: Written) -> None:
    path = gguf_file({"odd": ("q4_0", VALUES), "fine": ("f32", VALUES)})
    patched(path, info_at(path.read_bytes(), "odd") + 20, "<I", 77)
    file = open_gguf(path)
    assert file.read("fine").shape == (6, 256)
    with pytest.raises(BadGguf, match="tensor odd has type 77, which is unknown"):
        file.tensor("odd")


def test_rows_behind_a_tensor_are_refused(gguf_file: Written) -> None:
    file = open_gguf(gguf_file({"w": ("f32", VALUES), "next": ("f32", VALUES)}))
    assert len(file.rows("w", 4, 2)) == 2
    with pytest.raises(BadGguf, match="tensor w has 6 rows; 4 to 7 are asked for"):
        file.rows("w", 4, 3)


def test_a_wrong_name_gets_the_nearest(model: Path) -> None:
    with pytest.raises(UsageError, match=r"'blk\.q4_0\.wieght'; did you mean 'blk\.q4_0\.weight'"):
        open_gguf(model).tensor("blk.q4_0.wieght")
    with pytest.raises(UsageError, match=r"did you mean 'blk\.f32\.weight'"):
        open_gguf(model).tensor("zzz")


def test_every_truncation_is_said(model: Path) -> None:
    whole = model.read_bytes()
    end = max(t.offset + t.bytes for t in open_gguf(model).tensors.values())
    for size in (*range(0, 1400, 7), end - 1):
        model.write_bytes(whole[:size])
        assert "truncated or corrupt" in said(model)


@pytest.mark.parametrize(
    ("at", "form", "value", "hint"),
    [
        (0, "<I", 0x46554746, "does not begin with GGUF"),
        (4, "<I", 1, "version 1"),
        (4, "<I", 0x03000000, "big-endian"),
        (8, "<Q", 1 << 62, "corrupt"),
        (16, "<Q", 1 << 62, "corrupt"),
        (24, "<Q", 1 << 63, "takes 9223372036854775808 bytes"),
        (24, "<Q", 0, "a key is no name"),
    ],
)
def test_a_damaged_beginning(model: Path, at: int, form: str, value: int, hint: str) -> None:
    assert hint in said(patched(model, at, form, value))


@pytest.mark.parametrize(
    ("after", "form", "value", "hint"),
    [
        (0, "<I", 9, "has 9 dimensions"),
        (0, "<I", 0, "has 0 dimensions"),
        (4, "<Q", 0, "a dimension of 0"),
        (4, "<Q", 255, "has rows of 255; q4_0 has blocks of 32"),
        (12, "<Q", 1 << 60, "ends at byte"),
        (24, "<Q", 33, "begins at 33, off 32 bytes"),
        (24, "<Q", 1 << 40, "ends at byte"),
        (24, "<Q", 0, "overlap"),
    ],
)
def test_a_damaged_tensor(model: Path, after: int, form: str, value: int, hint: str) -> None:
    at = info_at(model.read_bytes(), "blk.q4_0.weight")
    assert hint in said(patched(model, at + after, form, value))


def test_a_key_of_unknown_type(model: Path) -> None:
    key = b"llama.rope.freq_base"
    at = model.read_bytes().index(key) + len(key)
    assert "llama.rope.freq_base has the unknown type 99" in said(patched(model, at, "<I", 99))


def test_any_flipped_byte_of_the_header_is_read_or_refused(model: Path) -> None:
    whole = model.read_bytes()
    header = min(tensor.offset for tensor in open_gguf(model).tensors.values())
    choose = random.Random(5)
    refused = []
    for _ in range(400):
        data = bytearray(whole)
        data[choose.randrange(header)] ^= 1 << choose.randrange(8)
        model.write_bytes(data)
        try:
            open_gguf(model)
        except UsageError as error:
            refused.append(str(error))
    assert len(refused) > 100
    assert not [line for line in refused if "\n" in line]


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    """Nobody writes to it: opening it would wait for ever."""
    os.mkfifo(tmp_path / "pipe.gguf")
    assert said(tmp_path / "pipe.gguf").endswith(
        "is no file with a size, such as a pipe: copy it to one"
    )


@pytest.mark.parametrize("name", ["", "nowhere.gguf"])
def test_what_cannot_be_opened_is_one_line(tmp_path: Path, name: str) -> None:
    assert said(tmp_path / name).startswith("cannot read ")


def test_a_part_is_the_first_rows_of_the_first_matrices(model: Path) -> None:
    experts = open_gguf(model).read("experts")
    assert np.array_equal(part_of(experts, (2, 1, 272)), experts[:2, :1])
    assert np.array_equal(part_of(experts, (1, 272)), experts[0, :1])
    assert np.array_equal(part_of(experts[0], (1, 2, 272)), experts[:1])
    with pytest.raises(UsageError, match="4 x 2 x 272 items of storage; the tensor has 3 x 2 x"):
        part_of(experts, (4, 2, 272))
    with pytest.raises(UsageError, match="items of storage"):
        part_of(experts, (1, 1, 271))
