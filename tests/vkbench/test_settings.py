"""Settings come from VKBENCH_* variables, and a misspelled one is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from vkbench.errors import UnknownName, UsageError
from vkbench.settings import Settings, read, settings


def test_defaults_name_the_host_and_expand_folders() -> None:
    read_back = read({})
    assert read_back.host
    assert read_back.data.is_absolute()
    assert read_back.cache.is_absolute()


def test_every_kind_of_value() -> None:
    environ = {"VKBENCH_VALIDATION": "True", "VKBENCH_LOST_SECONDS": "2.5", "VKBENCH_DATA": "/d"}
    read_back = read(environ)
    assert read_back.validation is True
    assert read_back.lost_seconds == 2.5
    assert read_back.data == Path("/d")


@pytest.mark.parametrize("text", ["0", "false", "False"])
def test_false(text: str) -> None:
    assert read({"VKBENCH_VALIDATION": text}).validation is False


def test_empty_value_is_the_default() -> None:
    assert read({"VKBENCH_REDIS": ""}).redis == Settings().redis


@pytest.mark.parametrize(
    ("variable", "text"),
    [("VKBENCH_VALIDATION", "yes please"), ("VKBENCH_LOST_SECONDS", "soon")],
)
def test_malformed_value(variable: str, text: str) -> None:
    with pytest.raises(UsageError, match=variable):
        read({variable: text})


def test_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"VKBENCH_DATABSE.*'VKBENCH_DATABASE'"):
        read({"VKBENCH_DATABSE": "sqlite://"})


def test_foreign_and_test_variables_are_left_alone() -> None:
    assert read({"VKBENCH_REQUIRE": "gpu", "HOME": "/root"}) == read({})


def test_database_url() -> None:
    assert read({"VKBENCH_DATA": "/d"}).database_url() == "sqlite:////d/vkbench.db"
    assert read({"VKBENCH_DATABASE": "postgresql://h/d"}).database_url() == "postgresql://h/d"


def test_what_is_secret_may_lie_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "redis"
    file.write_text("redis://worker:secret@h/0\n")
    assert read({"VKBENCH_REDIS_FILE": str(file)}).redis == "redis://worker:secret@h/0"
    with pytest.raises(UsageError, match=r"VKBENCH_DATABASE_FILE: .*none cannot be read: No such"):
        read({"VKBENCH_DATABASE_FILE": str(tmp_path / "none")})
    with pytest.raises(UnknownName, match="VKBENCH_DATA_FILE"):
        read({"VKBENCH_DATA_FILE": str(file)})


def test_settings_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    before = settings()
    monkeypatch.setenv("VKBENCH_DEVICE", "1")
    assert settings() is before
    settings.cache_clear()
    assert settings().device == "1"


def test_a_webhook_is_a_url_and_signed() -> None:
    secret = {"VKBENCH_ALERT_SECRET": "s3cret"}
    with pytest.raises(UsageError, match="VKBENCH_ALERT_SECRET"):
        read({"VKBENCH_ALERT_WEBHOOK": "https://h/x"})
    with pytest.raises(UsageError, match="no URL of http"):
        read(secret | {"VKBENCH_ALERT_WEBHOOK": "file:///etc/passwd"})
    settings = read(secret | {"VKBENCH_ALERT_WEBHOOK": "https://h/x"})
    assert settings.alert_webhook == "https://h/x"
    assert "s3cret" not in repr(settings)
