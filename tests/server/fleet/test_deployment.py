"""A fleet of real processes: it trains whatever is killed, and nobody comes in by the devices' port."""

import json
import os
import re
import signal
import socket
import zipfile
from collections.abc import Iterator
from fnmatch import fnmatch
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from click.testing import CliRunner

from fedboard.cli.main import commands
from fedboard.client.participation.config import load_device
from fedboard.client.participation.connection import CallError, ServerConnection, Trouble
from fedboard.client.participation.status import given_so_far
from fedboard.common.certificate import Certificate
from fedboard.common.messages.devices import DeviceKey, Method
from fedboard.common.messages.devices_pb2 import WorkRequest
from fedboard.common.reports.wording import spent
from fedboard.server.fleet.state_folder import RoundLog
from tests.commands import done as fedboard
from tests.server.fleet.deployed import NODES, ROUNDS, Fleet, deployed
from tests.server.operating.asking import pages

pytestmark = pytest.mark.slow

NOT_IN_A_BACKUP = ("*.lock", "*.sqlite-*")
"""What a server makes again, or is told by others."""
_LISTENS = "0A"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    with deployed(folder, protocol={"name": "secure-sum"}, vouched=True) as running:
        yield running


def metrics(fleet: Fleet) -> str:
    return httpx.get(f"http://{fleet.settings.network.ops}/metrics", trust_env=False).text


def test_the_training_is_completed_though_server_and_device_are_killed(fleet: Fleet) -> None:
    fleet.wait(lambda: len(fleet.rounds) >= 1, "first round")
    fleet.end("c", signal.SIGKILL)
    fleet.end("server", signal.SIGKILL)
    fleet.start("c")
    fleet.start("server")
    fleet.wait(lambda: "the training is" in fleet.log("server"), "end of the training")

    boards = fleet.boards()
    assert [board.version for board in boards] == list(range(ROUNDS + 2))
    assert all(later.previous_digest == board.digest for board, later in pairwise(boards))
    certificate = Certificate.from_dict(dict(boards[-1].certificate or {}))
    assert certificate.holds
    assert certificate.claim.epsilon <= 5.0 * (1 + 1e-9)
    lines = RoundLog(fleet.state.run / "rounds.jsonl").lines()
    released = [name for line in lines for name in line["releases"]]
    assert len(released) == len(set(released))
    assert sum(len(line["releases"]) > 0 for line in lines) >= 2
    told = [line for line in lines if line["releases"] and "protocol" in line]
    assert {line["protocol"] for line in told} == {"secure-sum"}
    assert all(3 <= line["answers"] <= 4 for line in told)
    assert {len(line["steps"]) for line in told} == {5}  # confirmed before it was opened
    assert "whatever the server says or does" in " ".join(certificate.trust)


def test_each_file_of_the_state_folder_is_in_a_backup_or_on_a_list(fleet: Fleet, tmp_path: Path) -> None:
    """A file that a server makes and nobody thought of is found here, by its name."""
    fleet.trained()
    fleet.wait(lambda: (fleet.state.mirror / "latest.json").exists(), "signed board")
    # Listed before the backup is made: the server goes on, and publishes boards that the backup has not seen.
    present = {
        path.relative_to(fleet.state.path).as_posix()
        for path in fleet.state.path.rglob("*")
        if path.is_file()
    }
    fedboard("fleet", "backup", "--config", fleet.folder / "fleet.toml", "--to", tmp_path / "one.fedboard")
    with zipfile.ZipFile(tmp_path / "one.fedboard") as archive:
        held = {name.removeprefix("state/") for name in archive.namelist()}

    missing = present - held
    unlisted = [name for name in missing if not any(fnmatch(name, one) for one in NOT_IN_A_BACKUP)]
    unneeded = [one for one in NOT_IN_A_BACKUP if not any(fnmatch(name, one) for name in missing)]
    assert (unlisted, unneeded) == ([], [])


def connection(fleet: Fleet, key: DeviceKey) -> ServerConnection:
    return ServerConnection(
        address=fleet.settings.network.address,
        authority=fleet.keys.authority.read_text(),
        key=key,
        largest=1000,
    )


def test_with_the_authoritys_certificate_alone_nobody_comes_in_by_the_devices_port(fleet: Fleet) -> None:
    fleet.trained()
    authority = grpc.ssl_channel_credentials(fleet.keys.authority.read_bytes())
    with grpc.secure_channel(fleet.settings.network.address, authority) as channel:

        def code_of(path: str, request: bytes, **metadata: Any) -> grpc.StatusCode:
            with pytest.raises(grpc.RpcError) as refused:
                list(channel.unary_stream(path)(request, timeout=20.0, **metadata))
            return refused.value.code()  # type: ignore[attr-defined,no-any-return]

        request = WorkRequest(version="1").SerializeToString()
        for path in ("/fedboard.Control/StartRun", "/flwr.proto.Control/StartRun", "/grpc.reflection.v1.S/I"):
            assert code_of(path, request) is grpc.StatusCode.UNIMPLEMENTED
        assert code_of(Method.WORK.path, request) is grpc.StatusCode.UNAUTHENTICATED
        known = DeviceKey.load(
            fleet.folder / "a" / "device.key"
        )  # no secret: the private half is what counts
        forged = DeviceKey().metadata(Method.WORK, "0" * 64, micros=1)
        forged = (("fedboard-key", known.public.hex()), *forged[1:])
        assert code_of(Method.WORK.path, request, metadata=forged) is grpc.StatusCode.UNAUTHENTICATED
    with pytest.raises(CallError) as stranger:
        connection(fleet, DeviceKey()).receive()
    assert stranger.value.trouble is Trouble.NOT_ADMITTED
    assert 'fedboard_device_calls_total{status="UNAUTHENTICATED"}' in metrics(fleet)


