"""Flower's SuperLink as a child process: on 127.0.0.1, with a database, node keys, and no calls to the outside."""

import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fedboard.server.fleet.processes.lifeline import SERVER_LOCK, end_with_parent

if TYPE_CHECKING:  # a quarter of a second that the child process needs for nothing
    from fedboard.server.fleet.plan.settings import FleetSettings

ADDRESS = "127.0.0.1"


def superlink_command(settings: "FleetSettings") -> list[str]:
    """How it is started; its standard input is the lifeline."""
    from fedboard.server.fleet.plan.state_folder import StateFolder

    network, state = settings.network, StateFolder.of(settings)
    options = {
        "--host": ADDRESS,
        "--port": str(network.superlink_port),
        "--database": str(state.database),
        "--ssl-certfile": str(network.certificate),
        "--ssl-keyfile": str(network.key),
        "--ssl-ca-certfile": str(network.authority),
    }
    switches = ["--enable-supernode-auth", "--disable-runtime-dependency-installation"]
    command = [sys.executable, "-m", "fedboard.server.fleet.processes.superlink"]
    return [*command, *(word for pair in options.items() for word in pair), *switches]


def superlink_environment(settings: "FleetSettings") -> dict[str, str]:
    """Its environment."""
    from fedboard.server.fleet.plan.state_folder import StateFolder

    state = StateFolder.of(settings)
    return {
        "FLWR_LOG_LEVEL": "WARNING",  # at INFO it would tell of each look at the run
        SERVER_LOCK: str(state.lock),
        **flower_environment(state.flower),
    }


def flower_environment(home: Path) -> dict[str, str]:
    """Flower's commands on the path, its home where it is told, work found soon, nothing sent anywhere."""
    beside_python = str(Path(sys.executable).parent)
    return {
        **os.environ,
        "PATH": os.pathsep.join([beside_python, os.environ.get("PATH", "")]),
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.5",  # each look costs the SuperLink some 10 ms
    }


def main() -> None:
    """Be the SuperLink, as long as the parent lives."""
    end_with_parent()
    # A third of its start is a search for garbage among modules that stay, as is each long search afterwards.
    gc.disable()
    from flwr.superlink.cli.flower_superlink import flower_superlink

    gc.freeze()
    gc.enable()
    flower_superlink()


if __name__ == "__main__":
    main()
