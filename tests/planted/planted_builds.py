"""Builds of ggml with a fault that was planted: a library that stands before the shipped one."""

from __future__ import annotations

import shutil
import subprocess
from glob import glob
from pathlib import Path

from vkbench.programs.build import Build
from vkbench.programs.program import GGML_VULKAN
from vkbench.programs.sources import open_build
from vkbench.programs.store import BuildStore

BASE = "libggml-base.so"
BEHIND = "libggml-cpu0.so"  # what the shipped library is called there; as long a name
NEXT = "extern void *dlsym(void *, const char *);\n#define NEXT(name) dlsym((void *)-1L, name)\n"
FAULTS = {
    # computes every graph eight times: less is lost in the noise of a shared CPU
    "slow": """
int ggml_backend_graph_compute(void *backend, void *graph) {
  int (*next)(void *, void *) = NEXT("ggml_backend_graph_compute");
  int status = 0;
  for (int i = 0; i < 8; i++) status |= next(backend, graph);
  return status;
}""",
    # leaves out the last 512 bytes of what it should copy to the device
    "wrong": """
void ggml_backend_tensor_set(void *tensor, const char *data, long offset, long size) {
  void (*next)(void *, const void *, long, long) = NEXT("ggml_backend_tensor_set");
  next(tensor, data, offset, size > 4096 ? size - 512 : size);
}""",
    "crash": """
int ggml_backend_graph_compute(void *backend, void *graph) { return *(volatile int *)0; }""",
    "hang": """
int ggml_backend_graph_compute(void *backend, void *graph) { for (;;); }""",
}


def add_shipped(store: BuildStore, ggml: Path, name: str = "shipped") -> Build:
    """The build as its package has it."""
    with open_build(ggml, GGML_VULKAN) as opens:
        return store.add(GGML_VULKAN.name, opens, name)


def add_planted(store: BuildStore, ggml: Path, fault: str, folder: Path, name: str = "") -> Build:
    """The same build with a fault, made in a folder; its name is that of the fault by default."""
    folder.mkdir()
    for library in ("libggml-vulkan.so", *glob("libggml-cpu-x64.so", root_dir=ggml)):
        shutil.copy(ggml / library, folder)
    shipped = (ggml / BASE).read_bytes()
    assert shipped.count(f"\0{BASE}\0".encode()) == 1  # its own name
    renamed = shipped.replace(f"\0{BASE}\0".encode(), f"\0{BEHIND}\0".encode())
    (folder / BEHIND).write_bytes(renamed)
    (folder / "fault.c").write_text(NEXT + FAULTS[fault])
    command = ["gcc", "-shared", "-fPIC", "-nostdlib", "-o", BASE, "fault.c", f"-Wl,-soname,{BASE}"]
    linked = ["-Wl,--no-as-needed", "-L.", f"-l:{BEHIND}", "-Wl,-rpath,$ORIGIN"]
    subprocess.run([*command, *linked], cwd=folder, check=True)
    with open_build(folder, GGML_VULKAN) as opens:
        return store.add(GGML_VULKAN.name, opens, name or fault)


def add_unloadable(store: BuildStore, lacks: str, folder: Path) -> Build:
    """A build that no host can load: it needs a newer C library, or a Vulkan loader elsewhere."""
    folder.mkdir()
    (folder / "base.c").write_text("#include <string.h>\nchar *f(char *s) { return strdup(s); }")
    (folder / "empty.c").write_text("")
    gcc = ["gcc", "-shared", "-fPIC", "-O0"]
    linked = []
    if lacks == "libvulkan":
        loader = ["-o", "libvulkan.so.99", "empty.c", "-Wl,-soname,libvulkan.so.99"]
        subprocess.run([*gcc, *loader], cwd=folder, check=True)
        linked = ["-Wl,--no-as-needed", "-L.", "-l:libvulkan.so.99"]
    subprocess.run([*gcc, "-o", BASE, "base.c"], cwd=folder, check=True)
    subprocess.run([*gcc, "-o", "libggml-vulkan.so", "empty.c", *linked], cwd=folder, check=True)
    if lacks == "glibc":
        made = (folder / BASE).read_bytes()
        (folder / BASE).write_bytes(made.replace(b"\0GLIBC_2.", b"\0GLIBC_9."))
    with open_build(folder, GGML_VULKAN) as opens:
        return store.add(GGML_VULKAN.name, opens, lacks)
