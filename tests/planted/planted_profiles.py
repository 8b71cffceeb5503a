"""Drivers that stand for devices we lack: a lavapipe that tells no more than their reports do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from planted_drivers import LAVAPIPE, build_driver, find_library
from vkbench_worker.runtime import vk
from vkbench_worker.runtime.discovery.features import STRUCTS

CORE: Final = {"int16": "shaderInt16", "int64": "shaderInt64", "fp64": "shaderFloat64"}


@dataclass(frozen=True, kw_only=True)
class Profile:
    """What a report says of a device, as far as it decides how kernels run."""

    device: str
    report: str  # its file in the repository that the reports are from
    minor: int  # version of Vulkan 1
    vector_bits: int  # of lavapipe's: 32 for each thread of a subgroup
    limits: Mapping[str, int]  # by the names of Vulkan
    subgroup_operations: int
    max_subgroups: int  # of a workgroup whose pipeline requires a size
    lacks: tuple[str, ...]  # members of vkbench's STRUCTS
    extensions: tuple[str, ...]  # of those that vkbench knows


def read_profiles() -> dict[str, Profile]:
    """All profiles by their names."""
    content = json.loads(Path(__file__).with_name("device_profiles.json").read_text())
    return {name: Profile(**fields) for name, fields in content["profiles"].items()}


def plant_profile(profile: Profile, folder: Path) -> Path:
    """The manifest of a lavapipe that has no more than a device of a profile, made in a folder."""
    return build_driver("narrow", _write_source(profile), folder)


def _write_source(profile: Profile) -> str:
    """The library in C, with the places of members in Vulkan's structs written as numbers."""
    return _SOURCE % {
        "library": find_library(LAVAPIPE),
        "minor": profile.minor,
        "extensions": "".join(f'"{name}", ' for name in profile.extensions),
        "limits": "".join(f"  NARROW({_limit(*one)})\n" for one in profile.limits.items()),
        "limits_at": vk.ffi.offsetof("VkPhysicalDeviceProperties", "limits"),
        "core": "".join(
            f"  set(features, {vk.ffi.offsetof('VkPhysicalDeviceFeatures', CORE[name])}, 0);\n"
            for name in profile.lacks
            if name in CORE
        ),
        "features": "".join(
            f"    if (type == {struct.type}) set(one, {16 + 4 * place}, 0);\n"
            for struct in STRUCTS
            for place, name in enumerate(struct.members)
            if name in profile.lacks
        ),
        "operations": profile.subgroup_operations,
        "max_subgroups": profile.max_subgroups,
    }


def _limit(name: str, value: int) -> str:
    """Where a limit is, its size there, the report's value, and whether more of it is less."""
    member, _, index = name.partition("[")
    fields: Any = dict(vk.ffi.typeof("VkPhysicalDeviceLimits").fields)
    kind = fields[member].type
    size = vk.ffi.sizeof(kind.item if index else kind)
    place = fields[member].offset + size * int(index.rstrip("]") or 0)
    return f"{place}, uint{8 * size}_t, {value}u, {'<' if member.startswith('min') else '>'}"


