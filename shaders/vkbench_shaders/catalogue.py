"""The catalogue: every kernel there is, and cases found in it by name, glob and shape."""

from __future__ import annotations

from collections.abc import Mapping

from vkbench.case import Case, parse
from vkbench.errors import NothingToDo, UsageError
from vkbench.words import names
from vkbench_shaders.kernel import Kernel, Problem
from vkbench_shaders.kernels.attention.entries import ATTENTION
from vkbench_shaders.kernels.attention.indexer import LIGHTNING_INDEXER
from vkbench_shaders.kernels.attention.token import FLASH_ATTN_TOKEN
from vkbench_shaders.kernels.calibration.calibrate import CALIBRATE
from vkbench_shaders.kernels.calibration.submissions import SUBMISSIONS
from vkbench_shaders.kernels.elementwise.added import ADDED
from vkbench_shaders.kernels.elementwise.affine import AFFINE
from vkbench_shaders.kernels.elementwise.binary import BINARY
from vkbench_shaders.kernels.elementwise.compare import COMPARE
from vkbench_shaders.kernels.elementwise.glu import GLU
from vkbench_shaders.kernels.elementwise.glu_rounded import GLU_ROUNDED
from vkbench_shaders.kernels.elementwise.joined import JOINED
from vkbench_shaders.kernels.elementwise.random import RANDOM
from vkbench_shaders.kernels.elementwise.select import SELECT
from vkbench_shaders.kernels.elementwise.unary import UNARY
from vkbench_shaders.kernels.images.col2im import COL2IM
from vkbench_shaders.kernels.images.conv import CONV
from vkbench_shaders.kernels.images.conv_dw import CONV_DW
from vkbench_shaders.kernels.images.conv_transposed import CONV_TRANSPOSED
from vkbench_shaders.kernels.images.im2col import IM2COL
from vkbench_shaders.kernels.images.pool import POOL
from vkbench_shaders.kernels.images.upsample import UPSAMPLE
from vkbench_shaders.kernels.matrices.matmul import MATMUL
from vkbench_shaders.kernels.matrices.mul_mat import MUL_MAT
from vkbench_shaders.kernels.matrices.mul_mat_id import MUL_MAT_ID
from vkbench_shaders.kernels.matrices.solve_tri import SOLVE_TRI
from vkbench_shaders.kernels.matrices.vectors.joined_vec import JOINED_VEC
from vkbench_shaders.kernels.matrices.vectors.mul_mat_vec import MUL_MAT_VEC
from vkbench_shaders.kernels.matrices.vectors.mul_mat_vec_id import MUL_MAT_VEC_ID
from vkbench_shaders.kernels.moves.accumulation import INDEX_SUMS
from vkbench_shaders.kernels.moves.blocks import BLOCKS
from vkbench_shaders.kernels.moves.casts import CASTS
from vkbench_shaders.kernels.moves.concat import CONCAT
from vkbench_shaders.kernels.moves.copies import COPIES
from vkbench_shaders.kernels.moves.copy import COPY
from vkbench_shaders.kernels.moves.fills import FILLS
from vkbench_shaders.kernels.moves.gradients import MOVE_GRADIENTS
from vkbench_shaders.kernels.moves.index import INDEX
from vkbench_shaders.kernels.moves.parts import PARTS
from vkbench_shaders.kernels.moves.rearranged import MOVES
from vkbench_shaders.kernels.moves.triangles import TRIANGLES
from vkbench_shaders.kernels.quant.copy_from import COPY_FROM
from vkbench_shaders.kernels.quant.dequantize import DEQUANTIZE
from vkbench_shaders.kernels.quant.get_rows import GET_ROWS
from vkbench_shaders.kernels.quant.quantize import QUANTIZE
from vkbench_shaders.kernels.quant.set_rows import SET_ROWS
from vkbench_shaders.kernels.recurrent.delta import GATED_DELTA_NET
from vkbench_shaders.kernels.recurrent.delta_token import GATED_DELTA_NET_TOKEN
from vkbench_shaders.kernels.recurrent.rwkv import RWKV
from vkbench_shaders.kernels.recurrent.selective import SELECTIVE
from vkbench_shaders.kernels.recurrent.ssm import SSM
from vkbench_shaders.kernels.recurrent.ssm_token import SSM_SCAN_TOKEN
from vkbench_shaders.kernels.reductions.reduce import REDUCE
from vkbench_shaders.kernels.reductions.routing import ROUTING
from vkbench_shaders.kernels.reductions.scan import SCAN
from vkbench_shaders.kernels.reductions.sort import SORT
from vkbench_shaders.kernels.rowwise.embedding import TIMESTEP_EMBEDDING
from vkbench_shaders.kernels.rowwise.hadamard import HADAMARD
from vkbench_shaders.kernels.rowwise.loss import LOSS
from vkbench_shaders.kernels.rowwise.norm import NORM
from vkbench_shaders.kernels.rowwise.norm_rounded import NORM_ROUNDED
from vkbench_shaders.kernels.rowwise.rope import ROPE
from vkbench_shaders.kernels.rowwise.rope_normed import RMS_NORM_ROPE
from vkbench_shaders.kernels.rowwise.rope_normed_rows import RMS_NORM_ROPE_SET_ROWS
from vkbench_shaders.kernels.rowwise.rope_rows import ROPE_SET_ROWS
from vkbench_shaders.kernels.rowwise.softmax import SOFTMAX
from vkbench_shaders.kernels.rowwise.streams import STREAMS
from vkbench_shaders.kernels.training.muon import MUON
from vkbench_shaders.kernels.training.optimisers import OPTIMISERS

