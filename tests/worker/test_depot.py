"""Builds that stay in place on a GPU host: the depot has none of their files sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssh_keys import allow, new_ssh_key
from vkbench.programs.build import Build
from vkbench.programs.places.opening import open_place
from vkbench.programs.program import GGML_VULKAN
from vkbench.programs.signed import sign_for
from vkbench.programs.sources import open_build, open_in_place
from vkbench.programs.store import BuildStore
from vkbench.programs.transfer import send
from vkbench.settings import Settings
from vkbench_worker.service.builds import BuildDepot


@pytest.fixture
def libraries(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("libggml-base.so", "libggml-vulkan.so"):
        (folder / name).write_bytes(name.encode())
    return folder


@pytest.fixture
def host(tmp_path: Path) -> Settings:
    allowed = allow(tmp_path / "allowed", {"ann": new_ssh_key(tmp_path / "ann")})
    return Settings(
        data=tmp_path / "host", store=str(tmp_path / "place"), builds=str(allowed), unsigned=True
    )


@pytest.mark.parametrize("in_place", [True, False])
def test_a_host_that_has_a_build_in_place_is_sent_nothing(
    host: Settings, libraries: Path, tmp_path: Path, in_place: bool
) -> None:
    build = hand_in(host, libraries, tmp_path)
    kept = BuildStore(host.build_folder())
    if in_place:
        with open_in_place(libraries, GGML_VULKAN) as (folder, opens):
            assert kept.add(GGML_VULKAN.name, opens, folder=folder).sha == build.sha
    BuildDepot(host).provide(build.sha, GGML_VULKAN.name, lambda: False)
    assert kept.find(build.sha).folder == (str(libraries) if in_place else "")
    sent = [path.name for path in host.build_folder().glob("files/*")]
    assert sorted(sent) == ([] if in_place else sorted(file.sha for file in build.files))
    assert kept.lay_out(kept.find(build.sha))


def test_a_build_that_stays_in_place_can_be_handed_in(
    host: Settings, libraries: Path, tmp_path: Path
) -> None:
    build = hand_in(host, libraries, tmp_path, in_place=True)
    assert build.folder == str(libraries)
    BuildDepot(host).provide(build.sha, GGML_VULKAN.name, lambda: False)
    assert BuildStore(host.build_folder()).find(build.sha).folder == ""


def hand_in(host: Settings, libraries: Path, tmp_path: Path, *, in_place: bool = False) -> Build:
    """A build of a user, who sent it to the place of the lab."""
    own, place = BuildStore(tmp_path / "user"), open_place(host)
    if in_place:
        with open_in_place(libraries, GGML_VULKAN) as (folder, opens):
            build = own.add(GGML_VULKAN.name, opens, folder=folder)
    else:
        with open_build(libraries, GGML_VULKAN) as opens:
            build = own.add(GGML_VULKAN.name, opens)
    send(build, sign_for(place, GGML_VULKAN, build, tmp_path / "ann"), own, place)
    return build
