"""A tree of Slang sources: which file has a module, what it imports and declares.

A module is found by its name, in whatever folder its file lies: so trees of older revisions and
edited copies, which have other folders or none, compile as the packaged tree does.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from vkbench.errors import UsageError

TREE = Path(__file__).parents[1] / "slang"  # the packaged one
_IMPORT = re.compile(
    r"(?:^|;)\s*(?:__exported\s+)?(?:import|__include)\s+([\w.]+)\s*(?=;)", re.MULTILINE
)
_SPEC_CONSTANT = re.compile(r"vk::constant_id\(\d+\)\]+[\s\w]*?(\w+)\s*=")


def source_of(module: str, tree: Path) -> Path:
    """The file of a module; UsageError unless exactly one file of the tree has its name."""
    return sources_by_module([module], tree)[module]


def sources_by_module(modules: Iterable[str], tree: Path) -> dict[str, Path]:
    """The file of each module; UsageError names all modules that have none, or one with several."""
    named: dict[str, list[Path]] = {module: [] for module in modules}
    for path in tree.rglob("*.slang"):
        if path.stem in named:
            named[path.stem].append(path)
    missing = ", ".join(f"{module}.slang" for module, paths in sorted(named.items()) if not paths)
    if missing:
        raise UsageError(f"{tree} is no shader tree: it lacks {missing}")
    for module, paths in named.items():
        if len(paths) > 1:
            places = " and ".join(sorted(path.relative_to(tree).as_posix() for path in paths))
            raise UsageError(f"{tree} has several files of the module {module}: {places}; keep one")
    return {module: paths[0] for module, paths in named.items()}


def sources_of(source: Path, tree: Path) -> list[Path]:
    """The files that a module is made of: its own and all that it imports."""
    sources: set[Path] = set()
    waiting = [source]
    while waiting:
        path = waiting.pop()
        if path not in sources:
            sources.add(path)
            waiting += _find_imports(path, tree)
    return sorted(sources)


def _find_imports(path: Path, tree: Path) -> list[Path]:
    """The files that a file imports: by paths from its own folder, else from the tree's."""
    imports = []
    for name in _IMPORT.findall(path.read_text()):
        file = f"{name.replace('.', '/')}.slang"
        places = (folder / file for folder in (path.parent, tree))
        imports += [place for place in places if place.is_file()][:1]
    return imports


def constants_of(source: Path, tree: Path) -> set[str]:
    """The specialisation constants that a module declares, and all that it imports."""
    sources = sources_of(source, tree)
    return {name for path in sources for name in _SPEC_CONSTANT.findall(path.read_text())}


def tree_sha(tree: Path) -> str:
    """SHA-256 over all Slang sources of a tree, names and content."""
    return sha_of(tree.rglob("*.slang"), tree)


def sha_of(paths: Iterable[Path], tree: Path) -> str:
    """SHA-256 over some files of a tree, names and content."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(tree).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()
