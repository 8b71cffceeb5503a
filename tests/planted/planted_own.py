"""A kernel of one's own: the packaged example in a folder, with changes."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from vkbench_shaders.own.building import EXAMPLE, Built, build

NAME = "lab.rms_quant"
CASE = f"{NAME}/f32/m3_k96_b3"
TIMED = f"{NAME}/f32/m16_k1024_b32"
SHADOWED = "rms_norm/f32/b1_c1_h64_w1024"
_VARIANT = re.compile(r'\[\[variants\]\]\nname = "glsl".*?\n\n', re.DOTALL)


def write_own(
    folder: Path, changes: Mapping[str, str] | None = None, *, glsl: bool = False
) -> Path:
    """The declaration in a folder, with texts of it replaced; Slang alone unless GLSL is wanted."""
    _copied(folder)
    path = folder / "rms_quant.toml"
    if not glsl:
        path.write_text(_VARIANT.sub("", path.read_text()))
    return _changed(path, changes or {})


def slower(declaration: Path) -> None:
    """Have a kernel add its squares up a hundred times."""
    path = declaration.parent / "rms_quant.slang"
    text = path.read_text()
    once = "float sum = 0;\n"
    assert once in text
    again = f"{once}    for (uint turn = 0; turn < 100; turn++) {{ sum = 0;\n"
    text = text.replace(once, again).replace(
        "sum += x[row + i] * x[row + i];", "sum += x[row + i] * x[row + i]; }"
    )
    path.write_text(text)


def built_own(folder: Path, changes: Mapping[str, str] | None = None) -> Built:
    """The kernel of `write_own`, built."""
    return build(write_own(folder, changes), "somebody")


def write_shadow(folder: Path, changes: Mapping[str, str] | None = None) -> Path:
    """The packaged example that shadows the catalogue's rms_norm, with texts replaced."""
    _copied(folder)
    return _changed(folder / "one_pass.toml", changes or {})


def write_blocks(folder: Path) -> Path:
    """A kernel that shadows one of the catalogue whose results are blocks."""
    folder.mkdir()
    (folder / "rms_blocks.slang").write_text(_BLOCKS)
    path = folder / "rms_blocks.toml"
    path.write_text(_BLOCKS_DECLARED)
    return path


_BLOCKS_DECLARED = """
name = "rms_blocks"
owner = "lab"
shadows = "rms_norm_q8_1"

[[variants]]
name = "slang"
source = "rms_blocks.slang"
groups = ["b * c * h"]
push = { columns = "w", eps = "eps" }

[[cases]]
shape = { b = 1, c = 2, h = 3, w = 96 }
timed = false
"""
_BLOCKS = """
// One thread norms a row and rounds it to blocks of q8_1: two halves and 32 bytes, 9 words each.
struct Row { uint columns; float eps; };
[vk::push_constant] ConstantBuffer<Row> push;
[vk::binding(0)] StructuredBuffer<float> x;
[vk::binding(1)] StructuredBuffer<float> weights;
[vk::binding(2)] RWStructuredBuffer<uint> y;

[shader("compute")]
[numthreads(1, 1, 1)]
void main(uint3 group: SV_GroupID)
{
    uint row = group.x * push.columns;
    float sum = 0;
    for (uint i = 0; i < push.columns; i++) sum += x[row + i] * x[row + i];
    float factor = 1 / sqrt(sum / push.columns + push.eps);
    for (uint first = 0; first < push.columns; first += 32)
    {
        uint block = (row + first) / 32 * 9;
        float largest = 0;
        for (uint i = first; i < first + 32; i++)
            largest = max(largest, abs(x[row + i] * factor * weights[i]));
        float d = largest / 127;
        int codes = 0;
        for (uint i = 0; i < 8; i++)
        {
            uint word = 0;
            for (uint place = 0; place < 4; place++)
            {
                uint at = first + 4 * i + place;
                int code = int(round(x[row + at] * factor * weights[at] / max(d, 1e-30)));
                codes += code;
                word |= (code & 255) << 8 * place;
            }
            y[block + 1 + i] = word;
        }
        y[block] = f32tof16(d) | f32tof16(codes * d) << 16;
    }
}
"""


def write_doubling(folder: Path) -> Path:
    """A kernel that is not idempotent: y = 2 y + x, in place, so that each launch finds its y."""
    return _written(folder, "doubling", _DOUBLING_DECLARED, _DOUBLING, _DOUBLED)


