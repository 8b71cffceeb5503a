"""Attempts on the server of builds: nothing is read or kept there but files by their hashes."""

from __future__ import annotations

import hashlib
import io
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.client import HTTPConnection
from pathlib import Path

import pytest

from cluster import free_port
from ssh_keys import new_ssh_key
from vkbench.errors import UsageError
from vkbench.messages.keys import new_keys, read_keys
from vkbench.messages.signing import NO_KEYS, Keys, Role, Subject, seal
from vkbench.programs.build import Build
from vkbench.programs.places.http import HttpPlace
from vkbench.programs.places.place import (
    CheckedFile,
    NotThere,
    PlaceUnreachable,
    key_of_file,
    key_of_signed,
)
from vkbench.programs.places.requests import LIFE_SECONDS, SCHEME, sign_request
from vkbench.programs.program import GGML_VULKAN
from vkbench.programs.signed import sign_for
from vkbench.programs.store import BuildStore
from vkbench.programs.transfer import Fetch, send
from vkbench.settings import Settings
from vkbench_scheduler import builds
from vkbench_scheduler.builds import BuildServer

DATA = b"a file of a build" * 100_000
SHA = hashlib.sha256(DATA).hexdigest()


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_ssh_key(tmp_path_factory.mktemp("keys") / "ann")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("host")
    new_keys(folder / "keys")
    (folder / "secret").write_text("of the scheduler's host")
    return Settings(store=str(folder / "store"), keys=str(folder / "keys"))


@pytest.fixture(scope="module")
def keys(host: Settings) -> Keys:
    return read_keys(host)


@pytest.fixture(scope="module")
def running(host: Settings) -> Iterator[BuildServer]:
    server = builds.serve(str(free_port()), host)
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def server(running: BuildServer) -> BuildServer:
    """A server of an empty folder."""
    shutil.rmtree(running.folder.folder, ignore_errors=True)
    (running.folder.folder / "files").mkdir(parents=True)
    return running


@pytest.fixture
def place(server: BuildServer, keys: Keys) -> HttpPlace:
    return HttpPlace(f"http://127.0.0.1:{server.server_port}/", partial(sign_request, keys=keys))


@pytest.fixture
def ask(server: BuildServer) -> Callable[..., tuple[int, bytes]]:
    def request(
        method: str, path: str, said: str = "", body: bytes | None = None, **headers: str
    ) -> tuple[int, bytes]:
        connection = HTTPConnection("127.0.0.1", server.server_port, timeout=10)
        connection.request(method, path, body, {"Authorization": said, **headers})
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return answer.status, data

    return request


def kept_files(server: BuildServer) -> list[str]:
    return sorted(path.name for path in server.folder.folder.glob("*/*"))


def add_build(folder: Path) -> tuple[BuildStore, Build]:
    store = BuildStore(folder)
    opens = {"libggml-vulkan.so": lambda: io.BytesIO(DATA), "empty.so": lambda: io.BytesIO()}
    return store, store.add("ggml-vulkan", opens)


def test_a_build_goes_in_and_comes_out(
    server: BuildServer, place: HttpPlace, key: Path, tmp_path: Path
) -> None:
    store, build = add_build(tmp_path / "here")
    assert send(build, sign_for(place, GGML_VULKAN, build, key), store, place) == len(DATA)
    assert send(build, sign_for(place, GGML_VULKAN, build, key), store, place) == 0
    there = BuildStore(tmp_path / "there")
    (there.folder / "files").mkdir(parents=True)
    (there.folder / "files" / f".part-{SHA}").write_bytes(DATA[:1000])  # it is read on
    assert Fetch(there, place, lambda: False)(build) == len(DATA)
    assert there.lay_out(build).is_dir()
    with place.read(key_of_file(SHA), len(DATA) - 7) as pieces:
        assert b"".join(pieces) == DATA[-7:]
    with pytest.raises(NotThere), place.read(key_of_file("ab" * 32)):
        pass
    damaged = server.folder.folder / key_of_file(SHA)
    damaged.chmod(0o644)
    damaged.write_bytes(DATA[::-1])
    assert send(build, sign_for(place, GGML_VULKAN, build, key), store, place) == len(DATA)
    assert damaged.read_bytes() == DATA


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/files",
        "/files/",
        "/signed/",
        "/../secret",
        "/files/../../secret",
        "/files/..%2f..%2fsecret",
        f"/files/{SHA.upper()}",
        f"/files/{SHA}?x",
        f"/files/{SHA}/",
        f"/files/{SHA}.json",
        "/" + "a" * 5000,
    ],
)
def test_nothing_is_listed_and_no_other_file_is_read(
    server: BuildServer, keys: Keys, ask: Callable[..., tuple[int, bytes]], path: str
) -> None:
    (server.folder.folder / "files" / SHA).write_bytes(DATA)
    said = (
        SCHEME
        + seal(
            f"{int(time.time()) + 60} -".encode(),
            Subject(role=Role.WORKER, kind="build", place=f"GET {path.removeprefix('/')}"),
            keys,
        ).decode()
    )
    status, data = ask("GET", path, said)
    assert (status, data) == (404, b"there is nothing\n")


