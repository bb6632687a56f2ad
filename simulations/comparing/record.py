"""The record of a comparison: numbers of every protocol, and which of them were measured."""

import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any

from fedboard.simulations.comparing.measuring import FleetSize, ProtocolCosts
from fedboard.simulations.comparing.workload import Workload

_PACKAGES = ("fedboard", "numpy", "cryptography")


@dataclass(slots=True, kw_only=True)
class Found:
    """What came of one algorithm."""

    workload: Workload
    fleet: FleetSize
    costs: dict[str, ProtocolCosts] = field(default_factory=dict)
    rmse: dict[str, dict[str, float | None]] = field(default_factory=dict)
    """By protocol and epsilon."""
    errors: dict[str, str] = field(default_factory=dict)
    """By protocol: why it has no costs, or no error of prediction."""


def record_of(found: Mapping[str, Found], *, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The whole record.

    Args:
        found: by algorithm; the first one's protocols stand at the top level.
        settings: the comparison that was asked for.
    """
    algorithms = {name: _of_algorithm(each) for name, each in found.items()}
    first = next(iter(algorithms))
    return {
        "algorithm": first,
        "protocols": algorithms[first]["protocols"],
        "algorithms": algorithms,
        "settings": dict(settings),
        "versions": {name: version(name) for name in _PACKAGES} | {"python": platform.python_version()},
        "machine": {"processor": platform.machine(), "cores": os.cpu_count(), "load": list(os.getloadavg())},
    }


def _of_algorithm(found: Found) -> dict[str, Any]:
    workload, fleet = found.workload, found.fleet
    return {
        "items": workload.board.catalogue.n_items,
        "users": fleet.users,
        "clients": fleet.clients,
        "dropped": fleet.dropped,
        "numbers": workload.numbers,
        "ratings_per_client": workload.ratings,
        "board_bytes": workload.board_bytes,
        "contribute_seconds": workload.contribute_seconds(),
        "protocols": {
            name: _of_protocol(name, found) for name in {**found.costs, **found.rmse, **found.errors}
        },
    }


def _of_protocol(name: str, found: Found) -> dict[str, Any]:
    rmse = found.rmse.get(name, {})
    largest = max(rmse, key=float, default=None)
    line: dict[str, Any] = {
        "rmse": None if largest is None else rmse[largest],
        "rmse_epsilon": None if largest is None else float(largest),
        "rmse_by_epsilon": rmse,
        **_costs(name, found),
    }
    if name in found.errors:
        line["error"] = found.errors[name]
    return line


def _costs(name: str, found: Found) -> dict[str, Any]:
    costs = found.costs.get(name)
    if costs is None:
        return dict.fromkeys(
            ("bytes_up_per_user", "bytes_down_per_user", "client_seconds", "server_seconds", "steps")
        )
    hosted, client, protocol = found.fleet.users_per_client, costs.client, costs.protocol
    numbers = {
        "bytes_up_per_user": client.up / hosted,
        "bytes_down_per_user": (client.down + costs.board_bytes) / hosted,
        "client_seconds": client.seconds,
        "server_seconds": costs.server_seconds,
    }
    extrapolated = dict.fromkeys(numbers, costs.client_extrapolated)
    extrapolated["server_seconds"] = costs.server_extrapolated
    return {
        **numbers,
        "extrapolated": extrapolated,
        "measured": {key: not guessed for key, guessed in extrapolated.items()},
        "steps": client.steps,
        "neighbours": costs.neighbours,
        "survivors_needed": int(protocol.parameters.get("survivors", 1)),
        "noise_at": str(protocol.noise_at),
        "parameters": dict(protocol.parameters),
        "trust": asdict(protocol.trust),
        "model": {"rates": dict(costs.model.rates), "worst_error": costs.model.worst_error},
        "sessions": [dict(session) for session in costs.sessions],
    }
