"""The files of a fleet that takes devices by invitation, and its door, open in this process; nothing behind it."""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from fedboard.common.wire.addresses import Address
from fedboard.common.wire.enrolment import Invitation, digest_of_introduction, fresh_secret
from fedboard.server.fleet.members.register import Register
from fedboard.server.fleet.plan.introducing import introduction_of
from fedboard.server.fleet.plan.preparing import keep_register
from fedboard.server.fleet.plan.settings import FleetSettings, read_settings
from fedboard.server.fleet.plan.state_folder import StateFolder
from fedboard.server.fleet.processes.proxy_process import serve
from tests.server.fleet.deployed import Fleet

MORE = "max_devices = 3\nmax_users_per_device = 5\nmax_users = 8"


def with_enrolment(fleet: Fleet, more: str = MORE) -> FleetSettings:
    """The same fleet, with the section."""
    config = fleet.folder / "fleet.toml"
    address = f"127.0.0.1:{fleet.settings.network.port}"
    config.write_text(f'{config.read_text()}\n[enrolment]\naddress = "{address}"\n{more}\n')
    fleet.settings = read_settings(config)
    return fleet.settings


def a_fleet(folder: Path, more: str = MORE) -> FleetSettings:
    """Of which nothing runs; its register is there."""
    settings = with_enrolment(Fleet(folder), more)
    StateFolder.of(settings).make()
    keep_register(settings)
    return settings


def an_invitation(settings: FleetSettings, name: str, *, users: int = 1, seconds: float = 60.0) -> Invitation:
    secret = fresh_secret()
    with Register(StateFolder.of(settings).members) as register:
        register.invite(secret, name=name, max_users=users, seconds=seconds)
    return Invitation(
        address=Address("127.0.0.1", settings.network.port),
        introduction=digest_of_introduction(introduction_of(settings)),
        secret=secret,
    )


@contextlib.contextmanager
def door_of(settings: FleetSettings) -> Iterator[None]:
    """The door as its process serves it, in a thread."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(serve(settings))

    failed: list[BaseException] = []

    def run() -> None:
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        deadline = time.monotonic() + 30.0
        while not _answers(settings.network.port):
            assert not failed, failed
            assert time.monotonic() < deadline, "no door"
            time.sleep(0.02)
        yield
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(20)
        loop.close()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
