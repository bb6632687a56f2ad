"""Ports are tried before anything is started, each with a sentence of its own."""

import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from fedboard.common.errors import InputError
from fedboard.server.fleet.plan.sections import BoardSection
from fedboard.server.fleet.plan.settings import FleetSettings
from fedboard.server.fleet.processes.ports import require_free_ports
from tests.server.fleet.deployed import Fleet


@pytest.fixture
def settings(tmp_path: Path) -> FleetSettings:
    return Fleet(tmp_path).settings


@pytest.fixture
def taken() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def with_port(settings: FleetSettings, key: str, port: int) -> FleetSettings:
    section, name = key.split(".")
    changed = msgspec.structs.replace(getattr(settings, section), **{name: port})
    return msgspec.structs.replace(settings, **{section: changed})


def test_free_ports_are_left_free(settings: FleetSettings) -> None:
    require_free_ports(settings)
    require_free_ports(settings)


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("network.port", "network.listen and port"),
        ("network.superlink_port", "network.superlink_port"),
        ("board.port", "board.listen and port"),
        ("board.metrics_port", "board.metrics_port"),
    ],
)
def test_a_port_in_use_is_named(settings: FleetSettings, taken: socket.socket, key: str, told: str) -> None:
    port = taken.getsockname()[1]

    with pytest.raises(InputError, match=rf"{told}: cannot listen on 127.0.0.1:{port}: another process"):
        require_free_ports(with_port(settings, key, port))


@pytest.mark.parametrize(
    ("address", "told"),
    [("300.1.1.1", "give another address"), ("192.0.2.1", "this machine does not have that address")],
)
def test_an_address_that_is_not_ours_is_named(settings: FleetSettings, address: str, told: str) -> None:
    network = msgspec.structs.replace(settings.network, listen=address)
    named = re.escape(f"network.listen and port: cannot listen on {address}")

    with pytest.raises(InputError, match=named) as error:
        require_free_ports(msgspec.structs.replace(settings, network=network), patience=60.0)
    assert told in str(error.value)


def test_a_board_service_that_is_off_needs_no_port(settings: FleetSettings, taken: socket.socket) -> None:
    port = taken.getsockname()[1]
    require_free_ports(msgspec.structs.replace(settings, board=BoardSection(listen="127.0.0.1", port=port)))


def test_a_port_that_is_let_go_in_time_is_waited_for(settings: FleetSettings, taken: socket.socket) -> None:
    busy = with_port(settings, "network.port", taken.getsockname()[1])
    threading.Timer(0.3, taken.close).start()

    require_free_ports(busy, patience=30.0)
