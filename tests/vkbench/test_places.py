"""Builds travel by hash: whole files, whatever was cut, changed or full on the way."""

from __future__ import annotations

import errno
import hashlib
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ssh_keys import allow, new_ssh_key
from vkbench.errors import UsageError
from vkbench.messages.keys import new_keys, read_keys
from vkbench.programs import transfer
from vkbench.programs.build import Build, NoBuild
from vkbench.programs.places.filesystem import FilesystemPlace
from vkbench.programs.places.folder import FolderPlace
from vkbench.programs.places.opening import open_place
from vkbench.programs.places.place import (
    CheckedFile,
    NotThere,
    OtherBytes,
    PlaceUnreachable,
    key_of_file,
    key_of_signed,
)
from vkbench.programs.program import GGML_VULKAN
from vkbench.programs.signed import NotSigned, SignedBuild, find_signer, get_signed, sign, sign_for
from vkbench.programs.sources import open_build
from vkbench.programs.store import BuildStore, DamagedBuild
from vkbench.programs.transfer import Fetch, OutOfTime, send
from vkbench.settings import Settings

FILES = {"libggml-base.so": b"base" * 1000, "libggml-vulkan.so": b"vulkan" * 100_000}


class CutPlace(FolderPlace):
    """A folder whose files are cut after so many bytes, each time that one is read."""

    def __init__(self, folder: Path, after: int) -> None:
        super().__init__(folder)
        self._after = after
        self.starts: list[int] = []

    @contextmanager
    def read(self, key: str, start: int = 0) -> Iterator[Iterator[bytes]]:
        self.starts.append(start)
        with super().read(key, start) as pieces:
            yield iter([next(pieces)[: self._after]])


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_ssh_key(tmp_path_factory.mktemp("keys") / "ann")


@pytest.fixture
def here(tmp_path: Path) -> BuildStore:
    return BuildStore(tmp_path / "here")


@pytest.fixture
def there(tmp_path: Path) -> BuildStore:
    return BuildStore(tmp_path / "there")


@pytest.fixture
def build(here: BuildStore) -> Build:
    folder = here.folder.with_name("unpacked")
    folder.mkdir()
    for name, data in FILES.items():
        (folder / name).write_bytes(data)
    with open_build(folder, GGML_VULKAN) as opens:
        return here.add("ggml-vulkan", opens, "b1")


def never() -> bool:
    return False


@pytest.mark.parametrize("kind", ["folder", "memory"])
def test_what_a_place_lacks_is_sent_once_and_comes_out_again(
    here: BuildStore, there: BuildStore, build: Build, key: Path, tmp_path: Path, kind: str
) -> None:
    place = (
        FolderPlace(tmp_path / "place")
        if kind == "folder"
        else FilesystemPlace(f"memory://{tmp_path.name}")
    )
    assert send(build, sign_for(place, GGML_VULKAN, build, key), here, place) == build.nbytes
    assert send(build, sign_for(place, GGML_VULKAN, build, key), here, place) == 0
    signed = get_signed(build.sha, place)
    assert signed.declared.build == replace(build, name="", added_at=0.0)
    assert Fetch(there, place, never)(signed.declared.build) == build.nbytes
    assert Fetch(there, place, never)(signed.declared.build) == 0
    folder = there.lay_out(there.find(build.sha))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == FILES
    assert not list((there.folder / "files").glob(".*"))


def test_a_cut_file_is_read_on_from_where_it_ended(
    here: BuildStore, there: BuildStore, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "PAUSE_SECONDS", 0.0)
    place = CutPlace(here.folder, after=250_000)
    assert Fetch(there, place, never)(build) == build.nbytes
    assert place.starts == [0, 0, 250_000, 500_000]
    place = CutPlace(here.folder, after=100_000)
    other = BuildStore(there.folder.with_name("other"))
    with pytest.raises(PlaceUnreachable, match=r"libggml-vulkan.so .* cut after 300,000 bytes"):
        Fetch(other, place, never)(build)
    with pytest.raises(PlaceUnreachable, match="cut after"):
        Fetch(other, CutPlace(here.folder, after=0), never)(build)  # what came has stayed
    assert Fetch(other, place, never)(build) == len(FILES["libggml-vulkan.so"])
    assert place.starts[-3:] == [300_000, 400_000, 500_000]
    assert other.lay_out(build).is_dir()


