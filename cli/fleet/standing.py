"""``fedboard fleet status``: how a fleet stands."""

from datetime import UTC, datetime
from pathlib import Path

import click

from fedboard.cli.fleet.members import CONFIG
from fedboard.cli.style.documents import JSON, document
from fedboard.cli.text import aligned


@click.command(epilog="Example: fedboard fleet status --json")
@CONFIG
@JSON
def status(config: Path, as_json: bool) -> None:
    """Say how a fleet stands: devices online, quorum, budget, lost rounds, what expires, versions.

    It reads the files of the state folder and the keys that fleet.toml names, whether the server runs or not. It is
    for the operator: how many devices are there depends on people in ways that no budget covers.
    """
    from fedboard.server.fleet.plan.settings import read_settings
    from fedboard.server.fleet.processes.fleet_status import status_of
    from fedboard.server.operating.run_fares import require_few_lost

    settings = read_settings(config)
    found = status_of(settings)
    if as_json:
        document(found.to_dict())
    else:
        devices = found.devices
        online = "unknown" if devices.online is None else str(devices.online)
        versions = ", ".join(f"{count} of {name or 'unknown'}" for name, count in devices.versions.items())
        rows = [
            ("server", "running" if found.running else "not running"),
            ("devices", f"{online} online of {devices.admitted} members ({devices.invited} by invitation)"),
            ("quorum", f"{found.quorum} of {found.expected} expected"),
            ("versions", versions or "none online"),
            ("invitations", f"{devices.open_invitations} open"),
            ("rounds", found.fares.sentence),
            ("epsilon", f"{found.left:.4g} of {found.epsilon:g} left"),
            *((one.what, f"until {datetime.fromtimestamp(one.at, UTC):%Y-%m-%d}") for one in found.expiries),
        ]
        click.echo(aligned((found.name, ""), rows))
        for problem in found.problems():
            click.echo(f"LOOK: {problem}")
    require_few_lost(found.fares, most_lost=settings.rounds.most_lost)
