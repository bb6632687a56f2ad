"""Devices that come and go while a fleet of real processes trains over TLS: rounds made, rounds lost.

    python benchmarks/enrolment.py [--rounds 10] [--restore] [--json FILE]

Two gateways of the settings and one that joins before the first round; while a round is under way another joins by
the command line, one is removed, the server is killed (``kill -9``) and started again, and ``[[nodes]]`` is changed
and read again (SIGHUP). What counts is ``lost``, and who answered in which round.

With ``--restore`` the server is killed and lost with its folder after some rounds. A backup from before the last
board is refused; one of the last moment is restored on another path, where the same devices go on with it. What
counts is that no release is booked twice or missing, and that one round at most is lost.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from fleets.deployment import FEDBOARD, Deployment, FleetPlan, make_fleet, wait_for

from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.server.fleet.members.register import Register
from fedboard.server.fleet.plan.settings import read_settings
from fedboard.simulations.config import parse_config
from fedboard.simulations.problem import load_problem

GATEWAYS = ("a", "b")
JOINING = ("c", "d")
USERS = 200


def a_fleet(folder: Path, rounds: int) -> Deployment:
    """Its files: the gateways of the settings, and the ratings of those who will join."""
    data = {"synthetic": {"n_users": 4 * USERS, "n_items": 60, "mean_ratings_per_user": 20.0}}
    problem = load_problem(parse_config({"data": data}))
    parts = {
        name: problem.train.rows(number * USERS, (number + 1) * USERS)
        for number, name in enumerate((*GATEWAYS, *JOINING))
    }
    plan = FleetPlan(
        nodes=parts,
        catalogue=problem.catalogue,
        task={"algorithm": "adadpals", "settings": {"rank": 2, "rounds": rounds}},
        privacy={"epsilon": 5.0, "delta": 1e-5, "noise": "secure"},
        rounds={
            "quorum": 2,
            "deadline_seconds": 60,
            "grace_seconds": 2,
            "resend_seconds": 5,
            "poll_seconds": 0.2,
        },
    )
    settings = make_fleet(folder, plan)
    config = folder / "fleet.toml"
    lines = config.read_text().splitlines()
    listed = [line for line in lines if not line.startswith("nodes")]
    nodes = ", ".join(
        f'{{ name = "{name}", public_key = "{name}/node.pub", max_users = {USERS} }}' for name in GATEWAYS
    )
    address = f"127.0.0.1:{settings.network.port}"
    listed.append(f"nodes = [{nodes}]")
    listed.append(
        f'enrolment = {{ address = "{address}", max_devices = 2, max_users_per_device = {USERS}, '
        f"max_users = {2 * USERS} }}"
    )
    config.write_text("\n".join(listed) + "\n")
    for name in JOINING:
        for key in ("node.key", "node.pub"):
            (folder / name / key).unlink()
        (folder / name / "device.toml").write_text(
            'ratings = { cohort = "cohort" }\npolicy = { epsilon = 6.0, delta = 1e-5 }\n'
        )
    return Deployment(folder, read_settings(config))


def fedboard(*words: object) -> str:
    """A command; what it said."""
    ended = subprocess.run([*FEDBOARD, *map(str, words)], capture_output=True, text=True, check=False)
    if ended.returncode:
        raise RuntimeError(ended.stderr)
    return ended.stdout


def join(fleet: Deployment, name: str) -> float:
    """Invite and join; seconds that joining took."""
    config, file = fleet.folder / "fleet.toml", fleet.folder / f"{name}.invite"
    fedboard("fleet", "invite", name, "--config", config, "--users", USERS, "--out", file)
    began = time.monotonic()
    fedboard("client", "join", "--invitation", file, "--out", fleet.folder / name)
    return time.monotonic() - began


def made(fleet: Deployment) -> int:
    """Rounds so far."""
    return len(fleet.log.lines())


def drill(folder: Path, rounds: int) -> dict[str, Any]:
    """All of it; what came of it."""
    fleet = a_fleet(folder, rounds)
    try:
        fleet.start("server")
        for name in GATEWAYS:
            fleet.start(name)
        wait_for(lambda: fleet.state.door.exists(), "door", folder, seconds=240)
        seconds = {"c": join(fleet, "c")}
        fleet.start("c")
        wait_for(lambda: made(fleet) >= 1, "first round", folder, seconds=240)
        seconds["d"] = join(fleet, "d")
        fleet.start("d")
        joined_after = made(fleet)
        wait_for(lambda: made(fleet) >= joined_after + 2, "rounds with d", folder, seconds=240)
        fleet.end("server", signal.SIGKILL)
        killed_after = made(fleet)
        fleet.start("server")
        wait_for(lambda: made(fleet) > killed_after, "round after the restart", folder, seconds=240)
        fedboard("fleet", "remove", "c", "--config", folder / "fleet.toml")
        removed_after = made(fleet)
        wait_for(lambda: made(fleet) >= removed_after + 2, "rounds without c", folder, seconds=240)
        text = (folder / "fleet.toml").read_text()
        (folder / "fleet.toml").write_text(text.replace("quorum = 2", "quorum = 1"))
        fleet.send("server", signal.SIGHUP)
        wait_for(lambda: fleet.status("server") is not None, "end of the training", folder, seconds=240)
        lines = fleet.log.lines()
        with Register(fleet.state.members) as register:
            members = [member.name for member in register.admitted()]
        return {
            "rounds": len(lines),
            "lost": sum(bool(line["lost"]) for line in lines),
            "exit_status": fleet.status("server"),
            "answers": [line["answers"] for line in lines],
            "join_seconds": seconds,
            "joined_after": joined_after,
            "killed_after": killed_after,
            "removed_after": removed_after,
            "members": members,
            "told": [line for line in (folder / "server.log").read_text().splitlines() if _matters(line)],
        }
    finally:
        fleet.stop()


def restore_drill(folder: Path, rounds: int) -> dict[str, Any]:
    """Kill, restore elsewhere, go on; what came of it."""
    fleet = a_fleet(folder / "fleet", rounds)
    config, new = folder / "fleet" / "fleet.toml", folder / "new"
    elsewhere = None
    try:
        fleet.start("server")
        for name in GATEWAYS:
            fleet.start(name)
        wait_for(lambda: made(fleet) >= 1, "first round", folder, seconds=240)
        fedboard("fleet", "backup", "--config", config, "--to", folder / "early.fedboard")
        early = made(fleet)
        wait_for(lambda: made(fleet) >= early + 2, "later rounds", folder, seconds=240)
        fleet.end("server", signal.SIGKILL)
        killed_after, boards = made(fleet), fleet.state.run / "boards"
        fedboard("fleet", "backup", "--config", config, "--to", folder / "late.fedboard")
        words = ("fleet", "restore", folder / "early.fedboard", "--to", new, "--newest-board", boards)
        refused = subprocess.run([*FEDBOARD, *map(str, words)], capture_output=True, text=True, check=False)
        told = fedboard("fleet", "restore", folder / "late.fedboard", "--to", new, "--newest-board", boards)
        elsewhere = Deployment(new, read_settings(new / "fleet.toml"))
        elsewhere.start("server")
        wait_for(lambda: elsewhere.status("server") is not None, "end of the training", folder, seconds=240)
        with Ledger.open(elsewhere.state.run / "ledger.sqlite", read_only=True) as ledger:
            booked = [str(event["name"]) for event in ledger.events()]
            planned = set(ledger.plan or {})
        lines = elsewhere.log.lines()
        return {
            "early_backup_exit_status": refused.returncode,
            "early_backup_told": refused.stderr.strip(),
            "restore_told": told.splitlines(),
            "killed_after": killed_after,
            "rounds": len(lines),
            "lost": sum(bool(line["lost"]) for line in lines),
            "exit_status": elsewhere.status("server"),
            "booked": len(booked),
            "booked_twice": len(booked) - len(set(booked)),
            "planned_and_not_booked": len(planned - set(booked)),
        }
    finally:
        if elsewhere is not None:
            elsewhere.stop()
        fleet.stop()


def _matters(line: str) -> bool:
    return any(word in line for word in ("member", "reloaded", "LOST", "complete", "interrupted", "removed"))


def main() -> None:
    """Run, print, and fail where a round was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--restore", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = (restore_drill if given.restore else drill)(Path(folder), given.rounds)
    text = json.dumps(found, indent=1)
    print(text)
    if given.json is not None:
        given.json.write_text(text)
    most_lost = 1 if given.restore else 0
    underbooked = found.get("booked_twice", 0) + found.get("planned_and_not_booked", 0)
    sys.exit(found["lost"] > most_lost or underbooked > 0 or found["exit_status"] != 0)


if __name__ == "__main__":
    main()
