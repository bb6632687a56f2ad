"""The kit: what goes beside a server, with what ``fleet.toml`` says filled in."""

import getpass
import os
import re
import shlex
import sys
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from fedboard.common.errors import InputError
from fedboard.common.files import write_atomically
from fedboard.server.fleet.settings import FleetSettings

_GAP = re.compile(r"\{\{([a-z]+)\}\}")
_HOMES = ("/home", "/root", "/run/user")
_PER_ADDRESS = 256
"""Connections."""


def server_kit(settings: FleetSettings, config: Path, *, user: str | None = None) -> dict[str, str]:
    """Unit, container, firewall, dashboard and alerts of a server, by name.

    Args:
        settings: of the fleet.
        config: their file.
        user: account that runs the unit; yours if not given.

    Raises:
        InputError: a path cannot be in a unit as it is.
    """
    config, state = config.absolute(), settings.state.absolute()
    command = (Path(sys.executable).with_name("fedboard"), "server", "--config", config)
    at_home = any(str(place).startswith(_HOMES) for place in (command[0], config, state))
    values = {
        "what": f"server ({settings.name})",
        "user": user or getpass.getuser(),
        "command": " ".join(_word(part) for part in command),
        "home": "read-only" if at_home else "yes",  # they are hidden where nothing of the server is in one
        "config": str(config),
        "folder": str(config.parent),
        "state": _word(state),
        "account": f"{os.getuid()}:{os.getgid()}",
        "port": str(settings.network.listening.port),
        "connections": str(_PER_ADDRESS),
    }
    unit = {"fedboard-server.service": filled("fedboard.service", values)}
    beside = {name: filled(name, values) for name in ("compose.yaml", "connections.nft")}
    return {**unit, **beside, **{name: _text(name) for name in ("alerts.yaml", "dashboard.json")}}


def write_kit(texts: Mapping[str, str], folder: Path) -> list[Path]:
    """Write the files.

    Args:
        texts: by name.
        folder: made if need be.

    Returns:
        Where they are.

    Raises:
        InputError: one is there already, which may have been changed; nothing was written.
    """
    written = {folder / name: text for name, text in texts.items()}
    if there := [path for path in written if path.exists()]:
        raise InputError(f"{there[0]}: it is there already, and may have been changed; choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in written.items():
        write_atomically(path, text.encode())
    return list(written)


def filled(name: str, values: Mapping[str, str]) -> str:
    """A file of this folder with its gaps filled in."""
    return _GAP.sub(lambda gap: values[gap[1]], _text(name))


def _text(name: str) -> str:
    return files("fedboard.server.fleet.kit").joinpath(name).read_text(encoding="utf-8")


def _word(part: Path | str) -> str:
    """A word in a unit: systemd splits at spaces and reads percent signs.

    Raises:
        InputError: it has a character that cannot be in a unit as it is.
    """
    text = str(part)
    if shlex.quote(text) != text or "%" in text:
        raise InputError(
            f"{text}: units take plain paths alone (letters, digits, '/', '.', '_', '-'); move it there"
        )
    return text