def test_a_file_of_another_hash_is_never_kept(
    here: BuildStore, there: BuildStore, build: Build
) -> None:
    file = build.files[0]
    kept = here.path_of(file.sha)
    kept.chmod(0o644)
    for wrong in (b"x" * file.nbytes, b"x" * (file.nbytes + 1), FILES[file.path] + b"x"):
        kept.write_bytes(wrong)
        with pytest.raises(OtherBytes, match=r"libggml-base.so \(.* is another file"):
            Fetch(there, FolderPlace(here.folder), never)(build)
        assert not there.path_of(file.sha).exists()
        assert not there.has(build.sha)
    kept.write_bytes(FILES[file.path])
    Fetch(there, FolderPlace(here.folder), never)(build)
    assert there.has(build.sha)


def test_a_damaged_file_is_sent_anew(
    here: BuildStore, there: BuildStore, build: Build, key: Path, tmp_path: Path
) -> None:
    place = FolderPlace(tmp_path / "place")
    signed = sign_for(place, GGML_VULKAN, build, key)
    send(build, signed, here, place)
    file = build.files[0]
    kept = place.folder / key_of_file(file.sha)
    kept.unlink()
    kept.write_bytes(b"x" * file.nbytes)
    with pytest.raises(OtherBytes, match=r"is another file: .*; submitting the build again"):
        Fetch(there, place, never)(build)
    assert send(build, signed, here, place) == file.nbytes
    Fetch(there, place, never)(build)
    assert there.lay_out(build).is_dir()
    for damaged in (kept, here.path_of(file.sha)):
        damaged.unlink()
        damaged.write_bytes(b"x" * file.nbytes)
    with pytest.raises(DamagedBuild, match=r"libggml-base.so of the build was changed, in "):
        send(build, signed, here, place)


def test_a_part_of_something_else_is_dropped(
    here: BuildStore, there: BuildStore, build: Build
) -> None:
    (there.folder / "files").mkdir(parents=True)
    for file in build.files:
        (there.folder / "files" / f".part-{file.sha}").write_bytes(b"left by nobody knows whom")
    Fetch(there, FolderPlace(here.folder), never)(build)
    assert there.lay_out(build).is_dir()


def test_two_workers_of_a_host_get_a_file_once(
    here: BuildStore, there: BuildStore, build: Build
) -> None:
    place = CutPlace(here.folder, after=1 << 30)
    fetches = [threading.Thread(target=Fetch(there, place, never), args=(build,)) for _ in range(4)]
    for thread in fetches:
        thread.start()
    for thread in fetches:
        thread.join()
    assert len(place.starts) == len(FILES)
    assert there.lay_out(build).is_dir()


def test_who_is_out_of_time_goes_on_later(
    here: BuildStore, there: BuildStore, build: Build
) -> None:
    with pytest.raises(OutOfTime, match="is still coming from"):
        Fetch(there, FolderPlace(here.folder), never, deadline=0.0)(build)
    assert not there.has(build.sha)
    Fetch(there, FolderPlace(here.folder), never)(build)
    assert there.has(build.sha)


def test_a_full_disk_is_said_before_anything_is_read(
    here: BuildStore, there: BuildStore, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = CutPlace(here.folder, after=1)
    full = shutil.disk_usage(there.folder.parent)._replace(free=transfer.SPARE_BYTES)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: full)
    with pytest.raises(OSError, match="the build needs 604,000 bytes") as error:
        Fetch(there, place, never)(build)
    assert error.value.errno == errno.ENOSPC
    assert not place.starts


def test_a_signature_is_of_these_files_and_of_an_allowed_key(
    here: BuildStore, build: Build, key: Path, tmp_path: Path
) -> None:
    other_key = new_ssh_key(tmp_path / "bob")
    allowed = allow(tmp_path / "allowed", {"ann@lab": key})
    signed = sign(GGML_VULKAN, build, key, None)
    assert find_signer(signed, allowed) == "ann@lab"
    by_another = sign(GGML_VULKAN, build, other_key, None)
    changed = SignedBuild(
        text=signed.text.replace(build.files[0].sha, "ab" * 32), signatures=signed.signatures
    )
    of_nothing = SignedBuild(text=signed.text, signatures=("", "-----BEGIN SSH SIGNATURE-----\n"))
    for wrong in (by_another, changed, of_nothing):
        with pytest.raises(NotSigned):
            find_signer(wrong, allowed)
    both = sign(GGML_VULKAN, build, other_key, signed)
    assert len(both.signatures) == 2
    assert find_signer(both, allowed) == "ann@lab"
    git = subprocess.run(
        ["ssh-keygen", "-Y", "sign", "-q", "-f", key, "-n", "git"],
        input=signed.text,
        capture_output=True,
        text=True,
        check=True,
    )
    with pytest.raises(NotSigned):  # what was signed for something else
        find_signer(SignedBuild(text=signed.text, signatures=(git.stdout,)), allowed)


