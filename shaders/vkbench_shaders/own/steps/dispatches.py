"""The dispatches of a variant: itself, or each of its steps with what it says of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Final, TypeVar

from vkbench_shaders.own.declaration import StepTable, VariantTable, is_spirv
from vkbench_shaders.own.records import STEP, UnfitDeclaration, entries_of

MAY_LACK: Final = "?"  # ends the name of what only some versions of the code have
REST: Final = "*"  # push constants that a declaration does not name
_NEEDED: Final = ("source", "groups")
# fields of a variant that hold for a step which does not give them, or gives nothing
_LENT: Final = ("source", "entry", "groups", "subgroup_size")
_LENT_IF_NONE: Final = ("workgroup", "full_subgroups", "bindings")

T = TypeVar("T")


def list_dispatches(variant: VariantTable) -> list[VariantTable]:
    """A variant for each of its dispatches, in order; the one it is, where it has no steps."""
    if not variant.steps:
        _check_needed(variant)
        return [variant]
    names = entries_of(variant.name, len(variant.steps))
    joined = [_join(variant, step, name) for step, name in zip(variant.steps, names, strict=True)]
    for dispatch in joined:
        _check_needed(dispatch)
    return joined


def describe_dispatch(name: str) -> str:
    """What messages call a dispatch: by its variant, and the number of the step if it is one."""
    variant, dot, number = name.partition(STEP)
    return f"variant {variant}, step {number}" if dot else f"variant {variant}"


def describe_code(name: str, formats: Sequence[str]) -> str:
    """What messages call the code of a dispatch: by the formats that it is for too, if any."""
    return describe_dispatch(name) + (f" for {','.join(formats)}" if formats else "")


def is_step(dispatch: VariantTable) -> bool:
    """Whether a dispatch is one of several."""
    return STEP in dispatch.name


def _join(variant: VariantTable, step: StepTable, name: str) -> VariantTable:
    """A step with what the variant says of all, which it takes where its code has that."""
    own = {item.name: getattr(step, item.name) for item in fields(step)}
    default = {item: getattr(variant, item) for item in own}
    own |= {item: default[item] for item in _LENT if not own[item]}
    own |= {item: default[item] for item in _LENT_IF_NONE if own[item] is None}
    own["push"] = _lend_values(variant.push, step.push)
    own["constants"] = _lend_values(variant.constants, step.constants)
    if not is_spirv(own["source"]):
        own["compiler"] = step.compiler or variant.compiler
        own["defines"] = {**variant.defines, **step.defines}
        own["include"] = (*step.include, *variant.include)
        own["flags"] = (*variant.flags, *step.flags)
        own["preamble"] = variant.preamble + step.preamble
    return replace(variant, name=name, steps=(), **own)


def _lend_values(given: Mapping[str, T], step: Mapping[str, T]) -> dict[str, T]:
    """Values of a variant that a step may lack, and the step's own in their place."""
    named = {name.removesuffix(MAY_LACK) for name in step}
    lent = {
        name if name == REST else f"{name.removesuffix(MAY_LACK)}{MAY_LACK}": value
        for name, value in given.items()
        if name.removesuffix(MAY_LACK) not in named
    }
    return {**lent, **step}


def _check_needed(dispatch: VariantTable) -> None:
    lacking = [name for name in _NEEDED if not getattr(dispatch, name)]
    if lacking:
        raise UnfitDeclaration(f"{describe_dispatch(dispatch.name)} lacks {' and '.join(lacking)}")
