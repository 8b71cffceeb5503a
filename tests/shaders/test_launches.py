"""The catalogue's launches are held against what the compiled units take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from vkbench.device import DeviceFacts
from vkbench_shaders.bundle import PROBES, Bundle
from vkbench_shaders.catalogue import KERNELS, kernel_named
from vkbench_shaders.compile.launches import check
from vkbench_shaders.kernel import Kernel, Launch, Problem
from vkbench_shaders.launch import Interface, LaunchMismatch

pytestmark = pytest.mark.slow

COPY = kernel_named("copy")


def changed(change: Callable[[Launch], Launch]) -> Kernel:
    """The kernel copy with another launch."""
    (variant,) = COPY.variants

    def launch(problem: Problem, device: DeviceFacts) -> Launch:
        (found,) = variant.launches(problem, device)
        return change(found)

    return replace(COPY, variants=(replace(variant, launch=launch),))


def misspelt(launch: Launch) -> Launch:
    renamed = {{"groups_x": "group_x"}.get(name, name): n for name, n in launch.push.items()}
    return replace(launch, push=renamed)


def test_a_misspelt_push_constant_is_named(bundle: Bundle) -> None:
    with pytest.raises(LaunchMismatch) as found:
        check(bundle, [changed(misspelt)])
    assert str(found.value) == (
        "copy/f32/n0, variant portable: copy/copy: push constants that the launch does not give: "
        "groups_x; that it gives and the unit does not have: group_x"
    )


@pytest.mark.parametrize("constants", [{}, {"THREAD": 128}], ids=["missing", "misspelt"])
def test_a_specialisation_constant_that_is_not_given_is_named(
    bundle: Bundle, constants: dict[str, int]
) -> None:
    with pytest.raises(LaunchMismatch, match="does not give: THREADS; "):
        check(bundle, [changed(lambda launch: replace(launch, constants=constants))])


def test_every_entry_point_is_launched_with_what_it_takes(bundle: Bundle) -> None:
    asked: set[str] = set()

    class Noting(Bundle):
        def interface(self, key: str) -> Interface:
            asked.add(key)
            return super().interface(key)

    check(Noting(text=bundle.text, blobs=bundle.blobs), KERNELS)
    entries = {(entry.module, entry.entry) for entry in bundle.manifest.entries}
    checked = {(bundle.entry(key).module, bundle.entry(key).entry) for key in asked}
    assert entries - checked == {(probe.module, probe.entry) for probe in PROBES}
