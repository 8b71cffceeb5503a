"""Builds of programs: named by their files, kept whole, and refused where a file is hostile."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from vkbench.errors import UnknownName, UsageError, VkbenchError
from vkbench.programs.build import Build, BuildFile, NoBuild, check_build
from vkbench.programs.program import GGML_VULKAN
from vkbench.programs.sources import open_build, open_in_place
from vkbench.programs.store import BuildStore, DamagedBuild, list_linked

FILES = {"libggml-base.so": b"base", "libggml-vulkan.so": b"vulkan"}
OTHER = FILES | {"libggml-vulkan.so": b"vulkan of another release"}


@pytest.fixture
def store(tmp_path: Path) -> BuildStore:
    return BuildStore(tmp_path / "store")


def write_folder(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def write_tar(path: Path, files: Mapping[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


def write_zip(path: Path, files: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def add(store: BuildStore, path: Path, name: str = "") -> Build:
    with open_build(path, GGML_VULKAN) as opens:
        return store.add(GGML_VULKAN.name, opens, name)


def test_a_build_has_the_hash_of_what_sha256sum_prints(store: BuildStore, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "release", FILES)
    listed = subprocess.run(
        ["sha256sum", *sorted(FILES)], cwd=folder, capture_output=True, check=True
    ).stdout
    assert add(store, folder).sha == hashlib.sha256(listed).hexdigest()


@pytest.mark.parametrize("write", [write_folder, write_tar, write_zip])
@pytest.mark.parametrize("below", ["", "package/bins/linux-x64-vulkan/", "./a/"])
def test_a_build_is_the_same_from_wherever_it_comes(
    store: BuildStore, tmp_path: Path, write: Callable[..., Path], below: str
) -> None:
    whole = {below + name: data for name, data in FILES.items()} | {"README.md": b"not of it"}
    build = add(store, write(tmp_path / "release", whole))
    assert build.sha == add(store, write_folder(tmp_path / "plain", FILES)).sha
    assert [file.path for file in build.files] == sorted(FILES)
    laid_out = store.lay_out(build)
    assert {path.name: path.read_bytes() for path in laid_out.iterdir()} == FILES
    assert os.access(laid_out / "libggml-base.so", os.X_OK)


def test_links_of_a_release_are_files(store: BuildStore, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "lib", {"libggml-base.so.0.9": b"base", **FILES})
    (folder / "libggml-base.so").unlink()
    (folder / "libggml-base.so").symlink_to("libggml-base.so.0.9")
    with tarfile.open(tmp_path / "lib.tar", "w") as tar:
        tar.add(folder, "lib")
    build = add(store, folder)
    assert build.sha == add(store, tmp_path / "lib.tar").sha
    assert len(build.files) == 3
    assert build.nbytes == len(b"base") + len(b"vulkan")


def test_builds_are_found_by_name_and_by_hash(store: BuildStore, tmp_path: Path) -> None:
    old = add(store, write_folder(tmp_path / "old", FILES), "b8121")
    new = add(store, write_folder(tmp_path / "new", OTHER), "b8390")
    assert store.list_builds() == [old, new]
    assert store.find("b8121") == store.find(old.sha[:8]) == old
    assert add(store, tmp_path / "old") == old  # its name stays
    assert add(store, tmp_path / "old", "b8122").name == "b8122"
    with pytest.raises(UnknownName, match="unknown build 'b8121'; did you mean 'b8122'"):
        store.find("b8121")
    add(store, tmp_path / "new", "b8122")
    with pytest.raises(UsageError, match="several builds are called 'b8122'"):
        store.find("b8122")


def test_what_is_removed_frees_its_files_alone(store: BuildStore, tmp_path: Path) -> None:
    old = add(store, write_folder(tmp_path / "old", FILES))
    new = add(store, write_folder(tmp_path / "new", OTHER))
    store.lay_out(old)
    assert store.remove([old]) == len(b"vulkan")
    assert store.list_builds() == [new]
    assert store.lay_out(new).joinpath("libggml-base.so").read_bytes() == b"base"
    with pytest.raises(DamagedBuild, match="is not kept any more: add it again"):
        store.lay_out(old)


def test_what_a_killed_add_left_goes_later(store: BuildStore, tmp_path: Path) -> None:
    add(store, write_folder(tmp_path / "old", FILES))
    left = tmp_path / "store" / "files" / ".new-abc"
    left.write_bytes(b"half")
    assert store.remove([]) == 0
    os.utime(left, (1, 1))
    assert store.remove([]) == 4
    assert len(store.list_builds()) == 1


def test_a_file_that_was_changed_is_not_run(store: BuildStore, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "old", FILES)
    build = add(store, folder)
    (store.lay_out(build) / "libggml-base.so").write_bytes(b"evil")
    with pytest.raises(DamagedBuild, match=r"libggml-base.so of the build was changed"):
        store.lay_out(build)
    add(store, folder)
    assert (store.lay_out(build) / "libggml-base.so").read_bytes() == b"base"


def add_in_place(store: BuildStore, folder: Path, name: str = "") -> Build:
    with open_in_place(folder, GGML_VULKAN) as (root, opens):
        return store.add(GGML_VULKAN.name, opens, name, folder=root)


def test_files_that_stay_in_place_are_not_copied(store: BuildStore, tmp_path: Path) -> None:
    whole = {f"build/bin/{name}": data for name, data in FILES.items()}
    build = add_in_place(store, write_folder(tmp_path / "llama", {"secret": b"", **whole}), "mine")
    assert build.folder == str(tmp_path / "llama" / "build" / "bin")
    assert store.find("mine") == build
    assert not list((tmp_path / "store").glob("files/*"))
    laid_out = store.lay_out(build)
    assert {path.name: path.read_bytes() for path in laid_out.iterdir()} == FILES
    lying = tmp_path / "llama" / "build" / "bin"
    assert list_linked(laid_out) == [lying / name for name in sorted(FILES)]
    assert store.measure([build]) == store.remove([build]) == 0
    assert (tmp_path / "llama" / "build" / "bin" / "libggml-base.so").read_bytes() == b"base"


def test_files_in_place_that_are_changed_or_gone_are_not_run(
    store: BuildStore, tmp_path: Path
) -> None:
    folder = write_folder(tmp_path / "mine", FILES)
    other = add(store, write_folder(tmp_path / "other", OTHER))
    build = add_in_place(store, folder)
    (folder / "libggml-base.so").write_bytes(b"evil")
    with pytest.raises(DamagedBuild, match=r"libggml-base.so of the build was changed, in .*mine"):
        store.lay_out(build)
    (folder / "libggml-base.so").unlink()
    with pytest.raises(DamagedBuild, match=r"libggml-base.so of the build is gone from .*mine"):
        store.lay_out(build)
    assert store.lay_out(other)
    write_folder(folder, FILES)
    assert store.lay_out(build)


def test_a_build_that_is_kept_needs_no_place(store: BuildStore, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "mine", FILES)
    add(store, folder, "kept")
    assert add_in_place(store, folder).folder == ""
    in_place = add_in_place(store, write_folder(tmp_path / "other", OTHER))
    assert in_place.folder
    kept = add(store, tmp_path / "other")
    assert (kept.sha, kept.folder) == (in_place.sha, "")
    store.lay_out(in_place)
    assert not (store.lay_out(kept) / "libggml-base.so").is_symlink()


def test_an_archive_cannot_stay_in_place(store: BuildStore, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no folder: only the files of one can stay in place"):
        add_in_place(store, write_tar(tmp_path / "a.tgz", FILES))


def test_shared_files_count_for_the_last_build_that_has_them(
    store: BuildStore, tmp_path: Path
) -> None:
    old = add(store, write_folder(tmp_path / "old", FILES))
    new = add(store, write_folder(tmp_path / "new", OTHER))
    assert store.measure([old]) == len(b"vulkan")
    assert store.measure([old, new]) == len(b"base" + b"vulkan" + OTHER["libggml-vulkan.so"])
    assert len(store.list_builds()) == 2


def test_a_manifest_that_was_changed_is_no_build(store: BuildStore, tmp_path: Path) -> None:
    build = add(store, write_folder(tmp_path / "old", FILES))
    manifest = tmp_path / "store" / "builds" / f"{build.sha}.json"
    for text in ("", "{}", manifest.read_text().replace("libggml-base.so", "../../evil.so")):
        manifest.write_text(text)
        assert store.list_builds() == []


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({"libggml-base.so": b""}, r"no libggml-vulkan.so\* in it, which every build"),
        ({}, r"no libggml-base.so\* in it"),
        (
            {f"{folder}/{name}": b"" for folder in ("a", "b") for name in FILES},
            r"libggml-base.so\* lies in a and in b: name one of them",
        ),
    ],
)
def test_what_is_no_single_build_is_refused(
    store: BuildStore, tmp_path: Path, files: dict[str, bytes], complaint: str
) -> None:
    with pytest.raises(NoBuild, match=complaint):
        add(store, write_folder(tmp_path / "release", files | {"README": b""}))
    assert store.list_builds() == []


def test_links_out_of_a_folder_or_an_archive_are_refused(store: BuildStore, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"key")
    folder = write_folder(tmp_path / "release", {"libggml-base.so": b""})
    (folder / "libggml-vulkan.so").symlink_to(tmp_path / "secret")
    with tarfile.open(tmp_path / "release.tar", "w") as tar:
        tar.add(folder, "release")
    with pytest.raises(NoBuild, match=r"libggml-vulkan.so links to .*secret, out of"):
        add(store, folder)
    with pytest.raises(NoBuild, match=r"links to .*secret, which is no file of the archive"):
        add(store, tmp_path / "release.tar")


def test_paths_of_an_archive_lead_nowhere_else(store: BuildStore, tmp_path: Path) -> None:
    for depth in ("../../", "/etc/"):
        build = add(store, write_tar(tmp_path / "a.tgz", {depth + n: d for n, d in FILES.items()}))
        assert [file.path for file in build.files] == sorted(FILES)
    mixed = {"../../libggml-base.so": b"", "a/libggml-vulkan.so": b""}
    with pytest.raises(VkbenchError):
        add(store, write_tar(tmp_path / "b.tgz", mixed))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tgz", "b.tgz", "store"]


@pytest.mark.parametrize("data", [b"", b"hello", b"\x1f\x8b\x08\x00nonsense"])
def test_what_is_no_archive_is_refused(store: BuildStore, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(UsageError, match=r"should be a folder, tar or zip file: [^\n]+$"):
        add(store, tmp_path / "file")
    with pytest.raises(UsageError, match="there is no folder or archive"):
        add(store, tmp_path / "nothing")


@pytest.mark.parametrize("write", [write_tar, write_zip])
def test_an_archive_that_ends_half_way_is_refused(
    store: BuildStore, tmp_path: Path, write: Callable[..., Path]
) -> None:
    files = {name: os.urandom(100_000) for name in FILES}
    whole = write(tmp_path / "whole", files).read_bytes()
    for share in (0.3, 0.6, 0.9):
        (tmp_path / "cut").write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(VkbenchError):
            add(store, tmp_path / "cut")
    flipped = bytearray(whole)
    flipped[len(whole) // 3] ^= 255
    (tmp_path / "flipped").write_bytes(flipped)
    with pytest.raises(VkbenchError):
        add(store, tmp_path / "flipped")
    assert store.list_builds() == []


@pytest.mark.parametrize("path", ["", ".", "..", "a/../b", "/a", "a//b", "./a", "a\n", "x" * 256])
def test_a_path_out_of_the_folder_is_refused(path: str) -> None:
    file = BuildFile(path=path, sha="0" * 64, nbytes=1)
    with pytest.raises(NoBuild):
        check_build(Build(program="ggml-vulkan", files=(file,)))


def test_a_build_has_a_size_that_a_lab_can_send() -> None:
    file = BuildFile(path="a", sha="0" * 64, nbytes=5 << 30)
    with pytest.raises(NoBuild, match="at most 1000 files and 4 GiB"):
        check_build(Build(program="ggml-vulkan", files=(file,)))


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "store").write_bytes(b"")
    with pytest.raises(VkbenchError, match=r"builds cannot be kept in .*store"):
        add(BuildStore(tmp_path / "store"), write_folder(tmp_path / "old", FILES))