KERNELS: tuple[Kernel, ...] = (
    COPY,
    DEQUANTIZE,
    COPY_FROM,
    GET_ROWS,
    QUANTIZE,
    SET_ROWS,
    MUL_MAT_VEC,
    *JOINED_VEC,
    MUL_MAT,
    MUL_MAT_VEC_ID,
    MUL_MAT_ID,
    *UNARY,
    *GLU,
    *GLU_ROUNDED,
    *BINARY,
    *ADDED,
    *JOINED,
    *COMPARE,
    *SELECT,
    *AFFINE,
    *REDUCE,
    *SCAN,
    *SORT,
    *NORM,
    *NORM_ROUNDED,
    *SOFTMAX,
    *LOSS,
    *ROPE,
    ROPE_SET_ROWS,
    RMS_NORM_ROPE,
    RMS_NORM_ROPE_SET_ROWS,
    TIMESTEP_EMBEDDING,
    *COPIES,
    *FILLS,
    *CASTS,
    CONCAT,
    *BLOCKS,
    *MOVES,
    *TRIANGLES,
    *PARTS,
    *INDEX,
    *INDEX_SUMS,
    *MOVE_GRADIENTS,
    *MATMUL,
    SOLVE_TRI,
    HADAMARD,
    *CONV,
    *CONV_DW,
    *CONV_TRANSPOSED,
    *IM2COL,
    *COL2IM,
    *POOL,
    *UPSAMPLE,
    *ROUTING,
    *ATTENTION,
    FLASH_ATTN_TOKEN,
    LIGHTNING_INDEXER,
    *SSM,
    SSM_SCAN_TOKEN,
    *SELECTIVE,
    GATED_DELTA_NET,
    GATED_DELTA_NET_TOKEN,
    *STREAMS,
    *RWKV,
    *OPTIMISERS,
    MUON,
    *RANDOM,
    *CALIBRATE,
    *SUBMISSIONS,
)

_BY_NAME = {kernel.name: kernel for kernel in KERNELS}
if len(_BY_NAME) != len(KERNELS):
    raise ValueError("two kernels have one name")


def kernel_named(name: str) -> Kernel:
    """A kernel by name, whatever its case."""
    return _BY_NAME.get(name) or _BY_NAME[names.pick(name, _BY_NAME, "kernel")]


def is_code_path(name: str) -> bool:
    """Whether results of a kernel are called so, in whatever case."""
    paths = {variant.name for kernel in KERNELS for variant in kernel.variants}
    return name.casefold() in {"auto", "all", *paths}


def problem(case: Case | str) -> Problem:
    """A case, or its name, checked against the catalogue: UsageError for what does not exist."""
    named = parse(case) if isinstance(case, str) else case
    kernel = kernel_named(named.kernel)
    types = {kernel.bindings[0].name: named.format, **named.types}
    return Problem(kernel, kernel.case(types, named.shape, named.params))


