"""Opens the place of builds that the settings name."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from vkbench.errors import UsageError
from vkbench.messages.keys import read_keys
from vkbench.messages.signing import Keys
from vkbench.programs.places.folder import FolderPlace
from vkbench.programs.places.http import HttpPlace
from vkbench.programs.places.place import Place
from vkbench.programs.places.requests import sign_request
from vkbench.settings import Settings


def open_place(settings: Settings) -> Place:
    """The place of builds: what VKBENCH_STORE names, or the folder of this machine's builds."""
    scheme, is_url, _ = settings.store.partition("://")
    if not is_url or scheme == "file":
        return open_folder(settings)
    if scheme in ("http", "https"):
        return HttpPlace(settings.store, partial(sign_request, keys=_keys_of(settings)))
    from vkbench.programs.places.filesystem import FilesystemPlace

    return FilesystemPlace(settings.store)


def open_folder(settings: Settings) -> FolderPlace:
    """The same where it is a folder of this host; UsageError otherwise."""
    if not settings.store:
        return FolderPlace(settings.build_folder())
    place = settings.store.removeprefix("file://")
    if "://" in place:
        raise UsageError(
            f"{place.partition('://')[0]}:// (VKBENCH_STORE) is no folder of this host"
        )
    return FolderPlace(Path(place).expanduser().absolute())


def _keys_of(settings: Settings) -> Keys:
    keys = read_keys(settings)
    if not keys.worker:
        raise UsageError(
            "builds are read over HTTP by signed requests: `vkbench key new FOLDER` makes keys; "
            "copy them to each host, and set VKBENCH_KEYS=FOLDER there"
        )
    return keys
