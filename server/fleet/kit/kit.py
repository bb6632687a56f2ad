"""The kit's files, with what ``fleet.toml`` says filled in."""

import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from fedboard.common.errors import InputError
from fedboard.common.files import write_atomically
from fedboard.common.wire.addresses import parse_address
from fedboard.server.fleet.plan.settings import FleetSettings

SERVER_UNITS = ("fedboard-server.service", "fedboard-backup.service", "fedboard-backup.timer")
CLIENT_UNIT = "fedboard-client.service"
BESIDE = ("Containerfile", "compose.yaml", "nginx.conf", "alerts.yaml", "dashboard.json")
_GAP = re.compile(r"\{\{([a-z]+)\}\}")
_HOMES = ("/home", "/root", "/run/user")
_PER_ADDRESS = 256
"""Connections of an address that nginx lets through, where the door behind it counts none, as it should there."""
_AS_IT_IS = frozenset({"dashboard.json", "alerts.yaml", "Containerfile"})
"""Nothing is filled in there; Grafana has gaps of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Of the machine that the units are for."""

    user: str
    """Account that runs the processes."""
    backups: Path
    """Folder of the hourly backups."""
    program: Path
    """``fedboard`` itself."""


def this_program() -> Path:
    """``fedboard`` as it was started, or beside this Python."""
    return Path(sys.executable).with_name("fedboard")


def server_units(settings: FleetSettings, config: Path, host: Host) -> dict[str, str]:
    """The units of a server by name."""
    values = {
        "name": settings.name,
        "user": host.user,
        "fedboard": _word(host.program),
        "config": _word(config.absolute()),
        "state": _word(settings.state.absolute()),
        "backups": _word(host.backups.absolute()),
    }
    places = (host.program, config, settings.state, host.backups)
    return {name: _filled(name, {**values, **_hardening(places)}) for name in SERVER_UNITS}


def client_unit(device: Path, host: Host) -> dict[str, str]:
    """The unit of a device."""
    values = {
        "user": host.user,
        "fedboard": _word(host.program),
        "config": _word(device.absolute()),
        "state": _word(device.absolute().parent),
    }
    return {CLIENT_UNIT: _filled(CLIENT_UNIT, {**values, **_hardening((host.program, device))})}


def beside(settings: FleetSettings, config: Path) -> dict[str, str]:
    """Container, reverse proxy, dashboard and alerts by name."""
    network, board = settings.network, settings.board
    public = network.port if settings.enrolment is None else _port(settings.enrolment.address)
    values = {
        "folder": str(config.absolute().parent),
        "port": str(network.port),
        "board": f'\n      - "{board.port}:{board.port}"' if board.enabled else "",
        "public": str(public),
        "certificate": str(network.certificate),
        "key": str(network.key),
        "authority": str(network.authority),
        "megabytes": str(network.max_request_megabytes),
        "connections": str(network.connections_per_address or _PER_ADDRESS),
    }
    return {name: _filled(name, values) for name in BESIDE}


def write_kit(texts: Mapping[str, str], folder: Path, *, replace: bool = False) -> list[Path]:
    """Write the files; those that are there with the same text stay.

    Args:
        texts: by name.
        folder: made if need be.
        replace: whether others are written over.

    Returns:
        Those that were written.

    Raises:
        InputError: one is there with another text; nothing was written.
    """
    changed = {
        folder / name: text
        for name, text in texts.items()
        if not (folder / name).exists() or (folder / name).read_text(encoding="utf-8") != text
    }
    if not replace and (there := [path for path in changed if path.exists()]):
        raise InputError(
            f"{there[0]}: another file is there; look at what was changed in it, and write over it with --force"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in changed.items():
        write_atomically(path, text.encode())
    return list(changed)


def _hardening(places: tuple[Path, ...]) -> dict[str, str]:
    """Homes are hidden from the processes, where nothing of theirs is in one."""
    at_home = any(str(place.absolute()).startswith(_HOMES) for place in places)
    return {"hardening": _filled("hardening.conf", {"home": "read-only" if at_home else "yes"}).rstrip()}


def _filled(name: str, values: Mapping[str, str]) -> str:
    text = files("fedboard.server.fleet.kit").joinpath(name).read_text(encoding="utf-8")
    if name in _AS_IT_IS:
        return text
    return _GAP.sub(lambda gap: values[gap[1]], text)


def _word(path: Path) -> str:
    """A path in a unit: systemd splits at spaces and reads percent signs.

    Raises:
        InputError: it has a character that cannot be in a unit as it is.
    """
    text = str(path)
    if shlex.quote(text) != text or "%" in text:
        raise InputError(
            f"{text}: units take plain paths alone (letters, digits, '/', '.', '_', '-'); move it there"
        )
    return text


def _port(address: str) -> int:
    return parse_address(address, name="enrolment.address").port
