"""``fedboard board``: export, serve, fetch, and verifying a mirror, as a person would."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedboard.cli.exit_codes import ExitCode
from fedboard.common.board import Board
from fedboard.common.certificate import Certificate
from fedboard.common.certificate.record import content_of, statements_of
from fedboard.common.privacy.events import digest
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.common.protection import Protection, protection_of_board
from tests.commands import fedboard
from tests.common.boards.boards import chain, keys, write_boards, write_ledger
from tests.server.publishing.running import serve_boards
from tests.server.vouched import vouched_pair


@pytest.fixture
def run(tmp_path: Path) -> Path:
    write_boards(tmp_path / "summer" / "boards", boards := chain(3))
    write_ledger(tmp_path / "summer", boards[-1])
    keys(tmp_path / "keys")
    return tmp_path / "summer"


@pytest.fixture
def exported(run, tmp_path) -> Path:
    done = fedboard(
        "board", "export", run, "--to", tmp_path / "mirror", "--key", tmp_path / "keys/board-signing.key"
    )
    assert done.exit_code == 0, done.stderr
    return tmp_path / "mirror"


def fetched(tmp_path, source, *more):
    public = tmp_path / "keys/board-signing.pub"
    return fedboard("board", "fetch", source, "--key", public, "--to", tmp_path / "mine", *more)


def test_a_run_is_exported_once_and_fetched_from_the_folder(tmp_path, run, exported):
    private = tmp_path / "keys/board-signing.key"
    again = fedboard("board", "export", run, "--to", exported, "--key", private)
    assert "has them all already" in again.stdout

    done = fetched(tmp_path, exported, "--json")

    told = json.loads(done.stdout)
    assert (told["run"], told["version"]) == ("summer", 4)
    assert Path(told["path"]).read_bytes() == chain(3)[2].to_bytes()
    assert "here already" in fetched(tmp_path, exported).stdout


def test_a_run_is_not_exported_without_the_ledger_that_booked_what_its_boards_state(tmp_path, run):
    key = tmp_path / "keys/board-signing.key"
    export = ("board", "export", run, "--to", tmp_path / "mirror", "--key", key)
    write_ledger(run, chain(2)[-1])
    other = fedboard(*export)
    (run / "ledger.sqlite").unlink()
    none = fedboard(*export)

    assert (other.exit_code, none.exit_code) == (ExitCode.REFUSED, ExitCode.REFUSED)
    assert "4 releases certified, 3 booked when it was published; its boards are not signed" in other.stderr
    assert "the run's ledger is not there" in none.stderr
    assert not (tmp_path / "mirror").exists()


def test_a_seeded_run_that_is_relabelled_as_private_is_not_exported(tmp_path, seeded):
    for path in (seeded / "boards").iterdir():
        board, label = Board.load(path), {"private": True, "noise": "as good as secure"}
        plain = json.loads(json.dumps(board.certificate)) | label
        plain["releases"] = [
            {k: v for k, v in event.items() if k != "seed"} | label for event in plain["releases"]
        ]
        plain["statements"] = statements_of(Certificate.from_dict(plain))
        plain["digest"] = digest(content_of(Certificate.from_dict(plain)))
        path.unlink()
        board.with_certificate(plain).save(path)
        assert protection_of_board(Board.load(path)) is Protection.SIMULATION
    write_ledger(seeded, chain(3, noise=[SeededNoise(0)])[-1])
    place = ("--to", tmp_path / "mirror", "--key", tmp_path / "keys/board-signing.key")

    verified = fedboard("certificate", "verify", path, "--json")
    exported = fedboard("board", "export", seeded, *place)

    assert verified.exit_code == ExitCode.FAILED
    assert json.loads(verified.stdout)["private"] is False
    assert exported.exit_code == ExitCode.REFUSED


def test_what_is_not_given_is_what_the_device_has(tmp_path, exported):
    assert fedboard("ratings", "init", tmp_path / "ann").exit_code == 0
    device = tmp_path / "ann" / "device.toml"
    without = fedboard("board", "fetch", "--device", device)
    settings = 'source = "../mirror"\npublic_key = "../keys/board-signing.pub"\ncache = "boards"\n'
    device.write_text(device.read_text() + f"\n[boards]\n{settings}".replace("../", f"{tmp_path}/"))

    done = fedboard("board", "fetch", "--device", device)

    assert "source and public_key" in without.stderr
    assert done.exit_code == 0, done.stderr
    assert list((tmp_path / "ann" / "boards").glob("board-0004-*.board"))


def test_another_key_is_refused_with_a_code(tmp_path, exported):
    keys(tmp_path / "theirs")

    done = fedboard(
        "board", "fetch", exported, "--key", tmp_path / "theirs/board-signing.pub", "--to", tmp_path / "mine"
    )

    assert done.exit_code == 1
    assert done.stderr.startswith("fedboard: bad-signature: ")


def test_verify_lists_what_failed_last_and_what_passed_only_if_asked(tmp_path, exported):
    public = tmp_path / "keys/board-signing.pub"
    whole = fedboard("certificate", "verify", exported, "--key", public)
    assert whole.stdout.startswith(f"All 6 checks passed: {exported}.\nprivate: ")
    newest = json.loads(json.loads((exported / "latest.json").read_text())["content"])
    damaged = exported / "files" / newest["file"]["sha256"]
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")

    told = fedboard("certificate", "verify", exported, "--key", public).stdout.splitlines()
    every = fedboard("certificate", "verify", exported, "--key", public, "--all").stdout.splitlines()
    as_json = fedboard("certificate", "verify", exported, "--key", public, "--json")

    assert (whole.exit_code, as_json.exit_code) == (0, 1)
    failed = json.loads(as_json.stdout)["failed"]
    assert [finding["detail"].partition(":")[0] for finding in failed] == ["wrong-digest"]
    assert told[-1] == every[-1] == f"1 of 6 checks failed: do not rely on {exported}."
    assert [line.split()[0] for line in told[:-1] if line.startswith("FAILED")] == ["FAILED"]
    assert sum(line.startswith("ok ") for line in every) == 5
    assert not any(line.startswith("ok ") for line in told)


def in_a_process(*arguments, cwd):
    """Exit code and stderr of a process of its own: what gRPC's core writes, it writes past Python."""
    command = [sys.executable, "-c", "from fedboard.cli.main import main; main()", *arguments]
    plain = {name: value for name, value in os.environ.items() if name != "GRPC_VERBOSITY"}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=plain,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.fixture