def test_no_key_is_one_line(here: BuildStore, build: Build, tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"cannot sign a build by .*none .*`ssh-keygen -t"
    ) as error:
        sign_for(FolderPlace(tmp_path), GGML_VULKAN, build, tmp_path / "none")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"\xff", b"[" * 100_000, b'{"text": "{}", "signatures": []}', b" " * 2**21]
)
def test_what_is_no_signed_build_is_refused(here: BuildStore, build: Build, data: bytes) -> None:
    place = FolderPlace(here.folder)
    (here.folder / "signed").mkdir()
    (here.folder / key_of_signed(build.sha)).write_bytes(data)
    with pytest.raises(NoBuild):
        get_signed(build.sha, place)


def test_a_signed_build_is_found_under_its_own_hash_alone(
    here: BuildStore, build: Build, key: Path
) -> None:
    place = FolderPlace(here.folder)
    send(build, sign_for(place, GGML_VULKAN, build, key), here, place)
    elsewhere = key_of_signed("ab" * 32)
    (here.folder / elsewhere).write_bytes((here.folder / key_of_signed(build.sha)).read_bytes())
    with pytest.raises(NoBuild, match="is another build than abababababab"):
        get_signed("ab" * 32, place)


def test_a_place_has_no_other_keys(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s")
    place = FolderPlace(tmp_path / "place")
    for key in ("../secret", "files/../../secret", "files/" + "A" * 64, "", "files", "signed/x"):
        with pytest.raises(UsageError, match="is no key"):
            place.has(key, 1)
    with pytest.raises(UsageError, match="is no key"):
        key_of_file("../" + "a" * 61)
    with pytest.raises(NotThere), place.read(key_of_file("ab" * 32)):
        pass


def test_a_checked_file_ends_in_its_hash(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    sha = hashlib.sha256(b"12345").hexdigest()
    for nbytes, digest, complaint in (
        (6, sha, "1 of its 6 bytes are missing"),
        (5, "ab" * 32, "its bytes have the hash"),
        (4, sha, "its bytes have the hash"),
    ):
        with path.open("rb") as file:
            checked = CheckedFile(file, nbytes, digest)
            with pytest.raises(OtherBytes, match=complaint):
                list(iter(lambda: checked.read(2), b""))  # noqa: B023
    with path.open("rb") as file:
        assert CheckedFile(file, 5, sha).read() == b"12345"


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("http://ann:secret@lab:1", r"'http://ann:\*\*\*@lab:1' \(VKBENCH_STORE\) is no http"),
        ("nosuch://ann:secret@lab", r"nosuch://ann:\*\*\*@lab \(VKBENCH_STORE\) cannot be used"),
    ],
)
def test_a_url_that_names_no_place_is_one_line(url: str, complaint: str, tmp_path: Path) -> None:
    new_keys(tmp_path / "keys")
    with pytest.raises(UsageError, match=complaint) as error:
        open_place(Settings(store=url, keys=str(tmp_path / "keys")))
    assert "\n" not in str(error.value)


def test_builds_are_not_read_over_http_without_keys() -> None:
    with pytest.raises(UsageError, match="`vkbench key new FOLDER` makes keys"):
        open_place(Settings(store="http://lab:1"))


def test_the_setting_names_a_folder_or_a_server(tmp_path: Path) -> None:
    assert open_place(Settings(data=tmp_path)).name == str(tmp_path / "builds")
    assert open_place(Settings(store=str(tmp_path))).name == str(tmp_path)
    assert open_place(Settings(store=f"file://{tmp_path}")).name == str(tmp_path)
    new_keys(tmp_path / "keys")
    served = Settings(store="https://lab/builds", keys=str(tmp_path / "keys"))
    assert read_keys(served).worker
    assert open_place(served).name == "https://lab/builds"
