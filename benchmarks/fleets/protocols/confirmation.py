"""What it costs that clients are vouched for and confirm the survivors: bytes and CPU seconds of whole sessions.

    python benchmarks/fleets/protocols/confirmation.py --clients 100 --clients 1000 --json FILE

Every client of a session is run, in this process, one after the other; a fifth of them vanish when their masked
numbers are asked for. Times are CPU seconds of one core.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from fedboard.common.contribution import Contribution, Request, SumSource
from fedboard.common.keys.roster import IdentityKey, RosterAuthority
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.common.privacy.releases.noise import SecureNoise
from fedboard.common.protocol import Given
from fedboard.common.protocols.secure_sum.client import SecureSumClient
from fedboard.common.protocols.secure_sum.protocol import SecureSum
from fedboard.common.protocols.shared.sessions import Voucher

_ABOUT = b"benchmark"
_DROPOUT, _COLLUDING = 0.2, 0.05
_SMALL_ENOUGH = 256
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Cost:
    """One step, or a whole session; means over the clients that replied."""

    clients: int
    vouched: bool
    step: str
    neighbours: int
    bytes_up: float
    bytes_down: float
    client_seconds: float
    server_seconds: float
    """Of the server, in all."""


def measured(clients: int, *, vouched: bool, numbers: int) -> list[Cost]:
    """The costs of each step of a session."""
    authority = RosterAuthority()
    settings: dict[str, float | str] = {"dropout": _DROPOUT, "colluding": _COLLUDING}
    if vouched:
        settings["vouched_by"] = authority.public.hex()
    protocol = SecureSum.sized(clients=clients, users=clients, settings=settings)
    names = [f"client-{number}" for number in range(clients)]
    here, sides = _parties(protocol, names, authority if vouched else None)
    server = here.open(_ABOUT, [_request(numbers)], names, n_items=0)
    gone = set(names[:: round(1 / _DROPOUT)])
    given = _given(numbers)
    found, more = [], True
    while more:
        step, asks = server._step.name.lower(), server.asks_contributions
        seconds: list[float] = []
        up = down = 0
        outgoing, of_server = _timed(server.outgoing)
        for name in outgoing:
            if asks and name in gone:
                continue
            message, making = _timed(lambda: outgoing[name])  # noqa: B023
            reply, answering = _timed(lambda: sides[name].answer(message, given if asks else None))  # noqa: B023
            _, taking = _timed(lambda: server.take(name, reply))  # noqa: B023
            seconds.append(answering)
            up, down, of_server = up + len(reply), down + len(message), of_server + making + taking
        more, closing = _timed(server.proceed)
        count = len(seconds)
        found.append(
            Cost(
                clients=clients,
                vouched=vouched,
                step=step,
                neighbours=server._members.around.size,
                bytes_up=up / count,
                bytes_down=down / count,
                client_seconds=sum(seconds) / count,
                server_seconds=of_server + closing,
            )
        )
    return [*found, _whole(found)]


def _whole(steps: list[Cost]) -> Cost:
    first = steps[0]
    return Cost(
        clients=first.clients,
        vouched=first.vouched,
        step="all",
        neighbours=steps[-1].neighbours,
        bytes_up=sum(step.bytes_up for step in steps),
        bytes_down=sum(step.bytes_down for step in steps),
        client_seconds=sum(step.client_seconds for step in steps),
        server_seconds=sum(step.server_seconds for step in steps),
    )


def _parties(
    protocol: SecureSum, names: list[str], authority: RosterAuthority | None
) -> tuple[SecureSum, dict[str, SecureSumClient]]:
    """The server's protocol, and a session for each client."""
    if authority is None:
        return protocol, {name: protocol.join(_ABOUT, SecureNoise()) for name in names}
    identities = {name: IdentityKey() for name in names}
    keys = [identity.public for identity in identities.values()]
    roster = authority.sign(keys, fleet="benchmark", number=1, seconds=86_400)
    sides = {}
    for name, identity in identities.items():
        own = protocol.vouched(Voucher(identity=identity, authority=authority.public))
        sides[name] = own.join(_ABOUT, SecureNoise())
    return protocol.among(roster), sides


def _timed(do: Callable[[], T]) -> tuple[T, float]:
    began = time.process_time()
    return do(), time.process_time() - began


def _request(numbers: int) -> Request:
    release = GaussianRelease(
        name="numbers",
        rows=1,
        width=numbers,
        layout="vector",
        grid_step=1.0,
        l2_bound=1 << 12,
        same_sign=False,
        adjacency=Adjacency.ADD_REMOVE,
        noise_multiplier=1.0,
        covers="numbers",
    )
    return Request(source=SumSource.TOTAL, release=release)


def _given(numbers: int) -> Given:
    totals = np.zeros((1, numbers), dtype=np.int64)
    totals[0, :_SMALL_ENOUGH] = 1
    rows = Contribution(
        n_items=0,
        indptr=np.zeros(2, dtype=np.int64),
        items=np.zeros(0, dtype=np.int32),
        totals={"numbers": totals},
    )
    return Given(contribution=rows, requests=(_request(numbers),))


def table(costs: list[Cost]) -> str:
    """A Markdown table."""
    lines = [
        "| clients | vouched for | step | neighbours | up, a client | down, a client | client | server |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for cost in costs:
        lines.append(
            f"| {cost.clients} | {'yes' if cost.vouched else 'no'} | {cost.step} | {cost.neighbours} | "
            f"{cost.bytes_up / 1000:.1f} kB | {cost.bytes_down / 1000:.1f} kB | "
            f"{1000 * cost.client_seconds:.1f} ms | {cost.server_seconds:.2f} s |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--clients", type=int, action="append", help="of a session; 100 and 1000 unless given"
    )
    parser.add_argument("--numbers", type=int, default=31_041, help="in the sum (default: %(default)s)")
    parser.add_argument("--only", choices=("vouched", "plain"), help="one of the two kinds of session")
    parser.add_argument("--json", type=Path, help="also write the costs there")
    asked = parser.parse_args()
    kinds = [kind for kind in (False, True) if asked.only in (None, "vouched" if kind else "plain")]
    costs = [
        cost
        for clients in asked.clients or (100, 1000)
        for vouched in kinds
        for cost in measured(clients, vouched=vouched, numbers=asked.numbers)
    ]
    print(table(costs))
    if asked.json is not None:
        asked.json.write_text(json.dumps([asdict(cost) for cost in costs], indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