def fleet_keys(tmp_path) -> Path:
    for name in ("ours", "theirs"):
        vouched_pair(tmp_path / name)
    return tmp_path


@pytest.mark.slow
def test_a_device_fetches_from_its_fleet_s_own_service(exported, fleet_keys):
    pair = {"certificate": fleet_keys / "ours/server.pem", "private_key": fleet_keys / "ours/server.key"}
    assert fedboard("ratings", "init", fleet_keys / "ann").exit_code == 0
    device = fleet_keys / "ann/device.toml"
    with serve_boards(exported, **pair) as service:
        device.write_text(
            f"""{device.read_text()}
[server]
address = "127.0.0.1:8443"
authority = "../ours/authority.pem"
key = "device.key"
[boards]
source = "127.0.0.1:{service.port}"
public_key = "../keys/board-signing.pub"
"""
        )
        done = fedboard("board", "fetch", "--device", device)
        command = ["board", "fetch", "--device", "ann/device.toml", "--authority", "theirs/authority.pem"]
        code, told = in_a_process(*command, cwd=fleet_keys)

    assert done.exit_code == 0, done.stderr
    assert code == 1
    assert told.startswith("fedboard: untrusted: no authority that is trusted here vouches for")
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("export", "nowhere", "--to", "m", "--key", "k"), "no boards in this directory"),
        (("fetch", "mirror", "--key", "k", "--to", "m", "--follow", "--version", "3"), "leave --version out"),
    ],
)
def test_what_does_not_go_together_is_told(arguments, told):
    done = fedboard("board", *arguments)

    assert done.exit_code == 2
    assert told in done.stderr


@pytest.fixture
def seeded(tmp_path) -> Path:
    """A run whose noise follows from a seed."""
    write_boards(tmp_path / "seeded" / "boards", boards := chain(3, noise=[SeededNoise(0)]))
    write_ledger(tmp_path / "seeded", boards[-1])
    if not (tmp_path / "keys").exists():
        keys(tmp_path / "keys")
    return tmp_path / "seeded"


@pytest.fixture
def simulated(tmp_path, seeded) -> Path:
    """Its mirror, marked."""
    private, mirror = tmp_path / "keys/board-signing.key", tmp_path / "simulated"
    refused = fedboard("board", "export", seeded, "--to", mirror, "--key", private)
    assert refused.exit_code == ExitCode.REFUSED
    assert "is a simulation: its noise can be reproduced from its seed. It is not signed" in refused.stderr
    done = fedboard("board", "export", seeded, "--to", mirror, "--key", private, "--simulation")
    assert done.exit_code == 0, done.stderr
    return mirror


