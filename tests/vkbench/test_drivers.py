"""Drivers that a user adds: what makes one, where its files stay, and how mistakes are answered."""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path

import pytest

from databases import ENVIRONMENT
from planted_libraries import ENTRY, update, write_library, write_manifest
from vkbench.device import ICD, ICD_LIBRARY, Environment, OwnDrivers
from vkbench.drivers import copies
from vkbench.drivers.copies import keep_own
from vkbench.drivers.icd import read_icd
from vkbench.drivers.stamp import DriverFiles
from vkbench.drivers.store import Driver, DriverStore
from vkbench.errors import UsageError
from vkbench.programs.store import DamagedBuild


@pytest.fixture
def store(tmp_path: Path) -> DriverStore:
    return DriverStore(tmp_path / "drivers")


def test_an_installed_driver_stays_in_place_and_is_known_by_its_files(
    store: DriverStore, tmp_path: Path
) -> None:
    library = write_library(tmp_path / "lib" / "libvulkan_x.so.1.2")
    (tmp_path / "lib" / "libvulkan_x.so").symlink_to(library)
    manifest = write_manifest(tmp_path / "etc" / "x_icd.json", "../lib/libvulkan_x.so")
    driver = store.add("x-1.2", manifest)
    assert store.prepare(driver) == manifest
    assert [file.path for file in driver.build.files] == [
        "etc/x_icd.json",
        "lib/libvulkan_x.so.1.2",
    ]
    assert not list((tmp_path / "drivers").glob("files/*"))
    assert store.find("x-1.2") == store.find(driver.sha[:8]) == driver
    library.write_bytes(library.read_bytes() + b"updated")
    with pytest.raises(DamagedBuild, match=r"libvulkan_x.so.1.2 of driver x-1.2 was changed, in"):
        store.prepare(driver)
    store.remove(driver)
    assert store.add("x-1.3", manifest).sha != driver.sha


def test_a_folder_is_copied_so_that_its_next_build_is_another_driver(
    store: DriverStore, tmp_path: Path
) -> None:
    folder = tmp_path / "mesa"
    library = write_library(folder / "lib" / "libvulkan_radeon.so")
    write_library(folder / "lib" / "libdrm.so.2", b"no driver")
    (folder / "share" / "drirc").mkdir(parents=True)
    installed = write_library(tmp_path / "usr" / "libvulkan_radeon.so", b"another" + ENTRY)
    write_manifest(folder / "share" / "radeon_icd.x86_64.json", str(installed))
    first = store.add_folder("first", folder, None)
    library.write_bytes(library.read_bytes() + b"rebuilt")
    second = store.add_folder("second", folder, None)
    assert first.sha != second.sha
    places = [read_icd(store.prepare(driver)) for driver in (first, second)]
    assert [place.library.read_bytes().endswith(b"rebuilt") for place in places] == [False, True]
    assert places[0].document["ICD"]["api_version"] == "1.3.0"
    assert (places[0].library.parent / "libdrm.so.2").is_file()
    assert store.remove(second) > 0
    assert store.list_drivers() == [first]


def test_a_driver_of_another_release_brings_its_c_library(
    store: DriverStore, tmp_path: Path
) -> None:
    root = tmp_path / "trixie"
    folder = root / "usr" / "lib" / f"{platform.machine()}-linux-gnu"
    for name in ("libvulkan_lvp.so", "libvulkan_other.so", "libLLVM.so.19.1"):
        write_library(folder / name)
    write_library(folder / "ld-linux-x.so.2", b"loader")
    (folder / "libLLVM-19.so").symlink_to("libLLVM.so.19.1")
    (folder / "libout.so.1").symlink_to("/usr/lib/libout.so.1")
    manifests = root / "usr" / "share" / "vulkan" / "icd.d"
    for name in ("lvp", "other"):
        place = f"/usr/lib/{platform.machine()}-linux-gnu/libvulkan_{name}.so"
        write_manifest(manifests / f"{name}_icd.json", place)
    with pytest.raises(UsageError, match=r"of trixie have lvp_icd.json, other_icd.json: give one"):
        store.add_packages("mesa-25", "trixie", "", root)
    driver = store.add_packages("mesa-25", "trixie", "lvp_icd.json", root)
    laid_out = store.prepare(driver).parent
    assert sorted(path.name for path in laid_out.iterdir()) == [
        *("icd.json", "ld-linux-x.so.2", "libLLVM-19.so", "libLLVM.so.19.1", "libvulkan_lvp.so"),
    ]
    assert driver.loader == "ld-linux-x.so.2"
    assert read_icd(laid_out / "icd.json").library == laid_out / "libvulkan_lvp.so"


