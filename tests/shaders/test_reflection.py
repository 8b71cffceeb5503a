"""What compiled kernels need and take is read from their SPIR-V."""

from __future__ import annotations

from pathlib import Path

import pytest

from vkbench_shaders.bundle import Bundle, entry_key
from vkbench_shaders.catalogue import KERNELS
from vkbench_shaders.compile import compiler, reflection, spirv
from vkbench_shaders.compile.compiler import Unit
from vkbench_shaders.launch import SET_BY_RUNTIME
from vkbench_worker.runtime import fragments, packing

BASE = {"Shader"}  # every device
FEATURES = {  # what asks for each device feature
    "subgroup_basic": {"GroupNonUniform"},
    "subgroup_arithmetic": {"GroupNonUniform", "GroupNonUniformArithmetic"},
    "subgroup_shuffle": {"GroupNonUniform", "GroupNonUniformShuffle"},
    "subgroup_vote": {"GroupNonUniform", "GroupNonUniformVote"},
    "int_dot": {"DotProduct", "DotProductInput4x8BitPacked"},
    "fp16": {"Float16"},
    "int8": {"Int8"},
    "fp64": {"Float64"},
    "int64": {"Int64"},
    "bf16": {"BFloat16TypeKHR", "BFloat16CooperativeMatrixKHR"},
    "storage16": {"UniformAndStorageBuffer16BitAccess"},
    "storage8": {"UniformAndStorageBuffer8BitAccess"},
    "device_scope": {"VulkanMemoryModelDeviceScope"},
    "timeline": set(),
    "coopmat": {"CooperativeMatrixKHR", "VulkanMemoryModel"},
    **{f"matrix_{kind}": set() for kind in ("f16_f16", "f16_f32", "bf16_f32", "i8_i32")},
    **{f"matrix_{kind}_8x8x8": set() for kind in ("f16_f16", "f16_f32", "i8_i32")},
}
UNSAID = {"bf16_f32": {"UniformAndStorageBuffer16BitAccess"}}  # which Slang leaves out for bf16


def test_a_variant_s_code_needs_what_it_requires_and_no_more(bundle: Bundle) -> None:
    for kernel in KERNELS:
        for types in kernel.type_choices():
            for variant in kernel.variants:
                if not variant.accepts(types):
                    continue
                stages = variant.stages_for(types)
                entries = [bundle.entry(entry_key(stage, types)) for stage in stages]
                required = {*variant.requires, *(name for s in stages for name in s.requires)}
                wanted = set().union(*(FEATURES[name] for name in required))
                needed = set().union(*(entry.capabilities for entry in entries))
                wanted -= UNSAID.get(variant.name, set())
                assert needed == BASE | wanted, (entries[0].key, variant.name)


PROBE = """
[vk::constant_id(4)] const int LEVEL = -1;
[vk::constant_id(2)] const uint THREADS = 64;
[vk::constant_id(3)] const bool EXACT = false;
[vk::constant_id(5)] const float UNUSED = 1;
struct Place { uint2 first; float scale; }
struct Push { uint rows; int3 shift; Place x, y; uint strides[3]; float2 pairs[2]; uint64_t begin; }
[[vk::push_constant]] ConstantBuffer<Push> push;
[[vk::binding(0)]] RWStructuredBuffer<float> result;
[shader("compute")] [numthreads(THREADS, 2, 1)]
void probe(uint3 id : SV_DispatchThreadID)
{
    result[id.x] = push.x.scale + push.y.first.x + push.strides[id.y] + push.pairs[1].y + LEVEL
        + (EXACT ? push.rows : push.shift.z) + uint(push.begin);
}
"""


def test_names_types_and_places_are_read_from_the_code(tmp_path: Path) -> None:
    (tmp_path / "probe.slang").write_text(PROBE)
    code = compiler.find().compile(Unit(module="probe", entry="probe"), tmp_path)
    found = reflection.needs(code).interface
    assert [(each.name, each.type, each.count, each.offset) for each in found.push] == [
        ("rows", "u32", 1, 0),
        ("shift", "i32", 3, 16),
        ("x.first", "u32", 2, 32),
        ("x.scale", "f32", 1, 40),
        ("y.first", "u32", 2, 48),
        ("y.scale", "f32", 1, 56),
        ("strides", "u32", 3, 64),
        ("pairs", "f32", 4, 80),
        ("begin", "u64", 1, 96),
    ]
    assert found.block.size == 104
    assert [(each.name, each.id, each.type) for each in found.constants] == [
        ("THREADS", 2, "u32"),
        ("EXACT", 3, "bool"),
        ("LEVEL", 4, "i32"),
    ]
    assert found.sized_by == ("THREADS", "", "")


def test_code_without_names_is_refused(tmp_path: Path) -> None:
    """Of push constants and of specialisation constants, as tools may strip them."""
    (tmp_path / "probe.slang").write_text(PROBE)
    code = compiler.find().compile(Unit(module="probe", entry="probe"), tmp_path)
    for stripped in (5, 6):  # OpName, OpMemberName
        header, instructions, body = spirv.read(code)
        kept = [(op, ops) for op, ops in instructions if op != stripped]
        with pytest.raises(reflection.Nameless, match="stripped"):
            reflection.needs(spirv.write(header, kept) + body)


def test_the_runtime_s_constants_have_one_number_each(bundle: Bundle) -> None:
    """Which it sets by that number in every unit."""
    constants = [each for entry in bundle.manifest.interfaces.values() for each in entry.constants]
    numbers = {(each.name, each.id) for each in constants if each.name in SET_BY_RUNTIME}
    assert numbers == {("DEVICE_PACKS", packing.CONSTANT), ("FRAGMENTS", fragments.CONSTANT)}
    assert {name for name, _ in numbers} == SET_BY_RUNTIME
