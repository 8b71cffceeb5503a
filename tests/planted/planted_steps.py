"""A kernel of one's own in two steps: a product by a vector whose sums are split along k."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

NAME = "lab.split_k"
CASE = f"{NAME}/f32/m33_k100"
TIMED = f"{NAME}/f32/m512_k512"
STEP_OF_SUMS = '[[variants.steps]]\nsource = "sum.comp"'

DECLARED = """
name = "split_k"
owner = "lab"
reference = "split_k.py:product"
flops = "2 * m * k"

[[bindings]]
name = "w"
access = "in"
format = "f32"
dims = ["m", "k"]

[[bindings]]
name = "x"
access = "in"
format = "f32"
dims = ["k"]

[[bindings]]
name = "biases"
access = "in"
format = "f32"
dims = ["m"]
values = "uniform"
range = [0, 0]
optional = true

[[bindings]]
name = "y"
access = "out"
format = "f32"
dims = ["m"]

[[scratch]]
name = "partials"
format = "f32"
dims = ["SPLIT", "m"]

[[scratch]]
name = "spare"
bytes = "4 * m"

[[variants]]
name = "split"
constants = { SPLIT = 4 }
push = { rows = "m" }

[[variants.steps]]
source = "split.comp"
groups = ["ceil_div(m, 32)", "SPLIT"]
push = { columns = "k" }
bindings = { w = 0, x = 1, partials = 2 }

[[variants.steps]]
source = "sum.comp"
groups = ["ceil_div(m, 32)"]
bindings = { partials = "Partials", y = "Y", biases = "Biases", "spare?" = "Spare" }

[[cases]]
shape = { m = 33, k = 100 }
timed = false

[[cases]]
shape = { m = 512, k = 512 }
"""
_SPLIT = """#version 450
layout(constant_id = 0) const uint SPLIT = 1;
layout(local_size_x = 32) in;
layout(push_constant) uniform Sizes { uint rows; uint columns; } p;
layout(binding = 0) readonly buffer W { float w[]; };
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) writeonly buffer Partials { float partials[]; };

void main()
{
    uint row = gl_GlobalInvocationID.x, part = gl_WorkGroupID.y;
    if (row >= p.rows) return;
    float sum = 0;
    uint end = (part + 1) * p.columns / SPLIT;
    for (uint i = part * p.columns / SPLIT; i < end; i++) sum += w[row * p.columns + i] * x[i];
    partials[part * p.rows + row] = sum;
}
"""
_SUM = """#version 450
layout(constant_id = 7) const uint SPLIT = 1;
layout(local_size_x = 32) in;
layout(push_constant) uniform Sizes { uint rows; } p;
layout(binding = 0) readonly buffer Partials { float partials[]; };
layout(binding = 1) writeonly buffer Y { float y[]; };

void main()
{
    uint row = gl_GlobalInvocationID.x;
    if (row >= p.rows) return;
    float sum = 0;
    for (uint part = 0; part < SPLIT; part++) sum += partials[part * p.rows + row];
    y[row] = sum;
}
"""
# a later version: its numbers are others, and it has an array and a scratch more
LATER = {
    "(binding = 1) writeonly": "(binding = 3) writeonly",
    "void main": (
        "layout(binding = 1) readonly buffer Biases { float biases[]; };\n"
        "layout(binding = 2) buffer Spare { float spare[]; };\n\nvoid main"
    ),
    "y[row] = sum;": "spare[row] = sum;\n    y[row] = spare[row] + biases[row];",
}
_LOOP = "for (uint part = 0; part < SPLIT; part++)"
SLOW = {_LOOP: f"for (uint turn = 0; turn < 400; turn++, sum *= float(turn / 400))\n    {_LOOP}"}
_SINGLE_VARIANT = """[[variants]]
name = "split"
source = "split.comp"
groups = ["ceil_div(m, 32)"]
push = { rows = "m", columns = "k" }
bindings = { w = 0, x = 1, y = 2 }

"""
_PRODUCT = """
def product(inputs, given):
    return {"y": inputs["w"] @ inputs["x"] + inputs["biases"]}