def test_a_simulation_is_fetched_only_if_told_and_says_so(tmp_path, simulated):
    refused = fetched(tmp_path, simulated)
    taken = fetched(tmp_path, simulated, "--simulation")
    as_json = fetched(tmp_path, simulated, "--simulation", "--json")

    assert refused.exit_code == 1
    assert refused.stderr.startswith(
        "fedboard: simulation: the board's noise can be reproduced from its seed"
    )
    assert taken.exit_code == 0, taken.stderr
    assert VERDICT in taken.stdout
    assert json.loads(as_json.stdout)["private"] is False


VERDICT = "NOT PRIVATE: the noise can be reproduced from its seed"


@pytest.mark.slow
def test_everything_that_is_printed_of_a_simulation_says_so(tmp_path, simulated):
    fetched(tmp_path, simulated, "--simulation")
    mine = tmp_path / "mine.csv"
    mine.write_text("item,rating\n1,5\n2,1\n")
    boards = tmp_path / "mine"

    for command in (
        ("recommend", mine, boards),
        ("explain", "--neighbours", "1", boards),
        ("explain", "1", mine, boards),
    ):
        text, record = fedboard(*command), json.loads(fedboard(*command, "--json").stdout)
        assert text.stdout.startswith(VERDICT), text.output
        assert (record["private"], record["noise"]) == (False, "simulation")


def test_what_is_printed_of_a_private_board_is_not_marked(tmp_path, exported):
    fetched(tmp_path, exported)

    text = fedboard("explain", "--neighbours", "1", tmp_path / "mine")
    record = json.loads(fedboard("explain", "--neighbours", "1", tmp_path / "mine", "--json").stdout)

    assert "PRIVATE" not in text.stdout
    assert (record["private"], record["noise"]) == (True, "private")


@pytest.mark.slow
def test_verify_tells_a_simulation_by_its_exit_code(tmp_path, exported, simulated):
    public = tmp_path / "keys/board-signing.pub"
    private, found = (
        fedboard("certificate", "verify", place, "--key", public, "--json") for place in (exported, simulated)
    )
    accepted = fedboard("certificate", "verify", simulated, "--key", public, "--simulation")

    assert private.exit_code == 0
    assert json.loads(private.stdout)["private"] is True
    assert found.exit_code == ExitCode.NOT_PRIVATE
    record = json.loads(found.stdout)
    assert (record["holds"], record["private"], record["noise"]) == (True, False, "simulation")
    assert accepted.exit_code == 0
    assert VERDICT in accepted.stdout


def with_mirror(tmp_path: Path, mirror: Path, policy: str = "") -> Path:
    """A device that follows a mirror."""
    assert fedboard("ratings", "init", tmp_path / "ann").exit_code == 0
    device = tmp_path / "ann" / "device.toml"
    board = f'source = "{mirror}"\npublic_key = "{tmp_path}/keys/board-signing.pub"\ncache = "boards"\n'
    text = device.read_text() if not policy else device.read_text().replace("# seeded_noise", "seeded_noise")
    device.write_text(f"{text}\n[boards]\n{board}")
    return device


def test_a_device_takes_simulations_only_where_its_policy_does(tmp_path, simulated):
    wary = fedboard("board", "fetch", "--device", with_mirror(tmp_path, simulated))
    (tmp_path / "ann").rename(tmp_path / "wary")
    willing = with_mirror(tmp_path, simulated, policy="seeded_noise")
    taken = fedboard("board", "fetch", "--device", willing)
    fedboard("ratings", "add", "1", "5", "--device", willing)

    assert wary.stderr.startswith("fedboard: simulation: ")
    assert taken.exit_code == 0, taken.stderr
    assert fedboard("recommend", willing).stdout.startswith(VERDICT)
    status = fedboard("status", "--device", willing)
    assert "NOT PRIVATE" in status.stdout
    boards = json.loads(fedboard("status", "--device", willing, "--json").stdout)["boards"]
    assert [board["noise"] for board in boards] == ["simulation"]


def test_a_simulation_in_a_device_s_cache_is_not_used_where_its_policy_takes_none(tmp_path, simulated):
    """However it came there: an older version of fedboard kept it without looking."""
    fetched(tmp_path, simulated, "--simulation")
    device = with_mirror(tmp_path, simulated)
    fedboard("ratings", "add", "1", "5", "--device", device)
    (tmp_path / "mine").rename(device.with_name("boards"))

    for command in (("recommend", device), ("explain", "1", device)):
        refused = fedboard(*command)
        assert refused.exit_code == 2
        assert "seeded_noise = true in [policy]" in refused.stderr
