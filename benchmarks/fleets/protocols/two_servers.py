"""What protocol two-server costs: bytes and CPU seconds of a user, a leader and a helper.

usage: python benchmarks/fleets/protocols/two_servers.py [--json FILE] [--users N]

For catalogues of 3 449 and 20 000 items and several most_items: a user's message next to a dense vector of
residues, CPU of the user's device, CPU of each server for one user, and users that a core of the leader takes in a
second.
``plain``: keys that each cover the whole catalogue instead of one bin, for comparison. Contributions are made up.
"""

import argparse
import json
import os
from pathlib import Path
from time import process_time

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "BLIS_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402

from fedboard.common.contribution import Contribution, Request, SumSource  # noqa: E402
from fedboard.common.per_user.clipping import LINEAR_BOUND, QUADRATIC_BOUND, WEIGHT_ONE  # noqa: E402
from fedboard.common.privacy.adjacency import Adjacency  # noqa: E402
from fedboard.common.privacy.releases.gaussian import GaussianRelease  # noqa: E402
from fedboard.common.privacy.releases.noise import SecureNoise  # noqa: E402
from fedboard.common.protocol import Given  # noqa: E402
from fedboard.common.protocols.two_server.bins import Domain  # noqa: E402
from fedboard.common.protocols.two_server.helper import LocalHelper  # noqa: E402
from fedboard.common.protocols.two_server.point_functions import (  # noqa: E402
    evaluate_all,
    generate,
)
from fedboard.common.protocols.two_server.protocol import TwoServer  # noqa: E402

FLEET = 100_000
CASES = [
    (n_items, rank, payload, most_items)
    for n_items, rank, payload in (
        (3449, 8, "lean"),
        (20_000, 8, "lean"),
        (20_000, 32, "lean"),
        (20_000, 8, "full"),
    )
    for most_items in (50, 64, 143)
] + [(20_000, 32, "full", 50)]


class TimedHelper:
    """A helper with a stopwatch."""

    def __init__(self) -> None:
        self.helper, self.seconds = LocalHelper(SecureNoise()), 0.0

    def begin(self, about, requests, rules):
        return self.helper.begin(about, requests, rules)

    def take(self, about, client, part):
        began = process_time()
        self.helper.take(about, client, part)
        self.seconds += process_time() - began

    def total(self, about, clients):
        began = process_time()
        found = self.helper.total(about, clients)
        self.total_seconds = process_time() - began
        return found


