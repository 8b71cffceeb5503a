"""Names for the shell's completion, looked up when the Tab key asks for them."""

from __future__ import annotations

import re
from contextlib import suppress

from vkbench.errors import VkbenchError
from vkbench.settings import settings
from vkbench_cli.store import known_devices, reading

_UNSAFE = re.compile(r"[^\w .,:/()+-]")  # for a shell, or for a terminal


def kernels(incomplete: str) -> list[tuple[str, str]]:
    """Kernels of the catalogue with their descriptions."""
    from vkbench_shaders.catalogue import KERNELS

    return [(k.name, k.description) for k in KERNELS if k.name.startswith(incomplete.lower())]


def formats(incomplete: str) -> list[tuple[str, str]]:
    """Formats with their descriptions."""
    from vkbench_shaders.formats import FORMATS

    return [(f.name, f.description) for f in FORMATS if f.name.startswith(incomplete.lower())]


def suites(incomplete: str) -> list[tuple[str, str]]:
    """Suites with their descriptions, and how long they take."""
    from vkbench_scheduler.planning.suites import SUITES

    return [(s.name, s.summary) for s in SUITES if s.name.startswith(incomplete.lower())]


def architectures(incomplete: str) -> list[str]:
    """Architectures of models that can be made."""
    from vkbench_shaders.models.making.shapes import ARCHITECTURES

    return [name for name in ARCHITECTURES if name.startswith(incomplete.lower())]


def models(incomplete: str) -> list[str]:
    """Models whose sizes are known."""
    from vkbench_shaders.models.making.shapes import SHAPES

    return [name for name in SHAPES if name.startswith(incomplete.lower())]


def types(incomplete: str) -> list[str]:
    """Types of model files."""
    from vkbench_shaders.models.making.mixtures import TYPES

    return [name for name in TYPES if name.casefold().startswith(incomplete.casefold())]


def devices(incomplete: str) -> list[tuple[str, str]]:
    """Keys of the devices that the database knows, with their names.

    Shells evaluate what is completed, and a worker may call its device anything.
    """
    try:
        known = known_devices(settings())
    except VkbenchError:
        return []  # a Tab key is no place for errors
    return [
        (row.key, _UNSAFE.sub("?", row.name))
        for row in known
        if row.key.startswith(incomplete.lower()) and not _UNSAFE.search(row.key)
    ]


def programs(incomplete: str) -> list[str]:
    """Programs of which builds are known."""
    known = {program for program, _ in _known_builds()}
    return sorted(name for name in known if name.startswith(incomplete))


def builds(incomplete: str) -> list[tuple[str, str]]:
    """Builds that are kept here, or that the database knows, with their programs."""
    return [
        (word, _UNSAFE.sub("?", program))
        for program, word in _known_builds()
        if word.startswith(incomplete)
    ]


def _known_builds() -> list[tuple[str, str]]:
    """The program of each build, and the word that names the build; each once."""
    from vkbench.programs.build import find_word
    from vkbench_cli.builds import kept_builds

    words: set[tuple[str, str]] = set()
    with suppress(VkbenchError):  # a Tab key is no place for errors
        kept = kept_builds(settings()).list_builds()
        words |= {(build.program, find_word(build.name, build.sha)) for build in kept}
    with suppress(VkbenchError), reading(settings()) as tx:
        from vkbench_db.ask.builds import builds as list_stored

        words |= {(row.program, find_word(row.name, row.sha)) for row in list_stored(tx)}
    return sorted((program, word) for program, word in words if not _UNSAFE.search(word))
