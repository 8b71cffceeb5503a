"""The success metrics of the plans, each with the function that says what was measured of it.

The time of a kernel is taken from the newest results of the chosen devices. What it is compared
with is measured now, in this process, or in turns with it (`vkbench run --peer torch`), or was
recorded beside it on one GPU. A target without a measurement shows the command that makes one.

Two metrics of the plans have no row, because no figure shows them: 32 and 20 passing tests, which
were never written, and 35 shaders of quantised blocks, which are no unit that vkbench has.
"""

from __future__ import annotations

from dataclasses import dataclass

from plans import blocks, cases, cuda, standings, workgroups
from plans.evidence import Find


@dataclass(frozen=True, kw_only=True)
class Target:
    """A success metric."""

    plan: str  # number of the plan that names it
    name: str
    wanted: str
    find: Find


TARGETS = (
    Target(plan="000", name="Q4_0 error", wanted="below 0.5", find=blocks.error_of_blocks),
    Target(
        plan="000",
        name="Q4_0 size",
        wanted="7.1 times smaller",
        find=blocks.compression("q4_0", 7.1),
    ),
    Target(plan="000", name="Q4_0 size", wanted="85.9 % saved", find=blocks.saved("q4_0", 85.9)),
    Target(
        plan="001", name="Q4 size", wanted="8 times smaller", find=blocks.compression("q4_0", 8)
    ),
    Target(
        plan="002",
        name="Q8_0 size",
        wanted="3.8 times smaller",
        find=blocks.compression("q8_0", 3.8),
    ),
    Target(
        plan="002",
        name="IQ2_XXS size",
        wanted="16 times smaller",
        find=blocks.compression("iq2_xxs", 16),
    ),
    Target(plan="000", name="Q4_0 layout", wanted="18 bytes a block of 32", find=standings.layout),
    Target(
        plan="000",
        name="GPU and CPU",
        wanted="faster on large products, said when slower on small",
        find=standings.faster_than_cpu(cases.SQUARES[0], cases.SMALL_SQUARE),
    ),
    Target(
        plan="002",
        name="F32 product 4096²",
        wanted="50 to 100 times the CPU",
        find=standings.times_the_cpu(cases.SQUARES[:1], 50),
    ),
    Target(
        plan="002",
        name="F32 products, smaller",
        wanted="50 to 100 times the CPU",
        find=standings.times_the_cpu(cases.SQUARES[1:], 50),
    ),
    Target(
        plan="002",
        name="F32 product 4096²",
        wanted="0.8 to 1.2 times CUDA",
        find=cuda.times_cuda(cases.SQUARES[:1], 0.8),
    ),
    Target(
        plan="002",
        name="Q4_0 products",
        wanted="100 to 200 times the CPU",
        find=standings.times_the_cpu(cases.BLOCKS, 100),
    ),
    Target(
        plan="002",
        name="Q4_0 product 4096²",
        wanted="1.0 to 1.5 times CUDA f16",
        find=cuda.times_cuda(cases.BLOCKS[:1], 1.0),
    ),
    Target(
        plan="002",
        name="element-wise",
        wanted="20 to 50 times the CPU",
        find=standings.times_the_cpu(cases.ELEMENTS, 20),
    ),
    Target(
        plan="002",
        name="element-wise",
        wanted="0.9 to 1.1 times CUDA",
        find=cuda.times_cuda(cases.ELEMENTS, 0.9),
    ),
    Target(
        plan="002",
        name="reductions",
        wanted="30 to 60 times the CPU",
        find=standings.times_the_cpu(cases.ROWS, 30),
    ),
    Target(
        plan="002",
        name="reductions",
        wanted="0.9 to 1.1 times CUDA",
        find=cuda.times_cuda(cases.ROWS, 0.9),
    ),
    *(
        Target(
            plan="002",
            name=f"{name} loss",
            wanted=f"below {percent:g} %",
            find=blocks.loss(name.lower(), percent),
        )
        for name, percent in (("Q4_0", 2.0), ("Q8_0", 0.5), ("IQ2_XXS", 5.0))
    ),
    Target(
        plan="002",
        name="parity with the CPU, 128²",
        wanted="1e-5",
        find=standings.parity(cases.SMALL_SQUARE),
    ),
    Target(
        plan="002",
        name="product sizes",
        wanted="256² to 4096²",
        find=standings.all_timed(cases.SQUARES),
    ),
    *(
        Target(
            plan="002",
            name=f"workgroups of {vendor}",
            wanted=wanted,
            find=workgroups.fastest(number, least, most),
        )
        for vendor, wanted, number, least, most in (
            ("AMD", "64", workgroups.AMD, 64, 64),
            ("NVIDIA", "256 to 1024", workgroups.NVIDIA, 256, 1024),
            ("Intel", "128 to 256", workgroups.INTEL, 128, 256),
        )
    ),
    Target(plan="004", name="kernels", wanted="103", find=standings.rocm_kernels(103)),
)
