"""Drivers with a fault that was planted: a library that stands before the real driver's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

LAVAPIPE: Final = Path("/usr/share/vulkan/icd.d/lvp_icd.x86_64.json")
SWIFTSHADER: Final = Path("/usr/lib/chromium/vk_swiftshader_icd.json")
FAULTS: Final = {
    "none": "next_dispatch(commands, x, y, z);",
    # does all work eight times: less is lost in the noise of a shared CPU
    "slow": "for (int i = 0; i < 8; i++) next_dispatch(commands, x, y, z);",
    "wrong": "if (x > 1) next_dispatch(commands, x - 1, y, z);",  # leaves out the last workgroup
    "crash": "next_dispatch(commands, *(volatile unsigned *)0, y, z);",
}
_SHIM: Final = """
extern void *dlopen(const char *, int);
extern void *dlsym(void *, const char *);
extern int strcmp(const char *, const char *);
typedef void (*Function)(void);
typedef Function (*Find)(void *, const char *);
static void (*next_dispatch)(void *, unsigned, unsigned, unsigned);
static Find next_find;

static void *real(const char *name) {{
  static void *library;
  if (!library) library = dlopen("{library}", 2);
  return dlsym(library, name);
}}
static void dispatch(void *commands, unsigned x, unsigned y, unsigned z) {{ {fault} }}
static Function of_device(void *device, const char *name) {{
  Function found = next_find(device, name);
  if (!found || strcmp(name, "vkCmdDispatch")) return found;
  next_dispatch = (void (*)(void *, unsigned, unsigned, unsigned))found;
  return (Function)dispatch;
}}
Function vk_icdGetInstanceProcAddr(void *instance, const char *name) {{
  Function found = ((Find)real("vk_icdGetInstanceProcAddr"))(instance, name);
  if (!found || strcmp(name, "vkGetDeviceProcAddr")) return found;
  next_find = (Find)found;
  return (Function)of_device;
}}
Function vk_icdGetPhysicalDeviceProcAddr(void *instance, const char *name) {{
  return ((Find)real("vk_icdGetPhysicalDeviceProcAddr"))(instance, name);
}}
int vk_icdNegotiateLoaderICDInterfaceVersion(unsigned *version) {{
  return ((int (*)(unsigned *))real("vk_icdNegotiateLoaderICDInterfaceVersion"))(version);
}}
"""


def shim_of(fault: str, manifest: Path = LAVAPIPE) -> str:
    """The source in C of a library that is another driver's with a fault."""
    return _SHIM.format(library=find_library(manifest), fault=FAULTS[fault])


def find_library(manifest: Path) -> Path:
    """The library of a driver by its manifest."""
    library: str = json.loads(manifest.read_text())["ICD"]["library_path"]
    return (manifest.parent / library).resolve()


def plant_driver(fault: str, folder: Path, manifest: Path = LAVAPIPE) -> Path:
    """The manifest of a driver that is another one's with a fault, made in a folder."""
    folder.mkdir()
    return build_driver(fault, shim_of(fault, manifest), folder, manifest)


def build_driver(name: str, source: str, folder: Path, manifest: Path = LAVAPIPE) -> Path:
    """The manifest of a driver whose library, in C, stands before another one's; in a folder."""
    icd = json.loads(manifest.read_text())
    (folder / "shim.c").write_text(source)
    command = ["gcc", "-shared", "-fPIC", "-O1", "-nostdlib", "-o", f"lib{name}.so", "shim.c"]
    subprocess.run(command, cwd=folder, check=True)
    icd["ICD"]["library_path"] = f"./lib{name}.so"
    (folder / f"{name}_icd.json").write_text(json.dumps(icd))
    return folder / f"{name}_icd.json"


def install_driver(fault: str, folder: Path, made: Path) -> Path:
    """The manifest of a lavapipe that is installed in a folder, or updated there, made in another.

    It has the names of Debian's, so that a runner knows which of its libraries is the driver.
    """
    manifest = plant_driver(fault, made)
    folder.mkdir(exist_ok=True)
    icd = json.loads(manifest.read_text())
    icd["ICD"]["library_path"] = "./libvulkan_lvp.so"
    (folder / LAVAPIPE.name).write_text(json.dumps(icd))
    shutil.copy(made / f"lib{fault}.so", folder / "new")
    os.replace(folder / "new", folder / "libvulkan_lvp.so")  # as packages do: it may be in use
    return folder / LAVAPIPE.name