SLIPS = (
    ('{"ICD": ', "is no manifest of a Vulkan driver: it is no JSON"),
    ("[]", "is no manifest of a Vulkan driver: it is no JSON object"),
    ('{"layer": {}}', "is no manifest of a Vulkan driver: it is that of a layer"),
    ('{"file_format_version": "1.0.0"}', 'it has no object "ICD"'),
    ('{"ICD": {"library_path": 3}}', 'its "ICD" has no text "library_path"'),
    ('{"ICD": [{"library_path": "./l.so"}]}', "has several drivers: give a manifest for each"),
    (
        '{"ICD": {"library_path": "./l.so"}, "ICD": {"library_path": "./l.so"}}',
        "has several drivers: give a manifest for each",
    ),
    ('{"ICD": {"library_path": "./gone.so"}}', "names the library ./gone.so, which is not there"),
    ('{"ICD": {"library_path": "libgone.so.7"}}', "names the library libgone.so.7, which is not"),
    ('{"ICD": {"library_path": "./text.so"}}', "text.so is no shared library"),
    ('{"ICD": {"library_path": "./folder"}}', "folder: Is a directory"),
    ('{"ICD": {"library_path": "./32.so"}}', "is a library of 32 bits, and vkbench runs with 64"),
    ('{"ICD": {"library_path": "./arm.so"}}', "is for another processor than this machine's"),
    ('{"ICD": {"library_path": "./other.so"}}', "is no Vulkan driver: it has no vk_icdGetInst"),
)


@pytest.mark.parametrize(("text", "complaint"), SLIPS)
def test_what_is_no_driver_is_one_clear_line(
    store: DriverStore, tmp_path: Path, text: str, complaint: str
) -> None:
    (tmp_path / "text.so").write_text("no library")
    (tmp_path / "folder").mkdir()
    for name, bits, machine in (("l", 64, 0), ("32", 32, 0), ("arm", 64, 7)):
        write_library(tmp_path / f"{name}.so", bits=bits, machine=machine)
    write_library(tmp_path / "other.so", b"something else")
    (tmp_path / "icd.json").write_text(text)
    with pytest.raises(UsageError) as slip:
        store.add("x", tmp_path / "icd.json")
    assert complaint in str(slip.value)
    assert "\n" not in str(slip.value)
    assert not store.list_drivers()


def test_names_and_files_are_taken_once(store: DriverStore, tmp_path: Path) -> None:
    write_library(tmp_path / "l.so")
    manifest = write_manifest(tmp_path / "x_icd.json", "./l.so")
    driver = store.add("x", manifest)
    for name, complaint in (
        ("x", "there is a driver x already"),
        ("y", "these files are the driver x already"),
        ("a b", "'a b' is no driver's name"),
        ("driver:x", "'driver:x' is no driver's name"),
    ):
        with pytest.raises(UsageError, match=complaint):
            store.add(name, manifest)
    assert store.list_drivers() == [driver]
    with pytest.raises(UsageError, match="unknown driver 'z'; there is 'x'"):
        store.find("z")


def test_a_folder_needs_one_driver(store: DriverStore, tmp_path: Path) -> None:
    def refuse(folder: Path, manifest: Path | None = None) -> str:
        with pytest.raises(UsageError) as slip:
            store.add_folder("x", folder, manifest)
        return str(slip.value)

    assert "there is no folder" in refuse(tmp_path / "gone")
    folder = tmp_path / "mesa"
    write_library(folder / "one.so")
    assert "there is no manifest *icd*.json in" in refuse(folder)
    one = write_manifest(folder / "one_icd.json", "./one.so")
    write_manifest(folder / "two_icd.json", "./one.so")
    assert "has several drivers" in refuse(folder)
    outside = write_library(tmp_path / "out.so")
    other = write_manifest(tmp_path / "out_icd.json", str(outside))
    assert f"names {outside}, which is not in {folder}" in refuse(folder, other)
    assert isinstance(store.add_folder("x", folder, one), Driver)


