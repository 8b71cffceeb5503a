"""Whose builds a host runs, and where it gets them from: without a queue."""

from __future__ import annotations

import io
import os
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import msgspec
import pytest

from ssh_keys import allow, new_ssh_key
from vkbench.errors import VkbenchError
from vkbench.programs import transfer
from vkbench.programs.build import Build
from vkbench.programs.places.folder import FolderPlace
from vkbench.programs.places.place import key_of_file, key_of_signed
from vkbench.programs.program import GGML_VULKAN
from vkbench.programs.signed import SignedBuild, sign_for
from vkbench.programs.store import BuildStore
from vkbench.programs.transfer import send
from vkbench.settings import Settings
from vkbench_worker.errors import BuildAwaited
from vkbench_worker.policy import BuildForbidden
from vkbench_worker.service import builds
from vkbench_worker.service.builds import BuildDepot
from vkbench_worker.service.fetched import REST_SECONDS

FILES = {"libggml-base.so": b"base", "libggml-vulkan.so": b"vulkan"}


@dataclass(kw_only=True)
class Host:
    """A worker's host, and what people put into the lab's place of builds."""

    folder: Path
    settings: Settings
    keys: dict[str, Path]

    def __post_init__(self) -> None:
        self.place = FolderPlace(self.folder / "place")
        self.depot = BuildDepot(self.settings)
        self.kept = BuildStore(self.settings.build_folder())

    def send(self, who: str, more: bytes = b"") -> Build:
        """A build that its owner submits."""
        store = BuildStore(self.folder / who)
        opens = {name: partial(io.BytesIO, data + more) for name, data in FILES.items()}
        build = store.add("ggml-vulkan", opens)
        send(build, sign_for(self.place, GGML_VULKAN, build, self.keys[who]), store, self.place)
        return build

    def provide(self, build: Build) -> None:
        self.depot.provide(build.sha, "ggml-vulkan", lambda: False)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("keys")
    return {name: new_ssh_key(folder / name) for name in ("ann", "bob")}


@pytest.fixture
def host(tmp_path: Path, keys: dict[str, Path]) -> Host:
    allowed = allow(tmp_path / "allowed", {"ann@lab": keys["ann"]})
    place = str(tmp_path / "place")
    settings = Settings(data=tmp_path / "data", store=place, builds=str(allowed))
    return Host(folder=tmp_path, settings=settings, keys=keys)


def test_a_build_of_an_allowed_key_is_laid_out_as_it_was_handed_in(host: Host) -> None:
    build = host.send("ann")
    host.provide(build)
    folder = host.kept.lay_out(host.kept.find(build.sha))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == FILES
    assert host.depot.program_of(build) == GGML_VULKAN


def test_a_host_runs_no_builds_by_default(host: Host, tmp_path: Path) -> None:
    build = host.send("ann")
    depot = BuildDepot(replace(host.settings, builds=Settings().builds))
    with pytest.raises(BuildForbidden, match=r"this host runs no builds .*VKBENCH_BUILDS"):
        depot.provide(build.sha, "ggml-vulkan", lambda: False)
    assert not host.kept.folder.exists()  # nothing was asked for


def test_a_change_of_the_policy_counts_at_once(host: Host) -> None:
    build, allowed = host.send("ann"), Path(host.settings.builds)
    host.provide(build)
    text = allowed.read_text()
    allowed.write_text("# none\n")
    with pytest.raises(BuildForbidden, match=r"no key in .*allowed .* has signed it"):
        host.provide(build)
    allowed.write_text(text)
    host.provide(build)
    allowed.unlink()
    with pytest.raises(BuildForbidden, match=r"allowed \(VKBENCH_BUILDS\) cannot be read"):
        host.provide(build)


def test_what_another_signed_does_not_run(host: Host) -> None:
    build = host.send("bob")
    with pytest.raises(BuildForbidden, match=f"does not run build {build.sha[:12]}"):
        host.provide(build)
    assert not host.kept.has(build.sha)
    host.send("ann")  # the same files
    host.provide(build)


def test_what_was_changed_after_it_was_signed_does_not_run(host: Host) -> None:
    build = host.send("ann")
    place = host.place.folder / key_of_signed(build.sha)
    signed = msgspec.json.decode(place.read_bytes(), type=SignedBuild)
    text = signed.text.replace('"ggml-vulkan"', '"own-program"').replace('"ggml"', '"lines"')
    text = text.replace('"run":[]', '"run":["sh","-c","harm"]')
    place.write_bytes(msgspec.json.encode(replace(signed, text=text)))
    with pytest.raises(BuildForbidden, match="has signed it"):
        host.provide(build)


def test_a_build_of_another_program_fails(host: Host) -> None:
    build = host.send("ann")
    with pytest.raises(VkbenchError, match="is of ggml-vulkan, not of other"):
        host.depot.provide(build.sha, "other", lambda: False)


def test_a_place_that_is_down_stops_no_build_that_is_here(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = host.send("ann")
    host.provide(build)
    host.place.folder.rename(host.folder / "moved")
    host.place.folder.touch()  # as a disk that is gone
    host.depot.doubt()
    host.provide(build)
    other = Build(program="ggml-vulkan", files=build.files[:1])
    with pytest.raises(BuildAwaited, match=r"is awaited: cannot read .*Not a directory"):
        host.provide(other)
    host.place.folder.unlink()
    (host.folder / "moved").rename(host.place.folder)
    with pytest.raises(BuildAwaited, match="Not a directory"):  # it is not asked for at once
        host.provide(other)
    monkeypatch.setattr(time, "monotonic", lambda now=time.monotonic: now() + builds.LACK_SECONDS)
    with pytest.raises(BuildAwaited, match="has no such build; VKBENCH_STORE names where"):
        host.provide(other)


@pytest.mark.parametrize("what", ["signed", "file"])
def test_junk_in_a_place_makes_a_build_wait(host: Host, what: str) -> None:
    build = host.send("ann")
    key = key_of_signed(build.sha) if what == "signed" else key_of_file(build.files[0].sha)
    place = host.place.folder / key
    place.chmod(0o644)
    place.write_bytes(b"junk")
    with pytest.raises(BuildAwaited, match=r"is no signed build|is another file"):
        host.provide(build)
    assert not host.kept.has(build.sha)


def test_a_damaged_copy_comes_anew_once_it_is_doubted(host: Host) -> None:
    build = host.send("ann")
    host.provide(build)
    path = host.kept.path_of(build.files[0].sha)
    path.chmod(0o644)
    path.write_bytes(b"harm")
    host.provide(build)  # its files are not read for every job
    host.depot.doubt()
    host.provide(build)
    assert host.kept.lay_out(build).is_dir()


def test_a_full_disk_makes_a_build_wait(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "SPARE_BYTES", 1 << 60)
    build = host.send("ann")
    with pytest.raises(BuildAwaited, match=r"cannot be stored here: .* needs .* bytes") as error:
        host.provide(build)
    assert "\n" not in str(error.value)


def test_builds_that_were_fetched_leave_the_longest_unused_first(host: Host) -> None:
    host.depot = BuildDepot(replace(host.settings, build_megabytes=0))
    old, new = host.send("ann"), host.send("ann", b"of another release")
    own = host.kept.add("ggml-vulkan", {"libggml-base.so": lambda: io.BytesIO(b"own")})
    host.provide(old)
    long_ago = time.time() - 2 * REST_SECONDS
    os.utime(host.kept.folder / "fetched" / old.sha, (long_ago, long_ago))
    host.provide(new)
    assert {build.sha for build in host.kept.list_builds()} == {new.sha, own.sha}