def expand(
    kernel_glob: str = "*",
    format_glob: str = "*",
    shape: Mapping[str, int] | None = None,
    timed: bool = False,
) -> list[Case]:
    """The cases of all kernels and formats that fit; a group of kernels goes by its name.

    A shape that has a kernel's every dimension makes the one case it names, listed or not; one that
    has some of them keeps the listed cases that agree; a kernel without one of its dimensions is
    left out.
    """
    kernels = [kernel_named(name) for name in matching(kernel_glob)]
    known = list(dict.fromkeys(fmt for kernel in kernels for fmt in kernel.bindings[0].types))
    formats = names.matching(format_glob, known, f"format of {kernel_glob}")
    shape = shape or {}
    cases = [case for kernel in kernels for case in _cases(kernel, formats, shape, timed)]
    if not cases:
        raise _nothing(kernels, formats, shape)
    return cases


def groups() -> list[str]:
    """The groups of kernels, in the catalogue's order."""
    return list(dict.fromkeys(kernel.group for kernel in KERNELS))


def matching(glob: str) -> list[str]:
    """Kernels by name or glob; those of a group where no kernel has the name."""
    group = glob.casefold()
    if group in groups() and group not in _BY_NAME:
        return [kernel.name for kernel in KERNELS if kernel.group == group]
    return names.matching(glob, _BY_NAME, "kernel")


def describe(kernel: Kernel) -> dict[str, object]:
    """A kernel as built-in types: bindings, parameters and variants, for those who script it."""
    return {
        "name": kernel.name,
        "description": kernel.description,
        "group": kernel.group,
        "dims": list(kernel.dims),
        "bindings": [
            {
                "name": binding.name,
                "access": binding.access,
                "types": list(binding.types),
                "dims": list(binding.dims),
                "same_as": binding.same_as,
                "follows": binding.follows,
                "description": binding.description,
                "when": {name: list(values) for name, values in binding.when.items()},
            }
            for binding in kernel.bindings
        ],
        "params": {
            name: {
                "default": param.default,
                "choices": list(param.choices),
                "description": param.description,
            }
            for name, param in kernel.params.items()
        },
        "variants": [
            {"name": variant.name, "requires": list(variant.requires), "path": variant.arithmetic}
            for variant in kernel.variants
        ],
        "cases": len(kernel.cases),
        "timed": len(kernel.timed),
    }


def _cases(kernel: Kernel, formats: list[str], shape: Mapping[str, int], timed: bool) -> list[Case]:
    if not shape.keys() <= set(kernel.dims):
        return []
    if shape.keys() == set(kernel.dims):
        chosen = [fmt for fmt in kernel.bindings[0].types if fmt in formats]
        return [case for fmt in chosen if (case := _make_case(kernel, fmt, shape))]
    listed = kernel.timed if timed else kernel.cases
    agrees = [case for case in listed if shape.items() <= case.shape.items()]
    return [case for case in agrees if case.format in formats]


def _make_case(kernel: Kernel, fmt: str, shape: Mapping[str, int]) -> Case | None:
    """The case of a shape, in the first formats that may meet this one."""
    first = kernel.bindings[0].name
    types = next(types for types in kernel.type_choices() if types[first] == fmt)
    try:
        return kernel.case(types, shape)
    except UsageError:
        return None


def _nothing(kernels: list[Kernel], formats: list[str], shape: Mapping[str, int]) -> Exception:
    """Why a selection is empty: the one kernel's own complaint where there is one kernel."""
    sizes = ",".join(f"{dim}={size}" for dim, size in shape.items())
    for kernel in kernels:
        if shape.keys() == set(kernel.dims):
            try:
                kernel.case({kernel.bindings[0].name: formats[0]}, shape)
            except UsageError as error:
                return error
    dims = "; ".join(f"{kernel.name} has {','.join(kernel.dims)}" for kernel in kernels)
    return NothingToDo(
        f"no case of {', '.join(k.name for k in kernels)} has the shape {sizes or 'any'} ({dims})"
    )