def requests_of(n_items: int, rank: int, payload: str) -> tuple[Request, ...]:
    """Lean: a weight and a linear statistic per item. Full: linear and quadratic statistics."""
    wide = (SumSource.ITEM_QUADRATIC, rank * (rank + 1) // 2, QUADRATIC_BOUND)
    kinds = [
        (SumSource.ITEM_LINEAR, rank, LINEAR_BOUND),
        (SumSource.ITEM_COUNT, 1, WEIGHT_ONE) if payload == "lean" else wide,
    ]
    return tuple(
        Request(
            source=source,
            release=GaussianRelease(
                name=str(source),
                rows=n_items,
                width=width,
                layout="symmetric" if source is SumSource.ITEM_QUADRATIC else "vector",
                grid_step=1.0,
                l2_bound=bound,
                same_sign=False,
                adjacency=Adjacency.ADD_REMOVE,
                noise_multiplier=10.0,
                covers="a benchmark",
            ),
        )
        for source, width, bound in kinds
    )


def contribution(n_items: int, rank: int, n_rated: int, random: np.random.Generator) -> Contribution:
    """One user's rows, within all bounds."""
    weight = int(WEIGHT_ONE / np.sqrt(n_rated))
    return Contribution(
        n_items=n_items,
        indptr=np.array([0, n_rated]),
        items=np.sort(random.choice(n_items, n_rated, replace=False)).astype(np.int32),
        weights=np.full(n_rated, weight, dtype=np.int16),
        vectors=random.integers(-(1 << 12) // rank, (1 << 12) // rank, (1, rank)).astype(np.int16),
        responses=random.integers(-(1 << 12), 1 << 12, n_rated).astype(np.int16),
    )


def measured(n_items: int, rank: int, payload: str, most_items: int, *, users: int) -> dict[str, object]:
    random = np.random.default_rng(0)
    requests = requests_of(n_items, rank, payload)
    helper = TimedHelper()
    settings = {"most_items": most_items, "most_users": FLEET}
    protocol = TwoServer.sized(clients=users, users=FLEET, settings=settings).helped_by(helper)
    names = [f"user-{k}" for k in range(users)]
    server = protocol.open(b"benchmark", requests, names, n_items=n_items)
    client_seconds, leader_seconds, size = [], [], 0
    for name, message in server.outgoing().items():
        given = Given(contribution=contribution(n_items, rank, most_items, random), requests=requests)
        began = process_time()
        reply = protocol.join(b"benchmark", SecureNoise()).answer(message, given)
        client_seconds.append(process_time() - began)
        before, began = helper.seconds, process_time()
        server.take(name, reply)
        leader_seconds.append(process_time() - began - (helper.seconds - before))
        size = len(reply)
    began = process_time()
    server.proceed()
    width = sum(request.release.width for request in requests)
    return {
        "items": n_items,
        "rank": rank,
        "payload": payload,
        "numbers_per_item": width,
        "most_items": most_items,
        "bytes_up": size,
        "bytes_dense": 4 * width * n_items,
        "client_ms": 1e3 * float(np.median(client_seconds)),
        "leader_ms": 1e3 * float(np.median(leader_seconds)),
        "helper_ms": 1e3 * helper.seconds / users,
        "users_per_second_and_core": 1 / float(np.median(leader_seconds)),
        "end_of_round_s": process_time() - began,
        "plain_ms": plain_ms(n_items, width, most_items),
    }


def plain_ms(n_items: int, width: int, n_keys: int) -> float | None:
    """One server's work for one user if each key covered the whole catalogue."""
    if width > 64:
        return None
    random, domain = np.random.default_rng(0), Domain(n_points=n_items, width=width)
    values = random.integers(0, 1 << 32, (n_keys, width), dtype=np.uint32)
    seeds = bytes(16), bytes(range(16))
    keys = generate(random.integers(0, n_items, n_keys), values, domain, seeds=seeds)
    taken = []
    for _ in range(3):
        began = process_time()
        evaluate_all(keys, seeds[0], domain, party=0)
        taken.append(process_time() - began)
    return 1e3 * min(taken)


def asked(about: str | None, *, users: int) -> argparse.Namespace:
    """What is asked on the command line, of this program and of its like."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write all numbers there")
    parser.add_argument(
        "--users", type=int, default=users, help=f"users to measure, per line [default: {users}]"
    )
    return parser.parse_args()


def main() -> None:
    """Measure every case, a line each."""
    arguments = asked(__doc__, users=20)
    lines = []
    print(
        "items rank payload most | bytes up     dense | client ms leader ms helper ms users/s  end s | plain ms"
    )
    for case in CASES:
        line = measured(*case, users=arguments.users)
        lines.append(line)
        plain = "" if line["plain_ms"] is None else f"{line['plain_ms']:8.1f}"
        print(
            f"{line['items']:5d} {line['rank']:4d} {line['payload']:>7} {line['most_items']:4d} | "
            f"{line['bytes_up']:8d} {line['bytes_dense']:9d} | {line['client_ms']:9.2f} {line['leader_ms']:9.2f} "
            f"{line['helper_ms']:9.2f} {line['users_per_second_and_core']:7.0f} {line['end_of_round_s']:6.2f} | "
            f"{plain}",
            flush=True,
        )
    if arguments.json is not None:
        arguments.json.write_text(json.dumps({"lines": lines}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
