"""The command and the variables of a process that loads a driver: no secret is among them."""

from __future__ import annotations

import os
import site
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from vkbench.process.interpreter import python
from vkbench.settings import PREFIX, Settings
from vkbench_worker.containment.places import driver_folder

# Settings that a runner reads.
_SETTINGS: Final = (
    "host",
    "data",
    "cache",
    "validation",
    "gpu_assisted",
    "sandbox",
    "robust",
    "ggml",
)
_NAMES: Final = ("PATH", "LANG", "LANGUAGE", "TZ", "TERM", "LD_LIBRARY_PATH", "DRI_PRIME")
# Of Python, numpy's libraries, the Vulkan loader and drivers.
_PREFIXES: Final = (
    *("LC_", "PYTHON", "OMP_", "GOMP_", "KMP_", "OPENBLAS_", "MKL_", "BLIS_", "NPY_"),
    *("VK_", "MESA_", "GALLIUM_", "LP_", "LIBGL_", "DRI_", "NIR_", "ACO_", "RADV_", "AMD_"),
    *("ANV_", "INTEL_", "HASVK_", "NVK_", "NOUVEAU_", "TU_", "IR3_", "PANVK_", "PAN_", "V3D_"),
    *("V3DV_", "PVR_", "ZINK_", "GPU_", "HSA_", "ROCR_", "__GL_", "__NV_", "__VK_", "NVIDIA_"),
    *("CUDA_VISIBLE_", "GGML_", "SWIFTSHADER_", "DYLD_", "MVK_", "SYSTEMROOT", "WINDIR"),
)


def hand_down_variables(settings: Settings, variables: Mapping[str, str]) -> dict[str, str]:
    """The part of `variables` that a runner gets, its settings, and its home folder."""
    home, passed = driver_folder(settings), _variables_passed_on(variables)
    data_home = variables.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    own = {f"{PREFIX}{name.upper()}": str(getattr(settings, name)) for name in _SETTINGS}
    return {
        "__GL_SHADER_DISK_CACHE": "1",  # NVIDIA's driver keeps none for root unless it is told to
        **passed,
        **own,
        f"{PREFIX}BUNDLES": str(settings.bundle_list() or settings.bundles),  # from our own home
        **homes(home),
        "XDG_DATA_HOME": data_home,  # the loader looks for drivers and layers of the user there
        # Python would look for the user's packages in the other home folder.
        "PYTHONUSERBASE": site.getuserbase(),
    }


def homes(folder: Path) -> dict[str, str]:
    """The variables by which drivers find where to keep their caches."""
    return {
        "HOME": str(folder),
        "TMPDIR": str(folder / "tmp"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "__GL_SHADER_DISK_CACHE_PATH": str(folder / "cache"),  # has to be there already
    }


def _variables_passed_on(variables: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in variables.items()
        if name in _NAMES or name.startswith(_PREFIXES)
    }


def of(settings: Settings) -> dict[str, str]:
    """What a process that this one starts is given."""
    return hand_down_variables(settings, os.environ)


def through_driver(variables: Mapping[str, str], manifest: Path) -> dict[str, str]:
    """These variables, with the one driver that a manifest names, and no other."""
    kept = {
        name: value
        for name, value in variables.items()
        if name != "VK_ADD_DRIVER_FILES" and not name.startswith("VK_LOADER_DRIVERS_")
    }
    alone = dict.fromkeys(("VK_DRIVER_FILES", "VK_ICD_FILENAMES"), str(manifest))
    return kept | alone


def contained_command(
    module: str,
    *arguments: str,
    reads: Iterable[Path] = (),
    writes: Iterable[Path] = (),
    loader: Path | None = None,
) -> list[str]:
    """The command that runs a module contained, which may read and write more than runners do.

    With a loader, what is contained starts Python anew by it, with the C library and all others
    that lie beside it: these are a driver's, and a stranger's as that is.
    """
    more = [*(f"--read={path}" for path in reads), *(f"--write={path}" for path in writes)]
    if loader:
        more.append(f"--loader={loader}")
    return python("-m", "vkbench_worker.containment.enter", *more, module, *arguments)