_SOURCE: Final = r"""
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>
typedef void (*Function)(void);
typedef Function (*Find)(void *, const char *);
typedef int (*List)(void *, const char *, uint32_t *, char (*)[260]);
typedef void (*Ask)(void *, char *);
typedef int (*Make)(void *, const char *, const void *, void *);
enum { MOST = 1024 };
static const char *const kept[] = { %(extensions)s 0 };
static Ask properties1, properties2, features1, features2;
static List list;
static Make make;

static Function real(const char *name) {
  static void *library;
  if (!library) library = dlopen("%(library)s", RTLD_NOW);
  return (Function)dlsym(library, name);
}
static uint32_t get(char *at, int place) {
  uint32_t found;
  memcpy(&found, at + place, 4);
  return found;
}
static void set(char *at, int place, uint32_t value) { memcpy(at + place, &value, 4); }
static int is_kept(const char *name) {
  for (int i = 0; kept[i]; i++) if (!strcmp(kept[i], name)) return 1;
  return 0;
}
#define NARROW(place, kind, most, worse) \
  { kind now; memcpy(&now, limits + place, sizeof now); \
    if (now worse (kind)most) { now = (kind)most; memcpy(limits + place, &now, sizeof now); } }
static void narrow_properties(char *core) {
  char *limits = core + %(limits_at)d;
  uint32_t version = (1u << 22) | (%(minor)du << 12);
  if (get(core, 0) > version) set(core, 0, version);
%(limits)s}
static void narrow_features(char *features) {
%(core)s}
static char *next(char *one) {
  char *found;
  memcpy(&found, one + 8, sizeof found);
  return found;
}
static void ask_properties(void *device, char *asked) {
  properties1(device, asked);
  narrow_properties(asked);
}
static void ask_features(void *device, char *asked) {
  features1(device, asked);
  narrow_features(asked);
}
static void ask_properties2(void *device, char *asked) {
  properties2(device, asked);
  narrow_properties(asked + 16);
  for (char *one = next(asked); one; one = next(one)) {
    uint32_t type = get(one, 0);
    if (type == 1000094000) set(one, 24, get(one, 24) & %(operations)d);  /* of subgroups */
    if (type == 50) set(one, 72, get(one, 72) & %(operations)d);  /* of Vulkan 1.1 */
    if (type == 1000225000 && get(one, 24) > %(max_subgroups)du) set(one, 24, %(max_subgroups)du);
  }
}
static void ask_features2(void *device, char *asked) {
  features2(device, asked);
  narrow_features(asked + 16);
  for (char *one = next(asked); one; one = next(one)) {
    uint32_t type = get(one, 0);
%(features)s  }
}
static int list_extensions(void *device, const char *layer, uint32_t *count, char (*rows)[260]) {
  static char all[MOST][260];
  uint32_t found = MOST, wanted = 0;
  int status = list(device, layer, &found, all);
  if (status < 0 || layer) return status;
  for (uint32_t i = 0; i < found; i++)
    if (is_kept(all[i])) {
      if (rows && wanted == *count) return 5;  /* VK_INCOMPLETE */
      if (rows) memcpy(rows[wanted], all[i], 260);
      wanted++;
    }
  *count = wanted;
  return 0;
}
static int make_device(void *physical, const char *asked, const void *allocator, void *device) {
  uint32_t count;
  char **names;
  memcpy(&count, asked + 48, sizeof count);
  memcpy(&names, asked + 56, sizeof names);
  for (uint32_t i = 0; i < count; i++) if (!is_kept(names[i])) return -7;  /* not present */
  return make(physical, asked, allocator, device);
}
#define STAND(word, kept_in, ours) \
  if (found && !strcmp(name, word)) { kept_in = (void *)found; return (Function)ours; }
static Function stand_before(const char *name, Function found) {
  STAND("vkGetPhysicalDeviceProperties", properties1, ask_properties)
  STAND("vkGetPhysicalDeviceProperties2", properties2, ask_properties2)
  STAND("vkGetPhysicalDeviceProperties2KHR", properties2, ask_properties2)
  STAND("vkGetPhysicalDeviceFeatures", features1, ask_features)
  STAND("vkGetPhysicalDeviceFeatures2", features2, ask_features2)
  STAND("vkGetPhysicalDeviceFeatures2KHR", features2, ask_features2)
  STAND("vkEnumerateDeviceExtensionProperties", list, list_extensions)
  STAND("vkCreateDevice", make, make_device)
  return found;
}
Function vk_icdGetInstanceProcAddr(void *instance, const char *name) {
  return stand_before(name, ((Find)real("vk_icdGetInstanceProcAddr"))(instance, name));
}
Function vk_icdGetPhysicalDeviceProcAddr(void *instance, const char *name) {
  return stand_before(name, ((Find)real("vk_icdGetPhysicalDeviceProcAddr"))(instance, name));
}
int vk_icdNegotiateLoaderICDInterfaceVersion(unsigned *version) {
  return ((int (*)(unsigned *))real("vk_icdNegotiateLoaderICDInterfaceVersion"))(version);
}
"""
