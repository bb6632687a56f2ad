"""Protocols of several steps over a deployment: real device processes over TLS on 127.0.0.1, some of them killed.

    python benchmarks/fleets/protocols/secure_fleet.py --json FILE

In one round a device is killed when it is asked for its masked input, after it has dealt out shares, and another
when it is asked to unmask, after its masked input was taken. The round goes on with the others. Noise is seeded, so
every board is computed once more without any protocol (integers of the survivors, added up directly, then the
noise) and has to be the same to the last bit: ``same_boards``. The control is the same computation with both
devices or with neither of them in the sum, which must give other boards: ``control_differs``.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Request
from fedboard.common.per_user.participation import Attendance, FullParticipation
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.common.privacy.releases.noise_shares import NoiseShares
from fedboard.common.protocol import AggregationProtocol, ExactSums
from fedboard.common.protocols.distributed_dp.protocol import DistributedDp
from fedboard.common.protocols.secure_sum.protocol import SecureSum
from fedboard.common.protocols.sums.exact import DenseSums
from fedboard.common.protocols.sums.residues import Packing
from fedboard.common.protocols.sums.truncated import coarse_sums
from fedboard.common.task import ReleasedSums, Task
from fedboard.common.tasks.registry import rebuild_task
from fedboard.server.fleet.plan.job import Job
from fedboard.server.fleet.plan.preparing import prepare
from fedboard.server.fleet.plan.protocols import protocol_of
from fedboard.server.fleet.plan.state_folder import StateFolder
from fedboard.server.round import run_round
from fedboard.server.run_ledger import plan_of
from fedboard.server.runtime import Gathered, NoisedSums
from fedboard.simulations.config import parse_config
from fedboard.simulations.problem import Problem, load_problem
from fedboard.simulations.sessions.clients import client_noise
from fleets.deployment import Deployment, FleetPlan, deployed, make_fleet, wait_for

PROTOCOLS = ("secure-sum", "distributed-dp")
KILLED_IN = 1
"""The round in which devices are killed."""
MASKED, UNMASK = 2, 3
"""Numbers of the steps that ask for masked inputs and for shares."""
_MORTAL = (sys.executable, str(Path(__file__).with_name("mortal_client.py")))
_SEED = 0


def main() -> None:
    """Run and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--devices", type=int, default=10, help="how many; two of them are killed")
    options.add_argument("--users", type=int, default=20, help="of each device")
    options.add_argument("--items", type=int, default=200)
    options.add_argument("--rank", type=int, default=8)
    options.add_argument("--protocols", nargs="+", default=PROTOCOLS, choices=PROTOCOLS)
    options.add_argument("--json", type=Path)
    asked = options.parse_args()
    record = {name: _trial(name, asked) for name in asked.protocols}
    for name, found in record.items():
        print(
            f"{name}: {found['devices']} devices, 2 killed; rounds {found['rounds']}, same boards "
            f"{found['same_boards']}, control differs {found['control_differs']}; seconds {found['seconds']}"
        )
    if asked.json is not None:
        asked.json.write_text(json.dumps(record, indent=1))
    if not all(found["same_boards"] and found["control_differs"] for found in record.values()):
        raise SystemExit("a board is not what the survivors' integers and the noise make")


def _trial(protocol: str, asked: argparse.Namespace) -> dict[str, Any]:
    problem = _problem(asked)
    nodes = _nodes(problem, asked.devices)
    plan = FleetPlan(
        nodes=nodes,
        catalogue=problem.catalogue,
        task={"algorithm": "adadpals", "settings": {"rank": asked.rank, "rounds": 2}},
        privacy={"epsilon": 5.0, "delta": 1e-5, "noise": "seeded", "seed": _SEED},
        rounds={
            "quorum": asked.devices - 3,
            "deadline_seconds": 240.0,
            "grace_seconds": 20.0,  # so that all devices are there in the first round
            "resend_seconds": 5.0,
            "poll_seconds": 0.1,
        },
        protocol={"name": protocol, "step_seconds": 60.0},
    )
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        settings = make_fleet(folder, plan)
        prepare(settings)
        with deployed(folder, settings) as fleet:
            began = time.monotonic()
            lines = _run(fleet, list(nodes))
            seconds = time.monotonic() - began
            boards = [Board.load(p) for p in sorted((fleet.state.run / "boards").glob("board-*.board"))]
        job = Job.load(StateFolder.of(settings).job)
        direct = _Direct.of(job, list(nodes.values()))
        found = [board.digest for board in boards]
        same = direct.boards(folder / "direct", _alive) == found
        others = [direct.boards(folder / name, who) for name, who in _CONTROLS.items()]
    return {
        "devices": asked.devices,
        "rounds": len(lines),
        "same_boards": same,
        "control_differs": all(other[: KILLED_IN + 1] == found[: KILLED_IN + 1] for other in others)
        and all(other[KILLED_IN + 1] != found[KILLED_IN + 1] for other in others),
        "answers": [line["answers"] for line in lines],
        "seconds": [round(line["seconds"], 2) for line in lines],
        "steps": [line["steps"] for line in lines],
        "refused": [line["refused"] for line in lines],
        "seconds_in_all": seconds,
    }