def test_who_has_no_key_reads_and_writes_nothing(
    server: BuildServer,
    keys: Keys,
    ask: Callable[..., tuple[int, bytes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (server.folder.folder / "files" / SHA).write_bytes(DATA)
    key = key_of_file(SHA)
    others = Keys(scheduler=(b"x" * 32,), worker=(b"y" * 32,))
    of_another = sign_request("GET", key_of_file("ab" * 32), keys=keys)
    now = time.time()
    for said in (
        "",
        "Basic YTpi",
        SCHEME,
        SCHEME + "vk2 - 99999999999 -",
        sign_request("GET", key, keys=NO_KEYS),
        sign_request("GET", key, keys=others),
        of_another,
        sign_request("PUT", key, SHA, keys=keys),
    ):
        status, data = ask("GET", f"/{key}", said)
        assert status == 403, said
        assert len(data) < 200
    old = sign_request("GET", key, keys=keys)
    assert ask("GET", f"/{key}", old)[0] == 200
    monkeypatch.setattr(time, "time", lambda: now + LIFE_SECONDS + 60)
    status, data = ask("GET", f"/{key}", old)
    assert (status, data.startswith(b"the request expired")) == (403, True)
    monkeypatch.setattr(time, "time", lambda: now - 3 * LIFE_SECONDS)
    assert ask("GET", f"/{key}", old)[0] == 403  # good for longer than any that is signed now
    monkeypatch.undo()
    assert ask("PUT", f"/{key}", sign_request("GET", key, keys=keys), b"x")[0] == 403
    assert ask("POST", f"/{key}", old)[0] == 501
    assert ask("DELETE", f"/{key}", old)[0] == 501


def test_only_what_its_hash_says_is_kept(
    server: BuildServer, keys: Keys, ask: Callable[..., tuple[int, bytes]]
) -> None:
    key, other = key_of_file(SHA), hashlib.sha256(b"x").hexdigest()
    assert ask("PUT", f"/{key}", sign_request("PUT", key, SHA, keys=keys), b"x")[0] == 422
    assert ask("PUT", f"/{key}", sign_request("PUT", key, other, keys=keys), b"x")[0] == 422
    signed = key_of_signed(SHA)
    assert ask("PUT", f"/{signed}", sign_request("PUT", signed, other, keys=keys), b"x")[0] == 422
    too_long = {"Content-Length": str(1 << 40)}
    status, _ = ask("PUT", f"/{key}", sign_request("PUT", key, SHA, keys=keys), **too_long)
    assert status == 413
    assert ask(
        "PUT", f"/{key}", sign_request("PUT", key, SHA, keys=keys), **{"Content-Length": "-1"}
    )[0] in (400, 413)
    assert kept_files(server) == []
    assert ask("PUT", f"/{key}", sign_request("PUT", key, SHA, keys=keys), DATA)[0] == 201
    assert kept_files(server) == [SHA]


@pytest.mark.parametrize("asked", ["bytes=-5", "bytes=1-2", "bytes=99999999-", "lines=1-", "x"])
def test_a_range_that_is_none_is_refused(
    server: BuildServer, keys: Keys, ask: Callable[..., tuple[int, bytes]], asked: str
) -> None:
    (server.folder.folder / "files" / SHA).write_bytes(DATA)
    key = key_of_file(SHA)
    assert ask("GET", f"/{key}", sign_request("GET", key, keys=keys), Range=asked)[0] == 416


def test_who_says_nothing_keeps_few_waiting(
    server: BuildServer, place: HttpPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    (server.folder.folder / "files" / SHA).write_bytes(DATA)
    silent = [
        socket.create_connection(("127.0.0.1", server.server_port))
        for _ in range(builds.MOST_REQUESTS)
    ]
    time.sleep(0.5)
    with pytest.raises(PlaceUnreachable):
        place.has(key_of_file(SHA), len(DATA))
    for connection in silent:
        connection.close()
    time.sleep(0.5)
    assert place.has(key_of_file(SHA), len(DATA))


def test_a_full_disk_takes_nothing(
    server: BuildServer, place: HttpPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builds, "SPARE_BYTES", 1 << 60)
    with pytest.raises(PlaceUnreachable, match="the disk of builds is full"):
        place.write(key_of_file(SHA), CheckedFile(io.BytesIO(DATA), len(DATA), SHA))
    assert kept_files(server) == []


def test_a_server_without_keys_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="answers signed requests"):
        builds.serve(str(free_port()), Settings(data=tmp_path))


def test_a_server_that_is_gone_is_one_line(keys: Keys) -> None:
    gone = HttpPlace(f"http://127.0.0.1:{free_port()}", partial(sign_request, keys=keys))
    with pytest.raises(PlaceUnreachable, match=r"does not answer: .*refused") as error:
        gone.has(key_of_file(SHA), len(DATA))
    assert "\n" not in str(error.value)