def test_none_was_added_yet(store: DriverStore) -> None:
    with pytest.raises(UsageError, match="none was added yet, which `vkbench driver add NAME"):
        store.find("mesa")


def names_of(own: OwnDrivers) -> list[str]:
    return [copy.name.rpartition("-")[0] for copy in own.copies]


def test_the_last_two_drivers_of_a_manifest_are_kept(tmp_path: Path) -> None:
    place = tmp_path / "own"
    first = update(tmp_path, "22.3.6")
    own = keep_own(first, place)
    assert (names_of(own), own.reason) == (["llvmpipe-22.3.6"], "")
    assert own.copies[0].library == first.extra[ICD_LIBRARY]
    assert keep_own(first, place) == own  # a worker that starts again copies nothing
    other = keep_own(update(tmp_path, "1.0", "y"), place)
    for version in ("25.0.7", "26.1~rc1"):
        own = keep_own(update(tmp_path, version), place)
    assert names_of(own) == ["llvmpipe-1.0", "llvmpipe-25.0.7", "llvmpipe-26.1-rc1"]
    assert other.copies[-1] == own.copies[0]  # another manifest's
    own = keep_own(update(tmp_path, "25.0.7"), place)  # taken back
    own = keep_own(update(tmp_path, "26.2.0"), place)
    assert names_of(own) == ["llvmpipe-1.0", "llvmpipe-25.0.7", "llvmpipe-26.2.0"]
    store = DriverStore(tmp_path / "drivers", place)
    assert store.list_drivers() == []  # its user added none
    for copy in own.copies:
        icd = read_icd(store.prepare(store.find_any(copy.sha)))
        assert hashlib.sha256(icd.library.read_bytes()).hexdigest().startswith(copy.library)
    assert len(list(place.glob("files/*"))) == 5  # both manifests of x are equal


def test_what_is_not_copied_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(known: Environment) -> str:
        own = keep_own(known, tmp_path / "own")
        assert not own.copies
        return own.reason

    assert refuse(ENVIRONMENT).endswith("driver is kept: which files it has is not clear")
    assert "another version cannot be timed beside it" in refuse(
        update(tmp_path, "570", "GLX_nvidia")
    )
    known = update(tmp_path, "1")
    update(tmp_path, "2")
    assert "is another one than it was when the runner loaded it" in refuse(known)
    with monkeypatch.context() as patched:
        patched.setattr(copies, "MOST_COPY_BYTES", 1 << 20)
        with (tmp_path / "lib" / "libx.so").open("ab") as library:
            os.truncate(library.fileno(), 3 << 20)
        assert refuse(known).endswith("libx.so has 3 MiB, and copies have at most 1")
    (tmp_path / "etc" / "x_icd.json").unlink()
    assert "cannot read" in refuse(known)


def test_an_update_of_a_driver_is_seen_from_outside(tmp_path: Path) -> None:
    known = update(tmp_path, "1")
    library = Path(read_icd(Path(known.extra[ICD])).library)
    before, after = library.stat().st_ctime - 1, library.stat().st_ctime + 1
    files = DriverFiles(known, after)
    assert not files.have_moved()
    assert DriverFiles(known, before).have_moved()  # the process may have loaded the old one
    write_library(tmp_path / "new", b"2" + ENTRY).replace(library)
    assert files.have_moved()
    assert not DriverFiles(known, library.stat().st_ctime + 1).have_moved()
    library.unlink()
    assert files.have_moved()
    files.await_stillness(lambda: True)  # nobody waits any more
    unclear = DriverFiles(ENVIRONMENT, before)
    own = DriverFiles(update(tmp_path, "570", "GLX_nvidia"), before)
    assert not unclear.have_moved()
    assert not own.have_moved()
