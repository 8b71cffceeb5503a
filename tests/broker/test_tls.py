"""`rediss://` means a verified server: for our client, and for Celery on both sides."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest
from kombu import pools
from kombu.exceptions import OperationalError
from redis.exceptions import ConnectionError as NoConnection

from certificates import make_authority
from cluster import Lab, RedisServer, free_port
from vkbench.errors import UsageError
from vkbench.job import JobState
from vkbench.messages.redis_client import connect
from vkbench.messages.wire import Chunk
from vkbench.settings import Settings, read
from vkbench_cli.patience import ping_redis
from vkbench_scheduler.errors import BrokerUnreachable
from vkbench_scheduler.queue.broker import Broker
from vkbench_worker.service import app

Need = Callable[[str, str], NoReturn]


@dataclass(frozen=True, kw_only=True)
class Certified:
    """Options of a server that is certified as `localhost`, and what verifies it, or does not."""

    options: dict[str, str]
    port: int
    ours: Path
    others: Path

    def url(self, host: str = "localhost", authority: Path | None = None) -> str:
        environ = {
            "VKBENCH_REDIS": f"rediss://{host}:{self.port}/0",
            "VKBENCH_REDIS_CA": str(authority or self.ours),
        }
        return read(environ).redis


@pytest.fixture(scope="module")
def certified(need: Need, tmp_path_factory: pytest.TempPathFactory) -> Certified:
    if not shutil.which("openssl"):
        need("redis", "openssl is not installed")
    folder, port = tmp_path_factory.mktemp("tls"), free_port()
    ours, others = make_authority(folder / "ours"), make_authority(folder / "others")
    return Certified(
        options={"tls-port": str(port), **ours.sign("localhost")},
        port=port,
        ours=ours.certificate,
        others=others.certificate,
    )


@pytest.fixture(scope="module")
def server(certified: Certified, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Certified]:
    with closing(RedisServer(tmp_path_factory.mktemp("r"), options=certified.options)) as redis:
        redis.start()
        yield certified


def ask_ourselves(url: str) -> None:
    with connect(url) as redis:
        redis.ping()


def ask_as_scheduler(url: str) -> None:
    # Pools keep connections to a place, however it was verified.
    pools.reset()  # type: ignore[no-untyped-call]
    with closing(Broker(url, connect(url))) as broker:
        broker.publish([Chunk(device="a", jobs=())])


def ask_as_worker(url: str) -> None:
    celery = app.build(Settings(redis=url), "a", print)
    with celery.connection() as connection:
        connection.ensure_connection(max_retries=1, interval_start=0)


CLIENTS = pytest.mark.parametrize("ask", [ask_ourselves, ask_as_scheduler, ask_as_worker])


@CLIENTS
def test_a_server_that_is_who_it_says_is_used(
    server: Certified, ask: Callable[[str], None]
) -> None:
    ask(server.url())


@CLIENTS
@pytest.mark.parametrize("fault", ["authority", "name", "no authority"])
def test_another_server_is_refused(
    server: Certified, ask: Callable[[str], None], fault: str
) -> None:
    url = {
        "authority": server.url(authority=server.others),
        "name": server.url(host="127.0.0.1"),  # the certificate does not name it
        "no authority": f"rediss://localhost:{server.port}/0",
    }[fault]
    with pytest.raises(
        (NoConnection, BrokerUnreachable, OperationalError), match="certificate verify failed"
    ):
        ask(url)


@CLIENTS
@pytest.mark.parametrize("option", ["ssl_cert_reqs=none", "ssl_check_hostname=False"])
def test_verifying_cannot_be_turned_off(ask: Callable[[str], None], option: str) -> None:
    with pytest.raises(UsageError, match="always verifies"):
        ask(f"rediss://localhost:1/0?{option}")


def test_a_file_of_certificates_is_there_and_used() -> None:
    with pytest.raises(UsageError, match="there is no file /nowhere"):
        read({"VKBENCH_REDIS": "rediss://h/0", "VKBENCH_REDIS_CA": "/nowhere"})
    with pytest.raises(UsageError, match="does not begin with rediss://"):
        ping_redis(read({"VKBENCH_REDIS": "redis://h/0", "VKBENCH_REDIS_CA": __file__}))


@pytest.mark.usefixtures("each_client")
def test_jobs_run_over_tls(make_lab: Callable[..., Lab], certified: Certified) -> None:
    port = str(free_port())
    lab = make_lab(
        options=certified.options | {"tls-port": port},
        redis=f"rediss://localhost:{port}/0",
        redis_ca=str(certified.ours),
    )
    lab.start_scheduler()
    lab.start_worker()
    run = lab.submit(["sleep/f32/n10"] * 5)
    lab.await_end(run)
    lab.check(run)
    assert lab.counts(run) == {JobState.PASSED: 5}