def write_flaky(folder: Path) -> Path:
    """A kernel that copies x to y, and spoils y[0] wherever the first of x is positive."""
    return _written(folder, "flaky", _FLAKY_DECLARED, _FLAKY, _COPIED)


def write_sums(folder: Path) -> Path:
    """A kernel that sums up rows, from the other end where there are more than four of them."""
    return _written(folder, "sums", _SUMS_DECLARED, _SUMS, _SUMMED)


def _written(folder: Path, name: str, declared: str, slang: str, python: str) -> Path:
    folder.mkdir()
    (folder / f"{name}.slang").write_text(slang)
    (folder / f"{name}.py").write_text(python)
    path = folder / f"{name}.toml"
    path.write_text(declared)
    return path


_FLAKY_DECLARED = """
name = "flaky"
owner = "lab"
reference = "flaky.py:copied"

[[bindings]]
name = "x"
access = "in"
format = "f32"
dims = ["n"]

[[bindings]]
name = "y"
access = "out"
format = "f32"
dims = ["n"]

[[variants]]
name = "slang"
source = "flaky.slang"
groups = ["ceil_div(n, 64)"]
push = { count = "n" }

[[cases]]
shape = { n = 200 }
"""
_FLAKY = """
struct Sizes { uint count; };
[vk::push_constant] ConstantBuffer<Sizes> push;
[vk::binding(0)] StructuredBuffer<float> x;
[vk::binding(1)] RWStructuredBuffer<float> y;

[shader("compute")]
[numthreads(64, 1, 1)]
void main(uint i: SV_DispatchThreadID)
{
    if (i < push.count) y[i] = x[i] + (i == 0 && x[0] > 0 ? 1 : 0);
}
"""
_SUMS_DECLARED = """
name = "sums"
owner = "lab"
reference = "sums.py:sums"
batch = "m"

[[bindings]]
name = "x"
access = "in"
format = "f32"
dims = ["m", "k"]

[[bindings]]
name = "y"
access = "out"
format = "f32"
dims = ["m"]

[[variants]]
name = "slang"
source = "sums.slang"
groups = ["m"]
push = { rows = "m", columns = "k" }

[[cases]]
shape = { m = 3, k = 300 }

[[cases]]
shape = { m = 7, k = 300 }
"""
_SUMS = """
struct Sizes { uint rows, columns; };
[vk::push_constant] ConstantBuffer<Sizes> push;
[vk::binding(0)] StructuredBuffer<float> x;
[vk::binding(1)] RWStructuredBuffer<float> y;

[shader("compute")]
[numthreads(1, 1, 1)]
void main(uint3 group: SV_GroupID)
{
    float sum = 0;
    uint row = group.x * push.columns;
    for (uint i = 0; i < push.columns; i++)
        sum += x[row + (push.rows > 4 ? push.columns - 1 - i : i)];
    y[group.x] = sum;
}
"""
_SUMMED = """
def sums(inputs, given):
    return {"y": inputs["x"].sum(axis=1)}
"""
_COPIED = """
def copied(inputs, given):
    return {"y": inputs["x"]}
"""
_DOUBLING_DECLARED = """
name = "doubling"
owner = "lab"
reference = "doubling.py:doubling"

[[bindings]]
name = "y"
access = "inout"
format = "f32"
dims = ["n"]

[[bindings]]
name = "x"
access = "in"
format = "f32"
dims = ["n"]

[[variants]]
name = "slang"
source = "doubling.slang"
groups = ["ceil_div(n, 64)"]
push = { count = "n" }

[[cases]]
shape = { n = 65536 }
"""
_DOUBLING = """
struct Sizes { uint count; };
[vk::push_constant] ConstantBuffer<Sizes> push;
[vk::binding(0)] RWStructuredBuffer<float> y;
[vk::binding(1)] StructuredBuffer<float> x;

[shader("compute")]
[numthreads(64, 1, 1)]
void main(uint i: SV_DispatchThreadID)
{
    if (i < push.count) y[i] = 2 * y[i] + x[i];
}
"""
_DOUBLED = """
def doubling(inputs, given):
    return {"y": 2 * inputs["y"] + inputs["x"]}
"""


def _copied(folder: Path) -> None:
    """The example's files, without those that make its folder a Python package."""
    package = shutil.ignore_patterns("__init__.py", "__pycache__")
    shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True, ignore=package)


def _changed(path: Path, changes: Mapping[str, str]) -> Path:
    text = path.read_text()
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    path.write_text(text)
    return path