"""


def write_steps(folder: Path, changes: Mapping[str, str] | None = None) -> Path:
    """The declaration with its reference and sources, texts of the declaration replaced."""
    write_sources(folder)
    (folder / "split_k.py").write_text(_PRODUCT)
    path = folder / "split_k.toml"
    path.write_text(replace_texts(DECLARED, changes or {}))
    return path


def write_single(folder: Path) -> Path:
    """The same product in one dispatch, without scratch."""
    path = write_steps(folder)
    head, _, rest = DECLARED.partition("[[scratch]]")
    cases = rest[rest.index("[[cases]]") :]
    path.write_text(f"{head}{_SINGLE_VARIANT}{cases}")
    source = _SPLIT.replace("Partials { float partials", "Y { float y")
    source = source.replace("partials[part * p.rows + row]", "y[row]")
    (folder / "split.comp").write_text(source)
    return path


def write_sources(folder: Path, changes: Mapping[str, str] | None = None) -> Path:
    """Both shaders in a folder, texts of the second one replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "split.comp").write_text(_SPLIT)
    (folder / "sum.comp").write_text(replace_texts(_SUM, changes or {}))
    return folder


_HALF = """#version 450
#extension GL_EXT_shader_16bit_storage : require
"""
# each step asks something else of a device, and the first is compiled for two formats
_MIXED = {
    'name = "x"\naccess = "in"\nformat = "f32"': 'name = "x"\naccess = "in"',
    "[[variants]]": (
        '[matrix.formats.x]\nf32 = { X_TYPE = "float" }\nf16 = { X_TYPE = "float16_t" }\n\n'
        "[[variants]]"
    ),
    "bindings = { w = 0": "subgroup_size = 8\nbindings = { w = 0",
    'push = { columns = "k" }': 'push = { columns = "k" }\ndefines = { OF = "{x}" }',
    '["SPLIT", "m"]': '["SPLIT", "m * subgroup_size / 4"]',
    'source = "sum.comp"\ngroups = ["ceil_div(m, 32)"]': (
        'source = "sum.comp"\ngroups = ["ceil_div(m, 4 * subgroup_size)"]\n'
        'constants = { THREADS = "4 * subgroup_size" }\nfull_subgroups = true'
    ),
}


def write_mixed(folder: Path) -> Path:
    """The steps in two formats, one with subgroups of 8, one with full ones and uniform biases."""
    path = write_steps(folder, _MIXED)
    split = replace_texts(_SPLIT, {"float x[]": "X_TYPE x[]", "* x[i]": "* float(x[i])"})
    (folder / "split.comp").write_text(split.replace("#version 450\n", _HALF))
    uniform = {
        "local_size_x = 32": "local_size_x_id = 5",
        "layout(local": "layout(constant_id = 5) const uint THREADS = 32;\nlayout(local",
        "void main": "layout(binding = 6) uniform Biases { vec4 biases[128]; };\n\nvoid main",
        "y[row] = sum;": "y[row] = sum + biases[row / 4][row % 4];",
    }
    (folder / "sum.comp").write_text(replace_texts(_SUM, uniform))
    return path


_COUNTED_DECLARED = """
name = "total"
owner = "lab"
reference = "total.py:total"

[[bindings]]
name = "x"
access = "in"
format = "f32"
dims = ["n"]

[[bindings]]
name = "y"
access = "out"
format = "f32"
dims = ["one"]

[[scratch]]
name = "arrived"
bytes = 4
zero = true
binding = 3

[[scratch]]
name = "partials"
format = "f32"
dims = ["n / 64"]
binding = "Partials"

[[variants]]
name = "last"
source = "total.comp"
groups = ["n / 64"]

[[cases]]
shape = { n = 1024, one = 1 }
"""
_COUNTED = """#version 450
layout(local_size_x = 1) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) buffer Y { float y[]; };
layout(set = 1, binding = 0) coherent buffer Partials { float partials[]; };
layout(binding = 3) coherent buffer Arrived { uint arrived; };

void main()
{
    uint part = gl_WorkGroupID.x;
    float sum = 0;
    for (uint i = 0; i < 64; i++) sum += x[part * 64 + i];
    partials[part] = sum;
    memoryBarrierBuffer();
    if (atomicAdd(arrived, 1) + 1 < gl_NumWorkGroups.x) return;
    memoryBarrierBuffer();
    float total = 0;
    for (uint i = 0; i < gl_NumWorkGroups.x; i++) total += partials[i];
    y[0] = total;
    arrived = 0;
}
"""
_TOTAL = """
def total(inputs, given):
    return {"y": inputs["x"].sum(keepdims=True)}
"""


def write_counted(folder: Path, changes: Mapping[str, str] | None = None) -> Path:
    """A sum in one dispatch, by whichever workgroup comes last; texts of the source replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "total.py").write_text(_TOTAL)
    (folder / "total.comp").write_text(replace_texts(_COUNTED, changes or {}))
    path = folder / "total.toml"
    path.write_text(_COUNTED_DECLARED)
    return path


def replace_texts(text: str, changes: Mapping[str, str]) -> str:
    """A text with parts replaced that it has to have."""
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    return text