def _problem(asked: argparse.Namespace) -> Problem:
    made_up = {
        "n_users": asked.devices * asked.users,
        "n_items": asked.items,
        "mean_ratings_per_user": 20.0,
    }
    return load_problem(parse_config({"data": {"synthetic": made_up}}))


def _nodes(problem: Problem, devices: int) -> dict[str, Cohort]:
    users, cuts = problem.train.n_users, range(devices + 1)
    bounds = [users * k // devices for k in cuts]
    return {f"n{k}": problem.train.rows(bounds[k], bounds[k + 1]) for k in range(devices)}


def _run(fleet: Deployment, names: Sequence[str]) -> list[dict[str, Any]]:
    """Start everything; the last device but one dies before it gives, the last one afterwards."""
    deaths = {names[-2]: f"{KILLED_IN}:{MASKED}", names[-1]: f"{KILLED_IN}:{UNMASK}"}
    fleet.start("server")
    for number, name in enumerate(names):
        of_device = {"DIES": deaths[name]} if name in deaths else {}
        fleet.start(name, _MORTAL, SEED=str(_SEED), NUMBER=str(number), **of_device)
    wait_for(lambda: fleet.status("server") is not None, "complete training", fleet.folder, seconds=600)
    if not all(fleet.status(name) == -9 for name in deaths):
        raise SystemExit("a device that was to be killed is alive")
    return fleet.log.lines()


def _alive(version: int, number: int, devices: int) -> bool:
    """Whether the contribution of a device is in the sum of the round that asks about this board."""
    if version == KILLED_IN:
        return number != devices - 2
    return version < KILLED_IN or number < devices - 2


_CONTROLS = {
    "with-both": lambda version, number, devices: version <= KILLED_IN or number < devices - 2,
    "with-neither": lambda version, number, devices: version < KILLED_IN or number < devices - 2,
}


@dataclass(frozen=True, kw_only=True)
class _Direct:
    """The run once more, without a protocol: integers of some devices added up, then the noise."""

    job: Job
    task: Task
    first: Board
    protocol: AggregationProtocol
    cohorts: Sequence[Cohort]

    @staticmethod
    def of(job: Job, cohorts: Sequence[Cohort]) -> "_Direct":
        first = Board.load(Path(job.first_board))
        return _Direct(
            job=job, task=rebuild_task(first), first=first, protocol=protocol_of(job), cohorts=cohorts
        )

    def boards(self, folder: Path, alive: Any) -> list[str]:
        """Digests of all boards, if these devices are in these sums."""
        folder.mkdir()
        budget = self.job.privacy.budget
        noise = self.protocol.noise(SeededNoise(self.job.privacy.seed))
        board, found = self.first, [self.first.digest]
        plan = plan_of(self.task, FullParticipation())
        with Ledger.create(folder / "ledger.sqlite", budget, run="direct", plan=plan) as ledger:
            while self.task.requests(board):
                runtime = _Adding(self, alive)
                board = run_round(self.task, board, runtime=runtime, ledger=ledger, noise=noise).board
                found.append(board.digest)
        return found


@dataclass(frozen=True)
class _Adding:
    """A runtime that has everybody's rows and adds up some of them."""

    direct: _Direct
    alive: Any

    def gather(
        self, board: Board, requests: Sequence[Request], attendance: Attendance | None = None
    ) -> Gathered:
        """Coarse sums of those who are in, and, where they add noise, their shares of it."""
        direct, asked = self.direct, tuple(requests)
        protocol, devices = direct.protocol, len(direct.cohorts)
        assert isinstance(protocol, SecureSum | DistributedDp)
        if isinstance(protocol, DistributedDp):
            shifts = protocol.packing(asked).shifts
        else:
            shifts = Packing.of(asked, most_users=protocol.rules.most_users).shifts
        inside = [k for k in range(devices) if self.alive(board.version, k, devices)]
        parts = []
        for number in inside:
            rows = direct.task.contribute(direct.cohorts[number], board, asked)
            sums = coarse_sums(rows, asked, shifts)
            for request in asked:
                if isinstance(protocol, DistributedDp):
                    stream = client_noise(_SEED, board.version, number).stream(request.name)
                    shares = NoiseShares(least=protocol.rules.honest)
                    sums[request.name] += shares.draw(request.release, stream, shift=shifts[request.name])
                sums[request.name] <<= shifts[request.name]
            parts.append(sums)
        sums = DenseSums.total(parts, asked)
        if isinstance(protocol, DistributedDp):
            among, ratio = protocol.rules.honest_among(len(inside)), protocol.rules.noise_ratio
            sums = replace(sums, noise_shares=among, noise_ratio=ratio)
        return Gathered(sums=sums)

    def open(
        self, sums: ExactSums, requests: Sequence[Request], booked: Mapping[str, BookedRelease]
    ) -> ReleasedSums:
        """Noised sums of releases that are paid for."""
        return NoisedSums(sums=sums, requests=requests, booked=booked)


if __name__ == "__main__":
    main()
