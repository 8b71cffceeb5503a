"""A tree of shaders as other projects keep theirs, and a declaration of one of them elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

CASE = "lab.scale/f32/n200"

_HEAD = """
layout(push_constant) uniform Sizes { uint count; uint unused; vec2 more; float factor; } p;
layout(binding = 0) readonly buffer X { T x[]; };
#ifndef OUT
#define OUT T
#endif
layout(set = 1, binding = 3) writeonly buffer Y { OUT y[]; };
layout(binding = 7) readonly buffer Bias { T bias[]; };
layout(binding = 9) buffer Spare { T spare[]; };
#define OF_BIAS 5
"""
_SOURCE = """#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/head.glsl"
layout(constant_id = 0) const uint THREADS = 64;
layout(constant_id = OF_BIAS) const bool BIASED = false;
layout(local_size_x_id = 0) in;

void main()
{
    uint i = gl_GlobalInvocationID.x;
    if (i < p.count) y[i] = TWICE(x[i]) * p.factor + (BIASED ? bias[i] : T(0));
}
"""
_DECLARED = """
name = "scale"
owner = "lab"
reference = "scale.py:scaled"
defines = { T = "float", "TWICE(v)" = "(v + v)" }
include = ["parts"]

[[bindings]]
name = "x"
access = "in"
format = "f32"
dims = ["n"]
binding = [0, 7]

[[bindings]]
name = "y"
access = "out"
format = "f32"
dims = ["n"]
binding = 3
set = 1

[[variants]]
name = "glsl"
source = "scale.comp"
groups = ["ceil_div(n, THREADS)"]
constants = { THREADS = 32 }
push = { count = "n", factor = 0.5 }

[[cases]]
shape = { n = 200 }
"""
_SCALED = """
def scaled(inputs, given):
    return {"y": inputs["x"]}
"""

# the same with x and y in two formats each
FORMATS = {
    'format = "f32"\n': "",
    'T = "float", ': "",
    "ceil_div(n, THREADS)": "ceil_div(n, THREADS * WIDE)",
    "[[variants]]": """[matrix.formats.x]
f32 = { T = "float", WIDE = 1 }
f16 = { T = "float16_t", WIDE = 2 }

[matrix.formats.y]
f32 = { OUT = "float" }
f16 = { OUT = "float16_t" }

[[variants]]""",
}
MIXED = {
    "#version 450": """#version 450
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types : require""",
    "    uint i = gl_GlobalInvocationID.x;\n    if": """    uint i = gl_GlobalInvocationID.x;
    for (; i < p.count; i += gl_NumWorkGroups.x * THREADS)
    if""",
    "TWICE(x[i]) * p.factor + (BIASED ? bias[i] : T(0))": "OUT(float(x[i]) * 2 * p.factor)",
}


def write_tree(folder: Path, changes: Mapping[str, str] | None = None) -> Path:
    """A folder with a shader, and in a folder of it what the shader includes; texts replaced."""
    (folder / "parts" / "common").mkdir(parents=True, exist_ok=True)
    (folder / "scale.comp").write_text(_replaced(_SOURCE, changes or {}))
    (folder / "parts" / "common" / "head.glsl").write_text(_HEAD)
    return folder


def write_declaration(folder: Path, changes: Mapping[str, str] | None = None) -> Path:
    """The declaration of the tree's shader, and its reference, in a folder of their own."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scale.py").write_text(_SCALED)
    path = folder / "scale.toml"
    path.write_text(_replaced(_DECLARED, changes or {}))
    return path


def _replaced(text: str, changes: Mapping[str, str]) -> str:
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    return text
