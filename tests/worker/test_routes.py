"""What a driver shows is matched with the device of this host that it replaces."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from vkbench.device import DeviceFacts, Environment, device_key
from vkbench.drivers.store import Driver, DriverStore
from vkbench.errors import UsageError
from vkbench.programs.build import Build, BuildFile
from vkbench.settings import settings
from vkbench_worker.owner import routes
from vkbench_worker.owner.routes import Route, rate_likeness
from vkbench_worker.protocol import ListedDevice, Ready

MESA, NVIDIA, GOOGLE = 65541, 0x10DE, 0x1AE0
DRIVER = Driver(
    build=Build(
        program="driver",
        name="mine",
        files=(BuildFile(path="icd.json", sha="ab" * 32, nbytes=1),),
    ),
    manifest="icd.json",
)
ENVIRONMENT = Environment(
    driver="llvmpipe",
    driver_version="0.0.1",
    driver_info="",
    api_version="1.3.0",
    loader="1.3.0",
    os="",
    os_kernel="",
    cpu="",
    vkbench="0",
)


def list_device(
    name: str, uuid: str, vendor: int, *, type: str = "cpu", pci: str = "", index: int = 0
) -> ListedDevice:
    facts = DeviceFacts(
        key=device_key("here", uuid),
        host="here",
        index=index,
        name=name,
        uuid=uuid,
        vendor_id=vendor,
        device_id=0,
        type=type,
        memory_bytes=1 << 30,
        subgroup_size=8,
        features=("fp16",),
        limits={},
    )
    return ListedDevice(facts=facts, environment=ENVIRONMENT, pci_address=pci)


OLD = list_device("llvmpipe (LLVM 15)", "6d65736132322e33", MESA)
NEW = list_device("llvmpipe (LLVM 21)", "6d65736132362e31", MESA)
SWIFT = list_device("SwiftShader", "53776966", GOOGLE, index=1)
CARD = list_device("H100", "aa", NVIDIA, type="discrete", pci="0000:01:00.0")
TWIN = list_device("H100", "bb", NVIDIA, type="discrete", pci="0000:02:00.0", index=1)


def find(
    monkeypatch: pytest.MonkeyPatch,
    host: list[ListedDevice],
    shown: list[ListedDevice],
    *selectors: str,
) -> list[Route]:
    def list_devices(variables: dict[str, str], loader: Path | None = None) -> list[ListedDevice]:
        assert loader is None  # a driver that stays in place has none of its own
        return shown if variables.get("VK_DRIVER_FILES") == "/mine/icd.json" else host

    monkeypatch.setattr(routes, "list_devices", list_devices)
    monkeypatch.setattr(DriverStore, "prepare", lambda *_: Path("/mine/icd.json"))
    routes._list_shown.cache_clear()
    return routes.find_routes(DRIVER, selectors, settings())


def test_two_versions_of_a_cpu_driver_are_one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    assert OLD.facts.key != NEW.facts.key  # their UUIDs hold Mesa's version
    other = replace(NEW, facts=replace(NEW.facts, index=3, features=("fp16", "coopmat")))
    [route] = find(monkeypatch, [OLD, SWIFT], [other])
    assert (route.facts.key, route.facts.name, route.facts.uuid, route.facts.index) == (
        *(OLD.facts.key, OLD.facts.name, OLD.facts.uuid, 0),
    )
    assert route.facts.features == ("fp16", "coopmat")
    assert route.arguments()[:4] == ("--device", NEW.facts.uuid, "--key", OLD.facts.key)
    assert route.environment.hash != ENVIRONMENT.hash
    ready = route.identify(Ready(facts=NEW.facts, environment=ENVIRONMENT))
    assert ready.facts.key == OLD.facts.key
    assert ready.environment == route.environment
    assert ready.environment.extra["driver_name"] == "mine"


def test_a_device_that_is_named_is_the_one_that_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert find(monkeypatch, [OLD, SWIFT], [NEW], "swift")[0].facts.key == SWIFT.facts.key
    assert find(monkeypatch, [CARD, OLD], [NEW])[0].facts.key == OLD.facts.key
    with pytest.raises(UsageError, match=r"driver mine shows llvmpipe .*, and none may be H100"):
        find(monkeypatch, [CARD, OLD], [NEW], "h100")


def test_equal_cards_are_told_by_their_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = [
        replace(TWIN, facts=replace(TWIN.facts, uuid="cc", index=0)),
        replace(CARD, facts=replace(CARD.facts, uuid="dd", index=1)),
    ]
    found = find(monkeypatch, [CARD, TWIN], shown, "*")
    assert [(route.facts.key, route.selector) for route in found] == [
        (CARD.facts.key, "dd"),
        (TWIN.facts.key, "cc"),
    ]
    nameless = [replace(device, facts=replace(device.facts, uuid="00")) for device in shown]
    assert [route.selector for route in find(monkeypatch, [CARD, TWIN], nameless, "*")] == [
        *("1", "0"),
    ]
    slotless = [replace(device, pci_address="") for device in shown]
    with pytest.raises(UsageError, match="and several of them may be H100"):
        find(monkeypatch, [CARD, TWIN], slotless, "0")


@pytest.mark.parametrize(
    ("one", "other", "likeness"),
    [
        (CARD, CARD, 4),
        (CARD, replace(CARD, facts=replace(CARD.facts, uuid="cc")), 3),
        (CARD, replace(CARD, facts=replace(CARD.facts, uuid="cc"), pci_address=""), 2),
        (CARD, TWIN, 0),
        (OLD, NEW, 2),
        (OLD, SWIFT, 1),
        (OLD, CARD, 0),
    ],
)
def test_likeness_is_that_of_hardware(
    one: ListedDevice, other: ListedDevice, likeness: int
) -> None:
    assert rate_likeness(one, other) == rate_likeness(other, one) == likeness
