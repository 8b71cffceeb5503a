"""Builds a board: reads the exports that are new, and writes the pages that they change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from vkbench.errors import VkbenchError
from vkbench_db.batches import batches
from vkbench_db.errors import ImportRefused
from vkbench_db.transfer.compressed import BROKEN, open_by_name
from vkbench_db.transfer.transcript import lines_of
from vkbench_detection.board.contents import list_faults, list_repeats
from vkbench_detection.board.index import Index, Stamp, open_index
from vkbench_detection.board.roofs import settle_roofs
from vkbench_web.board.crew import Crew, open_crew
from vkbench_web.board.lists import write_lists
from vkbench_web.board.site import Site, put_assets, write_case_pages

ENDINGS: Final = (".jsonl", ".jsonl.gz", ".jsonl.xz")
MOST_LINE: Final = 40 << 20  # characters: the greatest manifest, but not the memory of a small host
LEAST_SHARED: Final = 4  # files, of which fewer are read by this process
MOST_FILES: Final = 25  # of a part, which one process reads and this one merges
PARTS_OF_PROCESS: Final = 4  # at least, so that all processes end at about the same time

Note = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Built:
    """What a build did."""

    read: int  # files
    known: int  # files that were read by an earlier build
    removed: int  # files that are gone
    faults: int  # files that cannot be read, those of earlier builds too
    pages: int  # of cases, written anew


def build_board(exports: Path, site: Site, state: Path, note: Note, cores: int = 1) -> Built:
    """Build a board from the files of a folder; a fault costs one file, and a line."""
    site.check()
    with open_crew(cores) as crew, open_index(state) as index:
        there = dict(_find_files(exports))
        known = index.stamps()
        gone = [name for name in known if name not in there]
        for name in gone:
            index.remove(name)
        new = [name for name, stamp in there.items() if known.get(name) != stamp]
        _take_all(index, crew, exports, {name: there[name] for name in new})
        for name, fault in list_faults(index):
            note(f"left out {name}: {fault}")
        index.choose()
        for name, same_as in list_repeats(index):
            note(f"left out {name}: the same run is in {same_as}")
        settle_roofs(index)
        pages = write_case_pages(site, index, crew, state)
        write_lists(site, index)
        put_assets(site)
        site.put_mark(index)
        faults = len(list_faults(index))
    return Built(
        read=len(new), known=len(there) - len(new), removed=len(gone), faults=faults, pages=pages
    )


def _find_files(exports: Path) -> Iterator[tuple[str, Stamp]]:
    """The files of a folder and the folders in it that are named as exports are."""
    for path in sorted(exports.rglob("*")):
        if path.name.endswith(ENDINGS) and path.is_file() and not path.is_symlink():
            facts = path.stat()
            name = path.relative_to(exports).as_posix()
            name = name.encode(errors="surrogateescape").decode(errors="replace")
            yield name, Stamp(size=facts.st_size, changed=facts.st_mtime_ns)


def _take_all(index: Index, crew: Crew, exports: Path, new: Mapping[str, Stamp]) -> None:
    """Read new files; many by several processes, each into an index of its own, which is merged."""
    if crew.size < 2 or len(new) < LEAST_SHARED:
        for name, stamp in new.items():
            _take(index, exports, name, stamp)
        return
    files_of_part = min(MOST_FILES, -(-len(new) // (PARTS_OF_PROCESS * crew.size)))
    with TemporaryDirectory(prefix="vkbench-board-", dir=index.folder) as scratch:
        parts = [
            _Part(exports=exports, files=dict(files), path=Path(scratch, f"{number}.sqlite"))
            for number, files in enumerate(batches([*new.items()], files_of_part))
        ]
        for path in crew.share(_read_part, parts):
            index.merge(path)
            path.unlink()


@dataclass(frozen=True, kw_only=True)
class _Part:
    """Files that one process reads, and the index that it makes of them."""

    exports: Path
    files: Mapping[str, Stamp]
    path: Path


def _read_part(part: _Part) -> Path:
    with open_index(part.path) as index:
        for name, stamp in part.files.items():
            _take(index, part.exports, name, stamp)
    return part.path


def _take(index: Index, exports: Path, name: str, stamp: Stamp) -> None:
    path = exports / name
    try:
        with path.open("rb") as raw, open_by_name(raw, path, "rb") as file:
            texts = TextIOWrapper(file, encoding="utf-8", errors="replace")
            index.add(name, stamp, lines_of(texts, MOST_LINE))
    except BROKEN:
        index.refuse(name, stamp, f"it is no whole {path.suffix[1:]} file")
    except (ImportRefused, OSError) as error:
        index.refuse(name, stamp, _first_line(error))


def _first_line(error: VkbenchError | OSError) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text.splitlines()[0][:500] if text else "it cannot be read"