def test_the_boards_are_served_and_the_metrics_tell_of_the_server(fleet: Fleet, tmp_path: Path) -> None:
    fleet.trained()
    last = fleet.boards()[-1]
    words = ["board", "fetch", f"grpcs://{fleet.settings.network.address}", "--to", str(tmp_path)]
    words += ["--key", str(fleet.keys.path / "roots" / "1.root.json"), "--simulation"]  # its noise is seeded
    words += ["--authority", str(fleet.keys.authority)]

    def fetched() -> bool:
        CliRunner().invoke(commands, words)
        return any(last.digest in path.name for path in tmp_path.glob("*.board"))

    fleet.wait(fetched, "served board", 20)
    assert 'fedboard_device_calls_total{status="OK"}' in metrics(fleet)
    health = httpx.get(f"http://{fleet.settings.network.ops}/healthz", trust_env=False)
    assert (health.status_code, health.json()["rounds"]["planned"]) == (200, ROUNDS + 1)


def test_the_live_report_of_the_server_tells_of_the_training_after_its_restart(fleet: Fleet) -> None:
    fleet.trained()
    news = pages(f"http://{fleet.settings.network.ops}/")
    page = next(page for page in news if f"{ROUNDS + 1} of {ROUNDS + 1}" in page)

    lines = RoundLog(fleet.state.run / "rounds.jsonl").lines()
    assert spent(lines[-1]["epsilon_spent"]) in page
    assert re.search(r"a simulation|seed", page)


def test_a_query_is_answered_by_the_devices_over_tls_and_counts_beside_the_training(fleet: Fleet) -> None:
    fleet.trained()
    words = ["--fleet", str(fleet.folder / "fleet.toml"), "--json"]

    put = fedboard("query", "mean", "--epsilon", "0.5", "--no-wait", *words)
    fleet.wait(lambda: "question-1 is answered" in fleet.log("server"), "answer")
    answer = json.loads(fedboard("query", "results", "question-1", *words))

    assert json.loads(put) == {"name": "question-1", "standing": "waiting"}
    low, high = answer["interval"]
    length = high - low  # of 95 %: three times as long it misses in one run of many millions
    assert low - length < 3.0 < high + length, "of whole ratings from 1 to 5, each as likely"
    assert length > 0.05, "there is noise"  # how long it gets is up to chance, and to who answered in time
    certificate = Certificate.from_dict(answer["certificate"])
    assert certificate.holds
    assert certificate.claim.epsilon == pytest.approx(0.5)
    assert answer["spent"] > 5.0 * (1 - 1e-9)
    given, _ = given_so_far(load_device(fleet.folder / "a" / "device.toml"))
    assert [entry.release for entry in given].count("question-1") == 1
    assert "question-1: mean of ratings" in fleet.log("server")


def test_a_device_joins_a_server_that_runs_and_is_out_as_soon_as_it_is_removed(
    fleet: Fleet, tmp_path: Path
) -> None:
    fleet.trained()
    config, home = fleet.folder / "fleet.toml", tmp_path / "ann"
    fedboard("fleet", "invite", "ann", "--config", config, "--out", tmp_path / "invitation")
    fedboard("client", "join", "--invitation", tmp_path / "invitation", "--out", home)
    server = load_device(home / "device.toml").server
    assert server is not None
    node = connection(fleet, DeviceKey.load(server.key))

    assert node.receive() is None
    fleet.wait(lambda: "ann is a member now" in fleet.log("server"), "word of the new device", 30)

    def stands() -> dict[str, Any]:
        return json.loads(fedboard("fleet", "status", "--config", config, "--json"))  # type: ignore[no-any-return]

    fleet.wait(lambda: stands()["devices"]["online"] == 5, "five devices online", 30)
    assert stands()["devices"]["versions"] == {version("fedboard"): 5}
    assert "fedboard_devices_admitted 5.0" in metrics(fleet)

    fedboard("fleet", "remove", "ann", "--config", config)
    with pytest.raises(CallError) as refused:
        node.receive()
    assert refused.value.trouble is Trouble.NOT_ADMITTED


def ports_of(pid: int) -> set[int]:
    """On which this process listens."""
    mine = {os.readlink(handle) for handle in Path(f"/proc/{pid}/fd").iterdir()}
    tables = (Path(f"/proc/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6"))
    rows = [line.split() for table in tables for line in table]
    return {
        int(row[1].rpartition(":")[2], 16)
        for row in rows
        if row[3] == _LISTENS and f"socket:[{row[9]}]" in mine
    }


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs /proc")
def test_the_server_is_one_process_with_two_ports(fleet: Fleet) -> None:
    fleet.trained()
    pid, network = fleet.pid("server"), fleet.settings.network
    assert ports_of(pid) == {network.listening.port, int(network.ops.rpartition(":")[2])}
    children = Path(f"/proc/{pid}/task/{pid}/children")
    assert not children.exists() or children.read_text() == ""


def test_the_server_ends_with_all_that_it_has_begun(fleet: Fleet) -> None:
    fleet.trained()

    assert fleet.end_all(NODES, signal.SIGTERM) == [0] * len(NODES)
    assert all(" answered, 0 refused" in fleet.log(name) for name in NODES)
    assert fleet.end("server", signal.SIGTERM) == 0

    assert "stopped; start it again" in fleet.log("server")
    assert {path.stat().st_mode & 0o077 for path in (fleet.state.path, fleet.state.door)} == {0}
    for address in (fleet.settings.network.address, fleet.settings.network.ops):
        host, _, port = address.rpartition(":")
        with socket.socket() as probe:
            assert probe.connect_ex((host, int(port))) != 0
