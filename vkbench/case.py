"""A case: one kernel on given formats, shape and parameters; its readable name is its identity.

    mul_mat_vec/q4_0/m4096_n1_k14336
    dequantize/q4_0:y=f16/m64_k4096
    add/f32/b2_c3_h5_w7/broadcast=row,layout=strided
    mul_mat_vec/q4_K/m4096_n1_k4096/weights=0123456789abcdef
    model/llama-8b-q4_K_M-0123456789ab/pp512
    lab.rms_quant/f32/m64_k4096
    add/f32/b2_c3_h5_w7/seed=3
    my-bench:copy/64m

Only what differs from a kernel's defaults is named, so a parameter that is added later with a
default leaves all old names, hashes and histories as they are. Input data follow from the name
alone; where `weights` is named, those of the first binding are a file's bytes with that SHA-256.
A whole model's cases have the kernel `model`, and the model's name and hash in the format's place.
A kernel that a user declares has its owner's name before its own, and a point between. With `seed`
the inputs are others of the same kind. A case that only another program knows has its program's
name before its own, and a colon between; up to the first slash it counts as the kernel.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from vkbench.errors import UsageError

Value = int | float | str
WEIGHTS = "weights"  # parameter of every kernel that reads weights: what they hash to
SEED = "seed"  # parameter of every kernel: which of its inputs a case has, if not the first
MODEL = "model"  # the kernel of a whole model's cases

OWN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}\.[A-Za-z][A-Za-z0-9_]{0,63}")

_OF_PROGRAM = re.compile(
    r"[a-z0-9][a-z0-9-]{0,39}"
    r":([A-Za-z0-9_](?:[A-Za-z0-9_.:=<>+,()/#@ -]{0,198}[A-Za-z0-9_.:<>()+-])?)"
)
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_MODEL_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*-[0-9a-f]{12}")
_DIM = re.compile(r"([a-z]+)=?(0|[1-9][0-9]*)")


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """One point of a kernel's parameter space."""

    kernel: str
    format: str  # format of the kernel's first typed binding, usually its weights
    shape: Mapping[str, int]  # dimension (letters only) -> size, in the kernel's own order
    types: Mapping[str, str] = field(default_factory=dict)  # other bindings, if not the default
    params: Mapping[str, Value] = field(default_factory=dict)  # those not at their default
    rest: str = ""  # of a program's own case, which has neither formats nor sizes: behind the slash

    @cached_property
    def name(self) -> str:
        """The canonical name; `parse` reads it back."""
        formats = "".join(f":{binding}={fmt}" for binding, fmt in sorted(self.types.items()))
        shape = "_".join(f"{dim}{size}" for dim, size in self.shape.items())
        params = ",".join(f"{key}={value}" for key, value in sorted(self.params.items()))
        return "/".join(
            filter(None, (self.kernel, self.format + formats, shape, params, self.rest))
        )

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the name, in hex."""
        return hashlib.sha256(self.name.encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Case) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name


def is_model(name: str) -> bool:
    """Whether a case is a whole model's."""
    return name.startswith(f"{MODEL}/")


def is_own(name: str) -> bool:
    """Whether a case is of a user's kernel, which a bundle declares."""
    return "." in name.partition("/")[0] and not program_of(name)


def program_of(name: str) -> str:
    """The program whose own case a name is; "" of the catalogue's cases and users' kernels."""
    program, colon, _ = name.partition("/")[0].partition(":")
    return program if colon else ""


def tokens_of(name: str) -> int:
    """Tokens of one run of a whole model's case: a prompt's, or one; 0 of a kernel's case."""
    if not is_model(name):
        return 0
    case = parse(name)
    batch = case.params.get("batch", 1)
    return case.shape.get("pp", 1) * (batch if isinstance(batch, int) else 1)


def parse(name: str) -> Case:
    """Read a canonical name; UsageError says which part is malformed."""
    if program_of(name):
        return _parse_case_of_program(name)
    parts = name.split("/")
    word = OWN_NAME if is_own(name) else _WORD
    if len(parts) not in (3, 4) or not word.fullmatch(parts[0]):
        raise UsageError(f"malformed case '{name}': expected kernel/format/shape[/parameters]")
    fmt, *typed = parts[1].split(":")
    if not (_MODEL_NAME if parts[0] == MODEL else _WORD).fullmatch(fmt):
        raise UsageError(f"malformed case '{name}': '{fmt}' is not a format's name")
    return Case(
        kernel=parts[0],
        format=fmt,
        shape=parse_shape(parts[2].replace("_", ",")),
        types={k: str(v) for k, v in _pairs(typed, name)},
        params=dict(_pairs(parts[3].split(",") if len(parts) == 4 else [], name)),
    )


def check_case_of_program(name: str) -> str:
    """The name of a program's own case, the program's before it; UsageError for what is none."""
    if not _OF_PROGRAM.fullmatch(name):
        raise UsageError(
            f"{name.partition(':')[2][:60]!a} cannot be a case's name: give up to 200 letters, "
            "digits, spaces and _.:=<>+,()/#@-, and begin with a letter or a digit"
        )
    return name


def _parse_case_of_program(name: str) -> Case:
    kernel, _, rest = check_case_of_program(name).partition("/")
    return Case(kernel=kernel, format="", shape={}, rest=rest)


def with_seed(name: str, seed: int) -> str:
    """A case's name with other inputs; that of a case which names its inputs, or for seed 0, stays.

    So do those of a whole model's case and of a program's own.
    """
    if not seed or is_model(name) or program_of(name):
        return name
    case = parse(name)
    return replace(case, params={SEED: seed, **case.params}).name


def without_seed(name: str) -> tuple[str, int]:
    """A case's name without its seed, and the seed; 0 where it names none."""
    if f"{SEED}=" not in name or is_model(name) or program_of(name):
        return name, 0
    case = parse(name)
    seed = case.params.get(SEED, 0)
    others = {key: value for key, value in case.params.items() if key != SEED}
    return replace(case, params=others).name, seed if isinstance(seed, int) else 0


def parse_shape(text: str) -> dict[str, int]:
    """Read `m=64,n=1,k=256` or `m64,n1,k256`; 0 is for empty arrays."""
    shape: dict[str, int] = {}
    for item in text.split(","):
        dim = _DIM.fullmatch(item.strip().lower())
        if not dim or dim[1] in shape:
            form = "m=64,n=1,k=256 with whole sizes, each once"
            raise UsageError(f"malformed shape '{text}': expected {form}")
        shape[dim[1]] = int(dim[2])
    return shape


def _pairs(items: list[str], name: str) -> list[tuple[str, Value]]:
    pairs: list[tuple[str, Value]] = []
    for item in items:
        key, equals, value = item.partition("=")
        if not (equals and value and _WORD.fullmatch(key)):
            raise UsageError(f"malformed case '{name}': '{item}' is not name=value")
        pairs.append((key, value if key == WEIGHTS else value_of(value)))
    return pairs


def value_of(text: str) -> Value:
    """A parameter's value as its text says it: a number where it is one."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
