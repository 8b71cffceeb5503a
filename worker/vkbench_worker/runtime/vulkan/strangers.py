"""Examines SPIR-V of bundles other than the packaged one before a driver sees it.

The packaged bundle's hash came with the package, and each of its modules is checked against it.
"""

from __future__ import annotations

from functools import lru_cache

from vkbench.settings import settings
from vkbench_shaders.compile.examination import UnfitSpirv, examine
from vkbench_shaders.compile.validator import find, objection
from vkbench_worker.runtime.program import Claims, Program


def check(program: Program) -> None:
    """Raise UnfitSpirv unless a driver may have a program."""
    if program.claims is None:
        return
    used = _examine_code(program.code, program.claims)
    if beyond := used.difference(program.bindings):
        raise UnfitSpirv(
            f"the code of {program.claims.entry.key} is refused: it uses binding {min(beyond)}, "
            f"and the launch has none of this number"
        )


@lru_cache(maxsize=4096)
def _examine_code(code: bytes, claims: Claims) -> frozenset[int]:
    used = examine(code, claims.entry, claims.interface)
    if complaint := objection(find(settings().cache), code):
        raise UnfitSpirv(f"the code of {claims.entry.key} is refused by spirv-val: {complaint}")
    return used
